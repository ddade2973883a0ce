//! The account of what is answered, as those who keep it, their peers and whoever judges see it.

use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::Value;
use vesica::ledger::{Asked, Begun, Ledger, Rules};
use vesica::session::Fingerprint;

use crate::permutation::{Block, PERMUTATIONS, gate};
use crate::support::{self, Arguments, Ended, Place, Running};
use crate::trial::Dice;

fn table(ids: impl IntoIterator<Item = u64>) -> String {
    let rows = ids.into_iter().map(|id| format!("{id},{}\n", id % 7));
    ["id,amount\n".to_owned()].into_iter().chain(rows).collect()
}

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", table(0..60));
    place.write("theirs.csv", table(40..120));
    place
}

fn receive(words: &str) -> Arguments {
    Arguments::new("ours.csv", "id")
        .output("out.csv")
        .with(words)
}

fn send(words: &str) -> Arguments {
    Arguments::new("theirs.csv", "id").with(words)
}

/// How receiver and sender end.
fn exchange(place: &Place, receiver: &Arguments, sender: &Arguments) -> [Ended; 2] {
    let both = support::exchange(place, receiver, sender);
    [both.receiver, both.sender]
}

fn succeed(both: [&Ended; 2]) {
    both.into_iter().for_each(Ended::expect_success);
}

const OURS: &str = "--ledger ours.ledger";
const THEIRS: &str = "--ledger theirs.ledger";
/// For a side whose peer fails, which it waits for.
const NOT_LONG: &str = "--wait 5";
const NUMBER: &str = "--reveal sum --security semi-honest";

/// The lines of a ledger.
fn lines(place: &Place, ledger: &str) -> Vec<Value> {
    let text = place.read(ledger);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// What the lines of a ledger say: one word for each.
fn words_of(place: &Place, ledger: &str) -> Vec<String> {
    let known = ["created", "begun", "receipts", "ended", "refused"];
    let word = |line: &Value| {
        let found = known.iter().find(|name| line.get(**name).is_some());
        found.unwrap_or_else(|| panic!("{line}")).to_string()
    };
    lines(place, ledger).iter().map(word).collect()
}

fn verify(place: &Place, ledger: &str, more: &str) -> Ended {
    place.run(&format!("ledger verify {ledger} {more}"))
}

#[test]
fn both_sides_write_down_what_was_agreed_and_have_it_signed() {
    let place = place();
    let ours = receive(OURS).option("--purpose", "joint \"spring\" campaign");
    let [receiver, sender] = exchange(&place, &ours, &send(THEIRS));
    succeed([&receiver, &sender]);
    let said = "purpose of the receiver: \"joint \\\"spring\\\" campaign\"";
    assert!(sender.err.contains(said), "{}", sender.err);
    for ledger in ["ours.ledger", "theirs.ledger"] {
        assert_eq!(
            words_of(&place, ledger),
            ["created", "begun", "receipts", "ended"]
        );
        let verified = verify(&place, ledger, "");
        verified.expect_success();
        assert!(
            verified.text().starts_with("4 entries, 1 run, "),
            "{}",
            verified.text()
        );
        // No key, no row that matches and no count of these.
        let text = place.read(ledger);
        assert!(
            !text.contains("matches\":2") && !text.contains("\"answer\""),
            "{text}"
        );
    }
    let [ours, theirs] = ["ours.ledger", "theirs.ledger"].map(|ledger| lines(&place, ledger));
    let (one, other) = (&ours[1]["begun"], &theirs[1]["begun"]);
    for same in ["run", "session", "contract"] {
        assert_eq!(one[same], other[same], "{same}");
    }
    let of = |file: &str| {
        use sha2::Digest;
        let bytes = fs::read(place.path(file)).unwrap();
        let hex: String = sha2::Sha256::digest(bytes)
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        hex
    };
    for (begun, file, role, items) in [
        (one, "ours.csv", "receiver", 60),
        (other, "theirs.csv", "sender", 80),
    ] {
        assert_eq!(begun["table"], file);
        assert_eq!(begun["input"][0]["sha256"], Value::from(of(file)));
        assert_eq!(begun["role"], role);
        assert_eq!(begun["items"], items);
        assert_eq!(begun["key"][0]["column"], "id");
    }
    assert_eq!(other["peer_purpose"], "joint \"spring\" campaign");
    let (given, taken) = (&ours[2]["receipts"]["given"], &ours[2]["receipts"]["taken"]);
    assert_eq!(
        (given, taken),
        (
            &theirs[2]["receipts"]["taken"],
            &theirs[2]["receipts"]["given"]
        )
    );
    assert_eq!(ours[3]["ended"]["result"], "done");

    let list = place.run("ledger list ours.ledger");
    list.expect_success();
    let line = list.text();
    for words in [
        "matches, ours.csv of 60 and 80 keys",
        "receipts, done",
        "for \"joint \\\"spring\\\" campaign\"",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    let export = place.run("ledger export ours.ledger --csv --output runs.csv");
    export.expect_success();
    assert_eq!(place.read("runs.csv").lines().count(), 2);
    let json = place.run("ledger list ours.ledger --json");
    let runs: Value = serde_json::from_str(json.text()).unwrap();
    assert_eq!(runs[0]["begun"]["run"], one["run"]);
    let none = place.run("ledger list ours.ledger --run 0000000000000000");
    assert_eq!(none.text(), "");
}

/// Where one side keeps account, the other one signs, and keeps nothing.
#[test]
fn a_side_without_a_ledger_gives_a_receipt_too() {
    let place = place();
    for (ours, theirs) in [(OURS, ""), ("", THEIRS)] {
        let [receiver, sender] = exchange(&place, &receive(ours), &send(theirs));
        succeed([&receiver, &sender]);
        fs::remove_file(place.path("out.csv")).unwrap();
    }
    for ledger in ["ours.ledger", "theirs.ledger"] {
        let receipts = &lines(&place, ledger)[2]["receipts"];
        let taken: Value =
            serde_json::from_str(receipts["taken"]["statement"].as_str().unwrap()).unwrap();
        assert_eq!(taken["ledger"], "0".repeat(64));
    }
}

#[test]
fn what_was_revealed_is_written_down_where_that_is_asked_for() {
    let place = place();
    let ours = Arguments::new("ours.csv", "id")
        .with(&format!("{OURS} --ledger-answers {NUMBER} --value amount"));
    let theirs = send(&format!("{THEIRS} {NUMBER}"));
    let [receiver, sender] = exchange(&place, &ours, &theirs);
    succeed([&receiver, &sender]);
    let answer = &lines(&place, "ours.ledger")[3]["ended"]["answer"];
    assert_eq!(answer["value"].to_string(), receiver.text().trim());
    assert_eq!(
        lines(&place, "theirs.ledger")[3]["ended"]["answer"],
        Value::Null
    );
    assert_eq!(
        lines(&place, "ours.ledger")[1]["begun"]["values"][0],
        "amount"
    );
}

/// A peer's receipts show that a ledger was cut, whoever has what is kept outside of it.
#[test]
fn an_older_copy_is_found_by_this_side_or_by_its_peer() {
    let place = place();
    let mut copies = vec![];
    for _ in 0..2 {
        let [receiver, sender] = exchange(&place, &receive(OURS), &send(THEIRS));
        succeed([&receiver, &sender]);
        copies.push(place.read("ours.ledger"));
    }
    place
        .run("ledger export theirs.ledger --receipts --output signed")
        .expect_success();
    let verified = verify(&place, "ours.ledger", "--receipts signed");
    verified.expect_success();
    assert!(
        verified
            .err
            .contains("2 receipts of entries of these ledgers"),
        "{}",
        verified.err
    );

    place.write("ours.ledger", &copies[0]);
    let older = "is an older copy, or was cut: it ends with entry 3, and entry 6 was written";
    verify(&place, "ours.ledger", "").expect_failure(3, older);
    // Nor does a run go on with it.
    let theirs = send(&format!("{THEIRS} {NOT_LONG}"));
    let [receiver, _] = exchange(&place, &receive(OURS), &theirs);
    receiver.expect_failure(3, older);
    let lost = place.path("lost");
    fs::rename(place.state().join("vesica"), lost).unwrap();
    verify(&place, "ours.ledger", "").expect_success();
    let cut = verify(&place, "ours.ledger", "--receipts signed");
    cut.expect_failure(3, "for a run that is in none of these ledgers");

    // What a peer says has to be signed.
    let forged = place
        .read("signed")
        .replace("\\\"role\\\":\\\"receiver", "\\\"role\\\":\\\"sender");
    place.write("forged", forged);
    verify(&place, "ours.ledger", "--receipts forged")
        .expect_failure(3, "has a receipt that is not valid");
    // And every line of one's own as it was.
    place.write(
        "ours.ledger",
        copies[1].replacen("\"items\":60", "\"items\":61", 1),
    );
    verify(&place, "ours.ledger", "").expect_failure(3, "is not as it was written: line 2");
}

fn rules(place: &Place, text: &str) {
    place.write(
        "rules.toml",
        format!("[[rule]]\nname = \"partner\"\n{text}\n"),
    );
}

/// A refusal tells the peer neither a rule nor a size, and writes no entry.
#[test]
fn rules_refuse_before_a_size_is_told() {
    let place = place();
    rules(&place, "period = \"7d\"\nruns = 1");
    let theirs = send(&format!("{THEIRS} --rules rules.toml"));
    let [receiver, sender] = exchange(&place, &receive(""), &theirs);
    succeed([&receiver, &sender]);
    let words = words_of(&place, "theirs.ledger");
    let [receiver, sender] = exchange(&place, &receive("--report report.json"), &theirs);
    let refused = "the rule \"partner\" does not allow this run: 1 of 1 runs with this peer";
    sender.expect_failure(7, refused);
    assert_eq!(receiver.code, Some(7), "{}", receiver.err);
    assert!(
        receiver.err.contains("it cannot take part"),
        "{}",
        receiver.err
    );
    for text in [&receiver.err, &place.read("report.json")] {
        let mut words = text.split(|part: char| !part.is_alphanumeric() && part != '.');
        let told = words.find(|word| ["rule", "partner", "80"].contains(word));
        assert_eq!(told, None, "{text}");
    }
    let after = words_of(&place, "theirs.ledger");
    assert_eq!(after, [&words[..], &["refused".to_owned()]].concat());
    assert_eq!(
        lines(&place, "theirs.ledger")[4]["refused"]["rule"],
        "partner"
    );
    // On the side that asks too.
    rules(&place, "reveal = \"size\"");
    let [receiver, _] = exchange(
        &place,
        &receive(&format!("{OURS} --rules rules.toml")),
        &send(""),
    );
    receiver.expect_failure(7, "it does not let matches be revealed");
}

/// Rules that cannot be read end a run before it looks for its peer.
#[test]
fn rules_that_cannot_be_read_end_a_run_at_once() {
    let place = place();
    place.write("rules.toml", "nonsense");
    let nobody = "--connect 127.0.0.1:1";
    let [ours, theirs] = [receive(OURS), send(THEIRS)]
        .map(|arguments| arguments.with("--rules rules.toml --wait 60"));
    for running in [place.receiver(&ours, nobody), place.sender(&theirs, nobody)] {
        let ended = running.wait();
        ended.expect_failure(2, "the rules rules.toml");
        assert!(!ended.err.contains("connecting"), "{}", ended.err);
    }
}

/// A table that differs by a few keys asks about these, under whichever name it goes.
#[test]
fn a_table_that_has_hardly_changed_is_not_answered_about() {
    let place = place();
    rules(&place, "period = \"7d\"\nleast-change = 10");
    let theirs =
        |input: &str| Arguments::new(input, "id").with(&format!("{THEIRS} --rules rules.toml"));
    let run = |input: &str| {
        let [_, sender] = exchange(&place, &receive(""), &theirs(input));
        sender
    };
    run("theirs.csv").expect_success();
    run("theirs.csv").expect_success();
    place.write("more.csv", table(40..123));
    run("more.csv").expect_failure(
        7,
        "the table differs by 3 keys from one that was answered about",
    );
    place.write("other.csv", table(40..140));
    run("other.csv").expect_success();
    place.write("near.csv", table(41..120));
    run("near.csv").expect_failure(7, "the table differs by 1 key");
    // What was kept is encrypted, for this user alone, and has to be there.
    let kept = place.state().join("vesica/ledgers");
    let files: Vec<PathBuf> = fs::read_dir(&kept)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    let keys = files
        .iter()
        .find(|file| file.to_string_lossy().ends_with(".keys"))
        .unwrap();
    fs::remove_file(keys).unwrap();
    run("other.csv").expect_failure(7, "is gone, or an older copy");
}

#[test]
fn runs_by_files_are_written_down_once() {
    let place = place();
    let step = |role: &str, step: &str, more: &str| {
        let (peer, input, ledger) = match role {
            "receiver" => (place.sender, "ours.csv", OURS),
            _ => (place.receiver, "theirs.csv", THEIRS),
        };
        place.run(&format!(
            "exchange {step} --role {role} --input {input} --key id --identity {role}.key --peer {peer} \
             --state {role}.state --progress none {ledger} {more}"
        ))
    };
    for (role, name, more) in [
        ("sender", "offer", "--message-out 1"),
        ("receiver", "start", "--message 1 --message-out 2"),
        ("sender", "answer", "--message 2 --message-out 3"),
        ("receiver", "finish", "--message 3 --output out.csv"),
    ] {
        step(role, name, more).expect_success();
    }
    for ledger in ["ours.ledger", "theirs.ledger"] {
        assert_eq!(
            words_of(&place, ledger),
            ["created", "begun", "ended"],
            "{ledger}"
        );
        verify(&place, ledger, "").expect_success();
    }
    assert_eq!(
        lines(&place, "ours.ledger")[1]["begun"]["session"],
        lines(&place, "theirs.ledger")[1]["begun"]["session"]
    );
    // No step goes past the account that the one before has kept.
    let offer = |more: &str| {
        place.run(&format!(
            "exchange offer --role sender --input theirs.csv --key id --identity sender.key --peer {} --state one \
             --message-out one.out {more}",
            place.receiver
        ))
    };
    offer("--ledger one.ledger").expect_success();
    offer("").expect_failure(2, "is of a run with other options");
    // A rule is looked at before a size is told, which an offer does.
    rules(&place, "runs = 1\nperiod = \"1d\"");
    let refused = place.run(&format!(
        "exchange offer --role sender --input theirs.csv --key id --identity sender.key --peer {} --state again \
         --message-out 4 {THEIRS} --rules rules.toml",
        place.receiver
    ));
    refused.expect_failure(7, "1 of 1 runs with this peer");
    assert!(!place.path("4").exists());
}

#[test]
fn jobs_in_tasks_and_look_ups_are_written_down() {
    let place = place();
    let start = |words: String| {
        Running::start(
            place.command(
                &words
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            ),
        )
    };
    let of = |command: &str, role: &str, more: &str| {
        let (peer, input, ledger) = match role {
            "receiver" => (place.sender, "ours.csv", OURS),
            _ => (place.receiver, "theirs.csv", THEIRS),
        };
        let table = match command {
            "split" => format!("--role {role} --input {input} --key id {NUMBER}"),
            _ => String::new(),
        };
        let value = if command == "split" && role == "receiver" {
            "--value amount"
        } else {
            ""
        };
        format!(
            "{command} --job {role}.job {table} {value} --identity {role}.key --peer {peer} --progress plain {ledger} {more}"
        )
    };
    let both = |command: &str| {
        let mut receiver = start(of(command, "receiver", "--listen 127.0.0.1:0"));
        let endpoint = receiver.endpoint();
        let sender = start(of(command, "sender", &endpoint));
        [receiver, sender].map(Running::wait)
    };
    succeed(both("split").each_ref());
    assert_eq!(
        words_of(&place, "ours.ledger"),
        ["created", "begun", "receipts"]
    );
    let mut task =
        start("bucket --job receiver.job --bucket 0 --listen 127.0.0.1:0 --progress plain".into());
    let endpoint = task.endpoint();
    let other = start(format!(
        "bucket --job sender.job --bucket 0 {endpoint} --progress plain"
    ));
    succeed([task, other].map(Running::wait).each_ref());
    succeed(both("total").each_ref());
    for ledger in ["ours.ledger", "theirs.ledger"] {
        assert_eq!(
            words_of(&place, ledger),
            ["created", "begun", "receipts", "ended"],
            "{ledger}"
        );
        verify(&place, ledger, "").expect_success();
        assert_eq!(lines(&place, ledger)[1]["begun"]["command"], "split");
    }

    place.run("publish --identity sender.key --input theirs.csv --key id --set-dir database --output set.vset --progress none").expect_success();
    place.write("clients", place.receiver.to_string());
    let mut server = start(
        "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 --quota 1000 --ledger served.ledger"
            .into(),
    );
    let endpoint = server.endpoint();
    let found = place.run(&format!(
        "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input ours.csv --key id --output found.csv \
         --ledger asked.ledger",
        place.sender
    ));
    found.expect_success();
    assert_eq!(
        words_of(&place, "asked.ledger"),
        ["created", "begun", "ended"]
    );
    assert_eq!(words_of(&place, "served.ledger"), ["created", "begun"]);
    let (asked, served) = (
        &lines(&place, "asked.ledger")[1],
        &lines(&place, "served.ledger")[1],
    );
    assert_eq!(asked["begun"]["items"], 60);
    assert_eq!(served["begun"]["peer_items"], 60);
    assert_eq!(
        served["begun"]["peer"],
        Value::from(place.receiver.to_string())
    );
    drop(server);
    // A ledger that cannot be written is found before a client asks.
    place.write("no.ledger", "id\n1\n");
    let refused = place.run(
        "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 --quota 1000 --ledger no.ledger",
    );
    refused.expect_failure(2, "is no ledger");
}

/// Nothing of a run that was begun without an entry is had with a ledger, and so past its rules.
#[test]
fn what_an_earlier_run_has_found_needs_its_entry() {
    let place = place();
    let keeping = Arguments::new("ours.csv", "id").with("--work-dir work");
    let stuck = keeping.clone().with("--output -").after("exec >/dev/full");
    let [receiver, sender] = exchange(&place, &stuck, &send("--work-dir theirs.work"));
    assert_ne!(receiver.code, Some(0));
    sender.expect_success();
    let again = |words: &str| {
        place
            .receiver(
                &keeping.clone().with(&format!("--output out.csv {words}")),
                "--connect 127.0.0.1:1",
            )
            .wait()
    };
    again(OURS).expect_failure(2, "has no entry by which this run has begun");
    assert!(!place.path("out.csv").exists());
    again("").expect_success();

    let job = |role: &str, input: &str, endpoint: &str| {
        let peer = if role == "receiver" {
            place.sender
        } else {
            place.receiver
        };
        let words = format!(
            "split --job {role}.job --role {role} --input {input} --key id --identity {role}.key --peer {peer} \
             --progress plain {endpoint}"
        );
        Running::start(
            place.command(
                &words
                    .split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            ),
        )
    };
    let mut receiver = job("receiver", "ours.csv", "--listen 127.0.0.1:0");
    let endpoint = receiver.endpoint();
    let sender = job("sender", "theirs.csv", &endpoint);
    succeed([receiver, sender].map(Running::wait).each_ref());
    let collected = place.run(&format!(
        "collect --job receiver.job --input ours.csv --key id --output rows.csv {OURS}"
    ));
    collected.expect_failure(2, "has no entry by which this run has begun");
}

/// A run that broke off before anything was sent that depends on a key says so.
#[test]
fn a_run_that_ended_before_it_was_answered_says_so() {
    let place = place();
    rules(&place, "least-peer-items = 61");
    let theirs = send(&format!("{THEIRS} --rules rules.toml"));
    let [receiver, sender] = exchange(&place, &receive(OURS), &theirs);
    sender.expect_failure(7, "the peer has 60 keys, and 61 are the fewest");
    assert_ne!(receiver.code, Some(0));
    assert_eq!(words_of(&place, "theirs.ledger"), ["created", "refused"]);
    assert_eq!(
        words_of(&place, "ours.ledger"),
        ["created", "begun", "ended"]
    );
    let ended = &lines(&place, "ours.ledger")[2]["ended"];
    assert_eq!(ended["unanswered"], true);
    let list = place.run("ledger list ours.ledger");
    assert!(
        list.text().contains("no receipts, resource, unanswered"),
        "{}",
        list.text()
    );
}

/// What others have written is shown as text, on a terminal and in a spreadsheet.
#[test]
fn what_others_say_is_shown_as_text() {
    let place = place();
    let ours = receive("").option("--purpose", "=HYPERLINK(\"http://example.org\")");
    let [receiver, sender] = exchange(&place, &ours, &send(THEIRS));
    succeed([&receiver, &sender]);
    let csv = place.run("ledger export theirs.ledger --csv");
    assert!(csv.text().contains("\"'=HYPERLINK("), "{}", csv.text());
}

#[test]
fn a_ledger_that_cannot_be_kept_ends_the_run_before_it_answers() {
    let place = place();
    place.write("notes.txt", "call the partner\n");
    place.write("link.target", "");
    std::os::unix::fs::symlink(place.path("link.target"), place.path("link")).unwrap();
    for (ledger, code, words) in [("notes.txt", 2, "is no ledger"), ("link", 2, "link")] {
        let theirs = send(&format!("--ledger {ledger}"));
        let [receiver, sender] = exchange(&place, &receive(NOT_LONG), &theirs);
        sender.expect_failure(code, words);
        assert_ne!(receiver.code, Some(0));
        assert!(!place.path("out.csv").exists());
    }
    assert_eq!(place.read("notes.txt"), "call the partner\n");
    let same = place.sender(&send("--ledger theirs.csv"), "--listen 127.0.0.1:0");
    same.wait()
        .expect_failure(2, "--ledger and --input are the same file");
    for (purpose, words) in [
        ("x".repeat(201), "more than 200 bytes"),
        ("a\u{202e}b".into(), "cannot be printed"),
    ] {
        let ended = place
            .receiver(
                &receive("").option("--purpose", &purpose),
                "--listen 127.0.0.1:0",
            )
            .wait();
        ended.expect_failure(2, words);
    }
    for (text, words) in [
        ("runs = 1", "has none; add one"),
        ("run = 1", "run"),
        ("peer = \"x\"", "\"x\""),
    ] {
        rules(&place, text);
        let ended = place
            .receiver(
                &receive(&format!("{OURS} --rules rules.toml")),
                "--listen 127.0.0.1:0",
            )
            .wait();
        ended.expect_failure(2, words);
    }
}

/// How long a side waits for one that was killed.
const SOON: &str = "--wait 1";

/// Kills one side at a random moment within this time: whatever the other side has of it, the entry is there.
fn kill(place: &Place, dice: &mut Dice, within: Duration, counts: &mut [u32; 3]) {
    let output = place.path("out.csv");
    let _ = fs::remove_file(&output);
    let began = Instant::now();
    let mut receiver = place.receiver(&receive(OURS).with(SOON), "--listen 127.0.0.1:0");
    let endpoint = receiver.endpoint();
    let mut sender = place.sender(&send(THEIRS).with(SOON), &endpoint);
    let is_receiver = dice.once_in(2);
    let wait = Duration::from_micros(dice.below(within.as_micros() as u64));
    std::thread::sleep(wait.saturating_sub(began.elapsed()));
    let victim = if is_receiver {
        &mut receiver
    } else {
        &mut sender
    };
    victim.process.kill().unwrap();
    let [receiver, sender] = [receiver, sender].map(Running::wait);
    let runs = |ledger: &str| match place.path(ledger).exists() {
        true => words_of_whole(place, ledger)
            .iter()
            .filter(|word| *word == "begun")
            .count() as u32,
        false => 0,
    };
    let [ours, theirs] = [runs("ours.ledger"), runs("theirs.ledger")];
    // The receiver has an answer of the sender only if the sender has written it down, and the sender has heard of an item
    // only if the receiver has.
    if output.exists() {
        counts[0] += 1;
        assert!(
            theirs > counts[2],
            "the receiver was answered, and there is no entry"
        );
    }
    if sender.code == Some(0) || receiver.code == Some(0) {
        assert!(
            ours > counts[1],
            "the receiver has asked, and there is no entry"
        );
    }
    (counts[1], counts[2]) = (ours, theirs);
}

/// The words of the lines that were written whole.
fn words_of_whole(place: &Place, ledger: &str) -> Vec<String> {
    let book = Ledger::new(place.path(ledger)).read().unwrap();
    let word = |entry: &vesica::ledger::Entry| match &entry.body {
        vesica::ledger::Body::Begun(_) => "begun".to_owned(),
        _ => "other".to_owned(),
    };
    book.entries().iter().map(word).collect()
}

fn kill_times(times: u32, seed: u64) -> [u32; 3] {
    let place = place();
    let began = Instant::now();
    for ended in exchange(&place, &receive(OURS), &send(THEIRS)) {
        ended.expect_success();
    }
    let within = began.elapsed() * 3 / 2;
    let (mut dice, mut counts) = (Dice::new(seed), [0, 1, 1]);
    (0..times).for_each(|_| kill(&place, &mut dice, within, &mut counts));
    for ledger in ["ours.ledger", "theirs.ledger"] {
        verify(&place, ledger, "").expect_success();
    }
    counts
}

#[test]
fn whatever_is_killed_there_is_no_answer_without_its_entry() {
    let [_, ours, theirs] = kill_times(12, 1);
    assert!(ours > 1 && theirs > 1);
}

#[test]
#[ignore = "500 runs, some three minutes"]
fn whatever_is_killed_500_times_there_is_no_answer_without_its_entry() {
    let [answered, ours, theirs] = kill_times(500, 2);
    assert!(
        answered > 20 && ours > answered && theirs > answered && ours < 500,
        "{answered} {ours} {theirs}"
    );
}

/// The time of a refusal does not say by how much the table differs from the one before.
#[test]
#[ignore = "some minutes on a machine that does nothing else"]
fn the_time_of_a_refusal_says_nothing_of_the_difference() {
    const KEYS: u64 = 1 << 15;
    const BLOCKS: usize = 100;
    let place = Place::new();
    let ledger = Ledger::new(place.path("answers")).with_state(place.state());
    let rules = Rules::parse(&format!(
        "[[rule]]\nname = \"r\"\nperiod = \"7d\"\nleast-change = {}",
        4 * KEYS
    ))
    .unwrap();
    let peer = Fingerprint::from_bytes([1; 32]);
    let asked = Asked {
        peer,
        table: "t",
        profiles: &[],
        reveals: vesica::Reveal::Size.into(),
        items: KEYS,
        peer_items: None,
        min_size: 0,
        groups: 1,
        epsilon: None,
        is_padded: false,
    };
    let keys = |from: u64| {
        ledger
            .own_keys(KEYS, |add| {
                for key in from..from + KEYS {
                    let mut digest = [0; 32];
                    digest[..8].copy_from_slice(&key.to_le_bytes());
                    add(&digest);
                }
                Ok::<(), vesica::ledger::Error>(())
            })
            .unwrap()
    };
    let dice = &mut Dice::new(3);
    let first = keys(0);
    let begun = Begun {
        session: "a".into(),
        peer: peer.to_string(),
        table: "t".into(),
        ..Begun::default()
    };
    ledger
        .begin(begun, Some((&rules, &asked, Some(&first))))
        .unwrap();
    // One key, half of them, all of them.
    let arms = [1, KEYS / 2, KEYS].map(keys);
    let time = |arm: usize, delay: Duration| {
        let start = Instant::now();
        let refused = black_box(ledger.check((&rules, "send"), &asked, Some(&arms[arm])));
        assert!(refused.is_err());
        let until = start + start.elapsed() + delay;
        while Instant::now() < until {}
        start.elapsed().as_secs_f64()
    };
    let blocks = |nanoseconds: u64, dice: &mut Dice| -> Vec<Block<3>> {
        (0..BLOCKS)
            .map(|_| {
                let mut order = [0, 1, 2];
                dice.shuffle(&mut order);
                let mut times = [0.0; 3];
                for arm in order {
                    let differs = [1, KEYS / 2, KEYS][arm];
                    times[arm] = time(arm, Duration::from_nanos(nanoseconds * differs));
                }
                times
            })
            .collect()
    };
    let verdicts = |nanoseconds, dice: &mut Dice| {
        let measuring = &mut Dice::new(dice.below(u64::MAX));
        gate(1, (0.01, PERMUTATIONS), dice, |_| {
            blocks(nanoseconds, measuring)
        })
    };
    assert!(
        !verdicts(0, dice)[0].differs,
        "the time of a refusal depends on the difference"
    );
    // Ten nanoseconds for each key would be seen.
    assert!(verdicts(10, dice)[0].differs, "the gate sees nothing");
}
