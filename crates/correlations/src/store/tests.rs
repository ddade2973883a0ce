use super::*;
use tempfile::TempDir;

const NAME: Name = Name([0xab; 16]);

fn store(key: u8) -> (Store, TempDir) {
    let directory = TempDir::new().unwrap();
    let store = Store::open(&directory.path().join("store"), Zeroizing::new([key; 32])).unwrap();
    (store, directory)
}

fn problem<T: std::fmt::Debug>(result: Result<T, StoreError>) -> &'static str {
    match result.unwrap_err() {
        StoreError::Bad { problem, .. } => problem,
        error => panic!("{error}"),
    }
}

#[test]
fn what_is_put_is_taken_once() {
    let (store, _directory) = store(1);
    for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
        let name = Name([length as u8 ^ 0x55; 16]);
        let name = Name(
            [name.0[0], (length >> 8) as u8, (length >> 20) as u8, 4]
                .repeat(4)
                .try_into()
                .unwrap(),
        );
        let content: Vec<u8> = (0..length).map(|i| (i * 7) as u8).collect();
        store.put(name, b"header", &content).unwrap();
        store.verify(name).unwrap();
        let (header, taken) = store.take(name).unwrap();
        assert_eq!(
            (&header[..], &taken[..]),
            (&b"header"[..], &content[..]),
            "{length}"
        );
        assert_eq!(problem(store.take(name)), "this half was used before");
        assert_eq!(
            problem(store.put(name, b"", b"")),
            "the store has or had a half of this name"
        );
    }
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_copy_that_is_put_back_is_refused() {
    let (store, directory) = store(1);
    store.put(NAME, b"header", b"content").unwrap();
    let file = directory.path().join("store").join(file_of(NAME));
    let copy = fs::read(&file).unwrap();
    store.take(NAME).unwrap();
    assert!(!file.exists());
    fs::write(&file, copy).unwrap();
    assert!(store.list().unwrap()[0].is_used);
    assert_eq!(problem(store.take(NAME)), "this half was used before");
    // So it is after a crash in the middle of the ledger.
    let ledger = directory.path().join("store").join(LEDGER);
    let names = fs::read(&ledger).unwrap();
    fs::write(&ledger, [&names[..], &[1, 2, 3]].concat()).unwrap();
    store.put(Name([1; 16]), b"", b"other").unwrap();
    store.take(Name([1; 16])).unwrap();
    assert_eq!(problem(store.take(NAME)), "this half was used before");
    assert_eq!(
        problem(store.put(Name([1; 16]), b"", b"")),
        "the store has or had a half of this name"
    );
}

/// Every byte of a file counts, and so does its end.
#[test]
fn changed_files_are_refused_and_stay() {
    let (store, directory) = store(1);
    let content = vec![9; PIECE + 100];
    store.put(NAME, b"header", &content).unwrap();
    let file = directory.path().join("store").join(file_of(NAME));
    let good = fs::read(&file).unwrap();
    assert!(!good.windows(64).any(|bytes| bytes == [9; 64]), "encrypted");
    let places = (0..40).chain([PIECE, PIECE + 40, good.len() - 1]);
    for place in places {
        let mut bad = good.clone();
        bad[place] ^= 1;
        fs::write(&file, &bad).unwrap();
        assert!(store.verify(NAME).is_err(), "{place}");
        assert!(store.take(NAME).is_err(), "{place}");
        assert_eq!(fs::read(&file).unwrap(), bad);
    }
    let piece = PIECE + TAG;
    for length in [0, 5, 12, 18, 18 + 16, 18 + piece, good.len() - 1] {
        fs::write(&file, &good[..length]).unwrap();
        assert!(store.take(NAME).is_err(), "{length}");
    }
    fs::write(&file, [&good[..], &[0]].concat()).unwrap();
    assert!(store.take(NAME).is_err());
    fs::write(&file, &good).unwrap();
    let mut renamed = NAME;
    renamed.0[0] ^= 1;
    fs::rename(&file, file.with_file_name(file_of(renamed))).unwrap();
    assert_eq!(
        problem(store.take(renamed)),
        "damaged, or written by another identity"
    );
    fs::rename(file.with_file_name(file_of(renamed)), &file).unwrap();
    store.take(NAME).unwrap();
}

#[test]
fn only_the_key_reads() {
    let (ours, directory) = store(1);
    ours.put(NAME, b"header", b"content").unwrap();
    let theirs = Store::open(&directory.path().join("store"), Zeroizing::new([2; 32])).unwrap();
    assert_eq!(theirs.list().unwrap()[0].header, b"header");
    assert_eq!(
        problem(theirs.verify(NAME)),
        "damaged, or written by another identity"
    );
    assert_eq!(
        problem(theirs.take(NAME)),
        "damaged, or written by another identity"
    );
    ours.take(NAME).unwrap();
}

#[cfg(unix)]
#[test]
fn directories_of_others_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    let open = || Store::open(&path, Zeroizing::new([1; 32]));
    let store = open().unwrap();
    store.put(NAME, b"", b"").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(&path), mode(&store.path(&file_of(NAME)))),
        (0o700, 0o600)
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
    assert_eq!(problem(open()), "other users may write to this directory");
}

/// Of two runs that want the same half, one gets it.
#[test]
fn two_takers_do_not_share() {
    let (store, _directory) = store(1);
    for round in 0..20 {
        let name = Name([round; 16]);
        store.put(name, b"", &[round; 1000]).unwrap();
        let taken = std::thread::scope(|scope| {
            let take = || store.take(name).is_ok();
            let [a, b] = [scope.spawn(take), scope.spawn(take)];
            u32::from(a.join().unwrap()) + u32::from(b.join().unwrap())
        });
        assert_eq!(taken, 1);
    }
}
