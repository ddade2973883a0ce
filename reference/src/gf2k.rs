//! GF(2^k) for k up to 128, a bit at a time, and polynomials over it by their definitions.
//!
//! An element is a string of k bits, bit i the coefficient of x^i. A polynomial is given by its
//! coefficients of 1, x, x², … or of X_0, X_1, …: with s_i(x) the product of x + v over all v below 2^i and
//! ŝ_i = s_i/s_i(2^i), X_j is the product of ŝ_i over the set bits i of j.

/// A field, by the degree and the lower terms of its modulus.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// k.
    pub bits: u32,
    /// The modulus without x^k.
    pub low: u128,
}

impl Field {
    /// The field of 2^`bits` elements whose modulus is the trinomial with the least middle exponent, or if
    /// there is none the pentanomial whose exponents, from the top, come first.
    pub fn new(bits: u32) -> Field {
        let trinomials = (1..bits).map(|a| 1 | 1 << a);
        let pentanomials = (3..bits).flat_map(|a| {
            (2..a).flat_map(move |b| (1..b).map(move |c| 1 | 1 << a | 1 << b | 1 << c))
        });
        trinomials
            .chain(pentanomials)
            .map(|low| Field { bits, low })
            .find(|field| field.is_irreducible())
            .expect("there is one for every degree in use")
    }

    /// Ben-Or's test: x^(2^i) + x shares no factor with the modulus for any i up to k/2.
    pub fn is_irreducible(self) -> bool {
        let mut power = 2;
        (0..self.bits / 2).all(|_| {
            power = self.multiply(power, power);
            self.shares_no_factor(power ^ 2)
        })
    }

    /// Whether the greatest common divisor of the modulus and a polynomial of degree below k is 1.
    fn shares_no_factor(self, a: u128) -> bool {
        if a < 2 {
            return a == 1;
        }
        let x_to_k = (0..self.bits).fold(1, |power, _| remainder(power << 1, a));
        let (mut a, mut b) = (a, x_to_k ^ remainder(self.low, a));
        while b != 0 {
            (a, b) = (b, remainder(a, b));
        }
        a == 1
    }

    /// Product.
    pub fn multiply(self, a: u128, b: u128) -> u128 {
        let top = 1 << (self.bits - 1);
        (0..self.bits).rev().fold(0, |product: u128, bit| {
            let doubled = if product & top == 0 {
                product << 1
            } else {
                (product ^ top) << 1 ^ self.low
            };
            doubled ^ (a * (b >> bit & 1))
        })
    }

    /// a^(2^k − 2).
    pub fn invert(self, a: u128) -> u128 {
        let (mut power, mut result) = (a, 1);
        for _ in 1..self.bits {
            power = self.multiply(power, power);
            result = self.multiply(result, power);
        }
        result
    }

    /// ŝ_i(x).
    pub fn subspace_value(self, i: u32, x: u128) -> u128 {
        let s = |x: u128| (0..1 << i).fold(1, |s, v| self.multiply(s, x ^ v));
        self.multiply(s(x), self.invert(s(1 << i)))
    }

    /// X_0(x) … X_{n−1}(x).
    pub fn basis_at(self, x: u128, n: usize) -> Vec<u128> {
        let mut basis = vec![1];
        for i in 0.. {
            if basis.len() >= n {
                break;
            }
            let s = self.subspace_value(i, x);
            let upper: Vec<u128> = basis.iter().map(|b| self.multiply(*b, s)).collect();
            basis.extend(upper);
        }
        basis.truncate(n);
        basis
    }

    /// The value at `x` of the polynomial with these coefficients of X_0, X_1, ….
    pub fn evaluate(self, coefficients: &[u128], x: u128) -> u128 {
        self.basis_at(x, coefficients.len())
            .into_iter()
            .zip(coefficients)
            .fold(0, |sum, (b, c)| sum ^ self.multiply(b, *c))
    }

    /// The value at `x` of the polynomial with these coefficients of 1, x, ….
    pub fn evaluate_monomial(self, coefficients: &[u128], x: u128) -> u128 {
        coefficients
            .iter()
            .rev()
            .fold(0, |value, c| self.multiply(value, x) ^ c)
    }

    /// The value at `x` of the polynomial of degree below n through n points, by Lagrange's formula.
    pub fn lagrange_at(self, points: &[u128], values: &[u128], x: u128) -> u128 {
        let mut sum = 0;
        for (i, (xi, yi)) in points.iter().zip(values).enumerate() {
            let (mut top, mut bottom) = (*yi, 1);
            for (j, xj) in points.iter().enumerate() {
                if i != j {
                    top = self.multiply(top, x ^ xj);
                    bottom = self.multiply(bottom, xi ^ xj);
                }
            }
            sum ^= self.multiply(top, self.invert(bottom));
        }
        sum
    }
}

/// a modulo b, as polynomials.
fn remainder(mut a: u128, b: u128) -> u128 {
    while a != 0 && a.ilog2() >= b.ilog2() {
        a ^= b << (a.ilog2() - b.ilog2());
    }
    a
}
