//! `vesica keygen`

use std::io::Write;

use vesica::Identity;

use crate::args::Keygen;
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
    writeln!(std::io::stdout(), "{}", identity.fingerprint())
        .map_err(|e| Failure::new(RESOURCE, format!("standard output cannot be written: {e}")))?;
    // Standard output is the fingerprint alone, for scripts.
    let _ = writeln!(
        std::io::stderr(),
        "identity saved to {}; keep it secret, and give the fingerprint to your peer",
        options.out.display()
    );
    Ok(())
}
