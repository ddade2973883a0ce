//! The interface of a source of random entries of a subfield vector oblivious linear evaluation (VOLE) in bulk.
//!
//! The sender holds Δ and y_i, the receiver z_i = y_i + x_i·Δ with random elements x_i of GF(2^W). Blocks are vectors
//! over that field ([`Subfield`]), and Δ is that of the correlated OTs (COTs) of the same source, without the bits
//! that [`Subfield::ENTRY`] leaves out: its first element is 1 and that of y_i is 0, so x_i is the first of z_i.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use crate::cot;

pub use vesica_kernels::subfield::Subfield;

/// The sender's end.
pub trait Sender<const W: u32>: cot::Sender {
    /// Fills `y` with the next entries, while the receiver fills as many.
    ///
    /// # Errors
    /// Those of [`cot::Sender::extend`].
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        y: &mut [Block],
    ) -> Result<(), Error>;
}

/// The receiver's end.
pub trait Receiver<const W: u32>: cot::Receiver {
    /// Fills `z` with the next entries, while the sender fills as many.
    ///
    /// # Errors
    /// Those of [`cot::Receiver::extend`].
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        z: &mut [Block],
    ) -> Result<(), Error>;
}

/// Entries of W COTs each: y = Σ α^j·q_j, z = Σ α^j·t_j, and so x = Σ α^j·x_j.
pub struct FromCots<const W: u32, C>(C);

/// COTs taken at a time: a quarter of a megabyte.
pub(crate) const COTS: usize = 1 << 14;

impl<const W: u32, C> FromCots<W, C> {
    /// On top of an end of a source of COTs.
    pub fn new(cots: C) -> Self {
        FromCots(cots)
    }
}

impl<const W: u32, C: cot::Sender> cot::Sender for FromCots<W, C> {
    fn delta(&self) -> Block {
        self.0.delta()
    }

    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        self.0.extend(channel, rng, q)
    }
}

impl<const W: u32, C: cot::Receiver> cot::Receiver for FromCots<W, C> {
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        self.0.extend(channel, rng, t)
    }
}

/// Room for the COTs of a number of entries, or of as many as are made at a time.
fn room<const W: u32>(entries: usize) -> Zeroizing<Vec<Block>> {
    Zeroizing::new(vec![0; W as usize * entries.min(COTS / W as usize)])
}

impl<const W: u32, C: cot::Sender> Sender<W> for FromCots<W, C> {
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        y: &mut [Block],
    ) -> Result<(), Error> {
        let mut room = room::<W>(y.len());
        for y in y.chunks_mut(COTS / W as usize) {
            let q = &mut room[..W as usize * y.len()];
            self.0.extend(channel, rng, q)?;
            for (y, q) in y.iter_mut().zip(q.chunks_exact(W as usize)) {
                *y = Subfield::<W>::combine(q);
            }
        }
        Ok(())
    }
}

impl<const W: u32, C: cot::Receiver> Receiver<W> for FromCots<W, C> {
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        z: &mut [Block],
    ) -> Result<(), Error> {
        let mut room = room::<W>(z.len());
        for z in z.chunks_mut(COTS / W as usize) {
            let t = &mut room[..W as usize * z.len()];
            self.0.extend(channel, rng, t)?;
            for (z, t) in z.iter_mut().zip(t.chunks_exact(W as usize)) {
                *z = Subfield::<W>::combine(t);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal;
    use vesica_testing::rng;

    /// Entries are of the field and below the same Δ; every element is chosen; COTs come in between.
    fn entries_are_correlated<const W: u32>() {
        let (sender, receiver) = ideal::cots(5);
        let mut sender = FromCots::<W, _>::new(sender);
        let mut receiver = FromCots::<W, _>::new(receiver);
        let delta = cot::Sender::delta(&sender) & Subfield::<W>::ENTRY;
        let (mut one, mut other) = vesica_wire::memory_pair();
        let mut seen = vec![0; Subfield::<W>::ORDER];
        for count in [0, 1, 100, 2 * COTS / W as usize + 3] {
            let (mut y, mut z) = (vec![0; count], vec![0; count]);
            let rng = &mut rng(1);
            sender.extend_entries(&mut one, rng, &mut y).unwrap();
            receiver.extend_entries(&mut other, rng, &mut z).unwrap();
            for (y, z) in y.iter().zip(&z) {
                let x = Subfield::<W>::first(*z);
                assert_eq!(z ^ y, Subfield::<W>::multiple(x, delta));
                assert_eq!(y & !Subfield::<W>::MASK, 0);
                assert_eq!(Subfield::<W>::first(*y), 0);
                seen[usize::from(x)] += 1;
            }
            let (mut q, mut t) = ([0; 3], [0; 3]);
            cot::Sender::extend(&mut sender, &mut one, rng, &mut q).unwrap();
            cot::Receiver::extend(&mut receiver, &mut other, rng, &mut t).unwrap();
            let delta = cot::Sender::delta(&sender);
            assert!(q.iter().zip(&t).all(|(q, t)| q ^ t == delta * (t & 1)));
        }
        assert!(seen.iter().all(|count| *count > 0));
    }

    #[test]
    fn entries_of_all_widths() {
        entries_are_correlated::<2>();
        entries_are_correlated::<3>();
        entries_are_correlated::<4>();
        entries_are_correlated::<8>();
    }
}
