//! Quotes of Intel TDX (Intel, *TDX DCAP Quoting Library API*), checked up to Intel's root key.
//!
//! The measurement is SHA-384 of MRTD and the four run-time registers RTMR0 to RTMR3, in this order: MRTD alone is
//! firmware, which measures into the registers what it starts.

use std::time::{SystemTime, UNIX_EPOCH};

use dcap_qvl::QuoteCollateralV3;
use dcap_qvl::verify::QuoteVerifier;
use sha2::{Digest, Sha384};

use super::{Claims, Evidence, Measurement, Platform, Untrusted, Verifier};
use crate::Error;

/// The status of a platform that nothing is known against.
const UP_TO_DATE: &str = "UpToDate";

/// A domain's attributes (Intel, *TDX Module Base Architecture Specification*, TD attributes): it is open to debuggers and
/// profilers, and it may be moved to another machine, by a service domain that is given its secrets.
const UNTRUSTED: u64 = 0xff;
const MIGRATABLE: u64 = 1 << 29;

/// Refuses domains whose memory the owner of the machine can have. The library refuses them too.
fn check_attributes(attributes: [u8; 8]) -> Result<(), Untrusted> {
    let attributes = u64::from_le_bytes(attributes);
    if attributes & UNTRUSTED != 0 {
        return Err(Untrusted::Open(
            "its attributes allow debugging or profiling",
        ));
    }
    if attributes & MIGRATABLE != 0 {
        return Err(Untrusted::Open("its attributes allow migration"));
    }
    Ok(())
}

/// Checks quotes of TDX.
#[derive(Clone, Debug)]
pub struct Tdx {
    collateral: QuoteCollateralV3,
}

impl Tdx {
    /// Takes quotes of platforms that Intel calls up to date in this collateral: what Intel's provisioning service says
    /// about the platform, as JSON in the form of the library `dcap-qvl`, from which it can be had too.
    ///
    /// Fails with [`Error::Usage`] for something else.
    pub fn new(collateral: &[u8]) -> Result<Tdx, Error> {
        let collateral = serde_json::from_slice(collateral)
            .map_err(|e| Error::Usage(format!("no collateral of TDX quotes: {e}")))?;
        Ok(Tdx { collateral })
    }

    /// What a quote says, if it is signed under the root key of this library.
    fn claims(
        &self,
        library: &QuoteVerifier,
        evidence: &Evidence,
        now: SystemTime,
    ) -> Result<Claims, Untrusted> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let verified = library
            .verify(&evidence.report, &self.collateral, now)
            .map_err(|e| Untrusted::Forged(format!("{e:#}")))?;
        let Some(report) = verified.report.as_td10() else {
            return Err(Untrusted::Malformed("a quote of SGX".into()));
        };
        check_attributes(report.td_attributes)?;
        let of_service = verified.report.as_td15().map(|td| td.mr_service_td);
        if of_service.is_some_and(|hash| hash != [0; 48]) {
            return Err(Untrusted::Open("a service domain is bound to it"));
        }
        if verified.status != UP_TO_DATE {
            let advisories = verified.advisory_ids.join(" ");
            let status = format!("{} {advisories}", verified.status);
            return Err(Untrusted::OutOfDate(status.trim_end().to_owned()));
        }
        let registers = [report.rt_mr0, report.rt_mr1, report.rt_mr2, report.rt_mr3];
        let mut hasher = Sha384::new_with_prefix(report.mr_td);
        registers
            .iter()
            .for_each(|register| hasher.update(register));
        Ok(Claims {
            data: report.report_data,
            measurement: Measurement(hasher.finalize().into()),
        })
    }
}

impl Verifier for Tdx {
    fn platform(&self) -> Platform {
        Platform::Tdx
    }

    fn authenticate(&self, evidence: &Evidence, now: SystemTime) -> Result<Claims, Untrusted> {
        // Debugging, migration and service domains are refused there too.
        self.claims(&QuoteVerifier::new_prod(), evidence, now)
    }
}

#[cfg(test)]
mod tests;
