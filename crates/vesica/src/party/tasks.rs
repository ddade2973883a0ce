//! A job that is cut up for tasks, as its driver sees it.

use std::path::Path;

use vesica_files::{Argument, DirectoryKind, advice};
use vesica_psi::Output as Learnt;
use vesica_session::terms::{BUCKET_ATTEMPTS, KEY_BITS, LEARNS, MAX_BUCKET_ATTEMPTS, REVEAL};
use vesica_session::{
    Agreed, Assignment, Attempt, ConnectOptions, Connection, Error as SessionError, Fingerprint,
    Intent, Interrupt, Job, KeyBlock, KeySet, Learns, Listener, Report, Reveal, Role, State,
    with_threads,
};
use vesica_tables::{Counts, Destination, KeySpec, PathKind, RowSet, Rows, Source};
use vesica_wire::{Channel, Error as WireError, Limit};

use super::meeting::FAREWELL;
use super::run::{Ready, cannot_take_part, warn_of_weights, with_column_types};
use super::{Party, Resources};
use crate::account::{self, OfTable, Opening};
use crate::apart::check_apart;
use crate::memory::{Budget, Division, in_words};
use crate::options::only_key;
use crate::split_job::{JobPlace, SplitJob, Tasks};
use crate::stored::Stored;
use crate::table::{self, Reading, beside};
use crate::{Error, Event, Observer};

/// The command that cuts a table up.
const SPLIT: &str = "split";

/// Whether this side's rules allow a job with this peer.
fn admit(opening: &Option<Opening>, job: &Job, peer: Fingerprint) -> Result<(), Error> {
    let opening = opening.as_ref();
    opening.map_or(Ok(()), |opening| opening.admit(peer, job))
}

impl Party {
    /// Agrees on a job with the peer's driver, and cuts the keys of a table up in `directory`, for tasks that make an attempt at
    /// one bucket each ([`SplitJob::run`]). The job is for the matches, or for numbers, without columns to hand over, a
    /// work directory or stored correlations. The directory is made for this user alone. `open` opens the table, as for
    /// [`Party::run`].
    ///
    /// # Errors
    /// Any [`Error`]. Usage: a job that tasks cannot do. Job: the directory is unsafe, or has a job.
    pub fn split<'a>(
        &self,
        role: Role,
        open: impl FnOnce() -> Result<&'a Source, Error> + Send,
        key: &KeySpec,
        directory: &Path,
        tasks: Tasks,
        observer: &mut dyn Observer,
    ) -> Result<SplitJob, Error> {
        self.check_endpoint()?;
        let drivers = [
            self.identity.fingerprint(),
            only_key("a job in tasks", self.peer, &self.connect)?,
        ];
        let intent = Intent::Split(role);
        let job = self.split_job(role, key, directory, tasks);
        let (job, place) = job.inspect_err(|error| self.tell_of(intent, error))?;
        warn_of_weights(&job, observer);
        with_threads(self.resources.threads, || {
            let listener = self.bind(observer)?;
            let read = |observer: &mut dyn Observer| {
                let source = open()?;
                let job = with_column_types(job, source, key)?;
                let ready = &mut Ready::without_rows(source, directory);
                let keys = self.read(&job, key, ready, observer)?;
                let opening = self.opening((role, SPLIT), source, key, &keys, observer)?;
                Ok((job, keys, opening))
            };
            let ((_, mut keys, opening), agreed) = self
                .agree(intent, Some(tasks), (read, admit), listener, observer)
                .map_err(Error::of_tasks)?;
            let cut = |job: &SplitJob| job.cut_set(&mut keys);
            let drivers = (role, drivers);
            self.keep_split(agreed, opening, drivers, (&place, tasks), cut, observer)
        })?
    }

    /// Does as [`Party::split`] does for a table that is on other machines.
    ///
    /// # Errors
    /// Any [`Error`], as [`Party::split`], or what the functions of `table` have failed with, of which the peer hears no more
    /// than that.
    pub fn split_elsewhere(
        &self,
        role: Role,
        table: RemoteKeys<
            impl FnOnce() -> Result<u64, Error>,
            impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, Error>,
        >,
        key: &KeySpec,
        directory: &Path,
        tasks: Tasks,
        observer: &mut dyn Observer,
    ) -> Result<SplitJob, Error> {
        self.check_endpoint()?;
        let drivers = [
            self.identity.fingerprint(),
            only_key("a job in tasks", self.peer, &self.connect)?,
        ];
        let intent = Intent::Split(role);
        let job = self.split_job(role, key, directory, tasks);
        let (job, place) = job.inspect_err(|error| self.tell_of(intent, error))?;
        warn_of_weights(&job, observer);
        let listener = self.bind(observer)?;
        let count = |observer: &mut dyn Observer| {
            let items = (table.count)()?;
            let counts = Counts {
                items,
                rows: items,
                ..Counts::default()
            };
            observer.event(Event::Read(&counts));
            match items == 0 && !self.allow_empty {
                true => Err(Error::NoKeys(Box::new(counts))),
                false => {
                    let of_table = OfTable {
                        source: None,
                        key,
                        rows: items,
                        items,
                    };
                    let opening = self.opening_over((role, SPLIT), &of_table, observer)?;
                    Ok((job, Elsewhere(items), opening))
                }
            }
        };
        let ((_, _, opening), agreed) = self
            .agree(intent, Some(tasks), (count, admit), listener, observer)
            .map_err(Error::of_tasks)?;
        let mut failed = None;
        let cut = |job: &SplitJob| {
            (table.cut)(job).map_err(|error| {
                failed = Some(error);
                WireError::limit(Limit::Storage, "its buckets cannot be cut")
            })
        };
        let drivers = (role, drivers);
        let kept = self.keep_split(agreed, opening, drivers, (&place, tasks), cut, observer);
        kept.map_err(|error| failed.unwrap_or(error))
    }

    /// Meets the peer's driver between tasks: each side says which attempts have begun, and of which there is a result.
    /// Returns the attempts that both sides make next, one at each bucket that lacks a result; none once there is all that
    /// is needed.
    ///
    /// # Errors
    /// Any [`Error`]. Job: a bucket has no result, and no attempt is left. Peer: it was caught in a task, and the job is over.
    /// Contract: the peer's job is another one.
    pub fn next_attempts(
        &self,
        job: &SplitJob,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Attempt>, Error> {
        job.check_drivers(
            self.identity.fingerprint(),
            only_key("a job in tasks", self.peer, &self.connect)?,
        )?;
        let listener = self.bind(observer)?;
        let intent = Intent::Attempts(job.role());
        self.part_unless_settled(job, intent, listener.as_ref())?;
        job.next_attempts(&mut self.meet_driver(intent, listener.as_ref(), observer)?)
    }

    /// Opens the total of a job for numbers with the peer's driver, once both have a result of every bucket. It is opened
    /// over one attempt at each, which both sides fix before, and never over others. What this side has learnt is kept in
    /// the job's directory ([`SplitJob::total`]). If that breaks off, do it again, on both sides: the total is the same, and
    /// is opened no more often than a bucket may be tried. If both have what they get, nothing is opened. Noise is the same in
    /// each opening.
    ///
    /// # Errors
    /// Any [`Error`]. Job: a bucket has no result on both sides, the total was opened too often or over other attempts,
    /// another process opens it, or the job is for matches. Contract: the peer's job is another one, or has other results
    /// of the attempts that count.
    pub fn open_total(&self, job: &SplitJob, observer: &mut dyn Observer) -> Result<Report, Error> {
        if let Some(account) = &self.account {
            account.check_job(job, observer)?;
        }
        let opened = self.open_with_driver(job, observer);
        if let Some(account) = &self.account {
            account.end_of_job(job, opened.as_ref().map(account::answer), observer);
        }
        opened
    }

    fn open_with_driver(
        &self,
        job: &SplitJob,
        observer: &mut dyn Observer,
    ) -> Result<Report, Error> {
        job.check_adds_up()?;
        job.check_drivers(
            self.identity.fingerprint(),
            only_key("a job in tasks", self.peer, &self.connect)?,
        )?;
        // Before anybody is met, who could see how long that takes.
        let noise = job.noise()?;
        let listener = self.bind(observer)?;
        let intent = Intent::Total(job.role());
        self.part_unless_settled(job, intent, listener.as_ref())?;
        for _ in 0..MAX_BUCKET_ATTEMPTS {
            let mut connection = self.meet_driver(intent, listener.as_ref(), observer)?;
            match connection.theirs {
                // A driver that was restarted numbers attempts first, and then comes for the total.
                Some(Intent::Attempts(_)) => drop(job.next_attempts(&mut connection)?),
                _ => return job.open_total(&mut connection, &noise),
            }
        }
        let asks = "the peer numbers attempts again and again, and opens no total";
        Err(SessionError::from(WireError::ThirdParty(asks)).into())
    }

    /// Refuses a job that is over, or that cannot go on now. The peer's driver hears of that, if it is there.
    fn part_unless_settled(
        &self,
        job: &SplitJob,
        intent: Intent,
        listener: Option<&Listener>,
    ) -> Result<(), Error> {
        let settled = job.check_settled();
        if let Err(error) = &settled {
            let options = ConnectOptions {
                wait: self.connect.wait.min(FAREWELL),
                ..self.connect.clone()
            };
            if let Ok(mut connection) = self.meet(intent, listener, &options)
                && job.meet_driver(&mut connection).is_ok()
            {
                connection.channel.abort(&SplitJob::parting(error));
            }
        }
        settled
    }

    /// A connection to the peer's driver, between tasks.
    fn meet_driver(
        &self,
        intent: Intent,
        listener: Option<&Listener>,
        observer: &mut dyn Observer,
    ) -> Result<Connection, Error> {
        self.check_endpoint()?;
        if listener.is_none() {
            observer.event(Event::Connecting(&self.endpoint));
        }
        let connection = self.meet(intent, listener, &self.connect)?;
        observer.event(Event::Connected(&connection));
        Ok(connection)
    }

    /// What tasks are to do, and an empty directory for them, which is locked.
    fn split_job(
        &self,
        role: Role,
        key: &KeySpec,
        directory: &Path,
        tasks: Tasks,
    ) -> Result<(Job, JobPlace), Error> {
        let job = self.job(role, key, Rows::Matching)?;
        let reveal = job.terms.get(&REVEAL);
        let revealed = reveal.to_string();
        let refused = [
            (
                reveal != Reveal::Matches && !reveal.is_value(),
                revealed.as_str(),
            ),
            (!job.labels.is_nothing(), "columns to hand over"),
            (job.groups.is_some(), "numbers by group"),
            (
                job.terms.get(&LEARNS) == Learns::Aligned,
                "one order on both sides",
            ),
            (
                job.terms.get(&KEY_BITS).is_some(),
                "keys that are compared as numbers",
            ),
            (job.offline.is_some(), "stored correlations"),
            (self.resources.work_dir.is_some(), "a work directory"),
            (self.pad_to.is_some(), "a padded set"),
        ];
        if let Some((_, what)) = refused.into_iter().find(|(is_asked, _)| *is_asked) {
            let problem = format!("a job in tasks does not go with {what}");
            return Err(SessionError::Usage(problem).into());
        }
        let job = job.with(&BUCKET_ATTEMPTS, tasks.attempts);
        job.check()?;
        let least = job.least_memory();
        if tasks.memory < least {
            let problem = format!(
                "{} of memory for a task is too little for {revealed}, which takes {} or more however few keys there are",
                in_words(tasks.memory),
                in_words(least)
            );
            let remedy = Some(advice!["raise ", Argument::TaskMemory]);
            return Err(Error::Usage { problem, remedy });
        }
        Ok((job, JobPlace::prepare(directory)?))
    }

    /// The end of a split: the account of it, keys of tasks, buckets, and the job's file once both sides have theirs.
    fn keep_split(
        &self,
        mut agreed: Agreed,
        mut opening: Option<Opening>,
        (role, drivers): (Role, [Fingerprint; 2]),
        (place, tasks): (&JobPlace, Tasks),
        cut: impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, WireError>,
        observer: &mut dyn Observer,
    ) -> Result<SplitJob, Error> {
        self.begin_account(opening.as_mut(), role, &mut agreed, observer)
            .inspect_err(|_| agreed.give_up(&cannot_take_part()))?;
        let kept = keep_split(agreed, role, drivers, place, tasks, cut);
        // How it ends is known once its results are collected.
        if let (Err(error), Some(opening)) = (&kept, &opening) {
            opening.end(Err(error), observer);
        }
        kept
    }
}

/// The end of a split: keys of tasks, buckets, and the job's file once both sides have theirs.
fn keep_split(
    mut agreed: Agreed,
    role: Role,
    drivers: [Fingerprint; 2],
    place: &JobPlace,
    tasks: Tasks,
    cut: impl FnOnce(&SplitJob) -> Result<Vec<[u8; 32]>, WireError>,
) -> Result<SplitJob, Error> {
    let job = SplitJob::new(
        place.path(),
        role,
        drivers,
        agreed.agreement(),
        tasks.valid_for,
    );
    let job = job.inspect_err(|error| agreed.give_up(error));
    let mut job = job.map_err(SessionError::from)?;
    let peers = agreed.exchange_task_keys(role, &job.task_keys()?)?;
    let kept = agreed.keep(|| job.keep(peers, cut));
    kept.inspect_err(|_| job.discard())?;
    Ok(job)
}

/// The distinct keys of a table that is on other machines.
#[derive(Clone, Copy, Debug)]
pub struct RemoteKeys<N, F> {
    /// Counts them, while the peer's driver is met.
    pub count: N,
    /// Is called once the contract is agreed, with the draft of the job. Has each bucket [cut](SplitJob::cut), by whoever
    /// [opens the draft](SplitJob::open_draft), and returns the hashes in the order of the buckets.
    pub cut: F,
}

/// So many keys, which are on other machines.
struct Elsewhere(u64);

impl Elsewhere {
    fn unreachable() -> WireError {
        WireError::limit(Limit::Input, "the keys are on other machines")
    }
}

impl KeySet for Elsewhere {
    fn items(&self) -> u64 {
        self.0
    }

    fn assign(&mut self, _: &Assignment, _: &State) -> Result<(), WireError> {
        Err(Elsewhere::unreachable())
    }

    fn load(&mut self, _: u32) -> Result<KeyBlock<'_>, WireError> {
        Err(Elsewhere::unreachable())
    }

    fn finished(&mut self, _: Learnt, _: &State) -> Result<(), WireError> {
        Err(Elsewhere::unreachable())
    }
}

/// Finds the rows of `source` that match by the results of all tasks of a job. They are written to `output`, if there is
/// one, as a run would: all columns, in the order of the input. `source` and `key` are those that were split.
///
/// # Errors
/// Any [`Error`]; no output file is left then. Job: a bucket has no result, the table has changed, or the job is one from
/// which this side learns nothing.
pub fn collect(
    job: &SplitJob,
    source: &Source,
    key: &KeySpec,
    resources: &Resources,
    output: Option<Destination<'_>>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<RowSet, Error> {
    let directory = beside(output);
    check_apart(&[source], output, |paths| {
        let kind = PathKind::Directory(DirectoryKind::Job);
        paths.writes("the job", kind, job.directory());
    })?;
    let file = table::open(source, output, &directory, false)?;
    let budget = Budget::new(resources.memory, Division::Run);
    with_threads(resources.threads, || {
        let reading = Reading {
            // Whoever has split the table knew.
            allow_empty: true,
            ..Reading::new(key, &budget, &directory, interrupt)
        };
        let keys = reading.keys(source, observer)?;
        let mut stored = Stored::new(keys, budget, directory.clone(), None);
        job.collect(&mut stored)?;
        // Another table is more to the point than rows that cannot be written.
        if let Some(file) = &file {
            file.check_rows(source, stored.counts())?;
        }
        stored.arrange(None)?;
        let matched = stored.matched_rows();
        table::write(source, file, matched, interrupt, observer)?;
        Ok(stored.matched().clone())
    })?
}
