//! What to do about an error.

use std::io;

use vesica_files::is_exhausted;

use super::{Error, ErrorKind};

impl Error {
    /// One line of what to do about it, where that helps.
    pub fn hint(&self) -> Option<String> {
        let column = self.0.place.column.as_deref();
        match &self.0.kind {
            ErrorKind::MissingColumn { available } => {
                Some(match column.and_then(|c| nearest(c, available)) {
                    Some(name) => format!("did you mean {name:?}?"),
                    None => format!("columns are: {}", list(available)),
                })
            }
            ErrorKind::LabelTooLong { needed, .. } => Some(format!(
                "hand over {needed} bytes or more (--value-width); the peer sees how many"
            )),
            ErrorKind::LabelsDiffer => {
                Some("keep one row of each key, or make a key of more columns".into())
            }
            ErrorKind::NameTaken => Some("rename it, or take other --rows than all, and no --align".into()),
            ErrorKind::AmbiguousColumn => Some("rename all but one of them".into()),
            ErrorKind::Database { .. } => {
                Some("a client of the database, such as psql or sqlite3, says more".into())
            }
            ErrorKind::NoRows => {
                Some("the first line is read as column names; data follows it".into())
            }
            ErrorKind::Ragged { .. } => {
                Some("check the delimiter, and that fields holding it are in quotes".into())
            }
            ErrorKind::NotUtf8 | ErrorKind::OtherEncoding(_) => {
                Some("name the encoding with --encoding, as windows-1252 or utf-16, or save the file as UTF-8".into())
            }
            ErrorKind::NoFiles => {
                Some("in a directory, names that begin with . or _ are passed over".into())
            }
            ErrorKind::Subdirectory { .. } => {
                Some("name the directories that have files, as in --input 'DIR/*'".into())
            }
            ErrorKind::OtherColumns { .. } => {
                Some("the files of a table have one format, and the same columns in the same order".into())
            }
            ErrorKind::RowTooLong { .. } => {
                Some("look for a quote that is opened and not closed".into())
            }
            ErrorKind::TooLarge { what, bytes, .. } => Some(format!(
                "raise --memory to {}M or more, as half of it is for {what}, or write the file in smaller ones",
                (2 * bytes).div_ceil(1 << 20)
            )),
            ErrorKind::KeyType { found } if found.to_lowercase().contains("float") => Some(
                "floats have no exact text: take --normalize COL=integer if they are whole numbers, or write them as integers, decimals or text".into(),
            ),
            ErrorKind::KeyType { .. } => Some(
                "keys are strings, integers, decimals, booleans, dates, times, UUIDs or bytes"
                    .into(),
            ),
            ErrorKind::ValueType { .. } => {
                Some("cast it to an integer or to a decimal of a fixed scale".into())
            }
            ErrorKind::BadValue { .. } => Some(
                "values are numbers such as -12.50; see --value-scale, --value-bound and --value-repeated".into(),
            ),
            ErrorKind::ValuesTooLarge => Some("raise --memory: a quarter of it is for keys and values, 82 bytes per distinct key and 4 per row".into()),
            ErrorKind::UnsupportedInput { .. } => {
                Some("export it as CSV, Parquet, JSON Lines or Arrow IPC".into())
            }
            ErrorKind::Changed => Some("leave the input alone while the command runs".into()),
            ErrorKind::OutputIsInput => Some("name another output".into()),
            ErrorKind::Unwritable(e) if e.kind() == io::ErrorKind::StorageFull => {
                Some("free some space, or write the output to another disk".into())
            }
            ErrorKind::Unwritable(e) if e.kind() == io::ErrorKind::FileTooLarge => {
                Some("raise the limit on file sizes (ulimit -f), or use another file system".into())
            }
            ErrorKind::Unreadable(e) | ErrorKind::Unwritable(e) if is_exhausted(e) => {
                Some("raise the limit that this process has met (ulimit -a)".into())
            }
            ErrorKind::Unreadable(e) if e.kind() == io::ErrorKind::TimedOut => {
                Some("start what writes to it first, or give --wait more seconds".into())
            }
            ErrorKind::Usage { hint, .. } if !hint.is_empty() => Some(hint.clone()),
            _ => None,
        }
    }
}

/// The column name that a person most likely meant: equal but for case and white space, or
/// with at most two letters wrong.
fn nearest<'a>(wanted: &str, available: &'a [String]) -> Option<&'a str> {
    let plain = |s: &str| s.trim().trim_start_matches('\u{feff}').to_lowercase();
    let wanted = plain(wanted);
    let mut best: Option<(usize, &str)> = None;
    for name in available.iter().filter(|n| n.len() <= 256) {
        let distance = edits(&wanted, &plain(name));
        if distance <= 2
            && distance < wanted.chars().count()
            && best.is_none_or(|(d, _)| distance < d)
        {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Levenshtein distance in characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

/// Names as one line of bounded length.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut text = names
        .iter()
        .take(SHOWN)
        .map(|n| format!("{n:?}"))
        .collect::<Vec<_>>()
        .join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(", and {} more", names.len() - SHOWN));
    }
    text
}
