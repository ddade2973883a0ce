//! The columns of tables: which a pass reads, under which types, and with what values.

pub(crate) mod column_type;
pub(crate) mod columns;
pub(crate) mod columns_read;
pub(crate) mod common_type;
pub(crate) mod item_rows;
pub(crate) mod labels;
pub(crate) mod nested;
pub(crate) mod number;
pub(crate) mod peer_columns;
