//! The memory of a run, and the share of it that a bucket may use.

/// A number of bytes as [`parse_bytes`](crate::parse_bytes) reads it, rounded up.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let units = [("G", 30), ("M", 20), ("K", 10)];
    let unit = units.iter().find(|(_, power)| bytes >= 8 << power);
    let (unit, power) = unit.copied().unwrap_or(("", 0));
    format!("{}{unit}", bytes.div_ceil(1 << power))
}

/// The share of the memory of a run that one bucket may use.
const BUCKETS_SHARE: u64 = 2;

/// The least memory to advise, in bytes: the program itself takes about as much, so that less saves nothing.
const LEAST_ADVICE: u64 = 64 << 20;

/// Memory to advise for a run in which a bucket has to use so many bytes.
pub(crate) fn memory_for(bucket: u64) -> u64 {
    bucket.saturating_mul(BUCKETS_SHARE).max(LEAST_ADVICE)
}

/// The bytes of a bucket in a run with so much memory.
pub(crate) fn memory_of_bucket(run: u64) -> u64 {
    run / BUCKETS_SHARE
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
            assert!(memory_of_bucket(memory_for(bucket)) >= bucket);
        }
        assert_eq!(show_bytes(memory_for(70_000)), "64M");
    }
}
