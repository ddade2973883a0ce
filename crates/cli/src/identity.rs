//! Where this side's identity comes from.

use std::env::VarError;
#[cfg(unix)]
use std::fs::File;
use std::io;
use std::path::Path;

use clap::Args;
use vesica::{Fingerprint, Identity};
#[cfg(unix)]
use vesica_files::is_exposed;
use vesica_session::{Error as SessionError, read_secret, read_secret_from};
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::paths::InputPath;

#[derive(Debug, Args)]
pub(crate) struct IdentityOption {
    /// This side's identity, made by `vesica keygen`: a file, env:NAME for a variable that holds its text, fd:N for a file
    /// descriptor, or - for standard input
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    pub(crate) identity: InputPath,
    #[command(flatten)]
    pub(crate) passphrase: PassphraseOption,
}

/// The passphrase of an identity.
#[derive(Debug, Args)]
pub(crate) struct PassphraseOption {
    /// File whose first line is the passphrase of an encrypted identity; env:NAME, fd:N and - as with --identity. If not given,
    /// it is asked for on the terminal
    #[arg(help_heading = "Peer", long, value_name = "FILE")]
    passphrase_file: Option<InputPath>,
}

impl PassphraseOption {
    /// From the file, or from the terminal, where it is asked for as often as there are prompts.
    pub(crate) fn read(&self, prompts: &[&str]) -> Result<Zeroizing<Vec<u8>>, SessionError> {
        let Some(path) = &self.passphrase_file else {
            return ask(prompts);
        };
        let given = given(path, "--passphrase-file")
            .map_err(|failure| SessionError::Usage(failure.line))?;
        let mut text = match given {
            Some(text) => text,
            None => read_secret(path)?,
        };
        let end = text
            .iter()
            .position(|byte| *byte == b'\n')
            .unwrap_or(text.len());
        text.truncate(end);
        if text.last() == Some(&b'\r') {
            text.pop();
        }
        Ok(text)
    }

    pub(crate) fn is_given(&self) -> bool {
        self.passphrase_file.is_some()
    }
}

/// Shows again what is typed, if a signal ends the process while a passphrase is.
#[cfg(unix)]
struct Echo(Option<signal_hook::iterator::Handle>);

#[cfg(unix)]
impl Echo {
    fn hidden() -> Echo {
        use nix::sys::termios::{SetArg, tcgetattr, tcsetattr};
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let watch = || -> Option<signal_hook::iterator::Handle> {
            let terminal = File::open("/dev/tty").ok()?;
            let shown = tcgetattr(&terminal).ok()?;
            let mut signals =
                signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).ok()?;
            let handle = signals.handle();
            let restore = move || {
                if let Some(signal) = signals.forever().next() {
                    // The process ends in any case.
                    let _ = tcsetattr(&terminal, SetArg::TCSANOW, &shown);
                    std::process::exit(128 + signal);
                }
            };
            std::thread::Builder::new().spawn(restore).ok()?;
            Some(handle)
        };
        Echo(watch())
    }
}

#[cfg(unix)]
impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(handle) = &self.0 {
            handle.close();
        }
    }
}

fn ask(prompts: &[&str]) -> Result<Zeroizing<Vec<u8>>, SessionError> {
    #[cfg(unix)]
    let _echo = Echo::hidden();
    let mut said: Option<Zeroizing<String>> = None;
    for prompt in prompts {
        let answer = rpassword::prompt_password(prompt)
            .map(Zeroizing::new)
            .map_err(|e| {
                let problem = "a passphrase is needed, and there is no terminal to ask for it";
                SessionError::Usage(format!(
                    "{problem} ({e}); --passphrase-file names a file with it"
                ))
            })?;
        if said.as_ref().is_some_and(|said| *said != answer) {
            return Err(SessionError::Usage("the two passphrases differ".into()));
        }
        said = Some(answer);
    }
    Ok(Zeroizing::new(said.unwrap_or_default().as_bytes().to_vec()))
}

impl IdentityOption {
    pub(crate) fn load(&self) -> Result<Identity, Failure> {
        let passphrase = || self.passphrase.read(&["passphrase of the identity: "]);
        let Some(pem) = given(&self.identity, "--identity")? else {
            return Ok(Identity::load_with(&*self.identity, passphrase)?);
        };
        let text = self.identity.display();
        let named = |error| {
            match error {
            SessionError::Usage(problem) => Failure::usage(format!("--identity {text}: {problem}"))
                .hint("the whole text of the file is wanted there, with its first and last line and its line ends"),
            error => error.into(),
        }
        };
        match Identity::is_encrypted(&pem) {
            true => Identity::from_encrypted_pem(&pem, &passphrase()?),
            false => Identity::from_pem(&pem),
        }
        .map_err(named)
    }
}

/// The secret that an option gives otherwise than by the path of a file; nothing if it is one.
fn given(path: &Path, option: &str) -> Result<Option<Zeroizing<Vec<u8>>>, Failure> {
    let text = path.to_str().unwrap_or_default();
    let refused = |problem: String| Failure::usage(format!("{option} {text}: {problem}"));
    if let Some(name) = text.strip_prefix("env:") {
        return match std::env::var(name) {
            Ok(value) => Ok(Some(Zeroizing::new(value.into_bytes()))),
            Err(VarError::NotPresent) => Err(refused("there is no such variable".into())),
            Err(VarError::NotUnicode(_)) => Err(refused("the variable holds no text".into())),
        };
    }
    let read = match text.strip_prefix("fd:") {
        Some(number) if number.parse::<u16>().is_err() => {
            return Err(refused("a file descriptor is a number, as in fd:3".into()));
        }
        Some(number) => of_descriptor(number),
        None if text == "-" => of_stdin(),
        None => return Ok(None),
    };
    let failed = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound => refused("this descriptor is not open".into()),
        _ => refused(e.to_string()),
    };
    read.map(Some).map_err(failed)
}

#[cfg(unix)]
fn of_descriptor(number: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    File::open(Path::new("/dev/fd").join(number)).and_then(of_open)
}

#[cfg(not(unix))]
fn of_descriptor(_: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    Err(io::Error::other(
        "there are no file descriptors on this system",
    ))
}

fn of_stdin() -> io::Result<Zeroizing<Vec<u8>>> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        of_open(File::from(io::stdin().as_fd().try_clone_to_owned()?))
    }
    #[cfg(not(unix))]
    read_secret_from(io::stdin().lock())
}

/// What is open already: a pipe, or a file that nobody else may read.
#[cfg(unix)]
fn of_open(file: File) -> io::Result<Zeroizing<Vec<u8>>> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata()?;
    // What has no name is reached by nobody else, whatever its permissions are.
    let has_name = metadata.is_file() && metadata.nlink() > 0;
    if has_name && is_exposed(&file)? {
        return Err(io::Error::other(
            "other users can read the file; chmod 600 makes it private",
        ));
    }
    read_secret_from(file)
}

/// Who this side is, and who the peer.
#[derive(Debug, Args)]
pub(crate) struct Identified {
    #[command(flatten)]
    pub(crate) own: IdentityOption,
    /// The peer's fingerprint, vs1:…
    #[arg(help_heading = "Peer", long, value_name = "FINGERPRINT")]
    pub(crate) peer: Fingerprint,
}

impl Identified {
    /// This side's identity, which is not the peer's.
    pub(crate) fn load(&self) -> Result<Identity, Failure> {
        let identity = self.own.load()?;
        identity.check_peer(self.peer)?;
        Ok(identity)
    }
}

/// Who this side is, and who the peer, which may be changing its key.
#[derive(Debug, Args)]
pub(crate) struct Partners {
    #[command(flatten)]
    pub(crate) own: IdentityOption,
    /// The peer's fingerprint, vs1:…; given twice while the peer changes its key
    #[arg(
        help_heading = "Peer",
        long,
        value_name = "FINGERPRINT",
        required = true
    )]
    peer: Vec<Fingerprint>,
}

impl Partners {
    /// This side's identity, which is not the peer's.
    pub(crate) fn load(&self) -> Result<Identity, Failure> {
        let identity = self.own.load()?;
        self.check(&identity)?;
        Ok(identity)
    }

    /// Checks that the peer is another, with at most two keys.
    pub(crate) fn check(&self, identity: &Identity) -> Result<(), Failure> {
        let mut others = self.peer.iter();
        while let Some(peer) = others.next() {
            identity.check_peer(*peer)?;
            if others.clone().any(|other| other == peer) {
                return Err(Failure::usage("--peer is the same twice"));
            }
        }
        match self.peer.len() {
            ..=2 => Ok(()),
            _ => {
                let failure = Failure::usage("a peer has one key, or two while it changes it");
                Err(failure.hint("give --peer once, or the old and the new fingerprint"))
            }
        }
    }

    /// The peer, by the first key that was given.
    pub(crate) fn peer(&self) -> Fingerprint {
        self.peer[0]
    }

    /// Its other keys.
    pub(crate) fn also(&self) -> Vec<Fingerprint> {
        self.peer[1..].to_vec()
    }
}
