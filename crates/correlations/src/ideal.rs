//! Correlations from a trusted third party that nobody has: for tests and benchmarks of what is built on
//! them, never for a run between two parties. Both halves come from one call, in one process, and from a
//! seed that is no secret.

use rand_core::CryptoRng;
use subtle::ConditionallySelectable;
use vesica_primitives::block::{Block, Prg};
use zeroize::Zeroizing;

use crate::choices::Choices;
use crate::ot_extension::{COLUMNS, Receiver, Security, Sender};

/// Random oblivious transfers: both keys of each for the sender, the keys of the choices for the receiver.
pub fn random_transfers(
    seed: Block,
    choices: &Choices,
) -> (Zeroizing<Vec<[Block; 2]>>, Zeroizing<Vec<Block>>) {
    let mut pairs = Zeroizing::new(vec![[0; 2]; choices.len()]);
    Prg::new(seed).fill(pairs.as_flattened_mut());
    let picked = pairs
        .iter()
        .enumerate()
        .map(|(i, [zero, one])| Block::conditional_select(zero, one, choices.get(i)));
    let picked = Zeroizing::new(picked.collect());
    (pairs, picked)
}

/// Correlated oblivious transfers: q_i for the sender, q_i ⊕ x_i·`delta` for the receiver of choices x_i.
pub fn correlated_transfers(
    seed: Block,
    delta: Block,
    choices: &Choices,
) -> (Zeroizing<Vec<Block>>, Zeroizing<Vec<Block>>) {
    let mut q = Zeroizing::new(vec![0; choices.len()]);
    Prg::new(seed).fill(&mut q);
    let t = q
        .iter()
        .enumerate()
        .map(|(i, q)| q ^ Block::conditional_select(&0, &delta, choices.get(i)));
    let t = Zeroizing::new(t.collect());
    (q, t)
}

/// Both ends of an extension that starts from ideal base transfers.
pub fn extension(
    session: &[u8; 32],
    security: Security,
    rng: &mut dyn CryptoRng,
) -> (Sender, Receiver) {
    let choices = Choices::random(COLUMNS, rng);
    let mut seed = [0; 16];
    rng.fill_bytes(&mut seed);
    let (pairs, picked) = random_transfers(Block::from_le_bytes(seed), &choices);
    let (pairs, _) = pairs.as_chunks::<COLUMNS>();
    let (picked, _) = picked.as_chunks::<COLUMNS>();
    (
        Sender::new(session, security, choices.blocks()[0], &picked[0]),
        Receiver::new(session, security, &pairs[0], rng),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha12Rng;
    use rand_core::SeedableRng;

    #[test]
    fn both_halves_fit() {
        for count in [0, 1, 129] {
            let choices = Choices::random(count, &mut ChaCha12Rng::seed_from_u64(1));
            let (pairs, picked) = random_transfers(5, &choices);
            let (q, t) = correlated_transfers(6, 77, &choices);
            assert_eq!((pairs.len(), picked.len()), (count, count));
            assert_eq!((q.len(), t.len()), (count, count));
            for i in 0..count {
                let c = choices.get(i).unwrap_u8();
                assert_eq!(picked[i], pairs[i][usize::from(c)]);
                assert_ne!(picked[i], pairs[i][usize::from(1 - c)]);
                assert_eq!(q[i] ^ t[i], 77 * Block::from(c));
            }
        }
    }
}
