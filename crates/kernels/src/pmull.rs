//! Carry-less products in vectors of two words, by PMULL of ARMv8, for functions that are compiled for it.
//!
//! Nothing here is `unsafe` to call, so that formulas stay legible, but every caller must have been entered
//! behind [`available`].

use core::arch::aarch64::*;

use crate::Backend;

/// Whether the functions of this module may run.
pub(crate) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && cfg!(target_endian = "little")
        // PMULL of 64-bit words, too.
        && std::arch::is_aarch64_feature_detected!("aes")
}

/// Compiled for the instruction, unlike what is inlined into its callers.
#[target_feature(enable = "neon,aes")]
#[inline]
fn low_product(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let (a, b) = (vgetq_lane_u64::<0>(a), vgetq_lane_u64::<0>(b));
    vreinterpretq_u64_p128(vmull_p64(a, b))
}

#[target_feature(enable = "neon,aes")]
#[inline]
fn high_product(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    let (a, b) = (vreinterpretq_p64_u64(a), vreinterpretq_p64_u64(b));
    vreinterpretq_u64_p128(vmull_high_p64(a, b))
}

/// The product of the low words.
#[inline(always)]
pub(crate) fn low(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    // SAFETY: see the module.
    unsafe { low_product(a, b) }
}

/// The product of the high words.
#[inline(always)]
pub(crate) fn high(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    // SAFETY: see the module.
    unsafe { high_product(a, b) }
}

#[inline(always)]
pub(crate) fn xor(a: uint64x2_t, b: uint64x2_t) -> uint64x2_t {
    // SAFETY: NEON is part of every aarch64.
    unsafe { veorq_u64(a, b) }
}

/// The two words in the other order.
#[inline(always)]
pub(crate) fn swap(v: uint64x2_t) -> uint64x2_t {
    // SAFETY: NEON is part of every aarch64.
    unsafe { vextq_u64::<1>(v, v) }
}

/// The low word in the high one's place, and 0 below.
#[inline(always)]
pub(crate) fn word_up(v: uint64x2_t) -> uint64x2_t {
    // SAFETY: NEON is part of every aarch64.
    unsafe { vextq_u64::<1>(vdupq_n_u64(0), v) }
}

/// The high word in the low one's place, and 0 above.
#[inline(always)]
pub(crate) fn word_down(v: uint64x2_t) -> uint64x2_t {
    // SAFETY: NEON is part of every aarch64.
    unsafe { vextq_u64::<1>(v, vdupq_n_u64(0)) }
}
