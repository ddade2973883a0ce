//! From rows to items, with the values that belong to them.

use std::collections::VecDeque;

use crate::columns_read::ColumnsRead;
use crate::error::{Error, Result};
use crate::keys::RowValues;
use crate::sink::{At, Sink};
use crate::value::{Canonical, Item, Row};

/// Makes items of rows, some at a time.
pub(crate) struct RowItems<'a> {
    wanted: ColumnsRead<'a>,
    canonical: Canonical<'a>,
    /// Values and texts of the rows that are pending in `canonical`, if there are columns of such.
    values: VecDeque<RowValues>,
}

impl<'a> RowItems<'a> {
    pub(crate) fn new(wanted: ColumnsRead<'a>) -> Self {
        RowItems {
            wanted,
            canonical: Canonical::new(wanted.key),
            values: VecDeque::new(),
        }
    }

    /// Adds a row, and tells whether it is time to [`RowItems::drain`].
    pub(crate) fn add<R: Row>(&mut self, at: At, row: &R) -> Result<bool> {
        let in_place = |e: Error| e.at_row(at.row, at.line);
        let mut has_key = true;
        let full = self
            .canonical
            .add(row, |_, _, verdict| has_key &= verdict.is_valid())
            .map_err(in_place)?;
        if self.has_more() {
            let columns = (self.wanted.first_value()..).zip(self.wanted.values);
            // The values and texts of a row without a key are not looked at: the row never matches.
            let texts = self.wanted.texts.filter(|_| has_key);
            let label = texts.map(|texts| texts.of_row(row, self.wanted.first_text()));
            let mut units = columns.map(|(index, column)| match has_key {
                true => column.units(row.value(index)).map_err(in_place),
                false => Ok(0),
            });
            self.values.push_back(RowValues {
                first: units.next().transpose()?.unwrap_or(0),
                others: units.collect::<Result<_>>()?,
                label: label.transpose().map_err(in_place)?.unwrap_or_default(),
                line: at.line,
            });
        }
        Ok(full)
    }

    /// Whether more than the key is read.
    fn has_more(&self) -> bool {
        !self.wanted.values.is_empty() || self.wanted.texts.is_some()
    }

    /// Passes on what came of all rows since the last call, in order. A row whose values could not be read is left out.
    pub(crate) fn drain(
        &mut self,
        mut take: impl FnMut(Item, RowValues) -> Result<()>,
    ) -> Result<()> {
        let has_more = self.has_more();
        let RowItems {
            canonical, values, ..
        } = self;
        canonical.drain(|item| match values.pop_front() {
            Some(values) => take(item, values),
            None if !has_more => take(item, RowValues::default()),
            None => Ok(()),
        })
    }
}

/// What came of some rows, for a sink for which [items suffice](Sink::ITEMS_SUFFICE).
#[derive(Default)]
pub(crate) struct Items {
    items: Vec<Item>,
    /// Those of each item, if there are columns of such.
    values: Vec<RowValues>,
}

impl Items {
    pub(crate) fn hand_to(self, sink: &mut impl Sink) -> Result<()> {
        let mut values = self.values.into_iter();
        let mut items = self.items.into_iter();
        items.try_for_each(|item| sink.item(item, values.next().unwrap_or_default()))
    }
}

/// Makes items of rows by themselves.
pub(crate) struct ItemSink<'a> {
    rows: RowItems<'a>,
    items: Items,
}

impl<'a> ItemSink<'a> {
    pub(crate) fn new(wanted: ColumnsRead<'a>) -> Self {
        ItemSink {
            rows: RowItems::new(wanted),
            items: Items::default(),
        }
    }

    pub(crate) fn finish(mut self) -> Result<Items> {
        self.drain()?;
        Ok(self.items)
    }

    fn drain(&mut self) -> Result<()> {
        let has_more = self.rows.has_more();
        let Items { items, values } = &mut self.items;
        self.rows.drain(|item, of_row| {
            items.push(item);
            if has_more {
                values.push(of_row);
            }
            Ok(())
        })
    }
}

impl Sink for ItemSink<'_> {
    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        match self.rows.add(at, row)? {
            true => self.drain(),
            false => Ok(()),
        }
    }
}
