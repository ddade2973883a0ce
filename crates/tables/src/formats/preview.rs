//! The first rows of a table, for people.

use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow_schema::DataType;

use super::columnar::each_row;
use super::fields::has_text;
use crate::error::Result;
use crate::profile::canonical::{Row, Value};

/// What stands for a value that has no text, such as a list.
const NO_TEXT: &str = "…";

/// The first rows of these batches, at most `rows` of them, as texts: those that a result in CSV has, but for bytes, which are
/// hexadecimal. A null is `None`. A value of a type that CSV cannot have is `…`.
///
/// # Errors
/// Data: a batch is damaged.
pub fn preview(batches: &[RecordBatch], rows: usize) -> Result<Vec<Vec<Option<String>>>> {
    let mut shown = Vec::new();
    for batch in batches {
        let batch = batch.slice(0, batch.num_rows().min(rows - shown.len()));
        let texts = batch.columns().iter().map(|array| -> ArrayRef {
            match has_text(array.data_type()) {
                true => array.clone(),
                false => new_null_array(&DataType::Null, array.len()),
            }
        });
        let texts: Vec<ArrayRef> = texts.collect();
        let mut row = 0;
        each_row(&texts, batch.num_rows(), |values| {
            let cells = batch.columns().iter().enumerate().map(|(column, array)| {
                let text = text_of(values.value(column));
                text.or_else(|| {
                    (!has_text(array.data_type()) && array.is_valid(row))
                        .then(|| NO_TEXT.to_owned())
                })
            });
            shown.push(cells.collect());
            row += 1;
            Ok(())
        })?;
    }
    Ok(shown)
}

fn text_of(value: Value<'_>) -> Option<String> {
    match value {
        Value::Null | Value::List(_) => None,
        Value::Text(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::Bytes(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        Value::Typed(_, text) => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{BinaryArray, Float64Array, ListArray, StringArray};

    use super::*;

    #[test]
    fn rows_are_texts_over_all_batches() {
        let lists = [Some(vec![Some(1)]), None];
        let columns: [(&str, ArrayRef); 4] = [
            ("text", Arc::new(StringArray::from(vec![Some("é"), None]))),
            (
                "bytes",
                Arc::new(BinaryArray::from(vec![&b"\x00\xff"[..], b""])),
            ),
            ("float", Arc::new(Float64Array::from(vec![7.0, 0.1]))),
            (
                "list",
                Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists)),
            ),
        ];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let first = ["é", "00ff", "7.0", "…"]
            .map(|text| Some(text.to_owned()))
            .to_vec();
        let second = vec![None, Some(String::new()), Some("0.1".to_owned()), None];
        let three = [first.clone(), second, first];
        let batches = [batch.clone(), batch];
        for rows in [0, 1, 3] {
            assert_eq!(preview(&batches, rows).unwrap(), three[..rows]);
        }
        assert_eq!(preview(&batches, 9).unwrap().len(), 4);
    }
}
