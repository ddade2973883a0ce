//! Peers that speak TLS, but not ours.

use std::net::TcpListener;
use std::thread;

use super::*;

/// What goes with itself.
const INTENT: Intent = Intent::Generate;
const LIMIT: Duration = Duration::from_secs(5);

/// What `side` makes of a peer with this connection of its own.
fn meet(side: Side, ours: &Identity, pinned: Fingerprint, peer: rustls::Connection) -> Failure {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let (far, _) = socket.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let side = match side {
                Side::Listener => Side::Connector,
                Side::Connector => Side::Listener,
            };
            block(&far).unwrap();
            let mut theirs = Handshake {
                carrier: Carrier::of(far),
                opening: Opening::Tls,
                web: None,
                tls: peer,
                pin: Arc::new(Pin::new(Pinned::only(&[ours.fingerprint()]))),
                side,
                intent: INTENT,
                has_greeted: false,
                greeting: Vec::new(),
                theirs: None,
                sent: None,
                round_trip: Duration::ZERO,
            };
            let until = Instant::now() + LIMIT;
            while Instant::now() < until && matches!(theirs.step(), Ok(Step::Moved | Step::Waiting))
            {
            }
            let mut leaving = theirs.leave();
            while !leaving.step() {}
        });
        let (limit, interrupt) = (after(LIMIT), Interrupt::new());
        handshake(
            carrier(near),
            side,
            ours,
            Pinned::only(&[pinned]),
            INTENT,
            &limit,
            &interrupt,
        )
        .unwrap_err()
    })
}

fn carrier(stream: TcpStream) -> Carrier {
    block(&stream).unwrap();
    Carrier::of(stream)
}

/// Whether this time is over, from now on.
fn after(time: Duration) -> impl Fn() -> bool {
    let until = Instant::now() + time;
    move || Instant::now() >= until
}

fn client(config: ClientConfig) -> rustls::Connection {
    let name = ServerName::try_from("vesica.invalid").unwrap();
    ClientConnection::new(Arc::new(config), name)
        .unwrap()
        .into()
}

#[test]
fn keys_are_agreed_on_by_both_exchanges_and_by_nothing_less() {
    let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let (far, _) = socket.accept().unwrap();
    let run = |stream, side, ours: &Identity, theirs: &Identity| {
        let (pinned, is_over) = (theirs.fingerprint(), after(LIMIT));
        let interrupt = Interrupt::new();
        let done = handshake(
            carrier(stream),
            side,
            ours,
            Pinned::only(&[pinned]),
            INTENT,
            &is_over,
            &interrupt,
        );
        let (_, secured) = done.unwrap();
        secured.tls.negotiated_key_exchange_group().unwrap().name()
    };
    let groups = thread::scope(|scope| {
        let listening = scope.spawn(|| run(far, Side::Listener, &a, &b));
        [
            run(near, Side::Connector, &b, &a),
            listening.join().unwrap(),
        ]
    });
    assert_eq!(groups, [rustls::NamedGroup::X25519MLKEM768; 2]);

    let pin = Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])));
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(pin)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let failure = meet(Side::Listener, &a, b.fingerprint(), client(config));
    assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");
}

#[test]
fn a_client_without_a_key_is_turned_away() {
    let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let pin = Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])));
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(pin)
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.to_vec()];
    let failure = meet(Side::Listener, &a, b.fingerprint(), client(config));
    assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");
}

#[test]
fn another_application_protocol_is_turned_away() {
    // Whoever notices first sends an alert.
    let turned_away = |failure: &Failure| {
        let alert = AlertDescription::NoApplicationProtocol;
        matches!(failure, Failure::Foreign(_))
            || matches!(failure, Failure::Alert(a) if *a == alert)
    };
    for alpn in [vec![], vec![b"h2".to_vec()]] {
        let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mut config =
            client_config(&b, &Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])))).unwrap();
        config.alpn_protocols = alpn.clone();
        let failure = meet(Side::Listener, &a, b.fingerprint(), client(config));
        assert!(turned_away(&failure), "{failure:?}");

        let mut config =
            server_config(&b, &Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])))).unwrap();
        config.alpn_protocols = alpn;
        let server = ServerConnection::new(Arc::new(config)).unwrap().into();
        let failure = meet(Side::Connector, &a, b.fingerprint(), server);
        assert!(turned_away(&failure), "{failure:?}");
    }
}

/// A key that somebody shows without holding it is not the pinned peer, nor a wrong one.
#[test]
fn a_key_without_its_secret_proves_nothing() {
    for shown in [0, 1] {
        let ids: Vec<_> = (0..4).map(|_| Identity::generate().unwrap()).collect();
        let (a, b, thief) = (&ids[0], &ids[1], &ids[3]);
        // Shows the pinned key, or some other key, and signs with the thief's.
        let stolen = [b, &ids[2]][shown];
        let key = Arc::new(CertifiedKey::new(
            vec![CertificateDer::from(stolen.public_key_der().to_vec())],
            thief.signing_key(),
        ));
        let mut config =
            client_config(thief, &Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])))).unwrap();
        config.client_auth_cert_resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(key));
        let failure = meet(Side::Listener, a, b.fingerprint(), client(config));
        assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");
    }
}

#[test]
fn sessions_are_not_resumed() {
    let a = Identity::generate().unwrap();
    let config = server_config(&a, &Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])))).unwrap();
    assert_eq!(config.send_tls13_tickets, 0);
    assert_eq!(config.max_early_data_size, 0);
    assert!(!config.session_storage.can_cache());
    assert!(!config.key_log.will_log("CLIENT_TRAFFIC_SECRET_0"));
    let config = client_config(&a, &Arc::new(Pin::new(Pinned::only(&[a.fingerprint()])))).unwrap();
    assert!(!config.enable_early_data && !config.enable_sni);
    assert!(!config.key_log.will_log("CLIENT_TRAFFIC_SECRET_0"));
}

/// Reads what the other side begins with and answers with these bytes.
fn answered(side: Side, answer: &'static [u8]) -> Failure {
    let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let (mut far, _) = socket.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            if side == Side::Connector {
                let _ = io::Read::read(&mut far, &mut [0; 4096]).unwrap();
            }
            io::Write::write_all(&mut far, answer).unwrap();
            let _ = io::Read::read(&mut far, &mut [0; 4096]);
        });
        let is_over = after(LIMIT);
        let pinned = b.fingerprint();
        let interrupt = Interrupt::new();
        handshake(
            carrier(near),
            side,
            &a,
            Pinned::only(&[pinned]),
            INTENT,
            &is_over,
            &interrupt,
        )
        .unwrap_err()
    })
}

/// Seven bytes that anybody can send: a fatal alert, access denied.
#[test]
fn an_alert_from_nobody_is_no_refusal() {
    for side in [Side::Listener, Side::Connector] {
        let failure = answered(side, &[0x15, 3, 3, 0, 2, 2, 0x31]);
        assert!(
            matches!(failure, Failure::Alert(AlertDescription::AccessDenied)),
            "{failure:?}"
        );
    }
}

#[test]
fn a_refusal_is_proven_to_the_connecting_side_alone() {
    let ids: Vec<_> = (0..3).map(|_| Identity::generate().unwrap()).collect();
    let (listener, connector, other) = (&ids[0], &ids[1], &ids[2]);
    let run = |listener_pins: &Identity, connector_pins: &Identity| {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        let (far, _) = socket.accept().unwrap();
        let is_over = after(LIMIT);
        let (pinned, ours) = (listener_pins.fingerprint(), connector_pins.fingerprint());
        thread::scope(|scope| {
            let listening = scope.spawn(move || {
                handshake(
                    carrier(far),
                    Side::Listener,
                    listener,
                    Pinned::only(&[pinned]),
                    INTENT,
                    &after(LIMIT),
                    &Interrupt::new(),
                )
            });
            let side = Side::Connector;
            let interrupt = Interrupt::new();
            let connected = handshake(
                carrier(near),
                side,
                connector,
                Pinned::only(&[ours]),
                INTENT,
                &is_over,
                &interrupt,
            );
            (listening.join().unwrap().err(), connected.err())
        })
    };
    let (near, far) = run(other, listener);
    assert!(matches!(near, Some(Failure::WrongPeer(got)) if got == connector.fingerprint()));
    assert!(matches!(far, Some(Failure::Refused)), "{far:?}");
    let (near, far) = run(connector, other);
    assert!(
        matches!(near, Some(Failure::Alert(AlertDescription::AccessDenied))),
        "{near:?}"
    );
    assert!(matches!(far, Some(Failure::WrongPeer(got)) if got == listener.fingerprint()));
}

/// The first message is in clear.
#[test]
fn a_name_is_told_only_where_one_is_given() {
    let (me, other) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let pin = Arc::new(Pin::new(Pinned::only(&[other.fingerprint()])));
    let name = "psi.example";
    for sni in [None, Some(name)] {
        let mut tls = super::connection(Side::Connector, &me, &pin, sni).unwrap();
        let mut hello = Vec::new();
        tls.write_tls(&mut hello).unwrap();
        let has = |text: &str| hello.windows(text.len()).any(|at| at == text.as_bytes());
        assert_eq!(has(name), sni.is_some());
        assert!(!has("vesica.invalid"));
    }
    assert!(is_server_name(name) && !is_server_name("10.0.0.1") && !is_server_name("a b"));
}

/// A task listens to its peer through a gateway: what comes there is TLS, whoever sends it.
#[test]
fn a_web_socket_is_opened_at_a_port_alone() {
    let began = Instant::now();
    let failure = answered(
        Side::Listener,
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
    );
    assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");
    assert!(began.elapsed() < LIMIT / 2);
}
