//! The table of causes, phases and exit codes in `docs/reliability.md`: each of its rows is made to happen.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;
use std::thread;

use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use vesica::Identity;

use crate::cheats::cheated;
use crate::support::{Arguments, Ended, Place, Running, exchange};

/// The rows of the table: phase, cause, exit code.
fn table() -> Vec<[&'static str; 3]> {
    let text = include_str!("../../../../docs/reliability.md");
    let (_, rest) = text.split_once("<!-- begin codes -->").unwrap();
    let (table, _) = rest.split_once("<!-- end codes -->").unwrap();
    let rows = table.trim().lines().skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        cells.try_into().unwrap()
    })
    .collect()
}

const NOBODY: &str = "--connect 127.0.0.1:1";
const PORT: &str = "--listen 127.0.0.1:0";

fn receiver() -> Arguments {
    Arguments::new("ours.csv", "id").output("out.csv")
}

fn sender() -> Arguments {
    Arguments::new("theirs.csv", "id")
}

/// How a receiver alone ends.
fn alone(place: &Place, receiver: Arguments) -> Ended {
    place.receiver(&receiver.with("--wait 1"), NOBODY).wait()
}

/// How a receiver ends that meets a sender.
fn met(place: &Place, receiver: Arguments) -> Ended {
    exchange(place, &receiver, &sender()).receiver
}

/// How a receiver ends that meets a sender, which goes on waiting for another one.
fn met_in_vain(place: &Place, receiver: Arguments) -> Ended {
    let mut other = place.sender(&sender(), PORT);
    let ended = place
        .receiver(&receiver.with("--wait 5"), &other.endpoint())
        .wait();
    other.process.kill().unwrap();
    other.process.wait().unwrap();
    ended
}

/// Tables of so many rows that a run over them takes a while, and its result more than a small file.
fn write_large(place: &Place) {
    let numbers: String = (0..20_000).map(|i| format!("{i}\n")).collect();
    for name in ["ours.csv", "theirs.csv"] {
        place.write(name, format!("id\n{numbers}"));
    }
}

/// How a receiver ends if this is done in the middle of the protocol to it, or to its sender.
fn midway(place: &Place, act: impl Fn(&mut Running, &mut Running)) -> Ended {
    write_large(place);
    let slow = "--protocol dh --security semi-honest --threads 1 --timeout 2";
    let mut sender = place.sender(&sender().with(slow), PORT);
    let mut receiver = place.receiver(&receiver().with(slow), &sender.endpoint());
    receiver.wait_for("phase: ");
    act(&mut receiver, &mut sender);
    let ended = receiver.wait();
    sender.process.kill().unwrap();
    sender.process.wait().unwrap();
    ended
}

/// How a receiver ends that waits for its peer, upon a signal.
fn signalled(place: &Place, signal: Signal) -> Ended {
    let mut waiting = place.receiver(&receiver(), PORT);
    waiting.wait_for("listening on ");
    waiting.wait_for("read ");
    waiting.signal(signal);
    waiting.wait()
}

fn fifo(place: &Place, name: &str) {
    mkfifo(&place.path(name), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
}

/// The fewest open files, from `from` on, with which the failure names `what`.
fn starved(place: &Place, from: u32, what: &str) -> Ended {
    let ends = (from..from + 12)
        .map(|files| alone(place, receiver().after(&format!("ulimit -n {files}"))));
    let mut ends = ends.filter(|ended| ended.err.contains(what));
    ends.next().expect("some limit is met there")
}

/// Makes the cause happen in this phase.
fn provoke(place: &Place, phase: &str, cause: &str) -> Ended {
    match (phase, cause) {
        ("options", "unknown, or out of range") => alone(place, receiver().with("--lambda 20")),
        ("options", "no such file") => alone(place, receiver().with("--config none.toml")),
        ("options", "no regular file") => {
            fifo(place, "pipe");
            alone(place, receiver().with("--config pipe"))
        }
        ("options", "too few open files") => alone(place, receiver().after("ulimit -n 4")),
        ("identity", "no such file") => {
            std::fs::remove_file(place.path("receiver.key")).unwrap();
            alone(place, receiver())
        }
        ("identity", "no regular file") => {
            std::fs::remove_file(place.path("receiver.key")).unwrap();
            fifo(place, "receiver.key");
            alone(place, receiver())
        }
        ("identity", "others may read it") => {
            let open = std::fs::Permissions::from_mode(0o644);
            std::fs::set_permissions(place.path("receiver.key"), open).unwrap();
            alone(place, receiver())
        }
        ("identity", "damaged") => {
            place.write("receiver.key", "-----BEGIN PRIVATE KEY-----\n");
            alone(place, receiver())
        }
        ("identity", "too few open files") => starved(place, 5, "receiver.key"),
        ("opening the input", "no such file") => {
            std::fs::remove_file(place.path("ours.csv")).unwrap();
            alone(place, receiver())
        }
        ("opening the input", "a pipe without a writer, after --wait") => {
            std::fs::remove_file(place.path("ours.csv")).unwrap();
            fifo(place, "ours.csv");
            alone(place, receiver())
        }
        ("opening the input", "interrupted at a pipe") => {
            std::fs::remove_file(place.path("ours.csv")).unwrap();
            fifo(place, "ours.csv");
            let mut waiting = place.receiver(&receiver(), NOBODY);
            waiting.wait_for("reading the table");
            waiting.signal(Signal::SIGTERM);
            waiting.wait()
        }
        ("opening the input", "too few open files") => starved(place, 5, "ours.csv"),
        ("opening the output", "no such directory") => {
            let output = receiver().without("--output").output("none/out.csv");
            alone(place, output)
        }
        ("opening the output", "a pipe without a reader") => {
            fifo(place, "out.csv");
            alone(place, receiver())
        }
        ("reading", "damaged") => {
            place.write("ours.csv", "id,x\n1,2\n3\n");
            alone(place, receiver())
        }
        ("reading", "full disk, for keys beyond the memory") => {
            write_large(place);
            alone(place, receiver().with("--memory 64K").after("ulimit -f 16"))
        }
        ("reading", "out of memory") => {
            place.write("ours.csv", format!("id,x\n1,{}\n", "x".repeat(60 << 20)));
            alone(place, receiver().after("ulimit -v 150000"))
        }
        ("waiting", "nobody comes, after --wait") => {
            place.receiver(&receiver().with("--wait 1"), PORT).wait()
        }
        ("waiting", "nobody listens, after --wait") => alone(place, receiver()),
        ("waiting", "the port is taken") => {
            let taken = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = taken.local_addr().unwrap();
            place
                .receiver(&receiver(), &format!("--listen {address}"))
                .wait()
        }
        ("waiting", "Ctrl-C") => signalled(place, Signal::SIGINT),
        ("waiting", "SIGTERM") => signalled(place, Signal::SIGTERM),
        ("waiting", "too few open files") => starved(place, 6, "connect"),
        ("handshake", "another identity than --peer") => {
            let expected = Identity::generate().unwrap().fingerprint();
            met_in_vain(place, receiver().with(&format!("--peer {expected}")))
        }
        ("handshake", "the peer is no vesica") => {
            let other = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = other.local_addr().unwrap();
            thread::spawn(move || {
                for stream in other.incoming().flatten() {
                    let _ = std::io::Write::write_all(&mut &stream, b"HTTP/1.1 400 no\r\n\r\n");
                }
            });
            let receiver = receiver().with("--wait 1");
            place
                .receiver(&receiver, &format!("--connect {address}"))
                .wait()
        }
        ("contract", "the peer lies") => cheated(place, receiver(), "a hello cut short"),
        ("protocol", "the peer lies") => cheated(place, receiver(), "masks that are not sorted"),
        ("contract", "another option") => met(place, receiver().with("--lambda 64")),
        ("protocol", "too little --memory") => met(place, receiver().with("--memory 1")),
        ("protocol", "the peer dies") => midway(place, |_, sender| {
            sender.process.kill().unwrap();
        }),
        ("protocol", "the peer stalls, after --timeout") => {
            midway(place, |_, sender| sender.signal(Signal::SIGSTOP))
        }
        ("protocol", "Ctrl-C") => midway(place, |receiver, _| receiver.signal(Signal::SIGINT)),
        ("writing the output", "full disk") => {
            write_large(place);
            met(place, receiver().after("ulimit -f 16"))
        }
        ("the report", "no such directory") => {
            alone(place, receiver().with("--report none/report.json"))
        }
        ("the report", "a pipe without a reader") => {
            fifo(place, "report.json");
            alone(place, receiver().with("--report report.json"))
        }
        ("the report", "full disk") => met(place, receiver().with("--report /dev/full")),
        _ => panic!("nothing makes {cause:?} happen in {phase:?}"),
    }
}

#[test]
fn every_cause_ends_in_its_code() {
    let rows = Mutex::new(table().into_iter());
    let wrong = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some([phase, cause, code]) = rows.lock().unwrap().next() else {
                        return;
                    };
                    let place = Place::new();
                    place.write("ours.csv", "id\n1\n2\n3\n");
                    place.write("theirs.csv", "id\n2\n3\n4\n");
                    let ended = provoke(&place, phase, cause);
                    let lines = ended
                        .err
                        .lines()
                        .filter(|line| line.starts_with("vesica: "));
                    let found = ended.code.map(|code| code.to_string());
                    if found.as_deref() != Some(code) || lines.count() != 1 || !ended.out.is_empty()
                    {
                        wrong.lock().unwrap().insert(
                            (phase, cause),
                            format!("{code}, not {found:?}: {}", ended.err),
                        );
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
