//! A side that is not ready stays with a peer that has come.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{identity, tls, within};
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Error, ErrorClass, Incident, Listener, NoConnection,
    OnIncident, Problem, Readiness, connect,
};
use vesica_wire::{Blame, Channel, Error as WireError, Kind, Misbehaviour};

/// The kind of the first message.
const HELLO: Kind = Kind {
    code: 16,
    name: "hello",
};
const DATA: Kind = Kind {
    code: 40,
    name: "data",
};

/// The other side, as often as it comes.
struct Peer<'a> {
    meet: &'a dyn Fn() -> Connection,
    /// Where the side that is not ready listens, if it does.
    address: Option<SocketAddr>,
    ready: Readiness,
    told: Receiver<Incident>,
}

impl Peer<'_> {
    /// Comes; both sides then talk about this number.
    fn come(&self, number: u8) -> Connection {
        let mut connection = (self.meet)();
        connection.channel.send(DATA, vec![number]).unwrap();
        connection.channel.flush().unwrap();
        connection
    }

    /// What the side has told of in the meantime.
    #[track_caller]
    fn told(&self) -> Incident {
        let told = self.told.recv_timeout(Duration::from_secs(20));
        told.expect("something to be told")
    }
}

/// Lets a side that is not ready meet the other; what it gets in the end. It waits for half a second once it is ready.
fn slowly(slow_listens: bool, act: impl FnOnce(&Peer<'_>)) -> Result<Connection, Error> {
    let (slow, quick) = (identity(), identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Connect(listener.local_addr().to_string());
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let options = ConnectOptions {
        ready: Readiness::new(),
        on_incident: OnIncident::new(move |incident| {
            let _ = tell.lock().unwrap().send(incident.clone());
        }),
        timeout: Duration::from_secs(20),
        ..within(0.5)
    };
    let at = |listens, options: &ConnectOptions| {
        let transport = match listens == slow_listens {
            true => tls(&slow, quick.fingerprint()),
            false => tls(&quick, slow.fingerprint()),
        };
        match listens {
            true => listener.accept(&transport, options),
            false => connect(&endpoint, &transport, options),
        }
    };
    let meet = || at(!slow_listens, &within(20.0)).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| at(slow_listens, &options));
        act(&Peer {
            meet: &meet,
            address: slow_listens.then(|| listener.local_addr()),
            ready: options.ready.clone(),
            told,
        });
        waiting.join().unwrap()
    })
}

/// What the peer has come with.
#[track_caller]
fn number(connection: Result<Connection, Error>) -> u8 {
    connection.unwrap().channel.recv(DATA, 1).unwrap()[0]
}

#[test]
fn a_peer_is_there_as_long_as_this_side_takes() {
    for slow_listens in [true, false] {
        let mut peer = None;
        let met = slowly(slow_listens, |at| {
            peer = Some(at.come(7));
            // Longer than it would wait.
            thread::sleep(Duration::from_millis(800));
            at.ready.set();
        });
        assert_eq!(number(met), 7);
    }
}

/// The peer, whose machine may have died, does not end the connection that it comes again for.
#[test]
fn a_connection_that_is_replaced_holds_nobody_up() {
    let (mut peers, mut took) = (Vec::new(), Duration::ZERO);
    let met = slowly(true, |at| {
        peers.push(at.come(1));
        peers.push(at.come(2));
        let began = Instant::now();
        peers.push(at.come(3));
        at.ready.set();
        took = began.elapsed();
    });
    assert_eq!(number(met), 3);
    assert!(took < Duration::from_millis(400), "{took:?}");
}

#[test]
fn a_peer_that_leaves_is_waited_for_again() {
    for slow_listens in [true, false] {
        let mut peer = None;
        let met = slowly(slow_listens, |at| {
            drop(at.come(1));
            assert!(matches!(at.told(), Incident::PeerLeft(WireError::Closed)));
            at.come(2).channel.abort(&WireError::Interrupted);
            let left = at.told();
            assert!(
                matches!(
                    &left,
                    Incident::PeerLeft(WireError::PeerAborted {
                        blame: Blame::Network,
                        ..
                    })
                ),
                "{left}"
            );
            peer = Some(at.come(3));
            // It has come, and stays.
            thread::sleep(Duration::from_millis(100));
            at.ready.set();
        });
        assert_eq!(number(met), 3);
    }
}

#[test]
fn a_peer_that_has_left_and_does_not_come_again_is_missed() {
    for slow_listens in [true, false] {
        let mut listener = None;
        let met = slowly(slow_listens, |at| {
            drop(at.come(1));
            listener = Some(at.told());
            at.ready.set();
        });
        let error = met.unwrap_err();
        let cause = match slow_listens {
            true => NoConnection::NobodyConnects,
            // Nobody answers behind the port.
            false => NoConnection::Other,
        };
        assert!(
            matches!(&error, Error::Connect { cause: got, .. } if *got == cause),
            "{error:?}"
        );
        if slow_listens {
            let line = "again, after it had left (the peer closed the connection)";
            assert!(error.to_string().contains(line), "{error}");
        }
    }
}

#[test]
fn a_problem_of_the_peer_is_told_at_once_and_once() {
    for slow_listens in [true, false] {
        let met = slowly(slow_listens, |at| {
            for problem in [Problem::Table, Problem::Table, Problem::Options] {
                let mut connection = (at.meet)();
                problem.tell(&mut connection.channel).unwrap();
            }
            for expected in [Problem::Table, Problem::Options] {
                assert!(matches!(at.told(), Incident::PeerProblem(told) if told == expected));
            }
            at.ready.set();
        });
        let error = met.unwrap_err();
        assert!(
            matches!(error, Error::PeerProblem(Problem::Options)),
            "{error:?}"
        );
    }
}

#[test]
fn what_is_no_going_away_ends_the_wait() {
    for slow_listens in [true, false] {
        let met = slowly(slow_listens, |at| {
            let mut connection = (at.meet)();
            let why = WireError::PeerMisbehaved(Misbehaviour::BadValue {
                what: "a value",
                problem: "out of range",
            });
            connection.channel.abort(&why);
        });
        assert_eq!(met.unwrap_err().class(), ErrorClass::Peer);
    }
}

/// A connection may be dead without a word, after the peer's machine has restarted.
#[test]
fn the_later_connection_of_the_peer_counts() {
    let mut both = None;
    let met = slowly(true, |at| {
        let first = at.come(1);
        let second = at.come(2);
        thread::sleep(Duration::from_millis(300));
        both = Some((first, second));
        at.ready.set();
    });
    assert_eq!(number(met), 2);
}

#[test]
fn strangers_are_turned_away_while_the_peer_is_there() {
    let mut peer = None;
    let met = slowly(true, |at| {
        peer = Some(at.come(1));
        let mut stranger = TcpStream::connect(at.address.unwrap()).unwrap();
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let told = at.told();
        assert!(matches!(&told, Incident::Refused(_)), "{told}");
        at.ready.set();
    });
    assert_eq!(met.as_ref().unwrap().refused.len(), 1);
    assert_eq!(number(met), 1);
}

/// A side that gives up lets its peer know over the connection that there is.
#[test]
fn a_side_that_gives_up_has_its_peer() {
    for slow_listens in [true, false] {
        let mut peer = None;
        let met = slowly(slow_listens, |at| {
            peer = Some((at.meet)());
            thread::sleep(Duration::from_millis(100));
            at.ready.give_up();
        });
        Problem::Table.tell(&mut met.unwrap().channel).unwrap();
        let said = peer.unwrap().channel.recv(HELLO, 100).unwrap();
        assert_eq!(Problem::decode(&said).unwrap(), Some(Problem::Table));
    }
}
