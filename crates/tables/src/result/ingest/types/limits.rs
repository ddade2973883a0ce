//! Values for which a database has no room, although it has for their types: a driver or a server would refuse them, or
//! write others, once the rows that match are on their way.

use std::ops::RangeInclusive;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::database::Kind;
use crate::profile::render::{MS, NS, SECONDS_A_DAY, US};

/// The seconds of 24 November 4714 BC, before which PostgreSQL has no dates: its calendar begins with Julian day 0.
const JULIAN_0: i64 = -2_440_588 * SECONDS_A_DAY;

/// The last day before those that PostgreSQL does not have, in the year 5874897.
const LAST_DAY: i64 = 2_145_042_905;

/// The seconds of the years 0 to 9999, which SQLite's functions read and its driver writes.
const FOUR_DIGITS: RangeInclusive<i64> = -719_528 * SECONDS_A_DAY..=2_932_897 * SECONDS_A_DAY - 1;

/// What is wrong with any value of a column; `None` if nothing is.
pub(super) fn beyond(kind: Kind, column: &ArrayRef) -> Option<&'static str> {
    use DataType as T;
    if let (Kind::PostgreSql, T::List(_)) = (kind, column.data_type()) {
        let lists = column.as_list::<i32>();
        return lists
            .iter()
            .flatten()
            .find_map(|values| beyond(kind, &values));
    }
    if kind == Kind::PostgreSql && is_text(column.data_type()) {
        return has_zero(column).then_some("a text has a zero byte");
    }
    if kind == Kind::Sqlite && column.data_type().is_floating() {
        // It would be null there.
        return has_nan(column).then_some("NaN");
    }
    if let T::Interval(IntervalUnit::MonthDayNano) = column.data_type() {
        let intervals = column.as_primitive::<IntervalMonthDayNanoType>();
        let is_cut = |interval: IntervalMonthDayNano| interval.nanoseconds % 1000 != 0;
        let is_cut = kind == Kind::PostgreSql && intervals.iter().flatten().any(is_cut);
        return is_cut.then_some("an interval has nanoseconds");
    }
    let (range, value) = range(kind, column.data_type())?;
    let values = integers(column)?;
    let is_within = values.iter().all(|value| range.contains(value));
    (!is_within).then_some(value)
}

/// Whether [`beyond`] may find something in a column of this type.
pub(super) fn has_limits(kind: Kind, of: &DataType) -> bool {
    match (kind, of) {
        (Kind::PostgreSql, DataType::List(values)) => has_limits(kind, values.data_type()),
        (Kind::PostgreSql, DataType::Interval(_)) => true,
        (Kind::PostgreSql, of) if is_text(of) => true,
        (Kind::Sqlite, of) if of.is_floating() => true,
        (kind, of) => range(kind, of).is_some(),
    }
}

/// The numbers that may stand in a column of this type, and what another is called.
fn range(kind: Kind, of: &DataType) -> Option<(RangeInclusive<i64>, &'static str)> {
    use DataType as T;
    let dates = "a date is out of its range";
    let times = "a time is out of its range";
    Some(match (kind, of) {
        (Kind::PostgreSql, T::Date32) => (JULIAN_0 / SECONDS_A_DAY..=LAST_DAY, dates),
        (Kind::PostgreSql, T::Timestamp(unit, _)) => {
            let per_second = per_second(*unit);
            // The driver counts microseconds.
            let most = i64::MAX / (US / per_second).max(1);
            (JULIAN_0.saturating_mul(per_second)..=most, times)
        }
        (Kind::PostgreSql, T::Time32(unit) | T::Time64(unit)) => {
            (0..=SECONDS_A_DAY * per_second(*unit), times)
        }
        (Kind::PostgreSql, T::Duration(unit)) => {
            let most = i64::MAX / (US / per_second(*unit)).max(1);
            (-most..=most, "a duration is too long")
        }
        (Kind::Sqlite, T::Date32) => {
            let (first, last) = FOUR_DIGITS.into_inner();
            (first / SECONDS_A_DAY..=last / SECONDS_A_DAY, dates)
        }
        (Kind::Sqlite, T::Timestamp(unit, None)) => {
            let (first, last) = FOUR_DIGITS.into_inner();
            let per_second = per_second(*unit);
            let last = last.saturating_mul(per_second);
            let last = last.saturating_add(per_second - 1);
            (first.saturating_mul(per_second)..=last, times)
        }
        _ => return None,
    })
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => MS,
        TimeUnit::Microsecond => US,
        TimeUnit::Nanosecond => NS,
    }
}

/// The numbers in a column of dates, times or durations; `None` if it is one of others.
fn integers(column: &ArrayRef) -> Option<Vec<i64>> {
    fn of<T: ArrowPrimitiveType<Native: Into<i64>>>(column: &ArrayRef) -> Vec<i64> {
        let values = column.as_primitive::<T>().iter();
        values.flatten().map(Into::into).collect()
    }
    use DataType as T;
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    Some(match column.data_type() {
        T::Date32 => of::<Date32Type>(column),
        T::Time32(Second) => of::<Time32SecondType>(column),
        T::Time32(_) => of::<Time32MillisecondType>(column),
        T::Time64(Microsecond) => of::<Time64MicrosecondType>(column),
        T::Time64(_) => of::<Time64NanosecondType>(column),
        T::Timestamp(Second, _) => of::<TimestampSecondType>(column),
        T::Timestamp(Millisecond, _) => of::<TimestampMillisecondType>(column),
        T::Timestamp(Microsecond, _) => of::<TimestampMicrosecondType>(column),
        T::Timestamp(Nanosecond, _) => of::<TimestampNanosecondType>(column),
        T::Duration(Second) => of::<DurationSecondType>(column),
        T::Duration(Millisecond) => of::<DurationMillisecondType>(column),
        T::Duration(Microsecond) => of::<DurationMicrosecondType>(column),
        T::Duration(Nanosecond) => of::<DurationNanosecondType>(column),
        _ => return None,
    })
}

fn is_text(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Whether a text has a zero byte.
fn has_zero(texts: &ArrayRef) -> bool {
    fn any<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> bool {
        let mut texts = texts.flatten();
        texts.any(|text| memchr::memchr(0, text.as_bytes()).is_some())
    }
    match texts.data_type() {
        DataType::Utf8 => any(texts.as_string::<i32>().iter()),
        DataType::LargeUtf8 => any(texts.as_string::<i64>().iter()),
        _ => any(texts.as_string_view().iter()),
    }
}

/// Whether a float is no number.
fn has_nan(floats: &ArrayRef) -> bool {
    match floats.data_type() {
        DataType::Float16 => {
            let mut floats = floats.as_primitive::<Float16Type>().iter().flatten();
            floats.any(|value| value.is_nan())
        }
        DataType::Float32 => {
            let mut floats = floats.as_primitive::<Float32Type>().iter().flatten();
            floats.any(f32::is_nan)
        }
        _ => {
            let mut floats = floats.as_primitive::<Float64Type>().iter().flatten();
            floats.any(f64::is_nan)
        }
    }
}
