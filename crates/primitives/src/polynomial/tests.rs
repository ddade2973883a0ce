use super::*;
use chacha20::ChaCha12Rng;
use proptest::prelude::*;
use rand_core::{Rng, SeedableRng};
use vesica_kernels::binary::cantor_element;
use vesica_reference::field;

pub(super) fn random_bits(bits: u32, n: usize, rng: &mut ChaCha12Rng) -> Vec<u128> {
    let half = |rng: &mut ChaCha12Rng| u128::from(rng.next_u64());
    (0..n)
        .map(|_| (half(rng) << 64 | half(rng)) >> (128 - bits))
        .collect()
}

fn random(n: usize, rng: &mut ChaCha12Rng) -> Vec<Element> {
    (0..n)
        .map(|_| std::array::from_fn(|_| rng.next_u64()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn small_cases_match_the_reference(n in 1usize..40, m in 0usize..50, seed: u64) {
        let mut rng = ChaCha12Rng::seed_from_u64(seed);
        let (points, values) = (random(n, &mut rng), random(n, &mut rng));
        let coefficients = interpolate(&points, &values).unwrap();
        prop_assert_eq!(coefficients.len(), n);
        let others = random(m, &mut rng);
        let got = evaluate(&coefficients, &others).unwrap();
        for (x, y) in others.iter().zip(&got).step_by(7) {
            prop_assert_eq!(*y, field::evaluate(&coefficients, *x));
            prop_assert_eq!(*y, field::lagrange_at(&points, &values, *x));
        }
    }
}

/// Sizes around every power of two, and unequal ones: what was put in comes out.
#[test]
fn interpolation_and_evaluation_invert_each_other() {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut sizes = vec![1, 2, 3, 100, 1000];
    for k in 2..11 {
        sizes.extend([(1 << k) - 1, 1 << k, (1 << k) + 1]);
    }
    for n in sizes {
        let (points, values) = (random(n, &mut rng), random(n, &mut rng));
        let coefficients = interpolate(&points, &values).unwrap();
        assert_eq!(evaluate(&coefficients, &points).unwrap(), values, "{n}");
    }
}

#[test]
fn unequal_sizes_match_the_reference() {
    let mut rng = ChaCha12Rng::seed_from_u64(2);
    for (n, m) in [
        (1, 700),
        (33, 700),
        (700, 33),
        (2000, 40),
        (300, 1100),
        (700, 1),
        (257, 64),
    ] {
        let coefficients = random(n, &mut rng);
        let points = random(m, &mut rng);
        let values = evaluate(&coefficients, &points).unwrap();
        for i in (0..m).step_by(1 + m / 20) {
            assert_eq!(
                values[i],
                field::evaluate(&coefficients, points[i]),
                "{n} {m}"
            );
        }
    }
}

#[test]
fn points_that_cannot_be_used_are_errors() {
    let mut rng = ChaCha12Rng::seed_from_u64(3);
    let mut points = random(50, &mut rng);
    points[49] = points[3];
    assert_eq!(interpolate(&points, &points), Err(Error::RepeatedPoint));
    points[49] = [cantor_element(COSET ^ 5), 0, 0, 0];
    assert_eq!(interpolate(&points, &points), Err(Error::ReservedPoint));
    // Zero is an ordinary point.
    points[49] = [0; 4];
    let coefficients = interpolate(&points, &points).unwrap();
    assert_eq!(evaluate(&coefficients, &[[0; 4]]).unwrap(), [[0; 4]]);
}

#[test]
fn a_random_polynomial_looks_uniform() {
    // Coefficients of an interpolation of uniform values: bits are balanced, whatever the points.
    let mut rng = ChaCha12Rng::seed_from_u64(4);
    let points: Vec<Element> = (1..=512).map(|i| [i, 0, 0, 0]).collect();
    let coefficients = interpolate(&points, &random(512, &mut rng)).unwrap();
    let ones: u32 = coefficients.iter().flatten().map(|w| w.count_ones()).sum();
    let bits = 512 * 256;
    // Six standard deviations.
    assert!(ones.abs_diff(bits / 2) < 6 * 182, "{ones} of {bits}");
}

#[test]
fn bytes_and_elements_convert() {
    let bytes: [u8; 32] = std::array::from_fn(|i| i as u8);
    assert_eq!(element_to_bytes(&element_from_bytes(&bytes)), bytes);
    assert_eq!(element_from_bytes(&bytes)[0], 0x0706_0504_0302_0100);
}

/// The same over GF(2^k), whose ŝ_i are neither monic nor have the derivative 1.
mod gf2k {
    use super::*;
    use vesica_reference::gf2k as reference;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn small_cases_match_the_reference(bits in 65u32..=128, n in 1usize..40, m in 0usize..50, seed: u64) {
            let mut rng = ChaCha12Rng::seed_from_u64(seed);
            let (field, slow) = (Gf2k::new(bits), reference::Field::new(bits));
            let points = random_bits(bits, n, &mut rng);
            let values = random_bits(bits, n, &mut rng);
            let coefficients = Interpolator::new(&field, &points).unwrap().interpolate(&values);
            prop_assert_eq!(coefficients.len(), n);
            let others = random_bits(bits, m, &mut rng);
            let got = Evaluator::new(&field, &others, n).unwrap().evaluate(&coefficients);
            for (x, y) in others.iter().zip(&got).step_by(7) {
                prop_assert_eq!(*y, slow.evaluate(&coefficients, *x));
                prop_assert_eq!(*y, slow.lagrange_at(&points, &values, *x));
            }
        }
    }

    /// Sizes around every power of two, and unequal ones: what was put in comes out, several times.
    #[test]
    fn interpolation_and_evaluation_invert_each_other() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        let mut sizes = vec![0, 1, 2, 3, 100, 1000, 20_000];
        for k in 2..15 {
            sizes.extend([(1 << k) - 1, 1 << k, (1 << k) + 1]);
        }
        for (n, bits) in sizes.into_iter().zip((65..=128).cycle()) {
            let field = Gf2k::new(bits);
            let points = random_bits(bits, n, &mut rng);
            let interpolator = Interpolator::new(&field, &points).unwrap();
            let evaluator = Evaluator::new(&field, &points, n).unwrap();
            for _ in 0..2 {
                let values = random_bits(bits, n, &mut rng);
                let coefficients = interpolator.interpolate(&values);
                assert_eq!(evaluator.evaluate(&coefficients), values, "{n} {bits}");
            }
        }
    }

    #[test]
    fn unequal_sizes_match_the_reference() {
        let mut rng = ChaCha12Rng::seed_from_u64(2);
        for (n, m, bits) in [
            (1, 700, 104),
            (33, 5000, 105),
            (700, 33, 106),
            (2000, 40, 107),
            (300, 1100, 108),
            (2148, 2000, 108),
            (2500, 2048, 108),
            (700, 1, 109),
            (257, 64, 110),
            (1 << 13, 1 << 9, 111),
            (13 << 9, 400, 112),
            ((13 << 9) + 3, 400, 113),
            (1 << 9, 1 << 13, 116),
            (400, 9000, 122),
            (200, 9000, 123),
        ] {
            let (field, slow) = (Gf2k::new(bits), reference::Field::new(bits));
            let coefficients = [
                random_bits(bits, n, &mut rng),
                random_bits(bits, n / 3, &mut rng),
            ];
            let points = random_bits(bits, m, &mut rng);
            let slices: Vec<&[u128]> = coefficients.iter().map(|c| &c[..]).collect();
            let values = evaluate_all(&field, &slices, &points).unwrap();
            let evaluator = Evaluator::new(&field, &points, n).unwrap();
            for (values, coefficients) in values.iter().zip(slices) {
                assert_eq!(&evaluator.evaluate(coefficients), values);
                for i in (0..m).step_by(1 + m / 5) {
                    let expected = slow.evaluate(coefficients, points[i]);
                    assert_eq!(values[i], expected, "{n} {m} {bits}");
                }
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_result() {
        let mut rng = ChaCha12Rng::seed_from_u64(5);
        let field = Gf2k::new(107);
        let n = 20_001;
        let (points, values) = (random_bits(107, n, &mut rng), random_bits(107, n, &mut rng));
        let results = [1, 3].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            pool.unwrap().install(|| {
                let interpolator = Interpolator::new(&field, &points).unwrap();
                let evaluator = Evaluator::new(&field, &points, n).unwrap();
                (
                    interpolator.interpolate(&values),
                    evaluator.evaluate(&values),
                )
            })
        });
        assert_eq!(results[0], results[1]);
    }

    #[test]
    fn a_random_polynomial_looks_uniform() {
        let mut rng = ChaCha12Rng::seed_from_u64(6);
        let field = Gf2k::new(109);
        let points: Vec<u128> = (1..=1024).collect();
        let values = random_bits(109, 1024, &mut rng);
        let coefficients = Interpolator::new(&field, &points)
            .unwrap()
            .interpolate(&values);
        let ones: u32 = coefficients.iter().map(|c| c.count_ones()).sum();
        let bits = 1024 * 109;
        // Six standard deviations.
        assert!(ones.abs_diff(bits / 2) < 6 * 168, "{ones} of {bits}");
        assert!(coefficients.iter().all(|c| *c <= field.field().mask()));
    }

    #[test]
    fn points_that_cannot_be_used_are_errors() {
        let mut rng = ChaCha12Rng::seed_from_u64(3);
        let field = Gf2k::new(105);
        let mut points = random_bits(105, 300, &mut rng);
        points[299] = points[3];
        assert_eq!(
            Interpolator::new(&field, &points).err(),
            Some(Error::RepeatedPoint)
        );
        assert!(Evaluator::new(&field, &points, 300).is_ok());
        points[299] = u128::from(COSET ^ 5);
        assert_eq!(
            Interpolator::new(&field, &points).err(),
            Some(Error::ReservedPoint)
        );
        assert_eq!(
            Evaluator::new(&field, &points, 300).err(),
            Some(Error::ReservedPoint)
        );
        // Zero is an ordinary point.
        points[299] = 0;
        let coefficients = Interpolator::new(&field, &points)
            .unwrap()
            .interpolate(&points);
        let evaluator = Evaluator::new(&field, &[0], 300).unwrap();
        assert_eq!(evaluator.evaluate(&coefficients), [0]);
    }
}
