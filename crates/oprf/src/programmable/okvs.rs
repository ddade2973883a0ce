//! A hint as one oblivious key-value store (OKVS): the key of each point, and its target under its pad.
//!
//! LTSXQ26, figure 16, steps 6 and 7, and figures 17 to 19. What a key's value is made of is uniform for the receiver
//! except where it holds the key, where the target is uniform; so all slots are.
//!
//! The encoding has some 1.05 slots per point at λ = 40, and only the ℓ + w bits of a string are sent of each. Slots
//! that no key determines are random. Keys enter by their first halves: the event that points cannot be encoded, or
//! two of them have equal halves, has half the event's share for each of the two reasons.
//!
//! **Time.** The sender solves one system of the OKVS after the other (as many at a time as there are threads) and sends
//! each as soon as it is solved, while the receiver decodes what has come. When a system is sent depends on the keys in
//! it, as the time of the whole encoding does, and not on targets. The receiver sends nothing meanwhile. An encoding that
//! fails ends in the middle, within the event's probability.

use rand_core::CryptoRng;
use vesica_encodings::Okvs;
use vesica_encodings::random_band::RandomBand;
use vesica_primitives::block::{Block, Prg};
use vesica_wire::{Channel, Error, Frames, Kind, Limit};

use super::pads::Pads;
use super::{Hint, Program, Queries, Shape, Strings, derived, log_up, slots};
use crate::{MAX_SYSTEM, Output, bytes, halves};

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

    /// The sender has hidden targets and one linear system with its slots, the receiver keys' halves and candidates.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64 {
        let string = u64::from(string_bits.div_ceil(64)) * 8;
        let points = shape.params.sender_size as u64;
        let system = bytes(points.min(MAX_SYSTEM), 74 + 2 * string);
        let sender = bytes(points, 56 + string) + system;
        let queries = bytes(shape.params.receiver_size as u64, 72);
        sender.max(queries + bytes(shape.bins as u64, 32))
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
        let okvs = okvs(shape);
        let hidden = Pads::new(shape, program.part).hide::<W>(program, |_| 0);
        let keys = program.points.keys();
        let arrangement = okvs.arrange(keys, |key| halves(key)[0]);
        let failed = |e| Error::limit(Limit::Encoding, e);
        let mut encoder = okvs
            .encoder(
                &arrangement,
                |places, to| arrangement.gather(places, keys, to, |key| halves(key)[0]),
                |places, to| arrangement.gather(places, &hidden, to, |hidden| *hidden),
                &mut Prg::random(rng),
            )
            .map_err(failed)?;
        let bits = program.layout.bits();
        slots::send(channel, OKVS, okvs.size(), bits, |_, to| {
            encoder.read(to).map_err(failed)
        })
    }

    fn receive<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        queries: &Queries,
        outputs: &[Output],
        strings: &mut Strings,
    ) -> Result<(), Error> {
        let (okvs, keys) = (okvs(shape), queries.keys());
        // While the sender encodes.
        let arrangement = okvs.arrange(keys, |key| halves(key)[0]);
        let mut arranged = vec![0; keys.len()];
        arrangement.gather(0..keys.len(), keys, &mut arranged, |key| halves(key)[0]);
        let mut decoder = okvs.decoder::<W>(&arrangement, &arranged);
        let (pads, numbers) = (Pads::new(shape, strings.part()), arrangement.numbers());
        let bits = strings.layout().bits();
        slots::recv_each(channel, OKVS, okvs.size(), bits, |slots| {
            decoder.write(slots, |places, hidden| {
                pads.unhide_some(queries, outputs, &numbers[places], hidden, strings);
            });
        })
    }
}
