//! The set that a run works on: all at once, or bucket by bucket from wherever it is kept.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use vesica_psi::{Output, Shares};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::items::all_distinct;
use crate::terms::LEARNS;
use crate::{Assignment, Contract, Error, Learns};

/// The progress of a run, kept by a [`KeySet`] so that another run can resume it.
///
/// It contains nothing that the protocol could use: randomness, correlations and sessions are fresh in every
/// run. `origin` names the run that assigned items to buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The contract of the last run.
    pub contract: Contract,
    /// Session of the first in the chain of resumed runs.
    pub origin: [u8; 32],
    /// For each finished bucket, from the first on, how many matches it had; zero on a side that does not
    /// learn them.
    pub found: Vec<u64>,
}

impl State {
    /// Whether every bucket is finished.
    pub fn is_complete(&self) -> bool {
        self.finished() == self.contract.buckets
    }

    /// The key of the hash in whose order the matches are, where both sides learn them in one order. It is that of the
    /// first in the chain of resumed runs.
    pub fn order_key(&self) -> Option<[u8; 32]> {
        let key = || *blake3::keyed_hash(&self.origin, b"vesica/1 order of matches").as_bytes();
        (self.contract.get(&LEARNS) == Learns::Aligned).then(key)
    }

    /// Number of finished buckets.
    pub fn finished(&self) -> u32 {
        self.found.len() as u32
    }
}

/// What a side has kept of an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Checkpoint {
    /// Nothing.
    #[default]
    Nothing,
    /// Something that is useless now, because this side's set has changed.
    OfAnotherSet,
    /// Its progress with the very same set.
    State(Box<State>),
}

/// The keys in a bucket.
#[derive(Clone, Debug)]
pub struct BucketKeys<'a> {
    /// Their digests, each once.
    pub digests: Cow<'a, [[u8; 32]]>,
    /// The number that each key is, if keys are numbers of a declared width.
    pub numbers: Option<Cow<'a, [u64]>>,
    /// The values of each, one key's after the other's, if this side has values.
    pub values: Option<Cow<'a, [i64]>>,
    /// A label for each, one after the other, on a side that hands over labels.
    pub labels: Option<Cow<'a, [u8]>>,
}

/// The labels of a set, one for each key.
#[derive(Clone, Copy, Debug)]
pub struct Labels<'a> {
    /// One after the other, in the order of the keys.
    pub all: &'a [u8],
    /// Bytes of each.
    pub bytes: usize,
}

impl<'a> From<&'a [[u8; 32]]> for BucketKeys<'a> {
    fn from(digests: &'a [[u8; 32]]) -> Self {
        BucketKeys {
            digests: Cow::Borrowed(digests),
            numbers: None,
            values: None,
            labels: None,
        }
    }
}

/// One side's distinct keys, as 32-byte digests, and where its matches go.
///
/// A failure is reported to the peer as a limit of this side. The peer sees when a call returns: apart from
/// failures, no call may take time that depends on what matched.
pub trait KeySet: Send {
    /// How many keys there are.
    fn items(&self) -> u64;

    /// What is left of an earlier run of the same job.
    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::Nothing
    }

    /// Puts the keys into buckets. The run begins after the first `state.finished()` buckets; results from
    /// all others are forgotten.
    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError>;

    /// The keys in a bucket.
    fn load(&mut self, bucket: u32) -> Result<BucketKeys<'_>, WireError>;

    /// Called when the run of the last loaded bucket is over: `output` is what this side has learnt about its
    /// digests. What is kept is on disk when this returns.
    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError>;
}

/// Digests in memory, put into buckets by their indices.
#[derive(Clone, Debug, Default)]
pub struct MemoryBuckets {
    /// For each bucket the indices of its digests; empty if there is one bucket.
    buckets: Vec<Vec<u32>>,
    current: usize,
}

impl MemoryBuckets {
    /// Puts every digest into its bucket; there are at most 2³² − 1.
    pub fn assign(&mut self, assignment: &Assignment, digests: &[[u8; 32]]) {
        self.buckets.clear();
        if assignment.buckets() > 1 {
            let number = assignment.buckets() as usize;
            self.buckets.resize(number, Vec::new());
            for (index, digest) in (0..).zip(digests) {
                self.buckets[assignment.bucket(digest) as usize].push(index);
            }
        }
    }

    /// The keys in a bucket, of all of them, which have labels of so many bytes. If they are
    /// [all in one](MemoryBuckets::is_one), the digests are handed on as they come, and may be given away: nothing needs
    /// them any more.
    pub fn load<'a>(
        &mut self,
        bucket: u32,
        all: BucketKeys<'a>,
        label_bytes: usize,
    ) -> BucketKeys<'a> {
        /// Of so many elements for each key.
        fn pick<'a, T: Copy>(
            all: Cow<'a, [T]>,
            each: usize,
            indices: Option<&[u32]>,
        ) -> Cow<'a, [T]> {
            let Some(indices) = indices else {
                return all;
            };
            let mut picked = Vec::with_capacity(indices.len() * each);
            for index in indices {
                picked.extend_from_slice(&all[*index as usize * each..][..each]);
            }
            Cow::Owned(picked)
        }
        self.current = bucket as usize;
        let columns = |values: &[i64]| values.len().checked_div(all.digests.len()).unwrap_or(1);
        let columns = all.values.as_deref().map_or(1, columns);
        let indices = self.current();
        BucketKeys {
            digests: pick(all.digests, 1, indices),
            numbers: all.numbers.map(|numbers| pick(numbers, 1, indices)),
            values: all.values.map(|values| pick(values, columns, indices)),
            labels: all.labels.map(|labels| pick(labels, label_bytes, indices)),
        }
    }

    /// Puts what is known of the last loaded keys, `each` elements of each, into its place among those of all keys.
    ///
    /// # Panics
    /// If `of_bucket` has another length, or `of_all` is too short.
    pub fn place<T: Copy>(&self, of_bucket: &[T], each: usize, of_all: &mut [T]) {
        let Some(indices) = self.current() else {
            return of_all.copy_from_slice(of_bucket);
        };
        assert_eq!(of_bucket.len(), indices.len() * each);
        for (index, new) in indices.iter().zip(of_bucket.chunks_exact(each)) {
            of_all[*index as usize * each..][..each].copy_from_slice(new);
        }
    }

    /// Whether all digests are in one bucket.
    pub fn is_one(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The indices of the last loaded digests; `None` if those are all, in order.
    pub fn current(&self) -> Option<&[u32]> {
        self.buckets.get(self.current).map(Vec::as_slice)
    }
}

/// A set in memory, for one run. Nothing is kept after it.
pub struct MemorySet<'a> {
    digests: Cow<'a, [[u8; 32]]>,
    items: usize,
    numbers: Option<&'a [u64]>,
    values: Option<&'a [i64]>,
    labels: Option<Labels<'a>>,
    buckets: MemoryBuckets,
    matched: Option<Vec<bool>>,
    handed_over: Zeroizing<Vec<u8>>,
    shares: Option<Shares>,
}

impl<'a> MemorySet<'a> {
    /// At most 2³² − 1 digests, and the values of each, one digest's after the other's, if this side has values. A run needs
    /// less memory if the digests are given to it.
    ///
    /// Fails with [`Error::Usage`] for digests that repeat, or do not have equally many values.
    pub fn new(
        digests: impl Into<Cow<'a, [[u8; 32]]>>,
        values: Option<&'a [i64]>,
    ) -> Result<MemorySet<'a>, Error> {
        let digests = digests.into();
        let usage = |problem: &str| Err(Error::Usage(problem.into()));
        if !all_distinct(&digests) {
            return usage("a set holds each item once, and this one holds some twice");
        }
        let left = |values: &[i64]| {
            values
                .len()
                .checked_rem(digests.len())
                .unwrap_or(values.len())
        };
        if values.is_some_and(|values| left(values) != 0) {
            return usage("the items do not have equally many values");
        }
        Ok(MemorySet {
            items: digests.len(),
            digests,
            numbers: None,
            values,
            labels: None,
            buckets: MemoryBuckets::default(),
            matched: None,
            handed_over: Zeroizing::default(),
            shares: None,
        })
    }

    /// The same keys, which are these numbers of a declared width.
    ///
    /// Fails with [`Error::Usage`] if there is not one for each digest.
    pub fn with_numbers(self, numbers: &'a [u64]) -> Result<MemorySet<'a>, Error> {
        if numbers.len() != self.items {
            return Err(Error::Usage("there is not one number for each item".into()));
        }
        Ok(MemorySet {
            numbers: Some(numbers),
            ..self
        })
    }

    /// The same with labels to hand over.
    ///
    /// Fails with [`Error::Usage`] if there is not one for each digest.
    pub fn with_labels(self, labels: Labels<'a>) -> Result<MemorySet<'a>, Error> {
        if Some(labels.all.len()) != self.items.checked_mul(labels.bytes) {
            return Err(Error::Usage("there is not one label for each item".into()));
        }
        Ok(MemorySet {
            labels: Some(labels),
            ..self
        })
    }

    /// Refuses a second run with digests that were given to the first.
    fn check(&self) -> Result<(), WireError> {
        match self.digests.len() == self.items {
            true => Ok(()),
            false => Err(WireError::limit(
                Limit::Input,
                "the set has been given to an earlier run",
            )),
        }
    }

    /// For each digest whether it matched, once this side knows.
    pub fn matched(&self) -> Option<&[bool]> {
        self.matched.as_deref()
    }

    /// For each digest the label that the sender has handed over, one after the other; zeros for those that did not
    /// match. Empty if none were handed over.
    pub fn handed_over(&self) -> &[u8] {
        &self.handed_over
    }

    /// This side's shares, if the run made some.
    pub fn into_shares(self) -> Option<Shares> {
        self.shares
    }
}

impl KeySet for MemorySet<'_> {
    fn items(&self) -> u64 {
        self.items as u64
    }

    fn assign(&mut self, assignment: &Assignment, _: &State) -> Result<(), WireError> {
        self.check()?;
        self.buckets.assign(assignment, &self.digests);
        Ok(())
    }

    fn load(&mut self, bucket: u32) -> Result<BucketKeys<'_>, WireError> {
        self.check()?;
        let digests = match &mut self.digests {
            Cow::Owned(digests) if self.buckets.is_one() => std::mem::take(digests).into(),
            digests => Cow::Borrowed(&**digests),
        };
        let all = BucketKeys {
            digests,
            numbers: self.numbers.map(Cow::Borrowed),
            values: self.values.map(Cow::Borrowed),
            labels: self.labels.map(|labels| labels.all.into()),
        };
        let label_bytes = self.labels.map_or(0, |labels| labels.bytes);
        Ok(self.buckets.load(bucket, all, label_bytes))
    }

    fn finished(&mut self, output: Output, _: &State) -> Result<(), WireError> {
        let items = self.items;
        let matched = match output {
            Output::Matches(matched) => matched,
            Output::Labelled {
                matched,
                labels,
                bytes,
            } => {
                self.handed_over.resize(items * bytes, 0);
                self.buckets.place(&labels, bytes, &mut self.handed_over);
                matched
            }
            output => {
                if let Output::Shares(shares) = output {
                    self.shares = Some(shares);
                }
                return Ok(());
            }
        };
        let all = self.matched.get_or_insert_with(|| vec![false; items]);
        self.buckets.place(&matched, 1, all);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_given_to_one_run_and_lent_to_many() {
        let digests = [[1; 32], [2; 32]];
        let mut lent = MemorySet::new(&digests, None).unwrap();
        let mut given = MemorySet::new(digests.to_vec(), None).unwrap();
        assert_eq!(*given.load(0).unwrap().digests, digests);
        assert!(given.load(0).is_err());
        for _ in 0..2 {
            assert_eq!(*lent.load(0).unwrap().digests, digests);
        }
    }
}
