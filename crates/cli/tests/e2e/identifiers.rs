//! Rows that match by any of several identifiers.

use std::fs::File;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::support::{Arguments, Ended, Place, exchange};

const OURS: &str = "id,mail,tel,card\n\
    1,Ann@x.org,,\n\
    2,,020 7946 0000,\n\
    3,zed@x.org,020 7946 0111,L7\n\
    4,,,\n\
    5,q@x.org; bob@x.org,,L9\n\
    6,nobody@x.org,,L1\n";
const THEIRS: &str = "{\"e\":\"ann@X.org\",\"p\":null,\"l\":\"L1\",\"city\":\"Rome\"}\n\
    {\"e\":\"xx@x.org\",\"p\":\"+442079460000\",\"city\":\"Oslo\"}\n\
    {\"e\":\"bob@x.org\",\"p\":\"\",\"l\":\"L7\",\"city\":\"Bern\"}\n";

const OUR_WORDS: &str = "--match email=mail --match phone=tel --match card=card --split mail=; \
     --normalize mail=email --normalize tel=phone:GB";
const THEIR_WORDS: &str =
    "--match email=e --match phone=p --match card=l --normalize e=email --normalize p=phone:FR";

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", OURS);
    place.write("theirs.jsonl", THEIRS);
    place
}

fn ours(words: &str) -> Arguments {
    let ours = Arguments::new("ours.csv", "").without("--key");
    ours.with(OUR_WORDS).with(words)
}

fn theirs(words: &str) -> Arguments {
    let theirs = Arguments::new("theirs.jsonl", "").without("--key");
    theirs.with(THEIR_WORDS).with(words)
}

/// With protocols of every kind, and in buckets.
#[test]
fn a_row_matches_by_any_of_its_identifiers() {
    for protocol in ["auto", "vole", "oprf-dh", "kkrt --security semi-honest"] {
        let place = place();
        let pair = exchange(
            &place,
            &ours(&format!(
                "--protocol {protocol} --matched-by how --output out.csv --report report.json"
            )),
            &theirs(&format!("--protocol {protocol}")),
        );
        pair.expect_success();
        let expected = "id,mail,tel,card,how\n\
            1,Ann@x.org,,,email\n\
            2,,020 7946 0000,,phone\n\
            3,zed@x.org,020 7946 0111,L7,card\n\
            5,q@x.org; bob@x.org,,L9,email\n\
            6,nobody@x.org,,L1,card\n";
        assert_eq!(place.read("out.csv"), expected, "{protocol}");
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        for (name, value) in [
            ("rows", 6),
            ("items", 10),
            ("peer_items", 6),
            ("matches", 5),
            ("rows_written", 5),
            ("blanks", 1),
            ("duplicates", 0),
        ] {
            assert_eq!(report[name], value, "{name}");
        }
    }
}

/// Those of the first identifier that matches.
#[test]
fn columns_of_the_sender_come_with_the_first_match() {
    let place = place();
    let shared = "id,mail,card\n1,ann@x.org,L7\n2,q@x.org,L7\n";
    place.write("ours.csv", shared);
    exchange(
        &place,
        &Arguments::new("ours.csv", "")
            .without("--key")
            .with("--match card=card --match email=mail --rows all --take-payload --matched-by by --output out.jsonl"),
        &Arguments::new("theirs.jsonl", "")
            .without("--key")
            .with("--match card=l --match email=e --normalize e=email --payload city"),
    )
    .expect_failures(6, "normalization");
    exchange(
        &place,
        &Arguments::new("ours.csv", "").without("--key").with(
            "--match card=card --match email=mail --normalize mail=email --rows all --take-payload --matched-by by \
             --output out.jsonl",
        ),
        &Arguments::new("theirs.jsonl", "")
            .without("--key")
            .with("--match card=l --match email=e --normalize e=email --payload city"),
    )
    .expect_success();
    let expected = "{\"id\":\"1\",\"mail\":\"ann@x.org\",\"card\":\"L7\",\"in_both\":true,\"by\":\"card\",\"peer_city\":\"Bern\"}\n\
        {\"id\":\"2\",\"mail\":\"q@x.org\",\"card\":\"L7\",\"in_both\":true,\"by\":\"card\",\"peer_city\":\"Bern\"}\n";
    assert_eq!(place.read("out.jsonl"), expected);
}

/// What a list repeats, under its profile, is one identifier of one row.
#[test]
fn a_row_has_an_identifier_once() {
    let place = place();
    place.write(
        "ours.csv",
        "id,mail\n1,b@x.org;a@x.org;a@x.org\n2,c@x.org\n",
    );
    place.write(
        "theirs.csv",
        "e,city\na@x.org;A@x.org; a@x.org,Rome\na@x.org,Oslo\nC@x.org;c@x.org,Bern\n",
    );
    let words = "--rows-per-key 2 --match email";
    exchange(
        &place,
        &Arguments::new("ours.csv", "").without("--key").with(&format!(
            "{words}=mail --normalize mail=email --split mail=; --take-payload --output out.csv --report report.json"
        )),
        &Arguments::new("theirs.csv", "")
            .without("--key")
            .with(&format!("{words}=e --normalize e=email --split e=; --payload city")),
    )
    .expect_success();
    let expected = "id,mail,peer_city\n1,b@x.org;a@x.org;a@x.org,Rome\n1,b@x.org;a@x.org;a@x.org,Oslo\n\
        2,c@x.org,Bern\n";
    assert_eq!(place.read("out.csv"), expected);
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    for (name, value) in [("items", 3), ("duplicates", 0), ("blanks", 0), ("rows", 2)] {
        assert_eq!(report[name], value, "{name}");
    }
}

/// Whatever the sender's are called.
#[test]
fn no_two_columns_of_a_result_have_one_name() {
    for (output, expected) in [
        (
            "out.csv",
            "id,mail,tel,card,peer_city,peer_city_\n1,Ann@x.org,,,email,Rome\n",
        ),
        (
            "out.jsonl",
            "{\"id\":\"1\",\"mail\":\"Ann@x.org\",\"tel\":null,\"card\":null,\"peer_city\":\"email\",\
             \"peer_city_\":\"Rome\"}\n",
        ),
    ] {
        let place = place();
        exchange(
            &place,
            &ours(&format!(
                "--take-payload --matched-by peer_city --output {output}"
            )),
            &theirs("--payload city"),
        )
        .expect_success();
        let found = place.read(output);
        assert!(found.starts_with(expected), "{found}");
    }
}

/// As a format has them, without an option.
#[test]
fn typed_lists_have_an_item_for_each_element() {
    let mut mails = ListBuilder::new(StringBuilder::new());
    for list in [
        Some(vec![Some("ann@x.org"), None, Some("bob@x.org")]),
        None,
        Some(vec![]),
        Some(vec![Some("cy@x.org")]),
    ] {
        match list {
            Some(list) => mails.append_value(list),
            None => mails.append_null(),
        }
    }
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let mails: ArrayRef = Arc::new(mails.finish());
    let batch = RecordBatch::try_from_iter([("n", numbers), ("mails", mails)]).unwrap();
    let place = Place::new();
    let file = File::create(place.path("ours.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let theirs = "{\"m\":[\"x@x.org\",\"bob@x.org\"],\"k\":[7]}\n{\"m\":\"cy@x.org\"}\n{\"m\":[],\"k\":[3,9]}\n";
    place.write("theirs.jsonl", theirs);
    let ours = |words: &str| {
        let table = Arguments::new("ours.parquet", "").without("--key");
        table.with(words)
    };
    let theirs = |words: &str| {
        let table = Arguments::new("theirs.jsonl", "").without("--key");
        table.with(words)
    };
    exchange(
        &place,
        &ours("--match mail=mails --match n=n --both --output out.parquet --matched-by how"),
        &theirs("--match mail=m --match n=k --both --output theirs-out.jsonl --matched-by how"),
    )
    .expect_success();
    let expected = "{\"m\":[\"x@x.org\",\"bob@x.org\"],\"k\":[7],\"how\":\"mail\"}\n\
        {\"m\":\"cy@x.org\",\"how\":\"mail\"}\n{\"m\":[],\"k\":[3,9],\"how\":\"n\"}\n";
    assert_eq!(place.read("theirs-out.jsonl"), expected);
    let file = File::open(place.path("out.parquet")).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let batches: Vec<RecordBatch> = reader.build().unwrap().map(Result::unwrap).collect();
    let [found] = &batches[..] else {
        panic!("{batches:?}");
    };
    assert_eq!(
        found["n"].as_primitive::<Int64Type>().values(),
        &[1, 3, 4][..]
    );
    let how: Vec<_> = found["how"]
        .as_string::<i32>()
        .iter()
        .map(Option::unwrap)
        .collect();
    assert_eq!(how, ["mail", "n", "mail"]);
    // A list is no value of a key of several columns.
    let both = ours("--match mail=mails,n --output out.parquet");
    let pair = exchange(&place, &both, &theirs("--match mail=m,k"));
    pair.receiver.expect_failure(3, "List");
}

#[test]
fn both_sides_learn_their_rows() {
    let place = place();
    let pair = exchange(
        &place,
        &ours("--both --output out.parquet --matched-by how"),
        &theirs("--both --output theirs.csv --matched-by how --rows all"),
    );
    pair.expect_success();
    let expected = "e,p,l,city,in_both,how\n\
        ann@X.org,,L1,Rome,true,email\n\
        xx@x.org,+442079460000,,Oslo,true,phone\n\
        bob@x.org,\"\",L7,Bern,true,email\n";
    assert_eq!(place.read("theirs.csv"), expected);
}

/// With keys in files and several buckets, and a second run that resumes.
#[test]
fn tables_larger_than_memory_find_the_same_rows() {
    let place = Place::new();
    let rows = |range: std::ops::Range<u32>, shift: u32| {
        let row = |i: u32| format!("{i},m{},t{}\n", i + shift, (i * 7 + shift) % 5000);
        format!("id,mail,tel\n{}", range.map(row).collect::<String>())
    };
    place.write("ours.csv", rows(0..3000, 0));
    place.write("theirs.csv", rows(0..2500, 2000));
    let words = "--match mail=mail --match tel=tel --protocol dh --security semi-honest";
    let of = |memory: &str, output: &str| {
        let table = |name: &str| Arguments::new(name, "").without("--key").with(words);
        exchange(
            &place,
            &table("ours.csv").with(&format!(
                "--memory {memory} --matched-by how --output {output}"
            )),
            &table("theirs.csv").with(&format!("--memory {memory}")),
        )
        .expect_success();
        place.read(output)
    };
    let found = of("400K", "small.csv");
    assert_eq!(found, of("1G", "large.csv"));
    let theirs: std::collections::HashSet<u32> = (0..2500).map(|i| (i * 7 + 2000) % 5000).collect();
    let expected = (0..3000).filter_map(|i: u32| {
        let by = match ((2000..4500).contains(&i), theirs.contains(&(i * 7 % 5000))) {
            (true, _) => "mail",
            (false, true) => "tel",
            (false, false) => return None,
        };
        Some(format!("{i},m{i},t{},{by}\n", i * 7 % 5000))
    });
    let expected = format!("id,mail,tel,how\n{}", expected.collect::<String>());
    assert_eq!(found, expected);
}

#[test]
fn what_cannot_be_had_is_refused_before_a_peer_is_met() {
    let place = place();
    let refused = |words: &str, expected: &str| {
        let command = format!(
            "receive --input ours.csv --identity receiver.key --peer {} --connect 127.0.0.1:1 --wait 1 {words}",
            place.sender
        );
        place.run(&command).expect_failure(2, expected);
    };
    let each = "--match a=mail --match b=tel";
    for reveal in [
        "size",
        "sum",
        "threshold:5",
        "threshold-matches:5",
        "shares --output x.csv",
    ] {
        let words = format!("{each} --security semi-honest --reveal {reveal}");
        refused(&words, "rows that match by any of several identifiers");
    }
    refused(
        &format!("{each} --both --align"),
        "in no order that both sides share",
    );
    refused("--match a", "is not NAME=COLUMN");
    refused("--match a=mail --match a=tel", "is given twice");
    refused("--match a=mail --key tel", "cannot be used with");
    refused("--key tel --split tel=;", "--match");
    refused("--key tel --matched-by how", "--match");
    refused("--match a=mail,tel --split tel=;", "not the only column");
    refused(
        "--match a=mail --split tel=;",
        "not a column of an identifier",
    );
    refused(
        &format!("{each} --normalize card=email"),
        "not part of the key",
    );
    let taken = place.run(&format!(
        "receive --input ours.csv --identity receiver.key --peer {} --listen 127.0.0.1:0 --wait 1 {each} --matched-by card",
        place.sender
    ));
    taken.expect_failure(3, "a column is called \"card\" already");
    let twice = place.run(&format!(
        "receive --input ours.csv --identity receiver.key --peer {} --listen 127.0.0.1:0 --wait 1 {each} --rows all \
         --matched-by in_both",
        place.sender
    ));
    twice.expect_failure(2, "the result has a column \"in_both\" of its own");
}

/// Names, their order and the number of columns are a part of the contract.
#[test]
fn other_identifiers_are_another_contract() {
    for [ours, theirs] in [
        ["a=mail --match b=tel", "b=mail --match a=tel"],
        ["a=mail --match b=tel", "a=mail,tel"],
        ["a=mail", "b=mail"],
        ["a=mail --match b=tel", "a=mail --match b=tel,card"],
    ] {
        let place = place();
        let side = |words: &str| {
            let table = Arguments::new("ours.csv", "").without("--key");
            table.with(&format!("--match {words}"))
        };
        let pair = exchange(&place, &side(ours).output("out.csv"), &side(theirs));
        pair.expect_failures(6, "disagree");
        let plain = Arguments::new("ours.csv", "mail");
        let pair = exchange(&place, &side("mail=mail").output("out.csv"), &plain);
        pair.expect_failures(6, "normalization");
    }
}

#[test]
fn identifiers_are_looked_up_in_a_published_set() {
    let place = place();
    let run = |words: &str| -> Ended { place.run(words) };
    run(&format!(
        "publish --identity sender.key --set-dir database --output set.vset --progress none --input theirs.jsonl \
         {THEIR_WORDS} --payload city"
    ))
    .expect_success();
    place.write("clients", format!("{}\n", place.receiver));
    let mut server = place.start_after(
        "true",
        "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 --quota 100",
    );
    let endpoint = server.endpoint();
    run(&format!(
        "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input ours.csv {OUR_WORDS} \
         --matched-by how --output out.csv",
        place.sender
    ))
    .expect_success();
    let expected = "id,mail,tel,card,how,peer_city\n\
        1,Ann@x.org,,,email,Rome\n\
        2,,020 7946 0000,,phone,Oslo\n\
        3,zed@x.org,020 7946 0111,L7,card,Bern\n\
        5,q@x.org; bob@x.org,,L9,email,Bern\n\
        6,nobody@x.org,,L1,card,Rome\n";
    assert_eq!(place.read("out.csv"), expected);
    run(&format!(
        "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input ours.csv --key mail",
        place.sender
    ))
    .expect_failure(6, "the keys of the published set have 3 columns");
    let other = "--match email=mail --match phone=mail --match card=card";
    let refused = run(&format!(
        "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input ours.csv {other}",
        place.sender
    ));
    refused.expect_failure(
        6,
        "the keys of the published set are normalised as email=email/2",
    );
    let words = "match by the identifiers of the set, one after the other: email (email), phone (phone:REGION), card (exact)";
    assert_eq!(refused.hint(), words);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
}

#[test]
fn a_column_of_several_identifiers_is_looked_up() {
    let place = place();
    let run = |words: &str| -> Ended { place.run(words) };
    run(
        "publish --identity sender.key --set-dir database --output set.vset --progress none --input theirs.jsonl \
         --match one=l --match two=l,city",
    )
    .expect_success();
    place.write("clients", format!("{}\n", place.receiver));
    let mut server = place.start_after(
        "true",
        "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 --quota 100",
    );
    let endpoint = server.endpoint();
    place.write(
        "table.csv",
        "card,tel,city\nL1,L7,Rome\n,L1,Rome\nL0,L1,Oslo\n",
    );
    for (words, expected) in [
        ("--match one=card --match two=card,city", "L1,L7,Rome,one\n"),
        (
            "--match one=card --match two=tel,city",
            "L1,L7,Rome,one\n,L1,Rome,two\n",
        ),
    ] {
        run(&format!(
            "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} --input table.csv {words} \
             --matched-by how --output out.csv",
            place.sender
        ))
        .expect_success();
        assert_eq!(
            place.read("out.csv"),
            format!("card,tel,city,how\n{expected}"),
            "{words}"
        );
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
}

#[test]
fn identifiers_go_by_files() {
    let place = place();
    let step = |role: &str, name: &str, more: &str| {
        let (peer, table) = match role {
            "receiver" => (place.sender, format!("ours.csv {OUR_WORDS}")),
            _ => (place.receiver, format!("theirs.jsonl {THEIR_WORDS}")),
        };
        place
            .run(&format!(
                "exchange {name} --role {role} --input {table} --identity {role}.key --peer {peer} --state {role}.state \
                 --progress none {more}"
            ))
            .expect_success();
    };
    step("sender", "offer", "--message-out m0");
    step("receiver", "start", "--message m0 --message-out m1");
    step("sender", "answer", "--message m1 --message-out m2");
    step(
        "receiver",
        "finish",
        "--message m2 --output out.csv --matched-by how",
    );
    let ids: Vec<_> = place
        .read("out.csv")
        .lines()
        .map(|line| line[..2].to_owned())
        .collect();
    assert_eq!(ids, ["id", "1,", "2,", "3,", "5,", "6,"]);
}

#[test]
fn check_says_what_the_peer_would_learn() {
    let place = place();
    let checked = place.run(&format!(
        "check --input ours.csv {OUR_WORDS} --show 2 --json"
    ));
    checked.expect_success();
    let found: serde_json::Value = serde_json::from_slice(&checked.out).unwrap();
    assert_eq!((&found["rows"], &found["items"]), (&6.into(), &10.into()));
    assert_eq!(found["blanks"], 1);
    let checked = place.run(&format!("check --input ours.csv {OUR_WORDS} --show 5"));
    checked.expect_success();
    let said = checked.text();
    assert!(
        said.contains(
            "\"q@x.org\" is compared as \"q@x.org\", \"bob@x.org\" is compared as \"bob@x.org\""
        ),
        "{said}"
    );
    // The same address in several rows: by rows, and not by identifiers.
    place.write("twice.csv", "a,b\n1,2\n3,4\n5,4\n6,4\n");
    let checked = place.run("check --input twice.csv --match a=a --match b=b");
    checked.expect_success();
    assert!(checked.text().contains("row 2"), "{}", checked.text());
}
