//! The keys of a table as a run takes them, and the rows that they lead back to.

use std::borrow::Cow;
use std::path::PathBuf;

use vesica_session::{Assignment, KeySet, State};
use vesica_tables::{Bucket, Counts, KeyStore, Keys, RowSet, Spool};
use vesica_wire::Error as WireError;

use crate::Error;
use crate::work_dir::{Journal, Owner, WorkDir};

/// The keys of a table, its matching rows, and what is kept of them.
pub(crate) struct Stored {
    place: Place,
    counts: Counts,
    identity: [u8; 32],
    /// Where spools are written.
    directory: PathBuf,
    matched: RowSet,
    buckets: u32,
    keeps: Option<Keeps>,
}

/// Where the keys are, and the bucket that was loaded last.
enum Place {
    Memory {
        keys: Keys,
        /// For each bucket the indices of its keys; empty as long as there is one bucket.
        buckets: Vec<Vec<u32>>,
        current: usize,
    },
    Disk {
        spool: Spool,
        current: Bucket,
    },
}

/// Where another run goes on.
struct Keeps {
    work: WorkDir,
    owner: Owner,
    state: Option<State>,
}

impl Stored {
    pub(crate) fn new(keys: KeyStore, directory: PathBuf) -> Stored {
        let (counts, identity) = (*keys.counts(), keys.identity());
        Stored {
            place: match keys {
                KeyStore::Memory(keys) => Place::Memory {
                    keys,
                    buckets: Vec::new(),
                    current: 0,
                },
                KeyStore::Disk(spool) => Place::Disk {
                    spool,
                    current: Bucket::default(),
                },
            },
            counts,
            identity,
            directory,
            matched: RowSet::none(counts.rows),
            buckets: 1,
            keeps: None,
        }
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Goes on from what an earlier run left in `work`, and keeps there how far this one comes.
    ///
    /// Fails with exit code 2 for what a run of somebody else left.
    pub(crate) fn keep_in(
        &mut self,
        work: WorkDir,
        peer: [u8; 32],
        terms: String,
    ) -> Result<(), Error> {
        let owner = Owner {
            peer,
            terms,
            input: self.identity,
        };
        let state = work.read(&owner)?.map(|journal| {
            self.matched = journal.matched;
            journal.state
        });
        self.keeps = Some(Keeps { work, owner, state });
        Ok(())
    }

    /// The rows that matched. Nothing is kept any longer.
    pub(crate) fn into_matched(self) -> RowSet {
        if let Some(keeps) = self.keeps {
            keeps.work.finish();
        }
        self.matched
    }
}

/// Tells the peer of a limit of this side, and not of its files.
fn limit(e: vesica_tables::Error) -> WireError {
    WireError::Resource(format!("{e}"))
}

impl KeySet for Stored {
    fn items(&self) -> u64 {
        self.counts.items
    }

    fn state(&self) -> Option<State> {
        self.keeps.as_ref()?.state.clone()
    }

    fn assign(&mut self, assignment: &Assignment) -> Result<(), WireError> {
        self.buckets = assignment.buckets();
        let number = self.buckets as usize;
        match &mut self.place {
            Place::Disk { spool, .. } => {
                let of = |digest: &[u8; 32]| assignment.bucket(digest) as usize;
                spool.split(&self.directory, number, of).map_err(limit)
            }
            Place::Memory { keys, buckets, .. } => {
                buckets.clear();
                if number > 1 {
                    buckets.resize(number, Vec::new());
                    for (item, digest) in (0..).zip(keys.digests()) {
                        buckets[assignment.bucket(digest) as usize].push(item);
                    }
                }
                Ok(())
            }
        }
    }

    fn load(&mut self, bucket: u32) -> Result<Cow<'_, [[u8; 32]]>, WireError> {
        let bucket = bucket as usize;
        match &mut self.place {
            Place::Disk { spool, current } => {
                *current = spool.load(bucket).map_err(limit)?;
                Ok(Cow::Borrowed(current.digests()))
            }
            Place::Memory {
                keys,
                buckets,
                current,
            } => {
                *current = bucket;
                let Some(items) = buckets.get(bucket) else {
                    return Ok(Cow::Borrowed(keys.digests()));
                };
                let digests = items.iter().map(|i| keys.digests()[*i as usize]);
                Ok(digests.collect())
            }
        }
    }

    fn finished(&mut self, matches: Option<&[u32]>, state: &State) -> Result<(), WireError> {
        let entries = |items: usize| {
            let mut matched = vec![false; items];
            for index in matches.unwrap_or_default() {
                matched[*index as usize] = true;
            }
            matched
        };
        match &self.place {
            Place::Disk { spool, current } => {
                let matched = entries(current.digests().len());
                spool
                    .mark(current, &matched, &mut self.matched)
                    .map_err(limit)?;
            }
            Place::Memory {
                keys,
                buckets,
                current,
            } => {
                let items = buckets.get(*current).map(Vec::as_slice);
                let matched = entries(items.map_or(keys.digests().len(), <[u32]>::len));
                keys.mark(items, &matched, &mut self.matched);
            }
        }
        if let Some(keeps) = &mut self.keeps
            && self.buckets > 1
        {
            keeps.work.write(&Journal {
                owner: keeps.owner.clone(),
                state: state.clone(),
                matched: self.matched.clone(),
            })?;
        }
        Ok(())
    }
}
