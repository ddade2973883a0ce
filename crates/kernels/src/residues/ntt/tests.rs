use super::*;

/// A prime of 27 bits, Fermat's, one of 30 and one of 62 bits; all are 1 modulo 2^14.
const PRIMES: [u64; 4] = [
    133_857_281,
    65_537,
    1_073_692_673,
    4_611_686_018_427_322_369,
];

fn residues(p: u64, seed: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let next = |i: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        match i % 7 {
            0 => p - 1,
            1 => 0,
            _ => ((u128::from(state) * u128::from(p)) >> 64) as u64,
        }
    };
    (0..count).map(next).collect()
}

/// a·b modulo X^N + 1, coefficient by coefficient.
fn schoolbook(modulus: Modulus, a: &[u64], b: &[u64]) -> Vec<u64> {
    let n = a.len();
    let mut out = vec![0; n];
    for i in 0..n {
        for j in 0..n {
            let product = modulus.times(a[i], b[j]);
            let at = &mut out[(i + j) % n];
            *at = match i + j < n {
                true => modulus.plus(*at, product),
                false => modulus.minus(*at, product),
            };
        }
    }
    out
}

fn words<W: Word>(values: &[u64]) -> Vec<W> {
    values.iter().map(|value| W::from_u64(*value)).collect()
}

fn numbers<W: Word>(values: &[W]) -> Vec<u64> {
    values.iter().map(|value| value.to_u64()).collect()
}

fn multiplies<W: Word>(p: u64, length: usize) {
    let modulus = Modulus::new(p);
    let ntt = Ntt::<W>::new(modulus, length);
    let (a, b) = (residues(p, 1, length), residues(p, 2, length));
    let expected = schoolbook(modulus, &a, &b);
    for backend in Backend::ALL {
        let mut scratch = vec![W::default(); length];
        let mut values = |of: &[u64]| {
            let mut values = words::<W>(of);
            ntt.forward(backend, &mut values, &mut scratch);
            numbers(&values)
        };
        let (a, b) = (values(&a), values(&b));
        assert!(a.iter().all(|value| *value < p));
        let pairs = a.iter().zip(&b);
        let products: Vec<u64> = pairs.map(|(a, b)| modulus.times(*a, *b)).collect();
        let mut out = words::<W>(&products);
        ntt.inverse(backend, &mut out, &mut scratch);
        assert_eq!(numbers(&out), expected, "{p}, {length}, {backend:?}");
    }
}

#[test]
fn products_are_those_of_the_schoolbook() {
    for length in [32, 64, 256, 512] {
        for p in PRIMES {
            multiplies::<u64>(p, length);
        }
        for p in &PRIMES[..3] {
            multiplies::<u32>(*p, length);
        }
    }
}

/// Value number i is that at ψ^(2·rev(i) + 1): a second definition of the order and of the root.
#[test]
fn values_are_those_at_odd_powers_in_bit_reversed_order() {
    let (length, p) = (64, 65_537);
    let modulus = Modulus::new(p);
    let ntt = Ntt::<u32>::new(modulus, length);
    let mut x = vec![0; length];
    x[1] = 1;
    ntt.forward(Backend::Portable, &mut x, &mut vec![0; length]);
    let root = u64::from(x[0]);
    assert_eq!(modulus.power_vartime(root, length as u64), p - 1);
    for (i, value) in x.iter().enumerate() {
        let reversed = (i as u64).reverse_bits() >> (u64::BITS - length.trailing_zeros());
        assert_eq!(
            u64::from(*value),
            modulus.power_vartime(root, 2 * reversed + 1)
        );
    }
}

#[test]
fn transforms_come_back_at_full_length() {
    for length in [4096, 8192] {
        let modulus = Modulus::new(PRIMES[0]);
        let ntt = Ntt::<u32>::new(modulus, length);
        let coefficients = words::<u32>(&residues(PRIMES[0], 3, length));
        let mut portable = coefficients.clone();
        let mut scratch = vec![0; length];
        ntt.forward(Backend::Portable, &mut portable, &mut scratch);
        for backend in Backend::ALL {
            let mut x = coefficients.clone();
            ntt.forward(backend, &mut x, &mut scratch);
            assert_eq!(x, portable);
            ntt.inverse(backend, &mut x, &mut scratch);
            assert_eq!(x, coefficients);
        }
    }
}
