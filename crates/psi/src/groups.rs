//! Groups of the receiver's items, with numbers of each.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Maximum number of groups.
pub const MAX_GROUPS: usize = 1024;

/// Maximum number of columns of groups whose sizes the sender does not learn: one for each group, or for each value of it.
pub const MAX_HIDDEN_GROUPS: usize = 64;

/// The most items that the capacities of groups and what is in none may have together.
pub const MAX_GROUP_WIRES: u64 = 1 << 26;

/// Into how many groups the receiver divides its items, an item into one of them at most. The receiver learns the numbers of
/// each group, and none of all items together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    /// How many there are, at least one.
    pub count: usize,
    /// What the sender learns of their sizes; `None` if nothing.
    pub capacities: Option<Capacities>,
    /// What a minimum withholds.
    pub minimum: GroupMinimum,
}

/// What a sender learns of the sizes of groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// The most items of each group, at most 2^32 - 1, in the order of the groups.
    pub of_groups: Arc<[u64]>,
    /// As many items as there can be in no group, but for those that pad the set, where a group has fewer items than its
    /// capacity; else 0.
    pub rest: u64,
}

/// In the place of the group of an item that is in none.
pub const NO_GROUP: u32 = u32::MAX;

/// In the place of the group of an item that pads the set.
pub const PADDING_GROUP: u32 = u32::MAX - 1;

/// What a minimum withholds of numbers by group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupMinimum {
    /// The numbers of each group in which fewer items match.
    #[default]
    Each,
    /// All numbers, if fewer items match in one of the groups.
    All,
}

impl fmt::Display for GroupMinimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupMinimum::Each => "each",
            GroupMinimum::All => "all",
        })
    }
}

impl Groups {
    /// Sets of numbers that a minimum withholds together: one for each group, or one.
    pub fn sets(&self) -> usize {
        match self.minimum {
            GroupMinimum::Each => self.count,
            GroupMinimum::All => 1,
        }
    }
}
