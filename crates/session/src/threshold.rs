//! Matches of several buckets, if enough are in all together.
//!
//! A bucket leaves each side with shares of which cells match, which are uniform. Its set keeps them. Once all buckets have
//! run, the protocol counts the shared cells of all, compares the sum with the minimum, once, and opens the cells of each
//! bucket, none of which matches unless enough do ([`AddsUp::open_matches`]). What is sent depends on the number of cells
//! alone, and so does the time that a set takes.
//!
//! The session is one of its own, and nothing is opened twice: a run that breaks off is no use to a later one.
//!
//! [`AddsUp::open_matches`]: vesica_psi::AddsUp::open_matches

use vesica_psi::SharedMatches;
use vesica_wire::{Channel, Error as WireError};
use zeroize::Zeroizing;

use crate::buckets::bucket_session;
use crate::random::fresh_rng;
use crate::{Agreement, KeySet, Role, State};

/// A set's shares, and how many keys of each bucket have turned out to match.
struct OfBuckets<'a> {
    set: &'a mut dyn KeySet,
    found: &'a mut [u64],
}

impl SharedMatches for OfBuckets<'_> {
    fn shares(&mut self, bucket: u32) -> Result<Zeroizing<Vec<bool>>, WireError> {
        self.set.shares_of(bucket)
    }

    fn opened(&mut self, bucket: u32, matches: &[bool]) -> Result<(), WireError> {
        self.found[bucket as usize] = self.set.opened(bucket, matches)?;
        Ok(())
    }
}

/// Opens the matches of all buckets, which have run.
///
/// # Panics
/// If the protocol does not open matches of buckets.
pub(crate) fn open_matches(
    channel: &mut dyn Channel,
    role: Role,
    agreement: &Agreement,
    state: &mut State,
    set: &mut dyn KeySet,
) -> Result<(), WireError> {
    let mut params = agreement.params.clone();
    // That of a bucket after the last.
    params.session = bucket_session(&params.session, agreement.contract.buckets);
    let adds_up = agreement.protocol.adds_up();
    let adds_up = adds_up.expect("a protocol that adds up");
    let mut shares = OfBuckets {
        set,
        found: &mut state.found,
    };
    adds_up.open_matches(
        channel,
        role.half(),
        &params,
        &agreement.task,
        &mut shares,
        &mut fresh_rng()?,
    )
}
