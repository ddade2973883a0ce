//! Sums and products of whole numbers with directed rounding, for parameter functions that must agree on
//! every machine.
//!
//! If the operands are themselves rounded up, an operation that rounds up gives at least the exact result;
//! likewise at most, when rounding down. Each operation is off by a factor of 1 ± 2^-63 at most.

/// `mantissa`·2^`exponent`; the mantissa's top bit is set unless it is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scaled {
    mantissa: u64,
    exponent: i64,
}

/// Which way a result that does not fit 64 bits is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To a larger one.
    Up,
    /// To a smaller one.
    Down,
}

impl Scaled {
    /// 2^`exponent`.
    pub fn power_of_two(exponent: i64) -> Self {
        Scaled {
            mantissa: 1 << 63,
            exponent: exponent - 63,
        }
    }

    /// `value`·2^`exponent`.
    fn new(value: u128, exponent: i64, round: Round) -> Self {
        if value == 0 {
            return Scaled {
                mantissa: 0,
                exponent: 0,
            };
        }
        let shift = 64 - i64::from(value.leading_zeros());
        if shift <= 0 {
            return Scaled {
                mantissa: (value as u64) << -shift,
                exponent: exponent + shift,
            };
        }
        let mantissa = (value >> shift) as u64;
        let exact = u128::from(mantissa) << shift == value;
        let exponent = exponent + shift;
        if exact || round == Round::Down {
            return Scaled { mantissa, exponent };
        }
        match mantissa.checked_add(1) {
            Some(mantissa) => Scaled { mantissa, exponent },
            None => Scaled {
                mantissa: 1 << 63,
                exponent: exponent + 1,
            },
        }
    }

    /// The sum with another number.
    pub fn plus(self, other: Scaled, round: Round) -> Self {
        let (large, small) = if self.at_most(other) {
            (other, self)
        } else {
            (self, other)
        };
        if small.mantissa == 0 {
            return large;
        }
        // Both over the exponent of the larger one, less 63 bits for what the smaller one has behind it.
        let behind = (large.exponent - small.exponent) as u64;
        let shifted = u128::from(small.mantissa) << 63;
        let low = match behind {
            0..=126 => shifted >> behind,
            _ => 0,
        };
        let lost = behind > 126 || low << behind != shifted;
        let sum = (u128::from(large.mantissa) << 63) + low + u128::from(lost && round == Round::Up);
        Self::new(sum, large.exponent - 63, round)
    }

    /// The product with another number.
    pub fn times(self, other: Scaled, round: Round) -> Self {
        let product = u128::from(self.mantissa) * u128::from(other.mantissa);
        Self::new(product, self.exponent + other.exponent, round)
    }

    /// The product with a whole number.
    pub fn times_whole(self, factor: u64, round: Round) -> Self {
        let product = u128::from(self.mantissa) * u128::from(factor);
        Self::new(product, self.exponent, round)
    }

    /// The quotient by a whole number, which is not 0.
    pub fn over(self, divisor: u64, round: Round) -> Self {
        let (value, divisor) = (u128::from(self.mantissa) << 64, u128::from(divisor));
        let quotient = match round {
            Round::Up => value.div_ceil(divisor),
            Round::Down => value / divisor,
        };
        Self::new(quotient, self.exponent - 64, round)
    }

    /// This number to a power; off by a factor of about 1 ± 2·`exponent`·2^-63.
    pub fn power(self, exponent: u64, round: Round) -> Self {
        let mut result = Self::power_of_two(0);
        for i in (0..u64::BITS - exponent.leading_zeros()).rev() {
            result = result.times(result, round);
            if exponent >> i & 1 == 1 {
                result = result.times(self, round);
            }
        }
        result
    }

    /// ⌊log₂⌋ of this number, which is not 0.
    pub fn log2(self) -> i64 {
        self.exponent + 63
    }

    /// Whether this number is at most the other.
    pub fn at_most(self, other: Scaled) -> bool {
        match (self.mantissa, other.mantissa) {
            (0, _) => true,
            (_, 0) => false,
            (a, b) => (self.exponent, a) <= (other.exponent, b),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(value: u64) -> Scaled {
        Scaled::power_of_two(0).times_whole(value, Round::Up)
    }

    fn close(scaled: Scaled, value: f64) -> bool {
        let found = (scaled.mantissa as f64).log2() + scaled.exponent as f64;
        (found - value.log2()).abs() < 1e-9
    }

    proptest! {
        #[test]
        fn results_are_near_and_on_their_side(a in 1u64.., b in 1u64.., power in 0u64..20) {
            for round in [Round::Up, Round::Down] {
                prop_assert!(close(whole(a).times(whole(b), round), a as f64 * b as f64));
                prop_assert!(close(whole(a).plus(whole(b), round), a as f64 + b as f64));
                prop_assert!(close(whole(a).times_whole(b, round), a as f64 * b as f64));
                prop_assert!(close(whole(a).over(b, round), a as f64 / b as f64));
                let powered = (whole(a).power(power, round), (a as f64).log2() * power as f64);
                let log = (powered.0.mantissa as f64).log2() + powered.0.exponent as f64;
                prop_assert!((log - powered.1).abs() < 1e-6);
                prop_assert_eq!(whole(a).log2(), i64::from(a.ilog2()));
            }
            let (low, high) = (whole(a).over(b, Round::Down), whole(a).over(b, Round::Up));
            prop_assert!(low.at_most(high));
            prop_assert!(low.times_whole(b, Round::Down).at_most(whole(a)));
            prop_assert!(whole(a).at_most(high.times_whole(b, Round::Up)));
            prop_assert_eq!(whole(a).at_most(whole(b)), a <= b);
            // Far apart, near, and with bits that are lost.
            for shift in [0u32, 1, 40, 62, 63, 64, 100, 126, 127, 128, 1000] {
                let tiny = whole(b).times(Scaled::power_of_two(-i64::from(shift)), Round::Down);
                let (low, high) = (
                    whole(a).plus(tiny, Round::Down),
                    whole(a).plus(tiny, Round::Up),
                );
                prop_assert_eq!(tiny.plus(whole(a), Round::Up), high);
                prop_assert!(low.at_most(high) && whole(a).at_most(low) && tiny.at_most(low));
                // Exact over a common denominator, where that fits.
                if shift <= 63 {
                    let exact = (u128::from(a) << shift) + u128::from(b);
                    let scale = Scaled::power_of_two(-i64::from(shift));
                    let of = |round| Scaled::new(exact, 0, round).times(scale, round);
                    prop_assert_eq!((low, high), (of(Round::Down), of(Round::Up)));
                }
            }
        }
    }

    #[test]
    fn zero_is_the_least() {
        let zero = whole(0);
        assert!(zero.at_most(whole(1)) && zero.at_most(zero) && !whole(1).at_most(zero));
        assert_eq!(zero.times(whole(5), Round::Up), zero);
        assert_eq!(zero.plus(whole(5), Round::Up), whole(5));
        assert_eq!(whole(7).power(0, Round::Up), whole(1));
    }
}
