//! `vesica keygen` and `vesica fingerprint`

use vesica::Identity;

use crate::args::{FingerprintOf, Keygen};
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::stdout::print_line;

pub(crate) fn run(options: &Keygen) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    if let Err(error) = identity.save(&options.out) {
        let failure = Failure::from(error);
        return Err(match Identity::load(&*options.out) {
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
    print(&options.own.load()?)
}

fn print(identity: &Identity) -> Result<(), Failure> {
    print_line(&identity.fingerprint().to_string())
}
