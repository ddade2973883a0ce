//! Targets, pads, and the candidates that the receiver finds.

use bytemuck::must_cast;
use rand_core::CryptoRng;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use zeroize::Zeroizing;

use super::{Points, Queries, Shape};
use crate::Output;

/// Strings whose pads are computed together.
const BATCH: usize = 256;

/// Strings of one task.
const TASK: usize = 1 << 12;

/// How a string of up to 256 bits is laid out: the tag first, then the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    tag_bits: u32,
    payload_bits: u32,
}

/// What the sender programs at a point.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// What is compared; the same for all points of a bin.
    pub tag: Block,
    /// What comes with it.
    pub payload: Block,
}

impl Target {
    /// The target of a part, given the blocks of the payload: a tag with the first one, or the next two.
    pub fn in_part(part: usize, tag: Block, block: impl Fn(usize) -> Block) -> Target {
        match part {
            0 => Target {
                tag,
                payload: block(0),
            },
            part => Target {
                tag: block(2 * part - 1),
                payload: block(2 * part),
            },
        }
    }
}

/// The target of a point in a bin: `target(bin, point)`. A pointer, so that hints are not compiled once for each such
/// function; what a call costs is not noticed beside the hash of a point.
pub type TargetOf<'a> = dyn Fn(usize, usize) -> Target + Sync + 'a;

/// What the sender programs.
pub struct Program<'a> {
    /// Which part of the payload, counted from 0.
    pub part: usize,
    /// How strings are laid out.
    pub layout: Layout,
    /// The points.
    pub points: &'a Points,
    /// F of the points.
    pub outputs: &'a [Output],
    /// The target of each of them.
    pub target: &'a TargetOf<'a>,
}

impl Layout {
    /// Tags and payloads of this many bits.
    ///
    /// # Panics
    /// If either has more than 128, or a tag has none.
    pub fn new(tag_bits: u32, payload_bits: u32) -> Self {
        assert!((1..=Block::BITS).contains(&tag_bits) && payload_bits <= Block::BITS);
        Layout {
            tag_bits,
            payload_bits,
        }
    }

    /// Bits of a tag.
    pub fn tag_bits(&self) -> u32 {
        self.tag_bits
    }

    /// Bits of a payload.
    pub fn payload_bits(&self) -> u32 {
        self.payload_bits
    }

    /// Bits of a string: ℓ + w.
    pub fn bits(&self) -> u32 {
        self.tag_bits + self.payload_bits
    }

    /// Words of 64 bits that hold a string: 1 to 4.
    pub fn words(&self) -> usize {
        self.bits().div_ceil(64) as usize
    }

    /// The string of a target, in the lowest bits.
    ///
    /// # Panics
    /// If the target has more bits than this layout.
    fn join(&self, Target { tag, payload }: Target) -> [Block; 2] {
        assert!(tag <= low_bits(self.tag_bits) && payload <= low_bits(self.payload_bits));
        let above = payload.checked_shl(self.tag_bits).unwrap_or(0);
        [tag | above, payload >> (Block::BITS - self.tag_bits)]
    }

    /// The target of a string, whose unused bits may be anything.
    fn split(&self, [low, high]: [Block; 2]) -> Target {
        let below = low.checked_shr(self.tag_bits).unwrap_or(0);
        let above = high.checked_shl(Block::BITS - self.tag_bits).unwrap_or(0);
        Target {
            tag: low & low_bits(self.tag_bits),
            payload: (below | above) & low_bits(self.payload_bits),
        }
    }
}

/// A block whose lowest `bits` bits are ones.
fn low_bits(bits: u32) -> Block {
    Block::MAX
        .checked_shr(Block::BITS - bits)
        .unwrap_or_default()
}

/// The receiver's candidates for each bin.
#[derive(Clone)]
pub struct Strings {
    part: usize,
    candidates: usize,
    layout: Layout,
    /// Candidate c of bin b is number b·candidates + c.
    tags: Zeroizing<Vec<Block>>,
    /// Likewise; empty if payloads have no bits.
    payloads: Zeroizing<Vec<Block>>,
    /// The strings of further parts.
    further: Vec<Strings>,
}

impl Strings {
    /// Uniform strings of a part, which stay in the bins without a query.
    pub(super) fn random(
        candidates: usize,
        bins: usize,
        layout: Layout,
        part: usize,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let mut random = |count: usize, bits| {
            let mut blocks = Zeroizing::new(vec![0; count]);
            Prg::random(rng).fill(&mut blocks);
            blocks.iter_mut().for_each(|block| *block &= low_bits(bits));
            blocks
        };
        let count = candidates * bins;
        let payloads = if layout.payload_bits == 0 { 0 } else { count };
        Strings {
            part,
            candidates,
            layout,
            tags: random(count, layout.tag_bits),
            payloads: random(payloads, layout.payload_bits),
            further: Vec::new(),
        }
    }

    /// The same strings with those of further parts.
    pub(super) fn with_further(self, further: Vec<Strings>) -> Self {
        Strings { further, ..self }
    }

    /// A block of the payload of a candidate, counted from 0.
    ///
    /// # Panics
    /// If payloads do not have so many.
    pub fn payload(&self, candidate: usize, block: usize) -> Block {
        match block {
            0 => self.payloads[candidate],
            _ => {
                let part = &self.further[(block - 1) / 2];
                match block % 2 {
                    1 => part.tags[candidate],
                    _ => part.payloads[candidate],
                }
            }
        }
    }

    /// Which part of the payload, counted from 0.
    pub fn part(&self) -> usize {
        self.part
    }

    /// Candidates per bin.
    pub fn candidates(&self) -> usize {
        self.candidates
    }

    /// Bits of a tag and of a payload.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The tags of all candidates, bin by bin.
    pub fn tags(&self) -> &[Block] {
        &self.tags
    }

    /// The payloads of all candidates, bin by bin; empty if payloads have no bits.
    pub fn payloads(&self) -> &[Block] {
        &self.payloads
    }

    /// Writes a candidate: what `slot` holds under `pad`.
    pub(super) fn set<const W: usize>(
        &mut self,
        bin: usize,
        candidate: usize,
        slot: &[u64; W],
        pad: [u64; 4],
    ) {
        let mut words = pad;
        words.iter_mut().zip(slot).for_each(|(to, s)| *to ^= s);
        let target = self.layout.split(must_cast(words));
        let number = bin * self.candidates + candidate;
        self.tags[number] = target.tag;
        if let Some(payload) = self.payloads.get_mut(number) {
            *payload = target.payload;
        }
    }
}

/// The pads of a run, by which a hint hides targets: F expanded to 256 bits.
pub struct Pads(Oracle);

impl Pads {
    /// The pads of one part of the run of this shape.
    pub fn new(shape: &Shape, part: usize) -> Self {
        let session = &shape.params.session;
        match part {
            0 => Pads(Oracle::new("vesica/1 opprf pad", session)),
            part => {
                let of_part = Oracle::new("vesica/1 opprf part", session);
                let session = of_part.hash(&[&(part as u64).to_le_bytes()]);
                Pads(Oracle::new("vesica/1 opprf pad", &session))
            }
        }
    }

    /// The pads of consecutive outputs, in slices of at most [`BATCH`]: calls `each` with the position of the first
    /// and the pads. `inputs` gives the bin and the index of an output's pad.
    ///
    /// Pad `index` of F in a bin is the hash of the three.
    pub(super) fn for_each(
        &self,
        outputs: &[Output],
        mut inputs: impl Iterator<Item = (usize, usize)>,
        mut each: impl FnMut(usize, &[[u64; 4]]),
    ) {
        let mut hashed = Zeroizing::new([[0u64; 4]; BATCH]);
        let mut pads = Zeroizing::new([[0u64; 4]; BATCH]);
        for (batch, outputs) in outputs.chunks(BATCH).enumerate() {
            for ((to, [a, b]), (bin, index)) in hashed.iter_mut().zip(outputs).zip(&mut inputs) {
                *to = [*a, *b, bin as u64, index as u64];
            }
            let pads = &mut pads[..outputs.len()];
            let inputs = bytemuck::must_cast_slice::<[u64; 4], [u8; 32]>(&hashed[..outputs.len()]);
            self.0
                .hash_many(inputs, bytemuck::must_cast_slice_mut(pads));
            each(batch * BATCH, pads);
        }
    }

    /// The other side of [`Pads::hide`]: candidate number `candidate` of each query, which its pad of that number hides
    /// in `slot(query)`.
    pub fn unhide<'s, const W: usize>(
        &self,
        queries: &Queries,
        outputs: &[Output],
        candidate: usize,
        slot: impl Fn(usize) -> &'s [u64; W],
        strings: &mut Strings,
    ) {
        let bins = queries.at();
        let inputs = bins.iter().map(|bin| (*bin as usize, candidate));
        self.for_each(outputs, inputs, |from, pads| {
            for ((query, bin), pad) in (from..).zip(&bins[from..]).zip(pads) {
                strings.set(*bin as usize, candidate, slot(query), *pad);
            }
        });
    }

    /// As [`Pads::unhide`], with one candidate, for the queries of these numbers: `slots[i]` hides that of number i.
    pub(super) fn unhide_some<const W: usize>(
        &self,
        queries: &Queries,
        outputs: &[Output],
        numbers: &[u32],
        slots: &[[u64; W]],
        strings: &mut Strings,
    ) {
        let bins = queries.at();
        let bin = |number: &u32| bins[*number as usize] as usize;
        let mut pads = Zeroizing::new(vec![[0; 4]; numbers.len()]);
        let batches = pads.chunks_mut(BATCH).zip(numbers.chunks(BATCH));
        parallel::each(batches, |(pads, numbers)| {
            let mut gathered = Zeroizing::new([[0; 2]; BATCH]);
            let gathered = &mut gathered[..numbers.len()];
            for (to, number) in gathered.iter_mut().zip(numbers) {
                *to = outputs[*number as usize];
            }
            let inputs = numbers.iter().map(|number| (bin(number), 0));
            self.for_each(gathered, inputs, |_, found| pads.copy_from_slice(found));
        });
        for ((number, slot), pad) in numbers.iter().zip(slots).zip(&*pads) {
            strings.set(bin(number), 0, slot, *pad);
        }
    }

    /// Step 2: the target of each point hidden by its pad number `index(point)`. `W` is [`Layout::words`], or 4 for pads
    /// in full.
    pub fn hide<const W: usize>(
        &self,
        program: &Program<'_>,
        index: impl Fn(usize) -> usize + Sync,
    ) -> Vec<[u64; W]> {
        let Program {
            layout,
            points,
            outputs,
            target,
            ..
        } = program;
        let mut hidden = vec![[0; W]; points.len()];
        let tasks = hidden.chunks_mut(TASK).zip(outputs.chunks(TASK));
        parallel::each(tasks.enumerate(), |(task, (hidden, outputs))| {
            let start = task * TASK;
            let mut bins = points.bins_from(start);
            let inputs = points.bins_from(start).zip((start..).map(&index));
            self.for_each(outputs, inputs, |from, pads| {
                let places = (start + from..).zip(&mut bins);
                for ((to, pad), (point, bin)) in hidden[from..].iter_mut().zip(pads).zip(places) {
                    let string = must_cast::<[Block; 2], [u64; 4]>(layout.join(target(bin, point)));
                    *to = std::array::from_fn(|i| pad[i] ^ string[i]);
                }
            });
        });
        hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_hold_tag_and_payload() {
        for tag_bits in [1, 40, 63, 64, 65, 127, 128] {
            for payload_bits in [0, 1, 63, 64, 65, 127, 128] {
                let layout = Layout::new(tag_bits, payload_bits);
                assert_eq!(layout.bits().div_ceil(64), layout.words() as u32);
                let of = |x: Block| Target {
                    tag: x & low_bits(tag_bits),
                    payload: x.rotate_left(60) & low_bits(payload_bits),
                };
                for x in [0, Block::MAX, 0x0123_4567_89ab_cdef_1122_3344_5566_7788] {
                    let [low, high] = layout.join(of(x));
                    // Nothing beyond the string's bits.
                    let words = must_cast::<[Block; 2], [u64; 4]>([low, high]);
                    assert!(words[layout.words()..].iter().all(|word| *word == 0));
                    assert!(layout.split([low, high]) == of(x));
                    if layout.bits() < 128 {
                        assert_eq!(low >> layout.bits(), 0);
                        assert!(layout.split([low | 1 << layout.bits(), !high]) == of(x));
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic]
    fn targets_fit_their_layout() {
        Layout::new(40, 64).join(Target {
            tag: 1 << 40,
            payload: 0,
        });
    }
}
