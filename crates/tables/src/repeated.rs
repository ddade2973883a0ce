//! Keys that several rows have.

use std::cmp::Reverse;

use crate::counts::Counts;
use crate::error::Result;
use crate::runs::Merged;
use crate::spool::KeyStore;

impl KeyStore {
    /// The keys with the most rows, at most `most` of them, each with two rows or more.
    pub(crate) fn most_repeated(&self, most: usize) -> Result<Vec<Repeated>> {
        let mut top = Top {
            most,
            keys: Vec::new(),
        };
        match self {
            _ if self.counts().duplicates == 0 => {}
            KeyStore::Memory(keys) => {
                top.add(&occurrences(keys.digests().len(), keys.row_items()));
            }
            KeyStore::Disk(spool) => {
                let runs = spool.sorted()?;
                let mut merged = Merged::default();
                for part in runs.parts() {
                    let merged = runs.merge(&part, &mut merged)?;
                    top.add(&runs.occurrences(&part, merged)?);
                }
            }
        }
        Ok(top.keys)
    }
}

/// A key that several rows have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Repeated {
    /// How many rows have it.
    pub rows: u64,
    /// The first of them, counted from 1.
    pub first_row: u64,
}

impl Repeated {
    /// What keys are in the order of: the most frequent first.
    fn rank(&self) -> (Reverse<u64>, u64) {
        (Reverse(self.rows), self.first_row)
    }
}

/// Keys that very many rows have, as a placeholder such as `000-00-0000` has them: more than one in a hundred, and at
/// least 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Frequent {
    /// How many keys.
    pub keys: u64,
    /// The most frequent of them.
    pub most: Option<Repeated>,
}

impl Frequent {
    /// How many of so many rows at least have a frequent key.
    pub(crate) fn least(rows: u64) -> u64 {
        (rows / 100 + 1).max(20)
    }

    /// Of keys in memory: `row_items` has the index of each row's.
    pub(crate) fn in_memory(counts: &Counts, row_items: &[u32]) -> Frequent {
        let least = Frequent::least(counts.rows);
        // Only a table in which as many rows repeat a key is worth the time.
        match counts.duplicates + 1 < least {
            true => Frequent::default(),
            false => Frequent::of(&occurrences(counts.items as usize, row_items), least),
        }
    }

    /// The keys that at least so many rows have.
    pub(crate) fn of(found: &[Occurrences], least: u64) -> Frequent {
        let found = found.iter().map(Occurrences::repeated);
        let found = found.filter(|key| key.rows >= least);
        found.fold(Frequent::default(), |frequent, key| {
            frequent.and(Frequent {
                keys: 1,
                most: Some(key),
            })
        })
    }

    /// These keys and others.
    pub(crate) fn and(self, others: Frequent) -> Frequent {
        Frequent {
            keys: self.keys + others.keys,
            most: self
                .most
                .into_iter()
                .chain(others.most)
                .min_by_key(Repeated::rank),
        }
    }

    /// What is to be known of them, among so many rows; nothing if there are none.
    pub fn words(&self, rows: u64) -> Option<String> {
        let most = self.most?;
        let found = format!(
            "{} of {rows} rows, first in row {}",
            most.rows, most.first_row
        );
        Some(match self.keys {
            1 => format!(
                "one key is in {found}: a placeholder, such as 000-00-0000, matches strangers"
            ),
            keys => format!(
                "{keys} keys are in more than 1 % of the rows each, the most frequent in {found}: placeholders, such as \
                 000-00-0000, match strangers"
            ),
        })
    }
}

/// Rows of one key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Occurrences {
    rows: u32,
    first: u32,
}

impl Occurrences {
    /// Adds a row; rows come in order.
    pub(crate) fn add(&mut self, row: u32) {
        if self.rows == 0 {
            self.first = row;
        }
        self.rows += 1;
    }

    fn repeated(&self) -> Repeated {
        Repeated {
            rows: self.rows.into(),
            first_row: u64::from(self.first) + 1,
        }
    }
}

/// The rows of each of so many keys in memory.
fn occurrences(keys: usize, row_items: &[u32]) -> Vec<Occurrences> {
    let mut found = vec![Occurrences::default(); keys];
    for (row, item) in (0..).zip(row_items) {
        // NO_ITEM is beyond every index.
        if let Some(found) = found.get_mut(*item as usize) {
            found.add(row);
        }
    }
    found
}

/// The most repeated keys so far, in order.
struct Top {
    most: usize,
    keys: Vec<Repeated>,
}

impl Top {
    fn add(&mut self, found: &[Occurrences]) {
        for key in found.iter().filter(|f| f.rows > 1) {
            let key = key.repeated();
            let at = self.keys.partition_point(|k| k.rank() < key.rank());
            if at < self.most {
                self.keys.insert(at, key);
                self.keys.truncate(self.most);
            }
        }
    }
}
