//! Keys that several rows have.

use std::cmp::Reverse;

use vesica_files::many;

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

    /// Of so many keys in memory, which `duplicates` of the rows repeat: `row_items` has the index of each row's.
    pub(crate) fn in_memory(rows: u64, items: u64, duplicates: u64, row_items: &[u32]) -> Frequent {
        let least = Frequent::least(rows);
        // Only a table in which as many rows repeat a key is worth the time.
        match duplicates + 1 < least {
            true => Frequent::default(),
            false => Frequent::of(&occurrences(items as usize, row_items), least),
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
                "{} are in more than 1 % of the rows each, the most frequent in {found}: placeholders, such as \
                 000-00-0000, match strangers",
                many(keys, "key"),
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
pub(crate) fn occurrences(keys: usize, row_items: &[u32]) -> Vec<Occurrences> {
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
pub(crate) struct Top {
    most: usize,
    pub(crate) keys: Vec<Repeated>,
}

impl Top {
    /// None yet, and at most so many.
    pub(crate) fn new(most: usize) -> Top {
        Top {
            most,
            keys: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, found: &[Occurrences]) {
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
