//! How full the fullest of many bins gets.

use crate::scaled::{Round, Scaled};

/// The least number that a bin exceeds with probability at most 2^-`bits`, by Hoeffding's bound, if each of `items`
/// items is in it with probability `hits`/`bins`, independently. The same on every machine (integers only), and never
/// too small.
///
/// With mean μ = items·hits/bins, the load is c or more with probability at most
/// (μ/c)^c · ((items − μ)/(items − c))^(items − c), for c > μ (Hoeffding 1963, theorem 1, equation 2.1). The result is
/// the least c for which that is at most 2^-`bits`, less 1.
///
/// # Panics
/// If `hits` is not below `bins`, or items·bins is 2^58 or more.
pub fn fullest(items: u64, hits: u64, bins: u64, bits: u32) -> u64 {
    assert!(
        hits < bins
            && items
                .checked_mul(bins)
                .is_some_and(|product| product < 1 << 58)
    );
    let target = Scaled::power_of_two(-i64::from(bits));
    let whole = |value: u64| Scaled::power_of_two(0).times_whole(value, Round::Up);
    let rare = |c: u64| {
        let above = whole(items * hits).over(bins * c, Round::Up);
        let tail = above.power(c, Round::Up);
        let rest = items - c;
        if rest == 0 {
            return tail.at_most(target);
        }
        let below = whole(items * (bins - hits)).over(bins * rest, Round::Up);
        tail.times(below.power(rest, Round::Up), Round::Up)
            .at_most(target)
    };
    // More than all items are in no bin.
    let (mut below, mut enough) = (items * hits / bins, items + 1);
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if rare(middle) {
            enough = middle;
        } else {
            below = middle;
        }
    }
    enough - 1
}
