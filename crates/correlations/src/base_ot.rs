//! Base oblivious transfers (OTs) from key agreement on Curve25519: a few OTs from scratch, in one round. With ML-KEM-768
//! beside it, they are [hybrid](KeyAgreement::Hybrid).
//!
//! **Paper.** I. McQuoid, M. Rosulek, L. Roy, *Batching Base Oblivious Transfers*, ASIACRYPT 2021: one
//! key-agreement message from the sender for the whole batch, and for each OT a programmable-once public
//! function φ from the receiver. φ has the form of D. Masny, P. Rindal, *Endemic Oblivious Transfer*, CCS
//! 2019, over 256-bit strings with exclusive or:
//!
//! - φ = (r_0, r_1), and φ at b is r_b ⊕ H(b, i, r_{1−b}) for OT number i;
//! - to make φ at c equal to a string B: r_{1−c} is random, r_c = B ⊕ H(c, i, r_{1−c}).
//!
//! The receiver makes φ at its choice c equal to its own key-agreement message B; the key of choice b is a
//! hash of what the sender's secret and the string φ at b agree on. The two messages do not depend on each
//! other.
//!
//! **Adversary.** Malicious on either side, in the random-oracle model, under the oracle Diffie-Hellman
//! assumption on Curve25519.
//!
//! - *Against the sender.* φ at 0 and φ at 1 cannot both be chosen: one of H(0, i, r_1) and H(1, i, r_0) is
//!   queried last, and its answer makes φ there a uniform string, whose exponent the receiver would need to
//!   agree on a secret. With Q queries, and Q strings of known exponents, it hits one of these with
//!   probability Q²·2^-253 (up to eight strings decode to one point). A message of low order is one more
//!   string whose secret is known: it can be used at one choice, not at both.
//! - *Against the receiver.* Both strings of φ are uniform up to 2^-127, whatever c is, since B is (see
//!   [`vesica_primitives::curve`]). The sender's key is refused when it has low order or is not canonical,
//!   which has nothing to do with c. The receiver's secrets are multiples of 8, so a component of low order
//!   in the sender's key changes nothing.
//!
//! **What it gives.** Endemic OTs (Masny and Rindal): keys are random for parties that follow the protocol;
//! by trying messages, a malicious sender may influence both keys and a malicious receiver the key of its
//! choice. No party learns more than it should. Extensions need no more.
//!
//! **Hybrid.** The same choices go through OTs from ML-KEM-768 (`base_ot/lattice.rs`) side by side, and a key is a hash of
//! what both agree on, under a digest D of all messages. So a key that the receiver did not choose is secret as long as
//! either assumption holds. If a receiver programs the two functions at different choices, that of ML-KEM counts: it has no
//! key at all, or one where it can break Diffie-Hellman. The choices themselves are hidden as long as module LWE
//! holds, where those of Curve25519 alone are hidden without any assumption. The ciphertexts take a second flow,
//! from the sender.
//!
//! D is also the session that comes after. The sender speaks last, so that a receiver cannot search for messages that lead
//! to a session of its liking; without ciphertexts, where the receiver may have read the sender's key first, the functions
//! are no part of that session.
//!
//! **Deviations.**
//! - The key hash takes the whole transcript: a digest of session, batch size and the sender's message, then
//!   i, b and φ. The paper asks for a tag i. So a φ repeated for another OT gives unrelated keys, and several
//!   strings that lead to one secret (see [`Receiver`]) give different keys.
//! - The key-agreement messages are points of the whole curve, not of the subgroup, so that the strings of φ
//!   are uniform.

use rand_core::CryptoRng;
use subtle::{Choice, ConditionallySelectable};
use vesica_primitives::block::Block;
use vesica_primitives::curve::{Bytes32, EncodedKeys, PlainKey};
use vesica_primitives::oracle::Oracle;
pub use vesica_primitives::security::KeyAgreement;
use vesica_wire::{Channel, End, Error, Frames, Kind, Misbehaviour, Traffic, recv_rows, send_rows};
use zeroize::Zeroizing;

use crate::choices::Choices;

mod lattice;

/// Frame with the sender's public key.
pub const KEY: Kind = Kind {
    code: 40,
    name: "base-transfer key",
};

/// Frames with the receiver's functions.
pub const FUNCTIONS: Kind = Kind {
    code: 41,
    name: "base-transfer functions",
};

/// Bytes of one function on the wire.
const FUNCTION_BYTES: usize = 64;

/// One φ: (r_0, r_1).
pub type Function = [Bytes32; 2];

/// H of one run.
struct FunctionOracle(Oracle);

impl FunctionOracle {
    fn new(session: &[u8; 32]) -> Self {
        FunctionOracle(Oracle::new("vesica/1 base-ot function", session))
    }

    /// string ⊕ H(b, i, other): from φ to its value at b, and back.
    fn crossed(&self, b: u8, i: usize, string: &Bytes32, other: &Bytes32) -> Bytes32 {
        let mask = self.0.hash(&[&[b], &(i as u64).to_le_bytes(), other]);
        std::array::from_fn(|k| string[k] ^ mask[k])
    }
}

/// A digest of everything besides the functions that determines the sender's keys.
fn batch(session: &[u8; 32], count: usize, public: &Bytes32) -> [u8; 32] {
    let count = (count as u64).to_le_bytes();
    Oracle::new("vesica/1 base-ot batch", session).hash(&[&count, public])
}

/// The hash that makes keys, keyed with session, batch size and the sender's message.
struct KeyOracle(Oracle);

impl KeyOracle {
    fn new(session: &[u8; 32], count: usize, public: &Bytes32) -> Self {
        let batch = batch(session, count, public);
        KeyOracle(Oracle::new("vesica/1 base-ot key", &batch))
    }

    fn key(&self, b: u8, i: usize, function: &Function, secret: &Bytes32) -> Block {
        let index = (i as u64).to_le_bytes();
        let [r0, r1] = function;
        let key = Zeroizing::new(self.0.hash(&[&[b], &index, r0, r1, secret]));
        Block::from_le_bytes(std::array::from_fn(|k| key[k]))
    }
}

/// What a hybrid batch has sent.
struct Transcript<'a> {
    session: &'a [u8; 32],
    public: &'a Bytes32,
    functions: &'a [Function],
    lattice_functions: &'a [lattice::Function],
    ciphertexts: &'a [lattice::Ciphertexts],
}

impl Transcript<'_> {
    /// D, of all of it.
    fn digest(&self) -> [u8; 32] {
        let mut digest = [0; 32];
        let parts: [&[u8]; 5] = [
            &(self.functions.len() as u64).to_le_bytes(),
            self.public,
            self.functions.as_flattened().as_flattened(),
            self.lattice_functions.as_flattened(),
            self.ciphertexts.as_flattened(),
        ];
        Oracle::new("vesica/1 hybrid base-ot batch", self.session).xor_stream(&parts, &mut digest);
        digest
    }
}

/// The hash that makes keys of a hybrid batch, keyed with D.
struct HybridKeyOracle(Oracle);

impl HybridKeyOracle {
    fn new(digest: &[u8; 32]) -> Self {
        HybridKeyOracle(Oracle::new("vesica/1 hybrid base-ot key", digest))
    }

    fn key(&self, b: u8, i: usize, curve: &Bytes32, lattice: &lattice::Secret) -> Block {
        let index = (i as u64).to_le_bytes();
        let key = Zeroizing::new(self.0.hash(&[&[b], &index, curve, lattice]));
        Block::from_le_bytes(std::array::from_fn(|k| key[k]))
    }
}

/// The sender, waiting for the functions.
pub struct Sender {
    session: [u8; 32],
    key: PlainKey,
}

impl Sender {
    /// The sender and its message.
    pub fn new(session: &[u8; 32], rng: &mut dyn CryptoRng) -> (Self, Bytes32) {
        let key = PlainKey::generate(rng);
        let public = *key.public();
        let session = *session;
        (Sender { session, key }, public)
    }

    /// Both keys of every OT. Every string is a valid function, so there is nothing to refuse.
    pub fn keys(self, functions: &[Function]) -> Zeroizing<Vec<[Block; 2]>> {
        let hash = KeyOracle::new(&self.session, functions.len(), self.key.public());
        let secrets = self.secrets(functions);
        let mut keys = Zeroizing::new(Vec::with_capacity(functions.len()));
        for (i, (function, [s0, s1])) in functions.iter().zip(secrets.iter()).enumerate() {
            keys.push([hash.key(0, i, function, s0), hash.key(1, i, function, s1)]);
        }
        keys
    }

    /// What both strings of every function agree on.
    fn secrets(&self, functions: &[Function]) -> Zeroizing<Vec<[Bytes32; 2]>> {
        let oracle = FunctionOracle::new(&self.session);
        let values: Vec<[Bytes32; 2]> = functions
            .iter()
            .enumerate()
            .map(|(i, [r0, r1])| [oracle.crossed(0, i, r0, r1), oracle.crossed(1, i, r1, r0)])
            .collect();
        let secrets = self.key.agree(values.as_flattened());
        let (pairs, _) = secrets.as_chunks::<2>();
        Zeroizing::new(pairs.to_vec())
    }
}

/// The receiver, waiting for the sender's message.
///
/// Several strings of its messages decode to one point: two bits of a string are ignored, and two field
/// elements encode each point. The keys depend on the string.
pub struct Receiver {
    session: [u8; 32],
    choices: Choices,
    keys: EncodedKeys,
    functions: Vec<Function>,
}

impl Receiver {
    /// The receiver and its functions, one per choice bit.
    pub fn new(
        session: &[u8; 32],
        choices: Choices,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Vec<Function>) {
        let oracle = FunctionOracle::new(session);
        let keys = EncodedKeys::generate(choices.len(), rng);
        let mut others = vec![[0; 32]; choices.len()];
        rng.fill_bytes(others.as_flattened_mut());
        let functions: Vec<Function> = others
            .iter()
            .zip(keys.representatives())
            .enumerate()
            .map(|(i, (other, message))| {
                let c = choices.get(i);
                let programmed = oracle.crossed(c.unwrap_u8(), i, message, other);
                [select(&programmed, other, c), select(other, &programmed, c)]
            })
            .collect();
        let receiver = Receiver {
            session: *session,
            choices,
            keys,
            functions: functions.clone(),
        };
        (receiver, functions)
    }

    /// The key of every choice. Fails if `public` is not from an honest sender: of low order or not
    /// canonical.
    pub fn keys(self, public: &Bytes32) -> Result<Zeroizing<Vec<Block>>, Misbehaviour> {
        let secrets = self.secrets(public)?;
        let hash = KeyOracle::new(&self.session, self.choices.len(), public);
        let mut keys = Zeroizing::new(Vec::with_capacity(secrets.len()));
        for (i, (function, secret)) in self.functions.iter().zip(secrets.iter()).enumerate() {
            let c = self.choices.get(i).unwrap_u8();
            keys.push(hash.key(c, i, function, secret));
        }
        Ok(keys)
    }

    /// What the strings at the choices agree on.
    fn secrets(&self, public: &Bytes32) -> Result<Zeroizing<Vec<Bytes32>>, Misbehaviour> {
        self.keys
            .agree(public)
            .map_err(|bad| Misbehaviour::BadValue {
                what: KEY.name,
                problem: bad.problem(),
            })
    }
}

/// `one` if the choice is 1, else `zero`, in constant time.
fn select(zero: &Bytes32, one: &Bytes32, choice: Choice) -> Bytes32 {
    std::array::from_fn(|k| u8::conditional_select(&zero[k], &one[k], choice))
}

/// What `count` OTs take in which `sender` is the sender.
pub fn traffic(traffic: &mut Traffic, sender: End, agreement: KeyAgreement, count: usize) {
    let (key, mut functions) = (Frames::one(32), Frames::rows(count, FUNCTION_BYTES));
    let mut ciphertexts = Frames::default();
    if agreement == KeyAgreement::Hybrid {
        let [of_receiver, of_sender] = lattice::frames(count);
        functions += of_receiver;
        ciphertexts = of_sender;
    }
    traffic.exchange(match sender {
        End::Receiver => [key, functions],
        End::Sender => [functions, key],
    });
    traffic.flow(sender, ciphertexts);
}

/// Runs the sender of `count` OTs over a channel; returns both keys of each.
///
/// `session` must be new for every batch of a run and for every direction: two batches of one session with
/// the same public key would give related keys.
pub fn send(
    channel: &mut dyn Channel,
    session: &[u8; 32],
    count: usize,
    rng: &mut dyn CryptoRng,
) -> Result<Zeroizing<Vec<[Block; 2]>>, Error> {
    Ok(send_and_bind(channel, session, KeyAgreement::Classical, count, rng)?.0)
}

/// Keys, and a session that is new with them.
pub type Bound<Key> = (Zeroizing<Vec<Key>>, [u8; 32]);

/// As [`send`], with keys that the parties agree on so; also returns a session that depends on the sender's messages, for
/// the next user of the keys.
pub fn send_and_bind(
    channel: &mut dyn Channel,
    session: &[u8; 32],
    agreement: KeyAgreement,
    count: usize,
    rng: &mut dyn CryptoRng,
) -> Result<Bound<[Block; 2]>, Error> {
    let (sender, public) = Sender::new(session, rng);
    send_rows(channel, KEY, &public, 32)?;
    let functions: Vec<[u8; FUNCTION_BYTES]> = recv_all(channel, FUNCTIONS, count)?;
    let (strings, _) = functions.as_flattened().as_chunks::<32>();
    let (functions, _) = strings.as_chunks::<2>();
    if agreement == KeyAgreement::Classical {
        return Ok((sender.keys(functions), batch(session, count, &public)));
    }
    let lattice_functions = recv_all(channel, lattice::FUNCTIONS, count)?;
    let (ciphertexts, lattice) = lattice::encapsulate(session, &lattice_functions, rng)?;
    let rows = ciphertexts.as_flattened();
    send_rows(
        channel,
        lattice::CIPHERTEXTS,
        rows,
        lattice::CIPHERTEXTS_BYTES,
    )?;
    let transcript = Transcript {
        session,
        public: &public,
        functions,
        lattice_functions: &lattice_functions,
        ciphertexts: &ciphertexts,
    };
    let digest = transcript.digest();
    let hash = HybridKeyOracle::new(&digest);
    let curve = sender.secrets(functions);
    let mut keys = Zeroizing::new(Vec::with_capacity(count));
    for (i, ([c0, c1], [l0, l1])) in curve.iter().zip(lattice.iter()).enumerate() {
        keys.push([hash.key(0, i, c0, l0), hash.key(1, i, c1, l1)]);
    }
    Ok((keys, digest))
}

/// Receives so many rows of one length.
fn recv_all<const N: usize>(
    channel: &mut dyn Channel,
    kind: Kind,
    count: usize,
) -> Result<Vec<[u8; N]>, Error> {
    let mut all = Vec::with_capacity(count);
    recv_rows(channel, kind, N, count, |rows| {
        all.extend_from_slice(rows.as_chunks().0);
        Ok(())
    })?;
    Ok(all)
}

/// Runs the receiver over a channel; returns the key of each of its choices. On `session` see [`send`].
pub fn receive(
    channel: &mut dyn Channel,
    session: &[u8; 32],
    choices: Choices,
    rng: &mut dyn CryptoRng,
) -> Result<Zeroizing<Vec<Block>>, Error> {
    Ok(receive_and_bind(channel, session, KeyAgreement::Classical, choices, rng)?.0)
}

/// As [`receive`], with keys that the parties agree on so; also returns the session that [`send_and_bind`] returns to the
/// sender.
pub fn receive_and_bind(
    channel: &mut dyn Channel,
    session: &[u8; 32],
    agreement: KeyAgreement,
    choices: Choices,
    rng: &mut dyn CryptoRng,
) -> Result<Bound<Block>, Error> {
    let count = choices.len();
    let (receiver, functions) = Receiver::new(session, choices, rng);
    let rows = functions.as_flattened().as_flattened();
    send_rows(channel, FUNCTIONS, rows, FUNCTION_BYTES)?;
    let hybrid = (agreement == KeyAgreement::Hybrid)
        .then(|| lattice::Receiver::new(session, &receiver.choices, rng));
    if let Some((_, functions)) = &hybrid {
        let rows = functions.as_flattened();
        send_rows(channel, lattice::FUNCTIONS, rows, lattice::FUNCTION_BYTES)?;
    }
    let mut public = [0; 32];
    recv_rows(channel, KEY, 32, 1, |row| {
        public.copy_from_slice(row);
        Ok(())
    })?;
    let Some((lattice, lattice_functions)) = hybrid else {
        let keys = receiver.keys(&public)?;
        return Ok((keys, batch(session, count, &public)));
    };
    let curve = receiver.secrets(&public)?;
    let ciphertexts = recv_all(channel, lattice::CIPHERTEXTS, count)?;
    let transcript = Transcript {
        session,
        public: &public,
        functions: &functions,
        lattice_functions: &lattice_functions,
        ciphertexts: &ciphertexts,
    };
    let digest = transcript.digest();
    let hash = HybridKeyOracle::new(&digest);
    let lattice = lattice.secrets(&receiver.choices, &ciphertexts);
    let mut keys = Zeroizing::new(Vec::with_capacity(count));
    for (i, (curve, lattice)) in curve.iter().zip(lattice.iter()).enumerate() {
        let c = receiver.choices.get(i).unwrap_u8();
        keys.push(hash.key(c, i, curve, lattice));
    }
    Ok((keys, digest))
}

#[cfg(test)]
mod tests;
