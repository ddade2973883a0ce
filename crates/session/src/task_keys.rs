//! The keys of tasks, which the drivers of a job vouch for.
//!
//! No task has its side's identity. A driver makes a key pair for each bucket and attempt, and tells the other driver their
//! fingerprints, and how long they count, over the connection on which both have proved their identities. A task then pins
//! the one key that the peer's task for the same bucket and attempt has.

use vesica_wire::{Channel, Error as WireError, Kind};

use crate::codec::{Reader, bad};
use crate::terms::BUCKET_ATTEMPTS;
use crate::{Attempt, Contract, Fingerprint, Role};

const TASK_KEYS: Kind = Kind {
    code: 38,
    name: "keys of tasks",
};

/// The fingerprints of one side's tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskKeys {
    /// When they cease to count, in seconds since 1970.
    pub expires: u64,
    /// One for each attempt at each bucket, those of a bucket together.
    pub fingerprints: Vec<Fingerprint>,
}

impl TaskKeys {
    /// How many there are in a job.
    pub fn count(contract: &Contract) -> usize {
        contract.buckets as usize * contract.get(&BUCKET_ATTEMPTS) as usize
    }

    /// The place of an attempt among them.
    pub fn place(contract: &Contract, attempt: Attempt) -> usize {
        attempt.bucket as usize * contract.get(&BUCKET_ATTEMPTS) as usize + attempt.number as usize
    }

    /// Which task has this key.
    pub fn attempt(&self, contract: &Contract, key: Fingerprint) -> Option<Attempt> {
        let place = self.fingerprints.iter().position(|known| *known == key)?;
        let attempts = contract.get(&BUCKET_ATTEMPTS) as usize;
        // A place among the keys of a contract has 32 bits.
        Some(Attempt {
            bucket: (place / attempts) as u32,
            number: (place % attempts) as u32,
        })
    }

    /// The message: when they cease to count, 8 bytes, and 32 bytes for each fingerprint.
    pub fn encode(&self) -> Vec<u8> {
        let mut message = self.expires.to_le_bytes().to_vec();
        message.extend(self.fingerprints.iter().flat_map(Fingerprint::as_bytes));
        message
    }

    /// Reads the message about so many tasks.
    ///
    /// # Errors
    /// Bad message: another length.
    pub fn decode(message: &[u8], count: usize) -> Result<TaskKeys, WireError> {
        let mut reader = Reader::new(TASK_KEYS.name, message);
        let expires = reader.u64()?;
        let fingerprints = (0..count).map(|_| Ok(Fingerprint::from_bytes(reader.array()?)));
        let fingerprints = fingerprints.collect::<Result<_, WireError>>()?;
        reader.end()?;
        Ok(TaskKeys {
            expires,
            fingerprints,
        })
    }

    fn tell(&self, channel: &mut dyn Channel) -> Result<(), WireError> {
        channel.send(TASK_KEYS, self.encode())?;
        channel.flush()
    }

    /// Tells the peer, and hears of its tasks. The receiver speaks first.
    pub(crate) fn exchange(
        &self,
        channel: &mut dyn Channel,
        role: Role,
        contract: &Contract,
    ) -> Result<TaskKeys, WireError> {
        channel.begin_phase("keys of tasks");
        let count = TaskKeys::count(contract);
        if role == Role::Receiver {
            self.tell(channel)?;
        }
        let theirs = TaskKeys::decode(&channel.recv(TASK_KEYS, 8 + 32 * count)?, count)?;
        let all = theirs.fingerprints.iter().chain(&self.fingerprints);
        let mut known: Vec<_> = all.collect();
        known.sort_unstable();
        if known.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(bad(TASK_KEYS.name, "one key for two tasks"));
        }
        if role == Role::Sender {
            self.tell(channel)?;
        }
        Ok(theirs)
    }
}
