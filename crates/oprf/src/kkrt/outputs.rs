//! H: from rows to outputs.

use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use zeroize::Zeroizing;

use super::BATCH;
use crate::Output;

/// Words of the longest input.
const MAX_WORDS: usize = 12;

/// The inputs of H for up to [`BATCH`] rows, wiped after use. Each is a row, then the numbers of bin and hash
/// function.
pub(super) struct Inputs {
    words: Zeroizing<[u64; MAX_WORDS * BATCH]>,
    /// Words of an input. With a row of up to 448 bits it fits into 64 bytes, one block of the hash.
    length: usize,
}

impl Inputs {
    pub(super) fn new(row_bytes: usize) -> Self {
        Inputs {
            words: Zeroizing::new([0; MAX_WORDS * BATCH]),
            length: if row_bytes <= 56 { 8 } else { MAX_WORDS },
        }
    }

    /// Writes input `i`; all rows have the same number of pieces.
    #[inline(always)]
    pub(super) fn set(
        &mut self,
        i: usize,
        row: impl Iterator<Item = Block>,
        bin: usize,
        function: usize,
    ) {
        let input = &mut self.words[i * self.length..][..self.length];
        for (to, piece) in input.as_chunks_mut::<2>().0.iter_mut().zip(row) {
            *to = [piece as u64, (piece >> 64) as u64];
        }
        // The last piece of a row that just fits has 64 bits.
        input[self.length - 1] = (bin as u64) << 2 | function as u64;
    }

    /// H of the first inputs, as many as there are outputs.
    pub(super) fn hash(&self, oracle: &Oracle, outputs: &mut [Output]) {
        let mut hashes = [[0; 32]; BATCH];
        let hashes = &mut hashes[..outputs.len()];
        let bytes = bytemuck::must_cast_slice::<u64, u8>(&self.words[..]);
        match self.length {
            8 => oracle.hash_many(&bytes.as_chunks::<64>().0[..hashes.len()], hashes),
            _ => oracle.hash_many(&bytes.as_chunks::<96>().0[..hashes.len()], hashes),
        }
        for (output, hash) in outputs.iter_mut().zip(hashes) {
            *output = crate::output(hash);
        }
    }
}
