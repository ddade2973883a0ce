//! Columns that the sender hands over with the rows that match: texts in labels of one length.
//!
//! Texts have no control characters but tabs and line ends. A label has, for each column, two bytes with the length of the text plus one, little endian, and the text; 0 instead
//! is null. Zeros follow up to the length of labels.

use std::borrow::Cow;
use std::path::Path;

use vesica_keys::{CommonOrder, KeyStore, Parts, RowSet};

use crate::error::Result;
use crate::types::column_type::ColumnType;
use crate::types::labels::is_control;

/// What comes before the name of a column of the peer in the result.
pub(crate) const PREFIX: &str = "peer_";

/// The rows of a table that match, and what the peer has handed over with them.
#[derive(Clone, Copy, Debug)]
pub struct Matched<'a> {
    pub(crate) rows: &'a RowSet,
    pub(crate) handed_over: Option<HandedOver<'a>>,
    pub(crate) order: Option<CommonOrder<'a>>,
}

impl<'a> Matched<'a> {
    /// The rows that match, with what the peer has handed over.
    pub fn new(rows: &'a RowSet, handed_over: Option<HandedOver<'a>>) -> Matched<'a> {
        Matched {
            rows,
            handed_over,
            order: None,
        }
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
}

/// A column of the peer's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerColumn {
    /// Its name there.
    pub name: String,
    /// What its values are.
    pub of: ColumnType,
}

impl<'a> HandedOver<'a> {
    /// These columns, in the labels that are [kept](KeyStore::keep) with these keys, and [arranged](arrange). Rows are asked
    /// for in ascending order, or it may take long.
    pub fn new(columns: &'a [PeerColumn], keys: &'a KeyStore) -> Self {
        HandedOver { columns, keys }
    }

    pub(crate) fn columns(&self) -> &'a [PeerColumn] {
        self.columns
    }

    /// Bytes of a label.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.label_bytes()
    }

    /// The texts of a row, `None` for null; all null if the row does not match. Fails if they cannot be read back.
    pub(crate) fn texts(&self, row: u64) -> Result<Vec<Option<Cow<'a, str>>>> {
        let nulls = || vec![None; self.columns.len()];
        Ok(match self.keys.label(row)? {
            Cow::Borrowed(label) => decode(label, self.columns).map_or_else(nulls, |texts| {
                let texts = texts.into_iter();
                texts.map(|text| text.map(Cow::Borrowed)).collect()
            }),
            Cow::Owned(label) => decode(&label, self.columns).map_or_else(nulls, |texts| {
                let texts = texts.into_iter();
                texts
                    .map(|text| text.map(|text| Cow::Owned(text.to_owned())))
                    .collect()
            }),
        })
    }
}

/// Puts the labels that are [kept](KeyStore::keep) with keys, of these columns, where the rows that match find them. Takes
/// approximately `memory` bytes, and a bucket's labels. Returns whether there are such.
///
/// # Errors
/// Usage or Resource: a file cannot be written in `directory`, or not read back.
pub fn arrange(
    keys: &mut KeyStore,
    directory: &Path,
    columns: &[PeerColumn],
    matched: &RowSet,
    memory: u64,
) -> Result<bool> {
    let bytes = keys.label_bytes();
    let unreadable = |labels: &[u8]| {
        // Where there is no key there are no bytes.
        let labels = labels.chunks_exact(bytes.max(1));
        labels
            .filter(|label| decode(label, columns).is_none())
            .count()
    };
    Ok(keys.arrange(directory, matched, memory, unreadable)?)
}

/// The texts in a label; `None` if it is none of these columns.
fn decode<'l>(label: &'l [u8], columns: &[PeerColumn]) -> Option<Vec<Option<&'l str>>> {
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

/// The names under which columns of the peer come into a result that has these `taken` names already: different ones.
pub(crate) fn result_names(columns: &[PeerColumn], taken: impl Fn(&str) -> bool) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let mut name = format!("{PREFIX}{}", column.name);
        while taken(&name) || names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

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
