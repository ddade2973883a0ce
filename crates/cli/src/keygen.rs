//! `vesica keygen` and `vesica fingerprint`

use std::io::Write;
use std::path::Path;

use vesica::Identity;

use crate::args::{FingerprintOf, Keygen};
use crate::failure::{Failure, RESOURCE};

pub(crate) fn run(options: &Keygen) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    if let Err(error) = identity.save(&options.out) {
        let failure = Failure::from(error);
        return Err(match Identity::load(&options.out) {
            Ok(there) => failure.hint(format!(
                "the identity in it is {}",
                there.identity.fingerprint()
            )),
            Err(_) => failure,
        });
    }
    print(&identity)?;
    // Standard output is the fingerprint alone, for scripts.
    let _ = writeln!(
        std::io::stderr(),
        "identity saved to {}; keep it secret, and give the fingerprint to your peer",
        options.out.display()
    );
    Ok(())
}

pub(crate) fn fingerprint(options: &FingerprintOf) -> Result<(), Failure> {
    print(&load(&options.identity)?)
}

fn print(identity: &Identity) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{}", identity.fingerprint())
        .map_err(|e| Failure::new(RESOURCE, format!("standard output cannot be written: {e}")))
}

/// Loads an identity. One that others can read may be in the hands of others.
pub(crate) fn load(path: &Path) -> Result<Identity, Failure> {
    let loaded = Identity::load(path)?;
    match loaded.warning {
        None => Ok(loaded.identity),
        Some(_) => {
            let name = path.display();
            let line = format!("identity {name}: other users can read it");
            Err(Failure::usage(line).hint(format!("run: chmod 600 {name}")))
        }
    }
}
