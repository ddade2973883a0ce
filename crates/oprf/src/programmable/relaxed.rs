//! A hint as a garbled cuckoo table, for three candidates per query.
//!
//! CGS22, figure 3: the sender puts its points into a cuckoo table with three hash functions. A slot with a point holds
//! the point's target under the pad of the function that put it there; an empty one is random. The receiver takes the
//! pads of all three functions to the slots of its key. One slot is the right one if its key is a point; whatever else
//! it finds is under a pad that the sender has not used.
//!
//! The paper's parameter ε = 0.27 is extrapolated from experiments of Pinkas, Schneider and Zohner (TOPS 2018). Here
//! the number of slots is that of [`cuckoo::Parameters`], which has 1.27 slots per point or more, so that there is no
//! place for the points with probability at most one event's share of 2^-λ.
//!
//! The three slots of a key are distinct, and its pads differ, so no candidate is found twice.

use rand_core::CryptoRng;
use vesica_encodings::cuckoo;
use vesica_primitives::block::Prg;
use vesica_wire::{Channel, Error, Frames, Kind, Limit};

use super::pads::Pads;
use super::{Hint, Program, Queries, Shape, Strings, derived, slots};
use crate::{Output, bytes};

/// Frames with slots of the table.
pub const RELAXED: Kind = Kind {
    code: 97,
    name: "relaxed hint",
};

/// Number of hash functions.
const HASHES: usize = 3;

/// One cuckoo table for all bins.
#[derive(Clone, Copy, Debug, Default)]
pub struct RelaxedHint;

fn parameters(shape: &Shape) -> cuckoo::Parameters {
    cuckoo::Parameters::new(shape.params.sender_size, HASHES, shape.split.hint)
}

pub(super) fn functions(shape: &Shape) -> cuckoo::Functions {
    let session = derived("vesica/1 opprf relaxed", &shape.params.session);
    cuckoo::Functions::new(parameters(shape), &session)
}

impl Hint for RelaxedHint {
    const CANDIDATES: usize = HASHES;

    fn bits(&self, shape: &Shape, string_bits: u32) -> u64 {
        parameters(shape).bins as u64 * u64::from(string_bits)
    }

    fn frames(&self, shape: &Shape, string_bits: u32) -> Frames {
        slots::frames(parameters(shape).bins, string_bits)
    }

    /// The sender has its table and hidden targets, the receiver all slots and candidates.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64 {
        let string = u64::from(string_bits.div_ceil(64)) * 8;
        let slots = parameters(shape).bins as u64;
        let sender = bytes(shape.params.sender_size as u64, 81 + string) + bytes(slots, 12);
        let queries = bytes(shape.params.receiver_size as u64, 100);
        sender.max(queries + bytes(slots, string) + bytes(shape.bins as u64, 96))
    }

    fn max_lambda_each(&self, _: &Shape) -> u32 {
        128
    }

    fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        program: &Program<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        // Figure 3, steps 1 and 2.
        let table = cuckoo::Table::new(&functions(shape), &program.points.halves())
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        let mut function = vec![0; program.points.len()];
        for entry in table.bins().flatten() {
            function[entry.item()] = entry.function() as u8;
        }
        // Steps 3 to 8.
        let index = |point: usize| usize::from(function[point]);
        let hidden = Pads::new(shape, program.part).hide::<W>(program, index);
        // Steps 9 and 10.
        let mut filler = Prg::random(rng);
        slots::send(
            channel,
            RELAXED,
            table.len(),
            program.layout.bits(),
            |first, to| {
                slots::randomize(&mut filler, to);
                for (slot, to) in (first..).zip(to) {
                    if let Some(entry) = table.bin(slot) {
                        *to = hidden[entry.item()];
                    }
                }
                Ok(())
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
        let functions = functions(shape);
        let count = functions.parameters().bins;
        let slots = slots::recv::<W>(channel, RELAXED, count, strings.layout().bits())?;
        let places = functions.bins(&queries.halves());
        let pads = Pads::new(shape, strings.part());
        for function in 0..HASHES {
            let slot = |query: usize| &slots[places[query][function] as usize];
            pads.unhide(queries, outputs, function, slot, strings);
        }
        Ok(())
    }
}
