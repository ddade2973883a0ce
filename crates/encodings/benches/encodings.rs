//! The random-band store: time to encode and to decode.
//!
//! With `RAYON_NUM_THREADS=1` the figures are one thread's.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vesica_encodings::Okvs;
use vesica_encodings::random_band::RandomBand;
use vesica_primitives::block::Prg;

fn random_band<const W: usize>(criterion: &mut Criterion, log_items: u32) {
    let items = 1 << log_items;
    let mut keys = vec![0; items];
    Prg::new(1).fill(&mut keys);
    let values: Vec<[u64; W]> = keys.iter().map(|key| [*key as u64; W]).collect();
    let store = RandomBand::new(items, 40, &[0; 32]);
    let encoding = store
        .encode(&keys, &values, &mut Prg::new(2))
        .expect("distinct keys");
    let mut out = vec![[0; W]; items];
    store.decode(&encoding, &keys, &mut out);
    assert!(out == values);

    let mut group = criterion.benchmark_group(format!("random-band/{W} words"));
    group
        .throughput(Throughput::Elements(items as u64))
        .sample_size(10);
    let size = format!("2^{log_items}");
    group.bench_function(BenchmarkId::new("encode", &size), |bench| {
        bench.iter(|| store.encode(black_box(&keys), &values, &mut Prg::new(2)))
    });
    group.bench_function(BenchmarkId::new("decode", &size), |bench| {
        bench.iter(|| store.decode(&encoding, black_box(&keys), &mut out))
    });
}

fn benches(criterion: &mut Criterion) {
    for log_items in [10, 16, 20] {
        random_band::<1>(criterion, log_items);
        random_band::<2>(criterion, log_items);
        random_band::<7>(criterion, log_items);
        random_band::<8>(criterion, log_items);
    }
}

criterion_group!(all, benches);
criterion_main!(all);
