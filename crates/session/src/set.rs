//! The set that a run works on: all at once, or bucket by bucket from wherever it is kept.

use std::borrow::Cow;
use std::fmt;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use vesica_psi::{Output, Reveal, Shares, matched_items};
use vesica_wire::{Error as WireError, Limit};
use zeroize::{Zeroize, Zeroizing};

use crate::codec::bad;
use crate::items::all_distinct;
use crate::terms::{LEARNS, MIN_SIZE, REVEAL};
use crate::{Assignment, Contract, Error, Learns};

/// The progress of a run, kept by a [`KeySet`] so that another run can resume it.
///
/// It contains nothing that the protocol could use: randomness, correlations and sessions are fresh in every
/// run. `origin` names the run that assigned items to buckets.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The contract of the last run.
    pub contract: Contract,
    /// Session of the first in the chain of resumed runs.
    pub origin: [u8; 32],
    /// For each finished bucket, from the first on, how many matches it had; zero on a side that does not
    /// learn them.
    pub found: Vec<u64>,
    /// Where numbers are added up over buckets, what this side has of them after each of the last of the finished buckets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Carried>,
}

/// Without the session, from which keys of a job follow, and without what was found.
impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("contract", &self.contract)
            .field("finished", &self.found.len())
            .finish_non_exhaustive()
    }
}

/// After how many of the last buckets numbers are kept. What two sides have recorded is at most two buckets apart: neither
/// finishes a bucket before the other is in it, and each records one while the next runs.
pub(crate) const MAX_CARRIED: usize = 3;

/// One side's shares of numbers, of which it learns nothing. Wiped when dropped.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Carried(pub(crate) Vec<u64>);

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

vesica_primitives::opaque!(Carried);

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

    /// One more bucket is finished, of which this side has learnt so much. The time does not depend on what matched.
    pub(crate) fn add(&mut self, output: &Output) {
        self.found.push(output.matched().map_or(0, count));
        if let Output::Carried(shares) = output {
            self.carried.push(Carried(shares.to_vec()));
            let older = self.carried.len().saturating_sub(MAX_CARRIED);
            self.carried.drain(..older);
        }
    }

    /// Fails if rows above a threshold are too few, or more than a side has keys: such bits somebody has changed.
    pub(crate) fn check_found(&self) -> Result<(), WireError> {
        let contract = &self.contract;
        let found: u64 = self.found.iter().sum();
        let few = 1..contract.get(&MIN_SIZE);
        let most = contract.receiver_size.min(contract.sender_size);
        if contract.get(&REVEAL) == Reveal::ThresholdMatches
            && (few.contains(&found) || found > most)
        {
            return Err(bad("matches above a threshold", "a number that cannot be"));
        }
        Ok(())
    }

    /// What this side has of the numbers after so many buckets, if it has something.
    pub(crate) fn carried_after(&self, buckets: u32) -> Option<Carried> {
        let later = self.finished().checked_sub(buckets)? as usize;
        self.carried.iter().rev().nth(later).cloned()
    }
}

/// How many match. The time does not depend on which.
fn count(matched: &[bool]) -> u64 {
    matched.iter().map(|matched| u64::from(*matched)).sum()
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

/// Keys with what goes with them.
#[derive(Clone, Default)]
pub struct BucketKeys<'a> {
    /// Their digests, each once.
    pub digests: Cow<'a, [[u8; 32]]>,
    /// The number that each key is, if keys are numbers of a declared width.
    pub numbers: Option<Cow<'a, [u64]>>,
    /// The values of each, one key's after the other's, if this side has values.
    pub values: Option<Cow<'a, [i64]>>,
    /// A label for each, one after the other, on a side that hands over labels; or a string of which both sides get shares.
    pub labels: Option<Cow<'a, [u8]>>,
}

vesica_primitives::opaque!(BucketKeys<'_>);

impl<'a> BucketKeys<'a> {
    /// The same keys, lent.
    fn lend(&self) -> BucketKeys<'_> {
        BucketKeys {
            digests: Cow::Borrowed(&self.digests),
            numbers: self.numbers.as_deref().map(Cow::Borrowed),
            values: self.values.as_deref().map(Cow::Borrowed),
            labels: self.labels.as_deref().map(Cow::Borrowed),
        }
    }

    /// The same keys, owned.
    pub(crate) fn into_owned(mut self) -> BucketKeys<'static> {
        BucketKeys {
            digests: std::mem::take(&mut self.digests).into_owned().into(),
            numbers: self.numbers.take().map(|all| all.into_owned().into()),
            values: self.values.take().map(|all| all.into_owned().into()),
            labels: self.labels.take().map(|all| all.into_owned().into()),
        }
    }

    /// The keys at these indices.
    fn pick(&self, indices: &[u32]) -> BucketKeys<'a> {
        /// Of equally many elements for each of so many keys.
        fn pick<T: Copy, C: From<Vec<T>>>(all: &[T], keys: usize, indices: &[u32]) -> C {
            let each = all.len() / keys.max(1);
            let mut picked = Vec::with_capacity(indices.len() * each);
            for index in indices {
                picked.extend_from_slice(&all[*index as usize * each..][..each]);
            }
            picked.into()
        }
        let keys = self.digests.len();
        BucketKeys {
            digests: pick(&self.digests, keys, indices),
            numbers: self.numbers.as_ref().map(|all| pick(all, keys, indices)),
            values: self.values.as_ref().map(|all| pick(all, keys, indices)),
            labels: self.labels.as_ref().map(|all| pick(all, keys, indices)),
        }
    }
}

/// Wipes the values and labels that it owns.
impl Drop for BucketKeys<'_> {
    fn drop(&mut self) {
        if let Some(Cow::Owned(values)) = &mut self.values {
            values.zeroize();
        }
        if let Some(Cow::Owned(labels)) = &mut self.labels {
            labels.zeroize();
        }
    }
}

impl<'a, D: Into<Cow<'a, [[u8; 32]]>>> From<D> for BucketKeys<'a> {
    fn from(digests: D) -> Self {
        BucketKeys {
            digests: digests.into(),
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

    /// Called when the run over the last of the finished buckets is over: `output` is what this side has learnt about its
    /// digests. The next may have been loaded by then, and may be running. What is kept is on disk when this returns.
    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError>;

    /// This side's shares of which cells of a bucket match, of what it had in [`KeySet::finished`]. Runs that reveal matches
    /// under a minimum ask for those of all their buckets, twice, once these are finished. Such runs go on from no
    /// [`KeySet::checkpoint`].
    fn shares_of(&mut self, bucket: u32) -> Result<Zeroizing<Vec<bool>>, WireError> {
        let _ = bucket;
        Err(keeps_no_shares())
    }

    /// The same runs tell a receiver then which cells of a bucket match. Returns how many of its keys do.
    fn opened(&mut self, bucket: u32, matches: &[bool]) -> Result<u64, WireError> {
        let _ = (bucket, matches);
        Err(keeps_no_shares())
    }

    /// Called once a run is over on both sides, when nobody waits for this one. No shares are asked for after that, and none
    /// may be kept: those of both sides together have the matches, even of sets that have too few.
    fn all_opened(&mut self) -> Result<(), WireError> {
        Ok(())
    }
}

fn keeps_no_shares() -> WireError {
    WireError::limit(Limit::Input, "the set keeps no shares of its buckets")
}

/// A set in memory, for one run. Nothing is kept after it.
#[derive(Default)]
pub struct MemorySet<'a> {
    /// All keys, unless they have been given away.
    keys: BucketKeys<'a>,
    items: usize,
    /// For each bucket the indices of its keys; empty if there is one bucket.
    buckets: Vec<Vec<u32>>,
    /// Whether the digests are for more than the run: the order of the matches.
    keeps: bool,
    matched: Option<Vec<bool>>,
    handed_over: Option<Zeroizing<Vec<u8>>>,
    shares: Option<Shares>,
    /// Those of each bucket whose matches are not opened yet.
    withheld: Vec<Shares>,
}

impl<'a> MemorySet<'a> {
    /// At most 2³² − 1 keys. A run needs less memory if the digests are given to it.
    ///
    /// Fails with [`Error::Usage`] as [`MemorySet::of_distinct`] does, and for digests that repeat.
    pub fn new(keys: impl Into<BucketKeys<'a>>) -> Result<MemorySet<'a>, Error> {
        let keys = keys.into();
        if !all_distinct(&keys.digests) {
            let problem = "a set holds each item once, and this one holds some twice";
            return Err(Error::Usage(problem.into()));
        }
        MemorySet::of_distinct(keys)
    }

    /// Keys that are known to be distinct.
    ///
    /// Fails with [`Error::Usage`] if there is not one number for each, or not equally many values or bytes of a label.
    pub fn of_distinct(keys: BucketKeys<'a>) -> Result<MemorySet<'a>, Error> {
        let items = keys.digests.len();
        let uneven = |len: usize| len.checked_rem(items).unwrap_or(len) != 0;
        let numbers = keys.numbers.as_ref();
        let problem = if numbers.is_some_and(|numbers| numbers.len() != items) {
            "there is not one number for each item"
        } else if keys.values.as_ref().is_some_and(|all| uneven(all.len())) {
            "the items do not have equally many values"
        } else if keys.labels.as_ref().is_some_and(|all| uneven(all.len())) {
            "the items do not have labels of equally many bytes"
        } else {
            return Ok(MemorySet {
                keys,
                items,
                ..MemorySet::default()
            });
        };
        Err(Error::Usage(problem.into()))
    }

    /// Refuses a second run with keys that were given to the first.
    fn check(&self) -> Result<(), WireError> {
        match self.keys.digests.len() == self.items {
            true => Ok(()),
            false => Err(WireError::limit(
                Limit::Input,
                "the set has been given to an earlier run",
            )),
        }
    }

    /// The digests of all keys. There are none once they have been given to a run, which keeps them if the matches have an
    /// order.
    pub fn digests(&self) -> &[[u8; 32]] {
        &self.keys.digests
    }

    /// The indices of a bucket's keys; `None` if those are all, in order.
    pub fn indices(&self, bucket: u32) -> Option<&[u32]> {
        self.buckets.get(bucket as usize).map(Vec::as_slice)
    }

    /// The shares of a bucket that has run.
    fn withheld(&self, bucket: u32) -> Result<&Shares, WireError> {
        let shares = self.withheld.get(bucket as usize);
        shares.ok_or_else(keeps_no_shares)
    }

    /// Puts what is known of a bucket's keys, `each` elements of each, into its place among those of all keys.
    fn place<T: Copy + Default>(
        &self,
        bucket: u32,
        of_bucket: &[T],
        each: usize,
        of_all: &mut Vec<T>,
    ) {
        of_all.resize(self.items * each, T::default());
        let Some(indices) = self.indices(bucket) else {
            return of_all.copy_from_slice(of_bucket);
        };
        assert_eq!(of_bucket.len(), indices.len() * each);
        for (place, index) in indices.iter().enumerate() {
            let new = &of_bucket[place * each..][..each];
            of_all[*index as usize * each..][..each].copy_from_slice(new);
        }
    }

    /// For each digest whether it matched, once this side knows.
    pub fn matched(&self) -> Option<&[bool]> {
        self.matched.as_deref()
    }

    /// For each digest the label that the sender has handed over, one after the other; zeros for those that did not
    /// match. `None` if none were handed over.
    pub fn handed_over(&self) -> Option<&[u8]> {
        self.handed_over.as_deref().map(Vec::as_slice)
    }

    /// This side's shares, if the run made some: those of one bucket after the other's.
    pub fn shares(&self) -> Option<&Shares> {
        self.shares.as_ref()
    }
}

/// Keys that a thread puts into buckets at once.
const KEYS_AT_ONCE: usize = 1 << 12;

impl KeySet for MemorySet<'_> {
    fn items(&self) -> u64 {
        self.items as u64
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.check()?;
        self.keeps = state.order_key().is_some();
        self.buckets.clear();
        self.withheld.clear();
        if assignment.buckets() > 1 {
            let number = assignment.buckets() as usize;
            self.buckets.resize(number, Vec::new());
            let parts = self.keys.digests.par_chunks(KEYS_AT_ONCE);
            let buckets = parts.flat_map_iter(|digests| assignment.buckets_of(digests));
            for (index, bucket) in (0..).zip(buckets.collect::<Vec<_>>()) {
                self.buckets[bucket as usize].push(index);
            }
        }
        Ok(())
    }

    fn load(&mut self, bucket: u32) -> Result<BucketKeys<'_>, WireError> {
        self.check()?;
        if let Some(indices) = self.indices(bucket) {
            return Ok(self.keys.pick(indices));
        }
        let given = !self.keeps && matches!(self.keys.digests, Cow::Owned(_));
        Ok(match given {
            true => std::mem::take(&mut self.keys),
            false => self.keys.lend(),
        })
    }

    fn shares_of(&mut self, bucket: u32) -> Result<Zeroizing<Vec<bool>>, WireError> {
        Ok(self.withheld(bucket)?.matches.clone())
    }

    fn opened(&mut self, bucket: u32, matches: &[bool]) -> Result<u64, WireError> {
        let items = self.withheld(bucket)?.items.as_deref();
        let matched = matched_items(items.unwrap_or_default(), matches);
        let mut all = self.matched.take().unwrap_or_default();
        self.place(bucket, &matched, 1, &mut all);
        self.matched = Some(all);
        Ok(count(&matched))
    }

    fn all_opened(&mut self) -> Result<(), WireError> {
        self.withheld = Vec::new();
        Ok(())
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        let bucket = state.finished() - 1;
        if let Some(matched) = output.matched() {
            let mut all = self.matched.take().unwrap_or_default();
            self.place(bucket, matched, 1, &mut all);
            self.matched = Some(all);
        }
        match output {
            Output::Labelled { labels, bytes, .. } => {
                let mut all = self.handed_over.take().unwrap_or_default();
                self.place(bucket, &labels, bytes, &mut all);
                self.handed_over = Some(all);
            }
            Output::Shares(shares) if state.contract.get(&REVEAL) != Reveal::Shares => {
                self.withheld.push(shares);
            }
            Output::Shares(mut shares) => {
                if let Some(indices) = self.indices(bucket) {
                    for item in shares.items.iter_mut().flatten().flatten() {
                        *item = indices[*item as usize];
                    }
                }
                match &mut self.shares {
                    None => self.shares = Some(shares),
                    Some(earlier) => earlier.append(shares),
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys with two values and a label of three bytes each, all of which follow from the number of the key.
    fn keys(count: u8) -> BucketKeys<'static> {
        let mut keys = BucketKeys::from((0..count).map(|i| [i; 32]).collect::<Vec<_>>());
        keys.numbers = Some((0..count).map(u64::from).collect());
        let values = |i| [i64::from(i), -i64::from(i)];
        keys.values = Some((0..count).flat_map(values).collect());
        keys.labels = Some((0..count).flat_map(|i| [i, i ^ 1, i ^ 2]).collect());
        keys
    }

    #[test]
    fn columns_follow_their_keys_and_what_is_learnt_finds_its_way_back() {
        let all = keys(5);
        let mut set = MemorySet::new(all.lend()).unwrap();
        set.buckets = vec![vec![3, 0], vec![], vec![4, 1, 2]];
        let (mut matched, mut labels) = (Vec::new(), Vec::new());
        for bucket in [2, 0, 1] {
            let keys = set.load(bucket).unwrap();
            let (numbers, values) = (keys.numbers.as_deref(), keys.values.as_deref());
            for (place, digest) in keys.digests.iter().enumerate() {
                let i = digest[0];
                assert_eq!(numbers.unwrap()[place], u64::from(i));
                assert_eq!(values.unwrap()[2 * place..][..2], [i.into(), -i64::from(i)]);
            }
            let learnt: Vec<bool> = keys.digests.iter().map(|d| d[0] % 2 == 0).collect();
            let own = keys.labels.as_deref().unwrap().to_vec();
            drop(keys);
            set.place(bucket, &learnt, 1, &mut matched);
            set.place(bucket, &own, 3, &mut labels);
        }
        assert_eq!(matched, [true, false, true, false, true]);
        assert_eq!(labels, all.labels.as_deref().unwrap());
        // All at once, in order.
        set.buckets.clear();
        let lent = set.load(0).unwrap();
        assert_eq!((&lent.digests, &lent.values), (&all.digests, &all.values));
    }

    #[test]
    fn every_key_has_as_much_as_the_others() {
        let refused = |change: fn(&mut BucketKeys<'_>)| {
            let mut keys = keys(5);
            change(&mut keys);
            matches!(MemorySet::of_distinct(keys), Err(Error::Usage(_)))
        };
        assert!(!refused(|_| {}));
        assert!(refused(|keys| keys.numbers = Some(vec![0; 10].into())));
        assert!(refused(|keys| keys.values = Some(vec![0; 9].into())));
        assert!(refused(|keys| keys.labels = Some(vec![0; 11].into())));
        // Without keys there is nothing.
        assert!(refused(|keys| keys.digests = Cow::default()));
        assert!(MemorySet::of_distinct(keys(0)).is_ok());
        let twice = [[1; 32], [2; 32], [1; 32]];
        assert!(matches!(MemorySet::new(&twice), Err(Error::Usage(_))));
    }

    #[test]
    fn digests_are_given_to_one_run_and_lent_to_many() {
        let digests = [[1; 32], [2; 32]];
        let mut lent = MemorySet::new(&digests).unwrap();
        let mut given = MemorySet::new(digests.to_vec()).unwrap();
        assert_eq!(*given.load(0).unwrap().digests, digests);
        assert!(given.load(0).is_err());
        for _ in 0..2 {
            assert_eq!(*lent.load(0).unwrap().digests, digests);
        }
    }
}
