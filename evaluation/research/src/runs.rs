//! Whole runs of the variants that papers compare, in one process, one thread per party.

use std::time::{Duration, Instant};

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_circuit::{CircuitPsi, Okvs};
use vesica_encodings::cuckoo;
use vesica_encodings::random_band::RandomBand;
use vesica_oprf::compact_dh::{self, CompactDh};
use vesica_oprf::sparse::{AesBit, Sparse};
use vesica_primitives::security::Security;
use vesica_primitives::yardstick::aes_blocks_per_second;
use vesica_psi::{
    Half, Input, Item, KeyAgreement, MaskExchange, Output, Params, Prepared, Protocol, Reveal,
    Task, Values,
};
use vesica_wire::{
    Channel, ChannelOptions, End, Error, FramedChannel, Link, PhaseTraffic, memory_pair_with,
};

use crate::compact_okvs::CompactOkvs;
use crate::okvs_message::OkvsMessage;
use crate::paper_width::{Figure, PaperWidth};
use crate::sha256::Sha256Bit;
use crate::three_hash::ThreeHash;

/// A protocol as a paper has it.
#[derive(Clone, Copy)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// The protocol.
    pub protocol: &'static dyn Protocol,
    /// What the paper says that it withstands, which decides how wide masks are.
    pub security: Security,
}

impl Variant {
    /// A variant for semi-honest parties.
    pub const fn new(name: &'static str, protocol: &'static dyn Protocol) -> Self {
        Variant {
            name,
            protocol,
            security: Security::SemiHonest,
        }
    }

    /// The same variant, where the paper says that it withstands malicious parties.
    const fn malicious(self) -> Self {
        Variant {
            security: Security::Malicious,
            ..self
        }
    }

    /// The parameters of a run with so many items of the receiver and of the sender.
    fn params(&self, [items, others]: [usize; 2]) -> Params {
        Params {
            security: self.security,
            sender_size: others,
            ..params(items)
        }
    }
}

/// Which OKVS, and which F, at the width that PRTY19 proves.
pub static ABLATIONS: [Variant; 4] = [
    Variant::new(
        "random band, AES",
        &MaskExchange(Sparse::<OkvsMessage<RandomBand>, AesBit>::new()),
    ),
    Variant::new(
        "three-hash, AES",
        &MaskExchange(Sparse::<OkvsMessage<ThreeHash>, AesBit>::new()),
    ),
    Variant::new(
        "random band, SHA-256",
        &MaskExchange(Sparse::<OkvsMessage<RandomBand>, Sha256Bit>::new()),
    ),
    Variant::new(
        "three-hash, SHA-256",
        &MaskExchange(Sparse::<OkvsMessage<ThreeHash>, Sha256Bit>::new()),
    ),
];

/// The paper's figures at its widths. **Broken.**
pub static FIGURES: [Variant; 8] = [
    Variant::new(
        "figure 14, random band",
        &MaskExchange(PaperWidth::<OkvsMessage<RandomBand, 2>>::new(
            Figure::SemiHonest,
        )),
    ),
    Variant::new(
        "figure 14, three-hash",
        &MaskExchange(PaperWidth::<OkvsMessage<ThreeHash, 2>>::new(
            Figure::SemiHonest,
        )),
    ),
    Variant::new(
        "figure 15, random band",
        &MaskExchange(PaperWidth::<OkvsMessage<RandomBand, 2>>::new(
            Figure::Malicious,
        )),
    )
    .malicious(),
    Variant::new(
        "figure 15, three-hash",
        &MaskExchange(PaperWidth::<OkvsMessage<ThreeHash, 2>>::new(
            Figure::Malicious,
        )),
    )
    .malicious(),
    Variant::new(
        "figure 14, random band, SHA-256",
        &MaskExchange(PaperWidth::<OkvsMessage<RandomBand, 2>, Sha256Bit>::new(
            Figure::SemiHonest,
        )),
    ),
    Variant::new(
        "figure 14, three-hash, SHA-256",
        &MaskExchange(PaperWidth::<OkvsMessage<ThreeHash, 2>, Sha256Bit>::new(
            Figure::SemiHonest,
        )),
    ),
    Variant::new(
        "figure 15, random band, SHA-256",
        &MaskExchange(PaperWidth::<OkvsMessage<RandomBand, 2>, Sha256Bit>::new(
            Figure::Malicious,
        )),
    )
    .malicious(),
    Variant::new(
        "figure 15, three-hash, SHA-256",
        &MaskExchange(PaperWidth::<OkvsMessage<ThreeHash, 2>, Sha256Bit>::new(
            Figure::Malicious,
        )),
    )
    .malicious(),
];

/// A circuit whose table has room for all items, or a stash and a second execution (CGS22, appendix E).
pub static STASHES: [Variant; 3] = [
    Variant::new("no stash", &CircuitPsi::new(Okvs)),
    Variant::new(
        "one place",
        &CircuitPsi::with_table(Okvs, |items, lambda| {
            cuckoo::Parameters::with_stash(items, lambda, 1)
        }),
    ),
    Variant::new(
        "three places",
        &CircuitPsi::with_table(Okvs, |items, lambda| {
            cuckoo::Parameters::with_stash(items, lambda, 3)
        }),
    ),
];

/// RT21 for semi-honest peers, with a polynomial and with an OKVS.
pub static COMPACT: [Variant; 2] = [
    Variant::new(
        "figure 5, polynomial",
        &MaskExchange(CompactDh(compact_dh::Variant::SemiHonest1)),
    ),
    Variant::new("appendix B, OKVS", &MaskExchange(CompactOkvs)),
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

    fn json(&self, name: &str) -> serde_json::Value {
        let sum = |of: fn(&PhaseTraffic) -> u64| self.phases.iter().map(of).sum::<u64>();
        serde_json::json!({
            "name": name,
            "seconds": self.seconds,
            "matches": self.matches,
            "bytes": {
                "receiver_to_sender": sum(|phase| phase.bytes_sent),
                "sender_to_receiver": sum(|phase| phase.bytes_received),
            },
            "phases": self.phases,
        })
    }
}

/// Runs both parties over this link, one thread each: what they return, seconds, and the phases of the receiver.
///
/// # Errors
/// The receiver's, or else the sender's.
///
/// # Panics
/// If the process cannot start a thread, or a party panics.
pub fn both<T: Send>(
    link: Link,
    receiver: impl FnOnce(&mut FramedChannel) -> Result<T, Error> + Send,
    sender: impl FnOnce(&mut FramedChannel) -> Result<T, Error> + Send,
) -> Result<([T; 2], f64, Vec<PhaseTraffic>), Error> {
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
    let results = std::thread::scope(|scope| {
        let sender = scope.spawn(|| pools[0].install(|| sender(&mut sending)));
        let received = pools[1].install(|| receiver(&mut receiving))?;
        let sent = sender.join().expect("no panic")?;
        Ok::<_, Error>([received, sent])
    })?;
    Ok((results, start.elapsed().as_secs_f64(), receiving.traffic()))
}

/// The parameters of a run with so many items on each side.
pub fn params(items: usize) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: items,
        sender_size: items,
        key_agreement: KeyAgreement::default(),
        session: [1; 32],
    }
}

/// Runs a variant between a receiver's and a sender's set of so many items, half of the smaller in common, over this
/// link, for what it reveals first.
///
/// # Errors
/// The protocol's.
///
/// # Panics
/// If the process cannot start a thread.
pub fn run(variant: &Variant, sizes: [usize; 2], seed: u64, link: Link) -> Result<Run, Error> {
    run_for(variant, variant.protocol.reveals()[0], sizes, seed, link)
}

/// [`run`] for a reveal. The sender has values for a sum, both for an inner product: all are 1, so that the result is the
/// number of matches.
///
/// # Errors
/// The protocol's.
///
/// # Panics
/// If the process cannot start a thread, or the protocol does not reveal it.
pub fn run_for(
    variant: &Variant,
    reveal: Reveal,
    [items, others]: [usize; 2],
    seed: u64,
    link: Link,
) -> Result<Run, Error> {
    let common = items.min(others).div_ceil(2);
    let mut all: Vec<Item> = vec![[0; 32]; items + others - common];
    ChaCha12Rng::seed_from_u64(seed).fill_bytes(all.as_flattened_mut());
    let (ours, theirs) = (&all[..items], &all[items - common..]);
    let protocol = variant.protocol;
    let params = variant.params([items, others]);
    let task = task(reveal);
    let Values { receiver, sender } = task.values;
    let ones = vec![1; items.max(others)];
    let values = |columns: u8, count: usize| (columns > 0).then_some(&ones[..count]);
    let rng = |party| ChaCha12Rng::seed_from_u64(seed + party);
    let ([output, other], seconds, phases) = both(
        link,
        |channel| {
            let mut rng = rng(2);
            channel.begin_phase("offline");
            let prepared = protocol.prepare(items, &mut rng);
            let input = Input::with_values(ours, values(receiver, items));
            let output = protocol.receive(channel, &params, &task, input, prepared, &mut rng)?;
            protocol.open_whole(channel, Half::Receiver, &params, &task, output, &mut rng)
        },
        |channel| {
            let input = Input::with_values(theirs, values(sender, others));
            let nothing = Prepared::nothing();
            let rng = &mut rng(1);
            let output = protocol.send(channel, &params, &task, input, nothing, rng)?;
            protocol.open_whole(channel, Half::Sender, &params, &task, output, rng)
        },
    )?;
    Ok(Run {
        seconds,
        phases,
        matches: match (output, other) {
            (Output::Matches(matched), _) => matched.iter().filter(|matched| **matched).count(),
            (Output::Values(numbers), _) => numbers[0] as usize,
            (Output::Shares(own), Output::Shares(other)) => {
                let pairs = own.matches.iter().zip(other.matches.iter());
                pairs.filter(|(own, other)| own != other).count()
            }
            _ => 0,
        },
    })
}

/// The sender has values for a sum, both have them for an inner product.
fn task(reveal: Reveal) -> Task {
    let [receiver, sender] = match reveal {
        Reveal::Sum => [0, 1],
        Reveal::InnerProduct => [1; 2],
        _ => [0; 2],
    };
    Task {
        values: Values { receiver, sender },
        ..Task::new(reveal)
    }
}

/// How variants are compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Items of the receiver and of the sender.
    pub sizes: [usize; 2],
    /// Runs, of which the median is shown.
    pub runs: u64,
    /// What both parties send goes over it.
    pub link: Link,
    /// The variant to run, or all.
    pub variant: Option<String>,
    /// Whether to print one JSON object instead of text.
    pub json: bool,
}

impl Comparison {
    /// Runs the variants that are wanted and prints what each took, phase by phase: of all runs, the one of median time.
    /// `subject` says in words what is run on. Returns how many variants were wanted.
    ///
    /// # Errors
    /// Those of the runs.
    pub fn show<V>(
        &self,
        subject: &str,
        items: usize,
        variants: impl IntoIterator<Item = (String, V)>,
        mut run: impl FnMut(&V, u64) -> Result<Run, Error>,
    ) -> Result<usize, Error> {
        let blocks = aes_blocks_per_second(Duration::from_millis(40), 5);
        if !self.json {
            let Self { link, runs, .. } = self;
            println!("{subject}; {link}; medians of {runs} runs");
            let blocks = blocks as f64 / 1e9;
            println!("{blocks:.2} G fixed-key AES-128 blocks per second on one core");
        }
        let mut shown = Vec::new();
        for (name, variant) in variants {
            if self.variant.as_ref().is_some_and(|wanted| *wanted != name) {
                continue;
            }
            let middle = median(self.runs, |seed| run(&variant, seed))?;
            if !self.json {
                show(&name, &middle, items);
            }
            shown.push(middle.json(&name));
        }
        if self.json {
            let [receiver, sender] = self.sizes;
            let all = serde_json::json!({
                "receiver_size": receiver,
                "sender_size": sender,
                "network": self.link.to_string(),
                "runs": self.runs,
                "yardstick_aes_blocks_per_second": blocks,
                "variants": shown,
            });
            println!("{all}");
        }
        Ok(shown.len())
    }
}

/// The run of median time, of the seeds from 0 up.
///
/// # Errors
/// A run's.
pub fn median(runs: u64, run: impl FnMut(u64) -> Result<Run, Error>) -> Result<Run, Error> {
    let mut all = (0..runs).map(run).collect::<Result<Vec<_>, _>>()?;
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    Ok(all.swap_remove(all.len() / 2))
}

/// Prints what a run took, phase by phase, for so many items.
pub fn show(name: &str, run: &Run, items: usize) {
    println!(
        "  {name:<24} {:>9.4} s  {:>8.2} MB  {:>7.1} bits per item  {} matches",
        run.seconds,
        run.bytes() as f64 / 1e6,
        8.0 * run.bytes() as f64 / items as f64,
        run.matches
    );
    for phase in &run.phases {
        println!(
            "    {:<22} {:>9.4} s  {:>8.2} MB",
            phase.phase,
            phase.seconds,
            bytes_of(phase) as f64 / 1e6
        );
    }
}

/// Runs each variant that is wanted and prints its cost; how many there were.
///
/// # Errors
/// Those of [`Comparison::show`].
pub fn compare(variants: &[Variant], how: &Comparison) -> Result<usize, Error> {
    compare_for(None, variants, how)
}

/// [`compare`] for this reveal, or what each variant reveals first.
///
/// # Errors
/// Those of [`Comparison::show`].
pub fn compare_for(
    reveal: Option<Reveal>,
    variants: &[Variant],
    how: &Comparison,
) -> Result<usize, Error> {
    let subject = match how.sizes {
        [items, others] if items == others => format!("{items} items per side, half in common"),
        [items, others] => format!("{items} items of the receiver, {others} of the sender"),
    };
    let named = variants.iter().map(|one| (one.name.to_owned(), one));
    how.show(&subject, how.sizes[0], named, |variant, seed| {
        let reveal = reveal.unwrap_or(variant.protocol.reveals()[0]);
        run_for(variant, reveal, how.sizes, seed, how.link)
    })
}

/// Prints the bytes that each variant that is wanted would take for this reveal, as `vesica plan --json` does; how many
/// there were.
pub fn forecast(reveal: Reveal, variants: &[Variant], how: &Comparison) -> usize {
    let is_wanted = |name: &str| how.variant.as_ref().is_none_or(|wanted| wanted == name);
    let wanted = variants.iter().filter(|variant| is_wanted(variant.name));
    let forecasts = wanted.filter_map(|variant| {
        let [from_receiver, from_sender] = bytes_without_a_run(variant, reveal, how.sizes)?;
        Some(serde_json::json!({
            "protocol": variant.name,
            "security": variant.security.name(),
            "bytes": {
                "receiver_to_sender": from_receiver,
                "sender_to_receiver": from_sender,
                "offline": 0,
                "dealer_to_receiver": 0,
            },
        }))
    });
    let forecasts: Vec<_> = forecasts.collect();
    println!("{}", serde_json::json!({ "forecasts": forecasts }));
    forecasts.len()
}

/// What the receiver and the sender send in a run of [`run_for`]; nothing if the protocol does not know.
fn bytes_without_a_run(variant: &Variant, reveal: Reveal, sizes: [usize; 2]) -> Option<[u64; 2]> {
    let params = variant.params(sizes);
    let traffic = variant
        .protocol
        .traffic(&params, &task(reveal), None, false)?;
    Some([End::Receiver, End::Sender].map(|end| traffic.bytes(end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::circuits::CIRCUITS;

    #[test]
    fn circuits_take_the_bytes_that_are_computed() {
        for variant in &CIRCUITS {
            for items in [64, 1000, 1 << 24] {
                assert!(bytes_without_a_run(variant, Reveal::Size, [items; 2]).is_some());
            }
            for reveal in [Reveal::Size, Reveal::Shares, Reveal::InnerProduct] {
                let run = run_for(variant, reveal, [500, 300], 4, Link::LAN).unwrap();
                let computed = bytes_without_a_run(variant, reveal, [500, 300]).unwrap();
                let (found, computed) = (run.bytes() as f64, computed.iter().sum::<u64>() as f64);
                assert!(
                    (found - computed).abs() < 0.001 * computed + 16.0,
                    "{} {reveal}",
                    variant.name
                );
            }
        }
    }

    #[test]
    fn every_variant_computes_the_intersection() {
        let all = [&ABLATIONS[..], &FIGURES, &STASHES, &COMPACT, &CIRCUITS].concat();
        for variant in &all {
            let run = run(variant, [200; 2], 4, Link::LAN).unwrap();
            assert_eq!(run.matches, 100, "{}", variant.name);
        }
    }

    #[test]
    fn circuits_compute_every_reveal() {
        for variant in &CIRCUITS {
            for reveal in [Reveal::Shares, Reveal::Sum, Reveal::InnerProduct] {
                let run = run_for(variant, reveal, [200; 2], 4, Link::LAN).unwrap();
                assert_eq!(run.matches, 100, "{}, {reveal}", variant.name);
            }
        }
    }

    /// Figure 15 sends κ = 128 bits per mask (LTSXQ26, Table II), and figure 14 as many as keep collisions away.
    #[test]
    fn masks_are_as_wide_as_the_papers() {
        let width = |name: &str| {
            let variant = FIGURES.iter().find(|variant| variant.name == name).unwrap();
            let run = run(variant, [1 << 12; 2], 4, Link::LAN).unwrap();
            let masks = run
                .phases
                .iter()
                .find(|phase| phase.phase == "masks")
                .unwrap();
            bytes_of(masks) as f64 * 8.0 / f64::from(1 << 12)
        };
        // Masks are sorted, which saves some log₂ of their number from each.
        for name in ["figure 14, random band", "figure 14, three-hash"] {
            let bits = width(name);
            assert!((50.0..64.0).contains(&bits), "{name}: {bits}");
        }
        for name in ["figure 15, random band", "figure 15, three-hash"] {
            let bits = width(name);
            assert!((114.0..130.0).contains(&bits), "{name}: {bits}");
        }
    }

    #[test]
    fn sets_may_differ_in_size() {
        for variant in &FIGURES {
            for sizes in [[70, 300], [300, 70]] {
                let run = run(variant, sizes, 5, Link::LAN).unwrap();
                assert_eq!(run.matches, 35, "{}", variant.name);
            }
        }
    }

    #[test]
    fn only_the_variant_that_is_named_runs() {
        let mut how = Comparison {
            sizes: [64; 2],
            runs: 1,
            link: Link::LAN,
            variant: Some("figure 14, three-hash".into()),
            json: false,
        };
        assert_eq!(compare(&FIGURES, &how).unwrap(), 1);
        how.variant = Some("figure 13".into());
        assert_eq!(compare(&FIGURES, &how).unwrap(), 0);
    }

    #[test]
    fn a_run_as_json_has_all_of_its_phases() {
        let run = run(&FIGURES[0], [200; 2], 6, Link::LAN).unwrap();
        let json = run.json("one");
        let sum = json["bytes"].as_object().unwrap().values();
        assert_eq!(
            sum.map(|part| part.as_u64().unwrap()).sum::<u64>(),
            run.bytes()
        );
        assert_eq!(json["phases"].as_array().unwrap().len(), run.phases.len());
        assert_eq!(json["name"], "one");
    }
}
