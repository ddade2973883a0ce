//! Small polynomials in bulk over GF(2^k): one for each bin and slice.
//!
//! A bin has some forty points. Each has [`SLICES`] values, one per polynomial; the polynomials share
//! everything that depends only on the points. Coefficients are those of 1, x, x², …: at these sizes
//! quadratic algorithms are the fastest, and transforms do not help. Bins are distributed over the threads of
//! the current rayon pool.

use super::Error;
use crate::parallel;
use vesica_kernels::Backend;
pub use vesica_kernels::gf2k::{Field, SLICES};

/// Approximate number of points that a thread takes at a time.
const CHUNK: usize = 1 << 12;

/// The coefficients of the polynomials of degree below `size` through the points of each bin.
///
/// Bin b has points number b·`size` to (b + 1)·`size` − 1; their values are at the same indices in each
/// slice, and so are the coefficients of its polynomials, lowest first, in each slice of the result. Fails if
/// a bin has two equal points.
///
/// # Panics
/// If `size` is 0 or does not divide the number of points, or the slices differ in length from the points.
pub fn interpolate(
    field: Field,
    size: usize,
    points: &[u128],
    values: [&[u128]; SLICES],
) -> Result<[Vec<u128>; SLICES], Error> {
    assert!(points.len().is_multiple_of(size));
    assert!(values.iter().all(|v| v.len() == points.len()));
    let chunk = (CHUNK / size).max(1) * size;
    let mut out: [Vec<u128>; SLICES] = std::array::from_fn(|_| vec![0; points.len()]);
    let chunks = in_chunks(&mut out, chunk).into_iter().enumerate();
    let distinct = parallel::map(chunks, |(i, out)| {
        let range = i * chunk..points.len().min((i + 1) * chunk);
        let values = values.map(|v| &v[range.clone()]);
        field.interpolate_bins(Backend::Best, size, &points[range], values, out)
    });
    let distinct = distinct.iter().all(|distinct| *distinct);
    distinct.then_some(out).ok_or(Error::RepeatedPoint)
}

/// The values at `points[i]` of the polynomials of bin `bins[i]`, whose coefficients are laid out as
/// [`interpolate`] leaves them. Fast if points of a bin are adjacent.
///
/// Addresses and time depend only on `bins` and on sizes.
///
/// # Panics
/// If there is no such bin, `size` is 0, or there are not as many bins as points.
pub fn evaluate(
    field: Field,
    size: usize,
    coefficients: [&[u128]; SLICES],
    bins: &[u32],
    points: &[u128],
) -> [Vec<u128>; SLICES] {
    assert_eq!(bins.len(), points.len());
    let mut out: [Vec<u128>; SLICES] = std::array::from_fn(|_| vec![0; points.len()]);
    let chunks = in_chunks(&mut out, CHUNK).into_iter().enumerate();
    parallel::each(chunks, |(i, out)| {
        let range = i * CHUNK..points.len().min((i + 1) * CHUNK);
        let (bins, points) = (&bins[range.clone()], &points[range]);
        field.evaluate_bins(Backend::Best, size, coefficients, bins, points, out);
    });
    out
}

/// Slices of equal lengths, cut at the same places.
fn in_chunks(out: &mut [Vec<u128>; SLICES], chunk: usize) -> Vec<[&mut [u128]; SLICES]> {
    let mut parts = out.each_mut().map(|slice| slice.chunks_mut(chunk));
    let count = parts[0].len();
    (0..count)
        .map(|_| {
            parts
                .each_mut()
                .map(|slice| slice.next().expect("slices of equal lengths"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::polynomial::tests::random_bits;
    use chacha20::ChaCha12Rng;
    use rand_core::SeedableRng;
    use vesica_reference::gf2k as reference;

    #[test]
    fn what_was_put_in_comes_out_and_other_points_match_the_reference() {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        for (bits, size, bins) in [(104, 1, 5), (109, 41, 230), (123, 42, 3), (66, 7, 0)] {
            let field = Field::new(bits);
            let slow = reference::Field::new(bits);
            let n = size * bins;
            let points = random_bits(bits, n, &mut rng);
            let values: [Vec<u128>; SLICES] =
                std::array::from_fn(|_| random_bits(bits, n, &mut rng));
            let coefficients =
                interpolate(field, size, &points, values.each_ref().map(|v| &v[..])).unwrap();
            let slices = coefficients.each_ref().map(|c| &c[..]);
            let own: Vec<u32> = (0..n).map(|i| (i / size) as u32).collect();
            assert_eq!(evaluate(field, size, slices, &own, &points), values);

            let asked: Vec<u32> = (0..bins as u32).rev().flat_map(|b| [b, b, b]).collect();
            let others = random_bits(bits, asked.len(), &mut rng);
            let got = evaluate(field, size, slices, &asked, &others);
            for (got, slice) in got.iter().zip(slices) {
                for i in (0..others.len()).step_by(17) {
                    let bin = &slice[asked[i] as usize * size..][..size];
                    assert_eq!(got[i], slow.evaluate_monomial(bin, others[i]));
                }
            }
        }
    }

    #[test]
    fn equal_points_in_a_bin_are_an_error_and_in_two_bins_are_not() {
        let mut rng = ChaCha12Rng::seed_from_u64(2);
        let field = Field::new(110);
        let mut points = random_bits(110, 41 * 300, &mut rng);
        let values: [&[u128]; SLICES] = std::array::from_fn(|_| &[0; 41 * 300][..]);
        points[41 * 299] = points[0];
        assert!(interpolate(field, 41, &points, values).is_ok());
        points[41 * 299 + 40] = points[0];
        assert_eq!(
            interpolate(field, 41, &points, values),
            Err(Error::RepeatedPoint)
        );
    }
}
