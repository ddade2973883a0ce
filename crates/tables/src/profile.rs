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
pub(crate) mod key;
mod null_words;
#[cfg(feature = "phone")]
mod number_form;
mod pair;
#[cfg(feature = "phone")]
mod phone;
pub(crate) mod render;
#[cfg(feature = "unicode")]
mod unicode;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::profile::render::Kind;

/// How the values of a key column are normalised before they are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// Byte for byte as they are, surrounding white space included. Decimals are compared by value: what their
    /// columns call 12.50 and 12.500 is 12.5.
    Exact,
    /// The first version of [`Profile::Exact`]: decimals have all digits of their column's scale.
    ExactByScale,
    /// Text as people compare it: Unicode compatibility composition (NFKC), full case folding,
    /// invisible characters (soft hyphen, zero-width space, word joiner, byte-order mark)
    /// removed, white space trimmed and each run of it collapsed to one space.
    #[cfg(feature = "unicode")]
    Text,
    /// An e-mail address: invisible characters removed, trimmed; the local part in NFC and case folded; the domain in
    /// lower-case ASCII by IDNA (UTS #46), without a trailing dot. Dots and `+tags` of the local
    /// part are kept, because only some providers ignore them.
    #[cfg(feature = "unicode")]
    Email,
    /// A phone number in E.164 form, such as `+442079460000`, as libphonenumber reads it. Numbers without a
    /// country code are read as dialled in the region; extensions are dropped. A number that is not in the
    /// compiled-in numbering plans is invalid, and so are digits in the form of a number, such as `4930123456.0`.
    #[cfg(feature = "phone")]
    Phone(Region),
    /// A value that is a SHA-256 digest in hexadecimal already: 64 digits, lower-cased.
    Sha256Hex,
    /// The unsalted SHA-256 digest of an e-mail address as IAB PAIR 1.1 has it: trimmed, ASCII letters in lower case, then
    /// hashed. A digest in hexadecimal is taken as it is.
    PairEmail,
    /// The unsalted SHA-256 digest of a phone number as IAB PAIR 1.1 has it: [`Profile::Phone`]'s E.164 form with its
    /// plus sign, then hashed. A digest in hexadecimal is taken as it is.
    #[cfg(feature = "phone")]
    PairPhone(Region),
    /// An IPv4 address: in dotted decimal, such as `192.0.2.7`, with no leading zeros, which some read as octal; or the
    /// whole number that it is, or four bytes.
    Ipv4,
    /// An IPv6 address in any of the forms of RFC 4291, or sixteen bytes. An IPv4 address is the IPv6 address that it is
    /// mapped to.
    Ipv6,
    /// A whole number from 0 to 2^bits − 1 in decimal digits; leading zeros mean nothing.
    Integer(IntegerBits),
    /// A whole number of any size, by value: `+007`, `7.0` and a column's 7 are the same. Columns of floats are
    /// taken too, as far as floats are exact.
    AnyInteger,
    /// A number in decimal digits, by value: `12.50`, `+12.5` and a column's 12.500 are the same.
    Decimal,
    /// An instant, whatever its zone and however many digits its seconds have; without a zone it is in UTC. Where a unit
    /// is given, a whole number counts such units since 1970.
    Timestamp(Option<TimeUnit>),
    /// A day: `2024-02-29` or `20240229`, or a timestamp at midnight, without a zone or in UTC.
    Date,
    /// A UUID in any of the usual forms.
    Uuid,
}

/// The bits of an [`Profile::Integer`], 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntegerBits(u8);

impl IntegerBits {
    /// So many bits; `None` if they are not 1 to 64.
    pub fn new(bits: u32) -> Option<IntegerBits> {
        (1..=64).contains(&bits).then_some(IntegerBits(bits as u8))
    }

    /// The number of bits.
    pub fn get(self) -> u32 {
        self.0.into()
    }
}

/// What a whole number under [`Profile::Timestamp`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
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

    fn named(name: &str) -> Option<TimeUnit> {
        let found = TimeUnit::ALL.iter().find(|(own, ..)| *own == name)?;
        Some(found.1)
    }

    fn name(self) -> &'static str {
        TimeUnit::ALL[self as usize].0
    }

    fn per_second(self) -> i64 {
        TimeUnit::ALL[self as usize].2
    }
}

#[cfg(feature = "phone")]
pub use phone::Region;
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

impl Profile {
    /// The profile's name and version as the parties compare them, such as `email/1`.
    ///
    /// The region of a phone profile is not part of it: E.164 numbers are the same wherever
    /// they were written, and two parties may well keep numbers of different countries. Nor is the unit of
    /// a timestamp.
    pub fn id(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Profile::Exact => "exact/2",
            Profile::ExactByScale => "exact/1",
            #[cfg(feature = "unicode")]
            Profile::Text => "text/1",
            #[cfg(feature = "unicode")]
            Profile::Email => "email/1",
            #[cfg(feature = "phone")]
            Profile::Phone(_) => "phone/3",
            Profile::Sha256Hex => "sha256-hex/1",
            Profile::PairEmail => "pair-email/1",
            #[cfg(feature = "phone")]
            Profile::PairPhone(_) => "pair-phone/2",
            Profile::Ipv4 => "ipv4/2",
            Profile::Ipv6 => "ipv6/1",
            Profile::Integer(bits) => return Cow::Owned(format!("integer:{}/1", bits.get())),
            Profile::AnyInteger => "integer/1",
            Profile::Decimal => "decimal/1",
            Profile::Timestamp(_) => "timestamp/1",
            Profile::Date => "date/1",
            Profile::Uuid => "uuid/1",
        })
    }

    /// What a person writes for a profile with this [`id`](Profile::id): `email` for `email/1`, and `phone:REGION` for `phone/3`,
    /// which does not say the region. `None` if there is none of that version.
    pub fn written(id: &str) -> Option<String> {
        if let Ok(profile) = id.parse::<Profile>() {
            return Some(profile.to_string());
        }
        let (name, version) = id.rsplit_once('/')?;
        let some: Profile = format!("{name}:GB/{version}").parse().ok()?;
        (some.id() == id).then(|| format!("{name}:REGION"))
    }

    /// Whether a value is invalid because it is digits in the form of a number, as columns of numbers have them.
    #[cfg_attr(not(feature = "phone"), allow(unused_variables))]
    pub(crate) fn is_number_form(&self, value: &str) -> bool {
        match self {
            #[cfg(feature = "phone")]
            Profile::Phone(_) | Profile::PairPhone(_) => phone::is_number_form(value),
            _ => false,
        }
    }

    /// Whether it takes floating-point numbers.
    pub(crate) fn takes_floats(&self) -> bool {
        *self == Profile::AnyInteger
    }

    /// Whether it takes a number that is written with a point as the digits it is written with.
    pub(crate) fn takes_digits(&self) -> bool {
        *self == Profile::Decimal
    }

    /// The text of bytes that are a value of this profile as they are, and no text.
    pub(crate) fn of_bytes(&self, bytes: &[u8]) -> Option<String> {
        let mut text = String::new();
        match bytes.len() {
            32 if self.is_digest() => {
                text.extend(
                    bytes
                        .iter()
                        .flat_map(|b| render::hex_pair(*b).map(char::from)),
                );
            }
            16 if *self == Profile::Uuid => render::uuid(bytes, &mut text),
            16 if *self == Profile::Ipv6 => return addresses::of_sixteen(bytes),
            4 if *self == Profile::Ipv4 => return addresses::of_four(bytes),
            _ => return None,
        }
        Some(text)
    }

    /// Whether its values are SHA-256 digests, which may be 32 bytes as they are.
    fn is_digest(&self) -> bool {
        match self {
            Profile::Sha256Hex | Profile::PairEmail => true,
            #[cfg(feature = "phone")]
            Profile::PairPhone(_) => true,
            _ => false,
        }
    }

    /// Whether values are compared as they are.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Profile::Exact | Profile::ExactByScale)
    }

    /// The text that is normalised of a value that has a type: of a decimal, given with all digits of its scale, and of
    /// sixteen bytes, given as a UUID.
    pub(crate) fn of_typed<'a>(&self, kind: Kind, text: &'a str) -> Cow<'a, str> {
        match (self, kind) {
            (Profile::Exact, Kind::Decimal) => values::decimal_by_value(text).into(),
            (Profile::Ipv6, Kind::Uuid) => addresses::of_uuid(text).into(),
            _ => text.into(),
        }
    }

    /// The bits of its values, if these are numbers of a declared width.
    pub fn bits(&self) -> Option<u32> {
        match self {
            Profile::Ipv4 => Some(32),
            Profile::Integer(bits) => Some(bits.get()),
            _ => None,
        }
    }

    /// The number that a canonical text of this profile stands for, if it has [`bits`](Profile::bits).
    pub(crate) fn number(&self, canonical: &str) -> Option<u64> {
        match self {
            Profile::Ipv4 => addresses::number(canonical),
            Profile::Integer(_) => canonical.parse().ok(),
            _ => None,
        }
    }

    /// Normalises one text value.
    pub fn normalize<'a>(&self, value: &'a str) -> Normalized<'a> {
        match self {
            Profile::Exact | Profile::ExactByScale => match value {
                "" => Normalized::Blank,
                _ => Normalized::Valid(Cow::Borrowed(value)),
            },
            #[cfg(feature = "unicode")]
            Profile::Text => unicode::text(value),
            #[cfg(feature = "unicode")]
            Profile::Email => unicode::email(value),
            #[cfg(feature = "phone")]
            Profile::Phone(region) => phone::phone(value, *region),
            Profile::Sha256Hex => sha256_hex(value),
            Profile::PairEmail => pair::email(value),
            #[cfg(feature = "phone")]
            Profile::PairPhone(region) => pair::phone(value, *region),
            Profile::Ipv4 => addresses::ipv4(value),
            Profile::Ipv6 => addresses::ipv6(value),
            Profile::Integer(bits) => integer(value, bits.get()),
            Profile::AnyInteger => values::integer(value),
            Profile::Decimal => values::decimal(value),
            Profile::Timestamp(unit) => values::timestamp(value, *unit),
            Profile::Date => values::date(value),
            Profile::Uuid => values::uuid(value),
        }
    }

    /// The profile of a name without a version: the newest.
    fn newest(name: &str) -> Result<Self> {
        match name {
            "exact" => Ok(Profile::Exact),
            #[cfg(feature = "unicode")]
            "text" => Ok(Profile::Text),
            #[cfg(feature = "unicode")]
            "email" => Ok(Profile::Email),
            #[cfg(not(feature = "unicode"))]
            "text" | "email" => Err(left_out(name, "unicode")),
            "sha256-hex" => Ok(Profile::Sha256Hex),
            "pair-email" => Ok(Profile::PairEmail),
            "ipv4" => Ok(Profile::Ipv4),
            "ipv6" => Ok(Profile::Ipv6),
            "integer" => Ok(Profile::AnyInteger),
            "decimal" => Ok(Profile::Decimal),
            "timestamp" => Ok(Profile::Timestamp(None)),
            "date" => Ok(Profile::Date),
            "uuid" => Ok(Profile::Uuid),
            "phone" | "pair-phone" => Err(Error::usage_with(
                format!("the {name} profile needs a region"),
                "for example phone:GB, the region in which numbers without a country code are dialled",
            )),
            _ if name.starts_with("integer:") => {
                let bits = name["integer:".len()..].parse().ok();
                let bits = bits.and_then(IntegerBits::new);
                Ok(Profile::Integer(bits.ok_or_else(wrong_bits)?))
            }
            _ => match name.split_once(':') {
                Some(("timestamp", unit)) => TimeUnit::named(unit)
                    .map(|unit| Profile::Timestamp(Some(unit)))
                    .ok_or_else(wrong_unit),
                #[cfg(feature = "phone")]
                Some(("phone", region)) => Ok(Profile::Phone(region.parse()?)),
                #[cfg(feature = "phone")]
                Some(("pair-phone", region)) => Ok(Profile::PairPhone(region.parse()?)),
                #[cfg(not(feature = "phone"))]
                Some(("phone" | "pair-phone", _)) => Err(left_out(name, "phone")),
                _ => Err(Error::usage_with(
                    format!("no normalisation profile is called {name:?}"),
                    NAMES,
                )),
            },
        }
    }
}

/// The error for a profile that this build leaves out.
#[cfg(not(all(feature = "phone", feature = "unicode")))]
fn left_out(name: &str, feature: &str) -> Error {
    Error::usage_with(
        format!("the profile {name} is not in this build"),
        format!("build vesica with the feature `{feature}`"),
    )
}

const NAMES: &str = "profiles are: exact, text, email, phone:REGION, sha256-hex, pair-email, pair-phone:REGION, ipv4, ipv6, integer, integer:BITS, decimal, date, timestamp, timestamp:UNIT, uuid";

impl FromStr for Profile {
    type Err = Error;

    /// `exact`, `text`, `email`, `sha256-hex`, `pair-email`, `ipv4`, `ipv6`, `integer`, `decimal`, `date`, `timestamp` or `uuid`;
    /// `phone:` or `pair-phone:` and a region such as `GB`; `integer:` and a number of bits from 1 to 64; or `timestamp:` and
    /// `s`, `ms`, `us` or `ns`. A version may follow, as in `exact/1`; otherwise it is the newest.
    fn from_str(name: &str) -> Result<Self> {
        let Some((plain, version)) = name.rsplit_once('/') else {
            return Profile::newest(name);
        };
        let newest = Profile::newest(plain)?;
        let id = newest.id();
        match id.rsplit_once('/') {
            Some((_, newest_version)) if newest_version == version => Ok(newest),
            _ if name == "exact/1" => Ok(Profile::ExactByScale),
            _ => Err(Error::usage_with(
                format!("the profile {plain} has no version {version:?} here"),
                format!("there is {id}"),
            )),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Profile::Exact => f.write_str("exact"),
            Profile::ExactByScale => f.write_str("exact/1"),
            #[cfg(feature = "unicode")]
            Profile::Text => f.write_str("text"),
            #[cfg(feature = "unicode")]
            Profile::Email => f.write_str("email"),
            #[cfg(feature = "phone")]
            Profile::Phone(region) => write!(f, "phone:{region}"),
            Profile::Sha256Hex => f.write_str("sha256-hex"),
            Profile::PairEmail => f.write_str("pair-email"),
            #[cfg(feature = "phone")]
            Profile::PairPhone(region) => write!(f, "pair-phone:{region}"),
            Profile::Ipv4 => f.write_str("ipv4"),
            Profile::Ipv6 => f.write_str("ipv6"),
            Profile::Integer(bits) => write!(f, "integer:{}", bits.get()),
            Profile::AnyInteger => f.write_str("integer"),
            Profile::Decimal => f.write_str("decimal"),
            Profile::Timestamp(None) => f.write_str("timestamp"),
            Profile::Timestamp(Some(unit)) => write!(f, "timestamp:{}", unit.name()),
            Profile::Date => f.write_str("date"),
            Profile::Uuid => f.write_str("uuid"),
        }
    }
}

fn wrong_bits() -> Error {
    Error::usage_with(
        "the profile integer:BITS takes from 1 to 64 bits",
        "for example integer:34, for numbers of ten digits; integer alone takes numbers of any size",
    )
}

fn wrong_unit() -> Error {
    Error::usage_with(
        "the profile timestamp:UNIT takes the unit s, ms, us or ns",
        "for example timestamp:ms, for whole numbers of milliseconds since 1970",
    )
}

fn integer(value: &str, bits: u32) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    // Not what `parse` accepts besides: a sign.
    if !trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return Normalized::Invalid;
    }
    let digits = match trimmed.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    match digits.parse::<u64>() {
        Ok(number) if number <= u64::MAX >> (64 - bits) => Normalized::Valid(Cow::Borrowed(digits)),
        _ => Normalized::Invalid,
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
