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
#![forbid(unsafe_code)]

pub mod coin;
pub mod compact_dh;
pub mod dh;
pub mod kkrt;
pub mod sparse;
pub mod vole;
pub mod width;

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_primitives::security::{Security, lambda_each};
use vesica_wire::{Channel, Error};

/// What the parties of a run have agreed on: the only parameters of every protocol. What a module
/// needs besides, it derives from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// The adversary to withstand.
    pub security: Security,
    /// Statistical security in bits.
    pub lambda: u32,
    /// Items in the receiver's set.
    pub receiver_size: usize,
    /// Items in the sender's set.
    pub sender_size: usize,
    /// Hash of the agreed contract and both sides' nonces; bound into every hash of the protocol.
    pub session: [u8; 32],
}

impl Params {
    /// Statistical security in bits of each of `events` events that share 2^-λ.
    pub fn lambda_each(&self, events: u32) -> u32 {
        lambda_each(self.lambda, events)
    }
}

/// What is known of a protocol without running it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The name in commands and contracts: lower-case ASCII letters, digits and `-`.
    pub name: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// The strongest adversary that it withstands.
    pub security: Security,
    /// Whether a protocol that withstands malicious adversaries has a cheaper form for peers that are
    /// trusted to follow it.
    pub has_semi_honest_form: bool,
    /// Most items that either side may hold.
    pub max_items: u64,
    /// Most bits of statistical security for so many items of the receiver and of the sender, where there
    /// is a limit.
    pub max_lambda: fn(u64, u64) -> Option<u32>,
    /// Bytes of memory that a run takes on the side that needs more, about, for so many items of the
    /// receiver and of the sender: items, masks and what the protocol works on, with one thread.
    pub working_bytes: fn(u64, u64) -> u64,
}

impl Spec {
    /// The adversary that a run withstands whose parties ask for `asked`.
    pub fn runs(&self, asked: Security) -> Security {
        match self.has_semi_honest_form {
            true => asked.min(self.security),
            false => self.security,
        }
    }
}

/// A multi-point OPRF.
pub trait Oprf: Send + Sync {
    /// Outputs for each of the sender's items.
    const OUTPUTS_PER_ITEM: usize = 1;

    /// Bits of an output: 128 for short ones, 256 for long ones.
    const OUTPUT_BITS: usize;

    /// Events that share 2^-λ in a run, as the module lists them.
    const EVENTS: u32;

    /// What a receiver can compute before it knows its items or its peer. Consumed by one run.
    type Prepared: Send + 'static;

    /// What is known of plain PSI by this OPRF.
    fn spec(&self) -> &'static Spec;

    /// The receiver's offline phase for `items` items.
    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> Self::Prepared;

    /// Runs the receiver; F of its items.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a sender that does not pass a check; `Resource` where the
    /// module says that a step can fail, which distinct items make happen with probability at most 2^-λ.
    ///
    /// # Panics
    /// If `items` or `prepared` do not fit `params`, or items repeat.
    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        prepared: Self::Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error>;

    /// Runs the sender; F of its items, [`OUTPUTS_PER_ITEM`](Self::OUTPUTS_PER_ITEM) of each.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a receiver that does not pass a check.
    ///
    /// # Panics
    /// If `items` does not fit `params`.
    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error>;
}

/// One item of a set: the salted 256-bit hash of a canonical key.
pub type Item = [u8; 32];

/// F of an item in 256 bits.
pub type LongOutput = [u8; 32];

/// F of an item in 128 bits.
pub type Output = [u64; 2];

/// F of all items, in an order that suits the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outputs {
    /// 128 bits for each point, and the number, among the items given, of the item that each is of.
    Short {
        /// The outputs.
        values: Vec<Output>,
        /// The items' numbers.
        numbers: Vec<u32>,
    },
    /// 256 bits for each item, in the order of the items.
    Long(Vec<LongOutput>),
}

impl Outputs {
    /// The values and numbers of outputs of 128 bits.
    ///
    /// # Panics
    /// If they have 256.
    pub fn into_short(self) -> (Vec<Output>, Vec<u32>) {
        match self {
            Outputs::Short { values, numbers } => (values, numbers),
            Outputs::Long(_) => panic!("outputs of 128 bits were expected"),
        }
    }
}

/// The most bits of statistical security that outputs of 128 bits allow for sets of these sizes, of an
/// OPRF with so many outputs for each of the sender's items.
///
/// The halves of items that such an OPRF works on have 128 bits as well. Of all pairs in which outputs or
/// halves of different items may collide, those of the receiver's own items included, each must do so with
/// half of one event's share at most.
fn max_lambda_of_short<O: Oprf>(receiver_size: u64, sender_size: u64) -> u32 {
    let receiver = u128::from(receiver_size.max(1));
    let outputs = u128::from(sender_size.max(1)) * O::OUTPUTS_PER_ITEM as u128;
    let pairs = receiver.saturating_mul(outputs);
    let pairs = pairs.saturating_add(receiver * receiver / 2);
    let log = u128::BITS - (pairs - 1).leading_zeros();
    127u32.saturating_sub(lambda_each(log, O::EVENTS))
}

/// The two halves of an item: its key in an OKVS or a hash table, and what its value is made of.
pub fn halves(item: &Item) -> [Block; 2] {
    bytemuck::must_cast::<Item, [[u8; 16]; 2]>(*item).map(Block::from_le_bytes)
}

/// The first 128 bits of a hash as an output.
pub fn output(hash: &[u8; 32]) -> Output {
    let [a, b, _, _] = bytemuck::must_cast::<[u8; 32], [[u8; 8]; 4]>(*hash);
    [u64::from_be_bytes(a), u64::from_be_bytes(b)]
}

/// `items` times `each`, or as much as there can be.
fn bytes(items: u64, each: u64) -> u64 {
    items.saturating_mul(each)
}

/// Keys from which on a receiver's linear system grows no further: those of one bin of its OKVS.
const MAX_SYSTEM: u64 = (1 << 20) + (1 << 18);
