//! The keys of a store in ascending order of their digests, a bucket at a time.

use std::path::Path;

use crate::error::Result;
use crate::store::KeyStore;

/// Most buckets, whatever the memory.
const MAX_BUCKETS: u64 = 1 << 16;

impl KeyStore {
    /// [Splits](KeyStore::split) keys so that the digests of each bucket are below those of the next. Digests are uniform; if
    /// work on a key takes `key_bytes` bytes, that on a bucket takes about `memory`. All threads ask again and again whether
    /// it `is_stopped`.
    ///
    /// # Errors
    /// As [`KeyStore::split`].
    pub fn split_ascending(
        &mut self,
        directory: &Path,
        key_bytes: u64,
        memory: u64,
        is_stopped: impl Fn() -> bool + Sync,
    ) -> Result<()> {
        let bytes = self.counts().items.saturating_mul(key_bytes);
        let buckets = bytes.div_ceil(memory.max(1)).clamp(1, MAX_BUCKETS);
        let bucket = |[a, b, c, d, ..]: &[u8; 32]| {
            let head = u32::from_be_bytes([*a, *b, *c, *d]);
            ((u64::from(head) * buckets) >> 32) as u32
        };
        let assign = |digests: &[[u8; 32]]| match is_stopped() {
            true => Vec::new(),
            false => digests.iter().map(bucket).collect(),
        };
        self.split(directory, buckets as usize, assign)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::error::Error;
    use crate::gather::{Gather, Record};
    use crate::layout::Layout;

    #[test]
    fn sorted_buckets_are_all_keys_in_order() {
        let directory = std::env::temp_dir();
        let digest = |i: u32| *blake3::hash(&i.to_le_bytes()).as_bytes();
        let mut expected: Vec<_> = (0..3000).map(digest).collect();
        expected.sort();
        for (gathered, memory, most) in [(0, 30_000, 10), (u64::MAX, 30_000, 10), (0, u64::MAX, 1)]
        {
            let mut gather = Gather::new(Layout::default(), gathered, &directory).unwrap();
            for i in 0..3000 {
                gather.add(Some(&Record::of(&digest(i)))).unwrap();
            }
            let mut keys = gather.finish().unwrap();
            assert_eq!(keys.is_in_memory(), gathered > 0);
            keys.split_ascending(&directory, 100, memory, || false)
                .unwrap();
            assert_eq!(keys.buckets(), most);
            let mut all = Vec::new();
            for bucket in 0..keys.buckets() {
                all.extend_from_slice(&keys.load(bucket, true).unwrap().sorted().digests);
            }
            assert!(all == expected);
        }
    }

    #[test]
    fn a_split_stops_wherever_keys_are() {
        let directory = std::env::temp_dir();
        for gathered in [0, u64::MAX] {
            let mut gather = Gather::new(Layout::default(), gathered, &directory).unwrap();
            for i in 0..20_000u32 {
                let digest = *blake3::hash(&i.to_le_bytes()).as_bytes();
                gather.add(Some(&Record::of(&digest))).unwrap();
            }
            let mut keys = gather.finish().unwrap();
            assert_eq!(keys.is_in_memory(), gathered > 0);
            let asked = AtomicUsize::new(0);
            let is_stopped = || asked.fetch_add(1, Ordering::SeqCst) == 2;
            let stopped = keys.split_ascending(&directory, 100, 30_000, is_stopped);
            assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
        }
    }
}
