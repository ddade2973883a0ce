//! Tables of every format: their keys, their rows, and what is wrong with them.

mod chosen;
mod cleaning;
mod common;
#[cfg(unix)]
mod conversions;
#[cfg(all(unix, feature = "adbc"))]
mod databases;
mod errors;
mod formats;
mod handed;
mod keys;
mod memory;
#[cfg(unix)]
mod others;
#[cfg(unix)]
mod output;
#[cfg(unix)]
mod possible;
mod rows;
#[cfg(feature = "spreadsheets")]
mod sheets;
mod sources;
mod threads;
mod values;
