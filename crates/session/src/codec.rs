//! Strict, bounded reading and writing of what is said before a protocol runs, and the errors of it.

use vesica_psi::Spec;
use vesica_wire::{Error, Limit, Misbehaviour};

/// Takes values off the front of a message of the peer. Each call fails with `PeerMisbehaved` if the message is too short,
/// or says something else.
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
    whole: usize,
}

impl<'a> Reader<'a> {
    /// Reads these bytes; errors say what they are.
    pub fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Reader {
            rest: bytes,
            what,
            whole: bytes.len(),
        }
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (value, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or_else(|| self.wrong_length())?;
        self.rest = rest;
        Ok(*value)
    }

    /// The next byte.
    pub fn u8(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A number of 16 bits, little endian.
    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    /// A number of 32 bits, little endian.
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    /// A number of 64 bits, little endian.
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text of at most 255 bytes.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, Error> {
        let len = usize::from(self.u8()?);
        let text = self.bytes(len)?;
        str::from_utf8(text).map_err(|_| bad(what, "not UTF-8"))
    }

    /// A text of at most 255 bytes, of printable ASCII without blanks.
    pub fn name(&mut self, what: &'static str) -> Result<&'a str, Error> {
        let text = self.text(what)?;
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad(what, "a name of printable ASCII was expected"));
        }
        Ok(text)
    }

    /// The next bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (bytes, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or_else(|| self.wrong_length())?;
        self.rest = rest;
        Ok(bytes)
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Nothing may be left.
    pub fn end(self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.wrong_length())
        }
    }

    fn wrong_length(&self) -> Error {
        Misbehaviour::WrongLength {
            what: self.what,
            bytes: self.whole,
        }
        .into()
    }
}

/// A value that no honest peer sends.
pub fn bad(what: &'static str, problem: &'static str) -> Error {
    Misbehaviour::BadValue { what, problem }.into()
}

/// Writes a name; what is longer than 255 bytes is cut, which [`Job::check`](crate::Job::check) rules out.
pub fn put_name(out: &mut Vec<u8>, name: &str) {
    let bytes = &name.as_bytes()[..name.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

/// The error that names a field and both values.
pub fn differ(
    field: &'static str,
    ours: impl std::fmt::Display,
    theirs: impl std::fmt::Display,
) -> Error {
    Error::ContractDiffers {
        field,
        ours: ours.to_string(),
        theirs: theirs.to_string(),
    }
}

/// The error of sides that want what does not go together.
pub fn impossible(field: &'static str, problem: String) -> Error {
    Error::ContractImpossible { field, problem }
}

/// The error of a protocol that offers no more than `most` bits of statistical security.
pub fn offers_at_most(spec: &Spec, key_bits: Option<u32>, most: u32) -> Error {
    let offers = format!(
        "{} offers at most {most} bits of statistical security for these sizes",
        spec.name
    );
    match spec.exact.is_some() && spec.compares(key_bits).is_none() {
        true => {
            let why = "keys that are not numbers are hashed, and longer hashes do not fit";
            Error::limit(Limit::Keys, format!("{offers}: {why}"))
        }
        false => Error::limit(Limit::Security, offers),
    }
}
