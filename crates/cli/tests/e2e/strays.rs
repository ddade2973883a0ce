//! Whoever calls at a port for something else, or is somebody else: every command that connects, at every one that listens. The
//! one that connects ends and is told what answered; the other logs it, waits on, and serves the right peer.

use crate::declared::{Declared, commands};
use crate::support::{Place, Running};
use crate::tasks::{place_of_keys, split_keys, succeed};

/// What a command wants of the other side. Two go together if it is the same, and the roles are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Run,
    Split,
    Driver,
    Task,
    Pair,
    Generator,
    Set,
    Dealer,
    /// Nothing over TLS.
    Visits,
}

/// A command that connects as the receiver, or listens as the sender, with all that it needs but the endpoint.
struct Line {
    words: String,
    wants: Wants,
    role: &'static str,
}

/// How it ends for the one that connects, and what it says.
type End = (i32, &'static str);

const TABLE: &str = "--input ours.csv --key id";
const PAIR: &str = "--for ole --receiver-size 10 --sender-size 10";
const SPLIT: &str = "--protocol circuit-okvs --security semi-honest --reveal size";

/// A command in each role in which it connects, or listens.
fn lines(command: &Declared, connects: bool) -> Vec<Line> {
    let name = command.words.join(" ");
    let (side, party, roles) = match connects {
        true => (
            "near",
            "--identity receiver.key --peer SENDER",
            ["receiver", "sender"],
        ),
        false => (
            "far",
            "--identity sender.key --peer RECEIVER",
            ["sender", "receiver"],
        ),
    };
    let line = |wants, role: &'static str, words: &str| {
        let words = format!("{name} {}", words.replace("ROLE", role));
        vec![Line { words, wants, role }]
    };
    let in_roles = |wants, words: &str| {
        let lines = roles.map(|role| line(wants, role, words));
        lines.into_iter().flatten().collect()
    };
    match &*name {
        "receive" => line(Wants::Run, "receiver", &format!("{party} {TABLE}")),
        "send" => line(Wants::Run, "sender", &format!("{party} {TABLE}")),
        "split" => {
            let job = format!("--role ROLE --job new-{side}-ROLE");
            in_roles(Wants::Split, &format!("{job} {party} {TABLE}"))
        }
        // The role is that of the job.
        "attempts" | "total" => line(Wants::Driver, roles[0], &format!("--job {side} {party}")),
        // Tasks have keys of their own, and one of another job is as strange to them as anybody.
        "bucket" if connects => line(Wants::Task, "", "--job other-near --bucket 0"),
        "bucket" => line(Wants::Task, "", "--job far --bucket 0"),
        "gateway" => line(Wants::Visits, "", "--admit third-far/gateway.json"),
        "offline make" => {
            let store = format!("--role ROLE --offline-store {side}-ROLE.store");
            in_roles(Wants::Pair, &format!("{PAIR} --offline ot {store} {party}"))
        }
        "dealer" => {
            let words = "--identity sender.key --receiver RECEIVER --sender THIRD";
            line(Wants::Dealer, "", words)
        }
        "generator" => {
            let of = match connects {
                true => "--party FOURTH --listen 127.0.0.1:0",
                false => "--party THIRD",
            };
            let words = format!("--attestation simulated {of} {party}");
            line(Wants::Generator, "", &words)
        }
        "serve" => {
            let words = "--identity sender.key --set-dir database --clients clients --quota 99";
            line(Wants::Set, "server", words)
        }
        "lookup" => {
            let words = format!("{party} {TABLE} --set set.vset");
            line(Wants::Set, "client", &words)
        }
        _ => panic!("what does {name} need?"),
    }
}

/// What becomes of the two; `None` if they go together.
fn end(listens: &Line, connects: &Line) -> Option<End> {
    match [listens.wants, connects.wants] {
        // A gateway speaks no TLS itself.
        [Wants::Visits, _] => Some((4, "not this program's TLS")),
        [_, Wants::Task] => Some((4, "has no task of the peer with the key vs1:")),
        [Wants::Task, _] => Some((4, "wrong peer: expected vs1:")),
        // Nothing that either does mends that, so that both end.
        [Wants::Split, Wants::Driver] | [Wants::Driver, Wants::Split] => {
            Some((6, "disagree on job: here "))
        }
        [ours, theirs] if ours != theirs => Some((6, "disagree on what to do: here ")),
        _ if !listens.role.is_empty() && listens.role == connects.role => {
            Some((6, "both sides are the "))
        }
        _ => None,
    }
}

/// Both sides of three jobs of one bucket, a published set, and four identities.
fn ready() -> Place {
    let place = place_of_keys(20);
    place.write("clients", format!("{}\n", place.receiver));
    for name in ["third", "fourth", "stranger"] {
        let made = place.run(&format!("keygen --out {name}.key"));
        made.expect_success();
        place.write(name, made.text().trim());
    }
    let published = "publish --identity sender.key --set-dir database --output set.vset";
    place.run(&format!("{published} {TABLE}")).expect_success();
    for job in ["", "other-", "third-"] {
        let jobs = ["near", "far"].map(|side| format!("{job}{side}"));
        succeed(split_keys(&place, jobs.each_ref().map(|job| &**job), SPLIT));
    }
    place
}

/// Starts the command; fingerprints stand for themselves.
fn start(place: &Place, words: &str) -> Running {
    let all = [
        ("RECEIVER", place.receiver.to_string()),
        ("SENDER", place.sender.to_string()),
    ];
    let others = ["third", "fourth"].iter().filter_map(|name| {
        let print = std::fs::read_to_string(place.path(name)).ok()?;
        Some((name.to_uppercase(), print))
    });
    let filled = all
        .into_iter()
        .map(|(name, print)| (name.to_owned(), print))
        .chain(others)
        .fold(words.to_owned(), |words, (name, print)| {
            words.replace(&name, &print)
        });
    let words: Vec<String> = filled.split_whitespace().map(str::to_owned).collect();
    Running::start(place.command(&words))
}

fn listening(place: &Place, line: &Line, more: &str) -> (Running, String) {
    let mut running = start(
        place,
        &format!("{} --listen 127.0.0.1:0 {more}", line.words),
    );
    let endpoint = running.endpoint();
    (running, endpoint)
}

/// Everybody whom a command that listens has waited for.
fn right_peers(place: &Place, listens: &Line, endpoint: &str) -> Vec<Running> {
    let start = |words: String| start(place, &words);
    let near = "--identity receiver.key --peer SENDER";
    let other = match listens.role {
        "sender" => "receiver",
        _ => "sender",
    };
    match listens.wants {
        Wants::Run => {
            let name = if other == "receiver" {
                "receive"
            } else {
                "send"
            };
            vec![start(format!("{name} {near} {TABLE} {endpoint}"))]
        }
        Wants::Split => {
            let job = format!("--role {other} --job done-near-{other}");
            vec![start(format!("split {job} {near} {TABLE} {endpoint}"))]
        }
        Wants::Driver => {
            let name = listens.words.split(' ').next().unwrap();
            vec![start(format!("{name} --job near {near} {endpoint}"))]
        }
        Wants::Task => vec![start(format!("bucket --job near --bucket 0 {endpoint}"))],
        Wants::Pair => {
            let store = format!("--role {other} --offline-store near-{other}.store");
            let words = format!("{PAIR} --offline ot {store} {near} {endpoint}");
            vec![start(format!("offline make {words}"))]
        }
        Wants::Set => vec![start(format!(
            "lookup {near} {TABLE} --set set.vset {endpoint}"
        ))],
        Wants::Dealer => ["receiver RECEIVER THIRD", "sender THIRD RECEIVER"]
            .map(|of| start(half("--offline dealer --dealer SENDER", of, endpoint)))
            .into(),
        Wants::Generator => {
            let party = "--party FOURTH --listen 127.0.0.1:0 --attestation simulated";
            let mut second = start(format!("generator {party} {near} {endpoint}"));
            let measurement = vesica_offline::Simulated::MEASUREMENT;
            let shown = format!("--attestation simulated --measurement {measurement}");
            let of = |generator: &str, of: &str, endpoint: &str| {
                let from = format!("--offline tee --generator {generator} {shown}");
                start(half(&from, of, endpoint))
            };
            let first = of("SENDER", "sender THIRD FOURTH", endpoint);
            let other = of("RECEIVER", "receiver FOURTH THIRD", &second.endpoint());
            vec![first, other, second]
        }
        Wants::Visits => ["near", "far"]
            .map(|side| {
                let gateway = endpoint.replace("--connect", "--gateway");
                start(format!("bucket --job third-{side} --bucket 0 {gateway}"))
            })
            .into(),
    }
}

/// The command with which the party of this role, by its name and its peer's, gets its half.
fn half(from: &str, of: &str, endpoint: &str) -> String {
    let mut words = of.split(' ');
    let [role, party, peer] = [(); 3].map(|()| words.next().unwrap());
    let identity = party.to_lowercase();
    format!(
        "offline make {PAIR} {from} --role {role} --offline-store {identity}-dealt.store --identity {identity}.key \
         --peer {peer} {endpoint}"
    )
}

/// All commands with this option, in all their roles.
fn all_lines(option: &str, connects: bool) -> Vec<Line> {
    let all = commands().into_iter();
    // `doctor` goes with nobody and holds nobody up: `reach` has it.
    let have = all.filter(|command| command.has(option) && command.words != ["doctor"]);
    have.flat_map(|command| lines(&command, connects)).collect()
}

#[test]
fn whoever_calls_the_wrong_command_is_told_and_holds_nobody_up() {
    let place = ready();
    let (listeners, connectors) = (all_lines("listen", false), all_lines("connect", true));
    assert!(listeners.len() >= 13 && connectors.len() >= 11);
    let mut tried = 0;
    for listens in &listeners {
        let (mut running, mut endpoint) = listening(&place, listens, "");
        // Those that end both come last.
        let mut strays: Vec<(&Line, End)> = connectors
            .iter()
            .filter_map(|connects| Some((connects, end(listens, connects)?)))
            .collect();
        tried += strays.len();
        strays.sort_by_key(|(_, (_, says))| says.contains(" on job: "));
        let ends_both = |(_, (_, says)): &(&Line, End)| says.contains(" on job: ");
        let (waited_on, ending) =
            strays.split_at(strays.partition_point(|stray| !ends_both(stray)));
        let at_once: Vec<Running> = waited_on
            .iter()
            .map(|(connects, _)| start(&place, &format!("{} --wait 20 {endpoint}", connects.words)))
            .collect();
        let mut turned_away = 0;
        for ((connects, (code, says)), stray) in waited_on.iter().zip(at_once) {
            let (what, ended) = (
                format!("{} at {}", connects.words, listens.words),
                stray.wait(),
            );
            assert_eq!(ended.code, Some(*code), "{what}: {}", ended.err);
            assert!(
                ended.err.contains(says) && !ended.hint().is_empty(),
                "{what}: {}",
                ended.err
            );
            assert!(ended.out.is_empty(), "{what}");
            turned_away += usize::from(listens.wants != Wants::Visits);
        }
        running.wait_until_said("turned away", turned_away);
        for (connects, (code, says)) in ending {
            let stray = start(&place, &format!("{} --wait 20 {endpoint}", connects.words));
            for ended in [stray.wait(), running.wait()] {
                assert_eq!(ended.code, Some(*code), "{}: {}", listens.words, ended.err);
                assert!(ended.err.contains(says), "{}: {}", listens.words, ended.err);
            }
            (running, endpoint) = listening(&place, listens, "");
        }
        let peers = right_peers(&place, listens, &endpoint);
        for peer in peers {
            let ended = peer.wait();
            assert_eq!(ended.code, Some(0), "{}: {}", listens.words, ended.err);
        }
        // These are there for others.
        if ![Wants::Visits, Wants::Set].contains(&listens.wants) {
            running.wait().expect_success();
        }
    }
    assert!(tried > 120, "{tried}");
}

/// Somebody else than the peer, in its place or at the port of one that waits for it, has proved nothing about the peer: no
/// command takes that for a peer that misbehaves (code 5), and a task can be tried again.
#[test]
fn a_stranger_is_no_peer_that_misbehaves() {
    let place = ready();
    let stranger = "send --input ours.csv --key id --identity stranger.key";
    // In its place.
    let mut waiting = start(
        &place,
        &format!("{stranger} --peer RECEIVER --listen 127.0.0.1:0"),
    );
    let endpoint = waiting.endpoint();
    let connectors = all_lines("connect", true);
    let connecting: Vec<(&Line, Running)> = connectors
        .iter()
        .map(|line| {
            (
                line,
                start(&place, &format!("{} --wait 20 {endpoint}", line.words)),
            )
        })
        .collect();
    for (line, connecting) in connecting {
        let ended = connecting.wait();
        assert_eq!(ended.code, Some(4), "{}: {}", line.words, ended.err);
        let key = place.read("stranger");
        assert!(
            ended.err.contains(&key) && !ended.hint().is_empty(),
            "{}: {}",
            line.words,
            ended.err
        );
    }
    assert!(!waiting.has_ended());
    // At the port. Whoever knows the key of a task pins that.
    let job: serde_json::Value = serde_json::from_str(&place.read("near/job.json")).unwrap();
    let task = job["peer_tasks"][0].as_str().unwrap();
    let listeners = all_lines("listen", false);
    let waiting: Vec<(&Line, Running)> = listeners
        .iter()
        .filter(|line| line.wants != Wants::Visits)
        .map(|line| {
            let wait = if line.wants == Wants::Set {
                ""
            } else {
                "--wait 8"
            };
            let (waiting, endpoint) = listening(&place, line, wait);
            let peer = if line.wants == Wants::Task {
                task
            } else {
                "SENDER"
            };
            let calls = start(
                &place,
                &format!("{stranger} --peer {peer} --wait 20 {endpoint}"),
            );
            let ended = calls.wait();
            assert_eq!(ended.code, Some(6), "{}: {}", line.words, ended.err);
            assert!(
                ended.err.contains("refused this side's identity"),
                "{}",
                ended.err
            );
            (line, waiting)
        })
        .collect();
    for (line, mut waiting) in waiting {
        waiting.wait_until_said("turned away", 1);
        if line.wants == Wants::Set {
            assert!(!waiting.has_ended());
            continue;
        }
        let ended = waiting.wait();
        assert_eq!(ended.code, Some(4), "{}: {}", line.words, ended.err);
        assert!(ended.err.contains(&place.read("stranger")), "{}", ended.err);
    }
    // The attempt is there to be made.
    let (waiting, endpoint) = {
        let mut waiting = start(&place, "bucket --job far --bucket 0 --listen 127.0.0.1:0");
        let endpoint = waiting.endpoint();
        (waiting, endpoint)
    };
    let peer = start(&place, &format!("bucket --job near --bucket 0 {endpoint}"));
    peer.wait().expect_success();
    waiting.wait().expect_success();
}
