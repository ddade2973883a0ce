//! The module `vesica._vesica`: identities, links and runs for the Python package, which adds the arguments'
//! defaults and the types of results.
//!
//! A run has a thread of its own. The thread that called waits for it without the interpreter's lock, hands its
//! events to Python, and looks for Ctrl-C.

mod arguments;
mod check;
mod command;
mod digests;
mod errors;
mod events;
mod exchange;
mod identity;
mod link;
mod options;
mod plan;
mod published;
mod run;
mod stream;
mod supervise;
mod tasks;

use std::sync::atomic::AtomicBool;

use vesica_kernels::memory::HugePages;
use vesica_kernels::process::OrExit;

/// Runs touch a lot of fresh memory, in random order. Only the command ends the process where there is none left.
#[global_allocator]
static ALLOCATOR: OrExit<HugePages> = OrExit {
    allocator: HugePages,
    message: vesica_cli::OUT_OF_MEMORY,
    code: vesica_cli::OUT_OF_RESOURCES,
    exits: AtomicBool::new(false),
};

/// Private set intersection, without the defaults and types of the package `vesica`.
#[pyo3::pymodule]
mod _vesica {
    use std::panic;

    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::arguments::check_arguments;
    #[pymodule_export]
    use crate::check::check;
    #[pymodule_export]
    use crate::command::run_command;
    #[pymodule_export]
    use crate::digests::{DigestSet, KeyReader, distinct};
    #[pymodule_export]
    use crate::exchange::exchange;
    #[pymodule_export]
    use crate::identity::Identity;
    #[pymodule_export]
    use crate::link::{Link, connect, listen};
    #[pymodule_export]
    use crate::options::seconds;
    #[pymodule_export]
    use crate::plan::plan;
    #[pymodule_export]
    use crate::published::{LookupHandle, Server, open_lookup, publish, serve};
    #[pymodule_export]
    use crate::run::run;
    #[pymodule_export]
    use crate::stream::Batches;
    #[pymodule_export]
    use crate::supervise::wait_for_runs;
    #[pymodule_export]
    use crate::tasks::{SplitJob, split, split_elsewhere};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        let terms: Vec<&str> = vesica::Terms::options().map(|(name, _)| name).collect();
        module.add("TERMS", terms)?;
        // This hook is the module's own and hears of no other code. What a damaged file does to the library that
        // reads it becomes an error of its own.
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !vesica::tables::panic_is_caught() {
                report(info);
            }
        }));
        Ok(())
    }
}
