//! Numbers, dates, instants and UUIDs: what they are, and not how they are written.

use std::borrow::Cow;

use super::Normalized;
use super::invisible::{unmarked, visible};
use crate::profile::render;

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

/// A number in decimal digits with any sign, any zeros at either end, and a point or none. The canonical text is that of
/// a decimal column under `exact`.
pub(super) fn decimal(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    let (sign, unsigned) = match trimmed.as_bytes().first() {
        None => return Normalized::Blank,
        Some(b'-') => ("-", &trimmed[1..]),
        Some(b'+') => ("", &trimmed[1..]),
        Some(_) => ("", trimmed),
    };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let are_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !are_digits(whole) || !are_digits(fraction) {
        return Normalized::Invalid;
    }
    let (whole, fraction) = (
        whole.trim_start_matches('0'),
        fraction.trim_end_matches('0'),
    );
    let point = if fraction.is_empty() { "" } else { "." };
    Normalized::Valid(match (whole, fraction) {
        ("", "") => Cow::Borrowed("0"),
        ("", fraction) => Cow::Owned(format!("{sign}0.{fraction}")),
        _ if sign.len() + whole.len() + point.len() + fraction.len() == trimmed.len() => {
            Cow::Borrowed(trimmed)
        }
        _ => Cow::Owned(format!("{sign}{whole}{point}{fraction}")),
    })
}

/// A number whose decimals may be behind a comma, and whose other digits may be in groups of three between points, spaces or
/// apostrophes. A point with exactly three digits behind it, as in `1.234`, may be either mark, and is invalid. The
/// canonical text is that of [`decimal`].
pub(super) fn decimal_comma(value: &str) -> Normalized<'_> {
    let visible = visible(value);
    let text = unmarked(&visible);
    let (sign, unsigned) = match text.strip_prefix(['-', '+', '\u{2212}']) {
        Some(unsigned) if text.starts_with('+') => ("", unsigned),
        Some(unsigned) => ("-", unsigned),
        None => ("", text),
    };
    let (whole, decimals) = match unsigned.split_once(',') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (unsigned, None),
    };
    let groups = |mark: char| {
        let mut groups = whole.split(mark);
        let first = groups.next().unwrap_or_default();
        let is_group = |group: &str| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit());
        groups.all(is_group) && (1..=3).contains(&first.len()) && !first.starts_with('0')
    };
    let plain = match whole.chars().find(|c| !c.is_ascii_digit()) {
        None => Cow::Borrowed(whole),
        // A point alone may be before a group, or before three decimals.
        Some('.') if decimals.is_none() && whole.matches('.').count() == 1 => {
            if groups('.') {
                return Normalized::Invalid;
            }
            Cow::Borrowed(whole)
        }
        Some(mark) if "'\u{2019}. \u{a0}\u{202f}\u{2009}".contains(mark) && groups(mark) => {
            Cow::Owned(whole.replace(mark, ""))
        }
        Some(_) => return Normalized::Invalid,
    };
    let point = if decimals.is_some() { "." } else { "" };
    let number = format!("{sign}{plain}{point}{}", decimals.unwrap_or_default());
    decimal(&number).into_owned()
}

/// What a whole number of a timestamp counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Seconds.
    Second,
    /// Thousandths of a second.
    Millisecond,
    /// Millionths of a second.
    Microsecond,
    /// Billionths of a second.
    Nanosecond,
}

impl TimeUnit {
    const ALL: [(&'static str, TimeUnit, i64); 4] = [
        ("s", TimeUnit::Second, 1),
        ("ms", TimeUnit::Millisecond, 1_000),
        ("us", TimeUnit::Microsecond, 1_000_000),
        ("ns", TimeUnit::Nanosecond, 1_000_000_000),
    ];

    pub(super) fn named(name: &str) -> Option<TimeUnit> {
        let found = TimeUnit::ALL.iter().find(|(own, ..)| *own == name)?;
        Some(found.1)
    }

    pub(super) fn name(self) -> &'static str {
        TimeUnit::ALL[self as usize].0
    }

    fn per_second(self) -> i64 {
        TimeUnit::ALL[self as usize].2
    }
}

/// In which order people write day, month and year.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateOrder {
    /// `31.12.1984`.
    DayMonthYear,
    /// `12/31/1984`.
    MonthDayYear,
    /// `1984/12/31`.
    YearMonthDay,
}

impl DateOrder {
    const ALL: [(&'static str, DateOrder); 3] = [
        ("DMY", DateOrder::DayMonthYear),
        ("MDY", DateOrder::MonthDayYear),
        ("YMD", DateOrder::YearMonthDay),
    ];

    pub(super) fn named(name: &str) -> Option<DateOrder> {
        let found = DateOrder::ALL.iter().find(|(own, _)| *own == name)?;
        Some(found.1)
    }

    pub(super) fn name(self) -> &'static str {
        DateOrder::ALL[self as usize].0
    }
}

/// A day as `2024-02-29` or `20240229`, or with separators and in the order that is named, perhaps followed by a midnight
/// without a zone or in UTC. The canonical text is that of a date column.
pub(super) fn date(value: &str, order: Option<DateOrder>) -> Normalized<'_> {
    let Some(order) = order else {
        return usual_date(value.trim());
    };
    let visible = visible(value);
    let text = unmarked(&visible);
    match in_order(text, order) {
        Some(day) => Normalized::Valid(Cow::Owned(day)),
        None => usual_date(text).into_owned(),
    }
}

/// A day in the order of ISO 8601, without white space around it.
fn usual_date(trimmed: &str) -> Normalized<'_> {
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    let (text, time) = match trimmed.split_once(['T', ' ']) {
        Some((day, time)) => (day, Some(time)),
        None => (trimmed, None),
    };
    match day(text) {
        Some(_) if !time.is_none_or(is_midnight) => Normalized::Invalid,
        Some(_) if text.len() == 10 => Normalized::Valid(Cow::Borrowed(text)),
        Some((year, month, day)) => {
            Normalized::Valid(Cow::Owned(format!("{year:04}-{month:02}-{day:02}")))
        }
        None => Normalized::Invalid,
    }
}

/// The canonical text of a day that is written in this order. Month and day follow a year of four digits in front, whatever
/// the order. Years of two digits are 1950 to 1999; those below 50 may be of either century, and are none.
fn in_order(text: &str, order: DateOrder) -> Option<String> {
    let (date, time) = match text
        .find(':')
        .and_then(|colon| text[..colon].rfind(['T', ' ']))
    {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let date = date.trim();
    let separator = ['.', '/', '-', ' ']
        .into_iter()
        .find(|c| date.contains(*c))?;
    let mut parts = date.split(separator).map(str::trim);
    let [Some(first), Some(second), Some(third), None] =
        [parts.next(), parts.next(), parts.next(), parts.next()]
    else {
        return None;
    };
    let (year, month, day) = match order {
        _ if first.len() == 4 => (first, second, third),
        DateOrder::DayMonthYear => (third, second, first),
        DateOrder::MonthDayYear => (third, first, second),
        DateOrder::YearMonthDay => (first, second, third),
    };
    let number = |digits: &str, lengths: &[usize]| {
        let is_number =
            lengths.contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<u32>().ok().filter(|_| is_number)
    };
    let (month, day) = (number(month, &[1, 2])?, number(day, &[1, 2])?);
    let year = match number(year, &[2, 4])? {
        full if year.len() == 4 => full,
        of_last_century @ 50.. => 1900 + of_last_century,
        _ => return None,
    };
    let exists = day > 0 && day <= days(year, month);
    (exists && time.is_none_or(is_midnight)).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// Year, month and day of `2024-02-29` or `20240229`.
fn day(text: &str) -> Option<(u32, u32, u32)> {
    let bytes = text.as_bytes();
    let places: [&[usize]; 3] = match bytes.len() {
        10 if bytes[4] == b'-' && bytes[7] == b'-' => [&[0, 1, 2, 3], &[5, 6], &[8, 9]],
        8 => [&[0, 1, 2, 3], &[4, 5], &[6, 7]],
        _ => return None,
    };
    let number = |places: &[usize]| {
        places.iter().try_fold(0, |number: u32, place| {
            let digit = char::from(bytes[*place]).to_digit(10)?;
            Some(10 * number + digit)
        })
    };
    let [Some(year), Some(month), Some(day)] = places.map(number) else {
        return None;
    };
    (day > 0 && day <= days(year, month)).then_some((year, month, day))
}

/// A day and a time of day, with a zone or in UTC: `2024-02-29T08:30:00.25Z`, `2024-02-29 08:30+01:00`. A day alone is its
/// first instant. A whole number counts units since 1970, if there is one. The canonical text is that of a timestamp
/// column.
pub(super) fn timestamp(value: &str, unit: Option<TimeUnit>) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    let digits = trimmed.strip_prefix('-').unwrap_or(trimmed);
    let is_count = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let instant = match unit {
        Some(unit) if is_count => trimmed.parse::<i64>().ok().map(|count| {
            let per_second = unit.per_second();
            let nanos = count.rem_euclid(per_second) * (NANOS_A_SECOND / per_second);
            (count.div_euclid(per_second), nanos)
        }),
        _ => instant(trimmed),
    };
    let Some((seconds, nanos)) = instant else {
        return Normalized::Invalid;
    };
    // Beyond these years a text would have a sign, and be no fixed point.
    if !(FIRST_SECOND..END_SECOND).contains(&seconds) {
        return Normalized::Invalid;
    }
    let mut text = String::with_capacity(30);
    render::instant(seconds, nanos, &mut text);
    Normalized::Valid(match text == trimmed {
        true => Cow::Borrowed(trimmed),
        false => Cow::Owned(text),
    })
}

const NANOS_A_SECOND: i64 = 1_000_000_000;
/// 0000-01-01T00:00:00Z and 10000-01-01T00:00:00Z, counted from 1970.
const FIRST_SECOND: i64 = -719_528 * render::SECONDS_A_DAY;
const END_SECOND: i64 = 2_932_897 * render::SECONDS_A_DAY;

/// Seconds since 1970 in UTC, and nanoseconds.
fn instant(text: &str) -> Option<(i64, i64)> {
    let (date, rest) = text.split_at_checked(10)?;
    let (year, month, day) = day(date)?;
    let midnight = render::days_since_1970(year.into(), month, day) * render::SECONDS_A_DAY;
    if rest.is_empty() {
        return Some((midnight, 0));
    }
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = zone(rest)?;
    let (clock, fraction) = match clock.split_once('.') {
        Some((_, "")) => return None,
        Some((clock, fraction)) => (clock, fraction),
        None => (clock, ""),
    };
    let mut seconds = midnight - offset;
    let units = match clock.len() {
        5 if fraction.is_empty() => &[(24, 3600), (60, 60)][..],
        8 => &[(24, 3600), (60, 60), (60, 1)],
        _ => return None,
    };
    let mut parts = clock.split(':');
    for (limit, unit) in units {
        seconds += two_digits(parts.next()?, *limit)? * unit;
    }
    let (nanos, beyond) = fraction.split_at_checked(9).unwrap_or((fraction, ""));
    if !nanos.bytes().all(|b| b.is_ascii_digit()) || beyond.bytes().any(|b| b != b'0') {
        return None;
    }
    let nanos = format!("{nanos:0<9}").parse().ok()?;
    Some((seconds, nanos))
}

/// A time of day without its zone, and how many seconds the zone is ahead of UTC.
fn zone(text: &str) -> Option<(&str, i64)> {
    for utc in ["Z", "z", " UTC"] {
        if let Some(clock) = text.strip_suffix(utc) {
            return Some((clock, 0));
        }
    }
    let Some(at) = text.rfind(['+', '-']) else {
        return Some((text, 0));
    };
    let (clock, offset) = text.split_at(at);
    let (sign, offset) = offset.split_at(1);
    let (hours, minutes) = match (offset.len(), offset.split_once(':')) {
        (2, None) => (offset, "00"),
        (4, None) => offset.split_at_checked(2)?,
        (5, Some(parts)) => parts,
        _ => return None,
    };
    let ahead = two_digits(hours, 24)? * 3600 + two_digits(minutes, 60)? * 60;
    let clock = clock.strip_suffix(' ').unwrap_or(clock);
    Some((clock, if sign == "-" { -ahead } else { ahead }))
}

/// A number of two ASCII digits below a limit.
fn two_digits(text: &str, limit: i64) -> Option<i64> {
    let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok()?;
    (is_number && number < limit).then_some(number)
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
            crate::profile::render::uuid(&number.to_be_bytes(), &mut expected);
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
        fn a_decimal_is_its_value(unscaled: i64, scale in 0i8..19, zeros in 0usize..4, behind in 0usize..4) {
            let mut text = String::new();
            crate::decimal::write_decimal(&unscaled.to_string(), scale, &mut text);
            let expected = match decimal_by_value(&text) {
                "-0" => "0",
                text => text,
            };
            let (sign, unsigned) = match text.strip_prefix('-') {
                Some(unsigned) => ("-", unsigned),
                None => ("+", &*text),
            };
            let point = if scale == 0 && behind > 0 { "." } else { "" };
            let longer = format!(" {sign}{}{unsigned}{point}{}", "0".repeat(zeros), "0".repeat(behind));
            for text in [&*text, expected, &longer] {
                prop_assert_eq!(decimal(text), Normalized::Valid(expected.to_owned().into()));
            }
        }

        #[test]
        fn an_instant_is_what_a_timestamp_column_has(
            seconds in FIRST_SECOND + 86_400..END_SECOND - 86_400,
            nanos in prop_oneof![Just(0), (0i64..1000).prop_map(|n| n * 1_000_000), 0i64..1_000_000_000],
            offset in -1439i64..1440,
        ) {
            let mut text = String::new();
            render::instant(seconds, nanos, &mut text);
            let expected = Normalized::Valid(text.clone().into());
            prop_assert_eq!(timestamp(&text, None), expected.clone());
            let mut local = String::new();
            render::instant(seconds + 60 * offset, nanos, &mut local);
            let (clock, sign) = (local.trim_end_matches('Z'), if offset < 0 { '-' } else { '+' });
            let (hours, minutes) = (offset.abs() / 60, offset.abs() % 60);
            for text in [
                format!("{clock}{sign}{hours:02}:{minutes:02}"),
                format!("{} {sign}{hours:02}{minutes:02}", clock.replace('T', " ")),
            ] {
                prop_assert_eq!(timestamp(&text, None), expected.clone());
            }
            prop_assert_eq!(timestamp(text.trim_end_matches('Z'), None), expected.clone());
            if nanos == 0 {
                let (whole, thousandths) = (seconds.to_string(), (seconds * 1000).to_string());
                prop_assert_eq!(timestamp(&whole, Some(TimeUnit::Second)), expected.clone());
                prop_assert_eq!(timestamp(&thousandths, Some(TimeUnit::Millisecond)), expected);
            }
        }

        #[test]
        fn a_date_is_what_a_date_column_has(day in -719_528i64..2_932_897) {
            let mut text = String::new();
            crate::profile::render::date(day, &mut text);
            let expected = Normalized::Valid(text.clone().into());
            prop_assert_eq!(date(&text, None), expected.clone());
            let (plain, midnight) = (text.replace('-', ""), format!("{text} 00:00:00.000Z"));
            prop_assert_eq!(date(&plain, None), expected.clone());
            prop_assert_eq!(date(&midnight, None), expected.clone());
            let [year, month, day] = [&text[..4], &text[5..7], &text[8..]];
            for (order, text) in [
                (DateOrder::DayMonthYear, format!("{day}.{month}.{year}")),
                (DateOrder::MonthDayYear, format!("{month}/{day}/{year} 00:00:00")),
                (DateOrder::YearMonthDay, format!("{year} - {month} - {day}")),
                (DateOrder::DayMonthYear, text.clone()),
                (DateOrder::MonthDayYear, plain),
            ] {
                prop_assert_eq!(date(&text, Some(order)), expected.clone());
            }
        }
    }
}
