//! GF(2^256) as the tower over GF(2^64), a bit at a time, and polynomials over it by Lagrange's formula.
//!
//! A polynomial is given by its coefficients of X_0, X_1, …, where X_j is the product of s_i over the set
//! bits i of j, s_0 = x and s_{i+1} = s_i² + s_i.

/// Coefficients in GF(2^64) of 1, u, w and u·w.
pub type Element = [u64; 4];

fn multiply_64(a: u64, b: u64) -> u64 {
    (0..64).rev().fold(0, |product: u64, bit| {
        let doubled = (product << 1) ^ ((product >> 63) * 0x1b);
        doubled ^ (a * (b >> bit & 1))
    })
}

/// Modulo u² + x·u + 1.
fn multiply_128(a: [u64; 2], b: [u64; 2]) -> [u64; 2] {
    let uu = multiply_64(a[1], b[1]);
    [
        multiply_64(a[0], b[0]) ^ uu,
        multiply_64(a[0], b[1]) ^ multiply_64(a[1], b[0]) ^ multiply_64(uu, 2),
    ]
}

/// Sum.
pub fn add(a: Element, b: Element) -> Element {
    std::array::from_fn(|i| a[i] ^ b[i])
}

/// Product, modulo w² + (x²·u)·w + 1.
pub fn multiply(a: Element, b: Element) -> Element {
    let (a, b) = ([[a[0], a[1]], [a[2], a[3]]], [[b[0], b[1]], [b[2], b[3]]]);
    let low = multiply_128(a[0], b[0]);
    let ww = multiply_128(a[1], b[1]);
    let crossed = [multiply_128(a[0], b[1]), multiply_128(a[1], b[0])];
    let folded = multiply_128(ww, [0, 4]);
    [
        low[0] ^ ww[0],
        low[1] ^ ww[1],
        crossed[0][0] ^ crossed[1][0] ^ folded[0],
        crossed[0][1] ^ crossed[1][1] ^ folded[1],
    ]
}

/// a^(2^256 − 2).
pub fn invert(a: Element) -> Element {
    let mut power = a;
    let mut result = [1, 0, 0, 0];
    for _ in 1..256 {
        power = multiply(power, power);
        result = multiply(result, power);
    }
    result
}

/// X_0(x) … X_{n−1}(x).
pub fn basis_at(x: Element, n: usize) -> Vec<Element> {
    let mut basis = vec![[1, 0, 0, 0]];
    let mut s = x;
    while basis.len() < n {
        let upper: Vec<Element> = basis.iter().map(|b| multiply(*b, s)).collect();
        basis.extend(upper);
        s = add(multiply(s, s), s);
    }
    basis.truncate(n);
    basis
}

/// The value at `x` of the polynomial with these coefficients.
pub fn evaluate(coefficients: &[Element], x: Element) -> Element {
    basis_at(x, coefficients.len())
        .into_iter()
        .zip(coefficients)
        .fold([0; 4], |sum, (b, c)| add(sum, multiply(b, *c)))
}

/// The value at `x` of the polynomial of degree below n through n points, by Lagrange's formula.
pub fn lagrange_at(points: &[Element], values: &[Element], x: Element) -> Element {
    let mut sum = [0; 4];
    for (i, (xi, yi)) in points.iter().zip(values).enumerate() {
        let (mut top, mut bottom) = (*yi, [1, 0, 0, 0]);
        for (j, xj) in points.iter().enumerate() {
            if i != j {
                top = multiply(top, add(x, *xj));
                bottom = multiply(bottom, add(*xi, *xj));
            }
        }
        sum = add(sum, multiply(top, invert(bottom)));
    }
    sum
}
