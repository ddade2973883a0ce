//! How many columns a sparse or pseudorandom-code transfer extension needs.

/// Bits of computational security, and the Hamming weight that the extension's hash asks for.
const KAPPA: usize = 128;

/// The least ℓ with n·Σ_{i<κ} C(ℓ,i) / 2^ℓ ≤ 2^-λ, κ being 128, for n `evaluations` of the sender's:
/// PRTY19, Proposition 2.
///
/// Each of the sender's evaluations meets a random string of ℓ bits, which has fewer than κ ones with
/// probability Σ_{i<κ} C(ℓ,i) / 2^ℓ; with κ ones or more, its output is hidden by as many bits of the sender's
/// secret. In PRTY19's spot-low n is the sender's number of items, in spot-fast twice that; in
/// [`kkrt`](crate::kkrt) three times that, whose code words have this distance by the same reckoning.
///
/// The numbers are whole and exact, of any length: the same on every machine.
///
/// # Panics
/// If `lambda` is 0, for which ℓ would say nothing.
pub fn width(evaluations: u64, lambda: u32) -> usize {
    assert!(lambda > 0);
    // From ℓ = κ − 1, where all strings are light: the sum is 2^ℓ, and C(ℓ, κ − 1) is 1.
    let mut columns = KAPPA - 1;
    let mut light = Whole::one();
    (0..columns).for_each(|_| light.double());
    let mut heaviest = Whole::one();
    loop {
        // Of the strings of one bit more, the light ones have a light beginning, and no last one
        // behind a beginning of weight κ − 1.
        light.double();
        light.subtract(&heaviest);
        columns += 1;
        heaviest.multiply(columns as u64);
        heaviest.divide((columns + 1 - KAPPA) as u64);
        let mut bad = light.clone();
        bad.multiply(evaluations.max(1));
        bad.subtract(&Whole::one());
        if bad.bits() + lambda as usize <= columns {
            return columns;
        }
    }
}

/// A whole number of any length: words of 64 bits, the least first, with none that is 0 at the end.
#[derive(Clone)]
struct Whole(Vec<u64>);

impl Whole {
    fn one() -> Self {
        Whole(vec![1])
    }

    fn bits(&self) -> usize {
        match self.0.last() {
            Some(last) => 64 * self.0.len() - last.leading_zeros() as usize,
            None => 0,
        }
    }

    fn double(&mut self) {
        self.multiply(2);
    }

    fn multiply(&mut self, factor: u64) {
        let mut carry = 0;
        for word in &mut self.0 {
            let product = u128::from(*word) * u128::from(factor) + carry;
            *word = product as u64;
            carry = product >> 64;
        }
        if carry > 0 {
            self.0.push(carry as u64);
        }
    }

    /// Divides by a number that goes into this one.
    fn divide(&mut self, divisor: u64) {
        let mut rest = 0;
        for word in self.0.iter_mut().rev() {
            let part = rest << 64 | u128::from(*word);
            *word = (part / u128::from(divisor)) as u64;
            rest = part % u128::from(divisor);
        }
        debug_assert_eq!(rest, 0);
        self.trim();
    }

    /// Subtracts a number that is not larger.
    fn subtract(&mut self, other: &Whole) {
        let mut borrow = false;
        for (i, word) in self.0.iter_mut().enumerate() {
            let (rest, first) = word.overflowing_sub(other.0.get(i).copied().unwrap_or(0));
            let (rest, second) = rest.overflowing_sub(borrow.into());
            (*word, borrow) = (rest, first || second);
        }
        debug_assert!(!borrow);
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRTY19, figure 6, and the same for λ = 64.
    #[test]
    fn widths_match_the_published_table() {
        let published = [416, 420, 424, 428, 432, 436, 440, 444, 448];
        let stronger = [463, 466, 470, 474, 477, 481, 484, 488, 491];
        for (i, (narrow, wide)) in published.into_iter().zip(stronger).enumerate() {
            let evaluations = 1 << (10 + 2 * i);
            assert_eq!(width(evaluations, 40), narrow);
            assert_eq!(width(evaluations, 64), wide);
        }
    }

    #[test]
    fn widths_are_the_least_that_do() {
        // log₂ Σ_{i<κ} C(ℓ,i) / 2^ℓ, summed from the largest term down.
        let log = |columns: usize| {
            let choose = |i: usize| -> f64 {
                (0..i)
                    .map(|j| ((columns - j) as f64 / (i - j) as f64).log2())
                    .sum()
            };
            let most = choose(KAPPA - 1);
            let sum: f64 = (0..KAPPA).map(|i| (choose(i) - most).exp2()).sum();
            most + sum.log2() - columns as f64
        };
        for (evaluations, lambda) in [(0, 1), (1, 1), (1, 40), (3 << 20, 40), (u64::MAX, 128)] {
            let columns = width(evaluations, lambda);
            let wanted = -f64::from(lambda) - (evaluations.max(1) as f64).log2();
            assert!(log(columns) <= wanted + 1e-6, "{evaluations} {lambda}");
            assert!(log(columns - 1) > wanted - 1e-6, "{evaluations} {lambda}");
        }
    }

    #[test]
    fn whole_numbers_carry_and_borrow() {
        let mut number = Whole(vec![u64::MAX, u64::MAX]);
        number.multiply(u64::MAX);
        assert_eq!(number.0, [1, u64::MAX, u64::MAX - 1]);
        number.divide(u64::MAX);
        assert_eq!(number.0, [u64::MAX, u64::MAX]);
        number.subtract(&Whole(vec![u64::MAX, 1]));
        assert_eq!(number.0, [0, u64::MAX - 1]);
        number.subtract(&Whole::one());
        assert_eq!(number.0, [u64::MAX, u64::MAX - 2]);
        assert_eq!(number.bits(), 128);
        let same = number.clone();
        number.subtract(&same);
        assert_eq!((number.bits(), number.0.len()), (0, 0));
    }
}
