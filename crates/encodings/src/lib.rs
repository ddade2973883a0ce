//! How a set becomes one message.
#![forbid(unsafe_code)]
