//! Why `sparse-okvs` is wider than its paper says: the attack of `evaluation/narrow-masks.md`, run.
//!
//! Three runs between two parties in this process. In the first two the sender runs LTSXQ26 as published,
//! figure 14 and figure 15, and the receiver finds the sender's secret and every item of the sender's that is
//! in a dictionary. In the third both run the protocol at vesica's width, and a search is hopeless.
//!
//! [`show_circuit`] runs the paper's circuit PSI, in which no mask is sent, up to the circuit: the receiver finds nearly as
//! much.

use std::time::{Duration, Instant};

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_encodings::random_band::RandomBand;
use vesica_oprf::sparse::{AesBit, BitFunction, Sparse, Store};
use vesica_oprf::{Item, Oprf, Output, Params};
use vesica_primitives::security::{KeyAgreement, Security};
use vesica_wire::{Channel, Error, memory_pair};

use crate::attack::{Found, Run, View, expected_hashes, recover};
use crate::circuit_attack::{Circuit, CircuitFound};
use crate::okvs_message::{ArrangedOkvs, OkvsMessage};
use crate::paper_width::{Figure, PaperWidth, unsafe_paper_width};
use crate::sha256::Sha256Bit;
use crate::three_hash::ThreeHash;

/// The receiver spends at most 2^32 hashes on a candidate.
const MAX_HASHES_LOG: u32 = 32;

/// The OKVS of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Encoding {
    /// A random band.
    Band,
    /// Three hashes.
    ThreeHash,
}

/// What F is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BitOracle {
    /// AES-128.
    Aes,
    /// SHA-256.
    #[value(name = "sha-256")]
    Sha256,
}

/// What is attacked.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The OKVS.
    pub okvs: Encoding,
    /// F.
    pub oracle: BitOracle,
    /// Items of either side, at least 64.
    pub items: usize,
    /// Candidates for each item of the sender's, at least 2.
    pub dictionary: usize,
    /// Seed of everything random.
    pub seed: u64,
}

/// Who holds what.
struct Sets {
    /// Everything that the sender may hold. It holds every `dictionary`-th of these, which the receiver does
    /// not know.
    candidates: Vec<Item>,
    theirs: Vec<Item>,
    /// Half of the sender's items, and as many that are not candidates.
    ours: Vec<Item>,
    /// Twice as many candidates as the receiver announces, in two sets; half of either are the sender's.
    guesses: [Vec<Item>; 2],
}

impl Sets {
    fn new(options: &Options) -> Self {
        let n = options.items;
        let mut rng = ChaCha12Rng::seed_from_u64(options.seed);
        let mut items = |count: usize| {
            let mut items = vec![[0; 32]; count];
            rng.fill_bytes(items.as_flattened_mut());
            items
        };
        let candidates: Vec<Item> = items(n * options.dictionary);
        let every = |first| candidates.iter().skip(first).step_by(options.dictionary);
        let theirs: Vec<Item> = every(0).copied().collect();
        let ours = [&theirs[..n / 2], &items(n - n / 2)].concat();
        let guesses = [0, n / 2].map(|start| {
            let right = every(0).skip(start).take(n / 2);
            right
                .chain(every(1).skip(start).take(n / 2))
                .copied()
                .collect()
        });
        Sets {
            candidates,
            theirs,
            ours,
            guesses,
        }
    }
}

/// The outcome of a run.
struct Outcome {
    found: Found,
    /// Bits of s.
    columns: usize,
    /// Whether the candidates that were found are those that the sender holds.
    exact: bool,
    /// Time of the search.
    time: Duration,
}

impl Outcome {
    /// All of s, and exactly the sender's items.
    fn everything(&self) -> bool {
        self.exact && self.found.known_bits() as usize == self.columns
    }
}

/// The sender's outputs.
fn send<K: ArrangedOkvs, F: BitFunction>(
    channel: &mut dyn Channel,
    params: &Params,
    run: Run,
    items: &[Item],
    rng: &mut ChaCha12Rng,
) -> Result<Vec<Output>, Error> {
    let outputs = match run {
        Run::Proven => Sparse::<Store>::new().send(channel, params, items, rng),
        Run::Paper(figure) => {
            PaperWidth::<OkvsMessage<K, 2>, F>::new(figure).send(channel, params, items, rng)
        }
    }?;
    Ok(outputs.into_short().0)
}

/// The parameters of a run.
fn params(options: &Options) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: options.items,
        sender_size: options.items,
        key_agreement: KeyAgreement::default(),
        session: [7; 32],
    }
}

/// The randomness of a party.
fn rng(options: &Options, party: u64) -> ChaCha12Rng {
    let mut rng = ChaCha12Rng::seed_from_u64(options.seed);
    rng.set_stream(party);
    rng
}

/// One run with a receiver that keeps its view, and what that view reveals. `W` words hold a row.
fn attack<K: ArrangedOkvs, F: BitFunction, const W: usize>(
    options: &Options,
    run: Run,
    receive: impl FnOnce(
        &mut dyn Channel,
        &Params,
        &Sets,
        &mut ChaCha12Rng,
    ) -> Result<View<K, W, F>, Error>,
) -> Result<Outcome, Error> {
    let sets = Sets::new(options);
    let params = params(options);
    let rng = |party| rng(options, party);
    let (mut receiving, mut sending) = memory_pair();
    let (view, masks) = std::thread::scope(|scope| {
        let (params, sets) = (&params, &sets);
        let sender =
            scope.spawn(move || send::<K, F>(&mut sending, params, run, &sets.theirs, &mut rng(1)));
        let view = receive(&mut receiving, params, sets, &mut rng(2))?;
        let masks = sender.join().expect("the sender does not panic")?;
        Ok::<_, Error>((view, masks))
    })?;
    // The bits of each output that would go over the wire.
    let bits = match run {
        Run::Proven => 128,
        Run::Paper(figure) => unsafe_paper_width(figure, &params),
    };

    let start = Instant::now();
    let found = recover(&view, &masks, bits, &sets.candidates, MAX_HASHES_LOG);
    let time = start.elapsed();
    let held = (0u32..sets.candidates.len() as u32).step_by(options.dictionary);
    Ok(Outcome {
        exact: found.items.iter().copied().eq(held),
        found,
        columns: view.columns(),
        time,
    })
}

/// A receiver that follows the protocol.
fn follow<K: ArrangedOkvs, F: BitFunction, const W: usize>(
    options: &Options,
    run: Run,
) -> Result<Outcome, Error> {
    attack(options, run, |channel, params, sets, rng| {
        View::<K, W, F>::follow(channel, params, run, &sets.ours, rng)
    })
}

/// A receiver that splits the columns of figure 15 between two sets.
fn split<K: ArrangedOkvs, F: BitFunction>(options: &Options) -> Result<Outcome, Error> {
    let run = Run::Paper(Figure::Malicious);
    attack(options, run, |channel, params, sets, rng| {
        let [first, last] = &sets.guesses;
        View::<K, 2, F>::split(channel, params, [first, last], rng)
    })
}

/// The outcome of a run of a circuit.
struct CircuitOutcome {
    found: CircuitFound,
    /// Bits of s.
    columns: usize,
    /// Whether all that were found are the sender's, or match.
    right: bool,
    /// Items that match.
    matches: usize,
    /// Time of the search.
    time: Duration,
}

/// A run of figure 17 with a receiver that follows it, and what its view reveals.
fn circuit<K: ArrangedOkvs, F: BitFunction>(options: &Options) -> Result<CircuitOutcome, Error> {
    let (sets, circuit) = (Sets::new(options), Circuit::new(&params(options)));
    let (mut receiving, mut sending) = memory_pair();
    let view = std::thread::scope(|scope| {
        let (circuit, sets) = (&circuit, &sets);
        let sender = scope
            .spawn(move || circuit.send::<K, F>(&mut sending, &sets.theirs, &mut rng(options, 1)));
        let view = circuit.follow::<K, F>(&mut receiving, &sets.ours, &mut rng(options, 2))?;
        sender.join().expect("the sender does not panic")?;
        Ok::<_, Error>(view)
    })?;
    let start = Instant::now();
    let found = view.recover(&sets.ours, &sets.candidates, MAX_HASHES_LOG);
    let time = start.elapsed();
    let matches = options.items / 2;
    let is_theirs = |number: &u32| (*number as usize).is_multiple_of(options.dictionary);
    Ok(CircuitOutcome {
        right: found.items.iter().all(is_theirs)
            && found.matches.iter().all(|i| (*i as usize) < matches),
        found,
        columns: view.columns(),
        matches,
        time,
    })
}

fn tell_bits(found: &Found, columns: usize) {
    println!(
        "  bits of s recovered     {} of {columns}",
        found.known_bits()
    );
}

fn tell_trials(found: &Found, time: Duration) {
    println!(
        "  first hit               {} ones",
        found.first.unwrap_or(0)
    );
    println!("  time                    {:.2} s", time.as_secs_f64());
}

fn tell(outcome: &Outcome, expected: f64) {
    let Outcome { found, time, .. } = outcome;
    tell_bits(found, outcome.columns);
    println!(
        "  sender's items found    {}, {}",
        found.items.len(),
        match outcome.everything() {
            true => "which are all, and no others",
            false => "not all, or too many",
        }
    );
    println!(
        "  hashes                  2^{:.1}; 2^{:.1} on average for the first hit",
        (found.hashes.max(1) as f64).log2(),
        expected.log2()
    );
    tell_trials(found, *time);
}

/// Runs an attack with the OKVS and F of some options.
macro_rules! with {
    ($attack:ident, $options:expr) => {
        match ($options.okvs, $options.oracle) {
            (Encoding::Band, BitOracle::Aes) => $attack::<RandomBand, AesBit>($options),
            (Encoding::Band, BitOracle::Sha256) => $attack::<RandomBand, Sha256Bit>($options),
            (Encoding::ThreeHash, BitOracle::Aes) => $attack::<ThreeHash, AesBit>($options),
            (Encoding::ThreeHash, BitOracle::Sha256) => $attack::<ThreeHash, Sha256Bit>($options),
        }
    };
}

/// Runs the attacks on figures 14 and 15 and prints the results.
///
/// # Errors
/// Those of the runs.
pub fn show(options: &Options) -> Result<(), Error> {
    with!(show_masks, options)
}

/// Runs the attack on figure 17 and prints the result.
///
/// # Errors
/// Those of the run.
pub fn show_circuit(options: &Options) -> Result<(), Error> {
    tell_sets(options);
    println!("Figure 17 as published, up to the circuit; a receiver that follows it:");
    let outcome = with!(circuit, options)?;
    let CircuitFound {
        search,
        items,
        matches,
    } = &outcome.found;
    tell_bits(search, outcome.columns);
    println!(
        "  sender's items found    {} of {}, and {}",
        items.len(),
        options.items,
        match outcome.right {
            true => "no others",
            false => "OTHERS",
        }
    );
    println!(
        "  own items that match    {} of {}",
        matches.len(),
        outcome.matches
    );
    let hashes = (search.hashes.max(1) as f64).log2();
    println!("  hashes                  2^{hashes:.1}");
    tell_trials(search, outcome.time);
    Ok(())
}

fn tell_sets(options: &Options) {
    let n = options.items;
    let candidates = n * options.dictionary;
    println!("{n} items per side, {candidates} candidates, of which the sender holds {n}\n");
}

fn show_masks<K: ArrangedOkvs, F: BitFunction>(options: &Options) -> Result<(), Error> {
    let n = options.items;
    let candidates = n * options.dictionary;
    tell_sets(options);

    println!(
        "Figure 14 as published; a receiver that follows it, and holds half of the sender's items:"
    );
    let outcome = follow::<K, F, 2>(options, Run::Paper(Figure::SemiHonest))?;
    let unknown = n - n / 2;
    let expected = expected_hashes(outcome.columns, unknown, candidates - n / 2);
    tell(&outcome, expected);

    println!(
        "\nFigure 15 as published, \"malicious\"; a receiver that splits its columns between two sets:"
    );
    let outcome = split::<K, F>(options)?;
    // Once for each half.
    tell(&outcome, 2.0 * expected_hashes(64, n / 2, n / 2 * 2));

    let outcome = follow::<RandomBand, AesBit, 8>(options, Run::Proven)?;
    println!(
        "\nvesica's sparse-okvs, {} columns; a receiver that follows it:",
        outcome.columns
    );
    let lightest = outcome.found.lightest.unwrap_or(0);
    println!("  bits of s recovered     {}", outcome.found.known_bits());
    println!(
        "  lightest candidate      {lightest} ones: 2^{lightest} hashes for a first hit, if the sender holds it"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_oprf::width::width;

    fn options(items: usize) -> Options {
        Options {
            okvs: Encoding::Band,
            oracle: BitOracle::Aes,
            items,
            dictionary: 16,
            seed: 3,
        }
    }

    #[test]
    fn a_receiver_that_follows_figure_14_finds_everything() {
        let run = Run::Paper(Figure::SemiHonest);
        let outcome = follow::<RandomBand, AesBit, 2>(&options(1 << 10), run).unwrap();
        assert!(outcome.everything(), "{:?}", outcome.found);
        assert_eq!(outcome.columns, 64);
        let other = follow::<ThreeHash, Sha256Bit, 2>(&options(1 << 8), run).unwrap();
        assert!(other.everything(), "{:?}", other.found);
    }

    /// All of s, and all of the sender's items but those that are alone in their bins; no others.
    #[test]
    fn a_receiver_that_follows_the_circuit_finds_nearly_everything() {
        fn nearly<K: ArrangedOkvs>(items: usize) {
            let outcome = circuit::<K, AesBit>(&options(items)).unwrap();
            let found = &outcome.found;
            assert_eq!(found.search.known_bits() as usize, outcome.columns);
            assert!(outcome.right);
            assert!(found.items.len() >= items - items / 50);
            assert!(found.matches.len() >= outcome.matches - outcome.matches / 50);
        }
        nearly::<RandomBand>(1 << 10);
        nearly::<ThreeHash>(1 << 8);
    }

    #[test]
    fn a_receiver_that_splits_the_columns_of_figure_15_finds_everything() {
        let outcome = split::<RandomBand, AesBit>(&options(1 << 10)).unwrap();
        assert!(outcome.everything(), "{:?}", outcome.found);
        assert_eq!(outcome.columns, 128);
    }

    /// At the proven width a receiver finds what both hold, which is its answer, and no more: the lightest candidate
    /// has at least 128 ones. No parameters make the width less.
    #[test]
    fn there_is_nothing_to_search_at_the_proven_width() {
        for items in [1 << 10, 1 << 12] {
            let outcome = follow::<RandomBand, AesBit, 8>(&options(items), Run::Proven).unwrap();
            let found = &outcome.found;
            assert_eq!(found.items.len(), items / 2);
            assert_eq!((found.known_bits(), found.first), (0, None));
            assert!(found.lightest.unwrap() >= 128);
            assert_eq!(found.hashes, items as u64 / 2);
        }
        for evaluations in [0, 1, 1 << 10, 1 << 27] {
            for lambda in [20, 40, 64] {
                assert!(width(evaluations, lambda) > 256);
            }
        }
        let params = Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: 1 << 26,
            sender_size: 1 << 26,
            key_agreement: KeyAgreement::default(),
            session: [0; 32],
        };
        assert!(unsafe_paper_width(Figure::SemiHonest, &params) < 128);
    }
}
