use super::*;
use crate::ErrorClass;
use std::sync::LazyLock;
use std::time::Duration;

use vesica_files::UnsafeDirectory;
use vesica_psi::MAX_VALUE_COLUMNS;
use vesica_session::terms::NORMALIZATION;
use vesica_session::{
    BucketShares, Checkpoint, Fingerprint, Job, ProtocolRequest, RepeatedKeys, Role, ValueTerms,
    agree,
};
use vesica_wire::memory_pair;

fn owner() -> Owner {
    Owner {
        peer: "vs1:peer".into(),
        terms: "receiver auto malicious".into(),
    }
}

/// A state with a contract as two sides agree on it.
static STATE: LazyLock<State> = LazyLock::new(|| {
    let side = |role| {
        move |mut channel: vesica_wire::FramedChannel| {
            let job = Job {
                protocol: ProtocolRequest::Auto,
                ..Job::new(role, vec!["exact/1".into()])
            };
            let none: Option<Fingerprint> = None;
            agree(&mut channel, &job, 5, &Checkpoint::Nothing, none, none)
        }
    };
    let (a, b) = memory_pair();
    std::thread::scope(|scope| {
        scope.spawn(move || side(Role::Sender)(b).unwrap());
        let mut state = side(Role::Receiver)(a).unwrap().state;
        state.found = vec![2];
        state
    })
});

fn journal() -> Journal {
    let mut matched = RowSet::none(100);
    matched.set(3, true);
    matched.set(99, true);
    Journal {
        head: Head {
            owner: owner(),
            input: [2; 32],
            state: STATE.clone(),
            written: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
            confirmed: false,
            rows: 100,
        },
        matched,
    }
}

fn encode(journal: &Journal, keys: &Keys) -> Vec<u8> {
    let mut bytes = Vec::new();
    Journal::encode(&journal.head, &journal.matched, keys, &mut bytes).unwrap();
    bytes
}

fn write(work: &mut WorkDir) {
    let Journal { head, matched } = journal();
    work.write(&head, &matched).unwrap();
}

fn keys(identity: &Identity) -> Keys {
    Keys::of(identity)
}

/// Whose fault a failure is, and its line.
fn failed<T>(result: Result<T, Error>) -> (ErrorClass, String) {
    let error = result.err().expect("a failure");
    (error.class(), error.to_string())
}

#[track_caller]
fn refuses<T>(result: Result<T, Error>, expected: &WorkDirProblem) {
    let error = result.err().expect("a failure");
    assert!(
        matches!(&error, Error::WorkDir { problem, .. } if problem == expected),
        "{error:?}"
    );
    assert_eq!(error.class(), ErrorClass::Usage);
}

#[test]
fn a_journal_comes_back_and_a_spoilt_one_does_not() {
    let identity = Identity::generate().unwrap();
    let keys = keys(&identity);
    let bytes = encode(&journal(), &keys);
    assert_eq!(Journal::decode(&bytes, &keys), Some(journal()));
    let some = || (0..LEGIBLE).chain((0..bytes.len()).step_by(1021));
    for end in some().chain(bytes.len() - 16..bytes.len()) {
        assert_eq!(Journal::decode(&bytes[..end], &keys), None, "{end}");
    }
    assert_eq!(Journal::decode(&[&bytes[..], &[0]].concat(), &keys), None);
    for at in some().chain(bytes.len() - 16..bytes.len()) {
        let mut spoilt = bytes.clone();
        spoilt[at] ^= 1 << (at % 8);
        assert_eq!(Journal::decode(&spoilt, &keys), None, "{at}");
    }
    // Whoever has another identity can neither write nor read one.
    let other = Keys::of(&Identity::generate().unwrap());
    assert_eq!(Journal::decode(&bytes, &other), None);
    assert_ne!(keys.input(&[1; 32]), other.input(&[1; 32]));
    assert_ne!(keys.input(&[1; 32]), keys.input(&[2; 32]));
}

/// A stolen directory tests no guess at a key: it shows neither which bucket a key would be in, nor how many keys of a
/// bucket matched, nor which rows did.
#[test]
fn a_journal_says_nothing_without_the_identity() {
    let keys = keys(&Identity::generate().unwrap());
    let one = journal();
    let mut other = journal();
    other.head.state.found = vec![u64::MAX; 2];
    other.head.input = [255; 32];
    (0..100).for_each(|row| other.matched.set(row, true));
    let written = [&one, &one, &other].map(|journal| encode(journal, &keys));
    assert!(written.iter().all(|bytes| bytes.len() == written[0].len()));
    let contains = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|w| w == part);
    let json = serde_json::to_string(&one.head).unwrap();
    let origin = one.head.state.origin;
    let as_text = serde_json::to_string(&origin).unwrap();
    assert!(json.contains(&as_text));
    for bytes in &written {
        assert_eq!(bytes[..MAGIC.len()], *MAGIC);
        for part in [
            &origin[..],
            as_text.as_bytes(),
            b"found",
            b"origin",
            b"    ",
        ] {
            assert!(!contains(bytes, &part[..part.len().min(8)]), "{part:?}");
        }
        // Nor under another key, such as all zeros.
        for key in [[0; 32], [255; 32]] {
            let guess = Keys {
                journal: Zeroizing::new(key),
                input: Zeroizing::new(key),
            };
            assert_eq!(Journal::decode(bytes, &guess), None);
        }
    }
    // Two journals have nothing in common, be they of the same state: no keystream is used twice.
    let blocks = |bytes: &[u8]| -> std::collections::HashSet<Vec<u8>> {
        bytes[MAGIC.len()..].chunks(8).map(<[u8]>::to_vec).collect()
    };
    let [a, b, c] = written.each_ref().map(|bytes| blocks(bytes));
    assert!(a.is_disjoint(&b) && a.is_disjoint(&c) && b.is_disjoint(&c));
    let difference = |a: &[u8], b: &[u8]| -> std::collections::HashSet<Vec<u8>> {
        let xor: Vec<u8> = a.iter().zip(b).map(|(a, b)| a ^ b).collect();
        xor[LEGIBLE..].chunks(8).map(<[u8]>::to_vec).collect()
    };
    assert!(!difference(&written[0], &written[1]).contains(&vec![0; 8]));
}

/// It may hold an answer, so that it is not removed; and it is not used, since anybody could have read it.
#[test]
fn a_journal_in_clear_is_refused_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("work");
    let identity = Identity::generate().unwrap();
    for magic in IN_CLEAR {
        fs::create_dir(&path).unwrap();
        let text = [magic, &b"\x02\0\0\0{}"[..]].concat();
        fs::write(path.join(JOURNAL), &text).unwrap();
        let (class, line) = failed(WorkDir::open(&path, keys(&identity), owner()));
        assert_eq!(class, ErrorClass::Usage);
        let said = "an earlier version wrote, in clear; finish that run with the version that began it, or remove";
        assert!(line.contains(said), "{line}");
        assert_eq!(fs::read(path.join(JOURNAL)).unwrap(), text);
        fs::remove_dir_all(&path).unwrap();
    }
}

/// An earlier version kept numbers in another way. None of its journals is misread, and none is removed.
#[test]
fn a_journal_of_an_earlier_version_is_refused_and_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("work");
    let identity = Identity::generate().unwrap();
    fs::create_dir(&path).unwrap();
    let mut written = Vec::new();
    let content = [&[b' '; HEAD][..], &[0; 13]].concat();
    seal(
        b"vesicaj4",
        &keys(&identity).journal,
        &content,
        &mut written,
    )
    .unwrap();
    fs::write(path.join(JOURNAL), &written).unwrap();
    let open = || WorkDir::open(&path, keys(&identity), owner());
    refuses(open(), &WorkDirProblem::EarlierJournal);
    let (_, line) = failed(open());
    let said = "finish that run with the version that began it, or remove the directory";
    assert!(line.contains(said), "{line}");
    assert_eq!(fs::read(path.join(JOURNAL)).unwrap(), written);
}

/// The longest contract and the most buckets.
#[test]
fn every_journal_can_be_read_back() {
    let keys = keys(&Identity::generate().unwrap());
    let mut journal = journal();
    let contract = &mut journal.head.state.contract;
    contract
        .terms
        .set(&NORMALIZATION, vec!["x".repeat(128); 64]);
    contract.buckets = vesica_session::MAX_BUCKETS;
    journal.head.owner.terms = contract.get(&NORMALIZATION).join(",");
    journal.head.state.found = vec![u64::MAX; vesica_session::MAX_BUCKETS as usize];
    let bytes = encode(&journal, &keys);
    assert_eq!(Journal::decode(&bytes, &keys), Some(journal.clone()));
    // With the shares of the most numbers; as long before the first bucket as after the last.
    let mut shared = journal.clone();
    let contract = &mut shared.head.state.contract;
    contract.terms.set(&REVEAL, "size,sum".parse().unwrap());
    let values = ValueTerms {
        bound: 1,
        scale: 0,
        repeated: RepeatedKeys::Sum,
    };
    contract.receiver_values = vec![values; MAX_VALUE_COLUMNS];
    let none = encode(&shared, &keys);
    let of_bucket = BucketShares {
        attempt: [255; 32],
        shares: Zeroizing::new(vec![u64::MAX; 1 + MAX_VALUE_COLUMNS]),
    };
    shared.head.state.shares = vec![of_bucket; vesica_session::MAX_BUCKETS as usize];
    let all = encode(&shared, &keys);
    assert_eq!(Journal::decode(&all, &keys), Some(shared));
    assert_eq!(none.len(), all.len());
    // No longer one is written than is read.
    journal.head.owner.terms = "x".repeat(HEAD);
    let written = Journal::encode(&journal.head, &journal.matched, &keys, &mut Vec::new());
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
}

#[test]
fn a_work_directory_is_kept_for_its_run_alone() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("work");
    let identity = Identity::generate().unwrap();
    let open = |owner| WorkDir::open(&path, keys(&identity), owner);
    // Without a journal nothing is earlier.
    drop(open(owner()).unwrap());
    assert!(!path.exists());

    let (mut work, earlier) = open(owner()).unwrap();
    assert_eq!(earlier, None);
    refuses(open(owner()), &WorkDirProblem::InUse);
    write(&mut work);
    drop(work);

    // What a killed run had begun to write goes.
    fs::write(path.join(".vesica-x.part"), "half").unwrap();
    let (work, earlier) = open(owner()).unwrap();
    assert_eq!(earlier, Some(journal()));
    assert!(!path.join(".vesica-x.part").exists());
    drop(work);
    type Change = fn(&mut Owner);
    let changes: [(Change, WorkDirProblem); 2] = [
        (|o| o.peer.push('x'), WorkDirProblem::OtherPeer),
        (|o| o.terms.push('x'), WorkDirProblem::OtherOptions),
    ];
    for (change, problem) in changes {
        let mut other = owner();
        change(&mut other);
        refuses(open(other), &problem);
    }
    let stranger = Identity::generate().unwrap();
    refuses(
        WorkDir::open(&path, keys(&stranger), owner()),
        &WorkDirProblem::Unreadable,
    );
    // Nobody's failure has cost anything.
    let (work, earlier) = open(owner()).unwrap();
    assert_eq!(earlier, Some(journal()));
    work.finish().unwrap();
    assert!(!path.exists());

    fs::create_dir(&path).unwrap();
    fs::write(path.join("thesis.tex"), "").unwrap();
    refuses(open(owner()), &WorkDirProblem::OtherFiles);
    assert!(path.join("thesis.tex").exists());
    let nowhere = place.path().join("no/where");
    assert_eq!(
        failed(WorkDir::open(&nowhere, keys(&identity), owner())).0,
        ErrorClass::Usage
    );
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_is_kept_is_for_its_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("work");
        let identity = Identity::generate().unwrap();
        let (mut work, _) = WorkDir::open(&path, keys(&identity), owner()).unwrap();
        write(&mut work);
        let mode = |p: &Path| p.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o700);
        assert_eq!(mode(&path.join(JOURNAL)), 0o600);
        assert_eq!(mode(&path.join(LOCK)), 0o600);
        work.finish().unwrap();
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("work");
        let identity = Identity::generate().unwrap();
        let open = |path: &Path| WorkDir::open(path, keys(&identity), owner());
        fs::create_dir(&path).unwrap();
        for mode in [0o777, 0o770, 0o702, 0o1777] {
            set_mode(&path, mode);
            refuses(
                open(&path),
                &WorkDirProblem::Unsafe(UnsafeDirectory::Writable),
            );
        }
        for mode in [0o700, 0o755] {
            set_mode(&path, mode);
            let (work, _) = open(&path).unwrap();
            drop(work);
            fs::create_dir(&path).unwrap();
        }
        let link = place.path().join("link");
        symlink(&path, &link).unwrap();
        refuses(
            open(&link),
            &WorkDirProblem::Unsafe(UnsafeDirectory::SymbolicLink),
        );
        assert!(link.is_symlink() && path.is_dir());
    }

    /// Whoever can write to the directory above can move this one away and back.
    #[test]
    fn a_directory_that_others_can_move_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let above = place.path().join("shared");
        let path = above.join("work");
        let identity = Identity::generate().unwrap();
        let open = || WorkDir::open(&path, keys(&identity), owner());
        fs::create_dir(&above).unwrap();
        for mode in [0o777, 0o775, 0o2775] {
            set_mode(&above, mode);
            refuses(
                open(),
                &WorkDirProblem::Unsafe(UnsafeDirectory::Movable {
                    above: above.canonicalize().unwrap(),
                }),
            );
        }
        // As in /tmp, where nobody moves what is not theirs.
        set_mode(&above, 0o1777);
        let (mut work, _) = open().unwrap();
        write(&mut work);

        // One that is no longer there when the run ends says so, and nothing else is touched.
        let victim = place.path().join("victim");
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join(JOURNAL), "mine").unwrap();
        fs::write(victim.join(LOCK), "mine").unwrap();
        fs::rename(&path, above.join("away")).unwrap();
        symlink(&victim, &path).unwrap();
        let (class, line) = failed(work.finish());
        assert_eq!(class, ErrorClass::Resource);
        assert!(line.contains("moved or replaced"), "{line}");
        assert!(victim.join(JOURNAL).exists() && victim.join(LOCK).exists());
    }

    /// Links that were planted while the directory was open to others.
    #[test]
    fn no_link_is_followed() {
        let place = tempfile::tempdir().unwrap();
        let (path, diary) = (place.path().join("work"), place.path().join("diary"));
        let identity = Identity::generate().unwrap();
        let open = || WorkDir::open(&path, keys(&identity), owner());
        fs::write(&diary, "dear diary").unwrap();
        for name in [LOCK, JOURNAL] {
            fs::create_dir(&path).unwrap();
            symlink(&diary, path.join(name)).unwrap();
            assert_eq!(failed(open()).0, ErrorClass::Usage, "{name}");
            fs::remove_dir_all(&path).unwrap();
        }
        // A part is replaced, and a link in its place only removed.
        fs::create_dir(&path).unwrap();
        symlink(&diary, path.join(".vesica-journal.part")).unwrap();
        let (mut work, _) = open().unwrap();
        write(&mut work);
        work.finish().unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read_to_string(&diary).unwrap(), "dear diary");
    }
}
