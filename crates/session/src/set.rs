//! The set that a run works on: whole, or bucket by bucket from wherever it is kept.

use std::borrow::Cow;

use vesica_wire::Error as WireError;

use crate::Assignment;

/// How far a run in buckets has come, kept by a [`KeySet`] so that another run can go on after it.
///
/// Nothing in it is worth anything for the protocol: randomness, correlations and sessions are
/// fresh in every run. `origin` names the run that assigned items to buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Digest of the agreed contract.
    pub contract: [u8; 32],
    /// Session of the first run of all that went on after one another.
    pub origin: [u8; 32],
    /// For each finished bucket, from the first on, how many matches it had; zero on a side that
    /// may not know.
    pub found: Vec<u64>,
}

/// One side's distinct keys, as 32-byte digests, and where its matches go.
///
/// A failure is told to the peer as a limit of this side.
pub trait KeySet: Send {
    /// How many keys there are.
    fn items(&self) -> u64;

    /// How far an earlier run of the same job came; `None` if there was none, or nothing is kept.
    fn state(&self) -> Option<State> {
        None
    }

    /// Puts the keys into buckets.
    fn assign(&mut self, assignment: &Assignment) -> Result<(), WireError>;

    /// The digests in a bucket, and forgets what has been found in it. No digest comes twice.
    fn load(&mut self, bucket: u32) -> Result<Cow<'_, [[u8; 32]]>, WireError>;

    /// The run of the bucket that was loaded last is over; takes the indices of the digests that
    /// the peer also has, ascending, if this side may know them. What is kept is on the disk when
    /// this returns.
    fn finished(&mut self, matches: Option<&[u32]>, state: &State) -> Result<(), WireError>;
}

/// A set in memory, of which nothing is kept.
pub(crate) struct Slice<'a> {
    digests: &'a [[u8; 32]],
    /// For each bucket the indices of its digests; empty as long as there is one bucket.
    buckets: Vec<Vec<u32>>,
    current: u32,
    /// Indices of matching digests, once this side knows of any.
    pub(crate) matches: Option<Vec<u32>>,
}

impl<'a> Slice<'a> {
    /// The digests must be distinct, and at most 2³² − 1.
    pub(crate) fn new(digests: &'a [[u8; 32]]) -> Slice<'a> {
        Slice {
            digests,
            buckets: Vec::new(),
            current: 0,
            matches: None,
        }
    }
}

impl KeySet for Slice<'_> {
    fn items(&self) -> u64 {
        self.digests.len() as u64
    }

    fn assign(&mut self, assignment: &Assignment) -> Result<(), WireError> {
        self.buckets.clear();
        if assignment.buckets() > 1 {
            self.buckets
                .resize(assignment.buckets() as usize, Vec::new());
            for (index, digest) in (0..).zip(self.digests) {
                self.buckets[assignment.bucket(digest) as usize].push(index);
            }
        }
        Ok(())
    }

    fn load(&mut self, bucket: u32) -> Result<Cow<'_, [[u8; 32]]>, WireError> {
        self.current = bucket;
        Ok(match self.buckets.get(bucket as usize) {
            None => Cow::Borrowed(self.digests),
            Some(indices) => indices.iter().map(|i| self.digests[*i as usize]).collect(),
        })
    }

    fn finished(&mut self, matches: Option<&[u32]>, _: &State) -> Result<(), WireError> {
        let Some(matches) = matches else {
            return Ok(());
        };
        let all = self.matches.get_or_insert_default();
        match self.buckets.get(self.current as usize) {
            None => all.extend_from_slice(matches),
            Some(indices) => {
                all.extend(matches.iter().map(|i| indices[*i as usize]));
                all.sort_unstable();
            }
        }
        Ok(())
    }
}
