//! The events of every protocol, summed in exact arithmetic: together they meet 2^-λ.
//!
//! What a store or a hash table promises is taken from its own tests, which sum its bound; everything else is
//! computed here from the widths that a run uses, floods of lattices included. The sums are over every protocol of the
//! registry, and everything that it reveals.

use num_bigint::BigUint;
use vesica_circuit::{ID_EVENTS, OneOfThree, Plain, Stages, Twice, Width, id_bits};
use vesica_correlations::ole::lattice::{Parameters, inner_product};
use vesica_encodings::two_choice;
use vesica_oprf::compact_dh::CompactDh;
use vesica_oprf::dh::Dh;
use vesica_oprf::kkrt::{self, Kkrt};
use vesica_oprf::oprf_dh::OprfDh;
use vesica_oprf::programmable::bins::{self, HASHES};
use vesica_oprf::programmable::{
    LEAST_SHARE, LEFT_SHARE, OkvsHint, Opprf, RelaxedHint, Shape, TableHint,
};
use vesica_oprf::sparse::{self, Bins, Message, Slices, Sparse, Store};
use vesica_oprf::vole::{self, Vole};
use vesica_plan::Registry;
use vesica_primitives::scaled::Scaled;
use vesica_primitives::security::lambda_each;
use vesica_psi::masks::width;
use vesica_psi::ole::Lattice;
use vesica_psi::{
    KeyAgreement, MAX_STRING_BYTES, Ole, Oprf, Params, Protocol, Reveal, Reveals, Security, ole,
};

/// Probabilities are whole multiples of 2^-SCALE, rounded up.
const SCALE: usize = 1200;

/// The weight that PRTY19 asks for.
const KAPPA: u64 = 128;

/// `count`·2^-`bits`.
fn chance(count: impl Into<BigUint>, bits: usize) -> BigUint {
    let scaled: BigUint = count.into() << SCALE;
    (scaled + (BigUint::from(1u8) << bits) - 1u8) >> bits
}

/// Pairs of `n` things.
fn pairs(n: u128) -> u128 {
    n * n.saturating_sub(1) / 2
}

/// That one of `evaluations` random strings of `columns` bits has fewer than 128 ones.
fn light(evaluations: u128, columns: usize) -> BigUint {
    let (mut binomial, mut sum) = (BigUint::from(1u8), BigUint::from(0u8));
    for i in 0..KAPPA {
        sum += &binomial;
        binomial = binomial * (columns as u64 - i) / (i + 1);
    }
    chance(sum * evaluations, columns)
}

/// Points at which the transforms of a polynomial over `n` points are.
fn reserved(n: u128) -> u128 {
    n.max(1).next_power_of_two() / 2
}

/// That masks of different items collide in plain PSI by `O`.
fn masks<O: Oprf>(params: &Params) -> BigUint {
    let (n_r, n_s) = (params.receiver_size as u128, params.sender_size as u128);
    chance(n_r * n_s * O::OUTPUTS_PER_ITEM as u128, width::<O>(params))
}

/// That a name by which the receiver tells a match, or that of nobody, is that of another item of the sender's: in runs with
/// several masks per item, whose masks have so many bits.
fn names(params: &Params, bits: usize) -> BigUint {
    let (n_r, n_s) = (params.receiver_size as u128, params.sender_size as u128);
    chance(n_r.min(n_s) * n_s, bits.min(128))
}

/// How many events share 2^-λ, and the probabilities of a run's events, as its protocol's module lists
/// them.
fn events(protocol: &str, params: &Params) -> (u32, Vec<BigUint>) {
    let (n_r, n_s) = (params.receiver_size as u128, params.sender_size as u128);
    let halves = |bits| chance(pairs(n_r) + n_r * n_s, bits);
    let store = |events| chance(1u8, params.lambda_each(events) as usize);
    match protocol {
        "compact-dh" | "compact-dh-sh1" | "compact-dh-sh2" => {
            let reserved = (n_r + n_s) * reserved(n_r.max(n_s));
            let hashes = halves(256) + chance(reserved, 256);
            (CompactDh::EVENTS, vec![masks::<CompactDh>(params), hashes])
        }
        "dh" => (Dh::EVENTS, vec![masks::<Dh>(params), halves(250)]),
        "oprf-dh" => (OprfDh::EVENTS, vec![masks::<OprfDh>(params), halves(250)]),
        "kkrt" => {
            let light = light(3 * n_s, kkrt::columns(params));
            let masks = masks::<Kkrt>(params);
            (
                Kkrt::EVENTS,
                vec![
                    store(Kkrt::EVENTS),
                    light,
                    masks,
                    halves(128) + names(params, width::<Kkrt>(params)),
                ],
            )
        }
        "spot-low" => {
            let columns = Slices::new(params, sparse::width(params, 1)).columns();
            let points =
                pairs(n_r) + n_r * n_s + n_r * reserved(n_r) + n_s * reserved(n_r.max(n_s));
            let points = chance(points, columns / 4);
            let masks = masks::<Sparse<Slices>>(params);
            (sparse::EVENTS, vec![light(n_s, columns), masks, points])
        }
        "spot-fast" => {
            let columns = Bins::new(params, sparse::width(params, Bins::POINTS)).columns();
            // Points of one bin, random ones included, and the sender's.
            let lambda = params.lambda_each(sparse::EVENTS);
            let bins = two_choice::Parameters::new(params.receiver_size, lambda);
            let (count, capacity) = (bins.bins as u128, bins.capacity as u128);
            let points = count * pairs(capacity) + 2 * n_s * capacity;
            let points = chance(points, columns / 4);
            let masks = masks::<Sparse<Bins>>(params);
            let store = store(sparse::EVENTS);
            (
                sparse::EVENTS,
                vec![
                    store,
                    light(2 * n_s, columns),
                    masks,
                    points + names(params, width::<Sparse<Bins>>(params)),
                ],
            )
        }
        "sparse-okvs" => {
            let columns = Store::new(params, sparse::width(params, 1)).columns();
            let masks = masks::<Sparse<Store>>(params);
            let store = store(sparse::EVENTS);
            (
                sparse::EVENTS,
                vec![store, light(n_s, columns), masks, halves(128)],
            )
        }
        "vole" => {
            let shares = vole::Events::of(params);
            let bits = shares.values.bits() as usize;
            let checks = match params.security.is_malicious() {
                true => chance(26u8, 122) + chance(1u8, 127),
                false => BigUint::from(0u8),
            };
            let masks = masks::<Vole>(params);
            let store = chance(1u8, shares.encoding as usize);
            (
                Vole::EVENTS,
                vec![store, chance(n_s, bits), masks, halves(128) + checks],
            )
        }
        "ole-lattice" | "ole-ot" | "ole-dealer" | "ole-tee" => {
            let each = ole::lambda_of_events(params.lambda);
            let mut events = vec![chance(1u8, each as usize); ole::EVENTS as usize];
            if protocol == "ole-lattice" {
                // The source's event is two: what answers show in spite of the flood, and one that decrypts to another
                // number.
                events[0] = flood(params, each) + chance(1u8, each as usize + 1);
            }
            let bits = ole::hash_bits(params.lambda, params.receiver_size, params.sender_size);
            let hashes = chance(n_r * n_s, bits as usize);
            let hashes = hashes + names(params, 128);
            (ole::EVENTS + 1, [events, vec![hashes]].concat())
        }
        other => panic!("list the events of {other} here"),
    }
}

/// The statistical distance of the answers of a run of `ole-lattice` from such that show nothing, of numbers and of hashes.
fn flood(params: &Params, lambda: u32) -> BigUint {
    let shapes = [None, Some(32)].map(|bits| Ole::<Lattice>::shape(params, bits));
    let mut bits = usize::MAX;
    for shape in shapes.into_iter().flatten() {
        let distance = Parameters::new(shape, lambda).unwrap().distance();
        let holds = |bits: &usize| distance.at_most(Scaled::power_of_two(-(*bits as i64)));
        bits = bits.min((1..=SCALE).take_while(holds).last().unwrap());
    }
    chance(1u8, bits)
}

/// A circuit's executions of an OPPRF, and the bits over which their function is computed.
type Opprfs = (Vec<Shape>, usize);

/// Of a circuit over these sizes, whose candidates come with so many bits of the sender's values.
fn opprfs(protocol: &str, params: &Params, payload_bits: u32) -> Opprfs {
    fn first<S: Stages<Vole, H>, H>(params: &Params, payload_bits: u32) -> Shape {
        let params = Params {
            lambda: params.lambda_each(S::OPPRFS),
            ..params.clone()
        };
        S::plan(&params, payload_bits, bins::table).unwrap().1
    }
    match protocol {
        "circuit-okvs" => {
            let first = first::<Plain, OkvsHint>(params, payload_bits);
            let bins = first.bins;
            (vec![first], bins)
        }
        "circuit-rb-psm1" => {
            let first = first::<OneOfThree, RelaxedHint>(params, payload_bits);
            // A bit for each candidate, which is the most.
            let bits = HASHES * first.bins;
            (vec![first], bits)
        }
        "circuit-rb-psm2" => {
            let first = first::<Twice, RelaxedHint>(params, payload_bits);
            let bins = first.bins;
            let opprf = Opprf::<Vole, TableHint>::default();
            let second = opprf.plan_second(&first, HASHES, payload_bits);
            (vec![first, second.unwrap()], bins)
        }
        other => panic!("list the events of {other} here"),
    }
}

/// The events of one execution of an OPPRF; the first of a circuit puts `items` items into its bins.
fn of_opprf(protocol: &str, shape: &Shape, items: Option<usize>) -> Vec<BigUint> {
    let (queries, points) = (
        shape.params.receiver_size as u128,
        shape.params.sender_size as u128,
    );
    // The table is that of the smallest share with which it has as many bins.
    let placing = items.map(|items| {
        let lambda = shape.params.lambda;
        let mut shares = (1..=LEAST_SHARE).rev().map(|share| lambda + share);
        let fits = |lambda: &u32| bins::table(items, *lambda).bins == shape.bins;
        chance(1u8, shares.find(fits).unwrap() as usize)
    });
    // Of the OPRF: its OKVS, keys with equal halves, and values that are right by accident.
    let oprf = Params {
        lambda: shape.split.oprf,
        ..shape.params.clone()
    };
    let shares = vole::Events::of_batch(&oprf);
    let bits = shares.values.bits() as usize;
    let halves = |own: u128, others: u128| chance(pairs(own) + own * others, 128);
    let oprf =
        chance(points, bits) + chance(1u8, shares.encoding as usize) + halves(queries, points);
    let (hint, candidates) = match (protocol, items) {
        ("circuit-okvs", _) => {
            let okvs = chance(1u8, shape.split.hint as usize + 1);
            (okvs + halves(points, 0), 1)
        }
        // Every bin of a table has a nonce in each part.
        (_, None) => {
            let parts = u128::from((128 + shape.payload_bits).div_ceil(256));
            (chance(shape.bins as u128 * parts, 173), 1)
        }
        _ => (chance(1u8, shape.split.hint as usize), HASHES),
    };
    let candidates = (candidates * shape.bins) as u128;
    let tags = chance(candidates, shape.split.tag_bits as usize);
    [oprf, hint, tags].into_iter().chain(placing).collect()
}

/// The events of what is computed over so many shared bits, each run having λ bits.
fn of_function(
    reveal: Reveal,
    ([of_table, of_other], bits): ([usize; 2], usize),
    lambda: u32,
) -> BigUint {
    match reveal {
        // Products of COTs are always right, and show nothing.
        Reveal::Size | Reveal::Sum | Reveal::ThresholdMatches | Reveal::Shares => {
            BigUint::from(0u8)
        }
        // One answer of homomorphic encryption, for which errors are at most 21, q above 2^211, and the flood is uniform on
        // 2^127 numbers.
        Reveal::InnerProduct if inner_product::reaches(bits, lambda) => {
            let entries = bits.next_multiple_of(8192) as u128;
            // n·43/2·2^63·2^(192 − 211) and a little, of 2^127.
            chance(entries * 43 + 1, 84)
        }
        Reveal::InnerProduct => BigUint::from(0u8),
        // A slot for each item of the party that hashes, and what its tag is by accident.
        Reveal::Union => {
            let tag = Width::new(1, of_table, lambda + LEFT_SHARE).tag;
            chance(of_table as u128, 8 * tag)
        }
        // Tags as those of a union, with a share of what is left; and so have ids and two OPRFs.
        Reveal::Ids => {
            let each = lambda_each(lambda + LEFT_SHARE, ID_EVENTS);
            let tag = Width::new(1, of_table, each).tag;
            let ids = id_bits(each, of_table + of_other);
            let oprf = |receiver_size, sender_size| -> BigUint {
                let params = Params {
                    security: Security::SemiHonest,
                    lambda: each,
                    receiver_size,
                    sender_size,
                    key_agreement: KeyAgreement::default(),
                    session: [0; 32],
                };
                events("vole", &params).1.into_iter().sum()
            };
            chance(of_table as u128, 8 * tag)
                + chance(pairs((of_table + of_other) as u128), ids as usize)
                + oprf(of_table, of_other)
                + oprf(of_other, of_table)
        }
        other => panic!("list the events of {other} here"),
    }
}

/// Bits of the sender's values and strings that come with a candidate: none; one value and eight, alone and with a bit each
/// under a minimum; and eight with the longest string.
const PAYLOADS: [u32; 6] = [
    0,
    64,
    65,
    8 * 64,
    8 * 65,
    8 * (64 + MAX_STRING_BYTES as u32),
];

/// The events of every run of a circuit with these sizes: whatever it reveals, and whatever comes with its candidates.
fn circuits(protocol: &dyn Protocol, params: &Params) -> Vec<Vec<BigUint>> {
    let name = protocol.spec().name;
    let sizes = [params.sender_size, params.receiver_size].map(|size| size as u64);
    let most = protocol.max_lambda(Reveal::Ids.into(), sizes, None);
    let has_ids = most.is_none_or(|most| params.lambda <= most);
    let each = PAYLOADS.map(|payload_bits| {
        let (shapes, bits) = opprfs(name, params, payload_bits);
        let items = [Some(params.receiver_size), None];
        let opprfs = shapes.iter().zip(items);
        let opprfs = opprfs.flat_map(|(shape, items)| of_opprf(name, shape, items));
        let opprfs: Vec<_> = opprfs.collect();
        let of = |reveals: Reveals| {
            let lambda = shapes[0].params.lambda;
            let function = reveals.each().iter();
            let sizes = ([params.receiver_size, params.sender_size], bits);
            let function = function.map(|reveal| of_function(*reveal, sizes, lambda));
            opprfs.iter().cloned().chain(function).collect()
        };
        let reveals = Reveals::all().filter(|reveals| protocol.can_reveal(*reveals));
        let reveals = reveals.filter(|reveals| !reveals.is_ids() || has_ids);
        reveals.map(of).collect::<Vec<Vec<BigUint>>>()
    });
    each.concat()
}

/// The events of every run of a protocol with these sizes.
fn runs(protocol: &dyn Protocol, params: &Params) -> Vec<Vec<BigUint>> {
    let name = protocol.spec().name;
    if name.starts_with("circuit-") {
        return circuits(protocol, params);
    }
    assert_eq!(
        protocol.reveals(),
        [Reveal::Matches],
        "list what {name} does"
    );
    let (count, events) = events(name, params);
    assert!(events.len() as u32 <= count);
    vec![events]
}

/// How many runs there were.
fn check(protocol: &dyn Protocol, params: &Params) -> usize {
    let runs = runs(protocol, params);
    for events in &runs {
        let sum: BigUint = events.iter().sum();
        let promised = chance(1u8, params.lambda as usize);
        assert!(
            sum <= promised,
            "{} {params:?}: {} thousandths of 2^-λ",
            protocol.spec().name,
            sum * 1000u32 / promised,
        );
    }
    runs.len()
}

#[test]
fn the_events_of_every_protocol_meet_lambda_together() {
    let sizes: Vec<u64> = (0..5)
        .chain([10, 41, 300, 410, 1000])
        .chain((10..=28).step_by(6).map(|log| 1 << log))
        .chain([
            (1 << 20) + 1,
            (1 << 22) + 1,
            3 << 22,
            (3 << 22) + 1,
            1 << 26,
        ])
        .collect();
    for protocol in Registry::standard().all() {
        let spec = protocol.spec();
        let pairs = sizes
            .iter()
            .flat_map(|n| sizes.iter().map(move |m| (*n, *m)));
        let mut runs = 0;
        for (n_r, n_s) in pairs.filter(|(n, m)| n.max(m) <= &spec.max_items) {
            let most = (spec.max_lambda)(n_r, n_s);
            // 50 and 57 are as much as the floods of long inner products and of short ones allow.
            let of_ids = protocol.max_lambda(Reveal::Ids.into(), [n_s, n_r], None);
            let lambdas = [40, 50, 57, 64].into_iter().chain(most).chain(of_ids);
            for lambda in lambdas.filter(|lambda| most.is_none_or(|most| *lambda <= most)) {
                for security in spec.forms() {
                    let params = Params {
                        security,
                        lambda,
                        receiver_size: n_r as usize,
                        sender_size: n_s as usize,
                        key_agreement: KeyAgreement::default(),
                        session: [0; 32],
                    };
                    runs += check(*protocol, &params);
                }
            }
        }
        assert!(runs > 200, "{}: {runs}", spec.name);
    }
}

/// λ = 64 is possible at every size that a protocol takes, of numbers if it compares those as they are.
#[test]
fn sixty_four_bits_are_possible_everywhere() {
    for protocol in Registry::standard().all() {
        let protocol = protocol.spec();
        let most = protocol.max_items;
        for (n_r, n_s) in [
            (0, 0),
            (0, most),
            (most, 0),
            (1, most),
            (most, 1),
            (most, most),
            (200, 250),
            (3000, 3000),
            (1 << 12, 1 << 12),
            (1 << 16, 1 << 16),
        ] {
            // Of 40 bits: three bins are too few for longer ones.
            let lambda = protocol.max_lambda_of([n_r, n_s], Some(40));
            assert!(
                lambda.is_none_or(|l| l >= 64),
                "{protocol:?} {n_r} {n_s}: {lambda:?}"
            );
        }
    }
    let vole = Registry::standard().get("vole").unwrap().spec();
    assert!((vole.max_lambda)(u64::MAX, u64::MAX) == Some(0));
}

/// λ + ⌈log₂ n_s·n_r⌉ bits, and one or two for the events beside the masks.
#[test]
fn masks_take_their_share() {
    fn masks<O: Oprf>() -> usize {
        width::<O>(&Params {
            security: Security::SemiHonest,
            lambda: 40,
            receiver_size: 1 << 20,
            sender_size: 1 << 20,
            key_agreement: KeyAgreement::default(),
            session: [0; 32],
        })
    }
    assert_eq!(masks::<CompactDh>(), 81);
    assert_eq!(masks::<Dh>(), 81);
    assert_eq!(masks::<Vole>(), 82);
    assert_eq!(masks::<Sparse<Store>>(), 82);
    assert_eq!(masks::<Sparse<Bins>>(), 83);
    assert_eq!(masks::<Kkrt>(), 84);
}
