//! What a report says, and why it may not be believed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use vesica_session::codec::bad;
use vesica_wire::Error as WireError;

/// A kind of TEE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Platform {
    /// None: anybody can make such a report.
    Simulated,
    /// A virtual machine under AMD SEV-SNP.
    SevSnp,
    /// A virtual machine under Intel TDX.
    Tdx,
}

impl Platform {
    /// All, each with its code in evidence and its name for people.
    const ALL: [(Platform, u8, &'static str); 3] = [
        (Platform::Simulated, 1, "simulated"),
        (Platform::SevSnp, 2, "sev-snp"),
        (Platform::Tdx, 3, "tdx"),
    ];

    pub(crate) fn code(self) -> u8 {
        Platform::ALL[self as usize].1
    }

    pub(crate) fn from_code(code: u8) -> Result<Platform, WireError> {
        let found = Platform::ALL.into_iter().find(|(_, its, _)| *its == code);
        found.map_or(Err(bad("platform", "unknown code")), |(platform, ..)| {
            Ok(platform)
        })
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Platform::ALL[*self as usize].2)
    }
}

/// What a report is made over.
pub type ReportData = [u8; 64];

/// The digest of what a TEE was started with: SHA-384.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Measurement(pub [u8; 48]);

/// Why a text is no [`Measurement`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a measurement is 96 hexadecimal digits")]
pub struct NoMeasurement;

/// 96 hexadecimal digits.
impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Measurement {
    type Err = NoMeasurement;

    fn from_str(text: &str) -> Result<Measurement, NoMeasurement> {
        let digit = |c: &u8| char::from(*c).to_digit(16);
        let digits: Option<Vec<u32>> = text.as_bytes().iter().map(digit).collect();
        let digits = digits.filter(|digits| digits.len() == 96);
        let digits = digits.ok_or(NoMeasurement)?;
        Ok(Measurement(std::array::from_fn(|i| {
            (digits[2 * i] << 4 | digits[2 * i + 1]) as u8
        })))
    }
}

/// What a report says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims {
    /// What it was made over.
    pub data: ReportData,
    /// What the TEE was started with.
    pub measurement: Measurement,
}

/// Why evidence is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// It is of another platform.
    #[error("a report of {got}, where one of {expected} was expected")]
    Platform {
        /// The expected one.
        expected: Platform,
        /// Of what it is.
        got: Platform,
    },
    /// The report or its endorsements cannot be read.
    #[error("{0}")]
    Malformed(String),
    /// There is nothing to check the signature with.
    #[error("no endorsement of the key that signs the report came with it, and none was given")]
    NotEndorsed,
    /// A signature, a certificate or its time is wrong.
    #[error("its report cannot be verified: {0}")]
    Forged(String),
    /// The owner of the machine can look into the TEE.
    #[error("its TEE is open: {0}")]
    Open(&'static str),
    /// It is genuine, but of another kind than was asked for.
    #[error("its report is of {got}, and {expected} was expected")]
    Unexpected {
        /// What was expected.
        expected: String,
        /// Of what it is.
        got: String,
    },
    /// Firmware is older than asked for, or the manufacturer warns of it.
    #[error("its platform is out of date: {0}")]
    OutOfDate(String),
    /// The report is over something else: one that was made for somebody else, or earlier.
    #[error("the report is not made for this request")]
    NotBound,
    /// Other software.
    #[error("its measurement is {got}, and {expected} was expected")]
    Measurement {
        /// The expected one.
        expected: Measurement,
        /// The one in the report.
        got: Measurement,
    },
}
