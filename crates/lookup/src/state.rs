//! What a client keeps between look-ups: the values that it has got, the questions that it may not have answers to, and which
//! releases of the set it has seen.
//!
//! A question whose answer was lost may have been paid for or not, which only the server knows. The next look-up that asks
//! about anything first has it answered if it was paid for, and withdrawn otherwise, whatever it asks about itself: so
//! nothing that was paid for is lost, nothing is paid for that this look-up does not need, and the server learns of its
//! keys what it learns otherwise: how many it has not been asked about. Which questions were paid for is the server's word.
//!
//! Values that do not fit into memory are in temporary files ([`Values`]), and the file that is kept is read and written piece
//! by piece.
//!
//! All of it is encrypted under the client's identity: with the values anybody could test guesses of the client's keys. The
//! length of the file tells how many there are.
//!
//! Releases only go on. A set that is older than what was seen before is refused, as is another one of the same number, or one
//! under a key that was replaced. An older copy of the file has forgotten what came after it: releases, and answers, which
//! are asked for and paid for again.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use vesica_files::{FileStamp, WholeFile, many, open_regular};
use vesica_keys::KeyStore;
use vesica_primitives::sealed::Sealed;
use vesica_primitives::voprf::ELEMENT_BYTES;
use vesica_session::{Fingerprint, Identity, Interrupt, Progress, random};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::client::{Asked, Client};
use crate::database::{Held, LOCK, after_head};
use crate::error::{Error, Holder, SetProblem, StoreProblem};
use crate::header::{Header, Value};
use crate::messages::MAX_QUESTION;
use crate::missing::Missing;
use crate::set::PublishedSet;
use crate::values::Values;

const FILE: &str = "state";
const HEAD: &[u8] = b"vesica look-up 4\n";

/// Values that are read before the next look at the interrupt.
const BETWEEN_CHECKS: u64 = 1 << 12;

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
    values: Values,
}

/// The next bytes of a file.
fn array<const N: usize>(input: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The next number.
fn count(input: &mut impl Read) -> io::Result<u64> {
    array(input).map(u64::from_le_bytes)
}

impl Kept {
    fn new(header: &Header, set: [u8; 32], values: Values) -> Kept {
        Kept {
            publisher: header.publisher.fingerprint(),
            key: *header.oprf_key.bytes(),
            set,
            replaced: Vec::new(),
            seen: Seen::default(),
            pending: Pending::default(),
            checked: HashMap::new(),
            values,
        }
    }

    /// Reads what [`Kept::write`] has written before values into what is empty; returns how many of these follow.
    fn read(&mut self, input: &mut impl Read) -> io::Result<u64> {
        self.publisher = Fingerprint::from_bytes(array(input)?);
        self.key = array(input)?;
        self.set = array(input)?;
        for _ in 0..count(input)? {
            self.replaced.push(array(input)?);
        }
        (self.seen.release, self.seen.hash) = (count(input)?, array(input)?);
        self.pending.seed = array(input)?;
        for _ in 0..count(input)? {
            self.pending.digests.push(array(input)?);
        }
        for _ in 0..count(input)? {
            let hash = array(input)?;
            let stamp = FileStamp::from_bytes(&array(input)?);
            self.checked.insert(hash, stamp);
        }
        count(input)
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let count = |count: usize| (count as u64).to_le_bytes();
        out.write_all(self.publisher.as_bytes())?;
        out.write_all(&self.key)?;
        out.write_all(&self.set)?;
        out.write_all(&count(self.replaced.len()))?;
        out.write_all(self.replaced.as_flattened())?;
        out.write_all(&self.seen.release.to_le_bytes())?;
        out.write_all(&self.seen.hash)?;
        out.write_all(&self.pending.seed)?;
        out.write_all(&count(self.pending.digests.len()))?;
        out.write_all(self.pending.digests.as_flattened())?;
        out.write_all(&count(self.checked.len()))?;
        for (hash, stamp) in &self.checked {
            out.write_all(hash)?;
            out.write_all(&stamp.to_bytes())?;
        }
        out.write_all(&self.values.len().to_le_bytes())?;
        self.values.write(out)
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
            self.values.clear();
            return Ok(Kept {
                replaced: self.replaced,
                ..Kept::new(header, self.set, self.values)
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
    forgotten: u64,
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
    /// Nothing yet, and nothing is kept. Values that do not fit into about `memory` bytes go to an encrypted file without a
    /// name in `directory`. The interrupt ends whatever goes through keys or values.
    pub fn new(header: &Header, memory: u64, directory: &Path, interrupt: &Interrupt) -> State {
        State {
            place: None,
            forgotten: 0,
            unconfirmed: false,
            is_earlier: false,
            recalled: 0,
            withdrawn: 0,
            is_dirty: false,
            // Nobody else's state is compared with it.
            kept: Kept::new(header, [0; 32], Values::new(memory, directory, interrupt)),
        }
    }

    /// What earlier look-ups have kept in this directory for this set. Of what they have got under a key before its own
    /// nothing is of use. Values that do not fit into about `memory` bytes go to an encrypted file without a name in the same
    /// directory. The interrupt ends whatever goes through keys or values, this too.
    ///
    /// # Errors
    /// Usage: the directory is in use, or not private. Data: it is of another identity, or damaged; or the set is older than
    /// what was seen before, or another one of that age. An interrupt.
    pub fn open(
        directory: &Path,
        identity: &Identity,
        set: &PublishedSet,
        memory: u64,
        interrupt: &Interrupt,
    ) -> Result<State, Error> {
        let held = Held::take(directory, &[(LOCK, Holder::LookUp)])?;
        let path = directory.join(FILE);
        let mut state = State::new(set.header(), memory, directory, interrupt);
        state.kept.set = set.id();
        match open_regular(&path) {
            Ok(file) => {
                let length = file.metadata().map_err(|e| Error::io(&path, &e))?.len();
                let values = Values::new(memory, directory, interrupt);
                let kept = Kept::new(set.header(), set.id(), values);
                let mut file = BufReader::new(file);
                let kept = read(kept, identity, directory, &mut file, length, interrupt)?;
                let paid = |kept: &Kept| kept.values.len() + kept.pending.digests.len() as u64;
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
        let mut salt = [0; 32];
        random::fill(&mut salt)?;
        let write = || {
            let mut file = WholeFile::create(path)?;
            file.write_all(HEAD)?;
            file.write_all(&salt)?;
            let mut content = sealed(identity, &salt).writer(HEAD, &mut file);
            self.kept.write(&mut content)?;
            content.finish()?;
            file.commit_for_good()
        };
        write().map_err(|e| Error::io(path, &e))?;
        self.is_dirty = false;
        Ok(())
    }

    /// How many values were kept, or may have been paid for, that are of no use any more: the set has another key now.
    pub fn forgotten(&self) -> u64 {
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

    /// Finds those of these keys whose values are not known, before a server is asked about them: whatever is known, and however
    /// many buckets the keys are in, what [`State::ask`] then does between two questions is the same. What does not fit into
    /// about `memory` bytes goes to an encrypted file without a name in `directory`.
    ///
    /// # Errors
    /// Keys or values cannot be read back, the file cannot be written, or an interrupt.
    pub fn missing(
        &self,
        keys: &mut KeyStore,
        memory: u64,
        directory: &Path,
    ) -> Result<Missing, Error> {
        let pending = &self.kept.pending.digests;
        let mut order: Vec<usize> = (0..pending.len()).collect();
        order.sort_unstable_by_key(|place| &pending[*place]);
        let mut missing = Missing::new(pending.len(), self.answered(), memory, directory);
        for bucket in 0..keys.buckets() {
            let block = keys.load(bucket, true)?;
            let known = self.kept.values.of(&block.digests)?;
            for (digest, known) in block.digests.iter().zip(known.iter()) {
                if known.is_some() {
                    continue;
                }
                match order.binary_search_by_key(&digest, |place| &pending[*place]) {
                    Ok(found) => missing.pending[order[found]] = true,
                    Err(_) => missing.push(*digest)?,
                }
            }
        }
        Ok(missing)
    }

    /// How many values are known.
    pub fn answered(&self) -> u64 {
        self.kept.values.len()
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

    /// Asks for the values of these keys, which are [missing](State::missing). What an earlier look-up has paid for without
    /// getting an answer is recalled before; of what else it may have asked nothing is asked but what is missing here. More than
    /// the server said that it would answer is not asked. Whatever was answered is kept, whatever ends it.
    ///
    /// # Errors
    /// As [`Client::ask`]; Resource for too many; Usage and Resource where the directory cannot be written. Keys and
    /// values that cannot be read back.
    ///
    /// # Panics
    /// If anything was asked since the keys were found to be missing.
    pub fn ask(
        &mut self,
        client: &mut Client,
        missing: Missing,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let known = (self.answered(), self.kept.pending.digests.len());
        let found = (missing.answered, missing.pending.len());
        assert_eq!(known, found, "they are missing still");
        // The server's key is that of the set: a client is made only if it is.
        self.unconfirmed = false;
        let withdrawn = self.recall(client, &missing.pending, progress)?;
        let (asked, left) = (missing.listed() + withdrawn.len() as u64, client.left());
        if asked > left {
            let (asked, left) = (many(asked, "key"), many(left, "query"));
            let reason = format!("{asked} would have to be asked about, with {left} left");
            return Err(WireError::limit(Limit::Queries, reason).into());
        }
        let ended = missing.each(&withdrawn, |digests| {
            self.ask_some(client, digests, progress)
        });
        // Also what could not be kept before.
        if self.is_dirty {
            self.save()?;
        }
        ended?;
        client.spend(asked);
        Ok(())
    }

    /// Gets the values of what is pending where they were paid for. The rest was not answered, and is not answered any more:
    /// returns what of it is `wanted`.
    fn recall(
        &mut self,
        client: &mut Client,
        wanted: &[bool],
        progress: &mut dyn Progress,
    ) -> Result<Vec<[u8; 32]>, Error> {
        if self.pending() == 0 {
            return Ok(Vec::new());
        }
        let withdrawn = self.recall_all(client, wanted, progress);
        self.save()?;
        withdrawn
    }

    fn recall_all(
        &mut self,
        client: &mut Client,
        wanted: &[bool],
        progress: &mut dyn Progress,
    ) -> Result<Vec<[u8; 32]>, Error> {
        let total = self.pending();
        let mut withdrawn = Vec::new();
        for (wanted, questions) in wanted.chunks(MAX_QUESTION).zip(1..) {
            let Pending { seed, digests } = &mut self.kept.pending;
            let values = client.recall(&digests[..wanted.len()], seed)?;
            let values = values.unwrap_or_default();
            if self.is_earlier {
                self.recalled += values.len() as u64;
                self.withdrawn += (wanted.len() - values.len()) as u64;
            }
            let mut values = values.into_iter();
            for (digest, is_wanted) in digests.drain(..wanted.len()).zip(wanted) {
                match values.next() {
                    Some(value) => self.kept.values.insert(digest, value),
                    None if *is_wanted => withdrawn.push(digest),
                    None => {}
                }
            }
            progress.step(total - self.pending(), total);
            self.is_dirty = true;
            self.kept.values.make_room()?;
            // Each is answered again so many times only.
            if questions % KEPT_AT_ONCE == 0 {
                self.save()?;
            }
        }
        Ok(withdrawn)
    }

    /// Asks for values that are kept at once: a server remembers so many questions at least. What may be asked is on the
    /// disk before, and what has come is once the next are asked, or the look-up ends.
    fn ask_some(
        &mut self,
        client: &mut Client,
        digests: Vec<[u8; 32]>,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        random::fill(&mut self.kept.pending.seed)?;
        self.kept.pending.digests = digests;
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
        let mut made_room = Ok(());
        for (digest, value) in answered.zip(asked.values) {
            self.kept.values.insert(digest, value);
            made_room = made_room.and_then(|()| self.kept.values.make_room());
        }
        self.is_dirty = true;
        ended?;
        made_room
    }

    /// The values of these digests, all of which are known.
    pub(crate) fn values(&self, digests: &[[u8; 32]]) -> Result<Zeroizing<Vec<Value>>, Error> {
        let known = self.kept.values.of(digests)?;
        let values = known.iter().map(|value| value.expect("the value is known"));
        Ok(Zeroizing::new(values.collect()))
    }
}

/// Reads the file of a state of this identity, of so many bytes, into what is empty.
fn read(
    mut kept: Kept,
    identity: &Identity,
    directory: &Path,
    file: &mut impl Read,
    length: u64,
    interrupt: &Interrupt,
) -> Result<Kept, Error> {
    const LEGIBLE: usize = HEAD.len() + 32;
    let fail = |e: io::Error| match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
            Error::store(directory, StoreProblem::Unreadable(FILE))
        }
        _ => Error::io(&directory.join(FILE), &e),
    };
    let mut legible = Vec::new();
    let read = file.take(LEGIBLE as u64).read_to_end(&mut legible);
    read.map_err(fail)?;
    let salt = after_head(&legible, HEAD, FILE);
    let salt = salt.map_err(|problem| Error::store(directory, problem))?;
    let salt = salt
        .try_into()
        .map_err(|_| fail(io::ErrorKind::UnexpectedEof.into()))?;
    let length = length.saturating_sub(LEGIBLE as u64);
    let mut content = sealed(identity, salt).reader(HEAD, length, file);
    let values = kept.read(&mut content).map_err(fail)?;
    for number in 0..values {
        if number % BETWEEN_CHECKS == 0 {
            interrupt.check()?;
        }
        let (digest, value) = (array(&mut content), array(&mut content));
        kept.values
            .insert(digest.map_err(fail)?, value.map_err(fail)?);
        kept.values.make_room()?;
    }
    match content.read(&mut [0]).map_err(fail)? {
        0 => Ok(kept),
        _ => Err(fail(io::ErrorKind::InvalidData.into())),
    }
}

fn sealed(identity: &Identity, salt: &[u8; 32]) -> Sealed {
    let key = identity.derive_key("vesica/1 state of a look-up");
    Sealed::new(&key, &[b"state", salt])
}

/// What was found of the keys of a bucket.
pub struct Matches {
    /// Which are in the set.
    pub matched: Vec<bool>,
    /// For each the label of its payload, one after the other; zeros for those that are not in the set.
    pub labels: Zeroizing<Vec<u8>>,
}

/// Shows nothing of them.
impl std::fmt::Debug for Matches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Matches").finish_non_exhaustive()
    }
}

/// What needs the values that are known, and what was checked before.
impl PublishedSet {
    /// Hands over for each bucket of keys which of them are in the set, by the values that are known. `each` gets the keys too.
    ///
    /// # Errors
    /// As [`PublishedSet::verify_once`], for whatever has changed since that was called: whether it was looked at or not. Keys
    /// and values that cannot be read back. What `each` fails with.
    ///
    /// # Panics
    /// If the value of one is not known.
    pub fn look_up<E: From<Error>>(
        &self,
        state: &State,
        keys: &mut KeyStore,
        mut each: impl FnMut(&mut KeyStore, usize, Matches) -> Result<(), E>,
    ) -> Result<(), E> {
        for bucket in 0..keys.buckets() {
            let block = keys.load(bucket, true).map_err(Error::from)?;
            let values = state.values(&block.digests)?;
            drop(block);
            let found = self.matches(&values);
            // Otherwise damage that was done meanwhile would tell which blocks were looked at.
            if found.is_err() {
                self.verify()?;
            }
            let found = found.map_err(|error| match error {
                Error::Set { path, .. } => Error::set(&path, SetProblem::Changed),
                error => error,
            })?;
            each(keys, bucket, found)?;
        }
        for release in &self.releases {
            release.verify(state.checked(&release.header.hash()))?;
        }
        Ok(())
    }

    /// What was found of keys with these values.
    fn matches(&self, values: &[Value]) -> Result<Matches, Error> {
        let header = self.header();
        let payload = header.declared.payload_bytes as usize;
        let masks: Vec<u128> = values.iter().map(|value| header.mask(value)).collect();
        let mut matched = vec![false; values.len()];
        let mut labels = Zeroizing::new(vec![0; payload * values.len()]);
        self.find_each(&masks, |index, release, sealed| {
            matched[index] = true;
            let label = &mut labels[index * payload..][..payload];
            label.copy_from_slice(sealed);
            let header = &self.releases[release].header;
            header.xor_payload(&values[index], label);
        })?;
        Ok(Matches { matched, labels })
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
