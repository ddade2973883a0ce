//! The rows of a sparse extension in an OKVS of any kind, with slots of any width.

use std::borrow::Cow;

use rand_core::CryptoRng;
use vesica_encodings::random_band::{Arrangement, RandomBand};
use vesica_encodings::{EncodingFailed, Okvs};
use vesica_oprf::sparse::{EVENTS, MAX_COLUMNS, Message, Points, Row, STORE, Sparse, Store};
use vesica_oprf::{Item, Oprf, Params, Spec, halves};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Frames, Limit, recv_rows, send_rows};

use crate::three_hash::ThreeHash;

/// Slots that are sent together.
const SLOTS: usize = 1 << 13;

/// Points that are decoded together.
const DECODED: usize = 1 << 18;

/// An oblivious key-value store (OKVS), and how to make one.
pub trait ArrangedOkvs: Okvs {
    /// For `items` keys; encoding fails with probability at most 2^-`lambda`.
    fn new(items: usize, lambda: u32, session: &[u8; 32]) -> Self;

    /// An order of items in which it is fast.
    type Arrangement: Sync;

    /// Arranges items by their points; the number of the item at each place comes first.
    fn arranged(&self, items: &[Item]) -> (Vec<u32>, Self::Arrangement);

    /// [`Okvs::encode`] of points that are arranged.
    ///
    /// # Errors
    /// [`EncodingFailed`]
    fn encode_arranged<const W: usize>(
        &self,
        arrangement: &Self::Arrangement,
        points: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed>;

    /// [`Okvs::decode`] of points that are arranged: calls `take` with `rows[i]` and the value of point i.
    fn decode_arranged<const W: usize>(
        &self,
        arrangement: &Self::Arrangement,
        slots: &[[u64; W]],
        points: &[Block],
        rows: &mut [Row],
        take: impl Fn(&mut Row, &[u64; W]) + Sync,
    );
}

impl ArrangedOkvs for RandomBand {
    fn new(items: usize, lambda: u32, session: &[u8; 32]) -> Self {
        RandomBand::new(items, lambda, session)
    }

    type Arrangement = Arrangement;

    fn arranged(&self, items: &[Item]) -> (Vec<u32>, Arrangement) {
        let arrangement = self.arrange(items, |item| halves(item)[0]);
        (arrangement.numbers().to_vec(), arrangement)
    }

    fn encode_arranged<const W: usize>(
        &self,
        arrangement: &Arrangement,
        points: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed> {
        RandomBand::encode_arranged(self, arrangement, points, values, filler)
    }

    fn decode_arranged<const W: usize>(
        &self,
        arrangement: &Arrangement,
        slots: &[[u64; W]],
        points: &[Block],
        rows: &mut [Row],
        take: impl Fn(&mut Row, &[u64; W]) + Sync,
    ) {
        RandomBand::decode_arranged(self, arrangement, slots, points, rows, take);
    }
}

impl ArrangedOkvs for ThreeHash {
    fn new(items: usize, lambda: u32, session: &[u8; 32]) -> Self {
        ThreeHash::new(items, lambda, session)
    }

    /// It arranges for itself.
    type Arrangement = ();

    fn arranged(&self, items: &[Item]) -> (Vec<u32>, ()) {
        ((0..items.len() as u32).collect(), ())
    }

    fn encode_arranged<const W: usize>(
        &self,
        (): &(),
        points: &[Block],
        values: &[[u64; W]],
        filler: &mut Prg,
    ) -> Result<Vec<[u64; W]>, EncodingFailed> {
        self.encode(points, values, filler)
    }

    fn decode_arranged<const W: usize>(
        &self,
        (): &(),
        slots: &[[u64; W]],
        points: &[Block],
        rows: &mut [Row],
        take: impl Fn(&mut Row, &[u64; W]) + Sync,
    ) {
        for (rows, points) in rows.chunks_mut(DECODED).zip(points.chunks(DECODED)) {
            let mut values = vec![[0; W]; points.len()];
            self.decode(slots, points, &mut values);
            rows.iter_mut().zip(&values).for_each(|(r, v)| take(r, v));
        }
    }
}

/// A message that is an OKVS with slots of `W` words, enough for 64·`W` columns.
pub struct OkvsMessage<K = RandomBand, const W: usize = { MAX_COLUMNS / 64 }> {
    okvs: K,
    row_bytes: usize,
}

/// The first words of rows, which hold all that are in use.
fn narrowed<const W: usize>(rows: &[Row]) -> Cow<'_, [[u64; W]]> {
    match W == MAX_COLUMNS / 64 {
        true => Cow::Borrowed(rows.as_flattened().as_chunks().0),
        false => {
            let mut narrow = vec![[0; W]; rows.len()];
            parallel::each_item(&mut narrow, |i, to| to.copy_from_slice(&rows[i][..W]));
            Cow::Owned(narrow)
        }
    }
}

impl<K: ArrangedOkvs, const W: usize> OkvsMessage<K, W> {
    fn points(&self, items: &[Item]) -> Points<K::Arrangement> {
        let (numbers, layout) = self.okvs.arranged(items);
        let points = parallel::map_items(&numbers, |number| halves(&items[*number as usize])[0]);
        Points {
            points,
            numbers,
            layout,
        }
    }

    /// Slots that give row i at point i.
    ///
    /// # Errors
    /// `Resource` if there is no such encoding.
    pub fn encode(
        &self,
        points: &Points<K::Arrangement>,
        rows: &[[u64; W]],
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<[u64; W]>, Error> {
        self.okvs
            .encode_arranged(&points.layout, &points.points, rows, &mut Prg::random(rng))
            .map_err(|e| Error::limit(Limit::Encoding, e))
    }

    /// Sends the slots.
    ///
    /// # Errors
    /// The channel's.
    pub fn send(&self, channel: &mut dyn Channel, slots: &[[u64; W]]) -> Result<(), Error> {
        for (i, slots) in slots.chunks(SLOTS).enumerate() {
            let mut bytes = Vec::with_capacity(slots.len() * self.row_bytes);
            for slot in slots {
                let slot = bytemuck::must_cast_slice::<u64, u8>(slot);
                bytes.extend_from_slice(&slot[..self.row_bytes]);
            }
            send_rows(channel, STORE, &bytes, self.row_bytes)?;
            let done = (i * SLOTS + slots.len()) as u64;
            channel.progress(done, self.okvs.size() as u64);
        }
        Ok(())
    }

    /// What the slots give at each point.
    pub fn decode(&self, slots: &[[u64; W]], points: &[Block]) -> Vec<[u64; W]> {
        let mut decoded = vec![[0; W]; points.len()];
        self.okvs.decode(slots, points, &mut decoded);
        decoded
    }
}

impl<K: ArrangedOkvs, const W: usize> Message for OkvsMessage<K, W> {
    const POINTS: usize = 1;

    /// That of `sparse-okvs`, which it is a variant of.
    fn spec() -> &'static Spec {
        Sparse::<Store>::new().spec()
    }

    type Layout = K::Arrangement;

    fn new(params: &Params, width: usize) -> Self {
        assert!(width <= 64 * W);
        OkvsMessage {
            okvs: K::new(
                params.receiver_size,
                params.lambda_each(EVENTS),
                &params.session,
            ),
            // Whole bytes: a bit that no column fills would be 0 at the receiver's points and random
            // elsewhere.
            row_bytes: width.div_ceil(8),
        }
    }

    fn columns(&self) -> usize {
        8 * self.row_bytes
    }

    fn frames(&self) -> Frames {
        let slots = self.okvs.size();
        Frames {
            payload: (slots * self.row_bytes) as u64,
            count: slots.div_ceil(SLOTS) as u64,
        }
    }

    fn receiver_points(&self, items: &[Item]) -> Result<Points<K::Arrangement>, Error> {
        Ok(self.points(items))
    }

    fn sender_points(&self, items: &[Item]) -> Points<K::Arrangement> {
        self.points(items)
    }

    fn write(
        &self,
        channel: &mut dyn Channel,
        points: &Points<K::Arrangement>,
        rows: &[Row],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let narrow = narrowed(rows);
        let slots = self.encode(points, &narrow, rng)?;
        self.send(channel, &slots)
    }

    fn read(
        &self,
        channel: &mut dyn Channel,
        points: &Points<K::Arrangement>,
        s: &Row,
        rows: &mut [Row],
    ) -> Result<(), Error> {
        let mut slots = vec![[0; W]; self.okvs.size()];
        for slots in slots.chunks_mut(SLOTS) {
            let mut next = 0;
            recv_rows(channel, STORE, self.row_bytes, slots.len(), |bytes| {
                for bytes in bytes.chunks_exact(self.row_bytes) {
                    let slot = bytemuck::must_cast_slice_mut::<u64, u8>(&mut slots[next]);
                    slot[..self.row_bytes].copy_from_slice(bytes);
                    next += 1;
                }
                Ok(())
            })?;
        }
        let take = |row: &mut Row, value: &[u64; W]| {
            for ((row, s), word) in row.iter_mut().zip(s).zip(value) {
                *row ^= s & word;
            }
        };
        self.okvs
            .decode_arranged(&points.layout, &slots, &points.points, rows, take);
        Ok(())
    }
}
