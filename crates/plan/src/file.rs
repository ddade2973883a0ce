//! Prices and calibrations in files.

use std::fmt;
use std::path::{Path, PathBuf};

use vesica_files::read_regular;

use crate::{Calibration, Prices};

/// The most bytes of a file; a calibration has some 200 for each run.
const MAX_BYTES: u64 = 16 << 20;

/// A file that cannot be used, and why.
#[derive(Debug)]
pub struct Unusable {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for Unusable {}

impl Prices {
    /// The prices in a file.
    ///
    /// # Errors
    /// If it cannot be read, has more than 16 MiB, or has no prices.
    pub fn load(path: &Path) -> Result<Prices, Unusable> {
        load(path, Prices::parse)
    }
}

impl Calibration {
    /// The calibration in a file.
    ///
    /// # Errors
    /// If it cannot be read, has more than 16 MiB, or has no calibration.
    pub fn load(path: &Path) -> Result<Calibration, Unusable> {
        load(path, Calibration::parse)
    }
}

fn load<T, E: fmt::Display>(
    path: &Path,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, Unusable> {
    let text = read_regular(path, MAX_BYTES).map_err(|e| format!("cannot be read: {e}"));
    let text = text.and_then(|bytes| {
        String::from_utf8(bytes).map_err(|_| "cannot be read: it is not UTF-8".to_owned())
    });
    let parsed = text.and_then(|text| parse(&text).map_err(|e| e.to_string()));
    parsed.map_err(|problem| Unusable {
        path: path.to_owned(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_bounded_and_named() {
        let name = format!("vesica-prices-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let problem = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            let unusable = Prices::load(&path).unwrap_err();
            assert_eq!(unusable.path, path);
            unusable.problem
        };
        assert!(problem(&vec![b' '; MAX_BYTES as usize + 1]).contains("more than 16777216 bytes"));
        // As large as a file may be, it is judged by what is in it.
        assert!(problem(&vec![b' '; MAX_BYTES as usize]).contains("EOF"));
        assert!(problem(b"\xff").contains("cannot be read"));
        let prices = serde_json::to_string(&Prices::built_in()).unwrap();
        std::fs::write(&path, prices).unwrap();
        assert_eq!(Prices::load(&path).unwrap(), Prices::built_in());
        std::fs::remove_file(&path).unwrap();
        for path in [path, std::env::temp_dir()] {
            assert!(
                Calibration::load(&path)
                    .unwrap_err()
                    .problem
                    .contains("read")
            );
        }
    }
}
