//! A job that is cut up for tasks on several machines.
//!
//! A driver leaves a directory for this user alone: `bucket-I.keys` with the keys of each bucket, padded to a size that the
//! contract determines, `gateway.json` with what a gateway has to know, and last `job.json` with the contract, the job
//! value, a key of this side, and the fingerprints of the peer's tasks. A task makes an attempt at one bucket over a
//! connection of its own, and leaves `bucket-I.attempt-A.bits` with one bit per padded place, or, where numbers are added up,
//! `bucket-I.attempt-A.shares` with this side's shares of them. Buckets and results are encrypted under that key, so that only
//! the two files in JSON have to be kept secret. What began, what the peer has confirmed, and whether it was caught is in
//! [marks].
//!
//! The drivers open the total of numbers. Each time a side begins to, it leaves `opening-N.begun` with the attempts that
//! count, and it never opens others; `total` has what it has learnt. Its noise, if it adds some, follows from the key, so that
//! every opening has the same.
//!
//! From the key follow also the key pair of each task ([`TaskKeys`]), which stands for this side's identity and counts for
//! one attempt, and a hash of each bucket's digests, which never leaves this side. A task whose keys are others fails before
//! it connects, and a table that has changed fails before rows are written.
//!
//! Until there is `job.json`, there is `draft.json`: the same but for the hashes of buckets. Where the digests are on other
//! machines than the driver, it is for processes that each [cut](SplitJob::cut) a bucket. It also tells what a driver that was
//! killed has left from what is somebody else's ([place]).

mod marks;
mod place;
mod results;
mod total;

use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use vesica_files::{PrivateFile, keep_name, open_regular, read_regular};
use vesica_primitives::sealed::{Sealed, Unreadable};
use vesica_session::terms::{BUCKET_ATTEMPTS, REVEAL};
use vesica_session::{
    Admission, Agreement, Attempt, ConnectOptions, Connection, Contract, Endpoint,
    Error as SessionError, Fingerprint, Identity, Intent, KeyBlock, KeySet, Listener, NoConnection,
    Registry, Role, TaskKeys, Transport, Visit, connect, connect_through, random, run_bucket_on,
    with_threads,
};
use vesica_wire::{Channel, Error as WireError, Limit};
use zeroize::{Zeroize, Zeroizing};

use self::marks::{Judge, TaskLog};
pub(crate) use self::place::JobPlace;
use crate::{Error, Event, JobProblem, Observer};

const JOB: &str = "job.json";
const DRAFT: &str = "draft.json";
const GATEWAY: &str = "gateway.json";
/// What a caller whose digests are on other machines may leave beside the draft.
const CALLERS: [&str; 2] = ["spark.json", "spark.json.part"];
/// Longest `job.json`, in bytes: the keys of 16 attempts at each of 1024 buckets take 1.1 MiB.
const MAX_JOB: u64 = 2 << 20;
/// Version of the files.
const FORMAT: u32 = 3;
const SALT: usize = 32;

/// What files hold.
#[derive(Clone, Copy)]
enum Content {
    Keys,
    Bits,
    Shares,
    Total,
}

/// How much a task may take, how often a bucket may be tried, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tasks {
    /// Bytes of memory for the protocol in a task, approximately. The smaller one of both sides counts.
    pub memory: u64,
    /// Attempts at each bucket, 1 to 16. The smaller number of both sides counts.
    pub attempts: u32,
    /// For how long this side's tasks can begin, in whole seconds.
    pub valid_for: Duration,
}

/// Where a task meets the peer's task.
#[derive(Clone, Debug)]
pub enum TaskEndpoint {
    /// One of the two listens.
    Peer(Endpoint),
    /// Both come to the gateway at this address (`host:port`).
    Gateway(String),
}

/// A job of one side, in its directory.
pub struct SplitJob {
    directory: PathBuf,
    role: Role,
    /// The identity of this side's driver, and that of the peer's.
    drivers: [Fingerprint; 2],
    agreement: Agreement,
    key: Zeroizing<[u8; 32]>,
    /// When the keys of this side's tasks cease to count, in seconds since 1970.
    expires: u64,
    peers: TaskKeys,
    /// The keyed hash of each bucket's digests.
    hashes: Vec<[u8; 32]>,
}

vesica_primitives::opaque!(SplitJob, directory, role, agreement);

/// What `job.json` of any version has.
#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// `job.json`.
#[derive(Serialize, Deserialize)]
struct Record {
    format: u32,
    role: Role,
    identity: String,
    peer: String,
    contract: Contract,
    value: String,
    key: String,
    expires: u64,
    peer_expires: u64,
    peer_tasks: Vec<String>,
    buckets: Vec<String>,
}

impl Drop for Record {
    fn drop(&mut self) {
        self.value.zeroize();
        self.key.zeroize();
    }
}

/// What a task did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskReport {
    /// The bucket, counted from 0.
    pub bucket: u32,
    /// The attempt, counted from 0.
    pub attempt: u32,
    /// Bytes sent to the peer, including framing but not TLS.
    pub bytes_sent: u64,
    /// Bytes received from the peer, including framing but not TLS.
    pub bytes_received: u64,
}

fn hex(bytes: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*bytes).to_string()
}

fn of_hex(text: &str) -> Result<[u8; 32], String> {
    let hash = blake3::Hash::from_hex(text).map_err(|e| e.to_string())?;
    Ok(*hash.as_bytes())
}

/// The hash of the [sorted](KeyBlock::sorted) keys of a bucket.
fn hash(keys: &KeyBlock<'_>, key: &[u8; 32], bucket: u32) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher
        .update(b"vesica/1 digests of a bucket")
        .update(&bucket.to_le_bytes())
        .update(keys.digests.as_flattened());
    for value in keys.values.as_deref().unwrap_or_default() {
        hasher.update(&value.to_le_bytes());
    }
    *hasher.finalize().as_bytes()
}

impl SplitJob {
    /// A job without buckets, under this agreement of drivers with these identities. Its tasks can begin for so long.
    pub(crate) fn new(
        directory: &Path,
        role: Role,
        drivers: [Fingerprint; 2],
        agreement: &Agreement,
        valid_for: Duration,
    ) -> Result<SplitJob, WireError> {
        let mut key = Zeroizing::new([0; 32]);
        random::fill(key.as_mut())?;
        Ok(SplitJob {
            directory: directory.to_owned(),
            role,
            drivers,
            agreement: agreement.clone(),
            key,
            expires: now().saturating_add(valid_for.as_secs()),
            peers: TaskKeys {
                expires: 0,
                fingerprints: Vec::new(),
            },
            hashes: Vec::new(),
        })
    }

    /// What the peer has to know of this side's tasks.
    pub(crate) fn task_keys(&self) -> Result<TaskKeys, SessionError> {
        let print = |attempt| Ok(self.identity(attempt)?.fingerprint());
        let fingerprints = self
            .attempts()
            .map(print)
            .collect::<Result<_, SessionError>>()?;
        Ok(TaskKeys {
            expires: self.expires,
            fingerprints,
        })
    }

    /// Who a task of this side is.
    fn identity(&self, Attempt { bucket, number }: Attempt) -> Result<Identity, SessionError> {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher
            .update(b"vesica/1 key of a task")
            .update(&bucket.to_le_bytes())
            .update(&number.to_le_bytes());
        Identity::from_seed(&Zeroizing::new(*hasher.finalize().as_bytes()))
    }

    /// Keeps the job, for tasks that meet these of the peer, once `cut` has cut each bucket and returned its hash.
    pub(crate) fn keep(
        &mut self,
        peers: TaskKeys,
        cut: impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, WireError>,
    ) -> Result<(), WireError> {
        self.peers = peers;
        // From here on a driver that is killed leaves what is known to be its own, until there is the job.
        self.record(DRAFT).map_err(storage)?;
        self.hashes = cut(self)?;
        if self.hashes.len() != self.contract().buckets as usize {
            return Err(WireError::limit(Limit::Input, "not all buckets were cut"));
        }
        let admission = Admission::of(&self.agreement);
        self.leave(GATEWAY, &admission.to_json())
            .and_then(|()| self.record(JOB))
            .and_then(|()| std::fs::remove_file(self.directory.join(DRAFT)))
            .map_err(storage)
    }

    /// Cuts the keys of a set up.
    pub(crate) fn cut_set(&self, set: &mut dyn KeySet) -> Result<Vec<[u8; 32]>, WireError> {
        set.assign(&self.agreement.assignment(), &self.agreement.state)?;
        let cut = |bucket| {
            let keys = set.load(bucket)?;
            self.cut_bucket(bucket, &keys)
        };
        (0..self.contract().buckets).map(cut).collect()
    }

    /// The bucket of each of these digests.
    pub fn buckets_of(&self, digests: &[[u8; 32]]) -> Vec<u32> {
        self.agreement.assignment().buckets_of(digests)
    }

    /// Puts the digests of a bucket into its file: all that [`SplitJob::buckets_of`] puts into it, each once, in whatever
    /// order, with as many `values` each as this side has columns of them, one key's after the other's. Returns their hash,
    /// which the driver keeps. Done again with the same keys, it changes nothing.
    ///
    /// # Errors
    /// Job: no such bucket, or the driver has given the job up. Data: digests that repeat, or other values than the contract has. Resource: too many for a bucket,
    /// or the file cannot be written.
    pub fn cut(
        &self,
        bucket: u32,
        digests: Vec<[u8; 32]>,
        values: Vec<i64>,
    ) -> Result<[u8; 32], Error> {
        self.check_attempt(Attempt { bucket, number: 0 })?;
        let mut keys = KeyBlock::from(digests);
        keys.values = (!values.is_empty()).then(|| values.into());
        let cut = self.cut_bucket(bucket, &keys);
        let hash = cut.map_err(SessionError::from)?;
        self.check_wanted(bucket)?;
        Ok(hash)
    }

    fn cut_bucket(&self, bucket: u32, keys: &KeyBlock<'_>) -> Result<[u8; 32], WireError> {
        let capacity = self.agreement.own_size(self.role);
        let columns = self.columns();
        if keys.len() > capacity {
            // The number is not for the peer.
            return Err(WireError::limit(
                Limit::Encoding,
                "too many items fell into one bucket; run again",
            ));
        }
        let values = keys.values.as_ref().map_or(0, |values| values.len());
        if values != keys.len() * columns {
            let problem = "the keys do not have the values that the contract has";
            return Err(WireError::limit(Limit::Input, problem));
        }
        // Results name places, which are the same however often the bucket is cut.
        let keys = keys.sorted();
        if keys.digests.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(WireError::limit(Limit::Input, "digests repeat"));
        }
        let length = 8 + (32 + 8 * columns) * capacity;
        let mut content = Zeroizing::new(Vec::with_capacity(length));
        content.extend((keys.digests.len() as u64).to_le_bytes());
        content.extend_from_slice(keys.digests.as_flattened());
        content.resize(8 + 32 * capacity, 0);
        let values = keys.values.as_deref().unwrap_or_default();
        content.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        content.resize(length, 0);
        let first = Attempt { bucket, number: 0 };
        self.seal(Content::Keys, first, &content).map_err(storage)?;
        Ok(hash(&keys, &self.key, bucket))
    }

    /// How many values this side has for a key.
    fn columns(&self) -> usize {
        match self.role {
            Role::Receiver => self.contract().receiver_values.len(),
            Role::Sender => self.contract().sender_values.len(),
        }
    }

    /// Writes `job.json`, with which there is a job, or its draft.
    fn record(&self, name: &str) -> io::Result<()> {
        let record = Record {
            format: FORMAT,
            role: self.role,
            identity: self.drivers[0].to_string(),
            peer: self.drivers[1].to_string(),
            contract: self.agreement.contract.clone(),
            value: hex(&self.agreement.params.session),
            key: hex(&self.key),
            expires: self.expires,
            peer_expires: self.peers.expires,
            peer_tasks: (self.peers.fingerprints.iter())
                .map(Fingerprint::to_string)
                .collect(),
            buckets: self.hashes.iter().map(hex).collect(),
        };
        self.leave(name, &Zeroizing::new(serde_json::to_vec_pretty(&record)?))
    }

    /// Writes a file that this user alone reads, and that was not there before.
    fn leave(&self, name: &str, text: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let mut file = PrivateFile::create(&path)?;
        file.write_all(text)?;
        file.place_new()?;
        keep_name(&path)
    }

    /// Its directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Opens the job in a directory.
    ///
    /// # Errors
    /// Job: there is none, or none of this version.
    pub fn open(directory: &Path) -> Result<SplitJob, Error> {
        SplitJob::open_as(directory, JOB)
    }

    /// Opens a job whose buckets are being cut ([`SplitJob::cut`]).
    ///
    /// # Errors
    /// Job: there is none, or none of this version.
    pub fn open_draft(directory: &Path) -> Result<SplitJob, Error> {
        SplitJob::open_as(directory, DRAFT)
    }

    fn open_as(directory: &Path, name: &str) -> Result<SplitJob, Error> {
        SplitJob::read(directory, name).map_err(|why| Error::Job {
            path: directory.to_owned(),
            problem: JobProblem::NoJob(why),
        })
    }

    fn read(directory: &Path, name: &str) -> Result<SplitJob, String> {
        let text = read_regular(&directory.join(name), MAX_JOB).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound if !directory.is_dir() => "there is no such directory".into(),
            io::ErrorKind::NotFound => format!("it has no {name}"),
            _ => e.to_string(),
        })?;
        let text = Zeroizing::new(text);
        let Version { format } = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        if format != FORMAT {
            return Err(format!(
                "its files are of version {format}, which the version of this program finishes that split it"
            ));
        }
        let record: Record = serde_json::from_slice(&text).map_err(|e| e.to_string())?;
        let value = of_hex(&record.value)?;
        let agreement = Agreement::of_job(
            record.role,
            record.contract.clone(),
            value,
            Registry::standard(),
        );
        let agreement = agreement.map_err(|e| e.to_string())?;
        let hashes: Vec<_> = record
            .buckets
            .iter()
            .map(|hash| of_hex(hash))
            .collect::<Result<_, _>>()?;
        if name == JOB && hashes.len() != agreement.contract.buckets as usize {
            return Err("it does not have all buckets".into());
        }
        let fingerprint = |text: &String| {
            let read = text.parse::<Fingerprint>();
            read.map_err(|_| "what has a key has no fingerprint".to_owned())
        };
        let fingerprints: Vec<Fingerprint> = (record.peer_tasks.iter())
            .map(fingerprint)
            .collect::<Result<_, _>>()?;
        if fingerprints.len() != TaskKeys::count(&agreement.contract) {
            return Err("it does not have the keys of all the peer's tasks".into());
        }
        Ok(SplitJob {
            directory: directory.to_owned(),
            role: record.role,
            drivers: [fingerprint(&record.identity)?, fingerprint(&record.peer)?],
            key: Zeroizing::new(of_hex(&record.key)?),
            expires: record.expires,
            peers: TaskKeys {
                expires: record.peer_expires,
                fingerprints,
            },
            agreement,
            hashes,
        })
    }

    /// The name that the job has in the reports of both sides.
    pub(crate) fn run_name(&self) -> String {
        self.agreement.state.run_name()
    }

    /// What both sides have agreed on.
    pub fn contract(&self) -> &Contract {
        &self.agreement.contract
    }

    /// This side's part.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Refuses a driver with another identity or another peer than the one that split the table.
    pub(crate) fn check_drivers(
        &self,
        identity: Fingerprint,
        peer: Fingerprint,
    ) -> Result<(), Error> {
        let [own, theirs] = self.drivers;
        for (is_peers, split, given) in [(false, own, identity), (true, theirs, peer)] {
            if split != given {
                return Err(self.problem(JobProblem::OtherDriver {
                    is_peers,
                    split,
                    given,
                }));
            }
        }
        Ok(())
    }

    fn problem(&self, problem: JobProblem) -> Error {
        Error::Job {
            path: self.directory.clone(),
            problem,
        }
    }

    fn keys_name(bucket: u32) -> String {
        format!("bucket-{bucket}.keys")
    }

    fn path(&self, content: Content, Attempt { bucket, number }: Attempt) -> PathBuf {
        self.directory.join(match content {
            Content::Keys => SplitJob::keys_name(bucket),
            Content::Bits => format!("bucket-{bucket}.attempt-{number}.bits"),
            Content::Shares => format!("bucket-{bucket}.attempt-{number}.shares"),
            Content::Total => "total".to_owned(),
        })
    }

    /// Whether the job is for numbers, of which each attempt leaves shares.
    pub(crate) fn adds_up(&self) -> bool {
        self.contract().get(&REVEAL).is_value()
    }

    fn cipher(&self, content: Content, Attempt { bucket, number }: Attempt, salt: &[u8]) -> Sealed {
        let what: &[u8; 23] = match content {
            Content::Keys => b"vesica/1 keys of bucket",
            Content::Bits => b"vesica/1 bits of bucket",
            Content::Shares => b"vesica/1 sums of bucket",
            Content::Total => b"vesica/1 total of a job",
        };
        let place = [bucket.to_le_bytes(), number.to_le_bytes()];
        Sealed::new(&self.key, &[what, place.as_flattened(), salt])
    }

    fn seal(&self, content: Content, attempt: Attempt, bytes: &[u8]) -> io::Result<()> {
        self.sealed(content, attempt, bytes)?.replace()?;
        keep_name(&self.path(content, attempt))
    }

    /// A file that does not have its name yet.
    fn sealed(&self, content: Content, attempt: Attempt, bytes: &[u8]) -> io::Result<PrivateFile> {
        let mut salt = [0; SALT];
        random::fill(&mut salt).map_err(io::Error::other)?;
        let mut file = PrivateFile::create(&self.path(content, attempt))?;
        file.write_all(&salt)?;
        self.cipher(content, attempt, &salt)
            .write(&[], bytes, &mut file)?;
        Ok(file)
    }

    fn unseal(&self, content: Content, attempt: Attempt) -> Result<Zeroizing<Vec<u8>>, Unreadable> {
        let mut file = open_regular(&self.path(content, attempt))?;
        let mut salt = [0; SALT];
        file.read_exact(&mut salt)?;
        let length = file.metadata()?.len().saturating_sub(SALT as u64);
        self.cipher(content, attempt, &salt)
            .read(&[], length, &mut file)
    }

    /// What a file has, if there is one.
    ///
    /// # Errors
    /// Job: it is damaged. Resource: it cannot be read.
    fn content(
        &self,
        content: Content,
        attempt: Attempt,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, Error> {
        match self.unseal(content, attempt) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Unreadable::Io(e)) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(Unreadable::Io(e)) if e.kind() != io::ErrorKind::UnexpectedEof => {
                Err(cannot(&self.path(content, attempt), &e))
            }
            Err(_) => Err(self.damaged(&self.path(content, attempt))),
        }
    }

    /// A file of the job that is not as this side left it.
    fn damaged(&self, path: &Path) -> Error {
        let name = path.file_name().unwrap_or_default();
        self.problem(JobProblem::Damaged(name.to_string_lossy().into_owned()))
    }

    /// The keys of a bucket, which are those that the driver left.
    fn keys(&self, bucket: u32) -> Result<KeyBlock<'static>, Error> {
        let first = Attempt { bucket, number: 0 };
        let content = match self.content(Content::Keys, first) {
            Ok(Some(content)) => content,
            Ok(None) => return Err(self.damaged(&self.path(Content::Keys, first))),
            Err(Error::Job { .. }) => return Err(self.problem(JobProblem::OtherKeys(bucket))),
            Err(error) => return Err(error),
        };
        let keys = self.keys_in(&content);
        let expected = &self.hashes[bucket as usize];
        keys.filter(|keys| hash(keys, &self.key, bucket) == *expected)
            .ok_or_else(|| self.problem(JobProblem::OtherKeys(bucket)))
    }

    /// The keys that a bucket's file has.
    fn keys_in(&self, content: &[u8]) -> Option<KeyBlock<'static>> {
        let (count, rest) = content.split_first_chunk::<8>()?;
        let count = usize::try_from(u64::from_le_bytes(*count)).ok()?;
        let (digests, values) = rest.split_at_checked(32 * self.agreement.own_size(self.role))?;
        let (digests, values) = (digests.as_chunks::<32>().0, values.as_chunks::<8>().0);
        let values = values.get(..count.checked_mul(self.columns())?)?;
        let values = values.iter().map(|value| i64::from_le_bytes(*value));
        let mut keys = KeyBlock::from(digests.get(..count)?.to_vec());
        keys.values = (self.columns() > 0).then(|| values.collect());
        Some(keys)
    }

    /// Makes an attempt at a bucket, against the peer's task for the same attempt. The result is kept before the peer hears
    /// that this side is done, and what the peer says of its own before this returns.
    ///
    /// # Errors
    /// Any [`Error`]. Job: no such attempt, one that was begun before, another at a bucket of which the peer has confirmed its
    /// result, keys of tasks that do not count any more, or keys of the table other than those that the driver left. Peer: it
    /// misbehaves, or did so in another attempt that had begun, which ends the job; or it says so of this side. An attempt has
    /// begun once the peer is connected.
    pub fn run(
        &self,
        attempt: Attempt,
        endpoint: &TaskEndpoint,
        options: &ConnectOptions,
        threads: Option<NonZeroUsize>,
        observer: &mut dyn Observer,
    ) -> Result<TaskReport, Error> {
        self.check_attempt(attempt)?;
        drop(self.check_open(attempt)?);
        for (expires, of_peer) in [(self.expires, false), (self.peers.expires, true)] {
            if now() >= expires {
                return Err(self.problem(JobProblem::Expired { of_peer }));
            }
        }
        let keys = self.keys(attempt.bucket)?;
        let identity = self.identity(attempt)?;
        let transport = Transport::Tls {
            identity: &identity,
            peer: self.peers.fingerprints[TaskKeys::place(self.contract(), attempt)],
            intent: Intent::Task(self.role),
        };
        let options = &ConnectOptions {
            known: self.peers.fingerprints.clone(),
            ..options.clone()
        };
        let connected = self.meet(attempt, endpoint, &transport, options, observer);
        let mut connection = connected.map_err(|error| self.in_words(attempt, error))?;
        observer.event(Event::Connected(&connection));
        let lock = self.begin(attempt)?;
        let when = marks::when(attempt);
        let log = TaskLog {
            attempt,
            judge: Judge::new(self, when),
        };
        let ended = with_threads(threads, || {
            let (role, agreement) = (self.role, &self.agreement);
            run_bucket_on(&mut connection, role, agreement, attempt, keys, &log)
        });
        self.forget(attempt);
        drop(lock);
        ended?.map_err(|error| log.judge.judged(error.into()))?;
        let traffic = connection.channel.traffic();
        let bytes_sent = traffic.iter().map(|phase| phase.bytes_sent).sum();
        let bytes_received = traffic.iter().map(|phase| phase.bytes_received).sum();
        Ok(TaskReport {
            bucket: attempt.bucket,
            attempt: attempt.number,
            bytes_sent,
            bytes_received,
        })
    }

    fn meet(
        &self,
        attempt: Attempt,
        endpoint: &TaskEndpoint,
        transport: &Transport<'_>,
        options: &ConnectOptions,
        observer: &mut dyn Observer,
    ) -> Result<Connection, SessionError> {
        let endpoint = match endpoint {
            TaskEndpoint::Peer(endpoint) => endpoint,
            TaskEndpoint::Gateway(address) => {
                observer.event(Event::Connecting(&Endpoint::Connect(address.clone())));
                let visit = Visit {
                    admission: Admission::of(&self.agreement),
                    role: self.role,
                    attempt,
                };
                return connect_through(address, &visit, transport, options);
            }
        };
        let listener = match endpoint {
            Endpoint::Listen(address) => Listener::bind(address)?,
            Endpoint::Bound(listener) => listener.take()?,
            Endpoint::Connect(_) | Endpoint::Courier => {
                observer.event(Event::Connecting(endpoint));
                return connect(endpoint, transport, options);
            }
        };
        observer.event(Event::Listening(listener.local_addr()));
        listener.accept(transport, options)
    }

    /// What it means that somebody else than the peer's task for this attempt has come.
    fn in_words(&self, attempt: Attempt, error: SessionError) -> Error {
        let got = match error {
            SessionError::WrongPeer { got, .. } => got,
            SessionError::RefusedByPeer { .. }
            | SessionError::Connect {
                cause: NoConnection::RefusedByVisitor,
                ..
            } => {
                return self.problem(JobProblem::Refused {
                    line: error.to_string(),
                    class: error.class(),
                });
            }
            error => return error.into(),
        };
        match self.peers.attempt(self.contract(), got) {
            Some(theirs) => self.problem(JobProblem::OtherAttempt {
                ours: attempt,
                theirs,
            }),
            None => match self.task_keys() {
                Ok(ours) if ours.fingerprints.contains(&got) => self.problem(JobProblem::OwnSide),
                _ => self.problem(JobProblem::OtherTask(got)),
            },
        }
    }

    /// Refuses an attempt that the contract does not have.
    fn check_attempt(&self, asked: Attempt) -> Result<(), Error> {
        let contract = self.contract();
        let (buckets, attempts) = (contract.buckets, contract.get(&BUCKET_ATTEMPTS));
        match asked.bucket < buckets && asked.number < attempts {
            true => Ok(()),
            false => Err(self.problem(JobProblem::NoSuchAttempt {
                buckets,
                attempts,
                asked,
            })),
        }
    }

    /// All attempts of the contract.
    fn attempts(&self) -> impl Iterator<Item = Attempt> {
        let attempts = self.contract().get(&BUCKET_ATTEMPTS);
        (0..self.contract().buckets)
            .flat_map(move |bucket| (0..attempts).map(move |number| Attempt { bucket, number }))
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

fn storage(e: io::Error) -> WireError {
    WireError::limit(Limit::Storage, format!("a bucket cannot be kept: {e}"))
}

fn cannot(path: &Path, why: &io::Error) -> Error {
    // What is no regular file is none of this job's, whatever room there is on the disk.
    if matches!(
        why.kind(),
        io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput
    ) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        return Error::Job {
            path: path.parent().unwrap_or(path).to_owned(),
            problem: JobProblem::Damaged(format!("{name} ({why})")),
        };
    }
    let line = format!("{}: {why}", path.display());
    SessionError::Run(WireError::limit(Limit::Storage, line)).into()
}
