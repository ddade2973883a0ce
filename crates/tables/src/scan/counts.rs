//! What a first pass counts, and what is to be said of it.

use vesica_files::{Advice, Argument, Command, advice};
use vesica_keys::Frequent;

use crate::error::{Error, ErrorKind, Result};
use crate::profile::canonical::Item;
use crate::source::Source;

/// What the first pass counted, in rows except for `items`. Every row is an item's first, a
/// duplicate, blank, denied, or invalid: `rows = items + duplicates + blanks + denied + invalid`.
///
/// Rows with several identifiers have an item for each value of one. Then `items` and `duplicates` count values, and a row is
/// blank, denied or invalid if none of its values is usable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// All data rows.
    pub rows: u64,
    /// Distinct keys, or distinct values of identifiers.
    pub items: u64,
    /// Rows whose key an earlier row has, or values of identifiers that are there before.
    pub duplicates: u64,
    /// Rows with a null or blank value in a key column; they never match.
    pub blanks: u64,
    /// Rows with a key value that is invalid under its profile; they never match.
    pub invalid: u64,
    /// Rows with a key that the [user denies](crate::KeySpec::with_denied); they never match.
    pub denied: u64,
    /// Rows with an item whose key normalisation changed.
    pub changed: u64,
    /// Rows of a text with bytes that are not UTF-8, outside the key. Their encoding is not known.
    pub not_utf8: u64,
    /// Rows with an item of whose texts one stands for no value, such as `NULL` or `-`. They match others like it.
    pub null_words: u64,
    /// Rows with an item that is invalid because a phone number has the form of a number, such as `4930123456.0`.
    pub number_forms: u64,
    /// Rows with several identifiers of which one is usable and another invalid. They match by the former.
    pub partly_invalid: u64,
    /// The same with one that is denied.
    pub partly_denied: u64,
    /// The keys that very many rows have.
    pub frequent: Frequent,
}

impl Counts {
    /// Counts a row whose items have come to this.
    pub(crate) fn add(&mut self, row: RowVerdict) {
        self.rows += 1;
        if row.has_key {
            self.changed += u64::from(row.changed);
            self.null_words += u64::from(row.null_word);
            self.partly_invalid += u64::from(row.invalid);
            self.partly_denied += u64::from(row.denied);
        } else if row.denied {
            self.denied += 1;
        } else if row.invalid {
            self.invalid += 1;
        } else {
            self.blanks += 1;
        }
        self.number_forms += u64::from(row.number_form);
    }

    /// What is to be known of rows before a run goes on, one sentence each.
    pub fn warnings(&self) -> Vec<Advice> {
        let mut warnings = Vec::new();
        let unusable = self.blanks + self.invalid;
        if unusable > 0 {
            let warning = format!(
                "{unusable} of {} rows have no usable key and take no part ({} blank, {} invalid)",
                self.rows, self.blanks, self.invalid
            );
            warnings.push(warning.into());
        }
        if self.denied > 0 {
            let warning = format!(
                "{} of {} rows have a key that is denied, and take no part",
                self.denied, self.rows
            );
            warnings.push(warning.into());
        }
        for (rows, what) in [
            (self.partly_invalid, "an invalid identifier"),
            (self.partly_denied, "an identifier that is denied"),
        ] {
            if rows > 0 {
                let warning = format!(
                    "{rows} of {} rows have {what}, and match by their other ones only",
                    self.rows
                );
                warnings.push(warning.into());
            }
        }
        if self.number_forms > 0 {
            let warning = format!(
                "{} of {} rows have a phone number {NUMBER_FORMS}",
                self.number_forms, self.rows
            );
            warnings.push(warning.into());
        }
        if self.null_words > 0 {
            warnings.push(advice![
                format!(
                    "{} of {} rows have a key that stands for no value, {SOME_NULL_WORDS}, and matches others like it; ",
                    self.null_words, self.rows
                ),
                Command::Check,
                " says which, and ",
                Argument::Null,
                " declares them null",
            ]);
        }
        if let Some(frequent) = self.frequent.words(self.rows) {
            warnings.push(advice![
                frequent,
                " unless ",
                Argument::Null,
                " declares it null",
            ]);
        }
        if self.not_utf8 > 0 {
            warnings.push(advice![
                format!(
                    "{} of {} rows have bytes that are not UTF-8, and the result has them as they are; with ",
                    self.not_utf8, self.rows
                ),
                Argument::Encoding,
                ", as windows-1252, it is UTF-8",
            ]);
        }
        warnings
    }

    /// A result in UTF-8, or with columns of the peer, which are, has room for no other bytes.
    ///
    /// # Errors
    /// Data: `source`, which was counted, has rows that are not UTF-8.
    pub fn check_utf8(&self, source: &Source) -> Result<()> {
        match self.not_utf8 {
            0 => Ok(()),
            rows => Err(Error::new(ErrorKind::MixedEncodings { rows }).in_path(source.name())),
        }
    }
}

/// What the items of a row have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowVerdict {
    has_key: bool,
    changed: bool,
    null_word: bool,
    denied: bool,
    invalid: bool,
    number_form: bool,
}

impl RowVerdict {
    /// Adds an item of the row.
    pub(crate) fn add(&mut self, item: &Item) {
        match item {
            Item::Blank { .. } => {}
            Item::Denied { .. } => self.denied = true,
            Item::Invalid { number_form, .. } => {
                self.invalid = true;
                self.number_form |= number_form;
            }
            Item::Digest {
                changed, null_word, ..
            } => {
                self.has_key = true;
                self.changed |= changed;
                self.null_word |= null_word;
            }
        }
    }
}

/// What is wrong with phone numbers in the form of numbers, and why they are so.
pub(crate) const NUMBER_FORMS: &str = "in the form of a number, such as 4930123456.0, 4.93E+11 or 4,930,123,456, or digits that \
     are one number as they are and another with a plus sign, as pandas and spreadsheets make of columns of numbers: make it a \
     column of texts";

pub(crate) const SOME_NULL_WORDS: &str = "such as NULL, n/a, unknown or -";
