//! Pairs dealt under fixed seeds: each frame of both parties and of whoever deals is what `vectors/offline/frames.txt` has
//! recorded. Pairs that the parties make, and the runs that take either, are in the session's recording, which plays the
//! parts of this crate; here the frames of the real ones are compared with those.
//!
//! `VESICA_RECORD_FRAMES=1` writes that file anew, as for the session's.

use std::fs;
use std::path::Path;
use std::thread;

use pem_rfc7468::LineEnding;
use tempfile::TempDir;
use vesica_psi::{Offline, Origin};
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, Listener, NoProgress, Registry,
    Role, Transport, connect,
};
use vesica_testing::{Sent, recorded_pair, with_seed};

use crate::random::fill;
use crate::{
    Attester, Expected, HalfRequest, OfflineStore, OfflineTerms, Shown, Simulated, deal,
    fetch_half, generate, make_half,
};

/// PKCS#8 (RFC 8410, version 1) around the 32 bytes of an Ed25519 seed that follow.
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The runs of the session's recording that take dealt halves: λ, and the bits of keys that are numbers.
const DEALT: [(&str, u32, Option<u32>); 6] = [
    ("", 40, None),
    ("both", 40, None),
    ("aligned", 40, None),
    ("lambda 50", 50, None),
    ("numbers", 40, Some(24)),
    ("traffic", 40, None),
];

/// The identity that the session makes under a seed of this name.
fn identity(name: &str) -> Identity {
    let mut seed = [0; 32];
    with_seed(name, || fill(&mut seed)).unwrap();
    let key = [&PKCS8_PREFIX[..], &seed].concat();
    let pem = pem_rfc7468::encode_string("PRIVATE KEY", LineEnding::LF, &key).unwrap();
    Identity::from_pem(pem.as_bytes()).unwrap()
}

/// A party: who it is, and where its halves are.
struct Side {
    role: Role,
    identity: Identity,
    directory: TempDir,
}

impl Side {
    fn fingerprint(&self) -> Fingerprint {
        self.identity.fingerprint()
    }

    fn store(&self) -> OfflineStore {
        OfflineStore::open(self.directory.path(), &self.identity).unwrap()
    }
}

fn sides() -> [Side; 2] {
    [Role::Receiver, Role::Sender].map(|role| Side {
        role,
        identity: identity(&role.to_string()),
        directory: TempDir::new().unwrap(),
    })
}

fn terms(protocol: &str, lambda: u32, key_bits: Option<u32>) -> OfflineTerms {
    OfflineTerms {
        protocol: protocol.into(),
        lambda,
        key_bits,
        receiver_size: 60,
        sender_size: 80,
        post_quantum: false,
    }
}

/// Connections of two identities with each other, and what each side sends.
fn link(ours: Fingerprint, theirs: Fingerprint) -> [(Connection, Sent); 2] {
    let (plain, options) = (
        Transport::PlaintextForBenchmarksOnly,
        ConnectOptions::default(),
    );
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = Endpoint::Connect(listener.local_addr().to_string());
    let far = connect(&address, &plain, &options).unwrap();
    let near = listener.accept(&plain, &options).unwrap();
    let [(our_channel, our_sent), (their_channel, their_sent)] = recorded_pair();
    let over = |mut connection: Connection, channel, local, peer| {
        connection.channel = channel;
        connection.local = Some(local);
        connection.peer = Some(peer);
        connection
    };
    [
        (over(near, our_channel, ours, theirs), our_sent),
        (over(far, their_channel, theirs, ours), their_sent),
    ]
}

/// What parties ask for, and what they are to see.
fn fetch(
    name: &str,
    terms: &OfflineTerms,
    [side, peer]: [&Side; 2],
    shown: Shown<'_>,
    mut connection: Connection,
) {
    let request = HalfRequest {
        role: side.role,
        terms,
        peer: peer.fingerprint(),
        shown,
    };
    let (name, store) = (format!("{name}, {}", side.role), side.store());
    let registry = Registry::standard();
    let fetch = || fetch_half(&mut connection, registry, request, &store, &mut NoProgress);
    with_seed(&name, fetch).unwrap();
}

/// What a party and whoever hands out its half send.
fn exchanged(side: &Side, asked: &Sent, dealt: &Sent) -> String {
    let (asked, dealt) = (asked.frames(), dealt.frames());
    format!("  {} sends{asked}\n  gets{dealt}\n", side.role)
}

/// What is sent for a dealt pair.
fn dealing(name: &str, terms: &OfflineTerms, attester: Option<&dyn Attester>) -> String {
    let expected = Expected::new(Simulated, Simulated::MEASUREMENT);
    let shown = match attester {
        Some(_) => Shown::ByDealer(&expected),
        None => Shown::Nothing,
    };
    let (registry, sides) = (Registry::standard(), sides());
    let dealer = identity("dealer").fingerprint();
    let [
        [(to_ours, our_dealt), (ours, our_asked)],
        [(to_theirs, their_dealt), (theirs, their_asked)],
    ] = sides
        .each_ref()
        .map(|side| link(dealer, side.fingerprint()));
    thread::scope(|scope| {
        scope.spawn(|| fetch(name, terms, [&sides[0], &sides[1]], shown, ours));
        scope.spawn(|| fetch(name, terms, [&sides[1], &sides[0]], shown, theirs));
        let mut connections = [to_ours, to_theirs];
        let deal = || deal(&mut connections, registry, u64::MAX, attester);
        with_seed(&format!("{name}, dealer"), deal).unwrap();
    });
    let lines = exchanged(&sides[0], &our_asked, &our_dealt);
    format!(
        "{name}\n{lines}{}",
        exchanged(&sides[1], &their_asked, &their_dealt)
    )
}

/// What is sent for a pair of two generators.
fn generating(name: &str, terms: &OfflineTerms) -> String {
    let expected = Expected::new(Simulated, Simulated::MEASUREMENT);
    let shown = Shown::ByGenerators([&expected; 2]);
    let (registry, sides) = (Registry::standard(), sides());
    let names = ["receiver's generator", "sender's generator"];
    let prints = names.map(|name| identity(name).fingerprint());
    let [(near, first_sent), (far, second_sent)] = link(prints[0], prints[1]);
    let [
        [(to_ours, our_dealt), (ours, our_asked)],
        [(to_theirs, their_dealt), (theirs, their_asked)],
    ] = [0, 1].map(|i| link(prints[i], sides[i].fingerprint()));
    let generate = |who: &str, mut connections: [Connection; 2]| {
        let generate = || generate(&mut connections, registry, u64::MAX, &Simulated);
        with_seed(&format!("{name}, {who}"), generate).unwrap();
    };
    thread::scope(|scope| {
        scope.spawn(|| fetch(name, terms, [&sides[0], &sides[1]], shown, ours));
        scope.spawn(|| fetch(name, terms, [&sides[1], &sides[0]], shown, theirs));
        scope.spawn(|| generate(names[1], [to_theirs, far]));
        generate(names[0], [to_ours, near]);
    });
    let lines = exchanged(&sides[0], &our_asked, &our_dealt)
        + &exchanged(&sides[1], &their_asked, &their_dealt);
    let between = [first_sent, second_sent].map(|sent| sent.frames());
    format!(
        "{name}\n{lines}  {} sends{}\n  gets{}\n",
        names[0], between[0], between[1]
    )
}

fn recording(of: &str) -> String {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors");
    fs::read_to_string(vectors.join(of).join("frames.txt")).unwrap()
}

#[test]
fn frames_of_dealt_pairs_are_those_that_are_recorded() {
    let mut lines = String::new();
    for protocol in Registry::standard().all() {
        let offline = protocol.offline();
        let Some(offline) = offline.filter(|offline| offline.origin().is_dealt()) else {
            continue;
        };
        for (words, lambda, key_bits) in DEALT {
            let protocol = protocol.spec().name;
            let name = format!("{protocol}, matches, , {words}, offline");
            let terms = terms(protocol, lambda, key_bits);
            lines += &match offline.origin() {
                Origin::Generators => generating(&name, &terms),
                _ => dealing(&name, &terms, None),
            };
        }
        if offline.origin() == Origin::Dealer {
            let protocol = protocol.spec().name;
            let name = format!("{protocol}, matches, , attested, offline");
            lines += &dealing(&name, &terms(protocol, 40, None), Some(&Simulated));
        }
    }
    if std::env::var_os("VESICA_RECORD_FRAMES").is_some() {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/offline");
        fs::write(vectors.join("frames.txt"), &lines).unwrap();
    }
    let recorded = recording("offline");
    for (line, (now, then)) in (1..).zip(lines.lines().zip(recorded.lines())) {
        assert_eq!(now, then, "line {line}");
    }
    assert_eq!(lines.len(), recorded.len());
}

/// Code and length of each frame of a line.
fn shapes(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.rsplit_once(':') {
        Some((shape, _)) => shape,
        None => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The contents depend on nonces, which are the session's and random here.
#[test]
fn frames_of_made_pairs_have_the_shapes_that_are_recorded() {
    let recorded = recording("session");
    let made = Registry::standard().all().iter().filter(|protocol| {
        let origin = protocol.offline().map(Offline::origin);
        origin.is_some_and(|origin| !origin.is_dealt())
    });
    let mut pairs = 0;
    for protocol in made {
        let name = protocol.spec().name;
        let (terms, sides) = (terms(name, 40, None), sides());
        let [ours, theirs] = sides.each_ref().map(Side::fingerprint);
        let [(near, our_sent), (far, their_sent)] = link(ours, theirs);
        let make = |side: &Side, mut connection: Connection| {
            let (registry, store) = (Registry::standard(), side.store());
            let (role, progress) = (side.role, &mut NoProgress);
            make_half(&mut connection, role, registry, &terms, &store, progress).unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| make(&sides[1], far));
            make(&sides[0], near);
        });
        let first = format!("{name}, matches, , stored, offline");
        let mut lines = recorded.lines().skip_while(|line| *line != first).skip(1);
        for (side, sent) in sides.iter().zip([our_sent, their_sent]) {
            let now = format!("  {} sends{}", side.role, sent.frames());
            assert_eq!(shapes(&now), shapes(lines.next().unwrap()), "{name}");
        }
        pairs += 1;
    }
    assert!(pairs > 0);
}
