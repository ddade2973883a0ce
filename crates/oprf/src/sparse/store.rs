//! The rows in one oblivious key-value store (OKVS): `sparse-okvs`.

use rand_core::CryptoRng;
use vesica_encodings::Okvs;
use vesica_encodings::random_band::{Arrangement, RandomBand};
use vesica_primitives::block::Prg;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Frames, Kind, Limit, recv_rows, send_rows};

use super::rows::Row;
use super::{EVENTS, MAX_COLUMNS, Message, Points};
use crate::{Item, MAX_SYSTEM, Params, Spec, bytes, halves, sparse};

/// Frames with slots of the OKVS.
pub const STORE: Kind = Kind {
    code: 61,
    name: "store",
};

/// Slots that are sent together.
const SLOTS: usize = 1 << 13;

static SPEC: Spec = sparse::spec::<Store>(
    "sparse-okvs",
    "LTSXQ26, figure 14, at the width of PRTY19",
    1 << 26,
    // A row of 64 bytes per point, the slots of the OKVS on both sides, and on the receiver's a linear system.
    // Measured at 2^10 and 2^20 items.
    |receiver_size, sender_size| {
        let system = bytes(receiver_size.min(MAX_SYSTEM), 140);
        let receiver = bytes(receiver_size, 230).saturating_add(system);
        let sender = bytes(sender_size, 150).saturating_add(bytes(receiver_size, 75));
        receiver.max(sender)
    },
);

/// A message that is an OKVS.
pub struct Store {
    okvs: RandomBand,
    row_bytes: usize,
}

impl Store {
    fn points(&self, items: &[Item]) -> Points<Arrangement> {
        let layout = self.okvs.arrange(items, |item| halves(item)[0]);
        let numbers = layout.numbers().to_vec();
        let points = parallel::map_items(&numbers, |number| halves(&items[*number as usize])[0]);
        Points {
            points,
            numbers,
            layout,
        }
    }
}

impl Message for Store {
    const POINTS: usize = 1;

    fn spec() -> &'static Spec {
        &SPEC
    }

    type Layout = Arrangement;

    fn new(params: &Params, width: usize) -> Self {
        let lambda = params.lambda_each(EVENTS);
        Store {
            okvs: RandomBand::new(params.receiver_size, lambda, &params.session),
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

    fn receiver_points(&self, items: &[Item]) -> Result<Points<Arrangement>, Error> {
        Ok(self.points(items))
    }

    fn sender_points(&self, items: &[Item]) -> Points<Arrangement> {
        self.points(items)
    }

    fn write(
        &self,
        channel: &mut dyn Channel,
        points: &Points<Arrangement>,
        rows: &[Row],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let mut filler = Prg::random(rng);
        let slots = self
            .okvs
            .encode_arranged(&points.layout, &points.points, rows, &mut filler)
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
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

    fn read(
        &self,
        channel: &mut dyn Channel,
        points: &Points<Arrangement>,
        s: &Row,
        rows: &mut [Row],
    ) -> Result<(), Error> {
        let mut slots: Vec<Row> = vec![[0; MAX_COLUMNS / 64]; self.okvs.size()];
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
        let take = |row: &mut Row, value: &Row| {
            for ((row, s), word) in row.iter_mut().zip(s).zip(value) {
                *row ^= s & word;
            }
        };
        self.okvs
            .decode_arranged(&points.layout, &slots, &points.points, rows, take);
        Ok(())
    }
}
