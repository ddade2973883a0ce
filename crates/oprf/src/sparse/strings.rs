//! Strings of k bits, 65 ≤ k ≤ 128: slices of rows, and eight of them in k bytes.

use vesica_wire::Frames;

use super::rows::Row;

/// Slices of a row.
pub(super) const SLICES: usize = 4;

/// Strings that are sent together, in as many bytes as a string has bits.
pub(super) const GROUP: usize = 8;

/// Bits of a slice of a row of at least `width` bits; there are fields from 65 bits on.
pub(super) fn bits(width: usize) -> usize {
    width.div_ceil(SLICES).max(65)
}

/// The frames of `count` strings of each slice, packed.
pub(super) fn frames(bits: usize, count: usize) -> Frames {
    let slice = Frames::rows(count.div_ceil(GROUP), bits);
    Frames {
        payload: SLICES as u64 * slice.payload,
        count: SLICES as u64 * slice.count,
    }
}

/// Slice number `slice` of a row that is cut into slices of `bits` bits.
pub(super) fn slice_of(row: &Row, slice: usize, bits: usize) -> u128 {
    let first = slice * bits;
    let (word, shift) = (first / 64, first % 64);
    let at = |i: usize| u128::from(row.get(word + i).copied().unwrap_or(0));
    let low = at(0) | at(1) << 64;
    // In two steps, since a shift by 128 is none.
    let string = low >> shift | at(2) << 1 << (127 - shift);
    string & u128::MAX >> (128 - bits)
}

/// Adds `s` ∧ `string` to the row, with the string at slice number `slice` ([`slice_of`]).
pub(super) fn add_slice(row: &mut Row, s: &Row, slice: usize, bits: usize, string: u128) {
    let first = slice * bits;
    let (word, shift) = (first / 64, first % 64);
    let low = string << shift;
    let parts = [
        low as u64,
        (low >> 64) as u64,
        (string >> 1 >> (127 - shift)) as u64,
    ];
    for ((row, s), part) in row[word..].iter_mut().zip(&s[word..]).zip(parts) {
        *row ^= s & part;
    }
}

/// The bytes of strings of `bits` bits, lowest bit first; groups are padded with zeros.
pub(super) fn pack(strings: &[u128], bits: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(strings.len().div_ceil(GROUP) * bits);
    for group in strings.chunks(GROUP) {
        let end = bytes.len() + bits;
        // Below 8 bits wait, lowest first.
        let (mut waiting, mut count) = (0u8, 0);
        for string in group {
            let mut left = bits;
            let mut string = *string;
            if count > 0 {
                bytes.push(waiting | (string << count) as u8);
                string >>= 8 - count;
                left -= 8 - count;
            }
            bytes.extend_from_slice(&string.to_le_bytes()[..left / 8]);
            count = left % 8;
            waiting = match count {
                0 => 0,
                _ => (string >> (left - count)) as u8,
            };
        }
        if count > 0 {
            bytes.push(waiting);
        }
        bytes.resize(end, 0);
    }
    bytes
}

/// Appends the strings of whole groups.
pub(super) fn unpack(bytes: &[u8], bits: usize, strings: &mut Vec<u128>) {
    for group in bytes.chunks_exact(bits) {
        for i in 0..GROUP {
            let first = i * bits;
            let (byte, shift) = (first / 8, first % 8);
            let mut wide = [0; 17];
            let end = group.len().min(byte + 17);
            wide[..end - byte].copy_from_slice(&group[byte..end]);
            let [low @ .., high] = wide;
            let string = u128::from_le_bytes(low) >> shift | u128::from(high) << 1 << (127 - shift);
            strings.push(string & u128::MAX >> (128 - bits));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(count: usize, bits: usize) -> Vec<u128> {
        (1..=count as u128)
            .map(|i| {
                i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
                    .rotate_left(i as u32)
                    & u128::MAX >> (128 - bits)
            })
            .collect()
    }

    #[test]
    fn what_is_packed_comes_out() {
        for bits in 65..=128 {
            for count in [0, 1, 7, 8, 9, 50] {
                let strings = strings(count, bits);
                let bytes = pack(&strings, bits);
                assert_eq!(bytes.len(), count.div_ceil(8) * bits);
                let mut back = Vec::new();
                unpack(&bytes, bits, &mut back);
                assert_eq!(back[..count], strings);
                assert!(back[count..].iter().all(|s| *s == 0));
                // Bit by bit, as the definition says.
                for (i, string) in strings.iter().enumerate() {
                    for bit in 0..bits {
                        let at = (i % 8) * bits + bit + (i / 8) * 8 * bits;
                        let got = bytes[at / 8] >> (at % 8) & 1;
                        assert_eq!(u128::from(got), string >> bit & 1);
                    }
                }
            }
        }
    }

    #[test]
    fn slices_make_up_a_row() {
        for bits in [65, 104, 109, 123, 127, 128] {
            let parts = strings(SLICES, bits);
            let mut row = [0; 8];
            for (i, part) in parts.iter().enumerate() {
                add_slice(&mut row, &[u64::MAX; 8], i, bits, *part);
            }
            for (i, part) in parts.iter().enumerate() {
                assert_eq!(slice_of(&row, i, bits), *part, "{bits} {i}");
            }
            // Only where s has ones.
            let s: Row = std::array::from_fn(|i| 0xdead_beef_0102_0304 << i);
            let mut masked = [0; 8];
            for (i, part) in parts.iter().enumerate() {
                add_slice(&mut masked, &s, i, bits, *part);
            }
            let expected: Row = std::array::from_fn(|i| row[i] & s[i]);
            assert_eq!(masked, expected);
        }
    }
}
