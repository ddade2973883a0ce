//! Rows become items, and matching items become rows again.
//!
//! A run reads its table twice. The first pass ([`read_keys`]) keeps a 32-byte digest of every
//! distinct key and, for every row, which key it has; nothing else of the table is held in
//! memory. The protocol then works on the digests. The second pass ([`write_matches`]) copies
//! the rows whose key matched, in the order of the input, with all their columns.
//!
//! ```text
//!  Source ──read_keys──▶ Keys.digests ──(protocol)──▶ matched ──write_matches──▶ Output
//! ```

#![forbid(unsafe_code)]

mod check;
mod columnar;
mod csv;
mod error;
mod guard;
mod ipc;
mod jsonl;
mod key;
mod keys;
mod output;
mod parquet;
mod profile;
mod render;
mod scan;
mod sniff;
mod source;
mod text;
mod value;
mod write;

pub use check::{Check, ColumnCheck, Finding, Repeated, check};
pub use error::{Error, ErrorClass, ErrorKind, Place, Result};
pub use key::{KeyColumn, KeySpec};
pub use keys::{Counts, Keys, read_keys};
pub use output::Output;
pub use profile::{Normalized, Profile, Region};
pub use source::{Format, Source, SourceOptions};
pub use write::{write_matches, write_matches_to};
