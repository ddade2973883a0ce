//! Multi-point oblivious pseudorandom functions (OPRFs).
//!
//! One run gives the receiver F(y) for each of its items y, and lets the sender compute F(x) for each of its
//! items x. F is fresh in every run. Neither side learns the other's items; the receiver learns nothing from
//! F(x) of items that it does not hold, because these values look random.
//!
//! | module | paper | adversary |
//! |---|---|---|
//! | [`compact_dh`] | RT21, figures 4, 5 and 6 | malicious, or semi-honest |
//! | [`dh`] | Huberman, Franklin and Hogg 1999 | semi-honest |
//! | [`kkrt`] | KKRT16 | semi-honest |
//! | [`oprf_dh`] | JKK14, RFC 9497 | malicious |
//! | [`sparse`] | PRTY19, figures 5 and 7; LTSXQ26, figure 14, at the width of PRTY19 | semi-honest; figure 5 also a malicious sender |
//! | [`vole`] | RS21 and RR22 | malicious, or semi-honest |
//!
//! [`programmable`] has OPRFs whose outputs the sender chooses at its items, as circuit PSI needs them: CGS22 and
//! LTSXQ26, semi-honest.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Passes the list of OPRFs to the macro `$each`: for each module those in it that are protocols.
#[macro_export]
macro_rules! for_oprfs {
    ($each:ident) => {
        $each! {
            compact_dh: CompactDh(Variant::Malicious), CompactDh(Variant::SemiHonest1), CompactDh(Variant::SemiHonest2);
            dh: Dh;
            oprf_dh: OprfDh;
            vole: Vole;
            kkrt: Kkrt;
            sparse: Sparse::<Slices>::new(), Sparse::<Bins>::new(), Sparse::<Store>::new();
        }
    };
}

pub mod coin;
pub mod compact_dh;
pub mod dh;
pub mod kkrt;
pub mod oprf_dh;
pub mod programmable;
pub mod sparse;
pub mod vole;
pub mod width;

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_primitives::security::{KeyAgreement, Security, lambda_each};
use vesica_wire::{Channel, Error, Traffic};

/// What the parties of a run have agreed on: the only parameters of every protocol. A module derives
/// everything else from them.
#[derive(Clone, PartialEq, Eq)]
pub struct Params {
    /// The adversary to withstand.
    pub security: Security,
    /// Statistical security in bits.
    pub lambda: u32,
    /// Items in the receiver's set.
    pub receiver_size: usize,
    /// Items in the sender's set.
    pub sender_size: usize,
    /// How the parties agree on the keys of base transfers, in protocols that have [two ways](PostQuantum::OnRequest).
    pub key_agreement: KeyAgreement,
    /// Hash of the agreed contract and both sides' nonces; bound into every hash of the protocol.
    pub session: [u8; 32],
}

// Keys of a job may follow from the session.
vesica_primitives::opaque!(
    Params,
    security,
    lambda,
    receiver_size,
    sender_size,
    key_agreement
);

impl Params {
    /// Statistical security in bits of each of `events` events that share 2^-λ.
    pub fn lambda_each(&self, events: u32) -> u32 {
        lambda_each(self.lambda, events)
    }

    /// λ' + ⌈log₂(c·n_s·n_r)⌉: bits of masks of which some pair of different items collides with probability at most
    /// 2^-λ', their share of 2^-λ. c is the number of the sender's masks per item.
    pub fn collision_bits(&self, share: u32, masks_per_item: usize) -> u32 {
        let masks = (self.sender_size * masks_per_item).max(1);
        let pairs = self.receiver_size.max(1) as u128 * masks as u128;
        share + pairs.next_power_of_two().trailing_zeros()
    }
}

/// What is known about a protocol without running it.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The name in commands and contracts: lower-case ASCII letters, digits and `-`.
    pub name: &'static str,
    /// Paper and figure.
    pub source: &'static str,
    /// The strongest adversary that it withstands.
    pub security: Security,
    /// A weaker adversary for which it has a cheaper form, if it has one.
    pub cheaper: Option<Security>,
    /// Whether the messages of a run hide both sets from a later quantum computer.
    pub post_quantum: PostQuantum,
    /// Maximum number of items that either side may hold.
    pub max_items: u64,
    /// Maximum bits of statistical security for the given numbers of items of the receiver and of the sender;
    /// `None` if there is no limit.
    pub max_lambda: fn(u64, u64) -> Option<u32>,
    /// Approximate memory use of a run in bytes, on the side that needs more, for the given numbers of items
    /// of the receiver and of the sender: items, masks and the protocol's working data, with one thread.
    pub working_bytes: fn(u64, u64) -> u64,
    /// The limits for items that are numbers of a declared width, if the protocol compares those as they are.
    pub exact: Option<ExactLimits>,
    /// What each item of either side adds to a run.
    pub item_cost: ItemCost,
}

/// Whether what a party keeps of the messages of a run tells it nothing of the peer's set beyond the result once there are
/// large quantum computers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostQuantum {
    /// It can find out about items that it guesses.
    Never,
    /// With [hybrid](KeyAgreement::Hybrid) base transfers.
    OnRequest,
    /// It never depends on what a quantum computer is known to break.
    Always,
}

/// Upper bounds on what an item adds to a run of any size, at any λ, from which deadlines are computed: twice or more of
/// what the protocol's page in `docs/protocols/` and `docs/performance.md` say was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemCost {
    /// Bytes on the wire, in both directions together.
    pub bytes: u64,
    /// Work of one thread of either side with the slowest kernels, in AES blocks
    /// ([`aes_blocks_per_second`](vesica_primitives::yardstick::aes_blocks_per_second)).
    pub aes_blocks: u64,
}

/// The limits of a protocol for items that are numbers.
#[derive(Clone, Copy, Debug)]
pub struct ExactLimits {
    /// Maximum bits of a number.
    pub max_bits: u32,
    /// Maximum bits of statistical security for these numbers of items and bits of each; 0 if there is none.
    pub max_lambda: fn(u64, u64, u32) -> u32,
    /// As [`Spec::working_bytes`], for numbers of so many bits and so many bits of statistical security.
    pub working_bytes: fn(u64, u64, u32, u32) -> u64,
}

impl Spec {
    /// Maximum bits of statistical security for these numbers of items of the receiver and of the sender, of so many
    /// bits if they are numbers; `None` if there is no limit.
    pub fn max_lambda_of(&self, sizes: [u64; 2], bits: Option<u32>) -> Option<u32> {
        let [receiver_size, sender_size] = sizes;
        match self.compares(bits) {
            Some((exact, bits)) => Some((exact.max_lambda)(receiver_size, sender_size, bits)),
            None => (self.max_lambda)(receiver_size, sender_size),
        }
    }

    /// Approximate memory use of a run in bytes for these numbers of items, of so many bits if they are numbers, at λ.
    pub fn working_bytes_of(&self, sizes: [u64; 2], bits: Option<u32>, lambda: u32) -> u64 {
        let [receiver_size, sender_size] = sizes;
        match self.compares(bits) {
            Some((exact, bits)) => (exact.working_bytes)(receiver_size, sender_size, bits, lambda),
            None => (self.working_bytes)(receiver_size, sender_size),
        }
    }

    /// The bits of the numbers that the protocol compares as they are, if it does, with its limits.
    pub fn compares(&self, bits: Option<u32>) -> Option<(&ExactLimits, u32)> {
        let (exact, bits) = (self.exact.as_ref()?, bits?);
        (bits <= exact.max_bits).then_some((exact, bits))
    }

    /// The adversary that a run withstands if its parties ask for `asked`.
    pub fn runs(&self, asked: Security) -> Security {
        let cheaper = self.cheaper.filter(|cheaper| asked <= *cheaper);
        cheaper.unwrap_or(self.security)
    }

    /// How base transfers agree on keys in a run of which this is asked; `None` where there is no such run.
    pub fn key_agreement(&self, post_quantum: bool) -> Option<KeyAgreement> {
        match self.post_quantum {
            PostQuantum::Never if post_quantum => None,
            PostQuantum::OnRequest if post_quantum => Some(KeyAgreement::Hybrid),
            PostQuantum::Never | PostQuantum::OnRequest | PostQuantum::Always => {
                Some(KeyAgreement::Classical)
            }
        }
    }

    /// The adversaries that runs withstand, the strongest first.
    pub fn forms(&self) -> impl Iterator<Item = Security> + use<> {
        std::iter::once(self.security).chain(self.cheaper)
    }
}

/// A multi-point OPRF.
pub trait Oprf: Send + Sync {
    /// Outputs per item of the sender.
    const OUTPUTS_PER_ITEM: usize = 1;

    /// Bits of an output where the sender may be malicious: 128 for short ones, 256 for long ones.
    const OUTPUT_BITS: usize;

    /// Events that share 2^-λ in a run, as the module lists them.
    const EVENTS: u32;

    /// What a receiver can compute before it knows its items or its peer. Consumed by one run.
    type Prepared: Send + 'static;

    /// Bits of a mask where the sender may be malicious: all of an output, so that it cannot find two items with one
    /// mask (RT21, section 4.1; for 128 bits that takes 2^64 hashes during the run), or what the module says.
    fn mask_bits(_: &Params) -> u32 {
        Self::OUTPUT_BITS as u32
    }

    /// λ', the share of 2^-λ with which masks of different items may collide where the sender is semi-honest.
    fn mask_share(params: &Params) -> u32 {
        params.lambda_each(Self::EVENTS)
    }

    /// The specification of plain PSI with this OPRF.
    fn spec(&self) -> &'static Spec;

    /// The receiver's offline phase for `items` items.
    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> Self::Prepared;

    /// Adds what a run sends, which items do not change.
    fn traffic(&self, params: &Params, traffic: &mut Traffic);

    /// Runs the receiver; returns F of its items.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a sender that fails a check; `Resource` where the module says that
    /// a step can fail, which has probability at most 2^-λ for distinct items.
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

    /// Runs the sender; returns F of its items, [`OUTPUTS_PER_ITEM`](Self::OUTPUTS_PER_ITEM) of each.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a receiver that fails a check.
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
#[derive(Clone, PartialEq, Eq)]
pub enum Outputs {
    /// 128 bits per point, and for each the index of its item among the given items.
    Short {
        /// The outputs.
        values: Vec<Output>,
        /// The items' numbers.
        numbers: Vec<u32>,
    },
    /// 256 bits for each item, in the order of the items.
    Long(Vec<LongOutput>),
}

vesica_primitives::opaque!(Outputs);

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

/// Maximum bits of statistical security that 128-bit outputs allow for sets of these sizes, in the OPRF `O`
/// with its number of outputs per item of the sender.
///
/// The halves of items that such an OPRF works on have 128 bits as well. The outputs of different items, and
/// likewise their halves, may each collide with probability at most half of one event's share, over all
/// pairs, those of the receiver's own items included.
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

/// `items` times `each`, saturating.
fn bytes(items: u64, each: u64) -> u64 {
    items.saturating_mul(each)
}

/// Number of keys beyond which a receiver's linear system grows no further: the keys of one bin of its OKVS.
const MAX_SYSTEM: u64 = (1 << 20) + (1 << 18);
