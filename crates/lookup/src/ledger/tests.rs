//! Quotas over crashes, stops and damage.

use super::*;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_primitives::voprf::{Mode, SecretKey};

/// Where the records begin.
const START: usize = MAGIC.len() + SALT + HEAD;

fn client(number: u8) -> Fingerprint {
    Fingerprint::from_bytes([number; 32])
}

fn batch(number: u8) -> [u8; 32] {
    [number; 32]
}

fn oprf_key() -> Element {
    SecretKey::derive(Mode::Voprf, &[7; 32], b"test").public_key()
}

/// A new directory with the ledger of a key.
fn place(identity: &Identity) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Ledger::create(directory.path(), identity, &oprf_key()).unwrap();
    directory
}

fn used(ledger: &Ledger, number: u8) -> u64 {
    1_000_000 - ledger.left(client(number), 1_000_000).min(1_000_000)
}

#[test]
fn quotas_are_kept_across_crashes_and_stops() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 10_000_000, 1).unwrap();
    let ledger = open();
    assert_eq!(
        ledger.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Paid
    );
    assert_eq!(used(&ledger, 1), 10);
    // Again: nothing.
    assert_eq!(
        ledger.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Repeated
    );
    assert_eq!(
        ledger.debit(client(2), 1000, batch(1), 300).unwrap(),
        Debit::Paid
    );
    assert_eq!((used(&ledger, 1), used(&ledger, 2)), (10, 300));
    // A crash: the block is gone, the batches are known.
    drop(ledger);
    let ledger = open();
    assert_eq!((used(&ledger, 1), used(&ledger, 2)), (BLOCK, 300));
    assert_eq!(
        ledger.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Repeated
    );
    assert_eq!(
        ledger.debit(client(1), 1000, batch(2), 700).unwrap(),
        Debit::Paid
    );
    let refused = ledger.debit(client(1), 1000, batch(3), 100).unwrap_err();
    let words = "the quota of 1000 queries has 44 left, and 100 were asked";
    assert_eq!(refused.to_string(), words);
    assert!(matches!(
        refused,
        WireError::Resource {
            limit: Limit::Queries,
            ..
        }
    ));
    // A stop: what was reserved and not used comes back.
    assert_eq!(
        ledger.debit(client(3), 1000, batch(3), 1).unwrap(),
        Debit::Paid
    );
    ledger.close().unwrap();
    drop(ledger);
    let ledger = open();
    assert_eq!(used(&ledger, 3), 1);
    assert_eq!(ledger.answered(), 956 + 300 + 1);
}

#[test]
fn the_key_has_a_cap_of_its_own() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let ledger = Ledger::open(directory.path(), &identity, &oprf_key(), 300, 1).unwrap();
    assert_eq!(
        ledger.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Paid
    );
    // The block of the other client counts.
    assert_eq!(ledger.left(client(2), 1000), 300 - BLOCK);
    let refused = ledger.debit(client(2), 1000, batch(2), 45).unwrap_err();
    let words = "the published key answers 44 more queries, and 45 were asked";
    assert_eq!(refused.to_string(), words);
    assert_eq!(
        ledger.debit(client(2), 1000, batch(2), 44).unwrap(),
        Debit::Paid
    );
    assert_eq!(
        ledger.debit(client(1), 1000, batch(3), 246).unwrap(),
        Debit::Paid
    );
    assert!(ledger.debit(client(1), 1000, batch(4), 1).is_err());
}

#[test]
fn torn_ends_are_cut_and_other_damage_is_refused() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let path = directory.path().join(Ledger::name(&oprf_key()));
    let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1);
    let ledger = open().unwrap();
    for number in 1..=5 {
        ledger
            .debit(client(number), 1 << 30, batch(number), 1000)
            .unwrap();
    }
    drop(ledger);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(whole.len(), START + 5 * RECORD);
    // The last record says that four were on the disk.
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let problem = StoreProblem::Unreadable(FILE);
        matches!(open(), Err(Error::Store { problem: found, .. }) if found == problem)
    };
    for at in START..START + 4 * RECORD {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 1;
        assert!(refused(&spoilt), "{at}");
    }
    for end in START + 4 * RECORD..whole.len() {
        std::fs::write(&path, &whole[..end]).unwrap();
        assert_eq!(open().unwrap().answered(), 4000, "{end}");
    }
    // Zeros, as a file system may leave them.
    let mut zeros = whole.clone();
    zeros[START + 4 * RECORD..].fill(0);
    std::fs::write(&path, &zeros).unwrap();
    assert_eq!(open().unwrap().answered(), 4000);
    // What the file began with is not a torn end.
    std::fs::write(&path, &whole).unwrap();
    drop(open().unwrap());
    let whole = std::fs::read(&path).unwrap();
    for end in 0..whole.len() {
        assert!(refused(&whole[..end]), "{end}");
    }
    let mut moved = whole.clone();
    moved.drain(START..START + RECORD);
    assert!(refused(&moved));
    let mut exchanged = whole.clone();
    let (one, two) = exchanged[START..].split_at_mut(RECORD);
    one.swap_with_slice(&mut two[..RECORD]);
    assert!(refused(&exchanged));
    assert!(refused(b"vesica"));
}

/// Who has asked how much is the publisher's, and nobody's who reads the file.
#[test]
fn nothing_is_legible() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let ledger = Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    ledger.debit(client(7), 1 << 30, batch(9), 1000).unwrap();
    let check = || {
        let file = std::fs::read(directory.path().join(Ledger::name(&oprf_key()))).unwrap();
        let has = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
        assert!(!has(&[7; 8]) && !has(&[9; 8]) && !has(&1000u64.to_le_bytes()));
    };
    check();
    ledger.close().unwrap();
    check();
    assert_eq!(format!("{ledger:?}"), format!("Ledger({:?})", ledger.path));
}

/// What was not synchronised may be on the disk or not after a crash of the machine, in any order.
#[test]
fn a_ledger_whose_blocks_came_in_any_order_is_read() {
    let identity = Identity::generate().unwrap();
    for seed in 0..60u64 {
        let directory = place(&identity);
        let path = directory.path().join(Ledger::name(&oprf_key()));
        let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1);
        let ledger = open().unwrap();
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |most: u64| rng.next_u64() % most;
        let mut answered = [0; 3];
        for number in 0..20 {
            let (who, queries) = (below(3), 1 + below(100));
            let batch = batch(number);
            let debit = ledger.debit(client(who as u8), 1 << 30, batch, queries);
            assert_eq!(debit.unwrap(), Debit::Paid);
            answered[who as usize] += queries;
        }
        let safe = ledger.synchronised.load(Ordering::Acquire) as usize;
        drop(ledger);
        let mut file = std::fs::read(&path).unwrap();
        for place in safe..20 {
            if below(2) == 0 {
                file[START + place * RECORD..][..RECORD].fill(0);
            }
        }
        if below(2) == 0 {
            let least = START + safe * RECORD;
            let end = least as u64 + below((file.len() - least) as u64 + 1);
            file.truncate(end as usize);
        }
        std::fs::write(&path, &file).unwrap();
        let ledger = open().unwrap_or_else(|error| panic!("{seed}: {error}"));
        for (who, answered) in answered.iter().enumerate() {
            let used = used(&ledger, who as u8);
            let most = answered + BLOCK;
            assert!((*answered..most).contains(&used), "{seed}: {used}");
        }
    }
}

#[test]
fn a_batch_is_repeated_so_often() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let mut ledger = open();
    let debit = |ledger: &Ledger, number| {
        let debit = ledger.debit(client(1), 1000, batch(number), 10);
        debit.unwrap()
    };
    assert_eq!(debit(&ledger, 1), Debit::Paid);
    assert_eq!(debit(&ledger, 2), Debit::Paid);
    for repeat in 0..MAX_REPEATS {
        // The count is kept over crashes and orderly stops.
        if repeat % 5 == 1 {
            ledger.close().unwrap();
        }
        if repeat % 3 == 0 {
            drop(ledger);
            ledger = open();
        }
        assert_eq!(debit(&ledger, 1), Debit::Repeated, "{repeat}");
    }
    let before = used(&ledger, 1);
    assert_eq!(debit(&ledger, 2), Debit::Repeated);
    assert_eq!(
        (debit(&ledger, 1), used(&ledger, 1)),
        (Debit::Paid, before + 10)
    );
    // And so often again, for what was paid.
    assert_eq!(debit(&ledger, 1), Debit::Repeated);
}

#[test]
fn what_was_withdrawn_is_answered_no_more() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let ledger = open();
    let debit = |number| ledger.debit(client(1), 1000, batch(number), 10);
    let recall = |number| ledger.recall(client(1), batch(number)).unwrap();
    assert_eq!(debit(1).unwrap(), Debit::Paid);
    assert_eq!((recall(1), recall(2)), (Debit::Repeated, Debit::Withdrawn));
    // As it comes late, over a connection that was lost.
    assert!(matches!(debit(2), Err(WireError::Closed)));
    assert_eq!((recall(2), used(&ledger, 1)), (Debit::Withdrawn, 10));
    // It is this client's alone.
    assert_eq!(
        ledger.debit(client(2), 1000, batch(2), 10).unwrap(),
        Debit::Paid
    );
    assert_eq!(debit(3).unwrap(), Debit::Paid);
    for _ in 1..MAX_REPEATS {
        assert_eq!(recall(1), Debit::Repeated);
    }
    assert_eq!(recall(1), Debit::Withdrawn);
    // Many, and not any number.
    (10..200).for_each(|number| assert_eq!(recall(number), Debit::Withdrawn));
    let kept = || ledger.lock().accounts[&client(1)].withdrawn.len();
    assert_eq!((kept(), used(&ledger, 1)), (192, 20));
    for number in [2, 10, 199] {
        assert!(matches!(debit(number), Err(WireError::Closed)));
    }
    for number in 0..2000u64 {
        let hash = *blake3::hash(&number.to_le_bytes()).as_bytes();
        ledger.recall(client(1), hash).unwrap();
    }
    assert_eq!(kept(), MAX_WITHDRAWN);
    drop(ledger);
    assert_eq!(used(&open(), 1), BLOCK);
}

#[test]
fn what_was_not_answered_is_given_back() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let ledger = open();
    ledger.debit(client(1), 1000, batch(1), 10).unwrap();
    ledger.debit(client(1), 1000, batch(2), 20).unwrap();
    ledger.give_back(client(1), batch(2), 20);
    assert_eq!(used(&ledger, 1), 10);
    // It is none of those that cost nothing.
    let again = ledger.debit(client(1), 1000, batch(2), 20).unwrap();
    assert_eq!((again, used(&ledger, 1)), (Debit::Paid, 30));
    ledger.give_back(client(1), batch(2), 20);
    assert_eq!(used(&ledger, 1), 10);
    // On another connection it has been answered meanwhile.
    ledger.debit(client(1), 1000, batch(3), 40).unwrap();
    let repeated = ledger.debit(client(1), 1000, batch(3), 40).unwrap();
    assert_eq!(repeated, Debit::Repeated);
    ledger.give_back(client(1), batch(3), 40);
    ledger.close().unwrap();
    drop(ledger);
    assert_eq!(used(&open(), 1), 50);
}

#[test]
fn a_ledger_knows_a_later_release_than_an_older_database() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = |release| Ledger::open(directory.path(), &identity, &oprf_key(), 100, release);
    let refused = |last, found| match open(last) {
        Err(Error::Store { problem, .. }) => {
            assert_eq!(problem, StoreProblem::Older { last, found });
        }
        other => panic!("{other:?}"),
    };
    drop(open(2).unwrap());
    refused(1, 2);
    // While it is served: with the next record, and with the next stop.
    let ledger = open(2).unwrap();
    ledger.saw(3);
    ledger.debit(client(1), 1000, batch(1), 10).unwrap();
    drop(ledger);
    refused(2, 3);
    let ledger = open(3).unwrap();
    ledger.saw(4);
    ledger.close().unwrap();
    drop(ledger);
    refused(3, 4);
    open(4).unwrap();
}

/// As where locks do not reach another machine: who came first gives no more answers, and overwrites nothing.
#[test]
fn a_ledger_that_another_server_has_taken_over_is_left_alone() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Ledger::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let (first, other) = (open(), open());
    let refused = first.debit(client(1), 1000, batch(1), 10).unwrap_err();
    let words = "the count of queries cannot be kept: it was moved or replaced while it was in use";
    assert_eq!(refused.to_string(), words);
    other.debit(client(2), 1000, batch(2), 10).unwrap();
    first.close().unwrap();
    let idle = open();
    other.debit(client(2), 1000, batch(3), 10).unwrap();
    assert_eq!(
        other.close().unwrap_err().class(),
        vesica_session::ErrorClass::Usage
    );
    assert_eq!(used(&idle, 2), BLOCK);
    assert_eq!(used(&open(), 2), BLOCK);
}

#[test]
fn a_key_is_not_served_without_its_own_ledger() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let other = SecretKey::derive(Mode::Voprf, &[8; 32], b"test").public_key();
    let problem = |key: &Element| match Ledger::open(directory.path(), &identity, key, 10, 1) {
        Err(Error::Store { problem, .. }) => problem,
        found => panic!("{found:?}"),
    };
    assert_eq!(problem(&other), StoreProblem::NoLedger);
    let path = |key: &Element| directory.path().join(Ledger::name(key));
    std::fs::rename(path(&oprf_key()), path(&other)).unwrap();
    assert_eq!(problem(&other), StoreProblem::Unreadable(FILE));
    assert_eq!(problem(&oprf_key()), StoreProblem::NoLedger);
    Ledger::create(directory.path(), &identity, &oprf_key()).unwrap();
    let at = |name: &str| directory.path().join(name);
    // Other people's.
    let files = [
        "ledger-2026.csv",
        "ledger-",
        "ledger-0123456789abcdef0",
        "ledger-0123456789ABCDEF",
        "ledger-0123456789abcde_",
    ];
    let real = std::fs::read(path(&oprf_key())).unwrap();
    for name in files {
        std::fs::write(at(name), &real).unwrap();
    }
    std::fs::write(at("ledger-0123456789abcdef"), "id\n1\n").unwrap();
    std::fs::create_dir(at("ledger-2025")).unwrap();
    std::fs::create_dir(at("ledger-1123456789abcdef")).unwrap();
    Ledger::remove_others(directory.path(), &oprf_key()).unwrap();
    assert!(path(&oprf_key()).exists() && !path(&other).exists());
    let others = [
        "ledger-0123456789abcdef",
        "ledger-2025",
        "ledger-1123456789abcdef",
    ];
    for name in files.into_iter().chain(others) {
        assert!(at(name).exists(), "{name}");
    }
}
