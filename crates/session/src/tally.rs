//! What drivers tell each other of the attempts at their buckets.
//!
//! Both see the same two tallies, and so number the next attempts alike. A side's tally depends on failures alone.

use vesica_wire::{Channel, Error as WireError, Kind};

use crate::codec::{Reader, bad};
use crate::terms::{BUCKET_ATTEMPTS, LEARNS, REVEAL};
use crate::{Agreement, Attempt, Contract, Role};

const TALLY: Kind = Kind {
    code: 39,
    name: "attempts made",
};

/// Which attempts at each bucket a side has begun, of which it has a result, and of which the peer has said that it has its
/// own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// For each bucket a bit for each attempt, the first in the lowest place.
    begun: Vec<u16>,
    results: Vec<u16>,
    confirmed: Vec<u16>,
}

/// Why there is no next attempt at a bucket that lacks a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAttempt {
    /// It has had all its attempts.
    NoneLeft(u32),
    /// A side has confirmed that it has the result that it lacks now: the other one does not answer again.
    Confirmed(u32),
}

impl Tally {
    /// None so far.
    pub fn new(contract: &Contract) -> Tally {
        let none = vec![0; contract.buckets as usize];
        Tally {
            begun: none.clone(),
            results: none.clone(),
            confirmed: none,
        }
    }

    /// The peer has confirmed an attempt.
    ///
    /// # Panics
    /// If there is no such attempt.
    pub fn confirm(&mut self, Attempt { bucket, number }: Attempt) {
        self.begun[bucket as usize] |= 1 << number;
        self.confirmed[bucket as usize] |= 1 << number;
    }

    /// An attempt that has begun.
    ///
    /// # Panics
    /// If there is no such attempt.
    pub fn add(&mut self, Attempt { bucket, number }: Attempt, has_result: bool) {
        self.begun[bucket as usize] |= 1 << number;
        self.results[bucket as usize] |= u16::from(has_result) << number;
    }

    /// Whether the attempt has a result. There is such an attempt.
    pub(crate) fn has_result(&self, Attempt { bucket, number }: Attempt) -> bool {
        self.results[bucket as usize] >> number & 1 == 1
    }

    /// The first attempt at a bucket of which both sides have a result.
    pub(crate) fn first_in_common([one, other]: [&Tally; 2], bucket: u32) -> Option<u8> {
        let both = one.results[bucket as usize] & other.results[bucket as usize];
        // A number of 16 attempts.
        (both != 0).then(|| both.trailing_zeros() as u8)
    }

    /// The attempts that both sides make next: one at each bucket of which a side that learns matches has no result, or,
    /// where numbers are added up, at each of which no attempt has a result on both sides. `sides` are the tallies of the
    /// receiver and the sender.
    ///
    /// # Errors
    /// Why there is none at a bucket, the same on both sides.
    pub fn next(sides: [&Tally; 2], contract: &Contract) -> Result<Vec<Attempt>, NoAttempt> {
        let learning = match contract.get(&LEARNS).is_both() {
            true => &sides[..],
            false => &sides[..1],
        };
        let lacking = (0..contract.buckets).filter(|bucket| {
            let lacks = |side: &&Tally| side.results[*bucket as usize] == 0;
            match contract.get(&REVEAL).is_value() {
                true => Tally::first_in_common(sides, *bucket).is_none(),
                false => learning.iter().any(lacks),
            }
        });
        let attempt = |bucket: u32| {
            if sides
                .iter()
                .any(|side| side.confirmed[bucket as usize] != 0)
            {
                return Err(NoAttempt::Confirmed(bucket));
            }
            let begun = sides[0].begun[bucket as usize] | sides[1].begun[bucket as usize];
            let number = u16::BITS - begun.leading_zeros();
            match number < contract.get(&BUCKET_ATTEMPTS) {
                true => Ok(Attempt { bucket, number }),
                false => Err(NoAttempt::NoneLeft(bucket)),
            }
        };
        lacking.map(attempt).collect()
    }

    /// Six bytes for each bucket.
    pub fn encode(&self) -> Vec<u8> {
        let of_bucket =
            |bucket| [&self.begun, &self.results, &self.confirmed].map(|bits| bits[bucket]);
        let words = (0..self.begun.len()).flat_map(of_bucket);
        words.flat_map(u16::to_le_bytes).collect()
    }

    /// Reads what a driver says of so many attempts at each of so many buckets.
    ///
    /// # Errors
    /// Bad message: another length, an attempt that there is not, or a result or an end of one that has not begun.
    pub fn decode(message: &[u8], buckets: u32, attempts: u32) -> Result<Tally, WireError> {
        let mut reader = Reader::new(TALLY.name, message);
        let mut tally = Tally {
            begun: Vec::new(),
            results: Vec::new(),
            confirmed: Vec::new(),
        };
        for _ in 0..buckets {
            let [begun, results, confirmed] = [reader.u16()?, reader.u16()?, reader.u16()?];
            let used = u16::BITS - begun.leading_zeros();
            if used > attempts || (results | confirmed) & !begun != 0 {
                return Err(bad(TALLY.name, "of attempts that there are not"));
            }
            tally.begun.push(begun);
            tally.results.push(results);
            tally.confirmed.push(confirmed);
        }
        reader.end()?;
        Ok(tally)
    }

    fn tell(&self, channel: &mut dyn Channel, agreement: &Agreement) -> Result<Tally, WireError> {
        channel.begin_phase("attempts");
        let contract = &agreement.contract;
        let message = self.encode();
        let length = message.len();
        channel.send(TALLY, message)?;
        channel.flush()?;
        let message = channel.recv(TALLY, length)?;
        Tally::decode(&message, contract.buckets, contract.get(&BUCKET_ATTEMPTS))
    }

    /// Tells the peer's driver, which is [of this job](crate::agree_on_job), and hears of its attempts. Returns those of the
    /// receiver and of the sender.
    ///
    /// Fails as the channel does; with `PeerMisbehaved`
    /// for attempts that there are not. The peer has been told then.
    pub fn exchange(
        self,
        channel: &mut dyn Channel,
        role: Role,
        agreement: &Agreement,
    ) -> Result<[Tally; 2], WireError> {
        let theirs = self.tell(channel, agreement);
        let theirs = theirs.inspect_err(|error| channel.abort(error))?;
        Ok(match role {
            Role::Receiver => [self, theirs],
            Role::Sender => [theirs, self],
        })
    }
}
