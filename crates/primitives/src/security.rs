//! Whom a run withstands.

/// What an adversary may do.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Security {
    /// Follows the protocol and looks at what it sees.
    SemiHonest,
    /// Does anything.
    Malicious,
}

impl Security {
    /// The name in commands, contracts and reports.
    pub fn name(self) -> &'static str {
        match self {
            Security::SemiHonest => "semi-honest",
            Security::Malicious => "malicious",
        }
    }
}
