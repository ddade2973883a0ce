//! Peers behind web servers.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use vesica_session::{
    Authorities, ConnectOptions, Connection, Endpoint, Error, Identity, Listener, NoConnection,
    Proxies, connect,
};
use vesica_wire::{Channel, Kind};

use crate::common::{identity, tls, within};

/// Of an authority of this test's, for localhost and 127.0.0.1.
const CERTIFICATE: &str = include_str!("web_socket/certificate.pem");
const AUTHORITY: &str = include_str!("web_socket/authority.pem");
const FRAME: Kind = Kind {
    code: 199,
    name: "test",
};

/// What stands between the two sides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    /// Ends TLS, and passes on to this address what comes within it.
    Passes(SocketAddr),
    /// Ends TLS, and is a proxy.
    Proxy,
}

fn is_late(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

/// Passes bytes on both ways until one side ends.
fn pump(mut near: impl Read + Write, mut far: TcpStream) -> io::Result<()> {
    far.set_read_timeout(Some(Duration::from_millis(2)))?;
    let mut buf = vec![0; 1 << 16];
    loop {
        match near.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(count) => far.write_all(&buf[..count])?,
            Err(e) if is_late(&e) => {}
            Err(e) => return Err(e),
        }
        match far.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                near.write_all(&buf[..count])?;
                near.flush()?;
            }
            Err(e) if is_late(&e) => {}
            Err(e) => return Err(e),
        }
    }
}

fn front(kind: Front) -> SocketAddr {
    let chain = CertificateDer::pem_slice_iter(CERTIFICATE.as_bytes());
    let chain = chain.map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let config = Arc::new(config);
    // At any address of this machine, of which the certificate names one.
    let socket = TcpListener::bind("0.0.0.0:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            let config = Arc::clone(&config);
            thread::spawn(move || {
                let tls = ServerConnection::new(config).unwrap();
                let mut near = StreamOwned::new(tls, stream);
                let far = match kind {
                    Front::Passes(address) => address.to_string(),
                    Front::Proxy => {
                        let mut asked = Vec::new();
                        while !asked.ends_with(b"\r\n\r\n") {
                            let mut byte = [0];
                            near.read_exact(&mut byte).unwrap();
                            asked.push(byte[0]);
                        }
                        near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
                        let asked = String::from_utf8(asked).unwrap();
                        asked.split(' ').nth(1).unwrap().to_owned()
                    }
                };
                near.sock
                    .set_read_timeout(Some(Duration::from_millis(2)))
                    .unwrap();
                let _ = pump(near, TcpStream::connect(far).unwrap());
            });
        }
    });
    address
}

/// Both ends of a connection to `address`, at which the listener is reached.
fn meet(
    listener: &Listener,
    address: String,
    options: ConnectOptions,
) -> Result<[Connection; 2], Error> {
    let (near, far) = (identity(), identity());
    let listening = within(20.0);
    thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept(&tls(&far, near.fingerprint()), &listening));
        let met = connect(
            &Endpoint::Connect(address),
            &tls(&near, far.fingerprint()),
            &options,
        );
        if met.is_err() {
            listening.interrupt.stop();
        }
        let accepted = accepted.join().unwrap();
        Ok([met?, accepted?])
    })
}

fn own() -> Authorities {
    Authorities::from_pem(AUTHORITY.as_bytes()).unwrap()
}

/// Sends much both ways at once, then hangs up on both sides.
fn exchange(connections: [Connection; 2]) {
    const FRAMES: usize = 40;
    let run = |mut connection: Connection, own: u8, other: u8| {
        let channel = &mut connection.channel;
        for number in 0..FRAMES {
            channel.send(FRAME, vec![own; 100_000 + number]).unwrap();
            channel.flush().unwrap();
            let frame = channel.recv(FRAME, 1 << 20).unwrap();
            assert_eq!(frame, vec![other; 100_000 + number]);
        }
    };
    let [near, far] = connections;
    thread::scope(|scope| {
        scope.spawn(|| run(near, 1, 2));
        scope.spawn(|| run(far, 2, 1));
    });
}

#[test]
fn a_listener_takes_web_sockets_and_tls_on_one_port() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr();
    for address in [
        format!("ws://{place}"),
        place.to_string(),
        format!("ws://{place}/any/path?at=all"),
        place.to_string(),
    ] {
        exchange(meet(&listener, address, within(5.0)).unwrap());
    }
}

#[test]
fn a_web_server_that_ends_tls_is_passed_with_its_authority_alone() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let port = front(Front::Passes(listener.local_addr())).port();
    let options = |authorities| ConnectOptions {
        authorities,
        ..within(5.0)
    };
    for host in ["localhost", "127.0.0.1"] {
        let address = format!("wss://{host}:{port}/psi");
        exchange(meet(&listener, address, options(own())).unwrap());
    }
    // Neither by the machine's, nor by another name.
    for (address, authorities) in [
        (
            format!("wss://localhost:{port}/psi"),
            Authorities::OfMachine,
        ),
        (format!("wss://127.0.0.2:{port}/psi"), own()),
    ] {
        match meet(&listener, address, options(authorities)) {
            Err(Error::Connect { cause, line }) => {
                assert_eq!(cause, NoConnection::Certificate, "{line}");
            }
            other => panic!("{:?}", other.err()),
        }
    }
}

#[test]
fn a_proxy_within_tls_is_passed() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let port = front(Front::Proxy).port();
    let options = |authorities| ConnectOptions {
        authorities,
        proxies: format!("https://localhost:{port}")
            .parse::<Proxies>()
            .unwrap(),
        ..within(5.0)
    };
    let place = listener.local_addr();
    for address in [place.to_string(), format!("ws://{place}/psi")] {
        let met = meet(&listener, address, options(own())).unwrap();
        assert_eq!(met[0].proxy, Some(format!("https://localhost:{port}")));
        exchange(met);
    }
    // And a web server behind it.
    let web = front(Front::Passes(place)).port();
    let address = format!("wss://localhost:{web}/psi");
    exchange(meet(&listener, address, options(own())).unwrap());
    let error = meet(
        &listener,
        place.to_string(),
        options(Authorities::OfMachine),
    );
    let Err(Error::Connect { cause, .. }) = error else {
        panic!("it has no certificate for this machine");
    };
    assert_eq!(cause, NoConnection::Certificate);
}

#[test]
fn who_answers_there_has_to_be_the_peer() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}/", listener.local_addr());
    let (near, far) = (identity(), identity());
    let other: Identity = identity();
    let listening = within(3.0);
    thread::scope(|scope| {
        let accepted = scope.spawn(|| listener.accept(&tls(&far, near.fingerprint()), &listening));
        let met = connect(
            &Endpoint::Connect(address),
            &tls(&near, other.fingerprint()),
            &within(2.0),
        );
        assert!(matches!(met, Err(Error::WrongPeer { got, .. }) if got == far.fingerprint()));
        listening.interrupt.stop();
        assert!(accepted.join().unwrap().is_err());
    });
}

#[test]
fn what_asks_for_pages_does_not_keep_the_peer_out() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr();
    let idle: Vec<TcpStream> = (0..40)
        .map(|number| {
            let mut stream = TcpStream::connect(place).unwrap();
            let begun = [
                "GET / HTTP/1.1\r\n",
                "GET /health HTTP/1.1\r\n\r\n",
                "",
                "POST",
            ];
            stream.write_all(begun[number % 4].as_bytes()).unwrap();
            stream
        })
        .collect();
    let [near, far] = meet(&listener, format!("ws://{place}/"), within(5.0)).unwrap();
    exchange([near, far]);
    drop(idle);
}

/// Passes bytes on, each piece so much later.
fn delayed(target: SocketAddr, delay: Duration) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    thread::spawn(move || {
        for near in socket.incoming().flatten() {
            let far = TcpStream::connect(target).unwrap();
            let ways = [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ];
            for (mut from, mut to) in ways {
                thread::spawn(move || {
                    let mut buf = [0; 1 << 16];
                    while let Ok(count @ 1..) = from.read(&mut buf) {
                        thread::sleep(delay);
                        if to.write_all(&buf[..count]).is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    address
}

#[test]
fn a_peer_that_takes_its_time_is_not_crowded_out() {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr();
    let far = delayed(place, Duration::from_millis(50));
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut idle = VecDeque::new();
            while !over.load(Ordering::Relaxed) {
                idle.extend(TcpStream::connect(place));
                idle.drain(..idle.len().saturating_sub(64));
                thread::sleep(Duration::from_millis(2));
            }
        });
        let met = meet(&listener, format!("ws://{far}/psi"), within(60.0));
        over.store(true, Ordering::Relaxed);
        met.unwrap();
    });
}

#[test]
fn this_side_is_no_peer_of_its_own() {
    let (near, far) = (identity(), identity());
    let options = ConnectOptions {
        also: vec![near.fingerprint()],
        ..within(1.0)
    };
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let listening = listener.accept(&tls(&near, far.fingerprint()), &options);
    assert!(matches!(listening, Err(Error::OwnFingerprint)));
    let endpoint = Endpoint::Connect(listener.local_addr().to_string());
    let connecting = connect(&endpoint, &tls(&near, far.fingerprint()), &options);
    assert!(matches!(connecting, Err(Error::OwnFingerprint)));
}
