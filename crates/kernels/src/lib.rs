//! The arithmetic that decides how fast the engine is, and the only `unsafe` code.
//!
//! Every kernel exists in a portable version, which defines its meaning, and in versions for wider
//! machines. The choice is made at run time, once a whole batch; nothing depends on compile-time
//! target features. [`backends`] tells what was chosen, and each kernel can be asked for its
//! portable version, which is what the tests compare against.
//!
//! | module | portable | x86-64 |
//! |---|---|---|
//! | [`curve25519`] | one lane, radix 2^51 | eight lanes, AVX-512 IFMA |
//! | [`binary`] | GF(2^64) and GF(2^256) on 64-bit integers | PCLMULQDQ, and VPCLMULQDQ for transforms |
//! | [`transpose`] | squares of 128 by 128 bits | GFNI with AVX-512 VBMI, or AVX2 |

pub mod binary;
pub mod curve25519;
pub mod transpose;

/// Which version of a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The best that this machine offers.
    Best,
    /// The version that defines the meaning.
    Portable,
}

/// Kernel and chosen version, for reports and for tests that must not skip a backend silently.
pub fn backends() -> [(&'static str, &'static str); 3] {
    [
        ("curve25519", curve25519::backend_name()),
        ("binary", binary::backend_name()),
        ("transpose", transpose::backend_name()),
    ]
}
