//! What a client and a server say to each other.
//!
//! ```text
//! client                                 server
//!    ── hello: version; what it lacks ────▶
//!    ◀── welcome: public key, queries left, release ─
//!    ◀── file: length, offset ─────────────      for each release that the client lacks, if it wants files
//!    ◀── parts: bytes ─────────────────────
//!    ── question: cost, blinded elements ──▶      any number of times, also before an answer
//!    ◀── answer: elements, a proof ────────
//! ```
//!
//! A question that may cost nothing and was not paid for has an empty answer.

use vesica_primitives::voprf::{ELEMENT_BYTES, Element};
use vesica_session::codec::{Reader, bad, differ};
use vesica_wire::{Error as WireError, Kind, Misbehaviour};

pub(crate) const HELLO: Kind = Kind {
    code: 120,
    name: "hello of a look-up",
};
pub(crate) const WELCOME: Kind = Kind {
    code: 121,
    name: "welcome to a look-up",
};
pub(crate) const QUESTION: Kind = Kind {
    code: 122,
    name: "question",
};
pub(crate) const ANSWER: Kind = Kind {
    code: 123,
    name: "answer",
};

pub(crate) const FILE: Kind = Kind {
    code: 124,
    name: "file of a published set",
};
pub(crate) const PART: Kind = Kind {
    code: 125,
    name: "part of a published set",
};

/// Version of these messages.
const VERSION: u8 = 4;
/// Most elements of a question.
pub(crate) const MAX_QUESTION: usize = 1 << 12;
/// Bytes of the hello of a client that wants files; without these it is the version alone.
pub(crate) const MAX_HELLO_BYTES: usize = 1 + 8 + 8 + 32;
/// Bytes of the welcome.
pub(crate) const WELCOME_BYTES: usize = ELEMENT_BYTES + 16;
/// Bytes of the longest question.
pub(crate) const MAX_QUESTION_BYTES: usize = 1 + MAX_QUESTION * ELEMENT_BYTES;

/// Bytes of every part but the last of a file.
pub(crate) const PART_BYTES: usize = 64 << 10;
/// Bytes of what is said of a file.
pub(crate) const FILE_BYTES: usize = 16;

/// Where the files of a set begin that a client lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lacking {
    /// The first release that it does not have as a whole, from 1.
    pub(crate) release: u64,
    /// Bytes of it that the client has.
    pub(crate) offset: u64,
    /// Hash of the header in these bytes; zeros without any.
    pub(crate) hash: [u8; 32],
}

/// What a client says first.
pub(crate) fn hello(lacking: Option<&Lacking>) -> Vec<u8> {
    let mut hello = vec![VERSION];
    if let Some(lacking) = lacking {
        hello.extend_from_slice(&lacking.release.to_le_bytes());
        hello.extend_from_slice(&lacking.offset.to_le_bytes());
        hello.extend_from_slice(&lacking.hash);
    }
    hello
}

/// What a client of this version lacks, if it wants files.
pub(crate) fn read_hello(hello: &[u8]) -> Result<Option<Lacking>, WireError> {
    let mut reader = Reader::new(HELLO.name, hello);
    let version = reader.u8()?;
    if version != VERSION {
        return Err(differ("version", VERSION, version));
    }
    if hello.len() == 1 {
        return Ok(None);
    }
    let lacking = Lacking {
        release: reader.u64()?,
        offset: reader.u64()?,
        hash: reader.array()?,
    };
    reader.end()?;
    match lacking.release {
        0 => Err(bad(HELLO.name, "releases are counted from 1")),
        _ => Ok(Some(lacking)),
    }
}

/// A file that follows in parts, from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    /// Bytes of the whole file.
    pub(crate) length: u64,
    /// Bytes that are left out.
    pub(crate) offset: u64,
}

impl Announced {
    pub(crate) fn encode(self) -> Vec<u8> {
        [self.length, self.offset]
            .map(u64::to_le_bytes)
            .as_flattened()
            .to_vec()
    }

    /// That of a client that has so many bytes: the rest, or all.
    pub(crate) fn decode(bytes: &[u8], have: u64) -> Result<Announced, WireError> {
        let mut reader = Reader::new(FILE.name, bytes);
        let (length, offset) = (reader.u64()?, reader.u64()?);
        reader.end()?;
        match offset <= length && (offset == 0 || offset == have) {
            true => Ok(Announced { length, offset }),
            false => Err(bad(FILE.name, "another offset than was asked for")),
        }
    }

    /// Lengths of its parts.
    pub(crate) fn parts(self) -> impl Iterator<Item = usize> {
        let starts = (self.offset..self.length).step_by(PART_BYTES);
        starts.map(move |start| (self.length - start).min(PART_BYTES as u64) as usize)
    }
}

/// What a server says of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Welcome {
    /// The public key.
    pub(crate) key: Element,
    /// How many queries it still answers.
    pub(crate) left: u64,
    /// The last release.
    pub(crate) release: u64,
}

impl Welcome {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (left, release) = (self.left.to_le_bytes(), self.release.to_le_bytes());
        [&self.key.bytes()[..], &left, &release].concat()
    }

    pub(crate) fn decode(welcome: &[u8]) -> Result<Welcome, WireError> {
        let mut reader = Reader::new(WELCOME.name, welcome);
        let key = Element::decode(reader.array()?);
        let key = key.map_err(|_| bad(WELCOME.name, "not an element of the group"))?;
        let (left, release) = (reader.u64()?, reader.u64()?);
        reader.end()?;
        Ok(Welcome { key, left, release })
    }

    /// Fails if the server has another key than that of a set.
    pub(crate) fn check_key(&self, key: &Element) -> Result<(), WireError> {
        let (ours, theirs) = (key.bytes(), self.key.bytes());
        match ours == theirs {
            true => Ok(()),
            false => Err(differ("published key", short(ours), short(theirs))),
        }
    }
}

/// The first digits of a key.
fn short(key: &[u8; ELEMENT_BYTES]) -> String {
    key[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a question may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    /// As many queries as it has elements, or nothing if it was paid for.
    Queries,
    /// Nothing: it is answered if it was paid for, and otherwise withdrawn.
    Nothing,
}

/// A question about these elements.
pub(crate) fn question(cost: Cost, elements: &[Element]) -> Vec<u8> {
    let mut question = Vec::with_capacity(1 + elements.len() * ELEMENT_BYTES);
    question.push(cost as u8);
    question.extend(elements.iter().flat_map(|element| *element.bytes()));
    question
}

/// What a question may cost, and its elements, of which there is one at least.
pub(crate) fn read_question(question: &[u8]) -> Result<(Cost, &[[u8; ELEMENT_BYTES]]), WireError> {
    let wrong_length = || Misbehaviour::WrongLength {
        what: QUESTION.name,
        bytes: question.len(),
    };
    let (cost, elements) = question.split_first().ok_or_else(wrong_length)?;
    let (elements, rest) = elements.as_chunks();
    if elements.is_empty() || !rest.is_empty() {
        return Err(wrong_length().into());
    }
    match cost {
        0 => Ok((Cost::Queries, elements)),
        1 => Ok((Cost::Nothing, elements)),
        _ => Err(bad(QUESTION.name, "another cost than queries or nothing")),
    }
}

/// The encodings of these elements.
pub(crate) fn encode(elements: &[Element]) -> Vec<u8> {
    elements
        .iter()
        .flat_map(|element| *element.bytes())
        .collect()
}

/// The elements with these encodings.
pub(crate) fn decode(
    what: &'static str,
    bytes: &[[u8; ELEMENT_BYTES]],
) -> Result<Vec<Element>, WireError> {
    let decoded = bytes.iter().map(|bytes| Element::decode(*bytes));
    let decoded: Result<_, _> = decoded.collect();
    decoded.map_err(|_| bad(what, "not an element of the group"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_lacks_is_read_as_it_was_said() {
        let lacking = Lacking {
            release: 3,
            offset: 1 << 40,
            hash: [7; 32],
        };
        assert_eq!(read_hello(&hello(Some(&lacking))).unwrap(), Some(lacking));
        assert_eq!(read_hello(&hello(None)).unwrap(), None);
        let whole = hello(Some(&lacking));
        for end in (0..1).chain(2..whole.len()) {
            read_hello(&whole[..end]).unwrap_err();
        }
    }

    #[test]
    fn the_parts_of_a_file_are_its_bytes_from_the_offset_on() {
        let part = PART_BYTES as u64;
        for length in [0, 1, part - 1, part, part + 1, 3 * part, 1 << 30] {
            for offset in [0, 1, part, length] {
                let announced = Announced { length, offset };
                let decoded = Announced::decode(&announced.encode(), offset);
                if offset > length {
                    decoded.unwrap_err();
                    continue;
                }
                let lengths: Vec<u64> = decoded.unwrap().parts().map(|part| part as u64).collect();
                assert_eq!(lengths.iter().sum::<u64>(), length - offset);
                let (last, others) = lengths.split_last().unwrap_or((&1, &[]));
                assert!(*last >= 1 && others.iter().all(|bytes| *bytes == part));
            }
        }
    }
}
