//! The rules that profiles have, by name and version.

use std::borrow::Cow;
use std::{fmt, iter};

#[cfg(feature = "unicode")]
use super::names::{self, NamePart};
#[cfg(feature = "phone")]
use super::phone::{self, Region};
use super::postcode::{self, PostalRegion};
#[cfg(feature = "unicode")]
use super::unicode;
use super::values::{self, DateOrder, TimeUnit};
use super::{Normalized, addresses, hashed, render};
use crate::error::{Error, Result};
use crate::profile::render::Kind;

/// The rules of a profile, with a version and perhaps an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Byte for byte as they are, surrounding white space included. Decimals are compared by value: what their
    /// columns call 12.50 and 12.500 is 12.5.
    Exact,
    /// The first version of [`Rules::Exact`]: decimals have all digits of their column's scale.
    ExactByScale,
    /// Text as people compare it: Unicode compatibility composition (NFKC), full case folding, invisible characters
    /// removed, but for joiners between letters that they join; typographic apostrophes and dashes in ASCII; white space
    /// trimmed and each run of it collapsed to one space; apostrophes in front removed, with which spreadsheets mark texts.
    #[cfg(feature = "unicode")]
    Text,
    /// The first version of [`Rules::Text`]: apostrophes and dashes as they are, and of invisible characters only soft
    /// hyphens, zero-width spaces, word joiners and byte-order marks removed.
    #[cfg(feature = "unicode")]
    Text1,
    /// An e-mail address: invisible characters removed, trimmed, without a spreadsheet's apostrophe or `mailto:` in front; the
    /// local part in NFC and case folded; the domain in lower-case ASCII by IDNA (UTS #46), without a trailing dot. Dots
    /// and `+tags` of the local part are kept, because only some providers ignore them.
    #[cfg(feature = "unicode")]
    Email,
    /// The first version of [`Rules::Email`]: with whatever is in front, and of invisible characters without the four
    /// of [`Rules::Text1`].
    #[cfg(feature = "unicode")]
    Email1,
    /// A phone number in E.164 form, such as `+442079460000`, as libphonenumber reads it. Numbers without a
    /// country code are read as dialled in the region; extensions are dropped. A number that is not in the
    /// compiled-in numbering plans is invalid, and so are digits in the form of a number, such as `4930123456.0`.
    /// Invisible characters are removed before.
    #[cfg(feature = "phone")]
    Phone(Region),
    /// The third version of [`Rules::Phone`]: libphonenumber decides about invisible characters.
    #[cfg(feature = "phone")]
    Phone3(Region),
    /// A value that is a SHA-256 digest in hexadecimal already: 64 digits, lower-cased.
    Sha256Hex,
    /// The unsalted SHA-256 digest of an e-mail address as IAB PAIR 1.1 has it: trimmed, ASCII letters in lower case, then
    /// hashed. A digest in hexadecimal is taken as it is.
    PairEmail,
    /// The unsalted SHA-256 digest of a phone number as IAB PAIR 1.1 has it: [`Rules::Phone`]'s E.164 form with its
    /// plus sign, then hashed. A digest in hexadecimal is taken as it is.
    #[cfg(feature = "phone")]
    PairPhone(Region),
    /// The second version of [`Rules::PairPhone`], of [`Rules::Phone3`].
    #[cfg(feature = "phone")]
    PairPhone2(Region),
    /// The unsalted SHA-256 digest of an e-mail address by the rule of UID2 and EUID. A digest in hexadecimal or Base64 is
    /// taken as it is.
    Uid2Email,
    /// The same by Google's rule.
    GoogleEmail,
    /// The unsalted SHA-256 digest of the digits of [`Rules::Phone`], without a plus sign, as Meta has it. A digest in
    /// hexadecimal or Base64 is taken as it is.
    #[cfg(feature = "phone")]
    MetaPhone(Region),
    /// The name of a person, or a part of it: case and accents folded, without punctuation, honorifics and generational
    /// suffixes.
    #[cfg(feature = "unicode")]
    Name(NamePart),
    /// A postal code of a region: its letters and digits, in upper case.
    Postcode(PostalRegion),
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
    /// The same with a comma before the decimals and marks between groups of digits, such as `1.234,50`.
    DecimalComma,
    /// An instant, whatever its zone and however many digits its seconds have; without a zone it is in UTC. Where a unit
    /// is given, a whole number counts such units since 1970.
    Timestamp(Option<TimeUnit>),
    /// A day: `2024-02-29` or `20240229`, or a timestamp at midnight, without a zone or in UTC. Where an order is given, in
    /// that order with separators, too.
    Date(Option<DateOrder>),
    /// A UUID in any of the usual forms.
    Uuid,
}

/// The bits of an [`Rules::Integer`], 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IntegerBits(u8);

impl IntegerBits {
    /// So many bits; `None` if they are not 1 to 64.
    pub(crate) fn new(bits: u32) -> Option<IntegerBits> {
        (1..=64).contains(&bits).then_some(IntegerBits(bits as u8))
    }

    /// The number of bits.
    pub(crate) fn get(self) -> u32 {
        self.0.into()
    }
}

impl Rules {
    /// Its name, without a version.
    fn name(self) -> &'static str {
        match self {
            Rules::Exact | Rules::ExactByScale => "exact",
            #[cfg(feature = "unicode")]
            Rules::Text | Rules::Text1 => "text",
            #[cfg(feature = "unicode")]
            Rules::Email | Rules::Email1 => "email",
            #[cfg(feature = "phone")]
            Rules::Phone(_) | Rules::Phone3(_) => "phone",
            Rules::Sha256Hex => "sha256-hex",
            Rules::PairEmail => "pair-email",
            #[cfg(feature = "phone")]
            Rules::PairPhone(_) | Rules::PairPhone2(_) => "pair-phone",
            Rules::Uid2Email => "uid2-email",
            Rules::GoogleEmail => "google-email",
            #[cfg(feature = "phone")]
            Rules::MetaPhone(_) => "meta-phone",
            #[cfg(feature = "unicode")]
            Rules::Name(_) => "name",
            Rules::Postcode(_) => "postcode",
            Rules::Ipv4 => "ipv4",
            Rules::Ipv6 => "ipv6",
            Rules::Integer(_) | Rules::AnyInteger => "integer",
            Rules::Decimal | Rules::DecimalComma => "decimal",
            Rules::Timestamp(_) => "timestamp",
            Rules::Date(_) => "date",
            Rules::Uuid => "uuid",
        }
    }

    /// Its version.
    fn version(self) -> u32 {
        match self {
            Rules::Exact | Rules::Ipv4 => 2,
            #[cfg(feature = "unicode")]
            Rules::Text | Rules::Email => 2,
            #[cfg(feature = "phone")]
            Rules::Phone(_) => 4,
            #[cfg(feature = "phone")]
            Rules::Phone3(_) | Rules::PairPhone(_) => 3,
            #[cfg(feature = "phone")]
            Rules::PairPhone2(_) => 2,
            _ => 1,
        }
    }

    /// The newest version, and the one before that if it is still here.
    fn versions(self) -> (Rules, Option<Rules>) {
        match self {
            Rules::Exact | Rules::ExactByScale => (Rules::Exact, Some(Rules::ExactByScale)),
            #[cfg(feature = "unicode")]
            Rules::Text | Rules::Text1 => (Rules::Text, Some(Rules::Text1)),
            #[cfg(feature = "unicode")]
            Rules::Email | Rules::Email1 => (Rules::Email, Some(Rules::Email1)),
            #[cfg(feature = "phone")]
            Rules::Phone(region) | Rules::Phone3(region) => {
                (Rules::Phone(region), Some(Rules::Phone3(region)))
            }
            #[cfg(feature = "phone")]
            Rules::PairPhone(region) | Rules::PairPhone2(region) => {
                (Rules::PairPhone(region), Some(Rules::PairPhone2(region)))
            }
            only => (only, None),
        }
    }

    /// The same in another version, if that is here.
    pub(super) fn in_version(self, version: &str) -> Option<Rules> {
        let (newest, former) = self.versions();
        let mut all = iter::once(newest).chain(former);
        all.find(|rules| rules.version().to_string() == version)
    }

    /// What is behind the colon.
    fn argument(self) -> Option<String> {
        match self {
            #[cfg(feature = "phone")]
            Rules::Phone(region)
            | Rules::Phone3(region)
            | Rules::PairPhone(region)
            | Rules::PairPhone2(region)
            | Rules::MetaPhone(region) => Some(region.to_string()),
            #[cfg(feature = "unicode")]
            Rules::Name(part) => part.name().map(str::to_owned),
            Rules::Postcode(region) => Some(region.to_string()),
            Rules::Integer(bits) => Some(bits.get().to_string()),
            Rules::Timestamp(unit) => unit.map(|unit| unit.name().to_owned()),
            Rules::Date(order) => order.map(|order| order.name().to_owned()),
            Rules::DecimalComma => Some("comma".to_owned()),
            _ => None,
        }
    }

    /// Whether the argument says what values are, and not only how one side writes them.
    fn is_told_argument(self) -> bool {
        match self {
            #[cfg(feature = "unicode")]
            Rules::Name(_) => true,
            _ => matches!(self, Rules::Postcode(_) | Rules::Integer(_)),
        }
    }

    /// Name and version in the contract, with an argument that both sides must give alike.
    pub(super) fn id(self) -> String {
        let argument = self.argument().filter(|_| self.is_told_argument());
        format!("{}/{}", self.named(argument), self.version())
    }

    /// The ids of all versions that are here.
    pub(super) fn ids(self) -> String {
        match self.versions() {
            (newest, Some(former)) => format!("{} and {}", newest.id(), former.id()),
            (only, None) => only.id(),
        }
    }

    fn named(self, argument: Option<String>) -> String {
        match argument {
            Some(argument) => format!("{}:{argument}", self.name()),
            None => self.name().to_owned(),
        }
    }

    /// Whether a value is invalid because it is digits in the form of a number, as columns of numbers have them.
    #[cfg_attr(not(feature = "phone"), allow(unused_variables))]
    pub(crate) fn is_number_form(&self, value: &str) -> bool {
        match self {
            #[cfg(feature = "phone")]
            Rules::Phone(region) | Rules::PairPhone(region) | Rules::MetaPhone(region) => {
                phone::is_number_form(value, *region)
            }
            #[cfg(feature = "phone")]
            Rules::Phone3(_) | Rules::PairPhone2(_) => phone::is_number_form_3(value),
            _ => false,
        }
    }

    /// Whether it takes floating-point numbers.
    pub(crate) fn takes_floats(&self) -> bool {
        *self == Rules::AnyInteger
    }

    /// Whether it takes a number that is written with a point as the digits it is written with.
    pub(crate) fn takes_digits(&self) -> bool {
        matches!(self, Rules::Decimal | Rules::DecimalComma)
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
            16 if *self == Rules::Uuid => render::uuid(bytes, &mut text),
            16 if *self == Rules::Ipv6 => return addresses::of_sixteen(bytes),
            4 if *self == Rules::Ipv4 => return addresses::of_four(bytes),
            _ => return None,
        }
        Some(text)
    }

    /// Whether its values are SHA-256 digests, which may be 32 bytes as they are.
    pub(crate) fn is_digest(&self) -> bool {
        match self {
            Rules::Sha256Hex => true,
            Rules::PairEmail | Rules::Uid2Email | Rules::GoogleEmail => true,
            #[cfg(feature = "phone")]
            Rules::PairPhone(_) | Rules::PairPhone2(_) | Rules::MetaPhone(_) => true,
            _ => false,
        }
    }

    /// Whether values are compared as they are.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self, Rules::Exact | Rules::ExactByScale)
    }

    /// Whether it takes digests in Base64.
    pub(crate) fn takes_base64(&self) -> bool {
        match self {
            Rules::Uid2Email | Rules::GoogleEmail => true,
            #[cfg(feature = "phone")]
            Rules::MetaPhone(_) => true,
            _ => false,
        }
    }

    /// Whether it leaves invisible characters out, of whatever kind.
    pub(crate) fn drops_invisible(&self) -> bool {
        match self {
            #[cfg(feature = "unicode")]
            Rules::Text | Rules::Email | Rules::Name(_) => true,
            #[cfg(feature = "phone")]
            Rules::Phone(_) | Rules::PairPhone(_) | Rules::MetaPhone(_) => true,
            _ => matches!(
                self,
                Rules::Postcode(_) | Rules::Date(Some(_)) | Rules::DecimalComma
            ),
        }
    }

    /// Whether it leaves `mailto:` in front out.
    pub(crate) fn drops_mail_scheme(&self) -> bool {
        match self {
            #[cfg(feature = "unicode")]
            Rules::Email => true,
            _ => false,
        }
    }

    /// Whether it takes any text for what it is, and not for a number or a date.
    pub(crate) fn is_text(&self) -> bool {
        match self {
            #[cfg(feature = "unicode")]
            Rules::Text | Rules::Text1 | Rules::Name(_) => true,
            _ => self.is_exact(),
        }
    }

    /// The text that is normalised of a value that has a type: of a decimal, given with all digits of its scale, of sixteen
    /// bytes, given as a UUID, and of a number with a point, where commas are before decimals.
    pub(crate) fn of_typed<'a>(&self, kind: Kind, text: &'a str) -> Cow<'a, str> {
        match (self, kind) {
            (Rules::Exact, Kind::Decimal) => values::decimal_by_value(text).into(),
            (Rules::DecimalComma, _) => text.replace('.', ",").into(),
            (Rules::Ipv6, Kind::Uuid) => addresses::of_uuid(text).into(),
            _ => text.into(),
        }
    }

    /// The bits of its values, if these are numbers of a declared width.
    pub(crate) fn bits(&self) -> Option<u32> {
        match self {
            Rules::Ipv4 => Some(32),
            Rules::Integer(bits) => Some(bits.get()),
            _ => None,
        }
    }

    /// The number that a canonical text of this profile stands for, if it has [`bits`](Rules::bits).
    pub(crate) fn number(&self, canonical: &str) -> Option<u64> {
        match self {
            Rules::Ipv4 => addresses::number(canonical),
            Rules::Integer(_) => canonical.parse().ok(),
            _ => None,
        }
    }

    /// Normalises one text value.
    pub(super) fn normalize<'a>(&self, value: &'a str) -> Normalized<'a> {
        match self {
            Rules::Exact | Rules::ExactByScale => match value {
                "" => Normalized::Blank,
                _ => Normalized::Valid(Cow::Borrowed(value)),
            },
            #[cfg(feature = "unicode")]
            Rules::Text => unicode::text(value),
            #[cfg(feature = "unicode")]
            Rules::Text1 => unicode::text_1(value),
            #[cfg(feature = "unicode")]
            Rules::Email => unicode::email(value),
            #[cfg(feature = "unicode")]
            Rules::Email1 => unicode::email_1(value),
            #[cfg(feature = "phone")]
            Rules::Phone(region) => phone::phone(value, *region),
            #[cfg(feature = "phone")]
            Rules::Phone3(region) => phone::phone_3(value, *region),
            Rules::Sha256Hex => hashed::sha256_hex(value),
            Rules::PairEmail => hashed::pair_email(value),
            #[cfg(feature = "phone")]
            Rules::PairPhone(region) => {
                hashed::pair_phone(value, |value| phone::phone(value, *region))
            }
            #[cfg(feature = "phone")]
            Rules::PairPhone2(region) => {
                hashed::pair_phone(value, |value| phone::phone_3(value, *region))
            }
            Rules::Uid2Email => hashed::uid2_email(value),
            Rules::GoogleEmail => hashed::google_email(value),
            #[cfg(feature = "phone")]
            Rules::MetaPhone(region) => hashed::meta_phone(value, *region),
            #[cfg(feature = "unicode")]
            Rules::Name(part) => names::name(value, *part),
            Rules::Postcode(region) => postcode::postcode(value, *region),
            Rules::Ipv4 => addresses::ipv4(value),
            Rules::Ipv6 => addresses::ipv6(value),
            Rules::Integer(bits) => integer(value, bits.get()),
            Rules::AnyInteger => values::integer(value),
            Rules::Decimal => values::decimal(value),
            Rules::DecimalComma => values::decimal_comma(value),
            Rules::Timestamp(unit) => values::timestamp(value, *unit),
            Rules::Date(order) => values::date(value, *order),
            Rules::Uuid => values::uuid(value),
        }
    }

    /// The rules of a name without a version: the newest.
    pub(super) fn newest(name: &str) -> Result<Self> {
        match name {
            "exact" => Ok(Rules::Exact),
            #[cfg(feature = "unicode")]
            "text" => Ok(Rules::Text),
            #[cfg(feature = "unicode")]
            "email" => Ok(Rules::Email),
            #[cfg(not(feature = "unicode"))]
            "text" | "email" | "name" => Err(left_out(name, "unicode")),
            #[cfg(feature = "unicode")]
            "name" => Ok(Rules::Name(NamePart::Full)),
            "sha256-hex" => Ok(Rules::Sha256Hex),
            "pair-email" => Ok(Rules::PairEmail),
            "uid2-email" => Ok(Rules::Uid2Email),
            "google-email" => Ok(Rules::GoogleEmail),
            "ipv4" => Ok(Rules::Ipv4),
            "ipv6" => Ok(Rules::Ipv6),
            "integer" => Ok(Rules::AnyInteger),
            "decimal" => Ok(Rules::Decimal),
            "decimal:comma" => Ok(Rules::DecimalComma),
            "timestamp" => Ok(Rules::Timestamp(None)),
            "date" => Ok(Rules::Date(None)),
            "uuid" => Ok(Rules::Uuid),
            "phone" | "pair-phone" | "meta-phone" => Err(Error::usage_with(
                format!("the {name} profile needs a region"),
                "for example phone:GB, the region in which numbers without a country code are dialled",
            )),
            "postcode" => Err(Error::usage_with(
                "the postcode profile needs a region",
                "for example postcode:GB, the country whose postal codes they are",
            )),
            _ if name.starts_with("integer:") => {
                let bits = name["integer:".len()..].parse().ok();
                let bits = bits.and_then(IntegerBits::new);
                Ok(Rules::Integer(bits.ok_or_else(wrong_bits)?))
            }
            _ => match name.split_once(':') {
                Some(("timestamp", unit)) => TimeUnit::named(unit)
                    .map(|unit| Rules::Timestamp(Some(unit)))
                    .ok_or_else(wrong_unit),
                Some(("date", order)) => DateOrder::named(order)
                    .map(|order| Rules::Date(Some(order)))
                    .ok_or_else(wrong_order),
                Some(("postcode", region)) => Ok(Rules::Postcode(region.parse()?)),
                #[cfg(feature = "unicode")]
                Some(("name", part)) => NamePart::named(part)
                    .map(Rules::Name)
                    .ok_or_else(wrong_part),
                #[cfg(not(feature = "unicode"))]
                Some(("name", _)) => Err(left_out(name, "unicode")),
                #[cfg(feature = "phone")]
                Some(("phone", region)) => Ok(Rules::Phone(region.parse()?)),
                #[cfg(feature = "phone")]
                Some(("pair-phone", region)) => Ok(Rules::PairPhone(region.parse()?)),
                #[cfg(feature = "phone")]
                Some(("meta-phone", region)) => Ok(Rules::MetaPhone(region.parse()?)),
                #[cfg(not(feature = "phone"))]
                Some(("phone" | "pair-phone" | "meta-phone", _)) => Err(left_out(name, "phone")),
                _ => Err(Error::usage_with(
                    format!("no normalisation profile is called {name:?}"),
                    NAMES,
                )),
            },
        }
    }
}

impl fmt::Display for Rules {
    /// As a person writes it: with a version only if that is not the newest.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named(self.argument()))?;
        match self.versions() {
            (newest, _) if newest == *self => Ok(()),
            _ => write!(f, "/{}", self.version()),
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

const NAMES: &str = "profiles are: exact, text, email, phone:REGION, name, name:given, name:family, date, date:DMY, date:MDY, \
     date:YMD, postcode:REGION, sha256-hex, pair-email, pair-phone:REGION, uid2-email, google-email, meta-phone:REGION, ipv4, \
     ipv6, integer, integer:BITS, decimal, decimal:comma, timestamp, timestamp:UNIT, uuid; @N behind one compares N characters of \
     its values";

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

fn wrong_order() -> Error {
    Error::usage_with(
        "the profile date:ORDER takes the order DMY, MDY or YMD",
        "for example date:DMY, for days such as 31.12.1984; date alone takes 1984-12-31 and 19841231",
    )
}

#[cfg(feature = "unicode")]
fn wrong_part() -> Error {
    Error::usage_with(
        "the profile name:PART takes the part given or family",
        "for example name:family; name alone takes whole names",
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
