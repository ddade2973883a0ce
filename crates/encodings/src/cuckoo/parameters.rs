//! How many bins a cuckoo table needs.

use crate::bins::MAX_ITEMS;
use vesica_primitives::scaled::{Round, Scaled};

/// The terms of the number of bins, for one number of functions.
struct Rule {
    /// Minimum bins per hundred items: those of the literature.
    published: u64,
    /// Bins per thousand items that keep large sets of items from being crowded.
    crowds: u64,
    /// Additional bins per hundred bits of λ.
    bits: u64,
    /// Additional bins.
    extra: u64,
    /// Bits by which the smallest possible crowd is kept rarer than 2^-λ.
    spare: u32,
}

/// Additional bins of a table with a stash: some crowds are neither the smallest nor large.
const STASHED: u64 = 12;

/// The rules for two, three and four functions.
const RULES: [Rule; 3] = [
    Rule {
        published: 400,
        crowds: 4000,
        bits: 0,
        extra: 8,
        spare: 5,
    },
    Rule {
        published: 127,
        crowds: 1230,
        bits: 105,
        extra: 8,
        spare: 1,
    },
    Rule {
        published: 109,
        crowds: 1085,
        bits: 80,
        extra: 8,
        spare: 1,
    },
];

/// The shape of a cuckoo table: a function of the number of items, the number of hash functions, λ and the places of
/// the stash, the same on every machine (integers only).
///
/// # Failure
/// The functions give each item k distinct bins, all sets of k equally likely. A placement exists if and only
/// if no s items have fewer than s bins among them (Hall), and [`Table::place`](super::Table::place) finds a
/// placement whenever there is one. So the probability of failure is that of a *crowd*: s items with only s −
/// d bins among them, d > 0. Take the largest d, and for it the smallest s. Then every one of the s − d bins
/// is used at least twice (without an item that is alone in using a bin, the others would be a smaller crowd
/// with the same d), and each of the other n − s items has a bin elsewhere (with it, d would be larger). So,
/// with β bins, b = s − d and (x)_k = x(x−1)…(x−k+1),
///
///   P\[failure\] ≤ Σ_{s,d} C(n,s)·C(β,b) · W(ks,b)/(β)_k^s · (1 − (b)_k/(β)_k)^(n−s),
///
/// where W is the smaller of (b)_k^s and the number of ways to throw ks balls into b bins with two in
/// each or more, which is at most (ks)!·(e^z − 1 − z)^b / z^(ks) for every z > 0.
///
/// The sum has a bump at either end. At s = k + 1, d = 1 it is C(n,k+1) / C(β,k)^k, items that all have the
/// same k bins: for small n this decides, and is why a multiple of n bins is not enough there. At s of the
/// order of n it falls by a factor with each additional bin, once there are 1.23·n bins for k = 3, or 1.08·n
/// for k = 4. The number of bins is the largest of
///
/// - the least β that makes the first term 2^-(λ+1), or 2^-(λ+5) for k = 2, where the terms fall slowly;
/// - 1.23·n + 1.05·λ + 8 for k = 3, 1.085·n + 0.8·λ + 8 for k = 4, 4·n + 8 for k = 2;
/// - the number that the literature uses for large n: 1.27·n for k = 3, 1.09·n for k = 4 (B. Pinkas, T.
///   Schneider, M. Zohner, *Scalable Private Set Intersection Based on OT Extension*, ACM TOPS 2018,
///   extrapolated from experiments at reduced λ, and used by PSTY19, KBM23 and CGS22; their functions may
///   agree on an item, which ours never do).
///
/// Tests sum the bound: it is at most 2^-λ at every point that they check, for n up to 2^20 and λ up to 128.
/// The published numbers alone would not suffice for small sets: the bound for 1.27·n bins and k = 3 is 2^-19
/// at n = 2^9, 2^-39 at 2^10 and 2^-55 at 2^11, and for functions that may agree, two items with only one bin
/// fail with probability n²/(2·β⁵), 2^-33 at n = 2^10. The bound is ours and nobody else has checked it; the
/// tests compare it to simulations at λ = 10 and less, where it is up to a thousand times too large for
/// middle n, and exact where k + 1 items decide.
///
/// Two functions without a stash are not economical: failure falls only with 1/n, so that λ = 40 takes 68
/// bins per item at n = 2^20.
///
/// # With a stash
/// A placement leaves at least d items without a bin if some crowd has d items more than bins, and by Hall's theorem
/// (in the form of Ore, 1955) no more than the largest such d. So t places fail only for crowds of d > t, and the
/// bound is the same sum over these. Its first term is that of k + 1 + t items that all have the same k bins. Kirsch,
/// Mitzenmacher and Wieder (SIAM J. Comput. 39(4), 2009) have the same order, n^(1−c(t+1)), without constants.
/// [`Parameters::with_stash`] takes the number of bins that makes this term 2^-(λ+2+2·t), or the second number of the
/// list above and 12 more. Tests sum the bound for up to four places.
///
/// A stash saves little: 1.23 bins per item instead of 1.27 for large sets, which the sum cannot lower any more. The
/// literature's 1.2·n for three functions with a stash of 2 to 6 (B. Pinkas, T. Schneider, G. Segev, M. Zohner,
/// *Phasing*, USENIX Security 2015, used by KKRT16) is extrapolated from experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Maximum number of items.
    pub items: usize,
    /// Number of hash functions: of bins that an item may be in.
    pub hashes: usize,
    /// Number of bins.
    pub bins: usize,
    /// Places of the stash: items that may be left without a bin.
    pub stash: usize,
}

impl Parameters {
    /// For `items` items and `hashes` functions, with a probability of failure of at most 2^-`lambda`.
    ///
    /// # Panics
    /// If `hashes` is not 2, 3 or 4, `lambda` exceeds 128, `items` 2^30, or the number of bins 2^32, which is
    /// possible only with two functions.
    pub fn new(items: usize, hashes: usize, lambda: u32) -> Self {
        assert!((2..=4).contains(&hashes), "two to four functions");
        assert!(lambda <= 128, "at most 128 bits of statistical security");
        assert!(items <= MAX_ITEMS, "at most 2^30 items");
        if items <= hashes {
            // There is no crowd if every item has as many bins as there are items.
            return Self::with_bins(items, hashes, hashes);
        }
        let rule = &RULES[hashes - 2];
        let n = items as u64;
        let bins = (n * rule.published)
            .div_ceil(100)
            .max(rule.against_crowds(n, lambda));
        let bins = against_few(n, hashes as u64, 0, lambda + rule.spare, bins);
        Self::with_bins(items, hashes, bins as usize)
    }

    /// For `items` items, three functions and `stash` places for items without a bin, which are too few with a
    /// probability of at most 2^-`lambda`.
    ///
    /// # Panics
    /// As [`Parameters::new`], or if `stash` exceeds 4.
    pub fn with_stash(items: usize, lambda: u32, stash: usize) -> Self {
        assert!(stash <= 4, "the bound was summed for up to four places");
        let without = Self::new(items, 3, lambda);
        let n = items as u64;
        let crowds = RULES[1].against_crowds(n, lambda) + STASHED;
        let bits = lambda + 2 + 2 * stash as u32;
        let bins = match items <= 3 + stash {
            true => crowds,
            false => against_few(n, 3, stash as u64, bits, crowds),
        };
        Parameters {
            stash,
            bins: without.bins.min(bins as usize),
            ..without
        }
    }

    /// For `items` items and three functions that may agree on an item, such as [permuted](crate::permuted) ones.
    ///
    /// The bound of [`Parameters`] holds with x^k for every (x)_k and sums from s = 2. Its first term is that of two
    /// items that have one bin only, n(n − 1)/(2·β⁵); the number of bins makes it 2^-(λ+1), and is at least that for
    /// functions that never agree. `None` if it exceeds 2^32.
    ///
    /// # Panics
    /// As [`Parameters::new`].
    pub fn that_may_agree(items: usize, lambda: u32) -> Option<Self> {
        let distinct = Self::new(items, 3, lambda);
        let n = items as u64;
        let up = Round::Up;
        let two = Scaled::power_of_two(i64::from(lambda))
            .times_whole(n, up)
            .times_whole(n.saturating_sub(1), up);
        let enough = |bins: u64| {
            two.at_most(
                Scaled::power_of_two(0)
                    .times_whole(bins, Round::Down)
                    .power(5, Round::Down),
            )
        };
        let bins = least(distinct.bins as u64, enough);
        (bins <= 1 << 32).then(|| Self::with_bins(items, 3, bins as usize))
    }

    /// Any number of bins; the caller is responsible for the probability of failure.
    ///
    /// # Panics
    /// If `hashes` is not 2, 3 or 4, or there are fewer bins than functions, or more than 2^32.
    pub fn with_bins(items: usize, hashes: usize, bins: usize) -> Self {
        assert!((2..=4).contains(&hashes), "two to four functions");
        assert!(bins >= hashes, "as many bins as functions");
        assert!(bins as u64 <= 1 << 32, "at most 2^32 bins");
        Parameters {
            items,
            hashes,
            bins,
            stash: 0,
        }
    }
}

impl Rule {
    /// Bins against large crowds.
    fn against_crowds(&self, n: u64, lambda: u32) -> u64 {
        (n * self.crowds).div_ceil(1000)
            + (u64::from(lambda) * self.bits).div_ceil(100)
            + self.extra
    }
}

/// The least β from `first` on with C(n, m) / C(β, k)^(m−1) ≤ 2^-`bits` for m = k + 1 + `stash` items:
/// (n)_m·k!^(m−1)·2^bits ≤ m!·(β)_k^(m−1).
fn against_few(n: u64, k: u64, stash: u64, bits: u32, first: u64) -> u64 {
    let items = k + 1 + stash;
    let factorial: u64 = (1..=k).product();
    let one = Scaled::power_of_two(0);
    let falling = |x: u64, count: u64, round| {
        (0..count).fold(one, |product, i| {
            product.times_whole(x.saturating_sub(i), round)
        })
    };
    let ways = one.times_whole(factorial, Round::Up);
    let few = falling(n, items, Round::Up)
        .times(ways.power(items - 1, Round::Up), Round::Up)
        .times(Scaled::power_of_two(i64::from(bits)), Round::Up);
    let orders = falling(items, items, Round::Down);
    let enough = |bins: u64| {
        let all = falling(bins, k, Round::Down).power(items - 1, Round::Down);
        few.at_most(all.times(orders, Round::Down))
    };
    least(first, enough)
}

/// The least number from `first` on that is enough; all larger ones are too. Of most tables `first` is, and a try is
/// slow.
fn least(first: u64, enough: impl Fn(u64) -> bool) -> u64 {
    const MAX: u64 = u64::MAX >> 1;
    let (mut below, mut reached) = (first - 1, first);
    while reached < MAX && !enough(reached) {
        (below, reached) = (reached, reached.saturating_mul(2).min(MAX));
    }
    while reached - below > 1 {
        let middle = below + (reached - below) / 2;
        match enough(middle) {
            true => reached = middle,
            false => below = middle,
        }
    }
    reached
}

#[cfg(test)]
mod tests;
