//! Base oblivious transfers from key agreement on Curve25519.
