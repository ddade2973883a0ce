//! Names of files and objects, and the patterns that they fit.

use std::path::Path;

use glob::MatchOptions;

/// How a path fits a pattern: a star stands for no separator and for no dot at the beginning.
pub(crate) const FITTING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Whether a pattern is for names of which [`is_no_data`] holds.
pub(crate) fn names_no_data(pattern: &str) -> bool {
    let last = Path::new(pattern).file_name();
    last.is_some_and(|name| name.to_string_lossy().starts_with('_'))
}

/// Whether a name is one of those that hold no data: `_SUCCESS`, `_metadata`, `.part-0.crc`.
pub(crate) fn is_no_data(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_")
}

/// Whether the name of a directory says a column.
pub(crate) fn names_column(name: &str) -> bool {
    name.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty())
}
