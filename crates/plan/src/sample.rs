//! Measured runs, and sets of them from one machine.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use vesica_psi::{Reveals, Security};

/// The version of the form of a [`Calibration`].
const VERSION: u32 = 1;

/// A run that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// The protocol's name.
    pub protocol: String,
    /// The adversary that the run withstands.
    pub security: Security,
    /// What the receiver learnt; sums are of one column of the sender's.
    pub reveal: Reveals,
    /// Items of the receiver.
    pub receiver_size: u64,
    /// Items of the sender.
    pub sender_size: u64,
    /// Bits of items that are numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exact: Option<u32>,
    /// The name of the emulated link.
    pub network: String,
    /// Seconds of what needs items.
    pub online: f64,
    /// Seconds of what needs none.
    pub offline: f64,
    /// Bytes both ways of what needs items.
    pub bytes: u64,
    /// Bytes both ways of what needs none.
    pub offline_bytes: u64,
}

impl Sample {
    /// Seconds of the whole run.
    pub fn seconds(&self) -> f64 {
        self.online + self.offline
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
        let is_run = |s: &Sample| is_time(s.online) && is_time(s.offline) && s.seconds() > 0.0;
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
            receiver_size: 5,
            sender_size: 6,
            exact: None,
            network: "lan".into(),
            online: 0.5,
            offline: 0.0,
            bytes: 7,
            offline_bytes: 0,
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
        let slow = Sample {
            online: -1.0,
            ..sample()
        };
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
        let newer = text.replace("\"version\": 1", "\"version\": 2");
        assert_eq!(
            Calibration::parse(&newer),
            Err(CalibrationProblem::Version(2))
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
