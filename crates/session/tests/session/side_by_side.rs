//! Buckets that run at once, each over a connection of its own, and peers that cheat there.

use std::thread;
use std::time::{Duration, Instant};

use crate::buckets::{MEMORY, dh};
use crate::common::{identity, tls, within};
use vesica_psi::indices_vartime;
use vesica_session::terms::BUCKETS_AT_ONCE;
use vesica_session::{
    Agreed, Agreement, Checkpoint, Connection, Endpoint, Error, Job, KeySet, Learns, Listener,
    MemorySet, NoProgress, Report, Role, agree, agree_on_set, connect,
};
use vesica_testing::{bad_value, digests};
use vesica_wire::{Channel, Error as WireError, Kind};

/// Agrees on a run over TLS, adds the further connections in this order, and runs; the receiver's job and set come first.
/// `further` has the connection, and its place.
pub(crate) fn side_by_side(
    [ours, theirs]: [&Job; 2],
    [near, far]: [&mut dyn KeySet; 2],
    further: impl Fn(&mut Agreed, Connection, usize) -> Result<(), Error> + Sync,
) -> [Result<Report, Error>; 2] {
    let (us, them) = (identity(), identity());
    let (accepts, connects) = (tls(&us, them.fingerprint()), tls(&them, us.fingerprint()));
    let options = within(20.0);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let run = |job: &Job, set: &mut dyn KeySet, meet: &dyn Fn() -> Connection, add: &Add<'_>| {
        let mut agreed = agree_on_set(meet(), job, set, &mut NoProgress)?;
        for place in 0..agreed.missing_connections() {
            add(&mut agreed, meet(), place)?;
        }
        agreed.run(job, set, &mut NoProgress)
    };
    thread::scope(|scope| {
        let far = scope.spawn(|| {
            let meet = || connect(&address, &connects, &options).unwrap();
            run(theirs, far, &meet, &further)
        });
        let meet = || listener.accept(&accepts, &options).unwrap();
        let accepted = |agreed: &mut Agreed, more, _| agreed.add_accepted(more);
        let near = run(ours, near, &meet, &accepted);
        [near, far.join().unwrap()]
    })
}

type Add<'a> = dyn Fn(&mut Agreed, Connection, usize) -> Result<(), Error> + Sync + 'a;

#[test]
fn buckets_side_by_side_find_what_one_run_finds() {
    for (at_once, expected) in [([4, 4], 4), ([64, 3], 3), ([1, 4], 1)] {
        let job = |role, at_once: u32| {
            dh(role, Some(4 * MEMORY), Learns::Both).with(&BUCKETS_AT_ONCE, at_once)
        };
        let jobs = [
            job(Role::Receiver, at_once[0]),
            job(Role::Sender, at_once[1]),
        ];
        let sets = [digests(0..1000), digests((600..1700).rev())];
        let [mut ours, mut theirs] = sets.map(|digests| MemorySet::new(digests).unwrap());
        let add = |agreed: &mut Agreed, more, _| agreed.add_connected(more);
        let results = side_by_side([&jobs[0], &jobs[1]], [&mut ours, &mut theirs], add);
        let [received, sent] = results.map(Result::unwrap);
        let contract = &received.contract;
        assert_eq!(*contract, sent.contract);
        assert_eq!(contract.get(&BUCKETS_AT_ONCE), expected);
        assert!(contract.buckets >= 2 * expected);
        let places = |set: &MemorySet| indices_vartime(set.matched().unwrap());
        assert_eq!(places(&ours), (600..1000).collect::<Vec<_>>());
        assert_eq!(places(&theirs), (700..1100).collect::<Vec<_>>());
        // What passes over all connections counts.
        assert_eq!(received.bytes_sent, sent.bytes_received);
        assert_eq!(received.bytes_received, sent.bytes_sent);
        let of = |phase: &str| {
            let mut phases = received.phases.iter();
            phases.find(|of| of.phase == phase).map(|of| of.bytes_sent)
        };
        let each = (45 + 69 + 37 + 37) * u64::from(contract.buckets);
        assert_eq!(
            of("attempt").unwrap_or(0),
            if expected > 1 { each } else { 0 }
        );
    }
}

const BUCKET: Kind = Kind {
    code: 19,
    name: "bucket",
};
const CONNECTION: Kind = Kind {
    code: 30,
    name: "connection of a run",
};

/// What a sender that cheats has once the contract is agreed.
struct Cheat<'a> {
    agreement: &'a Agreement,
    main: Connection,
    meet: &'a dyn Fn() -> Connection,
}

impl Cheat<'_> {
    fn job(&self) -> [u8; 32] {
        *blake3::keyed_hash(&self.agreement.params.session, b"vesica/1 job").as_bytes()
    }

    /// A further connection that says that it is this one.
    fn further(&self, job: [u8; 32], number: u32) -> Connection {
        let mut connection = (self.meet)();
        let name = [&job[..], &number.to_le_bytes()].concat();
        connection.channel.send(CONNECTION, name).unwrap();
        connection.channel.flush().unwrap();
        connection
    }

    /// All connections, honestly.
    fn connected(self) -> Vec<Connection> {
        let mut all: Vec<_> = (1..4)
            .map(|number| self.further(self.job(), number))
            .collect();
        all.insert(0, self.main);
        all
    }
}

/// Says which attempt this is.
fn begin(connection: &mut Connection, job: [u8; 32], bucket: u32, attempt: u32) {
    let name = [&job[..], &bucket.to_le_bytes(), &attempt.to_le_bytes()].concat();
    connection.channel.send(BUCKET, name).unwrap();
    connection.channel.flush().unwrap();
}

/// What an honest receiver makes of a sender that cheats. What it returns stays open until then.
fn cheated(cheat: impl FnOnce(Cheat<'_>) -> Vec<Connection> + Send) -> Error {
    let (us, them) = (identity(), identity());
    let (near, far) = (tls(&us, them.fingerprint()), tls(&them, us.fingerprint()));
    let options = within(20.0);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let job = |role| dh(role, Some(4 * MEMORY), Learns::Receiver).with(&BUCKETS_AT_ONCE, 4);
    thread::scope(|scope| {
        let cheating = scope.spawn(|| {
            let meet = || connect(&address, &far, &options).unwrap();
            let (mut main, job) = (meet(), job(Role::Sender));
            let (local, peer) = (main.local, main.peer);
            let kept = Checkpoint::Nothing;
            let agreement = agree(&mut main.channel, &job, 1100, &kept, local, peer).unwrap();
            cheat(Cheat {
                agreement: &agreement,
                main,
                meet: &meet,
            })
        });
        let own = digests(0..1000);
        let mut set = MemorySet::new(&own).unwrap();
        let meet = || listener.accept(&near, &options).unwrap();
        let job = job(Role::Receiver);
        let mut agreed = agree_on_set(meet(), &job, &set, &mut NoProgress).unwrap();
        let mut accepted = Ok(());
        while accepted.is_ok() && agreed.missing_connections() > 0 {
            accepted = agreed.add_accepted(meet());
        }
        let ran = accepted.and_then(|()| agreed.run(&job, &mut set, &mut NoProgress));
        let error = ran.unwrap_err();
        assert!(set.matched().is_none());
        drop(cheating.join().unwrap());
        error
    })
}

/// What a run ends with that was cheated.
enum Ends {
    Differs(&'static str),
    Misbehaved,
    Closed,
}

use Ends::{Closed, Differs, Misbehaved};

/// A sender that cheats, and what becomes of the receiver.
struct Case {
    what: &'static str,
    cheat: fn(Cheat<'_>) -> Vec<Connection>,
    ends: Ends,
}

const fn case(what: &'static str, cheat: fn(Cheat<'_>) -> Vec<Connection>, ends: Ends) -> Case {
    Case { what, cheat, ends }
}

/// Further connections with these numbers.
fn numbered(cheat: Cheat<'_>, numbers: &[u32]) -> Vec<Connection> {
    let job = cheat.job();
    let further = numbers.iter().map(|number| cheat.further(job, *number));
    let mut all: Vec<_> = further.collect();
    all.push(cheat.main);
    all
}

/// All connections, of which one begins with this attempt of this job.
fn begun(
    cheat: Cheat<'_>,
    place: usize,
    job: Option<[u8; 32]>,
    attempt: [u32; 2],
) -> Vec<Connection> {
    let job = job.unwrap_or_else(|| cheat.job());
    let mut all = cheat.connected();
    begin(&mut all[place], job, attempt[0], attempt[1]);
    all
}

/// Each is a row of the table in `docs/reliability.md`.
static CASES: [Case; 8] = [
    case(
        "a further connection of another run",
        |cheat| vec![cheat.further([3; 32], 1), cheat.main],
        Differs("job"),
    ),
    case(
        "a further connection twice",
        |cheat| numbered(cheat, &[2, 2]),
        Misbehaved,
    ),
    case(
        "a further connection that is the first",
        |cheat| numbered(cheat, &[0]),
        Misbehaved,
    ),
    case(
        "more connections than agreed",
        |cheat| numbered(cheat, &[4]),
        Misbehaved,
    ),
    case(
        "the bucket of another connection",
        |cheat| begun(cheat, 0, None, [1, 0]),
        Differs("bucket"),
    ),
    case(
        "an attempt that is not agreed",
        |cheat| begun(cheat, 2, None, [2, 1]),
        Differs("attempt"),
    ),
    case(
        "the bucket of another job",
        |cheat| begun(cheat, 3, Some([3; 32]), [3, 0]),
        Differs("job"),
    ),
    // The others would wait for their peers as long as a bucket may take.
    case(
        "one connection closed while others run",
        |cheat| {
            let mut all = cheat.connected();
            drop(all.remove(2));
            all
        },
        Closed,
    ),
];

#[test]
fn a_sender_that_cheats_on_one_connection_ends_the_run_on_all() {
    let run = |Case { what, cheat, ends }: &Case| {
        let begun = Instant::now();
        let error = cheated(cheat);
        let number = bad_value("number of a connection", "out of range, or taken");
        let is_expected = match (ends, &error) {
            (Differs(expected), Error::Run(WireError::ContractDiffers { field, .. })) => {
                field == expected
            }
            (Misbehaved, Error::Run(WireError::PeerMisbehaved(found))) => *found == number,
            (Closed, Error::Run(WireError::Closed)) => true,
            _ => false,
        };
        assert!(is_expected, "{what}: {error:?}");
        assert!(begun.elapsed() < Duration::from_secs(15), "{what}");
    };
    thread::scope(|scope| {
        for case in &CASES {
            scope.spawn(move || run(case));
        }
    });
}

#[test]
fn the_cases_are_those_of_the_documentation() {
    let text = include_str!("../../../../docs/reliability.md");
    let (_, table) = text.split_once("<!-- begin side-by-side -->\n").unwrap();
    let (table, _) = table.split_once("<!-- end side-by-side -->").unwrap();
    let rows = table.lines().skip(2);
    let names: Vec<_> = rows
        .map(|row| row.split(" | ").next().unwrap().trim_start_matches("| "))
        .collect();
    assert_eq!(names, CASES.each_ref().map(|case| case.what));
}
