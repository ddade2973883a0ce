//! Intersecting sets of byte strings, without tables.

use std::collections::HashMap;

use vesica_session::{Connection, Job, NoProgress, Role, run};

use crate::Error;

/// Intersects byte strings with those of the peer, which calls this with the other role: which of `items`, by their
/// indices in ascending order, the sender has too. `None` on the sender. Each side learns how many
/// different items the other one has. Bytes are compared as they are; an item that comes twice is found twice.
///
/// The run withstands a peer that does anything. For other terms, see [`Job`] and [`vesica_session::run`].
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
    let mut places = HashMap::<&[u8; 32], Vec<usize>>::with_capacity(digests.len());
    let mut distinct = Vec::with_capacity(digests.len());
    for (index, digest) in digests.iter().enumerate() {
        let places = places.entry(digest).or_default();
        if places.is_empty() {
            distinct.push(*digest);
        }
        places.push(index);
    }
    let job = Job::new(role, vec![normalization.to_owned()]);
    let outcome = run(connection, &job, &distinct, &mut NoProgress)?;
    Ok(outcome.matches.map(|matches| {
        let of_match = |index: &u32| places[&distinct[*index as usize]].iter().copied();
        let mut found: Vec<usize> = matches.iter().flat_map(of_match).collect();
        found.sort_unstable();
        found
    }))
}
