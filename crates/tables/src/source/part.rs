//! One file of a table, or what stands for one: standard input, bytes in memory, record batches.

use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use sha2::{Digest, Sha256};
use vesica_files::{Argument, Place, Readers, advice, open_pipe, open_regular, redirected};

use crate::error::{Difference, Error, ErrorKind, Result};
use crate::format::{ARROW_FILE_START, Format};
use crate::source::FileDigest;
use crate::source::byte_source::{ByteSource, Handle, Stamp, open_error};
use crate::source::compression::Compression;
use crate::source::dialect::{CsvOptions, Dialect};
use crate::source::encoding::Encoding;
use crate::source::framed::Framed;
use crate::source::options::{Passes, SourceOptions};
use crate::source::partition::{Extended, Partition};
use crate::source::paths::{PathKind, Paths};
use crate::source::records::{Records, guess_delimiter};
use crate::source::scratch::ScratchFile;
use crate::source::sniff;
use crate::source::text::{BYTE_ORDER_MARK, MAX_ROW_BYTES, read_error, strip_terminator};
use crate::source::wait_time::WaitTime;

/// One file of a table.
#[derive(Debug)]
pub(crate) struct Part {
    name: String,
    bytes: ByteSource,
    /// The file or object of which this is a copy, as CSV.
    copied: Option<PathBuf>,
    stamp: Stamp,
    #[cfg_attr(
        not(feature = "parquet"),
        allow(dead_code, reason = "only Parquet asks")
    )]
    passes: Passes,
    format: Format,
    compression: Option<Compression>,
    encoding: Option<Encoding>,
    dialect: Dialect,
    /// What its own fields are delimited by, if it has several.
    delimiter: Option<u8>,
    /// Lines above and below its table.
    above: u64,
    below: usize,
    /// Whether it is an Arrow stream, and not a file.
    arrow_stream: bool,
    /// Whether it never was a file, so that a result takes the format that its name stands for.
    formless: bool,
    /// Whether there is not a byte in it.
    empty: bool,
    /// Bytes that may be in memory at once of a columnar file.
    most_at_once: u64,
    /// Who may read it; only its owner if it is no file.
    readers: Readers,
    /// How long its bytes have been waited for.
    wait_time: WaitTime,
    /// The columns that its directories say.
    partition: Partition,
}

impl Part {
    /// Opens a file; `-` is standard input.
    pub(crate) fn open(path: &Path, options: &SourceOptions) -> Result<Part> {
        if path.as_os_str() == "-" {
            let file = redirected(&io::stdin());
            let readers = file.as_ref().and_then(|file| Readers::of(file).ok());
            let stamp = file.and_then(|file| {
                let metadata = file.metadata().ok()?;
                Some(Stamp::of(&metadata, Place::of(&file).ok()))
            });
            return Ok(Part {
                readers: readers.unwrap_or(Readers::OWNER),
                stamp: stamp.unwrap_or(Stamp::PRIVATE),
                ..Part::from_reader("standard input", io::stdin(), options)?
            });
        }
        let name = path.display().to_string();
        let in_path = |e| open_error(e).in_path(&name);
        let metadata = std::fs::metadata(path).map_err(in_path)?;
        if metadata.is_dir() {
            return Err(Error::new(ErrorKind::IsDirectory).in_path(&name));
        }
        if !metadata.is_file() {
            let pipe = open_pipe(path, options.wait).map_err(in_path)?;
            return Part::from_reader(&name, pipe, options);
        }
        let bytes = ByteSource::Path(path.to_owned());
        Ok(Part {
            readers: Readers::of_path(path).map_err(in_path)?,
            ..Part::build(&name, bytes, Stamp::at(path, &metadata), options)?
        })
    }

    /// Opens what an address stands for.
    #[cfg(feature = "object-stores")]
    pub(crate) fn of_object(
        object: crate::objects::find::Found,
        options: &SourceOptions,
    ) -> Result<Part> {
        use crate::objects::find::Content;
        let name = object.path.display().to_string();
        match object.content {
            Content::Object(object) => {
                let bytes = ByteSource::Object(object);
                Part::build(&name, bytes, Stamp::PRIVATE, options)
            }
            Content::Stream(stream) => Part::from_reader(&name, stream, options),
        }
    }

    /// Whether it is an object of a store.
    #[cfg(feature = "parquet")]
    pub(crate) fn is_object(&self) -> bool {
        match &self.bytes {
            #[cfg(feature = "object-stores")]
            ByteSource::Object(_) => true,
            _ => false,
        }
    }

    /// The object that it is, if it is one.
    #[cfg(all(feature = "object-stores", feature = "parquet"))]
    pub(crate) fn object(&self) -> Option<&Arc<crate::objects::object::Object>> {
        match &self.bytes {
            ByteSource::Object(object) => Some(object),
            _ => None,
        }
    }

    /// A part from a reader, as [`Source::from_reader`](crate::Source::from_reader) says.
    pub(crate) fn from_reader(
        name: &str,
        mut input: impl Read + Send + 'static,
        options: &SourceOptions,
    ) -> Result<Part> {
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
        if options.passes == Passes::One && !is_archive(&start) {
            let mut part = Part::from_bytes(name, start.clone(), options)?;
            if part.format.is_text() {
                let whole = Cursor::new(start).chain(input);
                part.bytes = ByteSource::Pipe(Mutex::new(Some(Box::new(whole))));
                return Ok(part);
            }
        }
        let directory = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let whole = Cursor::new(start).chain(input);
        let copy = ScratchFile::copy(&directory, whole, read_error, |e| {
            Error::new(ErrorKind::Unwritable(e)).in_path("the copy of the input")
        });
        let bytes = ByteSource::Scratch(Arc::new(copy.map_err(in_path)?));
        Part::build(name, bytes, Stamp::PRIVATE, options)
    }

    /// The answer of a database, as an Arrow stream. If the database is a file, an output may not replace that.
    #[cfg(feature = "adbc")]
    pub(crate) fn from_answer(
        name: &str,
        stream: impl Read + Send + 'static,
        database: Option<&Path>,
        options: &SourceOptions,
    ) -> Result<Part> {
        let part = Part::from_reader(name, stream, options)?;
        let stamp = database.and_then(|file| Some(Stamp::at(file, &std::fs::metadata(file).ok()?)));
        Ok(Part {
            formless: true,
            stamp: stamp.unwrap_or(Stamp::PRIVATE),
            ..part
        })
    }

    pub(crate) fn from_bytes(name: &str, bytes: Bytes, options: &SourceOptions) -> Result<Part> {
        Part::build(name, ByteSource::Bytes(bytes), Stamp::PRIVATE, options)
    }

    pub(crate) fn from_batches(
        name: &str,
        schema: SchemaRef,
        batches: Vec<RecordBatch>,
        options: &SourceOptions,
    ) -> Part {
        Part {
            format: Format::Arrow,
            arrow_stream: true,
            formless: true,
            ..Part::new(
                name,
                ByteSource::Batches(schema, batches),
                Stamp::PRIVATE,
                options,
            )
        }
    }

    /// The record batches and their schema, if the part is those.
    pub(crate) fn batches(&self) -> Option<(&SchemaRef, &[RecordBatch])> {
        match &self.bytes {
            ByteSource::Batches(schema, batches) => Some((schema, batches)),
            _ => None,
        }
    }

    fn new(name: &str, bytes: ByteSource, stamp: Stamp, options: &SourceOptions) -> Part {
        Part {
            name: name.to_owned(),
            bytes,
            copied: None,
            stamp,
            passes: options.passes,
            format: Format::Csv,
            compression: None,
            encoding: options.encoding,
            dialect: Dialect {
                delimiter: b',',
                csv: options.csv,
            },
            delimiter: None,
            above: options.skip_rows,
            below: options.skip_footer,
            arrow_stream: false,
            formless: false,
            empty: false,
            most_at_once: options
                .memory
                .map_or(u64::MAX, |memory| (memory / 2).max(MAX_ROW_BYTES as u64)),
            readers: Readers::OWNER,
            wait_time: WaitTime::nothing(),
            partition: Partition::default(),
        }
    }

    fn build(name: &str, bytes: ByteSource, stamp: Stamp, options: &SourceOptions) -> Result<Part> {
        let mut part = Part::new(name, bytes, stamp, options);
        let detected = match part.take_sheet(options) {
            Ok(Some(options)) => part.detect(&options),
            Ok(None) => part.detect(options),
            Err(error) => Err(error),
        };
        detected.map_err(|e| e.in_path(name))?;
        Ok(part)
    }

    /// Puts CSV in the place of a spreadsheet, and returns the options of that.
    #[cfg(feature = "spreadsheets")]
    fn take_sheet(&mut self, options: &SourceOptions) -> Result<Option<SourceOptions>> {
        use crate::source::sheets::{Wanted, as_csv};
        let wanted = Wanted {
            sheet: options.sheet.as_deref(),
            above: options.skip_rows,
            below: options.skip_footer,
            limit: self.most_at_once,
        };
        let directory = options.scratch.clone().unwrap_or_else(std::env::temp_dir);
        let csv = self.unchanged(|| as_csv(self.handle()?, &wanted, &directory))?;
        let Some(csv) = csv else {
            return no_sheet(options);
        };
        let header = options.csv.header;
        let of_sheet = SourceOptions {
            format: Some(Format::Csv),
            delimiter: Some(b','),
            csv: CsvOptions {
                header,
                ..CsvOptions::default()
            },
            ..SourceOptions::default()
        };
        let is_of_text = options.delimiter.is_some() || options.csv != of_sheet.csv;
        if is_of_text || options.encoding.is_some() || options.format.is_some() {
            let problem = "a format, a delimiter, a quote, an escape and an encoding are not for spreadsheets";
            return Err(Error::usage_with(problem, "leave these options away"));
        }
        let copy = ByteSource::Scratch(Arc::new(csv));
        self.copied = Some(self.file().to_owned());
        self.bytes = copy;
        (self.above, self.below) = (0, 0);
        Ok(Some(of_sheet))
    }

    #[cfg(not(feature = "spreadsheets"))]
    fn take_sheet(&mut self, options: &SourceOptions) -> Result<Option<SourceOptions>> {
        no_sheet(options)
    }

    fn detect(&mut self, options: &SourceOptions) -> Result<()> {
        Dialect::check(options.delimiter, options.csv)?;
        let found = sniff::sniff(self.handle()?, &self.name, options.format, self.encoding)?;
        self.format = found.format;
        self.compression = found.compression;
        self.empty = found.sample.is_empty() && found.whole;
        self.arrow_stream =
            found.format == Format::Arrow && !found.sample.starts_with(ARROW_FILE_START);
        if self.empty && !self.format.is_text() {
            return Err(Error::new(ErrorKind::Empty));
        }
        let is_of_csv = options.delimiter.is_some()
            || options.csv != CsvOptions::default()
            || (options.skip_rows, options.skip_footer) != (0, 0);
        if self.format != Format::Csv && is_of_csv {
            let problem = format!(
                "a delimiter, a header, a quote, an escape and lines to skip are for CSV, not {}",
                self.format
            );
            return Err(Error::usage_with(problem, "leave these options away"));
        }
        if !self.format.is_text() && self.encoding.is_some() {
            let problem = format!("an encoding is for text, not {}", self.format);
            return Err(Error::usage_with(
                problem,
                advice!["leave ", Argument::Encoding, " away"],
            ));
        }
        if self.format != Format::Csv {
            self.dialect = Dialect::LINES;
        } else {
            let is_possible = |said: &u8| Dialect::check(Some(*said), options.csv).is_ok();
            let said = said_delimiter(&found.sample).filter(is_possible);
            let said = said.filter(|_| self.above == 0);
            self.above += u64::from(said.is_some());
            self.delimiter = match options.delimiter.or(said) {
                Some(delimiter) => Some(delimiter),
                None if sniff::is_tsv(&self.name) => Some(b'\t'),
                None => {
                    let below = if found.whole { self.below } else { 0 };
                    let mut sample = Vec::new();
                    let mut table = Framed::new(&found.sample[..], self.above, below);
                    table.read_to_end(&mut sample).map_err(read_error)?;
                    guess_delimiter(&sample, found.whole, options.csv)?
                }
            };
            self.dialect.delimiter = self.delimiter.unwrap_or(b',');
        }
        Ok(())
    }

    /// Makes it a part of a table that begins with `first`, whose delimiter counts.
    pub(crate) fn follow(&mut self, first: &Part) -> Result<()> {
        if self.empty && first.format.is_text() {
            self.format = first.format;
        }
        let unlike = |how| {
            let than = first.name.clone();
            Err(Error::new(ErrorKind::OtherColumns { than, how }).in_path(&self.name))
        };
        if self.format != first.format {
            return unlike(Difference::Format {
                found: self.format.name().to_owned(),
                expected: first.format.to_string(),
            });
        }
        if let (Some(found), Some(expected)) = (self.delimiter, first.delimiter)
            && found != expected
        {
            return unlike(Difference::Delimiter {
                found: found.into(),
                expected: expected.into(),
            });
        }
        let [names, expected] = [self, first].map(|part| part.partition.names());
        match Difference::of_names(&expected, &names) {
            Some(how) => return unlike(how),
            None => self.dialect = first.dialect,
        }
        Ok(())
    }

    /// What the part is called in messages: its path, or `standard input`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Whether it is a spreadsheet, of which a copy is read.
    pub(crate) fn is_spreadsheet(&self) -> bool {
        self.copied.is_some()
    }

    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn passes(&self) -> Passes {
        self.passes
    }

    /// Bytes that may be in memory at once of a columnar file, as its readers need whole pages and batches there.
    pub(crate) fn most_at_once(&self) -> u64 {
        self.most_at_once
    }

    pub(crate) fn readers(&self) -> Readers {
        self.readers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.empty
    }

    pub(crate) fn is_formless(&self) -> bool {
        self.formless
    }

    pub(crate) fn is_arrow_stream(&self) -> bool {
        self.arrow_stream
    }

    /// Fails if the file is not the one that was opened, or has been written to, and if an object could not be read.
    pub(crate) fn verify_unchanged(&self) -> Result<()> {
        self.bytes.verify_unchanged(&self.stamp)
    }

    /// Does `f`, during which the file stays the one that was opened.
    pub(crate) fn unchanged<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.verify_unchanged()?;
        let done = f();
        // A file that is written to while it is read mostly looks damaged; say the cause.
        self.verify_unchanged()?;
        done
    }

    /// Adds its file to what is read, of this kind, or that of the database which it is the answer of.
    pub(crate) fn add_to(&self, kind: PathKind, paths: &mut Paths) {
        let name = self.copied.as_deref().unwrap_or_else(|| self.file());
        paths.reads_file("the input", kind, name, self.stamp.identity());
    }

    /// The file or object that is read, if it is one.
    fn file(&self) -> &Path {
        match &self.bytes {
            ByteSource::Path(path) => path,
            #[cfg(feature = "object-stores")]
            ByteSource::Object(_) => Path::new(&self.name),
            // Of a database the file is known.
            _ => Path::new(""),
        }
    }

    /// Whether both are the same file.
    pub(crate) fn is_same_as(&self, other: &Part) -> bool {
        self.stamp.is_same_as(&other.stamp)
    }

    /// The error of a second pass over this part. What cannot be written is not its fault.
    pub(crate) fn named(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Unwritable(_) => error,
            _ => error.in_path(&self.name),
        }
    }

    /// The same with columns that its directories say, unless it is CSV without names of columns. `is_below` says that it was
    /// found below a directory that was named.
    pub(crate) fn in_directories(self, partition: Partition, is_below: bool) -> Result<Part> {
        let has_names = self.format != Format::Csv || self.dialect.csv.header;
        match partition.columns.first() {
            Some((name, _)) if is_below && !has_names => {
                let place = format!("in directories that say the column {name:?}");
                let found = format!("CSV without a header {place}");
                Err(Error::unsupported(found).in_path(&self.name))
            }
            _ if has_names => Ok(Part { partition, ..self }),
            _ => Ok(self),
        }
    }

    /// The columns that its directories say.
    pub(crate) fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The raw bytes, from the start.
    pub(crate) fn handle(&self) -> Result<Handle> {
        self.bytes.handle()
    }

    /// What its bytes are; `None` where they are read once, or elsewhere, or are none.
    pub(crate) fn digest(&self) -> Result<Option<FileDigest>> {
        let digest = |mut bytes: Handle| {
            let (mut hash, mut count) = (Sha256::new(), 0);
            let mut buffer = vec![0; 1 << 16];
            loop {
                match bytes.read(&mut buffer).map_err(open_error)? {
                    0 => {
                        return Ok(Some(FileDigest {
                            sha256: hash.finalize().into(),
                            bytes: count,
                        }));
                    }
                    read => {
                        hash.update(&buffer[..read]);
                        count += read as u64;
                    }
                }
            }
        };
        match (&self.bytes, &self.copied) {
            // What was copied as CSV is another file.
            (_, Some(path)) => match open_regular(path) {
                Ok(file) => digest(Handle::File(file)),
                Err(_) => Ok(None),
            },
            (ByteSource::Path(_) | ByteSource::Scratch(_) | ByteSource::Bytes(_), None) => {
                self.unchanged(|| digest(self.handle()?))
            }
            _ => Ok(None),
        }
    }

    /// How long its bytes have been waited for so far.
    pub(crate) fn wait_time(&self) -> &WaitTime {
        &self.wait_time
    }

    /// The records of its table.
    pub(crate) fn records(&self) -> Result<Records<Box<dyn Read + Send>>> {
        let text = self.text()?;
        let text = match (self.above, self.below) {
            (0, 0) => text,
            (above, below) => Box::new(Framed::new(text, above, below)),
        };
        let text: Box<dyn Read + Send> = match &self.partition {
            partition if partition.columns.is_empty() => text,
            partition => {
                let (format, partition) = (self.format, partition.clone());
                Box::new(Extended::new(text, format, self.dialect, partition))
            }
        };
        Ok(Records::new(text, self.dialect).after_lines(self.above))
    }

    /// The text, from the start, decompressed and in UTF-8.
    fn text(&self) -> Result<Box<dyn Read + Send>> {
        let bytes = self.wait_time.timed(self.bytes.stream()?);
        let mut text: Box<dyn Read + Send> = Box::new(bytes);
        if let Some(compression) = self.compression {
            text = compression.decompress(text).map_err(read_error)?;
        }
        Ok(match self.encoding {
            Some(encoding) => encoding.reader(text),
            None => text,
        })
    }
}

/// Whether what begins so may be a spreadsheet, which is read out of order.
fn is_archive(start: &[u8]) -> bool {
    #[cfg(feature = "spreadsheets")]
    return crate::source::sheets::may_be(start);
    #[cfg(not(feature = "spreadsheets"))]
    {
        let _ = start;
        false
    }
}

/// Refuses a sheet of what is no spreadsheet.
fn no_sheet(options: &SourceOptions) -> Result<Option<SourceOptions>> {
    match options.sheet {
        Some(_) => Err(Error::usage(
            "a sheet is for spreadsheets, and this is none",
        )),
        None => Ok(None),
    }
}

/// The delimiter that a first line such as `sep=;` says, as spreadsheets write it.
fn said_delimiter(sample: &[u8]) -> Option<u8> {
    let text = sample.strip_prefix(BYTE_ORDER_MARK).unwrap_or(sample);
    let (line, _) = strip_terminator(text.split_inclusive(|byte| *byte == b'\n').next()?);
    let quoted = line
        .strip_prefix(b"\"")
        .and_then(|line| line.strip_suffix(b"\""));
    match quoted.unwrap_or(line) {
        [start @ .., delimiter] if start.eq_ignore_ascii_case(b"sep=") && delimiter.is_ascii() => {
            Some(*delimiter)
        }
        _ => None,
    }
}
