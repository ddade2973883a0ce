//! What to do about an error.

use std::io;

use vesica_files::Argument::{
    Align, Delimiter, Encoding, Input, Memory, NoHeader, Normalize, PayloadWidth, Rotate, Rows,
    RowsPerKey, SkipFooter, SkipRows, Value, ValueBound, ValueRepeated, ValueScale, Wait,
};
use vesica_files::{Advice, advice, is_exhausted, nearest};

use super::{Error, ErrorKind, Overlap, TextsOf};
use crate::format::Format;

impl Error {
    /// What to do about it, where that helps.
    pub fn remedy(&self) -> Option<Advice> {
        let column = self.0.place.column.as_deref();
        #[cfg(feature = "object-stores")]
        if let Some(problem) = self.of_a_store() {
            return problem.remedy();
        }
        Some(match &self.0.kind {
            ErrorKind::MissingColumn { available } => {
                match column.and_then(|c| nearest(c, available)) {
                    None if available.is_empty() => advice![
                        "look at its first line, which is not shown as it may be a row (",
                        NoHeader,
                        ")"
                    ],
                    Some(name) => format!("did you mean {name:?}?").into(),
                    None => format!("columns are: {}", list(available)).into(),
                }
            }
            ErrorKind::TextsTooLong { of, needed, .. } => match of {
                TextsOf::Run => advice![
                    format!("hand over {needed} bytes or more ("),
                    PayloadWidth,
                    "); the peer sees how many",
                ],
                TextsOf::Shares => advice![
                    format!("declare {needed} bytes or more ("),
                    PayloadWidth,
                    "), on this side alone; the peer sees how many",
                ],
                TextsOf::Publication => advice![
                    format!("declare {needed} bytes or more ("),
                    PayloadWidth,
                    "); everybody who has the set sees how many",
                ],
                TextsOf::Set => advice![
                    "shorten it, or publish the whole table anew, with ",
                    Rotate,
                    " and a larger ",
                    PayloadWidth,
                ],
                TextsOf::Groups => "give groups shorter names".into(),
            },
            ErrorKind::GroupsDiffer { .. } => {
                advice![
                    "give all rows of a key one group, or have numbers of up to eight groups by a column of ones and zeros for each (",
                    Value,
                    ")"
                ]
            }
            ErrorKind::LabelsDiffer { .. } => {
                advice![
                    "keep one row of each key, make a key of more columns, or hand over those of several rows with ",
                    RowsPerKey
                ]
            }
            ErrorKind::TooManyOfKey { .. } => advice![
                "raise ",
                RowsPerKey,
                ", which the peer sees, or leave rows out",
            ],
            ErrorKind::NameTaken => {
                advice![
                    "rename it, or what is to be added if you named that, or take other ",
                    Rows,
                    " than all, and no ",
                    Align
                ]
            }
            ErrorKind::AmbiguousColumn => "rename all but one of them".into(),
            ErrorKind::Database { .. } => {
                "a client of the database, such as psql or sqlite3, says more".into()
            }
            ErrorKind::NotKept { .. } => "make the column one of texts".into(),
            ErrorKind::MixedTypes { .. } => {
                "give the column one type in the query, as CAST(… AS TEXT) does, and no nulls if its first rows have \
                 nothing else, as COALESCE(…, '') does"
                    .into()
            }
            ErrorKind::NoRows { has_header: true } => {
                "the first line is read as column names; data follows it".into()
            }
            ErrorKind::AmbiguousDelimiter { .. } => advice!["say which with ", Delimiter],
            ErrorKind::Ragged { by_last: true, .. } => {
                "end the header and all rows with a delimiter, or none of them".into()
            }
            ErrorKind::Ragged { .. } => advice![
                "check the delimiter, and that fields holding it are in quotes; lines above or below the table are left out \
                 with ",
                SkipRows,
                " and ",
                SkipFooter,
            ],
            ErrorKind::NamesBelow { line } => {
                advice!["leave the lines above it out with ", (SkipRows, (line - 1).to_string())]
            }
            ErrorKind::NotUtf8 | ErrorKind::MixedEncodings { .. } | ErrorKind::OtherEncoding(_) => {
                advice![
                    "name the encoding with ",
                    Encoding,
                    ", as windows-1252 or utf-16, or save the file as UTF-8",
                ]
            }
            ErrorKind::NotInFormat { .. } => "name an output in the format of the input".into(),
            ErrorKind::NoFiles => {
                "in a directory, names that begin with . or _ are passed over".into()
            }
            ErrorKind::Subdirectory { .. } => {
                advice![
                    "name the directories that have files, as in ",
                    (Input, "DIR/*")
                ]
            }
            ErrorKind::OtherColumns { .. } => {
                "the files of a table have one format, and the same columns in the same order"
                    .into()
            }
            ErrorKind::RowTooLong { .. } => "look for a quote that is opened and not closed".into(),
            ErrorKind::TooLarge { what, bytes, .. } => {
                let needed = (2 * bytes).div_ceil(1 << 20);
                advice![
                    "raise ",
                    Memory,
                    format!(
                        " to {needed}M or more, as half of it is for {what}, or write the file in smaller ones"
                    ),
                ]
            }
            ErrorKind::KeyType { found } if found.to_lowercase().contains("float") => advice![
                "floats have no exact text: take ",
                (Normalize, "integer"),
                " if they are whole numbers, or write them as integers, decimals or text",
            ],
            ErrorKind::KeyType { .. } => {
                "keys, and columns to hand over, are strings, integers, decimals, booleans, dates, times, UUIDs or bytes"
                    .into()
            }
            ErrorKind::ValueType { .. } => {
                "cast it to an integer or to a decimal of a fixed scale".into()
            }
            ErrorKind::BadValue { .. } => advice![
                "values are numbers such as -12.50; see ",
                ValueScale,
                ", ",
                ValueBound,
                " and ",
                ValueRepeated,
            ],
            ErrorKind::NotATable { .. } => {
                format!("name a table: {}", Format::all_in_words()).into()
            }
            ErrorKind::UnsupportedInput { .. } => {
                format!("export it as {}", Format::all_in_words()).into()
            }
            ErrorKind::Changed => "leave the input alone while the command runs".into(),
            ErrorKind::TakesPlace {
                how: Overlap::Redirected,
                ..
            } => "redirect it to a file of its own; - is standard output itself".into(),
            ErrorKind::TakesPlace { .. } => "give what is written a place of its own".into(),
            ErrorKind::TableIsRead => "name another table for the result".into(),
            ErrorKind::Unwritable(e) if e.kind() == io::ErrorKind::StorageFull => {
                "free some space, or write the output to another disk".into()
            }
            ErrorKind::Unwritable(e) if e.kind() == io::ErrorKind::NotFound => {
                "make the directory first, or name another place for the output".into()
            }
            ErrorKind::Unwritable(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                "name a place for the output where this user may write".into()
            }
            ErrorKind::NoRoom { cause, .. } if cause.kind() == io::ErrorKind::StorageFull => {
                advice![
                    "free as much, or raise ",
                    Memory,
                    ": a quarter of it or more is for keys that need no disk",
                ]
            }
            ErrorKind::Unwritable(e) | ErrorKind::NoRoom { cause: e, .. }
                if e.kind() == io::ErrorKind::FileTooLarge =>
            {
                "raise the limit on file sizes (ulimit -f), or use another file system".into()
            }
            ErrorKind::Unreadable(e)
            | ErrorKind::Unwritable(e)
            | ErrorKind::NoRoom { cause: e, .. }
                if is_exhausted(e) =>
            {
                "raise the limit that this process has met (ulimit -a)".into()
            }
            ErrorKind::Unreadable(e) if e.kind() == io::ErrorKind::TimedOut => {
                advice![
                    "start what writes to it first, or give ",
                    Wait,
                    " more seconds"
                ]
            }
            ErrorKind::Usage { remedy, .. } => return remedy.clone(),
            _ => return None,
        })
    }
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
