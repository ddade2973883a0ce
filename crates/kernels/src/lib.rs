//! The arithmetic that determines the speed of the protocols, and the only `unsafe` code.
//!
//! Every kernel exists in a portable version, which defines its meaning, and in versions for wider vector
//! units. The choice is made at run time, once per batch; nothing depends on compile-time target features.
//! [`memory`] has the command's allocator, [`process`] what else the command needs from the system, and `windows` what
//! only Windows has.
//! [`backends`] reports the choices. Each kernel can also be asked for its portable version, against which
//! the tests compare.
//!
//! | module | portable | x86-64 | aarch64 |
//! |---|---|---|---|
//! | [`aes`] | the `aes` crate | thirty-two blocks, VAES with AVX-512, or eight, AES-NI | eight blocks, AES of ARMv8 |
//! | [`curve25519`] | one lane, radix 2^51 | eight lanes, AVX-512 IFMA, or four, AVX2 | |
//! | [`band`] | tables of four columns | eight rows, GFNI with AVX-512 VBMI or AVX2, or sixteen, AVX2 alone | |
//! | [`binary`] | GF(2^64) and GF(2^256) on 64-bit integers | PCLMULQDQ, and VPCLMULQDQ for transforms | PMULL |
//! | [`gf2k`] | GF(2^k) for k from 65 to 128 on 64-bit integers | PCLMULQDQ, and four products by VPCLMULQDQ | PMULL |
//! | [`blake3`] | one lane | sixteen lanes, AVX-512, or eight, AVX2 | |
//! | [`code`] | four rows at a time, by tables | the same on AVX2, or rows in 512-bit registers | |
//! | [`residues`] | 32-bit and 64-bit integers | the same for AVX2 and AVX-512 | |
//! | [`subfield`] | products over GF(2^w), w at most 4, a sum per bit of a coefficient | two sums per register, AVX2, or four, AVX-512 | |
//! | [`transpose`] | squares of 128 by 128 bits | GFNI with AVX-512 VBMI, or AVX2 | |

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod additive;
pub mod aes;
mod backend;
pub mod band;
pub mod binary;
pub mod blake3;
pub mod code;
pub mod curve25519;
#[cfg(any(windows, test))]
pub mod descriptor;
pub mod gf2k;
pub mod memory;
#[cfg(target_arch = "aarch64")]
mod pmull;
pub mod process;
pub mod residues;
pub mod subfield;
pub mod transpose;
#[cfg(windows)]
pub mod windows;

pub use backend::{Backend, limit};

/// Each kernel, and the version that `backend` stands for on this machine.
pub fn backends(backend: Backend) -> [(&'static str, &'static str); 10] {
    [
        ("aes", aes::backend_name(backend)),
        ("curve25519", curve25519::backend_name(backend)),
        ("band", band::backend_name(backend)),
        ("binary", binary::backend_name(backend)),
        ("gf2k", gf2k::backend_name(backend)),
        ("blake3", blake3::backend_name(backend)),
        ("code", code::backend_name(backend)),
        ("residues", residues::backend_name(backend)),
        ("subfield", subfield::backend_name(backend)),
        ("transpose", transpose::backend_name(backend)),
    ]
}

/// Prefetches the cache line of an element that will be needed soon; an index out of range is harmless and
/// useless.
#[inline(always)]
pub fn prefetch<T>(slice: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(slice.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (slice, index);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests of each kernel run all of these.
    #[test]
    fn versions_that_this_machine_lacks_are_named() {
        for backend in Backend::ALL {
            println!("{backend:?}: {:?}", backends(backend));
        }
        for (kernel, version) in backends(Backend::Portable) {
            assert!(version.starts_with("portable"), "{kernel}: {version}");
        }
    }
}
