//! Match keys as those who exchange digests define them: SHA-256 of a normalised address or number, without a salt.
//!
//! | profile | whose rule |
//! |---|---|
//! | `pair-email`, `pair-phone` | IAB PAIR 1.1, "Canonical representation of Common Match keys" |
//! | `uid2-email` | UID2 and EUID, "Normalization and Encoding" (<https://unifiedid.com/docs/getting-started/gs-normalization-encoding>) |
//! | `google-email` | Google Data Manager API, "Format user data" (<https://developers.google.com/data-manager/api/devguides/concepts/formatting>) |
//! | `meta-phone` | Meta Conversions API, "Customer Information Parameters" (<https://developers.facebook.com/docs/marketing-api/conversions-api/parameters/customer-information-parameters>) |
//!
//! Without a salt a digest is a name for the address or number: whoever has the digest can try all numbers there are, and
//! lists of addresses. Here it only decides which keys are equal, and is hashed again.

use std::borrow::Cow;

use base64::engine::general_purpose::GeneralPurpose;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, Engine};
use sha2::{Digest, Sha256};

use super::{Normalized, render};

/// PAIR's: ASCII letters in lower case, and nothing else: letters beyond ASCII stay as they are, and dots stay.
pub(super) fn pair_email(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    let Some((local, domain)) = trimmed.rsplit_once('@') else {
        return sha256_hex(value);
    };
    if local.is_empty() || domain.is_empty() || trimmed.contains(char::is_whitespace) {
        return Normalized::Invalid;
    }
    hashed(&trimmed.to_ascii_lowercase())
}

/// UID2's: ASCII letters in lower case; in addresses at `gmail.com`, no dots and nothing from a plus sign on.
pub(super) fn uid2_email(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    match trimmed.contains('@') {
        false => digest(value),
        true if trimmed.contains(char::is_whitespace) => Normalized::Invalid,
        true => mailbox(&trimmed.to_ascii_lowercase(), &["gmail.com"]),
    }
}

/// Google's: white space removed everywhere, ASCII letters in lower case; in addresses at `gmail.com` and `googlemail.com`,
/// no dots and nothing from a plus sign on.
pub(super) fn google_email(value: &str) -> Normalized<'_> {
    if !value.contains('@') {
        return digest(value);
    }
    let mut address: String = value.split_whitespace().collect();
    address.make_ascii_lowercase();
    mailbox(&address, &["gmail.com", "googlemail.com"])
}

/// An address whose local part is that of a mailbox at some domains: there dots count for nothing, nor does a tag.
fn mailbox(address: &str, domains: &[&str]) -> Normalized<'static> {
    let Some((local, domain)) = address.split_once('@') else {
        return Normalized::Invalid;
    };
    if domain.is_empty() || domain.contains('@') {
        return Normalized::Invalid;
    }
    let local = match domains.contains(&domain) {
        true => Cow::Owned(local.split('+').next().unwrap_or_default().replace('.', "")),
        false => Cow::Borrowed(local),
    };
    match local.is_empty() {
        true => Normalized::Invalid,
        false => hashed(&format!("{local}@{domain}")),
    }
}

/// PAIR's: the digits of E.164 behind a plus sign.
#[cfg(feature = "phone")]
pub(super) fn pair_phone<'a>(
    value: &'a str,
    e164: impl FnOnce(&'a str) -> Normalized<'a>,
) -> Normalized<'a> {
    // No number has 64 digits.
    match sha256_hex(value) {
        Normalized::Invalid => of_number(e164(value), ""),
        digest => digest,
    }
}

/// Meta's: the digits of E.164, country code first, without the plus sign.
#[cfg(feature = "phone")]
pub(super) fn meta_phone(value: &str, region: super::phone::Region) -> Normalized<'_> {
    match digest(value) {
        Normalized::Invalid => of_number(super::phone::phone(value, region), "+"),
        digest => digest,
    }
}

/// The digest of a number without what is in front of it.
#[cfg(feature = "phone")]
fn of_number<'a>(number: Normalized<'a>, front: &str) -> Normalized<'a> {
    match number {
        Normalized::Valid(number) => hashed(number.strip_prefix(front).unwrap_or(&number)),
        other => other,
    }
}

/// A digest that others made: 64 hexadecimal digits, or Base64.
fn digest(value: &str) -> Normalized<'_> {
    match (sha256_hex(value), of_base64(value.trim())) {
        (Normalized::Invalid, Some(bytes)) => Normalized::Valid(Cow::Owned(render::hex(&bytes))),
        (found, _) => found,
    }
}

/// The 32 bytes that Base64 of 44 characters stands for, in its usual alphabet or the one for addresses.
pub(crate) fn of_base64(text: &str) -> Option<[u8; 32]> {
    if text.len() != 44 {
        return None;
    }
    let of = |engine: GeneralPurpose| engine.decode(text).ok()?.try_into().ok();
    of(BASE64_STANDARD).or_else(|| of(BASE64_URL_SAFE))
}

/// A digest in hexadecimal: 64 digits, in lower case.
pub(super) fn sha256_hex(value: &str) -> Normalized<'_> {
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

fn hashed(text: &str) -> Normalized<'static> {
    let digest = Sha256::digest(text.as_bytes());
    Normalized::Valid(Cow::Owned(render::hex(&digest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn base64_of_a_digest_is_the_digest(bytes: [u8; 32]) {
            let text = BASE64_STANDARD.encode(bytes);
            prop_assert_eq!(of_base64(&text), Some(bytes));
            let hex = Normalized::Valid(Cow::Owned(render::hex(&bytes)));
            prop_assert_eq!(digest(&text), hex.clone());
            let other = text.replace('+', "-").replace('/', "_");
            prop_assert_eq!(google_email(&other), hex);
        }
    }

    #[test]
    fn what_is_no_base64_of_a_digest() {
        let text = BASE64_STANDARD.encode([0xff; 32]);
        let (other, longer) = (text.replace("8=", "9="), text.replace('=', "A"));
        for text in [&text[1..], &text[..43], &longer, &other, ""] {
            assert_eq!(of_base64(text), None, "{text}");
        }
        assert_eq!(of_base64(&text.replacen('/', " ", 1)), None);
    }
}
