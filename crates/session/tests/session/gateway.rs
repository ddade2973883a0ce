//! Tasks that meet at a gateway, and those that must not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{identity, tls, within};
use vesica_session::{
    Admission, Attempt, Connection, Error, ErrorClass, Gateway, GatewayFigures, GatewayOptions,
    Identity, Interrupt, NoConnection, NotAdmitted, Role, Visit, connect_through,
};
use vesica_wire::{Channel, Kind};

const TEXT: Kind = Kind {
    code: 200,
    name: "text",
};
/// A text and a challenge.
const GREETING: usize = 16 + 32;
const UNKNOWN: [u8; 1] = [2];

fn admission(job: char, token: char) -> Admission {
    let [job, token] = [job, token].map(|digit| digit.to_string().repeat(64));
    let text = format!(r#"{{"job": "{job}", "token": "{token}", "buckets": 8, "attempts": 2}}"#);
    Admission::from_json(text.as_bytes()).unwrap()
}

#[test]
fn a_file_for_a_gateway_is_of_a_job_that_there_can_be() {
    let good = String::from_utf8(admission('a', 'b').to_json().to_vec()).unwrap();
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{good}");
        Admission::from_json(good.replace(from, to).as_bytes())
    };
    assert_eq!(with("8", "1024").map(drop), Ok(()));
    for (from, to) in [("8", "0"), ("8", "1025"), ("2", "0"), ("2", "17")] {
        let problem = with(from, to).unwrap_err();
        assert_eq!(problem, "no job has so many buckets or attempts", "{to}");
    }
    for (from, to) in [
        ("aa", "a"),
        ("aa", "xx"),
        ("8", "-8"),
        ("\"token\"", "\"tokens\""),
    ] {
        assert!(with(from, to).is_err(), "{to}");
    }
    assert!(Admission::from_json(&good.as_bytes()[..good.len() / 2]).is_err());
}

/// A gateway for the job that `admission('a', 'b')` is of.
struct Served {
    address: SocketAddr,
    interrupt: Interrupt,
    told: Arc<Mutex<Vec<GatewayFigures>>>,
    thread: JoinHandle<Result<(), Error>>,
}

impl Served {
    fn at(address: &str, pairs: usize, timeout: Duration) -> Served {
        let gateway = Gateway::bind(address, vec![admission('a', 'b')]).unwrap();
        let interrupt = Interrupt::new();
        let options = GatewayOptions {
            pairs,
            wait: Duration::from_secs(20),
            timeout,
            interval: Duration::from_millis(20),
            interrupt: interrupt.clone(),
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let (address, hears) = (gateway.local_addr(), Arc::clone(&told));
        let tell = move |figures: &GatewayFigures| hears.lock().unwrap().push(*figures);
        Served {
            address,
            interrupt,
            told,
            thread: thread::spawn(move || gateway.serve(&options, &tell)),
        }
    }

    fn new() -> Served {
        Served::at("127.0.0.1:0", 16, Duration::from_secs(20))
    }

    /// Waits until the figures say so.
    fn wait_for(&self, is_so: impl Fn(&GatewayFigures) -> bool) {
        let until = Instant::now() + Duration::from_secs(20);
        while !self.told.lock().unwrap().iter().any(&is_so) {
            assert!(Instant::now() < until, "{:?}", self.told.lock().unwrap());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it in order; gives the last figures.
    fn stop(self) -> GatewayFigures {
        self.interrupt.raise();
        self.thread.join().unwrap().unwrap();
        *self.told.lock().unwrap().last().unwrap()
    }

    /// A task of this side for this bucket, its first attempt.
    fn task(&self, sides: &[Identity; 2], role: Role, bucket: u32) -> JoinHandle<Met> {
        self.visit(sides, role, bucket, admission('a', 'b'), 20.0)
    }

    fn visit(
        &self,
        sides: &[Identity; 2],
        role: Role,
        bucket: u32,
        admission: Admission,
        seconds: f32,
    ) -> JoinHandle<Met> {
        let [receiver, sender] = sides.clone();
        let (own, peer) = match role {
            Role::Receiver => (receiver, sender.fingerprint()),
            Role::Sender => (sender, receiver.fingerprint()),
        };
        let attempt = Attempt { bucket, number: 0 };
        let visit = Visit {
            admission,
            role,
            attempt,
        };
        let address = self.address.to_string();
        thread::spawn(move || connect_through(&address, &visit, &tls(&own, peer), &within(seconds)))
    }

    /// A connection that has the greeting.
    fn stranger(&self) -> (TcpStream, [u8; GREETING]) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let mut greeting = [0; GREETING];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[..16], *b"vesica/2 gateway");
        (stream, greeting)
    }
}

type Met = Result<Connection, Error>;

fn sides() -> [Identity; 2] {
    [0, 1].map(|_| identity())
}

/// What a task answers, as docs/scale-out.md has it.
fn answer(greeting: &[u8; GREETING], role: u8, bucket: u32) -> [u8; 73] {
    let what = [
        &[role][..],
        &[0xaa; 32],
        &bucket.to_le_bytes(),
        &0u32.to_le_bytes(),
    ]
    .concat();
    let mut hasher = blake3::Hasher::new_keyed(&[0xbb; 32]);
    hasher
        .update(b"vesica/1 answer to a gateway")
        .update(greeting)
        .update(&what[1..33])
        .update(&what[..1])
        .update(&what[33..]);
    let mut answer = [0; 73];
    answer[..41].copy_from_slice(&what);
    answer[41..].copy_from_slice(hasher.finalize().as_bytes());
    answer
}

fn verdict(mut stream: &TcpStream) -> [u8; 1] {
    let mut verdict = [0];
    stream.read_exact(&mut verdict).unwrap();
    verdict
}

/// Says something in both directions.
fn talk(near: &mut Connection, far: &mut Connection) {
    let say = |from: &mut Connection, to: &mut Connection| {
        let text = b"what only tasks read".to_vec();
        from.channel.send(TEXT, text.clone()).unwrap();
        from.channel.flush().unwrap();
        assert_eq!(to.channel.recv(TEXT, 64).unwrap(), text);
    };
    say(near, far);
    say(far, near);
}

fn meet(served: &Served, sides: &[Identity; 2], bucket: u32) -> [Connection; 2] {
    let roles = [Role::Receiver, Role::Sender];
    let tasks = roles.map(|role| served.task(sides, role, bucket));
    tasks.map(|task| task.join().unwrap().unwrap())
}

fn not_admitted(met: JoinHandle<Met>, expected: NotAdmitted) {
    match met.join().unwrap().unwrap_err() {
        Error::NotAdmitted { why, .. } => assert_eq!(why, expected),
        other => panic!("{other}"),
    }
}

/// Which attempts have begun is for the two sides to know: a gateway does not count them.
#[test]
fn tasks_meet_as_often_as_they_come() {
    let (served, sides) = (Served::new(), sides());
    let [mut near, mut far] = meet(&served, &sides, 3);
    let [mut other_near, mut other_far] = meet(&served, &sides, 4);
    talk(&mut near, &mut far);
    talk(&mut other_near, &mut other_far);
    assert_eq!(near.peer, Some(sides[1].fingerprint()));
    // The same attempt again, while the pair is there and after.
    let mut first = Some([near, far]);
    for _ in 0..2 {
        let [mut near, mut far] = meet(&served, &sides, 3);
        talk(&mut near, &mut far);
        first.take();
    }
    talk(&mut other_near, &mut other_far);
    drop((other_near, other_far));
    let figures = served.stop();
    assert_eq!(
        (
            figures.pairs,
            figures.refused,
            figures.running,
            figures.waiting
        ),
        (4, 0, 0, 0)
    );
    assert!(figures.bytes > 4000);
}

/// Machines are lost, and processes killed, when the gateway has brought them together and nothing is secure yet.
#[test]
fn a_task_whose_peer_is_lost_before_it_is_secure_meets_the_next() {
    let (served, sides) = (Served::new(), sides());
    for lost in [Role::Sender, Role::Receiver] {
        let bucket = u32::from(lost == Role::Sender);
        let (mut early, greeting) = served.stranger();
        let role = u8::from(lost == Role::Sender);
        early.write_all(&answer(&greeting, role, bucket)).unwrap();
        let task = served.task(&sides, lost.other(), bucket);
        assert_eq!(verdict(&early), [1]);
        drop(early);
        let mut again = served.task(&sides, lost, bucket).join().unwrap().unwrap();
        talk(&mut task.join().unwrap().unwrap(), &mut again);
    }
}

#[test]
fn who_has_no_token_is_turned_away() {
    let (served, sides) = (Served::new(), sides());
    for (admission, bucket) in [
        (admission('a', 'c'), 0),
        (admission('d', 'b'), 0),
        (admission('a', 'b'), 8),
    ] {
        let visit = served.visit(&sides, Role::Receiver, bucket, admission, 20.0);
        not_admitted(visit, NotAdmitted::Unknown);
    }
    // What a task has answered, said by who has overheard it; and an answer that was changed.
    let (mut task, greeting) = served.stranger();
    let overheard = answer(&greeting, 0, 5);
    let (mut stranger, other) = served.stranger();
    assert_ne!(greeting, other);
    stranger.write_all(&overheard).unwrap();
    assert_eq!(verdict(&stranger), UNKNOWN);
    for at in [0, 7, 33, 37, 50] {
        let (mut stranger, greeting) = served.stranger();
        let mut changed = answer(&greeting, 0, 5);
        changed[at] ^= 1;
        stranger.write_all(&changed).unwrap();
        assert_eq!(verdict(&stranger), UNKNOWN, "byte {at}");
    }
    // None of this has taken the place of the task.
    task.write_all(&overheard).unwrap();
    served.task(&sides, Role::Sender, 5);
    assert_eq!(verdict(&task), [1]);
}

#[test]
fn one_side_twice_is_no_pair() {
    let (served, sides) = (Served::new(), sides());
    let first = served.task(&sides, Role::Receiver, 1);
    served.wait_for(|figures| figures.waiting == 1);
    // Whoever comes later is sure to be there.
    let second = served.task(&sides, Role::Receiver, 1);
    not_admitted(first, NotAdmitted::Replaced);
    let mut far = served
        .task(&sides, Role::Sender, 1)
        .join()
        .unwrap()
        .unwrap();
    talk(&mut second.join().unwrap().unwrap(), &mut far);
}

#[test]
fn a_task_that_leaves_before_its_peer_has_had_no_attempt() {
    let (served, sides) = (Served::new(), sides());
    let (mut early, greeting) = served.stranger();
    early.write_all(&answer(&greeting, 1, 2)).unwrap();
    served.wait_for(|figures| figures.waiting == 1);
    drop(early);
    // So has one that speaks before it is told.
    let (mut hasty, greeting) = served.stranger();
    hasty.write_all(&answer(&greeting, 0, 6)).unwrap();
    hasty.write_all(b"hello").unwrap();
    thread::sleep(Duration::from_millis(500));
    for bucket in [2, 6] {
        let [mut near, mut far] = meet(&served, &sides, bucket);
        talk(&mut near, &mut far);
    }
}

#[test]
fn endless_connections_keep_no_task_away() {
    let (served, sides) = (Served::new(), sides());
    let idle: Vec<_> = (0..300).map(|_| served.stranger().0).collect();
    let [mut near, mut far] = meet(&served, &sides, 0);
    talk(&mut near, &mut far);
    drop(idle);
    assert!(
        served
            .told
            .lock()
            .unwrap()
            .iter()
            .all(|told| told.waiting < 3)
    );
    drop((near, far));
    assert!(served.stop().refused >= 172);
}

#[test]
fn pairs_are_bounded_and_the_peer_of_who_waits_is_let_in() {
    let (served, sides) = (
        Served::at("127.0.0.1:0", 1, Duration::from_secs(20)),
        sides(),
    );
    let first = served.task(&sides, Role::Receiver, 1);
    served.wait_for(|figures| figures.waiting == 1);
    let second = served.visit(&sides, Role::Receiver, 2, admission('a', 'b'), 3.0);
    let error = second.join().unwrap().unwrap_err();
    assert_eq!(error.class(), ErrorClass::Network);
    let line = error.to_string();
    assert!(line.contains("as many tasks as it takes"), "{line}");
    let mut far = served
        .task(&sides, Role::Sender, 1)
        .join()
        .unwrap()
        .unwrap();
    talk(&mut first.join().unwrap().unwrap(), &mut far);
}

#[test]
fn silence_ends_a_pair() {
    let served = Served::at("127.0.0.1:0", 16, Duration::from_millis(300));
    let mut pair = [0, 1].map(|role| {
        let (mut stream, greeting) = served.stranger();
        stream.write_all(&answer(&greeting, role, 7)).unwrap();
        stream
    });
    for stream in &mut pair {
        assert_eq!(verdict(stream), [1]);
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)));
    }
}

#[test]
fn a_gateway_stops_in_order_and_a_new_one_takes_its_place() {
    let (served, sides) = (Served::new(), sides());
    let [mut near, mut far] = meet(&served, &sides, 1);
    let address = served.address;
    let early = served.task(&sides, Role::Sender, 2);
    served.wait_for(|figures| figures.waiting == 1);
    served.interrupt.raise();
    thread::sleep(Duration::from_millis(300));
    // Nobody is let in any more, but the pair goes on.
    talk(&mut near, &mut far);
    assert!(!served.thread.is_finished());
    drop((near, far));
    served.stop();
    // The task that was waiting tries again.
    let again = Served::at(&address.to_string(), 16, Duration::from_secs(20));
    let mut near = again
        .task(&sides, Role::Receiver, 2)
        .join()
        .unwrap()
        .unwrap();
    talk(&mut near, &mut early.join().unwrap().unwrap());
}

#[test]
fn a_gateway_that_is_none_or_lies_is_an_error() {
    let sides = sides();
    let (none, other) = (NoConnection::NoGateway, NoConnection::OtherProgram);
    for (greeting, verdict, cause) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nServer: something else entirely, which says goodbye"[..],
            0,
            none,
        ),
        (
            b"vesica/2 gateway0123456789abcdef0123456789abcdef",
            1,
            other,
        ),
        (b"", 0, none),
    ] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let liar = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(greeting).unwrap();
            let mut said = [0; 73];
            if stream.read_exact(&mut said).is_ok() {
                // Instead of a peer, what this side says comes back.
                stream.write_all(&[verdict]).unwrap();
                let mut rest = [0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut rest) {
                    let _ = stream.write_all(&rest[..count]);
                }
            }
        });
        let served = Served {
            address,
            interrupt: Interrupt::new(),
            told: Arc::default(),
            thread: thread::spawn(|| Ok(())),
        };
        let visit = served.visit(&sides, Role::Receiver, 0, admission('a', 'b'), 1.0);
        match visit.join().unwrap().unwrap_err() {
            Error::Connect { cause: found, .. } => assert_eq!(found, cause),
            other => panic!("{other}"),
        }
        liar.join().unwrap();
    }
}

/// As a listener for TLS does to which nobody speaks.
#[test]
fn what_hangs_up_without_a_word_is_no_gateway() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let other = thread::spawn(move || {
        while !done.load(Ordering::Relaxed) {
            drop(listener.accept().unwrap());
        }
    });
    let served = Served {
        address,
        interrupt: Interrupt::new(),
        told: Arc::default(),
        thread: thread::spawn(|| Ok(())),
    };
    let visit = served.visit(&sides(), Role::Receiver, 0, admission('a', 'b'), 0.5);
    let error = visit.join().unwrap().unwrap_err();
    is_done.store(true, Ordering::Relaxed);
    drop(TcpStream::connect(address).unwrap());
    other.join().unwrap();
    assert!(
        error.to_string().contains("says nothing and hangs up"),
        "{error}"
    );
    match error {
        Error::Connect { cause, .. } => assert_eq!(cause, NoConnection::NoGateway),
        other => panic!("{other}"),
    }
}
