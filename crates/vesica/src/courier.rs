//! Runs between parties that are never there at the same time: each step takes a message of the peer, and makes one.
//!
//! What a side keeps from step to step is one file in a directory of its own: the seed of its randomness, a hash of its
//! keys, and all messages of both sides, sealed under a key that only its identity can derive. It is replaced as a whole, and
//! on the disk before a message leaves this module.
//!
//! - **A run answers once.** The same message gets the same answer, as long as the table has the same keys. Another message in
//!   its place is refused: a side that answered two would run the protocol twice in one session.
//! - **A run that is over stays over.** Only a message with which it ended can be had again, since nobody says that it
//!   arrived.
//! - **A copy is no run.** The file says which file it is ([`FileId`](vesica_files::FileId)), so that one which was copied or
//!   restored, and may be older than the run, is refused. A roll-back of the whole file system is not noticed.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use vesica_files::DirectoryKind;
use vesica_keys::SetHash;
use vesica_session::terms::{KEY_CLASSES, LEARNS, RECEIPTS};
use vesica_session::{
    Agreement, Envelope, Error as SessionError, Job, Learns, MAX_MESSAGE, ProtocolRequest,
    Registry, Report, Role, Turn, Turns, goes_by_messages, hash_of_said, take_turn, with_threads,
};
use vesica_tables::{Destination, KeySpec, Output, PathKind, Rows, Source};

use crate::account::{self, EXCHANGE, Opening};
use crate::apart::check_apart;
use crate::kept::{Hex, Kept, Stage};
use crate::party::{
    Gets, Outcome, Party, cannot_take_part, warn_of_classes, with_column_types, words,
};
use crate::stored::Stored;
use crate::work_dir::refused;
use crate::{Error, Observer, OfRun, WorkDirProblem};

/// A step of a run by courier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CourierStep {
    /// Begins a run: the contract, and nothing of any item.
    Offer,
    /// Takes an offer.
    Start,
    /// Takes a message, and makes the next.
    Answer,
    /// Takes the last message of the peer.
    Finish,
}

impl CourierStep {
    const ALL: [(CourierStep, &'static str); 4] = [
        (CourierStep::Offer, "offer"),
        (CourierStep::Start, "start"),
        (CourierStep::Answer, "answer"),
        (CourierStep::Finish, "finish"),
    ];
}

impl FromStr for CourierStep {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CourierStep, &'static str> {
        let found = CourierStep::ALL.iter().find(|(_, name)| *name == text);
        let (step, _) = found.ok_or("the steps are offer, start, answer and finish")?;
        Ok(*step)
    }
}

impl fmt::Display for CourierStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = CourierStep::ALL.iter().find(|(step, _)| step == self);
        f.write_str(found.map_or("", |(_, name)| name))
    }
}

/// Whether a step was taken before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Now,
    Before,
}

/// One side of a run by courier, between two steps.
pub struct Courier<'a> {
    party: &'a Party,
    job: Job,
    key: &'a KeySpec,
    gets: Gets,
    turns: Turns,
    kept: Kept,
}

/// What a step has made.
pub struct Carried<'a> {
    /// The message for the peer, if there is one.
    pub message: Option<Vec<u8>>,
    /// Whether the step was taken before. Its message is the same then.
    pub again: bool,
    /// What the run has led to, if it is over for this side.
    pub over: Option<Over<'a>>,
}

/// A run that is over for this side, and whose rows are not written yet. Until they are, and [`Outcome::finish`] has said so
/// in the directory, the step can be repeated.
pub struct Over<'a> {
    party: &'a Party,
    source: &'a Source,
    file: Option<Output>,
    keys: Stored,
    report: Report,
    /// The directory, if it has to hear of the end.
    kept: Option<Kept>,
}

impl Over<'_> {
    /// Writes the rows, if there is an output for them. Hand the step's message over before: when it comes would say how long
    /// this took, and so how many rows match.
    ///
    /// # Errors
    /// Those of [`Party::run`] once its peer has gone. No output file is left then.
    pub fn write(self, observer: &mut dyn Observer) -> Result<Outcome, Error> {
        let Over {
            party,
            source,
            file,
            keys,
            report,
            kept,
        } = self;
        with_threads(party.resources.threads, || {
            let mut outcome = party.write(source, file, keys, report, observer)?;
            if let Some(kept) = kept {
                outcome.end_with(kept);
            }
            Ok(outcome)
        })?
    }
}

impl Party {
    /// Opens the directory of a run by courier, or begins one there.
    ///
    /// # Errors
    /// Usage: a protocol that takes more than two messages, a directory that is of another run, a copy or has other files,
    /// none where a step goes on with a run, and one where a run begins.
    pub fn courier<'a>(
        &'a self,
        step: CourierStep,
        role: Role,
        key: &'a KeySpec,
        rows: Rows,
        directory: &Path,
    ) -> Result<Courier<'a>, Error> {
        let job = self.job_by_courier(role, key, rows)?;
        let fresh = match step {
            CourierStep::Offer => Some(true),
            CourierStep::Start => Some(false),
            CourierStep::Answer | CourierStep::Finish => None,
        };
        // A step without the ledger of the others would leave no entry.
        let (purpose, ledger) = (&self.purpose, self.account.is_some());
        let words = format!("{} purpose={purpose:?} ledger={ledger}", words(&job));
        let of = [self.peer.to_string(), words];
        let kept = Kept::open(directory, &self.identity, of, fresh)?;
        Ok(Courier {
            party: self,
            gets: Gets::of(role, &job.terms),
            job,
            key,
            turns: kept.turns(),
            kept,
        })
    }

    fn job_by_courier(&self, role: Role, key: &KeySpec, rows: Rows) -> Result<Job, Error> {
        let protocol = match &self.protocol {
            ProtocolRequest::Auto => ProtocolRequest::named("compact-dh"),
            named => named.clone(),
        };
        let registry = Registry::standard();
        if let ProtocolRequest::Named(name) = &protocol
            && !registry.get(name).is_some_and(goes_by_messages)
        {
            let those = registry.all().iter().filter(|p| goes_by_messages(**p));
            let names: Vec<_> = those.map(|p| p.spec().name).collect();
            return Err(usage(format!(
                "a run by files takes one of {}",
                names.join(", ")
            )));
        }
        let job = Job {
            protocol,
            // One bucket, whatever it takes.
            memory: None,
            ..self.job(role, key, rows)?
        }
        // Its messages are signed.
        .with(&RECEIPTS, false);
        job.check()?;
        let is_plain = job.values.is_empty() && job.labels.is_nothing() && job.offline.is_none();
        if !is_plain || job.terms.get(&LEARNS) == Learns::Aligned {
            let problem = "a run by files tells which rows match, and nothing besides";
            return Err(usage(problem));
        }
        Ok(job)
    }
}

fn usage(problem: impl Into<String>) -> Error {
    SessionError::Usage(problem.into()).into()
}

impl<'a> Courier<'a> {
    /// Whether the step can be taken with this message, as far as that is known without the table.
    ///
    /// # Errors
    /// Usage: a run that is over, or another step than the one that comes now. Data: a message that is not the peer's, is not
    /// of this run, is not its next, or is another than the one that was taken in its place.
    pub fn check(&self, step: CourierStep, message: Option<&[u8]>) -> Result<(), Error> {
        self.taken(step, message).map(drop)
    }

    /// The step that was taken last.
    fn last_step(&self) -> Option<CourierStep> {
        let kept = &self.kept;
        match kept.last_heard() {
            None if kept.messages.is_empty() => None,
            None => Some(CourierStep::Offer),
            Some(0) => Some(CourierStep::Start),
            Some(_) if kept.head.stage != Stage::Going && self.gets == Gets::Rows => {
                Some(CourierStep::Finish)
            }
            Some(_) => Some(CourierStep::Answer),
        }
    }

    fn taken(&self, step: CourierStep, message: Option<&[u8]>) -> Result<Taken, Error> {
        let kept = &self.kept;
        let refuse = |problem| Err(refused(&kept.path, problem));
        let last_heard = kept.last_heard().map(|number| &kept.messages[number][..]);
        if self.last_step() == Some(step) && last_heard == message {
            return Ok(Taken::Before);
        }
        let is_first = step == CourierStep::Offer;
        let begins = is_first || step == CourierStep::Start;
        let is_over = kept.head.stage == Stage::Over;
        match (is_over, message) {
            (true, _) if begins || kept.last_word().is_none() => {
                return refuse(WorkDirProblem::Over);
            }
            _ if begins && kept.head.is_first != is_first => {
                return refuse(WorkDirProblem::OtherOptions);
            }
            (_, Some(_)) if is_first => return Err(usage("an offer takes no message")),
            (_, Some(message)) => self.place(step, message),
            (_, None) if !is_first => return Err(usage("this step takes a message of the peer")),
            (_, None) if !kept.messages.is_empty() => return refuse(WorkDirProblem::GoneOn),
            (_, None) => Ok(()),
        }?;
        match is_over {
            true => refuse(WorkDirProblem::Over),
            false => Ok(Taken::Now),
        }
    }

    /// Refuses a message that is not the peer's next.
    fn place(&self, step: CourierStep, message: &[u8]) -> Result<(), Error> {
        let (kept, number) = (&self.kept, usize::from(self.read(message)?.number));
        let wrong = |problem| Err(SessionError::Message(problem).into());
        match kept.messages.get(number) {
            _ if step == CourierStep::Start && number > 0 => wrong("it is no offer"),
            _ if step != CourierStep::Start && number == 0 => {
                wrong("it is an offer: start with it")
            }
            _ if kept.is_ours(number) => wrong("it is of another run"),
            Some(taken) if taken != message => {
                wrong("another one was taken in its place, and a run answers once")
            }
            Some(_) if kept.head.stage == Stage::Ending && kept.last_heard() == Some(number) => {
                Err(usage(LAST))
            }
            Some(_) => {
                wrong("it was taken in an earlier step, and the run waits for the one after")
            }
            None if number == kept.messages.len() => Ok(()),
            None => wrong("the one before it is missing"),
        }
    }

    fn read<'m>(&self, message: &'m [u8]) -> Result<Envelope<'m>, Error> {
        let (peer, local) = (self.party.peer, self.party.identity.fingerprint());
        Ok(Envelope::read(message, peer, local)?)
    }

    /// Takes the next step, or the last one again. Whatever it makes is kept.
    ///
    /// # Errors
    /// Those of [`Party::run`], but for the network's, and those of [`Courier::check`]. Data: the table has other keys than in
    /// the first step.
    pub fn step(
        mut self,
        step: CourierStep,
        message: Option<&[u8]>,
        source: &'a Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Carried<'a>, Error> {
        let taken = self.taken(step, message)?;
        if taken == Taken::Now {
            self.kept.messages.extend(message.map(<[u8]>::to_vec));
        }
        let threads = self.party.resources.threads;
        let carried = with_threads(threads, || self.run(step, taken, source, output, observer))?;
        carried.map_err(Error::by_courier)
    }

    fn run(
        mut self,
        step: CourierStep,
        taken: Taken,
        source: &'a Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Carried<'a>, Error> {
        let (party, again) = (self.party, taken == Taken::Before);
        let has_rows = step == CourierStep::Finish && self.gets == Gets::Rows;
        check_apart(&[source], output, |paths| {
            let kind = PathKind::Directory(DirectoryKind::Courier);
            paths.writes("the state", kind, &self.kept.path);
        })?;
        let job = with_column_types(self.job.clone(), source, self.key)?;
        let output = output.filter(|_| has_rows);
        let mut ready = party.prepare(&job, source, output, observer)?;
        // Other keys are more to the point than rows that cannot be written.
        let file = ready.file.take();
        let mut keys = party.read(&job, self.key, &mut ready, observer)?;
        self.check_keys(&job, &keys)?;
        if let Some(file) = &file {
            file.check_rows(source, keys.counts())?;
        }
        if again && !has_rows {
            return Ok(Carried {
                message: self.kept.last_word().map(<[u8]>::to_vec),
                again,
                over: None,
            });
        }
        let begins = matches!(step, CourierStep::Offer | CourierStep::Start);
        let named = (job.role, EXCHANGE);
        let mut opening = party.opening(named, source, self.key, &keys, observer)?;
        if let (Some(opening), true) = (&opening, begins) {
            opening.admit(party.peer, &job)?;
        }
        let turned = self.turn(&job, step, &mut keys, opening.as_mut(), observer);
        // Between its steps a run goes on.
        if let (Some(opening), Ok(Some(report))) = (&opening, &turned) {
            opening.end(Ok(account::answer(report)), observer);
        }
        let report = turned?;
        let message = self.kept.last_word().map(<[u8]>::to_vec);
        let over = report.map(|report| {
            warn_of_classes(&report.contract, observer);
            Over {
                party,
                source,
                file,
                keys,
                report,
                kept: (self.kept.head.stage != Stage::Over).then_some(self.kept),
            }
        });
        Ok(Carried {
            message,
            again,
            over,
        })
    }

    /// Refuses a table with other keys than in the first step, before anything that the peer has said is held against it.
    fn check_keys(&mut self, job: &Job, keys: &Stored) -> Result<(), Error> {
        let secret = self
            .party
            .identity
            .derive_key("vesica/1 keys of a run by courier");
        let mut set = SetHash::new(&secret);
        keys.each_digest(|key| set.add(key))?;
        let mut hash = blake3::Hasher::new_keyed(&set.finish());
        for class in job.terms.get(&KEY_CLASSES) {
            hash.update(&(class.len() as u64).to_le_bytes());
            hash.update(class.as_bytes());
        }
        let hash = Hex(*hash.finalize().as_bytes());
        match self.kept.head.keys.replace(hash) {
            Some(earlier) if earlier != hash => {
                Err(refused(&self.kept.path, WorkDirProblem::OtherKeys))
            }
            _ => Ok(()),
        }
    }

    /// Takes this side's turn, and keeps what it has said; the report if the run is over.
    fn turn(
        &mut self,
        job: &Job,
        step: CourierStep,
        keys: &mut Stored,
        mut opening: Option<&mut Opening>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Report>, Error> {
        let party = self.party;
        let mut heard = Vec::new();
        let offer = self.kept.messages.first().map(Vec::as_slice);
        for (number, message) in self.kept.messages.iter().enumerate() {
            if !self.kept.is_ours(number) {
                let offer = offer.filter(|_| number > 0);
                heard.push(self.read(message)?.open(&self.turns, offer)?);
            }
        }
        let sides = [party.identity.fingerprint(), party.peer];
        let said: Vec<[u8; 32]> = self.kept.head.said.iter().map(|hash| hash.0).collect();
        let mut refused_by_account = None;
        let mut admit = |agreement: &Agreement| match &mut opening {
            Some(opening) => opening.begin(agreement, party.peer).map_err(|error| {
                refused_by_account = Some(error);
                cannot_take_part().into()
            }),
            None => Ok(()),
        };
        let turn = take_turn(
            &self.turns,
            sides,
            (heard, &said),
            job,
            keys,
            &mut admit,
            &mut OfRun(observer),
        );
        let turn = turn.map_err(|error| refused_by_account.unwrap_or(error.into()))?;
        let (report, said) = match turn {
            Turn::Said(said) => (None, Some(said)),
            Turn::Over { report, said } => (Some(report), said),
        };
        match (step, &report) {
            (CourierStep::Finish, None) => {
                return Err(usage("the run goes on: answer this message"));
            }
            (CourierStep::Answer, Some(_)) if self.gets == Gets::Rows => return Err(usage(LAST)),
            _ => {}
        }
        if let Some(said) = said {
            self.write(&said)?;
        }
        match (&report, self.gets) {
            _ if self.kept.head.stage == Stage::Over => return Ok(report.map(|report| *report)),
            (None, _) => {}
            (Some(_), Gets::Rows) => self.kept.head.stage = Stage::Ending,
            (Some(_), _) => {
                self.kept.head.stage = Stage::Over;
                self.kept.forget_seed();
            }
        }
        self.kept.write()?;
        Ok(report.map(|report| *report))
    }

    /// Adds this side's next message.
    fn write(&mut self, said: &[u8]) -> Result<(), Error> {
        let kept = &self.kept;
        let number = kept.messages.len();
        let mut theirs = (0..number).filter(|number| !kept.is_ours(*number));
        let first = theirs.next().map(|first| self.read(&kept.messages[first]));
        let first = first.transpose()?;
        let earlier = kept.messages.first().map(Vec::as_slice).zip(first.as_ref());
        let (identity, peer) = (&self.party.identity, self.party.peer);
        let too_many = |_| SessionError::Message("the run has too many");
        let number = u8::try_from(number).map_err(too_many)?;
        let message = Envelope::write(identity, peer, &self.turns, number, earlier, said)?;
        if message.len() as u64 > MAX_MESSAGE {
            return Err(SessionError::Message("it would be longer than 256 MiB").into());
        }
        self.kept.head.said.push(Hex(hash_of_said(said)));
        self.kept.messages.push(message);
        Ok(())
    }
}

/// What a message is that another step takes.
const LAST: &str = "this message is the last of the peer: finish the run with it";
