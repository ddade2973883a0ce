use super::*;

/// Keys and values that look random.
fn random_map<const W: usize>(seed: Block, count: usize) -> (Vec<Block>, Vec<[u64; W]>) {
    let mut keys = vec![0; count];
    Prg::new(seed).fill(&mut keys);
    (keys, random(seed + 1, count))
}

fn decoded<const W: usize>(
    store: &RandomBand,
    encoding: &[[u64; W]],
    keys: &[Block],
) -> Vec<[u64; W]> {
    let mut out = vec![[0; W]; keys.len()];
    store.decode(encoding, keys, &mut out);
    out
}

/// Encodes on both backends, and decodes what was encoded and other keys.
fn round_trip<const W: usize>(items: usize, count: usize, lambda: u32) {
    let (keys, values) = random_map::<W>(items as u128 * 10, count);
    let others = random_map::<W>(1 << 100, 100).0;
    let [best, portable] = [Backend::Best, Backend::Portable].map(|backend| {
        let store = RandomBand::new(items, lambda, &[5; 32]).with_backend(backend);
        let encoding = store.encode(&keys, &values, &mut Prg::new(9)).unwrap();
        assert_eq!(encoding.len(), store.size());
        assert_eq!(decoded(&store, &encoding, &keys), values);
        let others = decoded(&store, &encoding, &others);
        (encoding, others)
    });
    assert_eq!(best, portable);
    // Values of other keys are uniform: fewer than 4 of 25 bytes' worth of bits at six deviations.
    let ones: u32 = best.1.iter().flatten().map(|word| word.count_ones()).sum();
    let bits = 100.0 * 64.0 * W as f64;
    assert!((f64::from(ones) - bits / 2.0).abs() < 3.0 * bits.sqrt());
}

#[test]
fn small_maps_are_encoded() {
    for items in 0..300 {
        round_trip::<1>(items, items, 40);
    }
}

#[test]
fn every_width_is_encoded() {
    for items in [0, 1, 2, 63, 64, 300, 408, 409, 500, 1000, 3000] {
        round_trip::<1>(items, items, 40);
        round_trip::<2>(items, items, 64);
        round_trip::<4>(items, items / 2, 128);
        round_trip::<8>(items, items, 40);
    }
}
