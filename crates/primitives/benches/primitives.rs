//! Polynomials and keys: `cargo bench -p vesica-primitives`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};
use std::hint::black_box;
use vesica_primitives::curve::EncodedKeys;
use vesica_primitives::permutation::IdealPermutation;
use vesica_primitives::polynomial::{Element, evaluate, interpolate};

fn polynomials(c: &mut Criterion) {
    let mut rng = ChaCha12Rng::seed_from_u64(1);
    let mut random = |n: usize| -> Vec<Element> {
        (0..n)
            .map(|_| std::array::from_fn(|_| rng.next_u64()))
            .collect()
    };
    let mut group = c.benchmark_group("polynomial");
    group.sample_size(10);
    for log in [3, 4, 5, 6, 8, 10, 12, 14, 16] {
        let (points, values) = (random(1 << log), random(1 << log));
        group.throughput(Throughput::Elements(1 << log));
        group.bench_with_input(BenchmarkId::new("interpolate", log), &log, |b, _| {
            b.iter(|| interpolate(black_box(&points), &values));
        });
        group.bench_with_input(BenchmarkId::new("evaluate", log), &log, |b, _| {
            b.iter(|| evaluate(black_box(&values), &points));
        });
    }
    group.finish();
}

fn keys(c: &mut Criterion) {
    let mut rng = ChaCha12Rng::seed_from_u64(2);
    let mut group = c.benchmark_group("keys");
    group.throughput(Throughput::Elements(1024)).sample_size(10);
    group.bench_function("encoded keys", |b| {
        b.iter(|| EncodedKeys::generate(1024, &mut rng));
    });
    let pi = IdealPermutation::default();
    let blocks = vec![[7; 32]; 1024];
    group.bench_function("ideal permutation", |b| {
        b.iter(|| blocks.iter().map(|x| pi.apply(x)[0]).fold(0, |a, x| a ^ x));
    });
    group.finish();
}

criterion_group!(benches, polynomials, keys);
criterion_main!(benches);
