//! OLE tuples from lattices: the receiver encrypts its s, and the sender answers each ciphertext with one of u·s + v for
//! each comparison.
//!
//! **Papers.** KBM23, section IV-C, over the scheme of Brakerski, Fan and Vercauteren ([`bfv`]). The privacy of the
//! sender's u and v is that of vector OLE by L. de Castro, C. Juvekar, V. Vaikuntanathan, *Fast Vector Oblivious Linear
//! Evaluation from Ring Learning with Errors*, WAHC 2021.
//!
//! **Adversary.** Semi-honest, under ring learning with errors. A malicious receiver could choose keys and ciphertexts
//! with more noise than the flood hides, and learn u and v; a malicious sender can make r wrong.
//!
//! **What is revealed.** Nothing but the tuples' number and modulus. The sender sees ciphertexts under a key of the
//! receiver's; the receiver sees, within the statistical distance [`Parameters::distance`] and under RLWE with a secret
//! and error of the sender's for each answer, c₁ as a uniform polynomial and c₀ as what decrypts to r.
//!
//! **Deviations.**
//! - The paper leaves the privacy of its answers out, its implementation too. Here every answer has
//!   1. an encryption of zero under the receiver's public key added: without it, c₁ of the answer is u times the c₁
//!      that the receiver drew, and a division gives u;
//!   2. a flood, uniform on a range of 2^b numbers such that what noise shows of u is within 2^-λ over the whole run
//!      ([`parameters`] has bound and proof). It stands for the error e₀ of the encryption of zero as well. The
//!      plaintext v is exact to a 2^-192 of q in it: with v·⌊q/t⌋ the error, up to t, would grow with v.
//!   3. its modulus switched only after that: c₁ to the product of the fewest primes, c₀, which the secret key does not
//!      multiply, to fewer bits still (as Kyber does: Bos et al., EuroS&P 2018). Both are functions of what is flooded.
//! - The factor w of the public key has the error distribution, not the ternary one. RLWE with such secrets is as hard
//!   as with uniform ones (Applebaum, Cash, Peikert, Sahai, CRYPTO 2009), and its noise is hidden in any case.
//! - Slots hold Q itself, of up to 62 bits. The paper takes several plaintext moduli and the Chinese remainder theorem
//!   for a Q that its library does not take, and its way leaks: over the integers u·(s + v/u) has some Q² values, so the
//!   multiple of Q that hides all but its remainder must be drawn from 2^λ·Q, where the paper draws from 2^λ.
//! - Masks of fresh ciphertexts, and of the public key, come from one seed; the receiver sends bodies only.
//!
//! **λ.** Two events share 2^-λ: the statistical distance of the answers, and a coefficient of an answer that decrypts
//! to another number, which makes a tuple wrong.

pub mod bfv;
pub mod fractions;
pub mod inner_product;
pub mod messages;
pub mod parameters;
pub mod plain;
pub mod ring;

use rand_core::CryptoRng;
use vesica_kernels::residues::Modulus;
use vesica_primitives::block::{Block, Cipher, Prg};
use vesica_primitives::parallel;
use vesica_primitives::prime::uniform;
use vesica_primitives::security::KeyAgreement;

use vesica_wire::{Channel, End, Error, Frames, Limit, Traffic};
use zeroize::Zeroizing;

use super::{BLOCK, ReceiverHalf, SenderHalf, Shape, Source};
use bfv::{Answer, Ciphertext, Scheme, SecretKey};
use messages::{ANSWER, CIPHERTEXT, PUBLIC_KEY};
pub use parameters::{Parameters, modulus};
use plain::Plain;
use ring::Polynomial;

/// Answers that are in memory at a time.
const ANSWERS: usize = 64;

/// Of the masks of a run.
const LABEL: &str = "vesica/1 ole lattice";

/// The masks that a run's seed gives: number 0 is the public key's, number i + 1 that of ciphertext i.
struct Masks(Cipher);

impl Masks {
    fn new(label: &'static str, session: &[u8; 32], seed: Block) -> Masks {
        let mut seed = [seed];
        Cipher::public(label, session).feed_forward(&mut seed);
        Masks(Cipher::new(seed[0]))
    }

    fn get<T: Plain>(&self, scheme: &Scheme<T>, number: usize) -> Polynomial {
        let mut seed = [number as Block];
        self.0.encrypt(&mut seed);
        scheme.ring().uniform(seed[0])
    }
}

/// The receiver of a run.
pub struct Receiver {
    scheme: Scheme,
    shape: Shape,
    masks: Masks,
    key: SecretKey,
    prg: Prg,
}

impl Receiver {
    /// A receiver with a fresh key; the seed of its masks, and the body of its public key.
    pub fn new(
        shape: Shape,
        parameters: Parameters,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> (Receiver, Block, Polynomial) {
        let scheme = Scheme::new(parameters);
        let seed = Prg::random(rng).next_block();
        let mut prg = Prg::random(rng);
        let receiver = Receiver {
            shape,
            masks: Masks::new(LABEL, session, seed),
            key: scheme.secret_key(&mut prg),
            scheme,
            prg,
        };
        let mask = receiver.masks.get(&receiver.scheme, 0);
        let mut noise = Prg::random(rng);
        let body = receiver
            .scheme
            .encrypt(&receiver.key, &mask, None, &mut noise);
        (receiver, seed, body)
    }

    /// The body of ciphertext number `number`, which has the s of N bins; slots without a bin are random.
    pub fn encrypt(&mut self, half: &ReceiverHalf, number: usize) -> Polynomial {
        let length = self.scheme.parameters().length;
        let mut slots = Zeroizing::new(vec![0; length]);
        uniform(&mut self.prg, 0, self.shape.modulus.get(), &mut slots);
        for (block, slots) in blocks(self.shape, number, &mut slots) {
            half.s(block, slots);
        }
        self.scheme.encode(&mut slots);
        let mask = self.masks.get(&self.scheme, number + 1);
        self.scheme
            .encrypt(&self.key, &mask, Some(&slots), &mut self.prg)
    }

    /// Decrypts the answer for a row of ciphertext number `number`.
    pub fn decrypt(&self, half: &mut ReceiverHalf, number: usize, row: usize, answer: &Answer) {
        let mut slots = self.scheme.decrypt(&self.key, answer);
        self.scheme.decode(&mut slots);
        for (block, slots) in blocks(self.shape, number, &mut slots) {
            half.r_mut().set(block, row, slots);
        }
    }
}

/// The sender of a run.
pub struct Sender {
    scheme: Scheme,
    shape: Shape,
    masks: Masks,
    public: Ciphertext,
}

impl Sender {
    /// A sender, for the seed and the body that [`Receiver::new`] gave.
    pub fn new(
        shape: Shape,
        parameters: Parameters,
        session: &[u8; 32],
        seed: Block,
        body: Polynomial,
    ) -> Sender {
        let scheme = Scheme::new(parameters);
        let masks = Masks::new(LABEL, session, seed);
        let mask = masks.get(&scheme, 0);
        Sender {
            scheme,
            shape,
            masks,
            public: Ciphertext { body, mask },
        }
    }

    /// Ciphertext number `number`, from its body.
    pub fn ciphertext(&self, number: usize, body: Polynomial) -> Ciphertext {
        let mask = self.masks.get(&self.scheme, number + 1);
        Ciphertext { body, mask }
    }

    /// The answer for a row of ciphertext number `number`.
    pub fn answer(
        &self,
        half: &SenderHalf,
        number: usize,
        row: usize,
        ciphertext: &Ciphertext,
        prg: &mut Prg,
    ) -> Answer {
        let scheme = &self.scheme;
        let length = scheme.parameters().length;
        let [mut u, mut v] = [(); 2].map(|()| Zeroizing::new(vec![0; length]));
        for (block, slots) in blocks(self.shape, number, &mut u) {
            half.u(block, row, slots);
        }
        for (block, slots) in blocks(self.shape, number, &mut v) {
            half.v(block, row, slots);
        }
        scheme.encode(&mut u);
        scheme.encode(&mut v);
        // u·s, and an encryption of zero.
        let (u, w) = (scheme.factor(&u), scheme.ring().error(prg));
        let answer = scheme.inner_product(&[(ciphertext, &u), (&self.public, &w)]);
        let mut answer = scheme.coefficients(answer);
        scheme.ring().add_error(prg, &mut answer.mask);
        // Plus v, and a flood.
        let mut body = scheme.lift(answer.body, &v);
        scheme.flood(&mut body, prg);
        scheme.switch(&body, answer.mask)
    }
}

/// The blocks of bins in the slots of a ciphertext; slots at the end may have none.
fn blocks(
    shape: Shape,
    number: usize,
    slots: &mut [u64],
) -> impl Iterator<Item = (usize, &mut [u64])> {
    let first = number * (slots.len() / BLOCK);
    let blocks = first..shape.blocks();
    blocks
        .zip(slots.chunks_exact_mut(BLOCK))
        .map(move |(block, slots)| (block, &mut slots[..shape.width(block)]))
}

fn parameters(shape: Shape, lambda: u32) -> Result<Parameters, Error> {
    Parameters::new(shape, lambda).ok_or_else(|| {
        let q = shape.modulus.get();
        let reason = format!("no lattice parameters for OLE modulo {q} at lambda {lambda}");
        Error::limit(Limit::Security, reason)
    })
}

/// The source. Fails with [`Limit::Security`] where [`Parameters::new`] has none.
pub struct Lattice;

impl Source for Lattice {
    const PROTOCOL: &'static str = "ole-lattice";

    /// The slots of a ciphertext, each of which costs as much as all.
    const MIN_BINS: usize = BLOCK;

    /// Parameters beyond take long to find, and few of them exist.
    const MAX_LAMBDA: u32 = 64;

    fn modulus(least: u64, bins: usize, per_bin: usize, lambda: u32) -> Option<Modulus> {
        modulus(least, bins, per_bin, lambda)
    }

    fn traffic(traffic: &mut Traffic, shape: Shape, lambda: u32, _: KeyAgreement) -> Option<()> {
        let parameters = parameters(shape, lambda).ok()?;
        let ciphertexts = shape.bins.div_ceil(parameters.length);
        let times = |frame: usize, count: usize| Frames {
            payload: (frame * count) as u64,
            count: count as u64,
        };
        if ciphertexts > 0 {
            let key = Frames::one(messages::public_key_bytes(&parameters));
            traffic.flow(End::Receiver, key);
        }
        // Two ciphertexts are on their way before the first answer is waited for.
        for first in (0..ciphertexts).step_by(2) {
            let here = (ciphertexts - first).min(2);
            let sent = times(messages::ciphertext_bytes(&parameters), here);
            traffic.flow(End::Receiver, sent);
            let answers = times(messages::answer_bytes(&parameters), here * shape.per_bin);
            traffic.flow(End::Sender, answers);
        }
        Some(())
    }

    fn receive(
        channel: &mut dyn Channel,
        shape: Shape,
        lambda: u32,
        _: KeyAgreement,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<ReceiverHalf, Error> {
        let parameters = parameters(shape, lambda)?;
        let mut half = ReceiverHalf::random(shape, rng);
        let ciphertexts = shape.bins.div_ceil(parameters.length);
        let (mut receiver, seed, body) = Receiver::new(shape, parameters.clone(), session, rng);
        if ciphertexts > 0 {
            let key = messages::public_key_to_bytes(&parameters, seed, &body);
            channel.send(PUBLIC_KEY, key)?;
        }
        // A ciphertext is on its way while the one before it is answered.
        for step in 0..=ciphertexts {
            if step < ciphertexts {
                let body = receiver.encrypt(&half, step);
                let frame = messages::ciphertext_to_bytes(&parameters, &body);
                channel.send(CIPHERTEXT, frame)?;
            }
            let Some(number) = step.checked_sub(1) else {
                continue;
            };
            for row in 0..shape.per_bin {
                let answer = messages::receive_answer(channel, &parameters)?;
                receiver.decrypt(&mut half, number, row, &answer);
            }
            channel.progress(step as u64, ciphertexts as u64);
        }
        Ok(half)
    }

    fn send(
        channel: &mut dyn Channel,
        shape: Shape,
        lambda: u32,
        _: KeyAgreement,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<SenderHalf, Error> {
        let parameters = parameters(shape, lambda)?;
        let half = SenderHalf::random(shape, rng);
        let ciphertexts = shape.bins.div_ceil(parameters.length);
        if ciphertexts == 0 {
            return Ok(half);
        }
        let (seed, body) = messages::receive_public_key(channel, &parameters)?;
        let sender = Sender::new(shape, parameters.clone(), session, seed, body);
        let mut seeds = Prg::random(rng);
        for number in 0..ciphertexts {
            let body = messages::receive_ciphertext(channel, &parameters)?;
            let ciphertext = sender.ciphertext(number, body);
            for first in (0..shape.per_bin).step_by(ANSWERS) {
                let last = shape.per_bin.min(first + ANSWERS);
                let mut drawn = Zeroizing::new([0; ANSWERS]);
                seeds.fill(&mut drawn[..]);
                let answer = |row: usize| {
                    let mut prg = Prg::new(drawn[row - first]);
                    let answer = sender.answer(&half, number, row, &ciphertext, &mut prg);
                    messages::answer_to_bytes(&parameters, &answer)
                };
                for answer in parallel::map(first..last, answer) {
                    channel.send(ANSWER, answer)?;
                }
            }
            channel.progress(number as u64 + 1, ciphertexts as u64);
        }
        Ok(half)
    }
}

#[cfg(test)]
mod tests;
