use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use vesica_testing::{Answer, ObjectServer, Request};

use super::address::Address;
use super::find::{Content, Finder, Found};
use super::limits::Limits;
use super::object::ObjectReader;
use super::upload::Upload;
use crate::error::{Error, ErrorClass, ErrorKind, Result};

/// So short that a test can wait for all of it.
const SHORT: Limits = Limits {
    connect: Duration::from_millis(500),
    silence: Duration::from_millis(300),
    attempts: Duration::from_millis(300),
    answer: Duration::from_secs(1),
    bytes_per_second: 1 << 20,
};

fn address(text: &str) -> Address {
    Address::of(text.as_ref()).unwrap().unwrap()
}

fn find_within(limits: Limits, server: &ObjectServer, text: &str) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    Finder::new(server.settings(), limits).find(&address(text), &mut found)?;
    Ok(found)
}

fn find(server: &ObjectServer, text: &str) -> Result<Vec<Found>> {
    find_within(Limits::USUAL, server, text)
}

/// The address of an object at the server, over HTTP.
fn over_http(server: &ObjectServer, path: &str) -> String {
    format!("http://{}{path}", server.address())
}

fn names(found: &[Found]) -> Vec<String> {
    let name = |found: &Found| found.path.to_str().unwrap().to_owned();
    found.iter().map(name).collect()
}

/// All bytes of one object.
fn read(found: Vec<Found>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let [found] = found.try_into().unwrap();
    match found.content {
        Content::Object(object) => ObjectReader::new(object).read_to_end(&mut bytes)?,
        Content::Stream(mut stream) => stream.read_to_end(&mut bytes)?,
    };
    Ok(bytes)
}

fn unwrap(e: std::io::Error) -> Error {
    e.downcast().unwrap()
}

/// Bytes that are not the same at any two places that a mistake would confuse.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect()
}

#[test]
fn keys_directories_and_patterns() {
    let server = ObjectServer::start();
    for path in [
        "d/a.csv",
        "d/b.csv",
        "d/_SUCCESS",
        "d/.x",
        "e/day=1/p.csv",
        "e/day=2/q.csv",
        "e/[x].csv",
        "f/week=1/h=2/p.csv",
        "f/week=1/_temporary/x=1/r.csv",
        "g/hour=1/x/p.csv",
        "top.csv",
    ] {
        server.put(&format!("/b/{path}"), "id\n1\n");
    }
    for (text, expected) in [
        ("s3://b/top.csv", &["top.csv"][..]),
        ("s3://b/d/", &["d/a.csv", "d/b.csv"]),
        ("s3://b/d", &["d/a.csv", "d/b.csv"]),
        ("s3://b/*.csv", &["top.csv"]),
        ("s3://b/d/*", &["d/a.csv", "d/b.csv"]),
        ("s3://b/?/b.*", &["d/b.csv"]),
        ("s3://b/e/day=*", &["e/day=1/p.csv", "e/day=2/q.csv"]),
        ("s3://b/e/day=*/", &["e/day=1/p.csv", "e/day=2/q.csv"]),
        ("s3://b/*/day=1", &["e/day=1/p.csv"]),
        ("s3://b/**/q.csv", &["e/day=2/q.csv"]),
        ("s3://b/e/[x].csv", &["e/[x].csv"]),
        ("s3://b/e", &["e/[x].csv", "e/day=1/p.csv", "e/day=2/q.csv"]),
        ("s3://b/f/", &["f/week=1/h=2/p.csv"]),
    ] {
        let mut found = find(&server, text).unwrap();
        found.sort_by(|a, b| a.path.cmp(&b.path));
        let expected: Vec<_> = expected.iter().map(|key| format!("s3://b/{key}")).collect();
        assert_eq!(names(&found), expected, "{text}");
    }
    for (text, is_expected) in [
        (
            "s3://b/none.csv",
            (|kind| matches!(kind, ErrorKind::MissingFile)) as fn(&_) -> bool,
        ),
        ("s3://b/none/", |kind| matches!(kind, ErrorKind::NoFiles)),
        (
            "s3://b/g",
            |kind| matches!(kind, ErrorKind::Subdirectory { name } if name == "x"),
        ),
        ("s3://b/none*", |kind| matches!(kind, ErrorKind::NoFiles)),
        (
            "s3://other/a",
            |kind| matches!(kind, ErrorKind::Unreadable(e) if e.to_string().contains("no such bucket")),
        ),
        ("s3://b/a//b", |kind| {
            matches!(kind, ErrorKind::Unreadable(_))
        }),
    ] {
        let error = find(&server, text).unwrap_err();
        assert!(is_expected(error.kind()), "{text}: {error}");
        assert_eq!(error.class(), ErrorClass::Data);
    }
}

#[test]
fn listings_of_several_pages_are_whole() {
    let server = ObjectServer::start();
    for i in 0..1100 {
        server.put(&format!("/b/d/{i:04}.csv"), "");
    }
    assert_eq!(find(&server, "s3://b/d/*.csv").unwrap().len(), 1100);
}

#[test]
fn objects_below_a_log_of_rows_that_count_are_refused() {
    for log in [
        "_delta_log/0.json",
        "metadata/v1.metadata.json",
        ".hoodie/hoodie.properties",
    ] {
        let server = ObjectServer::start();
        server.put("/b/table/day=0/part.csv", "id\n1\n");
        server.put("/b/table/metadata/notes.json", "");
        let addresses = [
            "s3://b/table/day=0/part.csv",
            "s3://b/table/day=0",
            "s3://b/table/*/*.csv",
        ];
        for text in addresses {
            assert_eq!(find(&server, text).unwrap().len(), 1);
        }
        server.put(&format!("/b/table/{log}"), "");
        for text in addresses {
            let error = find(&server, text).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::UnsupportedInput { .. }),
                "{log} {error}"
            );
        }
    }
}

#[test]
fn an_object_is_read_in_pieces_from_anywhere() {
    let server = ObjectServer::start();
    let bytes = pattern((9 << 20) + 321);
    server.put("/b/o", bytes.clone());
    for text in ["s3://b/o".to_owned(), over_http(&server, "/b/o")] {
        assert!(read(find(&server, &text).unwrap()).unwrap() == bytes);
        let [found] = find(&server, &text).unwrap().try_into().unwrap();
        let Content::Object(object) = found.content else {
            panic!("{found:?}");
        };
        let mut reader = ObjectReader::new(object);
        for start in [5 << 20, 0, 70_000, 69_000, bytes.len() - 10, 200_000] {
            let mut some = vec![0; 5000.min(bytes.len() - start)];
            assert_eq!(
                reader.seek(SeekFrom::Start(start as u64)).unwrap(),
                start as u64
            );
            reader.read_exact(&mut some).unwrap();
            assert!(some == bytes[start..start + some.len()], "{start}");
        }
        assert_eq!(reader.seek(SeekFrom::End(0)).unwrap(), bytes.len() as u64);
        assert_eq!(reader.read(&mut [0; 9]).unwrap(), 0);
    }
    server.put("/b/empty", "");
    assert_eq!(read(find(&server, "s3://b/empty").unwrap()).unwrap(), b"");
}

#[test]
fn one_version_is_read_or_none() {
    let server = ObjectServer::start();
    server.put("/b/o", pattern(1 << 20));
    for text in ["s3://b/o".to_owned(), over_http(&server, "/b/o")] {
        let found = find(&server, &text).unwrap();
        let Content::Object(object) = &found[0].content else {
            panic!("{found:?}");
        };
        let object = object.clone();
        server.put("/b/o", pattern(1 << 20));
        let error = unwrap(read(found).unwrap_err());
        assert!(matches!(error.kind(), ErrorKind::Changed), "{error}");
        // Whatever a library makes of the failure, this is the cause.
        let again = object.verify().unwrap_err();
        assert!(matches!(again.kind(), ErrorKind::Changed));
    }
}

#[test]
fn a_server_without_ranges_is_read_once() {
    let server = ObjectServer::start();
    let bytes = pattern(3 << 20);
    let whole = bytes.clone();
    server.answer(move |_| Some(Answer::new(200, whole.clone())));
    let found = find(&server, &over_http(&server, "/b/o")).unwrap();
    assert!(matches!(found[0].content, Content::Stream(_)));
    assert!(read(found).unwrap() == bytes);
    // Without its length it might be endless.
    server.answer(|_| Some(Answer::new(200, "a").endless()));
    let error = find(&server, &over_http(&server, "/b/o")).unwrap_err();
    assert!(error.to_string().contains("how long"), "{error}");
}

#[test]
fn a_signed_address_is_asked_for_as_it_is_and_told_to_nobody() {
    let server = ObjectServer::start();
    server.put("/b/a b.csv", "id\n1\n");
    let signed = over_http(&server, "/b/a%20b.csv?X-Amz-Signature=SECRET&x=%2F");
    let found = find(&server, &signed).unwrap();
    assert!(!format!("{found:?}").contains("SECRET"));
    assert_eq!(read(found).unwrap(), b"id\n1\n");
    let requests = server.requests();
    assert!(
        requests
            .iter()
            .all(|r| r.query == "X-Amz-Signature=SECRET&x=%2F" && r.method == "GET")
    );

    let other = ObjectServer::start();
    let elsewhere = over_http(&other, "/b/o");
    for (status, header) in [
        (403, ""),
        (500, ""),
        (302, elsewhere.as_str()),
        (302, "http://192.0.2.1/"),
        (302, ""),
    ] {
        let header = header.to_owned();
        server.answer(move |request: &Request| {
            let body = format!("<Code>Some{}</Code> {}", request.query.len(), request.query);
            let answer = Answer::new(status, body);
            Some(if header.is_empty() {
                answer
            } else {
                answer.header("location", &header)
            })
        });
        let error = find(&server, &signed).unwrap_err();
        let told = format!("{error} {error:?} {:?}", error.remedy());
        assert!(!told.contains("SECRET"), "{told}");
    }
    // Who is redirected to does not learn from where.
    for request in other.requests() {
        assert!(!format!("{request:?}").contains("SECRET"), "{request:?}");
    }
}

#[test]
fn refusals_say_why() {
    let server = ObjectServer::start();
    server.put("/b/o", "id\n1\n");
    for (status, code, words) in [
        (403, "AccessDenied", "access is denied (AccessDenied)"),
        (403, "a value with spaces", "access is denied"),
        (401, "", "access is denied"),
        (301, "PermanentRedirect", "another region"),
        (307, "TemporaryRedirect", "another region"),
        (503, "SlowDown", "refuses, status 503 (SlowDown)"),
        (418, "", "refuses, status 418"),
    ] {
        server.answer(move |_| Some(Answer::error(status, code)));
        let error = find(&server, "s3://b/o").unwrap_err();
        let text = error.to_string();
        assert!(text.ends_with(words), "{text}");
    }
    let counted = server.requests();
    let attempts = counted.iter().filter(|r| r.path == "/b/o").count();
    assert!(attempts <= 7 * 6, "{attempts}");
}

#[test]
fn credentials_are_not_sent_where_a_store_redirects() {
    let (server, other) = (ObjectServer::start(), ObjectServer::start());
    let elsewhere = over_http(&other, "/b/o");
    server.answer(move |_| Some(Answer::new(307, "").header("location", &elsewhere)));
    find(&server, "s3://b/o").unwrap_err();
    assert!(other.requests().is_empty());
}

#[test]
fn servers_that_lie_or_never_end_are_given_up() {
    static PAGES: AtomicUsize = AtomicUsize::new(0);
    let bytes = pattern(1 << 20);
    let part = |from: usize, to: usize, total: usize| {
        Answer::new(206, pattern(total)[from..to].to_vec())
            .header("etag", "\"1\"")
            .header("content-range", format!("bytes {from}-{}/{total}", to - 1))
    };
    type Hook = Box<dyn Fn(&Request) -> Answer + Send>;
    let hooks: Vec<(&str, &str, Hook)> = vec![
        (
            "redirects in a circle",
            "http",
            Box::new(|r: &Request| Answer::new(302, "").header("location", format!("{}x", r.path))),
        ),
        (
            "a part that does not end",
            "s3",
            Box::new(|_| {
                Answer::new(206, pattern(1 << 16))
                    .header("etag", "\"1\"")
                    .header("content-range", "bytes 0-65535/1048576")
                    .header("transfer-encoding", "identity")
                    .endless()
            }),
        ),
        (
            "less than it says",
            "http",
            Box::new(move |r: &Request| {
                let (from, to) = r.range().unwrap();
                let mut answer = part(from, to.min(1 << 20), 1 << 20);
                let length = answer.body.len();
                answer.body.truncate(length / 2);
                answer.header("content-length", length)
            }),
        ),
        (
            "other bytes than were asked for",
            "s3",
            Box::new(move |_| part(1, 10, 1 << 20)),
        ),
        (
            "another size each time",
            "s3",
            Box::new(move |r: &Request| {
                let (from, to) = r.range().unwrap();
                part(from, to.min(1 << 20), (1 << 20) + from % 7)
            }),
        ),
        (
            "an answer that does not come",
            "s3",
            Box::new(|_| {
                Answer::new(206, "")
                    .header("content-length", 9)
                    .header("etag", "1")
                    .header("content-range", "bytes 0-8/9")
            }),
        ),
        (
            "an answer in drops",
            "s3",
            Box::new(|_| {
                Answer::new(206, pattern(1 << 16))
                    .header("etag", "\"1\"")
                    .header("content-range", "bytes 0-65535/1048576")
                    .slow(Duration::from_millis(50))
            }),
        ),
        (
            "a web page",
            "http",
            Box::new(|_| {
                Answer::new(206, "\n<!DOCTYPE HTML>").header("content-range", "bytes 0-15/16")
            }),
        ),
        (
            "a listing of no end",
            "s3://b/*",
            Box::new(|_| {
                let page = PAGES.fetch_add(1, Ordering::Relaxed);
                Answer::new(
                    200,
                    format!(
                        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>{page}</NextContinuationToken></ListBucketResult>"
                    ),
                )
            }),
        ),
        (
            "a listing in a circle",
            "s3://b/*",
            Box::new(|_| {
                Answer::new(
                    200,
                    "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>1</NextContinuationToken></ListBucketResult>",
                )
            }),
        ),
        (
            "a page of no end",
            "s3://b/*",
            Box::new(|_| Answer::new(200, "<ListBucketResult>").endless()),
        ),
    ];
    let give_up = |what: &str, text: &str, hook: Hook| {
        let server = ObjectServer::start();
        server.put("/b/o", bytes.clone());
        server.answer(move |request| Some(hook(request)));
        let text = match text {
            "http" => over_http(&server, "/b/o"),
            "s3" => "s3://b/o".to_owned(),
            text => text.to_owned(),
        };
        let begun = Instant::now();
        let result =
            find_within(SHORT, &server, &text).and_then(|found| read(found).map_err(unwrap));
        let error = result.expect_err(what);
        let taken = begun.elapsed();
        assert!(taken < Duration::from_secs(30), "{what}: {taken:?}");
        assert!(error.class() == ErrorClass::Data, "{what}: {error}");
    };
    std::thread::scope(|scope| {
        for (what, text, hook) in hooks {
            scope.spawn(|| give_up(what, text, hook));
        }
    });
}

#[test]
fn an_upload_appears_complete_or_not_at_all() {
    use std::io::Write;
    let server = ObjectServer::start();
    let begin = |text: &str| Upload::begin_with(&address(text), &server.settings(), Limits::USUAL);
    let bytes = pattern((40 << 20) + 7);
    for bytes in [&bytes[..], &bytes[..100], b""] {
        server.put("/b/o", "what was there before");
        let mut upload = begin("s3://b/o").unwrap();
        upload.write_all(bytes).unwrap();
        assert_eq!(server.get("/b/o").unwrap(), b"what was there before");
        upload.commit().unwrap();
        assert!(server.get("/b/o").unwrap() == bytes);
        assert_eq!(server.uploads(), 0);
    }
    server.put("/b/o", "what was there before");
    let mut upload = begin("s3://b/o").unwrap();
    upload.write_all(&bytes).unwrap();
    drop(upload);
    assert_eq!(server.uploads(), 0);
    // A store that is full, or goes away for a while.
    for refused in ["partNumber", "uploads"] {
        server.answer(move |r| {
            r.parameter(refused)
                .map(|_| Answer::error(507, "QuotaExceeded"))
        });
        let written = begin("s3://b/new").and_then(|mut upload| {
            let written = upload.write_all(&bytes).and_then(|()| upload.commit());
            written.map_err(|e| Error::new(ErrorKind::Unwritable(e)))
        });
        let error = written.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unwritable(_)), "{error}");
        assert!(error.to_string().contains("QuotaExceeded"), "{error}");
        server.answer(|_| None);
        assert_eq!(
            (server.uploads(), server.get("/b/new")),
            (0, None),
            "{refused}"
        );
    }
    assert_eq!(server.get("/b/o").unwrap(), b"what was there before");
    for (text, class) in [
        ("s3://other/o", ErrorClass::Usage),
        ("s3://b/d/", ErrorClass::Usage),
        ("https://h/o", ErrorClass::Usage),
    ] {
        assert_eq!(begin(text).unwrap_err().class(), class, "{text}");
    }
}

#[test]
fn a_thread_of_another_runtime_can_wait_too() {
    use std::io::Write;
    use tokio::runtime::Builder;
    let bytes = pattern(300 << 10);
    for mut builder in [Builder::new_current_thread(), Builder::new_multi_thread()] {
        let server = ObjectServer::start();
        server.put("/b/o", bytes.clone());
        let whole = bytes.clone();
        let task = async move {
            // More often than a task may, which has to yield in between.
            for _ in 0..150 {
                assert_eq!(find(&server, "s3://b/o").unwrap().len(), 1);
            }
            assert!(read(find(&server, "s3://b/o").unwrap()).unwrap() == whole);
            assert_eq!(find(&server, "s3://b/").unwrap().len(), 1);
            let begin =
                |text| Upload::begin_with(&address(text), &server.settings(), Limits::USUAL);
            let mut upload = begin("s3://b/new").unwrap();
            upload.write_all(&whole).unwrap();
            drop(upload);
            let mut upload = begin("s3://b/new").unwrap();
            upload.write_all(&whole).unwrap();
            upload.commit().unwrap();
            assert_eq!((server.uploads(), server.get("/b/new")), (0, Some(whole)));
        };
        let runtime = builder.build().unwrap();
        runtime.block_on(runtime.spawn(task)).unwrap();
    }
}

#[test]
fn a_store_out_of_reach_is_neither_this_machine_nor_the_request() {
    use std::io::Write;
    let server = ObjectServer::start();
    server.put("/b/o", "id\n1\n");
    let mut nowhere = server.settings();
    let closed = {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", port.local_addr().unwrap())
    };
    for (_, value) in &mut nowhere {
        if value.starts_with("http://") {
            *value = closed.clone();
        }
    }
    assert_ne!(nowhere, server.settings());
    let mut found = Vec::new();
    let input = Finder::new(nowhere.clone(), SHORT).find(&address("s3://b/o"), &mut found);
    let output = Upload::begin_with(&address("s3://b/o"), &nowhere, SHORT);
    for error in [input.unwrap_err(), output.unwrap_err()] {
        assert!(error.to_string().contains("cannot be reached"), "{error}");
        assert!(
            error.class() == ErrorClass::Data && error.may_pass(),
            "{error}"
        );
    }
    // It goes away while the result is written.
    let mut upload = Upload::begin_with(&address("s3://b/o"), &server.settings(), SHORT).unwrap();
    server.answer(|_| Some(Answer::error(503, "SlowDown")));
    let written = upload.write_all(b"id\n").and_then(|()| upload.commit());
    let error = Error::new(ErrorKind::Unwritable(written.unwrap_err()));
    assert!(
        error.class() == ErrorClass::Data && error.may_pass(),
        "{error}"
    );
    // What the address and the settings say is the request's for a result. These answer at once, however busy the machine is.
    server.answer(|_| Some(Answer::error(403, "AccessDenied")));
    let error =
        Upload::begin_with(&address("s3://b/o"), &server.settings(), Limits::USUAL).unwrap_err();
    assert!(
        error.class() == ErrorClass::Usage && !error.may_pass(),
        "{error}"
    );
    let error = find_within(Limits::USUAL, &server, "s3://b/o").unwrap_err();
    assert!(
        error.class() == ErrorClass::Data && !error.may_pass(),
        "{error}"
    );
    let out_of_threads = Error::new(ErrorKind::Unreadable(
        crate::error::Problem::NoThreads.into(),
    ));
    assert_eq!(out_of_threads.class(), ErrorClass::Resource);
}

#[test]
fn a_place_for_results_need_not_be_readable() {
    use std::io::Write;
    let server = ObjectServer::start();
    server.answer(|r| {
        let reads = r.method == "GET" || r.method == "HEAD";
        reads.then(|| Answer::error(403, "AccessDenied"))
    });
    let begun = Upload::begin_with(&address("s3://b/o"), &server.settings(), Limits::USUAL);
    let mut upload = begun.unwrap();
    upload.write_all(b"id\n1\n").unwrap();
    upload.commit().unwrap();
    assert_eq!(server.get("/b/o").unwrap(), b"id\n1\n");
}

#[test]
fn settings_with_line_breaks_are_named() {
    let server = ObjectServer::start();
    let mut settings = server.settings();
    settings.retain(|(name, _)| name != "AWS_SECRET_ACCESS_KEY");
    settings.push(("AWS_SECRET_ACCESS_KEY".into(), "SECRET\r\n".into()));
    let mut found = Vec::new();
    let error = Finder::new(settings, Limits::USUAL).find(&address("s3://b/o"), &mut found);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("AWS_SECRET_ACCESS_KEY has a line break"),
        "{error}"
    );
    assert!(!error.contains("SECRET\r"), "{error}");
}

#[test]
fn listings_have_keys_of_stores() {
    let server = ObjectServer::start();
    server.put(&format!("/b/d/{}.csv", "k".repeat(5000)), "id\n1\n");
    let error = find(&server, "s3://b/d/").unwrap_err();
    assert_eq!(error.class(), ErrorClass::Data, "{error}");
}
