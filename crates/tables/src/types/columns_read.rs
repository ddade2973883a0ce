//! Which columns a pass reads.

use crate::error::{Error, ErrorKind, Result};
use crate::profile::key::{KeyColumn, KeySpec};
use crate::types::labels::TextColumns;
use crate::types::number::ValueColumn;

/// The columns that a pass reads: those of the key, after them those of values, and then those of texts.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsRead<'a> {
    pub(crate) key: &'a KeySpec,
    pub(crate) values: &'a [ValueColumn],
    pub(crate) texts: Option<&'a TextColumns>,
    /// Columns that a result will have besides those of the table.
    pub(crate) added: [Option<&'a str>; 2],
    /// The columns of the table that a result will have, if not all.
    pub(crate) chosen: &'a [String],
}

impl<'a> ColumnsRead<'a> {
    /// A key, and columns of values.
    pub(crate) fn new(
        key: &'a KeySpec,
        values: &'a [ValueColumn],
        added: [Option<&'a str>; 2],
    ) -> Self {
        ColumnsRead {
            key,
            values,
            texts: None,
            added,
            chosen: &[],
        }
    }

    /// The same for a result of these columns of the table.
    pub(crate) fn with_chosen(self, chosen: &'a [String]) -> Self {
        ColumnsRead { chosen, ..self }
    }

    /// The key alone.
    pub(crate) fn key(key: &'a KeySpec) -> Self {
        ColumnsRead::new(key, &[], [None; 2])
    }

    /// The same with columns of whatever has a text.
    pub(crate) fn with_texts(self, texts: Option<&'a TextColumns>) -> Self {
        ColumnsRead { texts, ..self }
    }

    /// Whether more than the key is read.
    pub(crate) fn has_more_than_key(self) -> bool {
        !self.values.is_empty() || self.texts.is_some()
    }

    /// The names, in order.
    pub(crate) fn names(self) -> impl Iterator<Item = &'a str> + Clone {
        let key = self.key.columns().iter().map(|column| &*column.name);
        let values = self.values.iter().map(|column| &*column.name);
        let texts = self.text_columns().iter().map(|column| &*column.name);
        key.chain(values).chain(texts)
    }

    fn text_columns(self) -> &'a [KeyColumn] {
        self.texts.map_or(&[], |texts| texts.columns().columns())
    }

    /// Fails if a column has the name of one that is to be added.
    pub(crate) fn check_added(
        self,
        mut names: impl Iterator<Item = impl AsRef<str>>,
    ) -> Result<()> {
        match names.find(|name| self.taken().any(|taken| taken == name.as_ref())) {
            Some(name) => Err(Error::new(ErrorKind::NameTaken).in_column(name.as_ref())),
            None => Ok(()),
        }
    }

    /// The names of added columns that a result cannot have of the table too.
    pub(crate) fn taken(self) -> impl Iterator<Item = &'a str> {
        let is_left_out =
            move |name: &&str| !self.chosen.is_empty() && !self.chosen.iter().any(|of| of == name);
        (self.added.into_iter().flatten()).filter(move |name| !is_left_out(name))
    }

    /// The error that there is no such column, but others. The chosen ones follow those that are read.
    pub(crate) fn missing(self, index: usize, available: Vec<String>) -> Error {
        let chosen = self.chosen.iter().map(|name| &**name);
        let name = self.names().chain(chosen).nth(index).unwrap_or_default();
        Error::new(ErrorKind::MissingColumn { available }).in_column(name)
    }

    /// How many they are.
    pub(crate) fn len(self) -> usize {
        self.first_text() + self.text_columns().len()
    }

    /// Whether a column takes floating-point numbers: one of texts does.
    pub(crate) fn takes_floats(self, index: usize) -> bool {
        let column = self.key.columns().get(index);
        index >= self.first_text()
            || column.is_some_and(|column| column.profile.rules().takes_floats())
    }

    /// Whether a column of the key takes numbers with a point as they are written.
    pub(crate) fn takes_digits(self, index: usize) -> bool {
        let column = self.key.columns().get(index);
        column.is_some_and(|column| column.profile.rules().takes_digits())
    }

    /// Whether a column may hold lists: where it is an identifier by itself, and part of no other.
    pub(crate) fn takes_lists(self, index: usize) -> bool {
        let mut of_column = (self.key.identifiers().iter())
            .filter(|identifier| identifier.columns().contains(&index))
            .peekable();
        of_column.peek().is_some() && of_column.all(|identifier| identifier.columns().len() == 1)
    }

    /// Where the first column of values is.
    pub(crate) fn first_value(self) -> usize {
        self.key.columns().len()
    }

    /// Where the first column of texts is.
    pub(crate) fn first_text(self) -> usize {
        self.first_value() + self.values.len()
    }

    /// Whether a column is one of values.
    pub(crate) fn is_value(self, index: usize) -> bool {
        (self.first_value()..self.first_text()).contains(&index)
    }
}
