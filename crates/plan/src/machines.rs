//! What is known of machines: fits to runs of the reference machine, and by how much this one is slower.

use std::sync::{LazyLock, OnceLock};
use std::time::Duration;

use serde::Serialize;
use vesica_primitives::yardstick::aes_blocks_per_second;
use vesica_psi::{Optimize, Reveals, Security};
use vesica_wire::Link;

use crate::fit::{Fit, Work, factors};
use crate::{Calibration, Sample};

/// How far work and transfers overlap where nothing was measured.
const OVERLAP: f64 = 0.5;

/// Samples of the yardstick, and the time of each.
const YARDSTICK: (Duration, usize) = (Duration::from_millis(20), 7);

/// Bytes in the unit in which memory is fitted.
const MIB: f64 = (1 << 20) as f64;

/// The runs of the reference machine: `data/reference.json`.
static REFERENCE: LazyLock<Calibration> = LazyLock::new(|| {
    let reference = Calibration::parse(include_str!("../data/reference.json"));
    reference.expect("the runs that come with this crate")
});

/// What is fitted to them.
static FITS: LazyLock<Fits> = LazyLock::new(|| Fits::new(&REFERENCE.samples));

/// Fixed-key AES-128 blocks per second on one core of this machine; takes a seventh of a second.
pub fn yardstick() -> u64 {
    let (sample, samples) = YARDSTICK;
    aes_blocks_per_second(sample, samples)
}

/// What is known of machines.
pub struct Machines {
    local: Vec<LocalRun>,
    /// By how much this machine is slower than the reference at AES.
    slower: f64,
}

/// A run of this machine beside what the fit says of it.
struct LocalRun {
    key: Key,
    /// For each [`Phase`], the parts of the fit and the seconds that it took; `None` if there is nothing to compare.
    phases: [Option<([f64; 2], f64)>; 2],
}

impl Machines {
    /// The reference machine, and this one: its calibration, or else its AES blocks per second.
    pub fn new(local: Option<Calibration>, yardstick: Option<u64>) -> Machines {
        let of_reference = REFERENCE.yardstick_aes_blocks_per_second as f64;
        let slower = yardstick.map_or(1.0, |own| of_reference / own.max(1) as f64);
        let runs = local.iter().flat_map(|local| &local.samples);
        Machines {
            local: runs.filter(|run| is_near(run)).map(LocalRun::new).collect(),
            slower,
        }
    }

    /// The runs of the reference machine.
    pub fn reference() -> &'static Calibration {
        &REFERENCE
    }

    /// Seconds of work on this machine.
    pub(crate) fn compute(&self, key: &Key, phase: Phase, work: &Work) -> Option<Computed> {
        let (fits, closeness) = FITS.of(key)?;
        let fit = fits.seconds[phase as usize].as_ref()?;
        let (factors, basis) = match self.factors(key, phase) {
            Some((factors, closeness)) => (factors, closeness.basis()),
            None => ([self.slower; 2], Basis::Reference),
        };
        let other = match closeness {
            Closeness::Same => 0.0,
            Closeness::Protocol | Closeness::Other => 0.5,
        };
        let parts = fit.parts(work).into_iter().zip(factors);
        Some(Computed {
            seconds: parts.map(|(part, factor)| part * factor).sum(),
            spread: fit.spread_at(work) + basis.spread() + other,
            basis,
        })
    }

    /// By how much this machine is slower in a phase, by its closest runs.
    fn factors(&self, key: &Key, phase: Phase) -> Option<([f64; 2], Closeness)> {
        let runs = self.local.iter();
        let runs =
            runs.filter_map(|run| Some((key.closeness(&run.key), run.phases[phase as usize]?)));
        let closest = runs.clone().map(|(closeness, _)| closeness).min()?;
        let runs: Vec<_> = runs
            .filter(|(closeness, _)| *closeness == closest)
            .map(|(_, run)| run)
            .collect();
        Some((factors(&runs)?, closest))
    }

    /// How far work and transfers overlap.
    pub(crate) fn overlap(key: &Key) -> f64 {
        FITS.of(key)
            .and_then(|(fits, _)| fits.overlap)
            .unwrap_or(OVERLAP)
    }

    /// Peak memory of the receiver's and of the sender's process.
    pub(crate) fn memory(key: &Key, work: &Work) -> Option<[u64; 2]> {
        let (fits, _) = FITS.of(key)?;
        let [receiver, sender] = fits.memory.each_ref().map(Option::as_ref);
        let peak = |fit: &Fit| (fit.parts(work).iter().sum::<f64>() * MIB) as u64;
        Some([peak(receiver?), peak(sender?)])
    }
}

impl LocalRun {
    fn new(run: &Sample) -> LocalRun {
        let key = Key::of(run);
        let phases = Phase::ALL.map(|phase| {
            let (fits, _) = FITS.of(&key)?;
            let fit = fits.seconds[phase as usize].as_ref()?;
            let seconds = Some(phase.seconds(run)).filter(|seconds| *seconds > 0.0);
            Some((fit.parts(&phase.work(run)), seconds?))
        });
        LocalRun { key, phases }
    }
}

/// Whether no link slowed the run down.
fn is_near(run: &Sample) -> bool {
    run.network == Link::NAMED[0].name
}

/// Seconds of work, and how sure they are.
pub(crate) struct Computed {
    pub(crate) seconds: f64,
    pub(crate) spread: f64,
    pub(crate) basis: Basis,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Offline,
    Online,
}

impl Phase {
    const ALL: [Phase; 2] = [Phase::Offline, Phase::Online];

    fn seconds(self, run: &Sample) -> f64 {
        match self {
            Phase::Offline => run.seconds.offline,
            Phase::Online => run.seconds.online,
        }
    }

    fn work(self, run: &Sample) -> Work {
        let bytes = match self {
            Phase::Offline => run.bytes.offline + run.bytes.dealer_to_receiver,
            Phase::Online => run.bytes.total() - run.bytes.offline,
        };
        work(run, bytes)
    }
}

fn work(run: &Sample, bytes: u64) -> Work {
    Work {
        receiver_size: run.receiver_size,
        sender_size: run.sender_size,
        bytes,
    }
}

/// What runs have in common that sizes tell apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Key {
    pub(crate) protocol: String,
    pub(crate) security: Security,
    pub(crate) reveal: Reveals,
    pub(crate) optimize: Optimize,
    pub(crate) has_numbers: bool,
}

/// What an interval rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// This machine has run the same.
    ThisRun,
    /// It has run the protocol for another result.
    ThisProtocol,
    /// It has run other protocols.
    ThisMachine,
    /// The runs are those of the reference machine, and this one is as fast at AES as it is said to be.
    Reference,
}

impl Basis {
    /// What it adds to the relative error.
    fn spread(self) -> f64 {
        match self {
            Basis::ThisRun => 0.1,
            Basis::ThisProtocol => 0.25,
            Basis::ThisMachine => 0.5,
            Basis::Reference => 1.0,
        }
    }
}

/// How much a measured run tells about another one, the most first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    /// But for sizes the same.
    Same,
    /// Of the same protocol.
    Protocol,
    Other,
}

impl Closeness {
    fn basis(self) -> Basis {
        match self {
            Closeness::Same => Basis::ThisRun,
            Closeness::Protocol => Basis::ThisProtocol,
            Closeness::Other => Basis::ThisMachine,
        }
    }
}

impl Key {
    fn of(run: &Sample) -> Key {
        Key {
            protocol: run.protocol.clone(),
            security: run.security,
            reveal: run.reveal,
            optimize: run.optimize,
            has_numbers: run.items.is_some(),
        }
    }

    fn closeness(&self, other: &Key) -> Closeness {
        match self.protocol == other.protocol {
            true if self == other => Closeness::Same,
            true => Closeness::Protocol,
            false => Closeness::Other,
        }
    }
}

/// Fits to the runs of each key, and to all runs of each protocol. Each is made when it is asked for: all of them take half
/// a second, and a run needs one.
struct Fits {
    runs: &'static [Sample],
    of_keys: Vec<(Key, OnceLock<RunFits>)>,
    of_protocols: Vec<(&'static str, OnceLock<RunFits>)>,
}

/// What is fitted to runs.
struct RunFits {
    /// For each [`Phase`]; `None` if it takes no time.
    seconds: [Option<Fit>; 2],
    /// Peak memory of the receiver and of the sender.
    memory: [Option<Fit>; 2],
    /// How far work and transfers overlap, from runs over links without delays.
    overlap: Option<f64>,
}

impl Fits {
    fn new(runs: &'static [Sample]) -> Fits {
        let mut fits = Fits {
            runs,
            of_keys: Vec::new(),
            of_protocols: Vec::new(),
        };
        for run in runs {
            let key = Key::of(run);
            if !fits.of_keys.iter().any(|(known, _)| *known == key) {
                fits.of_keys.push((key, OnceLock::new()));
            }
            let name = &*run.protocol;
            if !fits.of_protocols.iter().any(|(known, _)| *known == name) {
                fits.of_protocols.push((name, OnceLock::new()));
            }
        }
        fits
    }

    /// Those to the closest runs.
    fn of(&self, key: &Key) -> Option<(&RunFits, Closeness)> {
        let to = |is_meant: &dyn Fn(&Sample) -> bool| {
            let meant: Vec<_> = self.runs.iter().filter(|run| is_meant(run)).collect();
            RunFits::new(&meant)
        };
        if let Some((_, fits)) = self.of_keys.iter().find(|(known, _)| known == key) {
            let fits = fits.get_or_init(|| to(&|run| Key::of(run) == *key));
            return Some((fits, Closeness::Same));
        }
        let mut protocols = self.of_protocols.iter();
        let (_, fits) = protocols.find(|(known, _)| *known == key.protocol)?;
        let fits = fits.get_or_init(|| to(&|run| run.protocol == key.protocol));
        Some((fits, Closeness::Protocol))
    }
}

impl RunFits {
    fn new(runs: &[&Sample]) -> RunFits {
        let near: Vec<_> = runs.iter().copied().filter(|run| is_near(run)).collect();
        let seconds = Phase::ALL.map(|phase| {
            let runs = near.iter().map(|run| (phase.work(run), phase.seconds(run)));
            Fit::new(&runs.collect::<Vec<_>>())
        });
        let of_sides: [fn(&Sample) -> Option<u64>; 2] = [
            |run| run.peak_memory_bytes.receiver,
            |run| run.peak_memory_bytes.sender,
        ];
        let memory = of_sides.map(|peak| {
            let runs = near.iter();
            let runs = runs
                .filter_map(|run| Some((work(run, run.bytes.total()), peak(run)? as f64 / MIB)));
            Fit::new(&runs.collect::<Vec<_>>())
        });
        let found = runs.iter().filter_map(|run| overlap(&seconds, run));
        let found: Vec<f64> = found.collect();
        RunFits {
            overlap: (!found.is_empty()).then(|| found.iter().sum::<f64>() / found.len() as f64),
            seconds,
            memory,
        }
    }
}

/// How far work and transfers overlapped in a run over a link without delays.
fn overlap(fits: &[Option<Fit>; 2], run: &Sample) -> Option<f64> {
    let link = Link::from_name(&run.network)?;
    let rate = link.bits_per_second.filter(|_| link.rtt.is_zero())?;
    let phases = Phase::ALL.into_iter().zip(fits);
    let compute = phases.filter_map(|(phase, fit)| Some(fit.as_ref()?.parts(&phase.work(run))));
    let compute: f64 = compute.flatten().sum();
    let bytes = run.bytes.total() + run.bytes.dealer_to_receiver;
    let transfer = bytes as f64 * 8.0 / rate as f64;
    let apart = (run.total_seconds() - compute.max(transfer)) / compute.min(transfer);
    Some((1.0 - apart).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use vesica_psi::Reveal;

    use super::*;

    /// A run that shows its progress asks for one of them.
    #[test]
    fn fits_are_made_when_they_are_asked_for() {
        let fits = Fits::new(&REFERENCE.samples);
        let made = || {
            let keys = fits.of_keys.iter().filter(|(_, fits)| fits.get().is_some());
            let protocols = fits.of_protocols.iter();
            let protocols = protocols.filter(|(_, fits)| fits.get().is_some());
            [keys.count(), protocols.count()]
        };
        assert_eq!(made(), [0, 0]);
        let key = Key::of(&REFERENCE.samples[0]);
        assert!(matches!(fits.of(&key), Some((_, Closeness::Same))));
        assert_eq!(made(), [1, 0]);
        let other = Key {
            has_numbers: !key.has_numbers,
            optimize: Optimize::Traffic,
            reveal: Reveal::Shares.into(),
            ..key
        };
        assert!(matches!(fits.of(&other), Some((_, Closeness::Protocol))));
        assert_eq!(made(), [1, 1]);
    }
}
