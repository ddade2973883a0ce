//! Temporary files that nobody else can read.
//!
//! A [`Blob`] has no name, so that a killed process leaves nothing, and contains only ciphertext: its keys
//! exist only in this process's memory and are wiped when it is dropped. Each block carries a tag, so that
//! bytes changed on disk are detected. That costs one hash of each block and 32 bytes on disk.
//!
//! The cipher is AES-128 in counter mode (NIST SP 800-38A, section 6.5) under a random key of the file: the counter of
//! 16 bytes of the file is their position. No position is written twice, so no counter is used twice. In a file of 2^b
//! bytes the keystream differs from random bytes with advantage 2^(2b - 137) at most (a permutation is no function):
//! 2^-57 for a terabyte. The tag is keyed BLAKE3 of the block's ciphertext and position.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use blake3::{Hash, Hasher, OUT_LEN};
use vesica_kernels::{Backend, aes};
use zeroize::{Zeroize, Zeroizing};

use crate::error::Error;

/// Bytes of a block's tag, which follows it.
pub const TAG: usize = OUT_LEN;

/// Bytes that share a counter. Every block begins with a counter of its own.
const COUNTED: usize = 16;

/// Blocks of bytes in an unnamed file, encrypted and authenticated. Threads write and read side by side.
pub struct Blob {
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

impl std::fmt::Debug for Blob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blob")
            .field("bytes", &self.end)
            .finish_non_exhaustive()
    }
}

impl Blob {
    /// Where blocks begin: at multiples of so many bytes.
    pub const ALIGNED: usize = COUNTED;

    /// An empty file in `directory`.
    ///
    /// # Errors
    /// As the system's.
    pub fn create(directory: &Path) -> io::Result<Blob> {
        let file = Positioned::new(tempfile::tempfile_in(directory)?);
        let mut cipher_key = Zeroizing::new([0; 16]);
        let mut tag_key = Box::new(Zeroizing::new([0; 32]));
        getrandom::fill(&mut *cipher_key).map_err(io::Error::other)?;
        getrandom::fill(&mut **tag_key).map_err(io::Error::other)?;
        Ok(Blob {
            file,
            cipher_key: Box::new(aes::Key::new(u128::from_le_bytes(*cipher_key))),
            tag_key,
            end: AtomicU64::new(0),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
        })
    }

    /// Writes a block, and returns its position. `block` is ciphertext afterwards.
    ///
    /// # Errors
    /// As the system's.
    pub fn append(&self, block: &mut Vec<u8>) -> io::Result<u64> {
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
    /// # Errors
    /// As the system's; [`io::ErrorKind::InvalidData`] if it is not what was written.
    pub fn read(&self, place: u64, length: usize, block: &mut Vec<u8>) -> io::Result<()> {
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
    ///
    /// # Errors
    /// As the system's.
    pub fn clear(&self) -> io::Result<()> {
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
    pub(crate) fn full() -> Blob {
        let full = File::options().read(true).write(true).open("/dev/full");
        Blob {
            file: Positioned::new(full.unwrap()),
            ..Blob::create(&std::env::temp_dir()).unwrap()
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
        io::Seek::seek(&mut *file, io::SeekFrom::Start(place))?;
        Ok(file)
    }

    fn read(&self, bytes: &mut [u8], place: u64) -> io::Result<()> {
        io::Read::read_exact(&mut *self.at(place)?, bytes)
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
    Error::Unwritable(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_disk(blob: &Blob) -> Vec<u8> {
        let mut bytes = vec![0; blob.traffic()[0] as usize];
        blob.file.read(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn no_plain_text_is_on_the_disk() {
        let text = "alice@example.com,Rome\n".repeat(10_000);
        let blob = Blob::create(&std::env::temp_dir()).unwrap();
        for part in text.as_bytes().chunks(10_000 - TAG) {
            blob.append(&mut part.to_vec()).unwrap();
        }
        let bytes = on_disk(&blob);
        assert!(bytes.len() > text.len());
        assert!(!bytes.windows(5).any(|w| w == b"alice"));
        // Equal blocks are unequal on the disk.
        let blocks: std::collections::HashSet<_> = bytes.chunks(64).collect();
        assert_eq!(blocks.len(), bytes.len().div_ceil(64));
    }

    #[test]
    fn the_keystream_is_that_of_counter_mode() {
        let blob = Blob::create(&std::env::temp_dir()).unwrap();
        for (place, length) in [(0, 0), (0, 1), (16, 15), (1 << 40, 16), (48, 4096 + 33)] {
            let mut block = vec![0; length];
            blob.encrypt(place, &mut block);
            for (counter, bytes) in (place / 16..).zip(block.chunks(16)) {
                let mut mask = [counter.into()];
                aes::encrypt(Backend::Portable, &blob.cipher_key, &mut mask);
                let mask = mask[0].to_le_bytes();
                assert_eq!(bytes, &mask[..bytes.len()], "{place} {length}");
            }
        }
    }

    #[test]
    fn changed_and_moved_blocks_are_noticed() {
        let blob = Blob::create(&std::env::temp_dir()).unwrap();
        let places = [0, 1].map(|i| blob.append(&mut vec![i; 112]).unwrap());
        let mut block = Vec::new();
        blob.read(places[1], 112, &mut block).unwrap();
        assert_eq!(block, [1; 112]);
        let bytes = on_disk(&blob);
        let swapped = [&bytes[144..], &bytes[..144]].concat();
        let mut flipped = bytes.clone();
        flipped[150] ^= 1;
        for (damaged, readable) in [(swapped, 0), (flipped, 1)] {
            blob.file.write(&damaged, 0).unwrap();
            let readings = places.map(|place| blob.read(place, 112, &mut block));
            assert_eq!(readings.iter().filter(|r| r.is_ok()).count(), readable);
            let error = readings.into_iter().find_map(Result::err).unwrap();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn threads_write_and_read_side_by_side() {
        let blob = Blob::create(&std::env::temp_dir()).unwrap();
        let block = |i: u8| vec![i; 7 * usize::from(i)];
        let places: Vec<u64> = std::thread::scope(|scope| {
            let write = |i| blob.append(&mut block(i)).unwrap();
            let threads: Vec<_> = (0..40).map(|i| scope.spawn(move || write(i))).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        for (i, place) in (0..).zip(places) {
            let mut found = Vec::new();
            blob.read(place, block(i).len(), &mut found).unwrap();
            assert_eq!(found, block(i));
        }
    }
}
