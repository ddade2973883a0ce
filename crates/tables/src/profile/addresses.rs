//! Addresses of the Internet Protocol: what they are, and not how they are written.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Normalized;

/// An IPv4 address in dotted decimal, or as the whole number that it is.
pub(super) fn ipv4(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    // Not what `parse` accepts besides: a sign.
    if trimmed.bytes().all(|b| b.is_ascii_digit()) {
        return match trimmed.parse::<u32>() {
            Ok(number) => Normalized::Valid(Cow::Owned(Ipv4Addr::from(number).to_string())),
            Err(_) => Normalized::Invalid,
        };
    }
    match trimmed.parse::<Ipv4Addr>() {
        Ok(_) => Normalized::Valid(Cow::Borrowed(trimmed)),
        Err(_) => Normalized::Invalid,
    }
}

/// An IPv6 address in any form, or an IPv4 address, which is mapped. The canonical text is that of RFC 5952.
pub(super) fn ipv6(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    let address = match trimmed.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => address,
        Ok(IpAddr::V4(address)) => address.to_ipv6_mapped(),
        Err(_) => return Normalized::Invalid,
    };
    Normalized::Valid(match address.to_string() {
        text if text == trimmed => Cow::Borrowed(trimmed),
        text => Cow::Owned(text),
    })
}

/// The number of a canonical IPv4 address.
pub(super) fn number(canonical: &str) -> Option<u64> {
    let address: Ipv4Addr = canonical.parse().ok()?;
    Some(u32::from(address).into())
}

/// The IPv4 address that four bytes are.
pub(super) fn of_four(bytes: &[u8]) -> Option<String> {
    let bytes: [u8; 4] = bytes.try_into().ok()?;
    Some(Ipv4Addr::from(bytes).to_string())
}

/// The IPv6 address that sixteen bytes are, unless they are the text of one.
pub(super) fn of_sixteen(bytes: &[u8]) -> Option<String> {
    let is_text = str::from_utf8(bytes).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok());
    let bytes: [u8; 16] = bytes.try_into().ok()?;
    (!is_text).then(|| Ipv6Addr::from(bytes).to_string())
}

/// The IPv6 address whose bytes are those of a UUID.
pub(super) fn of_uuid(uuid: &str) -> String {
    let digits = uuid.bytes().filter_map(|b| char::from(b).to_digit(16));
    let bits = digits.fold(0, |bits: u128, digit| bits << 4 | u128::from(digit));
    Ipv6Addr::from(bits).to_string()
}
