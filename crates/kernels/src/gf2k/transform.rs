//! The basis of the transforms, and evaluation in it.

use super::Field;
use crate::Backend;
use crate::additive::LOG_IN_CACHE;

/// The largest transform has 2^this elements.
pub const MAX_LOG: u32 = 32;

/// Indices of elements have this many bits.
const INDEX_BITS: usize = 64;

/// The basis, and the factors of transforms in it.
pub struct Transform {
    pub(super) field: Field,
    /// δ_i, for i up to [`MAX_LOG`]; δ_0 is 1.
    pub(super) deltas: Vec<u128>,
    /// ŝ_i(β_j) per layer i, shifted.
    basis: Vec<[u128; INDEX_BITS]>,
    /// Per layer i below [`LOG_IN_CACHE`], ŝ_i at the elements with indices j·2^(i+1), shifted.
    pub(super) factors: Vec<Vec<u128>>,
}

impl Transform {
    /// Transforms of up to 2^[`MAX_LOG`] elements; takes some 50 KiB.
    pub fn new(field: Field) -> Self {
        let mut values: [u128; INDEX_BITS] = std::array::from_fn(|j| 1 << j);
        let mut deltas = vec![1];
        let shifted = |values: &[u128; INDEX_BITS]| values.map(|v| v << field.shift());
        let mut basis = vec![shifted(&values)];
        for i in 0..MAX_LOG as usize {
            let before = values;
            field.multiply_assign(Backend::Best, &mut values, &before);
            values.iter_mut().zip(before).for_each(|(v, b)| *v ^= b);
            let mut delta = [values[i + 1]];
            // ŝ_i(β_{i+1}) is neither 0 nor 1, as β_{i+1} is in neither coset of V_i that those belong to.
            assert!(field.invert_all(Backend::Best, &mut delta));
            field.scale_assign(Backend::Best, &mut values, delta[0]);
            deltas.push(delta[0]);
            basis.push(shifted(&values));
        }
        let factors = (0..LOG_IN_CACHE as usize).map(|i| {
            let mut factors = vec![0];
            for beta in &basis[i][i + 1..LOG_IN_CACHE as usize] {
                for j in 0..factors.len() {
                    factors.push(factors[j] ^ beta);
                }
            }
            factors
        });
        let factors = factors.collect();
        Transform {
            field,
            deltas,
            basis,
            factors,
        }
    }

    /// The field of the elements.
    pub fn field(&self) -> Field {
        self.field
    }

    /// δ_i of the recurrence ŝ_i = δ_i·(ŝ_{i−1}² + ŝ_{i−1}); 1 for i = 0.
    ///
    /// # Panics
    /// If i is above [`MAX_LOG`].
    pub fn delta(&self, i: u32) -> u128 {
        self.deltas[i as usize]
    }

    /// ŝ_i at the element with index `index`.
    ///
    /// # Panics
    /// If i is above [`MAX_LOG`].
    pub fn subspace_value(&self, i: u32, index: u64) -> u128 {
        self.shifted_value(i, index) >> self.field.shift()
    }

    #[inline(always)]
    pub(super) fn shifted_value(&self, i: u32, index: u64) -> u128 {
        let basis = &self.basis[i as usize];
        let (mut sum, mut left) = (0, index >> i);
        while left != 0 {
            sum ^= basis[(i + left.trailing_zeros()) as usize];
            left &= left - 1;
        }
        sum
    }
}
