//! Two sides that come to a result by two strings: an invitation, and a fingerprint that comes back.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Ended, Place, Running};

/// The receiver invites the sender.
struct Invited {
    place: Place,
    address: String,
}

const RECEIVE: &str = "receive --input ours.csv --key id --identity receiver.key --progress plain";
const SEND: &str = "send --input theirs.csv --key id --identity sender.key --progress plain";

fn free_address() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().to_string()
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

impl Invited {
    fn new() -> Invited {
        let place = Place::new();
        place.write("ours.csv", "id\n1\n2\n");
        place.write("theirs.csv", "id\n2\n3\n");
        Invited {
            place,
            address: free_address(),
        }
    }

    /// One of two machines, by what it keeps of invitations.
    fn command(&self, machine: &str, text: &str) -> Command {
        let mut command = self.place.command(&words(text));
        command.env("XDG_STATE_HOME", self.place.path(machine));
        command
    }

    fn start(&self, machine: &str, text: &str) -> Running {
        Running::start(self.command(machine, text))
    }

    fn run(&self, machine: &str, text: &str) -> Ended {
        self.start(machine, text).wait()
    }

    /// The invitation with these words, in the file `invitation`, and its hash.
    fn invite(&self, more: &str) -> String {
        let text = format!(
            "invite --identity receiver.key --address {} --for send {more} --log-format json",
            self.address
        );
        let ended = self.run("alice", &text);
        ended.expect_success();
        self.place.write("invitation", ended.text());
        let said: serde_json::Value = serde_json::from_str(&ended.err).unwrap();
        said["hash"].as_str().unwrap().to_owned()
    }

    /// Whoever has invited waits, and whoever is invited comes.
    fn meet(&self, inviting: &str, invited: &str) -> [Ended; 2] {
        let sender = self.place.sender;
        let text = format!("{RECEIVE} --invite invitation --peer {sender} {inviting}");
        let mut receiver = self.start("alice", &text);
        let address = receiver.address();
        assert_eq!(address, self.address);
        let sender = self.run("bob", &format!("{SEND} --invite invitation {invited}"));
        [receiver.wait(), sender]
    }
}

#[test]
fn two_sides_come_to_a_result_by_two_strings() {
    let invited = Invited::new();
    let place = &invited.place;
    let address = &invited.address;
    let ended = invited.run(
        "alice",
        &format!("invite --identity receiver.key --address {address} --for send"),
    );
    ended.expect_success();
    // The one string, which mail may wrap.
    let line = ended.text().trim_end();
    assert!(line.starts_with("vesica-invite:") && !line.contains('\n'));
    let (one, other) = line.split_at(76);
    place.write("invitation", format!("{one}\r\n{other}\r\n"));

    // Whoever is invited sees what it is, and is told what to add.
    let ended = invited.run("bob", &format!("{SEND} --invite invitation"));
    ended.expect_failure(2, "the invitation is not confirmed");
    for shown in [
        format!("from        {}", place.receiver),
        format!("this side   {}", place.sender),
        "role        sender".to_owned(),
        format!("connect to  {address}"),
        "terms       none: those of this side's options".to_owned(),
        "expires     20".to_owned(),
    ] {
        assert!(ended.err.contains(&shown), "{shown}: {}", ended.err);
    }
    let accept = ended.hint().rsplit_once(", add ").unwrap().1.to_owned();
    assert!(accept.starts_with("--accept ") && accept.len() == 9 + 32);
    // The other string.
    let mut said = ended.err.lines();
    said.find(|line| line.ends_with("send this line back:"));
    let back = said.next().unwrap();
    assert_eq!(back, place.sender.to_string());

    // As text on one side, and from a file on the other. Nothing of it has been used so far.
    let mut receiver = invited.start(
        "alice",
        &format!("{RECEIVE} --invite {line} --peer {back} --output found.csv"),
    );
    assert_eq!(receiver.address(), *address);
    let sender = invited.run("bob", &format!("{SEND} --invite invitation {accept}"));
    sender.expect_success();
    let receiver = receiver.wait();
    receiver.expect_success();
    let pair = format!(
        "this side is {}, and the peer {}",
        place.receiver, place.sender
    );
    assert!(receiver.err.contains(&pair), "{}", receiver.err);
    assert_eq!(place.read("found.csv"), "id\n2\n");

    // Both have used it, each for itself.
    let ended = invited.run("bob", &format!("{SEND} --invite invitation {accept}"));
    ended.expect_failure(2, "the invitation has been used");
    let ended = invited.run(
        "alice",
        &format!("{RECEIVE} --invite invitation --peer {back}"),
    );
    ended.expect_failure(2, "the invitation has been used");
    let marks = place.path("bob/vesica/invitations");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&marks), 0o700);
    let mark = marks.read_dir().unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&mark), 0o600);
    assert!(
        std::fs::read_to_string(&mark)
            .unwrap()
            .contains("\nexpires 20")
    );
}

#[test]
fn terms_come_with_an_invitation_as_far_as_they_may() {
    let invited = Invited::new();
    let hash = invited.invite("--reveal size --security semi-honest");
    let accept = format!("--accept {hash}");
    let ended = invited.run("bob", &format!("{SEND} --invite invitation {accept}"));
    ended.expect_failure(2, "--security semi-honest, which it cannot decide");
    assert_eq!(ended.hint(), "if you want that, add --security semi-honest");
    let ended = invited.run(
        "bob",
        &format!("{SEND} --invite invitation {accept} --security semi-honest --reveal matches"),
    );
    ended.expect_failure(2, "for --reveal size, and not for --reveal matches");
    let [receiver, sender] = invited.meet("", &format!("{accept} --security semi-honest"));
    sender.expect_success();
    receiver.expect_success();
    assert_eq!(receiver.text(), "1\n");

    for (terms, missing) in [
        (
            "--reveal sum --security semi-honest",
            "--security semi-honest --reveal sum",
        ),
        (
            "--reveal threshold:5 --security semi-honest",
            "--security semi-honest --reveal threshold:5",
        ),
        ("--both", "--both"),
        (
            "--reveal size --security semi-honest --min-size 3",
            "--security semi-honest --min-size 3",
        ),
        ("--security malicious-sender", "--security malicious-sender"),
    ] {
        let accept = format!("--accept {}", invited.invite(terms));
        let ended = invited.run("bob", &format!("{SEND} --invite invitation {accept}"));
        ended.expect_failure(2, &format!("for {missing}, which it cannot decide"));
        assert_eq!(ended.hint(), format!("if you want that, add {missing}"));
    }
    // What no run would take is not written.
    for (wrong, problem) in [
        ("--reveal size", "semi-honest security"),
        ("--reveal nothing", "invalid value"),
    ] {
        let address = &invited.address;
        let text = format!("invite --identity receiver.key --address {address} --for send {wrong}");
        invited.run("alice", &text).expect_failure(2, problem);
    }
    // Variables are options too.
    let hash = invited.invite("--lambda 64 --protocol vole");
    let text = format!("{SEND} --invite invitation --accept {hash}");
    for (variable, value, problem) in [
        (
            "VESICA_LAMBDA",
            "48",
            "for --lambda 64, and not for --lambda 48",
        ),
        (
            "VESICA_PROTOCOL",
            "kkrt",
            "for --protocol vole, and not for --protocol kkrt",
        ),
        (
            "VESICA_CONNECT",
            "h:1",
            "--invite takes the place of --connect",
        ),
    ] {
        let mut command = invited.command("bob", &text);
        command.env(variable, value);
        Running::start(command).wait().expect_failure(2, problem);
    }
}

#[test]
fn what_does_not_fit_an_invitation_is_refused() {
    let invited = Invited::new();
    let place = &invited.place;
    let hash = invited.invite("");
    let line = place.read("invitation").trim().to_owned();
    let (sender, receiver) = (place.sender, place.receiver);
    let other = format!("{}{}", &hash[1..], &hash[..1]);
    let cut = &line[..line.len() - 3];
    let at = line.len() / 2;
    let letter = if &line[at..=at] == "a" { "b" } else { "a" };
    let changed = format!("{}{letter}{}", &line[..at], &line[at + 1..]);
    place.write("long", "vesica-invite:".repeat(1000));
    // Whoever would be called hears nothing before the invitation is confirmed.
    let called = TcpListener::bind(&invited.address).unwrap();
    called.set_nonblocking(true).unwrap();
    let of_sender = "receive --input ours.csv --key id --identity sender.key";
    for (text, problem) in [
        (
            format!("{of_sender} --invite invitation --accept {hash}"),
            "the invitation is for a sender, and not for a receiver",
        ),
        (
            format!(
                "send --input ours.csv --key id --identity receiver.key --invite {line} --peer {sender}"
            ),
            "a sender was invited, and there is one sender in a run",
        ),
        (
            format!("{SEND} --invite {cut} --accept {hash}"),
            "its signature does not fit",
        ),
        (
            format!("{SEND} --invite {changed} --accept {hash}"),
            "its signature does not fit",
        ),
        (
            format!("{SEND} --invite {line}1"),
            "holds only the letters a to z",
        ),
        (
            format!("{SEND} --invite missing"),
            "--invite missing: cannot be read",
        ),
        (
            format!("{SEND} --invite long"),
            "cannot be read: it has more than 4096 bytes",
        ),
        (
            format!("{SEND} --invite theirs.csv"),
            "begins with \"vesica-invite:\"",
        ),
        (
            format!("{SEND} --invite /dev/zero"),
            "a device is no regular file",
        ),
        (
            format!("{SEND} --invite invitation --accept {other}"),
            "--accept has the hash of another invitation",
        ),
        (
            format!("{SEND} --accept {hash} --connect h:1 --peer {receiver}"),
            "--invite",
        ),
        (
            format!("{SEND} --invite invitation --listen 127.0.0.1:0"),
            "--invite takes the place of --listen",
        ),
        (
            format!("{SEND} --invite invitation --connect 127.0.0.1:1"),
            "--invite takes the place of --connect",
        ),
        (
            format!("{SEND} --invite invitation --connect 127.0.0.1:1 --peer {receiver}"),
            "--connect and --peer take the place of --invite",
        ),
        (
            format!("{RECEIVE} --invite invitation --peer {receiver} --accept {other}"),
            "--accept has the hash of another invitation",
        ),
        (
            format!("{RECEIVE} --invite invitation --peer {receiver}"),
            "own",
        ),
        (
            format!("{of_sender} --invite invitation --peer {sender}"),
            "the invitation is from",
        ),
        (
            format!("{SEND} --invite invitation --work-dir work"),
            "an invitation is used once",
        ),
        (
            format!("{SEND} --invite invitation --accept {hash} --both --output invitation"),
            "--output",
        ),
    ] {
        let ended = invited.run("bob", &text);
        ended.expect_failure(2, problem);
    }
    assert_eq!(place.read("invitation").trim(), line);
    // The inviter without the fingerprint that comes back.
    let own = invited.run(
        "alice",
        "send --input ours.csv --key id --identity receiver.key --invite invitation",
    );
    own.expect_failure(2, "the invitation is this side's own");
    // Nowhere to keep that it was used.
    for (home, problem) in [("", "HOME is not set"), ("relative", "HOME is not set")] {
        let mut command = place.command(&words(&format!(
            "{SEND} --invite invitation --accept {hash}"
        )));
        command.env_remove("HOME").env("XDG_STATE_HOME", home);
        let ended = Running::start(command).wait();
        ended.expect_failure(2, problem);
        assert!(ended.hint().contains("XDG_STATE_HOME"));
    }
    std::fs::create_dir_all(place.path("eve/vesica")).unwrap();
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(place.path("eve/vesica"), open).unwrap();
    let ended = invited.run(
        "eve",
        &format!("{SEND} --invite invitation --accept {hash}"),
    );
    ended.expect_failure(2, "can be changed by other users");
    let nobody = called.accept().unwrap_err();
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
    let marks = place.path("bob/vesica/invitations");
    assert_eq!(marks.read_dir().unwrap().count(), 0);
}

#[test]
fn an_invitation_expires_and_a_failed_connection_does_not_use_it() {
    let invited = Invited::new();
    let hash = invited.invite("");
    let send = format!("{SEND} --invite invitation --accept {hash}");
    invited
        .run("bob", &format!("{send} --wait 1"))
        .expect_failure(4, "cannot connect");
    let [receiver, sender] = invited.meet("", &format!("--accept {hash}"));
    receiver.expect_success();
    sender.expect_success();

    let hash = invited.invite("--expires 1s");
    std::thread::sleep(Duration::from_millis(1100));
    let send = format!("{SEND} --invite invitation --accept {hash}");
    let ended = invited.run("bob", &send);
    ended.expect_failure(2, "the invitation expired at 20");
    assert_eq!(
        ended.err.matches("Z, and it is 20").count(),
        1,
        "{}",
        ended.err
    );
    let sender = invited.place.sender;
    invited
        .run(
            "alice",
            &format!("{RECEIVE} --invite invitation --peer {sender}"),
        )
        .expect_failure(2, "the invitation expired at 20");
}

/// The first of two that use it at once is the one that does.
#[test]
fn an_invitation_is_used_once_by_those_who_wait_at_once() {
    let invited = Invited::new();
    let hash = invited.invite("");
    let send = format!("{SEND} --invite invitation --accept {hash}");
    let mut first = invited.start("bob", &send);
    let mut second = invited.start("bob", &send);
    for waiting in [&mut first, &mut second] {
        waiting.wait_until_said("connecting to", 1);
    }
    let receive = format!(
        "--key id --identity receiver.key --listen {} --peer {}",
        invited.address, invited.place.sender
    );
    let ended = invited.run("alice", &format!("receive --input ours.csv {receive}"));
    ended.expect_success();
    let again = invited.start("alice", &format!("receive --input ours.csv {receive}"));
    let mut codes = [first.wait(), second.wait()].map(|ended| ended.code);
    codes.sort_unstable();
    assert_eq!(codes, [Some(0), Some(2)]);
    let again = again.wait();
    assert_ne!(again.code, Some(0), "{}", again.err);
}

/// Both ends of a terminal.
fn terminal() -> (std::fs::File, OwnedFd) {
    let pty = nix::pty::openpty(None, None).unwrap();
    (pty.master.into(), pty.slave)
}

#[test]
fn whoever_is_invited_is_asked_on_the_terminal() {
    let invited = Invited::new();
    invited.invite("");
    let sender = invited.place.sender;
    let text = format!("{RECEIVE} --invite invitation --peer {sender} --output found.csv");
    let mut receiver = invited.start("alice", &text);
    receiver.address();
    for (answer, code) in [("no\n", 2), ("y\n", 2), ("\n", 2), ("yes\n", 0)] {
        let (mut near, far) = terminal();
        let mut command = invited.command("bob", &format!("{SEND} --invite invitation"));
        command
            .stdin(Stdio::from(far.try_clone().unwrap()))
            .stdout(Stdio::null())
            .stderr(Stdio::from(far));
        let mut process = command.spawn().unwrap();
        drop(command);
        let mut seen = Vec::new();
        let mut answered = false;
        let mut bytes = [0; 1024];
        // The end of the other side is an error here.
        while let Ok(count @ 1..) = near.read(&mut bytes) {
            seen.extend_from_slice(&bytes[..count]);
            if !answered && seen.ends_with(b"yes or no: ") {
                near.write_all(answer.as_bytes()).unwrap();
                answered = true;
            }
        }
        let seen = String::from_utf8_lossy(&seen).into_owned();
        let status = process.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{answer:?}: {seen}");
        assert!(answered && seen.contains("from        vs1:"), "{seen}");
        assert_eq!(seen.contains("was not accepted"), code == 2, "{seen}");
    }
    receiver.wait().expect_success();
    assert_eq!(invited.place.read("found.csv"), "id\n2\n");
    // A table from the terminal leaves nobody to answer.
    let (_near, far) = terminal();
    invited.invite("");
    let mut command = invited.command(
        "bob",
        "send --input - --key id --identity sender.key --invite invitation",
    );
    command.stdin(Stdio::from(far));
    Running::start(command)
        .wait()
        .expect_failure(2, "no terminal to ask on");
}

#[test]
fn a_code_is_printed_below_the_line() {
    let invited = Invited::new();
    let text = format!(
        "invite --identity receiver.key --address {} --for receive --qr",
        invited.address
    );
    let ended = invited.run("alice", &text);
    ended.expect_success();
    // The line alone goes into a file.
    assert!(ended.text().starts_with("vesica-invite:"));
    assert_eq!(ended.text().lines().count(), 1);
    let code: Vec<&str> = ended
        .err
        .lines()
        .filter(|line| line.contains(['█', '▀']))
        .collect();
    let width = code[0].chars().count();
    assert!(code[0].chars().all(|c| c == '█') && code.len() == width.div_ceil(2));
    for wrong in [
        "--address h:0 --for send",
        "--address h --for send",
        "--address 0.0.0.0:1 --for send",
        "--address [::]:1 --for send",
        "--address h:1 --for both",
    ] {
        let ended = invited.run("alice", &format!("invite --identity receiver.key {wrong}"));
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.out.is_empty());
    }
}

#[test]
fn an_invitation_to_a_union_leaves_its_columns_to_the_sender() {
    let invited = Invited::new();
    let terms = "--reveal union --security semi-honest";
    let hash = invited.invite(terms);
    let sender = format!("--accept {hash} {terms} --payload id");
    let all = invited.meet("--output new.csv", &sender);
    for ended in &all {
        ended.expect_success();
    }
    assert_eq!(invited.place.read("new.csv"), "id\n3\n");
}
