//! Emulated links, by a clock of the test.

use std::thread;
use std::time::Duration;

use vesica_wire::{
    Channel, ChannelOptions, FramedChannel, HEADER_BYTES, Link, MAX_FRAME, ManualClock,
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
    let (mut a, mut b, reads, clock) = shaped(Link::new(Some(8_000_000), 0), quick(60_000));
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
    let (mut a, mut b, reads, clock) = shaped(Link::new(None, 100), quick(60_000));
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
    let (mut a, mut b, reads, clock) = shaped(Link::new(Some(8_000_000), 0), quick(500));
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

#[test]
fn links_have_names() {
    assert_eq!(Link::from_name("lan"), Some(Link::LAN));
    assert_eq!(
        Link::from_name("50mbps-80ms"),
        Some(Link::new(Some(50_000_000), 80))
    );
    assert_eq!(Link::from_name("1mbps"), None);
    assert!(!Link::LAN.is_shaped() && Link::new(None, 1).is_shaped());
    for (name, link) in Link::NAMED {
        assert_eq!(Link::from_name(name), Some(link));
    }
    let link = Link::new(Some(1_000_000), 80);
    assert_eq!(link.transmission_time(125_000), Duration::from_secs(1));
}
