//! Programmable OPRFs for two sets of equal size with half of it in common: encoding and decoding of each hint on an
//! OPRF that costs nothing, bits per item, and whole runs.
//!
//! With `RAYON_NUM_THREADS=1` the figures are one thread's.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use vesica_oprf::Params;
use vesica_oprf::programmable::bins::{self, HASHES, ReceiverBins, SenderBins};
use vesica_oprf::programmable::{
    BatchOprf, Hint, OkvsHint, Opprf, Points, Queries, RelaxedHint, Shape, TableHint, Target,
    membership,
};
use vesica_oprf::vole::Vole;
use vesica_primitives::block::Block;
use vesica_primitives::security::{KeyAgreement, Security};
use vesica_research::free_oprf::Free;
use vesica_research::kkrt_batch::KkrtBatch;
use vesica_research::polynomial_hint::PolynomialHint;
use vesica_testing::{Recorder, Tape, honest, items, rng, run_both};
use vesica_wire::memory_pair;

/// Bits of a payload.
const PAYLOAD_BITS: u32 = 64;

/// Both parties' keys.
struct Sets {
    shape: Shape,
    queries: Queries,
    points: Points,
}

fn sets(log_items: u32, payload_bits: u32) -> Sets {
    let size = 1 << log_items;
    let params = Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: size,
        sender_size: size,
        key_agreement: KeyAgreement::default(),
        session: [7; 32],
    };
    let ours = items(1, size);
    let theirs = [&ours[size / 2..], &items(2, size / 2)].concat();
    let opprf = Opprf::<Free, OkvsHint>::default();
    let plan = opprf.plan(&params, payload_bits, bins::table);
    let (table, shape) = plan.expect("λ of 40");
    Sets {
        shape,
        queries: ReceiverBins::new(&params, table, &ours)
            .expect("places")
            .queries,
        points: SenderBins::new(&params, table, &theirs).points,
    }
}

/// The second run of PSM2 on random candidates.
fn second(log_items: u32) -> Sets {
    let first = sets(log_items, 0);
    let opprf = Opprf::<Free, RelaxedHint>::default();
    let mut tape = Tape::default();
    let target = targets(&opprf, &first.shape);
    opprf
        .send(&mut tape, &first.shape, &first.points, &target, &mut rng(3))
        .expect("a tape");
    let strings = opprf
        .receive(&mut tape, &first.shape, &first.queries, &mut rng(4))
        .expect("a tape");
    let shape = Opprf::<Free, TableHint>::default()
        .plan_second(&first.shape, HASHES, 0)
        .expect("λ of 40");
    let tags = opprf.random_tags(&first.shape, &mut rng(5));
    Sets {
        queries: membership::queries(&shape, &tags),
        points: membership::points(&shape, &strings),
        shape,
    }
}

/// A tag for each bin, and a payload for each point.
fn targets<O: BatchOprf, H: Hint>(
    opprf: &Opprf<O, H>,
    shape: &Shape,
) -> impl Fn(usize, usize, usize) -> Target + Sync + use<O, H> {
    let tags = opprf.random_tags(shape, &mut rng(5));
    let has_payload = shape.payload_bits > 0;
    move |bin, point, _| Target {
        tag: tags[bin],
        payload: if has_payload { point as Block } else { 0 },
    }
}

fn hint<H: Hint + Default>(c: &mut Criterion, name: &str, log_items: u32, sets: &Sets) {
    let Sets {
        shape,
        queries,
        points,
    } = sets;
    let opprf = Opprf::<Free, H>::default();
    let target = targets(&opprf, shape);
    let send = || {
        let mut tape = Tape::default();
        opprf
            .send(&mut tape, shape, points, &target, &mut rng(3))
            .expect("a tape");
        tape
    };
    let tape = send();
    let bytes: usize = tape.0.iter().map(|(_, frame)| frame.len()).sum();
    let layout = opprf.layouts(shape)[0];
    let name = format!(
        "{name}, {} + {} bits",
        layout.tag_bits(),
        layout.payload_bits()
    );
    println!(
        "{name}, 2^{log_items} items: {bytes} bytes, {:.1} bits per item",
        8.0 * bytes as f64 / f64::from(1 << log_items)
    );
    let mut group = c.benchmark_group(name);
    group
        .throughput(Throughput::Elements(1 << log_items))
        .sample_size(10);
    let size = format!("2^{log_items}");
    group.bench_function(BenchmarkId::new("encode", &size), |b| b.iter(&send));
    group.bench_function(BenchmarkId::new("decode", &size), |b| {
        b.iter_batched_ref(
            || tape.clone(),
            |tape| opprf.receive(tape, shape, black_box(queries), &mut rng(4)),
            BatchSize::LargeInput,
        );
    });
}

fn run<O: BatchOprf + Default, H: Hint + Default>(c: &mut Criterion, name: &str, log_items: u32) {
    let Sets {
        shape,
        queries,
        points,
    } = &sets(log_items, PAYLOAD_BITS);
    let opprf = Opprf::<O, H>::default();
    let target = targets(&opprf, shape);
    let mut group = c.benchmark_group(format!("run, {name}"));
    group
        .throughput(Throughput::Elements(1 << log_items))
        .sample_size(10);
    let (near, far) = memory_pair();
    let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
    let (received, sent) = run_both(
        (&mut near, &mut far),
        |channel| opprf.receive(channel, shape, queries, &mut rng(4)),
        |channel| opprf.send(channel, shape, points, &target, &mut rng(3)),
    );
    assert!(received.is_ok() && sent.is_ok());
    let bits = |sent: &Recorder<_>| {
        let bytes: usize = sent.sent.iter().map(|(_, frame)| frame.len()).sum();
        8.0 * bytes as f64 / f64::from(1 << log_items)
    };
    println!(
        "run, {name}, 2^{log_items} items: {:.1} bits per item from the receiver, {:.1} from the sender",
        bits(&near),
        bits(&far)
    );
    group.bench_function(BenchmarkId::from_parameter(format!("2^{log_items}")), |b| {
        b.iter(|| {
            honest(
                |channel| opprf.receive(channel, shape, queries, &mut rng(4)),
                |channel| opprf.send(channel, shape, points, &target, &mut rng(3)),
            )
        });
    });
}

fn benches(c: &mut Criterion) {
    for log_items in [16, 20] {
        for payload_bits in [0, PAYLOAD_BITS] {
            let sets = sets(log_items, payload_bits);
            hint::<OkvsHint>(c, "okvs", log_items, &sets);
            hint::<RelaxedHint>(c, "relaxed", log_items, &sets);
            hint::<PolynomialHint>(c, "polynomials", log_items, &sets);
        }
        let second = second(log_items);
        hint::<TableHint>(c, "PSM2 table", log_items, &second);
        hint::<OkvsHint>(c, "PSM2 okvs", log_items, &second);
        run::<Vole, OkvsHint>(c, "VOLE and OKVS", log_items);
        run::<Vole, RelaxedHint>(c, "VOLE and relaxed", log_items);
        run::<Vole, PolynomialHint>(c, "VOLE and polynomials", log_items);
        run::<KkrtBatch, RelaxedHint>(c, "KKRT and relaxed", log_items);
        run::<KkrtBatch, PolynomialHint>(c, "KKRT and polynomials", log_items);
    }
}

criterion_group!(all, benches);
criterion_main!(all);
