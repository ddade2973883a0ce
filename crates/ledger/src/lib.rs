//! The account that a side keeps of its runs, and the rules that it holds them to.
//!
//! **The file.** Lines of JSON, of this user alone. Each has a number, a time, the hash of the line before, what it says
//! ([`Body`]), and last its own hash: the SHA-256 of the line as it is without `,"hash":"…"`. Whoever begins a run writes
//! what is about to be answered ([`Begun`]) and has it on the disk before anything that depends on a key leaves; then the
//! receipts of both sides, if they gave any; then how the run ended for this side ([`Ended`]). An entry without an end is a
//! run of which nobody here knows how it ended: it may have been answered. Entries are added under a lock.
//!
//! **What a chain shows.** Every change, removal or move of a line but of the last ones. It does not show that lines were cut
//! from the end, or that all of the file is an older copy. Two things outside of it do: the number and hash of the last entry
//! in a directory of this user's ([`Ledger::with_state`]), which every later run compares; and the receipts that peers have,
//! each with the hash of an entry that has to be in the file ([`Book::holds`]).
//!
//! **A line that was not written whole**, since the machine or the process ended, stays where it is: nothing was answered
//! by it. The next entry follows it, on a line of its own, and its hash of the line before is that of the last whole entry.
//!
//! **Rules** ([`Rules`]) go by what the file says of earlier runs, and are held to twice: before this side says how many keys it
//! has, and once more, under the lock, in the moment in which the entry is written.
//!
//! No entry has a key or a value of the table. A number that was revealed is in it if the caller asks for that.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod book;
mod entry;
mod error;
mod ledger;
mod machine;
mod own_keys;
mod rules;
mod state;
#[cfg(test)]
mod tests;

pub use book::Book;
pub use entry::{
    Begun, Body, Created, Ended, Entry, Input, KeyColumn, KeysKept, Refused, Result, Taken, sha256,
};
pub use error::{Error, Problem, Refusal};
pub use ledger::{Head, Ledger};
pub use machine::{host, user};
pub use own_keys::OwnKeys;
pub use rules::{Asked, Rules};
