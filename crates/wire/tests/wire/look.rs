//! Looking at a peer before its next frame is due.

use std::thread;
use std::time::Instant;

use vesica_wire::{
    Blame, Channel, ChannelOptions, Error, FramedChannel, Kind, MAX_FRAME, ManualClock,
    Misbehaviour, memory_pair_with,
};

use crate::common::{DATA, channel, memory, millis, tcp};

const MAX: usize = 1000;

/// A silence of a minute ends a wait, and a heartbeat comes every ten milliseconds.
fn lively() -> ChannelOptions {
    ChannelOptions {
        timeout: millis(60_000),
        heartbeat: millis(10),
        ..ChannelOptions::default()
    }
}

/// Looks until there is something to receive or the channel has ended.
fn look(channel: &mut FramedChannel) -> Result<(), Error> {
    let begun = Instant::now();
    while !channel.hears_within(millis(0)) {
        channel.look(MAX, millis(20))?;
        assert!(begun.elapsed() < millis(20_000), "nothing to receive");
    }
    channel.look(MAX, millis(20))
}

#[test]
fn a_frame_that_comes_early_is_kept_and_signs_of_life_are_taken() {
    for halves in [memory(), tcp()] {
        let [mut near, mut far] =
            halves.map(|(reader, writer)| FramedChannel::new(reader, writer, lively()));
        near.look(MAX, millis(50)).unwrap();
        assert!(!near.hears_within(millis(50)));
        far.send(DATA, vec![7; MAX]).unwrap();
        look(&mut near).unwrap();
        // Heartbeats go on behind it, and are no frames.
        for _ in 0..5 {
            near.look(MAX, millis(20)).unwrap();
        }
        let before = near.totals();
        assert_eq!(near.recv(DATA, MAX).unwrap(), vec![7; MAX]);
        assert_eq!(near.totals().1 - before.1, MAX as u64 + 5);
        assert!(!near.hears_within(millis(50)));
        // What comes next is received as ever.
        far.send(DATA, vec![8]).unwrap();
        assert_eq!(near.recv(DATA, 1).unwrap(), [8]);
        // The one that spoke last waits for the other one.
        drop(near);
    }
}

#[test]
fn what_is_not_kept_waits_for_its_receiver() {
    let (mut near, mut far) = memory_pair_with(lively(), lively());
    let frames = [vec![1; 3], vec![2; MAX + 1], vec![3; MAX_FRAME]];
    thread::scope(|scope| {
        scope.spawn(|| {
            for frame in &frames {
                far.send(DATA, frame.clone()).unwrap();
            }
            far.flush().unwrap();
        });
        look(&mut near).unwrap();
        // However often: it takes no more than it has room for.
        for _ in 0..50 {
            near.look(MAX, millis(1)).unwrap();
        }
        for frame in &frames {
            assert_eq!(&near.recv(DATA, MAX_FRAME).unwrap(), frame);
        }
    });
}

#[test]
fn a_kept_frame_is_judged_by_its_receiver() {
    let other = Kind {
        code: 41,
        name: "other",
    };
    let (mut near, mut far) = memory_pair_with(lively(), lively());
    far.send(other, vec![1]).unwrap();
    look(&mut near).unwrap();
    let unexpected = |error| {
        matches!(
            error,
            Error::PeerMisbehaved(Misbehaviour::UnexpectedFrame { got: 41, .. })
        )
    };
    assert!(unexpected(near.recv(DATA, 1).unwrap_err()));
    assert!(unexpected(near.look(MAX, millis(0)).unwrap_err()));
}

#[test]
fn a_peer_that_leaves_is_noticed_and_what_it_said_can_be_received() {
    for says in [false, true] {
        let [mut near, mut far] =
            tcp().map(|(reader, writer)| FramedChannel::new(reader, writer, lively()));
        if says {
            far.send(DATA, vec![1]).unwrap();
        }
        let leaving = thread::spawn(move || drop(far));
        let mut left = near.look(MAX, millis(100));
        while left.is_ok() {
            left = near.look(MAX, millis(100));
        }
        assert!(matches!(left, Err(Error::Closed)));
        match says {
            true => assert_eq!(near.recv(DATA, 1).unwrap(), [1]),
            false => assert!(matches!(near.recv(DATA, 1), Err(Error::Closed))),
        }
        assert!(matches!(near.recv(DATA, 1), Err(Error::Closed)));
        drop(near);
        leaving.join().unwrap();
    }
}

#[test]
fn a_peer_that_gives_up_says_why() {
    let (mut near, mut far) = memory_pair_with(lively(), lively());
    far.send(DATA, vec![1]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| far.abort(&Error::Interrupted));
        let mut left = near.look(MAX, millis(20));
        while left.is_ok() {
            left = near.look(MAX, millis(20));
        }
        let told = matches!(&left, Err(Error::PeerAborted { blame: Blame::Network, reason }) if reason == "interrupted by the user");
        assert!(told, "{left:?}");
        drop(near);
    });
}

/// By the hands of a clock: silence counts over looks that follow each other, and a heartbeat ends it.
#[test]
fn a_peer_that_falls_silent_is_given_up() {
    let options = ChannelOptions {
        timeout: millis(1500),
        heartbeat: millis(3_600_000),
        ..ChannelOptions::default()
    };
    let clock = ManualClock::new();
    let [near, (_reader, mut far)] = memory();
    let (mut near, _) = channel(near, &clock, options);
    near.look(MAX, millis(0)).unwrap();
    for _ in 0..4 {
        clock.advance(millis(900));
        near.look(MAX, millis(0)).unwrap();
        // A heartbeat.
        far.write(&[2, 0, 0, 0, 0]).unwrap();
        near.look(MAX, millis(0)).unwrap();
    }
    clock.advance(millis(900));
    near.look(MAX, millis(0)).unwrap();
    clock.advance(millis(900));
    assert!(matches!(near.look(MAX, millis(0)), Err(Error::TimedOut(_))));
    assert!(matches!(near.recv(DATA, 1), Err(Error::TimedOut(_))));
}
