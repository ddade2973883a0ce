//! Points of the twisted Edwards form −x² + y² = 1 + d·x²y², with u = (1 + y)/(1 − y).
//!
//! The sum of two points is one formula without exceptions (Hisil, Wong, Carter and Dawson, ASIACRYPT 2008).

use super::Bytes32;
use super::field::Lanes;

/// d = −121665/121666.
pub(super) const D: Bytes32 = [
    0xa3, 0x78, 0x59, 0x13, 0xca, 0x4d, 0xeb, 0x75, 0xab, 0xd8, 0x41, 0x41, 0x4d, 0x0a, 0x70, 0x00,
    0x98, 0xe8, 0x79, 0x77, 0x79, 0x40, 0xc7, 0x8c, 0x73, 0xfe, 0x6f, 0x2b, 0xee, 0x6c, 0x03, 0x52,
];

/// (X : Y : Z : T) with x = X/Z, y = Y/Z and T = XY/Z.
#[derive(Clone, Copy)]
pub(super) struct Extended<F>(pub(super) [F; 4]);

/// A point to be added to others: Y + X, Y − X, 2d·T and 2Z.
pub(super) type Addend<F> = [F; 4];

impl<F: Lanes> Extended<F> {
    #[inline(always)]
    pub(super) fn neutral() -> Self {
        let (zero, one) = (F::small(0), F::small(1));
        Extended([zero, one, one, zero])
    }

    /// The sum with (x, y), from (y + x), (y − x) and 2d·xy times its z, and twice the product of both z.
    #[inline(always)]
    pub(super) fn add(self, [plus, minus, product]: [F; 3], double_z: F) -> Self {
        let Extended([x, y, _, t]) = self;
        let a = y.sub(x).mul(minus);
        let b = y.add(x).mul(plus);
        let c = t.mul(product);
        let (e, f, g, h) = (b.sub(a), double_z.sub(c), double_z.add(c), b.add(a));
        Extended([e.mul(f), g.mul(h), f.mul(g), e.mul(h)])
    }

    #[inline(always)]
    pub(super) fn addend(self, d: F) -> Addend<F> {
        let Extended([x, y, z, t]) = self;
        [y.add(x), y.sub(x), t.mul(d.add(d)), z.add(z)]
    }

    #[inline(always)]
    pub(super) fn plus(self, [plus, minus, product, double_z]: Addend<F>) -> Self {
        let z = self.0[2].mul(double_z);
        self.add([plus, minus, product], z)
    }

    /// The multiple by 16.
    #[inline(always)]
    pub(super) fn times_16(self) -> Self {
        let Extended([mut x, mut y, mut z, mut t]) = self;
        for doubling in 0..4 {
            let (xx, yy, zz) = (x.square(), y.square(), z.square());
            let (g, h) = (yy.sub(xx), yy.add(xx));
            let (e, f) = (x.add(y).square().sub(h), zz.add(zz).sub(g));
            (x, y, z) = (e.mul(f), g.mul(h), f.mul(g));
            // No doubling needs T.
            if doubling == 3 {
                t = e.mul(h);
            }
        }
        Extended([x, y, z, t])
    }
}
