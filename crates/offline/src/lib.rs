//! Prepared correlations: what two parties, or a dealer, make before anybody knows an item, and what is kept of it until
//! one run takes it.
//!
//! - [`OfflineStore`] keeps this side's halves; it is the [`HalfSource`](vesica_session::HalfSource) of a job.
//! - [`make_half`] makes a pair with the peer. [`fetch_half`] gets a half from a dealer, which is [`deal`], or from this
//!   party's generator, which is [`generate`] and agrees with the peer's on what to make.
//! - An [`Attester`] has the machine of a dealer or generator report what it runs; [`Expected`] is what a party wants to see.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod attestation;
mod claims;
mod error;
mod generators;
mod handing;
mod pairs;
mod random;
#[cfg(test)]
mod recorded;
mod request;
mod store;
#[cfg(test)]
mod tests;

pub use attestation::{
    Attester, Evidence, Expected, MAX_EVIDENCE, Simulated, Tsm, Verifier, attester,
};
#[cfg(feature = "tee")]
pub use attestation::{Product, SevSnp, TcbLevel, Tdx};
pub use claims::{Claims, Measurement, NoMeasurement, Platform, ReportData, Untrusted};
pub use error::{Attested, Error, Misfit};
pub use generators::{Share, generate};
pub use pairs::{HalfRequest, Shown, deal, fetch_half, make_half};
pub use request::DealerRequest;
pub use store::{Listing, OfflineStore, OfflineTerms, StoredHalf};
