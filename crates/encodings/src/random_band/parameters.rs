//! The number of columns of a random-band system.

use vesica_primitives::security::lambda_each;

/// Maximum average number of keys per system; more keys are split into bins.
pub const BIN: usize = (1 << 20) + (1 << 18);

/// Columns of a band, or all columns if there are fewer.
const WIDTH: usize = 448;

/// Bits of statistical security of the columns of [`TABLE`].
const LAMBDAS: [u32; 6] = [8, 40, 64, 96, 128, 160];

/// Keys, and columns such that a band of [`WIDTH`] fails with probability at most 2^-λ for each of
/// [`LAMBDAS`]. A test derives the table again. Where a dense system suffices (n + λ ≤ 448) or n + λ + 8 is
/// more than enough, the entry is n + λ + 8. Two entries meet where one bound takes over from the other.
const TABLE: [(u64, [u64; 6]); 33] = [
    (256, [272, 304, 328, 360, 392, 424]),
    (320, [336, 368, 392, 424, 456, 488]),
    (384, [400, 432, 456, 488, 520, 552]),
    (448, [464, 496, 520, 552, 584, 616]),
    (512, [528, 560, 584, 616, 648, 680]),
    (640, [656, 688, 712, 744, 776, 809]),
    (768, [784, 816, 840, 873, 906, 939]),
    (896, [912, 945, 969, 1002, 1035, 1069]),
    (1024, [1040, 1074, 1099, 1132, 1166, 1201]),
    (1280, [1298, 1333, 1359, 1394, 1431, 1470]),
    (1536, [1557, 1595, 1623, 1661, 1703, 1747]),
    (1792, [1816, 1859, 1891, 1935, 1981, 2031]),
    (2048, [2076, 2125, 2162, 2212, 2264, 2319]),
    (2560, [2595, 2659, 2705, 2769, 2835, 2903]),
    (3072, [3115, 3192, 3250, 3328, 3408, 3491]),
    (3584, [3634, 3726, 3794, 3886, 3982, 4080]),
    (4096, [4154, 4260, 4338, 4445, 4555, 4669]),
    (5120, [5193, 5327, 5427, 5563, 5702, 5847]),
    (6144, [6232, 6395, 6516, 6680, 6850, 7025]),
    (7168, [7271, 7462, 7604, 7798, 7997, 8203]),
    (8192, [8310, 8530, 8693, 8916, 9145, 9381]),
    (8193, [8477, 8560, 8719, 8937, 9163, 9397]),
    (10240, [10483, 10703, 10903, 11178, 11463, 11757]),
    (12288, [12536, 12848, 13089, 13421, 13763, 14118]),
    (14336, [14627, 14992, 15275, 15663, 16064, 16480]),
    (16384, [16718, 17137, 17461, 17906, 18366, 18842]),
    (32768, [33454, 34301, 34954, 35852, 36781, 37743]),
    (65536, [66940, 68642, 69956, 71761, 73629, 75562]),
    (131072, [133940, 137354, 139990, 143611, 147357, 151234]),
    (262144, [268012, 274851, 280132, 287386, 294891, 302657]),
    (524288, [536271, 549966, 560544, 575070, 590099, 605652]),
    (
        1048576,
        [1073092, 1100510, 1121686, 1150769, 1180858, 1211995],
    ),
    (
        2097152,
        [2147423, 2202316, 2244713, 2302940, 2363182, 2425524],
    ),
];

/// Columns added to the table's.
const MARGIN: u64 = 4;

/// The shape of a random-band encoding: a function of the number of keys and of λ, the same on every
/// machine (integers only).
///
/// # Failure
/// Take the rows by their starts. A row is dependent on those before it with probability 2^(Q−w), where Q is
/// the dimension of the earlier rows' linear combinations that vanish before the row's start: in the row's
/// band they span Q of w dimensions, and its bits are uniform. When the start moves by one column, the
/// combinations with a 1 there drop out: Q falls by one, unless all Q dimensions have a 0 there, which has
/// probability 2^-Q as long as nothing has failed. Every row adds one. So Q is a Markov chain, and
///
///   P\[failure\] ≤ Σ over rows of E\[min(1, 2^(Q−w))\].
///
/// - n + λ ≤ 448: one start, w = m = n + λ, a dense system: the sum is below 2^(n−w) = 2^-λ.
/// - Else w = 448. Let the number of rows be Poisson of mean μ, so that the numbers of rows that start at
///   each column are independent. Failure grows with the rows, so P_n\[failure\] is at most P_μ\[failure\] /
///   P_μ\[at least n rows\] for every μ; the table uses the best μ. Up to 2^13 keys, P_μ\[failure\] is the
///   sum above, computed step by step from Q = 0; for more it is the number of starts times the stationary
///   expectation, which is an upper bound because Q grows stochastically with its start.
/// - Between entries of the table, columns are interpolated linearly in n and in λ, because they are convex
///   in both as far as computed; four more compensate for the rounding of the entries. Tests check points
///   between entries.
/// - More than [`BIN`] keys go to b bins. A bin gets more than n/b + δ keys with probability at most
///   exp(−δ² / (2·(n/b + δ/3))) (Bernstein). That and the failure of its system are two events per bin, which
///   share 2^-λ.
///
/// In experiments of Bienstock and others at m = 1.1·n, λ has a slope of 0.2751 per bit of width; the bound's
/// is 0.2795 there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Maximum number of keys.
    pub items: usize,
    /// Number of systems over which the keys are distributed.
    pub bins: usize,
    /// Columns per system.
    pub columns: usize,
    /// Columns of a band, at most 448.
    pub width: usize,
}

impl Parameters {
    /// For `items` keys, with a probability of failure of at most 2^-`lambda`.
    ///
    /// # Panics
    /// If `lambda` exceeds 128, or `items` 2^32.
    pub fn new(items: usize, lambda: u32) -> Self {
        assert!(lambda <= 128, "at most 128 bits of statistical security");
        assert!(items as u64 <= 1 << 32, "at most 2^32 keys");
        let bins = items.div_ceil(BIN).max(1);
        let (most, lambda) = match bins {
            1 => (items, lambda),
            _ => {
                let lambda = lambda_each(lambda, 2 * bins as u32);
                (fullest(items, bins, lambda), lambda)
            }
        };
        let dense = most + lambda as usize;
        let columns = match dense <= WIDTH {
            true => dense.max(1),
            false => columns(most as u64, lambda),
        };
        Parameters {
            items,
            bins,
            columns,
            width: columns.min(WIDTH),
        }
    }

    /// Number of columns at which a band may start.
    pub fn starts(&self) -> usize {
        self.columns - self.width + 1
    }

    /// Number of slots of an encoding.
    pub fn size(&self) -> usize {
        self.bins * self.columns
    }
}

/// A number of keys that one given bin exceeds with probability at most 2^-`lambda`.
fn fullest(items: usize, bins: usize, lambda: u32) -> usize {
    let mean = items.div_ceil(bins) as u128;
    // δ² ≥ 2·ln(2)·λ·(mean + δ/3), and ln 2 < 0.69315.
    let enough = |delta: u128| {
        delta * delta * 300_000 >= 2 * 69_315 * u128::from(lambda) * (3 * mean + delta)
    };
    let (mut low, mut high) = (0, mean + 1000 * u128::from(lambda));
    while low < high {
        let middle = (low + high) / 2;
        match enough(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    ((mean + low) as usize).min(items)
}

/// Interpolates in [`TABLE`], rounding up.
fn columns(items: u64, lambda: u32) -> usize {
    let column = LAMBDAS
        .iter()
        .position(|l| lambda <= *l)
        .expect("the table covers every λ of a bin");
    let row = TABLE
        .iter()
        .position(|(n, _)| items <= *n)
        .expect("the table covers every bin");
    let at_items = |column: usize| match row {
        0 => TABLE[0].1[column],
        _ => {
            let ((n0, low), (n1, high)) = (&TABLE[row - 1], &TABLE[row]);
            between((*n0, low[column]), (*n1, high[column]), items)
        }
    };
    let columns = match column {
        0 => at_items(0),
        _ => between(
            (u64::from(LAMBDAS[column - 1]), at_items(column - 1)),
            (u64::from(LAMBDAS[column]), at_items(column)),
            u64::from(lambda),
        ),
    };
    (columns + MARGIN) as usize
}

/// The line through two points, rounded up.
fn between((x0, y0): (u64, u64), (x1, y1): (u64, u64), x: u64) -> u64 {
    y0 + ((y1 - y0) * (x - x0)).div_ceil(x1 - x0)
}

#[cfg(test)]
mod tests;
