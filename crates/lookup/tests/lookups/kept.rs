//! What is kept between look-ups and by a server: older copies, damage, and what belongs to somebody else.

use std::collections::HashSet;
use std::fs::{self, File, FileTimes};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use vesica_files::Argument;
use vesica_lookup::{
    Content, Database, Error, PublishedSet, Service, SetBuilder, SetProblem, State, StoreProblem,
};
use vesica_session::{
    ConnectOptions, ErrorClass, Identity, Intent, Interrupt, Listener, NoProgress, Transport,
};
use vesica_wire::Channel;

use crate::{
    ANSWER, Fetcher, HELLO, Published, QUESTION, WELCOME, ask, digests, expected, forgetful,
    found_in, keys_of, kind, lossy_relay, missing, open_state, opened, problem,
};

/// Releases until this one.
fn releases(last: u64) -> Published {
    let published = Published::with_room(100, 1000, 1 << 20);
    for key in 100..99 + last {
        published.update(&[(key, key)], &[]);
    }
    published
}

/// Copies the files in a directory to another one, which is made.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Opens the state that has seen what is there now.
fn see(published: &Published, me: &Identity, directory: &Path) -> Result<State, Error> {
    let mut state = opened(published, me, directory)?;
    published.set().verify_once(&mut state)?;
    Ok(state)
}

fn store_problem<T: std::fmt::Debug>(result: Result<T, Error>) -> StoreProblem {
    match result {
        Err(Error::Store { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_client_goes_back_to_no_older_release() {
    let published = releases(3);
    let me = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    let see = || see(&published, &me, &directory);
    let old = published.place.path().join("old");
    copy(&published.place.path().join("database"), &old);
    see().unwrap();
    let [two, three] = [2, 3].map(|release| fs::read(published.file(release)).unwrap());
    let older = |got, seen| {
        let refused = see().unwrap_err();
        assert_eq!(refused.class(), ErrorClass::Data);
        let remedy = refused.remedy().unwrap();
        let arguments: Vec<_> = remedy.arguments().collect();
        assert_eq!(arguments, [Argument::Fetch, Argument::State]);
        assert_eq!(problem::<()>(Err(refused)), SetProblem::Older { got, seen });
    };
    fs::remove_file(published.file(3)).unwrap();
    older(2, 3);
    fs::remove_file(published.file(2)).unwrap();
    older(1, 3);
    fs::write(published.file(2), &two).unwrap();
    fs::write(published.file(3), &three).unwrap();
    see().unwrap();
    // A later one is seen in its turn, and the files may come in any number at once.
    published.update(&[(200, 1)], &[]);
    published.update(&[(201, 1)], &[]);
    let copied = place.path().join("copied");
    copy(&directory, &copied);
    see().unwrap();
    let five = fs::read(published.file(5)).unwrap();
    fs::remove_file(published.file(5)).unwrap();
    older(4, 5);
    // An older copy of the state has not seen it.
    opened(&published, &me, &copied).unwrap();
    fs::write(published.file(5), five).unwrap();
    // Another release of that number, from a database that was restored, and what follows it.
    for release in [4, 5] {
        fs::remove_file(published.file(release)).unwrap();
    }
    copy(&old, &published.place.path().join("database"));
    for key in 300..303 {
        published.update(&[(key, 7)], &[]);
        if published.set().header().release >= 5 {
            assert_eq!(problem(see()), SetProblem::Forked(5));
        }
    }
    // Whoever has kept nothing takes what is there.
    opened(&published, &me, &place.path().join("fresh")).unwrap();
}

#[test]
fn a_client_goes_back_to_no_key_that_was_replaced() {
    let published = releases(2);
    let me = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    let open = |set: &PublishedSet| open_state(set, &me, &directory);
    published.serve(&[me.fingerprint()], 100, |address| {
        let mut state = see(&published, &me, &directory).unwrap();
        published.look_up(address, &me, &mut state, &[1, 2, 3]);
    });
    let before = published.place.path().join("before");
    fs::create_dir(&before).unwrap();
    for release in [1, 2] {
        let file = published.file(release);
        fs::copy(&file, before.join(file.file_name().unwrap())).unwrap();
    }
    let database = published.place.path().join("database");
    let content = Content {
        keys: 2,
        hash: [8; 32],
    };
    let declared = published.header.declared.clone();
    let (server, file) = (&published.server, published.file(1));
    let builder = SetBuilder::new(&database, server, declared, content, true, 1 << 20, &file);
    let mut builder = builder.unwrap();
    builder.add(&digests(0..2), &[0; 16]).unwrap();
    builder.finish().unwrap();
    let mut state = open(&published.set()).unwrap();
    assert_eq!((state.forgotten(), state.answered()), (3, 0));
    published.set().verify_once(&mut state).unwrap();
    drop(state);
    // Until a server says which key is the later one, nothing is lost.
    let old = PublishedSet::open(&before.join("set.vset"), server.fingerprint()).unwrap();
    assert_eq!(open(&old).unwrap().answered(), 3);
    let mut state = open(&published.set()).unwrap();
    assert_eq!(state.forgotten(), 3);
    let later = Published {
        header: published.set().header().clone(),
        ..published
    };
    let published = later;
    let server = &published.server;
    published.serve(&[me.fingerprint()], 100, |address| {
        published.look_up(address, &me, &mut state, &[1]);
    });
    drop(state);
    assert_eq!(open(&published.set()).unwrap().forgotten(), 0);
    let refused = open(&old).unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Data);
    assert_eq!(problem::<()>(Err(refused)), SetProblem::Replaced);
    open(&published.set()).unwrap();
    // Another publisher's has a state of its own, and this one stays.
    let other = releases(1);
    let refused = open(&other.set()).unwrap_err();
    let publisher = server.fingerprint();
    assert_eq!(
        problem::<()>(Err(refused)),
        SetProblem::OtherState(publisher)
    );
    open(&published.set()).unwrap();
}

/// Two sets of one publisher, under two keys, of which neither replaces the other.
#[test]
fn a_state_is_of_one_set_of_a_publisher() {
    let published = releases(1);
    let me = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    published.serve(&[me.fingerprint()], 100, |address| {
        let mut state = see(&published, &me, &directory).unwrap();
        published.look_up(address, &me, &mut state, &[1, 2, 3]);
    });
    let [database, file] = ["other", "other.vset"].map(|name| published.place.path().join(name));
    let content = Content {
        keys: 2,
        hash: [8; 32],
    };
    let declared = published.header.declared.clone();
    let server = &published.server;
    let builder = SetBuilder::new(&database, server, declared, content, false, 1 << 20, &file);
    let mut builder = builder.unwrap();
    builder.add(&digests(0..2), &[0; 16]).unwrap();
    builder.finish().unwrap();
    let other = PublishedSet::open(&file, server.fingerprint()).unwrap();
    let refused = open_state(&other, &me, &directory).unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Usage);
    assert_eq!(problem::<()>(Err(refused)), SetProblem::AnotherSet);
    let state = opened(&published, &me, &directory).unwrap();
    assert_eq!((state.answered(), state.forgotten()), (3, 0));
}

/// The server is a restored copy, and so is the set that it hands out.
#[test]
fn nothing_older_is_fetched_than_what_was_seen() {
    let published = releases(1);
    let me = Identity::generate().unwrap();
    let client = Fetcher::new(&published, &me);
    let directory = client.file("state");
    let before = tempfile::tempdir().unwrap();
    copy(
        &published.place.path().join("database"),
        &before.path().join("database"),
    );
    fs::copy(published.file(1), before.path().join("set.vset")).unwrap();
    published.update(&[(100, 1)], &[]);
    let set =
        || PublishedSet::open(&client.file("set.vset"), published.server.fingerprint()).unwrap();
    published.serve(&[me.fingerprint()], 100, |address| {
        client.fetch(address).unwrap();
        let mut state = open_state(&set(), &me, &directory).unwrap();
        set().verify_once(&mut state).unwrap();
    });
    for name in ["set.vset", "set.vset.2"] {
        fs::remove_file(client.file(name)).unwrap();
    }
    fs::remove_file(published.file(2)).unwrap();
    copy(
        &before.path().join("database"),
        &published.place.path().join("database"),
    );
    published.serve(&[me.fingerprint()], 100, |address| {
        client.fetch(address).unwrap();
        let refused = open_state(&set(), &me, &directory);
        assert_eq!(problem(refused), SetProblem::Older { got: 1, seen: 2 });
    });
}

/// Damage that is done after the set was checked, with the times that the file had.
#[test]
fn damage_shows_nobody_which_blocks_are_looked_at() {
    let published = Published::new(1000, 1 << 20);
    let me = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    let keys: Vec<u64> = (0..40).collect();
    published.serve(&[me.fingerprint()], 100, |address| {
        let mut state = see(&published, &me, &directory).unwrap();
        published.look_up(address, &me, &mut state, &keys);
    });
    let file = published.file(1);
    // From now on the file's stamp counts.
    std::thread::sleep(Duration::from_millis(2100));
    drop(see(&published, &me, &directory).unwrap());
    let whole = fs::read(&file).unwrap();
    let write = |bytes: &[u8]| {
        let before = file.metadata().unwrap();
        // In place, and with the same time.
        fs::write(&file, bytes).unwrap();
        let times = FileTimes::new().set_modified(before.modified().unwrap());
        File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_times(times)
            .unwrap();
    };
    let mut spoilt = whole.clone();
    *spoilt.last_mut().unwrap() ^= 1;
    let set = published.set();
    let mut state = open_state(&set, &me, &directory).unwrap();
    let probe = |state: &State, key| found_in(&set, state, &mut keys_of([key]));
    set.verify_once(&mut state).unwrap();
    probe(&state, 7).unwrap();
    let last_block = SetProblem::BadBlock(3);
    write(&spoilt);
    for key in &keys {
        // Without a look at the others first, and with one.
        assert_eq!(problem(probe(&state, *key)), last_block, "{key}");
        assert_eq!(problem(set.verify_once(&mut state)), last_block, "{key}");
    }
    write(&whole);
    set.verify_once(&mut state).unwrap();
    for key in &keys {
        assert_eq!(probe(&state, *key).unwrap()[0], Some(*key));
    }
}

#[cfg(unix)]
#[test]
fn a_set_is_not_read_through_a_link() {
    let published = releases(2);
    let place = tempfile::tempdir().unwrap();
    let link = |release: u64, name: &str| {
        std::os::unix::fs::symlink(published.file(release), place.path().join(name)).unwrap();
    };
    let set = place.path().join("set.vset");
    let open = || PublishedSet::open(&set, published.server.fingerprint());
    link(1, "set.vset");
    let refused = open().unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Usage);
    assert!(
        refused
            .to_string()
            .contains("a symbolic link is not followed"),
        "{refused}"
    );
    fs::remove_file(&set).unwrap();
    fs::copy(published.file(1), &set).unwrap();
    open().unwrap();
    link(2, "set.vset.2");
    open().unwrap_err();
}

/// The same file, whatever memory there was for its values.
#[test]
fn a_state_is_kept_whether_it_fits_into_memory_or_not() {
    let published = Published::new(500, 1 << 20);
    let me = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    let interrupt = Interrupt::new();
    let open = |memory| State::open(&directory, &me, &published.set(), memory, &interrupt);
    let keys: Vec<u64> = (0..18_000).collect();
    published.serve(&[me.fingerprint()], 18_000, |address| {
        // Some 16,000 of them fit into the least memory.
        for (memory, more) in [(0, 17_000), (u64::MAX, 500), (0, 500)] {
            let mut state = open(memory).unwrap();
            let known = state.answered() as usize;
            let some = &keys[..known + more];
            let (asked, found) = published.look_up(address, &me, &mut state, some);
            assert_eq!((asked, found), (more as u64, expected(500, some)));
            drop(state);
            // A seal of 16 bytes for each MiB, head, salt, what was seen, and 96 bytes for each value.
            let bytes = directory.join("state").metadata().unwrap().len();
            let values = 96 * (known + more) as u64;
            assert!((values..values + 512).contains(&bytes), "{bytes}");
        }
    });
    // Without the server.
    for memory in [0, u64::MAX] {
        let mut table = keys_of(keys.iter().copied());
        let state = open(memory).unwrap();
        assert!(missing(&state, &mut table).unwrap().is_empty());
        assert_eq!(
            found_in(&published.set(), &state, &mut table).unwrap(),
            expected(500, &keys)
        );
    }
    // Whatever goes through all of them is interrupted.
    let mut table = keys_of(keys.iter().copied());
    let state = open(0).unwrap();
    interrupt.raise();
    let ended = [
        missing(&state, &mut table).map(|_| ()),
        found_in(&published.set(), &state, &mut table).map(|_| ()),
        {
            drop(state);
            open(0).map(|_| ())
        },
    ];
    let words = ended.map(|ended| ended.unwrap_err().to_string());
    assert_eq!(words, ["interrupted"; 3]);
}

#[test]
fn answers_that_were_paid_for_are_kept_where_the_rest_does_not_fit() {
    // A question takes 4096 keys. The second one is some 19,000 bytes.
    let keys: Vec<u64> = (0..4096 + 600).collect();
    let published = Published::new(10, 4096 + 610);
    let [me, other] = [0, 1].map(|_| Identity::generate().unwrap());
    let clients = [me.fingerprint(), other.fingerprint()];
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("state");
    let open = || opened(&published, &me, &directory).unwrap();
    published.serve(&clients, 1 << 20, |address| {
        let relay = lossy_relay(address.to_owned(), 4096 * 32, 4096 * 32 + 10_240);
        let mut client = published.client(&relay, &me).unwrap();
        let mut table = keys_of(keys.iter().copied());
        let lost = ask(&mut open(), &mut client, &mut table);
        assert_eq!(lost.unwrap_err().class(), ErrorClass::Network);
        drop(client);
        // Somebody else takes what the second question would need.
        let mut theirs = forgetful(&published.header);
        let others: Vec<u64> = (5000..5600).collect();
        published.look_up(address, &other, &mut theirs, &others);
        assert_eq!(published.client(address, &me).unwrap().left(), 10);
        let mut client = published.client(address, &me).unwrap();
        let mut state = open();
        // What is asked for was paid, and the rest is nobody's business.
        let mut some = keys_of(100..150);
        ask(&mut state, &mut client, &mut some).unwrap();
        assert_eq!((state.answered(), state.recalled()), (4096, 4096));
        drop(state);
        let state = open();
        assert_eq!((state.answered(), state.pending()), (4096, 0));
        let unknown = keys.iter();
        let is_known = |key: u64| missing(&state, &mut keys_of([key])).unwrap().is_empty();
        let unknown = unknown.filter(|key| !is_known(**key));
        assert_eq!(unknown.count(), 600);
    });
}

/// Whatever is looked up after a question was lost: the server hears that question again, and another one in other words for
/// each key that is asked about now. If it has the answer of the first counted as paid, it hears by the second whether keys of
/// the first are asked about: a client with their values does not ask.
#[test]
fn what_is_sent_again_does_not_depend_on_what_is_looked_up() {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    let welcome = [&published.header.oprf_key.bytes()[..], &[9; 16]].concat();
    let heard = |second: Range<u64>| -> [Vec<u8>; 3] {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().to_string();
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("state");
        let meet = || {
            let transport = Transport::Tls {
                identity: &published.server,
                peer: me.fingerprint(),
                intent: Intent::Serve,
            };
            let met = listener.accept(&transport, &ConnectOptions::default());
            let mut channel = met.unwrap().channel;
            channel.recv(kind(HELLO), 1).unwrap();
            channel.send(kind(WELCOME), welcome.clone()).unwrap();
            channel
        };
        std::thread::scope(|scope| {
            let server = scope.spawn(|| {
                let lost = meet().recv(kind(QUESTION), 1 << 17).unwrap();
                let mut channel = meet();
                let recalled = channel.recv(kind(QUESTION), 1 << 17).unwrap();
                channel.send(kind(ANSWER), Vec::new()).unwrap();
                [
                    lost,
                    recalled,
                    channel.recv(kind(QUESTION), 1 << 17).unwrap(),
                ]
            });
            for keys in [0..50, second] {
                let mut client = published.client(&address, &me).unwrap();
                let mut state = opened(&published, &me, &directory).unwrap();
                let ended = ask(&mut state, &mut client, &mut keys_of(keys));
                assert_eq!(ended.unwrap_err().class(), ErrorClass::Network);
                assert_eq!(state.pending(), 50);
            }
            server.join().unwrap()
        })
    };
    for second in [0..50, 25..75, 100..150] {
        let [lost, recalled, asked] = heard(second);
        assert_eq!([lost[0], recalled[0], asked[0]], [0, 1, 0]);
        assert_eq!(lost[1..], recalled[1..]);
        assert_eq!(asked.len(), lost.len());
        let words: HashSet<&[u8]> = lost[1..].chunks(32).collect();
        assert!(asked[1..].chunks(32).all(|word| !words.contains(word)));
    }
}

/// A server that is told to stop finishes the answers that it is computing, and takes no other question.
#[test]
fn a_stop_counts_no_question_that_it_cuts() {
    const KEYS: u64 = 300;
    let published = Published::new(10, 1 << 20);
    // So many that one at least is being answered at any time.
    let clients: [Identity; 5] = std::array::from_fn(|_| Identity::generate().unwrap());
    let listed: Vec<_> = clients.iter().map(Identity::fingerprint).collect();
    let (to, told) = mpsc::channel();
    let first = std::thread::scope(|scope| {
        let (first, _) = published.serve(&listed, 1 << 20, |address| {
            for me in &clients {
                let mut client = published.client(address, me).unwrap();
                let to = to.clone();
                scope.spawn(move || {
                    let seed = me.fingerprint();
                    for first in (0..).step_by(KEYS as usize) {
                        let keys = digests(first..first + KEYS);
                        let asked = client.ask(&keys, seed.as_bytes(), &mut NoProgress);
                        let is_over = asked.is_err();
                        to.send(asked.map(|values| values.len() as u64)).unwrap();
                        if is_over {
                            break;
                        }
                    }
                });
            }
            drop(to);
            let first = told.recv().unwrap().unwrap();
            // Some more answers are computed by then.
            std::thread::sleep(Duration::from_millis(30));
            first
        });
        first
    });
    let answered = first + told.iter().filter_map(Result::ok).sum::<u64>();
    let ((), figures) = published.serve(&listed, 1 << 20, |_| {});
    assert_eq!(figures.answered, answered);
}

#[test]
fn a_server_is_not_asked_the_same_for_ever() {
    let published = Published::new(10, 1 << 20);
    let me = Identity::generate().unwrap();
    let ((), figures) = published.serve(&[me.fingerprint()], 100, |address| {
        let mut client = published.client(address, &me).unwrap();
        for _ in 0..20 {
            client
                .ask(&digests(0..3), &[7; 32], &mut NoProgress)
                .unwrap();
        }
        assert_eq!(published.client(address, &me).unwrap().left(), 94);
    });
    assert_eq!(
        (figures.questions, figures.repeated, figures.answered),
        (20, 18, 6)
    );
}

/// Every file of a database and of a state, and what becomes of it.
#[test]
fn every_file_that_is_kept_is_whole_ours_and_not_older() {
    let published = releases(2);
    let me = Identity::generate().unwrap();
    let place = tempfile::tempdir().unwrap();
    let directories = [
        published.place.path().join("database"),
        place.path().join("state"),
    ];
    let set = published.file(1);
    let open = |directories: &[std::path::PathBuf; 2]| -> Result<(), Error> {
        Database::open(&directories[0], &published.server)?;
        see(&published, &me, &directories[1]).map(drop)
    };
    let look_up = |keys: &[u64]| {
        published.serve(&[me.fingerprint()], 100, |address| {
            let mut state = see(&published, &me, &directories[1]).unwrap();
            published.look_up(address, &me, &mut state, keys);
        });
    };
    look_up(&[1]);
    let older = [
        place.path().join("older database"),
        place.path().join("older state"),
    ];
    for (from, to) in directories.iter().zip(&older) {
        copy(from, to);
    }
    published.update(&[(500, 5)], &[]);
    look_up(&[2]);
    open(&directories).unwrap();
    let foreign = releases(2);
    let theirs = place.path().join("their state");
    let them = Identity::generate().unwrap();
    foreign.serve(&[them.fingerprint()], 100, |address| {
        let mut state = see(&foreign, &them, &theirs).unwrap();
        foreign.look_up(address, &them, &mut state, &[1]);
    });
    let foreign = [foreign.place.path().join("database"), theirs];
    let are_quotas = |name: &str| name.starts_with("quotas-");
    let mut seen = Vec::new();
    for (number, directory) in directories.iter().enumerate() {
        for entry in directory.read_dir().unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let file = directory.join(&name);
            let whole = fs::read(&file).unwrap();
            let of = |directory: &Path| {
                let names = directory.read_dir().unwrap();
                let mut names =
                    names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
                let same =
                    |other: &String| *other == name || are_quotas(other) && are_quotas(&name);
                fs::read(directory.join(names.find(same).unwrap())).unwrap()
            };
            let with = |bytes: Option<&[u8]>| {
                match bytes {
                    Some(bytes) => fs::write(&file, bytes).unwrap(),
                    None => fs::remove_file(&file).unwrap(),
                }
                let opened = open(&directories).map_err(|error| error.class());
                fs::write(&file, &whole).unwrap();
                open(&directories).unwrap();
                opened
            };
            let mut spoilt = whole.clone();
            let bytes = spoilt.iter_mut().rev().step_by(64);
            bytes.for_each(|byte| *byte ^= 1);
            let found = [
                with(Some(&of(&older[number]))),
                with(Some(&spoilt)),
                with(None),
                with(Some(&of(&foreign[number]))),
            ];
            let (usage, data) = (Err(ErrorClass::Usage), Err(ErrorClass::Data));
            // Older, damaged, removed, somebody else's.
            let expected = match &*name {
                // The set is beside it, and the quotas have seen more.
                "key" => [data, data, usage, data],
                // Older quotas alone are not noticed.
                quotas if are_quotas(quotas) => [Ok(()), data, data, data],
                // Nor is an older state, which knows less; without one nothing is known.
                "state" => [Ok(()), data, Ok(()), data],
                // These are empty.
                "lock" | "publishing" => [Ok(()); 4],
                other => panic!("what of {other}?"),
            };
            assert_eq!(found, expected, "{name}");
            seen.push(name);
        }
    }
    assert_eq!(seen.len(), 6, "{seen:?}");
    // All of the database, beside the set: with its file, and where the set is not named.
    let database = || Database::open(&older[0], &published.server);
    let problem = StoreProblem::Older { last: 2, found: 3 };
    assert_eq!(store_problem(database()), problem);
    let moved = place.path().join("moved.vset");
    for release in 1..4 {
        let to = match release {
            1 => moved.clone(),
            _ => place.path().join(format!("moved.vset.{release}")),
        };
        fs::rename(published.file(release), to).unwrap();
    }
    assert!(!set.exists());
    // The set is not where it was: only who is told where it is notices.
    let database = database().unwrap();
    let refused = serve_once(&published, &database, &moved);
    assert_eq!(store_problem(refused), problem);
    // Nor does anybody if the set is a copy of that time as well.
    fs::remove_file(place.path().join("moved.vset.3")).unwrap();
    serve_once(&published, &database, &moved).unwrap();
}

/// Serves until it is told to stop, which it is already.
fn serve_once(published: &Published, database: &Database, set: &Path) -> Result<(), Error> {
    let interrupt = Interrupt::new();
    interrupt.raise();
    let service = Service {
        clients: vec![published.server.fingerprint()],
        set: Some(set.to_owned()),
        quota: 1,
        connections: 1,
        threads: NonZeroUsize::new(1),
        interval: Duration::from_secs(60),
        log: None,
    };
    let options = ConnectOptions {
        interrupt,
        ..ConnectOptions::default()
    };
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    database.serve(&published.server, &listener, &service, &options, &|_| {})
}

/// Bytes of a file that rotted between two attempts to fetch it are this side's, and fetched again.
#[test]
fn a_part_that_rotted_is_fetched_again() {
    let published = Published::new(3000, 1 << 20);
    let whole = fs::read(published.file(1)).unwrap();
    let length = whole.len() as u64;
    // In header, also where it names the publisher, index, the first blocks and the last.
    let cases = [
        (14, length),
        (30, length),
        (40, length),
        (600, length - 1500),
        (4000, 3000),
        (20_000, 0),
    ];
    let clients = cases.map(|_| Identity::generate().unwrap());
    let listed: Vec<_> = clients.iter().map(Identity::fingerprint).collect();
    published.serve(&listed, 100, |address| {
        for ((at, least), me) in cases.into_iter().zip(&clients) {
            let client = Fetcher::new(&published, me);
            let mut part = whole[..length as usize - 10].to_vec();
            part[at] ^= 1;
            fs::write(client.file("set.vset.part"), part).unwrap();
            let fetched = client
                .fetch(address)
                .unwrap_or_else(|error| panic!("{at}: {error}"));
            assert!(
                (least..=length).contains(&fetched),
                "{at}: {fetched} of {length}"
            );
            assert_eq!(fs::read(client.file("set.vset")).unwrap(), whole);
        }
        // What does not begin as a set does is somebody's file.
        let client = Fetcher::new(&published, &clients[0]);
        let mut part = whole.clone();
        part[5] ^= 1;
        fs::write(client.file("set.vset.part"), &part).unwrap();
        let error = client.fetch(address).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Usage, "{error}");
        assert_eq!(fs::read(client.file("set.vset.part")).unwrap(), part);
    });
}
