//! What comes bucket by bucket and is read again later, on disk.

use std::path::Path;

use zeroize::Zeroizing;

use crate::blob::{Blob, TAG, unwritable};
use crate::error::{Error, Result};

/// Bytes that are written at once.
pub(crate) const CHUNK_BYTES: usize = 1 << 14;

/// A piece of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chunk {
    pub(crate) place: u64,
    pub(crate) bytes: usize,
}

impl Chunk {
    pub(crate) fn read(self, blob: &Blob, bytes: &mut Vec<u8>) -> Result<()> {
        let read = blob.read(self.place, self.bytes, bytes);
        read.map_err(Error::Unreadable)
    }
}

/// Bytes of each bucket, in an encrypted file without a name.
#[derive(Debug)]
pub struct BucketFile {
    blob: Blob,
    buckets: Vec<Vec<Chunk>>,
}

impl BucketFile {
    /// Without any yet, in `directory`.
    ///
    /// # Errors
    /// No file can be created there.
    pub fn create(directory: &Path) -> Result<BucketFile> {
        Ok(BucketFile {
            blob: Blob::create(directory).map_err(unwritable)?,
            buckets: Vec::new(),
        })
    }

    /// Up to the last bucket that has been added.
    pub(crate) fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// Writes what a bucket has, in place of what it had. The time depends on the number of bytes alone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, bucket: usize, bytes: &[u8]) -> Result<()> {
        let write = |bytes: &[u8]| {
            let mut block = Vec::with_capacity(bytes.len() + TAG);
            block.extend_from_slice(bytes);
            let place = self.blob.append(&mut block).map_err(unwritable)?;
            let bytes = bytes.len();
            Ok(Chunk { place, bytes })
        };
        let chunks = bytes.chunks(CHUNK_BYTES).map(write);
        let chunks = chunks.collect::<Result<_>>()?;
        self.buckets
            .resize_with(self.buckets.len().max(bucket + 1), Vec::new);
        self.buckets[bucket] = chunks;
        Ok(())
    }

    /// What [`BucketFile::add`] was given for a bucket; nothing if it was not.
    ///
    /// # Errors
    /// The file cannot be read back.
    pub fn read(&self, bucket: usize) -> Result<Zeroizing<Vec<u8>>> {
        let chunks = self.buckets.get(bucket).map_or(&[][..], Vec::as_slice);
        let all = chunks.iter().map(|chunk| chunk.bytes).sum();
        let mut bytes = Zeroizing::new(Vec::with_capacity(all));
        let mut block = Zeroizing::new(Vec::new());
        for chunk in chunks {
            chunk.read(&self.blob, &mut block)?;
            bytes.extend_from_slice(&block);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_gets_its_bytes_back_as_often_as_it_asks() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = BucketFile::create(directory.path()).unwrap();
        let lengths = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 7];
        let bytes = |bucket: usize| vec![bucket as u8 + 1; lengths[bucket]];
        for bucket in [3, 0, 4, 1, 2] {
            file.add(bucket, &bytes(bucket)).unwrap();
        }
        assert_eq!(file.buckets(), lengths.len());
        for bucket in [0, 1, 2, 3, 4, 4, 0] {
            assert_eq!(*file.read(bucket).unwrap(), bytes(bucket));
        }
        assert!(file.read(5).unwrap().is_empty());
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
