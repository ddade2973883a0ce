//! How much noise dual LPN needs: the known attacks, and the least weight at which all of them fail.
//!
//! The receiver's half of a silent correlation is a = H·e for the pinned code ([`crate::code`]), where H is n
//! × N with N = 2n, and e has weight t with one random element in each of t equal blocks. Whoever
//! distinguishes a from random values, or finds e, breaks the correlation. The peer may know *every* entry of
//! a, since it may know what a is added to.
//!
//! Each attack is a function from an instance to a lower bound on its cost in bit operations. Where an attack
//! repeats a trial, a trial counts with the least that it could cost, one operation per noise position. All
//! numbers are [`Scaled`] and rounded down: both sides of a run compute the same weight. `examples/lpn.rs`
//! prints the estimates.

pub mod primal;

use std::sync::OnceLock;

use vesica_primitives::scaled::{Round, Scaled};

use crate::code::DISTANCE_PERCENT;

/// Leaves of a tree of the longest chunk. The code accesses a chunk's parity half, 16 or 32 bytes per entry,
/// at random; trees are used best where a chunk just fits.
pub(crate) const MAX_LEAVES: usize = 1 << 12;

/// Entries of the shortest chunk: shorter vectors are cut from it, since the code's distance is an estimate
/// for long ones.
pub(crate) const MIN_CHUNK: usize = 1 << 12;

/// κ: no attack on all chunks takes fewer than 2^κ bit operations.
pub const KAPPA: i64 = 128;

/// Dual LPN with regular noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Number n of entries of a: of linear equations for the noise.
    pub entries: usize,
    /// Number N of entries of e, 2n for the pinned code.
    pub positions: usize,
    /// Number t of noise positions, one in each of t blocks.
    pub weight: usize,
    /// Bits of a field element.
    pub field_bits: u32,
    /// Bits of an element of the subfield that the code's coefficients generate: 1 for coefficients 0 and 1.
    pub coefficient_bits: u32,
    /// Relative minimum distance of the dual code, in percent: an estimate.
    pub distance_percent: u64,
}

/// A lower bound on the cost of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// Where it is from.
    pub source: &'static str,
    /// Bit operations for an instance.
    pub cost: fn(&Instance) -> Scaled,
}

/// The attacks that the noise withstands.
pub const ATTACKS: [Attack; 7] = [
    Attack {
        name: "single test",
        source: "Boyle, Couteau, Gilboa, Ishai, Kohl, Scholl, CCS 2019; Couteau, Rindal, Raghuraman, CRYPTO 2021",
        cost: single_test,
    },
    Attack {
        name: "structured words",
        source: "ours, on the convolution of RRT23",
        cost: structured_words,
    },
    Attack {
        name: "joint test",
        source: "the reason for libOTe's CoeffCtx; the estimate is ours",
        cost: joint_test,
    },
    Attack {
        name: "kernel words",
        source: "ours, on the expander of RRT23",
        cost: kernel_words,
    },
    Attack {
        name: "Prange",
        source: "Prange 1962; for regular noise Esser and Santini, CRYPTO 2024",
        cost: prange,
    },
    Attack {
        name: "Stern",
        source: "Stern 1988; over large fields Peters, PQCrypto 2010, and Liu, Wang, Yang, Yu, EUROCRYPT 2024",
        cost: stern,
    },
    Attack {
        name: "algebraic",
        source: "Briaud and Øygarden, EUROCRYPT 2023; hybrids: ePrint 2025/1284 and 2025/1476",
        cost: algebraic,
    },
];

impl Instance {
    /// Entries of a block.
    fn block(&self) -> u64 {
        self.positions.div_ceil(self.weight) as u64
    }

    /// One operation for each position of the noise.
    fn trial(&self) -> Scaled {
        ratio(self.positions as u64, 1)
    }

    /// An information set. Over GF(2) a block's sum is known, which saves one position.
    fn information_set(&self) -> InformationSet {
        let (block, all) = (self.block(), self.positions as u64);
        let sum = if self.field_bits == 1 { all } else { 0 };
        InformationSet {
            weight: self.weight,
            part: block * (all - self.entries as u64) - sum,
            scale: all,
            block,
            field_bits: self.field_bits,
        }
    }

    /// Whether no attack takes fewer than 2^`kappa` operations.
    fn holds(&self, kappa: i64) -> bool {
        let least = Scaled::power_of_two(kappa);
        ATTACKS
            .iter()
            .all(|attack| least.at_most((attack.cost)(self)))
    }
}

/// An information set with equal parts in all blocks.
#[derive(Clone, Copy, Debug)]
struct InformationSet {
    /// Number t of blocks, with one noise position each.
    weight: usize,
    /// Positions in the part of a block, times `scale`.
    part: u64,
    scale: u64,
    /// Positions that the noise of a block can have.
    block: u64,
    field_bits: u32,
}

impl InformationSet {
    /// The cost of `trial` repeated until the set is free of noise.
    fn noise_free(&self, trial: Scaled) -> Scaled {
        let block = self.block * self.scale;
        power(block, block - self.part, self.weight).times(trial, Round::Down)
    }

    /// The cost of trials that allow noise in 2j positions of the set: a trial is two lists with j positions each.
    fn collisions(&self) -> Scaled {
        let (part, block) = (self.part, self.block * self.scale);
        let half = self.weight as u64 / 2;
        // The least cost of a trial where none is allowed.
        let mut least = self.noise_free(Scaled::power_of_two(0));
        if part == 0 {
            return least;
        }
        let mut cost = least;
        for j in 0..half {
            // For one more in each half, the chance is (C(t/2, j+1) / C(t/2, j) · x/(1−x))² as large, x being the
            // part of a block; the lists get longer by C(t/2, j+1) / C(t/2, j) times the noise values of such a part.
            let odds = ratio(block - part, part).power(2, Round::Down);
            cost = cost
                .times(odds, Round::Down)
                .times_whole(part / self.scale, Round::Down)
                .times(
                    Scaled::power_of_two(i64::from(self.field_bits) - 1),
                    Round::Down,
                )
                .times_whole(j + 1, Round::Down)
                .over(half - j, Round::Down);
            // The factors grow with j.
            if least.at_most(cost) {
                break;
            }
            least = cost;
        }
        least
    }
}

/// `top`/`bottom`.
fn ratio(top: u64, bottom: u64) -> Scaled {
    Scaled::power_of_two(0)
        .times_whole(top, Round::Down)
        .over(bottom, Round::Down)
}

/// (`top`/`bottom`) to a power.
fn power(top: u64, bottom: u64, exponent: usize) -> Scaled {
    ratio(top, bottom).power(exponent as u64, Round::Down)
}

/// The inverse of the advantage of the linear test with the lightest word of the dual code: the test misses
/// the noise of a block with probability 1 − δ, or has a bias of 1 − 2δ if noise is a bit. Finding the word
/// is not counted.
pub fn single_test(instance: &Instance) -> Scaled {
    let hits = match instance.field_bits {
        1 => 2 * instance.distance_percent,
        _ => instance.distance_percent,
    };
    power(100, 100 - hits, instance.weight)
}

/// State bits of both passes of the convolution: the number of conditions for a word to be 0 from a position
/// on.
const STATE: u128 = 2 * 25;

/// Parts of an entry's cover: 2^-10.
const PARTS: u128 = 1 << 10;

/// A single test with a dual word made for regular noise and this code. A gap of zeros in its parity half
/// costs as many linear conditions as the two passes have state bits, 50, whatever its length; one gap around
/// a boundary serves both blocks there, so all t/2 blocks of that half have one for 25·t/2 conditions. Let
/// the gaps leave a fraction r of each block. The rows whose 7 expander positions all lie outside the gaps
/// are n·r^7; if they are more than the conditions, some linear combination meets all of these. It is a word
/// that covers r of each parity block, and of the systematic half only some 25·t/2 positions of n, which are
/// not counted here. It misses the noise of a block with probability 1 − r, and over GF(2), where half of
/// what it covers is 1, has the same bias. So the advantage is (1 − r)^(t/2), with n·r^7 = 25·t/2. In the
/// pinned code such a word has, for t = 250 and n = 512000 over GF(2), the bias 2^-116.3, where this gives
/// 2^-118.5.
///
/// It is an estimate: the lightest of many such words, or gaps of other shapes, gain some bits. Equal gaps
/// are best among those that all blocks have, since Σ log(1 − r_i) for a given Π r_i is largest there. To
/// allow for such gains, only nine tenths of the exponent count: five times what the experiment gained. A search that also
/// lets rows have two or three positions within gaps, which cancel, found 2^-246 where the formula has 2^-259.6 (t = 546, the
/// longest chunk), and for bits 2^-135.2 for 2^-142.6 (t = 300): half of that margin.
pub fn structured_words(instance: &Instance) -> Scaled {
    let (n, t) = (instance.entries as u128, instance.weight as u128);
    // r rounded down to 2^-10; where the rows are too few for any gap, it is 1 − 2^-10.
    let cover = (0..PARTS)
        .rev()
        .find(|r| 4 * n * r.pow(7) <= STATE * t * PARTS.pow(7))
        .expect("0 is small enough");
    let left = (PARTS - cover) as u64;
    power(PARTS as u64, left, instance.weight * 9 / 20)
}

/// Tests with many words at once. Any n + r positions hold r words of the dual code, whose coefficients are from the
/// subfield of s bits. A functional on the field that is linear over the subfield maps their values to 0 if it maps
/// all noise on these positions to 0; then the values have less than full rank. There are at most 2^b functionals on
/// elements of b bits, and each maps the noise of a block to 0 with probability 1/2 + 2^-s/2.
///
/// This is for a generic set of positions. With structured words the code without constants was distinguished
/// from random at full size, by one elimination of 7000 × 7000 and with constant advantage; with constants it
/// was not.
pub fn joint_test(instance: &Instance) -> Scaled {
    if instance.field_bits == instance.coefficient_bits {
        // The only functional is the identity.
        return power(2, 1, instance.weight).times(instance.trial(), Round::Down);
    }
    // A smaller subfield favours the attack.
    let bits = instance.coefficient_bits.min(32);
    let functionals = Scaled::power_of_two(-i64::from(instance.field_bits));
    let trials = power(2 << bits, (1 << bits) + 1, instance.weight).times(functionals, Round::Down);
    let one = Scaled::power_of_two(0);
    let trials = if trials.at_most(one) { one } else { trials };
    trials.times(instance.trial(), Round::Down)
}

/// A joint test with words whose parity half is 0, whatever the constants are: those that the expander maps to 0. Its
/// coefficients are 0 and 1, and a fraction e^-7 of its inputs is used by none of its outputs; so there are n·e^-7 such words
/// over GF(2). They meet the noise of the systematic half alone, and their values are planes over GF(2) that share it: with
/// probability 2^b·2^(-t/2) some functional maps all of that noise to 0, and the values have less than full rank. Words that
/// leave out rows gain three bits.
///
/// Constants of GF(2^8) can be undone for words over GF(2), which then have gaps in both halves: by a greedy search at t = 546
/// the probability is 2^-183 for 72 bits. That half a block's noise is missed becomes nine sixteenths here, which is 2^-155.
///
/// The cost of elimination, and that there have to be some b such words, are not counted.
pub fn kernel_words(instance: &Instance) -> Scaled {
    let (missed, gain) = match instance.coefficient_bits {
        8 => (power(16, 9, instance.weight / 2), 0),
        _ => (power(2, 1, instance.weight / 2), 3),
    };
    let functionals = i64::from(instance.field_bits) + gain;
    missed.times(Scaled::power_of_two(-functionals), Round::Down)
}

/// An information set with equal parts in all blocks, half of each at rate 1/2, is free of noise by chance: then e
/// follows from linear equations.
pub fn prange(instance: &Instance) -> Scaled {
    instance.information_set().noise_free(instance.trial())
}

/// Prange with 2j noise positions allowed in the information set, found by a collision between two lists with
/// j positions each. The other variants of information-set decoding gain in the same way; for noise of weight
/// o(N), as here, all have Prange's exponent (Canto Torres and Sendrier, PQCrypto 2016).
pub fn stern(instance: &Instance) -> Scaled {
    instance.information_set().collisions()
}

/// The highest degree that [`algebraic`] computes: coefficients have to fit 128 bits.
fn degrees(instance: &Instance) -> usize {
    if instance.positions <= 5 << 19 { 6 } else { 5 }
}

/// Number of steps from no guessed positions to as many as make the rest linear.
const STEPS: usize = 64;

/// Gröbner bases of the parity checks and the quadratic equations e_i·e_j = 0 within a block, after guessing
/// noise-free positions, the same number in each block. The degree is that of the first coefficient of the
/// Hilbert series that is not positive. Linear algebra on the monomials of that degree in the remaining
/// variables costs at least the square of their number. Degrees above 6 count as 7, or above 5 as 6.
pub fn algebraic(instance: &Instance) -> Scaled {
    guess_and_solve(instance, instance.block())
}

/// [`algebraic`] where a block's noise has `block` positions, of which `instance` has only some.
fn guess_and_solve(instance: &Instance, block: u64) -> Scaled {
    let weight = instance.weight as u64;
    let (entries, positions) = (instance.entries as u64, instance.positions as u64);
    let guessable = weight * (instance.block() * (positions - entries) / positions);
    let checks = check_series(instance);
    let mut least = None;
    let mut guessing = Scaled::power_of_two(0);
    for step in 1..=STEPS as u64 {
        // A bound for all numbers of guesses from the previous step up to this one.
        let zeros = guessable * step / STEPS as u64;
        let cost = guessing.times(solving(instance, &checks, zeros), Round::Down);
        if least.is_none_or(|least| cost.at_most(least)) {
            least = Some(cost);
        }
        if step == STEPS as u64 {
            break;
        }
        let (each, more) = (zeros / weight, zeros % weight);
        guessing = power(block, block - each, (weight - more) as usize)
            .times(power(block, block - each - 1, more as usize), Round::Down);
        // Guesses only become more expensive.
        if least.is_some_and(|least| least.at_most(guessing)) {
            break;
        }
    }
    least.expect("there are steps")
}

/// The coefficients that the parity checks contribute to the Hilbert series.
fn check_series(instance: &Instance) -> Vec<i128> {
    let (entries, weight) = (instance.entries as i128, instance.weight as i128);
    let degrees = degrees(instance);
    if instance.field_bits == 1 {
        // 1 / (1 + z)^(n − 1)
        series(-(entries - 1), 1, degrees)
    } else {
        // (1 − z)^(n − t)
        series(entries - weight, -1, degrees)
    }
}

/// The least cost of solving for the noise once `zeros` positions are known to be noise-free.
fn solving(instance: &Instance, checks: &[i128], zeros: u64) -> Scaled {
    let (weight, block) = (instance.weight as i128, i128::from(instance.block()));
    let (each, more) = (i128::from(zeros) / weight, i128::from(zeros) % weight);
    let degrees = degrees(instance);
    let blocks = product(
        &series(weight - more, block - each - 1, degrees),
        &series(more, block - each - 2, degrees),
    );
    let series = product(&blocks, checks);
    let degree = (1..=degrees)
        .find(|degree| series[*degree] <= 0)
        .unwrap_or(degrees + 1);
    let variables = u64::try_from(series[1]).unwrap_or(0);
    let mut monomials = Scaled::power_of_two(0);
    for i in 0..degree as u64 {
        monomials = monomials
            .times_whole(variables.saturating_sub(i).max(1), Round::Down)
            .over(i + 1, Round::Down);
    }
    let one = Scaled::power_of_two(0);
    if monomials.at_most(one) {
        return instance.trial();
    }
    monomials.power(2, Round::Down)
}

/// The coefficients of (1 + factor·z)^exponent up to a degree.
fn series(exponent: i128, factor: i128, degrees: usize) -> Vec<i128> {
    let mut series = vec![1];
    for degree in 1..=degrees as i128 {
        let last = series[series.len() - 1];
        series.push(last * (exponent - degree + 1) * factor / degree);
    }
    series
}

/// The coefficients of a product, as many as both factors have.
fn product(a: &[i128], b: &[i128]) -> Vec<i128> {
    (0..a.len())
        .map(|degree| (0..=degree).map(|i| a[i] * b[degree - i]).sum())
        .collect()
}

/// The least even weight at which no attack takes fewer than 2^`kappa` operations, on the shortest and on
/// the longest possible chunk.
pub fn weight(field_bits: u32, coefficient_bits: u32, distance_percent: u64, kappa: i64) -> usize {
    (2..)
        .step_by(2)
        .find(|&weight| {
            [MIN_CHUNK, weight / 2 * MAX_LEAVES]
                .into_iter()
                .all(|entries| {
                    let instance = Instance {
                        entries,
                        positions: 2 * entries,
                        weight,
                        field_bits,
                        coefficient_bits,
                        distance_percent,
                    };
                    instance.holds(kappa)
                })
        })
        .expect("costs grow with the weight")
}

/// The instances that entries of so many bits are, with the pinned code: bits of an element, and of the coefficients' field.
///
/// Those of 72 bits are vectors of nine elements over GF(2^8). Each element by itself is an instance, whose noise is 0 once in
/// 256: that takes three bits off the attacks that guess where there is none, and these have hundreds.
///
/// # Panics
/// For other bits than 1, 64, 72 and 128.
pub fn instances(bits: u32) -> &'static [(u32, u32)] {
    ENTRIES[place(bits)].1
}

/// The bits of entries, with their instances.
const ENTRIES: [(u32, &[(u32, u32)]); 4] = [
    (1, &[(1, 1)]),
    (64, &[(64, 64)]),
    (72, &[(72, 8), (8, 8)]),
    (128, &[(128, 64)]),
];

fn place(bits: u32) -> usize {
    let place = ENTRIES.iter().position(|(of, _)| *of == bits);
    place.expect("bits of an entry")
}

/// Number of noise positions per chunk of entries of `bits` bits, for the pinned code and so many chunks at most. Whoever
/// attacks all chunks needs one of them to fall, so that on each an attack takes 2^[`KAPPA`] operations as often as there are
/// chunks.
///
/// # Panics
/// For more than 2^15 chunks, and as [`instances`].
pub fn noise_weight(bits: u32, chunks: usize) -> usize {
    static WEIGHTS: [[OnceLock<usize>; 16]; ENTRIES.len()] =
        [const { [const { OnceLock::new() }; 16] }; ENTRIES.len()];
    let log = chunks.next_power_of_two().ilog2();
    let kappa = KAPPA + i64::from(log);
    let of =
        |(field, coefficients): &(u32, u32)| weight(*field, *coefficients, DISTANCE_PERCENT, kappa);
    *WEIGHTS[place(bits)][log as usize]
        .get_or_init(|| instances(bits).iter().map(of).max().unwrap_or(0))
}

#[cfg(test)]
mod tests;
