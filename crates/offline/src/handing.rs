//! What dealers, generators and parties share: how a half is handed out, and how those who wait hear that there is none.

use std::time::SystemTime;

use vesica_psi::{Offline, Origin};
use vesica_session::codec::bad;
use vesica_session::{Connection, Error as SessionError, Fingerprint};
use vesica_wire::{Channel, Error as WireError, Kind, Limit, MAX_FRAME};

use crate::attestation::{EVIDENCE, Evidence, Expected, MAX_EVIDENCE};
use crate::claims::ReportData;
use crate::store::OfflineTerms;
use crate::{Attested, Error};

/// A party has stored its half.
pub(crate) const STORED: Kind = Kind {
    code: 21,
    name: "stored",
};
/// The name of a pair.
pub(crate) const PAIR: Kind = Kind {
    code: 23,
    name: "name of a pair",
};
/// A part of a half.
pub(crate) const DEALT: Kind = Kind {
    code: 24,
    name: "dealt half",
};

/// Checks the next evidence over these bytes.
pub(crate) fn check_evidence(
    channel: &mut dyn Channel,
    who: Attested,
    expected: &Expected,
    data: &ReportData,
) -> Result<(), Error> {
    let evidence = Evidence::decode(&channel.recv(EVIDENCE, MAX_EVIDENCE)?)?;
    let checked = expected.check(&evidence, data, SystemTime::now());
    checked.map_err(|why| Error::Untrusted { who, why })
}

/// Why nothing is dealt, and at which of the connections, if it is at one of them.
pub(crate) struct Failed {
    error: Box<Error>,
    whose: Option<usize>,
}

impl Failed {
    /// Tells those at the other ends, neither of whom hears what the other one has said.
    pub(crate) fn tell(self, connections: &mut [Connection; 2]) -> Error {
        let why = in_words(&self.error);
        let is_ours = matches!(why, WireError::Overdue(_)) || why.is_interrupt();
        let whose = self.whose.filter(|_| !is_ours);
        let other = WireError::ThirdParty("another party gave up, or sent no valid request");
        for (i, connection) in connections.iter_mut().enumerate() {
            let is_other = whose.is_some_and(|whose| whose != i);
            connection
                .channel
                .abort(if is_other { &other } else { &why });
        }
        *self.error
    }

    /// At one of the connections.
    pub(crate) fn at<E: Into<Error>>(whose: usize) -> impl Fn(E) -> Failed {
        move |error| Failed {
            error: Box::new(error.into()),
            whose: Some(whose),
        }
    }
}

impl<E: Into<Error>> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed {
            error: Box::new(error.into()),
            whose: None,
        }
    }
}

/// Sends a party its half, and waits until it is stored.
pub(crate) fn hand_out(
    connection: &mut Connection,
    name: [u8; 16],
    half: &[u8],
) -> Result<(), WireError> {
    let channel = &mut connection.channel;
    channel.send(PAIR, name.to_vec())?;
    half.chunks(MAX_FRAME)
        .try_for_each(|part| channel.send(DEALT, part.to_vec()))?;
    channel.flush()?;
    hear_stored(connection)
}

/// Says that the other half is stored.
pub(crate) fn say_stored(connection: &mut Connection) -> Result<(), WireError> {
    connection.channel.send(STORED, Vec::new())?;
    connection.channel.flush()
}

/// Waits until a half is stored.
pub(crate) fn hear_stored(connection: &mut Connection) -> Result<(), WireError> {
    connection.channel.recv(STORED, 0).map(drop)
}

/// Fails for halves that are not made in this way.
pub(crate) fn check_origin(
    terms: &OfflineTerms,
    offline: &dyn Offline,
    here: Origin,
) -> Result<(), Error> {
    match offline.origin() == here {
        true => Ok(()),
        false => {
            let (protocol, made) = (&terms.protocol, offline.origin());
            let problem = format!("the halves of {protocol} are made by {made}, not by {here}");
            Err(Error::Usage(problem))
        }
    }
}

pub(crate) fn no_identity() -> Error {
    Error::Usage("halves are made over TLS, between identities".into())
}

pub(crate) fn peer_of(connection: &Connection) -> Result<Fingerprint, Error> {
    connection.peer.ok_or_else(no_identity)
}

/// What the peer is told.
pub(crate) fn in_words(error: &Error) -> WireError {
    match error {
        // Not where the store is.
        Error::Session(SessionError::Run(WireError::Resource {
            limit: Limit::System,
            ..
        })) => WireError::limit(Limit::System, "there is no room for the correlations"),
        Error::Session(SessionError::Run(error)) => error.clone(),
        Error::Untrusted { .. } => bad(EVIDENCE.name, "does not show what this side expects"),
        _ => WireError::limit(Limit::Offline, "the correlations cannot be made or stored"),
    }
}
