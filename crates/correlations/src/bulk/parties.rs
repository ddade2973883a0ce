//! What the sender and the receiver do differently.

use rand_core::CryptoRng;
use rayon::prelude::*;
use vesica_primitives::block::Block;
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

/// The sender: it knows Δ.
pub(super) struct Sender {
    pub(super) delta: Zeroizing<Block>,
}

impl Party for Sender {
    type Base = ot_extension::Sender;

    /// Where q_i is odd, both q_i and x_i change: q_i ⊕ Δ is even.
    fn base(
        &self,
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
        &self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let size = batch.extension.size;
        let count = out.len() / size.leaves();
        let mut roots = Zeroizing::new(vec![0; count]);
        rng.fill_bytes(bytemuck::must_cast_slice_mut::<Block, u8>(&mut roots));
        let mut message = vec![0; count * size.message()];
        (
            out.par_chunks_exact_mut(size.leaves()),
            message.par_chunks_exact_mut(size.message()),
            batch.cots.par_chunks_exact(size.depth),
            &*roots,
        )
            .into_par_iter()
            .enumerate()
            .for_each(|(i, (leaves, message, cots, root))| {
                let tree = batch.first + i as u64;
                self.tree(batch, tree, *root, cots, message, leaves);
                batch.extension.add_product(tree, leaves);
            });
        channel.send(TREES, message)
    }
}

impl Sender {
    /// The leaves of a tree, and what the receiver gets of it: for each level, the sum of the children 0, masked with
    /// q. For the receiver, with t = q ⊕ x·Δ, that is the sum of the children x.
    fn tree(
        &self,
        batch: &Batch<'_>,
        tree: u64,
        root: Block,
        cots: &[Block],
        message: &mut [u8],
        leaves: &mut [Block],
    ) {
        let extension = batch.extension;
        let mut sums = Zeroizing::new(vec![0; extension.size.depth]);
        extension
            .trees
            .expand(tree, root, *self.delta, leaves, &mut sums);
        leaves.iter_mut().for_each(|leaf| *leaf &= LEAF);
        let (message, _) = message.as_chunks_mut::<16>();
        for ((bytes, sum), q) in message.iter_mut().zip(&*sums).zip(cots) {
            *bytes = (sum ^ q).to_le_bytes();
        }
    }
}

/// The receiver.
pub(super) struct Receiver;

impl Party for Receiver {
    type Base = ot_extension::Receiver;

    fn base(
        &self,
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
        &self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        let size = batch.extension.size;
        let count = out.len() / size.leaves();
        let message = recv_exact(channel, TREES, count * size.message())?;
        (
            out.par_chunks_exact_mut(size.leaves()),
            message.par_chunks_exact(size.message()),
            batch.cots.par_chunks_exact(size.depth),
        )
            .into_par_iter()
            .enumerate()
            .for_each(|(i, (leaves, message, cots))| {
                let tree = batch.first + i as u64;
                punctured(batch, tree, cots, message, leaves);
                batch.extension.add_product(tree, leaves);
            });
        Ok(())
    }
}

/// The leaves of a tree as the receiver knows them: Δ is added at the point that the choice bits fix.
///
/// A choice bit opens the sum of the nodes on that side, so the path to the point takes the other one.
fn punctured(batch: &Batch<'_>, tree: u64, cots: &[Block], message: &[u8], leaves: &mut [Block]) {
    let (message, _) = message.as_chunks::<16>();
    let mut point = Zeroizing::new(0);
    let mut sums = Zeroizing::new(Vec::with_capacity(cots.len()));
    for (level, (t, bytes)) in cots.iter().zip(message).enumerate() {
        sums.push(t ^ Block::from_le_bytes(*bytes));
        *point |= ((!t & 1) as usize) << level;
    }
    let trees = &batch.extension.trees;
    trees.expand_punctured(tree, *point, &sums, leaves);
    for (i, leaf) in leaves.iter_mut().enumerate() {
        *leaf = *leaf & LEAF | mask(i, *point) & !LEAF;
    }
}
