//! The events of every protocol, summed in exact arithmetic: together they meet 2^-λ.
//!
//! What a store or a hash table promises is taken from its own tests, which sum its bound; everything else is
//! computed here from the widths that a run uses.

use num_bigint::BigUint;
use vesica_encodings::two_choice;
use vesica_oprf::compact_dh::CompactDh;
use vesica_oprf::dh::Dh;
use vesica_oprf::kkrt::{self, Kkrt};
use vesica_oprf::oprf_dh::OprfDh;
use vesica_oprf::sparse::{self, Bins, Message, Slices, Sparse, Store};
use vesica_oprf::vole::{self, Vole};
use vesica_plan::Registry;
use vesica_psi::masks::width;
use vesica_psi::{Oprf, Params, Reveal, Security, ole};

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
            let bits = if vole::Events::of(params).is_narrow {
                64
            } else {
                128
            };
            let checks = match params.security.is_malicious() {
                true => chance(26u8, 122) + chance(1u8, 127),
                false => BigUint::from(0u8),
            };
            let masks = masks::<Vole>(params);
            let store = store(Vole::EVENTS);
            (
                Vole::EVENTS,
                vec![store, chance(n_s, bits), masks, halves(128) + checks],
            )
        }
        "ole-lattice" | "ole-ot" | "ole-dealer" | "ole-tee" => {
            let event = chance(1u8, ole::lambda_of_events(params.lambda) as usize);
            let events = vec![event; ole::EVENTS as usize];
            let bits = ole::hash_bits(params.lambda, params.receiver_size, params.sender_size);
            let hashes = chance(n_r * n_s, bits as usize);
            let hashes = hashes + names(params, 128);
            (ole::EVENTS + 1, [events, vec![hashes]].concat())
        }
        other => panic!("list the events of {other} here"),
    }
}

fn check(protocol: &str, params: &Params) {
    let (count, events) = events(protocol, params);
    assert!(events.len() as u32 <= count);
    let sum: BigUint = events.iter().sum();
    let promised = chance(1u8, params.lambda as usize);
    assert!(
        sum <= promised,
        "{protocol} {params:?}: 2^{}",
        sum.bits() as i64 - SCALE as i64
    );
}

#[test]
fn the_events_of_every_protocol_meet_lambda_together() {
    let sizes: Vec<u64> = (0..5)
        .chain([10, 41, 300, 410, 1000])
        .chain((10..=28).step_by(6).map(|log| 1 << log))
        .chain([(1 << 20) + 1, (1 << 22) + 1, 1 << 26])
        .collect();
    let mut runs = 0;
    for protocol in Registry::standard().revealing(Reveal::Matches) {
        let protocol = protocol.spec();
        let securities: Vec<Security> = protocol.forms().collect();
        for (n_r, n_s) in sizes
            .iter()
            .flat_map(|n| sizes.iter().map(move |m| (*n, *m)))
        {
            if n_r.max(n_s) > protocol.max_items {
                continue;
            }
            let most = (protocol.max_lambda)(n_r, n_s);
            for lambda in [40, 64].into_iter().chain(most) {
                if most.is_some_and(|most| lambda > most) {
                    continue;
                }
                for security in &securities {
                    runs += 1;
                    let params = Params {
                        security: *security,
                        lambda,
                        receiver_size: n_r as usize,
                        sender_size: n_s as usize,
                        session: [0; 32],
                    };
                    check(protocol.name, &params);
                }
            }
        }
    }
    assert!(runs > 4000, "{runs}");
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
