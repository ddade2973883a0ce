//! Random tables whose intersection is known: of strings of 128 bits, or of different numbers, half of the smaller table
//! shared.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use vesica::{Reveal, Role};
use vesica_psi::Values;
use vesica_session::Reveals;

/// The name of the column of keys.
pub(super) const KEY: &str = "key";
/// The name of the column of payloads.
pub(super) const PAYLOAD: &str = "payload";
/// The largest absolute value.
pub(super) const VALUE_BOUND: i64 = 1000;

/// What both tables are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inputs {
    pub(super) receiver_size: u64,
    pub(super) sender_size: u64,
    /// The bits of items that are numbers.
    pub(super) key_bits: Option<u32>,
    /// Bytes of each side's payload; 0 if there is none.
    pub(super) payload_bytes: usize,
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

    /// How many rows before this one, counted from 0, have an item that both tables have. Such rows are spread evenly.
    fn shared_before(&self, role: Role, row: u64) -> u64 {
        let shared = u128::from(row) * u128::from(self.shared()) / u128::from(self.size(role));
        shared as u64
    }

    /// Whether both tables have the item in this row.
    fn is_shared(&self, role: Role, row: u64) -> bool {
        self.shared_before(role, row + 1) > self.shared_before(role, row)
    }

    /// A side's payload of an item: a text of up to so many bytes.
    fn payload(&self, role: Role, item: u64) -> String {
        let length = item as usize % (self.payload_bytes + 1);
        format!("{role}-{item}/")
            .chars()
            .cycle()
            .take(length)
            .collect()
    }

    /// Writes one table as CSV, with so many columns of values.
    pub(super) fn write(&self, role: Role, columns: usize, path: &Path) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
        write!(out, "{KEY}")?;
        for name in value_names(columns) {
            write!(out, ",{name}")?;
        }
        if self.payload_bytes > 0 {
            write!(out, ",{PAYLOAD}")?;
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
            if self.payload_bytes > 0 {
                write!(out, ",{}", self.payload(role, item))?;
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

    /// Whether a receiver's output is the payloads of what the sender alone has, in any order.
    pub(super) fn are_rows_of_sender(&self, output: &Path) -> io::Result<bool> {
        let mut output = lines(output)?;
        let (mut found, mut line) = (Vec::new(), Vec::new());
        while next(&mut output, &mut line)? > 0 {
            found.push(line.clone());
        }
        let payload = |item| match self.payload(Role::Sender, item) {
            // A blank line would be no row.
            empty if empty.is_empty() => b"\"\"\n".to_vec(),
            text => format!("{text}\n").into_bytes(),
        };
        let mut right: Vec<_> = (self.shared()..self.sender_size).map(payload).collect();
        right.sort_unstable();
        let header = format!("{PAYLOAD}\n").into_bytes();
        let is_header = found.first() == Some(&header);
        found.drain(..found.len().min(1));
        found.sort_unstable();
        Ok(is_header && found == right)
    }

    /// Whether both sides' outputs are their tables with ids that are the same for what both have, and different otherwise.
    pub(super) fn are_ids(
        &self,
        tables: &[PathBuf; 2],
        outputs: &[PathBuf; 2],
    ) -> io::Result<bool> {
        let (mut all, mut shared) = (HashSet::new(), [Vec::new(), Vec::new()]);
        let files = tables.iter().zip(outputs).zip(&mut shared);
        for (role, ((table, output), shared)) in
            [Role::Receiver, Role::Sender].into_iter().zip(files)
        {
            let [mut table, mut output] = [lines(table)?, lines(output)?];
            let (mut row, mut found) = (Vec::new(), Vec::new());
            let mut own = HashSet::new();
            next(&mut table, &mut row)?;
            next(&mut output, &mut found)?;
            for number in 0..self.size(role) {
                next(&mut table, &mut row)?;
                next(&mut output, &mut found)?;
                let row = row.strip_suffix(b"\n").unwrap_or(&row);
                let Some(id) = found.strip_prefix(row) else {
                    return Ok(false);
                };
                if self.is_shared(role, number) {
                    shared.push(id.to_vec());
                }
                if !own.insert(id.to_vec()) {
                    return Ok(false);
                }
            }
            if next(&mut output, &mut found)? > 0 {
                return Ok(false);
            }
            all.extend(own);
        }
        let [ours, theirs] = shared;
        let count = self.receiver_size + self.sender_size - self.shared();
        Ok(ours == theirs && all.len() as u64 == count)
    }

    /// Whether both sides' shares open to the rows that both tables have, and to their payloads.
    pub(super) fn are_shares(&self, receiver: &Path, sender: &Path) -> io::Result<bool> {
        let [mut receiver, mut sender] = [lines(receiver)?, lines(sender)?];
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        next(&mut receiver, &mut ours)?;
        next(&mut sender, &mut theirs)?;
        let payloads = match self.payload_bytes {
            0 => "",
            _ => ",receiver_payload,sender_payload",
        };
        let header = format!("match{payloads}\n");
        if theirs != header.as_bytes() || ours != format!("row,{header}").as_bytes() {
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
            let texts = [&ours, &theirs].map(|line| str::from_utf8(line).unwrap_or_default());
            let Some((row, share)) = texts[0].split_once(',') else {
                return Ok(false);
            };
            let Some(opened) = opened(share, texts[1]) else {
                return Ok(false);
            };
            let row = row.parse().unwrap_or(0);
            let is_a_row = (1..=self.receiver_size).contains(&row);
            let is_shared = is_a_row && self.is_shared(Role::Receiver, row - 1);
            let right = match opened.matches {
                true if !is_shared => return Ok(false),
                true => {
                    let item = self.shared_before(Role::Receiver, row - 1);
                    self.payloads(item)
                }
                false => vec![0; 2 * self.payload_bytes],
            };
            if opened.payloads != right {
                return Ok(false);
            }
            matches += u64::from(opened.matches);
        }
    }

    /// Both sides' payloads of an item, the receiver's first, with zeros after each text.
    fn payloads(&self, item: u64) -> Vec<u8> {
        let roles = [Role::Receiver, Role::Sender].into_iter();
        let payload = |role| {
            let mut payload = self.payload(role, item).into_bytes();
            payload.resize(self.payload_bytes, 0);
            payload
        };
        roles.flat_map(payload).collect()
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

/// What both sides' shares of a cell open to.
struct Opened {
    matches: bool,
    /// All payloads, one after the other.
    payloads: Vec<u8>,
}

/// The cell of these two lines, if they have as many fields.
fn opened(ours: &str, theirs: &str) -> Option<Opened> {
    let fields =
        |line: &str| -> Vec<String> { line.trim_end().split(',').map(str::to_owned).collect() };
    let (ours, theirs) = (fields(ours), fields(theirs));
    let byte = |digits: &[u8]| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok();
    let bytes =
        |digits: &String| -> Option<Vec<u8>> { digits.as_bytes().chunks(2).map(byte).collect() };
    let mut payloads = Vec::new();
    for (ours, theirs) in ours.iter().zip(&theirs).skip(1) {
        let (ours, theirs) = (bytes(ours)?, bytes(theirs)?);
        let pairs = ours.iter().zip(&theirs);
        payloads.extend(pairs.map(|(ours, theirs)| ours ^ theirs));
    }
    (ours.len() == theirs.len()).then(|| Opened {
        matches: ours[0] != theirs[0],
        payloads,
    })
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
                payload_bytes: 0,
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
            payload_bytes: 0,
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

    #[test]
    fn shares_have_to_open_to_the_payloads() {
        let directory = tempfile::tempdir().unwrap();
        let [ours, theirs] = ["ours", "theirs"].map(|name| directory.path().join(name));
        // The second and the fourth of four rows are shared; the texts of the one are empty, of the other `r` and `s`.
        let inputs = Inputs {
            receiver_size: 4,
            sender_size: 4,
            key_bits: None,
            payload_bytes: 1,
            seed: 1,
        };
        let receiver = "1,0,41,ff 4,1,05,06 2,1,07,08";
        for (sender, is_right) in [
            ("0,41,ff 0,77,75 0,07,08", true),
            ("0,41,ff 0,77,76 0,07,08", false),
            ("0,41,ff 0,75,77 0,07,08", false),
            ("0,41,ff 0,77,75 0,07,09", false),
            ("0,41,fe 0,77,75 0,07,08", false),
            ("0,41,ff 0,77,75 0,07", false),
            ("0,41,ff 0,77,75 0,07,x8", false),
        ] {
            let head = "match,receiver_payload,sender_payload\n";
            let lines = |of: &str| format!("{}\n", of.replace(' ', "\n"));
            fs::write(&ours, format!("row,{head}{}", lines(receiver))).unwrap();
            fs::write(&theirs, format!("{head}{}", lines(sender))).unwrap();
            let found = inputs.are_shares(&ours, &theirs).unwrap();
            assert_eq!(found, is_right, "{sender}");
        }
    }
}
