//! Peers that speak TLS, but not ours.

use std::net::TcpListener;
use std::thread;

use super::*;

const LIMIT: Duration = Duration::from_secs(5);

/// What `side` makes of a peer with this connection of its own.
fn meet(side: Side, ours: &Identity, pinned: Fingerprint, peer: rustls::Connection) -> Failure {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let (far, _) = socket.accept().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut peer = peer;
            let side = match side {
                Side::Listener => Side::Connector,
                Side::Connector => Side::Listener,
            };
            prepare(&far).unwrap();
            let driver = Driver {
                stream: &far,
                deadline: Instant::now() + LIMIT,
                interrupt: &Interrupt::new(),
            };
            let _ = driver.run(&mut peer, side);
            hang_up(&far, &mut peer);
        });
        handshake(
            &near,
            side,
            ours,
            pinned,
            Instant::now() + LIMIT,
            &Interrupt::new(),
        )
        .unwrap_err()
    })
}

fn client(config: ClientConfig) -> rustls::Connection {
    let name = ServerName::try_from("vesica.invalid").unwrap();
    ClientConnection::new(Arc::new(config), name)
        .unwrap()
        .into()
}

#[test]
fn a_client_without_a_key_is_turned_away() {
    let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let pin = Arc::new(Pin::new(a.fingerprint()));
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
    for alpn in [vec![], vec![b"h2".to_vec()]] {
        let (a, b) = (Identity::generate().unwrap(), Identity::generate().unwrap());
        let mut config = client_config(&b, &Arc::new(Pin::new(a.fingerprint()))).unwrap();
        config.alpn_protocols = alpn.clone();
        let failure = meet(Side::Listener, &a, b.fingerprint(), client(config));
        assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");

        let mut config = server_config(&b, &Arc::new(Pin::new(a.fingerprint()))).unwrap();
        config.alpn_protocols = alpn;
        let server = ServerConnection::new(Arc::new(config)).unwrap().into();
        let failure = meet(Side::Connector, &a, b.fingerprint(), server);
        assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");
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
        let mut config = client_config(thief, &Arc::new(Pin::new(a.fingerprint()))).unwrap();
        config.client_auth_cert_resolver = Arc::new(AlwaysResolvesClientRawPublicKeys::new(key));
        let failure = meet(Side::Listener, a, b.fingerprint(), client(config));
        assert!(matches!(failure, Failure::Foreign(_)), "{failure:?}");
    }
}

#[test]
fn sessions_are_not_resumed() {
    let a = Identity::generate().unwrap();
    let config = server_config(&a, &Arc::new(Pin::new(a.fingerprint()))).unwrap();
    assert_eq!(config.send_tls13_tickets, 0);
    assert_eq!(config.max_early_data_size, 0);
    assert!(!config.session_storage.can_cache());
    assert!(!config.key_log.will_log("CLIENT_TRAFFIC_SECRET_0"));
    let config = client_config(&a, &Arc::new(Pin::new(a.fingerprint()))).unwrap();
    assert!(!config.enable_early_data && !config.enable_sni);
    assert!(!config.key_log.will_log("CLIENT_TRAFFIC_SECRET_0"));
}
