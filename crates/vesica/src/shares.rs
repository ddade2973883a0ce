//! Shares of a run that reveals nothing, as a table.

use std::io::{self, Write};

use vesica_psi::Shares;
use vesica_tables::{Error as TableError, Output};

/// Where one side's shares go: a CSV table with a line per cell. Both sides' have the same cells in the same order, those of
/// one bucket after the other's.
///
/// The columns are `row` (the receiver's only; the first row with the key in the cell, counted from 1, empty where there is
/// none), `match` (0 or 1), and `receiver_value` and `sender_value` where those sides have values (0 to 2^64 − 1); of
/// several, with their numbers, as `sender_value_2`; and `receiver_payload` and `sender_payload` where those sides have
/// payloads, each in as many hexadecimal digits.
pub(crate) struct ShareTable {
    file: Output,
    has_header: bool,
}

impl ShareTable {
    pub(crate) fn new(file: Output) -> ShareTable {
        ShareTable {
            file,
            has_header: false,
        }
    }

    /// Adds the shares of a bucket, in which the items have these first rows, counted from 0.
    pub(crate) fn add(&mut self, shares: &Shares, first_rows: &[u64]) -> Result<(), TableError> {
        let has_header = std::mem::replace(&mut self.has_header, true);
        self.file
            .write_text(|out| write_csv(out, shares, first_rows, has_header))
    }

    /// The file, which is complete.
    pub(crate) fn into_file(self) -> Output {
        self.file
    }
}

/// Appends the lines of a bucket, and before the first the header.
fn write_csv(
    out: &mut dyn Write,
    shares: &Shares,
    first_rows: &[u64],
    has_header: bool,
) -> io::Result<()> {
    let Shares {
        matches,
        receiver_values,
        sender_values,
        receiver_strings,
        sender_strings,
        items,
    } = shares;
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
    if !has_header {
        if items.is_some() {
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
    }
    for (cell, matches) in matches.iter().enumerate() {
        match items.as_ref().map(|items| items[cell]) {
            Some(Some(item)) => write!(out, "{},", first_rows[item as usize] + 1)?,
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
