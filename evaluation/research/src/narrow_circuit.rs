//! LTSXQ26's circuit PSI over its own masks, at its width. **Broken: never for real data.**
//!
//! **Paper.** *Faster Than Ever: A New Lightweight PSI and Its Variants* (LTSXQ26), figures 16 to 19: figure 14 on the keys
//! of both tables, without its last message, and an OKVS of targets under the masks, for reproducing tables IV to VII.
//!
//! **Adversary.** None. A receiver that follows the protocol finds the sender's items that it can guess, and which of its
//! own match, whatever the circuit reveals: [`circuit_attack`](crate::circuit_attack).
//!
//! **The figure.** The receiver fills empty bins with random keys. The masks' width is that of figure 14 for 3·n_s keys and
//! as many as there are bins; in a circuit λ is that of the OPRF's share, a few bits more than the paper's, which favours
//! the sender. All stages but these two ship.

use std::marker::PhantomData;

use rand_core::CryptoRng;
use vesica_circuit::{Plain, Recipe};
use vesica_encodings::random_band::RandomBand;
use vesica_oprf::programmable::{
    BatchOprf, Hint, Key, OKVS, Pads, Points, Program, Queries, Shape, Strings, slots,
};
use vesica_oprf::sparse::{AesBit, BitFunction, Sparse};
use vesica_oprf::{Oprf, Output, Outputs, Params, halves};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_wire::{Channel, Error, Frames, Limit, Traffic};
use zeroize::Zeroizing;

use crate::okvs_message::{ArrangedOkvs, OkvsMessage};
use crate::paper_width::{Figure, unsafe_paper_width};
use crate::sha256::Sha256Bit;
use crate::three_hash::ThreeHash;

/// F of the keys of all bins, by figure 14 with the OKVS `K` and the bit function `F`.
pub struct NarrowBatch<K, F = AesBit>(PhantomData<fn() -> (K, F)>);

impl<K, F> Default for NarrowBatch<K, F> {
    fn default() -> Self {
        NarrowBatch(PhantomData)
    }
}

/// The parameters of figure 14 on the keys of so many bins.
pub(crate) fn of_bins(params: &Params, bins: usize) -> Params {
    Params {
        receiver_size: bins,
        ..params.clone()
    }
}

/// The keys of all bins, random where there is no query.
pub(crate) fn filled(queries: &Queries, rng: &mut dyn CryptoRng) -> Vec<Key> {
    let mut keys: Vec<Key> = vec![[0; 32]; queries.bins()];
    rng.fill_bytes(keys.as_flattened_mut());
    for (bin, key) in queries.at().iter().zip(queries.keys()) {
        keys[*bin as usize] = *key;
    }
    keys
}

/// The outputs in the order of the keys.
fn in_order(outputs: Outputs) -> Zeroizing<Vec<Output>> {
    let (values, numbers) = outputs.into_short();
    let mut in_order = Zeroizing::new(vec![[0; 2]; values.len()]);
    for (value, number) in values.iter().zip(numbers) {
        in_order[number as usize] = *value;
    }
    in_order
}

impl<K: ArrangedOkvs, F: BitFunction> NarrowBatch<K, F> {
    fn figure_14() -> Sparse<OkvsMessage<K, 2>, F> {
        Sparse::unsafe_width(|params| unsafe_paper_width(Figure::SemiHonest, params))
    }
}

impl<K: ArrangedOkvs, F: BitFunction> BatchOprf for NarrowBatch<K, F> {
    /// Rows have up to 128 bits, and there are at most 1024 bins per query, as few queries and a large λ take.
    fn max_lambda(&self, queries: u64, points: u64) -> u32 {
        let log = |n: u64| n.max(1).next_power_of_two().ilog2();
        118u32.saturating_sub(log(queries) + log(points))
    }

    fn bytes(&self, params: &Params, bins: usize) -> u64 {
        let mut traffic = Traffic::default();
        self.traffic(params, bins, &mut traffic);
        traffic.bytes(vesica_wire::End::Receiver) + traffic.bytes(vesica_wire::End::Sender)
    }

    fn traffic(&self, params: &Params, bins: usize, traffic: &mut Traffic) {
        Self::figure_14().traffic(&of_bins(params, bins), traffic);
    }

    fn working_bytes(&self, queries: u64, points: u64) -> u64 {
        (Self::figure_14().spec().working_bytes)(2 * queries, points)
    }

    fn receive_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        queries: &Queries,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        let params = of_bins(params, queries.bins());
        let keys = filled(queries, rng);
        let outputs = Self::figure_14().receive(channel, &params, &keys, (), rng)?;
        let all = in_order(outputs);
        let asked = queries.at().iter().map(|bin| all[*bin as usize]);
        Ok(Zeroizing::new(asked.collect()))
    }

    fn send_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        points: &Points,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        let params = of_bins(params, points.bins());
        let outputs = Self::figure_14().send(channel, &params, points.keys(), rng)?;
        Ok(in_order(outputs))
    }
}

/// One OKVS of any kind for the targets of all bins, encoded before it is sent.
pub struct WholeOkvsHint<K>(PhantomData<fn() -> K>);

impl<K> Default for WholeOkvsHint<K> {
    fn default() -> Self {
        WholeOkvsHint(PhantomData)
    }
}

impl<K: ArrangedOkvs> WholeOkvsHint<K> {
    /// The OKVS of a run.
    pub(crate) fn okvs(shape: &Shape) -> K {
        let session = Oracle::new("vesica/1 research hint", &shape.params.session).hash(&[]);
        K::new(shape.params.sender_size, shape.split.hint + 1, &session)
    }
}

/// What a key is in the OKVS.
pub(crate) fn point(key: &Key) -> Block {
    halves(key)[0]
}

impl<K: ArrangedOkvs> Hint for WholeOkvsHint<K> {
    const CANDIDATES: usize = 1;

    fn bits(&self, shape: &Shape, string_bits: u32) -> u64 {
        Self::okvs(shape).size() as u64 * u64::from(string_bits)
    }

    fn frames(&self, shape: &Shape, string_bits: u32) -> Frames {
        slots::frames(Self::okvs(shape).size(), string_bits)
    }

    /// The sender has keys, hidden targets, a copy of both and slots, the receiver keys, slots and candidates.
    fn working_bytes(&self, shape: &Shape, string_bits: u32) -> u64 {
        let string = u64::from(string_bits.div_ceil(64)) * 8;
        let slots = Self::okvs(shape).size() as u64 * string;
        let sender = shape.params.sender_size as u64 * (88 + 2 * string) + slots;
        let receiver = shape.params.receiver_size as u64 * (72 + string) + slots;
        sender.max(receiver + 32 * shape.bins as u64)
    }

    /// All pairs of points may have equal halves, with 2^-128 each.
    fn max_lambda_each(&self, shape: &Shape) -> u32 {
        let points = shape.params.sender_size.max(1).next_power_of_two();
        (Block::BITS - 1).saturating_sub(2 * points.ilog2())
    }

    fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        shape: &Shape,
        program: &Program<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error> {
        let okvs = Self::okvs(shape);
        let hidden = Pads::new(shape, program.part).hide::<W>(program, |_| 0);
        let points: Vec<Block> = program.points.keys().iter().map(point).collect();
        let encoding = okvs
            .encode(&points, &hidden, &mut Prg::random(rng))
            .map_err(|e| Error::limit(Limit::Encoding, e))?;
        let bits = program.layout.bits();
        slots::send(channel, OKVS, okvs.size(), bits, |first, to| {
            to.copy_from_slice(&encoding[first..first + to.len()]);
            Ok(())
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
        let okvs = Self::okvs(shape);
        let bits = strings.layout().bits();
        let encoding = slots::recv::<W>(channel, OKVS, okvs.size(), bits)?;
        let points: Vec<Block> = queries.keys().iter().map(point).collect();
        let mut hidden = vec![[0; W]; points.len()];
        okvs.decode(&encoding, &points, &mut hidden);
        let pads = Pads::new(shape, strings.part());
        pads.unhide(queries, outputs, 0, |query| &hidden[query], strings);
        Ok(())
    }
}

/// Declares the circuit with an OKVS, in both of its places, and a bit function.
macro_rules! circuits {
    ($($(#[$doc:meta])* $circuit:ident: $okvs:ty, $bit:ty, $name:literal;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $circuit;

        impl Recipe for $circuit {
            type Oprf = NarrowBatch<$okvs, $bit>;
            type Hint = WholeOkvsHint<$okvs>;
            type Stages = Plain;
            const NAME: &'static str = $name;
            const SOURCE: &'static str = "LTSXQ26, figures 16 to 19, as printed";
        }
    )+ };
}

circuits! {
    /// With a random band and AES.
    BandAes: RandomBand, AesBit, "circuit-narrow-band-aes";
    /// With three hashes and AES.
    ThreeHashAes: ThreeHash, AesBit, "circuit-narrow-three-hash-aes";
    /// With a random band and SHA-256.
    BandSha256: RandomBand, Sha256Bit, "circuit-narrow-band-sha-256";
    /// With three hashes and SHA-256.
    ThreeHashSha256: ThreeHash, Sha256Bit, "circuit-narrow-three-hash-sha-256";
}
