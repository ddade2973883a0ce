//! What drivers tell each other of the attempts at their buckets.
//!
//! Both see the same two tallies, and so number the next attempts alike. A side's tally depends on failures alone.

use vesica_wire::{Channel, Error as WireError, Kind};

use crate::attempt::{check_job, job_name};
use crate::codec::{Reader, bad};
use crate::terms::{BUCKET_ATTEMPTS, LEARNS, REVEAL};
use crate::{Agreement, Attempt, Contract, Role};

const TALLY: Kind = Kind {
    code: 39,
    name: "attempts made",
};

/// Which attempts at each bucket a side has begun, and of which it has a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    /// For each bucket a bit for each attempt, the first in the lowest place.
    begun: Vec<u16>,
    results: Vec<u16>,
}

impl Tally {
    /// None so far.
    pub fn new(contract: &Contract) -> Tally {
        let none = vec![0; contract.buckets as usize];
        Tally {
            begun: none.clone(),
            results: none,
        }
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
    /// Fails with the number of a bucket that has had all its attempts.
    pub fn next(sides: [&Tally; 2], contract: &Contract) -> Result<Vec<Attempt>, u32> {
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
            let begun = sides[0].begun[bucket as usize] | sides[1].begun[bucket as usize];
            let number = u16::BITS - begun.leading_zeros();
            match number < contract.get(&BUCKET_ATTEMPTS) {
                true => Ok(Attempt { bucket, number }),
                false => Err(bucket),
            }
        };
        lacking.map(attempt).collect()
    }

    /// Four bytes for each bucket.
    pub fn encode(&self) -> Vec<u8> {
        let both = self.begun.iter().zip(&self.results);
        let bytes = both.flat_map(|(begun, results)| [begun.to_le_bytes(), results.to_le_bytes()]);
        bytes.flatten().collect()
    }

    /// Reads what a driver says of so many attempts at each of so many buckets.
    ///
    /// # Errors
    /// Bad message: another length, an attempt that there is not, or a result of one that has not begun.
    pub fn decode(message: &[u8], buckets: u32, attempts: u32) -> Result<Tally, WireError> {
        let mut reader = Reader::new(TALLY.name, message);
        let bucket = |_| {
            let [begun, results] = [reader.u16()?, reader.u16()?];
            let used = u16::BITS - begun.leading_zeros();
            match used > attempts || results & !begun != 0 {
                true => Err(bad(TALLY.name, "of attempts that there are not")),
                false => Ok((begun, results)),
            }
        };
        let both: Vec<_> = (0..buckets).map(bucket).collect::<Result<_, _>>()?;
        reader.end()?;
        let (begun, results) = both.into_iter().unzip();
        Ok(Tally { begun, results })
    }

    fn tell(&self, channel: &mut dyn Channel, agreement: &Agreement) -> Result<Tally, WireError> {
        channel.begin_phase("attempts");
        let (job, contract) = (&agreement.params.session, &agreement.contract);
        let mut message = job_name(job).to_vec();
        message.extend(self.encode());
        let length = message.len();
        channel.send(TALLY, message)?;
        channel.flush()?;
        let message = channel.recv(TALLY, length)?;
        let mut reader = Reader::new(TALLY.name, &message);
        check_job(&mut reader, job)?;
        let attempts = contract.get(&BUCKET_ATTEMPTS);
        Tally::decode(reader.rest(), contract.buckets, attempts)
    }

    /// Tells the peer's driver, and hears of its attempts. Returns those of the receiver and of the sender.
    ///
    /// Fails as the channel does; with `ContractDiffers` for another job; with `PeerMisbehaved`
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
