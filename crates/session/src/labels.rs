//! Columns that the sender hands over with the matches, and strings of which both sides get shares.

use std::fmt;

use serde::{Deserialize, Serialize};
use vesica_wire::{Error as WireError, is_hidden};

use crate::Role;
use crate::codec::{Reader, bad, differ};

/// Maximum number of columns that are handed over.
pub const MAX_LABEL_COLUMNS: usize = 64;
/// Longest name of such a column, in bytes.
pub const MAX_LABEL_NAME: usize = 255;
/// Longest name of the type of such a column, in bytes.
const MAX_TYPE_NAME: usize = 64;
/// Maximum bytes of a label.
pub const MAX_LABEL_BYTES: u32 = 1 << 12;
/// Maximum number of rows of a key that are handed over.
pub const MAX_ROWS_PER_KEY: u32 = 1 << 10;
/// Maximum bytes of a string of which both sides get shares.
pub const MAX_STRING_BYTES: u32 = vesica_psi::MAX_STRING_BYTES as u32;

/// What a side wants to do about labels: bytes that the sender hands over with each key that matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LabelExchange {
    /// There are none.
    #[default]
    Nothing,
    /// The receiver takes them.
    Wanted {
        /// Maximum bytes of a label.
        most_bytes: u32,
        /// Maximum number of rows of a key.
        most_rows: u32,
    },
    /// The sender hands them over.
    Offered(LabelTerms),
    /// This side has a string for each of its keys, of which both sides get shares.
    Shared {
        /// Bytes of a string, the same for every key.
        bytes: u32,
    },
}

/// What the sender hands over with each key that matches. Both sides see the names and the length before anything
/// derived from a key is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelTerms {
    /// Bytes of a label, the same for every key.
    pub bytes: u32,
    /// Rows of a key that have a part of it each, all of the same length: up to [`MAX_ROWS_PER_KEY`]. Of one, all rows of a
    /// key have the same.
    #[serde(default = "one_row", skip_serializing_if = "is_one_row")]
    pub rows: u32,
    /// The names of the columns in it, each once.
    pub columns: Vec<String>,
    /// What the values of each are, by names such as `int64`; none if all are texts. A name that the receiver does not know
    /// stands for texts.
    #[serde(default)]
    pub types: Vec<String>,
}

fn one_row() -> u32 {
    1
}

fn is_one_row(rows: &u32) -> bool {
    *rows == 1
}

/// Bytes of a row's part of a label of so many bytes, for up to so many rows.
fn bytes_of_row(rows: u32, bytes: u32) -> u32 {
    match rows {
        1 => bytes,
        // Each says that a row has it.
        // Nothing is in no rows, whoever says so.
        rows => bytes.checked_div(rows).unwrap_or(0).saturating_sub(1),
    }
}

impl LabelTerms {
    /// These columns of texts, in labels of so many bytes.
    pub fn texts(bytes: u32, columns: Vec<String>) -> LabelTerms {
        LabelTerms {
            bytes,
            rows: 1,
            columns,
            types: Vec::new(),
        }
    }

    /// Bytes of what a row may hand over.
    pub fn bytes_of_row(&self) -> u32 {
        bytes_of_row(self.rows, self.bytes)
    }

    /// Bytes of a label for up to so many rows of a key, of so many bytes each.
    pub fn bytes_of_rows(rows: u32, bytes: u32) -> u32 {
        match rows {
            1 => bytes,
            rows => bytes.saturating_add(1).saturating_mul(rows),
        }
    }

    /// Whether a receiver takes them that accepts so many bytes for up to so many rows of a key, and for each its share.
    fn fit(&self, most_bytes: u32, most_rows: u32) -> bool {
        let most_of_row = bytes_of_row(most_rows, most_bytes);
        self.bytes <= most_bytes && self.rows <= most_rows && self.bytes_of_row() <= most_of_row
    }

    /// The problem with these terms, if there is one.
    fn problem(&self) -> Option<&'static str> {
        let is_name =
            |name: &String| (1..=MAX_LABEL_NAME).contains(&name.len()) && !name.contains(is_hidden);
        let is_type = |name: &String| {
            (1..=MAX_TYPE_NAME).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic())
        };
        let repeats = |(i, name)| self.columns[..i].contains(name);
        if !(1..=MAX_LABEL_COLUMNS).contains(&self.columns.len()) {
            Some("from 1 to 64 columns can be handed over")
        } else if !(1..=MAX_LABEL_BYTES).contains(&self.bytes) {
            Some("what is handed over with a key takes from 1 to 4096 bytes")
        } else if !(1..=MAX_ROWS_PER_KEY).contains(&self.rows)
            || !self.bytes.is_multiple_of(self.rows)
        {
            Some("from 1 to 1024 rows of a key can be handed over, in parts of one length")
        } else if (self.bytes_of_row() as usize) < 2 * self.columns.len() {
            Some("what is handed over with a key takes two bytes and more for each column")
        } else if !self.columns.iter().all(is_name) {
            Some("a column to hand over has a name of 1 to 255 bytes without hidden characters")
        } else if self.columns.iter().enumerate().any(repeats) {
            Some("a column is handed over once")
        } else if !(self.types.is_empty() || self.types.len() == self.columns.len()) {
            Some("each column that is handed over has a type, or none has")
        } else if !self.types.iter().all(is_type) {
            Some("a type of what is handed over has a name of 1 to 64 visible characters")
        } else {
            None
        }
    }
}

/// As in `name,city in 64 bytes`; a comma in a name has a backslash before it.
impl fmt::Display for LabelTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self
            .columns
            .iter()
            .map(|name| name.replace(',', "\\,"))
            .collect();
        let (names, bytes) = (names.join(","), self.bytes_of_row());
        match self.rows {
            1 => write!(f, "{names} in {bytes} bytes"),
            rows => write!(f, "{names} in {bytes} bytes for each of up to {rows} rows"),
        }
    }
}

impl fmt::Display for LabelExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabelExchange::Nothing => f.write_str("none"),
            LabelExchange::Wanted {
                most_bytes,
                most_rows: 1,
            } => write!(f, "wanted, up to {most_bytes} bytes a row"),
            LabelExchange::Wanted {
                most_bytes,
                most_rows,
            } => write!(
                f,
                "wanted, up to {most_bytes} bytes for up to {most_rows} rows of a key"
            ),
            LabelExchange::Offered(terms) => terms.fmt(f),
            LabelExchange::Shared { bytes } => write!(f, "shares of {bytes} bytes"),
        }
    }
}

impl LabelExchange {
    /// Whether a side may say so.
    pub fn is_sound(&self) -> bool {
        match self {
            LabelExchange::Nothing => true,
            LabelExchange::Wanted {
                most_bytes,
                most_rows,
            } => *most_bytes <= MAX_LABEL_BYTES && (1..=MAX_ROWS_PER_KEY).contains(most_rows),
            LabelExchange::Offered(terms) => terms.problem().is_none(),
            LabelExchange::Shared { .. } => true,
        }
    }

    /// Whether there are no labels.
    pub fn is_nothing(&self) -> bool {
        *self == LabelExchange::Nothing
    }

    /// Whether a key may have several rows that are handed over.
    pub fn has_slots(&self) -> bool {
        match self {
            LabelExchange::Wanted { most_rows, .. } => *most_rows > 1,
            LabelExchange::Offered(terms) => terms.rows > 1,
            LabelExchange::Nothing | LabelExchange::Shared { .. } => false,
        }
    }

    /// Bytes of the string that this side has for each of its keys, of which both get shares; 0 if it has none.
    pub fn string_bytes(&self) -> u32 {
        match self {
            LabelExchange::Shared { bytes } => *bytes,
            LabelExchange::Nothing | LabelExchange::Wanted { .. } | LabelExchange::Offered(_) => 0,
        }
    }

    /// The problem with what this side wants, if there is one.
    pub(crate) fn problem(&self, role: Role) -> Option<&'static str> {
        match (self, role) {
            (LabelExchange::Nothing, _) => None,
            (
                LabelExchange::Wanted {
                    most_bytes: 1..,
                    most_rows: 1..=MAX_ROWS_PER_KEY,
                },
                Role::Receiver,
            ) => None,
            (LabelExchange::Offered(terms), Role::Sender) => terms.problem(),
            (LabelExchange::Shared { bytes }, _) => (!(1..=MAX_STRING_BYTES).contains(bytes))
                .then_some("a payload of which both sides get shares takes from 1 to 256 bytes"),
            (LabelExchange::Wanted { .. }, _) => {
                Some("the receiver takes columns, at least a byte")
            }
            (LabelExchange::Offered(_), Role::Receiver) => Some("the sender hands over columns"),
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            LabelExchange::Nothing => out.push(0),
            LabelExchange::Wanted {
                most_bytes,
                most_rows,
            } => {
                out.push(1);
                out.extend_from_slice(&most_bytes.to_le_bytes());
                out.extend_from_slice(&most_rows.to_le_bytes());
            }
            LabelExchange::Offered(terms) => {
                out.push(2);
                put_terms(terms, out);
            }
            LabelExchange::Shared { bytes } => {
                out.push(3);
                out.extend_from_slice(&bytes.to_le_bytes());
            }
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>, role: Role) -> Result<LabelExchange, WireError> {
        let labels = match reader.u8()? {
            0 => LabelExchange::Nothing,
            1 => LabelExchange::Wanted {
                most_bytes: reader.u32()?,
                most_rows: reader.u32()?,
            },
            2 => {
                let (bytes, rows) = (reader.u32()?, reader.u32()?);
                let columns = (0..reader.u8()?)
                    .map(|_| Ok(reader.text("column to hand over")?.to_owned()))
                    .collect::<Result<_, WireError>>()?;
                let types = (0..reader.u8()?)
                    .map(|_| Ok(reader.text("type of a column to hand over")?.to_owned()))
                    .collect::<Result<_, WireError>>()?;
                LabelExchange::Offered(LabelTerms {
                    bytes,
                    rows,
                    columns,
                    types,
                })
            }
            3 => LabelExchange::Shared {
                bytes: reader.u32()?,
            },
            _ => return Err(bad("columns to hand over", "unknown code")),
        };
        match labels.problem(role) {
            None => Ok(labels),
            Some(problem) => Err(bad("columns to hand over", problem)),
        }
    }

    /// What both agree to hand over; the same on both sides.
    ///
    /// # Errors
    /// `ContractDiffers`: one side wants what the other does not offer.
    pub fn agree(&self, theirs: &LabelExchange) -> Result<Option<LabelTerms>, WireError> {
        match (self, theirs) {
            (
                LabelExchange::Nothing | LabelExchange::Shared { .. },
                LabelExchange::Nothing | LabelExchange::Shared { .. },
            ) => Ok(None),
            (
                LabelExchange::Wanted {
                    most_bytes,
                    most_rows,
                },
                LabelExchange::Offered(terms),
            )
            | (
                LabelExchange::Offered(terms),
                LabelExchange::Wanted {
                    most_bytes,
                    most_rows,
                },
            ) if terms.fit(*most_bytes, *most_rows) => Ok(Some(terms.clone())),
            _ => Err(differ("columns handed over", self, theirs)),
        }
    }
}

/// The terms in a contract: of what is handed over, or the bytes of the strings of both sides.
pub(crate) fn put_agreed(terms: Option<&LabelTerms>, strings: [u32; 2], out: &mut Vec<u8>) {
    match (terms, strings) {
        (None, [0, 0]) => out.push(0),
        (Some(terms), _) => {
            out.push(1);
            put_terms(terms, out);
        }
        (None, strings) => {
            out.push(2);
            let bytes = strings.map(u32::to_le_bytes);
            out.extend_from_slice(bytes.as_flattened());
        }
    }
}

fn put_terms(terms: &LabelTerms, out: &mut Vec<u8>) {
    out.extend_from_slice(&terms.bytes.to_le_bytes());
    out.extend_from_slice(&terms.rows.to_le_bytes());
    for names in [&terms.columns, &terms.types] {
        out.push(names.len() as u8);
        names
            .iter()
            .for_each(|name| crate::codec::put_name(out, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(bytes: u32, columns: &[&str]) -> LabelExchange {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        LabelExchange::Offered(LabelTerms::texts(bytes, columns))
    }

    fn typed(types: &[&str]) -> LabelExchange {
        let types = types.iter().map(|name| (*name).to_owned()).collect();
        let columns = vec!["a".into(), "b".into()];
        LabelExchange::Offered(LabelTerms {
            types,
            ..LabelTerms::texts(8, columns)
        })
    }

    fn read(labels: &LabelExchange, role: Role) -> Result<LabelExchange, WireError> {
        let mut out = Vec::new();
        labels.put(&mut out);
        let mut reader = Reader::new("hello", &out);
        let read = LabelExchange::read(&mut reader, role)?;
        reader.end()?;
        Ok(read)
    }

    #[test]
    fn what_is_said_comes_back_and_nonsense_does_not() {
        let many: Vec<String> = (0..=MAX_LABEL_COLUMNS).map(|i| i.to_string()).collect();
        let many: Vec<&str> = many.iter().map(|name| &**name).collect();
        let wanted = |most_bytes| LabelExchange::Wanted {
            most_bytes,
            most_rows: 1,
        };
        let of_rows = |rows, bytes| {
            LabelExchange::Offered(LabelTerms {
                rows,
                ..LabelTerms::texts(bytes, vec!["a".into()])
            })
        };
        let shared = |bytes| LabelExchange::Shared { bytes };
        for (labels, role) in [
            (LabelExchange::Nothing, Role::Receiver),
            (LabelExchange::Nothing, Role::Sender),
            (shared(1), Role::Receiver),
            (shared(MAX_STRING_BYTES), Role::Sender),
            (wanted(1), Role::Receiver),
            (offered(64, &["Größe, brutto", "b"]), Role::Sender),
            (offered(4, &["a", "b"]), Role::Sender),
            (offered(MAX_LABEL_BYTES, &many[1..]), Role::Sender),
            (typed(&["int64", "whatever(1,2)"]), Role::Sender),
            (of_rows(3, 9), Role::Sender),
            (
                of_rows(MAX_ROWS_PER_KEY, 4 * MAX_ROWS_PER_KEY),
                Role::Sender,
            ),
            (
                LabelExchange::Wanted {
                    most_bytes: 1,
                    most_rows: MAX_ROWS_PER_KEY,
                },
                Role::Receiver,
            ),
        ] {
            assert_eq!(read(&labels, role).unwrap(), labels);
        }
        for (labels, role) in [
            (wanted(1), Role::Sender),
            (wanted(0), Role::Receiver),
            (
                LabelExchange::Wanted {
                    most_bytes: 1,
                    most_rows: 0,
                },
                Role::Receiver,
            ),
            (of_rows(0, 9), Role::Sender),
            (of_rows(2, 9), Role::Sender),
            (of_rows(3, 6), Role::Sender),
            (
                of_rows(MAX_ROWS_PER_KEY + 1, MAX_ROWS_PER_KEY + 1),
                Role::Sender,
            ),
            (offered(64, &["a"]), Role::Receiver),
            (offered(64, &[]), Role::Sender),
            (offered(64, &["a", "a"]), Role::Sender),
            (typed(&["int64"]), Role::Sender),
            (typed(&["int64", ""]), Role::Sender),
            (typed(&["int64", "a b"]), Role::Sender),
            (
                typed(&["int64", &"a".repeat(MAX_TYPE_NAME + 1)]),
                Role::Sender,
            ),
            (offered(64, &["a", ""]), Role::Sender),
            (offered(64, &["a\x1b[2J"]), Role::Sender),
            (offered(64, &["a\u{202e}b"]), Role::Sender),
            (offered(0, &["a"]), Role::Sender),
            (offered(1, &["a"]), Role::Sender),
            (offered(3, &["a", "b"]), Role::Sender),
            (offered(MAX_LABEL_BYTES + 1, &["a"]), Role::Sender),
            (offered(64, &many), Role::Sender),
        ] {
            assert!(read(&labels, role).is_err(), "{labels}");
        }
        for bytes in [&[3][..], &[2, 1, 0, 0, 0, 1, 2, 0xff, 0xfe]] {
            assert!(LabelExchange::read(&mut Reader::new("hello", bytes), Role::Sender).is_err());
        }
    }

    #[test]
    fn both_sides_agree_or_see_the_same_difference() {
        let offer = offered(64, &["a", "b"]);
        let wanted = |most_bytes| LabelExchange::Wanted {
            most_bytes,
            most_rows: 1,
        };
        let rows = LabelExchange::Offered(LabelTerms {
            rows: 4,
            ..LabelTerms::texts(64, vec!["a".into()])
        });
        let agreed = |a: &LabelExchange, b: &LabelExchange| {
            let (one, other) = (a.agree(b), b.agree(a));
            match (one, other) {
                (Ok(one), Ok(other)) if one == other => Some(one),
                (Err(_), Err(_)) => None,
                both => panic!("{both:?}"),
            }
        };
        assert_eq!(
            agreed(&LabelExchange::Nothing, &LabelExchange::Nothing),
            Some(None)
        );
        let of_rows = |most_rows, most_bytes| LabelExchange::Wanted {
            most_bytes,
            most_rows,
        };
        assert_eq!(agreed(&offer, &wanted(64)).unwrap().unwrap().bytes, 64);
        for wanted in [of_rows(4, 64), of_rows(5, 100)] {
            assert_eq!(agreed(&rows, &wanted).unwrap().unwrap().rows, 4);
        }
        assert!(agreed(&offer, &of_rows(2, 130)).is_some());
        for (a, b) in [
            (&offer, &LabelExchange::Nothing),
            (&wanted(64), &LabelExchange::Nothing),
            (&offer, &wanted(63)),
            (&rows, &wanted(64)),
            (&offer, &of_rows(4, 64)),
            (&offer, &of_rows(2, 128)),
        ] {
            assert_eq!(agreed(a, b), None, "{a} {b}");
        }
    }
}
