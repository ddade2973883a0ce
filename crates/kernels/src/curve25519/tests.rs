use super::*;
use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION, X25519_BASEPOINT};
use curve25519_dalek::{MontgomeryPoint, RistrettoPoint, Scalar};
use proptest::prelude::*;

fn hex(s: &str) -> Bytes32 {
    std::array::from_fn(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap())
}

/// Little-endian bytes of a big-endian number in hexadecimal, as the RFCs print field elements.
fn number(s: &str) -> Bytes32 {
    let mut b = hex(s);
    b.reverse();
    b
}

/// RFC 7748, section 5.2; the scalars after clamping.
#[test]
fn rfc_7748_vectors() {
    let cases = [
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552",
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957",
        ),
    ];
    for backend in Backend::ALL {
        for (scalar, u, expected) in cases {
            let mut scalar = hex(scalar);
            scalar[0] &= 248;
            scalar[31] = scalar[31] & 127 | 64;
            let mut out = [[0; 32]];
            multiply(backend, &[scalar], &[hex(u)], &mut out);
            assert_eq!(out[0], hex(expected));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn ladders_match_dalek(
        scalars in prop::collection::vec(any::<Bytes32>(), 1..20),
        seed: Bytes32,
    ) {
        let points: Vec<Bytes32> = scalars.iter().map(|s| {
            std::array::from_fn(|i| s[i].wrapping_mul(3) ^ seed[i] & 0x7f)
        }).collect();
        for backend in Backend::ALL {
            let mut out = vec![[0; 32]; scalars.len()];
            multiply(backend, &scalars, &points, &mut out);
            for ((s, u), got) in scalars.iter().zip(&points).zip(&out) {
                let bits = (0..256).rev().map(|i| s[i / 8] >> (i % 8) & 1 == 1);
                let expected = MontgomeryPoint(*u).mul_bits_be(bits);
                prop_assert_eq!(*got, expected.to_bytes());
            }
            let mut same = vec![[0; 32]; points.len()];
            multiply_by_one_scalar(backend, &seed, &points, &mut same);
            let seeds = vec![seed; points.len()];
            multiply(backend, &seeds, &points, &mut out);
            prop_assert_eq!(&same, &out);
        }
    }

    #[test]
    fn elligator_inverts(scalars in prop::collection::vec(any::<Bytes32>(), 1..20), signs: [u8; 20]) {
        let signs = &signs[..scalars.len()];
        let base = X25519_BASEPOINT.to_bytes();
        let table = Multiples::new(&base).unwrap();
        let mut previous: Option<(Vec<Bytes32>, Vec<u8>)> = None;
        for backend in Backend::ALL {
            let mut reps = vec![[0; 32]; scalars.len()];
            let mut found = vec![0; scalars.len()];
            multiply_and_encode(backend, &scalars, &table, signs, &mut reps, &mut found);
            let mut us = vec![[0; 32]; scalars.len()];
            multiply(backend, &scalars, &vec![base; scalars.len()], &mut us);
            let mut decoded = vec![[0; 32]; scalars.len()];
            decode(backend, &reps, &mut decoded);
            for i in 0..scalars.len() {
                if found[i] == 1 {
                    prop_assert_eq!(decoded[i], us[i]);
                    prop_assert!(reps[i][31] < 0x40, "254 bits");
                }
            }
            if let Some((r, f)) = &previous {
                prop_assert_eq!(f, &found);
                for i in 0..scalars.len() {
                    prop_assert!(found[i] == 0 || r[i] == reps[i]);
                }
            }
            previous = Some((reps, found));
        }
    }

    #[test]
    fn mapping_lands_on_the_curve(elements in prop::collection::vec(any::<Bytes32>(), 1..20)) {
        let mut results = Vec::new();
        for backend in Backend::ALL {
            let mut us = vec![[0; 32]; elements.len()];
            map_to_curve(backend, &elements, &mut us);
            prop_assert!(us.iter().all(is_on_curve));
            results.push(us);
        }
        prop_assert_eq!(&results[0], &results[1]);
    }
}

#[test]
fn about_half_of_all_points_have_representatives() {
    let n = 4096u32;
    let scalars: Vec<Bytes32> = (0..n)
        .map(|i| {
            let mut s = [7; 32];
            s[..4].copy_from_slice(&i.to_le_bytes());
            s
        })
        .collect();
    let mut reps = vec![[0; 32]; scalars.len()];
    let mut found = vec![0; scalars.len()];
    let base = Multiples::new(&X25519_BASEPOINT.to_bytes()).unwrap();
    multiply_and_encode(
        Backend::Best,
        &scalars,
        &base,
        &vec![0; scalars.len()],
        &mut reps,
        &mut found,
    );
    let hits: u32 = found.iter().map(|f| u32::from(*f)).sum();
    // Six standard deviations of a fair coin.
    assert!(hits.abs_diff(n / 2) < 6 * 32, "{hits} of {n}");
}

#[test]
fn multiples_from_a_table_are_those_of_the_ladder() {
    let mut scalars = vec![[0; 32], [0xff; 32], [0x88; 32], [0x77; 32], [0x80; 32]];
    for bit in [0, 3, 4, 7, 127, 251, 252, 255] {
        let mut scalar = [0; 32];
        scalar[bit / 8] = 1 << (bit % 8);
        scalars.push(scalar);
        scalars.push(scalar.map(|byte| !byte));
    }
    scalars.extend(
        (1..30)
            .map(|i: u8| std::array::from_fn(|j| i.wrapping_mul(31) ^ (j as u8).wrapping_mul(73))),
    );
    // Of full order, of the subgroup, and of low order.
    let torsion = EIGHT_TORSION.map(|t| t.to_montgomery().to_bytes());
    let mixed = (ED25519_BASEPOINT_POINT + EIGHT_TORSION[1]).to_montgomery();
    for point in [X25519_BASEPOINT.to_bytes(), mixed.to_bytes()]
        .into_iter()
        .chain(torsion)
    {
        let table = Multiples::new(&point).unwrap();
        for backend in Backend::ALL {
            let (mut ladder, mut out) =
                (vec![[1; 32]; scalars.len()], vec![[2; 32]; scalars.len()]);
            multiply(backend, &scalars, &vec![point; scalars.len()], &mut ladder);
            multiply_one_point(backend, &scalars, &table, &mut out);
            assert_eq!(out, ladder, "{backend:?}");
        }
    }
    // On the twist, and where the map to the Edwards form has no value.
    let minus_one = number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffec");
    let two = std::array::from_fn(|i| if i == 0 { 2 } else { 0 });
    assert!(Multiples::new(&two).is_none() && Multiples::new(&minus_one).is_none());
}

/// Against dalek, beyond the vectors of one backend and the points of one inversion, and at the ends of field elements.
#[test]
fn derived_elements_are_multiplied_as_dalek_does() {
    let mut strings: Vec<Uniform> = (0..CHUNK as u64 + 9)
        .map(|i| {
            std::array::from_fn(|j| {
                let word = (64 * i + j as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                (word >> 40) as u8
            })
        })
        .collect();
    let p = number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed");
    // The map divides by 0 where √−1·t² is −d or −1/d.
    let zeros = [
        "05b35558f47beb977534549973eb6e15cdbca92d0eea6daa75302acb4a5c1ba8",
        "00c4ba48a0ac8d5965c35b01d94aab62430cf920516d7c05f63ac7e4c56a2540",
    ];
    let ends = [[0; 32], [0xff; 32], p, [1; 32]];
    let halves = ends.into_iter().chain(zeros.map(number));
    for (place, half) in halves.enumerate() {
        strings[3 * place][..32].copy_from_slice(&half);
        strings[3 * place + 1][32..].copy_from_slice(&half);
        strings[3 * place + 2] = [half, half].as_flattened().try_into().unwrap();
    }
    let scalars = [0, 1, 8, 0x88, u64::MAX].map(Scalar::from);
    let large = [-Scalar::ONE, Scalar::from_bytes_mod_order([0x77; 32])];
    for half in scalars.into_iter().chain(large) {
        let expected: Vec<Bytes32> = strings
            .iter()
            .map(|string| RistrettoPoint::from_uniform_bytes(string) * (half + half))
            .map(|element| element.compress().to_bytes())
            .collect();
        for backend in Backend::ALL {
            for count in [0, 1, 7, 8, 9, strings.len()] {
                let mut out = vec![[9; 32]; count];
                multiply_derived(backend, half.as_bytes(), &strings[..count], &mut out);
                assert!(out == expected[..count], "{backend:?} {count} {half:?}");
            }
        }
    }
}

#[test]
fn edge_cases_of_points_and_encodings() {
    let p = number("7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffed");
    let mut p_minus_1 = p;
    p_minus_1[0] -= 1;
    assert!(!is_canonical(&p) && is_canonical(&p_minus_1) && is_canonical(&[0; 32]));
    let mut high_bit = [0; 32];
    high_bit[31] = 0x80;
    assert!(!is_canonical(&high_bit));

    // Every low-order point, times eight, is the point at infinity, in both backends and beside others.
    let mut eight = [0; 32];
    eight[0] = 8;
    let mut points: Vec<Bytes32> = EIGHT_TORSION
        .iter()
        .map(|t| t.to_montgomery().to_bytes())
        .collect();
    points.push(X25519_BASEPOINT.to_bytes());
    for backend in Backend::ALL {
        let mut out = vec![[1; 32]; points.len()];
        multiply_by_one_scalar(backend, &eight, &points, &mut out);
        assert!(out[..8].iter().all(|u| *u == [0; 32]));
        assert_ne!(out[8], [0; 32]);
        multiply(
            backend,
            &[[0; 32]],
            &[X25519_BASEPOINT.to_bytes()],
            &mut out[..1],
        );
        assert_eq!(out[0], [0; 32], "zero times a point");
        let mut none: [Bytes32; 0] = [];
        multiply(backend, &[], &[], &mut none);
        // A point at infinity has no representative.
        let (mut rep, mut found) = ([[0; 32]], [1]);
        multiply_and_encode(
            backend,
            &[[0; 32]],
            &Multiples::new(&X25519_BASEPOINT.to_bytes()).unwrap(),
            &[0],
            &mut rep,
            &mut found,
        );
        assert_eq!(found, [0]);
    }
    // The ends of the range of encodings, as points and as field elements.
    let mut ends = vec![[0; 32], p, p_minus_1, [0xff; 32]];
    for (value, at) in [(1u8, 0), (0x7f, 31), (0x80, 31)] {
        let mut end = [0; 32];
        end[at] = value;
        ends.push(end);
        let mut near_p = p;
        near_p[0] = near_p[0].wrapping_add(value);
        ends.push(near_p);
    }
    let scalars = vec![[0x5a; 32]; ends.len()];
    let mut outputs = Vec::new();
    for backend in Backend::ALL {
        let (mut multiplied, mut mapped) = (ends.clone(), ends.clone());
        multiply(backend, &scalars, &ends, &mut multiplied);
        map_to_curve(backend, &ends, &mut mapped);
        assert!(mapped.iter().all(is_on_curve));
        outputs.push((multiplied, mapped));
    }
    assert_eq!(outputs[0], outputs[1]);
    for (end, got) in ends.iter().zip(&outputs[0].0) {
        let bits = (0..256).rev().map(|i| 0x5a >> (i % 8) & 1 == 1);
        assert_eq!(*got, MontgomeryPoint(*end).mul_bits_be(bits).to_bytes());
    }
    // u = 2 lies on the twist.
    let mut two = [0; 32];
    two[0] = 2;
    assert!(!is_on_curve(&two));
    assert!(is_on_curve(&X25519_BASEPOINT.to_bytes()));
}
