//! Who gets in and who does not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{INTENT, connected, identity, meet, tls, within, within_or_raised};
use vesica_session::{
    BoundListener, ConnectOptions, Connection, Endpoint, Error, ErrorClass, Identity, Incident,
    Interrupt, Link, Listener, NoConnection, OnIncident, Readiness, Refused, Transport,
    accept_and_connect, connect,
};
use vesica_wire::{Blame, Channel, Clock, Error as WireError, Kind, Limit, ManualClock};

const DATA: Kind = Kind {
    code: 40,
    name: "data",
};

#[track_caller]
fn no_connection(error: &Error, expected: NoConnection) {
    assert!(
        matches!(error, Error::Connect { cause, .. } if *cause == expected),
        "{error:?}"
    );
    assert_eq!(error.class(), ErrorClass::Network);
}

#[test]
fn the_right_peers_talk_both_ways() {
    let (mut a, mut b) = connected(&within(10.0));
    assert_eq!(a.local, b.peer);
    assert_eq!(b.local, a.peer);
    assert!(a.local.is_some() && a.local != b.local);
    assert!(a.refused.is_empty());
    let talk = |channel: &mut dyn Channel| {
        for i in 0..24u8 {
            channel.send(DATA, vec![i; 1 << 20]).unwrap();
            channel.send(DATA, vec![i]).unwrap();
            assert_eq!(channel.recv(DATA, 1 << 20).unwrap(), vec![i; 1 << 20]);
            assert_eq!(channel.recv(DATA, 1).unwrap(), [i]);
        }
        channel.flush().unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| talk(&mut a.channel));
        talk(&mut b.channel);
    });
    assert_eq!(a.channel.totals(), b.channel.totals());
    drop(a);
    assert!(matches!(b.channel.recv(DATA, 1), Err(WireError::Closed)));
}

#[test]
fn an_emulated_link_delays_what_both_sides_send() {
    let options = ConnectOptions {
        link: Link::new(None, Duration::from_millis(120)),
        ..within(10.0)
    };
    let (mut a, mut b) = connected(&options);
    let start = Instant::now();
    a.channel.send(DATA, vec![1]).unwrap();
    b.channel.recv(DATA, 1).unwrap();
    b.channel.send(DATA, vec![2]).unwrap();
    a.channel.recv(DATA, 1).unwrap();
    assert!(start.elapsed() >= Duration::from_millis(120));
}

#[test]
fn no_emulated_link_leads_to_a_peer_at_the_same_place() {
    let (near, far) = (identity(), identity());
    let options = ConnectOptions {
        link: Link::new(Some(1_000_000), Duration::from_secs(2)),
        beside: Some(far.fingerprint()),
        ..within(10.0)
    };
    let listens = tls(&near, far.fingerprint());
    let connects = tls(&far, near.fingerprint());
    let (to_far, to_near) = meet(&listens, &connects, &options);
    let [to_far, to_near] = [to_far, to_near].map(|connection| connection.unwrap().link);
    assert!(to_far.bits_per_second.is_none() && to_far.rtt < options.link.rtt);
    assert!(to_near.bits_per_second.is_some() && to_near.rtt > options.link.rtt);
}

/// A round trip over loopback takes less than the ones that matter, which are emulated.
#[test]
fn each_side_knows_something_of_the_link() {
    let known = |bandwidth, link| {
        let options = ConnectOptions {
            bandwidth,
            link,
            ..within(5.0)
        };
        let (near, far) = connected(&options);
        [near.link, far.link]
    };
    for link in known(None, Link::LAN) {
        assert_eq!(link.bits_per_second, None);
        assert!(
            !link.rtt.is_zero() && link.rtt < Duration::from_secs(5),
            "{link}"
        );
    }
    let slow = Link::new(Some(2_000_000), Duration::from_millis(80));
    for (declared, expected) in [(None, 2_000_000), (Some(7_000_000), 7_000_000)] {
        for link in known(declared, slow) {
            assert_eq!(link.bits_per_second, Some(expected));
            assert!(link.rtt > slow.rtt, "{link}");
        }
    }
}

#[test]
fn plaintext_knows_nobody() {
    let plain = Transport::PlaintextForBenchmarksOnly;
    let (a, b) = meet(&plain, &plain, &within(10.0));
    let (mut a, mut b) = (a.unwrap(), b.unwrap());
    assert!(a.local.is_none() && a.peer.is_none());
    a.channel.send(DATA, vec![1, 2]).unwrap();
    assert_eq!(b.channel.recv(DATA, 2).unwrap(), [1, 2]);
}

#[test]
fn the_listener_refuses_an_unknown_peer_and_waits_on() {
    let (a, b, stranger) = (identity(), identity(), identity());
    let start = Instant::now();
    let (listener, connector) = meet(
        &tls(&a, b.fingerprint()),
        &tls(&stranger, a.fingerprint()),
        &within(2.0),
    );
    let listener = listener.unwrap_err();
    assert!(
        matches!(
            &listener,
            Error::WrongPeer { expected, got } if *expected == [b.fingerprint()] && *got == stranger.fingerprint()
        ),
        "{listener:?}"
    );
    let connector = connector.unwrap_err();
    assert!(
        matches!(&connector, Error::RefusedByPeer { ours } if *ours == stranger.fingerprint()),
        "{connector:?}"
    );
    assert_eq!(
        (listener.class(), connector.class()),
        (ErrorClass::Network, ErrorClass::Contract)
    );
    assert!(listener.remedy().is_some() && connector.remedy().is_some());
    assert!(
        start.elapsed() >= Duration::from_secs(2),
        "it gave up early"
    );
}

#[test]
fn the_connector_refuses_another_listener() {
    let (a, b, somebody) = (identity(), identity(), identity());
    let (listener, connector) = meet(
        &tls(&a, b.fingerprint()),
        &tls(&b, somebody.fingerprint()),
        &within(2.0),
    );
    let connector = connector.unwrap_err();
    assert!(
        matches!(
            &connector,
            Error::WrongPeer { expected, got } if *expected == [somebody.fingerprint()] && *got == a.fingerprint()
        ),
        "{connector:?}"
    );
    let listener = listener.unwrap_err();
    // Anybody could have said that, so that it is no more than noted.
    no_connection(&listener, NoConnection::RefusedByVisitor);
    assert!(
        listener
            .to_string()
            .contains("refused this side's identity")
    );
    assert_eq!(
        (listener.class(), connector.class()),
        (ErrorClass::Network, ErrorClass::Network)
    );
}

#[test]
fn a_listener_that_is_bound_before_serves_one_run() {
    let (a, b) = (identity(), identity());
    let bound = BoundListener::new(Listener::bind("127.0.0.1:0").unwrap());
    let (listens, options) = (Endpoint::Bound(bound.clone()), within(10.0));
    let connects = Endpoint::Connect(bound.local_addr().to_string());
    assert_eq!(listens.to_string(), connects.to_string());
    assert_eq!(listens, Endpoint::Bound(bound.clone()));
    thread::scope(|scope| {
        let other = scope.spawn(|| connect(&connects, &tls(&b, a.fingerprint()), &options));
        connect(&listens, &tls(&a, b.fingerprint()), &options).unwrap();
        other.join().unwrap().unwrap();
    });
    let again = connect(&listens, &tls(&a, b.fingerprint()), &options).unwrap_err();
    assert_eq!(again.class(), ErrorClass::Usage);
    assert!(TcpStream::connect(bound.local_addr()).is_err());
}

#[test]
fn a_taken_port_is_said_to_be_taken() {
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let me = identity();
    let error = connect(
        &Endpoint::Listen(address),
        &tls(&me, me.fingerprint()),
        &within(1.0),
    )
    .unwrap_err();
    no_connection(&error, NoConnection::Taken);
}

#[test]
fn nobody_listening_is_said_after_the_wait() {
    let port = {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        holder.local_addr().unwrap().port()
    };
    let me = identity();
    let start = Instant::now();
    let error = connect(
        &Endpoint::Connect(format!("127.0.0.1:{port}")),
        &tls(&me, me.fingerprint()),
        &within(0.7),
    )
    .unwrap_err();
    no_connection(&error, NoConnection::NobodyListens);
    assert!(start.elapsed() >= Duration::from_millis(700));
}

#[test]
fn bad_addresses_fail_at_once() {
    let me = identity();
    for address in ["no port", "127.0.0.1", "127.0.0.1:99999"] {
        for endpoint in [
            Endpoint::Connect(address.into()),
            Endpoint::Listen(address.into()),
        ] {
            let error = connect(&endpoint, &tls(&me, me.fingerprint()), &within(60.0)).unwrap_err();
            assert!(error.to_string().contains(address), "{error}");
            assert_eq!(error.class(), ErrorClass::Network);
        }
    }
}

#[test]
fn a_listener_without_a_peer_gives_up() {
    let me = identity();
    let error = connect(
        &Endpoint::Listen("127.0.0.1:0".into()),
        &tls(&me, me.fingerprint()),
        &within(0.3),
    )
    .unwrap_err();
    no_connection(&error, NoConnection::NobodyConnects);
}

#[test]
fn the_connector_waits_for_a_late_listener() {
    let port = {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        holder.local_addr().unwrap().port()
    };
    let address = format!("127.0.0.1:{port}");
    let (a, b) = (identity(), identity());
    thread::scope(|scope| {
        let connecting = scope.spawn(|| {
            connect(
                &Endpoint::Connect(address.clone()),
                &tls(&b, a.fingerprint()),
                &within(10.0),
            )
        });
        thread::sleep(Duration::from_millis(400));
        connect(
            &Endpoint::Listen(address.clone()),
            &tls(&a, b.fingerprint()),
            &within(10.0),
        )
        .unwrap();
        connecting.join().unwrap().unwrap();
    });
}

#[test]
fn scanners_do_not_end_the_wait() {
    let (a, b) = (identity(), identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&tls(&a, b.fingerprint()), &within(20.0)));
        // One that says nothing and leaves, one that speaks HTTP, one that stays silent.
        drop(TcpStream::connect(address).unwrap());
        let mut http = TcpStream::connect(address).unwrap();
        http.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
        let _half_open = TcpStream::connect(address).unwrap();
        let connector = connect(
            &Endpoint::Connect(address.to_string()),
            &tls(&b, a.fingerprint()),
            &within(20.0),
        );
        connector.unwrap();
        let accepted = accepting.join().unwrap().unwrap();
        // The silent one is still there when the peer comes.
        assert_eq!(accepted.refused.len(), 2, "{:?}", accepted.refused);
    });
}

/// What keeps what a listener tells of those whom it turns away.
fn heard() -> (OnIncident, Arc<Mutex<Vec<Refused>>>) {
    let list: Arc<Mutex<Vec<Refused>>> = Arc::default();
    let tell = {
        let list = Arc::clone(&list);
        OnIncident::new(move |incident| match incident {
            Incident::Refused(refused) => list.lock().unwrap().push(refused.clone()),
            other => panic!("{other}"),
        })
    };
    (tell, list)
}

/// Runs a listener that pins `b`, disturbs it and lets `b` connect, while so many seconds pass, of five that a handshake
/// may take. Gives who was turned away.
fn disturbed(seconds: u32, disturb: impl FnOnce(&Identity, SocketAddr)) -> Vec<Refused> {
    let (a, b) = (identity(), identity());
    // No handshake runs out of time by itself.
    let clock = ManualClock::new();
    let options = ConnectOptions {
        clock: Clock::from(&clock),
        ..within(30.0)
    };
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&tls(&a, b.fingerprint()), &options));
        disturb(&a, address);
        scope.spawn(|| {
            for _ in 0..seconds {
                clock.advance(Duration::from_secs(1));
                thread::sleep(Duration::from_millis(200));
            }
        });
        let endpoint = Endpoint::Connect(address.to_string());
        let connected = connect(&endpoint, &tls(&b, a.fingerprint()), &within(30.0));
        if connected.is_err() {
            options.interrupt.raise();
        }
        let mut far = connected.unwrap().channel;
        let mut near = accepting.join().unwrap().unwrap();
        far.send(DATA, vec![7]).unwrap();
        assert_eq!(near.channel.recv(DATA, 1).unwrap(), [7]);
        near.refused
    })
}

/// A fatal alert, access denied, from anybody.
const ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 0x31];

#[test]
fn seven_bytes_do_not_end_the_wait() {
    let refused = disturbed(0, |_, address| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(&ALERT).unwrap();
        // Once it has been turned away.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].identity.is_none());
}

#[test]
fn a_hundred_idle_sockets_do_not_hold_up_the_peer() {
    let mut idle = Vec::new();
    let refused = disturbed(0, |_, address| {
        idle.extend((0..100).map(|_| TcpStream::connect(address).unwrap()));
        // Some that have begun like TLS, and are as idle.
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
            idle.push(stream);
        }
        thread::sleep(Duration::from_millis(200));
    });
    assert_eq!(refused.len(), 16, "what is remembered is bounded");
    assert!(refused[0].reason.contains("idle"), "{refused:?}");
}

/// Handshakes that have begun, with a real ClientHello, and then stop.
#[test]
fn half_open_handshakes_do_not_hold_up_the_peer() {
    let hello = {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = Endpoint::Connect(socket.local_addr().unwrap().to_string());
        let me = identity();
        thread::scope(|scope| {
            let raised = Interrupt::new();
            let options = within_or_raised(30.0, &raised);
            scope.spawn(move || connect(&endpoint, &tls(&me, me.fingerprint()), &options));
            let (mut stream, _) = socket.accept().unwrap();
            let mut hello = vec![0; 4096];
            let count = stream.read(&mut hello).unwrap();
            hello.truncate(count);
            raised.raise();
            hello
        })
    };
    let mut open = Vec::new();
    // One is left in peace for a second.
    let _ = disturbed(4, |_, address| {
        for _ in 0..60 {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(&hello).unwrap();
            open.push(stream);
        }
        thread::sleep(Duration::from_millis(200));
    });
}

#[test]
fn a_wrong_identity_is_told_at_once_and_the_right_one_gets_in() {
    let (a, b, stranger) = (identity(), identity(), identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Connect(listener.local_addr().to_string());
    let (tell, list) = heard();
    let options = ConnectOptions {
        on_incident: tell,
        ..within(30.0)
    };
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&tls(&a, b.fingerprint()), &options));
        for _ in 0..3 {
            let error = connect(&endpoint, &tls(&stranger, a.fingerprint()), &within(30.0));
            assert!(matches!(error.unwrap_err(), Error::RefusedByPeer { .. }));
        }
        // Once, however often it comes.
        let told = list.lock().unwrap().clone();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].identity, Some(stranger.fingerprint()));
        connect(&endpoint, &tls(&b, a.fingerprint()), &within(30.0)).unwrap();
        let accepted = accepting.join().unwrap().unwrap();
        assert_eq!(accepted.peer, Some(b.fingerprint()));
        assert_eq!(accepted.refused, told);
    });
}

#[test]
fn a_side_that_is_not_ready_waits_without_a_deadline() {
    let free = || {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("127.0.0.1:{}", holder.local_addr().unwrap().port())
    };
    for endpoint in [
        Endpoint::Listen("127.0.0.1:0".into()),
        Endpoint::Connect(free()),
    ] {
        let me = identity();
        let clock = ManualClock::new();
        let options = ConnectOptions {
            ready: Readiness::by(Clock::from(&clock)),
            clock: Clock::from(&clock),
            ..within(60.0)
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| connect(&endpoint, &tls(&me, me.fingerprint()), &options));
            let goes_on = |passes| {
                clock.advance(passes);
                thread::sleep(Duration::from_millis(200));
                assert!(!waiting.is_finished(), "{endpoint:?}");
            };
            goes_on(10 * options.wait);
            options.ready.set();
            goes_on(options.wait - Duration::from_millis(1));
            clock.advance(Duration::from_millis(1));
            let error = waiting.join().unwrap().unwrap_err();
            assert_eq!(error.class(), ErrorClass::Network, "{error}");
        });
        // It can be stopped all the same.
        let interrupt = Interrupt::new();
        let options = ConnectOptions {
            ready: Readiness::new(),
            ..within_or_raised(0.1, &interrupt)
        };
        thread::scope(|scope| {
            let waiting = scope.spawn(|| connect(&endpoint, &tls(&me, me.fingerprint()), &options));
            thread::sleep(Duration::from_millis(400));
            interrupt.raise();
            let error = waiting.join().unwrap().unwrap_err();
            assert!(
                matches!(error, Error::Run(WireError::Interrupted)),
                "{error:?}"
            );
        });
    }
}

/// The end of the wait is known only once the handshake is under way, which would take half a minute by itself.
#[test]
fn a_silent_listener_does_not_outlast_the_wait() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Connect(silent.local_addr().unwrap().to_string());
    let me = identity();
    let clock = ManualClock::new();
    let options = ConnectOptions {
        ready: Readiness::by(Clock::from(&clock)),
        clock: Clock::from(&clock),
        ..within(20.0)
    };
    thread::scope(|scope| {
        let waiting = scope.spawn(|| connect(&endpoint, &tls(&me, me.fingerprint()), &options));
        // Its first message shows that the handshake has begun.
        let (mut far, _) = silent.accept().unwrap();
        far.read_exact(&mut [0; 5]).unwrap();
        options.ready.set();
        clock.advance(options.wait);
        let error = waiting.join().unwrap().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Network, "{error}");
    });
}

/// Alerts that come before anybody has proved anything are failed attempts.
#[test]
fn an_alert_does_not_stop_the_connector() {
    let (a, b) = (identity(), identity());
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = holder.local_addr().unwrap().to_string();
    let refuse = |holder: &TcpListener| {
        let (mut stream, _) = holder.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream.write_all(&ALERT);
    };
    let endpoint = Endpoint::Connect(address.clone());
    let (near, options) = (tls(&b, a.fingerprint()), within(20.0));
    thread::scope(|scope| {
        let connecting = scope.spawn(|| connect(&endpoint, &near, &options));
        refuse(&holder);
        refuse(&holder);
        drop(holder);
        let listening = Endpoint::Listen(address.clone());
        connect(&listening, &tls(&a, b.fingerprint()), &within(20.0)).unwrap();
        connecting.join().unwrap().unwrap();
    });
    // And where there is nothing else, they are reported as what they are.
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = Endpoint::Connect(holder.local_addr().unwrap().to_string());
    thread::spawn(move || {
        loop {
            refuse(&holder);
        }
    });
    let error = connect(&endpoint, &tls(&b, a.fingerprint()), &within(1.0)).unwrap_err();
    no_connection(&error, NoConnection::Unproved);
}

#[test]
fn who_was_turned_away_is_named_when_time_runs_out() {
    let me = identity();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr();
    thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(&tls(&me, me.fingerprint()), &within(1.0)));
        let mut http = TcpStream::connect(address).unwrap();
        http.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let error = accepting.join().unwrap().unwrap_err();
        no_connection(&error, NoConnection::NobodyConnects);
        let address = http.local_addr().unwrap().to_string();
        assert!(error.to_string().contains(&address), "{error}");
    });
}

#[test]
fn a_server_of_another_kind_is_recognised() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let me = identity();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = other.accept().unwrap();
            stream.write_all(b"220 mail.example ESMTP\r\n").unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let error = connect(
            &Endpoint::Connect(address),
            &tls(&me, me.fingerprint()),
            &within(10.0),
        )
        .unwrap_err();
        no_connection(&error, NoConnection::OtherProgram);
    });
}

#[test]
fn a_listener_that_never_answers_meets_the_deadline() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let me = identity();
    let error = connect(
        &Endpoint::Connect(address),
        &tls(&me, me.fingerprint()),
        &within(0.5),
    )
    .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Network);
}

#[test]
fn an_interrupt_ends_listening_and_connecting() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        holder.local_addr().unwrap().port()
    };
    for endpoint in [
        Endpoint::Listen("127.0.0.1:0".into()),
        Endpoint::Connect(format!("127.0.0.1:{port}")),
        Endpoint::Connect(silent.local_addr().unwrap().to_string()),
    ] {
        let me = identity();
        let interrupt = Interrupt::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                connect(
                    &endpoint,
                    &tls(&me, me.fingerprint()),
                    &within_or_raised(60.0, &interrupt),
                )
            });
            thread::sleep(Duration::from_millis(300));
            interrupt.raise();
            let error = waiting.join().unwrap().unwrap_err();
            assert!(
                matches!(error, Error::Run(WireError::Interrupted)),
                "{error:?}"
            );
        });
    }
}

#[test]
fn an_interrupted_run_tells_the_peer() {
    let (a, b) = (identity(), identity());
    let interrupt = Interrupt::new();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    thread::scope(|scope| {
        let ours = scope.spawn(|| {
            let mut connection = listener
                .accept(
                    &tls(&a, b.fingerprint()),
                    &within_or_raised(30.0, &interrupt),
                )
                .unwrap();
            let error = connection.channel.recv(DATA, 1).unwrap_err();
            connection.channel.abort(&error);
            error
        });
        let mut peer = connect(&address, &tls(&b, a.fingerprint()), &within(30.0)).unwrap();
        interrupt.raise();
        let error = peer.channel.recv(DATA, 1).unwrap_err();
        drop(peer);
        assert!(
            matches!(&error, WireError::PeerAborted { blame: Blame::Network, reason } if reason == "interrupted by the user"),
            "{error:?}"
        );
        assert!(matches!(ours.join().unwrap(), WireError::Interrupted));
    });
}

#[test]
fn an_abort_reaches_a_peer_that_is_blocked_in_a_send() {
    let (mut a, mut b) = connected(&within(20.0));
    thread::scope(|scope| {
        let sender = scope.spawn(move || {
            loop {
                if let Err(error) = b.channel.send(DATA, vec![0; 1 << 20]) {
                    return error;
                }
            }
        });
        thread::sleep(Duration::from_millis(300));
        a.channel.abort(&WireError::limit(Limit::Size, "enough"));
        drop(a);
        let error = sender.join().unwrap();
        assert!(
            matches!(&error, WireError::PeerAborted { blame: Blame::Resource, reason } if reason == "enough"),
            "{error:?}"
        );
    });
}

#[test]
fn garbage_behind_the_handshake_is_an_error() {
    // A proxy that hands the handshake on and then spoils the first byte of what follows.
    let (a, b) = (identity(), identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let inner = listener.local_addr();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = Endpoint::Connect(proxy.local_addr().unwrap().to_string());
    thread::scope(|scope| {
        scope.spawn(move || {
            let (client, _) = proxy.accept().unwrap();
            let server = TcpStream::connect(inner).unwrap();
            let (client_copy, server_copy) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || pump(client_copy, server_copy, usize::MAX));
            // Past the listener's handshake and its welcome, in the first large record.
            pump(server, client, 20_000);
        });
        let sending = scope.spawn(|| {
            let mut connection = listener
                .accept(&tls(&a, b.fingerprint()), &within(10.0))
                .unwrap();
            let _ = connection.channel.send(DATA, vec![0; 100_000]);
            let _ = connection.channel.flush();
            connection.channel.recv(DATA, 1).unwrap_err()
        });
        let mut peer = connect(&outer, &tls(&b, a.fingerprint()), &within(10.0)).unwrap();
        let error = peer.channel.recv(DATA, 1 << 20).unwrap_err();
        assert!(matches!(error, WireError::Connection(_)), "{error:?}");
        drop(peer);
        sending.join().unwrap();
    });
}

/// Copies bytes, inverting the one at `spoil`.
fn pump(mut from: TcpStream, mut to: TcpStream, spoil: usize) {
    let mut buffer = [0; 4096];
    let mut offset = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if (offset..offset + count).contains(&spoil) {
            buffer[spoil - offset] ^= 0xff;
        }
        offset += count;
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

#[test]
fn a_connection_cut_without_a_goodbye_is_closed() {
    let (a, b) = (identity(), identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let inner = listener.local_addr();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let outer = Endpoint::Connect(proxy.local_addr().unwrap().to_string());
    thread::scope(|scope| {
        scope.spawn(move || {
            let (client, _) = proxy.accept().unwrap();
            let server = TcpStream::connect(inner).unwrap();
            let (client_copy, server_copy) =
                (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || pump(client_copy, server_copy, usize::MAX));
            thread::scope(|inner| {
                inner.spawn(|| {
                    pump(
                        server.try_clone().unwrap(),
                        client.try_clone().unwrap(),
                        usize::MAX,
                    )
                });
                thread::sleep(Duration::from_millis(500));
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        });
        let waiting = scope.spawn(|| {
            let mut connection = listener
                .accept(&tls(&a, b.fingerprint()), &within(10.0))
                .unwrap();
            connection.channel.recv(DATA, 1).unwrap_err()
        });
        let mut peer = connect(&outer, &tls(&b, a.fingerprint()), &within(10.0)).unwrap();
        assert!(matches!(peer.channel.recv(DATA, 1), Err(WireError::Closed)));
        assert!(matches!(waiting.join().unwrap(), WireError::Closed));
    });
}

#[test]
fn both_peers_are_accepted_in_any_order() {
    let [listens, first, second] = [(); 3].map(|()| identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let pinned = [first.fingerprint(), second.fingerprint()];
    thread::scope(|scope| {
        let accepting =
            scope.spawn(|| listener.accept_all(&listens, &pinned, INTENT, &within(20.0)));
        let mut connections: Vec<Connection> = [&second, &second, &first]
            .map(|ours| {
                let transport = tls(ours, listens.fingerprint());
                connect(&address, &transport, &within(20.0)).unwrap()
            })
            .into();
        let accepted = accepting.join().unwrap().unwrap();
        let peers: Vec<_> = accepted
            .iter()
            .map(|connection| connection.peer.unwrap())
            .collect();
        assert_eq!(peers, pinned);
        // The first connection of the second peer has ended, the later one counts.
        connections.remove(0);
        for mut connection in accepted {
            connection.channel.flush().unwrap();
        }
    });
}

/// One comes and one is called: in whatever order, and once one of the two cannot be had, the other is not waited for.
#[test]
fn one_peer_comes_while_the_other_is_called() {
    let [own, comes, called, stranger] = [(); 4].map(|()| identity());
    let peers = [comes.fingerprint(), called.fingerprint()];
    for is_called in [true, false] {
        let answers = if is_called { &called } else { &stranger };
        let [near, far] = [(); 2].map(|()| Listener::bind("127.0.0.1:0").unwrap());
        let [here, there] =
            [&near, &far].map(|listener| Endpoint::Connect(listener.local_addr().to_string()));
        let begun = Instant::now();
        let met = thread::scope(|scope| {
            let answering =
                scope.spawn(|| far.accept(&tls(answers, own.fingerprint()), &within(5.0)));
            let coming = is_called.then(|| {
                scope.spawn(|| connect(&here, &tls(&comes, own.fingerprint()), &within(20.0)))
            });
            let options = within(60.0);
            let met = accept_and_connect(near, &there, &own, peers, INTENT, &options);
            let met = met.map(|met| {
                let met_whom: Vec<_> = met.iter().map(|met| met.peer.unwrap()).collect();
                // Each waits for the other to close.
                scope.spawn(move || drop(met));
                met_whom
            });
            drop(answering.join().unwrap());
            drop(coming.map(|coming| coming.join().unwrap()));
            met
        });
        match is_called {
            true => assert_eq!(met.unwrap(), peers),
            false => assert!(
                matches!(met, Err(Error::WrongPeer { got, .. }) if got == stranger.fingerprint())
            ),
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}

#[test]
fn one_peer_is_not_two() {
    let (listens, peer) = (identity(), identity().fingerprint());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let twice = listener.accept_all(&listens, &[peer, peer], INTENT, &within(20.0));
    assert_eq!(twice.unwrap_err().class(), ErrorClass::Usage);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let there = Endpoint::Connect(listener.local_addr().to_string());
    let options = within(20.0);
    let twice = accept_and_connect(listener, &there, &listens, [peer; 2], INTENT, &options);
    assert_eq!(twice.unwrap_err().class(), ErrorClass::Usage);
}

#[test]
fn a_peer_that_changes_its_key_is_met_with_either() {
    let [me, old, new, other] = [(); 4].map(|()| identity());
    let changing = ConnectOptions {
        also: vec![new.fingerprint()],
        ..within(3.0)
    };
    for listens in [true, false] {
        for held in [&old, &new] {
            let (near, far) = (tls(&me, old.fingerprint()), tls(held, me.fingerprint()));
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let address = Endpoint::Connect(listener.local_addr().to_string());
            let (near, far) = thread::scope(|scope| match listens {
                true => {
                    let near = scope.spawn(|| listener.accept(&near, &changing));
                    let far = connect(&address, &far, &within(3.0));
                    (near.join().unwrap(), far)
                }
                false => {
                    let far = scope.spawn(|| listener.accept(&far, &within(3.0)));
                    (connect(&address, &near, &changing), far.join().unwrap())
                }
            });
            let (near, far) = (near.unwrap(), far.unwrap());
            // Each side goes by the key that was proved.
            assert_eq!(near.peer, Some(held.fingerprint()));
            assert_eq!(far.local, near.peer);
            assert_eq!(far.peer, near.local);
        }
    }
    let (near, far) = (tls(&me, old.fingerprint()), tls(&other, me.fingerprint()));
    let (listening, connecting) = meet(&far, &near, &changing);
    assert!(listening.is_err());
    let both = [old.fingerprint(), new.fingerprint()];
    let got = other.fingerprint();
    assert!(
        matches!(&connecting, Err(Error::WrongPeer { expected, got: found }) if *expected == both && *found == got)
    );
    let words = connecting.unwrap_err().to_string();
    assert!(words.contains(&format!("expected {} or {}, got {got}", both[0], both[1])));
}
