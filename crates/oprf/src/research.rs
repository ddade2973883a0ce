//! LTSXQ26 at the paper's width. **Broken: never for real data.**
//!
//! **Paper.** *Faster Than Ever: A New Lightweight PSI and Its Variants* (LTSXQ26), figure 14 (semi-honest) and
//! figure 15 (malicious), for reproducing its tables III, VIII and IX.
//!
//! **Adversary.** None. A receiver that follows figure 14 and has a list of what the sender may hold finds in
//! seconds which of it the sender does hold; so does one that deviates from figure 15. The sender's mask
//! of x is H(A(x) ⊕ (s ∧ Δ(x))), of which the receiver knows A(x) and Δ(x) = R(x) ⊕ P(x): what hides it is as
//! many bits of s as Δ(x) has ones. That is half of ℓ on average, 20 for some of 2^10 items at ℓ = 64, and each
//! item found makes the others lighter. [`attack`] does it; `docs/narrow-masks.md` explains it.
//!
//! **What is revealed.** To the receiver, all of the sender's items that it can guess; to the sender, the sizes.
//!
//! **The figures** are [`sparse`] with a matrix of [`unsafe_paper_width`] columns. In figure 15 the sender
//! commits to half of a coin ω before the transfers and opens it when it has the message; ω enters all outputs.
//!
//! **Deviations.** Those of [`sparse`]: F and H are other functions. Columns are whole bytes, up to 7 more
//! than the paper's, which favours the sender. H of figure 14 has neither x nor ω as an input: one run has one
//! key, and rows of different items differ. Figure 15's H° is two hashes, the first of the row and
//! the second of ω, the first's output and x, so that a receiver need not keep rows until the coin is known. Its τ, ω of
//! figure 14 and r of both are the session's salt, to which both sides contribute.

pub mod attack;

use rand_core::CryptoRng;
use rayon::prelude::*;
use vesica_primitives::oracle::Oracle;
use vesica_wire::{Channel, Error};

use crate::coin::{Coin, Committed, Sealed, recv_half, send_half};
use crate::sparse::{self, Message, Params};
use crate::{Item, Output, Outputs};

/// The two protocols of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Figure 14, for receivers that are said to follow it.
    SemiHonest,
    /// Figure 15, malicious in name.
    Malicious,
}

/// Columns of the figure's matrix and bits of its masks: λ + ⌈log₂(n_s·n_r)⌉ in figure 14, κ = 128 in
/// figure 15. Neither hides the sender's items; compare [`width`](crate::width::width()).
pub fn unsafe_paper_width(figure: Figure, params: &Params) -> usize {
    match figure {
        Figure::SemiHonest => {
            let pairs = params.receiver_size.max(1) as u128 * params.sender_size.max(1) as u128;
            params.lambda as usize + pairs.next_power_of_two().trailing_zeros() as usize
        }
        Figure::Malicious => 128,
    }
}

fn commitments(params: &Params) -> Oracle {
    Oracle::new("vesica/1 research coin", &params.session)
}

/// Step 7 of figure 15: the outputs with the coin in them.
struct Coined {
    oracle: Oracle,
    coin: Coin,
}

impl Coined {
    fn new(params: &Params, coin: Coin) -> Self {
        Coined {
            oracle: Oracle::new("vesica/1 research output", &params.session),
            coin,
        }
    }

    /// `outputs[i]`, of item `item(i)`, with the coin.
    fn apply<'a>(&self, outputs: &mut [Output], item: impl Fn(usize) -> &'a Item + Sync) {
        const BATCH: usize = 1 << 8;
        outputs
            .par_chunks_mut(BATCH)
            .enumerate()
            .for_each(|(batch, outputs)| {
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
                    *output = crate::output(hash);
                }
            });
    }
}

/// Runs the receiver of a figure.
///
/// # Errors
/// Those of [`sparse::receive`]; `PeerMisbehaved` for a coin that is not what the sender committed to.
///
/// # Panics
/// If there are not as many items as `params` says, or the message has no room for the columns.
pub fn receive<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    figure: Figure,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    channel.begin_phase("correlations");
    let sealed = match figure {
        Figure::SemiHonest => None,
        Figure::Malicious => Some(Sealed::receive(channel)?),
    };
    let width = unsafe_paper_width(figure, params);
    let mut own = sparse::receive_wide::<M>(channel, params, width, items, rng)?;
    if let Some(sealed) = sealed {
        let half = send_half(channel, rng)?;
        let coin = sealed.opened(channel, &commitments(params), half)?;
        Coined::new(params, coin).apply(&mut own.masks, |i| &items[own.numbers[i] as usize]);
    }
    Ok(own)
}

/// Runs the sender of a figure.
///
/// # Errors
/// Those of [`sparse::send`].
///
/// # Panics
/// If there are not as many items as `params` says, or the message has no room for the columns.
pub fn send<M: Message>(
    channel: &mut dyn Channel,
    params: &Params,
    figure: Figure,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    channel.begin_phase("correlations");
    let committed = match figure {
        Figure::SemiHonest => None,
        Figure::Malicious => Some(Committed::send(channel, &commitments(params), rng)?),
    };
    let width = unsafe_paper_width(figure, params);
    let mut own = sparse::send_wide::<M>(channel, params, width, items, rng)?;
    if let Some(committed) = committed {
        let theirs = recv_half(channel)?;
        let coin = committed.open(channel, theirs)?;
        Coined::new(params, coin).apply(&mut own.masks, |i| &items[own.numbers[i] as usize]);
    }
    Ok(own)
}

#[cfg(test)]
mod tests;
