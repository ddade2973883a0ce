//! Blocks as vectors over a small field GF(2^W), of W bits: 2 to 5, 7 or 8.
//!
//! Each of the two words of a block holds ⌊64/W⌋ elements. Plane j of a word, its bits from j·⌊64/W⌋ on, has
//! coefficient j of all its elements; bits beyond the last plane are 0. So the product of a block by an element is a
//! few shifts of whole words. α is a root of the modulus: x^W + x + 1, or x⁵ + x² + 1, or x⁸ + x⁴ + x³ + x + 1. An
//! element is the byte of its coefficients.
//!
//! In the entries of a vector oblivious linear evaluation, z = y + x·Δ, the first element of Δ is 1 and that of y is 0,
//! so that x is the first element of z. [`add_products`] is the product of a sparse matrix and a vector of blocks.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Backend;
use crate::backend::first_version;

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => "avx512";
        "x86_64" if x86::available(backend) => "avx2";
        else "portable"
    )
}

/// `out[i] += Σ_j coefficients[i][j]·base[j·n + (places[i][j] mod n)]`, the N segments of `base` having n blocks each.
/// Places and coefficients, elements of GF(2^W), must be public; W is at most 4.
///
/// # Panics
/// If the lengths differ, or n is no power of two, or `base` has 2^32 blocks or more.
pub fn add_products<const W: u32, const N: usize>(
    backend: Backend,
    base: &[u128],
    places: &[[u16; N]],
    coefficients: &[[u8; N]],
    out: &mut [u128],
) {
    const { assert!(W <= 4 && N > 0) };
    assert!(base.len().is_multiple_of(N) && (base.len() / N).is_power_of_two());
    assert!(u32::try_from(base.len()).is_ok());
    assert_eq!((places.len(), coefficients.len()), (out.len(), out.len()));
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) =>
            x86::wide::add_products::<W, N>(base, places, coefficients, out);
        "x86_64" if x86::available(backend) =>
            x86::narrow::add_products::<W, N>(base, places, coefficients, out);
        else portable::add_products::<W, N>(base, places, coefficients, out)
    )
}

/// GF(2^W), and blocks of its elements.
#[derive(Clone, Copy, Debug)]
pub struct Subfield<const W: u32>;

impl<const W: u32> Subfield<W> {
    /// Number of elements of the field.
    pub const ORDER: usize = 1 << W;

    /// Bits of a plane.
    pub const PLANE: u32 = 64 / W;

    /// The bits of a block that are in use.
    pub const MASK: u128 = u64_twice(u64::MAX >> (64 - W * Self::PLANE));

    /// The bits of a block's first element.
    const CHOICE: u128 = Self::planes(0, W);

    /// The bits of Δ that count for entries: all that are in use, and of the first element only the lowest.
    pub const ENTRY: u128 = Self::MASK & !Self::planes(1, W);

    /// The first element's bits in planes `from` to `to`.
    const fn planes(from: u32, to: u32) -> u128 {
        if from == to {
            0
        } else {
            1 << (from * Self::PLANE) | Self::planes(from + 1, to)
        }
    }

    /// The first plane of each word.
    const FIRST: u128 = u64_twice((1 << Self::PLANE) - 1);

    /// α^W, which the modulus makes of lower powers.
    const REDUCED: u8 = match W {
        2..=4 | 7 => 0b11,
        5 => 0b101,
        8 => 0b1_1011,
        _ => panic!("no modulus for this width"),
    };

    /// A block's first element.
    #[inline(always)]
    pub fn first(block: u128) -> u8 {
        (0..W).fold(0, |element, j| {
            element | ((block >> (j * Self::PLANE)) as u8 & 1) << j
        })
    }

    /// `block` with 0 as its first element, without the bits that are no element's.
    #[inline(always)]
    pub fn without_first(block: u128) -> u128 {
        block & Self::MASK & !Self::CHOICE
    }

    /// α·`block`.
    #[inline(always)]
    pub fn double(block: u128) -> u128 {
        let carries = block >> ((W - 1) * Self::PLANE) & Self::FIRST;
        let shifted = block << Self::PLANE & (Self::MASK & !Self::FIRST);
        (0..W)
            .filter(|j| Self::REDUCED >> j & 1 == 1)
            .fold(shifted, |sum, j| sum ^ carries << (j * Self::PLANE))
    }

    /// Σ α^j·`terms`\[j\], where bits of terms beyond [`ENTRY`](Subfield::ENTRY) do not count.
    #[inline(always)]
    pub fn combine(terms: &[u128]) -> u128 {
        let terms = terms.iter().rev();
        terms.fold(0, |sum, term| Self::double(sum) ^ term & Self::ENTRY)
    }

    /// `element`·`block`. The time does not depend on either.
    #[inline(always)]
    pub fn multiple(element: u8, block: u128) -> u128 {
        (0..W).rev().fold(0, |sum, j| {
            let chosen = u128::from(element >> j & 1).wrapping_neg();
            Self::double(sum) ^ (block & chosen)
        })
    }

    /// The product of two elements. The time does not depend on either.
    #[inline(always)]
    pub fn product(a: u8, b: u8) -> u8 {
        (0..W).rev().fold(0, |sum, j| {
            let carry = (sum >> (W - 1) & 1).wrapping_neg() & Self::REDUCED;
            let doubled = (u16::from(sum) << 1) as u8 & (Self::ORDER - 1) as u8;
            doubled ^ carry ^ (b & (a >> j & 1).wrapping_neg())
        })
    }
}

/// A word in both halves of a block.
const fn u64_twice(word: u64) -> u128 {
    (word as u128) << 64 | word as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Element number `e` of a block, by the definition.
    fn element<const W: u32>(block: u128, e: u32) -> u8 {
        let plane = Subfield::<W>::PLANE;
        let (word, place) = ((block >> (64 * (e / plane))) as u64, e % plane);
        (0..W).fold(0, |sum, j| {
            sum | ((word >> (j * plane + place) & 1) as u8) << j
        })
    }

    /// The product of two polynomials, reduced step by step.
    fn reference<const W: u32>(a: u8, b: u8) -> u8 {
        let modulus = 1 << W | u32::from(Subfield::<W>::REDUCED);
        let product = (0..W).fold(0, |sum, j| {
            sum ^ ((u32::from(a) << j) * u32::from(b >> j & 1))
        });
        let reduced = (W..2 * W)
            .rev()
            .fold(product, |left, j| match left >> j & 1 {
                1 => left ^ modulus << (j - W),
                _ => left,
            });
        reduced as u8
    }

    fn is_a_field_of_packed_elements<const W: u32>() {
        let all = || (0..Subfield::<W>::ORDER).map(|a| a as u8);
        assert_eq!(
            Subfield::<W>::MASK.count_ones(),
            2 * W * Subfield::<W>::PLANE
        );
        let block = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c834 & Subfield::<W>::MASK;
        for a in all() {
            let images: Vec<u8> = all().map(|b| Subfield::<W>::product(a, b)).collect();
            let expected: Vec<u8> = all().map(|b| reference::<W>(a, b)).collect();
            assert_eq!(images, expected);
            // An integral domain, and finite: a field.
            assert!(a == 0 || images.iter().filter(|image| **image == 0).count() == 1);
            let multiple = Subfield::<W>::multiple(a, block);
            assert_eq!(multiple & !Subfield::<W>::MASK, 0);
            for e in 0..2 * Subfield::<W>::PLANE {
                let factor = element::<W>(block, e);
                assert_eq!(element::<W>(multiple, e), reference::<W>(a, factor));
            }
        }
        assert_eq!(
            Subfield::<W>::double(block),
            Subfield::<W>::multiple(2, block)
        );
        let terms = [3, 1 << 9, block, 1].map(|term| term & Subfield::<W>::ENTRY);
        let sum = terms[..2].iter().zip([1, 2]);
        let sum = sum.fold(0, |sum, (term, power)| {
            sum ^ Subfield::<W>::multiple(power, *term)
        });
        assert_eq!(Subfield::<W>::combine(&terms[..2]), sum);
    }

    fn products_agree<const W: u32>() {
        let mut state = 7u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005) | 1;
            state ^= state >> 29;
            state
        };
        for segment in [1, 2, 64] {
            let base: Vec<u128> = (0..10 * segment)
                .map(|_| u64_twice(random()) ^ u128::from(random()) & Subfield::<W>::MASK)
                .map(|block| block & Subfield::<W>::MASK)
                .collect();
            for rows in [0, 1, 7, 64, 131] {
                let places: Vec<[u16; 10]> = (0..rows)
                    .map(|_| std::array::from_fn(|_| (random() >> 40) as u16))
                    .collect();
                let coefficients: Vec<[u8; 10]> = (0..rows)
                    .map(|_| {
                        std::array::from_fn(|_| (random() >> 40) as u8 % Subfield::<W>::ORDER as u8)
                    })
                    .collect();
                let before: Vec<u128> =
                    (0..rows).map(|i| i as u128 & Subfield::<W>::MASK).collect();
                let expected: Vec<u128> = before
                    .iter()
                    .zip(places.iter().zip(&coefficients))
                    .map(|(before, (places, coefficients))| {
                        (0..10).fold(*before, |sum, j| {
                            let at = j * segment + usize::from(places[j]) % segment;
                            sum ^ Subfield::<W>::multiple(coefficients[j], base[at])
                        })
                    })
                    .collect();
                for backend in Backend::ALL {
                    let mut out = before.clone();
                    add_products::<W, 10>(backend, &base, &places, &coefficients, &mut out);
                    assert_eq!(out, expected, "{backend:?}, {segment}, {rows}");
                }
            }
        }
    }

    #[test]
    fn every_version_multiplies_as_defined() {
        products_agree::<2>();
        products_agree::<3>();
        products_agree::<4>();
    }

    /// Δ with 1 as its first element shows x; the other elements are as secret as before.
    fn the_first_element_is_the_factor<const W: u32>() {
        let delta = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835 & Subfield::<W>::ENTRY;
        assert_eq!(Subfield::<W>::first(delta), 1);
        assert_eq!(element::<W>(delta, 0), 1);
        assert_eq!(
            Subfield::<W>::ENTRY.count_ones(),
            Subfield::<W>::MASK.count_ones() - (W - 1)
        );
        let y = Subfield::<W>::without_first(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
        assert_eq!(Subfield::<W>::first(y), 0);
        for x in 0..Subfield::<W>::ORDER as u8 {
            let z = y ^ Subfield::<W>::multiple(x, delta);
            assert_eq!(Subfield::<W>::first(z), x);
        }
    }

    #[test]
    fn factors_are_seen_in_the_first_element() {
        the_first_element_is_the_factor::<2>();
        the_first_element_is_the_factor::<3>();
        the_first_element_is_the_factor::<4>();
        the_first_element_is_the_factor::<5>();
        the_first_element_is_the_factor::<7>();
        the_first_element_is_the_factor::<8>();
    }

    #[test]
    fn fields_of_all_widths() {
        is_a_field_of_packed_elements::<2>();
        is_a_field_of_packed_elements::<3>();
        is_a_field_of_packed_elements::<4>();
        is_a_field_of_packed_elements::<5>();
        is_a_field_of_packed_elements::<7>();
        is_a_field_of_packed_elements::<8>();
    }
}
