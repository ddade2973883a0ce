//! Elimination of a few rows at a time; tables of four slots for what rows select from slots.

use super::{Block, Row, Runs, Singular, WORD, slots_of};

/// Rows that are reduced side by side: which pivot a row needs next is known only when it has the last one, and
/// other rows need not wait for that.
const ABREAST: usize = 3;

#[inline(always)]
pub(super) fn mirror(rows: &mut [Row]) {
    let words = rows.as_flattened_mut();
    words.reverse();
    for word in words {
        *word = word.reverse_bits();
    }
}

#[inline(always)]
pub(super) fn eliminate<const W: usize>(
    block: &mut Block<W>,
    rows: &[Row],
    values: &[[u64; W]],
    carried: &mut Vec<(Row, [u64; W])>,
) -> Result<(), Singular> {
    let (groups, rest) = rows.as_chunks::<ABREAST>();
    let (group_values, rest_values) = values.as_chunks::<ABREAST>();
    for (rows, values) in groups.iter().zip(group_values) {
        let (mut rows, mut values) = (*rows, *values);
        reduce(block, &mut rows, &mut values);
        for (row, value) in rows.into_iter().zip(values) {
            insert(block, row, value, carried)?;
        }
    }
    for (row, value) in rest.iter().zip(rest_values) {
        insert(block, *row, *value, carried)?;
    }
    Ok(())
}

/// Adds pivots to the rows until the column of each one's first bit has none.
#[inline(always)]
fn reduce<const W: usize, const N: usize>(
    block: &Block<W>,
    rows: &mut [Row; N],
    values: &mut [[u64; W]; N],
) {
    let mut leads = [0; N];
    for (lead, row) in leads.iter_mut().zip(&*rows) {
        *lead = row[0];
    }
    loop {
        let mut pivots = 0;
        for ((row, value), lead) in rows.iter_mut().zip(values.iter_mut()).zip(&mut leads) {
            // Nothing where there is no pivot.
            let column = lead.trailing_zeros() as usize;
            let pivot = block.lead[column];
            pivots |= pivot;
            *lead ^= pivot;
            add(row, &block.rows[column]);
            add(value, &block.values[column]);
        }
        if pivots == 0 {
            return;
        }
    }
}

/// Makes a row a pivot of the block, or carries it into the next word.
#[inline(always)]
fn insert<const W: usize>(
    block: &mut Block<W>,
    row: Row,
    value: [u64; W],
    carried: &mut Vec<(Row, [u64; W])>,
) -> Result<(), Singular> {
    let (mut rows, mut values) = ([row], [value]);
    reduce(block, &mut rows, &mut values);
    let ([mut row], [value]) = (rows, values);
    if row == [0; 8] {
        return Err(Singular);
    }
    let column = row[0].trailing_zeros() as usize;
    if column < WORD {
        block.lead[column] = row[0];
        block.rows[column] = row;
        block.values[column] = value;
    } else {
        row.rotate_left(1);
        carried.push((row, value));
    }
    Ok(())
}

/// The sums of four slots: entry i is the XOR of those whose bit is set in i.
type Table<const W: usize> = [[u64; W]; 16];

/// The tables of a word of slots.
pub(super) type Tables<const W: usize> = [Table<W>; WORD / 4];

#[inline(always)]
fn add<const W: usize>(to: &mut [u64; W], value: &[u64; W]) {
    for (a, b) in to.iter_mut().zip(value) {
        *a ^= b;
    }
}

#[inline(always)]
fn tabulate<const W: usize>(slots: &[[u64; W]; 4]) -> Table<W> {
    let mut table = [[0; W]; 16];
    for (i, slot) in slots.iter().enumerate() {
        let (known, new) = table.split_at_mut(1 << i);
        for (new, known) in new.iter_mut().zip(known) {
            *new = *known;
            add(new, slot);
        }
    }
    table
}

/// Adds what `word` selects of the slots behind `tables`, of which the first stand for its lowest bits.
#[inline(always)]
fn select<const W: usize>(sum: &mut [u64; W], tables: &[Table<W>], word: u64) {
    for (i, table) in tables.iter().enumerate() {
        add(sum, &table[(word >> (4 * i) & 15) as usize]);
    }
}

pub(super) fn back_substitute<const W: usize>(rows: &[Row], slots: &mut [[u64; W]]) {
    // The tables of the last eight words; word number b is at b % 8.
    let mut window: [Tables<W>; 8] = [[[[0; W]; 16]; WORD / 4]; 8];
    let blocks = rows.as_chunks::<WORD>().0.iter();
    let slots = slots.as_chunks_mut::<WORD>().0.iter_mut();
    for (word, (rows, slots)) in blocks.zip(slots).enumerate().rev() {
        for (row, slot) in rows.iter().zip(slots.iter_mut()) {
            let mut sum = *slot;
            for q in 1..8 {
                select(&mut sum, &window[(word + q) % 8], row[q]);
            }
            *slot = sum;
        }
        solve_word(rows, slots, &mut window[word % 8]);
    }
}

/// Solves the columns of one word, where the right sides have what later words contribute, and makes the tables
/// of the solution.
#[inline(always)]
pub(super) fn solve_word<const W: usize>(
    rows: &[Row; WORD],
    slots: &mut [[u64; W]; WORD],
    tables: &mut Tables<W>,
) {
    let groups = rows.as_chunks::<4>().0.iter();
    let slots = slots.as_chunks_mut::<4>().0.iter_mut();
    for (g, (rows, slots)) in groups.zip(slots).enumerate().rev() {
        for c in (0..4).rev() {
            let bits = rows[c][0] >> (4 * g);
            let (slot, later) = slots[c..].split_first_mut().expect("four slots");
            select(slot, &tables[g + 1..], bits >> 4);
            for (d, later) in (c + 1..).zip(later) {
                let mask = (bits >> d & 1).wrapping_neg();
                for (a, b) in slot.iter_mut().zip(later) {
                    *a ^= *b & mask;
                }
            }
        }
        tables[g] = tabulate(slots);
    }
}

pub(super) fn combine<const W: usize>(
    slots: &[[u64; W]],
    frames: &[u32],
    rows: &[Row],
    out: &mut [[u64; W]],
) {
    let mut window: [Tables<W>; 8] = [[[[0; W]; 16]; WORD / 4]; 8];
    for run in Runs::new(frames) {
        for word in run.fresh {
            let slots: [[u64; W]; WORD] = slots_of(slots, word * WORD);
            for (table, slots) in window[word % 8].iter_mut().zip(slots.as_chunks().0) {
                *table = tabulate(slots);
            }
        }
        for (row, out) in rows[run.places.clone()].iter().zip(&mut out[run.places]) {
            let mut sum = [0; W];
            for (q, word) in row.iter().enumerate() {
                select(&mut sum, &window[(run.first + q) % 8], *word);
            }
            *out = sum;
        }
    }
}
