//! One row at a time.

use super::{Block, Row, Singular, WORD};

pub(super) fn eliminate<const W: usize>(
    block: &mut Block<W>,
    rows: &[Row],
    values: &[[u64; W]],
    carried: &mut Vec<(Row, [u64; W])>,
) -> Result<(), Singular> {
    for (row, value) in rows.iter().zip(values) {
        let (mut row, mut value) = (*row, *value);
        loop {
            if row[0] == 0 {
                if row == [0; 8] {
                    return Err(Singular);
                }
                row.rotate_left(1);
                carried.push((row, value));
                break;
            }
            let column = row[0].trailing_zeros() as usize;
            if block.lead[column] == 0 {
                block.lead[column] = row[0];
                block.rows[column] = row;
                block.values[column] = value;
                break;
            }
            for (a, b) in row.iter_mut().zip(&block.rows[column]) {
                *a ^= b;
            }
            for (a, b) in value.iter_mut().zip(&block.values[column]) {
                *a ^= b;
            }
        }
    }
    Ok(())
}

/// The XOR of the slots that the row selects.
fn select<const W: usize>(slots: &[[u64; W]], row: &Row) -> [u64; W] {
    let mut sum = [0; W];
    for (word, slots) in row.iter().zip(slots.chunks(WORD)) {
        for (bit, slot) in slots.iter().enumerate() {
            let mask = (word >> bit & 1).wrapping_neg();
            for (a, b) in sum.iter_mut().zip(slot) {
                *a ^= b & mask;
            }
        }
    }
    sum
}

pub(super) fn back_substitute<const W: usize>(rows: &[Row], slots: &mut [[u64; W]]) {
    for column in (0..rows.len()).rev() {
        // The column's own bit adds its right side.
        slots[column] = select(&slots[column / WORD * WORD..], &rows[column]);
    }
}

pub(super) fn combine<const W: usize>(
    slots: &[[u64; W]],
    frames: &[u32],
    rows: &[Row],
    out: &mut [[u64; W]],
) {
    for ((frame, row), out) in frames.iter().zip(rows).zip(out) {
        *out = select(slots.get(*frame as usize * WORD..).unwrap_or(&[]), row);
    }
}
