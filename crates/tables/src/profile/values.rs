//! Whole numbers, dates and UUIDs: what they are, and not how they are written.

use std::borrow::Cow;

use super::Normalized;

/// A whole number in decimal digits, with any sign and leading zeros, and with zeros behind a point. The canonical
/// text is that of an integer column.
pub(super) fn integer(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    let (sign, unsigned) = match trimmed.as_bytes().first() {
        None => return Normalized::Blank,
        Some(b'-') => ("-", &trimmed[1..]),
        Some(b'+') => ("", &trimmed[1..]),
        Some(_) => ("", trimmed),
    };
    let (digits, fraction) = unsigned.split_once('.').unwrap_or((unsigned, "0"));
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !are_digits(digits) || fraction.is_empty() || fraction.bytes().any(|b| b != b'0') {
        return Normalized::Invalid;
    }
    let digits = digits.trim_start_matches('0');
    Normalized::Valid(match (sign, digits) {
        (_, "") => Cow::Borrowed("0"),
        ("", digits) => Cow::Borrowed(digits),
        (_, digits) if trimmed.len() == 1 + digits.len() => Cow::Borrowed(trimmed),
        (_, digits) => Cow::Owned(format!("-{digits}")),
    })
}

/// A UUID of 32 hexadecimal digits in either case, with hyphens at the usual places or without, perhaps in braces or
/// behind `urn:uuid:`.
pub(super) fn uuid(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    const URN: &str = "urn:uuid:";
    let inner = match (trimmed.strip_prefix('{'), trimmed.get(..URN.len())) {
        (Some(rest), _) => rest.strip_suffix('}').unwrap_or_default(),
        (None, Some(urn)) if urn.eq_ignore_ascii_case(URN) => &trimmed[URN.len()..],
        _ => trimmed,
    };
    let has_hyphens = inner.len() == 36;
    let mut digits = String::with_capacity(36);
    for (i, byte) in inner.bytes().enumerate() {
        match byte {
            b'-' if has_hyphens && matches!(i, 8 | 13 | 18 | 23) => {}
            _ if byte.is_ascii_hexdigit() => {
                if matches!(digits.len(), 8 | 13 | 18 | 23) {
                    digits.push('-');
                }
                digits.push(char::from(byte.to_ascii_lowercase()));
            }
            _ => return Normalized::Invalid,
        }
    }
    match digits.len() {
        36 if digits == trimmed => Normalized::Valid(Cow::Borrowed(trimmed)),
        36 if inner.len() == 32 || has_hyphens => Normalized::Valid(Cow::Owned(digits)),
        _ => Normalized::Invalid,
    }
}

/// A day as `2024-02-29` or `20240229`, perhaps followed by a midnight without a zone or in UTC. The canonical text is
/// that of a date column.
pub(super) fn date(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    let (day, time) = match trimmed.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time)),
        None => (trimmed, None),
    };
    let bytes = day.as_bytes();
    let places: [&[usize]; 3] = match bytes.len() {
        10 if bytes[4] == b'-' && bytes[7] == b'-' => [&[0, 1, 2, 3], &[5, 6], &[8, 9]],
        8 => [&[0, 1, 2, 3], &[4, 5], &[6, 7]],
        _ => return Normalized::Invalid,
    };
    let number = |places: &[usize]| {
        places.iter().try_fold(0, |number: u32, place| {
            let digit = char::from(bytes[*place]).to_digit(10)?;
            Some(10 * number + digit)
        })
    };
    let [Some(year), Some(month), Some(of_month)] = places.map(number) else {
        return Normalized::Invalid;
    };
    if !time.is_none_or(is_midnight) || of_month == 0 || of_month > days(year, month) {
        return Normalized::Invalid;
    }
    Normalized::Valid(match bytes.len() {
        10 => Cow::Borrowed(day),
        _ => Cow::Owned(format!("{year:04}-{month:02}-{of_month:02}")),
    })
}

/// Days of a month; none if there is no such month.
fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    }
}

/// Whether a time of day is the first instant of a day in UTC, or in no zone at all.
fn is_midnight(time: &str) -> bool {
    let time = ["Z", "+00:00", "+0000", "+00", " UTC"]
        .iter()
        .find_map(|zone| time.strip_suffix(zone))
        .unwrap_or(time);
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let clock = matches!(clock, "00:00" | "00:00:00");
    clock && !fraction.is_empty() && fraction.bytes().all(|b| b == b'0')
}

/// A decimal column's text without the zeros that its scale puts at the end: `12.50` is `12.5`, `7.00` is `7`.
pub(crate) fn decimal_by_value(text: &str) -> &str {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_lose_zeros_behind_the_point_only() {
        for (text, value) in [
            ("12.50", "12.5"),
            ("-0.050", "-0.05"),
            ("100", "100"),
            ("100.00", "100"),
            ("0.000", "0"),
        ] {
            assert_eq!(decimal_by_value(text), value);
        }
    }

    proptest! {
        #[test]
        fn an_integer_is_its_number(number: i64, zeros in 0usize..4, behind in 0usize..4) {
            let sign = if number < 0 { "-" } else { "" };
            let point = if behind > 0 { "." } else { "" };
            let (before, behind) = ("0".repeat(zeros), "0".repeat(behind));
            let text = format!(" {sign}{before}{}{point}{behind}", number.unsigned_abs());
            prop_assert_eq!(integer(&text), Normalized::Valid(number.to_string().into()));
        }

        #[test]
        fn a_uuid_is_its_number(number: u128) {
            let plain = format!("{number:032x}");
            let mut expected = String::new();
            crate::render::uuid(&number.to_be_bytes(), &mut expected);
            let expected = Normalized::Valid(expected.into());
            for text in [plain.clone(), plain.to_uppercase()] {
                let Normalized::Valid(canonical) = uuid(&text) else { panic!("{text}") };
                for text in [format!("{{{canonical}}}"), format!("URN:uuid:{canonical}"), canonical.to_uppercase()] {
                    prop_assert_eq!(uuid(&text), expected.clone());
                }
                prop_assert_eq!(Normalized::Valid(canonical), expected.clone());
            }
        }

        #[test]
        fn a_date_is_what_a_date_column_has(day in -719_528i64..2_932_897) {
            let mut text = String::new();
            crate::render::date(day, &mut text);
            let expected = Normalized::Valid(text.clone().into());
            prop_assert_eq!(date(&text), expected.clone());
            let (plain, midnight) = (text.replace('-', ""), format!("{text} 00:00:00.000Z"));
            prop_assert_eq!(date(&plain), expected.clone());
            prop_assert_eq!(date(&midnight), expected);
        }
    }
}
