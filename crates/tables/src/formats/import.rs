//! Record batches from another library, such as a data frame's.

use arrow_array::{Array, RecordBatch, RecordBatchReader};
use vesica_files::catching;

use crate::error::{Error, ErrorKind, Result};
use crate::formats::fields;
use crate::profile::key::KeySpec;
use crate::source::Source;
use crate::source::options::SourceOptions;
use crate::types::columns_read::ColumnsRead;
use crate::types::number::ValueColumn;

/// A table of the record batches of a reader, which is read to its end and kept as it is. `name` is what errors call
/// it.
///
/// The columns of `key` and `values` are found before the first batch is read. Each column is validated: offsets,
/// UTF-8, dictionary keys.
///
/// # Errors
/// Data: no such columns, or of types that are no keys or values; the reader fails; a batch is damaged.
pub fn import_batches(
    name: &str,
    reader: &mut dyn RecordBatchReader,
    key: &KeySpec,
    values: &[ValueColumn],
    options: &SourceOptions,
) -> Result<Source> {
    let mut read = || -> Result<Source> {
        let schema = reader.schema();
        let result = options.result_rows();
        let wanted = ColumnsRead::new(key, values, result.added()).with_chosen(result.columns);
        fields::find_fields(schema.fields(), wanted)?;
        let mut batches = Vec::new();
        while let Some(batch) = catching(|| reader.next()).map_err(unreadable)? {
            let batch = batch.map_err(unreadable)?;
            validate(&batch)?;
            batches.push(batch);
        }
        Source::from_batches(name, schema, batches, options)
    };
    read().map_err(|e| e.in_path(name))
}

fn unreadable(e: impl ToString) -> Error {
    Error::new(ErrorKind::Unreadable(std::io::Error::other(e.to_string())))
}

fn validate(batch: &RecordBatch) -> Result<()> {
    for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        column
            .to_data()
            .validate_full()
            .map_err(|e| Error::corrupt(format!("column {:?}: {e}", field.name())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatchIterator, StringArray};
    use arrow_schema::ArrowError;

    use super::*;
    use crate::error::ErrorClass;
    use crate::{RowSet, read_keys, select_rows};

    fn batch(mails: Vec<&str>) -> RecordBatch {
        let numbers = Int64Array::from_iter_values(0..mails.len() as i64);
        let columns: [(&str, ArrayRef); 2] = [
            ("n", Arc::new(numbers)),
            ("mail", Arc::new(StringArray::from(mails))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn import(
        batches: Vec<std::result::Result<RecordBatch, ArrowError>>,
        key: &str,
    ) -> Result<Source> {
        let mut reader = RecordBatchIterator::new(batches, batch(vec![]).schema());
        let key = KeySpec::parse::<&str>(key, &[])?;
        let options = SourceOptions::default();
        import_batches("frame", &mut reader, &key, &[], &options)
    }

    #[test]
    fn all_batches_are_one_table() {
        let batches = vec![Ok(batch(vec!["a", "b"])), Ok(batch(vec!["c"]))];
        let source = import(batches, "mail").unwrap();
        let key = KeySpec::parse::<&str>("mail", &[]).unwrap();
        assert_eq!(read_keys(&source, &key).unwrap().counts().items, 3);
        let mut rows = RowSet::none(3);
        rows.insert(2);
        assert_eq!(select_rows(&source, &rows).unwrap().1, [batch(vec!["c"])]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let fail = |batches, key| {
            let error = import(batches, key).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Data);
            error.to_string()
        };
        // The columns are looked for first: this reader would fail too.
        let broken = || {
            Err(ArrowError::IoError(
                "gone".into(),
                std::io::ErrorKind::Other.into(),
            ))
        };
        assert_eq!(
            fail(vec![broken()], "male"),
            "frame: no column is called \"male\""
        );
        assert!(fail(vec![broken()], "mail").starts_with("frame: cannot be read: "));
    }
}
