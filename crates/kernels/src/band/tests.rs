use super::*;
use proptest::prelude::*;

/// Numbers that look random (splitmix64).
fn numbers(seed: u64) -> impl FnMut() -> u64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

fn bit(row: &Row, column: usize) -> bool {
    row[column / WORD] >> (column % WORD) & 1 == 1
}

/// The sum that `combine` promises, a bit at a time.
fn sum<const W: usize>(slots: &[[u64; W]], frame: usize, row: &Row) -> [u64; W] {
    let mut sum = [0; W];
    for column in 0..512 {
        if let Some(slot) = slots.get(frame * WORD + column)
            && bit(row, column)
        {
            sum = std::array::from_fn(|w| sum[w] ^ slot[w]);
        }
    }
    sum
}

/// Bands of `width` random bits at random starts, sorted by frame.
fn bands(
    columns: usize,
    width: usize,
    count: usize,
    next: &mut impl FnMut() -> u64,
) -> (Vec<u32>, Vec<Row>) {
    let mut bands: Vec<(u32, Row)> = (0..count)
        .map(|_| {
            let start = next() as usize % (columns - width + 1);
            let mut row = [0; 8];
            for column in start % WORD..start % WORD + width {
                row[column / WORD] |= (next() & 1) << (column % WORD);
            }
            ((start / WORD) as u32, row)
        })
        .collect();
    bands.sort_by_key(|band| band.0);
    bands.into_iter().unzip()
}

/// Solves a random system on one backend.
fn solve<const W: usize>(
    backend: Backend,
    (columns, width, count): (usize, usize, usize),
    seed: u64,
) -> Result<Vec<[u64; W]>, Singular> {
    let mut next = numbers(seed);
    let (frames, rows) = bands(columns, width, count, &mut next);
    let values: Vec<[u64; W]> = (0..count)
        .map(|_| std::array::from_fn(|_| next()))
        .collect();
    let free: Vec<[u64; W]> = (count..columns)
        .map(|_| std::array::from_fn(|_| next()))
        .collect();
    let mut system = System::new(backend, 0..columns, 0);
    // What was begun before leaves no trace.
    system.begin(vec![[5; W]; columns]);
    system.insert(
        &frames[..count / 3],
        &rows[..count / 3],
        &values[..count / 3],
    )?;
    system.begin(free.clone());
    // In two calls that meet within a frame.
    let (half, rest) = (count / 2, count / 2..);
    system.insert(&frames[..half], &rows[..half], &values[..half])?;
    system.insert(&frames[rest.clone()], &rows[rest.clone()], &values[rest])?;
    assert!(system.finish()?.is_empty());
    let mut slots = vec![[0; W]; columns];
    system.solve(&mut slots);
    for ((frame, row), value) in frames.iter().zip(&rows).zip(&values) {
        assert_eq!(sum(&slots, *frame as usize, row), *value);
    }
    for free in &free {
        assert!(slots.contains(free));
    }
    Ok(slots)
}

fn both<const W: usize>(size: (usize, usize, usize), seed: u64) {
    let [portable, faster @ ..] = Backend::ALL.map(|backend| solve::<W>(backend, size, seed));
    assert!(portable.is_ok(), "{size:?} is unlikely to be singular");
    for solved in faster {
        assert_eq!(solved, portable);
    }
}

#[test]
fn systems_are_solved() {
    for (seed, size) in [
        (1, 1, 0),
        (64, 64, 1),
        (100, 100, 40),
        (448, 448, 380),
        (700, 448, 600),
        (1000, 200, 800),
        (3000, 448, 2600),
    ]
    .into_iter()
    .enumerate()
    {
        both::<1>(size, seed as u64);
        both::<2>(size, seed as u64);
        both::<4>(size, seed as u64);
        both::<8>(size, seed as u64);
    }
}

/// A system as two: the first columns, and in the opposite order the others, which also get the equations that the first are
/// not enough for.
#[test]
fn halves_are_one_system() {
    let (columns, cut, count) = (3000_usize, 20, 2500);
    let words = columns.div_ceil(WORD);
    for backend in Backend::ALL {
        let mut next = numbers(9);
        let (frames, rows) = bands(columns, WIDEST, count, &mut next);
        let values: Vec<[u64; 3]> = (0..count).map(|_| [next(), next(), next()]).collect();
        let split = frames.partition_point(|frame| (*frame as usize) < cut);
        let mut low = System::new(backend, 0..cut * WORD, WIDEST);
        low.begin(vec![[7; 3]; columns]);
        low.insert(&frames[..split], &rows[..split], &values[..split])
            .unwrap();
        let left_over = low.finish().unwrap();
        assert!(!left_over.is_empty() && left_over.len() < WIDEST);
        let (rows_over, values_over): (Vec<Row>, Vec<[u64; 3]>) = left_over.into_iter().unzip();
        let mut rows_of_high = [&rows_over, &rows[split..]].concat();
        let mut values_of_high = [&values_over, &values[split..]].concat();
        let mut frames_of_high = [&vec![cut as u32; rows_over.len()], &frames[split..]].concat();
        mirror(backend, &mut rows_of_high);
        values_of_high.reverse();
        frames_of_high.reverse();
        frames_of_high
            .iter_mut()
            .for_each(|frame| *frame = (words - 8) as u32 - *frame);
        let padding = words * WORD - columns;
        let mut high = System::new(backend, padding..(words - cut) * WORD, 0);
        high.begin(vec![[9; 3]; columns]);
        high.insert(&frames_of_high, &rows_of_high, &values_of_high)
            .unwrap();
        assert!(high.finish().unwrap().is_empty());
        let known: Vec<[u64; 3]> = high.solve_last(7).iter().rev().copied().collect();
        low.append(&known);
        let mut slots = vec![[0; 3]; columns];
        let (first, second) = slots.split_at_mut(cut * WORD);
        low.solve(first);
        high.solve(second);
        second.reverse();
        assert_eq!(second[..known.len()], known);
        for ((frame, row), value) in frames.iter().zip(&rows).zip(&values) {
            assert_eq!(sum(&slots, *frame as usize, row), *value);
        }
    }
}

#[test]
fn dependent_rows_are_noticed() {
    for backend in Backend::ALL {
        let (frames, mut rows) = bands(1000, 448, 3, &mut numbers(3));
        let frames = [frames[0]; 3];
        rows[2] = std::array::from_fn(|i| rows[0][i] ^ rows[1][i]);
        let mut system = System::<1>::new(backend, 0..1000, 0);
        system.begin(vec![[7]; 997]);
        let result = system
            .insert(&frames, &rows, &[[1], [2], [3]])
            .and_then(|()| system.finish());
        assert_eq!(result, Err(Singular));
        // More equations than columns.
        assert_eq!(solve::<1>(backend, (128, 100, 129), 1), Err(Singular));
    }
}

#[test]
fn mirrored_rows_have_the_same_columns() {
    let mut next = numbers(1);
    for backend in Backend::ALL {
        for count in [0, 1, 2, 7, 512] {
            let rows: Vec<Row> = (0..count)
                .map(|_| std::array::from_fn(|_| next()))
                .collect();
            let mut mirrored = rows.clone();
            mirror(backend, &mut mirrored);
            for (row, mirrored) in rows.iter().zip(mirrored.iter().rev()) {
                assert!((0..512).all(|column| bit(row, column) == bit(mirrored, 511 - column)));
            }
        }
    }
}

/// Rows that begin anywhere in their frame and frames that pass the end, in any order.
fn combine_agrees<const W: usize>(seed: u64, count: usize) {
    let mut next = numbers(seed);
    let slots: Vec<[u64; W]> = (0..3 * 512 + next() as usize % 64)
        .map(|_| std::array::from_fn(|_| next()))
        .collect();
    let rows: Vec<Row> = (0..count)
        .map(|_| std::array::from_fn(|_| next()))
        .collect();
    let mut frames: Vec<u32> = (0..count).map(|_| (next() % 30) as u32).collect();
    frames[..count / 2].sort_unstable();
    let [portable, faster @ ..] = Backend::ALL.map(|backend| {
        let mut out = vec![[0; W]; count];
        combine(backend, &slots, &frames, &rows, &mut out);
        out
    });
    for combined in faster {
        assert_eq!(combined, portable);
    }
    for ((frame, row), out) in frames.iter().zip(&rows).zip(&portable) {
        assert_eq!(sum(&slots, *frame as usize, row), *out);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn combinations_are_sums(seed: u64, count in 0usize..300) {
        combine_agrees::<1>(seed, count);
        combine_agrees::<2>(seed, count);
        combine_agrees::<4>(seed, count);
        combine_agrees::<8>(seed, count);
    }
}
