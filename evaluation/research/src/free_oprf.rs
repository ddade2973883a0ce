//! An OPRF that costs nothing and **hides nothing**, to measure and test hints alone.

use rand_core::CryptoRng;
use vesica_oprf::programmable::{BatchOprf, Key, Points, Queries};
use vesica_oprf::{Output, Params, output};
use vesica_wire::{Channel, Error, Traffic};
use zeroize::Zeroizing;

/// Outputs are parts of the keys, which are hashes, and no secret.
#[derive(Clone, Copy, Debug, Default)]
pub struct Free;

fn free(keys: &[Key]) -> Result<Zeroizing<Vec<Output>>, Error> {
    Ok(Zeroizing::new(keys.iter().map(output).collect()))
}

impl BatchOprf for Free {
    fn max_lambda(&self, _: u64, _: u64) -> u32 {
        128
    }

    fn bytes(&self, _: &Params, _: usize) -> u64 {
        0
    }

    fn traffic(&self, _: &Params, _: usize, _: &mut Traffic) {}

    fn working_bytes(&self, _: u64, _: u64) -> u64 {
        0
    }

    fn receive_batch(
        &self,
        _: &mut dyn Channel,
        _: &Params,
        queries: &Queries,
        _: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        free(queries.keys())
    }

    fn send_batch(
        &self,
        _: &mut dyn Channel,
        _: &Params,
        points: &Points,
        _: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        free(points.keys())
    }
}
