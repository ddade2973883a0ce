//! Under what conditions a command runs.

use vesica_session::Link;

/// What a benchmark changes about a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// The emulated link for what this side sends.
    pub(crate) link: Link,
    /// Whether frames go over loopback as they are.
    pub(crate) is_plaintext: bool,
}

impl Conditions {
    /// Those of every run but a benchmark's.
    pub(crate) const REAL: Conditions = Conditions {
        link: Link::LAN,
        is_plaintext: false,
    };
}
