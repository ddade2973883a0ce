//! The second pass: rows of a table on their way to files, writers and tables of databases.

mod background;
#[cfg(feature = "adbc")]
pub(crate) mod ingest;
pub(crate) mod output;
pub(crate) mod peer_table;
pub(crate) mod second_pass;
