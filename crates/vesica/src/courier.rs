//! Runs between parties that are never there at the same time: each step takes a message of the peer, and makes one.
//!
//! What a side keeps from step to step is one file in a directory of its own: the seed of its randomness, and all
//! messages of both sides, sealed under a key that only its identity can derive. It is replaced as a whole, and on the
//! disk before a message leaves this module. So the same message gives the same answer however often it comes, and
//! another one in its place is refused: a side that answered two would run the protocol twice in one session. Whoever puts
//! an older copy of the directory in its place undoes that.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vesica_files::PrivateFile;
use vesica_session::terms::LEARNS;
use vesica_session::{
    Envelope, Error as SessionError, Job, Learns, MAX_MESSAGE, ProtocolRequest, Registry, Role,
    Turn, Turns, goes_by_messages, hash_of_said, take_turn, with_threads,
};
use vesica_tables::{Destination, KeySpec, Rows, Source};
use zeroize::{Zeroize, Zeroizing};

use crate::party::{Gets, Outcome, Party, Ready, warn_of_classes, with_column_types, words};
use crate::work_dir::{failed, lock, read_if_there, refused, seal, unseal};
use crate::{Error, Observer, WorkDirProblem};

const STATE: &str = "run";
const MAGIC: &[u8; 8] = b"vesicac1";

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

impl FromStr for CourierStep {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CourierStep, &'static str> {
        Ok(match text {
            "offer" => CourierStep::Offer,
            "start" => CourierStep::Start,
            "answer" => CourierStep::Answer,
            "finish" => CourierStep::Finish,
            _ => return Err("the steps are offer, start, answer and finish"),
        })
    }
}

/// What is kept from step to step.
#[derive(Serialize, Deserialize)]
struct Head {
    peer: String,
    /// Role, protocol and terms in words.
    terms: String,
    is_first: bool,
    seed: [u8; 32],
    /// Hashes of what this side has said.
    said: Vec<[u8; 32]>,
    /// Bytes of each message.
    lengths: Vec<usize>,
}

impl Drop for Head {
    fn drop(&mut self) {
        self.seed.zeroize();
    }
}

/// One side of a run by courier, between two steps.
pub struct Courier<'a> {
    party: &'a Party,
    job: Job,
    key: &'a KeySpec,
    path: PathBuf,
    turns: Turns,
    said: Vec<[u8; 32]>,
    /// The messages of both sides so far: the first is the offer.
    messages: Vec<Vec<u8>>,
    /// Held until this is dropped.
    _lock: File,
}

/// What a step has made.
pub struct Carried {
    /// The message for the peer, if there is one.
    pub message: Option<Vec<u8>>,
    /// What the run has led to, if it is over for this side.
    pub outcome: Option<Outcome>,
}

impl Party {
    /// Opens the directory of a run by courier, or begins one there.
    ///
    /// # Errors
    /// Usage: a protocol that takes more than two messages, a directory that is of another run or holds other files, none
    /// where a step goes on with a run, and one where a run begins.
    pub fn courier<'a>(
        &'a self,
        step: CourierStep,
        role: Role,
        key: &'a KeySpec,
        rows: Rows,
        directory: &Path,
    ) -> Result<Courier<'a>, Error> {
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
            let problem = format!("a run by courier takes one of {}", names.join(", "));
            return Err(SessionError::Usage(problem).into());
        }
        let job = Job {
            protocol,
            // One bucket, whatever it takes.
            memory: None,
            ..self.job(role, key, rows)?
        };
        job.check()?;
        let is_plain = job.values.is_empty() && job.labels.is_nothing() && job.offline.is_none();
        if !is_plain || job.terms.get(&LEARNS) == Learns::Aligned {
            let problem = "a run by courier tells which rows match, and nothing besides";
            return Err(SessionError::Usage(problem.into()).into());
        }
        let was_there = directory.exists();
        let lock = lock(directory, STATE)?;
        let sealing_key = self.identity.derive_key("vesica/1 sealed run by courier");
        let kept = read_if_there(directory, STATE)?;
        let begins = matches!(step, CourierStep::Offer | CourierStep::Start);
        let is_first = step == CourierStep::Offer;
        let kept = kept.map(|bytes| {
            let content = unseal(MAGIC, &sealing_key, &bytes);
            let kept = content.and_then(|content| decode(&content));
            kept.ok_or_else(|| refused(directory, WorkDirProblem::Unreadable))
        });
        let (turns, said, messages) = match kept.transpose()? {
            Some((head, messages)) => {
                if head.peer != self.peer.to_string() {
                    return Err(refused(directory, WorkDirProblem::OtherPeer));
                }
                if head.terms != words(&job) || begins && head.is_first != is_first {
                    return Err(refused(directory, WorkDirProblem::OtherOptions));
                }
                let seed = Zeroizing::new(head.seed);
                (
                    Turns::kept(head.is_first, seed),
                    head.said.clone(),
                    messages,
                )
            }
            None if begins => (Turns::fresh(is_first)?, Vec::new(), Vec::new()),
            None => {
                if !was_there {
                    let _ = std::fs::remove_dir_all(directory);
                }
                return Err(refused(directory, WorkDirProblem::NoRun));
            }
        };
        Ok(Courier {
            party: self,
            job,
            key,
            path: directory.to_owned(),
            turns,
            said,
            messages,
            _lock: lock,
        })
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

impl Courier<'_> {
    /// Who writes a message: those with even numbers are of the side that offers.
    fn is_ours(&self, number: usize) -> bool {
        number.is_multiple_of(2) == self.turns.is_first()
    }

    /// What this side has made of the message before, if it has; `None` is what an offer follows.
    ///
    /// # Errors
    /// Data: a message that is not the peer's, is not of this run, is not its next, or is another than the one that was
    /// taken in its place.
    pub fn made(&self, step: CourierStep, message: Option<&[u8]>) -> Result<Option<&[u8]>, Error> {
        let Some(message) = message else {
            return Ok(self.messages.first().map(Vec::as_slice));
        };
        let number = usize::from(self.read(message)?.number);
        let wrong = |problem| Err(SessionError::Message(problem).into());
        match self.messages.get(number) {
            _ if step == CourierStep::Start && number > 0 => wrong("it is no offer"),
            _ if step != CourierStep::Start && number == 0 => {
                wrong("it is an offer: start with it")
            }
            _ if self.is_ours(number) => wrong("it is of this side itself"),
            Some(taken) if taken == message => Ok(self.messages.get(number + 1).map(Vec::as_slice)),
            Some(_) => wrong("another one was taken in its place, and a run answers once"),
            None if number == self.messages.len() => Ok(None),
            None => wrong("the one before it is missing"),
        }
    }

    fn read<'m>(&self, message: &'m [u8]) -> Result<Envelope<'m>, Error> {
        let (peer, local) = (self.party.peer, self.party.identity.fingerprint());
        Ok(Envelope::read(message, peer, local)?)
    }

    /// Takes the next step. Whatever it makes is kept, and can be had again ([`Courier::made`]).
    ///
    /// # Errors
    /// Those of [`Party::run`], but for the network's, and those of [`Courier::made`]. Usage: the table or the options are
    /// others than in an earlier step.
    pub fn step(
        mut self,
        step: CourierStep,
        message: Option<&[u8]>,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Carried, Error> {
        self.made(step, message)?;
        if let Some(message) = message
            && usize::from(self.read(message)?.number) == self.messages.len()
        {
            self.messages.push(message.to_vec());
        }
        let threads = self.party.resources.threads;
        with_threads(threads, || self.run(step, source, output, observer))?
    }

    fn run(
        mut self,
        step: CourierStep,
        source: &Source,
        output: Option<Destination<'_>>,
        observer: &mut dyn Observer,
    ) -> Result<Carried, Error> {
        let (party, gets) = (self.party, Gets::of(self.job.role, &self.job.terms));
        let finishes = step == CourierStep::Finish;
        let output = output.filter(|_| finishes && gets == Gets::Rows);
        let job = with_column_types(self.job.clone(), source, self.key)?;
        let ready = party.prepare(&job, source, self.key, output, observer)?;
        let Ready {
            file, directory, ..
        } = ready;
        let mut keys = party.read(&job, source, self.key, &directory, None, observer)?;
        if let Some(file) = &file {
            file.check_utf8(source, keys.counts())?;
        }
        let mut heard = Vec::new();
        let offer = self.messages.first().map(Vec::as_slice);
        for (number, message) in self.messages.iter().enumerate() {
            if !self.is_ours(number) {
                let offer = offer.filter(|_| number > 0);
                heard.push(self.read(message)?.open(&self.turns, offer)?);
            }
        }
        let sides = [party.identity.fingerprint(), party.peer];
        let turn = take_turn(
            &self.turns,
            sides,
            heard,
            &self.said,
            &job,
            &mut keys,
            observer,
        )?;
        let (report, said) = match turn {
            Turn::Said(said) => (None, Some(said)),
            Turn::Over { report, said } => {
                warn_of_classes(&report.contract, observer);
                (Some(report), said)
            }
        };
        let usage = |problem: &str| Err(SessionError::Usage(problem.into()).into());
        match (step, &report) {
            (CourierStep::Finish, None) => return usage("the run goes on: answer this message"),
            (CourierStep::Answer, Some(_)) if gets == Gets::Rows => {
                return usage("this message is the last of the peer: finish the run with it");
            }
            _ => {}
        }
        // How long what a receiver says of the matches is, says how many there are.
        let least = report.as_ref().map_or(0, |report| {
            let items = usize::try_from(report.items).unwrap_or(usize::MAX);
            64 + items / 8 + items / 64
        });
        let message = said.map(|said| self.write(&said, least)).transpose()?;
        self.keep()?;
        let outcome = match report {
            Some(report) if finishes || gets != Gets::Rows => {
                Some(party.write(source, file, keys, *report, observer)?)
            }
            _ => None,
        };
        Ok(Carried { message, outcome })
    }

    /// This side's next message.
    fn write(&mut self, said: &[u8], least: usize) -> Result<Vec<u8>, Error> {
        let number = self.messages.len();
        let mut theirs = (0..number).filter(|number| !self.is_ours(*number));
        let first = theirs.next().map(|first| self.read(&self.messages[first]));
        let first = first.transpose()?;
        let earlier = self.messages.first().map(Vec::as_slice).zip(first.as_ref());
        let (identity, peer) = (&self.party.identity, self.party.peer);
        let too_many = |_| SessionError::Message("the run has too many");
        let number = u8::try_from(number).map_err(too_many)?;
        let message = Envelope::write(identity, peer, &self.turns, number, earlier, said, least)?;
        if message.len() as u64 > MAX_MESSAGE {
            return Err(SessionError::Message("it would be longer than 256 MiB").into());
        }
        self.said.push(hash_of_said(said));
        self.messages.push(message.clone());
        Ok(message)
    }

    /// Puts what is kept onto the disk.
    fn keep(&self) -> Result<(), Error> {
        let head = Head {
            peer: self.party.peer.to_string(),
            terms: words(&self.job),
            is_first: self.turns.is_first(),
            seed: *self.turns.seed(),
            said: self.said.clone(),
            lengths: self.messages.iter().map(Vec::len).collect(),
        };
        let key = self
            .party
            .identity
            .derive_key("vesica/1 sealed run by courier");
        let path = self.path.join(STATE);
        let write = || -> std::io::Result<()> {
            let head = Zeroizing::new(serde_json::to_vec(&head)?);
            let length = head.len() + self.messages.iter().map(Vec::len).sum::<usize>() + 8;
            let mut content = Zeroizing::new(Vec::with_capacity(length));
            content.extend_from_slice(&(head.len() as u64).to_le_bytes());
            content.extend_from_slice(&head);
            self.messages
                .iter()
                .for_each(|message| content.extend_from_slice(message));
            let mut file = PrivateFile::create(&path)?;
            seal(MAGIC, &key, &content, &mut file)?;
            file.flush()?;
            file.replace()?;
            // A name that is lost takes back what was said.
            #[cfg(unix)]
            File::open(&self.path)?.sync_all()?;
            Ok(())
        };
        write().map_err(|e| failed(&self.path, &e))
    }
}
