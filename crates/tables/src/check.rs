//! A dry run.

use crate::error::Result;
use crate::key::KeySpec;
use crate::keys::Counts;
use crate::source::{Format, Source};

/// What a run would see of a table. Serialises to JSON; `Display` is for people, several lines.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Check {
    /// The table's name.
    pub input: String,
    /// Its format.
    pub format: Format,
    /// The counts of the first pass.
    #[serde(flatten)]
    pub counts: Counts,
    /// What may surprise, one line each.
    pub warnings: Vec<String>,
}

/// Reads a table as [`read_keys`](crate::read_keys) would and reports on its keys.
///
/// # Errors
/// The same as those of `read_keys`.
pub fn check(_source: &Source, _key: &KeySpec) -> Result<Check> {
    todo!()
}

impl std::fmt::Display for Check {
    fn fmt(&self, _f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        todo!()
    }
}
