//! Writing results.

use crate::error::Result;
use crate::keys::Keys;
use crate::source::Source;
use std::path::Path;

/// A result file that does not exist until [`Output::commit`]. Dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Output {}

impl Output {
    /// Opens the output, to be done before the protocol runs so that a path that cannot be
    /// written is known then. `-` is standard output. The format is that of `source`; text is
    /// compressed if the name ends in `.gz`.
    ///
    /// # Errors
    /// Usage: no such directory, no permission, the name is of another format, or it is the
    /// source itself.
    pub fn create(_path: &Path, _source: &Source) -> Result<Self> {
        todo!()
    }

    /// Puts the finished file in its place.
    ///
    /// # Errors
    /// The disk is full, or the directory is gone; nothing is left then.
    pub fn commit(self) -> Result<()> {
        todo!()
    }
}

/// Second pass: writes the rows whose item is matched, all columns, in the order of the input,
/// and returns how many rows it wrote. `matched` has one entry an item of [`Keys::digests`].
///
/// # Errors
/// Data: the input changed since the first pass. Resource: the output cannot be written.
pub fn write_matches(
    _source: &Source,
    _keys: &Keys,
    _matched: &[bool],
    _output: &mut Output,
) -> Result<u64> {
    todo!()
}
