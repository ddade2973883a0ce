//! The `vesica` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use vesica_kernels::memory::HugePages;
use vesica_kernels::process::OrExit;

/// Runs touch a lot of fresh memory, in random order.
#[global_allocator]
static ALLOCATOR: OrExit<HugePages> = OrExit {
    allocator: HugePages,
    message: "vesica: out of memory\n\
              hint: give --memory a smaller size, or this process a larger limit (ulimit -v)\n",
    code: vesica_cli::OUT_OF_RESOURCES,
};

fn main() -> ExitCode {
    vesica_cli::main()
}
