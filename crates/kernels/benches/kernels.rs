//! The kernels alone: `cargo bench -p vesica-kernels`.

mod inputs;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use inputs::words;
use std::hint::black_box;
use vesica_kernels::{Backend, aes, band, binary, blake3, code, curve25519, gf2k, transpose};

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
    for backend in Backend::ALL {
        group.bench_function(format!("multiply/{backend:?}"), |b| {
            b.iter(|| curve25519::multiply(backend, black_box(&inputs), &inputs, &mut out));
        });
        group.bench_function(format!("decode/{backend:?}"), |b| {
            b.iter(|| curve25519::decode(backend, black_box(&inputs), &mut out));
        });
    }
    let mut nine = [0; 32];
    nine[0] = 9;
    let base = curve25519::Multiples::new(&nine).expect("the base point");
    let (signs, mut found) = (vec![0; n], vec![0; n]);
    for backend in Backend::ALL {
        group.bench_function(format!("multiply one point/{backend:?}"), |b| {
            b.iter(|| curve25519::multiply_one_point(backend, black_box(&inputs), &base, &mut out));
        });
        group.bench_function(format!("multiply and encode/{backend:?}"), |b| {
            b.iter(|| {
                curve25519::multiply_and_encode(
                    backend,
                    black_box(&inputs),
                    &base,
                    &signs,
                    &mut out,
                    &mut found,
                );
            });
        });
    }
    group.bench_function("a table of multiples", |b| {
        b.iter(|| curve25519::Multiples::new(black_box(&nine)));
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
    for backend in Backend::ALL {
        group.bench_function(format!("multiply/{backend:?}"), |bench| {
            bench.iter(|| binary::multiply_assign(backend, black_box(&mut a), &b));
        });
        group.bench_function(format!("transform/{backend:?}"), |bench| {
            bench.iter(|| transform.forward(backend, black_box(&mut a), 16, 0));
        });
    }
    group.finish();
}

fn extension_fields(c: &mut Criterion) {
    let field = gf2k::Field::new(109);
    let transform = gf2k::Transform::new(field);
    let n = 1usize << 16;
    let elements = |n: usize| -> Vec<u128> {
        let factor = 0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645;
        (1..=n as u128)
            .map(|i| ((i * i) ^ i).wrapping_mul(factor) & field.mask())
            .collect()
    };
    let (mut a, b) = (elements(n), elements(n));
    for backend in Backend::ALL {
        let mut group = c.benchmark_group(format!("gf2k/{backend:?}"));
        group
            .throughput(Throughput::Elements(n as u64))
            .sample_size(10);
        for part in [1 << 10, n] {
            group.bench_function(format!("multiply, {part} at a time"), |bench| {
                bench.iter(|| {
                    for _ in 0..n / part {
                        let a = &mut black_box(&mut a)[..part];
                        field.multiply_assign(backend, a, &b[..part]);
                    }
                });
            });
        }
        group.bench_function("invert", |bench| {
            bench.iter(|| field.invert_all(backend, black_box(&mut a)));
        });
        for log in [2, 6, 10, 16] {
            group.bench_function(format!("transforms of 2^{log}"), |bench| {
                bench.iter(|| transform.forward(backend, black_box(&mut a), log, 1 << 40));
            });
        }
        group.bench_function("evaluate 16 coefficients at 16 points", |bench| {
            let mut out = vec![0; n];
            bench.iter(|| transform.evaluate_blocks(backend, black_box(&a), 4, 4, &b, &mut out));
        });
        group.finish();

        // Bins as PRTY19 has them for 2^20 items and 40 bits of statistical security.
        let (size, bins, asked) = (41, 800, 80);
        let mut group = c.benchmark_group(format!("gf2k, bins of 41 points, 4 slices/{backend:?}"));
        group.sample_size(10);
        let points = elements(size * bins);
        let values = std::array::from_fn(|_| &points[..]);
        let mut out = vec![vec![0; size * bins]; gf2k::SLICES];
        group.throughput(Throughput::Elements(points.len() as u64));
        group.bench_function("interpolate", |bench| {
            bench.iter(|| {
                let [a, b, c, d] = &mut out[..] else {
                    unreachable!()
                };
                field.interpolate_bins(backend, size, black_box(&points), values, [a, b, c, d])
            });
        });
        let others = elements(asked * bins);
        let numbers: Vec<u32> = (0..(asked * bins) as u32)
            .map(|i| i / asked as u32)
            .collect();
        let mut out = vec![vec![0; others.len()]; gf2k::SLICES];
        group.throughput(Throughput::Elements(others.len() as u64));
        group.bench_function("evaluate", |bench| {
            bench.iter(|| {
                let [a, b, c, d] = &mut out[..] else {
                    unreachable!()
                };
                let coefficients = values;
                let out = [a, b, c, d].map(|o| &mut o[..]);
                field.evaluate_bins(
                    backend,
                    size,
                    coefficients,
                    &numbers,
                    black_box(&others),
                    out,
                );
            });
        });
        group.finish();
    }
}

fn bits(c: &mut Criterion) {
    let n = 1usize << 20;
    let columns: Vec<u8> = (0..16 * n).map(|i| ((i * i) >> 7) as u8).collect();
    let mut rows = vec![0; n];
    let mut group = c.benchmark_group("transpose, 2^20 rows");
    group
        .throughput(Throughput::Bytes(columns.len() as u64))
        .sample_size(20);
    for backend in Backend::ALL {
        group.bench_function(format!("transpose128/{backend:?}"), |b| {
            b.iter(|| transpose::transpose128(backend, black_box(&columns), &mut rows));
        });
    }
    group.finish();
}

fn hashes(c: &mut Criterion) {
    let n = 1usize << 12;
    let inputs: Vec<u8> = (0..128 * n).map(|i| ((i * i) >> 7) as u8).collect();
    let mut out = vec![[0; 32]; n];
    let mut group = c.benchmark_group("blake3");
    group.throughput(Throughput::Elements(n as u64));
    for backend in Backend::ALL {
        for length in [32, 64, 128] {
            let inputs = &inputs[..length * n];
            group.bench_function(
                format!("keyed_hash_many, {length} bytes/{backend:?}"),
                |b| {
                    b.iter(|| {
                        blake3::keyed_hash_many(
                            backend,
                            &[7; 32],
                            black_box(inputs),
                            length,
                            &mut out,
                        );
                    });
                },
            );
        }
        let slices: Vec<&[u8]> = inputs
            .chunks(57)
            .take(n)
            .map(|s| &s[..s.len() / 2])
            .collect();
        group.bench_function(format!("derive_key_each/{backend:?}"), |b| {
            b.iter(|| blake3::derive_key_each(backend, &[7; 32], black_box(&slices), &mut out));
        });
    }
    group.finish();
}

fn ciphers(c: &mut Criterion) {
    let n = 1usize << 12;
    let keys = [aes::Key::new(1), aes::Key::new(2)];
    let mut blocks = vec![0; n];
    let mut group = c.benchmark_group("aes");
    group
        .throughput(Throughput::Elements(n as u64))
        .sample_size(10);
    for backend in Backend::ALL {
        group.bench_function(format!("encrypt, batches of 128/{backend:?}"), |b| {
            b.iter(|| {
                for batch in black_box(&mut blocks).chunks_mut(128) {
                    aes::encrypt(backend, &keys[0], batch);
                }
            });
        });
        for planes in [1, 4, 6, 8] {
            let name = format!("18 keys, {planes} planes/{backend:?}");
            group.bench_function(name, |b| {
                let keys: [u128; 18] = std::array::from_fn(|i| i as u128);
                b.iter(|| {
                    for blocks in black_box(&mut blocks).chunks_exact_mut(18 * planes) {
                        aes::feed_forward_under_each(backend, black_box(&keys), blocks);
                    }
                });
            });
        }
        group.bench_function(format!("bits, 128 blocks, 32 keys/{backend:?}"), |b| {
            let keys: Vec<aes::Key> = (0..32).map(aes::Key::new).collect();
            let (first, _) = blocks.as_chunks::<{ aes::BITS }>();
            let mut out = vec![0; keys.len()];
            b.iter(|| aes::bits(backend, &keys, black_box(&first[0]), &mut out));
        });
        group.bench_function(
            format!("children, a tree of 4096 leaves/{backend:?}"),
            |b| {
                b.iter(|| {
                    for level in 0..12 {
                        let nodes = &mut black_box(&mut blocks)[..2 << level];
                        black_box(aes::children(backend, &keys, nodes));
                    }
                });
            },
        );
    }
    group.finish();
}

/// 2^14 rows as of an encoding, with values of 128 bits.
fn bands(c: &mut Criterion) {
    let (n, columns) = (1usize << 14, 17141);
    let (frames, rows) = inputs::bands(n, columns);
    let values: Vec<[u64; 2]> = words(n).map(|word| [word, !word]).collect();
    let free: Vec<[u64; 2]> = values[..columns - n].to_vec();
    let mut slots = vec![[0; 2]; columns];
    let mut out = vec![[0; 2]; n];
    let mut group = c.benchmark_group("band, 2^14 rows");
    group
        .throughput(Throughput::Elements(n as u64))
        .sample_size(10);
    for backend in Backend::ALL {
        let mut system = band::System::new(backend, 0..columns, 0);
        group.bench_function(format!("insert/{backend:?}"), |b| {
            b.iter(|| {
                system.begin(free.clone());
                system.insert(&frames, black_box(&rows), &values)
            });
        });
        group.bench_function(format!("insert and solve/{backend:?}"), |b| {
            b.iter(|| {
                system.begin(free.clone());
                let inserted = system.insert(&frames, black_box(&rows), &values);
                inserted
                    .and_then(|()| system.finish())
                    .expect("independent rows");
                system.solve(&mut slots);
            });
        });
        group.bench_function(format!("combine/{backend:?}"), |b| {
            b.iter(|| band::combine(backend, black_box(&slots), &frames, &rows, &mut out));
        });
    }
    group.finish();
}

/// As a chunk of 2^17 rows of one block has it.
fn codes(c: &mut Criterion) {
    let n = 1usize << 17;
    let coefficients: Vec<u32> = words(n).map(|word| word as u32 >> 8).collect();
    let mut rows: Vec<[u64; 2]> = words(n + code::SLACK).map(|word| [word, !word]).collect();
    let mut pairs: Vec<[u64; 4]> = rows.iter().map(|[a, b]| [*a, *b, !*a, !*b]).collect();
    let mut group = c.benchmark_group("code, 2^17 rows");
    group
        .throughput(Throughput::Elements(n as u64))
        .sample_size(10);
    for backend in Backend::ALL {
        group.bench_function(format!("convolve/{backend:?}"), |b| {
            b.iter(|| code::convolve(backend, black_box(&mut rows), &coefficients));
        });
        group.bench_function(format!("convolve, 32 bytes/{backend:?}"), |b| {
            b.iter(|| code::convolve(backend, black_box(&mut pairs), &coefficients));
        });
    }
    group.finish();
}

criterion_group!(
    benches,
    bands,
    ciphers,
    codes,
    curve,
    fields,
    extension_fields,
    hashes,
    bits
);
criterion_main!(benches);
