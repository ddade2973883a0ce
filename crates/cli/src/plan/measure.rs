//! Runs of a protocol between two threads of this process over loopback TCP: what a forecast is calibrated by.

use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_plan::{Request, Sample};
use vesica_psi::{Exact, Half, Input, Item, Output, Params, Prepared, Protocol, Security, Shares};
use vesica_wire::{
    Channel, ChannelOptions, Error, FramedChannel, NamedLink, PhaseTraffic, tcp_halves,
};

/// A run to be measured.
pub(crate) struct Run {
    pub(crate) protocol: &'static dyn Protocol,
    pub(crate) security: Security,
    /// What is run; of the fewer items half are shared.
    pub(crate) request: Request,
    pub(crate) link: NamedLink,
}

/// The value of each item, for each of a party's columns.
const VALUE: i64 = 3;

/// One party's set.
struct Set {
    items: Vec<Item>,
    numbers: Vec<u64>,
    values: Option<Vec<i64>>,
}

impl Set {
    /// The items with these numbers.
    fn new(numbers: impl Iterator<Item = u64>, exact: Option<u32>, columns: u8) -> Set {
        let numbers: Vec<u64> = numbers.collect();
        let item = |number: &u64| {
            let mut item = [0; 32];
            ChaCha20Rng::seed_from_u64(*number).fill_bytes(&mut item);
            item
        };
        let mask = u64::MAX >> (64 - exact.unwrap_or(64));
        // A product with an odd number permutes the residues modulo 2^bits.
        let spread = |number: &u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask;
        let values = numbers.len() * usize::from(columns);
        Set {
            items: numbers.iter().map(item).collect(),
            numbers: numbers.iter().map(spread).collect(),
            values: (columns > 0).then(|| vec![VALUE; values]),
        }
    }

    fn input(&self, exact: Option<u32>) -> Input<'_> {
        let input = Input::with_values(&self.items, self.values.as_deref());
        match exact {
            Some(bits) => input.with_exact(Exact {
                bits,
                numbers: &self.numbers,
            }),
            None => input,
        }
    }
}

/// What a party says of its run.
struct Ran {
    output: Output,
    seconds: f64,
    phases: Vec<PhaseTraffic>,
}

impl Run {
    /// Makes the sets, and runs both parties.
    ///
    /// # Errors
    /// The parties', and `Resource` for a result that is wrong.
    pub(crate) fn measure(&self) -> Result<Sample, Error> {
        let Request {
            sizes: [n, m],
            exact,
            values,
            ..
        } = self.request;
        let shared = n.min(m) / 2;
        let first = n - shared;
        let ours = Set::new(0..n, exact, values.receiver);
        let theirs = Set::new(first..first + m, exact, values.sender);
        let params = self.request.params(self.security);
        let params = params.expect("as many items as are in memory");
        let dealing = Instant::now();
        let [near_half, far_half] = self.halves(&params)?;
        let dealing = dealing.elapsed();
        let (near, far) = self.connected()?;
        let (start, task) = (&Barrier::new(2), self.request.task());
        let (received, sent) = std::thread::scope(|scope| {
            let (params, theirs, task) = (&params, &theirs, &task);
            let sender = scope.spawn(move || {
                self.party(far, start, |channel, rng| {
                    let prepared = far_half.unwrap_or_else(Prepared::nothing);
                    let input = theirs.input(exact);
                    self.protocol
                        .send(channel, params, task, input, prepared, rng)
                })
            });
            let received = self.party(near, start, |channel, rng| {
                channel.begin_phase("prepare");
                let prepared =
                    near_half.unwrap_or_else(|| self.protocol.prepare(ours.items.len(), rng));
                let input = ours.input(exact);
                self.protocol
                    .receive(channel, params, task, input, prepared, rng)
            });
            (received, sender.join())
        });
        let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let Ran {
            output,
            seconds,
            phases,
        } = received?;
        self.check(&output, &sent.output, shared)?;
        let offline = |phase: &&PhaseTraffic| ["prepare", "offline"].contains(&&*phase.phase);
        let prepared: f64 = phases.iter().filter(offline).map(|p| p.seconds).sum();
        let both = |phase: &PhaseTraffic| phase.bytes_sent + phase.bytes_received;
        let offline_bytes = phases.iter().filter(offline).map(both).sum();
        let bytes: u64 = phases.iter().map(both).sum();
        // Whole microseconds are the same when they are read again.
        let rounded = |seconds: f64| (seconds * 1e6).round() / 1e6;
        Ok(Sample {
            protocol: self.protocol.spec().name.to_owned(),
            security: self.security,
            reveal: self.request.reveal,
            receiver_size: n,
            sender_size: m,
            exact,
            network: self.link.name.to_owned(),
            online: rounded((seconds - prepared).max(0.0)),
            offline: rounded(prepared + dealing.as_secs_f64()),
            bytes: bytes - offline_bytes,
            offline_bytes,
        })
    }

    /// The halves of a dealer.
    fn halves(&self, params: &Params) -> Result<[Option<Prepared>; 2], Error> {
        let offline = self.protocol.offline();
        let Some(dealt) = offline.filter(|offline| offline.origin().is_dealt()) else {
            return Ok([None, None]);
        };
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        let [receiver, sender] = dealt.deal(params, self.request.exact, &mut rng)?;
        Ok([
            dealt.load(Half::Receiver, params, self.request.exact, receiver),
            dealt.load(Half::Sender, params, self.request.exact, sender),
        ])
    }

    /// Two connected channels.
    fn connected(&self) -> Result<(FramedChannel, FramedChannel), Error> {
        let pair = || {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let near = TcpStream::connect(listener.local_addr()?)?;
            let (far, _) = listener.accept()?;
            Ok::<_, std::io::Error>([tcp_halves(near)?, tcp_halves(far)?])
        };
        let halves = pair().map_err(|e| Error::Connection(e.to_string()))?;
        let [near, far] = halves.map(|(reader, writer)| {
            let options = ChannelOptions {
                link: self.link.link,
                timeout: Duration::from_secs(3600),
                ..ChannelOptions::default()
            };
            FramedChannel::new(Box::new(reader), Box::new(writer), options)
        });
        Ok((near, far))
    }

    /// Runs a party on a thread of its own; both begin together.
    fn party(
        &self,
        mut channel: FramedChannel,
        start: &Barrier,
        run: impl FnOnce(&mut dyn Channel, &mut ChaCha20Rng) -> Result<Output, Error> + Send,
    ) -> Result<Ran, Error> {
        let mut rng = ChaCha20Rng::seed_from_u64(self.request.sizes.iter().sum());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1);
        let pool = pool
            .build()
            .map_err(|e| Error::limit(vesica_wire::Limit::Threads, e))?;
        start.wait();
        let begun = Instant::now();
        let output = pool.install(|| run(&mut channel, &mut rng));
        let output = output.inspect_err(|error| channel.abort(error))?;
        Ok(Ran {
            output,
            seconds: begun.elapsed().as_secs_f64(),
            phases: channel.traffic(),
        })
    }

    /// Checks the receiver's output, with the sender's where it takes both. The receiver's last items are shared.
    fn check(&self, output: &Output, sent: &Output, shared: u64) -> Result<(), Error> {
        let Request {
            reveal,
            values,
            sizes: [n, _],
            ..
        } = self.request;
        let is_shared = |item: usize| item as u64 >= n - shared;
        let is_right = match (output, sent) {
            (Output::Matches(matched), _) => {
                matched.len() as u64 == n
                    && (0..).zip(matched).all(|(item, m)| *m == is_shared(item))
            }
            (Output::Values(found), _) => {
                let of = [values.receiver, values.sender]
                    .map(|columns| if columns > 0 { VALUE.into() } else { 0 });
                let numbers = reveal.numbers(values);
                let adds = numbers.iter().map(|(reveal, _)| reveal.adds(of));
                let expected = adds.map(|adds| Some(adds? * i128::from(shared)));
                expected.eq(found.iter().map(|value| Some(*value)))
            }
            (Output::Shares(ours), Output::Shares(theirs)) => {
                matching(ours, theirs).is_some_and(|found| {
                    found.len() as u64 == shared && found.into_iter().all(is_shared)
                })
            }
            // Without labels, and with no minimum above the matches, nothing else is right.
            _ => false,
        };
        match is_right {
            true => Ok(()),
            false => Err(Error::limit(
                vesica_wire::Limit::System,
                "the result of a measured run is wrong",
            )),
        }
    }
}

/// The receiver's items in the cells that match; `None` if the halves do not belong together.
fn matching(ours: &Shares, theirs: &Shares) -> Option<Vec<usize>> {
    let items = ours.items.as_ref()?;
    if items.len() != ours.matches.len() || ours.matches.len() != theirs.matches.len() {
        return None;
    }
    let bits = ours.matches.iter().zip(theirs.matches.iter());
    let cells = items.iter().zip(bits).filter(|(_, (a, b))| a != b);
    cells.map(|(item, _)| Some((*item)? as usize)).collect()
}

#[cfg(test)]
mod tests {
    use vesica_plan::Registry;
    use vesica_psi::{Reveal, Reveals};

    use super::*;

    fn run(reveal: Reveals) -> Run {
        let protocol = Registry::standard().revealing(reveal).next().unwrap();
        Run {
            protocol,
            security: protocol.spec().security,
            request: Request::new([50, 70], reveal, 2),
            link: vesica_wire::Link::NAMED[0],
        }
    }

    #[test]
    fn whatever_is_revealed_is_right() {
        for reveal in Reveals::all() {
            run(reveal)
                .measure()
                .unwrap_or_else(|e| panic!("{reveal}: {e}"));
        }
    }

    #[test]
    fn wrong_results_are_refused() {
        let refused = |reveal: Reveal, output, sent| {
            assert!(
                run(reveal.into()).check(&output, &sent, 25).is_err(),
                "{output:?}"
            );
        };
        let matched = |first| Output::Matches((0..50).map(|item| item >= first).collect());
        assert!(
            run(Reveal::Matches.into())
                .check(&matched(25), &Output::Nothing, 25)
                .is_ok()
        );
        refused(Reveal::Matches, matched(24), Output::Nothing);
        refused(Reveal::Matches, Output::Nothing, Output::Nothing);
        // Each would be right for another reveal.
        refused(Reveal::Size, Output::Values(vec![75]), Output::Nothing);
        refused(Reveal::Sum, Output::Values(vec![75]), Output::Nothing);
        refused(
            Reveal::InnerProduct,
            Output::Values(vec![75]),
            Output::Nothing,
        );
        let shares = |matches: Vec<bool>, items| Output::Shares(Shares::new(items, matches.into()));
        let items = Some((0..50).map(Some).collect());
        let (ours, theirs) = (shares(vec![true; 50], items), |first| {
            shares((0..50).map(|item| item < first).collect(), None)
        });
        assert!(
            run(Reveal::Shares.into())
                .check(&ours, &theirs(25), 25)
                .is_ok()
        );
        refused(Reveal::Shares, ours.clone(), theirs(26));
        refused(Reveal::Shares, ours, shares(vec![true; 49], None));
    }
}
