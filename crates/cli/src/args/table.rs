//! Options on a table.

use std::path::Path;
use std::sync::OnceLock;

use clap::{ArgGroup, Args};
use vesica::options::{adbc_database, denied_values, parse_character, parse_delimiter};
use vesica::tables::{AdbcDatabase, CsvOptions, Encoding, Format, Query, TargetTable};
use vesica::{KeySpec, Source, SourceOptions, prepare_work_dir};

use super::values::{Quote, quote};
use crate::failure::Failure;
use crate::options::ResultOptions;
use crate::paths::{DatabaseUri, DriverName, InputPath, InputTable, STDIN};

/// Which table, and which of its columns.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("which_table").required(true).args(["input", "query"]),
    group = ArgGroup::new("which_key").required(true).args(["key", "identifiers"])
)]
pub(crate) struct Table {
    /// The table: a file, an object (s3://bucket/key, gs://, az://, abfs://, https://; credentials come from the
    /// environment), or `-` for standard input. A directory or a pattern such as 'part-*.csv' stands for its files. Several
    /// files form one table, ordered by path; they have the same columns in the same order. May be given several times
    #[arg(help_heading = "Table", long, value_name = "FILE")]
    input: Vec<InputTable>,
    /// SQL query whose result is the table, instead of --input; it runs once. The result has the format of --output's name,
    /// or else is an Arrow stream
    #[arg(help_heading = "Table", long, value_name = "SQL", conflicts_with_all = ["format", "delimiter", "no_header", "quote", "escape", "skip_initial_space", "skip_rows", "skip_footer", "sheet", "encoding"])]
    query: Option<String>,
    /// Database for --query and --output-table: postgresql://HOST/NAME, sqlite:FILE, or another URI that its driver takes.
    /// Give no password here, where other users can see it, but in --database-file or the environment variable
    /// VESICA_DATABASE
    #[arg(help_heading = "Table", long, value_name = "URI")]
    database: Option<DatabaseUri>,
    /// File with the URI of the database; only its owner may be able to read it
    #[arg(help_heading = "Table", long, value_name = "FILE")]
    database_file: Option<InputPath>,
    /// ADBC driver of the database, by name or path; if not given, the one that the URI names
    #[arg(help_heading = "Table", long, value_name = "NAME|PATH")]
    driver: Option<DriverName>,
    /// Key columns, separated by commas; both sides name corresponding columns in the same order. Write a comma in a name as
    /// \,. May be given several times
    #[arg(help_heading = "Table", long, value_name = "COL[,COL…]")]
    key: Vec<String>,
    /// In place of --key: one of several identifiers of a row, with a name and its columns, as in `phone=country,tel`. Given
    /// several times, a row matches if any of its identifiers is the other side's of the same name. Both sides give the same
    /// names in the same order; columns may differ
    #[arg(
        help_heading = "Table",
        id = "identifiers",
        long = "match",
        value_name = "NAME=COL[,COL…]"
    )]
    identifiers: Vec<String>,
    /// Column of lists, the only one of an identifier, and the character between their elements, as in `mails=;`. Each element
    /// is a value of the identifier. May be given once per column
    #[arg(
        help_heading = "Table",
        id = "lists",
        long = "split",
        value_name = "COL=CHAR"
    )]
    lists: Vec<String>,
    /// How to normalise a key column: email, phone:REGION, text, name, name:given, name:family, date, date:DMY, date:MDY,
    /// date:YMD, postcode:REGION, integer, integer:BITS, decimal, decimal:comma, timestamp, timestamp:UNIT, uuid, ipv4, ipv6,
    /// sha256-hex, pair-email, pair-phone:REGION, uid2-email, google-email, meta-phone:REGION or exact (the default). With @N
    /// behind it, the first N characters of what it makes of a value are compared. May be given once per column
    #[arg(help_heading = "Table", long, value_name = "COL=PROFILE")]
    normalize: Vec<String>,
    /// Format of the table; detected if not given
    #[arg(help_heading = "Table", long, value_name = Format::names("|"))]
    format: Option<String>,
    /// Delimiter of CSV, one character or `tab`; detected if not given
    #[arg(help_heading = "Table", long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// The first row of CSV or of a sheet is data; columns are called 1, 2, and so on
    #[arg(help_heading = "Table", long)]
    no_header: bool,
    /// Quote character of CSV fields, or `none`
    #[arg(help_heading = "Table", long, value_name = "CHAR", default_value = "\"", value_parser = quote)]
    quote: Quote,
    /// Character that escapes a quote within quotes, besides another quote
    #[arg(help_heading = "Table", long, value_name = "CHAR", value_parser = parse_character)]
    escape: Option<u8>,
    /// Lines above the table in each file of CSV, or rows of a spreadsheet, such as a title, to leave out. Without this, a first line such as `sep=;` is
    /// left out and says the delimiter
    #[arg(help_heading = "Table", long, value_name = "N", default_value_t = 0)]
    skip_rows: u64,
    /// Lines below the table in each file of CSV, or rows of a spreadsheet, such as a total, to leave out; blank lines at the end
    /// do not count
    #[arg(help_heading = "Table", long, value_name = "N", default_value_t = 0, value_parser = parse_footer)]
    skip_footer: usize,
    /// Sheet of a spreadsheet (default: the first that is shown)
    #[arg(help_heading = "Table", long, value_name = "NAME")]
    sheet: Option<String>,
    /// Spaces at the start of a CSV field mean nothing, so that `1, "a, b"` has two fields
    #[arg(help_heading = "Table", long)]
    skip_initial_space: bool,
    /// Encoding of CSV and JSON Lines, such as windows-1252, shift_jis or utf-16; UTF-8 if not given. The result is always
    /// UTF-8
    #[arg(help_heading = "Table", long, value_name = "NAME")]
    encoding: Option<String>,
    /// Text that means null in the key, such as NULL or \N. May be given several times
    #[arg(help_heading = "Table", long, value_name = "TEXT")]
    null: Vec<String>,
    /// File of values that take no part, one a line, such as test@test.com; they are normalised as the key is, which has one
    /// column, or as each identifier of one column. The peer is told nothing of them
    #[arg(help_heading = "Table", long, value_name = "FILE")]
    deny: Option<InputPath>,
}

/// Most lines below a table.
const MAX_FOOTER: usize = 1000;

fn parse_footer(text: &str) -> Result<usize, String> {
    let lines = text.parse().ok().filter(|lines| *lines <= MAX_FOOTER);
    lines.ok_or_else(|| format!("lines below a table are a number up to {MAX_FOOTER}"))
}

impl Table {
    /// Whether there is one, for commands that do without.
    pub(crate) fn is_given(&self) -> bool {
        !self.input.is_empty() || self.query.is_some()
    }

    /// Whether standard input is a table, or a part of one.
    pub(crate) fn reads_stdin(&self) -> bool {
        let mut input = self.input.iter();
        input.any(|path| STDIN.iter().any(|name| **path == *Path::new(name)))
    }

    /// Whether a key is named.
    pub(crate) fn has_key(&self) -> bool {
        !self.key.is_empty() || !self.identifiers.is_empty()
    }

    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        let key = match &self.identifiers[..] {
            [] if !self.lists.is_empty() => {
                return Err(Failure::usage("--split goes with --match"));
            }
            [] => KeySpec::parse_all(&self.key, &self.normalize)?,
            identifiers => {
                KeySpec::parse_any_of(identifiers, &self.normalize)?.with_lists(&self.lists)?
            }
        };
        let key = key.with_nulls(self.null.clone());
        match &self.deny {
            Some(path) => Ok(key.with_denied(&denied_values(path)?)?),
            None => Ok(key),
        }
    }

    /// Opens other files in the form of the table.
    pub(crate) fn open_files(
        &self,
        files: &[InputTable],
        more: SourceOptions,
    ) -> Result<Source, Failure> {
        Ok(Source::open_all(
            &InputTable::all(files),
            &self.options(more)?,
        )?)
    }

    /// Opens the table. `more` has the settings that these options do not determine.
    pub(crate) fn open(&self, more: SourceOptions) -> Result<Source, Failure> {
        Ok(self.opener(more)?.open()?)
    }

    /// The same for later.
    pub(crate) fn opener(&self, more: SourceOptions) -> Result<Opener<'_>, Failure> {
        Ok(Opener {
            options: self.options(more)?,
            query: self.query()?,
            input: &self.input,
        })
    }

    /// The options of a table. `more` has the settings that these do not determine.
    fn options(&self, more: SourceOptions) -> Result<SourceOptions, Failure> {
        Ok(SourceOptions {
            format: match &self.format {
                Some(name) => Some(name.parse::<Format>()?),
                None => None,
            },
            delimiter: self.delimiter,
            csv: CsvOptions {
                header: !self.no_header,
                quote: self.quote.0,
                escape: self.escape,
                skip_initial_space: self.skip_initial_space,
            },
            skip_rows: self.skip_rows,
            skip_footer: self.skip_footer,
            sheet: self.sheet.clone(),
            encoding: match &self.encoding {
                Some(name) => Some(name.parse::<Encoding>()?),
                None => None,
            },
            ..more
        })
    }

    fn database(&self) -> Result<AdbcDatabase, Failure> {
        let (uri, file) = (self.database.as_deref(), self.database_file.as_deref());
        Ok(adbc_database(uri, file, self.driver.as_deref())?)
    }

    fn query(&self) -> Result<Option<Query>, Failure> {
        match &self.query {
            Some(sql) => Ok(Some(Query::new(sql, self.database()?)?)),
            None => Ok(None),
        }
    }

    /// The table of the database that a result goes to, if it goes to one.
    pub(crate) fn target(&self, to: &ResultOptions) -> Result<Option<TargetTable>, Failure> {
        if to.matched_by.is_some() && self.identifiers.is_empty() {
            return Err(Failure::usage("--matched-by goes with --match"));
        }
        match &to.output_table {
            Some(name) => {
                let (mode, database) = (to.output_table_mode, self.database()?);
                Ok(Some(TargetTable::new(name, mode, database)?))
            }
            None => Ok(None),
        }
    }
}

/// A table that is not open yet.
pub(crate) struct Opener<'a> {
    options: SourceOptions,
    query: Option<Query>,
    input: &'a [InputTable],
}

impl Opener<'_> {
    /// Opens it. A work directory for what is kept of it is made if missing.
    pub(crate) fn open(&self) -> Result<Source, vesica::Error> {
        let scratch = self.options.scratch.as_deref();
        if let Some(scratch) = scratch {
            prepare_work_dir(scratch)?;
        }
        let source = match &self.query {
            Some(query) => Source::query(query, &self.options),
            None => Source::open_all(&InputTable::all(self.input), &self.options),
        };
        Ok(source.inspect_err(|_| {
            if let Some(scratch) = scratch {
                // Only if nothing is in it.
                let _ = std::fs::remove_dir(scratch);
            }
        })?)
    }

    /// The same for a run, for which `opened` keeps the table.
    pub(crate) fn open_into<'s>(
        &self,
        opened: &'s OnceLock<Source>,
    ) -> Result<&'s Source, vesica::Error> {
        let source = self.open()?;
        Ok(opened.get_or_init(|| source))
    }
}
