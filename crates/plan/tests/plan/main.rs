//! The registry's protocols, against plain computations and peers that cheat.

mod labels;
mod lambda;
mod pads;
mod protocols;
mod traffic;
