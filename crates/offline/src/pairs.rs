//! Making pairs of halves: by the two parties, by a dealer, or by two generators.
//!
//! **Two parties** agree on a contract as before a run, whose profile of keys is none of a run; then the protocol makes
//! the halves. The name of the pair is a hash of the session.
//!
//! **A dealer** holds both halves, so both parties trust it not to help the other one. Each party says what it wants and
//! whom with; if both say the same, the dealer makes the halves, draws a name, and sends each party its half. A dealer in
//! a trusted execution environment first shows each party, over its own request, what it runs ([`attestation`]).
//!
//! **Two generators**, one at each party, make the halves of a seed that they agree on ([`generators`](crate::generators)).
//!
//! Either way a party keeps its half only once it knows that the other has stored the other half. The last message may
//! be lost: then one party has a half that no run can use.

use rand_core::Rng;
use vesica_psi::{Half, Origin};
use vesica_session::codec::{bad, differ};
use vesica_session::terms::{KEY_BITS, LAMBDA, POST_QUANTUM, SECURITY};
use vesica_session::{
    Checkpoint, Connection, Fingerprint, Job, Name, ObservedChannel, PeerLimits, Progress,
    ProtocolRequest, Registry, Role, Security, agree,
};
use vesica_wire::{Channel, Error as WireError, Limit, MAX_FRAME, recv_exact};
use zeroize::Zeroizing;

use crate::attestation::{self, Attester, EVIDENCE, Expected};
use crate::claims::Platform;
use crate::handing::{
    DEALT, Failed, PAIR, STORED, check_evidence, check_origin, hand_out, in_words, no_identity,
    peer_of, say_stored,
};
use crate::random::{fill, fresh_rng};
use crate::request::{DealerRequest, MAX_REQUEST, REQUEST};
use crate::store::{AND, OfflineStore, OfflineTerms, Pair};
use crate::{Attested, Error, generators};

/// The profile in the contract of an offline phase; no key has it.
const PROFILE: &str = "offline/1";

/// Makes a pair of halves with the peer, which calls this with the other role, and stores this side's half. Returns the
/// name of the pair.
///
/// Fails with [`Error::Usage`] for terms that the protocol cannot meet, with [`Error::Store`] if the half cannot be
/// stored, else with [`Error::Session`]; the peer has been told then.
pub fn make_half(
    connection: &mut Connection,
    role: Role,
    registry: &Registry,
    terms: &OfflineTerms,
    store: &OfflineStore,
    progress: &mut dyn Progress,
) -> Result<Name, Error> {
    let offline = terms.check(registry)?;
    let peer = peer_of(connection)?;
    if peer == store.fingerprint() {
        return Err(Error::Usage("a pair is for two identities".into()));
    }
    if offline.origin().is_dealt() {
        let problem = format!("the halves of {} are dealt", terms.protocol);
        return Err(Error::Usage(problem));
    }
    let job = Job {
        registry: *registry,
        protocol: ProtocolRequest::named(&terms.protocol),
        peer_limits: PeerLimits {
            items: u64::MAX,
            ..PeerLimits::default()
        },
        ..Job::new(role, vec![PROFILE.to_owned()])
    }
    .with(&SECURITY, Security::SemiHonest)
    .with(&LAMBDA, terms.lambda)
    .with(&KEY_BITS, terms.key_bits)
    .with(&POST_QUANTUM, terms.post_quantum);
    let items = match role {
        Role::Receiver => terms.receiver_size,
        Role::Sender => terms.sender_size,
    };
    let mut channel = ObservedChannel::new(&mut connection.channel, progress);
    let local = connection.local;
    let agreement = agree(
        &mut channel,
        &job,
        items,
        &Checkpoint::Nothing,
        local,
        Some(peer),
    )?;
    let run = |channel: &mut ObservedChannel<'_>| {
        let agreed = &agreement.contract;
        for (field, ours, theirs) in [
            ("receiver's size", terms.receiver_size, agreed.receiver_size),
            ("sender's size", terms.sender_size, agreed.sender_size),
        ] {
            if ours != theirs {
                return Err(differ(field, ours, theirs).into());
            }
        }
        let (params, bits) = (terms.params(agreement.params.session)?, terms.key_bits);
        let half = offline.make(channel, role.half(), &params, bits, &mut fresh_rng()?)?;
        let mut name = [0; 16];
        let mut hash = blake3::Hasher::new_keyed(&params.session);
        hash.update(b"the name of a pair")
            .finalize_xof()
            .fill(&mut name);
        let pair = Pair {
            registry,
            role,
            peer,
            dealer: None,
            generators: None,
            attested: None,
            terms,
        };
        keep(channel, store, Name(name), &pair, &half)
    };
    let made = run(&mut channel);
    made.inspect_err(|error| channel.abort(&in_words(error)))
}

/// What has to be shown of trusted execution environments before a half is taken.
#[derive(Clone, Copy, Debug)]
pub enum Shown<'a> {
    /// Nothing: both parties trust the dealer.
    Nothing,
    /// What the dealer runs.
    ByDealer(&'a Expected),
    /// What the generators of this party and of the other run.
    ByGenerators([&'a Expected; 2]),
}

impl Shown<'_> {
    /// Fails with [`Error::Usage`] for halves that are made in another way.
    fn check(self, protocol: &str, origin: Origin) -> Result<(), Error> {
        let problem = match (origin, self) {
            (Origin::Dealer, Shown::Nothing | Shown::ByDealer(_))
            | (Origin::Generators, Shown::ByGenerators(_)) => return Ok(()),
            (Origin::Dealer, Shown::ByGenerators(_)) => "come from a dealer",
            (Origin::Generators, Shown::Nothing | Shown::ByDealer(_)) => {
                "come from two generators whose measurements are known"
            }
            _ => "are made by the two parties",
        };
        Err(Error::Usage(format!("the halves of {protocol} {problem}")))
    }

    /// The platform of whoever hands out this party's half.
    fn platform(self) -> Option<Platform> {
        match self {
            Shown::Nothing => None,
            Shown::ByDealer(expected) | Shown::ByGenerators([expected, _]) => {
                Some(expected.platform())
            }
        }
    }

    /// What is expected, in words for a listing.
    fn name(self) -> Option<String> {
        match self {
            Shown::Nothing => None,
            Shown::ByDealer(expected) => Some(expected.name()),
            Shown::ByGenerators(both) => {
                let [own, other] = both.map(Expected::name);
                match own == other {
                    true => Some(own),
                    false => Some([own, other].join(AND)),
                }
            }
        }
    }
}

/// What a party wants of a dealer, or of its generator.
#[derive(Clone, Copy, Debug)]
pub struct HalfRequest<'a> {
    /// Its role in the run.
    pub role: Role,
    /// What the pair is for.
    pub terms: &'a OfflineTerms,
    /// The other party.
    pub peer: Fingerprint,
    /// What has to be shown first.
    pub shown: Shown<'a>,
}

/// Gets a half from whom the connection leads to, a dealer or this party's generator, and stores it. Returns the name of
/// the pair.
///
/// Fails as [`make_half`] does, and with [`Error::Untrusted`] if somebody does not show what is expected.
pub fn fetch_half(
    connection: &mut Connection,
    registry: &Registry,
    wanted: HalfRequest<'_>,
    store: &OfflineStore,
    progress: &mut dyn Progress,
) -> Result<Name, Error> {
    let HalfRequest {
        role,
        terms,
        peer,
        shown,
    } = wanted;
    let offline = terms.check(registry)?;
    shown.check(&terms.protocol, offline.origin())?;
    let own = store.fingerprint();
    let dealer = peer_of(connection)?;
    // Who deals knows both halves, and so the items of a party that it is against.
    if dealer == peer || [peer, dealer].contains(&own) {
        let problem = "the two parties and whoever deals are different identities";
        return Err(Error::Usage(problem.into()));
    }
    let mut channel = ObservedChannel::new(&mut connection.channel, progress);
    let run = |channel: &mut ObservedChannel<'_>| {
        channel.begin_phase("offline");
        let params = terms.params([0; 32])?;
        let mut nonce = [0; 32];
        fill(&mut nonce)?;
        let request = DealerRequest {
            role,
            terms: terms.clone(),
            peer,
            layout: offline.layout(&params, terms.key_bits)?,
            attestation: shown.platform(),
            nonce,
        };
        let encoded = request.encode();
        channel.send(REQUEST, encoded.clone())?;
        channel.flush()?;
        let generators = match shown {
            Shown::Nothing => None,
            Shown::ByDealer(expected) => {
                let data = attestation::report_data(dealer, own, &encoded);
                check_evidence(channel, Attested::Dealer, expected, &data)?;
                None
            }
            Shown::ByGenerators(expected) => {
                let other = generators::check(channel, &request, own, dealer, expected)?;
                Some([dealer, other])
            }
        };
        let name = channel.recv(PAIR, 16)?;
        let name = name
            .try_into()
            .map_err(|_| bad(PAIR.name, "of a wrong length"))?;
        let length = offline.dealt_bytes(role.half(), &params, terms.key_bits)?;
        let mut half = Zeroizing::new(Vec::with_capacity(length));
        while half.len() < length {
            let part = (length - half.len()).min(MAX_FRAME);
            half.extend_from_slice(&Zeroizing::new(recv_exact(channel, DEALT, part)?));
            channel.progress(half.len() as u64, length as u64);
        }
        let pair = Pair {
            registry,
            role,
            peer,
            dealer: generators.is_none().then_some(dealer),
            generators,
            attested: shown.name(),
            terms,
        };
        keep(channel, store, Name(name), &pair, &half)
    };
    let fetched = run(&mut channel);
    fetched.inspect_err(|error| channel.abort(&in_words(error)))
}

/// Deals one pair of halves, which may take so many bytes of `memory`: the connections are to the receiver and to the
/// sender. Whoever is waited for longer than their `patience` ends it. A dealer with an attester deals for parties that
/// want to see its reports, and no others.
///
/// Fails with [`Error::Usage`] for terms that the protocol cannot meet, with [`Error::Attestation`] if there is no report,
/// else with [`Error::Session`]; both parties have been told then.
pub fn deal(
    connections: &mut [Connection; 2],
    registry: &Registry,
    memory: u64,
    attester: Option<&dyn Attester>,
) -> Result<OfflineTerms, Error> {
    let dealt = deal_pair(connections, registry, memory, attester);
    dealt.map_err(|failed| failed.tell(connections))
}

fn deal_pair(
    connections: &mut [Connection; 2],
    registry: &Registry,
    memory: u64,
    attester: Option<&dyn Attester>,
) -> Result<OfflineTerms, Failed> {
    let mut requests = Vec::new();
    for (i, role) in [Role::Receiver, Role::Sender].into_iter().enumerate() {
        let encoded = connections[i].channel.recv(REQUEST, MAX_REQUEST);
        let encoded = encoded.map_err(Failed::at(i))?;
        let request = DealerRequest::decode(&encoded).map_err(Failed::at(i))?;
        if request.role != role {
            return Err(Failed::at(i)(differ("role", role, request.role)));
        }
        requests.push((request, encoded));
    }
    let [receiver, sender] = connections;
    let [(ours, our_bytes), (theirs, their_bytes)] =
        <[(DealerRequest, Vec<u8>); 2]>::try_from(requests).expect("two requests");
    ours.fits(&theirs)?;
    for (request, other) in [(&ours, &*sender), (&theirs, &*receiver)] {
        if request.peer != peer_of(other)? {
            return Err(differ("other party", peer_of(other)?, request.peer).into());
        }
    }
    for request in [&ours, &theirs] {
        request.wants(attester.map(Attester::platform))?;
    }
    let terms = ours.terms;
    let offline = terms.check(registry)?;
    check_origin(&terms, offline, Origin::Dealer)?;
    let params = terms.params([0; 32])?;
    let layout = offline.layout(&params, terms.key_bits)?;
    for theirs in [ours.layout, theirs.layout] {
        if theirs != layout {
            return Err(differ("layout of the halves", layout, theirs).into());
        }
    }
    let mut bytes = 0;
    for half in [Half::Receiver, Half::Sender] {
        bytes += offline.dealt_bytes(half, &params, terms.key_bits)? as u64;
    }
    if bytes > memory {
        let reason = format!("these halves take {bytes} bytes, and the dealer may use {memory}");
        return Err(WireError::limit(Limit::Memory { enough: None }, reason).into());
    }
    if let Some(attester) = attester {
        for (connection, request) in [(&mut *receiver, our_bytes), (&mut *sender, their_bytes)] {
            let own = connection.local.ok_or_else(no_identity)?;
            let data = attestation::report_data(own, peer_of(connection)?, &request);
            let evidence = attester.attest(&data)?;
            connection.channel.send(EVIDENCE, evidence.encode())?;
        }
    }
    let mut rng = fresh_rng()?;
    let halves = offline.deal(&params, terms.key_bits, &mut rng)?;
    let mut name = [0; 16];
    rng.fill_bytes(&mut name);
    let [first, second] = std::thread::scope(|scope| {
        let first = scope.spawn(|| hand_out(receiver, name, &halves[0]));
        let second = hand_out(sender, name, &halves[1]);
        let first = first
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        [first, second]
    });
    first.map_err(Failed::at(0))?;
    second.map_err(Failed::at(1))?;
    for (i, connection) in connections.iter_mut().enumerate() {
        say_stored(connection).map_err(Failed::at(i))?;
    }
    Ok(terms)
}

/// Stores a half, and keeps it if the other one is stored too.
fn keep(
    channel: &mut dyn Channel,
    store: &OfflineStore,
    name: Name,
    pair: &Pair<'_>,
    half: &[u8],
) -> Result<Name, Error> {
    channel.begin_phase("store");
    store.put(name, pair, half)?;
    let mut confirm = || {
        channel.send(STORED, Vec::new())?;
        channel.flush()?;
        channel.recv(STORED, 0)
    };
    confirm().inspect_err(|_| {
        let _ = store.remove(name);
    })?;
    Ok(name)
}
