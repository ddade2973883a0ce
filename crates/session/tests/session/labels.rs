//! Labels handed over through the whole session: in one bucket and in several, and between sides that do not fit.

use std::borrow::Cow;

use crate::common::{job, limit, silent_pair};
use vesica_session::terms::{REVEAL, SECURITY};
use vesica_session::{
    Error, ErrorClass, Job, KeyBlock, LabelExchange, LabelTerms, MemorySet, NoProgress,
    ProtocolRequest, Registry, Report, Reveal, Role, Security, run_set_over,
};
use vesica_testing::{digests, run_both};
use vesica_wire::{Error as WireError, Limit};

const BYTES: usize = 5;

fn receiver() -> Job {
    Job {
        labels: LabelExchange::Wanted {
            most_bytes: 8,
            most_rows: 1,
        },
        ..job(Role::Receiver)
    }
}

fn sender() -> Job {
    Job {
        labels: LabelExchange::Offered(LabelTerms::texts(BYTES as u32, vec!["city".into()])),
        ..job(Role::Sender)
    }
}

/// The label of the `i`-th of the sender's items.
fn label(i: usize) -> [u8; BYTES] {
    std::array::from_fn(|j| (7 * i + j) as u8 | 1)
}

fn labels(items: usize) -> Vec<u8> {
    (0..items).flat_map(label).collect()
}

/// What the receiver has learnt, item by item: `None` for one that does not match.
type Learnt = Vec<Option<Vec<u8>>>;

fn run(
    (ours, theirs): (&Job, &Job),
    own: std::ops::Range<u64>,
    other: std::ops::Range<u64>,
) -> (Result<(Learnt, Report), Error>, Result<Report, Error>) {
    let (own, other) = (digests(own), digests(other));
    let labels = labels(other.len());
    run_both(
        silent_pair(5000),
        |channel| {
            let mut set = MemorySet::new(&own)?;
            let report = run_set_over(channel, None, None, ours, &mut set, &mut NoProgress)?;
            let matched = set.matched().unwrap();
            let labels = set.handed_over().unwrap();
            let learnt = matched.iter().zip(labels.chunks(BYTES));
            let learnt = learnt.map(|(matched, label)| match matched {
                true => Some(label.to_vec()),
                false => {
                    assert!(label.iter().all(|byte| *byte == 0));
                    None
                }
            });
            Ok((learnt.collect(), report))
        },
        |channel| {
            let mut keys = KeyBlock::from(&other);
            keys.labels = (!theirs.labels.is_nothing()).then(|| Cow::from(&labels));
            let mut set = MemorySet::new(keys)?;
            run_set_over(channel, None, None, theirs, &mut set, &mut NoProgress)
        },
    )
}

fn expected() -> Learnt {
    let one = |i: u64| (i >= 1400).then(|| label(i as usize - 1400).to_vec());
    (0..1500).map(one).collect()
}

#[test]
fn every_protocol_hands_over_in_one_bucket_and_in_several() {
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        if protocol.labels_per_item().is_none() {
            continue;
        }
        let spec = protocol.spec();
        let with = |job: Job, memory| {
            Job {
                protocol: ProtocolRequest::named(spec.name),
                memory,
                ..job
            }
            .with(&SECURITY, spec.security)
        };
        let copies = protocol.labels_per_item().unwrap();
        let whole = (spec.working_bytes)(1500, 1400) + 1500 * (5 + 40 * copies);
        for memory in [None, Some(whole * 4 / 5)] {
            let (ours, theirs) = (with(receiver(), memory), with(sender(), memory));
            let (learnt, sent) = run((&ours, &theirs), 0..1500, 1400..2800);
            let (learnt, report) = learnt.unwrap();
            assert_eq!(learnt, expected(), "{} {memory:?}", spec.name);
            assert_eq!(
                report.contract.buckets > 1,
                memory.is_some(),
                "{}",
                spec.name
            );
            assert_eq!(report.contract, sent.unwrap().contract);
            let terms = report.contract.labels.unwrap();
            assert_eq!((terms.bytes, &*terms.columns[0]), (5, "city"));
        }
    }
}

#[test]
fn sets_without_items_have_nothing_to_hand_over() {
    for (own, other) in [(0..0, 5..9), (0..9, 5..5), (0..0, 0..0)] {
        let (learnt, sent) = run((&receiver(), &sender()), own.clone(), other);
        assert_eq!(learnt.unwrap().0, vec![None; own.count()]);
        sent.unwrap();
    }
}

#[test]
fn labels_count_against_the_memory() {
    let ours = Job {
        labels: LabelExchange::Wanted {
            most_bytes: 1 << 12,
            most_rows: 1,
        },
        memory: Some(150_000),
        ..receiver()
    };
    run((&ours, &sender()), 0..20, 0..20).0.unwrap();
    let theirs = Job {
        labels: LabelExchange::Offered(LabelTerms::texts(1 << 12, vec!["city".into()])),
        ..sender()
    };
    // So few items are not cut into buckets.
    let (received, sent) = run((&ours, &theirs), 0..20, 0..20);
    for error in [received.unwrap_err(), sent.unwrap_err()] {
        let Error::Run(WireError::Resource { limit, .. }) = &error else {
            panic!("{error}")
        };
        assert!(matches!(limit, Limit::Memory { enough: Some(_) }));
    }
}

#[test]
fn what_cannot_be_is_refused_before_the_peer_is_told() {
    let ole = Job {
        protocol: ProtocolRequest::named("ole-ot"),
        ..receiver()
    }
    .with(&SECURITY, Security::SemiHonest);
    let size = receiver()
        .with(&REVEAL, Reveal::Size.into())
        .with(&SECURITY, Security::SemiHonest);
    let offers = Job {
        labels: sender().labels,
        ..receiver()
    };
    for job in [ole, size, offers] {
        assert!(
            matches!(job.check(), Err(Error::Usage(_))),
            "{:?}",
            job.labels
        );
    }
    let items = digests(0..3);
    let mut uneven = KeyBlock::from(&items);
    uneven.labels = Some(Cow::from(&[0; 14]));
    assert!(matches!(MemorySet::new(uneven), Err(Error::Usage(_))));
}

/// A set whose labels are not those of its job is this side's fault, and the peer is told.
#[test]
fn labels_are_those_that_were_declared() {
    let (own, other) = (digests(0..4), digests(0..4));
    let (ours, theirs) = (receiver(), sender());
    let (received, sent) = run_both(
        silent_pair(5000),
        |channel| {
            let mut set = MemorySet::new(&own).unwrap();
            run_set_over(channel, None, None, &ours, &mut set, &mut NoProgress)
        },
        |channel| {
            let mut set = MemorySet::new(&other).unwrap();
            run_set_over(channel, None, None, &theirs, &mut set, &mut NoProgress)
        },
    );
    assert_eq!(limit(sent), Limit::Input);
    assert_eq!(received.unwrap_err().class(), ErrorClass::Resource);
}
