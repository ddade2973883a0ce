//! Code for measurements and attacks, never run on real data: LTSXQ26 at its published widths, the attack on them, and
//! the choices that its tables compare; answers of lattice OLE that lack a step, and what they give away; known pads
//! under one key; what a stash costs a circuit; and what papers measure or measure against but no protocol here takes:
//! the three-hash OKVS, polynomial hints, circuits on KKRT, digits of other widths, and RT21 with an OKVS.
//!
//! ```text
//! cargo run -p vesica-research --release -- attack --items 2^12
//! cargo run -p vesica-research --release -- attack --items 2^12 --circuit
//! cargo run -p vesica-research --release -- ablate --items 2^16
//! cargo run -p vesica-research --release -- slices --items 2^16
//! cargo run -p vesica-research --release -- stash --items 2^16
//! cargo run -p vesica-research --release -- circuits --items 2^16 --link 272mbps-80ms
//! cargo run -p vesica-research --release -- widths --items 2^20
//! cargo run -p vesica-research --release -- compact --items 2^16
//! cargo run -p vesica-research --release -- ole-hashes --items 2^16
//! cargo run -p vesica-research --release -- paper-width --items 2^20
//! cargo bench -p vesica-research --bench ideas
//! cargo bench -p vesica-research --bench programmable
//! cargo bench -p vesica-research --bench three_hash
//! ```

pub mod attack;
pub mod circuit_attack;
pub mod circuits;
pub mod compact_okvs;
pub mod free_oprf;
pub mod kkrt_batch;
pub mod known_pads;
pub mod lattice;
pub mod narrow_circuit;
pub mod narrow_masks;
pub mod okvs_message;
pub mod ole_hashes;
pub mod paper_width;
pub mod polynomial_hint;
pub mod runs;
pub mod sha256;
pub mod slices;
pub mod three_hash;
pub mod widths;

#[cfg(test)]
mod hint_tests;
