//! Phone numbers, by the data and rules of libphonenumber.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat};
use vesica_files::catching;

use super::invisible::{unmarked, visible};
use super::{Normalized, number_form};
use crate::error::{Error, Result};

/// The region in which phone numbers without a country code are dialled: an ISO 3166 two-letter
/// code for which libphonenumber has a numbering plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region(rlibphonenumber::Region);

impl FromStr for Region {
    type Err = Error;

    /// A two-letter code in either case.
    fn from_str(code: &str) -> Result<Self> {
        code.parse()
            .ok()
            .filter(|region| {
                PHONE_NUMBER_UTIL
                    .get_country_code_for_region(*region)
                    .is_some()
            })
            .map(Region)
            .ok_or_else(|| {
                Error::usage_with(
                    format!("no phone region is called {code:?}"),
                    "regions are two-letter country codes such as GB, US or DE",
                )
            })
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The longest text, in characters, that libphonenumber reads; the port has no such limit.
const MAX_PHONE_CHARS: usize = 250;

fn is_too_long(trimmed: &str) -> bool {
    trimmed.chars().nth(MAX_PHONE_CHARS).is_some()
}

/// Whether a value is no phone number because it is in the [form of a number](number_form).
pub(super) fn is_number_form_3(value: &str) -> bool {
    let visible = visible(value);
    let trimmed = visible.trim();
    !is_too_long(trimmed) && number_form::is_number_form(trimmed)
}

/// The same, or because of what only the fourth version [refuses](is_refused).
pub(super) fn is_number_form(value: &str, region: Region) -> bool {
    let text = plainly_spaced(value);
    let text = unmarked(&text);
    is_number_form_3(value)
        || matches!(phone_3(text, region), Normalized::Valid(number) if is_refused(text, &number, region))
}

/// Without invisible characters, and with the space of ASCII for those that typesetters use.
fn plainly_spaced(value: &str) -> Cow<'_, str> {
    let visible = visible(value);
    let is_other = |c: char| !c.is_ascii() && c.is_whitespace();
    match !visible.is_ascii() && visible.contains(is_other) {
        true => Cow::Owned(visible.replace(is_other, " ")),
        false => visible,
    }
}

pub(super) fn phone(value: &str, region: Region) -> Normalized<'_> {
    match plainly_spaced(value) {
        Cow::Borrowed(value) => phone_4(unmarked(value), region),
        Cow::Owned(value) => phone_4(unmarked(&value), region).into_owned(),
    }
}

fn phone_4(value: &str, region: Region) -> Normalized<'_> {
    match phone_3(value, region) {
        Normalized::Valid(number) if is_refused(value, &number, region) => Normalized::Invalid,
        other => other,
    }
}

/// Whether a text that the third version reads as this number may be meant as another.
fn is_refused(text: &str, number: &str, region: Region) -> bool {
    number_form::has_spaced_decimals(text) || is_ambiguous(text, number, region)
}

/// Regions in which everybody writes a national number with its zero in front: digits without it are of a column of numbers,
/// or of another country.
const WITH_ZERO: [&str; 29] = [
    "AT", "AU", "BA", "BE", "BG", "CH", "DE", "FI", "FR", "GB", "GG", "HR", "IE", "IM", "JE", "JP",
    "KR", "ME", "MK", "NL", "NZ", "RO", "RS", "SE", "SI", "SK", "TW", "UA", "ZA",
];

/// Whether digits without a plus sign or a zero in front are this number of the region, and another one if they begin with a
/// country code, as where a spreadsheet has dropped the plus sign: with the region's own, or with any where a number of the
/// region would have a zero.
fn is_ambiguous(text: &str, number: &str, region: Region) -> bool {
    let Some(digits) = number_form::bare_digits(text) else {
        return false;
    };
    let own = PHONE_NUMBER_UTIL.get_country_code_for_region(region.0);
    let begins_with_own = own.is_some_and(|code| digits.starts_with(&code.to_string()));
    if !begins_with_own && !WITH_ZERO.contains(&region.to_string().as_str()) {
        return false;
    }
    e164(&format!("+{digits}"), region).is_some_and(|other| other != number)
}

/// A valid number in the form of E.164. The parser panics on some malformed texts, such as two `;phone-context=`: a value that
/// a user controls must not be able to stop the run.
fn e164(text: &str, region: Region) -> Option<String> {
    let parsed = catching(|| {
        let number = PHONE_NUMBER_UTIL.parse(text, Some(region.0)).ok()?;
        PHONE_NUMBER_UTIL.is_valid_number(&number).then(|| {
            PHONE_NUMBER_UTIL
                .format(&number, PhoneNumberFormat::E164)
                .into_owned()
        })
    });
    parsed.ok().flatten()
}

/// The third version of [`phone`].
pub(super) fn phone_3(value: &str, region: Region) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    if is_too_long(trimmed) || number_form::is_number_form(trimmed) {
        return Normalized::Invalid;
    }
    // libphonenumber turns some texts into numbers that it reads back as others, or not at all: a canonical text must be
    // its own canonical text.
    let is_fixed =
        |number: &String| number == trimmed || e164(number, region).as_ref() == Some(number);
    match e164(trimmed, region).filter(is_fixed) {
        Some(e164) if e164 == trimmed => Normalized::Valid(Cow::Borrowed(trimmed)),
        Some(e164) => Normalized::Valid(Cow::Owned(e164)),
        None => Normalized::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, region: &str) -> Option<String> {
        match phone(text, region.parse().unwrap()) {
            Normalized::Valid(number) => Some(number.into_owned()),
            Normalized::Blank | Normalized::Invalid => None,
        }
    }

    /// Another number than the one that was meant would be a match with a stranger.
    #[test]
    fn digits_that_are_two_numbers_are_none() {
        for (text, region) in [
            ("4915121964052", "DE"),
            ("49 151 21964052", "DE"),
            ("491711234567", "DE"),
            ("49211123456", "DE"),
            ("441212349966", "DE"),
            ("33612345678", "DE"),
            ("203 966.00", "DE"),
        ] {
            assert_eq!(of(text, region), None, "{text} {region}");
            assert!(is_number_form(text, region.parse().unwrap()), "{text}");
            // As it was read before.
            let before = phone_3(text, region.parse().unwrap());
            assert!(matches!(before, Normalized::Valid(_)), "{text} {region}");
        }
        for (text, region, number) in [
            ("+4915121964052", "DE", "+4915121964052"),
            ("004915121964052", "DE", "+4915121964052"),
            ("015121964052", "DE", "+4915121964052"),
            ("15121964052", "DE", "+4915121964052"),
            ("2079460000", "GB", "+442079460000"),
            ("447911123456", "GB", "+447911123456"),
            ("612345678", "FR", "+33612345678"),
            ("33612345678", "FR", "+33612345678"),
            ("2125550123", "US", "+12125550123"),
            ("4792345678", "US", "+14792345678"),
            ("12125550123", "US", "+12125550123"),
            ("9812345678", "IN", "+919812345678"),
            ("612345678", "ES", "+34612345678"),
            (
                "06\u{202f}12\u{202f}34\u{202f}56\u{202f}78",
                "FR",
                "+33612345678",
            ),
        ] {
            assert_eq!(of(text, region).as_deref(), Some(number), "{text} {region}");
            assert!(!is_number_form(text, region.parse().unwrap()), "{text}");
        }
    }
}
