//! Columns that the names of directories say, as in `day=2026-01-01/part-0.parquet`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Component, Path};

use memchr::memmem;
use serde::de::IgnoredAny;

use crate::error::{Error, Result};
use crate::format::Format;
use crate::objects::address::unescaped;
use crate::source::dialect::Dialect;
use crate::source::records::Records;
use crate::source::text::{BYTE_ORDER_MARK, strip_terminator};

/// How Hive writes that a column is null.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// The columns that the directories of a file say, from the top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Partition {
    pub(crate) columns: Vec<(String, Option<String>)>,
}

impl Partition {
    /// Of a file below a directory. Directories with other names say nothing.
    ///
    /// # Errors
    /// Data: what an escape stands for is not UTF-8, or two directories say the same column.
    pub(crate) fn of(file: &Path, root: &Path) -> Result<Partition> {
        // Patterns give files without it.
        let root = root.strip_prefix(".").unwrap_or(root);
        let file = file.strip_prefix(".").unwrap_or(file);
        let below = file.strip_prefix(root).map_err(|_| {
            let found = "a file that is not below the directory of its pattern";
            Error::unsupported(found)
        })?;
        let directories = below.parent().into_iter().flat_map(Path::components);
        let mut columns: Vec<(String, Option<String>)> = Vec::new();
        for directory in directories {
            let Component::Normal(name) = directory else {
                continue;
            };
            let Some((name, value)) = name.to_str().and_then(|name| name.split_once('=')) else {
                continue;
            };
            let (name, value) = (text(name)?, text(value)?);
            if columns.iter().any(|(other, _)| *other == name) {
                let found = format!("directories that say the column {name:?} twice");
                return Err(Error::unsupported(found));
            }
            columns.push((name, Some(value).filter(|value| value != NULL)));
        }
        Ok(Partition { columns })
    }

    /// The names of its columns.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = self.columns.iter().map(|(name, _)| name.clone());
        names.collect()
    }

    /// Appends its names to a header, or its values to a row of CSV.
    fn put_fields(&self, is_header: bool, dialect: Dialect, out: &mut Vec<u8>) {
        for (name, value) in &self.columns {
            out.push(dialect.delimiter);
            match value {
                _ if is_header => dialect.put_field(name, out),
                Some(value) => dialect.put_field(value, out),
                None => {}
            }
        }
    }

    /// Appends an object of JSON with its members. What is no object stays what it is.
    fn put_members(&self, line: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let trimmed = line.trim_ascii();
        let inner = trimmed
            .strip_suffix(b"}")
            .filter(|inner| inner.starts_with(b"{"));
        let Some(inner) = inner else {
            out.extend_from_slice(line);
            return Ok(());
        };
        let is_there = |(name, _): &&(String, _)| {
            let found = memmem::find(inner, name.as_bytes()).or(memmem::find(inner, b"\\"));
            found.is_some()
                && serde_json::from_slice::<HashMap<Cow<'_, str>, IgnoredAny>>(trimmed)
                    .is_ok_and(|members| members.contains_key(&**name))
        };
        if let Some((name, _)) = self.columns.iter().find(is_there) {
            return Err(has_too(name));
        }
        out.extend_from_slice(inner.trim_ascii_end());
        for (name, value) in &self.columns {
            if !out.ends_with(b"{") {
                out.push(b',');
            }
            let member = (
                serde_json::Value::from(&**name),
                serde_json::Value::from(value.as_deref()),
            );
            out.extend_from_slice(format!("{}:{}", member.0, member.1).as_bytes());
        }
        out.push(b'}');
        Ok(())
    }
}

/// The error of a file that has a column which its directories say.
pub(crate) fn has_too(name: &str) -> Error {
    let found = format!("a file that has a column {name:?} in a directory that says it too");
    Error::unsupported(found)
}

/// Reads a text of rows with the columns of a partition behind their own.
pub(crate) struct Extended<R> {
    records: Records<R>,
    dialect: Dialect,
    format: Format,
    partition: Partition,
    /// Lines that have been handed out or are in `held`; none before the first read.
    lines: Option<u64>,
    held: Vec<u8>,
    given: usize,
}

impl<R: Read> Extended<R> {
    /// CSV with a header, or JSON Lines.
    pub(crate) fn new(
        input: R,
        format: Format,
        dialect: Dialect,
        partition: Partition,
    ) -> Extended<R> {
        Extended {
            records: Records::new(input, dialect),
            dialect,
            format,
            partition,
            lines: None,
            held: Vec::new(),
            given: 0,
        }
    }

    /// Holds the next record, and the blank lines before it; nothing at the end.
    fn fill(&mut self) -> Result<()> {
        self.held.clear();
        self.given = 0;
        let is_first = self.lines.is_none();
        if is_first && self.records.skip_byte_order_mark()? {
            self.held.extend_from_slice(BYTE_ORDER_MARK);
        }
        if !self.records.next(false)? {
            return Ok(());
        }
        let before = self.lines.unwrap_or(0);
        let blank = self.records.line() - 1 - before;
        self.held.extend((0..blank).map(|_| b'\n'));
        let raw = self.records.raw();
        let line_feeds = memchr::memchr_iter(b'\n', raw).count() as u64;
        self.lines = Some(before + blank + line_feeds);
        let body = strip_terminator(raw).0;
        match self.format {
            Format::Jsonl => self.partition.put_members(body, &mut self.held)?,
            _ => {
                self.held.extend_from_slice(body);
                self.partition
                    .put_fields(is_first, self.dialect, &mut self.held);
            }
        }
        self.held.extend_from_slice(&raw[body.len()..]);
        Ok(())
    }
}

impl<R: Read> Read for Extended<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.held.len() {
            self.fill().map_err(io::Error::other)?;
        }
        let count = (&self.held[self.given..]).read(out)?;
        self.given += count;
        Ok(count)
    }
}

/// What the escapes in a name stand for.
fn text(name: &str) -> Result<String> {
    let wrong = || Error::unsupported(format!("the name {name:?}, whose escapes are no UTF-8"));
    unescaped(name).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::dialect::CsvOptions;

    #[test]
    fn directories_say_columns() {
        let of = |file: &str| Partition::of(Path::new(file), Path::new("t"));
        let columns = |file: &str| {
            let columns = of(file).unwrap().columns.into_iter();
            columns
                .map(|(name, value)| format!("{name}:{}", value.as_deref().unwrap_or("null")))
                .collect::<Vec<_>>()
        };
        assert_eq!(columns("t/day=2026-01-01/p.parquet"), ["day:2026-01-01"]);
        assert_eq!(columns("t/a=1/x/b=c=d/p"), ["a:1", "b:c=d"]);
        assert_eq!(columns("t/a%20b=%2F%c3%A9/k=/p=1"), ["a b:/é", "k:"]);
        assert_eq!(columns("t/a=__HIVE_DEFAULT_PARTITION__/p"), ["a:null"]);
        assert!(columns("t/p.parquet").is_empty());
        assert!(of("t/a=1/a=2/p").is_err());
        assert!(of("t/a=%ff/p").is_err());
        assert!(of("t/a=50%/p").is_err());
        // Patterns that begin here.
        for (file, root) in [
            ("a=1/p", "./"),
            ("./a=1/p", ""),
            ("./t/a=1/p", "t"),
            ("t/a=1/p", "./t"),
        ] {
            let found = Partition::of(Path::new(file), Path::new(root)).unwrap();
            assert_eq!(found.columns.len(), 1, "{file} {root}");
        }
        assert!(of("u/a=1/p").is_err());
        let address = Path::new("s3://b/t/a=1/p");
        let found = Partition::of(address, Path::new("s3://b/t/")).unwrap();
        assert_eq!(found.columns, [("a".to_owned(), Some("1".to_owned()))]);
    }

    fn extended(text: &str, format: Format) -> io::Result<String> {
        let file = Path::new("t/day=a,%22b%22/e=/n=__HIVE_DEFAULT_PARTITION__/p");
        let partition = Partition::of(file, Path::new("t")).unwrap();
        let dialect = match format {
            Format::Csv => Dialect {
                delimiter: b',',
                csv: CsvOptions::default(),
            },
            _ => Dialect::LINES,
        };
        let mut found = String::new();
        Extended::new(text.as_bytes(), format, dialect, partition).read_to_string(&mut found)?;
        Ok(found)
    }

    #[test]
    fn rows_of_csv_get_fields() {
        let (names, values) = (",day,e,n", ",\"a,\"\"b\"\"\",\"\",");
        for (text, expected) in [
            ("", String::new()),
            ("a", format!("a{names}")),
            (
                "\u{feff}a\r\n1\r\n",
                format!("\u{feff}a{names}\r\n1{values}\r\n"),
            ),
            (
                "\n\na,b\n\r\n\"x\n\ny\",2\n\n3,4",
                format!("\n\na,b{names}\n\n\"x\n\ny\",2{values}\n\n3,4{values}"),
            ),
        ] {
            assert_eq!(extended(text, Format::Csv).unwrap(), expected, "{text:?}");
        }
        assert!(extended("a\n\"1\n", Format::Csv).is_err());
    }

    #[test]
    fn objects_get_members() {
        let members = r#""day":"a,\"b\"","e":"","n":null"#;
        for (text, expected) in [
            ("{}\n", format!("{{{members}}}\n")),
            (
                " {\"a\":\"{\" } \r\n\n{\"f\":1}",
                format!("{{\"a\":\"{{\",{members}}}\r\n\n{{\"f\":1,{members}}}"),
            ),
            ("[1]\nx", "[1]\nx".to_owned()),
            ("{\"x\":\"day\"}", format!("{{\"x\":\"day\",{members}}}")),
        ] {
            assert_eq!(extended(text, Format::Jsonl).unwrap(), expected, "{text:?}");
        }
        for text in ["{\"e\":1}", "{\"d\\u0061y\":1}"] {
            assert!(extended(text, Format::Jsonl).is_err(), "{text}");
        }
    }
}
