//! Texts and bytes as views of their values, so that rows that share a dictionary entry share its memory.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, RecordBatch,
    RecordBatchOptions, StringArray, StructArray,
};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::columnar::is_numeric_text;
use crate::error::{Error, Result};
use crate::guard::catching;

/// A schema whose texts and bytes are views of their values, those in structs too.
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
        _ => return field.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// A batch of [`with_views`] under the schema that was there before.
pub(crate) fn without_views(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| unviewed(column, field.data_type()));
    let columns = catching(|| columns.collect()).map_err(Error::corrupt)?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::corrupt(e.to_string()))
}

fn unviewed(array: &ArrayRef, wanted: &DataType) -> ArrayRef {
    match (array.data_type(), wanted) {
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
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let array = array.as_struct();
            let columns = array.columns().iter().zip(fields);
            let columns = columns.map(|(column, field)| unviewed(column, field.data_type()));
            Arc::new(StructArray::new(
                fields.clone(),
                columns.collect(),
                array.nulls().cloned(),
            ))
        }
        _ => array.clone(),
    }
}
