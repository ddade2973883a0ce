use super::*;

fn instance(entries: usize, weight: usize, bits: u32, coefficient_bits: u32) -> Instance {
    Instance {
        entries,
        weight,
        field_bits: bits,
        coefficient_bits,
        distance_percent: DISTANCE_PERCENT,
    }
}

#[test]
fn weights_are_those_of_the_documents() {
    for (bits, weights) in [(1, [250, 358]), (64, [546, 762]), (128, [546, 762])] {
        assert_eq!(noise_weight(bits), weights[0]);
        assert_eq!(weight(bits, coefficient_bits(bits), 11), weights[1]);
    }
    // Without constants the joint test decides.
    for (bits, needed) in [(64, 546), (128, 586)] {
        assert_eq!(weight(bits, 1, DISTANCE_PERCENT), needed);
    }
}

/// The single test decides on the weights: (1 − δ·q/(q−1))^t ≤ 2^-128 holds for t and not for t − 2.
#[test]
fn the_single_test_is_the_formula() {
    for (bits, remains) in [(1, 0.7f64), (64, 0.85), (128, 0.85)] {
        let t = noise_weight(bits);
        let exponent = |t: usize| -(t as f64) * remains.log2();
        assert!(exponent(t) >= 128.0 && exponent(t - 2) < 128.0);
        let cost = single_test(&instance(1 << 16, t, bits, bits.min(64)));
        assert_eq!(cost.log2(), exponent(t) as i64);
    }
}

/// The figures of docs/protocols/vole.md, and that no chunk is cheaper to attack than the two that decide.
#[test]
fn every_size_withstands_every_attack() {
    for bits in [1, 64, 128] {
        let t = noise_weight(bits);
        let longest = t / 2 * MOST_LEAVES;
        for entries in (12..21).map(|log| 1 << log).filter(|n| *n <= longest) {
            let instance = instance(entries, t, bits, coefficient_bits(bits));
            for attack in ATTACKS {
                let cost = (attack.cost)(&instance).log2();
                assert!(cost >= KAPPA, "{} at {entries}: 2^{cost}", attack.name);
            }
        }
    }
}

/// Trap of 0/1 coefficients: 2^128·(3/4)^t trials' worth of advantage.
#[test]
fn planes_make_joint_tests_cheap() {
    for (log, least, most) in [(16, 112, 117), (20, 116, 121)] {
        let cost = joint_test(&instance(1 << log, 546, 128, 1)).log2();
        assert!((least..=most).contains(&cost), "2^{cost}");
    }
    assert!(joint_test(&instance(1 << 16, 546, 128, 64)).log2() > 400);
}

#[test]
fn prange_guesses_half_of_each_block() {
    for entries in [1usize << 12, 1 << 20] {
        let log = i64::from(entries.ilog2()) + 1;
        assert_eq!(prange(&instance(entries, 546, 128, 64)).log2(), 546 + log);
        let bits = prange(&instance(entries, 250, 1, 1)).log2();
        assert!((225 + log..=250 + log).contains(&bits), "2^{bits}");
    }
}

#[test]
fn series_are_binomial() {
    assert_eq!(series(4, 3)[..5], [1, 12, 54, 108, 81]);
    assert_eq!(series(-2, 1)[..5], [1, -2, 3, -4, 5]);
    assert_eq!(series(3, -1)[..5], [1, -3, 3, -1, 0]);
    let both = product(&series(2, 5), &series(3, -1));
    assert_eq!(both[..6], [1, 7, -2, -46, 65, -25]);
}

/// A few blocks leave quadratic equations enough, without any guesses.
#[test]
fn few_blocks_fall_to_algebra() {
    let easy = instance(1 << 12, 4, 128, 64);
    assert!(solving(&easy, 0).log2() < 70);
    assert!(algebraic(&easy).log2() < 20);
    let hard = instance(1 << 12, 546, 128, 64);
    assert!(solving(&hard, 0).log2() > 128);
}
