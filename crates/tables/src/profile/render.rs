//! Typed values as canonical text: decimal integers, ISO 8601 dates and times, RFC 3339
//! timestamps in UTC, lower-case hyphenated UUIDs.

use std::fmt::Write;

pub(crate) const SECONDS_A_DAY: i64 = 86_400;

/// Milliseconds in a second.
pub(crate) const MS: i64 = 1_000;

/// Microseconds in a second.
pub(crate) const US: i64 = 1_000_000;

/// Nanoseconds in a second.
pub(crate) const NS: i64 = 1_000_000_000;

// Writing to a String cannot fail; the results of `write!` below carry no information.

/// The types that are rendered as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Integer,
    Decimal,
    Boolean,
    Date,
    Time,
    Timestamp,
    Uuid,
    /// A whole number that is stored as a float, or else a text that no profile takes.
    Float,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Decimal => "decimal",
            Kind::Boolean => "boolean",
            Kind::Date => "date",
            Kind::Time => "time",
            Kind::Timestamp => "timestamp",
            Kind::Uuid => "uuid",
            Kind::Float => "float",
        }
    }
}

/// A day counted from 1970-01-01 as `YYYY-MM-DD` of the proleptic Gregorian calendar. Years
/// outside 0000 to 9999 carry a sign, as ISO 8601 asks.
pub(crate) fn date(days: i64, out: &mut String) {
    // The calendar repeats every 146,097 days; a year that starts in March puts the leap day
    // at its end.
    let shifted = i128::from(days) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + i128::from(month <= 2);
    let _ = if (0..=9999).contains(&year) {
        write!(out, "{year:04}-{month:02}-{day:02}")
    } else {
        write!(out, "{year:+05}-{month:02}-{day:02}")
    };
}

/// A time of day as `HH:MM:SS`, with three, six or nine decimals if it has any, whatever the
/// unit it was stored in.
pub(crate) fn time(seconds: i64, nanos: i64, out: &mut String) {
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let _ = write!(out, "{hour:02}:{minute:02}:{second:02}");
    let _ = if nanos == 0 {
        Ok(())
    } else if nanos % 1_000_000 == 0 {
        write!(out, ".{:03}", nanos / 1_000_000)
    } else if nanos % 1_000 == 0 {
        write!(out, ".{:06}", nanos / 1_000)
    } else {
        write!(out, ".{nanos:09}")
    };
}

/// An instant counted from 1970-01-01T00:00:00Z in ticks of which `per_second` make a second.
pub(crate) fn timestamp(ticks: i64, per_second: i64, out: &mut String) {
    let seconds = ticks.div_euclid(per_second);
    let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
    instant(seconds, nanos, out);
}

/// An instant in UTC, so many seconds and nanoseconds after 1970-01-01T00:00:00Z.
pub(crate) fn instant(seconds: i64, nanos: i64, out: &mut String) {
    date(seconds.div_euclid(SECONDS_A_DAY), out);
    out.push('T');
    time(seconds.rem_euclid(SECONDS_A_DAY), nanos, out);
    out.push('Z');
}

/// The day that [`date`] writes as this year, month and day.
pub(crate) fn days_since_1970(year: i64, month: u32, day: u32) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    // As there, a year starts in March.
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// A byte as two hexadecimal digits in lower case.
pub(crate) fn hex_pair(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

/// Bytes as hexadecimal digits in lower case.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| hex_pair(*byte));
    digits.map(char::from).collect()
}

/// Sixteen bytes as `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`.
pub(crate) fn uuid(bytes: &[u8], out: &mut String) {
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        out.extend(hex_pair(*byte).map(char::from));
    }
}

/// A float that stands for exactly one integer as that integer: a whole number below `limit`, from which on several
/// integers become the same float. Any other number has an exponent or a fraction, and `NaN`, which some programs
/// write for null, is empty.
pub(crate) fn float(value: f64, limit: f64, out: &mut String) {
    let _ = if value.is_nan() {
        Ok(())
    } else if value == value.trunc() && value.abs() < limit {
        // No integer is -0.
        write!(out, "{}", value + 0.0)
    } else if value == value.trunc() {
        write!(out, "{value:e}")
    } else {
        write!(out, "{value}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        f(&mut out);
        out
    }

    #[test]
    fn dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
        ] {
            assert_eq!(text(|o| date(days, o)), expected);
        }
        text(|o| date(i64::MIN, o));
        text(|o| date(i64::MAX, o));
    }

    #[test]
    fn an_instant_is_the_same_in_every_unit() {
        for (ticks, per_second) in [
            (1_700_000_000_250, 1_000),
            (1_700_000_000_250_000, 1_000_000),
            (1_700_000_000_250_000_000, 1_000_000_000),
        ] {
            assert_eq!(
                text(|o| timestamp(ticks, per_second, o)),
                "2023-11-14T22:13:20.250Z"
            );
        }
        assert_eq!(text(|o| timestamp(-1, 1, o)), "1969-12-31T23:59:59Z");
        assert_eq!(
            text(|o| timestamp(-1, 1_000_000_000, o)),
            "1969-12-31T23:59:59.999999999Z"
        );
        text(|o| timestamp(i64::MIN, 1, o));
    }

    #[test]
    fn floats_are_integers_only_where_they_are_exact() {
        const LIMIT: f64 = 9_007_199_254_740_992.0;
        for (value, expected) in [
            (7.0, "7"),
            (-7.0, "-7"),
            (-0.0, "0"),
            (LIMIT - 1.0, "9007199254740991"),
            (LIMIT, "9.007199254740992e15"),
            (1e300, "1e300"),
            (7.5, "7.5"),
            (f64::NAN, ""),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(text(|o| float(value, LIMIT, o)), expected);
        }
    }

    #[test]
    fn uuids_in_lower_case() {
        let bytes: Vec<u8> = (0..16).map(|i| i * 17).collect();
        assert_eq!(
            text(|o| uuid(&bytes, o)),
            "00112233-4455-6677-8899-aabbccddeeff"
        );
    }
}
