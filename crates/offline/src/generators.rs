//! Two generators in trusted execution environments (TEEs), one at each party, that make a pair of halves of a seed which
//! nobody else knows (KBM23, section IV-B). What passes between them does not grow with the pair: two requests, two public
//! keys and two reports.
//!
//! 1. Each party asks its own generator, over TLS between pinned identities, for its half: a [`DealerRequest`] with role,
//!    terms, the other party's fingerprint and a fresh nonce.
//! 2. Each generator draws an X25519 key pair for this pair alone and sends the other its *share*: the public key, the
//!    fingerprints of its party and of itself, and its party's request. The receiver's adds an encapsulation key of
//!    ML-KEM-768, of this pair alone too. Both compare the requests, and the sender's answers with a *ciphertext* to that key.
//! 3. The *transcript* is a hash of both shares, the receiver's first, and of the ciphertext. Each generator has its hardware
//!    sign a report over a hash of its role and the transcript, and hands it to the other.
//! 4. The seed is a hash of both secrets, that of X25519 and that of ML-KEM, and of the transcript. A generator expands it to
//!    the half of its role, and releases that to its party alone, along with the shares, the ciphertext and both reports.
//! 5. The party recomputes the transcript and checks both reports against the measurements that it expects, before it takes
//!    its half. The generators check no report: they would have to be told by their hosts what to expect.
//!
//! **Why a host learns nothing but its own half.** An honest party takes a half only if both reports are genuine, of the
//! expected software, and over one transcript. So two TEEs run this module. Each has drawn one of the two keys of X25519, one
//! has drawn the key of ML-KEM and the other the ciphertext, and each has taken the other's messages for what they are. The
//! secrets are theirs, and everything else that either releases is the half of
//! the role in its report, to the party in the transcript. The private keys and the seed are in memory that the hardware
//! keeps from the host; they are wiped, and never written.
//!
//! **What a host can try.** To *replay* a share, a report or a whole connection to a generator: the honest party's nonce
//! and its generator's fresh key are in the transcript, so that no old report is over it. To *restart* its generator, or to
//! run several, on the same messages of the other side: each draws a key of its own, so that their seeds have nothing in
//! common, and one that never drew this key cannot make the other half of this seed. To *swap* roles, parties, sizes or
//! generators: all are in the transcript, and the role is in the report once more. To stand between the generators with
//! keys of identities that leaked: it would need a report over a transcript that no generator has seen. To let its own
//! generator *roll back* to a moment before it handed out a half: a generator serves one pair and ends, and the hardware has
//! to refuse snapshots of a running TEE, which the verifiers see to (no debugging; no migration agent for SEV-SNP, no
//! migratable domain and no service domain for TDX). To *try again* until it likes its own half: it is uniform each time,
//! and chosen before anything of the run is.
//!
//! **Assumptions.** X25519 or ML-KEM-768 is secret against the parties themselves for good: each has the transcript, so
//! that the seed, found years later, would give it the other half, and with a recording of the run the other side's
//! items. A discrete logarithm alone does not give the seed. All keys come from the guest kernel's random numbers. What
//! the image is given at run time (addresses, `--peer`, `--party`, the identity) is in the transcript or harmless; an
//! image must take no other options from outside. (The command refuses core dumps.)

use chacha20::ChaCha20Rng;
use curve25519_dalek::MontgomeryPoint;
use rand_core::SeedableRng;
use vesica_primitives::kem::{self, DecapsulationKey};
use vesica_psi::Origin;
use vesica_session::codec::{Reader, bad, differ};
use vesica_session::{Connection, Fingerprint, Registry, Role};
use vesica_wire::{Channel, Error as WireError, Kind, Limit, recv_exact};
use zeroize::{Zeroize, Zeroizing};

use crate::attestation::{Attester, EVIDENCE, Evidence, Expected, MAX_EVIDENCE};
use crate::claims::ReportData;
use crate::handing::{
    Failed, check_evidence, check_origin, hand_out, hear_stored, no_identity, peer_of, say_stored,
};
use crate::random::fill;
use crate::request::{DealerRequest, MAX_REQUEST, REQUEST};
use crate::{Attested, Error, OfflineTerms};

/// What a generator contributes to a pair.
pub(crate) const SHARE: Kind = Kind {
    code: 28,
    name: "share of a generator",
};

/// A ciphertext to the encapsulation key of the receiver's generator.
pub(crate) const CIPHERTEXT: Kind = Kind {
    code: 68,
    name: "ciphertext of a generator",
};

/// Bytes of a ciphertext.
pub(crate) const CIPHERTEXT_BYTES: usize = 1088;
/// Bytes of an encapsulation key.
const ENCAPSULATION_KEY: usize = 1184;
/// Longest share, in bytes.
const MAX_SHARE: usize = 3 * 32 + 2 + ENCAPSULATION_KEY + MAX_REQUEST;

/// What a generator contributes to a pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The u-coordinate of a point on Curve25519, of this pair alone.
    pub public: [u8; 32],
    /// Who gets the generator's half.
    pub party: Fingerprint,
    /// The generator.
    pub generator: Fingerprint,
    /// An encapsulation key of ML-KEM-768 of this pair alone, from the receiver's generator.
    pub encapsulation_key: Vec<u8>,
    /// What that party has asked for, as it came.
    pub request: Vec<u8>,
}

impl Share {
    /// The message: public key, party, generator, the length of the encapsulation key in two bytes, little endian, that key,
    /// request.
    pub fn encode(&self) -> Vec<u8> {
        let (party, generator) = (self.party.as_bytes(), self.generator.as_bytes());
        let (key, request) = (&self.encapsulation_key, &self.request);
        let length = (key.len() as u16).to_le_bytes();
        [&self.public[..], party, generator, &length, key, request].concat()
    }

    /// Reads such a message, whatever the request in it is.
    ///
    /// # Errors
    /// Misbehaviour: fewer bytes than those before a request, or an encapsulation key of another length.
    pub fn decode(bytes: &[u8]) -> Result<Share, WireError> {
        let mut reader = Reader::new(SHARE.name, bytes);
        let public = reader.array()?;
        let [party, generator] = [reader.array()?, reader.array()?].map(Fingerprint::from_bytes);
        let length = usize::from(reader.u16()?);
        if ![0, ENCAPSULATION_KEY].contains(&length) {
            return Err(bad(SHARE.name, "an encapsulation key of another length"));
        }
        let encapsulation_key = reader.bytes(length)?.to_vec();
        Ok(Share {
            public,
            party,
            generator,
            encapsulation_key,
            request: reader.rest().to_vec(),
        })
    }

    fn recv(channel: &mut dyn Channel) -> Result<Share, WireError> {
        Share::decode(&channel.recv(SHARE, MAX_SHARE)?)
    }

    /// Checks that another generator's share is the other half of the same pair.
    ///
    /// Fails with `PeerMisbehaved` for a request that is none, else with `ContractDiffers`.
    fn fits(&self, ours: &DealerRequest, theirs: &Share) -> Result<(), WireError> {
        let request = DealerRequest::decode(&theirs.request)?;
        if request.role != ours.role.other() {
            return Err(differ("role", ours.role.other(), request.role));
        }
        ours.fits(&request)?;
        for (expected, got) in [(theirs.party, ours.peer), (self.party, request.peer)] {
            if expected != got {
                return Err(differ("other party", expected, got));
            }
        }
        if request.layout != ours.layout {
            let (ours, theirs) = (&ours.layout, &request.layout);
            return Err(differ("layout of the halves", ours, theirs));
        }
        for (share, role) in [(self, ours.role), (theirs, request.role)] {
            if share.encapsulation_key.is_empty() != (role == Role::Sender) {
                return Err(bad(SHARE.name, "not what its role has"));
            }
        }
        let all = [self.party, self.generator, theirs.party, theirs.generator];
        match (0..4).any(|i| all[..i].contains(&all[i])) {
            true => Err(bad(SHARE.name, "two of four identities are the same")),
            false => Ok(()),
        }
    }
}

/// The hash of both shares, the receiver's first, and of the ciphertext.
pub(crate) fn transcript(shares: [&Share; 2], ciphertext: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("vesica/1 two attested generators");
    for share in shares {
        let share = share.encode();
        hasher.update(&(share.len() as u64).to_le_bytes());
        hasher.update(&share);
    }
    hasher.update(ciphertext);
    *hasher.finalize().as_bytes()
}

/// The bytes that the report of the generator of this role is made over.
pub(crate) fn report_data(role: Role, transcript: &[u8; 32]) -> ReportData {
    let mut hasher = blake3::Hasher::new_derive_key("vesica/1 attested generator");
    hasher.update(&[role.code()]);
    hasher.update(transcript);
    let mut data = [0; 64];
    hasher.finalize_xof().fill(&mut data);
    data
}

/// A key pair of X25519.
pub(crate) struct Key(pub(crate) Zeroizing<[u8; 32]>);

impl Key {
    pub(crate) fn random() -> Result<Key, WireError> {
        let mut key = Zeroizing::new([0; 32]);
        fill(&mut *key)?;
        Ok(Key(key))
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        MontgomeryPoint::mul_base_clamped(*self.0).to_bytes()
    }

    /// The name of the pair and the seed of both halves, which also depend on the secret of ML-KEM.
    ///
    /// Fails with `PeerMisbehaved` for a point of small order.
    pub(crate) fn agree(
        self,
        theirs: [u8; 32],
        encapsulated: &[u8; 32],
        transcript: &[u8; 32],
    ) -> Result<([u8; 16], Zeroizing<[u8; 32]>), WireError> {
        let secret = Zeroizing::new(MontgomeryPoint(theirs).mul_clamped(*self.0).to_bytes());
        if *secret == [0; 32] {
            return Err(bad(SHARE.name, "a point of small order"));
        }
        let mut hasher = blake3::Hasher::new_derive_key("vesica/1 seed of two generators");
        hasher.update(&*secret);
        hasher.update(encapsulated);
        hasher.update(transcript);
        let mut reader = hasher.finalize_xof();
        let (mut name, mut seed) = ([0; 16], Zeroizing::new([0; 32]));
        reader.fill(&mut name);
        reader.fill(&mut *seed);
        hasher.zeroize();
        reader.zeroize();
        Ok((name, seed))
    }
}

/// The part of the agreement that is ML-KEM-768's, by the role of a generator.
enum Encapsulation {
    /// The receiver's has the key.
    Decapsulates(Box<DecapsulationKey>),
    /// The sender's encapsulates to it.
    Encapsulates,
}

impl Encapsulation {
    fn of(role: Role) -> Result<Encapsulation, WireError> {
        Ok(match role {
            Role::Sender => Encapsulation::Encapsulates,
            Role::Receiver => {
                let mut seed = Zeroizing::new([0; kem::SEED]);
                fill(&mut *seed)?;
                let key = DecapsulationKey::from_seed(&seed);
                Encapsulation::Decapsulates(Box::new(key))
            }
        })
    }

    /// What the share of this side says of it.
    fn key(&self) -> Vec<u8> {
        match self {
            Encapsulation::Decapsulates(key) => key.encapsulation_key().to_vec(),
            Encapsulation::Encapsulates => Vec::new(),
        }
    }

    /// Sends or receives the ciphertext; returns it with the secret. `theirs` is the key in the other side's share.
    ///
    /// Fails with `PeerMisbehaved` for what is no key. A wrong ciphertext gives another secret.
    fn agree(
        self,
        channel: &mut dyn Channel,
        theirs: &[u8],
    ) -> Result<(Vec<u8>, Zeroizing<[u8; 32]>), WireError> {
        let (ciphertext, secret) = match self {
            Encapsulation::Decapsulates(key) => {
                let ciphertext = recv_exact(channel, CIPHERTEXT, CIPHERTEXT_BYTES)?;
                let parsed = ciphertext.first_chunk();
                let secret = key.decapsulate(parsed.expect("a ciphertext of this length"));
                (ciphertext, secret)
            }
            Encapsulation::Encapsulates => {
                let mut message = Zeroizing::new([0; kem::MESSAGE]);
                fill(&mut *message)?;
                let key = theirs.try_into().ok();
                let encapsulated = key.and_then(|key| kem::encapsulate(key, &message));
                let (sent, secret) =
                    encapsulated.ok_or_else(|| bad(SHARE.name, "no encapsulation key"))?;
                channel.send(CIPHERTEXT, sent.to_vec())?;
                channel.flush()?;
                (sent.to_vec(), secret)
            }
        };
        Ok((ciphertext, secret))
    }
}

/// Makes this side's half of one pair, which may take so many bytes of `memory`: the connections are to the party that it
/// serves and to the other party's generator. Whoever is waited for longer than their `patience` ends it.
///
/// Fails with [`Error::Usage`] for terms that the protocol cannot meet, with [`Error::Attestation`] if there is no report,
/// else with [`Error::Session`]; both others have been told then.
pub fn generate(
    connections: &mut [Connection; 2],
    registry: &Registry,
    memory: u64,
    attester: &dyn Attester,
) -> Result<OfflineTerms, Error> {
    let generated = generate_half(connections, registry, memory, attester);
    generated.map_err(|failed| failed.tell(connections))
}

/// At the connection to the party, or to the other generator.
const PARTY: usize = 0;
const OTHER: usize = 1;

fn generate_half(
    connections: &mut [Connection; 2],
    registry: &Registry,
    memory: u64,
    attester: &dyn Attester,
) -> Result<OfflineTerms, Failed> {
    let [party, other] = connections;
    let encoded = party.channel.recv(REQUEST, MAX_REQUEST);
    let encoded = encoded.map_err(Failed::at(PARTY))?;
    let request = DealerRequest::decode(&encoded).map_err(Failed::at(PARTY))?;
    request.wants(Some(attester.platform()))?;
    let terms = &request.terms;
    let offline = terms.check(registry)?;
    check_origin(terms, offline, Origin::Generators)?;
    let (params, bits) = (terms.params([0; 32])?, terms.key_bits);
    let layout = offline.layout(&params, bits)?;
    if request.layout != layout {
        return Err(differ("layout of the halves", layout, &request.layout).into());
    }
    let half = request.role.half();
    let bytes = offline.dealt_bytes(half, &params, bits)? as u64;
    if bytes > memory {
        let reason = format!("this half takes {bytes} bytes, and the generator may use {memory}");
        return Err(WireError::limit(Limit::Memory { enough: None }, reason).into());
    }

    other.channel.begin_phase("seed");
    let key = Key::random()?;
    let encapsulation = Encapsulation::of(request.role)?;
    let ours = Share {
        public: key.public(),
        encapsulation_key: encapsulation.key(),
        party: peer_of(party)?,
        generator: other.local.ok_or_else(no_identity)?,
        request: encoded,
    };
    let sent = other.channel.send(SHARE, ours.encode());
    let sent = sent.and_then(|()| other.channel.flush());
    sent.map_err(Failed::at(OTHER))?;
    let theirs = Share::recv(&mut other.channel).map_err(Failed::at(OTHER))?;
    if theirs.generator != peer_of(other)? {
        return Err(Failed::at(OTHER)(bad(SHARE.name, "of another generator")));
    }
    ours.fits(&request, &theirs)?;
    let shares = match request.role {
        Role::Receiver => [&ours, &theirs],
        Role::Sender => [&theirs, &ours],
    };
    let encapsulated = encapsulation.agree(&mut other.channel, &theirs.encapsulation_key);
    let (ciphertext, secret) = encapsulated.map_err(Failed::at(OTHER))?;
    let transcript = transcript(shares, &ciphertext);
    let (name, seed) = key
        .agree(theirs.public, &secret, &transcript)
        .map_err(Failed::at(OTHER))?;
    let evidence = attester.attest(&report_data(request.role, &transcript))?;
    let evidence = evidence.encode();
    let sent = other.channel.send(EVIDENCE, evidence.clone());
    let sent = sent.and_then(|()| other.channel.flush());
    sent.map_err(Failed::at(OTHER))?;
    let their_evidence = other.channel.recv(EVIDENCE, MAX_EVIDENCE);
    let their_evidence = their_evidence.map_err(Failed::at(OTHER))?;
    // Whether it is one; what is in it, the party checks.
    Evidence::decode(&their_evidence).map_err(Failed::at(OTHER))?;

    for (kind, bytes) in [
        (SHARE, theirs.encode()),
        (SHARE, ours.encode()),
        (CIPHERTEXT, ciphertext),
        (EVIDENCE, their_evidence),
        (EVIDENCE, evidence),
    ] {
        party.channel.send(kind, bytes).map_err(Failed::at(PARTY))?;
    }
    party.channel.flush().map_err(Failed::at(PARTY))?;
    let mut rng = ChaCha20Rng::from_seed(*seed);
    let half = Zeroizing::new(offline.deal_half(half, &params, bits, &mut rng)?);
    // Nobody's patience may keep them in memory.
    drop((rng, seed, secret));
    hand_out(party, name, &half).map_err(Failed::at(PARTY))?;
    drop(half);
    other.channel.begin_phase("store");
    say_stored(other).map_err(Failed::at(OTHER))?;
    hear_stored(other).map_err(Failed::at(OTHER))?;
    say_stored(party).map_err(Failed::at(PARTY))?;
    Ok(request.terms)
}

/// A party's side of step 5: checks what its generator hands out before a half that this party, `own`, has asked for.
/// Returns the other generator.
pub(crate) fn check(
    channel: &mut dyn Channel,
    request: &DealerRequest,
    own: Fingerprint,
    generator: Fingerprint,
    expected: [&Expected; 2],
) -> Result<Fingerprint, Error> {
    let [theirs, ours] = [Share::recv(channel)?, Share::recv(channel)?];
    let is_for_us = (ours.party, ours.generator) == (own, generator);
    if !is_for_us || ours.request != request.encode() {
        return Err(bad(SHARE.name, "not for this request").into());
    }
    ours.fits(request, &theirs)?;
    let shares = match request.role {
        Role::Receiver => [&ours, &theirs],
        Role::Sender => [&theirs, &ours],
    };
    let ciphertext = recv_exact(channel, CIPHERTEXT, CIPHERTEXT_BYTES)?;
    let transcript = transcript(shares, &ciphertext);
    let [own, other] = expected;
    for (who, expected, role) in [
        (Attested::OtherGenerator, other, request.role.other()),
        (Attested::OwnGenerator, own, request.role),
    ] {
        check_evidence(channel, who, expected, &report_data(role, &transcript))?;
    }
    Ok(theirs.generator)
}
