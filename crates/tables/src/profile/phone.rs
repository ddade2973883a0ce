//! Phone numbers, by the data and rules of libphonenumber.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat};
use vesica_files::catching;

use super::{Normalized, number_form};
use crate::error::{Error, Result};

/// The region in which phone numbers without a country code are dialled: an ISO 3166 two-letter
/// code for which libphonenumber has a numbering plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region(rlibphonenumber::Region);

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
pub(super) fn is_number_form(value: &str) -> bool {
    let trimmed = value.trim();
    !is_too_long(trimmed) && number_form::is_number_form(trimmed)
}

pub(super) fn phone(value: &str, region: Region) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    if is_too_long(trimmed) || number_form::is_number_form(trimmed) {
        return Normalized::Invalid;
    }
    let e164 = |text: &str| {
        let number = PHONE_NUMBER_UTIL.parse(text, Some(region.0)).ok()?;
        PHONE_NUMBER_UTIL.is_valid_number(&number).then(|| {
            PHONE_NUMBER_UTIL
                .format(&number, PhoneNumberFormat::E164)
                .into_owned()
        })
    };
    // The parser panics on some malformed texts, such as two `;phone-context=`: a value that a user
    // controls must not be able to stop the run.
    let parsed = catching(|| {
        // libphonenumber turns some texts into numbers that it reads back as others, or not at all: a
        // canonical text must be its own canonical text.
        e164(trimmed).filter(|number| number == trimmed || e164(number).as_ref() == Some(number))
    });
    match parsed {
        Ok(Some(e164)) if e164 == trimmed => Normalized::Valid(Cow::Borrowed(trimmed)),
        Ok(Some(e164)) => Normalized::Valid(Cow::Owned(e164)),
        Ok(None) | Err(_) => Normalized::Invalid,
    }
}
