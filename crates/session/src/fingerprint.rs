//! Fingerprints, by which a person pins a peer.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use vesica_files::{Advice, Command, advice, found_at};

use crate::base32;

/// Fingerprint of an identity's public key, written `vs1:` and 56 characters of lower-case base32.
///
/// It is 32 bytes of BLAKE3 (domain separated) over the key's SubjectPublicKeyInfo. The text ends in 24 bits
/// of checksum, so that a mistyped fingerprint is not mistaken for another peer's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// Why a text is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FingerprintError {
    /// There is nothing.
    #[error("a fingerprint is expected, and there is nothing")]
    Empty,
    /// It does not begin with `vs1:`.
    #[error("a fingerprint begins with \"vs1:\"")]
    Prefix,
    /// It has too few or too many characters.
    #[error("a fingerprint has 56 characters after \"vs1:\", this one has {0}")]
    Length(usize),
    /// It holds a character other than a to z and 2 to 7.
    #[error("a fingerprint holds only the letters a to z and the digits 2 to 7, not {0:?}")]
    Character(char),
    /// The checksum is wrong: somebody mistyped it.
    #[error("the fingerprint has a typing mistake: its checksum does not fit")]
    Checksum,
}

impl FingerprintError {
    /// What the user can do about a text that is none for this reason; what it is instead, if that is known.
    pub fn remedy_of(&self, text: &str) -> Advice {
        let found = match self {
            FingerprintError::Prefix if has_port(text) => Some("an address"),
            FingerprintError::Prefix => found_at(Path::new(text)),
            _ => None,
        };
        let found = match (self, found) {
            (FingerprintError::Empty, _) => {
                "a variable that was to have it may be empty: ".to_owned()
            }
            (_, Some(found)) => format!("this is {found}, and not a fingerprint: "),
            (_, None) => String::new(),
        };
        advice![
            found,
            "copy it from what ",
            Command::Fingerprint,
            " prints on the other side, or have it read out once more",
        ]
    }
}

/// Whether a text ends as an address does.
fn has_port(text: &str) -> bool {
    let port = text.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| port.parse::<u16>().is_ok())
}

const PREFIX: &str = "vs1:";
const CHECKSUM_BYTES: usize = 3;
const TEXT_CHARS: usize = (32 + CHECKSUM_BYTES) * 8 / 5;

impl Fingerprint {
    /// The fingerprint of a public key, given as DER of its SubjectPublicKeyInfo.
    pub fn of_public_key(spki_der: &[u8]) -> Fingerprint {
        Fingerprint(blake3::derive_key("vesica/1 fingerprint", spki_der))
    }

    /// The fingerprint of these bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    /// The 32 bytes behind the text.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn checksum(&self) -> [u8; CHECKSUM_BYTES] {
        let sum = blake3::derive_key("vesica/1 fingerprint checksum", &self.0);
        [sum[0], sum[1], sum[2]]
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        let checksum = self.checksum();
        f.write_str(&base32::encode(&[&self.0[..], &checksum].concat()))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Reads a fingerprint; surrounding white space and capitals are forgiven.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.trim();
        let body = match text.get(..PREFIX.len()) {
            Some(prefix) if prefix.eq_ignore_ascii_case(PREFIX) => &text[PREFIX.len()..],
            _ if text.is_empty() => return Err(FingerprintError::Empty),
            _ => return Err(FingerprintError::Prefix),
        };
        let bytes = base32::decode(body).map_err(FingerprintError::Character)?;
        let bytes = bytes.filter(|_| body.len() == TEXT_CHARS);
        let bytes = bytes.ok_or(FingerprintError::Length(body.len()))?;
        let mut key = [0u8; 32];
        key.copy_from_slice(&bytes[..32]);
        let fingerprint = Fingerprint(key);
        if fingerprint.checksum() != bytes[32..] {
            return Err(FingerprintError::Checksum);
        }
        Ok(fingerprint)
    }
}
