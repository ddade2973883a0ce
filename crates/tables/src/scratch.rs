//! Temporary files that nobody else can read.
//!
//! A [`Scratch`] has no name, so that a killed process leaves nothing, and contains only ciphertext: its keys
//! exist only in this process's memory and are wiped when it is dropped. Each block carries a tag, so that
//! bytes changed on disk are detected. That costs one more hash of each block and 32 bytes on disk.
//!
//! The keystream is the XOF of keyed BLAKE3, one byte for each byte of the file. No position of the file is
//! written twice, so no byte of the keystream is used twice. The tag is keyed BLAKE3 of the block's
//! ciphertext and position.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use blake3::{Hash, Hasher, OUT_LEN};
use bytes::Bytes;
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, ErrorKind};

/// Bytes of a block's tag, which follows it.
const TAG: usize = OUT_LEN;

/// Blocks of bytes in an unnamed file, encrypted and authenticated.
pub(crate) struct Scratch {
    file: Mutex<File>,
    /// The key of the keystream.
    cipher_key: Zeroizing<[u8; 32]>,
    tag_key: Zeroizing<[u8; 32]>,
    end: u64,
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch")
            .field("bytes", &self.end)
            .finish_non_exhaustive()
    }
}

impl Scratch {
    /// An empty file in `directory`.
    pub(crate) fn create(directory: &Path) -> io::Result<Scratch> {
        let mut scratch = Scratch {
            file: Mutex::new(tempfile::tempfile_in(directory)?),
            cipher_key: Zeroizing::new([0; 32]),
            tag_key: Zeroizing::new([0; 32]),
            end: 0,
        };
        for key in [&mut scratch.cipher_key, &mut scratch.tag_key] {
            getrandom::fill(&mut **key).map_err(io::Error::other)?;
        }
        Ok(scratch)
    }

    /// Writes a block at the end, and returns its position. `block` is ciphertext afterwards.
    pub(crate) fn append(&mut self, block: &mut Vec<u8>) -> io::Result<u64> {
        let place = self.end;
        self.encrypt(place, block);
        let tag = self.tag(place, block);
        block.extend_from_slice(tag.as_bytes());
        let file = self.file.get_mut().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(place))?;
        file.write_all(block)?;
        self.end += block.len() as u64;
        Ok(place)
    }

    /// Reads the block of `length` bytes that was written at `place`.
    ///
    /// Fails with [`io::ErrorKind::InvalidData`] if it is not what was written.
    pub(crate) fn read(&self, place: u64, length: usize, block: &mut Vec<u8>) -> io::Result<()> {
        block.resize(length + TAG, 0);
        {
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.seek(SeekFrom::Start(place))?;
            file.read_exact(block)?;
        }
        let mut tag = [0; TAG];
        tag.copy_from_slice(&block[length..]);
        block.truncate(length);
        if self.tag(place, block) != Hash::from_bytes(tag) {
            let problem = "a temporary file does not hold what was written to it";
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        self.encrypt(place, block);
        Ok(())
    }

    /// Encrypts or decrypts a block.
    fn encrypt(&self, place: u64, block: &mut [u8]) {
        const STEP: usize = 16 << 10;
        let mut hasher = Hasher::new_keyed(&self.cipher_key);
        let mut keystream = hasher.finalize_xof();
        keystream.set_position(place);
        let mut mask = Zeroizing::new([0; STEP]);
        for bytes in block.chunks_mut(STEP) {
            let mask = &mut mask[..bytes.len()];
            keystream.fill(mask);
            for (byte, mask) in bytes.iter_mut().zip(mask) {
                *byte ^= *mask;
            }
        }
        keystream.zeroize();
        hasher.zeroize();
    }

    fn tag(&self, place: u64, block: &[u8]) -> Hash {
        let mut hasher = Hasher::new_keyed(&self.tag_key);
        // In this order whole chunks of the hash stay together.
        hasher.update(block);
        hasher.update(&place.to_le_bytes());
        let tag = hasher.finalize();
        hasher.zeroize();
        tag
    }
}

/// Plain bytes of each block of a [`ScratchFile`] but the last.
const BLOCK: usize = 64 << 10;

/// Bytes in a [`Scratch`] that are read in any order.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    scratch: Scratch,
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
        let mut scratch = Scratch::create(directory).map_err(&write_error)?;
        let mut length = 0;
        let mut block = Vec::with_capacity(BLOCK + TAG);
        loop {
            block.clear();
            let read = input.by_ref().take(BLOCK as u64).read_to_end(&mut block);
            let read = read.map_err(&read_error)?;
            if read > 0 {
                scratch.append(&mut block).map_err(&write_error)?;
                length += read as u64;
            }
            if read < BLOCK {
                return Ok(ScratchFile { scratch, length });
            }
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
        let read = self
            .scratch
            .read(number * (BLOCK + TAG) as u64, length, block);
        // It is no fault of the table that is in it.
        read.map_err(|e| io::Error::other(Error::new(ErrorKind::Scratch(e))))
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

    fn on_disk(scratch: &Scratch) -> Vec<u8> {
        let mut file = scratch.file.lock().unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn copied(bytes: &[u8]) -> ScratchFile {
        ScratchFile::copy(&std::env::temp_dir(), bytes, |e| e, |e| e).unwrap()
    }

    #[test]
    fn a_file_is_read_in_any_order() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 77] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * 31 % 251) as u8).collect();
            let file = Arc::new(copied(&bytes));
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

    #[test]
    fn no_plain_text_is_on_the_disk() {
        let text = "alice@example.com,Rome\n".repeat(10_000);
        let copy = copied(text.as_bytes());
        let bytes = on_disk(&copy.scratch);
        assert!(bytes.len() > text.len());
        assert!(!bytes.windows(5).any(|w| w == b"alice"));
        // Equal blocks are unequal on the disk.
        let blocks: std::collections::HashSet<_> = bytes.chunks(64).collect();
        assert_eq!(blocks.len(), bytes.len().div_ceil(64));
    }

    #[test]
    fn changed_and_moved_blocks_are_noticed() {
        let mut scratch = Scratch::create(&std::env::temp_dir()).unwrap();
        let places = [0, 1].map(|i| scratch.append(&mut vec![i; 100]).unwrap());
        let mut block = Vec::new();
        scratch.read(places[1], 100, &mut block).unwrap();
        assert_eq!(block, [1; 100]);
        let bytes = on_disk(&scratch);
        let swapped = [&bytes[132..], &bytes[..132]].concat();
        let mut flipped = bytes.clone();
        flipped[140] ^= 1;
        for (damaged, readable) in [(swapped, 0), (flipped, 1)] {
            let file = scratch.file.get_mut().unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(&damaged).unwrap();
            let readings = places.map(|place| scratch.read(place, 100, &mut block));
            assert_eq!(readings.iter().filter(|r| r.is_ok()).count(), readable);
            let error = readings.into_iter().find_map(Result::err).unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }
}
