//! Slow, obvious versions of what the engine does fast. Imports nothing of ours.
#![forbid(unsafe_code)]

pub mod field;
pub mod rijndael;
