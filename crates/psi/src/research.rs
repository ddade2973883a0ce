//! Sparse extensions with the choices that papers measure, for `vesica bench` alone.
//!
//! The store and F change nothing of the security. [`Width::UnsafePaper`] ends it: such a run is
//! LTSXQ26's figure 14 or 15 as published, in which the receiver can find out all of the sender's items that it can
//! guess ([`vesica_oprf::research`]). Never for real data; [`receive`](crate::receive) and
//! [`send`](crate::send) have no such choice.

use rand_core::CryptoRng;
pub use vesica_oprf::research::Figure;
use vesica_oprf::research::{self, unsafe_paper_width};
pub use vesica_oprf::sparse::BitFunction;
use vesica_oprf::sparse::{self, RandomBand, ThreeHash};
use vesica_oprf::{Item, Outputs};
use vesica_wire::{Channel, Error};

use crate::{Oprf, Params, Writing, masks, own_matches, told_matches};

/// The oblivious key-value store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// BPSY23's.
    #[default]
    RandomBand,
    /// RR22's.
    ThreeHash,
}

/// The width of the matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    /// What PRTY19 proves.
    #[default]
    Proven,
    /// What LTSXQ26 prints for this figure: leaks the sender's set.
    UnsafePaper(Figure),
}

/// What a contract does not name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Which store; for `sparse-okvs` alone.
    pub store: Store,
    /// F.
    pub function: BitFunction,
    /// How wide; other than proven for `sparse-okvs` alone.
    pub width: Width,
}

/// What sparse extensions need of the parameters.
fn sparse_params(params: &Params, choice: &Choice) -> sparse::Params {
    sparse::Params {
        function: choice.function,
        ..crate::sparse_params(params)
    }
}

fn exchange(params: &Params, choice: &Choice) -> masks::Exchange {
    let exchange = masks::Exchange::new(params);
    match choice.width {
        Width::Proven => exchange,
        Width::UnsafePaper(figure) => masks::Exchange {
            width: unsafe_paper_width(figure, &sparse_params(params, choice)),
            ..exchange
        },
    }
}

/// A message of up to 128 columns.
type Narrow<K> = sparse::Store<K, 2>;

/// The way that the protocol writes its message.
///
/// # Panics
/// If it is no sparse extension, or the choice is not one for it.
fn writing(params: &Params, choice: &Choice) -> Writing {
    match (Oprf::of(params.protocol), choice.store, choice.width) {
        (Oprf::Sparse(Writing::RandomBand), Store::ThreeHash, _) => Writing::ThreeHash,
        (Oprf::Sparse(Writing::RandomBand), Store::RandomBand, _) => Writing::RandomBand,
        (Oprf::Sparse(writing), Store::RandomBand, Width::Proven) => writing,
        _ => panic!("{} has no {choice:?}", params.protocol.name()),
    }
}

fn receive_outputs(
    channel: &mut dyn Channel,
    params: &Params,
    choice: &Choice,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    let sparse = &sparse_params(params, choice);
    let writing = writing(params, choice);
    let Width::UnsafePaper(figure) = choice.width else {
        return writing.receive(channel, sparse, items, rng);
    };
    let run = match choice.store {
        Store::RandomBand => research::receive::<Narrow<RandomBand>>,
        Store::ThreeHash => research::receive::<Narrow<ThreeHash>>,
    };
    run(channel, sparse, figure, items, rng)
}

fn send_outputs(
    channel: &mut dyn Channel,
    params: &Params,
    choice: &Choice,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Outputs, Error> {
    let sparse = &sparse_params(params, choice);
    let writing = writing(params, choice);
    let Width::UnsafePaper(figure) = choice.width else {
        return writing.send(channel, sparse, items, rng);
    };
    let run = match choice.store {
        Store::RandomBand => research::send::<Narrow<RandomBand>>,
        Store::ThreeHash => research::send::<Narrow<ThreeHash>>,
    };
    run(channel, sparse, figure, items, rng)
}

/// As [`crate::receive`], with these choices.
///
/// # Panics
/// If the protocol is no sparse extension or has no such choice, or `items` does not fit `params`.
pub fn receive(
    channel: &mut dyn Channel,
    params: &Params,
    choice: &Choice,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Vec<bool>, Error> {
    let own = receive_outputs(channel, params, choice, items, rng)?;
    channel.begin_phase("masks");
    let exchange = exchange(params, choice);
    let matches = own_matches(&exchange, channel, &params.session, items, &own)?;
    channel.flush()?;
    Ok(matches)
}

/// As [`crate::send`], with these choices.
///
/// # Panics
/// If the protocol is no sparse extension or has no such choice, or `items` does not fit `params`.
pub fn send(
    channel: &mut dyn Channel,
    params: &Params,
    choice: &Choice,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Option<Vec<bool>>, Error> {
    let own = send_outputs(channel, params, choice, items, rng)?;
    channel.begin_phase("masks");
    let exchange = exchange(params, choice);
    let matches = told_matches(&exchange, channel, &params.session, items, own)?;
    channel.flush()?;
    Ok(matches)
}

/// Receives the masks of [`send`] and keeps them, in place of comparing them: ascending, cut to the bits that
/// went over the wire, whose number comes second.
///
/// # Errors
/// The channel's, and `PeerMisbehaved`.
pub fn receive_masks(
    channel: &mut dyn Channel,
    params: &Params,
    choice: &Choice,
) -> Result<(Vec<[u64; 2]>, usize), Error> {
    let exchange = exchange(params, choice);
    Ok((exchange.receive_all(channel)?, exchange.width))
}
