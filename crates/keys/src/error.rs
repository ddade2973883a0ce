//! What can go wrong with a store of keys.

use std::io;

use vesica_files::many;

use crate::layout::Clash;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Rows are counted from 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A temporary file cannot be created or written.
    #[error("a temporary file cannot be written: {0}")]
    Unwritable(#[source] io::Error),
    /// There is no room for the keys on the disk.
    #[error("no room for the keys, some {missing} bytes are missing: {cause}")]
    NoRoom {
        /// Bytes that are missing for the rows that have been read, if each has a key of its own.
        missing: u64,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// What was put into a temporary file cannot be read back.
    #[error("a temporary file cannot be read back: {0}")]
    Unreadable(#[source] io::Error),
    /// More rows than can be numbered.
    #[error("more than {}", many(*limit, "row"))]
    TooManyRows {
        /// The limit.
        limit: u64,
    },
    /// Two rows of one key have different labels.
    #[error("rows {first} and {row} have one key and different labels")]
    LabelsDiffer {
        /// The earlier one.
        first: u64,
        /// The later one.
        row: u64,
        /// The line of a text on which that starts, if it is known.
        line: Option<u64>,
    },
    /// Two rows of one key are in different groups.
    #[error("rows {first} and {row} have one key and different groups")]
    GroupsDiffer {
        /// The earlier one.
        first: u64,
        /// The later one.
        row: u64,
        /// The line of a text on which that starts, if it is known.
        line: Option<u64>,
    },
    /// Keys are in more groups than there can be.
    #[error("more than {}", many(*limit as u64, "group"))]
    TooManyGroups {
        /// The limit.
        limit: usize,
    },
    /// A key has more rows than labels can have slots.
    #[error("row {row} is one more of its key than {limit}")]
    TooManyOfKey {
        /// The most.
        limit: usize,
        /// The first row of the key.
        first: u64,
        /// That which is too many.
        row: u64,
        /// The line of a text on which it starts, if it is known.
        line: Option<u64>,
    },
    /// A key has another row, and a column whose values are not added.
    #[error("row {row} repeats a key whose values are not added")]
    Repeated {
        /// The column.
        column: usize,
        /// The later row.
        row: u64,
        /// The line of a text on which it starts, if it is known.
        line: Option<u64>,
    },
    /// The values of a key add up to more than the bound of their column.
    #[error("the values of the key in row {row} are beyond their bound")]
    Beyond {
        /// The column.
        column: usize,
        /// Whether it is the value of one row.
        has_one_row: bool,
        /// The first row of the key.
        row: u64,
        /// The line of a text on which it starts, if it is known.
        line: Option<u64>,
    },
    /// Whoever asked for the work has stopped it.
    #[error("stopped")]
    Stopped,
    /// Bytes that are no set of rows of this table.
    #[error("a set of rows does not fit its table")]
    NotTheseRows,
    /// A store that cannot do this, or no longer, or columns that do not go together.
    #[error("{0}")]
    Usage(&'static str),
}

impl Error {
    /// That of two rows of one key, of which the second clashes with the first.
    pub(crate) fn clashing(clash: Clash, [first, row]: [u64; 2], line: Option<u64>) -> Error {
        match clash {
            Clash::Labels => Error::LabelsDiffer { first, row, line },
            Clash::Group => Error::GroupsDiffer { first, row, line },
            Clash::Rows(limit) => Error::TooManyOfKey {
                limit,
                first,
                row,
                line,
            },
            Clash::Repeated(column) => Error::Repeated { column, row, line },
        }
    }

    /// If this is a full disk, or a file that must not become longer: for want of so many bytes of keys.
    pub(crate) fn for_want_of(self, missing: impl FnOnce(&io::Error) -> u64) -> Error {
        match self {
            Error::Unwritable(cause) if is_full(&cause) => Error::NoRoom {
                missing: missing(&cause),
                cause,
            },
            other => other,
        }
    }
}

/// Whether a disk, or a share of it, is full.
fn is_full(e: &io::Error) -> bool {
    use io::ErrorKind as K;
    matches!(
        e.kind(),
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge
    )
}
