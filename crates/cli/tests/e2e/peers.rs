//! Peers that are wrong, gone, silent, of another opinion, or not peers at all.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::{Arguments, NOBODY, Place, Running, csv_of, exchange};

const LISTEN: &str = "--listen 127.0.0.1:0";
const SLOW: &str = "--protocol compact-dh";

/// Two tables and a protocol that take long enough to be disturbed: `vole`, the default at this size,
/// would be done before a signal arrives.
fn long_place() -> (Place, Arguments, Arguments) {
    let place = Place::new();
    let rows = |from: u32| -> Vec<Vec<String>> {
        (from..from + 20_000).map(|i| vec![i.to_string()]).collect()
    };
    place.write("ours.csv", csv_of(&["id"], &rows(0)));
    place.write("theirs.csv", csv_of(&["id"], &rows(10_000)));
    (
        place,
        Arguments::new("ours.csv", "id")
            .output("out.csv")
            .with(SLOW),
        Arguments::new("theirs.csv", "id").with(SLOW),
    )
}

fn short_place() -> (Place, Arguments, Arguments) {
    let place = Place::new();
    place.write("ours.csv", "id,mail\n1,a@example.com\n2,b@example.com\n");
    place.write("theirs.csv", "id,mail\n1,a@example.com\n3,c@example.com\n");
    (
        place,
        Arguments::new("ours.csv", "id").output("out.csv"),
        Arguments::new("theirs.csv", "id"),
    )
}

#[test]
fn another_peer_than_the_pinned_one() {
    let (place, receiver, sender) = short_place();
    let before = place.names();
    let other = Place::new();
    let wrong = format!("--peer {}", other.sender);

    // The receiver has pinned somebody else. Who listens cannot know whether that was its peer, says
    // so at once, and waits on.
    let mut listening = place.sender(&sender.clone().with("--wait 8"), LISTEN);
    let endpoint = listening.endpoint();
    let connecting = place.receiver(&receiver.clone().with(&wrong), &endpoint);
    let ended = connecting.wait();
    ended.expect_failure(4, "wrong peer");
    assert!(
        ended.err.contains(&place.sender.to_string()),
        "{}",
        ended.err
    );
    let told = listening.wait_for("turned away: ");
    assert!(told.contains("refused this side's identity"), "{told}");
    let listening = listening.wait();
    listening.expect_failure(4, "within 8 s; turned away: 127.0.0.1:");
    assert!(listening.hint().contains("--peer"), "{}", listening.err);

    // The listening sender has, and tells at once who came.
    let mut listening = place.sender(&sender.clone().with(&wrong).with("--wait 8"), LISTEN);
    let endpoint = listening.endpoint();
    let connecting = place.receiver(&receiver, &endpoint);
    connecting.wait().expect_failure(6, "refused");
    let told = listening.wait_for("turned away: ");
    let came = format!("wrong identity {}", place.receiver);
    assert!(told.ends_with(&came), "{told}");
    listening.wait().expect_failure(4, "wrong peer");
    assert_eq!(place.names(), before);

    // Nobody with another identity keeps the peer from coming.
    let mut listening = place.sender(&sender, LISTEN);
    let endpoint = listening.endpoint();
    other.write("ours.csv", place.read("ours.csv"));
    let words = Arguments::new("ours.csv", "id").with(&format!("--peer {}", place.sender));
    let stranger = other.receiver(&words, &endpoint);
    stranger.wait().expect_failure(6, "refused");
    let connecting = place.receiver(&receiver, &endpoint);
    connecting.wait().expect_success();
    listening.wait().expect_success();
    assert_eq!(place.read("out.csv"), "id,mail\n1,a@example.com\n");
}

#[test]
fn seven_bytes_do_not_end_the_wait() {
    let (place, receiver, sender) = short_place();
    let mut listening = place.sender(&sender, LISTEN);
    let endpoint = listening.endpoint();
    let address = endpoint.strip_prefix("--connect ").unwrap();
    // A TLS alert, access denied, from nobody.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[0x15, 3, 3, 0, 2, 2, 0x31]).unwrap();
    listening.wait_for("turned away: ");
    let connecting = place.receiver(&receiver, &endpoint);
    connecting.wait().expect_success();
    listening.wait().expect_success();
}

#[test]
fn nobody_there() {
    let (place, receiver, sender) = short_place();
    let before = place.names();
    let wait = "--wait 1";
    place
        .receiver(&receiver.with(wait), &format!("--connect {NOBODY}"))
        .wait()
        .expect_failure(4, NOBODY);
    place
        .sender(&sender.with(wait), LISTEN)
        .wait()
        .expect_failure(4, "did not connect to 127.0.0.1:");
    assert_eq!(place.names(), before);
}

#[test]
fn addresses_that_are_taken_or_none() {
    let (place, receiver, sender) = short_place();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    place
        .sender(&sender, &format!("--listen {taken}"))
        .wait()
        .expect_failure(4, "taken");
    place
        .receiver(&receiver.clone(), "--connect nonsense")
        .wait()
        .expect_failure(2, "HOST:PORT");
    place
        .receiver(&receiver.with("--wait 1"), "--connect nonsense:1")
        .wait()
        .expect_failure(4, "nonsense");
    assert!(!place.names().contains(&"out.csv".to_owned()));
}

#[test]
fn contracts_that_differ() {
    let (place, receiver, sender) = short_place();
    let before = place.names();
    let both = |receiver: &Arguments, sender: &Arguments, field: &str| {
        let pair = exchange(&place, receiver, sender);
        pair.receiver.expect_failure(6, field);
        pair.sender.expect_failure(6, field);
    };
    let with = |to: &Arguments, words: &str| to.clone().with(words);
    both(
        &with(&receiver, "--security semi-honest --protocol dh"),
        &with(&sender, "--security semi-honest --protocol compact-dh-sh1"),
        "protocol",
    );
    both(
        &with(&receiver, "--security semi-honest"),
        &sender,
        "security",
    );
    both(&receiver, &with(&sender, "--lambda 64"), "lambda");
    both(&receiver, &with(&sender, "--normalize id=text"), "normali");
    both(
        &Arguments::new("ours.csv", "id,mail").output("out.csv"),
        &sender,
        "key",
    );
    assert_eq!(place.names(), before);

    // Two receivers: one has called the wrong command, and the other goes on waiting for a sender.
    let mut first = place.receiver(&receiver.clone().with("--wait 8"), LISTEN);
    let endpoint = first.endpoint();
    let words = format!(
        "receive --input theirs.csv --key id --identity sender.key --peer {} {endpoint}",
        place.receiver
    );
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    Running::start(place.command(&words))
        .wait()
        .expect_failure(6, "both sides are the receiver");
    let first = first.wait();
    first.expect_failure(6, "both sides are the receiver");
    assert!(first.hint().contains("`vesica send`"), "{}", first.err);
    assert_eq!(place.names(), before);
}

#[test]
fn a_peer_that_brings_too_much() {
    let (place, receiver, sender) = short_place();
    let before = place.names();
    let pair = exchange(&place, &receiver, &sender.with("--max-peer-items 1"));
    pair.sender.expect_failure(7, "2 items");
    pair.receiver.expect_failure(7, "2 items");
    assert_eq!(place.names(), before);
}

/// Ends the process without a word, as a crash or a power cut would.
fn kill(mut party: Running) {
    party.process.kill().unwrap();
    party.process.wait().unwrap();
}

#[test]
fn a_peer_killed_before_it_is_met() {
    let (place, receiver, sender) = short_place();
    let before = place.names();
    let mut sender = place.sender(&sender, LISTEN);
    let endpoint = sender.endpoint();
    kill(sender);
    place
        .receiver(&receiver.with("--wait 1"), &endpoint)
        .wait()
        .expect_failure(4, "");
    assert_eq!(place.names(), before);
}

#[test]
fn a_peer_killed_after_the_handshake_or_in_the_middle() {
    for mark in ["connected to ", "phase: oprf"] {
        let (place, receiver, sender) = long_place();
        // One that is not ready yet waits for it to come again.
        let [receiver, sender] = [receiver, sender].map(|side| side.with("--wait 8"));
        let before = place.names();
        // The sender goes away.
        let mut listening = place.sender(&sender, LISTEN);
        let endpoint = listening.endpoint();
        let connecting = place.receiver(&receiver, &endpoint);
        listening.wait_for(mark);
        kill(listening);
        connecting.wait().expect_failure(4, "");
        assert_eq!(place.names(), before, "{mark}");

        // The receiver goes away; what a killed process leaves is not in its hands.
        let mut listening = place.sender(&sender, LISTEN);
        let mut connecting = place.receiver(&receiver, &listening.endpoint());
        connecting.wait_for(mark);
        kill(connecting);
        listening.wait().expect_failure(4, "");
        assert!(!place.names().contains(&"out.csv".to_owned()), "{mark}");
    }
}

#[cfg(unix)]
#[test]
fn a_peer_that_stalls() {
    use nix::sys::signal::Signal;
    let (place, receiver, sender) = long_place();
    let before = place.names();
    let mut listening = place.sender(&sender, LISTEN);
    let connecting = place.receiver(&receiver.with("--timeout 2"), &listening.endpoint());
    listening.wait_for("connected to ");
    listening.signal(Signal::SIGSTOP);
    connecting.wait().expect_failure(4, "2 s");
    assert_eq!(place.names(), before);
    listening.signal(Signal::SIGCONT);
    let ended = listening.wait();
    assert_eq!(ended.code, Some(4), "{}", ended.err);
}

#[cfg(unix)]
#[test]
fn ctrl_c_on_either_side() {
    use nix::sys::signal::Signal;
    for (signal, code, words) in [
        (Signal::SIGINT, 130, "interrupted"),
        (Signal::SIGTERM, 143, "told to end by a signal"),
    ] {
        let (place, receiver, sender) = long_place();
        let [receiver, sender] = [receiver, sender].map(|side| side.with("--wait 8"));
        let before = place.names();
        // The receiver is stopped.
        let mut listening = place.sender(&sender, LISTEN);
        let mut connecting = place.receiver(&receiver, &listening.endpoint());
        connecting.wait_for("connected to ");
        connecting.signal(signal);
        connecting.wait().expect_failure(code, words);
        listening.wait().expect_failure(4, words);
        assert_eq!(place.names(), before);

        // The sender is.
        let mut listening = place.sender(&sender, LISTEN);
        let connecting = place.receiver(&receiver, &listening.endpoint());
        listening.wait_for("connected to ");
        listening.signal(signal);
        listening.wait().expect_failure(code, words);
        connecting.wait().expect_failure(4, words);
        assert_eq!(place.names(), before);

        // Whoever waits is.
        let mut waiting = place.receiver(&receiver.clone().with("--report report.json"), LISTEN);
        waiting.wait_for("read ");
        waiting.signal(signal);
        waiting.wait().expect_failure(code, words);
        let report = place.read("report.json");
        assert!(
            report.contains(&format!("\"exit_code\": {code}")),
            "{report}"
        );
        std::fs::remove_file(place.path("report.json")).unwrap();
        assert_eq!(place.names(), before);
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_while_the_table_is_read() {
    use nix::sys::signal::Signal;
    use std::process::Stdio;
    let place = Place::new();
    let before = place.names();
    let words = format!(
        "receive --input - --key id --output out.csv --progress plain --identity receiver.key \
         --listen 127.0.0.1:0 --peer {}",
        place.sender
    );
    let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let mut command = place.command(&words);
    // Somebody who types a table and thinks better of it.
    command.stdin(Stdio::piped());
    let mut typing = Running::start(command);
    let stdin = typing.process.stdin.take();
    typing.wait_for("reading the table");
    typing.signal(Signal::SIGINT);
    typing.wait().expect_failure(130, "interrupted");
    assert_eq!(place.names(), before);
    drop(stdin);
}

#[cfg(target_os = "linux")]
#[test]
fn a_second_ctrl_c_ends_at_once_and_leaves_nothing() {
    use nix::sys::signal::Signal;
    let (place, receiver, _) = long_place();
    let before = place.names();
    // A listener of which nobody ever accepts: the run sits in its TLS handshake.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let mut waiting = place.receiver(
        &receiver.with("--report report.json"),
        &format!("--connect {address}"),
    );
    waiting.wait_for("connecting to ");
    waiting.signal(Signal::SIGINT);
    // Two that are pending at once are one; and the run itself ends soon.
    std::thread::sleep(Duration::from_millis(10));
    waiting.signal(Signal::SIGINT);
    let ended = waiting.wait();
    ended.expect_failure(130, "interrupted");
    // A run that was quicker has ended in order, with its report.
    let mut names = place.names();
    names.retain(|name| name != "report.json");
    assert_eq!(names, before);
}

#[test]
fn garbage_does_not_get_in_and_does_not_end_the_wait() {
    let (place, receiver, sender) = short_place();
    let mut listening = place.sender(&sender, LISTEN);
    let endpoint = listening.endpoint();
    let address = endpoint.strip_prefix("--connect ").unwrap();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[]] {
        let mut stream = TcpStream::connect(address).unwrap();
        // It may hang up before it has read everything.
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    }
    let connecting = place.receiver(&receiver, &endpoint);
    connecting.wait().expect_success();
    let ended = listening.wait();
    ended.expect_success();
    assert!(ended.err.contains("turned away"), "{}", ended.err);
    assert_eq!(place.read("out.csv"), "id,mail\n1,a@example.com\n");
}

#[test]
fn garbage_from_whom_we_connect_to() {
    let (place, receiver, _) = short_place();
    let before = place.names();
    let fake = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = fake.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in fake.incoming().flatten() {
            let mut stream = stream;
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let ended = place
        .receiver(&receiver.with("--wait 2"), &format!("--connect {address}"))
        .wait();
    ended.expect_failure(4, "");
    assert_eq!(place.names(), before);
}

/// A table that comes slowly: the port is open meanwhile, and whoever waits hears that this side is
/// alive.
#[cfg(unix)]
#[test]
fn a_slow_table_is_no_dead_peer() {
    use nix::sys::stat::Mode;
    let broken = "\"3,x\n";
    for (rest, code) in [("3,c\n", 0), (broken, 3)] {
        let place = Place::new();
        place.write("ours.csv", "id,name\n3,a\n4,b\n");
        nix::unistd::mkfifo(&place.path("slow.csv"), Mode::S_IRWXU).unwrap();
        let fifo = place.path("slow.csv");
        let (go_on, told) = std::sync::mpsc::channel();
        let table = std::thread::spawn(move || {
            let mut pipe = std::fs::File::create(fifo).unwrap();
            // More than is looked at to find out the format.
            let rows: String = (10..200_000).map(|i| format!("{i},x\n")).collect();
            pipe.write_all(format!("id,name\n{rows}").as_bytes())
                .unwrap();
            told.recv().unwrap();
            pipe.write_all(rest.as_bytes()).unwrap();
        });
        let patience = "--timeout 2 --wait 6";
        let slow = Arguments::new("slow.csv", "id").with(patience);
        let mut sender = place.sender(&slow, "--listen 127.0.0.1:0");
        let ours = Arguments::new("ours.csv", "id")
            .output("out.csv")
            .with(patience);
        let mut receiver = place.receiver(&ours, &sender.endpoint());
        receiver.wait_for("connected to ");
        // Longer than either side would wait for a dead one.
        std::thread::sleep(Duration::from_secs(7));
        go_on.send(()).unwrap();
        table.join().unwrap();
        let (sender, receiver) = (sender.wait(), receiver.wait());
        match code {
            0 => {
                sender.expect_success();
                receiver.expect_success();
                assert_eq!(place.read("out.csv"), "id,name\n3,a\n");
                let bound = "\nreading was bound by the disk or what else the table comes from: ";
                assert!(sender.err.contains(bound), "{}", sender.err);
                assert!(!receiver.err.contains(bound), "{}", receiver.err);
            }
            _ => {
                sender.expect_failure(3, "slow.csv");
                // It has waited in full meanwhile.
                receiver.expect_failure(4, "reported a problem with its table");
                let told =
                    "the peer reports a problem with its table; waiting for it to try again\n";
                assert!(receiver.err.contains(told), "{}", receiver.err);
            }
        }
    }
}

/// Whoever writes a table takes longer for its first rows than the other side waits for a connection.
#[cfg(unix)]
#[test]
fn a_table_that_begins_late_is_no_missing_peer() {
    use nix::sys::stat::Mode;
    let place = Place::new();
    place.write("ours.csv", "id,name\n3,a\n4,b\n");
    for slow_listens in [false, true] {
        nix::unistd::mkfifo(&place.path("slow.csv"), Mode::S_IRWXU).unwrap();
        let fifo = place.path("slow.csv");
        let slow = Arguments::new("slow.csv", "id").with("--wait 6");
        let quick = Arguments::new("ours.csv", "id")
            .output("out.csv")
            .with("--wait 6");
        let (mut sender, mut receiver);
        match slow_listens {
            true => {
                sender = place.sender(&slow, "--listen 127.0.0.1:0");
                receiver = place.receiver(&quick, &sender.endpoint());
            }
            false => {
                receiver = place.receiver(&quick, "--listen 127.0.0.1:0");
                sender = place.sender(&slow, &receiver.endpoint());
            }
        }
        let mut pipe = std::fs::File::create(fifo).unwrap();
        pipe.write_all(b"id,name\n").unwrap();
        receiver.wait_for("phase: the peer reads its table");
        std::thread::sleep(Duration::from_secs(7));
        pipe.write_all(b"3,c\n").unwrap();
        drop(pipe);
        sender.wait_for("read 1 row,");
        sender.wait().expect_success();
        receiver.wait().expect_success();
        assert_eq!(place.read("out.csv"), "id,name\n3,a\n");
        std::fs::remove_file(place.path("slow.csv")).unwrap();
    }
}

/// A side that fails before it has met its peer says so, and may try again while the peer waits.
#[test]
fn a_mistake_can_be_mended_while_the_peer_waits() {
    let (place, receiver, sender) = short_place();
    place.write("broken.csv", "id,mail\n1,\"a\n");
    let told = |problem: &str| format!("the peer reports a problem with {problem}; waiting for it");
    let failing = |words: &Arguments, input: &str, key: &str| {
        let words = words.clone().without("--input").without("--key");
        words.option("--input", input).option("--key", key)
    };
    // Whoever is mistaken connects.
    let mut waiting = place.receiver(&receiver, LISTEN);
    let endpoint = waiting.endpoint();
    for (input, key, code, problem) in [
        ("theirs.csv", "idd", 3, "its table"),
        ("nothing.csv", "id", 3, "its table"),
        ("broken.csv", "id", 3, "its table"),
    ] {
        let mistaken = place
            .sender(&failing(&sender, input, key), &endpoint)
            .wait();
        assert_eq!(mistaken.code, Some(code), "{}", mistaken.err);
        if input == "theirs.csv" {
            waiting.wait_for(&told(problem));
        }
    }
    let mistaken = place.sender(&sender.clone().with("--lambda 39"), &endpoint);
    mistaken.wait().expect_failure(2, "lambda");
    waiting.wait_for(&told("its options"));
    place.sender(&sender, &endpoint).wait().expect_success();
    let ended = waiting.wait();
    ended.expect_success();
    assert_eq!(
        ended.err.matches("the peer reports").count(),
        2,
        "{}",
        ended.err
    );
    assert_eq!(place.read("out.csv"), "id,mail\n1,a@example.com\n");

    // Whoever is mistaken listens.
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut waiting = place.sender(&sender, &format!("--connect {address}"));
    let listen = format!("--listen {address}");
    let mistaken = place.receiver(&failing(&receiver, "ours.csv", "idd"), &listen);
    mistaken.wait().expect_failure(3, "idd");
    waiting.wait_for(&told("its table"));
    let number = receiver
        .clone()
        .with("--reveal size --security semi-honest");
    let mistaken = place.receiver(&number, &listen).wait();
    mistaken.expect_failure(2, "the size is printed; leave --output away");
    waiting.wait_for(&told("its options"));
    place.receiver(&receiver, &listen).wait().expect_success();
    waiting.wait().expect_success();

    // Nobody is there: nothing is said, and nothing is waited for.
    let mistaken = place.sender(
        &failing(&sender, "theirs.csv", "idd"),
        &format!("--connect {address}"),
    );
    mistaken.wait().expect_failure(3, "idd");
}
