//! A dry run: what a run would see of a table, and surprises in its keys.

mod forms;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use serde::Serialize;
use vesica_files::{Advice, Face};
use vesica_keys::{Layout, Repeated};
use zeroize::Zeroizing;

use crate::error::Result;
use crate::format::Format;
use crate::formats::items::TakeItems;
use crate::formats::sink::{At, Sink};
use crate::profile::canonical::{Added, Canonical, Row, RowValues, Seen, Value, Verdict};
use crate::profile::invisible::{has_invisible, is_quotation_mark};
use crate::profile::key::KeySpec;
use crate::profile::{Normalized, Profile, is_nfc, render};
use crate::scan::counts::Counts;
use crate::scan::keys::{KeyGather, layout};
use crate::scan::scan;
use crate::source::Source;
use crate::source::compression::Compression;
use crate::types::column_type::ColumnType;
use crate::types::columns_read::ColumnsRead;
use crate::types::labels::TextColumns;

/// How many rows are named as examples of each finding, and how many repeated keys.
const EXAMPLES: usize = 5;

/// What a run would see of a table. It contains no value of the table, only counts and row numbers, but for the keys that
/// are to be shown.
/// Serialises to JSON; `Display` is for people and takes several lines.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// What the table is called.
    pub input: String,
    /// How many files it is in. Rows are counted over all of them.
    pub files: usize,
    /// Its format; that of a spreadsheet is CSV, which it is read as.
    pub format: Format,
    /// Whether it is a spreadsheet.
    pub is_spreadsheet: bool,
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
    /// The columns to hand over, if there are some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelCheck>,
    /// The keys of the first rows, if they are to be shown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shown: Vec<ShownKey>,
    /// The last rows, if they are like those that stand below a table, such as totals.
    pub footer: Finding,
    /// What may surprise, one line each.
    pub warnings: Vec<String>,
    /// The same, before anybody spells it.
    #[serde(skip)]
    advice: Vec<Advice>,
    /// Whether rows have several identifiers.
    #[serde(skip)]
    has_identifiers: bool,
}

impl Check {
    /// The same, with the names that `face` has for arguments in its warnings.
    pub fn spelled(mut self, face: &dyn Face) -> Check {
        let advice = self.advice.iter();
        self.warnings = advice.map(|advice| advice.spelled(face)).collect();
        self
    }
}

/// The key of a row, for whoever asks to see it.
#[derive(Clone, Debug, Serialize)]
pub struct ShownKey {
    /// Counted from 1, over all files.
    pub row: u64,
    /// Of each of the key's columns.
    pub values: Vec<ShownValue>,
}

/// A value of a key.
#[derive(Clone, Debug, Serialize)]
pub struct ShownValue {
    /// Its text, or the hexadecimal digits of bytes that are none; nothing if it is null.
    pub before: Option<String>,
    /// The same under the profile, as it is compared; nothing if it is blank, invalid or denied.
    pub after: Option<String>,
    /// Whether it is invalid under the profile.
    pub is_invalid: bool,
    /// Whether it is denied.
    pub is_denied: bool,
}

/// A text, or the hexadecimal digits of bytes that are none.
fn legible(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => render::hex(bytes),
    }
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
    /// Values that are denied.
    pub denied: Finding,
    /// Texts with quotation marks, or in the form in which spreadsheets mark texts: `'007` and `="007"`.
    pub marks: Finding,
    /// Texts of several values with a separator between them, each valid by itself, as in `ann@x.org; bob@x.org`.
    pub lists: Finding,
    /// Texts that begin with `mailto:`.
    pub mail_schemes: Finding,
    /// Texts of numbers with an exponent or with groups of digits: `1.23E+12`, `1,234`.
    pub formatted_numbers: Finding,
    /// Texts of days in an order that differs by country, or without zeros in front: `31.12.1984`, `1984-1-2`.
    pub local_dates: Finding,
    /// Texts of 64 hexadecimal digits.
    pub hex_digests: Finding,
    /// Texts of 44 characters that are Base64 of 32 bytes.
    pub base64_digests: Finding,
    /// Addresses, phone numbers and days that stand for none, such as `test@test.com` and `1900-01-01`, and are keys all the
    /// same.
    pub placeholders: Finding,
    /// Texts with U+FFFD, which stands where another program met bytes that it could not read.
    pub replacement_characters: Finding,
    /// Texts that are UUIDs in another form than lower case with hyphens.
    pub unusual_uuids: Finding,
    /// Texts that stand for no value, such as `NULL`, `\N` and `-`, and that are keys all the same.
    pub null_words: Finding,
    /// Phone numbers in the form of numbers, such as `4930123456.0`, which are invalid.
    pub number_forms: Finding,
    /// Texts of whole numbers with zeros behind a point.
    pub whole_floats: Finding,
    /// Texts of decimals, truth values and instants that columns of such types have in another form: `12.50`, `True`,
    /// `2024-02-29 08:30:00`.
    pub typed_elsewhere: Finding,
    /// Bytes that are not UTF-8.
    pub raw_bytes: Finding,
}

/// What the columns hold that a sender hands over with the rows that match. Rows without a key count for nothing.
#[derive(Clone, Debug, Serialize)]
pub struct LabelCheck {
    /// Each with its type, which that of the receiver has too.
    pub columns: Vec<(String, String)>,
    /// Bytes for each row.
    pub width: usize,
    /// Rows of a key that are handed over at most; of one, all rows of a key have the same columns.
    pub rows: usize,
    /// The most rows that a key has.
    pub most_rows: u64,
    /// Bytes that the largest row takes of these.
    pub needed: usize,
    /// Rows that take more than the width.
    pub too_wide: Finding,
    /// Rows with a text that is not UTF-8, or has control characters.
    pub refused: Finding,
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
    check_within(source, key, None, 0, u64::MAX, &std::env::temp_dir())
}

/// Reads a table as [`read_keys_within`](crate::read_keys_within) does, and reports on its keys, and on the texts to hand
/// over with them. Shows the keys of the first `show` rows.
///
/// # Errors
/// The same as those of `read_keys_within`, but that texts need not fit.
pub fn check_within(
    source: &Source,
    key: &KeySpec,
    texts: Option<&TextColumns>,
    show: usize,
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
        denied: Finding::default(),
        marks: Finding::default(),
        lists: Finding::default(),
        mail_schemes: Finding::default(),
        formatted_numbers: Finding::default(),
        local_dates: Finding::default(),
        hex_digests: Finding::default(),
        base64_digests: Finding::default(),
        placeholders: Finding::default(),
        replacement_characters: Finding::default(),
        unusual_uuids: Finding::default(),
        null_words: Finding::default(),
        number_forms: Finding::default(),
        whole_floats: Finding::default(),
        typed_elsewhere: Finding::default(),
        raw_bytes: Finding::default(),
    });
    let layout = Layout {
        label: texts
            .filter(|texts| texts.rows() == 1)
            .map_or(0, |_| blake3::OUT_LEN),
        ..layout(key, &[], None)
    };
    let mut sink = CheckSink {
        canonical: Canonical::new(key),
        keys: KeyGather::new(key, layout, &[], memory, directory)?,
        columns: columns.collect(),
        labels: match texts {
            Some(texts) => Some((texts, LabelCheck::new(source, texts)?)),
            None => None,
        },
        pending: VecDeque::new(),
        key,
        show,
        shown: Vec::new(),
        last: VecDeque::with_capacity(LAST_ROWS),
    };
    let wanted = ColumnsRead::key(key).with_texts(texts);
    let facts = scan(source, wanted, &mut sink)?;
    let rest = sink.drain();
    let footer = sink.footer();
    let (mut labels, shown) = (sink.labels.map(|(_, labels)| labels), sink.shown);
    let rest = rest.and_then(|()| Ok((sink.keys.finish()?, sink.columns)));
    let (keys, columns) = rest.map_err(|e| source.locate(e, &facts.ends))?;
    let most_repeated = keys.most_repeated(EXAMPLES)?;
    if let Some(labels) = &mut labels {
        labels.most_rows = most_repeated.first().map_or(1, |key| key.rows);
    }
    let mut check = Check {
        input: source.name().to_owned(),
        files: source.files(),
        format: source.format(),
        is_spreadsheet: source.is_spreadsheet(),
        compression: source.compression(),
        delimiter: source.csv_delimiter().map(char::from),
        byte_order_mark: facts.byte_order_mark,
        crlf_rows: facts.crlf_rows,
        counts: *keys.counts(),
        most_repeated,
        columns,
        labels,
        shown,
        footer,
        warnings: Vec::new(),
        advice: Vec::new(),
        has_identifiers: !key.identifiers().is_empty(),
    };
    check.counts.not_utf8 = facts.not_utf8;
    check.advice = words::warnings(&check, key, &facts);
    check.warnings = check.advice.iter().map(Advice::to_string).collect();
    Ok(check)
}

/// The values of a row that are compared: of a list, each of its elements.
fn shown<R: Row>(key: &KeySpec, number: u64, row: &R) -> ShownKey {
    let mut values = Vec::new();
    let mut show = |seen: Seen<'_>| {
        values.push(ShownValue {
            // Texts that stand for null are shown, too.
            before: (seen.value.text())
                .or(row.value(seen.column).text())
                .map(legible),
            after: seen.verdict.is_valid().then(|| legible(seen.canonical)),
            is_invalid: matches!(seen.verdict, Verdict::Invalid { .. }),
            is_denied: seen.verdict == Verdict::Denied,
        });
    };
    // What cannot be read is complained of when the row is.
    let _ = Canonical::new(key).add(row, &mut show);
    ShownKey {
        row: number,
        values,
    }
}

struct CheckSink<'k> {
    canonical: Canonical<'k>,
    keys: KeyGather<'k>,
    columns: Vec<ColumnCheck>,
    labels: Option<(&'k TextColumns, LabelCheck)>,
    /// Hashes of the labels of the rows that are pending in `canonical`.
    pending: VecDeque<RowValues>,
    key: &'k KeySpec,
    /// How many rows are shown.
    show: usize,
    shown: Vec<ShownKey>,
    /// The last rows, and whether each is like one below a table.
    last: VecDeque<(u64, bool)>,
}

/// How many of the last rows may be a footer.
const LAST_ROWS: usize = 10;

impl CheckSink<'_> {
    fn footer(&self) -> Finding {
        let mut footer = Finding::default();
        for (row, is_footer) in &self.last {
            footer.note(*is_footer, *row);
        }
        footer
    }

    fn drain(&mut self) -> Result<()> {
        let CheckSink {
            canonical,
            keys,
            pending,
            ..
        } = self;
        canonical.drain(|item| {
            let of_row = match item.of().is_last {
                true => pending.pop_front(),
                false => pending.front().cloned(),
            };
            keys.add(item, of_row.unwrap_or_default())
        })
    }
}

impl Sink for CheckSink<'_> {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        if self.shown.len() < self.show {
            self.shown.push(shown(self.key, at.row, row));
        }
        if self.last.len() == LAST_ROWS {
            self.last.pop_front();
        }
        let mut texts = (0..self.columns.len()).filter_map(|column| row.value(column).text());
        let is_footer = texts.any(|text| str::from_utf8(text).is_ok_and(forms::is_footer));
        self.last.push_back((at.row, is_footer));
        let columns = &mut self.columns;
        let first_text = columns.len();
        let key = self.key;
        let note = |seen: Seen<'_>| {
            let profile = &key.columns()[seen.column].profile;
            columns[seen.column].note(seen, profile, at.row);
        };
        let added = self.canonical.add(row, note);
        let Added { has_key, is_full } = added.map_err(|e| e.at_row(at.row, at.line))?;
        if let Some((texts, labels)) = &mut self.labels {
            let mut of_row = RowValues {
                line: at.line,
                ..RowValues::default()
            };
            if has_key {
                let (needed, hash) = texts.measure(row, first_text);
                labels.note(needed, at.row);
                if texts.rows() == 1 {
                    of_row.label = Zeroizing::new(hash.to_vec());
                }
            }
            self.pending.push_back(of_row);
        }
        if is_full { self.drain() } else { Ok(()) }
    }
}

impl LabelCheck {
    fn new(source: &Source, texts: &TextColumns) -> Result<LabelCheck> {
        let names = texts.columns().names();
        let types = source.column_types(&names)?;
        let types = types.iter().map(ColumnType::to_string);
        Ok(LabelCheck {
            columns: names.into_iter().zip(types).collect(),
            width: texts.bytes_of_row(),
            rows: texts.rows(),
            most_rows: 0,
            needed: 0,
            too_wide: Finding::default(),
            refused: Finding::default(),
        })
    }

    fn note(&mut self, needed: Result<usize>, row: u64) {
        self.refused.note(needed.is_err(), row);
        let needed = needed.unwrap_or(0);
        self.too_wide.note(needed > self.width, row);
        self.needed = self.needed.max(needed);
    }
}

impl ColumnCheck {
    fn note(&mut self, seen: Seen<'_>, profile: &Profile, row: u64) {
        let Seen { value, verdict, .. } = seen;
        let rules = profile.rules();
        let type_name = match value {
            Value::Null => "null",
            Value::Text(_) => "text",
            Value::Bytes(_) => "bytes",
            Value::Typed(kind, _) => kind.name(),
            Value::List(_) => "list",
        };
        *self.types.entry(type_name).or_default() += 1;
        self.blank.note(verdict == Verdict::Blank, row);
        self.denied.note(verdict == Verdict::Denied, row);
        self.invalid
            .note(matches!(verdict, Verdict::Invalid { .. }), row);
        let is_number_form = matches!(verdict, Verdict::Invalid { number_form: true });
        self.number_forms.note(is_number_form, row);
        let is_changed = matches!(verdict, Verdict::Valid { changed: true, .. });
        self.changed.note(is_changed, row);
        let is_null_word = matches!(
            verdict,
            Verdict::Valid {
                null_word: true,
                ..
            }
        );
        self.null_words.note(is_null_word, row);
        let compared = match rules.is_digest() {
            true => value.text().unwrap_or_default(),
            false => seen.canonical,
        };
        let is_placeholder = str::from_utf8(compared).is_ok_and(forms::is_placeholder);
        self.placeholders
            .note(verdict.is_valid() && is_placeholder, row);
        if let Value::Bytes(bytes) = value {
            self.raw_bytes.note(str::from_utf8(bytes).is_err(), row);
        }
        let Value::Text(bytes) = value else { return };
        let Ok(text) = std::str::from_utf8(bytes) else {
            return;
        };
        let zeros = bytes.len() > 1 && bytes[0] == b'0' && bytes.iter().all(u8::is_ascii_digit);
        self.surrounding_space
            .note(text.trim().len() != text.len(), row);
        self.leading_zeros.note(zeros, row);
        self.not_nfc.note(!is_nfc(text), row);
        self.control_characters.note(has_invisible(text), row);
        let has_marks = match rules.drops_invisible() {
            // These leave an apostrophe in front out.
            true => text.contains(is_quotation_mark),
            false => forms::has_marks(text),
        };
        self.marks.note(has_marks, row);
        let is_usable = |part: &str| matches!(profile.normalize(part), Normalized::Valid(_));
        let is_list = matches!(verdict, Verdict::Invalid { .. }) && forms::is_list(text, is_usable);
        self.lists.note(is_list, row);
        self.mail_schemes.note(forms::has_scheme(text), row);
        self.formatted_numbers
            .note(forms::is_formatted_number(text), row);
        self.local_dates.note(forms::is_local_date(text), row);
        self.hex_digests.note(forms::is_hex_digest(text), row);
        self.base64_digests.note(forms::is_base64_digest(text), row);
        self.replacement_characters
            .note(!text.is_ascii() && text.contains('\u{fffd}'), row);
        self.unusual_uuids.note(is_unusual_uuid(bytes), row);
        self.whole_floats.note(is_whole_float(text), row);
        self.typed_elsewhere.note(is_typed_elsewhere(text), row);
    }
}

/// Digits, a point and zeros.
fn is_whole_float(text: &str) -> bool {
    let text = text.trim().trim_start_matches('-');
    let of =
        |text: &str, digit: fn(&u8) -> bool| !text.is_empty() && text.as_bytes().iter().all(digit);
    let parts = text.split_once('.');
    parts.is_some_and(|(whole, zeros)| of(whole, u8::is_ascii_digit) && of(zeros, |b| *b == b'0'))
}

/// A decimal with zeros at its end, a truth value with capitals, or a date and a time of day that are not written as
/// timestamps are.
fn is_typed_elsewhere(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.strip_prefix('-').unwrap_or(text);
    if let Some((whole, fraction)) = number.split_once('.')
        && digits(whole)
        && digits(fraction)
    {
        return fraction.ends_with('0') && !is_whole_float(text);
    }
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return text.bytes().any(|b| b.is_ascii_uppercase());
    }
    // YYYY-MM-DD, a space or a T, HH:MM
    let form = |(i, byte): (usize, &u8)| match i {
        4 | 7 => *byte == b'-',
        10 => matches!(byte, b' ' | b'T'),
        13 => *byte == b':',
        _ => byte.is_ascii_digit(),
    };
    let is_instant = text.len() >= 16 && text.as_bytes()[..16].iter().enumerate().all(form);
    let seconds = text.get(16..).and_then(|rest| rest.strip_prefix(':'));
    let seconds = seconds.and_then(|rest| rest.strip_suffix('Z'));
    let canonical = seconds.is_some_and(|rest| match rest.split_once('.') {
        None => rest.len() == 2 && digits(rest),
        Some((whole, fraction)) => {
            let is_short = match fraction.len() {
                3 => true,
                6 | 9 => !fraction.ends_with("000"),
                _ => false,
            };
            whole.len() == 2 && digits(whole) && digits(fraction) && is_short && fraction != "000"
        }
    });
    is_instant && !(canonical && text.as_bytes()[10] == b'T')
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_columns_of_a_type_do_not_have() {
        for text in [
            "12.50",
            "-0.10",
            "True",
            "FALSE",
            "2024-02-29 08:30:00",
            "2024-02-29T08:30",
            "2024-02-29T08:30:00",
            "2024-02-29T08:30:00+01:00",
            "2024-02-29T08:30:00.5Z",
            "2024-02-29T08:30:00.000Z",
            "2024-02-29T08:30:00.250000Z",
        ] {
            assert!(is_typed_elsewhere(text), "{text}");
        }
        for text in [
            "12.5",
            "7.00",
            "12.",
            "1.2.30",
            "true",
            "truE story",
            "2024-02-29",
            "2024-02-29T08:30:00Z",
            "2024-02-29T08:30:00.250Z",
            "2024-02-29T08:30:00.250001Z",
            "",
            "2024-02-29T08:3é:00Z",
        ] {
            assert!(!is_typed_elsewhere(text), "{text}");
        }
    }
}
