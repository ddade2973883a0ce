use super::*;
use proptest::prelude::*;
use vesica_primitives::block::Prg;

fn keys(seed: Block, count: usize) -> Vec<Block> {
    let mut keys = vec![0; count];
    Prg::new(seed).fill(&mut keys);
    keys
}

fn pairs(functions: &Functions, keys: &[Block]) -> Vec<[u32; 2]> {
    let mut pairs = Vec::new();
    functions.for_each(keys, |bins| pairs.push(bins));
    pairs
}

/// Every item is once in a bin of its own, and no bin is too full.
fn check(functions: &Functions, keys: &[Block], table: &Bins) {
    let pairs = pairs(functions, keys);
    let mut seen = vec![false; keys.len()];
    assert_eq!(table.len(), functions.parameters().bins);
    assert!(table.fullest() <= functions.parameters().capacity);
    for bin in 0..table.len() {
        assert!(table.bin(bin).is_sorted());
        for entry in table.bin(bin) {
            assert_eq!(pairs[entry.item()][entry.function()] as usize, bin);
            assert!(!std::mem::replace(&mut seen[entry.item()], true));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
}

#[test]
fn items_go_to_one_of_their_bins_and_stand_in_both() {
    for count in [0, 1, 2, 40, 41, 80, 81, 400, 5000] {
        let functions = Functions::new(Parameters::new(count, 40), &[9; 32]);
        let keys = keys(5, count);
        check(&functions, &keys, &assign(&functions, &keys).unwrap());
        let fewer = &keys[..count / 3];
        check(&functions, fewer, &assign(&functions, fewer).unwrap());
        let more = self::keys(6, 2 * count + 3);
        let table = both(&functions, &more);
        assert_eq!(table.entries().len(), 2 * more.len());
        let pairs = pairs(&functions, &more);
        for bin in 0..table.len() {
            for entry in table.bin(bin) {
                assert_eq!(pairs[entry.item()][entry.function()] as usize, bin);
            }
        }
        for [a, b] in pairs {
            assert!(a != b || table.len() == 1);
        }
    }
}

/// Whether all items can be placed: by Hall, for every set of bins.
fn can_be_placed(bins: usize, capacity: usize, pairs: &[[u32; 2]]) -> bool {
    (0u32..1 << bins).all(|set| {
        let inside = pairs
            .iter()
            .filter(|pair| pair.iter().all(|bin| set >> bin & 1 == 1))
            .count();
        inside <= capacity * set.count_ones() as usize
    })
}

proptest! {
    #[test]
    fn fails_only_without_an_assignment(
        seed: u64, count in 0usize..40, bins in 1usize..8, spare in 0usize..2,
    ) {
        let capacity = count.div_ceil(bins) + spare;
        let functions = Functions::new(Parameters::with_bins(count, bins, capacity), &[1; 32]);
        let keys = keys(seed.into(), count);
        let expected = can_be_placed(bins, capacity, &pairs(&functions, &keys));
        let found = assign(&functions, &keys);
        prop_assert_eq!(found.is_ok(), expected);
        if let Ok(table) = found {
            check(&functions, &keys, &table);
        }
    }
}

#[test]
fn shapes_are_those_of_the_paper() {
    let shape = |items| {
        let p = Parameters::new(items, 40);
        (p.bins, p.capacity)
    };
    assert_eq!(shape(0), (1, 0));
    assert_eq!(shape(40), (1, 40));
    assert_eq!(shape(41), (2, 22));
    assert_eq!(shape(120), (3, 43));
    assert_eq!(shape(800), (20, 41));
    assert_eq!(shape(1 << 20), (26_215, 41));
}

fn ln_choose(n: usize, k: usize) -> f64 {
    let ln_factorial = |x: usize| (2..=x).map(|i| (i as f64).ln()).sum::<f64>();
    ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
}

/// log₂ of the bound on the probability of failure.
fn bound(parameters: &Parameters, factorials: &[f64]) -> f64 {
    let Parameters {
        items: n,
        bins: m,
        capacity,
    } = *parameters;
    let ln_choose = |n: usize, k: usize| factorials[n] - factorials[k] - factorials[n - k];
    let mut sum = 0.0;
    for t in 2..m {
        let p = (t * (t - 1)) as f64 / (m * (m - 1)) as f64;
        let least = t * capacity + 1;
        if least > n {
            break;
        }
        // The tail, at most a geometric series behind its first term.
        let ratio = (n - least) as f64 * p / ((least + 1) as f64 * (1.0 - p));
        let first = ln_choose(n, least) + least as f64 * p.ln() + (n - least) as f64 * (-p).ln_1p();
        assert!(ratio < 1.0);
        sum += (ln_choose(m, t) + first - (1.0 - ratio).ln()).exp();
    }
    sum.log2()
}

fn factorials(most: usize) -> Vec<f64> {
    let mut sum = 0.0;
    (0..=most)
        .map(|i| {
            sum += (i.max(1) as f64).ln();
            sum
        })
        .collect()
}

#[test]
fn the_bound_is_met() {
    let factorials = factorials(60_000);
    assert!((ln_choose(50, 20) - (factorials[50] - factorials[20] - factorials[30])).abs() < 1e-9);
    // 42 and 66 are the shares of a protocol of four events at λ = 40 and 64.
    for lambda in [42]
        .into_iter()
        .chain((1..=128).step_by(if cfg!(debug_assertions) { 13 } else { 1 }))
    {
        let square = (lambda * lambda) as usize;
        let small = (0..square).step_by(1 + lambda as usize / 30);
        for items in small.chain([square, 2 * square + 1, 3 * square]) {
            let parameters = Parameters::new(items, lambda);
            let bound = bound(&parameters, &factorials);
            assert!(
                bound <= -f64::from(lambda),
                "{lambda} {parameters:?}: {bound}"
            );
        }
    }
    for items in [1 << 13, 40_001] {
        assert!(bound(&Parameters::new(items, 40), &factorials) < -300.0);
    }
}

fn fullest(seed: Block, items: usize) -> usize {
    let functions = Functions::new(Parameters::new(items, 40), &[4; 32]);
    let keys = keys(seed, items);
    let start = std::time::Instant::now();
    let table = assign(&functions, &keys).unwrap();
    println!("{items} items: {:?}", start.elapsed());
    check(&functions, &keys, &table);
    table.fullest()
}

#[test]
fn loads_are_nearly_equal() {
    for items in [1 << 10, 1 << 16, 1 << 20] {
        for seed in 1..4 {
            assert!(fullest(seed, items) <= items.div_ceil(items.div_ceil(40)) + 1);
        }
    }
}

#[test]
#[ignore = "tens of thousands of tables"]
fn loads_are_nearly_equal_over_many_runs() {
    for (items, runs) in [
        (200, 20_000),
        (1000, 20_000),
        (1 << 14, 2000),
        (1 << 20, 50),
    ] {
        for seed in 1..=runs {
            fullest(seed, items);
        }
    }
}
