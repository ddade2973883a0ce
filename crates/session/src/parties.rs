//! Who takes part in a run, and who learns of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use vesica_psi::Half;
use vesica_wire::Error as WireError;

use crate::codec::bad;

/// A party's part in the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Learns the result.
    Receiver,
    /// Helps the receiver and learns sizes only.
    Sender,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Receiver => "receiver",
            Role::Sender => "sender",
        })
    }
}

/// Who gets the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Learns {
    /// The receiver alone.
    Receiver,
    /// Both: the receiver tells the sender which items matched, or the number. It can lie.
    Both,
    /// Both, in one order, once the receiver has proved that it has what it told of.
    Aligned,
}

impl Learns {
    /// The name in errors.
    pub fn name(self) -> &'static str {
        match self {
            Learns::Receiver => "receiver",
            Learns::Both => "both",
            Learns::Aligned => "both, in one order",
        }
    }

    /// Whether the sender learns the result too.
    pub fn is_both(self) -> bool {
        self != Learns::Receiver
    }
}

impl Role {
    /// The byte that stands for it in messages.
    pub fn code(self) -> u8 {
        match self {
            Role::Receiver => 1,
            Role::Sender => 2,
        }
    }

    /// The role of this code.
    ///
    /// # Errors
    /// `PeerMisbehaved` for the code of none.
    pub fn from_code(code: u8) -> Result<Role, WireError> {
        match code {
            1 => Ok(Role::Receiver),
            2 => Ok(Role::Sender),
            _ => Err(bad("role", "unknown code")),
        }
    }

    /// Its half of a run, or of prepared correlations.
    pub fn half(self) -> Half {
        match self {
            Role::Receiver => Half::Receiver,
            Role::Sender => Half::Sender,
        }
    }

    /// The peer's part.
    pub fn other(self) -> Role {
        match self {
            Role::Receiver => Role::Sender,
            Role::Sender => Role::Receiver,
        }
    }
}
