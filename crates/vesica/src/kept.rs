//! What a side keeps of a run by courier: one file in a directory of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vesica_files::{FileId, PrivateFile};
use vesica_session::{Identity, Turns};
use zeroize::{Zeroize, Zeroizing};

use crate::work_dir::{failed, lock, own_file, read_if_there, refused, seal, unseal};
use crate::{Error, WorkDirProblem};

const STATE: &str = "run";
const MAGIC: &[u8; 8] = b"vesicac2";

/// How far a side is with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The peer's next message is awaited.
    Going,
    /// The protocol is over, and the rows are not safe yet.
    Ending,
    /// The run is over.
    Over,
}

/// What is kept besides the messages.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    /// The file that holds this.
    file: [u8; FileId::BYTES],
    pub(crate) peer: String,
    /// Role, protocol and terms in words.
    pub(crate) terms: String,
    pub(crate) stage: Stage,
    pub(crate) is_first: bool,
    seed: [u8; 32],
    /// A hash of the distinct keys and of the classes of their columns; none before the first step.
    pub(crate) keys: Option<[u8; 32]>,
    /// Hashes of what this side has said.
    pub(crate) said: Vec<[u8; 32]>,
    /// Bytes of each message.
    lengths: Vec<usize>,
}

impl Drop for Head {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

/// A run, and the lock on its directory.
pub(crate) struct Kept {
    pub(crate) path: PathBuf,
    sealing_key: Zeroizing<[u8; 32]>,
    pub(crate) head: Head,
    /// The messages of both sides so far: the first is the offer.
    pub(crate) messages: Vec<Vec<u8>>,
    _lock: File,
}

/// Whether a file has more than one name, as in a backup by hard links.
fn has_other_names(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        path.metadata().is_ok_and(|found| found.nlink() > 1)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// The head, and the messages.
fn decode(content: &[u8]) -> Option<(Head, Vec<Vec<u8>>)> {
    let (length, rest) = content.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (head, mut rest) = rest.split_at_checked(length)?;
    let head: Head = serde_json::from_slice(head).ok()?;
    let messages = head.lengths.iter().map(|length| {
        let (message, after) = rest.split_at_checked(*length)?;
        rest = after;
        Some(message.to_vec())
    });
    let messages = messages.collect::<Option<_>>()?;
    Some((head, messages))
}

impl Kept {
    /// The run in a directory; `fresh` begins one if there is none, as the side that speaks first or as the other.
    ///
    /// # Errors
    /// Usage: what is there is a copy, damaged or of another identity, peer or terms, or the directory cannot be used.
    pub(crate) fn open(
        path: &Path,
        identity: &Identity,
        [peer, terms]: [String; 2],
        fresh: Option<bool>,
    ) -> Result<Kept, Error> {
        let was_there = path.exists();
        let lock = lock(path, STATE)?;
        let sealing_key = identity.derive_key("vesica/1 sealed run by courier");
        let refuse = |problem| Err(refused(path, problem));
        let (head, messages) = match (read_if_there(path, STATE)?, fresh) {
            (Some((bytes, file)), _) => {
                let content = unseal(MAGIC, &sealing_key, &bytes);
                let Some((head, messages)) = content.and_then(|content| decode(&content)) else {
                    return refuse(WorkDirProblem::Unreadable);
                };
                if head.file != file.to_bytes() || has_other_names(&path.join(STATE)) {
                    return refuse(WorkDirProblem::Copied);
                } else if head.peer != peer {
                    return refuse(WorkDirProblem::OtherPeer);
                } else if head.terms != terms {
                    return refuse(WorkDirProblem::OtherOptions);
                }
                (head, messages)
            }
            (None, Some(is_first)) => {
                let head = Head {
                    file: [0; FileId::BYTES],
                    peer,
                    terms,
                    stage: Stage::Going,
                    is_first,
                    seed: *Turns::fresh(is_first)?.seed(),
                    keys: None,
                    said: Vec::new(),
                    lengths: Vec::new(),
                };
                (head, Vec::new())
            }
            (None, None) => {
                if !was_there {
                    let _ = std::fs::remove_dir_all(path);
                }
                return refuse(WorkDirProblem::NoRun);
            }
        };
        Ok(Kept {
            path: path.to_owned(),
            sealing_key,
            head,
            messages,
            _lock: lock,
        })
    }

    /// How this side takes part.
    pub(crate) fn turns(&self) -> Turns {
        Turns::kept(self.head.is_first, Zeroizing::new(self.head.seed))
    }

    /// Who writes a message: those with even numbers are of the side that offers.
    pub(crate) fn is_ours(&self, number: usize) -> bool {
        number.is_multiple_of(2) == self.head.is_first
    }

    /// This side's last message, if none of the peer's has come after it.
    pub(crate) fn last_word(&self) -> Option<&[u8]> {
        let last = self.messages.len().checked_sub(1)?;
        self.is_ours(last).then_some(&self.messages[last])
    }

    /// The number of the peer's last message.
    pub(crate) fn last_heard(&self) -> Option<usize> {
        let after = usize::from(self.last_word().is_some());
        self.messages.len().checked_sub(1 + after)
    }

    /// Puts what is kept onto the disk.
    pub(crate) fn write(&mut self) -> Result<(), Error> {
        let path = self.path.join(STATE);
        let mut write = || -> io::Result<()> {
            let former = own_file(OpenOptions::new().write(true)).open(&path);
            let mut file = PrivateFile::create(&path)?;
            self.head.file = file.id()?.to_bytes();
            self.head.lengths = self.messages.iter().map(Vec::len).collect();
            let head = Zeroizing::new(serde_json::to_vec(&self.head)?);
            let length = head.len() + self.head.lengths.iter().sum::<usize>() + 8;
            let mut content = Zeroizing::new(Vec::with_capacity(length));
            content.extend_from_slice(&(head.len() as u64).to_le_bytes());
            content.extend_from_slice(&head);
            self.messages
                .iter()
                .for_each(|message| content.extend_from_slice(message));
            seal(MAGIC, &self.sealing_key, &content, &mut file)?;
            file.flush()?;
            file.replace()?;
            // A name that is lost takes back what was said.
            #[cfg(unix)]
            File::open(&self.path)?.sync_all()?;
            // The former file may have another name, under which it would be a run that has not gone on.
            former.map_or(Ok(()), |former| former.set_len(0))
        };
        let written = write();
        written.map_err(|e| failed(&self.path, &e))
    }

    /// Says that the run is over, with its rows in their place, and forgets it. Where it ended with a message, which may be
    /// lost, that and the rows can be had again.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.head.stage = Stage::Over;
        if self.last_word().is_none() {
            self.forget_seed();
            self.head.said.clear();
            self.messages.clear();
        }
        self.write()
    }

    /// Forgets all that opens the peer's messages and makes this side's.
    pub(crate) fn forget_seed(&mut self) {
        self.head.seed.zeroize();
    }
}
