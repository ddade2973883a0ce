//! PSI from key agreement and one polynomial, for small sets.
//!
//! **Paper.** M. Rosulek, N. Trieu, *Compact and Malicious Private Set Intersection for Small Sets*, CCS
//! 2021 (RT21), figures 4 ([`Variant::Malicious`]), 5 ([`Variant::SemiHonest1`]) and 6
//! ([`Variant::SemiHonest2`]).
//!
//! **Adversary.** Figure 4: malicious, in the random-oracle and ideal-permutation model, under the oracle
//! Diffie-Hellman assumption. Figures 5 and 6: semi-honest, in the random-oracle model; figure 5 under CDH
//! with the ideal permutation, figure 6 under oracle Diffie-Hellman without it.
//!
//! **What is revealed.** The number of coefficients tells the sender the receiver's set size. A malicious receiver that
//! declares n items can test n + ⌊n/255⌋ by linear algebra alone, about 0.4 percent more, and a few beyond that by
//! a search during the run ([`overfit`]). The bound is lemma 10: at most 8·n + 4 for n = 2^10 unless it makes 2^107
//! queries. One that declares fewer than two may hold two.
//!
//! **λ.** Two events share 2^-λ ([`EVENTS`]) in a semi-honest run: masks of different items collide, and
//! hashes of 256 bits do (H₁ of own items, or one on a reserved point). A malicious run has masks of 256 bits
//! and only the latter event.
//!
//! **Deviations.**
//! - Π is keyed by the session, where the paper's implementation has one fixed key: a polynomial through too
//!   many points cannot be prepared before the contract is agreed. Nothing prevents it during the run.
//! - Elligator is applied to points of the whole curve (see [`vesica_primitives::curve`]). The paper's
//!   points of the prime-order subgroup are distinguishable from random strings and would hand the
//!   receiver's set to the sender.
//! - The polynomial has at least two coefficients; a receiver with fewer points adds random ones. With a
//!   single coefficient it would be constant, the masks of all of the sender's items would be under one key
//!   that the receiver knows, and the receiver could test any guess at the sender's set.
//! - All variants place item y at H₁(y), not at y itself, so that items of any length are field elements.
//! - All variants refuse a constant polynomial, not figure 4 alone.
//! - H₂ takes the key-agreement message along with item and secret. Several strings lead to one secret
//!   (two bits of a string are ignored, a point has two encodings, components of low order are cleared),
//!   which the paper's definition 3 does not allow for; with the string in the hash they lead to
//!   different masks.
//! - The semi-honest variants hash the same three, where the paper sends a hash of the secret alone: it
//!   costs nothing and binds the mask to the run.
//! - Coefficients are in the X_j basis of [`vesica_primitives::polynomial`].

pub mod overfit;

use rand_core::CryptoRng;
use vesica_primitives::curve::{EncodedKeys, PlainKey};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::permutation::IdealPermutation;
use vesica_primitives::polynomial::{
    Element, element_from_bytes, element_to_bytes, evaluate, interpolate,
};
use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, Frames, Kind, Misbehaviour, Traffic, recv_rows, send_rows};

use crate::{Item, ItemCost, LongOutput, Oprf, Outputs, Params, PostQuantum, Spec, bytes};

/// Frame with the sender's public key.
pub const KEY: Kind = Kind {
    code: 32,
    name: "key-agreement message",
};

/// Frames with the receiver's polynomial.
pub const POLYNOMIAL: Kind = Kind {
    code: 33,
    name: "polynomial",
};

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 2;

/// Which figure of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Figure 4.
    Malicious,
    /// Figure 5.
    SemiHonest1,
    /// Figure 6: no ideal permutation, one more coefficient.
    SemiHonest2,
}

impl Variant {
    /// Number of coefficients of the polynomial for `n` items.
    pub fn coefficients(self, n: usize) -> usize {
        let points = match self {
            Variant::Malicious | Variant::SemiHonest1 => n,
            Variant::SemiHonest2 => n + 1,
        };
        points.max(2)
    }

    /// The run's permutation between polynomial values and key-agreement messages, where the figure has one.
    fn permutation(self, session: &[u8; 32]) -> Option<IdealPermutation> {
        match self {
            Variant::Malicious | Variant::SemiHonest1 => Some(IdealPermutation::new(session)),
            Variant::SemiHonest2 => None,
        }
    }
}

/// The public functions of one run.
struct Oracles {
    h1: Oracle,
    h2: Oracle,
    permutation: Option<IdealPermutation>,
}

impl Oracles {
    fn new(variant: Variant, session: &[u8; 32]) -> Self {
        Oracles {
            h1: Oracle::new("vesica/1 compact-dh H1", session),
            h2: Oracle::new("vesica/1 compact-dh H2", session),
            permutation: variant.permutation(session),
        }
    }

    /// The polynomial's value for a key-agreement message.
    fn value(&self, message: &[u8; 32]) -> Element {
        match &self.permutation {
            Some(pi) => element_from_bytes(&pi.invert(message)),
            None => element_from_bytes(message),
        }
    }

    /// The key-agreement message for a value of the polynomial.
    fn message(&self, value: &Element) -> [u8; 32] {
        let bytes = element_to_bytes(value);
        match &self.permutation {
            Some(pi) => pi.apply(&bytes),
            None => bytes,
        }
    }

    fn points(&self, items: &[Item]) -> Vec<Element> {
        items
            .iter()
            .map(|item| element_from_bytes(&self.h1.hash(&[item])))
            .collect()
    }

    fn masks(
        &self,
        items: &[Item],
        secrets: &[[u8; 32]],
        messages: &[[u8; 32]],
    ) -> Vec<LongOutput> {
        items
            .iter()
            .zip(secrets)
            .zip(messages)
            .map(|((item, secret), message)| self.h2.hash(&[item, secret, message]))
            .collect()
    }
}

/// The receiver's offline phase: its key-agreement messages, which depend on neither items nor peer.
pub struct Prepared(EncodedKeys);

impl Prepared {
    /// Messages for `n` items.
    pub fn new(n: usize, rng: &mut dyn CryptoRng) -> Self {
        Prepared(EncodedKeys::generate(n, rng))
    }
}

/// The receiver, waiting for the sender's public key.
pub struct Receiver {
    oracles: Oracles,
    keys: EncodedKeys,
    items: Vec<Item>,
}

impl Receiver {
    /// Figure 4, step 3: the polynomial through (H₁(y), Π⁻¹(message of y)).
    ///
    /// # Panics
    /// If `prepared` was made for another number of items, or items repeat.
    pub fn new(
        variant: Variant,
        session: &[u8; 32],
        items: &[Item],
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> (Self, Vec<Element>) {
        let Prepared(keys) = prepared;
        assert_eq!(keys.len(), items.len(), "prepared for another set size");
        let oracles = Oracles::new(variant, session);
        let mut points = oracles.points(items);
        let messages = keys.representatives().iter();
        let mut values: Vec<Element> = messages.map(|m| oracles.value(m)).collect();
        let mut random = || {
            let mut bytes = [0; 32];
            rng.fill_bytes(&mut bytes);
            element_from_bytes(&bytes)
        };
        // Figure 6, step 3: P(0) is random.
        if variant == Variant::SemiHonest2 {
            points.push([0; 4]);
            values.push(random());
        }
        while points.len() < variant.coefficients(items.len()) {
            points.push(random());
            values.push(random());
        }
        // Oracle outputs repeat, or equal reserved points, with probability below 2^-190 for 2^32 items.
        let polynomial = interpolate(&points, &values).expect("items are distinct");
        let receiver = Receiver {
            oracles,
            keys,
            items: items.to_vec(),
        };
        (receiver, polynomial)
    }

    /// Figure 4, step 6, left of the comparison: F of the receiver's items, in order.
    pub fn masks(self, public: &[u8; 32]) -> Result<Vec<LongOutput>, Misbehaviour> {
        let secrets = self
            .keys
            .agree(public)
            .map_err(|bad| Misbehaviour::BadValue {
                what: KEY.name,
                problem: bad.problem(),
            })?;
        let messages = self.keys.representatives();
        Ok(self.oracles.masks(&self.items, &secrets, messages))
    }
}

/// The sender, waiting for the polynomial.
pub struct Sender {
    oracles: Oracles,
    key: PlainKey,
}

impl Sender {
    /// Figure 4, steps 1 and 2: the sender and its public key.
    pub fn new(variant: Variant, session: &[u8; 32], rng: &mut dyn CryptoRng) -> (Self, [u8; 32]) {
        let key = PlainKey::generate(rng);
        let public = *key.public();
        let sender = Sender {
            oracles: Oracles::new(variant, session),
            key,
        };
        (sender, public)
    }

    /// Figure 4, steps 4 and 5: F of the sender's items, in order.
    ///
    /// # Panics
    /// If an item equals a reserved point of the polynomial arithmetic (probability 2^-215 per item).
    pub fn masks(
        self,
        polynomial: &[Element],
        items: &[Item],
    ) -> Result<Vec<LongOutput>, Misbehaviour> {
        // Step 4. A sum rather than a search, since nothing here may depend on coefficients.
        let beyond_constant = polynomial
            .iter()
            .skip(1)
            .flatten()
            .fold(0, |any, word| any | word);
        if beyond_constant == 0 {
            return Err(Misbehaviour::BadValue {
                what: POLYNOMIAL.name,
                problem: "constant",
            });
        }
        let points = self.oracles.points(items);
        let values = evaluate(polynomial, &points).expect("hashes avoid the reserved points");
        let messages: Vec<[u8; 32]> = values.iter().map(|v| self.oracles.message(v)).collect();
        let secrets = self.key.agree(&messages);
        Ok(self.oracles.masks(items, &secrets, &messages))
    }
}

/// Figure 4.
static MALICIOUS: Spec = spec(
    "compact-dh",
    "Rosulek and Trieu 2021, figure 4",
    Security::Malicious,
);

/// Figure 5.
static SEMI_HONEST_1: Spec = spec(
    "compact-dh-sh1",
    "Rosulek and Trieu 2021, figure 5",
    Security::SemiHonest,
);

/// Figure 6.
static SEMI_HONEST_2: Spec = spec(
    "compact-dh-sh2",
    "Rosulek and Trieu 2021, figure 6",
    Security::SemiHonest,
);

const fn spec(name: &'static str, source: &'static str, security: Security) -> Spec {
    Spec {
        name,
        source,
        security,
        exact: None,
        cheaper: None,
        // 1.3 GB for the polynomial.
        post_quantum: PostQuantum::Never,
        max_items: 1 << 20,
        max_lambda: |_, _| None,
        item_cost: ItemCost {
            bytes: 96,
            aes_blocks: 400_000,
        },
        working_bytes,
    }
}

/// 64·n·log₂ n bytes for the polynomial through n items of the receiver, and some 150 bytes per item of
/// either side.
fn working_bytes(receiver_size: u64, sender_size: u64) -> u64 {
    let log = u64::from(receiver_size.max(2).next_power_of_two().trailing_zeros());
    let both = bytes(receiver_size.saturating_add(sender_size), 150);
    both.saturating_add(bytes(receiver_size, 64 * log))
}

/// The protocol in one of its variants: one flow each way, since the key agreement has one round.
pub struct CompactDh(pub Variant);

impl Oprf for CompactDh {
    const OUTPUT_BITS: usize = 256;

    const EVENTS: u32 = EVENTS;

    type Prepared = Prepared;

    fn spec(&self) -> &'static Spec {
        match self.0 {
            Variant::Malicious => &MALICIOUS,
            Variant::SemiHonest1 => &SEMI_HONEST_1,
            Variant::SemiHonest2 => &SEMI_HONEST_2,
        }
    }

    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> Prepared {
        Prepared::new(items, rng)
    }

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        let polynomial = Frames::rows(self.0.coefficients(params.receiver_size), 32);
        traffic.exchange([polynomial, Frames::rows(1, 32)]);
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let (receiver, polynomial) = Receiver::new(self.0, &params.session, items, prepared, rng);
        let rows: Vec<[u8; 32]> = polynomial.iter().map(element_to_bytes).collect();
        send_rows(channel, POLYNOMIAL, rows.as_flattened(), 32)?;
        let mut public = [0; 32];
        recv_rows(channel, KEY, 32, 1, |row| {
            public.copy_from_slice(row);
            Ok(())
        })?;
        Ok(Outputs::Long(receiver.masks(&public)?))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let (sender, public) = Sender::new(self.0, &params.session, rng);
        send_rows(channel, KEY, &public, 32)?;
        let mut polynomial = Vec::new();
        let count = self.0.coefficients(params.receiver_size);
        recv_rows(channel, POLYNOMIAL, 32, count, |rows| {
            let (rows, _) = rows.as_chunks::<32>();
            polynomial.extend(rows.iter().map(element_from_bytes));
            Ok(())
        })?;
        Ok(Outputs::Long(sender.masks(&polynomial, items)?))
    }
}

#[cfg(test)]
mod tests;
