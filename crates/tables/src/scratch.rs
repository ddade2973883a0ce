//! Temporary files that nobody else can read.
//!
//! A [`Scratch`] has no name, so that a killed process leaves nothing, and contains only ciphertext: its keys
//! exist only in this process's memory and are wiped when it is dropped. Each block carries a tag, so that
//! bytes changed on disk are detected. That costs one hash of each block and 32 bytes on disk.
//!
//! The cipher is AES-128 in counter mode (NIST SP 800-38A, section 6.5) under a random key of the file: the counter of
//! 16 bytes of the file is their position. No position is written twice, so no counter is used twice. In a file of 2^b
//! bytes the keystream differs from random bytes with advantage 2^(2b - 137) at most (a permutation is no function):
//! 2^-57 for a terabyte. The tag is keyed BLAKE3 of the block's ciphertext and position.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blake3::{Hash, Hasher, OUT_LEN};
use bytes::Bytes;
use vesica_kernels::{Backend, aes};
use zeroize::{Zeroize, Zeroizing};

use crate::error::{Error, ErrorKind};

/// Bytes of a block's tag, which follows it.
pub(crate) const TAG: usize = OUT_LEN;

/// Bytes that share a counter. Every block begins with a counter of its own.
const COUNTED: usize = 16;

/// Blocks of bytes in an unnamed file, encrypted and authenticated. Threads write and read side by side.
pub(crate) struct Scratch {
    file: Positioned,
    /// Both in one place from the beginning, so that no copy is left where this has been moved from.
    cipher_key: Box<aes::Key>,
    tag_key: Box<Zeroizing<[u8; 32]>>,
    /// Where the next block begins.
    end: AtomicU64,
    /// Bytes that have been written and read.
    written: AtomicU64,
    read: AtomicU64,
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
        let file = Positioned::new(tempfile::tempfile_in(directory)?);
        let mut cipher_key = Zeroizing::new([0; 16]);
        let mut tag_key = Box::new(Zeroizing::new([0; 32]));
        getrandom::fill(&mut *cipher_key).map_err(io::Error::other)?;
        getrandom::fill(&mut **tag_key).map_err(io::Error::other)?;
        Ok(Scratch {
            file,
            cipher_key: Box::new(aes::Key::new(u128::from_le_bytes(*cipher_key))),
            tag_key,
            end: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
        })
    }

    /// Writes a block, and returns its position. `block` is ciphertext afterwards.
    pub(crate) fn append(&self, block: &mut Vec<u8>) -> io::Result<u64> {
        let length = (block.len() + TAG).next_multiple_of(COUNTED) as u64;
        let place = self.end.fetch_add(length, Ordering::Relaxed);
        self.encrypt(place, block);
        let tag = self.tag(place, block);
        block.extend_from_slice(tag.as_bytes());
        self.file.write(block, place)?;
        self.written.fetch_add(length, Ordering::Relaxed);
        Ok(place)
    }

    /// Reads the block of `length` bytes that was written at `place`.
    ///
    /// Fails with [`io::ErrorKind::InvalidData`] if it is not what was written.
    pub(crate) fn read(&self, place: u64, length: usize, block: &mut Vec<u8>) -> io::Result<()> {
        block.resize(length + TAG, 0);
        self.file.read(block, place)?;
        self.read.fetch_add(block.len() as u64, Ordering::Relaxed);
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

    /// Gives its bytes back to the disk. Nothing can be read or written any more.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.file.clear()
    }

    /// Bytes that have been written so far, those of blocks that could not be written aside.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Bytes written and read so far.
    #[cfg(test)]
    pub(crate) fn traffic(&self) -> [u64; 2] {
        [self.written(), self.read.load(Ordering::Relaxed)]
    }

    /// Bytes of the file.
    #[cfg(all(test, unix))]
    pub(crate) fn length(&self) -> u64 {
        self.file.0.metadata().unwrap().len()
    }

    /// One on a full disk.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn full() -> Scratch {
        let full = File::options().read(true).write(true).open("/dev/full");
        Scratch {
            file: Positioned::new(full.unwrap()),
            ..Scratch::create(&std::env::temp_dir()).unwrap()
        }
    }

    /// Encrypts or decrypts a block.
    fn encrypt(&self, place: u64, block: &mut [u8]) {
        /// Counters that are encrypted at once: as many as stay in the first cache.
        const COUNTERS: usize = 256;
        let mut keystream = Zeroizing::new([0; COUNTERS]);
        let mut counter = u128::from(place) / COUNTED as u128;
        for bytes in block.chunks_mut(COUNTERS * COUNTED) {
            let keystream = &mut keystream[..bytes.len().div_ceil(COUNTED)];
            for (mask, counter) in keystream.iter_mut().zip(counter..) {
                *mask = counter;
            }
            counter += keystream.len() as u128;
            aes::encrypt(Backend::Best, &self.cipher_key, keystream);
            let (whole, rest) = bytes.as_chunks_mut::<COUNTED>();
            for (bytes, mask) in whole.iter_mut().zip(&*keystream) {
                *bytes = (u128::from_le_bytes(*bytes) ^ mask).to_le_bytes();
            }
            let last = keystream.last().copied().unwrap_or(0).to_le_bytes();
            for (byte, mask) in rest.iter_mut().zip(last) {
                *byte ^= mask;
            }
        }
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

/// A file that threads read and write at positions, side by side.
#[cfg(unix)]
struct Positioned(File);

#[cfg(unix)]
impl Positioned {
    fn new(file: File) -> Positioned {
        Positioned(file)
    }

    fn read(&self, bytes: &mut [u8], place: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.0, bytes, place)
    }

    fn write(&self, bytes: &[u8], place: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(&self.0, bytes, place)
    }

    fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}

/// A file that threads read and write at positions, one after another.
#[cfg(not(unix))]
struct Positioned(std::sync::Mutex<File>);

#[cfg(not(unix))]
impl Positioned {
    fn new(file: File) -> Positioned {
        Positioned(file.into())
    }

    /// The file, at this position.
    fn at(&self, place: u64) -> io::Result<std::sync::MutexGuard<'_, File>> {
        let mut file = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        file.seek(SeekFrom::Start(place))?;
        Ok(file)
    }

    fn read(&self, bytes: &mut [u8], place: u64) -> io::Result<()> {
        self.at(place)?.read_exact(bytes)
    }

    fn write(&self, bytes: &[u8], place: u64) -> io::Result<()> {
        io::Write::write_all(&mut *self.at(place)?, bytes)
    }

    fn clear(&self) -> io::Result<()> {
        self.at(0)?.set_len(0)
    }
}

/// A failure to create or write such a file.
pub(crate) fn unwritable(e: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable(e))
}

/// Plain bytes of each block of a [`ScratchFile`] but the last.
const BLOCK: usize = 64 << 10;

// So the place of a block is known from its number.
const _: () = assert!((BLOCK + TAG).is_multiple_of(COUNTED));

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
        let read = self
            .scratch
            .read(number * (BLOCK + TAG) as u64, length, block);
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
        let scratch = Scratch::create(directory)?;
        Ok(ScratchWriter {
            file: ScratchFile { scratch, length: 0 },
            block: Vec::with_capacity(BLOCK + TAG),
        })
    }

    /// Writes the block.
    fn append(&mut self) -> io::Result<()> {
        let length = self.block.len() as u64;
        if length > 0 {
            let appended = self.file.scratch.append(&mut self.block);
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

    fn on_disk(scratch: &Scratch) -> Vec<u8> {
        let mut bytes = vec![0; scratch.traffic()[0] as usize];
        scratch.file.read(&mut bytes, 0).unwrap();
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
    fn the_keystream_is_that_of_counter_mode() {
        let scratch = Scratch::create(&std::env::temp_dir()).unwrap();
        for (place, length) in [(0, 0), (0, 1), (16, 15), (1 << 40, 16), (48, 4096 + 33)] {
            let mut block = vec![0; length];
            scratch.encrypt(place, &mut block);
            for (counter, bytes) in (place / 16..).zip(block.chunks(16)) {
                let mut mask = [counter.into()];
                aes::encrypt(Backend::Portable, &scratch.cipher_key, &mut mask);
                let mask = mask[0].to_le_bytes();
                assert_eq!(bytes, &mask[..bytes.len()], "{place} {length}");
            }
        }
    }

    #[test]
    fn changed_and_moved_blocks_are_noticed() {
        let scratch = Scratch::create(&std::env::temp_dir()).unwrap();
        let places = [0, 1].map(|i| scratch.append(&mut vec![i; 112]).unwrap());
        let mut block = Vec::new();
        scratch.read(places[1], 112, &mut block).unwrap();
        assert_eq!(block, [1; 112]);
        let bytes = on_disk(&scratch);
        let swapped = [&bytes[144..], &bytes[..144]].concat();
        let mut flipped = bytes.clone();
        flipped[150] ^= 1;
        for (damaged, readable) in [(swapped, 0), (flipped, 1)] {
            scratch.file.write(&damaged, 0).unwrap();
            let readings = places.map(|place| scratch.read(place, 112, &mut block));
            assert_eq!(readings.iter().filter(|r| r.is_ok()).count(), readable);
            let error = readings.into_iter().find_map(Result::err).unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn threads_write_and_read_side_by_side() {
        let scratch = Scratch::create(&std::env::temp_dir()).unwrap();
        let block = |i: u8| vec![i; 7 * usize::from(i)];
        let places: Vec<u64> = std::thread::scope(|scope| {
            let write = |i| scratch.append(&mut block(i)).unwrap();
            let threads: Vec<_> = (0..40).map(|i| scope.spawn(move || write(i))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for (i, place) in (0..).zip(places) {
            let mut found = Vec::new();
            scratch.read(place, block(i).len(), &mut found).unwrap();
            assert_eq!(found, block(i));
        }
    }
}
