//! Key columns of Arrow record batches, which is what Parquet and Arrow files are read as.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_schema::{DataType, Field, TimeUnit};
use std::fmt::{Display, Write};

use crate::error::{Error, ErrorKind, Result};
use crate::render;
use crate::sink::{At, Facts, Sink};
use crate::value::{Kind, Row, Value};
use crate::wanted::Wanted;

/// The index of each wanted column among `names`.
pub(crate) fn find<S: AsRef<str>>(names: &[S], wanted: Wanted<'_>) -> Result<Vec<usize>> {
    wanted
        .names()
        .map(|column| {
            let mut places = (0..names.len()).filter(|i| names[*i].as_ref() == column);
            let kind = match (places.next(), places.next()) {
                (Some(place), None) => return Ok(place),
                (Some(_), Some(_)) => ErrorKind::AmbiguousColumn,
                (None, _) => ErrorKind::MissingColumn {
                    available: names.iter().map(|n| n.as_ref().to_owned()).collect(),
                },
            };
            Err(Error::new(kind).in_column(column))
        })
        .collect()
}

/// The index of each wanted column in a schema; its type must be usable as a key, or as values.
pub(crate) fn find_fields<'f>(
    fields: impl IntoIterator<Item = &'f Field>,
    wanted: Wanted<'_>,
) -> Result<Vec<usize>> {
    let fields: Vec<&Field> = fields.into_iter().collect();
    let names: Vec<&str> = fields.iter().map(|f| f.name().as_str()).collect();
    let places = find(&names, wanted)?;
    for (i, place) in places.iter().enumerate() {
        let field = fields[*place];
        let found = || field.data_type().to_string();
        let kind = match i == wanted.value_index() {
            true if !can_be_value(field.data_type()) => ErrorKind::ValueType { found: found() },
            false if !can_be_key(field.data_type()) => ErrorKind::KeyType { found: found() },
            _ => continue,
        };
        return Err(Error::new(kind).in_column(field.name()));
    }
    Ok(places)
}

/// Floats have no exact text, and their equality is a trap; nested values have no agreed text.
fn can_be_key(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => can_be_key(values) && !matches!(**values, T::Dictionary(..)),
        T::Null | T::Boolean | T::Date32 | T::Date64 | T::Time32(_) | T::Time64(_) => true,
        T::Timestamp(_, _) | T::Utf8 | T::LargeUtf8 | T::Utf8View => true,
        T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => true,
        T::Decimal32(_, _) | T::Decimal64(_, _) | T::Decimal128(_, _) | T::Decimal256(_, _) => true,
        other => other.is_integer(),
    }
}

/// Numbers with an exact text, and text.
fn can_be_value(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Dictionary(_, values) => can_be_value(values) && !matches!(**values, T::Dictionary(..)),
        T::Null | T::Utf8 | T::LargeUtf8 | T::Utf8View => true,
        T::Decimal32(_, _) | T::Decimal64(_, _) | T::Decimal128(_, _) | T::Decimal256(_, _) => true,
        other => other.is_integer(),
    }
}

/// Indices without repetition in rising order, and where each of `wanted` is among them:
/// projections keep the order of the schema.
pub(crate) fn projection(wanted: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let mut roots = wanted.to_vec();
    roots.sort_unstable();
    roots.dedup();
    let places = wanted
        .iter()
        .map(|w| roots.partition_point(|r| r < w))
        .collect();
    (roots, places)
}

/// Passes the rows of a batch to `sink`; `facts` counts them over all batches.
pub(crate) fn scan_batch<S: Sink>(
    batch: &RecordBatch,
    places: &[usize],
    facts: &mut Facts,
    sink: &mut S,
) -> Result<()> {
    let columns = places
        .iter()
        .map(|p| Column::new(batch.column(*p)))
        .collect::<Result<_>>()?;
    let mut keys = KeyRow {
        columns,
        rendered: vec![(None, String::new()); places.len()],
        row: 0,
    };
    for row in 0..batch.num_rows() {
        keys.go_to(row);
        facts.rows += 1;
        let at = At {
            row: facts.rows,
            line: None,
        };
        sink.row(at, &keys)?;
    }
    Ok(())
}

/// The key values of one row of a batch.
struct KeyRow<'a> {
    columns: Vec<Column<'a>>,
    /// The present row's typed values as text.
    rendered: Vec<(Option<Kind>, String)>,
    row: usize,
}

impl KeyRow<'_> {
    fn go_to(&mut self, row: usize) {
        self.row = row;
        for (column, (kind, text)) in self.columns.iter().zip(&mut self.rendered) {
            text.clear();
            *kind = column.render(row, text);
        }
    }
}

impl Row for KeyRow<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        match &self.rendered[column] {
            (Some(kind), text) => Value::Typed(*kind, text),
            (None, _) => self.columns[column].plain(self.row),
        }
    }
}

type Plain<'a> = Box<dyn Fn(usize) -> Value<'a> + 'a>;
type Rendered<'a> = Box<dyn Fn(usize, &mut String) -> Kind + 'a>;

/// A key column of a batch.
struct Column<'a> {
    array: &'a ArrayRef,
    values: Values<'a>,
}

enum Values<'a> {
    Null,
    /// Text or bytes.
    Plain(Plain<'a>),
    /// A type that is rendered as text.
    Typed(Rendered<'a>),
    /// Rows refer to the values of another column.
    Dictionary {
        row_values: Vec<usize>,
        values: Box<Column<'a>>,
    },
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef) -> Result<Self> {
        Ok(Column {
            array,
            values: values(array)?,
        })
    }

    /// Appends the canonical text of a typed value; `None` for text, bytes and nulls.
    fn render(&self, row: usize, out: &mut String) -> Option<Kind> {
        match &self.values {
            _ if self.array.is_null(row) => None,
            Values::Typed(f) => Some(f(row, out)),
            Values::Dictionary { row_values, values } => values.render(row_values[row], out),
            Values::Null | Values::Plain(_) => None,
        }
    }

    /// A value that `render` does not handle.
    fn plain(&self, row: usize) -> Value<'a> {
        match &self.values {
            _ if self.array.is_null(row) => Value::Null,
            Values::Plain(f) => f(row),
            Values::Dictionary { row_values, values } => values.plain(row_values[row]),
            Values::Null | Values::Typed(_) => Value::Null,
        }
    }
}

/// A column of numbers that `f` renders.
fn typed<'a, T: ArrowPrimitiveType>(
    array: &'a ArrayRef,
    f: impl Fn(T::Native, &mut String) -> Kind + 'a,
) -> Values<'a> {
    let array = array.as_primitive::<T>();
    Values::Typed(Box::new(move |row, out| f(array.value(row), out)))
}

fn integers<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef) -> Values<'a>
where
    T::Native: Display,
{
    typed::<T>(array, |value, out| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{value}");
        Kind::Integer
    })
}

fn decimals<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef, scale: i8) -> Values<'a>
where
    T::Native: Display,
{
    typed::<T>(array, move |value, out| {
        render::decimal(&value.to_string(), scale, out);
        Kind::Decimal
    })
}

fn times<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef, per_second: i64) -> Values<'a>
where
    T::Native: Into<i64>,
{
    typed::<T>(array, move |value, out| {
        let ticks: i64 = value.into();
        let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
        render::time(ticks.div_euclid(per_second), nanos, out);
        Kind::Time
    })
}

fn timestamps<T: ArrowPrimitiveType<Native = i64>>(
    array: &ArrayRef,
    per_second: i64,
) -> Values<'_> {
    typed::<T>(array, move |ticks, out| {
        render::timestamp(ticks, per_second, out);
        Kind::Timestamp
    })
}

fn values(array: &ArrayRef) -> Result<Values<'_>> {
    use DataType as T;
    const MS: i64 = 1_000;
    const US: i64 = 1_000_000;
    const NS: i64 = 1_000_000_000;
    Ok(match array.data_type() {
        T::Null => Values::Null,
        T::Utf8 => {
            let a = array.as_string::<i32>();
            Values::Plain(Box::new(|i| Value::Text(a.value(i).as_bytes())))
        }
        T::LargeUtf8 => {
            let a = array.as_string::<i64>();
            Values::Plain(Box::new(|i| Value::Text(a.value(i).as_bytes())))
        }
        T::Utf8View => {
            let a = array.as_string_view();
            Values::Plain(Box::new(|i| Value::Text(a.value(i).as_bytes())))
        }
        T::Binary => {
            let a = array.as_binary::<i32>();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::LargeBinary => {
            let a = array.as_binary::<i64>();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::BinaryView => {
            let a = array.as_binary_view();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::FixedSizeBinary(16) => {
            let a = array.as_fixed_size_binary();
            Values::Typed(Box::new(|i, out| {
                render::uuid(a.value(i), out);
                Kind::Uuid
            }))
        }
        T::FixedSizeBinary(_) => {
            let a = array.as_fixed_size_binary();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::Boolean => {
            let a = array.as_boolean();
            Values::Typed(Box::new(|i, out| {
                out.push_str(if a.value(i) { "true" } else { "false" });
                Kind::Boolean
            }))
        }
        T::Int8 => integers::<Int8Type>(array),
        T::Int16 => integers::<Int16Type>(array),
        T::Int32 => integers::<Int32Type>(array),
        T::Int64 => integers::<Int64Type>(array),
        T::UInt8 => integers::<UInt8Type>(array),
        T::UInt16 => integers::<UInt16Type>(array),
        T::UInt32 => integers::<UInt32Type>(array),
        T::UInt64 => integers::<UInt64Type>(array),
        T::Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale),
        T::Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale),
        T::Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale),
        T::Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale),
        T::Date32 => typed::<Date32Type>(array, |days, out| {
            render::date(i64::from(days), out);
            Kind::Date
        }),
        T::Date64 => typed::<Date64Type>(array, |millis, out| {
            // The format asks for whole days. Some writers put instants here all the same, and
            // two of them must not become one.
            if millis % 86_400_000 == 0 {
                render::date(millis / 86_400_000, out);
                Kind::Date
            } else {
                render::timestamp(millis, MS, out);
                Kind::Timestamp
            }
        }),
        T::Time32(TimeUnit::Second) => times::<Time32SecondType>(array, 1),
        T::Time32(_) => times::<Time32MillisecondType>(array, MS),
        T::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(array, US),
        T::Time64(_) => times::<Time64NanosecondType>(array, NS),
        T::Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(array, 1),
        T::Timestamp(TimeUnit::Millisecond, _) => timestamps::<TimestampMillisecondType>(array, MS),
        T::Timestamp(TimeUnit::Microsecond, _) => timestamps::<TimestampMicrosecondType>(array, US),
        T::Timestamp(TimeUnit::Nanosecond, _) => timestamps::<TimestampNanosecondType>(array, NS),
        T::Dictionary(_, value_type) if !matches!(**value_type, T::Dictionary(..)) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                Values::Null
            } else {
                let values = Box::new(Column::new(dictionary.values())?);
                Values::Dictionary {
                    row_values: dictionary.normalized_keys(),
                    values,
                }
            }
        }
        other => {
            return Err(Error::new(ErrorKind::KeyType {
                found: other.to_string(),
            }));
        }
    })
}
