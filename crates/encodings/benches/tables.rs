//! Hash tables: time to fill them, on one thread.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vesica_encodings::{cuckoo, simple, two_choice};
use vesica_primitives::block::Prg;

fn tables(criterion: &mut Criterion) {
    for log_items in [10, 16, 20] {
        let items = 1 << log_items;
        let mut keys = vec![0; items];
        Prg::new(1).fill(&mut keys);
        let mut group = criterion.benchmark_group("tables");
        group
            .throughput(Throughput::Elements(items as u64))
            .sample_size(10);
        let size = format!("2^{log_items}");
        for hashes in [3, 4] {
            let parameters = cuckoo::Parameters::new(items, hashes, 40);
            let functions = cuckoo::Functions::new(parameters, &[0; 32]);
            let name = format!("cuckoo, {hashes} functions");
            group.bench_function(BenchmarkId::new(name, &size), |bench| {
                bench.iter(|| cuckoo::Table::new(&functions, black_box(&keys)))
            });
            let name = format!("simple, {hashes} functions");
            group.bench_function(BenchmarkId::new(name, &size), |bench| {
                bench.iter(|| simple::table(&functions, black_box(&keys)))
            });
        }
        let functions =
            two_choice::Functions::new(two_choice::Parameters::new(items, 40), &[0; 32]);
        group.bench_function(BenchmarkId::new("two-choice", &size), |bench| {
            bench.iter(|| two_choice::assign(&functions, black_box(&keys)))
        });
        group.bench_function(BenchmarkId::new("two-choice, both bins", &size), |bench| {
            bench.iter(|| two_choice::both(&functions, black_box(&keys)))
        });
    }
}

criterion_group!(all, tables);
criterion_main!(all);
