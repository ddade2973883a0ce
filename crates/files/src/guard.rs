//! Panics of third-party readers, made into values.
//!
//! Readers of other people's formats check their input but have panicked on malformed input before, and a damaged file must be
//! one clear line and an exit code. Calls into them go through [`catching`].

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would become an error about the input, so that the program's panic hook has nothing to
/// report.
pub fn panic_is_caught() -> bool {
    CAUGHT.get()
}

/// Runs `f`; a panic in it becomes its message.
///
/// Whatever `f` was working on must not be used again after an `Err`.
///
/// # Errors
/// The message.
pub fn catching<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let outer = CAUGHT.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    CAUGHT.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("the reader gave up")
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(catching(panic_is_caught), Ok(true));
        assert!(!panic_is_caught());
        let len = std::hint::black_box(0usize);
        let caught = catching(|| [1, 2, 3][..len][0]);
        assert!(caught.is_err_and(|m| m.contains("out of bounds")));
    }
}
