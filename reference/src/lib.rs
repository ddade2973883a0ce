//! Slow, obvious versions of what the other crates do fast. Imports none of our crates.

pub mod base_ot;
pub mod base_ot_lattice;
pub mod bulk;
pub mod compact_dh;
pub mod curve;
pub mod field;
pub mod gf2k;
pub mod opprf;
pub mod ot_extension;
pub mod rijndael;
pub mod silent;
pub mod voprf;
