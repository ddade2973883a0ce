//! The total of a job's numbers, which the drivers open once tasks have left their shares.
//!
//! `opening-N.begun` has the attempts whose shares this side has opened, or begun to open, a byte for each bucket; `total` has
//! what it has learnt.

use std::io;
use std::path::PathBuf;

use vesica_files::{PrivateFile, keep_name, read_regular};
use vesica_psi::Output;
use vesica_session::terms::{BUCKET_ATTEMPTS, MIN_SIZE};
use vesica_session::{
    Attempt, BucketShares, Choice, Connection, Error as SessionError, NoChoice, Noise, Opened,
    Report, Role, WatchedChannel, confirm_done, exchange_openings, open_total,
};
use vesica_wire::{Channel, Error as WireError, Limit};
use zeroize::Zeroizing;

use super::marks::{Judge, unreadable};
use super::{Content, SplitJob, cannot};
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

    /// The noise of this side in the total, which is the same in every opening.
    pub(crate) fn noise(&self) -> Result<Noise, Error> {
        let noise = Noise::of_job_vartime(self.contract(), self.role, &self.key);
        noise.map_err(|error| SessionError::from(error).into())
    }

    /// Opens the total with the peer's driver, with this side's noise, unless both have what they get of it.
    pub(crate) fn open_total(
        &self,
        connection: &mut Connection,
        noise: &Noise,
    ) -> Result<Report, Error> {
        let (role, agreement) = (self.role, &self.agreement);
        let learnt = self.learnt()?;
        let ours = Opened {
            choice: self.opened()?,
            is_complete: learnt.is_some(),
        };
        self.meet_driver(connection)?;
        let judge = Judge::new(self, "its drivers met for the total".into());
        let channel = &mut WatchedChannel::new(&mut connection.channel, &judge);
        let tally = self.tally().inspect_err(|_| unreadable(channel))?;
        let told = exchange_openings(channel, role, agreement, tally, ours);
        let (tallies, sides) =
            told.map_err(|error| judge.judged(SessionError::from(error).into()))?;
        let choice = Opened::choose(tallies.each_ref(), sides.each_ref(), self.contract());
        let choice = choice.map_err(|why| match why {
            NoChoice::NoResult(bucket) => self.lacks(bucket, JobProblem::NoResult(bucket)),
            _ => self.problem(JobProblem::OtherChoice),
        })?;
        let opened = match (choice, learnt) {
            (Some(choice), _) => self.open_choice(connection, &choice, noise)?,
            (None, Some(learnt)) => learnt,
            (None, None) => {
                self.keep_total(&Output::Nothing)?;
                Output::Nothing
            }
        };
        Ok(self.report(&opened))
    }

    /// Opens the total of these attempts. It is the one that was learnt before, if one was.
    fn open_choice(
        &self,
        connection: &mut Connection,
        choice: &Choice,
        noise: &Noise,
    ) -> Result<Output, Error> {
        let ready = self.next_opening(choice).and_then(|number| {
            let shares = choice.attempts().map(|attempt| self.shares(attempt));
            Ok((number, shares.collect::<Result<Vec<_>, _>>()?))
        });
        let (number, shares) = ready.inspect_err(|_| {
            let why = "it cannot open the total";
            connection
                .channel
                .abort(&WireError::limit(Limit::Storage, why));
        })?;
        let judge = Judge::new(self, format!("opening {number} of the total"));
        let chosen = (choice, &shares[..], noise);
        let opened = self.open_shares(connection, chosen, number, &judge);
        opened.map_err(|error| judge.judged(error))
    }

    /// Takes this opening, and opens the total of these shares.
    fn open_shares(
        &self,
        connection: &mut Connection,
        chosen: (&Choice, &[BucketShares], &Noise),
        number: u32,
        judge: &Judge<'_>,
    ) -> Result<Output, Error> {
        let run = |error: WireError| Error::from(SessionError::from(error));
        let mut is_taken = false;
        let begin = || {
            self.begin_opening(number, chosen.0).map_err(|e| {
                is_taken = e.kind() == io::ErrorKind::AlreadyExists;
                WireError::limit(Limit::Storage, format!("it cannot open the total: {e}"))
            })
        };
        let (role, agreement) = (self.role, &self.agreement);
        let fingerprints = [connection.local, connection.peer];
        let channel = &mut WatchedChannel::new(&mut connection.channel, judge);
        let opened = open_total(channel, role, agreement, fingerprints, chosen, begin);
        let opened = opened.map_err(|error| match is_taken {
            true => self.problem(JobProblem::InUse),
            false => run(error),
        })?;
        // A sender that learns nothing keeps that the receiver has the total.
        let is_told = role == Role::Receiver || opened != Output::Nothing;
        if is_told {
            self.keep_total(&opened).inspect_err(|error| {
                judge.consider(error);
                let why = match error {
                    Error::Job { .. } => "the total is another one",
                    _ => "it cannot keep the total",
                };
                channel.abort(&WireError::limit(Limit::Storage, why));
            })?;
        }
        let done = confirm_done(channel, role);
        done.inspect_err(|error| channel.abort(error))
            .map_err(run)?;
        if !is_told {
            self.keep_total(&opened)?;
        }
        Ok(opened)
    }

    fn report(&self, learnt: &Output) -> Report {
        Report::of_job(&self.agreement, self.role, learnt)
    }

    pub(crate) fn check_adds_up(&self) -> Result<(), Error> {
        match self.adds_up() {
            true => Ok(()),
            false => Err(self.problem(JobProblem::OfMatches)),
        }
    }

    /// What an attempt has left of the numbers.
    fn shares(&self, attempt: Attempt) -> Result<BucketShares, Error> {
        let damaged = || self.damaged(&self.path(Content::Shares, attempt));
        let content = self.content(Content::Shares, attempt)?;
        let content = content.ok_or_else(damaged)?;
        let words = content.as_chunks::<8>().0.iter();
        let words: Zeroizing<Vec<u64>> =
            Zeroizing::new(words.map(|word| u64::from_le_bytes(*word)).collect());
        BucketShares::from_words(&words).ok_or_else(damaged)
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
                choice.map(Some).map_err(|_| self.damaged(&path))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(cannot(&path, &e)),
        }
    }

    /// How often the total was begun to be opened, if that was the total of these attempts.
    ///
    /// Another process may have opened others since this one told its peer. The first opening says which, and only one
    /// process can take it.
    fn next_opening(&self, choice: &Choice) -> Result<u32, Error> {
        let mut numbers = 0..self.contract().get(&BUCKET_ATTEMPTS);
        let next = numbers.find(|number| !self.opening(*number).exists());
        let next = next.ok_or_else(|| self.problem(JobProblem::NoOpeningLeft))?;
        match next > 0 && self.opened()?.as_ref() != Some(choice) {
            true => Err(self.problem(JobProblem::OtherChoice)),
            false => Ok(next),
        }
    }

    /// Takes an opening, which nobody can then take again, and with it the attempts that count.
    fn begin_opening(&self, number: u32, choice: &Choice) -> io::Result<()> {
        match self.mark(&self.opening(number), choice.encode())? {
            true => Ok(()),
            false => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    /// Keeps what was learnt. Fails if something else was learnt before, by whatever process.
    fn keep_total(&self, learnt: &Output) -> Result<(), Error> {
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
        let path = self.path(Content::Total, TOTAL);
        let sealed = self.sealed(Content::Total, TOTAL, &content);
        match sealed.and_then(PrivateFile::place_new) {
            Ok(()) => keep_name(&path).map_err(|e| cannot(&path, &e))?,
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(cannot(&path, &e)),
            Err(_) if self.learnt()?.as_ref() == Some(learnt) => {}
            Err(_) => return Err(self.problem(JobProblem::OtherTotal)),
        }
        Ok(())
    }

    /// What this side has learnt of the total; `None` if it has not been opened.
    fn learnt(&self) -> Result<Option<Output>, Error> {
        let Some(content) = self.content(Content::Total, TOTAL)? else {
            return Ok(None);
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

    use tempfile::TempDir;
    use vesica_session::terms::{LEARNS, REVEAL, SECURITY};
    use vesica_session::{
        BoundListener, ConnectOptions, Endpoint, Identity, Intent, Learns, Listener, NoProgress,
        Reveal, Security, Tally, Transport, Watch, connect,
    };
    use vesica_tables::{KeySpec, Source, SourceOptions};
    use vesica_wire::{Blame, Kind};

    use super::*;
    use crate::options::noise_request;
    use crate::split_job::marks::{TaskLog, when};
    use crate::{Account, ErrorClass, Party, TaskEndpoint, Tasks};

    const TALLY: Kind = Kind {
        code: 39,
        name: "attempts made",
    };
    const OPENED: Kind = Kind {
        code: 14,
        name: "earlier openings",
    };

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

    fn value(report: &Report) -> i128 {
        report.value.unwrap().units
    }

    fn is(error: &Error, expected: &JobProblem) -> bool {
        matches!(error, Error::Job { problem, .. } if problem == expected)
    }

    /// What becomes of a job at which the peer was caught so.
    fn over(when: &str, problem: &JobProblem) -> JobProblem {
        JobProblem::Over {
            when: when.into(),
            why: format!("it {problem}"),
            class: ErrorClass::Peer,
        }
    }

    /// A job of both sides for the size, which is 10 and which both learn.
    struct Job {
        _place: TempDir,
        identities: [Identity; 2],
        sides: [SplitJob; 2],
    }

    fn party([own, peer]: [&Identity; 2], endpoint: Endpoint) -> Party {
        Party::new(own, peer.fingerprint(), endpoint)
            .with(&REVEAL, Reveal::Size.into())
            .with(&SECURITY, Security::SemiHonest)
            .with(&LEARNS, Learns::Both)
    }

    impl Job {
        fn new() -> Job {
            Job::between([(), ()].map(|()| Identity::generate().unwrap()))
        }

        fn between(identities: [Identity; 2]) -> Job {
            Job::split(identities, |_| ())
        }

        /// A job of sides that differ from the usual ones.
        fn split(identities: [Identity; 2], change: impl Fn(&mut Party) + Sync) -> Job {
            let place = tempfile::tempdir().unwrap();
            let sides = both(|role, endpoint| {
                let [receiver, sender] = &identities;
                let (keys, of) = match role {
                    Role::Receiver => (0..30, [receiver, sender]),
                    Role::Sender => (20..60, [sender, receiver]),
                };
                let rows: String = keys.map(|key| format!("k{key}\n")).collect();
                let table = format!("key\n{rows}").into_bytes();
                let table = Source::from_bytes("table.csv", table, SourceOptions::default());
                let (table, key) = (table.unwrap(), KeySpec::parse("key", &[] as &[&str]));
                let tasks = Tasks {
                    memory: 1 << 30,
                    attempts: 3,
                    valid_for: Duration::from_secs(60),
                };
                let directory = place.path().join(role.to_string());
                let (key, mut party) = (key.unwrap(), party(of, endpoint));
                change(&mut party);
                let split = party.split(
                    role,
                    || Ok(&table),
                    &key,
                    &directory,
                    tasks,
                    &mut NoProgress,
                );
                split.unwrap()
            });
            Job {
                _place: place,
                identities,
                sides,
            }
        }

        fn of(&self, role: Role) -> &SplitJob {
            &self.sides[usize::from(role == Role::Sender)]
        }

        /// The identity of one side, and that of its peer.
        fn identities(&self, role: Role) -> [&Identity; 2] {
            let [receiver, sender] = &self.identities;
            match role {
                Role::Receiver => [receiver, sender],
                Role::Sender => [sender, receiver],
            }
        }

        fn run(&self, number: u32) {
            let attempt = Attempt { number, ..TOTAL };
            both(|role, endpoint| {
                let (endpoint, options) = (TaskEndpoint::Peer(endpoint), ConnectOptions::default());
                let job = self.of(role);
                let run = job.run(attempt, &endpoint, &options, None, &mut NoProgress);
                run.unwrap();
            });
        }

        fn open(&self, role: Role, endpoint: Endpoint) -> Result<Report, Error> {
            party(self.identities(role), endpoint).open_total(self.of(role), &mut NoProgress)
        }

        /// A driver that does as it likes.
        fn meet(&self, role: Role, endpoint: &Endpoint) -> Connection {
            self.meet_for(Intent::Total(role), role, endpoint)
        }

        fn meet_for(&self, intent: Intent, role: Role, endpoint: &Endpoint) -> Connection {
            let [identity, peer] = self.identities(role);
            let transport = Transport::Tls {
                identity,
                peer: peer.fingerprint(),
                intent,
            };
            let options = ConnectOptions::default();
            let met = match endpoint {
                Endpoint::Bound(listener) => listener.take().unwrap().accept(&transport, &options),
                endpoint => connect(endpoint, &transport, &options),
            };
            met.unwrap()
        }

        /// The protocol of an opening with these shares, without what follows.
        fn open_shares(
            &self,
            role: Role,
            connection: &mut Connection,
            number: u8,
            shares: BucketShares,
        ) -> Result<Output, WireError> {
            let agreement = &self.of(role).agreement;
            let fingerprints = [connection.local, connection.peer];
            let choice = Choice::decode(&[number], 1, 3).unwrap();
            let (channel, noise) = (&mut connection.channel, self.of(role).noise().unwrap());
            let chosen = (&choice, &[shares][..], &noise);
            open_total(channel, role, agreement, fingerprints, chosen, || Ok(()))
        }
    }

    /// A job of both sides with noise of this ε.
    fn noisy(epsilon: &str) -> Job {
        let identities = [(), ()].map(|()| Identity::generate().unwrap());
        let place = tempfile::tempdir().unwrap();
        Job::split(identities, |party| {
            let own = place.path().join(party.identity.fingerprint().to_string());
            std::fs::create_dir(&own).unwrap();
            party.account = Some(Account {
                state: Some(own.clone()),
                ..Account::new(own.join("ledger"))
            });
            party.noise = noise_request(Some(epsilon), &[]).unwrap();
        })
    }

    /// As often as it can be opened, also by a process that was killed once the choice was kept, and from an older copy of both
    /// directories.
    #[test]
    fn every_opening_of_a_job_tells_the_same_noisy_total() {
        let job = noisy("0.0001");
        job.run(0);
        let open = || {
            let [near, far] = both(|role, endpoint| job.open(role, endpoint)).map(Result::unwrap);
            let noise = near.noise.as_ref().map(|noise| noise.numbers.len());
            assert_eq!((noise, value(&near)), (Some(1), value(&far)));
            value(&near)
        };
        let forget = |what: &dyn Fn(&SplitJob) -> PathBuf| {
            job.sides
                .iter()
                .for_each(|side| std::fs::remove_file(what(side)).unwrap());
        };
        // Killed between keeping the choice and opening.
        let choice = Choice::decode(&[0], 1, 3).unwrap();
        job.sides
            .iter()
            .for_each(|side| side.begin_opening(0, &choice).unwrap());
        let first = open();
        for number in [2, 0] {
            forget(&|side| side.path(Content::Total, TOTAL));
            if number == 0 {
                (0..3).for_each(|number| forget(&|side| side.opening(number)));
            }
            assert_eq!(open(), first);
            assert!(job.sides.iter().all(|side| side.opening(number).exists()));
        }
        // The noise of a job is its own, and each side's.
        let other = noisy("0.0001");
        let noises = job
            .sides
            .iter()
            .chain(&other.sides)
            .map(|side| side.noise().unwrap().encode());
        let noises: std::collections::BTreeSet<Vec<u8>> =
            noises.map(|noise| noise.to_vec()).collect();
        assert!(noises.len() == 4);
    }

    /// A sender that has opened the total once adds one to its share and says that it lacks the total.
    #[test]
    fn a_total_that_is_opened_again_is_the_same() {
        let job = Job::new();
        let [near, far] = &job.sides;
        job.run(0);
        let open = |role, endpoint| job.open(role, endpoint);
        for report in both(open) {
            assert_eq!(value(&report.unwrap()), 10);
        }
        std::fs::remove_file(far.path(Content::Total, TOTAL)).unwrap();
        let mut shares = far.unseal(Content::Shares, TOTAL).unwrap();
        shares[32] = shares[32].wrapping_add(1);
        far.seal(Content::Shares, TOTAL, &shares).unwrap();
        let [ours, theirs] = both(open).map(Result::unwrap_err);
        let caught = over("opening 1 of the total", &JobProblem::OtherTotal);
        assert!(is(&ours, &caught), "{ours}");
        assert_eq!(ours.class(), ErrorClass::Peer);
        assert_eq!(value(&near.total().unwrap()), 10);
        assert_eq!(theirs.class(), ErrorClass::Resource, "{theirs}");
        // That side opens nothing again, and says why.
        let [ours, theirs] = both(open).map(Result::unwrap_err);
        assert!(is(&ours, &caught), "{ours}");
        assert_eq!(theirs.class(), ErrorClass::Peer, "{theirs}");
    }

    /// The sender meets two processes of the receiver at once. One tells what it has opened, and waits while the other opens
    /// the total; then the sender claims that only the next attempt has a result, or adds one to its share.
    #[test]
    fn two_processes_of_a_side_open_one_total() {
        let caught = over("opening 1 of the total", &JobProblem::OtherTotal);
        for (number, problem) in [(1, JobProblem::OtherChoice), (0, caught)] {
            let job = Job::new();
            let [near, far] = &job.sides;
            job.run(0);
            // As in copies of the directories from before the first attempt had ended.
            for side in &job.sides {
                let bits = side.path(Content::Bits, TOTAL);
                std::fs::remove_file(bits.with_extension("confirmed")).unwrap();
            }
            job.run(1);
            let [late, _] = both(|role, endpoint| {
                if role == Role::Receiver {
                    return job.open(role, endpoint).map(|report| value(&report));
                }
                let connection = &mut job.meet(role, &endpoint);
                far.meet_driver(connection).unwrap();
                let attempt = Attempt {
                    number: number.into(),
                    ..TOTAL
                };
                let mut tally = Tally::new(far.contract());
                tally.add(attempt, true);
                let channel = &mut connection.channel;
                tally.exchange(channel, role, &far.agreement).unwrap();
                for report in both(|role, endpoint| job.open(role, endpoint)) {
                    assert_eq!(value(&report.unwrap()), 10);
                }
                channel.send(OPENED, Opened::default().encode(1)).unwrap();
                channel.flush().unwrap();
                channel.recv(OPENED, 2).unwrap();
                let mut shares = far.shares(attempt).unwrap();
                shares.shares[0] = shares.shares[0].wrapping_add(1);
                let opened = job.open_shares(role, connection, number, shares);
                if opened.is_ok() {
                    let _ = confirm_done(&mut connection.channel, role);
                }
                Ok(0)
            });
            let late = late.unwrap_err();
            assert!(is(&late, &problem), "{late}");
            assert_eq!(value(&near.total().unwrap()), 10);
            assert_eq!(near.opening(1).exists(), number == 0);
        }
    }

    /// A driver says what none says, before an attempt or an opening, or that it has caught this side. The job is over before
    /// it hears so.
    #[test]
    fn a_driver_that_misbehaves_ends_the_job() {
        // What it says too short, or nothing.
        let cases = [
            (false, Some(TALLY)),
            (false, None),
            (true, Some(TALLY)),
            (true, Some(OPENED)),
        ];
        for (for_total, says) in cases {
            let job = Job::new();
            let [near, far] = &job.sides;
            let ended = both(|role, endpoint| {
                let identities = job.identities(role);
                if role == Role::Receiver {
                    let party = party(identities, endpoint);
                    return Some(match for_total {
                        true => party.open_total(near, &mut NoProgress).map(drop),
                        false => party.next_attempts(near, &mut NoProgress).map(drop),
                    });
                }
                let intent = match for_total {
                    true => Intent::Total(role),
                    false => Intent::Attempts(role),
                };
                let mut connection = job.meet_for(intent, role, &endpoint);
                far.meet_driver(&mut connection).unwrap();
                let channel = &mut connection.channel;
                let Some(kind) = says else {
                    channel.abort(&SplitJob::farewell());
                    return None;
                };
                if kind == OPENED {
                    let tally = far.tally().unwrap();
                    tally.exchange(channel, role, &far.agreement).unwrap();
                }
                channel.send(kind, vec![0; 3]).unwrap();
                channel.flush().unwrap();
                channel.recv(kind, 1 << 10).unwrap();
                let told = channel.recv(kind, 1 << 10).unwrap_err();
                assert_eq!(told.blame(), Blame::Peer, "{told}");
                assert!(near.check_not_over().is_err());
                None
            });
            let [Some(Err(error)), None] = ended else {
                panic!("{for_total} {says:?}");
            };
            assert_eq!(error.class(), ErrorClass::Peer, "{error}");
            let is_over = |error: &Error| {
                matches!(
                    error,
                    Error::Job {
                        problem: JobProblem::Over { .. },
                        ..
                    }
                )
            };
            assert!(is_over(&error), "{error}");
            assert!(near.check_not_over().is_err_and(|error| is_over(&error)));
        }
    }

    /// Of two jobs of the same parties one is over, and its driver meets that of the other.
    #[test]
    fn a_driver_of_another_job_ends_none() {
        let over = Job::new();
        let healthy = Job::between(over.identities.clone());
        let judge = Judge::new(&over.sides[1], "attempt 0 at bucket 0".into());
        judge.failed(&SplitJob::farewell(), false);
        let [near, far] = both(|role, endpoint| {
            let party = party(over.identities(role), endpoint);
            let job = match role {
                Role::Receiver => &healthy.sides[0],
                Role::Sender => &over.sides[1],
            };
            party.next_attempts(job, &mut NoProgress).unwrap_err()
        });
        assert_eq!(near.class(), ErrorClass::Contract, "{near}");
        assert_eq!(far.class(), ErrorClass::Peer, "{far}");
        healthy.sides[0].check_not_over().unwrap();
    }

    /// This side is killed while something is at stake, and no attempt is made again.
    #[test]
    fn an_attempt_that_broke_off_at_a_stake_ends_the_job() {
        let of = |bucket, number| Attempt { bucket, number };
        let is_over = |result: Result<(), Error>| {
            let error = result.unwrap_err();
            let over = matches!(
                &error,
                Error::Job {
                    problem: JobProblem::Over { .. },
                    ..
                }
            );
            assert!(over, "{error}");
            // The peer has done nothing, and hears that it is over.
            assert_eq!(error.class(), ErrorClass::Resource);
            let parting = SplitJob::parting(&error);
            assert_eq!(parting.blame(), Blame::Resource);
            assert!(parting.to_string().contains("its job is over"), "{parting}");
        };
        for by_driver in [true, false] {
            let job = Job::new();
            let [near, _] = &job.sides;
            let log = TaskLog {
                attempt: of(0, 0),
                judge: Judge::new(near, "attempt 0 at bucket 0".into()),
            };
            log.at_stake(true).unwrap();
            log.at_stake(false).unwrap();
            near.check_settled().unwrap();
            drop(near.check_open(of(0, 1)).unwrap());
            log.at_stake(true).unwrap();
            // A task at another bucket, which runs meanwhile, goes on.
            near.check_not_over().unwrap();
            match by_driver {
                true => is_over(near.check_settled()),
                false => is_over(near.check_open(of(0, 1)).map(drop)),
            }
            is_over(near.check_not_over());
        }
    }

    /// A task has waited for its peer, and meanwhile another one has ended the job. Of that there may be no more than a name.
    #[test]
    fn a_job_that_ends_while_a_task_waits_begins_no_attempt() {
        let of = |number| Attempt { bucket: 0, number };
        for says_why in [true, false] {
            let job = Job::new();
            let [near, _] = &job.sides;
            drop(near.check_open(of(0)).unwrap());
            match says_why {
                true => {
                    let judge = Judge::new(near, "attempt 0 at bucket 1".into());
                    judge.failed(&SplitJob::farewell(), false);
                }
                false => std::fs::write(near.directory().join("over.json"), "").unwrap(),
            }
            let error = near.begin(of(0)).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Peer, "{error}");
            let begun = near.path(Content::Bits, of(0)).with_extension("begun");
            assert!(!begun.exists());
        }
    }

    /// Two tasks have met their peers before either has begun.
    #[test]
    fn one_of_two_attempts_at_a_bucket_begins() {
        let of = |number| Attempt { bucket: 0, number };
        let job = Job::new();
        let [near, _] = &job.sides;
        let running = near.begin(of(0)).unwrap();
        for number in 0..2 {
            let error = near.begin(of(number)).unwrap_err();
            assert!(is(&error, &JobProblem::Running(0)), "{error}");
            assert_eq!(error.class(), ErrorClass::Resource);
        }
        drop(running);
        let error = near.begin(of(0)).unwrap_err();
        assert!(is(&error, &JobProblem::Attempted(of(0))), "{error}");
        drop(near.begin(of(1)).unwrap());
    }

    fn task_log(job: &SplitJob, attempt: Attempt) -> TaskLog<'_> {
        TaskLog {
            attempt,
            judge: Judge::new(job, when(attempt)),
        }
    }

    /// Another task has ended the job while this one was on its way there.
    #[test]
    fn nothing_is_put_at_stake_in_a_job_that_is_over() {
        let job = Job::new();
        let [near, _] = &job.sides;
        let attempt = Attempt {
            bucket: 0,
            number: 0,
        };
        let log = task_log(near, attempt);
        let (mut ours, mut theirs) = vesica_testing::pair_within(Duration::from_secs(5));
        let mut channel = WatchedChannel::new(&mut ours, &log);
        let other = Judge::new(near, "attempt 0 at bucket 7".into());
        other.failed(&SplitJob::farewell(), false);
        channel.at_stake(true);
        let error = channel.send(TALLY, vec![0]).unwrap_err();
        assert_eq!(error.blame(), Blame::Peer, "{error}");
        assert!(!near.mark_of(attempt, "staked").exists());
        channel.abort(&error);
        assert!(theirs.recv(TALLY, 1).is_err());
        let error = log.judge.judged(SessionError::from(error).into());
        let since = "is of a job that is over since attempt 0 at bucket 7: ";
        assert!(error.to_string().contains(since), "{error}");
    }

    /// What cannot be kept is not put at stake, and the peer is not to blame.
    #[test]
    fn nothing_is_sent_that_puts_at_stake_what_cannot_be_kept() {
        let job = Job::new();
        let [near, _] = &job.sides;
        let attempt = Attempt {
            bucket: 0,
            number: 0,
        };
        let log = task_log(near, attempt);
        let (mut ours, mut theirs) = vesica_testing::pair_within(Duration::from_secs(5));
        let mut channel = WatchedChannel::new(&mut ours, &log);
        std::fs::remove_dir_all(near.directory()).unwrap();
        channel.at_stake(true);
        let error = channel.send(TALLY, vec![0]).unwrap_err();
        assert_eq!(error.blame(), Blame::Resource, "{error}");
        channel.abort(&error);
        assert!(theirs.recv(TALLY, 1).is_err());
        let error = log.judge.judged(SessionError::from(error).into());
        assert_eq!(error.class(), ErrorClass::Resource);
    }

    /// What fails on this side by itself ends the job while something is at stake, and is not the peer's fault.
    #[test]
    fn what_fails_by_itself_at_a_stake_is_not_the_peers_fault() {
        let full = || WireError::limit(Limit::Memory { enough: None }, "no memory");
        let blame = Blame::Resource;
        let says_so = WireError::PeerAborted {
            blame,
            reason: "no memory".into(),
        };
        for (why, says, class) in [
            (
                full(),
                "this side has failed while the peer could see",
                ErrorClass::Resource,
            ),
            (
                WireError::Interrupted,
                "this side was interrupted while the peer could see",
                ErrorClass::Interrupted,
            ),
            (
                WireError::Terminated,
                "this side was told to end by a signal while the peer could see",
                ErrorClass::Interrupted,
            ),
            (
                says_so,
                "the peer could see whether it would be caught cheating, and nothing came after",
                ErrorClass::Peer,
            ),
        ] {
            let job = Job::new();
            let [near, _] = &job.sides;
            let judge = Judge::new(near, "attempt 0 at bucket 0".into());
            judge.failed(&why, true);
            let error = judge.judged(SessionError::from(why).into());
            assert_eq!(error.class(), class, "{error}");
            assert!(error.to_string().contains(says), "{error}");
            let later = near.check_not_over().unwrap_err();
            assert_eq!(later.to_string(), error.to_string());
            let is_peers = class == ErrorClass::Peer;
            assert_eq!(later.class() == ErrorClass::Peer, is_peers);
            assert_eq!(SplitJob::parting(&later).blame() == Blame::Peer, is_peers);
        }
    }

    /// Nobody is left to believe that a mark keeps others from making attempts.
    #[test]
    fn a_job_that_cannot_be_marked_as_over_says_so() {
        let job = Job::new();
        let [near, _] = &job.sides;
        std::fs::remove_dir_all(near.directory()).unwrap();
        let judge = Judge::new(near, "attempt 0 at bucket 0".into());
        let farewell = SplitJob::farewell();
        judge.failed(&farewell, false);
        let error = judge.judged(SessionError::from(farewell).into());
        assert_eq!(error.class(), ErrorClass::Peer);
        assert!(
            error.to_string().contains("that cannot be kept: "),
            "{error}"
        );
        assert!(error.remedy().is_some());
    }

    /// A receiver tells the sender its total and leaves.
    #[test]
    fn a_sender_keeps_what_it_is_told() {
        let job = Job::new();
        let [near, far] = &job.sides;
        job.run(0);
        let [_, left] = both(|role, endpoint| {
            if role == Role::Sender {
                return job.open(role, endpoint).map(|report| value(&report));
            }
            let connection = &mut job.meet(role, &endpoint);
            near.meet_driver(connection).unwrap();
            let (channel, nothing) = (&mut connection.channel, Opened::default());
            let tally = near.tally().unwrap();
            exchange_openings(channel, role, &near.agreement, tally, nothing).unwrap();
            let shares = near.shares(TOTAL).unwrap();
            job.open_shares(role, connection, 0, shares).unwrap();
            connection.channel.flush().unwrap();
            Ok(0)
        });
        let left = left.unwrap_err();
        assert_eq!(left.class(), ErrorClass::Network, "{left}");
        assert_eq!(value(&far.total().unwrap()), 10);
    }
}
