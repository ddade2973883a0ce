use super::*;
use tempfile::TempDir;
use vesica_primitives::sealed::{PIECE, TAG};
use vesica_testing::{array, bytes, rng};

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

fn problem<T: std::fmt::Debug>(result: Result<T, StoreError>) -> StoreProblem {
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
        assert_eq!(problem(store.take(name)), StoreProblem::Used);
        assert_eq!(problem(put(&store, name, b"")), StoreProblem::Exists);
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
    assert_eq!(problem(store.take(NAME)), StoreProblem::Used);
    // Removing the copy leaves the name used, and so does removing a half that nobody took.
    store.remove(NAME).unwrap();
    assert_eq!(problem(put(&store, NAME, b"")), StoreProblem::Exists);
    let other = Name([1; 16]);
    put(&store, other, b"other").unwrap();
    store.remove(other).unwrap();
    assert!(store.remove(other).is_err() && store.list().unwrap().is_empty());
    assert_eq!(problem(put(&store, other, b"")), StoreProblem::Exists);
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
    assert_eq!(problem(store.take(renamed)), StoreProblem::NotAuthentic);
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
    assert_eq!(problem(theirs.verify(NAME)), StoreProblem::NotAuthentic);
    assert_eq!(problem(theirs.take(NAME)), StoreProblem::NotAuthentic);
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

/// A disk that cannot be read damages no half.
#[cfg(unix)]
#[test]
fn a_read_error_is_not_called_damage() {
    let directory = TempDir::new().unwrap();
    let mut no_file = File::open(directory.path()).unwrap();
    let error = read_head(directory.path(), &mut no_file).unwrap_err();
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
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

/// Restored from a backup, with or without what says that halves were used.
#[test]
fn a_copy_is_refused_until_it_is_adopted() {
    let (ours, directory) = store(1);
    let other = Name([2; 16]);
    for name in [NAME, other] {
        put(&ours, name, b"content").unwrap();
    }
    let backup = TempDir::new().unwrap();
    copy_all(&directory, &backup);
    ours.take(NAME).unwrap();
    wait_for_the_clock();

    // The whole directory in another place.
    let theirs = open(&backup, 1);
    let entries = theirs.list().unwrap();
    assert!(entries.iter().all(|entry| entry.is_copy && !entry.is_used));
    for name in [NAME, other] {
        assert!(is_copied(theirs.verify(name)));
        assert!(is_copied(theirs.take(name)));
    }
    assert_eq!(theirs.list().unwrap().len(), 2);

    // In place, as tools do that remove what the backup does not have.
    for entry in fs::read_dir(directory.path()).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    copy_all(&backup, &directory);
    assert!(is_copied(ours.take(NAME)));

    // Only the key can bind a half to another file.
    let thief = open(&backup, 2);
    let problem_of_thief = problem(thief.adopt(NAME, &mut rng(1)));
    assert_eq!(problem_of_thief, StoreProblem::NotAuthentic);
    let path = backup.path().join(format!("{NAME}.half"));
    let mut forged = fs::read(&path).unwrap();
    forged[ID].copy_from_slice(&FileId::of(&File::open(&path).unwrap()).unwrap().to_bytes());
    fs::write(&path, &forged).unwrap();
    assert!(!theirs.list().unwrap()[1].is_copy, "by its header");
    assert_eq!(problem(theirs.take(NAME)), StoreProblem::NotAuthentic);

    assert!(theirs.adopt(other, &mut rng(1)).unwrap());
    assert!(!theirs.adopt(other, &mut rng(1)).unwrap());
    theirs.verify(other).unwrap();
    assert!(!theirs.list().unwrap()[0].is_copy);
    let (header, content) = theirs.take(other).unwrap();
    assert_eq!(
        (&header[..], &content[..]),
        (&b"header"[..], &b"content"[..])
    );
    assert_eq!(
        problem(theirs.adopt(other, &mut rng(1))),
        StoreProblem::Used
    );
}

fn copy_all(from: &TempDir, to: &TempDir) {
    for entry in fs::read_dir(from.path()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
}

/// So that a new file is born later than any before.
fn wait_for_the_clock() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

fn is_copied<T: std::fmt::Debug>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Copied { .. }))
}

/// A copy that shares the file, as backups by links do.
#[test]
fn a_taken_half_is_empty_under_every_name() {
    let (store, directory) = store(1);
    put(&store, NAME, b"content").unwrap();
    let half = directory.path().join(format!("{NAME}.half"));
    let linked = directory.path().join("backup");
    fs::hard_link(&half, &linked).unwrap();
    store.take(NAME).unwrap();
    assert_eq!(fs::read(&linked).unwrap(), b"");
    fs::rename(&linked, &half).unwrap();
    fs::remove_file(directory.path().join(format!("{NAME}.used"))).unwrap();
    assert!(store.take(NAME).is_err());
}

/// Through a link only the link would be removed, and the half could serve again.
#[cfg(unix)]
#[test]
fn a_link_is_no_half() {
    let (store, directory) = store(1);
    put(&store, NAME, b"content").unwrap();
    let other = TempDir::new().unwrap();
    let half = format!("{NAME}.half");
    let target = directory.path().join(&half);
    std::os::unix::fs::symlink(target, other.path().join(&half)).unwrap();
    let linked = open(&other, 1);
    assert!(linked.take(NAME).is_err() && linked.verify(NAME).is_err());
    assert!(linked.adopt(NAME, &mut rng(8)).is_err());
    assert_eq!(linked.list().unwrap()[0].header, None);
    store.take(NAME).unwrap();
}

/// Whoever comes second waits for a while, and not for ever.
#[test]
fn a_half_that_is_being_read_is_in_use() {
    let (store, directory) = store(1);
    put(&store, NAME, b"content").unwrap();
    let half = directory.path().join(format!("{NAME}.half"));
    let other = File::open(&half).unwrap();
    other.lock().unwrap();
    assert_eq!(problem(store.take(NAME)), StoreProblem::InUse);
    assert_eq!(problem(store.verify(NAME)), StoreProblem::InUse);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| store.take(NAME).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(other);
        assert_eq!(waiting.join().unwrap().1.as_slice(), b"content");
    });
}

/// Two stores share a file, and each has its own marker.
#[test]
fn a_half_with_two_names_is_taken_once() {
    for round in 0..20 {
        let (one, directory) = store(1);
        let other = TempDir::new().unwrap();
        put(&one, NAME, &vec![round; PIECE / 8]).unwrap();
        let half = format!("{NAME}.half");
        fs::hard_link(directory.path().join(&half), other.path().join(&half)).unwrap();
        let two = open(&other, 1);
        let taken = std::thread::scope(|scope| {
            let takers = [&one, &two].map(|store| scope.spawn(|| store.take(NAME).is_ok()));
            takers.map(|taker| taker.join().unwrap())
        });
        assert_eq!(taken.into_iter().filter(|taken| *taken).count(), 1);
    }
}

/// What is in the directory if the machine stops between the steps of an adoption.
#[test]
fn an_adoption_can_be_cut_off_anywhere() {
    let (ours, directory) = store(1);
    put(&ours, NAME, b"content").unwrap();
    let half = format!("{NAME}.half");
    let names = |directory: &TempDir| -> Vec<_> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let restored = || {
        let copy = TempDir::new().unwrap();
        copy_all(&directory, &copy);
        (open(&copy, 1), copy)
    };
    // The new file has no name yet.
    let (store, copy) = restored();
    drop(
        store
            .write(NAME, b"header", b"content", &mut rng(1))
            .unwrap(),
    );
    assert_eq!(names(&copy), [half.as_str()]);
    assert!(is_copied(store.take(NAME)));
    assert!(store.adopt(NAME, &mut rng(1)).unwrap());
    store.take(NAME).unwrap();
    // It has its private name; on some systems it is not complete then.
    for part in [0, 10, usize::MAX] {
        let (store, copy) = restored();
        let new = fs::read(copy.path().join(&half)).unwrap();
        fs::write(
            copy.path().join(".vesica-x.part"),
            &new[..part.min(new.len())],
        )
        .unwrap();
        assert!(is_copied(store.take(NAME)));
        assert_eq!(store.unfinished().unwrap(), (1, part.min(new.len()) as u64));
        assert!(store.adopt(NAME, &mut rng(1)).unwrap());
        assert_eq!(names(&copy), [half.as_str()]);
        store.take(NAME).unwrap();
    }
    // It has its name: all is done.
    let (store, copy) = restored();
    let file = store
        .write(NAME, b"header", b"content", &mut rng(1))
        .unwrap();
    file.replace().unwrap();
    assert_eq!(names(&copy), [half.as_str()]);
    assert!(!store.adopt(NAME, &mut rng(1)).unwrap());
    store.take(NAME).unwrap();
    // A run has taken it between the first look for its marker and the last.
    let (store, copy) = restored();
    fs::write(copy.path().join(format!("{NAME}.used")), "").unwrap();
    assert_eq!(problem(store.adopt(NAME, &mut rng(1))), StoreProblem::Used);
}

/// However often and by whomever it is adopted, one run gets a half.
#[test]
fn two_who_adopt_do_not_share() {
    let (ours, directory) = store(1);
    for round in 0..20 {
        let name = Name([round; 16]);
        put(&ours, name, &[round; 1000]).unwrap();
        let copy = TempDir::new().unwrap();
        copy_all(&directory, &copy);
        let taken = std::thread::scope(|scope| {
            let run = || {
                let store = open(&copy, 1);
                let _ = store.adopt(name, &mut rng(u64::from(round)));
                store.take(name).is_ok()
            };
            let runs = [(); 3].map(|()| scope.spawn(run));
            runs.map(|run| u32::from(run.join().unwrap()))
                .iter()
                .sum::<u32>()
        });
        assert_eq!(taken, 1);
        assert_eq!(open(&copy, 1).unfinished().unwrap(), (0, 0));
        let left = fs::read_dir(copy.path())
            .unwrap()
            .map(|e| e.unwrap().path());
        let of_name = |path: &PathBuf| path.to_string_lossy().contains(&name.to_string());
        let left: Vec<_> = left.filter(of_name).collect();
        assert_eq!(left, [copy.path().join(format!("{name}.used"))]);
        ours.remove(name).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_directory_that_cannot_be_written_keeps_its_halves() {
    use std::os::unix::fs::PermissionsExt;
    let (ours, directory) = store(1);
    put(&ours, NAME, b"content").unwrap();
    let copy = TempDir::new().unwrap();
    copy_all(&directory, &copy);
    let permit = |directory: &TempDir, mode| {
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(mode)).unwrap();
    };
    permit(&copy, 0o500);
    if File::create_new(copy.path().join("probe")).is_ok() {
        println!("skipped: this user may write everywhere");
        return;
    }
    let store = open(&copy, 1);
    let refused = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Io { .. }));
    assert!(refused(store.adopt(NAME, &mut rng(1)).map(drop)));
    assert!(refused(store.remove(NAME)));
    assert!(refused(put(&store, Name([1; 16]), b"content")));
    assert!(is_copied(store.take(NAME)));
    permit(&copy, 0o700);
    assert!(store.adopt(NAME, &mut rng(1)).unwrap());
    permit(&copy, 0o500);
    assert!(refused(store.take(NAME).map(drop)));
    permit(&copy, 0o700);
    store.take(NAME).unwrap();
}

/// Leftovers of killed processes are counted, and go with the next change.
#[test]
fn what_killed_processes_leave_is_removed() {
    let (store, directory) = store(1);
    let left = directory.path().join(".vesica-x.part");
    for round in 0..3u8 {
        fs::write(&left, [0; 100]).unwrap();
        assert_eq!(store.unfinished().unwrap(), (1, 100));
        match round {
            0 => put(&store, NAME, b"content").unwrap(),
            1 => store.remove(NAME).unwrap(),
            _ => assert!(store.remove(NAME).is_err()),
        }
        assert_eq!(store.unfinished().unwrap(), (0, 0));
    }
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_waited_for() {
    let (store, directory) = store(1);
    let half = directory.path().join(format!("{NAME}.half"));
    nix::unistd::mkfifo(&half, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let entries = store.list().unwrap();
    assert_eq!((entries.len(), &entries[0].header), (1, &None));
    let Err(StoreError::Io { cause, .. }) = store.take(NAME) else {
        panic!("taken");
    };
    assert_eq!(cause.kind(), io::ErrorKind::InvalidInput);
    assert!(store.verify(NAME).is_err() && store.adopt(NAME, &mut rng(1)).is_err());
    store.remove(NAME).unwrap();
    assert!(store.list().unwrap().is_empty());
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
        let problem = format!("{:?}", problem(store.verify(name)));
        assert_eq!(problem, bad["problem"], "{}", bad["why"]);
    }
    let head = head(&array(&vector["salt"]), &array(&vector["id"]), header);
    let encrypted = |content: &[u8]| {
        let mut out = Vec::new();
        store.encrypt(&mut out, name, &head, content).unwrap();
        out
    };
    let known = encrypted(&content);
    assert_eq!(known, bytes(&vector["file"]));
    // It is bound to no file of this machine.
    fs::write(&file, &known).unwrap();
    assert!(is_copied(store.verify(name)));
    store.adopt(name, &mut rng(1)).unwrap();
    let (read, taken) = store.take(name).unwrap();
    assert_eq!((&read[..], &taken[..]), (header, &content[..]));

    let content: Vec<u8> = (0..PIECE + 5).map(|i| (i * 7) as u8).collect();
    let known: [u8; 32] = array(&vector["long"]["blake3_of_file"]);
    assert_eq!(*blake3::hash(&encrypted(&content)).as_bytes(), known);
}
