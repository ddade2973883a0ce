//! The memory of a run, and the shares of it that keys and a bucket may use.

use std::fmt;
use std::path::{Path, PathBuf};

use vesica_files::{Advice, Argument, advice, free_bytes, many};
use vesica_keys::{KeyBytes, Layout};

/// A number of bytes as [`parse_bytes`](crate::parse_bytes) reads it, rounded up.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let unit = units.iter().find(|(_, power)| bytes >= 8 << power);
    let (unit, power) = unit.copied().unwrap_or(("", 0));
    format!("{}{unit}", bytes.div_ceil(1 << power))
}

/// The same in a sentence, where a number alone would have no unit.
pub(crate) fn in_words(bytes: u64) -> String {
    let shown = show_bytes(bytes);
    match shown.ends_with(|last: char| last.is_ascii_digit()) {
        true => many(bytes, "byte"),
        false => shown,
    }
}

/// How the memory of a run is shared, in [`PARTS`] of it.
struct Sharing {
    /// For keys that need no disk.
    keys: u64,
    /// For the protocol, over keys that are in memory.
    bucket: u64,
    /// The same over keys on disk, of which one bucket is loaded while another runs.
    bucket_on_disk: u64,
}

const PARTS: u64 = 16;

/// A run takes keys over. While they are read they take more than half of what the protocol then takes of them.
const TAKEN_OVER: Sharing = Sharing {
    keys: 7,
    bucket: 14,
    bucket_on_disk: 11,
};

/// Keys stay beside the run, or something goes with them.
const KEPT: Sharing = Sharing {
    keys: 4,
    bucket: 8,
    bucket_on_disk: 8,
};

fn sharing(keeps_keys: bool) -> Sharing {
    match keeps_keys {
        true => KEPT,
        false => TAKEN_OVER,
    }
}

/// Bytes for keys that need no disk, in a run with so many bytes of memory. It keeps them if values, columns or an order
/// go with them.
pub fn key_memory(run: u64, keeps_keys: bool) -> u64 {
    parts(run, sharing(keeps_keys).keys)
}

/// Bytes for the protocol in such a run, over one bucket or all of its `items` keys. The peer hears of it, so that it
/// depends on nothing else: not on the number of rows.
pub fn bucket_memory(run: u64, items: u64, keeps_keys: bool) -> u64 {
    // No table has more rows.
    let items = items.min(1 << u32::BITS);
    let keys = KeyBytes::in_memory(items, items, &Layout::default());
    let of = sharing(keeps_keys);
    let fits = keys <= key_memory(run, keeps_keys);
    parts(run, if fits { of.bucket } else { of.bucket_on_disk })
}

/// So many [`PARTS`] of the memory of a run.
fn parts(run: u64, count: u64) -> u64 {
    run / PARTS * count + run % PARTS * count / PARTS
}

/// What a run takes of this machine whose keys do not fit into memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Rows of the table, approximately if it has not been read.
    pub rows: u64,
    /// Bytes of memory, approximately.
    pub memory: u64,
    /// The directory for files of keys.
    pub directory: PathBuf,
    /// Bytes that these take there at most: less where rows share keys or have none.
    pub disk: u64,
    /// Bytes that are free there, if that is known.
    pub free: Option<u64>,
}

impl Storage {
    /// What is there for a table of so many rows, whose keys take so much.
    pub(crate) fn of(rows: u64, memory: u64, keys: KeyBytes, directory: &Path) -> Storage {
        Storage {
            rows,
            memory,
            directory: directory.to_owned(),
            disk: keys.on_disk,
            free: free_bytes(directory),
        }
    }

    /// What to be told if the disk may not do.
    pub(crate) fn warning(&self) -> Option<Advice> {
        let free = self.free.filter(|free| *free < self.disk)?;
        let (disk, free) = (in_words(self.disk), in_words(free));
        Some(advice![
            format!(
                "keys may take {disk} in {}, where {free} are free; with more ",
                self.directory.display()
            ),
            Argument::Memory,
            " they may not have to go there",
        ])
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [memory, disk] = [self.memory, self.disk].map(in_words);
        let (rows, directory) = (many(self.rows, "row"), self.directory.display());
        write!(
            f,
            "some {rows} may take {memory} of memory, and up to {disk} in {directory}"
        )?;
        match self.free {
            Some(free) => write!(f, ", where {} are free", in_words(free)),
            None => Ok(()),
        }
    }
}

/// Memory of a run of which the protocol has the least part, in which it has so many bytes.
const LEAST_SHARE: u64 = PARTS / KEPT.bucket;

/// The least memory to advise, in bytes: the program itself takes about as much, so that less saves nothing.
const LEAST_ADVICE: u64 = 64 << 20;

/// Memory to advise for a run in which a bucket has to use so many bytes.
pub(crate) fn memory_for(bucket: u64) -> u64 {
    bucket.saturating_mul(LEAST_SHARE).max(LEAST_ADVICE)
}

/// Memory to advise for a task, all of which is for a bucket of so many bytes, the least that there can be. Less would make
/// the most tasks, with the most padding.
pub(crate) fn task_memory_for(bucket: u64) -> u64 {
    bucket.max(LEAST_ADVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_shown_are_read_as_no_less() {
        for (bytes, shown) in [
            (0, "0"),
            (8191, "8191"),
            (8192, "8K"),
            (8193, "9K"),
            (23_000_000, "22M"),
            (9 << 30, "9G"),
        ] {
            assert_eq!(show_bytes(bytes), shown);
            assert!(bytes == 0 || crate::parse_bytes(shown).unwrap() >= bytes);
        }
        for bucket in [7, LEAST_ADVICE, 9 << 30] {
            for (items, keeps) in [(0, true), (1 << 40, false), (1 << 40, true)] {
                assert!(bucket_memory(memory_for(bucket), items, keeps) >= bucket);
            }
        }
        assert_eq!(show_bytes(memory_for(70_000)), "64M");
    }

    #[test]
    fn what_a_disk_lacks_is_said() {
        let storage = Storage {
            rows: 1000,
            memory: 9 << 30,
            directory: "here".into(),
            disk: 9 << 20,
            free: Some(8 << 20),
        };
        assert_eq!(
            storage.to_string(),
            "some 1000 rows may take 9G of memory, and up to 9M in here, where 8M are free"
        );
        let warning = storage.warning().unwrap().to_string();
        assert!(warning.starts_with("keys may take 9M in here, where 8M are free; "));
        let little = Storage {
            rows: 1,
            memory: 1024,
            ..storage.clone()
        };
        let words = "some 1 row may take 1024 bytes of memory, and up to 9M in here, ";
        assert!(little.to_string().starts_with(words), "{little}");
        for free in [Some(9 << 20), None] {
            assert_eq!(
                Storage {
                    free,
                    ..storage.clone()
                }
                .warning(),
                None
            );
        }
    }

    /// `vole` takes 110 bytes per key, of which 32 are the key itself.
    #[test]
    fn what_is_shared_out_fits() {
        let gib = 1u64 << 30;
        for run in [0, 15, gib, 9 * gib, u64::MAX] {
            let most = u128::from(run);
            for keeps in [true, false] {
                let keys = u128::from(key_memory(run, keeps));
                let one = u128::from(bucket_memory(run, 0, keeps));
                assert!(u128::from(bucket_memory(run, u64::MAX, keeps)) <= one && one <= most);
                // The next bucket is loaded beside the one that runs.
                let many = u128::from(parts(run, sharing(keeps).bucket_on_disk));
                assert!(many + many * 32 / 110 <= most);
                // What stays in memory of keys that were read: 36 of 54 bytes, and 4 of them if they are taken over.
                let stays = if keeps { keys * 36 / 54 } else { keys * 4 / 54 };
                assert!(one + stays <= most);
            }
        }
        // 2^26 keys in one bucket, and in one more than memory holds.
        assert!(bucket_memory(9 * gib, 1 << 26, false) >= 110 << 26);
        assert!(bucket_memory(7 * gib, 1 << 26, false) < 110 << 26);
        assert_eq!(bucket_memory(gib, 1 << 26, true), gib / 2);
        assert_eq!(bucket_memory(gib, 1 << 26, false), gib / 16 * 11);
    }
}
