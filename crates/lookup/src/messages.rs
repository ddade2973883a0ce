//! What a client and a server say to each other.
//!
//! ```text
//! client                                 server
//!    ── hello: version, key of the OPRF ──▶
//!    ◀── welcome: queries left ────────────
//!    ── question: blinded elements ───────▶      any number of times, also before an answer
//!    ◀── answer: elements, a proof ────────
//! ```

use vesica_session::codec::{Reader, bad, differ};
use vesica_wire::{Error as WireError, Kind};

use crate::voprf::{ELEMENT_BYTES, Element, PROOF_BYTES};

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
const VERSION: u8 = 1;
/// Most elements of a question.
pub(crate) const MAX_QUESTION: usize = 1 << 12;
/// Bytes of the hello.
pub(crate) const HELLO_BYTES: usize = 1 + ELEMENT_BYTES;
/// Bytes of the welcome.
pub(crate) const WELCOME_BYTES: usize = 8;
/// Bytes of the longest question.
pub(crate) const MAX_QUESTION_BYTES: usize = MAX_QUESTION * ELEMENT_BYTES;
/// Bytes of the longest answer.
pub(crate) const MAX_ANSWER_BYTES: usize = MAX_QUESTION_BYTES + PROOF_BYTES;

pub(crate) fn hello(key: &Element) -> Vec<u8> {
    [&[VERSION], &key.bytes()[..]].concat()
}

/// Whether a client that says hello has a set of this key.
pub(crate) fn check_hello(hello: &[u8], key: &Element) -> Result<(), WireError> {
    let mut reader = Reader::new(HELLO.name, hello);
    let version = reader.u8()?;
    let theirs: [u8; ELEMENT_BYTES] = reader.array()?;
    reader.end()?;
    if version != VERSION {
        return Err(differ("version", VERSION, version));
    }
    match theirs == *key.bytes() {
        true => Ok(()),
        false => Err(differ("published key", short(key.bytes()), short(&theirs))),
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
