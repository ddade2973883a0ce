//! Sessions between sides that are never there at the same time: what one says reaches the other as a message that
//! anybody may carry.
//!
//! 1. The first side *offers*: its hello and a nonce, signed. Nothing of it depends on an item.
//! 2. The second *starts*: its hello, its nonce, and, if it is the receiver, the first message of the protocol.
//! 3. They answer in turn, until the session is over.
//!
//! **One seed.** Between two messages a side keeps a seed, the messages so far, and hashes of what it has said. For the
//! next message it runs the session anew from the beginning, with the randomness that follows from the seed, over what
//! it has received; where it would wait for more, what it has said since is its message. So a side must never go on from
//! one point with two different messages of its peer: whoever keeps the state refuses the second. Where it is undone (an
//! older copy of the state), the protocol's randomness is another one all the same as soon as anything differs that the
//! side has heard before it draws, or its keys do: it follows from the seed, the messages so far, the session and the keys.
//! That holds for each draw: a sender that starts has said its key, but proves its answer to another question with other
//! randomness. One that offers draws once it has heard the whole of the receiver's message. A set is one bucket, whatever
//! memory the peer declares, and its keys are in the order of their digests, whatever the order of the rows.
//!
//! **Nonces.** A side that is there commits to its nonce before it sees the other's ([`crate::nonces`]). Here the second
//! side knows the first's nonce when it draws its own, and has time: it can try sessions until it likes one, before it
//! chooses its items. So only protocols run like this whose bounds hold for whoever knows the session and has chosen it
//! among many: those of two messages, which hash items under the session to group elements. What RT21's receiver gains by
//! search ("a few points too many") is bounded by its work alone, here and there.
//!
//! **What a courier sees** are the sizes of messages and the offer, so the contract of the first side and the number of
//! its items. All that follows is sealed to the reader's key of this run ([`Envelope`]), and signed.

mod envelope;
#[cfg(test)]
mod tests;

use vesica_psi::{KeyAgreement, Params, Protocol, Reveal, Security, Task};
use vesica_wire::{
    Channel, Error as WireError, HEADER_BYTES, Kind, MAX_FRAME, Misbehaviour, PhaseTraffic,
};
use zeroize::Zeroizing;

use crate::codec::bad;
use crate::run::run_by_turns;
use crate::turns::{Turns, takes_two_messages};
use crate::{Agreement, Error, Fingerprint, Job, KeySet, Progress, Report};
pub use envelope::{Envelope, MAX_MESSAGE};

/// Where a session by messages is.
pub enum Turn {
    /// This side has said something, and waits for the peer.
    Said(Vec<u8>),
    /// The session is over for this side.
    Over {
        /// The report.
        report: Box<Report>,
        /// What it has said at the end, which completes the peer's session.
        said: Option<Vec<u8>>,
    },
}

vesica_primitives::opaque!(Turn);

/// Whether the protocol goes by messages, for sets of some thousands of items at least.
pub fn goes_by_messages(protocol: &dyn Protocol) -> bool {
    let params = Params {
        security: Security::SemiHonest,
        lambda: 40,
        receiver_size: 1 << 10,
        sender_size: 1 << 10,
        key_agreement: KeyAgreement::default(),
        session: [0; 32],
    };
    protocol.can_reveal(Reveal::Matches.into())
        && takes_two_messages(protocol, &params, &Task::new(Reveal::Matches))
}

/// Runs the session from its beginning over what the peer has said, and no further. `said` are the
/// [hashes](hash_of_said) of what this side has said itself. `admit` is called whenever the contract is agreed, before anything
/// depends on an item; where it fails, so does the turn.
///
/// # Errors
/// Data: what this side says is not what it said before, because its items or options are others now. The peer is blamed for
/// nothing then. Else as [`crate::run_set`].
pub fn take_turn(
    turns: &Turns,
    [local, peer]: [Fingerprint; 2],
    (heard, said): (Vec<Zeroizing<Vec<u8>>>, &[[u8; 32]]),
    job: &Job,
    set: &mut dyn KeySet,
    admit: &mut dyn FnMut(&Agreement) -> Result<(), Error>,
    progress: &mut dyn Progress,
) -> Result<Turn, Error> {
    *turns.heard() = [0; 32];
    let mut channel = Messages {
        turns,
        heard: heard.into_iter(),
        present: Zeroizing::default(),
        read: 0,
        said: vec![Vec::new()],
        waits: false,
        phases: Vec::new(),
    };
    let sides = [local, peer];
    let ran = run_by_turns(&mut channel, turns, sides, job, set, admit, progress);
    let is_exhausted = channel.is_exhausted();
    let Messages {
        said: mut ours,
        waits,
        ..
    } = channel;
    if !turns.is_first {
        // It has heard something before it said anything.
        ours.remove(0);
    }
    let failed = ran.is_err() && !waits;
    let last = (ours.len() > said.len()).then(|| ours.pop()).flatten();
    if failed && last.is_none() {
        // Nobody knows how it would have ended.
        ours.pop();
    }
    // Before anything that the peer has said: it was an answer to this.
    let same = (ours.iter().zip(said)).all(|(now, then)| hash_of_said(now) == *then);
    if !same || !failed && ours.len() != said.len() {
        return Err(Error::OtherInput);
    }
    match (last, ran) {
        (_, Err(error)) if failed => Err(error),
        (_, Ok(_)) if !is_exhausted => {
            Err(Error::Run(bad("message", "says more than the session has")))
        }
        (said, Ok(report)) => Ok(Turn::Over {
            report: Box::new(report),
            said: said.filter(|said| !said.is_empty()),
        }),
        (Some(said), Err(_)) if said.is_empty() => {
            Err(Error::Run(bad("message", "says less than the session has")))
        }
        (Some(said), Err(_)) => Ok(Turn::Said(said)),
        (None, Err(_)) => {
            let problem = "it was taken in an earlier step, and the run waits for the one after";
            Err(Error::Message(problem))
        }
    }
}

/// The hash by which a side recognises what it has said.
pub fn hash_of_said(message: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica/1 what a side has said", message)
}

/// A channel over messages: it ends where the next one is missing.
struct Messages<'a> {
    turns: &'a Turns,
    heard: std::vec::IntoIter<Zeroizing<Vec<u8>>>,
    /// What is read of, and how far.
    present: Zeroizing<Vec<u8>>,
    read: usize,
    /// What this side has said before each message that it has heard, and after the last.
    said: Vec<Vec<u8>>,
    /// Whether it has missed the next.
    waits: bool,
    phases: Vec<PhaseTraffic>,
}

impl Messages<'_> {
    /// The next bytes of the message that is read.
    fn take(&mut self, count: usize) -> Result<&[u8], WireError> {
        let rest = &self.present[self.read..];
        match rest.get(..count) {
            Some(taken) => {
                self.read += count;
                Ok(taken)
            }
            None => Err(Misbehaviour::WrongLength {
                what: "message",
                bytes: self.present.len(),
            }
            .into()),
        }
    }

    fn count(&mut self, sent: usize, received: usize) {
        if let Some(phase) = self.phases.last_mut() {
            phase.bytes_sent += sent as u64;
            phase.bytes_received += received as u64;
        }
    }

    /// Whether the peer has said more than was read.
    fn is_exhausted(&self) -> bool {
        self.read == self.present.len() && self.heard.as_slice().is_empty()
    }
}

impl Channel for Messages<'_> {
    fn send(&mut self, kind: Kind, payload: Vec<u8>) -> Result<(), WireError> {
        assert!(payload.len() <= MAX_FRAME);
        let out = self.said.last_mut().expect("there is always one");
        out.push(kind.code);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(&payload);
        self.count(HEADER_BYTES + payload.len(), 0);
        Ok(())
    }

    fn recv(&mut self, kind: Kind, max: usize) -> Result<Vec<u8>, WireError> {
        if self.read == self.present.len() {
            let Some(next) = self.heard.next() else {
                self.waits = true;
                return Err(WireError::Closed);
            };
            self.turns.hear(&next);
            (self.present, self.read) = (next, 0);
            self.said.push(Vec::new());
        }
        let head = self.take(HEADER_BYTES)?;
        let (code, length) = (head[0], [head[1], head[2], head[3], head[4]]);
        if code != kind.code {
            return Err(Misbehaviour::UnexpectedFrame {
                expected: kind.name,
                got: code,
            }
            .into());
        }
        let length = u32::from_le_bytes(length) as usize;
        let max = max.min(MAX_FRAME);
        if length > max {
            return Err(Misbehaviour::TooLong {
                what: kind.name,
                bytes: length as u64,
                max: max as u64,
            }
            .into());
        }
        let payload = self.take(length)?.to_vec();
        self.count(0, HEADER_BYTES + length);
        Ok(payload)
    }

    fn flush(&mut self) -> Result<(), WireError> {
        Ok(())
    }

    fn begin_phase(&mut self, name: &'static str) {
        self.phases.push(PhaseTraffic {
            phase: name.to_owned(),
            ..PhaseTraffic::default()
        });
    }

    fn traffic(&self) -> Vec<PhaseTraffic> {
        self.phases.clone()
    }

    /// The peer hears nothing: a person reads the error.
    fn abort(&mut self, _: &WireError) {}
}
