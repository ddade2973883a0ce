//! How many more items than it declares a malicious receiver can hold.
//!
//! A polynomial of n coefficients passes through n chosen points. To make it pass through n + e, with item i
//! at the fixed point x_i = H₁(item), a receiver needs values v_i that satisfy e linear equations over
//! GF(2^256), the divided differences of degree n and above. It can make any number of candidates for each
//! v_i: Π⁻¹ of any key-agreement message whose secret it knows.
//!
//! The field has characteristic 2, so these are 256·e equations over GF(2). With two candidates per point,
//! v_i = a_i + s_i·d_i, they are linear in the n + e bits s_i, and Gaussian elimination solves them once n +
//! e ≥ 256·e: M. Bellare, D. Micciancio, EUROCRYPT 1997, on hashes that are sums. So **n declared points mean
//! n + ⌊n/255⌋** ([`free_points`]). RT21 conjectures after lemma 10 that no receiver finds more points than
//! coefficients cheaply; over GF(2^256) that is false for n ≥ 255.
//!
//! [`search_bits`] is the cost of the best search known to us, [`points_bound`] a bound on what any search
//! can find. The table in `docs/protocols/compact-dh.md` is checked against both. Π and H₁ are keyed by the
//! session. That prevents none of this; it only means that nothing can be prepared before the contract is
//! agreed.

/// Bits of a polynomial's value.
const FIELD_BITS: u32 = 256;

/// Number of points beyond n that a polynomial of n coefficients can be made to fit by linear algebra alone:
/// the largest e with n + e ≥ 256·e.
pub fn free_points(n: u64) -> u64 {
    n / u64::from(FIELD_BITS - 1)
}

/// log₂ of the number of candidates needed to fit n + `extra` points: 2^k points have a list of candidates
/// each, the others two candidates. Linear algebra solves one equation for each of the others; the
/// generalised birthday search (D. Wagner, CRYPTO 2002) solves the rest with 2^(rest/(k + 1)) candidates per
/// list. The result is for the best k: min k + (256·`extra` − (n + `extra`) + 2^k)/(k + 1). 0 means that
/// linear algebra suffices.
///
/// It estimates the cost of one attack, and is no lower bound on the work.
pub fn search_bits(n: u64, extra: u64) -> f64 {
    if extra <= free_points(n) {
        return 0.0;
    }
    let places = n + extra;
    (0..=places.ilog2())
        .map(|k| {
            let rest = u64::from(FIELD_BITS) * extra - (places - (1 << k));
            f64::from(k) + rest as f64 / f64::from(k + 1)
        })
        .fold(f64::INFINITY, f64::min)
}

/// The largest number of points n′ that some polynomial of n coefficients fits with probability at least
/// 2^-`chance`, among the results of 2^`queries` queries: RT21, lemma 10, (q²·n)^n′ / 2^(256·(n′ − n)) ≥
/// 2^-`chance`. `None` if the lemma bounds nothing.
pub fn points_bound(n: u64, queries: u32, chance: u32) -> Option<u64> {
    let log = n.max(1).next_power_of_two().ilog2();
    let left = FIELD_BITS.checked_sub(2 * queries + log)?;
    (u64::from(FIELD_BITS) * n + u64::from(chance)).checked_div(left.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table after the lemma: 2^-128 for q queries and n′ points.
    #[test]
    fn the_bound_is_that_of_the_paper() {
        for (queries, log, factor, more) in [
            (107, 10, 8, 4),
            (115, 10, 16, 8),
            (102, 20, 8, 4),
            (110, 20, 16, 8),
        ] {
            let n = 1 << log;
            assert_eq!(points_bound(n, queries, 128), Some(factor * n + more));
        }
        assert_eq!(points_bound(1 << 10, 123, 128), None);
        assert_eq!(points_bound(1 << 10, 128, 128), None);
        assert_eq!(points_bound(0, 64, 128), Some(1));
    }

    /// Points are free as long as there is a bit for each equation.
    #[test]
    fn points_are_free_up_to_one_in_255() {
        for (n, free) in [(0, 0), (254, 0), (255, 1), (256, 1), (1024, 4), (2048, 8)] {
            assert_eq!(free_points(n), free);
            assert!(n + free >= 256 * free && n + free + 1 < 256 * (free + 1));
            assert_eq!(search_bits(n, free), 0.0);
            assert!(search_bits(n, free + 1) >= 1.0);
        }
        // One place, no bits: all values of the field.
        assert_eq!(search_bits(0, 1), 256.0);
    }

    #[test]
    fn the_search_finds_what_it_says_in_a_small_field() {
        // One equation Σ v_i = 0 over GF(2^24) with 2^3 lists: 2^(24/4) values each give a solution or so.
        const BITS: u32 = 24;
        let lists = 8;
        let size = 1 << (BITS / (1 + 3u32));
        let oracle = vesica_primitives::oracle::Oracle::new("vesica test lists", &[0; 32]);
        let found = (0..50u32)
            .filter(|run| {
                let value = |list: u32, i: u32| {
                    let [a, b, c, d, ..] =
                        oracle.hash(&[&run.to_le_bytes(), &list.to_le_bytes(), &i.to_le_bytes()]);
                    u32::from_le_bytes([a, b, c, d]) >> (32 - BITS)
                };
                let mut level: Vec<Vec<u32>> = (0..lists)
                    .map(|list| (0..size).map(|i| value(list, i)).collect())
                    .collect();
                let mut zeros = 0;
                while level.len() > 1 {
                    // The last merge asks for all bits that are left.
                    zeros = if level.len() == 2 { BITS } else { zeros + 6 };
                    let kept = |sum: &u32| sum & ((1u64 << zeros) - 1) as u32 == 0;
                    level = level
                        .chunks(2)
                        .map(|pair| {
                            let sums = pair[0]
                                .iter()
                                .flat_map(|a| pair[1].iter().map(move |b| a ^ b));
                            sums.filter(kept).collect()
                        })
                        .collect();
                }
                !level[0].is_empty()
            })
            .count();
        assert!((15..=50).contains(&found), "{found} of 50");
    }

    /// The documentation's table is what the functions compute.
    #[test]
    fn the_documented_table_is_computed() {
        let page = include_str!("../../../../docs/protocols/compact-dh.md");
        for log in [4, 8, 10, 12, 16, 20] {
            let n = 1u64 << log;
            let free = free_points(n);
            let searches: Vec<String> = (1..=4)
                .map(|more| format!("2^{:.0}", search_bits(n, free + more)))
                .collect();
            let bounds: Vec<String> = [64, 80, 100]
                .map(|queries| points_bound(n, queries, 40).unwrap() as f64 / n as f64)
                .map(|multiple| format!("{multiple:.2}"))
                .into();
            let row = format!(
                "| 2^{log} | {free} | {} | {} |",
                searches.join(" | "),
                bounds.join(" | ")
            );
            assert!(page.contains(&row), "missing row: {row}");
        }
        let costs = [64, 128, 200, 250].map(|n| format!("2^{:.0} at n = {n}", search_bits(n, 1)));
        assert!(page.contains(&costs.join(", ")), "{costs:?}");
    }
}
