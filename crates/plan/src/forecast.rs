//! What runs take: bytes, delays, seconds, memory and money of every protocol that serves.
//!
//! **Bytes and delays** are those of [`Protocol::traffic`], exact but for coded masks and for what tells the sender a result.
//!
//! **Seconds.** A fit to measured runs of the reference machine ([`Fit`]), times what this machine is slower, by its own
//! [`Calibration`]. Over a link that takes X seconds for the bytes of both directions, one after the other, work of C seconds
//! takes max(C, X) + (1 − o)·min(C, X), where o is how far the two overlap, from runs over emulated links; each delay adds
//! half a round trip. At most [`WINDOW`] bytes are on their way in one direction, so that a long round trip limits the
//! bandwidth.
//!
//! **The interval** is two standard deviations of the fit's relative errors, more where sizes are beyond those measured, and
//! more the less is known of this machine ([`Basis`]).
//!
//! **Memory** is that of the [`Spec`](vesica_psi::Spec), of the side that needs more.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;
use vesica_psi::{Half, Optimize, Origin, Params, Protocol, Reveals, Security, Task, Values};
use vesica_wire::{End, Link, Traffic};

use crate::fit::{Fit, Work, factors};
use crate::{Calibration, Prices, Registry, Sample};

/// Bytes that are on their way in one direction at most: the queue of a channel.
pub const WINDOW: u64 = 4 << 20;

/// The share of a run's work that more threads take part in.
const PARALLEL: f64 = 0.7;

/// How far work and transfers overlap where nothing was measured.
const OVERLAP: f64 = 0.5;

/// The runs of the reference machine: `data/reference.json`.
static REFERENCE: LazyLock<Calibration> = LazyLock::new(|| {
    let reference = Calibration::parse(include_str!("../data/reference.json"));
    reference.expect("the runs that come with this crate")
});

/// The run that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Items of the receiver and of the sender.
    pub sizes: [u64; 2],
    /// Statistical security in bits.
    pub lambda: u32,
    /// The adversary that it must withstand; all that protocols offer if `None`.
    pub security: Option<Security>,
    /// What the receiver learns.
    pub reveal: Reveals,
    /// How many values each party has for each of its items.
    pub values: Values,
    /// The least number of matches.
    pub min_size: u64,
    /// What circuits save.
    pub optimize: Optimize,
    /// Bits of items that are numbers.
    pub exact: Option<u32>,
    /// Threads of each party.
    pub threads: u32,
    /// What connects the parties.
    pub link: Link,
}

impl Request {
    /// For a reveal over sets of these sizes, with the usual security, a thread for each party and no link to slow them
    /// down. Sums are of so many columns of the sender's.
    pub fn new(sizes: [u64; 2], reveal: Reveals, columns: u8) -> Request {
        Request {
            sizes,
            lambda: 40,
            security: None,
            reveal,
            values: reveal.fewest_values(columns),
            min_size: u64::from(!reveal.takes_minimum(0)),
            optimize: Optimize::Time,
            exact: None,
            threads: 1,
            link: Link::LAN,
        }
    }

    /// What the parties of the run do.
    pub fn task(&self) -> Task {
        Task {
            values: self.values,
            min_size: self.min_size,
            optimize: self.optimize,
            ..Task::new(self.reveal)
        }
    }

    /// The parameters of the run; `None` for sizes that this machine cannot address.
    pub fn params(&self, security: Security) -> Option<Params> {
        let [receiver, sender] = self.sizes.map(usize::try_from);
        Some(Params {
            security,
            lambda: self.lambda,
            receiver_size: receiver.ok()?,
            sender_size: sender.ok()?,
            session: [0; 32],
        })
    }

    /// Seconds that the link takes for so many bytes, without delays.
    fn transfer(&self, bytes: u64) -> f64 {
        let rtt = self.link.rtt.as_secs_f64();
        let window = WINDOW as f64 * 8.0 / (rtt / 2.0).max(1e-9);
        let rate = self
            .link
            .bits_per_second
            .map_or(window, |rate| window.min(rate as f64));
        bytes as f64 * 8.0 / rate
    }
}

/// What an interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// This machine has run the same.
    ThisRun,
    /// It has run the protocol for another result.
    ThisProtocol,
    /// It has run other protocols.
    ThisMachine,
    /// The runs are those of the reference machine, and this one is as fast at AES as it is said to be.
    Reference,
}

impl Basis {
    /// What it adds to the relative error.
    fn spread(self) -> f64 {
        match self {
            Basis::ThisRun => 0.1,
            Basis::ThisProtocol => 0.25,
            Basis::ThisMachine => 0.5,
            Basis::Reference => 1.0,
        }
    }
}

/// A time, between two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The likely value.
    pub likely: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    fn new(likely: f64, spread: f64) -> Interval {
        Interval {
            likely,
            low: likely / (1.0 + spread),
            high: likely * (1.0 + spread),
        }
    }
}

/// Bytes each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// From the receiver.
    pub receiver_to_sender: u64,
    /// From the sender.
    pub sender_to_receiver: u64,
    /// Of these, what needs no items.
    pub offline: u64,
    /// From a dealer to the receiver, besides.
    pub dealer_to_receiver: u64,
}

impl Bytes {
    /// Both ways.
    pub fn total(&self) -> u64 {
        self.receiver_to_sender + self.sender_to_receiver
    }
}

/// What a run of one protocol takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The protocol's name.
    pub protocol: &'static str,
    /// The adversary that the run withstands.
    pub security: Security,
    /// On the wire, framing included, TLS not.
    pub bytes: Bytes,
    /// One-way delays of the network: half as many round trips.
    pub delays: u64,
    /// Of the whole run, from the agreed contract to the result.
    pub seconds: Interval,
    /// Seconds of what needs items.
    pub online_seconds: f64,
    /// Seconds of what needs none.
    pub offline_seconds: f64,
    /// What the interval rests on.
    pub basis: Basis,
    /// Of the side that needs more, with one thread.
    pub memory_bytes: u64,
    /// By setting of the prices.
    pub usd: BTreeMap<String, f64>,
    /// Whether a run takes it that leaves the choice open.
    pub is_auto: bool,
}

/// What every protocol that serves takes, and the best of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// Items of the receiver.
    pub receiver_size: u64,
    /// Items of the sender.
    pub sender_size: u64,
    /// What the receiver learns.
    pub reveal: Reveals,
    /// Statistical security in bits.
    pub lambda: u32,
    /// The link as text.
    pub network: String,
    /// Threads of each party.
    pub threads: u32,
    /// The protocol that takes the least time.
    pub fastest: &'static str,
    /// The protocol that sends the fewest bytes.
    pub smallest: &'static str,
    /// The protocol that costs the least in the first setting of the prices.
    pub cheapest: &'static str,
    /// The protocol of a run that leaves the choice open, if it serves.
    pub auto: Option<&'static str>,
    /// The names of the settings.
    pub price_settings: Vec<String>,
    /// Of every protocol that serves, the fastest first.
    pub forecasts: Vec<Forecast>,
}

/// What is known of machines.
pub struct Machines {
    reference: &'static Calibration,
    local: Option<Calibration>,
    /// By how much this machine is slower than the reference at AES.
    slower: f64,
}

impl Machines {
    /// The reference machine, and this one: its calibration, or else its AES blocks per second.
    pub fn new(local: Option<Calibration>, yardstick: Option<u64>) -> Machines {
        let reference = &*REFERENCE;
        let of_reference = reference.yardstick_aes_blocks_per_second as f64;
        let slower = yardstick.map_or(1.0, |own| of_reference / own.max(1) as f64);
        Machines {
            reference,
            local,
            slower,
        }
    }

    /// The runs of the reference machine.
    pub fn reference() -> &'static Calibration {
        &REFERENCE
    }

    /// What every protocol that serves takes, and the best of them; `None` if none does.
    pub fn answer(
        &self,
        registry: &Registry,
        request: &Request,
        prices: &Prices,
    ) -> Option<Answer> {
        let forecasts = self.forecasts(registry, request, prices);
        let least = |of: &dyn Fn(&Forecast) -> f64| {
            let least = forecasts.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
            least.map(|forecast| forecast.protocol)
        };
        let setting = prices.settings.first().map(|setting| &setting.name);
        let usd = |forecast: &Forecast| setting.and_then(|name| forecast.usd.get(name).copied());
        let [receiver_size, sender_size] = request.sizes;
        Some(Answer {
            receiver_size,
            sender_size,
            reveal: request.reveal,
            lambda: request.lambda,
            network: request.link.to_string(),
            threads: request.threads,
            fastest: least(&|forecast| forecast.seconds.likely)?,
            smallest: least(&|forecast| forecast.bytes.total() as f64)?,
            cheapest: least(&|forecast| usd(forecast).unwrap_or_default())?,
            auto: forecasts.iter().find(|f| f.is_auto).map(|f| f.protocol),
            price_settings: prices.settings.iter().map(|s| s.name.clone()).collect(),
            forecasts,
        })
    }

    /// What every protocol that serves takes, the fastest first.
    fn forecasts(&self, registry: &Registry, request: &Request, prices: &Prices) -> Vec<Forecast> {
        let mut all = Vec::new();
        let serving: Vec<_> = registry.revealing(request.reveal).collect();
        let [n, m] = request.sizes;
        let auto = registry.auto(request.reveal, n, m);
        for protocol in serving {
            let spec = protocol.spec();
            // The strongest form that serves is what auto takes.
            let mut is_auto = auto.is_some_and(|auto| auto.spec().name == spec.name);
            for security in spec.forms() {
                if request.security.is_some_and(|asked| security < asked) {
                    continue;
                }
                let forecast = self.forecast(protocol, security, request, prices);
                if let Some(mut forecast) = forecast {
                    forecast.is_auto = std::mem::take(&mut is_auto);
                    all.push(forecast);
                }
            }
        }
        all.sort_by(|a, b| a.seconds.likely.total_cmp(&b.seconds.likely));
        all
    }

    /// What a run of a protocol takes; `None` if there is no such run, or none of the protocol was ever measured.
    fn forecast(
        &self,
        protocol: &dyn Protocol,
        security: Security,
        request: &Request,
        prices: &Prices,
    ) -> Option<Forecast> {
        let (spec, task) = (protocol.spec(), request.task());
        let exact = spec.compares(request.exact).map(|(_, bits)| bits);
        let lambda = spec.max_lambda_of(request.sizes, exact);
        if request.sizes.iter().any(|size| *size > spec.max_items)
            || lambda.is_some_and(|most| request.lambda > most)
            || !request.reveal.takes_values(request.values)
            || !request.reveal.takes_minimum(request.min_size)
        {
            return None;
        }
        let params = &request.params(security)?;
        let offline = protocol.offline();
        let dealt = offline.filter(|offline| offline.origin().is_dealt());
        let traffic = |is_stored| protocol.traffic(params, &task, exact, is_stored);
        let run = traffic(dealt.is_some())?;
        let online = match offline {
            Some(_) => traffic(true)?,
            None => run,
        };
        // A generator hands out its half where it is made.
        let from_dealer = dealt.filter(|offline| offline.origin() == Origin::Dealer);
        let dealer_to_receiver = match from_dealer {
            Some(dealt) => dealt.dealt_bytes(Half::Receiver, params, exact).ok()? as u64,
            None => 0,
        };
        let total = |traffic: &Traffic| traffic.bytes(End::Receiver) + traffic.bytes(End::Sender);
        let bytes = Bytes {
            receiver_to_sender: run.bytes(End::Receiver),
            sender_to_receiver: run.bytes(End::Sender),
            offline: total(&run) - total(&online),
            dealer_to_receiver,
        };
        let key = Key {
            protocol: spec.name,
            security,
            reveal: request.reveal,
            has_numbers: exact.is_some(),
        };
        let [receiver_size, sender_size] = request.sizes;
        let work = |bytes| Work {
            receiver_size,
            sender_size,
            bytes,
        };
        let phases = [
            (
                Phase::Offline,
                bytes.offline + dealer_to_receiver,
                run.delays() - online.delays(),
            ),
            (Phase::Online, total(&online), online.delays()),
        ];
        let apart = 1.0 - self.overlap(&key);
        let mut seconds = [0.0; 2];
        let (mut spread, mut basis) = (0.0, Basis::ThisRun);
        for ((phase, sent, delays), seconds) in phases.into_iter().zip(&mut seconds) {
            let computed = match self.compute(&key, phase, &work(sent)) {
                Some(computed) => computed,
                // Nothing to be done.
                None if phase == Phase::Offline => continue,
                None => return None,
            };
            let share = 1.0 - PARALLEL + PARALLEL / f64::from(request.threads.max(1));
            let (compute, transfer) = (computed.seconds * share, request.transfer(sent));
            *seconds = compute.max(transfer)
                + apart * compute.min(transfer)
                + delays as f64 * request.link.rtt.as_secs_f64() / 2.0;
            spread = f64::max(spread, computed.spread);
            basis = basis.max(computed.basis);
        }
        if request.threads > 1 {
            spread += 0.25;
        }
        let [offline_seconds, online_seconds] = seconds;
        let likely = offline_seconds + online_seconds;
        let sent = [bytes.receiver_to_sender, bytes.sender_to_receiver];
        let usd = prices.settings.iter();
        let usd = usd.map(|setting| (setting.name.clone(), setting.usd(likely, sent)));
        Some(Forecast {
            protocol: spec.name,
            security,
            bytes,
            delays: run.delays(),
            seconds: Interval::new(likely, spread),
            online_seconds,
            offline_seconds,
            basis,
            memory_bytes: protocol.working_bytes(&task, request.sizes, exact, request.lambda),
            usd: usd.collect(),
            is_auto: false,
        })
    }

    /// Seconds of work on this machine.
    fn compute(&self, key: &Key, phase: Phase, work: &Work) -> Option<Computed> {
        let (fit, is_same) = self.fit(key, phase)?;
        let parts = fit.parts(work);
        let local = self.local.iter().flat_map(|local| &local.samples);
        let mut local: Vec<(Closeness, &Sample)> = local
            .filter(|sample| sample.network == Link::NAMED[0].name && phase.seconds(sample) > 0.0)
            .map(|sample| (key.closeness(sample), sample))
            .collect();
        local.sort_by_key(|(closeness, _)| *closeness);
        let closest = local.first().map(|(closeness, _)| *closeness);
        let closest = closest.unwrap_or(Closeness::Other);
        let runs = local
            .iter()
            .take_while(|(closeness, _)| *closeness == closest);
        let runs = runs.filter_map(|(_, sample)| {
            let (fit, _) = self.fit(&Key::of(sample), phase)?;
            Some((fit.parts(&phase.work(sample)), phase.seconds(sample)))
        });
        let runs: Vec<_> = runs.collect();
        let (factors, basis) = match factors(&runs) {
            Some(factors) => (factors, closest.basis()),
            None => ([self.slower; 2], Basis::Reference),
        };
        let other = if is_same { 0.0 } else { 0.5 };
        let products = parts
            .iter()
            .zip(factors)
            .map(|(part, factor)| part * factor);
        Some(Computed {
            seconds: products.sum(),
            spread: fit.spread_at(work) + basis.spread() + other,
            basis,
        })
    }

    /// The fit of the closest runs of the reference machine, and whether they are the same.
    fn fit(&self, key: &Key, phase: Phase) -> Option<(Fit, bool)> {
        let lan = self.reference.samples.iter();
        let lan = lan.filter(|sample| sample.network == Link::NAMED[0].name);
        let closeness = lan.clone().map(|sample| key.closeness(sample)).min()?;
        if closeness == Closeness::Other {
            return None;
        }
        let runs = lan.filter(|sample| key.closeness(sample) == closeness);
        let runs: Vec<_> = runs.map(|s| (phase.work(s), phase.seconds(s))).collect();
        Some((Fit::new(&runs)?, closeness == Closeness::Same))
    }

    /// How far work and transfers overlap, from runs over links without delays.
    fn overlap(&self, key: &Key) -> f64 {
        let fits = [Phase::Offline, Phase::Online]
            .map(|phase| self.fit(key, phase).map(|(fit, _)| (phase, fit)));
        let overlap = |sample: &Sample| {
            let link = Link::from_name(&sample.network)?;
            let rate = link.bits_per_second.filter(|_| link.rtt.is_zero())?;
            let compute = fits.iter().flatten();
            let compute = compute.flat_map(|(phase, fit)| fit.parts(&phase.work(sample)));
            let compute: f64 = compute.sum();
            let transfer = (sample.bytes + sample.offline_bytes) as f64 * 8.0 / rate as f64;
            let apart = (sample.seconds() - compute.max(transfer)) / compute.min(transfer);
            Some((1.0 - apart).clamp(0.0, 1.0))
        };
        let samples = self.reference.samples.iter();
        let same = samples.filter(|sample| key.closeness(sample) == Closeness::Same);
        let found: Vec<f64> = same.filter_map(overlap).collect();
        match found.is_empty() {
            true => OVERLAP,
            false => found.iter().sum::<f64>() / found.len() as f64,
        }
    }
}

/// Seconds of work, and how sure they are.
struct Computed {
    seconds: f64,
    spread: f64,
    basis: Basis,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Offline,
    Online,
}

impl Phase {
    fn seconds(self, sample: &Sample) -> f64 {
        match self {
            Phase::Offline => sample.offline,
            Phase::Online => sample.online,
        }
    }

    fn work(self, sample: &Sample) -> Work {
        Work {
            receiver_size: sample.receiver_size,
            sender_size: sample.sender_size,
            bytes: match self {
                Phase::Offline => sample.offline_bytes,
                Phase::Online => sample.bytes,
            },
        }
    }
}

/// What runs have in common that sizes tell apart.
struct Key<'a> {
    protocol: &'a str,
    security: Security,
    reveal: Reveals,
    has_numbers: bool,
}

/// How much a measured run tells about another one, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    /// But for sizes the same.
    Same,
    /// Of the same protocol.
    Protocol,
    Other,
}

impl Closeness {
    fn basis(self) -> Basis {
        match self {
            Closeness::Same => Basis::ThisRun,
            Closeness::Protocol => Basis::ThisProtocol,
            Closeness::Other => Basis::ThisMachine,
        }
    }
}

impl<'a> Key<'a> {
    fn of(sample: &'a Sample) -> Key<'a> {
        Key {
            protocol: &sample.protocol,
            security: sample.security,
            reveal: sample.reveal,
            has_numbers: sample.exact.is_some(),
        }
    }

    fn closeness(&self, sample: &Sample) -> Closeness {
        let other = Key::of(sample);
        match self.protocol == other.protocol {
            true if (self.security, self.reveal, self.has_numbers)
                == (other.security, other.reveal, other.has_numbers) =>
            {
                Closeness::Same
            }
            true => Closeness::Protocol,
            false => Closeness::Other,
        }
    }
}

#[cfg(test)]
mod tests;
