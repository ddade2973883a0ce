//! The inner product of two private vectors modulo 2^64, in additive shares.
//!
//! **Source.** The inner product in a coefficient of a product of polynomials is that of M. Yasuda, T. Shimoyama, J.
//! Kogure, K. Yokoyama, T. Koshiba, *Practical Packing Method in Somewhat Homomorphic Encryption*, DPM 2013, over the
//! scheme of [`bfv`](super::bfv), with t = 2^64: coefficients are numbers modulo 2^64, and no slots are needed.
//!
//! 1. The *holder* of the key encrypts its vector a, N entries in each ciphertext: Σ a_i·X^i.
//! 2. The *helper* multiplies each ciphertext by b_0 − Σ b_i·X^(N−i), since X^N is −1. The constant coefficient of the sum
//!    of all these products is Σ a_i·b_i. It adds an encryption of zero, a random number r, and a flood, and sends back the
//!    mask c₁ and the constant coefficient of c₀: all others would show more.
//! 3. The holder decrypts Σ a_i·b_i + r, its share; the helper's is −r.
//!
//! **Adversary.** Semi-honest, as for tuples: a holder could choose keys and ciphertexts so that the answer shows b.
//!
//! **What is revealed.** Nothing. The helper sees ciphertexts. The holder sees c₁, which the encryption of zero makes look
//! uniform, and c₀ up to what the flood hides.
//!
//! **The noise**, in units of 1 of q, is at most
//!
//!   |ν| ≤ n·(21 + 1/2)·2^63 + N·21·(21 + 1)
//!
//! for n entries, zeros that fill the last ciphertext included: errors are at most 21, ⌈q·a/t⌋ is off by at most a half,
//! and numbers modulo 2^64 are at most 2^63 away from 0. That is the worst case for all vectors, keys and errors. q is
//! above 2^211, so that in units of 2^-192·q, what is lost in them included, it is below n·2^49 (`DISTANCE`). There is
//! one answer, and it is flooded by all that decryption leaves room for, 127 bits: the statistical distance is below
//! n·2^-78, and decryption never fails, since 2^126 + n·2^49 is less than half of 2^128. [`reaches`] asks for 8 bits more
//! than λ: the other events of a run leave a 256th of 2^-λ for the flood.
//!
//! **Cost.** 27 bytes for each entry, and one round trip; 64 COTs and 270 bytes by Gilboa's products.

use rand_core::CryptoRng;
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, recv_exact};
use zeroize::Zeroizing;

use super::Masks;
use super::bfv::{Ciphertext, Scheme, SecretKey};
use super::fractions::{self, Fraction, Fractions, LIMBS};
use super::messages::{self, CIPHERTEXT, PUBLIC_KEY, SUM};
use super::parameters::Parameters;
use super::plain::Words64;
use super::ring::Polynomial;

/// Bits of the flood, in units of 2^-192·q.
const FLOOD: u32 = 127;

/// The statistical distance of a holder's view from a simulated one is below n·2^-78.
const DISTANCE: u32 = 78;

/// By how many bits the distance is below 2^-λ at least.
pub const SPARE: u32 = 8;

/// Ciphertexts that are in memory at a time.
const BATCH: usize = 8;

const LABEL: &str = "vesica/1 inner product";

fn parameters() -> Parameters<Words64> {
    Parameters::words(FLOOD)
}

/// Whether an inner product of vectors so long reaches that statistical security, and `SPARE` bits more.
pub fn reaches(entries: usize, lambda: u32) -> bool {
    let length = parameters().length;
    let bits = entries.next_multiple_of(length).next_power_of_two().ilog2();
    bits + lambda + SPARE <= DISTANCE
}

/// Bytes that holder and helper send, without framing.
pub fn bytes(entries: usize) -> [usize; 2] {
    let parameters = parameters();
    let ciphertexts = entries.div_ceil(parameters.length);
    if ciphertexts == 0 {
        return [0, 0];
    }
    let each = messages::ciphertext_bytes(&parameters);
    let holder = messages::public_key_bytes(&parameters) + ciphertexts * each;
    [holder, answer_bytes(&parameters)]
}

fn answer_bytes(parameters: &Parameters<Words64>) -> usize {
    8 * LIMBS + messages::polynomial_bytes(parameters, parameters.kept)
}

/// What the helper sends: the constant coefficient of c₀ as a fraction of q, and all of c₁.
struct Answer {
    body: Fraction,
    mask: Polynomial,
}

impl Answer {
    fn to_bytes(&self, parameters: &Parameters<Words64>) -> Vec<u8> {
        let mut out = vec![0; answer_bytes(parameters)];
        let (body, mask) = out.split_at_mut(8 * LIMBS);
        for (out, limb) in body.chunks_exact_mut(8).zip(self.body) {
            out.copy_from_slice(&limb.to_le_bytes());
        }
        messages::pack(parameters, &self.mask, mask);
        out
    }

    fn receive(
        channel: &mut dyn Channel,
        parameters: &Parameters<Words64>,
    ) -> Result<Answer, Error> {
        let frame = recv_exact(channel, SUM, answer_bytes(parameters))?;
        let (body, mask) = frame.split_at(8 * LIMBS);
        let (limbs, _) = body.as_chunks::<8>();
        let mask = messages::unpack(parameters, parameters.kept, SUM, mask)?;
        Ok(Answer {
            body: std::array::from_fn(|i| u64::from_le_bytes(limbs[i])),
            mask,
        })
    }
}

/// The party with the key.
struct Holder {
    scheme: Scheme<Words64>,
    masks: Masks,
    key: SecretKey,
}

impl Holder {
    /// A holder with a fresh key; the seed of its masks, and the body of its public key.
    fn new(session: &[u8; 32], rng: &mut dyn CryptoRng) -> (Holder, Block, Polynomial) {
        let scheme = Scheme::new(parameters());
        let seed = Prg::random(rng).next_block();
        let holder = Holder {
            masks: Masks::new(LABEL, session, seed),
            key: scheme.secret_key(&mut Prg::random(rng)),
            scheme,
        };
        let mask = holder.masks.get(&holder.scheme, 0);
        let mut noise = Prg::random(rng);
        let body = holder.scheme.encrypt(&holder.key, &mask, None, &mut noise);
        (holder, seed, body)
    }

    /// Step 1: the body of ciphertext number `number`. Entries that are missing are 0.
    fn encrypt(&self, number: usize, entries: &[u64], prg: &mut Prg) -> Polynomial {
        let mut plain = Zeroizing::new(vec![0; self.scheme.parameters().length]);
        plain[..entries.len()].copy_from_slice(entries);
        let mask = self.masks.get(&self.scheme, number + 1);
        self.scheme.encrypt(&self.key, &mask, Some(&plain), prg)
    }

    /// Step 3.
    fn decrypt(&self, answer: &Answer) -> u64 {
        let product = self.scheme.times_key(&self.key, &answer.mask);
        let zeros = vec![0; self.scheme.parameters().length];
        let product = self.scheme.lift(product, &zeros);
        // The message is in the top limb, and the flood below: half a unit makes it round.
        fractions::add(
            fractions::add(answer.body, product[0], 0),
            [0, 1 << 63, 0],
            0,
        )[2]
    }
}

/// The other party.
struct Helper {
    scheme: Scheme<Words64>,
    masks: Masks,
    public: Ciphertext,
}

impl Helper {
    /// A helper, for the seed and the body that [`Holder::new`] gave.
    fn new(session: &[u8; 32], seed: Block, body: Polynomial) -> Helper {
        let scheme = Scheme::new(parameters());
        let masks = Masks::new(LABEL, session, seed);
        let mask = masks.get(&scheme, 0);
        Helper {
            scheme,
            masks,
            public: Ciphertext { body, mask },
        }
    }

    /// Step 2 for one ciphertext, from its body: its product by the polynomial that has these entries in reverse.
    fn multiply(&self, number: usize, body: Polynomial, entries: &[u64]) -> Ciphertext {
        let mut plain = Zeroizing::new(vec![0u64; self.scheme.parameters().length]);
        if let Some((first, rest)) = entries.split_first() {
            plain[0] = *first;
            for (out, entry) in plain.iter_mut().rev().zip(rest) {
                *out = entry.wrapping_neg();
            }
        }
        let mask = self.masks.get(&self.scheme, number + 1);
        let factor = self.scheme.factor(&plain);
        self.scheme
            .inner_product(&[(&Ciphertext { body, mask }, &factor)])
    }

    /// The rest of step 2, for the sum of all products and the random number r.
    fn answer(&self, sum: &mut Ciphertext, r: u64, prg: &mut Prg) -> Answer {
        let (scheme, ring) = (&self.scheme, self.scheme.ring());
        let zero = scheme.inner_product(&[(&self.public, &ring.error(prg))]);
        ring.add(&mut sum.body, &zero.body);
        ring.add(&mut sum.mask, &zero.mask);
        ring.inverse(&mut sum.body);
        ring.inverse(&mut sum.mask);
        ring.add_error(prg, &mut sum.mask);
        let mut plain = Zeroizing::new(vec![0; scheme.parameters().length]);
        plain[0] = r;
        let mut body: Fractions = scheme.lift(sum.body.clone(), &plain);
        body.truncate(1);
        scheme.flood(&mut body, prg);
        Answer {
            body: body[0],
            mask: sum.mask.clone(),
        }
    }
}

/// A share of Σ `entries[i]`·b_i modulo 2^64, where the b_i are those of [`help`]. `session` must be new for every inner
/// product.
///
/// # Errors
/// The channel's; `PeerMisbehaved` for what no helper sends.
pub fn hold(
    channel: &mut dyn Channel,
    session: &[u8; 32],
    entries: &[u64],
    rng: &mut dyn CryptoRng,
) -> Result<u64, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    let (holder, seed, body) = Holder::new(session, rng);
    let parameters = holder.scheme.parameters();
    let key = messages::public_key_to_bytes(parameters, seed, &body);
    channel.send(PUBLIC_KEY, key)?;
    let mut seeds = Prg::random(rng);
    for (batch, entries) in entries.chunks(BATCH * parameters.length).enumerate() {
        let mut drawn = Zeroizing::new([0; BATCH]);
        seeds.fill(&mut drawn[..]);
        let entries = entries.chunks(parameters.length).enumerate();
        let frames = parallel::map(entries, |(i, entries)| {
            let mut prg = Prg::new(drawn[i]);
            let body = holder.encrypt(batch * BATCH + i, entries, &mut prg);
            messages::ciphertext_to_bytes(parameters, &body)
        });
        for frame in frames {
            channel.send(CIPHERTEXT, frame)?;
        }
    }
    channel.flush()?;
    let answer = Answer::receive(channel, parameters)?;
    Ok(holder.decrypt(&answer))
}

/// The other side of [`hold`].
///
/// # Errors
/// The channel's; `PeerMisbehaved` for what no holder sends.
pub fn help(
    channel: &mut dyn Channel,
    session: &[u8; 32],
    entries: &[u64],
    rng: &mut dyn CryptoRng,
) -> Result<u64, Error> {
    if entries.is_empty() {
        return Ok(0);
    }
    let parameters = parameters();
    let (seed, body) = messages::receive_public_key(channel, &parameters)?;
    let helper = Helper::new(session, seed, body);
    let ring = helper.scheme.ring();
    let mut sum = Ciphertext {
        body: ring.zero(),
        mask: ring.zero(),
    };
    for (batch, entries) in entries.chunks(BATCH * parameters.length).enumerate() {
        let entries: Vec<&[u64]> = entries.chunks(parameters.length).collect();
        let bodies: Vec<Polynomial> = entries
            .iter()
            .map(|_| messages::receive_ciphertext(channel, &parameters))
            .collect::<Result<_, _>>()?;
        let products = bodies.into_iter().zip(entries).enumerate();
        let products = parallel::map(products, |(i, (body, entries))| {
            helper.multiply(batch * BATCH + i, body, entries)
        });
        for product in products {
            ring.add(&mut sum.body, &product.body);
            ring.add(&mut sum.mask, &product.mask);
        }
    }
    let mut prg = Prg::random(rng);
    let r = prg.next_block() as u64;
    let answer = helper.answer(&mut sum, r, &mut prg);
    channel.send(SUM, answer.to_bytes(&parameters))?;
    Ok(r.wrapping_neg())
}

#[cfg(test)]
mod tests;
