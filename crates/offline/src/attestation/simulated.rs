//! Reports for machines without a TEE. Anybody can make them: they are for tests, and say nothing.

use std::time::SystemTime;

use super::{Attester, Claims, Evidence, Measurement, Platform, ReportData, Untrusted, Verifier};
use crate::Error;

/// Makes reports, and believes them.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

impl Simulated {
    /// What every simulated TEE says that it runs.
    pub const MEASUREMENT: Measurement =
        Measurement(*b"a simulated measurement, which protects nothing!");
}

impl Attester for Simulated {
    fn platform(&self) -> Platform {
        Platform::Simulated
    }

    /// The bytes themselves, then the measurement.
    fn attest(&self, data: &ReportData) -> Result<Evidence, Error> {
        Ok(Evidence {
            platform: Platform::Simulated,
            report: [&data[..], &Self::MEASUREMENT.0].concat(),
            endorsements: Vec::new(),
        })
    }
}

impl Verifier for Simulated {
    fn platform(&self) -> Platform {
        Platform::Simulated
    }

    fn authenticate(&self, evidence: &Evidence, _: SystemTime) -> Result<Claims, Untrusted> {
        let parts = evidence.report.split_first_chunk::<64>();
        let parts = parts.and_then(|(data, rest)| Some((data, rest.try_into().ok()?)));
        let wrong = || Untrusted::Malformed("no simulated report".into());
        let (data, measurement) = parts.ok_or_else(wrong)?;
        Ok(Claims {
            data: *data,
            measurement: Measurement(measurement),
        })
    }
}
