//! Canonical values: what a key is, whatever format it came in.
//!
//! A row's key is the sequence of its key columns' canonical byte strings. Its item is
//! `BLAKE3-derive-key(context, len₁ ‖ bytes₁ ‖ len₂ ‖ bytes₂ ‖ …)`, lengths as eight
//! little-endian bytes, so that ("ab", "c") differs from ("a", "bc").
//!
//! A key that is a number of a declared width ([`KeySpec::bits`]) can be compared as it is: the number stands beside its
//! item.

use std::iter;

use blake3::Hasher;
use vesica_kernels::{
    Backend,
    blake3::{MAX_INPUT, derive_key_each},
};
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result};
use crate::profile::key::KeySpec;
use crate::profile::null_words::is_null_word;
use crate::profile::render::Kind;
use crate::profile::{Normalized, Profile};

/// Separates items from every other use of BLAKE3. A change to what is hashed is a new version.
const CONTEXT: &str = "vesica/1 item";

/// One value of a key column as its format gives it.
#[derive(Clone, Copy, PartialEq, Eq)]
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

/// Without its text.
impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Value::Null => "Null",
            Value::Text(_) => "Text",
            Value::Bytes(_) => "Bytes",
            Value::Typed(..) => "Typed",
        })
    }
}

/// The result for one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The canonical bytes were appended; `changed` if they differ from the value's own text.
    Valid {
        changed: bool,
        /// It is a text that [stands for no value](is_null_word).
        null_word: bool,
    },
    Blank,
    Invalid {
        /// It is a phone number in the [form of a number](Profile::is_number_form).
        number_form: bool,
    },
}

impl Verdict {
    pub(crate) fn is_valid(self) -> bool {
        matches!(self, Verdict::Valid { .. })
    }
}

/// The value must be text and is not UTF-8.
pub(crate) struct NotUtf8;

impl<'a> Value<'a> {
    /// Its text, or its bytes; nothing if it is null.
    pub(crate) fn text(self) -> Option<&'a [u8]> {
        match self {
            Value::Null => None,
            Value::Text(bytes) | Value::Bytes(bytes) => Some(bytes),
            Value::Typed(_, text) => Some(text.as_bytes()),
        }
    }

    /// What it counts as under a key: as null, if its text is one of those that stand for it.
    pub(crate) fn under(self, key: &KeySpec) -> Value<'a> {
        match self.text().is_some_and(|text| key.is_null(text)) {
            true => Value::Null,
            false => self,
        }
    }

    /// Appends the canonical bytes under a profile.
    pub(crate) fn canonical(
        self,
        profile: &Profile,
        out: &mut Vec<u8>,
    ) -> std::result::Result<Verdict, NotUtf8> {
        let typed;
        let null_word = match self {
            Value::Text(bytes) | Value::Bytes(bytes) => is_null_word(bytes),
            Value::Null | Value::Typed(..) => false,
        };
        let valid = |changed| Ok(Verdict::Valid { changed, null_word });
        let text = match self {
            Value::Null => return Ok(Verdict::Blank),
            Value::Bytes([]) => return Ok(Verdict::Blank),
            Value::Bytes(bytes) if profile.is_exact() => {
                out.extend_from_slice(bytes);
                return valid(false);
            }
            Value::Bytes(bytes) => match profile.of_bytes(bytes) {
                Some(text) => {
                    out.extend_from_slice(text.as_bytes());
                    return valid(true);
                }
                None => std::str::from_utf8(bytes).map_err(|_| NotUtf8)?,
            },
            Value::Text(bytes) => std::str::from_utf8(bytes).map_err(|_| NotUtf8)?,
            Value::Typed(kind, text) => {
                typed = profile.of_typed(kind, text);
                &*typed
            }
        };
        match profile.normalize(text) {
            Normalized::Valid(canonical) => {
                out.extend_from_slice(canonical.as_bytes());
                valid(*canonical != *text)
            }
            Normalized::Blank => Ok(Verdict::Blank),
            Normalized::Invalid => Ok(Verdict::Invalid {
                number_form: profile.is_number_form(text),
            }),
        }
    }
}

/// The key values of one row.
pub(crate) trait Row {
    /// The value of the `column`-th key column.
    fn value(&self, column: usize) -> Value<'_>;
}

/// What a row adds to the values of its item, and what goes with it; they count for nothing without columns of such.
#[derive(Clone, Default)]
pub(crate) struct RowValues {
    /// That of the first column, and those of the others.
    pub(crate) first: i64,
    pub(crate) others: Vec<i64>,
    /// The texts, empty for a row without a key.
    pub(crate) label: Zeroizing<Vec<u8>>,
    /// Line on which the row starts, in text formats.
    pub(crate) line: Option<u64>,
}

impl RowValues {
    /// The values of all columns, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = i64> {
        iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// The result for a row's key.
pub(crate) enum Item {
    Digest {
        digest: [u8; 32],
        /// The key itself, if it is a number of a declared width; else 0.
        number: u64,
        /// What any of its columns is.
        changed: bool,
        null_word: bool,
    },
    Blank,
    Invalid {
        /// As any of its columns is.
        number_form: bool,
    },
}

/// The number that a key of one column is, from what is hashed of it.
fn number(profile: &Profile, key: &[u8]) -> Option<u64> {
    profile.number(str::from_utf8(key.get(8..)?).ok()?)
}

/// How many rows are hashed at once; many short keys together take a fraction of the time.
const BATCH: usize = 64;

/// This many bytes of keys are hashed even if they come from fewer rows.
const BATCH_BYTES: usize = 64 << 10;

/// Turns rows into items, with one buffer for all of them.
pub(crate) struct Canonical<'k> {
    key: &'k KeySpec,
    context_key: [u8; 32],
    /// For long keys. Reset for each: making one takes longer than hashing.
    hasher: Hasher,
    /// What is hashed for each pending row, one after the other.
    bytes: Vec<u8>,
    pending: Vec<Pending>,
}

/// A row whose item is not known yet.
enum Pending {
    /// The end of its bytes; they start where those of the previous row end.
    Key {
        end: usize,
        changed: bool,
        null_word: bool,
    },
    Blank,
    Invalid {
        number_form: bool,
    },
}

impl<'k> Canonical<'k> {
    pub(crate) fn new(key: &'k KeySpec) -> Self {
        Canonical {
            key,
            context_key: blake3::hazmat::hash_derive_key_context(CONTEXT),
            hasher: Hasher::new_derive_key(CONTEXT),
            bytes: Vec::new(),
            pending: Vec::with_capacity(BATCH),
        }
    }

    /// Adds a row, and tells whether it is time to [`Canonical::drain`]. A blank value anywhere makes the
    /// whole key blank, as a null does in a join; otherwise an invalid one makes it invalid. `each` is called
    /// for every column.
    pub(crate) fn add<R: Row>(
        &mut self,
        row: &R,
        mut each: impl FnMut(usize, Value<'_>, Verdict),
    ) -> Result<bool> {
        let before = self.bytes.len();
        let (mut blank, mut invalid, mut any_number_form) = (false, false, false);
        let (mut any_changed, mut any_null_word) = (false, false);
        for (i, column) in self.key.columns().iter().enumerate() {
            let value = row.value(i).under(self.key);
            let start = self.bytes.len() + 8;
            self.bytes.extend_from_slice(&[0; 8]);
            let verdict = value
                .canonical(&column.profile, &mut self.bytes)
                .map_err(|NotUtf8| Error::new(ErrorKind::NotUtf8).in_column(&column.name))?;
            let length = (self.bytes.len() - start) as u64;
            self.bytes[start - 8..start].copy_from_slice(&length.to_le_bytes());
            match verdict {
                Verdict::Valid { changed, null_word } => {
                    any_changed |= changed;
                    any_null_word |= null_word;
                }
                Verdict::Blank => blank = true,
                Verdict::Invalid { number_form } => {
                    invalid = true;
                    any_number_form |= number_form;
                }
            }
            each(i, value, verdict);
        }
        if blank || invalid {
            self.bytes.truncate(before);
        }
        self.pending.push(if blank {
            Pending::Blank
        } else if invalid {
            Pending::Invalid {
                number_form: any_number_form,
            }
        } else {
            Pending::Key {
                end: self.bytes.len(),
                changed: any_changed,
                null_word: any_null_word,
            }
        });
        Ok(self.pending.len() == BATCH || self.bytes.len() >= BATCH_BYTES)
    }

    /// Passes on the items of all rows added since the last call, in order.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Item) -> Result<()>) -> Result<()> {
        let mut keys: [&[u8]; BATCH] = [&[]; BATCH];
        let mut start = 0;
        for (key, pending) in keys.iter_mut().zip(&self.pending) {
            if let Pending::Key { end, .. } = pending {
                *key = &self.bytes[start..*end];
                start = *end;
            }
        }
        // Rows without a key and with a long one leave their lanes to an empty input.
        let short = keys.map(|key| if key.len() > MAX_INPUT { &[] } else { key });
        let mut digests = [[0; 32]; BATCH];
        let rows = self.pending.len();
        derive_key_each(
            Backend::Best,
            &self.context_key,
            &short[..rows],
            &mut digests[..rows],
        );
        let numbers = self
            .key
            .bits()
            .map(|_| &self.key.columns()[0].profile)
            .map(|profile| keys.map(|key| number(profile, key).unwrap_or(0)))
            .unwrap_or([0; BATCH]);
        let all = self.pending.drain(..).zip(&keys).zip(&mut digests);
        for (((pending, key), digest), number) in all.zip(&numbers) {
            take(match pending {
                Pending::Blank => Item::Blank,
                Pending::Invalid { number_form } => Item::Invalid { number_form },
                Pending::Key {
                    changed, null_word, ..
                } => {
                    if key.len() > MAX_INPUT {
                        self.hasher.reset();
                        self.hasher.update(key);
                        *digest = *self.hasher.finalize().as_bytes();
                    }
                    Item::Digest {
                        digest: *digest,
                        number: *number,
                        changed,
                        null_word,
                    }
                }
            })?;
        }
        self.bytes.clear();
        Ok(())
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
        digest_of(&KeySpec::parse(&names, &[] as &[&str]).unwrap(), texts).0
    }

    fn digest_of(key: &KeySpec, texts: &[&str]) -> ([u8; 32], u64) {
        let mut canonical = Canonical::new(key);
        assert!(!canonical.add(&Texts(texts), |_, _, _| {}).unwrap());
        let mut digests = Vec::new();
        canonical
            .drain(|item| {
                if let Item::Digest { digest, number, .. } = item {
                    digests.push((digest, number));
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(digests.len(), 1);
        digests[0]
    }

    /// What the definition says of a key of one column.
    fn expected(text: &str) -> [u8; 32] {
        let length = (text.len() as u64).to_le_bytes();
        blake3::derive_key(CONTEXT, &[&length, text.as_bytes()].concat())
    }

    #[test]
    fn batches_hash_keys_of_all_lengths_in_order() {
        let key = KeySpec::parse("a", &[] as &[&str]).unwrap();
        let mut canonical = Canonical::new(&key);
        let texts: Vec<String> = (0..300).map(|i| "x".repeat(i * 7 % 151)).collect();
        let mut items = Vec::new();
        let mut batches = 0;
        for text in &texts {
            if canonical.add(&Texts(&[text]), |_, _, _| {}).unwrap() {
                batches += 1;
                canonical
                    .drain(|item| {
                        items.push(item);
                        Ok(())
                    })
                    .unwrap();
            }
        }
        canonical
            .drain(|item| {
                items.push(item);
                Ok(())
            })
            .unwrap();
        assert_eq!((items.len(), batches), (texts.len(), texts.len() / BATCH));
        for (text, item) in texts.iter().zip(items) {
            match item {
                Item::Digest {
                    digest,
                    number,
                    changed,
                    null_word,
                } => {
                    assert_eq!((digest, number), (expected(text), 0));
                    assert!(!changed && !null_word);
                }
                Item::Blank => assert!(text.is_empty()),
                Item::Invalid { .. } => panic!("nothing is invalid here"),
            }
        }
    }

    #[test]
    fn long_keys_do_not_wait_for_a_full_batch() {
        let key = KeySpec::parse("a", &[] as &[&str]).unwrap();
        let text = "y".repeat(BATCH_BYTES);
        assert!(
            Canonical::new(&key)
                .add(&Texts(&[&text]), |_, _, _| {})
                .unwrap()
        );
        assert_eq!(digest(&["y"]), expected("y"));
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
    fn numbers_are_beside_their_items() {
        for (profile, text, number) in [
            ("ipv4", " 192.0.2.7", 0xc000_0207),
            ("integer:34", "0009999999999", 9_999_999_999),
            ("integer:64", "18446744073709551615", u64::MAX),
            ("integer:1", "0", 0),
        ] {
            let key = KeySpec::parse("a", &[format!("a={profile}")]).unwrap();
            let canonical = text.trim().trim_start_matches('0');
            let canonical = if canonical.is_empty() { "0" } else { canonical };
            let found = digest_of(&key, &[text]);
            assert_eq!(found, (expected(canonical), number), "{profile}");
        }
    }

    #[test]
    fn texts_that_stand_for_null_are_blank() {
        let key = KeySpec::parse("a,b", &["a=text"]).unwrap();
        let key = key.with_nulls(vec![r"\N".into(), "NULL".into()]);
        let mut canonical = Canonical::new(&key);
        for row in [["x", "y"], [r"\N", "y"], ["x", "NULL"], ["null", " NULL"]] {
            canonical.add(&Texts(&row), |_, _, _| {}).unwrap();
        }
        let mut blanks = Vec::new();
        canonical
            .drain(|item| {
                blanks.push(matches!(item, Item::Blank));
                Ok(())
            })
            .unwrap();
        assert_eq!(blanks, [false, true, true, false]);
    }

    #[test]
    fn bytes_are_raw_under_exact_and_hex_under_sha256() {
        let mut out = Vec::new();
        let raw = [0xff; 32];
        assert!(matches!(
            Value::Bytes(&raw).canonical(&Profile::Exact, &mut out),
            Ok(Verdict::Valid { changed: false, .. })
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
