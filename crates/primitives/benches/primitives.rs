//! Polynomials and keys: `cargo bench -p vesica-primitives`.

use chacha20::ChaCha12Rng;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand_core::{Rng, SeedableRng};
use std::hint::black_box;
use vesica_primitives::curve::EncodedKeys;
use vesica_primitives::permutation::IdealPermutation;
use vesica_primitives::polynomial::{
    Element, Evaluator, Gf2k, Interpolator, bins, evaluate, interpolate,
};

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

/// PRTY19's polynomials: 436 bits, as 2^20 items take, are four slices of 109.
fn slices(c: &mut Criterion) {
    let mut rng = ChaCha12Rng::seed_from_u64(3);
    let field = Gf2k::new(109);
    let mask = field.field().mask();
    let mut random = |n: usize| -> Vec<u128> {
        (0..n)
            .map(|_| (u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64())) & mask)
            .collect()
    };
    let mut group = c.benchmark_group("one slice of 109 bits");
    group.sample_size(10);
    for log in [8, 12, 16, 20] {
        let (points, values) = (random(1 << log), random(1 << log));
        group.throughput(Throughput::Elements(1 << log));
        group.bench_function(format!("prepare to interpolate/{log}"), |b| {
            b.iter(|| Interpolator::new(&field, black_box(&points)).unwrap());
        });
        let interpolator = Interpolator::new(&field, &points).unwrap();
        group.bench_function(format!("interpolate/{log}"), |b| {
            b.iter(|| interpolator.interpolate(black_box(&values)));
        });
        drop(interpolator);
        group.bench_function(format!("prepare to evaluate/{log}"), |b| {
            b.iter(|| Evaluator::new(&field, black_box(&points), 1 << log).unwrap());
        });
        let evaluator = Evaluator::new(&field, &points, 1 << log).unwrap();
        group.bench_function(format!("evaluate/{log}"), |b| {
            b.iter(|| evaluator.evaluate(black_box(&values)));
        });
    }
    for (coefficients, points) in [(8, 20), (20, 8)] {
        let (coefficients, points) = (random(1 << coefficients), random(1 << points));
        group.throughput(Throughput::Elements(points.len() as u64));
        let name = format!(
            "evaluate/{} coefficients, {} points",
            coefficients.len(),
            points.len()
        );
        let evaluator = Evaluator::new(&field, &points, coefficients.len()).unwrap();
        group.bench_function(name, |b| {
            b.iter(|| evaluator.evaluate(black_box(&coefficients)));
        });
    }
    group.finish();

    let (size, count) = (41, 26_214);
    let mut group = c.benchmark_group("four slices of 109 bits");
    group.sample_size(10);
    let points = random(size * count);
    let values: [Vec<u128>; bins::SLICES] = std::array::from_fn(|_| random(size * count));
    let values = values.each_ref().map(|v| &v[..]);
    group.throughput(Throughput::Elements(points.len() as u64));
    group.bench_function("26,214 bins of 41 points, interpolate", |b| {
        b.iter(|| bins::interpolate(field.field(), size, black_box(&points), values).unwrap());
    });
    let asked = random(1 << 21);
    let numbers: Vec<u32> = (0..1u64 << 21)
        .map(|i| ((i * count as u64) >> 21) as u32)
        .collect();
    group.throughput(Throughput::Elements(1 << 21));
    group.bench_function("26,214 bins of 41 points, evaluate", |b| {
        b.iter(|| bins::evaluate(field.field(), size, values, &numbers, black_box(&asked)));
    });
    group.finish();
}

fn keys(c: &mut Criterion) {
    let mut rng = ChaCha12Rng::seed_from_u64(2);
    let mut group = c.benchmark_group("keys");
    group.throughput(Throughput::Elements(1024)).sample_size(10);
    group.bench_function("encoded keys", |b| {
        b.iter(|| EncodedKeys::generate(1024, &mut rng));
    });
    let pi = IdealPermutation::new(&[1; 32]);
    let blocks = vec![[7; 32]; 1024];
    group.bench_function("ideal permutation", |b| {
        b.iter(|| blocks.iter().map(|x| pi.apply(x)[0]).fold(0, |a, x| a ^ x));
    });
    group.finish();
}

criterion_group!(benches, polynomials, slices, keys);
criterion_main!(benches);
