//! How delimited text is written.

use vesica_files::Argument::{Align, Rows};
use vesica_files::advice;

use crate::error::{Error, Result};

/// What is not detected of CSV. The default is a header, and double quotes that are doubled inside quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// Whether the first row has the names of the columns; otherwise they are called 1, 2, and so on.
    pub header: bool,
    /// What stands around a field that has delimiters or line ends in it, one ASCII byte. `None` if fields are
    /// never quoted.
    pub quote: Option<u8>,
    /// What stands before a quote inside quotes, besides another quote; one ASCII byte.
    pub escape: Option<u8>,
    /// Whether spaces at the start of a field mean nothing, so that a quote behind them opens a quoted field.
    pub skip_initial_space: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        CsvOptions {
            header: true,
            quote: Some(b'"'),
            escape: None,
            skip_initial_space: false,
        }
    }
}

/// CSV with its delimiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) csv: CsvOptions,
}

impl Dialect {
    /// Lines, each of which is a row.
    pub(crate) const LINES: Dialect = Dialect {
        delimiter: b',',
        csv: CsvOptions {
            header: false,
            quote: None,
            escape: None,
            skip_initial_space: false,
        },
    };

    /// Refuses what cannot be told apart. `delimiter` is the one that was asked for, if one was.
    pub(crate) fn check(delimiter: Option<u8>, csv: CsvOptions) -> Result<()> {
        let named = [
            ("a delimiter", delimiter),
            ("a quote", csv.quote),
            ("an escape", csv.escape),
        ];
        for (i, (what, byte)) in named.iter().enumerate() {
            let Some(byte) = byte else { continue };
            let letter = char::from(*byte);
            if !byte.is_ascii() || matches!(byte, b'\r' | b'\n' | 0) {
                return Err(Error::usage_with(
                    format!("{letter:?} cannot be {what}"),
                    "give one ASCII character, such as ; or a tab",
                ));
            }
            let same = named[..i].iter().find(|(_, other)| other == &Some(*byte));
            if let Some((other, _)) = same {
                let problem = format!("{letter:?} cannot be {what} and {other} at once");
                return Err(Error::usage(problem));
            }
        }
        match csv {
            CsvOptions {
                quote: None,
                escape: Some(_),
                ..
            } => Err(Error::usage(
                "an escape is for quoted fields, and there are none without a quote",
            )),
            CsvOptions {
                skip_initial_space: true,
                ..
            } if named.iter().any(|(_, byte)| *byte == Some(b' ')) => Err(Error::usage(
                "spaces cannot be skipped and be a delimiter, a quote or an escape",
            )),
            _ => Ok(()),
        }
    }

    /// Whether any text can be written.
    pub(crate) fn has_quotes(self) -> bool {
        self.csv.quote.is_some()
    }

    /// Appends a field with this text, in quotes if it needs them.
    pub(crate) fn put_field(self, text: impl AsRef<[u8]>, out: &mut Vec<u8>) {
        let text = text.as_ref();
        let special = |byte: &u8| {
            matches!(byte, b'\r' | b'\n')
                || [Some(self.delimiter), self.csv.quote, self.csv.escape].contains(&Some(*byte))
        };
        let is_spaced = self.csv.skip_initial_space && text.starts_with(b" ");
        match text.is_empty() || is_spaced || text.iter().any(special) {
            true => self.put_quoted(text, out),
            false => out.extend_from_slice(text),
        }
    }

    /// Appends a field with this text, in quotes if there are any.
    pub(crate) fn put_quoted(self, text: &[u8], out: &mut Vec<u8>) {
        let Some(quote) = self.csv.quote else {
            return out.extend_from_slice(text);
        };
        out.push(quote);
        for byte in text.iter().copied() {
            if Some(byte) == self.csv.escape {
                out.push(byte);
            } else if byte == quote {
                out.push(self.csv.escape.unwrap_or(quote));
            }
            out.push(byte);
        }
        out.push(quote);
    }

    /// Refuses to add a column of this name if that or its values, which are made of `values`, have special characters.
    pub(crate) fn check_plain(self, name: &str, values: &str) -> Result<()> {
        let special = [Some(self.delimiter), self.csv.quote, self.csv.escape];
        let is_special = |byte: &u8| special.contains(&Some(*byte));
        match [name, values].concat().bytes().find(is_special) {
            Some(byte) => Err(Error::usage_with(
                format!(
                    "{:?} is special and in the column that is added",
                    char::from(byte)
                ),
                advice!["take other ", Rows, " than all, and no ", Align],
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        let with = |quote, escape| CsvOptions {
            quote,
            escape,
            ..CsvOptions::default()
        };
        let usual = CsvOptions::default();
        assert!(Dialect::check(None, usual).is_ok());
        assert!(Dialect::check(Some(b'\t'), with(Some(b'\''), Some(b'\\'))).is_ok());
        assert!(Dialect::check(Some(b'"'), with(None, None)).is_ok());
        for (delimiter, csv) in [
            (Some(b'"'), usual),
            (Some(b'\n'), usual),
            (Some(0xe9), usual),
            (None, with(Some(b'\r'), None)),
            (None, with(Some(b'"'), Some(b'"'))),
            (None, with(None, Some(b'\\'))),
            (Some(b'\\'), with(Some(b'"'), Some(b'\\'))),
            (
                Some(b' '),
                CsvOptions {
                    skip_initial_space: true,
                    ..usual
                },
            ),
        ] {
            assert!(
                Dialect::check(delimiter, csv).is_err(),
                "{delimiter:?} {csv:?}"
            );
        }
    }
}
