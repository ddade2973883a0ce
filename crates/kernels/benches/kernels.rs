//! The kernels alone: `cargo bench -p vesica-kernels`.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use vesica_kernels::{Backend, binary, curve25519};

fn curve(c: &mut Criterion) {
    let n = 1024usize;
    let inputs: Vec<[u8; 32]> = (0..n)
        .map(|i| std::array::from_fn(|j| (i * 31 + j * 7 + i * i) as u8))
        .collect();
    let mut out = vec![[0; 32]; n];
    let mut group = c.benchmark_group("curve25519");
    group
        .throughput(Throughput::Elements(n as u64))
        .sample_size(10);
    for backend in [Backend::Best, Backend::Portable] {
        group.bench_function(format!("multiply/{backend:?}"), |b| {
            b.iter(|| curve25519::multiply(backend, black_box(&inputs), &inputs, &mut out));
        });
        group.bench_function(format!("decode/{backend:?}"), |b| {
            b.iter(|| curve25519::decode(backend, black_box(&inputs), &mut out));
        });
    }
    let (signs, mut found) = (vec![0; n], vec![0; n]);
    group.bench_function("multiply and encode/Best", |b| {
        b.iter(|| {
            curve25519::multiply_and_encode(
                Backend::Best,
                black_box(&inputs),
                &inputs[0],
                &signs,
                &mut out,
                &mut found,
            );
        });
    });
    group.finish();
}

fn fields(c: &mut Criterion) {
    let n = 1usize << 16;
    let mut a: Vec<binary::Element> = (0..n as u64).map(|i| [i, i * i, !i, i ^ 5]).collect();
    let b = a.clone();
    let transform = binary::Transform::new(16);
    let mut group = c.benchmark_group("binary, 2^16 elements");
    group
        .throughput(Throughput::Elements(n as u64))
        .sample_size(10);
    for backend in [Backend::Best, Backend::Portable] {
        group.bench_function(format!("multiply/{backend:?}"), |bench| {
            bench.iter(|| binary::multiply_assign(backend, black_box(&mut a), &b));
        });
        group.bench_function(format!("transform/{backend:?}"), |bench| {
            bench.iter(|| transform.forward(backend, black_box(&mut a), 16, 0));
        });
    }
    group.finish();
}

criterion_group!(benches, curve, fields);
criterion_main!(benches);
