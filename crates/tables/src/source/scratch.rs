//! Copies of what is read once, and results that wait, in temporary files that nobody else can read.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use vesica_keys::{Blob, TAG};

use crate::error::{Error, ErrorKind};

/// A failure to create or write such a file.
pub(crate) fn unwritable(e: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable(e))
}

/// Plain bytes of each block of a [`ScratchFile`] but the last.
const BLOCK: usize = 64 << 10;

// So the place of a block is known from its number.
const _: () = assert!((BLOCK + TAG).is_multiple_of(Blob::ALIGNED));

/// Bytes in a [`Blob`] that are read in any order.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    blob: Blob,
    length: u64,
}

impl ScratchFile {
    /// Copies a reader to its end. The two functions turn its errors and the copy's into others.
    pub(crate) fn copy<E>(
        directory: &Path,
        mut input: impl Read,
        read_error: impl Fn(io::Error) -> E,
        write_error: impl Fn(io::Error) -> E,
    ) -> Result<ScratchFile, E> {
        let mut copy = ScratchWriter::create(directory).map_err(&write_error)?;
        loop {
            let read = input
                .by_ref()
                .take(BLOCK as u64)
                .read_to_end(&mut copy.block);
            if read.map_err(&read_error)? < BLOCK {
                return copy.finish().map_err(&write_error);
            }
            copy.append().map_err(&write_error)?;
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.length
    }

    /// Reads one of the blocks; `block` is empty if it is beyond the last.
    fn block(&self, number: u64, block: &mut Vec<u8>) -> io::Result<()> {
        let start = number.saturating_mul(BLOCK as u64);
        let length = self.length.saturating_sub(start).min(BLOCK as u64) as usize;
        if length == 0 {
            block.clear();
            return Ok(());
        }
        let read = self.blob.read(number * (BLOCK + TAG) as u64, length, block);
        // It is no fault of the table that is in it.
        read.map_err(|e| io::Error::other(Error::new(ErrorKind::Scratch(e))))
    }
}

/// A [`ScratchFile`] that is being written.
pub(crate) struct ScratchWriter {
    file: ScratchFile,
    /// What is not in the file yet, less than a block of it.
    block: Vec<u8>,
}

/// Hides what is not encrypted yet.
impl std::fmt::Debug for ScratchWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ScratchWriter").field(&self.file).finish()
    }
}

impl ScratchWriter {
    /// An empty file in `directory`.
    pub(crate) fn create(directory: &Path) -> io::Result<ScratchWriter> {
        let blob = Blob::create(directory)?;
        Ok(ScratchWriter {
            file: ScratchFile { blob, length: 0 },
            block: Vec::with_capacity(BLOCK + TAG),
        })
    }

    /// Writes the block.
    fn append(&mut self) -> io::Result<()> {
        let length = self.block.len() as u64;
        if length > 0 {
            let appended = self.file.blob.append(&mut self.block);
            self.block.clear();
            appended?;
            self.file.length += length;
        }
        Ok(())
    }

    /// The file, with all that was written.
    pub(crate) fn finish(mut self) -> io::Result<ScratchFile> {
        self.append()?;
        Ok(self.file)
    }
}

impl io::Write for ScratchWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == BLOCK {
            self.append()?;
        }
        Ok(taken)
    }

    /// Nothing: what is written is read once all is.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A position in a [`ScratchFile`].
#[derive(Clone)]
pub(crate) struct ScratchReader {
    file: Arc<ScratchFile>,
    position: u64,
    /// Number and bytes of the block that was read last.
    block: Option<(u64, Bytes)>,
}

impl ScratchReader {
    pub(crate) fn new(file: Arc<ScratchFile>) -> ScratchReader {
        ScratchReader {
            file,
            position: 0,
            block: None,
        }
    }

    #[cfg(feature = "parquet")]
    pub(crate) fn len(&self) -> u64 {
        self.file.len()
    }
}

impl Read for ScratchReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let number = self.position / BLOCK as u64;
        let bytes = match &self.block {
            Some((there, bytes)) if *there == number => bytes,
            _ => {
                let mut bytes = Vec::new();
                self.file.block(number, &mut bytes)?;
                &self.block.insert((number, bytes.into())).1
            }
        };
        let start = bytes.len().min((self.position % BLOCK as u64) as usize);
        let length = out.len().min(bytes.len() - start);
        out[..length].copy_from_slice(&bytes[start..start + length]);
        self.position += length as u64;
        Ok(length)
    }
}

impl Seek for ScratchReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => Some(place),
            SeekFrom::End(offset) => self.file.len().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = place.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_in_any_order() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 77] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
            let file =
                Arc::new(ScratchFile::copy(&std::env::temp_dir(), &*bytes, |e| e, |e| e).unwrap());
            let mut reader = ScratchReader::new(file);
            assert_eq!(reader.len(), length as u64);
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert!(all == bytes);
            for start in [length / 2, 0, length.saturating_sub(1), length, length + 9] {
                assert_eq!(
                    reader.seek(SeekFrom::Start(start as u64)).unwrap(),
                    start as u64
                );
                all.clear();
                reader.read_to_end(&mut all).unwrap();
                assert!(all == bytes[start.min(length)..], "{length} {start}");
            }
            assert!(reader.seek(SeekFrom::End(-(length as i64) - 1)).is_err());
        }
    }
}
