//! Test doubles and helpers that the tests of several crates use. What only one crate needs stays in its tests.
//!
//! - Channels: [`Tape`], [`Recorder`], [`Clocked`], [`pair_within`]; [`vesica_wire::Tamper`] corrupts frames.
//! - Two parties in one process: [`honest`], [`try_both`], [`run_both`].
//! - Inputs: [`rng`], [`Script`], [`items`], [`digests`]; known answers with [`bytes`] and [`array()`].
//! - Runs under fixed seeds: [`with_seed`], [`seeded_fill`], [`recorded_pair`].
//! - What lengths tell: [`told_by_lengths`].
//! - Servers: [`ObjectServer`].
//! - Outcomes: [`misbehaviour`] and what to compare it with ([`unexpected`], [`too_long`], [`wrong_length`],
//!   [`bad_value`]), [`limit`], [`fields`], [`chi_squared`].
//!
//! Of our crates it uses `wire` only, so that the tests of every crate above `wire` can use it.

mod channels;
mod inputs;
mod lengths;
mod objects;
mod outcomes;
mod parties;
mod recording;

pub use channels::{Clocked, Recorder, Tape, clocked_pair, pair_within};
pub use inputs::{Script, array, bytes, digests, items, rng};
pub use lengths::{Lengths, told_by_lengths};
pub use objects::{Answer, ObjectServer, Request};
pub use outcomes::{
    bad_value, chi_squared, fields, limit, misbehaviour, too_long, unexpected, wrong_length,
};
pub use parties::{honest, run_both, try_both};
pub use recording::{Sent, recorded_pair, seeded_fill, with_seed};
