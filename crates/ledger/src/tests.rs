//! Ledgers that were changed, cut and copied, and rules against a plain model.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::TempDir;
use vesica_primitives::laplace::Epsilon;
use vesica_session::{ErrorClass, Fingerprint, Reveal};

use crate::{
    Asked, Begun, Ended, Error, Head, Ledger, OwnKeys, Problem, Refusal, Result as Ending, Rules,
};

thread_local! {
    /// Seconds since the beginning of a test.
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// A command.
const SEND: &str = "send";

fn epsilon_of(text: &str) -> Option<Epsilon> {
    Some(text.parse().unwrap())
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + NOW.get())
}

/// A directory with a ledger, whose state is elsewhere in it.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        let place = tempfile::tempdir().unwrap();
        let state = place.path().join("state");
        fs::create_dir(&state).unwrap();
        Place(place)
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("answers.ledger")
    }

    fn state(&self) -> std::path::PathBuf {
        self.0.path().join("state")
    }

    fn ledger(&self) -> Ledger {
        Ledger::new(self.file()).at(now).with_state(self.state())
    }

    /// The same without a place outside of the file.
    fn bare(&self) -> Ledger {
        Ledger::new(self.file()).at(now)
    }
}

fn peer(number: u8) -> Fingerprint {
    Fingerprint::from_bytes([number; 32])
}

fn begun(session: &str, peer: Fingerprint, table: &str) -> Begun {
    Begun {
        run: session.to_owned(),
        session: session.to_owned(),
        peer: peer.to_string(),
        table: table.to_owned(),
        ..Begun::default()
    }
}

fn end(ledger: &Ledger, head: &Head) {
    let ended = Ended {
        of: head.entry,
        result: Ending::Done,
        unanswered: false,
        answer: None,
    };
    ledger.end(ended).unwrap();
}

/// A ledger of three runs, of which the last has not ended.
fn of_three(place: &Place) -> Vec<String> {
    let ledger = place.ledger();
    for session in ["a", "b", "c"] {
        let head = ledger
            .begin(begun(session, peer(1), "t.csv"), None)
            .unwrap();
        if session != "c" {
            end(&ledger, &head);
        }
    }
    let text = fs::read_to_string(place.file()).unwrap();
    text.lines().map(|line| format!("{line}\n")).collect()
}

fn problem<T: std::fmt::Debug>(read: Result<T, Error>) -> Problem {
    match read {
        Err(Error::Ledger { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_ledger_says_what_was_written() {
    let place = Place::new();
    let lines = of_three(&place);
    let book = place.ledger().read().unwrap();
    assert_eq!(lines.len(), 6);
    assert_eq!(book.entries().len(), 6);
    let sessions: Vec<&str> = book.runs().map(|(_, begun)| &*begun.session).collect();
    assert_eq!(sessions, ["a", "b", "c"]);
    let ended: Vec<bool> = [1, 3, 5].map(|of| book.ended(of).is_some()).into();
    assert_eq!(ended, [true, true, false]);
    // A session is written once.
    let ledger = place.ledger();
    let again = ledger
        .begin_once(begun("b", peer(1), "t.csv"), None)
        .unwrap();
    assert_eq!(again.entry, 3);
    assert_eq!(ledger.last_of("c").unwrap().unwrap().entry, 5);
    assert_eq!(ledger.last_of("d").unwrap(), None);
    assert_eq!(fs::read_to_string(place.file()).unwrap(), lines.concat());
}

/// Each line changed, removed, repeated, moved: whatever does not only cut the end.
#[test]
fn every_change_but_a_cut_is_found_without_a_state() {
    let place = Place::new();
    let lines = of_three(&place);
    let is_found = |lines: &[String]| {
        fs::write(place.file(), lines.concat()).unwrap();
        place.bare().read().is_err()
    };
    assert!(!is_found(&lines));
    for at in 0..lines.len() {
        let with = |change: &dyn Fn(&mut Vec<String>)| {
            let mut other = lines.clone();
            change(&mut other);
            other
        };
        let is_last = at + 1 == lines.len();
        assert!(is_found(&with(
            &|lines| lines[at] = lines[at].replacen("2027", "2026", 1)
        )));
        assert_eq!(is_found(&with(&|lines| drop(lines.remove(at)))), !is_last);
        assert!(is_found(
            &with(&|lines| lines.insert(at, lines[at].clone()))
        ));
        assert!(is_found(&with(&|lines| lines.insert(at, "\n".into()))));
        assert!(is_found(
            &with(&|lines| lines.insert(at, "# note\n".into()))
        ));
        // A part of an entry is told, since that is what a stop of the machine leaves.
        let part = format!("{}\n", &lines[at][..50]);
        assert!(!is_found(&with(&|lines| lines.insert(at, part.clone()))));
        assert_eq!(place.bare().read().unwrap().torn(), [at + 1]);
        if !is_last {
            assert!(is_found(&with(&|lines| lines.swap(at, at + 1))));
        }
    }
}

#[test]
fn a_cut_and_an_older_copy_are_found_by_the_state() {
    let place = Place::new();
    let lines = of_three(&place);
    let ledger = place.ledger();
    for count in 1..lines.len() {
        fs::write(place.file(), lines[..count].concat()).unwrap();
        assert!(place.bare().read().is_ok());
        for refused in [
            problem(ledger.read()),
            problem(ledger.begin(begun("d", peer(1), "t.csv"), None)),
        ] {
            assert!(
                matches!(refused, Problem::Older { last: 5, .. }),
                "{refused:?}"
            );
        }
    }
    // Another end in the place of what was cut.
    fs::write(place.file(), lines[..5].concat()).unwrap();
    place
        .bare()
        .begin(begun("z", peer(1), "t.csv"), None)
        .unwrap();
    assert_eq!(problem(ledger.read()), Problem::Other(5));
    // A ledger that goes on without its state, as on another machine, is the one that it was.
    fs::write(place.file(), lines.concat()).unwrap();
    place
        .bare()
        .begin(begun("e", peer(1), "t.csv"), None)
        .unwrap();
    ledger.begin(begun("f", peer(1), "t.csv"), None).unwrap();
    let error = Error::Ledger {
        path: place.file(),
        problem: Problem::Other(5),
    };
    assert_eq!(error.class(), ErrorClass::Data);
    // One that is gone, and one that was emptied, are not begun again in their place.
    for remove in [false, true] {
        match remove {
            true => fs::remove_file(place.file()).unwrap(),
            false => fs::write(place.file(), "").unwrap(),
        }
        let begun = ledger.begin(begun("a", peer(1), "t.csv"), None);
        assert!(matches!(problem(begun), Problem::Gone(_)));
    }
    let another = Ledger::new(place.0.path().join("other")).with_state(place.state());
    another.begin(begun("a", peer(1), "t.csv"), None).unwrap();
}

/// Where its mark is gone, as on another machine, rules do not go by a ledger until somebody says that it is the last one.
#[test]
fn rules_go_by_a_ledger_that_is_known_to_be_the_last() {
    NOW.set(0);
    let place = Place::new();
    of_three(&place);
    assert!(place.ledger().is_known().unwrap());
    let elsewhere = place.0.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let ledger = Ledger::new(place.file()).at(now).with_state(&elsewhere);
    assert!(!ledger.is_known().unwrap());
    let any = rules("[[rule]]\nname = \"r\"");
    let checked = ledger.check((&any, SEND), &asked(peer(1), "t"), None);
    assert_eq!(problem(checked), Problem::Unknown);
    ledger.adopt().unwrap();
    assert!(ledger.is_known().unwrap());
    ledger
        .check((&any, SEND), &asked(peer(1), "t"), None)
        .unwrap();
    ledger.begin(begun("d", peer(1), "t.csv"), None).unwrap();
    // The machine before has an older mark, which fits; one that has gone on does not.
    place
        .ledger()
        .begin(begun("e", peer(1), "t.csv"), None)
        .unwrap();
    assert!(ledger.read().is_ok());
    // A mark that was removed beside its key is missed.
    let base: BTreeSet<u16> = (0..10).collect();
    keys(&ledger, &base);
    let marks = fs::read_dir(&elsewhere)
        .unwrap()
        .map(|file| file.unwrap().path());
    let last = marks.filter(|file| file.to_string_lossy().ends_with(".last"));
    last.for_each(|file| fs::remove_file(file).unwrap());
    assert!(matches!(problem(ledger.read()), Problem::BadMark(_)));
}

/// Another ledger in the place of one that is known would count anew, wherever it comes from.
#[test]
fn no_other_ledger_takes_the_place_of_one_unnoticed() {
    let place = Place::new();
    let other = place.0.path().join("other.ledger");
    let another = || Ledger::new(&other).at(now).with_state(place.state());
    for ledger in [place.ledger(), another()] {
        // The second time only its end is looked at.
        for session in ["a", "b"] {
            ledger
                .begin(begun(session, peer(1), "t.csv"), None)
                .unwrap();
        }
    }
    fs::rename(&other, place.file()).unwrap();
    let begin = |ledger: Ledger| ledger.begin(begun("c", peer(1), "t.csv"), None);
    assert_eq!(problem(begin(place.ledger())), Problem::Another);
    assert!(matches!(problem(begin(another())), Problem::Gone(_)));
    place.ledger().adopt().unwrap();
    begin(place.ledger()).unwrap();
    // One that was moved and used is known where it is now.
    let moved = place.0.path().join("moved");
    fs::rename(place.file(), &moved).unwrap();
    let ledger = || Ledger::new(&moved).at(now).with_state(place.state());
    begin(ledger()).unwrap();
    fs::remove_file(&moved).unwrap();
    assert!(matches!(problem(begin(ledger())), Problem::Gone(_)));
    assert!(matches!(problem(ledger().adopt()), Problem::NoFile));
    assert!(!moved.exists());
}

/// A ledger from another machine is not locked by the first look at it, and its name leads nowhere.
#[test]
fn a_ledger_from_elsewhere_can_be_adopted_whatever_its_name() {
    NOW.set(0);
    let place = Place::new();
    of_three(&place);
    let elsewhere = place.0.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let ledger = Ledger::new(place.file()).at(now).with_state(&elsewhere);
    let looked: Result<OwnKeys, Error> = ledger.own_keys(0, |_| Ok(()));
    assert_eq!(problem(looked), Problem::Unknown);
    ledger.adopt().unwrap();
    keys(&ledger, &(0..10).collect());

    let text = fs::read_to_string(place.file()).unwrap();
    let first: crate::Entry = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    for name in [
        "../planted",
        "/tmp/planted",
        "",
        "A0000000000000000000000000000000",
    ] {
        let mut first = first.clone();
        if let crate::Body::Created(created) = &mut first.body {
            created.ledger = name.into();
        }
        fs::write(place.file(), first.seal().unwrap().0).unwrap();
        assert!(
            matches!(problem(ledger.read()), Problem::Changed { line: 1, .. }),
            "{name}"
        );
        assert!(ledger.adopt().is_err() && ledger.make().is_err());
    }
}

/// What is kept of tables is erased by the first run after its time, whether that has rules or not.
#[test]
fn keys_are_erased_by_runs_without_rules_too() {
    NOW.set(0);
    let place = Place::new();
    answer(&place, &rules(WEEKLY), "a", &(0..10).collect()).unwrap();
    let kept = || {
        let files = fs::read_dir(place.state())
            .unwrap()
            .map(|file| file.unwrap().path());
        files
            .filter(|file| file.to_string_lossy().ends_with(".keys"))
            .count()
    };
    let begin = |session: &str| {
        place
            .ledger()
            .begin(begun(session, peer(1), "t"), None)
            .unwrap();
    };
    NOW.set(7 * 86_400 - 5);
    begin("b");
    assert_eq!(kept(), 1);
    NOW.set(7 * 86_400 + 5);
    begin("c");
    assert_eq!(kept(), 0);
}

/// What peers are told of an entry tests no guess of it: not even of one that is known but for its salt.
#[test]
fn the_same_words_have_another_hash_each_time() {
    let place = Place::new();
    let other = Place::new();
    let heads = [&place, &other].map(|place| {
        place
            .ledger()
            .begin(begun("a", peer(1), "t.csv"), None)
            .unwrap();
        let book = place.ledger().read().unwrap();
        let entries: Vec<_> = book
            .entries()
            .iter()
            .map(|entry| entry.salt.clone())
            .collect();
        assert!(entries.iter().all(|salt| salt.len() == 32));
        entries
    });
    let all: BTreeSet<&String> = heads.iter().flatten().collect();
    assert_eq!(all.len(), 4);
}

/// However an entry is added, whole ledgers and their ends alone give the same chain.
#[test]
fn what_is_added_at_the_end_is_what_is_added_to_the_whole() {
    let place = Place::new();
    for number in 0..20u64 {
        // Without its mark, all of it is read.
        if number % 3 == 0
            && let Ok(files) = fs::read_dir(place.state())
        {
            let files = files.map(|file| file.unwrap().path());
            let last = files.filter(|file| file.to_string_lossy().ends_with(".last"));
            last.for_each(|file| fs::remove_file(file).unwrap());
        }
        let head = place
            .ledger()
            .begin(begun("a", peer(1), "t.csv"), None)
            .unwrap();
        assert_eq!(head.entry, 1 + 2 * number);
        end(&place.ledger(), &head);
    }
    assert_eq!(place.bare().read().unwrap().entries().len(), 41);
    // A line that is longer than the end that is looked at.
    let long = Begun {
        table: "x".repeat(100_000),
        ..begun("a", peer(1), "t.csv")
    };
    let head = place.ledger().begin(long, None).unwrap();
    end(&place.ledger(), &head);
    let too_long = Begun {
        table: "x".repeat(5 << 20),
        ..begun("a", peer(1), "t.csv")
    };
    let refused = problem(place.ledger().begin(too_long, None));
    assert!(matches!(refused, Problem::TooLong(_)));
    assert_eq!(place.ledger().read().unwrap().entries().len(), 43);
}

/// The machine stops within each byte of the last line: it never was there, and the ledger goes on.
#[test]
fn a_line_that_was_not_written_whole_is_none() {
    let place = Place::new();
    let lines = of_three(&place);
    let (before, last) = (lines[..5].concat(), &lines[5]);
    for at in 0..last.len() - 1 {
        fs::write(place.file(), format!("{before}{}", &last[..at])).unwrap();
        let ledger = place.bare();
        let book = ledger.read().unwrap();
        assert_eq!(
            (book.entries().len(), book.torn().len()),
            (5, usize::from(at > 0))
        );
        let head = ledger.begin(begun("d", peer(1), "t.csv"), None).unwrap();
        end(&ledger, &head);
        let book = ledger.read().unwrap();
        assert_eq!(
            (book.entries().len(), book.torn().len()),
            (7, usize::from(at > 0))
        );
    }
    // So is the first one.
    for at in 1..lines[0].len() - 1 {
        fs::write(place.file(), &lines[0][..at]).unwrap();
        place
            .bare()
            .begin(begun("d", peer(1), "t.csv"), None)
            .unwrap();
        assert_eq!(place.bare().read().unwrap().entries().len(), 2);
    }
    for other in ["email\na@example.org\n", "{\"a\":1}\n", "x"] {
        fs::write(place.file(), other).unwrap();
        assert_eq!(
            problem(place.bare().read()),
            Problem::NotALedger,
            "{other:?}"
        );
        assert_eq!(
            problem(place.ledger().begin(begun("d", peer(1), "t.csv"), None)),
            Problem::NotALedger
        );
        assert_eq!(fs::read_to_string(place.file()).unwrap(), other);
    }
}

#[test]
fn what_is_outside_of_the_file_is_checked_too() {
    let place = Place::new();
    of_three(&place);
    let mut files = fs::read_dir(place.state())
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_mark = |file: &std::path::PathBuf| file.to_string_lossy().ends_with(".last");
    let mark = files.find(is_mark).unwrap();
    for content in ["", "5", "x y", "99999999999999999999999 00"] {
        fs::write(&mark, content).unwrap();
        assert!(matches!(
            problem(place.ledger().read()),
            Problem::BadMark(_)
        ));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        for path in [place.file(), mark] {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0);
        }
        let link = place.0.path().join("link");
        std::os::unix::fs::symlink(place.file(), &link).unwrap();
        assert!(
            Ledger::new(link)
                .begin(begun("d", peer(1), "t.csv"), None)
                .is_err()
        );
    }
    let missing = Ledger::new(place.0.path().join("other"));
    assert_eq!(problem(missing.read()), Problem::NoFile);
}

fn refusal(result: Result<impl std::fmt::Debug, Error>) -> Refusal {
    match result {
        Err(Error::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn rules(text: &str) -> Rules {
    Rules::parse(text).unwrap()
}

fn asked(peer: Fingerprint, table: &str) -> Asked<'_> {
    Asked {
        peer,
        table,
        profiles: &[],
        reveals: Reveal::Size.into(),
        items: 1000,
        peer_items: Some(1000),
        min_size: 0,
        groups: 1,
        epsilon: None,
        is_padded: false,
    }
}

fn keys(ledger: &Ledger, of: &BTreeSet<u16>) -> OwnKeys {
    let each = |add: &mut dyn FnMut(&[u8; 32])| {
        for key in of {
            let mut digest = [0; 32];
            digest[..2].copy_from_slice(&key.to_le_bytes());
            add(&digest);
        }
        Ok::<(), Error>(())
    };
    ledger.own_keys(of.len() as u64, each).unwrap()
}

#[test]
fn rules_that_cannot_be_meant_are_refused() {
    for text in [
        "",
        "[[rule]]",
        "[[rule]]\nname = \"\"",
        "[[rule]]\nname = \"a\"\n[[rule]]\nname = \"a\"",
        "[[rule]]\nname = \"a\"\nruns = 3",
        "[[rule]]\nname = \"a\"\nruns = -3\nperiod = \"7d\"",
        "[[rule]]\nname = \"a\"\nruns = 3\nperiod = \"7\"",
        "[[rule]]\nname = \"a\"\nruns = 3\nperiod = \"0d\"",
        "[[rule]]\nname = \"a\"\nrun = 3",
        "[[rule]]\nname = \"a\"\npeer = \"somebody\"",
        "[[rule]]\nname = \"a\"\nreveal = \"everything\"",
        "[[rule]]\nname = \"a\"\ntable = \"[\"",
        "[[rule]]\nname = \"a\"\nperiod = \"7d\"\nepsilon = \"0\"",
        "[[rule]]\nname = \"a\"\nperiod = \"7d\"\nepsilon = \"0.0000001\"",
        "[[rule]]\nname = \"a\"\nperiod = \"7d\"\nepsilon = \"-1\"",
        "rules = 1",
    ] {
        assert!(Rules::parse(text).is_err(), "{text}");
    }
}

/// Every limit by itself, at what it allows and beyond.
#[test]
fn a_rule_names_itself_and_what_is_beyond_it() {
    let place = Place::new();
    let ledger = place.ledger();
    let is_allowed = |rule: &str, change: &dyn Fn(&mut Asked<'_>)| {
        let mut asked = asked(peer(1), "data/t.csv");
        change(&mut asked);
        match ledger.check(
            (&rules(&format!("[[rule]]\nname = \"r\"\n{rule}")), SEND),
            &asked,
            None,
        ) {
            Ok(()) => true,
            Err(Error::Refused(Refusal { rule, .. })) => {
                assert_eq!(rule.as_deref(), Some("r"));
                false
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert!(is_allowed("", &|_| ()));
    for (rule, within, beyond) in [
        ("least-items = 10", 10u64, 9u64),
        ("least-peer-items = 10", 10, 9),
        ("least-min-size = 10", 10, 9),
        ("most-groups = 10", 10, 11),
    ] {
        let set = |count| {
            move |asked: &mut Asked<'_>| match rule {
                "least-items = 10" => asked.items = count,
                "least-peer-items = 10" => asked.peer_items = Some(count),
                "most-groups = 10" => asked.groups = count,
                _ => asked.min_size = count,
            }
        };
        assert!(is_allowed(rule, &set(within)), "{rule}");
        assert!(!is_allowed(rule, &set(beyond)), "{rule}");
    }
    // Before the peer has said how many it has, it may have enough.
    assert!(is_allowed("least-peer-items = 10", &|asked| asked
        .peer_items =
        None));
    let reveal = "reveal = [\"size\", \"sum\"]";
    assert!(is_allowed(reveal, &|_| ()));
    assert!(!is_allowed(reveal, &|asked| asked.reveals = Reveal::Matches.into()));
    assert!(!is_allowed(reveal, &|asked| asked.reveals = "size,sum".parse().unwrap()));
    // Ids tell how many keys match, and have no minimum.
    assert!(!is_allowed("least-min-size = 1", &|asked| asked.reveals =
        Reveal::Ids.into()));
    // A minimum is for numbers.
    assert!(is_allowed("least-min-size = 10", &|asked| asked.reveals =
        Reveal::Matches.into()));
    let epsilon = "period = \"1d\"\nepsilon = \"0.5\"";
    assert!(is_allowed(epsilon, &|asked| asked.epsilon = epsilon_of("0.5")));
    assert!(!is_allowed(epsilon, &|asked| asked.epsilon = epsilon_of("0.500001")));
    assert!(!is_allowed(epsilon, &|_| ()), "an exact answer");
    // One key more, of which replacing a key is two.
    assert!(is_allowed(epsilon, &|asked| {
        (asked.epsilon, asked.is_padded) = (epsilon_of("0.25"), true);
    }));
    assert!(!is_allowed(epsilon, &|asked| {
        (asked.epsilon, asked.is_padded) = (epsilon_of("0.250001"), true);
    }));
    for (rule, is_for) in [
        ("peer = \"PEER\"", true),
        ("table = \"t.csv\"", true),
        ("table = \"*.csv\"", true),
        ("table = \"data/*\"", true),
        ("table = \"s.csv\"", false),
    ] {
        let text = format!(
            "[[rule]]\nname = \"r\"\n{}",
            rule.replace("PEER", &peer(1).to_string())
        );
        let checked = ledger.check((&rules(&text), SEND), &asked(peer(1), "data/t.csv"), None);
        assert_eq!(checked.is_ok(), is_for, "{rule}");
        if !is_for {
            assert_eq!(refusal(checked).rule, None);
        }
    }
    let other = format!("[[rule]]\nname = \"r\"\npeer = \"{}\"", peer(2));
    assert_eq!(
        refusal(ledger.check((&rules(&other), SEND), &asked(peer(1), "t"), None)).rule,
        None
    );
}

#[test]
fn rules_need_a_place_outside_of_the_file() {
    let place = Place::new();
    let any = rules("[[rule]]\nname = \"r\"");
    let checked = place.bare().check((&any, SEND), &asked(peer(1), "t"), None);
    assert!(matches!(checked, Err(Error::NoState(_))));
}

/// Eight at once have as many runs as one after the other.
#[test]
fn a_limit_holds_for_runs_at_once() {
    let place = Place::new();
    let rules = rules("[[rule]]\nname = \"r\"\nperiod = \"1d\"\nruns = 3");
    let allowed = thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|run| {
                let (ledger, rules) = (place.ledger(), &rules);
                scope.spawn(move || {
                    let asked = asked(peer(1), "t");
                    ledger.check((rules, SEND), &asked, None).ok();
                    let begun = begun(&run.to_string(), peer(1), "t");
                    ledger.begin(begun, Some((rules, &asked, None))).is_ok()
                })
            })
            .collect();
        let began = runs.into_iter().map(|run| run.join().unwrap());
        began.filter(|is_ok| *is_ok).count()
    });
    assert_eq!(allowed, 3);
    assert_eq!(place.ledger().read().unwrap().runs().count(), 3);
}

const WEEKLY: &str = "[[rule]]\nname = \"change\"\nperiod = \"7d\"\nleast-change = 10";

/// Answers about a table, if the rules allow it.
fn answer(
    place: &Place,
    rules: &Rules,
    session: &str,
    table: &BTreeSet<u16>,
) -> Result<Head, Error> {
    let (ledger, asked) = (place.ledger(), asked(peer(1), "t"));
    let keys = keys(&ledger, table);
    ledger.check((rules, SEND), &asked, Some(&keys))?;
    ledger.begin(
        begun(session, peer(1), "t"),
        Some((rules, &asked, Some(&keys))),
    )
}

#[test]
fn a_table_is_compared_with_every_table_of_the_period() {
    NOW.set(0);
    let (place, rules) = (Place::new(), rules(WEEKLY));
    let base: BTreeSet<u16> = (0..100).collect();
    let more =
        |count: u16| -> BTreeSet<u16> { base.iter().copied().chain(1000..1000 + count).collect() };
    answer(&place, &rules, "a", &base).unwrap();
    // The same table again answers nothing new.
    answer(&place, &rules, "b", &base).unwrap();
    let refused = refusal(answer(&place, &rules, "c", &more(9)));
    assert_eq!(refused.rule.as_deref(), Some("change"));
    assert!(refused.why.contains("9 keys"), "{}", refused.why);
    answer(&place, &rules, "c", &more(10)).unwrap();
    // Far from the last one, and near to the first.
    refusal(answer(&place, &rules, "d", &more(3)));
    refusal(answer(&place, &rules, "d", &(1..100).collect()));
    assert_eq!(place.ledger().read().unwrap().runs().count(), 3);
    // What is kept is kept as long as the rule looks back, and no longer.
    let kept = || fs::read_dir(place.state()).unwrap().count();
    assert_eq!(kept(), 3 + 2 * 3);
    NOW.set(7 * 86_400 - 5);
    refusal(answer(&place, &rules, "d", &more(3)));
    NOW.set(7 * 86_400 + 5);
    answer(&place, &rules, "d", &more(3)).unwrap();
    assert_eq!(kept(), 3 + 2);
}

/// What is kept outside is gone, is a copy, or is under another key: the rule refuses, and does not forget.
#[test]
fn a_rule_that_lacks_earlier_tables_refuses() {
    NOW.set(0);
    let base: BTreeSet<u16> = (0..100).collect();
    let far: BTreeSet<u16> = (500..600).collect();
    let files = |place: &Path, end: &str| -> Vec<std::path::PathBuf> {
        let files = fs::read_dir(place)
            .unwrap()
            .map(|file| file.unwrap().path());
        files
            .filter(|file| file.to_string_lossy().ends_with(end))
            .collect()
    };
    type Spoil = fn(&[std::path::PathBuf]);
    let remove: Spoil = |files| files.iter().for_each(|file| fs::remove_file(file).unwrap());
    let swap: Spoil = |files| {
        let [one, other, ..] = files else { panic!() };
        fs::copy(one, other).unwrap();
    };
    for (end, spoil) in [
        (".keys", remove),
        (".secret", remove),
        (".key", remove),
        (".keys", swap),
        (".secret", swap),
    ] {
        let (place, rules) = (Place::new(), rules(WEEKLY));
        answer(&place, &rules, "a", &base).unwrap();
        answer(&place, &rules, "b", &far).unwrap();
        spoil(&files(&place.state(), end));
        let refused = refusal(answer(&place, &rules, "c", &(200..300).collect()));
        assert_eq!(refused.rule.as_deref(), Some("change"), "{end}");
    }
    // What no entry names is erased: a process was killed before it wrote the entry.
    let place = Place::new();
    answer(&place, &rules(WEEKLY), "a", &base).unwrap();
    let kept = files(&place.state(), ".1.keys");
    let orphan = kept[0].to_string_lossy().replace(".1.keys", ".7.keys");
    fs::copy(&kept[0], &orphan).unwrap();
    answer(&place, &rules(WEEKLY), "b", &far).unwrap();
    assert!(!Path::new(&orphan).exists());
    // Keys that are made otherwise are other ones, whoever they are of.
    let profiles = ["email/1".to_owned()];
    let other = Asked {
        profiles: &profiles,
        ..asked(peer(1), "t")
    };
    let (ledger, weekly) = (place.ledger(), rules(WEEKLY));
    let own = keys(&ledger, &(200..300).collect());
    let refused = refusal(ledger.check((&weekly, SEND), &other, Some(&own)));
    assert!(refused.why.contains("made in another way"), "{refused}");
    // Keys on other machines cannot be compared.
    let (place, rules) = (Place::new(), rules(WEEKLY));
    let checked = place
        .ledger()
        .check((&rules, SEND), &asked(peer(1), "t"), None);
    assert_eq!(refusal(checked).rule.as_deref(), Some("change"));
}

/// A step of a random history.
#[derive(Clone, Debug)]
struct Step {
    peer: u8,
    table: u8,
    later: u64,
    epsilon: u64,
    keys: BTreeSet<u16>,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let keys = proptest::collection::btree_set(0u16..12, 4..10);
    let step = (0u8..3, 0u8..2, 0u64..40, 1u64..6, keys);
    let step = step.prop_map(|(peer, table, later, epsilon, keys)| Step {
        peer,
        table,
        later: later * 3600,
        epsilon,
        keys,
    });
    proptest::collection::vec(step, 1..24)
}

/// What a plain reading of these rules allows:
/// one peer at most `runs` in two days, all together at most `of_all`, an ε of 1.5 per table in three days, and tables that
/// are the same or differ by `change` keys in a day.
struct Model {
    runs: usize,
    of_all: usize,
    change: usize,
    answered: Vec<(u64, Step)>,
}

impl Model {
    fn allows(&self, at: u64, step: &Step) -> bool {
        let within = |days: u64| {
            let answered = self.answered.iter();
            answered
                .filter(move |(time, _)| at - time < days * 86_400)
                .map(|(_, step)| step)
        };
        let of_peer = within(2).filter(|other| other.peer == step.peer).count();
        let of_table = within(3).filter(|other| other.table == step.table);
        let spent: u64 = of_table.map(|other| other.epsilon).sum();
        let is_near = |other: &&Step| {
            let difference = other.keys.symmetric_difference(&step.keys).count();
            other.table == step.table && difference > 0 && difference < self.change
        };
        of_peer < self.runs
            && within(2).count() < self.of_all
            && spent + step.epsilon <= 15
            && !within(1).any(|other| is_near(&other))
    }
}

#[test]
fn random_histories_are_as_a_plain_reading_has_them() {
    let config = Config {
        cases: 200,
        failure_persistence: None,
        ..Config::default()
    };
    let strategy = (steps(), 1usize..5, 2usize..8, 2usize..5);
    let allowed = Cell::new([0, 0]);
    let run = |(steps, runs, of_all, change): (Vec<Step>, usize, usize, usize)| {
        NOW.set(0);
        let place = Place::new();
        // A rule for each table, as its name has it.
        let each = |table: u8| {
            format!(
                "[[rule]]\nname = \"of {table}\"\ntable = \"{table}.csv\"\nperiod = \"1d\"\nleast-change = {change}\n"
            )
        };
        let text = format!(
            "[[rule]]\nname = \"runs\"\nperiod = \"2d\"\nruns = {runs}\nruns-of-all = {of_all}\n{}{}{}{}",
            each(0),
            each(1),
            "[[rule]]\nname = \"noise 0\"\ntable = \"0.csv\"\nperiod = \"3d\"\nepsilon = \"1.5\"\n",
            "[[rule]]\nname = \"noise 1\"\ntable = \"1.csv\"\nperiod = \"3d\"\nepsilon = \"1.5\"\n",
        );
        let rules = rules(&text);
        let mut model = Model {
            runs,
            of_all,
            change,
            answered: Vec::new(),
        };
        for (number, step) in steps.into_iter().enumerate() {
            NOW.set(NOW.get() + step.later + 1);
            let ledger = place.ledger();
            let table = format!("{}.csv", step.table);
            let epsilon = epsilon_of(&format!("0.{}", step.epsilon));
            let asked = Asked {
                epsilon,
                ..asked(peer(step.peer), &table)
            };
            let keys = keys(&ledger, &step.keys);
            let checked = ledger.check((&rules, SEND), &asked, Some(&keys));
            let begun = Begun {
                epsilon,
                ..begun(&number.to_string(), peer(step.peer), &table)
            };
            let ours = ledger.begin(begun, Some((&rules, &asked, Some(&keys))));
            let expected = model.allows(NOW.get(), &step);
            prop_assert_eq!(checked.is_ok(), expected, "{:?}", checked);
            prop_assert_eq!(ours.is_ok(), expected);
            let mut counts = allowed.get();
            counts[usize::from(expected)] += 1;
            allowed.set(counts);
            if expected {
                model.answered.push((NOW.get(), step));
            }
        }
        Ok(())
    };
    TestRunner::new(config).run(&strategy, run).unwrap();
    let [refused, allowed] = allowed.get();
    assert!(
        refused > 200 && allowed > 200,
        "{refused} refused, {allowed} allowed"
    );
}
