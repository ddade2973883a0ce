//! Opening tables: files, standard input, bytes in memory.

pub(crate) mod byte_source;
pub(crate) mod compression;
pub(crate) mod dialect;
pub(crate) mod encoding;
mod files;
pub(crate) mod framed;
pub(crate) mod options;
pub(crate) mod part;
pub(crate) mod partition;
pub(crate) mod paths;
pub(crate) mod records;
pub(crate) mod scratch;
#[cfg(feature = "spreadsheets")]
mod sheets;
pub(crate) mod sniff;
pub(crate) mod text;
pub(crate) mod wait_time;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use vesica_files::{Argument, Readers, advice};

#[cfg(feature = "adbc")]
use crate::database::{QUERY_NAME, Query};
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::objects::address::shown;
use crate::profile::key::KeySpec;
use crate::source::compression::Compression;
use crate::source::files::Found;
use crate::source::options::{ResultRows, Rows, SourceOptions};
use crate::source::part::Part;
use crate::source::paths::{PathKind, Paths};
use crate::types::column_type::{ColumnType, KeyClass};

/// What the bytes of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// Their SHA-256.
    pub sha256: [u8; 32],
    /// How many they are.
    pub bytes: u64,
}

/// A table that can be read as often as its options say: one file, or several in order.
#[derive(Debug)]
pub struct Source {
    name: String,
    /// At least one. All have one format and, if they are CSV, one delimiter.
    parts: Vec<Part>,
    rows: Rows,
    matched_by: Option<String>,
    columns: Vec<String>,
    allow_no_rows: bool,
    #[cfg(feature = "adbc")]
    query: Option<Query>,
}

impl Source {
    /// Opens a table, as [`Source::open_all`] opens one input.
    ///
    /// # Errors
    /// As there.
    pub fn open(path: impl AsRef<Path>, options: SourceOptions) -> Result<Self> {
        Source::open_all(&[path.as_ref().to_owned()], &options)
    }

    /// Opens one table that is in several files, ordered by their paths. An input is
    ///
    /// - a file, or `-` for standard input. A pipe is read as [`Source::from_reader`] says;
    /// - a directory: the files in it, but for those whose names begin with `.` or `_`, as Spark names what is
    ///   no data; and those in directories in it that are called `name=value`;
    /// - a pattern with `*`, `?` or `[…]`, unless a file has that very name: what it fits, but for such files;
    /// - with the feature `object-stores`, an address: `s3://`, `gs://`, `az://` and `abfs://` of an object, a directory or
    ///   a pattern, `https://` of an object. Credentials and settings come from the environment. Whatever is read of
    ///   an object is of one version, or reading fails.
    ///
    /// Directories called `name=value`, below one that is named or from the first wildcard of a pattern on, say columns of
    /// text, which come after those of the files, unless these are CSV without a header.
    ///
    /// All have the same columns in the same order, which the first pass checks, and one format. Files of text may
    /// be empty, but not all of them.
    ///
    /// # Errors
    /// Usage: a delimiter that cannot be one, options of another format, a file that is named twice, no input. Data:
    /// nothing there, another directory in a directory, unreadable, empty, or in a format that is none of [`Format`].
    /// Resource: no room for a copy.
    pub fn open_all(inputs: &[PathBuf], options: &SourceOptions) -> Result<Self> {
        let parts = files::expand(inputs)?
            .into_iter()
            .map(|found| {
                let (partition, is_below) = (found.partition()?, found.is_below());
                let part = match found {
                    Found::File { path, .. } => Part::open(&path, options),
                    #[cfg(feature = "object-stores")]
                    Found::Object(object) => Part::of_object(object, options),
                };
                part?.in_directories(partition, is_below)
            })
            .collect::<Result<Vec<_>>>()?;
        let name = match inputs {
            [input] if parts.len() > 1 => shown(input),
            _ => String::new(),
        };
        Source::of(name, parts, options)
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
        input: impl Read + Send + 'static,
        options: SourceOptions,
    ) -> Result<Self> {
        let part = Part::from_reader(name, input, &options)?;
        Source::of(String::new(), vec![part], &options)
    }

    /// A table in memory. `name` is what errors call it; its extension counts as that of a file
    /// does.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>, options: SourceOptions) -> Result<Self> {
        let part = Part::from_bytes(name, bytes.into(), &options)?;
        Source::of(String::new(), vec![part], &options)
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
            return Err(Error::usage(problem).in_path(name));
        }
        let part = Part::from_batches(name, schema, batches, options);
        Source::of(String::new(), vec![part], options)
    }

    /// The result of a query. The database is asked once, and its answer copied to an encrypted file without a name.
    ///
    /// # Errors
    /// Usage: the driver cannot be loaded. Data: the database cannot be reached, refuses the query, or answers without
    /// a row. Resource: no room for the copy.
    #[cfg(feature = "adbc")]
    pub fn query(query: &Query, options: &SourceOptions) -> Result<Self> {
        let part =
            query.ask(|stream, file| Part::from_answer(QUERY_NAME, stream, file, options))?;
        let source = Source::of(String::new(), vec![part], options)?;
        Ok(Source {
            query: Some(query.clone()),
            ..source
        })
    }

    /// The query whose result it is.
    #[cfg(feature = "adbc")]
    pub(crate) fn asked(&self) -> Option<&Query> {
        self.query.as_ref()
    }

    /// Parts as one table. Without a name it is called after its first part.
    fn of(mut name: String, mut parts: Vec<Part>, options: &SourceOptions) -> Result<Self> {
        let mut columns = options.columns.iter().enumerate();
        if let Some((_, twice)) = columns.find(|(i, name)| options.columns[..*i].contains(name)) {
            let problem = format!("the result has the column {twice:?} twice");
            return Err(Error::usage_with(problem, "name each column once"));
        }
        let Some(first) = parts.iter().position(|part| !part.is_empty()).or(
            // Nothing at all is a table without rows where the format does not say what else there must be.
            (options.allow_no_rows && parts.first().is_some_and(|p| !p.dialect().csv.header))
                .then_some(0),
        ) else {
            let error = match parts.first() {
                Some(part) => Error::new(ErrorKind::Empty).in_path(part.name()),
                None => Error::usage("there is no input"),
            };
            return Err(error);
        };
        if name.is_empty() {
            name = parts[0].name().to_owned();
            match parts.len() - 1 {
                0 => {}
                more => name.push_str(&format!(" and {more} more")),
            }
        }
        // The delimiter is guessed where there is something to guess from.
        let (before, rest) = parts.split_at_mut(first);
        let (first, after) = rest.split_first_mut().expect("there is a first part");
        for part in before.iter_mut().chain(after) {
            part.follow(first)?;
        }
        for (i, part) in parts.iter().enumerate() {
            if parts[..i].iter().any(|other| part.is_same_as(other)) {
                return Err(Error::usage("is named twice").in_path(part.name()));
            }
        }
        Ok(Source {
            name,
            parts,
            rows: options.rows,
            matched_by: options.matched_by.clone(),
            columns: options.columns.clone(),
            allow_no_rows: options.allow_no_rows,
            #[cfg(feature = "adbc")]
            query: None,
        })
    }

    /// What the table is called in messages: its path, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many files it is in.
    pub fn files(&self) -> usize {
        self.parts.len()
    }

    /// The name of each of its files, with the SHA-256 and the number of its bytes: `None` for what is read once, or has no
    /// bytes here. Reads all of them.
    ///
    /// # Errors
    /// Data: a file was changed since it was opened, or cannot be read.
    pub fn digests(&self) -> Result<Vec<(&str, Option<FileDigest>)>> {
        let digests = self.parts.iter().map(|part| {
            let digest = part.digest().map_err(|e| e.in_path(part.name()))?;
            Ok((part.name(), digest))
        });
        digests.collect()
    }

    /// How long its bytes have been waited for in all passes so far: for a disk, a network, or whoever writes a pipe that is
    /// read once. To copy them from the system's cache counts too.
    pub fn wait_time(&self) -> Duration {
        self.parts.iter().map(|part| part.wait_time().time()).sum()
    }

    pub(crate) fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The first part, which stands for all in what they have in common.
    pub(crate) fn first(&self) -> &Part {
        &self.parts[0]
    }

    /// Which of its rows a result has.
    pub fn rows(&self) -> Rows {
        self.rows
    }

    /// The same, and what is written beside them.
    pub(crate) fn result_rows(&self) -> ResultRows<'_> {
        ResultRows {
            rows: self.rows,
            matched_by: self.matched_by.as_deref(),
            columns: &self.columns,
        }
    }

    /// Whether it may be without rows.
    pub(crate) fn allows_no_rows(&self) -> bool {
        self.allow_no_rows
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.first().format()
    }

    /// Whether its first file is a spreadsheet, which is read as CSV.
    pub fn is_spreadsheet(&self) -> bool {
        self.first().is_spreadsheet()
    }

    /// How its first file is compressed as a whole, if it is.
    pub fn compression(&self) -> Option<Compression> {
        self.first().compression()
    }

    /// Checks that columns of any text can be added to results.
    ///
    /// # Errors
    /// Usage: CSV without quotes.
    pub fn check_added_texts(&self) -> Result<()> {
        let unable = |part: &Part| self.format() == Format::Csv && !part.dialect().has_quotes();
        match self.parts().iter().any(unable) {
            true => Err(Error::usage_with(
                "columns of the peer cannot be added to CSV without quotes",
                advice!["give another ", Argument::Quote, " than none"],
            )),
            false => Ok(()),
        }
    }

    /// What the values of the columns of these names are: texts in CSV and JSON Lines, and where there is no such column.
    ///
    /// # Errors
    /// Data: a file is damaged.
    pub fn column_types(&self, names: &[String]) -> Result<Vec<ColumnType>> {
        let types = self.format().column_types(self.parts(), names)?;
        Ok(types.iter().map(ColumnType::of).collect())
    }

    /// What the values of a key's columns are, in the first file and in the order of [`KeySpec::normalization`].
    ///
    /// # Errors
    /// Data: a file is damaged.
    pub fn key_classes(&self, key: &KeySpec) -> Result<Vec<KeyClass>> {
        let types = (self.format()).column_types(&self.parts()[..1], &key.names())?;
        let classes = key
            .columns_in_turn()
            .map(|column| KeyClass::of(&types[column]));
        Ok(classes.collect())
    }

    /// The delimiter, if the table is CSV.
    pub fn csv_delimiter(&self) -> Option<u8> {
        (self.format() == Format::Csv).then_some(self.first().dialect().delimiter)
    }

    /// Who may read all of its files, and so what is made of them; only this user where it is something else.
    pub fn readers(&self) -> Readers {
        let readers = self.parts.iter().map(Part::readers);
        readers.reduce(Readers::and).unwrap_or(Readers::OWNER)
    }

    /// Adds its files to what a command reads.
    pub fn add_to(&self, paths: &mut Paths) {
        #[cfg(feature = "adbc")]
        let is_answer = self.query.is_some();
        #[cfg(not(feature = "adbc"))]
        let is_answer = false;
        let kind = match is_answer {
            true => PathKind::Database,
            false => PathKind::File,
        };
        self.parts.iter().for_each(|part| part.add_to(kind, paths));
    }

    /// Names the file of an error that a first pass met. The row of the error is counted over all files; afterwards
    /// it is that of the file. `ends` are the rows up to the end of each file that has been read.
    pub(crate) fn locate(&self, mut error: Error, ends: &[u64]) -> Error {
        let part_of = |row: u64| ends.partition_point(|end| *end < row);
        let before = |part: usize| part.checked_sub(1).map_or(0, |last| ends[last]);
        if let Some(other) = error.other_row()
            && let Some(row) = &mut other.row
        {
            let part = part_of(*row);
            *row -= before(part);
            other.path = self.parts.get(part).map(|file| file.name().to_owned());
        }
        let part = error.place().row.map_or(ends.len(), part_of);
        match self.parts.get(part) {
            Some(file) => error.after_rows(before(part)).in_path(file.name()),
            None => error.in_path(&self.name),
        }
    }
}
