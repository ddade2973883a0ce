//! What every protocol says that it sends, against runs.

use vesica_plan::Registry;
use vesica_psi::{
    Capacities, GroupMinimum, Groups, Half, Input, Item, KeyAgreement, Optimize, Output, Params,
    Prepared, Protocol, Reveal, Reveals, Security, Task, Values,
};
use vesica_testing::{clocked_pair, digests, rng, try_both};
use vesica_wire::{Channel, End, Traffic};

/// A run: sizes, and what else matters.
#[derive(Clone, Debug)]
struct Case {
    sizes: [usize; 2],
    security: Security,
    lambda: u32,
    task: Task,
    is_stored: bool,
}

impl Case {
    fn of(protocol: &dyn Protocol, sizes: [usize; 2], reveal: impl Into<Reveals>) -> Case {
        Case {
            sizes,
            security: protocol.spec().security,
            lambda: 40,
            task: Task::new(reveal),
            is_stored: protocol.offline().is_some_and(|o| o.origin().is_dealt()),
        }
    }

    fn params(&self) -> Params {
        let [receiver_size, sender_size] = self.sizes;
        Params {
            security: self.security,
            lambda: self.lambda,
            receiver_size,
            sender_size,
            key_agreement: KeyAgreement::default(),
            session: [5; 32],
        }
    }

    fn said(&self, protocol: &dyn Protocol) -> Traffic {
        let said = protocol.traffic(&self.params(), &self.task, None, self.is_stored);
        said.unwrap()
    }

    /// Bytes each way, the receiver's first, and delays.
    fn run(&self, protocol: &dyn Protocol) -> ([u64; 2], u64) {
        let params = &self.params();
        let [n, m] = self.sizes.map(|size| size as u64);
        let (ours, theirs) = (digests(0..n), digests(n / 2..n / 2 + m));
        let values = |items: &[Item], each: u8| vec![3; items.len() * usize::from(each)];
        let own = values(&ours, self.task.values.receiver);
        let other = values(&theirs, self.task.values.sender);
        let labels = vec![7; theirs.len() * self.task.label_bytes];
        let halves = match (self.is_stored, protocol.offline()) {
            (true, Some(offline)) => {
                let halves = offline.deal(params, None, &mut rng(3)).unwrap();
                let [receiver, sender] = halves;
                [
                    offline.load(Half::Receiver, params, None, receiver),
                    offline.load(Half::Sender, params, None, sender),
                ]
            }
            _ => [None, None],
        };
        let [near_half, far_half] = halves;
        let (mut near, mut far, delays) = clocked_pair();
        let (received, sent) = try_both(
            (&mut near, &mut far),
            |channel| {
                let mut rng = rng(2);
                let prepared = near_half.unwrap_or_else(|| protocol.prepare(ours.len(), &mut rng));
                let own = (self.task.values.receiver > 0).then_some(&own[..]);
                let groups: Vec<u32> = (0..ours.len() as u32).map(|item| item % 3).collect();
                let groups = self.task.groups.is_some().then_some(&groups[..]);
                let input = Input::with_values(&ours, own).with_groups(groups);
                let task = &self.task;
                let output = protocol.receive(channel, params, task, input, prepared, &mut rng)?;
                protocol.open_whole(channel, Half::Receiver, params, task, output, &mut rng)
            },
            |channel| {
                let other = (self.task.values.sender > 0).then_some(&other[..]);
                let input = Input::with_values(&theirs, other)
                    .with_labels((self.task.label_bytes > 0).then_some(&labels[..]));
                let prepared = far_half.unwrap_or_else(Prepared::nothing);
                let (task, rng) = (&self.task, &mut rng(1));
                let output = protocol.send(channel, params, task, input, prepared, rng)?;
                protocol.open_whole(channel, Half::Sender, params, task, output, rng)
            },
        );
        assert_ne!(received.unwrap(), Output::Nothing);
        let is_told =
            self.task.both || self.task.reveal == Reveal::Shares || self.task.reveal == Reveal::Ids;
        assert_eq!(sent.unwrap() != Output::Nothing, is_told);
        let bytes = |channel: &dyn Channel| {
            let phases = channel.traffic();
            phases.iter().map(|phase| phase.bytes_sent).sum()
        };
        ([bytes(&near), bytes(&far)], delays())
    }

    /// Checks that the run sends what is said, each way up to this share of it and as many bytes; gives the bytes each way.
    #[track_caller]
    fn check(
        &self,
        protocol: &dyn Protocol,
        shares: [f64; 2],
        bytes: u64,
        more_delays: u64,
    ) -> [u64; 2] {
        let (said, name) = (self.said(protocol), protocol.spec().name);
        let (found, delays) = self.run(protocol);
        for (i, end) in [End::Receiver, End::Sender].into_iter().enumerate() {
            let difference = found[i].abs_diff(said.bytes(end));
            let allowed = (found[i] as f64 * shares[i]) as u64 + bytes;
            assert!(
                difference <= allowed,
                "{name} {self:?}: {end:?} sends {}, said {}",
                found[i],
                said.bytes(end)
            );
        }
        assert!(
            said.delays().abs_diff(delays) <= more_delays,
            "{name} {self:?}: {delays} delays, said {}",
            said.delays()
        );
        found
    }
}

const SIZES: [[usize; 2]; 10] = [
    [0, 0],
    [0, 5],
    [5, 0],
    [1, 1],
    [100, 100],
    [1, 3000],
    [3000, 1],
    [256, 4096],
    [5000, 700],
    [6000, 6000],
];

/// Masks are coded differences of random numbers, of 1.2 bits' deviation each; everything else is exact.
fn coded(protocol: &dyn Protocol, items: usize) -> u64 {
    match protocol.offline() {
        Some(_) => 0,
        // Of up to three masks per item, at five standard deviations, and rounding.
        None => (5.0 * 1.2 * (3.0 * items as f64).sqrt() / 8.0) as u64 + 2,
    }
}

#[test]
fn protocols_that_show_matches_send_what_they_say() {
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        for sizes in SIZES {
            let alone = Case::of(protocol, sizes, Reveal::Matches);
            let mut both = alone.clone();
            both.task.both = true;
            let coded = coded(protocol, sizes[1]);
            let [sent, more] =
                [&alone, &both].map(|case| case.check(protocol, [0.0, 0.0], coded, 0)[0]);
            // The receiver sends nothing that is coded.
            let [said, more_said] =
                [&alone, &both].map(|case| case.said(protocol).bytes(End::Receiver));
            assert_eq!(more - sent, more_said - said, "{protocol:?} {sizes:?}");
        }
    }
}

/// At the size where it counts, within a thousandth.
#[test]
fn many_coded_masks_are_as_long_as_is_said() {
    let protocol = Registry::standard().get("vole").unwrap();
    for (security, label_bytes) in [(Security::Malicious, 0), (Security::SemiHonest, 9)] {
        let mut case = Case::of(protocol, [1 << 14, 1 << 17], Reveal::Matches);
        (case.security, case.task.label_bytes) = (security, label_bytes);
        case.check(protocol, [0.0, 0.0003], 0, 0);
    }
}

#[test]
fn other_levels_of_security_count() {
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        let mut case = Case::of(protocol, [500, 400], Reveal::Matches);
        (case.security, case.lambda) = (Security::SemiHonest, 50);
        case.check(protocol, [0.0, 0.0], coded(protocol, 400), 0);
    }
}

/// A size, a union and ids send exactly what is said; other functions, whose frames are not counted one by one, within a thousandth.
#[test]
fn circuits_send_what_they_say() {
    let values = |receiver, sender| Values { receiver, sender };
    let tasks = [
        (Reveal::Size, values(0, 0), 0, 0),
        (Reveal::Shares, values(0, 0), 0, 0),
        (Reveal::Union, values(0, 0), 0, 0),
        (Reveal::Ids, values(0, 0), 0, 0),
        (Reveal::Sum, values(2, 0), 0, 0),
        (Reveal::Sum, values(0, 1), 0, 0),
        (Reveal::InnerProduct, values(1, 1), 0, 0),
        (Reveal::ThresholdMatches, values(0, 0), 5, 0),
        (Reveal::Sum, values(0, 1), 5, 0),
        // With room for noise.
        (Reveal::Size, values(0, 0), 0, 100_000),
        (Reveal::Sum, values(2, 0), 5, 100_000),
    ];
    for reveal in Reveal::ALL.iter().filter(|of| **of != Reveal::Matches) {
        assert!(tasks.iter().any(|(of, ..)| of == reveal), "{reveal}");
    }
    for protocol in Registry::standard().revealing(Reveal::Size) {
        for sizes in [
            [0, 5],
            [5, 0],
            [1, 1],
            [100, 100],
            [10, 900],
            [900, 10],
            [4000, 4000],
        ] {
            for (reveal, values, min_size, noise_span) in tasks {
                // The others at one pair of sizes.
                let is_counted = matches!(reveal, Reveal::Size | Reveal::Union | Reveal::Ids);
                if !is_counted && sizes != [100, 100] {
                    continue;
                }
                let mut case = Case::of(protocol, sizes, reveal);
                (case.task.values, case.task.min_size) = (values, min_size);
                case.task.noise_span = noise_span;
                case.task.label_bytes = if reveal == Reveal::Union { 9 } else { 0 };
                case.task.both = reveal.adds([1; 2]).is_some() && min_size == 0;
                for optimize in [Optimize::Time, Optimize::Traffic] {
                    case.task.optimize = optimize;
                    let (share, delays) = match (reveal, min_size) {
                        (Reveal::Size | Reveal::Shares | Reveal::Union | Reveal::Ids, _) => {
                            (0.0, 1)
                        }
                        (_, 0) => (0.001, 4),
                        _ => (0.06, 12),
                    };
                    case.check(protocol, [share; 2], 16, delays);
                }
            }
        }
    }
}

/// So do numbers by group, whatever the sender learns of their sizes.
#[test]
fn numbers_by_group_send_what_they_say() {
    let protocol = Registry::standard().get("circuit-okvs").unwrap();
    for (reveal, receiver) in [(Reveal::Size, 0), (Reveal::Sum, 1)] {
        for capacities in [None, Some([34, 33, 33]), Some([60, 60, 60])] {
            for (min_size, minimum) in [
                (0, GroupMinimum::Each),
                (5, GroupMinimum::Each),
                (5, GroupMinimum::All),
            ] {
                let mut case = Case::of(protocol, [100, 100], reveal);
                case.task.values.receiver = receiver;
                case.task.min_size = min_size;
                case.task.groups = Some(Groups {
                    count: 3,
                    capacities: capacities.map(|sizes| Capacities {
                        of_groups: sizes.into(),
                        rest: 0,
                    }),
                    minimum,
                });
                let share = if min_size == 0 { 0.001 } else { 0.06 };
                case.check(protocol, [share; 2], 16, 12);
            }
        }
    }
}

/// Parameters for which there is no run.
#[test]
fn runs_that_there_are_not_send_nothing() {
    let registry = Registry::standard();
    let dealt = registry.get("ole-dealer").unwrap();
    let mut case = Case::of(dealt, [100, 100], Reveal::Matches);
    case.is_stored = false;
    assert_eq!(dealt.traffic(&case.params(), &case.task, None, false), None);
    let circuit = registry.get("circuit-okvs").unwrap();
    case = Case::of(circuit, [1 << 20, 1 << 20], Reveal::Size);
    case.lambda = 120;
    assert_eq!(
        circuit.traffic(&case.params(), &case.task, None, false),
        None
    );
}
