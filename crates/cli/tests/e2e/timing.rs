//! Whether the sender can tell by its clock how many keys match: a gate, and a table for `docs/reliability.md`.
//!
//! Receiver and sender run over TLS on the loopback interface, with none, half and all of the keys in common, in a random
//! order and at random places of the tables. The sender takes the time that it waits for the receiver once something
//! could depend on the matches: after its masks, until the confirmation or the first frame of the next bucket; in a
//! circuit, from the membership test on, and in the function alone. [`permutation`](crate::permutation) compares.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use vesica::terms::{REVEAL, SECURITY};
use vesica::{
    Endpoint, Identity, KeySpec, Observer, Outcome, Party, Progress, ProtocolRequest, Resources,
    Role, Security, Source, SourceOptions,
};

use crate::answers::Question;
use crate::faults::several_buckets;
use crate::permutation::{Block, PERMUTATIONS, gate, p_value};
use crate::trial::{Dice, Variant, part, publish, variants};

/// The probability of a false alarm for a protocol is at most the square of this.
const LEVEL: f64 = 0.01;

/// A measurement takes as many blocks as fit into so much time by its first one, but within these bounds.
const DURATION: Duration = Duration::from_secs(40);
const MIN_BLOCKS: u64 = 30;
const MAX_BLOCKS: u64 = 200;

/// The arms: matching keys in halves of all.
const HALVES: [u64; 3] = [0, 1, 2];

/// What a comparison runs.
#[derive(Clone, Copy, Debug)]
struct Setup {
    variant: Variant,
    keys: u64,
    /// The memory of each side, if that makes several buckets.
    memory: Option<u64>,
    /// Phases from whose beginning on the sender takes the time.
    late: &'static [&'static str],
    /// How much longer the receiver takes for each match.
    planted: Duration,
}

impl Setup {
    fn new(variant: Variant, keys: u64, several: bool) -> Setup {
        let protocol = variant.protocol;
        Setup {
            variant,
            keys,
            memory: several.then(|| several_buckets(protocol, [keys; 2], 40)),
            late: &["masks", "membership", "function"],
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

    /// One time of each arm, in a random order.
    fn block(&self, dice: &mut Dice) -> Block<3> {
        let mut order = [0, 1, 2];
        dice.shuffle(&mut order);
        let mut times = [0.0; 3];
        for arm in order {
            times[arm] = self.run(self.keys * HALVES[arm] / 2, dice).as_secs_f64();
        }
        times
    }

    fn blocks(&self, dice: &mut Dice) -> Vec<Block<3>> {
        // The first runs find cold caches, and don't count.
        let start = Instant::now();
        self.block(dice);
        let fit = DURATION.div_duration_f64(start.elapsed()) as u64;
        let count = part(fit.clamp(MIN_BLOCKS, MAX_BLOCKS));
        (0..count).map(|_| self.block(dice)).collect()
    }

    /// One run; how long the sender waited.
    fn run(&self, common: u64, dice: &mut Dice) -> Duration {
        let ids = [Identity::generate(), Identity::generate()].map(|id| id.expect("randomness"));
        let [receiver, sender] = &ids;
        let (address, listening) = channel();
        let [ours, theirs] = tables(self.keys, common, dice);
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join("matches.csv");
        let party = |identity, peer: &Identity, endpoint| Party {
            protocol: ProtocolRequest::named(self.variant.protocol),
            resources: Resources {
                memory: self.memory,
                threads: NonZeroUsize::new(1),
                ..Resources::default()
            },
            ..Party::new(identity, peer.fingerprint(), endpoint)
                .with(&SECURITY, self.variant.security)
                .with(&REVEAL, self.question().reveal())
        };
        let key = &KeySpec::parse("key", &[] as &[&str]).expect("a column");
        let (waited, report) = thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let mut clock = Clock::new(address, self.late);
                let party = party(sender, receiver, Endpoint::Listen("127.0.0.1:0".into()));
                let sent = party.run(Role::Sender, &theirs, key, None, &mut clock);
                sent.expect("the sender's run");
                clock.waited
            });
            let connect = Endpoint::Connect(listening.recv().expect("an address").to_string());
            let party = party(receiver, sender, connect);
            let mut slow = Slow::new(self.planted * common as u32, self.late);
            let output = (self.question() == Question::Matches).then_some(&*output);
            let received = party.run(Role::Receiver, &ours, key, output, &mut slow);
            let report = received
                .and_then(Outcome::finish)
                .expect("the receiver's run");
            (sending.join().expect("no panic"), report)
        });
        match self.question() {
            Question::Matches => assert_eq!(report.matches, Some(common)),
            _ => assert_eq!(report.value.map(|value| value.units), Some(common.into())),
        }
        assert_eq!(report.contract.buckets >= 4, self.memory.is_some());
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

/// Every comparison of a variant, with its name.
fn setups(variant: Variant) -> Vec<(Setup, &'static str)> {
    let of = |keys: u64| {
        let whole = Setup::new(variant, keys, false);
        match variant.question {
            Question::Matches => [
                (whole, "one bucket"),
                (Setup::new(variant, keys, true), "four buckets or more"),
            ],
            _ => [
                (whole, "from the membership test on"),
                (whole.of_function(), "in the function"),
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

/// The time that the sender waits does not depend on the matches, with its table.
#[test]
#[ignore = "minutes on a machine that does nothing else"]
fn the_senders_clock_does_not_tell_the_matches() {
    let (mut dice, mut orders) = (Dice::new(1), Dice::new(2));
    let mut table = "| protocol | keys | waits | none | half | all | p |\n".to_owned();
    table.push_str(&"|---".repeat(7));
    table.push_str("|\n");
    let mut leaks = Vec::new();
    let asked = [
        Variant::matches("compact-dh", Security::Malicious),
        Variant::matches("vole", Security::Malicious),
        Variant::matches("kkrt", Security::SemiHonest),
        Variant::matches("spot-fast", Security::SemiHonest),
        Variant::matches("sparse-okvs", Security::SemiHonest),
        Variant::function("circuit-okvs", Question::Size),
        Variant::function("circuit-rb-psm2", Question::Size),
    ];
    for variant in variants()
        .into_iter()
        .filter(|variant| asked.contains(variant))
    {
        let setups = setups(variant);
        let mut medians = vec![String::new(); setups.len()];
        let verdicts = gate(setups.len(), (LEVEL, PERMUTATIONS), &mut dice, |at| {
            let blocks = setups[at].0.blocks(&mut orders);
            medians[at] = milliseconds(&blocks);
            blocks
        });
        for (((setup, waits), medians), verdict) in setups.iter().zip(medians).zip(verdicts) {
            let p_values: Vec<String> =
                verdict.p_values.iter().map(|p| format!("{p:.4}")).collect();
            let (name, keys) = (variant.name(), setup.keys);
            let row = format!(
                "| {name} | {keys} | {waits} | {medians} | {} |",
                p_values.join(", again ")
            );
            let _ = writeln!(table, "{row}");
            if verdict.differs {
                leaks.push(row);
            }
        }
    }
    publish("timing", &table);
    assert!(
        leaks.is_empty(),
        "the sender's clock tells the matches: {leaks:#?}"
    );
}

/// What the gate is worth: it fails where matches take time.
#[test]
#[ignore = "a minute on a machine that does nothing else"]
fn a_planted_delay_is_caught() {
    let mut dice = Dice::new(1);
    let [vole, okvs] = [
        Variant::matches("vole", Security::Malicious),
        Variant::function("circuit-okvs", Question::Size),
    ];
    let setups = [
        Setup::new(vole, 1 << 12, false),
        Setup::new(okvs, 1 << 12, false).of_function(),
    ];
    for setup in setups {
        let planted = Duration::from_nanos(100);
        let setup = Setup { planted, ..setup };
        let blocks = setup.blocks(&mut dice);
        let p = p_value(&blocks, PERMUTATIONS, &mut dice);
        let (name, medians) = (setup.variant.name(), milliseconds(&blocks));
        println!("{name}: {medians} ms, p = {p:.4}");
        assert!(p <= LEVEL / 4.0, "{name}: {p}");
    }
}
