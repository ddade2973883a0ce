//! Random oblivious transfers (OTs) from correlated ones. Hashing the rows breaks the correlation; the keys are H(q_i) and
//! H(q_i ⊕ Δ). H is tweakable, which it has to be to withstand rows that a malicious receiver chose (C. Guo, J. Katz, X.
//! Wang, Y. Yu, *Efficient and Secure Multiparty Computation from Fixed-Key Block Ciphers*, S&P 2020).

use vesica_primitives::block::{Block, Rekeyed};
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use super::{Receiver, Sender};
use crate::choices::Choices;

/// Rows hashed by one task: they stay in the L1 cache.
const ROWS: usize = 512;

impl Sender {
    /// `count` random OTs: both keys of each. Fails as [`Sender::correlated`] does.
    pub fn random(
        &mut self,
        channel: &mut dyn Channel,
        count: usize,
    ) -> Result<Zeroizing<Vec<[Block; 2]>>, Error> {
        let mut keys = Zeroizing::new(vec![[0; 2]; count]);
        let delta = self.delta.clone();
        let mut done = 0;
        self.extend(channel, count, |hash, first, rows| {
            let out = &mut keys[done..done + rows.len()];
            done += rows.len();
            hash_both(hash, first, *delta, rows, out);
        })?;
        Ok(keys)
    }
}

impl Receiver {
    /// Random OTs, one per choice: the key of each choice. Fails as [`Receiver::correlated`] does.
    pub fn random(
        &mut self,
        channel: &mut dyn Channel,
        choices: &Choices,
    ) -> Result<Zeroizing<Vec<Block>>, Error> {
        let mut keys = Zeroizing::new(Vec::with_capacity(choices.len()));
        self.extend(channel, choices, |hash, first, rows| {
            let chunks = rows.chunks_mut(ROWS).enumerate();
            parallel::each(chunks, |(chunk, rows)| {
                hash.hash(first + (chunk * ROWS) as u128, rows);
            });
            keys.extend_from_slice(rows);
        })?;
        Ok(keys)
    }
}

/// H(q_i) and H(q_i ⊕ Δ) for every row.
fn hash_both(hash: &Rekeyed, first: u128, delta: Block, rows: &[Block], keys: &mut [[Block; 2]]) {
    let chunks = keys.chunks_mut(ROWS).zip(rows.chunks(ROWS)).enumerate();
    parallel::each_with(
        chunks,
        || Zeroizing::new(vec![0; 2 * ROWS]),
        |buffer, (chunk, (keys, rows))| {
            let first = first + (chunk * ROWS) as u128;
            let (zero, one) = buffer.split_at_mut(ROWS);
            let (zero, one) = (&mut zero[..rows.len()], &mut one[..rows.len()]);
            for ((zero, one), row) in zero.iter_mut().zip(&mut *one).zip(rows) {
                (*zero, *one) = (*row, row ^ delta);
            }
            hash.hash(first, zero);
            hash.hash(first, one);
            for ((pair, zero), one) in keys.iter_mut().zip(zero).zip(one) {
                *pair = [*zero, *one];
            }
        },
    );
}
