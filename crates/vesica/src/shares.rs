//! Shares of a run that reveals nothing, as a table.

use std::io::{self, Write};

use vesica_psi::Shares;

/// One side's shares, cell by cell. Both sides' have the same cells in the same order.
pub(crate) struct RowShares<'a> {
    /// For each cell the first row with the key in it, counted from 0, on the receiver's side.
    pub(crate) rows: Option<Vec<Option<u64>>>,
    pub(crate) shares: &'a Shares,
}

impl RowShares<'_> {
    /// Writes a CSV table with a line per cell: `row` (the receiver's only; counted from 1, empty where no key is in the
    /// cell), `match` (0 or 1), and `receiver_value` and `sender_value` where those sides have values (0 to 2^64 − 1); of several, with their
    /// numbers, as `sender_value_2`.
    pub(crate) fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let Shares {
            matches,
            receiver_values,
            sender_values,
            ..
        } = self.shares;
        let sides = [
            ("receiver_value", receiver_values),
            ("sender_value", sender_values),
        ];
        if self.rows.is_some() {
            write!(out, "row,")?;
        }
        write!(out, "match")?;
        for (name, columns) in sides {
            match columns.len() {
                1 => write!(out, ",{name}")?,
                count => (1..=count).try_for_each(|column| write!(out, ",{name}_{column}"))?,
            }
        }
        writeln!(out)?;
        for (cell, matches) in matches.iter().enumerate() {
            match self.rows.as_ref().map(|rows| rows[cell]) {
                Some(Some(row)) => write!(out, "{},", row + 1)?,
                Some(None) => write!(out, ",")?,
                None => {}
            }
            write!(out, "{}", u8::from(*matches))?;
            for values in receiver_values.iter().chain(sender_values) {
                write!(out, ",{}", values[cell])?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
