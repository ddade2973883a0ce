//! One party by itself, which has all processors of the machine: its peer is a recording.
//!
//! Both parties agree and run once, in this process. Then the party runs again under the same contract and with the same
//! randomness, and takes what the peer sent from memory. It sends the same again, which is checked.

use std::collections::VecDeque;
use std::time::Instant;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use serde::Serialize;
use vesica::Role;
use vesica_files::many;
use vesica_psi::{Output, Spec, Values};
use vesica_session::terms::{NORMALIZATION, REVEAL};
use vesica_session::{
    Agreement, Checkpoint, Error as SessionError, Job, KeyBlock, ProtocolRequest, Terms, agree,
    run_whole_with, with_threads,
};
use vesica_wire::{
    Channel, Error as WireError, FramedChannel, HEADER_BYTES, Kind, Limit, PhaseTraffic,
    memory_pair,
};

use super::machine;
use super::result::median;
use crate::args::Bench;
use crate::failure::{Failure, RESOURCE};

/// Frames in their order.
type Frames = VecDeque<(Kind, Vec<u8>)>;

/// A channel that keeps what passes.
struct Recorder {
    inner: FramedChannel,
    sent: Frames,
    received: Frames,
}

impl Channel for Recorder {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        self.sent.push_back((kind, payload.clone()));
        self.inner.send(kind, payload)
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        let payload = self.inner.recv(kind, max)?;
        self.received.push_back((kind, payload.clone()));
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.inner.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.inner.begin_phase(name);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.inner.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        self.inner.abort(why);
    }
}

/// A channel to the recorded peer.
struct Played {
    sent: Frames,
    received: Frames,
    phases: Vec<(PhaseTraffic, Instant)>,
}

impl Played {
    fn new(sent: &Frames, received: &Frames) -> Played {
        let mut played = Played {
            sent: sent.clone(),
            received: received.clone(),
            phases: Vec::new(),
        };
        played.begin_phase("items");
        played
    }

    fn count(&mut self, add: impl FnOnce(&mut PhaseTraffic)) {
        if let Some((phase, _)) = self.phases.last_mut() {
            add(phase);
        }
    }
}

/// The party did not do what it did before.
fn another_run() -> WireError {
    WireError::limit(Limit::Input, "the party does not repeat its recorded run")
}

impl Channel for Played {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        self.count(|phase| phase.bytes_sent += (HEADER_BYTES + payload.len()) as u64);
        match self.sent.pop_front() {
            Some((recorded, sent)) if recorded == kind && sent == payload => Ok(()),
            _ => Err(another_run()),
        }
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        let (recorded, payload) = self.received.pop_front().ok_or_else(another_run)?;
        if recorded != kind || payload.len() > max {
            return Err(another_run());
        }
        self.count(|phase| phase.bytes_received += (HEADER_BYTES + payload.len()) as u64);
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    fn begin_phase(&mut self, name: &'static str) {
        let began = Instant::now();
        if let Some((last, since)) = self.phases.last_mut() {
            last.seconds = since.elapsed().as_secs_f64();
        }
        let phase = PhaseTraffic {
            phase: name.to_owned(),
            bytes_sent: 0,
            bytes_received: 0,
            seconds: 0.0,
        };
        self.phases.push((phase, began));
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.phases.iter().map(|(phase, _)| phase.clone()).collect()
    }

    fn abort(&mut self, _: &WireError) {}
}

/// A side of the run.
struct Side {
    role: Role,
    job: Job,
    digests: Vec<[u8; 32]>,
    seed: u64,
}

impl Side {
    fn new(role: Role, options: &Bench, protocol: Option<&Spec>, terms: &Terms) -> Side {
        let mut job = Job::new(role, Vec::new());
        job.terms = terms.clone();
        job.terms.set(&NORMALIZATION, vec!["exact/1".to_owned()]);
        if let Some(protocol) = protocol {
            job.protocol = ProtocolRequest::named(protocol.name);
        }
        let (size, stream) = match role {
            Role::Receiver => (options.receiver_size, 1),
            Role::Sender => (options.sender_size(), 2),
        };
        let shared = options.receiver_size.min(options.sender_size()) / 2;
        let generator = |stream| {
            let mut generator = ChaCha20Rng::seed_from_u64(options.seed);
            generator.set_stream(stream);
            generator
        };
        let (mut common, mut own) = (generator(0), generator(stream));
        let digest = |item: u64| {
            let mut digest = [0; 32];
            match item < shared {
                true => common.fill_bytes(&mut digest),
                false => own.fill_bytes(&mut digest),
            }
            digest
        };
        Side {
            role,
            job,
            digests: (0..size).map(digest).collect(),
            seed: options.seed ^ stream,
        }
    }

    fn agree(&self, channel: &mut dyn Channel) -> Result<Agreement, SessionError> {
        let items = self.digests.len() as u64;
        agree(channel, &self.job, items, &Checkpoint::Nothing, None, None)
    }

    /// The run over the whole set; no secret is anybody's here.
    fn run(&self, channel: &mut dyn Channel, with: &Agreement) -> Result<Output, SessionError> {
        let keys = KeyBlock::from(&self.digests[..]);
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed);
        run_whole_with(channel, self.role, with, keys, &mut rng)
    }
}

#[derive(Serialize)]
struct Measured {
    alone: Role,
    protocol: String,
    security: String,
    reveal: String,
    receiver_size: u64,
    sender_size: u64,
    threads: usize,
    runs: u32,
    /// From the agreed contract to the result.
    seconds: f64,
    phases: Vec<PhaseTraffic>,
    yardstick_aes_blocks_per_second: u64,
    machine: String,
}

/// Measures a party by itself; the text to print.
pub(super) fn measure(
    options: &Bench,
    role: Role,
    protocol: Option<&Spec>,
    terms: &Terms,
    yardstick: u64,
) -> Result<String, Failure> {
    let reveal = terms.get(&REVEAL);
    if reveal.fewest_values(1) != Values::NONE || reveal.is_rows() || reveal.is_ids() {
        return Err(Failure::usage(
            "a party with values, rows or ids is not measured by itself",
        ));
    }
    let side = |role| Side::new(role, options, protocol, terms);
    let (ours, theirs) = (side(role), side(role.other()));
    let threads = Some(options.threads);
    let (near, mut far) = memory_pair();
    let (agreement, mut recorder, expected) = std::thread::scope(|scope| {
        let peer = scope.spawn(|| {
            with_threads(threads, || {
                let agreement = theirs.agree(&mut far)?;
                theirs.run(&mut far, &agreement)
            })?
        });
        let recorded = with_threads(threads, || {
            let mut recorder = Recorder {
                inner: near,
                sent: Frames::new(),
                received: Frames::new(),
            };
            let agreement = ours.agree(&mut recorder)?;
            recorder.sent.clear();
            recorder.received.clear();
            let output = ours.run(&mut recorder, &agreement)?;
            Ok::<_, SessionError>((agreement, recorder, output))
        })?;
        let ended = peer.join();
        let recorded = recorded?;
        ended.map_err(|_| WireError::Closed)??;
        Ok::<_, SessionError>(recorded)
    })?;
    recorder.inner.begin_phase("done");
    let mut runs = Vec::new();
    for _ in 0..options.runs {
        let mut played = Played::new(&recorder.sent, &recorder.received);
        let began = Instant::now();
        let output = with_threads(threads, || ours.run(&mut played, &agreement))??;
        let seconds = began.elapsed().as_secs_f64();
        played.begin_phase("done");
        played.phases.pop();
        if output != expected || !played.sent.is_empty() || !played.received.is_empty() {
            return Err(Failure::new(RESOURCE, "the result is wrong"));
        }
        runs.push((seconds, played.traffic()));
    }
    let seconds = median(runs.iter().map(|(seconds, _)| *seconds).collect());
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let phases = runs.swap_remove((runs.len() - 1) / 2).1;
    let contract = &agreement.contract;
    let measured = Measured {
        alone: role,
        protocol: contract.protocol.clone(),
        security: contract.runs.name().to_owned(),
        reveal: terms.get(&REVEAL).to_string(),
        receiver_size: options.receiver_size,
        sender_size: options.sender_size(),
        threads: options.threads.get(),
        runs: options.runs,
        seconds,
        phases,
        yardstick_aes_blocks_per_second: yardstick,
        machine: machine::describe(),
    };
    match options.json {
        true => serde_json::to_string(&measured)
            .map_err(|e| Failure::new(RESOURCE, format!("the result is not JSON: {e}"))),
        false => Ok(table(&measured)),
    }
}

fn table(m: &Measured) -> String {
    let mut lines = vec![
        format!("{} by itself, {} ({})", m.alone, m.protocol, m.security),
        format!(
            "receiver, sender     {}, {}",
            many(m.receiver_size, "item"),
            many(m.sender_size, "item"),
        ),
        format!("threads              {}", m.threads),
        format!(
            "total                {:.6} s (median of {} runs)",
            m.seconds, m.runs
        ),
    ];
    let phases = m.phases.iter();
    lines.extend(phases.map(|phase| format!("  {:<18} {:.6} s", phase.phase, phase.seconds)));
    lines.join("\n")
}
