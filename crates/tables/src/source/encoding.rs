//! Texts in other encodings than UTF-8, read as UTF-8.

use std::io::{self, Read};
use std::str::FromStr;

use encoding_rs::{Decoder, DecoderResult};

use crate::error::{Error, Result};

/// A text encoding of the WHATWG Encoding Standard. A byte-order mark in a text beats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding(&'static encoding_rs::Encoding);

impl FromStr for Encoding {
    type Err = Error;

    /// A name or label of the standard, in either case: `windows-1252`, `latin1`, `shift_jis`, `utf-16le`.
    fn from_str(name: &str) -> Result<Self> {
        let found = encoding_rs::Encoding::for_label_no_replacement(name.as_bytes());
        found.map(Encoding).ok_or_else(|| {
            Error::usage_with(
                format!("no encoding is called {name:?}"),
                "encodings have the names of the WHATWG standard, such as windows-1252, shift_jis or utf-16le",
            )
        })
    }
}

impl Encoding {
    /// The standard's name.
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// The beginning of a text, as far as it can be decoded.
    pub(crate) fn decode_sample(self, sample: &[u8]) -> Vec<u8> {
        self.0.decode(sample).0.into_owned().into_bytes()
    }

    /// The text as UTF-8, without a byte-order mark. Bytes that mean nothing are an error of the kind `InvalidData`.
    pub(crate) fn reader<'r>(self, raw: Box<dyn Read + Send + 'r>) -> Box<dyn Read + Send + 'r> {
        Box::new(Decoded {
            raw,
            decoder: self.0.new_decoder(),
            bytes: vec![0; BUFFER],
            next: 0,
            end: 0,
            at_end: false,
            finished: false,
            malformed: false,
            text: Vec::with_capacity(BUFFER),
            given: 0,
        })
    }
}

const BUFFER: usize = 32 << 10;

struct Decoded<'r> {
    raw: Box<dyn Read + Send + 'r>,
    decoder: Decoder,
    /// Bytes that were read; those from `next` to `end` have not been decoded.
    bytes: Vec<u8>,
    next: usize,
    end: usize,
    /// Whether there are no more to read.
    at_end: bool,
    /// Whether the decoder has been told so.
    finished: bool,
    /// Whether bytes that mean nothing follow the text.
    malformed: bool,
    /// Text that has been decoded, and how much of it has been given.
    text: Vec<u8>,
    given: usize,
}

impl Decoded<'_> {
    /// Decodes some text once all that there was has been given; nothing at the end.
    fn refill(&mut self) -> io::Result<()> {
        while self.given == self.text.len() && !self.finished {
            if self.malformed {
                let name = self.decoder.encoding().name();
                let problem = format!("it is not valid {name}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
            }
            if self.next == self.end && !self.at_end {
                self.end = self.raw.read(&mut self.bytes)?;
                self.next = 0;
                self.at_end = self.end == 0;
            }
            self.text.resize(BUFFER, 0);
            self.given = 0;
            let pending = &self.bytes[self.next..self.end];
            let (result, read, written) = self.decoder.decode_to_utf8_without_replacement(
                pending,
                &mut self.text,
                self.at_end,
            );
            self.next += read;
            self.text.truncate(written);
            match result {
                DecoderResult::Malformed(..) => self.malformed = true,
                DecoderResult::InputEmpty => self.finished = self.at_end,
                DecoderResult::OutputFull => {}
            }
        }
        Ok(())
    }
}

impl Read for Decoded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.refill()?;
        let text = &self.text[self.given..];
        let length = text.len().min(out.len());
        out[..length].copy_from_slice(&text[..length]);
        self.given += length;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its bytes in pieces.
    struct Pieces<'a>(&'a [u8], usize);

    impl Read for Pieces<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let length = self.0.len().min(self.1).min(out.len());
            out[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn read(name: &str, bytes: &[u8], piece: usize) -> io::Result<String> {
        let encoding: Encoding = name.parse().unwrap();
        let mut text = String::new();
        encoding
            .reader(Box::new(Pieces(bytes, piece)))
            .read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn names_and_byte_order_marks() {
        for (name, bytes, text) in [
            ("Latin1", &b"\xe9\x80"[..], "é€"),
            ("shift_jis", b"\x83\x65\x83\x58\x83\x67", "テスト"),
            ("utf-16", b"a\0\xe9\0", "aé"),
            ("utf-16le", b"\xff\xfea\0", "a"),
            // The mark is right, and the name is wrong.
            ("utf-16le", b"\xfe\xff\0a", "a"),
            ("windows-1252", b"\xef\xbb\xbf\xc3\xa9", "é"),
        ] {
            for piece in [1, 2, 100] {
                assert_eq!(read(name, bytes, piece).unwrap(), text, "{name}");
            }
        }
        for name in ["", "latin-99", "replacement", "iso-2022-kr"] {
            assert!(name.parse::<Encoding>().is_err(), "{name}");
        }
    }

    #[test]
    fn what_means_nothing_is_an_error() {
        for (name, bytes) in [
            ("shift_jis", &b"ab\x83"[..]),
            ("shift_jis", b"\xff\xff"),
            ("utf-16le", b"a\0b"),
            ("utf-16le", b"\x00\xd8a\0"),
            ("utf-8", b"\xe9"),
        ] {
            let error = read(name, bytes, 3).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_text_comes_back_whatever_its_pieces(text in "\\PC{0,200}", times in 1usize..400, piece in 1usize..5000) {
            let text = text.repeat(times);
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let text = text.trim_start_matches('\u{feff}');
            let read = read("utf-16le", &bytes, piece).unwrap();
            prop_assert_eq!(read.trim_start_matches('\u{feff}'), text);
        }
    }
}
