//! Every protocol that hands over labels, and senders that cheat with them.

use std::time::Duration;

use vesica_plan::Registry;
use vesica_psi::{Input, Item, KeyAgreement, Output, Params, Prepared, Protocol, Reveal, Task};
use vesica_testing::{digests, pair_within, rng, try_both};
use vesica_wire::{Channel, Error, Spoil, Tamper, memory_pair};

const BYTES: usize = 20;

fn able() -> impl Iterator<Item = &'static dyn Protocol> {
    let all = Registry::standard().revealing(Reveal::Matches);
    all.filter(|protocol| protocol.labels_per_item().is_some())
}

fn label(item: &Item) -> [u8; BYTES] {
    std::array::from_fn(|i| item[i].wrapping_mul(3) | 1)
}

fn run_over(
    protocol: &dyn Protocol,
    both: bool,
    [ours, theirs]: [&[Item]; 2],
    receiving: impl Channel,
    sending: impl Channel,
) -> (Result<Output, Error>, Result<Output, Error>) {
    let params = &Params {
        security: protocol.spec().security,
        lambda: 40,
        receiver_size: ours.len(),
        sender_size: theirs.len(),
        key_agreement: KeyAgreement::default(),
        session: [5; 32],
    };
    let task = &Task {
        both,
        label_bytes: BYTES,
        ..Task::new(Reveal::Matches)
    };
    let labels: Vec<u8> = theirs.iter().flat_map(label).collect();
    try_both(
        (receiving, sending),
        |channel| {
            let mut rng = rng(2);
            let prepared = protocol.prepare(ours.len(), &mut rng);
            protocol.receive(channel, params, task, Input::new(ours), prepared, &mut rng)
        },
        |channel| {
            let input = Input::new(theirs).with_labels(Some(&labels));
            protocol.send(
                channel,
                params,
                task,
                input,
                Prepared::nothing(),
                &mut rng(1),
            )
        },
    )
}

/// The items that match, and their labels.
fn learnt(output: Output, ours: &[Item]) -> Vec<(Item, Vec<u8>)> {
    let Output::Labelled {
        matched,
        labels,
        bytes,
    } = output
    else {
        panic!("{output:?}")
    };
    assert_eq!((matched.len(), bytes), (ours.len(), BYTES));
    let all = ours.iter().zip(labels.chunks(BYTES)).zip(matched);
    let mut found = Vec::new();
    for ((item, label), matched) in all {
        match matched {
            true => found.push((*item, label.to_vec())),
            false => assert!(label.iter().all(|byte| *byte == 0)),
        }
    }
    found
}

#[test]
fn every_label_of_a_match_arrives_and_no_other() {
    let mut protocols = 0;
    for protocol in able() {
        protocols += 1;
        for (n, m, shared) in [
            (0, 5, 0),
            (5, 0, 0),
            (1, 1, 1),
            (1, 90, 1),
            (90, 1, 1),
            (700, 500, 277),
        ] {
            for both in [false, true] {
                let ours = digests(0..n);
                let theirs = digests(n - shared..n - shared + m);
                let (a, b) = memory_pair();
                let (received, sent) = run_over(protocol, both, [&ours, &theirs], a, b);
                let common = &theirs[..shared as usize];
                let expected: Vec<_> = common.iter().map(|i| (*i, label(i).to_vec())).collect();
                let name = protocol.spec().name;
                assert_eq!(learnt(received.unwrap(), &ours), expected, "{name} {n} {m}");
                match sent.unwrap() {
                    Output::Matches(told) => {
                        assert!(both);
                        let told: usize = told.iter().map(|told| usize::from(*told)).sum();
                        assert_eq!(told as u64, shared);
                    }
                    output => assert!(!both && output == Output::Nothing),
                }
            }
        }
    }
    assert!(protocols >= 8);
}

/// Frames of the sender that are changed or cut end the run with an error, or change what only the sender chooses.
#[test]
fn spoilt_frames_are_judged() {
    let (ours, theirs) = (&digests(0..60), &digests(30..90));
    let judge = |protocol: &dyn Protocol| {
        let name = protocol.spec().name;
        let mut ended = 0;
        for frame in 0..12 {
            for spoil in [Spoil::Truncate(1), Spoil::FlipBit(9)] {
                let (a, b) = pair_within(Duration::from_millis(400));
                let b = Tamper::new(b, frame, spoil);
                match run_over(protocol, false, [ours, theirs], a, b).0 {
                    Err(_) => ended += 1,
                    Ok(output) => {
                        let found = learnt(output, ours);
                        assert!(
                            found.iter().all(|(item, _)| theirs.contains(item)),
                            "{name}"
                        );
                    }
                }
            }
        }
        assert!(ended > 0, "{name}");
    };
    std::thread::scope(|scope| {
        for protocol in able() {
            scope.spawn(move || judge(protocol));
        }
    });
}
