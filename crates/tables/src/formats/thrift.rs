//! A look at metadata in Thrift's compact protocol before the Parquet library reads it.
//!
//! The library passes over fields that it does not know, and believes the length of a list or map of booleans in one
//! of them, which take no bytes to it: a few bytes can claim 2^31, and that in many places. Neither a file's metadata
//! nor a page's header has such a list, so it is refused here. Any other element has at least a byte.
//!
//! Not caught: a field that the library does know, of a wrong type. It does not look at the type, so what it reads
//! after that is not what is checked here, and a file made for it can still keep it busy for long.
//!
//! Source: the Thrift compact protocol specification, `doc/specs/thrift-compact-protocol.md` of Apache
//! Thrift.

use std::io::{self, Read};

/// Nested values at most: the library's own bound.
const MAX_DEPTH: u32 = 64;

/// Reads one struct and discards it. `length` is the number of bytes that there are.
///
/// Fails with [`io::ErrorKind::InvalidData`] if the bytes are no struct, and if it claims more than there
/// is; otherwise as `input` fails.
pub(super) fn check_struct(input: impl Read, length: u64) -> io::Result<()> {
    let mut walk = Walk {
        input,
        bytes: length,
    };
    walk.fields(MAX_DEPTH, &mut |_, _| Ok(()))
}

/// Maximum bytes that a page may claim to have once it is decompressed.
const MAX_PAGE_BYTES: u64 = 1 << 30;

/// The number of the field of a page's header that says so (`uncompressed_page_size` of `PageHeader` in
/// `parquet.thrift`).
const UNCOMPRESSED_SIZE: u64 = 2;

/// Reads one header of a page and discards it, as [`check_struct`]. Fails also if the page claims more than a gibibyte.
pub(super) fn check_page_header(input: impl Read, length: u64) -> io::Result<()> {
    let mut walk = Walk {
        input,
        bytes: length,
    };
    walk.fields(MAX_DEPTH, &mut |field, number| match number {
        _ if field != UNCOMPRESSED_SIZE => Ok(()),
        // The library would read the size from whatever else is there.
        None => Err(damaged()),
        // An integer that is not negative is twice itself (zigzag).
        Some(number) if number / 2 > MAX_PAGE_BYTES => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a page claims more than 1 GiB",
        )),
        Some(_) => Ok(()),
    })
}

/// Takes the number of a field, and its value if that is an integer.
type Field<'f> = dyn FnMut(u64, Option<u64>) -> io::Result<()> + 'f;

struct Walk<R> {
    input: R,
    /// Bytes that are left.
    bytes: u64,
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its metadata is damaged")
}

impl<R: Read> Walk<R> {
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

    fn fields(&mut self, depth: u32, each: &mut Field<'_>) -> io::Result<()> {
        let mut field = 0u64;
        loop {
            let header = self.byte()?;
            let kind = header & 0xf;
            if kind == 0 {
                return Ok(());
            }
            field = match header >> 4 {
                0 => self.varint()? / 2,
                step => field + u64::from(step),
            };
            // The library keeps 16 bits of it, so that a larger number would be another field.
            if field > i16::MAX as u64 {
                return Err(damaged());
            }
            match kind {
                4..=6 => each(field, Some(self.varint()?))?,
                kind => {
                    each(field, None)?;
                    self.value(kind, depth)?;
                }
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
            12 => self.fields(depth, &mut |_, _| Ok(())),
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
        let checked = check_struct(bytes, bytes.len() as u64);
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
            check_struct(&[&bytes[..], &[0xff]].concat()[..], 99).ok(),
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
            check_page_header(&bytes[..], bytes.len() as u64).map_err(|e| e.to_string())
        };
        for written in [false, true] {
            assert_eq!(header(1 << 20, written), Ok(()));
            assert_eq!(header(1 << 30, written), Ok(()));
            let refused = Err("a page claims more than 1 GiB".to_owned());
            assert_eq!(header((1 << 30) + 1, written), refused);
            assert_eq!(header((1 << 31) - 1, written), refused);
        }
        // A string where the size should be.
        let bytes = [0x15, 0, 0x18, 1, 0x7f, 0];
        assert!(check_struct(&bytes[..], 6).is_ok());
        assert!(check_page_header(&bytes[..], 6).is_err());
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
