//! What the entries of the vectors of a vector oblivious linear evaluation (VOLE) are.

use bytemuck::Pod;
use vesica_primitives::block::Block;
use zeroize::Zeroize;

/// The field of a code's coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coefficients {
    /// GF(2): no constants.
    Bits,
    /// GF(2^8), in GF(2^64).
    Bytes,
    /// GF(2^64).
    Words,
}

/// A part of GF(2^128) = GF(2^64)\[u\] ([`vesica_kernels::binary`]) that is closed under addition, and under multiplication
/// by the coefficients of a code. Its elements are given by coordinates, of which any are an element's.
pub trait Field:
    Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + Pod + Zeroize
{
    /// Coordinates of an element, in bits.
    const BITS: u32;

    /// The coefficients that it is closed under.
    const COEFFICIENTS: Coefficients;

    /// The element whose coordinates are the lowest bits of `block`.
    fn from_block(block: Block) -> Self;

    /// The element in GF(2^128).
    fn to_block(self) -> Block;

    /// That of [`to_block`](Self::to_block).
    fn of_element(element: Block) -> Self;
}

impl Field for u64 {
    const BITS: u32 = 64;

    const COEFFICIENTS: Coefficients = Coefficients::Words;

    fn from_block(block: Block) -> Self {
        block as u64
    }

    fn to_block(self) -> Block {
        self.into()
    }

    fn of_element(element: Block) -> Self {
        element as u64
    }
}

impl Field for u128 {
    const BITS: u32 = 128;

    const COEFFICIENTS: Coefficients = Coefficients::Words;

    fn from_block(block: Block) -> Self {
        block
    }

    fn to_block(self) -> Block {
        self
    }

    fn of_element(element: Block) -> Self {
        element
    }
}

/// An element of GF(2^64) + GF(2^8)·u: its lower word, and the byte that stands for the upper one.
pub type NineBytes = [u8; 9];

impl Field for NineBytes {
    const BITS: u32 = 72;

    const COEFFICIENTS: Coefficients = Coefficients::Bytes;

    fn from_block(block: Block) -> Self {
        let bytes = block.to_le_bytes();
        std::array::from_fn(|i| bytes[i])
    }

    fn to_block(self) -> Block {
        let [low @ .., high] = self;
        Block::from(byte_element(high)) << 64 | Block::from(u64::from_le_bytes(low))
    }

    fn of_element(element: Block) -> Self {
        let high = element_byte((element >> 64) as u64);
        NineBytes::from_block(Block::from(high) << 64 | Block::from(element as u64))
    }
}

/// Bits of an element of GF(2^8) that tell which it is: its coordinates.
const PLACES: [u32; 8] = [0, 1, 2, 3, 4, 6, 10, 13];

/// The elements of GF(2^8) in GF(2^64) with one coordinate each.
const BASIS: [u64; 8] = [
    0x0000_0000_0000_0001,
    0x5fbf_aec6_aeac_0002,
    0x189b_e8f8_f84c_1b84,
    0x1bce_db0e_475e_8108,
    0xb584_6c4e_07b9_1010,
    0xfd02_a1ae_1c3b_51c0,
    0x4676_9859_8926_dc00,
    0x4ae8_fb39_198c_2000,
];

/// The element of GF(2^8) in GF(2^64) with these coordinates, in the same steps for all.
pub(crate) fn byte_element(coordinates: u8) -> u64 {
    let bits = BASIS.iter().enumerate();
    bits.fold(0, |element, (i, basis)| {
        element ^ (0u64.wrapping_sub(u64::from(coordinates >> i & 1)) & basis)
    })
}

/// The coordinates of an element of GF(2^8).
fn element_byte(element: u64) -> u8 {
    let places = PLACES.iter().enumerate();
    places.fold(0, |byte, (i, place)| {
        byte | ((element >> place & 1) as u8) << i
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_kernels::Backend;
    use vesica_kernels::binary::multiply128;

    #[test]
    fn bytes_are_a_field() {
        let elements: Vec<u64> = (0..=255).map(byte_element).collect();
        for (byte, element) in (0..=255).zip(&elements) {
            assert_eq!(element_byte(*element), byte);
        }
        for a in &elements {
            for b in &elements {
                let product = multiply128(Backend::Portable, (*a).into(), (*b).into());
                assert_eq!(product, byte_element(element_byte(product as u64)).into());
            }
        }
    }

    #[test]
    fn nine_bytes_are_closed_under_bytes() {
        for i in 0..1000u128 {
            let random = i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let element = NineBytes::from_block(random);
            assert_eq!(NineBytes::of_element(element.to_block()), element);
            assert_eq!(bytemuck::bytes_of(&element), &random.to_le_bytes()[..9]);
            let scalar = byte_element((random >> 100) as u8).into();
            let product = multiply128(Backend::Portable, element.to_block(), scalar);
            assert_eq!(NineBytes::of_element(product).to_block(), product);
        }
    }
}
