//! What two parties prepare before anything depends on items: oblivious transfers (OTs), vector oblivious linear
//! evaluation (VOLE), and oblivious linear evaluation (OLE); and a store for it.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod base_ot;
mod base_vole;
pub mod bulk;
pub mod choices;
pub mod code;
pub mod cot;
pub mod field;
pub mod ideal;
pub mod lpn;
pub mod ole;
pub mod ot_extension;
pub mod shape;
pub mod silent;
pub mod store;
pub mod subfield;
mod tree;
pub mod vole;
