//! The values of rows: whole numbers of units of a declared power of ten.

use vesica_files::{Argument, advice};
use vesica_keys::Column;

use crate::error::{Error, ErrorKind, Result, ValueProblem};
use crate::profile::canonical::Value;
use crate::profile::render::Kind;

/// The column whose values a run computes with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueColumn {
    /// Its name, exactly as in the table.
    pub name: String,
    /// Digits after the decimal point, at most 18: values are counted in units of 10^-`scale`.
    pub scale: u8,
    /// The largest absolute value of a key, in these units, at most 2^63 − 1.
    pub bound: u64,
    /// Whether a key that several rows have takes the sum of their values; otherwise such a table is refused.
    pub sums_repeated: bool,
}

/// The most digits after the decimal point.
const MAX_SCALE: u8 = 18;

impl ValueColumn {
    /// A column whose keys have values of at most `bound`, written as values are; 2^31 − 1 units if it is `None`.
    ///
    /// # Errors
    /// Usage: more than 18 digits after the decimal point, or a bound that is no number above 0, has more digits than that
    /// or exceeds 2^63 − 1 units.
    pub fn new(
        name: &str,
        scale: u8,
        bound: Option<&str>,
        sums_repeated: bool,
    ) -> Result<ValueColumn> {
        if scale > MAX_SCALE {
            let remedy = advice![Argument::ValueScale, format!(" is from 0 to {MAX_SCALE}")];
            let problem = format!("{scale} digits after the decimal point are too many");
            return Err(Error::usage_with(problem, remedy));
        }
        let bound = match bound.map(|bound| (bound, parse(bound, scale))) {
            None => i32::MAX as u64,
            Some((_, Ok(units @ 1..))) => units as u64,
            Some((bound, _)) => {
                // At most 60 bits.
                let most = i64::MAX / 10i64.pow(scale.into());
                let remedy = advice![
                    Argument::ValueBound,
                    format!(" is a number above 0 and up to {most} at "),
                    Argument::ValueScale,
                    format!(" {scale}"),
                ];
                let problem = format!(
                    "a bound of {bound} is impossible with {scale} digits after the decimal point"
                );
                return Err(Error::usage_with(problem, remedy));
            }
        };
        Ok(ValueColumn {
            name: name.to_owned(),
            scale,
            bound,
            sums_repeated,
        })
    }

    /// The value of a row in units, whatever the bound: that is for the sum over the rows of a key.
    pub(crate) fn units(&self, value: Value<'_>) -> Result<i64> {
        let units = match value {
            Value::Null => Err(ValueProblem::Empty),
            Value::Text(text) => str::from_utf8(text)
                .map_err(|_| ValueProblem::NotANumber)
                .and_then(|text| parse(text, self.scale)),
            Value::Typed(Kind::Integer | Kind::Decimal, text) => parse(text, self.scale),
            Value::Bytes(_) | Value::Typed(..) | Value::List(_) => Err(ValueProblem::NotANumber),
        };
        units.map_err(|problem| self.wrong(problem))
    }

    /// How the values of the rows of a key become one.
    pub(crate) fn rule(&self) -> Column {
        Column {
            bound: self.bound,
            sums_repeated: self.sums_repeated,
        }
    }

    /// An error about a row's value.
    pub(crate) fn wrong(&self, problem: ValueProblem) -> Error {
        Error::new(ErrorKind::BadValue { problem }).in_column(&self.name)
    }
}

/// Units of 10^-`scale` in a number such as `-12.50`. White space around it does not count.
fn parse(text: &str, scale: u8) -> Result<i64, ValueProblem> {
    let text = text.trim();
    if text.is_empty() {
        return Err(ValueProblem::Empty);
    }
    let (negative, digits) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return Err(ValueProblem::NotANumber);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > usize::from(scale) {
        return Err(ValueProblem::TooManyDigits);
    }
    let padding = usize::from(scale) - fraction.len();
    let digits = whole
        .bytes()
        .chain(fraction.bytes())
        .chain(std::iter::repeat_n(b'0', padding));
    let units = digits
        .map(|digit| i64::from(digit - b'0'))
        .try_fold(0i64, |units, digit| {
            // Downwards, since the least number has no positive counterpart.
            units.checked_mul(10)?.checked_sub(digit)
        });
    let units = match negative {
        true => units,
        false => units.and_then(i64::checked_neg),
    };
    units.ok_or(ValueProblem::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_values_are() {
        let bound = |scale, bound| {
            let column = ValueColumn::new("n", scale, bound, true);
            column.map(|column| column.bound).map_err(|e| e.to_string())
        };
        assert_eq!(bound(2, None), Ok(i32::MAX as u64));
        assert_eq!(bound(2, Some("1000")), Ok(100_000));
        assert_eq!(bound(2, Some("99.99")), Ok(9_999));
        assert_eq!(bound(0, Some("9223372036854775807")), Ok(i64::MAX as u64));
        assert_eq!(bound(18, Some("9")), Ok(9_000_000_000_000_000_000));
        for (scale, most) in [
            (0, "0"),
            (0, "-1"),
            (0, "9.5"),
            (2, "9.999"),
            (0, "many"),
            (18, "10"),
            (0, "18446744073709551615"),
            (19, "1"),
        ] {
            assert!(bound(scale, Some(most)).is_err(), "{scale} {most}");
        }
    }

    #[test]
    fn numbers_become_units() {
        for (text, scale, units) in [
            ("0", 0, 0),
            ("-0", 2, 0),
            ("12", 0, 12),
            ("12", 2, 1200),
            ("+12.5", 2, 1250),
            ("-12.500000", 2, -1250),
            (" 007 ", 0, 7),
            (".5", 1, 5),
            ("5.", 1, 50),
            ("-9223372036854775808", 0, i64::MIN),
            ("9223372036854775807", 0, i64::MAX),
            ("9.223372036854775807", 18, i64::MAX),
        ] {
            assert_eq!(parse(text, scale), Ok(units), "{text}");
        }
        for (text, scale) in [
            ("", 0),
            (" ", 0),
            ("-", 0),
            (".", 2),
            ("1e3", 0),
            ("1,000", 0),
            ("0x10", 0),
            ("1.2.3", 4),
            ("--1", 0),
            ("€5", 0),
            ("NaN", 0),
            ("1.25", 1),
            ("9223372036854775808", 0),
            ("-9223372036854775809", 0),
            ("1", 19),
            ("99999999999999999999999999", 0),
        ] {
            assert!(parse(text, scale).is_err(), "{text} at {scale}");
        }
    }

    #[test]
    fn values_of_other_types_and_sums_beyond_the_bound_are_refused() {
        let column = ValueColumn {
            name: "spent".into(),
            scale: 2,
            bound: 10_000,
            sums_repeated: true,
        };
        let units = |value| column.units(value);
        assert_eq!(units(Value::Text(b"-100.01")).unwrap(), -10_001);
        assert_eq!(units(Value::Typed(Kind::Decimal, "1.5")).unwrap(), 150);
        for value in [
            Value::Null,
            Value::Text(b""),
            Value::Text(b"\xff"),
            Value::Text(b"100.012"),
            Value::Typed(Kind::Date, "2024-02-29"),
            Value::Bytes(b"1"),
        ] {
            let error = units(value).unwrap_err();
            assert_eq!(error.place().column.as_deref(), Some("spent"));
            assert!(!error.to_string().contains("100.01"));
        }
    }
}
