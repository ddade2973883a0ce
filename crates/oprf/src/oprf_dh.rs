//! The OPRF of look-ups in one run, for a small set against a large one over a slow link.
//!
//! **Paper.** S. Jarecki, A. Kiayias, H. Krawczyk, *Round-Optimal Password-Protected Secret Sharing and T-PAKE in the
//! Password-Only Model*, ASIACRYPT 2014 (2HashDH), in the suite ristretto255-SHA512 and the mode VOPRF of RFC 9497
//! ([`vesica_primitives::voprf`]).
//!
//! **Adversary.** Malicious, in the random-oracle model, under the one-more gap Diffie-Hellman assumption.
//! - *A malicious receiver* gets F of as many items as it declares, and of no more: each answer to a blinded element
//!   is one Diffie-Hellman result under a key of this run. It learns nothing before the masks, and has sent all of its
//!   elements by then. Which items these stand for is fixed when they are sent if all that it computes are sums of
//!   known multiples of group elements; by the proof of the paper alone, which counts answers, only when it hashes
//!   them.
//! - *A malicious sender* sees elements that are uniform whatever the receiver's items are, and whether the receiver
//!   goes on after the proofs, which depends on what was sent alone. Its key is fixed by the first message; the proofs
//!   show that the answers are under it. So its set can be extracted: the items whose F it has computed and whose mask
//!   it sends. These can be more than it declares, as below.
//!
//! **What is revealed.** The number of blinded elements tells the sender the receiver's set size.
//!
//! **Masks are narrow** ([`mask_bits`]), against a malicious sender too; otherwise the protocol would save nothing. A
//! mask for which it has computed no F matches an item of the receiver with probability 2^-w, all together with the
//! masks' share of 2^-λ. A sender that computes F of q items during the run finds q²/2^(w+1) pairs with one mask, and
//! sends one for both: the width leaves it at most half as many items more as it declares at q = 2^40, by expectation.
//! Items are salted by the session, so none of this can be prepared.
//!
//! **λ.** Two events share 2^-λ ([`EVENTS`]): masks of different items collide; hashes of 256 bits or elements do.
//!
//! **Deviations.**
//! - The session enters as part of each input, an item's hash under it; RFC 9497 has no place for it. The proof's
//!   hashes do not take it: the key and the elements are fresh in every run.
//! - One proof for each [`BATCH`] of elements, with weights that depend on all of the batch (see there).
//! - The sender evaluates its own items without proof: a mask under another key matches nothing.
//! - It answers once it has all elements, so that neither side waits for the other to read.

use rand_core::CryptoRng;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_primitives::security::Security;
use vesica_primitives::voprf::{
    Batch, Blinded, Blinds, ELEMENT_BYTES, Element, Mode, PROOF_BYTES, SecretKey, verify,
};
use vesica_wire::{
    Channel, End, Error, Frames, Kind, MAX_FRAME, Misbehaviour, Traffic, recv_exact, recv_rows,
    send_rows,
};

use crate::{Item, ItemCost, LongOutput, Oprf, Outputs, Params, PostQuantum, Spec, bytes};

/// Frame with the sender's public key.
pub const KEY: Kind = Kind {
    code: 65,
    name: "public key of the OPRF",
};

/// Frames with the receiver's blinded elements.
pub const BLINDED: Kind = Kind {
    code: 66,
    name: "blinded elements",
};

/// A frame for each batch: the sender's results and their proof.
pub const ANSWERS: Kind = Kind {
    code: 67,
    name: "answers to blinded elements",
};

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 2;

/// Elements that share a proof.
pub const BATCH: usize = 1 << 12;

// The sender answers frame by frame: no batch may be in two of them.
const _: () = assert!((MAX_FRAME / ELEMENT_BYTES).is_multiple_of(BATCH));

/// Items that a thread works on at once.
const AT_ONCE: usize = 64;

/// log₂ of the items of which a malicious sender computes F during the run, for [`mask_bits`].
const LOG_EVALUATIONS: u32 = 40;

/// Bits of a mask: so many that masks of different items collide with no more than their share of 2^-λ, and that a
/// sender which computes F of 2^40 items expects to find half as many pairs with one mask as it declares items.
pub fn mask_bits(params: &Params) -> u32 {
    let declared = params.sender_size.max(1).ilog2();
    let pairs = 2 * LOG_EVALUATIONS - declared;
    params
        .collision_bits(params.lambda_each(EVENTS), 1)
        .max(pairs)
}

/// The inputs of the OPRF: hashes of items under the session.
fn inputs(session: &[u8; 32], items: &[Item]) -> Vec<Item> {
    let mut inputs = vec![[0; 32]; items.len()];
    Oracle::new("vesica/1 oprf-dh input", session).hash_many(items, &mut inputs);
    inputs
}

/// As the OPRF takes them.
fn slices(inputs: &[Item]) -> Vec<&[u8]> {
    inputs.iter().map(<[u8; 32]>::as_slice).collect()
}

/// The first half of F.
fn mask(output: [u8; 64]) -> LongOutput {
    let [first, _] = bytemuck::must_cast::<[u8; 64], [LongOutput; 2]>(output);
    first
}

/// The elements of a message.
fn elements(kind: Kind, rows: &[[u8; ELEMENT_BYTES]]) -> Result<Vec<Element>, Misbehaviour> {
    let decode = |row: &[u8; ELEMENT_BYTES]| {
        Element::decode(*row).map_err(|bad| Misbehaviour::BadValue {
            what: kind.name,
            problem: bad.problem(),
        })
    };
    let decode_all = |rows: &[[u8; ELEMENT_BYTES]]| rows.iter().map(decode).collect();
    let parts = parallel::map(rows.chunks(AT_ONCE), decode_all);
    let parts: Vec<Vec<Element>> = parts.into_iter().collect::<Result<_, Misbehaviour>>()?;
    Ok(parts.concat())
}

/// A part of the receiver's items, blinded.
struct Part {
    inputs: Vec<Item>,
    blinded: Blinded,
}

/// What the receiver asks at once, waiting for its answer.
pub struct Question(Vec<Part>);

impl Question {
    /// `Blind` of RFC 9497, section 3.3.2.
    fn new(inputs: &[Item], rng: &mut dyn CryptoRng) -> Self {
        let mut rng = rng;
        let mut with_blinds = Vec::with_capacity(inputs.len().div_ceil(AT_ONCE));
        for part in inputs.chunks(AT_ONCE) {
            with_blinds.push((part.to_vec(), Blinds::random(part.len(), &mut rng)));
        }
        let blind = |(inputs, blinds): (Vec<Item>, Blinds)| {
            let blinded = Blinded::with(Mode::Voprf, &slices(&inputs), blinds);
            Part { inputs, blinded }
        };
        Question(parallel::map(with_blinds.into_iter(), blind))
    }

    fn elements(&self) -> impl Iterator<Item = Element> {
        let parts = self.0.iter();
        parts.flat_map(|part| part.blinded.elements()).copied()
    }

    /// `Finalize` (section 3.3.2), from the sender's key and the answer to the question: F of the items, in order.
    /// Whether it fails does not depend on the items.
    ///
    /// # Panics
    /// If the answer has another length.
    pub fn masks(&self, key: &Element, answer: &[u8]) -> Result<Vec<LongOutput>, Misbehaviour> {
        let (rows, proof) = answer.split_last_chunk().expect("a proof");
        let evaluated = elements(ANSWERS, rows.as_chunks().0)?;
        let blinded: Vec<Element> = self.elements().collect();
        verify(key, &blinded, &evaluated, proof).map_err(|_| Misbehaviour::BadValue {
            what: ANSWERS.name,
            problem: "not under the public key",
        })?;
        let parts = self.0.iter().zip(evaluated.chunks(AT_ONCE));
        let outputs = parallel::map(parts, |(part, evaluated)| {
            part.blinded.finalize(&slices(&part.inputs), evaluated)
        });
        Ok(outputs.into_iter().flatten().map(mask).collect())
    }
}

/// The receiver's questions, and its blinded elements in order.
pub fn ask(
    session: &[u8; 32],
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> (Vec<Question>, Vec<[u8; ELEMENT_BYTES]>) {
    let mut questions = Vec::with_capacity(items.len().div_ceil(BATCH));
    for inputs in inputs(session, items).chunks(BATCH) {
        questions.push(Question::new(inputs, rng));
    }
    let elements = questions.iter().flat_map(Question::elements);
    let rows = elements.map(|element| *element.bytes()).collect();
    (questions, rows)
}

/// The sender, with the key of F.
pub struct Sender {
    key: SecretKey,
}

impl Sender {
    /// The sender and its public key.
    pub fn new(rng: &mut dyn CryptoRng) -> (Self, [u8; ELEMENT_BYTES]) {
        let mut rng = rng;
        let key = SecretKey::random(&mut rng);
        let public = *key.public_key().bytes();
        (Sender { key }, public)
    }

    /// F of the sender's items, in order.
    pub fn masks(&self, session: &[u8; 32], items: &[Item]) -> Vec<LongOutput> {
        let parts = parallel::map(items.chunks(BATCH), |items| {
            let inputs = inputs(session, items);
            let outputs = self.key.evaluate(Mode::Voprf, &slices(&inputs));
            outputs.into_iter().map(mask).collect::<Vec<_>>()
        });
        parts.concat()
    }

    /// `BlindEvaluate` (section 3.3.2) of the elements of some batches: an answer for each.
    pub fn answers(
        &self,
        blinded: &[[u8; ELEMENT_BYTES]],
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<Vec<u8>>, Misbehaviour> {
        let mut rng = rng;
        let evaluate = |rows: &[[u8; ELEMENT_BYTES]]| {
            let mut batch = self.key.batch();
            let evaluated = batch.evaluate(&elements(BLINDED, rows)?);
            let rows = evaluated.iter().flat_map(|element| *element.bytes());
            Ok((batch, rows.collect()))
        };
        let batches = parallel::map(blinded.chunks(BATCH), evaluate);
        let prove = |evaluated: Result<(Batch<'_>, Vec<u8>), Misbehaviour>| {
            let (batch, mut answer) = evaluated?;
            answer.extend_from_slice(&batch.prove(&mut rng));
            Ok(answer)
        };
        batches.into_iter().map(prove).collect()
    }
}

static SPEC: Spec = Spec {
    name: "oprf-dh",
    source: "Jarecki, Kiayias and Krawczyk 2014; RFC 9497",
    security: Security::Malicious,
    exact: None,
    cheaper: None,
    post_quantum: PostQuantum::Never,
    max_items: 1 << 28,
    max_lambda: |_, _| None,
    item_cost: ItemCost {
        bytes: 192,
        aes_blocks: 400_000,
    },
    // Blinds, and elements with their encodings.
    working_bytes: |receiver_size, sender_size| {
        bytes(receiver_size, 450).saturating_add(bytes(sender_size, 150))
    },
};

/// The protocol.
pub struct OprfDh;

/// Bytes of the answers to so many elements.
fn answer_bytes(elements: usize) -> impl Iterator<Item = usize> {
    let sizes = (0..elements).step_by(BATCH);
    sizes.map(move |first| BATCH.min(elements - first) * ELEMENT_BYTES + PROOF_BYTES)
}

impl Oprf for OprfDh {
    const OUTPUT_BITS: usize = 256;

    const EVENTS: u32 = EVENTS;

    type Prepared = ();

    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn mask_bits(params: &Params) -> u32 {
        mask_bits(params)
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) {}

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        let blinded = Frames::rows(params.receiver_size, ELEMENT_BYTES);
        traffic.exchange([blinded, Frames::rows(1, ELEMENT_BYTES)]);
        let answers = answer_bytes(params.receiver_size).map(Frames::one);
        let answers = answers.fold(Frames::default(), |all, frame| all + frame);
        traffic.flow(End::Sender, answers);
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let (questions, blinded) = ask(&params.session, items, rng);
        send_rows(channel, BLINDED, blinded.as_flattened(), ELEMENT_BYTES)?;
        drop(blinded);
        let key = recv_exact(channel, KEY, ELEMENT_BYTES)?;
        let key = elements(KEY, key.as_chunks().0)?[0];
        let mut masks = Vec::with_capacity(items.len());
        for (question, length) in questions.into_iter().zip(answer_bytes(items.len())) {
            let answer = recv_exact(channel, ANSWERS, length)?;
            masks.extend(question.masks(&key, &answer)?);
        }
        Ok(Outputs::Long(masks))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("oprf");
        let (sender, public) = Sender::new(rng);
        channel.send(KEY, public.to_vec())?;
        // While the receiver blinds its own.
        let masks = sender.masks(&params.session, items);
        let mut answers = Vec::new();
        recv_rows(
            channel,
            BLINDED,
            ELEMENT_BYTES,
            params.receiver_size,
            |rows| {
                let (rows, _) = rows.as_chunks();
                answers.extend(sender.answers(rows, rng)?);
                Ok(())
            },
        )?;
        for answer in answers {
            channel.send(ANSWERS, answer)?;
        }
        Ok(Outputs::Long(masks))
    }
}

#[cfg(test)]
mod tests;
