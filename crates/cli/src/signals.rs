//! Ctrl-C, and a polite `kill`; on Windows also Ctrl-Break and the end of the console.
//!
//! The first one asks the run to stop: it tells the peer, removes what it has begun to write and
//! ends with an error. Before there is anything to tell or to remove, and on the second one, the
//! process ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use vesica::Interrupt;
use vesica_wire::Error as WireError;

use crate::failure::{Failure, INTERRUPTED, NETWORK, RESOURCE};
use crate::log::{self, Level};

/// What is added to the number of a signal for an exit code.
const BY_SIGNAL: u8 = 128;

/// The exit code of the signal that asked the process to stop; 0 as long as none has.
static STOPPED: AtomicU8 = AtomicU8::new(0);

/// The failure under the code that it ends the process with: 128 and the signal's number if a signal has asked it to
/// stop. Any other failure meanwhile keeps its own code.
pub(crate) fn cause(failure: Failure) -> Failure {
    match STOPPED.load(Ordering::SeqCst) {
        0 => failure,
        code if [INTERRUPTED, NETWORK].contains(&failure.code) => Failure { code, ..failure },
        _ => failure,
    }
}

/// What a signal currently does.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    interrupt: Interrupt,
    /// Whether the run notices the flag soon.
    listens: Arc<AtomicBool>,
}

impl Signals {
    /// Takes the signals over. Until [`Signals::stop_in_order`], each ends the process at once.
    pub(crate) fn install() -> Result<Signals, Failure> {
        let signals = Signals {
            interrupt: Interrupt::new(),
            listens: Arc::default(),
        };
        signals.listen()?;
        Ok(signals)
    }

    #[cfg(unix)]
    fn listen(&self) -> Result<(), Failure> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let mut arriving =
            signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM]).map_err(unhandled)?;
        let handler = self.clone();
        std::thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                for number in arriving.forever() {
                    handler.arrived(BY_SIGNAL + number as u8);
                }
            })
            .map_err(unhandled)?;
        Ok(())
    }

    /// The system ends the process some seconds after its console has ended, or as soon as this returns then. Where the
    /// process ends at once, an unfinished result stays under its private name.
    #[cfg(windows)]
    fn listen(&self) -> Result<(), Failure> {
        const SIGINT: u8 = 2;
        const SIGTERM: u8 = 15;
        const LAST_KEY: u32 = 1;
        // A service hears of everybody's.
        const LOG_OFF: u32 = 5;
        let handler = self.clone();
        let arrived = move |event: u32| {
            if event <= LAST_KEY {
                return handler.arrived(BY_SIGNAL + SIGINT);
            }
            if event == LOG_OFF {
                return;
            }
            handler.arrived(BY_SIGNAL + SIGTERM);
            std::thread::sleep(std::time::Duration::from_secs(60));
        };
        vesica_kernels::windows::on_console_event(arrived).map_err(unhandled)
    }

    /// From now on the first signal raises the flag.
    pub(crate) fn stop_in_order(&self) {
        self.listens.store(true, Ordering::SeqCst);
    }

    /// Fails if a signal has raised the flag.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        Ok(self
            .interrupt
            .check()
            .map_err(vesica_session::Error::from)?)
    }

    /// The flag that a signal raises.
    pub(crate) fn interrupt(&self) -> &Interrupt {
        &self.interrupt
    }

    fn arrived(&self, code: u8) {
        STOPPED.store(code, Ordering::SeqCst);
        let is_of_user = code == INTERRUPTED;
        if self.listens.load(Ordering::SeqCst) && !self.interrupt.is_raised() {
            let line = match is_of_user {
                true => "stopping; press Ctrl-C again to end at once",
                false => "stopping, as a signal asks; another one ends this at once",
            };
            match is_of_user {
                true => self.interrupt.raise(),
                false => self.interrupt.terminate(),
            }
            log::say(Level::Info, line);
            return;
        }
        remove_temporaries();
        vesica::tables::abort_uploads();
        // The run may be ending by itself at this moment, and one line is enough.
        let why = match is_of_user {
            true => WireError::Interrupted,
            false => WireError::Terminated,
        };
        let _ = Failure::new(code, why.to_string()).report();
        std::process::exit(i32::from(code));
    }
}

fn unhandled(e: std::io::Error) -> Failure {
    Failure::new(RESOURCE, format!("signals cannot be handled: {e}"))
}

/// Removes unfinished results that have a private name, which they have where the system does not support
/// unnamed files: no destructor runs when a process ends at once. They are found through the process's open
/// files.
fn remove_temporaries() {
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    for entry in open.flatten() {
        let Ok(path) = std::fs::read_link(entry.path()) else {
            continue;
        };
        let ours = path
            .file_name()
            .and_then(|n| n.to_str())
            .is_some_and(|n| n.starts_with(".vesica-") && n.ends_with(".part"));
        if ours {
            let _ = std::fs::remove_file(path);
        }
    }
}
