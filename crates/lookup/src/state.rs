//! What a client keeps between look-ups: the values that it has got, and the questions that it may not have answers to.
//!
//! All of it is encrypted under the client's identity: with the values anybody could test guesses of the client's keys. The
//! length of the file tells how many there are.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use vesica_files::{WholeFile, open_regular};
use vesica_primitives::sealed::Sealed;
use vesica_primitives::voprf::{ELEMENT_BYTES, OUTPUT_BYTES};
use vesica_session::codec::Reader;
use vesica_session::{Identity, Progress, random};
use vesica_wire::{Blame, Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::client::Client;
use crate::database::{LOCK, check_private, lock};
use crate::error::{Error, StoreProblem};
use crate::header::{Header, Value};
use crate::messages::MAX_QUESTION;

const FILE: &str = "state";
const HEAD: &[u8] = b"vesica look-up 2\n";

/// Keys whose values are kept at once.
const AT_ONCE: usize = 32 * MAX_QUESTION;

/// Questions that were or will be asked, exactly so.
#[derive(Clone, Default)]
struct Pending {
    seed: [u8; 32],
    digests: Vec<[u8; 32]>,
}

/// The values that a client has under a published key.
pub struct State {
    /// Where it is kept, and the lock of the directory; nowhere otherwise.
    place: Option<(PathBuf, Identity, File)>,
    key: [u8; ELEMENT_BYTES],
    values: HashMap<[u8; 32], Value>,
    pending: Pending,
    /// Hashes of the headers of releases whose blocks were all checked.
    verified: HashSet<[u8; 32]>,
}

/// Does not show them.
impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("State")
    }
}

impl State {
    /// Nothing yet, and nothing is kept.
    pub fn in_memory(header: &Header) -> State {
        State {
            place: None,
            key: *header.oprf_key.bytes(),
            values: HashMap::new(),
            pending: Pending::default(),
            verified: HashSet::new(),
        }
    }

    /// What earlier look-ups have kept in this directory under the key of this set. Of another key's nothing is of use.
    ///
    /// # Errors
    /// Usage: the directory is in use, or not private. Data: it is of another identity, or damaged.
    pub fn open(directory: &Path, identity: &Identity, header: &Header) -> Result<State, Error> {
        check_private(directory)?;
        let lock = lock(directory, LOCK)?;
        let path = directory.join(FILE);
        let mut state = State::in_memory(header);
        let unreadable = || Error::store(directory, StoreProblem::Unreadable(FILE));
        let mut bytes = Vec::new();
        let read = open_regular(&path).and_then(|mut file| file.read_to_end(&mut bytes));
        match read {
            Ok(_) => {
                let rest = bytes.strip_prefix(HEAD).ok_or_else(unreadable)?;
                let (salt, mut rest) = rest.split_first_chunk::<32>().ok_or_else(unreadable)?;
                let length = rest.len() as u64;
                let content = sealed(identity, salt).read(HEAD, length, &mut rest);
                let content = content.map_err(|_| unreadable())?;
                state.read(&content).map_err(|_| unreadable())?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(&path, &e)),
        }
        state.place = Some((path, identity.clone(), lock));
        Ok(state)
    }

    fn read(&mut self, content: &[u8]) -> Result<(), vesica_wire::Error> {
        let mut reader = Reader::new(FILE, content);
        if reader.array::<ELEMENT_BYTES>()? != self.key {
            return Ok(());
        }
        self.pending.seed = reader.array()?;
        for _ in 0..reader.u64()? {
            self.pending.digests.push(reader.array()?);
        }
        for _ in 0..reader.u64()? {
            self.verified.insert(reader.array()?);
        }
        for _ in 0..reader.u64()? {
            let digest = reader.array()?;
            self.values.insert(digest, reader.array()?);
        }
        reader.end()
    }

    fn save(&self) -> Result<(), Error> {
        let Some((path, identity, _)) = &self.place else {
            return Ok(());
        };
        let hashes = self.pending.digests.len() + self.verified.len();
        let bytes = 88 + 32 * hashes + (32 + OUTPUT_BYTES) * self.values.len();
        // Of full size from the start: a buffer that grows leaves copies behind.
        let mut content = Zeroizing::new(Vec::with_capacity(bytes));
        content.extend_from_slice(&self.key);
        content.extend_from_slice(&self.pending.seed);
        content.extend_from_slice(&(self.pending.digests.len() as u64).to_le_bytes());
        content.extend_from_slice(self.pending.digests.as_flattened());
        content.extend_from_slice(&(self.verified.len() as u64).to_le_bytes());
        for hash in &self.verified {
            content.extend_from_slice(hash);
        }
        content.extend_from_slice(&(self.values.len() as u64).to_le_bytes());
        for (digest, value) in &self.values {
            content.extend_from_slice(digest);
            content.extend_from_slice(value);
        }
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let write = || {
            let mut file = WholeFile::create(path)?;
            file.write_all(HEAD)?;
            file.write_all(&salt)?;
            sealed(identity, &salt).write(HEAD, &content, &mut file)?;
            file.commit()
        };
        write().map_err(|e| Error::io(path, &e))
    }

    /// Hashes of the headers of releases whose blocks were all checked.
    pub(crate) fn verified(&self) -> &HashSet<[u8; 32]> {
        &self.verified
    }

    /// Keeps these hashes in place of the others.
    pub(crate) fn keep_verified(&mut self, verified: HashSet<[u8; 32]>) -> Result<(), Error> {
        if verified != self.verified {
            self.verified = verified;
            self.save()?;
        }
        Ok(())
    }

    /// How many questions an earlier look-up has left without an answer.
    pub fn pending(&self) -> u64 {
        self.pending.digests.len() as u64
    }

    /// Whether the server has to be asked about some of these digests.
    pub fn must_ask(&self, digests: &[[u8; 32]]) -> bool {
        let is_missing = |digest| !self.values.contains_key(digest);
        digests.iter().any(is_missing)
    }

    /// Asks for the values that are missing, each once; returns how many these were. What an earlier look-up may have asked
    /// is asked again in the same words, which costs nothing if it was answered. More than the server said that it would
    /// answer is not asked.
    ///
    /// # Errors
    /// As [`Client::ask`]; Resource for too many; Usage and Resource where the directory cannot be written.
    pub fn ask(
        &mut self,
        client: &mut Client,
        digests: &[[u8; 32]],
        progress: &mut dyn Progress,
    ) -> Result<u64, Error> {
        let again = self.finish(client, progress)?;
        let mut seen = HashSet::new();
        let is_missing =
            |digest: &&[u8; 32]| !self.values.contains_key(*digest) && seen.insert(**digest);
        let missing: Vec<_> = digests.iter().filter(is_missing).copied().collect();
        let left = client.left();
        if missing.len() as u64 > left {
            let reason = format!(
                "{} keys would have to be asked about, and {left} queries are left",
                missing.len()
            );
            return Err(WireError::limit(Limit::Queries, reason).into());
        }
        random::fill(&mut self.pending.seed)?;
        self.pending.digests = missing;
        if !self.pending.digests.is_empty() {
            self.save()?;
        }
        let asked = self.finish(client, progress)?;
        client.spend(asked);
        Ok(again + asked)
    }

    /// Asks what is pending, and keeps what was answered from time to time: a server remembers so many questions at least.
    fn finish(&mut self, client: &mut Client, progress: &mut dyn Progress) -> Result<u64, Error> {
        let mut asked = 0;
        while !self.pending.digests.is_empty() {
            let Pending { seed, digests } = &self.pending;
            let count = digests.len().min(AT_ONCE);
            let values = client.ask(&digests[..count], seed, progress);
            if let Err(WireError::PeerAborted {
                blame: Blame::Resource,
                ..
            }) = values
                && client.left() < asked + digests.len() as u64
            {
                // The quota does not suffice for the rest, now or later.
                self.pending = Pending::default();
                self.save()?;
            }
            let values = values?;
            let answered = self.pending.digests.drain(..count);
            self.values.extend(answered.zip(values));
            asked += count as u64;
            self.save()?;
        }
        Ok(asked)
    }

    /// The value of a digest, if it is known.
    pub(crate) fn value(&self, digest: &[u8; 32]) -> Option<&Value> {
        self.values.get(digest)
    }
}

fn sealed(identity: &Identity, salt: &[u8; 32]) -> Sealed {
    let key = identity.derive_key("vesica/1 state of a look-up");
    Sealed::new(&key, &[b"state", salt])
}
