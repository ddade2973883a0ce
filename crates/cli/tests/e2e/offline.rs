//! Prepared correlations: made, listed, checked, taken once.

use crate::support::{Arguments, Ended, Place, Running, exchange};

/// Two tables of addresses, of which every third of ours is also theirs, and what is expected.
fn tables(place: &Place) -> String {
    let rows = |numbers: Vec<u32>| -> String {
        let row = |i: u32| format!("10.0.{}.{}\n", i / 256, i % 256);
        std::iter::once("ip\n".to_owned())
            .chain(numbers.into_iter().map(row))
            .collect()
    };
    place.write("ours.csv", rows((0..300).collect()));
    place.write("theirs.csv", rows((0..400).step_by(3).collect()));
    rows((0..300).step_by(3).collect())
}

/// What the halves of these tests are for.
const TERMS: &str = "--items 32 --receiver-size 2^9 --sender-size 150";

fn make(place: &Place, role: &str, words: &str, endpoint: &str) -> Running {
    place.make(role, &format!("{words} {TERMS}"), endpoint)
}

/// The name that both sides print.
#[track_caller]
fn name(receiver: &Ended, sender: &Ended) -> String {
    receiver.expect_success();
    sender.expect_success();
    assert_eq!(receiver.text(), sender.text());
    receiver.text().trim().to_owned()
}

fn side(input: &str, role: &str, offline: &str) -> Arguments {
    Arguments::new(input, "ip")
        .with("--normalize ip=ipv4 --security semi-honest --protocol ole")
        .with(&format!("--offline {offline} --offline-store {role}.store"))
}

fn halves(place: &Place, role: &str) -> usize {
    let entries = std::fs::read_dir(place.path(&format!("{role}.store"))).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".half"))
        .count()
}

#[test]
fn a_pair_serves_one_run() {
    let place = Place::new();
    let expected = tables(&place);
    let words = "--offline ot";
    let mut receiver = make(&place, "receiver", words, "--listen 127.0.0.1:0");
    let sender = make(&place, "sender", words, &receiver.endpoint());
    let name = name(&receiver.wait(), &sender.wait());

    // Too few open files are no damage.
    let starved = |files: u32| {
        let words = "offline verify --offline-store receiver.store --identity receiver.key";
        place
            .start_after(&format!("ulimit -n {files}"), words)
            .wait()
    };
    let ends: Vec<Ended> = (4..12).map(starved).collect();
    assert!(ends.iter().any(|ended| ended.err.contains(".half")));
    for ended in ends {
        assert!(matches!(ended.code, Some(0 | 7)), "{}", ended.err);
    }

    let with_store = |command: &str, role: &str| {
        place.run(&format!(
            "offline {command} --offline-store {role}.store --identity {role}.key"
        ))
    };
    let listed = with_store("ls", "receiver");
    listed.expect_success();
    let line =
        format!("{name}  ready  receiver of ole-ot, 512 and 150 keys of 32 bits, lambda 40, ");
    assert!(listed.text().starts_with(&line), "{}", listed.text());
    let listed: serde_json::Value =
        serde_json::from_str(with_store("ls --json", "sender").text()).unwrap();
    assert_eq!(listed[0]["name"], name);
    assert_eq!(
        (&listed[0]["role"], &listed[0]["state"]),
        (&"sender".into(), &"ready".into())
    );
    assert_eq!(listed[0]["peer"], place.receiver.to_string());
    assert_eq!(
        with_store("verify", "sender").text(),
        format!("{name}  ok\n")
    );

    let (ours, theirs) = (
        side("ours.csv", "receiver", "ot"),
        side("theirs.csv", "sender", "ot"),
    );
    let pair = exchange(
        &place,
        &ours.clone().output("out.csv").with("--report report.json"),
        &theirs,
    );
    pair.expect_success();
    assert_eq!(place.read("out.csv"), expected);
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["contract"]["offline"], name);
    assert!(pair.sender.err.contains(&name), "{}", pair.sender.err);
    assert_eq!(
        (halves(&place, "receiver"), halves(&place, "sender")),
        (0, 0)
    );

    let pair = exchange(&place, &ours.output("again.csv"), &theirs);
    both_lack(&[pair.receiver, pair.sender], "nothing for this run");
    assert!(!place.path("again.csv").exists());
}

/// Neither side has a pair that it may take. Each says so by itself, unless it hears of the other's lack before it looks.
fn both_lack(sides: &[Ended; 2], words: &str) {
    for side in sides {
        match side.code {
            Some(7) => side.expect_failure(7, "it has no stored correlations for this run"),
            _ => side.expect_failure(3, words),
        }
    }
    assert!(sides.iter().any(|side| side.code == Some(3)));
}

/// Copies are listed, refused and adopted; what only looks like a half by its name is not waited for.
#[test]
fn a_store_that_was_moved_is_adopted() {
    let place = Place::new();
    let expected = tables(&place);
    let words = "--offline ot";
    let mut receiver = make(&place, "receiver", words, "--listen 127.0.0.1:0");
    let sender = make(&place, "sender", words, &receiver.endpoint());
    let name = name(&receiver.wait(), &sender.wait());
    // As `cp -r` does; the sender's store is renamed, which is no copy.
    let [from, to] = ["receiver.store", "moved.store"].map(|store| place.path(store));
    std::fs::rename(&from, &to).unwrap();
    std::fs::create_dir(&from).unwrap();
    let half = format!("{name}.half");
    std::fs::copy(to.join(&half), from.join(&half)).unwrap();
    let [old, new] = ["sender.store", "renamed.store"].map(|store| place.path(store));
    std::fs::rename(&old, &new).unwrap();
    std::fs::rename(&new, &old).unwrap();
    #[cfg(unix)]
    {
        let fifo = from.join(format!("{}.half", "1".repeat(32)));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    }
    std::fs::write(from.join(".vesica-x.part"), "left by a killed process").unwrap();

    let with_store = |command: &str| {
        place.run(&format!(
            "offline {command} --offline-store receiver.store --identity receiver.key"
        ))
    };
    let listed = with_store("ls");
    listed.expect_success();
    let line = format!("{name}  copied  receiver of ole-ot");
    assert!(listed.text().starts_with(&line), "{}", listed.text());
    let left = "1 unfinished file of 24 bytes in all";
    assert!(listed.err.contains(left), "{}", listed.err);
    #[cfg(unix)]
    assert!(
        listed.err.contains("1.half cannot be read"),
        "{}",
        listed.err
    );
    assert!(
        with_store(&format!("verify {name}"))
            .text()
            .contains("was copied")
    );

    let (ours, theirs) = (
        side("ours.csv", "receiver", "ot").output("out.csv"),
        side("theirs.csv", "sender", "ot"),
    );
    let refused = exchange(&place, &ours, &theirs);
    refused
        .receiver
        .expect_failure(3, "was copied, restored or moved");
    assert!(refused.receiver.err.contains("vesica offline adopt"));

    let adopted = with_store("adopt");
    adopted.expect_success();
    assert_eq!(adopted.text(), format!("{name}  adopted\n"));
    assert!(adopted.err.contains("nearly all"), "{}", adopted.err);
    let again = with_store(&format!("adopt {name}"));
    assert_eq!(again.text(), format!("{name}  is where it was stored\n"));
    assert!(!with_store("ls").err.contains("unfinished"));
    let pair = exchange(&place, &ours, &theirs);
    pair.expect_success();
    assert_eq!(place.read("out.csv"), expected);
    let used = with_store(&format!("adopt {name}"));
    assert_eq!(used.code, Some(3), "{}", used.err);
    assert!(used.text().contains("was used before"), "{}", used.text());
}

#[test]
fn a_dealer_hands_out_a_pair() {
    let place = Place::new();
    let expected = tables(&place);
    let [receiver, sender, dealer] = place.deal(&format!("--offline dealer {TERMS}"), "");
    let name = name(&receiver, &sender);
    dealer.expect_success();
    assert!(dealer.err.contains("dealt a pair"), "{}", dealer.err);
    let ours = side("ours.csv", "receiver", "dealer").output("out.csv");
    let pair = exchange(&place, &ours, &side("theirs.csv", "sender", "dealer"));
    pair.expect_success();
    assert_eq!(place.read("out.csv"), expected);
    assert!(pair.receiver.err.contains(&name), "{}", pair.receiver.err);
}

#[test]
fn a_dealer_has_limits() {
    let place = Place::new();
    let [receiver, sender, dealer] =
        place.deal(&format!("--offline dealer {TERMS}"), "--memory 4K");
    dealer.expect_failure(7, "the dealer may use 4096");
    assert!(
        dealer.err.contains("hint: raise --memory"),
        "{}",
        dealer.err
    );
    receiver.expect_failure(7, "the dealer may use 4096");
    sender.expect_failure(7, "the dealer may use 4096");
    assert_eq!(
        (halves(&place, "receiver"), halves(&place, "sender")),
        (0, 0)
    );
    let hashed = "--receiver-size 2^21 --sender-size 2^21";
    let refused = place.make(
        "receiver",
        &format!("--offline ot {hashed}"),
        "--connect 127.0.0.1:1",
    );
    let refused = refused.wait();
    refused.expect_failure(7, "longer hashes do not fit");
    assert!(
        refused.err.contains("--normalize COL=ipv4"),
        "{}",
        refused.err
    );
}

const ATTESTED: &str = "--offline dealer --attestation simulated";

#[test]
fn a_dealer_shows_what_it_runs() {
    let place = Place::new();
    let expected = tables(&place);
    let measurement = vesica_offline::Simulated::MEASUREMENT;
    let terms = format!("{ATTESTED} --measurement {measurement} {TERMS}");
    let [receiver, sender, dealer] = place.deal(&terms, "--attestation simulated");
    let name = name(&receiver, &sender);
    dealer.expect_success();
    for ended in [&receiver, &sender, &dealer] {
        let warned = ended.err.contains("SIMULATED ATTESTATION");
        assert!(
            warned && ended.err.contains("protects nothing"),
            "{}",
            ended.err
        );
    }
    let listed = place.run("offline ls --offline-store receiver.store --identity receiver.key");
    let shown = format!("in simulated {measurement}\n");
    assert!(listed.text().ends_with(&shown), "{}", listed.text());
    is_taken_by_name_alone(&place, "dealer", &name, &expected);
}

/// What anybody can simulate is taken by name alone.
#[track_caller]
fn is_taken_by_name_alone(place: &Place, offline: &str, name: &str, expected: &str) {
    let measurement = vesica_offline::Simulated::MEASUREMENT;
    let ours = side("ours.csv", "receiver", offline).output("out.csv");
    let theirs = side("theirs.csv", "sender", offline);
    let pair = exchange(place, &ours, &theirs);
    let simulated = format!("was dealt by somebody who has shown simulated {measurement}");
    both_lack(&[pair.receiver, pair.sender], &simulated);
    let ours = ours.option("--attested", &format!("simulated {measurement}"));
    let theirs = theirs.with("--attested simulated");
    let pair = exchange(place, &ours, &theirs);
    pair.expect_success();
    assert_eq!(place.read("out.csv"), expected);
    assert!(pair.receiver.err.contains(name), "{}", pair.receiver.err);
}

#[test]
fn two_generators_hand_out_a_pair() {
    let place = Place::new();
    let expected = tables(&place);
    let measurement = vesica_offline::Simulated::MEASUREMENT;
    let shown = format!("--offline tee --attestation simulated --measurement {measurement}");
    let ended = place.generate(&format!("{shown} {TERMS}"));
    let [receiver, sender, ..] = &ended;
    let name = name(receiver, sender);
    for ended in &ended {
        ended.expect_success();
        assert!(ended.err.contains("SIMULATED ATTESTATION"), "{}", ended.err);
    }
    let listed = place.run("offline ls --offline-store receiver.store --identity receiver.key");
    let words = [
        ", generated by vs1:",
        &format!("in simulated {measurement}\n"),
    ];
    for words in words {
        assert!(listed.text().contains(words), "{}", listed.text());
    }
    is_taken_by_name_alone(&place, "tee", &name, &expected);

    let other = "0123456789abcdef".repeat(6);
    let peer = format!("--peer-attestation simulated --peer-measurement {other}");
    let ended = place.generate(&format!("{shown} {peer} {TERMS}"));
    assert!(ended.iter().all(|ended| ended.code != Some(0)));
    let refused = ended[..2].iter().find(|ended| {
        ended
            .err
            .contains("the other side's generator is not trusted")
    });
    let line = format!("its measurement is {measurement}, and {other}");
    refused.unwrap().expect_failure(5, &line);
    assert_eq!(
        (halves(&place, "receiver"), halves(&place, "sender")),
        (0, 0)
    );
}

#[test]
fn a_dealer_that_shows_something_else_is_refused() {
    let place = Place::new();
    tables(&place);
    let other = "0123456789abcdef".repeat(6);
    let terms = format!("{ATTESTED} --measurement {other} {TERMS}");
    let [receiver, sender, dealer] = place.deal(&terms, "--attestation simulated");
    let refused = [&receiver, &sender]
        .into_iter()
        .filter(|ended| ended.err.contains("the dealer is not trusted"));
    for ended in refused.clone() {
        let line = format!(
            "its measurement is {}, and {other}",
            vesica_offline::Simulated::MEASUREMENT
        );
        ended.expect_failure(5, &line);
    }
    assert!(refused.count() > 0, "{} {}", receiver.err, sender.err);
    dealer.expect_failure(5, "does not show what this side expects");

    let [receiver, sender, dealer] = place.deal(&terms, "");
    for ended in [&receiver, &sender, &dealer] {
        ended.expect_failure(6, "attestation");
    }
    let trusted = format!("--offline dealer {TERMS}");
    let [receiver, sender, dealer] = place.deal(&trusted, "--attestation simulated");
    for ended in [&receiver, &sender, &dealer] {
        ended.expect_failure(6, "attestation");
    }
    assert_eq!(
        (halves(&place, "receiver"), halves(&place, "sender")),
        (0, 0)
    );
}

#[test]
fn attestation_is_checked_before_anybody_is_met() {
    let place = Place::new();
    let [zeros, endpoint] = ["0".repeat(96), "--connect 127.0.0.1:1 --wait 0.2".into()];
    let dealer = place.receiver;
    for (words, text) in [
        ("--attestation tdx", "--attestation needs --measurement"),
        (
            "--attestation simulated --measurement Z --peer-attestation simulated --peer-measurement Z",
            "--peer-attestation goes with --offline tee",
        ),
        (
            "--attestation tdx --measurement 12",
            "96 hexadecimal digits",
        ),
        (
            "--attestation simulated --measurement Z --tcb 1.2.3.4",
            "goes with",
        ),
        ("--attestation sev-snp --measurement Z", "--tcb goes with"),
        (
            "--attestation tdx --measurement Z --vmpl 2",
            "--product and --vmpl go with",
        ),
        (
            "--attestation sev-snp --measurement Z --tcb 1.2.3.4",
            "needs --product",
        ),
        match cfg!(feature = "tee") {
            true => (
                "--attestation sev-snp --measurement Z --tcb 1.2.3.4 --product turin",
                "firmware versions of turin are five numbers",
            ),
            false => (
                "--attestation sev-snp --measurement Z --tcb 1.2.3.4 --product turin",
                "built without",
            ),
        },
        match cfg!(feature = "tee") {
            true => ("--attestation tdx --measurement Z", "needs --endorsements"),
            false => ("--attestation tdx --measurement Z", "built without"),
        },
    ] {
        let words = words.replace('Z', &zeros);
        let words = format!("--offline dealer --dealer {dealer} {words}");
        let made = make(&place, "receiver", &words, &endpoint).wait();
        made.expect_failure(2, text);
    }
    // No kernel that tests run on is that of a TEE.
    let words = format!(
        "dealer --listen 127.0.0.1:0 --identity sender.key --receiver {dealer} --sender {} --attestation tdx",
        place.sender
    );
    if !std::path::Path::new("/sys/kernel/config/tsm").exists() {
        place.run(&words).expect_failure(7, "no tdx report: ");
    }
}

#[test]
fn a_dealer_has_a_deadline() {
    let place = Place::new();
    let words = format!(
        "dealer --listen 127.0.0.1:0 --identity sender.key --receiver {} --sender {} --deadline 0.3",
        place.receiver, place.sender
    );
    place
        .run(&words)
        .expect_failure(4, "not done within 0.3 seconds");
}

#[test]
fn what_cannot_be_prepared_is_said() {
    let place = Place::new();
    tables(&place);
    let endpoint = "--connect 127.0.0.1:1 --wait 0.2";
    for (words, code, text) in [
        ("--offline silent", 2, "no tuples are called"),
        ("--offline dealer", 2, "--dealer goes with --offline dealer"),
        ("--offline tee", 2, "--generator goes with --offline tee"),
        (
            "--offline ot --attestation simulated --measurement Z",
            2,
            "goes with --offline dealer or tee",
        ),
        ("--offline ot --lambda 20", 2, "40 to"),
        ("--offline ot", 4, "127.0.0.1:1"),
    ] {
        let words = words.replace('Z', &"0".repeat(96));
        make(&place, "receiver", &words, endpoint)
            .wait()
            .expect_failure(code, text);
    }
    let words = format!("--offline tee --generator {}", place.sender);
    make(&place, "receiver", &words, endpoint)
        .wait()
        .expect_failure(2, "--offline tee needs --attestation");
    let words = format!("--offline ot --dealer {}", place.sender);
    make(&place, "receiver", &words, endpoint)
        .wait()
        .expect_failure(2, "--dealer goes with");
    place
        .run("offline ls --offline-store nowhere --identity sender.key")
        .expect_failure(3, "no such directory");
    let store = |command: &str| {
        place.run(&format!(
            "offline {command} --offline-store store --identity sender.key"
        ))
    };
    std::fs::create_dir(place.path("store")).unwrap();
    let name = "0".repeat(32);
    place.write(&format!("store/{name}.half"), "not a half");
    let verified = store("verify");
    assert_eq!(verified.code, Some(3), "{}", verified.err);
    assert!(verified.text().contains("no half of prepared correlations"));
    assert!(store("ls").err.contains("cannot be read as a half"));
    store("rm").expect_failure(2, "needs the names of what to remove");
    store(&format!("rm {name}")).expect_success();
    store(&format!("rm {name}")).expect_failure(3, &name);
    assert!(store("ls").out.is_empty());
    for (words, text) in [
        (
            "--protocol ole --offline dealer",
            "takes its correlations from a store",
        ),
        (
            "--protocol vole --offline-store store",
            "stored correlations need a protocol",
        ),
        (
            "--offline-store store",
            "stored correlations need a protocol",
        ),
    ] {
        let ours = Arguments::new("ours.csv", "ip")
            .with("--security semi-honest")
            .with(words);
        place
            .receiver(&ours, "--connect 127.0.0.1:1 --wait 0.2")
            .wait()
            .expect_failure(2, text);
    }
}
