//! `vesica plan --calibrate`: runs of every protocol on this machine, short ones and some of up to half a second.

use std::io::Write;
use std::path::Path;

use vesica::WholeFile;
use vesica_plan::{Calibration, Machines, Prices, Registry, Request, Sample};
use vesica_psi::{Protocol, Reveal, Security};
use vesica_wire::Link;

use super::measure::Run;
use super::{now, yardstick};
use crate::bench::machine;
use crate::failure::{Failure, RESOURCE};
use crate::log::{self, Level};
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
    let runs = runs();
    let mut samples = Vec::new();
    for (done, run) in runs.iter().enumerate() {
        let [n, _] = run.request.sizes;
        let name = run.protocol.spec().name;
        let progress = format!("{} of {}: {name}, {n} items", done + 1, runs.len());
        log::say(Level::Info, &progress);
        samples.push(median(run)?);
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

/// What is run.
fn runs() -> Vec<Run> {
    let mut runs = Vec::new();
    for protocol in Registry::standard().all() {
        let spec = protocol.spec();
        for security in spec.forms() {
            let of = |size| of_size(*protocol, security, size);
            runs.extend([FEW, many(*protocol, security)].map(of));
        }
    }
    runs
}

fn of_size(protocol: &'static dyn Protocol, security: Security, size: u64) -> Run {
    let reveal = protocol.reveals().first().copied();
    let exact = protocol.spec().compares(Some(NUMBER_BITS));
    Run {
        protocol,
        security,
        request: Request {
            security: Some(security),
            exact: exact.map(|(_, bits)| bits),
            ..Request::new([size; 2], reveal.unwrap_or(Reveal::Matches).into(), 1)
        },
        link: Link::NAMED[0],
    }
}

/// The most items for which the reference machine does not take too long.
fn many(protocol: &'static dyn Protocol, security: Security) -> u64 {
    let (most, seconds) = MANY;
    let (machines, prices) = (Machines::new(None, None), Prices::built_in());
    let is_short = |size: &u64| {
        let request = of_size(protocol, security, *size).request;
        let answer = machines.answer(Registry::standard(), &request, &prices);
        let all = answer.map_or_else(Vec::new, |answer| answer.forecasts);
        let name = protocol.spec().name;
        all.iter().any(|forecast| {
            (forecast.protocol, forecast.security) == (name, security)
                && forecast.seconds.likely <= seconds
        })
    };
    let sizes = std::iter::successors(Some(most), |size| Some(size / 4));
    sizes
        .take_while(|size| *size > FEW)
        .find(is_short)
        .unwrap_or(4 * FEW)
}

/// The median of some runs.
fn median(run: &Run) -> Result<Sample, Failure> {
    let samples = (0..RUNS).map(|_| run.measure());
    let mut samples = samples
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| Failure::new(RESOURCE, format!("a run of the calibration failed: {e}")))?;
    samples.sort_by(|a, b| a.seconds().total_cmp(&b.seconds()));
    Ok(samples.swap_remove(RUNS / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every run of a calibration, on small sets.
    #[test]
    fn a_calibration_has_runs_of_every_protocol() {
        let mut samples = Vec::new();
        for run in runs().chunks(2) {
            let [few, many] = run else {
                panic!("two sizes of each")
            };
            assert!(few.request.sizes[0] < many.request.sizes[0]);
            let small = of_size(few.protocol, few.security, 60);
            samples.push(small.measure().unwrap());
        }
        assert!(samples.len() > Registry::standard().all().len());
        assert!(
            samples
                .iter()
                .all(|sample| sample.seconds() > 0.0 && sample.bytes > 0)
        );
        let calibration = Calibration::new("m".into(), 1, 2, samples);
        let text = calibration.to_json().unwrap();
        assert_eq!(Calibration::parse(&text), Ok(calibration));
    }
}
