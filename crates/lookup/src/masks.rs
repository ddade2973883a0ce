//! Masks in ascending order, with what goes with each, in bounded memory: a store of keys whose digests begin with them.

use std::path::{Path, PathBuf};

use vesica_keys::{Gather, Layout, Record, Result};

use crate::header::MASK_BYTES;

/// A mask with its payload.
pub(crate) type Entry = (u128, Vec<u8>);

/// Gathers masks.
pub(crate) struct Masks {
    gather: Gather,
    /// Bits of a mask.
    width: u32,
    count: u64,
    memory: u64,
    directory: PathBuf,
}

impl Masks {
    /// For masks of `width` bits, 1 to 128, with payloads of so many bytes, in about so many bytes of memory. What does not
    /// fit goes to unnamed files in `directory`.
    pub(crate) fn new(directory: &Path, width: u32, payload: usize, memory: u64) -> Result<Masks> {
        let layout = Layout {
            label: payload,
            ..Layout::default()
        };
        Ok(Masks {
            gather: Gather::new(layout, memory, directory)?,
            width,
            count: 0,
            memory,
            directory: directory.to_owned(),
        })
    }

    fn unused_bits(&self) -> u32 {
        u128::BITS - self.width
    }

    pub(crate) fn push(&mut self, mask: u128, payload: &[u8]) -> Result<()> {
        let mut digest = [0; 32];
        let (head, rest) = digest.split_at_mut(MASK_BYTES);
        head.copy_from_slice(&(mask << self.unused_bits()).to_be_bytes());
        // Two keys may have one mask.
        rest[..8].copy_from_slice(&self.count.to_be_bytes());
        self.count += 1;
        self.gather.add(Some(&Record {
            digest,
            number: 0,
            beside: payload,
            line: None,
        }))
    }

    /// Hands all masks with their payloads to `each`, in order.
    pub(crate) fn finish<E: From<vesica_keys::Error>>(
        self,
        mut each: impl FnMut(u128, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (unused_bits, payload) = (self.unused_bits(), self.gather.layout().label);
        // A bucket, the same sorted, and what sorts it.
        let mask_bytes = 68 + 2 * payload as u64;
        let mut keys = self.gather.finish()?;
        keys.split_ascending(&self.directory, mask_bytes, self.memory, || false)?;
        for bucket in 0..keys.buckets() {
            let sorted = keys.load(bucket, true)?.sorted();
            let payloads = sorted.labels.as_deref().unwrap_or_default();
            for (index, digest) in sorted.digests.iter().enumerate() {
                let (head, _) = digest.split_first_chunk().expect("32 bytes");
                let mask = u128::from_be_bytes(*head) >> unused_bits;
                each(mask, &payloads[index * payload..][..payload])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_sorted_whether_they_fit_or_not() {
        let directory = tempfile::tempdir().unwrap();
        for (count, payload, memory) in [
            (0, 0, 0),
            (50, 3, u64::MAX),
            (70_000, 0, 0),
            (70_000, 3, 0),
            (70_000, 3, u64::MAX),
        ] {
            for width in [41, 128] {
                let mut masks = Masks::new(directory.path(), width, payload, memory).unwrap();
                let mut expected: Vec<Entry> = Vec::new();
                for i in 0..count {
                    // One key in a hundred has the mask of another.
                    let hash = blake3::hash(&u64::to_le_bytes(i % (count - count / 100)));
                    let (head, _) = hash.as_bytes().split_first_chunk().unwrap();
                    let mask = u128::from_be_bytes(*head) >> (128 - width);
                    let entry = (mask, i.to_le_bytes()[..payload].to_vec());
                    masks.push(mask, &entry.1).unwrap();
                    expected.push(entry);
                }
                // Those with one mask as they have come.
                expected.sort_by_key(|(mask, _)| *mask);
                let mut sorted = Vec::new();
                let finished = masks.finish(|mask, payload| {
                    sorted.push((mask, payload.to_vec()));
                    Ok::<_, vesica_keys::Error>(())
                });
                finished.unwrap();
                assert!(sorted == expected, "{count}");
            }
        }
        assert_eq!(directory.path().read_dir().unwrap().count(), 0);
    }
}
