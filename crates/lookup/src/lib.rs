//! One side publishes its set once, others ask about keys of their own later.
//!
//! The publisher applies the oblivious pseudorandom function of [`vesica_primitives::voprf`] to its own keys, and blindly to
//! those of who asks. A [`PublishedSet`] is the file of masks, in which a client finds the values that it gets.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
mod database;
mod error;
mod fetch;
mod header;
mod journal;
mod masks;
mod messages;
mod missing;
mod publish;
mod quotas;
mod rice;
mod server;
mod set;
mod state;
mod values;

pub use client::{Client, QUERY_BLOCKS, QUERY_BYTES};
pub use database::{Database, declared_in};
pub use error::{Error, Holder, SetProblem, StoreProblem};
pub use header::{Declared, Header, MAX_KEYS, MAX_QUERIES};
pub use missing::Missing;
pub use publish::{Content, Earlier, SetBuilder, Update, has_begun};
pub use server::{Figures, QueryLog, ServerEvent, Service};
pub use set::PublishedSet;
pub use state::{Matches, State};
