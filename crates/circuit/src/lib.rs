//! Functions of an intersection that stays secret: a share engine for two parties on random correlated OTs (COTs) and
//! entries of a subfield VOLE.
//!
//! **Papers.** N. Chandran, D. Gupta, A. Shah, *Circuit-PSI with Linear Complexity via Relaxed Batch OPPRF*, PETS
//! 2022 (CGS22): membership (Figure 6) and the functions of sections 5 and 6. The modules cite what else they use.
//!
//! **Adversary.** Semi-honest. Frames of a wrong length and stray bits are errors; wrong values make wrong results.
//!
//! **Roles.** The PSI [`Receiver`] did the cuckoo hashing: it has one string per bin, or three candidates, and is
//! the COT sender of the main direction. The PSI [`Sender`] has the programmed string of each bin. Some functions
//! need a second source of COTs in the reverse direction. The receiver alone learns the result of a function, unless it
//! [tells](Answer::tell) the sender.
//!
//! **What is revealed.** The numbers of bins and of bits, and the function's result to the receiver. Which frames
//! are sent, and their lengths, depend on these numbers and on the minimum alone; so do time and addresses.
//!
//! **Costs** per bin, without the sources' own; [`cost`] has them for every number of bins, and k is the number of bits of
//! the number of bins.
//!
//! | operation | entries | COTs | reverse | bits of the receiver | bits of the sender | flows |
//! |---|---|---|---|---|---|---|
//! | equality of 61 bits | 20 | 0 | 0 | 300 | 80 | 6 |
//! | equality of 63 bits | 21 | 0 | 0 | 307 | 84 | 6 |
//! | equality of 64 bits | 21 | 0 | 0 | 315 | 84 | 6 |
//! | one of 61 bits among three | 30 | 0 | 0 | 900 | 120 | 6 |
//! | one of 64 bits among three | 31 | 0 | 0 | 945 | 124 | 6 |
//! | size | 0 | 1 | 0 | k | 1 | 3 |
//! | sum of the receiver's payloads | 0 | 1 | 0 | 64 | 1 | 3 |
//! | sum of the sender's payloads | 0 | 1 | 1 | 65 | 65 | 3 |
//! | inner product | 0 | 65 | 1 | 2145 | 129 | 5 |
//! | order that the receiver chooses, l = ⌈log₂ bins⌉ | 0 | 0 | below l | below l | below l + 1 | 2 |
//! | row of w bits that the receiver hands over, or not | 0 | 1 | 0 | w + 72 | 1 | 2 |
//!
//! Sizes, sums and products of one run add up, and are opened together. A minimum adds one or two bits per bin to a size,
//! and a size to any other number, with two more COTs and four bits for each of the sender's payloads; besides some fourteen
//! flows and costs that hardly depend on the number of bins. Flows are one-way delays of the network. Each operation
//! works on windows of bins, whose pads take 32 MiB at most (2^20 bins of 64-bit strings, some 350,000 of three
//! candidates, 2^20 products, 2^16 terms of an inner product), and takes two flows for each window; the table has
//! them for one. It is by digits of [`WIDTH`] bits. Runs that save bytes have digits of [`NARROW`] bits.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod arithmetic;
mod bits;
mod compare;
pub mod cost;
mod cots;
mod digits;
mod engine;
mod functions;
#[cfg(test)]
mod harness;
mod id_list;
mod membership;
pub mod messages;
mod network;
mod permute;
mod pipeline;
mod rows;
mod triples;
#[cfg(test)]
mod views;

pub use bits::BitShares;
pub use cots::{NARROW, WIDTH, entry_delta_bits};
pub use digits::{MAX_BITS, PADS_PER_KEY};
pub use engine::{Receiver, Sender};
pub use functions::{Answer, Least, Number, Payloads};
pub use membership::{Compared, Drawn, DrawnPads};
pub use pipeline::{
    CircuitPsi, ID_EVENTS, MAX_PLACES, Okvs, OneOfThree, PROTOCOLS, Plain, Psm1, Psm2, Recipe,
    Stages, Test, Twice, id_bits,
};
pub use rows::Width;
