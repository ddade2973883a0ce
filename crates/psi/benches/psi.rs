//! The mask exchange: nanoseconds and bits per mask, each side on its own.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rand_core::Rng;
use vesica_psi::masks::Exchange;
use vesica_testing::{Tape, rng};

fn masks<const W: usize>(count: usize, seed: u64) -> Vec<[u64; W]> {
    let mut rng = rng(seed);
    (0..count)
        .map(|_| std::array::from_fn(|_| rng.next_u64()))
        .collect()
}

fn one<const W: usize>(c: &mut Criterion, width: usize, sender_log: u32, receiver_log: u32) {
    let exchange = Exchange {
        width,
        sender_size: 1 << sender_log,
        masks_per_item: 1,
        receiver_size: 1 << receiver_log,
        both: false,
    };
    let sent = masks::<W>(exchange.sender_size, 1);
    // Half of the smaller set is shared, in another order.
    let mut own = masks::<W>(exchange.receiver_size, 2);
    let shared = sent.len().min(own.len()) / 2;
    own[..shared].copy_from_slice(&sent[sent.len() - shared..]);
    let mut tape = Tape::default();
    exchange.send(&mut tape, &sent).expect("a tape");
    let bytes: usize = tape.0.iter().map(|(_, frame)| frame.len()).sum();
    let name = format!("masks/{width} bits, 2^{sender_log} against 2^{receiver_log}");
    println!(
        "{name}: {:.2} bits per mask in {} frames",
        8.0 * bytes as f64 / sent.len() as f64,
        tape.0.len()
    );

    let mut group = c.benchmark_group(name);
    group.sample_size(20);
    group.throughput(Throughput::Elements(1 << sender_log));
    group.bench_function("sort and code", |b| {
        b.iter(|| exchange.send(&mut Tape::default(), black_box(&sent)));
    });
    group.throughput(Throughput::Elements(1 << sender_log.max(receiver_log)));
    group.bench_function("sort, decode and match", |b| {
        b.iter_batched_ref(
            || tape.clone(),
            |tape| exchange.receive(tape, black_box(&own)),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn benches(c: &mut Criterion) {
    rayon::ThreadPoolBuilder::new()
        .num_threads(1)
        .use_current_thread()
        .build_global()
        .expect("the first pool");
    one::<2>(c, 128, 20, 20);
    one::<2>(c, 80, 20, 20);
    one::<4>(c, 256, 20, 20);
    one::<2>(c, 80, 8, 20);
    one::<2>(c, 80, 20, 8);
}

criterion_group!(psi, benches);
criterion_main!(psi);
