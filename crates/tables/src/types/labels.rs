//! What a side hands over, or shares, with each of its keys: the texts of some columns in a string of one length.

use vesica_keys::Labels;
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result, TextsOf};
use crate::profile::Profile;
use crate::profile::canonical::Row;
use crate::profile::key::{KeyColumn, KeySpec};

/// The most groups of keys that are found in a column.
const MAX_GROUPS: usize = 1 << 16;

/// Columns whose texts go with each key. Rows of one key have the same.
#[derive(Clone, Debug)]
pub struct TextColumns {
    columns: KeySpec,
    of: TextsOf,
    bytes: usize,
    /// Rows of a key that each have such texts, in a slot of their own; of one, all rows have the same.
    rows: usize,
}

impl TextColumns {
    /// The values of these columns of a table with this key as a label of `bytes` bytes.
    ///
    /// # Errors
    /// Usage: no column.
    pub fn labels(key: &KeySpec, columns: &[String], bytes: usize) -> Result<TextColumns> {
        TextColumns::new(key, columns, TextsOf::Run, bytes)
    }

    /// The same for keys that are published.
    ///
    /// # Errors
    /// As [`TextColumns::labels`].
    pub fn published(key: &KeySpec, columns: &[String], bytes: usize) -> Result<TextColumns> {
        TextColumns::new(key, columns, TextsOf::Publication, bytes)
    }

    /// The same for keys that are added to a published set, which has its width already.
    ///
    /// # Errors
    /// As [`TextColumns::labels`].
    pub fn added(key: &KeySpec, columns: &[String], bytes: usize) -> Result<TextColumns> {
        TextColumns::new(key, columns, TextsOf::Set, bytes)
    }

    /// The text of one column in UTF-8 and zeros after it, up to `bytes` bytes. Null is zeros alone.
    ///
    /// # Errors
    /// As [`TextColumns::labels`].
    pub fn payload(key: &KeySpec, column: &str, bytes: usize) -> Result<TextColumns> {
        TextColumns::new(key, &[column.to_owned()], TextsOf::Shares, bytes)
    }

    /// The same of a column that says in which group a key is, without white space around its name. Null and a blank text say that
    /// it is in none.
    ///
    /// # Errors
    /// As [`TextColumns::labels`].
    pub fn group(key: &KeySpec, column: &str, bytes: usize) -> Result<TextColumns> {
        TextColumns::new(key, &[column.to_owned()], TextsOf::Groups, bytes)
    }

    fn new(key: &KeySpec, columns: &[String], of: TextsOf, bytes: usize) -> Result<TextColumns> {
        let columns = columns.iter().map(|name| KeyColumn {
            name: name.clone(),
            profile: Profile::EXACT,
        });
        let columns = KeySpec::new(columns.collect())?.with_nulls(key.nulls().to_vec());
        Ok(TextColumns {
            columns,
            of,
            bytes,
            rows: 1,
        })
    }

    /// The same for up to so many rows of each key. Each has a slot of its own, all of the same length; together they take the
    /// bytes of a label.
    pub fn of_rows(self, rows: usize) -> TextColumns {
        TextColumns {
            rows: rows.max(1),
            ..self
        }
    }

    /// Rows of a key that may each have such texts.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How those of several rows of a key go together.
    pub(crate) fn labels_of_key(&self) -> Labels {
        match self.rows {
            1 if self.of == TextsOf::Groups => Labels::Group(MAX_GROUPS),
            1 => Labels::Same,
            rows => Labels::Slots(rows),
        }
    }

    /// Bytes that the texts of a row may take.
    pub(crate) fn bytes_of_row(&self) -> usize {
        match self.rows {
            1 => self.bytes,
            rows => (self.bytes / rows).saturating_sub(SLOT_MARK.len()),
        }
    }

    /// Bytes for each key.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn columns(&self) -> &KeySpec {
        &self.columns
    }

    /// What goes with a row, whose columns of texts begin with the `first`.
    pub(crate) fn of_row<R: Row>(&self, row: &R, first: usize) -> Result<Zeroizing<Vec<u8>>> {
        let mut label = Zeroizing::new(Vec::with_capacity(self.bytes));
        let (mut needed, limit) = (0, self.bytes_of_row());
        if self.rows > 1 {
            label.extend_from_slice(&SLOT_MARK);
        }
        for (index, column) in (first..).zip(self.columns.columns()) {
            let pushed = self.push(row.value(index).text(), &mut label);
            needed += pushed.map_err(|e| e.in_column(&column.name))?;
        }
        if needed > limit {
            let of = self.of;
            return Err(Error::new(ErrorKind::TextsTooLong { of, needed, limit }));
        }
        label.resize(self.bytes, 0);
        Ok(label)
    }

    /// How many bytes a row's label takes, whatever the width, and a hash of its texts: rows with the same have the same
    /// label.
    pub(crate) fn measure<R: Row>(&self, row: &R, first: usize) -> (Result<usize>, [u8; 32]) {
        let (mut needed, mut hasher) = (Ok(0), blake3::Hasher::new());
        for index in first..first + self.columns.columns().len() {
            let value = row.value(index);
            let text = value.text().filter(|text| !self.columns.is_null(text));
            let length = text.map_or(0, |text| text.len() as u64 + 1);
            hasher.update(&length.to_le_bytes());
            hasher.update(text.unwrap_or_default());
            let bytes = check(text.unwrap_or_default()).map(<[u8]>::len);
            needed = needed.and_then(|sum| Ok(sum + LENGTH_BYTES + bytes?));
        }
        (needed, *hasher.finalize().as_bytes())
    }

    /// Appends a value as far as there is room, and returns how many bytes it takes.
    fn push(&self, text: Option<&[u8]>, label: &mut Vec<u8>) -> Result<usize> {
        // So that several come back; that of shares is alone.
        let has_length = !matches!(self.of, TextsOf::Shares | TextsOf::Groups);
        let text = text.filter(|text| !self.columns.is_null(text));
        let mut bytes: [&[u8]; 2] = [&[], &[]];
        let mut length = [0; LENGTH_BYTES];
        if let Some(text) = text {
            let text = match self.of {
                TextsOf::Groups => str::from_utf8(check(text)?)
                    .unwrap_or_default()
                    .trim()
                    .as_bytes(),
                _ => check(text)?,
            };
            // One that is too long for its length is too long for any label.
            length = u16::try_from(text.len() + 1)
                .unwrap_or(u16::MAX)
                .to_le_bytes();
            bytes[1] = text;
        }
        if has_length {
            bytes[0] = &length;
        }
        for bytes in bytes {
            // Within its capacity no copy is left behind.
            let room = label.capacity() - label.len();
            label.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        Ok(bytes[0].len() + bytes[1].len())
    }
}

/// Bytes of the length of a text in a label.
const LENGTH_BYTES: usize = 2;

/// What a slot begins with that a row has.
pub(crate) const SLOT_MARK: [u8; 1] = [1];

/// Fails for a text that is not handed over.
fn check(text: &[u8]) -> Result<&[u8]> {
    let chars = str::from_utf8(text).map_err(|_| Error::new(ErrorKind::NotUtf8))?;
    match chars.contains(is_control) {
        true => Err(Error::new(ErrorKind::LabelControls)),
        false => Ok(text),
    }
}

/// Whether a character is not handed over: it could do something to whoever looks at the result.
pub(crate) fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\t' | '\n' | '\r')
}
