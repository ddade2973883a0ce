//! Everything that touches a store of objects, called from async functions.
#![cfg(feature = "object-stores")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use vesica::session::terms::LEARNS;
use vesica::tables::{abort_uploads, check, row_digests};
use vesica::{
    CourierStep, Destination, Endpoint, Error, ErrorClass, Identity, KeySpec, Learns, NoProgress,
    Party, Publication, Role, Rows, Source, SourceOptions,
};
use vesica_testing::{Answer, ObjectServer};

const RUNTIME: &str = "VESICA_TEST_RUNTIME";

/// The runtimes of tokio: of one thread, and of several.
const RUNTIMES: [&str; 2] = ["current-thread", "multi-thread"];

/// Calls this in an async function, on a runtime of this kind.
fn inside<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let kind = env::var(RUNTIME).unwrap();
    let mut builder = match kind.as_str() {
        "current-thread" => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().unwrap();
    runtime.block_on(async {
        // As a task of the runtime, which has a budget.
        tokio::spawn(async move { call() }).await.unwrap()
    })
}

fn open(address: &str) -> Result<Source, Error> {
    Ok(Source::open(address, SourceOptions::default())?)
}

fn key() -> KeySpec {
    KeySpec::parse::<&str>("id", &[]).unwrap()
}

/// A run of both parties, each in an async function, and with its result in the store.
fn run(places: [&'static str; 2]) -> [Result<u64, Error>; 2] {
    let [ours, theirs] = [(); 2].map(|()| Identity::generate().unwrap());
    let endpoints = {
        let listener = vesica::session::Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().to_string();
        let listener = vesica::session::BoundListener::new(listener);
        [Endpoint::Bound(listener), Endpoint::Connect(address)]
    };
    let peers = [theirs.fingerprint(), ours.fingerprint()];
    let sides = [
        (Role::Receiver, ours, "s3://b/in/*.csv"),
        (Role::Sender, theirs, "s3://b/other.csv"),
    ];
    let running = sides.into_iter().zip(endpoints).zip(peers).zip(places);
    let running: Vec<_> = running
        .map(|((((role, me, table), endpoint), peer), place)| {
            thread::spawn(move || {
                inside(move || {
                    let party = Party::new(&me, peer, endpoint).with(&LEARNS, Learns::Both);
                    let source = open(table)?;
                    let output = Some(Destination::File(Path::new(place)));
                    let outcome =
                        party.run(role, || Ok(&source), &key(), output, &mut NoProgress)?;
                    Ok(outcome.finish()?.rows_written.unwrap())
                })
            })
        })
        .collect();
    let mut ended = running.into_iter().map(|side| side.join().unwrap());
    std::array::from_fn(|_| ended.next().unwrap())
}

/// Steps that read a table in the store: nobody has to be there.
fn steps_alone(directory: PathBuf) {
    let [me, other] = [(); 2].map(|()| Identity::generate().unwrap());
    let source = open("s3://b/in/").unwrap();
    let party = Party::new(&me, other.fingerprint(), Endpoint::Courier);
    let step = CourierStep::Offer;
    let key = key();
    let state = directory.join("state");
    let courier = party.courier(step, Role::Sender, &key, Rows::Matching, &state);
    let made = courier
        .unwrap()
        .step(step, None, &source, None, &mut NoProgress);
    assert!(made.unwrap().message.is_some());
    let published = Publication::new(me.clone(), directory.join("database"));
    let output = directory.join("s.vset");
    let published = published.run(&source, &key, &output, &mut NoProgress);
    assert_eq!(published.unwrap().keys, 1000);
}

/// What the process does that has the store's settings in its environment.
fn all_calls() {
    let directory = tempfile::tempdir().unwrap();
    inside(|| {
        // More waits than a task of tokio may end before it has to yield.
        for _ in 0..150 {
            open("s3://b/in/0.csv").unwrap();
        }
        let files = ["s3://b/in/0.csv", "s3://b/in/1.csv"].map(PathBuf::from);
        let source = Source::open_all(&files, &SourceOptions::default()).unwrap();
        assert_eq!(check(&source, &key()).unwrap().counts.items, 1000);
        assert_eq!(row_digests(&source, &key()).unwrap().len(), 1000);
        let missing = open("s3://b/none.csv").unwrap_err();
        assert_eq!(missing.class(), ErrorClass::Data, "{missing}");
        assert!(missing.to_string().contains("no such file"), "{missing}");
    });
    let path = directory.path().to_owned();
    inside(move || steps_alone(path));
    for side in run(["s3://b/ours.csv", "s3://b/theirs.parquet"]) {
        assert_eq!(side.unwrap(), 100);
    }
    assert_eq!(
        inside(
            || row_digests(&open("s3://b/theirs.parquet").unwrap(), &key())
                .unwrap()
                .len()
        ),
        100
    );
    // A result that the store refuses at the end, and one that is given up.
    let [ours, theirs] = run(["s3://b/refused.csv", "s3://b/theirs.csv"]);
    let error = ours.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Data, "{error}");
    assert!(error.to_string().contains("InvalidPart"), "{error}");
    assert_eq!(theirs.unwrap(), 100);
    inside(abort_uploads);
}

#[test]
fn stores_can_be_used_from_async_functions() {
    if env::var(RUNTIME).is_ok() {
        return all_calls();
    }
    let server = ObjectServer::start();
    let rows = |rows: std::ops::Range<u32>| {
        let rows: String = rows.map(|row| format!("{row}\n")).collect();
        format!("id\n{rows}")
    };
    server.put("/b/in/0.csv", rows(0..600));
    server.put("/b/in/1.csv", rows(600..1000));
    server.put("/b/other.csv", rows(900..2000));
    server.answer(|request| {
        let ends = request.method == "POST" && request.parameter("uploadId").is_some();
        (ends && request.path == "/b/refused.csv").then(|| Answer::error(400, "InvalidPart"))
    });
    for runtime in RUNTIMES {
        let mut command = Command::new(env::current_exe().unwrap());
        let settings = server.settings();
        let mut child = command
            .args([
                "--exact",
                "stores_can_be_used_from_async_functions",
                "--nocapture",
            ])
            .envs(settings)
            .env(RUNTIME, runtime)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if begun.elapsed() > Duration::from_secs(50) => {
                    child.kill().unwrap();
                    panic!("{runtime}: it hangs");
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        };
        assert!(status.success(), "{runtime}: {status}");
    }
    assert_eq!(server.uploads(), 0);
}
