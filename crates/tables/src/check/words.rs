//! What a dry run says to people.

use std::fmt;

use vesica_files::many;

use super::{Check, ColumnCheck, Finding, ShownValue};
use crate::formats::sink::Facts;
use crate::profile::Profile;
use crate::profile::key::KeySpec;
use crate::scan::counts::{Counts, NUMBER_FORMS, SOME_NULL_WORDS};

pub(super) fn warnings(check: &Check, key: &KeySpec, facts: &Facts) -> Vec<String> {
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
    if counts.not_utf8 > 0 {
        lines.push(format!(
            "{} with bytes that are not UTF-8, whose encoding has to be named where the result is to be UTF-8",
            many(counts.not_utf8, "row"),
        ));
    }
    lines.extend(counts.frequent.words(counts.rows));
    if let Some(labels) = &check.labels {
        let (too_wide, refused) = (&labels.too_wide, &labels.refused);
        if too_wide.count > 0 {
            lines.push(format!(
                "{} to hand over with more than {} bytes (first at row {}); a width of {} does",
                many(too_wide.count, "row"),
                labels.width,
                too_wide.rows[0],
                labels.needed,
            ));
        }
        if refused.count > 0 {
            lines.push(format!(
                "{} to hand over with control characters or bytes that are not UTF-8, which a run refuses (first at row {})",
                many(refused.count, "row"),
                refused.rows[0],
            ));
        }
    }
    for (column, spec) in check.columns.iter().zip(key.columns()) {
        let exact = spec.profile.is_exact();
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
        warn(&column.number_forms, NUMBER_FORMS);
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
        warn(
            &column.null_words,
            &format!(
                "that stand for no value, {SOME_NULL_WORDS}, and match others like them unless they are declared null"
            ),
        );
        if exact {
            warn(
                &column.whole_floats,
                "such as 7.0, as integers become in columns with nulls; integer and decimal compare them by value",
            );
            warn(
                &column.typed_elsewhere,
                "that columns of a type elsewhere have as 12.5, true or 2023-11-14T22:13:20Z, with other digits or letters here; decimal and timestamp compare them by value",
            );
            warn(
                &column.raw_bytes,
                "of bytes that are no text, which CSV and JSON Lines cannot have",
            );
        }
        lines.extend(spelled(column, &spec.profile));
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

/// What the other side has to write where it has text instead of this column's types.
fn spelled(column: &ColumnCheck, profile: &Profile) -> Vec<String> {
    if !profile.is_exact() {
        return Vec::new();
    }
    let decimal = match profile {
        Profile::ExactByScale => "12.50 at scale 2, with all digits of the scale",
        _ => "12.5, without zeros at the end",
    };
    let spelled = [
        (
            "decimal",
            decimal,
            "; decimal on both sides compares by value",
        ),
        ("boolean", "true and false", ""),
        ("time", "08:30:00.250", ""),
        (
            "timestamp",
            "2023-11-14T22:13:20Z, in UTC",
            "; timestamp on both sides compares instants",
        ),
    ];
    let found = spelled.iter().filter_map(|(name, text, profile)| {
        let count = column.types.get(name)?;
        let values = many(*count, &format!("{name} value"));
        Some(format!(
            "column {:?}: {values}, which match only text that is written as {text}{profile}",
            column.name
        ))
    });
    found.collect()
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
            ..
        } = &self.counts;
        write!(f, "{}: {}", self.input, self.format)?;
        if self.files > 1 {
            write!(f, ", {}", many(self.files as u64, "file"))?;
        }
        match self.delimiter {
            Some('\t') => f.write_str(", delimited by tabs")?,
            Some(delimiter) => write!(f, ", delimited by {delimiter:?}")?,
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
        for (n, what, more) in [
            (rows, ["row", "rows"], ""),
            (items, ["distinct key", "distinct keys"], ""),
            (
                duplicates,
                ["row that repeats", "rows that repeat"],
                " an earlier key",
            ),
            (
                blanks,
                ["row", "rows"],
                " with a null or blank key, never matching",
            ),
            (
                invalid,
                ["row", "rows"],
                " with an invalid key, never matching",
            ),
            (changed, ["row", "rows"], " whose key normalisation changes"),
        ] {
            writeln!(f, "{n:>12} {}{more}", what[usize::from(*n != 1)])?;
        }
        if !self.most_repeated.is_empty() {
            let each = self.most_repeated.iter();
            let each: Vec<_> = each
                .map(|r| format!("{} from row {}", r.rows, r.first_row))
                .collect();
            writeln!(f, "most repeated: {}", each.join("; "))?;
        }
        for key in &self.shown {
            let of = |value: &ShownValue| match (&value.before, &value.after) {
                (Some(before), Some(after)) => format!("{before:?} is compared as {after:?}"),
                (Some(before), None) if value.is_invalid => format!("{before:?} is invalid"),
                (Some(before), None) => format!("{before:?} is blank"),
                (None, _) => "null".to_owned(),
            };
            let values: Vec<String> = key.values.iter().map(of).collect();
            writeln!(f, "key of row {}: {}", key.row, values.join(", "))?;
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
        if let Some(labels) = &self.labels {
            let columns = labels.columns.iter();
            let columns: Vec<_> = columns
                .map(|(name, kind)| format!("{name:?} as {kind}"))
                .collect();
            let (columns, needed) = (columns.join(", "), labels.needed);
            writeln!(f, "to hand over: {columns}; at most {needed} bytes")?;
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
