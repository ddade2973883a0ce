//! `publish`, `serve` and `lookup`: the sender publishes, the receiver asks.

use std::collections::HashSet;
use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::Value;
use vesica_lookup::{Client, PublishedSet};
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Fingerprint, Identity, Intent, Listener, NoProgress,
    Transport, connect,
};
use vesica_wire::{Channel, Kind};

use crate::support::{Ended, NOBODY, Place, Running};
use crate::trial::{Dice, part};

const PUBLISH: &str =
    "publish --identity sender.key --set-dir database --output set.vset --progress none";

/// A table of these keys, each with a remark.
fn table(keys: impl IntoIterator<Item = u64>) -> String {
    let mut text = "id,remark\n".to_owned();
    for key in keys {
        text.push_str(&format!("{key},of {key}\n"));
    }
    text
}

/// Publishes alone: nothing that it says is of a peer or of two sides.
fn publish(place: &Place, words: &str) -> Ended {
    let ended = place.run(&format!("{PUBLISH} {words}"));
    let mut said = ended.err.lines();
    let of_two = said.find(|line| line.contains("peer") || line.contains("sides"));
    assert_eq!(of_two, None);
    ended
}

/// Serves to the receiver.
fn serve(place: &Place, words: &str) -> Running {
    place.write(
        "clients",
        format!("# all\n{} the charity\n\n", place.receiver),
    );
    place.start_after(
        "true",
        &format!(
            "serve --identity sender.key --set-dir database --clients clients --listen 127.0.0.1:0 {words}"
        ),
    )
}

fn look_up(place: &Place, endpoint: &str, words: &str) -> Ended {
    place.run(&format!(
        "lookup --identity receiver.key --peer {} --set set.vset --progress none {endpoint} {words}",
        place.sender
    ))
}

/// The report of a look-up, whose lines are JSON.
fn report(ended: &Ended) -> Value {
    ended.expect_success();
    let lines = ended
        .err
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut done = lines.filter(|line| line["event"] == "done");
    done.next().unwrap()["report"].clone()
}

fn stop(server: Running) -> Ended {
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let ended = server.wait();
    ended.expect_failure(143, "told to end by a signal");
    ended
}

#[test]
fn a_table_is_published_once_and_looked_up_many_times() {
    let place = Place::new();
    place.write("all.csv", table(0..1000));
    place.write(
        "mine.csv",
        "name,id,age\nann,7,30\nbob,1007,31\ncy,999,32\ndee,,33\nann,7,34\n",
    );
    let published = publish(&place, "--input all.csv --key id --payload remark");
    published.expect_success();
    for words in [
        "published 1000 keys",
        "and no more keys can be added (--max-keys)",
    ] {
        assert!(published.err.contains(words), "{}", published.err);
    }
    let mut server = serve(&place, "--quota 10");
    let endpoint = server.endpoint();
    let found = "name,id,age,peer_remark\nann,7,30,of 7\ncy,999,32,of 999\nann,7,34,of 7\n";
    let words = "--input mine.csv --key id --state state --log-format json";
    let first = look_up(&place, &endpoint, words);
    assert_eq!(first.text(), found);
    let said = report(&first);
    assert_eq!(
        (&said["asked"], &said["left"], &said["matches"]),
        (&3.into(), &7.into(), &2.into())
    );
    assert_eq!(
        (&said["rows"], &said["rows_written"], &said["blanks"]),
        (&5.into(), &3.into(), &1.into())
    );
    // Again, to a file: nobody is asked.
    let again = look_up(&place, &endpoint, &format!("{words} --output found.csv"));
    assert_eq!(report(&again)["asked"], 0);
    assert_eq!(place.read("found.csv"), found);
    let said = "the server was not met: a newer release of the set is noticed only with --fetch";
    assert!(again.err.contains(said), "{}", again.err);
    assert!(!first.err.contains(said), "{}", first.err);
    // The others, without a state.
    let rest = look_up(&place, &endpoint, "--input mine.csv --key id --rows rest");
    rest.expect_success();
    assert!(rest.err.contains("queries left    4"), "{}", rest.err);
    assert_eq!(
        rest.text(),
        "name,id,age\nbob,1007,31\ndee,,33\n"
            .replace("age\n", "age,peer_remark\n")
            .replace("31\n", "31,\n")
            .replace("33\n", "33,\n")
    );
    let ended = stop(server);
    assert!(
        ended
            .err
            .contains("6 of 1048576 queries of the key are used"),
        "{}",
        ended.err
    );
    // Without the server: what is known is found, and what is not waits for it.
    let known = look_up(&place, &endpoint, words);
    assert_eq!(report(&known)["asked"], 0);
    let nobody = format!("--connect {NOBODY}");
    let unknown = look_up(&place, &nobody, "--input mine.csv --key id --wait 1");
    unknown.expect_failure(4, "nobody listens");
    // The quota is still the same.
    let mut server = serve(&place, "--quota 10");
    let endpoint = server.endpoint();
    look_up(&place, &endpoint, "--input mine.csv --key id").expect_success();
    let refused = look_up(
        &place,
        &endpoint,
        "--input mine.csv --key id --output new.csv",
    );
    refused.expect_failure(7, "3 keys would have to be asked about, with 1 query left");
    assert!(refused.hint().contains("with --state"), "{}", refused.err);
    stop(server);
    let names = place.names();
    let expected = [
        "all.csv",
        "clients",
        "database",
        "found.csv",
        "mine.csv",
        "receiver.key",
        "sender.key",
        "set.vset",
        "state",
    ];
    assert_eq!(names, expected);
}

#[test]
fn what_cannot_be_is_refused_with_its_code() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    place.write("none.csv", "id,remark\n,x\n");
    publish(&place, "--input missing.csv --key id").expect_failure(3, "missing.csv");
    publish(&place, "--input none.csv --key id").expect_failure(3, "no row has a usable key");
    publish(&place, "--input all.csv --key id --max-keys 9")
        .expect_failure(2, "10 keys are more than the 9 that are declared");
    publish(&place, "--input all.csv --key id --lambda 65").expect_failure(2, "40 to 64");
    for option in ["--queries", "--max-keys"] {
        let words = format!("--input all.csv --key id {option} 2^41");
        publish(&place, &words).expect_failure(2, "a number up to 2^40");
    }
    let most = "--queries 2^40 --max-keys 2^40";
    publish(
        &place,
        &format!("--input all.csv --key id {most} --lambda 49"),
    )
    .expect_failure(2, "masks of more than 128 bits");
    // What all rows need, and not the first.
    place.write(
        "wide.csv",
        format!("{}10,of 10, at last\n", table(0..10)).replace(", at", " at"),
    );
    let wide = |width: u32| {
        let words = format!("--payload remark --payload-width {width}");
        publish(&place, &format!("--input wide.csv --key id {words}"))
    };
    let narrow = wide(3);
    narrow.expect_failure(
        3,
        "the payload takes 15 bytes, and the set has 3 for each key",
    );
    let hint =
        "declare 15 bytes or more (--payload-width); everybody who has the set sees how many";
    assert_eq!(narrow.hint(), hint);
    wide(14).expect_failure(3, "the payload takes 15 bytes");
    // Nothing is left of what failed.
    assert!(!place.path("database").exists());
    // The database of queries is another one.
    let of_queries = place.run_after(
        "export VESICA_DATABASE=postgresql://host/db",
        "publish --identity sender.key --output set.vset --input all.csv --key id",
    );
    of_queries.expect_failure(2, "--set-dir");
    serve(&place, "--quota 2^20")
        .wait()
        .expect_failure(2, "the directory database does not exist");
    assert!(!place.path("set.vset").exists());
    publish(&place, &format!("--input all.csv --key id {most}")).expect_success();
    publish(&place, "--input all.csv --key id").expect_failure(2, "holds a published set already");
    let words = "serve --identity receiver.key --set-dir database --clients clients --quota 9 --listen 127.0.0.1:0";
    place.run(words).expect_failure(
        3,
        "holds a file key that is damaged, or of another identity",
    );
    place.write("clients", "vs1:nonsense\n");
    let words = "serve --identity sender.key --set-dir database --clients clients --quota 9 --listen 127.0.0.1:0";
    place
        .run(words)
        .expect_failure(2, "clients: line 1: a fingerprint has 56 characters");
    place.write("clients", "# nobody\n");
    place.run(words).expect_failure(2, "names no client");
    for (file, found) in [
        ("sender.key", "an identity"),
        ("set.vset", "a published set"),
    ] {
        let ended = place.run(&words.replace("clients clients", &format!("clients {file}")));
        ended.expect_failure(2, found);
        assert!(ended.err.contains(", and not a "), "{}", ended.err);
        let key = place.read("sender.key");
        let secret = key.lines().nth(1).unwrap();
        assert!(!ended.err.contains(secret), "{}", ended.err);
    }
    let ended = place.run(&format!("{words} --set database"));
    let line = "--set database is the database of a published set, and not a published set";
    ended.expect_failure(2, line);
    let mut server = serve(&place, "--quota 2^40");
    let endpoint = server.endpoint();
    place
        .run(words.replace("clients clients", "clients all.csv").as_str())
        .expect_failure(2, "all.csv");
    let second = serve(&place, "--quota 2^20").wait();
    second.expect_failure(2, "is in use by another process, which serves the set");
    let rotated = publish(&place, "--input all.csv --key id --rotate");
    rotated.expect_failure(2, "is in use by another process, which serves the set");
    let hint = "stop that server, and start it again afterwards";
    assert_eq!(rotated.hint(), hint);
    serve(&place, "--quota 2^41")
        .wait()
        .expect_failure(2, "a number up to 2^40");
    let ask = |words: &str| look_up(&place, &endpoint, words);
    let columns = ask("--input all.csv --key remark,id");
    let words = "the keys of the published set have 1 column, and those of the table 2";
    columns.expect_failure(6, words);
    let hint = "name the columns that the set was made from with --key, in their order: exact";
    assert_eq!(columns.hint(), hint);
    let words = "the keys of the published set are normalised as exact/2, and those of the table as integer/1";
    let profile = ask("--input all.csv --key id --normalize id=integer");
    profile.expect_failure(6, words);
    let hint = "read the table as the set was made: --normalize COL=exact";
    assert_eq!(profile.hint(), hint);
    ask("--input none.csv --key id").expect_failure(3, "no row has a usable key");
    ask("--input none.csv --key id --allow-empty").expect_success();
    // The set that is named last counts.
    ask("--input all.csv --key id --set all.csv").expect_failure(3, "and not a published set");
    let stranger = place.run(&format!(
        "lookup --identity sender.key --peer {} --set set.vset --input all.csv --key id {endpoint} --wait 3",
        place.sender
    ));
    stranger.expect_failure(2, "that of this side's own identity");
    let other = place.run(&format!(
        "lookup --identity sender.key --peer {} --set set.vset --input all.csv --key id {endpoint}",
        place.receiver
    ));
    other.expect_failure(3, "was published by");
    place.run("keygen --out other.key").expect_success();
    let other = place.run(&format!(
        "lookup --identity other.key --peer {} --set set.vset --input all.csv --key id {endpoint}",
        place.sender
    ));
    other.expect_failure(6, "refused this side's identity");
    assert!(
        other.hint().contains("the list of clients"),
        "{}",
        other.err
    );
    let whole = std::fs::read(place.path("set.vset")).unwrap();
    let damaged = |bytes: &[u8], code: i32, words: &str| {
        place.write("set.vset", bytes);
        ask("--input all.csv --key id --output none").expect_failure(code, words);
        assert!(!place.path("none").exists());
    };
    damaged(&whole[..whole.len() - 1], 3, "ends too early");
    damaged(&[&whole[..], &[0]].concat(), 3, "more bytes follow");
    damaged(
        b"id,remark\n1,2\n",
        3,
        "is a text file, and not a published set",
    );
    let mut spoilt = whole.clone();
    *spoilt.last_mut().unwrap() ^= 1;
    damaged(&spoilt, 3, "damaged block 0");
    // Another publication: other answers.
    std::fs::rename(place.path("database"), place.path("old")).unwrap();
    let words = "is no release that the new set replaces";
    publish(&place, "--input all.csv --key id").expect_failure(2, words);
    std::fs::remove_file(place.path("set.vset")).unwrap();
    publish(&place, "--input all.csv --key id").expect_success();
    let anew = ask("--input all.csv --key id");
    anew.expect_failure(6, "disagree on published key");
    let hint = "remove its files here, and get the new one from the publisher, or with --fetch";
    assert!(anew.hint().ends_with(hint), "{}", anew.err);
    // And another count in the place of the one that was moved away, which is not written.
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server
        .wait()
        .expect_failure(2, "it was moved or replaced while it was in use");
}

/// A set is for anybody, as far as the publisher's mask lets others read its files; its database is not.
#[cfg(unix)]
#[test]
fn a_set_has_the_permissions_of_a_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let mode = |name: &str| place.path(name).metadata().unwrap().permissions().mode() & 0o777;
    place.write("all.csv", table(0..10));
    place.write("more.csv", table(10..12));
    let publish = |mask: &str, words: &str| {
        let words = format!("{PUBLISH} --key id {words}");
        place
            .run_after(&format!("umask {mask}"), &words)
            .expect_success();
    };
    publish("022", "--input all.csv --max-keys 20");
    publish("027", "--add more.csv");
    assert_eq!((mode("set.vset"), mode("set.vset.2")), (0o644, 0o640));
    assert_eq!((mode("database"), mode("database/key")), (0o700, 0o600));
    publish("077", "--input all.csv --rotate");
    // As the one that it replaces, and not more than what new files get.
    assert_eq!(mode("set.vset"), 0o644);
    std::fs::remove_file(place.path("set.vset")).unwrap();
    publish("077", "--input all.csv --rotate");
    assert_eq!(mode("set.vset"), 0o600);
}

/// A server that is there, and neither answers nor goes away.
#[test]
fn a_look_up_has_a_deadline() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    publish(&place, "--input all.csv --key id").expect_success();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("--connect {}", listener.local_addr());
    let identity = Identity::load(place.path("sender.key")).unwrap();
    for words in ["", "--fetch"] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let transport = Transport::Tls {
                    identity: &identity,
                    peer: place.receiver,
                    intent: Intent::Serve,
                };
                let met = listener.accept(&transport, &ConnectOptions::default());
                let mut channel = met.unwrap().channel;
                let heard = |code| Kind { code, name: "any" };
                let hello = channel.recv(heard(120), 1 << 10);
                assert!(hello.is_ok());
                let ended = channel.recv(heard(122), 0).unwrap_err();
                assert_eq!(ended.to_string(), "the peer closed the connection");
            });
            let words = format!("--input all.csv --key id --deadline 1 {words}");
            let ended = look_up(&place, &endpoint, &words);
            ended.expect_failure(4, "not done within 1 seconds");
            assert!(ended.hint().contains("--deadline"), "{}", ended.err);
        });
    }
}

/// The publisher adds, removes and rotates while clients keep what they know.
#[test]
fn a_published_set_changes() {
    let place = Place::new();
    place.write("all.csv", table(0..2000));
    place.write("mine.csv", table((0..3000).step_by(500)));
    publish(
        &place,
        "--input all.csv --key id --payload remark --max-keys 3000 --queries 500000",
    )
    .expect_success();
    let mut server = serve(&place, "--quota 100");
    let endpoint = server.endpoint();
    let words = "--input mine.csv --key id --state state --log-format json";
    let first = look_up(&place, &endpoint, words);
    assert_eq!(report(&first)["asked"], 6);
    let old = std::fs::read(place.path("database/key")).unwrap();
    place.write("more.csv", "id,remark\n2500,new\n500,other\n0,of 0\n");
    place.write("less.csv", "remark,id\nx,1000\nx,77777\n");
    let update = |words: &str| publish(&place, &format!("{words} --key id"));
    let updated = update("--add more.csv --remove less.csv");
    updated.expect_success();
    let said = [
        "keys: 1 new, 1 with another payload, 1 removed; set.vset.2 has",
        "the set 2000 keys; 999 more keys can be added (--max-keys)",
    ];
    for words in said {
        assert!(updated.err.contains(words), "{}", updated.err);
    }
    let now = "id,remark,peer_remark\n0,of 0,of 0\n500,of 500,other\n1500,of 1500,of 1500\n2500,of 2500,new\n";
    let second = look_up(&place, &endpoint, words);
    assert_eq!(second.text(), now);
    assert_eq!(report(&second)["asked"], 0);
    // A client without the second file is told once it asks.
    std::fs::rename(place.path("set.vset.2"), place.path("kept")).unwrap();
    let stale = look_up(&place, &endpoint, "--input mine.csv --key id");
    stale.expect_success();
    let warning = "the set here is release 1, and the publisher has release 2";
    assert!(stale.err.contains(warning), "{}", stale.err);
    let fetch = "get the files that are missing, or fetch them with --fetch";
    assert!(stale.err.contains(fetch), "{}", stale.err);
    // One that has seen it takes nothing older, whether it asks or not.
    let back = look_up(&place, &endpoint, words);
    let line = "is release 1, and an earlier look-up has seen release 2";
    assert_eq!(back.code, Some(3));
    assert!(
        back.err.contains(line)
            && back.err.contains("with --fetch")
            && back.err.contains("as --state"),
        "{}",
        back.err
    );
    update("--add more.csv").expect_failure(3, "published last, which is release 2");
    std::fs::rename(place.path("kept"), place.path("set.vset.2")).unwrap();
    // A database that was restored from a copy knows less than is beside it.
    let key = std::fs::read(place.path("database/key")).unwrap();
    place.write("database/key", old);
    let restored = update("--add more.csv --remove less.csv");
    restored.expect_failure(3, "is older than its set");
    assert!(restored.hint().contains("publish anew"), "{}", restored.err);
    place.write("database/key", key);
    let again = update("--add more.csv --remove less.csv");
    again.expect_success();
    assert!(again.err.contains("nothing has changed"), "{}", again.err);
    place.write("more.csv", table(5000..6000));
    let full = update("--add more.csv");
    full.expect_failure(
        2,
        "3001 keys in all, with those that have left, are more than the 3000",
    );
    let hint = "publish the whole table anew, with --rotate and a larger --max-keys";
    assert_eq!(full.hint(), hint);
    place.write("less.csv", table(5000..5001));
    update("--add less.csv --remove less.csv").expect_failure(2, "to be added and removed");
    update("--add none.csv").expect_failure(3, "none.csv");
    publish(&place, "--add less.csv --key remark,id").expect_failure(6, "have 1 column");
    place.write("long.csv", format!("id,remark\n1,{}\n", "x".repeat(70)));
    let long = update("--add long.csv");
    long.expect_failure(3, "takes 72 bytes, and the set has 64 for each key");
    let hint =
        "shorten it, or publish the whole table anew, with --rotate and a larger --payload-width";
    assert_eq!(long.hint(), hint);
    let second = std::fs::read(place.path("set.vset.2")).unwrap();
    for (name, words) in [
        ("set.vset.3", "is release 2, and 3 comes next"),
        (
            "set.vset.4",
            "set.vset.4 has the name of a release, and release 3 before it is not there",
        ),
    ] {
        place.write(name, &second);
        look_up(&place, &endpoint, "--input mine.csv --key id").expect_failure(3, words);
        std::fs::remove_file(place.path(name)).unwrap();
    }
    update("--remove more.csv").expect_success();
    assert!(!place.path("set.vset.3").exists());
    place.write("less.csv", table(0..10));
    update("--remove less.csv").expect_success();
    assert!(place.path("set.vset.3").exists());
    // A new key: not while the old one is served.
    let rotate = "--input all.csv --key id --rotate";
    publish(&place, rotate).expect_failure(2, "is in use by another process");
    stop(server);
    place.write("set.vset.77", "mine");
    // It would be taken for a release of the new set.
    let other = "set.vset.77 is there, and is no set of this publisher";
    publish(&place, rotate).expect_failure(2, other);
    assert_eq!(place.read("set.vset.77"), "mine");
    std::fs::remove_file(place.path("set.vset.77")).unwrap();
    let rotated = publish(&place, rotate);
    rotated.expect_success();
    // As many as the key before.
    assert!(
        rotated.err.contains("the key answers 500000 queries"),
        "{}",
        rotated.err
    );
    for less in [
        "the set had room for 3000 keys before, and has room for 2000 now: --max-keys says",
        "the set had the columns remark before, and has none now: --payload names them",
    ] {
        assert!(rotated.err.contains(less), "{}", rotated.err);
    }
    assert!(!place.path("set.vset.2").exists() && !place.path("set.vset.3").exists());
    let quotas = place.path("database").read_dir().unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_str().unwrap().starts_with("quotas-")
    });
    assert_eq!(quotas.count(), 1);
    let mut server = serve(&place, "--quota 100");
    let endpoint = server.endpoint();
    let third = look_up(&place, &endpoint, words);
    assert_eq!(report(&third)["asked"], 6);
    stop(server);
}

/// A client's table against a published one, many times, with all kinds of sizes and options.
#[test]
fn random_look_ups_find_what_a_plain_set_finds() {
    let runs = part(8);
    for seed in 0..runs {
        let mut dice = Dice::new(0x100c_0000 + seed);
        let place = Place::new();
        let universe = 1 + dice.below(3000);
        let mut some = |most: u64| -> Vec<u64> {
            let count = 1 + dice.below(most);
            (0..count).map(|_| dice.below(universe)).collect()
        };
        let (all, mine) = (some(2500), some(600));
        let [has_payload, is_small, keeps, asks_with_little] =
            [0, 1, 2, 3].map(|_| dice.below(2) == 0);
        place.write("all.csv", table(all.iter().copied()));
        let payload = if has_payload {
            "--payload remark --payload-width 16"
        } else {
            ""
        };
        let little = |is_so: bool| if is_so { "--memory 64K" } else { "" };
        let memory = little(is_small);
        publish(
            &place,
            &format!("--input all.csv --key id {payload} {memory}"),
        )
        .expect_success();
        let mut server = serve(&place, "--quota 2^20");
        let endpoint = server.endpoint();
        let set: HashSet<u64> = all.into_iter().collect();
        let state = if keeps { "--state state" } else { "" };
        let memory = little(asks_with_little);
        let third = mine.len().div_ceil(3);
        for mine in [&mine[..third], &mine[..], &mine[third / 2..]] {
            place.write("mine.csv", table(mine.iter().copied()));
            let found = look_up(
                &place,
                &endpoint,
                &format!("--input mine.csv --key id {state} {memory}"),
            );
            found.expect_success();
            let mut expected = String::from(match has_payload {
                true => "id,remark,peer_remark\n",
                false => "id,remark\n",
            });
            for key in mine.iter().filter(|key| set.contains(key)) {
                expected.push_str(&match has_payload {
                    true => format!("{key},of {key},of {key}\n"),
                    false => format!("{key},of {key}\n"),
                });
            }
            assert_eq!(found.text(), expected, "seed {seed}");
        }
        stop(server);
    }
}

#[test]
fn a_look_up_has_a_report_however_it_ends() {
    let place = Place::new();
    place.write("all.csv", table(0..100));
    publish(&place, "--input all.csv --key id").expect_success();
    place.write("mine.csv", table(90..110));
    let mut server = serve(&place, "--quota 2^20");
    let endpoint = server.endpoint();
    let words = "--input mine.csv --key id --output found.csv --report report.json";
    look_up(&place, &endpoint, words).expect_success();
    let report = || -> Value { serde_json::from_str(&place.read("report.json")).unwrap() };
    let told = report();
    assert_eq!(
        (&told["exit_code"], &told["matches"]),
        (&0.into(), &10.into())
    );
    assert_eq!(
        (&told["rows_written"], &told["asked"]),
        (&10.into(), &20.into())
    );
    assert_eq!(
        (&told["role"], &told["peer"]),
        (&Value::Null, &place.sender.to_string().into())
    );
    // One that was understood, and cannot be.
    let clash = words.replace("found.csv", "mine.csv");
    look_up(&place, &endpoint, &clash).expect_failure(2, "are the same file");
    assert_eq!(report()["exit_code"], 2);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    server.wait();
    look_up(&place, &endpoint, &format!("{words} --wait 1")).expect_failure(4, "");
    let told = report();
    assert_eq!(
        (&told["exit_code"], &told["peer"]),
        (&4.into(), &place.sender.to_string().into())
    );
    assert!(told["error"].is_string() && told["matches"].is_null());
    look_up(&place, &endpoint, "--input mine.csv --key id --report -")
        .expect_failure(2, "standard output");
}

/// Keys, answers and what is found with them go to the disk, and nothing else changes: rows, what is asked, and the files.
#[test]
fn look_ups_with_little_memory_find_the_same() {
    let place = Place::new();
    place.write("all.csv", table((0..3000).map(|key| 3 * key)));
    publish(&place, "--input all.csv --key id --payload remark").expect_success();
    // Rows without a key, of one key, and of keys that are not in the set.
    let rows = (0..4000).map(|row| match row % 5 {
        0 => "-,,\n".to_owned(),
        1 => format!("{row},9,\n"),
        _ => format!("{row},{},\u{e9}\n", row * 7 % 5000),
    });
    place.write(
        "mine.csv",
        "row,id,text\n".to_owned() + &rows.collect::<String>(),
    );
    let mut server = serve(&place, "--quota 2^20");
    let endpoint = server.endpoint();
    for rows in ["matching", "rest", "all"] {
        let mut found = Vec::new();
        for memory in ["4G", "64K"] {
            let state = format!("state-{memory}");
            // The first asks, and the second knows.
            for kept in [
                String::new(),
                format!("--state {state}"),
                format!("--state {state}"),
            ] {
                let words = format!(
                    "--input mine.csv --key id --rows {rows} --memory {memory} {kept} --log-format json"
                );
                let ended = look_up(&place, &endpoint, &words);
                let said = report(&ended);
                let of = ["asked", "matches", "rows_written", "items", "bytes_sent"];
                found.push((ended.text().to_owned(), of.map(|name| said[name].clone())));
            }
        }
        let few = found.split_off(3);
        assert!(found == few, "{rows}");
        assert!(found[0].0.lines().count() > 500 && found[0].0 == found[2].0);
        let bytes = |memory| {
            place
                .path(&format!("state-{memory}/state"))
                .metadata()
                .unwrap()
                .len()
        };
        // The stamp of the set's file is kept once that is old enough.
        let more = bytes("4G").abs_diff(bytes("64K"));
        assert!([0, 96].contains(&more), "{more}");
    }
    stop(server);
    let left = place.names();
    let is_known = |name: &String| {
        ["mine.csv", "all.csv", "set.vset", "clients", "database"].contains(&name.as_str())
            || name.ends_with(".key")
            || name.starts_with("state-")
    };
    assert!(left.iter().all(is_known), "{left:?}");
}

/// A server that is killed at any time gives nobody a query back, and a client no wrong row.
#[test]
fn a_killed_server_gives_no_quota_back() {
    let mut dice = Dice::new(0x5111_ed00);
    let place = Place::new();
    place.write("all.csv", table(0..100));
    publish(&place, "--input all.csv --key id --queries 100000").expect_success();
    let mut got = 0;
    for round in 0..part(6) {
        let mut server = serve(&place, "--quota 2^20");
        let endpoint = server.endpoint();
        let killed = Duration::from_millis(dice.below(120));
        std::thread::scope(|scope| {
            let place = &place;
            let endpoint = &endpoint;
            let clients: Vec<_> = (0..2)
                .map(|client| {
                    scope.spawn(move || {
                        let first = 1000 * (2 * round + client);
                        let name = format!("mine{client}.csv");
                        place.write(&name, table(first..first + 300));
                        let words = format!("--input {name} --key id --wait 0.3 --log-format json");
                        look_up(place, endpoint, &words)
                    })
                })
                .collect();
            std::thread::sleep(killed);
            server.process.kill().unwrap();
            for client in clients {
                let ended = client.join().unwrap();
                match ended.code {
                    Some(0) => {
                        let said = report(&ended);
                        assert_eq!(
                            said["matches"],
                            if round == 0 && ended.text().contains("of 0") {
                                100
                            } else {
                                0
                            }
                        );
                        got += said["asked"].as_u64().unwrap();
                    }
                    code => assert_eq!(code, Some(4), "{}", ended.err),
                }
            }
        });
        server.wait();
        // What is left is at most what was not answered.
        let mut server = serve(&place, "--quota 2^20");
        server.endpoint();
        let used: u64 = server
            .said()
            .lines()
            .find_map(|line| {
                let rest = line.split_once("serving to 1 client; ")?.1;
                rest.split(' ').next()?.parse().ok()
            })
            .unwrap();
        assert!(used >= got, "{used} of {got}");
        server.process.kill().unwrap();
        server.wait();
    }
}

/// Bytes of the journal of a publication, with this many blocks of masks.
fn journal_bytes(blocks: u64) -> u64 {
    blocks * (16 << 14)
}

/// What stops half-way is finished by the same command, and by no other.
#[test]
fn a_publication_goes_on_after_a_failure() {
    let place = Place::new();
    place.write("all.csv", table(0..40_000));
    place.write("mine.csv", "id\n39999\n40000\n");
    let journal = place.path("database/publishing-journal");
    let length = || journal.metadata().map_or(0, |metadata| metadata.len());
    let words = "--input all.csv --key id";
    // One block of three has room.
    let full = "ulimit -f 600";
    let stopped = place.run_after(full, &format!("{PUBLISH} {words}"));
    stopped.expect_failure(7, "publishing-journal");
    let hint = "the same command again goes on from there";
    assert!(stopped.hint().contains(hint), "{}", stopped.err);
    assert!(length() > journal_bytes(1) && !place.path("set.vset").exists());
    // Other options; Ctrl-C.
    let words = format!("{words} --lambda 41");
    let mut running = place.start_after("true", &format!("{PUBLISH} {words}"));
    running.wait_for("warning: starting over: ");
    running.wait_until(|| (journal_bytes(1)..journal_bytes(2)).contains(&length()));
    running.signal(nix::sys::signal::Signal::SIGINT);
    let stopped = running.wait();
    assert_eq!(stopped.code, Some(130), "{}", stopped.err);
    assert!(stopped.err.contains(hint), "{}", stopped.err);
    assert_eq!(
        place.names(),
        [
            "all.csv",
            "database",
            "mine.csv",
            "receiver.key",
            "sender.key"
        ]
    );
    let published = publish(&place, &format!("{words} --log-format json"));
    published.expect_success();
    let event = |name: &str| {
        let mut lines = published.err.lines();
        lines.find_map(|line| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["event"] == name).then_some(line)
        })
    };
    let done = event("resumed").unwrap()["done"].as_u64().unwrap();
    assert!(done > 0 && done % (1 << 14) == 0, "{done}");
    assert_eq!(event("published").unwrap()["resumed"], done);
    assert!(!journal.exists());
    publish(&place, &words).expect_failure(2, "holds a published set already");
    let mut server = serve(&place, "--quota 10");
    let endpoint = server.endpoint();
    let found = look_up(&place, &endpoint, "--input mine.csv --key id");
    assert_eq!(found.text(), "id\n39999\n");
    stop(server);
}

/// Sets and releases of a process that is killed at any time are whole or not there, and the same command finishes them.
#[test]
fn killed_publications_go_on() {
    let mut dice = Dice::new(0x9b11_5e00);
    let place = Place::new();
    place.write("all.csv", table(0..17_000));
    // Longer each time, so that something is done in the end however slow the machine is.
    let mut finish = |words: &str, mut most: u64| {
        loop {
            most += most / 2;
            let running = place.start_after("true", &format!("{PUBLISH} {words} --key id"));
            std::thread::sleep(Duration::from_millis(dice.below(most)));
            running.signal(nix::sys::signal::Signal::SIGKILL);
            let ended = running.wait();
            if place.path("set.vset").exists() {
                let set = PublishedSet::open(&place.path("set.vset"), place.sender);
                set.and_then(|set| set.verify()).unwrap();
            }
            match ended.code {
                None => {}
                Some(0) => break,
                // Killed when nothing was left to do.
                Some(_) => {
                    ended.expect_failure(2, "holds a published set already");
                    break;
                }
            }
        }
        // All that was to come is there, under the key of the database.
        let words = words.replace("--input", "--add");
        let (file, _) = words.split_once(".csv").unwrap();
        let again = publish(&place, &format!("{file}.csv --key id"));
        again.expect_success();
        assert!(again.err.contains("nothing has changed"), "{}", again.err);
    };
    let all = "--input all.csv --max-keys 2^17";
    finish(all, 700);
    finish(&format!("{all} --rotate"), 700);
    for round in 0..part(2) {
        let first = 17_000 + 1000 * round;
        place.write("more.csv", table(first..first + 1000));
        finish("--add more.csv", 200);
    }
}

/// The example with a list of breached passwords.
#[test]
fn passwords_are_checked_against_a_published_list() {
    let place = Place::new();
    let breached: String = (0..3000).map(|i| format!("secret{i}\n")).collect();
    place.write("all.csv", format!("password\n{breached}"));
    place.write(
        "accounts.csv",
        "account,password\nann,secret7\nbob,\"c0rrect, horse\"\ncy,secret2999\n",
    );
    publish(&place, "--input all.csv --key password --max-keys 2^21").expect_success();
    let mut server = serve(&place, "--quota 2^20");
    let endpoint = server.endpoint();
    let binary = Path::new(env!("CARGO_BIN_EXE_vesica")).parent().unwrap();
    let example = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/breaches/check_passwords.py"
    );
    let mut command = Command::new("python3");
    command.arg(example).arg("accounts.csv");
    command.args(["--set", "set.vset", "--identity", "receiver.key"]);
    command.args(["--peer", &place.sender.to_string()]);
    command
        .args(endpoint.split(' '))
        .current_dir(place.path(""));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(binary.to_owned()).chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(paths).unwrap());
    let checked = command.output().unwrap();
    let said = String::from_utf8_lossy(&checked.stderr);
    assert_eq!(
        String::from_utf8(checked.stdout).unwrap(),
        "ann\ncy\n",
        "{said}"
    );
    stop(server);
}

/// A server of the set, and identities of clients.
struct Crowd {
    server: Running,
    address: String,
    publisher: Fingerprint,
    set: PathBuf,
    identities: Vec<Identity>,
}

impl Crowd {
    fn new(place: &Place, clients: usize, words: &str) -> Crowd {
        let identities: Vec<_> = (0..clients)
            .map(|_| Identity::generate().unwrap())
            .collect();
        let list = identities
            .iter()
            .map(|one| format!("{}\n", one.fingerprint()));
        place.write("crowd", list.collect::<String>());
        let words = format!(
            "serve --identity sender.key --set-dir database --clients crowd --listen 127.0.0.1:0 {words}"
        );
        let mut server = place.start_after("ulimit -n 10000", &words);
        Crowd {
            address: server.wait_for("listening on "),
            server,
            publisher: place.sender,
            set: place.path("set.vset"),
            identities,
        }
    }

    /// A connection of each.
    fn connections(&self) -> Vec<Connection> {
        let endpoint = Endpoint::Connect(self.address.clone());
        let connect = |identity| {
            let peer = self.publisher;
            let transport = Transport::Tls {
                identity,
                peer,
                intent: Intent::LookUp,
            };
            connect(&endpoint, &transport, &ConnectOptions::default()).unwrap()
        };
        self.identities.iter().map(connect).collect()
    }

    /// A client of each.
    fn clients(&self) -> Vec<Client> {
        let set = PublishedSet::open(&self.set, self.publisher).unwrap();
        let connections = self.connections().into_iter();
        connections
            .map(|one| Client::new(one.channel, set.header()).unwrap())
            .collect()
    }
}

/// How often the threads of a process have waited so far.
#[cfg(target_os = "linux")]
fn waits(process: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let waits = tasks.map(|task| -> u64 {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let waits = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits.unwrap().trim().parse().unwrap()
    });
    waits.sum()
}

/// A server sleeps as long as nobody asks, and answers then.
#[cfg(target_os = "linux")]
#[test]
fn idle_clients_do_not_wake_the_server() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    publish(&place, "--input all.csv --key id").expect_success();
    let crowd = Crowd::new(&place, 20, "--quota 10");
    let mut clients = crowd.clients();
    // Until all rest.
    std::thread::sleep(Duration::from_millis(200));
    let process = crowd.server.process.id();
    let before = waits(process);
    std::thread::sleep(Duration::from_millis(500));
    let waits = waits(process) - before;
    // It would be 40 for each client if both of its threads woke every 25 ms.
    assert!(waits < 200, "{waits} waits");
    for client in &mut clients {
        client.ask(&[[7; 32]], &[1; 32], &mut NoProgress).unwrap();
    }
    drop(clients);
    // It says why it leaves those who are there.
    let connections = crowd.connections();
    stop(crowd.server);
    for mut connection in connections {
        let answer = Kind {
            code: 122,
            name: "answer",
        };
        let left = connection.channel.recv(answer, 100).unwrap_err();
        let words = "the peer gave up: told to end by a signal";
        assert_eq!(left.to_string(), words);
    }
}

/// A thousand clients at once: what they cost while they are idle, and how long each waits for an answer and for the set.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "a thousand clients"]
fn a_thousand_clients_at_once() {
    const CLIENTS: usize = 1000;
    let seconds = |process: u32| -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / 100.0
    };
    let place = Place::new();
    place.write("all.csv", table(0..1 << 16));
    publish(&place, "--input all.csv --key id").expect_success();
    let crowd = Crowd::new(&place, CLIENTS, "--quota 1000 --set set.vset");
    let clients = crowd.clients();
    let process = crowd.server.process.id();
    let before = seconds(process);
    std::thread::sleep(Duration::from_secs(30));
    let idle = seconds(process) - before;
    eprintln!("idle for 30 s: {idle:.2} s of the processor");
    assert!(idle < 1.0, "{idle}");
    all_at_once("64 keys each", clients, |_, mut client| {
        let digests: Vec<[u8; 32]> = (0..64).map(|key| [key; 32]).collect();
        client.ask(&digests, &[1; 32], &mut NoProgress).unwrap();
    });
    let bytes = place.path("set.vset").metadata().unwrap().len();
    all_at_once("the set each", crowd.connections(), |number, connection| {
        let set = place.path(&format!("{number}.vset"));
        let fetched = Client::fetch(
            connection.channel,
            None,
            &set,
            place.sender,
            &mut NoProgress,
        );
        assert_eq!(fetched.unwrap().2, bytes);
    });
    stop(crowd.server);
}

/// Works on all of these at once, and says how long each took.
#[cfg(target_os = "linux")]
fn all_at_once<T: Send>(what: &str, all: Vec<T>, work: impl Fn(usize, T) + Sync) {
    let start = Barrier::new(all.len());
    let timed = |number, one| {
        start.wait();
        let began = Instant::now();
        work(number, one);
        began.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        let timed = &timed;
        let all = all.into_iter().enumerate();
        let all = all.map(|(number, one)| scope.spawn(move || timed(number, one)));
        let all: Vec<_> = all.collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    times.sort_by(f64::total_cmp);
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!("{what}: median {median:.2} s, slowest {slowest:.2} s");
    assert!(slowest < 3.0 * median, "{what}");
}

#[test]
fn the_files_of_a_set_are_fetched_from_its_server() {
    let place = Place::new();
    place.write("all.csv", table(0..1000));
    place.write("more.csv", table(1000..1010));
    place.write("mine.csv", "id\n7\n1007\n2007\n");
    publish(&place, "--input all.csv --key id --max-keys 2000").expect_success();
    let mut server = serve(&place, "--quota 100 --set set.vset");
    let endpoint = server.endpoint();
    // To another name, as a client elsewhere.
    let words = format!(
        "lookup --identity receiver.key --peer {} --set got.vset --fetch --input mine.csv --key id --state state \
         --progress none {endpoint}",
        place.sender
    );
    let fetch = || place.run(&format!("{words} --log-format json"));
    let bytes = |name: &str| place.path(name).metadata().unwrap().len();
    // A disk that is full after 4 KiB of the file; once there is room it goes on from there.
    let full = place.run_after("ulimit -f 8", &words);
    let missing = bytes("set.vset") - 4096;
    full.expect_failure(
        7,
        &format!("no room for the set, {missing} bytes are missing"),
    );
    assert!(full.out.is_empty() && !place.path("got.vset").exists());
    assert_eq!(bytes("got.vset.part"), 4096);
    let first = fetch();
    assert_eq!(first.text(), "id\n7\n");
    // And what was here of a block of which the end was not.
    let fetched = report(&first)["fetched"].as_u64().unwrap();
    assert!((missing..missing + 4096).contains(&fetched), "{fetched}");
    publish(&place, "--add more.csv --key id").expect_success();
    let second = fetch();
    assert_eq!(second.text(), "id\n7\n1007\n");
    let said = report(&second);
    assert_eq!(
        (&said["fetched"], &said["asked"], &said["release"]),
        (&bytes("set.vset.2").into(), &0.into(), &2.into())
    );
    assert!(!place.path("got.vset.part").exists() && !place.path("got.vset.2.part").exists());
    let ended = stop(server);
    let handed_out = bytes("set.vset") + fetched + bytes("set.vset.2");
    assert!(
        ended
            .err
            .contains(&format!("{handed_out} bytes of files handed out")),
        "{}",
        ended.err
    );
    // A server that hands nothing out, and one whose files are not what it has published last.
    let mut server = serve(&place, "--quota 100");
    let endpoint = server.endpoint();
    look_up(&place, &endpoint, "--input mine.csv --key id").expect_success();
    let fetch = format!("{endpoint} --input mine.csv --key id --fetch");
    look_up(&place, &fetch, "").expect_failure(6, "files of the set");
    stop(server);
    // A later release is none of a set, whichever command is given it.
    let look_up = |set: &str, endpoint: &str| {
        format!(
            "lookup --identity receiver.key --peer {} --set {set} --input mine.csv --key id {endpoint}",
            place.sender
        )
    };
    for words in [
        look_up("got.vset.2", &endpoint),
        "serve --identity sender.key --set-dir database --clients clients --quota 100 --listen 127.0.0.1:0 --set got.vset.2"
            .to_owned(),
        format!("{PUBLISH} --key id --add all.csv").replace("set.vset", "got.vset.2"),
        format!("{PUBLISH} --key id --input all.csv --rotate").replace("set.vset", "got.vset.2"),
    ] {
        let ended = place.run(&words);
        ended.expect_failure(2, "got.vset.2 is release 2 of a set, and not the set itself");
        assert_eq!(ended.hint(), "name got.vset: the later releases are found beside it");
    }
    // One that was published anew: what is to be removed is said, and then it is fetched.
    let old = std::fs::read(place.path("set.vset")).unwrap();
    publish(&place, "--input all.csv --key id --rotate").expect_success();
    let mut server = serve(&place, "--quota 100 --set set.vset");
    let endpoint = server.endpoint();
    let fetch = |set: &str| place.run(&format!("{} --fetch", look_up(set, &endpoint)));
    let anew = fetch("got.vset");
    anew.expect_failure(6, "got.vset was published anew: the server has another key");
    let hint = "remove got.vset and got.vset.2, and the same again fetches the new set";
    assert_eq!(anew.hint(), hint);
    for file in ["got.vset", "got.vset.2"] {
        std::fs::remove_file(place.path(file)).unwrap();
    }
    let fetched = fetch("got.vset");
    assert_eq!(fetched.text(), "id\n7\n");
    for phase in ["phase: files of the set", "phase: look-up"] {
        assert!(fetched.err.contains(phase), "{}", fetched.err);
    }
    fetch("none/got.vset").expect_failure(2, "--set none/got.vset: there is no directory none");
    stop(server);
    // Another set is refused before anybody is told that it is served.
    place.write("other.vset", old);
    let refused = serve(&place, "--quota 100 --set other.vset").wait();
    refused.expect_failure(3, "other.vset is not what this database has published last");
    assert!(!refused.err.contains("listening"), "{}", refused.err);
}

/// Neither the publisher nor a client writes over what is no release of this set.
#[test]
fn other_files_are_not_replaced_by_a_set() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    place.write("more.csv", table(10..12));
    place.write("mine.csv", "id\n7\n");
    let all = "--input all.csv --key id --max-keys 2000";
    let words = "is there, and is no set of this publisher";
    for other in ["id\n1\n", "x"] {
        place.write("set.vset", other);
        publish(&place, all).expect_failure(2, words);
        assert_eq!(place.read("set.vset"), other);
    }
    place.write("set.vset", "");
    publish(&place, all).expect_success();
    // One's own is replaced, and another publisher's is not.
    publish(&place, &format!("{all} --rotate")).expect_success();
    let others = |words: &str| {
        place.run(&format!(
            "publish --identity receiver.key --set-dir others --progress none {words}"
        ))
    };
    others(&format!("--output set.vset {all}")).expect_failure(2, words);
    // Nor does it add to it.
    others(&format!("--output others.vset {all}")).expect_success();
    others("--output set.vset --add more.csv --key id")
        .expect_failure(3, "set.vset is not what this database has published last");
    publish(&place, "--add more.csv --key id").expect_success();
    let mut server = serve(&place, "--quota 100 --set set.vset");
    let fetch = format!(
        "lookup --identity receiver.key --peer {} --set got.vset --fetch --input mine.csv --key id --progress none {}",
        place.sender,
        server.endpoint()
    );
    for name in ["got.vset.part", "got.vset.2", "got.vset.2.part"] {
        place.write(name, "id\n1\n");
        let refused = place.run(&fetch);
        refused.expect_failure(2, words);
        assert!(
            refused.err.contains(name) && refused.out.is_empty(),
            "{}",
            refused.err
        );
        assert_eq!(place.read(name), "id\n1\n");
        std::fs::remove_file(place.path(name)).unwrap();
        let _ = std::fs::remove_file(place.path("got.vset"));
    }
    // What a crash has left is.
    place.write("got.vset.part", [0; 4096]);
    place.run(&fetch).expect_success();
    stop(server);
}

#[test]
fn what_others_have_beside_a_set_and_in_its_database_stays() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    let from = |database: &str, set: &str| {
        place.run(&format!(
            "publish --identity sender.key --set-dir {database} --output {set} --input all.csv --key id --progress none"
        ))
    };
    from("first", "n.vset.20251127").expect_success();
    let live = std::fs::read(place.path("n.vset.20251127")).unwrap();
    let words = "is there, and is no release that the new set replaces";
    for set in ["n.vset", "n.vset.20251127"] {
        let refused = from("second", set);
        refused.expect_failure(2, &format!("n.vset.20251127 {words}"));
        assert!(
            refused.hint().contains("another directory"),
            "{}",
            refused.err
        );
        assert!(std::fs::read(place.path("n.vset.20251127")).unwrap() == live);
    }
    // It was made for the set, and goes with it.
    assert!(!place.path("second").exists());
    std::fs::create_dir(place.path("second")).unwrap();
    place.write("second/quotas-2026.csv", "mine");
    std::fs::create_dir(place.path("second/quotas-2025")).unwrap();
    from("second", "set.vset").expect_success();
    place
        .run("publish --identity sender.key --set-dir second --output set.vset --input all.csv --key id --rotate --progress none")
        .expect_success();
    assert_eq!(place.read("second/quotas-2026.csv"), "mine");
    assert!(place.path("second/quotas-2025").is_dir());
}

/// With or without the set at hand.
#[test]
fn a_restored_database_is_not_served() {
    let place = Place::new();
    place.write("all.csv", table(0..100));
    publish(&place, "--input all.csv --key id --max-keys 2000").expect_success();
    std::fs::create_dir(place.path("backup")).unwrap();
    let copy = |from: &str, to: &str| {
        for entry in place.path(from).read_dir().unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), place.path(to).join(entry.file_name())).unwrap();
        }
    };
    copy("database", "backup");
    for first in [1000, 1010] {
        place.write("more.csv", table(first..first + 10));
        publish(&place, "--add more.csv --key id").expect_success();
    }
    copy("backup", "database");
    for words in ["--quota 100", "--quota 100 --set set.vset"] {
        let refused = serve(&place, words).wait();
        let line =
            "is older than its set: it knows of release 1 at most, and release 3 was published";
        refused.expect_failure(3, line);
        assert!(refused.hint().contains("publish anew"), "{}", refused.err);
    }
    // Under another key, as it says.
    publish(&place, "--input all.csv --key id --rotate").expect_success();
    let mut server = serve(&place, "--quota 100 --set set.vset");
    server.endpoint();
    stop(server);
}

/// Passes so many bytes of a client on to a server, and so many back; then ends.
fn cutting_relay(server: &str, most: [u64; 2]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("--connect {}", listener.local_addr().unwrap());
    let server = server.rsplit(' ').next().unwrap().to_owned();
    std::thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        std::thread::scope(|scope| {
            let ways = [(&client, &server), (&server, &client)];
            for ((from, to), most) in ways.into_iter().zip(most) {
                scope.spawn(move || {
                    let (mut from, mut to) = (from.take(most), to);
                    let _ = std::io::copy(&mut from, &mut to);
                    for stream in [from.into_inner(), to] {
                        let _ = stream.shutdown(Shutdown::Both);
                    }
                });
            }
        });
    });
    endpoint
}

/// Whether the server has got the question or not, and has a quota for it or not.
#[test]
fn a_look_up_pays_for_no_key_of_one_that_was_cut() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    place.write("many.csv", table(0..300));
    place.write("few.csv", table(295..305));
    place.write("others.csv", table(1000..1010));
    publish(&place, "--input all.csv --key id").expect_success();
    let said = |words: &str, endpoint: &str| {
        let words = format!("--key id --log-format json --input {words}");
        let said = report(&look_up(&place, endpoint, &words));
        ["asked", "recalled", "withdrawn", "left"].map(|name| said[name].as_u64().unwrap_or(9999))
    };
    let cut = |endpoint: &str, most: [u64; 2], state: &str| {
        let relay = cutting_relay(endpoint, most);
        let words = format!("--input many.csv --key id --state {state}");
        let cut = look_up(&place, &relay, &words);
        assert_eq!(cut.code, Some(4), "{}", cut.err);
    };
    let mut server = serve(&place, "--quota 1000");
    let endpoint = server.endpoint();
    // In the middle of the question, which has 9600 bytes, and in that of its answer.
    let all = u64::MAX;
    cut(&endpoint, [8000, all], "unsent");
    cut(&endpoint, [8000, all], "dear");
    cut(&endpoint, [all, 6000], "paid");
    // 300 are paid for already.
    let [unsent, paid] = ["unsent", "paid"].map(|state| format!(" --state {state}"));
    assert_eq!(
        said(&format!("few.csv {unsent}"), &endpoint),
        [10, 0, 300, 690]
    );
    assert_eq!(
        said(&format!("others.csv {paid}"), &endpoint),
        [10, 300, 0, 680]
    );
    assert_eq!(said(&format!("few.csv {paid}"), &endpoint), [5, 0, 0, 675]);
    assert_eq!(
        said(&format!("many.csv {paid}"), &endpoint),
        [0, 0, 0, 9999]
    );
    assert_eq!(
        said(&format!("many.csv {unsent}"), &endpoint),
        [295, 0, 0, 380]
    );
    stop(server);
    let mut server = serve(&place, "--quota 630");
    let few = "others.csv --state dear";
    assert_eq!(said(few, &server.endpoint()), [10, 0, 300, 0]);
    let ended = stop(server);
    assert!(!ended.err.contains("refused"), "{}", ended.err);
}

/// A disk that is full by the time that the answers have come.
#[test]
fn answers_that_cannot_be_kept_are_an_error() {
    let place = Place::new();
    place.write("all.csv", table(0..10));
    place.write("mine.csv", table(0..300));
    publish(&place, "--input all.csv --key id").expect_success();
    let mut server = serve(&place, "--quota 1000 --set set.vset");
    let words = format!(
        "lookup --identity receiver.key --peer {} --set got.vset --fetch --input mine.csv --key id --state state \
         --progress none {}",
        place.sender,
        server.endpoint()
    );
    // There is room for the questions, of 32 bytes each, and not for the answers, of 96.
    let full = place.run_after("ulimit -f 32", &words);
    full.expect_failure(7, "state");
    // They are paid for, and had again.
    let again = report(&place.run(&format!("{words} --log-format json")));
    let counts = ["asked", "recalled", "withdrawn", "left"].map(|name| again[name].as_u64());
    assert_eq!(counts, [Some(0), Some(300), Some(0), Some(700)]);
    stop(server);
}
