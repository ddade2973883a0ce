//! `vesica plan --calibrate`: benchmarks of every protocol on this machine, short ones and some of up to half a second.

use std::io::Write;
use std::path::Path;

use vesica_files::{WholeFile, many};
use vesica_plan::{Calibration, Machines, Registry, Request, Sample, yardstick};
use vesica_psi::{Optimize, Protocol, Reveal, Reveals, Security};

use super::now;
use crate::bench::machine;
use crate::failure::{Failure, RESOURCE};
use crate::log::{self, Level};
use crate::process::Process;
use crate::signals::Signals;
use crate::stdout::print_line;

/// Runs of the same, of which the median counts.
const RUNS: usize = 3;

/// Items of a side in short runs.
const FEW: u64 = 1 << 8;

/// The most items of a side, and the seconds that the reference machine may take for them.
const MANY: (u64, f64) = (1 << 16, 0.5);

/// Bits of items for protocols that compare numbers.
const NUMBER_BITS: u32 = 32;

pub(super) fn run(path: &Path) -> Result<(), Failure> {
    let signals = Signals::install()?;
    signals.stop_in_order();
    let runs = runs();
    let mut samples = Vec::new();
    for (done, run) in runs.iter().enumerate() {
        let name = run.protocol.spec().name;
        let size = many(run.size, "item");
        let progress = format!("{} of {}: {name}, {size}", done + 1, runs.len());
        log::say(Level::Info, &progress);
        samples.push(run.measure(&signals)?);
    }
    let calibration = Calibration::new(machine::describe(), yardstick(), now(), samples);
    let text = calibration
        .to_json()
        .map_err(|e| Failure::new(RESOURCE, format!("the calibration is not JSON: {e}")))?;
    write(path, &text).map_err(|e| {
        let place = path.display();
        Failure::usage(format!("{place}: the calibration cannot be written: {e}"))
    })?;
    print_line(&format!("{}", path.display()))
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut file = WholeFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.commit()
}

/// A run over sets of one size.
#[derive(Clone, Copy)]
struct Run {
    protocol: &'static dyn Protocol,
    security: Security,
    size: u64,
}

/// What is run.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for protocol in Registry::standard().all() {
        for security in protocol.spec().forms() {
            let of = |size| Run {
                protocol: *protocol,
                security,
                size,
            };
            runs.extend([FEW, of(FEW).many()].map(of));
        }
    }
    runs
}

impl Run {
    fn reveal(&self) -> Reveals {
        let first = self.protocol.reveals().first().copied();
        first.unwrap_or(Reveal::Matches).into()
    }

    /// The bits of items that the protocol compares as numbers.
    fn bits(&self) -> Option<u32> {
        let compared = self.protocol.spec().compares(Some(NUMBER_BITS));
        compared.map(|(_, bits)| bits)
    }

    /// The most items for which the reference machine does not take too long.
    fn many(&self) -> u64 {
        let (most, seconds) = MANY;
        let machines = Machines::new(None, None);
        let is_short = |size: &u64| {
            let request = Request {
                exact: self.bits(),
                ..Request::new([*size; 2], self.reveal(), 1)
            };
            let time = Optimize::Time;
            let forecast = machines.forecast(self.protocol, self.security, time, &request, &[]);
            forecast.is_some_and(|forecast| forecast.seconds.likely <= seconds)
        };
        let sizes = std::iter::successors(Some(most), |size| Some(size / 4));
        sizes
            .take_while(|size| *size > FEW)
            .find(is_short)
            .unwrap_or(4 * FEW)
    }

    /// The command that measures it.
    fn words(&self) -> Vec<String> {
        let mut words = format!(
            "bench --json --protocol {} --security {} --reveal {} --receiver-size {} --runs {RUNS}",
            self.protocol.spec().name,
            self.security.name(),
            self.reveal(),
            self.size,
        );
        if let Some(bits) = self.bits() {
            words += &format!(" --items {bits}");
        }
        words.split(' ').map(str::to_owned).collect()
    }

    fn measure(&self, signals: &Signals) -> Result<Sample, Failure> {
        let here = std::env::current_dir()
            .map_err(|e| Failure::new(RESOURCE, format!("there is no current directory: {e}")))?;
        let process = Process::start("benchmark", &here, &self.words(), &[])?;
        let ended = process.finish(signals.interrupt())?;
        ended.check()?;
        serde_json::from_str(&ended.printed)
            .map_err(|e| Failure::new(RESOURCE, format!("the benchmark cannot be read: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_run_at_two_sizes() {
        let runs = runs();
        for pair in runs.chunks(2) {
            assert!(
                pair[0].size < pair[1].size
                    && pair[0].protocol.spec().name == pair[1].protocol.spec().name
            );
        }
        for protocol in Registry::standard().all() {
            let name = protocol.spec().name;
            let forms = runs.iter().filter(|run| run.protocol.spec().name == name);
            assert_eq!(forms.count(), 2 * protocol.spec().forms().count(), "{name}");
        }
        assert!(runs.iter().any(|run| run.size == MANY.0));
    }
}
