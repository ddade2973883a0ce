//! Match keys as IAB PAIR 1.1 defines them ("Canonical representation of Common Match keys"): SHA-256 without a salt.
//!
//! Without a salt a digest is a name for the address or number: whoever has the digest can try all numbers there are, and
//! lists of addresses. Here it only decides which keys are equal, and is hashed again.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use super::{Normalized, render, sha256_hex};

/// ASCII letters in lower case, and nothing else: letters beyond ASCII stay as they are, and dots stay.
pub(super) fn email(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    let Some((local, domain)) = trimmed.rsplit_once('@') else {
        return sha256_hex(value);
    };
    if local.is_empty() || domain.is_empty() || trimmed.contains(char::is_whitespace) {
        return Normalized::Invalid;
    }
    hashed(&trimmed.to_ascii_lowercase())
}

#[cfg(feature = "phone")]
pub(super) fn phone(value: &str, region: super::Region) -> Normalized<'_> {
    // No number has 64 digits.
    match sha256_hex(value) {
        Normalized::Invalid => {}
        digest => return digest,
    }
    match super::phone::phone(value, region) {
        Normalized::Valid(number) => hashed(&number),
        Normalized::Blank => Normalized::Blank,
        Normalized::Invalid => Normalized::Invalid,
    }
}

fn hashed(text: &str) -> Normalized<'static> {
    let digest = Sha256::digest(text.as_bytes());
    Normalized::Valid(Cow::Owned(render::hex(&digest)))
}
