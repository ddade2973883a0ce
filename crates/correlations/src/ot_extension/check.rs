//! The consistency check of a tile; the parent module has the security argument.

use vesica_kernels::Backend;
use vesica_kernels::binary::inner_product128;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_wire::Misbehaviour;
use zeroize::Zeroizing;

use super::{CHECK, COLUMNS, all_ones_if, columns_a_task};

/// Bytes of the receiver's hashes: of its choices, then of its columns.
pub(super) const CHECK_BYTES: usize = (1 + COLUMNS) * 16;

/// Makes challenges, and a digest of all matrices that they cover.
pub(super) struct Challenger {
    key: [u8; 32],
    matrices: [u8; 32],
}

impl Challenger {
    pub(super) fn new(session: &[u8; 32]) -> Self {
        Challenger {
            key: blake3::derive_key("vesica/1 ot-extension challenge", session),
            matrices: [0; 32],
        }
    }

    /// A digest of the matrices of all challenges so far, in their order.
    pub(super) fn matrices(&self) -> &[u8; 32] {
        &self.matrices
    }

    /// The challenge of the tile whose first row is number `first`, with `pieces` pieces per column.
    pub(super) fn challenge(&mut self, first: u64, matrix: &[u8], pieces: usize) -> Challenge {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&first.to_le_bytes()).update(matrix);
        let digest = hasher.finalize();
        let digest = digest.as_bytes();
        self.matrices = *blake3::Hasher::new_keyed(&self.matrices)
            .update(digest)
            .finalize()
            .as_bytes();
        let (seed, _) = digest.split_at(16);
        let seed = Block::from_le_bytes(std::array::from_fn(|i| seed[i]));
        let mut factors = vec![0; pieces - 1];
        Prg::new(seed).fill(&mut factors);
        Challenge { factors }
    }
}

/// The universal hash of one tile: χ.
pub(super) struct Challenge {
    factors: Vec<Block>,
}

impl Challenge {
    /// h(v) = Σ χ_i·v_i + v_n.
    pub(super) fn hash(&self, column: &[Block]) -> Block {
        let (used, unused) = column.split_at(self.factors.len());
        inner_product128(Backend::Best, &self.factors, used) ^ unused[0]
    }

    /// Hashes of all columns.
    fn hashes(&self, columns: &[Block]) -> Zeroizing<Vec<Block>> {
        let pieces = self.factors.len() + 1;
        let mut hashes = Zeroizing::new(vec![0; COLUMNS]);
        let each = columns_a_task(pieces);
        let tasks = hashes.chunks_mut(each).zip(columns.chunks(each * pieces));
        parallel::each(tasks, |(hashes, columns)| {
            for (hash, column) in hashes.iter_mut().zip(columns.chunks(pieces)) {
                *hash = self.hash(column);
            }
        });
        hashes
    }

    /// What the receiver sends: h(x), then h(t_j).
    pub(super) fn answer(&self, x: &[Block], columns: &[Block]) -> Vec<u8> {
        let mut answer = Vec::with_capacity(CHECK_BYTES);
        answer.extend_from_slice(&self.hash(x).to_le_bytes());
        answer.extend_from_slice(bytemuck::must_cast_slice(&self.hashes(columns)));
        answer
    }

    /// The sender's test of an answer of [`CHECK_BYTES`] bytes: h(q_j) = h(t_j) + s_j·h(x) for all j.
    pub(super) fn verify(
        &self,
        s: Block,
        columns: &[Block],
        answer: &[u8],
    ) -> Result<(), Misbehaviour> {
        let (answer, _) = answer.as_chunks::<16>();
        let answer: Vec<Block> = answer.iter().map(|a| Block::from_le_bytes(*a)).collect();
        let mut wrong = 0;
        for (j, own) in self.hashes(columns).iter().enumerate() {
            wrong |= own ^ answer[1 + j] ^ (all_ones_if(s >> j) & answer[0]);
        }
        if wrong != 0 {
            return Err(Misbehaviour::BadValue {
                what: CHECK.name,
                problem: "not what the matrix leads to",
            });
        }
        Ok(())
    }
}
