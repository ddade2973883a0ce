//! What runs of the circuits hash, counted on the wire, against the bounds of `vesica_plan::pads`.

use vesica_circuit::messages::{CHOICES, FACTORS, GATES, ROWS, SETTINGS, TABLES};
use vesica_plan::{Registry, pads};
use vesica_psi::{
    Half, Input, KeyAgreement, Optimize, Params, Prepared, Reveal, Reveals, Security, Task, Values,
};
use vesica_testing::{Recorder, digests, rng, run_both};
use vesica_wire::{Kind, memory_pair};

/// Runs a circuit; compares the bits on the wire that stand for a pad each with the bounds.
#[track_caller]
fn check(name: &str, reveal: &str, values: [u8; 2], items: usize, lambda: u32) {
    for (optimize, tables) in [
        (Optimize::Time, "digit tables in circuits"),
        (Optimize::Traffic, "narrow digit tables in circuits"),
    ] {
        check_way(name, reveal, values, items, lambda, (optimize, tables));
    }
}

/// The same for what long runs save, whose tables of digits have this name.
#[track_caller]
fn check_way(
    name: &str,
    reveal: &str,
    [receiver, sender]: [u8; 2],
    items: usize,
    lambda: u32,
    (optimize, of_tables): (Optimize, &str),
) {
    let reveal: Reveals = reveal.parse().unwrap();
    let values = Values { receiver, sender };
    let protocol = Registry::standard().get(name).unwrap();
    let params = &Params {
        security: Security::SemiHonest,
        lambda,
        receiver_size: items,
        sender_size: items,
        key_agreement: KeyAgreement::default(),
        session: [7; 32],
    };
    let task = &Task {
        min_size: u64::from(reveal != Reveal::Shares),
        values,
        optimize,
        ..Task::new(reveal)
    };
    let all = digests(0..items as u64);
    let own = vec![3; 8 * items];
    let of = |columns: u8| {
        let values = &own[..usize::from(columns) * items];
        Input::with_values(&all, (columns > 0).then_some(values))
    };
    let (ours, theirs) = (of(receiver), of(sender));
    let (near, far) = memory_pair();
    let [mut near, mut far] = [near, far].map(Recorder::new);
    let (received, sent) = run_both(
        (&mut near, &mut far),
        |channel| {
            let (rng, nothing) = (&mut rng(1), Prepared::nothing());
            let output = protocol.receive(channel, params, task, ours, nothing, rng)?;
            protocol.open_whole(channel, Half::Receiver, params, task, output, rng)
        },
        |channel| {
            let (rng, nothing) = (&mut rng(2), Prepared::nothing());
            let output = protocol.send(channel, params, task, theirs, nothing, rng)?;
            protocol.open_whole(channel, Half::Sender, params, task, output, rng)
        },
    );
    received.unwrap();
    sent.unwrap();
    let bits = |frames: &[(Kind, Vec<u8>)], kinds: &[Kind]| -> u64 {
        let frames = frames.iter().filter(|(kind, _)| kinds.contains(kind));
        frames.map(|(_, payload)| 8 * payload.len() as u64).sum()
    };
    let known = |masked: &str| {
        let uses = pads::uses(params, Some(32)).unwrap();
        let found = uses.iter().find(|used| used.masked == masked);
        found.unwrap().known
    };
    let values = known("values and strings in circuits");
    for (direction, frames) in [("main", &far.sent), ("reverse", &near.sent)] {
        let counted = bits(frames, &[CHOICES, FACTORS]);
        assert!(counted <= values, "{direction}: {counted} of {values}");
    }
    assert!(bits(&far.sent, &[CHOICES, FACTORS]) > 0 || reveal == Reveal::Shares);
    let (tables, gates) = (bits(&near.sent, &[TABLES]), bits(&near.sent, &[GATES]));
    assert!(0 < tables && tables <= known(of_tables));
    // A threshold of one is compared wherever a number is revealed.
    assert!(gates > 0 || reveal == Reveal::Shares);
    assert!(gates <= known("triples in circuits"));
}

#[test]
fn circuits_hash_no_more_than_is_said() {
    for name in ["circuit-okvs", "circuit-rb-psm1", "circuit-rb-psm2"] {
        for (reveal, values) in [
            ("size", [0, 0]),
            ("sum", [1, 0]),
            ("sum", [0, 1]),
            ("inner-product", [1, 1]),
            ("threshold-matches", [0, 0]),
            ("shares", [1, 1]),
            ("size,sum", [8, 0]),
            ("size,sum", [0, 8]),
        ] {
            for items in [1, 40] {
                check(name, reveal, values, items, 40);
            }
        }
    }
}

/// In a union the sender is the value end of the main direction, and so it is where ids are handed over.
#[test]
fn unions_hash_no_more_than_is_said() {
    for (name, [ours, theirs], reveal) in [
        ("circuit-okvs", [40, 40], Reveal::Union),
        ("circuit-okvs", [1, 60], Reveal::Union),
        ("circuit-rb-psm1", [50, 40], Reveal::Union),
        ("circuit-rb-psm2", [40, 1], Reveal::Union),
        ("circuit-okvs", [40, 50], Reveal::Ids),
    ] {
        let protocol = Registry::standard().get(name).unwrap();
        let params = &Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: ours,
            sender_size: theirs,
            key_agreement: KeyAgreement::default(),
            session: [7; 32],
        };
        let task = &Task {
            label_bytes: if reveal == Reveal::Union { 30 } else { 0 },
            ..Task::new(reveal)
        };
        let [ours, all] = [ours, theirs].map(|items| digests(0..items as u64));
        let labels = vec![3; 30 * theirs];
        let (near, far) = memory_pair();
        let [mut near, mut far] = [near, far].map(Recorder::new);
        let (received, sent) = run_both(
            (&mut near, &mut far),
            |channel| {
                let (input, nothing) = (Input::new(&ours), Prepared::nothing());
                protocol.receive(channel, params, task, input, nothing, &mut rng(1))
            },
            |channel| {
                let input = Input::new(&all).with_labels(Some(&labels));
                protocol.send(
                    channel,
                    params,
                    task,
                    input,
                    Prepared::nothing(),
                    &mut rng(2),
                )
            },
        );
        received.unwrap();
        sent.unwrap();
        let bits = |frames: &[(Kind, Vec<u8>)], kind: Kind| -> u64 {
            let frames = frames.iter().filter(|(of, _)| *of == kind);
            frames.map(|(_, payload)| 8 * payload.len() as u64).sum()
        };
        let uses = pads::uses(params, Some(32)).unwrap();
        let known = |masked: &str| {
            uses.iter()
                .find(|used| used.masked == masked)
                .unwrap()
                .known
        };
        let switches = bits(&far.sent, SETTINGS);
        assert!(
            switches <= known("switches in circuits").next_multiple_of(8),
            "{name}"
        );
        let blocks = bits(&far.sent, ROWS).div_ceil(128);
        assert!(0 < blocks && blocks <= known("rows in circuits"), "{name}");
    }
}

/// At a λ that inner products of more entries do not reach by homomorphic encryption, so that they take COTs.
#[test]
fn long_products_of_cots_are_counted() {
    check("circuit-rb-psm1", "inner-product", [1, 1], 1100, 60);
}
