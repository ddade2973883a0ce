//! A dry run: what a run would see of a table, and surprises in its keys.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::Serialize;

use crate::compression::Compression;
use crate::error::Result;
use crate::format::Format;
use crate::key::KeySpec;
use crate::keys::{Counts, RowValue};
use crate::profile::{Profile, is_nfc};
use crate::scan::scan;
use crate::sink::{At, Facts, Sink};
use crate::source::Source;
use crate::spool::{Repeated, StoreBuilder};
use crate::value::{Canonical, Row, Value, Verdict};
use crate::wanted::Wanted;

/// How many rows are named as examples of each finding, and how many repeated keys.
const EXAMPLES: usize = 5;

/// What a run would see of a table. It contains no value of the table, only counts and row numbers.
/// Serialises to JSON; `Display` is for people and takes several lines.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What the table is called.
    pub input: String,
    /// Its format.
    pub format: Format,
    /// How it is compressed as a whole, if it is.
    pub compression: Option<Compression>,
    /// The delimiter, if it is CSV.
    pub delimiter: Option<char>,
    /// Whether the text starts with a byte-order mark.
    pub byte_order_mark: bool,
    /// Rows of a text that end in CR LF.
    pub crlf_rows: u64,
    /// What the first pass counts.
    #[serde(flatten)]
    pub counts: Counts,
    /// The keys that occur most often, at most five.
    pub most_repeated: Vec<Repeated>,
    /// The key's columns, in the key's order.
    pub columns: Vec<ColumnCheck>,
    /// What may surprise, one line each.
    pub warnings: Vec<String>,
}

/// What one key column holds.
#[derive(Clone, Debug, Serialize)]
pub struct ColumnCheck {
    /// Its name.
    pub name: String,
    /// The profile that normalises it.
    pub profile: String,
    /// How many values are of each type: `text`, `bytes`, `null`, `integer`, `date` and so on.
    pub types: BTreeMap<&'static str, u64>,
    /// Null or blank values.
    pub blank: Finding,
    /// Values that are invalid under the profile.
    pub invalid: Finding,
    /// Values that the profile changes.
    pub changed: Finding,
    /// Texts with white space before or after.
    pub surrounding_space: Finding,
    /// Texts of digits that start with a zero, which spreadsheets and integer columns lose.
    pub leading_zeros: Finding,
    /// Texts that are not in Unicode's composed form (NFC), so that they differ from texts that
    /// look the same.
    pub not_nfc: Finding,
    /// Texts with control or invisible characters.
    pub control_characters: Finding,
    /// Texts with U+FFFD, which stands where another program met bytes that it could not read.
    pub replacement_characters: Finding,
    /// Texts that are UUIDs in another form than lower case with hyphens.
    pub unusual_uuids: Finding,
}

/// How many values have a property, and the first few rows with one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How many.
    pub count: u64,
    /// At most five row numbers, counted from 1.
    pub rows: Vec<u64>,
}

impl Finding {
    fn note(&mut self, holds: bool, row: u64) {
        if holds {
            self.count += 1;
            if self.rows.len() < EXAMPLES {
                self.rows.push(row);
            }
        }
    }
}

/// Reads a table as [`read_keys`](crate::read_keys) does, and reports on its keys.
///
/// # Errors
/// The same as those of `read_keys`.
pub fn check(source: &Source, key: &KeySpec) -> Result<Check> {
    check_within(source, key, u64::MAX, &std::env::temp_dir())
}

/// Reads a table as [`read_keys_within`](crate::read_keys_within) does, and reports on its keys.
///
/// # Errors
/// The same as those of `read_keys_within`.
pub fn check_within(
    source: &Source,
    key: &KeySpec,
    memory: u64,
    directory: &Path,
) -> Result<Check> {
    let columns = key.columns().iter().map(|c| ColumnCheck {
        name: c.name.clone(),
        profile: c.profile.to_string(),
        types: BTreeMap::new(),
        blank: Finding::default(),
        invalid: Finding::default(),
        changed: Finding::default(),
        surrounding_space: Finding::default(),
        leading_zeros: Finding::default(),
        not_nfc: Finding::default(),
        control_characters: Finding::default(),
        replacement_characters: Finding::default(),
        unusual_uuids: Finding::default(),
    });
    let mut sink = CheckSink {
        canonical: Canonical::new(key),
        keys: StoreBuilder::new(memory, directory, None),
        columns: columns.collect(),
    };
    let facts = scan(source, Wanted::key(key), &mut sink)?;
    sink.drain()?;
    let keys = sink.keys.finish()?;
    let mut check = Check {
        input: source.name().to_owned(),
        format: source.format(),
        compression: source.compression(),
        delimiter: source.csv_delimiter().map(char::from),
        byte_order_mark: facts.byte_order_mark,
        crlf_rows: facts.crlf_rows,
        counts: *keys.counts(),
        most_repeated: keys.most_repeated(EXAMPLES)?,
        columns: sink.columns,
        warnings: Vec::new(),
    };
    check.warnings = warnings(&check, key, facts);
    Ok(check)
}

struct CheckSink<'k> {
    canonical: Canonical<'k>,
    keys: StoreBuilder<'k>,
    columns: Vec<ColumnCheck>,
}

impl CheckSink<'_> {
    fn drain(&mut self) -> Result<()> {
        let CheckSink {
            canonical, keys, ..
        } = self;
        canonical.drain(|item| keys.add(item, RowValue::default()))
    }
}

impl Sink for CheckSink<'_> {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        let columns = &mut self.columns;
        let full = self
            .canonical
            .add(row, |i, value, verdict| {
                columns[i].note(value, verdict, at.row)
            })
            .map_err(|e| e.at_row(at.row, at.line))?;
        if full { self.drain() } else { Ok(()) }
    }
}

impl ColumnCheck {
    fn note(&mut self, value: Value<'_>, verdict: Verdict, row: u64) {
        let type_name = match value {
            Value::Null => "null",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Typed(kind, _) => kind.name(),
        };
        *self.types.entry(type_name).or_default() += 1;
        self.blank.note(verdict == Verdict::Blank, row);
        self.invalid.note(verdict == Verdict::Invalid, row);
        self.changed
            .note(verdict == Verdict::Valid { changed: true }, row);
        let Value::Text(bytes) = value else { return };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        let zeros = bytes.len() > 1 && bytes[0] == b'0' && bytes.iter().all(u8::is_ascii_digit);
        let odd = |c: char| {
            c.is_control()
                || matches!(
                    c,
                    '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
                )
        };
        self.surrounding_space
            .note(text.trim().len() != text.len(), row);
        self.leading_zeros.note(zeros, row);
        self.not_nfc.note(!is_nfc(text), row);
        self.control_characters.note(text.chars().any(odd), row);
        self.replacement_characters
            .note(!text.is_ascii() && text.contains('\u{fffd}'), row);
        self.unusual_uuids.note(is_unusual_uuid(bytes), row);
    }
}

/// A UUID in braces, in upper case or without hyphens.
fn is_unusual_uuid(text: &[u8]) -> bool {
    let (inner, braces) = match text {
        [b'{', inner @ .., b'}'] => (inner, true),
        _ => (text, false),
    };
    let hyphen = |i: usize| matches!(i, 8 | 13 | 18 | 23);
    let digits = |(i, b): (usize, &u8)| {
        if hyphen(i) {
            *b == b'-'
        } else {
            b.is_ascii_hexdigit()
        }
    };
    let upper = inner.iter().any(u8::is_ascii_uppercase);
    inner.len() == 36 && (braces || upper) && inner.iter().enumerate().all(digits)
}

fn warnings(check: &Check, key: &KeySpec, facts: Facts) -> Vec<String> {
    let mut lines = Vec::new();
    let counts = &check.counts;
    let matchable = counts.items + counts.duplicates;
    if counts.items == 0 {
        lines.push("no row has a usable key: nothing can match".to_owned());
    }
    if facts.crlf_rows > 0 && facts.crlf_rows + 1 < counts.rows {
        lines.push(format!(
            "{} of {} rows end in CR LF, the others in LF",
            facts.crlf_rows, counts.rows
        ));
    }
    for (column, spec) in check.columns.iter().zip(key.columns()) {
        let exact = spec.profile == Profile::Exact;
        let mut warn = |finding: &Finding, what: &str| {
            if finding.count > 0 {
                lines.push(format!(
                    "column {:?}: {} {what} (first at row {})",
                    column.name,
                    many(finding.count, "value"),
                    finding.rows[0],
                ));
            }
        };
        warn(
            &column.invalid,
            &format!("invalid under {}, never matching", column.profile),
        );
        warn(
            &column.replacement_characters,
            "with U+FFFD, damaged before this table was written",
        );
        if exact {
            warn(
                &column.surrounding_space,
                "with white space before or after, which counts under exact",
            );
            warn(
                &column.not_nfc,
                "not in Unicode NFC, differing from others that look the same",
            );
            warn(
                &column.control_characters,
                "with control or invisible characters",
            );
            warn(
                &column.unusual_uuids,
                "written as UUIDs in upper case or braces, differing from UUID columns; text folds case",
            );
        }
        let types = column.types.keys().filter(|t| **t != "null").count();
        if types > 1 {
            let all: Vec<_> = column
                .types
                .iter()
                .map(|(t, n)| format!("{n} {t}"))
                .collect();
            lines.push(format!(
                "column {:?} mixes types: {}",
                column.name,
                all.join(", ")
            ));
        }
        let zeros = &column.leading_zeros;
        if exact && zeros.count > 0 && zeros.count < matchable {
            lines.push(format!(
                "column {:?}: {} with leading zeros, which an integer column elsewhere would not have",
                column.name,
                many(zeros.count, "number"),
            ));
        }
    }
    lines
}

fn many(n: u64, what: &str) -> String {
    if n == 1 {
        format!("1 {what}")
    } else {
        format!("{n} {what}s")
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts {
            rows,
            items,
            duplicates,
            blanks,
            invalid,
            changed,
        } = &self.counts;
        write!(f, "{}: {}", self.input, self.format)?;
        match self.delimiter {
            Some('\t') => f.write_str(", delimited by tabs")?,
            Some(delimiter) => write!(f, ", delimited by {delimiter}")?,
            None => {}
        }
        if let Some(compression) = self.compression {
            write!(f, ", {}", compression.name())?;
        }
        for (holds, what) in [
            (self.byte_order_mark, "byte-order mark"),
            (self.crlf_rows > 0, "CR LF line ends"),
        ] {
            if holds {
                write!(f, ", {what}")?;
            }
        }
        writeln!(f)?;
        for (n, what) in [
            (rows, "rows"),
            (items, "distinct keys"),
            (duplicates, "rows that repeat an earlier key"),
            (blanks, "rows with a null or blank key, never matching"),
            (invalid, "rows with an invalid key, never matching"),
            (changed, "rows whose key normalisation changes"),
        ] {
            writeln!(f, "{n:>12} {what}")?;
        }
        if !self.most_repeated.is_empty() {
            let each = self.most_repeated.iter();
            let each: Vec<_> = each
                .map(|r| format!("{} from row {}", r.rows, r.first_row))
                .collect();
            writeln!(f, "most repeated: {}", each.join("; "))?;
        }
        for column in &self.columns {
            let types: Vec<_> = column
                .types
                .iter()
                .map(|(t, n)| format!("{n} {t}"))
                .collect();
            write!(
                f,
                "column {:?} as {}: {}",
                column.name,
                column.profile,
                types.join(", ")
            )?;
            if column.changed.count > 0 {
                let rows: Vec<_> = column.changed.rows.iter().map(u64::to_string).collect();
                write!(
                    f,
                    "; {} changed (rows {}",
                    column.changed.count,
                    rows.join(", ")
                )?;
                let more = column.changed.count > column.changed.rows.len() as u64;
                f.write_str(if more { ", …)" } else { ")" })?;
            }
            writeln!(f)?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
