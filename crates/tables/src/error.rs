//! What can go wrong with a table: where, what, whose fault, and what to do about it.

use std::fmt;
use std::io;

pub(crate) use vesica_files::ErrorClass;
use vesica_files::{Advice, is_exhausted, many};

#[cfg(feature = "object-stores")]
mod problem;
mod remedy;

use crate::decimal::write_decimal;

#[cfg(feature = "object-stores")]
pub(crate) use problem::Problem;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error about a table. One line by `Display`, at most one line more by [`Error::remedy`].
///
/// Small enough to be returned from hot loops: the contents are boxed.
pub struct Error(Box<Inner>);

struct Inner {
    place: Place,
    kind: ErrorKind,
}

/// Where in a table an [`Error`] is. Fields that do not apply are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, as the person named it; `standard input` or `standard output` for `-`.
    pub path: Option<String>,
    /// Data row, counted from 1; the header is not a data row.
    pub row: Option<u64>,
    /// Line of a text file, counted from 1, on which that row starts.
    pub line: Option<u64>,
    /// Column name.
    pub column: Option<String>,
}

/// How one path would take the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overlap {
    /// Both are one file.
    Same,
    /// Both are one file, which standard output or standard error is redirected to.
    Redirected,
    /// Both are one directory.
    SameDirectory,
    /// It would be a file of a directory, a pattern or a set.
    Among,
    /// It is, or would be, in a directory that belongs to the command.
    Inside,
}

/// What the texts belong to that go with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextsOf {
    /// A run, in which they are handed over.
    Run,
    /// A run in which both sides get shares of them.
    Shares,
    /// A set that is being published.
    Publication,
    /// A set that is published, and has its width already.
    Set,
    /// The groups of a run with numbers of each.
    Groups,
}

/// What went wrong. The variants carry fields for programs; `Display` of [`Error`] is for people.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The input does not exist.
    MissingFile,
    /// The input or output is a directory.
    IsDirectory,
    /// A directory or pattern that stands for no file.
    NoFiles,
    /// A directory of files that has a directory in it.
    Subdirectory {
        /// Its name.
        name: String,
    },
    /// A file of the table is not like another one.
    OtherColumns {
        /// What the other one is called.
        than: String,
        /// The first difference.
        how: Difference,
    },
    /// The input cannot be opened or read.
    Unreadable(io::Error),
    /// A database cannot be reached, or does not answer a query.
    Database {
        /// Why, without a password and without a value of its data.
        reason: String,
    },
    /// A column of a SQLite database has values of several types, or none in the first rows, and the driver would round
    /// some, or break off.
    MixedTypes {
        /// SQLite's names of the types that values have.
        found: Vec<String>,
        /// What the driver makes of all of them.
        made: &'static str,
    },
    /// A column of a result has a value that a database would change. Nothing was written.
    NotKept {
        /// What is wrong with it; never the value.
        value: String,
        /// What the database is called.
        by: &'static str,
    },
    /// The input has no bytes, or nothing but blank lines.
    Empty,
    /// The input has columns and no data row.
    NoRows {
        /// Whether the names of the columns are its first line.
        has_header: bool,
    },
    /// No column has the name that was asked for.
    MissingColumn {
        /// The columns that there are, in order; none if they are in the first line of a text, which may be a row.
        available: Vec<String>,
    },
    /// A column that was asked for is not named in the first line of a text, and a later line names all.
    NamesBelow {
        /// That line, counted from 1.
        line: u64,
    },
    /// A row's values do not fit into what goes with its key.
    TextsTooLong {
        /// What that is.
        of: TextsOf,
        /// Bytes that they need.
        needed: usize,
        /// Bytes that there are.
        limit: usize,
    },
    /// A value to hand over or to share has control characters other than tabs and line ends.
    LabelControls,
    /// A row's values to hand over or to share are not those of the first row of its key.
    LabelsDiffer {
        /// That row.
        first: Box<Place>,
    },
    /// A key is in a group, and in a row before in another one.
    GroupsDiffer {
        /// That row.
        first: Box<Place>,
    },
    /// A key has more rows than are handed over.
    TooManyOfKey {
        /// The most.
        limit: usize,
        /// The first of them.
        first: Box<Place>,
    },
    /// The table has a column of the name that a result adds.
    NameTaken,
    /// Several columns have the name that was asked for.
    AmbiguousColumn,
    /// Several delimiters split the first rows of a text evenly, and none was named.
    AmbiguousDelimiter {
        /// Two of them.
        candidates: [char; 2],
    },
    /// A row has a different number of fields from the header.
    Ragged {
        /// Whether the longer of both is so by a delimiter at its end.
        by_last: bool,
        /// Fields in the header.
        expected: usize,
        /// Fields in this row.
        found: usize,
    },
    /// A key, a value to hand over or to share, a column name or a line that must be text is not valid UTF-8.
    NotUtf8,
    /// A column of a type that the format of the result has no room for.
    NotInFormat {
        /// The type.
        found: String,
        /// The format.
        format: &'static str,
    },
    /// Rows whose encoding is not known would be in a result in UTF-8.
    MixedEncodings {
        /// How many rows.
        rows: u64,
    },
    /// The file is text in another encoding, recognised by its first bytes.
    OtherEncoding(&'static str),
    /// A row is longer than the limit, as happens when a quote is never closed.
    RowTooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// Something in a columnar file, which has to be in memory as a whole, is larger than the memory of the run allows.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its bytes in memory.
        bytes: u64,
        /// How many there may be.
        limit: u64,
    },
    /// The file breaks off or contradicts itself.
    Corrupt {
        /// What the reader said.
        reason: String,
    },
    /// A JSON line that is not one JSON object.
    BadJson {
        /// In which way; never a value of the line.
        reason: String,
    },
    /// A path leads below something that is no JSON object.
    NoObject,
    /// A key or label column of a type whose values have no exact text (floats, as keys) or no single one
    /// (lists, structs, maps).
    KeyType {
        /// The type, as its format calls it.
        found: String,
    },
    /// A value column of a type that is neither numbers nor text. Floating-point numbers are refused, since
    /// their sums depend on their order.
    ValueType {
        /// The type, as its format calls it.
        found: String,
    },
    /// A row's value that cannot be computed with, or the values of all rows with the key of this one.
    BadValue {
        /// What is wrong with it; never the value.
        problem: ValueProblem,
    },
    /// What was given as a table is a key, or something else that a command has made.
    NotATable {
        /// What it is.
        found: &'static str,
    },
    /// A format, or something in it, that cannot be read, such as gzip around a Parquet file or
    /// LZO compression in one.
    UnsupportedInput {
        /// What it is.
        found: String,
    },
    /// The input is not the same file as in the first pass.
    Changed,
    /// The request is wrong.
    Usage {
        /// What is wrong with it.
        reason: String,
        /// What to do instead, where something helps.
        remedy: Option<Advice>,
    },
    /// What is written would take the place of something else.
    TakesPlace {
        /// What a command calls the one.
        what: String,
        /// What it calls the other.
        other: String,
        /// In which way.
        how: Overlap,
        /// What a directory of the command's own lacks that is one of them, if it is there and has nothing of it.
        lacks: Option<String>,
    },
    /// A table that the result goes to is one that the query reads.
    TableIsRead,
    /// The output cannot be created or written.
    Unwritable(io::Error),
    /// There is no room for the keys on the disk.
    NoRoom {
        /// Bytes that are missing for the rows that have been read, if each has a key of its own.
        missing: u64,
        /// What the system says.
        cause: io::Error,
    },
    /// What this run has put into a temporary file cannot be read back.
    Scratch(io::Error),
    /// More distinct items or rows than this program can number.
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

/// How a file of a table differs from the first one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Difference {
    /// It is of another format.
    #[error("it is {found}, not {expected}")]
    Format {
        /// Its format.
        found: String,
        /// That of the first file.
        expected: String,
    },
    /// It is text with another delimiter.
    #[error("its fields are delimited by {found:?}, not {expected:?}")]
    Delimiter {
        /// Its delimiter.
        found: char,
        /// That of the first file.
        expected: char,
    },
    /// It has the same columns otherwise.
    #[error("the columns are in another order")]
    Order,
    /// It lacks this column.
    #[error("column {0:?} is missing")]
    Missing(String),
    /// The first file lacks this column.
    #[error("column {0:?} is only here")]
    Added(String),
    /// Names that both have occur more often in one of them.
    #[error("it has {}, not {expected}", many(*found as u64, "column"))]
    Count {
        /// How many columns it has.
        found: usize,
        /// How many the first file has.
        expected: usize,
    },
    /// A column is of another type.
    #[error("column {column:?} is of type {found}, not {expected}")]
    Type {
        /// The column.
        column: String,
        /// Its type, as its format calls it.
        found: String,
        /// That in the first file.
        expected: String,
    },
}

impl Difference {
    /// How the columns of these names differ from the first file's; `None` if they do not.
    pub(crate) fn of_names(first: &[String], names: &[String]) -> Option<Difference> {
        if first == names {
            return None;
        }
        let (mut sorted, mut others) = (first.to_vec(), names.to_vec());
        sorted.sort_unstable();
        others.sort_unstable();
        let alone = |ones: &[String], others: &[String]| {
            let alone = ones.iter().find(|name| !others.contains(name));
            alone.cloned()
        };
        Some(if sorted == others {
            Difference::Order
        } else if let Some(name) = alone(first, names) {
            Difference::Missing(name)
        } else if let Some(name) = alone(names, first) {
            Difference::Added(name)
        } else {
            Difference::Count {
                found: names.len(),
                expected: first.len(),
            }
        })
    }
}

/// Why a row's value, or the values of the rows of a key, cannot be computed with. Displayed behind the column's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueProblem {
    /// There is none.
    #[error("is empty")]
    Empty,
    /// It is text other than a number such as `-12.50`.
    #[error("is not a decimal number")]
    NotANumber,
    /// It is between two multiples of the declared unit.
    #[error("has more digits after the decimal point than were declared")]
    TooManyDigits,
    /// It does not fit into a sign and 63 bits.
    #[error("does not fit into 63 bits")]
    TooLarge,
    /// It exceeds the bound of its column.
    #[error("is beyond the bound of {}", units(*bound, *scale))]
    AboveBound {
        /// The largest absolute value of a key, in units of 10^-`scale`.
        bound: u64,
        /// Digits after the decimal point.
        scale: u8,
    },
    /// The sum over several rows of one key exceeds that.
    #[error("is beyond the bound of {} in the sum over the rows of its key", units(*bound, *scale))]
    SumAboveBound {
        /// The largest absolute value of a key, in units of 10^-`scale`.
        bound: u64,
        /// Digits after the decimal point.
        scale: u8,
    },
    /// Its key has another row, which was not declared.
    #[error("belongs to a key that an earlier row has")]
    Repeated,
}

/// So many units of 10^-`scale`, as a decimal number.
fn units(units: u64, scale: u8) -> String {
    let mut text = String::new();
    write_decimal(&units.to_string(), scale as i8, &mut text);
    text
}

impl Error {
    /// An error without a place yet.
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Error(Box::new(Inner {
            place: Place::default(),
            kind,
        }))
    }

    /// A request that is wrong.
    pub(crate) fn usage(reason: impl Into<String>) -> Self {
        Error::new(ErrorKind::Usage {
            reason: reason.into(),
            remedy: None,
        })
    }

    /// A request that is wrong, and what to do instead.
    pub(crate) fn usage_with(reason: impl Into<String>, remedy: impl Into<Advice>) -> Self {
        Error::new(ErrorKind::Usage {
            reason: reason.into(),
            remedy: Some(remedy.into()),
        })
    }

    pub(crate) fn corrupt(reason: impl Into<String>) -> Self {
        Error::new(ErrorKind::Corrupt {
            reason: one_line(&reason.into()),
        })
    }

    pub(crate) fn unsupported(found: impl Into<String>) -> Self {
        Error::new(ErrorKind::UnsupportedInput {
            found: one_line(&found.into()),
        })
    }

    /// A file of a table with a log.
    pub(crate) fn of_a_lake(what: &str) -> Self {
        Error::unsupported(format!(
            "a file of {what}, whose log says which rows still count"
        ))
    }

    /// Whether a column is not there.
    pub(crate) fn is_of_no_column(&self) -> bool {
        matches!(self.0.kind, ErrorKind::MissingColumn { .. })
    }

    /// If it is of a database: with these words after its own.
    #[cfg(feature = "adbc")]
    pub(crate) fn and(mut self, words: &str) -> Self {
        if let ErrorKind::Database { reason } = &mut self.0.kind {
            reason.push_str(words);
        }
        self
    }

    pub(crate) fn in_path(mut self, path: &str) -> Self {
        self.0.place.path.get_or_insert_with(|| path.to_owned());
        self
    }

    pub(crate) fn at_row(mut self, row: u64, line: Option<u64>) -> Self {
        self.0.place.row.get_or_insert(row);
        self.0.place.line = self.0.place.line.or(line);
        self
    }

    /// Counts the row, if there is one, from after the first `before` rows of the table.
    pub(crate) fn after_rows(mut self, before: u64) -> Self {
        if let Some(row) = &mut self.0.place.row {
            *row = row.saturating_sub(before);
        }
        self
    }

    /// The other row that it is about, if there is one, as a row of the table.
    pub(crate) fn other_row(&mut self) -> Option<&mut Place> {
        match &mut self.0.kind {
            ErrorKind::LabelsDiffer { first }
            | ErrorKind::GroupsDiffer { first }
            | ErrorKind::TooManyOfKey { first, .. } => Some(first),
            _ => None,
        }
    }

    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.0.place.line.get_or_insert(line);
        self
    }

    pub(crate) fn in_column(mut self, column: &str) -> Self {
        self.0.place.column.get_or_insert_with(|| column.to_owned());
        self
    }

    /// Where it is.
    pub fn place(&self) -> &Place {
        &self.0.place
    }

    /// What it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What went wrong between this machine and a store of objects, if that is it.
    #[cfg(feature = "object-stores")]
    fn of_a_store(&self) -> Option<&Problem> {
        match &self.0.kind {
            ErrorKind::Unreadable(e) | ErrorKind::Unwritable(e) => e.get_ref()?.downcast_ref(),
            _ => None,
        }
    }

    /// Whether it is of a database or a store that may do better another time.
    pub fn may_pass(&self) -> bool {
        #[cfg(feature = "object-stores")]
        if self.of_a_store().is_some_and(Problem::may_pass) {
            return true;
        }
        matches!(self.0.kind, ErrorKind::Database { .. })
    }

    /// Whose fault it is.
    pub fn class(&self) -> ErrorClass {
        #[cfg(feature = "object-stores")]
        if let Some(problem) = self.of_a_store() {
            return problem.class(matches!(self.0.kind, ErrorKind::Unwritable(_)));
        }
        match &self.0.kind {
            ErrorKind::Usage { .. } | ErrorKind::TakesPlace { .. } | ErrorKind::TableIsRead => {
                ErrorClass::Usage
            }
            ErrorKind::Unwritable(e) if is_about_the_request(e) => ErrorClass::Usage,
            ErrorKind::Unwritable(_)
            | ErrorKind::NoRoom { .. }
            | ErrorKind::Scratch(_)
            | ErrorKind::TooLarge { .. }
            | ErrorKind::TooMany { .. } => ErrorClass::Resource,
            ErrorKind::Unreadable(e) if is_exhausted(e) => ErrorClass::Resource,
            _ => ErrorClass::Data,
        }
    }
}

fn is_about_the_request(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        e.kind(),
        K::NotFound
            | K::PermissionDenied
            | K::NotADirectory
            | K::IsADirectory
            | K::ReadOnlyFilesystem
            | K::InvalidInput
            | K::InvalidFilename
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// One that is about keys and no row of the table.
impl From<vesica_keys::Error> for Error {
    fn from(error: vesica_keys::Error) -> Error {
        use vesica_keys::Error as E;
        Error::new(match error {
            E::Unwritable(e) => ErrorKind::Unwritable(e),
            E::NoRoom { missing, cause } => ErrorKind::NoRoom { missing, cause },
            E::Unreadable(e) => ErrorKind::Scratch(e),
            E::TooManyRows { limit } => ErrorKind::TooMany {
                what: "rows",
                limit,
            },
            E::Usage(_) => return Error::usage(error.to_string()),
            other => return Error::corrupt(other.to_string()),
        })
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("place", &self.0.place)
            .field("kind", &self.0.kind)
            .finish()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place {
            path,
            row,
            line,
            column,
        } = &self.0.place;
        if let Some(path) = path {
            write!(f, "{}: ", one_line(path))?;
        }
        match (row, line) {
            (Some(row), Some(line)) => write!(f, "row {row} (line {line}): ")?,
            (Some(row), None) => write!(f, "row {row}: ")?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        let column = column.as_deref().unwrap_or_default();
        match &self.0.kind {
            ErrorKind::MissingFile => f.write_str("no such file"),
            ErrorKind::IsDirectory => f.write_str("is a directory"),
            ErrorKind::NoFiles => f.write_str("there are no files to read"),
            ErrorKind::Subdirectory { name } => {
                write!(
                    f,
                    "there is a directory in it, {name:?}, whose files would be missing"
                )
            }
            ErrorKind::OtherColumns { than, how } => {
                write!(
                    f,
                    "is not like {}: {}",
                    one_line(than),
                    one_line(&how.to_string())
                )
            }
            ErrorKind::Unreadable(e) => write!(f, "cannot be read: {}", one_line(&e.to_string())),
            ErrorKind::Database { reason } => f.write_str(&one_line(reason)),
            ErrorKind::MixedTypes { found, made } => write!(
                f,
                "column {column:?} has values of SQLite's types {}, all of which its driver takes for {made}",
                found.join(", ")
            ),
            ErrorKind::NotKept { value, by } => write!(
                f,
                "column {column:?} has a value that {by} would not keep: {}; nothing was written",
                one_line(value)
            ),
            ErrorKind::Empty => f.write_str("is empty"),
            ErrorKind::NoRows { .. } => f.write_str("has no data rows"),
            ErrorKind::MissingColumn { .. } => write!(f, "no column is called {column:?}"),
            ErrorKind::TextsTooLong { of, needed, limit } => match of {
                TextsOf::Run => write!(
                    f,
                    "the values to hand over take {needed} bytes, and there are {limit}"
                ),
                TextsOf::Shares => write!(
                    f,
                    "the payload takes {needed} bytes, and {limit} were declared"
                ),
                TextsOf::Publication | TextsOf::Set => write!(
                    f,
                    "the payload takes {needed} bytes, and the set has {limit} for each key"
                ),
                TextsOf::Groups => write!(
                    f,
                    "the name of a group takes {needed} bytes, and {limit} are possible"
                ),
            },
            ErrorKind::LabelControls => {
                write!(
                    f,
                    "column {column:?} has a control character, which is refused"
                )
            }
            kind @ (ErrorKind::LabelsDiffer { first } | ErrorKind::GroupsDiffer { first }) => {
                f.write_str(match kind {
                    ErrorKind::GroupsDiffer { .. } => "the group is not that of row ",
                    _ => "the values that go with the key are not those of row ",
                })?;
                write!(f, "{}", first.row.unwrap_or_default())?;
                if let Some(path) = first
                    .path
                    .as_ref()
                    .filter(|first| Some(*first) != path.as_ref())
                {
                    write!(f, " of {}", one_line(path))?;
                }
                f.write_str(", which has the same key")
            }
            ErrorKind::TooManyOfKey { limit, first } => {
                let rows = many(*limit as u64, "row");
                let first = first.row.unwrap_or_default();
                write!(
                    f,
                    "its key has more than {rows}, the most that are handed over; the first is row {first}"
                )
            }
            ErrorKind::NameTaken => write!(
                f,
                "a column is called {column:?} already, which the result is to add"
            ),
            ErrorKind::AmbiguousColumn => write!(f, "several columns are called {column:?}"),
            ErrorKind::AmbiguousDelimiter {
                candidates: [first, second],
            } => write!(
                f,
                "its rows can be split at {first:?} or at {second:?}, evenly at each"
            ),
            ErrorKind::Ragged {
                expected,
                found,
                by_last,
            } => {
                let fields = many(*found as u64, "field");
                write!(f, "has {fields} where the header has {expected}")?;
                f.write_str(match (by_last, found > expected) {
                    (false, _) => "",
                    (true, true) => ", as it ends with a delimiter",
                    (true, false) => ", which ends with a delimiter",
                })
            }
            ErrorKind::NamesBelow { line } => write!(
                f,
                "no column is called {column:?} in its first line, and one is in line {line}"
            ),
            ErrorKind::NotUtf8 if column.is_empty() => f.write_str("is not valid UTF-8"),
            ErrorKind::NotUtf8 => write!(f, "the value in column {column:?} is not valid UTF-8"),
            ErrorKind::NotInFormat { found, format } => write!(
                f,
                "column {column:?} is of type {}, which {format} has no room for",
                one_line(found)
            ),
            ErrorKind::MixedEncodings { rows } => write!(
                f,
                "{} with bytes that are not UTF-8, as the result has to be",
                many(*rows, "row")
            ),
            ErrorKind::OtherEncoding(name) => write!(f, "is {name} text, not UTF-8"),
            ErrorKind::RowTooLong { limit } => {
                write!(f, "a row is longer than {} MiB", limit >> 20)
            }
            ErrorKind::TooLarge { what, bytes, limit } => write!(
                f,
                "{what} takes {} MiB, and there is memory for {} MiB",
                bytes.div_ceil(1 << 20),
                limit >> 20
            ),
            ErrorKind::Corrupt { reason } => write!(f, "is damaged: {reason}"),
            ErrorKind::BadJson { reason } => write!(f, "is not a JSON object: {reason}"),
            ErrorKind::NoObject => write!(f, "there is no object on the way to {column:?}"),
            ErrorKind::KeyType { found } => {
                write!(
                    f,
                    "column {column:?} has no exact text: it is of type {}",
                    one_line(found)
                )
            }
            ErrorKind::ValueType { found } => {
                let found = one_line(found);
                write!(
                    f,
                    "column {column:?} has no values to compute with: it is of type {found}"
                )
            }
            ErrorKind::BadValue { problem } => {
                write!(f, "the value in column {column:?} {problem}")
            }
            ErrorKind::NotATable { found } => write!(f, "this is {found}, and not a table"),
            ErrorKind::UnsupportedInput { found } if column.is_empty() => {
                write!(f, "cannot read {found}")
            }
            ErrorKind::UnsupportedInput { found } => {
                write!(f, "cannot read column {column:?}: {found} is not supported")
            }
            ErrorKind::Changed => f.write_str("changed while it was being used"),
            ErrorKind::Usage { reason, .. } => f.write_str(&one_line(reason)),
            ErrorKind::TakesPlace {
                what,
                other,
                how,
                lacks,
            } => {
                if let Some(lacks) = lacks {
                    write!(f, "{lacks}, and ")?;
                }
                match how {
                    Overlap::Same | Overlap::Redirected => {
                        write!(f, "{what} and {other} are the same file")
                    }
                    Overlap::SameDirectory => {
                        write!(f, "{what} and {other} are the same directory")
                    }
                    Overlap::Among => write!(f, "{what} would be one of the files of {other}"),
                    Overlap::Inside => write!(f, "{what} is in the directory of {other}"),
                }
            }
            ErrorKind::TableIsRead => f.write_str("the query reads it"),
            ErrorKind::Unwritable(e) => {
                write!(f, "cannot be written: {}", one_line(&e.to_string()))
            }
            ErrorKind::NoRoom { missing, cause } => write!(
                f,
                "no room for the keys, some {missing} bytes are missing: {}",
                one_line(&cause.to_string())
            ),
            ErrorKind::Scratch(e) => write!(
                f,
                "a temporary file cannot be read back: {}",
                one_line(&e.to_string())
            ),
            ErrorKind::TooMany { what, limit } => write!(f, "more than {limit} {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Unreadable(e)
            | ErrorKind::Unwritable(e)
            | ErrorKind::NoRoom { cause: e, .. }
            | ErrorKind::Scratch(e) => Some(e),
            _ => None,
        }
    }
}
