use super::fractions::{Fraction, Fractions};
use super::*;
use crate::ole::tests::check;
use vesica_kernels::residues::Modulus;
use vesica_testing::{Tape, honest, misbehaviour, rng};
use vesica_wire::{Kind, Misbehaviour};

const SESSION: [u8; 32] = [7; 32];

fn run(shape: Shape, lambda: u32) -> (ReceiverHalf, SenderHalf) {
    honest(
        |channel| {
            Lattice::receive(
                channel,
                shape,
                lambda,
                KeyAgreement::Classical,
                &SESSION,
                &mut rng(1),
            )
        },
        |channel| {
            Lattice::send(
                channel,
                shape,
                lambda,
                KeyAgreement::Classical,
                &SESSION,
                &mut rng(2),
            )
        },
    )
}

#[test]
fn tuples_fit() {
    for (least, bins, per_bin) in [
        (40_961, 0, 3),
        (40_961, 1, 1),
        (40_961, 4096, 2),
        (40_961, 9000, 3),
        (1 << 17, 5000, 2),
        (1 << 27, 8192, 1),
        (1 << 40, 10_000, 2),
        (1 << 60, 1, 2),
    ] {
        let modulus = modulus(least, bins, per_bin, 40).unwrap();
        let shape = Shape {
            modulus,
            bins,
            per_bin,
        };
        let (receiver, sender) = run(shape, 40);
        check(&receiver, &sender);
    }
}

fn shape(least: u64, bins: usize, per_bin: usize) -> Shape {
    Shape {
        modulus: modulus(least, bins, per_bin, 40).unwrap(),
        bins,
        per_bin,
    }
}

fn scheme(least: u64) -> Scheme {
    Scheme::new(Parameters::new(shape(least, 1 << 20, 28), 40).unwrap())
}

fn slots(scheme: &Scheme, seed: Block) -> Vec<u64> {
    let parameters = scheme.parameters();
    let mut out = vec![0; parameters.length];
    uniform(&mut Prg::new(seed), 0, parameters.plain.get(), &mut out);
    out
}

#[test]
fn slots_come_back_and_multiply() {
    for least in [40_961, 1 << 60] {
        let scheme = scheme(least);
        let [a, b] = [1, 2].map(|seed| slots(&scheme, seed));
        let mut coefficients = a.clone();
        scheme.encode(&mut coefficients);
        assert_ne!(coefficients, a);
        scheme.decode(&mut coefficients);
        assert_eq!(coefficients, a);
        // X times the polynomial of b: X has the slots of its coefficient vector, decoded.
        let t = scheme.parameters().plain;
        let mut x = vec![0; a.len()];
        x[1] = 1;
        scheme.decode(&mut x);
        let mut products: Vec<u64> = x.iter().zip(&b).map(|(x, b)| t.times(*x, *b)).collect();
        let mut shifted = b;
        scheme.encode(&mut products);
        scheme.encode(&mut shifted);
        shifted.rotate_right(1);
        shifted[0] = t.minus(0, shifted[0]);
        assert_eq!(products, shifted);
    }
}

/// A fraction of q as a number of −1/2 to 1/2, times 2^106: about what it is modulo q, for N = 4096.
fn number(fraction: &Fraction) -> f64 {
    let top = (fraction[2] as i64) as f64;
    // Small numbers have no bits in the top limb but those of the sign.
    let low = match fraction[2] {
        0 => fraction[1] as f64,
        u64::MAX => -((!fraction[1]) as f64),
        _ => fraction[1] as f64 + top * 2f64.powi(64),
    };
    low * 2f64.powi(106 - 128)
}

/// The noise of some answers, before and after the flood.
fn noises(scheme: &Scheme, count: usize) -> [Vec<Fractions>; 2] {
    let ring = scheme.ring();
    let key = scheme.secret_key(&mut Prg::new(10));
    let t = scheme.parameters().plain;
    let encrypt = |seed: Block, plain: Option<&[u64]>| {
        let mask = ring.uniform(seed);
        let body = scheme.encrypt(&key, &mask, plain, &mut Prg::new(seed + 1));
        Ciphertext { body, mask }
    };
    let mut out = [Vec::new(), Vec::new()];
    let public = encrypt(20, None);
    for i in 0..count as Block {
        let [s, u, v] = [0, 1, 2].map(|j| slots(scheme, 1000 + 3 * i + j));
        let product = |(s, u): (&u64, &u64)| t.times(*s, *u);
        let products = s.iter().zip(&u).map(product);
        let mut message: Vec<u64> = products.zip(&v).map(|(us, v)| t.plus(us, *v)).collect();
        let [mut s, mut u, mut v] = [s, u, v];
        for slots in [&mut s, &mut u, &mut v, &mut message] {
            scheme.encode(slots);
        }
        let ciphertext = encrypt(30 + 2 * i, Some(&s));
        let mut prg = Prg::new(2000 + i);
        let (u, w) = (scheme.factor(&u), ring.error(&mut prg));
        let answer = scheme.inner_product(&[(&ciphertext, &u), (&public, &w)]);
        let mut answer = scheme.coefficients(answer);
        ring.add_error(&mut prg, &mut answer.mask);
        let mut body = scheme.lift(answer.body, &v);
        out[0].push(scheme.noise(&key, &body, &answer.mask, &message));
        scheme.flood(&mut body, &mut prg);
        out[1].push(scheme.noise(&key, &body, &answer.mask, &message));
        let answer = scheme.switch(&body, answer.mask);
        assert_eq!(*scheme.decrypt(&key, &answer), message);
    }
    out
}

#[test]
fn noise_is_as_small_and_floods_as_large_as_computed() {
    let scheme = scheme(40_961);
    let [before, after] = noises(&scheme, 4);
    let all = |fractions: &[Fractions]| -> Vec<f64> {
        fractions
            .iter()
            .flat_map(|f| f.iter().map(number))
            .collect()
    };
    let (before, after) = (all(&before), all(&after));
    let count = before.len() as f64;
    // The bound holds for every u; one of uniform coefficients has a third of the largest norm.
    let bound = 209.0 * 40_961.0 / 2.0 + 696.0;
    let square = before.iter().map(|x| x * x).sum::<f64>() / count;
    assert!(
        (square.sqrt() / (bound / 3f64.sqrt()) - 1.0).abs() < 0.05,
        "{square}"
    );
    let mean = before.iter().map(|x| x.abs()).sum::<f64>() / count;
    assert!(mean < bound);
    // Flooded: uniform on 2^b multiples of 2^-192·q, give or take the noise.
    let half = 2f64.powi(scheme.parameters().flood_bits as i32 - 1 + 106 - 192);
    assert!(after.iter().all(|x| x.abs() <= half * 1.000_001));
    assert!(after.iter().any(|x| x.abs() > half * 0.999));
    let square = after.iter().map(|x| x * x).sum::<f64>() / count;
    assert!((square * 3.0 / (half * half) - 1.0).abs() < 0.05);
    assert!((after.iter().sum::<f64>() / count).abs() < 5.0 * half / (3.0 * count).sqrt());
    assert!(2f64.powi(60) * bound < half);
}

#[test]
fn errors_are_binomial() {
    let scheme = scheme(40_961);
    let ring = scheme.ring();
    let mut counts = [0u32; 43];
    for seed in 0..16 {
        let mut error = ring.zero();
        ring.add_error(&mut Prg::new(seed), &mut error);
        let mut rows = error.rows().zip(ring.primes()).map(|(row, p)| {
            let p = p.get() as i64;
            let centred = |value: &u32| match i64::from(*value) {
                value if value > p / 2 => value - p,
                value => value,
            };
            row.iter().map(centred).collect::<Vec<i64>>()
        });
        let first = rows.next().unwrap();
        assert!(rows.all(|row| row == first));
        for value in first {
            counts[(value + 21) as usize] += 1;
        }
    }
    // χ² against the binomial distribution, where 20 or more are expected: 19 degrees of freedom or so.
    let (mut chi, mut weight, mut cells) = (0.0, 2f64.powi(-42), 0);
    for (i, count) in counts.iter().enumerate() {
        let expected = weight * 65_536.0;
        if expected > 20.0 {
            chi += (f64::from(*count) - expected).powi(2) / expected;
            cells += 1;
        }
        weight *= (42 - i) as f64 / (i + 1) as f64;
    }
    assert!(cells > 15 && chi < 60.0, "{chi} over {cells}");
}

#[test]
fn keys_are_ternary() {
    let scheme = scheme(40_961);
    let mut key = scheme.secret_key(&mut Prg::new(1)).values().clone();
    scheme.ring().inverse(&mut key);
    let row = key.rows().next().unwrap();
    let p = scheme.parameters().primes[0].get() as u32;
    for value in [0, 1, p - 1] {
        let count = row.iter().filter(|x| **x == value).count() as f64;
        // A third of 4096, five deviations.
        assert!((count - 1365.3).abs() < 150.0);
    }
    assert!(row.iter().all(|x| [0, 1, p - 1].contains(x)));
}

/// What comes of a frame of some kind that is not quite an honest peer's.
fn cheated(kind: Kind, change: impl Fn(&mut Vec<u8>)) -> Misbehaviour {
    let shape = shape(40_961, 10, 2);
    let mut tape = Tape::default();
    if kind == ANSWER {
        let parameters = Parameters::new(shape, 40).unwrap();
        let mut frame = vec![0; messages::answer_bytes(&parameters)];
        change(&mut frame);
        tape.0.push_back((ANSWER, frame));
        return misbehaviour(messages::receive_answer(&mut tape, &parameters));
    }
    for (of, mut frame) in receiver_frames(shape) {
        if of == kind {
            change(&mut frame);
        }
        tape.0.push_back((of, frame));
    }
    misbehaviour(Lattice::send(
        &mut tape,
        shape,
        40,
        KeyAgreement::Classical,
        &SESSION,
        &mut rng(2),
    ))
}

/// What an honest receiver sends.
fn receiver_frames(shape: Shape) -> Vec<(Kind, Vec<u8>)> {
    let parameters = Parameters::new(shape, 40).unwrap();
    let half = ReceiverHalf::random(shape, &mut rng(1));
    let (mut receiver, seed, body) =
        Receiver::new(shape, parameters.clone(), &SESSION, &mut rng(2));
    let key = messages::public_key_to_bytes(&parameters, seed, &body);
    let body = receiver.encrypt(&half, 0);
    let ciphertext = messages::ciphertext_to_bytes(&parameters, &body);
    vec![(PUBLIC_KEY, key), (CIPHERTEXT, ciphertext)]
}

#[test]
fn garbage_is_refused() {
    for kind in [PUBLIC_KEY, CIPHERTEXT, ANSWER] {
        // The last residue becomes 2^27 − 1.
        let large = cheated(kind, |frame| {
            let end = frame.len() - 4;
            frame[end..].fill(0xff);
        });
        let expected = Misbehaviour::BadValue {
            what: kind.name,
            problem: "not below the modulus",
        };
        assert_eq!(large, expected);
        let mut bytes = 0;
        let shorter = cheated_length(kind, &mut bytes);
        assert_eq!(
            shorter,
            Misbehaviour::WrongLength {
                what: kind.name,
                bytes
            }
        );
    }
}

fn cheated_length(kind: Kind, bytes: &mut usize) -> Misbehaviour {
    let length = std::cell::Cell::new(0);
    let result = cheated(kind, |frame| {
        frame.pop();
        length.set(frame.len());
    });
    *bytes = length.get();
    result
}

#[test]
fn moduli_that_do_not_batch_are_refused() {
    let shape = Shape {
        modulus: Modulus::new(16_381),
        bins: 10,
        per_bin: 2,
    };
    for result in [
        Lattice::receive(
            &mut Tape::default(),
            shape,
            40,
            KeyAgreement::Classical,
            &SESSION,
            &mut rng(1),
        )
        .err(),
        Lattice::send(
            &mut Tape::default(),
            shape,
            40,
            KeyAgreement::Classical,
            &SESSION,
            &mut rng(1),
        )
        .err(),
    ] {
        assert!(matches!(
            result,
            Some(Error::Resource {
                limit: Limit::Security,
                ..
            })
        ));
    }
}

#[test]
#[ignore = "the largest size in use: run it optimised, and alone"]
fn a_million() {
    let shape = Shape {
        modulus: modulus(40_961, 1_331_692, 28, 40).unwrap(),
        bins: 1_331_692,
        per_bin: 28,
    };
    println!("{:?}", Parameters::new(shape, 40));
    let one_thread = || {
        rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap()
    };
    let start = std::time::Instant::now();
    let mut bytes = 0;
    let (receiver, sender) = honest(
        |channel| {
            let half = one_thread().install(|| {
                Lattice::receive(
                    channel,
                    shape,
                    40,
                    KeyAgreement::Classical,
                    &SESSION,
                    &mut rng(1),
                )
            });
            println!("{:?}", channel.traffic());
            half
        },
        |channel| {
            let half = one_thread().install(|| {
                Lattice::send(
                    channel,
                    shape,
                    40,
                    KeyAgreement::Classical,
                    &SESSION,
                    &mut rng(2),
                )
            });
            let traffic = channel.traffic();
            bytes = traffic
                .iter()
                .map(|phase| phase.bytes_sent + phase.bytes_received)
                .sum();
            half
        },
    );
    println!("{bytes} bytes, {:?}", start.elapsed());
    check(&receiver, &sender);
}
