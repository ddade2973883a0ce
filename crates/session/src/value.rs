//! What a side says of the values that it has for its keys.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use vesica_files::many;
use vesica_psi::{MAX_VALUE_COLUMNS, Reveal, Reveals, Values};
use vesica_wire::{Error as WireError, Limit};

use crate::codec::{Reader, bad, impossible};

/// The most digits after the decimal point.
pub const MAX_SCALE: u8 = 18;

/// A column of values that a side has for its keys: whole numbers of units of 10^-`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueTerms {
    /// The largest absolute value of a key, in units of 10^-`scale`; declared, since the largest one of the data
    /// would tell something about it. From 1 to 2^63 − 1.
    pub bound: u64,
    /// Digits after the decimal point, at most [`MAX_SCALE`].
    pub scale: u8,
    /// The value of a key that several rows have.
    pub repeated: RepeatedKeys,
}

/// The value of a key that several rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepeatedKeys {
    /// The sum of the rows' values.
    Sum,
    /// There is none: such a table is refused.
    Refuse,
}

impl ValueTerms {
    /// The problem with these terms, if there is one.
    pub(crate) fn problem(self) -> Option<&'static str> {
        if !(1..=i64::MAX as u64).contains(&self.bound) {
            Some("a bound is from 1 to 2^63 - 1")
        } else if self.scale > MAX_SCALE {
            Some("more than 18 digits after the decimal point")
        } else {
            None
        }
    }

    /// Each column, and a zero.
    pub(crate) fn put(columns: &[Self], out: &mut Vec<u8>) {
        for terms in columns {
            out.push(match terms.repeated {
                RepeatedKeys::Sum => 1,
                RepeatedKeys::Refuse => 2,
            });
            out.push(terms.scale);
            out.extend_from_slice(&terms.bound.to_le_bytes());
        }
        out.push(0);
    }

    /// What [`ValueTerms::put`] has written, of at most [`MAX_VALUE_COLUMNS`] columns.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Vec<Self>, WireError> {
        let mut columns = Vec::new();
        loop {
            let repeated = match reader.u8()? {
                0 => return Ok(columns),
                _ if columns.len() == MAX_VALUE_COLUMNS => {
                    return Err(bad("values", "too many columns"));
                }
                1 => RepeatedKeys::Sum,
                2 => RepeatedKeys::Refuse,
                _ => return Err(bad("values", "unknown code")),
            };
            let terms = ValueTerms {
                repeated,
                scale: reader.u8()?,
                bound: reader.u64()?,
            };
            if let Some(problem) = terms.problem() {
                return Err(bad("values", problem));
            }
            columns.push(terms);
        }
    }
}

impl fmt::Display for ValueTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValueTerms { bound, scale, .. } = self;
        write!(f, "up to {bound} units of 10^-{scale}")
    }
}

/// A decimal number: so many units of 10^-`scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The number of units.
    pub units: i128,
    /// Digits after the decimal point.
    pub scale: u8,
}

/// All digits of the scale, as in `-12.50`.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        let digits = format!("{:0width$}", self.units.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if self.units < 0 { "-" } else { "" };
        let point = if scale > 0 { "." } else { "" };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// A whole number where there are no digits after the point, else text, which keeps them all.
impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.scale {
            0 => to.serialize_i128(self.units),
            _ => to.collect_str(self),
        }
    }
}

/// Named numbers as an object.
pub(crate) fn by_name<S: Serializer>(
    values: &Option<Vec<(String, Decimal)>>,
    to: S,
) -> Result<S::Ok, S::Error> {
    match values {
        None => to.serialize_none(),
        Some(values) => to.collect_map(values.iter().map(|(name, value)| (name, value))),
    }
}

/// Whether what is revealed can be computed of the values that both sides have.
///
/// # Errors
/// What is wrong with them.
pub fn check_values(reveal: Reveals, columns: [&[ValueTerms]; 2]) -> Result<(), WireError> {
    match reveal.takes_values(values(columns)) {
        true => Ok(()),
        false => Err(impossible("values", problem(reveal, columns))),
    }
}

/// What is wrong with the values of both sides, neither of which is by itself: only sums are over those of one side.
fn problem(reveal: Reveals, columns: [&[ValueTerms]; 2]) -> String {
    let who = match columns.iter().all(|columns| columns.is_empty()) {
        true => "neither has any",
        false => "both have some",
    };
    format!("the {reveal} is over the values of one side, and {who}")
}

/// What an item adds to a number, by the values that it has under these terms.
fn added(
    (reveal, column): (Reveal, usize),
    columns: [&[ValueTerms]; 2],
    value: impl Fn(&ValueTerms) -> i128,
) -> i128 {
    let values = columns.map(|columns| columns.get(column).map_or(0, &value));
    reveal.adds(values).unwrap_or(0)
}

/// Digits after the decimal point of each number.
pub(crate) fn scales(reveal: Reveals, columns: [&[ValueTerms]; 2]) -> Vec<u8> {
    let numbers = reveal.numbers(values(columns)).into_iter();
    numbers.map(|number| scale(number, columns)).collect()
}

/// Digits after the decimal point of a number.
pub(crate) fn scale(number: (Reveal, usize), columns: [&[ValueTerms]; 2]) -> u8 {
    let unit = added(number, columns, |terms| 10i128.pow(terms.scale.into()));
    unit.checked_ilog10().unwrap_or(0) as u8
}

/// How many values each side has.
pub(crate) fn values([receiver, sender]: [&[ValueTerms]; 2]) -> Values {
    // At most `MAX_VALUE_COLUMNS`.
    let count = |columns: &[ValueTerms]| columns.len().try_into().unwrap_or(u8::MAX);
    Values {
        receiver: count(receiver),
        sender: count(sender),
    }
}

/// The largest absolute value that a number can have for `most` items in common.
pub(crate) fn largest(number: (Reveal, usize), columns: [&[ValueTerms]; 2], most: u64) -> u128 {
    let each = added(number, columns, |terms| terms.bound.into());
    each.unsigned_abs().saturating_mul(most.into())
}

/// Refuses what could exceed 63 bits and a sign for `most` items in common.
pub(crate) fn check_size(
    reveal: Reveals,
    columns: [&[ValueTerms]; 2],
    most: u64,
) -> Result<(), WireError> {
    for number in reveal.numbers(values(columns)) {
        if largest(number, columns, most) > i64::MAX as u128 {
            let reason = format!(
                "with {} and the bounds that were declared, the {} could exceed 63 bits",
                many(most, "key"),
                number.0
            );
            return Err(WireError::limit(Limit::Values, reason));
        }
    }
    Ok(())
}

/// Refuses numbers that the peer tells and no run can have: more than the bounds allow for `most` items in common, with noise
/// up to the span of each. Without noise they are those of as many items as the size among them; a noisy size says nothing of
/// other numbers.
pub(crate) fn check_told(
    reveal: Reveals,
    columns: [&[ValueTerms]; 2],
    (most, spans): (u64, &[u64]),
    told: &[i128],
) -> Result<(), WireError> {
    let numbers = reveal.numbers(values(columns)).into_iter();
    let mut most = most;
    for ((number, told), span) in numbers.zip(told).zip(spans) {
        let largest = largest(number, columns, most).saturating_add((*span).into());
        if told.unsigned_abs() > largest {
            return Err(bad("outcome", "more than the declared bounds allow"));
        }
        if number.0 == Reveal::Size && *span == 0 {
            most = told.unsigned_abs() as u64;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(bound: u64, scale: u8) -> Vec<ValueTerms> {
        vec![ValueTerms {
            bound,
            scale,
            repeated: RepeatedKeys::Sum,
        }]
    }

    #[test]
    fn terms_come_back_from_the_wire_and_nonsense_does_not() {
        let most = terms(7, 1).repeat(MAX_VALUE_COLUMNS);
        for case in [
            vec![],
            terms(1, 0),
            terms(i64::MAX as u64, 18),
            most.clone(),
        ] {
            let mut out = Vec::new();
            ValueTerms::put(&case, &mut out);
            let mut reader = Reader::new("values", &out);
            assert_eq!(ValueTerms::read(&mut reader).unwrap(), case);
            reader.end().unwrap();
        }
        let more = [most, terms(7, 1)].concat();
        for case in [terms(0, 0), terms(1 << 63, 0), terms(1, 19), more] {
            let mut out = Vec::new();
            ValueTerms::put(&case, &mut out);
            assert!(ValueTerms::read(&mut Reader::new("values", &out)).is_err());
        }
        assert!(ValueTerms::read(&mut Reader::new("values", &[3; 10])).is_err());
    }

    #[test]
    fn decimals_have_all_digits_of_their_scale() {
        for (units, scale, text) in [
            (0, 0, "0"),
            (-7, 0, "-7"),
            (0, 2, "0.00"),
            (-5, 2, "-0.05"),
            (1234, 2, "12.34"),
            (i128::from(i64::MIN), 18, "-9.223372036854775808"),
        ] {
            assert_eq!(Decimal { units, scale }.to_string(), text);
        }
    }

    #[test]
    fn results_that_could_overflow_are_refused() {
        let sum = |bound, most| check_size(Reveal::Sum.into(), [&terms(bound, 0), &[]], most);
        assert!(sum((1 << 31) - 1, 1 << 31).is_ok());
        assert!(sum(1 << 32, 1 << 31).is_err());
        let product = |a, b, most| {
            let (reveal, ours, theirs) = (Reveal::InnerProduct.into(), terms(a, 2), terms(b, 3));
            (
                check_size(reveal, [&ours, &theirs], most).is_ok(),
                scales(reveal, [&ours, &theirs])[0],
            )
        };
        assert_eq!(product(1 << 31, 1 << 31, 1), (true, 5));
        assert_eq!(product(1 << 31, 1 << 31, 2), (false, 5));
        assert_eq!(
            product(i64::MAX as u64, i64::MAX as u64, u64::MAX),
            (false, 5)
        );
        assert!(check_size(Reveal::Size.into(), [&[]; 2], u64::MAX >> 1).is_ok());
        // Each sum by its own bound.
        let both: Reveals = "size,sum".parse().unwrap();
        let columns = [terms(1 << 31, 2), terms(1 << 33, 4)].concat();
        assert_eq!(scales(both, [&columns, &[]]), [0, 2, 4]);
        assert_eq!(scales(both, [&[], &columns]), [0, 2, 4]);
        assert!(check_size(both, [&[], &columns[..1]], 1 << 31).is_ok());
        assert!(check_size(both, [&[], &columns], 1 << 31).is_err());
        // Shares of values are not added up.
        assert!(check_size(Reveal::Shares.into(), [&columns, &columns], u64::MAX).is_ok());
    }

    #[test]
    fn told_numbers_are_within_the_bounds_of_as_many_items_as_are_told() {
        let columns = [terms(10, 0), terms(7, 2)].concat();
        let told = |reveal: &str, columns, told: &[i128]| {
            check_told(reveal.parse().unwrap(), columns, (4, &[0; 3]), told).is_ok()
        };
        let (sums, both) = ([&columns[..], &[]], [&columns[..1], &columns[1..]]);
        for (numbers, possible) in [([40, -28], true), ([41, 0], false), ([0, -29], false)] {
            assert_eq!(told("sum", sums, &numbers), possible, "{numbers:?}");
            assert_eq!(told("sum", [&[], &columns[..]], &numbers), possible);
        }
        for (numbers, possible) in [
            ([4, 40, -28], true),
            ([3, 30, -21], true),
            ([3, 31, 0], false),
            ([0, 0, -1], false),
            ([5, 0, 0], false),
        ] {
            assert_eq!(told("size,sum", sums, &numbers), possible, "{numbers:?}");
        }
        for (numbers, possible) in [([2, -140], true), ([2, 141], false)] {
            assert_eq!(told("size,inner-product", both, &numbers), possible);
        }
        assert!(!told("sum", [&columns[..1], &[]], &[i64::MIN.into()]));
    }

    /// Each is checked by itself: a noisy size says nothing of a noisy sum.
    #[test]
    fn told_numbers_with_noise_are_within_their_spans() {
        let columns = terms(10, 0);
        let reveal = "size,sum".parse().unwrap();
        let told = |told: &[i128]| check_told(reveal, [&columns, &[]], (4, &[5, 70]), told).is_ok();
        for (numbers, possible) in [
            ([0, 40], true),
            ([-5, -110], true),
            ([9, 110], true),
            ([-10, 0], false),
            ([10, 0], false),
            ([4, 111], false),
            ([4, -111], false),
        ] {
            assert_eq!(told(&numbers), possible, "{numbers:?}");
        }
    }
}
