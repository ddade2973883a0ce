//! A driver for machines without a C++ compiler: replays the seeds, then changes them blindly.
//!
//! It understands the few options of libFuzzer that `scripts/fuzz.py` passes and prints the same
//! statistic. Nothing guides it, so it finds little that the seeds are not close to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A target's program.
pub fn main(target: fn(&[u8])) -> ExitCode {
    let (mut seconds, mut artifacts, mut seeds) = (0, String::new(), Vec::new());
    for argument in std::env::args().skip(1) {
        if let Some(value) = argument.strip_prefix("-max_total_time=") {
            seconds = value.parse().unwrap_or(0);
        } else if let Some(value) = argument.strip_prefix("-artifact_prefix=") {
            value.clone_into(&mut artifacts);
        } else if !argument.starts_with('-') {
            collect(Path::new(&argument), &mut seeds);
        }
    }
    if seeds.is_empty() {
        seeds.push(Vec::new());
    }
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut runs = 0u64;
    while (runs as usize) < seeds.len() || Instant::now() < until {
        let input = match seeds.get(runs as usize) {
            Some(seed) => seed.clone(),
            None => random.changed(&seeds),
        };
        if catch_unwind(AssertUnwindSafe(|| target(&input))).is_err() {
            let path = format!("{artifacts}crash-{runs}");
            match std::fs::write(&path, &input) {
                Ok(()) => eprintln!("the input is in {path}"),
                Err(e) => eprintln!("cannot write {path}: {e}"),
            }
            return ExitCode::FAILURE;
        }
        runs += 1;
    }
    eprintln!("stat::number_of_executed_units: {runs}");
    ExitCode::SUCCESS
}

/// Adds a file, or the files of a folder.
fn collect(path: &Path, seeds: &mut Vec<Vec<u8>>) {
    if let Ok(entries) = std::fs::read_dir(path) {
        let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.sort();
        seeds.extend(paths.iter().filter_map(|p| std::fs::read(p).ok()));
    } else if let Ok(bytes) = std::fs::read(path) {
        seeds.push(bytes);
    }
}

/// Xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn changed(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seeds[self.below(seeds.len())].clone();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, self.below(256) as u8),
                2 => {
                    let other = &seeds[self.below(seeds.len())];
                    let from = self.below(other.len() + 1);
                    bytes.splice(at.., other[from..].iter().copied());
                }
                3 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                4 if at < bytes.len() => bytes[at] = [0, 0xff, 0x7f, 0x80][self.below(4)],
                5 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.push(self.below(256) as u8),
            }
        }
        bytes
    }
}
