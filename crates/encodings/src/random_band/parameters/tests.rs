use super::*;

/// P\[Poisson(mean) = 0\], … = 1, … down to `least`.
fn poisson(mean: f64, least: f64) -> Vec<f64> {
    let mut probabilities = vec![(-mean).exp()];
    loop {
        let i = probabilities.len() as f64;
        let next = probabilities[probabilities.len() - 1] * mean / i;
        if i > mean && next < least {
            return probabilities;
        }
        probabilities.push(next);
    }
}

/// `[i]` = P\[at least i\].
fn tails(probabilities: &[f64]) -> Vec<f64> {
    let mut tails = vec![0.0; probabilities.len() + 1];
    for (i, p) in probabilities.iter().enumerate().rev() {
        tails[i] = tails[i + 1] + p;
    }
    tails
}

/// Expected failures among the rows that start at one column, if Q was `q`.
fn failures(tails: &[f64], q: usize, width: usize) -> f64 {
    (0..tails.len() - 1)
        .map(|j| tails[j + 1] * 0.5f64.powi(width.saturating_sub(q + j) as i32))
        .sum()
}

/// Expected failures a column when Q is stationary. Each probability follows from the smaller ones
/// because Q goes from q + 1 to q as often as from at most q to more.
fn stationary(density: f64, width: usize) -> f64 {
    let arrivals = poisson(density, 1e-280);
    let tails = tails(&arrivals);
    let at = |list: &[f64], i: usize| list.get(i).copied().unwrap_or(0.0);
    let mut weights = vec![1.0f64];
    for q in 0..4 * width {
        let hole = 0.5f64.powi(q as i32 + 1);
        let up: f64 = (0..=q)
            .rev()
            .take(tails.len())
            .map(|j| weights[j] * (at(&tails, q + 2 - j) + at(&arrivals, q + 1 - j) * hole))
            .sum();
        weights.push(up / (arrivals[0] * (1.0 - hole)));
    }
    let total: f64 = weights.iter().sum();
    weights
        .iter()
        .enumerate()
        .map(|(q, weight)| weight / total * failures(&tails, q, width))
        .sum()
}

/// Expected failures among all rows, from Q = 0. Probabilities below `least` are dropped.
fn stepwise(density: f64, starts: usize, width: usize, least: f64) -> f64 {
    let arrivals = poisson(density, least);
    let tails = tails(&arrivals);
    let failures: Vec<f64> = (0..=width).map(|q| failures(&tails, q, width)).collect();
    let mut chain = vec![1.0];
    let mut sum = 0.0;
    for _ in 0..starts {
        sum += chain.iter().zip(&failures).map(|(p, f)| p * f).sum::<f64>();
        let mut after = vec![0.0; (chain.len() + arrivals.len()).min(width + 1)];
        for (q, p) in chain.iter().enumerate().filter(|(_, p)| **p >= least) {
            for (to, arrival) in after[q..].iter_mut().zip(&arrivals) {
                *to += p * arrival;
            }
        }
        let mut hole = 0.5;
        for q in 1..after.len() {
            after[q - 1] += after[q] * (1.0 - hole);
            after[q] *= hole;
            hole *= 0.5;
        }
        while after.len() > 1 && after[after.len() - 1] < least {
            after.pop();
        }
        chain = after;
    }
    sum
}

/// log2 P\[Poisson(mean) ≥ items\].
fn log_tail(mean: f64, items: usize) -> f64 {
    let first: f64 = (1..=items).map(|i| (mean / i as f64).ln()).sum::<f64>() - mean;
    let (mut sum, mut term, mut i) = (1.0f64, 1.0, items as f64);
    while term > 1e-18 * sum {
        i += 1.0;
        term *= mean / i;
        sum += term;
    }
    (first + sum.ln()) / std::f64::consts::LN_2
}

/// The smallest log2 of the bound found over Poisson means; stops when it is below `enough`.
fn bound(items: usize, starts: usize, width: usize, enough: f64) -> f64 {
    let n = items as f64;
    let at = |mean: f64| {
        let tail = log_tail(mean, items);
        let density = mean / starts as f64;
        if items > 1 << 13 {
            (stationary(density, width) * starts as f64).log2() - tail
        } else if tail > -800.0 {
            stepwise(density, starts, width, 2f64.powf(tail + enough - 45.0)).log2() - tail
        } else {
            -tail
        }
    };
    // Golden-section search.
    let ratio = 0.618;
    let high = n.min(0.9999 * if items > 1 << 13 { starts as f64 } else { n });
    let (mut low, mut high) = match items > 1 << 13 {
        true => (n - 20.0 * n.sqrt(), high),
        false => (n / 4.0, n),
    };
    let (mut a, mut b) = (high - ratio * (high - low), low + ratio * (high - low));
    let (mut at_a, mut at_b) = (at(a), at(b));
    let mut best = at_a.min(at_b);
    for _ in 0..10 {
        if best <= enough {
            break;
        }
        if at_a < at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - ratio * (high - low);
            at_a = at(a);
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + ratio * (high - low);
            at_b = at(b);
        }
        best = best.min(at_a).min(at_b);
    }
    best
}

fn meets(items: usize, lambda: u32) {
    let parameters = Parameters::new(items, lambda);
    assert_eq!((parameters.bins, parameters.width), (1, WIDTH));
    let bound = bound(items, parameters.starts(), WIDTH, -f64::from(lambda));
    assert!(bound <= -f64::from(lambda), "{items} keys: {bound}");
}

#[test]
fn small_maps_are_dense() {
    for lambda in [8, 40, 64, 128] {
        for items in 0..=WIDTH - lambda as usize {
            let parameters = Parameters::new(items, lambda);
            assert_eq!(parameters.size(), items + lambda as usize);
            assert_eq!(parameters.starts(), 1);
        }
    }
}

#[test]
fn columns_meet_the_bound() {
    for (items, lambda) in [(409, 40), (450, 64), (600, 52)] {
        meets(items, lambda);
    }
    for log in 13..20 {
        for lambda in [42, 66, 75] {
            meets(3 << (log - 1), lambda);
        }
    }
    meets(1 << 20, 128);
}

/// Half a percent fewer columns would not do.
#[test]
fn columns_are_not_wasted() {
    for (items, lambda) in [(1 << 14, 40), (1 << 16, 64), (1 << 20, 40), (1 << 20, 128)] {
        let starts = Parameters::new(items, lambda).starts() - items / 200;
        assert!(bound(items, starts, WIDTH, -f64::from(lambda)) > -f64::from(lambda));
    }
}

#[test]
#[ignore = "minutes: every entry of the table, and points between"]
fn the_whole_table_meets_the_bound() {
    let mut last = 256;
    for (items, _) in TABLE.iter().filter(|(n, _)| *n <= BIN as u64) {
        for lambda in [8, 24, 40, 52, 64, 80, 96, 112, 128] {
            for items in [(last + *items as usize) / 2, *items as usize] {
                if items + lambda as usize > WIDTH {
                    meets(items, lambda);
                }
            }
        }
        last = *items as usize;
    }
}

/// Bienstock and others fit λ = 0.2751·w − … to experiments at m = 1.1·n.
#[test]
fn the_slope_is_the_published_one() {
    let at = |width| stationary(1.0 / 1.1, width).log2();
    let slope = (at(300) - at(400)) / 100.0;
    assert!((0.27..0.285).contains(&slope), "{slope}");
}

#[test]
fn columns_grow_with_keys_and_with_security() {
    for lambda in [8, 40, 64, 100, 128] {
        let mut last = 0;
        for items in (0..3000).chain((3000..3_000_000).step_by(9973)) {
            let size = Parameters::new(items, lambda).size();
            assert!(size >= items + lambda as usize);
            assert!(size >= last || items > BIN, "{items} keys, {lambda} bits");
            assert!(lambda == 128 || size <= Parameters::new(items, lambda + 1).size());
            last = size;
        }
    }
}

#[test]
fn the_published_rate_is_met() {
    let rate = |items| Parameters::new(items, 40).size() as f64 / items as f64;
    assert!(rate(1 << 20) < 1.05);
    for log in 21..=32 {
        assert!(rate(1 << log) < 1.07, "2^{log}: {}", rate(1 << log));
    }
}

#[test]
fn bins_are_large_enough() {
    // 2^21 keys in two bins: binomial tail by the normal bound P ≤ exp(−2·δ²/n) (Hoeffding).
    let parameters = Parameters::new(1 << 21, 40);
    assert_eq!(parameters.bins, 2);
    let most = fullest(1 << 21, 2, 42);
    let delta = (most - (1 << 20)) as f64;
    let log = -2.0 * delta * delta / (1u64 << 21) as f64 / std::f64::consts::LN_2;
    assert!(log <= -42.0);
    assert!(delta < 0.01 * (1u64 << 20) as f64);
}
