//! The oblivious pseudorandom function of RFC 9497, suite ristretto255-SHA512, modes OPRF and VOPRF.
//!
//! Source: Davidson, Faz-Hernandez, Sullivan, Wood, *Oblivious Pseudorandom Functions (OPRFs) Using Prime-Order
//! Groups*, RFC 9497 (2023); the protocol is 2HashDH of Jarecki, Kiayias and Krawczyk (ASIACRYPT 2014), and the
//! batched proof of equal discrete logarithms that of Davidson et al. (PoPETs 2018).
//!
//! Adversary: malicious on both sides. The server learns how many inputs there are. The client learns the outputs, and
//! in mode VOPRF that all are under the key that it knows. A server whose key answers q blinded elements solves a
//! static Diffie–Hellman problem for whoever asks: Brown and Gallant (2004) and Cheon (2006) lose about half of log₂ q
//! bits.
//!
//! Deviations: in a batch of more than two elements the weights of the composites depend on the whole batch. The RFC
//! hashes each with its own element and result alone, so that a server that wants false results for n elements finds
//! errors whose weighted sum is zero by a generalised-birthday search with a list for each (Wagner, CRYPTO 2002): some
//! 2^32 hashes at n = 4096, and 2^126 at n = 2. Davidson et al. hash the whole batch, too. The nonce of a proof is a hash
//! of the key, the batch and random bytes, so that a server whose randomness repeats (a copy of a virtual machine, a state
//! that was put back) does not give its key away. A batch of elements is encoded as doubles of halves
//! ([`RistrettoPoint::double_and_compress_batch`], [`kernel::multiply_derived`]), which gives the same bytes with one
//! inversion.

use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::traits::{Identity, VartimeMultiscalarMul};
use curve25519_dalek::{RistrettoPoint, Scalar};
use rand_core::CryptoRng;
use sha2::{Digest, Sha512};
use vesica_kernels::Backend;
use vesica_kernels::curve25519 as kernel;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes of an encoded element or scalar.
pub const ELEMENT_BYTES: usize = 32;
/// Bytes of an output.
pub const OUTPUT_BYTES: usize = 64;
/// Bytes of a proof.
pub const PROOF_BYTES: usize = 64;
/// Most elements of a batch with one proof, whose indices have 16 bits.
pub const MAX_BATCH: usize = 1 << 16;

/// Modes of the protocol (RFC 9497, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The client trusts the server to use its key.
    Oprf,
    /// The server proves it.
    Voprf,
}

impl Mode {
    /// `contextString` after `label`, of section 3.1.
    fn tag(self, label: &str) -> Vec<u8> {
        let mode = match self {
            Mode::Oprf => 0,
            Mode::Voprf => 1,
        };
        [
            label.as_bytes(),
            b"OPRFV1-",
            &[mode],
            b"-ristretto255-SHA512",
        ]
        .concat()
    }
}

/// Why an encoded element is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.problem())]
#[non_exhaustive]
pub enum BadElement {
    /// Not the canonical encoding of an element.
    Invalid,
    /// The neutral element.
    Identity,
}

impl BadElement {
    /// What is wrong, for an error that names the message.
    pub fn problem(self) -> &'static str {
        match self {
            BadElement::Invalid => "not an element of ristretto255",
            BadElement::Identity => "the neutral element",
        }
    }
}

/// A proof that does not hold: the server used another key than the one that it published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proof does not hold")]
pub struct BadProof;

/// An element other than the neutral one, with its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    point: RistrettoPoint,
    bytes: [u8; ELEMENT_BYTES],
}

impl Element {
    /// `DeserializeElement`.
    ///
    /// # Errors
    /// An encoding that is not canonical, or of the neutral element.
    pub fn decode(bytes: [u8; ELEMENT_BYTES]) -> Result<Element, BadElement> {
        let point = CompressedRistretto(bytes).decompress();
        let point = point.ok_or(BadElement::Invalid)?;
        match point == RistrettoPoint::identity() {
            true => Err(BadElement::Identity),
            false => Ok(Element { point, bytes }),
        }
    }

    /// The encoding.
    pub fn bytes(&self) -> &[u8; ELEMENT_BYTES] {
        &self.bytes
    }

    /// The elements 2·`half`.
    fn doubles(halves: &[RistrettoPoint]) -> impl Iterator<Item = Element> {
        let encoded = RistrettoPoint::double_and_compress_batch(halves);
        halves.iter().zip(encoded).map(|(half, bytes)| Element {
            point: half + half,
            bytes: bytes.to_bytes(),
        })
    }
}

/// A server's secret key.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct SecretKey {
    key: Scalar,
    /// Half of it.
    half: Scalar,
}

impl std::fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretKey").finish_non_exhaustive()
    }
}

impl SecretKey {
    fn new(key: Scalar) -> Option<SecretKey> {
        let half = key.div_by_2();
        (key != Scalar::ZERO).then_some(SecretKey { key, half })
    }

    /// A random key.
    pub fn random(rng: &mut impl CryptoRng) -> SecretKey {
        SecretKey::new(random_scalar(rng)).expect("not zero")
    }

    /// `DeriveKeyPair` (section 3.2.1): the key of a seed, for a purpose of at most 65535 bytes.
    ///
    /// # Panics
    /// If `info` is longer, or if 256 hashes are zero.
    pub fn derive(mode: Mode, seed: &[u8; 32], info: &[u8]) -> SecretKey {
        let tag = mode.tag("DeriveKeyPair");
        let length = u16::try_from(info.len()).expect("a purpose of at most 65535 bytes");
        let mut keys = (0..=255).map(|counter: u8| {
            hash_to_scalar(&[seed, &length.to_be_bytes(), info, &[counter]], &tag)
        });
        keys.find_map(SecretKey::new).expect("a hash is not zero")
    }

    /// Reads what [`SecretKey::to_bytes`] wrote; `None` if it is not a scalar other than zero.
    pub fn from_bytes(bytes: &[u8; ELEMENT_BYTES]) -> Option<SecretKey> {
        let key: Option<Scalar> = Scalar::from_canonical_bytes(*bytes).into();
        SecretKey::new(key?)
    }

    /// `SerializeScalar`.
    pub fn to_bytes(&self) -> Zeroizing<[u8; ELEMENT_BYTES]> {
        Zeroizing::new(self.key.to_bytes())
    }

    /// The public key.
    pub fn public_key(&self) -> Element {
        let halves = [RistrettoPoint::mul_base(&self.half)];
        Element::doubles(&halves).next().expect("one element")
    }

    /// `Evaluate` (section 3.3.1): the outputs of these inputs, without anybody's help.
    pub fn evaluate(&self, mode: Mode, inputs: &[&[u8]]) -> Vec<[u8; OUTPUT_BYTES]> {
        let tag = mode.tag("HashToGroup-");
        let strings = inputs.iter().map(|input| expand(&[input], &tag));
        let mut encoded = vec![[0; ELEMENT_BYTES]; inputs.len()];
        kernel::multiply_derived(
            Backend::Best,
            &Zeroizing::new(self.half.to_bytes()),
            &strings.collect::<Vec<_>>(),
            &mut encoded,
        );
        let outputs = inputs.iter().zip(&encoded);
        outputs
            .map(|(input, element)| finalize(input, element))
            .collect()
    }

    /// `BlindEvaluate` without a proof (section 3.3.1).
    pub fn blind_evaluate(&self, blinded: &[Element]) -> Vec<Element> {
        let halves = blinded.iter().map(|element| element.point * self.half);
        Element::doubles(&halves.collect::<Vec<_>>()).collect()
    }

    /// Begins a batch that is evaluated part by part and has one proof.
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            key: self,
            public: self.public_key(),
            blinded: Vec::new(),
            evaluated: Vec::new(),
        }
    }
}

/// A batch under evaluation.
pub struct Batch<'a> {
    key: &'a SecretKey,
    public: Element,
    blinded: Vec<Element>,
    evaluated: Vec<Element>,
}

impl Batch<'_> {
    /// `BlindEvaluate` (section 3.3.2) of further elements.
    ///
    /// # Panics
    /// If they are more than [`MAX_BATCH`] together.
    pub fn evaluate(&mut self, blinded: &[Element]) -> Vec<Element> {
        let halves = blinded.iter().map(|element| element.point * self.key.half);
        let evaluated: Vec<_> = Element::doubles(&halves.collect::<Vec<_>>()).collect();
        self.add(blinded, &evaluated);
        evaluated
    }

    /// Has the proof say that these results are of these elements.
    fn add(&mut self, blinded: &[Element], evaluated: &[Element]) {
        assert!(self.blinded.len() + blinded.len() <= MAX_BATCH);
        self.blinded.extend_from_slice(blinded);
        self.evaluated.extend_from_slice(evaluated);
    }

    /// `GenerateProof` (section 2.2.1).
    ///
    /// # Panics
    /// If the batch is empty.
    pub fn prove(self, rng: &mut impl CryptoRng) -> [u8; PROOF_BYTES] {
        let mut random = Zeroizing::new([0; 64]);
        rng.fill_bytes(&mut *random);
        let composites = self.composites();
        let nonce = nonce(&self.key.key, &composites, &random);
        self.prove_with(&composites, &nonce)
    }

    /// ComputeCompositesFast: the composite of the results is a multiple of the other one.
    fn composites(&self) -> [RistrettoPoint; 2] {
        assert!(!self.blinded.is_empty());
        let weights = weights(&self.public, &self.blinded, &self.evaluated);
        let points = self.blinded.iter().map(|element| element.point);
        let composite = RistrettoPoint::vartime_multiscalar_mul(&weights, points);
        [composite, composite * self.key.key]
    }

    fn prove_with(self, composites: &[RistrettoPoint; 2], nonce: &Scalar) -> [u8; PROOF_BYTES] {
        let commitments = [RistrettoPoint::mul_base(nonce), composites[0] * nonce];
        let challenge = challenge(&self.public, composites, &commitments);
        let response = nonce - challenge * self.key.key;
        let mut proof = [0; PROOF_BYTES];
        proof[..ELEMENT_BYTES].copy_from_slice(challenge.as_bytes());
        proof[ELEMENT_BYTES..].copy_from_slice(response.as_bytes());
        proof
    }
}

/// `VerifyProof` (section 2.2.2): all results are multiples of the blinded elements by the secret of `public`.
///
/// # Errors
/// They are not, or the proof is not that of this batch.
///
/// # Panics
/// If there are not as many elements as results, or more than [`MAX_BATCH`].
pub fn verify(
    public: &Element,
    blinded: &[Element],
    evaluated: &[Element],
    proof: &[u8; PROOF_BYTES],
) -> Result<(), BadProof> {
    let (scalars, _) = proof.as_chunks::<ELEMENT_BYTES>();
    let scalar = |index: usize| -> Result<Scalar, BadProof> {
        let scalar: Option<Scalar> = Scalar::from_canonical_bytes(scalars[index]).into();
        scalar.ok_or(BadProof)
    };
    let (claimed, response) = (scalar(0)?, scalar(1)?);
    // ComputeComposites.
    let weights = weights(public, blinded, evaluated);
    let composites = [blinded, evaluated].map(|elements| {
        let points = elements.iter().map(|element| element.point);
        RistrettoPoint::vartime_multiscalar_mul(&weights, points)
    });
    let commitments = [
        RistrettoPoint::vartime_double_scalar_mul_basepoint(&claimed, &public.point, &response),
        RistrettoPoint::vartime_multiscalar_mul([response, claimed], composites),
    ];
    match challenge(public, &composites, &commitments) == claimed {
        true => Ok(()),
        false => Err(BadProof),
    }
}

/// The factors of a batch's elements in its composites (section 2.2.1, and the module on larger batches).
fn weights(public: &Element, blinded: &[Element], evaluated: &[Element]) -> Vec<Scalar> {
    assert_eq!(blinded.len(), evaluated.len());
    assert!(blinded.len() <= MAX_BATCH);
    let seed_tag = Mode::Voprf.tag("Seed-");
    let mut seed = Sha512::new();
    for part in [&public.bytes, &*seed_tag] {
        prefixed(&mut seed, part);
    }
    if blinded.len() > 2 {
        let elements = blinded.iter().chain(evaluated);
        elements.for_each(|element| prefixed(&mut seed, &element.bytes));
    }
    let seed = seed.finalize();
    let tag = Mode::Voprf.tag("HashToScalar-");
    let element = (ELEMENT_BYTES as u16).to_be_bytes();
    let pairs = (0..=u16::MAX).zip(blinded.iter().zip(evaluated));
    let weight = |(index, (blinded, evaluated)): (u16, (&Element, &Element))| {
        let parts: [&[u8]; 8] = [
            &(OUTPUT_BYTES as u16).to_be_bytes(),
            &seed,
            &index.to_be_bytes(),
            &element,
            &blinded.bytes,
            &element,
            &evaluated.bytes,
            b"Composite",
        ];
        hash_to_scalar(&parts, &tag)
    };
    pairs.map(weight).collect()
}

/// The nonce of a proof, another one for other composites even if the random bytes repeat: responses of one nonce to two
/// challenges are two equations for the key.
fn nonce(key: &Scalar, composites: &[RistrettoPoint; 2], random: &[u8; 64]) -> Zeroizing<Scalar> {
    let [blinded, evaluated] = composites.map(|point| point.compress().to_bytes());
    let parts: [&[u8]; 4] = [key.as_bytes(), random, &blinded, &evaluated];
    Zeroizing::new(hash_to_scalar(&parts, &Mode::Voprf.tag("Nonce-")))
}

/// The challenge of a proof (section 2.2.1).
fn challenge(
    public: &Element,
    composites: &[RistrettoPoint; 2],
    commitments: &[RistrettoPoint; 2],
) -> Scalar {
    let length = (ELEMENT_BYTES as u16).to_be_bytes();
    let mut transcript = Vec::new();
    let points = composites.iter().chain(commitments);
    let encoded = points.map(|point| point.compress().to_bytes());
    for element in std::iter::once(public.bytes).chain(encoded) {
        transcript.extend_from_slice(&length);
        transcript.extend_from_slice(&element);
    }
    transcript.extend_from_slice(b"Challenge");
    hash_to_scalar(&[&transcript], &Mode::Voprf.tag("HashToScalar-"))
}

/// Random blinds, to be used once.
pub struct Blinds(Zeroizing<Vec<Scalar>>);

impl Blinds {
    /// One for each of so many inputs.
    pub fn random(inputs: usize, rng: &mut impl CryptoRng) -> Blinds {
        let blinds = (0..inputs).map(|_| random_scalar(rng));
        Blinds(Zeroizing::new(blinds.collect()))
    }
}

/// A client's inputs, blinded.
pub struct Blinded {
    /// The inverses of the blinds, and half of each.
    unblinds: Zeroizing<Vec<Scalar>>,
    elements: Vec<Element>,
}

impl Blinded {
    /// `Blind` (section 3.3.1), with random blinds.
    pub fn new(mode: Mode, inputs: &[&[u8]], rng: &mut impl CryptoRng) -> Blinded {
        Blinded::with(mode, inputs, Blinds::random(inputs.len(), rng))
    }

    /// `Blind`, with these blinds.
    ///
    /// # Panics
    /// If there are not as many as inputs.
    pub fn with(mode: Mode, inputs: &[&[u8]], blinds: Blinds) -> Blinded {
        let Blinds(mut blinds) = blinds;
        assert_eq!(blinds.len(), inputs.len());
        let tag = mode.tag("HashToGroup-");
        let halves = inputs.iter().zip(blinds.iter()).map(|(input, blind)| {
            hash_to_group(&[input], &tag) * *Zeroizing::new(blind.div_by_2())
        });
        let elements = Element::doubles(&halves.collect::<Vec<_>>()).collect();
        if !blinds.is_empty() {
            Scalar::invert_batch_alloc(&mut blinds);
        }
        blinds
            .iter_mut()
            .for_each(|blind| *blind = blind.div_by_2());
        Blinded {
            unblinds: blinds,
            elements,
        }
    }

    /// What the server is asked to evaluate.
    pub fn elements(&self) -> &[Element] {
        &self.elements
    }

    /// `Finalize` (section 3.3.1): the outputs, of the same inputs in the same order. In mode VOPRF, [`verify`] the
    /// results before.
    ///
    /// # Panics
    /// If there are not as many results or inputs as blinded elements.
    pub fn finalize(&self, inputs: &[&[u8]], evaluated: &[Element]) -> Vec<[u8; OUTPUT_BYTES]> {
        assert_eq!(evaluated.len(), self.elements.len());
        assert_eq!(inputs.len(), self.elements.len());
        let unblinded = evaluated.iter().zip(self.unblinds.iter());
        let halves = unblinded.map(|(element, unblind)| element.point * unblind);
        let encoded = RistrettoPoint::double_and_compress_batch(&halves.collect::<Vec<_>>());
        let outputs = inputs.iter().zip(encoded);
        outputs
            .map(|(input, element)| finalize(input, element.as_bytes()))
            .collect()
    }
}

/// The output of an input whose multiple by the key has this encoding.
fn finalize(input: &[u8], element: &[u8]) -> [u8; OUTPUT_BYTES] {
    let mut hasher = Sha512::new();
    for part in [input, element] {
        prefixed(&mut hasher, part);
    }
    hasher.update(b"Finalize");
    hasher.finalize().into()
}

/// A part after its length in two bytes.
///
/// # Panics
/// If it is longer than 65535 bytes.
fn prefixed(hasher: &mut Sha512, part: &[u8]) {
    let length = u16::try_from(part.len()).expect("a part of at most 65535 bytes");
    hasher.update(length.to_be_bytes());
    hasher.update(part);
}

/// `HashToGroup`: never the neutral element but with probability 2^-252.
fn hash_to_group(input: &[&[u8]], tag: &[u8]) -> RistrettoPoint {
    RistrettoPoint::from_uniform_bytes(&expand(input, tag))
}

/// `HashToScalar`.
fn hash_to_scalar(input: &[&[u8]], tag: &[u8]) -> Scalar {
    Scalar::from_bytes_mod_order_wide(&expand(input, tag))
}

/// `expand_message_xmd` of RFC 9380, section 5.3.1, with SHA-512, to 64 bytes.
fn expand(input: &[&[u8]], tag: &[u8]) -> [u8; 64] {
    const BLOCK: [u8; 128] = [0; 128];
    let end = [tag, &[tag.len() as u8]].concat();
    let mut first = Sha512::new();
    first.update(BLOCK);
    for part in input {
        first.update(part);
    }
    first.update(64u16.to_be_bytes());
    first.update([0]);
    first.update(&end);
    let mut second = Sha512::new();
    second.update(first.finalize());
    second.update([1]);
    second.update(&end);
    second.finalize().into()
}

/// A random scalar other than zero.
fn random_scalar(rng: &mut impl CryptoRng) -> Scalar {
    loop {
        let scalar = Scalar::random(rng);
        if scalar != Scalar::ZERO {
            return scalar;
        }
    }
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use rand_core::SeedableRng;
    use serde_json::Value;

    use super::*;

    fn hex(value: &Value) -> Vec<u8> {
        let text = value.as_str().unwrap();
        let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        (0..text.len()).step_by(2).map(digit).collect()
    }

    fn array<const N: usize>(value: &Value) -> [u8; N] {
        hex(value).try_into().unwrap()
    }

    fn list(value: &Value) -> &[Value] {
        value.as_array().unwrap()
    }

    fn scalar(value: &Value) -> Scalar {
        Scalar::from_canonical_bytes(array(value)).unwrap()
    }

    #[test]
    fn the_vectors_of_the_rfc() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../vectors/voprf.json")).unwrap();
        let mut batches = 0;
        for (name, mode) in [("oprf", Mode::Oprf), ("voprf", Mode::Voprf)] {
            let of_mode = &vectors[name];
            let key = SecretKey::derive(mode, &array(&vectors["seed"]), &hex(&vectors["info"]));
            assert_eq!(*key.to_bytes(), array(&of_mode["secret"]), "{name}");
            if mode == Mode::Voprf {
                assert_eq!(key.public_key().bytes(), &array(&of_mode["public"]));
            }
            for batch in list(&of_mode["batches"]) {
                batches += 1;
                let inputs: Vec<Vec<u8>> = list(&batch["inputs"]).iter().map(hex).collect();
                let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let blinds = list(&batch["blinds"]).iter().map(scalar).collect();
                let client = Blinded::with(mode, &inputs, Blinds(Zeroizing::new(blinds)));
                let bytes = |elements: &[Element]| -> Vec<[u8; 32]> {
                    elements.iter().map(|element| element.bytes).collect()
                };
                let expected = |field: &str| -> Vec<[u8; 32]> {
                    list(&batch[field]).iter().map(array).collect()
                };
                assert_eq!(bytes(client.elements()), expected("blinded"));
                let evaluated = key.blind_evaluate(client.elements());
                assert_eq!(bytes(&evaluated), expected("evaluated"));
                if mode == Mode::Voprf {
                    let nonce = scalar(&batch["proof_scalar"]);
                    let mut parts = key.batch();
                    for (blinded, evaluated) in client.elements().iter().zip(&evaluated) {
                        assert_eq!(parts.evaluate(&[*blinded]), [*evaluated]);
                    }
                    let composites = parts.composites();
                    let proof = parts.prove_with(&composites, &nonce);
                    assert_eq!(proof, array(&batch["proof"]));
                    let verified = verify(&key.public_key(), client.elements(), &evaluated, &proof);
                    assert_eq!(verified, Ok(()));
                }
                let outputs: Vec<[u8; 64]> = list(&batch["outputs"]).iter().map(array).collect();
                assert_eq!(client.finalize(&inputs, &evaluated), outputs);
                assert_eq!(key.evaluate(mode, &inputs), outputs);
            }
        }
        assert_eq!(batches, 5);
    }

    /// A server that uses another key for one element, or that answers for other elements, is found out.
    #[test]
    fn what_is_not_under_the_published_key_is_refused() {
        let mut rng = ChaCha20Rng::from_seed([1; 32]);
        let [key, other] = [SecretKey::random(&mut rng), SecretKey::random(&mut rng)];
        let inputs: Vec<[u8; 2]> = (0..20u16).map(u16::to_le_bytes).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| &input[..]).collect();
        let client = Blinded::new(Mode::Voprf, &inputs, &mut rng);
        let blinded = client.elements();
        let evaluated = key.blind_evaluate(blinded);
        // What a server proves of these results.
        let mut prove = |key: &SecretKey, evaluated: &[Element]| {
            let mut batch = key.batch();
            batch.add(blinded, evaluated);
            batch.prove(&mut rng)
        };
        let proof = prove(&key, &evaluated);
        let public = key.public_key();
        assert_eq!(verify(&public, blinded, &evaluated, &proof), Ok(()));
        assert_eq!(
            client.finalize(&inputs, &evaluated),
            key.evaluate(Mode::Voprf, &inputs)
        );
        let refused = |evaluated: &[Element], proof: &[u8; PROOF_BYTES]| {
            verify(&public, blinded, evaluated, proof) == Err(BadProof)
        };
        let mut forged = evaluated.clone();
        forged[17] = other.blind_evaluate(&blinded[17..18])[0];
        assert!(refused(&forged, &proof));
        assert!(refused(&forged, &prove(&key, &forged)));
        let mut swapped = evaluated.clone();
        swapped.swap(0, 1);
        assert!(refused(&swapped, &proof));
        assert!(refused(&swapped, &prove(&key, &swapped)));
        let all = other.blind_evaluate(blinded);
        assert!(refused(&all, &prove(&other, &all)));
        for bit in 0..8 * PROOF_BYTES {
            let mut spoilt = proof;
            spoilt[bit / 8] ^= 1 << (bit % 8);
            assert!(refused(&evaluated, &spoilt), "{bit}");
        }
    }

    #[test]
    fn repeated_randomness_does_not_give_the_key_away() {
        let rng = |seed| ChaCha20Rng::from_seed([seed; 32]);
        let key = SecretKey::random(&mut rng(1));
        let proofs = [b"one", b"two"].map(|input| {
            let client = Blinded::new(Mode::Voprf, &[input], &mut rng(2));
            let mut batch = key.batch();
            batch.evaluate(client.elements());
            let proof = batch.prove(&mut rng(3));
            let (halves, _) = proof.as_chunks();
            [halves[0], halves[1]].map(|half| Scalar::from_canonical_bytes(half).unwrap())
        });
        let [[challenge, response], [other_challenge, other_response]] = proofs;
        let found = (response - other_response) * (other_challenge - challenge).invert();
        assert_ne!(found, key.key);
    }

    #[test]
    fn weights_of_a_batch_depend_on_all_of_it() {
        let mut rng = ChaCha20Rng::from_seed([2; 32]);
        let key = SecretKey::random(&mut rng);
        let inputs: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
        let blinded = Blinded::new(Mode::Voprf, &inputs, &mut rng);
        let blinded = blinded.elements().to_vec();
        let public = key.public_key();
        let mut evaluated = key.blind_evaluate(&blinded);
        let before = weights(&public, &blinded, &evaluated);
        evaluated.swap(0, 1);
        let after = weights(&public, &blinded, &evaluated);
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(before, after)| before != after)
        );
        // Two elements have those of the RFC, whose vectors they meet.
        let two = weights(&public, &blinded[2..], &evaluated[2..]);
        evaluated.swap(2, 3);
        let other = weights(&public, &blinded[2..3], &evaluated[3..]);
        assert_eq!(two[0], other[0]);
    }

    #[test]
    fn only_elements_are_decoded() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../vectors/voprf.json")).unwrap();
        for bad in list(&vectors["bad_elements"]) {
            assert_eq!(
                Element::decode(array(bad)),
                Err(BadElement::Invalid),
                "{bad}"
            );
        }
        assert_eq!(Element::decode([0; 32]), Err(BadElement::Identity));
        assert!(SecretKey::from_bytes(&[0; 32]).is_none());
        assert!(SecretKey::from_bytes(&[255; 32]).is_none());
        let key = SecretKey::random(&mut ChaCha20Rng::from_seed([2; 32]));
        let read = SecretKey::from_bytes(&key.to_bytes()).unwrap();
        assert_eq!(read.public_key(), key.public_key());
    }
}
