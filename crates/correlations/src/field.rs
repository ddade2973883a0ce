//! The fields of the vectors of a vector oblivious linear evaluation (VOLE).

use vesica_primitives::block::Block;

/// GF(2^64) or GF(2^128), as subfields of GF(2^128): see [`vesica_kernels::binary`].
pub trait Field:
    Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + bytemuck::Pod + zeroize::Zeroize
{
    /// Bits of an element.
    const BITS: u32;

    /// The element whose bits are the lowest of `block`.
    fn from_block(block: Block) -> Self;

    /// The element in GF(2^128).
    fn to_block(self) -> Block;
}

impl Field for u64 {
    const BITS: u32 = 64;

    fn from_block(block: Block) -> Self {
        block as u64
    }

    fn to_block(self) -> Block {
        self.into()
    }
}

impl Field for u128 {
    const BITS: u32 = 128;

    fn from_block(block: Block) -> Self {
        block
    }

    fn to_block(self) -> Block {
        self
    }
}
