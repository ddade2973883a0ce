//! What a client keeps between look-ups: the values that it has got, the questions that it may not have answers to, and which
//! releases of the set it has seen.
//!
//! A question whose answer was lost may have been paid for or not, which only the server knows. The next look-up that asks
//! about anything first has it answered if it was paid for, and withdrawn otherwise, whatever it asks about itself: so
//! nothing that was paid for is lost, nothing is paid for that this look-up does not need, and the server learns of its
//! keys what it learns otherwise: how many it has not been asked about. Which questions were paid for is the server's word.
//!
//! All of it is encrypted under the client's identity: with the values anybody could test guesses of the client's keys. The
//! length of the file tells how many there are.
//!
//! Releases only go on. A set that is older than what was seen before is refused, as is another one of the same number, or one
//! under a key that was replaced. An older copy of the file has forgotten what came after it: releases, and answers, which
//! are asked for and paid for again.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use vesica_files::{FileStamp, WholeFile, many, open_regular};
use vesica_primitives::sealed::Sealed;
use vesica_primitives::voprf::{ELEMENT_BYTES, OUTPUT_BYTES};
use vesica_session::codec::Reader;
use vesica_session::{Fingerprint, Identity, Progress, random};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::client::{Asked, Client};
use crate::database::{Held, LOCK, after_head};
use crate::error::{Error, Holder, SetProblem, StoreProblem};
use crate::header::{Header, Value};
use crate::messages::MAX_QUESTION;
use crate::set::{Found, PublishedSet};

const FILE: &str = "state";
const HEAD: &[u8] = b"vesica look-up 4\n";

/// Keys whose values are kept at once.
const AT_ONCE: usize = 32 * MAX_QUESTION;

/// Recalled questions whose values are kept at once.
const KEPT_AT_ONCE: u64 = 8;

/// Questions that may have been sent, exactly so.
#[derive(Clone, Default)]
struct Pending {
    seed: [u8; 32],
    digests: Vec<[u8; 32]>,
}

/// A release that was there.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Seen {
    release: u64,
    /// Hash of its header.
    hash: [u8; 32],
}

/// What the file says.
struct Kept {
    /// Who has published what was seen, and under which key.
    publisher: Fingerprint,
    key: [u8; ELEMENT_BYTES],
    /// What tells the set from others of its publisher.
    set: [u8; 32],
    /// Keys that were before it.
    replaced: Vec<[u8; ELEMENT_BYTES]>,
    /// The last release that was there; none yet has the number 0.
    seen: Seen,
    pending: Pending,
    /// The files in which all blocks of a release were checked, by the hash of its header.
    checked: HashMap<[u8; 32], FileStamp>,
    values: HashMap<[u8; 32], Value>,
}

impl Kept {
    fn new(header: &Header, set: [u8; 32]) -> Kept {
        Kept {
            publisher: header.publisher.fingerprint(),
            key: *header.oprf_key.bytes(),
            set,
            replaced: Vec::new(),
            seen: Seen::default(),
            pending: Pending::default(),
            checked: HashMap::new(),
            values: HashMap::new(),
        }
    }

    /// Reads what [`Kept::encode`] has written into what is empty.
    fn read(&mut self, content: &[u8]) -> Result<(), WireError> {
        let kept = self;
        let mut reader = Reader::new(FILE, content);
        kept.publisher = Fingerprint::from_bytes(reader.array()?);
        kept.key = reader.array()?;
        kept.set = reader.array()?;
        for _ in 0..reader.u64()? {
            kept.replaced.push(reader.array()?);
        }
        (kept.seen.release, kept.seen.hash) = (reader.u64()?, reader.array()?);
        kept.pending.seed = reader.array()?;
        for _ in 0..reader.u64()? {
            kept.pending.digests.push(reader.array()?);
        }
        for _ in 0..reader.u64()? {
            let hash = reader.array()?;
            let stamp = FileStamp::from_bytes(&reader.array()?);
            kept.checked.insert(hash, stamp);
        }
        for _ in 0..reader.u64()? {
            let digest = reader.array()?;
            kept.values.insert(digest, reader.array()?);
        }
        reader.end()
    }

    fn encode(&self) -> Zeroizing<Vec<u8>> {
        let hashes = 6 + self.replaced.len() + self.pending.digests.len();
        let bytes = 40
            + 32 * hashes
            + (32 + FileStamp::BYTES) * self.checked.len()
            + (32 + OUTPUT_BYTES) * self.values.len();
        // Of full size from the start: a buffer that grows leaves copies behind.
        let mut content = Zeroizing::new(Vec::with_capacity(bytes));
        let count = |count: usize| (count as u64).to_le_bytes();
        content.extend_from_slice(self.publisher.as_bytes());
        content.extend_from_slice(&self.key);
        content.extend_from_slice(&self.set);
        content.extend_from_slice(&count(self.replaced.len()));
        content.extend_from_slice(self.replaced.as_flattened());
        content.extend_from_slice(&self.seen.release.to_le_bytes());
        content.extend_from_slice(&self.seen.hash);
        content.extend_from_slice(&self.pending.seed);
        content.extend_from_slice(&count(self.pending.digests.len()));
        content.extend_from_slice(self.pending.digests.as_flattened());
        content.extend_from_slice(&count(self.checked.len()));
        for (hash, stamp) in &self.checked {
            content.extend_from_slice(hash);
            content.extend_from_slice(&stamp.to_bytes());
        }
        content.extend_from_slice(&count(self.values.len()));
        for (digest, value) in &self.values {
            content.extend_from_slice(digest);
            content.extend_from_slice(value);
        }
        content
    }

    /// What of it counts for a set, if this is none that was there before what was seen.
    fn of(mut self, set: &PublishedSet) -> Result<Kept, SetProblem> {
        let header = set.header();
        let key = header.oprf_key.bytes();
        if self.publisher != header.publisher.fingerprint() {
            return Err(SetProblem::OtherState(self.publisher));
        }
        if self.set != set.id() {
            return Err(SetProblem::AnotherSet);
        }
        if self.replaced.contains(key) {
            return Err(SetProblem::Replaced);
        }
        if self.key != *key {
            self.replaced.push(self.key);
            let replaced = self.replaced;
            return Ok(Kept {
                replaced,
                ..Kept::new(header, self.set)
            });
        }
        let Seen { release, hash } = self.seen;
        match set.header_of(release) {
            _ if release == 0 => Ok(self),
            Some(header) if header.hash() == hash => Ok(self),
            Some(_) => Err(SetProblem::Forked(release)),
            None => Err(SetProblem::Older {
                got: header.release,
                seen: release,
            }),
        }
    }
}

/// The values that a client has under a published key.
pub struct State {
    /// Where it is kept, and the lock of the directory; nowhere otherwise.
    place: Option<(PathBuf, Identity, Held)>,
    /// Values under a key that was replaced.
    forgotten: usize,
    /// Whether the set has another key than what is kept, and no server has said yet that this is the later one. Keys have no
    /// order: until then what is kept stays, since the files may be older ones of the same publisher.
    unconfirmed: bool,
    /// Whether what is pending is of a look-up before this one.
    is_earlier: bool,
    /// Values of earlier look-ups that this one has found paid for, and those that were not.
    recalled: u64,
    withdrawn: u64,
    /// Whether something has changed that is not kept yet.
    is_dirty: bool,
    kept: Kept,
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
            forgotten: 0,
            unconfirmed: false,
            is_earlier: false,
            recalled: 0,
            withdrawn: 0,
            is_dirty: false,
            // Nobody else's state is compared with it.
            kept: Kept::new(header, [0; 32]),
        }
    }

    /// What earlier look-ups have kept in this directory for this set. Of what they have got under a key before its own
    /// nothing is of use.
    ///
    /// # Errors
    /// Usage: the directory is in use, or not private. Data: it is of another identity, or damaged; or the set is older than
    /// what was seen before, or another one of that age.
    pub fn open(directory: &Path, identity: &Identity, set: &PublishedSet) -> Result<State, Error> {
        let held = Held::take(directory, &[(LOCK, Holder::LookUp)])?;
        let path = directory.join(FILE);
        let mut state = State::in_memory(set.header());
        state.kept.set = set.id();
        let unreadable = || Error::store(directory, StoreProblem::Unreadable(FILE));
        let mut bytes = Vec::new();
        let read = open_regular(&path).and_then(|mut file| file.read_to_end(&mut bytes));
        match read {
            Ok(_) => {
                let rest = after_head(&bytes, HEAD, FILE);
                let rest = rest.map_err(|problem| Error::store(directory, problem))?;
                let (salt, mut rest) = rest.split_first_chunk::<32>().ok_or_else(unreadable)?;
                let length = rest.len() as u64;
                let content = sealed(identity, salt).read(HEAD, length, &mut rest);
                let content = content.map_err(|_| unreadable())?;
                let mut kept = Kept::new(set.header(), set.id());
                kept.read(&content).map_err(|_| unreadable())?;
                let paid = |kept: &Kept| kept.values.len() + kept.pending.digests.len();
                let before = paid(&kept);
                state.unconfirmed = kept.key != *set.header().oprf_key.bytes();
                let kept = kept.of(set);
                state.kept = kept.map_err(|problem| Error::set(set.last_path(), problem))?;
                state.forgotten = before - paid(&state.kept);
                state.begin();
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io(&path, &e)),
        }
        state.place = Some((path, identity.clone(), held));
        Ok(state)
    }

    fn save(&mut self) -> Result<(), Error> {
        let Some((path, identity, _)) = self.place.as_ref().filter(|_| !self.unconfirmed) else {
            return Ok(());
        };
        let content = self.kept.encode();
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let write = || {
            let mut file = WholeFile::create(path)?;
            file.write_all(HEAD)?;
            file.write_all(&salt)?;
            sealed(identity, &salt).write(HEAD, &content, &mut file)?;
            file.commit_for_good()
        };
        write().map_err(|e| Error::io(path, &e))?;
        self.is_dirty = false;
        Ok(())
    }

    /// How many values were kept, or may have been paid for, that are of no use any more: the set has another key now.
    pub fn forgotten(&self) -> usize {
        self.forgotten
    }

    /// The file in which all blocks of the release with this hash were checked.
    pub(crate) fn checked(&self, hash: &[u8; 32]) -> Option<&FileStamp> {
        self.kept.checked.get(hash)
    }

    /// Keeps what was checked in place of what was before, and which release was the last.
    pub(crate) fn keep_checked(
        &mut self,
        checked: HashMap<[u8; 32], FileStamp>,
        last: &Header,
    ) -> Result<(), Error> {
        let seen = Seen {
            release: last.release,
            hash: last.hash(),
        };
        if (&checked, seen) != (&self.kept.checked, self.kept.seen) {
            (self.kept.checked, self.kept.seen) = (checked, seen);
            self.save()?;
        }
        Ok(())
    }

    /// About how many digests an earlier look-up may have asked without an answer.
    pub fn pending(&self) -> u64 {
        self.kept.pending.digests.len() as u64
    }

    /// Whether the server has to be asked about some of these digests.
    pub fn must_ask(&self, digests: &[[u8; 32]]) -> bool {
        let is_missing = |digest| !self.kept.values.contains_key(digest);
        digests.iter().any(is_missing)
    }

    /// How many values are known.
    pub fn answered(&self) -> u64 {
        self.kept.values.len() as u64
    }

    /// Begins another look-up: what is pending is of one before it.
    pub fn begin(&mut self) {
        self.is_earlier = self.pending() > 0;
        (self.recalled, self.withdrawn) = (0, 0);
    }

    /// How many values had been paid for in look-ups before, which lost their answers.
    pub fn recalled(&self) -> u64 {
        self.recalled
    }

    /// How many values may have been asked for in look-ups before, and were not paid for by the server's word.
    pub fn withdrawn(&self) -> u64 {
        self.withdrawn
    }

    /// Asks for the values that are missing, each once. What an earlier look-up has paid for without getting an answer is
    /// recalled before; of what else it may have asked nothing is asked but what is missing here. More than the server said
    /// that it would answer is not asked. Whatever was answered is kept, whatever ends it.
    ///
    /// # Errors
    /// As [`Client::ask`]; Resource for too many; Usage and Resource where the directory cannot be written.
    pub fn ask(
        &mut self,
        client: &mut Client,
        digests: &[[u8; 32]],
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        // The server's key is that of the set: a client is made only if it is.
        self.unconfirmed = false;
        self.recall(client, progress)?;
        let mut seen = HashSet::new();
        let is_missing =
            |digest: &&[u8; 32]| !self.kept.values.contains_key(*digest) && seen.insert(**digest);
        let missing: Vec<_> = digests.iter().filter(is_missing).copied().collect();
        let (asked, left) = (missing.len() as u64, client.left());
        if asked > left {
            let (asked, left) = (many(asked, "key"), many(left, "query"));
            let reason = format!("{asked} would have to be asked about, with {left} left");
            return Err(WireError::limit(Limit::Queries, reason).into());
        }
        for digests in missing.chunks(AT_ONCE) {
            self.ask_some(client, digests, progress)?;
        }
        // Also what could not be kept before.
        if self.is_dirty {
            self.save()?;
        }
        client.spend(asked);
        Ok(())
    }

    /// Gets the values of what is pending where they were paid for. The rest was not answered, and is not answered any more.
    fn recall(&mut self, client: &mut Client, progress: &mut dyn Progress) -> Result<(), Error> {
        if self.pending() == 0 {
            return Ok(());
        }
        let recalled = self.recall_all(client, progress);
        self.save()?;
        recalled
    }

    fn recall_all(
        &mut self,
        client: &mut Client,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let (total, mut questions) = (self.pending(), 0);
        while self.pending() > 0 {
            let Pending { seed, digests } = &mut self.kept.pending;
            let count = digests.len().min(MAX_QUESTION);
            let values = client.recall(&digests[..count], seed)?.unwrap_or_default();
            if self.is_earlier {
                self.recalled += values.len() as u64;
                self.withdrawn += (count - values.len()) as u64;
            }
            self.kept.values.extend(digests.drain(..count).zip(values));
            progress.step(total - digests.len() as u64, total);
            self.is_dirty = true;
            questions += 1;
            // Each is answered again so many times only.
            if questions % KEPT_AT_ONCE == 0 {
                self.save()?;
            }
        }
        Ok(())
    }

    /// Asks for values that are kept at once: a server remembers so many questions at least. What may be asked is on the
    /// disk before, and what has come is once the next are asked, or this ends.
    fn ask_some(
        &mut self,
        client: &mut Client,
        digests: &[[u8; 32]],
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        random::fill(&mut self.kept.pending.seed)?;
        self.kept.pending.digests = digests.to_vec();
        (self.is_earlier, self.is_dirty) = (false, true);
        if let Err(error) = self.save() {
            // None of them is sent.
            self.kept.pending = Pending::default();
            return Err(error);
        }
        let Pending { seed, digests } = &mut self.kept.pending;
        let mut asked = Asked::default();
        let ended = client.ask_for(digests, seed, &mut asked, progress);
        digests.truncate(asked.sent);
        let answered = digests.drain(..asked.values.len());
        self.kept.values.extend(answered.zip(asked.values));
        self.is_dirty = true;
        if let Err(error) = ended {
            self.save()?;
            return Err(error.into());
        }
        Ok(())
    }

    /// The value of a digest, if it is known.
    pub(crate) fn value(&self, digest: &[u8; 32]) -> Option<&Value> {
        self.kept.values.get(digest)
    }
}

fn sealed(identity: &Identity, salt: &[u8; 32]) -> Sealed {
    let key = identity.derive_key("vesica/1 state of a look-up");
    Sealed::new(&key, &[b"state", salt])
}

/// What needs the values that are known, and what was checked before.
impl PublishedSet {
    /// For each digest whether its key is in the set, with the label of its payload, by the values that are known.
    ///
    /// # Errors
    /// As [`PublishedSet::verify_once`], for whatever has changed since that was called: whether it was looked at or not.
    ///
    /// # Panics
    /// If the value of one is not known.
    pub fn look_up(
        &self,
        state: &State,
        digests: &[[u8; 32]],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let value = |digest: &[u8; 32]| state.value(digest).expect("the value is known");
        let masks: Vec<u128> = digests
            .iter()
            .map(|digest| self.header().mask(value(digest)))
            .collect();
        let found = self.find(&masks);
        // Otherwise damage that was done meanwhile would tell which blocks were looked at.
        for release in &self.releases {
            let checked = state.checked(&release.header.hash());
            release.verify(checked.filter(|_| found.is_ok()))?;
        }
        let found = found.map_err(|error| match error {
            Error::Set { path, .. } => Error::set(&path, SetProblem::Changed),
            error => error,
        })?;
        let found = digests.iter().zip(found);
        let payload = |(digest, found): (&[u8; 32], Found)| self.payload(value(digest), found);
        Ok(found.map(payload).collect())
    }

    /// Reads and checks all blocks of those releases whose files are not those that were checked with this state before, by
    /// their [stamps](FileStamp). Whoever does that before asking shows nobody which blocks it reads.
    ///
    /// # Errors
    /// As [`PublishedSet::verify`]. Usage and Resource: the state cannot be kept.
    pub fn verify_once(&self, state: &mut State) -> Result<(), Error> {
        let mut checked = HashMap::new();
        for release in &self.releases {
            let hash = release.header.hash();
            let stamp = release.verify(state.checked(&hash))?;
            checked.extend(stamp.map(|stamp| (hash, stamp)));
        }
        state.keep_checked(checked, self.header())
    }
}
