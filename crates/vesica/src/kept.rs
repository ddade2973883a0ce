//! What a side keeps of a run by courier: one file in a directory of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use vesica_files::{FileId, PrivateFile, has_other_names, open_unlinked};
use vesica_session::{Identity, Turns};
use zeroize::{Zeroize, Zeroizing};

use crate::work_dir::{failed, lock, read_if_there, refused, seal, unseal};
use crate::{Error, WorkDirProblem};

const STATE: &str = "run";
const MAGIC: &[u8; 8] = b"vesicac3";

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

/// Bytes as hexadecimal digits, of which there are as many whatever the bytes are. A list of numbers in JSON is as long as
/// their decimal digits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hex<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let digit = |digit: u8| char::from_digit(digit.into(), 16).expect("four bits");
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let text = Zeroizing::new(digits.map(digit).collect::<String>());
        serializer.serialize_str(&text)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hex<N>, D::Error> {
        let text = Zeroizing::new(String::deserialize(deserializer)?);
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
            .collect();
        let digits = Zeroizing::new(digits.unwrap_or_default());
        match digits.as_chunks::<2>() {
            (pairs, []) if pairs.len() == N => Ok(Hex(std::array::from_fn(|at| {
                pairs[at][0] << 4 | pairs[at][1]
            }))),
            _ => Err(D::Error::custom(format_args!("not {N} bytes"))),
        }
    }
}

/// What is kept besides the messages.
#[derive(Serialize, Deserialize)]
pub(crate) struct Head {
    /// The file that holds this.
    file: Hex<{ FileId::BYTES }>,
    pub(crate) peer: String,
    /// Role, protocol and terms in words.
    pub(crate) terms: String,
    pub(crate) stage: Stage,
    pub(crate) is_first: bool,
    seed: Hex<32>,
    /// A hash of the distinct keys and of the classes of their columns; none before the first step.
    pub(crate) keys: Option<Hex<32>>,
    /// Hashes of what this side has said.
    pub(crate) said: Vec<Hex<32>>,
    /// Bytes of each message.
    lengths: Vec<usize>,
}

impl Drop for Head {
    fn drop(&mut self) {
        self.seed.0.zeroize();
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
                // As in a backup by hard links.
                let is_linked = has_other_names(&path.join(STATE)).unwrap_or(false);
                if head.file.0 != file.to_bytes() || is_linked {
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
                    file: Hex([0; FileId::BYTES]),
                    peer,
                    terms,
                    stage: Stage::Going,
                    is_first,
                    seed: Hex(*Turns::fresh(is_first)?.seed()),
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
        Turns::kept(self.head.is_first, Zeroizing::new(self.head.seed.0))
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
            let former = open_unlinked(OpenOptions::new().write(true), &path);
            let mut file = PrivateFile::create(&path)?;
            self.head.file = Hex(file.id()?.to_bytes());
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
        self.head.seed.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept tells its reader by its length no more than the sizes of messages.
    #[test]
    fn bytes_take_as_many_digits_whatever_they_are() {
        let head = |byte| Head {
            file: Hex([byte; FileId::BYTES]),
            peer: "peer".into(),
            terms: "terms".into(),
            stage: Stage::Going,
            is_first: true,
            seed: Hex([byte; 32]),
            keys: Some(Hex([byte; 32])),
            said: vec![Hex([byte; 32]); 2],
            lengths: vec![7, 8],
        };
        let encoded = [0, 9, 99, 255].map(|byte| serde_json::to_vec(&head(byte)).unwrap());
        for (byte, json) in [0, 9, 99, 255].into_iter().zip(&encoded) {
            assert_eq!(json.len(), encoded[0].len(), "{byte}");
            let read: Head = serde_json::from_slice(json).unwrap();
            assert!(read.seed.0 == [byte; 32] && read.keys == Some(Hex([byte; 32])));
        }
        for wrong in ["\"\"", "\"0g\"", "\"000\"", "\"+1\"", "[0]"] {
            assert!(serde_json::from_str::<Hex<1>>(wrong).is_err(), "{wrong}");
        }
    }
}
