//! Random tables whose intersection is known: of strings of 128 bits, or of different numbers, half of the smaller table
//! shared.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica::{Reveal, Reveals, Role};
use vesica_psi::Values;

/// The name of the column of keys.
pub(super) const KEY: &str = "key";
/// The largest absolute value.
pub(super) const VALUE_BOUND: i64 = 1000;

/// What both tables are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) receiver_size: u64,
    pub(super) sender_size: u64,
    /// The bits of items that are numbers.
    pub(super) key_bits: Option<u32>,
    pub(super) seed: u64,
}

impl Inputs {
    /// How many items both tables have.
    pub(super) fn shared(&self) -> u64 {
        self.receiver_size.min(self.sender_size) / 2
    }

    fn size(&self, role: Role) -> u64 {
        match role {
            Role::Receiver => self.receiver_size,
            Role::Sender => self.sender_size,
        }
    }

    /// Whether both tables have the item in this row, counted from 0. Such rows are spread evenly.
    fn is_shared(&self, role: Role, row: u64) -> bool {
        let (shared, size) = (u128::from(self.shared()), u128::from(self.size(role)));
        let before = |row: u64| u128::from(row) * shared / size;
        before(row + 1) > before(row)
    }

    /// Writes one table as CSV, with so many columns of values.
    pub(super) fn write(&self, role: Role, columns: usize, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
        write!(out, "{KEY}")?;
        for name in value_names(columns) {
            write!(out, ",{name}")?;
        }
        writeln!(out)?;
        let (mut common, mut own) = (self.generator(0), self.generator(own_stream(role)));
        // Items are numbered, shared ones first.
        let (mut next_shared, mut next_own) = (0, self.shared());
        for row in 0..self.size(role) {
            let (generator, next) = match self.is_shared(role, row) {
                true => (&mut common, &mut next_shared),
                false => (&mut own, &mut next_own),
            };
            let item = *next;
            *next += 1;
            match self.key_bits {
                None => {
                    let [high, low] = [generator.next_u64(), generator.next_u64()];
                    write!(out, "{high:016x}{low:016x}")?;
                }
                Some(bits) => write!(out, "{}", self.number(role, item, bits))?,
            }
            for _ in 0..columns {
                write!(out, ",{}", value(item))?;
            }
            writeln!(out)?;
        }
        out.flush()
    }

    /// Numbers of so many bits, spread over all of them; those of the sender that are not shared come after the receiver's.
    fn number(&self, role: Role, item: u64, bits: u32) -> u64 {
        let is_own = item >= self.shared() && role == Role::Sender;
        let item = match is_own {
            true => item + self.receiver_size,
            false => item,
        };
        // A product with an odd number permutes the residues modulo 2^bits.
        item.wrapping_mul(0x9e37_79b9_7f4a_7c15) & (u64::MAX >> (64 - bits))
    }

    fn generator(&self, stream: u64) -> ChaCha20Rng {
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed);
        rng.set_stream(stream);
        rng
    }

    /// Whether a receiver's output is the rows of its table that both have.
    pub(super) fn are_matches(&self, table: &Path, output: &Path) -> io::Result<bool> {
        let [mut table, mut output] = [lines(table)?, lines(output)?];
        let (mut wanted, mut found) = (Vec::new(), Vec::new());
        // The header comes first.
        let rows = (0..self.receiver_size).map(|row| self.is_shared(Role::Receiver, row));
        for is_wanted in std::iter::once(true).chain(rows) {
            next(&mut table, &mut wanted)?;
            if is_wanted {
                next(&mut output, &mut found)?;
                if wanted != found {
                    return Ok(false);
                }
            }
        }
        Ok(next(&mut output, &mut found)? == 0)
    }

    /// Whether both sides' shares of matches open to the rows that both tables have.
    pub(super) fn are_shares(&self, receiver: &Path, sender: &Path) -> io::Result<bool> {
        let [mut receiver, mut sender] = [lines(receiver)?, lines(sender)?];
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        next(&mut receiver, &mut ours)?;
        next(&mut sender, &mut theirs)?;
        if ours != b"row,match\n" || theirs != b"match\n" {
            return Ok(false);
        }
        let mut matches = 0;
        loop {
            let ends = [
                next(&mut receiver, &mut ours)? == 0,
                next(&mut sender, &mut theirs)? == 0,
            ];
            if ends != [false, false] {
                return Ok(ends == [true, true] && matches == self.shared());
            }
            let Some((row, share)) = str::from_utf8(&ours).ok().and_then(|l| l.split_once(','))
            else {
                return Ok(false);
            };
            if share.as_bytes() != theirs {
                let row = row.parse().unwrap_or(0);
                let is_a_row = (1..=self.receiver_size).contains(&row);
                if !is_a_row || !self.is_shared(Role::Receiver, row - 1) {
                    return Ok(false);
                }
                matches += 1;
            }
        }
    }

    /// The numbers that a run with so many columns is to reveal, by their names.
    pub(super) fn revealed_numbers(&self, reveals: Reveals, values: Values) -> Vec<(String, i128)> {
        let number = |(reveal, _): (Reveal, usize)| {
            let adds = (0..self.shared()).filter_map(|item| reveal.adds(values_of(item, values)));
            adds.sum()
        };
        let numbers = reveals.numbers(values).into_iter().map(number);
        reveals.names(values).into_iter().zip(numbers).collect()
    }

    /// How many of the items that both tables have count towards a minimum: those that add to every number.
    pub(super) fn counted(&self, reveals: Reveals, values: Values) -> u64 {
        let numbers = reveals.numbers(values);
        let counts = |item: &u64| {
            let values = values_of(*item, values);
            let mut adds = numbers.iter().map(|(reveal, _)| reveal.adds(values));
            adds.all(|adds| adds != Some(0))
        };
        (0..self.shared()).filter(counts).count() as u64
    }
}

/// The names of so many columns of values.
pub(super) fn value_names(columns: usize) -> Vec<String> {
    (1..=columns)
        .map(|column| format!("value{column}"))
        .collect()
}

fn own_stream(role: Role) -> u64 {
    match role {
        Role::Receiver => 1,
        Role::Sender => 2,
    }
}

/// The values that receiver and sender have for an item, 0 where they have no columns.
fn values_of(item: u64, values: Values) -> [i128; 2] {
    [values.receiver, values.sender].map(|columns| match columns {
        0 => 0,
        _ => value(item).into(),
    })
}

/// The value of item number i of either party.
fn value(i: u64) -> i64 {
    // Of both signs, and with sums of products that fit into 63 bits.
    i as i64 % (2 * VALUE_BOUND + 1) - VALUE_BOUND
}

fn lines(path: &Path) -> io::Result<BufReader<File>> {
    Ok(BufReader::with_capacity(1 << 20, File::open(path)?))
}

/// Reads the next line into `line`; returns its length.
fn next(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    line.clear();
    from.read_until(b'\n', line)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use super::*;

    #[test]
    fn what_is_expected_is_the_intersection() {
        let directory = tempfile::tempdir().unwrap();
        let sizes = [(0, 5), (1, 1), (7, 100), (100, 7), (64, 64)];
        let kinds = sizes.map(|sizes| [None, Some(7), Some(64)].map(|bits| (sizes, bits)));
        for (case, ((receiver_size, sender_size), key_bits)) in
            kinds.into_iter().flatten().enumerate()
        {
            let inputs = Inputs {
                receiver_size,
                sender_size,
                key_bits,
                seed: 9,
            };
            let [mine, theirs] = [Role::Receiver, Role::Sender].map(|role| {
                let path = directory.path().join(format!("{case}-{role}.csv"));
                inputs.write(role, 0, &path).unwrap();
                path
            });
            let rows = |path| -> Vec<String> {
                let text = fs::read_to_string(path).unwrap();
                text.lines().map(str::to_owned).collect()
            };
            let (received, sent) = (rows(&mine), rows(&theirs));
            let [distinct, others]: [HashSet<&String>; 2] =
                [&received, &sent].map(|rows| rows.iter().skip(1).collect());
            assert_eq!(distinct.len() as u64, receiver_size);
            assert_eq!(others.len() as u64, sender_size);
            let header = received[0].clone();
            let common = received.iter().skip(1).filter(|row| others.contains(row));
            let common: Vec<String> = std::iter::once(header).chain(common.cloned()).collect();
            assert_eq!(common.len() as u64, 1 + inputs.shared());
            let output = directory.path().join("output.csv");
            fs::write(&output, common.join("\n") + "\n").unwrap();
            assert!(inputs.are_matches(&mine, &output).unwrap());
            // One row more is not the intersection, nor is one row less.
            fs::write(&output, common.join("\n") + "\nmore\n").unwrap();
            assert!(!inputs.are_matches(&mine, &output).unwrap());
            fs::write(&output, common[1..].join("\n")).unwrap();
            assert!(!inputs.are_matches(&mine, &output).unwrap());
        }
    }

    #[test]
    fn shares_have_to_open_to_the_shared_rows() {
        let directory = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| directory.path().join(name));
        // The second and the fourth of four rows are shared.
        let inputs = Inputs {
            receiver_size: 4,
            sender_size: 4,
            key_bits: None,
            seed: 1,
        };
        for (receiver, sender, is_right) in [
            ("1,0 4,1 ,0 2,1 3,1", "0 0 0 0 1", true),
            ("1,0 4,1 ,0 2,1 3,1", "0 0 0 1 1", false),
            ("1,0 4,1 ,0 2,1 3,1", "1 0 0 1 1", false),
            ("1,0 4,1 ,0 2,1 3,1", "0 0 1 1 1", false),
            ("1,0 4,1 ,0 2,1 3,1", "0 0 0 0", false),
        ] {
            fs::write(
                &ours,
                format!("row,match\n{}\n", receiver.replace(' ', "\n")),
            )
            .unwrap();
            fs::write(&theirs, format!("match\n{}\n", sender.replace(' ', "\n"))).unwrap();
            assert_eq!(
                inputs.are_shares(&ours, &theirs).unwrap(),
                is_right,
                "{sender}"
            );
        }
    }
}
