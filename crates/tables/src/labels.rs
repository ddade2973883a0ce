//! The pass of a side for what it hands over, or shares, with each of its keys.

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
    read(source, key, keys, (columns, Form::Label), bytes)
}

/// The same with the text of one column in UTF-8 and zeros after it, up to `bytes` bytes. Null is zeros alone.
///
/// # Errors
/// As [`read_labels`].
pub fn read_payload(
    source: &Source,
    key: &KeySpec,
    keys: &Keys,
    column: &str,
    bytes: usize,
) -> Result<Zeroizing<Vec<u8>>> {
    let columns = &[column.to_owned()];
    read(source, key, keys, (columns, Form::Payload), bytes)
}

/// What texts become.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Each with its length, so that several come back.
    Label,
    /// The text alone.
    Payload,
}

fn read(
    source: &Source,
    key: &KeySpec,
    keys: &Keys,
    (columns, form): (&[String], Form),
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
        form,
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
    form: Form,
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
        let has_length = self.form == Form::Label;
        let Some(text) = text.filter(|text| !self.columns.is_null(text)) else {
            let length: &[u8] = if has_length { &[0; 2] } else { &[] };
            self.label.extend_from_slice(length);
            return Ok(());
        };
        let chars = str::from_utf8(text).map_err(|_| Error::new(ErrorKind::NotUtf8))?;
        if chars.contains(is_control) {
            return Err(Error::new(ErrorKind::LabelControls));
        }
        // One that is too long for its length is too long for any label.
        let length = u16::try_from(text.len() + 1).unwrap_or(u16::MAX);
        if has_length {
            self.label.extend_from_slice(&length.to_le_bytes());
        }
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
            let (needed, limit) = (self.label.len(), self.bytes);
            return Err(Error::new(match self.form {
                Form::Label => ErrorKind::LabelTooLong { needed, limit },
                Form::Payload => ErrorKind::PayloadTooLong { needed, limit },
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
