use super::*;
use crate::ideal;
use proptest::prelude::*;
use std::collections::HashSet;
use vesica_reference::ot_extension as reference;
use vesica_testing::{bytes, honest, misbehaviour, rng, try_both};
use vesica_wire::{Spoil, Tamper, memory_pair};

const SESSION: [u8; 32] = [5; 32];

const LEVELS: [Security; 2] = [Security::SemiHonest, Security::Malicious];

fn ends(security: Security, seed: u64) -> (Sender, Receiver) {
    ideal::extension(&SESSION, security, &mut rng(seed))
}

fn choices(count: usize, seed: u64) -> Choices {
    Choices::random(count, &mut rng(seed))
}

fn bit(choices: &Choices, i: usize) -> usize {
    usize::from(choices.get(i).unwrap_u8())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Messages, rows and keys of the first tile, from the definition.
    #[test]
    fn a_tile_matches_the_reference(
        session: [u8; 32],
        s: Block,
        words in prop::collection::vec(any::<[Block; 2]>(), COLUMNS),
        x in prop::collection::vec(any::<Block>(), 2..5),
        seed: u64,
    ) {
        let pairs: [[Block; 2]; COLUMNS] = words.try_into().unwrap();
        let picked: [Block; COLUMNS] = std::array::from_fn(|j| pairs[j][(s >> j & 1) as usize]);
        let level = Security::Malicious;
        let mut receiver = Receiver::new(&session, level, &pairs, &mut rng(seed));
        let mut sender = Sender::new(&session, level, s, &picked);
        prop_assert_eq!(sender.delta(), s);
        let expected = reference::tile(&session, s, &pairs, &x);
        let [mut t, mut q] = [0, 1].map(|_| vec![0; x.len() * COLUMNS]);
        let (matrix, check) = receiver.expand(&x, &mut t);
        prop_assert_eq!(&matrix, &expected.matrix);
        prop_assert_eq!(&check, &Some(expected.check));
        prop_assert_eq!(sender.absorb(&matrix, check.as_deref(), &mut q), Ok(()));
        for (columns, expected) in [(&t, &expected.receiver), (&q, &expected.sender)] {
            let mut rows = vec![0; x.len() * 128];
            transpose128(Backend::Best, bytemuck::must_cast_slice(columns), &mut rows);
            prop_assert_eq!(&rows, expected);
        }
    }

    /// Keys of random transfers, from the correlation.
    #[test]
    fn keys_match_the_reference(seed: u64, x in prop::collection::vec(any::<bool>(), 1..15)) {
        let (x, count) = (x.iter().copied().collect::<Choices>(), x.len());
        // Two extensions that are the same: what one hides the other one shows.
        let [raw, random] = [0, 1].map(|_| ends(Security::Malicious, seed));
        let (mut sender, mut receiver) = raw;
        let (q, t) = honest(|c| sender.correlated(c, count), |c| receiver.correlated(c, &x));
        let delta = sender.delta();
        let (mut sender, mut receiver) = random;
        let (pairs, keys) = honest(|c| sender.random(c, count), |c| receiver.random(c, &x));
        for i in 0..count {
            let key = |row| reference::random_key(&SESSION, i as u64, row);
            prop_assert_eq!(pairs[i], [key(q[i]), key(q[i] ^ delta)]);
            prop_assert_eq!(keys[i], key(t[i]));
        }
    }
}

/// Published answers of one tile.
#[test]
fn known_answers() {
    let text = include_str!("../../../../vectors/ot-extension.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let block = |value: &serde_json::Value| Block::from_le_bytes(bytes(value).try_into().unwrap());
    let blocks = |value: &serde_json::Value| -> Vec<Block> {
        value.as_array().unwrap().iter().map(block).collect()
    };
    let seed = |b: usize, j: usize| {
        let digest = blake3::hash(format!("seed {b} of column {j}").as_bytes());
        Block::from_le_bytes(std::array::from_fn(|i| digest.as_bytes()[i]))
    };
    let session: [u8; 32] = bytes(&vectors["session"]).try_into().unwrap();
    let s = block(&vectors["s"]);
    let pairs: [[Block; 2]; COLUMNS] = std::array::from_fn(|j| [seed(0, j), seed(1, j)]);
    let picked: [Block; COLUMNS] = std::array::from_fn(|j| pairs[j][(s >> j & 1) as usize]);
    let x = blocks(&vectors["choices"]);
    let level = Security::Malicious;

    let mut receiver = Receiver::new(&session, level, &pairs, &mut rng(0));
    let (matrix, check) = receiver.expand(&x, &mut vec![0; x.len() * COLUMNS]);
    let digest = |bytes: &[u8]| blake3::hash(bytes).as_bytes().to_vec();
    assert_eq!(digest(&matrix), bytes(&vectors["blake3_of_matrix"]));
    let check = check.unwrap();
    assert_eq!(digest(&check), bytes(&vectors["blake3_of_check"]));

    let mut sender = Sender::new(&session, level, s, &picked);
    let mut receiver = Receiver::new(&session, level, &pairs, &mut rng(0));
    let used = Zeroizing::new(x[..2].to_vec());
    let used = Choices::from_blocks(used, 256);
    let (ours, theirs) = honest(|c| sender.random(c, 256), |c| receiver.random(c, &used));
    let keys = vectors["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 5);
    for case in keys {
        let row = case["row"].as_u64().unwrap() as usize;
        assert_eq!(ours[row].to_vec(), blocks(&case["sender"]));
        assert_eq!(theirs[row], block(&case["receiver"]));
    }
}

#[test]
fn correlations_hold_at_all_sizes_and_batch_after_batch() {
    for security in LEVELS {
        let (mut sender, mut receiver) = ends(security, 3);
        let delta = sender.delta();
        let mut seen = HashSet::new();
        let tile = tile_rows(security);
        for count in [0, 1, 5, 127, 128, 129, 1000, tile, tile + 1, 2 * tile + 77] {
            let x = choices(count, count as u64);
            let (q, t) = honest(
                |c| sender.correlated(c, count),
                |c| receiver.correlated(c, &x),
            );
            assert_eq!((q.len(), t.len()), (count, count));
            for i in 0..count {
                assert_eq!(q[i] ^ t[i], delta * bit(&x, i) as Block, "{count}: {i}");
                assert!(seen.insert(q[i]), "{count}: {i}");
            }
        }
    }
}

#[test]
fn an_extension_starts_from_base_transfers() {
    for security in LEVELS {
        let x = choices(1001, 4);
        let (pairs, keys) = honest(
            |c| Sender::setup(c, &SESSION, security, &mut rng(5))?.random(c, 1001),
            |c| Receiver::setup(c, &SESSION, security, &mut rng(6))?.random(c, &x),
        );
        for i in 0..1001 {
            assert_eq!(pairs[i][bit(&x, i)], keys[i]);
        }
    }
}

/// The keys are those of the choices; the others and their sums with them are all different.
#[test]
fn random_transfers_are_random() {
    for security in LEVELS {
        for x in [
            choices(3001, 7),
            (0..3001).map(|_| false).collect(),
            (0..3001).map(|_| true).collect(),
        ] {
            let (mut sender, mut receiver) = ends(security, 8);
            let (pairs, keys) = honest(|c| sender.random(c, x.len()), |c| receiver.random(c, &x));
            let mut seen = HashSet::new();
            let mut ones = [0usize; 128];
            for (i, pair) in pairs.iter().enumerate() {
                let c = bit(&x, i);
                assert_eq!(pair[c], keys[i]);
                let sum = pair[0] ^ pair[1];
                assert!(seen.insert(pair[0]) && seen.insert(pair[1]) && seen.insert(sum));
                (0..128).for_each(|b| ones[b] += (sum >> b & 1) as usize);
            }
            for ones in ones {
                // Six standard deviations of a fair coin.
                assert!(ones.abs_diff(1500) < 165, "{ones}");
            }
        }
    }
}

/// Every bit of the matrix and of the hash of the choices is a fair coin, whatever the choices.
#[test]
fn messages_look_the_same_for_all_choices() {
    let runs = 400;
    for choice in [false, true] {
        let x: Choices = (0..128).map(|_| choice).collect();
        let mut ones = vec![0usize; 2 * COLUMNS * 128 + 128];
        for seed in 0..runs {
            let (_, mut receiver) = ends(Security::Malicious, seed);
            let (matrix, hashes) = message(&mut receiver, &x);
            let bytes = matrix.iter().chain(&hashes[..16]);
            for (i, byte) in bytes.enumerate() {
                (0..8).for_each(|b| ones[8 * i + b] += usize::from(byte >> b & 1));
            }
        }
        for ones in ones {
            // Seven standard deviations of a fair coin: there are many counts here.
            assert!(ones.abs_diff(200) < 70, "{ones}");
        }
    }
}

/// The receiver's message for one tile.
fn message(receiver: &mut Receiver, choices: &Choices) -> (Vec<u8>, Vec<u8>) {
    let mut x = choices.blocks().to_vec();
    x.push(receiver.unused.next_block());
    let mut columns = vec![0; x.len() * COLUMNS];
    let (matrix, check) = receiver.expand(&x, &mut columns);
    (matrix, check.unwrap())
}

fn absorb(sender: &mut Sender, matrix: &[u8], check: &[u8]) -> Result<(), Misbehaviour> {
    let mut columns = vec![0; matrix.len() / 16];
    sender.absorb(matrix, Some(check), &mut columns)
}

fn caught() -> Misbehaviour {
    Misbehaviour::BadValue {
        what: "transfer check",
        problem: "not what the matrix leads to",
    }
}

#[test]
fn a_wrong_value_in_any_place_is_caught() {
    let x = choices(500, 15);
    for place in 0..=COLUMNS {
        let (mut sender, mut receiver) = ends(Security::Malicious, 16);
        let (matrix, mut check) = message(&mut receiver, &x);
        check[16 * place + place % 16] ^= 1 << (place % 8);
        assert_eq!(
            absorb(&mut sender, &matrix, &check),
            Err(caught()),
            "{place}"
        );
    }
    for column in 0..COLUMNS {
        let (mut sender, mut receiver) = ends(Security::Malicious, 16);
        let (mut matrix, check) = message(&mut receiver, &x);
        let length = matrix.len() / COLUMNS;
        matrix[length * column + column % length] ^= 1 << (column % 8);
        assert_eq!(
            absorb(&mut sender, &matrix, &check),
            Err(caught()),
            "{column}"
        );
    }
    let (mut sender, mut receiver) = ends(Security::Malicious, 16);
    let (matrix, check) = message(&mut receiver, &x);
    assert_eq!(absorb(&mut sender, &matrix, &check), Ok(()));
}

/// The best that a receiver can do which uses other choices in some columns: it guesses the sender's
/// bits there, and is caught unless all guesses are right.
fn cheat(
    seed: u64,
    columns: &[usize],
    guess: impl Fn(usize) -> bool,
) -> (Block, Result<(), Misbehaviour>) {
    let (mut sender, mut receiver) = ends(Security::Malicious, seed);
    let x = choices(640, seed);
    let first = receiver.state.position;
    let (mut matrix, mut check) = message(&mut receiver, &x);
    let length = matrix.len() / COLUMNS;
    let pieces = length / 16;
    // Two of the choices are turned, one of them in a piece of its own.
    let turned = |j: usize| [(0, 1 << j), (3, 1 << (127 - j))] as [(usize, Block); 2];
    for j in columns {
        for (piece, change) in turned(*j) {
            let place = &mut matrix[j * length + piece * 16..][..16];
            place
                .iter_mut()
                .zip(change.to_le_bytes())
                .for_each(|(m, c)| *m ^= c);
        }
    }
    // Hashes are linear: those of the honest columns under the new challenge, and of what was turned.
    let challenge = receiver.state.challenger.challenge(first, &matrix, pieces);
    let (_, mut again) = ends(Security::Malicious, seed);
    let mut honest = x.blocks().to_vec();
    honest.push(again.unused.next_block());
    let mut own = vec![0; honest.len() * COLUMNS];
    again.expand(&honest, &mut own);
    check.copy_from_slice(&challenge.answer(&honest, &own));
    for j in columns {
        if guess(*j) {
            let mut difference = vec![0; pieces];
            turned(*j)
                .into_iter()
                .for_each(|(piece, change)| difference[piece] = change);
            let error = challenge.hash(&difference).to_le_bytes();
            let place = &mut check[16 * (1 + j)..][..16];
            place.iter_mut().zip(error).for_each(|(c, e)| *c ^= e);
        }
    }
    (sender.delta(), absorb(&mut sender, &matrix, &check))
}

#[test]
fn other_choices_in_some_columns_are_caught_unless_the_sender_s_bits_are_guessed() {
    let right = |seed: u64, columns: &[usize], guess: bool| {
        let (s, result) = cheat(seed, columns, |_| guess);
        let lucky = columns.iter().all(|j| (s >> j & 1 == 1) == guess);
        assert_eq!(result, if lucky { Ok(()) } else { Err(caught()) }, "{seed}");
        usize::from(lucky)
    };
    for j in 0..COLUMNS {
        assert_eq!(right(17, &[j], false) + right(17, &[j], true), 1, "{j}");
    }
    // Six standard deviations around a half and an eighth.
    let one: usize = (0..400).map(|seed| right(seed, &[77], seed % 2 == 0)).sum();
    assert!(one.abs_diff(200) < 60, "{one}");
    let three: usize = (0..400)
        .map(|seed| right(seed, &[0, 64, 127], seed % 2 == 0))
        .sum();
    assert!(three.abs_diff(50) < 40, "{three}");
    let all: Vec<usize> = (0..COLUMNS).collect();
    assert_eq!(right(18, &all[1..], false), 0);
    // With all bits known nothing can be caught, which shows that the guesses above were the best ones.
    let (s, _) = cheat(19, &[], |_| false);
    assert_eq!(cheat(19, &all, |j| s >> j & 1 == 1), (s, Ok(())));
}

/// Session, place and matrix are part of the challenge.
#[test]
fn challenges_depend_on_all_that_was_said() {
    let column: Vec<Block> = (1..=7).map(|i| (i << 120) | (i * i)).collect();
    let hash = |session, first, matrix| {
        let challenge = Challenger::new(session).challenge(first, matrix, 7);
        challenge.hash(&column)
    };
    let hashes = [
        hash(&SESSION, 7, &[1; 16]),
        hash(&[6; 32], 7, &[1; 16]),
        hash(&SESSION, 8, &[1; 16]),
        hash(&SESSION, 7, &[2; 16]),
    ];
    let distinct: HashSet<Block> = hashes.into_iter().collect();
    assert_eq!(distinct.len(), 4);
}

proptest! {
    #[test]
    fn the_check_is_linear(seed: u64, a in prop::collection::vec(any::<Block>(), 5), b in prop::collection::vec(any::<Block>(), 5)) {
        let challenge = Challenger::new(&SESSION).challenge(seed, &[], 5);
        let sum: Vec<Block> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
        prop_assert_eq!(challenge.hash(&sum), challenge.hash(&a) ^ challenge.hash(&b));
    }
}

/// A flipped bit of the matrix is found even in a column that the sender does not look at, and tells the digests of
/// both sides apart.
#[test]
fn flipped_bits_of_the_matrix_are_found_in_every_column() {
    for flipped in (0..=COLUMNS).map(|column| column.checked_sub(1)) {
        let (mut sender, mut receiver) = ends(Security::Malicious, 3);
        let (sending, receiving) = memory_pair();
        // Two pieces of 128 rows, the second one unused; the last byte of the column.
        let bit = flipped.map_or(0, |column| (column * 32 + 31) * 8 + 7);
        let frame = if flipped.is_some() { 0 } else { usize::MAX };
        let receiving = Tamper::new(receiving, frame, Spoil::FlipBit(bit));
        let choices = choices(100, 4);
        let (sent, received) = try_both(
            (sending, receiving),
            |channel| sender.random(channel, 100),
            |channel| receiver.random(channel, &choices),
        );
        // The receiver has nothing to wait for.
        assert!(received.is_ok());
        if flipped.is_some() {
            assert_eq!(misbehaviour(sent), caught());
            assert_ne!(sender.matrices(), receiver.matrices());
        } else {
            assert!(sent.is_ok());
            assert_eq!(sender.matrices(), receiver.matrices());
            assert_ne!(*sender.matrices(), [0; 32]);
        }
    }
}

/// Frames of the receiver: matrix and check of the first batch, of the second.
#[test]
fn wrong_and_replayed_frames_are_refused_for_good() {
    let (matrix, check) = (3 * COLUMNS * 16, CHECK_BYTES);
    let wrong = |what, bytes| Misbehaviour::WrongLength { what, bytes };
    let long = |what, bytes, max| Misbehaviour::TooLong { what, bytes, max };
    let kind = |expected| Misbehaviour::UnexpectedFrame { expected, got: 99 };
    for (frame, spoil, expected) in [
        (
            0,
            Spoil::Truncate(16),
            wrong("transfer matrix", matrix - 16),
        ),
        (0, Spoil::Replace(vec![]), wrong("transfer matrix", 0)),
        (
            0,
            Spoil::Extend(vec![0]),
            long("transfer matrix", matrix as u64 + 1, matrix as u64),
        ),
        (0, Spoil::Kind(99), kind("transfer matrix")),
        (0, Spoil::FlipBit(4000), caught()),
        (1, Spoil::Truncate(1), wrong("transfer check", check - 1)),
        (
            1,
            Spoil::Extend(vec![0; 16]),
            long("transfer check", check as u64 + 16, check as u64),
        ),
        (1, Spoil::Kind(99), kind("transfer check")),
        (1, Spoil::FlipBit(130), caught()),
        (2, Spoil::FlipBit(0), caught()),
        (3, Spoil::FlipBit(2063 * 8), caught()),
    ] {
        let (mut sender, mut receiver) = ends(Security::Malicious, 22);
        let x = choices(200, 23);
        let (a, b) = memory_pair();
        let (sent, _) = try_both(
            (a, Tamper::new(b, frame, spoil)),
            |c| {
                sender.random(c, 200)?;
                sender.random(c, 200)
            },
            |c| {
                receiver.random(c, &x)?;
                receiver.random(c, &x)
            },
        );
        assert_eq!(misbehaviour(sent), expected);
        // Nothing is read any more: the same error, though nobody is there to send.
        let (mut a, _b) = memory_pair();
        assert_eq!(misbehaviour(sender.correlated(&mut a, 1)), expected);
    }

    let (mut sender, mut receiver) = ends(Security::Malicious, 24);
    let (matrix, check) = message(&mut receiver, &choices(200, 25));
    assert_eq!(absorb(&mut sender, &matrix, &check), Ok(()));
    assert_eq!(absorb(&mut sender, &matrix, &check), Err(caught()));
}
