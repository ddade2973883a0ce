//! Phone numbers that a column of numbers has turned into something else.
//!
//! pandas writes `4930123456.0` where a column of whole numbers has a gap, spreadsheets write `4.93E+11` and
//! `4,930,123,456`, or with points where the comma is for decimals. libphonenumber drops whatever is no digit, so that the
//! first would be another subscriber's number. People put points and commas into phone numbers too, as in `030.123.4567` and,
//! before an extension, `030 1234567,12`: a form counts here only if no phone number is written so.

use std::borrow::Cow;

use rlibphonenumber::PHONE_NUMBER_UTIL;

/// Fewest digits before a point that are not a group of a longer number, such as an area code.
const MIN_WHOLE: usize = 5;

/// Fewest digits before a point after which one or two others are decimals, and not the last digits of a phone number.
const MIN_WHOLE_WITH_DECIMALS: usize = 7;

/// Whether a text ends in a number that has decimals, an exponent, or groups of digits as number formats make them.
pub(super) fn is_number_form(text: &str) -> bool {
    let text = plain(text);
    let is_around = |c: char| !c.is_alphanumeric();
    let core = text.trim_start_matches(is_around);
    let before = &text[..text.len() - core.len()];
    let core = core.trim_end_matches(is_around);
    has_exponent(core) || Tail::of(core).is_number_form(before.contains('+'))
}

/// Whether a text is groups of digits with spaces, the last of three digits, and then a point or comma and one or two zeros,
/// as `203 966.00`.
pub(super) fn has_spaced_decimals(text: &str) -> bool {
    let text = plain(text);
    let tail = Tail::of(text.trim_matches(|c: char| !c.is_alphanumeric()));
    let ([.., whole, last], [.., space, point]) = (&tail.groups[..], &tail.separators[..]) else {
        return false;
    };
    *space == b' '
        && matches!(point, b'.' | b',')
        && whole.len() == 3
        && last.len() <= 2
        && last.bytes().all(|b| b == b'0')
}

/// The digits of a text that has nothing else but spaces, hyphens, points, slashes and parentheses; not where a zero is the
/// first of them.
pub(super) fn bare_digits(text: &str) -> Option<String> {
    let text = plain(text);
    let is_between = |c: char| " -./()".contains(c);
    if !text.chars().all(|c| c.is_ascii_digit() || is_between(c)) {
        return None;
    }
    let digits = text.replace(is_between, "");
    (!digits.is_empty() && !digits.starts_with('0')).then_some(digits)
}

/// The text with digits of any script, and what goes with them, in ASCII, and without invisible characters.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return text.into();
    }
    let is_visible = |c: &char| !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    let ascii = |c: char| match c {
        // Full-width forms, and the decimal and thousands separators of Arabic.
        '\u{ff0e}' | '\u{66b}' => '.',
        '\u{ff0c}' | '\u{66c}' => ',',
        '\u{ff0b}' => '+',
        '\u{2019}' | '\u{ff07}' => '\'',
        '\u{ff25}' | '\u{ff45}' => 'E',
        _ if !c.is_ascii() && c.is_whitespace() => ' ',
        _ if c.is_numeric() => {
            let digit = PHONE_NUMBER_UTIL.normalize_digits_only(c.encode_utf8(&mut [0; 4]));
            digit.chars().next().unwrap_or(c)
        }
        _ => c,
    };
    Cow::Owned(text.chars().filter(is_visible).map(ascii).collect())
}

/// Whether a text ends as `4.93E+11` does.
fn has_exponent(text: &str) -> bool {
    let Some((mantissa, exponent)) = text.rsplit_once(['e', 'E']) else {
        return false;
    };
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let before = mantissa.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
    (1..=3).contains(&exponent.len())
        && is_digits(exponent)
        && mantissa[before.len()..].contains(|c: char| c.is_ascii_digit())
        // Not the letters of a vanity number.
        && !before.ends_with(char::is_alphanumeric)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

/// The groups of digits at the end of a text, each but the first behind one separator.
struct Tail<'a> {
    groups: Vec<&'a str>,
    separators: Vec<u8>,
    /// Whether nothing is before them.
    is_all: bool,
}

impl<'a> Tail<'a> {
    fn of(text: &'a str) -> Tail<'a> {
        let bytes = text.as_bytes();
        let (mut groups, mut separators) = (Vec::new(), Vec::new());
        let mut end = bytes.len();
        loop {
            let digits = bytes[..end].iter().rev().take_while(|b| b.is_ascii_digit());
            let start = end - digits.count();
            groups.push(&text[start..end]);
            match bytes[..start] {
                [.., digit, separator]
                    if digit.is_ascii_digit() && b".,' ".contains(&separator) =>
                {
                    separators.push(separator);
                    end = start - 1;
                }
                _ => {
                    groups.reverse();
                    separators.reverse();
                    return Tail {
                        groups,
                        separators,
                        is_all: start == 0,
                    };
                }
            }
        }
    }

    fn is_number_form(&self, has_plus: bool) -> bool {
        let [.., whole, last] = self.groups[..] else {
            return false;
        };
        let Some((separator, before)) = self.separators.split_last() else {
            return false;
        };
        let is_decimal = matches!(separator, b'.' | b',');
        let (are_zeros, are_few) = (last.bytes().all(|b| b == b'0'), last.len() <= 2);
        // 4930123456.0, which is in no groups.
        if is_decimal && !matches!(before.last(), Some(b'.' | b',')) {
            let is_alone = self.is_all && before.is_empty();
            let has_decimals = match are_zeros {
                true => whole.len() >= MIN_WHOLE || (are_few && is_alone),
                false => *separator == b'.' && are_few && whole.len() >= MIN_WHOLE_WITH_DECIMALS,
            };
            if has_decimals {
                return true;
            }
        }
        let groups = &self.groups[..before.len() + 1];
        // 4,930,123,456.00
        if is_decimal
            && let Some(between) = grouped(groups, before)
            && between != *separator
        {
            // Phone numbers are written with spaces, and with a comma before an extension.
            return match between {
                b' ' => are_zeros && groups.len() > 2,
                _ => are_zeros || are_few,
            };
        }
        match grouped(&self.groups, &self.separators) {
            Some(b',' | b'\'') => self.groups.len() > 2,
            // 4.930.123.456, but not 912.345.678, nor 34.912.345.678 behind a country code.
            Some(b'.') => {
                let first = self.groups[0].parse();
                let region = |code| PHONE_NUMBER_UTIL.get_region_for_country_code(code);
                let is_code = first.ok().and_then(region).is_some();
                self.groups.len() > 3 && self.is_all && !has_plus && !is_code
            }
            _ => false,
        }
    }
}

/// What separates groups of three digits, the first of up to three, if that is always the same. In India groups before the
/// last have two digits, and commas between them.
fn grouped(groups: &[&str], separators: &[u8]) -> Option<u8> {
    let (first, others) = groups.split_first()?;
    let (separator, more) = separators.split_first()?;
    let fewest = if *separator == b',' { 2 } else { 3 };
    let are_groups = (1..=3).contains(&first.len())
        && !first.starts_with('0')
        && others
            .iter()
            .all(|group| (fewest..=3).contains(&group.len()))
        && more.iter().all(|other| other == separator);
    are_groups.then_some(*separator)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_of_numbers() {
        for text in [
            "4930123456.0",
            "4930123456.00",
            "4930123456.000000",
            "4930123456,0",
            "4930123456.5",
            "+4930123456.0",
            "+49 30123456.0",
            "(030)123456.0",
            "tel.4930123456.0",
            "22158.0",
            "4002.0",
            "$4930123456.00",
            "'4930123456.0'",
            "=4930123456.0",
            "\u{200e}4930123456\u{200b}.0 ",
            "\u{ff14}\u{ff19}3012345\u{ff16}\u{ff0e}\u{ff10}",
            "\u{664}\u{669}\u{663}\u{660}\u{661}\u{662}\u{663}\u{66b}\u{660}",
            "4.93E+11",
            "4.930123456e11",
            "4,93E+11",
            "4930123456E0",
            "49E8",
            "+4.93E11",
            "4,930,123,456",
            "49,30,12,34,56,789",
            "4'930'123'456",
            "4\u{2019}930\u{2019}123\u{2019}456",
            "4.930.123.456",
            "493.012.345.678",
            "4,930,123,456.00",
            "4.930.123.456,00",
            "4 930 123 456,00",
            "4 930 123 456.0",
            "4'930'123'456.00",
        ] {
            assert!(is_number_form(text), "{text}");
        }
    }

    #[test]
    fn forms_of_phone_numbers() {
        for text in [
            "",
            "+",
            "0",
            "4930123456",
            "4930123456.",
            "+4930123456",
            "030.123.4567",
            "030.1234567",
            "(030) 123-456",
            "(202) 555.0123",
            "(202) 555.4000",
            "1.800.555.0199",
            "01.42.68.53.00",
            "912.345.678",
            "34.912.345.678",
            "+34.912.345.678",
            "49.30.123456",
            "030.123456.0",
            "030 123456-0",
            "030/123456.12",
            "58858.34",
            "(030) 1234.0",
            "020 7946 0000,12",
            "02079460000,123",
            "02079460000,,0",
            "020 7946 0000 ext. 0",
            "020 7946 0000 x.0",
            "1-800-FLOWERS",
            "1800FLOWE12",
            "030 123456 e7",
            "030 123 456,7",
            "tel:020-7946-0000;phone-context=+44;ext=5",
            "0049 30 123 456",
            "4 930 123 456",
            "\u{ff10}\u{ff12}\u{ff10} 7946 0000",
        ] {
            assert!(!is_number_form(text), "{text}");
        }
    }

    #[test]
    fn groups_with_spaces_and_zeros_behind_a_point() {
        for text in [
            "203 966.00",
            "0203 966.00",
            "30 123.0",
            "203\u{a0}966,00",
            "+49 203 966.00",
        ] {
            assert!(has_spaced_decimals(text), "{text}");
        }
        for text in [
            "203 966",
            "203 966.7",
            "203 966.000",
            "(030) 1234.0",
            "030 1234.00",
            "203966.00",
        ] {
            assert!(!has_spaced_decimals(text), "{text}");
        }
    }

    #[test]
    fn digits_alone() {
        for (text, digits) in [
            ("4915121964052", Some("4915121964052")),
            ("(49) 151/2196-40.52", Some("4915121964052")),
            ("\u{664}\u{669}\u{a0}151", Some("49151")),
            ("0151", None),
            ("+49151", None),
            ("49151x2", None),
            ("-", None),
        ] {
            assert_eq!(bare_digits(text).as_deref(), digits, "{text}");
        }
    }

    proptest! {
        /// What number formats make of any number that is as long as a phone number.
        #[test]
        fn every_number_in_every_form(number in 10_000_000u64..1_000_000_000_000_000, decimals in 1usize..7) {
            let digits = number.to_string();
            let zeros = "0".repeat(decimals);
            let grouped = |separator: &str| {
                let (first, rest) = digits.split_at((digits.len() - 1) % 3 + 1);
                let rest = rest.as_bytes().chunks(3).map(|group| str::from_utf8(group).unwrap());
                [first].into_iter().chain(rest).collect::<Vec<_>>().join(separator)
            };
            for sign in ["", "+", "-"] {
                for point in [".", ","] {
                    let fraction = format!("{sign}{digits}{point}{zeros}");
                    prop_assert!(is_number_form(&fraction), "{}", fraction);
                    let exponent = format!("{sign}{}{point}{}e+{}", &digits[..1], &digits[1..], digits.len() - 1);
                    prop_assert!(is_number_form(&exponent), "{}", exponent);
                    for separator in [".", ",", "'", " "] {
                        let text = format!("{sign}{}{point}{zeros}", grouped(separator));
                        prop_assert!(separator == point || is_number_form(&text), "{}", text);
                    }
                }
                for separator in [",", "'"] {
                    let text = format!("{sign}{}", grouped(separator));
                    prop_assert!(is_number_form(&text), "{}", text);
                }
            }
            for text in [&*digits, &grouped(" "), &grouped("-"), &grouped("/")] {
                prop_assert!(!is_number_form(text), "{}", text);
            }
        }

        #[test]
        fn any_text(text in "\\PC{0,20}|[-+0-9.,' eE]{0,20}") {
            is_number_form(&text);
        }
    }
}
