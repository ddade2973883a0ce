//! Key agreement on Curve25519 in which one side's public keys look like random strings, and hashing to
//! the curve.
//!
//! **Encoded keys.** Elligator encodes about half of all points of the curve as strings that are uniform, but
//! only if the point itself is uniform on the *whole* curve, of order 8ℓ. A point of the subgroup of order ℓ
//! is recognisable: whoever decodes the string can test membership, which random strings pass one time in
//! eight. So keys are multiples of a base point of full order, k·(B + L) with L of order 8 and k uniform
//! modulo 8ℓ; the coordinate sign and the two unused bits are random. The other side's secret is a multiple
//! of 8, which removes the component of low order, and so is 8·k on this side.

use std::sync::OnceLock;

use curve25519_dalek::{EdwardsPoint, Scalar};
use rand_core::CryptoRng;
use sha2::{Digest, Sha512};
use vesica_kernels::Backend;
use vesica_kernels::curve25519 as kernel;
pub use vesica_kernels::curve25519::Bytes32;
use vesica_kernels::curve25519::Multiples;
use zeroize::Zeroizing;

/// u-coordinate of B + L: the base point of RFC 7748 plus a point of order 8.
const FULL_ORDER_BASE: Bytes32 = [
    0xbb, 0x72, 0x31, 0x21, 0x70, 0xe8, 0x15, 0x6f, 0x7a, 0x83, 0x63, 0x13, 0xf8, 0x5b, 0xee, 0x9b,
    0x1f, 0xdc, 0xe9, 0x26, 0xba, 0x98, 0x04, 0xa2, 0x9e, 0x8d, 0x13, 0x7e, 0xc6, 0x7f, 0x25, 0x33,
];

/// The multiples of that point.
fn full_order_base() -> &'static Multiples {
    static TABLE: OnceLock<Multiples> = OnceLock::new();
    TABLE.get_or_init(|| Multiples::new(&FULL_ORDER_BASE).expect("a point of the curve"))
}

/// Keys from which on a table of the peer's point pays.
const TABLE_FROM: usize = 64;

/// Scalars tried at a time when making encoded keys; bounds the memory for secrets in use.
const BATCH: usize = 4096;

/// Why a public key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.problem())]
#[non_exhaustive]
pub enum BadPoint {
    /// Not the canonical encoding of a field element.
    NotCanonical,
    /// A point of the quadratic twist.
    NotOnCurve,
    /// A point whose order divides 8.
    LowOrder,
}

impl BadPoint {
    /// What is wrong, for an error that names the message.
    pub fn problem(self) -> &'static str {
        match self {
            BadPoint::NotCanonical => "not a canonical field element",
            BadPoint::NotOnCurve => "not a point of the curve",
            BadPoint::LowOrder => "a point of low order",
        }
    }
}

/// 8·s, below 8ℓ.
fn times_eight(s: &Scalar) -> Zeroizing<Bytes32> {
    let bytes = Zeroizing::new(s.to_bytes());
    let mut shifted = Zeroizing::new([0; 32]);
    for i in 0..32 {
        let below = if i == 0 { 0 } else { bytes[i - 1] >> 5 };
        shifted[i] = bytes[i] << 3 | below;
    }
    shifted
}

/// Key pairs (8·k, Elligator(k·(B + L))), made before items or peer are known. Use each once.
pub struct EncodedKeys {
    secrets: Zeroizing<Vec<Bytes32>>,
    /// Not secret by themselves, but what they are combined with may be.
    representatives: Zeroizing<Vec<Bytes32>>,
}

impl EncodedKeys {
    /// Makes `count` pairs; about two multiplications each. Time depends on which points have a
    /// representative, which says nothing about those that do.
    pub fn generate(count: usize, rng: &mut dyn CryptoRng) -> Self {
        let mut secrets = Zeroizing::new(Vec::with_capacity(count));
        let mut representatives = Zeroizing::new(Vec::with_capacity(count));
        while representatives.len() < count {
            // A little more than twice as many as needed, so that another round is rare.
            let missing = count - representatives.len();
            let tries = (2 * missing + missing / 8 + 16).min(BATCH);
            let mut scalars = Zeroizing::new(vec![[0u8; 32]; tries]);
            rng.fill_bytes(scalars.as_flattened_mut());
            let mut bits = vec![0u8; tries];
            rng.fill_bytes(&mut bits);
            // 8ℓ lies within 2^128 of 2^255: 255 random bits are uniform modulo 8ℓ up to 2^-127.
            scalars.iter_mut().for_each(|s| s[31] &= 0x7f);
            let signs: Vec<u8> = bits.iter().map(|b| b & 1).collect();
            let mut encoded = vec![[0; 32]; tries];
            let mut found = vec![0; tries];
            kernel::multiply_and_encode(
                Backend::Best,
                &scalars,
                full_order_base(),
                &signs,
                &mut encoded,
                &mut found,
            );
            for i in (0..tries).filter(|i| found[*i] == 1).take(missing) {
                let k = Zeroizing::new(Scalar::from_bytes_mod_order(scalars[i]));
                secrets.push(*times_eight(&k));
                let mut representative = encoded[i];
                representative[31] |= bits[i] & 0xc0;
                representatives.push(representative);
            }
        }
        EncodedKeys {
            secrets,
            representatives,
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.representatives.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.representatives.is_empty()
    }

    /// The public halves: strings that are uniform up to 2^-127.
    pub fn representatives(&self) -> &[Bytes32] {
        &self.representatives
    }

    /// The secrets agreed with the owner of `public`, one per pair.
    ///
    /// Fails if `public` is not a point of the curve of order above 8.
    pub fn agree(&self, public: &Bytes32) -> Result<Zeroizing<Vec<Bytes32>>, BadPoint> {
        check_public(public)?;
        let mut shared = Zeroizing::new(vec![[0; 32]; self.len()]);
        let table = (self.len() >= TABLE_FROM).then(|| Multiples::new(public));
        if let Some(table) = table.flatten() {
            kernel::multiply_one_point(Backend::Best, &self.secrets, &table, &mut shared);
        } else {
            let points = vec![*public; self.len()];
            kernel::multiply(Backend::Best, &self.secrets, &points, &mut shared);
        }
        Ok(shared)
    }
}

/// Refuses what no honest party sends as a public key.
fn check_public(public: &Bytes32) -> Result<(), BadPoint> {
    if !kernel::is_canonical(public) {
        return Err(BadPoint::NotCanonical);
    }
    if !kernel::is_on_curve(public) {
        return Err(BadPoint::NotOnCurve);
    }
    let mut cleared = [[0; 32]];
    kernel::multiply_by_one_scalar(Backend::Best, &EIGHT, &[*public], &mut cleared);
    if cleared[0] == [0; 32] {
        return Err(BadPoint::LowOrder);
    }
    Ok(())
}

const EIGHT: Bytes32 = {
    let mut eight = [0; 32];
    eight[0] = 8;
    eight
};

/// The other side's key: one secret for many encoded keys.
pub struct PlainKey {
    /// 8·a.
    secret: Zeroizing<Bytes32>,
    public: Bytes32,
}

impl PlainKey {
    /// A fresh key.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        let a = Zeroizing::new(random_scalar(rng));
        PlainKey {
            secret: times_eight(&a),
            public: EdwardsPoint::mul_base(&a).to_montgomery().to_bytes(),
        }
    }

    /// a·B.
    pub fn public(&self) -> &Bytes32 {
        &self.public
    }

    /// The secrets agreed with the owners of the keys behind any strings.
    pub fn agree(&self, representatives: &[Bytes32]) -> Zeroizing<Vec<Bytes32>> {
        let mut points = vec![[0; 32]; representatives.len()];
        kernel::decode(Backend::Best, representatives, &mut points);
        let mut shared = Zeroizing::new(vec![[0; 32]; points.len()]);
        kernel::multiply_by_one_scalar(Backend::Best, &self.secret, &points, &mut shared);
        shared
    }
}

/// Uniform among the non-zero scalars, up to 2^-252.
fn random_scalar(rng: &mut dyn CryptoRng) -> Scalar {
    let mut wide = Zeroizing::new([0u8; 64]);
    rng.fill_bytes(&mut *wide);
    Scalar::from_bytes_mod_order_wide(&wide)
}

/// A secret exponent of the subgroup of order ℓ, and its inverse.
pub struct Exponent {
    scalar: Zeroizing<Scalar>,
}

impl Exponent {
    /// A fresh exponent.
    pub fn generate(rng: &mut dyn CryptoRng) -> Self {
        Exponent {
            scalar: Zeroizing::new(random_scalar(rng)),
        }
    }

    /// u(8·e·P) for each point P: of order ℓ for every P, or 0 exactly if P had low order.
    pub fn raise(&self, points: &[Bytes32]) -> Vec<Bytes32> {
        raise(&times_eight(&self.scalar), points)
    }

    /// u(64·e·P): the result of both parties' [`Exponent::raise`], without the other party's exponent.
    pub fn raise_twice_cleared(&self, points: &[Bytes32]) -> Vec<Bytes32> {
        let eight_times = Zeroizing::new(*self.scalar * Scalar::from(8u8));
        raise(&times_eight(&eight_times), points)
    }

    /// u(e⁻¹·P) for points of order ℓ; components of low order are removed, so that 0 results exactly if P
    /// had low order.
    pub fn remove(&self, points: &[Bytes32]) -> Vec<Bytes32> {
        let eight_times = Zeroizing::new(*self.scalar * Scalar::from(8u8));
        let inverse = Zeroizing::new(eight_times.invert());
        raise(&times_eight(&inverse), points)
    }
}

fn raise(scalar: &Bytes32, points: &[Bytes32]) -> Vec<Bytes32> {
    let mut out = vec![[0; 32]; points.len()];
    kernel::multiply_by_one_scalar(Backend::Best, scalar, points, &mut out);
    out
}

/// Whether a received u-coordinate is the canonical encoding of a field element.
pub fn is_canonical(u: &Bytes32) -> bool {
    kernel::is_canonical(u)
}

/// Maps each message to the curve as the suite `curve25519_XMD:SHA-512_ELL2_NU_` of RFC 9380 does, except for
/// the last step: the cofactor is left to the multiplication by 8·e that follows anyway.
///
/// # Panics
/// If `domain` is empty or longer than 255 bytes.
pub fn map_to_curve<'a>(
    messages: impl ExactSizeIterator<Item = &'a [u8]>,
    domain: &[u8],
) -> Vec<Bytes32> {
    let elements: Vec<Bytes32> = messages.map(|m| hash_to_field(m, domain)).collect();
    let mut points = vec![[0; 32]; elements.len()];
    kernel::map_to_curve(Backend::Best, &elements, &mut points);
    points
}

/// `hash_to_field` of RFC 9380, section 5.2, for one element modulo 2^255 − 19: below 2^255, not
/// necessarily reduced.
fn hash_to_field(message: &[u8], domain: &[u8]) -> Bytes32 {
    let bytes = expand_message_xmd(message, domain);
    // 48 bytes, big-endian; 2^256 is 38.
    let mut words = [0u64; 6];
    for (word, bytes) in words.iter_mut().rev().zip(bytes.chunks_exact(8)) {
        let mut b = [0; 8];
        b.copy_from_slice(bytes);
        *word = u64::from_be_bytes(b);
    }
    let mut low = [words[0], words[1], words[2], words[3]];
    let mut carry = 0u128;
    for (i, word) in low.iter_mut().enumerate() {
        let high = if i < 2 { u128::from(words[4 + i]) } else { 0 };
        let sum = u128::from(*word) + 38 * high + carry;
        *word = sum as u64;
        carry = sum >> 64;
    }
    // What stands above 255 bits, times 19, twice: the second time nothing can be left over.
    let mut top = u64::try_from(carry << 1).unwrap_or(0) | low[3] >> 63;
    for _ in 0..2 {
        low[3] &= u64::MAX >> 1;
        let mut carry = u128::from(top) * 19;
        for word in &mut low {
            let sum = u128::from(*word) + carry;
            *word = sum as u64;
            carry = sum >> 64;
        }
        top = low[3] >> 63;
    }
    let mut out = [0; 32];
    for (bytes, word) in out.chunks_exact_mut(8).zip(low) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// `expand_message_xmd` of RFC 9380, section 5.3.1, with SHA-512 and 48 bytes of output.
fn expand_message_xmd(message: &[u8], domain: &[u8]) -> [u8; 48] {
    assert!(!domain.is_empty() && domain.len() <= 255);
    let mut domain_prime = domain.to_vec();
    domain_prime.push(domain.len() as u8);
    let b0 = Sha512::new()
        .chain_update([0; 128])
        .chain_update(message)
        .chain_update([0, 48, 0])
        .chain_update(&domain_prime)
        .finalize();
    let b1 = Sha512::new()
        .chain_update(b0)
        .chain_update([1])
        .chain_update(&domain_prime)
        .finalize();
    std::array::from_fn(|i| b1[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use chacha20::ChaCha12Rng;
    use curve25519_dalek::MontgomeryPoint;
    use curve25519_dalek::constants::{ED25519_BASEPOINT_POINT, EIGHT_TORSION, X25519_BASEPOINT};
    use rand_core::SeedableRng;

    fn rng(seed: u64) -> ChaCha12Rng {
        ChaCha12Rng::seed_from_u64(seed)
    }

    #[test]
    fn the_base_point_has_full_order() {
        let sum = ED25519_BASEPOINT_POINT + EIGHT_TORSION[1];
        assert_eq!(sum.to_montgomery().to_bytes(), FULL_ORDER_BASE);
    }

    #[test]
    fn both_sides_agree() {
        // By the ladder, and from a table.
        for count in [TABLE_FROM - 1, TABLE_FROM] {
            let keys = EncodedKeys::generate(count, &mut rng(1));
            let plain = PlainKey::generate(&mut rng(2));
            let here = keys.agree(plain.public()).unwrap();
            let there = plain.agree(keys.representatives());
            assert_eq!(*here, *there);
            let distinct: std::collections::HashSet<_> = here.iter().collect();
            assert_eq!(distinct.len(), count);
        }
        assert!(EncodedKeys::generate(0, &mut rng(1)).is_empty());
    }

    /// The coset of a point: ℓ·P, one of the eight points of low order. Strings made from points of the
    /// subgroup alone would all fall into one of eight.
    #[test]
    fn encoded_keys_hit_all_cosets_evenly() {
        let n = 4000u32;
        let keys = EncodedKeys::generate(n as usize, &mut rng(3));
        let spread = coset_counts(keys.representatives());
        for (coset, count) in spread.iter().enumerate() {
            // Six standard deviations of a count with probability 1/8.
            assert!(count.abs_diff(n / 8) < 126, "coset {coset}: {spread:?}");
        }

        // The test sees what it is there to see: keys k·B of the subgroup land in one coset only.
        let mut scalars = vec![[0u8; 32]; 64];
        for (i, s) in scalars.iter_mut().enumerate() {
            rand_core::Rng::fill_bytes(&mut rng(i as u64), s);
            s[31] &= 0x0f;
        }
        let (mut encoded, mut found) = (vec![[0; 32]; 64], vec![0; 64]);
        kernel::multiply_and_encode(
            Backend::Best,
            &scalars,
            &Multiples::new(&X25519_BASEPOINT.to_bytes()).unwrap(),
            &[0; 64],
            &mut encoded,
            &mut found,
        );
        let clean: Vec<Bytes32> = (0..64)
            .filter(|i| found[*i] == 1)
            .map(|i| encoded[i])
            .collect();
        let counts = coset_counts(&clean);
        assert_eq!(counts.iter().filter(|c| **c > 0).count(), 1, "{counts:?}");
    }

    /// Counts over the eight cosets of the prime-order subgroup.
    fn coset_counts(representatives: &[Bytes32]) -> [u32; 8] {
        let order_minus_one = -Scalar::ONE;
        let mut points = vec![[0; 32]; representatives.len()];
        kernel::decode(Backend::Best, representatives, &mut points);
        let mut counts = [0; 8];
        for (u, r) in points.iter().zip(representatives) {
            // Both points over one u are equally likely; take the one that a bit of the string picks.
            let point = MontgomeryPoint(*u).to_edwards(r[0] & 1).unwrap();
            let low = point * order_minus_one + point;
            let coset = EIGHT_TORSION.iter().position(|t| *t == low).unwrap();
            counts[coset] += 1;
        }
        counts
    }

    /// Which of the two formulas of inverse Elligator a string came from shows to whoever decodes it: it
    /// is decided by the sign of v, which must therefore be random.
    #[test]
    fn encoded_keys_come_from_both_signs_evenly() {
        let n = 4000usize;
        let keys = EncodedKeys::generate(n, &mut rng(10));
        let first = from_the_first_formula(keys.representatives());
        // Six standard deviations of a fair coin.
        assert!(first.abs_diff(n / 2) < 190, "{first} of {n}");

        // One sign alone gives one formula alone, which is what the count above would show.
        for sign in [0, 1] {
            let scalars: Vec<Bytes32> = (0..64).map(|i| [i + 1; 32]).collect();
            let (mut encoded, mut found) = (vec![[0; 32]; 64], vec![0; 64]);
            kernel::multiply_and_encode(
                Backend::Best,
                &scalars,
                full_order_base(),
                &[sign; 64],
                &mut encoded,
                &mut found,
            );
            let found: Vec<Bytes32> = (0..64)
                .filter(|i| found[*i] == 1)
                .map(|i| encoded[i])
                .collect();
            let first = from_the_first_formula(&found);
            assert!(first == 0 || first == found.len(), "{first}");
            assert!(found.len() > 10);
        }
    }

    /// Counts the strings r that decode to −A/(1 + 2r²) itself.
    fn from_the_first_formula(representatives: &[Bytes32]) -> usize {
        let mut points = vec![[0; 32]; representatives.len()];
        kernel::decode(Backend::Best, representatives, &mut points);
        let pairs = points.iter().zip(representatives);
        pairs
            .filter(|(u, r)| vesica_reference::curve::is_first_elligator_value(r, u))
            .count()
    }

    #[test]
    fn bits_of_encodings_are_unbiased() {
        let n = 8000u32;
        let keys = EncodedKeys::generate(n as usize, &mut rng(4));
        for bit in 0..256 {
            let ones = keys
                .representatives()
                .iter()
                .filter(|r| r[bit / 8] >> (bit % 8) & 1 == 1)
                .count() as u32;
            // Six standard deviations of a fair coin.
            assert!(ones.abs_diff(n / 2) < 269, "bit {bit}: {ones} of {n}");
        }
    }

    #[test]
    fn bad_public_keys_are_refused() {
        let keys = EncodedKeys::generate(1, &mut rng(5));
        for torsion in EIGHT_TORSION {
            let u = torsion.to_montgomery().to_bytes();
            assert_eq!(keys.agree(&u).unwrap_err(), BadPoint::LowOrder);
        }
        let mut twist = [0; 32];
        twist[0] = 2;
        assert_eq!(keys.agree(&twist).unwrap_err(), BadPoint::NotOnCurve);
        let mut unreduced = [0xff; 32];
        assert_eq!(keys.agree(&unreduced).unwrap_err(), BadPoint::NotCanonical);
        unreduced[31] = 0x7f;
        assert_eq!(keys.agree(&unreduced).unwrap_err(), BadPoint::NotCanonical);
    }

    /// A key with a component of low order agrees all the same: both sides clear it.
    #[test]
    fn torsion_in_a_public_key_changes_nothing() {
        let keys = EncodedKeys::generate(10, &mut rng(6));
        let plain = PlainKey::generate(&mut rng(7));
        let point = MontgomeryPoint(*plain.public()).to_edwards(0).unwrap();
        let clean = keys.agree(plain.public()).unwrap();
        for torsion in EIGHT_TORSION {
            let dirty = (point + torsion).to_montgomery().to_bytes();
            assert_eq!(*keys.agree(&dirty).unwrap(), *clean);
        }
    }

    #[test]
    fn exponents_commute_and_invert() {
        let points = map_to_curve([b"a".as_slice(), b"b"].into_iter(), b"test");
        let (a, b) = (
            Exponent::generate(&mut rng(8)),
            Exponent::generate(&mut rng(9)),
        );
        let blinded = b.raise(&points);
        let unblinded = b.remove(&a.raise(&blinded));
        assert_eq!(unblinded, a.raise_twice_cleared(&points));
        assert_ne!(unblinded[0], unblinded[1]);
    }

    /// RFC 9380 fixes the suite on the Edwards curve by way of this map; dalek implements it.
    #[test]
    fn hashing_matches_dalek() {
        let domain = b"QUUX-V01-CS02-with-curve25519_XMD:SHA-512_ELL2_NU_";
        for message in [
            b"".as_slice(),
            b"abc",
            b"abcdef0123456789",
            &[b'q'; 133],
            &[b'a'; 512],
        ] {
            let mapped = map_to_curve([message].into_iter(), domain);
            let mut cleared = [[0; 32]];
            kernel::multiply_by_one_scalar(Backend::Best, &EIGHT, &mapped, &mut cleared);
            let expected = EdwardsPoint::encode_to_curve::<Sha512>(&[message], &[domain]);
            assert_eq!(cleared[0], expected.to_montgomery().to_bytes());
        }
    }
}
