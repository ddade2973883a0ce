//! Whether the sender can tell by its clock how many keys match: a gate, and a table for `docs/reliability.md`.
//!
//! Receiver and sender run over TLS on the loopback interface, with none, half and all of the keys in common, in a random
//! order and at random places of the tables. The sender takes the time that it waits for the receiver once something
//! could depend on the matches: after its masks, until the confirmation or the first frames of the next buckets; in a
//! circuit, from the membership test on, and in the function alone. The server of a published set takes the time of a
//! whole look-up, until the client hangs up. [`permutation`](crate::permutation) compares.
//!
//! Times are those of an optimised build: otherwise they scatter by more than a leak would be.

use std::fmt::Write as _;
use std::io::copy;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use vesica::terms::{BUCKETS_AT_ONCE, MIN_SIZE, REVEAL, SECURITY};
use vesica::{
    ConnectOptions, Counts, Database, Destination, Endpoint, Fingerprint, Identity, Interrupt,
    KeySpec, Listener, LookUp, NoProgress, Observer, Outcome, Party, Progress, ProtocolRequest,
    Publication, Resources, Role, Security, Service, Source, SourceOptions, key_memory,
};

use crate::answers::Question;
use crate::faults::memory_of_buckets;
use crate::permutation::{Block, PERMUTATIONS, gate, p_value};
use crate::trial::{Dice, Variant, is_asked, part, publish, variants};

/// The probability of a false alarm for a protocol is at most the square of this.
const LEVEL: f64 = 0.01;

/// A measurement takes as many blocks as fit into so much time by its first one, but within these bounds.
const DURATION: Duration = Duration::from_secs(30);
const MIN_BLOCKS: u64 = 30;
const MAX_BLOCKS: u64 = 200;

/// The arms: matching keys in halves of all.
const HALVES: [u64; 3] = [0, 1, 2];

/// Where a run has its keys, and how many buckets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    OneBucket,
    /// Keys in memory, one bucket after the other.
    InTurn,
    /// Keys on the disk, of which a bucket is loaded, and what another has told is recorded, while the next runs.
    FromDisk,
    /// Two buckets at once, each on its own connection and threads.
    SideBySide,
}

impl Way {
    /// So many buckets at once.
    fn at_once(self) -> u32 {
        match self {
            Way::OneBucket | Way::InTurn | Way::FromDisk => 1,
            Way::SideBySide => 2,
        }
    }

    /// Two buckets at once pay from four threads on.
    fn threads(self) -> usize {
        match self.at_once() {
            1 => 1,
            several => 2 * several as usize,
        }
    }

    /// The memory of each side, if there are to be several buckets.
    fn memory(self, protocol: &'static str, keys: u64) -> Option<u64> {
        let memory = memory_of_buckets(protocol, [keys; 2], 40, 4, [false; 2]);
        let counts = Counts {
            rows: keys,
            items: keys,
            ..Counts::default()
        };
        let too_few = |memory: &u64| key_memory(*memory, false) < counts.bytes_in_memory();
        match self {
            Way::OneBucket => None,
            Way::InTurn => Some(memory),
            Way::FromDisk => (1..100)
                .map(|part| memory / 100 * (100 - part))
                .find(too_few),
            // For two buckets; less than twice as much, since keys in memory leave more to buckets.
            Way::SideBySide => Some(memory / 2 * 3),
        }
    }
}

/// What a comparison runs.
#[derive(Clone, Copy, Debug)]
struct Setup {
    variant: Variant,
    keys: u64,
    way: Way,
    /// Phases from whose beginning on the sender takes the time.
    late: &'static [&'static str],
    /// How much longer the receiver takes for each match.
    planted: Duration,
}

impl Setup {
    fn new(variant: Variant, keys: u64, way: Way) -> Setup {
        Setup {
            variant,
            keys,
            way,
            late: match way {
                // A side begins a round with a frame of its own, and waits after it.
                Way::SideBySide => &["masks", "attempt"],
                _ => &["masks", "membership", "function"],
            },
            planted: Duration::ZERO,
        }
    }

    /// Only the function of a circuit.
    fn of_function(self) -> Setup {
        let late = &["function"];
        Setup { late, ..self }
    }

    fn question(&self) -> Question {
        self.variant.question
    }

    /// How many matches are asked for at least, of a threshold: half of the keys.
    fn minimum(&self) -> Option<u64> {
        (self.question() == Question::ThresholdMatches).then_some(self.keys / 2)
    }

    /// One run; how long the sender waited.
    fn run(&self, common: u64, dice: &mut Dice) -> Duration {
        let ids = [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
        let [receiver, sender] = &ids;
        let (address, listening) = channel();
        let [ours, theirs] = tables(self.keys, common, dice);
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join("matches.csv");
        let memory = self.way.memory(self.variant.protocol, self.keys);
        let party = |identity, peer: &Identity, endpoint| Party {
            protocol: ProtocolRequest::named(self.variant.protocol),
            resources: Resources {
                memory,
                threads: NonZeroUsize::new(self.way.threads()),
                ..Resources::default()
            },
            ..Party::new(identity, peer.fingerprint(), endpoint)
                .with(&SECURITY, self.variant.security)
                .with(&REVEAL, self.question().reveal())
                .with(&MIN_SIZE, self.minimum().unwrap_or(0))
        };
        let key = &KeySpec::parse("key", &[] as &[&str]).expect("a column");
        let (waited, report) = thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let mut clock = Clock::new(address, self.late);
                let party = party(sender, receiver, Endpoint::Listen("127.0.0.1:0".into()));
                let sent = party.run(Role::Sender, || Ok(&theirs), key, None, &mut clock);
                sent.expect("the sender's run");
                clock.waited
            });
            let connect = Endpoint::Connect(listening.recv().expect("an address").to_string());
            let party = party(receiver, sender, connect);
            let mut slow = Slow::new(self.planted * common as u32, self.late);
            let has_rows = !self.question().reveal().is_value();
            let output = has_rows.then_some(Destination::File(&output));
            let received = party.run(Role::Receiver, || Ok(&ours), key, output, &mut slow);
            let report = received
                .and_then(Outcome::finish)
                .expect("the receiver's run");
            (sending.join().expect("no panic"), report)
        });
        match self.question() {
            Question::Matches => assert_eq!(report.matches, Some(common)),
            Question::ThresholdMatches => {
                let shown = self.minimum().is_some_and(|minimum| minimum <= common);
                assert_eq!(report.matches, shown.then_some(common));
            }
            _ => assert_eq!(report.value.map(|value| value.units), Some(common.into())),
        }
        let contract = &report.contract;
        assert_eq!(contract.buckets >= 4, memory.is_some());
        assert_eq!(contract.get(&BUCKETS_AT_ONCE), self.way.at_once());
        waited
    }
}

/// Two tables of so many keys, of which so many, at random places of both, are in common. All keys are equally long.
fn tables(keys: u64, common: u64, dice: &mut Dice) -> [Source; 2] {
    [0, keys - common].map(|first| {
        let mut numbers: Vec<u64> = (first..first + keys).collect();
        dice.shuffle(&mut numbers);
        let mut text = "key\n".to_owned();
        for number in numbers {
            let _ = writeln!(text, "customer {number:010}");
        }
        Source::from_bytes("table.csv", text.into(), SourceOptions::default()).expect("a table")
    })
}

/// The sender's clock: sums the waits for frames that come in a late phase, or first after it.
struct Clock {
    address: Sender<SocketAddr>,
    phases: &'static [&'static str],
    late: bool,
    armed: bool,
    last: Instant,
    received: u64,
    waited: Duration,
}

impl Clock {
    fn new(address: Sender<SocketAddr>, phases: &'static [&'static str]) -> Clock {
        Clock {
            address,
            phases,
            late: false,
            armed: false,
            last: Instant::now(),
            received: 0,
            waited: Duration::ZERO,
        }
    }
}

impl Observer for Clock {
    fn listening(&mut self, address: SocketAddr) {
        self.address.send(address).expect("somebody who connects");
    }
}

impl Progress for Clock {
    fn phase(&mut self, name: &'static str) {
        self.late = self.phases.contains(&name);
        self.armed |= self.late;
    }

    fn bytes(&mut self, _: u64, received: u64) {
        let now = Instant::now();
        if self.armed && received > self.received {
            self.waited += now - self.last;
            self.armed = self.late;
        }
        (self.last, self.received) = (now, received);
    }
}

/// A receiver that takes so much longer when it has the first frame of a late phase, over all buckets.
struct Slow {
    longer: Duration,
    phases: &'static [&'static str],
    buckets: u32,
    late: bool,
    received: u64,
}

impl Slow {
    fn new(longer: Duration, phases: &'static [&'static str]) -> Slow {
        Slow {
            longer,
            phases,
            buckets: 1,
            late: false,
            received: 0,
        }
    }
}

impl Observer for Slow {}

impl Progress for Slow {
    fn begin(&mut self, _: vesica::Begin, buckets: u32) {
        self.buckets = buckets;
    }

    fn phase(&mut self, name: &'static str) {
        self.late = self.phases.contains(&name);
    }

    fn bytes(&mut self, _: u64, received: u64) {
        if self.late && received > self.received {
            self.late = false;
            // A sleep would be rounded up by more than what is planted.
            let until = Instant::now() + self.longer / self.buckets;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
        self.received = received;
    }
}

/// How many keys are looked up, and published.
const LOOKED_UP: u64 = 1 << 10;

/// A published set that is served, and a client of it.
struct LookUps {
    directory: TempDir,
    client: Identity,
    publisher: Fingerprint,
    server: SocketAddr,
}

impl LookUps {
    /// Does `work` while the set is served.
    fn served<T>(work: impl FnOnce(&LookUps) -> T) -> T {
        let directory = tempfile::tempdir().expect("a directory");
        let [client, publisher] =
            [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
        let publication = Publication {
            identity: publisher.clone(),
            database: directory.path().join("database"),
            rotates: false,
            lambda: 40,
            queries: 1 << 24,
            max_keys: None,
            payload: None,
            memory: None,
            threads: None,
            interrupt: Interrupt::new(),
        };
        let [published, _] = tables(LOOKED_UP, 0, &mut Dice::new(0));
        let key = KeySpec::parse("key", &[] as &[&str]).expect("a column");
        let set = Self::set(&directory);
        let made = publication.run(&published, &key, &set, &mut NoProgress);
        made.expect("a published set");
        let database = Database::open(&publication.database, &publisher).expect("its database");
        let listener = Listener::bind("127.0.0.1:0").expect("a port");
        let service = Service {
            clients: vec![client.fingerprint()],
            set: None,
            quota: 1 << 24,
            connections: 8,
            threads: 1,
            interval: Duration::from_secs(60),
        };
        let options = ConnectOptions {
            wait: Duration::MAX,
            ..ConnectOptions::default()
        };
        let look_ups = LookUps {
            directory,
            client,
            publisher: publisher.fingerprint(),
            server: listener.local_addr(),
        };
        thread::scope(|scope| {
            let serving =
                scope.spawn(|| database.serve(&publisher, &listener, &service, &options, &|_| {}));
            let done = work(&look_ups);
            options.interrupt.raise();
            let served = serving.join().expect("no panic");
            assert!(served.is_err(), "it was interrupted");
            done
        })
    }

    fn set(directory: &TempDir) -> PathBuf {
        directory.path().join("all.vset")
    }

    /// One look-up; how long it was connected.
    fn run(&self, common: u64, dice: &mut Dice) -> Duration {
        let [_, asked] = tables(LOOKED_UP, common, dice);
        let between = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = between.local_addr().expect("an address").to_string();
        let place = tempfile::tempdir().expect("a directory");
        let look_up = LookUp {
            identity: self.client.clone(),
            publisher: self.publisher,
            address,
            set: Self::set(&self.directory),
            fetch: false,
            state: Some(place.path().join("state")),
            connect: ConnectOptions::default(),
            threads: NonZeroUsize::new(1),
            allow_empty: false,
        };
        let key = KeySpec::parse("key", &[] as &[&str]).expect("a column");
        let output = place.path().join("matches.csv");
        thread::scope(|scope| {
            let connected = scope.spawn(|| connected(&between, self.server));
            let found = look_up.run(
                &asked,
                &key,
                Some(Destination::File(&output)),
                &mut NoProgress,
            );
            let found = found.expect("a look-up");
            assert_eq!(found.report().matches, common);
            connected.join().expect("no panic")
        })
    }
}

/// Hands on all that passes between the next client and the server; how long the client was connected.
fn connected(client: &TcpListener, server: SocketAddr) -> Duration {
    let (near, _) = client.accept().expect("a client");
    let start = Instant::now();
    let far = TcpStream::connect(server).expect("the server");
    for stream in [&near, &far] {
        stream.set_nodelay(true).expect("an open stream");
    }
    thread::scope(|scope| {
        scope.spawn(|| copy(&mut &far, &mut &near));
        let sent = copy(&mut &near, &mut &far);
        let connected = start.elapsed();
        sent.expect("an orderly end");
        let _ = far.shutdown(Shutdown::Both);
        connected
    })
}

/// The time of a run in which so many keys match.
type Run<'a> = Box<dyn Fn(u64, &mut Dice) -> Duration + 'a>;

/// One comparison.
struct Comparison<'a> {
    keys: u64,
    waits: &'static str,
    run: Run<'a>,
}

impl<'a> Comparison<'a> {
    fn of_run(setup: Setup, waits: &'static str) -> Comparison<'a> {
        Comparison {
            keys: setup.keys,
            waits,
            run: Box::new(move |common, dice| setup.run(common, dice)),
        }
    }

    fn of_look_ups(look_ups: &'a LookUps) -> Comparison<'a> {
        Comparison {
            keys: LOOKED_UP,
            waits: "until the client hangs up",
            run: Box::new(|common, dice| look_ups.run(common, dice)),
        }
    }

    /// One time of each arm, in a random order.
    fn block(&self, dice: &mut Dice) -> Block<3> {
        let mut order = [0, 1, 2];
        dice.shuffle(&mut order);
        let mut times = [0.0; 3];
        for arm in order {
            times[arm] = (self.run)(self.keys * HALVES[arm] / 2, dice).as_secs_f64();
        }
        times
    }

    fn blocks(&self, dice: &mut Dice) -> Vec<Block<3>> {
        if cfg!(debug_assertions) {
            panic!("times are those of `--release`");
        }
        // The first runs find cold caches, and don't count.
        let start = Instant::now();
        self.block(dice);
        let fit = DURATION.div_duration_f64(start.elapsed()) as u64;
        let count = part(fit.clamp(MIN_BLOCKS, MAX_BLOCKS));
        (0..count).map(|_| self.block(dice)).collect()
    }
}

/// Every comparison of a variant.
fn comparisons<'a>(variant: Variant) -> Vec<Comparison<'a>> {
    let of = |keys: u64| {
        let setup = |way| Setup::new(variant, keys, way);
        let whole = setup(Way::OneBucket);
        match variant.question {
            Question::Matches => vec![
                Comparison::of_run(whole, "one bucket"),
                Comparison::of_run(setup(Way::FromDisk), "buckets from the disk"),
                Comparison::of_run(setup(Way::SideBySide), "buckets side by side"),
            ],
            _ => vec![
                Comparison::of_run(whole, "from the membership test on"),
                Comparison::of_run(whole.of_function(), "in the function"),
                Comparison::of_run(setup(Way::InTurn), "buckets"),
            ],
        }
    };
    [1 << 12, 1 << 16].into_iter().flat_map(of).collect()
}

fn milliseconds(blocks: &[Block<3>]) -> String {
    let median = |arm: usize| {
        let mut times: Vec<f64> = blocks.iter().map(|block| block[arm]).collect();
        times.sort_by(f64::total_cmp);
        format!("{:.3}", times[times.len() / 2] * 1e3)
    };
    [0, 1, 2].map(median).join(" | ")
}

/// What the gate says of all comparisons of something: rows of the table, and those that fail.
#[derive(Default)]
struct Gate {
    table: String,
    leaks: Vec<String>,
}

impl Gate {
    fn judge(&mut self, name: &str, comparisons: &[Comparison<'_>], seed: u64) {
        let (mut dice, mut orders) = (Dice::new(seed), Dice::new(seed + 1));
        let mut medians = vec![String::new(); comparisons.len()];
        let verdicts = gate(comparisons.len(), (LEVEL, PERMUTATIONS), &mut dice, |at| {
            let blocks = comparisons[at].blocks(&mut orders);
            medians[at] = milliseconds(&blocks);
            blocks
        });
        for ((comparison, medians), verdict) in comparisons.iter().zip(medians).zip(verdicts) {
            let p_values: Vec<String> =
                verdict.p_values.iter().map(|p| format!("{p:.4}")).collect();
            let Comparison { keys, waits, .. } = comparison;
            let row = format!(
                "| {name} | {keys} | {waits} | {medians} | {} |",
                p_values.join(", again ")
            );
            let _ = writeln!(self.table, "{row}");
            if verdict.differs {
                self.leaks.push(row);
            }
        }
    }
}

/// The time that the peer waits does not depend on the matches, with its table.
#[test]
#[ignore = "some three minutes for each protocol, on a machine that does nothing else"]
fn the_peers_clock_does_not_tell_the_matches() {
    let mut gate = Gate::default();
    let asked = [
        Variant::matches("compact-dh", Security::Malicious),
        Variant::matches("vole", Security::Malicious),
        Variant::matches("kkrt", Security::SemiHonest),
        Variant::matches("spot-fast", Security::SemiHonest),
        Variant::matches("sparse-okvs", Security::SemiHonest),
        Variant::function("circuit-okvs", Question::Size),
        Variant::function("circuit-okvs", Question::ThresholdMatches),
        Variant::function("circuit-rb-psm2", Question::Size),
    ];
    for variant in variants()
        .into_iter()
        .filter(|variant| asked.contains(variant))
    {
        gate.judge(&variant.name(), &comparisons(variant), 1);
    }
    if is_asked("look-up") {
        LookUps::served(|look_ups| {
            gate.judge("look-up", &[Comparison::of_look_ups(look_ups)], 1);
        });
    }
    let mut table = "| protocol | keys | waits | none | half | all | p |\n".to_owned();
    table.push_str(&"|---".repeat(7));
    publish("timing", &format!("{table}|\n{}", gate.table));
    assert!(
        gate.leaks.is_empty(),
        "the peer's clock tells the matches: {:#?}",
        gate.leaks
    );
}

/// What the gate is worth: it fails where matches take time.
#[test]
#[ignore = "two minutes on a machine that does nothing else"]
fn a_planted_delay_is_caught() {
    let [vole, okvs] = [
        Variant::matches("vole", Security::Malicious),
        Variant::function("circuit-okvs", Question::Size),
    ];
    let caught = |name: &str, comparison: &Comparison<'_>| {
        let mut dice = Dice::new(1);
        let blocks = comparison.blocks(&mut dice);
        let p = p_value(&blocks, PERMUTATIONS, &mut dice);
        let (waits, medians) = (comparison.waits, milliseconds(&blocks));
        println!("{name}, {waits}: {medians} ms, p = {p:.4}");
        assert!(p <= LEVEL / 6.0, "{name}, {waits}: {p}");
    };
    let of = |variant, way| Setup::new(variant, 1 << 12, way);
    for (setup, waits) in [
        (of(vole, Way::OneBucket), "one bucket"),
        (of(vole, Way::FromDisk), "buckets from the disk"),
        (of(okvs, Way::OneBucket).of_function(), "in the function"),
    ] {
        let planted = Duration::from_nanos(100);
        let comparison = Comparison::of_run(Setup { planted, ..setup }, waits);
        caught(&setup.variant.name(), &comparison);
    }
}
