//! The contract: the job as each side understands it, and what both agree to.
//!
//! Each side says in its [`Hello`] what it wants. Each compares both hellos by itself and arrives at the same
//! [`Contract`], or at the same first field that differs. The version of the handshake is raised whenever a
//! value is added to one of the types here, so that an unknown value never comes from an honest peer of the
//! same version.

use std::fmt;

use serde::{Deserialize, Serialize};
use vesica_files::many;
use vesica_plan::buckets::{self, MAX_BUCKETS};
use vesica_plan::{Open, Registry};
use vesica_psi::{KeyAgreement, Protocol, Reveal, Security, StringBytes, Task, lambda_each};
use vesica_wire::{Error as WireError, Kind, Limit, is_hidden};

use crate::charges::{NoiseRequest, NoiseTerms};
use crate::codec::{Reader, bad, differ, impossible, put_name};
use crate::group_terms::GroupTerms;
use crate::labels::{self, LabelExchange, LabelTerms};
use crate::offers::{self, MAX_OFFERS, Offer};
use crate::parties::Role;
use crate::terms::{
    BUCKET_ATTEMPTS, BUCKETS_AT_ONCE, KEY_BITS, LAMBDA, LEARNS, MIN_SIZE, NORMALIZATION, OPTIMIZE,
    POST_QUANTUM, REVEAL, SECURITY, Term, TermValue, Terms, VERSION,
};
use crate::value::{self, ValueTerms};

/// The first message of each side.
pub(crate) const HELLO: Kind = Kind {
    code: 16,
    name: "hello",
};
/// Longest hello, in bytes.
pub const MAX_HELLO: usize = 32 << 10;
/// The value of [`LocalFacts::memory`] and of [`LocalFacts::max_peer_value_bound`] for no limit.
pub const NO_LIMIT: u64 = u64::MAX;

const MAGIC: [u8; 4] = *b"vs1h";

/// In place of a number of offers: the side wants to use no stored correlations.
const NO_STORE: u8 = u8::MAX;

/// Which protocol a party wants.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolRequest {
    /// Whatever the peer names, or the first of [`Registry::auto`] that both sides' memory suffices for when it names none.
    Auto,
    /// The one of this name.
    Named(String),
}

impl ProtocolRequest {
    /// The protocol of this name.
    pub fn named(name: impl Into<String>) -> ProtocolRequest {
        ProtocolRequest::Named(name.into())
    }
}

impl fmt::Display for ProtocolRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProtocolRequest::Auto => "auto",
            ProtocolRequest::Named(name) => name,
        })
    }
}

/// The first message of each side: the job as it understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The side's part in the job.
    pub role: Role,
    /// The terms that it wants.
    pub terms: Terms,
    /// What is its own.
    pub local: LocalFacts,
}

/// What a side says of itself, which its peer's need not equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFacts {
    /// The protocol that it wants.
    pub protocol: ProtocolRequest,
    /// The columns of values that it has for its items.
    pub values: Vec<ValueTerms>,
    /// The largest bound that it allows for the peer's values, in units; [`NO_LIMIT`] for any.
    pub max_peer_value_bound: u64,
    /// How a receiver divides its keys into groups, if it does.
    pub groups: Option<GroupTerms>,
    /// What it wants to do about labels.
    pub labels: LabelExchange,
    /// The noise that it adds to numbers.
    pub noise: Option<NoiseRequest>,
    /// Whether a side that adds noise pads its set, to the number of items that it says.
    pub is_padded: bool,
    /// Its distinct items, or as many as it pads them to.
    pub items: u64,
    /// Maximum bytes of memory for a run over one bucket on this side; [`NO_LIMIT`] if there is no limit.
    pub memory: u64,
    /// The earlier run that it can resume.
    pub resume: Resume,
    /// The halves of stored correlations that it can use, if it wants to use one.
    pub offline: Option<Vec<Offer>>,
    /// What it wants the answer for: at most [`MAX_PURPOSE`] bytes of printable text.
    pub purpose: String,
}

/// Longest purpose of a run, in bytes.
pub const MAX_PURPOSE: usize = 200;

/// What is wrong with the text of a purpose.
pub(crate) fn purpose_problem(purpose: &str) -> Option<&'static str> {
    if purpose.len() > MAX_PURPOSE {
        Some("more than 200 bytes")
    } else if purpose.contains(is_hidden) {
        Some("characters that cannot be printed")
    } else {
        None
    }
}

/// What a side says of an earlier run that broke off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// It has kept nothing.
    Nothing,
    /// It has kept something, but its set has changed.
    OfAnotherSet,
    /// It can resume with the very same set. By falsely saying so, a dishonest side gains no more than by
    /// bringing another set to any other run.
    After {
        /// Which run: a hash that only its two parties can compute.
        run: [u8; 32],
        /// Buckets that it has finished, at least one.
        buckets: u32,
    },
}

/// Where a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// With the first bucket; this side has kept nothing of an earlier run.
    Afresh,
    /// After this many buckets, which both sides have finished before.
    After(u32),
    /// With the first bucket, although this side has kept something.
    Over(StartOver),
}

/// Why a run starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartOver {
    /// This side's set has changed.
    OwnSet,
    /// The peer's set has changed.
    PeerSet,
    /// The peer has kept nothing.
    PeerKeptNothing,
    /// The peer has kept another run.
    OtherRun,
    /// The contract has changed.
    OtherContract,
    /// A bucket of the earlier run no longer fits into the memory of one of the sides.
    Memory,
    /// Matches of all buckets are opened together, so that no run goes on.
    OpensTogether,
    /// Numbers have noise, and would be opened of other shares with other noise.
    Noise,
}

impl fmt::Display for StartOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartOver::OwnSet => "this side's keys or values have changed",
            StartOver::PeerSet => "the peer's keys or values have changed",
            StartOver::PeerKeptNothing => "the peer has kept nothing of the earlier run",
            StartOver::OtherRun => "the peer has kept another run",
            StartOver::OtherContract => "the contract has changed",
            StartOver::Memory => "a bucket of the earlier run no longer fits into memory",
            StartOver::OpensTogether => "matches of all buckets are opened together",
            StartOver::Noise => "numbers have noise, which is drawn once for each run",
        })
    }
}

/// What both sides have agreed on; the same on both sides, bit for bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contract {
    /// Version of the handshake.
    pub version: u16,
    /// The name of the protocol that runs.
    pub protocol: String,
    /// The adversary that the run withstands.
    pub runs: Security,
    /// The terms.
    #[serde(flatten)]
    pub terms: Terms,
    /// The receiver's columns of values.
    pub receiver_values: Vec<ValueTerms>,
    /// The sender's columns of values.
    pub sender_values: Vec<ValueTerms>,
    /// The groups of the receiver's keys, of each of which it learns numbers, if it divides them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<GroupTerms>,
    /// The noise that the receiver adds to numbers, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receiver_noise: Option<NoiseTerms>,
    /// The noise that the sender adds to numbers, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_noise: Option<NoiseTerms>,
    /// What the sender hands over with each match, or, in a union, with each of its items that the receiver lacks, if it does.
    pub labels: Option<LabelTerms>,
    /// Bytes of the string that the receiver has for each of its items, of which both get shares; 0 if it has none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub receiver_string_bytes: u32,
    /// The same of the sender.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sender_string_bytes: u32,
    /// What the receiver wants the answer for; nothing if it does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver_purpose: String,
    /// The same of the sender.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender_purpose: String,
    /// Number of key columns.
    pub key_columns: u32,
    /// Distinct items of the receiver, or as many as it pads them to.
    pub receiver_size: u64,
    /// Distinct items of the sender, or as many as it pads them to.
    pub sender_size: u64,
    /// Maximum bytes of memory for a run over one bucket on either side; `None` is no limit.
    pub memory: Option<u64>,
    /// Buckets into which both sides divide their items, 1 if they do not; a power of two.
    pub buckets: u32,
    /// Items of the receiver in each bucket, padding included.
    pub receiver_bucket: u64,
    /// Items of the sender in each bucket, padding included.
    pub sender_bucket: u64,
    /// Buckets that both sides have finished in earlier runs; this one begins after them.
    pub resumed_after: u32,
    /// The name of the stored correlations that the run takes, in hexadecimal. Both sides' items are padded to the
    /// sizes for which these are.
    pub offline: Option<String>,
    /// The hash that is bound into every later hash, in hexadecimal.
    pub hash: String,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Hello {
    /// The bytes on the wire: magic, version, then each field; numbers little endian, names preceded by their
    /// length in one byte.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(self.role.code());
        self.terms.put(&mut out);
        let local = &self.local;
        put_name(&mut out, &local.protocol.to_string());
        ValueTerms::put(&local.values, &mut out);
        out.extend_from_slice(&local.max_peer_value_bound.to_le_bytes());
        GroupTerms::put(local.groups.as_ref(), &mut out);
        local.labels.put(&mut out);
        NoiseRequest::put(local.noise.as_ref(), local.is_padded, &mut out);
        out.extend_from_slice(&local.items.to_le_bytes());
        out.extend_from_slice(&local.memory.to_le_bytes());
        match &local.resume {
            Resume::Nothing => out.push(0),
            Resume::OfAnotherSet => out.push(1),
            Resume::After { run, buckets } => {
                out.push(2);
                out.extend_from_slice(run);
                out.extend_from_slice(&buckets.to_le_bytes());
            }
        }
        match &local.offline {
            None => out.push(NO_STORE),
            Some(offers) => {
                out.push(offers.len() as u8);
                offers.iter().for_each(|offer| offer.put(&mut out));
            }
        }
        put_name(&mut out, &local.purpose);
        out
    }

    /// Reads what a peer sent to a side with these terms: at most [`MAX_HELLO`] bytes, every value in its range, nothing
    /// after the last.
    ///
    /// Fails with `PeerMisbehaved`, or with `ContractDiffers` for a peer of another version or with other terms; nothing
    /// more of its hello is read then.
    pub fn decode(bytes: &[u8], ours: &Terms) -> Result<Hello, WireError> {
        if bytes.len() > MAX_HELLO {
            return Err(bad("hello", "too long"));
        }
        let mut reader = Reader::new("hello", bytes);
        if reader.array()? != MAGIC {
            return Err(bad("hello", "not a hello of this program"));
        }
        let version = reader.u16()?;
        if version != VERSION {
            return Err(differ("version", VERSION, version));
        }
        let role = Role::from_code(reader.u8()?)?;
        let hello = Hello {
            role,
            terms: ours.read(&mut reader)?,
            local: LocalFacts::read(&mut reader, role)?,
        };
        reader.end()?;
        Ok(hello)
    }

    /// What both sides agree on, in one bucket, and the protocol; or the first field on which they
    /// differ, in the order of the code below, which is the same on both sides.
    pub(crate) fn agree(
        &self,
        theirs: &Hello,
        registry: &Registry,
    ) -> Result<(Contract, &'static dyn Protocol), WireError> {
        if self.role == theirs.role {
            let problem = format!("both sides are the {}", self.role);
            return Err(impossible("role", problem));
        }
        let terms = self.terms.agree(&theirs.terms)?;
        let protocols = self.protocols(theirs, &terms, registry)?;
        let protocol = protocols[0];
        let (receiver, sender) = match self.role {
            Role::Receiver => (&self.local, &theirs.local),
            Role::Sender => (&theirs.local, &self.local),
        };
        let reveal = terms.get(&REVEAL);
        let values = [&receiver.values[..], &sender.values];
        value::check_values(reveal, values)?;
        for (owner, peer) in [(self, theirs), (theirs, self)] {
            let most = peer.local.max_peer_value_bound;
            if let Some(terms) = owner.local.values.iter().find(|terms| terms.bound > most) {
                let (has, allows) = (terms.to_string(), format!("at most {most} units"));
                return Err(match owner.role == self.role {
                    true => differ("value bound", has, allows),
                    false => differ("value bound", allows, has),
                });
            }
        }
        value::check_size(reveal, values, receiver.items.min(sender.items))?;
        let labels = self.local.labels.agree(&theirs.local.labels)?;
        if labels.is_some() && (!reveal.takes_labels() || protocol.labels_per_item().is_none()) {
            return Err(bad("protocol", "not one that hands over columns"));
        }
        if labels.is_none() && reveal.is_rows() {
            return Err(bad("columns to hand over", "there are none"));
        }
        let strings = [receiver, sender].map(|local| local.labels.string_bytes());
        if strings != [0; 2] && reveal != Reveal::Shares {
            return Err(bad("payloads", "there are no shares of anything"));
        }
        let sizes = [receiver.items, sender.items];
        let offers = [&self.local.offline, &theirs.local.offline].map(Option::as_deref);
        let stored = offers::choose(self.role == Role::Receiver, offers, sizes)?;
        let padded = stored.map_or(sizes, |offer| [offer.receiver_size, offer.sender_size]);
        let mut contract = Contract {
            version: VERSION,
            protocol: protocol.spec().name.to_owned(),
            runs: protocol.spec().runs(terms.get(&SECURITY)),
            receiver_values: receiver.values.clone(),
            sender_values: sender.values.clone(),
            groups: receiver.groups.clone(),
            receiver_noise: None,
            sender_noise: None,
            labels,
            receiver_string_bytes: strings[0],
            sender_string_bytes: strings[1],
            receiver_purpose: receiver.purpose.clone(),
            sender_purpose: sender.purpose.clone(),
            key_columns: terms.get(&NORMALIZATION).len() as u32,
            terms,
            receiver_size: receiver.items,
            sender_size: sender.items,
            memory: Some(receiver.memory.min(sender.memory)).filter(|m| *m != NO_LIMIT),
            buckets: 1,
            receiver_bucket: padded[0],
            sender_bucket: padded[1],
            resumed_after: 0,
            offline: stored.map(|offer| offer.name.to_string()),
            hash: String::new(),
        };
        contract.check_groups()?;
        let noise = [receiver, sender].map(|local| (local.noise.as_ref(), local.is_padded));
        contract.add_noise(noise)?;
        contract.check_noise_of_groups()?;
        let mut fitting = protocols
            .iter()
            .map(|other| (contract.with(*other), *other));
        if let Some(first) = fitting.find(|(contract, other)| contract.fits(*other)) {
            return Ok(first);
        }
        contract.seal();
        Ok((contract, protocol))
    }

    /// The protocol that both want, which must be as secure as both ask for; the best first where they leave it open.
    fn protocols(
        &self,
        theirs: &Hello,
        terms: &Terms,
        registry: &Registry,
    ) -> Result<Vec<&'static dyn Protocol>, WireError> {
        let reveal = terms.get(&REVEAL);
        // A peer of another build may have what this one does not.
        let named = |name: &str| {
            let protocol = registry.get(name);
            protocol.ok_or_else(|| differ("protocol", registry.names(), name))
        };
        let protocols = match (&self.local.protocol, &theirs.local.protocol) {
            (ProtocolRequest::Auto, ProtocolRequest::Auto) => {
                let sizes = match self.role {
                    Role::Receiver => [self.local.items, theirs.local.items],
                    Role::Sender => [theirs.local.items, self.local.items],
                };
                let labels = self.local.labels.agree(&theirs.local.labels);
                registry.auto(&Open {
                    // Of larger sets it is those of a bucket.
                    sizes: sizes.map(|size| size.min(buckets::MAX_BUCKET_ITEMS)),
                    reveal,
                    security: terms.get(&SECURITY),
                    lambda: terms.get(&LAMBDA),
                    exact: terms.get(&KEY_BITS),
                    post_quantum: terms.get(&POST_QUANTUM),
                    has_labels: labels.is_ok_and(|labels| labels.is_some()),
                })
            }
            (ProtocolRequest::Auto, ProtocolRequest::Named(name))
            | (ProtocolRequest::Named(name), ProtocolRequest::Auto) => vec![named(name)?],
            (ProtocolRequest::Named(ours), ProtocolRequest::Named(name)) if ours != name => {
                return Err(differ("protocol", ours, name));
            }
            (_, ProtocolRequest::Named(name)) => vec![named(name)?],
        };
        let protocol = protocols.first();
        let protocol = protocol.ok_or_else(|| bad("reveal", "no protocol reveals it"))?;
        // An honest peer never names a protocol that is weaker than what it asks for, or has another result. Of those that
        // are left open, all or none are as secure.
        if protocol.spec().security < terms.get(&SECURITY) {
            return Err(bad("protocol", "weaker than the security asked for"));
        }
        let agreement = protocol.spec().key_agreement(terms.get(&POST_QUANTUM));
        if agreement.is_none() {
            return Err(bad("protocol", "not one that is post-quantum"));
        }
        if !protocol.can_reveal(reveal) {
            return Err(bad("protocol", "not one for what is to be revealed"));
        }
        Ok(protocols)
    }
}

impl LocalFacts {
    /// Reads what the peer in this role says of itself.
    fn read(reader: &mut Reader<'_>, role: Role) -> Result<LocalFacts, WireError> {
        let protocol = match reader.name("protocol")? {
            "auto" => ProtocolRequest::Auto,
            name => ProtocolRequest::Named(name.to_owned()),
        };
        let values = ValueTerms::read(reader)?;
        let max_peer_value_bound = reader.u64()?;
        let groups = GroupTerms::read(reader)?;
        if groups.is_some() && role == Role::Sender {
            return Err(bad("groups", "of a sender"));
        }
        let labels = LabelExchange::read(reader, role)?;
        let (noise, is_padded) = NoiseRequest::read(reader)?;
        Ok(LocalFacts {
            protocol,
            values,
            max_peer_value_bound,
            groups,
            labels,
            noise,
            is_padded,
            items: reader.u64()?,
            memory: reader.u64()?,
            resume: resume(reader)?,
            offline: offers(reader)?,
            purpose: purpose(reader)?,
        })
    }
}

impl Contract {
    /// The value of a term.
    pub fn get<T: TermValue>(&self, term: &Term<T>) -> T {
        self.terms.get(term)
    }

    /// The values of the receiver and of the sender.
    pub(crate) fn values(&self) -> [&[ValueTerms]; 2] {
        [&self.receiver_values, &self.sender_values]
    }

    /// The values of one side.
    pub(crate) fn values_of(&self, role: Role) -> &[ValueTerms] {
        match role {
            Role::Receiver => &self.receiver_values,
            Role::Sender => &self.sender_values,
        }
    }

    /// The numbers that the receiver learns: the name of each, and its digits after the decimal point.
    pub fn numbers(&self) -> Vec<(String, u8)> {
        let (reveal, values) = (self.get(&REVEAL), self.values());
        let names = reveal.names(value::values(values));
        names
            .into_iter()
            .zip(value::scales(reveal, values))
            .collect()
    }

    /// The hash of the canonical encoding: domain-separated BLAKE3, 32 bytes.
    pub fn digest(&self) -> [u8; 32] {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&self.version.to_le_bytes());
        put_name(&mut out, &self.protocol);
        self.runs.put(&mut out);
        self.terms.put(&mut out);
        for values in self.values() {
            ValueTerms::put(values, &mut out);
        }
        let strings = [self.receiver_string_bytes, self.sender_string_bytes];
        labels::put_agreed(self.labels.as_ref(), strings, &mut out);
        GroupTerms::put(self.groups.as_ref(), &mut out);
        NoiseTerms::put(self.receiver_noise.as_ref(), &mut out);
        NoiseTerms::put(self.sender_noise.as_ref(), &mut out);
        out.extend_from_slice(&self.receiver_size.to_le_bytes());
        out.extend_from_slice(&self.sender_size.to_le_bytes());
        out.extend_from_slice(&self.memory.unwrap_or(NO_LIMIT).to_le_bytes());
        out.extend_from_slice(&self.buckets.to_le_bytes());
        out.extend_from_slice(&self.receiver_bucket.to_le_bytes());
        out.extend_from_slice(&self.sender_bucket.to_le_bytes());
        out.extend_from_slice(&self.resumed_after.to_le_bytes());
        put_name(&mut out, self.offline.as_deref().unwrap_or(""));
        put_name(&mut out, &self.receiver_purpose);
        put_name(&mut out, &self.sender_purpose);
        blake3::derive_key("vesica/1 contract", &out)
    }

    /// Whether it is one of this version, as it was sealed.
    pub fn is_whole(&self) -> bool {
        let digest = blake3::Hash::from_bytes(self.digest());
        self.version == VERSION && self.hash == digest.to_string()
    }

    /// The contract without what may differ between a run and one that resumes it.
    pub(crate) fn of_all_runs(&self) -> Contract {
        Contract {
            memory: None,
            terms: self.terms.of_all_runs(),
            resumed_after: 0,
            receiver_purpose: String::new(),
            sender_purpose: String::new(),
            hash: String::new(),
            ..self.clone()
        }
    }

    /// What this side wants the answer for, and what the peer wants it for.
    pub fn purposes(&self, role: Role) -> [&str; 2] {
        let mut purposes = [&*self.receiver_purpose, &*self.sender_purpose];
        if role == Role::Sender {
            purposes.reverse();
        }
        purposes
    }

    /// What a protocol hears of the contract.
    pub(crate) fn task(&self) -> Task {
        Task {
            reveal: self.get(&REVEAL),
            both: self.get(&LEARNS).is_both(),
            min_size: self.get(&MIN_SIZE),
            values: value::values(self.values()),
            label_bytes: self.labels.as_ref().map_or(0, |terms| terms.bytes as usize),
            string_bytes: StringBytes {
                receiver: self.receiver_string_bytes as usize,
                sender: self.sender_string_bytes as usize,
            },
            optimize: self.get(&OPTIMIZE).choice(),
            parts: self.buckets,
            noise_span: self.span_of_counts(),
            groups: self.groups_of_buckets(),
        }
    }

    /// How the run agrees on the keys of base transfers.
    ///
    /// Fails with `PeerMisbehaved` for a protocol that does not fit the terms, as in a contract that is no result of two hellos.
    pub(crate) fn key_agreement(&self, protocol: &dyn Protocol) -> Result<KeyAgreement, WireError> {
        let agreement = protocol.spec().key_agreement(self.get(&POST_QUANTUM));
        agreement.ok_or_else(|| bad("protocol", "not one that is post-quantum"))
    }

    /// Approximate memory use of a run over these numbers of items, in bytes, on the side that needs more.
    fn working_bytes(&self, protocol: &dyn Protocol, sizes: [u64; 2], lambda: u32) -> u64 {
        let bytes = protocol.working_bytes(&self.task(), sizes, self.get(&KEY_BITS), lambda);
        bytes.saturating_add(self.bytes_of_groups(sizes[0]))
    }

    /// Whether what is revealed are matches, if enough are in all buckets together.
    pub(crate) fn opens_matches(&self) -> bool {
        self.get(&REVEAL) == Reveal::ThresholdMatches
    }

    /// The same with another protocol.
    fn with(&self, protocol: &dyn Protocol) -> Contract {
        let mut contract = Contract {
            protocol: protocol.spec().name.to_owned(),
            runs: protocol.spec().runs(self.get(&SECURITY)),
            ..self.clone()
        };
        contract.seal();
        contract
    }

    /// Bits of statistical security of each attempt at a bucket.
    pub(crate) fn lambda_of_attempt(&self) -> u32 {
        let attempts = self.get(&BUCKET_ATTEMPTS);
        buckets::lambda_of_attempt(self.get(&LAMBDA), self.buckets, attempts)
    }

    /// The most statistical security that the run can have, if it is less than what is agreed.
    pub(crate) fn lambda_problem(&self, protocol: &dyn Protocol) -> Option<u32> {
        let lambda = self.get(&LAMBDA);
        let each = self.lambda_of_attempt();
        let sizes = [self.receiver_bucket, self.sender_bucket];
        let most = protocol.max_lambda(self.get(&REVEAL), sizes, self.get(&KEY_BITS))?;
        (each > most).then(|| most.saturating_sub(each - lambda))
    }

    /// The most items of a side. What a protocol takes at most is for a bucket, so that one that takes the most goes on in
    /// several.
    pub(crate) fn most_items(&self, protocol: &dyn Protocol) -> u64 {
        let most = protocol.spec().max_items;
        match self.offline.is_some() || self.get(&REVEAL).is_ids() {
            false => buckets::most_items(most),
            true => most,
        }
    }

    /// Whether memory and λ suffice for the run. A peer may claim any size; the protocol has a limit.
    fn fits(&self, protocol: &dyn Protocol) -> bool {
        let most = self.most_items(protocol);
        if self.receiver_size > most || self.sender_size > most {
            return false;
        }
        let mut divided = self.clone();
        divided.divide(protocol).is_ok() && divided.lambda_problem(protocol).is_none()
    }

    /// Divides the run into as many buckets as its memory requires.
    ///
    /// Fails with `Resource` if no number is enough.
    pub(crate) fn divide(&mut self, protocol: &dyn Protocol) -> Result<(), WireError> {
        let memory = self.memory.unwrap_or(NO_LIMIT);
        if self.offline.is_some() {
            let sizes = [self.receiver_bucket, self.sender_bucket];
            let bytes = self.working_bytes(protocol, sizes, self.get(&LAMBDA));
            if bytes > memory {
                let reason =
                    format!("{memory} bytes of memory do not suffice for the stored correlations");
                let enough = Some(bytes);
                return Err(WireError::limit(Limit::Memory { enough }, reason));
            }
            self.terms.set(&BUCKETS_AT_ONCE, 1);
            self.seal();
            return Ok(());
        }
        let sizes = [self.receiver_size, self.sender_size];
        let (lambda, attempts) = (self.get(&LAMBDA), self.get(&BUCKET_ATTEMPTS));
        let working_bytes =
            |sizes, lambda| self.working_bytes(protocol, sizes, lambda_each(lambda, attempts));
        let most = protocol.spec().max_items;
        let split = buckets::split(sizes, lambda, memory, most, working_bytes);
        let split = split.ok_or_else(|| {
            let enough = match self.get(&REVEAL).is_ids() {
                true => Some(working_bytes(sizes, lambda)),
                false => buckets::least_memory(sizes, lambda, most, working_bytes),
            };
            WireError::limit(
                Limit::Memory { enough },
                format!(
                    "a bucket has {memory} bytes of memory, which do not suffice for {} of the receiver and {} of the sender",
                    many(sizes[0], "item"), sizes[1]
                ),
            )
        })?;
        // An id that comes with a bucket tells of its key, whose hash says in which bucket it is.
        if split.buckets > 1 && self.get(&REVEAL).is_ids() {
            let enough = Some(working_bytes(sizes, lambda));
            let reason = format!(
                "ids are for whole sets, and {memory} bytes of memory, the less that a side has for them, do not suffice for {} \
                 of the receiver and {} of the sender",
                many(sizes[0], "item"),
                sizes[1]
            );
            return Err(WireError::limit(Limit::Memory { enough }, reason));
        }
        let at_once = match split.buckets {
            1 => 1,
            _ => self.get(&BUCKETS_AT_ONCE),
        };
        // With one at once there is a way, which is the first.
        let (split, at_once) = halved(at_once)
            .find_map(|at_once| {
                let memory = memory / u64::from(at_once);
                let split = buckets::split(sizes, lambda, memory, most, working_bytes)?;
                Some((split, at_once))
            })
            .unwrap_or((split, 1));
        self.buckets = split.buckets;
        self.receiver_bucket = split.receiver;
        self.sender_bucket = split.sender;
        self.terms.set(&BUCKETS_AT_ONCE, at_once.min(split.buckets));
        self.seal();
        Ok(())
    }

    /// Divides the run as an earlier one was, and begins after the buckets that both finished then.
    pub(crate) fn go_on(
        &mut self,
        protocol: &dyn Protocol,
        earlier: &Contract,
        buckets: u32,
    ) -> Result<(), StartOver> {
        let mut resumed = Contract {
            buckets: earlier.buckets,
            receiver_bucket: earlier.receiver_bucket,
            sender_bucket: earlier.sender_bucket,
            resumed_after: buckets,
            ..self.clone()
        };
        if resumed.of_all_runs() != earlier.of_all_runs() {
            return Err(StartOver::OtherContract);
        }
        let sizes = [resumed.receiver_bucket, resumed.sender_bucket];
        let bytes = self.working_bytes(protocol, sizes, resumed.lambda_of_attempt());
        let memory = self.memory.unwrap_or(NO_LIMIT);
        let fit = |at_once: &u32| bytes.saturating_mul(u64::from(*at_once)) <= memory;
        let mut at_once = halved(self.get(&BUCKETS_AT_ONCE));
        let at_once = at_once.find(fit).ok_or(StartOver::Memory)?;
        let left = (resumed.buckets - buckets).max(1);
        resumed.terms.set(&BUCKETS_AT_ONCE, at_once.min(left));
        *self = resumed;
        self.seal();
        Ok(())
    }

    /// The half of stored correlations that the run takes.
    pub(crate) fn offer(&self) -> Option<Offer> {
        Some(Offer {
            name: self.offline.as_ref()?.parse().ok()?,
            receiver_size: self.receiver_bucket,
            sender_size: self.sender_bucket,
        })
    }

    fn seal(&mut self) {
        self.hash = blake3::Hash::from_bytes(self.digest()).to_string();
    }
}

/// A number, half of it and so on, down to 1.
fn halved(number: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(number), |number| {
        Some(number / 2).filter(|half| *half > 0)
    })
}

fn resume(reader: &mut Reader<'_>) -> Result<Resume, WireError> {
    let bad = |problem| Err(bad("earlier run", problem));
    match reader.u8()? {
        0 => Ok(Resume::Nothing),
        1 => Ok(Resume::OfAnotherSet),
        2 => match (reader.array()?, reader.u32()?) {
            (_, 0) => bad("no bucket is finished"),
            (_, buckets) if buckets > MAX_BUCKETS => bad("more buckets than there can be"),
            (run, buckets) => Ok(Resume::After { run, buckets }),
        },
        _ => bad("unknown code"),
    }
}

fn purpose(reader: &mut Reader<'_>) -> Result<String, WireError> {
    let purpose = reader.text("purpose")?;
    match purpose_problem(purpose) {
        Some(problem) => Err(bad("purpose", problem)),
        None => Ok(purpose.to_owned()),
    }
}

fn offers(reader: &mut Reader<'_>) -> Result<Option<Vec<Offer>>, WireError> {
    match reader.u8()? {
        NO_STORE => Ok(None),
        count if usize::from(count) > MAX_OFFERS => {
            Err(bad("number of stored correlations", "out of range"))
        }
        count => (0..count)
            .map(|_| Offer::read(reader))
            .collect::<Result<_, _>>()
            .map(Some),
    }
}
