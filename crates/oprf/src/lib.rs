//! Oblivious pseudorandom functions with many points.
//!
//! One run gives the receiver F(y) for each of its items y, and lets the sender compute F(x) for each of
//! its items x. F is fresh in every run. Neither side learns the other's items; what the receiver could
//! learn from F(x) of items that it does not hold is nothing, because those look random.
//!
//! | module | paper | adversary |
//! |---|---|---|
//! | [`compact_dh`] | RT21, figures 4, 5 and 6 | malicious, or semi-honest |
//! | [`dh`] | Huberman, Franklin and Hogg 1999 | semi-honest |
//! | [`kkrt`] | KKRT16 | semi-honest |
//! | [`sparse`] | PRTY19, figures 5 and 7; LTSXQ26, figure 14, at the width of PRTY19 | semi-honest |
//! | [`vole`] | RS21 and RR22 | malicious, or semi-honest |
//! | [`research`] | LTSXQ26, figures 14 and 15, at the paper's width | none: broken, for measurements |
#![forbid(unsafe_code)]

mod coin;
pub mod compact_dh;
pub mod dh;
pub mod kkrt;
pub mod research;
pub mod sparse;
pub mod vole;
pub mod width;

use vesica_primitives::block::Block;

/// One item of a set: the salted 256-bit hash of a canonical key.
pub type Item = [u8; 32];

/// F of an item, at full width; the mask exchange shortens it to what its security needs.
pub type Mask = [u8; 32];

/// An output of the OPRFs that make 128 bits.
pub type Output = [u64; 2];

/// F of all items, in an order that suits the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outputs {
    /// The outputs.
    pub masks: Vec<Output>,
    /// The number, among the items given, of the item that each is of.
    pub numbers: Vec<u32>,
}

/// The two halves of an item: what it is placed by, in a store or a table, and what its value is made of.
fn halves(item: &Item) -> [Block; 2] {
    bytemuck::must_cast::<Item, [[u8; 16]; 2]>(*item).map(Block::from_le_bytes)
}

/// The first 128 bits of a hash as an output.
fn output(hash: &[u8; 32]) -> Output {
    let [a, b, _, _] = bytemuck::must_cast::<[u8; 32], [[u8; 8]; 4]>(*hash);
    [u64::from_be_bytes(a), u64::from_be_bytes(b)]
}
