//! Binding items to one session.

use vesica_psi::Item;

/// Turns canonical 32-byte digests of keys into the items of this session, in the same order.
///
/// An item is keyed BLAKE3 of the digest under `session`, so that collisions prepared before the
/// contract was agreed are worthless, and items of two sessions cannot be linked.
pub fn salt_items(session: &[u8; 32], digests: &[[u8; 32]]) -> Vec<Item> {
    digests
        .iter()
        .map(|digest| *blake3::keyed_hash(session, digest).as_bytes())
        .collect()
}

/// Whether no digest comes twice.
///
/// Digests are hashes, so that the first eight bytes of each, sorted, nearly always say so; the
/// whole digests are copied and sorted only when they do not.
pub(crate) fn all_distinct(digests: &[[u8; 32]]) -> bool {
    fn distinct<T: Ord>(mut values: Vec<T>) -> bool {
        values.sort_unstable();
        values.windows(2).all(|pair| pair[0] != pair[1])
    }
    let prefix = |[a, b, c, d, e, f, g, h, ..]: &[u8; 32]| {
        u64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])
    };
    distinct(digests.iter().map(prefix).collect()) || distinct(digests.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_digests_are_found_and_equal_prefixes_are_not_repetitions() {
        let mut near = [[7; 32]; 3];
        near[1][31] = 1;
        near[2][31] = 2;
        assert!(all_distinct(&[]));
        assert!(all_distinct(&near));
        assert!(!all_distinct(&[near[0], near[1], near[0]]));
    }

    #[test]
    fn items_depend_on_the_session_and_the_digest_and_keep_their_order() {
        let digests = [[1; 32], [2; 32], [1; 32]];
        let items = salt_items(&[7; 32], &digests);
        assert_eq!(items.len(), 3);
        assert_eq!(items[0], items[2]);
        assert_ne!(items[0], items[1]);
        assert_ne!(items, salt_items(&[8; 32], &digests));
        assert_eq!(salt_items(&[7; 32], &digests[1..2]), items[1..2]);
        assert!(salt_items(&[7; 32], &[]).is_empty());
    }
}
