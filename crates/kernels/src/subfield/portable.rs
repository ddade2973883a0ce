//! The definition: a sum for each bit of the coefficients, and Horner's rule.

use super::Subfield;

/// See [`super::add_products`].
pub(super) fn add_products<const W: u32, const N: usize>(
    base: &[u128],
    places: &[[u16; N]],
    coefficients: &[[u8; N]],
    out: &mut [u128],
) {
    let length = base.len() / N;
    for ((out, places), coefficients) in out.iter_mut().zip(places).zip(coefficients) {
        let mut sums = [0; 4];
        let segments = base.chunks_exact(length);
        for ((segment, place), coefficient) in segments.zip(places).zip(coefficients) {
            let block = segment[usize::from(*place) & (length - 1)];
            for (j, sum) in sums[..W as usize].iter_mut().enumerate() {
                *sum ^= block & u128::from(coefficient >> j & 1).wrapping_neg();
            }
        }
        let sums = sums[..W as usize].iter().rev();
        *out ^= sums.fold(0, |all, sum| Subfield::<W>::double(all) ^ sum);
    }
}
