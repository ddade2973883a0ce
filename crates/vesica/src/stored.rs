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

/// Which rows have one of these keys.
fn rows_of<'a>(keys: &'a Keys, items: &[u32]) -> impl Iterator<Item = u64> + 'a {
    let mut chosen = vec![false; keys.digests().len()];
    for item in items {
        chosen[*item as usize] = true;
    }
    (0..)
        .zip(keys.row_items())
        .filter(move |(_, item)| chosen.get(**item as usize) == Some(&true))
        .map(|(row, _)| row)
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
                current.forget(&mut self.matched);
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
                for row in rows_of(keys, items) {
                    self.matched.remove(row);
                }
                let digests = items.iter().map(|i| keys.digests()[*i as usize]);
                Ok(digests.collect())
            }
        }
    }

    fn finished(&mut self, matches: Option<&[u32]>, state: &State) -> Result<(), WireError> {
        let matches = matches.unwrap_or_default();
        match &self.place {
            Place::Disk { current, .. } => {
                for index in matches {
                    for row in current.rows_of(*index as usize) {
                        self.matched.insert(u64::from(*row));
                    }
                }
            }
            Place::Memory {
                keys,
                buckets,
                current,
            } => {
                let items = match buckets.get(*current) {
                    None => Cow::Borrowed(matches),
                    Some(items) => matches.iter().map(|i| items[*i as usize]).collect(),
                };
                for row in rows_of(keys, &items) {
                    self.matched.insert(row);
                }
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
