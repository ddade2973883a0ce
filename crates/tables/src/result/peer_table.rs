//! Rows of the peer that this side's table has none of: a table of their own.

use crate::error::Result;
use crate::result::output::Output;
use crate::source::dialect::{CsvOptions, Dialect};
use crate::types::peer_columns::{PeerColumn, decode, is_of_rows, slots};

/// CSV with commas, the peer's columns under their names, and a line for each of its rows. Nothing at all is null, and an empty
/// text is in quotes; so is the null of a single column, since a blank line is no row.
#[derive(Debug)]
pub struct PeerTable {
    file: Output,
    columns: Vec<PeerColumn>,
    /// Rows of a key of the peer that may each have texts in its label.
    rows_of_key: usize,
    written: u64,
    unreadable: u64,
}

impl PeerTable {
    /// Without a row yet, in this file.
    ///
    /// # Errors
    /// Resource: the disk is full.
    pub fn begin(mut file: Output, columns: Vec<PeerColumn>, rows_of_key: usize) -> Result<Self> {
        let mut header = Vec::new();
        let names = columns.iter().map(|column| Some(&*column.name));
        put_csv_line(names, &mut header);
        file.write_text(|out| out.write_all(&header))?;
        Ok(PeerTable {
            file,
            columns,
            rows_of_key: rows_of_key.max(1),
            written: 0,
            unreadable: 0,
        })
    }

    /// Adds the rows of these labels. The columns of a label that is none are null.
    ///
    /// # Errors
    /// As [`PeerTable::begin`].
    pub fn add<'l>(&mut self, labels: impl Iterator<Item = &'l [u8]>) -> Result<()> {
        let PeerTable {
            file,
            columns,
            rows_of_key: rows,
            written,
            unreadable,
        } = self;
        let mut line = Vec::new();
        file.write_text(|out| {
            for label in labels {
                let texts: Option<Vec<_>> = slots(label, *rows)
                    .map(|slot| decode(slot, columns))
                    .collect();
                let texts = texts.filter(|texts| !texts.is_empty() && is_of_rows(label, *rows));
                *unreadable += u64::from(texts.is_none());
                for texts in texts.unwrap_or_else(|| vec![vec![None; columns.len()]]) {
                    line.clear();
                    put_csv_line(texts.into_iter(), &mut line);
                    out.write_all(&line)?;
                    *written += 1;
                }
            }
            Ok(())
        })
    }

    /// Puts the table in its place. Returns how many rows it has, and how many labels were none.
    ///
    /// # Errors
    /// As [`Output::commit`].
    pub fn commit(self) -> Result<[u64; 2]> {
        self.file.commit()?;
        Ok([self.written, self.unreadable])
    }
}

/// Appends a line of CSV with these fields, with commas; the text of one that is none is empty and has no quotes.
pub fn put_csv_line<'f>(fields: impl ExactSizeIterator<Item = Option<&'f str>>, out: &mut Vec<u8>) {
    let dialect = Dialect {
        delimiter: b',',
        csv: CsvOptions::default(),
    };
    let is_alone = fields.len() == 1;
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(dialect.delimiter);
        }
        match field {
            Some(text) => dialect.put_field(text, out),
            None if is_alone => dialect.put_field("", out),
            None => {}
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;
    use crate::source::options::SourceOptions;
    use crate::types::column_type::ColumnType;

    fn columns(names: &[&str]) -> Vec<PeerColumn> {
        let column = |name: &&str| PeerColumn {
            name: (*name).to_owned(),
            of: ColumnType::TEXT,
        };
        names.iter().map(column).collect()
    }

    /// What is written of these labels, and the counts.
    fn written(names: &[&str], rows: usize, labels: &[&[u8]]) -> (String, [u64; 2]) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("rows.csv");
        let source = Source::from_bytes("own.csv", "k\n1\n".into(), SourceOptions::default());
        let file = Output::create_csv(&path, &source.unwrap()).unwrap();
        let mut table = PeerTable::begin(file, columns(names), rows).unwrap();
        for label in labels {
            table.add([*label].into_iter()).unwrap();
        }
        let counts = table.commit().unwrap();
        (std::fs::read_to_string(path).unwrap(), counts)
    }

    #[test]
    fn rows_are_those_of_the_labels() {
        let labels = [
            &b"\x03\0ab\x02\0c\0"[..],
            b"\0\0\x02\0\"\0\0\0",
            b"\x01\0\x03\0,\n\0",
        ];
        let text = "a,\"b,c\"\nab,c\n,\"\"\"\"\n\"\",\",\n\"\n";
        assert_eq!(written(&["a", "b,c"], 1, &labels), (text.into(), [3, 0]));
        // Of a single column null is not a blank line.
        let text = "a\nx\n\"\"\n\"\"\n";
        let labels = [&b"\x02\0x"[..], b"\0\0\0", b"\x01\0\0"];
        assert_eq!(written(&["a"], 1, &labels), (text.into(), [3, 0]));
        assert_eq!(written(&["a"], 1, &[]), ("a\n".into(), [0, 0]));
    }

    #[test]
    fn keys_of_several_rows_have_as_many_lines() {
        let labels = [&b"\x01\x02\0x\x01\x02\0y"[..], b"\x01\x02\0z\0\0\0\0"];
        assert_eq!(written(&["a"], 2, &labels), ("a\nx\ny\nz\n".into(), [3, 0]));
    }

    #[test]
    fn labels_that_are_none_are_counted() {
        let labels = [&b"\xff\xff\0\0"[..], b"\x02\0x\x01", b"\x02\0x\0"];
        assert_eq!(
            written(&["a"], 1, &labels),
            ("a\n\"\"\n\"\"\nx\n".into(), [3, 2])
        );
        // No row, or one after none.
        let labels = [&[0; 8][..], b"\0\0\0\0\x01\x02\0y"];
        assert_eq!(
            written(&["a"], 2, &labels),
            ("a\n\"\"\n\"\"\n".into(), [2, 2])
        );
    }
}
