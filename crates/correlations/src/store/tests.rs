use super::*;
use tempfile::TempDir;
use vesica_primitives::sealed::{PIECE, TAG};
use vesica_testing::{Script, array, bytes, rng};

const NAME: Name = Name([0xab; 16]);

fn store(key: u8) -> (Store, TempDir) {
    let directory = TempDir::new().unwrap();
    (open(&directory, key), directory)
}

fn open(directory: &TempDir, key: u8) -> Store {
    Store::new(directory.path(), Zeroizing::new([key; 32]))
}

fn put(store: &Store, name: Name, content: &[u8]) -> Result<(), StoreError> {
    store.put(name, b"header", content, &mut rng(7))
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
        put(&store, name, &content).unwrap();
        store.verify(name).unwrap();
        let (header, taken) = store.take(name).unwrap();
        assert_eq!(
            (&header[..], &taken[..]),
            (&b"header"[..], &content[..]),
            "{length}"
        );
        assert_eq!(problem(store.take(name)), "this half was used before");
        assert_eq!(
            problem(put(&store, name, b"")),
            "the store has or had a half of this name"
        );
    }
    assert!(store.list().unwrap().is_empty());
}

#[test]
fn a_copy_that_is_put_back_is_refused() {
    let (store, directory) = store(1);
    put(&store, NAME, b"content").unwrap();
    let file = directory.path().join(format!("{NAME}.half"));
    let copy = fs::read(&file).unwrap();
    store.take(NAME).unwrap();
    assert!(!file.exists());
    fs::write(&file, copy).unwrap();
    assert!(store.list().unwrap()[0].is_used);
    assert_eq!(problem(store.take(NAME)), "this half was used before");
    // Removing the copy leaves the name used, and so does removing a half that nobody took.
    store.remove(NAME).unwrap();
    assert!(problem(put(&store, NAME, b"")).contains("has or had"));
    let other = Name([1; 16]);
    put(&store, other, b"other").unwrap();
    store.remove(other).unwrap();
    assert!(store.remove(other).is_err() && store.list().unwrap().is_empty());
    assert!(problem(put(&store, other, b"")).contains("has or had"));
}

/// Every byte of a file counts, and so does its end.
#[test]
fn changed_files_are_refused_and_stay() {
    let (store, directory) = store(1);
    let content = vec![9; PIECE + 100];
    put(&store, NAME, &content).unwrap();
    let file = directory.path().join(format!("{NAME}.half"));
    let good = fs::read(&file).unwrap();
    assert!(!good.windows(64).any(|bytes| bytes == [9; 64]), "encrypted");
    let places = (0..60).chain([PIECE, PIECE + 40, good.len() - 1]);
    for place in places {
        let mut bad = good.clone();
        bad[place] ^= 1;
        fs::write(&file, &bad).unwrap();
        assert!(store.verify(NAME).is_err(), "{place}");
        assert!(store.take(NAME).is_err(), "{place}");
        assert_eq!(fs::read(&file).unwrap(), bad);
    }
    let piece = PIECE + TAG;
    for length in [
        0,
        5,
        FIXED,
        FIXED + 6,
        FIXED + 22,
        FIXED + 6 + piece,
        good.len() - 1,
    ] {
        fs::write(&file, &good[..length]).unwrap();
        assert!(store.take(NAME).is_err(), "{length}");
    }
    fs::write(&file, [&good[..], &[0]].concat()).unwrap();
    assert!(store.take(NAME).is_err());
    fs::write(&file, &good).unwrap();
    let mut renamed = NAME;
    renamed.0[0] ^= 1;
    fs::rename(&file, file.with_file_name(format!("{renamed}.half"))).unwrap();
    assert_eq!(
        problem(store.take(renamed)),
        "damaged, or written by another identity"
    );
    fs::rename(file.with_file_name(format!("{renamed}.half")), &file).unwrap();
    store.take(NAME).unwrap();
}

#[test]
fn only_the_key_reads() {
    let (ours, directory) = store(1);
    put(&ours, NAME, b"content").unwrap();
    let theirs = open(&directory, 2);
    assert_eq!(
        theirs.list().unwrap()[0].header.as_deref(),
        Some(&b"header"[..])
    );
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

/// What is in a file that is no half, and its length, do no harm.
#[test]
fn other_files_are_told_apart() {
    let (store, directory) = store(1);
    put(&store, NAME, b"content").unwrap();
    let file = |name: &str| directory.path().join(name);
    fs::write(file("notes.half"), "of no name").unwrap();
    fs::write(file(&format!("{}.half", "1".repeat(32))), "short").unwrap();
    let huge = file(&format!("{}.half", "2".repeat(32)));
    fs::copy(file(&format!("{NAME}.half")), &huge).unwrap();
    let length = fs::OpenOptions::new().write(true).open(&huge).unwrap();
    length.set_len(1 << 43).unwrap();
    let entries = store.list().unwrap();
    let legible: Vec<bool> = entries.iter().map(|entry| entry.header.is_some()).collect();
    assert_eq!(legible, [false, true, true]);
    assert!(store.verify(entries[1].name).is_err());
}

/// Two halves of one name and content do not look alike: they have different keys.
#[test]
fn no_two_files_are_alike() {
    let (store, directory) = store(1);
    let file = directory.path().join(format!("{NAME}.half"));
    let mut seen = Vec::new();
    for seed in 0..2 {
        store
            .put(NAME, b"header", &[0; 64], &mut rng(seed))
            .unwrap();
        let bytes = fs::read(&file).unwrap();
        seen.push(bytes[FIXED + 6..].to_vec());
        fs::remove_file(&file).unwrap();
    }
    assert!(seen[0].iter().zip(&seen[1]).filter(|(a, b)| a == b).count() < 8);
}

/// Of two runs that want the same half, one gets it.
#[test]
fn two_takers_do_not_share() {
    let (store, _directory) = store(1);
    for round in 0..20 {
        let name = Name([round; 16]);
        put(&store, name, &[round; 1000]).unwrap();
        let taken = std::thread::scope(|scope| {
            let take = || store.take(name).is_ok();
            let [a, b] = [scope.spawn(take), scope.spawn(take)];
            u32::from(a.join().unwrap()) + u32::from(b.join().unwrap())
        });
        assert_eq!(taken, 1);
    }
}

#[test]
fn files_are_known() {
    let text = include_str!("../../../../vectors/ole.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let vector = &vectors["store"];
    let directory = TempDir::new().unwrap();
    let store = Store::new(directory.path(), Zeroizing::new(array(&vector["key"])));
    let (name, content) = (Name(array(&vector["name"])), bytes(&vector["content"]));
    let header = vector["header"].as_str().unwrap().as_bytes();
    let file = directory.path().join(format!("{name}.half"));
    for bad in vector["bad"].as_array().unwrap() {
        fs::write(&file, bytes(&bad["file"])).unwrap();
        assert_eq!(
            problem(store.verify(name)),
            bad["problem"],
            "{}",
            bad["why"]
        );
        fs::remove_file(&file).unwrap();
    }
    let mut salt = Script(bytes(&vector["salt"]));
    store.put(name, header, &content, &mut salt).unwrap();
    assert_eq!(fs::read(&file).unwrap(), bytes(&vector["file"]));
    let (read, taken) = store.take(name).unwrap();
    assert_eq!((&read[..], &taken[..]), (header, &content[..]));

    // A directory that has never heard of the name.
    let directory = TempDir::new().unwrap();
    let store = Store::new(directory.path(), Zeroizing::new(array(&vector["key"])));
    let content: Vec<u8> = (0..PIECE + 5).map(|i| (i * 7) as u8).collect();
    let mut salt = Script(bytes(&vector["salt"]));
    store.put(name, header, &content, &mut salt).unwrap();
    let file = fs::read(directory.path().join(format!("{name}.half"))).unwrap();
    let known: [u8; 32] = array(&vector["long"]["blake3_of_file"]);
    assert_eq!(*blake3::hash(&file).as_bytes(), known);
}
