//! How many more items than it declares a malicious receiver can hold.
//!
//! A polynomial of n coefficients passes through n chosen points. To make it pass through n + e, with item i at
//! the fixed place x_i = H₁(item), a receiver needs values v_i with e linear equations over GF(2^256), the
//! divided differences of degree n and above. It knows as many candidates for each v_i as it likes: Π⁻¹ of any
//! key-agreement message whose secret it knows. Nothing prevents this search. Π and H₁ are keyed by the session, so
//! that neither candidates nor equations are known before the contract is agreed.
//!
//! [`list_bits`] is what the best search known to us costs, [`points_bound`] what no search can exceed. The table
//! in `docs/protocols/compact-dh.md` is checked against both.

/// Bits of a polynomial's value.
const FIELD_BITS: f64 = 256.0;

/// log₂ of the values per list that the generalised birthday search needs to fit n + `extra` points: D. Wagner, *A
/// Generalized Birthday Problem*, CRYPTO 2002, on `extra` equations of 256 bits with 2^k ≤ n + `extra` lists:
/// 256·`extra`/(1 + k).
///
/// An estimate of an attack, and so no lower bound on the work.
///
/// # Panics
/// If `extra` is 0.
pub fn list_bits(n: u64, extra: u32) -> f64 {
    assert!(extra > 0, "n points need no search");
    let lists = n + u64::from(extra);
    FIELD_BITS * f64::from(extra) / f64::from(1 + lists.ilog2())
}

/// log₂ of the values in all lists of that search together: its time, up to a small factor.
///
/// # Panics
/// If `extra` is 0.
pub fn search_bits(n: u64, extra: u32) -> f64 {
    ((n + u64::from(extra)) as f64).log2() + list_bits(n, extra)
}

/// The most points n′ that some polynomial of n coefficients fits with probability at least 2^-`chance`, among the
/// results of 2^`queries` queries: RT21, lemma 10, (q²·n)^n′ / 2^(256·(n′ − n)) ≥ 2^-`chance`. `None` if
/// the lemma bounds nothing.
pub fn points_bound(n: u64, queries: u32, chance: u32) -> Option<u64> {
    let log = n.max(1).next_power_of_two().ilog2();
    let left = 256u32.checked_sub(2 * queries + log)?;
    (256 * n + u64::from(chance)).checked_div(left.into())
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
            let searches: Vec<String> = (1..=4)
                .map(|extra| format!("2^{:.0}", search_bits(n, extra)))
                .collect();
            let bounds: Vec<String> = [64, 80, 100]
                .map(|queries| points_bound(n, queries, 40).unwrap() as f64 / n as f64)
                .map(|multiple| format!("{multiple:.2}"))
                .into();
            let row = format!(
                "| 2^{log} | 2^{:.0} | {} | {} |",
                list_bits(n, 1),
                searches.join(" | "),
                bounds.join(" | ")
            );
            assert!(page.contains(&row), "missing row: {row}");
        }
    }
}
