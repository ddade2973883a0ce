//! Rows of integers modulo an odd number of at most [`MAX_BITS`] bits: arithmetic, selection, and packing into as
//! few bits as the modulus has.
//!
//! The versions for AVX2 and AVX-512 are the portable code, compiled for wider registers. Moduli of at most 30 bits take
//! products of 32 by 32 bits. Time and addresses do not depend on the values.

use crate::Backend;
use crate::backend::first_version;

/// Maximum bits of a modulus.
pub const MAX_BITS: u32 = 63;

/// Maximum bits of a modulus whose products fit 64-bit lanes.
const NARROW_BITS: u32 = 30;

/// Residues unpacked together.
const GROUP: usize = 8;

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if available512(backend) => "avx512";
        "x86_64" if available(backend) => "avx2";
        else "portable"
    )
}

#[cfg(target_arch = "x86_64")]
fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2) && is_x86_feature_detected!("avx2")
}

#[cfg(target_arch = "x86_64")]
fn available512(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// Defines a function and versions of it for AVX2 and AVX-512.
macro_rules! versions {
    ($(#[$meta:meta])* $visibility:vis fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? $body:block) => {
        $(#[$meta])*
        $visibility fn $name(backend: Backend, $($arg: $type),*) $(-> $result)? {
            #[inline(always)]
            fn portable($($arg: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $type),*) $(-> $result)? {
                portable($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,avx512f,avx512bw,avx512dq,avx512vl")]
            fn avx512($($arg: $type),*) $(-> $result)? {
                portable($($arg),*)
            }
            first_version!(backend:
                "x86_64" if $crate::residues::available512(backend) => avx512($($arg),*);
                "x86_64" if $crate::residues::available(backend) => avx2($($arg),*);
                else portable($($arg),*)
            )
        }
    };
}

pub mod ntt;
pub mod rns;

use ntt::below;

/// An odd modulus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modulus {
    q: u64,
    bits: u32,
    /// ⌊2^(2·bits) / q⌋ for narrow moduli.
    barrett: u64,
    /// −1/q and 2^128, modulo 2^64 and q, for others.
    montgomery: [u64; 2],
}

impl Modulus {
    /// From an odd number above 1.
    ///
    /// # Panics
    /// If it is even, 1, or has more than [`MAX_BITS`] bits.
    pub const fn new(q: u64) -> Modulus {
        let bits = u64::BITS - q.leading_zeros();
        assert!(q % 2 == 1 && q > 1 && bits <= MAX_BITS);
        let narrow = bits <= NARROW_BITS;
        let barrett = if narrow { (1 << (2 * bits)) / q } else { 0 };
        // Newton's iteration doubles the number of right bits; an odd number is its own inverse modulo 8.
        let mut inverse = q;
        let mut i = 0;
        while i < 5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(q.wrapping_mul(inverse)));
            i += 1;
        }
        let square = (u128::MAX % q as u128 + 1) % q as u128;
        Modulus {
            q,
            bits,
            barrett,
            montgomery: [inverse.wrapping_neg(), square as u64],
        }
    }

    /// The modulus as a number.
    pub const fn get(self) -> u64 {
        self.q
    }

    /// Bits of the modulus: the width of a packed residue.
    pub const fn bits(self) -> u32 {
        self.bits
    }

    /// Bytes of `count` packed residues.
    pub const fn bytes(self, count: usize) -> usize {
        (count * self.bits as usize).div_ceil(8)
    }

    /// a·b.
    #[inline]
    pub fn times(self, a: u64, b: u64) -> u64 {
        if self.bits <= NARROW_BITS {
            below(self.narrow_product(a, b), self.q)
        } else {
            self.wide_product(a, b)
        }
    }

    /// a + b.
    #[inline]
    pub fn plus(self, a: u64, b: u64) -> u64 {
        below(a + b, self.q)
    }

    /// a − b.
    #[inline]
    pub fn minus(self, a: u64, b: u64) -> u64 {
        below(a + self.q - b, self.q)
    }

    /// a^exponent; the time depends on the exponent.
    pub fn power_vartime(self, mut a: u64, mut exponent: u64) -> u64 {
        let mut power = 1;
        while exponent > 0 {
            if exponent & 1 == 1 {
                power = self.times(power, a);
            }
            a = self.times(a, a);
            exponent >>= 1;
        }
        power
    }

    /// Congruent to a·b and below 2q: Barrett's reduction (P. Barrett, CRYPTO 1986) with a quotient that is at most
    /// 2 too small, once corrected.
    #[inline(always)]
    fn narrow_product(self, a: u64, b: u64) -> u64 {
        let product = low(a) * low(b);
        let quotient = (low(product >> (self.bits - 1)) * low(self.barrett)) >> (self.bits + 1);
        below(product - low(quotient) * low(self.q), 2 * self.q)
    }

    /// a·b: two of Montgomery's reductions (P. Montgomery, Mathematics of Computation 1985).
    #[inline(always)]
    fn wide_product(self, a: u64, b: u64) -> u64 {
        let [negative, square] = self.montgomery;
        let reduce = |t: u128| {
            let m = (t as u64).wrapping_mul(negative);
            ((t + u128::from(m) * u128::from(self.q)) >> 64) as u64
        };
        let once = reduce(u128::from(a) * u128::from(b));
        below(
            below(reduce(u128::from(once) * u128::from(square)), self.q),
            self.q,
        )
    }
}

/// The lower 32 bits: tells the compiler that a product needs only those.
#[inline(always)]
fn low(a: u64) -> u64 {
    a & 0xffff_ffff
}

versions! {
    /// `out[i] = u[i]·(x[i] + y[i]) + v[i]`, for residues.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn evaluate(modulus: Modulus, u: &[u64], x: &[u64], y: &[u64], v: &[u64], out: &mut [u64]) {
        let n = out.len();
        assert!([u.len(), x.len(), y.len(), v.len()] == [n; 4]);
        let (u, x, y, v) = (&u[..n], &x[..n], &y[..n], &v[..n]);
        let q = modulus.q;
        if modulus.bits <= NARROW_BITS {
            for i in 0..n {
                let product = modulus.narrow_product(u[i], below(x[i] + y[i], q));
                out[i] = below(below(product, q) + v[i], q);
            }
        } else {
            for i in 0..n {
                let product = modulus.wide_product(u[i], below(x[i] + y[i], q));
                out[i] = below(product + v[i], q);
            }
        }
    }
}

versions! {
    /// One step of a product by bits, for the party that knows `u`: `sum[i] += zero[i]`, `out[i] = zero[i] + u[i] −
    /// one[i]`, and `u[i]` is doubled.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn offer_bit(modulus: Modulus, zero: &[u64], one: &[u64], u: &mut [u64], sum: &mut [u64], out: &mut [u64]) {
        let n = out.len();
        assert!([zero.len(), one.len(), u.len(), sum.len()] == [n; 4]);
        let (zero, one, u, sum) = (&zero[..n], &one[..n], &mut u[..n], &mut sum[..n]);
        let q = modulus.q;
        for i in 0..n {
            sum[i] = below(sum[i] + zero[i], q);
            out[i] = below(below(zero[i] + u[i], q) + q - one[i], q);
            u[i] = below(2 * u[i], q);
        }
    }
}

versions! {
    /// The same step for the party that knows the bit: `sum[i] += key[i] + (offer[i] & mask)`, where `mask` repeats
    /// the bit.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn take_bit(modulus: Modulus, key: &[u64], offer: &[u64], mask: u64, sum: &mut [u64]) {
        let n = sum.len();
        assert!(key.len() == n && offer.len() == n);
        let (key, offer) = (&key[..n], &offer[..n]);
        let q = modulus.q;
        for i in 0..n {
            sum[i] = below(below(sum[i] + key[i], q) + (offer[i] & mask), q);
        }
    }
}

versions! {
    /// Sets every bit of `found[i]` if `a[i] == b[i]`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn mark_equal(a: &[u64], b: &[u64], found: &mut [u64]) {
        let n = found.len();
        assert!(a.len() == n && b.len() == n);
        let (a, b) = (&a[..n], &b[..n]);
        for i in 0..n {
            let difference = a[i] ^ b[i];
            // The top bit of d or −d is set unless d is 0.
            found[i] |= ((difference | difference.wrapping_neg()) >> 63).wrapping_sub(1);
        }
    }
}

versions! {
    /// Whether all values are residues.
    pub fn all_reduced(modulus: Modulus, values: &[u64]) -> bool {
        let most = values.iter().fold(0, |most, value| u64::from(*value >= modulus.q) | most);
        most == 0
    }
}

versions! {
    /// The next residue of `modulus.bits()` bits for each element of `out`, from packed ones. Bytes behind them mean
    /// nothing, but with some the last residues take no longer than the others.
    ///
    /// # Panics
    /// If there are fewer than [`Modulus::bytes`] bytes.
    pub fn unpack(modulus: Modulus, bytes: &[u8], out: &mut [u64]) {
        assert!(bytes.len() >= modulus.bytes(out.len()));
        let bits = modulus.bits as usize;
        let mask = (1 << bits) - 1;
        // Eight residues fill a whole number of bytes. Where each of them begins, in bytes and bits:
        let places: [(usize, usize); GROUP] = std::array::from_fn(|i| (i * bits / 8, i * bits % 8));
        // Bytes that hold a residue, with up to seven bits before it, and those read for a group.
        let window = if bits <= 57 { 8 } else { 16 };
        let read = places[GROUP - 1].0 + window;
        let mut rest = bytes;
        let mut groups = out.chunks_mut(GROUP);
        let padded = &mut [0; 2 * MAX_BITS as usize + 16];
        for out in &mut groups {
            let (group, more) = match rest.split_at_checked(read) {
                Some((group, _)) => (group, &rest[bits..]),
                None => {
                    padded[..rest.len()].copy_from_slice(rest);
                    padded[rest.len()..].fill(0);
                    (&padded[..read], &rest[bits.min(rest.len())..])
                }
            };
            rest = more;
            for (out, (at, shift)) in out.iter_mut().zip(places) {
                *out = if bits <= 57 {
                    let word: [u8; 8] = group[at..at + 8].try_into().expect("8 bytes");
                    u64::from_le_bytes(word) >> shift & mask
                } else {
                    let word: [u8; 16] = group[at..at + 16].try_into().expect("16 bytes");
                    (u128::from_le_bytes(word) >> shift) as u64 & mask
                };
            }
        }
    }
}

versions! {
    /// Packs residues, least significant bit first: number i has bits i·b to (i + 1)·b − 1, b being
    /// `modulus.bits()`. The rest of the last byte is 0.
    ///
    /// # Panics
    /// If there is not room for [`Modulus::bytes`] bytes exactly.
    pub fn pack(modulus: Modulus, values: &[u64], out: &mut [u8]) {
        assert_eq!(out.len(), modulus.bytes(values.len()));
        let bits = modulus.bits;
        let (mut buffer, mut filled, mut at) = (0u128, 0, 0);
        for value in values {
            buffer |= u128::from(*value) << filled;
            filled += bits;
            if filled >= 64 {
                out[at..at + 8].copy_from_slice(&(buffer as u64).to_le_bytes());
                (buffer, filled, at) = (buffer >> 64, filled - 64, at + 8);
            }
        }
        let rest = out.len() - at;
        out[at..].copy_from_slice(&buffer.to_le_bytes()[..rest]);
    }
}

/// Moves the candidates in `start..end` to the front of `out`, in order, and returns their number; what follows them
/// means nothing. The time is the same for all candidates. Addresses depend on which are rejected, and on nothing else.
///
/// # Panics
/// If `out` is not longer than `candidates`.
pub fn select(candidates: &[u64], start: u64, end: u64, out: &mut [u64]) -> usize {
    assert!(out.len() > candidates.len());
    let mut count = 0;
    for candidate in candidates {
        out[count] = *candidate;
        count += usize::from(candidate.wrapping_sub(start) < end - start);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULI: [u64; 10] = [
        3,
        251,
        16381,
        40961,
        (1 << 30) - 35,
        (1 << 30) + 3,
        (1 << 40) - 87,
        (1 << 58) - 27,
        (1 << 62) - 57,
        (1 << 63) - 25,
    ];

    /// Values at both ends, and some between.
    fn values(q: u64, seed: u64, count: usize) -> Vec<u64> {
        let mut state = seed;
        let next = |i: usize| match i % 5 {
            0 => q - 1,
            1 if i < 9 => 0,
            _ => {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                ((u128::from(state) * u128::from(q)) >> 64) as u64
            }
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn arithmetic_is_that_of_integers() {
        for q in MODULI {
            let modulus = Modulus::new(q);
            let wide = |value: u128| (value % u128::from(q)) as u64;
            for (a, b) in values(q, 1, 40).into_iter().zip(values(q, 9, 37)) {
                let (x, y) = (u128::from(a), u128::from(b));
                assert_eq!(modulus.times(a, b), wide(x * y));
                assert_eq!(modulus.plus(a, b), wide(x + y));
                assert_eq!(modulus.minus(a, b), wide(x + u128::from(q) - y));
            }
            assert_eq!(modulus.power_vartime(2 % q, 5), 32 % q);
            for backend in Backend::ALL {
                for n in [0, 1, 3, 8, 101] {
                    let [u, x, y, v] = [1, 2, 3, 4].map(|seed| values(q, seed, n));
                    let mut out = vec![0; n];
                    evaluate(backend, modulus, &u, &x, &y, &v, &mut out);
                    for i in 0..n {
                        let sum = u128::from(x[i]) + u128::from(y[i]);
                        let sum = u128::from(wide(sum));
                        assert_eq!(out[i], wide(u128::from(u[i]) * sum + u128::from(v[i])));
                    }
                }
            }
        }
    }

    /// Bit by bit, both parties end with shares of u·s.
    #[test]
    fn products_by_bits_are_shared() {
        for backend in Backend::ALL {
            for q in MODULI {
                let modulus = Modulus::new(q);
                let n = 37;
                let (u, s) = (values(q, 1, n), values(q, 2, 9)[5]);
                let (mut double, mut v, mut r) = (u.clone(), vec![0; n], vec![0; n]);
                for bit in 0..modulus.bits() {
                    let keys = [
                        values(q, 3 + u64::from(bit), n),
                        values(q, 99 + u64::from(bit), n),
                    ];
                    let mut offer = vec![0; n];
                    offer_bit(
                        backend,
                        modulus,
                        &keys[0],
                        &keys[1],
                        &mut double,
                        &mut v,
                        &mut offer,
                    );
                    let chosen = s >> bit & 1;
                    let mask = chosen.wrapping_neg();
                    take_bit(
                        backend,
                        modulus,
                        &keys[chosen as usize],
                        &offer,
                        mask,
                        &mut r,
                    );
                }
                for i in 0..n {
                    assert_eq!(r[i], modulus.plus(v[i], modulus.times(u[i], s)));
                }
            }
        }
    }

    #[test]
    fn residues_are_told_from_other_numbers() {
        for backend in Backend::ALL {
            for q in MODULI {
                let modulus = Modulus::new(q);
                let mut values = values(q, 3, 77);
                assert!(all_reduced(backend, modulus, &values));
                assert!(all_reduced(backend, modulus, &[]));
                for wrong in [q, q + 1, (1 << modulus.bits()) - 1, 1 << 63, u64::MAX] {
                    values[50] = wrong;
                    assert!(!all_reduced(backend, modulus, &values));
                }
            }
        }
    }

    #[test]
    fn packed_residues_come_back_and_have_their_bits() {
        for q in MODULI {
            let modulus = Modulus::new(q);
            for n in [0, 1, 2, 7, 8, 9, 64, 1000] {
                let values = values(q, 5, n);
                let mut bit_by_bit = vec![0u8; modulus.bytes(n)];
                for (i, value) in values.iter().enumerate() {
                    for bit in 0..modulus.bits() as usize {
                        let at = i * modulus.bits() as usize + bit;
                        bit_by_bit[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
                    }
                }
                for backend in Backend::ALL {
                    let (mut bytes, mut back) = (vec![0; modulus.bytes(n)], vec![0; n]);
                    pack(backend, modulus, &values, &mut bytes);
                    assert_eq!(bytes, bit_by_bit);
                    unpack(backend, modulus, &bytes, &mut back);
                    assert_eq!(back, values);
                    bytes.extend([0xff; 40]);
                    unpack(backend, modulus, &bytes, &mut back);
                    assert_eq!(back, values);
                }
            }
        }
    }

    #[test]
    fn equal_values_are_marked_and_marks_stay() {
        for backend in Backend::ALL {
            let a = [0, 5, u64::MAX, 1 << 63, 7, 7];
            let b = [0, 4, u64::MAX, 0, 7, 6];
            let mut found = [0, 0, 0, 0, 0, u64::MAX];
            mark_equal(backend, &a, &b, &mut found);
            assert_eq!(found, [u64::MAX, 0, u64::MAX, 0, u64::MAX, u64::MAX]);
        }
    }

    #[test]
    fn candidates_in_range_are_kept_in_order() {
        let mut out = [9; 8];
        let count = select(&[0, 7, 1, 3, 2, 9, 6], 1, 7, &mut out);
        assert_eq!(out[..count], [1, 3, 2, 6]);
    }
}
