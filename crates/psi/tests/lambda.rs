//! The events of every protocol, summed in exact arithmetic: together they meet 2^-λ.
//!
//! What a store or a hash table promises is taken from its own tests, which sum its bound; everything else is
//! computed here from the widths that a run uses.

use num_bigint::BigUint;
use vesica_encodings::two_choice;
use vesica_oprf::sparse::{self, Bins, BitFunction, Message, Slices, Store};
use vesica_oprf::{kkrt, vole};
use vesica_psi::masks::width;
use vesica_psi::{Params, Protocol, Security};

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

/// The probabilities of a run's events, as its protocol's module lists them.
fn events(params: &Params) -> Vec<BigUint> {
    let (n_r, n_s) = (params.receiver_size as u128, params.sender_size as u128);
    let sent = n_s * params.protocol.masks_an_item() as u128;
    let masks = chance(n_r * sent, width(params));
    let store = chance(1u8, params.lambda_each() as usize);
    let halves = |bits| chance(pairs(n_r) + n_r * n_s, bits);
    let sparse = sparse::Params {
        lambda: params.lambda,
        receiver_size: params.receiver_size,
        sender_size: params.sender_size,
        session: params.session,
        function: BitFunction::Aes,
    };
    match params.protocol {
        Protocol::CompactDh | Protocol::CompactDhSh1 | Protocol::CompactDhSh2 => {
            let reserved = (n_r + n_s) * reserved(n_r.max(n_s));
            vec![masks, halves(256) + chance(reserved, 256)]
        }
        Protocol::Dh => vec![masks, halves(250)],
        Protocol::Kkrt => {
            let kkrt = kkrt::Params {
                lambda: params.lambda,
                receiver_size: params.receiver_size,
                sender_size: params.sender_size,
                session: params.session,
            };
            vec![store, light(sent, kkrt.columns()), masks, halves(128)]
        }
        Protocol::SpotLow => {
            let columns = Slices::new(&sparse, sparse.width(Slices::POINTS)).columns();
            let points =
                pairs(n_r) + n_r * n_s + n_r * reserved(n_r) + n_s * reserved(n_r.max(n_s));
            let points = chance(points, columns / 4);
            vec![light(sent, columns), masks, points]
        }
        Protocol::SpotFast => {
            let columns = Bins::new(&sparse, sparse.width(Bins::POINTS)).columns();
            // Points of one bin, random ones included, and the sender's.
            let bins = two_choice::Parameters::new(params.receiver_size, params.lambda_each());
            let (count, capacity) = (bins.bins as u128, bins.capacity as u128);
            let points = chance(count * pairs(capacity) + sent * capacity, columns / 4);
            vec![store, light(sent, columns), masks, points]
        }
        Protocol::SparseOkvs => {
            let store_of_rows: Store = Store::new(&sparse, sparse.width(1));
            let columns = store_of_rows.columns();
            vec![store, light(sent, columns), masks, halves(128)]
        }
        Protocol::Vole => {
            let vole = vole::Params {
                security: params.security,
                lambda: params.lambda,
                receiver_size: params.receiver_size,
                sender_size: params.sender_size,
                session: params.session,
            };
            let values = chance(n_s, if vole.narrow() { 64 } else { 128 });
            let checks = match params.security {
                Security::Malicious => chance(26u8, 122) + chance(1u8, 127),
                Security::SemiHonest => BigUint::from(0u8),
            };
            vec![store, values, masks, halves(128) + checks]
        }
    }
}

fn check(params: &Params) {
    let events = events(params);
    assert!(events.len() as u32 <= params.protocol.events());
    let sum: BigUint = events.iter().sum();
    let promised = chance(1u8, params.lambda as usize);
    assert!(
        sum <= promised,
        "{params:?}: 2^{}",
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
    for protocol in Protocol::ALL {
        let mut securities = vec![protocol.runs(Security::SemiHonest), protocol.security()];
        securities.dedup();
        for (n_r, n_s) in sizes
            .iter()
            .flat_map(|n| sizes.iter().map(move |m| (*n, *m)))
        {
            if n_r.max(n_s) > protocol.max_items() {
                continue;
            }
            let most = protocol.max_lambda(n_r, n_s);
            for lambda in [40, 64].into_iter().chain(most) {
                if most.is_some_and(|most| lambda > most) {
                    continue;
                }
                for security in &securities {
                    runs += 1;
                    check(&Params {
                        protocol,
                        security: *security,
                        both: false,
                        lambda,
                        receiver_size: n_r as usize,
                        sender_size: n_s as usize,
                        session: [0; 32],
                    });
                }
            }
        }
    }
    assert!(runs > 4000, "{runs}");
}

/// λ = 64 is possible at every size that a protocol takes.
#[test]
fn sixty_four_bits_are_possible_everywhere() {
    for protocol in Protocol::ALL {
        let most = protocol.max_items();
        for (n_r, n_s) in [
            (0, 0),
            (0, most),
            (most, 0),
            (1, most),
            (most, 1),
            (most, most),
        ] {
            let lambda = protocol.max_lambda(n_r, n_s);
            assert!(
                lambda.is_none_or(|l| l >= 64),
                "{protocol:?} {n_r} {n_s}: {lambda:?}"
            );
        }
    }
    assert!(Protocol::Vole.max_lambda(u64::MAX, u64::MAX) == Some(0));
}

/// λ + ⌈log₂ n_s·n_r⌉ bits, and one or two for the events beside the masks.
#[test]
fn masks_take_their_share() {
    let masks = |protocol: Protocol| {
        width(&Params {
            protocol,
            security: Security::SemiHonest,
            both: false,
            lambda: 40,
            receiver_size: 1 << 20,
            sender_size: 1 << 20,
            session: [0; 32],
        })
    };
    assert_eq!(masks(Protocol::CompactDhSh1), 81);
    assert_eq!(masks(Protocol::Dh), 81);
    assert_eq!(masks(Protocol::Vole), 82);
    assert_eq!(masks(Protocol::SparseOkvs), 82);
    assert_eq!(masks(Protocol::SpotFast), 83);
    assert_eq!(masks(Protocol::Kkrt), 84);
}
