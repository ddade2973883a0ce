//! Seconds as a function of sizes, from measured runs.
//!
//! A run takes what is fixed, a time for each item of either party and for each of the larger set (the parties work side by
//! side), one for each byte, one for n·log₂² n where work grows faster than the items (polynomials; caches that are too
//! small), and one for √n where it grows slower (sizes that are rounded up). No coefficient is negative, so that a forecast
//! grows with the sizes. The coefficients minimise the squares of relative errors: a run of a millisecond counts as much as
//! one of a minute.

use std::array;
use std::iter::zip;

/// What the seconds of a run depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) receiver_size: u64,
    pub(crate) sender_size: u64,
    /// Bytes both ways.
    pub(crate) bytes: u64,
}

const TERMS: usize = 9;

const MILLION: f64 = (1 << 20) as f64;

impl Work {
    /// The terms, the fixed one first, in units in which coefficients are seconds.
    fn terms(&self) -> [f64; TERMS] {
        let [n, m] = [self.receiver_size, self.sender_size].map(|size| size as f64);
        let steep = |size: f64| size * (size + 2.0).log2().powi(2) / 400.0;
        [
            1.0,
            n / MILLION,
            m / MILLION,
            steep(n) / MILLION,
            steep(m) / MILLION,
            self.bytes as f64 / 1e9,
            n.max(m) / MILLION,
            (n / MILLION).sqrt(),
            (m / MILLION).sqrt(),
        ]
    }
}

/// Coefficients of the terms, with how well they fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fit {
    coefficients: [f64; TERMS],
    /// Two standard deviations of the relative error.
    pub(crate) spread: f64,
    /// The smallest and the largest number of items of both parties that were measured.
    range: [u64; 2],
}

/// Passes over all coefficients, each of which is the best one given the others.
const PASSES: usize = 4000;

/// Penalty on a coefficient, which decides between terms that the runs do not tell apart.
const RIDGE: f64 = 1e-7;

/// The least relative error that is believed.
const LEAST_SPREAD: f64 = 0.1;

impl Fit {
    /// The fit to runs and their seconds; `None` if there is no run of more than no time.
    pub(crate) fn new(runs: &[(Work, f64)]) -> Option<Fit> {
        Fit::of_terms(TERMS, runs)
    }

    /// The fit of so many of the terms.
    pub(crate) fn of_terms(terms: usize, runs: &[(Work, f64)]) -> Option<Fit> {
        let runs: Vec<_> = runs.iter().filter(|(_, seconds)| *seconds > 0.0).collect();
        // Relative to what was measured: a row is 1 where the fit is right.
        let row = |(work, seconds): &&(Work, f64)| work.terms().map(|term| term / seconds);
        let rows: Vec<[f64; TERMS]> = runs.iter().map(row).collect();
        let dot = |left: usize, right: usize| -> f64 {
            rows.iter().map(|row| row[left] * row[right]).sum()
        };
        let sums: [f64; TERMS] = array::from_fn(|k| rows.iter().map(|row| row[k]).sum());
        let products: [[f64; TERMS]; TERMS] = array::from_fn(|k| array::from_fn(|j| dot(k, j)));
        let mut coefficients = [0.0; TERMS];
        for _ in 0..PASSES {
            for k in 0..terms {
                let explained: f64 = zip(products[k], coefficients).map(|(p, c)| p * c).sum();
                let step = (sums[k] - explained) / (RIDGE + products[k][k]);
                coefficients[k] = f64::max(coefficients[k] + step, 0.0);
            }
        }
        let error =
            |row: &[f64; TERMS]| 1.0 - zip(row, coefficients).map(|(r, c)| r * c).sum::<f64>();
        let errors: Vec<f64> = rows.iter().map(error).collect();
        let used = coefficients.iter().filter(|c| **c > 0.0).count();
        let free = rows.len().saturating_sub(used).max(1) as f64;
        let squares: f64 = errors.iter().map(|error| error * error).sum();
        let items = runs.iter().map(|(w, _)| w.receiver_size + w.sender_size);
        Some(Fit {
            coefficients,
            spread: (2.0 * (squares / free).sqrt()).max(LEAST_SPREAD),
            range: [items.clone().min()?, items.max()?],
        })
    }

    /// Seconds of what is fixed, and of the rest.
    pub(crate) fn parts(&self, work: &Work) -> [f64; 2] {
        let terms = work.terms();
        let products = self
            .coefficients
            .iter()
            .zip(terms)
            .map(|(c, term)| c * term);
        let [fixed, rest] = [products.clone().take(1).sum(), products.skip(1).sum()];
        [fixed, rest]
    }

    /// The coefficients of the first five terms, for one item each where the terms are for 2^20.
    #[cfg(test)]
    pub(crate) fn picoseconds(&self) -> [u64; 5] {
        let units = [1.0, MILLION, MILLION, MILLION, MILLION];
        array::from_fn(|k| (self.coefficients[k] * 1e12 / units[k]).round() as u64)
    }

    /// The spread for work of these sizes: a tenth more for each factor of four beyond what was measured.
    pub(crate) fn spread_at(&self, work: &Work) -> f64 {
        let items = (work.receiver_size + work.sender_size).max(1) as f64;
        let [least, most] = self.range.map(|items| items.max(1) as f64);
        let beyond = f64::max(items / most, least / items).max(1.0);
        self.spread + 0.1 * beyond.log(4.0)
    }
}

/// By how much a machine is slower than the one of a fit, for what is fixed and for the rest: the factors with which the
/// fit takes the seconds of its own runs, each between a quarter and four times the mean of their ratios.
///
/// `runs` has the two parts of the fit and the seconds of each run.
pub(crate) fn factors(runs: &[([f64; 2], f64)]) -> Option<[f64; 2]> {
    let ratio = |(parts, seconds): &([f64; 2], f64)| (seconds / parts.iter().sum::<f64>()).ln();
    let ratios: Vec<f64> = runs.iter().map(ratio).filter(|r| r.is_finite()).collect();
    if ratios.is_empty() {
        return None;
    }
    let mean = (ratios.iter().sum::<f64>() / ratios.len() as f64).exp();
    let mut factors = [mean; 2];
    if runs.len() < 2 {
        return Some(factors);
    }
    for _ in 0..200 {
        for k in 0..2 {
            let (mut along, mut square) = (0.0, 1e-9);
            for (parts, seconds) in runs {
                let row = parts.map(|part| part / seconds);
                along += row[k] * (1.0 - row[1 - k] * factors[1 - k]);
                square += row[k] * row[k];
            }
            factors[k] = (along / square).clamp(mean / 4.0, mean * 4.0);
        }
    }
    Some(factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(receiver_size: u64, sender_size: u64) -> Work {
        Work {
            receiver_size,
            sender_size,
            bytes: 40 * receiver_size + 9 * sender_size,
        }
    }

    const SIZES: [[u64; 2]; 9] = [
        [256, 256],
        [4096, 4096],
        [1 << 16, 1 << 16],
        [1 << 18, 1 << 18],
        [256, 1 << 16],
        [1 << 16, 256],
        [4096, 1 << 18],
        [1 << 18, 4096],
        [1 << 20, 1 << 20],
    ];

    fn seconds([n, m]: [u64; 2]) -> f64 {
        0.004 + n as f64 * 2e-7 + m as f64 * 1e-7
    }

    #[test]
    fn times_that_are_sums_come_back() {
        let runs = SIZES.map(|sizes| (work(sizes[0], sizes[1]), seconds(sizes)));
        let fit = Fit::new(&runs).unwrap();
        assert_eq!(fit.spread, LEAST_SPREAD);
        for sizes in [[1 << 17, 1 << 17], [1000, 1 << 17], [1 << 17, 1000]] {
            let found: f64 = fit.parts(&work(sizes[0], sizes[1])).iter().sum();
            let relative = found / seconds(sizes);
            assert!((0.93..1.07).contains(&relative), "{sizes:?} {relative}");
        }
    }

    #[test]
    fn parties_that_work_side_by_side_are_known() {
        let seconds = |[n, m]: [u64; 2]| 0.004 + n.max(m) as f64 * 2e-7 + (m as f64).sqrt() * 4e-5;
        let runs = SIZES.map(|sizes| (work(sizes[0], sizes[1]), seconds(sizes)));
        let fit = Fit::new(&runs).unwrap();
        for sizes in [[1 << 17, 1 << 17], [1000, 1 << 17], [1 << 17, 1000]] {
            let found: f64 = fit.parts(&work(sizes[0], sizes[1])).iter().sum();
            let relative = found / seconds(sizes);
            assert!((0.93..1.07).contains(&relative), "{sizes:?} {relative}");
        }
    }

    #[test]
    fn runs_that_differ_widen_the_interval() {
        let mut runs = SIZES.map(|sizes| (work(sizes[0], sizes[1]), seconds(sizes)));
        runs.iter_mut()
            .step_by(2)
            .for_each(|(_, seconds)| *seconds *= 1.5);
        let fit = Fit::new(&runs).unwrap();
        assert!(fit.spread > 0.2, "{}", fit.spread);
        let [near, far] = [1 << 20, 1 << 24].map(|n| fit.spread_at(&work(n, n)));
        assert!((far - near - 0.2).abs() < 1e-6);
        assert!(Fit::new(&[(work(1, 1), 0.0)]).is_none());
    }

    #[test]
    fn a_slower_machine_is_found_in_both_parts() {
        let runs = [[1.0, 0.1], [1.0, 10.0]];
        let slower = runs.map(|parts| (parts, 3.0 * parts[0] + 2.0 * parts[1]));
        let [fixed, rest] = factors(&slower).unwrap();
        assert!((fixed - 3.0).abs() < 0.01 && (rest - 2.0).abs() < 0.01);
        assert_eq!(factors(&slower[..1]).unwrap(), [3.2 / 1.1; 2]);
        assert_eq!(factors(&[]), None);
        // What cannot be told apart stays near the mean.
        let odd = [([1.0, 1e-6], 1.0), ([1.0, 2e-6], 1.0)];
        let [_, rest] = factors(&odd).unwrap();
        assert!((0.2..=4.1).contains(&rest));
    }
}
