//! Ways through proxies, of which some are none.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::common::{identity, tls, within};
use vesica_session::{
    ConnectOptions, Connection, Endpoint, Error, Listener, NoConnection, Proxies, connect,
};

/// What a proxy does with a connection; its number counts from 0.
type Behaviour = fn(TcpStream, usize) -> io::Result<()>;

/// A proxy on this machine, whose behaviour is given; how many have come is counted.
fn proxy(behaviour: Behaviour) -> (SocketAddr, Arc<AtomicUsize>) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || behaviour(stream, number));
        }
    });
    (address, count)
}

fn copy_both_ways(near: TcpStream, target: &str) -> io::Result<()> {
    let far = TcpStream::connect(target)?;
    let pairs = [(near.try_clone()?, far.try_clone()?), (far, near)];
    let copies = pairs.map(|(mut from, mut to)| {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        })
    });
    for copy in copies {
        copy.join().unwrap();
    }
    Ok(())
}

fn header(stream: &mut TcpStream) -> io::Result<String> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        text.push(byte[0]);
    }
    Ok(String::from_utf8(text).unwrap())
}

fn target(header: &str) -> &str {
    let line = header.strip_prefix("CONNECT ").unwrap();
    line.split(' ').next().unwrap()
}

fn http(mut stream: TcpStream, _: usize) -> io::Result<()> {
    let asked = header(&mut stream)?;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n")?;
    copy_both_ways(stream, target(&asked))
}

fn http_for_ann(mut stream: TcpStream, _: usize) -> io::Result<()> {
    let asked = header(&mut stream)?;
    // ann:a b@c
    if !asked.contains("\r\nProxy-Authorization: Basic YW5uOmEgYkBj\r\n") {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"x\"\r\n\r\n";
        return stream.write_all(refusal.as_bytes());
    }
    stream.write_all(b"HTTP/1.0 200 OK\r\n\r\n")?;
    copy_both_ways(stream, target(&asked))
}

fn socks(mut stream: TcpStream, password: Option<&[u8]>, verdict: u8) -> io::Result<()> {
    let mut count = [0; 2];
    stream.read_exact(&mut count)?;
    let mut methods = vec![0; usize::from(count[1])];
    stream.read_exact(&mut methods)?;
    match password {
        None => stream.write_all(&[5, 0])?,
        Some(_) if !methods.contains(&2) => return stream.write_all(&[5, 0xff]),
        Some(expected) => {
            stream.write_all(&[5, 2])?;
            let mut said = vec![0; expected.len()];
            stream.read_exact(&mut said)?;
            stream.write_all(&[1, u8::from(said != expected)])?;
        }
    }
    let mut request = [0; 4];
    stream.read_exact(&mut request)?;
    let host = match request[3] {
        1 => {
            let mut address = [0; 4];
            stream.read_exact(&mut address)?;
            std::net::Ipv4Addr::from(address).to_string()
        }
        _ => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            let mut name = vec![0; usize::from(length[0])];
            stream.read_exact(&mut name)?;
            String::from_utf8(name).unwrap()
        }
    };
    let mut port = [0; 2];
    stream.read_exact(&mut port)?;
    stream.write_all(&[5, verdict, 0, 3, 3, b'a', b'b', b'c', 0, 9])?;
    match verdict {
        0 => copy_both_ways(stream, &format!("{host}:{}", u16::from_be_bytes(port))),
        _ => Ok(()),
    }
}

/// A run's connection to a listener that waits, through a proxy of this kind.
fn through(proxies: Proxies) -> Result<Connection, Error> {
    let (near, far) = (identity(), identity());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    // A name, for those that look it up themselves.
    let address = format!("localhost:{}", listener.local_addr().port());
    let options = within(3.0);
    thread::scope(|scope| {
        let listening = scope.spawn(|| listener.accept(&tls(&far, near.fingerprint()), &options));
        let connecting = ConnectOptions {
            proxies,
            ..within(2.0)
        };
        let endpoint = Endpoint::Connect(address);
        let met = connect(&endpoint, &tls(&near, far.fingerprint()), &connecting);
        if met.is_err() {
            options.interrupt.stop();
        }
        assert_eq!(listening.join().unwrap().is_ok(), met.is_ok());
        met
    })
}

fn by(scheme: &str, address: SocketAddr) -> Proxies {
    format!("{scheme}{address}").parse().unwrap()
}

#[test]
fn proxies_of_every_kind_lead_to_the_peer() {
    let no_password: Behaviour = |stream, _| socks(stream, None, 0);
    let of_ann: Behaviour = |stream, _| socks(stream, Some(b"\x01\x03ann\x05a b@c"), 0);
    let cases = [
        ("http://", http as Behaviour),
        ("http://ann:a%20b%40c@", http_for_ann),
        ("socks5h://", no_password),
        ("socks5://", no_password),
        ("socks5h://ann:a%20b%40c@", of_ann),
    ];
    for (scheme, behaviour) in cases {
        let (address, count) = proxy(behaviour);
        let met = through(by(scheme, address)).unwrap();
        let scheme = scheme.split("://").next().unwrap();
        assert_eq!(met.proxy, Some(format!("{scheme}://{address}")));
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn one_that_is_busy_is_asked_again() {
    fn later(mut stream: TcpStream, number: usize) -> io::Result<()> {
        if number > 0 {
            return http(stream, number);
        }
        header(&mut stream)?;
        stream.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    }
    let (address, count) = proxy(later);
    assert!(through(by("http://", address)).is_ok());
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

#[test]
fn what_a_proxy_refuses_has_words_and_ends_at_once() {
    fn answer(stream: &mut TcpStream, text: &str) -> io::Result<()> {
        header(stream)?;
        stream.write_all(text.as_bytes())
    }
    use NoConnection::{NobodyListens, OtherProgram, Proxy, ProxyPassword, ProxyRefuses};
    let cases: &[(&str, Behaviour, NoConnection, &str)] = &[
        (
            "http://",
            http_for_ann,
            ProxyPassword,
            "asks for a user and a password (407",
        ),
        (
            "http://ann:wrong@",
            http_for_ann,
            ProxyPassword,
            "does not take this user and password",
        ),
        (
            "http://",
            |mut stream, _| {
                answer(
                    &mut stream,
                    "HTTP/1.1 407 Who?\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: NTLM\r\n\r\n",
                )
            },
            ProxyRefuses,
            "by Negotiate or NTLM, and this program knows Basic alone",
        ),
        (
            "http://",
            |mut stream, _| answer(&mut stream, "HTTP/1.1 403 Forbidden\r\n\r\n"),
            ProxyRefuses,
            "refuses to connect to localhost:",
        ),
        (
            "http://",
            |mut stream, _| answer(&mut stream, "HTTP/1.1 403 \x1b[31mForbidden\r\n\r\n"),
            Proxy,
            "does not answer as a proxy of this kind does",
        ),
        (
            "http://",
            |mut stream, _| answer(&mut stream, "220 mail.example ESMTP\r\n"),
            Proxy,
            "does not answer as a proxy of this kind does",
        ),
        (
            "http://",
            |mut stream, _| {
                answer(
                    &mut stream,
                    &format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 14)),
                )
            },
            Proxy,
            "does not answer as a proxy of this kind does",
        ),
        (
            "http://",
            |mut stream, _| answer(&mut stream, "HTTP/1.1 502 Bad Gateway\r\n\r\n"),
            NobodyListens,
            "cannot reach localhost:",
        ),
        (
            "http://",
            |stream, _| drop_it(stream),
            Proxy,
            "has broken off",
        ),
        (
            "socks5h://",
            |stream, _| socks(stream, Some(b"x"), 0),
            ProxyPassword,
            "asks for a user",
        ),
        (
            "socks5h://ann:b@",
            |stream, _| socks(stream, Some(b"\x01\x03ann\x01c"), 0),
            ProxyPassword,
            "does not take this user and password",
        ),
        (
            "socks5h://",
            |stream, _| socks(stream, None, 2),
            ProxyRefuses,
            "(its rules)",
        ),
        (
            "socks5h://",
            |stream, _| socks(stream, None, 5),
            NobodyListens,
            "(nobody listens there)",
        ),
        ("socks5h://", http, Proxy, "in time"),
        // The tunnel opens, and leads elsewhere.
        (
            "http://",
            |mut stream, _| {
                answer(
                    &mut stream,
                    "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 400 Bad Request\r\n\r\n",
                )
            },
            OtherProgram,
            "through the proxy http://",
        ),
    ];
    for (scheme, behaviour, expected, words) in cases {
        let (address, _) = proxy(*behaviour);
        match through(by(scheme, address)) {
            Err(Error::Connect { cause, line }) => {
                assert_eq!(cause, *expected, "{line}");
                assert!(line.contains(words), "{line}");
                assert!(!line.contains("wrong") && !line.contains('\x1b'), "{line}");
            }
            other => panic!("{scheme}, {words}: {other:?}"),
        }
    }
}

fn drop_it(mut stream: TcpStream) -> io::Result<()> {
    header(&mut stream).map(drop)
}

#[test]
fn nobody_at_the_proxy_is_told_as_such() {
    let gone = {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap()
    };
    match through(by("http://", gone)) {
        Err(Error::Connect { cause, line }) => {
            assert_eq!(cause, NoConnection::Proxy);
            assert!(
                line.contains(&format!(
                    "no way to the proxy http://{gone} (nobody listens"
                )),
                "{line}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_no_proxy_is_refused_without_its_password() {
    for text in [
        "socks4://proxy.example:1080",
        "proxy.example:3128",
        "",
        "ftp://ann:secret@proxy.example",
    ] {
        let error = text.parse::<Proxies>().unwrap_err().to_string();
        assert!(
            error.contains("as http://proxy.example:3128"),
            "{text}: {error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
    for text in [
        "http://ann:secret/word@proxy.example:3128",
        "http://ann:secret#word@proxy.example:3128",
        "http://ann:secret word@proxy.example:3128",
        "http://ann:sec@ret@proxy.example:3128",
        "http://ann:secret\"word@proxy.example:3128",
    ] {
        let error = text.parse::<Proxies>().unwrap_err().to_string();
        assert!(error.contains("%2F for /"), "{text}: {error}");
        assert!(!error.contains("ret"), "{error}");
    }
    for text in [
        "http://ann:secret@proxy.example:port",
        "http://ann:secret@",
        "http://:3128",
    ] {
        let error = text.parse::<Proxies>().unwrap_err().to_string();
        assert!(error.contains("a host and a port"), "{text}: {error}");
    }
    for text in [
        "http://[::1]:3128",
        "socks5h://proxy.example",
        "http://proxy.example:3128/",
    ] {
        assert!(matches!(text.parse(), Ok(Proxies::Through(_))), "{text}");
    }
    assert!(matches!("none".parse(), Ok(Proxies::Direct)));
    let proxies: Proxies = "http://ann:secret@proxy.example".parse().unwrap();
    assert_eq!(format!("{proxies:?}"), "Through(http://proxy.example:80)");
}
