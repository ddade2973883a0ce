//! `vesica keygen` and `vesica fingerprint`

use vesica::Identity;

use crate::args::{FingerprintOf, Keygen};
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::stdout::print_line;

pub(crate) fn run(options: &Keygen) -> Result<(), Failure> {
    if options.passphrase.is_given() && !options.encrypt {
        return Err(Failure::usage("--passphrase-file goes with --encrypt"));
    }
    let identity = Identity::generate()?;
    let saved = match options.encrypt {
        false => identity.save(&options.out),
        true => {
            let prompts = ["passphrase for the new identity: ", "the same again: "];
            identity.save_encrypted(&options.out, &options.passphrase.read(&prompts)?)
        }
    };
    if let Err(error) = saved {
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
