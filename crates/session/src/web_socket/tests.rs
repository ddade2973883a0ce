use std::net::{TcpListener, TcpStream};
use std::thread;

use super::*;
use crate::tls::block;
use crate::wait::Wait;
use crate::web_request::open;
use crate::{Address, ConnectOptions, Error, NoConnection};

/// The two ends of a TCP connection, with short timeouts.
fn ends() -> [TcpStream; 2] {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(socket.local_addr().unwrap()).unwrap();
    let (far, _) = socket.accept().unwrap();
    [near, far].map(|end| {
        block(&end).unwrap();
        end
    })
}

/// Lets somebody in as a listener does.
fn let_in(carrier: &mut Carrier) -> Result<(), NoUpgrade> {
    let mut upgrade = Upgrade::default();
    loop {
        if let Upgraded::Open(opened) = upgrade.step(carrier)? {
            opened.trust();
            break;
        }
    }
    // Tests wait.
    carrier.socket().set_nonblocking(false).unwrap();
    Ok(())
}

/// The halves of a WebSocket: of the side that asks, and of the one that answers.
fn pair() -> [Halves; 2] {
    let [near, far] = ends().map(Carrier::of);
    let asked = thread::spawn(move || {
        let mut far = far;
        let_in(&mut far).unwrap();
        far.into_halves().unwrap()
    });
    let near = ask(near, "ws://localhost/psi?a=b").unwrap();
    [near.into_halves().unwrap(), asked.join().unwrap()]
}

fn ask(mut carrier: Carrier, address: &str) -> Result<Carrier, Error> {
    let options = ConnectOptions {
        wait: Duration::from_secs(5),
        ..ConnectOptions::default()
    };
    let wait = Wait::new(&options);
    let address: Address = address.parse().unwrap();
    let web = address.web.clone().unwrap();
    let limit = wait.limit(options.wait);
    match open(&mut carrier, &address, &web, &wait, &|| limit.is_over())? {
        Ok(()) => Ok(carrier),
        Err((cause, line)) => Err(cause.error(line)),
    }
}

/// The byte at this place of what a side sends.
fn byte(place: usize) -> u8 {
    (place * 31 + (place >> 8)) as u8
}

fn send(writer: &mut dyn WriteHalf, length: usize) {
    let all: Vec<u8> = (0..length).map(byte).collect();
    let mut rest = &all[..];
    while !rest.is_empty() {
        if let Some(count) = retry(writer.write(rest)).unwrap() {
            rest = &rest[count..];
        }
    }
    while retry(writer.flush()).unwrap().is_none() {}
}

/// Reads to the end.
fn receive(reader: &mut dyn ReadHalf) -> usize {
    let mut buf = vec![0; 10_000];
    let mut place = 0;
    loop {
        match retry(reader.read(&mut buf)).unwrap() {
            None => {}
            Some(0) => return place,
            Some(count) => {
                for found in &buf[..count] {
                    assert_eq!(*found, byte(place), "at {place}");
                    place += 1;
                }
            }
        }
    }
}

#[test]
fn both_sides_send_at_once_and_end_one_after_the_other() {
    const LENGTHS: [usize; 2] = [3 << 20, (5 << 20) + 7];
    let run = |(mut reader, mut writer): Halves, mine: usize, theirs: usize| {
        thread::scope(|scope| {
            let received = scope.spawn(move || {
                let received = receive(&mut *reader);
                (received, reader)
            });
            send(&mut *writer, mine);
            writer.close();
            let (received, mut reader) = received.join().unwrap();
            assert_eq!(received, theirs);
            reader.finish(&|| true);
        });
    };
    let [near, far] = pair();
    thread::scope(|scope| {
        scope.spawn(|| run(near, LENGTHS[0], LENGTHS[1]));
        scope.spawn(|| run(far, LENGTHS[1], LENGTHS[0]));
    });
}

#[test]
fn who_has_ended_still_hears_the_other() {
    let [(mut hears, mut done), (mut reader, mut writer)] = pair();
    done.close();
    assert_eq!(receive(&mut *reader), 0);
    send(&mut *writer, 1 << 20);
    writer.close();
    let heard = thread::spawn(move || receive(&mut *hears));
    assert_eq!(heard.join().unwrap(), 1 << 20);
    reader.finish(&|| true);
}

/// A listener's halves, and a stream to it on which anything can be sent.
fn raw() -> (TcpStream, Halves) {
    let [mut near, far] = ends();
    let mut far = Carrier::of(far);
    near.write_all(request(&[]).as_bytes()).unwrap();
    let_in(&mut far).unwrap();
    let mut answer = [0; 129];
    near.read_exact(&mut answer).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(b"\r\n\r\n"));
    (near, far.into_halves().unwrap())
}

fn request(more: &[&str]) -> String {
    let lines = more.iter().map(|line| format!("{line}\r\n"));
    let lines: String = lines.collect();
    format!(
        "GET /psi HTTP/1.1\r\nHost: psi.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{lines}\r\n"
    )
}

/// A frame of a side that asked, under the mask of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ ..126 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

#[test]
fn messages_in_pieces_and_pings_between_them_are_understood() {
    let (mut near, (mut reader, _writer)) = raw();
    let mut sent = frame(0x02, &[byte(0), byte(1)]);
    sent.extend(frame(0x89, b"ping"));
    sent.extend(frame(0x80, &[byte(2)]));
    sent.extend(frame(0x8a, b""));
    sent.extend(frame(0x82, &[byte(3)]));
    sent.extend(frame(0x82, b""));
    for piece in sent.chunks(3) {
        near.write_all(piece).unwrap();
    }
    assert_eq!(receive(&mut *reader), 4);
    // The side that says nothing answers a ping as well.
    let mut pong = [0; 6];
    near.read_exact(&mut pong).unwrap();
    assert_eq!(&pong, b"\x8a\x04ping");
}

#[test]
fn a_silent_connection_shows_that_it_lives() {
    let [mut near, far] = ends();
    let socket = WebSocket::from_raw_socket(Memory::new(), Role::Server, Some(config()));
    let (mut reader, _writer) = halves(socket, Carrier::of(far).into_halves().unwrap());
    let mut ping = [0; 2];
    assert!(retry(reader.read(&mut [0])).unwrap().is_none());
    assert!(retry(near.read(&mut ping)).unwrap().is_none());
    reader.last = Instant::now().checked_sub(SILENCE).unwrap();
    let interrupt = Interrupt::new();
    assert!(!reader.wait(&interrupt, Duration::from_millis(1)));
    near.read_exact(&mut ping).unwrap();
    assert_eq!(&ping, b"\x89\x00");
    // And not again before it is time.
    assert!(!reader.wait(&interrupt, Duration::from_millis(1)));
    assert!(retry(near.read(&mut ping)).unwrap().is_none());
}

#[test]
fn what_is_no_message_ends_the_connection() {
    let mut unmasked = frame(0x82, b"x");
    unmasked[1] &= 0x7f;
    let mut endless = frame(0x82, &[]);
    endless[1] = 0x80 | 127;
    endless.splice(2..2, u64::MAX.to_be_bytes());
    for (sent, is_error) in [
        (frame(0x81, b"text"), true),
        (unmasked, true),
        (endless, true),
        (frame(0x82, &vec![0; MAX_MESSAGE + 1]), true),
        // Compressed, as nobody has asked for.
        (frame(0xc2, b"x"), true),
        (frame(0x80, b"x"), true),
        (frame(0x8b, b""), true),
        // That the server in between gives up is an end without an end.
        (frame(0x88, b""), false),
    ] {
        let (mut near, (mut reader, _writer)) = raw();
        let sending = sent.clone();
        thread::spawn(move || {
            let _ = near.write_all(&sending);
            thread::sleep(Duration::from_secs(1));
        });
        let mut buf = [0; 100];
        let read = |reader: &mut dyn ReadHalf, buf: &mut [u8]| loop {
            match retry(reader.read(buf)) {
                Ok(None) => {}
                Ok(Some(count)) => break Ok(count),
                Err(e) => break Err(e.kind()),
            }
        };
        let outcome = read(&mut *reader, &mut buf);
        let expected = match is_error {
            true => Err(ErrorKind::InvalidData),
            false => Ok(0),
        };
        assert_eq!(outcome, expected, "{:02x?}", &sent[..2]);
        // And it stays so, whoever looked first: nothing that comes after it is taken.
        assert!(reader.wait(&Interrupt::new(), Duration::ZERO));
        assert_eq!(read(&mut *reader, &mut buf), expected);
    }
}

#[test]
fn a_flood_of_pings_takes_no_memory() {
    let (mut near, (mut reader, writer)) = raw();
    // Nobody reads the answers.
    let flood = thread::spawn(move || {
        let ping = frame(0x89, &[0; 125]).repeat(1000);
        near.set_write_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        for _ in 0..200 {
            if near.write_all(&ping).is_err() {
                break;
            }
        }
        near
    });
    let mut buf = [0; 100];
    while !flood.is_finished() {
        assert!(retry(reader.read(&mut buf)).unwrap().is_none());
    }
    drop((writer, flood.join()));
}

#[test]
fn most_memory_of_the_answers_is_bounded() {
    let socket = WebSocket::from_raw_socket(Memory::new(), Role::Server, Some(config()));
    let mut messages = Messages::of(socket);
    let pings = frame(0x89, &[0; 125]).repeat(100);
    for _ in 0..1000 {
        messages.socket.get_mut().feed(&pings);
        assert!(!messages.load().unwrap());
        assert!(messages.socket.get_ref().outgoing.len() <= MAX_MESSAGE + 127);
        assert!(messages.socket.get_ref().incoming.len() <= pings.len());
    }
    // Once the answers have left, there is room for what this side says.
    while !messages.outgoing().unwrap().is_empty() {}
    messages.write(b"said").unwrap();
    assert!(messages.outgoing().unwrap().ends_with(b"said"));
}

fn status(request: &[u8]) -> String {
    match answer(request) {
        Ok(answer) => String::from_utf8(answer).unwrap(),
        Err(refusal) => refusal.answer(),
    }
    .lines()
    .next()
    .unwrap()
    .to_owned()
}

#[test]
fn requests_are_for_a_web_socket_and_of_no_foreign_page() {
    let good = request(&[]);
    for (request, expected) in [
        (good.clone(), "101"),
        (good.replace("/psi", "/any/path?at=all"), "101"),
        (request(&["Origin: https://psi.example"]), "101"),
        (request(&["Origin: http://PSI.example"]), "101"),
        (
            request(&["Sec-WebSocket-Extensions: permessage-deflate"]),
            "101",
        ),
        (request(&["Origin: https://psi.example.evil"]), "403"),
        (request(&["Origin: https://evil.example"]), "403"),
        (request(&["Origin: null"]), "403"),
        (request(&["Origin: psi.example"]), "403"),
        (
            request(&["Origin: https://psi.example", "Origin: https://evil"]),
            "403",
        ),
        (good.replace("Upgrade: websocket\r\n", ""), "426"),
        (good.replace("keep-alive, Upgrade", "close"), "426"),
        (good.replace(": 13", ": 12"), "426"),
        (good.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), "426"),
        (good.replace("GET", "HEAD"), "426"),
        (good.replace("HTTP/1.1", "HTTP/1.0"), "426"),
        (good.replace("Host:", "Host"), "400"),
        ("HELLO THERE\r\n\r\n".into(), "400"),
    ] {
        let status = status(request.as_bytes());
        let code = status.split(' ').nth(1);
        assert_eq!(code, Some(expected), "{request}");
    }
    // No extension is agreed on, and no name of a protocol is made up.
    let answer = answer(request(&["Sec-WebSocket-Extensions: permessage-deflate"]).as_bytes());
    let answer = String::from_utf8(answer.unwrap()).unwrap().to_lowercase();
    assert!(!answer.contains("extensions") && !answer.contains("protocol:"));
}

#[test]
fn requests_that_do_not_end_or_go_on_are_refused() {
    for (sent, code) in [
        (
            format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(2 * MAX_REQUEST)),
            "431",
        ),
        (format!("{}\x16\x03", request(&[])), "400"),
        (request(&[]).replace("Upgrade: websocket\r\n", ""), "426"),
    ] {
        let [mut near, far] = ends();
        let letting = thread::spawn(move || let_in(&mut Carrier::of(far)));
        near.write_all(sent.as_bytes()).unwrap();
        assert!(matches!(
            letting.join().unwrap(),
            Err(NoUpgrade::Refused(_))
        ));
        let mut answer = [0; 12];
        near.read_exact(&mut answer).unwrap();
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {code}"));
    }
    let [near, far] = ends();
    drop(near);
    assert!(matches!(
        let_in(&mut Carrier::of(far)),
        Err(NoUpgrade::Broken(_))
    ));
}

#[test]
fn servers_that_open_none_are_told_apart() {
    use NoConnection::{NoWebSocket, NobodyListensBehind};
    let missing =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
    for (said, expected, words) in [
        (
            "HTTP/1.0 503 Service Unavailable\r\n\r\n",
            NobodyListensBehind,
            "503 Service Unavailable",
        ),
        (
            "HTTP/1.1 502 Bad Gateway\r\n\r\n",
            NobodyListensBehind,
            "502 Bad Gateway",
        ),
        ("HTTP/1.1 404 Not Found\r\n\r\n", NoWebSocket, "404"),
        (
            "HTTP/1.1 200 OK\r\n\r\n",
            NoWebSocket,
            "200 OK, and opens no WebSocket",
        ),
        (
            "HTTP/1.1 301 Moved\r\nLocation: https://\u{202e}x\r\n\r\n",
            NoWebSocket,
            "and names https://\\u{202e}x",
        ),
        (missing, NoWebSocket, "does not answer as a WebSocket does"),
        ("SSH-2.0-OpenSSH_9.2\r\n", NoWebSocket, "no web server"),
        ("", NoWebSocket, "broken off"),
    ] {
        let [near, mut far] = ends();
        thread::spawn(move || {
            let mut request = [0; 4096];
            while !matches!(retry(far.read(&mut request)), Ok(Some(_))) {}
            far.write_all(said.as_bytes()).unwrap();
        });
        match ask(Carrier::of(near), "ws://h/") {
            Err(Error::Connect { cause, line }) => {
                assert_eq!(cause, expected, "{line}");
                assert!(line.contains(words), "{line}");
                assert!(!line.contains(['\x1b', '\u{202e}']), "{line}");
            }
            other => panic!("{said}: {:?}", other.err()),
        }
    }
}

#[test]
fn a_visitor_has_little_room() {
    let [mut near, far] = ends();
    near.write_all(request(&[]).as_bytes()).unwrap();
    let mut far = Carrier::of(far);
    let mut upgrade = Upgrade::default();
    while !matches!(upgrade.step(&mut far).unwrap(), Upgraded::Open(_)) {}
    near.read_exact(&mut [0; 129]).unwrap();
    near.write_all(&frame(0x82, &vec![byte(0); MAX_OF_VISITOR]))
        .unwrap();
    near.write_all(&frame(0x82, &vec![byte(0); MAX_OF_VISITOR + 1]))
        .unwrap();
    let mut read = 0;
    let outcome = loop {
        match retry(far.read(&mut [0; 1 << 16])) {
            Ok(None) => {}
            Ok(Some(count)) => read += count,
            Err(e) => break e.kind(),
        }
    };
    assert_eq!((read, outcome), (MAX_OF_VISITOR, ErrorKind::InvalidData));
}
