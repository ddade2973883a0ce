//! The real binary, two processes, TLS on this machine.

mod commands;
mod input;
mod large;
#[cfg(target_os = "linux")]
mod limits;
mod peers;
mod support;
mod tables;
mod vole;
mod word_lists;
