//! Tables in a store of objects, and results in it. The server is in this process; `scripts/object_stores.py` has others.

use vesica_testing::{Answer, ObjectServer};

use crate::support::{Arguments, Place, exchange};

/// A command for a shell that sets what clients of the server need.
pub(crate) fn settings(server: &ObjectServer) -> String {
    let settings = server.settings();
    let words = settings
        .iter()
        .map(|(name, value)| format!(" {name}={value}"));
    format!("export{}", words.collect::<String>())
}

fn table(server: &ObjectServer, path: &str, rows: std::ops::Range<u32>) {
    let rows: String = rows.map(|row| format!("{row},x{row}\n")).collect();
    server.put(path, format!("id,name\n{rows}"));
}

#[test]
fn a_table_and_its_result_in_a_store() {
    let (place, server) = (Place::new(), ObjectServer::start());
    table(&server, "/b/in/part-0.csv", 0..600);
    table(&server, "/b/in/part-1.csv", 600..1000);
    table(&server, "/b/other.csv", 900..2000);
    // A signed address is as good, and is shown without what is secret in it.
    let signed = format!(
        "http://{}/b/other.csv?X-Amz-Signature=WORD-OF-NOBODY",
        server.address()
    );
    let receiver = Arguments::new("s3://b/in/part-*.csv", "id")
        .output("s3://b/out.parquet")
        .with("--report r.json")
        .after(&settings(&server));
    let pair = exchange(
        &place,
        &receiver,
        &Arguments::new(&signed, "id").with("--report s.json"),
    );
    pair.expect_success();
    // Parquet, from a store and into a file.
    let receiver = Arguments::new("s3://b/out.parquet", "id")
        .output("out.csv")
        .after(&settings(&server));
    let sender = Arguments::new("s3://b/in/", "id").after(&settings(&server));
    let second = exchange(&place, &receiver, &sender);
    second.expect_success();
    let expected: String = (900..1000).map(|row| format!("{row},x{row}\n")).collect();
    assert_eq!(place.read("out.csv"), format!("id,name\n{expected}"));
    assert_eq!(server.uploads(), 0);
    for told in [
        pair.receiver.text(),
        pair.sender.text(),
        second.receiver.text(),
        second.sender.text(),
        &place.read("r.json"),
        &place.read("s.json"),
    ] {
        assert!(
            !told.contains("OF-NOBODY") && !told.contains("of-nobody"),
            "{told}"
        );
    }
    assert_eq!(
        place
            .names()
            .iter()
            .filter(|name| name.contains(':'))
            .count(),
        0
    );
}

#[test]
fn what_a_store_cannot_do_is_said_before_the_peer_is_met() {
    let (place, server) = (Place::new(), ObjectServer::start());
    table(&server, "/b/a.csv", 0..10);
    for (input, output, code, words) in [
        ("s3://b/none.csv", "", 3, "s3://b/none.csv: no such file"),
        (
            "s3://other/a.csv",
            "",
            3,
            "there is no such bucket or container",
        ),
        ("s3://b/none/*.csv", "", 3, "there are no files to read"),
        ("ftp://b/a.csv", "", 2, "ftp:// is not known"),
        ("http://192.0.2.1/a.csv", "", 2, "HTTP without TLS"),
        (
            "s3://b/a.csv",
            "https://h/a.csv",
            2,
            "HTTPS is for input only",
        ),
        (
            "s3://b/a.csv",
            "s3://b/a.csv",
            2,
            "--output and --input are the same file",
        ),
        (
            "s3://b/*",
            "s3://b/b.csv",
            2,
            "--output would be one of the files of --input",
        ),
        (
            "s3://b/a.csv",
            "s3://other/a.csv",
            2,
            "there is no such bucket or container",
        ),
        ("s3://b/a.csv", "s3://b/a.xlsx", 2, "which no result is"),
    ] {
        let output = if output.is_empty() { "out.csv" } else { output };
        let arguments = Arguments::new(input, "id")
            .output(output)
            .after(&settings(&server));
        let ended = place.receiver(&arguments, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(code, words);
    }
    let checked = place.run_after(&settings(&server), "check --input s3://b/a.csv --key id");
    checked.expect_success();
    assert_eq!(server.uploads(), 0);
}

#[test]
fn an_object_that_changes_ends_the_run_without_a_result() {
    let (place, server) = (Place::new(), ObjectServer::start());
    table(&server, "/b/a.csv", 0..30_000);
    table(&server, "/b/b.csv", 0..30_000);
    let receiver = Arguments::new("s3://b/a.csv", "id")
        .output("s3://b/out.csv")
        .after(&settings(&server));
    let mut receiver = place.receiver(&receiver, "--listen 127.0.0.1:0");
    let endpoint = receiver.endpoint();
    receiver.wait_for("read ");
    table(&server, "/b/a.csv", 0..30_000);
    let sender = Arguments::new("s3://b/b.csv", "id").after(&settings(&server));
    let sender = place.sender(&sender, &endpoint);
    let ended = receiver.wait();
    ended.expect_failure(3, "s3://b/a.csv: changed while it was being used");
    sender.wait();
    assert_eq!((server.get("/b/out.csv"), server.uploads()), (None, 0));
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_leaves_nothing_in_the_store() {
    let (place, server) = (Place::new(), ObjectServer::start());
    table(&server, "/b/a.csv", 0..1000);
    let receiver = Arguments::new("s3://b/a.csv", "id")
        .output("s3://b/out.csv")
        .after(&settings(&server));
    for times in 1..=2 {
        let mut running = place.receiver(&receiver, "--listen 127.0.0.1:0");
        running.endpoint();
        running.wait_until(|| server.uploads() == 1);
        for _ in 0..times {
            running.signal(nix::sys::signal::Signal::SIGINT);
        }
        assert_eq!(running.wait().code, Some(130));
        assert_eq!(
            (server.get("/b/out.csv"), server.uploads()),
            (None, 0),
            "{times}"
        );
    }
}

#[test]
fn a_store_that_fails_in_the_middle_keeps_what_was_there() {
    let (place, server) = (Place::new(), ObjectServer::start());
    table(&server, "/b/a.csv", 0..1000);
    server.put("/b/out.csv", "of an earlier run");
    server.answer(|request| {
        let part = request.parameter("partNumber");
        part.map(|_| Answer::error(403, "QuotaExceeded"))
    });
    let receiver = Arguments::new("s3://b/a.csv", "id")
        .output("s3://b/out.csv")
        .after(&settings(&server));
    let sender = Arguments::new("s3://b/a.csv", "id").after(&settings(&server));
    let pair = exchange(&place, &receiver, &sender);
    pair.receiver
        .expect_failure(2, "cannot be written: access is denied (QuotaExceeded)");
    assert_eq!(server.get("/b/out.csv").unwrap(), b"of an earlier run");
    assert_eq!(server.uploads(), 0);
}

#[test]
#[ignore = "needs moto and Azurite: make test-object-stores"]
fn stores_that_others_wrote() {
    let place = Place::new();
    let rows = |rows: std::ops::Range<u32>| {
        let rows: String = rows.map(|row| format!("{row},x{row}\n")).collect();
        format!("id,name\n{rows}")
    };
    place.write("ours.csv", rows(500..2000));
    // More than one part of an upload.
    let long = "long text ".repeat(50);
    let many: String = (0..50_000)
        .map(|row| format!("{row},{long}{row}\n"))
        .collect();
    let many = format!("id,name\n{many}");
    place.write("many.csv", &many);
    for store in ["s3://box", "az://box"] {
        let at = |key: &str| format!("{store}/{key}");
        let run = |input: &str, output: &str, peer: &str| {
            let receiver = Arguments::new(input, "id").output(output);
            exchange(&place, &receiver, &Arguments::new(peer, "id"))
        };
        for pattern in ["in/part-*.csv", "in/", "in", "*n/*"] {
            run(&at(pattern), "out.csv", "ours.csv").expect_success();
            assert_eq!(place.read("out.csv"), rows(500..1000), "{store} {pattern}");
        }
        for name in ["o/a.parquet", "o/a b+ü.csv.gz", "o/a.arrow", "o/a.jsonl"] {
            let receiver = Arguments::new(&at("in"), "id").option("--output", &at(name));
            exchange(&place, &receiver, &Arguments::new("ours.csv", "id")).expect_success();
            let back = Arguments::new("ours.csv", "id").output("out.csv");
            let written = Arguments::new(&at(name), "id");
            exchange(&place, &back, &written).expect_success();
            assert_eq!(place.read("out.csv"), rows(500..1000), "{store} {name}");
        }
        for name in ["many.csv", "many.parquet"] {
            run("many.csv", &at(name), "many.csv").expect_success();
            run(&at(name), "back.csv", "many.csv").expect_success();
            assert!(place.read("back.csv") == many, "{store} {name}");
        }
        let missing = Arguments::new(&at("none.csv"), "id");
        let ended = place.receiver(&missing, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(3, "no such file");
        let other = store.replace("box", "other");
        let nowhere = Arguments::new("ours.csv", "id").output(&format!("{other}/out.csv"));
        let ended = place.receiver(&nowhere, "--connect 127.0.0.1:1").wait();
        ended.expect_failure(2, "no such bucket or container");
    }
}
