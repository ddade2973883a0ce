//! Correlations from an ideal trusted dealer: for tests and benchmarks of what is built on them, never for a
//! run between two parties. Both halves come from one call in one process, and from a public seed.

use std::marker::PhantomData;

use rand_core::CryptoRng;
use subtle::{Choice, ConditionallySelectable};
use vesica_kernels::Backend;
use vesica_kernels::binary::multiply128;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::security::KeyAgreement;
use vesica_wire::{Channel, Error, Traffic};
use zeroize::Zeroizing;

use crate::choices::Choices;
use crate::cot;
use crate::field::Field;
use crate::ole;
use crate::ot_extension::{COLUMNS, Receiver, Security, Sender};
use crate::shape::Shape;
use crate::vole;

/// Random oblivious transfers (OTs): both keys of each for the sender, the keys of the choices for the
/// receiver.
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

/// Correlated OTs: q_i for the sender, q_i ⊕ x_i·`delta` for the receiver of choices x_i.
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

/// OLE tuples that both parties derive from the session.
pub struct Ole;

impl Ole {
    fn halves(shape: ole::Shape, session: &[u8; 32]) -> (ole::ReceiverHalf, ole::SenderHalf) {
        let mut receiver = ole::ReceiverHalf::from_seed(shape, session);
        let sender = ole::SenderHalf::from_seed(shape, &session.map(|byte| !byte));
        ole::fit(&mut receiver, &sender);
        (receiver, sender)
    }
}

impl ole::Source for Ole {
    const PROTOCOL: &'static str = "ole-ideal";

    fn traffic(_: &mut Traffic, _: ole::Shape, _: u32, _: KeyAgreement) -> Option<()> {
        Some(())
    }

    fn receive(
        _: &mut dyn Channel,
        shape: ole::Shape,
        _: u32,
        _: KeyAgreement,
        session: &[u8; 32],
        _: &mut dyn CryptoRng,
    ) -> Result<ole::ReceiverHalf, Error> {
        Ok(Ole::halves(shape, session).0)
    }

    fn send(
        _: &mut dyn Channel,
        shape: ole::Shape,
        _: u32,
        _: KeyAgreement,
        session: &[u8; 32],
        _: &mut dyn CryptoRng,
    ) -> Result<ole::SenderHalf, Error> {
        Ok(Ole::halves(shape, session).1)
    }
}

/// Both ends of a source of random correlated OTs.
pub fn cots(seed: Block) -> (CotSender, CotReceiver) {
    let mut prg = Prg::new(seed);
    let delta = prg.next_block() | 1;
    let sender = || CotSender {
        delta,
        q: Prg::new(seed ^ 1),
    };
    let receiver = CotReceiver {
        sender: sender(),
        choices: prg,
    };
    (sender(), receiver)
}

/// The sender's end of an ideal source of random correlated OTs.
pub struct CotSender {
    delta: Block,
    q: Prg,
}

impl cot::Sender for CotSender {
    fn delta(&self) -> Block {
        self.delta
    }

    fn extend(
        &mut self,
        _: &mut dyn Channel,
        _: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        self.q.fill(q);
        q.iter_mut().for_each(|q| *q &= !1);
        Ok(())
    }
}

/// The receiver's end of an ideal source of random correlated OTs; it contains the sender's too.
pub struct CotReceiver {
    sender: CotSender,
    choices: Prg,
}

impl cot::Receiver for CotReceiver {
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        cot::Sender::extend(&mut self.sender, channel, rng, t)?;
        for t in t {
            let choice = Choice::from(self.choices.next_block() as u8 & 1);
            *t ^= Block::conditional_select(&0, &self.sender.delta, choice);
        }
        Ok(())
    }
}

/// Both ends of an extension that starts from ideal base OTs.
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

/// Both halves of a vector oblivious linear evaluation (VOLE) of `length` entries, cut into chunks like the
/// silent one.
pub fn vole<F: Field>(seed: Block, delta: Block, length: usize) -> (VoleSender, VoleReceiver<F>) {
    let sender = VoleSender {
        seed,
        delta,
        shape: Shape::new(length, F::BITS),
    };
    let receiver = VoleReceiver {
        both: VoleSender { ..sender },
        field: PhantomData,
    };
    (sender, receiver)
}

/// The sender's half of an ideal VOLE.
#[derive(Clone, Copy)]
pub struct VoleSender {
    seed: Block,
    delta: Block,
    shape: Shape,
}

impl VoleSender {
    /// The generators of a and b of a chunk.
    fn generators(&self, chunk: usize) -> [Prg; 2] {
        let mut seeds = vec![0; 2 * self.shape.chunks];
        Prg::new(self.seed).fill(&mut seeds);
        [seeds[2 * chunk], seeds[2 * chunk + 1]].map(Prg::new)
    }

    fn session(&self) -> [u8; 32] {
        bytemuck::must_cast([self.seed; 2])
    }
}

impl vole::UncheckedSender for VoleSender {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn session(&self) -> [u8; 32] {
        self.session()
    }

    fn expand(&self, first: usize, b: &mut [Block]) {
        let chunks = self.shape.chunks_of(first, b.len());
        for (chunk, b) in chunks.zip(b.chunks_mut(self.shape.chunk.max(1))) {
            self.generators(chunk)[1].fill(b);
        }
    }

    fn finish(self, _: &mut dyn Channel) -> Result<Block, Error> {
        Ok(self.delta)
    }
}

/// The receiver's half of an ideal VOLE; it contains Δ and b too.
pub struct VoleReceiver<F> {
    both: VoleSender,
    field: PhantomData<F>,
}

impl<F: Field> vole::WaitingReceiver<F> for VoleReceiver<F> {
    type Receiver = Self;

    fn session(&self) -> [u8; 32] {
        self.both.session()
    }

    fn finish(self, _: &mut dyn Channel, _: &mut dyn CryptoRng) -> Result<Self, Error> {
        Ok(self)
    }
}

impl<F: Field> vole::Receiver<F> for VoleReceiver<F> {
    fn shape(&self) -> &Shape {
        &self.both.shape
    }

    fn expand(&self, first: usize, a: &mut [F], c: &mut [Block]) {
        assert_eq!(a.len(), c.len());
        let chunks = self.both.shape.chunks_of(first, c.len());
        let each = self.both.shape.chunk.max(1);
        let entries = a.chunks_mut(each).zip(c.chunks_mut(each));
        for (chunk, (a, c)) in chunks.zip(entries) {
            let [mut for_a, mut for_b] = self.both.generators(chunk);
            for_b.fill(c);
            for (a, c) in a.iter_mut().zip(c) {
                *a = F::from_block(for_a.next_block());
                *c ^= multiply128(Backend::Best, self.both.delta, a.to_block());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testing::rng;

    #[test]
    fn halves_of_a_vole_fit() {
        use vole::{Receiver, UncheckedSender};
        for length in [0, 1, 2000, 273 * 4096 + 1] {
            let (sender, receiver) = vole::<u64>(3, 77, length);
            let shape = *sender.shape();
            assert_eq!(shape, *receiver.shape());
            let mut before = Vec::new();
            for chunk in 0..shape.chunks {
                let n = shape.chunk_length(chunk);
                let (mut a, mut b, mut c) = (vec![0; n], vec![0; n], vec![0; n]);
                sender.expand(chunk, &mut b);
                receiver.expand(chunk, &mut a, &mut c);
                for i in 0..n {
                    let product = multiply128(Backend::Best, 77, a[i].into());
                    assert_eq!(c[i], product ^ b[i]);
                }
                assert!(n == 0 || a != before);
                before = a;
            }
        }
    }

    #[test]
    fn cots_differ_by_delta_where_the_choice_is_1() {
        let (mut sender, mut receiver) = cots(3);
        let (mut one, mut other) = vesica_wire::memory_pair();
        let mut ones = 0;
        for count in [0, 1, 1000] {
            let (mut q, mut t) = (vec![0; count], vec![0; count]);
            cot::Sender::extend(&mut sender, &mut one, &mut rng(1), &mut q).unwrap();
            cot::Receiver::extend(&mut receiver, &mut other, &mut rng(2), &mut t).unwrap();
            for (q, t) in q.iter().zip(&t) {
                assert_eq!(q & 1, 0);
                assert_eq!(q ^ t, cot::Sender::delta(&sender) * (t & 1));
                ones += t & 1;
            }
        }
        assert!((400..600).contains(&ones));
    }

    #[test]
    fn both_halves_fit() {
        for count in [0, 1, 129] {
            let choices = Choices::random(count, &mut rng(1));
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
