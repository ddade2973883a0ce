//! The protocol of all but small sets, `vole`, and that nobody need ask for it.

use std::collections::HashSet;

use serde_json::Value;

use crate::support::{Arguments, Place, csv_of, exchange};
use crate::tables::{HEADER, plain, rows};

/// Runs so many thousand rows against one thousand less with both to learn the matches and these options on both sides,
/// and compares both outputs with a plain intersection; gives the receiver's report and the sender's.
fn both_learn(thousands: u64, options: &str) -> [Value; 2] {
    let place = Place::new();
    let range = 2000 * thousands;
    let ours = rows(1000 * thousands, 1, range);
    let theirs = rows(1000 * thousands - 1000, 2, range);
    place.write("ours.csv", csv_of(&HEADER, &ours));
    place.write("theirs.csv", csv_of(&HEADER, &theirs));
    let side = |input: &str, output: &str, report: &str| {
        Arguments::new(input, "key")
            .output(output)
            .with(&format!("--both --report {report} {options}"))
    };
    let pair = exchange(
        &place,
        &side("ours.csv", "ours-out.csv", "ours.json"),
        &side("theirs.csv", "theirs-out.csv", "theirs.json"),
    );
    pair.expect_success();
    let expected = [plain(&ours, 1, &theirs, 1), plain(&theirs, 1, &ours, 1)];
    assert!(expected.iter().all(|rows| rows.len() > 1000));
    assert!(place.read("ours-out.csv") == csv_of(&HEADER, &expected[0]));
    assert!(place.read("theirs-out.csv") == csv_of(&HEADER, &expected[1]));

    let distinct: HashSet<&str> = expected[0].iter().map(|row| row[1].as_str()).collect();
    ["ours.json", "theirs.json"].map(|name| {
        let report: Value = serde_json::from_str(&place.read(name)).unwrap();
        assert_eq!(report["protocol"], "vole", "{report}");
        assert_eq!(report["contract"]["protocol"], "vole");
        assert_eq!(report["contract"]["learns"], "both");
        assert_eq!(report["matches"], distinct.len());
        report
    })
}

/// Both sides print that a run was post-quantum and keep it in their reports, and say nothing of one that was not.
#[test]
fn post_quantum_runs_say_so() {
    let place = Place::new();
    let own = rows(40, 1, 60);
    place.write("own.csv", csv_of(&HEADER, &own));
    for (option, is_said) in [("--post-quantum", true), ("--protocol vole", false)] {
        let side = |report: &str| {
            let options = format!("--report {report} {option}");
            Arguments::new("own.csv", "key").with(&options)
        };
        let side_of_sender = side("theirs.json");
        let pair = exchange(
            &place,
            &side("ours.json").output("out.csv"),
            &side_of_sender,
        );
        pair.expect_success();
        for (ended, report) in [(&pair.receiver, "ours.json"), (&pair.sender, "theirs.json")] {
            let line = ended
                .err
                .lines()
                .any(|line| line.split_whitespace().eq(["post-quantum", "yes"]));
            assert_eq!(line, is_said, "{}", ended.err);
            let report: Value = serde_json::from_str(&place.read(report)).unwrap();
            assert_eq!(report["contract"]["post_quantum"], is_said);
        }
        std::fs::remove_file(place.path("out.csv")).unwrap();
    }
}

#[test]
fn the_default_withstands_malicious_peers() {
    for report in both_learn(20, "") {
        assert_eq!(report["security"], "malicious");
        assert_eq!(report["contract"]["security"], "malicious");
        assert_eq!(report["contract"]["buckets"], 1);
    }
}

#[test]
fn semi_honest_takes_fewer_bytes() {
    let [ours, theirs] = both_learn(6, "--protocol vole --security semi-honest");
    for report in [&ours, &theirs] {
        assert_eq!(report["security"], "semi-honest");
        assert_eq!(report["contract"]["security"], "semi-honest");
    }
    let [malicious, _] = both_learn(6, "--protocol vole --security malicious");
    let bytes = |report: &Value| -> u64 {
        ["bytes_sent", "bytes_received"]
            .map(|key| report[key].as_u64().unwrap())
            .iter()
            .sum()
    };
    assert!(bytes(&ours) < bytes(&malicious));
    assert_eq!(bytes(&ours), bytes(&theirs));
}

#[test]
fn buckets() {
    for security in ["malicious", "semi-honest"] {
        let options = format!("--protocol vole --memory 436K --threads 1 --security {security}");
        for report in both_learn(6, &options) {
            assert_eq!(report["security"], security);
            assert_eq!(report["contract"]["buckets"], 4);
        }
    }
}

/// Sizes at which nobody would choose it; a row without a key is no item.
#[test]
fn from_no_item_to_many_against_one() {
    let many = rows(2000, 3, 4000);
    let of = |key: &str| vec![vec!["n".to_owned(), key.to_owned(), "note".to_owned()]];
    let (none, one, other) = (of(""), of(&many[0][1]), of("elsewhere"));
    for (ours, theirs, matches) in [
        (&none, &none, 0),
        (&none, &one, 0),
        (&one, &none, 0),
        (&one, &one, 1),
        (&one, &other, 0),
        (&one, &many, 1),
        (&other, &many, 0),
        (&many, &one, 1),
        (&none, &many, 0),
        (&many, &none, 0),
    ] {
        for security in ["malicious", "semi-honest"] {
            let place = Place::new();
            place.write("ours.csv", csv_of(&HEADER, ours));
            place.write("theirs.csv", csv_of(&HEADER, theirs));
            let terms = format!("--protocol vole --security {security} --allow-empty");
            exchange(
                &place,
                &Arguments::new("ours.csv", "key")
                    .output("out.csv")
                    .with(&terms)
                    .with("--report report.json"),
                &Arguments::new("theirs.csv", "key").with(&terms),
            )
            .expect_success();
            let expected = plain(ours, 1, theirs, 1);
            assert_eq!(place.read("out.csv"), csv_of(&HEADER, &expected));
            let report: Value = serde_json::from_str(&place.read("report.json")).unwrap();
            assert_eq!(report["matches"], matches, "{security}");
            assert_eq!(report["security"], security);
        }
    }
}
