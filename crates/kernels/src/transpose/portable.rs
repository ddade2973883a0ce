//! Blocks of 128 by 128 bits, transposed by exchanging the off-diagonal halves of ever smaller squares.

pub(super) fn transpose(columns: &[u8], rows: &mut [u128]) {
    let stride = rows.len() / 8;
    for (block, rows) in rows.chunks_exact_mut(128).enumerate() {
        for (row, column) in rows.iter_mut().zip(columns.chunks_exact(stride)) {
            let bytes = column[16 * block..][..16].try_into();
            *row = u128::from_le_bytes(bytes.expect("sixteen bytes"));
        }
        transpose_block(rows);
    }
}

/// Transposes one square in place.
fn transpose_block(block: &mut [u128]) {
    // Bits of `low` are those whose index has no bit `half`.
    let mut low = u128::from(u64::MAX);
    let mut half = 64;
    while half > 0 {
        for square in block.chunks_exact_mut(2 * half) {
            let (upper, lower) = square.split_at_mut(half);
            for (a, b) in upper.iter_mut().zip(lower) {
                let exchange = (*a >> half ^ *b) & low;
                *a ^= exchange << half;
                *b ^= exchange;
            }
        }
        half /= 2;
        low ^= low << half;
    }
}
