//! What crosses the wire between processes of the command: as many bytes each way whatever matches, for each way in. The
//! frames of every protocol, of all that it reveals and of every term are compared in `crates/session/src/lengths.rs`.
//!
//! A [`Tap`] between the two counts what records carry. A heartbeat may share a record with a frame: each run takes place
//! several times, and counts with the least.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use vesica::{Identity, Reveal};
use vesica_psi::masks::MASKS;
use vesica_session::Registry;
use vesica_testing::{Lengths, told_by_lengths};
use vesica_wire::Kind;

use crate::answers::Question;
use crate::faults::memory_of_buckets;
use crate::support::{Arguments, Ended, Place, Running, exchange_through};
use crate::tap::Tap;

/// Keys of the receiver; the sender has some more.
const KEYS: u64 = 60;
const MORE: u64 = 20;

/// Rounds after which what differs counts.
const ROUNDS: usize = 6;

/// What the bytes of one direction stand for, where they are compared.
const TO_SENDER: Kind = Kind {
    code: 0,
    name: "to the sender",
};

/// The tables of a run with so many keys in common, of which all are equally long. Values are, too.
fn tables(place: &Place, [ours, theirs]: [u64; 2], shared: u64) {
    let table = |keys: std::ops::Range<u64>| {
        let mut text = "key,value,text\n".to_owned();
        for key in keys {
            let _ = writeln!(text, "customer {key:06},{},row {key:06}", 1 + key % 9);
        }
        text
    };
    place.write("ours.csv", table(0..ours));
    place.write("theirs.csv", table(ours - shared..ours - shared + theirs));
}

/// Bytes to the sender and to the receiver, of one run with so many keys in common.
type Run<'a> = dyn Fn(&Place, u64) -> [u64; 2] + 'a;

/// What the bytes of a run tell of its matches: there are none, one, half, and all of `keys`.
fn told(keys: u64, run: &Run<'_>) -> Vec<String> {
    let arms = [0, 1, keys / 2, keys];
    let mut least = [[u64::MAX; 2]; 4];
    for _ in 0..ROUNDS {
        for (least, shared) in least.iter_mut().zip(arms) {
            let carried = run(&Place::new(), shared);
            *least = [0, 1].map(|way| least[way].min(carried[way]));
        }
        let runs = arms.into_iter().zip(least).map(|(shared, [up, down])| {
            let lengths: Lengths = vec![(TO_SENDER.code, up as usize), (MASKS.code, down as usize)];
            (shared, lengths)
        });
        let told = told_by_lengths(&runs.collect::<Vec<_>>(), &[MASKS]);
        if told.is_empty() {
            return told;
        }
    }
    let runs = arms.into_iter().zip(least);
    runs.map(|(shared, [up, down])| {
        format!("{shared} matches: {up} bytes to the sender, {down} back")
    })
    .collect()
}

#[track_caller]
fn tells_nothing(name: &str, keys: u64, run: &Run<'_>) {
    let told = told(keys, run);
    assert!(told.is_empty(), "{name}: {told:#?}");
}

/// A run of `receive` and `send` with the words of both, of the receiver and of the sender.
fn meeting(sizes: [u64; 2], words: [String; 3]) -> impl Fn(&Place, u64) -> [u64; 2] {
    move |place, shared| {
        tables(place, sizes, shared);
        let [both, ours, theirs] = &words;
        let side = |input: &str, words: &str| Arguments::new(input, "key").with(both).with(words);
        let sides = [side("ours.csv", ours), side("theirs.csv", theirs)];
        let (pair, carried) = exchange_through(place, &sides[0], &sides[1]);
        pair.receiver.expect_success();
        pair.sender.expect_success();
        carried
    }
}

/// Whom a result of this kind can be told, and where each side then writes it.
fn tellings(question: Question) -> Vec<[&'static str; 3]> {
    let (ours, theirs) = ("--output ours.out", "--output theirs.out");
    match question {
        Question::Matches => vec![
            ["", ours, ""],
            ["--both", ours, theirs],
            ["--both --align", ours, theirs],
        ],
        Question::ThresholdMatches => vec![["", ours, ""]],
        Question::Shares | Question::Ids => vec![["", ours, theirs]],
        Question::Union => vec![["", ours, "--payload value"]],
        _ => vec![["", "", ""], ["--both", "", ""]],
    }
}

/// All that can be revealed, whomever it is told: protocols with one mask per item, with several, without masks, and a
/// circuit.
#[test]
fn bytes_of_runs_tell_nothing_of_matches() {
    for question in Reveal::ALL.iter().flat_map(|reveal| Question::of(*reveal)) {
        let protocols: &[&str] = match question {
            Question::Matches => &["compact-dh", "kkrt", "ole-ot"],
            _ => &["circuit-okvs"],
        };
        for protocol in protocols {
            let spec = Registry::standard().get(protocol).unwrap().spec();
            // Half of the keys meet a minimum, and one does not.
            let minimum = if question.minimum()[1] { KEYS / 4 } else { 0 };
            for [whom, ours, theirs] in tellings(*question) {
                let values = question.values().map(|has| {
                    if has {
                        "--value value --value-bound 9"
                    } else {
                        ""
                    }
                });
                let both = format!(
                    "--protocol {protocol} --security {} {} {whom}",
                    spec.security.name(),
                    question.words(minimum)
                );
                let words = [
                    both.clone(),
                    format!("{ours} {}", values[0]),
                    format!("{theirs} {}", values[1]),
                ];
                tells_nothing(&both, KEYS, &meeting([KEYS, KEYS + MORE], words));
            }
        }
    }
}

/// Columns of the sender; sides that wait for each other the other way round, and far more keys on one side.
#[test]
fn bytes_of_other_runs_tell_nothing_of_matches() {
    for whom in ["", "--both", "--both --align"] {
        let theirs = match whom {
            "" => String::new(),
            _ => "--output theirs.out".to_owned(),
        };
        let words = [
            format!("--protocol compact-dh {whom}"),
            "--take-payload --output ours.out".into(),
            format!("--payload text --payload-width 12 {theirs}"),
        ];
        tells_nothing("columns", KEYS, &meeting([KEYS, KEYS + MORE], words));
        for sizes in [[20, 2000], [2000, 20]] {
            let words = [
                format!("--protocol compact-dh {whom}"),
                "--output ours.out".into(),
                theirs.clone(),
            ];
            tells_nothing("unequal sizes", 20, &meeting(sizes, words));
        }
    }
}

/// Buckets in turn, and several at once, each over a connection of its own.
#[test]
fn bytes_of_buckets_tell_nothing_of_matches() {
    let keys = 2000;
    let memory = memory_of_buckets("compact-dh", [keys; 2], 40, 4, [false; 2]);
    for (memory, threads) in [(memory, 1), (memory / 2 * 3, 4)] {
        for whom in ["--both", "--both --align"] {
            let words = [
                format!("--protocol compact-dh {whom} --memory {memory} --threads {threads}"),
                "--output ours.out".into(),
                "--output theirs.out".into(),
            ];
            tells_nothing("buckets", keys, &meeting([keys; 2], words));
        }
    }
}

/// Starts a process for each side, whose words name where the other one listens; what each comes to, and the bytes between
/// them. The sender listens.
fn both(place: &Place, [ours, theirs]: [String; 2]) -> ([Ended; 2], [u64; 2]) {
    let start = |words: &str| {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Running::start(place.command(&words))
    };
    let mut far = start(&format!("{theirs} --listen 127.0.0.1:0 --progress plain"));
    let tap = Tap::to(&far.endpoint());
    let near = start(&format!("{ours} {} --progress plain", tap.endpoint())).wait();
    let ended = [near, far.wait()];
    ended.iter().for_each(Ended::expect_success);
    (ended, tap.carried())
}

/// A job in tasks: its drivers, the tasks of each bucket, what drivers say of attempts, and the total of numbers.
#[test]
fn bytes_of_tasks_tell_nothing_of_matches() {
    let keys = 1000;
    for (protocol, words, opens) in [
        ("dh", "--both", false),
        ("circuit-okvs", "--reveal size --min-size 100 --both", true),
    ] {
        let memory = memory_of_buckets(protocol, [keys; 2], 40, 2, [true; 2]) / 2;
        tells_nothing(words, keys, &|place, shared| {
            tables(place, [keys; 2], shared);
            let peers = [place.sender, place.receiver];
            let side = |command: &str, role: usize, more: &str| {
                let (name, job) = [("receiver", "near"), ("sender", "far")][role];
                let identity = match command {
                    "bucket" => String::new(),
                    _ => format!("--identity {name}.key --peer {}", peers[role]),
                };
                format!("{command} --job {job} {identity} {more}")
            };
            let mut sum = [0; 2];
            let mut run = |words: [String; 2]| {
                let carried = both(place, words).1;
                sum = [0, 1].map(|way| sum[way] + carried[way]);
            };
            let split = |role: usize| {
                let (name, input) = [("receiver", "ours.csv"), ("sender", "theirs.csv")][role];
                let more = format!(
                    "--role {name} --input {input} --key key --protocol {protocol} --security semi-honest \
                     --task-memory {memory} {words}"
                );
                side("split", role, &more)
            };
            run([0, 1].map(split));
            let job: serde_json::Value =
                serde_json::from_str(&place.read("near/job.json")).unwrap();
            let buckets = job["contract"]["buckets"].as_u64().unwrap();
            assert!(buckets > 1);
            for bucket in 0..buckets {
                let more = format!("--bucket {bucket} --threads 1");
                run([0, 1].map(|role| side("bucket", role, &more)));
            }
            run([0, 1].map(|role| side("attempts", role, "")));
            if opens {
                run([0, 1].map(|role| side("total", role, "")));
            }
            sum
        });
    }
}

/// A run by courier that this side begins: bytes of the receiver's messages, and of the sender's.
fn by_courier(place: &Place, [first, second]: [&str; 2], whom: &str, shared: u64) -> [u64; 2] {
    let step = |role: &str, step: &str, more: &str| {
        let (input, peer) = match role {
            "receiver" => ("ours.csv", place.sender),
            _ => ("theirs.csv", place.receiver),
        };
        let words = format!(
            "exchange {step} --role {role} --input {input} --key key --identity {role}.key --peer {peer} \
             --state {role}.state --progress none {whom} {more}"
        );
        place.run(&words).expect_success();
    };
    step(first, "offer", "--message-out m0");
    step(second, "start", "--message m0 --message-out m1");
    let (mut last, mut own, mut other) = (1, first, second);
    while own != "receiver" || last < 2 {
        let answer = format!("--message m{last} --message-out m{}", last + 1);
        step(own, "answer", &answer);
        last += 1;
        std::mem::swap(&mut own, &mut other);
    }
    let mut messages: Vec<String> = (0..=last).map(|number| format!("m{number}")).collect();
    let mut finish = format!("--message m{last} --output shared.csv");
    if whom == "--both" {
        messages.push(format!("m{}", last + 1));
        let _ = write!(finish, " --message-out m{}", last + 1);
    }
    step("receiver", "finish", &finish);
    let rows = place.read("shared.csv").lines().count() as u64 - 1;
    assert_eq!(rows, shared);
    let mut lengths = [0; 2];
    for (number, name) in messages.iter().enumerate() {
        let whose = [first, second][number % 2];
        let length = place.path(name).metadata().unwrap().len();
        lengths[usize::from(whose == "sender")] += length;
    }
    lengths
}

/// Messages that a courier carries, of sets as large and of a large one of the sender.
#[test]
fn lengths_of_messages_tell_nothing_of_matches() {
    for sides in [["sender", "receiver"], ["receiver", "sender"]] {
        for (whom, keys, theirs) in [
            ("", KEYS, KEYS),
            ("--both", KEYS, KEYS),
            ("--both", 200, 8000),
        ] {
            tells_nothing(&format!("{sides:?} {whom}"), keys, &|place, shared| {
                tables(place, [keys, theirs], shared);
                by_courier(place, sides, whom, shared)
            });
        }
    }
}

/// Questions to the server of a published set, with and without what earlier ones have left, and the files of the set.
#[cfg(unix)]
#[test]
fn bytes_of_look_ups_tell_nothing_of_matches() {
    let place = Place::new();
    tables(&place, [KEYS, KEYS], 0);
    // A client has the files a few times in a day.
    let ways = ["", "--state state", "--fetch", "--fetch --state state"];
    let clients = (0..ways.len() * 4 * ROUNDS).map(|number| {
        let client = Identity::generate().unwrap();
        client
            .save(&place.path(&format!("client-{number}")))
            .unwrap();
        format!("{}\n", client.fingerprint())
    });
    place.write("clients", clients.collect::<String>());
    let next = AtomicUsize::new(0);
    let publish = "publish --identity sender.key --set-dir database --output set.vset --progress none \
                   --input theirs.csv --key key --payload text";
    place.run(publish).expect_success();
    let words = "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 \
                 --set set.vset --quota 100000";
    let mut server = place.start_after("true", words);
    let endpoint = server.endpoint();
    for words in ways {
        tells_nothing(words, KEYS, &|beside, shared| {
            // What is published are numbers from `KEYS` on.
            tables(beside, [KEYS, KEYS], 0);
            let asked = 2 * KEYS - shared..3 * KEYS - shared;
            let rows = asked.map(|key| format!("customer {key:06}\n"));
            beside.write("asked.csv", format!("key\n{}", rows.collect::<String>()));
            let copy = |from: &str, to: &str| {
                std::fs::copy(place.path(from), beside.path(to)).unwrap();
            };
            let client = next.fetch_add(1, Ordering::SeqCst);
            copy(&format!("client-{client}"), "client.key");
            if !words.contains("--fetch") {
                copy("set.vset", "set.vset");
            }
            let tap = Tap::to(&endpoint);
            let found = beside.run(&format!(
                "lookup --identity client.key --peer {} --set set.vset --progress none --input asked.csv --key key \
                 {words} {}",
                place.sender,
                tap.endpoint()
            ));
            found.expect_success();
            assert_eq!(found.text().lines().count() as u64, 1 + shared);
            tap.carried()
        });
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait().expect_failure(143, "told to end by a signal");
}

/// What the gate is worth: a run whose sizes follow its matches is seen, one byte per match in a message too.
#[test]
fn a_planted_leak_is_seen() {
    let words = || {
        [
            "--protocol compact-dh --both",
            "--output ours.out",
            "--output theirs.out",
        ]
        .map(str::to_owned)
    };
    let of_sizes =
        |place: &Place, shared: u64| meeting([KEYS, KEYS + shared / 8], words())(place, shared);
    let told = told(KEYS, &of_sizes);
    assert_eq!(told.len(), 4, "{told:?}");
}
