//! How much noise primal LPN with a sparse matrix may have samples for: the known attacks, and the most noise
//! positions, at a given rate, at which all of them fail.
//!
//! The receiver's choice bits in [`crate::bulk`] are A·u + e. A is a public random n × k matrix: its columns are
//! divided into [`ROW_WEIGHT`] segments of equal length, and a row has a one in a random column of each. u is
//! secret, and e is regular noise: one position in each of t blocks of b = n/t. The peer may know every bit of A·u +
//! e. At a fixed rate 1/b, more samples help the attacker: t has an upper bound, not a lower one.
//!
//! **Sparse rows.** About n·α^10 rows lie in αk given columns, and more if the columns are chosen well. They are
//! samples for αk secrets only ([`Restriction`]). How many rows the best αk columns hold is bounded by the first
//! moment: some set of columns holds more with probability at most 2^-40. (With α_i of segment i, a set holds n·Πα_i
//! rows on average, at most n·α^10.) Finding the set is not counted. The rows are spread over all t blocks: a block
//! keeps n'/t of its b positions and its noise is one of these with probability n'/n only. That helps the attacker,
//! who guesses that k'/t positions of each block are free of noise; the chance is (1 − k'/n)^t. It also hides the sum
//! of a block's noise, but that counts as known.
//!
//! **Attacks.** On every restriction, with names and sources as for dual LPN ([`super::ATTACKS`]), since the parity
//! checks of its rows are n' − k' equations for n' noise bits: a single test, Prange, Stern, and Gröbner bases.
//!
//! **Single tests.** Elimination gives words of the dual code that touch half of an information set in each block. The
//! bias of the noise on such a word is the chance that the whole set is free of noise. One test is one operation, as
//! for dual LPN, and the inverse of the bias is its cost. The lightest of all words is far lighter, but to find it takes
//! a search: weights are binomial, so the best of 2^m words from elimination gains some 1.4·√m bits for our shortest
//! base vector and 0.5·√m for the others.
//!
//! **Larger fields.** Coefficients of the matrix, secrets and noise values may be elements of GF(2^w); noise values are
//! uniform, so that one place in 2^w is free of noise. That shortens every guess: only (2^w − 1)/2^w of the places count.
//! On the other hand a block's sum is no longer known. Rows have random coefficients other than 0. With coefficients 0
//! and 1 every bit of the elements would be an instance over GF(2), with noise at half of the places of *one* support:
//! the joint test tries all functionals on these planes, and its exponent is half of a single test's; `examples/lpn.rs`
//! runs it. With coefficients that generate the field, a plane over a subfield of s bits has w/s times the secrets, and
//! noise at 1 − 2^-s of the places. That is worth more than a single test's 1 − 2^-w for every s: 3/2 at least, for
//! GF(2) in GF(8) and for GF(4) in GF(16).
//!
//! **Why ten ones, and blocks of k/160.** Sparse rows decide, with α about 0.6. Sixteen ones would allow blocks of
//! k/128, for 1.6 times as many accesses to a base vector that is only a fifth shorter. With ten ones and blocks of
//! k/128, a single test costs 2^102 where n = 28·k; it is only withstood at n = 6·k, of which a fifth is used up by the
//! next extension.
//!
//! **Published estimates.** H. Liu, X. Wang, K. Yang, Y. Yu, *The Hardness of LPN over Any Integer Ring and
//! Field for PCG Applications*, EUROCRYPT 2024 (Gauss, information-set and statistical decoding), P. Briaud and
//! M. Øygarden, EUROCRYPT 2023, A. Esser and P. Santini, CRYPTO 2024, and the hybrid of ePrint 2025/1284, all
//! evaluated by lpnestimator.com, on which the parameter sets of emp-ot rest (2025: k = 2^16 to 2^19 with t = 850
//! to 1900, 128 bits each by the hybrid attack, no sparse rows). The tests reproduce these 128 bits. Here the rate of
//! the noise is 2.5 times as high, since the bounds are stricter: a trial costs one operation per position or less, and
//! sparse rows count.

use vesica_primitives::scaled::{Round, Scaled};

use super::{InformationSet, Instance, KAPPA, guess_and_solve};

/// Ones in a row of the matrix, one in each of as many segments.
pub const ROW_WEIGHT: usize = 10;

/// A lower bound on the cost of an attack.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// Bit operations for the samples of some columns.
    pub cost: fn(&Restriction) -> Scaled,
}

/// The attacks that the noise withstands, from the cheapest to compute.
pub const ATTACKS: [Attack; 5] = [
    Attack {
        name: "single test",
        cost: single_test,
    },
    Attack {
        name: "joint test",
        cost: joint_test,
    },
    Attack {
        name: "Prange",
        cost: prange,
    },
    Attack {
        name: "Stern",
        cost: stern,
    },
    Attack {
        name: "algebraic",
        cost: algebraic,
    },
];

/// Noise positions come in multiples of this.
const STEP: usize = 256;

/// More than [`STEP`]s of noise positions that any size withstands.
const MAX_STEPS: usize = 64;

/// More rows in a set of columns than counted here exist with probability at most 2^-λ.
const LAMBDA: i64 = 40;

/// The number of intervals of α: a bound holds for all α of one.
const PARTS: usize = 64;

/// Primal LPN with regular noise and a sparse random matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primal {
    /// Bits w of a field element: of secrets and noise values.
    pub field_bits: u32,
    /// Bits of an element of the subfield of the matrix's coefficients.
    pub coefficient_bits: u32,
    /// Number k of secrets.
    pub secrets: usize,
    /// Number t of noise positions, one in each of t blocks.
    pub weight: usize,
    /// Number b of samples of a block.
    pub block: usize,
}

/// The samples whose rows lie in some of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restriction {
    /// All samples.
    all: Primal,
    /// Number k' of columns.
    columns: usize,
    /// Number n' of rows.
    rows: usize,
}

impl Primal {
    /// Number n of samples.
    pub fn samples(&self) -> usize {
        self.weight * self.block
    }

    /// The least cost of an attack over all sets of columns, in bit operations.
    pub fn cost(&self, attack: Attack) -> Scaled {
        self.restrictions()
            .map(|restriction| (attack.cost)(&restriction))
            .reduce(|a, b| if a.at_most(b) { a } else { b })
            .expect("all columns are a set")
    }

    /// What sets of columns of any size lead to, if their rows are enough to decide on their secrets.
    fn restrictions(&self) -> impl Iterator<Item = Restriction> {
        (PARTS / 4..=PARTS)
            .map(|part| Restriction {
                all: *self,
                // More rows and fewer columns than any set of this interval has.
                columns: self.secrets * (part - 1) / PARTS,
                rows: self.most_rows(part),
            })
            .filter(|restriction| restriction.rows > restriction.columns)
    }

    /// The most rows that any `parts`/[`PARTS`] of the columns hold, by the first moment.
    fn most_rows(&self, parts: usize) -> usize {
        if parts == PARTS {
            return self.samples();
        }
        let (k, c) = (self.secrets as u64, (self.secrets * parts / PARTS) as u64);
        // There are at most (k/c)^c · (k/(k−c))^(k−c) sets, which hold n·(parts/PARTS)^10 rows on average.
        let sets = raised(k, c, c).times(raised(k, k - c, k - c), Round::Up);
        let mut average = Scaled::power_of_two(0).times_whole(self.samples() as u64, Round::Up);
        let mut least = self.samples();
        for _ in 0..ROW_WEIGHT {
            average = average
                .times_whole(parts as u64, Round::Up)
                .over(PARTS as u64, Round::Up);
            least = least * parts / PARTS;
        }
        // The chance of m rows is at most (average/m)^m · e^(m − average).
        let exists = |m: usize| {
            let tail = average
                .over(m as u64, Round::Up)
                .power(m as u64, Round::Up)
                .times(raised(27_183, 10_000, (m - least) as u64), Round::Up);
            Scaled::power_of_two(-LAMBDA).at_most(tail.times(sets, Round::Up))
        };
        let (mut held, mut above) = (least.max(1), self.samples() + 1);
        while above - held > 1 {
            let middle = held.midpoint(above);
            if exists(middle) {
                held = middle;
            } else {
                above = middle;
            }
        }
        held
    }

    /// Whether none of these attacks takes fewer than 2^[`KAPPA`] operations.
    fn withstands(&self, attacks: &[Attack]) -> bool {
        let least = Scaled::power_of_two(KAPPA);
        let restrictions: Vec<Restriction> = self.restrictions().collect();
        attacks.iter().all(|attack| {
            restrictions
                .iter()
                .all(|restriction| least.at_most((attack.cost)(restriction)))
        })
    }
}

impl Restriction {
    /// Of each block, 1/t of as many positions as there are secrets. Over GF(2), the noise of a block is 1 and its sum known, which saves one position.
    /// Over larger fields a functional to the elements of `bits` bits maps the noise to 0 once in 2^bits times, as if
    /// the set were that much smaller.
    fn information_set(&self, bits: u32, secrets: usize) -> InformationSet {
        let weight = self.all.weight;
        let (part, scale) = match self.all.field_bits {
            1 => (secrets.saturating_sub(weight), weight),
            _ => (secrets * ((1 << bits) - 1), weight << bits),
        };
        // More than all positions are never free of noise.
        let part = part.min(self.all.block * scale - 1);
        InformationSet {
            weight,
            part: part as u64,
            scale: scale as u64,
            block: self.all.block as u64,
            field_bits: self.all.field_bits,
        }
    }
}

/// The inverse of the bias of the noise on a word of the dual code that elimination gives.
pub fn single_test(restriction: &Restriction) -> Scaled {
    restriction
        .information_set(restriction.all.field_bits, restriction.columns)
        .noise_free(Scaled::power_of_two(0))
}

/// A single test on a plane of the samples: on what a functional on the field makes of them that is linear over a subfield
/// of s bits. A secret is w'/s secrets of the plane, if the coefficients have w' bits. All functionals are tried at once,
/// at most 2^w.
pub fn joint_test(restriction: &Restriction) -> Scaled {
    let Primal {
        field_bits,
        coefficient_bits,
        ..
    } = restriction.all;
    let one = Scaled::power_of_two(0);
    let functionals = Scaled::power_of_two(-i64::from(field_bits));
    (1..field_bits)
        .filter(|bits| coefficient_bits.is_multiple_of(*bits))
        .map(|bits| {
            let secrets = restriction.columns * (coefficient_bits / bits) as usize;
            let set = restriction.information_set(bits, secrets);
            let trials = set.noise_free(functionals);
            if trials.at_most(one) { one } else { trials }
        })
        .reduce(|a, b| if a.at_most(b) { a } else { b })
        // GF(2) has a single plane.
        .unwrap_or_else(|| single_test(restriction))
}

/// An information set is free of noise by chance. A trial counts one operation per row.
pub fn prange(restriction: &Restriction) -> Scaled {
    let trial = Scaled::power_of_two(0).times_whole(restriction.rows as u64, Round::Down);
    restriction
        .information_set(restriction.all.field_bits, restriction.columns)
        .noise_free(trial)
}

/// Prange with noise allowed in the information set. A trial counts the entries of its lists.
pub fn stern(restriction: &Restriction) -> Scaled {
    restriction
        .information_set(restriction.all.field_bits, restriction.columns)
        .collisions()
}

/// Gröbner bases of the parity checks and of the quadratic equations within blocks, after guesses.
pub fn algebraic(restriction: &Restriction) -> Scaled {
    let Primal {
        field_bits,
        coefficient_bits,
        weight,
        block,
        ..
    } = restriction.all;
    let instance = Instance {
        entries: restriction.rows - restriction.columns,
        positions: restriction.rows,
        weight,
        field_bits,
        coefficient_bits,
        distance_percent: 0,
    };
    // A value of 0 makes a guess right, as in a block that is longer by this factor.
    let block = match field_bits {
        1 => block,
        _ => (block << field_bits).div_ceil((1 << field_bits) - 1),
    };
    guess_and_solve(&instance, block as u64)
}

/// (`top`/`bottom`)^`exponent`, rounded up.
fn raised(top: u64, bottom: u64, exponent: u64) -> Scaled {
    Scaled::power_of_two(0)
        .times_whole(top, Round::Up)
        .over(bottom, Round::Up)
        .power(exponent, Round::Up)
}

/// The most noise positions, a multiple of 256, with which no attack on `secrets` secrets of `field_bits` bits and blocks
/// of `block` samples takes fewer than 2^[`KAPPA`] operations, if coefficients generate the field.
///
/// # Panics
/// If there is no such number with more samples than secrets.
pub fn weight(field_bits: u32, secrets: usize, block: usize) -> usize {
    let fewest = secrets / (block * STEP) + 1;
    let candidates: Vec<Primal> = (fewest..MAX_STEPS)
        .map(|steps| Primal {
            field_bits,
            coefficient_bits: field_bits,
            secrets,
            weight: steps * STEP,
            block,
        })
        .collect();
    // The last attack takes by far the longest to compute and hardly ever decides.
    let (_, others) = ATTACKS.split_last().expect("there are attacks");
    let hold = candidates.partition_point(|primal| primal.withstands(others));
    candidates[..hold]
        .iter()
        .rfind(|primal| primal.withstands(&ATTACKS))
        .expect("blocks are short enough for the secrets")
        .weight
}

#[cfg(test)]
mod tests;
