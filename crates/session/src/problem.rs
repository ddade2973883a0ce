//! What a side says in place of its hello if it cannot take part: that something is wrong with its table, its options, its
//! machine or its stored correlations.
//!
//! The peer then goes on waiting until its wait is over, so that the mistake can be corrected and the run repeated. Only
//! the pinned peer can say so, the message has one of four values, and however often it comes, the wait ends when it
//! would have ended without it.

use std::fmt;

use vesica_wire::{Channel, Error as WireError};

use crate::codec::{Reader, bad, differ};
use crate::contract::HELLO;
use crate::terms::VERSION;

const MAGIC: [u8; 4] = *b"vs1p";

/// What is wrong on a side that cannot take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// Its table cannot be used.
    Table,
    /// Its options are impossible, or do not fit its table.
    Options,
    /// Its machine lacks something.
    Resources,
    /// Its stored correlations cannot be used.
    Store,
}

impl Problem {
    const ALL: [Problem; 4] = [
        Problem::Table,
        Problem::Options,
        Problem::Resources,
        Problem::Store,
    ];

    fn code(self) -> u8 {
        match self {
            Problem::Table => 1,
            Problem::Options => 2,
            Problem::Resources => 3,
            Problem::Store => 4,
        }
    }

    /// The bytes in the place of a hello: magic, version, and a code.
    pub fn encode(self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.push(self.code());
        out
    }

    /// What the peer's first message says, if it is no hello.
    ///
    /// Fails with `PeerMisbehaved`, or with `ContractDiffers` for a peer of another version.
    pub fn decode(bytes: &[u8]) -> Result<Option<Problem>, WireError> {
        if !bytes.starts_with(&MAGIC) {
            return Ok(None);
        }
        let mut reader = Reader::new("problem", &bytes[MAGIC.len()..]);
        let version = reader.u16()?;
        if version != VERSION {
            return Err(differ("version", VERSION, version));
        }
        let code = reader.u8()?;
        reader.end()?;
        let known = Problem::ALL.into_iter().find(|p| p.code() == code);
        known
            .map(Some)
            .ok_or_else(|| bad("problem", "unknown code"))
    }

    /// Says so to a peer with which nothing has been exchanged yet.
    ///
    /// Fails as the channel does.
    pub fn tell(self, channel: &mut dyn Channel) -> Result<(), WireError> {
        channel.send(HELLO, self.encode())?;
        channel.flush()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Table => "its table",
            Problem::Options => "its options",
            Problem::Resources => "the resources of its machine",
            Problem::Store => "its stored correlations",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testing::{bad_value, misbehaviour, wrong_length};

    #[test]
    fn a_problem_is_seven_bytes() {
        for problem in Problem::ALL {
            let bytes = problem.encode();
            assert_eq!(bytes.len(), 7);
            assert_eq!(Problem::decode(&bytes).unwrap(), Some(problem));
        }
        assert_eq!(Problem::decode(b"vs1h").unwrap(), None);
        assert_eq!(Problem::decode(b"").unwrap(), None);
        let with = |change: fn(&mut Vec<u8>)| {
            let mut bytes = Problem::Table.encode();
            change(&mut bytes);
            Problem::decode(&bytes)
        };
        for length in [6, 8] {
            let mut bytes = Problem::Table.encode();
            bytes.resize(length, 0);
            let wrong = wrong_length("problem", length - MAGIC.len());
            assert_eq!(misbehaviour(Problem::decode(&bytes)), wrong);
        }
        let unknown = bad_value("problem", "unknown code");
        assert_eq!(misbehaviour(with(|bytes| bytes[6] = 5)), unknown);
        assert_eq!(misbehaviour(with(|bytes| bytes[6] = 0)), unknown);
        assert!(matches!(
            with(|bytes| bytes[4] ^= 1),
            Err(WireError::ContractDiffers {
                field: "version",
                ..
            })
        ));
    }
}
