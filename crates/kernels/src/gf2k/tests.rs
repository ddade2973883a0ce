use super::*;
use proptest::prelude::*;
use vesica_reference::gf2k as reference;

/// A call of one version, whose arguments are those of the functions in `ops`.
macro_rules! run {
    ($backend:ident, $field:expr, $call:ident($($arg:expr),*)) => {
        (|| dispatch!($backend, $field, $call($($arg),*)))()
    };
}

fn slow(field: Field) -> reference::Field {
    reference::Field {
        bits: field.bits(),
        low: u128::from(field.modulus()),
    }
}

/// Elements that look random.
fn elements(field: Field, seed: u128, n: usize) -> Vec<u128> {
    let mut state = seed | 1;
    let next = |_| {
        state = state
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(0x5851_f42d_4c95_7f2d);
        (state ^ state.rotate_right(67)) & field.mask()
    };
    (0..n).map(next).collect()
}

#[test]
fn moduli_are_the_first_irreducible_ones_of_least_weight() {
    for bits in 65..=128 {
        let field = Field::new(bits);
        assert_eq!(
            slow(field).low,
            reference::Field::new(bits).low,
            "{bits} bits"
        );
        // One fold needs room below, two folds need a first result of at most 128 bits.
        assert!(field.folds_once() || bits + field.modulus().ilog2() <= 128);
        assert!(field.folds_once() || bits <= 90);
    }
}

#[test]
fn products_match_the_definition_in_every_field() {
    for bits in 65..=128 {
        let field = Field::new(bits);
        let mut a = elements(field, u128::from(bits), 37);
        let mut b = elements(field, u128::from(bits) << 64, 37);
        a[..4].copy_from_slice(&[0, 1, field.mask(), 1 << (bits - 1)]);
        b[..4].copy_from_slice(&[field.mask(), field.mask(), field.mask(), 1 << (bits - 1)]);
        let products: Vec<u128> = a
            .iter()
            .zip(&b)
            .map(|(a, b)| slow(field).multiply(*a, *b))
            .collect();
        for backend in Backend::ALL {
            for n in [0, 1, 3, 4, 5, 37] {
                let mut p = a[..n].to_vec();
                run!(backend, field, multiply_assign(&mut p, &b[..n]));
                assert_eq!(p, products[..n], "{bits} bits, {backend:?}");
                let mut p = b[..n].to_vec();
                run!(backend, field, scale_assign(&mut p, a[5]));
                for (p, b) in p.iter().zip(&b) {
                    assert_eq!(*p, slow(field).multiply(a[5], *b));
                }
            }
            assert_eq!(run!(backend, field, multiply(a[7], b[7])), products[7]);
        }
    }
}

#[test]
fn inverses_multiply_to_one_in_every_field() {
    for bits in 65..=128 {
        let field = Field::new(bits);
        for backend in Backend::ALL {
            for n in [0, 1, 15, 16, 17, 50] {
                let mut values = elements(field, u128::from(bits), n);
                let mut inverses = values.clone();
                assert!(run!(backend, field, invert_all(&mut inverses)));
                for (v, i) in values.iter().zip(&inverses) {
                    assert_eq!(field.multiply(Backend::Portable, *v, *i), 1);
                }
                for zero in [0, n / 2, n.saturating_sub(1)] {
                    if n > 0 {
                        values[zero] = 0;
                        let mut inverses = values.clone();
                        assert!(!run!(backend, field, invert_all(&mut inverses)));
                        values[zero] = 1;
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn products_match_the_definition(bits in 65u32..=128, a: u128, b: u128) {
        let field = Field::new(bits);
        let (a, b) = (a & field.mask(), b & field.mask());
        for backend in Backend::ALL {
            prop_assert_eq!(run!(backend, field, multiply(a, b)), slow(field).multiply(a, b));
        }
    }

    #[test]
    fn transforms_evaluate(bits in 65u32..=128, log in 0u32..7, blocks in 1usize..4, seed: u128, high in 0u64..4) {
        let field = Field::new(bits);
        let transform = Transform::new(field);
        let n = 1usize << log;
        let data = elements(field, seed, n * blocks);
        let coset = high << log | 1 << 40;
        let points: Vec<u128> = (0..n as u64).map(|i| u128::from(coset ^ i)).collect();
        let expected: Vec<u128> = data
            .chunks(n)
            .flat_map(|block| points.iter().map(|x| slow(field).evaluate(block, *x)).collect::<Vec<_>>())
            .collect();
        for backend in Backend::ALL {
            let mut values = data.clone();
            run!(backend, field, forward(&mut values, log, &transform, coset));
            prop_assert_eq!(&values, &expected);
            let repeated: Vec<u128> = (0..blocks).flat_map(|_| points.clone()).collect();
            let mut direct = vec![0; n * blocks];
            run!(backend, field, evaluate_blocks(&data, log, log, &repeated, &transform, &mut direct));
            prop_assert_eq!(&direct, &expected);
            run!(backend, field, inverse(&mut values, log, &transform, coset));
            prop_assert_eq!(&values, &data);
        }
    }

    #[test]
    fn subspace_polynomials_match_the_definition(bits in 65u32..=128, i in 0u32..6, index: u64) {
        let field = Field::new(bits);
        let transform = Transform::new(field);
        prop_assert_eq!(
            transform.subspace_value(i, index),
            slow(field).subspace_value(i, u128::from(index))
        );
        prop_assert_eq!(transform.subspace_value(i, 1 << i), 1);
    }

    #[test]
    fn bins_match_the_definition(bits in 65u32..=128, size in 1usize..12, bins in 0usize..11, seed: u128) {
        let field = Field::new(bits);
        let n = size * bins;
        let points = elements(field, seed, n);
        let values = elements(field, !seed, SLICES * n);
        let values: [&[u128]; SLICES] = std::array::from_fn(|s| &values[s * n..][..n]);
        for backend in Backend::ALL {
            let mut out = vec![vec![0; n]; SLICES];
            let [a, b, c, d] = &mut out[..] else { unreachable!() };
            prop_assert!(run!(backend, field, interpolate_bins(size, &points, values, [a, b, c, d])));
            for (values, out) in values.iter().zip(&out) {
                for ((x, y), bin) in points.iter().zip(*values).zip(0..) {
                    let coefficients = &out[bin / size * size..][..size];
                    prop_assert_eq!(slow(field).evaluate_monomial(coefficients, *x), *y);
                }
            }
            // As many points per bin as its number.
            let asked: Vec<u32> = (0..bins as u32).flat_map(|b| (0..b).map(move |_| b)).collect();
            let others = elements(field, seed ^ 77, asked.len());
            let coefficients = std::array::from_fn(|s| &out[s][..]);
            let mut got = vec![vec![0; asked.len()]; SLICES];
            let [a, b, c, d] = &mut got[..] else { unreachable!() };
            run!(backend, field, evaluate_bins(size, coefficients, &asked, &others, [a, b, c, d]));
            for (got, out) in got.iter().zip(&out) {
                for ((bin, x), got) in asked.iter().zip(&others).zip(got) {
                    let coefficients = &out[*bin as usize * size..][..size];
                    prop_assert_eq!(slow(field).evaluate_monomial(coefficients, *x), *got);
                }
            }
            if size > 1 && bins > 0 {
                let mut points = points.clone();
                points[n - 1] = points[n - 2];
                let [a, b, c, d] = &mut out[..] else { unreachable!() };
                prop_assert!(!run!(backend, field, interpolate_bins(size, &points, values, [a, b, c, d])));
            }
        }
    }
}

/// Sizes at which transforms split, with several blocks, in a field of each kind.
#[test]
fn large_transforms_agree_between_versions() {
    for bits in [73, 105] {
        let field = Field::new(bits);
        let transform = Transform::new(field);
        let data = elements(field, 5, 1 << 13);
        for log in [13, 12, 11, 10, 7] {
            let mut portable = data.clone();
            let coset = 3 << 13 | 1 << 40;
            transform.forward(Backend::Portable, &mut portable, log, coset);
            // The last value, by itself.
            let point = u128::from(coset ^ ((1 << log) - 1));
            let mut direct = [0];
            let block = &data[data.len() - (1 << log)..];
            transform.evaluate_blocks(Backend::Portable, block, log, 0, &[point], &mut direct);
            assert_eq!(portable.last(), direct.last());
            for backend in Backend::ALL {
                let mut values = data.clone();
                run!(backend, field, forward(&mut values, log, &transform, coset));
                assert_eq!(values, portable, "{bits} bits, 2^{log}, {backend:?}");
                run!(backend, field, inverse(&mut values, log, &transform, coset));
                assert_eq!(values, data, "{bits} bits, 2^{log}, {backend:?}");
            }
        }
    }
}
