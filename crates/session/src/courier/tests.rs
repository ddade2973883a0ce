use vesica_psi::indices_vartime;
use vesica_psi::masks::MASKS;
use vesica_testing::{Lengths, digests, told_by_lengths};

use super::*;
use crate::terms::{LEARNS, SECURITY};
use crate::{
    ErrorClass, Identity, Learns, MemorySet, NoProgress, ProtocolRequest, Registry, Role, Security,
};

/// One side, with what it keeps between messages.
struct Side {
    identity: Identity,
    job: Job,
    keys: Vec<[u8; 32]>,
    turns: Turns,
    heard: Vec<Zeroizing<Vec<u8>>>,
    said: Vec<[u8; 32]>,
}

impl Side {
    fn new(role: Role, is_first: bool, keys: std::ops::Range<u64>) -> Side {
        Side {
            identity: Identity::generate().unwrap(),
            job: Job {
                protocol: ProtocolRequest::named("compact-dh"),
                ..Job::new(role, vec!["exact/1".into()])
            },
            keys: digests(keys),
            turns: Turns::fresh(is_first).unwrap(),
            heard: Vec::new(),
            said: Vec::new(),
        }
    }

    /// What the side does next, and which of its keys match if it knows that.
    fn turn(&self, peer: Fingerprint) -> Result<(Turn, Option<Vec<u32>>), Error> {
        let mut set = MemorySet::new(&self.keys)?;
        let sides = [self.identity.fingerprint(), peer];
        let (heard, said) = (self.heard.clone(), &self.said);
        let turn = take_turn(
            &self.turns,
            sides,
            (heard, said),
            &self.job,
            &mut set,
            &mut |_| Ok(()),
            &mut NoProgress,
        )?;
        let matched = match &turn {
            Turn::Over { .. } => set.matched().map(indices_vartime),
            Turn::Said(_) => None,
        };
        Ok((turn, matched))
    }
}

/// A receiver of 0 to 60 and a sender of 40 to 100, the first to speak first.
fn sides(first: Role) -> [Side; 2] {
    let receiver = Side::new(Role::Receiver, first == Role::Receiver, 0..60);
    let sender = Side::new(Role::Sender, first == Role::Sender, 40..100);
    match first {
        Role::Receiver => [receiver, sender],
        Role::Sender => [sender, receiver],
    }
}

/// Which of its keys each side has found.
type Found = [Option<Vec<u32>>; 2];

/// Runs two sides to the end; gives the messages, and what they have found.
fn run(mut sides: [Side; 2]) -> Result<(Vec<Vec<u8>>, Found), Error> {
    let fingerprints = sides.each_ref().map(|side| side.identity.fingerprint());
    let (mut matched, mut number, mut messages) = ([None, None], 0, Vec::new());
    let mut over = [false; 2];
    while over != [true; 2] {
        let (own, other) = (number % 2, 1 - number % 2);
        let (turn, found) = sides[own].turn(fingerprints[other])?;
        let said = match turn {
            Turn::Said(said) => Some(said),
            Turn::Over { said, report } => {
                assert_eq!(report.peer, Some(fingerprints[other]));
                over[own] = true;
                matched[own] = found;
                said
            }
        };
        match said {
            Some(said) => {
                sides[own].said.push(hash_of_said(&said));
                messages.push(said.clone());
                sides[other].heard.push(Zeroizing::new(said));
                number += 1;
            }
            // The other has said all.
            None if over[other] => break,
            None => number += 1,
        }
    }
    Ok((messages, matched))
}

#[test]
fn messages_are_few_and_the_result_is_right() {
    let matches: Vec<u32> = (40..60).collect();
    let at_sender: Vec<u32> = (0..20).collect();
    for name in [
        "compact-dh",
        "compact-dh-sh1",
        "compact-dh-sh2",
        "dh",
        "oprf-dh",
    ] {
        for (first, both, messages) in [
            (Role::Sender, false, 3),
            (Role::Receiver, false, 4),
            (Role::Sender, true, 4),
            (Role::Receiver, true, 5),
        ] {
            let mut sides = sides(first);
            for side in &mut sides {
                side.job.protocol = ProtocolRequest::named(name);
                side.job.terms.set(&SECURITY, Security::SemiHonest);
                if both {
                    side.job.terms.set(&LEARNS, Learns::Both);
                }
            }
            let (said, mut found) = run(sides).unwrap();
            let count = said.len();
            assert_eq!(count, messages, "{name}, {first} first, both: {both}");
            if first == Role::Sender {
                found.reverse();
            }
            assert_eq!(found[0].as_ref(), Some(&matches));
            assert_eq!(found[1].as_ref(), both.then_some(&at_sender));
        }
    }
}

/// Code and length of each frame in the messages, with the number of the message.
fn lengths(messages: &[Vec<u8>]) -> Vec<Lengths> {
    let frames = |message: &Vec<u8>| {
        let (mut rest, mut frames) = (&message[..], Lengths::new());
        while let Some(([code, length @ ..], after)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let length = u32::from_le_bytes(*length) as usize;
            frames.push((*code, length));
            rest = &after[length..];
        }
        frames
    };
    messages.iter().map(frames).collect()
}

/// A courier sees the lengths of messages: they are those of the sizes alone, but for coded masks. What seals a message
/// adds equally many bytes to each.
#[test]
fn lengths_of_messages_tell_nothing_of_matches() {
    let named = Registry::standard().all().iter();
    for protocol in named.filter(|protocol| goes_by_messages(**protocol)) {
        for (first, learns) in [Role::Receiver, Role::Sender]
            .into_iter()
            .flat_map(|first| [Learns::Receiver, Learns::Both].map(|learns| (first, learns)))
        {
            let runs = [0, 1, 30, 60].map(|shared| {
                let mut sides = sides(first);
                for side in &mut sides {
                    side.job.protocol = ProtocolRequest::named(protocol.spec().name);
                    side.job.terms.set(&SECURITY, Security::SemiHonest);
                    side.job.terms.set(&LEARNS, learns);
                    if side.job.role == Role::Sender {
                        side.keys = digests(60 - shared..140 - shared);
                    }
                }
                let (said, found) = run(sides).unwrap();
                let of_receiver = &found[usize::from(first == Role::Sender)];
                assert_eq!(of_receiver.as_ref().unwrap().len() as u64, shared);
                (shared, lengths(&said))
            });
            for number in 0..runs[0].1.len() {
                let of_message = runs
                    .each_ref()
                    .map(|(shared, said)| (*shared, said[number].clone()));
                let told = told_by_lengths(&of_message, &[MASKS]);
                assert!(
                    told.is_empty(),
                    "{protocol:?}, {first} first, {learns:?}: message {number}, {told:?}"
                );
            }
            assert!(runs.iter().all(|(_, said)| said.len() == runs[0].1.len()));
        }
    }
    let [me, peer] = [(); 2].map(|()| Identity::generate().unwrap());
    let turns = [true, false].map(|is_first| Turns::fresh(is_first).unwrap());
    let (us, them) = (me.fingerprint(), peer.fingerprint());
    let offer = Envelope::write(&me, them, &turns[0], 0, None, b"").unwrap();
    let read = Envelope::read(&offer, us, them).unwrap();
    let sealed = [0, 1, 1000].map(|bytes| {
        let (earlier, content) = (Some((&offer[..], &read)), vec![0; bytes]);
        let sealed = Envelope::write(&peer, us, &turns[1], 1, earlier, &content).unwrap();
        sealed.len() - bytes
    });
    assert_eq!(sealed, [sealed[0]; 3]);
}

#[test]
fn protocols_of_two_messages_are_those_that_hash_to_a_group() {
    let all = Registry::standard().all().iter();
    let named = all.filter(|p| goes_by_messages(**p)).map(|p| p.spec().name);
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    assert_eq!(
        named,
        [
            "compact-dh",
            "compact-dh-sh1",
            "compact-dh-sh2",
            "dh",
            "oprf-dh"
        ]
    );
}

/// A run up to the sender's last message, which offers: its side, the receiver's.
fn until_the_answer() -> [Side; 2] {
    until_the_answer_of("compact-dh")
}

fn until_the_answer_of(protocol: &'static str) -> [Side; 2] {
    let [mut sender, mut receiver] = sides(Role::Sender);
    for side in [&mut sender, &mut receiver] {
        side.job.protocol = ProtocolRequest::named(protocol);
        side.job.terms.set(&SECURITY, Security::SemiHonest);
    }
    let (near, far) = (
        sender.identity.fingerprint(),
        receiver.identity.fingerprint(),
    );
    for _ in 0..2 {
        let (Turn::Said(said), _) = sender.turn(far).unwrap() else {
            break;
        };
        sender.said.push(hash_of_said(&said));
        receiver.heard.push(Zeroizing::new(said));
        let (Turn::Said(said), _) = receiver.turn(near).unwrap() else {
            panic!("it waits for an answer")
        };
        receiver.said.push(hash_of_said(&said));
        sender.heard.push(Zeroizing::new(said));
    }
    [sender, receiver]
}

#[test]
fn what_was_said_is_said_again_and_nothing_else() {
    let [sender, mut receiver] = until_the_answer();
    let peer = receiver.identity.fingerprint();
    let answer = || match sender.turn(peer).unwrap().0 {
        Turn::Over { said, .. } => said.unwrap(),
        Turn::Said(_) => panic!("the sender is done"),
    };
    assert_eq!(answer(), answer());
    receiver.heard.push(Zeroizing::new(answer()));
    // The same keys in another order.
    receiver.keys.reverse();
    let peer = sender.identity.fingerprint();
    let found = receiver.turn(peer).unwrap().1.unwrap();
    assert_eq!(found, (0..20).collect::<Vec<u32>>());
    receiver.keys.reverse();
    // Other keys, or as many of others: what was said does not fit them.
    let peer = sender.identity.fingerprint();
    for keys in [0..61, 1..61] {
        let keys = std::mem::replace(&mut receiver.keys, digests(keys));
        let error = receiver.turn(peer).unwrap_err();
        assert!(matches!(error, Error::OtherInput), "{error}");
        assert_eq!(error.class(), ErrorClass::Data);
        receiver.keys = keys;
    }
    assert!(receiver.turn(peer).unwrap().1.is_some());
    // Nothing new was heard.
    receiver.heard.pop();
    assert!(receiver.turn(peer).is_err());
}

#[test]
fn an_answer_is_blamed_only_for_what_was_asked() {
    let named = Registry::standard().all().iter();
    for protocol in named.filter(|p| goes_by_messages(**p)) {
        let name = protocol.spec().name;
        let [sender, mut receiver] = until_the_answer_of(name);
        let peer = receiver.identity.fingerprint();
        let Turn::Over { said, .. } = sender.turn(peer).unwrap().0 else {
            panic!("the sender is done")
        };
        let answer = said.unwrap();
        let peer = sender.identity.fingerprint();
        receiver.heard.push(Zeroizing::new(answer.clone()));
        let keys = receiver.keys.clone();
        for others in [0..61, 1..61, 1000..1060] {
            receiver.keys = digests(others);
            let error = receiver.turn(peer).unwrap_err();
            assert!(matches!(error, Error::OtherInput), "{name}: {error}");
        }
        // With its own keys a bad answer is the peer's.
        receiver.keys = keys;
        let cut = answer[..answer.len() / 2].to_vec();
        *receiver.heard.last_mut().unwrap() = Zeroizing::new(cut);
        let error = receiver.turn(peer).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Peer, "{name}: {error}");
    }
}

#[test]
fn messages_that_are_wrong_are_refused() {
    let [sender, receiver] = until_the_answer();
    let peer = receiver.identity.fingerprint();
    let refused = |heard: Vec<u8>| {
        let side = Side {
            identity: sender.identity.clone(),
            job: sender.job.clone(),
            keys: sender.keys.clone(),
            turns: sender.turns.clone(),
            heard: vec![Zeroizing::new(heard)],
            said: sender.said.clone(),
        };
        side.turn(peer).unwrap_err()
    };
    let heard = sender.heard[0].to_vec();
    for length in [0, 3, heard.len() / 2, heard.len() - 1] {
        assert_eq!(refused(heard[..length].to_vec()).class(), ErrorClass::Peer);
    }
    let longer = [&heard[..], &[0]].concat();
    assert_eq!(refused(longer).class(), ErrorClass::Peer);
    for at in [0, 1] {
        let mut spoilt = heard.clone();
        spoilt[at] ^= 64;
        assert_eq!(refused(spoilt).class(), ErrorClass::Peer);
    }
}

#[test]
fn sides_that_want_different_runs_say_so() {
    let [sender, mut receiver] = sides(Role::Sender);
    let peer = sender.identity.fingerprint();
    let (Turn::Said(offer), _) = sender.turn(receiver.identity.fingerprint()).unwrap() else {
        panic!("an offer")
    };
    receiver.heard.push(Zeroizing::new(offer));
    receiver.job.terms.set(&LEARNS, Learns::Both);
    let error = receiver.turn(peer).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Contract, "{error}");
}

#[test]
fn envelopes_are_for_one_reader_of_one_run() {
    let [me, peer, other] = [(); 3].map(|()| Identity::generate().unwrap());
    let [us, them] = [&me, &peer].map(Identity::fingerprint);
    let turns = [true, false].map(|is_first| Turns::fresh(is_first).unwrap());
    let [ours, theirs] = &turns;
    let offer = Envelope::write(&me, them, ours, 0, None, b"offer").unwrap();
    let read = Envelope::read(&offer, us, them).unwrap();
    assert_eq!(
        (read.number, &**read.open(theirs, None).unwrap()),
        (0, &b"offer"[..])
    );
    let earlier = Some((&offer[..], &read));
    let start = Envelope::write(&peer, us, theirs, 1, earlier, b"start").unwrap();
    let of_peer = Envelope::read(&start, them, us).unwrap();
    assert_eq!(&**of_peer.open(ours, Some(&offer)).unwrap(), b"start");
    let answer = Envelope::write(&me, them, ours, 2, Some((&offer, &of_peer)), b"answer").unwrap();
    let opened = Envelope::read(&answer, us, them).unwrap();
    assert_eq!(&**opened.open(theirs, Some(&offer)).unwrap(), b"answer");
    // Other readers, writers, runs and keys.
    for (writer, reader) in [
        (other.fingerprint(), us),
        (them, other.fingerprint()),
        (us, them),
    ] {
        let error = Envelope::read(&start, writer, reader).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Data, "{error}");
    }
    let another = Envelope::write(&me, them, ours, 0, None, b"offer 2").unwrap();
    let error = of_peer.open(ours, Some(&another)).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Data, "{error}");
    assert!(of_peer.open(theirs, Some(&offer)).is_err());
    // Every byte counts.
    for at in 0..start.len() {
        let mut spoilt = start.clone();
        spoilt[at] ^= 1;
        assert!(Envelope::read(&spoilt, them, us).is_err(), "byte {at}");
        assert!(
            Envelope::read(&start[..at], them, us).is_err(),
            "{at} bytes"
        );
    }
}

#[test]
fn a_peer_cannot_cut_the_sets_into_buckets() {
    for first in [Role::Receiver, Role::Sender] {
        for (whose, memory) in [(0, 1), (1, 1), (0, 20_000), (1, 20_000)] {
            let mut sides = sides(first);
            sides[whose].job.memory = Some(memory);
            let error = run(sides).unwrap_err();
            assert_eq!(error.class(), ErrorClass::Resource, "{error}");
        }
    }
}

#[test]
fn randomness_is_of_all_that_was_heard_and_of_the_keys() {
    let turns = Turns::fresh(true).unwrap();
    let drawn = |turns: &Turns, session: u8, keys: std::ops::Range<u64>| {
        use rand_core::Rng;
        turns.rng(&[session; 32], &digests(keys)).next_u64()
    };
    let first = drawn(&turns, 0, 0..3);
    assert_eq!(first, drawn(&turns.clone(), 0, 0..3));
    assert!(first != drawn(&turns, 1, 0..3) && first != drawn(&turns, 0, 0..4));
    turns.hear(b"a message");
    assert_ne!(first, drawn(&turns, 0, 0..3));
    // What is drawn after a message follows from it too.
    let around = |message: &[u8]| {
        use rand_core::Rng;
        let turns = Turns::kept(true, Zeroizing::new([7; 32]));
        let mut rng = turns.rng(&[0; 32], &digests(0..3));
        let before = rng.next_u64();
        turns.hear(message);
        [before, rng.next_u64()]
    };
    let [one, other] = [around(b"one"), around(b"other")];
    assert!(one[0] == other[0] && one[1] != other[1]);
    // Two messages that differ in their last byte, to a sender whose state is that before both.
    let [sender, receiver] = until_the_answer();
    let peer = receiver.identity.fingerprint();
    let answer = |heard: &[u8]| {
        let heard = vec![Zeroizing::new(heard.to_vec())];
        let mut set = MemorySet::new(&sender.keys).unwrap();
        let sides = [sender.identity.fingerprint(), peer];
        let said = &sender.said;
        let (turns, job) = (&sender.turns, &sender.job);
        let admit = &mut |_: &Agreement| Ok(());
        match take_turn(
            turns,
            sides,
            (heard, said),
            job,
            &mut set,
            admit,
            &mut NoProgress,
        ) {
            Ok(Turn::Over { said, .. }) => said.unwrap(),
            other => panic!("{other:?}"),
        }
    };
    let mut heard = sender.heard[0].to_vec();
    let one = answer(&heard);
    *heard.last_mut().unwrap() ^= 1;
    let other = answer(&heard);
    // The sender's key comes first.
    assert_ne!(one[..37], other[..37]);
}

#[test]
fn a_message_that_says_too_little_is_refused() {
    let [sender, receiver] = until_the_answer();
    let peer = receiver.identity.fingerprint();
    let whole = &sender.heard[0];
    let hello = 5 + u32::from_le_bytes(whole[1..5].try_into().unwrap()) as usize;
    let side = Side {
        identity: sender.identity.clone(),
        job: sender.job.clone(),
        keys: sender.keys.clone(),
        turns: sender.turns.clone(),
        heard: vec![Zeroizing::new(whole[..hello].to_vec())],
        said: sender.said.clone(),
    };
    let error = side.turn(peer).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Peer, "{error}");
}

#[test]
fn protocols_that_take_more_messages_for_large_sets_are_refused() {
    let mut sides = sides(Role::Sender);
    for side in &mut sides {
        side.job.protocol = ProtocolRequest::named("dh");
        side.job.terms.set(&SECURITY, Security::SemiHonest);
    }
    sides[1].keys = digests(0..40_000);
    let error = run(sides).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Resource, "{error}");
}
