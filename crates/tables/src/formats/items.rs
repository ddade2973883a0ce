//! From rows to items, with the values that belong to them.

use std::collections::VecDeque;

use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result};
use crate::formats::sink::{At, Facts, Sink};
use crate::profile::canonical::{Added, Canonical, Item, Row, RowValues};
use crate::types::columns::Columns;
use crate::types::columns_read::ColumnsRead;
use crate::types::labels::TextColumns;

type Label = Zeroizing<Vec<u8>>;

/// Where the items of rows go, in their order.
pub(crate) trait TakeItems {
    fn add(&mut self, item: Item, values: RowValues) -> Result<()>;

    /// Meets the errors that the rows so far would lead to at the end.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Makes items of rows, some at a time.
pub(crate) struct ItemSink<'a, T> {
    wanted: ColumnsRead<'a>,
    canonical: Canonical<'a>,
    /// Values and texts of the rows that are pending in `canonical`, if there are columns of such.
    values: VecDeque<RowValues>,
    /// Of the row whose texts take the most bytes, of those that do not fit.
    widest: Option<(usize, Error)>,
    to: T,
}

impl<'a, T: TakeItems> ItemSink<'a, T> {
    pub(crate) fn new(wanted: ColumnsRead<'a>, to: T) -> Self {
        ItemSink {
            wanted,
            canonical: Canonical::new(wanted.key),
            values: VecDeque::new(),
            widest: None,
            to,
        }
    }

    pub(crate) fn finish(mut self) -> Result<T> {
        self.drain()?;
        self.check()?;
        Ok(self.to)
    }

    /// Passes on what came of all rows so far, in order. A row whose values could not be read is left out. The values of a
    /// row go with each of its items.
    fn drain(&mut self) -> Result<()> {
        let has_more = self.wanted.has_more_than_key();
        let ItemSink {
            canonical,
            values,
            to,
            ..
        } = self;
        canonical.drain(|item| {
            if !has_more {
                return to.add(item, RowValues::default());
            }
            let of_row = match item.of().is_last {
                true => values.pop_front(),
                false => values.front().cloned(),
            };
            of_row.map_or(Ok(()), |of_row| to.add(item, of_row))
        })
    }

    /// Fails if the texts of a row did not fit.
    fn check(&mut self) -> Result<()> {
        let widest = self.widest.take();
        widest.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// What goes with a row. One that does not fit is complained of once all rows are read, so that it is known what all need.
    fn fitting(&mut self, texts: &TextColumns, label: Result<Label>, at: At) -> Result<Label> {
        let error = match label {
            Err(error) => error,
            fits => return fits,
        };
        let ErrorKind::TextsTooLong { needed, .. } = *error.kind() else {
            return Err(error);
        };
        if self.widest.as_ref().is_none_or(|(most, _)| needed > *most) {
            self.widest = Some((needed, error.at_row(at.row, at.line)));
        }
        Ok(Zeroizing::new(vec![0; texts.bytes()]))
    }
}

impl<T: TakeItems> Sink for ItemSink<'_, T> {
    const ITEMS_SUFFICE: bool = true;

    fn row<R: Row>(&mut self, at: At, row: &R) -> Result<()> {
        let in_place = |e: Error| e.at_row(at.row, at.line);
        let Added { has_key, is_full } = (self.canonical.add(row, |_| {})).map_err(in_place)?;
        if self.wanted.has_more_than_key() {
            let columns = (self.wanted.first_value()..).zip(self.wanted.values);
            // The values and texts of a row without a key are not looked at: the row never matches.
            let texts = self.wanted.texts.filter(|_| has_key);
            let first = self.wanted.first_text();
            let label = texts.map(|texts| self.fitting(texts, texts.of_row(row, first), at));
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
        match is_full {
            true => self.drain(),
            false => Ok(()),
        }
    }

    fn item(&mut self, item: Item, values: RowValues) -> Result<()> {
        self.to.add(item, values)
    }

    fn fail(&mut self, error: Error) -> Error {
        let earlier = self.drain().and_then(|()| self.check());
        let earlier = earlier.and_then(|()| self.to.check());
        earlier.err().unwrap_or(error)
    }
}

/// What came of some rows, for a sink for which [items suffice](Sink::ITEMS_SUFFICE).
#[derive(Default)]
pub(crate) struct Items {
    items: Vec<Item>,
    /// Those of each item, if there are columns of such.
    values: Option<Vec<RowValues>>,
}

impl Items {
    fn of(wanted: ColumnsRead<'_>) -> Items {
        Items {
            items: Vec::new(),
            values: wanted.has_more_than_key().then(Vec::new),
        }
    }

    fn hand_to(self, sink: &mut impl Sink) -> Result<()> {
        let mut values = self.values.unwrap_or_default().into_iter();
        let mut items = self.items.into_iter();
        items.try_for_each(|item| sink.item(item, values.next().unwrap_or_default()))
    }
}

impl TakeItems for Items {
    fn add(&mut self, item: Item, of_row: RowValues) -> Result<()> {
        self.items.push(item);
        if let Some(values) = &mut self.values {
            values.push(of_row);
        }
        Ok(())
    }
}

/// What came of some rows, and what was seen of them.
pub(crate) struct Found {
    facts: Facts,
    items: Items,
    /// Columns of the table.
    columns: usize,
}

impl Found {
    /// Of the rows that `scan` passes to a sink.
    pub(crate) fn of<'a>(
        wanted: ColumnsRead<'a>,
        scan: impl FnOnce(&mut Facts, &mut ItemSink<'a, Items>) -> Result<()>,
    ) -> Result<Found> {
        let mut facts = Facts::default();
        let mut sink = ItemSink::new(wanted, Items::of(wanted));
        scan(&mut facts, &mut sink)?;
        let columns = wanted.len() + wanted.chosen.len();
        let items = sink.finish()?;
        Ok(Found {
            facts,
            items,
            columns,
        })
    }

    /// As if these rows were the next that a scan meets.
    pub(crate) fn hand_to(self, facts: &mut Facts, sink: &mut impl Sink) -> Result<()> {
        facts.rows += self.facts.rows;
        facts.crlf_rows += self.facts.crlf_rows;
        facts.not_utf8 += self.facts.not_utf8;
        if let Columns::Fields(fields) = self.facts.columns {
            facts.columns.fields(self.columns).add(fields);
        }
        self.items.hand_to(sink)
    }
}
