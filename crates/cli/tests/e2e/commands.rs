//! The commands that need no peer, or bring their own.

use serde_json::Value;

use crate::support::{Arguments, Ended, Place};

#[test]
fn help_and_bad_command_lines() {
    let place = Place::new();
    for words in ["--help", "receive --help", "bench --help", "--version"] {
        let ended = place.run(words);
        assert_eq!(ended.code, Some(0), "{words}");
        assert!(
            ended.text().contains("vesica") && ended.err.is_empty(),
            "{words}"
        );
        assert!(!ended.text().contains("bench-party"), "{words}");
    }
    for (words, text) in [
        ("", "no command"),
        ("intersect", "intersect"),
        ("receive", "--input"),
        ("send --input x --key y", "--listen"),
        ("check --input x", "--key"),
        ("keygen --out", "--out"),
        (
            "bench --protocol nonsense --receiver-size 1 --sender-size 1",
            "nonsense",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --payload-width 1",
            "--payload-width is for --reveal shares",
        ),
        (
            "bench --protocol circuit-okvs --reveal sum --receiver-size 1 --alone sender",
            "a party with values, rows or ids is not measured by itself",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --threads 0",
            "threads",
        ),
        (
            "bench --protocol dh --receiver-size 2^99 --sender-size 1",
            "2^99",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --network dialup",
            "dialup",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --bandwidth 10",
            "200mbps",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --bandwidth 0mbps",
            "1kbps",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --rtt=-5ms",
            "60s",
        ),
        (
            "bench --protocol dh --receiver-size 1 --sender-size 1 --rtt 61s",
            "60s",
        ),
    ] {
        place.run(words).expect_failure(2, text);
    }
}

#[test]
fn help_of_a_command_is_a_command_too() {
    let place = Place::new();
    let [said, asked] = ["help receive", "receive --help"].map(|words| place.run(words));
    assert_eq!((said.code, &said.out), (Some(0), &asked.out));
    place.run("help nonsense").expect_failure(2, "nonsense");
}

/// As a script appends to what a wrapper gives.
#[test]
fn of_an_option_that_is_given_twice_the_last_counts() {
    let place = Place::new();
    place.write("a.csv", "id\n1\n2\n");
    let ended = place.run("check --input a.csv --key id --show 2 --memory 4G --show=1 --json");
    ended.expect_success();
    let told: Value = serde_json::from_str(ended.text()).unwrap();
    assert_eq!(told["shown"].as_array().unwrap().len(), 1);
}

#[test]
fn a_check_shows_keys_where_it_is_asked_to() {
    let place = Place::new();
    place.write("a.csv", "mail\n Ann@X.org\nnobody\nbob@x.org\n");
    let words = "check --input a.csv --key mail --normalize mail=email --threads 1";
    let quiet = place.run(words);
    quiet.expect_success();
    assert!(!quiet.text().contains("ann@x.org"));
    let ended = place.run(&format!("{words} --show 2"));
    let shown = ended.text();
    assert!(
        shown.contains("key of row 1: \" Ann@X.org\" is compared as \"ann@x.org\"\n"),
        "{shown}"
    );
    assert!(
        shown.contains("key of row 2: \"nobody\" is invalid\n"),
        "{shown}"
    );
    assert!(!shown.contains("bob@x.org"), "{shown}");
}

#[test]
fn keygen_makes_an_identity_and_overwrites_none() {
    let place = Place::new();
    let ended = place.run("keygen --out new.key");
    ended.expect_success();
    let fingerprint = ended.text().trim_end().to_owned();
    assert_eq!(ended.text().lines().count(), 1);
    let loaded = vesica::Identity::load(place.path("new.key")).unwrap();
    assert_eq!(loaded.fingerprint().to_string(), fingerprint);

    let content = place.read("new.key");
    let before = place.names();
    let ended = place.run("keygen --out new.key");
    ended.expect_failure(2, "exists");
    assert!(
        ended
            .err
            .contains(&format!("hint: the identity in it is {fingerprint}"))
    );
    assert_eq!(place.read("new.key"), content);
    place
        .run("keygen --out nowhere/new.key")
        .expect_failure(2, "nowhere");
    assert_eq!(place.names(), before);

    place.run("keygen").expect_success();
    assert!(place.names().contains(&"vesica.key".to_owned()));
}

#[test]
fn a_fingerprint_is_that_of_the_identity() {
    let place = Place::new();
    let ended = place.run("fingerprint --identity receiver.key");
    ended.expect_success();
    assert_eq!(ended.text(), format!("{}\n", place.receiver));
    place.write(
        "cert.pem",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let owner = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.path("cert.pem"), owner).unwrap();
    }
    for (words, line, hint) in [
        ("--identity nowhere.key", "nowhere.key", "`vesica keygen`"),
        (
            "--identity cert.pem",
            "this is a PEM file of another kind, and not an identity",
            "`vesica keygen`",
        ),
        (
            "receiver.key",
            "receiver.key",
            "did you mean `vesica fingerprint --identity receiver.key`?",
        ),
    ] {
        let ended = place.run(&format!("fingerprint {words}"));
        ended.expect_failure(2, line);
        assert!(ended.hint().contains(hint), "{}", ended.err);
    }
}

#[test]
fn a_mistyped_fingerprint_is_read_out_once_more() {
    let place = Place::new();
    let mut typed = place.sender.to_string();
    let last = typed.pop().unwrap();
    typed.push(if last == 'a' { 'b' } else { 'a' });
    for wrong in [&typed, "vs1:abc", "sender"] {
        let ended = place.run(&format!(
            "receive --input x --key y --connect h:1 --identity receiver.key --peer {wrong}"
        ));
        ended.expect_failure(2, wrong);
        let hint = "`vesica fingerprint --identity FILE`";
        assert!(ended.hint().contains(hint), "{}", ended.err);
    }
}

#[test]
fn completions_and_manual_pages() {
    let place = Place::new();
    for (words, text) in [
        ("completions bash", "--max-peer-items"),
        ("completions zsh", "--max-peer-items"),
        ("man", ".TH vesica"),
        ("man receive", "max\\-peer\\-items"),
    ] {
        let ended = place.run(words);
        ended.expect_success();
        assert!(ended.text().contains(text), "{words}");
    }
    place.run("man nonsense").expect_failure(2, "nonsense");
    place.run("completions dos").expect_failure(2, "dos");
}

#[test]
fn options_come_from_the_environment() {
    let place = Place::new();
    place.write("table.csv", "id\n1\nNULL\n");
    let set = "export VESICA_INPUT=table.csv VESICA_KEY=id VESICA_JSON=true VESICA_NULL=NULL";
    let ended = place.run_after(set, "check");
    ended.expect_success();
    let check: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!((&check["items"], &check["blanks"]), (&1.into(), &1.into()));
    // The command line counts more.
    place
        .run_after(set, "check --key nonsense")
        .expect_failure(3, "nonsense");
    place
        .run_after(
            "export VESICA_MEMORY=lots",
            "check --input table.csv --key id",
        )
        .expect_failure(2, "a size is");
    // The demo's commands are its own.
    place
        .run_after("export VESICA_REPORT=report.json VESICA_BOTH=true", "demo")
        .expect_success();
    assert!(!place.names().contains(&"report.json".to_owned()));
}

#[test]
fn options_come_from_a_file() {
    let place = Place::new();
    place.write("table.csv", "id,n\n1,a\n2,NULL\nNULL,\n");
    let config = "input = \"table.csv\"\nkey = [\"id\", \"n\"]\njson = true\nnull = \"NULL\"\nmemory = 1000000\n";
    place.write("vesica.toml", config);
    let counts = |ended: &Ended| {
        ended.expect_success();
        let check: Value = serde_json::from_slice(&ended.out).unwrap();
        (
            check["items"].as_u64().unwrap(),
            check["blanks"].as_u64().unwrap(),
        )
    };
    assert_eq!(counts(&place.run("check --config vesica.toml")), (1, 2));
    assert_eq!(counts(&place.run("--config=vesica.toml check")), (1, 2));
    // The environment counts more than the file, and the command line more than that.
    let set = "export VESICA_CONFIG=vesica.toml VESICA_KEY=id";
    assert_eq!(counts(&place.run_after(set, "check")), (2, 1));
    assert_eq!(counts(&place.run_after(set, "check --key n")), (1, 2));
    // What takes the place of a key is not given twice.
    place
        .run("check --config vesica.toml --query x")
        .expect_failure(2, "a query needs a database");
    for (text, words) in [
        ("inputs = \"x\"\n", "no command has the option \"inputs\""),
        ("config = \"x\"\n", "a file names no other file of options"),
        ("json = \"yes\"\n", "json is true or false"),
        ("memory = { size = 3 }\n", "memory is a text"),
        ("memory = \"lots\"\n", "a size is"),
        ("\n\ndatabase = s3cret\n", "line 3"),
        (
            "query = \"x\"\ndatabase = \"postgresql://ann:s3cret@host/db\"\n",
            "may have a password",
        ),
    ] {
        place.write("wrong.toml", format!("{text}key = \"id\"\n"));
        let ended = place.run("check --config wrong.toml");
        ended.expect_failure(2, words);
        assert!(!ended.err.contains("s3cret"), "{}", ended.err);
    }
    place.write("wrong.toml", "no_header = true\n");
    let ended = place.run("check --config wrong.toml");
    ended.expect_failure(2, "no command has the option \"no_header\"");
    assert_eq!(ended.hint(), "did you mean \"no-header\"?");
    place
        .run("check --config none.toml")
        .expect_failure(2, "none.toml: cannot be read");
}

#[test]
fn every_line_is_json() {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n\"\"\n");
    place.write("theirs.csv", "id\n3\n");
    let lines = |ended: &Ended| -> Vec<Value> {
        let lines = ended
            .err
            .lines()
            .map(|line| serde_json::from_str(line).expect(line));
        lines.collect()
    };
    let theirs = Arguments::new("theirs.csv", "id").with("--log-format json");
    let mut sender = place.sender(&theirs, "--listen 127.0.0.1:0");
    let address = loop {
        let line: Value = serde_json::from_str(&("{".to_owned() + &sender.wait_for("{"))).unwrap();
        if line["event"] == "listening" {
            break line["address"].as_str().unwrap().to_owned();
        }
    };
    let ours = Arguments::new("ours.csv", "id").with("--output out.csv --log-format=json");
    let receiver = place
        .receiver(&ours, &format!("--connect {address}"))
        .wait();
    let sender = sender.wait();
    assert_eq!(
        (receiver.code, sender.code),
        (Some(0), Some(0)),
        "{}",
        receiver.err
    );
    let (receiver, sender) = (lines(&receiver), lines(&sender));
    for line in receiver.iter().chain(&sender) {
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
        assert!(!line["message"].as_str().unwrap().is_empty());
    }
    let find = |name: &str, value: &str| {
        let found = receiver.iter().find(|line| line[name] == value);
        found.unwrap_or_else(|| panic!("no {name} {value} in {receiver:?}"))
    };
    assert_eq!(find("event", "read")["items"], 2);
    assert_eq!(find("event", "connected")["peer"], place.sender.to_string());
    assert_eq!(find("event", "phase")["phase"], "contract");
    assert_eq!(find("event", "done")["report"]["matches"], 0);
    assert!(
        find("level", "warning")["message"]
            .as_str()
            .unwrap()
            .contains("1 of 3 rows")
    );
    assert!(
        find("level", "hint")["message"]
            .as_str()
            .unwrap()
            .contains("no key matches")
    );

    // Failures too, also of options that are not understood, on the command line or in a file.
    place.write("none.toml", "nonsense = 1\nlog-format = \"json\"\n");
    place.write("odd.toml", "log-format = \"json\"\nthreads = \"x\"\n");
    for (words, code) in [
        ("check --config none.toml", 2),
        ("receive --config odd.toml", 2),
        (
            "check --input none.csv --key id --progress none --log-format json",
            3,
        ),
        ("check --log-format=json --nonsense", 2),
        ("--log-format json", 2),
    ] {
        let ended = place.run(words);
        let [line] = &lines(&ended)[..] else {
            panic!("{}", ended.err);
        };
        assert_eq!(
            (&line["level"], &line["exit_code"]),
            (&"error".into(), &code.into())
        );
        assert_eq!(ended.code, Some(code));
    }
    let ended = place.run_after("export VESICA_LOG_FORMAT=json", "check --key");
    assert_eq!(lines(&ended)[0]["exit_code"], 2);
}

/// What is wrong is said before the peer is met.
#[test]
fn tables_for_results_and_their_databases() {
    let place = Place::new();
    place.write("table.csv", "k\n1\n");
    let both = Arguments::new("table.csv", "k");
    let to_table = both.clone().with("--output-table t");
    let known = to_table.clone().with("--database sqlite:x.db");
    for (arguments, words, text) in [
        (&both, "--output-table-mode append", "--output-table <NAME>"),
        (
            &both,
            "--database sqlite:x.db",
            "--database goes with --query or --output-table",
        ),
        (&to_table, "", "and so does a table for the result"),
        (&to_table, "--output o.csv", "cannot be used with"),
        (&to_table, "--database people.db", "which driver"),
        (
            &to_table,
            "--database postgresql://ann:s3cret@host/db",
            "may have a password",
        ),
        (
            &known,
            "--output-table-mode drop",
            "create, append or replace",
        ),
        (
            &known,
            "--reveal size --security semi-honest",
            "the size is printed; leave --output-table away",
        ),
        (
            &known,
            "--reveal shares --security semi-honest",
            "shares go to a file",
        ),
        (
            &both,
            "--database sqlite:x.db --output-table a.b.c",
            "is not NAME or SCHEMA.NAME",
        ),
        (
            &both,
            "--database sqlite:x.db --output-table a.",
            "is not NAME or SCHEMA.NAME",
        ),
    ] {
        let ended = place
            .receiver(&arguments.clone().with(words), "--connect 127.0.0.1:1")
            .wait();
        ended.expect_failure(2, text);
        assert!(!ended.err.contains("s3cret"), "{}", ended.err);
    }
    let ended = place.sender(&known, "--connect 127.0.0.1:1").wait();
    ended.expect_failure(2, "a sender has an --output-table only with --both");
    // What is typed takes the place of its alternative, and a driver is missed early.
    place.write("x.db", "");
    let missing = "--driver ./no.so";
    for (set, words, code, text) in [
        (
            "export VESICA_OUTPUT=o.csv",
            "",
            2,
            "table \"t\": the ADBC driver \"./no.so\" cannot be loaded",
        ),
        ("rm x.db", "", 3, "x.db: no such file"),
        (
            "export VESICA_OUTPUT_TABLE=u",
            "--output-table v.w",
            2,
            "table \"v\".\"w\": the ADBC driver",
        ),
    ] {
        let arguments = both.clone().with("--database sqlite:x.db").with(missing);
        let arguments = match words {
            "" => arguments.with("--output-table t"),
            words => arguments.with(words),
        };
        place.write("x.db", "");
        let ended = place
            .receiver(&arguments.after(set), "--connect 127.0.0.1:1")
            .wait();
        ended.expect_failure(code, text);
    }
    place.write(
        "both.toml",
        "query = \"x\"\ndatabase = \"sqlite:x.db\"\noutput-table = \"t\"\ndriver = \"./no.so\"\n",
    );
    place.write("x.db", "");
    let ended = place
        .receiver(
            &both.clone().with("--config both.toml"),
            "--connect 127.0.0.1:1",
        )
        .wait();
    ended.expect_failure(2, "table \"t\": the ADBC driver");
    let ended = place
        .receiver(
            &both.with("--config both.toml --output o/o.csv"),
            "--connect 127.0.0.1:1",
        )
        .wait();
    ended.expect_failure(2, "--output o/o.csv: there is no directory o");
}

#[test]
fn queries_and_their_databases() {
    let place = Place::new();
    place.write("table.csv", "k\n1\n");
    place.write("uri", "sqlite:x.db");
    let with_password = "check --query x --key k --database postgresql://ann:s3cret@host/db";
    for (words, code, text) in [
        ("check --key k", 2, "--input"),
        ("check --key k --query x", 2, "a query needs a database"),
        (
            "check --key k --query x --input table.csv",
            2,
            "cannot be used with",
        ),
        (
            "check --key k --query x --delimiter ;",
            2,
            "cannot be used with",
        ),
        (
            "check --key k --input table.csv --driver x",
            2,
            "--driver goes with --query",
        ),
        (with_password, 2, "--database may have a password"),
        (
            "check --key k --query x --database a --database-file b",
            2,
            "give either",
        ),
        (
            "check --key k --query x --database-file none",
            2,
            "none: cannot be read",
        ),
        (
            "check --key k --query x --database people.db",
            2,
            "which driver",
        ),
        (
            "check --key k --query x --database x://y --driver ./no.so",
            2,
            "cannot be loaded",
        ),
    ] {
        let ended = place.run(words);
        ended.expect_failure(code, text);
        assert!(!ended.err.contains("s3cret"), "{}", ended.err);
    }
    place
        .run_after(
            "chmod 644 uri",
            "check --key k --query x --database-file uri",
        )
        .expect_failure(2, "uri: other users can read it");
    // What is typed takes the place of its alternatives in the environment and in a file.
    let set = "export VESICA_DATABASE_FILE=none VESICA_INPUT=none.csv";
    place
        .run_after(set, "check --key k --query x --database sqlite:gone.db")
        .expect_failure(3, "gone.db: no such file");
    place.write(
        "query.toml",
        "query = \"x\"\ndatabase = \"sqlite:x\"\ndriver = \"none\"\n",
    );
    place
        .run("check --config query.toml --input table.csv --key k")
        .expect_success();
    // What is in the environment is for runs that need it.
    place
        .run_after(
            "export VESICA_DATABASE=postgresql://ann:s3cret@host/db VESICA_DRIVER=none",
            "check --input table.csv --key k",
        )
        .expect_success();
}

#[test]
fn check_tells_what_a_run_would_see() {
    let place = Place::new();
    place.write(
        "table.csv",
        "id,email\n1,A@Example.com\n2,a@example.com\n3,\n4,nonsense\n5,b@example.com\n",
    );
    let words = "check --input table.csv --key email --normalize email=email";
    let ended = place.run(&format!("{words} --json"));
    ended.expect_success();
    let check: Value = serde_json::from_slice(&ended.out).unwrap();
    for (key, value) in [
        ("rows", 5),
        ("items", 2),
        ("duplicates", 1),
        ("blanks", 1),
        ("invalid", 1),
    ] {
        assert_eq!(check[key], value, "{key}");
    }
    assert_eq!(check["format"], "csv");
    let ended = place.run(words);
    ended.expect_success();
    assert!(ended.text().contains("table.csv") && ended.text().lines().count() > 3);
}

#[test]
fn demo() {
    let ended = Place::new().run("demo");
    ended.expect_success();
    let text = ended.text();
    for words in [
        "charity$ vesica receive --input donors.csv",
        "shop$ vesica send --input customers.csv",
        "donor,email,last_gift,amount_eur",
        "… and ",
        "rows match; a plain intersection of the two tables gives the same",
        "protocol        compact-dh",
    ] {
        assert!(text.contains(words), "{words:?} not in {text}");
    }
}

#[test]
fn bench_prints_what_it_promises() {
    let place = Place::new();
    for (protocol, security, extra) in [
        ("compact-dh", "malicious", ""),
        ("compact-dh-sh2", "semi-honest", "--network 10mbps-80ms"),
        ("dh", "semi-honest", "--transport tls --seed 5"),
        ("oprf-dh", "malicious", "--transport tls"),
        ("vole", "malicious", "--transport tls"),
        ("vole", "semi-honest", "--security semi-honest"),
        ("kkrt", "semi-honest", "--bandwidth 1.5gbps --rtt 0.5ms"),
        ("spot-low", "malicious-sender", ""),
        ("spot-low", "semi-honest", "--security semi-honest"),
        ("spot-fast", "semi-honest", ""),
        ("sparse-okvs", "semi-honest", ""),
    ] {
        let ended = place.run(&format!(
            "bench --protocol {protocol} --receiver-size 100 --sender-size 2^7 --runs 3 --json {extra}"
        ));
        ended.expect_success();
        let warned = ended.err.starts_with("warning: PLAINTEXT");
        assert_eq!(warned, !extra.contains("tls"), "{}", ended.err);
        let result: Value = serde_json::from_slice(&ended.out).unwrap();
        let keys: Vec<&str> = result
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut named = vec![
            "protocol",
            "security",
            "reveal",
            "optimize",
            "receiver_size",
            "sender_size",
            "matches",
            "network",
            "threads",
            "backend",
            "runs",
            "seconds",
            "phases",
            "bytes",
            "peak_memory_bytes",
            "yardstick_aes_blocks_per_second",
            "machine",
        ];
        named.sort_unstable();
        let mut sorted = keys;
        sorted.sort_unstable();
        assert_eq!(sorted, named);
        assert_eq!(result["protocol"], protocol);
        assert_eq!(result["security"], security);
        assert_eq!(result["reveal"], "matches");
        assert_eq!(result["optimize"], "time");
        let network = match protocol {
            "compact-dh-sh2" => "10mbps-80ms",
            "kkrt" => "1500mbps-0.5ms",
            _ => "lan",
        };
        assert_eq!(result["network"], network);
        assert_eq!(result["receiver_size"], 100);
        assert_eq!(result["sender_size"], 128);
        assert_eq!(result["matches"], 50);
        assert_eq!(result["threads"], 1);
        assert_eq!(result["runs"], 3);
        let seconds = |key: &str| result["seconds"][key].as_f64().unwrap();
        assert!(seconds("total") > 0.0 && seconds("online") > 0.0);
        assert!(seconds("offline") <= seconds("total"));
        let bytes = |key: &str| result["bytes"][key].as_u64().unwrap();
        assert!(bytes("receiver_to_sender") >= 3200, "{result}");
        assert!(bytes("sender_to_receiver") >= 128 * 6, "{result}");
        let phases = result["phases"].as_array().unwrap();
        let sum = |key: &str| -> u64 { phases.iter().map(|p| p[key].as_u64().unwrap()).sum() };
        assert_eq!(sum("bytes_sent"), bytes("receiver_to_sender"));
        assert_eq!(sum("bytes_received"), bytes("sender_to_receiver"));
        assert!(result["yardstick_aes_blocks_per_second"].as_u64().unwrap() > 1000);
        if cfg!(target_os = "linux") {
            assert!(result["peak_memory_bytes"]["receiver"].as_u64().unwrap() > 1 << 20);
            assert!(result["peak_memory_bytes"]["sender"].as_u64().unwrap() > 1 << 20);
        }
    }
}

/// The environment makes the tables small, and the runs few.
#[test]
fn bench_alone_measures_what_runs_do_by_themselves() {
    let place = Place::new();
    let small = "export VESICA_RECEIVER_SIZE=2^14 VESICA_RUNS=1 VESICA_JSON=true";
    let ended = place.run_after(small, "bench");
    ended.expect_success();
    let result: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(result["protocol"], "vole");
    assert_eq!(result["security"], "malicious");
    assert_eq!(result["reveal"], "matches");
    assert_eq!(result["sender_size"], 1 << 14);
    assert_eq!(result["matches"], 1 << 13);
}

/// A party against a recorded peer sends what it sent before, with however many threads.
#[test]
fn bench_measures_one_party_by_itself() {
    let place = Place::new();
    for (role, other) in [("receiver", "sender"), ("sender", "receiver")] {
        for (protocol, threads) in [("vole", 1), ("vole", 3), ("circuit-okvs", 2)] {
            let words = format!(
                "bench --alone {role} --protocol {protocol} --receiver-size 300 --sender-size 500 --runs 2 --json \
                 --threads {threads}"
            );
            let ended = place.run(&words);
            ended.expect_success();
            let result: Value = serde_json::from_slice(&ended.out).unwrap();
            assert_eq!(result["alone"], role);
            assert_eq!(result["threads"], threads);
            let phases = result["phases"].as_array().unwrap();
            let sum = |key: &str| -> f64 { phases.iter().map(|p| p[key].as_f64().unwrap()).sum() };
            assert!(sum("seconds") <= result["seconds"].as_f64().unwrap());
            // What passes is what passes between two.
            let words = words.replace(&format!("--alone {role} "), "");
            let both: Value = serde_json::from_slice(&place.run(&words).out).unwrap();
            let sent = both["bytes"][format!("{role}_to_{other}")]
                .as_f64()
                .unwrap();
            assert!((sum("bytes_sent") - sent).abs() < 200.0, "{result} {both}");
        }
    }
}

#[test]
fn bench_measures_whatever_can_be_revealed() {
    let place = Place::new();
    let words = "bench --protocol circuit-okvs --receiver-size 12 --sender-size 20 --runs 1 --json";
    for (reveal, named) in [
        ("size", "size"),
        ("sum", "sum"),
        ("sum --min-size 4", "sum"),
        ("inner-product", "inner-product"),
        ("inner-product --min-size 7", "inner-product"),
        ("threshold:5", "size"),
        ("threshold:6", "size"),
        ("threshold-matches:5", "threshold-matches"),
        ("threshold-matches:6", "threshold-matches"),
        ("shares", "shares"),
        ("shares --payload-width 17", "shares"),
    ] {
        let ended = place.run(&format!("{words} --reveal {reveal}"));
        ended.expect_success();
        let result: Value = serde_json::from_slice(&ended.out).unwrap();
        assert_eq!(result["reveal"], named, "{reveal}");
    }
}

/// What the parties of a benchmark say of a failure is what it says, and nothing of it stays.
#[test]
fn bench_that_fails_leaves_nothing() {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    let here = "export TMPDIR=$PWD/tmp";
    let words = "bench --receiver-size 9 --protocol";
    place
        .run_after(here, &format!("{words} vole --reveal size"))
        .expect_failure(2, "protocol vole does not reveal size");
    place
        .run_after(here, &format!("{words} dh --security malicious"))
        .expect_failure(2, "semi-honest");
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
}

#[cfg(unix)]
#[test]
fn bench_that_is_stopped_ends_its_parties() {
    use nix::sys::signal::Signal;
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    // At this rate it would take a minute.
    let mut running = place.start_after(
        "export TMPDIR=$PWD/tmp",
        "bench --protocol dh --receiver-size 2^17 --runs 1 --network 1mbps-80ms",
    );
    running.wait_until(|| {
        let mut found = std::fs::read_dir(place.path("tmp")).unwrap();
        found.any(|found| found.unwrap().path().join("receiver.csv").exists())
    });
    running.signal(Signal::SIGTERM);
    let ended = running.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.err);
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
}

#[test]
fn bench_with_a_dealer() {
    let place = Place::new();
    let words =
        "bench --protocol ole --receiver-size 60 --sender-size 90 --items 24 --runs 1 --json";
    for offline in ["dealer", "tee"] {
        let ended = place.run(&format!("{words} --offline {offline}"));
        ended.expect_success();
        assert!(ended.err.is_empty(), "{}", ended.err);
        let result: Value = serde_json::from_str(ended.text()).unwrap();
        assert_eq!(result["protocol"], format!("ole-{offline}"));
        assert_eq!(result["matches"], 30);
        let phases = result["phases"].as_array().unwrap().iter();
        let phases: Vec<&str> = phases
            .map(|phase| phase["phase"].as_str().unwrap())
            .collect();
        assert_eq!(phases[..2], ["dealing", "store"], "{phases:?}");
        let bytes = |key: &str| result["bytes"][key].as_u64().unwrap();
        match offline {
            // A seed for the sender; the receiver's values as well.
            "dealer" => {
                assert!(bytes("dealer_to_sender") < 200 && bytes("dealer_to_receiver") > 1000);
            }
            _ => {
                assert!((2700..4300).contains(&bytes("between_generators")));
                assert!(result["bytes"].get("dealer_to_receiver").is_none());
            }
        }
        let seconds = |key: &str| result["seconds"][key].as_f64().unwrap();
        assert!(seconds("offline") > 0.0 && seconds("online") > 0.0);
        let memory = &result["peak_memory_bytes"]["dealer"];
        assert!(memory.is_u64(), "{memory}");
    }
    place
        .run(&format!("{words} --offline dealer --transport tcp"))
        .expect_failure(2, "two identities");
}

#[test]
fn bench_for_people() {
    let place = Place::new();
    let words = "bench --protocol compact-dh --receiver-size 10 --sender-size 1 --runs 1";
    let ended = place.run(words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.starts_with("warning: PLAINTEXT"), "{}", ended.err);
    for word in [
        "compact-dh (malicious)",
        "0 (as expected)",
        "receiver to sender",
        "machine",
    ] {
        assert!(ended.text().contains(word), "{}", ended.text());
    }
    let ended = place.run(&format!("{words} --transport tls"));
    ended.expect_success();
    assert!(ended.err.is_empty(), "{}", ended.err);
    let ended = place.run("bench --yardstick");
    ended.expect_success();
    assert!(ended.text().contains("AES-128 blocks per second"));
    assert!(ended.text().contains("\nband "), "{}", ended.text());
    for (backend, version) in [("portable", "portable"), ("avx2", ""), ("gfni", "")] {
        let ended = place.run(&format!("bench --yardstick --json --backend {backend}"));
        ended.expect_success();
        let result: Value = serde_json::from_str(ended.text()).unwrap();
        let kernels = result["kernels"].as_object().unwrap();
        assert_eq!(kernels.len(), 10);
        for name in kernels.values().map(|name| name.as_str().unwrap()) {
            assert!(name.starts_with(version), "{name}");
            assert!(!name.contains("512") && !name.starts_with("vp"), "{name}");
        }
        place
            .run(&format!("{words} --backend {backend}"))
            .expect_success();
    }
}

/// A name that an option had before counts as its name does, wherever it stands.
#[test]
fn former_names_of_options_count_as_the_options_do() {
    let place = Place::new();
    place.write("favour.toml", "favour = \"traffic\"\n");
    place.write("optimize.toml", "optimize = \"traffic\"\n");
    place.write("auto.toml", "optimize = \"auto\"\n");
    let bench = "bench --json --protocol circuit-okvs --receiver-size 8 --sender-size 8 --runs 1";
    for (set, options, expected) in [
        ("true", "--favour traffic", "traffic"),
        ("export VESICA_FAVOUR=traffic", "", "traffic"),
        ("export VESICA_FAVOUR=traffic", "--optimize time", "time"),
        ("true", "--config favour.toml", "traffic"),
        ("true", "--config favour.toml --optimize time", "time"),
        ("true", "--config optimize.toml --favour time", "time"),
        (
            "export VESICA_OPTIMIZE=time",
            "--config favour.toml",
            "time",
        ),
        (
            "export VESICA_FAVOUR=time",
            "--config optimize.toml",
            "time",
        ),
        // Decided by the link.
        ("true", "--optimize auto", "time"),
        ("true", "--optimize auto --bandwidth 30mbps", "traffic"),
        ("true", "--config auto.toml --rtt 80ms", "traffic"),
        ("true", "--config auto.toml --network 272mbps-80ms", "time"),
    ] {
        let ended = place.run_after(set, &format!("{bench} {options}"));
        ended.expect_success();
        let result: serde_json::Value = serde_json::from_slice(&ended.out).unwrap();
        assert_eq!(result["optimize"], expected, "{set} {options}");
    }
}
