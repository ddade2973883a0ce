//! One side publishes its set once, others ask about keys of their own later.
//!
//! [`voprf`] is the oblivious pseudorandom function: the publisher applies it to its own keys, and blindly to those of
//! who asks.
#![forbid(unsafe_code)]

pub mod voprf;
