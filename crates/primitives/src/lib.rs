//! The cryptographic building blocks that protocols share, with no knowledge of sockets or files.
//!
//! | module | what |
//! |---|---|
//! | [`block`] | 128-bit blocks, AES as generator and as hash |
//! | [`curve`] | Curve25519 key pairs whose public key looks like a random string, and hashing to the curve |
//! | [`kem`] | ML-KEM-768, a key encapsulation mechanism |
//! | [`laplace`] | exact discrete Laplace noise, and ε |
//! | [`load`] | how full the fullest of many bins gets |
//! | [`opaque!`](opaque) | `Debug` of types that hold secrets |
//! | [`oracle`] | random oracles bound to a run |
//! | [`parallel`] | loops over the threads of the current pool |
//! | [`permutation`] | Rijndael-256 under a key of the run, an ideal permutation of 256-bit strings |
//! | [`polynomial`] | interpolation and evaluation over GF(2^256), and GF(2^k) for k from 65 to 128 |
//! | [`prime`] | prime moduli of at most 63 bits, uniform residues |
//! | [`scaled`] | numbers with directed rounding, for parameter functions |
//! | [`sealed`] | messages that outlive a process, encrypted under a long-lived key |
//! | [`security`] | the adversary of a run, and how its events share 2^-λ |
//! | [`voprf`] | the oblivious pseudorandom function of RFC 9497 over ristretto255 |

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod block;
pub mod curve;
pub mod kem;
pub mod laplace;
pub mod load;
mod opaque;
pub mod oracle;
pub mod parallel;
pub mod permutation;
pub mod polynomial;
pub mod prime;
pub mod scaled;
pub mod sealed;
pub mod security;
pub mod voprf;
pub mod yardstick;
