//! Long work, dead peers, and peers that only say that they are alive.

use std::collections::VecDeque;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use vesica_wire::{
    Channel, ChannelOptions, Error, FrameReader, FramedChannel, HEADER_BYTES, Kind, Link,
    MAX_FRAME, Misbehaviour, ReadHalf, WriteHalf, memory_halves, memory_pair_with, tcp_halves,
};

const DATA: Kind = Kind {
    code: 40,
    name: "data",
};
const BEAT: [u8; HEADER_BYTES] = [2, 0, 0, 0, 0];

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// 600 ms of silence, a heartbeat every 50 ms.
fn lively() -> ChannelOptions {
    ChannelOptions {
        timeout: millis(600),
        heartbeat: millis(50),
        ..ChannelOptions::default()
    }
}

fn tcp_pair(options: &ChannelOptions) -> (FramedChannel, FramedChannel) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    let make = |stream| {
        let (reader, writer) = tcp_halves(stream).unwrap();
        FramedChannel::new(Box::new(reader), Box::new(writer), options.clone())
    };
    (make(near), make(far))
}

fn pairs(options: &ChannelOptions) -> [(FramedChannel, FramedChannel); 2] {
    [
        memory_pair_with(options.clone(), options.clone()),
        tcp_pair(options),
    ]
}

#[test]
fn a_peer_may_compute_for_longer_than_the_timeout() {
    for (mut a, mut b) in pairs(&lively()) {
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(millis(1500));
                b.send(DATA, vec![7; 10]).unwrap();
                b.flush().unwrap();
            });
            assert_eq!(a.recv(DATA, 10).unwrap(), [7; 10]);
        });
        // Nothing of it is counted.
        let bytes = (10 + HEADER_BYTES) as u64;
        assert_eq!((a.totals(), b.totals()), ((0, bytes), (bytes, 0)));
        assert_eq!(a.traffic()[0].bytes_received, bytes);
    }
}

#[test]
fn a_peer_may_compute_while_this_side_waits_for_room() {
    let options = ChannelOptions {
        queue_bytes: MAX_FRAME,
        ..lively()
    };
    for (mut a, mut b) in pairs(&options) {
        thread::scope(|scope| {
            scope.spawn(|| {
                // What the peer said before it began to compute is in front of its heartbeats.
                b.send(DATA, vec![1; 200_000]).unwrap();
                thread::sleep(millis(1500));
                for _ in 0..16 {
                    assert_eq!(b.recv(DATA, MAX_FRAME).unwrap().len(), MAX_FRAME);
                }
            });
            for _ in 0..16 {
                a.send(DATA, vec![0; MAX_FRAME]).unwrap();
            }
            a.flush().unwrap();
            assert_eq!(a.recv(DATA, MAX_FRAME).unwrap(), vec![1; 200_000]);
        });
    }
}

#[test]
fn both_may_compute_with_frames_on_their_way() {
    // Neither waits for the other, so that neither may run out of patience.
    let (mut a, mut b) = memory_pair_with(lively(), lively());
    a.send(DATA, vec![1; MAX_FRAME]).unwrap();
    b.send(DATA, vec![2; MAX_FRAME]).unwrap();
    thread::sleep(millis(1500));
    assert_eq!(a.recv(DATA, MAX_FRAME).unwrap(), vec![2; MAX_FRAME]);
    assert_eq!(b.recv(DATA, MAX_FRAME).unwrap(), vec![1; MAX_FRAME]);
}

#[test]
fn a_silent_peer_meets_the_timeout_in_receiving_and_in_sending() {
    for send in [false, true] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        // Its kernel takes bytes for it, as that of a stopped process does.
        let _stopped = listener.accept().unwrap();
        let (reader, writer) = tcp_halves(near).unwrap();
        let mut a = FramedChannel::new(Box::new(reader), Box::new(writer), lively());
        let start = Instant::now();
        let error = loop {
            let outcome = match send {
                true => a.send(DATA, vec![0; MAX_FRAME]),
                false => a.recv(DATA, 1).map(drop),
            };
            if let Err(error) = outcome {
                break error;
            }
        };
        assert!(
            matches!(error, Error::TimedOut(after) if after == millis(600)),
            "{error:?}"
        );
        assert!(start.elapsed() >= millis(600) && start.elapsed() < millis(5000));
    }
}

#[test]
fn a_peer_that_only_says_that_it_is_alive_meets_the_overall_deadline() {
    for send in [false, true] {
        let options = ChannelOptions {
            patience: millis(1200),
            ..lively()
        };
        let (mut a, _b) = memory_pair_with(options, lively());
        let start = Instant::now();
        let error = loop {
            let outcome = match send {
                true => a.send(DATA, vec![0; MAX_FRAME]),
                false => a.recv(DATA, 1).map(drop),
            };
            if let Err(error) = outcome {
                break error;
            }
        };
        assert!(
            matches!(error, Error::Stalled(after) if after == millis(1200)),
            "{error:?}"
        );
        assert!(start.elapsed() >= millis(1200) && start.elapsed() < millis(5000));
    }
}

#[test]
fn real_frames_move_the_overall_deadline() {
    let options = ChannelOptions {
        patience: millis(800),
        ..lively()
    };
    let (mut a, mut b) = memory_pair_with(options, lively());
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..4 {
                thread::sleep(millis(400));
                b.send(DATA, vec![3]).unwrap();
            }
            b.flush().unwrap();
        });
        for _ in 0..4 {
            assert_eq!(a.recv(DATA, 1).unwrap(), [3]);
        }
    });
}

/// What was sent may be in buffers on the way for longer than a peer without anything on the way has for its answer.
#[test]
fn an_answer_may_take_as_long_as_what_it_answers() {
    let options = ChannelOptions {
        timeout: millis(2000),
        patience: millis(800),
        ..lively()
    };
    let (mut a, mut b) = memory_pair_with(options, lively());
    thread::scope(|scope| {
        scope.spawn(move || {
            for _ in 0..3 {
                thread::sleep(millis(500));
                b.recv(DATA, MAX_FRAME).unwrap();
            }
            b.send(DATA, vec![3]).unwrap();
            b.flush().unwrap();
            // Until the other side has given up.
            assert!(b.recv(DATA, 1).is_err());
        });
        for _ in 0..3 {
            a.send(DATA, vec![7; 64 << 10]).unwrap();
        }
        a.flush().unwrap();
        assert_eq!(a.recv(DATA, 1).unwrap(), [3]);
        let error = a.recv(DATA, 1).unwrap_err();
        assert!(
            matches!(error, Error::Stalled(after) if after == millis(800)),
            "{error:?}"
        );
        drop(a);
    });
}

#[test]
fn heartbeats_within_a_frame_or_with_a_payload_are_misbehaviour() {
    let recv = |bytes: &[u8]| FrameReader::new(bytes, &lively()).recv(DATA, 10);
    let frame = [&[DATA.code, 2, 0, 0, 0][..], &[8, 9]].concat();
    assert_eq!(
        recv(&[&BEAT[..], &BEAT, &frame].concat()).unwrap(),
        [8, 9],
        "heartbeats are swallowed"
    );
    let mut long = BEAT;
    long[1] = 1;
    let error = recv(&[&long[..], &[0], &frame].concat()).unwrap_err();
    let expected = Misbehaviour::TooLong {
        what: "heartbeat",
        bytes: 1,
        max: 0,
    };
    assert!(matches!(&error, Error::PeerMisbehaved(m) if *m == expected));
    // Inside a frame it is that frame's payload, and what is left over is no frame.
    let mut split = frame.clone();
    split.splice(6..6, BEAT);
    let mut reader = FrameReader::new(&split[..], &lively());
    assert_eq!(reader.recv(DATA, 10).unwrap(), [8, 2]);
    assert!(reader.recv(DATA, 10).is_err());
}

/// Keeps what is written, and tells when it is dropped.
struct Recorder {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    /// Most bytes taken at once.
    most: usize,
    gone: Arc<AtomicBool>,
}

impl WriteHalf for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.most == 0 {
            thread::sleep(millis(20));
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = bytes.len().min(self.most);
        self.bytes.lock().unwrap().extend(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn close(&mut self) {}
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::SeqCst);
    }
}

/// Never says anything.
struct Mute;

impl ReadHalf for Mute {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        thread::sleep(millis(20));
        Err(io::ErrorKind::WouldBlock.into())
    }
}

fn recorded(
    most: usize,
    options: ChannelOptions,
) -> (FramedChannel, Arc<Mutex<VecDeque<u8>>>, Arc<AtomicBool>) {
    let (bytes, gone) = (Arc::default(), Arc::default());
    let recorder = Recorder {
        bytes: Arc::clone(&bytes),
        most,
        gone: Arc::clone(&gone),
    };
    let channel = FramedChannel::new(Box::new(Mute), Box::new(recorder), options);
    (channel, bytes, gone)
}

#[test]
fn heartbeats_stand_between_frames_whatever_the_link_takes() {
    for (most, link) in [
        (3, Link::LAN),
        (1000, Link::LAN),
        (1000, Link::new(Some(80_000_000), 2)),
    ] {
        let options = ChannelOptions {
            heartbeat: millis(1),
            link,
            ..lively()
        };
        let (mut channel, bytes, _) = recorded(most, options);
        let sizes = [0, 1, 17_000, 5, 40_000, 3];
        for round in 0..8u8 {
            for size in sizes {
                channel.send(DATA, vec![round; size]).unwrap();
            }
            channel.flush().unwrap();
            thread::sleep(millis(15));
        }
        drop(channel);
        let stream: Vec<u8> = bytes.lock().unwrap().iter().copied().collect();
        let (mut rest, mut beats, mut frames) = (&stream[..], 0, Vec::new());
        while let Some((header, tail)) = rest.split_first_chunk::<HEADER_BYTES>() {
            let len = u32::from_le_bytes(header[1..].try_into().unwrap()) as usize;
            match header[0] {
                2 => {
                    assert_eq!(len, 0);
                    beats += 1;
                }
                code => {
                    assert_eq!(code, DATA.code);
                    frames.push(tail[..len].to_vec());
                }
            }
            rest = &tail[len..];
        }
        assert!(rest.is_empty());
        assert!(beats >= 8, "{beats}");
        let expected = (0..8u8).flat_map(|round| sizes.map(|size| vec![round; size]));
        assert!(frames.into_iter().eq(expected));
    }
}

#[test]
fn an_ended_channel_says_nothing_more_and_leaves_no_thread() {
    for abort in [false, true] {
        let options = ChannelOptions {
            heartbeat: millis(10),
            ..lively()
        };
        let (mut channel, bytes, gone) = recorded(1000, options);
        thread::sleep(millis(100));
        assert!(bytes.lock().unwrap().len() >= BEAT.len());
        assert!(!gone.load(Ordering::SeqCst));
        if abort {
            channel.abort(&Error::Interrupted);
        } else {
            let start = Instant::now();
            drop(channel);
            assert!(start.elapsed() < millis(500));
        }
        // The thread owned the half.
        assert!(gone.load(Ordering::SeqCst));
        let after = bytes.lock().unwrap().len();
        thread::sleep(millis(50));
        assert_eq!(bytes.lock().unwrap().len(), after);
    }
}

#[test]
fn a_heartbeat_that_finds_no_room_holds_nobody_up() {
    let options = ChannelOptions {
        heartbeat: millis(5),
        ..lively()
    };
    let (mut channel, ..) = recorded(0, options);
    thread::sleep(millis(100));
    let start = Instant::now();
    channel.flush().unwrap();
    drop(channel);
    assert!(start.elapsed() < millis(500));
}

#[test]
fn the_last_message_is_not_lost_under_unread_heartbeats() {
    let options = ChannelOptions {
        heartbeat: millis(1),
        ..lively()
    };
    for _ in 0..20 {
        let (mut a, mut b) = tcp_pair(&options);
        thread::scope(|scope| {
            scope.spawn(move || {
                a.send(DATA, vec![1; 100_000]).unwrap();
                drop(a);
            });
            thread::sleep(millis(20));
            assert_eq!(b.recv(DATA, MAX_FRAME).unwrap(), vec![1; 100_000]);
            assert!(matches!(b.recv(DATA, 1), Err(Error::Closed)));
            drop(b);
        });
    }
}

#[test]
fn heartbeats_alone_do_not_count_as_a_frame_of_another_kind() {
    let ((reader, writer), (_far, mut far)) = memory_halves();
    let mut a = FramedChannel::new(Box::new(reader), Box::new(writer), lively());
    far.write(&[&BEAT[..], &BEAT, &[DATA.code, 1, 0, 0, 0, 5]].concat())
        .unwrap();
    assert_eq!(a.recv(DATA, 1).unwrap(), [5]);
    assert_eq!(a.totals(), (0, 6));
}
