//! Panics of third-party readers, made into values.
//!
//! The Parquet and Arrow readers, and the phone parser, check their input but have panicked on
//! malformed input before, and a damaged file must be one clear line and an exit code. Calls
//! into them go through [`quietly`].

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`; a panic in it becomes its message, and is not reported on standard error.
///
/// Whatever `f` was working on must not be used again after an `Err`.
pub(crate) fn quietly<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                previous(info);
            }
        }));
    });
    let outer = QUIET.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(f));
    QUIET.set(outer);
    result.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("the reader gave up")
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::quietly;

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(quietly(|| 5), Ok(5));
        let len = std::hint::black_box(0usize);
        let caught = quietly(|| [1, 2, 3][..len][0]);
        assert!(caught.is_err_and(|m| m.contains("out of bounds")));
    }
}
