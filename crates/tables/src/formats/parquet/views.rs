//! Texts and bytes as views of their values, so that rows that share a dictionary entry share its memory.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};

use crate::formats::columnar::is_numeric_text;

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
