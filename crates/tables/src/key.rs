//! Which columns make a key.

use crate::error::Result;
use crate::profile::Profile;

/// One column of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The column's name, exactly as in the table.
    pub name: String,
    /// How its values are normalised.
    pub profile: Profile,
}

/// The columns whose values together identify a row. The order matters: both parties must
/// name corresponding columns in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    columns: Vec<KeyColumn>,
}

impl KeySpec {
    /// A key of the given columns.
    ///
    /// # Errors
    /// No column, an empty name, or a name given twice.
    pub fn new(_columns: Vec<KeyColumn>) -> Result<Self> {
        todo!()
    }

    /// From the command line: `key` is `COL[,COL…]`, each of `normalize` is `COL=PROFILE`.
    ///
    /// # Errors
    /// As [`KeySpec::new`]; a profile that does not exist; a normalised column that is not part
    /// of the key or is named twice.
    pub fn parse<S: AsRef<str>>(_key: &str, _normalize: &[S]) -> Result<Self> {
        todo!()
    }

    /// The columns.
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// What the contract says of the key: one profile id a column, in order.
    pub fn normalization(&self) -> Vec<String> {
        self.columns
            .iter()
            .map(|c| c.profile.id().to_owned())
            .collect()
    }
}
