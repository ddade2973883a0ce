//! Opening tables: files, standard input, bytes in memory.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, ErrorKind, Result};
use crate::scratch::{ScratchFile, ScratchReader};
use crate::sniff;
use crate::text::read_error;

/// A file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Delimited text with a header, possibly in gzip.
    Csv,
    /// Parquet.
    Parquet,
    /// One JSON object a line, possibly in gzip.
    Jsonl,
    /// Arrow IPC: a file (Feather version 2) or a stream.
    Arrow,
}

impl Format {
    /// The name that the command knows it by: `csv`, `parquet`, `jsonl` or `arrow`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Jsonl => "jsonl",
            Format::Arrow => "arrow",
        }
    }

    /// Whether it is lines of text.
    pub fn is_text(self) -> bool {
        matches!(self, Format::Csv | Format::Jsonl)
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        [Format::Csv, Format::Parquet, Format::Jsonl, Format::Arrow]
            .into_iter()
            .find(|f| f.name() == name)
            .ok_or_else(|| {
                let hint = "formats are: csv, parquet, jsonl, arrow";
                Error::usage(format!("no format is called {name:?}"), hint)
            })
    }
}

/// How often a table is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Passes {
    /// For its keys alone.
    One,
    /// For its keys, and again for the rows of a result.
    #[default]
    Two,
}

/// How to open a table. The default detects everything.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// The format. Otherwise by the first bytes where they tell, then by the name, then CSV.
    pub format: Option<Format>,
    /// The delimiter of CSV, one ASCII byte. Otherwise a tab if the name ends in `.tsv`, or
    /// whichever of comma, semicolon, tab and bar fits the first rows best.
    pub delimiter: Option<u8>,
    /// How often the table will be read. Text that comes through a pipe and is read once is not
    /// copied; whatever else comes through a pipe is.
    pub passes: Passes,
    /// Whether a table without rows is one too, and a JSON Lines file without any line; otherwise
    /// reading it is an error.
    pub allow_no_rows: bool,
    /// Directory of that copy, which is encrypted and has no name. Otherwise the system's directory
    /// for temporary files, which is `TMPDIR` if that is set.
    pub scratch: Option<PathBuf>,
}

/// A table that can be read as often as its options say.
#[derive(Debug)]
pub struct Source {
    name: String,
    backing: Backing,
    stamp: Stamp,
    passes: Passes,
    allow_no_rows: bool,
    format: Format,
    gzip: bool,
    delimiter: u8,
    /// Whether it is an Arrow stream, and not a file.
    arrow_stream: bool,
}

enum Backing {
    Path(PathBuf),
    /// A copy of a pipe.
    Scratch(Arc<ScratchFile>),
    Bytes(Bytes),
    /// A pipe that is read once; `None` afterwards.
    Pipe(Mutex<Option<Box<dyn Read + Send>>>),
}

impl std::fmt::Debug for Backing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Backing::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Backing::Scratch(file) => f.debug_tuple("Scratch").field(file).finish(),
            Backing::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Backing::Pipe(_) => f.write_str("Pipe"),
        }
    }
}

/// Tells a file that was changed or replaced from one that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change, which no program can set back.
    changed: Option<(i64, i64)>,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl Stamp {
    /// Of what nobody else can reach.
    const PRIVATE: Stamp = Stamp {
        length: 0,
        modified: None,
        changed: None,
        identity: None,
    };

    fn of(metadata: &Metadata) -> Self {
        Stamp {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            changed: changed(metadata),
            identity: identity(metadata),
        }
    }
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<(i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<(i64, i64)> {
    None
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.dev(), metadata.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<(u64, u64)> {
    None
}

impl Source {
    /// Opens a table. `-` is standard input. A pipe is read as [`Source::from_reader`] says.
    ///
    /// # Errors
    /// Usage: a delimiter that cannot be one. Data: missing, a directory, unreadable, empty, or
    /// in a format that is none of [`Format`]. Resource: no room for a copy.
    pub fn open(path: &Path, options: SourceOptions) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Source::from_reader("standard input", io::stdin(), options);
        }
        let name = path.display().to_string();
        let open = || {
            let metadata = std::fs::metadata(path).map_err(open_error)?;
            if metadata.is_dir() {
                return Err(Error::new(ErrorKind::IsDirectory));
            }
            let file = File::open(path).map_err(open_error)?;
            Ok((metadata, file))
        };
        let result: Result<(Metadata, File)> = { open }();
        let (metadata, file) = result.map_err(|e| e.in_path(&name))?;
        if !metadata.is_file() {
            return Source::from_reader(&name, file, options);
        }
        let backing = Backing::Path(path.to_owned());
        Source::build(name, backing, Stamp::of(&metadata), &options)
    }

    /// A table from a reader. `name` is what errors call it; its extension counts as that of a file
    /// does.
    ///
    /// Text that is read once is read as it comes. Otherwise the reader is copied to an encrypted
    /// file without a name: for a second pass, and because Parquet and Arrow are read out of order.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_reader(
        name: &str,
        mut input: impl Read + Send + 'static,
        options: SourceOptions,
    ) -> Result<Self> {
        let in_path = |e: Error| e.in_path(name);
        let mut start = Vec::new();
        if options.passes == Passes::One {
            input
                .by_ref()
                .take(sniff::SAMPLE_BYTES)
                .read_to_end(&mut start)
                .map_err(|e| in_path(read_error(e)))?;
        }
        let start = Bytes::from(start);
        if options.passes == Passes::One {
            let backing = Backing::Bytes(start.clone());
            let mut source = Source::build(name.to_owned(), backing, Stamp::PRIVATE, &options)?;
            if source.format.is_text() {
                let whole = Cursor::new(start).chain(input);
                source.backing = Backing::Pipe(Mutex::new(Some(Box::new(whole))));
                return Ok(source);
            }
        }
        let directory = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let whole = Cursor::new(start).chain(input);
        let copy = ScratchFile::copy(&directory, whole, read_error, |e| {
            Error::new(ErrorKind::Unwritable(e)).in_path("the copy of the input")
        });
        let backing = Backing::Scratch(Arc::new(copy.map_err(in_path)?));
        Source::build(name.to_owned(), backing, Stamp::PRIVATE, &options)
    }

    /// A table in memory. `name` is what errors call it; its extension counts as that of a file
    /// does.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: SourceOptions) -> Result<Self> {
        let backing = Backing::Bytes(bytes.into());
        Source::build(name.to_owned(), backing, Stamp::PRIVATE, &options)
    }

    fn build(
        name: String,
        backing: Backing,
        stamp: Stamp,
        options: &SourceOptions,
    ) -> Result<Self> {
        let mut source = Source {
            name,
            backing,
            stamp,
            passes: options.passes,
            allow_no_rows: options.allow_no_rows,
            format: Format::Csv,
            gzip: false,
            delimiter: b',',
            arrow_stream: false,
        };
        source
            .detect(options)
            .map_err(|e| e.in_path(&source.name))?;
        Ok(source)
    }

    fn detect(&mut self, options: &SourceOptions) -> Result<()> {
        if let Some(delimiter) = options.delimiter
            && (!delimiter.is_ascii() || matches!(delimiter, b'"' | b'\r' | b'\n' | 0))
        {
            return Err(Error::usage(
                format!("{:?} cannot be a delimiter", char::from(delimiter)),
                "give one ASCII character, such as ; or a tab",
            ));
        }
        let found = sniff::sniff(self.handle()?, &self.name, options)?;
        self.format = found.format;
        self.gzip = found.gzip;
        self.arrow_stream = found.format == Format::Arrow && !sniff::is_arrow_file(&found.sample);
        if self.format == Format::Csv {
            self.delimiter = match options.delimiter {
                Some(delimiter) => delimiter,
                None if sniff::is_tsv(&self.name) => b'\t',
                None => crate::csv::guess_delimiter(&found.sample, found.whole),
            };
        }
        Ok(())
    }

    /// What the table is called in messages: its path, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it may be without rows.
    pub(crate) fn allows_no_rows(&self) -> bool {
        self.allow_no_rows
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Whether it is compressed as a whole, by gzip.
    pub fn is_gzip(&self) -> bool {
        self.gzip
    }

    /// The delimiter, if the table is CSV.
    pub fn csv_delimiter(&self) -> Option<u8> {
        (self.format == Format::Csv).then_some(self.delimiter)
    }

    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    pub(crate) fn passes(&self) -> Passes {
        self.passes
    }

    pub(crate) fn is_arrow_stream(&self) -> bool {
        self.arrow_stream
    }

    /// Fails if the file is not the one that was opened, or has been written to.
    pub(crate) fn verify_unchanged(&self) -> Result<()> {
        let now = match &self.backing {
            Backing::Path(path) => match std::fs::metadata(path) {
                Ok(metadata) => Stamp::of(&metadata),
                Err(_) => return Err(Error::new(ErrorKind::Changed)),
            },
            Backing::Scratch(_) | Backing::Bytes(_) | Backing::Pipe(_) => return Ok(()),
        };
        if now == self.stamp {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::Changed))
        }
    }

    /// Whether `metadata` is of the file itself.
    pub(crate) fn is_same_file(&self, metadata: &Metadata) -> bool {
        self.stamp.identity.is_some() && self.stamp.identity == identity(metadata)
    }

    /// The raw bytes, from the start.
    pub(crate) fn handle(&self) -> Result<Handle> {
        Ok(match &self.backing {
            Backing::Path(path) => Handle::File(File::open(path).map_err(open_error)?),
            Backing::Scratch(file) => Handle::Scratch(ScratchReader::new(file.clone())),
            Backing::Bytes(bytes) => Handle::Bytes(Cursor::new(bytes.clone())),
            Backing::Pipe(_) => return Err(read_once()),
        })
    }

    /// The text, from the start, decompressed.
    pub(crate) fn text(&self) -> Result<Box<dyn Read + Send>> {
        let raw: Box<dyn Read + Send> = match &self.backing {
            Backing::Pipe(pipe) => {
                let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
                pipe.take().ok_or_else(read_once)?
            }
            _ => Box::new(self.handle()?),
        };
        Ok(if self.gzip {
            let raw = BufReader::with_capacity(64 << 10, raw);
            Box::new(MultiGzDecoder::new(raw))
        } else {
            raw
        })
    }
}

/// A caller reads more often than its options said.
fn read_once() -> Error {
    Error::usage("it was opened to be read once", "")
}

fn open_error(e: io::Error) -> Error {
    Error::new(match e.kind() {
        io::ErrorKind::NotFound => ErrorKind::MissingFile,
        io::ErrorKind::IsADirectory => ErrorKind::IsDirectory,
        _ => ErrorKind::Unreadable(e),
    })
}

/// The bytes of a table, as a place in them.
pub(crate) enum Handle {
    File(File),
    Scratch(ScratchReader),
    Bytes(Cursor<Bytes>),
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Handle::File(file) => file.read(buffer),
            Handle::Scratch(file) => file.read(buffer),
            Handle::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Handle::File(file) => file.seek(to),
            Handle::Scratch(file) => file.seek(to),
            Handle::Bytes(bytes) => bytes.seek(to),
        }
    }
}

impl Length for Handle {
    fn len(&self) -> u64 {
        match self {
            Handle::File(file) => Length::len(file),
            Handle::Scratch(file) => file.len(),
            Handle::Bytes(bytes) => bytes.get_ref().len() as u64,
        }
    }
}

impl ChunkReader for Handle {
    type T = BufReader<Handle>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let mut handle = match self {
            Handle::File(file) => Handle::File(file.try_clone()?),
            Handle::Scratch(file) => Handle::Scratch(file.clone()),
            Handle::Bytes(bytes) => Handle::Bytes(bytes.clone()),
        };
        handle.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(handle))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // The length is the file's word; memory is taken only for bytes that are there.
        let end = start
            .checked_add(length as u64)
            .filter(|end| *end <= self.len());
        let Some(end) = end else {
            return Err(ParquetError::EOF("it breaks off in the middle".to_owned()));
        };
        match self {
            Handle::File(file) => file.get_bytes(start, length),
            Handle::Scratch(file) => {
                let mut reader = file.clone();
                reader.seek(SeekFrom::Start(start))?;
                let mut bytes = vec![0; length];
                reader.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
            Handle::Bytes(bytes) => Ok(bytes.get_ref().slice(start as usize..end as usize)),
        }
    }
}
