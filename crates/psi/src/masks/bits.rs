//! Ascending numbers as bits: Rice codes of their differences.
//!
//! A difference d is written as its quotient by 2^k in unary (that many zeros, then a one) and its remainder
//! in k bits. A quotient of [`LONG`] or more is written as [`LONG`] zeros and d in full, so that no number
//! takes more than [`LONG`] bits beyond its own length. Bits fill bytes from the lowest.

use vesica_wire::{MAX_FRAME, Misbehaviour};

/// Quotient from which a difference is written in full. With the parameter of [`Gaps`] one
/// difference in 2^22 or fewer gets there.
pub(super) const LONG: u32 = 32;

/// Zero bytes appended to a frame, so that every field can be read with one load.
const PADDING: usize = 64;

const OUT_OF_RANGE: &str = "a number out of range";

/// Bits to write.
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// Number of whole bytes written.
    at: usize,
    /// The bits after them, fewer than 8.
    word: u64,
    filled: u32,
}

impl Writer {
    /// A writer with room for `bytes` bytes before it has to grow.
    pub(super) fn with_capacity(bytes: usize) -> Self {
        Writer {
            bytes: vec![0; bytes],
            at: 0,
            word: 0,
            filled: 0,
        }
    }

    /// Appends the lowest `bits` ≤ 64 bits of `value`; its other bits are zero.
    #[inline]
    pub(super) fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 64 && (bits == 64 || value >> bits == 0));
        if bits > 56 {
            self.put_short(value & 0xffff_ffff, 32);
            self.put_short(value >> 32, bits - 32);
        } else {
            self.put_short(value, bits);
        }
    }

    /// [`Self::put`] for at most 56 bits. Writes a word and keeps the full bytes: their number is random, so
    /// no branch should depend on it.
    #[inline]
    fn put_short(&mut self, value: u64, bits: u32) {
        self.word |= value << self.filled;
        self.filled += bits;
        if self.bytes.len() < self.at + 8 {
            self.grow();
        }
        self.bytes[self.at..self.at + 8].copy_from_slice(&self.word.to_le_bytes());
        let full = self.filled / 8;
        self.at += full as usize;
        self.word = self.word.unbounded_shr(8 * full);
        self.filled %= 8;
    }

    #[cold]
    fn grow(&mut self) {
        self.bytes.resize(2 * self.bytes.len() + 64, 0);
    }

    /// The bytes; the last one is padded with zero bits.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.put_short(0, self.filled.wrapping_neg() % 8);
        self.bytes.truncate(self.at);
        self.bytes
    }
}

/// A frame of bits to read. Reads past its end yield zeros; [`Reader::check`] detects them.
pub(super) struct Reader {
    what: &'static str,
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

impl Reader {
    /// Reads a frame that errors call `what`.
    pub(super) fn new(what: &'static str, mut frame: Vec<u8>) -> Self {
        let end = 8 * frame.len();
        frame.resize(frame.len() + PADDING, 0);
        Reader {
            what,
            bytes: frame,
            at: 0,
            end,
        }
    }

    /// The next 64 bits.
    #[inline]
    fn peek(&self) -> u64 {
        let bytes = self.bytes.get(self.at / 8..).and_then(<[u8]>::first_chunk);
        bytes.map_or(0, |b| (u128::from_le_bytes(*b) >> (self.at % 8)) as u64)
    }

    /// The next `bits` ≤ 64 bits.
    #[inline]
    pub(super) fn take(&mut self, bits: u32) -> u64 {
        let word = self.peek();
        self.at += bits as usize;
        if bits == 64 {
            word
        } else {
            word & ((1 << bits) - 1)
        }
    }

    /// Fails once more has been taken than the frame holds.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Misbehaviour> {
        if self.at > self.end {
            return Err(self.wrong_length());
        }
        Ok(())
    }

    /// Fails unless everything has been taken except the zero bits that pad the last byte.
    pub(super) fn finish(&mut self) -> Result<(), Misbehaviour> {
        self.check()?;
        let rest = self.end - self.at;
        if rest >= 8 {
            return Err(self.wrong_length());
        }
        if self.take(rest as u32) != 0 {
            return Err(self.bad("padding that is not zero"));
        }
        Ok(())
    }

    /// The error for a value with this problem.
    #[cold]
    pub(super) fn bad(&self, problem: &'static str) -> Misbehaviour {
        Misbehaviour::BadValue {
            what: self.what,
            problem,
        }
    }

    #[cold]
    fn wrong_length(&self) -> Misbehaviour {
        Misbehaviour::WrongLength {
            what: self.what,
            bytes: self.end / 8,
        }
    }
}

/// How numbers in ascending order are written after the first, which is written in full: as the difference of each to its
/// predecessor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    /// Bits of a number, 1 to 64.
    full: u32,
    /// Bits of a remainder.
    rice: u32,
}

impl Gaps {
    /// For `count` independent uniform numbers of `bits` bits, 1 to 64; equal ones are possible.
    pub(super) fn of_uniform(bits: u32, count: usize) -> Self {
        Gaps {
            full: bits,
            rice: rice(1 << bits, count),
        }
    }

    /// Numbers in every frame but the last, with `more` bits added to each.
    pub(super) fn per_frame(&self, more: usize) -> usize {
        8 * MAX_FRAME / self.most_bits(more)
    }

    /// Maximum bytes of `count` numbers, with `more` bits added to each.
    pub(super) fn most_bytes(&self, count: usize, more: usize) -> usize {
        (count * self.most_bits(more)).div_ceil(8)
    }

    /// Approximate bytes of `count` numbers, with `more` bits added to each.
    pub(super) fn expected_bytes(&self, count: usize, more: usize) -> usize {
        count * (self.rice as usize + 3 + more) / 8 + 16
    }

    /// Bits of a difference of two of `count` uniform numbers that are neighbours: a difference is above d with probability
    /// e^-(d·count/2^full) nearly.
    pub(super) fn expected_bits(&self, count: usize) -> f64 {
        let unit = (f64::from(self.rice) - f64::from(self.full)).exp2() * (count + 1) as f64;
        f64::from(self.rice) + 1.0 + 1.0 / unit.exp_m1()
    }

    fn most_bits(&self, more: usize) -> usize {
        (LONG + self.full) as usize + more
    }

    /// Writes the number that follows `previous`.
    #[inline(always)]
    pub(super) fn write_next(&self, writer: &mut Writer, previous: u64, value: u64) {
        let gap = value - previous;
        let quotient = gap >> self.rice;
        if quotient >= u64::from(LONG) {
            writer.put(0, LONG);
            writer.put(gap, self.full);
            return;
        }
        writer.put(1 << quotient, quotient as u32 + 1);
        writer.put(gap & ((1 << self.rice) - 1), self.rice);
    }

    /// Reads the number that follows `previous`.
    #[inline(always)]
    pub(super) fn read_next(
        &self,
        reader: &mut Reader,
        previous: u64,
    ) -> Result<u64, Misbehaviour> {
        let quotient = reader.peek().trailing_zeros();
        let gap = if quotient < LONG {
            reader.at += quotient as usize + 1;
            let quotient = u64::from(quotient);
            if quotient > u64::MAX >> self.rice {
                return Err(reader.bad(OUT_OF_RANGE));
            }
            quotient << self.rice | reader.take(self.rice)
        } else {
            reader.at += LONG as usize;
            let gap = reader.take(self.full);
            reader.check()?;
            if gap >> self.rice < u64::from(LONG) {
                return Err(reader.bad("a long code of a short difference"));
            }
            gap
        };
        reader.check()?;
        match previous.checked_add(gap) {
            Some(value) if value <= u64::MAX >> (64 - self.full) => Ok(value),
            _ => Err(reader.bad(OUT_OF_RANGE)),
        }
    }
}

/// Bits of a remainder that minimise the expected code length, for `count` gaps with the sum `total`.
///
/// One bit more pays while x² + x > 1 for x = e^(-2^k/mean), thus while 2^k < 0.4812·mean.
fn rice(total: u128, count: usize) -> u32 {
    let count = count.max(1) as u128;
    (0..64)
        .find(|k| (count << k).saturating_mul(10_000) >= 4812 * total)
        .unwrap_or(63)
}
