//! The keys of a table in the form that a run uses, and the way back from them to rows.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::SystemTime;

use vesica_psi::{Output, Shares};
use vesica_session::terms::MIN_SIZE;
use vesica_session::{
    Assignment, BucketKeys, Checkpoint, KeySet, LabelTerms, MemoryBuckets, Role, State,
};
use vesica_tables::{
    Bucket, Counts, HandedOver, KeySpec, KeyStore, Keys, Matched, RowSet, Source, Spool,
    read_labels,
};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::Error;
use crate::shares::RowShares;
use crate::work_dir::{Head, Journal, WorkDir};

/// The keys of a table, its matching rows, and what a work directory keeps of them.
pub(crate) struct Stored {
    place: Place,
    counts: Counts,
    /// The directory for files of keys.
    directory: PathBuf,
    /// The rows that matched in the finished buckets.
    matched: RowSet,
    /// What a run that reveals nothing has made.
    shares: Option<RowShares>,
    /// What this side hands over, one for each key, and the bytes of each.
    labels: Option<(Zeroizing<Vec<u8>>, usize)>,
    /// What the peer has handed over, for each key, if it hands over anything.
    handed_over: Option<Zeroizing<Vec<u8>>>,
    /// Maximum bytes of these.
    label_memory: u64,
    /// The key of the order that the matches have on both sides, if they have one.
    order_key: Option<[u8; 32]>,
    checkpoints: Option<CheckpointStore>,
}

/// Where the keys are, and the bucket that was loaded last.
enum Place {
    Memory { keys: Keys, buckets: MemoryBuckets },
    Disk { spool: Spool, current: Bucket },
}

impl Place {
    /// Shares with the rows of this side's items.
    fn with_rows(&self, shares: Shares, counts: &Counts) -> Result<RowShares, WireError> {
        let rows = match (&shares.items, self) {
            (None, _) => None,
            (Some(items), Place::Memory { keys, .. }) => {
                let first = keys.first_rows();
                let row = |item: &Option<u32>| item.map(|item| first[item as usize]);
                Some(items.iter().map(row).collect())
            }
            (Some(_), Place::Disk { .. }) => return Err(shares_need_memory(counts)),
        };
        Ok(RowShares { rows, shares })
    }
}

/// The state from which another run can resume.
pub(crate) struct CheckpointStore {
    work: WorkDir,
    role: Role,
    /// What an earlier run left, until this one begins.
    earlier: Option<Journal>,
    /// What a journal calls this run's keys.
    input: [u8; 32],
    /// What the journal says about the whole answer, once this run has found it.
    answer: Option<Head>,
    /// Why the whole answer could not be kept, if it could not.
    failed: Option<WireError>,
}

impl CheckpointStore {
    /// Resumes from what an earlier run left in `work`, and records the progress of this one there.
    pub(crate) fn new(
        work: WorkDir,
        role: Role,
        earlier: Option<Journal>,
        keys: &KeyStore,
    ) -> CheckpointStore {
        let input = work.keys().input(&keys.identity());
        CheckpointStore {
            work,
            role,
            earlier,
            input,
            answer: None,
            failed: None,
        }
    }
}

impl Stored {
    pub(crate) fn new(
        keys: KeyStore,
        directory: PathBuf,
        checkpoints: Option<CheckpointStore>,
    ) -> Stored {
        let counts = *keys.counts();
        Stored {
            place: match keys {
                KeyStore::Memory(keys) => Place::Memory {
                    keys,
                    buckets: MemoryBuckets::default(),
                },
                KeyStore::Disk(spool) => Place::Disk {
                    spool,
                    current: Bucket::default(),
                },
            },
            counts,
            directory,
            matched: RowSet::none(counts.rows),
            shares: None,
            labels: None,
            handed_over: None,
            label_memory: u64::MAX,
            order_key: None,
            checkpoints,
        }
    }

    /// Takes at most so many bytes of labels from the peer.
    pub(crate) fn limit_labels(&mut self, memory: u64) {
        self.label_memory = memory;
    }

    /// Hands over the columns of these terms, of the rows of `source`.
    pub(crate) fn hand_over(
        &mut self,
        source: &Source,
        key: &KeySpec,
        terms: &LabelTerms,
        memory: u64,
    ) -> Result<(), Error> {
        let Place::Memory { keys, .. } = &self.place else {
            return Err(vesica_session::Error::Run(labels_need_memory(&self.counts)).into());
        };
        let bytes = terms.bytes as usize;
        check_memory(self.counts.items, bytes, memory).map_err(vesica_session::Error::Run)?;
        let labels = read_labels(source, key, keys, &terms.columns, bytes)?;
        self.labels = Some((labels, bytes));
        Ok(())
    }

    /// The rows that match, with what the peer has handed over under the contract, and with the order that both sides
    /// share if they agreed to one. To put rows in order takes `memory` bytes.
    pub(crate) fn matched_with<'a>(
        &'a self,
        terms: Option<&'a LabelTerms>,
        memory: u64,
    ) -> Matched<'a> {
        let handed_over = match (&self.place, &self.handed_over, terms) {
            (Place::Memory { keys, .. }, Some(labels), Some(terms)) => {
                let bytes = terms.bytes as usize;
                Some(HandedOver::new(&terms.columns, keys, labels, bytes))
            }
            _ => None,
        };
        let matched = Matched::new(&self.matched, handed_over);
        match (self.order_key, &self.place) {
            (None, _) => matched,
            (Some(key), Place::Memory { keys, .. }) => {
                matched.in_order(keys.common_order(key, memory))
            }
            (Some(key), Place::Disk { spool, .. }) => {
                matched.in_order(spool.common_order(key, memory))
            }
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// What an earlier run left, if its keys were exactly the same.
    fn resumable(&self) -> Option<&Journal> {
        let checkpoints = self.checkpoints.as_ref()?;
        let earlier = checkpoints.earlier.as_ref();
        earlier.filter(|earlier| earlier.head.input == checkpoints.input)
    }

    /// The whole answer, if an earlier run found it but did not write its rows: its state, and when it was
    /// found.
    pub(crate) fn answer(&mut self) -> Option<(State, SystemTime)> {
        self.resumable()
            .filter(|earlier| earlier.head.is_answer())?;
        let earlier = self.checkpoints.as_mut()?.earlier.take()?;
        self.matched = earlier.matched;
        self.order_key = earlier.head.state.order_key();
        Some((earlier.head.state, earlier.head.written))
    }

    /// The rows that matched.
    pub(crate) fn matched(&self) -> &RowSet {
        &self.matched
    }

    /// This side's shares, if the run made some.
    pub(crate) fn shares(&self) -> Option<&RowShares> {
        self.shares.as_ref()
    }

    /// Records that both sides have finished; from now on this one needs no peer for its rows. Returns why
    /// the answer could not be kept, if so.
    pub(crate) fn confirmed(&mut self) -> Option<WireError> {
        let checkpoints = self.checkpoints.as_mut()?;
        if checkpoints.failed.is_none()
            && let Some(head) = &mut checkpoints.answer
            && !head.confirmed
        {
            head.confirmed = true;
            checkpoints.failed = checkpoints.work.write(head, &self.matched).err();
        }
        checkpoints.failed.take()
    }

    /// The result is in its place: nothing is kept any longer.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self.checkpoints {
            Some(checkpoints) => checkpoints.work.finish(),
            None => Ok(()),
        }
    }
}

/// Why there are no shares for keys on the disk: they come with the rows of the keys, all at once.
pub(crate) fn shares_need_memory(counts: &Counts) -> WireError {
    // Keys have half of what a bucket has.
    let enough = 2 * counts.bytes_in_memory();
    WireError::limit(
        Limit::Reveal { enough },
        "shares are for keys that fit into memory",
    )
}

/// Why no columns are handed over with keys on the disk: they would have to go there too.
fn labels_need_memory(counts: &Counts) -> WireError {
    let enough = Some(2 * counts.bytes_in_memory());
    let reason = "columns are handed over with keys that fit into memory";
    WireError::limit(Limit::Memory { enough }, reason)
}

/// Refuses labels of so many bytes for so many keys that take more than `memory`.
fn check_memory(items: u64, bytes: usize, memory: u64) -> Result<(), WireError> {
    let needed = items.saturating_mul(bytes as u64);
    if needed <= memory {
        return Ok(());
    }
    // As much as for keys, which is half of what a bucket has.
    let enough = Some(needed.saturating_mul(2));
    let reason = format!("the columns handed over with {items} keys take {needed} bytes");
    Err(WireError::limit(Limit::Memory { enough }, reason))
}

/// Tells the peer that this side hit a limit, without naming its files.
fn limit(e: vesica_tables::Error) -> WireError {
    WireError::limit(Limit::Storage, e)
}

impl KeySet for Stored {
    fn items(&self) -> u64 {
        self.counts.items
    }

    fn checkpoint(&self) -> Checkpoint {
        let earlier = self
            .checkpoints
            .as_ref()
            .and_then(|checkpoints| checkpoints.earlier.as_ref());
        match (earlier, self.resumable()) {
            (None, _) => Checkpoint::Nothing,
            (Some(_), None) => Checkpoint::OfAnotherSet,
            (Some(_), Some(journal)) => Checkpoint::State(Box::new(journal.head.state.clone())),
        }
    }

    fn assign(&mut self, assignment: &Assignment, state: &State) -> Result<(), WireError> {
        self.order_key = state.order_key();
        // The journal stays until this run has something to replace it with.
        if let Some(checkpoints) = &mut self.checkpoints
            && let Some(earlier) = checkpoints.earlier.take()
            && !state.found.is_empty()
        {
            self.matched = earlier.matched;
        }
        if let Some(terms) = &state.contract.labels
            && self.labels.is_none()
        {
            if matches!(self.place, Place::Disk { .. }) {
                return Err(labels_need_memory(&self.counts));
            }
            check_memory(self.counts.items, terms.bytes as usize, self.label_memory)?;
        }
        match &mut self.place {
            Place::Disk { spool, .. } => {
                let of = |digest: &[u8; 32]| assignment.bucket(digest) as usize;
                let number = assignment.buckets() as usize;
                spool.split(&self.directory, number, of).map_err(limit)
            }
            Place::Memory { keys, buckets } => {
                // The identity of a table does not cover values, so that no run with them may be resumed.
                let resumes = assignment.buckets() > 1 || !state.found.is_empty();
                debug_assert!(keys.values().is_none() || !resumes);
                buckets.assign(assignment, keys.digests());
                Ok(())
            }
        }
    }

    fn load(&mut self, bucket: u32) -> Result<BucketKeys<'_>, WireError> {
        match &mut self.place {
            Place::Disk { spool, current } => {
                *current = spool.load(bucket as usize).map_err(limit)?;
                Ok(BucketKeys {
                    numbers: current.numbers().map(Cow::Borrowed),
                    ..current.digests().into()
                })
            }
            Place::Memory { keys, buckets } => {
                let label_bytes = self.labels.as_ref().map_or(0, |(_, bytes)| *bytes);
                // The common order is made from the digests, after the run.
                let given = match buckets.is_one() && self.order_key.is_none() {
                    true => Some(keys.give_digests()),
                    false => None,
                };
                let digests = match given {
                    Some(digests) => digests.into(),
                    None => keys.digests().into(),
                };
                let all = BucketKeys {
                    digests,
                    numbers: keys.numbers().map(Cow::Borrowed),
                    values: keys.values().map(Cow::Borrowed),
                    labels: self.labels.as_ref().map(|(all, _)| Cow::Borrowed(&***all)),
                };
                Ok(buckets.load(bucket, all, label_bytes))
            }
        }
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        let matched = match output {
            Output::Matches(matched) => Some(matched),
            Output::Labelled {
                matched,
                labels,
                bytes,
            } => {
                if let Place::Memory { buckets, .. } = &self.place {
                    let all = self.handed_over.get_or_insert_default();
                    all.resize(self.counts.items as usize * bytes, 0);
                    buckets.place(&labels, bytes, all);
                }
                Some(matched)
            }
            Output::Shares(shares) => {
                self.shares = Some(self.place.with_rows(shares, &self.counts)?);
                None
            }
            _ => None,
        };
        if let Some(matched) = &matched {
            match &mut self.place {
                Place::Disk { spool, current } => spool
                    .mark(current, matched, &mut self.matched)
                    .map_err(limit)?,
                Place::Memory { keys, buckets } => {
                    keys.mark(buckets.current(), matched, &mut self.matched);
                }
            }
        }
        // A sender that learns nothing and has one bucket has nothing to go on from. That something was kept would
        // tell the peer of the next run that a minimum was met.
        if let Some(checkpoints) = &mut self.checkpoints
            && (matched.is_some() || !state.is_complete())
            && state.contract.get(&MIN_SIZE) == 0
        {
            let head = Head {
                owner: checkpoints.work.owner().clone(),
                input: checkpoints.input,
                state: state.clone(),
                // A time before 1970 cannot be written.
                written: SystemTime::now().max(SystemTime::UNIX_EPOCH),
                confirmed: checkpoints.role == Role::Receiver && state.is_complete(),
                rows: self.counts.rows,
            };
            match checkpoints.work.write(&head, &self.matched) {
                // The answer is complete, and only keeping it has failed.
                Err(why) if state.is_complete() => checkpoints.failed = Some(why),
                written => written?,
            }
            checkpoints.answer = state.is_complete().then_some(head);
        }
        Ok(())
    }
}
