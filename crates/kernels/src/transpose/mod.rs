//! Transposition of a bit matrix with 128 columns, for oblivious-transfer extensions.
//!
//! Each party of an extension expands 128 seeds into 128 long columns, and uses the matrix row by
//! row: one row is one 128-bit value.

mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::Backend;
use crate::backend::first_version;

/// The version that `backend` stands for on this machine.
pub fn backend_name(backend: Backend) -> &'static str {
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => "gfni avx512vbmi";
        "x86_64" if x86::available(backend) => "avx2";
        else "portable"
    )
}

/// Turns 128 columns of bits into rows.
///
/// `columns` holds 128 columns of `rows.len() / 8` bytes each, one after the other. Bit j of
/// `rows[i]` becomes bit i mod 8 of byte i / 8 of column j. Takes the same time for all contents.
///
/// # Panics
/// If the number of rows is not a multiple of 128, or `columns` does not hold 16 bytes for each row.
pub fn transpose128(backend: Backend, columns: &[u8], rows: &mut [u128]) {
    assert!(rows.len().is_multiple_of(128));
    assert_eq!(columns.len(), rows.len() * 16);
    first_version!(backend:
        "x86_64" if x86::wide_available(backend) => x86::transpose_wide(columns, rows);
        "x86_64" if x86::available(backend) => x86::transpose_narrow(columns, rows);
        else portable::transpose(columns, rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern.
    fn columns(rows: usize) -> Vec<u8> {
        let mut state = rows as u64 + 1;
        (0..rows * 16)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn every_version_matches_the_definition() {
        for blocks in [0, 1, 2, 3, 4, 5, 7, 8, 9, 37] {
            let rows = 128 * blocks;
            let columns = columns(rows);
            let stride = rows / 8;
            let expected: Vec<u128> = (0..rows)
                .map(|i| {
                    (0..128).fold(0, |row, j| {
                        row | u128::from(columns[j * stride + i / 8] >> (i % 8) & 1) << j
                    })
                })
                .collect();
            for backend in Backend::ALL {
                let mut found = vec![u128::MAX; rows];
                transpose128(backend, &columns, &mut found);
                assert_eq!(found, expected, "{backend:?}, {rows} rows");
            }
        }
    }

    #[test]
    #[should_panic]
    fn a_number_of_rows_that_is_not_a_multiple_of_128_is_refused() {
        transpose128(Backend::Best, &[0; 64 * 16], &mut [0; 64]);
    }

    #[test]
    #[should_panic]
    fn columns_that_are_too_short_are_refused() {
        transpose128(Backend::Best, &[0; 128 * 16 - 1], &mut [0; 128]);
    }
}
