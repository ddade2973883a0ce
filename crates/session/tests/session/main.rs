//! Two parties on one machine, from the first connection to the last bucket.

#[cfg(feature = "tee")]
mod attestation;
mod buckets;
mod common;
mod connect;
mod contract;
mod identity;
mod job;
mod labels;
mod seam;
