//! Files and directories that outlive a run or that somebody else has named: opened without waiting, written whole or
//! not at all, and in places that only this user may change.
#![forbid(unsafe_code)]

mod directory;
mod open;
mod whole;

pub use directory::private_directory;
pub use open::open_regular;
pub use whole::WholeFile;
