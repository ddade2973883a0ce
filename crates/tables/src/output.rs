//! Result files that appear whole or not at all.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::error::{Error, ErrorKind, Result};
use crate::sniff;
use crate::source::Source;
use crate::whole::WholeFile;

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
    File(WholeFile),
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
        let (file, gzip) = create(path, &name, source).map_err(|e| e.in_path(&name))?;
        let target = Target::File(file);
        Ok(Output { name, target, gzip })
    }

    /// What the output is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts the finished file in its place: flushed to the disk, then renamed.
    ///
    /// # Errors
    /// Resource: the disk is full. Usage: the directory is gone. Nothing is left then.
    pub fn commit(self) -> Result<()> {
        let name = self.name;
        let committed = match self.target {
            Target::Stdout => io::stdout().flush(),
            Target::File(file) => file.commit(),
        };
        committed.map_err(|e| unwritable(e).in_path(&name))
    }

    /// Lets `f` write, buffered and compressed as the output asks.
    pub(crate) fn write<T>(
        &mut self,
        f: impl FnOnce(&mut (dyn Write + Send)) -> Result<T>,
    ) -> Result<T> {
        match &mut self.target {
            Target::Stdout => through(io::stdout(), self.gzip, f),
            Target::File(file) => through(file, self.gzip, f),
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

fn create(path: &Path, name: &str, source: &Source) -> Result<(WholeFile, bool)> {
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
    if let Ok(existing) = path.metadata() {
        if existing.is_dir() {
            return Err(Error::usage("is a directory", "name a file in it"));
        }
        if source.is_same_file(&existing) {
            return Err(Error::new(ErrorKind::OutputIsInput));
        }
    }
    Ok((WholeFile::create(path).map_err(unwritable)?, gzip))
}
