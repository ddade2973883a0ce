//! How long the sender of a run waits for the receiver, and how long it takes after what it has heard last.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use vesica::{
    Budget, Destination, Division, Endpoint, Event, Identity, KeySpec, Learns, Observer, Outcome,
    Party, ProtocolRequest, Resources, Role, Rows, Source, SourceOptions,
};
use vesica_keys::{KeyBytes, Layout};
use vesica_session::terms::{BUCKETS_AT_ONCE, LEARNS, MIN_SIZE, REVEAL, SECURITY};
use vesica_session::{LabelExchange, LabelTerms};

use crate::answers::Question;
use crate::faults::memory_of_buckets;
use crate::tap::{Side, Tap};
use crate::trial::{Dice, Variant};

/// Where a run has its keys, and how many buckets at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
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
        let in_memory = KeyBytes::in_memory(keys, keys, &Layout::default());
        let too_few = |memory: &u64| Budget::new(Some(*memory), Division::Run).keys < in_memory;
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

/// What a side gets besides the receiver's matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum More {
    Nothing,
    /// The sender learns the matches too. It may know how many there are; who looks on must not.
    Both,
    /// And in one order.
    Aligned,
    /// The receiver gets a column of the sender.
    Labels,
}

/// Whose time is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// The receiver's, by the sender.
    Receiver,
    /// The sender's, by somebody between the two: after what the receiver has said last.
    Sender,
}

/// How much longer the side whose time is taken needs for each match.
#[derive(Clone, Copy, Debug)]
pub(super) enum Planted {
    Nothing,
    /// Before it answers the first frame of a late phase, over all buckets.
    InTheRun(Duration),
    /// Before the receiver hangs up.
    AtTheEnd(Duration),
}

/// What a comparison runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) variant: Variant,
    pub(super) keys: u64,
    /// Keys of the sender.
    pub(super) among: u64,
    pub(super) way: Way,
    more: More,
    /// Phases from whose beginning on the sender takes the time.
    late: &'static [&'static str],
    timed: Timed,
    planted: Planted,
}

impl Setup {
    pub(super) fn new(variant: Variant, keys: u64, way: Way) -> Setup {
        Setup {
            variant,
            keys,
            among: keys,
            way,
            late: match way {
                // A side begins a round with a frame of its own, and waits after it.
                Way::SideBySide => &["masks", "attempt"],
                _ => &["masks", "membership", "function"],
            },
            more: More::Nothing,
            timed: Timed::Receiver,
            planted: Planted::Nothing,
        }
    }

    pub(super) fn telling(self, more: More) -> Setup {
        Setup { more, ..self }
    }

    /// A sender with so many keys.
    pub(super) fn among(self, among: u64) -> Setup {
        Setup { among, ..self }
    }

    /// The time of the sender.
    pub(super) fn of_sender(self) -> Setup {
        let timed = Timed::Sender;
        Setup { timed, ..self }
    }

    pub(super) fn planting(self, planted: Planted) -> Setup {
        Setup { planted, ..self }
    }

    /// Only the function of a circuit.
    pub(super) fn of_function(self) -> Setup {
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

    /// The party of one side.
    fn party(&self, role: Role, ids: [&Identity; 2], endpoint: Endpoint) -> Party {
        let [identity, peer] = ids;
        let learns = match self.more {
            More::Both => Learns::Both,
            More::Aligned => Learns::Aligned,
            More::Nothing | More::Labels => Learns::Receiver,
        };
        let labels = match (self.more, role) {
            (More::Labels, Role::Receiver) => LabelExchange::Wanted {
                most_bytes: LABEL,
                most_rows: 1,
            },
            (More::Labels, Role::Sender) => {
                LabelExchange::Offered(LabelTerms::texts(LABEL, vec!["text".to_owned()]))
            }
            _ => LabelExchange::Nothing,
        };
        Party {
            protocol: ProtocolRequest::named(self.variant.protocol),
            resources: Resources {
                memory: self.way.memory(self.variant.protocol, self.keys),
                threads: NonZeroUsize::new(self.way.threads()),
                ..Resources::default()
            },
            labels,
            ..Party::new(identity, peer.fingerprint(), endpoint)
                .with(&SECURITY, self.variant.security)
                .with(&REVEAL, self.question().reveal())
                .with(&MIN_SIZE, self.minimum().unwrap_or(0))
                .with(&LEARNS, learns)
        }
    }

    /// How much longer receiver and sender take for so many matches when they have the first frame of a late phase.
    fn slowness(&self, common: u64) -> [Duration; 2] {
        match (self.planted, self.timed) {
            (Planted::InTheRun(each), Timed::Receiver) => [each * common as u32, Duration::ZERO],
            (Planted::InTheRun(each), Timed::Sender) => [Duration::ZERO, each * common as u32],
            _ => [Duration::ZERO; 2],
        }
    }

    /// Somebody between the sender, who listens there, and the receiver.
    fn tap(&self, address: &str, common: u64) -> Option<Tap> {
        match (self.planted, self.timed) {
            (Planted::AtTheEnd(each), _) => Some(Tap::holding(address, each * common as u32)),
            (_, Timed::Sender) => Some(Tap::before(address)),
            _ => None,
        }
    }

    /// One run; how long the sender waited, until the receiver had hung up, or how long the sender took in the end.
    pub(super) fn run(&self, common: u64, dice: &mut Dice) -> Duration {
        let ids = [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
        let [receiver, sender] = &ids;
        let (address, listening) = channel();
        let rows = match self.more {
            More::Aligned => Rows::Aligned,
            _ => Rows::Matching,
        };
        let [ours, theirs] = tables([self.keys, self.among], common, 1, rows, dice);
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join(OUTPUT);
        let key = &KeySpec::parse("key", &[] as &[&str]).expect("a column");
        let [our_slowness, their_slowness] = self.slowness(common);
        let (waited, report) = thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let mut clock = Clock::new(address, self.late, their_slowness);
                let listen = Endpoint::Listen("127.0.0.1:0".into());
                let party = self.party(Role::Sender, [sender, receiver], listen);
                let sent = party.run(Role::Sender, || Ok(&theirs), key, None, &mut clock);
                let over = Instant::now();
                sent.expect("the sender's run");
                clock.waited + (over - clock.last)
            });
            let address = listening.recv().expect("an address").to_string();
            let tap = self.tap(&address, common);
            let address = tap.as_ref().map_or(address, Tap::address);
            let party = self.party(
                Role::Receiver,
                [receiver, sender],
                Endpoint::Connect(address),
            );
            let mut slow = Slow::new(our_slowness, self.late);
            let has_rows = !self.question().reveal().is_value();
            let output = has_rows.then_some(Destination::File(&output));
            let received = party.run(Role::Receiver, || Ok(&ours), key, output, &mut slow);
            let report = received
                .and_then(Outcome::finish)
                .expect("the receiver's run");
            let waited = sending.join().expect("no panic");
            let took = tap.filter(|_| self.timed == Timed::Sender).map(|tap| {
                assert!(tap.await_end(Side::Server, Duration::from_secs(10)));
                tap.kept(Side::Server)
            });
            (took.unwrap_or(waited), report)
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
        assert_eq!(contract.buckets >= 4, self.way != Way::OneBucket);
        assert_eq!(contract.get(&BUCKETS_AT_ONCE), self.way.at_once());
        waited
    }
}

/// Rows that are compressed take longer to write than to read.
pub(super) const OUTPUT: &str = "matches.csv.gz";

/// Bytes of the column that is handed over.
const LABEL: u32 = 16;

/// Two tables of so many keys each, of which so many, at random places of both, are in common, with several rows each in the
/// second table. All keys are equally long, and so are all rows.
pub(super) fn tables(
    keys: [u64; 2],
    common: u64,
    rows_per_key: usize,
    rows: Rows,
    dice: &mut Dice,
) -> [Source; 2] {
    let [ours, theirs] = keys;
    let ranges = [(0, ours, 1), (ours - common, theirs, rows_per_key)];
    ranges.map(|(first, keys, rows_per_key)| {
        let mut numbers: Vec<u64> = (first..first + keys).collect();
        dice.shuffle(&mut numbers);
        let mut text = "key,text\n".to_owned();
        for number in numbers {
            for _ in 0..rows_per_key {
                let _ = writeln!(text, "customer {number:010},t{number:010}");
            }
        }
        let options = SourceOptions {
            rows,
            ..SourceOptions::default()
        };
        Source::from_bytes("table.csv", text.into(), options).expect("a table")
    })
}

/// The sender's clock: sums the waits for frames that come in a late phase, or first after it. The sender itself can be slow.
struct Clock {
    slow: Slow,
    address: Sender<SocketAddr>,
    phases: &'static [&'static str],
    late: bool,
    armed: bool,
    last: Instant,
    received: u64,
    waited: Duration,
}

impl Clock {
    fn new(
        address: Sender<SocketAddr>,
        phases: &'static [&'static str],
        longer: Duration,
    ) -> Clock {
        Clock {
            slow: Slow::new(longer, phases),
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
    fn event(&mut self, event: Event<'_>) {
        self.slow.event(event);
        match event {
            Event::Listening(address) => self.address.send(address).expect("somebody who connects"),
            Event::Phase(name) => {
                self.late = self.phases.contains(&name);
                self.armed |= self.late;
            }
            Event::Bytes { received, .. } => {
                let now = Instant::now();
                if self.armed && received > self.received {
                    self.waited += now - self.last;
                    self.armed = self.late;
                }
                (self.last, self.received) = (now, received);
            }
            _ => {}
        }
    }
}

/// A side that takes so much longer when it has the first frame of a late phase, over all buckets.
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

impl Observer for Slow {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin { buckets, .. } => self.buckets = buckets,
            Event::Phase(name) => self.late = self.phases.contains(&name),
            Event::Bytes { received, .. } => {
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
            _ => {}
        }
    }
}
