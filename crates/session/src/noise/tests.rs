use std::collections::BTreeMap;

use vesica_plan::Registry;
use vesica_psi::{Reveals, Values};
use vesica_testing::rng;

use super::*;
use crate::charges::MAX_CHARGE_NAME;
use crate::codec::Reader;
use crate::terms::{NORMALIZATION, SECURITY, Terms};
use crate::{
    Hello, LabelExchange, Learns, LocalFacts, NO_LIMIT, ProtocolRequest, RepeatedKeys, Resume,
    Security,
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
        for is_padded in [false, true] {
            let said = charged.sensitivity(columns, is_padded);
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
                                    0 => numbers(charged, values, [changed, third]),
                                    _ => numbers(charged, values, [third, changed]),
                                };
                                most = most.max(of(&one).abs_diff(of(&other)));
                            }
                        }
                    }
                }
                assert_eq!(
                    u128::from(most),
                    said,
                    "{charged:?} {values:?} {is_padded} of {side}"
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
