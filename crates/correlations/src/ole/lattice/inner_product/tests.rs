use super::*;
use num_bigint::{BigInt, BigUint, Sign};
use vesica_testing::{Tape, honest, misbehaviour, rng};
use vesica_wire::{Kind, Misbehaviour};

const SESSION: [u8; 32] = [7; 32];

/// Vectors with extremes among their entries.
fn vector(seed: Block, count: usize) -> Vec<u64> {
    let mut prg = Prg::new(seed);
    let extremes = [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1];
    let entry = |i: usize| match extremes.get((i + seed as usize) % 11) {
        Some(extreme) => *extreme,
        None => prg.next_block() as u64,
    };
    (0..count).map(entry).collect()
}

fn plain(a: &[u64], b: &[u64]) -> u64 {
    let products = a.iter().zip(b).map(|(a, b)| a.wrapping_mul(*b));
    products.fold(0, u64::wrapping_add)
}

fn product(a: &[u64], b: &[u64]) -> u64 {
    let (ours, theirs) = honest(
        |channel| hold(channel, &SESSION, a, &mut rng(1)),
        |channel| help(channel, &SESSION, b, &mut rng(2)),
    );
    ours.wrapping_add(theirs)
}

#[test]
fn shares_add_up_to_the_product() {
    let length = parameters().length;
    for count in [
        0,
        1,
        2,
        100,
        length - 1,
        length,
        length + 1,
        (BATCH + 1) * length + 5,
    ] {
        let (a, b) = (vector(1, count), vector(2, count));
        assert_eq!(product(&a, &b), plain(&a, &b), "{count}");
    }
    // The largest sums of either sign, and the noise with them.
    for entry in [u64::MAX, 1 << 63, (1 << 63) - 1] {
        let all = vec![entry; length];
        assert_eq!(product(&all, &all), plain(&all, &all));
    }
}

/// q, and a fraction of it as a signed number of units of 2^-192·q.
fn modulus() -> BigUint {
    let primes = parameters().primes;
    primes.iter().fold(BigUint::from(1u8), |q, p| q * p.get())
}

fn signed(fraction: &Fraction) -> BigInt {
    let limbs = fraction.iter().rev();
    let number = limbs.fold(BigUint::ZERO, |sum, limb| (sum << 64) + *limb);
    match fraction[LIMBS - 1] >> 63 {
        0 => BigInt::from(number),
        _ => BigInt::from(number) - (BigInt::from(1) << 192),
    }
}

/// The bound of the module, in units of 2^-192·q, with all that is lost in fractions.
fn bound(entries: u64) -> BigUint {
    let length = parameters().length as u64;
    let in_q = ((BigUint::from(entries) * 43u8) << 62) + length * 21 * 22;
    let lost = (8u64 << 27) + 1;
    (in_q << 192) / modulus() + lost + 1u8
}

#[test]
fn constants_are_what_the_bound_gives() {
    assert!(modulus() > BigUint::from(1u8) << 211);
    for log in [13, 20, 29] {
        let entries = 1u64 << log;
        assert!(bound(entries) < BigUint::from(entries) << 49);
        // 2^126 and the noise are less than half of a unit of the message.
        let whole = (BigUint::from(1u8) << (FLOOD - 1)) + bound(entries);
        assert!(whole < BigUint::from(1u8) << 127);
    }
    assert_eq!(FLOOD - 49, DISTANCE);
    assert!(reaches(1 << 20, 40) && reaches(1 << 28, 40) && reaches(1 << 20, 50));
    assert!(!reaches(1 << 20, 51) && !reaches(1 << 20, 64));
}

/// Noise of the sum, before the flood and after it, for vectors of the largest numbers.
#[test]
fn noise_is_small_and_floods_fill_their_range() {
    let (holder, seed, body) = Holder::new(&SESSION, &mut rng(3));
    let helper = Helper::new(&SESSION, seed, body);
    let scheme = &holder.scheme;
    let length = scheme.parameters().length;
    let mut largest = BigUint::ZERO;
    let mut floods = Vec::new();
    for round in 0..12 {
        let entries = match round % 2 {
            0 => vec![1 << 63; length],
            _ => vector(round, length),
        };
        let sum = || {
            let body = holder.encrypt(0, &entries, &mut Prg::new(round));
            helper.multiply(0, body, &entries)
        };
        let r = round as u64;
        let answer = helper.answer(&mut sum(), r, &mut Prg::new(100 + round));
        assert_eq!(
            holder.decrypt(&answer),
            plain(&entries, &entries).wrapping_add(r)
        );
        // With no flood: what the same randomness gives before it.
        let mut message = vec![0; length];
        message[0] = plain(&entries, &entries);
        let product = scheme.coefficients(sum());
        let zeros = vec![0; length];
        let lifted = scheme.lift(product.body, &zeros);
        let noise = scheme.noise(&holder.key, &lifted, &product.mask, &message);
        largest = largest.max(signed(&noise[0]).magnitude().clone());
        // What is left of the answer without its message is flood and noise.
        let key = scheme.lift(scheme.times_key(&holder.key, &answer.mask), &zeros);
        let mut left = fractions::add(answer.body, key[0], 0);
        let sent = plain(&entries, &entries).wrapping_add(r);
        left[LIMBS - 1] = left[LIMBS - 1].wrapping_sub(sent);
        floods.push(signed(&left));
    }
    assert!(largest < bound(length as u64));
    // A bound of the worst case is some way above what happens, and that is far from nothing.
    assert!(largest > bound(length as u64) >> 16);
    let edge = BigInt::from(1) << (FLOOD - 1);
    let room = &edge + BigInt::from(bound(length as u64));
    assert!(
        floods
            .iter()
            .all(|flood| flood.magnitude() <= room.magnitude())
    );
    // Both signs, and most of them in the upper bits of the range.
    let large = floods
        .iter()
        .filter(|flood| flood.magnitude() * 16u8 > *edge.magnitude());
    assert!(large.count() >= 6);
    for sign in [Sign::Plus, Sign::Minus] {
        assert!(floods.iter().any(|flood| flood.sign() == sign));
    }
}

/// Answers to the same ciphertext have nothing in common: neither c₁, nor the share.
#[test]
fn answers_are_fresh() {
    let (holder, seed, body) = Holder::new(&SESSION, &mut rng(4));
    let helper = Helper::new(&SESSION, seed, body);
    let entries = vector(5, 100);
    let answer = |prg: Block| {
        let body = holder.encrypt(0, &entries, &mut Prg::new(1));
        let mut sum = helper.multiply(0, body, &entries);
        let product = helper.scheme.coefficients(Ciphertext {
            body: sum.body.clone(),
            mask: sum.mask.clone(),
        });
        let answer = helper.answer(&mut sum, 0, &mut Prg::new(prg));
        (product.mask, answer)
    };
    let [(product, one), (_, two)] = [1, 2].map(answer);
    let equal = |a: &Polynomial, b: &Polynomial| {
        let pairs = a.rows().flatten().zip(b.rows().flatten());
        pairs.filter(|(a, b)| a == b).count()
    };
    // 65,536 residues of 26.5 bits.
    assert!(equal(&one.mask, &two.mask) < 10 && equal(&one.mask, &product) < 10);
    assert_ne!(one.body, two.body);
}

#[test]
fn bytes_are_those_that_are_sent() {
    for count in [0, 1, 8192, 8193, 80_000] {
        let (a, b) = (vector(1, count), vector(2, count));
        let (sent, answered) = honest(
            |channel| {
                hold(channel, &SESSION, &a, &mut rng(1))?;
                Ok(channel.traffic())
            },
            |channel| {
                help(channel, &SESSION, &b, &mut rng(2))?;
                channel.flush()?;
                Ok(channel.traffic())
            },
        );
        let total = |traffic: &[vesica_wire::PhaseTraffic]| -> u64 {
            traffic.iter().map(|phase| phase.bytes_sent).sum()
        };
        let ciphertexts = count.div_ceil(8192);
        // Five bytes of framing each.
        let frames = if count > 0 {
            [ciphertexts + 1, 1]
        } else {
            [0, 0]
        };
        let said = bytes(count);
        let found = [total(&sent), total(&answered)].map(|bytes| bytes as usize);
        assert_eq!(found, [0, 1].map(|i| said[i] + 5 * frames[i]), "{count}");
    }
}

/// What comes of a frame that is not quite an honest peer's.
fn cheated(kind: Kind, change: impl Fn(&mut Vec<u8>)) -> Misbehaviour {
    let parameters = parameters();
    let mut tape = Tape::default();
    if kind == SUM {
        let mut frame = vec![0; answer_bytes(&parameters)];
        change(&mut frame);
        tape.0.push_back((SUM, frame));
        return misbehaviour(hold(&mut tape, &SESSION, &[5], &mut rng(1)));
    }
    let (holder, seed, body) = Holder::new(&SESSION, &mut rng(1));
    let key = messages::public_key_to_bytes(&parameters, seed, &body);
    let body = holder.encrypt(0, &[5], &mut Prg::new(1));
    let ciphertext = messages::ciphertext_to_bytes(&parameters, &body);
    for (of, mut frame) in [(PUBLIC_KEY, key), (CIPHERTEXT, ciphertext)] {
        if of == kind {
            change(&mut frame);
        }
        tape.0.push_back((of, frame));
    }
    misbehaviour(help(&mut tape, &SESSION, &[5], &mut rng(2)))
}

#[test]
fn garbage_is_refused() {
    for kind in [PUBLIC_KEY, CIPHERTEXT, SUM] {
        // The last residue becomes 2^27 − 1.
        let large = cheated(kind, |frame| {
            let end = frame.len() - 4;
            frame[end..].fill(0xff);
        });
        let (what, problem) = (kind.name, "not below the modulus");
        assert_eq!(large, Misbehaviour::BadValue { what, problem });
        let short = cheated(kind, |frame| {
            frame.pop();
        });
        assert!(matches!(short, Misbehaviour::WrongLength { what, .. } if what == kind.name));
    }
}

#[test]
#[ignore = "a size in use: run it optimised, and alone"]
fn a_million() {
    let (a, b) = (vector(1, 1_331_692), vector(2, 1_331_692));
    let pool = |threads| {
        let builder = rayon::ThreadPoolBuilder::new();
        builder.num_threads(threads).build().unwrap()
    };
    let start = std::time::Instant::now();
    let (ours, theirs) = honest(
        |channel| pool(1).install(|| hold(channel, &SESSION, &a, &mut rng(1))),
        |channel| pool(1).install(|| help(channel, &SESSION, &b, &mut rng(2))),
    );
    println!("{:?} bytes, {:?}", bytes(a.len()), start.elapsed());
    assert_eq!(ours.wrapping_add(theirs), plain(&a, &b));
}
