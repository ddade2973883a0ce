//! From a connection to a result: identities, TLS, the contract that both sides agree to, the job itself and
//! its report.
//!
//! 1. [`connect()`] makes a connection to the one peer whose [`Fingerprint`] is pinned.
//! 2. [`agree()`] compares contracts; a difference ends the run on both sides, before anything
//!    derived from an item has been sent.
//! 3. The session that both sides derive salts the items ([`salt_items`]), and the protocol runs.
//! 4. [`confirm_done`] tells the sender that the receiver has its result.
//!
//! [`run`] does 2 to 4. [`run_set`] does so for a [`KeySet`] that need not be in memory: sets that do not fit
//! go through the protocol in buckets, and a failed run can resume where it stopped. Every [`Error`] says
//! whose fault it is.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod address;
mod agree;
mod attempt;
mod attempted;
mod authorities;
mod base32;
mod buckets;
mod carrier;
mod charges;
pub mod codec;
mod connect;
mod connection;
mod contract;
mod courier;
mod deadline;
mod error;
#[cfg(test)]
mod every_run;
mod examine;
mod fingerprint;
mod gateway;
mod group_terms;
mod groups;
mod halves;
mod identity;
mod incident;
mod intent;
mod invitation;
mod items;
mod job;
mod key_exchange;
mod labels;
#[cfg(test)]
mod lengths;
mod listener;
mod noise;
mod nonces;
mod offers;
mod one_bucket;
mod opening;
mod order;
mod outer;
mod parties;
mod problem;
mod progress;
mod proxy;
pub mod random;
mod readiness;
mod receipt;
#[cfg(test)]
mod recorded;
mod report;
mod rounds;
mod run;
mod secret;
mod set;
mod tally;
mod task_keys;
pub mod terms;
mod threads;
mod threshold;
mod tls;
mod tls_stream;
mod tunnel;
mod turns;
mod value;
mod wait;
mod watched;
mod web_request;
mod web_socket;

pub use address::Address;
pub use agree::{Agreement, agree, confirm_done};
pub use attempt::{Attempt, AttemptLog, agree_on_job, run_bucket, run_bucket_on};
pub use attempted::{Attempted, BucketShares};
pub use authorities::Authorities;
pub use buckets::Assignment;
pub use charges::{Charge, NoiseRequest, NoiseTerms};
pub use connect::{
    Endpoint, accept_and_connect, addresses, connect, connect_once, connect_through,
};
pub use connection::{ConnectOptions, Connection, Transport};
pub use contract::{
    Begin, Contract, Hello, LocalFacts, MAX_HELLO, MAX_PURPOSE, NO_LIMIT, ProtocolRequest, Resume,
    StartOver,
};
pub use courier::{Envelope, MAX_MESSAGE, Turn, goes_by_messages, hash_of_said, take_turn};
pub use deadline::Deadline;
pub use error::{Again, Error, NoConnection, NotAdmitted, more_halves};
pub use examine::{Introduction, MAX_TEXT, Measured, introduce, measure};
pub use fingerprint::{Fingerprint, FingerprintError};
pub use gateway::{Admission, Gateway, GatewayFigures, GatewayOptions, Visit};
pub use group_terms::GroupTerms;
pub use groups::{GROUP_BYTES, GroupNumbers, GroupSizes, Grouping};
pub use halves::{HalfSource, Purpose};
pub use identity::{Identity, PublicKey, SIGNATURE_BYTES};
pub use incident::{Incident, OnIncident, Refused};
pub use intent::Intent;
pub use invitation::{InvitableTerm, Invitation, InvitationError, MAX_INVITATION};
pub use items::salt_items;
pub use job::{Job, PeerLimits};
pub use labels::{
    LabelExchange, LabelTerms, MAX_LABEL_BYTES, MAX_LABEL_COLUMNS, MAX_LABEL_NAME,
    MAX_ROWS_PER_KEY, MAX_STRING_BYTES,
};
pub use listener::{BoundListener, Listener};
pub use noise::{Noise, NoiseReport, NoiseScale, NoisyNumber};
pub use offers::{MAX_OFFERS, Name, Offer};
pub use opening::{Choice, NoChoice, Opened, RUNS_OF_SHARES, exchange_openings, open_total};
pub use parties::{Learns, Role};
pub use problem::Problem;
pub use progress::{NoProgress, ObservedChannel, Progress};
pub use proxy::{Proxies, Proxy};
pub use readiness::Readiness;
pub use receipt::{Receipt, Receipts, Statement};
pub use report::{Report, rfc3339};
pub use run::{
    Agreed, Outcome, agree_on_set, run, run_over, run_set, run_set_over, run_whole_with,
};
pub use secret::{read_secret, read_secret_from};
pub use set::{Checkpoint, KeySet, MemorySet, State};
pub use tally::{NoAttempt, Tally};
pub use task_keys::TaskKeys;
pub use terms::{OptimizeRequest, Setting, Term, TermValue, Terms, VERSION};
pub use threads::{buckets_for_threads, with_threads};
pub use tls::is_server_name;
pub use turns::Turns;
pub use value::{Decimal, MAX_SCALE, RepeatedKeys, ValueTerms, check_values};
pub use vesica_files::{Advice, Argument, Command, ErrorClass, Face, Part, spelled};
pub use vesica_keys::KeyBlock;
pub use vesica_plan::Registry;
pub use vesica_plan::buckets::MAX_BUCKETS;
pub use vesica_primitives::laplace::Epsilon;
pub use vesica_psi::{
    GroupMinimum, MAX_GROUPS, MAX_VALUE_COLUMNS, Optimize, Reveal, Reveals, Security,
};
pub use vesica_wire::{Interrupt, InterruptGuard, Link, POLL, ReadHalf, WriteHalf, discard};
pub use watched::{Watch, WatchedChannel};
#[doc(hidden)]
pub use web_socket::read_web_socket;
