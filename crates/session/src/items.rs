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

#[cfg(test)]
mod tests {
    use super::*;

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
