//! Files and directories that outlive a run or that somebody else has named: opened without waiting, written whole or
//! not at all, and in places that only this user may change. Also what errors of every crate share: whether a limit of
//! the system was met, [what to do](Advice), and what is [never](holds_key) [shown](legible).

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod advice;
mod beside;
mod class;
mod directory;
mod found;
mod guard;
mod id;
mod limits;
mod locks;
mod mounted;
mod nearest;
mod open;
mod private;
mod readers;
mod secret;
mod stamp;
mod state;
mod whole;
#[cfg(windows)]
mod windows;

pub use advice::{Advice, Argument, Command, Face, Part, many, spelled};
pub use beside::{directory_of, is_unfinished, remove_unfinished, unfinished};
pub use class::ErrorClass;
pub use directory::{UnsafeDirectory, for_this_user, private_directory};
pub use found::{DirectoryKind, MESSAGE, foreign_file, found_at, own_file};
pub use guard::{catching, panic_is_caught};
pub use id::{FileId, Place, has_other_names, is_at, redirected};
pub use limits::{LimitOf, MemoryLimit, free_bytes, is_exhausted, memory_limit};
pub use locks::{NotLocked, has_no_locks, lock, lock_within};
pub use mounted::is_mounted_secret;
pub use nearest::nearest;
pub use open::{open_named, open_own, open_pipe, open_regular, open_unlinked, read_regular};
pub use private::PrivateFile;
pub use readers::{Readers, is_exposed};
pub use secret::{holds_key, legible};
pub use stamp::FileStamp;
pub use state::{NoState, state_directory};
pub use whole::{WholeFile, keep_name, sync_name};
