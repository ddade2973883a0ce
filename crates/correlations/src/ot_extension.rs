//! Oblivious-transfer (OT) extension: any number of OTs from 128 base OTs and symmetric cryptography.
//!
//! **Papers.** Y. Ishai, J. Kilian, K. Nissim, E. Petrank, *Extending Oblivious Transfers Efficiently*,
//! CRYPTO 2003 (IKNP), with pseudorandom columns. For malicious parties the consistency check of L. Roy,
//! *SoftSpokenOT*, CRYPTO 2022, for the repetition code, which repairs that of M. Keller, E. Orsini, P.
//! Scholl, CRYPTO 2015.
//!
//! **Shape.** In the base OTs the roles are reversed: the sender holds 128 secret bits s and one seed of each
//! pair, the receiver holds all 128 pairs. The receiver expands each pair into two columns with one bit per
//! OT, keeps the first as t_j and sends the sum of both and the column of its choice bits x. From that the
//! sender makes its columns q_j = t_j ⊕ s_j·x. Row by row this is q_i = t_i ⊕ x_i·Δ with Δ = s: the
//! correlation from which everything else here is made. There is one message flow, receiver to sender, in
//! tiles of at most 1 MiB.
//!
//! **Adversary.** [`Security::SemiHonest`]: plain IKNP, 16 bytes per OT. A malicious receiver could learn Δ.
//! [`Security::Malicious`]: every tile carries 128 more, unused rows and the check below; 0.4 % more traffic
//! on large batches. The base OTs withstand malicious peers in either case.
//!
//! **The check.** A column is cut into pieces of 128 bits, elements of GF(2^128); h(v) = Σ χ_i·v_i + v_n with
//! random χ, and v_n the piece of the unused rows. The receiver sends h(x) and h(t_j) for all j; the sender
//! checks h(q_j) = h(t_j) + s_j·h(x) for all 128 columns.
//!
//! - *A malicious receiver.* The matrix fixes columns x_j, all equal if it is honest. Let y be what it sends
//!   in place of h(x). Column j passes for both values of s_j only if h(x_j) = y; otherwise for one at most,
//!   so the receiver has to guess s_j. Let J be the columns that it does not guess. If all x_j for j in J are
//!   equal, the receiver is equivalent to an honest one that uses this x, adds the guessed s_j times (x_j −
//!   x) to its own t_j elsewhere, and learns 128 − |J| bits of s with probability 2^-(128−|J|), being caught
//!   otherwise. That helps no more than guessing at Δ after the protocol. If they are not all equal, at least
//!   |J| − 1 of the 8128 pairs of columns differ and have the same hash, each with probability 2^-128 at
//!   most, and the check passes with probability 2^-(128−|J|). Now 2^-(128−|J|) / (|J| − 1) is at most 1/127
//!   for every |J| ≥ 2, so the probability of passing in this way is at most 8128/127 · 2^-128 = 2^-122.
//! - *The challenge.* χ is AES in counter mode under a hash of the session, the tile's position and the
//!   matrix as sent, which fixes x_j (Fiat-Shamir). A receiver that tries N matrices succeeds with
//!   probability N · 2^-122. A coin from the sender would make that 2^-122 outright, for one round trip per
//!   tile. The session has to depend on the messages that fixed the seeds; [`Sender::setup`] takes care of
//!   that.
//! - *A malicious sender* sends nothing. It learns h(x), which the unused piece of x hides completely, and
//!   h(t_j), which it can compute from h(x), s and its own columns.
//!
//! **What it gives.** Endemic OTs (Masny and Rindal, CCS 2019), like the base OTs: a malicious receiver may
//! choose its t_i, and by trial influence its own keys; the other key of each OT is random to it. Keys that
//! mask messages need no more.
//!
//! **The hash.** Keys of random OTs are made by [`Rekeyed`], with an AES key for each OT. So an evaluation of AES
//! tests one guess at Δ in one OT, whatever the keys mask and however many of those masks the receiver knows: κ is
//! 128 for any number of OTs.
//!
//! After an error an extension is dead: every later call returns the error again. A receiver that was caught
//! guessing at s gets no second guess.

mod check;
mod transfers;

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::transpose::transpose128;
use vesica_primitives::block::{Block, Prg, Rekeyed};
use vesica_primitives::parallel;
pub use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, Frames, Kind, Misbehaviour, recv_exact};
use zeroize::Zeroizing;

use crate::base_ot::{self, KeyAgreement};
use crate::choices::Choices;
use check::{CHECK_BYTES, Challenger};

/// Frames with the receiver's matrix, one tile each: 128 columns, one after the other.
pub const MATRIX: Kind = Kind {
    code: 42,
    name: "transfer matrix",
};

/// Frames with the hashes of a tile.
pub const CHECK: Kind = Kind {
    code: 43,
    name: "transfer check",
};

/// Columns, and base OTs, of an extension.
pub const COLUMNS: usize = 128;

/// How an extension that runs by itself agrees on keys.
const CLASSICAL: KeyAgreement = KeyAgreement::Classical;

/// Pieces of 128 rows in a tile, unused ones included: the matrix of a tile fills one frame.
const TILE_PIECES: usize = 512;

/// Pieces of a tile that carry no transfers.
fn unused_pieces(security: Security) -> usize {
    match security {
        Security::SemiHonest => 0,
        Security::MaliciousSender | Security::Malicious => 1,
    }
}

/// Rows of transfers in a full tile.
fn tile_rows(security: Security) -> usize {
    (TILE_PIECES - unused_pieces(security)) * 128
}

/// What the receiver sends for `count` OTs that are asked for together.
pub(crate) fn frames(count: usize, security: Security) -> Frames {
    let mut frames = Frames::default();
    let mut left = count;
    while left > 0 {
        let now = left.min(tile_rows(security));
        let pieces = now.div_ceil(128) + unused_pieces(security);
        frames += Frames::one(pieces * COLUMNS * 16);
        if security.is_malicious() {
            frames += Frames::one(CHECK_BYTES);
        }
        left -= now;
    }
    frames
}

/// What both roles keep.
struct State {
    security: Security,
    challenger: Challenger,
    /// Hash of random transfers; its tweak is the row.
    hash: Rekeyed,
    /// Rows so far, unused ones included.
    position: u64,
    failed: Option<Error>,
}

impl State {
    fn new(session: &[u8; 32], security: Security) -> Self {
        State {
            security,
            challenger: Challenger::new(session),
            hash: Rekeyed::new("vesica/1 ot-extension random", session),
            position: 0,
            failed: None,
        }
    }

    fn alive(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Reserves the next `pieces` pieces and returns their position.
    fn advance(&mut self, pieces: usize) -> u64 {
        let first = self.position;
        self.position += pieces as u64 * 128;
        first
    }
}

/// What expands a seed of column `j`. No two columns have blocks of one place in common: the check tells the receiver's peer
/// something of all of them, and a guess at a seed is a guess at that of one column.
fn column(j: u128, seed: Block) -> Prg {
    Prg::starting_at(seed, j << 64)
}

/// Columns that one task expands: enough work to be worth a task.
fn columns_a_task(pieces: usize) -> usize {
    (4096 / pieces).clamp(4, COLUMNS)
}

/// The sender of the extension, which was the receiver of the base OTs.
pub struct Sender {
    state: State,
    delta: Zeroizing<Block>,
    columns: Vec<Prg>,
}

impl Sender {
    /// A sender with secret bits `s` (bit j is the choice in base OT j) and the seeds that they chose.
    ///
    /// `session` must be new for every extension of a run, and fixed after the messages that the seeds depend
    /// on.
    pub fn new(session: &[u8; 32], security: Security, s: Block, seeds: &[Block; COLUMNS]) -> Self {
        Sender {
            state: State::new(session, security),
            delta: Zeroizing::new(s),
            columns: (0..).zip(seeds).map(|(j, seed)| column(j, *seed)).collect(),
        }
    }

    /// Runs the base OTs and starts an extension; the peer calls [`Receiver::setup`].
    ///
    /// `session` must be new for every extension of a run and for every direction.
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let choices = Choices::random(COLUMNS, rng);
        let s = Zeroizing::new(choices.blocks()[0]);
        let (seeds, session) =
            base_ot::receive_and_bind(channel, session, CLASSICAL, choices, rng)?;
        let (seeds, _) = seeds.as_chunks::<COLUMNS>();
        Ok(Sender::new(&session, security, *s, &seeds[0]))
    }

    /// A digest of the receiver's matrices so far, which both sides share; in a semi-honest run 0.
    pub(crate) fn matrices(&self) -> &[u8; 32] {
        self.state.challenger.matrices()
    }

    /// Δ of the correlation: the bits s.
    pub fn delta(&self) -> Block {
        *self.delta
    }

    /// The sender's half of `count` correlated OTs: q_i, where the receiver has q_i ⊕ x_i·Δ.
    ///
    /// Fails for good if the receiver cheats or the channel fails.
    pub fn correlated(
        &mut self,
        channel: &mut dyn Channel,
        count: usize,
    ) -> Result<Zeroizing<Vec<Block>>, Error> {
        let mut out = Zeroizing::new(Vec::with_capacity(count));
        self.extend(channel, count, |_, _, rows| out.extend_from_slice(rows))?;
        Ok(out)
    }

    /// Passes the rows of `count` transfers to `sink`, tile by tile, each after its check, along with the
    /// hash of random transfers and the tweak of the first row.
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        count: usize,
        mut sink: impl FnMut(&Rekeyed, u128, &mut [Block]),
    ) -> Result<(), Error> {
        self.state.alive()?;
        let largest = count.min(tile_rows(self.state.security)).div_ceil(128)
            + unused_pieces(self.state.security);
        let mut columns = Zeroizing::new(vec![0; largest * COLUMNS]);
        let mut rows = Zeroizing::new(vec![0; largest * 128]);
        let mut left = count;
        while left > 0 {
            let now = left.min(tile_rows(self.state.security));
            let pieces = now.div_ceil(128) + unused_pieces(self.state.security);
            let columns = &mut columns[..pieces * COLUMNS];
            let first = self.state.position;
            if let Err(error) = self.tile(channel, pieces, columns) {
                self.state.failed = Some(error.clone());
                return Err(error);
            }
            let rows = &mut rows[..pieces * 128];
            transpose128(Backend::Best, bytemuck::must_cast_slice(columns), rows);
            sink(&self.state.hash, first.into(), &mut rows[..now]);
            left -= now;
        }
        Ok(())
    }

    /// Receives and checks one tile.
    fn tile(
        &mut self,
        channel: &mut dyn Channel,
        pieces: usize,
        columns: &mut [Block],
    ) -> Result<(), Error> {
        let matrix = recv_exact(channel, MATRIX, pieces * COLUMNS * 16)?;
        let check = match self.state.security {
            Security::SemiHonest => None,
            Security::MaliciousSender | Security::Malicious => {
                Some(recv_exact(channel, CHECK, CHECK_BYTES)?)
            }
        };
        Ok(self.absorb(&matrix, check.as_deref(), columns)?)
    }

    /// The sender's columns for a matrix of the receiver's, and the check.
    fn absorb(
        &mut self,
        matrix: &[u8],
        check: Option<&[u8]>,
        columns: &mut [Block],
    ) -> Result<(), Misbehaviour> {
        let pieces = columns.len() / COLUMNS;
        let first = self.state.advance(pieces);
        let s = *self.delta;
        let each = columns_a_task(pieces);
        let generators = self.columns.chunks_mut(each);
        let tasks = generators.zip(columns.chunks_mut(each * pieces));
        parallel::each(tasks.enumerate(), |(task, (generators, columns))| {
            let columns = generators.iter_mut().zip(columns.chunks_mut(pieces));
            for (j, (prg, column)) in (task * each..).zip(columns) {
                prg.fill(column);
                let (message, _) = matrix[j * pieces * 16..][..pieces * 16].as_chunks::<16>();
                let mask = all_ones_if(s >> j);
                for (q, d) in column.iter_mut().zip(message) {
                    *q ^= mask & Block::from_le_bytes(*d);
                }
            }
        });
        match check {
            None => Ok(()),
            Some(check) => {
                let challenge = self.state.challenger.challenge(first, matrix, pieces);
                challenge.verify(s, columns, check)
            }
        }
    }
}

/// The receiver of the extension, which was the sender of the base OTs.
pub struct Receiver {
    state: State,
    columns: Vec<[Prg; 2]>,
    /// Choices of the unused rows.
    unused: Prg,
}

impl Receiver {
    /// A receiver with the seeds of the base OTs. On `session` see [`Sender::new`].
    pub fn new(
        session: &[u8; 32],
        security: Security,
        pairs: &[[Block; 2]; COLUMNS],
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let mut seed = Zeroizing::new([0; 16]);
        rng.fill_bytes(&mut *seed);
        Receiver {
            state: State::new(session, security),
            columns: (0..)
                .zip(pairs)
                .map(|(j, pair)| pair.map(|seed| column(j, seed)))
                .collect(),
            unused: Prg::new(Block::from_le_bytes(*seed)),
        }
    }

    /// Runs the base OTs and starts an extension; the peer calls [`Sender::setup`].
    pub fn setup(
        channel: &mut dyn Channel,
        session: &[u8; 32],
        security: Security,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let (pairs, session) = base_ot::send_and_bind(channel, session, CLASSICAL, COLUMNS, rng)?;
        let (pairs, _) = pairs.as_chunks::<COLUMNS>();
        Ok(Receiver::new(&session, security, &pairs[0], rng))
    }

    /// The same digest as [`Sender::matrices`].
    pub(crate) fn matrices(&self) -> &[u8; 32] {
        self.state.challenger.matrices()
    }

    /// The receiver's half of correlated OTs, one per choice: t_i = q_i ⊕ x_i·Δ.
    ///
    /// Fails for good if the channel fails.
    pub fn correlated(
        &mut self,
        channel: &mut dyn Channel,
        choices: &Choices,
    ) -> Result<Zeroizing<Vec<Block>>, Error> {
        let mut out = Zeroizing::new(Vec::with_capacity(choices.len()));
        self.extend(channel, choices, |_, _, rows| out.extend_from_slice(rows))?;
        Ok(out)
    }

    /// Passes the rows of all transfers to `sink`, tile by tile; see [`Sender::extend`].
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        choices: &Choices,
        mut sink: impl FnMut(&Rekeyed, u128, &mut [Block]),
    ) -> Result<(), Error> {
        self.state.alive()?;
        let tile_pieces = tile_rows(self.state.security) / 128;
        let unused = unused_pieces(self.state.security);
        let largest = choices.blocks().len().min(tile_pieces) + unused;
        let mut x = Zeroizing::new(vec![0; largest]);
        let mut columns = Zeroizing::new(vec![0; largest * COLUMNS]);
        let mut rows = Zeroizing::new(vec![0; largest * 128]);
        let mut left = choices.len();
        for blocks in choices.blocks().chunks(tile_pieces) {
            let now = left.min(blocks.len() * 128);
            let pieces = blocks.len() + unused;
            let x = &mut x[..pieces];
            x[..blocks.len()].copy_from_slice(blocks);
            self.unused.fill(&mut x[blocks.len()..]);
            let columns = &mut columns[..pieces * COLUMNS];
            let first = self.state.position;
            let (matrix, check) = self.expand(x, columns);
            let sent = channel
                .send(MATRIX, matrix)
                .and_then(|()| check.map_or(Ok(()), |check| channel.send(CHECK, check)));
            if let Err(error) = sent {
                self.state.failed = Some(error.clone());
                return Err(error);
            }
            let rows = &mut rows[..pieces * 128];
            transpose128(Backend::Best, bytemuck::must_cast_slice(columns), rows);
            sink(&self.state.hash, first.into(), &mut rows[..now]);
            left -= now;
        }
        Ok(())
    }

    /// The receiver's columns t_j and its message: the matrix, and the hashes for the check.
    fn expand(&mut self, x: &[Block], columns: &mut [Block]) -> (Vec<u8>, Option<Vec<u8>>) {
        let pieces = x.len();
        let first = self.state.advance(pieces);
        let mut matrix = vec![0; columns.len() * 16];
        let each = columns_a_task(pieces);
        let generators = self.columns.chunks_mut(each);
        let tasks = generators
            .zip(columns.chunks_mut(each * pieces))
            .zip(matrix.chunks_mut(each * pieces * 16));
        parallel::each(tasks, |((generators, columns), messages)| {
            let mut other = Zeroizing::new(vec![0; pieces]);
            let messages = messages.chunks_mut(pieces * 16);
            let columns = columns.chunks_mut(pieces).zip(messages);
            for ([zero, one], (column, message)) in generators.iter_mut().zip(columns) {
                zero.fill(column);
                one.fill(&mut other);
                let (message, _) = message.as_chunks_mut::<16>();
                for (((d, t), o), x) in message.iter_mut().zip(column).zip(&*other).zip(x) {
                    *d = (*t ^ o ^ x).to_le_bytes();
                }
            }
        });
        let check = match self.state.security {
            Security::SemiHonest => None,
            Security::MaliciousSender | Security::Malicious => {
                let challenge = self.state.challenger.challenge(first, &matrix, pieces);
                Some(challenge.answer(x, columns))
            }
        };
        (matrix, check)
    }
}

/// All bits set if the lowest bit of `bit` is.
pub(crate) fn all_ones_if(bit: Block) -> Block {
    (bit & 1).wrapping_neg()
}

#[cfg(test)]
mod tests;
