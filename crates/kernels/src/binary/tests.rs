use super::*;
use proptest::prelude::*;

/// x·y in GF(2^64), a bit at a time.
fn slow64(x: u64, y: u64) -> u64 {
    let mut product = 0;
    for bit in (0..64).rev() {
        let carry = product >> 63;
        product = (product << 1) ^ (carry * REDUCTION);
        if y >> bit & 1 == 1 {
            product ^= x;
        }
    }
    product
}

/// The tower written out from the module's definition.
fn slow256(a: Element, b: Element) -> Element {
    fn in128(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
        let uu = slow64(a[1], b[1]);
        [
            slow64(a[0], b[0]) ^ uu,
            slow64(a[0], b[1]) ^ slow64(a[1], b[0]) ^ slow64(uu, 2),
        ]
    }
    let (a, b) = ([[a[0], a[1]], [a[2], a[3]]], [[b[0], b[1]], [b[2], b[3]]]);
    let (low, ww) = (in128(a[0], b[0]), in128(a[1], b[1]));
    let (c, d, g) = (in128(a[0], b[1]), in128(a[1], b[0]), in128(ww, [0, 4]));
    [
        low[0] ^ ww[0],
        low[1] ^ ww[1],
        c[0] ^ d[0] ^ g[0],
        c[1] ^ d[1] ^ g[1],
    ]
}

#[test]
fn groups_are_scaled_by_their_factors() {
    for (count, shared) in [(0, 1), (1, 1), (1, 2), (37, 1), (37, 2)] {
        let word = |i: u64| slow64(i.wrapping_add(3), 0x9e37_79b9_7f4a_7c15);
        let factors: Vec<u64> = (0..count).map(|i| !word(i)).collect();
        let elements: Vec<[u64; 2]> = (0..count * shared).map(|i| [word(i), word(!i)]).collect();
        for backend in Backend::ALL {
            let mut scaled = elements.clone();
            scale_groups(backend, &mut scaled, &factors);
            for (i, (scaled, element)) in scaled.iter().zip(&elements).enumerate() {
                let factor = factors[i / shared as usize];
                assert_eq!(*scaled, element.map(|word| slow64(word, factor)));
            }
        }
    }
}

#[test]
fn versions_agree() {
    let transform = Transform::new(12);
    let data: Vec<Element> = (1..=1u64 << 12)
        .map(|i| [i, slow64(i, !i), !i, slow64(i, i)])
        .collect();
    let [portable, faster @ ..] = Backend::ALL.map(|backend| {
        let mut values = data.clone();
        transform.forward(backend, &mut values, 12, 5 << 12);
        multiply_assign(backend, &mut values, &data);
        scale_assign(backend, &mut values, 0x0123_4567_89ab_cdef);
        let sum = inner_product(backend, &values, &data);
        assert!(invert_all(backend, &mut values));
        transform.inverse(backend, &mut values, 11, 3 << 12);
        let mut points = vec![[0; 4]; 64];
        evaluate_blocks(backend, &data, 6, 0, &data[..64], &mut points);
        (values, sum, points)
    });
    for result in faster {
        assert_eq!(result, portable);
    }
}

proptest! {
    #[test]
    fn products_match_the_definition(a: [u64; 4], b: [u64; 4], f: u64) {
        for backend in Backend::ALL {
            let mut p = [a];
            multiply_assign(backend, &mut p, &[b]);
            prop_assert_eq!(p[0], slow256(a, b));
            prop_assert_eq!(inner_product(backend, &[a, b], &[b, a]), [0; 4]);
            let mut q = [a];
            scale_assign(backend, &mut q, f);
            prop_assert_eq!(q[0], slow256(a, [f, 0, 0, 0]));
        }
    }

    #[test]
    fn inverses_multiply_to_one(values in prop::collection::vec(any::<[u64; 4]>(), 1..9)) {
        for backend in Backend::ALL {
            let mut inverses = values.clone();
            let invertible = values.iter().all(|v| *v != [0; 4]);
            prop_assert_eq!(invert_all(backend, &mut inverses), invertible);
            if invertible {
                multiply_assign(backend, &mut inverses, &values);
                prop_assert!(inverses.iter().all(|v| *v == [1, 0, 0, 0]));
            }
        }
        prop_assert!(!invert_all(Backend::Best, &mut [[1; 4], [0; 4]]));
    }

    #[test]
    fn transforms_evaluate(
        log in 0u32..8,
        seed: u64,
        high in 0u64..4,
    ) {
        let n = 1usize << log;
        let data: Vec<Element> = (0..n as u64)
            .map(|i| std::array::from_fn(|j| slow64(seed | 1, i + 7 * j as u64 + 3)))
            .collect();
        let coset = high << log | 1 << 40;
        let points: Vec<Element> = (0..n as u64).map(|i| [cantor_element(coset ^ i), 0, 0, 0]).collect();
        // X_j is the product of s_i over the bits of j.
        let naive = |x: &Element| {
            let mut s = *x;
            let mut basis = vec![[1, 0, 0, 0]];
            for _ in 0..log {
                let more: Vec<Element> = basis.iter().map(|b| slow256(*b, s)).collect();
                basis.extend(more);
                s = ops::add(slow256(s, s), s);
            }
            data.iter().zip(basis).fold([0; 4], |sum, (c, b)| ops::add(sum, slow256(*c, b)))
        };
        let expected: Vec<Element> = points.iter().map(naive).collect();
        for backend in Backend::ALL {
            let transform = Transform::new(log + 1);
            let mut values = data.clone();
            transform.forward(backend, &mut values, log, coset);
            prop_assert_eq!(&values, &expected);
            let mut direct = vec![[0; 4]; n];
            evaluate_blocks(backend, &data, log, log, &points, &mut direct);
            prop_assert_eq!(&direct, &values);
            let repeated: Vec<Element> = points.iter().flat_map(|_| data.clone()).collect();
            evaluate_blocks(backend, &repeated, log, 0, &points, &mut direct);
            prop_assert_eq!(&direct, &values);
            transform.inverse(backend, &mut values, log, coset);
            prop_assert_eq!(&values, &data);
        }
    }
}

#[test]
fn large_transforms_agree_between_backends() {
    let transform = Transform::new(13);
    let data: Vec<Element> = (0..1u64 << 13)
        .map(|i| [i, i * i, !i, slow64(i, i)])
        .collect();
    let (mut best, mut portable) = (data.clone(), data.clone());
    for log in [13, 12, 11] {
        transform.forward(Backend::Best, &mut best, log, 3 << 13);
        transform.forward(Backend::Portable, &mut portable, log, 3 << 13);
        assert_eq!(best, portable);
    }
    for log in [11, 12, 13] {
        transform.inverse(Backend::Best, &mut best, log, 3 << 13);
    }
    assert_eq!(best, data);
}

#[test]
fn the_cantor_basis_is_one() {
    let basis = cantor_basis();
    assert_eq!(basis[0], 1);
    for i in 1..64 {
        assert_eq!(slow64(basis[i], basis[i]) ^ basis[i], basis[i - 1]);
    }
}

/// The extensions are fields: w is in no smaller one, and Frobenius has order 256.
#[test]
fn the_tower_is_a_field() {
    let w = [0, 0, 1, 0];
    let mut power = w;
    for i in 1..=256 {
        power = slow256(power, power);
        assert_eq!(power == w, i == 256, "after {i} squarings");
    }
}

proptest! {
    #[test]
    fn products_in_gf_2_128_are_those_of_the_tower(
        a in prop::collection::vec(any::<u128>(), 0..9), factor: u128, seed: u128
    ) {
        let slow = |a: u128, b: u128| {
            let element = |v: u128| [v as u64, (v >> 64) as u64, 0, 0];
            let p = slow256(element(a), element(b));
            u128::from(p[0]) | u128::from(p[1]) << 64
        };
        let b: Vec<u128> = a.iter().map(|v| v.wrapping_mul(seed | 1).wrapping_add(seed)).collect();
        let small: Vec<u64> = b.iter().map(|v| *v as u64).collect();
        for backend in Backend::ALL {
            let expected = a.iter().zip(&b).fold(0, |sum, (a, b)| sum ^ slow(*a, *b));
            prop_assert_eq!(inner_product128(backend, &a, &b), expected);
            let mut out = a.clone();
            add_scaled128(backend, &mut out, factor, &b);
            for ((out, a), b) in out.iter().zip(&a).zip(&b) {
                prop_assert_eq!(*out, a ^ slow(factor, *b));
            }
            let mut out = a.clone();
            add_scaled64(backend, &mut out, factor, &small);
            for ((out, a), b) in out.iter().zip(&a).zip(&small) {
                prop_assert_eq!(*out, a ^ slow(factor, u128::from(*b)));
            }
        }
        prop_assert_eq!(multiply128(Backend::Best, factor, seed), slow(factor, seed));
    }
}
