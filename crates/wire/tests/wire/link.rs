//! Emulated links: lower bounds, since a busy machine only ever adds time.

use std::time::{Duration, Instant};

use vesica_wire::{Channel, ChannelOptions, HEADER_BYTES, Kind, Link, MAX_FRAME, memory_pair_with};

const DATA: Kind = Kind {
    code: 40,
    name: "data",
};

fn quick(timeout_ms: u64) -> ChannelOptions {
    ChannelOptions {
        timeout: Duration::from_millis(timeout_ms),
        heartbeat: Duration::from_secs(3600),
        ..ChannelOptions::default()
    }
}

#[test]
fn a_shaped_link_is_slow_but_pipelined() {
    let shaped = |bits, rtt_ms| ChannelOptions {
        link: Link::new(bits, rtt_ms),
        ..ChannelOptions::default()
    };
    // 8 Mbit/s: 200 frames of 1,000 bytes take 0.2 s.
    let (mut a, mut b) = memory_pair_with(shaped(Some(8_000_000), 0), ChannelOptions::default());
    let start = Instant::now();
    for _ in 0..200 {
        a.send(DATA, vec![0; 1000 - HEADER_BYTES]).unwrap();
    }
    for _ in 0..200 {
        b.recv(DATA, 1000).unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(199));
    // 100 ms there and back: 50 frames at once cost half of that once, not 50 times.
    let (mut a, mut b) = memory_pair_with(shaped(None, 100), ChannelOptions::default());
    let start = Instant::now();
    for _ in 0..50 {
        a.send(DATA, vec![0; 10]).unwrap();
    }
    for _ in 0..50 {
        b.recv(DATA, 10).unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(50));
    assert!(start.elapsed() < Duration::from_millis(1500));
}

#[test]
fn a_slow_transfer_outlives_the_timeout() {
    // 1 MiB at 8 Mbit/s takes a second, twice the timeout, yet bytes keep moving.
    let slow = ChannelOptions {
        link: Link::new(Some(8_000_000), 0),
        ..quick(500)
    };
    let (mut a, mut b) = memory_pair_with(slow, quick(500));
    a.send(DATA, vec![0; MAX_FRAME]).unwrap();
    assert_eq!(b.recv(DATA, MAX_FRAME).unwrap().len(), MAX_FRAME);
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
