//! The sender's pass for what it hands over.

use zeroize::Zeroizing;

use crate::columns_read::ColumnsRead;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::handed::is_control;
use crate::key::{KeyColumn, KeySpec};
use crate::keys::Keys;
use crate::profile::Profile;
use crate::scan::scan;
use crate::sink::{At, Sink};
use crate::source::Source;
use crate::value::Row;

/// Another pass over a table, after the one that found its `keys`: for each of those, the values of some columns as a label of `bytes` bytes, one after
/// the other.
///
/// # Errors
/// Usage: no column. Data: no such column, values that have no text or do not fit into a label, or rows of one key
/// with different values; the table has changed.
pub fn read_labels(
    source: &Source,
    key: &KeySpec,
    keys: &Keys,
    columns: &[String],
    bytes: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    let columns = columns.iter().map(|name| KeyColumn {
        name: name.clone(),
        profile: Profile::Exact,
    });
    let columns = KeySpec::new(columns.collect())?.with_nulls(key.nulls().to_vec());
    let items = keys.digests().len();
    let mut sink = LabelSink {
        columns: &columns,
        keys,
        bytes,
        next: 0,
        labels: Zeroizing::new(vec![0; items * bytes]),
        seen: vec![false; items],
        label: Zeroizing::default(),
    };
    let facts = scan(source, ColumnsRead::texts(&columns), &mut sink)?;
    if facts.rows != keys.row_items().len() as u64 {
        return Err(Error::new(ErrorKind::Changed).in_path(source.name()));
    }
    Ok(sink.labels)
}

struct LabelSink<'a> {
    columns: &'a KeySpec,
    keys: &'a Keys,
    bytes: usize,
    next: usize,
    labels: Zeroizing<Vec<u8>>,
    /// Whether the key has its label.
    seen: Vec<bool>,
    /// That of the present row.
    label: Zeroizing<Vec<u8>>,
}

impl LabelSink<'_> {
    /// Appends a value to the label of the present row.
    fn push(&mut self, text: Option<&[u8]>) -> Result<()> {
        let Some(text) = text.filter(|text| !self.columns.is_null(text)) else {
            self.label.extend_from_slice(&[0; 2]);
            return Ok(());
        };
        let chars = str::from_utf8(text).map_err(|_| Error::new(ErrorKind::NotUtf8))?;
        if chars.contains(is_control) {
            return Err(Error::new(ErrorKind::LabelControls));
        }
        // One that is too long for its length is too long for any label.
        let length = u16::try_from(text.len() + 1).unwrap_or(u16::MAX);
        self.label.extend_from_slice(&length.to_le_bytes());
        self.label.extend_from_slice(text);
        Ok(())
    }

    fn put<R: Row>(&mut self, row: &R, item: usize) -> Result<()> {
        let columns = self.columns;
        self.label.clear();
        for (i, column) in columns.columns().iter().enumerate() {
            let pushed = self.push(row.value(i).text());
            pushed.map_err(|e| e.in_column(&column.name))?;
        }
        if self.label.len() > self.bytes {
            return Err(Error::new(ErrorKind::LabelTooLong {
                needed: self.label.len(),
                limit: self.bytes,
            }));
        }
        self.label.resize(self.bytes, 0);
        let label = &mut self.labels[item * self.bytes..][..self.bytes];
        match std::mem::replace(&mut self.seen[item], true) {
            true if *label != **self.label => {
                let mut rows = (1..).zip(self.keys.row_items());
                let first = rows.find(|(_, of)| **of as usize == item);
                let first = Box::new(Place {
                    row: first.map(|(row, _)| row),
                    ..Place::default()
                });
                Err(Error::new(ErrorKind::LabelsDiffer { first }))
            }
            _ => {
                label.copy_from_slice(&self.label);
                Ok(())
            }
        }
    }
}

impl Sink for LabelSink<'_> {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        let item = self.keys.row_items().get(self.next);
        let item = *item.ok_or_else(|| Error::new(ErrorKind::Changed))?;
        self.next += 1;
        match item {
            Keys::NO_ITEM => Ok(()),
            item => {
                let put = self.put(row, item as usize);
                put.map_err(|e| e.at_row(at.row, at.line))
            }
        }
    }
}
