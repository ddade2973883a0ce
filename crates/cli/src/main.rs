//! The `vesica` command.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use vesica_kernels::memory::HugePages;
use vesica_kernels::process::OrExit;

/// Runs touch a lot of fresh memory, in random order.
#[global_allocator]
static ALLOCATOR: OrExit<HugePages> = OrExit {
    allocator: HugePages,
    message: vesica_cli::OUT_OF_MEMORY,
    code: vesica_cli::OUT_OF_RESOURCES,
    exits: AtomicBool::new(true),
};

fn main() -> ExitCode {
    vesica_cli::main()
}
