//! How large a three-hash oblivious key-value store (OKVS) must be.
//!
//! *Failure.* Let a bin hold n keys and have s sparse and d dense slots. Peeling and elimination find an
//! encoding whenever the n rows are linearly independent. Rows are dependent iff some non-empty set of them
//! sums to zero; the dense parts of a set do so with probability 2^-d, independently of the sparse parts. So
//! dependence has probability at most E(n, s)·2^-d, where E is the expected number of non-empty sets whose
//! sparse parts sum to zero. By the characters of GF(2)^s,
//!
//! ```text
//! E(n, s) = 2^-s · Σ_j C(s, j) · (1 + K_j)^n − 1
//! K_j = Σ_i (−1)^i · C(j, i) · C(s − j, 3 − i) / C(s, 3).
//! ```
//!
//! A test evaluates this and finds E ≤ 2^-[`margin`] for the parameters below. It grows with n, so the
//! fullest bin is the worst. It is small as long as s/n stays above about 1.1, the threshold of random
//! systems with three variables per equation; almost all of it comes from pairs of equal rows.
//!
//! *Bins.* The number of keys in a bin exceeds its mean μ by more than δ with probability at most
//! exp(−δ²/(2μ + 2δ/3)) (Bernstein). Overflow of any bin and dependence in any bin get half of 2^-λ each.
//!
//! *Time.* Peeling alone must almost always suffice, since eliminating many remaining rows takes seconds.
//! RR22, section 3.2, measures when it does: with s = e·n more than a few rows remain with probability about
//! 2^-t for t = a·(e − 1.223) − 9.2, log₂ a = 0.555·log₂ n + 2.336 (weight three; the three-digit exponents
//! are those of the authors' implementation). Our simulations agree (see the tests). OKVSs here have t = 40
//! for all bins together, and e = 1.35 at most: below 3000 keys, where that gives a smaller t, elimination is
//! quick. Sparse slots are computed for the load that all bins stay below with the same probability, for
//! every λ: failure does not depend on this.

use vesica_primitives::security::lambda_each;

/// Maximum average number of keys per bin: a bin's working set should stay in the L2 cache, and slots must
/// have 16-bit numbers.
const BIN: usize = 1 << 15;

/// Many rows of some bin remain after peeling with probability about 2^-SLOW.
const SLOW: u32 = 40;

/// 1.223, where peeling begins to work, in units of 2^-20.
const THRESHOLD: u64 = 1_282_409;

/// 1/a for n = 2^11 … 2^17 in units of 2^-20: 2^(20 − 2.336 − 0.555·log₂ n), rounded up.
const FIRST_LOG: u32 = 11;
const INVERSE_SLOPE: [u64; 7] = [3018, 2054, 1399, 952, 648, 442, 301];

/// 1.35, in units of 2^-20.
const MAX_EXPANSION: u64 = 1_415_578;

/// Sparse slots beyond the expansion, which make sets of a few keys safe.
const EXTRA: usize = 8;

/// ln 2, in units of 2^-16, rounded up.
const LN_2: u64 = 45_427;

/// The shape of an OKVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) bins: usize,
    /// Keys that a bin can take.
    pub(super) load: usize,
    /// Sparse slots of a bin.
    pub(super) sparse: usize,
    /// Dense slots of a bin.
    pub(super) dense: usize,
}

impl Parameters {
    /// Integer arithmetic only.
    pub(super) fn new(items: usize, lambda: u32) -> Self {
        assert!(lambda <= 128 && items as u64 <= 1 << 40, "within bounds");
        let items = items.max(1);
        let bins = items.div_ceil(BIN);
        let events = 2 * bins as u32;
        let each = lambda_each(lambda, events);
        let slow = lambda_each(SLOW, events).into();
        let load = max_load(items, bins, each.into());
        let usual = max_load(items, bins, slow);
        let expansion = expansion(usual, slow);
        let sparse = (usual as u64 * expansion).div_ceil(1 << 20) as usize + EXTRA;
        Parameters {
            bins,
            load,
            sparse,
            dense: each.saturating_sub(margin(load)) as usize,
        }
    }

    /// Slots of a bin.
    pub(super) fn width(&self) -> usize {
        self.sparse + self.dense
    }

    /// A mask with ones for the existing dense slots.
    pub(super) fn mask<const D: usize>(&self) -> [u16; D] {
        std::array::from_fn(|word| {
            let kept = self.dense.saturating_sub(16 * word).min(16);
            ((1u32 << kept) - 1) as u16
        })
    }
}

/// Number of bits by which dependence is less likely than 2^-d if a bin holds at most `load` keys.
pub(super) fn margin(load: usize) -> u32 {
    load.ilog2().saturating_sub(2).max(4)
}

/// A load that all of `bins` bins together exceed with probability at most 2^-bits · bins.
pub(super) fn max_load(items: usize, bins: usize, bits: u64) -> usize {
    let mean = items.div_ceil(bins) as u128;
    // δ = t/3 + √(t²/9 + 2·t·μ) with t = bits·ln 2, in units of 2^-16.
    let third = u128::from((bits * LN_2).div_ceil(3));
    let root = (third * third + 6 * third * (mean << 16)).isqrt() + 1;
    let slack = (third + root).div_ceil(1 << 16);
    items.min((mean + slack) as usize)
}

/// Sparse slots per key, in units of 2^-20, with which peeling suffices except with probability 2^-bits.
pub(super) fn expansion(load: usize, bits: u64) -> u64 {
    let log = load.ilog2();
    if log < FIRST_LOG {
        return MAX_EXPANSION;
    }
    // Between powers of two the chord lies above the curve, which is convex.
    let (low, high) = (
        INVERSE_SLOPE[(log - FIRST_LOG) as usize],
        INVERSE_SLOPE[(log - FIRST_LOG) as usize + 1],
    );
    let inverse = low - (((low - high) * (load as u64 - (1 << log))) >> log);
    // t + 9.2, times ten.
    let needed = 10 * bits + 92;
    (THRESHOLD + (needed * inverse).div_ceil(10)).min(MAX_EXPANSION)
}
