//! The keys of a table that a server has to be asked about, found before the first question.
//!
//! Where the digests of known keys lie decides which blocks of answers are read, and how many keys of a bucket are asked
//! about. Whoever looks for them between two questions shows the server by the time between these where the digests of known
//! keys lie. So they are found first, and what is asked at once is one part of this list, as long as every other.

use std::path::{Path, PathBuf};

use vesica_keys::{Blob, Error as KeysError, TAG};

use crate::error::Error;
use crate::messages::MAX_QUESTION;

/// Keys that are asked about at once, whatever the memory: 32 whole questions, 4 MiB of digests.
pub(crate) const AT_ONCE: usize = 32 * MAX_QUESTION;
const AT_ONCE_BYTES: usize = 32 * AT_ONCE;

/// Digests that are asked about at once.
enum Part {
    InMemory(Vec<[u8; 32]>),
    /// Where they are in the file.
    OnDisk(u64),
}

/// The keys of a table whose values a [`State`](crate::State) lacks.
pub struct Missing {
    /// Of those that an earlier look-up may have asked about without an answer, in their order, whether the table has them.
    pub(crate) pending: Vec<bool>,
    /// Values that were known when these were not.
    pub(crate) answered: u64,
    /// The others: first as many as are asked about at once in each part, and then the rest.
    parts: Vec<Part>,
    rest: Vec<[u8; 32]>,
    blob: Option<Blob>,
    memory: u64,
    directory: PathBuf,
}

/// Shows nothing of them.
impl std::fmt::Debug for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Missing").finish_non_exhaustive()
    }
}

impl Missing {
    /// None yet. Parts that do not fit into about `memory` bytes go to an encrypted file without a name in `directory`.
    pub(crate) fn new(pending: usize, answered: u64, memory: u64, directory: &Path) -> Missing {
        Missing {
            pending: vec![false; pending],
            answered,
            parts: Vec::new(),
            rest: Vec::new(),
            blob: None,
            memory,
            directory: directory.to_owned(),
        }
    }

    /// Whether the server need not be asked about any.
    pub fn is_empty(&self) -> bool {
        self.listed() == 0 && !self.pending.contains(&true)
    }

    /// How many of them no earlier look-up may have asked about.
    pub(crate) fn listed(&self) -> u64 {
        (self.parts.len() * AT_ONCE + self.rest.len()) as u64
    }

    /// Adds one that no earlier look-up may have asked about.
    pub(crate) fn push(&mut self, digest: [u8; 32]) -> Result<(), Error> {
        self.rest.push(digest);
        if self.rest.len() == AT_ONCE {
            let part = self.part().map_err(KeysError::Unwritable)?;
            self.parts.push(part);
        }
        Ok(())
    }

    /// Makes a part of the rest.
    fn part(&mut self) -> std::io::Result<Part> {
        if ((self.parts.len() + 1) * AT_ONCE_BYTES) as u64 <= self.memory {
            return Ok(Part::InMemory(std::mem::take(&mut self.rest)));
        }
        let blob = match self.blob.take() {
            Some(blob) => blob,
            None => Blob::create(&self.directory)?,
        };
        let blob = self.blob.insert(blob);
        let mut block = Vec::with_capacity(AT_ONCE_BYTES + TAG);
        block.extend_from_slice(self.rest.as_flattened());
        let place = blob.append(&mut block)?;
        self.rest.clear();
        Ok(Part::OnDisk(place))
    }

    /// Hands them to `ask`, as many as are asked about at once, and `more` with the rest.
    pub(crate) fn each(
        self,
        more: &[[u8; 32]],
        mut ask: impl FnMut(Vec<[u8; 32]>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for part in self.parts {
            ask(match (part, &self.blob) {
                (Part::InMemory(digests), _) => digests,
                (Part::OnDisk(place), Some(blob)) => {
                    let mut block = Vec::new();
                    let read = blob.read(place, AT_ONCE_BYTES, &mut block);
                    read.map_err(KeysError::Unreadable)?;
                    block.as_chunks().0.to_vec()
                }
                (Part::OnDisk(_), None) => unreachable!("the file was made with its first part"),
            })?;
        }
        let mut rest = self.rest;
        rest.extend_from_slice(more);
        while rest.len() > AT_ONCE {
            let later = rest.split_off(AT_ONCE);
            ask(std::mem::replace(&mut rest, later))?;
        }
        match rest.is_empty() {
            true => Ok(()),
            false => ask(rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_at_once_depends_on_nothing_but_how_many_there_are() {
        let place = tempfile::tempdir().unwrap();
        let digest = |i: usize| {
            let mut digest = [7; 32];
            digest[..8].copy_from_slice(&i.to_le_bytes());
            digest
        };
        let more: Vec<_> = (0..9).map(|i| digest(usize::MAX - i)).collect();
        for (count, asked) in [
            (0, vec![9]),
            (3 * AT_ONCE, vec![AT_ONCE, AT_ONCE, AT_ONCE, 9]),
            (2 * AT_ONCE - 5, vec![AT_ONCE, AT_ONCE, 4]),
        ] {
            for memory in [0, AT_ONCE_BYTES as u64, u64::MAX] {
                let mut missing = Missing::new(0, 0, memory, place.path());
                assert!(missing.is_empty());
                (0..count).for_each(|i| missing.push(digest(i)).unwrap());
                assert_eq!(missing.listed(), count as u64);
                let fit = (memory / AT_ONCE_BYTES as u64).min(count as u64 / AT_ONCE as u64);
                let is_here = |part: &&Part| matches!(part, Part::InMemory(_));
                assert_eq!(missing.parts.iter().filter(is_here).count() as u64, fit);
                let (mut lengths, mut all) = (Vec::new(), Vec::new());
                let each = missing.each(&more, |digests| {
                    lengths.push(digests.len());
                    all.extend(digests);
                    Ok(())
                });
                each.unwrap();
                assert_eq!(lengths, asked);
                assert!(all == [(0..count).map(digest).collect(), more.clone()].concat());
            }
        }
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }
}
