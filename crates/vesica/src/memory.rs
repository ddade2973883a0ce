//! The memory of a run, and how it is divided.

use std::fmt;
use std::path::{Path, PathBuf};

use vesica_files::{Advice, Argument, advice, free_bytes, many};
use vesica_keys::{KeyBytes, Layout};

/// A number of bytes as [`parse_bytes`](crate::options::parse_bytes) reads it, rounded up.
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

/// What memory is divided for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// A run that takes keys over. While they are read they take more than half of what the protocol then takes of them.
    Run,
    /// A run beside which keys stay, or with whose keys something goes: values, columns, an order.
    RunBesideKeys,
    /// A publication, which sorts masks beside its keys.
    Publication,
    /// A look-up, beside whose keys are answers, and then what was published with them.
    LookUp,
}

/// A budget in [`PARTS`] of the memory.
struct Shares {
    keys: u64,
    bucket: u64,
    bucket_on_disk: u64,
    results: u64,
    rows: u64,
}

const PARTS: u64 = 16;

impl Division {
    /// That of a run, whether or not something goes with its keys.
    pub fn of_run(goes_with_keys: bool) -> Division {
        match goes_with_keys {
            true => Division::RunBesideKeys,
            false => Division::Run,
        }
    }

    const fn shares(self) -> Shares {
        match self {
            Division::Run => Shares {
                keys: 7,
                bucket: 14,
                bucket_on_disk: 11,
                results: 0,
                rows: 8,
            },
            Division::RunBesideKeys => Shares {
                keys: 4,
                bucket: 8,
                bucket_on_disk: 8,
                results: 0,
                rows: 8,
            },
            Division::Publication | Division::LookUp => Shares {
                keys: 4,
                bucket: 4,
                bucket_on_disk: 4,
                results: 4,
                rows: 4,
            },
        }
    }
}

/// How the memory of a run is divided, in bytes. Whoever takes memory is given one of these parts, and divides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// All of it; `None` is no limit.
    limit: Option<u64>,
    /// For keys that need no disk, and for what the peer hands over with them.
    pub keys: u64,
    /// For the protocol, over keys that are in memory.
    bucket: u64,
    /// The same over keys on disk, of which one bucket is loaded while another runs.
    bucket_on_disk: u64,
    /// For what comes of keys without a run: masks to sort, or answers.
    pub(crate) results: u64,
    /// For rows that are put in order, after the run.
    pub rows: u64,
}

impl Budget {
    /// Divides so many bytes; `None` is no limit.
    pub fn new(limit: Option<u64>, division: Division) -> Budget {
        let shares = division.shares();
        let of = |count: u64| limit.map_or(u64::MAX, |limit| parts(limit, count));
        Budget {
            limit,
            keys: of(shares.keys),
            bucket: of(shares.bucket),
            bucket_on_disk: of(shares.bucket_on_disk),
            results: of(shares.results),
            rows: of(shares.rows),
        }
    }

    /// For the protocol over one bucket or all of so many keys; `None` is no limit. The peer hears of it, so that it depends
    /// on nothing else: not on the number of rows.
    pub fn bucket(&self, items: u64) -> Option<u64> {
        self.limit?;
        // No table has more rows.
        let items = items.min(1 << u32::BITS);
        let keys = KeyBytes::in_memory(items, items, &Layout::default());
        Some(match keys <= self.keys {
            true => self.bucket,
            false => self.bucket_on_disk,
        })
    }

    /// For work on a bucket of which no peer hears.
    pub(crate) fn own_bucket(&self) -> u64 {
        self.bucket_on_disk
    }

    /// All of it, if keys that take so many bytes do not fit into their part.
    pub(crate) fn exceeded_by(&self, keys: u64) -> Option<u64> {
        self.limit.filter(|_| keys > self.keys)
    }
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
const LEAST_SHARE: u64 = PARTS / Division::RunBesideKeys.shares().bucket;

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
            assert!(bytes == 0 || crate::options::parse_bytes(shown).unwrap() >= bytes);
        }
        for bucket in [7, LEAST_ADVICE, 9 << 30] {
            let least = Some(memory_for(bucket));
            for (items, division) in [
                (0, Division::RunBesideKeys),
                (1 << 40, Division::Run),
                (1 << 40, Division::RunBesideKeys),
            ] {
                assert!(Budget::new(least, division).bucket(items).unwrap() >= bucket);
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
            for division in [Division::RunBesideKeys, Division::Run] {
                let budget = Budget::new(Some(run), division);
                let bucket = |items| u128::from(budget.bucket(items).unwrap());
                let (keys, one) = (u128::from(budget.keys), bucket(0));
                assert!(bucket(u64::MAX) <= one && one <= most);
                // The next bucket is loaded beside the one that runs.
                let many = u128::from(budget.bucket_on_disk);
                assert!(many + many * 32 / 110 <= most);
                // What stays in memory of keys that were read: 36 of 54 bytes, and 4 of them if they are taken over.
                let stays = match division {
                    Division::Run => keys * 4 / 54,
                    _ => keys * 36 / 54,
                };
                assert!(one + stays <= most);
                assert!(u128::from(budget.rows) + stays <= most);
            }
        }
        for run in [0, 15, gib, u64::MAX] {
            for division in [Division::Publication, Division::LookUp] {
                let budget = Budget::new(Some(run), division);
                // What was published stays beside keys and answers, and is put in the order of rows.
                let parts = [
                    budget.keys,
                    budget.keys,
                    budget.results,
                    budget.own_bucket(),
                ];
                assert!(parts.map(u128::from).iter().sum::<u128>() <= run.into());
                assert!(budget.rows <= budget.own_bucket());
            }
        }
        let of = |run, division| Budget::new(Some(run), division).bucket(1 << 26).unwrap();
        // 2^26 keys in one bucket, and in one more than memory holds.
        assert!(of(9 * gib, Division::Run) >= 110 << 26);
        assert!(of(7 * gib, Division::Run) < 110 << 26);
        assert_eq!(of(gib, Division::RunBesideKeys), gib / 2);
        assert_eq!(of(gib, Division::Run), gib / 16 * 11);
        let unlimited = Budget::new(None, Division::Run);
        assert_eq!((unlimited.keys, unlimited.bucket(1)), (u64::MAX, None));
    }
}
