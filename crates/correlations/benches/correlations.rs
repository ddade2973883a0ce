//! Transfers and correlations: `cargo bench -p vesica-correlations`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::thread;
use vesica_correlations::field::Field;
use vesica_correlations::ot_extension::{self, Security};
use vesica_correlations::silent::{self, Bit, Noise};
use vesica_correlations::{base_ot, choices::Choices, ideal};
use vesica_testing::rng;
use vesica_wire::{Channel, memory_pair};

const SESSION: [u8; 32] = [1; 32];

/// A pool of one thread.
fn one_thread() -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .build()
        .unwrap()
}

/// Runs `there` on a thread and `here` on this one, each with one thread for its arithmetic.
fn both(there: impl FnOnce(&mut dyn Channel) + Send, here: impl FnOnce(&mut dyn Channel) + Send) {
    let (mut a, mut b) = memory_pair();
    thread::scope(|scope| {
        scope.spawn(move || one_thread().install(|| there(&mut a)));
        one_thread().install(|| here(&mut b));
    });
}

/// One side's work for 128 base transfers.
fn base_transfers(c: &mut Criterion) {
    let mut group = c.benchmark_group("base transfers, 128");
    let choices = Choices::random(128, &mut rng(1));
    let (_, public) = base_ot::Sender::new(&SESSION, &mut rng(2));
    let (_, functions) = base_ot::Receiver::new(&SESSION, choices.clone(), &mut rng(3));
    group.bench_function("sender", |b| {
        b.iter(|| {
            base_ot::Sender::new(&SESSION, &mut rng(2))
                .0
                .keys(&functions)
        });
    });
    group.bench_function("receiver", |b| {
        b.iter(|| {
            let choices = choices.clone();
            let (receiver, _) = base_ot::Receiver::new(&SESSION, choices, &mut rng(3));
            receiver.keys(&public).unwrap()
        });
    });
    group.finish();
}

/// Random transfers, one thread a party; base transfers are ideal.
fn extension(c: &mut Criterion) {
    let mut group = c.benchmark_group("random transfers");
    group.sample_size(10);
    for log in [12, 16, 20, 23] {
        for security in [Security::SemiHonest, Security::Malicious] {
            let choices = Choices::random(1 << log, &mut rng(4));
            group.throughput(Throughput::Elements(1 << log));
            group.bench_function(BenchmarkId::new(format!("{security:?}"), log), |b| {
                b.iter(|| {
                    let (mut sender, mut receiver) =
                        ideal::extension(&SESSION, security, &mut rng(5));
                    both(
                        |c| drop(sender.random(c, 1 << log).unwrap()),
                        |c| drop(receiver.random(c, &choices).unwrap()),
                    );
                });
            });
        }
    }
    group.finish();
}

/// A few transfers from nothing, as a silent protocol starts with.
fn from_nothing(c: &mut Criterion) {
    let mut group = c.benchmark_group("transfers from nothing, malicious");
    group.sample_size(10);
    let choices = Choices::random(4096, &mut rng(6));
    group.bench_function("4096 correlated", |b| {
        b.iter(|| {
            both(
                |c| {
                    let level = Security::Malicious;
                    let mut sender = ot_extension::Sender::setup(c, &SESSION, level, &mut rng(7));
                    sender.as_mut().unwrap().correlated(c, 4096).unwrap();
                },
                |c| {
                    let level = Security::Malicious;
                    let mut receiver =
                        ot_extension::Receiver::setup(c, &SESSION, level, &mut rng(8));
                    receiver.as_mut().unwrap().correlated(c, &choices).unwrap();
                },
            );
        });
    });
    group.finish();
}

/// Both halves of a silent correlation, from nothing.
fn silent_halves<N: Noise>(
    security: Security,
    length: usize,
) -> (silent::Sender<N>, silent::Receiver<N>) {
    let (mut sender, mut receiver) = (None, None);
    both(
        |c| {
            let half = silent::Sender::setup(c, &SESSION, security, length, &mut rng(9));
            sender = Some(half.unwrap());
        },
        |c| {
            let half = silent::Receiver::setup(c, &SESSION, security, length, &mut rng(10));
            receiver = Some(half.unwrap());
        },
    );
    (sender.unwrap(), receiver.unwrap())
}

/// Both parties' setup of a silent correlation, base transfers and trees included, side by side.
fn silent_setup<N: Noise>(c: &mut Criterion, name: &str) {
    let mut group = c.benchmark_group(format!("silent {name}, setup"));
    group.sample_size(10);
    for log in [16, 20] {
        for security in [Security::SemiHonest, Security::Malicious] {
            group.throughput(Throughput::Elements(1 << log));
            group.bench_function(BenchmarkId::new(format!("{security:?}"), log), |b| {
                b.iter(|| silent_halves::<N>(security, 1 << log));
            });
        }
    }
    group.finish();
}

/// One party's expansion of the first chunk, trees and code, with one thread; neither depends on the
/// security. The figures an entry count those of the chunk.
fn silent_expansion<N: Noise>(
    c: &mut Criterion,
    name: &str,
    mut expand: impl FnMut(&silent::Receiver<N>) + Send,
) {
    let mut group = c.benchmark_group(format!("silent {name}, expansion"));
    group.sample_size(10);
    let pool = one_thread();
    for log in [16, 20] {
        let (sender, receiver) = silent_halves::<N>(Security::SemiHonest, 1 << log);
        let chunk = sender.shape().chunk;
        group.throughput(Throughput::Elements(chunk as u64));
        let mut half = vec![0; chunk];
        group.bench_function(BenchmarkId::new("sender", log), |b| {
            b.iter(|| pool.install(|| sender.expand(0, &mut half)));
        });
        group.bench_function(BenchmarkId::new("receiver", log), |b| {
            b.iter(|| pool.install(|| expand(&receiver)));
        });
    }
    group.finish();
}

fn silent_field<F: Field>(c: &mut Criterion, name: &str) {
    silent_setup::<F>(c, name);
    let (mut a, mut half) = (Vec::new(), Vec::new());
    silent_expansion::<F>(c, name, |receiver| {
        a.resize(receiver.shape().chunk, F::default());
        half.resize(receiver.shape().chunk, 0);
        receiver.expand(0, &mut a, &mut half);
    });
}

fn silent_correlations(c: &mut Criterion) {
    silent_field::<u64>(c, "VOLE of 64 bits");
    silent_field::<u128>(c, "VOLE of 128 bits");
    silent_setup::<Bit>(c, "transfers");
    let mut half = Vec::new();
    silent_expansion::<Bit>(c, "transfers", |receiver| {
        half.resize(receiver.shape().chunk, 0);
        receiver.expand(0, &mut half);
    });
}

criterion_group!(
    benches,
    base_transfers,
    extension,
    from_nothing,
    silent_correlations
);
criterion_main!(benches);
