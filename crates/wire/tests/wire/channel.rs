//! Frames, deadlines, aborts and counts, over memory and TCP.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use vesica_wire::{
    Blame, Channel, ChannelOptions, Error, FrameReader, FramedChannel, HEADER_BYTES, Interrupt,
    Kind, Limit, MAX_FRAME, MAX_REASON, ManualClock, Misbehaviour, ReadHalf, WriteHalf,
    memory_halves, memory_pair, memory_pair_with, recv_rows, send_rows,
};

use crate::common::{DATA, channel, tcp, until};

const OTHER: Kind = Kind {
    code: 41,
    name: "other",
};

/// Little patience, and no heartbeat within any test.
fn quick(timeout_ms: u64) -> ChannelOptions {
    ChannelOptions {
        timeout: Duration::from_millis(timeout_ms),
        heartbeat: Duration::from_secs(3600),
        ..ChannelOptions::default()
    }
}

fn tcp_pair(first: ChannelOptions, second: ChannelOptions) -> (FramedChannel, FramedChannel) {
    let [near, far] = tcp();
    (
        FramedChannel::new(near.0, near.1, first),
        FramedChannel::new(far.0, far.1, second),
    )
}

/// Runs a test over memory and over TCP.
fn both(options: impl Fn() -> ChannelOptions, test: impl Fn(FramedChannel, FramedChannel)) {
    let (a, b) = memory_pair_with(options(), options());
    test(a, b);
    let (a, b) = tcp_pair(options(), options());
    test(a, b);
}

#[test]
fn frames_arrive_in_order_and_are_counted_exactly() {
    both(ChannelOptions::default, |mut a, mut b| {
        let sizes = [0, 1, 5, 16 << 10, 70_000, MAX_FRAME, 3];
        let total: usize = sizes.iter().map(|s| s + HEADER_BYTES).sum();
        a.begin_phase("one");
        for (i, size) in sizes.into_iter().enumerate() {
            a.send(DATA, vec![i as u8; size]).unwrap();
        }
        a.begin_phase("two");
        a.send(OTHER, vec![1, 2]).unwrap();
        a.begin_phase("one");
        a.send(OTHER, vec![]).unwrap();
        a.begin_phase("three");
        b.begin_phase("all");
        for (i, size) in sizes.into_iter().enumerate() {
            assert_eq!(b.recv(DATA, size).unwrap(), vec![i as u8; size]);
        }
        assert_eq!(b.recv(OTHER, 2).unwrap(), [1, 2]);
        assert_eq!(b.recv(OTHER, 0).unwrap(), []);
        a.flush().unwrap();
        let traffic = a.traffic();
        let names: Vec<_> = traffic.iter().map(|p| p.phase.as_str()).collect();
        assert_eq!(names, ["one", "two", "three"]);
        let sent: Vec<_> = traffic.iter().map(|p| p.bytes_sent).collect();
        assert_eq!(sent, [(total + 5) as u64, 7, 0]);
        assert!(
            traffic
                .iter()
                .all(|p| p.bytes_received == 0 && p.seconds >= 0.0)
        );
        let received = b.traffic();
        assert_eq!(received.len(), 1);
        assert_eq!(received[0].bytes_received, (total + 5 + 7) as u64);
        assert_eq!(a.totals(), ((total + 12) as u64, 0));
        assert_eq!(b.totals(), (0, (total + 12) as u64));
    });
}

#[test]
fn traffic_before_any_phase_is_counted() {
    let (mut a, mut b) = memory_pair();
    a.send(DATA, vec![0; 3]).unwrap();
    b.recv(DATA, 3).unwrap();
    assert_eq!(a.traffic()[0].phase, "start");
    assert_eq!(a.traffic()[0].bytes_sent, 8);
}

#[test]
fn both_may_send_at_once() {
    both(ChannelOptions::default, |mut a, mut b| {
        let volley = |c: &mut FramedChannel| {
            for _ in 0..3 {
                c.send(DATA, vec![7; MAX_FRAME]).unwrap();
            }
            for _ in 0..3 {
                assert_eq!(c.recv(DATA, MAX_FRAME).unwrap().len(), MAX_FRAME);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| volley(&mut b));
            volley(&mut a);
        });
        assert_eq!(a.totals(), b.totals());
    });
}

#[test]
fn rows_travel_whole() {
    let (mut a, mut b) = memory_pair();
    let rows: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
    let sent = rows.clone();
    thread::scope(|scope| {
        scope.spawn(|| send_rows(&mut a, DATA, &sent, 30).unwrap());
        let mut got = Vec::new();
        recv_rows(&mut b, DATA, 30, 100_000, |chunk| {
            got.extend_from_slice(chunk);
            Ok(())
        })
        .unwrap();
        assert!(got == rows);
    });
}

/// Rows one by one, each within the deadline, could go on for ever.
#[test]
fn rows_in_frames_of_another_size_are_refused() {
    for frame in [0, 30, 30 * 99, 30 * 100 - 1] {
        let (mut a, mut b) = memory_pair();
        a.send(DATA, vec![0; frame]).unwrap();
        let error = recv_rows(&mut b, DATA, 30, 100, |_| Ok(())).unwrap_err();
        assert!(
            matches!(
                error,
                Error::PeerMisbehaved(Misbehaviour::WrongLength { what: "data", bytes }) if bytes == frame
            ),
            "{frame}: {error}"
        );
    }
}

#[test]
fn oversize_is_refused_before_it_is_read() {
    both(ChannelOptions::default, |mut a, mut b| {
        a.send(DATA, vec![0; 11]).unwrap();
        let error = b.recv(DATA, 10).unwrap_err();
        let expected = Misbehaviour::TooLong {
            what: "data",
            bytes: 11,
            max: 10,
        };
        assert!(matches!(&error, Error::PeerMisbehaved(m) if *m == expected));
        // The stream is out of step: the error stays.
        let again = b.recv(DATA, 100).unwrap_err();
        assert_eq!(again.to_string(), error.to_string());
    });
}

#[test]
fn a_length_of_four_gigabytes_takes_no_memory() {
    let mut bytes = vec![DATA.code];
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    let mut reader = FrameReader::new(&bytes[..], &quick(1000));
    let error = reader.recv(DATA, MAX_FRAME).unwrap_err();
    assert!(matches!(
        error,
        Error::PeerMisbehaved(Misbehaviour::TooLong { bytes, .. }) if bytes == u64::from(u32::MAX)
    ));
}

#[test]
fn our_own_oversize_frame_is_an_error() {
    let (mut a, _b) = memory_pair();
    let error = a.send(DATA, vec![0; MAX_FRAME + 1]).unwrap_err();
    assert!(matches!(
        error,
        Error::Resource {
            limit: Limit::Size,
            ..
        }
    ));
}

#[test]
fn a_wrong_kind_is_misbehaviour() {
    let (mut a, mut b) = memory_pair();
    a.send(OTHER, vec![1]).unwrap();
    assert!(matches!(
        b.recv(DATA, 10),
        Err(Error::PeerMisbehaved(Misbehaviour::UnexpectedFrame {
            expected: "data",
            got: 41
        }))
    ));
}

#[test]
fn a_closed_channel_is_closed() {
    both(ChannelOptions::default, |mut a, b| {
        drop(b);
        assert!(matches!(a.recv(DATA, 1), Err(Error::Closed)));
    });
}

#[test]
fn what_was_queued_arrives_after_a_drop() {
    both(
        || quick(1000),
        |mut a, mut b| {
            a.send(DATA, vec![3; 100_000]).unwrap();
            drop(a);
            assert_eq!(b.recv(DATA, MAX_FRAME).unwrap().len(), 100_000);
            assert!(matches!(b.recv(DATA, 1), Err(Error::Closed)));
        },
    );
}

#[test]
fn a_close_in_the_middle_of_a_frame_is_closed() {
    let ((reader, writer), (_far_reader, mut far_writer)) = memory_halves();
    let mut channel = FramedChannel::new(Box::new(reader), Box::new(writer), quick(2000));
    far_writer.write(&[DATA.code, 10, 0, 0, 0, 1, 2]).unwrap();
    far_writer.close();
    assert!(matches!(channel.recv(DATA, 10), Err(Error::Closed)));
}

#[test]
fn sending_to_a_peer_that_left_fails() {
    both(ChannelOptions::default, |mut a, b| {
        drop(b);
        let mut outcome = Ok(());
        for _ in 0..200 {
            outcome = outcome.and_then(|()| a.send(DATA, vec![0; MAX_FRAME]));
        }
        assert!(
            matches!(outcome, Err(Error::Closed | Error::Connection(_))),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_silent_peer_meets_the_deadline() {
    both(
        || quick(300),
        |mut a, _b| {
            let start = Instant::now();
            assert!(matches!(a.recv(DATA, 1), Err(Error::TimedOut(_))));
            let waited = start.elapsed();
            assert!(waited >= Duration::from_millis(300), "{waited:?}");
        },
    );
}

#[test]
fn a_peer_that_drips_meets_the_deadline() {
    let ((reader, writer), (_far_reader, mut far_writer)) = memory_halves();
    let clock = ManualClock::new();
    let halves = (Box::new(reader) as _, Box::new(writer) as _);
    let (mut channel, reads) = channel(halves, &clock, quick(400));
    thread::scope(|scope| {
        let received = scope.spawn(move || channel.recv(DATA, 100));
        far_writer.write(&[DATA.code, 100, 0, 0, 0]).unwrap();
        for dripped in 0..8 {
            until(|| reads.bytes() == HEADER_BYTES + dripped);
            assert!(!received.is_finished());
            far_writer.write(&[0]).unwrap();
            clock.advance(Duration::from_millis(50));
        }
        // The peer has not gone away, and would drip on.
        let error = received.join().unwrap().unwrap_err();
        assert!(matches!(error, Error::TimedOut(_)), "{error:?}");
    });
}

#[test]
fn a_peer_that_does_not_read_meets_the_deadline_and_memory_stays_bounded() {
    both(
        || quick(300),
        |mut a, _b| {
            let mut frames = 0;
            let error = loop {
                match a.send(DATA, vec![0; MAX_FRAME]) {
                    Ok(()) => frames += 1,
                    Err(error) => break error,
                }
                assert!(frames < 64, "the queue is not bounded");
            };
            assert!(matches!(error, Error::TimedOut(_)), "{error:?}");
        },
    );
}

#[test]
fn an_abort_says_why() {
    both(ChannelOptions::default, |mut a, mut b| {
        thread::scope(|scope| {
            scope.spawn(move || {
                a.send(DATA, vec![1]).unwrap();
                a.flush().unwrap();
                a.abort(&Error::limit(Limit::Size, "out of paper"));
                assert!(matches!(a.send(DATA, vec![]), Err(Error::Resource { .. })));
                assert!(matches!(a.recv(DATA, 1), Err(Error::Resource { .. })));
                assert!(a.flush().is_err());
            });
            assert_eq!(b.recv(DATA, 1).unwrap(), [1]);
            let error = b.recv(DATA, 1).unwrap_err();
            assert!(
                matches!(&error, Error::PeerAborted { blame: Blame::Resource, reason } if reason == "out of paper"),
                "{error:?}"
            );
            assert_eq!(error.blame(), Blame::Resource);
            drop(b);
        });
    });
}

#[test]
fn an_abort_reaches_a_peer_that_is_blocked_in_a_send() {
    both(
        || quick(10_000),
        |mut a, mut b| {
            thread::scope(|scope| {
                let sender = scope.spawn(move || {
                    loop {
                        if let Err(error) = b.send(DATA, vec![0; MAX_FRAME]) {
                            return error;
                        }
                    }
                });
                thread::sleep(Duration::from_millis(200));
                a.abort(&Error::Interrupted);
                drop(a);
                let error = sender.join().unwrap();
                assert!(
                    matches!(&error, Error::PeerAborted { blame: Blame::Network, reason } if reason == "interrupted by the user"),
                    "{error:?}"
                );
            });
        },
    );
}

#[test]
fn both_may_abort_at_once() {
    both(ChannelOptions::default, |mut a, mut b| {
        thread::scope(|scope| {
            scope.spawn(move || a.abort(&Error::Interrupted));
            scope.spawn(move || b.abort(&Error::Interrupted));
        });
    });
}

#[test]
fn the_reason_of_an_abort_is_bounded_and_printable() {
    let mut bytes = vec![1, 0, 0, 0, 0, 2];
    bytes.extend_from_slice(b"a\x1b[2Jb\r\nc\xff\xe2\x80\xae");
    let len = bytes.len() as u32 - 5;
    bytes[1..5].copy_from_slice(&len.to_le_bytes());
    let recv = |bytes: &[u8]| {
        FrameReader::new(bytes, &quick(1000))
            .recv(DATA, 10)
            .unwrap_err()
    };
    match recv(&bytes) {
        Error::PeerAborted { blame, reason } => {
            assert_eq!(blame, Blame::Contract);
            assert_eq!(reason, "a [2Jb  c\u{fffd} ");
        }
        other => panic!("{other:?}"),
    }
    let mut long = vec![1];
    long.extend_from_slice(&(MAX_REASON as u32 + 2).to_le_bytes());
    assert!(matches!(
        recv(&long),
        Error::PeerMisbehaved(Misbehaviour::TooLong { what: "abort", .. })
    ));
    // Invalid bytes grow when they are replaced; the bound holds all the same.
    let mut odd = vec![1];
    odd.extend_from_slice(&(MAX_REASON as u32 + 1).to_le_bytes());
    odd.extend_from_slice(&[0xff; MAX_REASON + 1]);
    match recv(&odd) {
        Error::PeerAborted { reason, .. } => assert!(reason.len() <= MAX_REASON),
        other => panic!("{other:?}"),
    }
    // And so it does for what we send.
    let (mut a, mut b) = memory_pair();
    thread::scope(|scope| {
        scope.spawn(move || a.abort(&Error::limit(Limit::Size, "é\u{7}".repeat(1000))));
        match b.recv(DATA, 1).unwrap_err() {
            Error::PeerAborted { reason, .. } => {
                assert!(reason.len() <= MAX_REASON && reason.starts_with("é é "));
            }
            other => panic!("{other:?}"),
        }
        drop(b);
    });
}

#[test]
fn an_interrupt_ends_a_blocked_receive_and_a_blocked_send() {
    for send in [false, true] {
        let interrupt = Interrupt::new();
        let options = ChannelOptions {
            interrupt: interrupt.clone(),
            ..ChannelOptions::default()
        };
        let (mut a, mut b) = tcp_pair(options, ChannelOptions::default());
        thread::scope(|scope| {
            let blocked = scope.spawn(move || {
                let error = loop {
                    let outcome = if send {
                        a.send(DATA, vec![0; MAX_FRAME])
                    } else {
                        a.recv(DATA, 1).map(drop)
                    };
                    if let Err(error) = outcome {
                        break error;
                    }
                };
                a.abort(&error);
                error
            });
            thread::sleep(Duration::from_millis(300));
            interrupt.raise();
            if !send {
                let error = b.recv(DATA, 1).unwrap_err();
                assert!(matches!(
                    error,
                    Error::PeerAborted {
                        blame: Blame::Network,
                        ..
                    }
                ));
            }
            let error = blocked.join().unwrap();
            drop(b);
            assert!(matches!(error, Error::Interrupted), "{error:?}");
        });
    }
}

#[test]
fn whoever_is_interrupted_hears_that_and_not_what_the_peer_says_of_its_own() {
    /// An abort that arrives when this side's interrupt is raised.
    struct AtOnce(Interrupt, Vec<u8>);

    impl ReadHalf for AtOnce {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.raise();
            let count = buf.len().min(self.1.len());
            buf[..count].copy_from_slice(&self.1[..count]);
            self.1.drain(..count);
            Ok(count)
        }
    }

    // Its kind, its length, whom it blames, and no reason.
    let abort = vec![1, 1, 0, 0, 0, 2];
    let interrupt = Interrupt::new();
    let options = ChannelOptions {
        interrupt: interrupt.clone(),
        ..ChannelOptions::default()
    };
    let mut near = FrameReader::new(AtOnce(interrupt, abort), &options);
    let heard = near.recv(DATA, 1);
    assert!(matches!(heard, Err(Error::Interrupted)), "{heard:?}");
}

#[test]
fn an_interrupt_reaches_the_peer_while_this_side_computes() {
    let interrupt = Interrupt::new();
    let options = ChannelOptions {
        interrupt: interrupt.clone(),
        ..ChannelOptions::default()
    };
    let (mut a, mut b) = tcp_pair(options, ChannelOptions::default());
    a.send(DATA, vec![1]).unwrap();
    assert_eq!(b.recv(DATA, 1).unwrap(), [1]);
    interrupt.raise();
    // This side does nothing.
    match b.recv(DATA, 1).unwrap_err() {
        Error::PeerAborted { reason, .. } => assert_eq!(reason, "interrupted by the user"),
        other => panic!("{other:?}"),
    }
    // Whatever this side does next, it learns why; and the peer was told once.
    assert!(matches!(a.send(DATA, vec![2]), Err(Error::Interrupted)));
    assert!(matches!(a.flush(), Err(Error::Interrupted)));
    assert!(matches!(a.recv(DATA, 1), Err(Error::Interrupted)));
    b.abort(&Error::Closed);
    a.abort(&Error::Interrupted);
}

#[test]
fn dropping_with_a_peer_that_does_not_read_does_not_hang() {
    both(
        || quick(1000),
        |mut a, b| {
            for _ in 0..4 {
                a.send(DATA, vec![0; MAX_FRAME - HEADER_BYTES]).unwrap();
            }
            // While the other side is still there.
            drop(a);
            drop(b);
        },
    );
}

/// What is still in the buffers of the sockets is lost if a heartbeat finds the connection closed.
#[test]
fn what_was_flushed_arrives_at_a_peer_that_computes_first() {
    let lively = || ChannelOptions {
        heartbeat: Duration::from_millis(20),
        ..quick(60_000)
    };
    let (mut a, mut b) = tcp_pair(lively(), lively());
    let frame = 1 << 20;
    let sends = thread::spawn(move || {
        for _ in 0..16 {
            a.send(DATA, vec![7; frame]).unwrap();
        }
        a.flush().unwrap();
    });
    for _ in 0..10 {
        assert_eq!(b.recv(DATA, frame).unwrap().len(), frame);
    }
    thread::sleep(Duration::from_millis(1500));
    for _ in 10..16 {
        assert_eq!(b.recv(DATA, frame).unwrap().len(), frame);
    }
    drop(b);
    sends.join().unwrap();
}

/// Nothing is on its way to a peer that spoke last.
#[test]
fn a_peer_that_was_heard_last_does_not_hold_up_a_drop() {
    let (mut a, mut b) = tcp_pair(quick(60_000), quick(60_000));
    a.send(DATA, vec![1]).unwrap();
    b.recv(DATA, 1).unwrap();
    b.send(DATA, vec![2]).unwrap();
    a.recv(DATA, 1).unwrap();
    let started = Instant::now();
    drop(a);
    assert!(started.elapsed() < Duration::from_secs(10));
    drop(b);
}

/// However often it says that it is alive.
#[test]
fn a_drop_waits_for_a_peer_that_stays_as_long_as_the_timeout() {
    let lively = ChannelOptions {
        heartbeat: Duration::from_millis(20),
        ..quick(60_000)
    };
    let (mut a, b) = tcp_pair(quick(700), lively);
    a.send(DATA, vec![1]).unwrap();
    a.flush().unwrap();
    let started = Instant::now();
    drop(a);
    let waited = started.elapsed();
    assert!(
        waited >= Duration::from_millis(700) && waited < Duration::from_secs(20),
        "{waited:?}"
    );
    drop(b);
}

/// However long that may take.
#[test]
fn an_interrupt_ends_the_wait_for_a_peer_that_stays() {
    let interrupt = Interrupt::new();
    let patient = ChannelOptions {
        timeout: Duration::MAX,
        interrupt: interrupt.clone(),
        ..quick(0)
    };
    let (mut a, b) = tcp_pair(patient, quick(60_000));
    a.send(DATA, vec![1]).unwrap();
    a.flush().unwrap();
    let drops = thread::spawn(move || drop(a));
    thread::sleep(Duration::from_millis(1000));
    assert!(!drops.is_finished());
    interrupt.raise();
    drops.join().unwrap();
    drop(b);
}

#[test]
fn a_peer_that_takes_a_byte_at_a_time_does_not_hold_up_a_drop() {
    /// Takes one byte of each write.
    struct Dripping;
    impl WriteHalf for Dripping {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            thread::sleep(Duration::from_millis(1));
            Ok(1)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }

        fn close(&mut self) {}
    }
    let ((reader, _), _far) = memory_halves();
    let mut a = FramedChannel::new(Box::new(reader), Box::new(Dripping), quick(300));
    a.send(DATA, vec![0; MAX_FRAME]).unwrap();
    assert!(matches!(a.flush(), Err(Error::TimedOut(_))));
    // A mebibyte would take it a quarter of an hour and more.
    drop(a);
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, max in 0usize..64) {
        let mut reader = FrameReader::new(&bytes[..], &quick(50));
        let kind = Kind { code: bytes.first().copied().unwrap_or(0), name: "any" };
        while reader.recv(kind, max).is_ok() {}
    }
}

/// A peer that is through ends its stream, and heartbeats to it fail. That is no failure of whoever
/// has nothing more to send.
#[test]
fn a_heartbeat_to_a_peer_that_is_through_is_no_failure() {
    let options = || ChannelOptions {
        heartbeat: Duration::from_millis(10),
        ..quick(1000)
    };
    both(options, |mut a, mut b| {
        b.send(DATA, vec![7]).unwrap();
        b.flush().unwrap();
        // It takes heartbeats until its time is over.
        drop(b);
        thread::sleep(Duration::from_millis(200));
        a.flush().unwrap();
        assert_eq!(a.recv(DATA, 1).unwrap(), [7]);
        a.flush().unwrap();
        assert!(matches!(a.recv(DATA, 1), Err(Error::Closed)));
    });
}

/// However many heartbeats a peer sends, they are no progress.
#[test]
fn a_flood_of_heartbeats_is_no_progress() {
    let ((reader, _), (_, mut writer)) = memory_halves();
    let options = ChannelOptions {
        patience: Duration::from_millis(500),
        ..ChannelOptions::default()
    };
    let mut frames = FrameReader::new(reader, &options);
    let flood = thread::spawn(move || {
        // A heartbeat has code 2 and no payload. Twice what counts as progress, ten times per second.
        let beats = [2, 0, 0, 0, 0].repeat(26_000);
        let mut rest: &[u8] = &[];
        loop {
            if rest.is_empty() {
                rest = &beats;
            }
            match writer.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
    });
    assert!(matches!(frames.recv(DATA, 1), Err(Error::Stalled(_))));
    drop(frames);
    flood.join().unwrap();
}
