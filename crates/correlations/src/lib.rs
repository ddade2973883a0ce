//! What two parties prepare before anything depends on items: oblivious transfers (OTs) and vector oblivious
//! linear evaluation (VOLE).
#![forbid(unsafe_code)]

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
mod tree;
pub mod vole;
