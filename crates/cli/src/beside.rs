//! Small files that appear whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::failure::{Failure, RESOURCE, USAGE};

/// A file that is written beside its name and renamed once it is complete. Dropped before, it
/// leaves nothing.
#[derive(Debug)]
pub(crate) struct Beside {
    file: NamedTempFile,
    path: PathBuf,
}

impl Beside {
    /// Opens the temporary file, so that a path that cannot be written is known early.
    pub(crate) fn create(path: &Path) -> Result<Beside, Failure> {
        let cannot = |problem: &str| {
            Failure::new(
                USAGE,
                format!("{}: cannot be written: {problem}", path.display()),
            )
        };
        if path.is_dir() || path.file_name().is_none() {
            return Err(cannot("it is a directory"));
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new()
            .prefix(".vesica-")
            .suffix(".tmp")
            .tempfile_in(directory)
            .map_err(|e| cannot(&e.kind().to_string()))?;
        Ok(Beside {
            file,
            path: path.to_owned(),
        })
    }

    /// Writes the content and puts the file in its place.
    pub(crate) fn commit(mut self, content: &[u8]) -> Result<(), Failure> {
        let outcome = self
            .file
            .write_all(content)
            .and_then(|()| self.file.as_file().sync_all());
        let failed = |e: std::io::Error, path: &Path| {
            Failure::new(
                RESOURCE,
                format!("{}: cannot be written: {e}", path.display()),
            )
        };
        outcome.map_err(|e| failed(e, &self.path))?;
        self.file
            .persist(&self.path)
            .map(drop)
            .map_err(|e| failed(e.error, &self.path))
    }
}
