//! LTSXQ26 at the paper's width. **Broken: never for real data.**
//!
//! **Paper.** *Faster Than Ever: A New Lightweight PSI and Its Variants* (LTSXQ26), figure 14 (semi-honest) and
//! figure 15 (malicious), for reproducing its tables III, VIII and IX.
//!
//! **Adversary.** None. A receiver that follows figure 14 and has a list of what the sender may hold finds in
//! seconds which of it the sender does hold; so does one that deviates from figure 15. The sender's mask of x
//! is H(A(x) ⊕ (s ∧ Δ(x))), of which the receiver knows A(x) and Δ(x) = R(x) ⊕ P(x): only as many bits of s
//! hide it as Δ(x) has ones. That is half of ℓ on average, 20 for some of 2^10 items at ℓ = 64, and each item
//! found makes the others lighter. [`attack`](crate::attack) runs the attack; `evaluation/narrow-masks.md` explains
//! it.
//!
//! **What is revealed.** To the receiver, all of the sender's items that it can guess; to the sender, the sizes.
//!
//! **The figures** are [`sparse`](vesica_oprf::sparse) with a matrix of [`unsafe_paper_width`] columns. In
//! figure 15 the sender commits to half of a coin ω before the OTs and opens it when it has the message; ω
//! enters all outputs.
//!
//! **Deviations.** Those of [`sparse`](vesica_oprf::sparse): F and H are other functions. Columns are whole
//! bytes, up to 7 more than the paper's, which favours the sender. H of figure 14 has neither x nor ω as an
//! input: one run has one key, and rows of different items differ. Figure 15's H° is two hashes, the first of
//! the row and the second of ω, the first's output and x, so that a receiver need not keep rows until the
//! coin is known. The session's salt, to which both sides contribute, stands for its τ, for ω of figure 14
//! and for r of both.

use rand_core::CryptoRng;
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_primitives::security::Security;
use vesica_wire::{Channel, Error, Traffic};

use vesica_oprf::coin::{Coin, Committed, Sealed, recv_half, send_half};
use vesica_oprf::sparse::{AesBit, BitFunction, Message, Sparse};
use vesica_oprf::{Item, Oprf, Output, Outputs, Params, Spec};

/// The two protocols of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Figure 14, for receivers that are said to follow it.
    SemiHonest,
    /// Figure 15, malicious in name.
    Malicious,
}

/// Columns of the figure's matrix and bits of its masks: λ + ⌈log₂(n_s·n_r)⌉ in figure 14, κ = 128 in
/// figure 15. Neither hides the sender's items; compare [`width`](vesica_oprf::width::width()).
pub fn unsafe_paper_width(figure: Figure, params: &Params) -> usize {
    match figure {
        Figure::SemiHonest => {
            let pairs = params.receiver_size.max(1) as u128 * params.sender_size.max(1) as u128;
            params.lambda as usize + pairs.next_power_of_two().trailing_zeros() as usize
        }
        Figure::Malicious => 128,
    }
}

pub(crate) fn commitments(params: &Params) -> Oracle {
    Oracle::new("vesica/1 research coin", &params.session)
}

/// Step 7 of figure 15: the outputs with the coin in them.
pub(crate) struct Coined {
    oracle: Oracle,
    coin: Coin,
}

impl Coined {
    pub(crate) fn new(params: &Params, coin: Coin) -> Self {
        Coined {
            oracle: Oracle::new("vesica/1 research output", &params.session),
            coin,
        }
    }

    /// `outputs[i]`, of item `item(i)`, with the coin.
    pub(crate) fn apply<'a>(
        &self,
        outputs: &mut [Output],
        item: impl Fn(usize) -> &'a Item + Sync,
    ) {
        const BATCH: usize = 1 << 8;
        let batches = outputs.chunks_mut(BATCH).enumerate();
        parallel::each(batches, |(batch, outputs)| {
            let mut inputs = [[0; 64]; BATCH];
            let mut hashes = [[0; 32]; BATCH];
            let (inputs, hashes) = (&mut inputs[..outputs.len()], &mut hashes[..outputs.len()]);
            for (i, (input, output)) in inputs.iter_mut().zip(&*outputs).enumerate() {
                input[..16].copy_from_slice(&self.coin);
                input[16..32].copy_from_slice(bytemuck::must_cast_slice(output));
                input[32..].copy_from_slice(item(batch * BATCH + i));
            }
            self.oracle.hash_many(inputs, hashes);
            for (output, hash) in outputs.iter_mut().zip(hashes) {
                *output = vesica_oprf::output(hash);
            }
        });
    }
}

/// A figure of the paper, with a message `M` that has room for its columns.
pub struct PaperWidth<M, F = AesBit> {
    figure: Figure,
    inner: Sparse<M, F>,
}

impl<M: Message, F: BitFunction> PaperWidth<M, F> {
    /// The figure.
    pub const fn new(figure: Figure) -> Self {
        PaperWidth {
            figure,
            inner: Sparse::unsafe_width(match figure {
                Figure::SemiHonest => |params| unsafe_paper_width(Figure::SemiHonest, params),
                Figure::Malicious => |params| unsafe_paper_width(Figure::Malicious, params),
            }),
        }
    }
}

/// The parameters of what both figures are made of. Its outputs are short; the coin is what figure 15 adds to them.
fn short(params: &Params) -> Params {
    Params {
        security: Security::SemiHonest,
        ..params.clone()
    }
}

/// Outputs with the coin in them, if there is one.
fn finished(params: &Params, coin: Option<Coin>, items: &[Item], mut own: Outputs) -> Outputs {
    if let (Some(coin), Outputs::Short { values, numbers }) = (coin, &mut own) {
        Coined::new(params, coin).apply(values, |i| &items[numbers[i] as usize]);
    }
    own
}

/// `PeerMisbehaved` for a coin that is not what the sender committed to.
impl<M: Message, F: BitFunction> Oprf for PaperWidth<M, F> {
    const OUTPUT_BITS: usize = 128;

    const EVENTS: u32 = <Sparse<M, F> as Oprf>::EVENTS;

    type Prepared = ();

    fn spec(&self) -> &'static Spec {
        M::spec()
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) {}

    /// Without the coin, of three short messages.
    fn traffic(&self, params: &Params, traffic: &mut Traffic) {
        self.inner.traffic(&short(params), traffic);
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        (): (),
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("correlations");
        let sealed = match self.figure {
            Figure::SemiHonest => None,
            Figure::Malicious => Some(Sealed::receive(channel)?),
        };
        let own = self
            .inner
            .receive(channel, &short(params), items, (), rng)?;
        let coin = match sealed {
            Some(sealed) => {
                let half = send_half(channel, rng)?;
                Some(sealed.opened(channel, &commitments(params), half)?)
            }
            None => None,
        };
        Ok(finished(params, coin, items, own))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        channel.begin_phase("correlations");
        let committed = match self.figure {
            Figure::SemiHonest => None,
            Figure::Malicious => Some(Committed::send(channel, &commitments(params), rng)?),
        };
        let own = self.inner.send(channel, &short(params), items, rng)?;
        let coin = match committed {
            Some(committed) => {
                let theirs = recv_half(channel)?;
                Some(committed.open(channel, theirs)?)
            }
            None => None,
        };
        Ok(finished(params, coin, items, own))
    }
}

#[cfg(test)]
#[path = "paper_width_tests.rs"]
mod tests;
