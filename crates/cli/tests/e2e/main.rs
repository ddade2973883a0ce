//! The real binary, two processes, TLS on this machine.

mod commands;
mod input;
mod peers;
mod support;
mod tables;
mod word_lists;
