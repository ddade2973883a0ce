//! Long work, dead peers, and peers that only say that they are alive.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use vesica_wire::{
    Channel, ChannelOptions, Error, FrameReader, FramedChannel, HEADER_BYTES, Link, MAX_FRAME,
    ManualClock, Misbehaviour, ReadHalf, WriteHalf, memory_halves,
};

use crate::common::{DATA, Halves, Reads, channel, memory, millis, tcp, until};

const BEAT: [u8; HEADER_BYTES] = [2, 0, 0, 0, 0];
/// Between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(50);

/// 600 ms of silence, a heartbeat every 50 ms.
fn lively() -> ChannelOptions {
    ChannelOptions {
        timeout: millis(600),
        heartbeat: HEARTBEAT,
        ..ChannelOptions::default()
    }
}

/// Two lively channels with one clock, of which the first has `options`; and the hands of the clock.
fn clocked(halves: [Halves; 2], options: ChannelOptions) -> (FramedChannel, FramedChannel, Hands) {
    let clock = ManualClock::new();
    let [near, far] = halves;
    let (a, reads) = channel(near, &clock, options);
    let (b, _) = channel(far, &clock, lively());
    (a, b, Hands { clock, reads })
}

/// Moves the clock of two sides no faster than the first hears the second.
struct Hands {
    clock: ManualClock,
    reads: Reads,
}

impl Hands {
    /// Lets time pass until the first side hears something, but less than the timeout; returns how much.
    fn beat(&self, done: impl Fn() -> bool) -> Duration {
        let (heard, mut passed) = (self.reads.bytes(), Duration::ZERO);
        let moved = || self.reads.bytes() > heard || done();
        while !moved() {
            if passed < millis(550) {
                self.clock.advance(HEARTBEAT);
                passed += HEARTBEAT;
            }
            // Whoever has begun to wait late listens late.
            let patience = if passed < millis(300) { 1 } else { 1000 };
            for _ in 0..patience {
                if !moved() {
                    thread::sleep(millis(1));
                }
            }
        }
        passed
    }

    /// Lets at least so much time pass.
    fn pass(&self, time: Duration) {
        let mut passed = Duration::ZERO;
        while passed < time {
            passed += self.beat(|| false);
        }
    }

    /// Lets time pass until this is so; returns how much.
    fn until(&self, done: impl Fn() -> bool) -> Duration {
        let mut passed = Duration::ZERO;
        while !done() {
            passed += self.beat(&done);
        }
        passed
    }
}

#[test]
fn a_peer_may_compute_for_longer_than_the_timeout() {
    for halves in [memory(), tcp()] {
        let (mut a, mut b, hands) = clocked(halves, lively());
        thread::scope(|scope| {
            let received = scope.spawn(|| a.recv(DATA, 10));
            hands.pass(millis(1500));
            b.send(DATA, vec![7; 10]).unwrap();
            b.flush().unwrap();
            assert_eq!(received.join().unwrap().unwrap(), [7; 10]);
        });
        // Nothing of it is counted.
        let bytes = (10 + HEADER_BYTES) as u64;
        assert_eq!((a.totals(), b.totals()), ((0, bytes), (bytes, 0)));
        assert_eq!(a.traffic()[0].bytes_received, bytes);
    }
}

#[test]
fn a_peer_may_compute_while_this_side_waits_for_room() {
    for halves in [memory(), tcp()] {
        let options = ChannelOptions {
            queue_bytes: MAX_FRAME,
            ..lively()
        };
        let (mut a, mut b, hands) = clocked(halves, options);
        // What the peer said before it began to compute is in front of its heartbeats.
        b.send(DATA, vec![1; 200_000]).unwrap();
        b.flush().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..16 {
                    a.send(DATA, vec![0; MAX_FRAME]).unwrap();
                }
                a.flush().unwrap();
                assert_eq!(a.recv(DATA, MAX_FRAME).unwrap(), vec![1; 200_000]);
            });
            hands.pass(millis(1500));
            for _ in 0..16 {
                assert_eq!(b.recv(DATA, MAX_FRAME).unwrap().len(), MAX_FRAME);
            }
        });
    }
}

#[test]
fn both_may_compute_with_frames_on_their_way() {
    // Neither waits for the other, so that neither may run out of patience.
    let (mut a, mut b, hands) = clocked(memory(), lively());
    a.send(DATA, vec![1; MAX_FRAME]).unwrap();
    b.send(DATA, vec![2; MAX_FRAME]).unwrap();
    hands.clock.advance(millis(1500));
    assert_eq!(a.recv(DATA, MAX_FRAME).unwrap(), vec![2; MAX_FRAME]);
    assert_eq!(b.recv(DATA, MAX_FRAME).unwrap(), vec![1; MAX_FRAME]);
}

/// Receives, or sends until there is no more room.
fn wait_in_vain(channel: &mut FramedChannel, send: bool) -> Error {
    loop {
        let outcome = match send {
            true => channel.send(DATA, vec![0; MAX_FRAME]),
            false => channel.recv(DATA, 1).map(drop),
        };
        if let Err(error) = outcome {
            return error;
        }
    }
}

#[test]
fn a_silent_peer_meets_the_timeout_in_receiving_and_in_sending() {
    for send in [false, true] {
        // Its kernel takes bytes for it, as that of a stopped process does.
        let [near, _stopped] = tcp();
        let clock = ManualClock::new();
        let (mut a, reads) = channel(near, &clock, lively());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait_in_vain(&mut a, send));
            if !send {
                until(|| reads.calls() > 0);
                clock.advance(millis(599));
                let calls = reads.calls();
                until(|| reads.calls() > calls + 2);
                assert!(!waiting.is_finished());
            }
            while !waiting.is_finished() {
                clock.advance(HEARTBEAT);
                thread::sleep(millis(1));
            }
            let error = waiting.join().unwrap();
            assert!(
                matches!(error, Error::TimedOut(after) if after == millis(600)),
                "{error:?}"
            );
        });
    }
}

#[test]
fn a_peer_that_only_says_that_it_is_alive_meets_the_overall_deadline() {
    for send in [false, true] {
        let options = ChannelOptions {
            patience: millis(1200),
            ..lively()
        };
        let (mut a, _b, hands) = clocked(memory(), options);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| wait_in_vain(&mut a, send));
            let passed = hands.until(|| waiting.is_finished());
            let error = waiting.join().unwrap();
            assert!(
                matches!(error, Error::Stalled(after) if after == millis(1200)),
                "{error:?}"
            );
            assert!(passed >= millis(1200), "{passed:?}");
        });
    }
}

#[test]
fn real_frames_move_the_overall_deadline() {
    let options = ChannelOptions {
        patience: millis(1200),
        ..lively()
    };
    let (mut a, mut b, hands) = clocked(memory(), options);
    let received = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..4 {
                assert_eq!(a.recv(DATA, 1).unwrap(), [3]);
                received.fetch_add(1, Ordering::SeqCst);
            }
        });
        for frame in 1..=4 {
            hands.pass(millis(600));
            b.send(DATA, vec![3]).unwrap();
            b.flush().unwrap();
            until(|| received.load(Ordering::SeqCst) == frame);
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
    let (mut a, mut b, hands) = clocked(memory(), options);
    for _ in 0..3 {
        a.send(DATA, vec![7; 64 << 10]).unwrap();
    }
    a.flush().unwrap();
    thread::scope(|scope| {
        let answer = scope.spawn(|| (a.recv(DATA, 1), a.recv(DATA, 1)));
        for _ in 0..3 {
            hands.pass(millis(500));
            b.recv(DATA, MAX_FRAME).unwrap();
        }
        b.send(DATA, vec![3]).unwrap();
        b.flush().unwrap();
        hands.until(|| answer.is_finished());
        let (answer, after) = answer.join().unwrap();
        assert_eq!(answer.unwrap(), [3]);
        let error = after.unwrap_err();
        assert!(
            matches!(error, Error::Stalled(after) if after == millis(800)),
            "{error:?}"
        );
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
    /// How often it was asked to take something.
    asked: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
}

impl WriteHalf for Recorder {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.asked.fetch_add(1, Ordering::SeqCst);
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

/// A channel that writes to a [`Recorder`].
struct Recorded {
    channel: FramedChannel,
    clock: ManualClock,
    bytes: Arc<Mutex<VecDeque<u8>>>,
    asked: Arc<AtomicUsize>,
    gone: Arc<AtomicBool>,
}

impl Recorded {
    fn new(most: usize, options: ChannelOptions) -> Recorded {
        let (bytes, asked, gone) = (Arc::default(), Arc::default(), Arc::default());
        let recorder = Recorder {
            bytes: Arc::clone(&bytes),
            most,
            asked: Arc::clone(&asked),
            gone: Arc::clone(&gone),
        };
        let clock = ManualClock::new();
        let (channel, _) = channel((Box::new(Mute), Box::new(recorder)), &clock, options);
        Recorded {
            channel,
            clock,
            bytes,
            asked,
            gone,
        }
    }

    fn len(&self) -> usize {
        self.bytes.lock().unwrap().len()
    }
}

#[test]
fn heartbeats_stand_between_frames_whatever_the_link_takes() {
    for (most, link) in [
        (3, Link::LAN),
        (1000, Link::LAN),
        (1000, Link::new(Some(80_000_000), millis(2))),
    ] {
        let options = ChannelOptions { link, ..lively() };
        let mut recorded = Recorded::new(most, options);
        let sizes = [0, 1, 17_000, 5, 40_000, 3];
        let frames: usize = sizes.iter().map(|size| HEADER_BYTES + size).sum();
        for round in 0..8u8 {
            let before = recorded.len();
            for size in sizes {
                recorded.channel.send(DATA, vec![round; size]).unwrap();
            }
            // All that is sent, and one heartbeat at least.
            until(|| {
                recorded.clock.advance(HEARTBEAT);
                recorded.len() >= before + frames + BEAT.len()
            });
        }
        let Recorded { channel, bytes, .. } = recorded;
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
        let recorded = Recorded::new(1000, lively());
        recorded.clock.advance(HEARTBEAT);
        until(|| recorded.len() == BEAT.len());
        assert!(!recorded.gone.load(Ordering::SeqCst));
        let Recorded {
            mut channel,
            clock,
            bytes,
            gone,
            ..
        } = recorded;
        match abort {
            true => channel.abort(&Error::Interrupted),
            false => drop(channel),
        }
        // The thread owned the half.
        assert!(gone.load(Ordering::SeqCst));
        let after = bytes.lock().unwrap().len();
        clock.advance(10 * HEARTBEAT);
        thread::sleep(millis(50));
        assert_eq!(bytes.lock().unwrap().len(), after);
    }
}

#[test]
fn a_heartbeat_that_finds_no_room_holds_nobody_up() {
    let mut recorded = Recorded::new(0, lively());
    for beats in 1..=3 {
        recorded.clock.advance(HEARTBEAT);
        until(|| recorded.asked.load(Ordering::SeqCst) == beats);
        // It is not tried again.
        thread::sleep(millis(50));
        assert_eq!(recorded.asked.load(Ordering::SeqCst), beats);
        recorded.channel.flush().unwrap();
    }
}

#[test]
fn the_last_message_is_not_lost_under_unread_heartbeats() {
    let options = ChannelOptions {
        heartbeat: millis(1),
        ..lively()
    };
    for _ in 0..20 {
        let [mut a, mut b] =
            tcp().map(|(reader, writer)| FramedChannel::new(reader, writer, options.clone()));
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
