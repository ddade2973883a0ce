//! Whole look-ups over TLS on the loopback: right answers, quotas, crashes, and peers that cheat.

mod kept;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use tempfile::TempDir;
use vesica_keys::{Gather, KeyStore, Layout, Record, RowSet};
use vesica_lookup::{
    Client, Content, Database, Declared, Error, Figures, Header, Missing, PublishedSet,
    ServerEvent, Service, SetBuilder, SetProblem, State, Update,
};
use vesica_primitives::voprf::{Element, SecretKey};
use vesica_session::{
    ConnectOptions, Endpoint, ErrorClass, Fingerprint, Identity, Intent, Interrupt, Listener,
    NoProgress, Transport, connect, random,
};
use vesica_wire::{Blame, Channel, Error as WireError, Kind};

/// A published set, with the identity of who serves it.
struct Published {
    place: TempDir,
    server: Identity,
    header: Header,
    /// Of servers so far: whom, why, and how many before were not told.
    refusals: Mutex<Vec<(Fingerprint, String, u64)>>,
}

fn digest(key: u64) -> [u8; 32] {
    *blake3::hash(&key.to_le_bytes()).as_bytes()
}

fn digests(keys: impl IntoIterator<Item = u64>) -> Vec<[u8; 32]> {
    keys.into_iter().map(digest).collect()
}

/// The keys of a table with these rows, in some buckets if they are more than a thousand.
fn keys_of(rows: impl IntoIterator<Item = u64>) -> KeyStore {
    let directory = std::env::temp_dir();
    let mut gather = Gather::new(Layout::default(), u64::MAX, &directory).unwrap();
    for digest in digests(rows) {
        gather.add(Some(&Record::of(&digest))).unwrap();
    }
    let mut keys = gather.finish().unwrap();
    keys.split_ascending(&directory, 1, 1000, || false).unwrap();
    keys
}

/// What is published with the key of each row.
fn found_in(
    set: &PublishedSet,
    state: &State,
    keys: &mut KeyStore,
) -> Result<Vec<Option<u64>>, Error> {
    let mut rows = RowSet::none(keys.counts().rows);
    set.look_up(state, keys, |keys, bucket, found| {
        keys.mark(bucket, &found.matched, &mut rows)?;
        keys.keep(bucket, &found.labels, 8, u64::MAX, Path::new(""))?;
        Ok::<_, Error>(())
    })?;
    let note = |row: u64| u64::from_le_bytes(keys.label(row).unwrap()[..].try_into().unwrap());
    let found = (0..rows.rows()).map(|row| rows.contains(row).then(|| note(row)));
    Ok(found.collect())
}

/// A state that keeps nothing, and has little memory.
fn forgetful(header: &Header) -> State {
    State::new(header, 0, &std::env::temp_dir(), &Interrupt::new())
}

/// The state of look-ups in this set, in memory.
fn opened(published: &Published, me: &Identity, directory: &Path) -> Result<State, Error> {
    open_state(&published.set(), me, directory)
}

fn open_state(set: &PublishedSet, me: &Identity, directory: &Path) -> Result<State, Error> {
    State::open(directory, me, set, u64::MAX, &Interrupt::new())
}

/// Which of these keys are not known, most of them not in memory.
fn missing(state: &State, keys: &mut KeyStore) -> Result<Missing, Error> {
    state.missing(keys, 0, &std::env::temp_dir())
}

/// Asks about those of these keys that are not known.
fn ask(state: &mut State, client: &mut Client, keys: &mut KeyStore) -> Result<(), Error> {
    let missing = missing(state, keys)?;
    state.ask(client, missing, &mut NoProgress)
}

impl Published {
    fn new(keys: u64, queries: u64) -> Published {
        Published::with_room(keys, keys, queries)
    }

    /// With this many keys, of so many that may come.
    fn with_room(keys: u64, max_keys: u64, queries: u64) -> Published {
        let place = tempfile::tempdir().unwrap();
        let server = Identity::generate().unwrap();
        let declared = Declared {
            normalization: vec!["exact/2".into()],
            lambda: 40,
            queries,
            max_keys,
            payload: vec!["note".into()],
            payload_bytes: 8,
        };
        let directory = place.path().join("database");
        let mut builder = SetBuilder::new(
            &directory,
            &server,
            declared,
            Content {
                keys,
                hash: [7; 32],
            },
            false,
            1 << 20,
            &place.path().join("set.vset"),
        )
        .unwrap();
        let payloads: Vec<u8> = (0..keys).flat_map(u64::to_le_bytes).collect();
        builder.add(&digests(0..keys), &payloads).unwrap();
        let header = builder.finish().unwrap();
        Published {
            place,
            server,
            header,
            refusals: Mutex::default(),
        }
    }

    fn database(&self) -> Database {
        Database::open(&self.place.path().join("database"), &self.server).unwrap()
    }

    /// The file of a release.
    fn file(&self, release: u64) -> PathBuf {
        self.place.path().join(match release {
            1 => "set.vset".into(),
            _ => format!("set.vset.{release}"),
        })
    }

    fn set(&self) -> PublishedSet {
        PublishedSet::open(&self.file(1), self.server.fingerprint()).unwrap()
    }

    /// What is wrong with the files.
    fn problem(&self) -> SetProblem {
        problem(PublishedSet::open(&self.file(1), self.server.fingerprint()))
    }

    fn begin_update(&self) -> Result<Update, Error> {
        let directory = self.place.path().join("database");
        Update::new(&directory, &self.server, &self.file(1), 1 << 20)
    }

    /// Removes keys and adds others with payloads; returns how many came, got another payload, and left.
    fn update(&self, add: &[(u64, u64)], remove: &[u64]) -> (u64, u64, u64) {
        let mut update = self.begin_update().unwrap();
        let gone = update.remove(&digests(remove.iter().copied())).unwrap();
        let payloads: Vec<u8> = add
            .iter()
            .flat_map(|(_, note)| note.to_le_bytes())
            .collect();
        let keys = digests(add.iter().map(|(key, _)| *key));
        let (new, changed) = update.add(&keys, &payloads).unwrap();
        let release = update.finish().unwrap();
        assert_eq!(release.is_some(), new + changed + gone > 0);
        (new, changed, gone)
    }

    /// Serves while `clients` runs, which gets the address; returns what the server has done.
    fn serve<T>(
        &self,
        clients: &[Fingerprint],
        quota: u64,
        run: impl FnOnce(&str) -> T,
    ) -> (T, Figures) {
        self.serve_within(None, clients, quota, run)
    }

    /// The same with a deadline for each connection.
    fn serve_within<T>(
        &self,
        deadline: Option<Duration>,
        clients: &[Fingerprint],
        quota: u64,
        run: impl FnOnce(&str) -> T,
    ) -> (T, Figures) {
        let database = self.database();
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().to_string();
        let interrupt = Interrupt::new();
        let options = ConnectOptions {
            wait: Duration::from_secs(3600),
            deadline,
            interrupt: interrupt.clone(),
            ..ConnectOptions::default()
        };
        let service = Service {
            clients: clients.to_vec(),
            set: Some(self.file(1)),
            quota,
            connections: 64,
            threads: NonZeroUsize::new(2),
            interval: Duration::from_millis(50),
            log: None,
        };
        let last = Mutex::new(Figures::default());
        let tell = |event: ServerEvent<'_>| match event {
            ServerEvent::Figures(figures) => *last.lock().unwrap() = *figures,
            ServerEvent::Refused {
                client,
                why,
                untold,
            } => {
                let refusal = (client, why.to_string(), untold);
                self.refusals.lock().unwrap().push(refusal);
            }
            other => panic!("{other:?}"),
        };
        let result = std::thread::scope(|scope| {
            let serving =
                scope.spawn(|| database.serve(&self.server, &listener, &service, &options, &tell));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&address)));
            interrupt.raise();
            serving.join().unwrap().unwrap();
            result.unwrap()
        });
        (result, *last.lock().unwrap())
    }

    fn client(&self, address: &str, identity: &Identity) -> Result<Client, WireError> {
        let transport = Transport::Tls {
            identity,
            peer: self.server.fingerprint(),
            intent: Intent::LookUp,
        };
        let options = ConnectOptions {
            wait: Duration::from_secs(20),
            ..ConnectOptions::default()
        };
        let endpoint = Endpoint::Connect(address.to_owned());
        let connection = connect(&endpoint, &transport, &options).unwrap();
        Client::new(connection.channel, &self.header)
    }

    /// Looks these keys up; returns how many were asked and paid for, and the payloads.
    fn look_up(
        &self,
        address: &str,
        identity: &Identity,
        state: &mut State,
        keys: &[u64],
    ) -> (u64, Vec<Option<u64>>) {
        let mut table = keys_of(keys.iter().copied());
        let known = state.answered() - state.recalled();
        if !missing(state, &mut table).unwrap().is_empty() {
            let mut client = self.client(address, identity).unwrap();
            ask(state, &mut client, &mut table).unwrap();
        }
        let asked = state.answered() - state.recalled() - known;
        (asked, found_in(&self.set(), state, &mut table).unwrap())
    }
}

fn problem<T: std::fmt::Debug>(result: Result<T, Error>) -> SetProblem {
    match result {
        Err(Error::Set { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

fn expected(published: u64, keys: &[u64]) -> Vec<Option<u64>> {
    keys.iter()
        .map(|key| (*key < published).then_some(*key))
        .collect()
}

#[test]
fn clients_find_the_keys_of_the_set_and_no_others() {
    let published = Published::new(5000, 1 << 20);
    let identities: Vec<Identity> = (0..6).map(|_| Identity::generate().unwrap()).collect();
    let clients: Vec<Fingerprint> = identities.iter().map(Identity::fingerprint).collect();
    let ((), figures) = published.serve(&clients, 1 << 20, |address| {
        std::thread::scope(|scope| {
            for (number, identity) in (0..).zip(&identities) {
                let published = &published;
                scope.spawn(move || {
                    let mut state = forgetful(&published.header);
                    // Fewer and more than a question takes.
                    let keys: Vec<u64> = (0..[1, 2, 64, 65, 300, 9000][number as usize])
                        .map(|i| (i * 7 + number) % 10_000)
                        .collect();
                    let (asked, found) = published.look_up(address, identity, &mut state, &keys);
                    assert_eq!(asked, keys.len() as u64);
                    assert_eq!(found, expected(5000, &keys));
                    // What is known is not asked again, however often a key comes.
                    let again = [keys[0], keys[0], 20_000 + number, 20_000 + number];
                    let (asked, found) = published.look_up(address, identity, &mut state, &again);
                    assert_eq!((asked, found), (1, expected(5000, &again)));
                });
            }
        });
    });
    let queries = 1 + 2 + 64 + 65 + 300 + 9000 + 6;
    assert_eq!((figures.queries, figures.answered), (queries, queries));
    assert_eq!((figures.connections, figures.failures), (12, 0));
}

#[test]
fn quotas_end_and_survive_a_restart() {
    let published = Published::new(100, 1000);
    let [me, other, stranger] = [0, 1, 2].map(|_| Identity::generate().unwrap());
    let clients = [me.fingerprint(), other.fingerprint()];
    let keys: Vec<u64> = (0..60).collect();
    let refused = |address: &str, identity: &Identity, keys: &[u64], words: &str| {
        let mut state = forgetful(&published.header);
        let mut client = published.client(address, identity).unwrap();
        let mut keys = keys_of(keys.iter().copied());
        let error = ask(&mut state, &mut client, &mut keys).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Resource);
        assert_eq!(error.to_string(), words);
    };
    published.serve(&clients, 100, |address| {
        let client = published.client(address, &me).unwrap();
        assert_eq!(client.left(), 100);
        drop(client);
        let mut state = forgetful(&published.header);
        let (asked, found) = published.look_up(address, &me, &mut state, &keys);
        assert_eq!((asked, found), (60, expected(100, &keys)));
        refused(
            address,
            &me,
            &keys,
            "60 keys would have to be asked about, with 40 queries left",
        );
        // Another client has its own.
        let mut state = forgetful(&published.header);
        assert_eq!(published.look_up(address, &other, &mut state, &keys).0, 60);
    });
    published.serve(&clients, 100, |address| {
        assert_eq!(published.client(address, &me).unwrap().left(), 40);
        refused(
            address,
            &me,
            &keys,
            "60 keys would have to be asked about, with 40 queries left",
        );
        let transport = Transport::Tls {
            identity: &stranger,
            peer: published.server.fingerprint(),
            intent: Intent::LookUp,
        };
        let endpoint = Endpoint::Connect(address.to_owned());
        let options = ConnectOptions {
            wait: Duration::from_secs(5),
            ..ConnectOptions::default()
        };
        let error = connect(&endpoint, &transport, &options).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Contract);
    });
}

/// Loses what the server says once `after` bytes have come from the client, of which it hands on no more than `until`, and ends
/// three seconds later.
fn lossy_relay(server: String, after: usize, until: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let loses = Arc::new(AtomicBool::new(false));
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        let back = {
            let loses = Arc::clone(&loses);
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(read @ 1..) = from.read(&mut bytes) {
                    if !loses.load(Ordering::SeqCst) && to.write_all(&bytes[..read]).is_err() {
                        break;
                    }
                }
            })
        };
        let ends = [&client, &server].map(|end| end.try_clone().unwrap());
        let (over, is_lossy) = channel();
        let forth = std::thread::spawn(move || {
            let (mut bytes, mut passed) = ([0; 4096], 0);
            while passed < until {
                // Both bounds are met to the byte, however the stream is cut.
                let bound = if passed < after { after } else { until };
                let most = (bound - passed).min(bytes.len());
                let Ok(read @ 1..) = client.read(&mut bytes[..most]) else {
                    break;
                };
                passed += read;
                if passed == after {
                    loses.store(true, Ordering::SeqCst);
                    over.send(()).unwrap();
                }
                if server.write_all(&bytes[..read]).is_err() {
                    break;
                }
            }
        });
        is_lossy.recv().unwrap();
        // The server answers meanwhile, also where it shares its processor.
        std::thread::sleep(Duration::from_secs(3));
        for end in ends {
            let _ = end.shutdown(Shutdown::Both);
        }
        back.join().unwrap();
        forth.join().unwrap();
    });
    address
}

#[test]
fn a_lost_answer_is_asked_for_again_at_no_cost() {
    let published = Published::new(500, 1 << 20);
    let me = Identity::generate().unwrap();
    let clients = [me.fingerprint()];
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    let open = || opened(&published, &me, &directory).unwrap();
    let keys: Vec<u64> = (0..1000).collect();
    let ((), figures) = published.serve(&clients, 1003, |address| {
        // A question is 32,000 bytes.
        let relay = lossy_relay(address.to_owned(), 32_000, usize::MAX);
        let mut client = published.client(&relay, &me).unwrap();
        let mut table = keys_of(keys.iter().copied());
        let lost = ask(&mut open(), &mut client, &mut table);
        assert_eq!(lost.unwrap_err().class(), ErrorClass::Network);
        drop(client);
        let left = || published.client(address, &me).unwrap().left();
        assert_eq!(left(), 3);
        // With whatever is looked up next.
        let mut state = open();
        let (asked, _) = published.look_up(address, &me, &mut state, &[5000, 5001]);
        assert_eq!((asked, state.recalled(), left()), (2, 1000, 1));
        drop(state);
        // With one more, in another order.
        let mut more: Vec<u64> = keys.iter().rev().copied().collect();
        more.push(1000);
        let mut state = open();
        let (asked, found) = published.look_up(address, &me, &mut state, &more);
        assert_eq!((asked, state.recalled()), (1, 0));
        assert_eq!((found, left()), (expected(500, &more), 0));
    });
    assert_eq!((figures.queries, figures.answered), (2003, 1003));
    assert_eq!((figures.questions, figures.repeated), (4, 1));
}

fn kind(code: u8) -> Kind {
    Kind { code, name: "test" }
}

const HELLO: u8 = 120;
const WELCOME: u8 = 121;
const QUESTION: u8 = 122;
const ANSWER: u8 = 123;
const FILE: u8 = 124;

/// What a client says of a server that answers so.
fn cheated(answer: impl FnOnce(&Published, Vec<u8>) -> Vec<u8> + Send) -> WireError {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().to_string();
    let welcome = [&published.header.oprf_key.bytes()[..], &[9; 16]].concat();
    std::thread::scope(|scope| {
        let cheat = scope.spawn(|| {
            let transport = Transport::Tls {
                identity: &published.server,
                peer: me.fingerprint(),
                intent: Intent::Serve,
            };
            let mut channel = listener
                .accept(&transport, &ConnectOptions::default())
                .unwrap()
                .channel;
            channel.recv(kind(HELLO), 1).unwrap();
            channel.send(kind(WELCOME), welcome.clone()).unwrap();
            let mut question = channel.recv(kind(QUESTION), 1 << 17).unwrap();
            assert_eq!(question.remove(0), 0);
            channel
                .send(kind(ANSWER), answer(&published, question))
                .unwrap();
            // Until the client has gone.
            channel.recv(kind(QUESTION), 0).unwrap_err();
        });
        let mut client = published.client(&address, &me).unwrap();
        let error = client
            .ask(&digests(0..3), &[7; 32], &mut NoProgress)
            .unwrap_err();
        drop(client);
        cheat.join().unwrap();
        error
    })
}

/// The answer under this key.
fn under(secret: &SecretKey, question: &[u8]) -> Vec<u8> {
    let (elements, _) = question.as_chunks();
    let blinded: Vec<Element> = elements
        .iter()
        .map(|bytes| Element::decode(*bytes).unwrap())
        .collect();
    let mut batch = secret.batch();
    let evaluated = batch.evaluate(&blinded);
    let mut rng = random::fresh_rng().unwrap();
    let proof = batch.prove(&mut rng);
    let elements = evaluated.iter().flat_map(|element| *element.bytes());
    elements.chain(proof).collect()
}

#[test]
fn a_server_that_cheats_is_found_out() {
    let forged = |_: &Published, question: Vec<u8>| {
        under(
            &SecretKey::random(&mut random::fresh_rng().unwrap()),
            &question,
        )
    };
    let error = cheated(forged).to_string();
    assert_eq!(
        error,
        "the peer misbehaved: answer: not under the published key"
    );
    let error = cheated(|_, question| question).to_string();
    assert_eq!(
        error,
        "the peer misbehaved: answer has a length of 96 bytes, which the protocol does not allow"
    );
    let error = cheated(|_, question| [&question[..], &[0; 65]].concat()).to_string();
    assert_eq!(
        error,
        "the peer misbehaved: answer of 161 bytes; at most 160 are allowed"
    );
    let error = cheated(|_, question| [&question[..64], &[255; 32], &[0; 64]].concat()).to_string();
    assert_eq!(
        error,
        "the peer misbehaved: answer: not an element of the group"
    );
    // The question itself with a proof for another key: the client's own elements are no answer.
    let error = cheated(|_, question| [&question[..], &[0; 64]].concat()).to_string();
    assert_eq!(
        error,
        "the peer misbehaved: answer: not under the published key"
    );
}

#[test]
fn a_client_that_cheats_is_told() {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    let ((), figures) = published.serve(&[me.fingerprint()], 100, |address| {
        let connection = || {
            let transport = Transport::Tls {
                identity: &me,
                peer: published.server.fingerprint(),
                intent: Intent::LookUp,
            };
            let endpoint = Endpoint::Connect(address.to_owned());
            connect(&endpoint, &transport, &ConnectOptions::default()).unwrap()
        };
        let told = |hello: Vec<u8>, question: Vec<u8>| {
            let mut channel = connection().channel;
            channel.send(kind(HELLO), hello).unwrap();
            if let Err(error) = channel.recv(kind(WELCOME), 48) {
                return error.to_string();
            }
            channel.send(kind(QUESTION), question).unwrap();
            channel.recv(kind(ANSWER), 1 << 18).unwrap_err().to_string()
        };
        let hello = vec![4];
        let question = |cost: u8, elements: &[u8]| [&[cost], elements].concat();
        for (hello, question, words) in [
            (vec![1], vec![], "the two sides disagree on version: here 4, there 1"),
            (vec![4; 2], vec![], "the peer misbehaved: hello of a look-up has a length of 2 bytes, which the protocol does not allow"),
            ([&[4][..], &[0; 48]].concat(), vec![], "the peer misbehaved: hello of a look-up: releases are counted from 1"),
            (vec![4; 50], vec![], "the peer misbehaved: hello of a look-up of 50 bytes; at most 49 are allowed"),
            (hello.clone(), vec![], "the peer misbehaved: question has a length of 0 bytes, which the protocol does not allow"),
            (hello.clone(), vec![0], "the peer misbehaved: question has a length of 1 bytes, which the protocol does not allow"),
            (hello.clone(), vec![1; 34], "the peer misbehaved: question has a length of 34 bytes, which the protocol does not allow"),
            (hello.clone(), question(2, &[0; 32]), "the peer misbehaved: question: another cost than queries or nothing"),
            (hello.clone(), question(0, &[255; 64]), "the peer misbehaved: question: not an element of the group"),
            (hello.clone(), question(0, &[0; 32]), "the peer misbehaved: question: not an element of the group"),
            (hello.clone(), question(0, &[0; 4097 * 32]), "the peer misbehaved: question of 131105 bytes; at most 131073 are allowed"),
        ] {
            assert_eq!(told(hello, question), format!("the peer gave up: {words}"));
        }
        // Too many connections of one client.
        let mut held: Vec<_> = (0..8).map(|_| published.client(address, &me).unwrap()).collect();
        let ninth = Client::new(connection().channel, &published.header).map(drop).unwrap_err();
        let words = "the peer gave up: one client has at most 8 connections at once";
        assert_eq!(ninth.to_string(), words);
        // What was asked is paid, also if it is nothing that can be answered.
        assert_eq!(held.pop().unwrap().left(), 97);
    });
    assert_eq!((figures.answered, figures.failures), (3, 12));
    // The first at once, and the others as a number.
    let refusals = published.refusals.lock().unwrap();
    assert_eq!(refusals[0].0, me.fingerprint());
    assert_eq!(
        refusals[0].1,
        "the two sides disagree on version: here 4, there 1"
    );
    let told: u64 = refusals.iter().map(|(_, _, untold)| 1 + untold).sum();
    assert!((1..=12).contains(&told), "{refusals:?}");
}

#[test]
fn a_client_holds_a_connection_for_so_long() {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    let deadline = Duration::from_millis(500);
    let ((), figures) =
        published.serve_within(Some(deadline), &[me.fingerprint()], 100, |address| {
            let (begun, mut answers) = (Instant::now(), 0);
            let mut client = published.client(address, &me).unwrap();
            let mut ask = |key| client.ask(&digests([key]), &[1; 32], &mut NoProgress);
            // However often it asks.
            let ended = loop {
                match ask(answers) {
                    Ok(_) => answers += 1,
                    Err(error) => break error,
                }
                std::thread::sleep(Duration::from_millis(50));
            };
            assert!(answers > 2 && begun.elapsed() >= deadline, "{answers}");
            assert_eq!(
                ended.to_string(),
                "the peer gave up: not done within 0.5 seconds"
            );
            assert_eq!(
                vesica_session::Error::from(ended).class(),
                ErrorClass::Network
            );
            // Nor one that says nothing at all.
            let transport = Transport::Tls {
                identity: &me,
                peer: published.server.fingerprint(),
                intent: Intent::LookUp,
            };
            let endpoint = Endpoint::Connect(address.to_owned());
            let connection = connect(&endpoint, &transport, &ConnectOptions::default());
            let ended = connection.unwrap().channel.recv(kind(WELCOME), 100);
            assert_eq!(
                ended.unwrap_err().to_string(),
                "the peer gave up: not done within 0.5 seconds"
            );
            published.client(address, &me).unwrap();
        });
    assert_eq!(figures.connected, 0);
}

#[test]
fn a_server_sends_files_for_so_long() {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    let client = Fetcher::new(&published, &me);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().to_string();
    let key = published.header.oprf_key.bytes();
    let welcome = [&key[..], &[9; 8], &1u64.to_le_bytes()].concat();
    let fetched = std::thread::scope(|scope| {
        scope.spawn(|| {
            let transport = Transport::Tls {
                identity: &published.server,
                peer: me.fingerprint(),
                intent: Intent::Serve,
            };
            let accepted = listener.accept(&transport, &ConnectOptions::default());
            let mut channel = accepted.unwrap().channel;
            channel.recv(kind(HELLO), 49).unwrap();
            channel.send(kind(WELCOME), welcome).unwrap();
            let announced = [1u64 << 30, 0].map(u64::to_le_bytes);
            channel.send(kind(FILE), announced.concat()).unwrap();
            // Heartbeats alone, until the client has had enough.
            let _ = channel.recv(kind(HELLO), 49);
        });
        client.fetch_within(&address, Some(Duration::from_millis(300)))
    });
    let ended = fetched.unwrap_err();
    assert_eq!(ended.to_string(), "not done within 0.3 seconds");
    assert_eq!(ended.class(), ErrorClass::Network);
}

#[test]
fn state_is_of_one_process_identity_and_key() {
    let [published, another] = [0, 1].map(|_| Published::new(10, 1 << 20));
    let [me, other] = [0, 1].map(|_| Identity::generate().unwrap());
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    published.serve(&[me.fingerprint()], 100, |address| {
        let mut state = opened(&published, &me, &directory).unwrap();
        assert_eq!(
            published.look_up(address, &me, &mut state, &[3, 30]),
            (2, vec![Some(3), None])
        );
        let busy = opened(&published, &me, &directory).unwrap_err();
        assert_eq!(busy.class(), ErrorClass::Usage);
    });
    let open = |identity: &Identity| opened(&published, identity, &directory);
    // Without the server.
    let known = missing(&open(&me).unwrap(), &mut keys_of([3, 30]));
    assert!(known.unwrap().is_empty());
    assert_eq!(open(&other).unwrap_err().class(), ErrorClass::Data);
    let foreign = opened(&another, &me, &directory).unwrap_err();
    assert_eq!(foreign.class(), ErrorClass::Usage);
    let file = directory.join("state");
    let whole = std::fs::read(&file).unwrap();
    let has = |bytes: &[u8]| whole.windows(bytes.len()).any(|window| window == bytes);
    assert!(!has(&digest(3)[..8]));
    for at in 0..whole.len() {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 1;
        std::fs::write(&file, spoilt).unwrap();
        assert_eq!(open(&me).unwrap_err().class(), ErrorClass::Data, "{at}");
    }
}

#[test]
fn a_set_of_another_key_is_told_apart() {
    let [published, another] = [0, 1].map(|_| Published::new(10, 1 << 20));
    let me = Identity::generate().unwrap();
    let old = Published {
        header: another.header.clone(),
        ..another
    };
    published.serve(&[me.fingerprint()], 100, |address| {
        let transport = Transport::Tls {
            identity: &me,
            peer: published.server.fingerprint(),
            intent: Intent::LookUp,
        };
        let endpoint = Endpoint::Connect(address.to_owned());
        let connection = connect(&endpoint, &transport, &ConnectOptions::default()).unwrap();
        let error = Client::new(connection.channel, &old.header)
            .map(drop)
            .unwrap_err();
        assert!(
            error.to_string().contains("disagree on published key"),
            "{error}"
        );
        assert_eq!(error.blame(), Blame::Contract);
    });
}

#[test]
fn nothing_is_left_in_the_directories_but_what_belongs_there() {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    published.serve(&[me.fingerprint()], 100, |address| {
        let mut state = forgetful(&published.header);
        published.look_up(address, &me, &mut state, &[3]);
    });
    let names = |path: &Path| {
        let names = path
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(published.place.path()), ["database", "set.vset"]);
    let database = published.place.path().join("database");
    let quotas: String = published.header.oprf_key.bytes()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let quotas = format!("quotas-{quotas}");
    assert_eq!(names(&database), ["key", "lock", "publishing", &quotas]);
}

#[test]
fn what_is_asked_again_after_an_update_costs_nothing() {
    let published = Published::with_room(3000, 10_000, 1 << 20);
    let me = Identity::generate().unwrap();
    let mine: Vec<u64> = (0..6000).step_by(5).collect();
    let mut state = forgetful(&published.header);
    let ((), figures) = published.serve(&[me.fingerprint()], 5000, |address| {
        let (asked, found) = published.look_up(address, &me, &mut state, &mine);
        assert_eq!((asked, found), (1200, expected(3000, &mine)));
        // While it is served.
        let add = [(10, 10), (20, 21), (3000, 7), (9000, 8)];
        assert_eq!(published.update(&add, &[0, 5, 5000]), (2, 1, 2));
        assert_eq!(published.client(address, &me).unwrap().release(), 2);
        let keys = [0, 5, 10, 20, 25, 3000, 3005, 9000];
        let (asked, found) = published.look_up(address, &me, &mut state, &keys);
        let now = [
            None,
            None,
            Some(10),
            Some(21),
            Some(25),
            Some(7),
            None,
            Some(8),
        ];
        assert_eq!((asked, found), (1, now.to_vec()));
        // Back, and gone for another time.
        assert_eq!(published.update(&[(0, 9)], &[9000]), (1, 0, 1));
        let (asked, found) = published.look_up(address, &me, &mut state, &keys);
        let now = [
            Some(9),
            None,
            Some(10),
            Some(21),
            Some(25),
            Some(7),
            None,
            None,
        ];
        assert_eq!((asked, found), (0, now.to_vec()));
        // Nothing that changes something.
        assert_eq!(published.update(&[(0, 9)], &[9000]), (0, 0, 0));
        assert!(!published.file(4).exists());
    });
    assert_eq!(figures.answered, 1201);
    let set = published.set();
    assert_eq!((set.header().release, set.header().keys), (3, 3000));
}

#[test]
fn releases_that_do_not_follow_each_other_are_refused() {
    let published = Published::with_room(100, 1000, 1 << 20);
    for key in 100..103 {
        published.update(&[(key, key)], &[]);
    }
    assert_eq!(published.set().header().release, 4);
    let [one, two, three, four] = [1, 2, 3, 4].map(|n| std::fs::read(published.file(n)).unwrap());
    let restore = || {
        for (release, bytes) in (1..).zip([&one, &two, &three, &four]) {
            std::fs::write(published.file(release), bytes).unwrap();
        }
    };
    let with = |release: u64, bytes: &[u8]| {
        restore();
        std::fs::write(published.file(release), bytes).unwrap();
        published.problem()
    };
    let out_of_order = |expected, got| SetProblem::OutOfOrder { expected, got };
    // Replayed, and in another order.
    assert_eq!(with(3, &two), out_of_order(3, 2));
    assert_eq!(with(2, &three), out_of_order(2, 3));
    assert_eq!(with(1, &two), out_of_order(1, 2));
    assert_eq!(with(2, &one), out_of_order(2, 1));
    // Lost.
    restore();
    std::fs::remove_file(published.file(3)).unwrap();
    assert_eq!(published.problem(), SetProblem::Missing(3));
    // Not whole, or changed.
    for end in [0, 7, 12, 100, two.len() - 1] {
        assert_eq!(with(2, &two[..end]), SetProblem::Truncated, "{end}");
    }
    for at in 0..two.len() {
        let mut forged = two.clone();
        forged[at] ^= 1;
        restore();
        std::fs::write(published.file(2), forged).unwrap();
        let opened = PublishedSet::open(&published.file(1), published.server.fingerprint());
        assert!(opened.and_then(|set| set.verify()).is_err(), "{at}");
    }
    // Of another set of the same publisher, and of another publisher.
    let twin = Published::with_room(100, 1000, 1 << 20);
    twin.update(&[(100, 100)], &[]);
    let foreign = with(2, &std::fs::read(twin.file(2)).unwrap());
    assert!(matches!(foreign, SetProblem::OtherPublisher { .. }));
    restore();
    assert_eq!(published.set().header().release, 4);
    // A database that has published more than is there.
    std::fs::remove_file(published.file(4)).unwrap();
    assert_eq!(
        problem(published.begin_update().map(drop)),
        SetProblem::NotLast(4)
    );
}

#[test]
fn forks_of_a_database_are_told_apart() {
    let published = Published::with_room(100, 1000, 1 << 20);
    let key = published.place.path().join("database/key");
    let before = std::fs::read(&key).unwrap();
    published.update(&[(100, 1)], &[]);
    let one = std::fs::read(published.file(2)).unwrap();
    // As after a restored backup of both.
    std::fs::write(&key, &before).unwrap();
    std::fs::remove_file(published.file(2)).unwrap();
    published.update(&[(100, 2)], &[]);
    let two = std::fs::read(published.file(2)).unwrap();
    published.update(&[(101, 3)], &[]);
    // The payload is under another stream: the last bytes of the file are those.
    let tail = |bytes: &[u8]| u64::from_le_bytes(*bytes.last_chunk().unwrap());
    assert_ne!(tail(&one) ^ tail(&two), 1 ^ 2);
    std::fs::write(published.file(2), &one).unwrap();
    assert_eq!(published.problem(), SetProblem::NotNext);
    std::fs::write(published.file(2), &two).unwrap();
    assert_eq!(published.set().header().release, 3);
}

#[test]
fn the_masks_of_all_releases_are_counted() {
    let published = Published::with_room(100, 103, 1 << 20);
    assert_eq!(published.update(&[(100, 1), (101, 2)], &[7]), (2, 0, 1));
    assert_eq!(published.update(&[(100, 1), (101, 2)], &[7]), (0, 0, 0));
    assert_eq!(published.database().release().unwrap(), 2);
    // 102 masks were published: the one that came back counts again, as does one more.
    assert_eq!(published.update(&[(7, 7)], &[]), (1, 0, 0));
    let mut update = published.begin_update().unwrap();
    let refused = update.add(&digests([102]), &[0; 8]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "104 keys in all, with those that have left, are more than the 103 that were declared"
    );
    drop(update);
    // Another payload is no other mask.
    assert_eq!(published.update(&[(7, 8)], &[]), (0, 1, 0));
    let mut update = published.begin_update().unwrap();
    // Whether it is there or not.
    assert_eq!(update.remove(&digests([3, 999])).unwrap(), 1);
    for key in [3, 999] {
        let refused = update.add(&digests([key]), &[0; 8]).unwrap_err();
        assert_eq!(refused.to_string(), "a key is to be added and removed");
    }
    // One at a time.
    let busy = published.begin_update().map(drop).unwrap_err();
    assert_eq!(busy.class(), ErrorClass::Usage);
}

/// A set that changes, and clients that keep what they know, against plain sets.
fn random_updates(sets: u64) {
    for seed in 0..sets {
        let mut rng = ChaCha20Rng::seed_from_u64(0x5e7 + seed);
        let mut below = |most: u64| rng.next_u64() % most;
        let keys = 1 + below(300);
        let published = Published::with_room(keys, 1 << 20, 1 << 20);
        let mut plain: HashMap<u64, u64> = (0..keys).map(|key| (key, key)).collect();
        let me = Identity::generate().unwrap();
        let mut state = forgetful(&published.header);
        let mut known = HashSet::new();
        published.serve(&[me.fingerprint()], 1 << 20, |address| {
            for step in 0..10 {
                let mut some =
                    |most: u64| -> HashSet<u64> { (0..below(most)).map(|_| below(600)).collect() };
                let (add, remove, ask) = (some(20), some(20), some(40));
                let add: Vec<(u64, u64)> = add
                    .difference(&remove)
                    .map(|key| (*key, key + below(2)))
                    .collect();
                let remove: Vec<u64> = remove.into_iter().collect();
                let gone = remove.iter().filter(|key| plain.remove(key).is_some());
                let gone = gone.count() as u64;
                let (mut new, mut changed) = (0, 0);
                for (key, note) in &add {
                    match plain.insert(*key, *note) {
                        None => new += 1,
                        Some(before) => changed += u64::from(before != *note),
                    }
                }
                let told = published.update(&add, &remove);
                assert_eq!(told, (new, changed, gone), "{seed}, {step}");
                let ask: Vec<u64> = ask.into_iter().collect();
                let (asked, found) = published.look_up(address, &me, &mut state, &ask);
                let unknown = ask.iter().filter(|key| known.insert(**key)).count() as u64;
                assert_eq!(asked, unknown, "{seed}, {step}");
                let expected: Vec<_> = ask.iter().map(|key| plain.get(key).copied()).collect();
                assert_eq!(found, expected, "{seed}, {step}");
            }
        });
        assert_eq!(published.set().header().keys, plain.len() as u64);
        published.set().verify().unwrap();
    }
}

#[test]
fn random_updates_find_what_plain_sets_find() {
    random_updates(8);
}

/// Ten thousand updates, each with a look-up.
#[test]
#[ignore = "takes minutes"]
fn ten_thousand_random_updates() {
    random_updates(1000);
}

/// The set that a client has fetched.
struct Fetcher<'a> {
    published: &'a Published,
    me: &'a Identity,
    place: TempDir,
}

impl<'a> Fetcher<'a> {
    fn new(published: &'a Published, me: &'a Identity) -> Fetcher<'a> {
        let place = tempfile::tempdir().unwrap();
        Fetcher {
            published,
            me,
            place,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = self.place.path().read_dir().unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// Fetches from this address; returns how many bytes of files came.
    fn fetch(&self, address: &str) -> Result<u64, Error> {
        self.fetch_within(address, None)
    }

    fn fetch_within(&self, address: &str, deadline: Option<Duration>) -> Result<u64, Error> {
        let publisher = self.published.server.fingerprint();
        let transport = Transport::Tls {
            identity: self.me,
            peer: publisher,
            intent: Intent::LookUp,
        };
        let endpoint = Endpoint::Connect(address.to_owned());
        let options = ConnectOptions {
            deadline,
            ..ConnectOptions::default()
        };
        let connection = connect(&endpoint, &transport, &options).unwrap();
        let (deadline, set) = (connection.deadline(), self.file("set.vset"));
        let fetched = Client::fetch(
            connection.channel,
            Some(&deadline),
            &set,
            publisher,
            &mut NoProgress,
        );
        fetched.map(|(_, _, bytes)| bytes)
    }
}

/// Passes on what a client and a server say until so many bytes have come from the server, then ends.
fn cutting_relay(server: String, after: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let there = std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        let mut passed = std::io::Read::by_ref(&mut server).take(after as u64);
        let _ = std::io::copy(&mut passed, &mut client);
        let _ = client.shutdown(Shutdown::Both);
        let _ = server.shutdown(Shutdown::Both);
        let _ = there.join();
    });
    address
}

#[test]
fn a_client_fetches_what_it_lacks_and_goes_on_after_a_cut() {
    let published = Published::with_room(20_000, 30_000, 1 << 20);
    let me = Identity::generate().unwrap();
    let client = Fetcher::new(&published, &me);
    let length = |release| published.file(release).metadata().unwrap().len();
    let (whole, figures) = published.serve(&[me.fingerprint()], 100, |address| {
        // Two parts of the file arrive, and some of the third.
        let relay = cutting_relay(address.to_owned(), 170_000);
        let cut = client.fetch(&relay).unwrap_err();
        assert_eq!(cut.class(), ErrorClass::Network, "{cut}");
        assert_eq!(client.names(), ["set.vset.part"]);
        let have = client.file("set.vset.part").metadata().unwrap().len();
        assert_eq!(have, 2 << 16);
        // But for a block of which only a part is here.
        let rest = client.fetch(address).unwrap() - (length(1) - have);
        assert!(rest < 5000, "{rest}");
        assert_eq!(client.names(), ["set.vset"]);
        assert_eq!(client.fetch(address).unwrap(), 0);
        // What has changed alone.
        published.update(&[(20_000, 1)], &[3]);
        published.update(&[(20_001, 1)], &[]);
        assert_eq!(client.fetch(address).unwrap(), length(2) + length(3));
        for (name, release) in [("set.vset", 1), ("set.vset.2", 2), ("set.vset.3", 3)] {
            let [here, there] = [client.file(name), published.file(release)];
            assert_eq!(std::fs::read(here).unwrap(), std::fs::read(there).unwrap());
        }
        // A beginning of something else is not gone on with.
        let fresh = Fetcher::new(&published, &me);
        let other = std::fs::read(published.file(2)).unwrap();
        std::fs::write(fresh.file("set.vset.part"), &other[..other.len() - 1]).unwrap();
        let whole = length(1) + length(2) + length(3);
        assert_eq!(fresh.fetch(address).unwrap(), whole);
        whole
    });
    assert_eq!((figures.failures, figures.answered), (0, 0));
    assert!(figures.file_bytes >= 2 * whole);
}

/// Whoever may write to the directory may have put something else there.
#[cfg(unix)]
#[test]
fn a_client_fetches_into_no_file_but_its_own() {
    let published = Published::new(100, 1 << 20);
    let me = Identity::generate().unwrap();
    let client = Fetcher::new(&published, &me);
    let [other, part] = ["other", "set.vset.part"].map(|name| client.file(name));
    let plants: [&dyn Fn(); 4] = [
        &|| std::os::unix::fs::symlink(&other, &part).unwrap(),
        &|| std::os::unix::fs::symlink(client.file("nowhere"), &part).unwrap(),
        &|| std::fs::hard_link(&other, &part).unwrap(),
        &|| nix::unistd::mkfifo(&part, nix::sys::stat::Mode::S_IRWXU).unwrap(),
    ];
    published.serve(&[me.fingerprint()], 100, |address| {
        for plant in plants {
            std::fs::write(&other, "another file").unwrap();
            plant();
            let refused = client.fetch(address).unwrap_err();
            assert_eq!(refused.class(), ErrorClass::Usage, "{refused}");
            assert_eq!(std::fs::read(&other).unwrap(), b"another file");
            assert_eq!(client.names(), ["other", "set.vset.part"]);
            std::fs::remove_file(&part).unwrap();
        }
        client.fetch(address).unwrap();
    });
}

#[test]
fn a_client_gets_the_files_so_often_a_day() {
    let published = Published::new(3000, 1 << 20);
    let [me, other] = [0, 1].map(|_| Identity::generate().unwrap());
    let clients = [me.fingerprint(), other.fingerprint()];
    published.serve(&clients, 100, |address| {
        for _ in 0..4 {
            Fetcher::new(&published, &me).fetch(address).unwrap();
        }
        let refused = Fetcher::new(&published, &me).fetch(address).unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Resource);
        let words =
            "the peer gave up: one client gets at most 4 times the bytes of the files in a day";
        assert_eq!(refused.to_string(), words);
        Fetcher::new(&published, &other).fetch(address).unwrap();
    });
}

/// What a client with these releases says of a server with such a last one that sends such frames, and what it has then.
fn cheated_of_files(
    published: &Published,
    have: u64,
    last: u64,
    frames: &[(u8, Vec<u8>)],
) -> (Error, Vec<String>) {
    let me = Identity::generate().unwrap();
    let client = Fetcher::new(published, &me);
    for release in 1..=have {
        let file = published.file(release);
        let here = client.file(file.file_name().unwrap().to_str().unwrap());
        std::fs::copy(file, here).unwrap();
    }
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().to_string();
    let key = published.header.oprf_key.bytes();
    let welcome = [&key[..], &[9; 8], &last.to_le_bytes()].concat();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let transport = Transport::Tls {
                identity: &published.server,
                peer: me.fingerprint(),
                intent: Intent::Serve,
            };
            let accepted = listener.accept(&transport, &ConnectOptions::default());
            let mut channel = accepted.unwrap().channel;
            channel.recv(kind(HELLO), 49).unwrap();
            channel.send(kind(WELCOME), welcome).unwrap();
            for (code, bytes) in frames {
                // The client may have gone already.
                let _ = channel.send(kind(*code), bytes.clone());
            }
            let _ = channel.recv(kind(QUESTION), 0);
        });
        let error = client.fetch(&address).unwrap_err();
        (error, client.names())
    })
}

#[test]
fn a_server_that_cheats_with_files_is_found_out() {
    let published = Published::with_room(100, 200, 1 << 20);
    published.update(&[(100, 1)], &[]);
    published.update(&[(101, 1)], &[]);
    let another = Published::with_room(100, 200, 1 << 20);
    let bytes = |published: &Published, release| std::fs::read(published.file(release)).unwrap();
    let [one, two, three] = [1, 2, 3].map(|release| bytes(&published, release));
    let announced = |length: u64, offset: u64| {
        let bytes = [length, offset].map(u64::to_le_bytes);
        (FILE, bytes.as_flattened().to_vec())
    };
    let file = |bytes: &[u8]| {
        let parts = bytes.chunks(1 << 16).map(|part| (125u8, part.to_vec()));
        let mut frames = vec![announced(bytes.len() as u64, 0)];
        frames.extend(parts);
        frames
    };
    let check = |have, last, frames: &[(u8, Vec<u8>)], class, words: &str| {
        let (error, names) = cheated_of_files(&published, have, last, frames);
        assert!(error.to_string().contains(words), "{words}: {error}");
        assert_eq!(error.class(), class, "{words}");
        let complete = names.iter().filter(|name| !name.ends_with(".part"));
        assert_eq!(complete.count() as u64, have, "{words}");
    };
    let peer = ErrorClass::Peer;
    // Fewer releases than are here.
    let words = "disagree on last release: here 2, there 1";
    check(2, 1, &[], ErrorClass::Contract, words);
    check(0, 0, &[], ErrorClass::Contract, "disagree on last release");
    // An older release, a later one, another set, another publisher, no set.
    check(2, 3, &file(&two), peer, "is release 2, and 3 comes next");
    check(0, 1, &file(&three), peer, "is release 3, and 1 comes next");
    let words = "was published by";
    check(0, 1, &file(&bytes(&another, 1)), peer, words);
    let words = "is a file of another kind, and not a published set";
    check(0, 1, &file(&[7; 3000]), peer, words);
    // Bytes that are not the signed ones, or too few, or too many.
    let mut spoilt = one.clone();
    *spoilt.last_mut().unwrap() ^= 1;
    check(0, 1, &file(&spoilt), peer, "has a damaged block 0");
    check(0, 1, &file(&one[..one.len() - 1]), peer, "ends too early");
    check(0, 1, &file(&one[..9]), peer, "ends too early");
    let words = "more bytes follow after its end";
    check(0, 1, &file(&[&one[..], &[0]].concat()), peer, words);
    let huge = [
        vec![announced(1 << 40, 0)],
        file(&[&one[..], &vec![0; 1 << 16][one.len()..]].concat())[1..].to_vec(),
    ]
    .concat();
    check(0, 1, &huge, peer, "more than its header allows");
    let longer = [
        vec![announced(one.len() as u64, 0)],
        vec![(125, [&one[..], &[0]].concat())],
    ]
    .concat();
    check(0, 1, &longer, peer, "at most");
    let shorter = [
        vec![announced(one.len() as u64, 0)],
        vec![(125, one[1..].to_vec())],
    ]
    .concat();
    check(0, 1, &shorter, peer, "length");
    // An offset that nobody has asked for.
    let words = "another offset than was asked for";
    check(0, 1, &[announced(100, 1)], peer, words);
    check(0, 1, &[announced(0, 1)], peer, words);
    // Parts beyond the announced file, in the place of the next.
    let more = [file(&one), vec![(125, vec![0; 9])]].concat();
    let (error, names) = cheated_of_files(&published, 0, 2, &more);
    assert_eq!((error.class(), names.len()), (peer, 1), "{error}");
}
