use std::collections::BTreeMap;

use vesica_plan::Registry;
use vesica_psi::{GroupMinimum, Reveals, Values};
use vesica_testing::rng;

use super::*;
use crate::charges::{MAX_CHARGE_NAME, MAX_CHARGES};
use crate::codec::Reader;
use crate::terms::{NORMALIZATION, SECURITY, Terms};
use crate::{
    GroupTerms, Hello, LabelExchange, Learns, LocalFacts, NO_LIMIT, ProtocolRequest, RepeatedKeys,
    Resume, Security,
};

fn request(epsilon: &str, split: &[(&str, u32)]) -> NoiseRequest {
    let share = |(name, share): &(&str, u32)| ((*name).to_owned(), *share);
    NoiseRequest {
        epsilon: epsilon.parse().unwrap(),
        split: split.iter().map(share).collect(),
    }
}

fn column(bound: u64, scale: u8) -> ValueTerms {
    ValueTerms {
        bound,
        scale,
        repeated: RepeatedKeys::Sum,
    }
}

/// What both sides want, the receiver first.
#[derive(Clone)]
struct Wanted {
    reveal: &'static str,
    minimum: u64,
    learns: Learns,
    sizes: [u64; 2],
    columns: [Vec<ValueTerms>; 2],
    noise: [Option<NoiseRequest>; 2],
    is_padded: [bool; 2],
    groups: Option<GroupTerms>,
}

impl Wanted {
    /// The size, with noise of the sender.
    fn size() -> Wanted {
        Wanted {
            reveal: "size",
            minimum: 0,
            learns: Learns::Receiver,
            sizes: [100, 80],
            columns: [vec![], vec![]],
            noise: [None, Some(request("1", &[]))],
            is_padded: [false; 2],
            groups: None,
        }
    }

    fn hello(&self, role: Role) -> Hello {
        let side = usize::from(role == Role::Sender);
        let mut terms = Terms::default();
        terms.set(&SECURITY, Security::SemiHonest);
        terms.set(&REVEAL, self.reveal.parse().unwrap());
        terms.set(&MIN_SIZE, self.minimum);
        terms.set(&LEARNS, self.learns);
        terms.set(&NORMALIZATION, vec!["exact/1".into()]);
        Hello {
            role,
            terms,
            local: LocalFacts {
                protocol: ProtocolRequest::Auto,
                values: self.columns[side].clone(),
                max_peer_value_bound: NO_LIMIT,
                groups: self.groups.clone().filter(|_| role == Role::Receiver),
                labels: LabelExchange::Nothing,
                noise: self.noise[side].clone(),
                is_padded: self.is_padded[side],
                items: self.sizes[side],
                memory: NO_LIMIT,
                resume: Resume::Nothing,
                offline: None,
                purpose: String::new(),
            },
        }
    }

    /// The contract, the same on both sides.
    fn agreed(&self) -> Result<Contract, WireError> {
        let hellos = [Role::Receiver, Role::Sender].map(|role| self.hello(role));
        let [ours, theirs] = &hellos;
        let agree = |own: &Hello, peer: &Hello| {
            let heard = Hello::decode(&peer.encode(), &own.terms).unwrap();
            own.agree(&heard, Registry::standard())
                .map(|(contract, _)| contract)
        };
        let (near, far) = (agree(ours, theirs), agree(theirs, ours));
        match (&near, &far) {
            (Ok(near), Ok(far)) => assert_eq!(near, far),
            (near, far) => assert!(near.is_err() && far.is_err()),
        }
        near
    }

    fn refused(&self) -> String {
        self.agreed().unwrap_err().to_string()
    }
}

fn charges(contract: &Contract, role: Role) -> Vec<(String, String)> {
    let charges = contract.noise_of(role).unwrap().charges.iter();
    charges
        .map(|charge| (charge.name.clone(), charge.epsilon.to_string()))
        .collect()
}

#[test]
fn every_number_and_every_count_is_charged() {
    let named = |wanted: &Wanted| charges(&wanted.agreed().unwrap(), Role::Sender);
    let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(name, epsilon)| ((*name).to_owned(), (*epsilon).to_owned()))
            .collect()
    };
    let size = Wanted::size();
    assert_eq!(named(&size), of(&[("size", "1")]));
    // One noisy count, which is compared and then opened.
    let above = Wanted {
        minimum: 7,
        ..size.clone()
    };
    assert_eq!(named(&above), of(&[("size", "1")]));
    let sums = Wanted {
        reveal: "size,sum",
        columns: [vec![column(10, 0); 2], vec![]],
        ..size.clone()
    };
    assert_eq!(
        named(&sums),
        of(&[
            ("size", "0.333334"),
            ("sum-1", "0.333333"),
            ("sum-2", "0.333333")
        ])
    );
    let above = Wanted {
        minimum: 7,
        ..sums.clone()
    };
    assert_eq!(
        named(&above),
        of(&[
            ("size", "0.2"),
            ("sum-1", "0.2"),
            ("sum-1-count", "0.2"),
            ("sum-2", "0.2"),
            ("sum-2-count", "0.2")
        ])
    );
    let split = request("2", &[("sum", 3), ("sum-count", 1)]);
    let product = Wanted {
        reveal: "sum",
        minimum: 7,
        columns: [vec![], vec![column(10, 0)]],
        noise: [None, Some(split)],
        ..size
    };
    assert_eq!(named(&product), of(&[("sum", "1.5"), ("sum-count", "0.5")]));
    assert!(product.agreed().unwrap().receiver_noise.is_none());
}

/// The numbers of an intersection: values of both sides' tables, a key each.
type Table = BTreeMap<u8, i64>;

/// That of the keys in each of so many groups.
fn by_group(
    charged: Charged,
    values: Values,
    [receiver, sender]: [&Table; 2],
    groups: u8,
) -> Vec<i64> {
    let of = |group: u8| {
        let own = receiver.iter().filter(|(key, _)| *key % groups == group);
        let own: Table = own.map(|(key, value)| (*key, *value)).collect();
        numbers(charged, values, [&own, sender])
    };
    (0..groups).map(of).collect()
}

fn numbers(charged: Charged, values: Values, [receiver, sender]: [&Table; 2]) -> i64 {
    let common = receiver
        .iter()
        .filter_map(|(key, own)| Some((*own, *sender.get(key)?)));
    let of = |own: i64, theirs: i64| match (charged.number.0, values) {
        (Reveal::Size, _) => 1,
        (
            _,
            Values {
                receiver: 1,
                sender: 1,
            },
        ) => own * theirs,
        (_, Values { receiver: 1, .. }) => own,
        _ => theirs,
    };
    let each = common.map(|(own, theirs)| of(own, theirs));
    match charged.is_count {
        true => each.filter(|value| *value != 0).count() as i64,
        false => each.sum(),
    }
}

/// All tables of so many of four keys, with values up to the bound.
fn tables(count: u32, bound: i64) -> Vec<Table> {
    let mut all = Vec::new();
    for keys in (0u8..16).filter(|keys| keys.count_ones() == count) {
        let mut of = vec![Table::new()];
        for key in (0..4).filter(|key| keys >> key & 1 == 1) {
            let with = |table: &Table| {
                let table = table.clone();
                (-bound..=bound).map(move |value| {
                    let mut table = table.clone();
                    table.insert(key, value);
                    table
                })
            };
            of = of.iter().flat_map(with).collect();
        }
        all.extend(of);
    }
    all
}

/// Whether two tables differ by one key with its value: by another one in its place, or by one that only the other has.
fn are_neighbours(one: &Table, other: &Table, is_padded: bool) -> bool {
    let shared = one
        .iter()
        .filter(|(key, value)| other.get(key) == Some(value))
        .count();
    match is_padded {
        false => one.len() == other.len() && shared + 1 >= one.len(),
        true => other.len() == one.len() + 1 && shared == one.len(),
    }
}

/// Each line of the table of sensitivities, for a key of either side, as the largest change over all neighbours.
#[test]
fn sensitivities_are_the_largest_changes_between_neighbours() {
    const BOUNDS: [i64; 2] = [2, 1];
    let charged = |reveal, is_count| Charged {
        number: (reveal, 0),
        is_count,
    };
    let cases = [
        (Reveal::Size, false, [0, 0]),
        (Reveal::Sum, false, [1, 0]),
        (Reveal::Sum, true, [1, 0]),
        (Reveal::Sum, false, [0, 1]),
        (Reveal::Sum, true, [0, 1]),
        (Reveal::InnerProduct, false, [1, 1]),
        (Reveal::InnerProduct, true, [1, 1]),
    ];
    for (reveal, is_count, [receiver, sender]) in cases {
        let charged = charged(reveal, is_count);
        let values = Values { receiver, sender };
        let counts = [receiver, sender];
        let bounds = [0, 1].map(|side| BOUNDS[side] * i64::from(counts[side]));
        let columns =
            [0, 1].map(|side| vec![column(BOUNDS[side] as u64, 0); usize::from(counts[side])]);
        let columns = [&columns[0][..], &columns[1][..]];
        let of_groups = if sender == 0 { &[1, 2][..] } else { &[1] };
        let all = of_groups
            .iter()
            .flat_map(|groups| [(*groups, false), (*groups, true)]);
        for (groups, is_padded) in all {
            let said = charged.sensitivity(columns, (is_padded, groups > 1));
            // Whose key changes.
            for side in [0, 1] {
                let of_size = |side: usize, count| tables(count, bounds[side]);
                let mut most = 0;
                let others: Vec<Table> = [1, 2]
                    .into_iter()
                    .flat_map(|n| of_size(1 - side, n))
                    .collect();
                for count in [1, 2] {
                    for one in of_size(side, count) {
                        for other in of_size(side, count + u32::from(is_padded)) {
                            if !are_neighbours(&one, &other, is_padded) {
                                continue;
                            }
                            for third in &others {
                                let of = |changed| match side {
                                    0 => by_group(charged, values, [changed, third], groups),
                                    _ => by_group(charged, values, [third, changed], groups),
                                };
                                let (one, other) = (of(&one), of(&other));
                                let each = one.iter().zip(&other);
                                most = most.max(each.map(|(a, b)| a.abs_diff(*b)).sum());
                            }
                        }
                    }
                }
                assert_eq!(
                    u128::from(most),
                    said,
                    "{charged:?} {values:?} {is_padded} {groups} of {side}"
                );
            }
        }
    }
}

#[test]
fn noise_of_both_sides_spans_what_each_does() {
    let one = Wanted::size();
    let spans = |wanted: &Wanted| wanted.agreed().unwrap().noise_spans();
    assert_eq!(spans(&one), [29]);
    let both = Wanted {
        noise: [Some(request("0.1", &[])), Some(request("1", &[]))],
        learns: Learns::Both,
        ..one.clone()
    };
    assert_eq!(spans(&both), [285 + 29]);
    assert_eq!(both.agreed().unwrap().task().noise_span, 314);
    // Two charges share λ.
    let sums = Wanted {
        reveal: "sum",
        minimum: 3,
        columns: [vec![column(50, 2)], vec![]],
        ..one.clone()
    };
    let scale = Scale::new(100, "0.5".parse().unwrap()).unwrap();
    assert_eq!(spans(&sums)[0], scale.span(41).unwrap() as u64);
    let contract = sums.agreed().unwrap();
    assert_eq!(contract.task().noise_span, spans(&sums)[1]);
    assert_eq!(contract.spans_of_numbers(), spans(&sums)[..1]);
    let none = Wanted {
        noise: [None, None],
        ..sums
    };
    assert_eq!(spans(&none), [0, 0]);
    assert_eq!(none.agreed().unwrap().task().noise_span, 0);
}

/// A side draws noise for each number of each group, and for its count after it; all of a charge have the same scale.
#[test]
fn each_group_has_noise_of_its_own() {
    let of = |groups: Option<u32>| Wanted {
        reveal: "size,sum",
        minimum: 3,
        columns: [vec![column(50, 0)], vec![]],
        groups: groups.map(|count| GroupTerms {
            count,
            minimum: GroupMinimum::Each,
            sizes: None,
            is_padded: false,
            has_rest: false,
        }),
        ..Wanted::size()
    };
    let contract = of(Some(5)).agreed().unwrap();
    // Of a tenth of λ each: fifteen draws. A size changes by 2, a sum by 2·50, and its count by 2.
    let scales = [2u128, 100, 2]
        .map(|sensitivity| Scale::new(sensitivity, "0.333333".parse().unwrap()).unwrap());
    let spans = contract.noise_spans();
    for (span, scale) in spans[1..].iter().zip(&scales[1..]) {
        assert_eq!(u128::from(*span), scale.span(lambda_each(40, 15)).unwrap());
    }
    assert_eq!(of(None).agreed().unwrap().noise_spans().len(), 3);
    // Small in counts, and not in sums: shares are those of sizes, and then of a sum and its count, group by group.
    let drawn = Noise::draw_vartime(&contract, Role::Sender, &mut rng(1)).unwrap();
    let of_noise: Vec<i64> = drawn.0.iter().map(|word| *word as i64).collect();
    assert_eq!(of_noise.len(), 5 + 2 * 5);
    let runs = 300;
    let mut squares = [0f64; 15];
    for seed in 0..runs {
        let drawn = Noise::draw_vartime(&contract, Role::Sender, &mut rng(seed)).unwrap();
        for (square, word) in squares.iter_mut().zip(&*drawn.0) {
            *square += (*word as i64 as f64).powi(2) / runs as f64;
        }
    }
    // The variance is twice the square of the scale: 2·6² and 2·300².
    for (i, square) in squares.iter().enumerate() {
        let expected = if i >= 5 && i % 2 == 1 {
            180_000.0
        } else {
            72.0
        };
        assert!((0.5..2.0).contains(&(square / expected)), "{i}: {square}");
    }
    let bytes = drawn.encode();
    assert_eq!(Noise::decode(&bytes, &contract, Role::Sender), Some(drawn));
    assert_eq!(Noise::decode(&bytes[8..], &contract, Role::Sender), None);
}

/// What a receiver says of groups is agreed as it is, or refused by both sides.
#[test]
fn groups_that_cannot_be_are_refused() {
    let told = |sizes: &[u64], is_padded| GroupTerms {
        count: sizes.len() as u32,
        minimum: GroupMinimum::Each,
        sizes: Some(sizes.to_vec()),
        is_padded,
        has_rest: true,
    };
    let hidden = |count| GroupTerms {
        count,
        sizes: None,
        has_rest: false,
        ..told(&[1], false)
    };
    let of = |groups: GroupTerms| Wanted {
        noise: [None, None],
        groups: Some(groups),
        ..Wanted::size()
    };
    // Those in none take room where groups may have more of it than keys.
    for (groups, expected) in [
        (hidden(64), None),
        (told(&[60, 40, 0], false), Some(0)),
        (told(&[60, 60], true), Some(100)),
        (told(&[1 << 16; 1023], true), Some(100)),
    ] {
        let contract = of(groups.clone()).agreed().unwrap();
        assert_eq!(contract.groups.as_ref(), Some(&groups));
        let task = contract.task().groups.unwrap();
        assert_eq!(task.count, groups.count as usize);
        let capacities = task.capacities.map(|capacities| {
            // No group has more keys than there are.
            let sizes = groups.sizes.iter().flatten().map(|size| *size.min(&100));
            assert!(capacities.of_groups.iter().copied().eq(sizes));
            capacities.rest
        });
        assert_eq!(capacities, expected);
    }
    for (groups, problem) in [
        (hidden(65), "there can be 64"),
        (told(&[60, 41], false), "more keys than there are"),
        (told(&[u64::MAX, 1], false), "more keys than there are"),
    ] {
        let refused = of(groups).refused();
        assert!(refused.contains(problem), "{refused}");
    }
    let large = |each| Wanted {
        sizes: [1 << 17, 80],
        ..of(told(&vec![each; 1024], true))
    };
    assert!(large(1 << 15).agreed().is_ok());
    for each in [1 << 16, 1 << 17, u64::MAX] {
        assert!(large(each).refused().contains("keys in all"), "{each}");
    }
    let padded = |groups| Wanted {
        noise: [Some(request("1", &[])), None],
        is_padded: [true, false],
        ..of(groups)
    };
    assert!(padded(told(&[60, 60], true)).agreed().is_ok());
    assert!(padded(hidden(3)).agreed().is_ok());
    assert!(
        padded(told(&[60, 40], false))
            .refused()
            .contains("a padded set")
    );
    let sums = |columns: [Vec<ValueTerms>; 2], reveal, learns| Wanted {
        reveal,
        columns,
        learns,
        ..of(hidden(8))
    };
    let own = |columns| [vec![column(9, 0); columns], vec![]];
    assert!(sums(own(8), "sum", Learns::Receiver).agreed().is_ok());
    for (wanted, problem) in [
        (
            Wanted {
                groups: Some(hidden(9)),
                ..sums(own(8), "sum", Learns::Receiver)
            },
            "there can be 8",
        ),
        (
            sums([vec![], vec![column(9, 0)]], "sum", Learns::Receiver),
            "the receiver's values",
        ),
        (
            sums(
                [vec![column(9, 0)], vec![column(9, 0)]],
                "inner-product",
                Learns::Receiver,
            ),
            "sizes and sums",
        ),
        (
            sums([vec![], vec![]], "matches", Learns::Receiver),
            "sizes and sums",
        ),
        (
            sums([vec![], vec![]], "size", Learns::Both),
            "both sides learn",
        ),
    ] {
        let refused = wanted.refused();
        assert!(refused.contains(problem), "{refused}");
    }
}

/// A group of a bucket has room for its share of the keys, and more.
#[test]
fn groups_of_buckets_have_room() {
    let sizes = vec![600, 300, 5];
    let wanted = Wanted {
        noise: [None, None],
        sizes: [1000, 80],
        groups: Some(GroupTerms {
            count: 3,
            minimum: GroupMinimum::Each,
            sizes: Some(sizes.clone()),
            is_padded: false,
            has_rest: true,
        }),
        ..Wanted::size()
    };
    let mut contract = wanted.agreed().unwrap();
    contract.buckets = 4;
    let capacities = contract.task().groups.unwrap().capacities.unwrap();
    for (size, room) in sizes.iter().zip(capacities.of_groups.iter()) {
        assert!(size.div_ceil(4) <= *room && room <= size, "{size} {room}");
    }
    // So do the 95 keys that are in none.
    assert!((24..=95).contains(&capacities.rest), "{}", capacities.rest);
}

/// Each refusal has a neighbour that is fine.
#[test]
fn what_does_not_go_together_is_refused() {
    let size = Wanted::size();
    let both = Wanted {
        learns: Learns::Both,
        ..size.clone()
    };
    assert!(both.refused().contains("one adds no noise"));
    let above = |minimum| Wanted {
        minimum,
        ..size.clone()
    };
    assert!(above(80).agreed().is_ok());
    assert!(above(81).refused().contains("a minimum of 81"));
    let without = Wanted {
        noise: [None, None],
        ..above(81)
    };
    assert!(without.agreed().is_ok());
    let matches = Wanted {
        reveal: "matches",
        ..size.clone()
    };
    assert!(matches.refused().contains("there are no numbers"));
    let split = |split: &[(&str, u32)]| Wanted {
        noise: [None, Some(request("1", split))],
        ..size.clone()
    };
    assert!(split(&[("size", 5)]).agreed().is_ok());
    for wrong in [&[("sum", 1)][..], &[("size", 1), ("sum", 1)]] {
        assert!(split(wrong).refused().contains("divided among size"));
    }
    let tiny = |epsilon| Wanted {
        reveal: "size,sum",
        columns: [vec![column(1, 0)], vec![]],
        noise: [None, Some(request(epsilon, &[]))],
        ..size.clone()
    };
    assert!(tiny("0.000002").agreed().is_ok());
    assert!(tiny("0.000001").refused().contains("too small"));
}

/// A number has room for its noise, to the last unit.
#[test]
fn noise_beyond_63_bits_is_refused() {
    let sum = |bound, epsilon: &str| Wanted {
        reveal: "sum",
        columns: [vec![], vec![column(bound, 0)]],
        sizes: [1, 1],
        noise: [None, Some(request(epsilon, &[]))],
        ..Wanted::size()
    };
    // bound + ⌈2·bound/100·41·ln 2⌉ with ln 2 as 0.6931472.
    let room = |bound: u64| {
        let span = Scale::new(2 * u128::from(bound), "100".parse().unwrap())
            .unwrap()
            .span(40)
            .unwrap();
        u128::from(bound) + span < u128::from(TOO_FAR)
    };
    let (mut least, mut most) = (1u64, TOO_FAR);
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        match room(middle) {
            true => least = middle,
            false => most = middle,
        }
    }
    assert!(sum(least, "100").agreed().is_ok());
    let refused = sum(most, "100").agreed().unwrap_err();
    assert!(
        matches!(
            refused,
            WireError::Resource {
                limit: Limit::Values,
                ..
            }
        ),
        "{refused}"
    );
    // The scale itself would not fit.
    let product = Wanted {
        reveal: "inner-product",
        columns: [vec![column(TOO_FAR, 0)], vec![column(TOO_FAR, 0)]],
        sizes: [0, 0],
        ..sum(1, "0.000001")
    };
    assert!(product.refused().contains("exceed 63 bits"));
}

#[test]
fn requests_come_back_from_the_wire_and_nonsense_does_not() {
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new("hello", bytes);
        let read = NoiseRequest::read(&mut reader)?;
        reader.end().map(|()| read)
    };
    let written = |request: Option<&NoiseRequest>, is_padded| {
        let mut out = Vec::new();
        NoiseRequest::put(request, is_padded, &mut out);
        out
    };
    let many: Vec<(String, u32)> = (0..MAX_CHARGES as u32)
        .map(|i| (format!("sum-{i}"), 1))
        .collect();
    let many = NoiseRequest {
        split: many,
        ..request("100", &[])
    };
    for request in [
        request("0.000001", &[]),
        request("2.5", &[("size", u32::MAX)]),
        many.clone(),
    ] {
        for is_padded in [false, true] {
            let bytes = written(Some(&request), is_padded);
            assert_eq!(read(&bytes).unwrap(), (Some(request.clone()), is_padded));
            for end in 0..bytes.len() {
                assert!(read(&bytes[..end]).is_err());
            }
        }
    }
    assert_eq!(read(&written(None, true)).unwrap(), (None, false));
    let mut more = many.clone();
    more.split.push(("size".into(), 1));
    let long = "n".repeat(MAX_CHARGE_NAME + 1);
    for wrong in [
        more,
        request("1", &[("size", 0)]),
        request("1", &[("", 1)]),
        request("1", &[(&long, 1)]),
        request("1", &[("size", 1), ("size", 2)]),
    ] {
        assert!(wrong.problem().is_some());
        assert!(read(&written(Some(&wrong), false)).is_err(), "{wrong:?}");
    }
    let mut zero = written(Some(&request("1", &[])), false);
    for units in [0u32, 100_000_001, u32::MAX] {
        zero[1..5].copy_from_slice(&units.to_le_bytes());
        assert!(read(&zero).is_err());
    }
    assert!(read(&[3]).is_err());
}

#[test]
fn noise_is_kept_as_it_was_drawn() {
    let sums = Wanted {
        reveal: "size,sum",
        minimum: 5,
        columns: [vec![], vec![column(1000, 2)]],
        ..Wanted::size()
    };
    let contract = sums.agreed().unwrap();
    let draw = |seed| Noise::draw_vartime(&contract, Role::Sender, &mut rng(seed)).unwrap();
    let noise = draw(1);
    assert!(noise != draw(2));
    let bytes = noise.encode();
    assert_eq!(bytes.len(), 24);
    let back = |bytes, role| Noise::decode(bytes, &contract, role);
    assert!(back(&bytes, Role::Sender) == Some(noise.clone()));
    assert!(back(&bytes[1..], Role::Sender).is_none() && back(&bytes[8..], Role::Sender).is_none());
    assert!(back(&bytes, Role::Receiver).is_none() && back(&[], Role::Receiver).is_some());
    let mut shares = [1, 2, u64::MAX];
    noise.add_to(&mut shares).unwrap();
    let words: Vec<u64> = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_le_bytes(*word))
        .collect();
    assert_eq!(
        shares.to_vec(),
        [1, 2, u64::MAX]
            .iter()
            .zip(&words)
            .map(|(a, b)| a.wrapping_add(*b))
            .collect::<Vec<u64>>()
    );
    assert!(noise.add_to(&mut [0; 2]).is_err());
    // A job's is the same whenever it is asked for, and no other job's.
    let of_job = |secret| Noise::of_job_vartime(&contract, Role::Sender, &[secret; 32]).unwrap();
    assert!(of_job(1) == of_job(1) && of_job(1) != of_job(2));
    // A side without noise adds none, to whatever there is.
    let none = Noise::draw_vartime(&contract, Role::Receiver, &mut rng(3)).unwrap();
    let mut two = [7, 8];
    none.add_to(&mut two).unwrap();
    assert_eq!(two, [7, 8]);
}

#[test]
fn reports_say_how_far_numbers_may_be_off() {
    let wanted = Wanted {
        reveal: "size,sum",
        columns: [vec![], vec![column(1000, 2)]],
        noise: [
            Some(request("1", &[])),
            Some(request("0.4", &[("size", 1), ("sum", 3)])),
        ],
        learns: Learns::Both,
        is_padded: [true, false],
        ..Wanted::size()
    };
    let report = NoiseReport::of(&wanted.agreed().unwrap()).unwrap();
    assert_eq!(
        serde_json::to_value(&report).unwrap(),
        serde_json::json!({
            "receiver_epsilon": "1",
            "sender_epsilon": "0.4",
            "numbers": [
                {
                    "name": "size",
                    "receiver": {"epsilon": "0.5", "sensitivity": 1, "scale": "2"},
                    "sender": {"epsilon": "0.1", "sensitivity": 1, "scale": "10"},
                    "half_width": 45,
                },
                {
                    "name": "sum",
                    "receiver": {"epsilon": "0.5", "sensitivity": "10.00", "scale": "2000"},
                    "sender": {"epsilon": "0.3", "sensitivity": "20.00", "scale": "20000/3"},
                    "half_width": "319.71",
                },
            ],
        })
    );
    assert_eq!(
        report.to_string(),
        "epsilon 1 of the receiver, epsilon 0.4 of the sender; 95 % within size ±45, sum ±319.71"
    );
    let none = Wanted {
        noise: [None, None],
        ..wanted
    };
    assert_eq!(NoiseReport::of(&none.agreed().unwrap()), None);
    let reveals: Reveals = "size,sum".parse().unwrap();
    assert_eq!(
        reveals.names(Values {
            receiver: 0,
            sender: 1
        }),
        ["size", "sum"]
    );
}

/// A run draws as its contract says, and anew each time.
#[test]
fn a_run_draws_on_a_thread_of_its_own() {
    let contract = Wanted {
        noise: [None, Some(request("0.000001", &[]))],
        ..Wanted::size()
    };
    let contract = contract.agreed().unwrap();
    let drawn = |role| {
        Drawing::begin(&contract, role)
            .unwrap()
            .drawn()
            .unwrap()
            .encode()
    };
    let [one, other] = [drawn(Role::Sender), drawn(Role::Sender)];
    assert_eq!((one.len(), drawn(Role::Receiver).len()), (8, 0));
    assert_ne!(one, other);
}

/// The table of the page, from the same functions.
#[test]
fn the_page_says_how_far_off_numbers_are() {
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/differential-privacy.md"
    );
    let page = std::fs::read_to_string(page).unwrap();
    let with_thousands = |width: u128| match width {
        0..1000 => format!("±{width}"),
        _ => format!("±{},{:03}", width / 1000, width % 1000),
    };
    let rows: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("| ε |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .collect();
    assert!(rows.len() >= 5);
    for row in rows {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let epsilon: Epsilon = cells[1].parse().unwrap();
        let scale = |sensitivity| Scale::new(sensitivity, epsilon);
        let alone = |sensitivity| half_width([None, scale(sensitivity)]).unwrap();
        let both = half_width([scale(1), scale(1)]).unwrap();
        let said = [alone(1), both, alone(200), alone(100)].map(with_thousands);
        assert_eq!(cells[2..6], said, "{row}");
    }
}
