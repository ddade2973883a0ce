//! What a job's directory says of attempts, in files that are never changed, and only two of which go again.
//!
//! - `bucket-I.attempt-A.begun`: this side has made the attempt, and nobody makes it again.
//! - `bucket-I.attempt-A.unconfirmed`: this side makes the attempt, or has ended while it did. It has no meaning but that it is
//!   there to take the next name, which needs no room on a disk that is full by then; otherwise it goes with the attempt.
//! - `bucket-I.attempt-A.confirmed`: the peer has said that it has all that it gets of the bucket. No other attempt at it is
//!   made, whatever the peer says later: each shows it more.
//! - `bucket-I.attempt-A.staked`: the peer may see whether it will be caught, and has not sent what shows it. It is there
//!   before the peer can see anything, and removed once nothing is at stake. Where it stays, this side has ended in between,
//!   and the job is over.
//! - `bucket-I.lock`: empty, and locked by the task that makes an attempt at the bucket, so that there is one at a time. The
//!   system takes the lock from a task that dies. Only then does `.staked` end the job.
//! - `over.json`: the peer was caught, or left when it could see that it would be, or this side ended then by itself. No more
//!   attempts are made at any bucket.
//!   Some checks of a protocol catch a peer that guesses bits of a secret unless it guesses right; nobody gets to guess again.
//!   It is there before the peer hears that it was caught.
//!
//! An older copy of the directory lacks the later ones, and does not know that.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vesica_files::{NotLocked, PrivateFile, keep_name, lock_within, open_own, read_regular};
use vesica_session::terms::BUCKET_ATTEMPTS;
use vesica_session::{
    Attempt, AttemptLog, Attempted, Connection, Error as SessionError, NoAttempt, Tally, Watch,
    WatchedChannel, agree_on_job,
};
use vesica_wire::{Channel, Error as WireError, Limit, Misbehaviour};

use super::{Content, SplitJob, cannot};
use crate::{Error, ErrorClass, JobProblem};

/// How the names of files end that say that something has begun.
const BEGUN: &str = "begun";
const UNCONFIRMED: &str = "unconfirmed";
const CONFIRMED: &str = "confirmed";
const STAKED: &str = "staked";
const OVER: &str = "over.json";
const MAX_OVER: u64 = 64 << 10;
/// For how long another task may look at a lock.
const LOOK: Duration = Duration::from_millis(200);
/// Why an attempt counts as a guess that was caught.
const COULD_SEE: &str = "the peer could see whether it would be caught cheating";

/// `over.json`.
#[derive(Serialize, Deserialize)]
struct Over {
    when: String,
    why: String,
    /// Whether this side ended by itself, and not by its peer.
    #[serde(default)]
    by_itself: bool,
}

fn is_there(path: &Path) -> Result<bool, Error> {
    path.try_exists().map_err(|e| cannot(path, &e))
}

/// When something has happened, in words.
pub(super) fn when(Attempt { bucket, number }: Attempt) -> String {
    format!("attempt {number} at bucket {bucket}")
}

impl SplitJob {
    pub(super) fn mark_of(&self, attempt: Attempt, what: &str) -> PathBuf {
        self.path(Content::Bits, attempt).with_extension(what)
    }

    /// Leaves a file of this content for good. Returns whether it was not there.
    pub(super) fn mark(&self, path: &Path, content: &[u8]) -> io::Result<bool> {
        let mut file = PrivateFile::create(path)?;
        file.write_all(content)?;
        match file.place_new() {
            Ok(()) => keep_name(path).map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Locks a bucket until the file is closed. Refuses one at which a task of this side makes an attempt.
    fn lock_bucket(&self, bucket: u32) -> Result<File, Error> {
        let path = self.directory.join(format!("bucket-{bucket}.lock"));
        let file = open_own(&path, Some(0o600)).map_err(|e| cannot(&path, &e))?;
        match lock_within(&file, LOOK) {
            Ok(()) => Ok(file),
            Err(NotLocked::InUse) => {
                // The attempt goes on in a job that is over, of which this one need not wait to hear.
                self.check_not_over()?;
                Err(self.problem(JobProblem::Running(bucket)))
            }
            Err(NotLocked::NoLocks) => Err(self.problem(JobProblem::NoLocks)),
            Err(NotLocked::Io(e)) => Err(cannot(&path, &e)),
        }
    }

    /// Refuses an attempt that this side has made, or does not make any more, or beside which it makes another one at the
    /// bucket. That is locked until the file is closed.
    pub(super) fn check_open(&self, attempt: Attempt) -> Result<File, Error> {
        let Attempt { bucket, .. } = attempt;
        let lock = self.lock_bucket(bucket)?;
        self.check_not_over()?;
        if is_there(&self.mark_of(attempt, BEGUN))? {
            return Err(self.problem(JobProblem::Attempted(attempt)));
        }
        for number in 0..self.contract().get(&BUCKET_ATTEMPTS) {
            let earlier = Attempt { bucket, number };
            if is_there(&self.mark_of(earlier, CONFIRMED))? {
                return Err(self.problem(JobProblem::Confirmed(bucket)));
            }
            if is_there(&self.mark_of(earlier, STAKED))? {
                return Err(self.end_at_stake(earlier, &lock));
            }
        }
        Ok(lock)
    }

    /// Ends a job of which an attempt has broken off while something was at stake: its bucket is locked by this process.
    fn end_at_stake(&self, attempt: Attempt, _: &File) -> Error {
        let when = when(attempt);
        let why = format!("this side has ended while {COULD_SEE}");
        let judge = Judge::new(self, when.clone());
        judge.end(why.clone(), ErrorClass::Resource);
        judge.judged(self.over(Over {
            when,
            why,
            by_itself: true,
        }))
    }

    /// Refuses a job that is over, or of which a task runs in which something is at stake.
    pub(crate) fn check_settled(&self) -> Result<(), Error> {
        self.check_not_over()?;
        for attempt in self.attempts() {
            let path = self.mark_of(attempt, STAKED);
            if is_there(&path)? {
                let lock = self.lock_bucket(attempt.bucket)?;
                // It may have ended well in between.
                if is_there(&path)? {
                    return Err(self.end_at_stake(attempt, &lock));
                }
            }
        }
        Ok(())
    }

    /// Keeps that something is at stake in the attempt, or that nothing is any more.
    fn stake(&self, attempt: Attempt, at_stake: bool) -> Result<(), WireError> {
        let path = self.mark_of(attempt, STAKED);
        let kept = match at_stake {
            true => self.mark(&path, &[]).map(drop),
            // A crash does not bring it back.
            false => std::fs::remove_file(&path).and_then(|()| keep_name(&path)),
        };
        let what = match at_stake {
            true => "left",
            false => "removed",
        };
        kept.map_err(|e| {
            let line = format!("the mark {STAKED} cannot be {what}: {e}");
            WireError::limit(Limit::Storage, line)
        })
    }

    /// Takes the attempt, which nobody can then make again. Nobody makes another one at the bucket until the file is closed.
    pub(super) fn begin(&self, attempt: Attempt) -> Result<File, Error> {
        // Another task may have ended the job, or the bucket, while this one waited for its peer.
        let lock = self.check_open(attempt)?;
        let path = self.mark_of(attempt, BEGUN);
        match self.mark(&path, &[]) {
            Ok(true) => {}
            Ok(false) => return Err(self.problem(JobProblem::Attempted(attempt))),
            Err(e) => return Err(cannot(&path, &e)),
        }
        // Nothing is shown to a peer of which it could not be kept that it has seen it.
        let path = self.mark_of(attempt, UNCONFIRMED);
        match self.mark(&path, &[]) {
            Ok(_) => Ok(lock),
            Err(e) => Err(cannot(&path, &e)),
        }
    }

    /// Keeps that the peer has what it gets of the bucket.
    pub(super) fn confirm(&self, attempt: Attempt) -> Result<(), WireError> {
        let path = self.mark_of(attempt, CONFIRMED);
        let kept = match std::fs::rename(self.mark_of(attempt, UNCONFIRMED), &path) {
            Ok(()) => keep_name(&path),
            Err(_) => self.mark(&path, &[]).map(drop),
        };
        kept.map_err(|e| {
            let line = format!("that the peer has confirmed a bucket cannot be kept: {e}");
            WireError::limit(Limit::Storage, line)
        })
    }

    /// Forgets what was kept for the peer's word in an attempt that has ended.
    pub(super) fn forget(&self, attempt: Attempt) {
        let _ = std::fs::remove_file(self.mark_of(attempt, UNCONFIRMED));
    }

    /// Refuses a job that is over.
    pub(crate) fn check_not_over(&self) -> Result<(), Error> {
        let path = self.directory.join(OVER);
        let text = match read_regular(&path, MAX_OVER) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(cannot(&path, &e)),
        };
        let over = serde_json::from_slice(&text).unwrap_or_else(|_| Over {
            when: "one of its attempts".into(),
            why: format!("the peer was caught; {OVER} does not say at what"),
            by_itself: false,
        });
        Err(self.over(over))
    }

    fn over(&self, over: Over) -> Error {
        let class = match over.by_itself {
            true => ErrorClass::Resource,
            false => ErrorClass::Peer,
        };
        let Over { when, why, .. } = over;
        self.problem(JobProblem::Over { when, why, class })
    }

    /// What the peer's driver hears of a job that is over by its fault.
    pub(crate) fn farewell() -> WireError {
        WireError::PeerMisbehaved(Misbehaviour::BadValue {
            what: "job",
            problem: "over, since a task of the peer misbehaved",
        })
    }

    /// What the peer hears where a job does not go on because of this.
    pub(crate) fn parting(error: &Error) -> WireError {
        match error.class() {
            ErrorClass::Peer => SplitJob::farewell(),
            _ => WireError::limit(
                Limit::Storage,
                match error {
                    Error::Job {
                        problem: JobProblem::Over { .. } | JobProblem::NotOver { .. },
                        ..
                    } => "its job is over, since its side ended in the middle of an attempt",
                    _ => "its job cannot go on yet",
                },
            ),
        }
    }

    /// Makes sure that the peer's driver is one of this job.
    pub(crate) fn meet_driver(&self, connection: &mut Connection) -> Result<(), Error> {
        connection.expect_driver();
        Ok(agree_on_job(&mut connection.channel, &self.agreement).map_err(SessionError::from)?)
    }

    /// Tells the peer's driver which attempts have begun, and how they have ended. Returns those that both sides make next,
    /// one at each bucket that lacks a result; none if there is all that is needed.
    pub(crate) fn next_attempts(&self, connection: &mut Connection) -> Result<Vec<Attempt>, Error> {
        self.meet_driver(connection)?;
        let judge = Judge::new(self, "its drivers met".into());
        let channel = &mut WatchedChannel::new(&mut connection.channel, &judge);
        let ours = self.tally().inspect_err(|_| unreadable(channel))?;
        let sides = ours.exchange(channel, self.role, &self.agreement);
        let sides = sides.map_err(|error| judge.judged(SessionError::from(error).into()))?;
        Tally::next([&sides[0], &sides[1]], self.contract()).map_err(|why| {
            let (bucket, problem) = match why {
                NoAttempt::NoneLeft(bucket) => (bucket, JobProblem::NoAttemptLeft(bucket)),
                NoAttempt::Confirmed(bucket) => (bucket, JobProblem::ResultLost(bucket)),
            };
            self.lacks(bucket, problem)
        })
    }

    /// The attempts that tasks of this side have begun.
    pub(super) fn tally(&self) -> Result<Tally, Error> {
        let mut tally = Tally::new(self.contract());
        let listed = std::fs::read_dir(&self.directory).and_then(Iterator::collect);
        let listed: Vec<std::fs::DirEntry> = listed.map_err(|e| cannot(&self.directory, &e))?;
        let names: HashSet<OsString> = listed.iter().map(std::fs::DirEntry::file_name).collect();
        let has = |path: &Path| path.file_name().is_some_and(|name| names.contains(name));
        for attempt in self.attempts() {
            let result = self.path(self.result(), attempt);
            let has_result = has(&result) && self.is_usable(attempt)?;
            if has_result || has(&result) || has(&self.mark_of(attempt, BEGUN)) {
                tally.add(attempt, has_result);
            }
            if has(&self.mark_of(attempt, CONFIRMED)) {
                tally.confirm(attempt);
            }
        }
        Ok(tally)
    }
}

/// What it means that something fails which has begun with the peer. One that was caught, or that says so of this side,
/// gets no other attempt, and hears of it once that is on the disk. So does one that may have seen that it would be caught,
/// whoever ended then; what is said of that differs.
pub(super) struct Judge<'a> {
    job: &'a SplitJob,
    /// What has begun.
    when: String,
    /// What became of the job.
    over: OnceLock<Error>,
}

impl<'a> Judge<'a> {
    pub(super) fn new(job: &'a SplitJob, when: String) -> Judge<'a> {
        let over = OnceLock::new();
        Judge { job, when, over }
    }

    /// Ends the job if what this side has failed with by itself is the peer's fault.
    pub(super) fn consider(&self, error: &Error) {
        if error.class() == ErrorClass::Peer {
            let why = match error {
                Error::Job { problem, .. } => format!("it {problem}"),
                error => error.to_string(),
            };
            self.end(why, ErrorClass::Peer);
        }
    }

    /// What to say of what it has failed with.
    pub(super) fn judged(self, error: Error) -> Error {
        self.over.into_inner().unwrap_or(error)
    }

    /// Refuses to put anything at stake in a job that another task has ended.
    fn check_not_over(&self) -> Result<(), WireError> {
        self.job.check_not_over().map_err(|error| {
            let parting = SplitJob::parting(&error);
            let _ = self.over.set(error);
            parting
        })
    }

    /// Ends the job, by a fault of this class.
    fn end(&self, why: String, class: ErrorClass) {
        let (job, when) = (self.job, self.when.clone());
        let over = Over {
            when,
            why,
            by_itself: class != ErrorClass::Peer,
        };
        // Strings are always JSON.
        let text = serde_json::to_vec_pretty(&over).unwrap_or_default();
        let path = job.directory.join(OVER);
        // A disk that is full may still take a name.
        let marked = job.mark(&path, &text).or_else(|_| job.mark(&path, &[]));
        let Over { when, why, .. } = over;
        let _ = self.over.set(job.problem(match marked {
            Ok(_) => JobProblem::Over { when, why, class },
            Err(e) => JobProblem::NotOver {
                when,
                why,
                class,
                cause: e.to_string(),
            },
        }));
    }
}

impl Watch for Judge<'_> {
    /// A peer that leaves while something is [at stake](Channel::at_stake) has seen that it would be caught, for all that
    /// anybody can tell. Where this side fails by itself then, it is not the peer's fault, and the job is over all the same.
    fn failed(&self, why: &WireError, at_stake: bool) {
        let error = Error::from(SessionError::from(why.clone()));
        self.consider(&error);
        let class = error.class();
        if !at_stake || class == ErrorClass::Peer {
            return;
        }
        // What the peer says of its own machine proves nothing.
        match why {
            WireError::Resource { limit, .. } => {
                let what = match limit {
                    Limit::Storage => "this side's disk",
                    _ => "this side",
                };
                self.end(
                    format!("{what} has failed while {COULD_SEE}: {error}"),
                    class,
                );
            }
            _ if why.is_interrupt() => {
                self.end(format!("this side was {error} while {COULD_SEE}"), class);
            }
            _ => {
                let why = format!("{COULD_SEE}, and nothing came after that: {error}");
                self.end(why, ErrorClass::Peer);
            }
        }
    }
}

/// What a task leaves of an attempt.
pub(super) struct TaskLog<'a> {
    pub(super) attempt: Attempt,
    pub(super) judge: Judge<'a>,
}

impl AttemptLog for TaskLog<'_> {
    fn keep(&self, attempted: &Attempted) -> Result<(), WireError> {
        self.judge.job.keep_result(self.attempt, attempted)
    }

    fn confirm(&self) -> Result<(), WireError> {
        self.judge.job.confirm(self.attempt)
    }
}

impl Watch for TaskLog<'_> {
    fn at_stake(&self, at_stake: bool) -> Result<(), WireError> {
        if at_stake {
            self.judge.check_not_over()?;
        }
        self.judge.job.stake(self.attempt, at_stake)
    }

    fn failed(&self, why: &WireError, at_stake: bool) {
        self.judge.failed(why, at_stake);
    }
}

/// Tells the peer's driver that this one cannot say what its tasks have found.
pub(super) fn unreadable(channel: &mut dyn Channel) {
    channel.abort(&WireError::limit(
        Limit::Storage,
        "it cannot read its results",
    ));
}
