//! Quotas over crashes, stops and damage.

use super::*;
use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica_primitives::voprf::{Mode, SecretKey};

fn client(number: u8) -> Fingerprint {
    Fingerprint::from_bytes([number; 32])
}

fn batch(number: u8) -> [u8; 32] {
    [number; 32]
}

fn oprf_key() -> Element {
    SecretKey::derive(Mode::Voprf, &[7; 32], b"test").public_key()
}

/// A new directory with the quotas of a key.
fn place(identity: &Identity) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Quotas::create(directory.path(), identity, &oprf_key()).unwrap();
    directory
}

fn path_in(directory: &Path) -> PathBuf {
    directory.join(name(FILE, &oprf_key()))
}

fn used(quotas: &Quotas, number: u8) -> u64 {
    1_000_000 - quotas.left(client(number), 1_000_000).min(1_000_000)
}

#[test]
fn quotas_are_kept_across_crashes_and_stops() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 10_000_000, 1).unwrap();
    let quotas = open();
    assert_eq!(
        quotas.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Paid
    );
    assert_eq!(used(&quotas, 1), 10);
    // Again: nothing.
    assert_eq!(
        quotas.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Repeated
    );
    assert_eq!(
        quotas.debit(client(2), 1000, batch(1), 300).unwrap(),
        Debit::Paid
    );
    assert_eq!((used(&quotas, 1), used(&quotas, 2)), (10, 300));
    // A crash: nothing is forgotten.
    drop(quotas);
    let quotas = open();
    assert_eq!((used(&quotas, 1), used(&quotas, 2)), (10, 300));
    assert_eq!(
        quotas.debit(client(1), 1000, batch(1), 10).unwrap(),
        Debit::Repeated
    );
    assert_eq!(
        quotas.debit(client(1), 1000, batch(2), 946).unwrap(),
        Debit::Paid
    );
    let refused = quotas.debit(client(1), 1000, batch(3), 100).unwrap_err();
    let words = "the quota of 1000 queries has 44 left, and 100 were asked";
    assert_eq!(refused.to_string(), words);
    assert!(matches!(
        refused,
        WireError::Resource {
            limit: Limit::Queries,
            ..
        }
    ));
    assert_eq!(
        quotas.debit(client(3), 1000, batch(3), 1).unwrap(),
        Debit::Paid
    );
    quotas.close().unwrap();
    drop(quotas);
    let quotas = open();
    assert_eq!(used(&quotas, 3), 1);
    assert_eq!(quotas.answered(), 956 + 300 + 1);
}

#[test]
fn the_key_has_a_cap_of_its_own() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let quotas = Quotas::open(directory.path(), &identity, &oprf_key(), 300, 1).unwrap();
    assert_eq!(
        quotas.debit(client(1), 1000, batch(1), 256).unwrap(),
        Debit::Paid
    );
    // What others have asked counts.
    assert_eq!(quotas.left(client(2), 1000), 300 - 256);
    let refused = quotas.debit(client(2), 1000, batch(2), 45).unwrap_err();
    let words = "the published key answers 44 more queries, and 45 were asked";
    assert_eq!(refused.to_string(), words);
    assert_eq!(
        quotas.debit(client(2), 1000, batch(2), 44).unwrap(),
        Debit::Paid
    );
    assert!(quotas.debit(client(1), 1000, batch(4), 1).is_err());
    // A refused question costs nothing.
    assert_eq!((used(&quotas, 1), quotas.answered()), (1_000_000, 300));
}

/// Whatever byte of the file has changed, it is refused, or says what it said: no count is less than it was.
#[test]
fn damage_is_refused_or_changes_nothing() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let seals = Seals::of(&identity, &oprf_key());
    let quotas = Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    for number in 1..=5 {
        let debit = quotas.debit(client(number), 1 << 30, batch(number), 1000);
        debit.unwrap();
    }
    let read = |bytes: Vec<u8>| Kept::read(bytes, &seals).map(|kept| sum(&kept.accounts));
    // As a killed process leaves it, and as one that has ended.
    let crashed = std::fs::read(path_in(directory.path())).unwrap();
    quotas.close().unwrap();
    drop(quotas);
    let ended = std::fs::read(path_in(directory.path())).unwrap();
    for whole in [crashed, ended] {
        assert_eq!(read(whole.clone()), Some(5000));
        let mut refused = 0;
        for bit in 0..8 * 64 {
            let mut spoilt = whole.clone();
            spoilt[bit / 8] ^= 1 << (bit % 8);
            assert!(read(spoilt).is_none_or(|found| found == 5000), "bit {bit}");
        }
        for at in 0..whole.len() {
            // Pages are 4096 bytes, and most of the last ones are not in use.
            if at >= 512 && at % 13 != 0 {
                continue;
            }
            let mut spoilt = whole.clone();
            spoilt[at] ^= 1 << (at % 8);
            match read(spoilt) {
                None => refused += 1,
                Some(found) => assert_eq!(found, 5000, "{at}"),
            }
        }
        assert!(refused > 100, "{refused}");
        for end in (0..whole.len()).step_by(97) {
            assert!(
                read(whole[..end].to_vec()).is_none_or(|found| found == 5000),
                "{end}"
            );
        }
    }
    assert_eq!(read(Vec::new()), None);
    assert_eq!(read(b"vesica".to_vec()), None);
}

/// Somebody who can write the file, and knows the database's format, but not the keys.
#[test]
fn rows_are_neither_missing_nor_moved() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let path = path_in(directory.path());
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1);
    let quotas = open().unwrap();
    for number in 1..=3 {
        let queries = 1000 * u64::from(number);
        let debit = quotas.debit(client(number), 1 << 30, batch(number), queries);
        debit.unwrap();
    }
    let rows = [1, 2, 3].map(|number| quotas.seals.row(client(number)));
    let head = quotas.seals.head();
    drop(quotas);
    let whole = std::fs::read(&path).unwrap();
    type Change<'a> = &'a dyn Fn(&mut redb::Table<'_, &'static [u8; 32], &'static [u8]>);
    let value = |table: &redb::Table<'_, &'static [u8; 32], &'static [u8]>, row: &Row| {
        table.get(row).unwrap().unwrap().value().to_vec()
    };
    let remove = |table: &mut redb::Table<'_, &'static [u8; 32], &'static [u8]>, row: &Row| {
        table.remove(row).unwrap();
    };
    let changes: [Change<'_>; 5] = [
        &|table| remove(table, &rows[0]),
        &|table| remove(table, &head),
        &|table| {
            let other = value(table, &rows[0]);
            table.insert(&rows[2], &*other).unwrap();
        },
        &|table| {
            table.insert(&[9; 32], &b"short"[..]).unwrap();
        },
        &|table| {
            let mut spoilt = value(table, &rows[1]);
            spoilt[40] ^= 1;
            table.insert(&rows[1], &*spoilt).unwrap();
        },
    ];
    for (number, change) in changes.iter().enumerate() {
        std::fs::write(&path, &whole).unwrap();
        let database = redb::Database::open(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut table = transaction.open_table(ROWS).unwrap();
        change(&mut table);
        drop(table);
        transaction.commit().unwrap();
        drop(database);
        let problem = StoreProblem::Unreadable(FILE);
        let refused =
            matches!(open(), Err(Error::Store { problem: found, .. }) if found == problem);
        assert!(refused, "{number}");
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(open().unwrap().answered(), 6000);
}

/// Who has asked how much is the publisher's, and nobody's who reads the file.
#[test]
fn nothing_is_legible() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let quotas = Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    quotas.debit(client(7), 1 << 30, batch(9), 70_000).unwrap();
    let check = || {
        let file = std::fs::read(path_in(directory.path())).unwrap();
        let has = |bytes: &[u8]| file.windows(bytes.len()).any(|window| window == bytes);
        assert!(!has(&[7; 8]) && !has(&[9; 8]) && !has(&70_000u64.to_le_bytes()));
    };
    check();
    quotas.close().unwrap();
    check();
    assert_eq!(format!("{quotas:?}"), format!("Quotas({:?})", quotas.path));
}

/// Writes of a database, and whether all before them were on the disk.
#[derive(Clone, Debug, Default)]
struct Recorded {
    now: Memory,
    writes: Arc<Mutex<Vec<Write>>>,
}

#[derive(Clone, Debug)]
enum Write {
    Length(u64),
    Bytes(u64, Vec<u8>),
    Synchronised,
}

impl StorageBackend for Recorded {
    fn len(&self) -> io::Result<u64> {
        self.now.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.now.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.writes.lock().unwrap().push(Write::Length(length));
        self.now.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.writes.lock().unwrap().push(Write::Synchronised);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let write = Write::Bytes(offset, data.to_vec());
        self.writes.lock().unwrap().push(write);
        self.now.write(offset, data)
    }
}

/// What was not synchronised may be on the disk or not after a crash of the machine, in any order and in pieces. Whatever was
/// answered is there.
#[test]
fn quotas_whose_blocks_came_in_any_order_are_read() {
    const SECTOR: usize = 512;
    let identity = Identity::generate().unwrap();
    for seed in 0..200u64 {
        let directory = place(&identity);
        let path = path_in(directory.path());
        let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1);
        let mut quotas = open().unwrap();
        let before = std::fs::read(&path).unwrap();
        let recorded = Recorded::default();
        *recorded.now.lock() = before.clone();
        quotas.database = Some(database(recorded.clone()).unwrap());
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut below = |most: usize| (rng.next_u64() % most as u64) as usize;
        // What was used once so many writes were done.
        let mut answered = vec![(0, [0; 3])];
        let mut used_so_far = [0; 3];
        for number in 0..20 {
            let (who, queries) = (below(3), 1 + below(100) as u64);
            let debit = quotas.debit(client(who as u8), 1 << 30, batch(number), queries);
            assert_eq!(debit.unwrap(), Debit::Paid);
            used_so_far[who] += queries;
            answered.push((recorded.writes.lock().unwrap().len(), used_so_far));
        }
        drop(quotas);
        // Up to a moment; what was written since the last synchronisation is there in part.
        let writes = recorded.writes.lock().unwrap();
        let crash = below(writes.len() + 1);
        let synchronised = writes[..crash]
            .iter()
            .rposition(|write| matches!(write, Write::Synchronised))
            .unwrap_or(0);
        let mut file = before;
        for (number, write) in writes[..crash].iter().enumerate() {
            match write {
                Write::Synchronised => {}
                Write::Length(length) => file.resize(*length as usize, 0),
                Write::Bytes(offset, bytes) => {
                    for (sector, bytes) in bytes.chunks(SECTOR).enumerate() {
                        if number < synchronised || below(2) == 0 {
                            let start = *offset as usize + sector * SECTOR;
                            file[start..start + bytes.len()].copy_from_slice(bytes);
                        }
                    }
                }
            }
        }
        std::fs::write(&path, &file).unwrap();
        let quotas = open().unwrap_or_else(|error| panic!("{seed}: {error}"));
        let found = [0, 1, 2].map(|who| used(&quotas, who));
        let sure = answered.iter().rfind(|(writes, _)| *writes <= crash);
        let possible = answered.iter().find(|(writes, _)| *writes > crash);
        let possible = sure.into_iter().chain(possible).map(|(_, used)| *used);
        assert!(
            possible.clone().any(|used| used == found),
            "{seed}: {found:?}"
        );
    }
}

#[test]
fn a_batch_is_repeated_so_often() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let mut quotas = Some(open());
    let debit = |quotas: &Option<Quotas>, number| {
        let quotas = quotas.as_ref().unwrap();
        let debit = quotas.debit(client(1), 1000, batch(number), 10);
        debit.unwrap()
    };
    assert_eq!(debit(&quotas, 1), Debit::Paid);
    assert_eq!(debit(&quotas, 2), Debit::Paid);
    for repeat in 0..MAX_REPEATS {
        // The count is kept over crashes and orderly stops.
        if repeat % 5 == 1 {
            quotas.as_ref().unwrap().close().unwrap();
        }
        if repeat % 3 == 0 {
            quotas = None;
            quotas.get_or_insert_with(open);
        }
        assert_eq!(debit(&quotas, 1), Debit::Repeated, "{repeat}");
    }
    let before = used(quotas.as_ref().unwrap(), 1);
    assert_eq!(debit(&quotas, 2), Debit::Repeated);
    assert_eq!(debit(&quotas, 1), Debit::Paid);
    assert_eq!(used(quotas.as_ref().unwrap(), 1), before + 10);
    // And so often again, for what was paid.
    assert_eq!(debit(&quotas, 1), Debit::Repeated);
}

#[test]
fn what_was_withdrawn_is_answered_no_more() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let quotas = open();
    let debit = |number| quotas.debit(client(1), 1000, batch(number), 10);
    let recall = |number| quotas.recall(client(1), batch(number)).unwrap();
    assert_eq!(debit(1).unwrap(), Debit::Paid);
    assert_eq!((recall(1), recall(2)), (Debit::Repeated, Debit::Withdrawn));
    // As it comes late, over a connection that was lost.
    assert!(matches!(debit(2), Err(WireError::Closed)));
    assert_eq!((recall(2), used(&quotas, 1)), (Debit::Withdrawn, 10));
    // It is this client's alone.
    assert_eq!(
        quotas.debit(client(2), 1000, batch(2), 10).unwrap(),
        Debit::Paid
    );
    assert_eq!(debit(3).unwrap(), Debit::Paid);
    for _ in 1..MAX_REPEATS {
        assert_eq!(recall(1), Debit::Repeated);
    }
    assert_eq!(recall(1), Debit::Withdrawn);
    // Many, and not any number.
    (10..200).for_each(|number| assert_eq!(recall(number), Debit::Withdrawn));
    let row = quotas.seals.row(client(1));
    let kept = || quotas.lock().accounts[&row].withdrawn.len();
    assert_eq!((kept(), used(&quotas, 1)), (192, 20));
    for number in [2, 10, 199] {
        assert!(matches!(debit(number), Err(WireError::Closed)));
    }
    for number in 0..2000u64 {
        let hash = *blake3::hash(&number.to_le_bytes()).as_bytes();
        quotas.recall(client(1), hash).unwrap();
    }
    assert_eq!(kept(), MAX_WITHDRAWN);
    drop(quotas);
    assert_eq!(used(&open(), 1), 20);
}

#[test]
fn what_was_not_answered_is_given_back() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let quotas = open();
    quotas.debit(client(1), 1000, batch(1), 10).unwrap();
    quotas.debit(client(1), 1000, batch(2), 20).unwrap();
    quotas.give_back(client(1), batch(2), 20);
    assert_eq!((used(&quotas, 1), quotas.answered()), (10, 10));
    // It is none of those that cost nothing.
    let again = quotas.debit(client(1), 1000, batch(2), 20).unwrap();
    assert_eq!((again, used(&quotas, 1)), (Debit::Paid, 30));
    quotas.give_back(client(1), batch(2), 20);
    assert_eq!(used(&quotas, 1), 10);
    // On another connection it has been answered meanwhile.
    quotas.debit(client(1), 1000, batch(3), 40).unwrap();
    let repeated = quotas.debit(client(1), 1000, batch(3), 40).unwrap();
    assert_eq!(repeated, Debit::Repeated);
    quotas.give_back(client(1), batch(3), 40);
    quotas.debit(client(1), 1000, batch(4), 5).unwrap();
    quotas.give_back(client(1), batch(4), 5);
    // A crash keeps what was not yet given back on the disk.
    drop(quotas);
    let quotas = open();
    assert_eq!(used(&quotas, 1), 55);
    quotas.give_back(client(1), batch(4), 5);
    quotas.close().unwrap();
    drop(quotas);
    assert_eq!(used(&open(), 1), 50);
}

/// Those who wait while another one writes are written together.
#[test]
fn one_commit_is_for_all_that_wait() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let mut quotas = Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let recorded = Recorded::default();
    *recorded.now.lock() = std::fs::read(&quotas.path).unwrap();
    quotas.database = Some(database(recorded.clone()).unwrap());
    let synchronised = || {
        let writes = recorded.writes.lock().unwrap();
        let is_one = |write: &&Write| matches!(write, Write::Synchronised);
        writes.iter().filter(is_one).count()
    };
    let before = synchronised();
    quotas.debit(client(0), 1 << 30, batch(0), 1).unwrap();
    let of_one = synchronised() - before;
    let before = synchronised();
    std::thread::scope(|scope| {
        let writing = quotas.keeping.lock().unwrap();
        for who in 1..=8 {
            let quotas = &quotas;
            scope.spawn(move || quotas.debit(client(who), 1 << 30, batch(0), 1).unwrap());
        }
        while quotas.lock().changed.len() < 8 {
            std::thread::yield_now();
        }
        drop(writing);
    });
    assert_eq!(synchronised() - before, of_one);
    assert_eq!(quotas.answered(), 9);
}

/// A database whose disk fails at a write or a synchronisation, or whose library does.
#[derive(Clone, Debug)]
struct Failing {
    inner: Recorded,
    left: Arc<AtomicU64>,
    panics: bool,
}

impl Failing {
    fn call(&self) -> io::Result<()> {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left > 0 && left < u64::MAX / 2 {
            return Ok(());
        }
        assert!(!self.panics, "the library gives up");
        Err(io::Error::other("the disk is gone"))
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.call()?;
        self.inner.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call()?;
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call()?;
        self.inner.write(offset, data)
    }
}

/// Nothing is answered after that, and whatever was is there.
#[test]
fn a_disk_that_fails_is_believed_once() {
    let identity = Identity::generate().unwrap();
    for panics in [false, true] {
        for calls in 0..40 {
            let directory = place(&identity);
            let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1);
            let mut quotas = open().unwrap();
            let inner = Recorded::default();
            *inner.now.lock() = std::fs::read(&quotas.path).unwrap();
            let left = Arc::new(AtomicU64::new(u64::MAX / 4));
            let failing = Failing {
                inner: inner.clone(),
                left: Arc::clone(&left),
                panics,
            };
            quotas.database = Some(database(failing).unwrap());
            left.store(calls, Ordering::SeqCst);
            let mut answered = 0;
            let mut has_failed = false;
            for number in 0..12 {
                match quotas.debit(client(1), 1 << 30, batch(number), 10) {
                    Ok(_) => {
                        assert!(!has_failed, "{calls}");
                        answered += 10;
                    }
                    Err(_) => has_failed = true,
                }
            }
            assert!(has_failed, "{calls}");
            assert!(quotas.recall(client(1), batch(0)).is_err());
            quotas.close().unwrap();
            drop(quotas);
            let seals = Seals::of(&identity, &oprf_key());
            let found =
                Kept::read(inner.now.lock().clone(), &seals).map(|kept| sum(&kept.accounts));
            assert!(
                found.is_some_and(|found| found >= answered),
                "{calls}: {found:?} {answered}"
            );
        }
    }
}

/// Clients ask on many threads, and each question is on the disk when it is answered.
#[test]
fn clients_share_waits_for_the_disk() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let mut quotas = open();
    let recorded = Recorded::default();
    *recorded.now.lock() = std::fs::read(&quotas.path).unwrap();
    quotas.database = Some(database(recorded.clone()).unwrap());
    const THREADS: u8 = 8;
    const QUESTIONS: u8 = 40;
    std::thread::scope(|scope| {
        for who in 0..THREADS {
            let (quotas, recorded, seals) = (&quotas, &recorded, Seals::of(&identity, &oprf_key()));
            scope.spawn(move || {
                for number in 0..QUESTIONS {
                    let debit = quotas.debit(client(who), 1 << 30, batch(number), 3);
                    assert_eq!(debit.unwrap(), Debit::Paid);
                    if number % 16 == 0 {
                        let _one = quotas.keeping.lock().unwrap();
                        let kept = Kept::read(recorded.now.lock().clone(), &seals).unwrap();
                        let account = &kept.accounts[&seals.row(client(who))];
                        assert!(account.used >= 3 * (u64::from(number) + 1));
                    }
                }
            });
        }
    });
    let asked = u64::from(THREADS) * u64::from(QUESTIONS);
    assert_eq!(quotas.answered(), 3 * asked);
    let kept = Kept::read(recorded.now.lock().clone(), &quotas.seals).unwrap();
    assert_eq!(sum(&kept.accounts), 3 * asked);
}

#[test]
fn quotas_know_a_later_release_than_an_older_database() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = |release| Quotas::open(directory.path(), &identity, &oprf_key(), 100, release);
    let refused = |last, found| match open(last) {
        Err(Error::Store { problem, .. }) => {
            assert_eq!(problem, StoreProblem::Older { last, found });
        }
        other => panic!("{other:?}"),
    };
    drop(open(2).unwrap());
    refused(1, 2);
    // While it is served: with the next question, and with the next stop.
    let quotas = open(2).unwrap();
    quotas.saw(3);
    quotas.debit(client(1), 1000, batch(1), 10).unwrap();
    drop(quotas);
    refused(2, 3);
    let quotas = open(3).unwrap();
    quotas.saw(4);
    quotas.close().unwrap();
    drop(quotas);
    refused(3, 4);
    open(4).unwrap();
}

/// As where locks do not reach another machine: who came first gives no more answers, and overwrites nothing.
#[test]
fn quotas_that_another_server_has_taken_over_are_left_alone() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1).unwrap();
    let (first, other) = (open(), open());
    let refused = first.debit(client(1), 1000, batch(1), 10).unwrap_err();
    let words = "the count of queries cannot be kept: it was moved or replaced while it was in use";
    assert_eq!(refused.to_string(), words);
    other.debit(client(2), 1000, batch(2), 10).unwrap();
    first.close().unwrap();
    let idle = open();
    other.debit(client(2), 1000, batch(3), 10).unwrap_err();
    let other = open();
    assert_eq!(
        idle.close().unwrap_err().class(),
        vesica_session::ErrorClass::Usage
    );
    assert_eq!(used(&other, 2), 10);
    drop(other);
    assert_eq!(used(&open(), 2), 10);
}

#[test]
fn a_key_is_not_served_without_its_own_quotas() {
    let identity = Identity::generate().unwrap();
    let directory = place(&identity);
    let other = SecretKey::derive(Mode::Voprf, &[8; 32], b"test").public_key();
    let problem = |key: &Element| match Quotas::open(directory.path(), &identity, key, 10, 1) {
        Err(Error::Store { problem, .. }) => problem,
        found => panic!("{found:?}"),
    };
    assert_eq!(problem(&other), StoreProblem::NoQuotas);
    let path = |key: &Element| directory.path().join(name(FILE, key));
    std::fs::rename(path(&oprf_key()), path(&other)).unwrap();
    assert_eq!(problem(&other), StoreProblem::Unreadable(FILE));
    assert_eq!(problem(&oprf_key()), StoreProblem::NoQuotas);
    Quotas::create(directory.path(), &identity, &oprf_key()).unwrap();
    let at = |name: &str| directory.path().join(name);
    // Other people's.
    let files = [
        "quotas-2026.csv",
        "quotas-",
        "quotas-0123456789abcdef0",
        "quotas-0123456789ABCDEF",
        "quotas-0123456789abcde_",
    ];
    let real = std::fs::read(path(&oprf_key())).unwrap();
    for name in files {
        std::fs::write(at(name), &real).unwrap();
    }
    std::fs::write(at("quotas-0123456789abcdef"), "id\n1\n").unwrap();
    std::fs::write(at("ledger-0123456789abcdef"), &real).unwrap();
    std::fs::create_dir(at("quotas-2025")).unwrap();
    std::fs::create_dir(at("quotas-1123456789abcdef")).unwrap();
    std::fs::write(at("ledger-1123456789abcdef"), "vesica ledger 2\n").unwrap();
    Quotas::remove_others(directory.path(), &oprf_key()).unwrap();
    assert!(path(&oprf_key()).exists() && !path(&other).exists());
    assert!(!at("ledger-1123456789abcdef").exists());
    let others = [
        "quotas-0123456789abcdef",
        "ledger-0123456789abcdef",
        "quotas-2025",
        "quotas-1123456789abcdef",
    ];
    for name in files.into_iter().chain(others) {
        assert!(at(name).exists(), "{name}");
    }
}

/// A file of version 2: its head, and records of a client each, with their totals and batches.
fn of_version_2(identity: &Identity, began: u64, records: &[(u8, u64, u8, u64)]) -> Vec<u8> {
    let key = identity.derive_key("vesica/1 ledger of a published set");
    let key: [u8; 32] = blake3::keyed_hash(&key, oprf_key().bytes()).into();
    let (head, salt) = (b"vesica ledger 2\n", [5; 32]);
    let mut file = [&head[..], &salt].concat();
    let mut put = |place: u64, content: &[u8]| {
        let sealed = Sealed::new(&key, &[b"ledger", &salt, &place.to_le_bytes()]);
        sealed.write(head, content, &mut file).unwrap();
    };
    put(0, [began, 1].map(u64::to_le_bytes).as_flattened());
    for (place, (who, total, batch, synchronised)) in (1..).zip(records) {
        let numbers = [0, 1, *synchronised].map(u64::to_le_bytes);
        let batch = [*batch; 32];
        let parts: [&[u8]; 4] = [
            &[*who; 32],
            &total.to_le_bytes(),
            &batch,
            numbers.as_flattened(),
        ];
        put(place, &parts.concat());
    }
    file
}

#[test]
fn quotas_of_version_2_are_taken_over() {
    let identity = Identity::generate().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let former = directory.path().join(name(version_2::FILE, &oprf_key()));
    let open = || Quotas::open(directory.path(), &identity, &oprf_key(), 1 << 40, 1);
    let records = [
        (1, 256, 1, 0),
        (2, 700, 2, 1),
        (1, 512, 3, 2),
        (1, 256, 0, 2),
    ];
    let whole = of_version_2(&identity, 1, &records);
    let (start, record) = (16 + 32 + 32, 112);
    let read = |bytes: &[u8]| {
        let seals = Seals::of(&identity, &oprf_key());
        let kept = version_2::read(bytes, &identity, &oprf_key(), &seals);
        kept.map(|kept| sum(&kept.accounts))
    };
    assert_eq!(read(&whole), Some(512 + 700));
    // Two records were on the disk.
    for at in 0..start + 2 * record {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 1;
        assert_eq!(read(&spoilt), None, "{at}");
    }
    for end in 0..whole.len() {
        let expected = match end.saturating_sub(start) / record {
            0 => None,
            1 => Some(256),
            2 => Some(256 + 700),
            _ => Some(512 + 700),
        };
        assert_eq!(read(&whole[..end]), expected, "{end}");
    }
    std::fs::write(&former, &whole).unwrap();
    // They are not begun anew.
    Quotas::create(directory.path(), &identity, &oprf_key()).unwrap();
    assert!(Quotas::are_in(directory.path(), &oprf_key()));
    let quotas = open().unwrap();
    assert!(!former.exists());
    assert_eq!((used(&quotas, 1), used(&quotas, 2)), (512, 700));
    // Batches that were paid for cost nothing.
    for (who, number) in [(1, 1), (1, 3), (2, 2)] {
        let debit = quotas.debit(client(who), 1000, batch(number), 10).unwrap();
        assert_eq!(debit, Debit::Repeated);
    }
    drop(quotas);
    // As when it was cut while it took them over, and an older server has answered since.
    let more = of_version_2(&identity, 1, &[(1, 256, 1, 0), (2, 956, 4, 1)]);
    std::fs::write(&former, &more).unwrap();
    let quotas = open().unwrap();
    assert_eq!((used(&quotas, 1), used(&quotas, 2)), (512, 956));
    let debit = quotas.debit(client(2), 1000, batch(4), 10).unwrap();
    assert_eq!(debit, Debit::Repeated);
    drop(quotas);
    assert!(!former.exists());
    assert_eq!(open().unwrap().answered(), 512 + 956);
    // Damaged ones are refused, and stay.
    std::fs::remove_file(path_in(directory.path())).unwrap();
    std::fs::write(&former, &whole[..start]).unwrap();
    let problem = StoreProblem::Unreadable(version_2::FILE);
    assert!(matches!(open(), Err(Error::Store { problem: found, .. }) if found == problem));
    assert!(former.exists());
}
