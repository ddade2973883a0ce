use super::*;

fn blocks(seed: u128, n: usize) -> Vec<Block> {
    let mut blocks = vec![0; n];
    Prg::new(seed).fill(&mut blocks);
    blocks
}

fn values<const W: usize>(seed: u128, n: usize) -> Vec<[u64; W]> {
    let words = blocks(seed, n * W);
    words
        .chunks_exact(W)
        .map(|words| std::array::from_fn(|i| words[i] as u64))
        .collect()
}

fn round_trip<const W: usize>(n: usize, lambda: u32) {
    let store = ThreeHash::new(n, lambda, &[1; 32]);
    let (keys, values) = (blocks(1, n), values::<W>(2, n));
    let encoding = store.encode(&keys, &values, &mut Prg::new(3)).unwrap();
    assert_eq!(encoding.len(), store.size());
    let mut out = vec![[0; W]; n];
    store.decode(&encoding, &keys, &mut out);
    assert!(out == values, "{n} {lambda}");
}

#[test]
fn values_come_back() {
    for n in 0..300 {
        round_trip::<1>(n, 40);
        round_trip::<2>(n, 40);
        round_trip::<4>(n, 40);
        round_trip::<8>(n, 40);
        round_trip::<2>(n, 64);
        round_trip::<2>(n, 128);
    }
    for n in [1 << 10, 5000, 1 << 15, (1 << 15) + 1, 100_000] {
        round_trip::<1>(n, 40);
        round_trip::<8>(n, 40);
        round_trip::<2>(n, 64);
    }
}
