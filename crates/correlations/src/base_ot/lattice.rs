//! Base oblivious transfers from ML-KEM-768, which run beside those from Curve25519 with the same choices.
//!
//! **Papers.** D. Masny, P. Rindal, *Endemic Oblivious Transfer*, CCS 2019: an oblivious transfer from any key
//! agreement whose first message looks uniform. The programmable-once function φ is the Feistel form of I. McQuoid, M.
//! Rosulek, L. Roy, *Batching Base Oblivious Transfers*, ASIACRYPT 2021. ML-KEM-768 is that of FIPS 203.
//!
//! An encapsulation key is a vector t of 768 numbers modulo q = 3329 and a seed ρ of its matrix. For OT number i:
//!
//! - φ = (ρ, s, T), with s of 48 bytes and T a vector;
//! - φ at b: w = s ⊕ G(b, i, ρ, T), and t = T − H(b, i, ρ, w);
//! - to make φ at c equal to (t, ρ): w is random, T = t + H(c, i, ρ, w), s = w ⊕ G(c, i, ρ, T).
//!
//! The receiver makes φ at its choice c equal to a key of its own. The sender encapsulates to the keys at 0 and at 1, with
//! fresh randomness for each of them: whoever chose one of two keys could read the other's secret off ciphertexts that
//! share it.
//!
//! **Adversary.** Malicious on either side, in the random-oracle model, under module LWE.
//!
//! - *Against the sender.* At most one of the two keys of an OT has a secret that the receiver knows. For each T one of the
//!   vectors H(b, i, ρ, w) is drawn after the answers of G have fixed w and T, but for a coincidence of 384 bits. So t at
//!   that b is uniform and independent of the matrix, and the ciphertext to it hides its message. The receiver chooses ρ,
//!   and may try many; the matrix is a hash of it.
//! - *Against the receiver.* φ is uniform if t is. That is module LWE, and the choices have no other protection. Whoever can
//!   tell ML-KEM's keys from random vectors, today or later, finds them. A wrong ciphertext gives another secret
//!   and no error (implicit rejection), so nothing here depends on the choice.
//!
//! **Time.** What the receiver computes from its choice are hashes, additions and selections, without a branch or an address
//! that depends on it. H draws its numbers by rejection, and brings those that it keeps together in ten passes whatever
//! they are.
//!
//! **Memory.** Whoever has a transcript can compute both keys of an OT, and the receiver's is that of its choice: here a
//! public key is as secret as the private one, and what is computed here from either is wiped. What the crate `ml-kem`
//! leaves on the stack is not.

use rand_core::CryptoRng;
use subtle::ConditionallySelectable;
use vesica_primitives::kem::{self, CIPHERTEXT, DecapsulationKey, KEY, SECRET};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_wire::{Frames, Kind, Misbehaviour};
use zeroize::Zeroizing;

use crate::choices::Choices;

/// Frames with the receiver's functions.
pub(super) const FUNCTIONS: Kind = Kind {
    code: 46,
    name: "post-quantum base-transfer functions",
};

/// Frames with the sender's ciphertexts.
pub(super) const CIPHERTEXTS: Kind = Kind {
    code: 44,
    name: "post-quantum base-transfer ciphertexts",
};

/// Bytes of ρ.
const RHO: usize = 32;

/// Bytes of s, so many that no two queries meet.
const S: usize = 48;

/// Numbers of a vector.
const NUMBERS: usize = 768;

/// Bytes of a vector: twelve bits for each number.
const VECTOR: usize = NUMBERS * 12 / 8;

// An encapsulation key is t, then ρ.
const _: () = assert!(KEY == VECTOR + RHO);

/// Bytes of a φ: ρ, then s, then T.
pub(super) const FUNCTION_BYTES: usize = RHO + S + VECTOR;

/// Bytes of the ciphertexts of an OT: to the key at 0, then to the key at 1.
pub(super) const CIPHERTEXTS_BYTES: usize = 2 * CIPHERTEXT;

/// q.
const MODULUS: u16 = 3329;

/// Numbers of a polynomial, of which a vector has three.
const POLYNOMIAL: usize = 256;

/// Bytes from which H makes a polynomial: 560 candidates, of which 256 are below q but with a probability of 2^-261.
const CANDIDATES: usize = 840;

/// Candidates for the numbers of a polynomial.
const ALL: usize = CANDIDATES * 8 / 12;

/// The longest step of what is moved to the front, a power of two.
const FURTHEST: usize = 512;

/// One φ.
pub(super) type Function = [u8; FUNCTION_BYTES];

/// The ciphertexts of an OT.
pub(super) type Ciphertexts = [u8; CIPHERTEXTS_BYTES];

/// What the parties agree on.
pub(super) type Secret = [u8; SECRET];

type Vector = [u16; NUMBERS];

/// Numbers of twelve bits, two from three bytes each time.
fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> {
    let (triples, _) = bytes.as_chunks::<3>();
    triples.iter().flat_map(|triple| {
        let [a, b, c] = triple.map(u16::from);
        [a | (b & 15) << 8, b >> 4 | c << 4]
    })
}

fn decode(bytes: &[u8; VECTOR]) -> Vector {
    let mut numbers = numbers(bytes);
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

fn encode(vector: &Vector) -> [u8; VECTOR] {
    let mut bytes = [0; VECTOR];
    let (triples, _) = bytes.as_chunks_mut::<3>();
    let (pairs, _) = vector.as_chunks::<2>();
    for (triple, [a, b]) in triples.iter_mut().zip(pairs) {
        *triple = [*a as u8, (a >> 8) as u8 | (b << 4) as u8, (b >> 4) as u8];
    }
    bytes
}

/// a − b modulo q.
fn minus(a: u16, b: u16) -> u16 {
    let difference = a.wrapping_sub(b);
    // The highest bit says that it is negative.
    difference.wrapping_add(MODULUS & 0u16.wrapping_sub(difference >> 15))
}

/// a + b modulo q.
fn plus(a: u16, b: u16) -> u16 {
    minus(a, minus(0, b))
}

fn each(a: &Vector, b: &Vector, of: fn(u16, u16) -> u16) -> Vector {
    std::array::from_fn(|i| of(a[i], b[i]))
}

/// Moves the candidates below q to the front, in their order; what is missing there is 0. The steps, and where they read and
/// write, are the same for all candidates.
fn keep(candidates: &mut [u16; ALL]) {
    // A number, and above it how far it moves, as often as a candidate before it was too large.
    let mut placed = Zeroizing::new([0u32; ALL + FURTHEST]);
    let mut rejected = 0;
    for (place, candidate) in placed.iter_mut().zip(candidates.iter()) {
        let is_kept = u32::from(*candidate < MODULUS);
        *place = (u32::from(*candidate) | rejected << 16) * is_kept;
        rejected += 1 - is_kept;
    }
    // Bit by bit from the lowest, no two meet: nothing moves further than what comes after it.
    let mut moved = Zeroizing::new([0u32; ALL]);
    for bit in 0..=FURTHEST.ilog2() {
        let moves = |place: u32| 0u32.wrapping_sub(place >> (16 + bit) & 1);
        let pairs = placed.iter().zip(&placed[1 << bit..]);
        for (place, (here, there)) in moved.iter_mut().zip(pairs) {
            *place = here & !moves(*here) | there & moves(*there);
        }
        placed[..ALL].copy_from_slice(&*moved);
    }
    for (candidate, place) in candidates.iter_mut().zip(placed.iter()) {
        *candidate = *place as u16;
    }
}

/// A φ in its parts.
#[derive(Clone, Copy)]
struct Parts<'a> {
    rho: &'a [u8; RHO],
    s: &'a [u8; S],
    t: &'a [u8; VECTOR],
}

fn parts(function: &Function) -> Parts<'_> {
    let (rho, rest) = function.split_first_chunk().expect("a function");
    let (s, t) = rest.split_first_chunk().expect("a function");
    let t = t.first_chunk().expect("a function");
    Parts { rho, s, t }
}

/// G and H of one run.
struct Oracles {
    fold: Oracle,
    mask: Oracle,
}

impl Oracles {
    fn new(session: &[u8; 32]) -> Self {
        Oracles {
            fold: Oracle::new("vesica/1 base-ot lattice fold", session),
            mask: Oracle::new("vesica/1 base-ot lattice mask", session),
        }
    }

    /// `string` ⊕ G(b, i, ρ, T): from s to w, and back.
    fn folded(&self, b: u8, i: usize, parts: &Parts<'_>) -> [u8; S] {
        let mut string = *parts.s;
        let index = (i as u64).to_le_bytes();
        self.fold
            .xor_stream(&[&[b], &index, parts.rho, parts.t], &mut string);
        string
    }

    /// H(b, i, ρ, w).
    fn mask(&self, b: u8, i: usize, rho: &[u8; RHO], w: &[u8; S]) -> Zeroizing<Vector> {
        let mut stream = Zeroizing::new([0; NUMBERS / POLYNOMIAL * CANDIDATES]);
        let index = (i as u64).to_le_bytes();
        self.mask.xor_stream(&[&[b], &index, rho, w], &mut *stream);
        let mut vector = Zeroizing::new([0; NUMBERS]);
        let polynomials = vector.chunks_exact_mut(POLYNOMIAL);
        for (polynomial, stream) in polynomials.zip(stream.chunks_exact(CANDIDATES)) {
            let mut candidates = Zeroizing::new([0; ALL]);
            for (place, candidate) in candidates.iter_mut().zip(numbers(stream)) {
                *place = candidate;
            }
            keep(&mut candidates);
            polynomial.copy_from_slice(&candidates[..POLYNOMIAL]);
        }
        vector
    }

    /// The encapsulation key that φ is at `b`.
    fn value(&self, b: u8, i: usize, function: &Function) -> [u8; KEY] {
        let parts = parts(function);
        let w = self.folded(b, i, &parts);
        let mask = self.mask(b, i, parts.rho, &w);
        let t = each(&decode(parts.t), &mask, minus);
        let mut key = [0; KEY];
        key[..VECTOR].copy_from_slice(&encode(&t));
        key[VECTOR..].copy_from_slice(parts.rho);
        key
    }

    /// The φ that is `key` at `c`.
    fn program(&self, c: u8, i: usize, key: &[u8; KEY], w: &[u8; S]) -> Function {
        let (t, rho) = key.split_first_chunk::<VECTOR>().expect("a key");
        let rho = rho.first_chunk().expect("a key");
        let mask = self.mask(c, i, rho, w);
        let t = Zeroizing::new(decode(t));
        let t = encode(&each(&t, &mask, plus));
        let s = self.folded(c, i, &Parts { rho, s: w, t: &t });
        let mut function = [0; FUNCTION_BYTES];
        function[..RHO].copy_from_slice(rho);
        function[RHO..RHO + S].copy_from_slice(&s);
        function[RHO + S..].copy_from_slice(&t);
        function
    }
}

/// The receiver, waiting for ciphertexts.
pub(super) struct Receiver {
    /// Where they are made, and never moved: they overwrite themselves there.
    keys: Vec<Option<DecapsulationKey>>,
}

impl Receiver {
    /// The receiver and its functions, one per choice bit.
    pub(super) fn new(
        session: &[u8; 32],
        choices: &Choices,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Vec<Function>) {
        let oracles = Oracles::new(session);
        let mut random = Zeroizing::new(vec![[0; kem::SEED + S]; choices.len()]);
        rng.fill_bytes(random.as_flattened_mut());
        let mut functions = vec![[0; FUNCTION_BYTES]; choices.len()];
        let mut receiver = Receiver {
            keys: (0..choices.len()).map(|_| None).collect(),
        };
        let made = receiver.keys.iter_mut().zip(functions.iter_mut());
        let tasks = random.iter().zip(made).enumerate();
        parallel::each(tasks, |(i, (random, (place, function)))| {
            let (seed, w) = random.split_first_chunk().expect("a seed");
            let key = place.insert(DecapsulationKey::from_seed(seed));
            let w = w.first_chunk().expect("a string");
            let choice = choices.get(i).unwrap_u8();
            *function = oracles.program(choice, i, key.encapsulation_key(), w);
        });
        (receiver, functions)
    }

    /// The secret of every choice.
    pub(super) fn secrets(
        self,
        choices: &Choices,
        ciphertexts: &[Ciphertexts],
    ) -> Zeroizing<Vec<Secret>> {
        assert_eq!(ciphertexts.len(), self.keys.len());
        let mut secrets = Zeroizing::new(vec![[0; SECRET]; self.keys.len()]);
        let keys = self.keys.iter().flatten();
        let keys: Vec<&DecapsulationKey> = keys.collect();
        let tasks = keys.iter().zip(ciphertexts).zip(secrets.iter_mut());
        parallel::each(tasks.enumerate(), |(i, ((key, ciphertexts), secret))| {
            let (zero, one) = ciphertexts.split_at(CIPHERTEXT);
            let mut chosen = Zeroizing::new([0; CIPHERTEXT]);
            for (byte, (zero, one)) in chosen.iter_mut().zip(zero.iter().zip(one)) {
                *byte = u8::conditional_select(zero, one, choices.get(i));
            }
            secret.copy_from_slice(&*key.decapsulate(&chosen));
        });
        secrets
    }
}

/// Ciphertexts, and both secrets of each OT.
type Encapsulated = (Vec<Ciphertexts>, Zeroizing<Vec<[Secret; 2]>>);

/// The sender's part. Fails for what is no function.
pub(super) fn encapsulate(
    session: &[u8; 32],
    functions: &[Function],
    rng: &mut dyn CryptoRng,
) -> Result<Encapsulated, Misbehaviour> {
    let bad = || Misbehaviour::BadValue {
        what: FUNCTIONS.name,
        problem: "a number is not below 3329",
    };
    let is_vector = |function| numbers(parts(function).t).all(|number| number < MODULUS);
    if !functions.iter().all(is_vector) {
        return Err(bad());
    }
    let oracles = Oracles::new(session);
    let mut random = Zeroizing::new(vec![[[0; 32]; 2]; functions.len()]);
    rng.fill_bytes(random.as_flattened_mut().as_flattened_mut());
    let mut ciphertexts = vec![[0; CIPHERTEXTS_BYTES]; functions.len()];
    let mut secrets = Zeroizing::new(vec![[[0; SECRET]; 2]; functions.len()]);
    let outputs = ciphertexts.iter_mut().zip(secrets.iter_mut());
    let tasks = functions.iter().zip(random.iter()).zip(outputs).enumerate();
    parallel::try_each(
        tasks,
        |(i, ((function, random), (ciphertexts, secrets)))| {
            let (halves, _) = ciphertexts.as_chunks_mut::<CIPHERTEXT>();
            let outputs = halves.iter_mut().zip(secrets);
            for (b, (random, (ciphertext, secret))) in (0..).zip(random.iter().zip(outputs)) {
                let key = oracles.value(b, i, function);
                let (sent, shared) = kem::encapsulate(&key, random).ok_or_else(bad)?;
                *ciphertext = sent;
                *secret = *shared;
            }
            Ok(())
        },
    )?;
    Ok((ciphertexts, secrets))
}

/// What the receiver and the sender send for so many OTs.
pub(super) fn frames(count: usize) -> [Frames; 2] {
    [FUNCTION_BYTES, CIPHERTEXTS_BYTES].map(|bytes| Frames::rows(count, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever is too large, up to all of it.
        #[test]
        fn what_is_small_is_kept_in_its_order(
            candidates in prop::collection::vec(0u16..4096, ALL),
            too_large in prop::collection::vec(0u16..100, ALL),
            percent in 0u16..=100,
        ) {
            let mut kept: [u16; ALL] = std::array::from_fn(|i| {
                if too_large[i] < percent { 4000 } else { candidates[i] }
            });
            let mut expected: Vec<u16> = kept.iter().copied().filter(|c| *c < MODULUS).collect();
            expected.resize(ALL, 0);
            keep(&mut kept);
            prop_assert_eq!(kept.to_vec(), expected);
        }

        #[test]
        fn numbers_come_back(numbers in prop::collection::vec(0u16..4096, NUMBERS)) {
            let vector: Vector = std::array::from_fn(|i| numbers[i]);
            prop_assert_eq!(decode(&encode(&vector)), vector);
        }

        #[test]
        fn sums_and_differences_are_modulo_q(a in 0..MODULUS, b in 0..MODULUS) {
            prop_assert_eq!(plus(a, b), (a + b) % MODULUS);
            prop_assert_eq!(minus(a, b), (a + MODULUS - b) % MODULUS);
        }
    }
}
