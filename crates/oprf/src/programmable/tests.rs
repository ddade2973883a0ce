mod against_reference;
mod distribution;
mod wrong_peers;

use std::collections::HashSet;

use vesica_encodings::cuckoo;
use vesica_testing::{Recorder, Tape, honest, items, limit, rng, run_both};
use vesica_wire::{Kind, Limit, MAX_FRAME, memory_pair};
use zeroize::Zeroizing;

use super::bins::{HASHES, ReceiverBins, SenderBins};
use super::*;
use crate::Item;
use crate::vole::{Events, Vole, Width};
use vesica_primitives::security::KeyAgreement;

/// An ideal OPRF: both parties hash what they ask for under a key that neither of them looks at.
#[derive(Clone, Copy, Default)]
struct Ideal;

fn ideal(keys: &[Key]) -> Zeroizing<Vec<Output>> {
    let oracle = Oracle::new("vesica test ideal OPRF", &[8; 32]);
    let hash = |key: &Key| crate::output(&oracle.hash(&[key]));
    Zeroizing::new(keys.iter().map(hash).collect())
}

impl BatchOprf for Ideal {
    fn max_lambda(&self, _: u64, _: u64) -> u32 {
        128
    }

    fn bytes(&self, _: &Params, _: usize) -> u64 {
        0
    }

    fn traffic(&self, _: &Params, _: usize, _: &mut Traffic) {}

    fn working_bytes(&self, _: u64, _: u64) -> u64 {
        0
    }

    fn receive_batch(
        &self,
        _: &mut dyn Channel,
        params: &Params,
        queries: &Queries,
        _: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        assert_eq!(params.receiver_size, queries.len());
        Ok(ideal(queries.keys()))
    }

    fn send_batch(
        &self,
        _: &mut dyn Channel,
        params: &Params,
        points: &Points,
        _: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<Output>>, Error> {
        assert_eq!(params.sender_size, points.len());
        Ok(ideal(points.keys()))
    }
}

fn params(receiver_size: usize, sender_size: usize) -> Params {
    Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size,
        sender_size,
        key_agreement: KeyAgreement::default(),
        session: [6; 32],
    }
}

/// The table and the shape of a run.
fn plan<H: Hint + Default>(params: &Params, payload_bits: u32) -> (cuckoo::Parameters, Shape) {
    let opprf = Opprf::<Ideal, H>::default();
    opprf.plan(params, payload_bits, bins::table).unwrap()
}

/// The shape of a second run.
fn second<H: Hint + Default>(params: &Params, payload_bits: u32) -> Shape {
    let (_, first) = plan::<RelaxedHint>(params, payload_bits);
    let opprf = Opprf::<Ideal, H>::default();
    opprf.plan_second(&first, HASHES, payload_bits).unwrap()
}

/// A payload that depends on item and bin.
fn payload(bits: u32, item: &Item, bin: usize) -> Block {
    let hash = Oracle::new("vesica test payload", item).hash(&[&(bin as u64).to_le_bytes()]);
    let [low, _] = crate::halves(&hash);
    low.checked_shr(Block::BITS - bits).unwrap_or(0)
}

/// All blocks of a payload of any number of bits.
fn blocks(bits: u32, item: &Item, bin: usize) -> Vec<Block> {
    let block = |(i, first): (usize, u32)| {
        let bits = (bits - first).min(Block::BITS);
        payload(bits, item, bin).rotate_left(i as u32) & (Block::MAX >> (Block::BITS - bits))
    };
    (0..bits)
        .step_by(Block::BITS as usize)
        .enumerate()
        .map(block)
        .collect()
}

/// What came of a run: tags of the bins on one side, candidates on the other, and which bins should match.
struct Run {
    tags: Zeroizing<Vec<Block>>,
    strings: Strings,
    /// Blocks of a payload.
    blocks: usize,
    /// For each bin, the payload of the receiver's item there, and whether the sender has that item.
    expected: Vec<Option<(Vec<Block>, bool)>>,
}

/// Runs the OPPRF on two sets over a pair of channels.
fn run_over<O: BatchOprf, H: Hint>(
    opprf: &Opprf<O, H>,
    params: &Params,
    payload_bits: u32,
    (ours, theirs): (&[Item], &[Item]),
    channels: (impl Channel, impl Channel),
) -> (Result<Run, Error>, Result<(), Error>) {
    let (table, shape) = opprf.plan(params, payload_bits, bins::table).unwrap();
    let tags = opprf.random_tags(&shape, &mut rng(5));
    let sender = SenderBins::new(params, table, theirs);
    let item = |point: usize| &theirs[sender.table.entries()[point].item()];
    let target = |bin: usize, point: usize, part: usize| {
        let blocks = blocks(payload_bits, item(point), bin);
        Target::in_part(part, tags[bin], |i| blocks.get(i).copied().unwrap_or(0))
    };
    let (received, sent) = run_both(
        channels,
        |channel| {
            let bins = ReceiverBins::new(params, table, ours)?;
            let strings = opprf.receive(channel, &shape, &bins.queries, &mut rng(2));
            Ok((bins, strings.inspect_err(|error| channel.abort(error))?))
        },
        |channel| opprf.send(channel, &shape, &sender.points, &target, &mut rng(1)),
    );
    let held: HashSet<&Item> = theirs.iter().collect();
    let run = received.map(|(receiver, strings)| {
        let expect = |(bin, entry): (usize, Option<vesica_encodings::Entry>)| {
            let item = &ours[entry?.item()];
            Some((blocks(payload_bits, item, bin), held.contains(item)))
        };
        let bins = receiver.table.bins().enumerate();
        let expected = bins.map(expect).collect();
        let tags = tags.clone();
        Run {
            tags,
            strings,
            blocks: payload_bits.div_ceil(Block::BITS) as usize,
            expected,
        }
    });
    (run, sent)
}

fn run<O: BatchOprf + Default, H: Hint + Default>(
    params: &Params,
    payload_bits: u32,
    sets: (&[Item], &[Item]),
) -> Run {
    let opprf = Opprf::<O, H>::default();
    let (run, sent) = run_over(&opprf, params, payload_bits, sets, memory_pair());
    sent.unwrap();
    run.unwrap()
}

impl Run {
    /// The tag and all blocks of the payload of each candidate of a bin.
    fn candidates(&self, bin: usize) -> impl Iterator<Item = (Block, Vec<Block>)> {
        let each = self.strings.candidates();
        let blocks = self.blocks;
        (bin * each..(bin + 1) * each).map(move |i| {
            let payload = (0..blocks).map(|block| self.strings.payload(i, block));
            (self.strings.tags()[i], payload.collect())
        })
    }

    /// Exactly the bins of common items match, once each and with the right payload.
    fn check(&self, common: usize) {
        let mut met = 0;
        for (bin, expected) in self.expected.iter().enumerate() {
            let equal: Vec<_> = self
                .candidates(bin)
                .filter(|(tag, _)| *tag == self.tags[bin])
                .collect();
            match expected {
                Some((payload, true)) => {
                    assert_eq!(equal.len(), 1);
                    assert_eq!(equal[0].1, *payload);
                    met += 1;
                }
                _ => assert!(equal.is_empty(), "bin {bin} matches by chance"),
            }
        }
        assert_eq!(met, common);
    }
}

/// Two sets with this many common items.
fn sets(n_r: usize, n_s: usize, common: usize) -> (Vec<Item>, Vec<Item>) {
    let ours = items(3, n_r);
    let mut theirs = items(4, n_s);
    theirs[..common].copy_from_slice(&ours[..common]);
    theirs.reverse();
    (ours, theirs)
}

/// Sizes of both sets and of what they share.
const SIZES: [(usize, usize, usize); 14] = [
    (0, 0, 0),
    (0, 3, 0),
    (3, 0, 0),
    (1, 1, 1),
    (1, 1, 0),
    (2, 2, 1),
    (4, 4, 4),
    (1, 700, 1),
    (700, 1, 1),
    (300, 300, 300),
    (300, 300, 0),
    (256, 3000, 100),
    (3000, 256, 100),
    (1700, 1300, 250),
];

fn agree_on_all_sizes<H: Hint + Default>() {
    for (n_r, n_s, common) in SIZES {
        let (ours, theirs) = sets(n_r, n_s, common);
        for payload_bits in [0, 64, 128] {
            run::<Ideal, H>(&params(n_r, n_s), payload_bits, (&ours, &theirs)).check(common);
        }
    }
    let (ours, theirs) = sets(500, 500, 200);
    for payload_bits in [1, 2, 63, 65, 100, 127, 129, 256, 257, 384, 520, 700] {
        run::<Ideal, H>(&params(500, 500), payload_bits, (&ours, &theirs)).check(200);
    }
}

#[test]
fn okvs_candidates_match_on_common_items_only() {
    agree_on_all_sizes::<OkvsHint>();
}

#[test]
fn relaxed_candidates_match_on_common_items_only() {
    agree_on_all_sizes::<RelaxedHint>();
}

/// Bins with hundreds of points each, or hardly any points; several frames.
#[test]
fn very_unequal_sizes() {
    for (n_r, n_s) in [(1 << 8, 1 << 16), (1 << 16, 1 << 8)] {
        let (ours, theirs) = sets(n_r, n_s, 100);
        run::<Ideal, OkvsHint>(&params(n_r, n_s), 64, (&ours, &theirs)).check(100);
        run::<Ideal, RelaxedHint>(&params(n_r, n_s), 64, (&ours, &theirs)).check(100);
    }
}

#[test]
fn the_opprf_works_over_vole() {
    for (n_r, n_s, common) in [(0, 0, 0), (1, 1, 1), (3, 500, 2), (900, 700, 200)] {
        let (ours, theirs) = sets(n_r, n_s, common);
        run::<Vole, OkvsHint>(&params(n_r, n_s), 64, (&ours, &theirs)).check(common);
        run::<Vole, RelaxedHint>(&params(n_r, n_s), 0, (&ours, &theirs)).check(common);
    }
}

/// As many bits as the tables, the OKVS and 128-bit tags allow.
#[test]
fn more_statistical_security() {
    let (ours, theirs) = sets(200, 300, 50);
    for lambda in [20, 64] {
        let params = Params {
            lambda,
            ..params(200, 300)
        };
        run::<Vole, OkvsHint>(&params, 128, (&ours, &theirs)).check(50);
        run::<Ideal, RelaxedHint>(&params, 64, (&ours, &theirs)).check(50);
    }
}

/// One string per bin after CGS22's figure 7: PSI sets, relaxed candidates, and a second run with the roles changed.
fn membership<O: BatchOprf + Default, H: Hint + Default>(n_r: usize, n_s: usize, common: usize) {
    let (ours, theirs) = sets(n_r, n_s, common);
    let first = run::<Ideal, RelaxedHint>(&params(n_r, n_s), 64, (&ours, &theirs));
    let opprf = Opprf::<O, H>::default();
    let (_, shape) = plan::<RelaxedHint>(&params(n_r, n_s), 64);
    let shape = opprf.plan_second(&shape, HASHES, 64).unwrap();
    let tags = opprf.random_tags(&shape, &mut rng(11));
    let masks: Vec<Block> = items(12, shape.bins)
        .iter()
        .map(|item| payload(64, item, 0))
        .collect();
    let points = membership::points(&shape, &first.strings);
    let queries = membership::queries(&shape, &first.tags);
    let target = |bin: usize, point: usize, _: usize| {
        assert_eq!(point / HASHES, bin);
        Target {
            tag: tags[bin],
            payload: first.strings.payloads()[point] ^ masks[bin],
        }
    };
    let (strings, ()) = honest(
        |channel| opprf.receive(channel, &shape, &queries, &mut rng(9)),
        |channel| opprf.send(channel, &shape, &points, &target, &mut rng(10)),
    );
    let mut met = 0;
    for (bin, expected) in first.expected.iter().enumerate() {
        let equal = strings.tags()[bin] == tags[bin];
        assert_eq!(equal, matches!(expected, Some((_, true))));
        if let (true, Some((payload, _))) = (equal, expected) {
            assert_eq!([strings.payloads()[bin] ^ masks[bin]], payload[..]);
            met += 1;
        }
    }
    assert_eq!(met, common);
}

#[test]
fn one_string_remains_of_three_candidates() {
    for (n_r, n_s, common) in [(0, 0, 0), (1, 1, 1), (2, 700, 1), (1500, 900, 300)] {
        membership::<Ideal, TableHint>(n_r, n_s, common);
        membership::<Ideal, OkvsHint>(n_r, n_s, common);
    }
    membership::<Vole, TableHint>(400, 300, 100);
}

/// A candidate that is in its bin twice is asked for once.
#[test]
fn equal_candidates_have_keys_of_their_own() {
    let shape = second::<TableHint>(&params(3, 3), 0);
    let layout = Layout::new(60, 0);
    let mut strings = Strings::random(HASHES, shape.bins, layout, 0, &mut rng(1));
    let tags: Vec<Block> = strings.tags().iter().copied().step_by(HASHES).collect();
    // All three candidates of each bin are equal.
    for (bin, tag) in tags.iter().enumerate() {
        for candidate in 0..HASHES {
            let pad = [*tag as u64, (*tag >> 64) as u64, 0, 0];
            strings.set(bin, candidate, &[0u64], pad);
        }
    }
    let points = membership::points(&shape, &strings);
    let all: HashSet<&Key> = points.keys().iter().collect();
    assert_eq!(all.len(), HASHES * shape.bins);
    let queries = membership::queries(&shape, &tags);
    assert!(
        queries
            .keys()
            .iter()
            .eq(points.keys().iter().step_by(HASHES))
    );
    let opprf = Opprf::<Ideal, TableHint>::default();
    let target = |bin, _, _: usize| Target {
        tag: bin as Block,
        payload: 0,
    };
    let (strings, ()) = honest(
        |channel| opprf.receive(channel, &shape, &queries, &mut rng(9)),
        |channel| opprf.send(channel, &shape, &points, &target, &mut rng(10)),
    );
    assert!(strings.tags().iter().copied().eq(0..shape.bins as Block));
}

/// An item's bins are distinct, and its keys are its own for each function; the parties agree on both.
#[test]
fn keys_name_items_and_functions() {
    // Three bins for two items: all bins of all items meet.
    for n in [2, 3, 900] {
        let params = params(n, n);
        let (ours, _) = sets(n, n, 0);
        let table = bins::table(params.receiver_size, 42);
        let receiver = ReceiverBins::new(&params, table, &ours).unwrap();
        let sender = SenderBins::new(&params, table, &ours);
        assert_eq!(sender.points.len(), HASHES * n);
        let all: HashSet<&Key> = sender.points.keys().iter().collect();
        assert_eq!(all.len(), HASHES * n);
        let mut found = 0;
        for (bin, key) in receiver.queries.at().iter().zip(receiver.queries.keys()) {
            let bin = *bin as usize;
            let here = sender.points.begin(bin)..sender.points.begin(bin + 1);
            let equal: Vec<usize> = here.filter(|p| sender.points.keys()[*p] == *key).collect();
            assert_eq!(equal.len(), 1);
            let entry = sender.table.entries()[equal[0]];
            assert_eq!(Some(entry), receiver.table.bin(bin));
            found += 1;
        }
        assert_eq!(found, n);
    }
}

#[test]
fn points_know_their_bins() {
    let points = Points::new(vec![0, 2, 2, 5, 5], items(1, 5));
    let bins = |start| points.bins_from(start).take(5 - start).collect::<Vec<_>>();
    assert_eq!(bins(0), [1, 1, 3, 3, 3]);
    assert_eq!(bins(1), [1, 3, 3, 3]);
    assert_eq!(bins(2), [3, 3, 3]);
    assert_eq!(bins(5), [0; 0]);
    assert_eq!(
        (0..6).map(|bin| points.begin(bin)).collect::<Vec<_>>(),
        [0, 0, 2, 2, 5, 5]
    );
}

/// log₂ of the probability that some event of a run happens, by what each is bounded with.
fn log_failure<H: Hint>(opprf: &Opprf<Vole, H>, placing: u32, shape: &Shape) -> f64 {
    let Split {
        oprf,
        hint,
        tag_bits,
    } = shape.split;
    let candidates = (H::CANDIDATES * shape.bins) as f64;
    let tags = candidates * (-f64::from(tag_bits)).exp2();
    let events = [placing, oprf, hint].map(|bits| (-f64::from(bits)).exp2());
    let bits = Events::of_batch(&shape.oprf_params()).values.bits();
    let values = shape.params.sender_size as f64 * (-f64::from(bits)).exp2();
    assert!(values <= 0.75 * (-f64::from(oprf)).exp2());
    assert_eq!(opprf.layouts(shape)[0].tag_bits(), tag_bits);
    (tags + events.iter().sum::<f64>()).log2()
}

/// The sizes at λ = 40, and that all events together stay below 2^-40.
#[test]
fn strings_are_as_long_as_the_bound_asks_for() {
    fn check<H: Hint + Default>(log: u32) -> (usize, u32, Width) {
        let opprf = Opprf::<Vole, H>::default();
        let n = 1 << log;
        let (table, shape) = opprf.plan(&params(n, n), 0, bins::table).unwrap();
        let safest = (41..=46)
            .rfind(|lambda| bins::table(n, *lambda) == table)
            .unwrap();
        assert!(log_failure(&opprf, safest, &shape) <= -40.0, "{shape:?}");
        let values = Events::of_batch(&shape.oprf_params()).values;
        (shape.bins, shape.split.tag_bits, values)
    }
    assert_eq!(check::<OkvsHint>(0), (3, 43, Width::Narrow));
    assert_eq!(check::<OkvsHint>(16), (83231, 57, Width::Narrow));
    assert_eq!(check::<OkvsHint>(20), (1_331_692, 61, Width::Narrow));
    assert_eq!(check::<OkvsHint>(22), (5_326_767, 63, Width::Nine));
    for log in [0, 1, 5, 10, 16, 20, 22, 24] {
        let (_, one, _) = check::<OkvsHint>(log);
        let (_, three, _) = check::<RelaxedHint>(log);
        assert!((one + 1..=one + 2).contains(&three), "{one} {three}");
    }
}

/// Of all ways to share 2^-λ that are allowed, no other has fewer bytes: a longer tag for a narrower OPRF, or the other way
/// round, where one side is small.
#[test]
fn bits_of_a_tag_are_weighed_against_bytes_of_values() {
    let split = |n_r: usize, n_s: usize| {
        let opprf = Opprf::<Vole, OkvsHint>::default();
        let (_, shape) = opprf.plan(&params(n_r, n_s), 0, bins::table).unwrap();
        let values = Events::of_batch(&shape.oprf_params()).values;
        (shape.split.tag_bits, values)
    };
    // A bit of each tag, in the hint and in the test, is more than a byte of each value.
    assert_eq!(split(1 << 21, 1 << 21), (62, Width::Nine));
    assert_eq!(split(1 << 23, 1 << 21), (65, Width::Narrow));
    // The hint of 3·2^21 points is worth more than a byte for each of 2^8 items.
    assert_eq!(split(1 << 8, 1 << 21), (50, Width::Nine));
}

#[test]
fn limits_of_statistical_security() {
    fn most(holds: impl Fn(&Params) -> bool, n: usize) -> u32 {
        let of = |lambda: &u32| {
            holds(&Params {
                lambda: *lambda,
                ..params(n, n)
            })
        };
        (1..=120).collect::<Vec<_>>().partition_point(of) as u32
    }
    fn plans<H: Hint + Default>(params: &Params) -> bool {
        let opprf = Opprf::<Vole, H>::default();
        opprf.plan(params, 64, bins::table).is_some()
    }
    fn plans_second(params: &Params) -> bool {
        let opprf = Opprf::<Vole, TableHint>::default();
        let first = Opprf::<Ideal, RelaxedHint>::default().plan(params, 64, bins::table);
        first.is_some_and(|(_, first)| opprf.plan_second(&first, HASHES, 64).is_some())
    }
    let limits = |n| {
        [
            most(plans::<OkvsHint>, n),
            most(plans::<RelaxedHint>, n),
            most(plans_second, n),
        ]
    };
    assert_eq!(limits(1 << 16), [89, 89, 86]);
    assert_eq!(limits(1 << 20), [81, 81, 80]);
    assert_eq!(limits(1 << 26), [69, 69, 68]);
}

/// Memory grows with both sets, and is some hundred bytes per item.
#[test]
fn memory_is_linear() {
    let of = |n_r: usize, n_s: usize| {
        let params = params(n_r, n_s);
        [
            Opprf::<Vole, OkvsHint>::default().working_bytes(&plan::<OkvsHint>(&params, 64).1),
            Opprf::<Vole, RelaxedHint>::default()
                .working_bytes(&plan::<RelaxedHint>(&params, 64).1),
        ]
    };
    let n = 1 << 20;
    for ((both, ours), theirs) in of(n, n).into_iter().zip(of(n, 1)).zip(of(1, n)) {
        assert!((200..700).contains(&(both >> 20)), "{both}");
        // Shares of 2^-λ differ a little.
        assert!(ours.max(theirs) <= both + both / 100 && both <= ours + theirs);
    }
}

/// Bits on the wire are those of the function; no frame is longer than one may be; and no kind is another's.
fn sent_as_computed<H: Hint + Default>(n: usize, payload_bits: u32, kinds: &[Kind]) {
    let (ours, theirs) = sets(n, n, n / 2);
    let opprf = Opprf::<Ideal, H>::default();
    let (_, shape) = plan::<H>(&params(n, n), payload_bits);
    let (receiving, sending) = memory_pair();
    let mut sending = Recorder::new(sending);
    let sets = (&ours[..], &theirs[..]);
    let (run, _) = run_over(
        &opprf,
        &params(n, n),
        payload_bits,
        sets,
        (receiving, &mut sending),
    );
    run.unwrap().check(n / 2);
    assert!(
        sending
            .sent
            .iter()
            .all(|(kind, frame)| kinds.contains(kind) && frame.len() <= MAX_FRAME)
    );
    let bytes: usize = sending.sent.iter().map(|(_, frame)| frame.len()).sum();
    let bits = opprf.hint.bits(&shape, opprf.layouts(&shape)[0].bits());
    assert_eq!(bytes as u64, bits.div_ceil(8));
}

#[test]
fn hints_are_as_long_as_computed() {
    for n in [0, 1, 10, 3000] {
        sent_as_computed::<OkvsHint>(n, 64, &[OKVS]);
        sent_as_computed::<RelaxedHint>(n, 0, &[RELAXED]);
    }
    // Several frames.
    sent_as_computed::<OkvsHint>(40_000, 64, &[OKVS]);
    sent_as_computed::<RelaxedHint>(40_000, 64, &[RELAXED]);
}

/// Items that repeat, which no caller has, are an error and no retry.
#[test]
fn what_cannot_be_encoded_is_an_error() {
    let theirs = vec![[5; 32]; 2];
    let params = params(4, 2);
    let (table, shape) = plan::<OkvsHint>(&params, 0);
    let points = SenderBins::new(&params, table, &theirs).points;
    let mut tape = Tape::default();
    let target = |bin, point, _: usize| Target {
        tag: (bin + point) as Block,
        payload: 0,
    };
    let sent =
        Opprf::<Ideal, OkvsHint>::default().send(&mut tape, &shape, &points, &target, &mut rng(1));
    assert_eq!(limit(sent), Limit::Encoding);
    assert!(tape.0.is_empty());
    let four = ReceiverBins::new(&params, table, &[[5; 32]; 4]).map(|_| ());
    assert_eq!(limit(four), Limit::Encoding);
    // Two points with one F have no nonce.
    let twice = Points::new(vec![2; shape.bins], vec![[9; 32]; 2]);
    let shape = Shape {
        params: Params {
            sender_size: 2,
            ..shape.params
        },
        ..shape
    };
    let opprf = Opprf::<Ideal, TableHint>::default();
    let sent = opprf.send(&mut tape, &shape, &twice, &target, &mut rng(1));
    assert_eq!(limit(sent), Limit::Encoding);
    assert!(tape.0.is_empty());
}
