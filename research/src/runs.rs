//! Whole runs of the variants that papers compare, in one process, one thread per party.

use std::time::Instant;

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_circuit::{CircuitPsi, Okvs};
use vesica_encodings::cuckoo;
use vesica_encodings::random_band::RandomBand;
use vesica_oprf::sparse::{AesBit, Sparse};
use vesica_primitives::security::Security;
use vesica_psi::{Input, Item, MaskExchange, Output, Params, Prepared, Protocol, Task};
use vesica_wire::{Channel, ChannelOptions, Error, Link, PhaseTraffic, memory_pair_with};

use crate::okvs_message::OkvsMessage;
use crate::paper_width::{Figure, PaperWidth};
use crate::sha256::Sha256Bit;
use crate::three_hash::ThreeHash;

/// A protocol and its name.
pub type Variant = (&'static str, &'static dyn Protocol);

/// Which OKVS, and which F, at the width that PRTY19 proves.
pub static ABLATIONS: [Variant; 4] = [
    (
        "random band, AES",
        &MaskExchange(Sparse::<OkvsMessage<RandomBand>, AesBit>::new()),
    ),
    (
        "three-hash, AES",
        &MaskExchange(Sparse::<OkvsMessage<ThreeHash>, AesBit>::new()),
    ),
    (
        "random band, SHA-256",
        &MaskExchange(Sparse::<OkvsMessage<RandomBand>, Sha256Bit>::new()),
    ),
    (
        "three-hash, SHA-256",
        &MaskExchange(Sparse::<OkvsMessage<ThreeHash>, Sha256Bit>::new()),
    ),
];

/// The paper's figures at its widths. **Broken.**
pub static FIGURES: [Variant; 4] = [
    (
        "figure 14, random band",
        &MaskExchange(PaperWidth::<OkvsMessage<RandomBand, 2>>::new(
            Figure::SemiHonest,
        )),
    ),
    (
        "figure 14, three-hash",
        &MaskExchange(PaperWidth::<OkvsMessage<ThreeHash, 2>>::new(
            Figure::SemiHonest,
        )),
    ),
    (
        "figure 15, random band",
        &MaskExchange(PaperWidth::<OkvsMessage<RandomBand, 2>>::new(
            Figure::Malicious,
        )),
    ),
    (
        "figure 15, three-hash",
        &MaskExchange(PaperWidth::<OkvsMessage<ThreeHash, 2>>::new(
            Figure::Malicious,
        )),
    ),
];

/// A circuit whose table has room for all items, or a stash and a second execution (CGS22, appendix E).
pub static STASHES: [Variant; 3] = [
    ("no stash", &CircuitPsi::new(Okvs)),
    (
        "one place",
        &CircuitPsi::with_table(Okvs, |items, lambda| {
            cuckoo::Parameters::with_stash(items, lambda, 1)
        }),
    ),
    (
        "three places",
        &CircuitPsi::with_table(Okvs, |items, lambda| {
            cuckoo::Parameters::with_stash(items, lambda, 3)
        }),
    ),
];

/// One run, seen by the receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Seconds.
    pub seconds: f64,
    /// What each phase took, framing included.
    pub phases: Vec<PhaseTraffic>,
    /// Items in common.
    pub matches: usize,
}

/// Bytes of a phase both ways.
pub fn bytes_of(phase: &PhaseTraffic) -> u64 {
    phase.bytes_sent + phase.bytes_received
}

impl Run {
    /// Bytes both ways, framing included.
    pub fn bytes(&self) -> u64 {
        self.phases.iter().map(bytes_of).sum()
    }
}

/// Runs a protocol between two sets of `items` items, half of them in common, over this link.
///
/// # Errors
/// The protocol's.
///
/// # Panics
/// If the process cannot start a thread.
pub fn run(protocol: &dyn Protocol, items: usize, seed: u64, link: Link) -> Result<Run, Error> {
    let mut all: Vec<Item> = vec![[0; 32]; items + items / 2];
    ChaCha12Rng::seed_from_u64(seed).fill_bytes(all.as_flattened_mut());
    let (ours, theirs) = (&all[..items], &all[items / 2..][..items]);
    let params = Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: items,
        sender_size: items,
        session: [1; 32],
    };
    let task = Task::new(protocol.reveals()[0]);
    let pool = || {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        pool.expect("a thread")
    };
    let options = || ChannelOptions {
        link,
        ..ChannelOptions::default()
    };
    let (mut receiving, mut sending) = memory_pair_with(options(), options());
    let (pools, start) = ([pool(), pool()], Instant::now());
    let output = std::thread::scope(|scope| {
        let (params, task) = (&params, &task);
        let sender = scope.spawn(|| {
            pools[0].install(|| {
                let mut rng = ChaCha12Rng::seed_from_u64(seed + 1);
                let input = Input::new(theirs);
                protocol.send(
                    &mut sending,
                    params,
                    task,
                    input,
                    Prepared::nothing(),
                    &mut rng,
                )
            })
        });
        let output = pools[1].install(|| {
            let mut rng = ChaCha12Rng::seed_from_u64(seed + 2);
            let prepared = protocol.prepare(items, &mut rng);
            let input = Input::new(ours);
            protocol.receive(&mut receiving, params, task, input, prepared, &mut rng)
        })?;
        sender.join().expect("no panic")?;
        Ok::<_, Error>(output)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Run {
        seconds,
        phases: receiving.traffic(),
        matches: match output {
            Output::Matches(matched) => matched.iter().filter(|matched| **matched).count(),
            Output::Values(numbers) => numbers[0] as usize,
            _ => 0,
        },
    })
}

/// How variants are compared.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// Items of either side.
    pub items: usize,
    /// Runs, of which the median is shown.
    pub runs: u64,
    /// What both parties send goes over it.
    pub link: Link,
}

/// Runs each variant and prints its cost, phase by phase: the median of all runs.
///
/// # Errors
/// The protocols'.
pub fn compare(variants: &[Variant], how: &Comparison) -> Result<(), Error> {
    let Comparison { items, runs, link } = *how;
    println!("{items} items per side, half in common; {link}; medians of {runs} runs");
    for (name, protocol) in variants {
        let mut measured = Vec::new();
        for seed in 0..runs {
            measured.push(run(*protocol, items, seed, link)?);
        }
        measured.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let middle = &measured[measured.len() / 2];
        println!(
            "  {name:<24} {:>9.4} s  {:>8.2} MB  {:>7.1} bits per item  {} matches",
            middle.seconds,
            middle.bytes() as f64 / 1e6,
            8.0 * middle.bytes() as f64 / items as f64,
            middle.matches
        );
        for phase in &middle.phases {
            println!(
                "    {:<22} {:>9.4} s  {:>8.2} MB",
                phase.phase,
                phase.seconds,
                bytes_of(phase) as f64 / 1e6
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::CIRCUITS;

    #[test]
    fn every_variant_computes_the_intersection() {
        let all = [&ABLATIONS[..], &FIGURES, &STASHES, &CIRCUITS].concat();
        for (name, protocol) in all {
            let run = run(protocol, 200, 4, Link::LAN).unwrap();
            assert_eq!(run.matches, 100, "{name}");
        }
    }
}
