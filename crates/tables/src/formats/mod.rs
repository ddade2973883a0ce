//! One file per format: its first pass, which hands key values to a [`Sink`](crate::sink::Sink), and its
//! second, which copies the rows of a [`Selection`](crate::selection::Selection).

mod columnar;
pub(crate) mod csv;
pub(crate) mod ipc;
pub(crate) mod jsonl;
pub(crate) mod parquet;
