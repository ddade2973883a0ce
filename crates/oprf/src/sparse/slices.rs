//! The rows in one polynomial, cut into slices: `spot-low`.
//!
//! **Slice and stream** (PRTY19, section 5.2): slice j of the rows has its own polynomial over a field that
//! is a quarter as wide. It is sent as soon as it is known, so that the sender evaluates one slice while the
//! receiver interpolates the next. **Tree reuse**: what depends only on the points, above all the subproduct
//! tree, is computed once for all slices, on either side.

use rand_core::CryptoRng;
use vesica_primitives::parallel;
use vesica_primitives::polynomial::{Evaluator, Gf2k, Interpolator};
use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, Frames, Kind, Limit, Misbehaviour, recv_rows, send_rows};

use super::rows::Row;
use super::strings::{self, GROUP, SLICES, add_slice, slice_of};
use super::{Message, Points};
use crate::{Item, Params, Spec, bytes, halves, sparse};

/// Frames with coefficients of a slice.
pub const SLICE: Kind = Kind {
    code: 62,
    name: "polynomial",
};

static SPEC: Spec = Spec {
    security: Security::MaliciousSender,
    cheaper: Some(Security::SemiHonest),
    ..sparse::spec::<Slices>(
        "spot-low",
        "PRTY19, figure 5",
        // 2.9 GB for the tree.
        1 << 22,
        // The tree takes 32·n·log₂ n bytes for n items. Measured at 2^10 and 2^20 items.
        |receiver_size, sender_size| {
            let largest = receiver_size.max(sender_size);
            let log = u64::from(largest.max(2).next_power_of_two().trailing_zeros());
            bytes(largest, 260 + 32 * log)
        },
    )
};

/// A message that is a polynomial.
pub struct Slices {
    bits: usize,
    coefficients: usize,
}

impl Slices {
    fn points(items: &[Item]) -> Points<()> {
        Points {
            points: parallel::map_items(items, |item| halves(item)[0]),
            numbers: (0..items.len() as u32).collect(),
            layout: (),
        }
    }

    /// The points as elements of the field. They have enough bits that a side's own points differ, and avoid
    /// those of the transform, except with probability 2^-λ.
    fn elements(&self, points: &Points<()>) -> Vec<u128> {
        let mask = u128::MAX >> (128 - self.bits);
        points.points.iter().map(|point| point & mask).collect()
    }
}

/// The error for two equal points of a set, or one on a point of a transform.
pub(super) fn unlucky(error: vesica_primitives::polynomial::Error) -> Error {
    Error::limit(Limit::Encoding, error)
}

/// Receives `count` strings of `bits` bits.
pub(super) fn recv_strings(
    channel: &mut dyn Channel,
    kind: Kind,
    bits: usize,
    count: usize,
) -> Result<Vec<u128>, Error> {
    let groups = count.div_ceil(GROUP);
    let mut all = Vec::with_capacity(groups * GROUP);
    recv_rows(channel, kind, bits, groups, |bytes| {
        strings::unpack(bytes, bits, &mut all);
        Ok(())
    })?;
    if all[count..].iter().any(|string| *string != 0) {
        return Err(Misbehaviour::BadValue {
            what: kind.name,
            problem: "bits behind its end",
        }
        .into());
    }
    all.truncate(count);
    Ok(all)
}

impl Message for Slices {
    const POINTS: usize = 1;

    const KEEPS_ORDER: bool = true;

    fn spec() -> &'static Spec {
        &SPEC
    }

    type Layout = ();

    fn new(params: &Params, width: usize) -> Self {
        Slices {
            bits: strings::bits(width),
            coefficients: params.receiver_size,
        }
    }

    fn columns(&self) -> usize {
        SLICES * self.bits
    }

    fn frames(&self) -> Frames {
        strings::frames(self.bits, self.coefficients)
    }

    fn receiver_points(&self, items: &[Item]) -> Result<Points<()>, Error> {
        Ok(Self::points(items))
    }

    fn sender_points(&self, items: &[Item]) -> Points<()> {
        Self::points(items)
    }

    fn write(
        &self,
        channel: &mut dyn Channel,
        points: &Points<()>,
        rows: &[Row],
        _: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let field = Gf2k::new(self.bits as u32);
        let interpolator = Interpolator::new(&field, &self.elements(points)).map_err(unlucky)?;
        for slice in 0..SLICES {
            let values = parallel::map_items(rows, |row| slice_of(row, slice, self.bits));
            let coefficients = interpolator.interpolate(&values);
            let bytes = strings::pack(&coefficients, self.bits);
            send_rows(channel, SLICE, &bytes, self.bits)?;
            channel.progress(slice as u64 + 1, SLICES as u64);
        }
        Ok(())
    }

    fn read(
        &self,
        channel: &mut dyn Channel,
        points: &Points<()>,
        s: &Row,
        rows: &mut [Row],
    ) -> Result<(), Error> {
        let field = Gf2k::new(self.bits as u32);
        let elements = self.elements(points);
        let evaluator = Evaluator::new(&field, &elements, self.coefficients).map_err(unlucky)?;
        for slice in 0..SLICES {
            let coefficients = recv_strings(channel, SLICE, self.bits, self.coefficients)?;
            let values = evaluator.evaluate(&coefficients);
            parallel::each_item(rows, |i, row| {
                add_slice(row, s, slice, self.bits, values[i]);
            });
            channel.progress(slice as u64 + 1, SLICES as u64);
        }
        Ok(())
    }
}
