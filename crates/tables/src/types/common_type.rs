//! Columns of several files under one type, which holds the values of each.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationNanosecondType, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, LargeBinaryArray, LargeStringArray, RecordBatch,
    RecordBatchOptions, StringArray, StringViewArray, new_null_array,
};
use arrow_schema::{
    ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use arrow_select::take::take;
use vesica_files::catching;

use crate::error::{Error, ErrorKind, Result};
use crate::types::nested::{fields_of, with_values};

/// The column that holds the values of both; `None` if their types are too different. Columns of nulls take the other
/// type, texts and bytes are long if either is, and a dictionary beside another type is its values.
pub(crate) fn common(first: &Field, other: &Field) -> Option<Field> {
    let data_type = common_type(first.data_type(), other.data_type())?;
    let nullable = [first, other].iter().any(|field| field.is_nullable());
    Some(
        first
            .clone()
            .with_data_type(data_type)
            .with_nullable(nullable),
    )
}

fn common_type(first: &DataType, other: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match (first, other) {
        (first, other) if first.equals_datatype(other) => first.clone(),
        (T::Null, other) => other.clone(),
        (first, T::Null) => first.clone(),
        (T::Dictionary(_, values), other) | (other, T::Dictionary(_, values)) => {
            common_type(values, without_dictionary(other))?
        }
        (T::Utf8 | T::LargeUtf8 | T::Utf8View, T::Utf8 | T::LargeUtf8 | T::Utf8View) => {
            match [first, other].contains(&&T::LargeUtf8) {
                true => T::LargeUtf8,
                false => T::Utf8,
            }
        }
        (
            T::Binary | T::LargeBinary | T::BinaryView,
            T::Binary | T::LargeBinary | T::BinaryView,
        ) => match [first, other].contains(&&T::LargeBinary) {
            true => T::LargeBinary,
            false => T::Binary,
        },
        _ => return None,
    })
}

fn without_dictionary(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

/// A schema whose dictionaries are their values: an Arrow file has room for one dictionary of a column.
pub(crate) fn without_dictionaries(schema: &Schema) -> Schema {
    with_types(schema, &|data_type| without_dictionary(data_type).clone())
}

/// A schema of types that every reader of Parquet knows: times in seconds are milliseconds there, and dates in milliseconds,
/// which some writers take for instants, are timestamps.
pub(crate) fn for_parquet(schema: &Schema) -> Schema {
    with_types(schema, &named_by_parquet)
}

/// The type that [`for_parquet`] has instead of one that is not nested.
pub(crate) fn named_by_parquet(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Time32(TimeUnit::Second) => T::Time32(TimeUnit::Millisecond),
        T::Timestamp(TimeUnit::Second, zone) => T::Timestamp(TimeUnit::Millisecond, zone.clone()),
        T::Date64 => T::Timestamp(TimeUnit::Millisecond, None),
        T::Dictionary(_, values) if named_by_parquet(values) != **values => {
            named_by_parquet(values)
        }
        other => other.clone(),
    }
}

/// Whether Parquet has room for the values of a type.
pub(crate) fn is_in_parquet(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::Interval(IntervalUnit::MonthDayNano) => false,
        DataType::RunEndEncoded(_, values) => {
            let values = values.data_type();
            is_in_parquet(values) && named_by_parquet(values) == *values
        }
        DataType::Dictionary(_, values) => is_in_parquet(values),
        nested => fields_of(nested)
            .iter()
            .all(|field| is_in_parquet(field.data_type())),
    }
}

/// A schema in which `change` was made to every type that is not nested.
fn with_types(schema: &Schema, change: &dyn Fn(&DataType) -> DataType) -> Schema {
    with_types_in(schema, |_| true, change)
}

/// The same in those of its columns whose place is wanted.
pub(crate) fn with_types_in(
    schema: &Schema,
    is_wanted: impl Fn(usize) -> bool,
    change: &dyn Fn(&DataType) -> DataType,
) -> Schema {
    let fields = schema.fields().iter().enumerate();
    let fields = fields.map(|(place, field)| match is_wanted(place) {
        true => with_type(field, change),
        false => field.clone(),
    });
    Schema::new_with_metadata(fields.collect::<Fields>(), schema.metadata().clone())
}

fn with_type(field: &FieldRef, change: &dyn Fn(&DataType) -> DataType) -> FieldRef {
    let below = |field: &FieldRef| with_type(field, change);
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(below).collect()),
        DataType::List(values) => DataType::List(below(values)),
        DataType::LargeList(values) => DataType::LargeList(below(values)),
        DataType::ListView(values) => DataType::ListView(below(values)),
        DataType::LargeListView(values) => DataType::LargeListView(below(values)),
        DataType::FixedSizeList(values, length) => DataType::FixedSizeList(below(values), *length),
        DataType::Map(entries, sorted) => DataType::Map(below(entries), *sorted),
        other => change(other),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// The columns of a batch under the types of a schema that holds their values, and perhaps columns more.
pub(crate) fn cast_columns(batch: &RecordBatch, schema: &SchemaRef) -> Result<Vec<ArrayRef>> {
    let column = |(column, field): (&ArrayRef, &FieldRef)| {
        let column = catching(|| of_type(column, field.data_type())).map_err(Error::corrupt)?;
        column.map_err(|e| not_kept(e, "Parquet").in_column(field.name()))
    };
    batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(column)
        .collect()
}

/// What [`of_type`] says of a value for which its type has no room.
pub(crate) fn not_kept(e: ArrowError, by: &'static str) -> Error {
    match e {
        ArrowError::InvalidArgumentError(value) => Error::new(ErrorKind::NotKept { value, by }),
        e => Error::corrupt(e.to_string()),
    }
}

/// Whether [`of_type`] finds no room for some values.
pub(crate) fn may_refuse(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    match (from, to) {
        (from, to) if from == to => false,
        (T::Dictionary(_, values), to) => may_refuse(values, to),
        (T::Time32(TimeUnit::Second), T::Time32(TimeUnit::Millisecond))
        | (T::Timestamp(TimeUnit::Second, _), T::Timestamp(TimeUnit::Millisecond, _))
        | (T::Timestamp(TimeUnit::Nanosecond, _), T::Timestamp(TimeUnit::Microsecond, _))
        | (T::Time64(TimeUnit::Nanosecond), T::Time64(TimeUnit::Microsecond))
        | (T::Duration(TimeUnit::Nanosecond), T::Duration(TimeUnit::Microsecond))
        | (T::UInt64, T::Int64) => true,
        (from, to) => {
            let mut fields = fields_of(from).iter().zip(fields_of(to));
            fields.any(|(from, to)| may_refuse(from.data_type(), to.data_type()))
        }
    }
}

/// A batch under a schema whose columns hold the values of its own.
pub(crate) fn cast(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = cast_columns(batch, schema)?;
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map_err(|e| Error::corrupt(e.to_string()))
}

/// A column under a type that has room for its values.
pub(crate) fn of_type(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    Ok(match (array.data_type(), wanted) {
        (found, wanted) if found == wanted => array.clone(),
        (T::Null, wanted) => new_null_array(wanted, array.len()),
        (T::Dictionary(..), wanted) => {
            let dictionary = array.as_any_dictionary();
            let values = of_type(dictionary.values(), wanted)?;
            take(&values, dictionary.keys(), None)?
        }
        (T::Utf8, T::LargeUtf8) => Arc::new(LargeStringArray::from_iter(array.as_string::<i32>())),
        (T::Utf8, T::Utf8View) => Arc::new(StringViewArray::from_iter(array.as_string::<i32>())),
        (T::Utf8View, T::Utf8) => Arc::new(StringArray::from_iter(array.as_string_view())),
        (T::Utf8View, T::LargeUtf8) => {
            Arc::new(LargeStringArray::from_iter(array.as_string_view()))
        }
        (T::Binary, T::LargeBinary) => {
            Arc::new(LargeBinaryArray::from_iter(array.as_binary::<i32>()))
        }
        (T::BinaryView, T::Binary) => Arc::new(BinaryArray::from_iter(array.as_binary_view())),
        (T::BinaryView, T::LargeBinary) => {
            Arc::new(LargeBinaryArray::from_iter(array.as_binary_view()))
        }
        (T::Time32(TimeUnit::Second), T::Time32(TimeUnit::Millisecond)) => {
            let times = array.as_primitive::<Time32SecondType>();
            let times = times.try_unary::<_, Time32MillisecondType, _>(|s| {
                fits(s.checked_mul(1000), TOO_LARGE)
            })?;
            Arc::new(times)
        }
        (T::Timestamp(TimeUnit::Second, _), T::Timestamp(TimeUnit::Millisecond, _)) => {
            let times = array.as_primitive::<TimestampSecondType>();
            let times = times.try_unary::<_, TimestampMillisecondType, _>(|s| {
                fits(s.checked_mul(1000), TOO_LARGE)
            })?;
            Arc::new(times.with_data_type(wanted.clone()))
        }
        (T::Date64, T::Timestamp(TimeUnit::Millisecond, _)) => {
            let instants = array.as_primitive::<Date64Type>();
            Arc::new(instants.reinterpret_cast::<TimestampMillisecondType>())
        }
        (T::Timestamp(TimeUnit::Nanosecond, _), T::Timestamp(TimeUnit::Microsecond, _)) => {
            let times = array.as_primitive::<TimestampNanosecondType>();
            let times = times.try_unary::<_, TimestampMicrosecondType, _>(microseconds)?;
            Arc::new(times.with_data_type(wanted.clone()))
        }
        (T::Time64(TimeUnit::Nanosecond), T::Time64(TimeUnit::Microsecond)) => {
            let times = array.as_primitive::<Time64NanosecondType>();
            Arc::new(times.try_unary::<_, Time64MicrosecondType, _>(microseconds)?)
        }
        (T::Duration(TimeUnit::Nanosecond), T::Duration(TimeUnit::Microsecond)) => {
            let times = array.as_primitive::<DurationNanosecondType>();
            Arc::new(times.try_unary::<_, DurationMicrosecondType, _>(microseconds)?)
        }
        (T::UInt64, T::Int64) => {
            let numbers = array.as_primitive::<UInt64Type>();
            Arc::new(numbers.try_unary::<_, Int64Type, _>(|n| {
                fits(i64::try_from(n).ok(), "a whole number is too large")
            })?)
        }
        (T::UInt64, T::Decimal128(..)) => {
            let numbers = array.as_primitive::<UInt64Type>();
            let numbers = numbers.unary::<_, Decimal128Type>(i128::from);
            Arc::new(numbers.with_data_type(wanted.clone()))
        }
        (T::Decimal32(..), T::Decimal128(..)) => {
            let numbers = array.as_primitive::<Decimal32Type>();
            let numbers = numbers.unary::<_, Decimal128Type>(i128::from);
            Arc::new(numbers.with_data_type(wanted.clone()))
        }
        (T::Decimal64(..), T::Decimal128(..)) => {
            let numbers = array.as_primitive::<Decimal64Type>();
            let numbers = numbers.unary::<_, Decimal128Type>(i128::from);
            Arc::new(numbers.with_data_type(wanted.clone()))
        }
        _ => with_values(array, wanted, |values, field| {
            of_type(values, field.data_type())
        })?,
    })
}

const TOO_LARGE: &str = "a time is too large";

fn fits<T>(value: Option<T>, otherwise: &str) -> Result<T, ArrowError> {
    value.ok_or_else(|| ArrowError::InvalidArgumentError(otherwise.into()))
}

/// Nanoseconds that are whole microseconds.
fn microseconds(nanoseconds: i64) -> Result<i64, ArrowError> {
    let whole = (nanoseconds % 1000 == 0).then_some(nanoseconds / 1000);
    fits(whole, "a time has nanoseconds")
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::Int8Type;
    use arrow_array::{DictionaryArray, Int32Array, NullArray};

    fn field(data_type: DataType, nullable: bool) -> Field {
        Field::new("a", data_type, nullable)
    }

    fn dictionary(index: DataType, values: DataType) -> DataType {
        DataType::Dictionary(Box::new(index), Box::new(values))
    }

    #[test]
    fn types_that_differ_slightly_have_a_common_one() {
        use DataType as T;
        for (first, other, both) in [
            (T::Int32, T::Int32, Some(T::Int32)),
            (T::Null, T::Int32, Some(T::Int32)),
            (T::Null, T::Null, Some(T::Null)),
            (T::Utf8, T::LargeUtf8, Some(T::LargeUtf8)),
            (T::Utf8View, T::Utf8, Some(T::Utf8)),
            (T::Utf8View, T::LargeUtf8, Some(T::LargeUtf8)),
            (T::BinaryView, T::LargeBinary, Some(T::LargeBinary)),
            (T::Binary, T::BinaryView, Some(T::Binary)),
            (dictionary(T::Int8, T::Utf8), T::Utf8, Some(T::Utf8)),
            (
                dictionary(T::Int8, T::Utf8),
                T::LargeUtf8,
                Some(T::LargeUtf8),
            ),
            (
                dictionary(T::Int8, T::Utf8),
                dictionary(T::Int32, T::Utf8),
                Some(T::Utf8),
            ),
            (
                dictionary(T::Int8, T::Utf8),
                dictionary(T::Int8, T::Utf8),
                Some(dictionary(T::Int8, T::Utf8)),
            ),
            (T::Int32, T::Int64, None),
            (T::Utf8, T::Binary, None),
            (dictionary(T::Int8, T::Utf8), T::Int8, None),
        ] {
            for (one, two) in [(&first, &other), (&other, &first)] {
                let found = common(&field(one.clone(), false), &field(two.clone(), false));
                let found = found.map(|field| field.data_type().clone());
                assert_eq!(found, both, "{one} {two}");
            }
        }
        let nullable = common(&field(T::Int32, false), &field(T::Int32, true));
        assert!(nullable.unwrap().is_nullable());
    }

    #[test]
    fn values_stay_the_same() {
        let texts = [Some("a"), None, Some("bc")];
        let all: [ArrayRef; 4] = [
            Arc::new(StringArray::from_iter(texts)),
            Arc::new(LargeStringArray::from_iter(texts)),
            Arc::new(StringViewArray::from_iter(texts)),
            Arc::new(DictionaryArray::<Int8Type>::from_iter(texts)),
        ];
        for (from, to) in [(0, 1), (2, 0), (2, 1), (3, 0), (3, 1)] {
            let found = of_type(&all[from], all[to].data_type()).unwrap();
            assert_eq!(&found, &all[to]);
        }
        let nulls: ArrayRef = Arc::new(NullArray::new(2));
        let expected: ArrayRef = Arc::new(Int32Array::from(vec![None, None]));
        assert_eq!(&of_type(&nulls, &DataType::Int32).unwrap(), &expected);
    }
}
