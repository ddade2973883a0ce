//! Opening tables: files, standard input, bytes in memory.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::reader::{ChunkReader, Length};
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, ErrorKind, Result};
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

/// How to open a table. The default detects everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct SourceOptions {
    /// The format. Otherwise by the first bytes where they tell, then by the name, then CSV.
    pub format: Option<Format>,
    /// The delimiter of CSV, one ASCII byte. Otherwise a tab if the name ends in `.tsv`, or
    /// whichever of comma, semicolon, tab and bar fits the first rows best.
    pub delimiter: Option<u8>,
}

/// A table that can be read several times.
#[derive(Debug)]
pub struct Source {
    name: String,
    backing: Backing,
    stamp: Stamp,
    format: Format,
    gzip: bool,
    delimiter: u8,
}

#[derive(Debug)]
enum Backing {
    Path(PathBuf),
    /// A copy that has no name and vanishes with its handle.
    Spool(File),
    Bytes(Bytes),
}

/// Tells a file that was changed or replaced from one that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Stamp {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            identity: identity(metadata),
        }
    }
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
    /// Opens a table. `-` is standard input; it and whatever else cannot be read twice (a pipe)
    /// are copied to a private temporary file.
    ///
    /// # Errors
    /// Usage: a delimiter that cannot be one. Data: missing, a directory, unreadable, empty, or
    /// in a format that is none of [`Format`]. Resource: no room for the copy.
    pub fn open(path: &Path, options: SourceOptions) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Source::from_reader("standard input", io::stdin().lock(), options);
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
        Source::build(
            name,
            Backing::Path(path.to_owned()),
            Stamp::of(&metadata),
            options,
        )
    }

    /// A table from a reader, which is copied to a private temporary file. `name` is what errors
    /// call it; its extension counts as that of a file does.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_reader(name: &str, mut input: impl Read, options: SourceOptions) -> Result<Self> {
        let spool = || {
            let unwritable =
                |e| Error::new(ErrorKind::Unwritable(e)).in_path("the copy of the input");
            let mut file = tempfile::tempfile().map_err(unwritable)?;
            let mut chunk = vec![0; 256 << 10];
            loop {
                match input.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(n) => file.write_all(&chunk[..n]).map_err(unwritable)?,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(read_error(e)),
                }
            }
            let stamp = Stamp::of(&file.metadata().map_err(read_error)?);
            Ok((file, stamp))
        };
        let result: Result<(File, Stamp)> = { spool }();
        let (file, stamp) = result.map_err(|e| e.in_path(name))?;
        Source::build(name.to_owned(), Backing::Spool(file), stamp, options)
    }

    /// A table in memory. `name` is what errors call it; its extension counts as that of a file
    /// does.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: SourceOptions) -> Result<Self> {
        let stamp = Stamp {
            length: bytes.len() as u64,
            modified: None,
            identity: None,
        };
        Source::build(
            name.to_owned(),
            Backing::Bytes(bytes.into()),
            stamp,
            options,
        )
    }

    fn build(name: String, backing: Backing, stamp: Stamp, options: SourceOptions) -> Result<Self> {
        let mut source = Source {
            name,
            backing,
            stamp,
            format: Format::Csv,
            gzip: false,
            delimiter: b',',
        };
        source
            .detect(options)
            .map_err(|e| e.in_path(&source.name))?;
        Ok(source)
    }

    fn detect(&mut self, options: SourceOptions) -> Result<()> {
        if let Some(delimiter) = options.delimiter
            && (!delimiter.is_ascii() || matches!(delimiter, b'"' | b'\r' | b'\n' | 0))
        {
            return Err(Error::usage(
                format!("{:?} cannot be a delimiter", char::from(delimiter)),
                "give one ASCII character, such as ; or a tab",
            ));
        }
        let found = sniff::sniff(self.handle()?, &self.name, options.format)?;
        self.format = found.format;
        self.gzip = found.gzip;
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

    /// Fails if the file is not the one that was opened, or has been written to.
    pub(crate) fn verify_unchanged(&self) -> Result<()> {
        let now = match &self.backing {
            Backing::Path(path) => match std::fs::metadata(path) {
                Ok(metadata) => Stamp::of(&metadata),
                Err(_) => return Err(Error::new(ErrorKind::Changed)),
            },
            // Nobody else can reach these.
            Backing::Spool(_) | Backing::Bytes(_) => return Ok(()),
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
            Backing::Spool(file) => {
                let mut file = file.try_clone().map_err(read_error)?;
                file.rewind().map_err(read_error)?;
                Handle::File(file)
            }
            Backing::Bytes(bytes) => Handle::Bytes(Cursor::new(bytes.clone())),
        })
    }

    /// The text, from the start, decompressed.
    pub(crate) fn text(&self) -> Result<Box<dyn Read + Send>> {
        let handle = self.handle()?;
        Ok(if self.gzip {
            Box::new(MultiGzDecoder::new(BufReader::with_capacity(
                64 << 10,
                handle,
            )))
        } else {
            Box::new(handle)
        })
    }
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
    Bytes(Cursor<Bytes>),
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Handle::File(file) => file.read(buffer),
            Handle::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Handle::File(file) => file.seek(to),
            Handle::Bytes(bytes) => bytes.seek(to),
        }
    }
}

impl Length for Handle {
    fn len(&self) -> u64 {
        match self {
            Handle::File(file) => Length::len(file),
            Handle::Bytes(bytes) => bytes.get_ref().len() as u64,
        }
    }
}

impl ChunkReader for Handle {
    type T = BufReader<Handle>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let mut handle = match self {
            Handle::File(file) => Handle::File(file.try_clone()?),
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
            Handle::Bytes(bytes) => Ok(bytes.get_ref().slice(start as usize..end as usize)),
        }
    }
}
