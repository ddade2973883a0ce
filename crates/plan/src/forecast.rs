//! What runs take: bytes, delays, seconds, memory and money of every protocol that serves.
//!
//! **Bytes and delays** are those of [`Protocol::traffic`], exact but for coded masks and for what tells the sender a result.
//!
//! **Seconds.** A fit to measured runs of the reference machine ([`Fit`](crate::fit::Fit)), times what this machine is
//! slower, by its own [`Calibration`](crate::Calibration). Over a link that takes X seconds for the bytes of both directions, one after the other, work of C seconds
//! takes max(C, X) + (1 − o)·min(C, X), where o is how far the two overlap, from runs over emulated links; each delay adds
//! half a round trip. At most [`WINDOW`] bytes are on their way in one direction, so that a long round trip limits the
//! bandwidth.
//!
//! **The interval** is two standard deviations of the fit's relative errors, more where sizes are beyond those measured, and
//! more the less is known of this machine ([`Basis`]).
//!
//! **Memory.** A fit to the peaks of both sides' processes in the same runs. What buckets go by is that of the
//! [`Spec`](vesica_psi::Spec), an upper bound on what a run adds on the side that needs more.

use std::collections::BTreeMap;

use serde::Serialize;
use vesica_psi::{
    Half, Optimize, Origin, Params, Protocol, Reveal, Reveals, Security, Spec, Task, Values,
};
use vesica_wire::{End, Frames, Link, Traffic};

use crate::buckets::{MAX_BUCKET_ITEMS, lambda_of_bucket, most_items, splits};
use crate::fit::Work;
use crate::machines::{Basis, Key, Machines, Phase};
use crate::{Bytes, Memory, Open, Prices, Registry, Setting};

/// Bytes that are on their way in one direction at most: the queue of a channel.
pub const WINDOW: u64 = 4 << 20;

/// Bytes of a row that is handed over in a union.
const ROW_BYTES: usize = 64;

/// The share of a run's work that more threads take part in.
const PARALLEL: f64 = 0.7;

/// The run that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Items of the receiver and of the sender.
    pub sizes: [u64; 2],
    /// Statistical security in bits.
    pub lambda: u32,
    /// Whether its messages have to hide both sets from a later quantum computer.
    pub post_quantum: bool,
    /// The adversary that it must withstand; all that protocols offer if `None`.
    pub security: Option<Security>,
    /// What the receiver learns.
    pub reveal: Reveals,
    /// How many values each party has for each of its items.
    pub values: Values,
    /// The least number of matches.
    pub min_size: u64,
    /// What circuits save; both ways if `None`.
    pub optimize: Option<Optimize>,
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
            post_quantum: false,
            security: None,
            reveal,
            values: reveal.fewest_values(columns),
            min_size: u64::from(!reveal.takes_minimum(0)),
            optimize: None,
            exact: None,
            threads: 1,
            link: Link::LAN,
        }
    }

    /// What the parties of the run do where circuits save this.
    pub fn task(&self, optimize: Optimize) -> Task {
        Task {
            values: self.values,
            min_size: self.min_size,
            label_bytes: if self.reveal.is_rows() { ROW_BYTES } else { 0 },
            optimize,
            ..Task::new(self.reveal)
        }
    }

    /// The parameters of a run of the protocol; `None` for sizes that this machine cannot address, or if there is no such
    /// run.
    pub fn params(&self, spec: &Spec, security: Security) -> Option<Params> {
        let [receiver, sender] = self.sizes.map(usize::try_from);
        Some(Params {
            security,
            lambda: self.lambda,
            receiver_size: receiver.ok()?,
            sender_size: sender.ok()?,
            key_agreement: spec.key_agreement(self.post_quantum)?,
            session: [0; 32],
        })
    }

    /// How many buckets there are at least where a protocol takes at most so many items at once, and the run over one of them;
    /// `None` if it takes no sets of these sizes.
    fn in_buckets(&self, max_items: u64) -> Option<(u32, Request)> {
        if self.sizes.iter().any(|size| *size > most_items(max_items)) {
            return None;
        }
        let (split, _) = splits(self.sizes, self.lambda, max_items, |_, _| 0).next()?;
        let each = Request {
            sizes: [split.receiver, split.sender],
            lambda: lambda_of_bucket(self.lambda, split.buckets),
            ..*self
        };
        Some((split.buckets, each))
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

/// What a run of one protocol takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forecast {
    /// The protocol's name.
    pub protocol: &'static str,
    /// The adversary that the run withstands.
    pub security: Security,
    /// What it saves. Only for circuits are there two ways.
    pub optimize: Optimize,
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
    /// What the processes of both sides hold at most, with one thread and a table of one key column; of several buckets, for
    /// one of them.
    pub peak_memory_bytes: Memory,
    /// What `--memory` is compared with: a bound on what the run adds on the side that needs more, with one thread.
    pub memory_bytes: u64,
    /// The buckets of the run: more than one only where a set is larger than what the protocol takes at once.
    pub buckets: u32,
    /// By setting of the prices.
    pub usd: BTreeMap<String, f64>,
    /// Whether a run takes it that leaves the choice open.
    pub is_auto: bool,
}

impl Forecast {
    /// Of so many such runs, one after the other.
    fn repeated(mut self, buckets: u32) -> Forecast {
        let (times, all) = (f64::from(buckets), u64::from(buckets));
        let Interval { likely, low, high } = &mut self.seconds;
        let seconds = [
            likely,
            low,
            high,
            &mut self.online_seconds,
            &mut self.offline_seconds,
        ];
        seconds.into_iter().for_each(|seconds| *seconds *= times);
        self.usd.values_mut().for_each(|usd| *usd *= times);
        let Bytes {
            receiver_to_sender,
            sender_to_receiver,
            offline,
            dealer_to_receiver,
        } = &mut self.bytes;
        let numbers = [
            receiver_to_sender,
            sender_to_receiver,
            offline,
            dealer_to_receiver,
            &mut self.delays,
        ];
        numbers.into_iter().for_each(|number| *number *= all);
        self.buckets = buckets;
        self
    }
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

impl Machines {
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

    /// What circuits save that finish sooner over this link: `circuit-okvs` with 2^18 items each on the reference machine.
    pub fn faster_way(link: Link) -> Optimize {
        let (machines, registry) = (Machines::new(None, None), Registry::standard());
        let request = Request {
            link,
            ..Request::new([1 << 18; 2], Reveal::Size.into(), 1)
        };
        let seconds = |optimize| {
            let okvs = registry.get("circuit-okvs")?;
            let security = okvs.spec().security;
            let forecast = machines.forecast(okvs, security, optimize, &request, &[])?;
            Some(forecast.seconds.likely)
        };
        match seconds(Optimize::Traffic) < seconds(Optimize::Time) {
            true => Optimize::Traffic,
            false => Optimize::Time,
        }
    }

    /// What every protocol that serves takes, the fastest first.
    fn forecasts(&self, registry: &Registry, request: &Request, prices: &Prices) -> Vec<Forecast> {
        let strongest = registry
            .revealing(request.reveal)
            .map(|p| p.spec().security);
        let security = request.security.or(strongest.max());
        let auto = security.and_then(|security| {
            let open = Open {
                // Of larger sets it is those of a bucket, as in runs.
                sizes: request.sizes.map(|size| size.min(MAX_BUCKET_ITEMS)),
                reveal: request.reveal,
                security,
                lambda: request.lambda,
                exact: request.exact,
                post_quantum: request.post_quantum,
                has_labels: false,
            };
            let spec = registry.auto(&open).first()?.spec();
            Some((spec.name, spec.runs(security)))
        });
        let mut all = Vec::new();
        for protocol in registry.revealing(request.reveal) {
            let name = protocol.spec().name;
            for security in protocol.spec().forms() {
                if request.security.is_some_and(|asked| security < asked) {
                    continue;
                }
                let ways = [Optimize::Time, Optimize::Traffic].map(|optimize| {
                    self.forecast(protocol, security, optimize, request, &prices.settings)
                });
                let [Some(time), Some(traffic)] = ways else {
                    continue;
                };
                let is_one_way = time.bytes == traffic.bytes;
                let mut asked: Vec<_> = match request.optimize {
                    None if !is_one_way => vec![time, traffic],
                    Some(Optimize::Traffic) if !is_one_way => vec![traffic],
                    _ => vec![time],
                };
                // What a run saves that asks for nothing is the first way.
                asked[0].is_auto = auto == Some((name, security));
                all.extend(asked);
            }
        }
        all.sort_by(|a, b| a.seconds.likely.total_cmp(&b.seconds.likely));
        all
    }

    /// What a run of a protocol takes; `None` if there is no such run, or none of the protocol was ever measured. Sets that
    /// are larger than what the protocol takes at once are divided into buckets, which run one after the other.
    pub fn forecast(
        &self,
        protocol: &dyn Protocol,
        security: Security,
        optimize: Optimize,
        request: &Request,
        prices: &[Setting],
    ) -> Option<Forecast> {
        let (buckets, each) = request.in_buckets(protocol.spec().max_items)?;
        let forecast = self.forecast_once(protocol, security, optimize, &each, prices)?;
        Some(forecast.repeated(buckets))
    }

    /// The same for a run in one bucket.
    fn forecast_once(
        &self,
        protocol: &dyn Protocol,
        security: Security,
        optimize: Optimize,
        request: &Request,
        prices: &[Setting],
    ) -> Option<Forecast> {
        let (spec, task) = (protocol.spec(), request.task(optimize));
        let exact = spec.compares(request.exact).map(|(_, bits)| bits);
        let lambda = protocol.max_lambda(request.reveal, request.sizes, exact);
        if request.sizes.iter().any(|size| *size > spec.max_items)
            || lambda.is_some_and(|most| request.lambda > most)
            || !request.reveal.takes_values(request.values)
            || !request.reveal.takes_minimum(request.min_size)
        {
            return None;
        }
        let params = &request.params(spec, security)?;
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
        // With stored halves a run begins with a frame of each party: it has taken its own.
        let taken = dealt.map_or(0, |_| Frames::one(0).bytes());
        let mut delays = [&run, &online].map(|traffic| traffic.delays() + u64::from(taken > 0));
        delays[0] += dealt.map_or(0, |offline| dealing_delays(offline.origin()));
        let total = |traffic: &Traffic| traffic.bytes(End::Receiver) + traffic.bytes(End::Sender);
        let bytes = Bytes {
            receiver_to_sender: run.bytes(End::Receiver) + taken,
            sender_to_receiver: run.bytes(End::Sender) + taken,
            offline: total(&run) - total(&online),
            dealer_to_receiver,
        };
        let key = Key {
            protocol: spec.name.to_owned(),
            security,
            reveal: request.reveal,
            optimize,
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
                delays[0] - delays[1],
            ),
            (Phase::Online, total(&online) + 2 * taken, delays[1]),
        ];
        let apart = 1.0 - Machines::overlap(&key);
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
        let [receiver, sender] = Machines::memory(&key, &work(bytes.total()))?;
        let usd = prices.iter();
        let usd = usd.map(|setting| (setting.name.clone(), setting.usd(likely, sent)));
        Some(Forecast {
            protocol: spec.name,
            security,
            optimize,
            bytes,
            delays: delays[0],
            seconds: Interval::new(likely, spread),
            online_seconds,
            offline_seconds,
            basis,
            peak_memory_bytes: Memory {
                receiver: Some(receiver),
                sender: Some(sender),
            },
            memory_bytes: protocol.working_bytes(&task, request.sizes, exact, request.lambda),
            buckets: 1,
            usd: usd.collect(),
            is_auto: false,
        })
    }
}

/// One-way delays until both parties have stored what others make. A dealer is asked, hands out the halves, hears that they
/// are stored and says so. Generators stand beside their parties, and send each other keys, a ciphertext, reports and that
/// word.
fn dealing_delays(origin: Origin) -> u64 {
    match origin {
        Origin::Dealer => 4,
        Origin::Generators => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
