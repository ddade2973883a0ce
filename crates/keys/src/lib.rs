//! The keys of a table as a run works on them: one store of digests, with the numbers, values and labels that go with
//! them, and the way back from keys to rows.
//!
//! ```text
//!  rows ─▶ Gather ─full─▶ sorted runs ─finish─▶ KeyStore ─split─▶ buckets: load ─▶ KeyBlock ─(protocol)─▶ mark, keep ─▶ rows
//! ```
//!
//! What does not fit into memory goes to encrypted files without names; a store in memory is one that has not been written.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod ascending;
mod blob;
mod block;
mod bucket_file;
mod buckets;
mod by_row;
mod columns;
mod digests;
mod error;
mod gather;
mod groups;
mod identity;
mod layout;
mod mix;
mod order;
mod repeated;
mod rows;
mod runs;
mod store;
mod strings;

pub use blob::{Blob, TAG};
pub use block::KeyBlock;
pub use bucket_file::BucketFile;
pub use digests::{DigestSet, Distinct, SetHash, sort_digests};
pub use error::{Error, Result};
pub use gather::{Gather, KeyBytes, Record};
pub use layout::{Column, Labels, Layout};
pub use order::{CommonOrder, Numbered, Parts};
pub use repeated::{Frequent, Repeated};
pub use rows::RowSet;
pub use store::{Counts, KeyStore, NO_ITEM};
