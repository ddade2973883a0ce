//! The public API, both sides, over TLS on this machine.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use vesica::session::terms::LEARNS;
use vesica::session::{LabelExchange, LabelTerms, Listener};
use vesica::tables::RecordBatch;
use vesica::{
    ConnectOptions, Connection, Destination, Endpoint, Error, ErrorClass, Event, Identity, Intent,
    Interrupt, KeySpec, Learns, NoProgress, Observer, Party, ProtocolRequest, Role, Security,
    Source, SourceOptions, Transport, connect, intersect, intersect_digests, select_rows,
};

/// Writes down what it hears; tells where the party listens.
struct Diary {
    heard: Vec<&'static str>,
    address: Sender<SocketAddr>,
}

impl Observer for Diary {
    fn event(&mut self, event: Event<'_>) {
        let heard = match event {
            Event::Read(counts) => {
                assert_eq!(counts.items, 3);
                "read"
            }
            Event::Listening(address) => {
                self.address.send(address).unwrap();
                "listening"
            }
            Event::Connected(connection) => {
                assert!(connection.peer.is_some());
                "connected"
            }
            Event::Phase(_) if self.heard.last() != Some(&"phase") => "phase",
            Event::Writing => "writing",
            Event::Wrote(rows) => {
                assert_eq!(rows, 2);
                "wrote"
            }
            _ => return,
        };
        self.heard.push(heard);
    }
}

fn table(text: &str) -> Source {
    Source::from_bytes("table.csv", text.into(), SourceOptions::default()).unwrap()
}

#[test]
fn both_sides_of_a_job() {
    let (charity, shop) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("shared.csv");
    let (address, listens) = channel();
    let (charity, shop, output_path) = (&charity, &shop, &output);
    let (received, sent, heard) = thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let party = Party::new(
                charity,
                shop.fingerprint(),
                Endpoint::Listen("127.0.0.1:0".into()),
            );
            let mut diary = Diary {
                heard: Vec::new(),
                address,
            };
            let key = KeySpec::parse("mail", &["mail=email"]).unwrap();
            let donors = table("mail,n\nA@example.com,1\nb@example.com,2\nc@example.com ,3\n");
            let outcome = party.run(
                Role::Receiver,
                || Ok(&donors),
                &key,
                Some(Destination::File(output_path)),
                &mut diary,
            );
            (outcome.unwrap().finish().unwrap(), diary.heard)
        });
        let sender = scope.spawn(move || {
            let address = listens.recv().unwrap().to_string();
            let party = Party::new(shop, charity.fingerprint(), Endpoint::Connect(address));
            let key = KeySpec::parse("m", &["m=email"]).unwrap();
            let customers =
                table("m\nC@example.com\na@example.com\nd@example.com\na@example.com\n");
            let sent = party.run(Role::Sender, || Ok(&customers), &key, None, &mut NoProgress);
            sent.unwrap().finish().unwrap()
        });
        let (received, heard) = receiver.join().unwrap();
        (received, sender.join().unwrap(), heard)
    });
    assert_eq!(
        std::fs::read_to_string(&output).unwrap(),
        "mail,n\nA@example.com,1\nc@example.com ,3\n"
    );
    assert_eq!(received.matches, Some(2));
    assert_eq!(sent.matches, None);
    assert_eq!((sent.rows, sent.items, sent.duplicates), (4, 3, 1));
    assert_eq!(received.contract, sent.contract);
    assert_eq!(received.security, Security::Malicious);
    assert_eq!(
        heard,
        [
            "listening",
            "read",
            "connected",
            "phase",
            "writing",
            "wrote"
        ]
    );
}

#[test]
fn a_job_that_cannot_be_fails_before_anything_happens() {
    let me = Identity::generate().unwrap();
    let key = KeySpec::parse("id", &[] as &[&str]).unwrap();
    let nobody = Endpoint::Connect("127.0.0.1:1".into());
    let source = table("id\n1\n");
    let mut party = Party {
        protocol: ProtocolRequest::named("dh"),
        ..Party::new(&me, me.fingerprint(), nobody)
    };
    let fail = |party: &Party, output: &str| -> Error {
        let output = Some(Path::new(output).into());
        let outcome = party.run(
            Role::Receiver,
            || Ok(&source),
            &key,
            output,
            &mut NoProgress,
        );
        outcome.err().unwrap()
    };
    assert_eq!(fail(&party, "out.csv").class(), ErrorClass::Usage);

    party.protocol = ProtocolRequest::Auto;
    party.labels = LabelExchange::Offered(LabelTerms::texts(64, vec!["city".into()]));
    assert!(party.check(Role::Sender, &key).is_ok());
    let receiver = party.check(Role::Receiver, &key).unwrap_err();
    assert_eq!(receiver.class(), ErrorClass::Usage);
    party.labels = LabelExchange::Nothing;
    assert_eq!(fail(&party, "/nowhere/out.csv").class(), ErrorClass::Usage);

    party.plaintext_for_benchmarks_only = true;
    assert!(party.check(Role::Receiver, &key).is_ok());
    for elsewhere in ["0.0.0.0:7340", "192.0.2.1:7340", "localhost:7340", "[::]:0"] {
        for endpoint in [Endpoint::Connect, Endpoint::Listen].map(|of| of(elsewhere.into())) {
            let party = Party {
                endpoint,
                ..party.clone()
            };
            assert_eq!(fail(&party, "out.csv").class(), ErrorClass::Usage);
            assert_eq!(
                party.check(Role::Sender, &key).unwrap_err().class(),
                ErrorClass::Usage
            );
        }
    }
    party.plaintext_for_benchmarks_only = false;

    let interrupt = Interrupt::new();
    interrupt.raise();
    party.connect = ConnectOptions {
        interrupt,
        ..ConnectOptions::default()
    };
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("out.csv");
    assert_eq!(
        fail(&party, output.to_str().unwrap()).class(),
        ErrorClass::Interrupted
    );
    assert_eq!(place.path().read_dir().unwrap().count(), 0);
}

/// Rows come back to the caller, on both sides where both learn them, and leave as record batches.
#[test]
fn rows_come_back_to_the_caller() {
    let (charity, shop) = (Identity::generate().unwrap(), Identity::generate().unwrap());
    let key = KeySpec::parse::<&str>("id", &[]).unwrap();
    let batches = |ids: std::ops::Range<i64>| {
        let ids: arrow_array::ArrayRef = Arc::new(arrow_array::Int64Array::from_iter_values(ids));
        let batch = RecordBatch::try_from_iter([("id", ids)]).unwrap();
        let options = SourceOptions::default();
        Source::from_batches("frame", batch.schema(), vec![batch], &options).unwrap()
    };
    let (ours, theirs) = (batches(0..100), batches(90..250));
    let (address, listens) = channel();
    let directory = tempfile::tempdir().unwrap();
    let work_dir = directory.path().join("work");
    let (received, sent) = thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let endpoint = Endpoint::Listen("127.0.0.1:0".into());
            let party = Party::new(&charity, shop.fingerprint(), endpoint);
            let mut party = party.with(&LEARNS, Learns::Both);
            party.resources.work_dir = Some(work_dir.clone());
            let mut address = listens_at(address);
            // A program that fails before it has made anything of its rows gets them again, from nobody.
            drop(
                party
                    .run(Role::Receiver, || Ok(&ours), &key, None, &mut address)
                    .unwrap(),
            );
            party.endpoint = Endpoint::Connect("127.0.0.1:1".into());
            let again = party.run(Role::Receiver, || Ok(&ours), &key, None, &mut NoProgress);
            let again = again.unwrap();
            assert!(again.report().computed.is_some());
            again
        });
        let endpoint = Endpoint::Connect(listens.recv().unwrap().to_string());
        let party = Party::new(&shop, charity.fingerprint(), endpoint).with(&LEARNS, Learns::Both);
        let sent = party.run(Role::Sender, || Ok(&theirs), &key, None, &mut NoProgress);
        let sent = sent.unwrap();
        (receiver.join().unwrap(), sent)
    });
    for (received, source) in [(received, &ours), (sent, &theirs)] {
        let (_, selected) = select_rows(source, received.rows()).unwrap();
        let ids = selected[0].column(0).as_any();
        let ids = ids.downcast_ref::<arrow_array::Int64Array>().unwrap();
        assert!(ids.values().iter().copied().eq(90..100));
        let report = received.finish().unwrap();
        assert_eq!((report.matches, report.rows_written), (Some(10), None));
    }
    assert!(!work_dir.exists());
    // A sender that may not know has no rows to give.
    let party = Party::new(
        &shop,
        charity.fingerprint(),
        Endpoint::Connect("127.0.0.1:1".into()),
    );
    let output = Some(directory.path().into());
    let error = party.run(Role::Sender, || Ok(&theirs), &key, output, &mut NoProgress);
    let error = error.err().unwrap();
    assert_eq!(error.class(), ErrorClass::Usage);
}

/// Tells where the party listens.
fn listens_at(address: Sender<SocketAddr>) -> impl Observer {
    move |event: Event<'_>| {
        if let Event::Listening(at) = event {
            address.send(at).unwrap();
        }
    }
}

/// Both sides of a run over a connection.
fn meeting<T: Send>(act: impl Fn(Connection, Role) -> T + Sync) -> (T, T) {
    let [receiver, sender] = [Identity::generate(), Identity::generate()].map(Result::unwrap);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().to_string();
    let options = ConnectOptions::default();
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let transport = Transport::Tls {
                identity: &sender,
                peer: receiver.fingerprint(),
                intent: Intent::Run(Role::Sender),
            };
            act(listener.accept(&transport, &options).unwrap(), Role::Sender)
        });
        let transport = Transport::Tls {
            identity: &receiver,
            peer: sender.fingerprint(),
            intent: Intent::Run(Role::Receiver),
        };
        let connection = connect(&Endpoint::Connect(address), &transport, &options).unwrap();
        let received = act(connection, Role::Receiver);
        (received, sending.join().unwrap())
    })
}

#[test]
fn byte_strings_and_digests_need_no_table() {
    let ours = ["bob", "", "eve", "bob", "ann", "dan"];
    let theirs: [&[u8]; 5] = [b"ann", b"", b"bob", b"\xff\x00", b"ann"];
    let (received, sent) = meeting(|connection, role| match role {
        Role::Receiver => intersect(connection, role, &ours).unwrap(),
        Role::Sender => intersect(connection, role, &theirs).unwrap(),
    });
    assert_eq!((received, sent), (Some(vec![0, 1, 3, 4]), None));
    let digests =
        |from: u64| (from..from + 500).map(|i| *blake3::hash(&i.to_le_bytes()).as_bytes());
    let (received, _) = meeting(|connection, role| {
        let digests: Vec<_> = digests(if role == Role::Receiver { 0 } else { 400 }).collect();
        intersect_digests(connection, role, &digests).unwrap()
    });
    assert_eq!(received, Some((400..500).collect()));
    // The two are not compared with each other.
    let (received, sent) = meeting(|connection, role| match role {
        Role::Receiver => intersect(connection, role, &ours),
        Role::Sender => intersect_digests(connection, role, &[[0; 32]]),
    });
    for error in [received.unwrap_err(), sent.unwrap_err()] {
        assert_eq!(error.class(), ErrorClass::Contract);
    }
}

/// Over whatever carries bytes, and is vouched for.
#[cfg(unix)]
#[test]
fn sets_meet_over_a_connection_of_the_callers() {
    use std::io::{self, Read, Write};
    use std::net::Shutdown;
    use std::os::unix::net::UnixStream;

    use vesica::session::{POLL, ReadHalf, WriteHalf, discard};
    use vesica::{Connection, Fingerprint};

    struct Half(UnixStream);

    impl ReadHalf for Half {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }

        fn finish(&mut self, goes_on: &dyn Fn() -> bool) {
            let mut sink = [0; 4096];
            discard(goes_on, || self.0.read(&mut sink));
        }
    }

    impl WriteHalf for Half {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn close(&mut self) {
            let _ = self.0.shutdown(Shutdown::Write);
        }
    }

    let connection = |stream: UnixStream, sides: [Fingerprint; 2]| {
        stream.set_read_timeout(Some(POLL)).unwrap();
        stream.set_write_timeout(Some(POLL)).unwrap();
        let reader = Half(stream.try_clone().unwrap());
        Connection::of_halves(reader, Half(stream), sides, &ConnectOptions::default())
    };
    let [ann, bob] = [(); 2].map(|()| Identity::generate().unwrap().fingerprint());
    let meet = |theirs: [Fingerprint; 2]| {
        let (left, right) = UnixStream::pair().unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let connection = connection(right, theirs);
                intersect(connection, Role::Sender, &["a", "b", "c"])
            });
            let received = intersect(
                connection(left, [ann, bob]),
                Role::Receiver,
                &["c", "x", "a"],
            );
            (received, sending.join().unwrap())
        })
    };
    let (received, sent) = meet([bob, ann]);
    assert_eq!((received.unwrap(), sent.unwrap()), (Some(vec![0, 2]), None));
    // Sides that know each other by other names would find nothing in common.
    let (received, sent) = meet([ann, bob]);
    for error in [received.unwrap_err(), sent.unwrap_err()] {
        assert_eq!(error.class(), ErrorClass::Contract);
    }
}

/// Warnings and events of a job are those of the crate `tracing`, at their levels.
#[cfg(feature = "tracing")]
#[test]
fn events_are_traced() {
    use std::sync::{Arc, Mutex};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Level, Metadata, Subscriber};
    use vesica::Traced;

    #[derive(Clone, Default)]
    struct Levels(Arc<Mutex<Vec<Level>>>);

    impl Subscriber for Levels {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "vesica"
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &tracing::Event<'_>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    let levels = Levels::default();
    tracing::subscriber::with_default(levels.clone(), || {
        let (done, total) = (1, 2);
        for event in [
            Event::Warning(&"one row has no key".to_owned().into()),
            Event::Listening(([127, 0, 0, 1], 1).into()),
            Event::Phase("oprf"),
            Event::Step { done, total },
        ] {
            Traced.event(event);
        }
    });
    let found = levels.0.lock().unwrap().clone();
    assert_eq!(
        found,
        [Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE]
    );
}
