//! Opening tables: files, standard input, bytes in memory.

use std::fs::{File, Metadata};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;

use crate::backing::{Backing, Handle, Stamp, open_error};
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::records::guess_delimiter;
use crate::scratch::ScratchFile;
use crate::sniff;
use crate::text::read_error;

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
    /// How often the table will be read. Text that comes through a pipe and is read once is not copied; any
    /// other piped input is.
    pub passes: Passes,
    /// Whether a table without rows, or a JSON Lines file without any line, is allowed; otherwise reading it
    /// is an error.
    pub allow_no_rows: bool,
    /// Directory for the copy of piped input, which is encrypted and has no name. Otherwise the system's
    /// directory for temporary files, which is `TMPDIR` if that is set.
    pub scratch: Option<PathBuf>,
}

/// A table that can be read as often as its options say.
#[derive(Debug)]
pub struct Source {
    name: String,
    backing: Backing,
    stamp: Stamp,
    #[cfg_attr(
        not(feature = "parquet"),
        allow(dead_code, reason = "only Parquet asks")
    )]
    passes: Passes,
    allow_no_rows: bool,
    format: Format,
    compression: Option<Compression>,
    delimiter: u8,
    /// Whether it is an Arrow stream, and not a file.
    arrow_stream: bool,
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
    /// Text that is read once is read as it arrives. Otherwise the reader is copied to an encrypted file
    /// without a name: for a second pass, and because Parquet and Arrow are read out of order.
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

    /// A table of Arrow record batches, which are kept as they are. `name` is what errors call it. Validate
    /// batches from outside Rust first: nothing here checks for offsets and dictionary keys out of range.
    ///
    /// # Errors
    /// Usage: a batch of another schema.
    pub fn from_batches(
        name: &str,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        options: &SourceOptions,
    ) -> Result<Self> {
        if batches.iter().any(|batch| batch.schema_ref() != &schema) {
            let problem = "a record batch has another schema than the table";
            return Err(Error::usage(problem, "").in_path(name));
        }
        Ok(Source {
            name: name.to_owned(),
            backing: Backing::Batches(schema, batches),
            stamp: Stamp::PRIVATE,
            passes: options.passes,
            allow_no_rows: options.allow_no_rows,
            format: Format::Arrow,
            compression: None,
            delimiter: b',',
            arrow_stream: true,
        })
    }

    /// The record batches and their schema, if the table is one of those.
    pub(crate) fn batches(&self) -> Option<(&SchemaRef, &[RecordBatch])> {
        match &self.backing {
            Backing::Batches(schema, batches) => Some((schema, batches)),
            _ => None,
        }
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
            compression: None,
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
        let found = sniff::sniff(
            self.handle()?,
            &self.name,
            options.format,
            options.allow_no_rows,
        )?;
        self.format = found.format;
        self.compression = found.compression;
        self.arrow_stream = found.format == Format::Arrow && !sniff::is_arrow_file(&found.sample);
        if self.format == Format::Csv {
            self.delimiter = match options.delimiter {
                Some(delimiter) => delimiter,
                None if sniff::is_tsv(&self.name) => b'\t',
                None => guess_delimiter(&found.sample, found.whole),
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

    /// How it is compressed as a whole, if it is.
    pub fn compression(&self) -> Option<Compression> {
        self.compression
    }

    /// The delimiter, if the table is CSV.
    pub fn csv_delimiter(&self) -> Option<u8> {
        (self.format == Format::Csv).then_some(self.delimiter)
    }

    pub(crate) fn delimiter(&self) -> u8 {
        self.delimiter
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn passes(&self) -> Passes {
        self.passes
    }

    pub(crate) fn is_arrow_stream(&self) -> bool {
        self.arrow_stream
    }

    /// Fails if the file is not the one that was opened, or has been written to.
    pub(crate) fn verify_unchanged(&self) -> Result<()> {
        match self.backing.has_changed(&self.stamp) {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Changed)),
        }
    }

    /// Whether `metadata` is of the file itself.
    pub(crate) fn is_same_file(&self, metadata: &Metadata) -> bool {
        self.stamp.is_same_file(metadata)
    }

    /// The raw bytes, from the start.
    pub(crate) fn handle(&self) -> Result<Handle> {
        self.backing.handle()
    }

    /// The text, from the start, decompressed.
    pub(crate) fn text(&self) -> Result<Box<dyn Read + Send>> {
        let raw = self.backing.stream()?;
        match self.compression {
            Some(compression) => compression.decompress(raw).map_err(read_error),
            None => Ok(raw),
        }
    }
}
