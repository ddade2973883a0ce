//! F from SHA-256, as in LTSXQ26's table IX: some forty times slower than from AES.

use sha2::{Digest, Sha256};
use vesica_oprf::sparse::rows::BITS;
use vesica_oprf::sparse::{BitFunction, MAX_COLUMNS};
use vesica_primitives::block::Block;
use zeroize::Zeroizing;

/// The lowest bit of the first byte of SHA-256 of key and point.
pub struct Sha256Bit(Zeroizing<Vec<Block>>);

impl BitFunction for Sha256Bit {
    fn new(keys: impl ExactSizeIterator<Item = Block>) -> Self {
        assert!(keys.len() <= MAX_COLUMNS);
        Sha256Bit(Zeroizing::new(keys.collect()))
    }

    fn fill(&self, points: &[Block; BITS], columns: &mut [Block; MAX_COLUMNS]) {
        let mut input = Zeroizing::new([0; 32]);
        for (column, key) in columns.iter_mut().zip(self.0.iter()) {
            input[..16].copy_from_slice(&key.to_le_bytes());
            *column = 0;
            for (i, point) in points.iter().enumerate() {
                input[16..].copy_from_slice(&point.to_le_bytes());
                *column |= Block::from(Sha256::digest(*input)[0] & 1) << i;
            }
        }
    }
}
