//! The entries of a ledger, and the lines that they are.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use vesica_primitives::laplace::Epsilon;
use vesica_session::{ErrorClass, Receipts, Role};

/// The version of this form.
pub(crate) const FORMAT: u32 = 1;
/// In the place of the hash before the first entry.
pub(crate) const NONE: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// What is between the rest of a line and its hash, and behind that.
const BEFORE_HASH: &str = ",\"hash\":\"";
const BEHIND_HASH: &str = "\"}";

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number, from 0.
    pub entry: u64,
    /// When it was written, as RFC 3339 has it.
    pub time: String,
    /// The hash of the entry before, in hexadecimal.
    pub previous: String,
    /// Random, in hexadecimal: its hash, which peers are told, tests no guess of what it says.
    pub salt: String,
    /// What it says.
    #[serde(flatten)]
    pub body: Body,
    /// Its hash, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Body {
    /// The ledger begins.
    Created(Created),
    /// Something is about to be answered.
    Begun(Box<Begun>),
    /// What both sides have signed of a run.
    Receipts(Box<Taken>),
    /// A run has ended for this side.
    Ended(Ended),
    /// A rule did not allow a run, of which the peer has heard no more than that.
    Refused(Refused),
}

/// A run that a rule did not allow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// How it was asked for: the name of a command.
    pub command: String,
    /// With whom.
    pub peer: String,
    /// What the table is called.
    pub table: String,
    /// What was to be revealed.
    pub reveals: String,
    /// The name of the rule; none if there is no rule for such a run.
    pub rule: Option<String>,
}

/// The beginning of a ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Created {
    /// The version of its form: 1.
    pub format: u32,
    /// A random name, in hexadecimal.
    pub ledger: String,
    /// The version of the program.
    pub version: String,
    /// Who began it.
    pub user: String,
    /// Where.
    pub host: String,
}

impl Created {
    /// Whether this program reads what follows. The name is that of files outside of the ledger.
    pub(crate) fn check(&self) -> std::result::Result<(), &'static str> {
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match self.ledger.len() == 32 && self.ledger.bytes().all(is_hex) {
            _ if self.format != FORMAT => Err("is of another version"),
            false => Err("has no name of a ledger"),
            true => Ok(()),
        }
    }
}

/// What is about to be answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// The name that the run has in the reports of both sides; a run that resumes has that of the one before.
    pub run: String,
    /// What both sides may tell others of the session, which no other run has.
    pub session: String,
    /// How it was asked for: the name of a command.
    pub command: String,
    /// This side's part.
    pub role: Option<Role>,
    /// This side's fingerprint.
    pub identity: String,
    /// The peer's.
    pub peer: String,
    /// What is revealed.
    pub reveals: String,
    /// To whom: `receiver` or `both`.
    pub told: String,
    /// What the table is called.
    pub table: String,
    /// The files that it is in.
    pub input: Vec<Input>,
    /// The key columns.
    pub key: Vec<KeyColumn>,
    /// The columns that are computed with.
    pub values: Vec<String>,
    /// The columns that are handed over.
    pub payload: Vec<String>,
    /// Rows of the table.
    pub rows: u64,
    /// Distinct keys of this side.
    pub items: u64,
    /// Distinct keys of the peer.
    pub peer_items: u64,
    /// What this side wants the answer for.
    pub purpose: String,
    /// What the peer says that it wants it for.
    pub peer_purpose: String,
    /// What this side's noise costs, as a decimal in text; none if there is no noise.
    pub epsilon: Option<Epsilon>,
    /// The rules that were held to, by their names.
    pub rules: Vec<String>,
    /// The SHA-256 of the file of rules, in hexadecimal.
    pub rules_sha256: Option<String>,
    /// What is kept of the keys for rules that compare tables.
    pub keys: Option<KeysKept>,
    /// The version of the program.
    pub version: String,
    /// Who ran it.
    pub user: String,
    /// Where.
    pub host: String,
    /// The contract, whose hash is in it.
    pub contract: Value,
}

/// A file of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// What it is called.
    pub name: String,
    /// The SHA-256 of its bytes, in hexadecimal; none where they are read once, or elsewhere.
    pub sha256: Option<String>,
    /// How many they are.
    pub bytes: Option<u64>,
}

impl Input {
    /// A file of this name, with the SHA-256 and the number of its bytes if they are known.
    pub fn new(name: &str, digest: Option<([u8; 32], u64)>) -> Input {
        Input {
            name: name.to_owned(),
            sha256: digest.map(|(sha256, _)| data_encoding::HEXLOWER.encode(&sha256)),
            bytes: digest.map(|(_, bytes)| bytes),
        }
    }
}

/// A column of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyColumn {
    /// Its name.
    pub column: String,
    /// The normalisation of its values.
    pub profile: String,
}

/// What is kept of a table's keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysKept {
    /// The SHA-256 of the encrypted file, in hexadecimal.
    pub sha256: String,
    /// The name of the key of its hashes.
    pub under: String,
    /// Until when, as RFC 3339 has it.
    pub until: String,
}

/// The receipts of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The entry of its beginning.
    pub of: u64,
    /// What both sides have signed.
    #[serde(flatten)]
    pub receipts: Receipts,
}

/// The end of a run for this side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    /// The entry of its beginning.
    pub of: u64,
    /// How.
    pub result: Result,
    /// Whether it ended before anything was sent that depends on a key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
    /// What was revealed to this side, if that was to be written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Value>,
}

/// How a run ended: whose fault it is if it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Result {
    /// This side has all that it gets.
    Done,
    /// This side's options.
    Usage,
    /// This side's table or result.
    Data,
    /// The network, or the peer went away.
    Network,
    /// The peer misbehaved.
    Peer,
    /// The two sides disagree.
    Contract,
    /// A limit.
    Resource,
    /// It was interrupted.
    Interrupted,
}

impl From<ErrorClass> for Result {
    fn from(class: ErrorClass) -> Result {
        match class {
            ErrorClass::Usage => Result::Usage,
            ErrorClass::Data => Result::Data,
            ErrorClass::Network => Result::Network,
            ErrorClass::Peer => Result::Peer,
            ErrorClass::Contract => Result::Contract,
            ErrorClass::Resource => Result::Resource,
            ErrorClass::Interrupted => Result::Interrupted,
        }
    }
}

impl Entry {
    /// The line of an entry, and the entry with its hash.
    pub(crate) fn seal(mut self) -> std::result::Result<(String, Entry), serde_json::Error> {
        self.hash = String::new();
        let mut line = serde_json::to_string(&self)?;
        self.hash = hash(line.as_bytes());
        line.pop();
        line.extend([BEFORE_HASH, &self.hash, BEHIND_HASH, "\n"]);
        Ok((line, self))
    }

    /// The entry in a line without its end; what is wrong with it if there is none.
    pub(crate) fn unseal(line: &[u8]) -> std::result::Result<Entry, &'static str> {
        let hashed = hashed(line).ok_or("has no hash")?;
        let entry: Entry = serde_json::from_slice(line).map_err(|_| "is no entry")?;
        if hash(&hashed) != entry.hash {
            return Err("has not the hash that it says");
        }
        // Each reader understands the same by it: there are no other fields, and none twice.
        let again = entry.clone().seal().map_err(|_| "is no entry")?;
        match again.0.as_bytes().strip_suffix(b"\n") == Some(line) {
            true => Ok(entry),
            false => Err("is not in the form in which entries are written"),
        }
    }
}

/// What the hash of a line is of.
fn hashed(line: &[u8]) -> Option<Vec<u8>> {
    let at = line
        .len()
        .checked_sub(BEFORE_HASH.len() + NONE.len() + BEHIND_HASH.len())?;
    let (rest, behind) = line.split_at(at);
    let is_hash =
        behind.starts_with(BEFORE_HASH.as_bytes()) && behind.ends_with(BEHIND_HASH.as_bytes());
    is_hash.then(|| [rest, b"}"].concat())
}

/// The SHA-256 of these bytes, in hexadecimal.
pub(crate) fn hash(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(&sha256(bytes))
}

/// The SHA-256 of these bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            entry: 3,
            time: "2026-11-28T10:00:00Z".into(),
            previous: NONE.into(),
            salt: "00".into(),
            body: Body::Ended(Ended {
                of: 2,
                result: Result::Done,
                unanswered: false,
                answer: None,
            }),
            hash: String::new(),
        }
    }

    #[test]
    fn a_line_is_hashed_as_any_tool_can() {
        let (line, sealed) = entry().seal().unwrap();
        let expected = format!(
            "{{\"entry\":3,\"time\":\"2026-11-28T10:00:00Z\",\"previous\":\"{NONE}\",\"salt\":\"00\",\"ended\":{{\"of\":2,\"result\":\"done\"}}}}"
        );
        assert_eq!(sealed.hash, hash(expected.as_bytes()));
        let rest = expected.strip_suffix('}').unwrap();
        assert_eq!(line, format!("{rest},\"hash\":\"{}\"}}\n", sealed.hash));
        assert_eq!(Entry::unseal(line.trim_end().as_bytes()), Ok(sealed));
    }

    #[test]
    fn a_line_with_more_than_an_entry_is_none() {
        let (line, _) = entry().seal().unwrap();
        for (from, to) in [
            ("\"salt\"", "\"more\":1,\"salt\""),
            ("\"salt\"", "\"time\":\"2026-11-28T10:00:00Z\",\"salt\""),
            ("\"done\"}", "\"done\",\"more\":1}"),
            ("{\"of\":2", "{ \"of\":2"),
        ] {
            let rest = line.trim_end().split_once(BEFORE_HASH).unwrap().0;
            let other = rest.replacen(from, to, 1);
            let hash = hash(format!("{other}}}").as_bytes());
            let other = format!("{other}{BEFORE_HASH}{hash}{BEHIND_HASH}");
            assert!(Entry::unseal(other.as_bytes()).is_err(), "{other}");
        }
    }

    #[test]
    fn every_change_of_a_byte_is_found() {
        let (line, _) = entry().seal().unwrap();
        let line = line.trim_end().as_bytes();
        for at in 0..line.len() {
            for change in [1, 0x20, 0x80] {
                let mut other = line.to_vec();
                other[at] ^= change;
                assert!(Entry::unseal(&other).is_err(), "{at}");
            }
            assert!(Entry::unseal(&line[..at]).is_err(), "{at}");
        }
    }
}
