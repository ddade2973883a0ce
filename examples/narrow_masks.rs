//! Why `sparse-okvs` is wider than its paper says: the attack of `docs/narrow-masks.md`, run.
//!
//! ```text
//! cargo run --release --example narrow_masks [-- --items 2^12 --dictionary 16 --seed 1]
//! ```
//!
//! Three runs between two parties in this process. In the first two the sender runs LTSXQ26 as published, figure
//! 14 and figure 15, and the receiver finds the sender's secret and every item of the sender's that a dictionary
//! has. In the third both run the protocol as vesica does, and there is nothing to search.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use vesica_oprf::research::attack::{Found, Run, View, expected_hashes, recover};
use vesica_oprf::sparse::{self, RandomBand};
use vesica_psi::research::{self, Choice, Figure, Width};
use vesica_psi::{Item, Params, Protocol, Security};
use vesica_wire::{Channel, Error, memory_pair};

/// The receiver spends at most 2^32 hashes on a candidate.
const MOST: u32 = 32;

#[derive(Clone, Copy, Debug)]
struct Options {
    /// Items of either side.
    items: usize,
    /// Candidates for each item of the sender's.
    dictionary: usize,
    seed: u64,
}

/// Who holds what.
struct Sets {
    /// Everything that the sender may hold; what it does hold is every so manieth, but the receiver does not know that.
    candidates: Vec<Item>,
    theirs: Vec<Item>,
    /// Half of the sender's items, and as many that are no candidates.
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

/// What came out of a run.
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

/// One run with a receiver that keeps its view, and what can be told from that. `W` words hold a row.
fn attack<const W: usize>(
    options: &Options,
    run: Run,
    receive: impl FnOnce(
        &mut dyn Channel,
        &sparse::Params,
        &Sets,
        &mut ChaCha12Rng,
    ) -> Result<View<RandomBand, W>, Error>,
) -> Result<Outcome, Error> {
    let sets = Sets::new(options);
    let params = Params {
        protocol: Protocol::SparseOkvs,
        security: Security::SemiHonest,
        both: false,
        lambda: 40,
        receiver_size: options.items,
        sender_size: options.items,
        session: [7; 32],
    };
    let sparse_params = sparse::Params {
        lambda: params.lambda,
        receiver_size: params.receiver_size,
        sender_size: params.sender_size,
        session: params.session,
        function: sparse::BitFunction::Aes,
    };
    let choice = Choice {
        width: match run {
            Run::Proven => Width::Proven,
            Run::Paper(figure) => Width::UnsafePaper(figure),
        },
        ..Choice::default()
    };
    let rng = |party: u64| {
        let mut rng = ChaCha12Rng::seed_from_u64(options.seed);
        rng.set_stream(party);
        rng
    };

    let (mut receiving, mut sending) = memory_pair();
    let (view, (masks, bits)) = std::thread::scope(|scope| {
        let (params, choice, sets) = (&params, &choice, &sets);
        let sender = scope
            .spawn(move || research::send(&mut sending, params, choice, &sets.theirs, &mut rng(1)));
        let view = receive(&mut receiving, &sparse_params, sets, &mut rng(2))?;
        let masks = research::receive_masks(&mut receiving, params, choice)?;
        sender.join().expect("the sender does not panic")?;
        Ok::<_, Error>((view, masks))
    })?;

    let start = Instant::now();
    let found = recover(&view, &masks, bits, &sets.candidates, MOST);
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

fn show(options: &Options) -> Result<(), Error> {
    let n = options.items;
    let candidates = n * options.dictionary;
    println!("{n} items a side, {candidates} candidates, of which the sender holds {n}\n");

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

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("2^") {
        Some(power) => 1u64.checked_shl(power.parse().ok()?),
        None => text.parse().ok(),
    }
}

fn parse(arguments: impl IntoIterator<Item = String>) -> Option<Options> {
    let mut options = Options {
        items: 1 << 12,
        dictionary: 16,
        seed: 1,
    };
    let mut arguments = arguments.into_iter();
    while let Some(name) = arguments.next() {
        let value = number(&arguments.next()?)?;
        match name.as_str() {
            "--items" if (64..=1 << 20).contains(&value) => options.items = value as usize,
            "--dictionary" if (2..=256).contains(&value) => options.dictionary = value as usize,
            "--seed" => options.seed = value,
            _ => return None,
        }
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = parse(std::env::args().skip(1)) else {
        eprintln!("options: --items 2^6…2^20, --dictionary 2…256 (candidates an item), --seed N");
        return ExitCode::from(2);
    };
    match show(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_oprf::research::unsafe_paper_width;
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
        for items in [1 << 10, 1 << 12] {
            let outcome = follow::<2>(&options(items), Run::Paper(Figure::SemiHonest)).unwrap();
            assert!(outcome.everything(), "{:?}", outcome.found);
            assert_eq!(outcome.columns, 64);
        }
    }

    #[test]
    fn a_receiver_that_splits_the_columns_of_figure_15_finds_everything() {
        for items in [1 << 10, 1 << 12] {
            let outcome = split(&options(items)).unwrap();
            assert!(outcome.everything(), "{:?}", outcome.found);
            assert_eq!(outcome.columns, 128);
        }
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
        let params = sparse::Params {
            lambda: 40,
            receiver_size: 1 << 26,
            sender_size: 1 << 26,
            session: [0; 32],
            function: sparse::BitFunction::Aes,
        };
        assert!(unsafe_paper_width(Figure::SemiHonest, &params) < 128);
    }

    #[test]
    fn options_are_read() {
        let read = |words: &str| parse(words.split_whitespace().map(str::to_owned));
        let options = read("--items 2^10 --seed 5").unwrap();
        assert_eq!(
            (options.items, options.dictionary, options.seed),
            (1024, 16, 5)
        );
        for wrong in [
            "--items",
            "--items 5",
            "--things 9",
            "--dictionary 1",
            "--seed x",
        ] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
    }
}
