//! Random inputs whose intersection is known: 128-bit items, or different numbers, half of the smaller set shared.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica::terms::{KEY_BITS, REVEAL};
use vesica_psi::{Reveal, indices_vartime};

use super::talk::{Part, Setup};

/// How many items both sets hold.
pub(super) fn shared(setup: &Setup) -> u64 {
    setup.receiver_size.min(setup.sender_size) / 2
}

/// Digests of one party's items, in a random order, and what these are if they are numbers.
pub(super) fn keys(setup: &Setup) -> (Vec<[u8; 32]>, Option<Vec<u64>>) {
    let Some(bits) = setup.terms.get(&KEY_BITS) else {
        let mut digests = strings(setup);
        shuffle(&mut digests, setup);
        return (digests, None);
    };
    let mut numbers = numbers(setup, bits);
    shuffle(&mut numbers, setup);
    let digest = |number: &u64| *blake3::hash(&number.to_le_bytes()).as_bytes();
    (numbers.iter().map(digest).collect(), Some(numbers))
}

/// Numbers of so many bits, spread over all of them; those of the sender that are not shared come after the receiver's.
fn numbers(setup: &Setup, bits: u32) -> Vec<u64> {
    let shared = shared(setup);
    let number = |i: u64| {
        let own = i >= shared && setup.part == Part::Sender;
        let i = if own { i + setup.receiver_size } else { i };
        // A product with an odd number permutes the residues modulo 2^bits.
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (u64::MAX >> (64 - bits))
    };
    (0..size(setup)).map(number).collect()
}

/// Strings of 128 bits.
fn strings(setup: &Setup) -> Vec<[u8; 32]> {
    let shared = shared(setup);
    let mut common = generator(setup, 0);
    let mut own = generator(setup, own_stream(setup.part));
    (0..size(setup))
        .map(|i| {
            let mut item = [0; 16];
            if i < shared { &mut common } else { &mut own }.fill_bytes(&mut item);
            *blake3::hash(&item).as_bytes()
        })
        .collect()
}

/// The indices of those of [`keys`] that both sets hold, ascending.
pub(super) fn expected(setup: &Setup) -> Vec<u32> {
    let shared = shared(setup);
    let mut is_shared: Vec<bool> = (0..size(setup)).map(|i| i < shared).collect();
    shuffle(&mut is_shared, setup);
    indices_vartime(&is_shared)
}

/// Values of one party's items, in the order of [`keys`].
pub(super) fn values(setup: &Setup) -> Vec<i64> {
    let mut values: Vec<i64> = (0..size(setup)).map(value).collect();
    shuffle(&mut values, setup);
    values
}

/// The value of item number i of either party.
fn value(i: u64) -> i64 {
    // Of both signs, and with sums of products that fit into 63 bits.
    i as i64 % (2 * VALUE_BOUND + 1) - VALUE_BOUND
}

/// The largest absolute value of [`values`].
pub(super) const VALUE_BOUND: i64 = 1000;

/// What a run is to reveal that reveals a number; `None` for what has no benchmark.
pub(super) fn expected_value(setup: &Setup) -> Option<i128> {
    let shared = 0..shared(setup);
    let of = |i| i128::from(value(i));
    Some(match setup.terms.get(&REVEAL) {
        Reveal::Sum => shared.map(of).sum(),
        Reveal::InnerProduct => shared.map(|i| of(i) * of(i)).sum(),
        Reveal::Size => shared.end.into(),
        _ => return None,
    })
}

/// How many of the items that both sets hold count towards a minimum: not those whose value is 0.
pub(super) fn counted(setup: &Setup) -> u64 {
    let has_values = matches!(setup.terms.get(&REVEAL), Reveal::Sum | Reveal::InnerProduct);
    let counts = |i: &u64| !has_values || value(*i) != 0;
    (0..shared(setup)).filter(counts).count() as u64
}

fn size(setup: &Setup) -> u64 {
    match setup.part {
        Part::Receiver => setup.receiver_size,
        Part::Sender => setup.sender_size,
    }
}

fn own_stream(part: Part) -> u64 {
    match part {
        Part::Receiver => 1,
        Part::Sender => 2,
    }
}

fn generator(setup: &Setup, stream: u64) -> ChaCha20Rng {
    let mut rng = ChaCha20Rng::seed_from_u64(setup.seed);
    rng.set_stream(stream);
    rng
}

/// Fisher and Yates; the same permutation for the same party, whatever is permuted.
fn shuffle<T>(values: &mut [T], setup: &Setup) {
    let mut rng = generator(setup, 2 + own_stream(setup.part));
    for i in (1..values.len()).rev() {
        // The bias of reducing 64 bits is far below what a benchmark could notice.
        let j = rng.next_u64() % (i as u64 + 1);
        values.swap(i, j as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use std::num::NonZeroUsize;
    use vesica::Terms;

    use super::*;
    use crate::args::{Carrier, Kernels};

    #[test]
    fn what_is_expected_is_the_intersection() {
        let sizes = [(0, 5), (1, 1), (7, 100), (100, 7), (64, 64)];
        let kinds = sizes.map(|sizes| [None, Some(7), Some(64)].map(|bits| (sizes, bits)));
        for ((receiver_size, sender_size), key_bits) in kinds.into_iter().flatten() {
            let setup = |part| Setup {
                part,
                protocol: "dh".into(),
                terms: {
                    let mut terms = Terms::default();
                    terms.set(&KEY_BITS, key_bits);
                    terms
                },
                threads: NonZeroUsize::MIN,
                receiver_size,
                sender_size,
                network: "lan".into(),
                carrier: Carrier::Tcp,
                backend: Kernels::Best,
                seed: 9,
                peer: String::new(),
                dealer: None,
            };
            let (mine, _) = keys(&setup(Part::Receiver));
            let theirs: HashSet<_> = keys(&setup(Part::Sender)).0.into_iter().collect();
            let plain: Vec<bool> = mine.iter().map(|item| theirs.contains(item)).collect();
            assert_eq!(mine.len() as u64, receiver_size);
            assert_eq!(theirs.len() as u64, sender_size);
            let common = indices_vartime(&plain);
            assert_eq!(common, expected(&setup(Part::Receiver)));
            assert_eq!(common.len() as u64, receiver_size.min(sender_size) / 2);
        }
    }
}
