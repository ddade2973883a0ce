//! Who takes part in a run, and who learns of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use vesica_wire::Error as WireError;

use crate::codec::bad;

/// Defines an enum whose values have a code on the wire and a name for people.
macro_rules! coded {
    ($(#[$doc:meta])* $name:ident, $field:literal { $($(#[$vdoc:meta])* $variant:ident = $code:literal, $text:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            pub(crate) fn code(self) -> u8 {
                match self { $($name::$variant => $code,)+ }
            }

            pub(crate) fn from_code(code: u8) -> Result<Self, WireError> {
                match code {
                    $($code => Ok($name::$variant),)+
                    _ => Err(bad($field, "unknown code")),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $($name::$variant => $text,)+ })
            }
        }
    };
}

pub(crate) use coded;

coded! {
    /// A party's part in the job.
    Role, "role" {
        /// Learns the result.
        Receiver = 1, "receiver";
        /// Helps the receiver and learns sizes only.
        Sender = 2, "sender";
    }
}

/// Who gets the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Learns {
    /// The receiver alone.
    Receiver,
    /// Both: the receiver tells the sender which items matched. It can lie about them.
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

    /// Whether the sender learns the matches too.
    pub fn is_both(self) -> bool {
        self != Learns::Receiver
    }
}

impl Role {
    /// The peer's part.
    pub fn other(self) -> Role {
        match self {
            Role::Receiver => Role::Sender,
            Role::Sender => Role::Receiver,
        }
    }
}
