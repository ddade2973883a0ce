//! From rows to items, and from matching items back to rows.
//!
//! A run reads its table twice. The first pass ([`read_keys`]) keeps a 32-byte digest of every
//! distinct key and, for every row, which key it has; nothing else of the table is held in
//! memory. The protocol then works on the digests. The second pass ([`write_rows`]) copies
//! the rows whose key matched, in the order of the input, with all their columns.
//!
//! ```text
//!  Source ──read_keys──▶ Keys.digests ──(protocol)──▶ matched ──write_rows──▶ Output
//! ```
//!
//! With [`read_keys_within`], the keys of a table that is too large for memory are on disk. Wherever they are, a [`KeyStore`]
//! has them, and hands them out bucket by bucket; the matching rows are a [`RowSet`], one bit per row.
//!
//! ```
//! use vesica_tables::{KeySpec, Source, SourceOptions, read_keys, write_rows_to};
//!
//! let table = b"email,city\nAnn@X.org,Rome\nbob@y.org,Oslo\n".to_vec();
//! let source = Source::from_bytes("people.csv", table, SourceOptions::default())?;
//! let keys = read_keys(&source, &KeySpec::parse("email", &["email=email"])?)?;
//! assert_eq!(keys.digests().len(), 2);
//!
//! let mut rows = Vec::new();
//! write_rows_to(&source, &keys.rows_of(&keys.matched([0])?), &mut rows)?;
//! assert_eq!(rows, b"email,city\nAnn@X.org,Rome\n");
//! # Ok::<(), vesica_tables::Error>(())
//! ```
//!
//! A table may be in several files ([`Source::open_all`]), which are read as one.
//!
//! # When two keys are equal
//!
//! Both parties must turn equal values into equal bytes, whatever their files are. A key value
//! becomes a text, the [`Profile`] of its column normalises that text, and the result's bytes
//! are compared. Under [`Profile::EXACT`] nothing is normalised.
//!
//! | value | its text |
//! |---|---|
//! | text: CSV fields, JSON strings, Parquet and Arrow strings, dictionaries of them | itself, byte for byte; it must be UTF-8 |
//! | integers of any width; JSON integers of any size | decimal digits with `-` if negative: `7`, never `007` or `+7` |
//! | decimals | without zeros at the end: `12.5`; under other profiles than [`Profile::EXACT`] all digits of the declared scale: `12.50` at scale 2 |
//! | booleans | `true`, `false` |
//! | dates | `2024-02-29` |
//! | times of day | `22:13:20`, then `.250`, `.250001` or `.250000001` if there are fractions, whatever the unit |
//! | timestamps | `2023-11-14T22:13:20Z`, fractions as above; with a zone converted to UTC, without one read as UTC |
//! | 16-byte fixed-size binary, marked as UUID or not | `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, lower case |
//! | other bytes | themselves under `exact`; the hexadecimal of 32 bytes under profiles of digests; otherwise they must be UTF-8 text |
//! | null, an absent JSON field, an empty text, and what normalises to nothing | blank: never matches |
//! | floating-point numbers | refused, but under `integer` |
//! | lists, structs, maps, JSON objects and arrays | refused; the fields of structs and objects are named by path |
//!
//! A row may have several identifiers ([`KeySpec::any_of`]): it matches if any of them is the other side's of the same name.
//!
//! So an integer column matches CSV text that is written in the same way, and a timestamp at midnight is not
//! a date. White space around a text counts under `exact`; [`check()`] reports it, and leading zeros. A key
//! of several columns is blank if any of its values is, and invalid if any is invalid under its profile;
//! neither matches, and both are counted.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

// What all rooms use.
mod decimal;
mod error;
mod format;
mod names;

// The rooms. Each uses those before it alone: objects, profile, types, database, source, formats, scan, check, result.
mod check;
#[cfg(feature = "adbc")]
mod database;
mod formats;
mod objects;
mod profile;
mod result;
mod scan;
mod source;
mod types;

pub use arrow_array::RecordBatch;
pub use arrow_schema::SchemaRef;
pub use check::{
    Check, ColumnCheck, Finding, LabelCheck, ShownKey, ShownValue, check, check_within,
};
#[cfg(feature = "adbc")]
pub use database::{AdbcDatabase, Query, database_paths, has_credentials, is_library};
pub use error::{Difference, Error, ErrorKind, Overlap, Place, Result, TextsOf, ValueProblem};
pub use format::Format;
pub use formats::import::import_batches;
pub use formats::preview::preview;
pub use objects::address::{is_address, redacted, shown};
#[cfg(feature = "object-stores")]
pub use objects::store::abort_uploads;
pub use profile::key::{Identifier, KeyColumn, KeySpec, MAX_IDENTIFIERS};
pub use profile::{Normalized, Profile};
#[cfg(feature = "adbc")]
pub use result::ingest::{IngestMode, TargetTable};
pub use result::output::{Destination, Output};
pub use result::peer_table::{PeerTable, put_csv_line};
pub use result::second_pass::{select_rows, write_rows, write_rows_to};
pub use scan::approximate_rows;
pub use scan::counts::Counts;
pub use scan::digests::row_digests;
pub use scan::keys::{TableKeys, layout, read_keys, read_keys_within};
pub use source::compression::Compression;
pub use source::dialect::CsvOptions;
pub use source::encoding::Encoding;
pub use source::options::{Passes, Rows, SourceOptions};
pub use source::paths::{PathKind, Paths};
pub use source::{FileDigest, Source};
pub use types::column_type::{ColumnType, KeyClass};
pub use types::item_rows::ItemRows;
pub use types::labels::TextColumns;
pub use types::number::ValueColumn;
pub use types::peer_columns::{HandedOver, Matched, PeerColumn, arrange, put_label};
pub use vesica_files::{Advice, Argument, ErrorClass, panic_is_caught};
pub use vesica_keys::{
    CommonOrder, DigestSet, Frequent, KeyStore, NO_ITEM, Repeated, RowSet, sort_digests,
};
