//! Why a session ended.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use vesica_files::Argument::{
    Admit, Deadline, Key, Listen, Match, MaxPeerGroups, MaxPeerItems, MaxPeerValues, Memory,
    Normalize, Offline, Payload, PayloadWidth, Peer, Protocol, RowsPerKey, Security, State,
    TakePayload, Timeout, Value, ValueBound, Wait,
};
use vesica_files::{Advice, Argument, Command, ErrorClass, Part, advice, is_exhausted};
use vesica_wire::{Blame, Limit};

use crate::terms::Terms;
use crate::{Fingerprint, Problem};

/// What helps where there is no half for a run.
pub fn more_halves() -> Advice {
    advice![
        Command::ListStored,
        " shows what is stored, and ",
        Command::MakeStored,
        " makes more",
    ]
}

/// What is done again once the sides agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// The run, by both sides.
    Run,
    /// A step of a run by courier, by the side that failed; the peer's steps are over.
    Step,
}

impl Again {
    fn words(self) -> &'static str {
        match self {
            Again::Run => ", then run both sides again",
            Again::Step => {
                ", then take this step again, or have the peer begin another run if it is the peer that changes"
            }
        }
    }
}

/// What the user can do where the sides want different values of a field.
fn remedy_of_field(field: &str, [ours, theirs]: [&str; 2], again: Again) -> Advice {
    let is_of_ole = |name: &str| name.starts_with("ole-");
    let arguments: &[Argument] = match field {
        "version" | "version of auto" => {
            return "run the same version of this program on both sides".into();
        }
        "what to do" => {
            return "call the command that goes with the peer's, or give the address at which that listens".into();
        }
        "published key" => {
            return advice![
                "the set was published anew: remove its files here, and get the new one from the publisher, or with ",
                Argument::Fetch,
            ];
        }
        "last release" => {
            return "tell the publisher, whose server may have a restored copy of its database"
                .into();
        }
        "job" => {
            return "name the directory of the same split on both sides; where one side lacks that job, begin a new one under another name, on both".into();
        }
        "stored correlations" => return more_halves(),
        "columns handed over" => {
            return advice![
                "the sender names the columns with ",
                Payload,
                ", and the receiver asks for them with ",
                TakePayload,
                "; both agree on ",
                PayloadWidth,
                " and ",
                RowsPerKey,
            ];
        }
        "protocol" if is_of_ole(ours) && is_of_ole(theirs) => &[Offline],
        "protocol" => &[Protocol],
        "number of key columns" => {
            return advice![
                "agree with the peer on ",
                Key,
                " or on identifiers with names",
                again.words()
            ];
        }
        "normalization" if [ours, theirs].iter().any(|of| of.contains('=')) => &[Match, Normalize],
        field => Terms::arguments_of(field),
    };
    let Some((first, others)) = arguments.split_first() else {
        return advice!["agree on this value with the peer", again.words()];
    };
    let mut parts = vec![Part::from("agree with the peer on "), Part::from(*first)];
    for other in others {
        parts.extend([Part::from(" and "), Part::from(*other)]);
    }
    parts.push(Part::from(again.words()));
    Advice::new(parts)
}

/// Whose fault it is that a run has failed.
fn class_of(blame: Blame) -> ErrorClass {
    match blame {
        Blame::Network => ErrorClass::Network,
        Blame::Peer => ErrorClass::Peer,
        Blame::Contract => ErrorClass::Contract,
        Blame::Resource => ErrorClass::Resource,
    }
}

/// What stands in the way of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoConnection {
    /// The address to listen on is taken.
    Taken,
    /// Nobody listens at the peer's address.
    NobodyListens,
    /// Nobody listens at a gateway's address.
    NoGatewayListens,
    /// The peer has not connected in time.
    NobodyConnects,
    /// The peer has not connected in time, and somebody who did expected another identity than this side's. Whoever that
    /// was has not proved to be the peer.
    RefusedByVisitor,
    /// A web server answers at the peer's address, and behind it nobody.
    NobodyListensBehind,
    /// What answers at the peer's address opens no WebSocket.
    NoWebSocket,
    /// The web server or the proxy has no certificate that is trusted here.
    Certificate,
    /// What answers at the peer's address is another program.
    OtherProgram,
    /// What answers at the peer's address broke off and has not proved who it is.
    Unproved,
    /// What answers at a gateway's address has not said that it is one.
    NoGateway,
    /// A gateway answers, and has not brought this task together with the peer's.
    NotPaired,
    /// The proxy cannot be reached, has broken off, or is none.
    Proxy,
    /// The proxy does not connect to the peer's address.
    ProxyRefuses,
    /// The proxy wants a user and a password, or others.
    ProxyPassword,
    /// Anything else, such as an address that is none.
    Other,
}

impl NoConnection {
    /// What the user can do, where something helps.
    fn remedy(self) -> Option<Advice> {
        Some(match self {
            NoConnection::Taken => {
                "another process listens there: end it, or take another port".into()
            }
            NoConnection::NobodyListens => advice![
                "start the other side, which listens, and give the address that it prints; if it takes longer to start, raise ",
                Wait,
            ],
            NoConnection::NobodyListensBehind => advice![
                "start the other side, which listens behind this web server; if it takes longer to start, raise ",
                Wait,
            ],
            NoConnection::NoWebSocket => {
                "wss://HOST/PATH is for a web server that passes this path on to the peer's command, and ws:// for one \
                 without TLS; where the peer's command itself listens, HOST:PORT is its address"
                    .into()
            }
            NoConnection::Certificate => advice![
                "the certificates of its authority are in the file of ",
                (Argument::OuterCa, "FILE"),
                ", in PEM; without it those count that this machine trusts. The name in the certificate is that of the address",
            ],
            NoConnection::NoGatewayListens => advice![
                "start the gateway there: ",
                Command::Gateway,
                " with ",
                Listen,
                " and, for this job, ",
                Admit,
                " JOB/gateway.json; if it takes longer to start, raise ",
                Wait,
            ],
            NoConnection::NobodyConnects => advice![
                "start the other side, which connects to this address; if it takes longer to start, raise ",
                Wait,
            ],
            NoConnection::OtherProgram => {
                "give the address at which the peer's command listens, with nothing between that ends TLS; at a gateway, \
                 tasks alone meet, who are told that it is one"
                    .into()
            }
            NoConnection::NoGateway => {
                advice!["give the address at which ", Command::Gateway, " listens"]
            }
            NoConnection::NotPaired => advice![
                "start the peer's task for the same bucket and attempt, at the same gateway, while this one waits; ",
                Command::Attempts,
                " prints those that both sides make next",
            ],
            NoConnection::Proxy => advice![
                "the proxy is that of ",
                Argument::Proxy,
                " or else of HTTPS_PROXY or ALL_PROXY in the environment; ",
                (Argument::Proxy, "none"),
                " connects without one",
            ],
            NoConnection::ProxyRefuses => advice![
                "ask whoever runs the proxy to allow this host and port; many allow port 443 alone, on which the peer may listen. ",
                (Argument::Proxy, "none"),
                " connects without a proxy",
            ],
            NoConnection::ProxyPassword => {
                "put user and password into the variable HTTPS_PROXY, behind the scheme and before the host, as \
                 USER:PASSWORD@HOST:PORT; a character that is no letter and no digit is % and two digits, as %40 for @"
                    .into()
            }
            NoConnection::Unproved => {
                "if it is the peer, compare fingerprints with it; else another program, such as a web server, listens there: give \
                 the address that the peer's command prints, or wss://HOST/PATH if the peer is behind that web server"
                    .into()
            }
            NoConnection::RefusedByVisitor | NoConnection::Other => return None,
        })
    }

    /// The error with this cause.
    pub(crate) fn error(self, line: String) -> Error {
        Error::Connect { cause: self, line }
    }
}

fn either(fingerprints: &[Fingerprint]) -> String {
    let all: Vec<String> = fingerprints.iter().map(Fingerprint::to_string).collect();
    all.join(" or ")
}

/// What a step on the way to the peer has come to, if another attempt may succeed.
pub(crate) type Closed = (NoConnection, String);

/// Most characters that are shown of what somebody on the way has said.
const MAX_SHOWN: usize = 200;

/// What somebody on the way has said, as it can be shown.
pub(crate) fn shown(text: &str) -> String {
    text.escape_debug().take(MAX_SHOWN).collect()
}

/// Why a gateway takes a task neither now nor later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAdmitted {
    /// It does not know the job, or with another token or other buckets.
    #[error("is not for this job")]
    Unknown,
    /// Another task of this side has come for this bucket and attempt.
    #[error("has another task of this side for this bucket and attempt, which came later")]
    Replaced,
}

/// Why connecting or a job failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller asked for something impossible.
    #[error("{0}")]
    Usage(String),
    /// A protocol that is less secure than the caller asked for.
    #[error("{protocol} finds the {reveal} with {} security, and this side asks for {}", runs.name(), asked.name())]
    WeakProtocol {
        /// Its name.
        protocol: &'static str,
        /// What it is to find.
        reveal: vesica_psi::Reveals,
        /// The security that the caller asked for.
        asked: vesica_psi::Security,
        /// Its security.
        runs: vesica_psi::Security,
    },
    /// A file with a secret that cannot be read.
    #[error("{}: {problem}", path.display())]
    SecretFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never its content.
        problem: String,
    },
    /// A file with a secret that other users of the machine can read.
    #[error("{}: other users can read it", path.display())]
    ExposedSecret {
        /// The file.
        path: PathBuf,
    },
    /// An identity file that cannot be written.
    #[error("identity {}: {problem}", path.display())]
    IdentityFile {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: String,
    },
    /// There is no such identity file.
    #[error("identity {}: no such file", .0.display())]
    NoIdentity(PathBuf),
    /// A file that holds something else than an identity.
    #[error("identity {}: {problem}", path.display())]
    NotAnIdentity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it; never its content.
        problem: String,
    },
    /// A message of a run by courier that is not the one which this step takes.
    #[error("the message cannot be used: {0}")]
    Message(&'static str),
    /// What a side says in a run by courier is not what it said in an earlier step.
    #[error("the table or the options are not those of an earlier step")]
    OtherInput,
    /// A peer with this side's own key.
    #[error("the peer's fingerprint is that of this side's own identity")]
    OwnFingerprint,
    /// The connection could not be made.
    #[error("{line}")]
    Connect {
        /// What stands in the way.
        cause: NoConnection,
        /// All that is known of it, in one line.
        line: String,
    },
    /// The peer holds another key than the one that the caller pinned.
    #[error("wrong peer: expected {}, got {got}", either(expected))]
    WrongPeer {
        /// The pinned fingerprints, of which there are two while the peer changes its key.
        expected: Vec<Fingerprint>,
        /// The fingerprint of the key that the peer showed.
        got: Fingerprint,
    },
    /// A gateway takes this task neither now nor later.
    #[error("the gateway at {gateway} {why}")]
    NotAdmitted {
        /// Its address.
        gateway: String,
        /// Why.
        why: NotAdmitted,
    },
    /// The pinned peer broke off because it had pinned another key than ours.
    #[error("the peer refused this side's identity {ours}: it expects another fingerprint")]
    RefusedByPeer {
        /// The fingerprint of our key.
        ours: Fingerprint,
    },
    /// The source of stored halves has none for the run, or none that can be used.
    #[error("{cause}")]
    Halves {
        /// What it says.
        cause: Arc<dyn std::error::Error + Send + Sync>,
        /// Whose fault it is.
        class: ErrorClass,
        /// What the user can do, where something helps.
        remedy: Option<Advice>,
    },
    /// The peer has said that it cannot take part.
    #[error("the peer reported a problem with {0}, and did not try again in time")]
    PeerProblem(Problem),
    /// The run over the connection failed.
    #[error(transparent)]
    Run(#[from] vesica_wire::Error),
}

impl Error {
    /// A limit that this machine has met, if `cause` is one, or else what `other` makes of the line.
    pub(crate) fn limit_or(
        cause: &io::Error,
        line: String,
        other: impl FnOnce(String) -> Error,
    ) -> Error {
        match is_exhausted(cause) {
            true => Error::Run(vesica_wire::Error::limit(Limit::System, line)),
            false => other(line),
        }
    }

    /// Whose fault it is. When the peer gave up, this translates what the peer blamed to our side: a peer
    /// that blames *its* peer for misbehaving blames us, which counts as misbehaviour as well.
    pub fn class(&self) -> ErrorClass {
        match self {
            Error::Usage(_)
            | Error::WeakProtocol { .. }
            | Error::SecretFile { .. }
            | Error::ExposedSecret { .. }
            | Error::OwnFingerprint
            | Error::IdentityFile { .. }
            | Error::NoIdentity(_)
            | Error::NotAnIdentity { .. }
            | Error::NotAdmitted { .. } => ErrorClass::Usage,
            Error::Connect { .. } | Error::WrongPeer { .. } | Error::PeerProblem(_) => {
                ErrorClass::Network
            }
            Error::RefusedByPeer { .. } => ErrorClass::Contract,
            Error::Message(_) | Error::OtherInput => ErrorClass::Data,
            Error::Halves { class, .. } => *class,
            Error::Run(error) if error.is_interrupt() => ErrorClass::Interrupted,
            Error::Run(error) => class_of(error.blame()),
        }
    }

    /// What the user can do, where something helps.
    pub fn remedy(&self) -> Option<Advice> {
        self.remedy_in(Again::Run)
    }

    /// The same where this is done again once the sides agree.
    pub fn remedy_in(&self, again: Again) -> Option<Advice> {
        use vesica_wire::Error as Wire;
        Some(match self {
            Error::WeakProtocol { runs, .. } => advice![
                (Security, runs.name()),
                format!(" on both sides accepts that: {}", runs.trusts()),
            ],
            Error::NoIdentity(_) | Error::NotAnIdentity { .. } => {
                advice![Command::Keygen, " makes an identity, one for each side"]
            }
            Error::WrongPeer { .. } => {
                "check the fingerprint with the peer over another channel (a phone call); do not just paste the one shown".into()
            }
            Error::OwnFingerprint => {
                advice![Command::Fingerprint, " prints it on the other side"]
            }
            Error::NotAdmitted { why, .. } => match why {
                NotAdmitted::Unknown => advice![
                    Command::Gateway,
                    " takes a file of each job that it is for: start it with that of this job, which either side has",
                ],
                NotAdmitted::Replaced => advice![
                    "make each attempt once on each side; ",
                    Command::Attempts,
                    " prints the next ones",
                ],
            },
            Error::RefusedByPeer { .. }
            | Error::Connect {
                cause: NoConnection::RefusedByVisitor,
                ..
            } => advice![
                "give the peer the fingerprint of this identity, and have it pass that as ",
                Peer,
            ],
            Error::Connect { cause, .. } => return cause.remedy(),
            Error::Halves { remedy, .. } => return remedy.clone(),
            Error::Run(Wire::ContractDiffers {
                field,
                ours,
                theirs,
            }) => remedy_of_field(field, [ours, theirs], again),
            Error::Run(Wire::ContractImpossible { field: "role", .. }) => advice![
                "one side receives and the other one sends, as with ",
                Command::Receive,
                " and ",
                Command::Send,
            ],
            Error::Run(Wire::ContractImpossible {
                field: "values", ..
            }) => advice![
                "give ",
                Value,
                " on the side whose values count, and on no other",
            ],
            Error::Run(Wire::Resource {
                limit: Limit::PeerItems,
                ..
            }) => advice!["if the peer may bring so many, raise ", MaxPeerItems],
            Error::Run(Wire::Resource {
                limit: Limit::PeerValues,
                ..
            }) => advice!["if the peer may compute with so many, raise ", MaxPeerValues],
            Error::Run(Wire::Resource {
                limit: Limit::PeerGroups,
                ..
            }) => advice![
                "if the peer may learn numbers of so many groups, raise ",
                MaxPeerGroups
            ],
            Error::Run(Wire::Resource {
                limit: Limit::Queries,
                ..
            }) => advice![
                "ask about fewer keys, or have the publisher allow more; with ",
                State,
                " none is asked about twice",
            ],
            Error::Run(Wire::Resource {
                limit: Limit::Storage,
                ..
            }) => "see that the disk has space left, and that this user may write there".into(),
            Error::Run(Wire::Resource {
                limit: Limit::Keys, ..
            }) => advice![
                "keys that are numbers need no hashes: ",
                (Normalize, "ipv4"),
                " or ",
                (Normalize, "integer:BITS"),
                ", on both sides; for others take ",
                (Protocol, "vole"),
            ],
            Error::Run(Wire::Resource {
                limit: Limit::Values,
                ..
            }) => advice!["declare smaller bounds with ", ValueBound],
            Error::Run(Wire::Resource {
                limit: Limit::Memory { .. },
                ..
            }) => advice!["raise ", Memory, ", or take smaller sets"],
            Error::Run(Wire::Resource {
                limit: Limit::System,
                ..
            }) => "raise the limit that this process has met (ulimit -a), or free some space".into(),
            Error::Run(Wire::TimedOut(_)) => advice![
                "the peer's machine or the network between has stopped; if it is only slow, raise ",
                Timeout,
            ],
            Error::Run(Wire::Overdue(_)) => advice![
                "the peer may hold this side up on purpose; if it or the network is only slow, raise ",
                Deadline,
            ],
            _ => return None,
        })
    }
}
