//! What the sender and the receiver do differently.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, recv_exact};
use zeroize::Zeroizing;

use super::TREES;
use super::extension::Batch;
use super::source::Party;
use crate::choices::Choices;
use crate::ot_extension::{self, all_ones_if};
use crate::tree::mask;

/// The bits of a leaf that count: the lowest bit of the sender's leaves is 0, and so is the receiver's but for
/// the noise.
const LEAF: Block = !1;

/// A tree of a batch.
pub(super) struct Tree {
    /// Its number in the batch.
    pub(super) index: usize,
    /// Its number in all extensions.
    pub(super) number: u64,
}

/// The sender: it knows Δ.
pub(super) struct Sender {
    pub(super) delta: Zeroizing<Block>,
}

impl Party for Sender {
    type Base = ot_extension::Sender;

    /// Where q_i is odd, both q_i and x_i change: q_i ⊕ Δ is even.
    fn base(
        &mut self,
        base: &mut ot_extension::Sender,
        channel: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let rows = base.correlated(channel, out.len())?;
        for (q, row) in out.iter_mut().zip(&*rows) {
            *q = row ^ (all_ones_if(*row) & *self.delta);
        }
        Ok(())
    }

    fn grow(
        &mut self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let clear = |_: Tree, leaves: &mut [Block], _: &mut [u8]| {
            leaves.iter_mut().for_each(|leaf| *leaf &= LEAF);
        };
        let message = grow(batch, *self.delta, batch.cots, clear, rng, out);
        channel.send(TREES, message)
    }
}

/// Fills `out` with what a batch of trees gives the sender, and returns its message. For each level of a tree it has the
/// sum of the children 0, masked with the q of one of `cots`: for the receiver, with t = q ⊕ x·Δ, that is the sum of the
/// children x. `finish` may change the leaves, and writes what the message has besides.
pub(super) fn grow(
    batch: &Batch<'_>,
    delta: Block,
    cots: &[Block],
    finish: impl Fn(Tree, &mut [Block], &mut [u8]) + Sync,
    rng: &mut dyn CryptoRng,
    out: &mut [Block],
) -> Vec<u8> {
    let extension = batch.extension;
    let size = extension.size;
    let count = out.len() / size.leaves();
    let mut roots = Zeroizing::new(vec![0; count]);
    rng.fill_bytes(bytemuck::must_cast_slice_mut::<Block, u8>(&mut roots));
    let mut message = vec![0; count * size.message()];
    let messages = message.chunks_exact_mut(size.message());
    let trees = out.chunks_exact_mut(size.leaves()).zip(messages);
    parallel::each(trees.enumerate(), |(index, (leaves, message))| {
        let number = batch.first + index as u64;
        let cots = &cots[index * size.depth..][..size.depth];
        let mut sums = Zeroizing::new(vec![0; size.depth]);
        let trees = &extension.trees;
        trees.expand(number, roots[index], delta, leaves, &mut sums);
        let (levels, rest) = message.split_at_mut(16 * size.depth);
        let (levels, _) = levels.as_chunks_mut::<16>();
        for ((bytes, sum), q) in levels.iter_mut().zip(&*sums).zip(cots) {
            *bytes = (sum ^ q).to_le_bytes();
        }
        finish(Tree { index, number }, leaves, rest);
        extension.add_product(number, leaves);
    });
    message
}

/// The receiver.
pub(super) struct Receiver;

impl Party for Receiver {
    type Base = ot_extension::Receiver;

    fn base(
        &mut self,
        base: &mut ot_extension::Receiver,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let choices = Choices::random(out.len(), rng);
        out.copy_from_slice(&base.correlated(channel, &choices)?);
        Ok(())
    }

    fn grow(
        &mut self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let message = recv_exact(channel, TREES, batch.message())?;
        let mark = |_: Tree, point: usize, leaves: &mut [Block], _: &[u8]| {
            for (i, leaf) in leaves.iter_mut().enumerate() {
                *leaf = *leaf & LEAF | mask(i, point) & !LEAF;
            }
        };
        grow_punctured(batch, batch.cots, &message, mark, out);
        Ok(())
    }
}

/// Fills `out` with what a batch of trees gives the receiver. Of a tree it knows all leaves, with Δ added to the one at
/// the point that the choice bits of `cots` fix: a choice bit opens the sum of the nodes on that side, so the path to the
/// point takes the other one. `finish` gets the point and what the message has besides sums.
pub(super) fn grow_punctured(
    batch: &Batch<'_>,
    cots: &[Block],
    message: &[u8],
    finish: impl Fn(Tree, usize, &mut [Block], &[u8]) + Sync,
    out: &mut [Block],
) {
    let extension = batch.extension;
    let size = extension.size;
    let trees = out.chunks_exact_mut(size.leaves()).enumerate();
    parallel::each(trees, |(index, leaves)| {
        let number = batch.first + index as u64;
        let cots = &cots[index * size.depth..][..size.depth];
        let message = &message[index * size.message()..][..size.message()];
        let (levels, rest) = message.split_at(16 * size.depth);
        let (levels, _) = levels.as_chunks::<16>();
        let mut point = Zeroizing::new(0);
        let mut sums = Zeroizing::new(Vec::with_capacity(cots.len()));
        for (level, (t, bytes)) in cots.iter().zip(levels).enumerate() {
            sums.push(t ^ Block::from_le_bytes(*bytes));
            *point |= ((!t & 1) as usize) << level;
        }
        let trees = &extension.trees;
        trees.expand_punctured(number, *point, &sums, leaves);
        finish(Tree { index, number }, *point, leaves, rest);
        extension.add_product(number, leaves);
    });
}
