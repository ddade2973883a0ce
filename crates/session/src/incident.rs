//! What happens while a side waits for its peer, and does not end the wait.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use vesica_wire::Error as WireError;

use crate::{Fingerprint, Problem};

/// Maximum number of turned-away connections of either kind (wrong identities, others) to remember, and of other
/// incidents.
pub(crate) const MAX_REFUSED: usize = 16;

/// What happens while a side waits for its peer, and does not end the wait.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Incident {
    /// A listener has turned a connection away.
    Refused(Refused),
    /// The peer has come to a listener for something that does not go with what this side has come for.
    Stray {
        /// Where it came from.
        from: SocketAddr,
        /// Why the two do not go together.
        why: WireError,
    },
    /// The peer has examined the connection to a listener, and found it waiting.
    Examined {
        /// Where it came from.
        from: SocketAddr,
    },
    /// The peer has said that it cannot take part.
    PeerProblem(Problem),
    /// The peer was there, and has left before this side was ready.
    PeerLeft(WireError),
}

impl Incident {
    /// A name that programs know.
    pub fn name(&self) -> &'static str {
        match self {
            Incident::Refused(_) | Incident::Stray { .. } => "refused",
            Incident::Examined { .. } => "examined",
            Incident::PeerProblem(_) => "peer-problem",
            Incident::PeerLeft(_) => "peer-left",
        }
    }
}

/// One line for a person.
impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Incident::Refused(refused) => write!(f, "turned away: {refused}"),
            Incident::Stray { from, why } => write!(f, "turned away the peer at {from}: {why}"),
            Incident::Examined { from } => {
                write!(
                    f,
                    "the peer at {from} has examined the connection; waiting on"
                )
            }
            Incident::PeerProblem(problem) => {
                write!(
                    f,
                    "the peer reports a problem with {problem}; waiting for it to try again"
                )
            }
            Incident::PeerLeft(why) => {
                write!(f, "the peer has left ({why}); waiting for it to come again")
            }
        }
    }
}

/// A connection that a listener turned away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Where it came from.
    pub from: SocketAddr,
    /// The identity that it proved, where that was the reason.
    pub identity: Option<Fingerprint>,
    /// Why, in words for the user.
    pub reason: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.from, self.reason)
    }
}

/// Called for incidents when they happen, on the waiting thread. Of a flood only the first ones are reported, in however
/// many waits: each kind of problem, each wrong identity and each thing that the peer has come for once, and
/// [`crate::Connection::refused`] lists as many refusals.
#[derive(Clone, Default)]
pub struct OnIncident(Option<Arc<Hearing>>);

struct Hearing {
    hear: Box<dyn Fn(&Incident) + Send + Sync>,
    heard: Mutex<Heard>,
}

/// What all waits have reported.
#[derive(Default)]
struct Heard {
    identities: Vec<Fingerprint>,
    others: usize,
    strays: Vec<String>,
    problems: Vec<Problem>,
    examined: usize,
    left: usize,
}

/// Adds something new to a list that is not full; returns whether it has.
fn add<T: PartialEq>(known: &mut Vec<T>, new: T) -> bool {
    let is_news = known.len() < MAX_REFUSED && !known.contains(&new);
    if is_news {
        known.push(new);
    }
    is_news
}

/// Counts something; returns whether it is among the first.
fn count(number: &mut usize) -> bool {
    *number = number.saturating_add(1);
    *number <= MAX_REFUSED
}

impl Heard {
    /// Whether to report this one too.
    fn is_news(&mut self, incident: &Incident) -> bool {
        match incident {
            Incident::Refused(refused) => match refused.identity {
                Some(identity) => add(&mut self.identities, identity),
                None => count(&mut self.others),
            },
            Incident::Stray { why, .. } => add(&mut self.strays, why.to_string()),
            Incident::Examined { .. } => count(&mut self.examined),
            Incident::PeerProblem(problem) => add(&mut self.problems, *problem),
            Incident::PeerLeft(_) => count(&mut self.left),
        }
    }
}

impl OnIncident {
    /// Calls `hear` for each.
    pub fn new(hear: impl Fn(&Incident) + Send + Sync + 'static) -> OnIncident {
        OnIncident(Some(Arc::new(Hearing {
            hear: Box::new(hear),
            heard: Mutex::default(),
        })))
    }

    /// Reports an incident that is news.
    pub fn report(&self, incident: &Incident) {
        let Some(hearing) = &self.0 else { return };
        let mut heard = hearing.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let is_news = heard.is_news(incident);
        drop(heard);
        if is_news {
            (hearing.hear)(incident);
        }
    }
}

impl fmt::Debug for OnIncident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hears = self.0.is_some();
        f.debug_tuple("OnIncident").field(&hears).finish()
    }
}
