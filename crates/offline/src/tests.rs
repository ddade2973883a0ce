//! Halves from both parties and from dealers, over TLS, and runs that take them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;
use vesica_correlations::store::StoreProblem;
use vesica_files::{Argument, Command};
use vesica_session::terms::{KEY_BITS, LAMBDA, POST_QUANTUM, SECURITY};
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Error as SessionError, ErrorClass, Fingerprint,
    HalfSource, Identity, Intent, Interrupt, Job, KeyBlock, Listener, MemorySet, Name, NoProgress,
    PeerLimits, ProtocolRequest, Registry, Report, Role, Security, Transport, connect, run_set,
    run_set_over,
};
use vesica_testing::digests;
use vesica_wire::{Blame, Channel, Error as WireError, Limit, Misbehaviour};

use crate::random::fresh_rng;
use crate::request::REQUEST;
use crate::store::Pair;
use crate::{
    Attested, Attester, DealerRequest, Error, Evidence, Expected, HalfRequest, Misfit,
    OfflineStore, OfflineTerms, Platform, ReportData, Shown, Simulated, Untrusted, deal,
    fetch_half, make_half,
};

mod generators;

/// What goes with itself.
const INTENT: Intent = Intent::Generate;

/// A party with its store.
struct Side {
    identity: Identity,
    directory: TempDir,
}

impl Side {
    fn new() -> Side {
        Side {
            identity: Identity::generate().unwrap(),
            directory: TempDir::new().unwrap(),
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    fn store(&self) -> OfflineStore {
        OfflineStore::open(&self.directory.path().join("store"), &self.identity).unwrap()
    }

    /// Its files of halves.
    fn files(&self) -> Vec<std::path::PathBuf> {
        let entries = fs::read_dir(self.directory.path().join("store")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.extension().is_some_and(|e| e == "half"))
            .collect()
    }

    fn tls(&self, peer: &Side) -> Transport<'_> {
        Transport::Tls {
            identity: &self.identity,
            peer: peer.fingerprint(),
            intent: INTENT,
        }
    }
}

fn options() -> ConnectOptions {
    ConnectOptions {
        wait: Duration::from_secs(20),
        timeout: Duration::from_secs(20),
        ..ConnectOptions::default()
    }
}

/// Runs both parties over TLS.
fn both<A: Send, B: Send>(
    receiver: &Side,
    sender: &Side,
    receive: impl FnOnce(Connection) -> A + Send,
    send: impl FnOnce(Connection) -> B + Send,
) -> (A, B) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let (ours, theirs) = (receiver.tls(sender), sender.tls(receiver));
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(listener.accept(&ours, &options()).unwrap()));
        let sent = send(connect(&address, &theirs, &options()).unwrap());
        (receiving.join().unwrap(), sent)
    })
}

fn terms(protocol: &str) -> OfflineTerms {
    OfflineTerms {
        protocol: protocol.into(),
        lambda: 40,
        key_bits: Some(24),
        receiver_size: 60,
        sender_size: 80,
        post_quantum: false,
    }
}

fn registry() -> &'static Registry {
    Registry::standard()
}

type Made = Result<Name, Error>;

fn make(
    receiver: &Side,
    sender: &Side,
    ours: &OfflineTerms,
    theirs: &OfflineTerms,
) -> (Made, Made) {
    let side = |side: &Side, role, terms: &OfflineTerms, mut connection| {
        make_half(
            &mut connection,
            role,
            registry(),
            terms,
            &side.store(),
            &mut NoProgress,
        )
    };
    both(
        receiver,
        sender,
        |connection| side(receiver, Role::Receiver, ours, connection),
        |connection| side(sender, Role::Sender, theirs, connection),
    )
}

fn job(role: Role, protocol: &str, store: Option<OfflineStore>) -> Job {
    Job {
        protocol: ProtocolRequest::named(protocol),
        offline: store.map(|store| Arc::new(store) as Arc<dyn HalfSource>),
        ..Job::new(role, vec!["integer:24/1".into()])
    }
    .with(&SECURITY, Security::SemiHonest)
    .with(&KEY_BITS, Some(24))
}

/// Keys that are these numbers.
fn keys(numbers: std::ops::Range<u64>) -> KeyBlock<'static> {
    let mut keys = KeyBlock::from(digests(numbers.clone()));
    keys.numbers = Some(numbers.collect());
    keys
}

type Ran = Result<(Vec<bool>, Report), SessionError>;

/// A run of 50 numbers against 70, of which 20 are the same.
fn run(sides: [&Side; 2], jobs: [&Job; 2]) -> (Ran, Ran) {
    let side = |connection, job: &Job, numbers| {
        let keys = keys(numbers);
        let mut set = MemorySet::new(keys).unwrap();
        let report = run_set(connection, job, &mut set, &mut NoProgress)?;
        Ok((
            set.matched().map(<[bool]>::to_vec).unwrap_or_default(),
            report,
        ))
    };
    both(
        sides[0],
        sides[1],
        |connection| side(connection, jobs[0], 0..50),
        |connection| side(connection, jobs[1], 30..100),
    )
}

fn runs(sides: [&Side; 2], protocol: &str) -> (Ran, Ran) {
    runs_with(sides, protocol, None)
}

/// Runs that take only halves of which this was shown.
fn runs_with(sides: [&Side; 2], protocol: &str, shown: Option<&str>) -> (Ran, Ran) {
    let jobs = [(Role::Receiver, sides[0]), (Role::Sender, sides[1])].map(|(role, side)| {
        let store = side.store().with_attested(shown.map(str::to_owned));
        job(role, protocol, Some(store))
    });
    run(sides, [&jobs[0], &jobs[1]])
}

#[track_caller]
fn is_right(ran: (Ran, Ran), name: Name) {
    let (matches, report) = ran.0.unwrap();
    let expected: Vec<bool> = (0..50).map(|number| number >= 30).collect();
    assert_eq!(matches, expected);
    assert_eq!(report.contract.offline, Some(name.to_string()));
    assert_eq!(ran.1.unwrap().1.contract.offline, Some(name.to_string()));
}

/// Our error, of this class, and what the peer says.
#[track_caller]
fn fails(ran: (Ran, Ran), expected: Option<Misfit>) {
    let (own, peer) = (ran.0.unwrap_err(), ran.1.unwrap_err());
    assert_eq!(misfit(&own), expected);
    assert_eq!(own.class(), ErrorClass::Data);
    // Either its own store has none, or it was told so.
    let told = matches!(peer, SessionError::Run(WireError::PeerAborted { .. }));
    assert!(told || peer.class() == ErrorClass::Data, "{peer}");
}

/// On what the two sides disagree, and what each of them says.
#[track_caller]
fn disagreed(error: &SessionError) -> (&str, &str, &str) {
    match error {
        SessionError::Run(WireError::ContractDiffers {
            field,
            ours,
            theirs,
        }) => (field, ours, theirs),
        _ => panic!("{error:?}"),
    }
}

#[track_caller]
fn of_session(error: &Error) -> &SessionError {
    match error {
        Error::Session(error) => error,
        _ => panic!("{error:?}"),
    }
}

/// Whom the peer blamed when it gave up.
#[track_caller]
fn blamed(error: &SessionError) -> Blame {
    match error {
        SessionError::Run(WireError::PeerAborted { blame, .. }) => *blame,
        _ => panic!("{error:?}"),
    }
}

/// The limit that a run has met.
#[track_caller]
fn limit(error: &SessionError) -> Limit {
    match error {
        SessionError::Run(WireError::Resource { limit, .. }) => *limit,
        _ => panic!("{error:?}"),
    }
}

/// Why the store has no half for the run that ended with this.
#[track_caller]
fn of_store(error: &SessionError) -> &Error {
    let SessionError::Halves { cause, .. } = error else {
        panic!("{error:?}");
    };
    cause.downcast_ref().unwrap()
}

/// Why the first half in the store does not serve the run that ended with this.
#[track_caller]
fn misfit(error: &SessionError) -> Option<Misfit> {
    match of_store(error) {
        Error::NoHalf { misfit, .. } => misfit.as_ref().map(|(_, why)| why.clone()),
        _ => panic!("{error:?}"),
    }
}

/// What is wrong with the half that the run took which ended with this.
#[track_caller]
fn damage(error: &SessionError) -> StoreProblem {
    match of_store(error) {
        Error::BadHalf { problem, .. } => *problem,
        _ => panic!("{error:?}"),
    }
}

#[test]
fn made_halves_serve_one_run() {
    let (receiver, sender) = (Side::new(), Side::new());
    let sides = [&receiver, &sender];
    for protocol in ["ole-ot", "ole-lattice"] {
        let terms = terms(protocol);
        let (ours, theirs) = make(&receiver, &sender, &terms, &terms);
        let name = ours.unwrap();
        assert_eq!(name, theirs.unwrap());
        let listed = receiver.store().list().unwrap().halves;
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].name, &listed[0].terms), (name, &terms));
        receiver.store().verify(name).unwrap();
        is_right(runs(sides, protocol), name);
        assert!(receiver.files().is_empty() && sender.files().is_empty());
    }
    fails(runs(sides, "ole-ot"), None);
}

#[test]
fn halves_fit_one_job() {
    let (receiver, sender) = (Side::new(), Side::new());
    let stranger = Side::new();
    let sides = [&receiver, &sender];
    let terms = terms("ole-ot");
    let name = make(&receiver, &sender, &terms, &terms).0.unwrap();
    let ours = job(Role::Receiver, "ole-ot", Some(receiver.store()));
    let theirs = job(Role::Sender, "ole-ot", Some(sender.store()));
    let lambda = |job: &Job| job.clone().with(&LAMBDA, 50);
    fails(
        run(sides, [&lambda(&ours), &lambda(&theirs)]),
        Some(Misfit::Lambda(40)),
    );
    let wide = |job: &Job| job.clone().with(&KEY_BITS, Some(25));
    fails(
        run(sides, [&wide(&ours), &wide(&theirs)]),
        Some(Misfit::KeyBits(Some(24))),
    );
    let hidden = |job: &Job| job.clone().with(&POST_QUANTUM, true);
    fails(
        run(sides, [&hidden(&ours), &hidden(&theirs)]),
        Some(Misfit::Classical),
    );
    let other = |job: &Job| Job {
        protocol: ProtocolRequest::named("ole-lattice"),
        ..job.clone()
    };
    fails(
        run(sides, [&other(&ours), &other(&theirs)]),
        Some(Misfit::Protocol("ole-ot".into())),
    );
    // Another peer, another identity, the other half.
    let foreign = job(Role::Sender, "ole-ot", Some(stranger.store()));
    fails(
        run([&receiver, &stranger], [&ours, &foreign]),
        Some(Misfit::Peer(sender.fingerprint())),
    );
    let directory = receiver.directory.path().join("store");
    let borrowed = OfflineStore::open(&directory, &stranger.identity).unwrap();
    let thief = job(Role::Receiver, "ole-ot", Some(borrowed));
    fails(
        run([&stranger, &sender], [&thief, &theirs]),
        Some(Misfit::OtherIdentity),
    );
    let swapped = job(Role::Sender, "ole-ot", Some(receiver.store()));
    let asking = job(Role::Receiver, "ole-ot", Some(sender.store()));
    let swapped = run([&sender, &receiver], [&asking, &swapped]);
    fails(swapped, Some(Misfit::Role(Role::Sender)));
    // One side alone.
    let without = Job {
        offline: None,
        ..theirs.clone()
    };
    let (own, peer) = run(sides, [&ours, &without]);
    for (error, here, there) in [
        (own.unwrap_err(), "from a store", "none"),
        (peer.unwrap_err(), "none", "from a store"),
    ] {
        assert_eq!(disagreed(&error), ("stored correlations", here, there));
    }
    // None of that used it up.
    is_right(run(sides, [&ours, &theirs]), name);
}

#[test]
fn a_set_of_more_items_is_refused() {
    let (receiver, sender) = (Side::new(), Side::new());
    for (receiver_size, sender_size) in [(49, 70), (50, 69)] {
        let terms = OfflineTerms {
            receiver_size,
            sender_size,
            ..terms("ole-ot")
        };
        make(&receiver, &sender, &terms, &terms).0.unwrap();
    }
    let (own, peer) = runs([&receiver, &sender], "ole-ot");
    // Each side has one half that fits its own set, and they are of different pairs.
    for error in [own.unwrap_err(), peer.unwrap_err()] {
        let (field, here, there) = disagreed(&error);
        assert_eq!(field, "stored correlations");
        for said in [here, there] {
            assert!(said.contains("1 other"), "{said}");
        }
    }
    // A peer that may bring fewer items than the padded set is told so.
    let terms = terms("ole-ot");
    make(&receiver, &sender, &terms, &terms).0.unwrap();
    let ours = Job {
        peer_limits: PeerLimits {
            items: 79,
            ..PeerLimits::default()
        },
        ..job(Role::Receiver, "ole-ot", Some(receiver.store()))
    };
    let theirs = job(Role::Sender, "ole-ot", Some(sender.store()));
    let (own, peer) = run([&receiver, &sender], [&ours, &theirs]);
    assert_eq!(limit(&own.unwrap_err()), Limit::PeerItems);
    assert_eq!(peer.unwrap_err().class(), ErrorClass::Resource);
}

#[test]
fn copies_and_damaged_files_are_refused() {
    let (receiver, sender) = (Side::new(), Side::new());
    let sides = [&receiver, &sender];
    let terms = terms("ole-ot");
    let name = make(&receiver, &sender, &terms, &terms).0.unwrap();
    let copies = sides.map(|side| {
        let file = side.files().remove(0);
        (file.clone(), fs::read(file).unwrap())
    });
    is_right(runs(sides, "ole-ot"), name);
    for (file, content) in &copies {
        fs::write(file, content).unwrap();
    }
    assert!(receiver.store().list().unwrap().halves[0].is_used);
    fails(runs(sides, "ole-ot"), Some(Misfit::Used));
    for (file, _) in &copies {
        fs::remove_file(file).unwrap();
    }
    for truncated in [false, true] {
        let name = make(&receiver, &sender, &terms, &terms).0.unwrap();
        let file = receiver.files().remove(0);
        let mut bad = fs::read(&file).unwrap();
        match truncated {
            true => bad.truncate(bad.len() - 1),
            false => *bad.last_mut().unwrap() ^= 1,
        }
        fs::write(&file, &bad).unwrap();
        assert!(receiver.store().verify(name).is_err());
        let (own, peer) = runs(sides, "ole-ot");
        let own = own.unwrap_err();
        assert_eq!(own.class(), ErrorClass::Data);
        assert_eq!(damage(&own), StoreProblem::NotAuthentic);
        assert_eq!(blamed(&peer.unwrap_err()), Blame::Resource);
        // The sender's half was taken, and is gone.
        assert_eq!(fs::read(&file).unwrap(), bad);
        assert!(sender.files().is_empty());
        fs::remove_file(&file).unwrap();
    }
}

#[test]
fn parties_that_differ_make_nothing() {
    let (receiver, sender) = (Side::new(), Side::new());
    let ours = terms("ole-ot");
    let other = |change: fn(&mut OfflineTerms)| {
        let mut terms = ours.clone();
        change(&mut terms);
        terms
    };
    for (theirs, field) in [
        (
            other(|terms| terms.protocol = "ole-lattice".into()),
            "protocol",
        ),
        (other(|terms| terms.lambda = 41), "lambda"),
        (other(|terms| terms.key_bits = Some(25)), "bits of a key"),
        (other(|terms| terms.receiver_size = 61), "receiver's size"),
        (other(|terms| terms.sender_size = 81), "sender's size"),
    ] {
        let (own, peer) = make(&receiver, &sender, &ours, &theirs);
        for error in [own.unwrap_err(), peer.unwrap_err()] {
            let SessionError::Run(error) = of_session(&error) else {
                panic!("{error:?}");
            };
            // One of them may have heard from the other before it could compare.
            match error {
                WireError::ContractDiffers { field: on, .. } => assert_eq!(*on, field),
                WireError::PeerAborted { blame, reason } => {
                    assert_eq!(*blame, Blame::Contract);
                    assert!(reason.contains(field), "{reason}");
                }
                _ => panic!("{error:?}"),
            }
        }
    }
    assert!(receiver.files().is_empty() && sender.files().is_empty());
    for (terms, problem) in [
        (
            other(|terms| terms.protocol = "vole".into()),
            "no offline phase to store",
        ),
        (other(|terms| terms.lambda = 39), "40 to"),
        (other(|terms| terms.key_bits = Some(65)), "1 to 64 bits"),
        (other(|terms| terms.sender_size = 0), "1 to 67108864 items"),
        (
            other(|terms| terms.receiver_size = 1 << 27),
            "1 to 67108864 items",
        ),
    ] {
        let Err(error) = terms.check(registry()) else {
            panic!("{terms:?}");
        };
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(error.class(), ErrorClass::Usage);
    }
}

#[test]
fn keys_whose_hashes_are_too_long_are_refused() {
    let hashed = OfflineTerms {
        key_bits: None,
        receiver_size: 1 << 21,
        sender_size: 1 << 21,
        ..terms("ole-ot")
    };
    let numbers = OfflineTerms {
        lambda: 128,
        ..terms("ole-ot")
    };
    for (terms, problem, has_remedy) in [
        (hashed, "longer hashes do not fit", true),
        (numbers, "at most 75 bits", false),
    ] {
        let Err(error) = terms.check(registry()) else {
            panic!("{terms:?}");
        };
        assert!(error.to_string().contains(problem), "{error}");
        assert_eq!(error.class(), ErrorClass::Resource);
        assert_eq!(error.remedy().is_some(), has_remedy);
        if let Some(remedy) = error.remedy() {
            assert!(remedy.arguments().any(|named| named == Argument::Normalize));
        }
    }
}

/// Bytes that a dealer may use.
const MEMORY: u64 = 1 << 20;

/// A dealer and its two parties.
fn dealt(
    dealer: &Side,
    parties: [&Side; 2],
    terms: [&OfflineTerms; 2],
    peers: [Fingerprint; 2],
) -> (Result<OfflineTerms, Error>, [Made; 2]) {
    attested(dealer, parties, terms, peers, None, Shown::Nothing)
}

/// The same with an attester, and with what the parties expect of it.
fn attested(
    dealer: &Side,
    parties: [&Side; 2],
    terms: [&OfflineTerms; 2],
    peers: [Fingerprint; 2],
    attester: Option<&dyn Attester>,
    shown: Shown<'_>,
) -> (Result<OfflineTerms, Error>, [Made; 2]) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let fetch = |party: usize| {
        let transport = parties[party].tls(dealer);
        let mut connection = connect(&address, &transport, &options()).unwrap();
        let role = [Role::Receiver, Role::Sender][party];
        let store = parties[party].store();
        let wanted = HalfRequest {
            role,
            terms: terms[party],
            peer: peers[party],
            shown,
        };
        fetch_half(&mut connection, registry(), wanted, &store, &mut NoProgress)
    };
    thread::scope(|scope| {
        let dealing = scope.spawn(|| {
            let pinned = parties.map(Side::fingerprint);
            let connections = listener.accept_all(&dealer.identity, &pinned, INTENT, &options())?;
            let connections = &mut connections.try_into().unwrap();
            deal(connections, registry(), MEMORY, attester)
        });
        let second = scope.spawn(|| fetch(1));
        let first = fetch(0);
        let fetched = [first, second.join().unwrap()];
        (dealing.join().unwrap(), fetched)
    })
}

#[test]
fn dealt_halves_serve_one_run() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let terms = terms("ole-dealer");
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let parties = [&receiver, &sender];
    let (agreed, fetched) = dealt(&dealer, parties, [&terms; 2], peers);
    assert_eq!(agreed.unwrap(), terms);
    let [ours, theirs] = fetched.map(Result::unwrap);
    assert_eq!(ours, theirs);
    is_right(runs(parties, "ole-dealer"), ours);
    let without = [Role::Receiver, Role::Sender].map(|role| job(role, "ole-dealer", None));
    let without = without[0].check_offline().unwrap_err();
    assert!(matches!(&without, SessionError::Usage(why) if why.contains("ole-dealer")));
}

#[test]
fn a_dealer_serves_parties_that_agree() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let parties = [&receiver, &sender];
    let terms = terms("ole-dealer");
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let larger = OfflineTerms {
        sender_size: 81,
        ..terms.clone()
    };
    let stranger = Side::new().fingerprint();
    for (theirs, peers, field) in [
        (&larger, peers, "sender's size"),
        (&terms, [peers[0], stranger], "other party"),
        (&terms, [stranger, peers[1]], "other party"),
    ] {
        let (agreed, fetched) = dealt(&dealer, parties, [&terms, theirs], peers);
        assert_eq!(disagreed(of_session(&agreed.unwrap_err())).0, field);
        for made in fetched {
            assert_eq!(made.unwrap_err().class(), ErrorClass::Contract);
        }
    }
    assert!(receiver.files().is_empty() && sender.files().is_empty());
}

#[test]
fn a_dealer_keeps_to_its_memory() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let terms = OfflineTerms {
        receiver_size: 1 << 15,
        sender_size: 1 << 15,
        ..terms("ole-dealer")
    };
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let (agreed, fetched) = dealt(&dealer, [&receiver, &sender], [&terms; 2], peers);
    let error = agreed.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Resource);
    assert_eq!(limit(of_session(&error)), Limit::Memory { enough: None });
    for made in fetched {
        assert_eq!(made.unwrap_err().class(), ErrorClass::Resource);
    }
}

fn in_a_tee() -> Expected {
    Expected::new(Simulated, Simulated::MEASUREMENT)
}

#[test]
fn a_dealer_shows_what_it_runs() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let (terms, parties) = (terms("ole-dealer"), [&receiver, &sender]);
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let expected = in_a_tee();
    let (agreed, fetched) = attested(
        &dealer,
        parties,
        [&terms; 2],
        peers,
        Some(&Simulated),
        Shown::ByDealer(&expected),
    );
    assert_eq!(agreed.unwrap(), terms);
    let [ours, theirs] = fetched.map(Result::unwrap);
    assert_eq!(ours, theirs);
    let listed = receiver.store().list().unwrap().halves.remove(0);
    let shown = format!("simulated {}", Simulated::MEASUREMENT);
    assert_eq!(listed.attested, Some(shown.clone()));
    assert_eq!(listed.dealer, Some(dealer.fingerprint()));
    // What is simulated, or shown by another platform, is not for all runs.
    for wanted in [None, Some("tdx")] {
        let (own, _) = runs_with(parties, "ole-dealer", wanted);
        let other = Misfit::Attested(Some(shown.clone()));
        assert_eq!(misfit(&own.unwrap_err()), Some(other));
    }
    is_right(runs_with(parties, "ole-dealer", Some("simulated")), ours);
}

/// Changes what another attester makes.
struct Lying(fn(Evidence) -> Evidence);

impl Attester for Lying {
    fn platform(&self) -> Platform {
        Platform::Simulated
    }

    fn attest(&self, data: &ReportData) -> Result<Evidence, Error> {
        Simulated.attest(data).map(self.0)
    }
}

/// A report made for something else, whatever that was.
struct Replaying(std::sync::Mutex<Option<Evidence>>);

impl Attester for Replaying {
    fn platform(&self) -> Platform {
        Platform::Simulated
    }

    fn attest(&self, data: &ReportData) -> Result<Evidence, Error> {
        let mut kept = self.0.lock().unwrap();
        let evidence = Simulated.attest(data)?;
        Ok(kept.replace(evidence.clone()).unwrap_or(evidence))
    }
}

#[test]
fn a_dealer_that_shows_something_else_is_refused() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let (terms, parties) = (terms("ole-dealer"), [&receiver, &sender]);
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let expected = in_a_tee();
    let refused = |attester: &dyn Attester, why: &dyn Fn(&Untrusted) -> bool| {
        let attester = Some(attester);
        let (agreed, fetched) = attested(
            &dealer,
            parties,
            [&terms; 2],
            peers,
            attester,
            Shown::ByDealer(&expected),
        );
        assert_eq!(agreed.unwrap_err().class(), ErrorClass::Peer);
        // One of them may have heard from the dealer that the other one has refused.
        let found = fetched.iter().any(|made| match made {
            Err(Error::Untrusted {
                who: Attested::Dealer,
                why: untrusted,
            }) => why(untrusted),
            _ => false,
        });
        assert!(found, "{fetched:?}");
        assert!(fetched.iter().all(Result::is_err));
        assert!(receiver.files().is_empty() && sender.files().is_empty());
    };
    let other = |mut evidence: Evidence| {
        evidence.report[64] ^= 1;
        evidence
    };
    refused(&Lying(other), &|why| {
        matches!(why, Untrusted::Measurement { expected, got }
            if *expected == Simulated::MEASUREMENT && got.0[1..] == expected.0[1..])
    });
    let unbound = |mut evidence: Evidence| {
        evidence.report[63] ^= 1;
        evidence
    };
    refused(&Lying(unbound), &|why| *why == Untrusted::NotBound);
    let short = |mut evidence: Evidence| {
        evidence.report.pop();
        evidence
    };
    refused(&Lying(short), &|why| matches!(why, Untrusted::Malformed(_)));
    let tdx = |evidence: Evidence| Evidence {
        platform: Platform::Tdx,
        ..evidence
    };
    refused(&Lying(tdx), &|why| {
        matches!(why, Untrusted::Platform { .. })
    });
    // One party's report does not serve the other, nor does one of an earlier run.
    refused(&Replaying(None.into()), &|why| *why == Untrusted::NotBound);
    let earlier = Simulated.attest(&[0; 64]).ok();
    refused(&Replaying(earlier.into()), &|why| {
        *why == Untrusted::NotBound
    });
}

#[test]
fn dealers_with_and_without_a_tee_are_told_apart() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let parties = [&receiver, &sender];
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let expected = in_a_tee();
    let terms = terms("ole-dealer");
    for (attester, shown, [here, there]) in [
        (
            Some(&Simulated as &dyn Attester),
            Shown::Nothing,
            ["simulated", "none"],
        ),
        (None, Shown::ByDealer(&expected), ["none", "simulated"]),
    ] {
        let (agreed, fetched) = attested(&dealer, parties, [&terms; 2], peers, attester, shown);
        let error = agreed.unwrap_err();
        assert_eq!(disagreed(of_session(&error)), ("attestation", here, there));
        for made in fetched {
            assert_eq!(made.unwrap_err().class(), ErrorClass::Contract);
        }
    }
    let both = Shown::ByGenerators([&expected; 2]);
    for (protocol, shown) in [
        ("ole-dealer", both),
        ("ole-ot", Shown::Nothing),
        ("ole-ot", both),
        ("ole-tee", Shown::Nothing),
        ("ole-tee", Shown::ByDealer(&expected)),
    ] {
        let wanted = HalfRequest {
            role: Role::Receiver,
            terms: &super::tests::terms(protocol),
            peer: peers[0],
            shown,
        };
        let error = refused(&receiver, &dealer, wanted);
        assert_eq!(error.class(), ErrorClass::Usage);
        assert!(error.to_string().contains(protocol), "{error}");
    }
}

/// Why a party does not even ask a dealer for a half.
fn refused(party: &Side, dealer: &Side, wanted: HalfRequest<'_>) -> Error {
    let fetch = |mut connection| {
        fetch_half(
            &mut connection,
            registry(),
            wanted,
            &party.store(),
            &mut NoProgress,
        )
    };
    both(party, dealer, fetch, |_| ()).0.unwrap_err()
}

/// A dealer of another version, for which the same terms mean other halves.
#[test]
fn a_dealer_with_another_layout_says_so() {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let terms = terms("ole-dealer");
    let layout = terms.layout(registry()).unwrap();
    let peers = [sender.fingerprint(), receiver.fingerprint()];
    let ask = |party: &Side, role, peer, layout: String| {
        let mut connection = connect(&address, &party.tls(&dealer), &options()).unwrap();
        let request = DealerRequest {
            role,
            terms: terms.clone(),
            peer,
            layout,
            attestation: None,
            nonce: [0; 32],
        };
        let kind = REQUEST;
        connection.channel.send(kind, request.encode()).unwrap();
        connection.channel.flush().unwrap();
        connection.channel.recv(kind, 0).unwrap_err()
    };
    thread::scope(|scope| {
        let dealing = scope.spawn(|| {
            let pinned = [&receiver, &sender].map(Side::fingerprint);
            let connections = listener.accept_all(&dealer.identity, &pinned, INTENT, &options())?;
            deal(
                &mut connections.try_into().unwrap(),
                registry(),
                MEMORY,
                None,
            )
        });
        let other = scope.spawn(|| ask(&sender, Role::Sender, peers[1], "2 1 1 1".into()));
        let told = [
            ask(&receiver, Role::Receiver, peers[0], layout.clone()),
            other.join().unwrap(),
        ];
        let error = dealing.join().unwrap().unwrap_err();
        assert_eq!(error.class(), ErrorClass::Contract);
        let differs = ("layout of the halves", layout.as_str(), "2 1 1 1");
        assert_eq!(disagreed(of_session(&error)), differs);
        for told in told {
            assert!(matches!(
                told,
                WireError::PeerAborted {
                    blame: Blame::Contract,
                    ..
                }
            ));
        }
    });
}

/// How a dealer with these options ends if both parties are there and say nothing, and what it tells them.
fn deal_to_idle_parties(options_of_dealer: &ConnectOptions) -> (Error, [WireError; 2]) {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let parties = [&receiver, &sender];
    thread::scope(|scope| {
        let dealing = scope.spawn(|| {
            let pinned = parties.map(Side::fingerprint);
            let connections =
                listener.accept_all(&dealer.identity, &pinned, INTENT, options_of_dealer)?;
            let mut connections = connections.try_into().unwrap();
            deal(&mut connections, registry(), MEMORY, None)
        });
        let idle = parties.map(|party| {
            let transport = party.tls(&dealer);
            connect(&address, &transport, &options()).unwrap()
        });
        let error = dealing.join().unwrap().unwrap_err();
        let told = idle.map(|mut party| party.channel.recv(REQUEST, 0).unwrap_err());
        (error, told)
    })
}

/// Whatever the parties do.
#[test]
fn a_dealer_has_a_deadline() {
    // The parties come well before it, on a loaded machine too.
    let time = Duration::from_millis(3500);
    let (error, told) = deal_to_idle_parties(&ConnectOptions {
        interrupt: Interrupt::new().within(time),
        ..options()
    });
    assert!(
        matches!(&error, Error::Session(SessionError::Run(WireError::Overdue(taken))) if *taken == time),
        "{error}"
    );
    assert_eq!(error.class(), ErrorClass::Network);
    for told in told {
        let seconds = time.as_secs_f32().to_string();
        assert!(
            matches!(&told, WireError::PeerAborted { reason, .. } if reason.contains(&seconds)),
            "{told}"
        );
    }
}

#[test]
fn a_dealer_does_not_wait_for_ever() {
    let patience = Duration::from_millis(300);
    let (error, told) = deal_to_idle_parties(&ConnectOptions {
        patience,
        ..options()
    });
    assert!(
        matches!(&error, Error::Session(SessionError::Run(WireError::Stalled(waited))) if *waited == patience),
        "{error}"
    );
    for told in told {
        assert!(matches!(told, WireError::PeerAborted { .. }), "{told}");
    }
}

/// What one party sends instead of a request is held against that party, and not against the other one, to which the
/// first one is gone; so it is if it dies.
#[test]
fn a_dealer_blames_the_party_that_lies_or_dies() {
    for dies in [false, true] {
        deal_with_one_party(dies);
    }
}

fn deal_with_one_party(dies: bool) {
    let [dealer, receiver, sender] = [(); 3].map(|()| Side::new());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let terms = terms("ole-dealer");
    thread::scope(|scope| {
        let dealing = scope.spawn(|| {
            let pinned = [&receiver, &sender].map(Side::fingerprint);
            let connections = listener.accept_all(&dealer.identity, &pinned, INTENT, &options())?;
            deal(
                &mut connections.try_into().unwrap(),
                registry(),
                MEMORY,
                None,
            )
        });
        let honest = scope.spawn(|| {
            let mut connection = connect(&address, &receiver.tls(&dealer), &options()).unwrap();
            let wanted = HalfRequest {
                role: Role::Receiver,
                terms: &terms,
                peer: sender.fingerprint(),
                shown: Shown::Nothing,
            };
            let store = receiver.store();
            fetch_half(&mut connection, registry(), wanted, &store, &mut NoProgress)
        });
        let mut liar = connect(&address, &sender.tls(&dealer), &options()).unwrap();
        if !dies {
            let request = REQUEST;
            liar.channel.send(request, vec![9; 7]).unwrap();
            liar.channel.flush().unwrap();
            let told = liar.channel.recv(request, 0).unwrap_err();
            assert!(
                matches!(
                    told,
                    WireError::PeerAborted {
                        blame: Blame::Peer,
                        ..
                    }
                ),
                "{told}"
            );
        }
        drop(liar);
        let error = honest.join().unwrap().unwrap_err();
        assert_eq!(blamed(of_session(&error)), Blame::Network);
        let error = dealing.join().unwrap().unwrap_err();
        let class = match dies {
            true => ErrorClass::Network,
            false => ErrorClass::Peer,
        };
        assert_eq!(error.class(), class, "{error}");
    });
}

/// Halves of two pairs under one name: what two dealers would hand out, or one that errs.
#[test]
fn halves_that_do_not_fit_are_noticed() {
    let (receiver, sender) = (Side::new(), Side::new());
    let terms = terms("ole-dealer");
    let offline = terms.check(registry()).unwrap();
    let deal = || {
        let (params, mut rng) = (terms.params([0; 32]).unwrap(), fresh_rng().unwrap());
        offline.deal(&params, terms.key_bits, &mut rng).unwrap()
    };
    let put = |name, role, half: &[u8]| {
        let [side, peer] = match role {
            Role::Receiver => [&receiver, &sender],
            Role::Sender => [&sender, &receiver],
        };
        side.store()
            .put(name, &pair(role, peer, &terms), half)
            .unwrap();
    };
    let name = Name([3; 16]);
    put(name, Role::Receiver, &deal()[0]);
    put(name, Role::Sender, &deal()[1]);
    let (own, peer) = runs([&receiver, &sender], "ole-dealer");
    let own = own.unwrap_err();
    assert!(
        matches!(
            own,
            SessionError::Run(WireError::PeerMisbehaved(Misbehaviour::BadValue {
                what: "checked tuples",
                ..
            }))
        ),
        "{own:?}"
    );
    assert!(peer.is_err());
    // A half of another length.
    let name = Name([4; 16]);
    put(name, Role::Receiver, &deal()[0][1..]);
    put(name, Role::Sender, &deal()[1]);
    let (own, _) = runs([&receiver, &sender], "ole-dealer");
    assert_eq!(limit(&own.unwrap_err()), Limit::Offline);
}

fn pair<'a>(role: Role, peer: &Side, terms: &'a OfflineTerms) -> Pair<'a> {
    Pair {
        registry: registry(),
        role,
        peer: peer.fingerprint(),
        dealer: None,
        generators: None,
        attested: None,
        terms,
    }
}

/// Replaces a text in a file by another of the same length.
fn forge(file: &Path, from: &str, to: &str) {
    let mut bytes = fs::read(file).unwrap();
    let at = bytes
        .windows(from.len())
        .position(|bytes| bytes == from.as_bytes())
        .unwrap();
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    fs::write(file, bytes).unwrap();
}

/// Headers of another version, that make no sense, and that somebody has changed.
#[test]
fn headers_are_checked() {
    let (receiver, sender, stranger) = (Side::new(), Side::new(), Side::new());
    let terms = terms("ole-ot");
    let name = Name([9; 16]);
    let store = receiver.store();
    let put = |peer| {
        let pair = pair(Role::Receiver, peer, &terms);
        store.put(name, &pair, &[0; 100]).unwrap();
        receiver.files().remove(0)
    };
    sender
        .store()
        .put(name, &pair(Role::Sender, &receiver, &terms), &[0; 16])
        .unwrap();
    let problem = || {
        let (own, _) = runs([&receiver, &sender], "ole-ot");
        let own = own.unwrap_err();
        assert_eq!(own.class(), ErrorClass::Data);
        own
    };
    let file = put(&stranger);
    let other = Misfit::Peer(stranger.fingerprint());
    assert_eq!(misfit(&problem()), Some(other));
    let [from, to] = [&stranger, &sender].map(|side| side.fingerprint().to_string());
    forge(&file, &from, &to);
    assert_eq!(damage(&problem()), StoreProblem::NotAuthentic);
    let layout = terms.layout(registry()).unwrap();
    // Of the version before, whose seeds mean other tuples.
    forge(&file, &layout, &format!("1{}", &layout[1..]));
    assert_eq!(misfit(&problem()), Some(Misfit::Version));
    // Terms for which there is no plan.
    let fine = fs::read(&file).unwrap();
    for absurd in [
        "126,\"key_bits\":4",
        "128,\"key_bits\":9",
        "999,\"key_bits\":0",
    ] {
        forge(&file, "40,\"key_bits\":24", absurd);
        let half = store.list().unwrap().halves.remove(0);
        assert_eq!(half.terms.layout(registry()), None);
        assert!(matches!(misfit(&problem()), Some(Misfit::Lambda(_))));
        fs::write(&file, &fine).unwrap();
    }
    forge(&file, "\"made\":1", "\"made\":-");
    let listing = store.list().unwrap();
    assert_eq!(listing.unreadable, [name]);
    assert!(listing.halves.is_empty());
}

/// Restored, its marker forgotten: refused by the side that was restored, whatever the peer has.
#[test]
fn copied_halves_serve_no_run_until_they_are_adopted() {
    let (receiver, sender) = (Side::new(), Side::new());
    let (made, _) = make(&receiver, &sender, &terms("ole-ot"), &terms("ole-ot"));
    let name = made.unwrap();
    let files = [receiver.files().remove(0), sender.files().remove(0)];
    let halves = files.each_ref().map(|file| fs::read(file).unwrap());
    let (own, _) = runs([&receiver, &sender], "ole-ot");
    own.unwrap();
    for (file, half) in files.iter().zip(&halves) {
        thread::sleep(Duration::from_millis(50));
        fs::remove_file(file.with_extension("used")).unwrap();
        fs::write(file, half).unwrap();
    }
    sender.store().adopt(name).unwrap();
    let (own, _) = runs([&receiver, &sender], "ole-ot");
    let own = own.unwrap_err();
    let SessionError::Halves { cause, .. } = &own else {
        panic!("{own}");
    };
    let cause = cause.downcast_ref::<Error>();
    assert!(
        matches!(cause, Some(Error::CopiedHalf(path)) if *path == files[0]),
        "{own}"
    );
    assert_eq!(own.class(), ErrorClass::Data);
    let commands: Vec<_> = own.remedy().unwrap().commands().collect();
    assert_eq!(commands, [Command::RemoveStored, Command::AdoptStored]);
    let verified = receiver.store().verify(name);
    assert!(matches!(verified, Err(Error::CopiedHalf(_))));
    assert!(receiver.store().adopt(name).unwrap());
    receiver.store().verify(name).unwrap();
    let (own, _) = runs([&receiver, &sender], "ole-ot");
    own.unwrap();
}

/// A dealer that is one of the parties knows the other's items.
#[test]
fn a_dealer_is_neither_party() {
    let (receiver, sender) = (Side::new(), Side::new());
    let terms = terms("ole-dealer");
    let [own, peer] = [receiver.fingerprint(), sender.fingerprint()];
    for other in [peer, own] {
        let wanted = HalfRequest {
            role: Role::Receiver,
            terms: &terms,
            peer: other,
            shown: Shown::Nothing,
        };
        let error = refused(&receiver, &sender, wanted);
        assert_eq!(error.class(), ErrorClass::Usage);
        assert!(error.to_string().contains("different identities"));
    }
}

/// A sender that loses its half lets the receiver go no further: no query has left.
#[test]
fn nothing_is_sent_before_both_have_taken() {
    let (receiver, sender) = (Side::new(), Side::new());
    let terms = terms("ole-ot");
    make(&receiver, &sender, &terms, &terms).0.unwrap();
    let file = sender.files().remove(0);
    let mut bad = fs::read(&file).unwrap();
    *bad.last_mut().unwrap() ^= 1;
    fs::write(&file, &bad).unwrap();
    let job = |role, side: &Side| job(role, "ole-ot", Some(side.store()));
    let (seen, _) = both(
        &receiver,
        &sender,
        |mut connection| {
            let keys = keys(0..50);
            let mut set = MemorySet::new(keys).unwrap();
            let (own, peer) = (connection.local, connection.peer);
            let channel = &mut connection.channel;
            let ours = job(Role::Receiver, &receiver);
            let ran = run_set_over(channel, own, peer, &ours, &mut set, &mut NoProgress);
            assert!(ran.is_err());
            let phases = channel.traffic();
            phases
                .into_iter()
                .map(|phase| phase.phase)
                .collect::<Vec<_>>()
        },
        |connection| {
            let keys = keys(30..100);
            let mut set = MemorySet::new(keys).unwrap();
            run_set(
                connection,
                &job(Role::Sender, &sender),
                &mut set,
                &mut NoProgress,
            )
            .unwrap_err()
        },
    );
    assert_eq!(seen, ["contract", "store"]);
}

/// A store that cannot be written loses the half on both sides.
#[test]
fn a_half_is_kept_only_with_the_other() {
    let (receiver, sender) = (Side::new(), Side::new());
    let terms = terms("ole-ot");
    let (own, peer) = both(
        &receiver,
        &sender,
        |mut connection| {
            let store = receiver.store();
            fs::remove_dir_all(receiver.directory.path().join("store")).unwrap();
            make_half(
                &mut connection,
                Role::Receiver,
                registry(),
                &terms,
                &store,
                &mut NoProgress,
            )
        },
        |mut connection| {
            let store = sender.store();
            make_half(
                &mut connection,
                Role::Sender,
                registry(),
                &terms,
                &store,
                &mut NoProgress,
            )
        },
    );
    assert_eq!(own.unwrap_err().class(), ErrorClass::Data);
    assert!(peer.is_err() && sender.files().is_empty());
}
