//! A hint as polynomials through the points and their targets under their pads.
//!
//! B. Pinkas, T. Schneider, O. Tkachenko, A. Yanai, *Efficient Circuit-Based PSI with Linear Communication*, EUROCRYPT
//! 2019 (PSTY19), section 4.2: the baseline that CGS22 and LTSXQ26 measure against. What a point's polynomial has as
//! its value is uniform for the receiver except where it holds the key, where the target is uniform; so all
//! coefficients are.
//!
//! Points go to groups by a hash of their keys, and a group has one polynomial of as many coefficients as the fullest
//! group may have points; random points with random values fill up the others. The paper has groups of consecutive
//! bins, of about 2^10 points. Here they have up to 2^12, so that an eighth of the hint is filling.
//!
//! **λ.** Half of the event's share is for a group that is too full ([`load::fullest`]), the other half for two equal
//! points in a group or a point among those of the transform, by the width of the field, which is also at least that of
//! a string. Longer strings than 128 bits take two polynomials.

use rand_core::CryptoRng;
use vesica_encodings::EncodingFailed;
use vesica_oprf::programmable::{Hint, Key, Pads, Program, Queries, Shape, Strings, slots};
use vesica_oprf::{Output, halves};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::load;
use vesica_primitives::parallel;
use vesica_primitives::polynomial::{Evaluator, Gf2k, Interpolator};
use vesica_wire::{Channel, Error, Frames, Kind, Limit};
use zeroize::Zeroizing;

/// Frames with coefficients.
pub const POLYNOMIALS: Kind = Kind {
    code: 95,
    name: "polynomial hint",
};

/// Log₂ of the maximum number of points in a group.
const LOG_CAPACITY: u32 = 12;

/// Least bits of a field element.
const MIN_BITS: u32 = 65;

/// ⌈log₂⌉ of a number; 0 for 0.
fn log_up(number: u64) -> u32 {
    number.max(1).next_power_of_two().ilog2()
}

/// One polynomial for each group of points, or two.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolynomialHint;

/// The polynomials of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    groups: usize,
    /// Points of a group, random ones included, and coefficients of a polynomial.
    capacity: usize,
    /// Polynomials of a group.
    slices: usize,
    /// Bits of a coefficient.
    bits: u32,
}

/// Numbers of groups, and of points in each, for a probability of 2^-`lambda` that one has more.
fn groups(points: u64, lambda: u32) -> (u64, u64) {
    let most = 1 << LOG_CAPACITY;
    if points <= most {
        return (1, points.max(1));
    }
    let fullest = |groups: u64| load::fullest(points, 1, groups, lambda + log_up(groups));
    let (mut few, mut enough) = (points / most, 2 * points / most + 2);
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        match fullest(middle) <= most {
            true => enough = middle,
            false => few = middle,
        }
    }
    (enough, fullest(enough))
}

/// Bits of a field in which points are distinct, and not among the transform's own, with probability 1 − 2^-`lambda`.
/// In a group of at most c points the latter are at most c, and pairs of points are c²/2.
fn bits_against_collisions(shape: &Shape, points: u64, lambda: u32) -> u32 {
    let asked = points.saturating_add(shape.params.receiver_size as u64);
    lambda + 1 + log_up(asked) + LOG_CAPACITY
}

impl Layout {
    fn new(shape: &Shape, string_bits: u32) -> Self {
        let lambda = shape.split.hint + 1;
        let (groups, capacity) = groups(shape.params.sender_size as u64, lambda);
        let slices = string_bits.div_ceil(Block::BITS);
        let collisions = bits_against_collisions(shape, groups * capacity, lambda);
        Layout {
            groups: groups as usize,
            capacity: capacity as usize,
            slices: slices as usize,
            bits: MIN_BITS.max(collisions).max(string_bits.div_ceil(slices)),
        }
    }

    fn coefficients(&self) -> usize {
        self.groups * self.slices * self.capacity
    }

    fn group(&self, key: &Key) -> usize {
        let [_, second] = halves(key);
        (((second >> 64) * self.groups as Block) >> 64) as usize
    }

    fn point(&self, key: &Key) -> Block {
        self.low(halves(key)[0])
    }

    /// The lowest bits of a block, as many as a field element has.
    fn low(&self, block: Block) -> Block {
        (block << (Block::BITS - self.bits)) >> (Block::BITS - self.bits)
    }

    /// The numbers of the keys of each group.
    fn members(&self, keys: &[Key]) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.groups];
        for (number, key) in (0..).zip(keys) {
            members[self.group(key)].push(number);
        }
        members
    }

    /// A slice of a string, of which all 256 bits are under a pad.
    fn slice(&self, string: &[u64; 4], slice: usize) -> Block {
        let [low, high]: [Block; 2] = bytemuck::must_cast(*string);
        self.low(match slice {
            0 => low,
            _ => low.checked_shr(self.bits).unwrap_or(0) | (high << (Block::BITS - self.bits)),
        })
    }

    /// The string of two slices.
    fn join(&self, [first, second]: [Block; 2]) -> [u64; 4] {
        let above = second.checked_shl(self.bits).unwrap_or(0);
        bytemuck::must_cast([first | above, second >> (Block::BITS - self.bits)])
    }

    /// The coefficients of a group: one polynomial after the other.
    fn interpolate(
        &self,
        field: &Gf2k,
        keys: impl ExactSizeIterator<Item = (Key, [u64; 4])>,
        filler: &mut Prg,
    ) -> Result<Vec<Block>, EncodingFailed> {
        if keys.len() > self.capacity {
            return Err(EncodingFailed);
        }
        let (mut points, mut values) = (Vec::new(), vec![Vec::new(); self.slices]);
        for (key, string) in keys {
            points.push(self.point(&key));
            for (slice, values) in values.iter_mut().enumerate() {
                values.push(self.slice(&string, slice));
            }
        }
        for column in values.iter_mut().chain([&mut points]) {
            let given = column.len();
            column.resize(self.capacity, 0);
            filler.fill(&mut column[given..]);
            column[given..]
                .iter_mut()
                .for_each(|block| *block = self.low(*block));
        }
        let interpolator = Interpolator::new(field, &points).map_err(|_| EncodingFailed)?;
        let polynomials = values.iter().map(|values| interpolator.interpolate(values));
        Ok(polynomials.collect::<Vec<_>>().concat())
    }

    /// The values of a group's polynomials at the points of keys.
    fn evaluate(
        &self,
        field: &Gf2k,
        keys: impl Iterator<Item = Key>,
        coefficients: &[[u64; 2]],
    ) -> Result<Vec<[u64; 4]>, EncodingFailed> {
        let points: Vec<Block> = keys.map(|key| self.point(&key)).collect();
        let evaluator =
            Evaluator::new(field, &points, self.capacity).map_err(|_| EncodingFailed)?;
        let mut strings = vec![[0; 2]; points.len()];
        for (slice, polynomial) in coefficients.chunks_exact(self.capacity).enumerate() {
            let polynomial: Vec<Block> =
                polynomial.iter().map(|c| bytemuck::must_cast(*c)).collect();
            for (string, value) in strings.iter_mut().zip(evaluator.evaluate(&polynomial)) {
                string[slice] = value;
            }
        }
        Ok(strings
            .into_iter()
            .map(|slices| self.join(slices))
            .collect())
    }
}

impl Hint for PolynomialHint {
    const CANDIDATES: usize = 1;

    fn bits(&self, shape: &Shape, string_bits: u32) -> u64 {
        let layout = Layout::new(shape, string_bits);
        layout.coefficients() as u64 * u64::from(layout.bits)
    }

    fn frames(&self, shape: &Shape, string_bits: u32) -> Frames {
        let layout = Layout::new(shape, string_bits);
        slots::frames(layout.coefficients(), layout.bits)
    }

    /// The sender has hidden targets, numbers by group and coefficients, the receiver the latter two and strings.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64 {
        let coefficients = 16 * Layout::new(shape, string_bits).coefficients() as u64;
        let sender = 84 * shape.params.sender_size as u64 + 2 * coefficients;
        let queries = 148 * shape.params.receiver_size as u64;
        sender.max(queries + coefficients + 32 * shape.bins as u64)
    }

    fn max_lambda_each(&self, shape: &Shape) -> u32 {
        // Groups have room for twice the points at most.
        let points = (shape.params.sender_size as u64).saturating_mul(2) + (1 << LOG_CAPACITY);
        Block::BITS.saturating_sub(bits_against_collisions(shape, points, 1))
    }

    fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        program: &Program<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let layout = Layout::new(shape, program.layout.bits());
        // Whatever is not a string's stays under its pad, so that it looks like the value at any other point.
        let hidden = Zeroizing::new(Pads::new(shape, program.part).hide::<4>(program, |_| 0));
        let (keys, field) = (program.points.keys(), Gf2k::new(layout.bits));
        let mut seeds = vec![0; layout.groups];
        Prg::random(rng).fill(&mut seeds);
        let members = layout.members(keys);
        let polynomials = parallel::map(members.iter().zip(seeds), |(members, seed)| {
            let members = members.iter().map(|number| *number as usize);
            let points = members.map(|point| (keys[point], hidden[point]));
            layout.interpolate(&field, points, &mut Prg::new(seed))
        });
        let polynomials: Result<Vec<_>, EncodingFailed> = polynomials.into_iter().collect();
        let polynomials = polynomials.map_err(|e| Error::limit(Limit::Encoding, e))?;
        let mut coefficients = polynomials.iter().flatten();
        slots::send(
            channel,
            POLYNOMIALS,
            layout.coefficients(),
            layout.bits,
            |_, to| {
                for (to, coefficient) in to.iter_mut().zip(&mut coefficients) {
                    *to = bytemuck::must_cast::<Block, [u64; 2]>(*coefficient);
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
        let layout = Layout::new(shape, strings.layout().bits());
        let coefficients =
            slots::recv::<2>(channel, POLYNOMIALS, layout.coefficients(), layout.bits)?;
        let (keys, field) = (queries.keys(), Gf2k::new(layout.bits));
        let members = layout.members(keys);
        let of_group = layout.slices * layout.capacity;
        let groups = members.iter().zip(coefficients.chunks_exact(of_group));
        let values = parallel::map(groups, |(members, coefficients)| {
            let keys = members.iter().map(|number| keys[*number as usize]);
            layout.evaluate(&field, keys, coefficients)
        });
        let values: Result<Vec<_>, EncodingFailed> = values.into_iter().collect();
        let values = values.map_err(|e| Error::limit(Limit::Encoding, e))?;
        let mut decoded = Zeroizing::new(vec![[0; 4]; queries.len()]);
        for (number, value) in members.iter().flatten().zip(values.iter().flatten()) {
            decoded[*number as usize] = *value;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_oprf::Params;
    use vesica_oprf::programmable::Split;
    use vesica_primitives::security::KeyAgreement;
    use vesica_reference::gf2k as reference;
    use vesica_testing::{items, rng};

    fn shape(points: usize, lambda: u32) -> Shape {
        Shape {
            params: Params {
                security: vesica_primitives::security::Security::SemiHonest,
                lambda,
                receiver_size: points,
                sender_size: points,
                key_agreement: KeyAgreement::default(),
                session: [1; 32],
            },
            bins: points.max(3),
            payload_bits: 0,
            split: Split {
                oprf: lambda + 2,
                hint: lambda + 2,
                tag_bits: lambda + 2,
            },
        }
    }

    /// Groups hold the points with little to spare, and bits suffice by the union bound.
    #[test]
    fn layouts_meet_their_bounds() {
        for points in [0, 1, 4096, 4097, 5000, 20_000, 3 << 16, 3 << 20, 3 << 26] {
            for lambda in [20, 40, 64] {
                let shape = shape(points, lambda);
                for string_bits in [43, 63, 127, 128, 129, 256] {
                    let layout = Layout::new(&shape, string_bits);
                    let Layout {
                        groups,
                        capacity,
                        slices,
                        bits,
                    } = layout;
                    assert!(capacity <= 1 << LOG_CAPACITY && groups * capacity >= points);
                    assert!(points < 20_000 || groups * capacity < points * 5 / 4);
                    assert!(groups * capacity <= 2 * points + (1 << LOG_CAPACITY));
                    assert!(
                        (MIN_BITS..=128).contains(&bits) && slices as u32 * bits >= string_bits
                    );
                    let all = (groups * capacity) as f64;
                    let pairs = all * capacity as f64 / 2.0;
                    let reserved = (all + points as f64) * capacity as f64;
                    let chance = (pairs + reserved).log2() - f64::from(bits);
                    assert!(chance <= -f64::from(shape.split.hint + 1), "{layout:?}");
                }
            }
            let shape = shape(
                points,
                PolynomialHint.max_lambda_each(&shape(points, 1)) - 2,
            );
            assert!(Layout::new(&shape, 64).bits <= 128);
        }
    }

    /// The polynomials are those of the slow field through the strings, and slices make strings again.
    #[test]
    fn polynomials_are_the_references() {
        let keys = items(1, 40);
        for string_bits in [60, 127, 200] {
            let layout = Layout::new(&shape(50, 40), string_bits);
            let (fast, slow) = (Gf2k::new(layout.bits), reference::Field::new(layout.bits));
            let strings: Vec<[u64; 4]> = items(2, 40)
                .iter()
                .map(|item| bytemuck::must_cast(*item))
                .collect();
            let pairs = keys.iter().copied().zip(strings.iter().copied());
            let coefficients = layout
                .interpolate(
                    &fast,
                    pairs.collect::<Vec<_>>().into_iter(),
                    &mut Prg::random(&mut rng(3)),
                )
                .unwrap();
            assert_eq!(coefficients.len(), layout.slices * 50);
            let words: Vec<[u64; 2]> = coefficients
                .iter()
                .map(|c| bytemuck::must_cast(*c))
                .collect();
            let asked = [&keys[..], &items(4, 20)].concat();
            let found = layout
                .evaluate(&fast, asked.iter().copied(), &words)
                .unwrap();
            for (i, (key, found)) in asked.iter().zip(&found).enumerate() {
                for (slice, polynomial) in coefficients.chunks(50).enumerate() {
                    let value = slow.evaluate(polynomial, layout.point(key));
                    assert_eq!(layout.slice(found, slice), value);
                    assert!(i >= 40 || value == layout.slice(&strings[i], slice));
                }
            }
        }
    }

    #[test]
    fn a_group_that_is_too_full_is_an_error() {
        let layout = Layout::new(&shape(3, 40), 60);
        let field = Gf2k::new(layout.bits);
        let interpolate = |keys: &[Key]| {
            let keys = keys.iter().map(|key| (*key, [5; 4]));
            layout.interpolate(&field, keys, &mut Prg::new(1))
        };
        assert!(interpolate(&items(1, 3)).is_ok());
        assert_eq!(interpolate(&items(1, 4)), Err(EncodingFailed));
        assert_eq!(interpolate(&[[9; 32]; 2]), Err(EncodingFailed));
    }
}
