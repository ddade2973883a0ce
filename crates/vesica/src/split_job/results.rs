//! What attempts leave, and what becomes of it.

use std::collections::HashSet;

use vesica_psi::Output;
use vesica_session::terms::{BUCKET_ATTEMPTS, LEARNS};
use vesica_session::{
    Attempt, Attempted, BucketShares, Error as SessionError, KeySet, Role, State,
};
use vesica_wire::Error as WireError;
use zeroize::Zeroizing;

use super::{Content, SplitJob, hash, storage};
use crate::{Error, JobProblem};

impl SplitJob {
    /// What an attempt leaves.
    pub(super) fn result(&self) -> Content {
        match self.adds_up() {
            true => Content::Shares,
            false => Content::Bits,
        }
    }

    /// Keeps what an attempt has come to, if it is something: a bit for each padded place, or the attempt's name and shares in
    /// 8 bytes each. Neither the length nor the time depends on what matched.
    pub(super) fn keep_result(
        &self,
        attempt: Attempt,
        attempted: &Attempted,
    ) -> Result<(), WireError> {
        let result = match (BucketShares::of(attempted), attempted.output.matched()) {
            (Some(shares), _) => {
                let words = shares.words();
                let mut result = Zeroizing::new(Vec::with_capacity(8 * words.len()));
                result.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                result
            }
            (_, Some(matched)) => {
                let places = self.agreement.own_size(self.role);
                let mut bits = Zeroizing::new(vec![0u8; places.div_ceil(8)]);
                for (place, matched) in matched.iter().enumerate() {
                    bits[place / 8] |= u8::from(*matched) << (place % 8);
                }
                bits
            }
            (_, None) => return Ok(()),
        };
        self.seal(self.result(), attempt, &result).map_err(storage)
    }

    /// Whether there is a result of an attempt, as it was left.
    pub(super) fn is_usable(&self, attempt: Attempt) -> Result<bool, Error> {
        match self.content(self.result(), attempt) {
            Ok(result) => Ok(result.is_some()),
            Err(Error::Job { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Why there is no result of a bucket: because a file is damaged, or else as `otherwise` says.
    pub(super) fn lacks(&self, bucket: u32, otherwise: JobProblem) -> Error {
        let numbers = 0..self.contract().get(&BUCKET_ATTEMPTS);
        let attempts = numbers.map(|number| Attempt { bucket, number });
        let damaged = attempts.filter_map(|attempt| self.content(self.result(), attempt).err());
        let mut damaged = damaged.filter(|error| matches!(error, Error::Job { .. }));
        damaged.next().unwrap_or_else(|| self.problem(otherwise))
    }

    /// Tells a set, which has the keys that were split, what all tasks have found.
    ///
    /// # Errors
    /// Job: a bucket without a result, keys that have changed since, or a job from which this side learns nothing.
    pub(crate) fn collect(&self, set: &mut dyn KeySet) -> Result<(), Error> {
        self.check_learns()?;
        let run = |error: WireError| Error::from(SessionError::from(error));
        let mut state = State {
            found: Vec::new(),
            ..self.agreement.state.clone()
        };
        set.assign(&self.agreement.assignment(), &state)
            .map_err(run)?;
        for bucket in 0..self.contract().buckets {
            let keys = set.load(bucket).map_err(run)?;
            if hash(&keys.sorted(), &self.key, bucket) != self.hashes[bucket as usize] {
                return Err(self.problem(JobProblem::OtherKeys(bucket)));
            }
            let found: HashSet<[u8; 32]> = self.matches(bucket)?.into_iter().collect();
            let matched: Vec<bool> = (keys.digests)
                .iter()
                .map(|digest| found.contains(digest))
                .collect();
            drop(keys);
            state.found.push(found.len() as u64);
            set.finished(Output::Matches(matched), &state)
                .map_err(run)?;
        }
        Ok(())
    }

    fn check_learns(&self) -> Result<(), Error> {
        if self.adds_up() {
            return Err(self.problem(JobProblem::OfNumbers));
        }
        match self.role == Role::Receiver || self.contract().get(&LEARNS).is_both() {
            true => Ok(()),
            false => Err(self.problem(JobProblem::LearnsNothing)),
        }
    }

    /// The digests of a bucket that match, by its first attempt that has a result.
    ///
    /// # Errors
    /// Job: no such bucket, one without a result that can be used, keys other than those that were split, or a job from which
    /// this side learns nothing. Resource: a file cannot be read.
    pub fn matches(&self, bucket: u32) -> Result<Vec<[u8; 32]>, Error> {
        self.check_attempt(Attempt { bucket, number: 0 })?;
        self.check_learns()?;
        for number in 0..self.contract().get(&BUCKET_ATTEMPTS) {
            let attempt = Attempt { bucket, number };
            let bits = match self.content(Content::Bits, attempt) {
                Ok(Some(bits)) => bits,
                // Another attempt may have one.
                Ok(None) | Err(Error::Job { .. }) => continue,
                Err(error) => return Err(error),
            };
            let keys = self.keys(bucket)?;
            let digests = keys.digests.iter().copied().enumerate();
            let matched = digests.filter(|(place, _)| {
                bits.get(place / 8)
                    .is_some_and(|byte| byte >> (place % 8) & 1 == 1)
            });
            return Ok(matched.map(|(_, digest)| digest).collect());
        }
        Err(self.lacks(bucket, JobProblem::NoResult(bucket)))
    }
}
