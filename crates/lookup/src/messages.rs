//! What a client and a server say to each other.
//!
//! ```text
//! client                                 server
//!    ── hello: version ───────────────────▶
//!    ◀── welcome: public key, queries left, release ─
//!    ── question: blinded elements ───────▶      any number of times, also before an answer
//!    ◀── answer: elements, a proof ────────
//! ```

use vesica_session::codec::{Reader, bad, differ};
use vesica_wire::{Error as WireError, Kind};

use crate::voprf::{ELEMENT_BYTES, Element};

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

/// Version of these messages.
const VERSION: u8 = 2;
/// Most elements of a question.
pub(crate) const MAX_QUESTION: usize = 1 << 12;
/// Bytes of the hello.
pub(crate) const HELLO_BYTES: usize = 1;
/// Bytes of the welcome.
pub(crate) const WELCOME_BYTES: usize = ELEMENT_BYTES + 16;
/// Bytes of the longest question.
pub(crate) const MAX_QUESTION_BYTES: usize = MAX_QUESTION * ELEMENT_BYTES;

pub(crate) fn hello() -> Vec<u8> {
    vec![VERSION]
}

/// Whether a client speaks this version.
pub(crate) fn check_hello(hello: &[u8]) -> Result<(), WireError> {
    let mut reader = Reader::new(HELLO.name, hello);
    let version = reader.u8()?;
    reader.end()?;
    match version == VERSION {
        true => Ok(()),
        false => Err(differ("version", VERSION, version)),
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

    /// That of a server with the key of this set.
    pub(crate) fn decode(welcome: &[u8], key: &Element) -> Result<Welcome, WireError> {
        let mut reader = Reader::new(WELCOME.name, welcome);
        let theirs: [u8; ELEMENT_BYTES] = reader.array()?;
        let (left, release) = (reader.u64()?, reader.u64()?);
        reader.end()?;
        let key = *key;
        match theirs == *key.bytes() {
            true => Ok(Welcome { key, left, release }),
            false => Err(differ("published key", short(key.bytes()), short(&theirs))),
        }
    }
}

/// The first digits of a key.
fn short(key: &[u8; ELEMENT_BYTES]) -> String {
    key[..4].iter().map(|byte| format!("{byte:02x}")).collect()
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
