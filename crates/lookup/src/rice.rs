//! Golomb–Rice coding of sorted numbers: each difference as a quotient in unary and a remainder of some bits.
//!
//! Source: Golomb, *Run-length encodings*, IEEE Trans. Inf. Theory 12 (1966); Rice and Plaunt (1971). For n uniform numbers
//! of w bits a difference takes about w − log₂ n + 1.54 bits, 0.1 above the entropy.

/// Bits of remainders for `count` uniform numbers of `width` bits: the largest k with 2^k at most ln 2 times the mean
/// difference 2^`width`/`count`.
pub(crate) fn remainder_bits(width: u32, count: u64) -> u32 {
    // ln 2 = 0.693…
    let parts = (u128::from(count) * 1000).div_ceil(693).max(1);
    width.saturating_sub(parts.next_power_of_two().ilog2())
}

/// Writes bits, lowest first.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    pending: u64,
    /// Bits of `pending`: below 8 between calls.
    count: u32,
}

impl BitWriter {
    /// Writes the lowest `bits` bits, at most 56.
    fn put(&mut self, value: u64, bits: u32) {
        self.pending |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.bytes.push(self.pending as u8);
            self.pending >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push(self.pending as u8);
        }
        self.bytes
    }
}

/// Bits that are read or written at once.
const AT_ONCE: u32 = 56;

fn low(value: u128, bits: u32) -> u64 {
    (value & ((1 << bits) - 1)) as u64
}

/// The code of ascending numbers, of which the first is known.
pub(crate) fn encode(numbers: &[u128], remainder: u32) -> Vec<u8> {
    let mut out = BitWriter::default();
    for pair in numbers.windows(2) {
        let mut rest = pair[1] - pair[0];
        // Quotients of uniform numbers are small.
        let mut quotient = rest.checked_shr(remainder).unwrap_or(0);
        while quotient >= u128::from(AT_ONCE) {
            out.put(0, AT_ONCE);
            quotient -= u128::from(AT_ONCE);
        }
        out.put(0, quotient as u32);
        out.put(1, 1);
        let mut bits = remainder;
        while bits > 0 {
            let part = bits.min(AT_ONCE);
            out.put(low(rest, part), part);
            rest >>= part;
            bits -= part;
        }
    }
    out.finish()
}

/// Reads bits, lowest first.
struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    /// The next bits, at least [`AT_ONCE`] of them; zeros after the end.
    fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(word) => u64::from_le_bytes(*word),
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(word)
            }
        };
        word >> (self.at % 8)
    }

    /// A number in unary; `None` if the bytes end before.
    fn unary(&mut self) -> Option<u64> {
        let mut zeros = 0;
        while self.at < 8 * self.bytes.len() {
            let more = self.peek().trailing_zeros().min(AT_ONCE);
            zeros += u64::from(more);
            self.at += more as usize;
            if more < AT_ONCE {
                self.at += 1;
                return Some(zeros);
            }
        }
        None
    }

    fn number(&mut self, bits: u32) -> u128 {
        let (mut value, mut done) = (0, 0);
        while done < bits {
            let part = (bits - done).min(AT_ONCE);
            value |= u128::from(self.peek() & ((1 << part) - 1)) << done;
            self.at += part as usize;
            done += part;
        }
        value
    }
}

/// The `count` numbers of `width` bits whose code begins the bytes, after the first, and how many bytes it takes. `None` if
/// these are not the code of so many ascending numbers.
pub(crate) fn decode(
    first: u128,
    count: usize,
    width: u32,
    remainder: u32,
    bytes: &[u8],
) -> Option<(Vec<u128>, usize)> {
    let most = u128::MAX >> (u128::BITS - width);
    let mut reader = BitReader { bytes, at: 0 };
    // Each takes a bit at least.
    let mut numbers = Vec::with_capacity(count.min(8 * bytes.len() + 1));
    let mut last = first;
    if last > most || count == 0 {
        return None;
    }
    numbers.push(last);
    for _ in 1..count {
        let quotient = u128::from(reader.unary()?);
        if quotient > most >> remainder {
            return None;
        }
        let difference = quotient << remainder | reader.number(remainder);
        last = last.checked_add(difference).filter(|last| *last <= most)?;
        numbers.push(last);
    }
    let used = reader.at.div_ceil(8);
    let padding = 8 * used - reader.at;
    let is_clear = padding == 0
        || bytes
            .get(used - 1)
            .is_some_and(|last| last >> (8 - padding) == 0);
    (used <= bytes.len() && is_clear).then_some((numbers, used))
}

#[cfg(test)]
mod tests {
    use chacha20::ChaCha20Rng;
    use rand_core::{Rng, SeedableRng};

    use super::*;

    fn numbers(count: usize, width: u32, seed: u8) -> Vec<u128> {
        let mut rng = ChaCha20Rng::from_seed([seed; 32]);
        let number = |_| {
            let whole = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            whole >> (128 - width)
        };
        let mut numbers: Vec<u128> = (0..count).map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn numbers_come_back_and_take_few_bits() {
        for (count, width) in [
            (1, 1),
            (2, 40),
            (5, 1),
            (1000, 12),
            (1 << 12, 72),
            (300, 128),
        ] {
            let numbers = numbers(count, width, 1);
            let remainder = remainder_bits(width, count as u64);
            let code = encode(&numbers, remainder);
            let (read, used) = decode(numbers[0], count, width, remainder, &code).unwrap();
            assert_eq!(
                (&read, used),
                (&numbers, code.len()),
                "{count} of {width} bits"
            );
            // What follows is not looked at.
            let more = [&code[..], &[255; 9]].concat();
            let (again, used) = decode(numbers[0], count, width, remainder, &more).unwrap();
            assert_eq!((again, used), (numbers, code.len()));
        }
        let (count, width) = (1 << 14, 74);
        let code = encode(
            &numbers(count, width, 2),
            remainder_bits(width, count as u64),
        );
        let bits = 8.0 * code.len() as f64 / count as f64;
        assert!((60.0 + 1.5..60.0 + 1.6).contains(&bits), "{bits}");
    }

    #[test]
    fn what_is_no_code_is_refused() {
        let (count, width) = (100, 40);
        let numbers = numbers(count, width, 3);
        let remainder = remainder_bits(width, count as u64);
        let code = encode(&numbers, remainder);
        let decode = |first, bytes: &[u8]| decode(first, count, width, remainder, bytes);
        assert!(decode(numbers[0], &code).is_some());
        for end in 0..code.len() {
            assert_eq!(decode(numbers[0], &code[..end]), None, "{end}");
        }
        // Beyond the width, from the start or by a difference.
        assert_eq!(decode(1 << 40, &code), None);
        assert_eq!(decode((1 << 40) - 1, &code), None);
        assert_eq!(decode(0, &[0; 1000]), None);
        // Bits after the end: 1 where the code has filled its last byte.
        let padded = super::decode(0, 2, 8, 5, &[0b0000_0001]);
        assert_eq!(padded, Some((vec![0, 0], 1)));
        assert_eq!(super::decode(0, 2, 8, 5, &[0b1000_0001]), None);
    }
}
