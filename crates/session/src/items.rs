//! Binding items to one session.

use std::borrow::Cow;

use rayon::prelude::*;
use vesica_kernels::{Backend, blake3::keyed_hash_many};
use vesica_psi::Item;

/// Number of items that are hashed at once.
const BATCH: usize = 64;

/// Turns canonical 32-byte digests of keys into the items of this session, in the same order and, if they are the
/// caller's to give, in the same memory.
///
/// An item is keyed BLAKE3 of the digest under `session`, so that collisions prepared before the
/// contract was agreed are worthless, and items of two sessions cannot be linked.
pub fn salt_items(session: &[u8; 32], digests: Cow<'_, [[u8; 32]]>) -> Vec<Item> {
    let mut items = digests.into_owned();
    let batches = items.par_chunks_mut(BATCH).with_min_len(BATCH);
    batches.for_each(|batch| {
        let mut digests = [[0; 32]; BATCH];
        let digests = &mut digests[..batch.len()];
        digests.copy_from_slice(batch);
        keyed_hash_many(Backend::Best, session, digests.as_flattened(), 32, batch);
    });
    items
}

/// Whether no digest comes twice.
///
/// Digests are hashes, so the first eight bytes of each, sorted, nearly always suffice; the whole digests are
/// copied and sorted only when they do not.
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
        let items = salt_items(&[7; 32], digests[..].into());
        assert_eq!(items.len(), 3);
        assert_eq!(items[0], items[2]);
        assert_ne!(items[0], items[1]);
        assert_ne!(items, salt_items(&[8; 32], digests[..].into()));
        assert_eq!(salt_items(&[7; 32], digests[1..2].into()), items[1..2]);
        assert!(salt_items(&[7; 32], Vec::new().into()).is_empty());
    }

    #[test]
    fn an_item_is_the_keyed_hash_of_its_digest_in_every_batch() {
        let digests: Vec<[u8; 32]> = (0..2 * BATCH * BATCH + 3)
            .map(|i| std::array::from_fn(|j| (i >> (j % 4 * 8)) as u8))
            .collect();
        let items = salt_items(&[7; 32], digests[..].into());
        assert_eq!(salt_items(&[7; 32], digests.clone().into()), items);
        assert_eq!(items.len(), digests.len());
        for (item, digest) in items.iter().zip(&digests) {
            assert_eq!(blake3::keyed_hash(&[7; 32], digest), *item);
        }
    }
}
