//! The contract: the job as each side understands it, and what both agree to.
//!
//! Each side says in its [`Hello`] what it wants. Each compares both hellos by itself and arrives at the same
//! [`Contract`], or at the same first field that differs. The version of the handshake is raised whenever a
//! value is added to one of the types here, so that an unknown value never comes from an honest peer of the
//! same version.

use std::fmt;

use serde::{Deserialize, Serialize};
use vesica_plan::Registry;
use vesica_psi::{Favour, Protocol, Reveal, Security};
use vesica_wire::{Error as WireError, Kind, Limit};

use crate::buckets::{self, MAX_BUCKETS};
use crate::codec::{Reader, bad, differ, put_name};
use crate::labels::{self, Handover, LabelTerms};
use crate::offers::{self, MAX_OFFERS, Name, Offer};
use crate::parties::{Learns, Role};
use crate::value::{self, ValueTerms};

/// Version of the handshake and of everything after it.
pub const VERSION: u16 = 12;
/// The first message of each side.
pub(crate) const HELLO: Kind = Kind {
    code: 16,
    name: "hello",
};
/// Longest hello, in bytes.
pub const MAX_HELLO: usize = 32 << 10;
/// Maximum number of key columns of a job.
pub const MAX_KEY_COLUMNS: usize = 64;
/// Longest name of a normalisation, in bytes.
pub const MAX_NORMALIZATION: usize = 128;
/// Computational security of everything here, in bits.
pub const KAPPA: u32 = 128;

/// The value of [`Hello::memory`] and of [`Hello::max_peer_value_bound`] for no limit.
pub const NO_LIMIT: u64 = u64::MAX;

const MAGIC: [u8; 4] = *b"vs1h";

/// In place of a number of offers: the side wants to use no stored correlations.
const NO_STORE: u8 = u8::MAX;

/// Which protocol a party wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolRequest {
    /// Whatever the peer names, or [`Registry::auto`] when it names none.
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
    /// The protocol that it wants.
    pub protocol: ProtocolRequest,
    /// The weakest security that it accepts.
    pub security: Security,
    /// Computational security in bits.
    pub kappa: u32,
    /// Statistical security in bits.
    pub lambda: u32,
    /// What the receiver learns.
    pub reveal: Reveal,
    /// Who gets the result.
    pub learns: Learns,
    /// The receiver learns a value only if at least this many items match.
    pub min_size: u64,
    /// What it would rather save.
    pub favour: Favour,
    /// The values that it has for its items, if it has some.
    pub values: Option<ValueTerms>,
    /// The largest bound that it allows for the peer's values, in units; [`NO_LIMIT`] for any.
    pub max_peer_value_bound: u64,
    /// What it wants to do about labels.
    pub labels: Handover,
    /// Name and version of the normalisation of each key column, in order, as in `email/1`.
    pub normalization: Vec<String>,
    /// The bits of keys that are numbers of a declared width.
    pub key_bits: Option<u32>,
    /// Distinct items of this side.
    pub items: u64,
    /// Maximum bytes of memory for a run over one bucket on this side; [`NO_LIMIT`] if there is no limit.
    pub memory: u64,
    /// The earlier run that this side can resume.
    pub resume: Resume,
    /// The halves of stored correlations that it can use, if it wants to use one.
    pub offline: Option<Vec<Offer>>,
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
}

impl fmt::Display for StartOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StartOver::OwnSet => "this side's keys have changed",
            StartOver::PeerSet => "the peer's keys have changed",
            StartOver::PeerKeptNothing => "the peer has kept nothing of the earlier run",
            StartOver::OtherRun => "the peer has kept another run",
            StartOver::OtherContract => "the contract has changed",
            StartOver::Memory => "a bucket of the earlier run no longer fits into memory",
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
    /// The security that both asked for.
    pub security: Security,
    /// The adversary that the run withstands.
    pub runs: Security,
    /// Computational security in bits.
    pub kappa: u32,
    /// Statistical security in bits.
    pub lambda: u32,
    /// What the receiver learns.
    pub reveal: Reveal,
    /// Who gets the result.
    pub learns: Learns,
    /// The receiver learns a value only if at least this many items match.
    pub min_size: u64,
    /// What the run saves where the protocol can choose: traffic if either side favours that.
    pub favour: Favour,
    /// The receiver's values, if it has some.
    pub receiver_values: Option<ValueTerms>,
    /// The sender's values, if it has some.
    pub sender_values: Option<ValueTerms>,
    /// What the sender hands over with each match, if it does.
    pub labels: Option<LabelTerms>,
    /// Number of key columns.
    pub key_columns: u32,
    /// Name and version of the normalisation of each key column, in order.
    pub normalization: Vec<String>,
    /// The bits of keys that are numbers of a declared width, 1 to 64.
    pub key_bits: Option<u32>,
    /// Distinct items of the receiver.
    pub receiver_size: u64,
    /// Distinct items of the sender.
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

impl Hello {
    /// The bytes on the wire: magic, version, then each field; numbers little endian, names preceded by their
    /// length in one byte.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(self.role.code());
        put_name(&mut out, &self.protocol.to_string());
        out.push(security_code(self.security));
        out.extend_from_slice(&self.kappa.to_le_bytes());
        out.extend_from_slice(&self.lambda.to_le_bytes());
        out.push(self.reveal.code());
        out.push(self.learns.code());
        out.extend_from_slice(&self.min_size.to_le_bytes());
        out.push(favour_code(self.favour));
        ValueTerms::put(self.values, &mut out);
        out.extend_from_slice(&self.max_peer_value_bound.to_le_bytes());
        self.labels.put(&mut out);
        put_names(&mut out, &self.normalization);
        out.push(self.key_bits.unwrap_or(0) as u8);
        out.extend_from_slice(&self.items.to_le_bytes());
        out.extend_from_slice(&self.memory.to_le_bytes());
        match &self.resume {
            Resume::Nothing => out.push(0),
            Resume::OfAnotherSet => out.push(1),
            Resume::After { run, buckets } => {
                out.push(2);
                out.extend_from_slice(run);
                out.extend_from_slice(&buckets.to_le_bytes());
            }
        }
        match &self.offline {
            None => out.push(NO_STORE),
            Some(offers) => {
                out.push(offers.len() as u8);
                offers.iter().for_each(|offer| offer.put(&mut out));
            }
        }
        out
    }

    /// Reads what a peer sent: at most [`MAX_HELLO`] bytes, every value in its range, nothing
    /// after the last.
    ///
    /// Fails with `PeerMisbehaved`, or with `ContractDiffers` for a peer of another version; nothing more of
    /// its hello is read then.
    pub fn decode(bytes: &[u8]) -> Result<Hello, WireError> {
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
            protocol: match reader.name("protocol")? {
                "auto" => ProtocolRequest::Auto,
                name => ProtocolRequest::Named(name.to_owned()),
            },
            security: match reader.u8()? {
                1 => Security::SemiHonest,
                2 => Security::Malicious,
                _ => return Err(bad("security", "unknown code")),
            },
            kappa: bits("kappa", reader.u32()?)?,
            lambda: bits("lambda", reader.u32()?)?,
            reveal: Reveal::from_code(reader.u8()?).ok_or_else(|| bad("reveal", "unknown code"))?,
            learns: Learns::from_code(reader.u8()?)?,
            min_size: reader.u64()?,
            favour: match reader.u8()? {
                1 => Favour::Time,
                2 => Favour::Traffic,
                _ => return Err(bad("favour", "unknown code")),
            },
            values: ValueTerms::read(&mut reader)?,
            max_peer_value_bound: reader.u64()?,
            labels: Handover::read(&mut reader, role)?,
            normalization: names(&mut reader)?,
            key_bits: match reader.u8()? {
                0 => None,
                bits @ 1..=64 => Some(bits.into()),
                _ => return Err(bad("bits of a key", "out of range")),
            },
            items: reader.u64()?,
            memory: reader.u64()?,
            resume: resume(&mut reader)?,
            offline: offers(&mut reader)?,
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
            return Err(differ("role", self.role, theirs.role));
        }
        same("reveal", self.reveal, theirs.reveal)?;
        let protocol = self.protocol(theirs, registry)?;
        same("kappa", self.kappa, theirs.kappa)?;
        same("lambda", self.lambda, theirs.lambda)?;
        same("who learns", self.learns, theirs.learns)?;
        same("minimum size", self.min_size, theirs.min_size)?;
        same(
            "number of key columns",
            self.normalization.len(),
            theirs.normalization.len(),
        )?;
        same(
            "normalization",
            self.normalization.join(","),
            theirs.normalization.join(","),
        )?;
        let in_words = |bits: Option<u32>| bits.map_or("any".into(), |bits| bits.to_string());
        same(
            "bits of a key",
            in_words(self.key_bits),
            in_words(theirs.key_bits),
        )?;
        let (receiver, sender) = match self.role {
            Role::Receiver => (self, theirs),
            Role::Sender => (theirs, self),
        };
        let values = [receiver.values, sender.values];
        if !self.reveal.fits(value::owners(values)) {
            let in_words = value::in_words;
            return Err(differ(
                "values",
                in_words(self.values),
                in_words(theirs.values),
            ));
        }
        for (owner, peer) in [(receiver, sender), (sender, receiver)] {
            let most = peer.max_peer_value_bound;
            if let Some(terms) = owner.values.filter(|terms| terms.bound > most) {
                let (has, allows) = (terms.to_string(), format!("at most {most} units"));
                return Err(match owner.role == self.role {
                    true => differ("value bound", has, allows),
                    false => differ("value bound", allows, has),
                });
            }
        }
        value::check_size(self.reveal, values, receiver.items.min(sender.items))?;
        let labels = self.labels.agree(&theirs.labels)?;
        if labels.is_some()
            && (self.reveal != Reveal::Matches || protocol.labels_per_item().is_none())
        {
            return Err(bad("protocol", "not one that hands over columns"));
        }
        let sizes = [receiver.items, sender.items];
        let offers = [&self.offline, &theirs.offline].map(Option::as_deref);
        let stored = offers::choose(self.role == Role::Receiver, offers, sizes)?;
        let padded = stored.map_or(sizes, |offer| [offer.receiver_size, offer.sender_size]);
        let mut contract = Contract {
            version: VERSION,
            protocol: protocol.spec().name.to_owned(),
            security: self.security,
            runs: protocol.spec().runs(self.security),
            kappa: self.kappa,
            lambda: self.lambda,
            reveal: self.reveal,
            learns: self.learns,
            min_size: self.min_size,
            favour: match [self.favour, theirs.favour].contains(&Favour::Traffic) {
                true => Favour::Traffic,
                false => Favour::Time,
            },
            receiver_values: receiver.values,
            sender_values: sender.values,
            labels,
            key_columns: self.normalization.len() as u32,
            normalization: self.normalization.clone(),
            key_bits: self.key_bits,
            receiver_size: receiver.items,
            sender_size: sender.items,
            memory: Some(self.memory.min(theirs.memory)).filter(|m| *m != NO_LIMIT),
            buckets: 1,
            receiver_bucket: padded[0],
            sender_bucket: padded[1],
            resumed_after: 0,
            offline: stored.map(|offer| offer.name.to_string()),
            hash: String::new(),
        };
        contract.seal();
        Ok((contract, protocol))
    }

    /// The protocol that both want, which must be as secure as both ask for.
    fn protocol(
        &self,
        theirs: &Hello,
        registry: &Registry,
    ) -> Result<&'static dyn Protocol, WireError> {
        same("security", self.security.name(), theirs.security.name())?;
        // A peer of another build may have what this one does not.
        let named = |name: &str| {
            let protocol = registry.get(name);
            protocol.ok_or_else(|| differ("protocol", registry.names(), name))
        };
        let protocol = match (&self.protocol, &theirs.protocol) {
            (ProtocolRequest::Auto, ProtocolRequest::Auto) => {
                let (receiver, sender) = match self.role {
                    Role::Receiver => (self.items, theirs.items),
                    Role::Sender => (theirs.items, self.items),
                };
                let protocol = registry.auto(self.reveal, receiver, sender);
                protocol.ok_or_else(|| bad("reveal", "no protocol reveals it"))?
            }
            (ProtocolRequest::Auto, ProtocolRequest::Named(name))
            | (ProtocolRequest::Named(name), ProtocolRequest::Auto) => named(name)?,
            (ProtocolRequest::Named(ours), ProtocolRequest::Named(name)) => {
                same("protocol", ours, name)?;
                named(name)?
            }
        };
        // An honest peer never names a protocol that is weaker than what it asks for, or has another result.
        if protocol.spec().security < self.security {
            return Err(bad("protocol", "weaker than the security asked for"));
        }
        if !protocol.reveals().contains(&self.reveal) {
            return Err(bad("protocol", "not one for what is to be revealed"));
        }
        Ok(protocol)
    }
}

impl Contract {
    /// The values of the receiver and of the sender.
    pub(crate) fn values(&self) -> [Option<ValueTerms>; 2] {
        [self.receiver_values, self.sender_values]
    }

    /// The values of one side.
    pub(crate) fn values_of(&self, role: Role) -> Option<ValueTerms> {
        match role {
            Role::Receiver => self.receiver_values,
            Role::Sender => self.sender_values,
        }
    }

    /// Digits after the decimal point of the value that the receiver learns.
    pub fn value_scale(&self) -> u8 {
        value::scale(self.reveal, self.values())
    }

    /// The hash of the canonical encoding: domain-separated BLAKE3, 32 bytes.
    pub fn digest(&self) -> [u8; 32] {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&self.version.to_le_bytes());
        put_name(&mut out, &self.protocol);
        out.push(security_code(self.security));
        out.push(security_code(self.runs));
        out.extend_from_slice(&self.kappa.to_le_bytes());
        out.extend_from_slice(&self.lambda.to_le_bytes());
        out.push(self.reveal.code());
        out.push(self.learns.code());
        out.extend_from_slice(&self.min_size.to_le_bytes());
        out.push(favour_code(self.favour));
        for values in self.values() {
            ValueTerms::put(values, &mut out);
        }
        labels::put_agreed(self.labels.as_ref(), &mut out);
        put_names(&mut out, &self.normalization);
        out.push(self.key_bits.unwrap_or(0) as u8);
        out.extend_from_slice(&self.receiver_size.to_le_bytes());
        out.extend_from_slice(&self.sender_size.to_le_bytes());
        out.extend_from_slice(&self.memory.unwrap_or(NO_LIMIT).to_le_bytes());
        out.extend_from_slice(&self.buckets.to_le_bytes());
        out.extend_from_slice(&self.receiver_bucket.to_le_bytes());
        out.extend_from_slice(&self.sender_bucket.to_le_bytes());
        out.extend_from_slice(&self.resumed_after.to_le_bytes());
        put_name(&mut out, self.offline.as_deref().unwrap_or(""));
        blake3::derive_key("vesica/1 contract", &out)
    }

    /// The contract without what may differ between a run and one that resumes it.
    pub(crate) fn of_all_runs(&self) -> Contract {
        Contract {
            memory: None,
            // Of runs without buckets alone.
            favour: Favour::Time,
            resumed_after: 0,
            hash: String::new(),
            ..self.clone()
        }
    }

    /// Bytes of a label that the sender hands over with each match; 0 if it does not.
    pub(crate) fn label_bytes(&self) -> usize {
        self.labels.as_ref().map_or(0, |terms| terms.bytes as usize)
    }

    /// Approximate memory use of a run over these numbers of items, in bytes, on the side that needs more.
    fn working_bytes(&self, protocol: &dyn Protocol, sizes: [u64; 2], lambda: u32) -> u64 {
        let bytes = protocol
            .spec()
            .working_bytes_of(sizes, self.key_bits, lambda);
        let Some(copies) = protocol.labels_per_item().filter(|_| self.labels.is_some()) else {
            return bytes;
        };
        // For each mask another one with the item's number, or a rank. The sender picks its labels and pads them; the
        // receiver keeps all encrypted ones, and decrypts one for each of its items.
        let [receiver, sender] = sizes;
        let label = self.label_bytes() as u64;
        let encrypted = sender.saturating_mul(copies.saturating_mul(label));
        let of_receiver = receiver
            .saturating_mul(label + 56)
            .saturating_add(encrypted);
        let of_sender = sender.saturating_mul(2 * label + copies.saturating_mul(40));
        bytes.saturating_add(of_receiver.max(of_sender))
    }

    /// Divides the run into as many buckets as its memory requires.
    ///
    /// Fails with `Resource` if no number is enough.
    pub(crate) fn divide(&mut self, protocol: &dyn Protocol) -> Result<(), WireError> {
        let memory = self.memory.unwrap_or(NO_LIMIT);
        if self.offline.is_some() {
            let sizes = [self.receiver_bucket, self.sender_bucket];
            let bytes = self.working_bytes(protocol, sizes, self.lambda);
            if bytes > memory {
                let reason =
                    format!("{memory} bytes of memory are too few for the stored correlations");
                let enough = Some(bytes);
                return Err(WireError::limit(Limit::Memory { enough }, reason));
            }
            self.seal();
            return Ok(());
        }
        let sizes = [self.receiver_size, self.sender_size];
        let working_bytes = |sizes, lambda| self.working_bytes(protocol, sizes, lambda);
        let split = buckets::split(sizes, self.lambda, memory, working_bytes);
        let split = split.ok_or_else(|| {
            let enough = match self.reveal {
                Reveal::Matches => buckets::least_memory(sizes, self.lambda, working_bytes),
                // Only matches are found bucket by bucket.
                _ => Some(working_bytes(sizes, self.lambda)),
            };
            WireError::limit(
                Limit::Memory { enough },
                format!(
                    "{memory} bytes of memory for a bucket are too few for {} and {} items",
                    sizes[0], sizes[1]
                ),
            )
        })?;
        self.buckets = split.buckets;
        self.receiver_bucket = split.receiver;
        self.sender_bucket = split.sender;
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
        let resumed = Contract {
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
        let lambda = buckets::lambda_of_bucket(self.lambda, resumed.buckets);
        if self.working_bytes(protocol, sizes, lambda) > self.memory.unwrap_or(NO_LIMIT) {
            return Err(StartOver::Memory);
        }
        *self = resumed;
        self.seal();
        Ok(())
    }

    /// The stored correlations that the run takes.
    pub(crate) fn offline(&self) -> Option<Name> {
        self.offline.as_ref()?.parse().ok()
    }

    fn seal(&mut self) {
        self.hash = blake3::Hash::from_bytes(self.digest()).to_string();
    }
}

fn security_code(security: Security) -> u8 {
    match security {
        Security::SemiHonest => 1,
        Security::Malicious => 2,
    }
}

fn favour_code(favour: Favour) -> u8 {
    match favour {
        Favour::Time => 1,
        Favour::Traffic => 2,
    }
}

fn put_names(out: &mut Vec<u8>, names: &[String]) {
    out.push(names.len() as u8);
    for name in names {
        put_name(out, name);
    }
}

fn names(reader: &mut Reader<'_>) -> Result<Vec<String>, WireError> {
    let count = usize::from(reader.u8()?);
    if count == 0 || count > MAX_KEY_COLUMNS {
        return Err(bad("number of key columns", "out of range"));
    }
    let mut names = Vec::with_capacity(count);
    for _ in 0..count {
        let name = reader.name("normalization")?;
        if name.is_empty() || name.len() > MAX_NORMALIZATION {
            return Err(bad("normalization", "a name of a wrong length"));
        }
        names.push(name.to_owned());
    }
    Ok(names)
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

fn bits(what: &'static str, bits: u32) -> Result<u32, WireError> {
    if (1..=256).contains(&bits) {
        Ok(bits)
    } else {
        Err(bad(what, "out of range"))
    }
}

fn same<T: PartialEq + fmt::Display>(
    field: &'static str,
    ours: T,
    theirs: T,
) -> Result<(), WireError> {
    if ours == theirs {
        Ok(())
    } else {
        Err(differ(field, ours, theirs))
    }
}
