//! Bands by GFNI, whatever the width of registers.
//!
//! `gf2p8affineqb` takes 64-bit lanes: eight bytes of one operand, and a bit matrix in the other whose
//! row i is byte 7−i; every byte y becomes the byte whose bit i is the parity of row i AND y.
//!
//! - The *matrix* of eight slots (one 64-bit word of them): lane k is the bit matrix whose row i has bit
//!   8k+i of each slot, the first slot in bit 0.
//! - *Transposed* rows or values: lane k has byte k of each of eight 64-bit words, the first in byte 7.
//!
//! So the affine product of (byte j of eight rows, in every lane) by (matrix of slots 8j … 8j+7) is what
//! these slots contribute to eight transposed values.

/// The identity as a bit matrix, and also the operand that makes the affine product transpose its matrix.
pub(super) const IDENTITY: u64 = 0x0102_0408_1020_4080;

/// The kernels, compiled for `$features`, over eight 64-bit lanes (`Lanes`) and what the invoking module does with
/// them: `splat`, `add`, `multiply` (bytes by matrices), `transpose` and `untranspose` (eight words to transposed form
/// and back), `transpose_rows`, `invert_unitriangular`, `gather` and `words`.
// No closures here: one that is handed to `array::from_fn` or `map` is called by code without these
// features, and so not inlined.
macro_rules! affine_kernels {
    ($features:literal) => {
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn back_substitute<const W: usize>(rows: &[Row], slots: &mut [[u64; W]]) {
            let identity = splat(IDENTITY);
            // The matrices of the last eight words; word number b is at b % 8.
            let mut window = [[[splat(0); W]; 8]; 8];
            let blocks = rows.as_chunks::<WORD>().0.iter();
            let slots = slots.as_chunks_mut::<WORD>().0.iter_mut();
            for (word, (rows, slots)) in blocks.zip(slots).enumerate().rev() {
                let groups = rows.as_chunks::<8>().0;
                let mut bytes = [[[0; 8]; 8]; 8];
                let mut diagonal = [0; 8];
                for (g, group) in groups.iter().enumerate() {
                    bytes[g] = transpose_rows(group);
                    diagonal[g] = bytes[g][0][g];
                }
                let inverses = words(invert_unitriangular(diagonal));
                for (g, slots) in slots.as_chunks_mut::<8>().0.iter_mut().enumerate().rev() {
                    let mut sums = [splat(0); W];
                    for (w, sum) in sums.iter_mut().enumerate() {
                        *sum = transpose(gather(slots, w));
                    }
                    for q in 1..8 {
                        accumulate(&mut sums, &window[(word + q) % 8], &bytes[g][q]);
                    }
                    // The newest matrices last: the others need not wait for them.
                    for j in (g + 1..8).rev() {
                        let byte = splat(bytes[g][0][j]);
                        for (sum, matrix) in sums.iter_mut().zip(&window[word % 8][j]) {
                            *sum = add(*sum, multiply(byte, *matrix));
                        }
                    }
                    let inverse = splat(inverses[g]);
                    for (w, sum) in sums.into_iter().enumerate() {
                        let matrix = multiply(multiply(identity, sum), inverse);
                        window[word % 8][g][w] = matrix;
                        scatter(slots, w, untranspose(multiply(identity, matrix)));
                    }
                }
            }
        }

        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn combine<const W: usize>(
            slots: &[[u64; W]],
            frames: &[u32],
            rows: &[Row],
            out: &mut [[u64; W]],
        ) {
            // The matrices of eight words of slots, number b at b % 8.
            let mut window = [[[splat(0); W]; 8]; 8];
            for Run {
                first,
                fresh,
                places,
            } in Runs::new(frames)
            {
                for word in fresh {
                    for (g, matrices) in window[word % 8].iter_mut().enumerate() {
                        *matrices = to_matrices(&slots_of(slots, word * WORD + 8 * g));
                    }
                }
                let (groups, rest) = rows[places.clone()].as_chunks::<8>();
                let (out, out_rest) = out[places].as_chunks_mut::<8>();
                for (rows, out) in groups.iter().zip(out) {
                    combine_eight(&window, first, rows, out);
                }
                if !rest.is_empty() {
                    let mut rows = [[0; 8]; 8];
                    let mut out = [[0; W]; 8];
                    rows[..rest.len()].copy_from_slice(rest);
                    combine_eight(&window, first, &rows, &mut out);
                    out_rest.copy_from_slice(&out[..rest.len()]);
                }
            }
        }

        /// The values of eight rows in the frame of word `first`.
        #[inline]
        #[target_feature(enable = $features)]
        fn combine_eight<const W: usize>(
            window: &[[[Lanes; W]; 8]; 8],
            first: usize,
            rows: &[Row; 8],
            out: &mut [[u64; W]; 8],
        ) {
            let bytes = transpose_rows(rows);
            let mut sums = [splat(0); W];
            for (q, bytes) in bytes.iter().enumerate() {
                accumulate(&mut sums, &window[(first + q) % 8], bytes);
            }
            for (w, sum) in sums.into_iter().enumerate() {
                scatter(out, w, untranspose(sum));
            }
        }

        /// The matrices of eight slots.
        #[inline]
        #[target_feature(enable = $features)]
        fn to_matrices<const W: usize>(slots: &[[u64; W]; 8]) -> [Lanes; W] {
            let identity = splat(IDENTITY);
            let mut matrices = [splat(0); W];
            for (w, matrix) in matrices.iter_mut().enumerate() {
                *matrix = multiply(identity, transpose(gather(slots, w)));
            }
            matrices
        }

        /// Adds what the 64 slots of a word contribute to eight values, given the rows' bytes.
        #[inline]
        #[target_feature(enable = $features)]
        fn accumulate<const W: usize>(
            sums: &mut [Lanes; W],
            matrices: &[[Lanes; W]; 8],
            bytes: &[u64; 8],
        ) {
            for (matrices, byte) in matrices.iter().zip(bytes) {
                let byte = splat(*byte);
                for (sum, matrix) in sums.iter_mut().zip(matrices) {
                    *sum = add(*sum, multiply(byte, *matrix));
                }
            }
        }

        /// Writes word `w` of eight values.
        #[inline]
        #[target_feature(enable = $features)]
        fn scatter<const W: usize>(values: &mut [[u64; W]; 8], w: usize, from: Lanes) {
            for (value, word) in values.iter_mut().zip(words(from)) {
                value[w] = word;
            }
        }
    };
}
pub(super) use affine_kernels;
