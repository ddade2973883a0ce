//! The types that columns keep when they are handed over as texts: their names, and values from their texts.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray};
use arrow_schema::{DataType, TimeUnit};

use crate::decimal::write_decimal;
use crate::profile::Profile;
use crate::profile::render::{self, Kind, MS, NS, SECONDS_A_DAY, US};
use crate::types::common_type::named_by_parquet;

/// What the values of a column are whose texts are handed over: texts, or a type that Parquet and Arrow have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType(DataType);

/// Types whose name is all that there is to say of them.
const PLAIN: [(&str, DataType); 13] = [
    ("text", DataType::Utf8),
    ("boolean", DataType::Boolean),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("float32", DataType::Float32),
    ("float64", DataType::Float64),
    ("date", DataType::Date32),
];

/// Units of times and timestamps.
const UNITS: [(&str, TimeUnit); 3] = [
    ("ms", TimeUnit::Millisecond),
    ("us", TimeUnit::Microsecond),
    ("ns", TimeUnit::Nanosecond),
];

impl ColumnType {
    /// Texts.
    pub const TEXT: ColumnType = ColumnType(DataType::Utf8);

    /// The type that has the values of this one; texts if there is none.
    pub(crate) fn of(data_type: &DataType) -> ColumnType {
        use DataType as T;
        match of_values(data_type) {
            T::Decimal32(digits, scale)
            | T::Decimal64(digits, scale)
            | T::Decimal128(digits, scale)
            | T::Decimal256(digits, scale) => match u8::try_from(*scale) {
                Ok(places) => decimal(*digits, places),
                Err(_) => None,
            }
            .unwrap_or(ColumnType::TEXT),
            // Some of its texts are dates, some timestamps.
            T::Date64 => ColumnType::TEXT,
            other => match named_by_parquet(other) {
                // The instants are the same in any zone.
                T::Timestamp(unit, Some(zone)) if !is_zone(&zone) => {
                    ColumnType(T::Timestamp(unit, Some("UTC".into())))
                }
                known @ (T::Time32(_) | T::Time64(_) | T::Timestamp(..)) => ColumnType(known),
                plain if PLAIN.iter().any(|(_, known)| *known == plain) => ColumnType(plain),
                _ => ColumnType::TEXT,
            },
        }
    }

    /// The type of this name; texts if there is none.
    pub fn named(name: &str) -> ColumnType {
        parameterised(name)
            .or_else(|| {
                let (_, plain) = PLAIN.iter().find(|(known, _)| *known == name)?;
                Some(ColumnType(plain.clone()))
            })
            .unwrap_or(ColumnType::TEXT)
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.0
    }

    /// What the texts of values are a form of; nothing for texts.
    pub(crate) fn kind(&self) -> Option<Kind> {
        use DataType as T;
        Some(match &self.0 {
            T::Utf8 => return None,
            T::Boolean => Kind::Boolean,
            T::Float32 | T::Float64 => Kind::Float,
            T::Date32 => Kind::Date,
            T::Time32(_) | T::Time64(_) => Kind::Time,
            T::Timestamp(..) => Kind::Timestamp,
            T::Decimal128(..) | T::Decimal256(..) => Kind::Decimal,
            _ => Kind::Integer,
        })
    }

    /// Whether there is a value of which this is the text.
    pub(crate) fn reads(&self, text: &str) -> bool {
        self.with(Readable(text))
    }

    /// The values of these texts; null where there is none.
    pub(crate) fn array<S: AsRef<str>>(&self, texts: &[Option<S>]) -> ArrayRef {
        self.with(Values(texts, &self.0))
    }

    /// Does what is wanted with how values of this type are read.
    fn with<R: Reading>(&self, reading: R) -> R::Done {
        use DataType as T;
        match &self.0 {
            T::Boolean => reading.booleans(|text| match text {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            }),
            T::Int8 => reading.values::<Int8Type>(spelt),
            T::Int16 => reading.values::<Int16Type>(spelt),
            T::Int32 => reading.values::<Int32Type>(spelt),
            T::Int64 => reading.values::<Int64Type>(spelt),
            T::UInt8 => reading.values::<UInt8Type>(spelt),
            T::UInt16 => reading.values::<UInt16Type>(spelt),
            T::UInt32 => reading.values::<UInt32Type>(spelt),
            T::UInt64 => reading.values::<UInt64Type>(spelt),
            T::Float32 => reading.values::<Float32Type>(float),
            T::Float64 => reading.values::<Float64Type>(float),
            T::Date32 => reading.values::<Date32Type>(|text| date(text)?.try_into().ok()),
            T::Time32(_) => {
                reading.values::<Time32MillisecondType>(|text| time(text, MS)?.try_into().ok())
            }
            T::Time64(TimeUnit::Microsecond) => {
                reading.values::<Time64MicrosecondType>(|text| time(text, US))
            }
            T::Time64(_) => reading.values::<Time64NanosecondType>(|text| time(text, NS)),
            T::Timestamp(TimeUnit::Microsecond, _) => {
                reading.values::<TimestampMicrosecondType>(|text| instant(text, US))
            }
            T::Timestamp(TimeUnit::Nanosecond, _) => {
                reading.values::<TimestampNanosecondType>(|text| instant(text, NS))
            }
            T::Timestamp(..) => {
                reading.values::<TimestampMillisecondType>(|text| instant(text, MS))
            }
            T::Decimal128(digits, places) => reading
                .values::<Decimal128Type>(|text| unscaled(text, *digits, *places)?.parse().ok()),
            T::Decimal256(digits, places) => reading.values::<Decimal256Type>(|text| {
                <Decimal256Type as ArrowPrimitiveType>::Native::from_string(&unscaled(
                    text, *digits, *places,
                )?)
            }),
            _ => reading.texts(),
        }
    }
}

/// What is done with texts, whatever values they are of.
trait Reading {
    type Done;

    fn texts(self) -> Self::Done;

    fn booleans(self, read: impl Fn(&str) -> Option<bool>) -> Self::Done;

    fn values<P: ArrowPrimitiveType>(self, read: impl Fn(&str) -> Option<P::Native>) -> Self::Done;
}

/// Tells whether this text has a value.
struct Readable<'a>(&'a str);

impl Reading for Readable<'_> {
    type Done = bool;

    fn texts(self) -> bool {
        true
    }

    fn booleans(self, read: impl Fn(&str) -> Option<bool>) -> bool {
        read(self.0).is_some()
    }

    fn values<P: ArrowPrimitiveType>(self, read: impl Fn(&str) -> Option<P::Native>) -> bool {
        read(self.0).is_some()
    }
}

/// Makes an array of the values of these texts, of this type.
struct Values<'a, S>(&'a [Option<S>], &'a DataType);

impl<S: AsRef<str>> Values<'_, S> {
    fn of_each<V>(&self, read: impl Fn(&str) -> Option<V>) -> impl Iterator<Item = Option<V>> {
        self.0.iter().map(move |text| read(text.as_ref()?.as_ref()))
    }
}

impl<S: AsRef<str>> Reading for Values<'_, S> {
    type Done = ArrayRef;

    fn texts(self) -> ArrayRef {
        Arc::new(StringArray::from_iter(self.0.iter().map(Option::as_ref)))
    }

    fn booleans(self, read: impl Fn(&str) -> Option<bool>) -> ArrayRef {
        Arc::new(BooleanArray::from_iter(self.of_each(read)))
    }

    fn values<P: ArrowPrimitiveType>(self, read: impl Fn(&str) -> Option<P::Native>) -> ArrayRef {
        let values = PrimitiveArray::<P>::from_iter(self.of_each(read));
        Arc::new(values.with_data_type(self.1.clone()))
    }
}

/// Its name, such as `int64`, `decimal(10,2)` or `timestamp(us,UTC)`.
impl Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DataType as T;
        let unit_name = |unit: &TimeUnit| {
            let known = UNITS.iter().find(|(_, known)| known == unit);
            known.map_or("", |(name, _)| name)
        };
        match &self.0 {
            T::Decimal128(digits, places) | T::Decimal256(digits, places) => {
                write!(f, "decimal({digits},{places})")
            }
            T::Time32(unit) | T::Time64(unit) => write!(f, "time({})", unit_name(unit)),
            T::Timestamp(unit, None) => write!(f, "timestamp({})", unit_name(unit)),
            T::Timestamp(unit, Some(zone)) => write!(f, "timestamp({},{zone})", unit_name(unit)),
            plain => {
                let known = PLAIN.iter().find(|(_, known)| known == plain);
                f.write_str(known.map_or("text", |(name, _)| name))
            }
        }
    }
}

/// What the values of a key column are, as far as it decides their texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyClass {
    /// Texts, and what one text is usual for: truth values, dates, UUIDs.
    Text,
    /// Whole numbers.
    Integer,
    /// Numbers with a scale, which is in their texts.
    Decimal,
    /// Times of day, and timestamps.
    Time,
    /// Bytes.
    Bytes,
}

impl KeyClass {
    pub(crate) fn of(data_type: &DataType) -> KeyClass {
        use DataType as T;
        match of_values(data_type) {
            T::Decimal32(_, scale)
            | T::Decimal64(_, scale)
            | T::Decimal128(_, scale)
            | T::Decimal256(_, scale)
                if *scale > 0 =>
            {
                KeyClass::Decimal
            }
            integer if integer.is_integer() || integer.is_decimal() => KeyClass::Integer,
            T::Time32(_) | T::Time64(_) | T::Timestamp(..) => KeyClass::Time,
            T::Binary | T::LargeBinary | T::BinaryView => KeyClass::Bytes,
            // Those of 16 bytes are UUIDs.
            T::FixedSizeBinary(bytes) if *bytes != 16 => KeyClass::Bytes,
            _ => KeyClass::Text,
        }
    }

    /// The two classes that a contract has of a key column, such as `decimal/text`, if texts are likely to differ where
    /// values do not under this normalisation: one that takes values as they come.
    pub fn apart<'c>(classes: &'c str, normalization: &str) -> Option<(&'c str, &'c str)> {
        let of_identifier = normalization.split_once('=');
        let normalization = of_identifier.map_or(normalization, |(_, profile)| profile);
        let (name, version) = normalization.split_once('/').unwrap_or((normalization, ""));
        let is_by_value = normalization == Profile::EXACT.id();
        let as_they_come = matches!((name, version), ("exact" | "text", "1" | "2"));
        let meet = classes == "integer/text" || is_by_value && classes == "decimal/integer";
        classes.split_once('/').filter(|_| as_they_come && !meet)
    }

    /// The name in contracts.
    pub fn name(self) -> &'static str {
        match self {
            KeyClass::Text => "text",
            KeyClass::Integer => "integer",
            KeyClass::Decimal => "decimal",
            KeyClass::Time => "time",
            KeyClass::Bytes => "bytes",
        }
    }
}

/// The type of the values of dictionaries and runs.
fn of_values(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => of_values(values),
        DataType::RunEndEncoded(_, values) => of_values(values.data_type()),
        plain => plain,
    }
}

/// The type of a name with parameters.
fn parameterised(name: &str) -> Option<ColumnType> {
    let (name, parameters) = name.strip_suffix(')')?.split_once('(')?;
    let (first, second) = match parameters.split_once(',') {
        Some((first, second)) => (first, Some(second)),
        None => (parameters, None),
    };
    let unit = || Some(UNITS.iter().find(|(known, _)| *known == first)?.1);
    match (name, second) {
        ("decimal", Some(places)) => decimal(first.parse().ok()?, places.parse().ok()?),
        ("time", None) => Some(ColumnType(match unit()? {
            unit @ TimeUnit::Millisecond => DataType::Time32(unit),
            unit => DataType::Time64(unit),
        })),
        ("timestamp", None) => Some(ColumnType(DataType::Timestamp(unit()?, None))),
        ("timestamp", Some(zone)) if is_zone(zone) => {
            Some(ColumnType(DataType::Timestamp(unit()?, Some(zone.into()))))
        }
        _ => None,
    }
}

/// Numbers of so many digits, some of them after the point.
fn decimal(digits: u8, places: u8) -> Option<ColumnType> {
    let scale = i8::try_from(places).ok().filter(|_| places <= digits)?;
    match digits {
        1..=38 => Some(ColumnType(DataType::Decimal128(digits, scale))),
        39..=76 => Some(ColumnType(DataType::Decimal256(digits, scale))),
        _ => None,
    }
}

/// Whether this is UTC or an offset from it, such as `+01:00`. Not every reader knows the name of every other zone.
fn is_zone(zone: &str) -> bool {
    let offset = zone.strip_prefix(['+', '-']).and_then(|offset| {
        let (hours, minutes) = offset.split_once(':')?;
        let digits =
            [hours, minutes].map(|two| two.len() == 2 && two.bytes().all(|b| b.is_ascii_digit()));
        let in_range = hours < "24" && minutes < "60";
        (digits == [true; 2] && in_range).then_some(())
    });
    zone == "UTC" || offset.is_some()
}

/// A value that has one text.
fn spelt<V: FromStr + Display>(text: &str) -> Option<V> {
    let value: V = text.parse().ok()?;
    (value.to_string() == text).then_some(value)
}

fn float<F: FromStr + fmt::Debug>(text: &str) -> Option<F> {
    let value: F = text.parse().ok()?;
    (format!("{value:?}") == text).then_some(value)
}

/// The digits of a decimal without its point, if there are so many after it.
fn unscaled(text: &str, digits: u8, scale: i8) -> Option<String> {
    let places = usize::from(scale.unsigned_abs());
    let point = text.len().checked_sub(places + usize::from(places > 0))?;
    let (whole, fraction) = text.split_at_checked(point)?;
    let both = [whole, fraction.strip_prefix('.').unwrap_or(fraction)].concat();
    let (sign, number) = match both.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", &*both),
    };
    let significant = number.trim_start_matches('0');
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || significant.len() > digits.into() {
        return None;
    }
    let unscaled = match significant {
        "" => "0".to_owned(),
        significant => format!("{sign}{significant}"),
    };
    let mut written = String::new();
    write_decimal(&unscaled, scale, &mut written);
    (written == text).then_some(unscaled)
}

/// Days since 1970-01-01.
fn date(text: &str) -> Option<i64> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut fields = unsigned.split('-').map(|field| field.parse::<u32>().ok());
    let [year, month, day] = [fields.next()??, fields.next()??, fields.next()??];
    let days = render::days_since_1970(sign * i64::from(year), month, day);
    let mut written = String::new();
    render::date(days, &mut written);
    (written == text).then_some(days)
}

/// Ticks since midnight. Nothing keeps a column from times beyond a day.
fn time(text: &str, per_second: i64) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut fields = clock.split(':').map(|field| field.parse::<i64>().ok());
    let [hour, minute, second] = [fields.next()??, fields.next()??, fields.next()??];
    let sixty = |whole: i64, part: i64| whole.checked_mul(60)?.checked_add(part);
    let seconds = sixty(sixty(hour, minute)?, second)?;
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    let mut written = String::new();
    render::time(seconds, nanos, &mut written);
    let each = NS / per_second;
    let ticks = seconds.checked_mul(per_second)?.checked_add(nanos / each);
    ticks.filter(|_| written == text && nanos % each == 0)
}

/// Ticks since 1970-01-01T00:00:00Z.
fn instant(text: &str, per_second: i64) -> Option<i64> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let a_day = SECONDS_A_DAY * per_second;
    let ticks = time(clock, per_second).filter(|ticks| (0..a_day).contains(ticks))?;
    // In the first day of all, midnight is out of range.
    let since_1970 = i128::from(date(day)?) * i128::from(a_day) + i128::from(ticks);
    since_1970.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Option<ArrayRef> {
        let of = ColumnType::named(name);
        assert_eq!(of.to_string(), name);
        let array = of.array(&[Some(text), None]);
        assert_eq!(array.data_type(), of.data_type());
        assert!(array.is_null(1));
        assert_eq!(of.reads(text), array.is_valid(0));
        array.is_valid(0).then(|| array.slice(0, 1))
    }

    #[test]
    fn names_stand_for_types() {
        for other in [
            "",
            "int128",
            "decimal(0,0)",
            "decimal(77,0)",
            "decimal(3,4)",
            "decimal(3,-1)",
            "decimal(3)",
            "time(s)",
            "time(ms,UTC)",
            "timestamp(us,)",
            "timestamp(us,a b)",
            "timestamp(us",
            "timestamp(us,Mars/Phobos)",
            "timestamp(us,+1:00)",
            "timestamp(us,+24:00)",
            "timestamp(us,+é:00)",
        ] {
            assert_eq!(ColumnType::named(other), ColumnType::TEXT, "{other}");
        }
        let of = |data_type: DataType| ColumnType::of(&data_type).to_string();
        use DataType as T;
        let seconds = TimeUnit::Second;
        assert_eq!(
            of(T::Timestamp(seconds, Some("Europe/Zurich".into()))),
            "timestamp(ms,UTC)"
        );
        assert_eq!(of(T::Time32(seconds)), "time(ms)");
        assert_eq!(of(T::Decimal64(10, 2)), "decimal(10,2)");
        assert_eq!(of(T::Decimal128(10, -2)), "text");
        assert_eq!(
            of(T::Dictionary(Box::new(T::Int8), Box::new(T::Int64))),
            "int64"
        );
        for text in [T::LargeUtf8, T::Binary, T::Date64, T::Float16, T::Null] {
            assert_eq!(of(text), "text");
        }
    }

    #[test]
    fn classes_are_of_what_decides_a_text() {
        use DataType as T;
        for (data_type, class) in [
            (T::UInt8, "integer"),
            (T::Decimal128(20, 0), "integer"),
            (T::Decimal256(40, 2), "decimal"),
            (T::Timestamp(TimeUnit::Second, None), "time"),
            (T::LargeBinary, "bytes"),
            (T::FixedSizeBinary(20), "bytes"),
            (T::FixedSizeBinary(16), "text"),
            (T::Date32, "text"),
            (T::Date64, "text"),
            (T::Boolean, "text"),
            (
                T::Dictionary(Box::new(T::Int8), Box::new(T::Int64)),
                "integer",
            ),
        ] {
            assert_eq!(KeyClass::of(&data_type).name(), class, "{data_type}");
        }
    }

    #[test]
    fn classes_are_apart_where_values_count_as_they_come() {
        for (classes, normalization, are_apart) in [
            ("decimal/text", "exact/2", true),
            ("decimal/integer", "exact/2", false),
            ("decimal/integer", "exact/1", true),
            ("text/time", "text/1", true),
            ("integer/text", "exact/1", false),
            ("decimal/text", "decimal/1", false),
            ("text", "exact/2", false),
        ] {
            let found = KeyClass::apart(classes, normalization);
            assert_eq!(found, classes.split_once('/').filter(|_| are_apart));
        }
    }

    #[test]
    fn values_have_one_text() {
        for (name, texts) in [
            ("text", &["", "a,b"][..]),
            ("boolean", &["true", "false"]),
            ("int8", &["-128", "0"]),
            ("uint64", &["18446744073709551615"]),
            ("float32", &["0.1", "-0.0", "NaN", "inf", "1e-45"]),
            ("float64", &["0.1", "5e-324", "-inf", "7.0"]),
            ("decimal(10,2)", &["12.50", "-0.05", "0.00", "99999999.99"]),
            ("decimal(3,0)", &["-999", "0"]),
            ("decimal(40,1)", &["123456789012345678901234567890.5"]),
            ("date", &["2024-02-29", "-0001-12-31", "+10000-01-01"]),
            ("time(ms)", &["00:00:00", "23:59:59.999", "25:00:00"]),
            ("time(us)", &["00:00:-1.999999", "2562047788:00:00"]),
            ("time(us)", &["08:30:00.000001"]),
            ("time(ns)", &["08:30:00.250"]),
            ("timestamp(ms)", &["1969-12-31T23:59:59.999Z"]),
            ("timestamp(us,-01:30)", &["1970-01-01T00:00:00.000001Z"]),
            (
                "timestamp(ns,UTC)",
                &[
                    "2023-11-14T22:13:20.250Z",
                    "1677-09-21T00:12:43.145224192Z",
                    "2262-04-11T23:47:16.854775807Z",
                ],
            ),
        ] {
            for text in texts {
                assert!(read(name, text).is_some(), "{name}: {text}");
            }
        }
        for (name, texts) in [
            ("boolean", &["True", "1", ""][..]),
            ("int8", &["128", "+1", "01", "-0", "", "1.0"]),
            ("float64", &["7", "1e400", "nan", "infinity", "0.10", ""]),
            (
                "decimal(4,2)",
                &[
                    "1.5", "1.500", "123.00", "-0.00", ".50", "1", "", "--1.00", "é.00",
                ],
            ),
            (
                "date",
                &[
                    "2023-02-29",
                    "2024-2-29",
                    "24-02-29",
                    "2024-02-29Z",
                    "",
                    "é",
                ],
            ),
            (
                "time(ms)",
                &[
                    "24:60:00",
                    "08:30:00.000001",
                    "08:30",
                    "08:30:00.0",
                    "9223372036854775807:00:00",
                    "",
                ],
            ),
            (
                "timestamp(us)",
                &[
                    "2024-02-29",
                    "2024-02-29T08:30:00",
                    "1970-01-01T00:00:00.000000001Z",
                    "1970-01-01T24:00:00Z",
                ],
            ),
            (
                "timestamp(ns)",
                &[
                    "9999-12-31T00:00:00Z",
                    "1677-09-21T00:12:43.145224191Z",
                    "TZ",
                ],
            ),
        ] {
            for text in texts {
                assert!(read(name, text).is_none(), "{name}: {text}");
            }
        }
        let expected: ArrayRef =
            Arc::new(PrimitiveArray::<TimestampMillisecondType>::from(vec![-1]));
        let found = read("timestamp(ms)", "1969-12-31T23:59:59.999Z");
        assert_eq!(found.as_ref(), Some(&expected));
    }
}
