//! The OKVS of a run: the encoding of the receiver's items, and outputs from what either side decodes.

use rand_core::CryptoRng;
use vesica_encodings::Okvs as _;
use vesica_encodings::random_band::{Arrangement, RandomBand};
use vesica_kernels::prefetch;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_wire::{Error, Limit};
use zeroize::Zeroizing;

use super::Value;
use crate::coin::Coin;
use crate::{Item, Output, Outputs, halves};

/// Items whose values are processed together.
const BATCH: usize = 1 << 10;

/// Items whose memory is prefetched.
const AHEAD: usize = 16;

/// The OKVS, and this side's items in the order that suits it.
pub(super) struct ArrangedOkvs {
    okvs: RandomBand,
    arrangement: Arrangement,
    /// First halves of the items.
    keys: Vec<Block>,
    /// Second halves: H of the items.
    values: Vec<Block>,
}

impl ArrangedOkvs {
    pub(super) fn new(okvs: RandomBand, items: &[Item]) -> Self {
        let arrangement = okvs.arrange(items, |item| halves(item)[0]);
        let numbers = arrangement.numbers();
        let [mut keys, mut values] = [(); 2].map(|()| vec![0; numbers.len()]);
        let batches = keys.chunks_mut(BATCH).zip(values.chunks_mut(BATCH));
        parallel::each(batches.enumerate(), |(batch, (keys, values))| {
            for (i, (key, value)) in (batch * BATCH..).zip(keys.iter_mut().zip(values)) {
                if let Some(later) = numbers.get(i + AHEAD) {
                    prefetch(items, *later as usize);
                }
                [*key, *value] = halves(&items[numbers[i] as usize]);
            }
        });
        ArrangedOkvs {
            okvs,
            arrangement,
            keys,
            values,
        }
    }

    /// Number of slots of the encoding.
    pub(super) fn slots(&self) -> usize {
        self.okvs.size()
    }

    /// Step 2: P, the encoding of y ↦ H(y).
    ///
    /// # Errors
    /// `Resource` if the items cannot be encoded.
    pub(super) fn encode<F: Value<W>, const W: usize>(
        &self,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<[u64; W]>, Error> {
        let values = F::words_of(&self.values);
        let mut filler = Prg::random(rng);
        self.okvs
            .encode_arranged(&self.arrangement, &self.keys, &values, &mut filler)
            .map_err(|e| Error::limit(Limit::Encoding, e))
    }

    /// Steps 3 and 4: Decode(K, x) or Decode(C, y) for every item.
    pub(super) fn decode(&self, slots: &[Block]) -> Vec<Output> {
        let mut decoded = vec![[0; 2]; self.keys.len()];
        self.okvs.decode_arranged(
            &self.arrangement,
            bytemuck::must_cast_slice::<Block, [u64; 2]>(slots),
            &self.keys,
            &mut decoded,
            |to, value| *to = *value,
        );
        decoded
    }

    /// Step 3: takes Δ·H(x) from what is decoded for each item x.
    pub(super) fn subtract<F: Value<W>, const W: usize>(
        &self,
        delta: Block,
        decoded: &mut [Output],
    ) {
        let batches = decoded.chunks_mut(BATCH).zip(self.values.chunks(BATCH));
        parallel::each(batches, |(decoded, values)| {
            let values: Vec<F> = values.iter().map(|v| F::from_block(*v)).collect();
            let mut product = Zeroizing::new(vec![0; values.len()]);
            F::add_scaled(&mut product, delta, &values);
            for (decoded, product) in decoded.iter_mut().zip(product.iter()) {
                decoded[0] ^= *product as u64;
                decoded[1] ^= (*product >> 64) as u64;
            }
        });
    }

    /// Steps 3 and 4: H′ for every item, of the coin, the decoded value and the item.
    pub(super) fn outputs(self, oracle: &Oracle, coin: &Coin, mut decoded: Vec<Output>) -> Outputs {
        let coin = Block::from_le_bytes(*coin);
        let items = self.keys.chunks(BATCH).zip(self.values.chunks(BATCH));
        let batches = decoded.chunks_mut(BATCH).zip(items);
        parallel::each(batches, |(decoded, (keys, values))| {
            hash(oracle, coin, keys, values, decoded);
        });
        Outputs::Short {
            values: decoded,
            numbers: self.arrangement.into_numbers(),
        }
    }
}

/// H′ for a batch of items, from their decoded values, in place.
fn hash(oracle: &Oracle, coin: Block, keys: &[Block], values: &[Block], decoded: &mut [Output]) {
    let mut inputs = Zeroizing::new([[0; 4]; BATCH]);
    let mut hashes = [[0; 32]; BATCH];
    let items = keys.iter().zip(values);
    for ((input, decoded), (key, value)) in inputs.iter_mut().zip(&*decoded).zip(items) {
        let decoded = bytemuck::must_cast::<Output, Block>(*decoded);
        *input = [coin, decoded, *key, *value];
    }
    let bytes = bytemuck::must_cast_slice::<[Block; 4], [u8; 64]>(&*inputs);
    oracle.hash_many(&bytes[..keys.len()], &mut hashes[..keys.len()]);
    for (output, hash) in decoded.iter_mut().zip(&hashes) {
        *output = crate::output(hash);
    }
}
