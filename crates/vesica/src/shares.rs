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
    /// cell), `match` (0 or 1), and `receiver_value` and `sender_value` where those sides have values (0 to 2^64 − 1); of
    /// several, with their numbers, as `sender_value_2`; and `receiver_payload` and `sender_payload` where those sides have
    /// payloads, each in as many hexadecimal digits.
    pub(crate) fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        let Shares {
            matches,
            receiver_values,
            sender_values,
            receiver_strings,
            sender_strings,
            items: _,
        } = self.shares;
        let sides = [
            ("receiver_value", receiver_values),
            ("sender_value", sender_values),
        ];
        let payloads = [
            ("receiver_payload", receiver_strings),
            ("sender_payload", sender_strings),
        ];
        let payloads = payloads.map(|(name, all)| (name, all, all.len() / matches.len().max(1)));
        let payloads = payloads.iter().filter(|(_, all, _)| !all.is_empty());
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
        payloads
            .clone()
            .try_for_each(|(name, ..)| write!(out, ",{name}"))?;
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
            for (_, all, bytes) in payloads.clone() {
                write!(out, ",")?;
                for eight in all[cell * bytes..][..*bytes].chunks(8) {
                    let number = eight
                        .iter()
                        .fold(0, |all, byte| all << 8 | u64::from(*byte));
                    write!(out, "{number:0width$x}", width = 2 * eight.len())?;
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }
}
