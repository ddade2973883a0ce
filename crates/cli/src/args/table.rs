//! Options on a table, and on where its result goes.

use std::str::FromStr;
use std::sync::OnceLock;

use clap::Args;
use vesica::{
    AdbcDatabase, CsvOptions, Encoding, Format, IngestMode, KeySpec, Query, Source, SourceOptions,
    TargetTable, adbc_database, parse_character, parse_delimiter, prepare_work_dir,
};

use super::values::{Quote, quote};
use crate::failure::Failure;
use crate::paths::{DatabaseUri, DriverName, InputPath, InputTable};

/// Which table, and which of its columns.
#[derive(Debug, Args)]
pub(crate) struct Table {
    /// The table: a file, an object (s3://bucket/key, gs://, az://, abfs://, https://; credentials come from the
    /// environment), or `-` for standard input. A directory or a pattern such as 'part-*.csv' stands for its files. Several
    /// files form one table, ordered by path; they have the same columns in the same order. May be given several times
    #[arg(
        help_heading = "Table",
        long,
        value_name = "FILE",
        required_unless_present = "query",
        conflicts_with = "query"
    )]
    pub(crate) input: Vec<InputTable>,
    /// SQL query whose result is the table, instead of --input; it runs once. The result has the format of --output's name,
    /// or else is an Arrow stream
    #[arg(help_heading = "Table", long, value_name = "SQL", conflicts_with_all = ["format", "delimiter", "no_header", "quote", "escape", "encoding"])]
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
    #[command(flatten)]
    form: TableForm,
}

impl Table {
    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        self.form.key()
    }

    /// Opens the table. `more` has the settings that these options do not determine.
    pub(crate) fn open(&self, more: SourceOptions) -> Result<Source, Failure> {
        Ok(self.opener(more)?.open()?)
    }

    /// The same for later.
    pub(crate) fn opener(&self, more: SourceOptions) -> Result<Opener<'_>, Failure> {
        Ok(Opener {
            options: self.form.options(more)?,
            query: self.query()?,
            input: &self.input,
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

    /// The table of the database that the result goes to, if it goes to one.
    pub(crate) fn target(&self, to: &OutputTable) -> Result<Option<TargetTable>, Failure> {
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

/// Which columns of a table are its key, and how a file is read.
#[derive(Debug, Args)]
pub(crate) struct TableForm {
    /// Key columns, separated by commas; both sides name corresponding columns in the same order. Write a comma in a name as
    /// \,. May be given several times
    #[arg(
        help_heading = "Table",
        long,
        value_name = "COL[,COL…]",
        required = true
    )]
    key: Vec<String>,
    /// How to normalise a key column: email, phone:REGION, text, integer, integer:BITS, decimal, date, timestamp,
    /// timestamp:UNIT, uuid, ipv4, ipv6, sha256-hex, pair-email, pair-phone:REGION or exact (the default). May be given once
    /// per column
    #[arg(help_heading = "Table", long, value_name = "COL=PROFILE")]
    normalize: Vec<String>,
    /// Format of the table; detected if not given
    #[arg(help_heading = "Table", long, value_name = Format::names("|"))]
    format: Option<String>,
    /// Delimiter of CSV, one character or `tab`; detected if not given
    #[arg(help_heading = "Table", long, value_name = "CHAR", value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// The first row of CSV is data; columns are called 1, 2, and so on
    #[arg(help_heading = "Table", long)]
    no_header: bool,
    /// Quote character of CSV fields, or `none`
    #[arg(help_heading = "Table", long, value_name = "CHAR", default_value = "\"", value_parser = quote)]
    quote: Quote,
    /// Character that escapes a quote within quotes, besides another quote
    #[arg(help_heading = "Table", long, value_name = "CHAR", value_parser = parse_character)]
    escape: Option<u8>,
    /// Encoding of CSV and JSON Lines, such as windows-1252, shift_jis or utf-16; UTF-8 if not given. The result is always
    /// UTF-8
    #[arg(help_heading = "Table", long, value_name = "NAME")]
    encoding: Option<String>,
    /// Text that means null in the key, such as NULL or \N. May be given several times
    #[arg(help_heading = "Table", long, value_name = "TEXT")]
    null: Vec<String>,
}

impl TableForm {
    pub(crate) fn key(&self) -> Result<KeySpec, Failure> {
        let key = KeySpec::parse_all(&self.key, &self.normalize)?;
        Ok(key.with_nulls(self.null.clone()))
    }

    /// The options of a table. `more` has the settings that these do not determine.
    pub(crate) fn options(&self, more: SourceOptions) -> Result<SourceOptions, Failure> {
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
            },
            encoding: match &self.encoding {
                Some(name) => Some(name.parse::<Encoding>()?),
                None => None,
            },
            ..more
        })
    }
}

/// Which table of the database a result goes to.
#[derive(Debug, Args)]
pub(crate) struct OutputTable {
    /// Table of --database for the matching rows, instead of --output: NAME or SCHEMA.NAME. It is written in one transaction,
    /// once all rows are known. Columns of a text file become text columns. A SQLite file has to exist; it may be empty
    #[arg(
        help_heading = "Result",
        long,
        value_name = "NAME",
        conflicts_with = "output"
    )]
    output_table: Option<String>,
    /// create makes a new table, and fails if there is one; append adds rows to an existing table, by column name; replace
    /// drops an existing table, with its grants, indexes and triggers, and makes a new one
    #[arg(help_heading = "Result", long, value_name = "create|append|replace", default_value = "create",
          requires = "output_table", value_parser = IngestMode::from_str)]
    output_table_mode: IngestMode,
}

impl OutputTable {
    pub(crate) fn is_given(&self) -> bool {
        self.output_table.is_some()
    }
}
