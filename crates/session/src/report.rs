//! What is said about a finished run.

use serde::Serialize;
use vesica_psi::{Protocol, Security};
use vesica_wire::PhaseTraffic;

use crate::{Contract, Fingerprint, Reveal};

/// A finished run, as `--report` writes it. The caller fills `rows` and `duplicates`, which only
/// whoever read the table knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The protocol that ran.
    pub protocol: Protocol,
    /// The adversary that the run withstood.
    pub security: Security,
    /// What the receiver learned.
    pub reveal: Reveal,
    /// Rows read from this side's table.
    pub rows: u64,
    /// Distinct items of this side.
    pub items: u64,
    /// Rows whose key another row already had.
    pub duplicates: u64,
    /// Distinct items of the peer.
    pub peer_items: u64,
    /// Items in common; `None` on a side that may not know.
    pub matches: Option<u64>,
    /// Bytes handed to the peer, framing included and TLS not.
    pub bytes_sent: u64,
    /// Bytes taken from the peer, framing included and TLS not.
    pub bytes_received: u64,
    /// Seconds from the open connection to the result.
    pub seconds: f64,
    /// Traffic and time of each phase, in order.
    pub phases: Vec<PhaseTraffic>,
    /// The peer's fingerprint; `None` over plaintext.
    pub peer: Option<Fingerprint>,
    /// The agreed contract.
    pub contract: Contract,
}
