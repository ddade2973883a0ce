//! What two parties prepare before anything depends on items: oblivious transfers and vector OLE.
#![forbid(unsafe_code)]

pub mod base_ot;
pub mod choices;
pub mod ideal;
pub mod ot_extension;
