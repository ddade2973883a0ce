//! The rows left after peeling: each of their slots is used by another of them too.

use super::{Chunk, xor};
use vesica_encodings::EncodingFailed;

/// Sets slots of `out` so that the rows that are not in `order` have their values, by elimination over all
/// their sparse slots and the dense slots. Free slots keep their values.
pub(super) fn solve<const W: usize, const D: usize>(
    sparse: usize,
    chunks: &[Chunk<W, D>],
    bin: usize,
    order: &[[u16; 4]],
    out: &mut [[u64; W]],
) -> Result<(), EncodingFailed> {
    let rows = chunks.iter().flat_map(|Chunk { sorted, values }| {
        let slots = sorted.slots[sorted.bin(bin)].iter();
        let dense = &sorted.dense[sorted.bin(bin)];
        slots.zip(dense).zip(&values[sorted.bin(bin)])
    });
    let total: usize = chunks.iter().map(|chunk| chunk.sorted.bin(bin).len()).sum();
    let mut peeled = vec![false; total];
    for [row, ..] in order {
        peeled[*row as usize] = true;
    }
    let left: Vec<_> = rows
        .zip(&peeled)
        .filter_map(|(row, peeled)| (!peeled).then_some(row))
        .collect();

    // Columns: the slots that the rows use, then the dense slots.
    let mut columns: Vec<usize> = left
        .iter()
        .flat_map(|((slots, _), _)| slots.map(usize::from))
        .collect();
    columns.sort_unstable();
    columns.dedup();
    let dense = columns.len();
    columns.extend(sparse..out.len());

    let stride = columns.len().div_ceil(64);
    let mut matrix = vec![0u64; left.len() * stride];
    let mut targets = Vec::with_capacity(left.len());
    for (((slots, selected), value), bits) in left.iter().zip(matrix.chunks_exact_mut(stride)) {
        let places = slots
            .map(|slot| columns[..dense].partition_point(|column| *column < usize::from(slot)));
        let selected = (0..columns.len() - dense)
            .filter(|i| (selected[i / 16] >> (i % 16)) & 1 == 1)
            .map(|i| dense + i);
        for column in places.into_iter().chain(selected) {
            bits[column / 64] ^= 1 << (column % 64);
        }
        targets.push(**value);
    }

    // Gauss and Jordan: afterwards row i alone has column pivots[i].
    let mut pivots = Vec::with_capacity(left.len());
    for i in 0..left.len() {
        let (before, rest) = matrix.split_at_mut(i * stride);
        let (current, after) = rest.split_at_mut(stride);
        let word = current
            .iter()
            .position(|word| *word != 0)
            .ok_or(EncodingFailed)?;
        let bit = current[word].trailing_zeros();
        pivots.push(64 * word + bit as usize);
        let target = targets[i];
        let others = before
            .chunks_exact_mut(stride)
            .enumerate()
            .chain((i + 1..).zip(after.chunks_exact_mut(stride)));
        for (j, other) in others {
            if (other[word] >> bit) & 1 == 1 {
                for (other, current) in other.iter_mut().zip(current.iter()) {
                    *other ^= *current;
                }
                targets[j] = xor(&targets[j], &target);
            }
        }
    }
    // Columns without a pivot keep their values; the other columns follow.
    for ((bits, target), pivot) in matrix.chunks_exact(stride).zip(targets).zip(&pivots) {
        let pivot_slot = columns[*pivot];
        let mut value = xor(&target, &out[pivot_slot]);
        for (word, bits) in bits.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let column = 64 * word + bits.trailing_zeros() as usize;
                value = xor(&value, &out[columns[column]]);
                bits &= bits - 1;
            }
        }
        // The pivot's own old value has been added twice.
        out[pivot_slot] = value;
    }
    Ok(())
}
