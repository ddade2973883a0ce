//! Running one job over an open connection.

use vesica_psi::{Params, Security};
use vesica_wire::{Channel, Error as WireError};

use crate::{Connection, Contract, Error, Fingerprint, ProtocolRequest, Report, Reveal, Role};

/// A job as one side wants it.
#[derive(Clone, Debug)]
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
    /// least one, at most 64, each at most 128 bytes.
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
        todo!()
    }
}

/// What both sides hold once the contract is agreed.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The contract.
    pub contract: Contract,
    /// What the protocol needs of it.
    pub params: Params,
    /// Distinct items of the peer.
    pub peer_items: u64,
}

/// The result of a job.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Receiver: indices into its digests that the sender also holds, ascending. Sender: `None`.
    pub matches: Option<Vec<u32>>,
    /// The report; `rows` and `duplicates` are zero until the caller fills them.
    pub report: Report,
}

/// Hears how a run goes on. Called on the thread that runs the job.
pub trait Progress {
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

/// Compares contracts with the peer and derives the session both ways.
///
/// Nothing derived from an item is sent. On failure the peer has been told.
pub fn agree(
    channel: &mut dyn Channel,
    job: &Job,
    items: u64,
    local: Option<Fingerprint>,
    peer: Option<Fingerprint>,
) -> Result<Agreement, Error> {
    let _ = (channel, job, items, local, peer);
    todo!()
}

/// The last message: the receiver tells the sender that its protocol completed; the sender waits
/// for that.
pub fn confirm_done(channel: &mut dyn Channel, role: Role) -> Result<(), WireError> {
    let _ = (channel, role);
    todo!()
}

/// Runs the job: contract, protocol, confirmation, report.
///
/// `digests` are the canonical 32-byte digests of this side's distinct keys, each once; the
/// session's salt is applied here. On failure the peer is told why, and never about items.
pub fn run(
    connection: Connection,
    job: &Job,
    digests: &[[u8; 32]],
    progress: &mut dyn Progress,
) -> Result<Outcome, Error> {
    let _ = (connection, job, digests, progress);
    todo!()
}
