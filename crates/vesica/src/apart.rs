//! What a run writes has a place of its own. Whoever names more than the library knows of, as the command does, says all of
//! it with [`Paths`] before.

use vesica_tables::{Destination, Paths, Source};

use crate::Error;

/// Refuses what is written in the place of anything else that is named. `more` adds what is neither tables nor the output.
pub(crate) fn check_apart(
    sources: &[&Source],
    output: Option<Destination<'_>>,
    more: impl FnOnce(&mut Paths),
) -> Result<(), Error> {
    let mut paths = Paths::default();
    sources.iter().for_each(|source| source.add_to(&mut paths));
    output
        .into_iter()
        .for_each(|output| output.add_to(&mut paths));
    paths.reads_credentials();
    more(&mut paths);
    Ok(paths.check()?)
}
