//! Bits that both sides share, put into an order that one side alone knows.
//!
//! **Papers.** P. Mohassel, S. Sadeghian, *How to Hide Circuits in MPC*, EUROCRYPT 2013, on the network of [`crate::network`]; a
//! switch is one product, as a value by a bit is in [`crate::arithmetic`].
//!
//! **A switch** exchanges the bits u and v if its setting c is 1: it adds d = c·(u ⊕ v) to both. The choice end, which knows the
//! order, has a_u and a_v of them, and the value end b_u and b_v. The choice end sends y = c ⊕ x. With the pads h₀ and h₁ of
//! one COT, exchanged if y is 1, the value end sends m = h₀ ⊕ h₁ ⊕ b_u ⊕ b_v and adds h₀ to both of its shares; the choice end
//! adds h_c ⊕ c·(m ⊕ a_u ⊕ a_v) to its own. If c is 0 both have added h₀, and otherwise together h₀ ⊕ h₁ ⊕ m and a_u ⊕ a_v,
//! which is d.
//!
//! **One flow each way.** What the value end has on a wire follows from its shares, its pads and the corrections y: so it goes
//! through all layers before the choice end has any of its messages. The corrections depend on the order alone.
//!
//! **Masks.** A switch adds one pad to both wires: the sum of all shares of the value end stays. So it goes through the network
//! with uniform masks in the place of its shares, and sends what is between both; the choice end adds that to its own shares.
//! What comes out is shared anew.
//!
//! **Adversary.** Semi-honest. The value end sees c ⊕ x, uniform. The choice end sees each m under the pad that it lacks, and
//! shares under masks: uniform bits, which do not depend on the order either. Of a pad that it lacks it may come to know one bit,
//! where the shares that come out are opened. **Cost** per switch: one COT of the reverse direction, and a bit each way; per
//! bit one from the value end; two flows. **Memory:** four bits per switch at most.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};

use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, Masked, ValueEnd};
use crate::engine::{NO_REVERSE, Receiver, Sender};
use crate::messages::{SETTINGS, SWITCHES, WIRES, receive_packed, send_packed};
use crate::network::{Part, route, switches, walk};

/// The lowest bits of as many blocks of two kinds, the first of them number `start`: where each run of up to 64 begins, how long it
/// is, and the bits of either kind.
fn lowest<'b>(
    start: usize,
    one: &'b [Block],
    two: &'b [Block],
) -> impl Iterator<Item = (usize, usize, [u64; 2])> + use<'b> {
    let pairs = one.chunks(64).zip(two.chunks(64));
    (start..).step_by(64).zip(pairs).map(|(first, (one, two))| {
        let bits = [one, two].map(|blocks| {
            let blocks = blocks.iter().rev();
            blocks.fold(0, |bits, block| bits << 1 | (*block as u64 & 1))
        });
        (first, one.len(), bits)
    })
}

impl ChoiceEnd {
    /// Shares of the bits in the order of these settings of the network.
    ///
    /// # Panics
    /// If there are not as many settings as switches.
    fn permute(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        settings: &BitShares,
        shares: &BitShares,
    ) -> Result<BitShares, Error> {
        let (wires, count) = (shares.len(), switches(shares.len()));
        assert_eq!(settings.len(), count);
        let (mut corrections, mut pads) = (settings.clone(), BitShares::zeros(count));
        let collect = |start: usize, rows: &[Block], hashes: &[Block]| {
            for (first, count, [row, hash]) in lowest(start, rows, hashes) {
                corrections.add_at(first, count, row);
                pads.add_at(first, count, hash);
            }
        };
        self.pads(channel, rng, Masked::Bits, count, collect)?;
        send_packed(channel, SETTINGS, &corrections)?;
        let messages = receive_packed(channel, SWITCHES, count)?;
        let mut own = shares.clone();
        own.add(&receive_packed(channel, WIRES, wires)?);
        walk(wires, &mut |part| {
            let Part {
                low,
                high,
                switch,
                count,
            } = part;
            let [u, v] = [low, high].map(|first| own.read_at(first, count));
            let [c, pad, m] = [settings, &pads, &messages].map(|bits| bits.read_at(switch, count));
            let difference = pad ^ c & (m ^ u ^ v);
            own.add_at(low, count, difference);
            own.add_at(high, count, difference);
        });
        Ok(own)
    }
}

impl ValueEnd {
    /// The other side of [`ChoiceEnd::permute`].
    fn permute(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        shares: &BitShares,
    ) -> Result<BitShares, Error> {
        let (wires, count) = (shares.len(), switches(shares.len()));
        let (mut zeros, mut messages) = (BitShares::zeros(count), BitShares::zeros(count));
        let collect = |start: usize, zero: &[Block], one: &[Block]| {
            for (first, count, [zero, one]) in lowest(start, zero, one) {
                zeros.add_at(first, count, zero);
                messages.add_at(first, count, zero ^ one);
            }
        };
        self.pads(channel, rng, Masked::Bits, count, collect)?;
        let masks = BitShares::random(rng, wires);
        let mut masked = shares.clone();
        masked.add(&masks);
        let corrections = receive_packed(channel, SETTINGS, count)?;
        let mut own = masks;
        walk(wires, &mut |part| {
            let Part {
                low,
                high,
                switch,
                count,
            } = part;
            let [u, v] = [low, high].map(|first| own.read_at(first, count));
            let [both, zero, y] =
                [&messages, &zeros, &corrections].map(|bits| bits.read_at(switch, count));
            messages.add_at(switch, count, u ^ v);
            let pad = zero ^ y & both;
            own.add_at(low, count, pad);
            own.add_at(high, count, pad);
        });
        send_packed(channel, SWITCHES, &messages)?;
        send_packed(channel, WIRES, &masked)?;
        Ok(own)
    }
}

impl Receiver {
    /// Shares of bits in an order of this side's: share o is one of bit `inputs[o]`. The time depends on the order; the peer sees
    /// nothing of it before that is found.
    ///
    /// # Errors
    /// The channel's and the source's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
    ///
    /// # Panics
    /// If the engine has no reverse direction, or `inputs` is no permutation of the bits.
    pub fn permute(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        inputs: &[u32],
        shares: &BitShares,
    ) -> Result<BitShares, Error> {
        let settings = route(inputs);
        let reverse = self.reverse.as_mut().expect(NO_REVERSE);
        reverse.permute(channel, rng, &settings, shares)
    }
}

impl Sender {
    /// The other side of [`Receiver::permute`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If the engine has no reverse direction.
    pub fn permute(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        shares: &BitShares,
    ) -> Result<BitShares, Error> {
        let reverse = self.reverse.as_mut().expect(NO_REVERSE);
        reverse.permute(channel, rng, shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{SIZES, engines, opened, run, share, talking};
    use vesica_testing::{bad_value, honest, misbehaviour, rng, try_both, wrong_length};
    use vesica_wire::{Spoil, Tamper, memory_pair};

    /// Every third of an odd number, and backwards.
    fn order(wires: usize) -> Vec<u32> {
        let thirds = |first: usize| (first..wires).step_by(3);
        let order = thirds(1).chain(thirds(0)).chain(thirds(2));
        let mut order: Vec<u32> = order.map(|wire| wire as u32).collect();
        order.reverse();
        order
    }

    fn bit(wire: usize) -> bool {
        wire * wire % 7 < 3
    }

    #[test]
    fn bits_come_in_the_order_that_one_side_chooses() {
        for wires in SIZES.into_iter().chain([3, 5, 70, 129]) {
            let (order, shares) = (order(wires), share(wires as u64, bit, wires));
            let (one, two) = run(
                5,
                |engine, channel| engine.permute(channel, &mut rng(1), &order, &shares[0]),
                |engine, channel| engine.permute(channel, &mut rng(2), &shares[1]),
            );
            let expected: Vec<bool> = order.iter().map(|wire| bit(*wire as usize)).collect();
            assert_eq!(opened(&one, &two), expected, "{wires}");
        }
    }

    /// COTs of both directions come from sources that talk.
    #[test]
    fn both_sides_take_cots_in_the_same_order() {
        let (mut receiver, mut sender) = talking();
        let (order, shares) = (order(5000), share(1, bit, 5000));
        let (one, two) = honest(
            |channel| receiver.permute(channel, &mut rng(1), &order, &shares[0]),
            |channel| sender.permute(channel, &mut rng(2), &shares[1]),
        );
        let expected: Vec<bool> = order.iter().map(|wire| bit(*wire as usize)).collect();
        assert_eq!(opened(&one, &two), expected);
    }

    /// Shares that come out are new: their sum is that of no shares that went in.
    #[test]
    fn sums_of_shares_do_not_stay() {
        let ones = |shares: &BitShares| shares.words().iter().map(|word| word.count_ones()).sum();
        let (order, shares) = (order(100), share(1, bit, 100));
        let parities = (0..64).map(|seed| {
            let (_, two) = run(
                seed,
                |engine, channel| engine.permute(channel, &mut rng(1), &order, &shares[0]),
                |engine, channel| engine.permute(channel, &mut rng(seed), &shares[1]),
            );
            let ones: u32 = ones(&two);
            ones % 2
        });
        let odd: u32 = parities.sum();
        assert!((12..52).contains(&odd), "{odd} of 64");
    }

    #[test]
    fn frames_of_another_length_and_stray_bits_are_refused() {
        let (order, shares) = (order(70), share(1, bit, 70));
        let count = switches(70);
        assert!(!count.is_multiple_of(8));
        let run = |near: Option<(usize, Spoil)>, far: Option<(usize, Spoil)>| {
            let mut engines = engines(1);
            let (a, b) = memory_pair();
            let spoil = |of: Option<(usize, Spoil)>| of.unwrap_or((usize::MAX, Spoil::Truncate(0)));
            let [(one, near), (two, far)] = [near, far].map(spoil);
            try_both(
                (Tamper::new(a, one, near), Tamper::new(b, two, far)),
                |channel| {
                    let rng = &mut rng(1);
                    engines.receiver.permute(channel, rng, &order, &shares[0])
                },
                |channel| engines.sender.permute(channel, &mut rng(2), &shares[1]),
            )
        };
        let stray = |what| bad_value(what, "bits are set beyond the last one");
        let short = |what| wrong_length(what, count / 8);
        let (_, sender) = run(Some((0, Spoil::Truncate(1))), None);
        assert_eq!(misbehaviour(sender), short(SETTINGS.name));
        let (_, sender) = run(Some((0, Spoil::FlipBit(count))), None);
        assert_eq!(misbehaviour(sender), stray(SETTINGS.name));
        let (receiver, _) = run(None, Some((0, Spoil::Truncate(1))));
        assert_eq!(misbehaviour(receiver), short(SWITCHES.name));
        let (receiver, _) = run(None, Some((0, Spoil::FlipBit(count))));
        assert_eq!(misbehaviour(receiver), stray(SWITCHES.name));
        let (receiver, _) = run(None, Some((1, Spoil::FlipBit(70))));
        assert_eq!(misbehaviour(receiver), stray(WIRES.name));
    }
}
