//! Prepared correlations: two parties make them, or a third deals them, before anybody knows an item; each party stores
//! its half, and one run takes both.
//!
//! A half is bound to the identities of both parties, to roles, protocol and λ, and to the largest sizes of the two sets:
//! a run over smaller ones pads them. Both hellos name the halves that fit; the run takes the first of the receiver's
//! that the sender has too. [`vesica_correlations::store`] says how a half is encrypted, and why it serves one run only.

use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
pub use vesica_correlations::store::Name;
use vesica_correlations::store::{Entry, Store, StoreError};
use vesica_plan::Registry;
use vesica_psi::{Half, Offline, Params, Prepared, Security};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::codec::Reader;
use crate::contract::differ;
use crate::{Agreement, Error, Fingerprint, Identity, Job, ProtocolRequest, Role};

mod make;

pub use make::{deal, fetch_half, make_half};

/// Halves that a hello names at most.
pub const MAX_OFFERS: usize = 32;

/// What a half is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfflineTerms {
    /// The protocol.
    pub protocol: String,
    /// Statistical security in bits.
    pub lambda: u32,
    /// The bits of keys that are numbers of a declared width.
    pub key_bits: Option<u32>,
    /// The most items of the receiver.
    pub receiver_size: u64,
    /// The most items of the sender.
    pub sender_size: u64,
}

/// The header of a file.
#[derive(Serialize, Deserialize)]
struct Header {
    role: Role,
    own: String,
    peer: String,
    made: SystemTime,
    #[serde(flatten)]
    terms: OfflineTerms,
}

/// A half in a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredHalf {
    /// The name of the pair, the same on both sides.
    pub name: Name,
    /// Whose half it is.
    pub role: Role,
    /// Whether the identity with which the store was opened has made it.
    pub is_own: bool,
    /// The fingerprint of the other party.
    pub peer: String,
    /// When it was made.
    pub made: SystemTime,
    /// What it is for.
    pub terms: OfflineTerms,
    /// Bytes of its file.
    pub bytes: u64,
    /// Whether a run has taken it, of which the file is a copy then.
    pub is_used: bool,
}

/// A half that a hello names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The name of the pair.
    pub name: Name,
    /// The most items of the receiver.
    pub receiver_size: u64,
    /// The most items of the sender.
    pub sender_size: u64,
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match &error {
            StoreError::Io { cause, .. }
                if matches!(
                    cause.kind(),
                    std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded
                ) =>
            {
                Error::Run(WireError::limit(Limit::Storage, error))
            }
            _ => Error::Offline(error.to_string()),
        }
    }
}

impl OfflineTerms {
    /// The protocol of these terms, and its offline phase.
    ///
    /// Fails with [`Error::Usage`] if there is none, or terms that the protocol cannot meet.
    pub fn check(&self, registry: &Registry) -> Result<&'static dyn Offline, Error> {
        let usage = |problem: String| Err(Error::Usage(problem));
        let protocol = registry.get(&self.protocol);
        let Some((spec, offline)) = protocol.and_then(|p| Some((p.spec(), p.offline()?))) else {
            return usage(format!(
                "protocol {} has no offline phase to store",
                self.protocol
            ));
        };
        if self.key_bits.is_some_and(|bits| !(1..=64).contains(&bits)) {
            return usage("keys of 1 to 64 bits are possible".into());
        }
        let sizes = [self.receiver_size, self.sender_size];
        if sizes
            .iter()
            .any(|size| *size == 0 || *size > spec.max_items)
        {
            return usage(format!(
                "{} takes 1 to {} items of each side",
                spec.name, spec.max_items
            ));
        }
        let most = spec.max_lambda_of(sizes, self.key_bits);
        if self.lambda < 40 || most.is_some_and(|most| self.lambda > most) {
            return usage(format!(
                "{} offers 40 to {} bits of statistical security for these sizes",
                spec.name,
                most.unwrap_or(128)
            ));
        }
        Ok(offline)
    }

    fn params(&self, session: [u8; 32]) -> Result<Params, WireError> {
        let size = |size: u64| {
            usize::try_from(size).map_err(|_| {
                WireError::limit(
                    Limit::Memory,
                    format!("{size} items do not fit into memory"),
                )
            })
        };
        Ok(Params {
            security: Security::SemiHonest,
            lambda: self.lambda,
            receiver_size: size(self.receiver_size)?,
            sender_size: size(self.sender_size)?,
            session,
        })
    }
}

/// A directory of halves of one identity.
#[derive(Clone, Debug)]
pub struct OfflineStore {
    store: Store,
    own: Fingerprint,
}

impl PartialEq for OfflineStore {
    fn eq(&self, other: &OfflineStore) -> bool {
        self.own == other.own && self.store.directory() == other.store.directory()
    }
}

impl Eq for OfflineStore {}

impl OfflineStore {
    /// Opens a directory, which is created for this user alone if it does not exist. Other identities may use it too.
    ///
    /// Fails with [`Error::Offline`] if it cannot be created or read, or if other users may write to it.
    pub fn open(directory: &Path, identity: &Identity) -> Result<OfflineStore, Error> {
        let key = identity.derive_key("vesica/1 stored correlations");
        Ok(OfflineStore {
            store: Store::open(directory, key)?,
            own: identity.fingerprint(),
        })
    }

    /// All halves, the oldest first.
    ///
    /// Fails with [`Error::Offline`] for a directory that cannot be read, or a file in it that is no half.
    pub fn list(&self) -> Result<Vec<StoredHalf>, Error> {
        let own = self.own.to_string();
        let half = |entry: Entry| {
            let header: Header = serde_json::from_slice(&entry.header)
                .map_err(|_| Error::Offline(format!("{}: no half of this version", entry.name)))?;
            Ok(StoredHalf {
                name: entry.name,
                role: header.role,
                is_own: header.own == own,
                peer: header.peer,
                made: header.made,
                terms: header.terms,
                bytes: entry.bytes,
                is_used: entry.is_used,
            })
        };
        let mut halves: Vec<_> = self
            .store
            .list()?
            .into_iter()
            .map(half)
            .collect::<Result<_, Error>>()?;
        halves.sort_by_key(|half| (half.made, half.name));
        Ok(halves)
    }

    /// Checks that the file of a half is whole and as this identity wrote it.
    ///
    /// Fails with [`Error::Offline`] if it is not.
    pub fn verify(&self, name: Name) -> Result<(), Error> {
        Ok(self.store.verify(name)?)
    }

    fn put(
        &self,
        name: Name,
        role: Role,
        peer: Fingerprint,
        terms: &OfflineTerms,
        half: &[u8],
    ) -> Result<(), Error> {
        let header = Header {
            role,
            own: self.own.to_string(),
            peer: peer.to_string(),
            made: SystemTime::now(),
            terms: terms.clone(),
        };
        let header = serde_json::to_vec(&header).map_err(|e| Error::Offline(e.to_string()))?;
        Ok(self.store.put(name, &header, half)?)
    }

    /// Removes a half that no run can use.
    fn remove(&self, name: Name) -> Result<(), Error> {
        Ok(self.store.remove(name)?)
    }

    /// The halves that fit a job over so many items of this side.
    ///
    /// Fails with [`Error::Offline`] if there are none; says why the last one does not fit.
    pub(crate) fn offers(
        &self,
        job: &Job,
        items: u64,
        peer: Option<Fingerprint>,
    ) -> Result<Vec<Offer>, Error> {
        let (mut offers, mut problem) = (Vec::new(), None);
        for half in self.list()? {
            match half.misfit(job, items, peer) {
                Some(why) => problem = Some(format!("{} {why}", half.name)),
                None => offers.push(Offer {
                    name: half.name,
                    receiver_size: half.terms.receiver_size,
                    sender_size: half.terms.sender_size,
                }),
            }
        }
        if offers.is_empty() {
            let why = problem.map_or("it is empty".into(), |problem| problem);
            return Err(Error::Offline(format!(
                "{} has nothing for this run: {why}",
                self.store.directory().display()
            )));
        }
        offers.truncate(MAX_OFFERS);
        Ok(offers)
    }

    /// Takes the half that a contract names; it is gone afterwards.
    ///
    /// Fails with [`Error::Offline`] if it is damaged, or gone.
    pub(crate) fn take(&self, name: Name) -> Result<Zeroizing<Vec<u8>>, Error> {
        Ok(self.store.take(name)?.1)
    }
}

impl StoredHalf {
    /// Why a job cannot use it.
    fn misfit(&self, job: &Job, items: u64, peer: Option<Fingerprint>) -> Option<String> {
        let terms = &self.terms;
        let own_size = match job.role {
            Role::Receiver => terms.receiver_size,
            Role::Sender => terms.sender_size,
        };
        let bits = |bits: Option<u32>| {
            bits.map_or("any keys".into(), |bits| format!("keys of {bits} bits"))
        };
        if !self.is_own {
            Some("is of another identity".into())
        } else if self.is_used {
            Some("was used before".into())
        } else if self.role != job.role {
            Some(format!("is the {}'s half", self.role))
        } else if peer.is_none_or(|peer| peer.to_string() != self.peer) {
            Some(format!("is for runs with {}", self.peer))
        } else if job.protocol != ProtocolRequest::named(&terms.protocol) {
            Some(format!("is for {}", terms.protocol))
        } else if job.lambda != terms.lambda {
            Some(format!("is for lambda {}", terms.lambda))
        } else if job.key_bits != terms.key_bits {
            Some(format!("is for {}", bits(terms.key_bits)))
        } else if items > own_size {
            Some(format!(
                "is for {own_size} items at most, and these are {items}"
            ))
        } else {
            None
        }
    }
}

impl Role {
    fn half(self) -> Half {
        match self {
            Role::Receiver => Half::Receiver,
            Role::Sender => Half::Sender,
        }
    }
}

impl Offer {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0);
        out.extend_from_slice(&self.receiver_size.to_le_bytes());
        out.extend_from_slice(&self.sender_size.to_le_bytes());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Offer, WireError> {
        Ok(Offer {
            name: Name(reader.array()?),
            receiver_size: reader.u64()?,
            sender_size: reader.u64()?,
        })
    }
}

/// The first of the receiver's halves that the sender has too and that is for sets of these sizes. `offers` are those of
/// this side, whose role is given, and the peer's; `None` if neither side wants to use stored correlations.
pub(crate) fn choose(
    role: Role,
    offers: [Option<&[Offer]>; 2],
    sizes: [u64; 2],
) -> Result<Option<Offer>, WireError> {
    const FIELD: &str = "stored correlations";
    let [ours, theirs] = match offers {
        [None, None] => return Ok(None),
        [Some(ours), Some(theirs)] => [ours, theirs],
        [Some(_), None] => return Err(differ(FIELD, "from a store", "none")),
        [None, Some(_)] => return Err(differ(FIELD, "none", "from a store")),
    };
    let [receiver, sender] = match role {
        Role::Receiver => [ours, theirs],
        Role::Sender => [theirs, ours],
    };
    let fits = |offer: &&Offer| {
        sender.contains(offer) && offer.receiver_size >= sizes[0] && offer.sender_size >= sizes[1]
    };
    match receiver.iter().find(fits) {
        Some(offer) => Ok(Some(*offer)),
        None => {
            let count = |offers: &[Offer]| format!("{} other halves", offers.len());
            let ours = format!("{} for sets of these sizes", count(ours));
            Err(differ(FIELD, ours, count(theirs)))
        }
    }
}

/// The half that was taken from a store, for a run of this agreement.
pub(crate) fn load(
    agreement: &Agreement,
    role: Role,
    params: &Params,
    half: Zeroizing<Vec<u8>>,
) -> Result<Prepared, WireError> {
    let bits = agreement.contract.key_bits;
    let offline = agreement.protocol.offline();
    let prepared = offline.and_then(|offline| offline.load(role.half(), params, bits, half));
    prepared.ok_or_else(|| {
        let reason = "the stored correlations are those of another version";
        WireError::limit(Limit::Offline, reason)
    })
}

#[cfg(test)]
mod tests;
