//! What each published idea of the sparse extensions gains: every group measures one idea on and off.
//!
//! `VESICA_LOG_ITEMS` sets log₂ of the number of items (16 if not set); F from SHA-256 is measured at 2^10
//! items, since it takes some forty times as long. Each party has one thread.

use std::hint::black_box;
use std::thread;

use chacha20::ChaCha12Rng;
use criterion::{Criterion, criterion_group, criterion_main};
use rand_core::{Rng, SeedableRng};
use vesica_encodings::random_band::RandomBand;
use vesica_encodings::{cuckoo, simple, two_choice};
use vesica_oprf::sparse::{AesBit, BitFunction, Message, Sparse};
use vesica_oprf::width::width;
use vesica_oprf::{Item, Oprf, Params};
use vesica_primitives::polynomial::bins;
use vesica_primitives::security::{KeyAgreement, Security};
use vesica_psi::masks::Exchange;
use vesica_research::okvs_message::OkvsMessage;
use vesica_research::sha256::Sha256Bit;
use vesica_research::slices::{Input, WAYS};
use vesica_research::three_hash::ThreeHash;
use vesica_wire::memory_pair;

const LAMBDA: u32 = 40;

fn log_items() -> u32 {
    std::env::var("VESICA_LOG_ITEMS")
        .ok()
        .map_or(16, |log| log.parse().expect("a small number"))
}

fn random_bytes(bytes: &mut [u8], seed: u64) {
    ChaCha12Rng::seed_from_u64(seed).fill_bytes(bytes);
}

fn strings(count: usize, bits: u32, seed: u64) -> Vec<u128> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut next = || u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
    (0..count).map(|_| next() >> (128 - bits)).collect()
}

/// A pool of one thread.
fn pool() -> rayon::ThreadPool {
    let builder = rayon::ThreadPoolBuilder::new().num_threads(1);
    builder.build().expect("a thread")
}

fn slicing_and_trees(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("one polynomial, 2^{} points", log_items()));
    group.sample_size(10);
    for (name, way) in WAYS {
        let input = Input::random(log_items(), way);
        group.bench_function(name, |b| b.iter(|| input.run(way)));
    }
    group.finish();
}

/// Bins of one size, each with one polynomial per slice.
fn bins_of(
    group: &mut criterion::BenchmarkGroup<'_, criterion::measurement::WallTime>,
    name: &str,
    (bins, capacity): (usize, usize),
    points_an_item: usize,
) {
    let n = 1usize << log_items();
    let bits = width((points_an_item * n) as u64, LAMBDA).div_ceil(4) as u32;
    let field = bins::Field::new(bits);
    println!(
        "{name}: {bins} bins of {capacity}, {:.1} bits of polynomials an item",
        (4 * bits as usize * bins * capacity) as f64 / n as f64
    );
    let points = strings(bins * capacity, bits, 1);
    let values: [Vec<u128>; 4] = std::array::from_fn(|i| strings(points.len(), bits, 2 + i as u64));
    let values = values.each_ref().map(|values| &values[..]);
    let polynomials = bins::interpolate(field, capacity, &points, values).expect("distinct points");
    let polynomials = polynomials.each_ref().map(|slice| &slice[..]);
    let asked = points_an_item * n;
    let others = strings(asked, bits, 9);
    let numbers: Vec<u32> = (0..asked).map(|i| (i * bins / asked) as u32).collect();
    group.bench_function(format!("{name}, interpolate"), |b| {
        b.iter(|| bins::interpolate(field, capacity, black_box(&points), values));
    });
    group.bench_function(format!("{name}, evaluate"), |b| {
        b.iter(|| bins::evaluate(field, capacity, polynomials, &numbers, black_box(&others)));
    });
}

fn two_choices(c: &mut Criterion) {
    let n = 1usize << log_items();
    let mut group = c.benchmark_group(format!("polynomials in bins, 2^{} items", log_items()));
    group.sample_size(10);
    let two = two_choice::Parameters::new(n, LAMBDA);
    bins_of(&mut group, "two choices", (two.bins, two.capacity), 2);
    // One function: the loads are those of two functions with twice as many bins.
    let one = cuckoo::Parameters {
        bins: 2 * two.bins,
        ..cuckoo::Parameters::new(n, 2, LAMBDA)
    };
    let capacity = simple::most_entries(n, &one, LAMBDA);
    bins_of(&mut group, "simple hashing", (two.bins, capacity), 1);
    group.finish();
}

fn coded_masks(c: &mut Criterion) {
    let n = 1usize << log_items();
    let bits = (LAMBDA + 2 * log_items()) as usize;
    let mut masks = vec![[0u64; 2]; n];
    random_bytes(bytemuck::must_cast_slice_mut(&mut masks), 1);
    let exchange = Exchange {
        width: bits,
        sender_size: n,
        masks_per_item: 1,
        receiver_size: n,
        both: false,
    };
    let mut group = c.benchmark_group(format!("2^{} masks of {bits} bits", log_items()));
    group.sample_size(10);
    let (ours, theirs) = (pool(), pool());
    let exchanged = || {
        let (mut receiving, mut sending) = memory_pair();
        thread::scope(|scope| {
            let masks = &masks;
            scope
                .spawn(|| theirs.install(|| exchange.send(&mut sending, masks).expect("a reader")));
            ours.install(|| exchange.receive(&mut receiving, masks).expect("all match"))
        })
    };
    let (mut receiving, mut sending) = memory_pair();
    let (sent, _) = thread::scope(|scope| {
        let masks = &masks;
        let sender = scope.spawn(move || {
            exchange.send(&mut sending, masks).expect("a reader");
            vesica_wire::Channel::traffic(&sending)
        });
        let found = exchange.receive(&mut receiving, masks);
        (sender.join().expect("no panic"), found)
    });
    let bytes: u64 = sent.iter().map(|phase| phase.bytes_sent).sum();
    println!(
        "sorted and coded: {:.2} bits per mask; in full: {bits}",
        8.0 * bytes as f64 / n as f64
    );
    group.bench_function("sorted, coded as differences, merged", |b| {
        b.iter(exchanged)
    });
    // In full and looked up in a table, as most implementations do.
    let keep = |mask: &[u64; 2]| u128::from(mask[0]) << 64 | u128::from(mask[1]);
    group.bench_function("in full, looked up", |b| {
        b.iter(|| {
            let table: std::collections::HashMap<u128, u32> = (0..)
                .zip(&masks)
                .map(|(i, mask)| (keep(mask) >> (128 - bits), i))
                .collect();
            masks
                .iter()
                .filter_map(|mask| table.get(&(keep(mask) >> (128 - bits))))
                .count()
        });
    });
    group.finish();
}

/// A whole run of an extension, in one process.
fn extension<M: Message, F: BitFunction>(params: &Params, ours: &[Item], theirs: &[Item]) {
    let (mut receiving, mut sending) = memory_pair();
    let extension = &Sparse::<M, F>::new();
    let sending = || {
        let mut rng = ChaCha12Rng::seed_from_u64(1);
        extension
            .send(&mut sending, params, theirs, &mut rng)
            .expect("a receiver")
    };
    let receiving = || {
        let mut rng = ChaCha12Rng::seed_from_u64(2);
        extension
            .receive(&mut receiving, params, ours, (), &mut rng)
            .expect("a sender")
    };
    let pools = [pool(), pool()];
    thread::scope(|scope| {
        scope.spawn(|| pools[0].install(sending));
        black_box(pools[1].install(receiving));
    });
}

fn stores_and_functions(c: &mut Criterion) {
    let settings = |log: u32| {
        let n = 1usize << log;
        let mut items = vec![[0; 32]; 2 * n];
        random_bytes(items.as_flattened_mut(), 5);
        let params = Params {
            security: Security::SemiHonest,
            lambda: LAMBDA,
            receiver_size: n,
            sender_size: n,
            key_agreement: KeyAgreement::default(),
            session: [1; 32],
        };
        (params, items)
    };
    let (params, items) = settings(log_items());
    let (ours, theirs) = items.split_at(items.len() / 2);
    let mut group = c.benchmark_group(format!("one OKVS, 2^{} items", log_items()));
    group.sample_size(10);
    group.bench_function("random band (BPSY23)", |b| {
        b.iter(|| extension::<OkvsMessage<RandomBand>, AesBit>(&params, ours, theirs));
    });
    group.bench_function("three-hash (RR22)", |b| {
        b.iter(|| extension::<OkvsMessage<ThreeHash>, AesBit>(&params, ours, theirs));
    });
    group.finish();
    let mut group = c.benchmark_group("one OKVS, 2^10 items");
    group.sample_size(10);
    let (params, items) = settings(10);
    let (ours, theirs) = items.split_at(items.len() / 2);
    group.bench_function("AES", |b| {
        b.iter(|| extension::<OkvsMessage, AesBit>(&params, ours, theirs));
    });
    group.bench_function("SHA-256", |b| {
        b.iter(|| extension::<OkvsMessage, Sha256Bit>(&params, ours, theirs));
    });
    group.finish();
}

criterion_group!(
    all,
    slicing_and_trees,
    two_choices,
    coded_masks,
    stores_and_functions
);
criterion_main!(all);
