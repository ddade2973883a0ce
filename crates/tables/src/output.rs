//! Result files that appear whole or not at all.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::{Builder, NamedTempFile};

use crate::error::{Error, ErrorKind, Result};
use crate::sniff;
use crate::source::Source;

/// A result that is not in its place until [`Output::commit`]. It is written beside, under a
/// private name, and removed if it is dropped before.
#[derive(Debug)]
pub struct Output {
    name: String,
    target: Target,
    gzip: bool,
}

#[derive(Debug)]
enum Target {
    Stdout,
    /// A device or a pipe, which cannot be replaced.
    Direct(File),
    Beside {
        file: NamedTempFile,
        path: PathBuf,
        /// Those of a file that is to be replaced.
        permissions: Option<Permissions>,
    },
}

impl Output {
    /// Opens the output, to be done before the protocol runs so that a path that cannot be
    /// written is known then. `-` is standard output. The format is that of `source`; text is
    /// compressed if the name ends in `.gz`.
    ///
    /// # Errors
    /// Usage: no such directory, no permission, a directory, a name of another format, the
    /// source itself, or a binary format to a terminal. Resource: the disk is full.
    pub fn create(path: &Path, source: &Source) -> Result<Self> {
        if path.as_os_str() == "-" {
            let name = "standard output".to_owned();
            if !source.format().is_text() && io::stdout().is_terminal() {
                let reason = format!("{} is not for a terminal", source.format());
                return Err(Error::usage(
                    reason,
                    "name an output file, or redirect standard output",
                ));
            }
            return Ok(Output {
                name,
                target: Target::Stdout,
                gzip: false,
            });
        }
        let name = path.display().to_string();
        let (target, gzip) = create(path, &name, source).map_err(|e| e.in_path(&name))?;
        Ok(Output { name, target, gzip })
    }

    /// What the output is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The private file that an unfinished result is in, if there is one. A program that is
    /// ended by a signal never drops its values; its handler must remove this file itself.
    pub fn partial_path(&self) -> Option<&Path> {
        match &self.target {
            Target::Beside { file, .. } => Some(file.path()),
            Target::Stdout | Target::Direct(_) => None,
        }
    }

    /// Puts the finished file in its place: flushed to the disk, then renamed.
    ///
    /// # Errors
    /// Resource: the disk is full. Usage: the directory is gone. Nothing is left then.
    pub fn commit(self) -> Result<()> {
        let name = self.name;
        commit(self.target).map_err(|e| unwritable(e).in_path(&name))
    }

    /// Lets `f` write, buffered and compressed as the output asks.
    pub(crate) fn write<T>(
        &mut self,
        f: impl FnOnce(&mut (dyn Write + Send)) -> Result<T>,
    ) -> Result<T> {
        match &mut self.target {
            Target::Stdout => through(io::stdout(), self.gzip, f),
            Target::Direct(file) => through(file, self.gzip, f),
            Target::Beside { file, .. } => through(file.as_file_mut(), self.gzip, f),
        }
    }
}

const BUFFER_BYTES: usize = 256 << 10;

fn through<T>(
    file: impl Write + Send,
    gzip: bool,
    f: impl FnOnce(&mut (dyn Write + Send)) -> Result<T>,
) -> Result<T> {
    let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, file);
    let result = if gzip {
        let mut encoder = GzEncoder::new(&mut buffered, Compression::default());
        let result = f(&mut encoder)?;
        encoder.finish().map_err(unwritable)?;
        result
    } else {
        f(&mut buffered)?
    };
    buffered.flush().map_err(unwritable)?;
    Ok(result)
}

fn unwritable(e: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable(e))
}

fn create(path: &Path, name: &str, source: &Source) -> Result<(Target, bool)> {
    let (_, gzip) = sniff::split_gz(name);
    let format = source.format();
    match sniff::by_name(name) {
        Some(other) if other != format => {
            let reason =
                format!("the name is of {other}, but results are {format} as the input is");
            return Err(Error::usage(reason, format!("name the output .{format}")));
        }
        _ if gzip && !format.is_text() => {
            return Err(Error::usage(
                format!("{format} is not compressed by gzip"),
                "leave .gz away",
            ));
        }
        _ => {}
    }
    let existing = match std::fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(unwritable(e)),
    };
    if let Some(existing) = &existing {
        if existing.is_dir() {
            return Err(Error::usage("is a directory", "name a file in it"));
        }
        if source.is_same_file(existing) {
            return Err(Error::new(ErrorKind::OutputIsInput));
        }
        if !existing.is_file() {
            let file = OpenOptions::new()
                .write(true)
                .open(path)
                .map_err(unwritable)?;
            return Ok((Target::Direct(file), gzip));
        }
    }
    // A symbolic link stays one: what it points to is replaced.
    let path = if existing.is_some() {
        path.canonicalize().map_err(unwritable)?
    } else {
        path.to_owned()
    };
    // On Unix a fresh temporary file is readable by its owner only.
    let file = Builder::new()
        .prefix(".vesica-")
        .suffix(".part")
        .tempfile_in(directory(&path));
    let file = file.map_err(unwritable)?;
    let permissions = existing.as_ref().map(Metadata::permissions);
    Ok((
        Target::Beside {
            file,
            path,
            permissions,
        },
        gzip,
    ))
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn commit(target: Target) -> io::Result<()> {
    let (file, path, permissions) = match target {
        Target::Stdout => return io::stdout().flush(),
        Target::Direct(file) => {
            // Devices and pipes have nothing to synchronise, and say so.
            let _ = file.sync_all();
            return Ok(());
        }
        Target::Beside {
            file,
            path,
            permissions,
        } => (file, path, permissions),
    };
    file.as_file().sync_all()?;
    let permissions = permissions.map_or_else(|| default_permissions(directory(&path)), Ok)?;
    file.as_file().set_permissions(permissions)?;
    file.persist(&path).map_err(|e| e.error)?;
    // The rename itself is safe once the directory is on the disk. Not every file system can do
    // this, and the result is complete either way.
    let _ = File::open(directory(&path)).and_then(|d| d.sync_all());
    Ok(())
}

/// The permissions that a new file gets from the process's mask, which can only be seen on a
/// new file.
fn default_permissions(directory: &Path) -> io::Result<Permissions> {
    let mut builder = Builder::new();
    builder.prefix(".vesica-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(Permissions::from_mode(0o666));
    }
    builder
        .tempfile_in(directory)?
        .as_file()
        .metadata()
        .map(|m| m.permissions())
}
