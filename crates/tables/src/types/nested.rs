//! The values in structs, lists and maps.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, UInt64Array, make_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use arrow_select::take::take;

/// The array without the bytes that only other arrays view. Lists that are views themselves stay as they are.
pub(crate) fn compacted(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let of_values =
        |array: &ArrayRef| with_values(array, array.data_type(), |values, _| compacted(values));
    match array.data_type() {
        DataType::Utf8View => Ok(Arc::new(array.as_string_view().gc())),
        DataType::BinaryView => Ok(Arc::new(array.as_binary_view().gc())),
        DataType::Struct(_) | DataType::FixedSizeList(..) => of_values(array),
        DataType::List(_) | DataType::LargeList(_) | DataType::Map(..) => {
            // A slice has the values of all rows.
            let rows = UInt64Array::from_iter_values(0..array.len() as u64);
            of_values(&take(array, &rows, None)?)
        }
        _ => Ok(array.clone()),
    }
}

/// A nested array of this type, with what `change` makes of its values.
pub(crate) fn with_values(
    array: &ArrayRef,
    wanted: &DataType,
    change: impl Fn(&ArrayRef, &Field) -> Result<ArrayRef, ArrowError>,
) -> Result<ArrayRef, ArrowError> {
    let nested = array.to_data();
    let values = nested.child_data().iter().zip(fields_of(wanted));
    let values = values.map(|(values, field)| {
        let values = make_array(values.clone());
        Ok(change(&values, field)?.to_data())
    });
    let values = values.collect::<Result<_, ArrowError>>()?;
    let nested = nested.into_builder().data_type(wanted.clone());
    Ok(make_array(nested.child_data(values).build()?))
}

/// The fields of a nested type.
pub(crate) fn fields_of(data_type: &DataType) -> &[FieldRef] {
    match data_type {
        DataType::Struct(fields) => fields,
        DataType::List(values)
        | DataType::LargeList(values)
        | DataType::ListView(values)
        | DataType::LargeListView(values)
        | DataType::FixedSizeList(values, _)
        | DataType::Map(values, _) => std::slice::from_ref(values),
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{ListBuilder, MapBuilder, StringViewBuilder};

    use super::*;

    #[test]
    fn what_is_compacted_has_no_bytes_of_other_rows() {
        let mut list = ListBuilder::new(StringViewBuilder::new());
        let mut map = MapBuilder::new(None, StringViewBuilder::new(), StringViewBuilder::new());
        for row in 0..100 {
            let text = row.to_string().repeat(1000);
            list.values().append_value(&text);
            list.append(row % 7 > 0);
            map.keys().append_value(&text);
            map.values().append_option((row % 2 > 0).then_some(&text));
            map.append(true).unwrap();
        }
        let all: [ArrayRef; 2] = [Arc::new(list.finish()), Arc::new(map.finish())];
        for all in all {
            let one = all.slice(51, 1);
            let compacted = compacted(&one).unwrap();
            assert_eq!(&compacted, &one);
            assert!(one.get_array_memory_size() > 100 << 10);
            assert!(compacted.get_array_memory_size() < 10 << 10);
        }
    }
}
