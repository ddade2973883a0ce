//! Running one job over an open connection.

use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica_psi::Security;
use vesica_wire::{Channel, Error as WireError, HEADER_BYTES, Kind, PhaseTraffic};
use zeroize::Zeroizing;

use crate::contract::{MAX_KEY_COLUMNS, MAX_NORMALIZATION};
use crate::items::all_distinct;
use crate::{
    Agreement, Connection, Error, Fingerprint, ProtocolRequest, Report, Reveal, Role, agree,
    confirm_done, salt_items,
};

/// A job as one side wants it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Our part.
    pub role: Role,
    /// The protocol.
    pub protocol: ProtocolRequest,
    /// The weakest security that we accept.
    pub security: Security,
    /// Statistical security in bits, 40 to 128.
    pub lambda: u32,
    /// What the receiver learns.
    pub reveal: Reveal,
    /// Name and version of the normalisation of each key column, in order, as in `email/1`; at
    /// least one, at most 64, each at most 128 bytes of printable ASCII.
    pub normalization: Vec<String>,
    /// Most items that the peer may bring.
    pub max_peer_items: u64,
}

impl Job {
    /// The usual job for a role: automatic protocol, malicious security, λ = 40, matches only,
    /// at most 2^28 peer items.
    pub fn new(role: Role, normalization: Vec<String>) -> Job {
        Job {
            role,
            protocol: ProtocolRequest::Auto,
            security: Security::Malicious,
            lambda: 40,
            reveal: Reveal::Matches,
            normalization,
            max_peer_items: 1 << 28,
        }
    }

    /// Checks what can be checked without a peer; [`run`] does it as well. Call it before reading
    /// tables or connecting.
    ///
    /// Fails with [`Error::Usage`].
    pub fn check(&self) -> Result<(), Error> {
        let usage = |problem: String| Err(Error::Usage(problem));
        if let ProtocolRequest::Named(protocol) = self.protocol
            && protocol.security() < self.security
        {
            let runs = protocol.security().name();
            return usage(format!(
                "protocol {} runs {runs} and needs --security {runs}",
                protocol.name(),
            ));
        }
        if !(40..=128).contains(&self.lambda) {
            return usage(format!(
                "lambda is {} bits; 40 to 128 are possible",
                self.lambda
            ));
        }
        let columns = self.normalization.len();
        if columns == 0 || columns > MAX_KEY_COLUMNS {
            return usage(format!(
                "{columns} key columns; 1 to {MAX_KEY_COLUMNS} are possible"
            ));
        }
        for name in &self.normalization {
            let printable = name.bytes().all(|b| b.is_ascii_graphic());
            if name.is_empty() || name.len() > MAX_NORMALIZATION || !printable {
                return usage(format!("normalization {name:?} is not a name"));
            }
        }
        Ok(())
    }
}

/// The result of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Receiver: indices into its digests that the sender also holds, ascending. Sender: `None`.
    pub matches: Option<Vec<u32>>,
    /// The report; `rows` and `duplicates` are zero until the caller fills them.
    pub report: Report,
}

/// Hears how a run goes on. Called on the thread that runs the job.
pub trait Progress: Send {
    /// A phase begins.
    fn phase(&mut self, name: &'static str);

    /// Bytes sent and received so far, framing included.
    fn bytes(&mut self, sent: u64, received: u64) {
        let _ = (sent, received);
    }
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _: &'static str) {}
}

/// Runs the job: contract, protocol, confirmation, report.
///
/// `digests` are the canonical 32-byte digests of this side's distinct keys, each once; the
/// session's salt is applied here. On failure the peer is told why, and never about items.
///
/// Fails with [`Error::Usage`] for a job that cannot be and for digests that repeat, else with
/// [`Error::Run`].
pub fn run(
    mut connection: Connection,
    job: &Job,
    digests: &[[u8; 32]],
    progress: &mut dyn Progress,
) -> Result<Outcome, Error> {
    let (local, peer) = (connection.local, connection.peer);
    run_over(&mut connection.channel, local, peer, job, digests, progress)
}

/// Runs the job as [`run`] does, over any channel; the fingerprints are bound into the session.
///
/// Fails as [`run`] does.
pub fn run_over(
    channel: &mut dyn Channel,
    local: Option<Fingerprint>,
    peer: Option<Fingerprint>,
    job: &Job,
    digests: &[[u8; 32]],
    progress: &mut dyn Progress,
) -> Result<Outcome, Error> {
    let start = Instant::now();
    if !all_distinct(digests) {
        let problem = "a set holds each item once, and this one holds some twice".into();
        return Err(Error::Usage(problem));
    }
    let mut channel = Watched {
        channel,
        progress,
        sent: 0,
        received: 0,
    };
    let items = digests.len() as u64;
    let Agreement {
        contract,
        params,
        peer_items,
    } = agree(&mut channel, job, items, local, peer)?;
    let matches = protocol(&mut channel, job.role, &params, digests)
        .inspect_err(|error| channel.abort(error))?;
    let phases = channel.traffic();
    Ok(Outcome {
        report: Report {
            protocol: contract.protocol,
            security: contract.protocol.security(),
            reveal: contract.reveal,
            rows: 0,
            items,
            duplicates: 0,
            peer_items,
            matches: matches.as_ref().map(|matches| matches.len() as u64),
            bytes_sent: phases.iter().map(|phase| phase.bytes_sent).sum(),
            bytes_received: phases.iter().map(|phase| phase.bytes_received).sum(),
            seconds: start.elapsed().as_secs_f64(),
            phases,
            peer,
            contract,
        },
        matches,
    })
}

fn protocol(
    channel: &mut dyn Channel,
    role: Role,
    params: &vesica_psi::Params,
    digests: &[[u8; 32]],
) -> Result<Option<Vec<u32>>, WireError> {
    let mut rng = fresh_rng()?;
    channel.begin_phase("items");
    let items = salt_items(&params.session, digests);
    let matches = match role {
        Role::Receiver => {
            channel.begin_phase("prepare");
            let prepared = vesica_psi::prepare(params.protocol, items.len(), &mut rng);
            Some(vesica_psi::receive(
                channel, params, &items, prepared, &mut rng,
            )?)
        }
        Role::Sender => {
            vesica_psi::send(channel, params, &items, &mut rng)?;
            None
        }
    };
    confirm_done(channel, role)?;
    Ok(matches)
}

/// A generator seeded by the operating system.
fn fresh_rng() -> Result<ChaCha20Rng, WireError> {
    let mut seed = Zeroizing::new([0; 32]);
    getrandom::fill(seed.as_mut()).map_err(|e| {
        WireError::Resource(format!("no randomness from the operating system: {e}"))
    })?;
    Ok(ChaCha20Rng::from_seed(*seed))
}

/// A channel that tells a [`Progress`] what goes through it.
struct Watched<'a> {
    channel: &'a mut dyn Channel,
    progress: &'a mut dyn Progress,
    sent: u64,
    received: u64,
}

impl Channel for Watched<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        let bytes = HEADER_BYTES + payload.len();
        self.channel.send(kind, payload)?;
        self.sent += bytes as u64;
        self.progress.bytes(self.sent, self.received);
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        let payload = self.channel.recv(kind, max)?;
        self.received += (HEADER_BYTES + payload.len()) as u64;
        self.progress.bytes(self.sent, self.received);
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        self.channel.flush()
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.progress.phase(name);
        self.channel.begin_phase(name);
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.channel.traffic()
    }

    fn abort(&mut self, why: &WireError) {
        self.channel.abort(why);
    }
}
