//! `vesica keygen` and `vesica fingerprint`

use std::io::Write;

use vesica::Identity;

use crate::args::{FingerprintOf, Keygen};
use crate::failure::{Failure, RESOURCE};
use crate::log::{self, Level};

pub(crate) fn run(options: &Keygen) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    if let Err(error) = identity.save(&options.out) {
        let failure = Failure::from(error);
        return Err(match Identity::load(&options.out) {
            Ok(there) => failure.hint(format!("the identity in it is {}", there.fingerprint())),
            Err(_) => failure,
        });
    }
    print(&identity)?;
    // Standard output is the fingerprint alone, for scripts.
    let saved = format!(
        "identity saved to {}; keep it secret, and give the fingerprint to your peer",
        options.out.display()
    );
    log::say(Level::Info, &saved);
    Ok(())
}

pub(crate) fn fingerprint(options: &FingerprintOf) -> Result<(), Failure> {
    print(&Identity::load(&options.identity)?)
}

fn print(identity: &Identity) -> Result<(), Failure> {
    writeln!(std::io::stdout(), "{}", identity.fingerprint())
        .map_err(|e| Failure::new(RESOURCE, format!("standard output cannot be written: {e}")))
}
