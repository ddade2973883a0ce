//! Each way of spoiling a frame, as the peer sees it.

use std::time::Duration;

use vesica_wire::{
    Channel, ChannelOptions, Error, FramedChannel, Kind, Misbehaviour, Spoil, Tamper,
    memory_pair_with,
};

const DATA: Kind = Kind {
    code: 40,
    name: "data",
};

/// Sends three frames, the second one spoilt, and returns what the peer reads.
fn run(spoil: Spoil) -> (bool, Vec<Result<Vec<u8>, Error>>) {
    let options = ChannelOptions {
        timeout: Duration::from_millis(250),
        heartbeat: Duration::from_secs(3600),
        ..ChannelOptions::default()
    };
    let (near, mut far) = memory_pair_with(options.clone(), options);
    let mut near: Tamper<FramedChannel> = Tamper::new(near, 1, spoil);
    let mut sent = Ok(());
    for payload in [vec![1, 2], vec![3, 4], vec![5, 6]] {
        sent = sent.and_then(|()| near.send(DATA, payload));
    }
    let got = (0..3).map(|_| far.recv(DATA, 4)).collect();
    (near.struck(), got)
}

fn payloads(got: &[Result<Vec<u8>, Error>]) -> Vec<&[u8]> {
    got.iter().map_while(|r| r.as_deref().ok()).collect()
}

#[test]
fn each_spoil_does_what_it_says() {
    let cases: [(Spoil, [&[u8]; 3]); 7] = [
        (Spoil::FlipBit(9), [&[1, 2], &[3, 6], &[5, 6]]),
        (Spoil::FlipBit(16), [&[1, 2], &[2, 4], &[5, 6]]),
        (Spoil::Truncate(1), [&[1, 2], &[3], &[5, 6]]),
        (Spoil::Truncate(9), [&[1, 2], &[], &[5, 6]]),
        (Spoil::Extend(vec![9]), [&[1, 2], &[3, 4, 9], &[5, 6]]),
        (Spoil::Replace(vec![8]), [&[1, 2], &[8], &[5, 6]]),
        (Spoil::ReplayPrevious, [&[1, 2], &[1, 2], &[5, 6]]),
    ];
    for (spoil, expected) in cases {
        let (struck, got) = run(spoil.clone());
        assert!(struck, "{spoil:?}");
        assert_eq!(payloads(&got), expected, "{spoil:?}");
    }
    assert_eq!(payloads(&run(Spoil::Duplicate).1), [[1, 2], [3, 4], [3, 4]]);
    let (struck, got) = run(Spoil::SwapWithNext);
    assert!(struck);
    assert_eq!(payloads(&got), [[1, 2], [5, 6], [3, 4]]);
}

#[test]
fn a_delayed_frame_comes_later_and_a_stalled_connection_says_nothing_more() {
    let start = std::time::Instant::now();
    let (struck, got) = run(Spoil::Delay(Duration::from_millis(100)));
    assert!(struck && start.elapsed() >= Duration::from_millis(100));
    assert_eq!(payloads(&got), [[1, 2], [3, 4], [5, 6]]);
    let (struck, got) = run(Spoil::Stall);
    assert!(struck);
    assert_eq!(payloads(&got), [[1, 2]]);
    assert!(matches!(got[1], Err(Error::TimedOut(_))));
}

#[test]
fn a_swallowed_frame_leaves_the_peer_waiting() {
    let (struck, got) = run(Spoil::Swallow);
    assert!(struck);
    assert_eq!(payloads(&got), [[1, 2], [5, 6]]);
    assert!(matches!(got[2], Err(Error::TimedOut(_))));
}

#[test]
fn a_closed_connection_is_closed() {
    let (struck, got) = run(Spoil::Close);
    assert!(struck);
    assert_eq!(payloads(&got), [[1, 2]]);
    assert!(matches!(got[1], Err(Error::Closed)));
}

#[test]
fn another_kind_is_refused() {
    let (struck, got) = run(Spoil::Kind(99));
    assert!(struck);
    assert!(matches!(
        got[1],
        Err(Error::PeerMisbehaved(Misbehaviour::UnexpectedFrame {
            got: 99,
            ..
        }))
    ));
}

#[test]
fn a_flip_in_an_empty_payload_is_not_counted() {
    let (near, _far) = memory_pair_with(ChannelOptions::default(), ChannelOptions::default());
    let mut near = Tamper::new(near, 0, Spoil::FlipBit(3));
    near.send(DATA, vec![]).unwrap();
    assert!(!near.struck());
    assert_eq!(near.frames(), 1);
}
