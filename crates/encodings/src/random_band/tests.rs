use std::collections::HashSet;

use super::*;
use proptest::prelude::*;

/// Keys and values that look random.
fn random_map<const W: usize>(seed: Block, count: usize) -> (Vec<Block>, Vec<[u64; W]>) {
    let mut keys = vec![0; count];
    Prg::new(seed).fill(&mut keys);
    (keys, random(seed + 1, count))
}

fn decoded<const W: usize>(
    store: &RandomBand,
    encoding: &[[u64; W]],
    keys: &[Block],
) -> Vec<[u64; W]> {
    let mut out = vec![[0; W]; keys.len()];
    store.decode(encoding, keys, &mut out);
    out
}

/// Encodes on both backends, and decodes what was encoded and other keys.
fn round_trip<const W: usize>(items: usize, count: usize, lambda: u32) {
    let (keys, values) = random_map::<W>(items as u128 * 10, count);
    let others = random_map::<W>(1 << 100, 100).0;
    let [best, portable] = [Backend::Best, Backend::Portable].map(|backend| {
        let store = RandomBand::new(items, lambda, &[5; 32]).with_backend(backend);
        let encoding = store.encode(&keys, &values, &mut Prg::new(9)).unwrap();
        assert_eq!(encoding.len(), store.size());
        assert_eq!(decoded(&store, &encoding, &keys), values);
        let others = decoded(&store, &encoding, &others);
        (encoding, others)
    });
    assert_eq!(best, portable);
    // Values of other keys are uniform: six standard deviations.
    let ones: u32 = best.1.iter().flatten().map(|word| word.count_ones()).sum();
    let bits = 100.0 * 64.0 * W as f64;
    assert!((f64::from(ones) - bits / 2.0).abs() < 3.0 * bits.sqrt());
}

#[test]
fn small_maps_are_encoded() {
    for items in 0..300 {
        round_trip::<1>(items, items, 40);
    }
}

#[test]
fn every_width_is_encoded() {
    for items in [0, 1, 2, 63, 64, 300, 408, 409, 500, 1000, 3000] {
        round_trip::<1>(items, items, 40);
        round_trip::<2>(items, items, 64);
        round_trip::<4>(items, items / 2, 128);
        round_trip::<8>(items, items, 40);
    }
}

/// Several jobs and bins: the shape of many keys, at a size that a test can afford.
#[test]
fn bins_are_encoded_and_decoded() {
    let parameters = Parameters {
        items: 4000,
        bins: 5,
        columns: 1200,
        width: 448,
    };
    let store = RandomBand::with_parameters(parameters, &[1; 32]);
    let (keys, values) = random_map::<2>(1, 4000);
    let encoding = store.encode(&keys, &values, &mut Prg::new(2)).unwrap();
    assert_eq!(encoding.len(), 6000);
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .unwrap();
    assert_eq!(pool.install(|| decoded(&store, &encoding, &keys)), values);
    assert_eq!(decoded(&store, &encoding, &keys[..7]), values[..7]);
    let again = store.encode(&keys, &values, &mut Prg::new(2)).unwrap();
    assert_eq!(encoding, again);
    let other = store.encode(&keys, &values, &mut Prg::new(3)).unwrap();
    assert_ne!(encoding, other);
    // A bin that gets more keys than columns.
    let small = Parameters {
        columns: 790,
        ..parameters
    };
    let store = RandomBand::with_parameters(small, &[1; 32]);
    let result = store.encode(&keys, &values, &mut Prg::new(2));
    assert_eq!(result, Err(EncodingFailed));
}

/// A store of one system that is cut in the middle.
fn cut_store(columns: usize, width: usize) -> RandomBand {
    let parameters = Parameters {
        items: columns,
        bins: 1,
        columns,
        width,
    };
    RandomBand::with_parameters(parameters, &[1; 32])
}

/// From the fewest columns of a system that is cut, full and nearly empty, on one thread and on two.
#[test]
fn both_ends_of_a_system_make_one_encoding() {
    let sizes = [4033, 4095, 4096, 4097, 4160, 4211, 12_345];
    for (columns, width) in sizes.into_iter().flat_map(|c| [(c, 448), (c, 100)]) {
        let store = cut_store(columns, width);
        let full = if width == 448 {
            columns - columns / 16
        } else {
            columns / 3
        };
        for count in [0, 3, columns / 2, full] {
            let (keys, values) = random_map::<2>(columns as u128, count);
            let [one, two] = [1, 2].map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let encode = || store.encode(&keys, &values, &mut Prg::new(2)).unwrap();
                pool.build().unwrap().install(encode)
            });
            assert_eq!(one, two);
            assert_eq!(decoded(&store, &one, &keys), values);
            // Free slots of both halves are random too.
            let different: HashSet<u64> = one.iter().flatten().copied().collect();
            assert_eq!(different.len(), 2 * columns);
            assert!(!different.contains(&0));
        }
    }
}

/// So many keys whose bands start in these words, everywhere equally many.
fn starting_in(store: &RandomBand, words: Range<usize>, count: usize) -> Vec<Block> {
    let keys = random_map::<1>(2, 40_000).0;
    let arrangement = store.arrange(&keys, |key| *key);
    let numbers = &arrangement.numbers()[arrangement.places(words)];
    assert!(numbers.len() >= count);
    let spread = (0..count).map(|i| numbers[i * numbers.len() / count]);
    spread.map(|number| keys[number as usize]).collect()
}

/// The cut is at word 64 of 128.
#[test]
fn equations_that_the_first_half_has_no_room_for_are_the_seconds() {
    let store = cut_store(1 << 13, 448);
    let values = random::<1>(1, 1 << 13);
    let encode = |keys: &[Block]| store.encode(keys, &values[..keys.len()], &mut Prg::new(2));
    let keys = starting_in(&store, 0..64, 64 * WORD + 200);
    let encoding = encode(&keys).unwrap();
    assert_eq!(decoded(&store, &encoding, &keys), values[..keys.len()]);
    // Seven words before the cut and 447 columns behind it: with one equation more than columns, these are dependent
    // only in the second half.
    let keys = |count| starting_in(&store, 57..64, count);
    assert_eq!(encode(&keys(7 * WORD + 448)), Err(EncodingFailed));
    assert!(encode(&keys(7 * WORD + 400)).is_ok());
}

#[test]
fn both_ends_refuse_what_is_dependent() {
    let store = cut_store(1 << 13, 448);
    let (keys, values) = random_map::<1>(1, 7000);
    let arrangement = store.arrange(&keys, |key| *key);
    let (ordered, cut) = (arrangement.numbers(), arrangement.begin(64));
    for place in [0, cut - 100, cut - 1, cut, cut + 100, 6999] {
        let mut keys = keys.clone();
        keys.push(keys[ordered[place] as usize]);
        let values = [&values[..], &[[1]]].concat();
        let result = store.encode(&keys, &values, &mut Prg::new(2));
        assert_eq!(result, Err(EncodingFailed), "{place}");
    }
    // More keys than there are columns for them, in either half.
    for (words, columns) in [(0..64, 64 * WORD + 447), (64..128, 64 * WORD)] {
        let keys = starting_in(&store, words, columns + 1);
        let values = random::<1>(1, keys.len());
        let result = store.encode(&keys, &values, &mut Prg::new(2));
        assert_eq!(result, Err(EncodingFailed));
    }
}

/// Reads an encoding in pieces of up to `read` slots and decodes it in pieces of up to `written` slots.
fn in_pieces<const W: usize>(
    parameters: Parameters,
    count: usize,
    (read, written): (usize, usize),
) {
    let store = RandomBand::with_parameters(parameters, &[1; 32]);
    let (keys, values) = random_map::<W>(1, count);
    let encoding = store.encode(&keys, &values, &mut Prg::new(2)).unwrap();
    let arrangement = store.arrange(&keys, |key| *key);
    let mut encoder = store
        .encoder(
            &arrangement,
            |places, to| arrangement.gather(places, &keys, to, |key| *key),
            |places, to| arrangement.gather(places, &values, to, |value| *value),
            &mut Prg::new(2),
        )
        .unwrap();
    let mut pieces = vec![[0; W]; store.size()];
    for piece in pieces.chunks_mut(read) {
        encoder.read(piece).unwrap();
    }
    assert_eq!(pieces, encoding);
    // Other keys too, of which some bins have none.
    let keys = [&keys[..count / 2], &random_map::<W>(1 << 99, 3).0].concat();
    let expected = decoded(&store, &encoding, &keys);
    let arrangement = store.arrange(&keys, |key| *key);
    let mut arranged = vec![0; keys.len()];
    arrangement.gather(0..keys.len(), &keys, &mut arranged, |key| *key);
    let mut decoder = store.decoder(&arrangement, &arranged);
    let mut found = Vec::new();
    for piece in encoding.chunks(written) {
        decoder.write(piece, |places, values| {
            assert_eq!(places, found.len()..found.len() + values.len());
            found.extend_from_slice(values);
        });
    }
    assert_eq!(found.len(), keys.len());
    for (number, value) in arrangement.numbers().iter().zip(&found) {
        assert_eq!(*value, expected[*number as usize]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn encodings_come_and_go_in_pieces(
        count in 0usize..4000,
        pieces in (1usize..3000, 1usize..3000),
        threads in 1usize..4,
    ) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let five = Parameters { items: 4000, bins: 5, columns: 1200, width: 448 };
        pool.install(|| {
            in_pieces::<1>(five, count, pieces);
            in_pieces::<3>(Parameters::new(count, 40), count, pieces);
        });
    }
}

/// A band that ends with the last slot of a bin waits for that slot, and others for no more than their eight words.
#[test]
fn keys_are_decoded_as_soon_as_their_slots_are_there() {
    let parameters = Parameters {
        items: 4000,
        bins: 2,
        columns: 3000,
        width: 448,
    };
    let store = RandomBand::with_parameters(parameters, &[1; 32]);
    let (keys, values) = random_map::<1>(1, 4000);
    let encoding = store.encode(&keys, &values, &mut Prg::new(2)).unwrap();
    let arrangement = store.arrange(&keys, |key| *key);
    let mut arranged = vec![0; keys.len()];
    arrangement.gather(0..keys.len(), &keys, &mut arranged, |key| *key);
    let mut decoder = store.decoder(&arrangement, &arranged);
    let (mut end, mut arrived) = (0, 0);
    for piece in encoding.chunks(100) {
        arrived += piece.len();
        decoder.write(piece, |places, _| end = places.end);
        let (bin, slots) = (arrived / 3000, arrived % 3000);
        let words = bin * store.words() + (slots / WORD).saturating_sub(7);
        assert_eq!(end, arrangement.begin(words), "{arrived} slots");
    }
}

#[test]
fn many_keys_are_encoded() {
    let (keys, values) = random_map::<2>(1, 1 << 16);
    let store = RandomBand::new(1 << 16, 40, &[1; 32]);
    let encoding = store.encode(&keys, &values, &mut Prg::new(2)).unwrap();
    assert_eq!(encoding.len(), 68_646);
    assert!(decoded(&store, &encoding, &keys) == values);
}

#[test]
fn repeated_keys_are_refused() {
    for items in [2, 50, 1000] {
        let (mut keys, values) = random_map::<1>(3, items);
        keys[items - 1] = keys[items / 2 - 1];
        let store = RandomBand::new(items, 40, &[1; 32]);
        let result = store.encode(&keys, &values, &mut Prg::new(2));
        assert_eq!(result, Err(EncodingFailed));
    }
}

/// χ² over bytes of many encodings, all slots together and each slot alone (sampled): 255 degrees of
/// freedom, deviation √510; seven of them allowed.
#[test]
fn encodings_of_random_values_are_uniform() {
    let deviations = |bytes| (vesica_testing::chi_squared(bytes) - 255.0) / 510f64.sqrt();
    // One key in a store for 20, so that most slots are free; full stores; and such as are solved from both ends.
    for (items, count) in [(20, 1), (20, 20), (700, 700), (4200, 3), (4200, 4200)] {
        let store = RandomBand::new(items, 40, &[1; 32]);
        let keys = random_map::<1>(7, count).0;
        let encodings: Vec<Vec<[u64; 1]>> = (0..400)
            .map(|i| {
                let values = random(1000 + i, count);
                store
                    .encode(&keys, &values, &mut Prg::new(5000 + i))
                    .unwrap()
            })
            .collect();
        let bytes = |slots: &[[u64; 1]]| -> Vec<u8> {
            slots
                .iter()
                .flat_map(|slot| slot[0].to_le_bytes())
                .collect()
        };
        assert!(deviations(bytes(&encodings.concat())).abs() < 7.0);
        for slot in [0, 1, store.size() / 2, store.size() - 1] {
            let slots: Vec<[u64; 1]> = encodings.iter().map(|e| e[slot]).collect();
            assert!(deviations(bytes(&slots)).abs() < 7.0, "slot {slot}");
        }
    }
}

/// How many of `runs` encodings of random keys fail.
fn failed(parameters: Parameters, runs: u32) -> u32 {
    let store = RandomBand::with_parameters(parameters, &[2; 32]);
    let values = vec![[0]; parameters.items];
    (0..runs)
        .filter(|run| {
            let keys = random_map::<1>(Block::from(*run), parameters.items).0;
            store.encode(&keys, &values, &mut Prg::new(0)).is_err()
        })
        .count() as u32
}

/// At λ = 8 at most 1 in 256 fails; and a few columns fewer fail often, so this would notice.
#[test]
fn failures_are_as_rare_as_promised() {
    for items in [300, 439, 600] {
        let parameters = Parameters::new(items, 8);
        assert!(failed(parameters, 400) <= 7, "{items} keys");
        let columns = items + 1;
        let tight = Parameters {
            columns,
            width: columns.min(448),
            ..parameters
        };
        assert!(failed(tight, 100) > 20, "{items} keys");
    }
}
