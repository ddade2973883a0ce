//! Measured runs, and sets of them from one machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vesica_psi::{Optimize, Reveals, Security};

/// The version of the form of a [`Calibration`].
const VERSION: u32 = 2;

/// A run that was measured, as `vesica bench --json` prints it; what else is there is ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The protocol's name.
    pub protocol: String,
    /// The adversary that the run withstands.
    pub security: Security,
    /// What the receiver learnt; sums are of one column of the sender's.
    pub reveal: Reveals,
    /// What was saved.
    pub optimize: Optimize,
    /// Items of the receiver.
    pub receiver_size: u64,
    /// Items of the sender.
    pub sender_size: u64,
    /// Bits of items that are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
    /// The link as text.
    pub network: String,
    /// How long it took.
    pub seconds: Seconds,
    /// What was sent.
    pub bytes: Bytes,
    /// What each process held at most.
    pub peak_memory_bytes: Memory,
}

/// Seconds of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seconds {
    /// Of what needs items.
    pub online: f64,
    /// Of what needs none.
    pub offline: f64,
}

/// Bytes of a run, framing included, TLS not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// From the receiver.
    pub receiver_to_sender: u64,
    /// From the sender.
    pub sender_to_receiver: u64,
    /// Of these, what needs no items.
    pub offline: u64,
    /// From a dealer to the receiver, besides.
    #[serde(default)]
    pub dealer_to_receiver: u64,
}

impl Bytes {
    /// Both ways.
    pub fn total(&self) -> u64 {
        self.receiver_to_sender + self.sender_to_receiver
    }
}

/// Peak memory of the process of each side, which reads a table of one key column and runs one thread, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Of the receiver; `None` where the system does not tell.
    pub receiver: Option<u64>,
    /// Of the sender.
    pub sender: Option<u64>,
}

impl Sample {
    /// Seconds of the whole run.
    pub fn total_seconds(&self) -> f64 {
        self.seconds.online + self.seconds.offline
    }
}

/// What is known of a machine: runs between two parties on it, with a thread each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The version of this form.
    version: u32,
    /// Processor, cores and system.
    pub machine: String,
    /// Fixed-key AES-128 blocks per second on one core.
    pub yardstick_aes_blocks_per_second: u64,
    /// Seconds since 1970.
    pub taken: u64,
    /// The runs.
    pub samples: Vec<Sample>,
}

/// Why a calibration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CalibrationProblem {
    /// The text is none, with what is wrong.
    Malformed(String),
    /// It is of another version.
    Version(u32),
    /// A number is out of range: which one.
    OutOfRange(&'static str),
}

impl std::fmt::Display for CalibrationProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CalibrationProblem::Malformed(problem) => f.write_str(problem),
            CalibrationProblem::Version(version) => {
                write!(f, "version {version}, where {VERSION} is known")
            }
            CalibrationProblem::OutOfRange(what) => write!(f, "{what} out of range"),
        }
    }
}

impl std::error::Error for CalibrationProblem {}

/// The file of this user's calibration; `None` if the environment names no directory for configuration.
pub fn calibration_path() -> Option<PathBuf> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let directory = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let directory = directory.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))?;
    Some(directory.join("vesica").join("calibration.json"))
}

impl Calibration {
    /// A calibration of a machine.
    pub fn new(machine: String, yardstick: u64, taken: u64, samples: Vec<Sample>) -> Calibration {
        Calibration {
            version: VERSION,
            machine,
            yardstick_aes_blocks_per_second: yardstick,
            taken,
            samples,
        }
    }

    /// The calibration in a JSON text.
    ///
    /// # Errors
    /// For any other text, and for times that no run takes.
    pub fn parse(text: &str) -> Result<Calibration, CalibrationProblem> {
        let malformed = |e: serde_json::Error| CalibrationProblem::Malformed(e.to_string());
        let calibration: Calibration = serde_json::from_str(text).map_err(malformed)?;
        if calibration.version != VERSION {
            return Err(CalibrationProblem::Version(calibration.version));
        }
        if calibration.yardstick_aes_blocks_per_second == 0 {
            return Err(CalibrationProblem::OutOfRange("yardstick"));
        }
        let is_time = |seconds: f64| (0.0..1e9).contains(&seconds);
        let is_run = |s: &Sample| {
            is_time(s.seconds.online) && is_time(s.seconds.offline) && s.total_seconds() > 0.0
        };
        match calibration.samples.iter().all(is_run) {
            true => Ok(calibration),
            false => Err(CalibrationProblem::OutOfRange("seconds")),
        }
    }

    /// The calibration as JSON, a line for each run.
    ///
    /// # Errors
    /// For numbers that JSON does not have.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let lines = self.samples.iter().map(serde_json::to_string);
        let lines = lines.collect::<Result<Vec<_>, _>>()?.join(",\n    ");
        let machine = serde_json::to_string(&self.machine)?;
        Ok(format!(
            "{{\n  \"version\": {},\n  \"machine\": {machine},\n  \
             \"yardstick_aes_blocks_per_second\": {},\n  \"taken\": {},\n  \"samples\": [\n    {lines}\n  ]\n}}\n",
            self.version, self.yardstick_aes_blocks_per_second, self.taken
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_psi::Reveal;

    fn sample() -> Sample {
        Sample {
            protocol: "vole".into(),
            security: Security::Malicious,
            reveal: Reveal::Matches.into(),
            optimize: Optimize::Time,
            receiver_size: 5,
            sender_size: 6,
            items: None,
            network: "lan".into(),
            seconds: Seconds {
                online: 0.5,
                offline: 0.0,
            },
            bytes: Bytes {
                receiver_to_sender: 7,
                sender_to_receiver: 8,
                offline: 0,
                dealer_to_receiver: 0,
            },
            peak_memory_bytes: Memory {
                receiver: Some(9),
                sender: None,
            },
        }
    }

    #[test]
    fn a_calibration_comes_back() {
        let calibration = Calibration::new("a \"machine\"".into(), 9, 3, vec![sample(), sample()]);
        let text = calibration.to_json().unwrap();
        assert_eq!(Calibration::parse(&text), Ok(calibration));
    }

    #[test]
    fn what_no_machine_measures_is_refused() {
        let mut slow = sample();
        slow.seconds.online = -1.0;
        let of = |yardstick, samples| {
            let calibration = Calibration::new("m".into(), yardstick, 0, samples);
            Calibration::parse(&calibration.to_json().unwrap())
        };
        assert_eq!(
            of(0, vec![]),
            Err(CalibrationProblem::OutOfRange("yardstick"))
        );
        assert_eq!(
            of(1, vec![slow]),
            Err(CalibrationProblem::OutOfRange("seconds"))
        );
        let text = Calibration::new("m".into(), 1, 0, vec![])
            .to_json()
            .unwrap();
        let newer = text.replace("\"version\": 2", "\"version\": 3");
        assert_eq!(
            Calibration::parse(&newer),
            Err(CalibrationProblem::Version(3))
        );
        for wrong in [
            "",
            "[]",
            &text.replace("taken", "token"),
            &text[..text.len() / 2],
        ] {
            let found = Calibration::parse(wrong);
            assert!(
                matches!(found, Err(CalibrationProblem::Malformed(_))),
                "{wrong}"
            );
        }
    }
}
