//! Making pairs of halves: by the two parties, or by a dealer.
//!
//! **Two parties** agree on a contract as before a run, whose profile of keys is none of a run; then the protocol makes
//! the halves. The name of the pair is a hash of the session.
//!
//! **A dealer** holds both halves, so both parties trust it not to help the other one. Each party says what it wants and
//! whom with; if both say the same, the dealer makes the halves, draws a name, and sends each party its half.
//!
//! Either way a party keeps its half only once it knows that the other has stored the other half. The last message may
//! be lost: then one party has a half that no run can use.

use rand_core::Rng;
use vesica_plan::Registry;
use vesica_psi::Half;
use vesica_wire::{Channel, Error as WireError, Kind, Limit, MAX_FRAME, recv_exact};
use zeroize::Zeroizing;

use crate::codec::{bad, differ};
use crate::offers::Name;
use crate::offline::{OfflineStore, OfflineTerms, Pair};
use crate::random::fresh_rng;
use crate::request::{DealerRequest, MAX_REQUEST, REQUEST};
use crate::run::Watched;
use crate::{
    Connection, Error, Fingerprint, Job, Kept, Progress, ProtocolRequest, Role, Security, agree,
};

/// The profile in the contract of an offline phase; no key has it.
const PROFILE: &str = "offline/1";

/// A party has stored its half.
const STORED: Kind = Kind {
    code: 21,
    name: "stored",
};
/// The name of a pair.
const PAIR: Kind = Kind {
    code: 23,
    name: "name of a pair",
};
/// A part of a half.
const DEALT: Kind = Kind {
    code: 24,
    name: "dealt half",
};

/// Makes a pair of halves with the peer, which calls this with the other role, and stores this side's half. Returns the
/// name of the pair.
///
/// Fails with [`Error::Usage`] for terms that the protocol cannot meet, with [`Error::Offline`] if the half cannot be
/// stored, else with [`Error::Run`]; the peer has been told then.
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
    if offline.is_dealt() {
        let problem = format!("the halves of {} come from a dealer", terms.protocol);
        return Err(Error::Usage(problem));
    }
    let job = Job {
        registry: *registry,
        protocol: ProtocolRequest::named(&terms.protocol),
        security: Security::SemiHonest,
        lambda: terms.lambda,
        key_bits: terms.key_bits,
        max_peer_items: u64::MAX,
        ..Job::new(role, vec![PROFILE.to_owned()])
    };
    let items = match role {
        Role::Receiver => terms.receiver_size,
        Role::Sender => terms.sender_size,
    };
    let mut channel = Watched::new(&mut connection.channel, progress);
    let local = connection.local;
    let agreement = agree(&mut channel, &job, items, &Kept::Nothing, local, Some(peer))?;
    let run = |channel: &mut Watched<'_>| {
        let agreed = &agreement.contract;
        for (field, ours, theirs) in [
            ("receiver's size", terms.receiver_size, agreed.receiver_size),
            ("sender's size", terms.sender_size, agreed.sender_size),
        ] {
            if ours != theirs {
                return Err(Error::Run(differ(field, ours, theirs)));
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
            terms,
        };
        keep(channel, store, Name(name), &pair, &half)
    };
    let made = run(&mut channel);
    made.inspect_err(|error| channel.abort(&in_words(error)))
}

/// Gets a half from a dealer, whom the connection leads to, and stores it. `peer` is the other party. Returns the name of
/// the pair.
///
/// Fails as [`make_half`] does.
pub fn fetch_half(
    connection: &mut Connection,
    role: Role,
    registry: &Registry,
    terms: &OfflineTerms,
    peer: Fingerprint,
    store: &OfflineStore,
    progress: &mut dyn Progress,
) -> Result<Name, Error> {
    let offline = terms.check(registry)?;
    let dealer = peer_of(connection)?;
    // A dealer knows both halves, and so the items of a party that it is against.
    if dealer == peer || [peer, dealer].contains(&store.fingerprint()) {
        let problem = "the two parties and the dealer are three identities";
        return Err(Error::Usage(problem.into()));
    }
    let mut channel = Watched::new(&mut connection.channel, progress);
    let run = |channel: &mut Watched<'_>| {
        channel.begin_phase("offline");
        let request = DealerRequest {
            role,
            terms: terms.clone(),
            peer,
        };
        channel.send(REQUEST, request.encode())?;
        channel.flush()?;
        let name = channel.recv(PAIR, 16)?;
        let name = name
            .try_into()
            .map_err(|_| bad(PAIR.name, "of a wrong length"))?;
        let params = terms.params([0; 32])?;
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
            dealer: Some(dealer),
            terms,
        };
        keep(channel, store, Name(name), &pair, &half)
    };
    let fetched = run(&mut channel);
    fetched.inspect_err(|error| channel.abort(&in_words(error)))
}

/// Deals one pair of halves, which may take so many bytes of `memory`: the connections are to the receiver and to the
/// sender. Whoever is waited for longer than their `patience` ends it.
///
/// Fails with [`Error::Usage`] for terms that the protocol cannot meet, else with [`Error::Run`]; both parties have been
/// told then.
pub fn deal(
    connections: &mut [Connection; 2],
    registry: &Registry,
    memory: u64,
) -> Result<OfflineTerms, Error> {
    let dealt = deal_pair(connections, registry, memory);
    dealt.map_err(|Failed { error, whose }| {
        let why = in_words(&error);
        // Neither hears of what the other one has said.
        let other = WireError::limit(
            Limit::Offline,
            "the other party gave up, or sent the dealer no valid request",
        );
        for (i, connection) in connections.iter_mut().enumerate() {
            let is_other = whose.is_some_and(|whose| whose != i);
            connection
                .channel
                .abort(if is_other { &other } else { &why });
        }
        error
    })
}

/// Why nothing is dealt, and at which of the connections, if it is at one of them.
struct Failed {
    error: Error,
    whose: Option<usize>,
}

impl Failed {
    /// At one of the connections.
    fn at<E: Into<Error>>(whose: usize) -> impl Fn(E) -> Failed {
        move |error| Failed {
            error: error.into(),
            whose: Some(whose),
        }
    }
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed {
            error: error.into(),
            whose: None,
        }
    }
}

fn deal_pair(
    connections: &mut [Connection; 2],
    registry: &Registry,
    memory: u64,
) -> Result<OfflineTerms, Failed> {
    let mut requests = Vec::new();
    for (i, role) in [Role::Receiver, Role::Sender].into_iter().enumerate() {
        let request = connections[i].channel.recv(REQUEST, MAX_REQUEST);
        let request = request.and_then(|request| DealerRequest::decode(&request));
        let request = request.map_err(Failed::at(i))?;
        if request.role != role {
            return Err(Failed::at(i)(differ("role", role, request.role)));
        }
        requests.push(request);
    }
    let [receiver, sender] = connections;
    let [ours, theirs] = <[DealerRequest; 2]>::try_from(requests).expect("two requests");
    ours.fits(&theirs)?;
    for (request, other) in [(&ours, &*sender), (&theirs, &*receiver)] {
        if request.peer != peer_of(other)? {
            return Err(differ("other party", peer_of(other)?, request.peer).into());
        }
    }
    let terms = ours.terms;
    let offline = terms.check(registry)?;
    if !offline.is_dealt() {
        let problem = format!(
            "the halves of {} are made by the two parties",
            terms.protocol
        );
        return Err(Error::Usage(problem).into());
    }
    let params = terms.params([0; 32])?;
    let mut bytes = 0;
    for half in [Half::Receiver, Half::Sender] {
        bytes += offline.dealt_bytes(half, &params, terms.key_bits)? as u64;
    }
    if bytes > memory {
        let reason = format!("these halves take {bytes} bytes, and the dealer may use {memory}");
        return Err(WireError::limit(Limit::Memory { enough: None }, reason).into());
    }
    let mut rng = fresh_rng()?;
    let halves = offline.deal(&params, terms.key_bits, &mut rng)?;
    let mut name = [0; 16];
    rng.fill_bytes(&mut name);
    let each = |connection: &mut Connection, half: &[u8]| -> Result<(), WireError> {
        let channel = &mut connection.channel;
        channel.send(PAIR, name.to_vec())?;
        half.chunks(MAX_FRAME)
            .try_for_each(|part| channel.send(DEALT, part.to_vec()))?;
        channel.flush()?;
        channel.recv(STORED, 0).map(drop)
    };
    let [first, second] = std::thread::scope(|scope| {
        let first = scope.spawn(|| each(receiver, &halves[0]));
        let second = each(sender, &halves[1]);
        let first = first
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        [first, second]
    });
    first.map_err(Failed::at(0))?;
    second.map_err(Failed::at(1))?;
    for (i, connection) in connections.iter_mut().enumerate() {
        let sent = connection.channel.send(STORED, Vec::new());
        let sent = sent.and_then(|()| connection.channel.flush());
        sent.map_err(Failed::at(i))?;
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

fn peer_of(connection: &Connection) -> Result<Fingerprint, Error> {
    let problem = "halves are made over TLS, between identities";
    connection.peer.ok_or_else(|| Error::Usage(problem.into()))
}

/// What the peer is told.
fn in_words(error: &Error) -> WireError {
    match error {
        Error::Run(error) => error.clone(),
        _ => WireError::limit(Limit::Offline, "the correlations cannot be made or stored"),
    }
}
