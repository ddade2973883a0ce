//! What each side of a connection has come for, which it says before anything else.
//!
//! Once both sides have proved who they are, each sends [`GREETING`] bytes: its version, and its [`Intent`]. Two that do not
//! go together part: the right peer has called the wrong command, or an address at which another one listens. A side that
//! listens waits on, as it does when a stranger has come.

use std::fmt;

use vesica_wire::Error as WireError;

use crate::Role;
use crate::codec::{Reader, bad, differ, impossible};
use crate::terms::VERSION;

/// Bytes of what a side says first: magic, version, code of the intent. Later versions begin with the same two.
pub(crate) const GREETING: usize = 8;
const MAGIC: [u8; 4] = *b"vs1g";
const NAME: &str = "greeting";

/// What a side has come for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Intent {
    /// A run in this role.
    Run(Role),
    /// A further connection of a run in this role.
    RunBeside(Role),
    /// To agree on a job that is cut up for tasks.
    Split(Role),
    /// A task of such a job.
    Task(Role),
    /// To number the next attempts of tasks.
    Attempts(Role),
    /// To open the total of a job. Numbers attempts too, for a driver that has come for that alone.
    Total(Role),
    /// To make a pair of correlations with the peer.
    MakePair(Role),
    /// To get half of a pair from a dealer.
    AskDealer,
    /// To deal pairs.
    Deal,
    /// To get half of a pair from this party's generator.
    AskGenerator,
    /// To generate half of a pair, with another generator, for a party.
    Generate,
    /// To look keys up in a published set.
    LookUp,
    /// To serve a published set.
    Serve,
    /// To examine the connection together, before a run.
    Examine,
}

/// Why two sides do not go together.
#[derive(Clone, Debug)]
pub(crate) struct Stray {
    pub(crate) error: WireError,
    /// Whether waiting does not mend it: both sides have called what they meant to.
    pub(crate) is_final: bool,
    /// Whether the peer has only examined the connection, and comes for what this side has come for later.
    pub(crate) is_passing: bool,
}

impl From<WireError> for Stray {
    fn from(error: WireError) -> Stray {
        Stray {
            error,
            is_final: false,
            is_passing: false,
        }
    }
}

impl Intent {
    /// All that there are.
    pub fn all() -> impl Iterator<Item = Intent> {
        use Intent::{
            AskDealer, AskGenerator, Attempts, Deal, Examine, Generate, LookUp, MakePair, Run,
            RunBeside, Serve, Split, Task, Total,
        };
        let in_roles = [Run, RunBeside, Split, Task, Attempts, Total, MakePair];
        let roles = [Role::Receiver, Role::Sender];
        let in_roles = in_roles.into_iter().flat_map(move |of| roles.map(of));
        in_roles.chain([
            AskDealer,
            Deal,
            AskGenerator,
            Generate,
            LookUp,
            Serve,
            Examine,
        ])
    }

    fn code(self) -> u16 {
        let of = |code: u8, role: Role| u16::from_le_bytes([code, role.code()]);
        match self {
            Intent::Run(role) => of(1, role),
            Intent::RunBeside(role) => of(2, role),
            Intent::Split(role) => of(3, role),
            Intent::Task(role) => of(4, role),
            Intent::Attempts(role) => of(5, role),
            Intent::Total(role) => of(6, role),
            Intent::MakePair(role) => of(7, role),
            Intent::AskDealer => 8,
            Intent::Deal => 9,
            Intent::AskGenerator => 10,
            Intent::Generate => 11,
            Intent::LookUp => 12,
            Intent::Serve => 13,
            Intent::Examine => 14,
        }
    }

    fn role(self) -> Option<Role> {
        match self {
            Intent::Run(role)
            | Intent::RunBeside(role)
            | Intent::Split(role)
            | Intent::Task(role)
            | Intent::Attempts(role)
            | Intent::Total(role)
            | Intent::MakePair(role) => Some(role),
            Intent::AskDealer
            | Intent::Deal
            | Intent::AskGenerator
            | Intent::Generate
            | Intent::LookUp
            | Intent::Serve
            | Intent::Examine => None,
        }
    }

    /// Whether the two do the same thing, each in its role.
    fn goes_with(self, theirs: Intent) -> bool {
        use Intent::{
            AskDealer, AskGenerator, Attempts, Deal, Examine, Generate, LookUp, MakePair, Run,
            RunBeside, Serve, Split, Task, Total,
        };
        matches!(
            (self, theirs),
            (Run(_), Run(_))
                | (RunBeside(_), RunBeside(_))
                | (Split(_), Split(_))
                | (Task(_), Task(_))
                | (Attempts(_) | Total(_), Attempts(_) | Total(_))
                | (MakePair(_), MakePair(_))
                | (AskDealer, Deal)
                | (Deal, AskDealer)
                | (AskGenerator | Generate, Generate)
                | (Generate, AskGenerator)
                | (LookUp, Serve)
                | (Serve, LookUp)
                | (Examine, Examine)
        )
    }

    /// Whether a driver has the job, or is about to agree on one; `None` for all others.
    fn has_job(self) -> Option<bool> {
        match self {
            Intent::Split(_) => Some(false),
            Intent::Attempts(_) | Intent::Total(_) => Some(true),
            _ => None,
        }
    }

    /// Fails with why a side that has come for this and one that has come for that part.
    fn check(self, theirs: Intent) -> Result<(), Stray> {
        if let (Some(ours), Some(theirs)) = (self.has_job(), theirs.has_job())
            && ours != theirs
        {
            let word = |has_job| if has_job { FROM_BEFORE } else { NEW };
            return Err(Stray {
                error: differ("job", word(ours), word(theirs)),
                is_final: true,
                is_passing: false,
            });
        }
        if !self.goes_with(theirs) {
            return Err(Stray {
                error: differ("what to do", self, theirs),
                is_final: false,
                is_passing: theirs == Intent::Examine,
            });
        }
        match self.role() {
            Some(role) if theirs.role() == Some(role) => {
                Err(impossible("role", format!("both sides are the {role}")).into())
            }
            _ => Ok(()),
        }
    }

    /// What a side that has come for this says first.
    pub fn greeting(self) -> [u8; GREETING] {
        let mut greeting = [0; GREETING];
        greeting[..4].copy_from_slice(&MAGIC);
        greeting[4..6].copy_from_slice(&VERSION.to_le_bytes());
        greeting[6..].copy_from_slice(&self.code().to_le_bytes());
        greeting
    }

    /// What a side has come for that says this first.
    ///
    /// # Errors
    /// Bad message: not of this program, or an unknown code. The contract differs: of another version.
    pub fn decode(greeting: &[u8; GREETING]) -> Result<Intent, WireError> {
        let mut reader = Reader::new(NAME, greeting);
        if reader.array()? != MAGIC {
            return Err(bad(NAME, "not of this program"));
        }
        let version = reader.u16()?;
        if version != VERSION {
            return Err(differ("version", VERSION, version));
        }
        let code = reader.u16()?;
        let intent = Intent::all().find(|intent| intent.code() == code);
        intent.ok_or_else(|| bad(NAME, "unknown code"))
    }

    /// What the peer has come for, by what it has said first to a side that has come for this.
    ///
    /// Fails with why the two part.
    pub(crate) fn meet(self, greeting: &[u8; GREETING]) -> Result<Intent, Stray> {
        let theirs = Intent::decode(greeting).map_err(|error| Stray {
            is_final: matches!(error, WireError::ContractDiffers { .. }),
            is_passing: false,
            error,
        })?;
        self.check(theirs).map(|()| theirs)
    }
}

// What a job is, where one side has none yet.
const FROM_BEFORE: &str = "one from before";
const NEW: &str = "a new one";

/// Continues "has come".
impl fmt::Display for Intent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Intent::Run(Role::Receiver) => f.write_str("to receive"),
            Intent::Run(Role::Sender) => f.write_str("to send"),
            Intent::RunBeside(role) => write!(f, "for a run as the {role}, once more"),
            Intent::Split(role) => write!(f, "to agree on a job as the {role}"),
            Intent::Task(role) => write!(f, "for a task of a job, as the {role}"),
            Intent::Attempts(role) => write!(f, "to number attempts of a job, as the {role}"),
            Intent::Total(role) => write!(f, "to open the total of a job, as the {role}"),
            Intent::MakePair(role) => write!(f, "to make correlations as the {role}"),
            Intent::AskDealer => f.write_str("to get correlations from a dealer"),
            Intent::Deal => f.write_str("to deal correlations"),
            Intent::AskGenerator => f.write_str("to get correlations from a generator"),
            Intent::Generate => f.write_str("to generate correlations"),
            Intent::LookUp => f.write_str("to look keys up in a published set"),
            Intent::Serve => f.write_str("to serve a published set"),
            Intent::Examine => f.write_str("to examine the connection"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{
        ConnectOptions, Endpoint, Error, ErrorClass, Identity, Incident, Listener, OnIncident,
        Transport, connect,
    };
    use vesica_testing::{bad_value, misbehaviour};
    use vesica_wire::Blame;

    fn meet(ours: Intent, greeting: &[u8; GREETING]) -> Result<Intent, WireError> {
        ours.meet(greeting).map_err(|stray| stray.error)
    }

    #[test]
    fn both_sides_judge_alike() {
        for ours in Intent::all() {
            let mut partners = 0;
            for theirs in Intent::all() {
                let (near, far) = (ours.meet(&theirs.greeting()), theirs.meet(&ours.greeting()));
                match (near, far) {
                    (Ok(got), Ok(seen)) => {
                        assert_eq!((got, seen), (theirs, ours));
                        partners += 1;
                    }
                    (Err(near), Err(far)) => {
                        assert_eq!(near.error.blame(), Blame::Contract, "{ours}, {theirs}");
                        assert_eq!(far.error.blame(), Blame::Contract, "{ours}, {theirs}");
                        assert_eq!(near.is_final, far.is_final);
                    }
                    _ => panic!("{ours} and {theirs} do not part on both sides"),
                }
            }
            // Drivers of a job from before go with either kind, and a generator with its party and another generator.
            let several = ours.has_job() == Some(true) || ours == Intent::Generate;
            assert_eq!(partners, 1 + usize::from(several), "{ours}");
        }
    }

    #[test]
    fn a_greeting_is_read_whole_and_of_this_version_alone() {
        let ours = Intent::Run(Role::Receiver);
        let good = Intent::Run(Role::Sender).greeting();
        assert_eq!(meet(ours, &good).unwrap(), Intent::Run(Role::Sender));
        for at in 0..GREETING {
            for flip in 1..=255 {
                let mut greeting = good;
                greeting[at] ^= flip;
                let met = meet(ours, &greeting);
                match at {
                    0..4 => {
                        let wrong = bad_value(NAME, "not of this program");
                        assert_eq!(misbehaviour(met), wrong);
                    }
                    4..6 => assert!(matches!(
                        met,
                        Err(WireError::ContractDiffers {
                            field: "version",
                            ..
                        })
                    )),
                    _ => assert!(met.is_err(), "byte {at} changed by {flip}"),
                }
            }
        }
    }

    fn within(seconds: f32) -> ConnectOptions {
        ConnectOptions {
            wait: Duration::from_secs_f32(seconds),
            ..ConnectOptions::default()
        }
    }

    /// Two that part.
    fn others(ours: Intent) -> impl Iterator<Item = (Intent, Stray)> {
        Intent::all().filter_map(move |theirs| {
            let stray = ours.meet(&theirs.greeting()).err();
            stray.map(|stray| (theirs, stray))
        })
    }

    /// Each intent on a side that listens, and each other in turn on one that comes to it.
    #[test]
    fn a_listener_turns_strays_away_and_waits_for_its_peer() {
        let ids = [(); 2].map(|()| Identity::generate().unwrap());
        let transport = |of: usize, intent| Transport::Tls {
            identity: &ids[of],
            peer: ids[1 - of].fingerprint(),
            intent,
        };
        // Whoever meets one that examines the connection tries again.
        let all = Intent::all().filter(|ours| *ours != Intent::Examine);
        for (turn, ours) in all.enumerate() {
            let strays: Vec<_> = others(ours).filter(|(_, stray)| !stray.is_final).collect();
            let (stray, why) = &strays[turn % strays.len()];
            let heard: Arc<Mutex<Vec<String>>> = Arc::default();
            let hears = Arc::clone(&heard);
            let options = ConnectOptions {
                on_incident: OnIncident::new(move |incident: &Incident| {
                    hears.lock().unwrap().push(incident.to_string());
                }),
                ..within(20.0)
            };
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let endpoint = Endpoint::Connect(listener.local_addr().to_string());
            thread::scope(|scope| {
                let waiting = scope.spawn(|| listener.accept(&transport(0, ours), &options));
                let begun = Instant::now();
                let failed = connect(&endpoint, &transport(1, *stray), &within(20.0));
                let failed = failed.unwrap_err();
                assert_eq!(failed.class(), ErrorClass::Contract, "{ours}, {stray}");
                assert!(failed.remedy().is_some());
                assert!(begun.elapsed() < Duration::from_secs(10), "it tried again");
                let partner = Intent::all().find(|theirs| ours.meet(&theirs.greeting()).is_ok());
                let partner = partner.unwrap();
                let met = connect(&endpoint, &transport(1, partner), &within(20.0)).unwrap();
                assert_eq!(met.theirs, Some(ours));
                let accepted = waiting.join().unwrap().unwrap();
                assert_eq!(accepted.theirs, Some(partner));
                // Each waits for the other to close.
                scope.spawn(move || drop(met));
                drop(accepted);
            });
            let heard = heard.lock().unwrap();
            let [told] = &heard[..] else {
                panic!("{heard:?}")
            };
            match *stray {
                Intent::Examine => assert!(told.contains("has examined the connection"), "{told}"),
                _ => assert!(told.ends_with(&why.error.to_string()), "{told}"),
            }
        }
    }

    #[test]
    fn a_listener_to_which_only_strays_come_says_so_in_the_end() {
        let ids = [(); 2].map(|()| Identity::generate().unwrap());
        for (theirs, code) in [
            (Intent::LookUp, "what to do"),
            (Intent::Run(Role::Sender), "role"),
        ] {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let endpoint = Endpoint::Connect(listener.local_addr().to_string());
            let transport = |of: usize, intent| Transport::Tls {
                identity: &ids[of],
                peer: ids[1 - of].fingerprint(),
                intent,
            };
            thread::scope(|scope| {
                let ours = Intent::Run(Role::Sender);
                let waiting =
                    scope.spawn(move || listener.accept(&transport(0, ours), &within(0.5)));
                connect(&endpoint, &transport(1, theirs), &within(0.5)).unwrap_err();
                let begun = Instant::now();
                let error = waiting.join().unwrap().unwrap_err();
                assert!(begun.elapsed() > Duration::from_millis(100), "it waits on");
                match &error {
                    Error::Run(
                        WireError::ContractDiffers { field, .. }
                        | WireError::ContractImpossible { field, .. },
                    ) => assert_eq!(*field, code),
                    other => panic!("{other:?}"),
                }
            });
        }
    }

    /// A driver that has a job, and one that begins another: neither waits for what cannot come.
    #[test]
    fn a_job_that_one_side_alone_has_ends_both() {
        let ids = [(); 2].map(|()| Identity::generate().unwrap());
        let (new, old) = (
            Intent::Split(Role::Receiver),
            Intent::Attempts(Role::Sender),
        );
        for (listens, connects) in [(new, old), (old, new)] {
            let listener = Listener::bind("127.0.0.1:0").unwrap();
            let endpoint = Endpoint::Connect(listener.local_addr().to_string());
            let transport = |of: usize, intent| Transport::Tls {
                identity: &ids[of],
                peer: ids[1 - of].fingerprint(),
                intent,
            };
            let begun = Instant::now();
            let ended = thread::scope(|scope| {
                let waiting =
                    scope.spawn(|| listener.accept(&transport(0, listens), &within(60.0)));
                let far = connect(&endpoint, &transport(1, connects), &within(60.0));
                [waiting.join().unwrap(), far]
            });
            assert!(begun.elapsed() < Duration::from_secs(20));
            let words = |intent: Intent| match intent {
                Intent::Split(_) => NEW,
                _ => FROM_BEFORE,
            };
            for (error, [here, there]) in ended
                .into_iter()
                .zip([[listens, connects], [connects, listens]])
            {
                match error.unwrap_err() {
                    Error::Run(WireError::ContractDiffers {
                        field: "job",
                        ours,
                        theirs,
                    }) => assert_eq!([&*ours, &*theirs], [words(here), words(there)]),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
