//! The three-hash OKVS: time to encode and to decode.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vesica_encodings::Okvs;
use vesica_primitives::block::Prg;
use vesica_research::three_hash::ThreeHash;

fn store<const W: usize>(criterion: &mut Criterion, log_items: u32) {
    let n = 1 << log_items;
    let mut keys = vec![0; n];
    Prg::new(1).fill(&mut keys);
    let values: Vec<[u64; W]> = keys.iter().map(|key| [*key as u64; W]).collect();
    let store = ThreeHash::new(n, 40, &[0; 32]);
    let mut group = criterion.benchmark_group(format!("three-hash/{W} words"));
    group
        .throughput(Throughput::Elements(n as u64))
        .sample_size(10);
    let name = format!("2^{log_items}");
    group.bench_function(BenchmarkId::new("encode", &name), |bench| {
        bench.iter(|| store.encode(black_box(&keys), &values, &mut Prg::new(2)))
    });
    let encoding = store
        .encode(&keys, &values, &mut Prg::new(2))
        .expect("distinct keys");
    let mut out = vec![[0; W]; n];
    group.bench_function(BenchmarkId::new("decode", &name), |bench| {
        bench.iter(|| store.decode(&encoding, black_box(&keys), &mut out))
    });
    assert!(out == values);
}

/// Run with one thread (`RAYON_NUM_THREADS=1`) to compare with the targets.
fn stores(criterion: &mut Criterion) {
    for log_items in [10, 16, 20] {
        store::<1>(criterion, log_items);
        store::<2>(criterion, log_items);
    }
}

criterion_group!(benches, stores);
criterion_main!(benches);
