//! The real binary, two processes, TLS on this machine.

mod accounts;
mod align;
mod answers;
#[cfg(target_os = "linux")]
mod cheats;
mod cleaning;
#[cfg(target_os = "linux")]
mod codes;
mod columns;
mod commands;
mod courier;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod crash;
#[cfg(unix)]
mod databases;
#[cfg(unix)]
mod declared;
#[cfg(unix)]
mod documented;
mod doubtful;
mod exports;
mod faults;
mod groups;
#[cfg(unix)]
mod hang_up;
mod identifiers;
mod ids;
mod input;
#[cfg(unix)]
mod invitations;
mod joins;
mod large;
mod lengths;
#[cfg(target_os = "linux")]
mod life;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(unix)]
mod misplaced;
mod noise;
mod objects;
mod offline;
#[cfg(unix)]
mod options;
#[cfg(unix)]
mod paths;
mod peers;
mod permutation;
mod plan;
#[cfg(unix)]
mod published;
mod random;
#[cfg(unix)]
mod reach;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod recorder;
#[cfg(unix)]
mod secrets;
#[cfg(unix)]
mod strays;
mod support;
#[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
mod system_faults;
mod tables;
mod tap;
mod tasks;
mod timing;
mod trial;
mod union;
mod values;
mod variables;
mod vole;
mod word_lists;

/// As the command has it: tests that measure time or memory in this process measure the same.
#[global_allocator]
static ALLOCATOR: vesica_kernels::memory::HugePages = vesica_kernels::memory::HugePages;
