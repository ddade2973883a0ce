//! The set that a run works on: all at once, or bucket by bucket from wherever it is kept.

use std::borrow::Cow;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vesica_keys::{KeyBlock, KeyStore};
use vesica_psi::{Output, Reveal, RowSlots, Shares, Spine, matched_items};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::codec::bad;
use crate::items::all_distinct;
use crate::terms::{LEARNS, MIN_SIZE, REVEAL};
use crate::{Assignment, Attempted, BucketShares, Contract, Error, Learns, Role};

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
    /// For each finished bucket, from the first on, how many matches it had, or rows that were handed over in a union, or ids; zero
    /// on a side that does not learn them.
    pub found: Vec<u64>,
    /// Of numbers, this side's shares of each finished bucket, which are opened once all are finished.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<BucketShares>,
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

impl State {
    /// Whether every bucket is finished.
    pub fn is_complete(&self) -> bool {
        self.finished() == self.contract.buckets
    }

    /// The name that the run has on both sides and no other run has, but for those that resume it: 16 hexadecimal digits.
    pub fn run_name(&self) -> String {
        let name = blake3::keyed_hash(&self.origin, b"vesica/1 session report");
        name.to_hex()[..16].to_owned()
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
    pub(crate) fn add(&mut self, attempted: &Attempted) {
        let output = &attempted.output;
        self.found.push(match output {
            Output::Rows(slots) => count(&slots.is_row),
            Output::Spine(spine) => spine.ids.len() as u64,
            _ => output.matched().map_or(0, count),
        });
        self.shares.extend(BucketShares::of(attempted));
    }

    /// What there was after so many buckets, for a run that begins there under this contract.
    pub(crate) fn back_to(&self, buckets: u32, contract: Contract) -> State {
        let buckets = buckets as usize;
        State {
            contract,
            origin: self.origin,
            found: self.found[..buckets].to_vec(),
            shares: self.shares.iter().take(buckets).cloned().collect(),
        }
    }

    /// Fails if rows above a threshold are too few, or more than a side has keys, or rows of a union are not as many as there
    /// can be: such bits somebody has changed.
    pub(crate) fn check_found(&self, role: Role) -> Result<(), WireError> {
        let contract = &self.contract;
        let found: u64 = self.found.iter().sum();
        let least = contract.sender_size.saturating_sub(contract.receiver_size);
        if contract.get(&REVEAL).is_rows()
            && role == Role::Receiver
            && !(least..=contract.sender_size).contains(&found)
        {
            return Err(bad("rows of a union", "a number that cannot be"));
        }
        let few = 1..contract.get(&MIN_SIZE);
        let most = contract.receiver_size.min(contract.sender_size);
        if contract.get(&REVEAL) == Reveal::ThresholdMatches
            && (few.contains(&found) || found > most)
        {
            return Err(bad("matches above a threshold", "a number that cannot be"));
        }
        Ok(())
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
    /// all others are forgotten. Shares of numbers from others are no longer on the disk either when this returns: a bucket
    /// that runs again leaves both sides with others.
    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError>;

    /// The keys in a bucket.
    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError>;

    /// Called when the run over the last of the finished buckets is over: `output` is what this side has learnt about its
    /// digests, or its shares; those of numbers are in `state` too. The next may have been loaded by then, and may be
    /// running. What is kept is on disk when this returns.
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
pub struct MemorySet {
    keys: KeyStore,
    /// Whether the keys are for more than one run: they are not given away.
    keeps: bool,
    matched: Option<Vec<bool>>,
    shares: Option<Shares>,
    /// Those of each bucket whose matches are not opened yet.
    withheld: Vec<Shares>,
    /// What the sender has handed over of each bucket in a union.
    handed_over: Vec<RowSlots>,
    spine: Option<Spine>,
}

vesica_primitives::opaque!(MemorySet, keys);

impl MemorySet {
    /// At most 2³² − 1 keys. Keys that are lent stay for another run, which takes more memory.
    ///
    /// Fails with [`Error::Usage`] as [`MemorySet::of_distinct`] does, and for digests that repeat.
    pub fn new<'a>(keys: impl Into<KeyBlock<'a>>) -> Result<MemorySet, Error> {
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
    pub fn of_distinct(keys: KeyBlock<'_>) -> Result<MemorySet, Error> {
        let keeps = matches!(keys.digests, Cow::Borrowed(_));
        let keys = KeyStore::of_distinct(keys);
        Ok(MemorySet {
            keys: keys.map_err(|e| Error::Usage(e.to_string()))?,
            keeps,
            matched: None,
            shares: None,
            withheld: Vec::new(),
            handed_over: Vec::new(),
            spine: None,
        })
    }

    /// The index, among all keys, of each of a bucket.
    fn indices(&self, bucket: u32) -> Result<Vec<u64>, WireError> {
        self.keys.first_rows(bucket as usize).map_err(limit)
    }

    /// The shares of a bucket that has run.
    fn withheld(&self, bucket: u32) -> Result<&Shares, WireError> {
        let shares = self.withheld.get(bucket as usize);
        shares.ok_or_else(keeps_no_shares)
    }

    /// Keeps which keys of a bucket match.
    fn mark(&mut self, bucket: u32, matched: &[bool]) -> Result<(), WireError> {
        let indices = self.indices(bucket)?;
        let all = self.matched.get_or_insert_default();
        all.resize(self.keys.counts().items as usize, false);
        for (index, matched) in indices.iter().zip(matched) {
            all[*index as usize] = *matched;
        }
        Ok(())
    }

    /// For each key whether it matched, once this side knows.
    pub fn matched(&self) -> Option<&[bool]> {
        self.matched.as_deref()
    }

    /// For each key the label that the sender has handed over, one after the other; zeros for those that did not match.
    /// `None` if none were handed over.
    pub fn handed_over(&self) -> Option<Vec<u8>> {
        let label = |key| self.keys.label(key).unwrap_or_default().into_owned();
        let keys = 0..self.keys.counts().items;
        (self.keys.label_bytes() > 0).then(|| keys.flat_map(label).collect())
    }

    /// In a union, the labels of the sender's keys that this side lacks, in random order within a bucket.
    pub fn rows_of_peer(&self) -> impl Iterator<Item = &[u8]> {
        self.handed_over.iter().flat_map(RowSlots::rows)
    }

    /// The ids of both sides' keys, and which are those of this side's, if the run made some.
    pub fn spine(&self) -> Option<&Spine> {
        self.spine.as_ref()
    }

    /// This side's shares, if the run made some: those of one bucket after the other's.
    pub fn shares(&self) -> Option<&Shares> {
        self.shares.as_ref()
    }
}

/// A failure of keys in memory.
fn limit(e: vesica_keys::Error) -> WireError {
    WireError::limit(Limit::Input, e)
}

impl KeySet for MemorySet {
    fn items(&self) -> u64 {
        self.keys.counts().items
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.keeps |= state.order_key().is_some();
        self.withheld.clear();
        self.handed_over.truncate(state.found.len());
        let assign = |digests: &[[u8; 32]]| assignment.buckets_of(digests);
        let number = assignment.buckets() as usize;
        // Nothing is written there.
        let split = self.keys.split(Path::new(""), number, assign);
        split.map_err(limit)
    }

    fn load(&mut self, bucket: u32) -> Result<KeyBlock<'_>, WireError> {
        self.keys.load(bucket as usize, self.keeps).map_err(limit)
    }

    fn shares_of(&mut self, bucket: u32) -> Result<Zeroizing<Vec<bool>>, WireError> {
        Ok(self.withheld(bucket)?.matches.clone())
    }

    fn opened(&mut self, bucket: u32, matches: &[bool]) -> Result<u64, WireError> {
        let items = self.withheld(bucket)?.items.as_deref();
        let matched = matched_items(items.unwrap_or_default(), matches);
        self.mark(bucket, &matched)?;
        Ok(count(&matched))
    }

    fn all_opened(&mut self) -> Result<(), WireError> {
        self.withheld = Vec::new();
        Ok(())
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        let bucket = state.finished() - 1;
        if let Some(matched) = output.matched() {
            self.mark(bucket, matched)?;
        }
        match output {
            Output::Labelled { labels, bytes, .. } => {
                let bucket = bucket as usize;
                let nowhere = Path::new("");
                let kept = self.keys.keep(bucket, &labels, bytes, u64::MAX, nowhere);
                kept.map_err(limit)
            }
            Output::Rows(slots) => {
                self.handed_over.push(slots);
                Ok(())
            }
            Output::Spine(mut spine) => {
                let by_key = self.indices(bucket)?.into_iter().zip(spine.rows.clone());
                by_key.for_each(|(key, row)| spine.rows[key as usize] = row);
                self.spine = Some(spine);
                Ok(())
            }
            Output::Shares(shares) if state.contract.get(&REVEAL) != Reveal::Shares => {
                self.withheld.push(shares);
                Ok(())
            }
            Output::Shares(mut shares) => {
                let indices = self.indices(bucket)?;
                for item in shares.items.iter_mut().flatten().flatten() {
                    *item = indices[*item as usize] as u32;
                }
                match &mut self.shares {
                    None => self.shares = Some(shares),
                    Some(earlier) => earlier.append(shares),
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_given_to_one_run_and_lent_to_many() {
        let digests = [[1; 32], [2; 32]];
        let mut lent = MemorySet::new(&digests).unwrap();
        let mut given = MemorySet::new(digests.to_vec()).unwrap();
        assert_eq!(*given.load(0).unwrap().digests, digests);
        assert!(given.load(0).is_err());
        for _ in 0..2 {
            assert_eq!(*lent.load(0).unwrap().digests, digests);
        }
        let twice = [[1; 32], [2; 32], [1; 32]];
        assert!(matches!(MemorySet::new(&twice), Err(Error::Usage(_))));
        let mut uneven = KeyBlock::from(&digests);
        uneven.labels = Some(vec![0; 3].into());
        assert!(matches!(MemorySet::new(uneven), Err(Error::Usage(_))));
    }
}
