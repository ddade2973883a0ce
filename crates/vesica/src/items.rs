//! Intersecting sets of byte strings, without tables.

use vesica_keys::Distinct;
use vesica_session::{Connection, Error as SessionError, Job, NoProgress, Role, run, with_threads};

use crate::Error;

/// Intersects byte strings with those of the peer, which calls this with the other role: which of `items`, by their
/// indices in ascending order, the sender has too. `None` on the sender. Each side learns how many
/// different items the other one has. Bytes are compared as they are; an item that comes twice is found twice.
///
/// The run withstands a peer that does anything, and computes on all threads of this machine. For other terms and threads, see
/// [`Job`], [`vesica_session::run`] and [`with_threads`].
///
/// # Errors
/// Session: the connection breaks, or the peer misbehaves or runs something else.
pub fn intersect<T: AsRef<[u8]>>(
    connection: Connection,
    role: Role,
    items: &[T],
) -> Result<Option<Vec<usize>>, Error> {
    let digest = |item: &T| blake3::derive_key("vesica/1 byte strings", item.as_ref());
    let digests: Vec<[u8; 32]> = items.iter().map(digest).collect();
    found_in(connection, role, "bytes/1", &digests)
}

/// Intersects digests of 32 bytes as [`intersect`] does byte strings.
///
/// # Errors
/// As [`intersect`].
pub fn intersect_digests(
    connection: Connection,
    role: Role,
    digests: &[[u8; 32]],
) -> Result<Option<Vec<usize>>, Error> {
    found_in(connection, role, "digests/1", digests)
}

fn found_in(
    connection: Connection,
    role: Role,
    normalization: &str,
    digests: &[[u8; 32]],
) -> Result<Option<Vec<usize>>, Error> {
    if u32::try_from(digests.len()).is_err() {
        return Err(SessionError::Usage("at most 2^32 - 1 items".into()).into());
    }
    let job = Job::new(role, vec![normalization.to_owned()]);
    with_threads(None, || {
        let distinct = Distinct::of(digests);
        let outcome = run(connection, &job, distinct.digests(), &mut NoProgress)?;
        Ok(outcome.matches.map(|matches| {
            let of_match = |index: &u32| distinct.places(*index as usize).iter();
            let found = matches.iter().flat_map(of_match);
            let mut found: Vec<usize> = found.map(|place| *place as usize).collect();
            found.sort_unstable();
            found
        }))
    })?
}
