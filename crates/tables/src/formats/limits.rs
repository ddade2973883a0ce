//! What results have no room for.

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use crate::error::Result;

/// Values for which a result has no room, although it has for their types.
pub(crate) trait Limits {
    /// Whether there are such values of a type.
    fn concerns(&self, of: &DataType) -> bool;

    /// Fails if there are such values in columns of a result. Data: it names the column.
    fn check(&self, rows: &RecordBatch) -> Result<()>;
}

/// A file takes whatever its format has a type for.
pub(crate) struct Unlimited;

impl Limits for Unlimited {
    fn concerns(&self, _: &DataType) -> bool {
        false
    }

    fn check(&self, _: &RecordBatch) -> Result<()> {
        Ok(())
    }
}
