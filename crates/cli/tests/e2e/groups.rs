//! Numbers of each group of the receiver's keys.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

use rand_core::Rng;
use serde_json::{Value, json};
use vesica_testing::rng;

use crate::faults::memory_of_buckets;
use crate::support::{Arguments, Pair, Place, exchange};

/// The key of the third row is that of the first in another spelling; keys without a group count nowhere.
const OURS: &str = "mail,campaign,spent\n\
    ann@x.org,\"May, early\",1.50\n\
    bob@x.org,june,-3\n\
    Ann@x.org ,\"May, early\",0.25\n\
    cy@x.org, june ,100\n\
    dee@x.org,\"  \",7\n\
    eve@x.org,\"say \"\"yes\"\"\",7\n\
    ,june,1\n\
    fay@x.org,june,0\n";
const THEIRS: &str = "mail,x\nann@x.org,1\nbob@x.org,1\ndee@x.org,1\nfay@x.org,1\nzoe@x.org,1\n";
const WORDS: &str = "--normalize mail=email --security semi-honest";

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.csv", THEIRS);
    place
}

fn run(place: &Place, both: &str, ours: &str, theirs: &str) -> Pair {
    let side = |file: &str, own: &str| {
        let arguments = Arguments::new(file, "mail");
        arguments.with(WORDS).with(both).with(own)
    };
    exchange(place, &side("ours.csv", ours), &side("theirs.csv", theirs))
}

const ALLOWED: &str = "--max-peer-groups 3";
const GROUPED: &str = "--group campaign";
const SPENT: &str = "--group campaign --value spent --value-scale 2 --value-bound 1000";

/// Whatever the sender learns of sizes, and by every protocol.
#[test]
fn numbers_of_each_group_are_printed() {
    let place = place();
    for sizes in ["hidden", "told", "padded:3"] {
        for protocol in ["auto", "circuit-okvs", "circuit-rb-psm1", "circuit-rb-psm2"] {
            let both = format!("--reveal size,sum --protocol {protocol}");
            let ours = format!("{SPENT} --group-sizes {sizes} --report ours.json");
            let theirs = format!("{ALLOWED} --report theirs.json");
            let pair = run(&place, &both, &ours, &theirs);
            pair.expect_success();
            let expected =
                "group,size,sum\n\"May, early\",1,1.75\njune,2,-3.00\n\"say \"\"yes\"\"\",0,0.00\n";
            assert_eq!(pair.receiver.text(), expected, "{both} {ours}");
            assert_eq!(pair.sender.text(), "");
            let of_june = json!({"group": "june", "values": {"size": 2, "sum": "-3.00"}});
            let [near, far] = ["ours.json", "theirs.json"].map(|name| place.read(name));
            let near: Value = serde_json::from_str(&near).unwrap();
            assert_eq!(near["groups"][1], of_june);
            // Names of groups are not for the sender, which learns of their sizes what it is told.
            assert!(
                !far.contains("june") && !pair.sender.err.contains("june"),
                "{far}"
            );
            let far: Value = serde_json::from_str(&far).unwrap();
            let told = match sizes {
                "hidden" => Value::Null,
                "told" => json!([3, 1, 1]),
                _ => json!([3, 3, 3]),
            };
            assert_eq!(far["contract"]["groups"]["sizes"], told);
            assert_eq!(far["contract"], near["contract"]);
        }
    }
}

#[test]
fn a_minimum_withholds_groups_or_all_of_them() {
    let place = place();
    for sizes in ["hidden", "told", "padded:9"] {
        let of = |both: &str, more: &str| {
            let ours = format!("{SPENT} --group-sizes {sizes} {more}");
            let pair = run(&place, both, &ours, ALLOWED);
            pair.expect_success();
            pair.receiver.text().to_owned()
        };
        let ours = format!("{GROUPED} --group-sizes {sizes}");
        let pair = run(&place, "--reveal size --min-size 2", &ours, ALLOWED);
        let withheld = "fewer than 2";
        let expected = format!(
            "group,size\n\"May, early\",{withheld}\njune,2\n\"say \"\"yes\"\"\",{withheld}\n"
        );
        assert_eq!(pair.receiver.text(), expected);
        assert!(
            pair.receiver.err.contains("3, 2 of them withheld"),
            "{}",
            pair.receiver.err
        );
        // A key whose value is 0 does not count for a sum, and withholds the size of its group too.
        let both = "--reveal size,sum --min-size 2";
        let expected = format!(
            "group,size,sum\n\"May, early\",{withheld},{withheld}\njune,{withheld},{withheld}\n\"say \"\"yes\"\"\",{withheld},{withheld}\n"
        );
        assert_eq!(of(both, ""), expected);
        let both = "--reveal sum --min-size 1";
        let below = "withheld";
        let each = "group,sum\n\"May, early\",1.75\njune,-3.00\n\"say \"\"yes\"\"\",fewer than 1\n";
        assert_eq!(of(both, ""), each);
        let all = format!(
            "group,sum\n\"May, early\",{below}\njune,{below}\n\"say \"\"yes\"\"\",{below}\n"
        );
        assert_eq!(of(both, "--group-minimum all"), all);
        // Of the groups that are asked for.
        let two = "group,sum\njune,-3.00\n\"May, early\",1.75\n";
        let ours = Arguments::new("ours.csv", "mail").with(WORDS).with(both);
        let ours = ours.with(&format!(
            "{SPENT} --group-sizes {sizes} --group-minimum all"
        ));
        let ours = ours.option("--groups", r"june,May\, early");
        let theirs = Arguments::new("theirs.csv", "mail").with(WORDS);
        let pair = exchange(&place, &ours, &theirs.with(both).with(ALLOWED));
        pair.expect_success();
        assert_eq!(pair.receiver.text(), two);
    }
}

/// A table whose keys are in groups by their number.
fn large(keys: std::ops::Range<u32>) -> String {
    let mut text = "mail,campaign,spent\n".to_owned();
    for key in keys {
        let group = match key % 7 {
            0 => String::new(),
            of => format!("g{of}"),
        };
        let _ = writeln!(text, "k{key}@x.org,{group},{}", key % 100);
    }
    text
}

#[test]
fn groups_are_added_up_over_buckets() {
    let place = Place::new();
    place.write("ours.csv", large(0..4000));
    place.write("theirs.csv", large(1000..6000));
    let memory = memory_of_buckets("circuit-okvs", [4000, 5000], 40, 4, [true; 2]);
    let both = format!("--reveal size,sum --min-size 1 --protocol circuit-okvs --memory {memory}");
    let mut expected = "group,size,sum\n".to_owned();
    for group in 1..7 {
        let keys = (1000u32..4000).filter(|key| key % 7 == group);
        let (count, sum) = (keys.clone().count(), keys.map(|key| key % 100).sum::<u32>());
        let _ = writeln!(expected, "g{group},{count},{sum}");
    }
    for sizes in ["hidden", "told", "padded:600"] {
        let ours = format!(
            "--group campaign --value spent --value-bound 100 --group-sizes {sizes} --report ours.json"
        );
        let pair = run(&place, &both, &ours, "--max-peer-groups 6");
        pair.expect_success();
        assert_eq!(pair.receiver.text(), expected, "{sizes}");
        let report: Value = serde_json::from_str(&place.read("ours.json")).unwrap();
        let buckets = report["contract"]["buckets"].as_u64();
        assert!(buckets.is_some_and(|buckets| buckets > 1), "{buckets:?}");
    }
}

/// Random tables, against sets in plain.
#[test]
fn numbers_are_those_of_a_plain_computation() {
    let rng = &mut rng(11);
    let mut below = |most: u64| rng.next_u64() % most;
    for turn in 0..24 {
        let place = Place::new();
        let (groups, keys) = (1 + below(9), 1 + below(60));
        let mut ours = "mail,campaign,spent\n".to_owned();
        let (mut group_of, mut spent) = (HashMap::new(), HashMap::new());
        for _ in 0..1 + below(120) {
            let key = below(keys);
            let group = *group_of.entry(key).or_insert_with(|| below(groups + 1));
            let value = below(40) as i64 - 20;
            *spent.entry(key).or_insert(0) += value;
            let name = if group == groups {
                String::new()
            } else {
                format!("g{group}")
            };
            let _ = writeln!(ours, "k{key}@x.org,{name},{value}");
        }
        let theirs: HashSet<u64> = (0..1 + below(60)).map(|_| below(keys + 5)).collect();
        let rows: String = theirs
            .iter()
            .map(|key| format!("K{key}@x.org,1\n"))
            .collect();
        place.write("ours.csv", ours);
        place.write("theirs.csv", format!("mail,x\n{rows}"));
        let sizes = ["hidden", "told", "padded:60"][below(3) as usize];
        let (minimum, is_all) = (below(4), below(2) == 1);
        let mut found: BTreeMap<u64, Option<(i64, i64)>> = BTreeMap::new();
        for (key, group) in group_of.iter().filter(|(_, group)| **group < groups) {
            let (count, sum) = found
                .entry(*group)
                .or_insert(Some((0, 0)))
                .as_mut()
                .unwrap();
            if theirs.contains(key) {
                (*count, *sum) = (*count + 1, *sum + spent[key]);
            }
        }
        if found.is_empty() {
            continue;
        }
        let counted = |group: u64| {
            let keys = group_of
                .iter()
                .filter(|(key, of)| **of == group && theirs.contains(key));
            keys.filter(|(key, _)| spent[*key] != 0).count() as u64
        };
        let withheld: Vec<u64> = found
            .keys()
            .copied()
            .filter(|group| counted(*group) < minimum)
            .collect();
        for (group, numbers) in &mut found {
            if withheld.contains(group) || is_all && !withheld.is_empty() {
                *numbers = None;
            }
        }
        let mut expected = "group,size,sum\n".to_owned();
        for (group, numbers) in found {
            let _ = match numbers {
                Some((count, sum)) => writeln!(expected, "g{group},{count},{sum}"),
                None if is_all => writeln!(expected, "g{group},withheld,withheld"),
                None => writeln!(
                    expected,
                    "g{group},fewer than {minimum},fewer than {minimum}"
                ),
            };
        }
        let both = match minimum {
            0 => "--reveal size,sum".to_owned(),
            _ => format!("--reveal size,sum --min-size {minimum}"),
        };
        let by = if is_all { "all" } else { "each" };
        let ours = format!(
            "--group campaign --group-sizes {sizes} --group-minimum {by} --value spent --value-bound 5000"
        );
        let pair = run(&place, &both, &ours, "--max-peer-groups 10");
        pair.expect_success();
        assert_eq!(pair.receiver.text(), expected, "{turn}: {both} {ours}");
    }
}

#[test]
fn the_sender_allows_so_many_groups() {
    let place = place();
    for (allowed, says) in [
        ("", "the sender allows 1"),
        ("--max-peer-groups 2", "the sender allows 2"),
    ] {
        let pair = run(&place, "--reveal size", GROUPED, allowed);
        pair.sender
            .expect_failure(7, "the receiver wants numbers of 3 groups");
        assert!(pair.sender.err.contains(says) && pair.sender.hint().contains("--max-peer-groups"));
        pair.receiver
            .expect_failure(7, "the receiver wants numbers of 3 groups");
        assert_eq!(pair.receiver.text(), "");
    }
}

/// What cannot be had by group is refused before anybody is met.
#[test]
fn what_does_not_go_with_groups_is_refused() {
    let place = place();
    let mut many = "mail,campaign,spent\n".to_owned();
    (0..65).for_each(|key| {
        let _ = writeln!(many, "k{key}@x.org,g{key},1");
    });
    place.write("many.csv", many);
    place.write(
        "two.csv",
        "mail,campaign,spent\na@x.org,may,1\nA@x.org,june,1\n",
    );
    place.write("none.csv", "mail,campaign,spent\na@x.org,,1\n");
    place.write(
        "long.csv",
        format!("mail,campaign,spent\na@x.org,{},1\n", "é".repeat(33)),
    );
    for (file, words, code, problem) in [
        (
            "ours.csv",
            "--reveal matches --group campaign",
            2,
            "by group",
        ),
        (
            "ours.csv",
            "--reveal inner-product --value spent --group campaign",
            2,
            "by group",
        ),
        (
            "ours.csv",
            "--reveal shares --group campaign",
            2,
            "by group",
        ),
        (
            "ours.csv",
            "--reveal sum --group campaign",
            2,
            "the receiver's values",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --both",
            2,
            "for the receiver",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --work-dir work",
            2,
            "without a work directory",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --output out.csv",
            2,
            "leave --output away",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --group-sizes some",
            2,
            "hidden, told, or padded:N",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --group-sizes padded:0",
            2,
            "hidden, told, or padded:N",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --group-minimum none",
            2,
            "each or all",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --group-sizes padded:2",
            2,
            "has 3 keys, and is to be padded to 2",
        ),
        ("ours.csv", "--reveal size --group-sizes told", 2, "--group"),
        (
            "ours.csv",
            "--reveal size --group nothing",
            3,
            "no column is called",
        ),
        (
            "many.csv",
            "--reveal size --group campaign",
            2,
            "there can be 64",
        ),
        (
            "many.csv",
            "--reveal size,sum --value spent,spent --group campaign --groups a,b,c",
            2,
            "named twice",
        ),
        (
            "two.csv",
            "--reveal size --group campaign",
            3,
            "the group is not that of row 1",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --group-sizes told --pad-to 100",
            2,
            "a padded set",
        ),
        (
            "ours.csv",
            "--reveal size --group campaign --groups june,june",
            2,
            "no list of names",
        ),
        (
            "none.csv",
            "--reveal size --group campaign",
            2,
            "no key is in a group",
        ),
        (
            "long.csv",
            "--reveal size --group campaign",
            3,
            "the name of a group takes 66 bytes",
        ),
    ] {
        let arguments = Arguments::new(file, "mail").with(WORDS).with(words);
        let ended = place
            .receiver(&arguments, "--connect 127.0.0.1:1 --wait 1")
            .wait();
        ended.expect_failure(code, problem);
        assert_eq!(ended.text(), "", "{words}");
    }
    let arguments = Arguments::new("theirs.csv", "mail")
        .with(WORDS)
        .with("--reveal size --group x");
    let ended = place
        .sender(&arguments, "--connect 127.0.0.1:1 --wait 1")
        .wait();
    ended.expect_failure(2, "the sender does not");
    let ended = place.run("check --input ours.csv --key mail --normalize mail=email --reveal size --security semi-honest --group campaign");
    ended.expect_success();
}

/// Noise is for each group, and a run with it has an account.
#[test]
fn numbers_by_group_may_have_noise() {
    let place = place();
    let ours = format!("{GROUPED} --group-sizes told --report ours.json");
    let theirs = format!("{ALLOWED} --epsilon 4 --ledger theirs.ledger");
    let pair = run(&place, "--reveal size", &ours, &theirs);
    pair.expect_success();
    let report: Value = serde_json::from_str(&place.read("ours.json")).unwrap();
    assert_eq!(report["noise"]["numbers"][0]["sender"]["sensitivity"], 2);
    let groups = report["groups"].as_array().unwrap();
    // 40 bits of λ, at a scale of a half.
    let is_near = |group: &Value| (-17..=20).contains(&group["values"]["size"].as_i64().unwrap());
    assert!(
        groups.len() == 3 && groups.iter().all(is_near),
        "{groups:?}"
    );
    // However few keys a group has: a minimum is no smaller for that.
    let mut rows = "mail,campaign\n".to_owned();
    (0..100).for_each(|key| {
        let group = if key < 5 { "few" } else { "" };
        let _ = writeln!(rows, "k{key}@x.org,{group}");
    });
    place.write("ours.csv", &rows);
    place.write("theirs.csv", &rows);
    for sizes in ["hidden", "told", "padded:5"] {
        let ours = format!("{GROUPED} --group-sizes {sizes}");
        let theirs = "--epsilon 0.5 --ledger theirs.ledger";
        let pair = run(&place, "--reveal size --min-size 80", &ours, theirs);
        pair.expect_success();
        assert_eq!(
            pair.receiver.text(),
            "group,size\nfew,fewer than 80\n",
            "{sizes}"
        );
    }
}

/// A receiver that keeps account has its answers there, and a sender may bound groups by a rule.
#[test]
fn numbers_by_group_are_accounted_for() {
    let place = place();
    let rule = |most: u32| format!("[[rule]]\nname = \"groups\"\nmost-groups = {most}\n");
    place.write("three.toml", rule(3));
    place.write("two.toml", rule(2));
    let ours = format!("{GROUPED} --ledger ours.ledger --ledger-answers");
    let sent = |rules: &str| {
        let theirs = format!("{ALLOWED} --min-size 2 --ledger theirs.ledger --rules {rules}");
        run(
            &place,
            "--reveal size",
            &format!("{ours} --min-size 2"),
            &theirs,
        )
    };
    let pair = sent("three.toml");
    pair.expect_success();
    assert!(
        pair.sender.err.contains("--max-peer-groups"),
        "{}",
        pair.sender.err
    );
    let [ours, theirs] = ["ours.ledger", "theirs.ledger"].map(|name| place.read(name));
    assert!(
        ours.contains("{\"group\":\"june\",\"values\":{\"size\":2}}"),
        "{ours}"
    );
    assert!(!theirs.contains("june"), "{theirs}");
    let pair = sent("two.toml");
    pair.sender
        .expect_failure(7, "numbers are of 3 groups, and 2 are the most");
    assert!(
        !pair.receiver.err.contains("groups, and"),
        "{}",
        pair.receiver.err
    );
}
