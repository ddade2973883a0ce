//! Normalisation profiles: the agreed ways in which differently written values are the same.
//!
//! A profile maps a text to a canonical text, finds it blank, or finds it invalid. Canonical
//! texts are fixed points: normalising one again changes nothing. Both parties must map equal
//! inputs to equal bytes, so a profile has a version ([`Profile::id`]) that is part of the
//! contract, and any change to what it yields is a new version. The Unicode data are those of
//! ICU4X, the numbering plans those of libphonenumber, both compiled in; nothing depends on the
//! locale, the clock or the network.
//!
//! Known answers, with invalid inputs among them, are in `vectors/normalization.json` and
//! `vectors/phone.json`. `scripts/compare_profiles.py` compares the profiles with implementations
//! in another language.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use rlibphonenumber::{PHONE_NUMBER_UTIL, PhoneNumberFormat};

use crate::error::{Error, Result};
use crate::guard::quietly;

/// How the values of a key column are normalised before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Byte for byte as they are, surrounding white space included.
    Exact,
    /// Text as people compare it: Unicode compatibility composition (NFKC), full case folding,
    /// invisible characters (soft hyphen, zero-width space, word joiner, byte-order mark)
    /// removed, white space trimmed and each run of it collapsed to one space.
    Text,
    /// An e-mail address: invisible characters removed, trimmed; the local part in NFC and case folded; the domain in
    /// lower-case ASCII by IDNA (UTS #46), without a trailing dot. Dots and `+tags` of the local
    /// part are kept, because only some providers ignore them.
    Email,
    /// A phone number in E.164 form, such as `+442079460000`, as libphonenumber reads it. Numbers
    /// without a country code are read as dialled in the region; extensions are dropped. A number
    /// that the numbering plans compiled in do not have is invalid.
    Phone(Region),
    /// A value that is a SHA-256 digest in hexadecimal already: 64 digits, lower-cased.
    Sha256Hex,
}

/// The region in which phone numbers without a country code are dialled: an ISO 3166 two-letter
/// code for which libphonenumber has a numbering plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region(rlibphonenumber::Region);

/// What a profile makes of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Normalized<'a> {
    /// The canonical text; borrowed if it is (a part of) the input.
    Valid(Cow<'a, str>),
    /// Nothing is left; a blank key never matches.
    Blank,
    /// Not a value of this kind; an invalid key never matches.
    Invalid,
}

impl Normalized<'_> {
    fn into_owned(self) -> Normalized<'static> {
        match self {
            Normalized::Valid(text) => Normalized::Valid(Cow::Owned(text.into_owned())),
            Normalized::Blank => Normalized::Blank,
            Normalized::Invalid => Normalized::Invalid,
        }
    }
}

impl Profile {
    /// The profile's name and version as the parties compare them, such as `email/1`.
    ///
    /// The region of a phone profile is not part of it: E.164 numbers are the same wherever
    /// they were written, and two parties may well keep numbers of different countries.
    pub fn id(&self) -> &'static str {
        match self {
            Profile::Exact => "exact/1",
            Profile::Text => "text/1",
            Profile::Email => "email/1",
            Profile::Phone(_) => "phone/2",
            Profile::Sha256Hex => "sha256-hex/1",
        }
    }

    /// Normalises one text value.
    pub fn normalize<'a>(&self, value: &'a str) -> Normalized<'a> {
        match self {
            Profile::Exact if value.is_empty() => Normalized::Blank,
            Profile::Exact => Normalized::Valid(Cow::Borrowed(value)),
            Profile::Text => text(value),
            Profile::Email => email(value),
            Profile::Phone(region) => phone(value, *region),
            Profile::Sha256Hex => sha256_hex(value),
        }
    }
}

const NAMES: &str = "profiles are: exact, text, email, phone:REGION, sha256-hex";

impl FromStr for Profile {
    type Err = Error;

    /// `exact`, `text`, `email`, `sha256-hex`, or `phone:` and a region such as `GB`.
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "exact" => Ok(Profile::Exact),
            "text" => Ok(Profile::Text),
            "email" => Ok(Profile::Email),
            "sha256-hex" => Ok(Profile::Sha256Hex),
            "phone" => Err(Error::usage(
                "the phone profile needs a region",
                "for example phone:GB, the region in which numbers without a country code are dialled",
            )),
            _ => match name.strip_prefix("phone:") {
                Some(region) => Ok(Profile::Phone(region.parse()?)),
                None => Err(Error::usage(
                    format!("no normalisation profile is called {name:?}"),
                    NAMES,
                )),
            },
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Profile::Exact => f.write_str("exact"),
            Profile::Text => f.write_str("text"),
            Profile::Email => f.write_str("email"),
            Profile::Phone(region) => write!(f, "phone:{region}"),
            Profile::Sha256Hex => f.write_str("sha256-hex"),
        }
    }
}

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
                Error::usage(
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

fn nfc(value: &str) -> Cow<'_, str> {
    const { ComposingNormalizerBorrowed::new_nfc() }.normalize(value)
}

/// Whether a text is in NFC already.
pub(crate) fn is_nfc(value: &str) -> bool {
    value.is_ascii() || const { ComposingNormalizerBorrowed::new_nfc() }.is_normalized(value)
}

fn text(value: &str) -> Normalized<'_> {
    if value.is_ascii() {
        if value.bytes().any(|b| b.is_ascii_uppercase()) {
            return collapse(Cow::Owned(value.to_ascii_lowercase()));
        }
        return collapse(Cow::Borrowed(value));
    }
    let nfkc = const { ComposingNormalizerBorrowed::new_nfkc() };
    let nfd = const { DecomposingNormalizerBorrowed::new_nfd() };
    let fold = const { CaseMapper::new() };
    // Unicode's compatibility caseless match (D146) folds twice, since compatibility
    // decomposition can bring out characters that have case.
    let visible: String = value.chars().filter(|c| !is_invisible(*c)).collect();
    let once = nfkc
        .normalize(&fold.fold_string(&nfd.normalize(&visible)))
        .into_owned();
    let twice = nfkc.normalize(&fold.fold_string(&once)).into_owned();
    match collapse(Cow::Owned(twice)) {
        Normalized::Valid(canonical) if canonical == value => {
            Normalized::Valid(Cow::Borrowed(value))
        }
        other => other,
    }
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}')
}

/// Trims white space and makes one space of each run.
fn collapse(value: Cow<'_, str>) -> Normalized<'_> {
    let tidy = {
        let mut previous = ' ';
        let inner = value.chars().all(|c| {
            let fine = !c.is_whitespace() || (c == ' ' && previous != ' ');
            previous = c;
            fine
        });
        inner && previous != ' '
    };
    if value.is_empty() {
        return Normalized::Blank;
    }
    if tidy {
        return Normalized::Valid(value);
    }
    let mut out = String::with_capacity(value.len());
    for word in value.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    if out.is_empty() {
        Normalized::Blank
    } else {
        Normalized::Valid(Cow::Owned(out))
    }
}

/// The text without invisible characters, which come along when it is copied from a web page.
fn visible(value: &str) -> Cow<'_, str> {
    if value.is_ascii() || !value.contains(is_invisible) {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(value.chars().filter(|c| !is_invisible(*c)).collect())
    }
}

fn email(value: &str) -> Normalized<'_> {
    match visible(value) {
        Cow::Borrowed(value) => visible_email(value),
        Cow::Owned(value) => visible_email(&value).into_owned(),
    }
}

fn visible_email(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    let Some((local, domain)) = trimmed.rsplit_once('@') else {
        return Normalized::Invalid;
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    if local.is_empty()
        || (local.contains('@') && !quoted)
        || local.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return Normalized::Invalid;
    }
    let local: Cow<'_, str> = if local.is_ascii() {
        if local.bytes().any(|b| b.is_ascii_uppercase()) {
            Cow::Owned(local.to_ascii_lowercase())
        } else {
            Cow::Borrowed(local)
        }
    } else {
        let folded = const { CaseMapper::new() }
            .fold_string(&nfc(local))
            .into_owned();
        Cow::Owned(nfc(&folded).into_owned())
    };
    // RFC 5321, section 4.5.3.1.1.
    if local.len() > 64 {
        return Normalized::Invalid;
    }
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let Ok(domain) = const { Uts46::new() }.to_ascii(
        domain.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::CheckFirstLast,
        DnsLength::Verify,
    ) else {
        return Normalized::Invalid;
    };
    let canonical_len = local.len() + 1 + domain.len();
    if canonical_len == trimmed.len() && trimmed.starts_with(&*local) && trimmed.ends_with(&*domain)
    {
        return Normalized::Valid(Cow::Borrowed(trimmed));
    }
    Normalized::Valid(Cow::Owned(format!("{local}@{domain}")))
}

/// The longest text, in characters, that libphonenumber reads; the port has no such limit.
const MAX_PHONE_CHARS: usize = 250;

fn phone(value: &str, region: Region) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    if trimmed.chars().nth(MAX_PHONE_CHARS).is_some() {
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
    let parsed = quietly(|| {
        // libphonenumber makes numbers of some texts that it reads back as others, or not at all:
        // the canonical text of a number must be its own.
        e164(trimmed).filter(|number| number == trimmed || e164(number).as_ref() == Some(number))
    });
    match parsed {
        Ok(Some(e164)) if e164 == trimmed => Normalized::Valid(Cow::Borrowed(trimmed)),
        Ok(Some(e164)) => Normalized::Valid(Cow::Owned(e164)),
        Ok(None) | Err(_) => Normalized::Invalid,
    }
}

fn sha256_hex(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        Normalized::Blank
    } else if trimmed.len() != 64 || !trimmed.bytes().all(|b| b.is_ascii_hexdigit()) {
        Normalized::Invalid
    } else if trimmed.bytes().any(|b| b.is_ascii_uppercase()) {
        Normalized::Valid(Cow::Owned(trimmed.to_ascii_lowercase()))
    } else {
        Normalized::Valid(Cow::Borrowed(trimmed))
    }
}

#[cfg(test)]
mod tests;
