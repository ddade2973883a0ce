//! Multi-point oblivious pseudorandom functions (OPRFs) from sparse oblivious-transfer (OT) extension: one
//! idea, and three ways to encode its message.
//!
//! **Papers.** B. Pinkas, M. Rosulek, N. Trieu, A. Yanai, *SpOT-Light: Lightweight Private Set Intersection from
//! Sparse OT Extension*, CRYPTO 2019 (PRTY19): figure 5 as `spot-low`, figure 7 as `spot-fast`; and
//! *Faster Than Ever: A New Lightweight PSI and Its Variants* (LTSXQ26), figure 14, as `sparse-okvs`, at the
//! width of PRTY19.
//!
//! **Adversary.** Semi-honest. `spot-low` has a form that withstands a malicious sender, if F is a random oracle
//! (PRTY19, theorem 2): see `docs/protocols/sparse.md` for what its simulator needs. None of the three withstands a
//! receiver that deviates.
//!
//! **What is revealed.** The sizes of both sets, which the contract tells anyway.
//!
//! **The figure.** The OT extension's matrix has a row for every string, but only the rows of the receiver's
//! items are ever written down.
//! 1. In ℓ base OTs with reversed roles, the sender obtains secret bits s and one key q_i of each pair, the
//!    receiver all pairs (t_i, u_i). The receiver then sends a salt, with which all keys are hashed.
//! 2. Row y of the matrices is T(y) = F(t_1, y) ‖ … ‖ F(t_ℓ, y), U(y) likewise, and R(y) = T(y) ⊕ U(y).
//! 3. The receiver sends one message P that gives R(y) at each of its points y, and nothing meaningful
//!    elsewhere: [`Message`].
//! 4. The sender has row x of Q, with Q(x) = T(x) ⊕ (s ∧ R(x)). The output is H(Q(x) ⊕ (s ∧ P(x))), which
//!    is H(T(x)) where P(x) = R(x).
//!
//! For any other x, P(x) ⊕ R(x) is a random string of ℓ bits. One bit of s hides the output for each of its
//! ones. These are at least 128 for all of the sender's points, except with a small probability, if ℓ is
//! [`width`](crate::width::width) of their number. `evaluation/narrow-masks.md` shows what a narrower matrix gives
//! away.
//!
//! **λ.** Four events share 2^-λ ([`EVENTS`]): P does not exist (the oblivious key-value store has no
//! encoding, or two-choice bins overflow; a polynomial always exists); some point of the sender's meets fewer
//! than 128 ones; masks of different items collide; points of different items are equal, or equal to a point
//! of a polynomial's transforms.
//!
//! | protocol | P | points of an item |
//! |---|---|---|
//! | `spot-low` | a polynomial through all points, in four slices | 1 |
//! | `spot-fast` | a polynomial per bin, two-choice hashing | 2 for the sender: one per hash function, whose number is appended to the item |
//! | `sparse-okvs` | an oblivious key-value store (OKVS) | 1 |
//!
//! **Deviations.** The salt: the base OTs are endemic, so their chooser could try functions until it gets
//! keys that suit it, while the paper's keys are uniform. F is a bit of AES under the key, applied to the
//! first 128 bits of the item, a salted hash. Polynomials are over GF(2^k) instead of a prime field, k being
//! a quarter of ℓ rounded up: uniform strings are uniform elements exactly. H is BLAKE3, keyed for the run,
//! of all ℓ bits; against a malicious sender also of the item, and of so many bits ([`mask_bits`]) that no two items share
//! a mask, not even two that share a point, which takes 2^64 hashes to find.

mod bins;
pub mod rows;
mod slices;
mod store;
mod strings;

use std::marker::PhantomData;
use std::mem;

use rand_core::CryptoRng;
use vesica_correlations::base_ot::{self, KeyAgreement};
use vesica_correlations::choices::Choices;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, End, Error, Frames, Kind, Traffic, recv_rows, send_rows};
use zeroize::Zeroizing;

use rows::WithItems;

use crate::{Item, ItemCost, Oprf, Outputs, Params, PostQuantum, Spec, max_lambda_of_short};

pub use bins::{BINS, Bins};
pub use rows::{AesBit, BitFunction, Row, RowHash};
pub use slices::{SLICE, Slices};
pub use store::{STORE, Store};

/// The salt of the columns' keys.
const SALT: Kind = Kind {
    code: 64,
    name: "key salt",
};

/// The widest matrix, in columns.
pub const MAX_COLUMNS: usize = 512;

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 4;

/// Maximum bits of statistical security: up to it, and for up to 2^27 points of the sender's, the matrix is
/// no wider than [`MAX_COLUMNS`].
pub const MAX_LAMBDA: u32 = 68;

/// ℓ of a run in which the sender has `points` points per item.
pub fn width(params: &Params, points: usize) -> usize {
    let evaluations = (points * params.sender_size) as u64;
    crate::width::width(evaluations, params.lambda_each(EVENTS))
}

/// 2b − 1 where a malicious sender computes 2^b masks at most, for [`mask_bits`]: b is 63.5.
const LOG_PAIRS: u32 = 126;

/// Bits of a mask against a malicious sender. H takes the item and is keyed by the run and by the salt, so that
/// nothing can be prepared. Of q hashes two are equal in w bits with probability q²·2^-(w+1) at most, which is the share of
/// one event at q = 2^63.5. A mask that the sender has computed for no item is one of an item of the receiver's with
/// probability 2^-w, all together with far less.
pub fn mask_bits(params: &Params) -> u32 {
    LOG_PAIRS + params.lambda_each(EVENTS)
}

/// The hash of rows, H.
pub fn output_oracle(params: &Params) -> Oracle {
    Oracle::new("vesica/1 sparse output", &params.session)
}

/// H against a malicious sender.
fn with_items<'a>(params: &Params, items: &'a [Item]) -> WithItems<'a> {
    WithItems {
        oracle: Oracle::new("vesica/1 sparse output of an item", &params.session),
        items,
    }
}

/// Turns the keys of the base OTs into those of F.
fn salt_keys(params: &Params, salt: &[u8; 16], keys: &mut [Block]) {
    let oracle = Oracle::new("vesica/1 sparse key", &params.session);
    for key in keys {
        let hash = Zeroizing::new(oracle.hash(&[salt, &key.to_le_bytes()]));
        let (half, _) = hash.split_at(16);
        *key = Block::from_le_bytes(std::array::from_fn(|i| half[i]));
    }
}

/// The points of a side's items, in an order that suits the message.
pub struct Points<L> {
    /// The points, each an input of F.
    pub points: Vec<Block>,
    /// For each point the number of its item.
    pub numbers: Vec<u32>,
    /// Where each point is in the message.
    pub layout: L,
}

/// A way to encode rows in one message: step 3 on the receiver's side and step 4 on the sender's.
pub trait Message: Sync {
    /// Points of each of the sender's items.
    const POINTS: usize;

    /// Whether either party's points are one of each item, in the order of the items: only then can a mask be of 2κ bits.
    const KEEPS_ORDER: bool = false;

    /// The specification of plain PSI with this message.
    fn spec() -> &'static Spec;

    /// Where points are in the message.
    type Layout;

    /// The message of a run, with a matrix of at least `width` columns.
    fn new(params: &Params, width: usize) -> Self;

    /// Columns of the matrix, at most [`MAX_COLUMNS`].
    fn columns(&self) -> usize;

    /// The frames of the message.
    fn frames(&self) -> Frames;

    /// The receiver's points, one per item.
    ///
    /// # Errors
    /// `Resource` with a probability of at most 2^-λ for distinct items.
    fn receiver_points(&self, items: &[Item]) -> Result<Points<Self::Layout>, Error>;

    /// The sender's points, [`POINTS`](Self::POINTS) per item.
    fn sender_points(&self, items: &[Item]) -> Points<Self::Layout>;

    /// Writes and sends the message that has `rows[i]` at point i. Bits beyond the columns are 0.
    ///
    /// # Errors
    /// The channel's; `Resource` if the points do not allow it, with a probability of at most 2^-λ.
    fn write(
        &self,
        channel: &mut dyn Channel,
        points: &Points<Self::Layout>,
        rows: &[Row],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error>;

    /// Receives the message, and adds s ∧ P(point i) to `rows[i]`.
    ///
    /// # Errors
    /// The channel's, and `PeerMisbehaved`.
    fn read(
        &self,
        channel: &mut dyn Channel,
        points: &Points<Self::Layout>,
        s: &Row,
        rows: &mut [Row],
    ) -> Result<(), Error>;
}

/// Step 1 on the receiver's side: both keys of each column.
pub fn receiver_keys(
    channel: &mut dyn Channel,
    params: &Params,
    columns: usize,
    rng: &mut dyn CryptoRng,
) -> Result<Zeroizing<Vec<[Block; 2]>>, Error> {
    channel.begin_phase("correlations");
    let mut pairs = base_ot::send(channel, &params.session, columns, rng)?;
    let mut salt = [0; 16];
    rng.fill_bytes(&mut salt);
    send_rows(channel, SALT, &salt, 16)?;
    salt_keys(params, &salt, pairs.as_flattened_mut());
    Ok(pairs)
}

/// Step 1 on the sender's side: the key of each column that s chooses.
fn sender_keys(
    channel: &mut dyn Channel,
    params: &Params,
    s: &Choices,
    rng: &mut dyn CryptoRng,
) -> Result<Zeroizing<Vec<Block>>, Error> {
    channel.begin_phase("correlations");
    let mut keys = base_ot::receive(channel, &params.session, s.clone(), rng)?;
    let mut salt = [0; 16];
    recv_rows(channel, SALT, 16, 1, |row| {
        salt.copy_from_slice(row);
        Ok(())
    })?;
    salt_keys(params, &salt, &mut keys);
    Ok(keys)
}

/// A sparse extension with the message encoding `M` and the bit function `F`.
pub struct Sparse<M, F = AesBit> {
    width: fn(&Params) -> usize,
    parts: PhantomData<fn() -> (M, F)>,
}

impl<M: Message, F: BitFunction> Sparse<M, F> {
    /// At the width that PRTY19 proves.
    pub const fn new() -> Self {
        Sparse::unsafe_width(|params| width(params, M::POINTS))
    }

    /// With a matrix of at least `width` columns. Fewer than [`width()`] leak the sender's set: only for
    /// measurements with random items.
    #[doc(hidden)]
    pub const fn unsafe_width(width: fn(&Params) -> usize) -> Self {
        let parts = PhantomData;
        Sparse { width, parts }
    }
}

/// What sparse extensions have in common.
pub const fn spec<M: Message>(
    name: &'static str,
    source: &'static str,
    max_items: u64,
    working_bytes: fn(u64, u64) -> u64,
) -> Spec {
    Spec {
        name,
        source,
        security: Security::SemiHonest,
        exact: None,
        cheaper: None,
        post_quantum: PostQuantum::Never,
        max_items,
        max_lambda: |receiver_size, sender_size| {
            let short = max_lambda_of_short::<Sparse<M>>(receiver_size, sender_size);
            Some(short.min(MAX_LAMBDA))
        },
        item_cost: ItemCost {
            bytes: 256,
            aes_blocks: 50_000,
        },
        working_bytes,
    }
}

impl<M: Message, F: BitFunction> Default for Sparse<M, F> {
    fn default() -> Self {
        Sparse::new()
    }
}

/// `Resource` if the items cannot be written into a message.
impl<M: Message, F: BitFunction> Oprf for Sparse<M, F> {
    const OUTPUTS_PER_ITEM: usize = M::POINTS;

    const OUTPUT_BITS: usize = 256;

    const EVENTS: u32 = EVENTS;

    type Prepared = ();

    fn mask_bits(params: &Params) -> u32 {
        mask_bits(params)
    }

    fn spec(&self) -> &'static Spec {
        M::spec()
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) {}

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        let message = M::new(params, (self.width)(params));
        base_ot::traffic(
            traffic,
            End::Receiver,
            KeyAgreement::Classical,
            message.columns(),
        );
        let salt = Frames::rows(1, 16);
        traffic.flow(End::Receiver, salt + message.frames());
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let message = M::new(params, (self.width)(params));
        let pairs = receiver_keys(channel, params, message.columns(), rng)?;
        receive_with::<M, F>(channel, params, &message, items, &pairs, rng)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let message = M::new(params, (self.width)(params));
        let s = Choices::random(message.columns(), rng);
        let keys = sender_keys(channel, params, &s, rng)?;
        send_with::<M, F>(channel, params, &message, items, &s, &keys)
    }
}

/// The receiver, from the keys of base OTs.
fn receive_with<M: Message, F: BitFunction>(
    channel: &mut dyn Channel,
    params: &Params,
    message: &M,
    items: &[Item],
    pairs: &[[Block; 2]],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.receiver_size);
    channel.begin_phase("rows");
    let mut points = message.receiver_points(items)?;
    // Step 2.
    let t = F::new(pairs.iter().map(|pair| pair[0]));
    let u = F::new(pairs.iter().map(|pair| pair[1]));
    let (outputs, rows) = match params.security {
        Security::SemiHonest => {
            let (values, rows) = rows::both(&t, &u, &output_oracle(params), &points.points);
            let numbers = mem::take(&mut points.numbers);
            (Outputs::Short { values, numbers }, rows)
        }
        Security::MaliciousSender | Security::Malicious => {
            assert!(M::KEEPS_ORDER);
            let (values, rows) = rows::both(&t, &u, &with_items(params, items), &points.points);
            (Outputs::Long(values), rows)
        }
    };
    // Step 3.
    channel.begin_phase("message");
    message.write(channel, &points, &rows, rng)?;
    Ok(outputs)
}

/// The sender, from the secret bits and the keys of base OTs.
fn send_with<M: Message, F: BitFunction>(
    channel: &mut dyn Channel,
    params: &Params,
    message: &M,
    items: &[Item],
    s: &Choices,
    keys: &[Block],
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.sender_size);
    channel.begin_phase("rows");
    let points = message.sender_points(items);
    // Step 4, its first half while the receiver works.
    let q = F::new(keys.iter().copied());
    let mut rows = rows::one(&q, &points.points);
    channel.begin_phase("message");
    let s = Zeroizing::new(rows::row_of_blocks(s.blocks()));
    message.read(channel, &points, &s, &mut rows)?;
    Ok(match params.security {
        Security::SemiHonest => Outputs::Short {
            values: rows::outputs(&output_oracle(params), &rows),
            numbers: points.numbers,
        },
        Security::MaliciousSender | Security::Malicious => {
            assert!(M::KEEPS_ORDER);
            Outputs::Long(rows::outputs(&with_items(params, items), &rows))
        }
    })
}

#[cfg(test)]
mod tests;
