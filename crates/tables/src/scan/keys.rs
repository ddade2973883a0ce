//! The first pass: from rows to keys.

use std::ops::Deref;
use std::path::Path;

use vesica_keys::{Frequent, Gather, KeyStore, Labels, Layout, Record, Repeated};
use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Place, Result, ValueProblem};
use crate::formats::items::{ItemSink, TakeItems};
use crate::profile::canonical::{Item, RowValues};
use crate::profile::key::KeySpec;
use crate::scan::counts::{Counts, RowVerdict};
use crate::scan::scan;
use crate::source::Source;
use crate::source::options::ResultRows;
use crate::types::columns_read::ColumnsRead;
use crate::types::item_rows::ItemRows;
use crate::types::labels::TextColumns;
use crate::types::number::ValueColumn;

/// The keys of a table, and what was counted while they were read.
#[derive(Debug)]
pub struct TableKeys {
    store: KeyStore,
    pub(crate) counts: Counts,
    rows: ItemRows,
}

impl TableKeys {
    /// The counts.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The keys.
    pub fn into_store(self) -> KeyStore {
        self.store
    }

    /// The keys that most rows have, at most `most` of them, each with two rows or more.
    pub(crate) fn most_repeated(&self, most: usize) -> Result<Vec<Repeated>> {
        let repeated = self.store.most_repeated(most)?;
        let of_rows = repeated.into_iter().map(|key| self.rows.repeated(key));
        Ok(of_rows.collect())
    }

    /// The keys, and the way from their numbers to rows.
    pub fn into_parts(self) -> (KeyStore, ItemRows) {
        (self.store, self.rows)
    }
}

impl Deref for TableKeys {
    type Target = KeyStore;

    fn deref(&self) -> &KeyStore {
        &self.store
    }
}

/// What goes with the keys of a table: columns of values, and texts.
pub fn layout(key: &KeySpec, values: &[ValueColumn], texts: Option<&TextColumns>) -> Layout {
    Layout {
        has_numbers: key.bits().is_some(),
        columns: values.iter().map(ValueColumn::rule).collect(),
        label: texts.map_or(0, TextColumns::bytes),
        labels: texts.map_or(Labels::Same, TextColumns::labels_of_key),
    }
}

/// First pass: reads the key columns of every row, into memory if the keys take at most `memory` bytes there,
/// or else into unnamed files in `directory`, 36 bytes per row, 44 if keys are numbers. If columns of values are given, the
/// values of all rows that have a key are read with them. Values, and the texts of further columns, go with the keys
/// wherever these are.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place; texts that do not fit, or differ in rows of one key. Usage: a
/// directory in which no file can be created; a result with two columns of one name. Resource: more than 2³² − 1 rows, or
/// a full disk.
pub fn read_keys_within(
    source: &Source,
    key: &KeySpec,
    values: &[ValueColumn],
    texts: Option<&TextColumns>,
    memory: u64,
    directory: &Path,
) -> Result<TableKeys> {
    let result = source.result_rows();
    check_matched_by(result, key)?;
    let wanted = ColumnsRead::new(key, values, result.added())
        .with_texts(texts)
        .with_chosen(result.columns);
    let gathered = KeyGather::new(key, layout(key, values, texts), values, memory, directory)?;
    let mut sink = ItemSink::new(wanted, gathered);
    let facts = scan(source, wanted, &mut sink)?;
    let rest = sink.finish().and_then(KeyGather::finish);
    let mut keys = rest.map_err(|e| source.locate(e, &facts.ends))?;
    keys.counts.not_utf8 = facts.not_utf8;
    Ok(keys)
}

/// Refuses to say by what rows match if they have one key, or in a column that cannot be.
fn check_matched_by(result: ResultRows<'_>, key: &KeySpec) -> Result<()> {
    let Some(matched_by) = result.matched_by else {
        return Ok(());
    };
    if key.identifiers().is_empty() {
        return Err(Error::usage(
            "a result says by what rows match where they have several identifiers",
        ));
    }
    if matched_by.is_empty() {
        return Err(Error::usage(
            "the column that says by what rows match has no name",
        ));
    }
    if result.rows.added() == Some(matched_by) {
        let problem = format!("the result has a column {matched_by:?} of its own");
        let remedy = "name the column that says by what rows match otherwise";
        return Err(Error::usage_with(problem, remedy));
    }
    Ok(())
}

/// First pass, into memory: 32 bytes per distinct key and 4 per row.
///
/// # Errors
/// Data: whatever is wrong with the table, with its place. Resource: more than 2³² − 1 rows.
pub fn read_keys(source: &Source, key: &KeySpec) -> Result<TableKeys> {
    read_keys_within(source, key, &[], None, u64::MAX, Path::new(""))
}

/// An error about keys whose values are those of these columns, and whose files are in this directory.
fn of_keys(
    error: vesica_keys::Error,
    columns: &[ValueColumn],
    directory: &Path,
    rows: &ItemRows,
) -> Error {
    use vesica_keys::Error as E;
    let of_value = |column: usize, problem: &dyn Fn(&ValueColumn) -> ValueProblem, row, line| {
        let column = &columns[column];
        column
            .wrong(problem(column))
            .at_row(rows.row(row) + 1, line)
    };
    match error {
        E::LabelsDiffer { first, row, line } => {
            let first = Box::new(Place {
                row: Some(rows.row(first) + 1),
                ..Place::default()
            });
            Error::new(ErrorKind::LabelsDiffer { first }).at_row(rows.row(row) + 1, line)
        }
        E::GroupsDiffer { first, row, line } => {
            let first = Box::new(Place {
                row: Some(rows.row(first) + 1),
                ..Place::default()
            });
            Error::new(ErrorKind::GroupsDiffer { first }).at_row(rows.row(row) + 1, line)
        }
        E::TooManyOfKey {
            limit,
            first,
            row,
            line,
        } => {
            let first = Box::new(Place {
                row: Some(rows.row(first) + 1),
                ..Place::default()
            });
            let kind = ErrorKind::TooManyOfKey { limit, first };
            Error::new(kind).at_row(rows.row(row) + 1, line)
        }
        E::Repeated { column, row, line } => {
            of_value(column, &|_| ValueProblem::Repeated, row, line)
        }
        E::Beyond {
            column,
            has_one_row,
            row,
            line,
        } => {
            let problem = |column: &ValueColumn| {
                let (bound, scale) = (column.bound, column.scale);
                match has_one_row {
                    true => ValueProblem::AboveBound { bound, scale },
                    false => ValueProblem::SumAboveBound { bound, scale },
                }
            };
            of_value(column, &problem, row, line)
        }
        E::Unwritable(_) | E::NoRoom { .. } | E::Unreadable(_) => {
            Error::from(error).in_path(&directory.display().to_string())
        }
        other => Error::from(other),
    }
}

/// Gathers the keys of items, and counts these.
pub(crate) struct KeyGather<'a> {
    gather: Gather,
    columns: &'a [ValueColumn],
    counts: Counts,
    rows: ItemRows,
    /// What came of the present row so far.
    row: RowVerdict,
    directory: &'a Path,
    /// What goes with the key of a row.
    beside: Zeroizing<Vec<u8>>,
}

impl<'a> KeyGather<'a> {
    /// Gathers keys of this layout, whose values are those of these columns.
    pub(crate) fn new(
        key: &KeySpec,
        layout: Layout,
        columns: &'a [ValueColumn],
        memory: u64,
        directory: &'a Path,
    ) -> Result<KeyGather<'a>> {
        Ok(KeyGather {
            gather: Gather::new(layout, memory, directory)?,
            columns,
            counts: Counts::default(),
            rows: ItemRows::new(key),
            row: RowVerdict::default(),
            directory,
            beside: Zeroizing::default(),
        })
    }

    pub(crate) fn finish(self) -> Result<TableKeys> {
        let (columns, directory, rows) = (self.columns, self.directory, self.rows);
        let store = self.gather.finish();
        let store = store.map_err(|e| of_keys(e, columns, directory, &rows))?;
        let found = store.counts();
        let counts = Counts {
            items: found.items,
            duplicates: found.with_key - found.items,
            frequent: Frequent {
                most: found.frequent.most.map(|key| rows.repeated(key)),
                ..found.frequent
            },
            ..self.counts
        };
        Ok(TableKeys {
            store,
            counts,
            rows,
        })
    }
}

impl TakeItems for KeyGather<'_> {
    fn add(&mut self, item: Item, values: RowValues) -> Result<()> {
        let of = item.of();
        self.rows.add(of);
        let mut row = std::mem::take(&mut self.row);
        row.add(&item);
        match of.is_last {
            true => self.counts.add(row),
            false => self.row = row,
        }
        let record = match item {
            Item::Blank { .. } | Item::Denied { .. } | Item::Invalid { .. } => None,
            Item::Digest { digest, number, .. } => {
                let beside = match self.columns {
                    [] => &values.label,
                    _ => {
                        self.beside.clear();
                        let layout = self.gather.layout();
                        layout.put(&values.label, values.all(), &mut self.beside);
                        &self.beside
                    }
                };
                Some(Record {
                    digest,
                    number,
                    beside,
                    line: values.line,
                })
            }
        };
        let added = self.gather.add(record.as_ref());
        added.map_err(|e| of_keys(e, self.columns, self.directory, &self.rows))
    }

    fn check(&mut self) -> Result<()> {
        let checked = self.gather.check();
        checked.map_err(|e| of_keys(e, self.columns, self.directory, &self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_keys::KeyBytes;

    use crate::error::ErrorClass;
    use crate::source::options::SourceOptions;

    fn table(rows: u32) -> (Source, KeySpec) {
        let mut text = "mail,n\n".to_owned();
        for i in 0..rows {
            match i % 10 {
                3 => text.push_str(",3\n"),
                7 => text.push_str("nonsense,7\n"),
                _ => text.push_str(&format!("U{}@example.com,{i}\n", i * i % 997)),
            }
        }
        let source = Source::from_bytes("t.csv", text.into(), SourceOptions::default()).unwrap();
        (source, KeySpec::parse("mail", &["mail=email"]).unwrap())
    }

    #[test]
    fn repeated_keys_count_once_towards_the_memory() {
        // Each key in three rows or so, far apart.
        let (source, key) = table(3000);
        let counts = *read_keys(&source, &key).unwrap().counts();
        let needed = KeyBytes::in_memory(counts.rows, counts.items, &Layout::default());
        let directory = tempfile::tempdir().unwrap();
        let read = |memory| read_keys_within(&source, &key, &[], None, memory, directory.path());
        assert!(read(needed).unwrap().is_in_memory());
        assert!(!read(needed - 1).unwrap().is_in_memory());
    }

    #[test]
    fn keys_that_fit_stay_in_memory() {
        let (source, key) = table(100);
        let nowhere = Path::new("/nowhere");
        let store = read_keys_within(&source, &key, &[], None, 1 << 20, nowhere).unwrap();
        assert!(store.is_in_memory());
        let error = read_keys_within(&source, &key, &[], None, 0, nowhere).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert_eq!(error.place().path.as_deref(), Some("/nowhere"));
    }

    #[test]
    fn other_values_are_another_identity() {
        let column = ValueColumn {
            name: "v".into(),
            scale: 0,
            bound: 1000,
            sums_repeated: true,
        };
        let identity = |rows: &str| {
            let text = format!("k,v\n{rows}");
            let source = Source::from_bytes("t.csv", text.into(), SourceOptions::default());
            let key = KeySpec::parse::<&str>("k", &[]).unwrap();
            let values = std::slice::from_ref(&column);
            let nowhere = Path::new("");
            let read = read_keys_within(&source.unwrap(), &key, values, None, u64::MAX, nowhere);
            read.unwrap().identity()
        };
        let first = identity("a,1\nb,2\na,3\n");
        assert_eq!(identity("a,1\nb,2\na,3\n"), first);
        assert_ne!(identity("a,3\nb,2\na,1\n"), first);
        assert_ne!(identity("a,1\nb,2\na,4\n"), first);
        assert_ne!(identity("a,2\nb,4\na,2\n"), first);
    }

    #[test]
    fn other_keys_are_another_identity() {
        let identity = |rows| {
            let (source, key) = table(rows);
            read_keys(&source, &key).unwrap().identity()
        };
        assert_eq!(identity(50), identity(50));
        assert_ne!(identity(50), identity(51));
    }

    #[test]
    fn values_that_must_not_be_are_named_wherever_keys_are() {
        let columns = |bound, sums_repeated| {
            ["v", "w"].map(|name| ValueColumn {
                name: name.into(),
                scale: 0,
                bound,
                sums_repeated,
            })
        };
        let once: String = (0..3000).map(|i| format!("{i},{i},1\n")).collect();
        let (bound, scale) = (3000, 0);
        for (more, sums_repeated, problem, row) in [
            (
                "b,3001,1\n",
                true,
                ValueProblem::AboveBound { bound, scale },
                3001,
            ),
            (
                "7,2999,0\n",
                true,
                ValueProblem::SumAboveBound { bound, scale },
                8,
            ),
            ("7,0,0\n", false, ValueProblem::Repeated, 3001),
        ] {
            let text = format!("k,v,w\n{once}{more}");
            let source =
                Source::from_bytes("t.csv", text.into(), SourceOptions::default()).unwrap();
            let key = KeySpec::parse::<&str>("k", &[]).unwrap();
            let columns = columns(bound, sums_repeated);
            for memory in [0, 20_000, u64::MAX] {
                let directory = std::env::temp_dir();
                let read = read_keys_within(&source, &key, &columns, None, memory, &directory);
                let error = read.unwrap_err();
                let ErrorKind::BadValue { problem: found } = error.kind() else {
                    panic!("{error}");
                };
                let place = error.place();
                assert_eq!((*found, place.row), (problem, Some(row)), "{memory}");
                assert_eq!(place.column.as_deref(), Some("v"));
                assert_eq!(place.path.as_deref(), Some("t.csv"));
            }
        }
    }
}
