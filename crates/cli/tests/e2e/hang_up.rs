//! Whether a side lets go of its peer before it deals with what matched: nobody takes its rows until it has hung up.
//!
//! What is written is longer than a pipe holds. So a side that writes rows while it is connected waits for its reader, and the
//! reader for it, until the test gives up. That is no measurement: the gate for times is in [`timing`](crate::timing).

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use vesica::{
    Destination, Event, Identity, KeySpec, LookUp, Observer, Reveal, Security, Source,
    SourceOptions,
};
use vesica_session::Registry;
use vesica_testing::ObjectServer;

use crate::faults::memory_of_buckets;
use crate::objects::settings;
use crate::support::{Ended, Place, Running};
use crate::tap::{Side, Tap};

/// Longest time that a side has to hang up while nobody takes its rows. Then they are taken.
const PATIENCE: Duration = Duration::from_secs(20);

/// As good as any time where a side is known not to hang up.
const MOMENT: Duration = Duration::from_secs(1);

/// Keys of each table, of which half are in common, with rows of 4 KB.
const KEYS: u64 = 600;

/// With tables of receiver and sender, `ours.csv` and `theirs.csv`.
fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", table(0..KEYS));
    place.write("theirs.csv", table(KEYS / 2..KEYS / 2 + KEYS));
    place
}

fn table(keys: std::ops::Range<u64>) -> String {
    let text = "x".repeat(4 << 10);
    let rows = keys.map(|key| format!("k{key},{key},{text}\n"));
    format!("key,v,text\n{}", rows.collect::<String>())
}

fn words(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

/// Whether a side of a tap had hung up before its rows were taken.
struct Waits(Receiver<bool>);

impl Waits {
    /// Starts a command whose output is taken once this side of the tap has hung up, or after `most`.
    fn start(command: Command, tap: &Arc<Tap>, side: Side, most: Duration) -> (Running, Waits) {
        let (tell, told) = channel();
        let tap = Arc::clone(tap);
        let running = Running::start_held(command, move || {
            let _ = tell.send(tap.await_end(side, most));
        });
        (running, Waits(told))
    }

    /// Whether it had, with rows that a pipe does not hold.
    #[track_caller]
    fn told(&self, ended: &Ended) -> bool {
        ended.expect_success();
        assert!(ended.out.len() > 1 << 20, "these rows tell nothing");
        self.0.recv().unwrap()
    }
}

/// The options of a run: of both sides, of the receiver and of the sender.
#[derive(Clone, Copy, Debug)]
struct Run<'a>(&'a str, &'a str, &'a str);

impl Run<'_> {
    fn words(&self, place: &Place, role: &str, endpoint: &str) -> String {
        let Run(both, receiver, sender) = self;
        let (of_role, input) = match role {
            "receiver" => (
                format!("receive --peer {} {receiver}", place.sender),
                "ours",
            ),
            _ => (format!("send --peer {} {sender}", place.receiver), "theirs"),
        };
        format!(
            "{of_role} --input {input}.csv --key key --identity {role}.key --progress plain {both} {endpoint}"
        )
    }

    fn command(&self, place: &Place, role: &str, endpoint: &str) -> Command {
        place.command(&words(&self.words(place, role, endpoint)))
    }

    /// Runs both. The side with this role connects through a tap, and nobody takes its rows until it has hung up there;
    /// whether it had by then. `plant` puts somebody before the tap, who holds it on the line for longer.
    fn hangs_up(&self, place: &Place, role: &str, plant: Option<Duration>) -> bool {
        let other = ["receiver", "sender"]
            .into_iter()
            .find(|other| *other != role);
        let other = self.command(place, other.unwrap(), "--listen 127.0.0.1:0");
        let mut other = Running::start(other);
        let tap = Arc::new(Tap::before(&other.address()));
        let planted = plant.map(|longer| Tap::holding(&tap.address(), 2 * longer));
        let endpoint = planted.as_ref().unwrap_or(&tap).endpoint();
        let command = self.command(place, role, &endpoint);
        let most = plant.unwrap_or(PATIENCE);
        let (own, waits) = Waits::start(command, &tap, Side::Client, most);
        let ended = own.wait();
        other.wait().expect_success();
        waits.told(&ended)
    }

    #[track_caller]
    fn check(&self, role: &str) {
        let Run(both, receiver, sender) = self;
        let what = format!("{role}: {both} {receiver} {sender}");
        assert!(
            self.hangs_up(&place(), role, None),
            "{what}: writes rows while it is connected"
        );
    }
}

#[test]
fn a_receiver_hangs_up_before_it_writes_rows() {
    // The gate sees one that does not.
    assert!(!Run("", "", "").hangs_up(&place(), "receiver", Some(MOMENT)));
    let protocols = Registry::standard().all().iter();
    let protocols =
        protocols.filter(|p| p.can_reveal(Reveal::Matches.into()) && p.offline().is_none());
    for protocol in protocols {
        let security = match protocol.spec().runs(Security::Malicious) {
            Security::Malicious => "",
            _ => "--security semi-honest",
        };
        let both = format!("--protocol {} {security}", protocol.spec().name);
        Run(&both, "", "").check("receiver");
    }
}

#[test]
fn a_side_hangs_up_before_it_writes_rows_whatever_is_asked() {
    let memory = memory_of_buckets("vole", [KEYS; 2], 40, 4, [false; 2]);
    let in_turn = format!("--protocol vole --memory {memory} --threads 1");
    let side_by_side = format!("--protocol vole --memory {} --threads 4", memory / 2 * 3);
    for run in [
        Run(&in_turn, "", ""),
        Run(&side_by_side, "", ""),
        Run("--both", "", "--output o.csv"),
        Run("--both --align", "", "--output o.csv"),
        Run("--both", "--rows all", "--output o.csv"),
        Run("", "--rows rest", ""),
        Run("", "--take-payload", "--payload v --payload-width 8"),
        Run("", "--work-dir work", "--work-dir sender.work"),
        Run(
            "--reveal threshold-matches:10 --security semi-honest",
            "",
            "",
        ),
    ] {
        run.check("receiver");
    }
    for both in ["--both", "--both --align"] {
        Run(both, "--output o.csv", "").check("sender");
    }
}

/// A server of `theirs.csv` for the receiver, and where it listens.
fn served(place: &Place) -> (Running, String) {
    let publish = "publish --identity sender.key --set-dir database --output set.vset --input theirs.csv --key key \
                   --progress none";
    place.run(publish).expect_success();
    place.write("clients", place.receiver.to_string());
    let serve = "serve --identity sender.key --set-dir database --set set.vset --clients clients --quota 100000 \
                 --listen 127.0.0.1:0";
    let mut server = Running::start(place.command(&words(serve)));
    let address = server.address();
    (server, address)
}

fn stop(mut server: Running) {
    server.process.kill().unwrap();
    server.wait();
}

/// A look-up of `ours.csv` behind a tap.
fn look_up(place: &Place, tap: &Tap, options: &str) -> String {
    let (peer, endpoint) = (place.sender, tap.endpoint());
    format!(
        "lookup --identity receiver.key --peer {peer} --input ours.csv --key key --progress none {endpoint} {options}"
    )
}

#[test]
fn a_look_up_hangs_up_before_it_writes_rows() {
    let place = place();
    let (server, address) = served(&place);
    for (options, asks) in [
        ("--set set.vset", true),
        ("--set set.vset --rows all", true),
        ("--set set.vset --state state", true),
        ("--set other.vset --fetch", true),
        ("--set another.vset --fetch --state another", true),
        // Connected for the files alone, which are here by now.
        ("--set another.vset --fetch --state another", false),
    ] {
        let tap = Arc::new(Tap::before(&address));
        let command = place.command(&words(&look_up(&place, &tap, options)));
        let (running, waits) = Waits::start(command, &tap, Side::Client, PATIENCE);
        let ended = running.wait();
        assert!(
            waits.told(&ended),
            "{options}: writes rows while it is connected"
        );
        let none = format!("{:<15} 0\n", "asked");
        assert_eq!(!ended.err.contains(&none), asks, "{}", ended.err);
    }
    stop(server);
}

/// A courier sees when the last message is there.
#[test]
fn a_message_is_there_before_rows_are_written() {
    let place = place();
    let step = |role: &str, step: &str, more: &str| {
        let (input, peer) = match role {
            "receiver" => ("ours.csv", place.sender),
            _ => ("theirs.csv", place.receiver),
        };
        format!(
            "exchange {step} --role {role} --input {input} --key key --identity {role}.key --peer {peer} \
             --state {role}.state --progress none --both {more}"
        )
    };
    for (role, name, more) in [
        ("sender", "offer", "--message-out m0"),
        ("receiver", "start", "--message m0 --message-out m1"),
        ("sender", "answer", "--message m1 --message-out m2"),
    ] {
        place.run(&step(role, name, more)).expect_success();
    }
    let last = place.path("m3");
    let command = place.command(&words(&step(
        "receiver",
        "finish",
        "--message m2 --message-out m3 --output -",
    )));
    let (tell, told) = channel();
    // Nobody takes its rows before.
    let running = Running::start_held(command, move || {
        let until = Instant::now() + PATIENCE;
        while !last.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = tell.send(last.exists());
    });
    let ended = running.wait();
    ended.expect_success();
    assert!(ended.out.len() > 1 << 20, "these rows tell nothing");
    assert!(told.recv().unwrap(), "the message comes after the rows");
    let last = "--message m3 --output theirs.out";
    place.run(&step("sender", "finish", last)).expect_success();
}

/// Whether a side had hung up when it began to write.
struct Watch<'a> {
    tap: &'a Tap,
    most: Duration,
    told: Option<bool>,
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: Event<'_>) {
        if let Event::Writing = event {
            self.told = Some(self.tap.await_end(Side::Client, self.most));
        }
    }
}

#[test]
fn a_set_that_stays_open_stays_connected_but_for_the_last_table() {
    let place = place();
    let (server, address) = served(&place);
    let tap = Tap::before(&address);
    let identity = Identity::load(place.path("receiver.key")).unwrap();
    let set = place.path("set.vset");
    let look_up = LookUp::new(identity, place.sender, tap.address(), set);
    let key = KeySpec::parse("key", &[] as &[&str]).unwrap();
    let source = Source::open(place.path("ours.csv"), SourceOptions::default()).unwrap();
    let output = place.path("out.csv");
    let output = Some(Destination::File(&output));
    let mut watch = Watch {
        tap: &tap,
        most: MOMENT,
        told: None,
    };
    let mut open = look_up.open(&key, &mut watch).unwrap();
    open.find(&source, output, &mut watch).unwrap();
    assert_eq!(watch.told.take(), Some(false), "it has left");
    watch.most = PATIENCE;
    open.find_last(&source, output, &mut watch).unwrap();
    assert_eq!(watch.told, Some(true), "it stays");
    stop(server);
}

#[test]
fn a_side_hangs_up_before_it_writes_an_object() {
    let place = place();
    let (server, address) = served(&place);
    let store = ObjectServer::start();
    for is_run in [true, false] {
        let other = is_run.then(|| {
            let command = Run("", "", "").command(&place, "sender", "--listen 127.0.0.1:0");
            let mut other = Running::start(command);
            (other.address(), other)
        });
        let to = other.as_ref().map_or(&address, |(address, _)| address);
        let tap = Arc::new(Tap::before(to));
        let (tell, told) = channel();
        let seen = Arc::clone(&tap);
        store.answer(move |request| {
            // A part of the object, which is not taken before.
            if request.parameter("partNumber").is_some() {
                let _ = tell.send(seen.await_end(Side::Client, PATIENCE));
            }
            None
        });
        let words = match is_run {
            true => Run("", "", "").words(&place, "receiver", &tap.endpoint()),
            false => look_up(&place, &tap, "--set set.vset"),
        };
        let words = format!("{words} --output s3://b/out.csv");
        place.run_after(&settings(&store), &words).expect_success();
        assert!(
            told.recv().unwrap(),
            "{words}: writes an object while it is connected"
        );
        assert!(
            store
                .get("/b/out.csv")
                .is_some_and(|rows| rows.len() > 1 << 20)
        );
        if let Some((_, other)) = other {
            other.wait().expect_success();
        }
    }
    stop(server);
}

/// What a shell runs before a command whose writes to files each take so much longer.
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn slow_files(place: &Place, library: &std::path::Path, longer: Duration) -> String {
    format!(
        "export FAULTS_STATE='{}' FAULTS_PLAN='write {} 0 slow' LD_PRELOAD='{}'",
        place.path("calls").display(),
        longer.as_millis(),
        library.display()
    )
}

/// How long a side is connected whose writes to files each take so much longer, and then runs; in a run, or in a look-up. It
/// writes to `output` what matches, of so many keys in common.
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn times_on_a_slow_disk(
    library: &std::path::Path,
    longer: Duration,
    run: Option<Run<'_>>,
    output: &str,
    common: u64,
) -> [Duration; 2] {
    let place = place();
    place.write("theirs.csv", table(KEYS - common..2 * KEYS - common));
    // SQLite's driver makes no database.
    place.write("out.db", "");
    let (other, tap, words) = match run {
        Some(run) => {
            let mut other = Running::start(run.command(&place, "sender", "--listen 127.0.0.1:0"));
            let tap = Tap::before(&other.address());
            let words = run.words(&place, "receiver", &tap.endpoint());
            (other, tap, words)
        }
        None => {
            let (other, address) = served(&place);
            let tap = Tap::before(&address);
            let words = look_up(&place, &tap, "--set set.vset --state state");
            (other, tap, words)
        }
    };
    let slow = slow_files(&place, library, longer);
    let ended = place.run_after(&slow, &format!("{words} {output}"));
    ended.expect_success();
    let times = [tap.kept(Side::Client), tap.since_end(Side::Client)];
    match run {
        Some(_) => other.wait().expect_success(),
        None => stop(other),
    }
    times
}

/// On a slow disk, a side with all its keys in common takes seconds longer than one with none: both hang up as soon. What
/// else a machine does makes some runs longer, so the shortest of a few counts.
#[track_caller]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn expect_as_soon(longer: Duration, ways: &[Option<Run<'_>>], output: &str) {
    let Some(library) = crate::system_faults::library() else {
        return;
    };
    let near = Duration::from_millis(500);
    for way in ways {
        let times = |common| times_on_a_slow_disk(library, longer, *way, output, common);
        let mut shortest = [[Duration::MAX; 2]; 2];
        let as_soon = (0..5).any(|_| {
            for (shortest, common) in shortest.iter_mut().zip([0, KEYS]) {
                let [kept, written] = times(common);
                *shortest = [shortest[0].min(kept), shortest[1].min(written)];
            }
            let [[none, written_none], [all, written_all]] = shortest;
            all.abs_diff(none) < near && written_all > written_none + 2 * near
        });
        assert!(
            as_soon,
            "{way:?}, with no key in common and with all: {shortest:?}"
        );
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
fn a_slow_disk_does_not_tell_the_matches() {
    let ways = [
        Some(Run("", "", "")),
        Some(Run("", "--work-dir work", "")),
        Some(Run("--both", "", "--output o.csv")),
        None,
    ];
    expect_as_soon(Duration::from_millis(150), &ways, "--output out.csv");
}

/// The options of a command that name something, by its help.
fn options(place: &Place, command: &str) -> BTreeSet<String> {
    let help = place.run(&format!("{command} --help"));
    let lines = help.text().lines().map(str::trim);
    let options = lines.filter(|line| line.starts_with("--") && line.contains('<'));
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    options.filter_map(name).collect()
}

/// Whoever adds a command that has a peer and writes what it learns, or another place to write it to, finds it here, and puts
/// it into the tests above.
#[test]
fn what_is_written_where_a_peer_waits_is_known() {
    let place = Place::new();
    let help = place.run("--help");
    let (_, commands) = help.text().split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands = commands.filter_map(|line| line.split_whitespace().next());
    let mut found = BTreeSet::new();
    for command in commands {
        let all = options(&place, command);
        let meets = |option: &&str| all.contains(*option);
        if !["--peer", "--connect", "--listen"].iter().any(meets) {
            continue;
        }
        let writes = all.iter().filter(|option| {
            [
                "--message-out",
                "--output",
                "--output-table",
                "--message-out",
            ]
            .contains(&option.as_str())
        });
        found.extend(writes.map(|option| format!("{command} {option}")));
    }
    let known = [
        "exchange --message-out",
        "exchange --output",
        "exchange --output-table",
        "lookup --output",
        "lookup --output-table",
        "receive --output",
        "receive --output-table",
        "send --output",
        "send --output-table",
    ];
    assert!(found.iter().eq(known.iter()), "{found:?}");
}

/// A part of `make test-databases`, by its name.
mod databases {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::databases::{driver, postgresql, psql, secret, variable};

    /// A session that keeps all others from a table.
    struct Lock(Child);

    impl Lock {
        fn of(table: &str) -> Lock {
            let mut session = Command::new(variable("VESICA_TEST_PSQL"))
                .args("-qAt -v ON_ERROR_STOP=1 -d postgres -f -".split(' '))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lock =
                format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;\n\\echo locked\n");
            let stdin = session.stdin.as_mut().unwrap();
            stdin.write_all(lock.as_bytes()).unwrap();
            stdin.flush().unwrap();
            let mut line = String::new();
            let out = session.stdout.as_mut().unwrap();
            BufReader::new(out).read_line(&mut line).unwrap();
            assert_eq!(line, "locked\n");
            Lock(session)
        }

        fn release(mut self) {
            let mut stdin = self.0.stdin.take().unwrap();
            stdin.write_all(b"COMMIT;\n").unwrap();
            drop(stdin);
            assert!(self.0.wait().unwrap().success());
        }
    }

    /// A database of one's own, whose pages are written by the driver.
    #[test]
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    #[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
    fn a_slow_database_does_not_tell_the_matches() {
        let driver = driver("sqlite");
        let output = format!("--database sqlite:out.db --driver {driver} --output-table result");
        let ways = [Some(Run("", "", "")), None];
        expect_as_soon(Duration::from_millis(5), &ways, &output);
    }

    #[test]
    #[ignore = "needs a PostgreSQL server and ADBC drivers: make test-databases"]
    fn a_side_hangs_up_before_it_writes_to_a_table() {
        let place = place();
        let (server, address) = served(&place);
        secret(&place, "uri", &postgresql());
        psql("DROP TABLE IF EXISTS held; CREATE TABLE held (key text, v text, text text)");
        let driver = driver("postgresql");
        for is_run in [true, false] {
            // The sender's table comes once the receiver's result is locked; a look-up is fast enough.
            let mut sender = is_run.then(|| {
                let words = Run("", "", "").words(&place, "sender", "--listen 127.0.0.1:0");
                let words = words.replace("theirs.csv", "-");
                let mut command = place.command(&super::words(&words));
                command.stdin(Stdio::piped());
                let mut sender = Running::start(command);
                (sender.address(), sender)
            });
            let to = sender.as_ref().map_or(&address, |(address, _)| address);
            let tap = Tap::before(to);
            let words = match is_run {
                true => Run("", "", "").words(&place, "receiver", &tap.endpoint()),
                false => look_up(&place, &tap, "--set set.vset").replace("none", "plain"),
            };
            let words = format!(
                "{words} --database-file uri --driver {driver} --output-table held --output-table-mode append"
            );
            let mut receiver = Running::start(place.command(&super::words(&words)));
            receiver.wait_for("read ");
            let lock = Lock::of("held");
            if let Some((_, sender)) = &mut sender {
                let mut stdin = sender.process.stdin.take().unwrap();
                stdin
                    .write_all(place.read("theirs.csv").as_bytes())
                    .unwrap();
            }
            let has_ended = tap.await_end(Side::Client, PATIENCE);
            let waits = !receiver.has_ended();
            lock.release();
            let ended = receiver.wait();
            ended.expect_success();
            assert!(
                has_ended,
                "{words}: writes to a table while it is connected"
            );
            assert!(waits, "{words}: the lock was too late");
            if let Some((_, sender)) = sender {
                sender.wait().expect_success();
            }
        }
        assert_eq!(psql("SELECT count(*) FROM held"), KEYS.to_string());
        stop(server);
    }
}
