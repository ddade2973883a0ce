//! The share engine on ideal COTs, and on entries made of them: `cargo bench -p vesica-circuit`.
//!
//! Both parties run in one process. The time of the ideal source is part of every figure.

use std::thread;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vesica_circuit::{Receiver, Sender};
use vesica_correlations::ideal;
use vesica_correlations::subfield::FromCots;
use vesica_primitives::block::{Block, Prg};
use vesica_testing::rng;
use vesica_wire::{Channel, memory_pair};

const SESSION: [u8; 32] = [1; 32];
const BINS: usize = 1 << 17;
const BITS: u32 = 61;

/// Runs one party on a thread and the other on this one, each with one thread for its arithmetic.
fn both<A: Send>(
    there: impl FnOnce(&mut dyn Channel) -> A + Send,
    here: impl FnOnce(&mut dyn Channel) -> A + Send,
) -> (A, A) {
    let pool = || {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
        builder.build().unwrap()
    };
    let (mut near, mut far) = memory_pair();
    thread::scope(|scope| {
        let there = scope.spawn(move || pool().install(|| there(&mut near)));
        let here = pool().install(|| here(&mut far));
        (there.join().unwrap(), here)
    })
}

/// Engines with digits of W bits.
fn engines<const W: u32>() -> (Receiver<W>, Sender<W>) {
    let (main, chosen) = ideal::cots(5);
    (
        Receiver::new(&SESSION, FromCots::new(main)),
        Sender::new(&SESSION, FromCots::new(chosen)),
    )
}

fn strings(count: usize) -> Vec<Block> {
    let mut strings = vec![0; count];
    Prg::new(3).fill(&mut strings);
    strings
}

fn membership_by<const W: u32>(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("strings of 61 bits by digits of {W}"));
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(10));
    group.throughput(Throughput::Elements(BINS as u64));
    let strings = strings(3 * BINS);
    let (candidates, _) = strings.as_chunks::<3>();
    let ours = &strings[..BINS];
    group.bench_function("equality", |b| {
        b.iter(|| {
            let (mut receiver, mut sender) = engines::<W>();
            both(
                |channel| receiver.equality(channel, &mut rng(1), BITS, ours).unwrap(),
                |channel| sender.equality(channel, &mut rng(2), BITS, ours).unwrap(),
            )
        });
    });
    group.bench_function("among three", |b| {
        b.iter(|| {
            let (mut receiver, mut sender) = engines::<W>();
            both(
                |channel| {
                    let rng = &mut rng(1);
                    receiver.membership(channel, rng, BITS, candidates).unwrap()
                },
                |channel| {
                    let rng = &mut rng(2);
                    sender.membership(channel, rng, BITS, ours).unwrap()
                },
            )
        });
    });
    group.finish();
}

fn membership(c: &mut Criterion) {
    membership_by::<2>(c);
    membership_by::<3>(c);
    membership_by::<4>(c);
}

fn functions(c: &mut Criterion) {
    let mut group = c.benchmark_group("functions");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(5));
    group.throughput(Throughput::Elements(BINS as u64));
    let bits = vesica_circuit::BitShares::from_fn(BINS, |i| (i * i / 3) as u64);
    let bits = &bits;
    group.bench_function("size", |b| {
        b.iter(|| {
            let (mut receiver, mut sender) = engines::<{ vesica_circuit::WIDTH }>();
            both(
                |channel| {
                    let size = receiver.size(channel, &mut rng(1), bits, 100).unwrap();
                    let opened = receiver.open(
                        channel,
                        &mut rng(1),
                        &[size],
                        vesica_circuit::Least::of_all(100, BINS),
                    );
                    opened.map(drop).unwrap();
                },
                |channel| {
                    let size = sender.size(channel, &mut rng(2), bits, 100).unwrap();
                    sender
                        .open(
                            channel,
                            &mut rng(2),
                            &[size],
                            vesica_circuit::Least::of_all(100, BINS),
                        )
                        .unwrap();
                },
            )
        });
    });
    group.finish();
}

criterion_group!(benches, membership, functions);
criterion_main!(benches);
