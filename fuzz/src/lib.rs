//! Fuzz targets for everything that a peer or a file can say.
//!
//! A target is a function from bytes that must return, whatever the bytes are: no panic, no
//! endless loop, no memory beyond what the input justifies. Where a value is decoded, the target
//! also checks that it comes back from its own encoding. `scripts/fuzz.py` builds and runs them.
#![forbid(unsafe_code)]

pub mod offline;
pub mod plain;
pub mod psi;
pub mod published;
pub mod record;
pub mod script;
pub mod session;
pub mod stores;
pub mod tables;
pub mod transfers;
pub mod wire;

#[cfg(feature = "libfuzzer")]
#[doc(hidden)]
pub use libfuzzer_sys;

/// Keeps panics that become errors from the driver, as the command keeps them from standard error.
pub fn hide_caught_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !vesica_tables::panic_is_caught() {
            report(info);
        }
    }));
}

/// Makes a target's program from its function.
#[cfg(feature = "libfuzzer")]
#[macro_export]
macro_rules! target {
    ($function:path) => {
        $crate::libfuzzer_sys::fuzz_target!(init: $crate::hide_caught_panics(), |bytes: &[u8]| {
            $function(bytes)
        });
    };
}

/// Makes a target's program from its function.
#[cfg(not(feature = "libfuzzer"))]
#[macro_export]
macro_rules! target {
    ($function:path) => {
        fn main() -> std::process::ExitCode {
            $crate::hide_caught_panics();
            $crate::plain::main($function)
        }
    };
}
