//! The total of a job's numbers, which the drivers open once tasks have left their shares.
//!
//! `opening-N.begun` has the attempts whose shares this side has opened, or begun to open, a byte for each bucket; `total` has
//! what it has learnt.

use std::io::{self, Write};
use std::path::PathBuf;

use vesica_files::{PrivateFile, read_regular, sync_name};
use vesica_primitives::sealed::Unreadable;
use vesica_psi::Output;
use vesica_session::terms::{BUCKET_ATTEMPTS, MIN_SIZE};
use vesica_session::{
    Attempt, BucketShares, Choice, Connection, Error as SessionError, NoChoice, Opened, Report,
    Role, confirm_done, exchange_openings, open_total,
};
use vesica_wire::{Channel, Error as WireError, Limit};
use zeroize::Zeroizing;

use super::{Content, SplitJob, cannot, storage};
use crate::{Error, JobProblem};

/// In the place of an attempt, for the total of all.
const TOTAL: Attempt = Attempt {
    bucket: 0,
    number: 0,
};

impl SplitJob {
    /// What this side has learnt of the numbers, once it has opened their total with the peer's driver
    /// ([`Party::open_total`](crate::Party::open_total)); nothing but that on a sender that is not told.
    ///
    /// # Errors
    /// Job: there is no total yet, or the job is for matches. Resource: it cannot be read.
    pub fn total(&self) -> Result<Report, Error> {
        self.check_adds_up()?;
        let learnt = self.learnt()?;
        let learnt = learnt.ok_or_else(|| self.problem(JobProblem::NoTotal))?;
        Ok(self.report(&learnt))
    }

    /// Opens the total with the peer's driver, unless both have what they get of it.
    pub(crate) fn open_total(&self, connection: &mut Connection) -> Result<Report, Error> {
        self.check_adds_up()?;
        let (role, agreement) = (self.role, &self.agreement);
        let learnt = self.learnt()?;
        let ours = Opened {
            choice: self.opened()?,
            is_complete: learnt.is_some(),
        };
        connection.expect_driver();
        let channel = &mut connection.channel;
        let told = exchange_openings(channel, role, agreement, self.tally(), ours);
        let (tallies, sides) = told.map_err(SessionError::from)?;
        let choice = Opened::choose(tallies.each_ref(), sides.each_ref(), self.contract());
        let choice = choice.map_err(|why| {
            self.problem(match why {
                NoChoice::NoResult(bucket) => JobProblem::NoResult(bucket),
                _ => JobProblem::OtherChoice,
            })
        })?;
        let opened = match (choice, learnt) {
            (Some(choice), learnt) => self.open_choice(connection, &choice, learnt.as_ref())?,
            (None, Some(learnt)) => learnt,
            (None, None) => {
                self.keep_total(&Output::Nothing)
                    .map_err(SessionError::from)?;
                Output::Nothing
            }
        };
        Ok(self.report(&opened))
    }

    /// Opens the total of these attempts. It is the one that was `learnt` before, if one was.
    fn open_choice(
        &self,
        connection: &mut Connection,
        choice: &Choice,
        learnt: Option<&Output>,
    ) -> Result<Output, Error> {
        let run = |error: WireError| Error::from(SessionError::from(error));
        let ready = self.next_opening().and_then(|number| {
            let shares = choice.attempts().map(|attempt| self.shares(attempt));
            Ok((number, shares.collect::<Result<Vec<_>, _>>()?))
        });
        let (number, shares) = ready.inspect_err(|_| {
            let why = "it cannot open the total";
            connection
                .channel
                .abort(&WireError::limit(Limit::Storage, why));
        })?;
        let begin = || self.begin_opening(number, choice);
        let (role, agreement) = (self.role, &self.agreement);
        let fingerprints = [connection.local, connection.peer];
        let (channel, chosen) = (&mut connection.channel, (choice, &shares[..]));
        let opened = open_total(channel, role, agreement, fingerprints, chosen, begin);
        let opened = opened.map_err(run)?;
        if learnt.is_some_and(|learnt| *learnt != opened) {
            channel.abort(&WireError::limit(Limit::Input, "the total is another one"));
            return Err(self.problem(JobProblem::OtherTotal));
        }
        let keep = || self.keep_total(&opened);
        let kept = match role {
            Role::Receiver => keep().and_then(|()| confirm_done(channel, role)),
            Role::Sender => confirm_done(channel, role).and_then(|()| keep()),
        };
        kept.inspect_err(|error| channel.abort(error))
            .map_err(run)?;
        Ok(opened)
    }

    fn report(&self, learnt: &Output) -> Report {
        Report::of_job(&self.agreement, self.role, learnt)
    }

    fn check_adds_up(&self) -> Result<(), Error> {
        match self.adds_up() {
            true => Ok(()),
            false => Err(self.problem(JobProblem::OfMatches)),
        }
    }

    /// What an attempt has left of the numbers.
    fn shares(&self, attempt: Attempt) -> Result<BucketShares, Error> {
        let unreadable = |why| cannot(&self.path(Content::Shares, attempt), &why);
        let content = self.unseal(Content::Shares, attempt);
        let content = content.map_err(|e| unreadable(io::Error::other(e)))?;
        let (name, shares) = content
            .split_first_chunk::<32>()
            .ok_or_else(|| unreadable(io::ErrorKind::UnexpectedEof.into()))?;
        let shares = shares.as_chunks::<8>().0.iter();
        Ok(BucketShares {
            attempt: *name,
            shares: Zeroizing::new(shares.map(|share| u64::from_le_bytes(*share)).collect()),
        })
    }

    /// The file that says that the total was begun to be opened.
    fn opening(&self, number: u32) -> PathBuf {
        self.directory.join(format!("opening-{number}.begun"))
    }

    /// The attempts that this side has opened, or begun to open.
    fn opened(&self) -> Result<Option<Choice>, Error> {
        let path = self.opening(0);
        let contract = self.contract();
        let most = u64::from(contract.buckets);
        match read_regular(&path, most) {
            Ok(bytes) => {
                let attempts = contract.get(&BUCKET_ATTEMPTS);
                let choice = Choice::decode(&bytes, contract.buckets, attempts);
                choice
                    .map(Some)
                    .map_err(|e| cannot(&path, &io::Error::other(e)))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(cannot(&path, &e)),
        }
    }

    /// How often the total was begun to be opened.
    fn next_opening(&self) -> Result<u32, Error> {
        let mut numbers = 0..self.contract().get(&BUCKET_ATTEMPTS);
        let next = numbers.find(|number| !self.opening(*number).exists());
        next.ok_or_else(|| self.problem(JobProblem::NoOpeningLeft))
    }

    /// Takes an opening, which nobody can then take again, and with it the attempts that count.
    fn begin_opening(&self, number: u32, choice: &Choice) -> Result<(), WireError> {
        let path = self.opening(number);
        let taken = || {
            let mut file = PrivateFile::create(&path)?;
            file.write_all(choice.encode())?;
            file.place_new()
        };
        taken().map_err(storage)?;
        sync_name(&path);
        Ok(())
    }

    fn keep_total(&self, learnt: &Output) -> Result<(), WireError> {
        let count = self.contract().numbers().len();
        let (what, values) = match learnt {
            Output::Values(values) => (1, &values[..]),
            Output::Below(_) => (2, &[][..]),
            _ => (0, &[][..]),
        };
        let mut content = Zeroizing::new(Vec::with_capacity(1 + 16 * count));
        content.push(what);
        content.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        content.resize(1 + 16 * count, 0);
        self.seal(Content::Total, TOTAL, &content).map_err(storage)
    }

    /// What this side has learnt of the total; `None` if it has not been opened.
    fn learnt(&self) -> Result<Option<Output>, Error> {
        let path = self.path(Content::Total, TOTAL);
        let content = match self.unseal(Content::Total, TOTAL) {
            Ok(content) => content,
            Err(Unreadable::Io(e)) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(cannot(&path, &io::Error::other(e))),
        };
        let values = content.get(1..).unwrap_or_default().as_chunks::<16>().0;
        let values = values.iter().map(|value| i128::from_le_bytes(*value));
        Ok(Some(match content.first() {
            Some(1) => Output::Values(values.collect()),
            Some(2) => Output::Below(self.contract().get(&MIN_SIZE)),
            _ => Output::Nothing,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use vesica_session::terms::{LEARNS, REVEAL, SECURITY};
    use vesica_session::{
        BoundListener, ConnectOptions, Endpoint, Identity, Learns, Listener, NoProgress, Reveal,
        Security,
    };
    use vesica_tables::{KeySpec, Source, SourceOptions};

    use super::*;
    use crate::{ErrorClass, Party, TaskEndpoint, Tasks};

    /// Both sides at the same time, of which the receiver listens.
    fn both<T: Send>(run: impl Fn(Role, Endpoint) -> T + Sync) -> [T; 2] {
        let listener = BoundListener::new(Listener::bind("127.0.0.1:0").unwrap());
        let connects = Endpoint::Connect(listener.local_addr().to_string());
        thread::scope(|scope| {
            let far = scope.spawn(|| run(Role::Sender, connects));
            let near = run(Role::Receiver, Endpoint::Bound(listener));
            [near, far.join().unwrap()]
        })
    }

    /// A sender that has opened the total once, where both learn it, adds one to its share and says that it lacks the total.
    #[test]
    fn a_total_that_is_opened_again_is_the_same() {
        let place = tempfile::tempdir().unwrap();
        let identities = [(), ()].map(|()| Identity::generate().unwrap());
        let party = |role: Role, endpoint| {
            let [receiver, sender] = &identities;
            let (own, peer) = match role {
                Role::Receiver => (receiver, sender),
                Role::Sender => (sender, receiver),
            };
            Party::new(own, peer.fingerprint(), endpoint)
                .with(&REVEAL, Reveal::Size.into())
                .with(&SECURITY, Security::SemiHonest)
                .with(&LEARNS, Learns::Both)
        };
        let [near, far] = both(|role, endpoint| {
            let keys = match role {
                Role::Receiver => 0..30,
                Role::Sender => 20..60,
            };
            let rows: String = keys.map(|key| format!("k{key}\n")).collect();
            let table = format!("key\n{rows}").into_bytes();
            let table = Source::from_bytes("table.csv", table, SourceOptions::default());
            let key = KeySpec::parse("key", &[] as &[&str]).unwrap();
            let directory = place.path().join(role.to_string());
            let tasks = Tasks {
                memory: 1 << 30,
                attempts: 3,
                valid_for: Duration::from_secs(60),
            };
            let party = party(role, endpoint);
            let split = party.split(
                role,
                &table.unwrap(),
                &key,
                &directory,
                tasks,
                &mut NoProgress,
            );
            split.unwrap()
        });
        let job = |role| match role {
            Role::Receiver => &near,
            Role::Sender => &far,
        };
        both(|role, endpoint| {
            let (endpoint, options) = (TaskEndpoint::Peer(endpoint), ConnectOptions::default());
            job(role)
                .run(TOTAL, &endpoint, &options, None, &mut NoProgress)
                .unwrap();
        });
        let open = |role, endpoint| party(role, endpoint).open_total(job(role), &mut NoProgress);
        let value = |report: &Report| report.value.unwrap().units;
        for report in both(open) {
            assert_eq!(value(&report.unwrap()), 10);
        }
        std::fs::remove_file(far.path(Content::Total, TOTAL)).unwrap();
        let mut shares = far.unseal(Content::Shares, TOTAL).unwrap();
        shares[32] = shares[32].wrapping_add(1);
        far.seal(Content::Shares, TOTAL, &shares).unwrap();
        let [ours, theirs] = both(open).map(Result::unwrap_err);
        let is_other = |error: &Error| {
            matches!(
                error,
                Error::Job {
                    problem: JobProblem::OtherTotal,
                    ..
                }
            )
        };
        assert!(
            is_other(&ours) && ours.class() == ErrorClass::Peer,
            "{ours}"
        );
        assert_eq!(theirs.class(), ErrorClass::Resource, "{theirs}");
        assert_eq!(value(&near.total().unwrap()), 10);
        assert!(far.learnt().unwrap().is_none());
    }
}
