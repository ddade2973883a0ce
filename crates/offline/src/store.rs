//! Prepared correlations: two parties make them, or are dealt them, before anybody knows an item; each party stores
//! its half, and one run takes both.
//!
//! A half is bound to the identities of both parties, to roles, protocol and λ, and to the largest sizes of the two sets:
//! a run over smaller ones pads them. [`vesica_correlations::store`] says how a half is encrypted, and why it serves one
//! run only.

use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use vesica_correlations::store::Store;
use vesica_files::{is_exhausted, many, private_directory};
use vesica_psi::{KeyAgreement, Offline, Origin, Params, PostQuantum};
use vesica_session::codec::offers_at_most;
use vesica_session::{
    Error as SessionError, Fingerprint, HalfSource, Identity, Name, Offer, ProtocolRequest,
    Purpose, Registry, Role, Security,
};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::claims::Platform;
use crate::random::fresh_rng;
use crate::{Error, Misfit};

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
    /// Whether the parties make them with hybrid base transfers, where they make them with base transfers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub post_quantum: bool,
}

/// The header of a file.
#[derive(Serialize, Deserialize)]
struct Header {
    role: Role,
    own: String,
    peer: String,
    dealer: Option<String>,
    /// Of this party and of the other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    generators: Option<[String; 2]>,
    /// What dealer or generators have shown, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attested: Option<String>,
    /// Seconds since 1970.
    made: u64,
    layout: String,
    #[serde(flatten)]
    terms: OfflineTerms,
}

/// Between what two generators have shown.
pub(crate) const AND: &str = " and ";

/// Latest time of a header, the end of the year 9999 in seconds since 1970.
const END_OF_TIME: u64 = 253_402_300_799;

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
    /// The other party.
    pub peer: Fingerprint,
    /// The dealer, if one dealt it.
    pub dealer: Option<Fingerprint>,
    /// The generators of this party and of the other, if those made it.
    pub generators: Option<[Fingerprint; 2]>,
    /// Platform and measurement that the dealer has shown, if it had to; what the generators have shown, this party's
    /// first, with "and" between them if they differ.
    pub attested: Option<String>,
    /// When it was made.
    pub made: SystemTime,
    /// What it is for.
    pub terms: OfflineTerms,
    layout: String,
    /// Bytes of its file.
    pub bytes: u64,
    /// Whether a run has taken it, of which the file is a copy then.
    pub is_used: bool,
    /// Whether it is not in the file that it was stored in: no run takes it unless it is adopted.
    pub is_copy: bool,
}

/// What is in a store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Listing {
    /// The halves, the latest first.
    pub halves: Vec<StoredHalf>,
    /// Files with the name of a half that cannot be read as one.
    pub unreadable: Vec<Name>,
    /// The number of files that killed processes have left behind, and their bytes; the next half that is stored, adopted
    /// or removed takes their place.
    pub unfinished: (usize, u64),
}

impl OfflineTerms {
    /// The protocol of these terms, and its offline phase.
    ///
    /// Fails with [`Error::Usage`] if there is none, or for terms that nothing could meet, and with [`Error::Session`] for a
    /// λ that the protocol does not reach.
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
        if !(40..=128).contains(&self.lambda) {
            return usage(format!(
                "lambda is {} bits; 40 to 128 are possible",
                self.lambda
            ));
        }
        match spec.max_lambda_of(sizes, self.key_bits) {
            Some(most) if self.lambda > most => {
                Err(offers_at_most(spec, self.key_bits, most).into())
            }
            _ => Ok(offline),
        }
    }

    /// What decides, besides these terms, what a half for them means; `None` for terms that no half can have.
    pub(crate) fn layout(&self, registry: &Registry) -> Option<String> {
        // Terms of a header are anybody's.
        let offline = self.check(registry).ok()?;
        offline
            .layout(&self.params([0; 32]).ok()?, self.key_bits)
            .ok()
    }

    pub(crate) fn params(&self, session: [u8; 32]) -> Result<Params, WireError> {
        let size = |size: u64| {
            usize::try_from(size).map_err(|_| {
                WireError::limit(
                    Limit::Memory { enough: None },
                    format!("{} do not fit into memory", many(size, "item")),
                )
            })
        };
        Ok(Params {
            security: Security::SemiHonest,
            lambda: self.lambda,
            receiver_size: size(self.receiver_size)?,
            sender_size: size(self.sender_size)?,
            key_agreement: match self.post_quantum {
                true => KeyAgreement::Hybrid,
                false => KeyAgreement::Classical,
            },
            session,
        })
    }
}

/// A directory of halves of one identity.
#[derive(Clone, Debug)]
pub struct OfflineStore {
    store: Store,
    own: Fingerprint,
    attested: Option<String>,
}

impl OfflineStore {
    /// Opens a directory, which is created for this user alone if it does not exist. Other identities may use it too, but
    /// not both parties of a pair.
    ///
    /// Fails with [`Error::Store`] if it cannot be created or read, with [`Error::UnsafeStore`] if other users may write to
    /// it, and with [`Error::Session`] if there is no room for it.
    pub fn open(directory: &Path, identity: &Identity) -> Result<OfflineStore, Error> {
        match private_directory(directory) {
            Ok(None) => {}
            Ok(Some(problem)) => {
                let directory = directory.to_owned();
                return Err(Error::UnsafeStore { directory, problem });
            }
            Err(e) => {
                let line = format!("{} cannot be used: {e}", directory.display());
                return Err(match is_exhausted(&e) {
                    true => WireError::limit(Limit::System, line).into(),
                    false => Error::Store(line),
                });
            }
        }
        let key = identity.derive_key("vesica/1 stored correlations");
        Ok(OfflineStore {
            store: Store::new(directory, key),
            own: identity.fingerprint(),
            attested: None,
        })
    }

    /// The same for runs that take only halves whose dealer, or both of whose generators, have shown this: a platform, or a
    /// platform and a measurement, in the words of [`StoredHalf::attested`]. Others take whatever was not simulated.
    pub fn with_attested(self, attested: Option<String>) -> OfflineStore {
        OfflineStore { attested, ..self }
    }

    /// The identity that uses it.
    pub fn fingerprint(&self) -> Fingerprint {
        self.own
    }

    /// All halves.
    ///
    /// Fails with [`Error::Store`] for a directory that cannot be read.
    pub fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing {
            unfinished: self.store.unfinished()?,
            ..Listing::default()
        };
        for entry in self.store.list()? {
            let half = entry.header.as_deref().and_then(|header| self.half(header));
            match half {
                Some(half) => listing.halves.push(StoredHalf {
                    name: entry.name,
                    bytes: entry.bytes,
                    is_used: entry.is_used,
                    is_copy: entry.is_copy,
                    ..half
                }),
                None => listing.unreadable.push(entry.name),
            }
        }
        let halves = &mut listing.halves;
        halves.sort_by_key(|half| std::cmp::Reverse((half.made, half.name)));
        Ok(listing)
    }

    /// What a header says, which anybody may have written.
    fn half(&self, header: &[u8]) -> Option<StoredHalf> {
        let header: Header = serde_json::from_slice(header).ok()?;
        let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let is_word = |b: u8| is_name(b) || b == b' ';
        let attested = header.attested.iter().flat_map(|attested| attested.bytes());
        let sane = header.made <= END_OF_TIME
            && header.terms.protocol.bytes().all(is_name)
            && attested.into_iter().all(is_word);
        sane.then_some(())?;
        Some(StoredHalf {
            name: Name([0; 16]),
            role: header.role,
            is_own: header.own.parse() == Ok(self.own),
            peer: header.peer.parse().ok()?,
            dealer: header
                .dealer
                .map(|dealer| dealer.parse())
                .transpose()
                .ok()?,
            generators: match header.generators {
                Some([own, other]) => Some([own.parse().ok()?, other.parse().ok()?]),
                None => None,
            },
            attested: header.attested,
            made: SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(header.made))?,
            terms: header.terms,
            layout: header.layout,
            bytes: 0,
            is_used: false,
            is_copy: false,
        })
    }

    /// Checks that the file of a half is whole, as this identity wrote it, and the same file.
    ///
    /// Fails with [`Error::BadHalf`] or [`Error::CopiedHalf`] if it is not.
    pub fn verify(&self, name: Name) -> Result<(), Error> {
        Ok(self.store.verify(name)?)
    }

    /// Takes over a half that was copied, restored or moved to another file system. Returns whether it was. The caller
    /// knows that no run has taken or will take another copy of it: two runs reveal items of both.
    ///
    /// Fails with [`Error::BadHalf`] if it is damaged, used or of another identity; it stays as it was then.
    pub fn adopt(&self, name: Name) -> Result<bool, Error> {
        Ok(self.store.adopt(name, &mut fresh_rng()?)?)
    }

    pub(crate) fn put(&self, name: Name, pair: &Pair<'_>, half: &[u8]) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let layout = pair.terms.layout(pair.registry);
        let header = Header {
            role: pair.role,
            own: self.own.to_string(),
            peer: pair.peer.to_string(),
            dealer: pair.dealer.map(|dealer| dealer.to_string()),
            generators: pair.generators.map(|both| both.map(|one| one.to_string())),
            attested: pair.attested.clone(),
            made: now.map_or(0, |now| now.as_secs()),
            layout: layout.ok_or_else(|| Error::Store("no layout".into()))?,
            terms: pair.terms.clone(),
        };
        let header = serde_json::to_vec(&header).map_err(|e| Error::Store(e.to_string()))?;
        Ok(self.store.put(name, &header, half, &mut fresh_rng()?)?)
    }

    /// Removes a half, which no run can use from now on.
    ///
    /// Fails with [`Error::Store`] if there is none of this name.
    pub fn remove(&self, name: Name) -> Result<(), Error> {
        Ok(self.store.remove(name)?)
    }
}

impl HalfSource for OfflineStore {
    /// Says why the latest half does not fit if none does.
    fn offers(&self, purpose: &Purpose<'_>) -> Result<Vec<Offer>, SessionError> {
        let (mut offers, mut copied, mut misfit) = (Vec::new(), None, None);
        for half in self.list()?.halves {
            match half.misfit(purpose, self.attested.as_deref()) {
                Some(why) => misfit = misfit.or(Some((half.name, why))),
                None if half.is_copy => copied = copied.or(Some(half.name)),
                None => offers.push(half.offer()),
            }
        }
        if offers.is_empty() {
            if let Some(name) = copied {
                return Err(Error::CopiedHalf(self.store.path_of(name)).into());
            }
            let directory = self.store.directory().to_owned();
            return Err(Error::NoHalf { directory, misfit }.into());
        }
        Ok(offers)
    }

    fn take(
        &self,
        offer: &Offer,
        purpose: &Purpose<'_>,
    ) -> Result<Zeroizing<Vec<u8>>, SessionError> {
        let name = offer.name;
        let (header, content) = self.store.take(name).map_err(Error::from)?;
        // Until now nothing has shown that the header is this side's.
        let half = self.half(&header).map(|half| StoredHalf { name, ..half });
        let fits = |half: &StoredHalf| {
            half.offer() == *offer && half.misfit(purpose, self.attested.as_deref()).is_none()
        };
        match half.as_ref().is_some_and(fits) {
            true => Ok(content),
            false => Err(Error::Store(format!("{name} is not what its header said")).into()),
        }
    }
}

/// What a half belongs to.
pub(crate) struct Pair<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) role: Role,
    pub(crate) peer: Fingerprint,
    pub(crate) dealer: Option<Fingerprint>,
    /// Of this party and of the other.
    pub(crate) generators: Option<[Fingerprint; 2]>,
    /// What dealer or generators have shown, in words.
    pub(crate) attested: Option<String>,
    pub(crate) terms: &'a OfflineTerms,
}

impl StoredHalf {
    fn offer(&self) -> Offer {
        Offer {
            name: self.name,
            receiver_size: self.terms.receiver_size,
            sender_size: self.terms.sender_size,
        }
    }

    /// Whether the dealer has shown what is wanted. What was simulated protects nothing, so it is taken only by name.
    fn was_shown(&self, wanted: Option<&str>) -> bool {
        let all = self.attested.as_deref().unwrap_or_default();
        let simulated = Platform::Simulated.to_string();
        all.split(AND).all(|shown| {
            let platform = shown.split(' ').next().unwrap_or_default();
            match wanted {
                Some(wanted) => [platform, shown, all].contains(&wanted),
                None => platform != simulated,
            }
        })
    }

    /// Whether one dealer has dealt it for a protocol that means two generators, as before there were any.
    fn is_of_one_dealer(&self, registry: &Registry) -> bool {
        let protocol = registry.get(&self.terms.protocol);
        let offline = protocol.and_then(|protocol| protocol.offline());
        let is_meant = offline.is_some_and(|offline| offline.origin() == Origin::Generators);
        is_meant && self.generators.is_none()
    }

    /// Whether the messages that made it hide sets from a later quantum computer.
    fn stays_hidden(&self, registry: &Registry) -> bool {
        let protocol = registry.get(&self.terms.protocol);
        let post_quantum = protocol.map(|protocol| protocol.spec().post_quantum);
        match post_quantum {
            Some(PostQuantum::Always) => true,
            Some(PostQuantum::OnRequest) => self.terms.post_quantum,
            Some(PostQuantum::Never) | None => false,
        }
    }

    /// Why it does not fit a purpose, for which this must have been shown.
    fn misfit(&self, purpose: &Purpose<'_>, attested: Option<&str>) -> Option<Misfit> {
        let items = purpose.items;
        let terms = &self.terms;
        let own_size = match purpose.role {
            Role::Receiver => terms.receiver_size,
            Role::Sender => terms.sender_size,
        };
        if !self.is_own {
            Some(Misfit::OtherIdentity)
        } else if self.is_used {
            Some(Misfit::Used)
        } else if self.role != purpose.role {
            Some(Misfit::Role(self.role))
        } else if purpose.peer != Some(self.peer) {
            Some(Misfit::Peer(self.peer))
        } else if *purpose.protocol != ProtocolRequest::named(&terms.protocol) {
            Some(Misfit::Protocol(terms.protocol.clone()))
        } else if self.is_of_one_dealer(purpose.registry) {
            Some(Misfit::OneDealer)
        } else if purpose.lambda != terms.lambda {
            Some(Misfit::Lambda(terms.lambda))
        } else if purpose.key_bits != terms.key_bits {
            Some(Misfit::KeyBits(terms.key_bits))
        } else if purpose.post_quantum && !self.stays_hidden(purpose.registry) {
            Some(Misfit::Classical)
        } else if items > own_size {
            Some(Misfit::Size {
                most: own_size,
                items,
            })
        } else if terms.layout(purpose.registry).as_ref() != Some(&self.layout) {
            Some(Misfit::Version)
        } else if !self.was_shown(attested) {
            Some(Misfit::Attested(self.attested.clone()))
        } else {
            None
        }
    }
}
