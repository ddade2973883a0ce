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
