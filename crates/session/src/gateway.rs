//! A gateway: one address at which the tasks of both sides of a job meet.
//!
//! 1. The gateway sends a challenge.
//! 2. The task says its role, the job's name here, bucket and attempt, and a keyed hash of all that and the challenge
//!    under the token of the job ([`Admission`]). So an answer that was overheard fits no other challenge.
//! 3. Once both roles of an attempt are there, the gateway says so to both, and copies bytes. The receiver begins TLS.
//!
//! A gateway remembers nothing of the pairs that it has made: which attempts have begun is known to the two sides alone,
//! which make each once. A pair that breaks off before it is secure comes again.
//!
//! TLS runs between the tasks, whose keys pin each other: a gateway can read, change and forge nothing of it.

mod serve;
mod visit;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vesica_files::{found_at, read_regular};
use vesica_plan::buckets::MAX_BUCKETS;
use zeroize::Zeroizing;

pub use serve::{Gateway, GatewayFigures, GatewayOptions};
pub use visit::Visit;
pub(crate) use visit::Visited;

use crate::secret::MAX_SECRET;
use crate::terms::{BUCKET_ATTEMPTS, MAX_BUCKET_ATTEMPTS};
use crate::{Agreement, Attempt, Error, Role, read_secret};

/// What a gateway says first is this and the challenge.
const MAGIC: [u8; 16] = *b"vesica/2 gateway";
const CHALLENGE: usize = 32;
const GREETING: usize = MAGIC.len() + CHALLENGE;
/// Role, name, bucket, attempt, keyed hash.
const ANSWER: usize = 1 + 32 + 4 + 4 + 32;

/// What a gateway says of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Verdict {
    /// The peer's task is there too.
    Paired = 1,
    /// No such job, bucket or attempt, or a wrong token.
    Unknown = 2,
    /// Another task of this side has come for this bucket and attempt, in the place of this one.
    Replaced = 3,
    /// As many tasks are here as there may be.
    Full = 4,
    /// The peer's task has not come in time.
    Alone = 5,
    /// The gateway stops.
    Stopping = 6,
}

impl Verdict {
    fn of(byte: u8) -> Option<Verdict> {
        use Verdict::{Alone, Full, Paired, Replaced, Stopping, Unknown};
        [Paired, Unknown, Replaced, Full, Alone, Stopping]
            .into_iter()
            .find(|verdict| *verdict as u8 == byte)
    }
}

/// What a gateway has to know of a job, to take its tasks and nobody else's: the job's name here, the token, and which
/// buckets and attempts there are. Whoever has it can keep tasks of the job from meeting, and no more.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    #[serde(with = "hex")]
    job: [u8; 32],
    #[serde(with = "hex")]
    token: [u8; 32],
    buckets: u32,
    attempts: u32,
}

vesica_primitives::opaque!(Admission, buckets, attempts);

impl Admission {
    /// The admission of a job's tasks. Both drivers have the same.
    pub fn of(agreement: &Agreement) -> Admission {
        let derive = |text: &[u8]| *blake3::keyed_hash(&agreement.params.session, text).as_bytes();
        Admission {
            job: derive(b"vesica/1 job at a gateway"),
            token: derive(b"vesica/1 token of a gateway"),
            buckets: agreement.contract.buckets,
            attempts: agreement.contract.get(&BUCKET_ATTEMPTS),
        }
    }

    /// Reads the file that [`Admission::to_json`] has made.
    ///
    /// Fails as [`read_secret`], and with [`Error::SecretFile`] if it is none.
    pub fn load(path: &Path) -> Result<Admission, Error> {
        let fail = |problem: String| Error::SecretFile {
            path: path.to_owned(),
            problem,
        };
        let refused = || {
            let found = found_at(path).unwrap_or("a file of another kind");
            fail(format!(
                "this is {found}, and not the admission to a gateway that gateway.json of a job is"
            ))
        };
        // Who may read it matters of an admission alone. What cannot be read now is read once more.
        let is_one = match read_regular(path, MAX_SECRET).map(Zeroizing::new) {
            Ok(text) => Admission::from_json(&text).is_ok(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(fail("no such file".into()));
            }
            Err(e) => !matches!(
                e.kind(),
                io::ErrorKind::FileTooLarge
                    | io::ErrorKind::IsADirectory
                    | io::ErrorKind::InvalidInput
            ),
        };
        if !is_one {
            return Err(refused());
        }
        Admission::from_json(&read_secret(path)?).map_err(|_| refused())
    }

    /// Reads what [`Admission::to_json`] has made.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &[u8]) -> Result<Admission, String> {
        let read: Admission = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        let may_be = (1..=MAX_BUCKETS).contains(&read.buckets)
            && (1..=MAX_BUCKET_ATTEMPTS).contains(&read.attempts);
        match may_be {
            true => Ok(read),
            false => Err("no job has so many buckets or attempts".into()),
        }
    }

    /// The content of a file for a gateway.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        // Strings and numbers are always JSON.
        Zeroizing::new(serde_json::to_vec_pretty(self).unwrap_or_default())
    }

    fn proof(&self, greeting: &[u8; GREETING], role: Role, attempt: Attempt) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.token);
        hasher
            .update(b"vesica/1 answer to a gateway")
            .update(greeting)
            .update(&self.job)
            .update(&[byte_of(role)])
            .update(&attempt.bucket.to_le_bytes())
            .update(&attempt.number.to_le_bytes());
        hasher.finalize()
    }

    fn answer(&self, greeting: &[u8; GREETING], role: Role, attempt: Attempt) -> [u8; ANSWER] {
        let mut answer = [0; ANSWER];
        answer[0] = byte_of(role);
        answer[1..33].copy_from_slice(&self.job);
        answer[33..37].copy_from_slice(&attempt.bucket.to_le_bytes());
        answer[37..41].copy_from_slice(&attempt.number.to_le_bytes());
        answer[41..].copy_from_slice(self.proof(greeting, role, attempt).as_bytes());
        answer
    }

    /// Who answers so to a greeting, if it is a task of this job.
    fn check(&self, greeting: &[u8; GREETING], answer: &[u8; ANSWER]) -> Option<(Role, Attempt)> {
        let word = |at| u32::from_le_bytes(std::array::from_fn(|byte| answer[at + byte]));
        let role = match answer[0] {
            0 => Role::Receiver,
            1 => Role::Sender,
            _ => return None,
        };
        let attempt = Attempt {
            bucket: word(33),
            number: word(37),
        };
        let proof = blake3::Hash::from_bytes(std::array::from_fn(|byte| answer[41 + byte]));
        // This comparison takes the same time whatever differs.
        let is_proved = proof == self.proof(greeting, role, attempt);
        let exists = answer[1..33] == self.job
            && attempt.bucket < self.buckets
            && attempt.number < self.attempts;
        (is_proved && exists).then_some((role, attempt))
    }
}

fn byte_of(role: Role) -> u8 {
    match role {
        Role::Receiver => 0,
        Role::Sender => 1,
    }
}

mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        bytes: &[u8; 32],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&blake3::Hash::from_bytes(*bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = blake3::Hash::from_hex(text).map_err(D::Error::custom)?;
        Ok(*hash.as_bytes())
    }
}
