//! Texts and bytes as views of their values, so that rows that share a dictionary entry share its memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, RecordBatch,
    RecordBatchOptions, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::formats::columnar::is_numeric_text;
use crate::guard::catching;
use crate::nested::with_values;

/// A schema whose texts and bytes are views of their values, those in structs, lists and maps too.
pub(crate) fn with_views(schema: &Schema) -> Schema {
    let fields: Fields = schema.fields().iter().map(viewed).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn viewed(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        _ if is_numeric_text(field) => return field.clone(),
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect()),
        DataType::List(values) => DataType::List(viewed(values)),
        DataType::LargeList(values) => DataType::LargeList(viewed(values)),
        DataType::ListView(values) => DataType::ListView(viewed(values)),
        DataType::LargeListView(values) => DataType::LargeListView(viewed(values)),
        DataType::FixedSizeList(values, length) => DataType::FixedSizeList(viewed(values), *length),
        DataType::Map(entries, sorted) => DataType::Map(viewed(entries), *sorted),
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// A batch of [`with_views`] under the schema that was there before.
pub(crate) fn without_views(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| unviewed(column, field.data_type()));
    let wrong = |e: ArrowError| Error::corrupt(e.to_string());
    let columns = catching(|| columns.collect::<Result<_, _>>()).map_err(Error::corrupt)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns.map_err(wrong)?, &options)
        .map_err(wrong)
}

fn unviewed(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(match (array.data_type(), wanted) {
        (DataType::Utf8View, DataType::Utf8) => {
            Arc::new(StringArray::from_iter(array.as_string_view()))
        }
        (DataType::Utf8View, DataType::LargeUtf8) => {
            Arc::new(LargeStringArray::from_iter(array.as_string_view()))
        }
        (DataType::BinaryView, DataType::Binary) => {
            Arc::new(BinaryArray::from_iter(array.as_binary_view()))
        }
        (DataType::BinaryView, DataType::LargeBinary) => {
            Arc::new(LargeBinaryArray::from_iter(array.as_binary_view()))
        }
        (found, wanted) if found == wanted => array.clone(),
        _ => with_values(array, wanted, |values, field| {
            unviewed(values, field.data_type())
        })?,
    })
}
