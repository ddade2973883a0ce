//! A hint as one oblivious key-value store (OKVS): the key of each point, and its target under its pad.
//!
//! LTSXQ26, figure 16, steps 6 and 7, and figures 17 to 19. What a key's value is made of is uniform for the receiver
//! except where it holds the key, where the target is uniform; so all slots are.
//!
//! The encoding has some 1.05 slots per point at λ = 40, and only the ℓ + w bits of a string are sent of each. Slots
//! that no key determines are random. Keys enter by their first halves: the event that points cannot be encoded, or
//! two of them have equal halves, has half the event's share for each of the two reasons.

use rand_core::CryptoRng;
use vesica_encodings::Okvs;
use vesica_encodings::random_band::RandomBand;
use vesica_primitives::block::{Block, Prg};
use vesica_wire::{Channel, Error, Frames, Kind, Limit};
use zeroize::Zeroizing;

use super::pads::Pads;
use super::{Hint, Program, Queries, Shape, Strings, derived, log_up, slots};
use crate::{MAX_SYSTEM, Output, bytes};

/// Frames with slots of the OKVS.
pub const OKVS: Kind = Kind {
    code: 96,
    name: "OKVS hint",
};

/// One OKVS for all bins.
#[derive(Clone, Copy, Debug, Default)]
pub struct OkvsHint;

fn okvs(shape: &Shape) -> RandomBand {
    let session = derived("vesica/1 opprf okvs", &shape.params.session);
    RandomBand::new(shape.params.sender_size, shape.split.hint + 1, &session)
}

impl Hint for OkvsHint {
    const CANDIDATES: usize = 1;

    fn bits(&self, shape: &Shape, string_bits: u32) -> u64 {
        okvs(shape).size() as u64 * u64::from(string_bits)
    }

    fn frames(&self, shape: &Shape, string_bits: u32) -> Frames {
        slots::frames(okvs(shape).size(), string_bits)
    }

    /// The sender has two copies of keys' halves and of hidden targets, the receiver the encoding and candidates.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64 {
        let string = u64::from(string_bits.div_ceil(64)) * 8;
        let points = shape.params.sender_size as u64;
        let slots = bytes(okvs(shape).size() as u64, string);
        let system = bytes(points.min(MAX_SYSTEM), 74 + string);
        let sender = bytes(points, 88 + 2 * string) + slots + system;
        let queries = bytes(shape.params.receiver_size as u64, 92 + 2 * string);
        sender.max(queries + slots + bytes(shape.bins as u64, 32))
    }

    /// All pairs of points may have equal halves, with 2^-128 each.
    fn max_lambda_each(&self, shape: &Shape) -> u32 {
        let pairs = 2 * log_up(shape.params.sender_size as u64);
        Block::BITS.saturating_sub(pairs.max(1))
    }

    fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        program: &Program<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let hidden = Pads::new(shape, program.part).hide::<W>(program, |_| 0);
        let encoding = okvs(shape)
            .encode(&program.points.halves(), &hidden, &mut Prg::random(rng))
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        drop(hidden);
        slots::send(
            channel,
            OKVS,
            encoding.len(),
            program.layout.bits(),
            |first, to| {
                to.copy_from_slice(&encoding[first..first + to.len()]);
            },
        )
    }

    fn receive<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        queries: &Queries,
        outputs: &[Output],
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let okvs = okvs(shape);
        let encoding = slots::recv::<W>(channel, OKVS, okvs.size(), strings.layout().bits())?;
        let mut decoded = Zeroizing::new(vec![[0; W]; queries.len()]);
        okvs.decode(&encoding, &queries.halves(), &mut decoded);
        Pads::new(shape, strings.part()).unhide(
            queries,
            outputs,
            0,
            |query| &decoded[query],
            strings,
        );
        Ok(())
    }
}
