//! What databases make of the types of Arrow. Drivers would cut values off, or read them as another type, without a word.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, IntervalUnit, Schema, SchemaRef, TimeUnit};
use arrow_select::concat::concat;
use vesica_files::catching;

use crate::database::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::formats::columnar::texts;
use crate::types::common_type::{may_refuse, not_kept, of_type};

mod limits;

/// The keys under which PostgreSQL's driver tells a type that Arrow has not, and any type.
const UNKNOWN_TYPE: &str = "ADBC:postgresql:typname";
const ANY_TYPE: &str = "POSTGRESQL:type";

/// Bytes of a name in PostgreSQL; the rest is cut off.
const POSTGRESQL_NAME: usize = 63;

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::PostgreSql => "PostgreSQL",
            Kind::Sqlite => "SQLite",
            Kind::Other => "the database",
        }
    }

    /// Whether all that a transaction has done can be undone, the making of tables too.
    pub(super) fn undoes_tables(self) -> bool {
        self != Kind::Other
    }

    /// The type under which the driver takes values of a type; `None` if it takes none of them, or would not keep them.
    fn ingested(self, of: &DataType) -> Option<DataType> {
        use DataType as T;
        Some(match (self, of) {
            (Kind::Other, of) => of.clone(),
            (_, T::Dictionary(_, values)) => self.ingested(values)?,
            (Kind::PostgreSql, T::UInt64) => T::Decimal128(20, 0),
            (Kind::PostgreSql, T::Decimal32(digits, scale) | T::Decimal64(digits, scale)) => {
                T::Decimal128(*digits, *scale)
            }
            (Kind::PostgreSql, T::Date64) => T::Timestamp(TimeUnit::Millisecond, None),
            (Kind::PostgreSql, T::Timestamp(TimeUnit::Nanosecond, zone)) => {
                T::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            (Kind::PostgreSql, T::Time64(TimeUnit::Nanosecond)) => T::Time64(TimeUnit::Microsecond),
            (Kind::PostgreSql, T::Duration(TimeUnit::Nanosecond)) => {
                T::Duration(TimeUnit::Microsecond)
            }
            (Kind::PostgreSql, T::List(values)) => {
                let values = values.data_type();
                let is_kept = !values.is_nested() && self.ingested(values)? == *values;
                return is_kept.then(|| of.clone());
            }
            (Kind::Sqlite, T::UInt64) => T::Int64,
            (
                Kind::Sqlite,
                T::Decimal32(..)
                | T::Decimal64(..)
                | T::Decimal128(..)
                | T::Decimal256(..)
                | T::Date64
                | T::Time32(_)
                | T::Time64(_)
                | T::Timestamp(_, Some(_)),
            ) => T::Utf8,
            (
                Kind::PostgreSql,
                T::Decimal128(..)
                | T::Decimal256(..)
                | T::Time32(_)
                | T::Time64(_)
                | T::Timestamp(..)
                | T::Duration(_)
                | T::Interval(IntervalUnit::MonthDayNano),
            )
            | (
                _,
                T::Null
                | T::Boolean
                | T::Int8
                | T::Int16
                | T::Int32
                | T::Int64
                | T::UInt8
                | T::UInt16
                | T::UInt32
                | T::Float16
                | T::Float32
                | T::Float64
                | T::Utf8
                | T::LargeUtf8
                | T::Utf8View
                | T::Binary
                | T::LargeBinary
                | T::BinaryView
                | T::FixedSizeBinary(_)
                | T::Date32
                | T::Timestamp(_, None),
            ) => of.clone(),
            _ => return None,
        })
    }

    /// Whether [`Kind::rows`] refuses some values of a type, of this side's columns.
    pub(super) fn may_refuse(self, of: &DataType) -> bool {
        self.ingested(of)
            .is_some_and(|to| may_refuse(of, &to) || limits::has_limits(self, &to))
    }

    /// The names under which the database has columns. Those after the first `own` are the peer's, and get a number where
    /// the database would take one for another: PostgreSQL cuts names off, and others do not tell upper from lower case.
    fn names(self, of: &Schema, own: usize) -> Vec<String> {
        let most = match self {
            Kind::PostgreSql => POSTGRESQL_NAME,
            _ => usize::MAX,
        };
        let mut taken = HashSet::new();
        let mut takes = |name: &str| match self {
            Kind::PostgreSql => taken.insert(name.to_owned()),
            _ => taken.insert(name.to_ascii_lowercase()),
        };
        let name = |(index, field): (usize, &Arc<Field>)| {
            let mut name = cut(field.name(), most).to_owned();
            let mut number = 1;
            while !takes(&name) && index >= own {
                number += 1;
                let suffix = format!("_{number}");
                name = cut(field.name(), most - suffix.len()).to_owned() + &suffix;
            }
            name
        };
        of.fields().iter().enumerate().map(name).collect()
    }

    /// The schema under which the driver takes rows, whose columns after the first `own` are the peer's.
    pub(super) fn schema(self, of: &Schema, own: usize) -> Result<SchemaRef> {
        let field = |(field, name): (&Arc<Field>, String)| match self.ingested(field.data_type()) {
            Some(ingested) => Ok(Field::clone(field).with_name(name).with_data_type(ingested)),
            None => {
                let (found, format) = (field.data_type().to_string(), self.name());
                let error = Error::new(ErrorKind::NotInFormat { found, format });
                Err(error.in_column(field.name()))
            }
        };
        let fields = of.fields().iter().zip(self.names(of, own)).map(field);
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }

    /// Rows under such a schema, whose columns after the first `own` are the peer's. A value of the peer that there is no room
    /// for is null, and counted: it is known only where its row matches, and the result is not for the peer to spoil.
    pub(super) fn rows(
        self,
        batch: &RecordBatch,
        schema: &SchemaRef,
        own: usize,
    ) -> Result<(RecordBatch, u64)> {
        let mut lost = 0;
        let columns = batch.columns().iter().zip(schema.fields()).enumerate();
        let columns = columns.map(|(index, (array, field))| match index < own {
            true => self.column(array, field),
            false => self.column_of_peer(array, field, &mut lost),
        });
        let columns = columns.collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let rows = RecordBatch::try_new_with_options(schema.clone(), columns, &options);
        Ok((rows.map_err(|e| Error::corrupt(e.to_string()))?, lost))
    }

    /// A column under the type of a field of such a schema.
    fn column(self, array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
        let (from, to) = (array.data_type(), field.data_type());
        let is_written_out = from.is_numeric() || from.is_temporal();
        if is_written_out && *to == DataType::Utf8 {
            return texts(array);
        }
        let changed = catching(|| of_type(array, to)).map_err(Error::corrupt)?;
        let changed = changed.map_err(|e| not_kept(e, self.name()).in_column(field.name()))?;
        match limits::beyond(self, &changed) {
            Some(value) => {
                let (value, by) = (value.to_owned(), self.name());
                Err(Error::new(ErrorKind::NotKept { value, by }).in_column(field.name()))
            }
            None => Ok(changed),
        }
    }

    /// The same with null in place of values that are refused, which `lost` counts. They are few, and found by halves.
    fn column_of_peer(self, array: &ArrayRef, field: &Field, lost: &mut u64) -> Result<ArrayRef> {
        match (self.column(array, field), array.len()) {
            (Err(error), 0 | 1) if matches!(error.kind(), ErrorKind::NotKept { .. }) => {
                *lost += 1;
                Ok(new_null_array(field.data_type(), array.len()))
            }
            (Err(error), length) if matches!(error.kind(), ErrorKind::NotKept { .. }) => {
                let middle = length / 2;
                let first = self.column_of_peer(&array.slice(0, middle), field, lost)?;
                let rest = array.slice(middle, length - middle);
                let rest = self.column_of_peer(&rest, field, lost)?;
                concat(&[&first, &rest]).map_err(|e| Error::corrupt(e.to_string()))
            }
            (column, _) => column,
        }
    }

    /// Whether a column of a table keeps the values of a column that is appended. PostgreSQL's driver hands over bytes, which
    /// the table would take for values of its own type; SQLite's columns take anything.
    pub(super) fn keeps(self, there: &Field, appended: &Field) -> bool {
        let extension = |field: &Field| field.metadata().get(EXTENSION_TYPE_NAME_KEY).cloned();
        let named = |field: &Field| field.metadata().get(UNKNOWN_TYPE).cloned();
        let appends = appended.data_type();
        if self != Kind::PostgreSql || appends.is_null() {
            return true;
        }
        if named(there).is_some_and(|name| name == "numeric") {
            return appends.is_integer() || appends.is_decimal();
        }
        if extension(there).is_some() {
            return extension(there) == extension(appended) && named(there) == named(appended);
        }
        in_postgresql(appends).equals_datatype(there.data_type())
    }
}

/// The characters of a text that have room in so many bytes.
fn cut(text: &str, most: usize) -> &str {
    let ends = (0..=most.min(text.len())).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// What a database calls the type of a column.
pub(super) fn shown(column: &Field) -> String {
    let name = column.metadata().get(ANY_TYPE).cloned();
    name.unwrap_or_else(|| column.data_type().to_string())
}

/// The type of the column that PostgreSQL's driver makes for values, as it reads it back.
fn in_postgresql(appended: &DataType) -> DataType {
    use DataType as T;
    match appended {
        T::Int8 | T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::Float16 => T::Float32,
        T::LargeUtf8 | T::Utf8View => T::Utf8,
        T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::Binary,
        T::Time32(_) => T::Time64(TimeUnit::Microsecond),
        T::Timestamp(_, zone) => {
            let utc = zone.as_ref().map(|_| "UTC".into());
            T::Timestamp(TimeUnit::Microsecond, utc)
        }
        T::Duration(_) => T::Interval(IntervalUnit::MonthDayNano),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;
    use arrow_array::types::Int8Type;
    use arrow_array::types::IntervalMonthDayNano;
    use arrow_array::{
        Array, Date32Array, Decimal64Array, Decimal128Array, DictionaryArray,
        DurationNanosecondArray, DurationSecondArray, Float64Array, Int64Array,
        IntervalMonthDayNanoArray, ListArray, StringArray, Time32SecondArray,
        Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
        TimestampSecondArray, UInt64Array,
    };
    use arrow_buffer::OffsetBuffer;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter_with_nullable([("c", column, true)]).unwrap()
    }

    /// A column of this side's, as it is ingested. As one of the peer's it has the same values, but null for one that is
    /// refused, whatever is beside it.
    fn ingested(kind: Kind, column: ArrayRef) -> Result<ArrayRef> {
        let batch = batch(column);
        let schema = kind.schema(&batch.schema(), 1)?;
        let rows = |own| kind.rows(&batch, &schema, own);
        let found = rows(1).map(|(rows, lost)| {
            assert_eq!(lost, 0);
            rows.column(0).clone()
        });
        let (of_peer, lost) = rows(0).unwrap();
        let of_peer = of_peer.column(0);
        let each = (0..batch.num_rows()).map(|row| kind.rows(&batch.slice(row, 1), &schema, 1));
        let each: Vec<_> = each
            .map(|one| Some(one.ok()?.0.column(0).clone()))
            .collect();
        for (row, one) in each.iter().enumerate() {
            let kept = of_peer.slice(row, 1);
            match one {
                Some(one) => assert_eq!(kept.to_data(), one.to_data(), "{kind:?}"),
                None => assert!(kept.is_null(0), "{kind:?}"),
            }
        }
        assert_eq!(lost, each.iter().filter(|one| one.is_none()).count() as u64);
        assert_eq!(found.is_err(), lost > 0);
        found
    }

    #[test]
    fn values_are_kept_or_refused() {
        let cents: ArrayRef = Arc::new(
            Decimal64Array::from(vec![Some(1250), None])
                .with_precision_and_scale(9, 2)
                .unwrap(),
        );
        let wide = Decimal128Array::from(vec![Some(1250), None]);
        let wide = wide.with_precision_and_scale(9, 2).unwrap();
        let most = Decimal128Array::from(vec![i128::from(u64::MAX)]);
        let most = most.with_precision_and_scale(20, 0).unwrap();
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        let small: ArrayRef = Arc::new(UInt64Array::from(vec![7]));
        let nanos = |n| Arc::new(TimestampNanosecondArray::from(vec![n]).with_timezone("UTC"));
        let micros = TimestampMicrosecondArray::from(vec![1]).with_timezone("UTC");
        let texts: ArrayRef = Arc::new(DictionaryArray::<Int8Type>::from_iter([Some("a"), None]));
        let text = |texts: &[Option<&str>]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)]));
        let time: ArrayRef = Arc::new(Time32SecondArray::from(vec![30_600]));
        use Kind::{Other, PostgreSql, Sqlite};
        for (kind, column, expected) in [
            (PostgreSql, &cents, Some(Arc::new(wide) as ArrayRef)),
            (Sqlite, &cents, Some(text(&[Some("12.50"), None]))),
            (Other, &cents, Some(cents.clone())),
            (PostgreSql, &large, Some(Arc::new(most))),
            (Sqlite, &large, None),
            (Sqlite, &small, Some(Arc::new(Int64Array::from(vec![7])))),
            (
                PostgreSql,
                &(nanos(1000) as ArrayRef),
                Some(Arc::new(micros)),
            ),
            (PostgreSql, &(nanos(1001) as ArrayRef), None),
            (
                Sqlite,
                &(nanos(1001) as ArrayRef),
                Some(text(&[Some("1970-01-01T00:00:00.000001001Z")])),
            ),
            (Sqlite, &floats, None),
            (PostgreSql, &floats, Some(floats.clone())),
            (PostgreSql, &texts, Some(text(&[Some("a"), None]))),
            (Sqlite, &time, Some(text(&[Some("08:30:00")]))),
            (PostgreSql, &time, Some(time.clone())),
        ] {
            let found = ingested(kind, column.clone());
            match (&found, &expected) {
                (Ok(found), Some(expected)) => assert_eq!(found, expected, "{kind:?}"),
                (Err(error), None) => {
                    assert!(matches!(error.kind(), ErrorKind::NotKept { .. }), "{error}");
                    assert_eq!(error.place().column.as_deref(), Some("c"));
                }
                _ => panic!("{kind:?} {column:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn values_beyond_a_range_are_refused() {
        use Kind::{Other, PostgreSql, Sqlite};
        fn of<A: From<Vec<i64>> + Array + 'static>(value: i64) -> ArrayRef {
            Arc::new(A::from(vec![value]))
        }
        let days = |days: i64| Arc::new(Date32Array::from(vec![days as i32])) as ArrayRef;
        let seconds = of::<TimestampSecondArray>;
        let micros = of::<TimestampMicrosecondArray>;
        let nanos = of::<TimestampNanosecondArray>;
        let time = of::<Time64MicrosecondArray>;
        let (long, cut) = (of::<DurationSecondArray>, of::<DurationNanosecondArray>);
        type Make<'a> = &'a dyn Fn(i64) -> ArrayRef;
        // The least and the largest value that there is room for; none is beyond the ends of the type itself.
        for (kind, make, least, most) in [
            (PostgreSql, &days as Make<'_>, -2_440_588, 2_145_042_905),
            (Sqlite, &days, -719_528, 2_932_896),
            (Other, &days, i64::from(i32::MIN), i64::from(i32::MAX)),
            (PostgreSql, &seconds, -210_866_803_200, 9_223_372_036_854),
            (Sqlite, &seconds, -62_167_219_200, 253_402_300_799),
            (PostgreSql, &micros, -210_866_803_200_000_000, i64::MAX),
            (
                Sqlite,
                &micros,
                -62_167_219_200_000_000,
                253_402_300_799_999_999,
            ),
            (Sqlite, &nanos, i64::MIN, i64::MAX),
            (Other, &seconds, i64::MIN, i64::MAX),
            (PostgreSql, &time, 0, 86_400_000_000),
            (PostgreSql, &long, -9_223_372_036_854, 9_223_372_036_854),
        ] {
            assert_eq!(kind.may_refuse(make(0).data_type()), kind != Other);
            let lists = |value| {
                let values = make(value);
                let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
                let ends = OffsetBuffer::new(vec![0, 1].into());
                Arc::new(ListArray::new(item, ends, values, None)) as ArrayRef
            };
            let mut all: Vec<Make<'_>> = vec![make];
            if kind == PostgreSql {
                all.push(&lists);
            }
            for make in all {
                let beyond = [least.checked_sub(1), most.checked_add(1)];
                let beyond = beyond.into_iter().flatten().filter(|_| kind != Other);
                let within = [(least, true), (most, true)].into_iter();
                for (value, is_kept) in within.chain(beyond.map(|value| (value, false))) {
                    let found = ingested(kind, make(value)).map_err(|error| {
                        assert!(matches!(error.kind(), ErrorKind::NotKept { .. }), "{error}");
                    });
                    assert_eq!(found.is_ok(), is_kept, "{kind:?} {value} {:?}", make(0));
                }
            }
        }
        let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        let interval = |nanos| {
            let interval = IntervalMonthDayNano::new(1, 2, nanos);
            Arc::new(IntervalMonthDayNanoArray::from(vec![interval])) as ArrayRef
        };
        for (kind, column, is_kept) in [
            (PostgreSql, text("a\0b"), false),
            (PostgreSql, text("ab"), true),
            (Sqlite, text("a\0b"), true),
            (PostgreSql, interval(1001), false),
            (PostgreSql, interval(1000), true),
            (PostgreSql, cut(1001), false),
            (PostgreSql, cut(1000), true),
        ] {
            let found = ingested(kind, column.clone());
            assert_eq!(found.is_ok(), is_kept, "{kind:?} {column:?}");
        }
    }

    #[test]
    fn columns_of_the_peer_have_names_of_their_own() {
        let long = "é".repeat(40);
        let (cut, numbered) = ("é".repeat(31), format!("{}_2", "é".repeat(30)));
        let third = numbered.replace('2', "3");
        for (kind, names, expected) in [
            (
                Kind::PostgreSql,
                [&*long, &*long, &*long],
                [&*cut, &*numbered, &*third],
            ),
            (Kind::PostgreSql, ["a", "A", "A_2"], ["a", "A", "A_2"]),
            (Kind::Sqlite, ["a", "A", "A_2"], ["a", "A_2", "A_2_2"]),
            (Kind::Sqlite, [&*long, "é", "É"], [&*long, "é", "É"]),
        ] {
            let fields = names.map(|name| Field::new(name, DataType::Utf8, true));
            let schema = kind.schema(&Schema::new(fields.to_vec()), 1).unwrap();
            let found = schema.fields().iter().map(|field| field.name());
            assert!(found.eq(expected), "{kind:?} {schema}");
        }
        // What is wrong with the table's own is for the database to say.
        let own = ["a", "A"].map(|name| Field::new(name, DataType::Utf8, true));
        let schema = Kind::Sqlite.schema(&Schema::new(own.to_vec()), 2).unwrap();
        assert_eq!(schema.field(1).name(), "A");
    }

    #[test]
    fn types_without_a_place_are_refused_with_the_column() {
        let item = Field::new_list_field(DataType::Int64, true);
        let lists = DataType::List(Arc::new(item));
        let nested = DataType::List(Arc::new(Field::new_list_field(lists.clone(), true)));
        for (kind, of, has_room) in [
            (Kind::PostgreSql, &lists, true),
            (Kind::PostgreSql, &nested, false),
            (Kind::Sqlite, &lists, false),
            (Kind::Other, &nested, true),
        ] {
            let schema = Schema::new(vec![Field::new("c", of.clone(), true)]);
            match kind.schema(&schema, 1) {
                Ok(_) => assert!(has_room, "{kind:?} {of}"),
                Err(error) => {
                    assert!(!has_room && error.class() == ErrorClass::Data, "{error}");
                    assert_eq!(error.place().column.as_deref(), Some("c"));
                }
            }
        }
    }

    #[test]
    fn postgresql_keeps_what_is_of_the_column_s_type() {
        use DataType as T;
        let field = |of: &T| Field::new("c", of.clone(), true);
        let named = |field: Field, key: &str, name: &str| {
            field.with_metadata([(key.to_owned(), name.to_owned())])
        };
        let json = |of| named(field(of), EXTENSION_TYPE_NAME_KEY, "arrow.json");
        let numeric = || {
            let opaque = named(field(&T::Utf8), EXTENSION_TYPE_NAME_KEY, "arrow.opaque");
            let mut metadata = opaque.metadata().clone();
            metadata.insert(UNKNOWN_TYPE.to_owned(), "numeric".to_owned());
            opaque.with_metadata(metadata)
        };
        let utc = |unit| T::Timestamp(unit, Some("UTC".into()));
        let berlin = T::Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into()));
        for (there, appended, keeps) in [
            (field(&T::Int64), field(&T::Int64), true),
            (field(&T::Int64), field(&T::UInt32), true),
            (field(&T::Int64), field(&T::Int32), false),
            (field(&T::Float64), field(&T::Int64), false),
            (field(&T::Int32), field(&T::Date32), false),
            (field(&T::Int32), field(&T::Null), true),
            (field(&T::Utf8), field(&T::LargeUtf8), true),
            (field(&utc(TimeUnit::Microsecond)), field(&berlin), true),
            (
                field(&T::Timestamp(TimeUnit::Microsecond, None)),
                field(&berlin),
                false,
            ),
            (numeric(), field(&T::Decimal128(9, 2)), true),
            (numeric(), field(&T::Int16), true),
            (numeric(), field(&T::Utf8), false),
            (numeric(), numeric(), false),
            (json(&T::Utf8), json(&T::Utf8), true),
            (json(&T::Utf8), field(&T::Utf8), false),
            (field(&T::Utf8), json(&T::Utf8), true),
        ] {
            assert_eq!(
                Kind::PostgreSql.keeps(&there, &appended),
                keeps,
                "{there:?} {appended:?}"
            );
            assert!(Kind::Sqlite.keeps(&there, &appended));
        }
    }
}
