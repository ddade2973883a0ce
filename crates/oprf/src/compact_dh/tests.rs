use super::*;
use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::constants::EIGHT_TORSION;
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use vesica_kernels::Backend;
use vesica_kernels::curve25519::decode;

const VARIANTS: [Variant; 3] = [
    Variant::Malicious,
    Variant::SemiHonest1,
    Variant::SemiHonest2,
];

const SESSION: [u8; 32] = [9; 32];

fn rng(seed: u64) -> ChaCha12Rng {
    ChaCha12Rng::seed_from_u64(seed)
}

fn items(range: std::ops::Range<u32>) -> Vec<Item> {
    let oracle = Oracle::new("vesica test items", &[0; 32]);
    range.map(|i| oracle.hash(&[&i.to_le_bytes()])).collect()
}

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
            let ours = items(0..n);
            let theirs = items(n - shared..n - shared + m);
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
            let refused = sender.masks(&polynomial, &items(0..5));
            assert_eq!(misbehaviour(refused), ("polynomial", "constant"));
        }
        let (sender, _) = Sender::new(variant, &SESSION, &mut rng(3));
        assert!(sender.masks(&[[0; 4], [0, 0, 0, 1]], &items(0..5)).is_ok());
    }
}

/// A receiver with one item, if its polynomial were constant, could compute the sender's mask of any guess.
#[test]
fn one_item_does_not_make_a_constant_polynomial() {
    for variant in VARIANTS {
        for n in 0..3 {
            let (_, polynomial) = start(variant, &items(0..n));
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
        let (receiver, _) = start(Variant::Malicious, &items(0..3));
        assert_eq!(misbehaviour(receiver.masks(&public)), (KEY.name, problem));
    }
}

/// What the sender decodes for items inside and outside the receiver's set is spread alike over the eight
/// cosets of the subgroup; over points of the subgroup, its members would show.
#[test]
fn decoded_points_of_members_look_like_those_of_others() {
    let n = 2000;
    let ours = items(0..n);
    let (_, polynomial) = start(Variant::Malicious, &ours);
    let pi = IdealPermutation::default();
    let oracles = Oracles::new(&SESSION);
    let in_subgroup = |items: &[Item]| {
        let values = evaluate(&polynomial, &oracles.points(items)).unwrap();
        values
            .iter()
            .filter(|v| {
                let message = pi.apply(&element_to_bytes(v));
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
    let (members, others) = (in_subgroup(&ours), in_subgroup(&items(n..2 * n)));
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
        let (_, polynomial) = start(variant, &items(0..1000));
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
    let ours = items(0..20);
    let (receiver, polynomial) = start(Variant::Malicious, &ours);
    let (sender, public) = Sender::new(Variant::Malicious, &[8; 32], &mut rng(3));
    let sent = sender.masks(&polynomial, &ours).unwrap();
    let own = receiver.masks(&public).unwrap();
    assert!(own.iter().all(|mask| !sent.contains(mask)));
}
