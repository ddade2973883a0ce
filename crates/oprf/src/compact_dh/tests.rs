use super::*;
use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::constants::EIGHT_TORSION;
use proptest::prelude::*;
use vesica_kernels::Backend;
use vesica_kernels::curve25519::decode;
use vesica_primitives::polynomial::{Field, Tower};
use vesica_reference::compact_dh as reference;
use vesica_testing::{Script, array, bytes, digests, rng};

const VARIANTS: [Variant; 3] = [
    Variant::Malicious,
    Variant::SemiHonest1,
    Variant::SemiHonest2,
];

const SESSION: [u8; 32] = [9; 32];

fn start(variant: Variant, items: &[Item]) -> (Receiver, Vec<Element>) {
    let prepared = Prepared::new(items.len(), &mut rng(1));
    Receiver::new(variant, &SESSION, items, prepared, &mut rng(2))
}

fn misbehaviour<T>(result: Result<T, Misbehaviour>) -> (&'static str, &'static str) {
    match result {
        Err(Misbehaviour::BadValue { what, problem }) => (what, problem),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    }
}

fn reference_variant(variant: Variant) -> reference::Variant {
    match variant {
        Variant::Malicious => reference::Variant::Malicious,
        Variant::SemiHonest1 => reference::Variant::SemiHonest1,
        Variant::SemiHonest2 => reference::Variant::SemiHonest2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The sender's whole computation, on polynomials that no receiver made.
    #[test]
    fn the_sender_matches_the_reference(
        secret in prop::collection::vec(any::<u8>(), 64),
        session: [u8; 32],
        polynomial in prop::collection::vec(any::<Element>(), 2..6),
        items in prop::collection::hash_set(any::<Item>(), 0..4),
    ) {
        let items: Vec<Item> = items.into_iter().collect();
        for variant in VARIANTS {
            let (sender, public) = Sender::new(variant, &session, &mut Script(secret.clone()));
            let masks = sender.masks(&polynomial, &items).unwrap();
            let expected =
                reference::sender(reference_variant(variant), &session, &secret, &polynomial, &items);
            prop_assert_eq!((public, masks), expected);
        }
    }

    /// Every point that the receiver puts on its polynomial leads the reference sender to the receiver's mask.
    #[test]
    fn the_receiver_matches_the_reference(
        secret in prop::collection::vec(any::<u8>(), 64),
        count in 0u64..6,
        seed: u64,
    ) {
        let ours = digests(0..count);
        for variant in VARIANTS {
            let prepared = Prepared::new(ours.len(), &mut rng(seed));
            let (receiver, polynomial) =
                Receiver::new(variant, &SESSION, &ours, prepared, &mut rng(seed ^ 1));
            let (public, masks) =
                reference::sender(reference_variant(variant), &SESSION, &secret, &polynomial, &ours);
            prop_assert_eq!(receiver.masks(&public).unwrap(), masks);
        }
    }
}

/// Published answers of the sender, and messages that must be refused.
#[test]
fn known_answers() {
    let text = include_str!("../../../../vectors/compact-dh.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let strings = |value: &serde_json::Value| -> Vec<[u8; 32]> {
        let list = value.as_array().unwrap();
        list.iter().map(array).collect()
    };
    let good = vectors["sender"].as_array().unwrap();
    assert_eq!(good.len(), VARIANTS.len());
    for (variant, case) in VARIANTS.into_iter().zip(good) {
        let session = array(&case["session"]);
        let coefficients = strings(&case["polynomial"]);
        let polynomial: Vec<Element> = coefficients.iter().map(element_from_bytes).collect();
        let mut secret = Script(bytes(&case["secret"]));
        let (sender, public) = Sender::new(variant, &session, &mut secret);
        let masks = sender.masks(&polynomial, &strings(&case["items"])).unwrap();
        assert_eq!(public, array(&case["public"]), "{variant:?}");
        assert_eq!(masks, strings(&case["masks"]), "{variant:?}");
    }
    for case in vectors["bad_polynomials"].as_array().unwrap() {
        let coefficients = strings(&case["polynomial"]);
        let polynomial: Vec<Element> = coefficients.iter().map(element_from_bytes).collect();
        let (sender, _) = Sender::new(Variant::Malicious, &SESSION, &mut rng(3));
        let (_, problem) = misbehaviour(sender.masks(&polynomial, &digests(0..5)));
        assert_eq!(problem, case["problem"].as_str().unwrap());
    }
    for case in vectors["bad_keys"].as_array().unwrap() {
        let (receiver, _) = start(Variant::Malicious, &digests(0..3));
        let public = array(&case["public"]);
        let (_, problem) = misbehaviour(receiver.masks(&public));
        assert_eq!(problem, case["problem"].as_str().unwrap());
    }
}

/// The function is the same on both sides exactly for shared items.
#[test]
fn masks_agree_on_shared_items_only() {
    for variant in VARIANTS {
        for (n, m, shared) in [
            (0, 3, 0),
            (1, 1, 1),
            (1, 4, 0),
            (2, 0, 0),
            (40, 70, 15),
            (300, 7, 7),
        ] {
            let ours = digests(0..n);
            let theirs = digests(n - shared..n - shared + m);
            let (receiver, polynomial) = start(variant, &ours);
            assert_eq!(polynomial.len(), variant.coefficients(ours.len()));
            let (sender, public) = Sender::new(variant, &SESSION, &mut rng(3));
            let sent = sender.masks(&polynomial, &theirs).unwrap();
            let own = receiver.masks(&public).unwrap();
            for (y, mask) in ours.iter().zip(&own) {
                let place = theirs.iter().position(|x| x == y);
                assert_eq!(
                    sent.iter().position(|m| m == mask),
                    place,
                    "{variant:?} {n} {m}"
                );
            }
        }
    }
}

#[test]
fn a_constant_polynomial_is_refused() {
    for variant in VARIANTS {
        for polynomial in [vec![[5; 4]], vec![[5; 4], [0; 4]], vec![[0; 4]; 9], vec![]] {
            let (sender, _) = Sender::new(variant, &SESSION, &mut rng(3));
            let refused = sender.masks(&polynomial, &digests(0..5));
            assert_eq!(misbehaviour(refused), ("polynomial", "constant"));
        }
        let (sender, _) = Sender::new(variant, &SESSION, &mut rng(3));
        assert!(
            sender
                .masks(&[[0; 4], [0, 0, 0, 1]], &digests(0..5))
                .is_ok()
        );
    }
}

/// A receiver with one item, if its polynomial were constant, could compute the sender's mask of any guess.
#[test]
fn one_item_does_not_make_a_constant_polynomial() {
    for variant in VARIANTS {
        for n in 0..3 {
            let (_, polynomial) = start(variant, &digests(0..n));
            assert!(
                polynomial[1..].iter().any(|c| *c != [0; 4]),
                "{variant:?} {n}"
            );
        }
    }
}

#[test]
fn bad_public_keys_are_refused() {
    let torsion = EIGHT_TORSION.map(|t| (t.to_montgomery().to_bytes(), "a point of low order"));
    let mut twist = [0; 32];
    twist[0] = 2;
    let mut unreduced = [0xff; 32];
    unreduced[31] = 0x7f;
    let others = [
        (twist, "not a point of the curve"),
        (unreduced, "not a canonical field element"),
        ([0xff; 32], "not a canonical field element"),
    ];
    for (public, problem) in torsion.into_iter().chain(others) {
        let (receiver, _) = start(Variant::Malicious, &digests(0..3));
        assert_eq!(misbehaviour(receiver.masks(&public)), (KEY.name, problem));
    }
}

/// What the sender decodes for items inside and outside the receiver's set is spread alike over the eight
/// cosets of the subgroup; over points of the subgroup, its members would show.
#[test]
fn decoded_points_of_members_look_like_those_of_others() {
    let n = 2000;
    let ours = digests(0..n);
    let (_, polynomial) = start(Variant::Malicious, &ours);
    let oracles = Oracles::new(Variant::Malicious, &SESSION);
    let in_subgroup = |items: &[Item]| {
        let values = evaluate(&polynomial, &oracles.points(items)).unwrap();
        values
            .iter()
            .filter(|v| {
                let message = oracles.message(v);
                let mut u = [[0; 32]];
                decode(Backend::Best, &[message], &mut u);
                MontgomeryPoint(u[0])
                    .to_edwards(0)
                    .unwrap()
                    .is_torsion_free()
            })
            .count()
    };
    // Six standard deviations of a count with probability 1/8.
    let (members, others) = (in_subgroup(&ours), in_subgroup(&digests(n..2 * n)));
    assert!(
        members.abs_diff(n as usize / 8) < 90,
        "{members} of {n} members"
    );
    assert!(
        others.abs_diff(n as usize / 8) < 90,
        "{others} of {n} others"
    );
}

/// Coefficient bits are balanced.
#[test]
fn the_polynomial_looks_uniform() {
    for variant in VARIANTS {
        let (_, polynomial) = start(variant, &digests(0..1000));
        for word in 0..4 {
            for bit in 0..64 {
                let ones = polynomial
                    .iter()
                    .filter(|c| c[word] >> bit & 1 == 1)
                    .count();
                // Six standard deviations of a fair coin.
                assert!(
                    ones.abs_diff(polynomial.len() / 2) < 96,
                    "{variant:?} {word} {bit} {ones}"
                );
            }
        }
    }
}

/// The run's name reaches every mask: replaying one run's polynomial in another gives nothing.
#[test]
fn runs_are_separated() {
    let ours = digests(0..20);
    let (receiver, polynomial) = start(Variant::Malicious, &ours);
    let (sender, public) = Sender::new(Variant::Malicious, &[8; 32], &mut rng(3));
    let sent = sender.masks(&polynomial, &ours).unwrap();
    let own = receiver.masks(&public).unwrap();
    assert!(own.iter().all(|mask| !sent.contains(mask)));
}

/// A polynomial made before the session is known leads to none of the messages that it was made for.
#[test]
fn points_cannot_be_prepared_before_the_session() {
    let messages: Vec<[u8; 32]> = (0..20).map(|i| [i; 32]).collect();
    for variant in [Variant::Malicious, Variant::SemiHonest1] {
        let [guessed, real] = [[1; 32], [2; 32]].map(|session| Oracles::new(variant, &session));
        for message in &messages {
            let value = guessed.value(message);
            assert_eq!(guessed.message(&value), *message);
            assert!(!messages.contains(&real.message(&value)), "{variant:?}");
        }
    }
}

/// A receiver that deviates has 257 masks with 256 coefficients: two keys per place, and linear algebra over GF(2).
#[test]
fn one_more_point_is_a_matter_of_linear_algebra() {
    const N: usize = 256;
    const ALL: usize = N + 1;
    type Row = [u64; ALL / 64 + 1];
    let bit = |row: &[u64], at: usize| row[at / 64] >> (at % 64) & 1 == 1;
    assert_eq!(overfit::free_points(N as u64), 1);
    let held = digests(0..ALL as u64);
    let oracles = Oracles::new(Variant::Malicious, &SESSION);
    let points = oracles.points(&held);
    let field = Tower::new(0);
    // The leading coefficient through (x_i, v_i) is Σ v_i·Π 1/(x_i − x_j).
    let mut weights = vec![Tower::ONE; ALL];
    for (j, other) in points.iter().enumerate() {
        let mut factors = points.clone();
        factors.iter_mut().for_each(|x| Tower::add(x, other));
        factors[j] = Tower::ONE;
        field.multiply_assign(&mut weights, &factors);
    }
    assert!(field.invert_all(&mut weights));
    let mut r = rng(77);
    let (keys, choice) = loop {
        let keys = [(); 2].map(|()| EncodedKeys::generate(ALL, &mut r));
        let [first, second] = keys.each_ref().map(|keys| {
            let messages = keys.representatives().iter();
            let mut values: Vec<Element> = messages.map(|m| oracles.value(m)).collect();
            field.multiply_assign(&mut values, &weights);
            values
        });
        // Row b: bit b of Σ s_i·weight_i·(v_i + v'_i) = Σ weight_i·v_i, the latter in column 257.
        let mut rows = [Row::default(); 256];
        for (i, (a, b)) in first.iter().zip(&second).enumerate() {
            for (at, row) in rows.iter_mut().enumerate() {
                row[i / 64] |= u64::from(bit(a, at) != bit(b, at)) << (i % 64);
                row[ALL / 64] ^= u64::from(bit(a, at)) << (ALL % 64);
            }
        }
        let mut pivots = Vec::new();
        for column in 0..ALL {
            let done = pivots.len();
            let Some(at) = (done..256).find(|at| bit(&rows[*at], column)) else {
                continue;
            };
            rows.swap(done, at);
            let pivot = rows[done];
            for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != done) {
                if bit(row, column) {
                    row.iter_mut().zip(pivot).for_each(|(a, b)| *a ^= b);
                }
            }
            pivots.push(column);
        }
        // A quarter or so of all systems has no solution; then other keys.
        if rows[pivots.len()..].iter().all(|row| !bit(row, ALL)) {
            let mut choice = [0; ALL];
            for (row, column) in rows.iter().zip(pivots) {
                choice[column] = usize::from(bit(row, ALL));
            }
            break (keys, choice);
        }
    };
    let messages: Vec<[u8; 32]> = (0..ALL)
        .map(|i| keys[choice[i]].representatives()[i])
        .collect();
    let values: Vec<Element> = messages.iter().map(|m| oracles.value(m)).collect();
    let polynomial = interpolate(&points, &values).unwrap();
    assert_eq!(polynomial[N], [0; 4]);
    let (sender, public) = Sender::new(Variant::Malicious, &SESSION, &mut r);
    let secrets = keys.map(|keys| keys.agree(&public).unwrap());
    let secrets: Vec<[u8; 32]> = (0..ALL).map(|i| secrets[choice[i]][i]).collect();
    let theirs = sender.masks(&polynomial[..N], &held).unwrap();
    assert_eq!(theirs, oracles.masks(&held, &secrets, &messages));
}
