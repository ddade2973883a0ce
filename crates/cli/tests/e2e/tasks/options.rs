//! What help offers, and what messages advise.

use std::collections::BTreeSet;

use super::{place_of_keys, split_keys, start, succeed, task, tasks};
use crate::declared::{commands, id};
use crate::support::{Ended, Place};

/// Options of `split`, with values, for both sides, for the receiver and for the sender.
const RUNS: [[&str; 3]; 4] = [
    [
        "--format csv --delimiter , --quote \" --escape \\ --encoding utf-8 --null NULL --skip-initial-space \
         --deny options.toml --security semi-honest --lambda 40 --protocol dh --both --max-peer-items 2^20 --memory 64M --threads 1 --allow-empty --wait 20 --timeout 20 \
         --deadline 60 --task-memory 1G --attempts 2 --valid-for 600 --log-format text --allow-core-dumps \
         --config options.toml",
        "--normalize id=text",
        "--normalize id=text",
    ],
    [
        "--reveal sum --security semi-honest --post-quantum --min-size 2 --optimize time --bandwidth 100mbps --epsilon 1 \
         --epsilon-split sum=1,sum-count=2 --purpose a-test",
        "--ledger ours.ledger --max-peer-value-bound 100 --max-peer-values 1",
        "--ledger theirs.ledger --ledger-answers --rules rules.toml --value id --value-scale 0 --value-bound 100 --value-repeated sum",
    ],
    ["--no-header", "", ""],
    [
        "--match n=id --split id=; --skip-rows 0 --skip-footer 0",
        "",
        "",
    ],
];

/// What every line has.
const ALWAYS: &str = "--role --input --key --job --identity --peer --listen --connect --progress";
/// A table in a database takes its driver, and a sheet its workbook, as in every command that reads one. So do an encrypted
/// identity and a way through a proxy.
const OF_OTHER_TABLES: &str = "--query --database --database-file --driver --sheet --passphrase-file --proxy --sni --outer-ca";

#[test]
fn every_option_in_the_help_of_split_is_one_that_it_takes() {
    let place = place_of_keys(20);
    place.write("options.toml", "");
    place.write("rules.toml", "[[rule]]\nname = \"all\"\n");
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (number, [both, ours, theirs]) in RUNS.into_iter().enumerate() {
        let key = match both {
            "--no-header" => "--key 1",
            _ if both.starts_with("--match") => "",
            _ => "--key id",
        };
        let side = |role: &str, other: &str, words: &str, endpoint: &str| {
            let peer = match role {
                "receiver" => place.sender,
                _ => place.receiver,
            };
            start(
                &place,
                &format!(
                    "split --role {role} --input ours.csv {key} --job {role}-{number} --identity {role}.key --peer {peer} \
                     --progress plain {endpoint} {words} {other}"
                ),
            )
        };
        let mut far = side("sender", theirs, both, "--listen 127.0.0.1:0");
        let endpoint = far.endpoint();
        succeed([side("receiver", ours, both, &endpoint).wait(), far.wait()]);
        let words = [both, ours, theirs]
            .map(str::split_whitespace)
            .into_iter()
            .flatten();
        taken.extend(
            words
                .filter(|word| word.starts_with("--"))
                .map(str::to_owned),
        );
    }
    taken.extend(
        [ALWAYS, OF_OTHER_TABLES]
            .iter()
            .flat_map(|all| all.split(' '))
            .map(str::to_owned),
    );
    let all = commands();
    let split = all
        .iter()
        .find(|command| command.words == ["split"])
        .unwrap();
    let shown = split.command.get_arguments();
    let shown = shown.filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&id(arg)));
    let shown: BTreeSet<String> = shown
        .filter_map(clap::Arg::get_long)
        .map(|long| format!("--{long}"))
        .collect();
    assert_eq!(taken, shown);
}

/// Each says what to do; none names an option that the command has not.
#[test]
fn whatever_goes_wrong_with_a_job_has_a_hint() {
    let place = place_of_keys(20);
    place.write("theirs.csv", "id\n1\n2\n");
    let numbers = "--reveal size --security semi-honest";
    succeed(split_keys(
        &place,
        ["near", "far"],
        "--protocol dh --security semi-honest",
    ));
    succeed(split_keys(&place, ["near-2", "far-2"], numbers));
    let (receiver, sender) = (place.receiver, place.sender);
    let hint = |ended: Ended, code: i32, line: &str, hint: &str| {
        ended.expect_failure(code, line);
        assert!(ended.hint().contains(hint), "{}", ended.err);
    };
    let driver = |name: &str, job: &str| {
        place.run(&format!(
            "{name} --job {job} --identity receiver.key --peer {sender} --connect 127.0.0.1:1 --wait 0.2"
        ))
    };
    let collect = |job: &str, more: &str| {
        place.run(&format!(
            "collect --job {job} --input ours.csv --key id {more}"
        ))
    };
    let nobody = "start the other side, which listens, and give the address that it prints";
    std::fs::create_dir(place.path("empty")).unwrap();
    for (job, why) in [
        ("none", "there is no such directory"),
        ("empty", "it has no job.json"),
    ] {
        for ended in [
            driver("attempts", job),
            driver("total", job),
            collect(job, "--output out.csv"),
            task(&place, (job, 0, 0), "--connect 127.0.0.1:1").wait(),
        ] {
            hint(
                ended,
                3,
                &format!("has no job of this version: {why}"),
                "`vesica split` makes a job",
            );
        }
    }
    hint(
        driver("attempts", "near"),
        4,
        "nobody listens on 127.0.0.1:1",
        nobody,
    );
    hint(
        driver("total", "near-2"),
        4,
        "nobody listens on 127.0.0.1:1",
        nobody,
    );
    let ended = task(&place, ("near", 0, 0), "--connect 127.0.0.1:1 --wait 0.2").wait();
    hint(ended, 4, "nobody listens on 127.0.0.1:1", nobody);
    let listens = format!(
        "attempts --job far --identity sender.key --peer {receiver} --listen 127.0.0.1:0 --wait 0.2"
    );
    hint(
        place.run(&listens),
        4,
        "did not connect",
        "start the other side, which connects",
    );
    hint(
        driver("total", "near"),
        2,
        "is for matches",
        "`vesica collect` writes",
    );
    let ended = place.run("total --job near-2");
    hint(ended, 2, "has no total yet", "meet the peer's driver");
    let ended = collect("near-2", "--output out.csv");
    hint(ended, 2, "is for numbers", "`vesica total` opens");
    let ended = collect("near", "--output out.csv");
    hint(
        ended,
        2,
        "has no result of bucket 0",
        "`vesica attempts` prints which are left",
    );
    let ended = task(&place, ("near", 3, 9), "--connect 127.0.0.1:1").wait();
    hint(
        ended,
        2,
        "has 1 bucket of 4 attempts each",
        "`vesica attempts` prints",
    );
    succeed(tasks(&place, ("near", 0, 0), ("far", 0, 0)));
    let ended = collect("near", "--output gone/out.csv");
    hint(ended, 2, "gone/out.csv", "make the directory first");
    let ended = collect("far", "--output out.csv");
    hint(ended, 2, "learns no matches", "--both");
    let other = "collect --job near --input theirs.csv --key id --output out.csv";
    hint(
        place.run(other),
        3,
        "has other keys in bucket 0",
        "give the table, the key columns",
    );
    assert!(!place.path("out.csv").exists());
    // Who is brought together at a gateway, and who is not.
    succeed(split_keys(&place, ["near-3", "far-3"], numbers));
    let mut gateway = start(
        &place,
        "gateway --listen 127.0.0.1:0 --admit near-3/gateway.json",
    );
    let address = gateway.wait_for("listening on ");
    let at = |job: &str| {
        task(
            &place,
            (job, 0, 0),
            &format!("--gateway {address} --wait 0.5"),
        )
        .wait()
    };
    let line = format!(
        "the gateway at {address} has no task of the peer for bucket 0, attempt 0 (tried for 0.5 s)"
    );
    hint(
        at("near-3"),
        4,
        &line,
        "start the peer's task for the same bucket and attempt",
    );
    hint(
        at("near-2"),
        2,
        "is not for this job",
        "start it with that of this job",
    );
    silent_ports(&place, &hint);
}

/// Each is refused with what to do, and what was made for it is gone.
#[test]
fn a_split_that_fails_leaves_nothing() {
    let place = place_of_keys(20);
    place.write("file", "");
    let split = |job: &str, words: &str| {
        place.run(&format!(
            "split --role receiver --input ours.csv --key id --job {job} --identity receiver.key --peer {} \
             --connect 127.0.0.1:1 --wait 0.2 {words}",
            place.sender
        ))
    };
    for (job, missing) in [
        ("gone/job", "gone"),
        ("gone/far/job", "gone"),
        ("file/job", "file"),
    ] {
        let ended = split(job, "");
        let line = format!("--job {job}: there is no directory {missing}");
        ended.expect_failure(2, &line);
        assert!(
            ended.hint().starts_with("make the directory first"),
            "{}",
            ended.err
        );
    }
    split("job", "").expect_failure(4, "nobody listens");
    assert!(!place.path("job").exists());
    // One that was there stays, as empty as it was.
    std::fs::create_dir(place.path("job")).unwrap();
    split("job", "").expect_failure(4, "nobody listens");
    assert_eq!(std::fs::read_dir(place.path("job")).unwrap().count(), 0);
    // No peer is needed to know that.
    let ended = split(
        "job-2",
        "--reveal size --security semi-honest --task-memory 100M",
    );
    let line = "100M of memory for a task is too little for size, which takes 129M or more";
    ended.expect_failure(2, line);
    assert!(ended.hint().contains("--task-memory"), "{}", ended.err);
    assert!(!place.path("job-2").exists());
}

/// What listens is no gateway, or not what a task takes it for.
fn silent_ports(place: &Place, hint: &dyn Fn(Ended, i32, &str, &str)) {
    let words = format!(
        "send --input ours.csv --key id --identity sender.key --peer {} --listen 127.0.0.1:0",
        place.receiver
    );
    let mut other = start(place, &words);
    let address = other.address();
    let ended = task(
        place,
        ("near-3", 0, 0),
        &format!("--gateway {address} --wait 0.5"),
    )
    .wait();
    hint(
        ended,
        4,
        "says nothing, as another program would",
        "give the address at which `vesica gateway` listens",
    );
}
