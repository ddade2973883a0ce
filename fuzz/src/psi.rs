//! Protocol messages: each side of each protocol against a peer that sends the fuzzer's bytes.

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica_psi::{Item, Params, Protocol, prepare, receive, send};

use crate::script::Script;

/// The first byte chooses the protocol, the second the two sizes (0 to 7 each), the rest is the
/// peer's script.
fn run(bytes: &[u8], party: fn(&mut Script<'_>, &Params, &[Item])) {
    let [protocol, sizes, script @ ..] = bytes else {
        return;
    };
    let protocol = Protocol::ALL[usize::from(*protocol) % Protocol::ALL.len()];
    let params = Params {
        protocol,
        security: protocol.security(),
        both: false,
        lambda: 40,
        receiver_size: usize::from(sizes & 7),
        sender_size: usize::from(sizes >> 3 & 7),
        session: [7; 32],
    };
    let items: Vec<Item> = (1..8).map(|i| [i; 32]).collect();
    party(&mut Script::new(script), &params, &items);
}

/// A receiver whose sender is hostile.
pub fn psi_receive(bytes: &[u8]) {
    run(bytes, |channel, params, items| {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let items = &items[..params.receiver_size];
        let prepared = prepare(params.protocol, items.len(), &mut rng);
        if let Ok(matches) = receive(channel, params, items, prepared, &mut rng) {
            assert!(matches.is_sorted_by(|a, b| a < b));
            assert!(matches.iter().all(|i| (*i as usize) < items.len()));
        }
    });
}

/// A sender whose receiver is hostile.
pub fn psi_send(bytes: &[u8]) {
    run(bytes, |channel, params, items| {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        // Either is fine; it must come to an end.
        let _ = send(channel, params, &items[..params.sender_size], &mut rng);
    });
}
