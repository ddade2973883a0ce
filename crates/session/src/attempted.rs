//! What the run over a bucket has come to, and what it leaves of numbers.

use serde::{Deserialize, Serialize};
use vesica_psi::Output;
use zeroize::Zeroizing;

/// What an attempt has come to.
#[derive(Debug)]
pub struct Attempted {
    /// What this side learns about its digests, or has of numbers ([`Output::NumberShares`]).
    pub output: Output,
    /// The name of the attempt, the same on both sides: no other one has it, not even one at the same bucket with the same
    /// number.
    pub name: [u8; 32],
}

/// One side's part of the numbers of a bucket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<u64>", try_from = "Vec<u64>")]
pub struct BucketShares {
    /// The [name](crate::Attempted::name) of the attempt that made them.
    pub attempt: [u8; 32],
    /// Shares, modulo 2^64 each ([`Output::NumberShares`]).
    pub shares: Zeroizing<Vec<u64>>,
}

vesica_primitives::opaque!(BucketShares);

impl BucketShares {
    /// What an attempt leaves of numbers; `None` if it is of none.
    pub fn of(attempted: &Attempted) -> Option<BucketShares> {
        match &attempted.output {
            Output::NumberShares(shares) => Some(BucketShares {
                attempt: attempted.name,
                shares: shares.clone(),
            }),
            _ => None,
        }
    }

    /// The name in four words of eight bytes each, the lowest first, and the shares.
    pub fn words(&self) -> Zeroizing<Vec<u64>> {
        let name = self.attempt.as_chunks::<8>().0.iter();
        let name = name.map(|word| u64::from_le_bytes(*word));
        Zeroizing::new(name.chain(self.shares.iter().copied()).collect())
    }

    /// What [`BucketShares::words`] gives; `None` for fewer than those of a name.
    pub fn from_words(words: &[u64]) -> Option<BucketShares> {
        let (name, shares) = words.split_first_chunk::<4>()?;
        let mut attempt = [0; 32];
        let bytes = name.iter().flat_map(|word| word.to_le_bytes());
        attempt
            .iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = from);
        Some(BucketShares {
            attempt,
            shares: Zeroizing::new(shares.to_vec()),
        })
    }
}

impl From<BucketShares> for Vec<u64> {
    fn from(of: BucketShares) -> Vec<u64> {
        of.words().to_vec()
    }
}

impl TryFrom<Vec<u64>> for BucketShares {
    type Error = &'static str;

    fn try_from(words: Vec<u64>) -> Result<BucketShares, &'static str> {
        let words = Zeroizing::new(words);
        BucketShares::from_words(&words).ok_or("shares of a bucket without a name")
    }
}
