//! Canonical values: what a key is, whatever format it came in.
//!
//! A row's key is the sequence of its key columns' canonical byte strings. Its item is
//! `BLAKE3-derive-key(context, len₁ ‖ bytes₁ ‖ len₂ ‖ bytes₂ ‖ …)`, lengths as eight
//! little-endian bytes, so that ("ab", "c") differs from ("a", "bc").
//!
//! A row with several identifiers ([`KeySpec::identifiers`]) has an item for each value of each of them: another context, and
//! before the columns the identifier's name as if it were one. So an identifier equals none of another name.
//!
//! A key that is a number of a declared width ([`KeySpec::bits`]) can be compared as it is: the number stands beside its
//! item.

use std::collections::HashSet;
use std::iter;

use blake3::Hasher;
use vesica_kernels::{
    Backend,
    blake3::{MAX_INPUT, derive_key_each},
};
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result};
use crate::profile::key::{Identifier, KeySpec};
use crate::profile::null_words::is_null_word;
use crate::profile::render::Kind;
use crate::profile::rules::Rules;
use crate::profile::{Normalized, Profile};

/// Separates items from every other use of BLAKE3. A change to what is hashed is a new version.
const CONTEXT: &str = "vesica/1 item";

/// The same for items of which a row has several.
const IDENTIFIER_CONTEXT: &str = "vesica/1 identifier";

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
    /// A list of values, which only a column that is an identifier by itself has.
    List(&'a [Element]),
}

/// A value of a list, none of which is a list.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Element {
    Null,
    Text(String),
    Bytes(Vec<u8>),
    Typed(Kind, String),
}

impl Element {
    /// A copy of a value; null for a list.
    pub(crate) fn of(value: Value<'_>) -> Element {
        match value {
            Value::Null | Value::List(_) => Element::Null,
            Value::Text(bytes) => match str::from_utf8(bytes) {
                Ok(text) => Element::Text(text.to_owned()),
                Err(_) => Element::Bytes(bytes.to_vec()),
            },
            Value::Bytes(bytes) => Element::Bytes(bytes.to_vec()),
            Value::Typed(kind, text) => Element::Typed(kind, text.to_owned()),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Element::Null => Value::Null,
            Element::Text(text) => Value::Text(text.as_bytes()),
            Element::Bytes(bytes) => Value::Bytes(bytes),
            Element::Typed(kind, text) => Value::Typed(*kind, text),
        }
    }
}

/// Without its text.
impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Value::Null => "Null",
            Value::Text(_) => "Text",
            Value::Bytes(_) => "Bytes",
            Value::Typed(..) => "Typed",
            Value::List(_) => "List",
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
    /// It is one of the values that [never match](KeySpec::with_denied).
    Denied,
    Invalid {
        /// It is a phone number in the [form of a number](Rules::is_number_form).
        number_form: bool,
    },
}

impl Verdict {
    pub(crate) fn is_valid(self) -> bool {
        matches!(self, Verdict::Valid { .. })
    }
}

/// A value of a row, and what came of it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The place of its column among those of the key.
    pub(crate) column: usize,
    pub(crate) value: Value<'a>,
    pub(crate) verdict: Verdict,
    /// The canonical bytes, of a value that is valid or denied.
    pub(crate) canonical: &'a [u8],
}

/// The value must be text and is not UTF-8.
pub(crate) struct NotUtf8;

impl<'a> Value<'a> {
    /// Its text, or its bytes; nothing if it is null or a list.
    pub(crate) fn text(self) -> Option<&'a [u8]> {
        match self {
            Value::Null | Value::List(_) => None,
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
            Value::Null | Value::Typed(..) | Value::List(_) => false,
        };
        let valid = |changed| Ok(Verdict::Valid { changed, null_word });
        let text = match self {
            Value::Null | Value::List(_) => return Ok(Verdict::Blank),
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
            Value::Text(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| NotUtf8)?;
                if profile.is_exact() && !text.is_empty() {
                    out.extend_from_slice(bytes);
                    return valid(false);
                }
                text
            }
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
                number_form: profile.rules().is_number_form(text),
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

/// Which item of a row it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Of {
    /// The place of its identifier among those of the key; 0 if the columns together are the key.
    pub(crate) identifier: u8,
    /// Whether it is the row's last.
    pub(crate) is_last: bool,
}

/// The result for a row's key, or for a value of one of its identifiers.
pub(crate) enum Item {
    Digest {
        digest: [u8; 32],
        /// The key itself, if it is a number of a declared width; else 0.
        number: u64,
        /// What any of its columns is.
        changed: bool,
        null_word: bool,
        of: Of,
    },
    /// It has no value, or one that the row has already.
    Blank { of: Of },
    /// It is one of those that [never match](KeySpec::with_denied).
    Denied { of: Of },
    Invalid {
        /// As any of its columns is.
        number_form: bool,
        of: Of,
    },
}

impl Item {
    /// Which item of its row it is.
    pub(crate) fn of(&self) -> Of {
        match self {
            Item::Digest { of, .. }
            | Item::Blank { of }
            | Item::Denied { of }
            | Item::Invalid { of, .. } => *of,
        }
    }
}

/// The number that a key of one column is, from what is hashed of it.
fn number(rules: Rules, key: &[u8]) -> Option<u64> {
    rules.number(str::from_utf8(key.get(8..)?).ok()?)
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

/// An item that is not known yet.
enum Pending {
    /// The end of its bytes; they start where those of the previous item end.
    Key {
        end: usize,
        changed: bool,
        null_word: bool,
        of: Of,
    },
    Blank {
        of: Of,
    },
    Denied {
        of: Of,
    },
    Invalid {
        number_form: bool,
        of: Of,
    },
    /// Its identifier has the same value before in the same row. The end of its bytes, as of a key.
    Repeated {
        end: usize,
        of: Of,
    },
}

/// What came of adding a row.
pub(crate) struct Added {
    /// Whether it has a key, or an identifier that can match.
    pub(crate) has_key: bool,
    /// Whether it is time to [`Canonical::drain`].
    pub(crate) is_full: bool,
}

impl<'k> Canonical<'k> {
    pub(crate) fn new(key: &'k KeySpec) -> Self {
        let context = match key.identifiers() {
            [] => CONTEXT,
            _ => IDENTIFIER_CONTEXT,
        };
        Canonical {
            key,
            context_key: blake3::hazmat::hash_derive_key_context(context),
            hasher: Hasher::new_derive_key(context),
            bytes: Vec::new(),
            pending: Vec::with_capacity(BATCH),
        }
    }

    /// Adds a row. `each` is called for every value of every column.
    pub(crate) fn add<R: Row>(&mut self, row: &R, mut each: impl FnMut(Seen<'_>)) -> Result<Added> {
        let key = self.key;
        let has_key = match key.identifiers() {
            [] => {
                let of = Of {
                    identifier: 0,
                    is_last: true,
                };
                let columns = 0..key.columns().len();
                let values = columns.map(|column| (column, row.value(column)));
                self.add_item(of, values, &mut each)?
            }
            identifiers => self.add_identifiers(identifiers, row, &mut each)?,
        };
        Ok(Added {
            has_key,
            is_full: self.pending.len() >= BATCH || self.bytes.len() >= BATCH_BYTES,
        })
    }

    /// Adds the items of all identifiers of a row, at least one of each. Returns whether any can match.
    fn add_identifiers<R: Row>(
        &mut self,
        identifiers: &[Identifier],
        row: &R,
        each: &mut impl FnMut(Seen<'_>),
    ) -> Result<bool> {
        let (mut has_key, mut met) = (false, 0);
        for (identifier, number) in identifiers.iter().zip(0..) {
            let columns = identifier.columns();
            // Columns are numbered as they first come: those of earlier identifiers are not looked at again.
            let mut each = |seen: Seen<'_>| {
                if seen.column >= met {
                    each(seen);
                }
            };
            let is_last = usize::from(number) + 1 == identifiers.len();
            let of = |is_last| Of {
                identifier: number,
                is_last,
            };
            let elements = match columns {
                [column] => self.elements(*column, row.value(*column), identifier.separator())?,
                _ => None,
            };
            let count = elements.as_ref().map_or(1, Vec::len);
            let before = (self.pending.len(), self.bytes.len());
            for place in 0..count {
                let value = |column: &usize| match &elements {
                    Some(elements) => (*column, elements[place]),
                    None => (*column, row.value(*column)),
                };
                let of = of(is_last && place + 1 == count);
                has_key |= self.add_item(of, columns.iter().map(value), &mut each)?;
            }
            if count > 1 {
                self.mark_repeated(before);
            }
            met = columns
                .iter()
                .map(|column| column + 1)
                .fold(met, usize::max);
        }
        Ok(has_key)
    }

    /// Marks what a list repeats among the items that begin at these places: a row has an identifier once.
    fn mark_repeated(&mut self, (first, mut start): (usize, usize)) {
        let mut values = HashSet::new();
        for pending in &mut self.pending[first..] {
            if let Pending::Key { end, of, .. } = *pending {
                if !values.insert(&self.bytes[start..end]) {
                    *pending = Pending::Repeated { end, of };
                }
                start = end;
            }
        }
    }

    /// The elements of a list without null and blank ones, those of a text trimmed; one null if there are none. `None` for a
    /// value that is no list.
    fn elements<'v>(
        &self,
        column: usize,
        value: Value<'v>,
        separator: Option<char>,
    ) -> Result<Option<Vec<Value<'v>>>> {
        let mut elements: Vec<Value<'v>> = match (value, separator) {
            (Value::List(elements), _) => elements.iter().map(Element::value).collect(),
            (_, None) => return Ok(None),
            (text, Some(separator)) => {
                let text = text.under(self.key).text().unwrap_or_default();
                let text = str::from_utf8(text).map_err(|_| self.not_utf8(column))?;
                let elements = text.split(separator).map(str::trim);
                elements
                    .map(|element| Value::Text(element.as_bytes()))
                    .collect()
            }
        };
        elements.retain(|element| element.text().is_some_and(|text| !text.is_empty()));
        if elements.is_empty() {
            elements.push(Value::Null);
        }
        Ok(Some(elements))
    }

    fn not_utf8(&self, column: usize) -> Error {
        Error::new(ErrorKind::NotUtf8).in_column(&self.key.columns()[column].name)
    }

    /// Adds an item of some columns' values. A blank value anywhere makes it blank, as a null does in a join; otherwise an
    /// invalid one makes it invalid. Returns whether it can match.
    fn add_item<'v>(
        &mut self,
        of: Of,
        values: impl Iterator<Item = (usize, Value<'v>)>,
        each: &mut impl FnMut(Seen<'_>),
    ) -> Result<bool> {
        let before = self.bytes.len();
        let (mut blank, mut denied) = (false, false);
        let (mut invalid, mut any_number_form) = (false, false);
        let (mut any_changed, mut any_null_word) = (false, false);
        if let Some(identifier) = self.key.identifiers().get(usize::from(of.identifier)) {
            let name = identifier.name().as_bytes();
            self.bytes
                .extend_from_slice(&(name.len() as u64).to_le_bytes());
            self.bytes.extend_from_slice(name);
        }
        for (column, value) in values {
            let value = value.under(self.key);
            let start = self.bytes.len() + 8;
            self.bytes.extend_from_slice(&[0; 8]);
            let profile = &self.key.columns()[column].profile;
            let mut verdict = value
                .canonical(profile, &mut self.bytes)
                .map_err(|NotUtf8| self.not_utf8(column))?;
            let length = (self.bytes.len() - start) as u64;
            self.bytes[start - 8..start].copy_from_slice(&length.to_le_bytes());
            if verdict.is_valid()
                && self
                    .key
                    .is_denied(of.identifier, column, &self.bytes[start..])
            {
                verdict = Verdict::Denied;
            }
            match verdict {
                Verdict::Valid { changed, null_word } => {
                    any_changed |= changed;
                    any_null_word |= null_word;
                }
                Verdict::Blank => blank = true,
                Verdict::Denied => denied = true,
                Verdict::Invalid { number_form } => {
                    invalid = true;
                    any_number_form |= number_form;
                }
            }
            each(Seen {
                column,
                value,
                verdict,
                canonical: &self.bytes[start..],
            });
        }
        let has_key = !blank && !denied && !invalid;
        if !has_key {
            self.bytes.truncate(before);
        }
        self.pending.push(if blank {
            Pending::Blank { of }
        } else if denied {
            Pending::Denied { of }
        } else if invalid {
            Pending::Invalid {
                number_form: any_number_form,
                of,
            }
        } else {
            Pending::Key {
                end: self.bytes.len(),
                changed: any_changed,
                null_word: any_null_word,
                of,
            }
        });
        Ok(has_key)
    }

    /// Passes on the items of all rows added since the last call, in order.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(Item) -> Result<()>) -> Result<()> {
        let all = std::mem::take(&mut self.pending);
        let mut start = 0;
        for pending in all.chunks(BATCH) {
            start = self.hash(pending, start, &mut take)?;
        }
        self.pending = all;
        self.pending.clear();
        self.bytes.clear();
        Ok(())
    }

    /// Passes on at most [`BATCH`] items, whose bytes begin at `start`. Returns where those of the next begin.
    fn hash(
        &mut self,
        pending: &[Pending],
        mut start: usize,
        take: &mut impl FnMut(Item) -> Result<()>,
    ) -> Result<usize> {
        let mut keys: [&[u8]; BATCH] = [&[]; BATCH];
        for (key, pending) in keys.iter_mut().zip(pending) {
            match pending {
                Pending::Key { end, .. } => {
                    *key = &self.bytes[start..*end];
                    start = *end;
                }
                Pending::Repeated { end, .. } => start = *end,
                Pending::Blank { .. } | Pending::Denied { .. } | Pending::Invalid { .. } => {}
            }
        }
        // Rows without a key and with a long one leave their lanes to an empty input.
        let short = keys.map(|key| if key.len() > MAX_INPUT { &[] } else { key });
        let mut digests = [[0; 32]; BATCH];
        let items = pending.len();
        derive_key_each(
            Backend::Best,
            &self.context_key,
            &short[..items],
            &mut digests[..items],
        );
        let numbers = self
            .key
            .bits()
            .map(|_| self.key.columns()[0].profile.rules())
            .map(|rules| keys.map(|key| number(rules, key).unwrap_or(0)))
            .unwrap_or([0; BATCH]);
        let all = pending.iter().zip(&keys).zip(&mut digests);
        for (((pending, key), digest), number) in all.zip(&numbers) {
            take(match *pending {
                Pending::Blank { of } | Pending::Repeated { of, .. } => Item::Blank { of },
                Pending::Denied { of } => Item::Denied { of },
                Pending::Invalid { number_form, of } => Item::Invalid { number_form, of },
                Pending::Key {
                    changed,
                    null_word,
                    of,
                    ..
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
                        of,
                    }
                }
            })?;
        }
        Ok(start)
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
        assert!(!canonical.add(&Texts(texts), |_| {}).unwrap().is_full);
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
            if canonical.add(&Texts(&[text]), |_| {}).unwrap().is_full {
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
                    ..
                } => {
                    assert_eq!((digest, number), (expected(text), 0));
                    assert!(!changed && !null_word);
                }
                Item::Blank { .. } => assert!(text.is_empty()),
                Item::Denied { .. } | Item::Invalid { .. } => panic!("nothing is invalid here"),
            }
        }
    }

    #[test]
    fn long_keys_do_not_wait_for_a_full_batch() {
        let key = KeySpec::parse("a", &[] as &[&str]).unwrap();
        let text = "y".repeat(BATCH_BYTES);
        assert!(
            Canonical::new(&key)
                .add(&Texts(&[&text]), |_| {})
                .unwrap()
                .is_full
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

    /// The digests of rows with several identifiers, and which item of its row each is.
    fn identified(key: &KeySpec, rows: &[&[&str]]) -> Vec<(Option<[u8; 32]>, Of)> {
        let mut canonical = Canonical::new(key);
        for row in rows {
            canonical.add(&Texts(row), |_| {}).unwrap();
        }
        let mut items = Vec::new();
        canonical
            .drain(|item| {
                let of = item.of();
                items.push(match item {
                    Item::Digest { digest, .. } => (Some(digest), of),
                    Item::Blank { .. } | Item::Denied { .. } | Item::Invalid { .. } => (None, of),
                });
                Ok(())
            })
            .unwrap();
        items
    }

    #[test]
    fn the_name_of_an_identifier_is_a_part_of_its_items() {
        let key = KeySpec::parse_any_of::<_, &str>(&["x=a", "yz=b,c"], &[]).unwrap();
        let framed = |texts: &[&str]| {
            let mut bytes = Vec::new();
            for text in texts {
                bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
            Some(blake3::derive_key(IDENTIFIER_CONTEXT, &bytes))
        };
        let of = |identifier, is_last| Of {
            identifier,
            is_last,
        };
        assert_eq!(
            identified(&key, &[&["1", "2", "3"], &["", "1", "3"], &["1", "2", ""]]),
            [
                (framed(&["x", "1"]), of(0, false)),
                (framed(&["yz", "2", "3"]), of(1, true)),
                (None, of(0, false)),
                (framed(&["yz", "1", "3"]), of(1, true)),
                (framed(&["x", "1"]), of(0, false)),
                (None, of(1, true)),
            ]
        );
    }

    #[test]
    fn lists_have_an_item_for_each_element() {
        let key = KeySpec::parse_any_of(&["x=a", "y=b"], &["a=email"]).unwrap();
        let key = key.with_lists(&["a=;"]).unwrap();
        let key = key.with_nulls(vec!["none".into()]);
        let rows: &[&[&str]] = &[
            &[" a@x.org;;B@y.org ; ", "1"],
            &["", "2"],
            &["none", "3"],
            &["none;c@x.org;nonsense", ""],
        ];
        let found = identified(&key, rows);
        let of: Vec<_> = found
            .iter()
            .map(|(_, of)| (of.identifier, of.is_last))
            .collect();
        let expected = [
            (0, false),
            (0, false),
            (1, true),
            (0, false),
            (1, true),
            (0, false),
            (1, true),
            (0, false),
            (0, false),
            (0, false),
            (1, true),
        ];
        assert_eq!(of, expected);
        let usable: Vec<_> = found.iter().map(|(digest, _)| digest.is_some()).collect();
        let expected = [
            true, true, true, false, true, false, true, false, true, false, false,
        ];
        assert_eq!(usable, expected);
        let single = identified(&key, &[&["b@y.org", "1"]]);
        assert_eq!([found[1].0, found[2].0], [single[0].0, single[1].0]);
    }

    #[test]
    fn rows_with_many_items_are_hashed_in_batches() {
        let key = KeySpec::parse_any_of::<_, &str>(&["x=a", "y=b"], &[]).unwrap();
        let key = key.with_lists(&["a=;"]).unwrap();
        let list: Vec<String> = (0..5 * BATCH + 7).map(|i| i.to_string()).collect();
        let found = identified(&key, &[&["0", "z"], &[&list.join(";"), "z"]]);
        assert_eq!(found.len(), 2 + list.len() + 1);
        assert_eq!(
            (found[0].0, found[1].0),
            (found[2].0, found[found.len() - 1].0)
        );
        let distinct: std::collections::BTreeSet<_> =
            found.iter().map(|(digest, _)| digest).collect();
        assert_eq!(distinct.len(), list.len() + 1);
    }

    #[test]
    fn texts_that_stand_for_null_are_blank() {
        let key = KeySpec::parse("a,b", &["a=text"]).unwrap();
        let key = key.with_nulls(vec![r"\N".into(), "NULL".into()]);
        let mut canonical = Canonical::new(&key);
        for row in [["x", "y"], [r"\N", "y"], ["x", "NULL"], ["null", " NULL"]] {
            canonical.add(&Texts(&row), |_| {}).unwrap();
        }
        let mut blanks = Vec::new();
        canonical
            .drain(|item| {
                blanks.push(matches!(item, Item::Blank { .. }));
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
            Value::Bytes(&raw).canonical(&Profile::EXACT, &mut out),
            Ok(Verdict::Valid { changed: false, .. })
        ));
        assert_eq!(out, raw);
        out.clear();
        assert!(
            Value::Bytes(&raw)
                .canonical(&Rules::Sha256Hex.into(), &mut out)
                .is_ok()
        );
        assert_eq!(out, "f".repeat(64).as_bytes());
        assert!(
            Value::Bytes(&raw)
                .canonical(&Rules::Text.into(), &mut out)
                .is_err()
        );
        assert!(
            Value::Text(&raw)
                .canonical(&Profile::EXACT, &mut out)
                .is_err()
        );
    }
}
