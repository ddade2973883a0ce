//! Transfers and correlations: `cargo bench -p vesica-correlations`.

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use std::thread;
use std::time::{Duration, Instant};
use vesica_correlations::bulk::{self, Optimize, SemiHonest, subfield};
use vesica_correlations::cot::{Receiver, Sender};
use vesica_correlations::field::Field;
use vesica_correlations::ole::lattice::{self, Parameters};
use vesica_correlations::ole::{ReceiverHalf, SenderHalf, Shape};
use vesica_correlations::ot_extension::{self, Security};
use vesica_correlations::silent::{self, Bit, Noise};
use vesica_correlations::subfield::{Receiver as _, Sender as _};
use vesica_correlations::{base_ot, choices::Choices, ideal};
use vesica_kernels::{Backend, limit};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::security::KeyAgreement;
use vesica_testing::{Tape, rng};
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
    // Both sides in turn, on two threads of which one waits.
    for agreement in [KeyAgreement::Classical, KeyAgreement::Hybrid] {
        group.bench_function(format!("both, {agreement:?}"), |b| {
            b.iter(|| {
                both(
                    |c| {
                        let (session, rng) = (&SESSION, &mut rng(2));
                        base_ot::send_and_bind(c, session, agreement, 128, rng).unwrap();
                    },
                    |c| {
                        let (choices, rng) = (choices.clone(), &mut rng(3));
                        base_ot::receive_and_bind(c, &SESSION, agreement, choices, rng).unwrap();
                    },
                );
            });
        });
    }
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
            let half = silent::Sender::setup(
                c,
                &SESSION,
                security,
                KeyAgreement::Classical,
                length,
                &mut rng(9),
            );
            sender = Some(half.unwrap());
        },
        |c| {
            let half = silent::Receiver::setup(
                c,
                &SESSION,
                security,
                KeyAgreement::Classical,
                length,
                &mut rng(10),
            );
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

/// Both ends of a source of correlated transfers in bulk, from nothing.
fn bulk_ends(expected: usize, optimize: Optimize) -> (bulk::Sender, bulk::Receiver) {
    let (mut sender, mut receiver) = (None, None);
    both(
        |c| {
            let mut rng = rng(11);
            let end = bulk::Sender::setup(
                c,
                &SESSION,
                SemiHonest,
                expected,
                optimize,
                KeyAgreement::Classical,
                &mut rng,
            );
            sender = Some(end.unwrap());
        },
        |c| {
            let mut rng = rng(12);
            let end = bulk::Receiver::setup(
                c,
                &SESSION,
                SemiHonest,
                expected,
                optimize,
                KeyAgreement::Classical,
                &mut rng,
            );
            receiver = Some(end.unwrap());
        },
    );
    (sender.unwrap(), receiver.unwrap())
}

/// log₂ of the expected transfers, which lead to each of the sizes.
const BULK: [(u32, Optimize); 3] = [
    (16, Optimize::Time),
    (27, Optimize::Time),
    (27, Optimize::Traffic),
];

/// Both parties' setup of transfers in bulk, side by side.
fn bulk_setup(c: &mut Criterion) {
    let mut group = c.benchmark_group("bulk transfers, setup");
    group.sample_size(10);
    for (log, optimize) in BULK {
        group.bench_function(format!("{log}, {optimize:?}"), |b| {
            b.iter(|| bulk_ends(1 << log, optimize));
        });
    }
    group.finish();
}

/// A party's part, from a channel that keeps messages, and room for the results.
type Part<'a> = &'a mut dyn FnMut(&mut Tape, &mut [Block]);

/// Each party's part of 2^`log` transfers or entries, alone and with one thread.
fn parties(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    log: u32,
    mut make: [Part<'_>; 2],
) {
    let mut blocks = vec![0; 1 << log];
    let mut tape = Tape::default();
    // The time of the sender's and of the receiver's part of so many rounds.
    let mut run = |rounds: u64| {
        let mut times = [Duration::ZERO; 2];
        for _ in 0..rounds {
            for (time, make) in times.iter_mut().zip(&mut make) {
                let start = Instant::now();
                make(&mut tape, &mut blocks);
                *time += start.elapsed();
            }
        }
        times
    };
    group.throughput(Throughput::Elements(1 << log));
    for (i, party) in ["sender", "receiver"].into_iter().enumerate() {
        let name = BenchmarkId::new(party, name);
        group.bench_function(name, |b| b.iter_custom(|rounds| run(rounds)[i]));
    }
}

/// A group for each of two versions of the kernels: the best, and the one of most processors.
fn on_backends(c: &mut Criterion, name: &str, run: impl Fn(&mut BenchmarkGroup<'_, WallTime>)) {
    for backend in [Backend::Best, Backend::Avx2] {
        limit(backend);
        let mut group = c.benchmark_group(format!("{name}, {backend:?}"));
        run(group.sample_size(10));
        group.finish();
    }
    limit(Backend::Best);
}

fn bulk_transfers(group: &mut BenchmarkGroup<'_, WallTime>) {
    let pool = one_thread();
    for (log, optimize) in BULK {
        let (mut sender, mut receiver) = bulk_ends(1 << log, optimize);
        parties(
            group,
            &format!("transfers, {log}, {optimize:?}"),
            log.min(22),
            [
                &mut |tape, q| {
                    let made = pool.install(|| sender.extend(tape, &mut rng(13), q));
                    made.unwrap();
                },
                &mut |tape, t| {
                    let made = pool.install(|| receiver.extend(tape, &mut rng(14), t));
                    made.unwrap();
                },
            ],
        );
    }
}

/// Entries over GF(2^W) in bulk, on top of ideal transfers.
fn entries_in_bulk<const W: u32>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let pool = one_thread();
    let expected = 1 << 27;
    for optimize in [Optimize::Time, Optimize::Traffic] {
        let (cots, choices) = ideal::cots(19);
        let (mut tape, level) = (Tape::default(), SemiHonest);
        let rng = &mut vesica_testing::rng(11);
        let sender = subfield::Sender::<W, _>::setup(
            &mut tape, &SESSION, level, expected, optimize, cots, rng,
        );
        let receiver = subfield::Receiver::<W, _>::setup(
            &mut tape, &SESSION, level, expected, optimize, choices, rng,
        );
        let (mut sender, mut receiver) = (sender.unwrap(), receiver.unwrap());
        parties(
            group,
            &format!("entries over GF({}), {optimize:?}", 1 << W),
            22,
            [
                &mut |tape, y| {
                    let made = pool.install(|| sender.extend_entries(tape, rng, y));
                    made.unwrap();
                },
                &mut |tape, z| {
                    let rng = &mut vesica_testing::rng(14);
                    let made = pool.install(|| receiver.extend_entries(tape, rng, z));
                    made.unwrap();
                },
            ],
        );
    }
}

/// Both, in turns: what an entry costs in transfers.
fn in_bulk(c: &mut Criterion) {
    on_backends(c, "bulk", |group| {
        bulk_transfers(group);
        entries_in_bulk::<3>(group);
        entries_in_bulk::<4>(group);
    });
}

/// What a ciphertext of OLE tuples takes of each party, at the number of tuples for 2^20 items.
fn ole_lattice(c: &mut Criterion) {
    let mut group = c.benchmark_group("ole lattice");
    let pool = one_thread();
    for least in [40_961, 3 << 60] {
        let (bins, per_bin) = (1_331_692, 28);
        let shape = Shape {
            modulus: lattice::modulus(least, bins, per_bin, 40).unwrap(),
            bins,
            per_bin,
        };
        let parameters = Parameters::new(shape, 40).unwrap();
        let mut half = ReceiverHalf::random(shape, &mut rng(15));
        let sender_half = SenderHalf::random(shape, &mut rng(16));
        let (mut receiver, seed, body) =
            lattice::Receiver::new(shape, parameters.clone(), &SESSION, &mut rng(17));
        let sender = lattice::Sender::new(shape, parameters.clone(), &SESSION, seed, body);
        let bits = shape.modulus.bits();
        group.throughput(Throughput::Elements(parameters.length as u64));
        group.bench_function(BenchmarkId::new("ciphertext", bits), |b| {
            b.iter(|| pool.install(|| receiver.encrypt(&half, 0)));
        });
        let ciphertext = sender.ciphertext(0, receiver.encrypt(&half, 0));
        let mut prg = Prg::new(18);
        let mut answer = || sender.answer(&sender_half, 0, 0, &ciphertext, &mut prg);
        group.bench_function(BenchmarkId::new("answer", bits), |b| {
            b.iter(|| {
                let answer = pool.install(&mut answer);
                lattice::messages::answer_to_bytes(&parameters, &answer)
            });
        });
        let answer = answer();
        group.bench_function(BenchmarkId::new("decryption", bits), |b| {
            b.iter(|| pool.install(|| receiver.decrypt(&mut half, 0, 0, &answer)));
        });
    }
    group.finish();
}

criterion_group!(
    benches,
    ole_lattice,
    bulk_setup,
    in_bulk,
    base_transfers,
    extension,
    from_nothing,
    silent_correlations
);
criterion_main!(benches);
