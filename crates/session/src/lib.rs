//! From a connection to a result: identities, TLS, the contract that both sides sign up to, the
//! job itself and its report.
#![forbid(unsafe_code)]

mod connect;
mod contract;
mod error;
mod fingerprint;
mod identity;
mod items;
mod job;
mod report;

pub use connect::{ConnectOptions, Connection, Endpoint, Listener, Transport, connect};
pub use contract::{Contract, Hello, Learns, Payload, ProtocolRequest, Reveal, Role};
pub use error::Error;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use identity::{Identity, Loaded};
pub use items::salt_items;
pub use job::{Agreement, Job, Outcome, Progress, Silent, agree, confirm_done, run};
pub use report::Report;
pub use vesica_psi::{Protocol, Security};
pub use vesica_wire::{Interrupt, Link};
