//! A look at texts that share their beginnings (DELTA_BYTE_ARRAY) before the Parquet library decodes them.
//!
//! A page has how many bytes each text has in common with the one before it, and after that how many others it has. The
//! library cuts the text before it to the first of these, and takes a number that is too large for all of it: the text
//! would be another, without an error.
//!
//! Source: `Encodings.md` of Apache Parquet's format, "Delta Encoding" and "Delta Strings".

/// Whether a text begins with more bytes of the one before it than that has. The values of a page are `bytes`, at most
/// `most` of them. Where these make no sense otherwise, that is the library's to say.
pub(super) fn has_long_prefix(bytes: &[u8], most: u64) -> bool {
    let found = || {
        let mut prefixes = Deltas::new(bytes)?;
        let mut suffixes = Deltas::new(Deltas::new(bytes)?.skip(most)?)?;
        let mut before = 0;
        for _ in 0..prefixes.left.min(most) {
            let prefix = u64::try_from(prefixes.next()?).ok()?;
            if prefix > before {
                return Some(true);
            }
            before = prefix + u64::try_from(suffixes.next()?).ok()?;
        }
        Some(false)
    };
    found().unwrap_or(false)
}

/// Integers of 32 bits, each as the difference to the one before it (DELTA_BINARY_PACKED).
struct Deltas<'a> {
    /// What follows.
    bytes: &'a [u8],
    /// How many integers are left.
    left: u64,
    /// Integers of a miniblock, and miniblocks of a block.
    of_miniblock: u64,
    miniblocks: usize,
    /// The last one; the first until it has been taken.
    last: i32,
    is_first: bool,
    /// Of the present block: what each difference is at least, and the bits of those of the miniblocks that follow.
    least: i32,
    widths: &'a [u8],
    /// Of the present miniblock: the bits, how many each has, and how many differences are left and have been taken.
    packed: &'a [u8],
    width: usize,
    in_miniblock: u64,
    taken: usize,
}

impl<'a> Deltas<'a> {
    /// `None` if the bytes are none.
    fn new(mut bytes: &'a [u8]) -> Option<Deltas<'a>> {
        let block = varint(&mut bytes)?;
        let miniblocks = usize::try_from(varint(&mut bytes)?).ok()?;
        let left = varint(&mut bytes)?;
        let last = zigzag(varint(&mut bytes)?);
        let of_miniblock = block.checked_div(miniblocks as u64)?;
        (of_miniblock > 0).then_some(Deltas {
            bytes,
            left,
            of_miniblock,
            miniblocks,
            last,
            is_first: true,
            least: 0,
            widths: &[],
            packed: &[],
            width: 0,
            in_miniblock: 0,
            taken: 0,
        })
    }

    /// The next integer, if there is one.
    fn next(&mut self) -> Option<i32> {
        self.left = self.left.checked_sub(1)?;
        if std::mem::take(&mut self.is_first) {
            return Some(self.last);
        }
        if self.in_miniblock == 0 {
            self.next_miniblock()?;
        }
        self.in_miniblock -= 1;
        let delta = bits(self.packed, self.taken * self.width, self.width);
        self.taken += 1;
        self.last = self.last.wrapping_add(self.least).wrapping_add(delta);
        Some(self.last)
    }

    fn next_miniblock(&mut self) -> Option<()> {
        if self.widths.is_empty() {
            self.least = zigzag(varint(&mut self.bytes)?);
            (self.widths, self.bytes) = self.bytes.split_at_checked(self.miniblocks)?;
        }
        let (width, widths) = self.widths.split_first()?;
        self.width = usize::from(*width);
        self.widths = widths;
        let bits = self.of_miniblock.checked_mul(self.width as u64)?;
        let length = usize::try_from(bits / 8).ok()?;
        // The last miniblock may break off.
        (self.packed, self.bytes) = self.bytes.split_at(length.min(self.bytes.len()));
        self.in_miniblock = self.of_miniblock;
        self.taken = 0;
        (self.width <= 32).then_some(())
    }

    /// The bytes behind the integers, of which there are at most `most`.
    fn skip(mut self, most: u64) -> Option<&'a [u8]> {
        if self.left > most {
            return None;
        }
        let mut left = self.left.saturating_sub(1);
        while left > 0 {
            self.next_miniblock()?;
            left = left.saturating_sub(self.of_miniblock);
        }
        Some(self.bytes)
    }
}

/// A number of up to 64 bits, seven to a byte.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The low 32 bits of a number with a sign.
fn zigzag(value: u64) -> i32 {
    ((value >> 1) as i64 ^ -((value & 1) as i64)) as i32
}

/// `width` bits, at most 32, from bit `at` on; those that are not there are 0.
fn bits(bytes: &[u8], at: usize, width: usize) -> i32 {
    let mut word = [0; 8];
    let there = bytes.get(at / 8..).unwrap_or_default();
    let length = there.len().min(8);
    word[..length].copy_from_slice(&there[..length]);
    let bits = u64::from_le_bytes(word) >> (at % 8);
    (bits & ((1 << width) - 1)) as i32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Integers in blocks of 128 and miniblocks of 32, by the book.
    fn packed(numbers: &[i32]) -> Vec<u8> {
        let put = |mut value: u64, out: &mut Vec<u8>| {
            while value >= 0x80 {
                out.push(value as u8 | 0x80);
                value >>= 7;
            }
            out.push(value as u8);
        };
        let signed = |value: i32| ((value << 1) ^ (value >> 31)) as u32 as u64;
        let mut out = vec![0x80, 1, 4];
        put(numbers.len() as u64, &mut out);
        put(signed(numbers.first().copied().unwrap_or(0)), &mut out);
        let deltas: Vec<i32> = numbers
            .windows(2)
            .map(|pair| pair[1].wrapping_sub(pair[0]))
            .collect();
        for block in deltas.chunks(128) {
            let least = *block.iter().min().unwrap();
            put(signed(least), &mut out);
            let above = |delta: &i32| delta.wrapping_sub(least) as u32;
            let miniblocks: Vec<&[i32]> = block.chunks(32).collect();
            let width = |of: &[i32]| 32 - of.iter().map(above).max().unwrap().leading_zeros();
            let widths = (0..4).map(|i| miniblocks.get(i).map_or(0, |of| width(of) as u8));
            out.extend(widths);
            for of in miniblocks {
                let mut bits = vec![false; 32 * width(of) as usize];
                for (i, delta) in of.iter().map(above).enumerate() {
                    for bit in 0..width(of) {
                        bits[i * width(of) as usize + bit as usize] = delta >> bit & 1 == 1;
                    }
                }
                out.extend(bits.chunks(8).map(|byte| {
                    byte.iter()
                        .rev()
                        .fold(0, |all, bit| all << 1 | u8::from(*bit))
                }));
            }
        }
        out
    }

    proptest! {
        #[test]
        fn integers_come_back(numbers in prop::collection::vec(any::<i32>(), 0..300), more: u8, most in 0u64..400) {
            let mut bytes = packed(&numbers);
            let end = bytes.len();
            bytes.push(more);
            let mut deltas = Deltas::new(&bytes).unwrap();
            let found: Vec<i32> = std::iter::from_fn(|| deltas.next()).collect();
            prop_assert_eq!(&found, &numbers);
            let rest = Deltas::new(&bytes).unwrap().skip(most);
            let expected = (numbers.len() as u64 <= most).then_some(&bytes[end..]);
            prop_assert_eq!(rest, expected);
        }

        #[test]
        fn texts_begin_with_what_is_there(lengths in prop::collection::vec((0i32..9, 0i32..9), 0..300)) {
            let (prefixes, suffixes): (Vec<i32>, Vec<i32>) = lengths.iter().copied().unzip();
            let bytes = [packed(&prefixes), packed(&suffixes)].concat();
            let mut before = 0;
            let fits = lengths.iter().all(|(prefix, suffix)| {
                let fits = *prefix <= before;
                before = prefix + suffix;
                fits
            });
            prop_assert_eq!(has_long_prefix(&bytes, 1000), !fits);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            has_long_prefix(&bytes, 100);
        }
    }
}
