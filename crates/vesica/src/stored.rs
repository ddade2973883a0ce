//! The keys of a table in the form that a run uses, and the way back from them to rows.

use std::path::PathBuf;
use std::time::SystemTime;

use vesica_psi::Output;
use vesica_session::terms::MIN_SIZE;
use vesica_session::{
    Assignment, BucketKeys, Checkpoint, KeySet, LabelTerms, MemorySet, Role, State,
};
use vesica_tables::{Counts, HandedOver, HandedRows, KeyStore, Keys, Matched, RowSet, Spool};
use vesica_wire::{Error as WireError, Limit};

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
    /// Maximum bytes of labels from the peer in memory.
    label_memory: u64,
    /// Labels from the peer that are on disk, for the rows that match.
    handed: Option<HandedRows>,
    /// The key of the order that the matches have on both sides, if they have one.
    order_key: Option<[u8; 32]>,
    checkpoints: Option<CheckpointStore>,
}

/// Where the keys are. In memory their columns are in the set, and the way back to the rows is beside it.
enum Place {
    Memory {
        keys: Box<Keys>,
        set: Box<MemorySet<'static>>,
    },
    Disk(Box<Spool>),
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
    /// Takes at most `label_memory` bytes of labels from the peer into memory.
    pub(crate) fn new(
        keys: KeyStore,
        label_memory: u64,
        directory: PathBuf,
        checkpoints: Option<CheckpointStore>,
    ) -> Result<Stored, Error> {
        let counts = *keys.counts();
        let place = match keys {
            KeyStore::Memory(mut keys) => {
                let taken = keys.take_columns();
                let mut columns = BucketKeys::from(taken.digests);
                columns.numbers = taken.numbers.map(Into::into);
                columns.values = taken.values.map(Into::into);
                let labels = taken.labels;
                columns.labels = labels.map(|mut labels| std::mem::take(&mut *labels).into());
                let set = Box::new(MemorySet::of_distinct(columns)?);
                let keys = Box::new(keys);
                Place::Memory { keys, set }
            }
            KeyStore::Disk(spool) => Place::Disk(spool),
        };
        Ok(Stored {
            place,
            counts,
            directory,
            matched: RowSet::none(counts.rows),
            label_memory,
            handed: None,
            order_key: None,
            checkpoints,
        })
    }

    /// The rows that match, with what the peer has handed over under the contract, and with the order that both sides
    /// share if they agreed to one. To put rows in order takes `memory` bytes.
    pub(crate) fn matched_with<'a>(
        &'a self,
        terms: Option<&'a LabelTerms>,
        memory: u64,
    ) -> Matched<'a> {
        match &self.place {
            Place::Memory { keys, set } => {
                let handed_over = set.handed_over().zip(terms);
                let handed_over = handed_over.map(|(labels, terms)| {
                    HandedOver::new(&terms.columns, keys, labels, terms.bytes as usize)
                });
                let matched = Matched::new(&self.matched, handed_over);
                self.order_key.map_or(matched, |key| {
                    matched.in_order(keys.common_order(set.digests(), key, memory))
                })
            }
            Place::Disk(spool) => {
                let handed_over = self.handed.as_ref().zip(terms);
                let handed_over =
                    handed_over.map(|(labels, terms)| HandedOver::on_disk(&terms.columns, labels));
                let matched = Matched::new(&self.matched, handed_over);
                self.order_key.map_or(matched, |key| {
                    matched.in_order(spool.common_order(key, memory))
                })
            }
        }
    }

    /// Puts what the peer has handed over under the contract where the rows that match find it. Takes `memory` bytes.
    pub(crate) fn arrange(&mut self, terms: Option<&LabelTerms>, memory: u64) -> Result<(), Error> {
        if let (Place::Disk(spool), Some(terms)) = (&self.place, terms) {
            let columns = terms.columns.len();
            self.handed = spool.handed_over(&self.directory, columns, &self.matched, memory)?;
        }
        Ok(())
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

    /// This side's shares, if the run made some, with the rows of its items.
    pub(crate) fn shares(&self) -> Option<RowShares<'_>> {
        let Place::Memory { keys, set } = &self.place else {
            return None;
        };
        let shares = set.shares()?;
        let rows = shares.items.as_ref().map(|items| {
            let first = keys.first_rows();
            let row = |item: &Option<u32>| item.map(|item| first[item as usize]);
            items.iter().map(row).collect()
        });
        Some(RowShares { rows, shares })
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

/// Why no columns are handed over in a common order with keys on the disk: they would be read back in any order.
fn labels_in_order_need_memory(counts: &Counts) -> WireError {
    let enough = Some(2 * counts.bytes_in_memory());
    let reason =
        "columns are handed over in one order on both sides with keys that fit into memory";
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
    let reason = format!("the columns that go with {items} keys take {needed} bytes");
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
        let labels = state.contract.labels.as_ref();
        match &mut self.place {
            Place::Disk(_) if labels.is_some() && self.order_key.is_some() => {
                Err(labels_in_order_need_memory(&self.counts))
            }
            Place::Disk(spool) => {
                let assign = |digests: &[[u8; 32]]| assignment.buckets_of(digests);
                let number = assignment.buckets() as usize;
                spool.split(&self.directory, number, assign).map_err(limit)
            }
            Place::Memory { set, .. } => {
                let bytes = labels.map_or(0, |terms| terms.bytes as usize);
                check_memory(self.counts.items, bytes, self.label_memory)?;
                set.assign(assignment, state)
            }
        }
    }

    fn load(&mut self, bucket: u32) -> Result<BucketKeys<'_>, WireError> {
        match &mut self.place {
            Place::Disk(spool) => {
                let bucket = spool.load(bucket as usize).map_err(limit)?;
                let mut keys = BucketKeys::from(bucket.digests);
                keys.numbers = bucket.numbers.map(Into::into);
                let labels = bucket.labels;
                keys.labels = labels.map(|mut labels| std::mem::take(&mut *labels).into());
                Ok(keys)
            }
            Place::Memory { set, .. } => set.load(bucket),
        }
    }

    fn finished(&mut self, output: Output, state: &State) -> Result<(), WireError> {
        let learns = output.matched().is_some();
        let bucket = state.finished() - 1;
        match &mut self.place {
            Place::Disk(spool) => match (output.matched(), &output) {
                (Some(matched), _) => {
                    let marked = spool.mark(bucket as usize, matched, &mut self.matched);
                    marked.map_err(limit)?;
                    if let Output::Labelled { labels, bytes, .. } = &output {
                        let kept =
                            spool.keep_labels(&self.directory, bucket as usize, labels, *bytes);
                        kept.map_err(limit)?;
                    }
                }
                (None, Output::Shares(_)) => return Err(shares_need_memory(&self.counts)),
                (None, _) => {}
            },
            Place::Memory { keys, set } => {
                if let Some(matched) = output.matched() {
                    keys.mark(set.indices(bucket), matched, &mut self.matched);
                }
                set.finished(output, state)?;
            }
        }
        // A sender that learns nothing and has one bucket has nothing to go on from. That something was kept would
        // tell the peer of the next run that a minimum was met.
        if let Some(checkpoints) = &mut self.checkpoints
            && (learns || !state.is_complete())
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
