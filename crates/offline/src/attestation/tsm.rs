//! Reports from Linux, which has one interface for all platforms: a directory in configfs for each report
//! (`Documentation/ABI/testing/configfs-tsm-report`, Linux 6.7).

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::{Attester, Evidence, MAX_BLOB, Platform, ReportData};
use crate::Error;
use crate::random::fill;

/// Where reports are asked for.
pub(super) const REPORTS: &str = "/sys/kernel/config/tsm/report";

/// Asks the kernel for reports.
#[derive(Clone, Debug)]
pub struct Tsm {
    platform: Platform,
    reports: PathBuf,
}

impl Tsm {
    /// Asks in this directory, and expects reports of this platform.
    pub fn new(platform: Platform, reports: &Path) -> Tsm {
        Tsm {
            platform,
            reports: reports.to_owned(),
        }
    }

    /// The kernel's name of the platform.
    fn provider(&self) -> &'static str {
        match self.platform {
            Platform::SevSnp => "sev_guest",
            Platform::Tdx => "tdx_guest",
            Platform::Simulated => "",
        }
    }

    /// A report from an entry that exists.
    fn ask(&self, entry: &Path, data: &ReportData) -> Result<Evidence, Error> {
        let failed = |what: &str, e: std::io::Error| self.refused(&format!("{what}: {e}"));
        OpenOptions::new()
            .write(true)
            .open(entry.join("inblob"))
            .and_then(|mut file| file.write_all(data))
            .map_err(|e| failed("inblob", e))?;
        let read = |name: &str| {
            let mut out = Vec::new();
            let limit = MAX_BLOB as u64 + 1;
            let file = File::open(entry.join(name));
            let read = file.and_then(|file| file.take(limit).read_to_end(&mut out));
            read.map_err(|e| failed(name, e))?;
            match out.len() > MAX_BLOB {
                true => Err(self.refused(&format!("{name} has more than {MAX_BLOB} bytes"))),
                false => Ok(out),
            }
        };
        let report = read("outblob")?;
        let provider = read("provider")?;
        let provider = String::from_utf8_lossy(&provider);
        if provider.trim() != self.provider() {
            let other = format!("the kernel's reports are those of {:?}", provider.trim());
            return Err(self.refused(&other));
        }
        Ok(Evidence {
            platform: self.platform,
            report,
            // Only some platforms have them, and only if the host has put them there.
            endorsements: read("auxblob").unwrap_or_default(),
        })
    }

    fn refused(&self, why: &str) -> Error {
        Error::Attestation(format!("no {} report: {why}", self.platform))
    }
}

impl Attester for Tsm {
    fn platform(&self) -> Platform {
        self.platform
    }

    fn attest(&self, data: &ReportData) -> Result<Evidence, Error> {
        // An entry of its own, so that nobody else writes to it in between.
        let mut name = [0; 16];
        fill(&mut name)?;
        let entry = self
            .reports
            .join(format!("vesica-{:032x}", u128::from_le_bytes(name)));
        fs::create_dir(&entry)
            .map_err(|e| self.refused(&format!("{}: {e}", self.reports.display())))?;
        let asked = self.ask(&entry, data);
        let _ = fs::remove_dir(&entry);
        asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A directory with the files that the kernel puts into an entry.
    fn entry(provider: &str, report: &[u8]) -> TempDir {
        let entry = TempDir::new().unwrap();
        let put = |name: &str, bytes: &[u8]| fs::write(entry.path().join(name), bytes).unwrap();
        put("inblob", b"");
        put("outblob", report);
        put("provider", provider.as_bytes());
        entry
    }

    #[test]
    fn entries_are_read() {
        let tsm = Tsm::new(Platform::SevSnp, Path::new("/"));
        let data = [7; 64];
        let dir = entry("sev_guest\n", b"report");
        let evidence = tsm.ask(dir.path(), &data).unwrap();
        assert_eq!(fs::read(dir.path().join("inblob")).unwrap(), data);
        assert_eq!(
            (&evidence.report[..], &evidence.endorsements[..]),
            (&b"report"[..], &b""[..])
        );
        fs::write(dir.path().join("auxblob"), b"certificates").unwrap();
        let evidence = tsm.ask(dir.path(), &data).unwrap();
        assert_eq!(evidence.endorsements, b"certificates");
        let long = entry("sev_guest", &vec![0; MAX_BLOB + 1]);
        let error = tsm.ask(long.path(), &data).unwrap_err().to_string();
        assert!(
            error.contains("outblob has more than 32768 bytes"),
            "{error}"
        );
        let other = entry("tdx_guest", b"report");
        let error = tsm.ask(other.path(), &data).unwrap_err().to_string();
        assert!(error.contains("\"tdx_guest\""), "{error}");
        fs::remove_file(other.path().join("inblob")).unwrap();
        let error = tsm.ask(other.path(), &data).unwrap_err().to_string();
        assert!(error.contains("inblob"), "{error}");
    }

    #[test]
    fn a_machine_without_says_so() {
        let nowhere = TempDir::new().unwrap();
        let reports = nowhere.path().join("report");
        let error = Tsm::new(Platform::Tdx, &reports).attest(&[0; 64]);
        let error = error.unwrap_err().to_string();
        assert!(error.contains("no tdx report: "), "{error}");
        // A directory in which the kernel puts no files.
        fs::create_dir(&reports).unwrap();
        let error = Tsm::new(Platform::Tdx, &reports).attest(&[0; 64]);
        assert!(error.unwrap_err().to_string().contains("inblob"));
        assert!(fs::read_dir(&reports).unwrap().next().is_none());
    }
}
