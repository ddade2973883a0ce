//! Normalises values, for comparison with other implementations and for timing.
//!
//! Each line of standard input is a JSON array of a profile and a text, such as
//! `["phone:GB", "020 7946 0000"]`. Each line of standard output is the canonical text as a JSON
//! string, or `null` for a blank or invalid value. The rate goes to standard error.
//!
//!     cargo run --release --package vesica-tables --example normalize < values.jsonl

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufWriter, Write, read_to_string};
use std::time::Instant;

use vesica_tables::{Normalized, Profile};

fn main() -> Result<(), Box<dyn Error>> {
    let input = read_to_string(io::stdin())?;
    let mut profiles: HashMap<String, Profile> = HashMap::new();
    let mut values = Vec::new();
    for line in input.lines() {
        let (name, text): (String, String) = serde_json::from_str(line)?;
        let profile = match profiles.get(&name) {
            Some(profile) => *profile,
            None => *profiles.entry(name.clone()).or_insert(name.parse()?),
        };
        values.push((profile, text));
    }
    let start = Instant::now();
    let results: Vec<_> = values
        .iter()
        .map(|(profile, text)| profile.normalize(text))
        .collect();
    let seconds = start.elapsed().as_secs_f64();
    let mut output = BufWriter::new(io::stdout().lock());
    for result in &results {
        match result {
            Normalized::Valid(text) => writeln!(output, "{}", serde_json::to_string(text)?)?,
            Normalized::Blank | Normalized::Invalid => writeln!(output, "null")?,
        }
    }
    output.flush()?;
    eprintln!(
        "{} values, {:.0} per second",
        results.len(),
        results.len() as f64 / seconds
    );
    Ok(())
}
