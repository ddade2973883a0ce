//! A multi-point oblivious pseudorandom function (OPRF) from vector oblivious linear evaluation (VOLE) and
//! one oblivious key-value store (OKVS): the default.
//!
//! **Papers.** P. Rindal, P. Schoppmann, *VOLE-PSI: Fast OPRF and Circuit-PSI from Vector-OLE*, EUROCRYPT
//! 2021 (RS21), figure of the malicious OPRF; S. Raghuraman, P. Rindal, *Blazing Fast PSI from Improved
//! OKVS and Subfield VOLE*, CCS 2022 (RR22), for the subfield form.
//!
//! **Adversary.** Malicious: VOLE over GF(2^128) whose setup withstands malicious peers, outputs of 128 bits,
//! and a joint coin that enters every output. Semi-honest: no checks and no coin; the vector a and the
//! encoding over GF(2^64) where that is wide enough, else over GF(2^64) + GF(2^8)·u, or GF(2^128).
//!
//! **What is revealed.** The sizes of both sets, which the contract tells anyway. A malicious receiver can
//! encode more than n items: an encoding of m slots can hold n′ ≥ m of its own choosing, which RS21 bounds
//! through the random oracle behind the encoded values. Han, Kim and Son (ASIACRYPT 2024) show how to exceed
//! n by choosing items that suit the encoding. Rows and values here come from items hashed with a salt from
//! both sides, so this search can start only once the run has begun. See `docs/protocols/vole.md`.
//!
//! **λ.** Four events share 2^-λ ([`EVENTS`]): the items cannot be encoded; Decode(P, x) is H(x) for an item
//! x of the sender's that the receiver does not have, n_s·2^-64, n_s·2^-72 or n_s·2^-128; masks of different items
//! collide; and, as one event, 128-bit halves of different items are equal or a check of a malicious run lets
//! a wrong message through, with a probability of at most 2^-116 per trial for up to 2^28 items
//! ([`MAX_LAMBDA`]).
//!
//! **The figure.** With C = Δ·A + B, the receiver holding A and C:
//! 1. The sender commits to its half w_s of the coin.
//! 2. The receiver encodes y ↦ H(y) as P, and sends its half w_r and A + P.
//! 3. The sender opens w_s, and sends w = w_r ⊕ w_s too. With K = B + Δ·(A + P), F(x) = H′(w, Decode(K, x) −
//!    Δ·H(x), x).
//! 4. The receiver has the same value as Decode(C, y), since encodings are linear.
//!
//! **Deviations.** The salted item is a random oracle's output: its first half is the key of the OKVS and its
//! second half is H, where the paper hashes twice. The OKVS's rows also depend on the receiver's first
//! message, which takes the place of the paper's r: a sender cannot search for a session in which a guessed
//! set fails to encode. The OKVS is the random band of [`vesica_encodings`].

mod okvs;

use std::borrow::Cow;

use rand_core::CryptoRng;
use vesica_correlations::field::{Field, NineBytes};
use vesica_correlations::shape::Shape;
use vesica_correlations::silent;
use vesica_correlations::vole::{Receiver, UncheckedSender, WaitingReceiver};
use vesica_encodings::random_band::{Parameters, RandomBand};
use vesica_kernels::Backend;
use vesica_kernels::binary::{add_scaled64, add_scaled128};
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, End, Error, Frames, Kind, Traffic, recv_rows};
use zeroize::Zeroizing;

use crate::coin::{self, Coin, Committed, Sealed, recv_half, send_half};
use crate::{
    Item, ItemCost, MAX_SYSTEM, Oprf, Outputs, Params, PostQuantum, Spec, bytes,
    max_lambda_of_short,
};

use okvs::ArrangedOkvs;

pub use crate::coin::{COIN, COMMITMENT};

/// Frames with A + P.
pub const ENCODING: Kind = Kind {
    code: 56,
    name: "encoding",
};

/// Events that share 2^-λ in a run.
pub const EVENTS: u32 = 4;

/// Maximum bits of statistical security. The checks of a malicious run take half of one event's share: 2^-122
/// for each tile of the oblivious-transfer (OT) extension (26 tiles for 2^28 items), and 2^-127 for the
/// trees.
pub const MAX_LAMBDA: u32 = 112;

/// Slots of A + P that are sent together: half a frame of the wider field.
const SLOTS: usize = 1 << 15;

/// What the shares of the events decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Events {
    /// Statistical security in bits of the encoding.
    pub encoding: u32,
    /// What encoded values are.
    pub values: Width,
}

/// How wide encoded values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Elements of GF(2^64).
    Narrow,
    /// Nine bytes: elements of GF(2^64) + GF(2^8)·u.
    Nine,
    /// Elements of GF(2^128).
    Wide,
}

impl Width {
    /// Bits of a value.
    pub fn bits(self) -> u32 {
        match self {
            Width::Narrow => u64::BITS,
            Width::Nine => NineBytes::BITS,
            Width::Wide => u128::BITS,
        }
    }

    /// Bytes of a value.
    fn bytes(self) -> u64 {
        u64::from(self.bits() / 8)
    }

    /// The least for which `holds`, of those that a semi-honest run has.
    fn least(params: &Params, holds: impl Fn(&Params, u32) -> bool) -> Width {
        let all = [Width::Narrow, Width::Nine];
        let least = all.into_iter().find(|width| holds(params, width.bits()));
        least.unwrap_or(Width::Wide)
    }
}

/// Calls a function of [`Vole`] for the values of a width.
macro_rules! over {
    ($width:expr, $call:ident($($argument:expr),*)) => {
        match $width {
            Width::Narrow => Vole::$call::<u64, 1>($($argument),*),
            Width::Nine => Vole::$call::<NineBytes, 2>($($argument),*),
            Width::Wide => Vole::$call::<u128, 2>($($argument),*),
        }
    };
}

impl Events {
    /// An equal share for each of the [`EVENTS`], but where values get more: three fourths of 2^-λ.
    pub fn of(params: &Params) -> Self {
        match favours_values(params) {
            true => Events {
                encoding: params.lambda + 4,
                values: Width::Narrow,
            },
            false => Events {
                encoding: params.lambda_each(EVENTS),
                values: match params.security {
                    Security::SemiHonest => Width::least(params, takes_equal_share),
                    Security::MaliciousSender | Security::Malicious => Width::Wide,
                },
            },
        }
    }

    /// Of a semi-honest run in which masks are not compared: three fourths of 2^-λ for the values, which n_s are right by
    /// accident with 2^-bits each, and an eighth each for the encoding and for equal halves.
    ///
    /// # Panics
    /// If the run is not semi-honest.
    pub fn of_batch(params: &Params) -> Self {
        assert_eq!(params.security, Security::SemiHonest);
        Events {
            encoding: params.lambda + 3,
            values: Width::least(params, takes_three_fourths),
        }
    }

    /// The OKVS with rows that depend on `session`, that of the VOLE's setup.
    fn okvs(self, params: &Params, session: &[u8; 32]) -> RandomBand {
        RandomBand::new(params.receiver_size, self.encoding, session)
    }

    /// Number of slots of the OKVS, for any rows.
    fn slots(self, params: &Params) -> usize {
        Parameters::new(params.receiver_size, self.encoding).size()
    }

    /// Bytes of A + P.
    pub(crate) fn bytes(self, params: &Params) -> u64 {
        self.slots(params) as u64 * self.values.bytes()
    }

    pub(crate) fn traffic(self, params: &Params, traffic: &mut Traffic) {
        let (slots, security) = (self.slots(params), params.security);
        let [commitment, half, opening] = match security {
            Security::MaliciousSender | Security::Malicious => coin::frames(),
            Security::SemiHonest => [Frames::default(); 3],
        };
        traffic.flow(End::Sender, commitment);
        let setup = match self.values {
            Width::Narrow => silent::traffic::<u64>,
            Width::Nine => silent::traffic::<NineBytes>,
            Width::Wide => silent::traffic::<u128>,
        };
        setup(traffic, security, params.key_agreement, slots);
        let mut encoding = half;
        let shape = Shape::new(slots, self.values.bits());
        for chunk in 0..shape.chunks {
            let length = shape.chunk_length(chunk);
            encoding += Frames {
                payload: length as u64 * self.values.bytes(),
                count: length.div_ceil(SLOTS) as u64,
            };
        }
        traffic.flow(End::Receiver, encoding);
        traffic.flow(End::Sender, opening);
    }

    pub(crate) fn receive(
        self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        over!(self.values, receive_over(self, channel, params, items, rng))
    }

    pub(crate) fn send(
        self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        over!(self.values, send_over(self, channel, params, items, rng))
    }
}

/// Whether a semi-honest run has values of 64 bits only if these get three fourths of 2^-λ, masks an eighth and the others
/// a sixteenth.
fn favours_values(params: &Params) -> bool {
    params.security == Security::SemiHonest
        && !takes_equal_share(params, u64::BITS)
        && takes_three_fourths(params, u64::BITS)
}

/// Whether values of so many bits are right by accident with the share of one of [`EVENTS`] at most.
fn takes_equal_share(params: &Params, bits: u32) -> bool {
    let log = params.sender_size.max(1).next_power_of_two().ilog2();
    log + params.lambda_each(EVENTS) <= bits
}

/// Whether they are with three fourths of 2^-λ at most.
fn takes_three_fourths(params: &Params, bits: u32) -> bool {
    let values = 4 * params.sender_size.max(1) as u128;
    params.lambda <= bits && values <= 3 << (bits - params.lambda)
}

fn output_oracle(params: &Params) -> Oracle {
    Oracle::new("vesica/1 vole output", &params.session)
}

fn commitment_oracle(params: &Params) -> Oracle {
    Oracle::new("vesica/1 vole coin", &params.session)
}

static SPEC: Spec = Spec {
    name: "vole",
    source: "Rindal and Schoppmann 2021, with the encodings and widths of Raghuraman and Rindal 2022",
    security: Security::Malicious,
    exact: None,
    cheaper: Some(Security::SemiHonest),
    post_quantum: PostQuantum::OnRequest,
    max_items: 1 << 28,
    max_lambda: |receiver_size, sender_size| {
        Some(max_lambda_of_short::<Vole>(receiver_size, sender_size).min(MAX_LAMBDA))
    },
    item_cost: ItemCost {
        bytes: 64,
        aes_blocks: 4_000,
    },
    working_bytes,
};

/// The receiver: 110 bytes per item, and 90 more for each item of one linear system (every further thread has
/// its own system). The sender: 90 bytes per item, and 26 per item of the receiver. Measured with
/// `vesica bench` at 2^20 to 2^24 items, rounded up.
fn working_bytes(receiver_size: u64, sender_size: u64) -> u64 {
    let system = bytes(receiver_size.min(MAX_SYSTEM), 90);
    let receiver = bytes(receiver_size, 110).saturating_add(system);
    let sender = bytes(sender_size, 90).saturating_add(bytes(receiver_size, 26));
    receiver.max(sender)
}

/// Values of an OKVS. Of their coordinates in words, those beyond the last are anything.
trait Value<const W: usize>: Field {
    /// The words of the elements in the lowest bits of `blocks`.
    fn words_of(blocks: &[Block]) -> Cow<'_, [[u64; W]]>;
    /// The block with these words.
    fn block_of(words: [u64; W]) -> Block;
    /// `out[i] += factor·x[i]`.
    fn add_scaled(out: &mut [Block], factor: Block, x: &[Self]);
}

impl Value<1> for u64 {
    fn words_of(blocks: &[Block]) -> Cow<'_, [[u64; 1]]> {
        Cow::Owned(parallel::map_items(blocks, |block| [*block as u64]))
    }

    fn block_of([word]: [u64; 1]) -> Block {
        word.into()
    }

    fn add_scaled(out: &mut [Block], factor: Block, x: &[Self]) {
        add_scaled64(Backend::Best, out, factor, x);
    }
}

/// Elements that are multiplied at a time.
const ELEMENTS: usize = 1 << 10;

impl Value<2> for NineBytes {
    fn words_of(blocks: &[Block]) -> Cow<'_, [[u64; 2]]> {
        u128::words_of(blocks)
    }

    fn block_of(words: [u64; 2]) -> Block {
        u128::block_of(words)
    }

    fn add_scaled(out: &mut [Block], factor: Block, x: &[Self]) {
        let parts = out.chunks_mut(ELEMENTS).zip(x.chunks(ELEMENTS));
        parallel::each(parts, |(out, x)| {
            let mut elements = Zeroizing::new([0; ELEMENTS]);
            for (element, x) in elements.iter_mut().zip(x) {
                *element = x.to_block();
            }
            add_scaled128(Backend::Best, out, factor, &elements[..x.len()]);
        });
    }
}

impl Value<2> for u128 {
    fn words_of(blocks: &[Block]) -> Cow<'_, [[u64; 2]]> {
        Cow::Borrowed(bytemuck::must_cast_slice(blocks))
    }

    fn block_of(words: [u64; 2]) -> Block {
        bytemuck::must_cast(words)
    }

    fn add_scaled(out: &mut [Block], factor: Block, x: &[Self]) {
        add_scaled128(Backend::Best, out, factor, x);
    }
}

/// The protocol.
///
/// `Resource` if the items cannot be encoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vole;

impl Vole {
    /// Runs the receiver over the field of the values.
    fn receive_over<F: Value<W>, const W: usize>(
        events: Events,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let (session, slots) = (&params.session, events.slots(params));
        let (security, agreement) = (params.security, params.key_agreement);
        receive_on::<F, _, W>(events, channel, params, items, rng, |channel, rng| {
            silent::Receiver::begin(channel, session, security, agreement, slots, rng)
        })
    }

    /// Runs the sender over the field of the values.
    fn send_over<F: Value<W>, const W: usize>(
        events: Events,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let (session, slots) = (&params.session, events.slots(params));
        let (security, agreement) = (params.security, params.key_agreement);
        send_on::<F, _, W>(events, channel, params, items, rng, |channel, rng| {
            silent::Sender::<F>::begin(channel, session, security, agreement, slots, rng)
        })
    }
}

impl Oprf for Vole {
    const OUTPUT_BITS: usize = 128;

    const EVENTS: u32 = EVENTS;

    type Prepared = ();

    fn mask_share(params: &Params) -> u32 {
        match favours_values(params) {
            true => params.lambda + 3,
            false => params.lambda_each(EVENTS),
        }
    }

    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) {}

    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        Events::of(params).traffic(params, traffic);
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        Events::of(params).receive(channel, params, items, rng)
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        Events::of(params).send(channel, params, items, rng)
    }
}

/// Step 2: A + P, for the slots of a frame.
fn masked<F: Value<W>, const W: usize>(a: &[F], p: &[[u64; W]]) -> Vec<u8> {
    let mut rows = vec![0; size_of_val(a)];
    let a: &[u8] = bytemuck::must_cast_slice(a);
    let each = size_of::<F>();
    let elements = a.chunks_exact(each).zip(rows.chunks_exact_mut(each));
    for ((a, row), p) in elements.zip(p) {
        let p = F::block_of(*p).to_le_bytes();
        for ((row, a), p) in row.iter_mut().zip(a).zip(p) {
            *row = a ^ p;
        }
    }
    rows
}

/// Runs the receiver on a VOLE whose setup `begin` starts.
fn receive_on<F: Value<W>, V: WaitingReceiver<F>, const W: usize>(
    events: Events,
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    rng: &mut dyn CryptoRng,
    begin: impl FnOnce(&mut dyn Channel, &mut dyn CryptoRng) -> Result<V, Error>,
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.receiver_size);
    channel.begin_phase("correlations");
    // Step 1.
    let sealed = match params.security {
        Security::MaliciousSender | Security::Malicious => Some(Sealed::receive(channel)?),
        Security::SemiHonest => None,
    };
    let waiting = begin(channel, rng)?;
    // Step 2, while the sender makes its trees.
    channel.begin_phase("encode");
    let okvs = ArrangedOkvs::new(events.okvs(params, &waiting.session()), items);
    let p = okvs.encode::<F, W>(rng)?;
    channel.begin_phase("correlations");
    let vole = waiting.finish(channel, rng)?;
    channel.begin_phase("expand");
    let half = match sealed {
        Some(_) => send_half(channel, rng)?,
        None => Coin::default(),
    };
    let c = send_masked(channel, vole, p, okvs.slots())?;
    // Step 4; the coin comes with step 3.
    channel.begin_phase("decode");
    let decoded = okvs.decode(&c);
    drop(c);
    let coin = match sealed {
        Some(sealed) => sealed.opened(channel, &commitment_oracle(params), half)?,
        None => half,
    };
    Ok(okvs.outputs(&output_oracle(params), &coin, decoded))
}

/// Sends A + P; returns C.
fn send_masked<F: Value<W>, V: Receiver<F>, const W: usize>(
    channel: &mut dyn Channel,
    vole: V,
    p: Vec<[u64; W]>,
    slots: usize,
) -> Result<Zeroizing<Vec<Block>>, Error> {
    let mut c = Zeroizing::new(vec![0; slots]);
    let shape = *vole.shape();
    let (each, at_once) = (shape.chunk.max(1), shape.at_once());
    let mut a = Zeroizing::new(vec![F::default(); slots.min(each * at_once)]);
    let frames_at_once = SLOTS * rayon::current_num_threads();
    let mut sent = 0;
    for first in (0..shape.chunks).step_by(at_once) {
        let here = sent..slots.min(sent + each * at_once);
        let a = &mut a[..here.len()];
        vole.expand(first, a, &mut c[here.clone()]);
        // A frame is of one chunk.
        for (a, p) in a.chunks(each).zip(p[here.clone()].chunks(each)) {
            for (a, p) in a.chunks(frames_at_once).zip(p.chunks(frames_at_once)) {
                let frames = a.chunks(SLOTS).zip(p.chunks(SLOTS));
                for frame in parallel::map(frames, |(a, p)| masked(a, p)) {
                    channel.send(ENCODING, frame)?;
                }
            }
        }
        sent = here.end;
        channel.progress(sent as u64, slots as u64);
    }
    Ok(c)
}

/// Runs the sender on a VOLE whose setup `begin` starts.
fn send_on<F: Value<W>, V: UncheckedSender, const W: usize>(
    events: Events,
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    rng: &mut dyn CryptoRng,
    begin: impl FnOnce(&mut dyn Channel, &mut dyn CryptoRng) -> Result<V, Error>,
) -> Result<Outputs, Error> {
    assert_eq!(items.len(), params.sender_size);
    channel.begin_phase("correlations");
    // Step 1.
    let committed = match params.security {
        Security::MaliciousSender | Security::Malicious => {
            Some(Committed::send(channel, &commitment_oracle(params), rng)?)
        }
        Security::SemiHonest => None,
    };
    let unchecked = begin(channel, rng)?;
    // B of step 3, while the receiver encodes.
    channel.begin_phase("expand");
    let okvs = ArrangedOkvs::new(events.okvs(params, &unchecked.session()), items);
    let shape = *unchecked.shape();
    let mut k = expanded(&unchecked, okvs.slots());
    channel.begin_phase("correlations");
    let delta = Zeroizing::new(unchecked.finish(channel)?);
    // Step 3.
    channel.begin_phase("encoding");
    let theirs = match committed {
        Some(_) => recv_half(channel)?,
        None => Coin::default(),
    };
    recv_masked::<F, W>(channel, &shape, *delta, &mut k)?;
    let coin = match committed {
        Some(committed) => committed.open(channel, theirs)?,
        None => theirs,
    };
    channel.begin_phase("decode");
    let mut decoded = okvs.decode(&k);
    drop(k);
    okvs.subtract::<F, W>(*delta, &mut decoded);
    Ok(okvs.outputs(&output_oracle(params), &coin, decoded))
}

/// B, for all slots.
fn expanded(vole: &impl UncheckedSender, slots: usize) -> Zeroizing<Vec<Block>> {
    let mut b = Zeroizing::new(vec![0; slots]);
    let (shape, at_once) = (vole.shape(), vole.shape().at_once());
    let parts = b.chunks_mut(shape.chunk.max(1) * at_once);
    (0..)
        .step_by(at_once)
        .zip(parts)
        .for_each(|(first, b)| vole.expand(first, b));
    b
}

/// Receives A + P, and turns B into K = B + Δ·(A + P) in place.
fn recv_masked<F: Value<W>, const W: usize>(
    channel: &mut dyn Channel,
    shape: &Shape,
    delta: Block,
    k: &mut [Block],
) -> Result<(), Error> {
    let slots = k.len();
    let mut received = 0;
    for chunk in 0..shape.chunks {
        let length = shape.chunk_length(chunk);
        let mut masked = vec![F::default(); SLOTS.min(length)];
        for k in k[received..received + length].chunks_mut(SLOTS) {
            let masked = &mut masked[..k.len()];
            recv_rows(channel, ENCODING, size_of_val(masked), 1, |row| {
                bytemuck::must_cast_slice_mut::<F, u8>(masked).copy_from_slice(row);
                Ok(())
            })?;
            F::add_scaled(k, delta, masked);
        }
        received += length;
        channel.progress(received as u64, slots as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
