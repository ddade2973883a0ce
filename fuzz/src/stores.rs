//! The key-value store: encodings and keys that a peer chooses.

use vesica_encodings::Okvs;
use vesica_encodings::random_band::RandomBand;
use vesica_primitives::block::{Block, Prg};

/// The first byte chooses the words of a value and the statistical security; the second the items that the store is
/// for. Then come keys, 16 bytes each, of which the first are encoded, and all of this, again and again, is an encoding
/// that nobody made.
pub fn stores(bytes: &[u8]) {
    let [choice, items, rest @ ..] = bytes else {
        return;
    };
    let items = usize::from(*items);
    let lambda = [40, 64, 80, 128][usize::from(choice >> 1 & 3)];
    let store = RandomBand::new(items, lambda, &[6; 32]);
    match choice & 1 {
        0 => check::<1>(&store, items, rest),
        _ => check::<2>(&store, items, rest),
    }
}

fn check<const W: usize>(store: &impl Okvs, items: usize, bytes: &[u8]) {
    let (keys, _) = bytes.as_chunks::<16>();
    let keys: Vec<Block> = keys.iter().map(|key| Block::from_le_bytes(*key)).collect();
    let mut words = bytes.iter().cycle().copied();
    let mut word = || u64::from_le_bytes(std::array::from_fn(|_| words.next().unwrap_or(0)));
    let foreign: Vec<[u64; W]> = (0..store.size())
        .map(|_| std::array::from_fn(|_| word()))
        .collect();
    let decode = |encoding: &[[u64; W]]| {
        let mut out = vec![[0; W]; keys.len()];
        store.decode(encoding, &keys, &mut out);
        out
    };
    let read = decode(&foreign);
    let own = &keys[..items.min(keys.len())];
    let values: Vec<[u64; W]> = (0..own.len() as u64).map(|i| [i << 32 | 5; W]).collect();
    // Keys that a fuzzer chooses are not uniform and need not have an encoding.
    if let Ok(encoding) = store.encode(own, &values, &mut Prg::new(1)) {
        let back = decode(&encoding);
        assert_eq!(back[..own.len()], values);
        let add = |a: &[[u64; W]], b: &[[u64; W]]| -> Vec<[u64; W]> {
            let both = a.iter().zip(b);
            both.map(|(a, b)| std::array::from_fn(|i| a[i] ^ b[i]))
                .collect()
        };
        // Decoding is linear in the encoding.
        assert_eq!(decode(&add(&encoding, &foreign)), add(&back, &read));
    }
}
