//! Runs of a protocol between two threads of this process over loopback TCP: what a forecast is calibrated by.

use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_plan::Sample;
use vesica_psi::{
    Exact, Half, Input, Item, Output, Params, Prepared, Protocol, Reveals, Security, Task, Values,
};
use vesica_wire::{
    Channel, ChannelOptions, Error, FramedChannel, NamedLink, PhaseTraffic, tcp_halves,
};

/// A run to be measured.
pub(crate) struct Run {
    pub(crate) protocol: &'static dyn Protocol,
    pub(crate) security: Security,
    pub(crate) reveal: Reveals,
    pub(crate) values: Values,
    /// Items of the receiver and of the sender, half of the fewer shared.
    pub(crate) sizes: [usize; 2],
    /// Bits of items that are numbers.
    pub(crate) exact: Option<u32>,
    pub(crate) link: NamedLink,
    /// Threads of each party.
    pub(crate) threads: usize,
}

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
            values: (columns > 0).then(|| vec![3; values]),
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
        let [n, m] = self.sizes.map(|size| size as u64);
        let shared = n.min(m) / 2;
        let first = n - shared;
        let ours = Set::new(0..n, self.exact, self.values.receiver);
        let theirs = Set::new(first..first + m, self.exact, self.values.sender);
        let params = Params {
            security: self.security,
            lambda: 40,
            receiver_size: ours.items.len(),
            sender_size: theirs.items.len(),
            session: [5; 32],
        };
        let dealing = Instant::now();
        let [near_half, far_half] = self.halves(&params)?;
        let dealing = dealing.elapsed();
        let (near, far) = self.connected()?;
        let start = &Barrier::new(2);
        let (received, sent) = std::thread::scope(|scope| {
            let (params, theirs) = (&params, &theirs);
            let sender = scope.spawn(move || {
                self.party(far, start, |channel, task, rng| {
                    let prepared = far_half.unwrap_or_else(Prepared::nothing);
                    let input = theirs.input(self.exact);
                    self.protocol
                        .send(channel, params, task, input, prepared, rng)
                })
            });
            let received = self.party(near, start, |channel, task, rng| {
                channel.begin_phase("prepare");
                let prepared =
                    near_half.unwrap_or_else(|| self.protocol.prepare(ours.items.len(), rng));
                let input = ours.input(self.exact);
                self.protocol
                    .receive(channel, params, task, input, prepared, rng)
            });
            (received, sender.join())
        });
        sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let Ran {
            output,
            seconds,
            phases,
        } = received?;
        self.check(&output, shared)?;
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
            reveal: self.reveal,
            receiver_size: n,
            sender_size: m,
            exact: self.exact,
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
        let [receiver, sender] = dealt.deal(params, self.exact, &mut rng)?;
        Ok([
            dealt.load(Half::Receiver, params, self.exact, receiver),
            dealt.load(Half::Sender, params, self.exact, sender),
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

    /// Runs a party on threads of its own; both begin together.
    fn party(
        &self,
        mut channel: FramedChannel,
        start: &Barrier,
        run: impl FnOnce(&mut dyn Channel, &Task, &mut ChaCha20Rng) -> Result<Output, Error> + Send,
    ) -> Result<Ran, Error> {
        let task = Task {
            values: self.values,
            min_size: match self.reveal.takes_minimum(0) {
                true => 0,
                false => 1,
            },
            ..Task::new(self.reveal)
        };
        let mut rng = ChaCha20Rng::seed_from_u64(self.sizes.iter().sum::<usize>() as u64);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads);
        let pool = pool
            .build()
            .map_err(|e| Error::limit(vesica_wire::Limit::Threads, e))?;
        start.wait();
        let begun = Instant::now();
        let output = pool.install(|| run(&mut channel, &task, &mut rng));
        let output = output.inspect_err(|error| channel.abort(error))?;
        Ok(Ran {
            output,
            seconds: begun.elapsed().as_secs_f64(),
            phases: channel.traffic(),
        })
    }

    /// Checks what can be told at once.
    fn check(&self, output: &Output, shared: u64) -> Result<(), Error> {
        let is_right = match output {
            Output::Matches(matched) => {
                matched.iter().filter(|matched| **matched).count() as u64 == shared
            }
            Output::Values(values) => values.iter().all(|value| {
                let per_match = [1, 3, 9].map(|each| each * i128::from(shared));
                per_match.contains(value)
            }),
            Output::Shares(_) => true,
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
