//! What the benchmarks run on.

use vesica_kernels::band::Row;

/// Numbers that look random.
pub(crate) fn words(count: usize) -> impl Iterator<Item = u64> {
    (1..=count as u64).map(|i| {
        let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

/// Frames and rows as random-band encodings have them: bands of 448 at random starts, sorted by word.
pub(crate) fn bands(count: usize, columns: usize) -> (Vec<u32>, Vec<Row>) {
    let mut starts: Vec<usize> = words(count)
        .map(|word| ((word >> 32) as usize * (columns - 448)) >> 32)
        .collect();
    starts.sort_by_key(|start| start / 64);
    let mut bits = words(8 * count).skip(count);
    let rows = starts.iter().map(|start| {
        let mut row = [0; 8];
        for word in 0..7 {
            let bits = bits.next().expect("seven words per row");
            row[word] |= bits << (start % 64);
            row[word + 1] |= bits >> 1 >> (63 - start % 64);
        }
        row
    });
    let rows = rows.collect();
    (
        starts.iter().map(|start| (start / 64) as u32).collect(),
        rows,
    )
}
