//! A table in a run of any kind: its keys are read once, and the rows that were found are written once.

use std::path::{Path, PathBuf};
use std::time::Instant;

use vesica_files::{directory_of, many};
use vesica_keys::KeyBytes;
use vesica_session::{Error as SessionError, Interrupt};
use vesica_tables::{
    Destination, KeySpec, Matched, Output, PeerColumn, PeerTable, Source, TableKeys, TextColumns,
    ValueColumn, approximate_rows, is_address, layout, read_keys_within, write_rows,
};

use crate::memory::{Budget, Storage};
use crate::peer_rows::PeerRows;
use crate::{Error, Event, Observer};

/// How the keys of a table are read.
pub(crate) struct Reading<'a> {
    pub(crate) key: &'a KeySpec,
    /// The columns that are summed or multiplied.
    pub(crate) values: &'a [ValueColumn],
    /// What goes with each key.
    pub(crate) texts: Option<TextColumns>,
    pub(crate) budget: &'a Budget,
    /// The directory for what does not fit into memory.
    pub(crate) scratch: &'a Path,
    /// Where its rows will go, if anywhere.
    pub(crate) file: Option<&'a Output>,
    /// Whether texts of the other side will be added to them.
    pub(crate) adds_texts: bool,
    /// Whether a table without a usable key is none the less one.
    pub(crate) allow_empty: bool,
    pub(crate) interrupt: &'a Interrupt,
}

impl<'a> Reading<'a> {
    /// Of keys with nothing beside them, which are some, and no rows that are written.
    pub(crate) fn new(
        key: &'a KeySpec,
        budget: &'a Budget,
        scratch: &'a Path,
        interrupt: &'a Interrupt,
    ) -> Reading<'a> {
        Reading {
            key,
            values: &[],
            texts: None,
            budget,
            scratch,
            file: None,
            adds_texts: false,
            allow_empty: false,
            interrupt,
        }
    }

    /// Reads the keys, and says what was found. Fails too if rows cannot be written, whichever match.
    pub(crate) fn keys(
        &self,
        source: &Source,
        observer: &mut dyn Observer,
    ) -> Result<TableKeys, Error> {
        let (key, values, texts) = (self.key, self.values, self.texts.as_ref());
        let expected = approximate_rows(source);
        if let Some(rows) = expected {
            self.announce(rows, observer);
        }
        let (began, waited) = (Instant::now(), source.wait_time());
        let keys = read_keys_within(source, key, values, texts, self.budget.keys, self.scratch)?;
        observer.event(Event::Waited {
            waited: source.wait_time() - waited,
            all: began.elapsed(),
        });
        let counts = *keys.counts();
        if expected.is_none() {
            self.announce(counts.rows, observer);
        }
        observer.event(Event::Read(&counts));
        // The error has all that the warnings would say.
        if counts.items == 0 && !self.allow_empty {
            return Err(Error::NoKeys(Box::new(counts)));
        }
        for warning in counts.warnings() {
            observer.event(Event::Warning(&warning));
        }
        if self.adds_texts {
            counts.check_utf8(source)?;
        }
        if let Some(file) = self.file {
            file.check_rows(source, &counts)?;
        }
        self.interrupt.check().map_err(SessionError::from)?;
        Ok(keys)
    }

    /// Says where keys of so many rows go if they do not fit into memory.
    fn announce(&self, rows: u64, observer: &mut dyn Observer) {
        let items = rows * self.key.identifiers().len().max(1) as u64;
        let keys = KeyBytes::of(items, &layout(self.key, self.values, self.texts.as_ref()));
        let Some(limit) = self.budget.exceeded_by(keys.in_memory) else {
            return;
        };
        let storage = Storage::of(rows, limit, keys, self.scratch);
        observer.event(Event::Storage(&storage));
        if let Some(warning) = storage.warning() {
            observer.event(Event::Warning(&warning));
        }
    }
}

/// Opens what rows are written to, if anything, before the table is read. Texts of the other side may be added to them.
pub(crate) fn open(
    source: &Source,
    output: Option<Destination<'_>>,
    scratch: &Path,
    adds_texts: bool,
) -> Result<Option<Output>, Error> {
    if adds_texts {
        source.check_added_texts()?;
    }
    let file = output.map(|output| Output::open(output, source, scratch));
    Ok(file.transpose()?)
}

/// Writes the rows that were found, if there is a file for them, and puts it into its place. Returns how many they are.
pub(crate) fn write(
    source: &Source,
    file: Option<Output>,
    matched: Matched<'_>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Option<u64>, Error> {
    if let Some(unreadable) = matched.unreadable() {
        warn_of_unreadable(unreadable as u64, observer);
    }
    let Some(mut file) = file else {
        return Ok(None);
    };
    observer.event(Event::Writing);
    let rows = write_rows(source, matched, &mut file)?;
    interrupt.check().map_err(SessionError::from)?;
    let lost = file.commit()?;
    if lost > 0 {
        // The peer has gone, and is not told.
        let lost = many(lost, "value");
        let warning =
            format!("the database does not take {lost} of the peer's, and has null instead");
        observer.event(Event::Warning(&warning.into()));
    }
    observer.event(Event::Wrote(rows));
    Ok(Some(rows))
}

/// Writes rows of the peer, whose labels have these columns for up to so many rows of a key, as a table of their own, and puts
/// that into its place. Returns how many they are.
pub(crate) fn write_rows_of_peer(
    file: Output,
    columns: Vec<PeerColumn>,
    rows_of_key: usize,
    rows: Option<&PeerRows>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<u64, Error> {
    observer.event(Event::Writing);
    let mut table = PeerTable::begin(file, columns, rows_of_key)?;
    for rows in rows.iter() {
        for bucket in 0..rows.buckets() {
            table.add(rows.read(bucket)?.rows())?;
            interrupt.check().map_err(SessionError::from)?;
        }
    }
    let [written, unreadable] = table.commit()?;
    if unreadable > 0 {
        warn_of_unreadable(unreadable, observer);
    }
    observer.event(Event::Wrote(written));
    Ok(written)
}

/// Warns of a peer that has not handed over what it declared.
fn warn_of_unreadable(keys: u64, observer: &mut dyn Observer) {
    let warning = format!(
        "what goes with {} is not what was declared; their columns are empty",
        many(keys, "key"),
    );
    observer.event(Event::Warning(&warning.into()));
}

/// The directory of an output that is a file, else the one for temporary files: standard output, `-`, is in none.
pub(crate) fn beside(output: Option<Destination<'_>>) -> PathBuf {
    let path = output.and_then(Destination::path);
    match path.filter(|path| !is_address(path) && path.as_os_str() != "-") {
        Some(file) => directory_of(file).to_owned(),
        None => std::env::temp_dir(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn temporary_files_are_beside_an_output_that_is_a_file() {
        let of = |output: &str| beside(Some(Destination::File(Path::new(output))));
        assert_eq!(of("here/found.csv"), Path::new("here"));
        assert_eq!(of("found.csv"), Path::new("."));
        assert_eq!(
            [of("-"), beside(None)],
            [(); 2].map(|()| std::env::temp_dir())
        );
    }
}
