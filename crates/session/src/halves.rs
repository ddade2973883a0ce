//! Prepared correlations as a run sees them: whence it takes a half, and what it does with it.
//!
//! Both hellos name the halves that fit; the run takes the first of the receiver's that the sender has too
//! ([`Offer`]). Who makes halves, and keeps them, is beside this crate.

use std::fmt::Debug;

use vesica_plan::Registry;
use vesica_psi::{Params, Prepared, Protocol};
use vesica_wire::{Channel, Error as WireError, Kind, Limit};
use zeroize::Zeroizing;

use crate::offers::Offer;
use crate::{Error, Fingerprint, ProtocolRequest, Role};

/// A side has taken its half.
const TAKEN: Kind = Kind {
    code: 25,
    name: "taken",
};

/// Where the halves of prepared correlations are of which a run takes one. Its errors are [`Error::Halves`], or a limit of
/// this machine.
pub trait HalfSource: Debug + Send + Sync {
    /// The halves that fit a purpose, the one to take first at the front. The peer hears of the first
    /// [`MAX_OFFERS`](crate::MAX_OFFERS).
    ///
    /// # Errors
    /// There is none.
    fn offers(&self, purpose: &Purpose<'_>) -> Result<Vec<Offer>, Error>;

    /// Takes a half that was offered for this purpose; it is gone afterwards.
    ///
    /// # Errors
    /// It is damaged, gone, or not what was offered.
    fn take(&self, offer: &Offer, purpose: &Purpose<'_>) -> Result<Zeroizing<Vec<u8>>, Error>;
}

/// What a run wants a half for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Purpose<'a> {
    /// This side's part.
    pub role: Role,
    /// The protocols to choose from.
    pub registry: &'a Registry,
    /// The protocol.
    pub protocol: &'a ProtocolRequest,
    /// Statistical security in bits.
    pub lambda: u32,
    /// The bits of keys that are numbers of a declared width.
    pub key_bits: Option<u32>,
    /// Whether the messages that made the halves have to hide sets from a later quantum computer.
    pub post_quantum: bool,
    /// Items of this side.
    pub items: u64,
    /// The peer; `None` over plaintext.
    pub peer: Option<Fingerprint>,
}

/// Tells the peer that this side has taken its half, and waits until the peer has: nothing that depends on a half leaves
/// before both are gone.
pub(crate) fn both_have_taken(channel: &mut dyn Channel) -> Result<(), WireError> {
    channel.send(TAKEN, Vec::new())?;
    channel.flush()?;
    channel.recv(TAKEN, 0).map(drop)
}

/// The half that was taken, for a run of this protocol.
pub(crate) fn load(
    protocol: &dyn Protocol,
    role: Role,
    params: &Params,
    bits: Option<u32>,
    half: Zeroizing<Vec<u8>>,
) -> Result<Prepared, WireError> {
    let offline = protocol.offline();
    let prepared = offline.and_then(|offline| offline.load(role.half(), params, bits, half));
    prepared.ok_or_else(|| {
        let reason = "the stored correlations are those of another version";
        WireError::limit(Limit::Offline, reason)
    })
}
