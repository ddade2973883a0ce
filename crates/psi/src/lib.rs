//! Plain private set intersection: a multi-point OPRF, then compare masks.
//!
//! [`send`] and [`receive`] run one protocol between two parties whose contract is agreed. The
//! receiver learns which of its items the sender holds; the sender learns nothing but sizes.
#![forbid(unsafe_code)]

pub mod masks;
pub mod research;

use rand_core::CryptoRng;
pub use vesica_oprf::Item;
use vesica_oprf::compact_dh::{self, Variant};
use vesica_oprf::sparse::{self, Bins, Message, Slices, Store, ThreeHash};
use vesica_oprf::{Outputs, dh, kkrt, vole};
pub use vesica_primitives::security::{Security, lambda_each};
use vesica_wire::{Channel, Error};

/// The protocols, by the names that the command and the contract use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// RT21, figure 4.
    CompactDh,
    /// RT21, figure 5.
    CompactDhSh1,
    /// RT21, figure 6.
    CompactDhSh2,
    /// Huberman, Franklin and Hogg 1999.
    Dh,
    /// Kolesnikov, Kumaresan, Rosulek and Trieu 2016.
    Kkrt,
    /// PRTY19, figure 5.
    SpotLow,
    /// PRTY19, figure 7.
    SpotFast,
    /// LTSXQ26, figure 14, at the width of PRTY19.
    SparseOkvs,
    /// Rindal and Schoppmann 2021, with the encodings and widths of Raghuraman and Rindal 2022.
    Vole,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 9] = [
        Protocol::CompactDh,
        Protocol::CompactDhSh1,
        Protocol::CompactDhSh2,
        Protocol::Dh,
        Protocol::Vole,
        Protocol::Kkrt,
        Protocol::SpotLow,
        Protocol::SpotFast,
        Protocol::SparseOkvs,
    ];

    /// The name in commands and contracts.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::CompactDh => "compact-dh",
            Protocol::CompactDhSh1 => "compact-dh-sh1",
            Protocol::CompactDhSh2 => "compact-dh-sh2",
            Protocol::Dh => "dh",
            Protocol::Kkrt => "kkrt",
            Protocol::SpotLow => "spot-low",
            Protocol::SpotFast => "spot-fast",
            Protocol::SparseOkvs => "sparse-okvs",
            Protocol::Vole => "vole",
        }
    }

    /// The protocol of that name.
    pub fn from_name(name: &str) -> Option<Protocol> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Most items that either side may hold.
    ///
    /// RT21's polynomial takes 64·n·log₂ n bytes to work on, 1.3 GB at its limit; classic DH takes some
    /// 150 bytes an item, and KKRT some 200 an item of the sender's, who has three masks of each. The
    /// tree of `spot-low` takes 32·n·log₂ n bytes, 2.9 GB at its limit; a sender of `spot-fast` has two rows
    /// of 64 bytes an item.
    pub fn max_items(self) -> u64 {
        match self {
            Protocol::CompactDh | Protocol::CompactDhSh1 | Protocol::CompactDhSh2 => 1 << 20,
            Protocol::SpotLow => 1 << 22,
            Protocol::Kkrt | Protocol::SpotFast | Protocol::SparseOkvs => 1 << 26,
            Protocol::Dh | Protocol::Vole => 1 << 28,
        }
    }

    /// Masks that the sender has of each item: one for each place where the receiver may have put it.
    pub fn masks_an_item(self) -> usize {
        match self {
            Protocol::Kkrt => kkrt::HASHES,
            Protocol::SpotFast => Bins::POINTS,
            _ => 1,
        }
    }

    /// Events that share 2^-λ in a run: those that the OPRF's module lists.
    pub fn events(self) -> u32 {
        match Oprf::of(self) {
            Oprf::CompactDh(_) => compact_dh::EVENTS,
            Oprf::Dh => dh::EVENTS,
            Oprf::Kkrt => kkrt::EVENTS,
            Oprf::Sparse(_) => sparse::EVENTS,
            Oprf::Vole => vole::EVENTS,
        }
    }

    /// The most bits of statistical security for sets of these sizes, where there is a limit.
    ///
    /// Outputs of `vole`, `kkrt` and the sparse extensions have 128 bits, as have the halves of items that they
    /// work on. Of all pairs in which masks or halves of different items may collide, those of the receiver's own
    /// items included, each must do so with half of one event's share at most. The checks of `vole` and the columns
    /// of a sparse extension have limits of their own.
    pub fn max_lambda(self, receiver_size: u64, sender_size: u64) -> Option<u32> {
        let receiver = u128::from(receiver_size.max(1));
        let masks = u128::from(sender_size.max(1)) * self.masks_an_item() as u128;
        let pairs = receiver.saturating_mul(masks);
        let pairs = pairs.saturating_add(receiver * receiver / 2);
        let log = u128::BITS - (pairs - 1).leading_zeros();
        let outputs = 127u32.saturating_sub(lambda_each(log, self.events()));
        match Oprf::of(self) {
            Oprf::CompactDh(_) | Oprf::Dh => None,
            Oprf::Kkrt => Some(outputs),
            Oprf::Sparse(_) => Some(outputs.min(sparse::MOST_LAMBDA)),
            Oprf::Vole => Some(outputs.min(vole::MOST_LAMBDA)),
        }
    }

    /// The strongest adversary that the protocol withstands.
    pub fn security(self) -> Security {
        match self {
            Protocol::CompactDh | Protocol::Vole => Security::Malicious,
            _ => Security::SemiHonest,
        }
    }

    /// The adversary that a run withstands whose parties ask for `asked`: `vole` has a cheaper form
    /// for peers who are trusted to follow it, the others have one form each.
    pub fn runs(self, asked: Security) -> Security {
        match self {
            Protocol::Vole => asked,
            _ => self.security(),
        }
    }
}

/// What both parties have agreed on before the first protocol message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Which protocol to run.
    pub protocol: Protocol,
    /// The adversary to withstand: [`Protocol::runs`] of what was asked for.
    pub security: Security,
    /// Whether the receiver tells the sender the matches.
    pub both: bool,
    /// Statistical security in bits.
    pub lambda: u32,
    /// Items in the receiver's set.
    pub receiver_size: usize,
    /// Items in the sender's set.
    pub sender_size: usize,
    /// Hash of the agreed contract and both sides' nonces; bound into every hash of the protocol.
    pub session: [u8; 32],
}

impl Params {
    /// Statistical security in bits of each event that shares 2^-λ, the collision of masks among them.
    pub fn lambda_each(&self) -> u32 {
        lambda_each(self.lambda, self.protocol.events())
    }
}

/// What a receiver can compute before it knows its items or its peer. Consumed by one run.
pub struct Prepared(Offline);

enum Offline {
    CompactDh(compact_dh::Prepared),
    Nothing,
}

/// The OPRF behind a protocol name.
enum Oprf {
    CompactDh(Variant),
    Dh,
    Kkrt,
    Sparse(Writing),
    Vole,
}

/// The ways to write the message of a sparse extension.
#[derive(Clone, Copy)]
enum Writing {
    Slices,
    Bins,
    RandomBand,
    ThreeHash,
}

impl Writing {
    /// Runs the receiver of an extension.
    fn receive(
        self,
        channel: &mut dyn Channel,
        params: &sparse::Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let run = match self {
            Writing::Slices => sparse::receive::<Slices>,
            Writing::Bins => sparse::receive::<Bins>,
            Writing::RandomBand => sparse::receive::<Store>,
            Writing::ThreeHash => sparse::receive::<Store<ThreeHash>>,
        };
        run(channel, params, items, rng)
    }

    /// Runs the sender of an extension.
    fn send(
        self,
        channel: &mut dyn Channel,
        params: &sparse::Params,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Outputs, Error> {
        let run = match self {
            Writing::Slices => sparse::send::<Slices>,
            Writing::Bins => sparse::send::<Bins>,
            Writing::RandomBand => sparse::send::<Store>,
            Writing::ThreeHash => sparse::send::<Store<ThreeHash>>,
        };
        run(channel, params, items, rng)
    }
}

impl Oprf {
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::CompactDh => Oprf::CompactDh(Variant::Malicious),
            Protocol::CompactDhSh1 => Oprf::CompactDh(Variant::SemiHonest1),
            Protocol::CompactDhSh2 => Oprf::CompactDh(Variant::SemiHonest2),
            Protocol::Dh => Oprf::Dh,
            Protocol::Kkrt => Oprf::Kkrt,
            Protocol::SpotLow => Oprf::Sparse(Writing::Slices),
            Protocol::SpotFast => Oprf::Sparse(Writing::Bins),
            Protocol::SparseOkvs => Oprf::Sparse(Writing::RandomBand),
            Protocol::Vole => Oprf::Vole,
        }
    }
}

/// What `vole` needs of the parameters.
fn vole_params(params: &Params) -> vole::Params {
    vole::Params {
        security: params.security,
        lambda: params.lambda,
        receiver_size: params.receiver_size,
        sender_size: params.sender_size,
        session: params.session,
    }
}

/// What `kkrt` needs of the parameters.
fn kkrt_params(params: &Params) -> kkrt::Params {
    kkrt::Params {
        lambda: params.lambda,
        receiver_size: params.receiver_size,
        sender_size: params.sender_size,
        session: params.session,
    }
}

/// What sparse extensions need of the parameters.
fn sparse_params(params: &Params) -> sparse::Params {
    sparse::Params {
        lambda: params.lambda,
        receiver_size: params.receiver_size,
        sender_size: params.sender_size,
        session: params.session,
        function: sparse::BitFunction::Aes,
    }
}

/// What is said of masks, said of items: `numbers[i]` is the index of the item that mask `i` is of.
/// Takes time that does not depend on what is said.
fn renumbered(matched: &[bool], numbers: &[u32]) -> Vec<bool> {
    let mut items = vec![false; matched.len()];
    for (matched, number) in matched.iter().zip(numbers) {
        items[*number as usize] = *matched;
    }
    items
}

/// The indices of the items that matched, ascending. Takes time that depends on them: not to be
/// called before the last message to a peer that may not know their number.
pub fn indices_vartime(matched: &[bool]) -> Vec<u32> {
    let indices = (0..).zip(matched).filter(|(_, matched)| **matched);
    indices.map(|(index, _)| index).collect()
}

/// The receiver's mask exchange: says of each of its items whether it matched.
fn own_matches(
    exchange: &masks::Exchange,
    channel: &mut dyn Channel,
    session: &[u8; 32],
    items: &[Item],
    own: &Outputs,
) -> Result<Vec<bool>, Error> {
    match exchange.masks_an_item {
        1 => Ok(renumbered(
            &exchange.receive(channel, &own.masks)?,
            &own.numbers,
        )),
        _ => exchange.receive_several(channel, session, items, &own.masks, &own.numbers),
    }
}

/// The sender's mask exchange: says of each of its items whether it matched, if it is told.
fn told_matches(
    exchange: &masks::Exchange,
    channel: &mut dyn Channel,
    session: &[u8; 32],
    items: &[Item],
    own: Outputs,
) -> Result<Option<Vec<bool>>, Error> {
    match exchange.masks_an_item {
        1 => {
            let matches = exchange.send(channel, &own.masks)?;
            Ok(matches.map(|matches| renumbered(&matches, &own.numbers)))
        }
        _ => exchange.send_several(channel, session, items, own.masks),
    }
}

/// The receiver's offline phase for `items` items. Needs no peer.
pub fn prepare(protocol: Protocol, items: usize, rng: &mut dyn CryptoRng) -> Prepared {
    Prepared(match Oprf::of(protocol) {
        Oprf::CompactDh(_) => Offline::CompactDh(compact_dh::Prepared::new(items, rng)),
        Oprf::Dh | Oprf::Kkrt | Oprf::Sparse(_) | Oprf::Vole => Offline::Nothing,
    })
}

/// Runs the receiver; says of each of `items` whether the sender also holds it. Unless `both` learn it,
/// what is left to do after the sender's last message takes time that does not depend on that.
///
/// # Panics
/// If `items` or `prepared` do not fit `params`, or items repeat.
pub fn receive(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    prepared: Prepared,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<bool>, Error> {
    assert_eq!(items.len(), params.receiver_size);
    let session = &params.session;
    let exchange = masks::Exchange::new(params);
    let matches = match (Oprf::of(params.protocol), prepared.0) {
        (Oprf::CompactDh(variant), Offline::CompactDh(prepared)) => {
            channel.begin_phase("oprf");
            let own = compact_dh::receive(channel, variant, session, items, prepared, rng)?;
            channel.begin_phase("masks");
            exchange.receive_bytes(channel, &own)?
        }
        (Oprf::Dh, Offline::Nothing) => {
            channel.begin_phase("oprf");
            let own = dh::receive(channel, session, items, rng)?;
            channel.begin_phase("masks");
            exchange.receive_bytes(channel, &own)?
        }
        (Oprf::Kkrt, Offline::Nothing) => {
            let own = kkrt::receive(channel, &kkrt_params(params), items, rng)?;
            channel.begin_phase("masks");
            own_matches(&exchange, channel, session, items, &own)?
        }
        (Oprf::Sparse(writing), Offline::Nothing) => {
            let own = writing.receive(channel, &sparse_params(params), items, rng)?;
            channel.begin_phase("masks");
            own_matches(&exchange, channel, session, items, &own)?
        }
        (Oprf::Vole, Offline::Nothing) => {
            let own = vole::receive(channel, &vole_params(params), items, rng)?;
            channel.begin_phase("masks");
            own_matches(&exchange, channel, session, items, &own)?
        }
        _ => panic!("prepared for another protocol"),
    };
    channel.flush()?;
    Ok(matches)
}

/// Runs the sender; where the parties have agreed that both learn the matches, says of each of `items`
/// whether the receiver says that it also holds it. Nothing makes a dishonest receiver tell the truth.
///
/// # Panics
/// If `items` does not fit `params`.
pub fn send(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Option<Vec<bool>>, Error> {
    assert_eq!(items.len(), params.sender_size);
    let session = &params.session;
    let exchange = masks::Exchange::new(params);
    let matches = match Oprf::of(params.protocol) {
        Oprf::CompactDh(variant) => {
            channel.begin_phase("oprf");
            let peer_size = params.receiver_size;
            let masks = compact_dh::send(channel, variant, session, items, peer_size, rng)?;
            channel.begin_phase("masks");
            exchange.send_bytes(channel, &masks)?
        }
        Oprf::Dh => {
            channel.begin_phase("oprf");
            let masks = dh::send(channel, session, items, params.receiver_size, rng)?;
            channel.begin_phase("masks");
            exchange.send_bytes(channel, &masks)?
        }
        Oprf::Kkrt => {
            let masks = kkrt::send(channel, &kkrt_params(params), items, rng)?;
            channel.begin_phase("masks");
            exchange.send_several(channel, session, items, masks)?
        }
        Oprf::Sparse(writing) => {
            let own = writing.send(channel, &sparse_params(params), items, rng)?;
            channel.begin_phase("masks");
            told_matches(&exchange, channel, session, items, own)?
        }
        Oprf::Vole => {
            let own = vole::send(channel, &vole_params(params), items, rng)?;
            channel.begin_phase("masks");
            told_matches(&exchange, channel, session, items, own)?
        }
    };
    channel.flush()?;
    Ok(matches)
}

#[cfg(test)]
mod tests;
