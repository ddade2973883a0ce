//! Transfers and correlations: `cargo bench -p vesica-correlations`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rand_chacha::ChaCha12Rng;
use rand_core::SeedableRng;
use std::thread;
use vesica_correlations::ot_extension::{self, Security};
use vesica_correlations::{base_ot, choices::Choices, ideal};
use vesica_wire::{Channel, memory_pair};

const SESSION: [u8; 32] = [1; 32];

fn rng(seed: u64) -> ChaCha12Rng {
    ChaCha12Rng::seed_from_u64(seed)
}

/// Runs `there` on a thread and `here` on this one, each with one thread for its arithmetic.
fn both(there: impl FnOnce(&mut dyn Channel) + Send, here: impl FnOnce(&mut dyn Channel) + Send) {
    let (mut a, mut b) = memory_pair();
    let pool = || {
        rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap()
    };
    thread::scope(|scope| {
        scope.spawn(move || pool().install(|| there(&mut a)));
        pool().install(|| here(&mut b));
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

criterion_group!(benches, base_transfers, extension, from_nothing);
criterion_main!(benches);
