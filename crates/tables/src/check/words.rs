//! What a dry run says to people.

use std::fmt;

use vesica_files::{Advice, Argument, advice, many};

use super::{Check, ColumnCheck, Finding, ShownValue};
use crate::format::Format;
use crate::formats::sink::Facts;
use crate::profile::key::KeySpec;
use crate::profile::rules::Rules;
use crate::scan::counts::{Counts, NUMBER_FORMS, SOME_NULL_WORDS};

pub(super) fn warnings(check: &Check, key: &KeySpec, facts: &Facts) -> Vec<Advice> {
    let mut lines: Vec<Advice> = Vec::new();
    let counts = &check.counts;
    let matchable = counts.items + counts.duplicates;
    if counts.items == 0 {
        lines.push("no row has a usable key: nothing can match".into());
    }
    if facts.crlf_rows > 0 && facts.crlf_rows + 1 < counts.rows {
        let line = format!(
            "{} of {} rows end in CR LF, the others in LF",
            facts.crlf_rows, counts.rows
        );
        lines.push(line.into());
    }
    if counts.not_utf8 > 0 {
        let rows = many(counts.not_utf8, "row");
        lines.push(advice![
            rows,
            " with bytes that are not UTF-8, whose encoding has to be named where the result is to be UTF-8",
        ]);
    }
    lines.extend(counts.frequent.words(counts.rows).map(Advice::from));
    if check.footer.count > 0 {
        let line = format!(
            "{} among the last of the table {} like a footer, with totals or remarks (first at row {}); ",
            many(check.footer.count, "row"),
            if check.footer.count == 1 {
                "looks"
            } else {
                "look"
            },
            check.footer.rows[0],
        );
        lines.push(advice![
            line,
            Argument::SkipFooter,
            " leaves out what stands below a table"
        ]);
    }
    if let Some(labels) = &check.labels {
        let (too_wide, refused) = (&labels.too_wide, &labels.refused);
        if too_wide.count > 0 {
            let line = format!(
                "{} to hand over with more than {} bytes (first at row {}); a width of {} does",
                many(too_wide.count, "row"),
                labels.width,
                too_wide.rows[0],
                labels.needed,
            );
            lines.push(line.into());
        }
        if labels.rows > 1 && labels.most_rows > labels.rows as u64 {
            let line = format!(
                "a key has {}, and at most {} are handed over, so that a run refuses the table; ",
                many(labels.most_rows, "row"),
                labels.rows
            );
            lines.push(advice![line, "raise ", Argument::RowsPerKey]);
        }
        if refused.count > 0 {
            let line = format!(
                "{} to hand over with control characters or bytes that are not UTF-8, which a run refuses (first at row {})",
                many(refused.count, "row"),
                refused.rows[0],
            );
            lines.push(line.into());
        }
    }
    for (column, spec) in check.columns.iter().zip(key.columns()) {
        let rules = spec.profile.rules();
        let exact = rules.is_exact();
        let mut advise = |finding: &Finding, what: &str, remedy: Advice| {
            if finding.count > 0 {
                let line = format!(
                    "column {:?}: {} {what} (first at row {})",
                    column.name,
                    many(finding.count, "value"),
                    finding.rows[0],
                );
                lines.push(remedy.behind(line));
            }
        };
        let mut warn = |finding: &Finding, what: &str| advise(finding, what, "".into());
        warn(
            &column.invalid,
            &format!("invalid under {}, never matching", column.profile),
        );
        warn(&column.number_forms, NUMBER_FORMS);
        warn(
            &column.replacement_characters,
            "with U+FFFD, damaged before this table was written",
        );
        let dropped = match rules.drops_invisible() {
            true => format!(", which {} leaves out", column.profile),
            false => format!(
                ", which count under {}; text, email and phone leave them out",
                column.profile
            ),
        };
        warn(
            &column.control_characters,
            &format!("with control or invisible characters{dropped}"),
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
                &column.unusual_uuids,
                "written as UUIDs in upper case or braces, differing from UUID columns; text folds case",
            );
        }
        warn(
            &column.mail_schemes,
            match rules.drops_mail_scheme() {
                true => "with mailto: in front, which is left out",
                false => "with mailto: in front; the profile email leaves it out",
            },
        );
        if rules.is_text() {
            warn(
                &column.formatted_numbers,
                "of numbers as spreadsheets show them, such as 1.23E+12 and 1,234, which match only text that is written in the same way",
            );
        }
        if matches!(
            rules,
            Rules::Decimal | Rules::AnyInteger | Rules::Integer(_)
        ) {
            warn(
                &column.formatted_numbers,
                "of numbers with separators or an exponent, such as 1.234,50, which are invalid here; decimal:comma reads 1.234,50 and 12,5",
            );
        }
        if rules.is_text() || matches!(rules, Rules::Date(None)) {
            warn(
                &column.local_dates,
                "of days in an order that differs by country, or without zeros in front; date:DMY, date:MDY and date:YMD read them",
            );
        }
        warn(
            &column.null_words,
            &format!(
                "that stand for no value, {SOME_NULL_WORDS}, and match others like them unless they are declared null"
            ),
        );
        if rules.is_text() {
            warn(
                &column.whole_floats,
                "such as 7.0, as integers become in columns with nulls; integer and decimal compare them by value",
            );
            warn(
                &column.typed_elsewhere,
                "that columns of a type elsewhere have as 12.5, true or 2023-11-14T22:13:20Z, with other digits or letters here; decimal and timestamp compare them by value",
            );
        }
        if exact {
            warn(
                &column.raw_bytes,
                "of bytes that are no text, which CSV and JSON Lines cannot have",
            );
        }
        let values: u64 = column.types.values().sum();
        let are_most = |digests: &Finding| 2 * digests.count > values - column.blank.count;
        if !rules.is_digest() && are_most(&column.hex_digests) {
            warn(
                &column.hex_digests,
                "that are SHA-256 digests in hexadecimal; sha256-hex compares them in either case, and pair-email, uid2-email, google-email, pair-phone and meta-phone with addresses and numbers, too",
            );
        }
        if !rules.takes_base64() && are_most(&column.base64_digests) {
            warn(
                &column.base64_digests,
                "that are SHA-256 digests in Base64; uid2-email, google-email and meta-phone compare them with digests in hexadecimal, and with addresses and numbers",
            );
        }
        const MARKS: &str =
            "with quotation marks, or with the marks '… and =\"…\" of a spreadsheet";
        match check.format {
            Format::Csv if !check.is_spreadsheet => advise(
                &column.marks,
                MARKS,
                advice![
                    "; ",
                    Argument::SkipInitialSpace,
                    " reads CSV with blanks before quotes"
                ],
            ),
            _ => advise(&column.marks, MARKS, "".into()),
        }
        advise(
            &column.lists,
            "that are several, each valid by itself",
            advice![
                "; an identifier with a name (",
                Argument::Match,
                ") takes each, and ",
                Argument::Split,
                " names what is between them"
            ],
        );
        advise(
            &column.placeholders,
            "that many people give who have none to give, such as test@test.com, 0000000000 or 1900-01-01",
            advice!["; ", Argument::Deny, " keeps them from matching"],
        );
        let spelled = spelled(column, rules).into_iter();
        lines.extend(spelled.map(Advice::from));
        let types = column.types.keys().filter(|t| **t != "null").count();
        if types > 1 {
            let all: Vec<_> = column
                .types
                .iter()
                .map(|(t, n)| format!("{n} {t}"))
                .collect();
            let line = format!("column {:?} mixes types: {}", column.name, all.join(", "));
            lines.push(line.into());
        }
        let zeros = &column.leading_zeros;
        if rules.is_text() && zeros.count > 0 && zeros.count < matchable {
            let line = format!(
                "column {:?}: {} with leading zeros, which an integer column elsewhere would not have (first at row {})",
                column.name,
                many(zeros.count, "number"),
                zeros.rows[0],
            );
            lines.push(line.into());
        }
    }
    lines
}

/// What the other side has to write where it has text instead of this column's types.
fn spelled(column: &ColumnCheck, rules: Rules) -> Vec<String> {
    if !rules.is_exact() {
        return Vec::new();
    }
    let decimal = match rules {
        Rules::ExactByScale => "12.50 at scale 2, with all digits of the scale",
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
            denied,
            invalid,
            changed,
            ..
        } = &self.counts;
        match self.is_spreadsheet {
            true => write!(f, "{}: a spreadsheet", self.input)?,
            false => write!(f, "{}: {}", self.input, self.format)?,
        }
        if self.files > 1 {
            write!(f, ", {}", many(self.files as u64, "file"))?;
        }
        match self.delimiter {
            _ if self.is_spreadsheet => {}
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
        let (distinct, repeating) = match self.has_identifiers {
            true => (
                ["distinct identifier", "distinct identifiers"],
                [
                    "identifier that repeats an earlier one",
                    "identifiers that repeat earlier ones",
                ],
            ),
            false => (
                ["distinct key", "distinct keys"],
                [
                    "row that repeats an earlier key",
                    "rows that repeat an earlier key",
                ],
            ),
        };
        let of_rows = |n, more| (n, ["row", "rows"], more);
        // Few tables have any, and other counts are told if they are 0 too.
        let denied =
            (*denied > 0).then(|| of_rows(denied, " with a key that is denied, never matching"));
        let lines = [
            of_rows(rows, ""),
            (items, distinct, ""),
            (duplicates, repeating, ""),
            of_rows(blanks, " with a null or blank key, never matching"),
        ];
        let lines = lines.into_iter().chain(denied).chain([
            of_rows(invalid, " with an invalid key, never matching"),
            of_rows(changed, " whose key normalisation changes"),
        ]);
        for (n, what, more) in lines {
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
                (Some(before), None) if value.is_denied => format!("{before:?} is denied"),
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
            write!(f, "to hand over: {columns}; at most {needed} bytes")?;
            match labels.rows {
                1 => writeln!(f)?,
                _ => writeln!(f, ", and {} of a key", many(labels.most_rows, "row"))?,
            }
        }
        for warning in &self.warnings {
            writeln!(f, "warning: {warning}")?;
        }
        Ok(())
    }
}
