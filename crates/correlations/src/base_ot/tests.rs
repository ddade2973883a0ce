use super::*;
use proptest::prelude::*;
use std::collections::HashSet;
use vesica_reference::base_ot as reference;
use vesica_testing::{Script, array, bytes, misbehaviour, rng, try_both};
use vesica_wire::{Spoil, Tamper, memory_pair};

const SESSION: [u8; 32] = [9; 32];

fn bits(choices: &Choices) -> Vec<usize> {
    (0..choices.len())
        .map(|i| usize::from(choices.get(i).unwrap_u8()))
        .collect()
}

fn as_blocks(keys: &[[[u8; 16]; 2]]) -> Vec<[Block; 2]> {
    keys.iter().map(|k| k.map(Block::from_le_bytes)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// On functions that no receiver made.
    #[test]
    fn the_sender_matches_the_reference(
        secret in prop::collection::vec(any::<u8>(), 64),
        session: [u8; 32],
        functions in prop::collection::vec(any::<Function>(), 0..4),
    ) {
        let (sender, public) = Sender::new(&session, &mut Script(secret.clone()));
        let keys = sender.keys(&functions);
        let (expected, expected_keys) = reference::sender(&session, &secret, &functions);
        prop_assert_eq!(public, expected);
        prop_assert_eq!(&*keys, &as_blocks(&expected_keys));
    }

    /// The receiver's function gives its message at its choice, and its key is the reference's.
    #[test]
    fn the_receiver_matches_the_reference(
        secret in prop::collection::vec(any::<u8>(), 64),
        session: [u8; 32],
        choices in prop::collection::vec(any::<bool>(), 0..4),
        seed: u64,
    ) {
        let choices: Choices = choices.into_iter().collect();
        let (receiver, functions) = Receiver::new(&session, choices.clone(), &mut rng(seed));
        for (i, c) in bits(&choices).into_iter().enumerate() {
            let message = receiver.keys.representatives()[i];
            let value = |b| reference::evaluate(&session, i as u64, &functions[i], b as u8);
            prop_assert_eq!(value(c), message);
            prop_assert_ne!(value(1 - c), message);
        }
        let (public, expected) = reference::sender(&session, &secret, &functions);
        let keys = receiver.keys(&public).unwrap();
        for ((key, pair), c) in keys.iter().zip(as_blocks(&expected)).zip(bits(&choices)) {
            prop_assert_eq!(*key, pair[c]);
        }
    }
}

/// Published answers of the sender, and public keys that the receiver must refuse.
#[test]
fn known_answers() {
    let text = include_str!("../../../../vectors/base-ot.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let session = array(&vectors["session"]);
    let pairs = |name: &str| vectors[name].as_array().unwrap().clone();
    let functions: Vec<Function> = pairs("functions")
        .iter()
        .map(|f| [array(&f[0]), array(&f[1])])
        .collect();
    let expected: Vec<[[u8; 16]; 2]> = pairs("keys")
        .iter()
        .map(|k| [array(&k[0]), array(&k[1])])
        .collect();
    let mut secret = Script(bytes(&vectors["secret"]));
    let (sender, public) = Sender::new(&session, &mut secret);
    assert_eq!(public, array(&vectors["public"]));
    let keys = sender.keys(&functions);
    assert_eq!(*keys, as_blocks(&expected));
    // A function that is sent again gives other keys.
    assert_eq!(functions[0], functions[3]);
    let distinct: HashSet<Block> = keys.as_flattened().iter().copied().collect();
    assert_eq!(distinct.len(), 12);

    let bad = pairs("bad_keys");
    assert_eq!(bad.len(), 8);
    for case in bad {
        let (receiver, _) = Receiver::new(&SESSION, Choices::random(3, &mut rng(1)), &mut rng(2));
        let expected = case["problem"].as_str().unwrap();
        match receiver.keys(&array(&case["public"])) {
            Err(Misbehaviour::BadValue { what, problem }) => {
                assert_eq!((what, problem), ("base-transfer key", expected));
            }
            other => panic!("{other:?} for {case}"),
        }
    }
}

type SenderResult = Result<Zeroizing<Vec<[Block; 2]>>, Error>;
type ReceiverResult = Result<Zeroizing<Vec<Block>>, Error>;

fn run(
    sending: impl Channel,
    receiving: impl Channel,
    choices: &Choices,
) -> (SenderResult, ReceiverResult) {
    try_both(
        (sending, receiving),
        |channel| send(channel, &SESSION, choices.len(), &mut rng(3)),
        |channel| receive(channel, &SESSION, choices.clone(), &mut rng(4)),
    )
}

#[test]
fn the_receiver_gets_the_keys_of_its_choices_and_no_others() {
    for count in [0, 1, 2, 7, 128, 1001] {
        for choices in [
            Choices::random(count, &mut rng(5)),
            (0..count).map(|_| false).collect(),
            (0..count).map(|_| true).collect(),
        ] {
            let (a, b) = memory_pair();
            let (pairs, keys) = run(a, b, &choices);
            let (pairs, keys) = (pairs.unwrap(), keys.unwrap());
            assert_eq!((pairs.len(), keys.len()), (count, count));
            for ((pair, key), c) in pairs.iter().zip(keys.iter()).zip(bits(&choices)) {
                assert_eq!(pair[c], *key);
            }
            let distinct: HashSet<&Block> = pairs.iter().flatten().collect();
            assert_eq!(distinct.len(), 2 * count);
        }
    }
}

/// Every bit of a function is a fair coin, whatever the choice.
#[test]
fn functions_look_the_same_for_both_choices() {
    let count = 2000;
    for choice in [false, true] {
        let choices = (0..count).map(|_| choice).collect();
        let (_, functions) = Receiver::new(&SESSION, choices, &mut rng(6));
        for bit in 0..512 {
            let ones = functions
                .iter()
                .filter(|f| f[bit / 256][bit / 8 % 32] >> (bit % 8) & 1 == 1)
                .count();
            // Six standard deviations of a fair coin.
            assert!(ones.abs_diff(count / 2) < 135, "bit {bit}: {ones}");
        }
    }
}

/// What a peer of another run, or at another place of this one, sent is worth nothing here.
#[test]
fn replayed_messages_give_unrelated_keys() {
    let choices = Choices::random(4, &mut rng(7));
    let (receiver, functions) = Receiver::new(&SESSION, choices.clone(), &mut rng(8));
    let sender = |session: &[u8; 32]| Sender::new(session, &mut rng(9)).0;
    let (_, public) = Sender::new(&SESSION, &mut rng(9));
    let keys = receiver.keys(&public).unwrap();
    let honest = sender(&SESSION).keys(&functions);
    let known: HashSet<Block> = keys.iter().copied().collect();
    let hits = |pairs: &[[Block; 2]]| {
        let hits = pairs.as_flattened().iter();
        hits.filter(|key| known.contains(key)).count()
    };
    assert_eq!(hits(&honest), 4);
    assert_eq!(hits(&sender(&[8; 32]).keys(&functions)), 0, "session");
    let moved = [functions[1], functions[2], functions[3], functions[0]];
    assert_eq!(hits(&sender(&SESSION).keys(&moved)), 0, "place");
    let crossed = functions.clone().into_iter().map(|[a, b]| [b, a]);
    let crossed: Vec<Function> = crossed.collect();
    assert_eq!(hits(&sender(&SESSION).keys(&crossed)), 0, "order");
    assert_eq!(hits(&sender(&SESSION).keys(&functions[..3])), 0, "number");
    let (other, _) = Sender::new(&SESSION, &mut rng(10));
    assert_eq!(hits(&other.keys(&functions)), 0, "key");
}

#[test]
fn wrong_frames_are_refused() {
    let choices = Choices::random(5, &mut rng(11));
    let wrong = |what, bytes| Misbehaviour::WrongLength { what, bytes };
    let long = |what, bytes, max| Misbehaviour::TooLong { what, bytes, max };
    let kind = |expected| Misbehaviour::UnexpectedFrame { expected, got: 99 };
    for (spoil, expected) in [
        (Spoil::Truncate(1), wrong("base-transfer key", 31)),
        (Spoil::Extend(vec![0]), long("base-transfer key", 33, 32)),
        (Spoil::Kind(99), kind("base-transfer key")),
    ] {
        let (a, b) = memory_pair();
        let (_, keys) = run(Tamper::new(a, 0, spoil), b, &choices);
        assert_eq!(misbehaviour(keys), expected);
    }
    for (spoil, expected) in [
        (Spoil::Truncate(64), wrong("base-transfer functions", 256)),
        (Spoil::Replace(vec![]), wrong("base-transfer functions", 0)),
        (
            Spoil::Extend(vec![0; 64]),
            long("base-transfer functions", 384, 320),
        ),
        (Spoil::Kind(99), kind("base-transfer functions")),
    ] {
        let (a, b) = memory_pair();
        let (keys, _) = run(a, Tamper::new(b, 0, spoil), &choices);
        assert_eq!(misbehaviour(keys), expected);
    }
}
