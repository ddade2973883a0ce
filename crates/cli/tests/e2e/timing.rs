//! Whether the peer can tell by its clock how many keys match: a gate, and a table for `docs/reliability.md`.
//!
//! Receiver and sender run over TLS on the loopback interface, with none, half and all of the keys in common, in a random
//! order and at random places of the tables. The sender takes the time that it waits for the receiver once something
//! could depend on the matches: after its masks, until the confirmation or the first frames of the next buckets; in a
//! circuit, from the membership test on, and in the function alone; and in the end until the receiver has hung up. Of a task,
//! of a client of a published set, and of a sender that learns the matches too, it is the time from what the peer has said
//! last to the end of the connection.
//! [`permutation`](crate::permutation) compares. Runs by courier have no clock.
//!
//! A gate that sees nothing passes too. So each comparison also says how much longer each match would have to take to be
//! seen: such delays are added to the times that were measured. If that is more than a leak would be, the gate fails.
//!
//! Times are those of an optimised build: otherwise they scatter by more than a leak would be.

mod look_ups;
mod runs;
mod tasks;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use vesica::Security;

use self::look_ups::{LOOKED_UP, LookUps, Way as LookUpWay};
use self::runs::{More, Planted, Setup, Way};
use crate::answers::Question;
use crate::permutation::{Block, PERMUTATIONS, gate, p_value};
use crate::trial::{Dice, Variant, is_asked, part, publish, variants};

/// The probability of a false alarm for a protocol is at most the square of this.
const LEVEL: f64 = 0.01;

/// A measurement takes as many blocks as fit into so much time by its first one, but within these bounds.
const DURATION: Duration = Duration::from_secs(30);
const MIN_BLOCKS: u64 = 30;
const MAX_BLOCKS: u64 = 200;

/// The arms: matching keys in halves of all.
const HALVES: [u64; 3] = [0, 1, 2];

/// Keys of a receiver and of a larger sender: what the sender is told of the matches is positions then, not bits.
const FEW: u64 = 1 << 10;
const MANY: u64 = 1 << 20;

/// Delays for each match that are tried: this one, and others of twice as much up to 25 ms.
const LEAST_DELAY: Duration = Duration::from_nanos(25);
const DELAYS: u32 = 21;

/// The time of a run in which so many keys match.
type Run<'a> = Box<dyn Fn(u64, &mut Dice) -> Duration + 'a>;

/// One comparison.
struct Comparison<'a> {
    keys: u64,
    waits: &'static str,
    /// A delay for each match that it has to see.
    sees: Duration,
    run: Run<'a>,
}

impl<'a> Comparison<'a> {
    fn of_run(setup: Setup, waits: &'static str) -> Comparison<'a> {
        // Threads of two buckets disturb each other, and a larger sender takes longer by itself.
        let nanoseconds = match setup.way {
            Way::SideBySide => 10_000,
            _ if setup.among > setup.keys => 25_600,
            Way::OneBucket | Way::InTurn | Way::FromDisk => 1000,
        };
        Comparison {
            keys: setup.keys,
            waits,
            sees: Duration::from_nanos(nanoseconds),
            run: Box::new(move |common, dice| setup.run(common, dice)),
        }
    }

    fn of_tasks(variant: Variant, keys: u64) -> Comparison<'a> {
        Comparison {
            keys,
            waits: "until a task hangs up",
            sees: Duration::from_nanos(1000),
            run: Box::new(move |common, dice| tasks::run(variant, keys, common, dice)),
        }
    }

    fn of_look_ups(
        look_ups: &'a LookUps,
        way: LookUpWay,
        planted: Duration,
        waits: &'static str,
    ) -> Comparison<'a> {
        Comparison {
            keys: LOOKED_UP,
            waits,
            sees: Duration::from_micros(10),
            run: Box::new(move |common, dice| look_ups.run(way, planted, common, dice)),
        }
    }

    /// One time of each arm, in a random order.
    fn block(&self, dice: &mut Dice) -> Block<3> {
        let mut order = [0, 1, 2];
        dice.shuffle(&mut order);
        let mut times = [0.0; 3];
        for arm in order {
            times[arm] = (self.run)(self.matches(arm), dice).as_secs_f64();
        }
        times
    }

    fn matches(&self, arm: usize) -> u64 {
        self.keys * HALVES[arm] / 2
    }

    fn blocks(&self, dice: &mut Dice) -> Vec<Block<3>> {
        if cfg!(debug_assertions) {
            panic!("times are those of `--release`");
        }
        // The first runs find cold caches, and don't count.
        let start = Instant::now();
        self.block(dice);
        let fit = DURATION.div_duration_f64(start.elapsed()) as u64;
        let count = part(fit.clamp(MIN_BLOCKS, MAX_BLOCKS));
        (0..count).map(|_| self.block(dice)).collect()
    }

    /// These times, had each match taken so much longer.
    fn delayed(&self, blocks: &[Block<3>], each: Duration) -> Vec<Block<3>> {
        let longer = [0, 1, 2].map(|arm| each.as_secs_f64() * self.matches(arm) as f64);
        let delayed = |block: &Block<3>| [0, 1, 2].map(|arm| block[arm] + longer[arm]);
        blocks.iter().map(delayed).collect()
    }

    /// The least delay of a match that would be seen in these times; `None` if none would.
    fn resolution(
        &self,
        blocks: &[Block<3>],
        (level, permutations): (f64, u32),
        dice: &mut Dice,
    ) -> Option<Duration> {
        let delays: Vec<Duration> = (0..DELAYS)
            .map(|doubled| LEAST_DELAY * (1 << doubled))
            .collect();
        // What is seen is seen if it is longer.
        let unseen = delays.partition_point(|each| {
            p_value(&self.delayed(blocks, *each), permutations, dice) > level
        });
        delays.get(unseen).copied()
    }
}

/// Every comparison of a variant.
fn comparisons<'a>(variant: Variant) -> Vec<Comparison<'a>> {
    let of = |keys: u64| {
        let setup = |way| Setup::new(variant, keys, way);
        let whole = setup(Way::OneBucket);
        match variant.question {
            Question::Matches => vec![
                Comparison::of_run(whole, "one bucket"),
                Comparison::of_run(setup(Way::FromDisk), "buckets from the disk"),
                Comparison::of_run(setup(Way::SideBySide), "buckets side by side"),
            ],
            _ => vec![
                Comparison::of_run(whole, "from the membership test on"),
                Comparison::of_run(whole.of_function(), "in the function"),
                Comparison::of_run(setup(Way::InTurn), "buckets"),
            ],
        }
    };
    [1 << 12, 1 << 16].into_iter().flat_map(of).collect()
}

/// Every comparison of a variant in which a side gets more, and of its tasks. With `--both` the peer may know how many keys
/// match, and whoever sees the two talk may not.
fn more_comparisons<'a>(variant: Variant) -> Vec<Comparison<'a>> {
    let of = |keys: u64| {
        let with = |more, waits| {
            let setup = Setup::new(variant, keys, Way::OneBucket);
            Comparison::of_run(setup.telling(more), waits)
        };
        let of_sender = |more, waits| {
            let setup = Setup::new(variant, keys, Way::OneBucket);
            Comparison::of_run(setup.telling(more).of_sender(), waits)
        };
        [
            with(More::Both, "both learn"),
            with(More::Aligned, "both learn, in one order"),
            with(More::Labels, "columns handed over"),
            of_sender(More::Both, "until the sender hangs up, both learn"),
            of_sender(More::Aligned, "until the sender hangs up, in one order"),
            Comparison::of_tasks(variant, keys),
        ]
    };
    let few = |more, waits| {
        let setup = Setup::new(variant, FEW, Way::OneBucket).among(MANY);
        Comparison::of_run(setup.telling(more).of_sender(), waits)
    };
    let mut comparisons: Vec<Comparison<'_>> =
        [1 << 12, 1 << 16].into_iter().flat_map(of).collect();
    comparisons.extend([
        few(More::Both, "until a larger sender hangs up, both learn"),
        few(
            More::Aligned,
            "until a larger sender hangs up, in one order",
        ),
    ]);
    comparisons
}

/// Every comparison of look-ups that may not tell the matches.
fn of_look_ups(look_ups: &LookUps) -> Vec<Comparison<'_>> {
    [
        (LookUpWay::Asking, "until the client hangs up"),
        (LookUpWay::Fetching, "the same, files wanted too"),
        (LookUpWay::OnlyFetching, "the same, only files wanted"),
    ]
    .into_iter()
    .map(|(way, waits)| Comparison::of_look_ups(look_ups, way, Duration::ZERO, waits))
    .collect()
}

fn milliseconds(blocks: &[Block<3>]) -> String {
    let median = |arm: usize| {
        let mut times: Vec<f64> = blocks.iter().map(|block| block[arm]).collect();
        times.sort_by(f64::total_cmp);
        format!("{:.3}", times[times.len() / 2] * 1e3)
    };
    [0, 1, 2].map(median).join(" | ")
}

/// What the gate says of all comparisons of something: rows of the table, those that fail, and those that see too little.
#[derive(Default)]
struct Gate {
    table: String,
    leaks: Vec<String>,
    blind: Vec<String>,
}

impl Gate {
    fn judge(&mut self, name: &str, comparisons: &[Comparison<'_>], seed: u64) {
        let (mut dice, mut orders) = (Dice::new(seed), Dice::new(seed + 1));
        let mut medians = vec![String::new(); comparisons.len()];
        let mut sees = vec![None; comparisons.len()];
        let level = LEVEL / comparisons.len() as f64;
        let verdicts = gate(comparisons.len(), (LEVEL, PERMUTATIONS), &mut dice, |at| {
            let blocks = comparisons[at].blocks(&mut orders);
            medians[at] = milliseconds(&blocks);
            sees[at] = comparisons[at].resolution(&blocks, (level, PERMUTATIONS), &mut orders);
            blocks
        });
        for (at, verdict) in verdicts.into_iter().enumerate() {
            let Comparison { keys, waits, .. } = comparisons[at];
            let p_values: Vec<String> =
                verdict.p_values.iter().map(|p| format!("{p:.4}")).collect();
            let seen = sees[at].map_or("nothing".to_owned(), |each: Duration| format!("{each:?}"));
            let row = format!(
                "| {name} | {keys} | {waits} | {} | {} | {seen} |",
                medians[at],
                p_values.join(", again ")
            );
            let _ = writeln!(self.table, "{row}");
            if sees[at].is_none_or(|each| each > comparisons[at].sees) {
                self.blind.push(row.clone());
            }
            if verdict.differs {
                self.leaks.push(row);
            }
        }
    }
}

/// The time that the peer waits does not depend on the matches, with its table.
#[test]
#[ignore = "some three minutes for each protocol, on a machine that does nothing else"]
fn the_peers_clock_does_not_tell_the_matches() {
    let mut gate = Gate::default();
    let asked = [
        Variant::matches("compact-dh", Security::Malicious),
        Variant::matches("vole", Security::Malicious),
        Variant::matches("kkrt", Security::SemiHonest),
        Variant::matches("spot-fast", Security::SemiHonest),
        Variant::matches("sparse-okvs", Security::SemiHonest),
        Variant::function("circuit-okvs", Question::Size),
        Variant::function("circuit-okvs", Question::ThresholdMatches),
        Variant::function("circuit-rb-psm2", Question::Size),
    ];
    for variant in variants()
        .into_iter()
        .filter(|variant| asked.contains(variant))
    {
        gate.judge(&variant.name(), &comparisons(variant), 1);
        // What is told of one mask for each item, and of several.
        if ["vole", "kkrt"].contains(&variant.protocol) {
            gate.judge(&variant.name(), &more_comparisons(variant), 1);
        }
    }
    if is_asked("look-up") {
        LookUps::served(|look_ups| gate.judge("look-up", &of_look_ups(look_ups), 1));
    }
    let mut table = "| protocol | keys | waits | none | half | all | p | sees |\n".to_owned();
    table.push_str(&"|---".repeat(8));
    publish("timing", &format!("{table}|\n{}", gate.table));
    assert!(
        gate.leaks.is_empty(),
        "the peer's clock tells the matches: {:#?}",
        gate.leaks
    );
    assert!(
        gate.blind.is_empty(),
        "these would not see a leak: {:#?}",
        gate.blind
    );
}

/// What the gate is worth: it fails where matches take time, wherever that is.
#[test]
#[ignore = "some five minutes on a machine that does nothing else"]
fn a_planted_delay_is_caught() {
    let [vole, okvs, rows] = [
        Variant::matches("vole", Security::Malicious),
        Variant::function("circuit-okvs", Question::Size),
        Variant::function("circuit-okvs", Question::ThresholdMatches),
    ];
    let mut missed = Vec::new();
    let mut catch = |name: &str, comparison: &Comparison<'_>| {
        let mut dice = Dice::new(1);
        let blocks = comparison.blocks(&mut dice);
        let p = p_value(&blocks, PERMUTATIONS, &mut dice);
        let (waits, medians) = (comparison.waits, milliseconds(&blocks));
        let row = format!("{name}, {waits}: {medians} ms, p = {p:.4}");
        println!("{row}");
        if p > LEVEL / 6.0 {
            missed.push(row);
        }
    };
    let of = |variant, way| Setup::new(variant, 1 << 12, way);
    let each = Duration::from_nanos;
    for (setup, planted, waits) in [
        (
            of(vole, Way::OneBucket),
            Planted::InTheRun(each(100)),
            "one bucket",
        ),
        (
            of(vole, Way::OneBucket),
            Planted::AtTheEnd(each(1000)),
            "the end",
        ),
        (
            of(vole, Way::FromDisk),
            Planted::InTheRun(each(1000)),
            "buckets from the disk",
        ),
        (
            of(vole, Way::SideBySide),
            Planted::InTheRun(each(10_000)),
            "buckets side by side",
        ),
        (
            of(okvs, Way::OneBucket).of_function(),
            Planted::InTheRun(each(100)),
            "in the function",
        ),
        (
            of(rows, Way::OneBucket).of_function(),
            Planted::InTheRun(each(100)),
            "rows above a threshold",
        ),
    ] {
        let setup = setup.planting(planted);
        catch(&setup.variant.name(), &Comparison::of_run(setup, waits));
    }
    for (more, waits) in [
        (More::Both, "both learn"),
        (More::Aligned, "both learn, in one order"),
        (More::Labels, "columns handed over"),
    ] {
        let planted = Planted::InTheRun(each(100));
        let setup = of(vole, Way::OneBucket).telling(more).planting(planted);
        catch(&setup.variant.name(), &Comparison::of_run(setup, waits));
    }
    let larger = Setup::new(vole, FEW, Way::OneBucket).among(MANY);
    for (setup, planted, waits) in [
        (
            of(vole, Way::OneBucket),
            each(1000),
            "until the sender hangs up",
        ),
        (larger, each(25_600), "until a larger sender hangs up"),
    ] {
        let told = setup.telling(More::Both).of_sender();
        let slow = told.planting(Planted::InTheRun(planted));
        catch(&vole.name(), &Comparison::of_run(slow, waits));
    }
    LookUps::served(|look_ups| {
        for (way, planted, waits) in [
            (LookUpWay::Asking, each(10_000), "after the last answer"),
            (
                LookUpWay::Staying,
                Duration::ZERO,
                "until its rows are written",
            ),
        ] {
            catch(
                "look-up",
                &Comparison::of_look_ups(look_ups, way, planted, waits),
            );
        }
    });
    assert!(missed.is_empty(), "not caught: {missed:#?}");
}

/// A delay is seen from about the scatter of the times on, over as many matches as there are.
#[test]
fn a_resolution_is_what_the_scatter_leaves() {
    let mut dice = Dice::new(5);
    let comparison = Comparison {
        keys: 1000,
        waits: "",
        sees: Duration::ZERO,
        run: Box::new(|_, _| Duration::ZERO),
    };
    // Some microseconds each, over 500 and 1000 matches.
    let mut uniform = || dice.below(1 << 20) as f64 / f64::from(1 << 20);
    let blocks = (0..40).map(|_| [(); 3].map(|()| uniform() * 2e-5));
    let blocks: Vec<Block<3>> = blocks.collect();
    let mut dice = Dice::new(6);
    let mut sees = |blocks: &[Block<3>]| comparison.resolution(blocks, (0.01, 199), &mut dice);
    assert_eq!(sees(&blocks), Some(LEAST_DELAY));
    let slow = blocks.iter().map(|block| block.map(|time| time * 1e3));
    let slow = sees(&slow.collect::<Vec<_>>()).unwrap();
    assert!(
        (LEAST_DELAY * 64..=LEAST_DELAY * 1024).contains(&slow),
        "{slow:?}"
    );
    // Without a scatter all is seen, and in one block nothing.
    assert_eq!(sees(&[[1.0; 3]; 40]), Some(LEAST_DELAY));
    assert_eq!(sees(&blocks[..1]), None);
}
