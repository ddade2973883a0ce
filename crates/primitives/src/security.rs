//! The adversary of a run, how its base transfers agree on keys, and how the events of a run share the statistical error.

/// What an adversary may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// Follows the protocol and examines what it sees.
    SemiHonest,
    /// May do anything as the sender, and follows the protocol as the receiver.
    MaliciousSender,
    /// May do anything.
    Malicious,
}

impl Security {
    /// Whether a party may deviate from the protocol.
    pub fn is_malicious(self) -> bool {
        self != Security::SemiHonest
    }

    /// What each side relies on, as a sentence goes on.
    pub fn trusts(self) -> &'static str {
        match self {
            Security::SemiHonest => "each side then trusts the other to follow the protocol",
            Security::MaliciousSender => {
                "the sender then trusts the receiver to follow the protocol"
            }
            Security::Malicious => "neither side then trusts the other",
        }
    }

    /// The name in commands, contracts and reports.
    pub fn name(self) -> &'static str {
        match self {
            Security::SemiHonest => "semi-honest",
            Security::MaliciousSender => "malicious-sender",
            Security::Malicious => "malicious",
        }
    }
}

/// How the parties of base oblivious transfers agree on keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyAgreement {
    /// By Diffie-Hellman on Curve25519: whoever keeps the messages can find the keys with a quantum computer.
    #[default]
    Classical,
    /// By that and by ML-KEM-768: the keys stay secret as long as either holds.
    Hybrid,
}

/// λ + ⌈log₂ `events`⌉: if each of `events` events has a probability of at most 2^-result, then any of them
/// happens with probability at most 2^-`lambda`. Everything that promises 2^-λ for several events uses this.
pub fn lambda_each(lambda: u32, events: u32) -> u32 {
    lambda + events.next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_share_the_error() {
        for events in 1..200u32 {
            let each = lambda_each(40, events) - 40;
            assert!(u64::from(events) <= 1 << each);
            assert!(events == 1 || u64::from(events) > 1 << (each - 1));
        }
    }
}
