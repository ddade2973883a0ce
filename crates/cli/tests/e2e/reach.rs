//! Where identities come from, which way leads to the peer, and what `doctor` says of both.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use crate::support::{Arguments, Ended, NOBODY, Place, Running};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Runs the command with variables of the environment.
fn run_with(place: &Place, variables: &[(&str, &str)], text: &str) -> Ended {
    let mut command = place.command(&words(text));
    command.envs(variables.iter().copied());
    Running::start(command).wait()
}

fn place() -> Place {
    let place = Place::new();
    place.write("ours.csv", "id\n1\n2\n");
    place.write("theirs.csv", "id\n2\n3\n");
    place
}

#[test]
fn an_identity_comes_from_a_variable_a_descriptor_or_a_pipe() {
    let place = place();
    let expected = format!("{}\n", place.receiver);
    let pem = place.read("receiver.key");
    let body = pem.lines().nth(1).unwrap();
    for (first, from) in [
        ("KEY=\"$(cat receiver.key)\" && export KEY", "env:KEY"),
        ("exec 3<receiver.key", "fd:3"),
        ("exec <receiver.key", "-"),
    ] {
        let ended = place.run_after(first, &format!("fingerprint --identity {from}"));
        ended.expect_success();
        assert_eq!(ended.text(), expected, "{from}");
    }
    let mut piped = place.command(&words("fingerprint --identity -"));
    piped.stdin(std::process::Stdio::piped());
    let mut running = Running::start(piped);
    let mut stdin = running.process.stdin.take().unwrap();
    stdin.write_all(pem.as_bytes()).unwrap();
    drop(stdin);
    assert_eq!(running.wait().text(), expected);

    place.write("open.key", &pem);
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("open.key"), open).unwrap();
    for (first, from, problem) in [
        ("true", "env:KEY", "there is no such variable"),
        ("KEY=word && export KEY", "env:KEY", "not a PEM file"),
        ("exec 3<open.key", "fd:3", "other users can read the file"),
        ("exec <open.key", "-", "other users can read the file"),
        ("true", "fd:x", "a file descriptor is a number"),
        ("exec 3<&-", "fd:3", "this descriptor is not open"),
        ("exec </dev/zero", "-", "too long for a secret"),
    ] {
        let ended = place.run_after(first, &format!("fingerprint --identity {from}"));
        ended.expect_failure(2, problem);
        assert!(!ended.err.contains(body), "{}", ended.err);
    }
    let both = "receive --input - --key id --identity - --listen 127.0.0.1:0";
    let ended = place.run(&format!("{both} --peer {}", place.sender));
    ended.expect_failure(2, "both read standard input");
}

#[test]
fn a_passphrase_is_asked_for_or_read() {
    let place = place();
    place.write("phrase", "correct horse\r\nmore\n");
    place.write("other", "battery");
    for name in ["phrase", "other"] {
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(place.path(name), private).unwrap();
    }
    let made = place.run("keygen --encrypt --passphrase-file phrase --out own.key");
    made.expect_success();
    assert!(
        place
            .read("own.key")
            .starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    );
    let of = |more: &str| place.run(&format!("fingerprint --identity own.key {more}"));
    assert_eq!(of("--passphrase-file phrase").text(), made.text());
    of("--passphrase-file other").expect_failure(2, "another passphrase");
    of("").expect_failure(2, "there is no terminal to ask for it");
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("phrase"), open).unwrap();
    of("--passphrase-file phrase").expect_failure(2, "other users can read it");
    let ended = place.run("keygen --passphrase-file other --out more.key");
    ended.expect_failure(2, "goes with --encrypt");
    place
        .run("keygen --encrypt --out more.key")
        .expect_failure(2, "no terminal");
    assert!(!place.path("more.key").exists());
}

/// Mounts as container engines make them, in a namespace of its own, looked at as another user.
#[cfg(target_os = "linux")]
#[test]
fn secrets_that_were_mounted_are_taken_and_no_others() {
    let place = place();
    let can_mount =
        "mount -t tmpfs none . && setpriv --reuid 12345 --regid 12345 --clear-groups true";
    let tried = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", can_mount])
        .current_dir(place.path(""))
        .status();
    if !tried.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: nothing can be mounted here, or no other user taken");
        return;
    }
    std::fs::set_permissions(place.path(""), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(place.path("secret")).unwrap();
    // As Kubernetes lays it out.
    let laid = "mkdir -m 755 secret/..1 && cp receiver.key secret/..1/own.key && ln -s ..1 secret/..data && \
                ln -s ..data/own.key secret/own.key";
    let mounted = |options: &str, mode: &str, then: &str| {
        format!(
            "mount -t tmpfs -o {options} none secret && {laid} && chmod {mode} secret/..1/own.key && chgrp 54321 \
             secret/..1/own.key && {then}"
        )
    };
    let read_only = "mount -o remount,ro secret";
    let cases = [
        ("ro, for all", mounted("mode=1777", "0444", read_only), true),
        (
            "ro, as Kubernetes does unless told",
            mounted("mode=1777", "0644", read_only),
            true,
        ),
        (
            "ro, for the group",
            mounted("mode=1777", "0440", read_only),
            true,
        ),
        ("in memory", mounted("mode=0755", "0444", "true"), true),
        (
            "in memory, where anybody writes",
            mounted("mode=1777", "0444", "true"),
            false,
        ),
        (
            "ro, and others write",
            mounted("mode=0755", "0464", read_only),
            false,
        ),
        (
            "of this user",
            mounted(
                "mode=0755",
                "0444",
                "chown 12345 secret/..1/own.key && mount -o remount,ro secret",
            ),
            false,
        ),
        (
            "on the disk",
            format!("{laid} && chmod 0444 secret/..1/own.key"),
            false,
        ),
    ];
    for (name, prepare, is_taken) in cases {
        let script = format!(
            "{prepare} && exec setpriv --reuid 12345 --regid 12345 --groups 54321 \"$0\" fingerprint --identity \
             secret/own.key"
        );
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script, env!("CARGO_BIN_EXE_vesica")])
            .current_dir(place.path(""))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        let ended = Running::start(command).wait();
        match is_taken {
            true => {
                assert!(ended.err.is_empty(), "{name}: {}", ended.err);
                assert_eq!(ended.text(), format!("{}\n", place.receiver), "{name}");
            }
            false => ended.expect_failure(2, "other users can read it"),
        }
    }
}

/// A proxy that connects to whatever it is asked for.
fn proxy() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            thread::spawn(move || tunnel(stream));
        }
    });
    address
}

fn tunnel(mut near: TcpStream) -> io::Result<()> {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        near.read_exact(&mut byte)?;
        asked.push(byte[0]);
    }
    let asked = String::from_utf8_lossy(&asked);
    let target = asked.split(' ').nth(1).unwrap_or_default();
    let far = TcpStream::connect(target)?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let pairs = [(near.try_clone()?, far.try_clone()?), (far, near)];
    for (mut from, mut to) in pairs {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}

#[test]
fn a_run_goes_through_the_proxy_that_is_named() {
    let place = place();
    let proxy = proxy();
    let receiver = Arguments::new("ours.csv", "id").output("out.csv");
    let sender = Arguments::new("theirs.csv", "id");
    let mut listening = place.sender(&sender, "--listen 127.0.0.1:0");
    let endpoint = listening.endpoint();
    let way = format!("--proxy http://{proxy} --progress plain");
    let ended = place
        .receiver(&receiver.clone().with(&way), &endpoint)
        .wait();
    ended.expect_success();
    let said = format!(
        "connected to {} through the proxy http://{proxy}",
        place.sender
    );
    assert!(ended.err.contains(&said), "{}", ended.err);
    listening.wait().expect_success();
    assert_eq!(place.read("out.csv"), "id\n2\n");

    let wrong = place.receiver(
        &receiver
            .clone()
            .with("--proxy http://ann:secret@127.0.0.1:1"),
        &endpoint,
    );
    let wrong = wrong.wait();
    wrong.expect_failure(2, "--proxy has a password in it");
    assert!(!wrong.err.contains("secret"), "{}", wrong.err);
    for value in [
        "http://ann:sec ret@127.0.0.1:1",
        "ann:secret@127.0.0.1:1",
        "http://ann:sec\"ret@127.0.0.1:1",
    ] {
        let text = format!(
            "receive --input ours.csv --key id --identity receiver.key --peer {}",
            place.sender
        );
        let ended = run_with(
            &place,
            &[("VESICA_PROXY", value)],
            &format!("{text} {endpoint}"),
        );
        ended.expect_failure(2, "VESICA_PROXY: invalid value");
        assert!(
            !ended.err.contains("ret") && !ended.err.contains("ann"),
            "{}",
            ended.err
        );
    }
    let listens = place.receiver(&receiver.clone().with(&way), "--listen 127.0.0.1:0");
    listens
        .wait()
        .expect_failure(2, "for the side that connects");
    let no_name = place.receiver(&receiver.with("--sni 127.0.0.1"), &endpoint);
    no_name.wait().expect_failure(2, "the name of a host");
}

#[test]
fn a_run_goes_through_a_web_socket() {
    let place = place();
    let sender = Arguments::new("theirs.csv", "id");
    let mut listening = place.sender(&sender, "--listen 127.0.0.1:0");
    let address = listening.address();
    let receiver = Arguments::new("ours.csv", "id").output("out.csv");
    let ended = place
        .receiver(&receiver, &format!("--connect ws://{address}/psi"))
        .wait();
    ended.expect_success();
    listening.wait().expect_success();
    assert_eq!(place.read("out.csv"), "id\n2\n");

    place.write("no.pem", "no certificate\n");
    let wss = "--connect wss://127.0.0.1:1/psi --wait 1 --outer-ca";
    for (file, problem) in [
        ("no.pem", "no certificates of authorities in PEM"),
        ("none.pem", "none.pem"),
    ] {
        let ended = place.receiver(&receiver, &format!("{wss} {file}")).wait();
        ended.expect_failure(2, problem);
    }
    for (address, problem) in [
        ("https://h/psi", "wss://HOST/PATH"),
        ("wss://ann:secret@h/psi", "without a user"),
    ] {
        let ended = place.receiver(&receiver, &format!("--connect {address}"));
        let ended = ended.wait();
        ended.expect_failure(2, problem);
        assert!(!ended.err.contains("secret"), "{}", ended.err);
    }
    let gateway = place.run("bucket --job none --bucket 0 --gateway ws://h/psi");
    gateway.expect_failure(2, "an address is HOST:PORT");
}

#[test]
fn a_peer_that_changes_its_key_is_met_with_either() {
    let place = place();
    place.run("keygen --out new.key").expect_success();
    let new = place.run("fingerprint --identity new.key");
    let new = new.text().trim().to_owned();
    let sender = Arguments::new("theirs.csv", "id");
    let sender = sender.with(&format!("--peer {} --peer {new}", place.receiver));
    for (key, held) in [
        ("receiver.key", place.receiver.to_string()),
        ("new.key", new.clone()),
    ] {
        let mut listening = place.sender(&sender, "--listen 127.0.0.1:0 --report report.json");
        let endpoint = listening.endpoint();
        let run = format!(
            "receive --input ours.csv --key id --identity {key} --peer {} {endpoint}",
            place.sender
        );
        let ended = place.run(&run);
        ended.expect_success();
        assert_eq!(ended.text(), "id\n2\n");
        listening.wait().expect_success();
        let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
        assert_eq!(report["peer"], held);
    }
    for (more, problem) in [
        (format!("--peer {new} --peer {new}"), "the same twice"),
        (
            format!("--peer {new} --peer {}", place.sender),
            "that of this side's own identity",
        ),
    ] {
        let wrong = Arguments::new("theirs.csv", "id").with(&more);
        let ended = place.sender(&wrong, "--listen 127.0.0.1:0").wait();
        ended.expect_failure(2, problem);
    }
    let split = format!(
        "split --input ours.csv --key id --role receiver --job job --identity receiver.key --listen 127.0.0.1:0 \
         --peer {} --peer {new}",
        place.sender
    );
    place
        .run(&split)
        .expect_failure(2, "a job in tasks is with one key of the peer");
}

/// What the environment says goes for other hosts alone.
#[test]
fn proxies_of_the_environment_are_not_for_this_machine() {
    let place = place();
    let nowhere = [("HTTPS_PROXY", "http://127.0.0.1:9"), ("NO_PROXY", "")];
    let sender = Arguments::new("theirs.csv", "id");
    let mut listening = place.sender(&sender, "--listen 127.0.0.1:0");
    let address = listening.address();
    let base = format!(
        "receive --input ours.csv --key id --identity receiver.key --peer {}",
        place.sender
    );
    run_with(&place, &nowhere, &format!("{base} --connect {address}")).expect_success();
    listening.wait().expect_success();
    // An address for documentation, to which nothing leads.
    let far = format!("{base} --connect 192.0.2.1:7340 --wait 1");
    run_with(&place, &nowhere, &far).expect_failure(4, "no way to the proxy http://127.0.0.1:9");
    let wrong = [("HTTPS_PROXY", "socks4://127.0.0.1:9")];
    run_with(&place, &wrong, &far).expect_failure(2, "the variable HTTPS_PROXY of the environment");
    let excepted = [
        ("ALL_PROXY", "http://127.0.0.1:9"),
        ("NO_PROXY", "192.0.2.0/24"),
    ];
    let ended = run_with(&place, &excepted, &far);
    assert_eq!(ended.code, Some(4));
    assert!(!ended.err.contains("proxy http"), "{}", ended.err);
}

/// Both sides of `doctor`, the one that listens first.
fn examined(place: &Place, listens: &str, connects: &str) -> [Ended; 2] {
    let listens = format!(
        "doctor --listen 127.0.0.1:0 --identity sender.key --peer {} {listens}",
        place.receiver
    );
    let mut listening = Running::start(place.command(&words(&listens)));
    let address = listening.address();
    let connects = format!(
        "doctor --connect {address} --identity receiver.key --peer {} {connects}",
        place.sender
    );
    let connected = place.run(&connects);
    [listening.wait(), connected]
}

fn found(ended: &Ended) -> serde_json::Value {
    serde_json::from_str(ended.text())
        .unwrap_or_else(|e| panic!("{e}: {} {}", ended.text(), ended.err))
}

#[test]
fn both_sides_of_doctor_learn_that_all_is_well() {
    let place = place();
    let (ours, theirs) = (
        "--input ours.csv --key id --json",
        "--input theirs.csv --key id --json",
    );
    for ended in examined(&place, theirs, ours) {
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        let report = found(&ended);
        let states: Vec<(String, String)> = report["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| {
                let text = |name: &str| of[name].as_str().unwrap().to_owned();
                (text("what"), text("state"))
            })
            .collect();
        for what in [
            "memory",
            "disk",
            "table",
            "identity",
            "port",
            "peer",
            "version",
            "round trip",
            "bandwidth",
            "clock",
            "terms",
        ] {
            assert!(
                states.iter().any(|(of, state)| of == what && state == "ok"),
                "{what}: {states:?}"
            );
        }
    }
    // As text, and without a table.
    let [far, near] = examined(&place, "", "");
    for ended in [far, near] {
        ended.expect_success();
        assert!(
            ended.text().contains("warning  terms       not compared"),
            "{}",
            ended.text()
        );
    }
}

#[test]
fn doctor_finds_a_peer_that_waits_in_a_run_which_goes_on() {
    let place = place();
    let sender = Arguments::new("theirs.csv", "id");
    let mut listening = place.sender(&sender, "--listen 127.0.0.1:0");
    let address = listening.address();
    let ended = place.run(&format!(
        "doctor --connect {address} --identity receiver.key --peer {}",
        place.sender
    ));
    ended.expect_success();
    assert!(
        ended.text().contains("has come to send"),
        "{}",
        ended.text()
    );
    assert!(
        ended
            .text()
            .contains("not compared, since the peer is in a run"),
        "{}",
        ended.text()
    );
    listening.wait_for("the peer at ");
    let receiver = Arguments::new("ours.csv", "id");
    let endpoint = format!("--connect {address}");
    place.receiver(&receiver, &endpoint).wait().expect_success();
    listening.wait().expect_success();

    // A run that connects tries again, until its peer listens there.
    let doctor = |port: &str| {
        let text = format!(
            "doctor --listen {port} --wait 20 --identity sender.key --peer {}",
            place.receiver
        );
        Running::start(place.command(&words(&text)))
    };
    let mut examining = doctor("127.0.0.1:0");
    let address = examining.address();
    let connecting = place.receiver(&receiver, &format!("--connect {address} --wait 60"));
    let examined = examining.wait();
    assert!(
        examined.text().contains("has come to receive"),
        "{}",
        examined.text()
    );
    let sender = Arguments::new("theirs.csv", "id");
    let listening = place.sender(&sender, &format!("--listen {address}"));
    connecting.wait().expect_success();
    listening.wait().expect_success();

    // Where nobody comes afterwards, that is what is said.
    let mut alone = place.sender(&sender.with("--wait 4"), "--listen 127.0.0.1:0");
    let address = alone.address();
    place
        .run(&format!(
            "doctor --connect {address} --identity receiver.key --peer {}",
            place.sender
        ))
        .expect_success();
    alone.wait().expect_failure(4, "did not connect");
}

#[test]
fn doctor_names_what_is_wrong() {
    let place = place();
    place.write("short.csv", "id,name\n1\n2,b,c,d\n");
    place.write("copy.key", place.read("receiver.key"));
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(place.path("copy.key"), open).unwrap();
    let web = TcpListener::bind("127.0.0.1:0").unwrap();
    let web_address = web.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in web.incoming().flatten() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            let _ = io::copy(&mut stream, &mut io::sink());
        }
    });
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    let (me, peer) = (
        "--identity receiver.key",
        format!("--peer {}", place.sender),
    );
    let (own, nobody) = (
        format!("--peer {}", place.receiver),
        format!("--connect {NOBODY} --wait 1"),
    );
    let cases = [
        (format!("{me} {peer} {nobody}"), 4, "port", "nobody listens"),
        (
            format!("{me} {peer} --connect {web_address} --wait 2"),
            4,
            "port",
            "not this program's TLS",
        ),
        (
            format!("{me} {peer} --connect nowhere.invalid:7340 --wait 1"),
            4,
            "name",
            "cannot look up the name",
        ),
        (
            format!("{me} {peer} --connect 192.0.2.1:7340 --proxy http://{NOBODY} --wait 1"),
            4,
            "proxy",
            "nobody listens",
        ),
        (
            format!("{me} {peer} --listen {taken}"),
            4,
            "port",
            "the port is taken",
        ),
        (
            format!("{me} {own} {nobody}"),
            2,
            "identity",
            "this side's own",
        ),
        (
            format!("--identity copy.key {peer} {nobody}"),
            2,
            "identity",
            "other users can read it",
        ),
        (
            format!("--identity none.key {peer} {nobody}"),
            2,
            "identity",
            "no such file",
        ),
        (
            format!("{me} {peer} {nobody} --input none.csv --key id"),
            3,
            "table",
            "none.csv",
        ),
        (
            format!("{me} {peer} {nobody} --input ours.csv --key mail"),
            3,
            "table",
            "mail",
        ),
        (
            format!("{me} {peer} {nobody} --input short.csv --key id"),
            3,
            "table",
            "short.csv",
        ),
    ];
    for (text, code, what, line) in cases {
        let ended = place.run(&format!("doctor --json {text}"));
        let report = found(&ended);
        let all = report["findings"].as_array().unwrap();
        let failed = all
            .iter()
            .find(|of| of["what"] == what && of["state"] == "failed");
        let failed = failed.unwrap_or_else(|| panic!("{text}: {report:#}"));
        assert!(
            failed["line"].as_str().unwrap().contains(line),
            "{failed:#}"
        );
        assert_eq!(failed["exit_code"], code, "{failed:#}");
        assert_ne!(ended.code, Some(0));
    }
    // What the two sides want, and who they are.
    let other = Place::new();
    place.write("stranger.key", other.read("receiver.key"));
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place.path("stranger.key"), private).unwrap();
    let [_, near] = examined(
        &place,
        "--key id",
        "--key id --normalize id=email --lambda 50 --json",
    );
    let report = found(&near);
    let lines: Vec<&str> = (report["findings"].as_array().unwrap().iter())
        .filter(|of| of["what"] == "terms")
        .map(|of| of["line"].as_str().unwrap())
        .collect();
    assert_eq!(report["exit_code"], 6);
    assert_eq!(lines.len(), 2, "{lines:?}");
    let listens = format!(
        "doctor --listen 127.0.0.1:0 --wait 8 --identity sender.key --peer {}",
        place.receiver
    );
    let mut listening = Running::start(place.command(&words(&listens)));
    let address = listening.address();
    let near = place.run(&format!(
        "doctor --json --connect {address} --identity stranger.key {peer}"
    ));
    let report = found(&near);
    let all = report["findings"].as_array().unwrap();
    assert!(
        all.iter()
            .any(|of| of["what"] == "peer" && of["exit_code"] == 6),
        "{report:#}"
    );
    assert_eq!(near.code, Some(6));
}
