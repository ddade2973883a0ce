//! The types that columns keep when they are handed over as texts: their names, and values from their texts.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

use arrow_array::types::*;
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringArray};
use arrow_schema::{DataType, TimeUnit};

use crate::render::{self, Kind, SECONDS_A_DAY};

/// What the values of a column are whose texts are handed over: texts, or a type that Parquet and Arrow have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnType(DataType);

/// Longest name of a time zone.
const MAX_ZONE: usize = 40;

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

/// Units of times and timestamps, and how many make a second.
const UNITS: [(&str, TimeUnit, i64); 3] = [
    ("ms", TimeUnit::Millisecond, 1_000),
    ("us", TimeUnit::Microsecond, 1_000_000),
    ("ns", TimeUnit::Nanosecond, 1_000_000_000),
];

impl ColumnType {
    /// Texts.
    pub const TEXT: ColumnType = ColumnType(DataType::Utf8);

    /// The type that has the values of this one; texts if there is none.
    pub(crate) fn of(data_type: &DataType) -> ColumnType {
        use DataType as T;
        let milliseconds = TimeUnit::Millisecond;
        match data_type {
            T::Dictionary(_, values) => ColumnType::of(values),
            T::RunEndEncoded(_, values) => ColumnType::of(values.data_type()),
            T::Decimal32(digits, scale)
            | T::Decimal64(digits, scale)
            | T::Decimal128(digits, scale)
            | T::Decimal256(digits, scale) => match u8::try_from(*scale) {
                Ok(places) => decimal(*digits, places),
                Err(_) => None,
            }
            .unwrap_or(ColumnType::TEXT),
            T::Time32(_) => ColumnType(T::Time32(milliseconds)),
            T::Time64(unit) => ColumnType(T::Time64(*unit)),
            T::Timestamp(unit, zone) => {
                let unit = match unit {
                    TimeUnit::Second => milliseconds,
                    unit => *unit,
                };
                // The instants are the same in any zone.
                let zone = zone
                    .as_deref()
                    .map(|zone| if is_zone(zone) { zone } else { "UTC" });
                ColumnType(T::Timestamp(unit, zone.map(Arc::from)))
            }
            plain => match PLAIN.iter().any(|(_, known)| known == plain) {
                true => ColumnType(plain.clone()),
                false => ColumnType::TEXT,
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
        self.0 == DataType::Utf8 || self.array(&[Some(text)]).is_valid(0)
    }

    /// The values of these texts; null where there is none.
    pub(crate) fn array<S: AsRef<str>>(&self, texts: &[Option<S>]) -> ArrayRef {
        use DataType as T;
        let texts = texts.iter().map(|text| text.as_ref().map(AsRef::as_ref));
        match &self.0 {
            T::Boolean => Arc::new(BooleanArray::from_iter(texts.map(|text| match text? {
                "true" => Some(true),
                "false" => Some(false),
                _ => None,
            }))),
            T::Int8 => spelt::<Int8Type>(texts),
            T::Int16 => spelt::<Int16Type>(texts),
            T::Int32 => spelt::<Int32Type>(texts),
            T::Int64 => spelt::<Int64Type>(texts),
            T::UInt8 => spelt::<UInt8Type>(texts),
            T::UInt16 => spelt::<UInt16Type>(texts),
            T::UInt32 => spelt::<UInt32Type>(texts),
            T::UInt64 => spelt::<UInt64Type>(texts),
            T::Float32 => values::<Float32Type>(texts, float),
            T::Float64 => values::<Float64Type>(texts, float),
            T::Date32 => values::<Date32Type>(texts, |text| date(text)?.try_into().ok()),
            T::Time32(_) => {
                values::<Time32MillisecondType>(texts, |text| time(text, 1_000)?.try_into().ok())
            }
            T::Time64(TimeUnit::Microsecond) => {
                values::<Time64MicrosecondType>(texts, |text| time(text, 1_000_000))
            }
            T::Time64(_) => values::<Time64NanosecondType>(texts, |text| time(text, 1_000_000_000)),
            T::Timestamp(TimeUnit::Microsecond, _) => {
                self.values_of::<TimestampMicrosecondType>(texts, |text| instant(text, 1_000_000))
            }
            T::Timestamp(TimeUnit::Nanosecond, _) => self
                .values_of::<TimestampNanosecondType>(texts, |text| instant(text, 1_000_000_000)),
            T::Timestamp(..) => {
                self.values_of::<TimestampMillisecondType>(texts, |text| instant(text, 1_000))
            }
            T::Decimal128(digits, places) => self.values_of::<Decimal128Type>(texts, |text| {
                unscaled(text, *digits, *places)?.parse().ok()
            }),
            T::Decimal256(digits, places) => self.values_of::<Decimal256Type>(texts, |text| {
                <Decimal256Type as ArrowPrimitiveType>::Native::from_string(&unscaled(
                    text, *digits, *places,
                )?)
            }),
            _ => Arc::new(StringArray::from_iter(texts)),
        }
    }

    fn values_of<'t, P: ArrowPrimitiveType>(
        &self,
        texts: impl Iterator<Item = Option<&'t str>>,
        read: impl Fn(&str) -> Option<P::Native>,
    ) -> ArrayRef {
        let values = texts.map(|text| read(text?));
        Arc::new(PrimitiveArray::<P>::from_iter(values).with_data_type(self.0.clone()))
    }
}

/// Its name, such as `int64`, `decimal(10,2)` or `timestamp(us,UTC)`.
impl Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use DataType as T;
        let unit_name = |unit: &TimeUnit| {
            let known = UNITS.iter().find(|(_, known, _)| known == unit);
            known.map_or("", |(name, ..)| name)
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

/// The type of a name with parameters.
fn parameterised(name: &str) -> Option<ColumnType> {
    let (name, parameters) = name.strip_suffix(')')?.split_once('(')?;
    let (first, second) = match parameters.split_once(',') {
        Some((first, second)) => (first, Some(second)),
        None => (parameters, None),
    };
    let unit = || Some(UNITS.iter().find(|(known, ..)| *known == first)?.1);
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

/// Whether this can be the name or offset of a time zone.
fn is_zone(zone: &str) -> bool {
    let is_of_zone = |c: char| c.is_ascii_alphanumeric() || "+-_/:".contains(c);
    (1..=MAX_ZONE).contains(&zone.len()) && zone.chars().all(is_of_zone)
}

fn values<'t, P: ArrowPrimitiveType>(
    texts: impl Iterator<Item = Option<&'t str>>,
    read: impl Fn(&str) -> Option<P::Native>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<P>::from_iter(
        texts.map(|text| read(text?)),
    ))
}

/// Values that have one text each.
fn spelt<'t, P: ArrowPrimitiveType<Native: FromStr + Display>>(
    texts: impl Iterator<Item = Option<&'t str>>,
) -> ArrayRef {
    values::<P>(texts, |text| {
        let value: P::Native = text.parse().ok()?;
        (value.to_string() == text).then_some(value)
    })
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
    render::decimal(&unscaled, scale, &mut written);
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

/// Seconds and nanoseconds of a time of day.
fn seconds(text: &str) -> Option<(i64, i64)> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut fields = clock.split(':').map(|field| field.parse::<u16>().ok());
    let [hour, minute, second] = [fields.next()??, fields.next()??, fields.next()??].map(i64::from);
    let seconds = (hour * 60 + minute) * 60 + second;
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    let mut written = String::new();
    render::time(seconds, nanos, &mut written);
    (written == text).then_some((seconds, nanos))
}

/// Ticks of a time of day.
fn time(text: &str, per_second: i64) -> Option<i64> {
    let (seconds, nanos) = seconds(text)?;
    let each = 1_000_000_000 / per_second;
    (nanos % each == 0 && seconds < SECONDS_A_DAY).then_some(seconds * per_second + nanos / each)
}

/// Ticks since 1970-01-01T00:00:00Z.
fn instant(text: &str, per_second: i64) -> Option<i64> {
    let (day, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let midnight = date(day)?.checked_mul(SECONDS_A_DAY * per_second)?;
    midnight.checked_add(time(clock, per_second)?)
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
        let zone: String = "Z".repeat(MAX_ZONE + 1);
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
            &format!("timestamp(us,{zone})"),
        ] {
            assert_eq!(ColumnType::named(other), ColumnType::TEXT, "{other}");
        }
        let of = |data_type: DataType| ColumnType::of(&data_type).to_string();
        use DataType as T;
        let seconds = TimeUnit::Second;
        assert_eq!(
            of(T::Timestamp(seconds, Some("a b".into()))),
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
            ("time(ms)", &["00:00:00", "23:59:59.999"]),
            ("time(us)", &["08:30:00.000001"]),
            ("time(ns)", &["08:30:00.250"]),
            ("timestamp(ms)", &["1969-12-31T23:59:59.999Z"]),
            (
                "timestamp(us,Europe/Zurich)",
                &["1970-01-01T00:00:00.000001Z"],
            ),
            ("timestamp(ns,UTC)", &["2023-11-14T22:13:20.250Z"]),
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
                &["24:00:00", "08:30:00.000001", "08:30", "08:30:00.0", ""],
            ),
            (
                "timestamp(us)",
                &[
                    "2024-02-29",
                    "2024-02-29T08:30:00",
                    "1970-01-01T00:00:00.000000001Z",
                ],
            ),
            ("timestamp(ns)", &["9999-12-31T00:00:00Z", "TZ"]),
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
