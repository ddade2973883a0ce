//! A look at metadata in Thrift's compact protocol before the Parquet library reads it.
//!
//! The library passes over fields that it does not know, and believes the length of a list or map of booleans in one
//! of them, which take no bytes to it: a few bytes can claim 2^31, and that in many places. Neither a file's metadata
//! nor a page's header has such a list, so it is refused here. Any other element has at least a byte.
//!
//! The library does not look at the type of a field that it knows, so that of a wrong type it reads something else than
//! what is checked here. In a page's header such a field is refused. Not caught: one in a file's metadata, by which a file
//! made for it can still keep the library busy for long.
//!
//! Source: the Thrift compact protocol specification, `doc/specs/thrift-compact-protocol.md` of Apache
//! Thrift.

use std::io::{self, Read};

/// Nested values at most: the library's own bound.
const MAX_DEPTH: u32 = 64;

/// The fields of `FileMetaData`, numbered from 1 (`parquet.thrift`), up to the algorithm by which columns are encrypted
/// while the metadata are not.
const FILE_METADATA: [Known; 8] = [Any, Any, Any, Any, Any, Any, Any, Encryption];

/// Reads a file's metadata and discards them. `length` is the number of bytes that there are.
///
/// Fails with [`io::ErrorKind::InvalidData`] if the bytes are no struct, if it claims more than there is, and if columns
/// of the file are encrypted; otherwise as `input` fails.
pub(super) fn check_file_metadata(input: impl Read, length: u64) -> io::Result<()> {
    Walk::new(input, length).fields(MAX_DEPTH, &FILE_METADATA)
}

/// Maximum bytes that a page may claim to have once it is decompressed.
const MAX_PAGE_BYTES: u64 = 1 << 30;

/// A field that the library knows.
enum Known {
    Integer,
    /// An integer of at most [`MAX_PAGE_BYTES`], and which of the kept ones it is.
    Kept(usize),
    Flag,
    /// A flag that says whether a page of the second version is compressed.
    Compressed,
    Struct(&'static [Known]),
    /// A value of whatever type.
    Any,
    /// One that says that the file cannot be read without keys.
    Encryption,
}
use Known::{Any, Compressed, Encryption, Flag, Integer, Kept};

/// The fields of `PageHeader`, numbered from 1, and of the structs in it (`parquet.thrift`): those that the library reads.
const PAGE_HEADER: [Known; 8] = [
    Kept(0),
    Kept(1),
    Kept(2),
    Integer,
    Known::Struct(&[Integer, Integer, Integer, Integer]),
    Known::Struct(&[]),
    Known::Struct(&[Integer, Integer, Flag]),
    Known::Struct(&[
        Integer, Integer, Integer, Integer, Integer, Integer, Compressed,
    ]),
];

/// What the header of a page says of the bytes that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageSize {
    /// Once they are decompressed.
    pub(super) expanded: u64,
    /// In the file.
    pub(super) stored: u64,
    pub(super) is_dictionary: bool,
    /// Where the header says that the page is not compressed, if it does: the byte, of which the lower half is [`FALSE`].
    pub(super) uncompressed: Option<u64>,
}

/// The types of fields that are flags.
pub(super) const TRUE: u8 = 1;
const FALSE: u8 = 2;

/// `DICTIONARY_PAGE` of `PageType`.
const DICTIONARY: u64 = 2;

/// Reads one header of a page, as [`check_file_metadata`]. Fails also if the page claims more than a gibibyte, or has a field
/// of another type than the library takes it for.
pub(super) fn check_page_header(input: impl Read, length: u64) -> io::Result<PageSize> {
    let mut walk = Walk::new(input, length);
    walk.fields(MAX_DEPTH, &PAGE_HEADER)?;
    let [kind, expanded, stored] = walk.kept;
    Ok(PageSize {
        expanded,
        stored,
        is_dictionary: kind == DICTIONARY,
        uncompressed: walk.uncompressed.map(|left| length - left),
    })
}

struct Walk<R> {
    input: R,
    /// Bytes that are left.
    bytes: u64,
    /// The integers of a page's header that are kept, once they have been met.
    kept: [u64; 3],
    /// How many bytes were left where the header says that the page is not compressed.
    uncompressed: Option<u64>,
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its metadata is damaged")
}

impl<R: Read> Walk<R> {
    fn new(input: R, bytes: u64) -> Self {
        Walk {
            input,
            bytes,
            kept: [0; 3],
            uncompressed: None,
        }
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.bytes = self.bytes.checked_sub(1).ok_or_else(damaged)?;
        let mut byte = [0];
        self.input.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    fn skip(&mut self, count: u64) -> io::Result<()> {
        self.bytes = self.bytes.checked_sub(count).ok_or_else(damaged)?;
        let skipped = io::copy(&mut self.input.by_ref().take(count), &mut io::sink())?;
        if skipped == count {
            Ok(())
        } else {
            Err(damaged())
        }
    }

    /// A number of up to 64 bits, seven to a byte.
    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(damaged())
    }

    /// The fields of a struct of which those of `known` have to have their types.
    fn fields(&mut self, depth: u32, known: &[Known]) -> io::Result<()> {
        let mut field = 0u64;
        loop {
            let left = self.bytes;
            let header = self.byte()?;
            let kind = header & 0xf;
            if kind == 0 {
                return Ok(());
            }
            field = match header >> 4 {
                0 => match self.varint()? {
                    positive if positive % 2 == 0 => positive / 2,
                    _ => return Err(damaged()),
                },
                step => field + u64::from(step),
            };
            // The library keeps 16 bits of it, so that a larger number would be another field.
            if field > i16::MAX as u64 {
                return Err(damaged());
            }
            let expected = (field as usize)
                .checked_sub(1)
                .and_then(|index| known.get(index));
            match (expected, kind) {
                (None | Some(Any), _) | (Some(Flag), TRUE | FALSE) => self.value(kind, depth)?,
                (Some(Compressed), TRUE | FALSE) => {
                    self.uncompressed = (kind == FALSE).then_some(left);
                }
                (Some(Encryption), _) => {
                    let reason = "some of its columns are encrypted";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                }
                (Some(Integer), 4..=6) => drop(self.varint()?),
                (Some(Kept(which)), 4..=6) => {
                    // An integer that is not negative is twice itself (zigzag).
                    self.kept[*which] = self.varint()? / 2;
                    if self.kept[*which] > MAX_PAGE_BYTES {
                        let reason = "a page claims more than 1 GiB";
                        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
                    }
                }
                (Some(Known::Struct(known)), 12) => self.fields(depth - 1, known)?,
                _ => return Err(damaged()),
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        let depth = depth.checked_sub(1).ok_or_else(damaged)?;
        match kind {
            1 | 2 => Ok(()), // a boolean: its type is its value
            3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            9 | 10 => self.list(depth),
            11 => self.map(depth),
            12 => self.fields(depth, &[]),
            13 => self.skip(16),
            _ => Err(damaged()),
        }
    }

    /// An element of a list, set or map.
    fn element(&mut self, kind: u8, depth: u32) -> io::Result<()> {
        match kind {
            1 | 2 => Err(damaged()),
            _ => self.value(kind, depth),
        }
    }

    fn list(&mut self, depth: u32) -> io::Result<()> {
        let header = self.byte()?;
        let elements = match header >> 4 {
            15 => self.varint()?,
            few => u64::from(few),
        };
        for _ in 0..elements {
            self.element(header & 0xf, depth)?;
        }
        Ok(())
    }

    fn map(&mut self, depth: u32) -> io::Result<()> {
        let entries = self.varint()?;
        if entries == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        for _ in 0..entries {
            self.element(kinds >> 4, depth)?;
            self.element(kinds & 0xf, depth)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8]) -> Option<io::ErrorKind> {
        let checked = check_file_metadata(bytes, bytes.len() as u64);
        checked.err().map(|e| e.kind())
    }

    #[test]
    fn structs_are_walked_to_their_end() {
        // A boolean, an i32, a string, a list of two i16, a map from byte to struct, a double, a UUID,
        // and a field with its number written out.
        let mut bytes = vec![
            0x11, 0x15, 0x80, 0x01, 0x18, 2, b'h', b'i', 0x19, 0x24, 2, 4,
        ];
        bytes.extend([0x1b, 1, 0x3c, 9, 0x11, 0]);
        bytes.push(0x17);
        bytes.extend([0; 8]);
        bytes.push(0x1d);
        bytes.extend([0; 16]);
        bytes.extend([0x05, 0xc8, 0x01, 7, 0x00]);
        assert_eq!(check(&bytes), None);
        // What follows the struct is not its business.
        assert_eq!(
            check_file_metadata(&[&bytes[..], &[0xff]].concat()[..], 99).ok(),
            Some(())
        );
        for length in 0..bytes.len() {
            let cut = check(&bytes[..length]);
            assert_eq!(cut, Some(io::ErrorKind::InvalidData), "{length} bytes");
        }
    }

    #[test]
    fn pages_that_claim_too_much_are_refused() {
        let header = |size: u64, number_is_written: bool| {
            let mut bytes = vec![0x15, 0]; // a data page
            match number_is_written {
                true => bytes.extend([0x05, 4]),
                false => bytes.push(0x15),
            }
            let mut left = 2 * size;
            while left >= 0x80 {
                bytes.push(left as u8 | 0x80);
                left >>= 7;
            }
            bytes.extend([left as u8, 0x15, 2, 0]);
            let size = check_page_header(&bytes[..], bytes.len() as u64);
            size.map_err(|e| e.to_string())
        };
        for written in [false, true] {
            for expanded in [1 << 20, 1 << 30] {
                let size = PageSize {
                    expanded,
                    stored: 1,
                    is_dictionary: false,
                    uncompressed: None,
                };
                assert_eq!(header(expanded, written), Ok(size));
            }
            let refused = Err("a page claims more than 1 GiB".to_owned());
            assert_eq!(header((1 << 30) + 1, written), refused);
            assert_eq!(header((1 << 31) - 1, written), refused);
        }
        // What the library would take for something else: a string as the type or the size, a flag as a size, a number as
        // a page's own header, a string in it, and a size in a field that is numbered from -1 on.
        for bytes in [
            &[0x18, 1, 0x7f, 0x15, 2, 0][..],
            &[0x15, 0, 0x18, 1, 0x7f, 0],
            &[0x15, 0, 0x11, 0],
            &[0x15, 0, 0x15, 2, 0x35, 2, 0],
            &[0x15, 0, 0x15, 2, 0x3c, 0x18, 1, 0x7f, 0, 0],
            &[0x15, 0, 0x05, 1, 0, 0x35, 2, 0],
        ] {
            let error = check_page_header(bytes, bytes.len() as u64).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{bytes:x?}");
        }
    }

    #[test]
    fn a_page_says_whether_it_is_compressed() {
        // Type, sizes, and the header of the second version: six integers and the flag.
        let header = |flag: &[u8]| {
            let integers = [0x15, 6, 0x15, 2, 0x15, 4, 0x5c]
                .into_iter()
                .chain([0x15, 0].repeat(6));
            let bytes: Vec<u8> = integers.chain(flag.iter().copied()).chain([0, 0]).collect();
            let size = check_page_header(&bytes[..], bytes.len() as u64).unwrap();
            assert_eq!((size.expanded, size.stored), (1, 2));
            size.uncompressed.map(|at| bytes[at as usize])
        };
        assert_eq!(header(&[]), None);
        assert_eq!(header(&[0x10 | TRUE]), None);
        assert_eq!(header(&[0x10 | FALSE]), Some(0x10 | FALSE));
        // With its number written out.
        assert_eq!(header(&[FALSE, 14]), Some(FALSE));
        assert_eq!(header(&[TRUE, 14]), None);
    }

    #[test]
    fn lengths_beyond_the_bytes_are_refused() {
        let refused = Some(io::ErrorKind::InvalidData);
        let huge = [0xff, 0xff, 0xff, 0xff, 0x07];
        for kind in 1..=13 {
            let list = [&[0x19, 0xf0 | kind][..], &huge, &[0]].concat();
            assert_eq!(check(&list), refused, "a list of type {kind}");
            let map = [&[0x1b][..], &huge, &[kind << 4 | kind, 0]].concat();
            assert_eq!(check(&map), refused, "a map of type {kind}");
        }
        assert_eq!(check(&[&[0x18][..], &huge, &[0]].concat()), refused);
        assert_eq!(check(&[0x19, 0x12, 1, 0]), refused, "a list of one boolean");
        assert_eq!(check(&[0x1b, 1, 0x31, 9, 0]), refused, "a map to a boolean");
        assert_eq!(check(&[0x19, 0x02, 0]), None, "a list of none");
        assert_eq!(check(&[0x1c; 80]), refused, "nested too deeply");
        assert_eq!(check(&[0x1e, 0]), refused, "a type that does not exist");
        assert_eq!(
            check(&[&[0x16][..], &[0x80; 11], &[0, 0]].concat()),
            refused
        );
    }
}
