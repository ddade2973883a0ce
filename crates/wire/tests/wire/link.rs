//! Emulated links, by a clock of the test.

use std::thread;
use std::time::Duration;

use vesica_wire::{
    Channel, ChannelOptions, FramedChannel, HEADER_BYTES, Interrupt, Link, MAX_FRAME, ManualClock,
    NamedLink,
};

use crate::common::{DATA, Reads, channel, memory, millis, until};

/// A sender behind this link, its receiver and what that reads, and the clock of both.
fn shaped(
    link: Link,
    options: ChannelOptions,
) -> (FramedChannel, FramedChannel, Reads, ManualClock) {
    let clock = ManualClock::new();
    let [near, far] = memory();
    let slow = ChannelOptions {
        link,
        ..options.clone()
    };
    let (a, _) = channel(near, &clock, slow);
    let (b, reads) = channel(far, &clock, options);
    (a, b, reads, clock)
}

/// A timeout in milliseconds, and no heartbeat within any test.
fn quick(timeout: u64) -> ChannelOptions {
    ChannelOptions {
        timeout: millis(timeout),
        heartbeat: Duration::from_secs(3600),
        ..ChannelOptions::default()
    }
}

#[test]
fn a_link_has_a_bandwidth() {
    // 8 Mbit/s: a frame of 1,000 bytes every millisecond.
    let (mut a, mut b, reads, clock) =
        shaped(Link::new(Some(8_000_000), Duration::ZERO), quick(60_000));
    for _ in 0..200 {
        a.send(DATA, vec![0; 1000 - HEADER_BYTES]).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..200 {
                b.recv(DATA, 1000).unwrap();
            }
        });
        for sent in [50, 199, 200] {
            clock.advance(millis(sent) - millis(reads.bytes() as u64 / 1000));
            until(|| reads.bytes() == sent as usize * 1000);
            thread::sleep(millis(50));
            assert_eq!(reads.bytes(), sent as usize * 1000);
        }
    });
}

#[test]
fn the_latency_of_a_link_is_paid_once() {
    // 100 ms there and back: 50 frames at once come after half of that.
    let (mut a, mut b, reads, clock) = shaped(Link::new(None, millis(100)), quick(60_000));
    for _ in 0..50 {
        a.send(DATA, vec![0; 10]).unwrap();
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..50 {
                b.recv(DATA, 10).unwrap();
            }
        });
        clock.advance(millis(49));
        thread::sleep(millis(50));
        assert_eq!(reads.bytes(), 0);
        clock.advance(millis(1));
    });
}

#[test]
fn a_slow_transfer_outlives_the_timeout() {
    // 1 MiB at 8 Mbit/s takes a second, twice the timeout, yet bytes keep moving.
    let (mut a, mut b, reads, clock) =
        shaped(Link::new(Some(8_000_000), Duration::ZERO), quick(500));
    a.send(DATA, vec![0; MAX_FRAME]).unwrap();
    thread::scope(|scope| {
        let received = scope.spawn(|| b.recv(DATA, MAX_FRAME));
        let mut heard = 0;
        while heard < MAX_FRAME + HEADER_BYTES {
            // A piece of 20 ms at most.
            clock.advance(millis(25));
            until(|| reads.bytes() > heard || received.is_finished());
            heard = reads.bytes();
        }
        assert_eq!(received.join().unwrap().unwrap().len(), MAX_FRAME);
    });
}

/// Ends every wait if the test fails, which would otherwise wait for its threads.
struct Release(Interrupt);

impl Drop for Release {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.raise();
        }
    }
}

#[test]
fn a_window_fills() {
    // 4,000 bytes may be on their way for 50 ms, whatever the bandwidth: 80 kB per second.
    let options = ChannelOptions {
        queue_bytes: 4000,
        ..quick(60_000)
    };
    let release = Release(options.interrupt.clone());
    let link = Link::new(Some(8_000_000_000), millis(100));
    let (mut a, mut b, reads, clock) = shaped(link, options);
    thread::scope(|scope| {
        let _release = release;
        scope.spawn(|| {
            for _ in 0..12 {
                a.send(DATA, vec![0; 1000 - HEADER_BYTES]).unwrap();
            }
            a.flush().unwrap();
        });
        scope.spawn(|| {
            for _ in 0..12 {
                b.recv(DATA, 1000).unwrap();
            }
        });
        for windows in 1..=3 {
            thread::sleep(millis(50));
            clock.advance(millis(49));
            thread::sleep(millis(50));
            assert_eq!(reads.bytes(), 4000 * (windows - 1));
            // With the microsecond per frame that the bandwidth takes.
            clock.advance(Duration::from_micros(1004));
            until(|| reads.bytes() == 4000 * windows);
        }
    });
}

#[test]
fn a_round_trip_counts_as_often_as_there_are_rounds() {
    // 1,000 bytes take 1 ms to leave and 10 ms to arrive, in either direction.
    let options = ChannelOptions {
        link: Link::new(Some(8_000_000), millis(20)),
        ..quick(60_000)
    };
    let release = Release(options.interrupt.clone());
    let clock = ManualClock::new();
    let [near, far] = memory();
    let (mut a, answers) = channel(near, &clock, options.clone());
    let (mut b, questions) = channel(far, &clock, options);
    let message = || vec![0; 1000 - HEADER_BYTES];
    thread::scope(|scope| {
        let _release = release;
        scope.spawn(|| {
            for _ in 0..3 {
                a.send(DATA, message()).unwrap();
                a.recv(DATA, 1000).unwrap();
            }
        });
        scope.spawn(|| {
            for _ in 0..3 {
                b.recv(DATA, 1000).unwrap();
                b.send(DATA, message()).unwrap();
            }
            b.flush().unwrap();
        });
        for round in 1..=3 {
            for reads in [&questions, &answers] {
                thread::sleep(millis(50));
                clock.advance(millis(10));
                thread::sleep(millis(50));
                assert!(reads.bytes() < 1000 * round);
                clock.advance(millis(1));
                until(|| reads.bytes() == 1000 * round);
            }
        }
    });
}

#[test]
fn links_have_names() {
    assert_eq!(Link::from_name("lan"), Some(Link::LAN));
    assert_eq!(
        Link::from_name("50mbps-80ms"),
        Some(Link::new(Some(50_000_000), millis(80)))
    );
    assert_eq!(Link::from_name("1mbps"), None);
    assert!(!Link::LAN.is_shaped() && Link::new(None, millis(1)).is_shaped());
    for NamedLink { name, link, .. } in Link::NAMED {
        assert_eq!(Link::from_name(name), Some(link));
        assert_eq!(link.to_string(), name);
    }
    let text = Link::new(None, Duration::from_micros(1250)).to_string();
    assert_eq!(text, "lan-1.25ms");
    assert_eq!(
        Link::new(Some(56_700), Duration::ZERO).to_string(),
        "56700bps"
    );
    let link = Link::new(Some(1_000_000), millis(80));
    assert_eq!(link.transmission_time(125_000), Duration::from_secs(1));
}
