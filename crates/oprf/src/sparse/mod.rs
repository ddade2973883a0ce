//! Multi-point OPRFs from sparse OT extension: one idea, and three ways to write its message.
//!
//! **Papers.** B. Pinkas, M. Rosulek, N. Trieu, A. Yanai, *SpOT-Light: Lightweight Private Set Intersection from
//! Sparse OT Extension*, CRYPTO 2019 (PRTY19): figure 5 as `spot-low`, figure 7 as `spot-fast`; and
//! *Faster Than Ever: A New Lightweight PSI and Its Variants* (LTSXQ26), figure 14, as `sparse-okvs`, at the
//! width of PRTY19.
//!
//! **Adversary.** Semi-honest. `spot-low` withstands a sender that deviates, if F is a random
//! oracle (PRTY19, theorem 2): see `docs/protocols/sparse.md` for what its simulator asks for. None of them
//! withstands a receiver that deviates.
//!
//! **What is revealed.** The sizes of both sets, which the contract tells anyway.
//!
//! **The figure.** An OT extension's matrix has a row for every string, and only the rows of the receiver's
//! items are ever written down.
//! 1. In ℓ base transfers with turned roles, the sender has secret bits s and one key q_i of each pair, the
//!    receiver has all pairs (t_i, u_i). The receiver then sends a salt, with which all keys are hashed.
//! 2. Row y of the matrices is T(y) = F(t_1, y) ‖ … ‖ F(t_ℓ, y), U(y) likewise, and R(y) = T(y) ⊕ U(y).
//! 3. The receiver sends one message P that gives R(y) at each of its points y, and nothing meaningful
//!    elsewhere: [`Message`].
//! 4. The sender has row x of Q, with Q(x) = T(x) ⊕ (s ∧ R(x)). The output is H(Q(x) ⊕ (s ∧ P(x))), which
//!    is H(T(x)) where P(x) = R(x).
//!
//! For any other x, P(x) ⊕ R(x) is a random string of ℓ bits. Its ones are how many bits of s hide the output:
//! at least 128 for all the sender's points, but with a small probability, if ℓ is [`width()`] of their number.
//! `docs/narrow-masks.md` shows what a narrower matrix gives away, and [`research`](crate::research) has one.
//!
//! **λ.** Four events share 2^-λ ([`EVENTS`]): P does not exist (the store has no encoding, or two-choice bins
//! overflow; a polynomial always exists); some point of the sender's meets fewer than 128 ones; masks of different
//! items collide; points of different items are equal, or lie where a polynomial's transforms have theirs.
//!
//! | protocol | P | points of an item |
//! |---|---|---|
//! | `spot-low` | a polynomial through all points, in four slices | 1 |
//! | `spot-fast` | a polynomial a bin, two-choice hashing | 2 for the sender: one a function, appended to the item |
//! | `sparse-okvs` | an oblivious key-value store | 1 |
//!
//! **Deviations.** The salt: the base transfers are endemic, so that their chooser could try functions until
//! the keys that it gets suit it, and the paper's are uniform. F is a bit of AES under the key, of the item's first 128 bits, which are a salted hash's.
//! Polynomials are over GF(2^k) instead of a prime field, k being a quarter of ℓ rounded up: uniform strings
//! are uniform elements exactly. H is BLAKE3, keyed for the run, of all ℓ bits.

mod bins;
pub(crate) mod rows;
mod slices;
mod store;
mod strings;

use rand_core::CryptoRng;
use vesica_correlations::base_ot;
use vesica_correlations::choices::Choices;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::lambda_each;
use vesica_wire::{Channel, Error, Kind, recv_rows, send_rows};
use zeroize::Zeroizing;

use crate::width::width;
use crate::{Item, Outputs};

pub use bins::{BINS, Bins};
use rows::Columns;
pub use rows::{BitFunction, Row};
pub use slices::{SLICE, Slices};
pub use store::{Kept, STORE, Store};
pub use vesica_encodings::random_band::RandomBand;
pub use vesica_encodings::three_hash::ThreeHash;

/// The salt of the columns' keys.
const SALT: Kind = Kind {
    code: 64,
    name: "key salt",
};

/// The widest matrix, in columns.
pub const MOST_COLUMNS: usize = 512;

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 4;

/// The most bits of statistical security: for up to 2^27 points of the sender's the matrix is no wider than
/// [`MOST_COLUMNS`].
pub const MOST_LAMBDA: u32 = 68;

/// What both sides know.
#[derive(Clone, Debug)]
pub struct Params {
    /// Statistical security in bits, 1 to [`MOST_LAMBDA`].
    pub lambda: u32,
    /// Items of the receiver.
    pub receiver_size: usize,
    /// Items of the sender.
    pub sender_size: usize,
    /// Hash of the agreed contract and both sides' nonces.
    pub session: [u8; 32],
    /// F.
    pub function: BitFunction,
}

impl Params {
    /// Statistical security in bits of each event.
    fn lambda_each(&self) -> u32 {
        lambda_each(self.lambda, EVENTS)
    }

    /// ℓ of a run in which the sender has `points` points per item.
    pub fn width(&self, points: usize) -> usize {
        width((points * self.sender_size) as u64, self.lambda_each())
    }

    pub(crate) fn outputs(&self) -> Oracle {
        Oracle::new("vesica/1 sparse output", &self.session)
    }

    /// From the keys of transfers to those of F.
    fn salt_keys(&self, salt: &[u8; 16], keys: &mut [Block]) {
        let oracle = Oracle::new("vesica/1 sparse key", &self.session);
        for key in keys {
            let hash = Zeroizing::new(oracle.hash(&[salt, &key.to_le_bytes()]));
            let (half, _) = hash.split_at(16);
            *key = Block::from_le_bytes(std::array::from_fn(|i| half[i]));
        }
    }
}

/// The points of a side's items, in an order that suits the message.
pub struct Points<L> {
    /// The points, each an input of F.
    pub(crate) points: Vec<Block>,
    /// The number of the item that each is of.
    numbers: Vec<u32>,
    /// Where each stands in the message.
    layout: L,
}

/// A way to write rows into one message: step 3 on the receiver's side and step 4 on the sender's.
pub trait Message: Sync {
    /// Points of each of the sender's items.
    const POINTS: usize;

    /// What a message knows of where points stand in it.
    type Layout;

    /// The message of a run, with a matrix of at least `width` columns.
    fn new(params: &Params, width: usize) -> Self;

    /// Columns of the matrix, at most [`MOST_COLUMNS`].
    fn columns(&self) -> usize;

    /// The receiver's points, one an item.
    ///
    /// # Errors
    /// `Resource` with a probability of at most 2^-λ for distinct items.
    fn receiver_points(&self, items: &[Item]) -> Result<Points<Self::Layout>, Error>;

    /// The sender's points, [`POINTS`](Self::POINTS) an item.
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
pub(crate) fn receiver_keys(
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
    params.salt_keys(&salt, pairs.as_flattened_mut());
    Ok(pairs)
}

/// Step 1 on the sender's side: the key of each column that s has chosen.
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
    params.salt_keys(&salt, &mut keys);
    Ok(keys)
}

/// Runs the receiver; F of its items.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for what no sender sends; `Resource` if the items cannot be written
/// into a message, which distinct items make happen with probability at most 2^-λ.
///
/// # Panics
/// If there are not as many items as `params` says.
pub fn receive<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    receive_wide::<M>(channel, params, params.width(M::POINTS), items, rng)
}

/// As [`receive`], with a matrix of at least `width` columns.
pub(crate) fn receive_wide<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    width: usize,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    let message = M::new(params, width);
    let pairs = receiver_keys(channel, params, message.columns(), rng)?;
    receive_with(channel, params, &message, items, &pairs, rng)
}

/// As [`receive`], from the keys of base transfers.
fn receive_with<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    message: &M,
    items: &[Item],
    pairs: &[[Block; 2]],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.receiver_size);
    channel.begin_phase("rows");
    let points = message.receiver_points(items)?;
    // Step 2.
    let t = Columns::new(params.function, pairs.iter().map(|pair| pair[0]));
    let u = Columns::new(params.function, pairs.iter().map(|pair| pair[1]));
    let (masks, rows) = rows::both(&t, &u, &params.outputs(), &points.points);
    // Step 3.
    channel.begin_phase("message");
    message.write(channel, &points, &rows, rng)?;
    Ok(Outputs {
        masks,
        numbers: points.numbers,
    })
}

/// Runs the sender; F of its items, [`Message::POINTS`] outputs an item.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for what no receiver sends.
///
/// # Panics
/// If there are not as many items as `params` says.
pub fn send<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    send_wide::<M>(channel, params, params.width(M::POINTS), items, rng)
}

/// As [`send`], with a matrix of at least `width` columns.
pub(crate) fn send_wide<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    width: usize,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    let message = M::new(params, width);
    let s = Choices::random(message.columns(), rng);
    let keys = sender_keys(channel, params, &s, rng)?;
    send_with(channel, params, &message, items, &s, &keys)
}

/// As [`send`], from the secret bits and the keys of base transfers.
fn send_with<M: Message>(
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
    let q = Columns::new(params.function, keys.iter().copied());
    let mut rows = rows::one(&q, &points.points);
    channel.begin_phase("message");
    let s = Zeroizing::new(rows::row_of_blocks(s.blocks()));
    message.read(channel, &points, &s, &mut rows)?;
    Ok(Outputs {
        masks: rows::outputs(&params.outputs(), &rows),
        numbers: points.numbers,
    })
}

#[cfg(test)]
mod tests;
