//! Plain private set intersection: a multi-point OPRF, then compare masks.
//!
//! [`send`] and [`receive`] run one protocol between two parties whose contract is agreed. The
//! receiver learns which of its items the sender holds; the sender learns nothing but sizes.
#![forbid(unsafe_code)]

pub mod masks;

use rand_core::CryptoRng;
pub use vesica_oprf::Item;
use vesica_oprf::compact_dh::{self, Variant};
use vesica_oprf::{dh, kkrt, vole};
pub use vesica_primitives::security::Security;
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
    /// Rindal and Schoppmann 2021, with the encodings and widths of Raghuraman and Rindal 2022.
    Vole,
}

impl Protocol {
    /// Every protocol.
    pub const ALL: [Protocol; 6] = [
        Protocol::CompactDh,
        Protocol::CompactDhSh1,
        Protocol::CompactDhSh2,
        Protocol::Dh,
        Protocol::Vole,
        Protocol::Kkrt,
    ];

    /// The name in commands and contracts.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::CompactDh => "compact-dh",
            Protocol::CompactDhSh1 => "compact-dh-sh1",
            Protocol::CompactDhSh2 => "compact-dh-sh2",
            Protocol::Dh => "dh",
            Protocol::Kkrt => "kkrt",
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
    /// 150 bytes an item, and KKRT some 200 an item of the sender's, who has three masks of each.
    pub fn max_items(self) -> u64 {
        match self {
            Protocol::CompactDh | Protocol::CompactDhSh1 | Protocol::CompactDhSh2 => 1 << 20,
            Protocol::Kkrt => 1 << 26,
            Protocol::Dh | Protocol::Vole => 1 << 28,
        }
    }

    /// Masks that the sender has of each item: one for each place where the receiver may have put it.
    pub fn masks_an_item(self) -> usize {
        match self {
            Protocol::Kkrt => kkrt::HASHES,
            _ => 1,
        }
    }

    /// The most bits of statistical security for sets of these sizes, where there is a limit: outputs
    /// of `vole` and `kkrt` have 128 bits, and each of the pairs of masks may meet by chance.
    pub fn max_lambda(self, receiver_size: u64, sender_size: u64) -> Option<u32> {
        let masks = u128::from(sender_size.max(1)) * self.masks_an_item() as u128;
        let pairs = u128::from(receiver_size.max(1)) * masks;
        let log = u128::BITS - (pairs - 1).leading_zeros();
        let limited = matches!(self, Protocol::Vole | Protocol::Kkrt);
        limited.then(|| 128u32.saturating_sub(log))
    }

    /// The strongest adversary that the protocol withstands.
    pub fn security(self) -> Security {
        match self {
            Protocol::CompactDh | Protocol::Vole => Security::Malicious,
            Protocol::CompactDhSh1 | Protocol::CompactDhSh2 | Protocol::Dh | Protocol::Kkrt => {
                Security::SemiHonest
            }
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
    Vole,
}

impl Oprf {
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::CompactDh => Oprf::CompactDh(Variant::Malicious),
            Protocol::CompactDhSh1 => Oprf::CompactDh(Variant::SemiHonest1),
            Protocol::CompactDhSh2 => Oprf::CompactDh(Variant::SemiHonest2),
            Protocol::Dh => Oprf::Dh,
            Protocol::Kkrt => Oprf::Kkrt,
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

/// The numbers of masks that matched as numbers of items, ascending.
fn renumbered(matches: &[u32], numbers: &[u32]) -> Vec<u32> {
    let mut items: Vec<u32> = matches.iter().map(|i| numbers[*i as usize]).collect();
    items.sort_unstable();
    items
}

/// The receiver's offline phase for `items` items. Needs no peer.
pub fn prepare(protocol: Protocol, items: usize, rng: &mut dyn CryptoRng) -> Prepared {
    Prepared(match Oprf::of(protocol) {
        Oprf::CompactDh(_) => Offline::CompactDh(compact_dh::Prepared::new(items, rng)),
        Oprf::Dh | Oprf::Kkrt | Oprf::Vole => Offline::Nothing,
    })
}

/// Runs the receiver; returns the indices into `items` that the sender also holds, ascending.
///
/// # Panics
/// If `items` or `prepared` do not fit `params`, or items repeat.
pub fn receive(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    prepared: Prepared,
    rng: &mut dyn CryptoRng,
) -> Result<Vec<u32>, Error> {
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
            exchange.receive_several(channel, session, items, &own.masks, &own.numbers)?
        }
        (Oprf::Vole, Offline::Nothing) => {
            let own = vole::receive(channel, &vole_params(params), items, rng)?;
            channel.begin_phase("masks");
            renumbered(&exchange.receive(channel, &own.masks)?, &own.numbers)
        }
        _ => panic!("prepared for another protocol"),
    };
    channel.flush()?;
    Ok(matches)
}

/// Runs the sender; returns the indices into `items` that the receiver says it also holds,
/// ascending, where the parties have agreed that both learn them. Nothing makes a dishonest receiver
/// tell the truth about them.
///
/// # Panics
/// If `items` does not fit `params`.
pub fn send(
    channel: &mut dyn Channel,
    params: &Params,
    items: &[Item],
    rng: &mut dyn CryptoRng,
) -> Result<Option<Vec<u32>>, Error> {
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
        Oprf::Vole => {
            let own = vole::send(channel, &vole_params(params), items, rng)?;
            channel.begin_phase("masks");
            let matches = exchange.send(channel, &own.masks)?;
            matches.map(|matches| renumbered(&matches, &own.numbers))
        }
    };
    channel.flush()?;
    Ok(matches)
}

#[cfg(test)]
mod tests;
