//! KKRT as the OPRF of a circuit: a batch with an instance per bin, as CGS22 has it, where the shipped circuits run the
//! OPRF of `vole` on all keys. Bins without a query have rows on the wire as well.

use rand_core::CryptoRng;
use vesica_oprf::kkrt::{self, Batch, Evaluations, Kkrt, Query};
use vesica_oprf::programmable::{BatchOprf, Key, Points, Queries};
use vesica_oprf::{Oprf, Output, Params, halves};
use vesica_wire::{Channel, Error, Traffic};
use zeroize::Zeroizing;

/// KKRT16, figure 2, on the keys of bins.
#[derive(Clone, Copy, Debug, Default)]
pub struct KkrtBatch;

impl BatchOprf for KkrtBatch {
    fn max_lambda(&self, queries: u64, points: u64) -> u32 {
        let items = points.div_ceil(kkrt::HASHES as u64);
        (Kkrt.spec().max_lambda)(queries, items).unwrap_or(u32::MAX)
    }

    fn bytes(&self, params: &Params, bins: usize) -> u64 {
        Batch::new(params, bins, params.sender_size).bytes()
    }

    fn traffic(&self, params: &Params, bins: usize, traffic: &mut Traffic) {
        Batch::new(params, bins, params.sender_size).traffic(traffic);
    }

    fn working_bytes(&self, queries: u64, points: u64) -> u64 {
        let items = points.div_ceil(kkrt::HASHES as u64);
        (Kkrt.spec().working_bytes)(queries, items)
    }

    fn receive_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        queries: &Queries,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        let mut numbers = vec![u32::MAX; queries.bins()];
        for (number, bin) in (0..).zip(queries.at()) {
            numbers[*bin as usize] = number;
        }
        let query = |bin: usize| queries.keys().get(numbers[bin] as usize).map(query);
        let batch = Batch::new(params, queries.bins(), params.sender_size);
        kkrt::receive_batch(channel, &batch, query, rng).map(Zeroizing::new)
    }

    fn send_batch(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        points: &Points,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        let batch = Batch::new(params, points.bins(), params.sender_size);
        kkrt::send_batch(channel, &batch, &PointsInBins(points), rng).map(Zeroizing::new)
    }
}

/// What a key asks for: it names the hash function already.
fn query(key: &Key) -> Query {
    Query {
        value: halves(key)[1],
        function: 0,
    }
}

struct PointsInBins<'a>(&'a Points);

impl Evaluations for PointsInBins<'_> {
    fn begin(&self, bin: usize) -> usize {
        self.0.begin(bin)
    }

    fn bin_of(&self, place: usize) -> usize {
        self.0.bin_of(place)
    }

    #[inline(always)]
    fn query(&self, place: usize) -> Query {
        query(&self.0.keys()[place])
    }
}
