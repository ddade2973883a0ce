//! What software a dealer or a generator runs, shown by a trusted execution environment (TEE).
//!
//! The words are those of RFC 9334. A dealer in a TEE, the *attester*, has the hardware sign a *report* of the software
//! that it was started with, its *measurement*, and of 64 bytes of the dealer's choice. A party, the *verifier*, checks
//! the signature up to a key of the manufacturer, for which it may need *endorsements* (certificates, and statements
//! about versions), and compares the measurement with the one that it expects.
//!
//! **What is bound.** The 64 bytes are a hash of the dealer's fingerprint, the party's, and the party's whole request,
//! in which there are a fresh nonce and the other party's fingerprint. So a report serves one request over one
//! connection. What generators bind is said with them (the module `generators`). Whoever has the dealer's key, but not the TEE, gets no report for the parties: the measured program asks
//! for one only when it speaks with them over TLS, and takes no other party for them.
//!
//! **What is not.** A measurement says which software was started, not that it has no errors; a TEE whose hardware is
//! broken says anything. A verifier refuses TEEs that their owner can look into with a debugger, and versions of
//! processors' firmware older than it asks for.

#[cfg(feature = "tee")]
mod sev_snp;
mod simulated;
#[cfg(feature = "tee")]
mod tdx;
mod tsm;

use std::fmt;
use std::path::Path;
use std::time::SystemTime;

use vesica_session::Fingerprint;
use vesica_session::codec::{Reader, bad};
use vesica_wire::{Error as WireError, Kind};

use crate::Error;
use crate::claims::{Claims, Measurement, Platform, ReportData, Untrusted};

#[cfg(feature = "tee")]
pub use sev_snp::{Product, SevSnp, TcbLevel};
pub use simulated::Simulated;
#[cfg(feature = "tee")]
pub use tdx::Tdx;
pub use tsm::Tsm;

/// What a dealer or a generator shows of its TEE.
pub(crate) const EVIDENCE: Kind = Kind {
    code: 26,
    name: "attestation",
};

/// Longest report, and longest endorsements, in bytes: what Linux hands out at most.
const MAX_BLOB: usize = 32 << 10;
/// Longest evidence in bytes.
pub const MAX_EVIDENCE: usize = 1 + 2 * (4 + MAX_BLOB);

/// A report, with what the attester has of endorsements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What made it.
    pub platform: Platform,
    /// The report, as the hardware signs it.
    pub report: Vec<u8>,
    /// Endorsements that came with it, perhaps none.
    pub endorsements: Vec<u8>,
}

impl Evidence {
    /// Platform; length and bytes of the report, and of the endorsements. Lengths have four bytes, little endian.
    ///
    /// # Panics
    /// If one of them is longer than what a report may be.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.platform.code()];
        for blob in [&self.report, &self.endorsements] {
            assert!(blob.len() <= MAX_BLOB);
            out.extend_from_slice(&(blob.len() as u32).to_le_bytes());
            out.extend_from_slice(blob);
        }
        out
    }

    /// What [`Evidence::encode`] wrote. What is in it, a [`Verifier`] says.
    ///
    /// # Errors
    /// `PeerMisbehaved` for bytes that are no evidence.
    pub fn decode(bytes: &[u8]) -> Result<Evidence, WireError> {
        let mut reader = Reader::new(EVIDENCE.name, bytes);
        let platform = Platform::from_code(reader.u8()?)?;
        let mut blob = || -> Result<Vec<u8>, WireError> {
            let length = reader.u32()? as usize;
            if length > MAX_BLOB {
                return Err(bad(EVIDENCE.name, "too long"));
            }
            Ok(reader.bytes(length)?.to_vec())
        };
        let [report, endorsements] = [blob()?, blob()?];
        reader.end()?;
        Ok(Evidence {
            platform,
            report,
            endorsements,
        })
    }
}

/// What has reports made of the software that runs here.
pub trait Attester: Send + Sync {
    /// Whose reports it has made.
    fn platform(&self) -> Platform;

    /// A report over these bytes.
    ///
    /// # Errors
    /// [`Error::Attestation`] if there is nothing that makes one.
    fn attest(&self, data: &ReportData) -> Result<Evidence, Error>;
}

/// What checks reports of one platform.
pub trait Verifier: Send + Sync {
    /// Whose reports.
    fn platform(&self) -> Platform;

    /// What a report says, if it is genuine, and of a TEE that nobody can look into.
    ///
    /// # Errors
    /// Why it is not.
    fn authenticate(&self, evidence: &Evidence, now: SystemTime) -> Result<Claims, Untrusted>;
}

/// What a party expects of a dealer or a generator.
pub struct Expected {
    verifier: Box<dyn Verifier>,
    measurement: Measurement,
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verifier.platform(), self.measurement)
    }
}

impl Expected {
    /// Software of this measurement, as that verifier finds it.
    pub fn new(verifier: impl Verifier + 'static, measurement: Measurement) -> Expected {
        Expected {
            verifier: Box::new(verifier),
            measurement,
        }
    }

    /// Whose reports.
    pub(crate) fn platform(&self) -> Platform {
        self.verifier.platform()
    }

    /// What was expected, in words for a listing.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.verifier.platform(), self.measurement)
    }

    /// Checks evidence over these bytes at some time.
    ///
    /// # Errors
    /// Why it is not what was expected.
    pub fn check(
        &self,
        evidence: &Evidence,
        data: &ReportData,
        now: SystemTime,
    ) -> Result<(), Untrusted> {
        let (expected, got) = (self.verifier.platform(), evidence.platform);
        if expected != got {
            return Err(Untrusted::Platform { expected, got });
        }
        let claims = self.verifier.authenticate(evidence, now)?;
        if claims.data != *data {
            return Err(Untrusted::NotBound);
        }
        let (expected, got) = (self.measurement, claims.measurement);
        match expected == got {
            true => Ok(()),
            false => Err(Untrusted::Measurement { expected, got }),
        }
    }
}

/// The bytes that a dealer's report is made over, for a party and its encoded request.
pub(crate) fn report_data(dealer: Fingerprint, party: Fingerprint, request: &[u8]) -> ReportData {
    let mut hasher = blake3::Hasher::new_derive_key("vesica/1 attested dealer");
    hasher.update(dealer.as_bytes());
    hasher.update(party.as_bytes());
    hasher.update(request);
    let mut data = [0; 64];
    hasher.finalize_xof().fill(&mut data);
    data
}

/// An attester for this machine. `simulated` makes reports that say nothing.
///
/// # Errors
/// [`Error::Attestation`] if the machine is not a TEE of this platform.
pub fn attester(platform: Platform) -> Result<Box<dyn Attester>, Error> {
    Ok(match platform {
        Platform::Simulated => Box::new(Simulated),
        Platform::SevSnp | Platform::Tdx => {
            let attester = Tsm::new(platform, Path::new(tsm::REPORTS));
            // So that it does not turn out when parties wait.
            attester.attest(&[0; 64])?;
            Box::new(attester)
        }
    })
}

#[cfg(test)]
mod tests;
