//! Columns that the sender hands over with the rows that match: texts in labels of one length.
//!
//! Texts have no control characters but tabs and line ends. A label has, for each column, two bytes with the length of the text plus one, little endian, and the text; 0 instead
//! is null. Zeros follow up to the length of labels. Where a key may have several rows, its label has a slot for each: a
//! byte that says whether a row has it, and what a label would have.

use std::borrow::Cow;
use std::path::Path;

use vesica_keys::{CommonOrder, KeyStore, Parts, RowSet};

use crate::error::{Error, ErrorKind, Result};
use crate::types::column_type::ColumnType;
use crate::types::item_rows::ItemRows;
use crate::types::labels::{SLOT_MARK, is_control};

/// What comes before the name of a column of the peer in the result.
const PREFIX: &str = "peer_";

/// The rows of a table that match, and what the peer has handed over with them.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    pub(crate) rows: &'a RowSet,
    /// The items that match, if rows have several.
    items: Option<(&'a RowSet, &'a ItemRows)>,
    pub(crate) handed_over: Option<HandedOver<'a>>,
    pub(crate) order: Option<CommonOrder<'a>>,
}

impl<'a> Matched<'a> {
    /// The rows that match, with what the peer has handed over.
    pub fn new(rows: &'a RowSet, handed_over: Option<HandedOver<'a>>) -> Matched<'a> {
        Matched {
            rows,
            items: None,
            handed_over,
            order: None,
        }
    }

    /// The same for rows with several identifiers, of which these items match; what was handed over goes with items.
    pub fn by_items(self, items: &'a RowSet, rows: &'a ItemRows) -> Matched<'a> {
        Matched {
            items: Some((items, rows)),
            ..self
        }
    }

    /// The item with which goes what was handed over for a row: that of the first identifier that matches.
    pub(crate) fn item(&self, row: u64) -> Option<u64> {
        match self.items {
            Some((items, rows)) => rows.first_of(row, items),
            None => Some(row),
        }
    }

    /// The name of the first identifier by which a row matches.
    pub(crate) fn identifier(&self, row: u64) -> Option<&'a str> {
        let (items, rows) = self.items?;
        rows.name(rows.first_of(row, items)?)
    }

    /// The same with the order of [`Rows::Aligned`](crate::Rows::Aligned).
    pub fn in_order(self, order: CommonOrder<'a>) -> Matched<'a> {
        Matched {
            order: Some(order),
            ..self
        }
    }

    /// The rows that match, in no order.
    pub fn rows(&self) -> &'a RowSet {
        self.rows
    }

    /// The rows that match, counted from 0: in the common order if there is one, else ascending.
    ///
    /// # Errors
    /// Resource: keys on disk cannot be read back.
    pub fn rows_in_order(&self) -> Result<Vec<u64>> {
        let Some(order) = self.order else {
            return Ok(self.rows.iter().collect());
        };
        let (mut parts, mut rows) = (Parts::new(order), Vec::new());
        while let Some(part) = parts.next(self.rows)? {
            rows.extend(part.iter().map(|numbered| u64::from(numbered.row)));
        }
        Ok(rows)
    }

    /// How many keys have labels that are none, if there are such: the peer broke its promise, and their columns are
    /// null.
    pub fn unreadable(&self) -> Option<usize> {
        let unreadable = self.handed_over?.keys.unreadable();
        (unreadable > 0).then_some(unreadable)
    }
}

impl<'a> From<&'a RowSet> for Matched<'a> {
    fn from(rows: &'a RowSet) -> Matched<'a> {
        Matched::new(rows, None)
    }
}

/// Columns of the peer's table, for the rows of this one that match.
#[derive(Clone, Copy, Debug)]
pub struct HandedOver<'a> {
    columns: &'a [PeerColumn],
    keys: &'a KeyStore,
    /// Rows of a key that may each have such texts.
    rows: usize,
}

/// A column of the peer's table, or one that a run adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerColumn {
    /// Its name in the result, but for what tells it from others.
    pub name: String,
    /// What its values are.
    pub of: ColumnType,
}

impl PeerColumn {
    /// The same with the name that a column of the peer has beside those of this side's table: `peer_` before its own.
    pub fn beside_own(self) -> PeerColumn {
        PeerColumn {
            name: format!("{PREFIX}{}", self.name),
            ..self
        }
    }
}

impl<'a> HandedOver<'a> {
    /// These columns, in the labels that are [kept](KeyStore::keep) with these keys, and [arranged](arrange). Rows are asked
    /// for in ascending order, or it may take long.
    pub fn new(columns: &'a [PeerColumn], keys: &'a KeyStore) -> Self {
        HandedOver {
            columns,
            keys,
            rows: 1,
        }
    }

    /// The same in slots for up to so many rows of the peer with one key.
    pub fn of_rows(self, rows: usize) -> Self {
        HandedOver {
            rows: rows.max(1),
            ..self
        }
    }

    /// Whether a row may match several of the peer's.
    pub(crate) fn has_slots(&self) -> bool {
        self.rows > 1
    }

    /// How many rows of the peer have the key of an item; 1 if it is none or does not match.
    pub(crate) fn rows_of(&self, item: Option<u64>) -> Result<usize> {
        let Some(item) = item.filter(|_| self.has_slots()) else {
            return Ok(1);
        };
        let label = self.keys.label(item)?;
        let rows = slots(&label, self.rows).count();
        Ok(rows.max(1))
    }

    pub(crate) fn columns(&self) -> &'a [PeerColumn] {
        self.columns
    }

    /// Bytes of a label.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.label_bytes()
    }

    /// The texts that an item has of one of the peer's rows, `None` for null; all null if it is none or does not match. Fails
    /// if they cannot be read back.
    pub(crate) fn texts(&self, item: Option<u64>, row: usize) -> Result<Vec<Option<Cow<'a, str>>>> {
        let nulls = || vec![None; self.columns.len()];
        let Some(item) = item else {
            return Ok(nulls());
        };
        Ok(match self.keys.label(item)? {
            Cow::Borrowed(label) => decode(
                slot(label, self.rows, row).unwrap_or_default(),
                self.columns,
            )
            .map_or_else(nulls, |texts| {
                let texts = texts.into_iter();
                texts.map(|text| text.map(Cow::Borrowed)).collect()
            }),
            Cow::Owned(label) => decode(
                slot(&label, self.rows, row).unwrap_or_default(),
                self.columns,
            )
            .map_or_else(nulls, |texts| {
                let texts = texts.into_iter();
                texts
                    .map(|text| text.map(|text| Cow::Owned(text.to_owned())))
                    .collect()
            }),
        })
    }
}

/// What a label has for a row of its key, counted from 0, of up to `rows` of them; `None` if it has nothing.
fn slot(label: &[u8], rows: usize, row: usize) -> Option<&[u8]> {
    let mark = if rows > 1 { SLOT_MARK.len() } else { 0 };
    let bytes = (label.len() / rows).max(mark).max(1);
    let slot = label.chunks_exact(bytes).nth(row)?;
    slot.strip_prefix(&SLOT_MARK[..mark])
}

/// The same for each row, up to the first that it has nothing for.
pub(crate) fn slots(label: &[u8], rows: usize) -> impl Iterator<Item = &[u8]> {
    (0..).map_while(move |row| slot(label, rows, row))
}

/// Whether a label has only zeros after the last row that it has something for. That of a key that does not match is all
/// zeros.
pub(crate) fn is_of_rows(label: &[u8], rows: usize) -> bool {
    let taken = slots(label, rows).count();
    let rest = label.chunks_exact((label.len() / rows).max(1)).skip(taken);
    rest.flatten().all(|byte| *byte == 0)
}

/// Puts the labels that are [kept](KeyStore::keep) with keys, of these columns and for up to `rows` rows of a key, where the
/// rows that match find them. Takes approximately `memory` bytes, and a bucket's labels. Returns whether there are such.
///
/// # Errors
/// Usage or Resource: a file cannot be written in `directory`, or not read back.
pub fn arrange(
    keys: &mut KeyStore,
    directory: &Path,
    columns: &[PeerColumn],
    rows: usize,
    matched: &RowSet,
    memory: u64,
) -> Result<bool> {
    let bytes = keys.label_bytes();
    let is_unreadable = |label: &&[u8]| {
        let mut of_rows = slots(label, rows);
        of_rows.any(|slot| decode(slot, columns).is_none()) || !is_of_rows(label, rows)
    };
    // Where there is no key there are no bytes.
    let unreadable = |labels: &[u8]| {
        labels
            .chunks_exact(bytes.max(1))
            .filter(is_unreadable)
            .count()
    };
    Ok(keys.arrange(directory, matched, memory, unreadable)?)
}

/// The texts in a label; `None` if it is none of these columns.
pub(crate) fn decode<'l>(label: &'l [u8], columns: &[PeerColumn]) -> Option<Vec<Option<&'l str>>> {
    let mut rest = label;
    let mut texts = Vec::with_capacity(columns.len());
    for column in columns {
        let (length, after) = rest.split_first_chunk()?;
        rest = after;
        texts.push(match u16::from_le_bytes(*length).checked_sub(1) {
            None => None,
            Some(length) => {
                let (text, after) = rest.split_at_checked(length.into())?;
                rest = after;
                Some(
                    str::from_utf8(text)
                        .ok()
                        .filter(|text| !text.contains(is_control) && column.of.reads(text))?,
                )
            }
        });
    }
    rest.iter().all(|byte| *byte == 0).then_some(texts)
}

/// Appends a label of `bytes` bytes with these texts, which have room in it and no control characters: what [`HandedOver`] reads.
pub fn put_label(texts: &[&str], bytes: usize, labels: &mut Vec<u8>) {
    let end = labels.len() + bytes;
    for text in texts {
        labels.extend((text.len() as u16 + 1).to_le_bytes());
        labels.extend(text.as_bytes());
    }
    assert!(labels.len() <= end, "texts have room in a label");
    labels.resize(end, 0);
}

/// The names under which columns of the peer come into a result that has these `taken` names already: different ones. Columns that
/// are not [beside this side's own](PeerColumn::beside_own) have no other name.
pub(crate) fn result_names(
    columns: &[PeerColumn],
    taken: impl Fn(&str) -> bool,
) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let mut name = column.name.clone();
        if taken(&name) && !name.starts_with(PREFIX) {
            return Err(Error::new(ErrorKind::NameTaken).in_column(&name));
        }
        while taken(&name) || names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_rows() {
        let all = |label, rows| slots(label, rows).map(<[u8]>::to_vec).collect::<Vec<_>>();
        assert_eq!(all(b"abc", 1), [b"abc"]);
        assert_eq!(all(&[0; 3], 1), [[0; 3]]);
        assert_eq!(all(b"\x01ab\x01cd\0\0\0", 3), [b"ab", b"cd"]);
        assert_eq!(all(b"\x01ab\x02cd\x01ef", 3), [b"ab"]);
        assert_eq!(all(&[0; 6], 3), Vec::<Vec<u8>>::new());
        assert_eq!(all(b"", 3), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn slots_after_a_free_one_are_free() {
        for (label, rows, is_of_rows) in [
            (&b"abc"[..], 1, true),
            (b"\x01ab\0\0\0", 2, true),
            (b"\x01ab\x01cd", 2, true),
            (&[0; 6], 2, true),
            (b"\0\0\0\x01ab", 2, false),
            (b"\x01ab\x02cd", 2, false),
            (b"\x01ab\0\0d", 2, false),
        ] {
            assert_eq!(super::is_of_rows(label, rows), is_of_rows, "{label:?}");
        }
    }

    #[test]
    fn labels_of_texts_are_read() {
        let columns = ["a", "b"].map(|name| PeerColumn {
            name: name.to_owned(),
            of: ColumnType::TEXT,
        });
        let mut labels = Vec::new();
        put_label(&["one", ""], 9, &mut labels);
        put_label(&["", "four"], 9, &mut labels);
        let read = labels
            .chunks(9)
            .map(|label| decode(label, &columns).unwrap());
        let expected = [[Some("one"), Some("")], [Some(""), Some("four")]];
        assert!(read.eq(expected.map(Vec::from)));
    }

    #[test]
    fn labels_that_are_none_are_told_from_those_that_are() {
        let columns = ["a", "b"].map(|name| PeerColumn {
            name: name.to_owned(),
            of: ColumnType::TEXT,
        });
        let all = |label: &[u8]| {
            let texts = decode(label, &columns)?;
            Some(
                texts
                    .into_iter()
                    .map(|text| text.map(str::to_owned))
                    .collect::<Vec<_>>(),
            )
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(all(&[0; 4]), Some(vec![None, None]));
        assert_eq!(all(&[0; 9]), Some(vec![None, None]));
        assert_eq!(all(&[1, 0, 0, 0]), Some(vec![text(""), None]));
        assert_eq!(
            all(b"\x03\0ab\x02\0c\0\0"),
            Some(vec![text("ab"), text("c")])
        );
        for label in [
            &[0; 3][..],
            b"\x03\0ab\x03\0c",
            b"\x03\0ab\x02\0c\0x",
            b"\x02\0\xff\0\0",
            b"\xff\xffab\0\0",
            b"\x03\0a\x1b\0\0",
        ] {
            assert_eq!(all(label), None, "{label:?}");
        }
    }
}
