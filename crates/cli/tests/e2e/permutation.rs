//! Whether the times of several arms differ: a permutation test within blocks, and a gate of many such tests.
//!
//! A block has one time of each arm, taken one after the other in a random order. If the arms do not differ, all orders
//! within a block are equally likely, whatever drifts or jumps from block to block, and however the times are
//! distributed: so the p-value of a permutation test is exact. Its statistic sees ranks only, so that a few times of a
//! busy machine weigh no more than others (Hodges and Lehmann, *Rank methods for combination of independent experiments
//! in analysis of variance*, 1962).

use crate::trial::Dice;

/// Times of one block, one of each arm.
pub(crate) type Block<const ARMS: usize> = [f64; ARMS];

/// Permutations of one test: p-values down to one in so many.
pub(crate) const PERMUTATIONS: u32 = 9999;

/// The probability of arms that differ so much, or more, if they are of one distribution.
pub(crate) fn p_value<const ARMS: usize>(
    blocks: &[Block<ARMS>],
    permutations: u32,
    dice: &mut Dice,
) -> f64 {
    let mut ranks = aligned_ranks(blocks);
    let seen = spread(&ranks);
    let mut as_large = 1;
    for _ in 0..permutations {
        ranks.iter_mut().for_each(|block| dice.shuffle(block));
        // Sums of halves are exact.
        as_large += u32::from(spread(&ranks) >= seen);
    }
    f64::from(as_large) / f64::from(permutations + 1)
}

/// The ranks of all times less the median of their block; equal ones share their mean rank.
fn aligned_ranks<const ARMS: usize>(blocks: &[Block<ARMS>]) -> Vec<Block<ARMS>> {
    let mut all: Vec<(f64, usize)> = Vec::new();
    for (i, block) in blocks.iter().enumerate() {
        let mut sorted = *block;
        sorted.sort_by(f64::total_cmp);
        let times = block.iter().enumerate();
        all.extend(times.map(|(arm, time)| (time - sorted[ARMS / 2], i * ARMS + arm)));
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut ranks = vec![[0.0; ARMS]; blocks.len()];
    let mut first = 0;
    for equal in all.chunk_by(|a, b| a.0 == b.0) {
        let rank = first as f64 + (equal.len() as f64 - 1.0) / 2.0;
        for (_, at) in equal {
            ranks[at / ARMS][at % ARMS] = rank;
        }
        first += equal.len();
    }
    ranks
}

/// The sum of the squares of the arms' sums of ranks: least if all are equal.
fn spread<const ARMS: usize>(ranks: &[Block<ARMS>]) -> f64 {
    let mut sums = [0.0; ARMS];
    for block in ranks {
        sums.iter_mut()
            .zip(block)
            .for_each(|(sum, rank)| *sum += rank);
    }
    sums.iter().map(|sum| sum * sum).sum()
}

/// Which of these p-values reject their hypothesis, so that the probability of rejecting any that is true is at most
/// `level` (Holm, *A simple sequentially rejective multiple test procedure*, 1979).
fn rejected(p_values: &[f64], level: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut rejected = vec![false; p_values.len()];
    for (rank, at) in order.into_iter().enumerate() {
        if p_values[at] > level / (p_values.len() - rank) as f64 {
            break;
        }
        rejected[at] = true;
    }
    rejected
}

/// What a gate says of one comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The p-value of the first measurement, and that of the second one if there was one.
    pub(crate) p_values: Vec<f64>,
    /// Whether the arms differ, by both.
    pub(crate) differs: bool,
}

/// Measures each of `count` comparisons; those that seem to differ are measured anew, and differ if they seem to once
/// more. Each time the probability that any of those which do not differ seems to is at most `level`: so a false alarm
/// has a probability of at most its square.
pub(crate) fn gate<const ARMS: usize>(
    count: usize,
    (level, permutations): (f64, u32),
    dice: &mut Dice,
    mut measure: impl FnMut(usize) -> Vec<Block<ARMS>>,
) -> Vec<Verdict> {
    let mut round = |which: &[usize], dice: &mut Dice| -> (Vec<f64>, Vec<bool>) {
        let p_values = which
            .iter()
            .map(|at| p_value(&measure(*at), permutations, dice));
        let p_values: Vec<f64> = p_values.collect();
        let seem = rejected(&p_values, level);
        (p_values, seem)
    };
    let all: Vec<usize> = (0..count).collect();
    let (first, seem) = round(&all, dice);
    let verdict = |p_value: f64| Verdict {
        p_values: vec![p_value],
        differs: false,
    };
    let mut verdicts: Vec<Verdict> = first.into_iter().map(verdict).collect();
    let suspects: Vec<usize> = all.into_iter().filter(|at| seem[*at]).collect();
    let (second, seem) = round(&suspects, dice);
    for ((at, p_value), differs) in suspects.into_iter().zip(second).zip(seem) {
        verdicts[at].p_values.push(p_value);
        verdicts[at].differs = differs;
    }
    verdicts
}

/// Times as a busy machine has them: they drift, and some are many times as long. The arms take these parts of the
/// usual scatter longer.
fn synthetic(blocks: usize, longer: [f64; 3], dice: &mut Dice) -> Vec<Block<3>> {
    let uniform = |dice: &mut Dice| (dice.below(1 << 32) as f64 + 0.5) / (1u64 << 32) as f64;
    let mut drift = 0.0;
    (0..blocks)
        .map(|_| {
            drift += uniform(dice) - 0.5;
            longer.map(|longer| {
                let scatter = -uniform(dice).ln();
                let outlier = if dice.once_in(20) {
                    50.0 * uniform(dice)
                } else {
                    0.0
                };
                10.0 + drift + longer + scatter + outlier
            })
        })
        .collect()
}

#[test]
fn p_values_of_equal_arms_are_uniform() {
    const TESTS: u32 = 800;
    let mut dice = Dice::new(1);
    let p_values: Vec<f64> = (0..TESTS)
        .map(|_| p_value(&synthetic(20, [0.0; 3], &mut dice), 99, &mut dice))
        .collect();
    for level in [0.01, 0.05, 0.2, 0.5] {
        let below = p_values.iter().filter(|p| **p <= level).count() as f64;
        let expected = level * f64::from(TESTS);
        let deviation = (expected * (1.0 - level)).sqrt();
        assert!(
            (below - expected).abs() < 4.0 * deviation,
            "{level}: {below}"
        );
    }
}

#[test]
fn false_alarms_are_as_rare_as_stated() {
    // At a level at which there are some.
    const GATES: usize = 200;
    let (level, mut dice, mut seem, mut alarms) = (0.3, Dice::new(2), 0.0, 0.0);
    for _ in 0..GATES {
        let times = &mut Dice::new(dice.below(u64::MAX));
        let verdicts = gate(8, (level, 99), &mut dice, |_| {
            synthetic(12, [0.0; 3], times)
        });
        seem += f64::from(verdicts.iter().any(|verdict| verdict.p_values.len() > 1));
        alarms += f64::from(verdicts.iter().any(|verdict| verdict.differs));
    }
    // Holm's bound is close to what happens, and the square of the level is a bound.
    let within = |count: f64, rate: f64| {
        let expected = rate * GATES as f64;
        (count - expected) / (expected * (1.0 - rate)).sqrt()
    };
    assert!(
        within(seem, level) < 4.0 && within(seem, 0.7 * level) > -4.0,
        "{seem}"
    );
    assert!(
        within(alarms, level * level) < 4.0 && alarms > 0.0,
        "{alarms}"
    );
}

#[test]
fn arms_that_differ_are_found() {
    // Matches that cost time; and half of them, at random, mispredicted branches.
    for longer in [[0.0, 0.6, 1.2], [0.0, 1.0, 0.0]] {
        let mut found = 0;
        for seed in 0..5 {
            let mut dice = Dice::new(seed);
            let times = &mut Dice::new(1000 + seed);
            let verdicts = gate(4, (0.01, 499), &mut dice, |at| {
                let longer = if at == 3 { longer } else { [0.0; 3] };
                synthetic(100, longer, times)
            });
            assert!(
                verdicts
                    .iter()
                    .enumerate()
                    .all(|(at, v)| at == 3 || !v.differs)
            );
            found += u32::from(verdicts[3].differs);
        }
        assert!(found >= 4, "{longer:?}: {found} of 5");
    }
}
