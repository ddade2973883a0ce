//! Curve25519 in batches: the Montgomery ladder, and Elligator 2 in both directions.
//!
//! The curve is v² = u³ + 486662·u² + u over the field of p = 2^255 − 19 (RFC 7748). Points are their u-coordinates,
//! 32 bytes little-endian. Elligator 2 is that of Bernstein, Hamburg, Krasnova and Lange (CCS 2013) with the
//! non-square 2, as in RFC 9380, section 6.7.1. Elements of ristretto255 are encoded as in RFC 9496. Everything here
//! runs in constant time in scalars, points, representatives and elements.

/// Compiles every operation for a field and the features that it needs.
#[cfg(target_arch = "x86_64")]
macro_rules! instantiate {
    ($field:ident, $features:literal) => {
        instantiate!(@ $field, $features,
            fn multiply(scalars: &[Bytes32], points: &[Bytes32], out: &mut [Bytes32]);
            fn multiply_by_one_scalar(scalar: &Bytes32, points: &[Bytes32], out: &mut [Bytes32]);
            fn multiply_one_point(scalars: &[Bytes32], point: &Multiples, out: &mut [Bytes32]);
            fn multiply_and_encode(
                scalars: &[Bytes32], base: &Multiples, v_is_negative: &[u8], out: &mut [Bytes32],
                found: &mut [u8],
            );
            fn map_to_curve(elements: &[Bytes32], top_byte: u8, out: &mut [Bytes32]);
            fn multiply_derived(half: &Bytes32, strings: &[Uniform], out: &mut [Bytes32]);
        );

        /// # Safety
        /// [`available`] must hold.
        #[target_feature(enable = $features)]
        #[inline(never)]
        unsafe fn apart<S: Step<$field>>(step: S) -> S::Output {
            // The compiler aligns its own vectors on the stack only beside one that has to lie there: without, a
            // ladder takes twice as long.
            std::hint::black_box(&$field::small(0));
            step.run()
        }
    };
    (@ $field:ident, $features:literal,
        $(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {$(
        /// # Safety
        /// [`available`] must hold.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name($($arg: $ty),*) {
            super::ops::$name::<$field>($($arg),*)
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
mod avx2;
mod edwards;
mod field;
#[cfg(target_arch = "x86_64")]
mod ifma;
mod multiples;
mod ops;
mod portable;
mod powers;
mod ristretto;

pub use multiples::Multiples;
pub use ristretto::Uniform;

use crate::Backend;
use crate::backend::first_version;
use field::Lanes;

/// 32 bytes, little-endian: a u-coordinate, a scalar, or an Elligator representative.
pub type Bytes32 = [u8; 32];

/// Points that share a pass of batched inversions.
const CHUNK: usize = 256;

macro_rules! dispatch {
    ($backend:ident, $call:ident($($arg:expr),*)) => {
        first_version!($backend:
            "x86_64" if ifma::available($backend) => ifma::$call($($arg),*);
            "x86_64" if avx2::available($backend) => avx2::$call($($arg),*);
            else ops::$call::<portable::Field>($($arg),*)
        )
    };
}

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if ifma::available(backend) => "avx512-ifma, 8 lanes";
        "x86_64" if avx2::available(backend) => "avx2, 4 lanes";
        else "portable, 1 lane"
    )
}

/// `out[i] = u([scalars[i]] points[i])`, all 256 scalar bits counting; the point at infinity is written as 0.
///
/// Bit 255 of a point is ignored; points on the twist are multiplied on the twist.
///
/// # Panics
/// If the slices differ in length.
pub fn multiply(backend: Backend, scalars: &[Bytes32], points: &[Bytes32], out: &mut [Bytes32]) {
    assert!(scalars.len() == points.len() && points.len() == out.len());
    dispatch!(backend, multiply(scalars, points, out))
}

/// `out[i] = u([scalar] points[i])`: one scalar for a whole batch.
///
/// # Panics
/// If the slices differ in length.
pub fn multiply_by_one_scalar(
    backend: Backend,
    scalar: &Bytes32,
    points: &[Bytes32],
    out: &mut [Bytes32],
) {
    assert_eq!(points.len(), out.len());
    dispatch!(backend, multiply_by_one_scalar(scalar, points, out))
}

/// `out[i] = u([scalars[i]] point)`, as [`multiply`] has it, for one point of the curve: a third of the time or
/// less, from some twenty scalars on.
///
/// # Panics
/// If the slices differ in length.
pub fn multiply_one_point(
    backend: Backend,
    scalars: &[Bytes32],
    point: &Multiples,
    out: &mut [Bytes32],
) {
    assert_eq!(scalars.len(), out.len());
    dispatch!(backend, multiply_one_point(scalars, point, out))
}

/// Multiplies `base` by each scalar and encodes the products by inverse Elligator 2.
///
/// `v_is_negative[i]` (0 or 1) selects the sign of the point's v. Where the product has a representative,
/// `found[i]` becomes 1 and `out[i]` holds the one in 0 ..= (p − 1)/2; elsewhere `found[i]` is 0. About half
/// of all points have one.
///
/// # Panics
/// If the slices differ in length.
pub fn multiply_and_encode(
    backend: Backend,
    scalars: &[Bytes32],
    base: &Multiples,
    v_is_negative: &[u8],
    out: &mut [Bytes32],
    found: &mut [u8],
) {
    assert!(scalars.len() == v_is_negative.len());
    assert!(scalars.len() == out.len() && out.len() == found.len());
    dispatch!(
        backend,
        multiply_and_encode(scalars, base, v_is_negative, out, found)
    )
}

/// Elligator 2: the u-coordinate of each representative. The two high bits of a representative are ignored.
///
/// # Panics
/// If the slices differ in length.
pub fn decode(backend: Backend, representatives: &[Bytes32], out: &mut [Bytes32]) {
    assert_eq!(representatives.len(), out.len());
    dispatch!(backend, map_to_curve(representatives, 0x3f, out))
}

/// Elligator 2 on whole field elements (255 bits; values from p up are reduced), as RFC 9380 maps them.
///
/// # Panics
/// If the slices differ in length.
pub fn map_to_curve(backend: Backend, elements: &[Bytes32], out: &mut [Bytes32]) {
    assert_eq!(elements.len(), out.len());
    dispatch!(backend, map_to_curve(elements, 0x7f, out))
}

/// ristretto255: the encodings of 2·`half`·P for the element P that RFC 9496, section 4.3.4, derives from each string.
/// The scalar is below 2^254.
///
/// # Panics
/// If the slices differ in length.
pub fn multiply_derived(
    backend: Backend,
    half: &Bytes32,
    strings: &[Uniform],
    out: &mut [Bytes32],
) {
    assert_eq!(strings.len(), out.len());
    dispatch!(backend, multiply_derived(half, strings, out))
}

/// Whether `u` is the coordinate of a point on the curve rather than on its twist (0 counts as on it).
pub fn is_on_curve(u: &Bytes32) -> bool {
    let u = portable::Field::load(&[*u]);
    let right_side = ops::curve_right_side(u);
    // A square has the quadratic character 1, zero has 0.
    powers::is_zero_or_one(powers::quadratic_character(right_side)) == 1
}

/// Whether `bytes` is the canonical encoding of a field element: below p, bit 255 clear.
pub fn is_canonical(bytes: &Bytes32) -> bool {
    let canonical = portable::Field::load(&[*bytes]).to_bytes();
    canonical[0] == *bytes
}

#[cfg(test)]
mod tests;
