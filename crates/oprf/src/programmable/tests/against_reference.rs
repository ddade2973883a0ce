//! The relaxed hint against the slow version, and known answers.

use vesica_reference::opprf as reference;
use vesica_testing::{array, bytes};

use super::*;

/// A string of the reference's.
fn string_of(layout: Layout, target: Target) -> Vec<bool> {
    let bit = |block: Block| move |i| block >> i & 1 == 1;
    let tag = (0..layout.tag_bits()).map(bit(target.tag));
    let payload = (0..layout.payload_bits()).map(bit(target.payload));
    tag.chain(payload).collect()
}

/// The reference's pads of an output, as long as a string.
fn pads_of(shape: &Shape, layout: Layout, output: Output, bin: usize) -> [Vec<bool>; 3] {
    [0, 1, 2].map(|index| {
        let mut pad = reference::pad(&shape.params.session, output, bin as u64, index);
        pad.truncate(layout.bits() as usize);
        pad
    })
}

/// The three slots of each key.
fn slots_of(shape: &Shape, keys: &[Key]) -> Vec<[usize; 3]> {
    let keys: Vec<Block> = keys.iter().map(|key| crate::halves(key)[0]).collect();
    let slots = relaxed::functions(shape).bins(&keys);
    let three = |[a, b, c, _]: [u32; 4]| [a, b, c].map(|slot| slot as usize);
    slots.into_iter().map(three).collect()
}

/// Candidates in our hint are those that the reference finds there, and we find targets in the reference's.
#[test]
fn the_relaxed_hint_is_the_references() {
    let (ours, theirs) = sets(150, 200, 60);
    let params = params(150, 200);
    let (table, shape) = plan::<RelaxedHint>(&params, 70);
    let opprf = Opprf::<Ideal, RelaxedHint>::default();
    let layout = opprf.layouts(&shape)[0];
    let receiver = ReceiverBins::new(&params, table, &ours).unwrap();
    let sender = SenderBins::new(&params, table, &theirs);
    for (entry, key) in sender.table.entries().iter().zip(sender.points.keys()) {
        let item = &theirs[entry.item()];
        assert_eq!(
            *key,
            reference::key(&[6; 32], item, entry.function() as u64)
        );
    }
    let tags = opprf.random_tags(&shape, &mut rng(5));
    let target = |bin: usize, point: usize, _: usize| Target {
        tag: tags[bin],
        payload: point as Block,
    };
    let queries = &receiver.queries;
    let asked: Vec<_> = slots_of(&shape, queries.keys())
        .into_iter()
        .zip(ideal(queries.keys()).iter().copied())
        .zip(queries.at())
        .map(|((slots, output), bin)| {
            let bin = *bin as usize;
            (bin, slots, pads_of(&shape, layout, output, bin))
        })
        .collect();
    // Our hint.
    let mut tape = Tape::default();
    opprf
        .send(&mut tape, &shape, &sender.points, &target, &mut rng(1))
        .unwrap();
    let bits = reference::bits(&tape.0[0].1);
    let table: Vec<_> = bits
        .chunks_exact(layout.bits() as usize)
        .map(<[bool]>::to_vec)
        .collect();
    let strings = opprf
        .receive(&mut tape, &shape, queries, &mut rng(2))
        .unwrap();
    for (bin, slots, pads) in &asked {
        for (i, candidate) in reference::candidates(&table, *slots, pads)
            .iter()
            .enumerate()
        {
            let number = 3 * bin + i;
            let (tag, payload) = (strings.tags()[number], strings.payloads()[number]);
            assert_eq!(*candidate, string_of(layout, Target { tag, payload }));
        }
    }
    // The reference's hint.
    let outputs = ideal(sender.points.keys());
    let points: Vec<_> = slots_of(&shape, sender.points.keys())
        .into_iter()
        .zip(sender.points.bins_from(0))
        .enumerate()
        .map(|(point, (slots, bin))| reference::Point {
            slots,
            pads: pads_of(&shape, layout, outputs[point], bin),
            target: string_of(layout, target(bin, point, 0)),
        })
        .collect();
    let filler = vec![vec![true; layout.bits() as usize]; table.len()];
    let hint = reference::hint(&points, &filler).unwrap().concat();
    let mut tape = Tape([(RELAXED, reference::bytes(&hint))].into());
    let strings = opprf
        .receive(&mut tape, &shape, queries, &mut rng(2))
        .unwrap();
    let met = |bin: &usize| strings.tags()[3 * bin..3 * bin + 3].contains(&tags[*bin]);
    assert_eq!((0..shape.bins).filter(met).count(), 60);
}

/// The words of an output that is sixteen bytes.
fn words(bytes: [u8; 16]) -> Output {
    bytemuck::must_cast(bytes)
}

#[test]
fn known_answers() {
    let text = include_str!("../../../../../vectors/opprf.json");
    let vectors: serde_json::Value = serde_json::from_str(text).unwrap();
    let shape = Shape {
        params: Params {
            session: array(&vectors["session"]),
            ..params(1, 1)
        },
        bins: 3,
        payload_bits: 9,
        split: Split {
            oprf: 42,
            hint: 42,
            tag_bits: 60,
        },
    };
    let item: Item = array(&vectors["item"]);
    let keys: HashSet<Key> = SenderBins::new(&shape.params, bins::table(1, 42), &[item])
        .points
        .keys()
        .iter()
        .copied()
        .collect();
    for vector in vectors["keys"].as_array().unwrap() {
        assert!(keys.contains(&array(&vector["key"])));
    }
    let pads = pads::Pads::new(&shape, 0);
    let pad = |output: Output, bin: usize, index: usize| {
        let mut pad = [0; 4];
        pads.for_each(&[output], [(bin, index)].into_iter(), |_, pads| {
            pad = pads[0]
        });
        pad
    };
    let output = words(array(&vectors["output"]));
    for vector in vectors["pads"].as_array().unwrap() {
        let number = |name: &str| vector[name].as_u64().unwrap() as usize;
        let pad = pad(output, number("bin"), number("index"));
        assert_eq!(pad.map(u64::to_le_bytes).concat(), bytes(&vector["pad"]));
    }
    // The table: each point has its target in one of its slots.
    let value = |name: String| {
        let found = vectors["values"][&name].clone();
        array::<32>(&found)
    };
    let mut tape = Tape([(RELAXED, bytes(&vectors["slots"]))].into());
    let slots = slots::recv::<2>(&mut tape, RELAXED, 5, 69).unwrap();
    let layout = Layout::new(60, 9);
    for (bin, places) in [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 2, 4]]
        .into_iter()
        .enumerate()
    {
        let output = words(*value(format!("output {bin}")).first_chunk().unwrap());
        let mut strings = Strings::random(3, 4, layout, 0, &mut rng(1));
        for (function, place) in places.into_iter().enumerate() {
            strings.set::<2>(bin, function, &slots[place], pad(output, bin, function));
        }
        let mut target = Strings::random(1, 1, layout, 0, &mut rng(1));
        let words = value(format!("target {bin}"));
        target.set::<2>(0, 0, &[0; 2], bytemuck::must_cast(words));
        let found = (3 * bin..3 * bin + 3).filter(|i| {
            (strings.tags()[*i], strings.payloads()[*i]) == (target.tags()[0], target.payloads()[0])
        });
        assert_eq!(found.count(), 1);
    }
}
