//! From the items of a table to its rows.
//!
//! A store of keys numbers what it gathers. Where a row has one key, that is the row's number. Where it has several
//! identifiers, each value of one is gathered by itself, and rows have several numbers, one after the other.

use std::fmt;
use std::ops::Range;

use vesica_keys::{Repeated, RowSet};

use crate::profile::canonical::Of;
use crate::profile::key::KeySpec;

/// Which row each item of a table is of, and which identifier of it.
#[derive(Clone, PartialEq, Eq)]
pub struct ItemRows {
    /// The names of the identifiers; none if the columns together are the key.
    names: Vec<String>,
    /// Items so far, if they are counted: as long as each row has as many as there are names.
    items: u64,
    /// What is known of each item, from the first row on that has a list of another length than one.
    lists: Option<Lists>,
}

/// Without how many identifiers which row has.
impl fmt::Debug for ItemRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ItemRows")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// Items of rows that differ in how many they have.
#[derive(Clone, Default, PartialEq, Eq)]
struct Lists {
    /// Of each row the end of its items.
    ends: Vec<u32>,
    /// Of each item the place of its identifier.
    identifiers: Vec<u8>,
}

impl Lists {
    /// So many items of rows that have this many each.
    fn regular(items: u64, each: usize) -> Lists {
        let identifiers = (0..items).map(|item| (item % each as u64) as u8);
        let rows = (1..=items / each as u64).map(|row| row as u32 * each as u32);
        Lists {
            ends: rows.collect(),
            identifiers: identifiers.collect(),
        }
    }
}

impl ItemRows {
    /// Of a table that is not read yet.
    pub(crate) fn new(key: &KeySpec) -> ItemRows {
        let names = key.identifiers().iter();
        ItemRows {
            names: names
                .map(|identifier| identifier.name().to_owned())
                .collect(),
            items: 0,
            lists: None,
        }
    }

    /// Notes the next item.
    #[inline]
    pub(crate) fn add(&mut self, of: Of) {
        if !self.is_trivial() {
            self.add_identifier(of);
        }
    }

    fn add_identifier(&mut self, of: Of) {
        let each = self.names.len();
        let lists = match &mut self.lists {
            Some(lists) => lists,
            None => {
                let expected = self.items as usize % each;
                if usize::from(of.identifier) == expected && of.is_last == (expected + 1 == each) {
                    self.items += 1;
                    return;
                }
                self.lists.insert(Lists::regular(self.items, each))
            }
        };
        lists.identifiers.push(of.identifier);
        if of.is_last {
            // There are no more items than rows can be numbered.
            lists.ends.push(lists.identifiers.len() as u32);
        }
    }

    /// Whether an item is a row.
    fn is_trivial(&self) -> bool {
        self.names.is_empty()
    }

    /// The row of an item.
    pub(crate) fn row(&self, item: u64) -> u64 {
        match &self.lists {
            Some(lists) => lists.ends.partition_point(|end| u64::from(*end) <= item) as u64,
            None => item / self.names.len().max(1) as u64,
        }
    }

    /// A repeated key, whose first item is known, by its first row.
    pub(crate) fn repeated(&self, key: Repeated) -> Repeated {
        Repeated {
            first_row: self.row(key.first_row - 1) + 1,
            ..key
        }
    }

    /// The items of a row.
    fn items(&self, row: u64) -> Range<u64> {
        let end_of = |lists: &Lists, row: u64| lists.ends.get(row as usize).copied();
        match &self.lists {
            Some(lists) => {
                let start = row.checked_sub(1).and_then(|before| end_of(lists, before));
                let start = start.unwrap_or(0);
                start.into()..end_of(lists, row).unwrap_or(start).into()
            }
            None => {
                let each = self.names.len().max(1) as u64;
                row * each..(row + 1) * each
            }
        }
    }

    /// The rows that have any of these items; `None` if those are rows already. Takes time for each row, whichever are chosen.
    pub fn rows_of(&self, items: &RowSet) -> Option<RowSet> {
        if self.is_trivial() {
            return None;
        }
        let rows = match &self.lists {
            Some(lists) => lists.ends.len() as u64,
            None => items.rows() / self.names.len() as u64,
        };
        let mut found = RowSet::none(rows);
        for row in 0..rows {
            let any = self
                .items(row)
                .fold(false, |any, item| any | items.contains(item));
            found.set(row, any);
        }
        Some(found)
    }

    /// The first item of a row that is chosen, in the order of identifiers; the row itself if that is its item.
    pub(crate) fn first_of(&self, row: u64, items: &RowSet) -> Option<u64> {
        self.items(row).find(|item| items.contains(*item))
    }

    /// The name of an item's identifier; `None` if there is but one key.
    pub(crate) fn name(&self, item: u64) -> Option<&str> {
        let identifier = match &self.lists {
            Some(lists) => (*lists.identifiers.get(item as usize)?).into(),
            None => item.checked_rem(self.names.len() as u64)? as usize,
        };
        self.names.get(identifier).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(rows: u64, chosen: &[u64]) -> RowSet {
        let mut set = RowSet::none(rows);
        chosen.iter().for_each(|row| set.insert(*row));
        set
    }

    #[test]
    fn a_row_of_one_key_is_its_item() {
        let rows = ItemRows::new(&KeySpec::parse::<&str>("a,b", &[]).unwrap());
        assert_eq!((rows.row(7), rows.name(7)), (7, None));
        assert!(rows.rows_of(&set(9, &[3])).is_none());
        assert_eq!(rows.first_of(3, &set(9, &[3])), Some(3));
    }

    #[test]
    fn a_row_matches_by_any_of_its_items() {
        let key = KeySpec::parse_any_of::<_, &str>(&["x=a", "y=b", "z=c"], &[]).unwrap();
        let rows = ItemRows::new(&key);
        assert_eq!((rows.row(5), rows.row(6)), (1, 2));
        let matched = set(12, &[4, 5, 9]);
        let found = rows.rows_of(&matched).unwrap();
        assert_eq!(found.iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(found.rows(), 4);
        let firsts: Vec<_> = (0..4).map(|row| rows.first_of(row, &matched)).collect();
        assert_eq!(firsts, [None, Some(4), None, Some(9)]);
        assert_eq!([4, 9].map(|item| rows.name(item)), [Some("y"), Some("x")]);
    }

    #[test]
    fn rows_with_lists_have_as_many_items_as_they_had() {
        let key = KeySpec::parse_any_of::<_, &str>(&["x=a", "y=b"], &[]).unwrap();
        let mut rows = ItemRows::new(&key);
        let items = [(0, false), (0, false), (1, true), (0, false), (1, true)];
        for (identifier, is_last) in items {
            rows.add(Of {
                identifier,
                is_last,
            });
        }
        assert_eq!([0, 2, 3, 4].map(|item| rows.row(item)), [0, 0, 1, 1]);
        let matched = set(5, &[1, 2]);
        let found = rows.rows_of(&matched).unwrap();
        assert_eq!(
            (found.rows(), found.iter().collect::<Vec<_>>()),
            (2, vec![0])
        );
        assert_eq!(rows.first_of(0, &matched), Some(1));
        assert_eq!([1, 2].map(|item| rows.name(item)), [Some("x"), Some("y")]);
        assert_eq!(rows.first_of(1, &matched), None);
    }

    #[test]
    fn lists_may_begin_at_any_row() {
        let key = KeySpec::parse_any_of::<_, &str>(&["x=a", "y=b"], &[]).unwrap();
        let row = |lengths: [usize; 2]| {
            let of_each = lengths.into_iter().zip([0, 1]);
            let all: Vec<u8> = of_each.flat_map(|(n, which)| vec![which; n]).collect();
            let last = all.len() - 1;
            let all = all.into_iter().enumerate();
            all.map(move |(i, identifier)| Of {
                identifier,
                is_last: i == last,
            })
        };
        for irregular in [[1, 2], [3, 1], [2, 2]] {
            for before in 0..4 {
                let mut rows = ItemRows::new(&key);
                let all = (0..before).map(|_| [1, 1]).chain([irregular, [1, 1]]);
                let all: Vec<_> = all.collect();
                let mut expected = Vec::new();
                for (number, lengths) in (0..).zip(&all) {
                    for of in row(*lengths) {
                        rows.add(of);
                        expected.push((number, ["x", "y"][usize::from(of.identifier)]));
                    }
                }
                let items = 0..expected.len() as u64;
                let found = items.map(|item| (rows.row(item), rows.name(item).unwrap()));
                assert_eq!(found.collect::<Vec<_>>(), expected);
                for number in 0..all.len() as u64 {
                    let of_row = (0..).zip(&expected).filter(|(_, (row, _))| *row == number);
                    let of_row: Vec<u64> = of_row.map(|(item, _)| item).collect();
                    assert_eq!(rows.items(number).collect::<Vec<_>>(), of_row);
                }
            }
        }
    }
}
