//! Keys with what goes with them, as a run works on them.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use rayon::prelude::*;
use zeroize::Zeroize;

use crate::digests::by_bytes;
use crate::error::{Error, Result};

/// Distinct keys with what goes with them: one key's after the other's in each column.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KeyBlock<'a> {
    /// Their digests, each once.
    pub digests: Cow<'a, [[u8; 32]]>,
    /// The number that each key is, if keys are numbers of a declared width.
    pub numbers: Option<Cow<'a, [u64]>>,
    /// The values of each, equally many, if this side has values.
    pub values: Option<Cow<'a, [i64]>>,
    /// A label for each, equally long, if a side hands over labels; or a string of which both sides get shares.
    pub labels: Option<Cow<'a, [u8]>>,
}

/// Shows none of them.
impl fmt::Debug for KeyBlock<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyBlock").finish_non_exhaustive()
    }
}

/// Wipes the values and labels that it owns.
impl Drop for KeyBlock<'_> {
    fn drop(&mut self) {
        if let Some(Cow::Owned(values)) = &mut self.values {
            values.zeroize();
        }
        if let Some(Cow::Owned(labels)) = &mut self.labels {
            labels.zeroize();
        }
    }
}

impl<'a, D: Into<Cow<'a, [[u8; 32]]>>> From<D> for KeyBlock<'a> {
    fn from(digests: D) -> Self {
        KeyBlock {
            digests: digests.into(),
            numbers: None,
            values: None,
            labels: None,
        }
    }
}

impl KeyBlock<'_> {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Columns of values.
    pub fn columns(&self) -> usize {
        let values = self.values.as_ref().map_or(0, |values| values.len());
        values.checked_div(self.len()).unwrap_or(0)
    }

    /// Bytes of a label.
    pub fn label(&self) -> usize {
        let labels = self.labels.as_ref().map_or(0, |labels| labels.len());
        labels.checked_div(self.len()).unwrap_or(0)
    }

    /// Fails unless each key has as much as the others.
    pub(crate) fn check(&self) -> Result<()> {
        let keys = self.len();
        let uneven = |len: usize| len.checked_rem(keys).unwrap_or(len) != 0;
        let numbers = self.numbers.as_ref();
        Err(Error::Usage(
            if numbers.is_some_and(|numbers| numbers.len() != keys) {
                "there is not one number for each item"
            } else if self.values.as_ref().is_some_and(|all| uneven(all.len())) {
                "the items do not have equally many values"
            } else if self.labels.as_ref().is_some_and(|all| uneven(all.len())) {
                "the items do not have labels of equally many bytes"
            } else {
                return Ok(());
            },
        ))
    }

    /// Some of them, lent.
    pub fn lend(&self, keys: Range<usize>) -> KeyBlock<'_> {
        fn part<'a, T: Clone>(all: &'a [T], each: usize, keys: &Range<usize>) -> Cow<'a, [T]> {
            all[keys.start * each..keys.end * each].into()
        }
        KeyBlock {
            digests: part(&self.digests, 1, &keys),
            numbers: self.numbers.as_ref().map(|all| part(all, 1, &keys)),
            values: (self.values.as_ref()).map(|all| part(all, self.columns(), &keys)),
            labels: (self.labels.as_ref()).map(|all| part(all, self.label(), &keys)),
        }
    }

    /// The same keys, owned.
    pub fn into_owned(mut self) -> KeyBlock<'static> {
        KeyBlock {
            digests: std::mem::take(&mut self.digests).into_owned().into(),
            numbers: self.numbers.take().map(|all| all.into_owned().into()),
            values: self.values.take().map(|all| all.into_owned().into()),
            labels: self.labels.take().map(|all| all.into_owned().into()),
        }
    }

    /// The same keys in the order of their digests.
    pub fn sorted(&self) -> KeyBlock<'static> {
        if self.numbers.is_none() && self.values.is_none() && self.labels.is_none() {
            let mut digests = self.digests.to_vec();
            digests.par_sort_unstable_by(by_bytes);
            return digests.into();
        }
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.par_sort_unstable_by_key(|place| self.digests[*place as usize]);
        self.picked(&order)
    }

    /// The keys at these places.
    fn picked(&self, places: &[u32]) -> KeyBlock<'static> {
        fn pick<T: Copy>(all: &[T], each: usize, places: &[u32]) -> Cow<'static, [T]> {
            let mut picked = Vec::with_capacity(places.len() * each);
            for place in places {
                picked.extend_from_slice(&all[*place as usize * each..][..each]);
            }
            picked.into()
        }
        KeyBlock {
            digests: pick(&self.digests, 1, places),
            numbers: self.numbers.as_ref().map(|all| pick(all, 1, places)),
            values: (self.values.as_ref()).map(|all| pick(all, self.columns(), places)),
            labels: (self.labels.as_ref()).map(|all| pick(all, self.label(), places)),
        }
    }

    /// Puts each key where `places` says. Takes the memory of one more column at a time.
    pub(crate) fn permute(&mut self, places: &[u32]) {
        fn put<T: Copy + Default + Zeroize>(all: &mut Cow<'_, [T]>, each: usize, places: &[u32]) {
            let mut put = vec![T::default(); all.len()];
            for (of_key, place) in all.chunks_exact(each.max(1)).zip(places) {
                put[*place as usize * each..][..each].copy_from_slice(of_key);
            }
            if let Cow::Owned(all) = all {
                all.zeroize();
            }
            *all = put.into();
        }
        let (columns, label) = (self.columns(), self.label());
        let mut digests = vec![[0; 32]; self.len()];
        for (digest, place) in self.digests.iter().zip(places) {
            digests[*place as usize] = *digest;
        }
        self.digests = digests.into();
        if let Some(numbers) = &mut self.numbers {
            put(numbers, 1, places);
        }
        if let Some(values) = &mut self.values {
            put(values, columns, places);
        }
        if let Some(labels) = &mut self.labels {
            put(labels, label, places);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys with two values and a label of three bytes each, all of which follow from the number of the key.
    fn keys(numbers: &[u8]) -> KeyBlock<'static> {
        let mut keys = KeyBlock::from(numbers.iter().map(|i| [*i; 32]).collect::<Vec<_>>());
        keys.numbers = Some(numbers.iter().map(|i| u64::from(*i)).collect());
        let values = |i: &u8| [i64::from(*i), -i64::from(*i)];
        keys.values = Some(numbers.iter().flat_map(values).collect());
        keys.labels = Some(numbers.iter().flat_map(|i| [*i, i ^ 1, i ^ 2]).collect());
        keys
    }

    #[test]
    fn columns_follow_their_keys() {
        let all = keys(&[3, 0, 4, 1, 2]);
        assert_eq!(all.lend(1..4), keys(&[0, 4, 1]));
        assert_eq!(all.lend(2..2), keys(&[]));
        assert_eq!(all.sorted(), keys(&[0, 1, 2, 3, 4]));
        let mut permuted = all.clone();
        permuted.permute(&[2, 1, 0, 4, 3]);
        assert_eq!(permuted, keys(&[4, 0, 3, 2, 1]));
        let bare = KeyBlock::from(all.digests.clone());
        assert_eq!(bare.sorted().digests, keys(&[0, 1, 2, 3, 4]).digests);
    }

    #[test]
    fn every_key_has_as_much_as_the_others() {
        let refused = |change: fn(&mut KeyBlock<'_>)| {
            let mut keys = keys(&[0, 1, 2, 3, 4]);
            change(&mut keys);
            matches!(keys.check(), Err(Error::Usage(_)))
        };
        assert!(!refused(|_| {}));
        assert!(refused(|keys| keys.numbers = Some(vec![0; 10].into())));
        assert!(refused(|keys| keys.values = Some(vec![0; 9].into())));
        assert!(refused(|keys| keys.labels = Some(vec![0; 11].into())));
        // Without keys there is nothing.
        assert!(refused(|keys| keys.digests = Cow::default()));
        assert!(keys(&[]).check().is_ok());
    }
}
