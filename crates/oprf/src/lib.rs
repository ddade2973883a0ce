//! Oblivious pseudorandom functions with many points.
//!
//! One run gives the receiver F(y) for each of its items y, and lets the sender compute F(x) for each of
//! its items x. F is fresh in every run. Neither side learns the other's items; what the receiver could
//! learn from F(x) of items that it does not hold is nothing, because those look random.
//!
//! | module | paper | adversary |
//! |---|---|---|
//! | [`compact_dh`] | RT21, figures 4, 5 and 6 | malicious, or semi-honest |
//! | [`dh`] | Huberman, Franklin and Hogg 1999 | semi-honest |
//! | [`vole`] | RS21 and RR22 | malicious, or semi-honest |
#![forbid(unsafe_code)]

pub mod compact_dh;
pub mod dh;
pub mod vole;

/// One item of a set: the salted 256-bit hash of a canonical key.
pub type Item = [u8; 32];

/// F of an item, at full width; the mask exchange shortens it to what its security needs.
pub type Mask = [u8; 32];
