//! Random and chosen-message oblivious transfers (OTs) from correlated ones.
//!
//! - *Random:* hashing the rows breaks the correlation; the keys are H(q_i) and H(q_i ⊕ Δ). H is
//!   tweakable, which it has to be to withstand rows that a malicious receiver chose (C. Guo, J. Katz, X. Wang,
//!   Y. Yu, *Efficient and Secure Multiparty Computation from Fixed-Key Block Ciphers*, S&P 2020).
//! - *Chosen:* the keys mask the messages, stretched where a message is longer than a key.

use rayon::prelude::*;
use vesica_primitives::block::{Block, Prg, Rekeyed};
use vesica_wire::{Channel, Error, MAX_FRAME, recv_rows};
use zeroize::Zeroizing;

use super::{MESSAGES, Receiver, Sender};
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

    /// OTs of chosen messages of `length` bytes: `messages` holds both messages of each OT, one after the
    /// other. Fails as [`Sender::correlated`] does.
    ///
    /// # Panics
    /// If `length` is 0 or a pair of messages exceeds a frame, or `messages` is not whole pairs.
    pub fn chosen(
        &mut self,
        channel: &mut dyn Channel,
        length: usize,
        messages: &[u8],
    ) -> Result<(), Error> {
        let row = row_bytes(length);
        assert!(messages.len().is_multiple_of(row), "not whole pairs");
        let keys = self.random(channel, messages.len() / row)?;
        let most = MAX_FRAME / row;
        for (messages, keys) in messages.chunks(most * row).zip(keys.chunks(most)) {
            let mut masked = messages.to_vec();
            for (message, key) in masked.chunks_exact_mut(length).zip(keys.as_flattened()) {
                mask(*key, message);
            }
            if let Err(error) = channel.send(MESSAGES, masked) {
                self.state.failed = Some(error.clone());
                return Err(error);
            }
        }
        Ok(())
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
            rows.par_chunks_mut(ROWS)
                .enumerate()
                .for_each(|(chunk, rows)| hash.hash(first + (chunk * ROWS) as u128, rows));
            keys.extend_from_slice(rows);
        })?;
        Ok(keys)
    }

    /// The messages of `length` bytes that the choices select, one after the other.
    ///
    /// Fails for good if the channel fails or the sender's messages have the wrong length.
    ///
    /// # Panics
    /// If `length` is 0 or a pair of messages exceeds a frame.
    pub fn chosen(
        &mut self,
        channel: &mut dyn Channel,
        length: usize,
        choices: &Choices,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let row = row_bytes(length);
        let keys = self.random(channel, choices)?;
        let mut messages = Zeroizing::new(Vec::with_capacity(choices.len() * length));
        let received = recv_rows(channel, MESSAGES, row, choices.len(), |rows| {
            for pair in rows.chunks_exact(row) {
                let (zero, one) = pair.split_at(length);
                let (done, i) = (messages.len(), messages.len() / length);
                let pick = choices.get(i).unwrap_u8().wrapping_neg();
                messages.extend(zero.iter().zip(one).map(|(a, b)| a ^ (pick & (a ^ b))));
                mask(keys[i], &mut messages[done..]);
            }
            Ok(())
        });
        if let Err(error) = received {
            self.state.failed = Some(error.clone());
            return Err(error);
        }
        Ok(messages)
    }
}

/// Bytes of a pair of messages.
fn row_bytes(length: usize) -> usize {
    assert!(length > 0 && length <= MAX_FRAME / 2);
    2 * length
}

/// message ⊕ key, the key stretched as far as needed.
fn mask(key: Block, message: &mut [u8]) {
    let mut pad = Zeroizing::new([key]);
    let mut prg = (message.len() > 16).then(|| Prg::new(key));
    for part in message.chunks_mut(16) {
        if let Some(prg) = &mut prg {
            prg.fill(&mut *pad);
        }
        for (byte, pad) in part.iter_mut().zip(bytemuck::must_cast_slice(&*pad)) {
            let pad: &u8 = pad;
            *byte ^= pad;
        }
    }
}

/// H(q_i) and H(q_i ⊕ Δ) for every row.
fn hash_both(hash: &Rekeyed, first: u128, delta: Block, rows: &[Block], keys: &mut [[Block; 2]]) {
    keys.par_chunks_mut(ROWS)
        .zip(rows.par_chunks(ROWS))
        .enumerate()
        .for_each_init(
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
