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

mod hybrid {
    use super::*;
    use vesica_reference::base_ot_lattice;

    type Keys<T> = Result<(Zeroizing<Vec<T>>, [u8; 32]), Error>;

    fn run(
        sending: impl Channel,
        receiving: impl Channel,
        choices: &Choices,
        seeds: [u64; 2],
    ) -> (Keys<[Block; 2]>, Keys<Block>) {
        let (count, hybrid) = (choices.len(), KeyAgreement::Hybrid);
        try_both(
            (sending, receiving),
            |channel| send_and_bind(channel, &SESSION, hybrid, count, &mut rng(seeds[0])),
            |channel| {
                let choices = choices.clone();
                receive_and_bind(channel, &SESSION, hybrid, choices, &mut rng(seeds[1]))
            },
        )
    }

    #[test]
    fn the_receiver_gets_the_keys_of_its_choices_and_no_others() {
        for count in [0, 1, 2, 7, 128] {
            for choices in [
                Choices::random(count, &mut rng(5)),
                (0..count).map(|_| false).collect(),
                (0..count).map(|_| true).collect(),
            ] {
                let (a, b) = memory_pair();
                let (pairs, keys) = run(a, b, &choices, [3, 4]);
                let ((pairs, bound), (keys, also_bound)) = (pairs.unwrap(), keys.unwrap());
                assert_eq!((pairs.len(), keys.len()), (count, count));
                assert_eq!(bound, also_bound);
                for ((pair, key), c) in pairs.iter().zip(keys.iter()).zip(bits(&choices)) {
                    assert_eq!(pair[c], *key);
                    assert_ne!(pair[1 - c], *key);
                }
                let distinct: HashSet<&Block> = pairs.iter().flatten().collect();
                assert_eq!(distinct.len(), 2 * count);
            }
        }
    }

    /// The sender's randomness for so many OTs: an exponent, then two messages for each.
    fn script(count: usize) -> Vec<u8> {
        let mut script = vec![0; 64 + 64 * count];
        rand_core::Rng::fill_bytes(&mut rng(12), &mut script);
        script
    }

    /// What the reference sends for these functions, and its keys.
    fn expected(
        script: &[u8],
        functions: &[Function],
        lattice: &[lattice::Function],
    ) -> (Vec<Vec<u8>>, Vec<[Block; 2]>) {
        let (secret, messages) = script.split_at(64);
        let (messages, _) = messages.as_chunks::<32>();
        let (messages, _) = messages.as_chunks::<2>();
        let lattice: Vec<Vec<u8>> = lattice.iter().map(|f| f.to_vec()).collect();
        let (_, ciphertexts, keys) =
            base_ot_lattice::sender(&SESSION, secret, functions, &lattice, messages);
        (ciphertexts, as_blocks(&keys))
    }

    #[test]
    fn both_sides_match_the_reference() {
        for count in [1, 2, 9] {
            let choices = Choices::random(count, &mut rng(13));
            let mut random = rng(14);
            let (_, functions) = Receiver::new(&SESSION, choices.clone(), &mut random);
            let (_, lattice) = lattice::Receiver::new(&SESSION, &choices, &mut random);
            let mut again = rng(14);
            Receiver::new(&SESSION, choices.clone(), &mut again);
            let mut drawn = vec![[0; 112]; count];
            rand_core::Rng::fill_bytes(&mut again, drawn.as_flattened_mut());
            for (i, c) in bits(&choices).into_iter().enumerate() {
                let slow = base_ot_lattice::program(&SESSION, i as u64, &drawn[i], c as u8);
                assert_eq!(lattice[i][..], slow, "{i}");
            }
            let script = script(count);
            let (ciphertexts, expected) = expected(&script, &functions, &lattice);
            let (a, b) = memory_pair();
            let (pairs, keys) = try_both(
                (a, b),
                |channel| {
                    let (agreement, mut script) = (KeyAgreement::Hybrid, Script(script.clone()));
                    send_and_bind(channel, &SESSION, agreement, count, &mut script)
                },
                |channel| {
                    let (agreement, choices) = (KeyAgreement::Hybrid, choices.clone());
                    receive_and_bind(channel, &SESSION, agreement, choices, &mut rng(14))
                },
            );
            assert_eq!(*pairs.unwrap().0, expected);
            for ((key, pair), c) in keys.unwrap().0.iter().zip(expected).zip(bits(&choices)) {
                assert_eq!(*key, pair[c]);
            }
            let (sent, _) =
                lattice::encapsulate(&SESSION, &lattice, &mut Script(script[64..].to_vec()))
                    .unwrap();
            for (sent, slow) in sent.iter().zip(ciphertexts) {
                assert_eq!(sent[..], slow);
            }
        }
    }

    /// Both parts of a key matter: without either a party that knows the other has nothing.
    #[test]
    fn keys_depend_on_both_agreements() {
        let hash = HybridKeyOracle::new(&[7; 32]);
        let zero = [0; 32];
        let keys = [
            hash.key(0, 0, &zero, &zero),
            hash.key(0, 0, &[1; 32], &zero),
            hash.key(0, 0, &zero, &[1; 32]),
            hash.key(1, 0, &zero, &zero),
            hash.key(0, 1, &zero, &zero),
            HybridKeyOracle::new(&[8; 32]).key(0, 0, &zero, &zero),
        ];
        let distinct: HashSet<Block> = keys.into_iter().collect();
        assert_eq!(distinct.len(), 6);
    }

    /// The session that comes after depends on every message.
    #[test]
    fn the_digest_is_of_all_messages() {
        let transcript = Transcript {
            session: &SESSION,
            public: &[1; 32],
            functions: &[[[2; 32]; 2]],
            lattice_functions: &[[3; lattice::FUNCTION_BYTES]],
            ciphertexts: &[[4; lattice::CIPHERTEXTS_BYTES]],
        };
        let mut other = [3; lattice::FUNCTION_BYTES];
        other[lattice::FUNCTION_BYTES - 1] ^= 1;
        let mut others = [4; lattice::CIPHERTEXTS_BYTES];
        others[0] ^= 1;
        let digests = [
            Transcript { ..transcript }.digest(),
            Transcript {
                session: &[8; 32],
                ..transcript
            }
            .digest(),
            Transcript {
                public: &[9; 32],
                ..transcript
            }
            .digest(),
            Transcript {
                functions: &[[[2; 32], [3; 32]]],
                ..transcript
            }
            .digest(),
            Transcript {
                lattice_functions: &[other],
                ..transcript
            }
            .digest(),
            Transcript {
                ciphertexts: &[others],
                ..transcript
            }
            .digest(),
        ];
        let distinct: HashSet<[u8; 32]> = digests.into_iter().collect();
        assert_eq!(distinct.len(), 6);
    }

    /// A changed ciphertext changes keys and raises no error here, whatever the choice: an error would tell it.
    #[test]
    fn a_changed_ciphertext_is_no_error() {
        for choice in [false, true] {
            let choices: Choices = [choice; 3].into_iter().collect();
            for byte in [0, 1087, 1088, 2175] {
                let (a, b) = memory_pair();
                // The key, then the ciphertexts.
                let sending = Tamper::new(a, 1, Spoil::FlipBit(8 * byte));
                let (pairs, keys) = run(sending, b, &choices, [3, 4]);
                let ((pairs, bound), (keys, other)) = (pairs.unwrap(), keys.unwrap());
                assert_ne!(bound, other, "the digest is of the ciphertexts");
                assert_eq!(keys.len(), 3);
                let all = pairs.as_flattened();
                assert!(keys.iter().all(|key| !all.contains(key)));
            }
        }
    }

    /// A sender that encapsulates nonsense to one key guesses a choice: the receiver has another key if it guessed right, and
    /// what it has otherwise. Nothing else depends on it.
    #[test]
    fn a_ciphertext_of_nothing_is_a_guess_at_one_choice() {
        for choice in [false, true] {
            let choices: Choices = [choice, false, true].into_iter().collect();
            let (pairs, keys) = try_both(
                memory_pair(),
                |channel| {
                    let (sender, public) = Sender::new(&SESSION, &mut rng(3));
                    send_rows(channel, KEY, &public, 32)?;
                    let functions: Vec<[u8; FUNCTION_BYTES]> = recv_all(channel, FUNCTIONS, 3)?;
                    let (strings, _) = functions.as_flattened().as_chunks::<32>();
                    let (functions, _) = strings.as_chunks::<2>();
                    let of_lattice = recv_all(channel, lattice::FUNCTIONS, 3)?;
                    let sent = lattice::encapsulate(&SESSION, &of_lattice, &mut rng(4));
                    let (mut ciphertexts, shared) = sent.unwrap();
                    // To the first key at 0.
                    ciphertexts[0][..1088].fill(7);
                    let rows = ciphertexts.as_flattened();
                    send_rows(
                        channel,
                        lattice::CIPHERTEXTS,
                        rows,
                        lattice::CIPHERTEXTS_BYTES,
                    )?;
                    let transcript = Transcript {
                        session: &SESSION,
                        public: &public,
                        functions,
                        lattice_functions: &of_lattice,
                        ciphertexts: &ciphertexts,
                    };
                    let hash = HybridKeyOracle::new(&transcript.digest());
                    let curve = sender.secrets(functions);
                    let pairs = (0..3)
                        .map(|i| [0, 1].map(|b| hash.key(b as u8, i, &curve[i][b], &shared[i][b])));
                    Ok::<_, Error>(pairs.collect::<Vec<_>>())
                },
                |channel| {
                    let (hybrid, choices) = (KeyAgreement::Hybrid, choices.clone());
                    receive_and_bind(channel, &SESSION, hybrid, choices, &mut rng(5))
                },
            );
            let (pairs, (keys, _)) = (pairs.unwrap(), keys.unwrap());
            for (i, c) in bits(&choices).into_iter().enumerate() {
                assert_eq!(keys[i] == pairs[i][c], (i, choice) != (0, false), "{i}");
            }
        }
    }

    #[test]
    fn wrong_frames_are_refused() {
        let choices = Choices::random(5, &mut rng(11));
        let (functions, ciphertexts) = (lattice::FUNCTIONS.name, lattice::CIPHERTEXTS.name);
        let bytes = 5 * lattice::FUNCTION_BYTES;
        let wrong = |what, bytes| Misbehaviour::WrongLength { what, bytes };
        let large = Misbehaviour::BadValue {
            what: functions,
            problem: "a number is not below 3329",
        };
        // Of the third function T's first number, which becomes 3329 or 4095.
        let first = 2 * lattice::FUNCTION_BYTES + 80;
        for (spoil, expected) in [
            (Spoil::Truncate(1), wrong(functions, bytes - 1)),
            (Spoil::Replace(vec![]), wrong(functions, 0)),
            (Spoil::Replace(with_number(first, 3329)), large.clone()),
            (Spoil::Replace(with_number(first, 4095)), large.clone()),
            (
                Spoil::Kind(99),
                Misbehaviour::UnexpectedFrame {
                    expected: functions,
                    got: 99,
                },
            ),
        ] {
            let (a, b) = memory_pair();
            let (keys, _) = run(a, Tamper::new(b, 1, spoil), &choices, [3, 4]);
            assert_eq!(misbehaviour(keys), expected);
        }
        let bytes = 5 * lattice::CIPHERTEXTS_BYTES;
        for (spoil, expected) in [
            (Spoil::Truncate(1), wrong(ciphertexts, bytes - 1)),
            (Spoil::Replace(vec![]), wrong(ciphertexts, 0)),
        ] {
            let (a, b) = memory_pair();
            let (_, keys) = run(Tamper::new(a, 1, spoil), b, &choices, [3, 4]);
            assert_eq!(misbehaviour(keys), expected);
        }
    }

    /// Five functions, with this number of twelve bits at a place.
    fn with_number(at: usize, number: u16) -> Vec<u8> {
        let choices = Choices::random(5, &mut rng(11));
        let (_, functions) = lattice::Receiver::new(&SESSION, &choices, &mut rng(1));
        let mut bytes = functions.as_flattened().to_vec();
        bytes[at] = number as u8;
        bytes[at + 1] = bytes[at + 1] & 0xf0 | (number >> 8) as u8;
        bytes
    }

    /// Swapped OTs and another session's messages give unrelated keys.
    #[test]
    fn replayed_messages_give_unrelated_keys() {
        let choices: Choices = [false, true, true, false].into_iter().collect();
        let (receiver, functions) = lattice::Receiver::new(&SESSION, &choices, &mut rng(8));
        let encapsulate = |session: &[u8; 32], functions: &[lattice::Function]| {
            lattice::encapsulate(session, functions, &mut rng(9)).unwrap()
        };
        let (ciphertexts, honest) = encapsulate(&SESSION, &functions);
        let known: HashSet<lattice::Secret> = receiver
            .secrets(&choices, &ciphertexts)
            .iter()
            .copied()
            .collect();
        let hits = |pairs: &[[lattice::Secret; 2]]| {
            let hits = pairs.as_flattened().iter();
            hits.filter(|secret| known.contains(*secret)).count()
        };
        assert_eq!(hits(&honest), 4);
        assert_eq!(hits(&encapsulate(&[8; 32], &functions).1), 0, "session");
        let moved = [functions[1], functions[2], functions[3], functions[0]];
        let (ciphertexts, _) = encapsulate(&SESSION, &moved);
        let (receiver, _) = lattice::Receiver::new(&SESSION, &choices, &mut rng(8));
        let secrets = receiver.secrets(&choices, &ciphertexts);
        let all: HashSet<lattice::Secret> = honest.as_flattened().iter().copied().collect();
        assert!(secrets.iter().all(|secret| !all.contains(secret)), "place");
    }

    /// Vectors and strings of functions are uniform, whatever the choice, and so are both values.
    #[test]
    fn functions_look_the_same_for_both_choices() {
        let count = 400;
        for choice in [false, true] {
            let choices: Choices = (0..count).map(|_| choice).collect();
            let (_, functions) = lattice::Receiver::new(&SESSION, &choices, &mut rng(6));
            for bit in 0..48 * 8 {
                let is_one = |f: &&lattice::Function| f[32 + bit / 8] >> (bit % 8) & 1 == 1;
                let ones = functions.iter().filter(is_one).count();
                // Six standard deviations of a fair coin.
                assert!(ones.abs_diff(count / 2) < 60, "bit {bit}: {ones}");
            }
            let vectors = functions.iter().map(|f| f[80..].to_vec());
            assert!(is_uniform(vectors), "T of {choice}");
            for b in [0, 1] {
                let values = functions.iter().zip(0..);
                let values = values.map(|(f, i)| base_ot_lattice::evaluate(&SESSION, i, f, b));
                let vectors = values.map(|value| value[..1152].to_vec());
                assert!(is_uniform(vectors.take(60)), "at {b} of {choice}");
            }
        }
        // Small numbers, as a vector of noise has them, are found out.
        let biased = (0..60u32).map(|i| (0..1152).map(|k| ((i * k) % 5) as u8).collect());
        assert!(!is_uniform(biased));
    }

    /// Whether numbers modulo 3329 in these strings are as often in each of 16 classes of their lowest bits, and in each of
    /// 13 parts of the range, as uniform ones: χ² of 15 and 12 degrees of freedom, below what 10^-6 exceed.
    fn is_uniform(vectors: impl Iterator<Item = Vec<u8>>) -> bool {
        let (mut low, mut high, mut all) = ([0u32; 16], [0u32; 13], 0u32);
        for number in vectors.flat_map(|vector| base_ot_lattice::numbers(&vector)) {
            if number >= 3329 {
                return false;
            }
            low[number as usize % 16] += 1;
            high[number as usize / 257] += 1;
            all += 1;
        }
        let chi = |counts: &[u32], weight: &dyn Fn(usize) -> f64| -> f64 {
            let cell = |(i, count): (usize, &u32)| {
                let expected = f64::from(all) * weight(i) / 3329.0;
                (f64::from(*count) - expected).powi(2) / expected
            };
            counts.iter().enumerate().map(cell).sum()
        };
        // 3329 = 16·208 + 1, and 12·257 + 245.
        let of_low = chi(&low, &|i| if i == 0 { 209.0 } else { 208.0 });
        let of_high = chi(&high, &|i| if i == 12 { 245.0 } else { 257.0 });
        of_low < 56.5 && of_high < 50.5
    }

    /// No two ciphertexts share their randomness: under one matrix their first parts, which the message does not enter,
    /// differ.
    #[test]
    fn ciphertexts_share_no_randomness() {
        let choices = Choices::random(1, &mut rng(15));
        let (_, functions) = lattice::Receiver::new(&SESSION, &choices, &mut rng(16));
        let functions = vec![functions[0]; 20];
        let (ciphertexts, _) = lattice::encapsulate(&SESSION, &functions, &mut rng(17)).unwrap();
        let parts = ciphertexts
            .iter()
            .flat_map(|pair| [&pair[..960], &pair[1088..2048]]);
        // Each of the three polynomials of u.
        let polynomials: HashSet<&[u8]> = parts.flat_map(|u| u.chunks(320)).collect();
        assert_eq!(polynomials.len(), 2 * 20 * 3);
    }
}
