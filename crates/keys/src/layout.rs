//! What goes with a key, and how that of several rows is joined: said once, for keys in memory and on disk.

/// A column of values that go with keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The largest absolute value of a key.
    pub bound: u64,
    /// Whether a key that several rows have takes the sum of their values; otherwise it is refused.
    pub sums_repeated: bool,
}

impl Column {
    /// The sum over the rows of a key, if it is within the bound.
    fn within(self, sum: i128) -> Option<i64> {
        let sum = i64::try_from(sum).ok()?;
        (sum.unsigned_abs() <= self.bound).then_some(sum)
    }
}

/// What goes with each key of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Whether keys are numbers of a declared width, which can be compared as they are.
    pub has_numbers: bool,
    /// The columns of values.
    pub columns: Vec<Column>,
    /// Bytes of a label.
    pub label: usize,
    /// How the labels of the rows of a key become its own.
    pub labels: Labels,
}

/// How the labels of several rows of one key become that of the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// All rows have the same.
    #[default]
    Same,
    /// The same, and it says which group the key is in, of so many at most; zeros say that it is in none. How many keys each
    /// group has is counted.
    Group(usize),
    /// Each row has one of so many slots, all of the same length; a slot that begins with zero is free. Rows have the first
    /// slots, in their order.
    Slots(usize),
}

/// Bytes of a value of a row, and of the sum of those that a key has: fewer than 2^32 terms of 64 bits, so that no sum
/// overflows, in whichever order its terms come.
const SUM_BYTES: usize = 16;

/// Bytes of the value of a key.
const VALUE_BYTES: usize = 8;

/// Why what goes with a key in two rows does not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clash {
    /// Its labels are different.
    Labels,
    /// It is in two groups.
    Group,
    /// There are more rows than slots for their labels.
    Rows(usize),
    /// It is repeated, and this column's values must not be added.
    Repeated(usize),
}

impl Layout {
    /// Appends what goes with the key of a row: its label, and a value for each column.
    pub fn put(&self, label: &[u8], values: impl Iterator<Item = i64>, beside: &mut Vec<u8>) {
        beside.extend_from_slice(label);
        let values = values.take(self.columns.len()).map(i128::from);
        beside.extend(values.flat_map(i128::to_le_bytes));
    }

    /// Whether nothing goes with keys but their numbers.
    pub(crate) fn is_bare(&self) -> bool {
        self.beside() == 0
    }

    /// Bytes of what goes with a key while rows come together: its label, and the sum of each column.
    pub(crate) fn beside(&self) -> usize {
        self.label + SUM_BYTES * self.columns.len()
    }

    /// Bytes of the same in a bucket, once the sums are known to be values.
    pub(crate) fn beside_in_bucket(&self) -> usize {
        self.label + VALUE_BYTES * self.columns.len()
    }

    fn number_bytes(&self) -> usize {
        if self.has_numbers { 8 } else { 0 }
    }

    /// Bytes of a key in a run on disk.
    pub(crate) fn key_bytes(&self) -> usize {
        32 + self.number_bytes() + self.beside()
    }

    /// Bytes of a key in a bucket on disk.
    pub(crate) fn bucket_key_bytes(&self) -> usize {
        32 + self.number_bytes() + self.beside_in_bucket()
    }

    /// Cuts so many keys on disk, one column after the other, into digests, numbers and what goes with them.
    pub(crate) fn cut<'b>(
        &self,
        keys: &'b [u8],
        count: usize,
    ) -> (&'b [[u8; 32]], &'b [[u8; 8]], &'b [u8]) {
        let (digests, rest) = keys.split_at(32 * count);
        let (numbers, beside) = rest.split_at(self.number_bytes() * count);
        (digests.as_chunks().0, numbers.as_chunks().0, beside)
    }

    /// The sums in what goes with a key.
    pub(crate) fn sums<'b>(&self, beside: &'b [u8]) -> impl Iterator<Item = i128> + use<'b> {
        let (sums, _) = beside[self.label..].as_chunks::<SUM_BYTES>();
        sums.iter().map(|sum| i128::from_le_bytes(*sum))
    }

    /// How many slots of a label are taken.
    pub(crate) fn taken(&self, beside: &[u8]) -> usize {
        match self.labels {
            Labels::Same | Labels::Group(_) => 0,
            Labels::Slots(slots) => {
                let slots = beside[..self.label].chunks_exact(self.label / slots);
                slots.take_while(|slot| slot[0] != 0).count()
            }
        }
    }

    /// Whether, and why, what a later row has for a key does not go with that of an earlier one.
    pub(crate) fn clash(&self, beside: &[u8], later: &[u8]) -> Option<Clash> {
        match self.labels {
            Labels::Same if beside[..self.label] != later[..self.label] => {
                return Some(Clash::Labels);
            }
            Labels::Group(_) if beside[..self.label] != later[..self.label] => {
                return Some(Clash::Group);
            }
            Labels::Slots(slots) if self.taken(beside) + self.taken(later) > slots => {
                return Some(Clash::Rows(slots));
            }
            Labels::Same | Labels::Group(_) | Labels::Slots(_) => {}
        }
        let once = self.columns.iter().position(|column| !column.sums_repeated);
        once.map(Clash::Repeated)
    }

    /// Adds what a later row has for a key, with which it goes together.
    pub(crate) fn add(&self, beside: &mut [u8], later: &[u8]) {
        if let Labels::Slots(slots) = self.labels {
            let (start, more) = (self.taken(beside), self.taken(later));
            let slot = self.label / slots;
            beside[start * slot..(start + more) * slot].copy_from_slice(&later[..more * slot]);
        }
        let sums = beside[self.label..].as_chunks_mut::<SUM_BYTES>().0;
        for (sum, later) in sums.iter_mut().zip(self.sums(later)) {
            *sum = (i128::from_le_bytes(*sum) + later).to_le_bytes();
        }
    }

    /// Makes zeros of what the key that is last here adds to that of other rows: its sums, and slots.
    pub(crate) fn clear_sums(&self, beside: &mut [u8]) {
        let of_rows = match self.labels {
            Labels::Same | Labels::Group(_) => SUM_BYTES * self.columns.len(),
            Labels::Slots(_) => self.beside(),
        };
        let start = beside.len() - of_rows;
        beside[start..].fill(0);
    }

    /// The first column in which the sum of a key is beyond its bound.
    pub(crate) fn beyond(&self, beside: &[u8]) -> Option<usize> {
        let mut sums = self.sums(beside).zip(&self.columns);
        sums.position(|(sum, column)| column.within(sum).is_none())
    }

    /// Makes values of the sums of a key, which are within their bounds: the first bytes of each.
    pub(crate) fn narrow(&self, beside: &mut Vec<u8>) {
        for column in 0..self.columns.len() {
            let from = self.label + SUM_BYTES * column;
            let to = self.label + VALUE_BYTES * column;
            beside.copy_within(from..from + VALUE_BYTES, to);
        }
        beside.truncate(self.beside_in_bucket());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_within_their_bounds_or_not() {
        let layout = Layout {
            has_numbers: true,
            columns: vec![
                Column {
                    bound: 10_000,
                    sums_repeated: true,
                };
                2
            ],
            label: 3,
            labels: Labels::Same,
        };
        let mut beside = Vec::new();
        layout.put(b"abc", [-10_000, 7].into_iter(), &mut beside);
        assert_eq!(beside.len(), layout.beside());
        assert_eq!(layout.beyond(&beside), None);
        let mut later = Vec::new();
        layout.put(b"abc", [0, 9993].into_iter(), &mut later);
        assert_eq!(layout.clash(&beside, &later), None);
        layout.add(&mut beside, &later);
        assert!(layout.sums(&beside).eq([-10_000, 10_000]));
        assert_eq!(layout.beyond(&beside), None);
        let mut narrow = beside.clone();
        layout.narrow(&mut narrow);
        let values = [-10_000i64, 10_000].map(i64::to_le_bytes);
        assert_eq!(narrow, [b"abc", values.as_flattened()].concat());
        for (values, beyond) in [
            ([-1, 0], 0),
            ([0, 1], 1),
            ([i64::MIN, 0], 0),
            ([i64::MAX, 1], 0),
        ] {
            let (mut sums, mut more) = (beside.clone(), Vec::new());
            layout.put(b"abc", values.into_iter(), &mut more);
            layout.add(&mut sums, &more);
            assert_eq!(layout.beyond(&sums), Some(beyond), "{values:?}");
        }
        later[0] = b'b';
        assert_eq!(layout.clash(&beside, &later), Some(Clash::Labels));
    }

    #[test]
    fn labels_of_rows_take_slots_in_their_order() {
        let layout = Layout {
            label: 9,
            labels: Labels::Slots(3),
            ..Layout::default()
        };
        let mut beside = b"\x01ab\0\0\0\0\0\0".to_vec();
        let later = b"\x01cd\x01ef\0\0\0";
        assert_eq!(layout.clash(&beside, later), None);
        layout.add(&mut beside, later);
        assert_eq!(beside, b"\x01ab\x01cd\x01ef");
        assert_eq!(layout.taken(&beside), 3);
        let one = b"\x01gh\0\0\0\0\0\0";
        assert_eq!(layout.clash(&beside, one), Some(Clash::Rows(3)));
        assert_eq!(layout.clash(&beside, &[0; 9]), None);
        layout.clear_sums(&mut beside);
        assert_eq!(beside, [0; 9]);
    }

    #[test]
    fn a_column_whose_values_are_not_added_is_named() {
        let column = |sums_repeated| Column {
            bound: 9,
            sums_repeated,
        };
        let layout = Layout {
            columns: vec![column(true), column(false)],
            ..Layout::default()
        };
        let beside = vec![0; layout.beside()];
        assert_eq!(layout.clash(&beside, &beside), Some(Clash::Repeated(1)));
    }
}
