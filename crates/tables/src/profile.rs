//! Normalisation profiles: the agreed rules by which differently written values are the same.
//!
//! A profile maps a text to a canonical text, finds it blank, or finds it invalid. Canonical texts are fixed
//! points: normalising one again changes nothing. Both parties must map equal inputs to equal bytes, so a
//! profile has a version ([`Profile::id`]) that is part of the contract, and any change to its results is a
//! new version. The Unicode data are those of ICU4X, the numbering plans those of libphonenumber, both
//! compiled in; nothing depends on the locale, the clock or the network.
//!
//! Known answers, including invalid inputs, are in `vectors/normalization.json` and `vectors/phone.json`.
//! `scripts/compare_profiles.py` compares the profiles with implementations in another language.

mod addresses;
pub(crate) mod canonical;
pub(crate) mod hashed;
pub(crate) mod invisible;
pub(crate) mod key;
#[cfg(feature = "unicode")]
mod names;
mod null_words;
#[cfg(feature = "phone")]
mod number_form;
#[cfg(feature = "phone")]
mod phone;
mod postcode;
pub(crate) mod render;
pub(crate) mod rules;
#[cfg(feature = "unicode")]
mod unicode;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::profile::render::Kind;
use crate::profile::rules::Rules;

/// How the values of a key column are normalised before they are compared: by rules that have a name and a version, and perhaps
/// a cut to the first characters of what these make of a value. `docs/tables.md` has all rules.
///
/// ```
/// use vesica_tables::{Normalized, Profile};
///
/// let profile: Profile = "name:given@1".parse()?;
/// assert_eq!(profile.id(), "name:given/1@1");
/// assert_eq!(profile.normalize(" Jos\u{e9}"), Normalized::Valid("j".into()));
/// # Ok::<(), vesica_tables::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    rules: Rules,
    /// How many characters of a canonical text count; all if none.
    cut: Option<NonZeroU16>,
}

#[cfg(feature = "unicode")]
pub(crate) use unicode::is_nfc;

/// Whether a text is in NFC already; without Unicode's data this is unknown, and every text passes.
#[cfg(not(feature = "unicode"))]
pub(crate) fn is_nfc(_: &str) -> bool {
    true
}

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

impl From<Rules> for Profile {
    fn from(rules: Rules) -> Profile {
        Profile { rules, cut: None }
    }
}

impl Profile {
    /// Byte for byte as they are, surrounding white space included. Decimals are compared by value: what their columns call
    /// 12.50 and 12.500 is 12.5.
    pub const EXACT: Profile = Profile {
        rules: Rules::Exact,
        cut: None,
    };

    /// Name and version as the parties compare them, such as `email/2`, and `@N` behind them if N characters count.
    ///
    /// The region of a phone profile is not part of it: E.164 numbers are the same wherever they were written, and two
    /// parties may well keep numbers of different countries. Nor is the unit of a timestamp, or the order of a date.
    pub fn id(&self) -> String {
        self.with_cut(self.rules.id())
    }

    fn with_cut(&self, name: String) -> String {
        match self.cut {
            Some(most) => format!("{name}@{most}"),
            None => name,
        }
    }

    /// What a person writes for a profile with this [`id`](Profile::id): `email` for `email/2`, `text/1` for that version, which is
    /// not the newest, and `phone:REGION` for `phone/4`, which does not say the region. `None` if there is none of that
    /// version.
    pub fn written(id: &str) -> Option<String> {
        if let Ok(profile) = id.parse::<Profile>() {
            return Some(profile.to_string());
        }
        let (name, rest) = id.split_at(id.find(['/', '@'])?);
        let some: Profile = format!("{name}:GB{rest}").parse().ok()?;
        (some.id() == id).then(|| some.to_string().replacen(":GB", ":REGION", 1))
    }

    /// The same profile in the version that this [`id`](Profile::id) has, if it is of the same profile, and that version is here.
    pub fn in_version_of(&self, id: &str) -> Option<Profile> {
        let (_, version) = id.split_once('/')?;
        let version = version.split('@').next()?;
        let rules = self.rules.in_version(version)?;
        let profile = Profile { rules, ..*self };
        (profile.id() == id).then_some(profile)
    }

    /// Its rules.
    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// Whether values are compared as they are, and in full.
    pub(crate) fn is_exact(&self) -> bool {
        self.rules.is_exact() && self.cut.is_none()
    }

    /// The text of bytes that are a value of this profile as they are, and no text.
    pub(crate) fn of_bytes(&self, bytes: &[u8]) -> Option<String> {
        let text = self.rules.of_bytes(bytes)?;
        Some(self.cut(Cow::Owned(text)).into_owned())
    }

    /// The text that is normalised of a value that has a type: of a decimal, given with all digits of its scale, and of
    /// sixteen bytes, given as a UUID.
    pub(crate) fn of_typed<'a>(&self, kind: Kind, text: &'a str) -> Cow<'a, str> {
        self.rules.of_typed(kind, text)
    }

    /// The bits of its values, if these are numbers of a declared width.
    pub fn bits(&self) -> Option<u32> {
        self.rules.bits().filter(|_| self.cut.is_none())
    }

    /// Normalises one text value.
    pub fn normalize<'a>(&self, value: &'a str) -> Normalized<'a> {
        match self.rules.normalize(value) {
            Normalized::Valid(text) => Normalized::Valid(self.cut(text)),
            other => other,
        }
    }

    /// The characters of a canonical text that count.
    fn cut<'a>(&self, text: Cow<'a, str>) -> Cow<'a, str> {
        let Some(most) = self.cut else { return text };
        let mut ends = text.char_indices().map(|(end, _)| end);
        match (ends.nth(most.get().into()), text) {
            (None, text) => text,
            (Some(end), Cow::Borrowed(text)) => Cow::Borrowed(&text[..end]),
            (Some(end), Cow::Owned(mut text)) => {
                text.truncate(end);
                Cow::Owned(text)
            }
        }
    }
}

impl FromStr for Profile {
    type Err = Error;

    /// `exact`, `text`, `email`, `name`, `name:given`, `name:family`, `sha256-hex`, `pair-email`, `uid2-email`, `google-email`, `ipv4`,
    /// `ipv6`, `integer`, `decimal`, `date`, `timestamp` or `uuid`; `phone:`, `pair-phone:`, `meta-phone:` or `postcode:` and a
    /// region such as `GB`; `integer:` and a number of bits from 1 to 64; `timestamp:` and `s`, `ms`, `us` or `ns`; or `date:` and
    /// `DMY`, `MDY` or `YMD`. A version may follow, as in `exact/1`; otherwise it is the newest. Behind all of that, `@` and a
    /// number of characters are a cut.
    fn from_str(name: &str) -> Result<Self> {
        let (plain, cut) = match name.rsplit_once('@') {
            Some((plain, most)) => (plain, Some(characters(most)?)),
            None => (name, None),
        };
        let Some((plain, version)) = plain.rsplit_once('/') else {
            let rules = Rules::newest(plain)?;
            return Ok(Profile { rules, cut });
        };
        let newest = Rules::newest(plain)?;
        match newest.in_version(version) {
            Some(rules) => Ok(Profile { rules, cut }),
            None => Err(Error::usage_with(
                format!("the profile {plain} has no version {version:?} here"),
                format!("there is {}", newest.ids()),
            )),
        }
    }
}

/// The number of characters of a cut.
fn characters(digits: &str) -> Result<NonZeroU16> {
    let is_number = digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| {
        Error::usage_with(
            format!("{digits:?} is no number of characters from 1 to 65535"),
            "for example name:given@1, for the first letter of given names",
        )
    })
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_cut(self.rules.to_string()))
    }
}

#[cfg(test)]
mod tests;
