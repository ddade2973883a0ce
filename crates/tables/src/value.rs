//! Canonical values: what a key is, whatever format it came in.
//!
//! A row's key is the sequence of its key columns' canonical byte strings. Its item is
//! `BLAKE3-derive-key(context, len₁ ‖ bytes₁ ‖ len₂ ‖ bytes₂ ‖ …)`, lengths as eight
//! little-endian bytes, so that ("ab", "c") differs from ("a", "bc").

use blake3::Hasher;

use crate::error::{Error, ErrorKind, Result};
use crate::key::KeySpec;
use crate::profile::{Normalized, Profile};

/// Separates items from every other use of BLAKE3. A change to what is hashed is a new version.
const CONTEXT: &str = "vesica tables 2026-11 item of a key, version 1";

/// One value of a key column as its format gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Null, or a field that is not there.
    Null,
    /// Text that is not known to be UTF-8 yet.
    Text(&'a [u8]),
    /// Bytes that need not be text.
    Bytes(&'a [u8]),
    /// A value that the format has a type for, as canonical text.
    Typed(Kind, &'a str),
}

/// The types that are rendered as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Integer,
    Decimal,
    Boolean,
    Date,
    Time,
    Timestamp,
    Uuid,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Integer => "integer",
            Kind::Decimal => "decimal",
            Kind::Boolean => "boolean",
            Kind::Date => "date",
            Kind::Time => "time",
            Kind::Timestamp => "timestamp",
            Kind::Uuid => "uuid",
        }
    }
}

/// What one value came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The canonical bytes were appended; `changed` if they differ from the value's own text.
    Valid {
        changed: bool,
    },
    Blank,
    Invalid,
}

/// The value must be text and is not UTF-8.
pub(crate) struct NotUtf8;

impl<'a> Value<'a> {
    /// Appends the canonical bytes under a profile.
    pub(crate) fn canonical(
        self,
        profile: &Profile,
        out: &mut Vec<u8>,
    ) -> std::result::Result<Verdict, NotUtf8> {
        let text = match self {
            Value::Null => return Ok(Verdict::Blank),
            Value::Bytes([]) => return Ok(Verdict::Blank),
            Value::Bytes(bytes) if *profile == Profile::Exact => {
                out.extend_from_slice(bytes);
                return Ok(Verdict::Valid { changed: false });
            }
            Value::Bytes(digest) if *profile == Profile::Sha256Hex && digest.len() == 32 => {
                out.extend(digest.iter().flat_map(|b| hex_pair(*b)));
                return Ok(Verdict::Valid { changed: true });
            }
            Value::Bytes(bytes) | Value::Text(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| NotUtf8)?
            }
            Value::Typed(_, text) => text,
        };
        Ok(match profile.normalize(text) {
            Normalized::Valid(canonical) => {
                out.extend_from_slice(canonical.as_bytes());
                Verdict::Valid {
                    changed: *canonical != *text,
                }
            }
            Normalized::Blank => Verdict::Blank,
            Normalized::Invalid => Verdict::Invalid,
        })
    }
}

pub(crate) fn hex_pair(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [
        DIGITS[usize::from(byte >> 4)],
        DIGITS[usize::from(byte & 15)],
    ]
}

/// The key values of one row.
pub(crate) trait Row {
    /// The value of the `column`-th key column.
    fn value(&self, column: usize) -> Value<'_>;
}

/// What a row's key came to.
pub(crate) enum Item {
    Digest { digest: [u8; 32], changed: bool },
    Blank,
    Invalid,
}

/// Turns rows into items, one buffer for all of them.
pub(crate) struct Canonical<'k> {
    key: &'k KeySpec,
    /// Reset for each row: making one takes longer than hashing a short key.
    hasher: Hasher,
    bytes: Vec<u8>,
}

impl<'k> Canonical<'k> {
    pub(crate) fn new(key: &'k KeySpec) -> Self {
        Canonical {
            key,
            hasher: Hasher::new_derive_key(CONTEXT),
            bytes: Vec::new(),
        }
    }

    /// The item of one row. A blank value anywhere makes the whole key blank, as a null does in
    /// a join; otherwise an invalid one makes it invalid. `each` hears of every column.
    pub(crate) fn item<R: Row>(
        &mut self,
        row: &R,
        mut each: impl FnMut(usize, Value<'_>, Verdict),
    ) -> Result<Item> {
        self.bytes.clear();
        let (mut blank, mut invalid, mut any_changed) = (false, false, false);
        for (i, column) in self.key.columns().iter().enumerate() {
            let value = row.value(i);
            let start = self.bytes.len() + 8;
            self.bytes.extend_from_slice(&[0; 8]);
            let verdict = value
                .canonical(&column.profile, &mut self.bytes)
                .map_err(|NotUtf8| Error::new(ErrorKind::NotUtf8).in_column(&column.name))?;
            let length = (self.bytes.len() - start) as u64;
            self.bytes[start - 8..start].copy_from_slice(&length.to_le_bytes());
            match verdict {
                Verdict::Valid { changed } => any_changed |= changed,
                Verdict::Blank => blank = true,
                Verdict::Invalid => invalid = true,
            }
            each(i, value, verdict);
        }
        Ok(if blank {
            Item::Blank
        } else if invalid {
            Item::Invalid
        } else {
            self.hasher.reset();
            self.hasher.update(&self.bytes);
            Item::Digest {
                digest: *self.hasher.finalize().as_bytes(),
                changed: any_changed,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Texts<'a>(&'a [&'a str]);

    impl Row for Texts<'_> {
        fn value(&self, column: usize) -> Value<'_> {
            Value::Text(self.0[column].as_bytes())
        }
    }

    fn digest(texts: &[&str]) -> [u8; 32] {
        let names = ["a", "b", "c"][..texts.len()].join(",");
        let key = KeySpec::parse(&names, &[] as &[&str]).unwrap();
        match Canonical::new(&key)
            .item(&Texts(texts), |_, _, _| {})
            .unwrap()
        {
            Item::Digest { digest, .. } => digest,
            _ => panic!("no item"),
        }
    }

    #[test]
    fn an_item_is_the_derived_key_of_its_prefixed_columns() {
        let mut bytes = Vec::new();
        for text in ["ab", "c"] {
            bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        assert_eq!(digest(&["ab", "c"]), blake3::derive_key(CONTEXT, &bytes));
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_ne!(digest(&["ab"]), digest(&["AB"]));
    }

    #[test]
    fn bytes_are_raw_under_exact_and_hex_under_sha256() {
        let mut out = Vec::new();
        let raw = [0xff; 32];
        assert!(matches!(
            Value::Bytes(&raw).canonical(&Profile::Exact, &mut out),
            Ok(Verdict::Valid { changed: false })
        ));
        assert_eq!(out, raw);
        out.clear();
        assert!(
            Value::Bytes(&raw)
                .canonical(&Profile::Sha256Hex, &mut out)
                .is_ok()
        );
        assert_eq!(out, "f".repeat(64).as_bytes());
        assert!(
            Value::Bytes(&raw)
                .canonical(&Profile::Text, &mut out)
                .is_err()
        );
        assert!(
            Value::Text(&raw)
                .canonical(&Profile::Exact, &mut out)
                .is_err()
        );
    }
}
