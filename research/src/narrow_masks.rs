//! Why `sparse-okvs` is wider than its paper says: the attack of `docs/narrow-masks.md`, run.
//!
//! Three runs between two parties in this process. In the first two the sender runs LTSXQ26 as published,
//! figure 14 and figure 15, and the receiver finds the sender's secret and every item of the sender's that is
//! in a dictionary. In the third both run the protocol at vesica's width, and a search is hopeless.

use std::time::{Duration, Instant};

use chacha20::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_encodings::random_band::RandomBand;
use vesica_oprf::sparse::{Sparse, Store};
use vesica_oprf::{Item, Oprf, Output, Params};
use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, memory_pair};

use crate::attack::{Found, Run, View, expected_hashes, recover};
use crate::okvs_message::OkvsMessage;
use crate::paper_width::{Figure, PaperWidth, unsafe_paper_width};

/// The receiver spends at most 2^32 hashes on a candidate.
const MAX_HASHES_LOG: u32 = 32;

/// What is attacked.
#[derive(Clone, Copy, Debug)]
pub struct Options {
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
fn send(
    channel: &mut dyn Channel,
    params: &Params,
    run: Run,
    items: &[Item],
    rng: &mut ChaCha12Rng,
) -> Result<Vec<Output>, Error> {
    let outputs = match run {
        Run::Proven => Sparse::<Store>::new().send(channel, params, items, rng),
        Run::Paper(figure) => {
            PaperWidth::<OkvsMessage<RandomBand, 2>>::new(figure).send(channel, params, items, rng)
        }
    }?;
    Ok(outputs.into_short().0)
}

/// One run with a receiver that keeps its view, and what that view reveals. `W` words hold a row.
fn attack<const W: usize>(
    options: &Options,
    run: Run,
    receive: impl FnOnce(
        &mut dyn Channel,
        &Params,
        &Sets,
        &mut ChaCha12Rng,
    ) -> Result<View<RandomBand, W>, Error>,
) -> Result<Outcome, Error> {
    let sets = Sets::new(options);
    let params = Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: options.items,
        sender_size: options.items,
        session: [7; 32],
    };
    let rng = |party: u64| {
        let mut rng = ChaCha12Rng::seed_from_u64(options.seed);
        rng.set_stream(party);
        rng
    };

    let (mut receiving, mut sending) = memory_pair();
    let (view, masks) = std::thread::scope(|scope| {
        let (params, sets) = (&params, &sets);
        let sender =
            scope.spawn(move || send(&mut sending, params, run, &sets.theirs, &mut rng(1)));
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
fn follow<const W: usize>(options: &Options, run: Run) -> Result<Outcome, Error> {
    attack(options, run, |channel, params, sets, rng| {
        View::<RandomBand, W>::follow(channel, params, run, &sets.ours, rng)
    })
}

/// A receiver that splits the columns of figure 15 between two sets.
fn split(options: &Options) -> Result<Outcome, Error> {
    let run = Run::Paper(Figure::Malicious);
    attack(options, run, |channel, params, sets, rng| {
        let [first, last] = &sets.guesses;
        View::<RandomBand, 2>::split(channel, params, [first, last], rng)
    })
}

fn tell(outcome: &Outcome, expected: f64) {
    let Outcome {
        found,
        columns,
        time,
        ..
    } = outcome;
    println!(
        "  bits of s recovered     {} of {columns}",
        found.known_bits()
    );
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
    println!(
        "  first hit               {} ones",
        found.first.unwrap_or(0)
    );
    println!("  time                    {:.2} s", time.as_secs_f64());
}

/// Runs the attacks and prints the results.
///
/// # Errors
/// Those of the runs.
pub fn show(options: &Options) -> Result<(), Error> {
    let n = options.items;
    let candidates = n * options.dictionary;
    println!("{n} items per side, {candidates} candidates, of which the sender holds {n}\n");

    println!(
        "Figure 14 as published; a receiver that follows it, and holds half of the sender's items:"
    );
    let outcome = follow::<2>(options, Run::Paper(Figure::SemiHonest))?;
    let unknown = n - n / 2;
    let expected = expected_hashes(outcome.columns, unknown, candidates - n / 2);
    tell(&outcome, expected);

    println!(
        "\nFigure 15 as published, \"malicious\"; a receiver that splits its columns between two sets:"
    );
    let outcome = split(options)?;
    // Once for each half.
    tell(&outcome, 2.0 * expected_hashes(64, n / 2, n / 2 * 2));

    let outcome = follow::<8>(options, Run::Proven)?;
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
            items,
            dictionary: 16,
            seed: 3,
        }
    }

    #[test]
    fn a_receiver_that_follows_figure_14_finds_everything() {
        let outcome = follow::<2>(&options(1 << 10), Run::Paper(Figure::SemiHonest)).unwrap();
        assert!(outcome.everything(), "{:?}", outcome.found);
        assert_eq!(outcome.columns, 64);
    }

    #[test]
    fn a_receiver_that_splits_the_columns_of_figure_15_finds_everything() {
        let outcome = split(&options(1 << 10)).unwrap();
        assert!(outcome.everything(), "{:?}", outcome.found);
        assert_eq!(outcome.columns, 128);
    }

    /// At the proven width a receiver finds what both hold, which is its answer, and no more: the lightest candidate
    /// has at least 128 ones. No parameters make the width less.
    #[test]
    fn there_is_nothing_to_search_at_the_proven_width() {
        for items in [1 << 10, 1 << 12] {
            let outcome = follow::<8>(&options(items), Run::Proven).unwrap();
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
            session: [0; 32],
        };
        assert!(unsafe_paper_width(Figure::SemiHonest, &params) < 128);
    }
}
