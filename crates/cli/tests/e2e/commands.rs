//! The commands that need no peer, or bring their own.

use serde_json::Value;

use crate::support::Place;

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
        ("bench", "--protocol"),
        (
            "bench --protocol nonsense --receiver-size 1 --sender-size 1",
            "nonsense",
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
    ] {
        place.run(words).expect_failure(2, text);
    }
}

#[test]
fn keygen_makes_an_identity_and_overwrites_none() {
    let place = Place::new();
    let ended = place.run("keygen --out new.key");
    ended.expect_success();
    let fingerprint = ended.text().trim_end().to_owned();
    assert_eq!(ended.text().lines().count(), 1);
    let loaded = vesica::Identity::load(&place.path("new.key")).unwrap();
    assert_eq!(loaded.identity.fingerprint().to_string(), fingerprint);
    assert_eq!(loaded.warning, None);

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
    place
        .run("fingerprint --identity nowhere.key")
        .expect_failure(2, "nowhere.key");
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
        ("compact-dh-sh2", "semi-honest", "--network 10mbps"),
        ("dh", "semi-honest", "--transport tls --seed 5"),
        ("vole", "malicious", "--transport tls"),
        ("vole", "semi-honest", "--security semi-honest"),
        ("kkrt", "semi-honest", ""),
        ("spot-low", "semi-honest", ""),
        ("spot-fast", "semi-honest", ""),
        ("sparse-okvs", "semi-honest", ""),
    ] {
        let ended = place.run(&format!(
            "bench --protocol {protocol} --receiver-size 100 --sender-size 2^7 --runs 3 --json {extra}"
        ));
        ended.expect_success();
        let warned = ended.err.starts_with("WARNING: PLAINTEXT");
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

/// Threads share one peak of memory; all else is as between processes.
#[cfg(target_os = "linux")]
#[test]
fn bench_between_pinned_threads() {
    let place = Place::new();
    let ended = place.run(
        "bench --protocol compact-dh --receiver-size 20 --sender-size 30 --runs 1 --json \
         --parties threads --transport tls",
    );
    ended.expect_success();
    let result: Value = serde_json::from_slice(&ended.out).unwrap();
    assert_eq!(result["matches"], 10);
    assert!(result["peak_memory_bytes"]["receiver"].is_null());
    assert!(result["seconds"]["total"].as_f64().unwrap() > 0.0);
}

#[test]
fn bench_with_a_dealer() {
    let place = Place::new();
    let words = "bench --protocol ole --offline dealer --receiver-size 60 --sender-size 90 --items 24 --runs 1 --json";
    for parties in ["processes", "threads"] {
        let ended = place.run(&format!("{words} --parties {parties}"));
        ended.expect_success();
        assert!(ended.err.is_empty(), "{}", ended.err);
        let result: Value = serde_json::from_str(ended.text()).unwrap();
        assert_eq!(result["protocol"], "ole-dealer");
        assert_eq!(result["matches"], 30);
        let phases = result["phases"].as_array().unwrap().iter();
        let phases: Vec<&str> = phases
            .map(|phase| phase["phase"].as_str().unwrap())
            .collect();
        assert_eq!(phases[..2], ["dealing", "store"], "{phases:?}");
        let bytes = |key: &str| result["bytes"][key].as_u64().unwrap();
        // A seed for the sender; the receiver's values as well.
        assert!(bytes("dealer_to_sender") < 200 && bytes("dealer_to_receiver") > 1000);
        let seconds = |key: &str| result["seconds"][key].as_f64().unwrap();
        assert!(seconds("offline") > 0.0 && seconds("online") > 0.0);
        let has_memory = result["peak_memory_bytes"]["dealer"].is_u64();
        assert_eq!(has_memory, parties == "processes");
    }
    place
        .run(&format!("{words} --transport tcp"))
        .expect_failure(2, "two identities");
}

#[test]
fn bench_for_people() {
    let place = Place::new();
    let words = "bench --protocol compact-dh --receiver-size 10 --sender-size 1 --runs 1";
    let ended = place.run(words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.starts_with("WARNING: PLAINTEXT"), "{}", ended.err);
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
    for (backend, version) in [("portable", "portable"), ("avx2", "")] {
        let ended = place.run(&format!("bench --yardstick --json --backend {backend}"));
        ended.expect_success();
        let result: Value = serde_json::from_str(ended.text()).unwrap();
        let kernels = result["kernels"].as_object().unwrap();
        assert_eq!(kernels.len(), 9);
        for name in kernels.values().map(|name| name.as_str().unwrap()) {
            assert!(name.starts_with(version), "{name}");
            assert!(!name.contains("512") && !name.starts_with("vp"), "{name}");
        }
        place
            .run(&format!("{words} --backend {backend}"))
            .expect_success();
    }
}
