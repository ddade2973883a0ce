//! Result files that appear complete or not at all.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

#[cfg(feature = "adbc")]
use arrow_schema::Schema;
use arrow_schema::SchemaRef;
use vesica_files::WholeFile;
use vesica_kernels::process::standard_output_was_open;

use crate::error::{Error, Result};
use crate::format::Format;
#[cfg(feature = "adbc")]
use crate::formats::columnar::{with_chosen, with_fields};
use crate::formats::container::Container;
use crate::formats::limits::{Limits, Unlimited};
#[cfg(feature = "adbc")]
use crate::formats::selection::Added;
use crate::objects::address::{Address, shown};
#[cfg(feature = "object-stores")]
use crate::objects::upload::Upload;
use crate::result::background::in_background;
#[cfg(feature = "adbc")]
use crate::result::ingest::{Ingest, TargetTable};
use crate::scan::counts::Counts;
use crate::source::Source;
use crate::source::compression::Compression;
use crate::source::paths::{PathKind, Paths};
use crate::source::scratch::{ScratchReader, ScratchWriter, unwritable};
use crate::source::sniff;
use crate::types::peer_columns::PeerColumn;

/// Where a result goes.
#[derive(Clone, Copy, Debug)]
pub enum Destination<'a> {
    /// A file, an object at an address, or standard output, as [`Output::create`] says.
    File(&'a Path),
    /// A table of a database.
    #[cfg(feature = "adbc")]
    Table(&'a TargetTable),
}

impl<'a> Destination<'a> {
    /// The table if there is one, or else the file, if there is one.
    #[cfg(feature = "adbc")]
    pub fn of(table: Option<&'a TargetTable>, file: Option<&'a Path>) -> Option<Destination<'a>> {
        let file = file.map(Destination::File);
        table.map(Destination::Table).or(file)
    }

    /// Adds it to what a command writes.
    pub fn add_to(self, paths: &mut Paths) {
        match self {
            Destination::File(path) => paths.writes("the output", PathKind::File, path),
            #[cfg(feature = "adbc")]
            Destination::Table(table) => {
                for file in table.database().paths() {
                    paths.writes("the database", PathKind::Database, &file);
                }
            }
        }
    }

    /// The path, if it is one.
    pub fn path(self) -> Option<&'a Path> {
        match self {
            Destination::File(path) => Some(path),
            #[cfg(feature = "adbc")]
            Destination::Table(_) => None,
        }
    }
}

impl<'a> From<&'a Path> for Destination<'a> {
    fn from(path: &'a Path) -> Self {
        Destination::File(path)
    }
}

/// A result that appears under its name only after [`Output::commit`]. Dropped before, it leaves nothing.
#[derive(Debug)]
pub struct Output {
    name: String,
    target: Target,
    compression: Option<Compression>,
    container: Container,
    /// Whether it holds rows of a text in another form than there.
    rewrites_text: bool,
}

#[derive(Debug)]
enum Target {
    /// With text that was written before all of it is known, in an encrypted file without a name.
    Stdout(Option<ScratchWriter>),
    File(WholeFile),
    #[cfg(feature = "object-stores")]
    Object(Upload),
    #[cfg(feature = "adbc")]
    Table(Ingest),
}

impl Output {
    /// Opens the output. Do so before the protocol runs, so that a path that cannot be written is known
    /// early. `-` is standard output, and an address such as `s3://bucket/key` an object, which takes the place of another once
    /// it is complete. The format is the one that the name stands for; otherwise that of `source`, and an
    /// Arrow stream if `source` is record batches in memory or the answer of a database. In another format the columns of a
    /// text are texts, and typed columns get the [texts](crate#when-two-keys-are-equal) that keys have. Text is compressed if
    /// the name ends in `.gz` or `.zst`. Nobody may read the file who may not read `source` ([`Source::readers`]).
    ///
    /// # Errors
    /// Usage: no such directory, no permission, a directory, a name of another format or
    /// compression, the source itself, standard output that is closed, a terminal for a binary
    /// format, an object that may not be written. Data: columns that the format has no room for: lists in text, or two of one
    /// name; whatever else makes it impossible to write them. Resource: the disk is full.
    pub fn create(path: &Path, source: &Source) -> Result<Self> {
        let mut container = Container::of(source.first(), &shown(path));
        let is_other = source.parts().iter().any(|part| !container.is_of(part));
        if is_other {
            container.columns = columns(source, container.format)?;
        }
        rehearse(source, &[], &container)?;
        Ok(Output {
            rewrites_text: is_other && source.format().is_text(),
            ..Self::create_with(path, source, container)?
        })
    }

    /// Opens an output for rows of `source`, in a file as [`Output::create`] does, or in a table of a database. Rows for a
    /// table wait in an encrypted file without a name in `scratch`, and are written in one transaction by
    /// [`Output::commit`]. The columns of a text are texts. Whether the table can be written to is found out here.
    ///
    /// # Errors
    /// As there. Of a table: usage, if the driver cannot be loaded, or the table is there or not there against what
    /// was said, or has other columns; data, if the database cannot be reached or refuses, or has no room for a type.
    #[cfg_attr(
        not(feature = "adbc"),
        allow(unused_variables, reason = "tables of databases alone need it")
    )]
    pub fn open(destination: Destination<'_>, source: &Source, scratch: &Path) -> Result<Self> {
        match destination {
            Destination::File(path) => Output::create(path, source),
            #[cfg(feature = "adbc")]
            Destination::Table(table) => {
                let name = table.shown();
                let container = Container::stream(columns(source, Format::Arrow)?);
                rehearse(source, &[], &container)?;
                let written = result_columns(&container, source, &[])?;
                let begin = || {
                    source
                        .asked()
                        .map_or(Ok(()), |query| table.check_not_read(query))?;
                    Ingest::begin(table, &written, scratch)
                };
                Ok(Output {
                    target: Target::Table(begin().map_err(|e| e.in_path(&name))?),
                    name,
                    compression: None,
                    container,
                    rewrites_text: source.format().is_text(),
                })
            }
        }
    }

    /// Opens an output for CSV with commas, whatever the format of `source`, as [`Output::create`] does.
    ///
    /// # Errors
    /// As there.
    pub fn create_csv(path: &Path, source: &Source) -> Result<Self> {
        Self::create_with(path, source, Container::csv())
    }

    fn create_with(path: &Path, source: &Source, container: Container) -> Result<Self> {
        if path.as_os_str() == "-" {
            let name = "standard output".to_owned();
            if !standard_output_was_open() {
                let hint = "name an output file, or leave standard output open";
                return Err(Error::usage_with("is closed", hint).in_path(&name));
            }
            let format = container.format;
            if !format.is_text() && io::stdout().is_terminal() {
                let reason = format!("{format} is not for a terminal");
                return Err(Error::usage_with(
                    reason,
                    "name an output file, or redirect standard output",
                ));
            }
            return Ok(Output {
                name,
                target: Target::Stdout(None),
                compression: None,
                container,
                rewrites_text: false,
            });
        }
        let (name, address) = (shown(path), Address::of(path).transpose()?);
        check_apart(path, source)?;
        let created = match address {
            Some(address) => create_object(&address, &name, &container),
            None => create(path, &name, source, &container),
        };
        let (target, compression) = created.map_err(|e| e.in_path(&name))?;
        Ok(Output {
            name,
            target,
            compression,
            container,
            rewrites_text: false,
        })
    }

    /// What rows are written to it as.
    pub(crate) fn container(&self) -> &Container {
        &self.container
    }

    /// Fails if rows of `source` could not be written with these columns of the peer behind their own: writes none, as
    /// [`Output::open`] does before any column of the peer is known.
    ///
    /// # Errors
    /// As there.
    pub fn check_columns(&self, source: &Source, of_peer: &[PeerColumn]) -> Result<()> {
        rehearse(source, of_peer, &self.container)?;
        #[cfg(feature = "adbc")]
        if let Target::Table(rows) = &self.target {
            let checked = rows.check_columns(&result_columns(&self.container, source, of_peer)?);
            checked.map_err(|e| e.in_path(&self.name))?;
        }
        Ok(())
    }

    /// Fails if any row of `source`, which was counted, could not be written, whether it matches or not. Texts are UTF-8 in
    /// another format. Columns are read that may have values for which the result has no room: of most tables none.
    ///
    /// # Errors
    /// Data: there are rows that are not UTF-8, or values for which there is no room. Resource: a row is too large.
    pub fn check_rows(&self, source: &Source, counts: &Counts) -> Result<()> {
        if self.rewrites_text {
            counts.check_utf8(source)?;
        }
        let limits: &dyn Limits = match &self.target {
            #[cfg(feature = "adbc")]
            Target::Table(rows) => rows,
            _ => &Unlimited,
        };
        let (format, parts) = (source.format(), source.parts());
        let rows = source.result_rows();
        let checked = format.check(parts, rows, &self.container, limits);
        checked.map_err(|e| e.in_path(source.name()))
    }

    /// What the output is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts the finished file in its place: flushed to the disk, then renamed. Writes rows to a table, in one transaction.
    /// Returns how many values of the peer's columns are null since the database does not take them.
    ///
    /// # Errors
    /// Resource: the disk is full. Usage: the directory is gone. Data: the database refuses the rows. Nothing is left then.
    pub fn commit(self) -> Result<u64> {
        let name = self.name;
        let put = match self.target {
            Target::Stdout(held) => give_out(held),
            Target::File(file) => file.commit(),
            #[cfg(feature = "object-stores")]
            Target::Object(upload) => upload.commit(),
            #[cfg(feature = "adbc")]
            Target::Table(rows) => return rows.commit().map_err(|e| e.in_path(&name)),
        };
        put.map(|()| 0).map_err(|e| unwritable(e).in_path(&name))
    }

    /// Lets `f` write a piece of text of its own, buffered, and compressed if the name asks for it. Other pieces may follow:
    /// nothing is on standard output before [`Output::commit`].
    ///
    /// # Errors
    /// Resource: the disk is full, or what else `f` meets.
    pub fn write_text(
        &mut self,
        f: impl FnOnce(&mut (dyn Write + Send)) -> io::Result<()>,
    ) -> Result<()> {
        if let Target::Stdout(held @ None) = &mut self.target {
            *held = Some(ScratchWriter::create(&std::env::temp_dir()).map_err(unwritable)?);
        }
        let written = self.write(|out| f(out).map_err(unwritable));
        written.map_err(|e| e.in_path(&self.name))
    }

    /// Lets `f` write, buffered and compressed as the output asks.
    pub(crate) fn write<T>(
        &mut self,
        f: impl FnOnce(&mut (dyn Write + Send)) -> Result<T>,
    ) -> Result<T> {
        match &mut self.target {
            Target::Stdout(None) => through(io::stdout(), self.compression, f),
            Target::Stdout(Some(held)) => through(held, self.compression, f),
            Target::File(file) => through(file, self.compression, f),
            #[cfg(feature = "object-stores")]
            Target::Object(upload) => through(upload, self.compression, f),
            #[cfg(feature = "adbc")]
            Target::Table(rows) => through(rows, self.compression, f),
        }
    }
}

/// The columns of a table, if the format `to` has room for each.
fn columns(source: &Source, to: Format) -> Result<SchemaRef> {
    let chosen = source.result_rows().columns;
    let columns = source.format().columns(source.parts(), to, chosen);
    columns.map_err(|e| e.in_path(source.name()))
}

/// Fails if a result with columns of these types, and these of the peer, cannot be written.
fn rehearse(source: &Source, of_peer: &[PeerColumn], container: &Container) -> Result<()> {
    let (parts, rows) = (source.parts(), source.result_rows());
    let rehearsed = source.format().rehearse(parts, rows, of_peer, container);
    rehearsed.map_err(|e| e.in_path(source.name()))
}

/// The columns of a table that a result has, that which its options add to it, and the peer's.
#[cfg(feature = "adbc")]
fn result_columns(
    container: &Container,
    source: &Source,
    of_peer: &[PeerColumn],
) -> Result<Schema> {
    let (columns, rows) = (&container.columns, source.result_rows());
    let taken = |name: &str| columns.column_with_name(name).is_some();
    let added = Added::all(rows, of_peer, taken);
    let chosen = with_chosen(columns, rows.columns);
    Ok(with_fields(
        &*chosen.map_err(|e| e.in_path(source.name()))?,
        &added?,
    ))
}

/// Writes what was held back to standard output.
fn give_out(held: Option<ScratchWriter>) -> io::Result<()> {
    let mut out = io::stdout();
    if let Some(held) = held {
        io::copy(&mut ScratchReader::new(held.finish()?.into()), &mut out)?;
    }
    out.flush()
}

fn through<T>(
    file: impl Write + Send,
    compression: Option<Compression>,
    f: impl FnOnce(&mut (dyn Write + Send)) -> Result<T>,
) -> Result<T> {
    in_background(file, |mut buffered| {
        let result = match compression {
            Some(compression) => compression.compress(&mut buffered, f, unwritable)?,
            None => f(buffered)?,
        };
        buffered.flush().map_err(unwritable)?;
        Ok(result)
    })
}

/// Refuses an output in the place of a file of the input.
fn check_apart(path: &Path, source: &Source) -> Result<()> {
    let mut paths = Paths::default();
    source.add_to(&mut paths);
    paths.writes("the output", PathKind::File, path);
    paths.check()
}

fn create(
    path: &Path,
    name: &str,
    source: &Source,
    container: &Container,
) -> Result<(Target, Option<Compression>)> {
    check_name(name, container)?;
    if path.is_dir() {
        return Err(Error::usage_with("is a directory", "name a file in it"));
    }
    let (_, compression) = Compression::split_name(name);
    let mut file = WholeFile::create(path).map_err(unwritable)?;
    file.readable_by(source.readers());
    Ok((Target::File(file), compression))
}

#[cfg(feature = "object-stores")]
fn create_object(
    address: &Address,
    name: &str,
    container: &Container,
) -> Result<(Target, Option<Compression>)> {
    check_name(name, container)?;
    let (_, compression) = Compression::split_name(name);
    Ok((Target::Object(Upload::begin(address)?), compression))
}

#[cfg(not(feature = "object-stores"))]
fn create_object(_: &Address, _: &str, _: &Container) -> Result<(Target, Option<Compression>)> {
    Err(crate::objects::address::not_built())
}

/// Refuses a name that stands for another format than the file will have. A neutral name, such as `out.dat`,
/// works for every format.
fn check_name(name: &str, container: &Container) -> Result<()> {
    let format = container.format;
    let hint = format!("name the output .{format}");
    if let Some(other) = sniff::never_written(name) {
        let reason = format!("the name stands for {other}, which no result is");
        return Err(Error::usage_with(reason, hint));
    }
    if let Some(other) = sniff::by_name(name)
        && other != format
    {
        let reason = format!("the name is of {other}, but results are {format}");
        return Err(Error::usage_with(reason, hint));
    }
    if sniff::delimiter(name).is_some_and(|named| container.delimiter != Some(named)) {
        let reason = "the name is of CSV without commas, but results have them";
        return Err(Error::usage_with(reason, hint));
    }
    if let (stem, Some(compression)) = Compression::split_name(name)
        && !format.is_text()
    {
        let reason = format!("{format} is not compressed by {}", compression.name());
        let hint = format!("leave {} away", &name[stem.len()..]);
        return Err(Error::usage_with(reason, hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn pieces_of_text_are_held_back_from_standard_output() {
        let mut output = Output {
            name: "standard output".into(),
            target: Target::Stdout(None),
            compression: None,
            container: Container::csv(),
            rewrites_text: false,
        };
        for piece in ["row,match\n", "1,0\n"] {
            output
                .write_text(|out| out.write_all(piece.as_bytes()))
                .unwrap();
        }
        let Target::Stdout(Some(held)) = output.target else {
            panic!("nothing is held");
        };
        let mut text = String::new();
        ScratchReader::new(held.finish().unwrap().into())
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(text, "row,match\n1,0\n");
    }
}
