//! Sets that are published and changed.

use std::fs;

use super::*;
use crate::{Database, SetProblem};
use vesica_primitives::voprf::Element;

fn declared(keys: u64, payload_bytes: u32) -> Declared {
    Declared {
        normalization: vec!["email/1".into()],
        lambda: 40,
        queries: 1 << 20,
        max_keys: keys,
        payload: (payload_bytes > 0)
            .then(|| "note".into())
            .into_iter()
            .collect(),
        payload_bytes,
    }
}

fn digest(key: u64) -> [u8; 32] {
    *blake3::hash(&key.to_le_bytes()).as_bytes()
}

fn content(keys: u64) -> Content {
    let hash = [7; 32];
    Content { keys, hash }
}

/// What goes with a key.
fn payload(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (key as usize * 31 + at) as u8)
        .collect()
}

fn begin(
    place: &Path,
    identity: &Identity,
    keys: u64,
    payload_bytes: u32,
    replaces: bool,
) -> Result<SetBuilder, Error> {
    let (database, set) = (place.join("database"), place.join("set.vset"));
    let declared = declared(keys, payload_bytes);
    let content = content(keys);
    SetBuilder::new(&database, identity, declared, content, replaces, 0, &set)
}

/// Adds keys from those that were added on.
fn add(builder: &mut SetBuilder, until: u64) {
    let bytes = builder.header.declared.payload_bytes as usize;
    for start in (builder.added..until).step_by(100) {
        let keys = start..(start + 100).min(until);
        let digests: Vec<_> = keys.clone().map(digest).collect();
        let payloads = keys.flat_map(|key| payload(key, bytes));
        builder
            .add(&digests, &payloads.collect::<Vec<_>>())
            .unwrap();
    }
}

fn publish(
    place: &Path,
    identity: &Identity,
    keys: u64,
    payload_bytes: u32,
) -> Result<Header, Error> {
    let mut builder = begin(place, identity, keys, payload_bytes, false)?;
    add(&mut builder, keys);
    builder.finish()
}

/// A directory with a copy of the database of another.
fn copied(place: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    let database = copy.path().join("database");
    vesica_files::private_directory(&database).unwrap();
    for entry in place.join("database").read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), database.join(entry.file_name())).unwrap();
    }
    copy
}

/// The same, in which the journal is the same file.
fn moved(place: &Path) -> tempfile::TempDir {
    let copy = copied(place);
    let [from, to] = [place, copy.path()].map(|place| Journal::path(&place.join("database")));
    fs::remove_file(&to).unwrap();
    fs::hard_link(from, to).unwrap();
    copy
}

fn is_copied_journal<T>(result: Result<T, Error>) -> bool {
    let error = result.map(drop).unwrap_err();
    error.class() == vesica_session::ErrorClass::Data
        && matches!(
            error,
            Error::Store {
                problem: StoreProblem::CopiedJournal,
                ..
            }
        )
}

fn is_not_replaced<T>(result: Result<T, Error>) -> bool {
    let error = result.map(drop).unwrap_err();
    let is_usage = error.class() == vesica_session::ErrorClass::Usage;
    let problem = SetProblem::NotReplaced;
    is_usage && matches!(error, Error::Set { problem: found, .. } if found == problem)
}

/// Publishes some keys from one of the databases of a directory.
fn publish_from(
    place: &Path,
    identity: &Identity,
    (database, set): (&str, &str),
    replaces: bool,
) -> Result<Header, Error> {
    let (database, set) = (place.join(database), place.join(set));
    let (declared, content) = (declared(20, 0), content(10));
    let mut builder = SetBuilder::new(&database, identity, declared, content, replaces, 0, &set)?;
    add(&mut builder, 10);
    builder.finish()
}

fn remove_one(place: &Path, identity: &Identity, database: &str, set: &str, key: u64) {
    let (database, set) = (place.join(database), place.join(set));
    let mut update = Update::new(&database, identity, &set, 0).unwrap();
    update.remove(&[digest(key)]).unwrap();
    update.finish().unwrap().unwrap();
}

/// Neither its live set, nor its archived copies, whatever their names.
#[test]
fn no_set_takes_the_place_of_another_databases() {
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let publish =
        |database, set, replaces| publish_from(place.path(), &identity, (database, set), replaces);
    let remove = |database, set, key| remove_one(place.path(), &identity, database, set, key);
    publish("one", "live.vset", false).unwrap();
    let live = fs::read(at("live.vset")).unwrap();
    assert!(is_not_replaced(publish("two", "live.vset", false)));
    publish("two", "two.vset", false).unwrap();
    assert!(is_not_replaced(publish("two", "live.vset", true)));
    assert!(fs::read(at("live.vset")).unwrap() == live);
    remove("one", "live.vset", 7);
    let second = fs::read(at("live.vset.2")).unwrap();
    // Where the name of a later release is taken: by a live set, a copy of one's own, another's release of that number, and
    // a directory.
    publish("dated", "two.vset.20251127", false).unwrap();
    let dated = fs::read(at("two.vset.20251127")).unwrap();
    for replaces in [false, true] {
        let database = if replaces { "two" } else { "three" };
        let set = if replaces { "two.vset" } else { "three.vset" };
        let copy = fs::read(at("two.vset")).unwrap();
        for (number, bytes) in [(20251127, &dated), (77, &copy), (2, &second)] {
            let other = at(&format!("{set}.{number}"));
            fs::write(&other, bytes).unwrap();
            assert!(is_not_replaced(publish(database, set, replaces)));
            assert!(fs::read(&other).unwrap() == *bytes, "{number}");
            fs::remove_file(&other).unwrap();
        }
        fs::create_dir(at(&format!("{set}.3"))).unwrap();
        assert!(is_not_replaced(publish(database, set, replaces)));
        fs::remove_dir(at(&format!("{set}.3"))).unwrap();
        publish(database, set, replaces).unwrap();
    }
    // One that has come while the set was made.
    let (declared, content) = (declared(20, 0), content(10));
    let (database, set) = (at("late"), at("late.vset"));
    let mut builder =
        SetBuilder::new(&database, &identity, declared, content, false, 0, &set).unwrap();
    add(&mut builder, 10);
    fs::write(&set, &live).unwrap();
    assert!(is_not_replaced(builder.finish()));
    assert!(fs::read(&set).unwrap() == live && !database.join("key").exists());
}

/// Also after a crash between the new key and the new set, and if another table is published then.
#[test]
fn a_rotation_removes_the_later_releases_of_its_own_set() {
    let identity = Identity::generate().unwrap();
    for goes_on in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let begin = |keys| begin(place.path(), &identity, keys, 0, true).unwrap();
        publish(place.path(), &identity, 10, 0).unwrap();
        remove_one(place.path(), &identity, "database", "set.vset", 7);
        remove_one(place.path(), &identity, "database", "set.vset", 8);
        let quotas = || -> Vec<PathBuf> {
            let entries = at("database").read_dir().unwrap();
            let paths = entries.map(|entry| entry.unwrap().path());
            let are_quotas = |path: &PathBuf| path.to_str().unwrap().contains("/database/quotas-");
            paths.filter(are_quotas).collect()
        };
        let before = [at("set.vset"), at("set.vset.2"), at("set.vset.3")];
        let before = before.into_iter().chain(quotas());
        let before: Vec<_> = before
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        let mut builder = begin(10);
        add(&mut builder, 10);
        let journal = Journal::path(&at("database"));
        fs::hard_link(&journal, at("kept")).unwrap();
        let key = builder.finish().unwrap().oprf_key;
        assert_eq!(quotas().len(), 1);
        assert!(!at("set.vset.2").exists() && !at("set.vset.3").exists());
        fs::hard_link(at("kept"), &journal).unwrap();
        for (path, bytes) in before {
            fs::write(path, bytes).unwrap();
        }
        assert_eq!(quotas().len(), 2);
        let keys = if goes_on { 10 } else { 9 };
        let mut builder = begin(keys);
        add(&mut builder, keys);
        let header = builder.finish().unwrap();
        assert_eq!(header.oprf_key == key, goes_on);
        assert_eq!(quotas().len(), 1);
        let set = PublishedSet::open(&at("set.vset"), identity.fingerprint()).unwrap();
        assert_eq!(set.header(), &header);
    }
}

#[test]
fn a_publication_that_was_cut_goes_on_from_there() {
    const KEYS: u64 = 250;
    let identity = Identity::generate().unwrap();
    for bytes in [0, 7] {
        let cut = tempfile::tempdir().unwrap();
        let begin = |place: &Path| begin(place, &identity, KEYS, bytes, false).unwrap();
        let journal = |place: &Path| Journal::path(&place.join("database"));
        let mut builder = begin(cut.path());
        assert_eq!(builder.earlier(), Earlier::Nothing);
        // Where each record ends, and how many keys there are by then.
        let mut ends = vec![(journal(cut.path()).metadata().unwrap().len(), 0)];
        for until in [100, 200, KEYS] {
            add(&mut builder, until);
            ends.push((journal(cut.path()).metadata().unwrap().len(), until));
        }
        drop(builder);
        assert!(!cut.path().join("set.vset").exists());
        let whole = fs::read(journal(cut.path())).unwrap();
        // From these bytes of the journal: the keys that were done, and the set.
        let go_on = |left: &[u8]| {
            let place = moved(cut.path());
            fs::write(journal(place.path()), left).unwrap();
            let mut builder = begin(place.path());
            let earlier = builder.earlier();
            add(&mut builder, KEYS);
            let header = builder.finish().unwrap();
            let database = Database::open(&place.path().join("database"), &identity);
            assert_eq!(database.unwrap().secret.public_key(), header.oprf_key);
            assert!(!journal(place.path()).exists());
            (earlier, fs::read(place.path().join("set.vset")).unwrap())
        };
        let first = ends[0].0 as usize;
        let (_, uncut) = go_on(&whole[..first]);
        for (end, done) in &ends {
            for end in [*end, end + 1, end + 3, end + 4, end + 5, end + 400] {
                let end = (end as usize).min(whole.len());
                let (earlier, set) = go_on(&whole[..end]);
                assert_eq!(earlier, Earlier::Begun(*done), "{end}");
                assert!(set == uncut, "{end}");
            }
        }
        // Damage, or zeros as a file system may leave them.
        let mut spoilt = whole.clone();
        spoilt[ends[2].0 as usize - 100] ^= 1;
        assert!(go_on(&spoilt) == (Earlier::Begun(100), uncut.clone()));
        spoilt[ends[1].0 as usize..].fill(0);
        assert!(go_on(&spoilt) == (Earlier::Begun(100), uncut.clone()));
        for at in [0, 25, first - 1] {
            let mut spoilt = whole.clone();
            spoilt[at] ^= 1;
            let (earlier, set) = go_on(&spoilt);
            assert_eq!(earlier, Earlier::Another, "{at}");
            assert!(set != uncut, "{at}");
        }
    }
}

/// Its key would answer questions again that were counted elsewhere.
#[test]
fn a_publication_does_not_go_on_from_an_older_copy() {
    const KEYS: u64 = 150;
    let identity = Identity::generate().unwrap();
    for rotates in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let database = place.path().join("database");
        if rotates {
            publish(place.path(), &identity, 10, 7).unwrap();
        }
        let begin = |place: &Path| begin(place, &identity, KEYS, 7, rotates);
        let mut builder = begin(place.path()).unwrap();
        add(&mut builder, 100);
        drop(builder);
        let (copy, snapshot) = (copied(place.path()), moved(place.path()));
        let mut builder = begin(place.path()).unwrap();
        assert_eq!(builder.earlier(), Earlier::Begun(100));
        add(&mut builder, KEYS);
        let key = builder.finish().unwrap().oprf_key;
        assert!(is_copied_journal(begin(copy.path())));
        // A snapshot of the whole file system has the very file, and none of what has followed.
        fs::remove_dir_all(&database).unwrap();
        fs::rename(snapshot.path().join("database"), &database).unwrap();
        assert!(is_copied_journal(begin(place.path())));
        fs::remove_file(Journal::path(&database)).unwrap();
        // A database that never had the key does not replace its set.
        assert!(is_not_replaced(begin(place.path())));
        fs::remove_file(place.path().join("set.vset")).unwrap();
        let mut builder = begin(place.path()).unwrap();
        assert_eq!(builder.earlier(), Earlier::Nothing);
        add(&mut builder, KEYS);
        assert_ne!(builder.finish().unwrap().oprf_key, key);
    }
}

#[test]
fn another_publication_begins_anew() {
    let identity = Identity::generate().unwrap();
    let cut = tempfile::tempdir().unwrap();
    let mut builder = begin(cut.path(), &identity, 300, 7, false).unwrap();
    add(&mut builder, 200);
    let key = builder.header.oprf_key;
    drop(builder);
    let other = Identity::generate().unwrap();
    let new = |identity: &Identity, change: fn(&mut Declared, &mut Content)| {
        let place = moved(cut.path());
        let (mut declared, mut content) = (declared(300, 7), content(300));
        change(&mut declared, &mut content);
        let (database, set) = (place.path().join("database"), place.path().join("set.vset"));
        let builder =
            SetBuilder::new(&database, identity, declared, content, false, 0, &set).unwrap();
        (builder.earlier(), builder.header.oprf_key == key)
    };
    assert_eq!(new(&identity, |_, _| {}), (Earlier::Begun(200), true));
    let anew = (Earlier::Another, false);
    assert_eq!(new(&other, |_, _| {}), anew);
    assert_eq!(new(&identity, |_, content| content.hash[3] ^= 1), anew);
    assert_eq!(new(&identity, |_, content| content.keys -= 1), anew);
    assert_eq!(new(&identity, |declared, _| declared.queries += 1), anew);
    assert_eq!(new(&identity, |declared, _| declared.lambda += 1), anew);
    let renamed = |declared: &mut Declared, _: &mut Content| declared.payload[0] = "n".into();
    assert_eq!(new(&identity, renamed), anew);
}

/// A crash between the key and the set, or before the journal is gone.
#[test]
fn a_publication_that_was_cut_at_its_end_keeps_its_key_and_counts() {
    const KEYS: u64 = 300;
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let (database, set) = (place.path().join("database"), place.path().join("set.vset"));
    let journal = Journal::path(&database);
    let begin = |replaces| begin(place.path(), &identity, KEYS, 7, replaces);
    let publish = |replaces| -> (Earlier, Element) {
        let mut builder = begin(replaces).unwrap();
        add(&mut builder, KEYS);
        let earlier = builder.earlier();
        (earlier, builder.finish().unwrap().oprf_key)
    };
    let answered = || Database::open(&database, &identity).unwrap().answered();
    let kept = place.path().join("kept");
    let restore = || fs::hard_link(&kept, &journal).unwrap();
    for rotates in [false, true] {
        let mut builder = begin(rotates).unwrap();
        add(&mut builder, KEYS);
        let _ = fs::remove_file(&kept);
        fs::hard_link(&journal, &kept).unwrap();
        let key = builder.finish().unwrap().oprf_key;
        let open = Database::open(&database, &identity).unwrap();
        let client = identity.fingerprint();
        open.quotas.debit(client, 1000, [1; 32], 256).unwrap();
        drop(open);
        let published = fs::read(&set).unwrap();
        // The set is not there.
        restore();
        fs::remove_file(&set).unwrap();
        assert_eq!(publish(rotates), (Earlier::Begun(KEYS), key));
        assert!(fs::read(&set).unwrap() == published);
        assert_eq!(answered(), 256);
        // All is there. Whoever rotates again wants another key.
        restore();
        let again = publish(rotates);
        match rotates {
            false => {
                assert_eq!(again, (Earlier::Begun(KEYS), key));
                assert!(fs::read(&set).unwrap() == published);
                assert_eq!(answered(), 256);
            }
            true => assert!(again.0 == Earlier::Nothing && again.1 != key),
        }
        assert!(!journal.exists());
    }
    // The set has changed since.
    let mut builder = begin(true).unwrap();
    add(&mut builder, KEYS);
    fs::remove_file(&kept).unwrap();
    fs::hard_link(&journal, &kept).unwrap();
    let key = builder.finish().unwrap().oprf_key;
    let mut update = Update::new(&database, &identity, &set, 0).unwrap();
    update.remove(&[digest(7)]).unwrap();
    update.finish().unwrap().unwrap();
    restore();
    assert!(matches!(
        begin(false).map(drop),
        Err(Error::Store {
            problem: StoreProblem::Taken,
            ..
        })
    ));
    let (earlier, next) = publish(true);
    assert!(earlier == Earlier::Nothing && next != key);
    assert!(!place.path().join("set.vset.2").exists());
}

#[test]
fn a_set_has_its_keys_and_no_others_with_what_goes_with_them() {
    let identity = Identity::generate().unwrap();
    for (keys, bytes) in [(1, 0), (1, 7), (257, 7), (2048, 0), (3000, 0)] {
        let place = tempfile::tempdir().unwrap();
        let header = publish(place.path(), &identity, keys, bytes).unwrap();
        let path = place.path().join("set.vset");
        let set = PublishedSet::open(&path, identity.fingerprint()).unwrap();
        assert_eq!(set.header(), &header);
        set.verify().unwrap();
        let database = Database::open(&place.path().join("database"), &identity).unwrap();
        assert_eq!(database.declared(), &header.declared);
        let digests: Vec<_> = (0..2 * keys).map(digest).collect();
        let inputs: Vec<&[u8]> = digests.iter().map(|digest| &digest[..]).collect();
        let values = database.secret.evaluate(MODE, &inputs);
        let masks: Vec<u128> = values.iter().map(|value| header.mask(value)).collect();
        let found = set.find(&masks).unwrap();
        for (key, found) in (0..2 * keys).zip(found) {
            let opened = set.payload(&values[key as usize], found);
            let expected = (key < keys).then(|| payload(key, bytes as usize));
            assert_eq!(opened, expected, "{key} of {keys}");
        }
        if keys == 3000 {
            let bits = 8.0 * path.metadata().unwrap().len() as f64 / keys as f64;
            assert!(bits < 63.5, "{bits}");
        }
    }
}

/// A crash between what the database says, the file of the release, and what it says then.
#[test]
fn a_release_that_was_cut_at_its_end_counts_if_its_file_is_there() {
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    publish(place.path(), &identity, 100, 7).unwrap();
    let (database, set) = (place.path().join("database"), place.path().join("set.vset"));
    let second = release_path(&set, 2);
    let contents = || Contents::read(&database, &identity).unwrap();
    let update = || Update::new(&database, &identity, &set, 0);
    let first = contents();
    let mut begun = update().unwrap();
    begun.remove(&[digest(7)]).unwrap();
    begun.finish().unwrap().unwrap();
    let next = contents().last;
    let file = fs::read(&second).unwrap();
    // As the database was before the file had its name.
    let announced = Contents {
        coming: Some(next.clone()),
        ..first
    };
    announced.write(&database, &identity).unwrap();
    Database::open(&database, &identity)
        .unwrap()
        .check_set(&set)
        .unwrap();
    let mut again = update().unwrap();
    assert_eq!(contents().last, next);
    assert_eq!(again.remove(&[digest(7)]).unwrap(), 0);
    drop(again);
    // The file is not there: it is forgotten, and another takes its place.
    announced.write(&database, &identity).unwrap();
    fs::remove_file(&second).unwrap();
    Database::open(&database, &identity)
        .unwrap()
        .check_set(&set)
        .unwrap();
    let mut other = update().unwrap();
    other.remove(&[digest(8)]).unwrap();
    other.finish().unwrap().unwrap();
    assert_ne!(contents().last, next);
    // The one that was to come is another now.
    fs::write(&second, &file).unwrap();
    let problem = |error: Error| match error {
        Error::Set { problem, .. } => problem,
        other => panic!("{other:?}"),
    };
    let refused = update().map(drop).unwrap_err();
    assert_eq!(problem(refused), SetProblem::NotLast(2));
}

#[test]
fn two_publications_share_nothing() {
    let identity = Identity::generate().unwrap();
    let places = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let [a, b] = places.each_ref().map(|place| {
        publish(place.path(), &identity, 300, 40).unwrap();
        fs::read(place.path().join("set.vset")).unwrap()
    });
    let blocks = |bytes: &[u8]| -> std::collections::HashSet<Vec<u8>> {
        bytes[500..].windows(8).map(<[u8]>::to_vec).collect()
    };
    assert!(blocks(&a).is_disjoint(&blocks(&b)));
}

#[test]
fn every_damage_is_an_error_of_its_own() {
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let header = publish(place.path(), &identity, 300, 5).unwrap();
    let path = place.path().join("set.vset");
    let whole = fs::read(&path).unwrap();
    let open = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        PublishedSet::open(&path, identity.fingerprint()).and_then(|set| set.verify())
    };
    let problem = |bytes: &[u8]| match open(bytes) {
        Err(Error::Set { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    open(&whole).unwrap();
    for end in 0..whole.len() {
        assert_eq!(problem(&whole[..end]), SetProblem::Truncated, "{end}");
    }
    assert_eq!(problem(&[&whole[..], &[0]].concat()), SetProblem::TooLong);
    let head = 12 + header.encode().len();
    let index = head + 64..head + 64 + 2 * 56;
    for (at, byte) in whole.iter().enumerate() {
        let mut spoilt = whole.clone();
        spoilt[at] = byte ^ 1;
        let found = problem(&spoilt);
        let is_expected = match at {
            0..8 => matches!(found, SetProblem::NotASet(_)),
            8..12 => matches!(
                found,
                SetProblem::BadHeader(_) | SetProblem::BadSignature | SetProblem::Truncated
            ),
            12 => found == SetProblem::Version(2),
            13..45 => matches!(found, SetProblem::OtherPublisher { .. }),
            at if at < head => {
                matches!(found, SetProblem::BadHeader(_) | SetProblem::BadSignature)
            }
            at if at < index.start => found == SetProblem::BadSignature,
            at if at < index.end => found == SetProblem::BadIndex,
            _ => matches!(found, SetProblem::BadBlock(_)),
        };
        assert!(is_expected, "{at}: {found:?}");
    }
    fs::write(&path, &whole).unwrap();
    let other = Identity::generate().unwrap().fingerprint();
    let refused = PublishedSet::open(&path, other).unwrap_err();
    assert_eq!(refused.class(), vesica_session::ErrorClass::Data);
}

#[test]
fn a_database_is_of_one_set_process_and_identity() {
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("database");
    let problem = |error: Error| match error {
        Error::Store { problem, .. } => problem,
        other => panic!("{other:?}"),
    };
    let absent = Database::open(&directory, &identity).unwrap_err();
    assert_eq!(problem(absent), StoreProblem::Absent);
    publish(place.path(), &identity, 10, 0).unwrap();
    let again = publish(place.path(), &identity, 10, 0).unwrap_err();
    assert_eq!(problem(again), StoreProblem::Taken);
    let open = Database::open(&directory, &identity).unwrap();
    let busy = Database::open(&directory, &identity).unwrap_err();
    let in_use = StoreProblem::InUse(Holder::ServerOrPublisher);
    assert_eq!(problem(busy), in_use);
    // Whoever makes another key is told who has the one that is there.
    let rotated = begin(place.path(), &identity, 10, 0, true).map(drop);
    let in_use = StoreProblem::InUse(Holder::Server);
    assert_eq!(problem(rotated.unwrap_err()), in_use);
    drop(open);
    let other = Identity::generate().unwrap();
    let foreign = Database::open(&directory, &other).unwrap_err();
    assert_eq!(problem(foreign), StoreProblem::Unreadable("key"));
    let key = directory.join("key");
    let whole = fs::read(&key).unwrap();
    // What follows the first line is random, digits among it.
    let version = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for at in 0..whole.len() {
        let mut spoilt = whole.clone();
        spoilt[at] ^= 1;
        fs::write(&key, spoilt).unwrap();
        let damaged = Database::open(&directory, &identity).unwrap_err();
        let expected = match whole[at] {
            b'0'..=b'9' if at < version => StoreProblem::OtherVersion("key"),
            _ => StoreProblem::Unreadable("key"),
        };
        assert_eq!(problem(damaged), expected, "{at}");
    }
}

/// A link in the place of a lock would have another file opened, or made.
#[cfg(unix)]
#[test]
fn no_lock_follows_a_link() {
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("database");
    publish(place.path(), &identity, 10, 0).unwrap();
    let other = place.path().join("other");
    for name in [crate::database::LOCK, crate::database::PUBLISHING] {
        let lock = directory.join(name);
        let _ = fs::remove_file(&lock);
        std::os::unix::fs::symlink(&other, &lock).unwrap();
        let locks = [(name, Holder::Publisher)];
        let error = crate::database::Held::take(&directory, &locks).unwrap_err();
        assert!(error.to_string().contains("a symbolic link"), "{error}");
        assert!(!other.exists());
    }
    assert!(Database::open(&directory, &identity).is_err());
}

/// What was there before stays; of what was not, nothing does.
#[test]
fn a_publication_that_fails_leaves_nothing() {
    let identity = Identity::generate().unwrap();
    for was_there in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let database = place.path().join("database");
        // A file beside the set would count as a release of it.
        fs::write(place.path().join("set.vset.7"), "").unwrap();
        if was_there {
            vesica_files::private_directory(&database).unwrap();
        }
        let failed = publish(place.path(), &identity, 10, 0).unwrap_err();
        assert!(matches!(failed, Error::Set { .. }), "{failed}");
        assert_eq!(database.exists(), was_there);
        assert!(!was_there || database.read_dir().unwrap().next().is_none());
        fs::remove_file(place.path().join("set.vset.7")).unwrap();
        publish(place.path(), &identity, 10, 0).unwrap();
    }
}

#[test]
fn impossible_sets_are_refused() {
    let identity = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let new = |declared: Declared, keys| {
        let directory = place.path().join("database");
        let built = SetBuilder::new(
            &directory,
            &identity,
            declared,
            content(keys),
            false,
            0,
            &place.path().join("set.vset"),
        );
        built.map(drop).unwrap_err()
    };
    let too_many = new(declared(10, 0), 11);
    assert!(matches!(
        too_many,
        Error::TooManyKeys { keys: 11, most: 10 }
    ));
    assert!(matches!(new(declared(10, 0), 0), Error::Usage(_)));
    let change = |change: fn(&mut Declared)| {
        let mut declared = declared(1 << 20, 8);
        assert_eq!(declared.problem(), None);
        assert_eq!(declared.width(), 80);
        change(&mut declared);
        declared.problem().is_some()
    };
    assert!(change(|declared| declared.normalization.clear()));
    assert!(change(|declared| declared.lambda = 39));
    assert!(change(|declared| declared.queries = 0));
    assert!(change(|declared| declared.queries = (1 << 40) + 1));
    assert!(change(|declared| declared.max_keys = 0));
    assert!(change(|declared| declared.payload_bytes = 0));
    assert!(change(|declared| declared.payload.push("note".into())));
    assert!(change(|declared| {
        declared.lambda = 64;
        declared.queries = 1 << 40;
        declared.max_keys = 1 << 25;
    }));
}
