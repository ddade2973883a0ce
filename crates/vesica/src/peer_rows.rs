//! Rows that the peer hands over in a union, on disk until the run is over: which slots have one is not looked at before, since
//! the peer would see how long that takes.

use std::path::Path;

use vesica_keys::{BucketFile, Error as KeyError};
use vesica_psi::RowSlots;
use zeroize::Zeroizing;

/// The slots of each bucket: what is in them, and then a byte for each, 1 if that is a row.
pub(crate) struct PeerRows {
    file: BucketFile,
    buckets: usize,
    /// Bytes of a slot.
    bytes: usize,
}

impl PeerRows {
    /// None yet.
    pub(crate) fn create(directory: &Path) -> Result<PeerRows, KeyError> {
        Ok(PeerRows {
            file: BucketFile::create(directory)?,
            buckets: 0,
            bytes: 0,
        })
    }

    /// Adds the slots of the next bucket. The time depends on their number alone.
    pub(crate) fn add(&mut self, slots: &RowSlots) -> Result<(), KeyError> {
        let flags = slots.is_row.iter().map(|is_row| u8::from(*is_row));
        let mut all = Zeroizing::new(Vec::with_capacity(slots.contents.len() + flags.len()));
        all.extend_from_slice(&slots.contents);
        all.extend(flags);
        self.file.add(self.buckets, &all)?;
        (self.bytes, self.buckets) = (slots.bytes, self.buckets + 1);
        Ok(())
    }

    pub(crate) fn buckets(&self) -> usize {
        self.buckets
    }

    /// The slots of a bucket.
    pub(crate) fn read(&self, bucket: usize) -> Result<RowSlots, KeyError> {
        let all = self.file.read(bucket)?;
        let (contents, flags) = all.split_at(all.len() / (self.bytes + 1) * self.bytes);
        Ok(RowSlots {
            bytes: self.bytes,
            contents: Zeroizing::new(contents.to_vec()),
            is_row: Zeroizing::new(flags.iter().map(|flag| *flag == 1).collect()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_back_bucket_by_bucket() {
        let directory = tempfile::tempdir().unwrap();
        let mut all = PeerRows::create(directory.path()).unwrap();
        let slots = |bucket: usize| {
            let mut slots = RowSlots::with_capacity(3, 9);
            (0..9 * bucket)
                .for_each(|slot| slots.push(&[slot as u8, bucket as u8, 7], slot % 3 == 1));
            slots
        };
        (0..4).for_each(|bucket| all.add(&slots(bucket)).unwrap());
        assert_eq!(all.buckets(), 4);
        for bucket in [3, 0, 2, 1] {
            assert_eq!(all.read(bucket).unwrap(), slots(bucket));
        }
    }
}
