//! The contract: the job as each side understands it, and what both sign up to.

use serde::Serialize;
use vesica_psi::{Protocol, Security};
use vesica_wire::Error as WireError;

/// A party's part in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Learns the result.
    Receiver,
    /// Helps the receiver and learns sizes only.
    Sender,
}

/// What the receiver learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reveal {
    /// Which of its own items the sender also holds.
    Matches,
}

/// Who gets the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Learns {
    /// The receiver alone.
    Receiver,
}

/// What travels with each item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// Nothing.
    None,
}

/// Which protocol a party wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolRequest {
    /// Whatever the peer names, or what the rule picks when it names none.
    Auto,
    /// This one.
    Named(Protocol),
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
    /// Name and version of the normalisation of each key column, in order, as in `email/1`.
    pub normalization: Vec<String>,
    /// What travels with each item.
    pub payload: Payload,
    /// Distinct items of this side.
    pub items: u64,
}

/// What both sides have agreed on; the same on both sides, bit for bit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Contract {
    /// Version of the handshake.
    pub version: u16,
    /// The protocol that runs.
    pub protocol: Protocol,
    /// The security that both asked for.
    pub security: Security,
    /// Computational security in bits.
    pub kappa: u32,
    /// Statistical security in bits.
    pub lambda: u32,
    /// What the receiver learns.
    pub reveal: Reveal,
    /// Who gets the result.
    pub learns: Learns,
    /// Number of key columns.
    pub key_columns: u32,
    /// Name and version of the normalisation of each key column, in order.
    pub normalization: Vec<String>,
    /// What travels with each item.
    pub payload: Payload,
    /// Distinct items of the receiver.
    pub receiver_size: u64,
    /// Distinct items of the sender.
    pub sender_size: u64,
    /// The hash that is bound into every later hash, in hexadecimal.
    pub hash: String,
}

impl Hello {
    /// The bytes on the wire.
    pub fn encode(&self) -> Vec<u8> {
        todo!()
    }

    /// Reads what a peer sent; at most 16 KiB, nothing may follow.
    ///
    /// Fails with `PeerMisbehaved`, or with `ContractDiffers` on another version.
    pub fn decode(bytes: &[u8]) -> Result<Hello, WireError> {
        todo!("{bytes:?}")
    }
}
