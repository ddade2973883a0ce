//! How long a side waits for its peer to connect, and whom it turns away meanwhile.

use std::fmt;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use vesica_wire::may_retry;

use crate::incident::MAX_REFUSED;
use crate::{ConnectOptions, Error, Fingerprint, Incident, OnIncident, Refused};

/// One wait for a peer.
pub(crate) struct Wait<'a> {
    options: &'a ConnectOptions,
    began: Instant,
}

impl<'a> Wait<'a> {
    pub(crate) fn new(options: &'a ConnectOptions) -> Self {
        Wait {
            options,
            began: options.clock.now(),
        }
    }

    /// When the wait is over; `None` as long as this side is not ready.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.options.ready.deadline(self.began, self.options.wait)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.deadline()
            .is_some_and(|at| self.options.clock.now() >= at)
    }

    /// Whether there is no use in another attempt.
    pub(crate) fn is_last(&self) -> bool {
        self.is_over() || self.options.ready.has_given_up()
    }

    /// The time limit of a part of the wait that begins now and takes at most so long.
    pub(crate) fn limit(&self, most: Duration) -> TimeLimit<'_> {
        TimeLimit {
            wait: self,
            until: self.options.clock.now() + most,
        }
    }

    pub(crate) fn check_interrupt(&self) -> Result<(), Error> {
        Ok(self.options.interrupt.check()?)
    }
}

/// The time limit of a part of a wait, such as one handshake. It ends with the wait, whose end may be known only
/// meanwhile.
pub(crate) struct TimeLimit<'a> {
    wait: &'a Wait<'a>,
    until: Instant,
}

impl TimeLimit<'_> {
    pub(crate) fn is_over(&self) -> bool {
        self.wait.options.clock.now() >= self.until || self.wait.is_over()
    }
}

/// What has come of a message.
pub(crate) enum Read {
    Whole,
    /// Not all of it in time.
    Nothing,
    Broken(io::Error),
}

/// Fills the buffer from a stream with short timeouts, unless time is over or the other end goes before.
pub(crate) fn read_exact(
    stream: &mut impl io::Read,
    buffer: &mut [u8],
    wait: &Wait<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Read, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        wait.check_interrupt()?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(Read::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(e) if may_retry(&e) => {}
            Err(e) => return Ok(Read::Broken(e)),
        }
        // Whoever sends a byte at a time is no less late.
        if filled < buffer.len() && is_over() {
            return Ok(Read::Nothing);
        }
    }
    Ok(Read::Whole)
}

/// Who was turned away; bounded in size, however many connect.
pub(crate) struct Visitors<'a> {
    hear: &'a OnIncident,
    /// Wrong identities, each once, the first [`MAX_REFUSED`].
    identities: Vec<Refused>,
    /// The first [`MAX_REFUSED`] others.
    others: Vec<Refused>,
    /// All the rest.
    more: u64,
}

impl<'a> Visitors<'a> {
    pub(crate) fn new(hear: &'a OnIncident) -> Self {
        Visitors {
            hear,
            identities: Vec::new(),
            others: Vec::new(),
            more: 0,
        }
    }

    pub(crate) fn note(&mut self, refused: Refused) {
        let list = match refused.identity {
            Some(_) => &mut self.identities,
            None => &mut self.others,
        };
        let known = |r: &Refused| r.identity.is_some() && r.identity == refused.identity;
        if list.len() >= MAX_REFUSED || list.iter().any(known) {
            self.more += 1;
            return;
        }
        self.hear.report(&Incident::Refused(refused.clone()));
        list.push(refused);
    }

    /// The last wrong identity of those remembered.
    pub(crate) fn wrong_identity(&self) -> Option<Fingerprint> {
        self.identities.last().and_then(|refused| refused.identity)
    }

    pub(crate) fn list(self) -> Vec<Refused> {
        self.identities.into_iter().chain(self.others).collect()
    }
}

impl fmt::Display for Visitors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for refused in self.identities.iter().chain(&self.others) {
            write!(f, "{separator}{refused}")?;
            separator = "; ";
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "{separator}and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vesica_wire::{Clock, ManualClock};

    use super::*;
    use crate::Readiness;

    #[test]
    fn the_wait_counts_from_when_this_side_is_ready() {
        let hands = ManualClock::new();
        let clock = Clock::from(&hands);
        let options = ConnectOptions {
            ready: Readiness::by(clock.clone()),
            clock: clock.clone(),
            ..ConnectOptions::default()
        };
        let wait = Wait::new(&options);
        hands.advance(2 * options.wait);
        assert!(wait.deadline().is_none() && !wait.is_over());
        options.ready.clone().set();
        assert_eq!(wait.deadline(), Some(clock.now() + options.wait));
        hands.advance(options.wait - Duration::from_nanos(1));
        assert!(!wait.is_over());
        hands.advance(Duration::from_nanos(1));
        assert!(wait.is_over());
        // Another wait of a side that has been ready for so long is over as well.
        assert!(Wait::new(&options).is_over());
        let options = ConnectOptions {
            clock,
            ..ConnectOptions::default()
        };
        hands.advance(2 * options.wait);
        assert!(!Wait::new(&options).is_over());
    }

    #[test]
    fn a_part_ends_with_a_wait_that_ends_meanwhile() {
        let options = ConnectOptions {
            wait: Duration::ZERO,
            ready: Readiness::new(),
            ..ConnectOptions::default()
        };
        let wait = Wait::new(&options);
        let [long, short] = [3600, 0].map(|seconds| wait.limit(Duration::from_secs(seconds)));
        assert!(!long.is_over() && short.is_over());
        options.ready.set();
        assert!(long.is_over());
    }

    #[test]
    fn a_side_that_gives_up_waits_no_longer() {
        let options = ConnectOptions {
            ready: Readiness::new(),
            ..ConnectOptions::default()
        };
        let wait = Wait::new(&options);
        assert!(!wait.is_last());
        options.ready.give_up();
        assert!(wait.is_last() && wait.deadline().is_some());
        let options = ConnectOptions::default();
        options.ready.give_up();
        assert!(!Wait::new(&options).is_last());
    }

    #[test]
    fn what_is_remembered_of_a_flood_is_bounded() {
        let heard = Arc::new(std::sync::Mutex::new(0));
        let hear = {
            let heard = Arc::clone(&heard);
            OnIncident::new(move |_| *heard.lock().unwrap() += 1)
        };
        let mut visitors = Visitors::new(&hear);
        let wrong = |n: u16| Refused {
            from: ([127, 0, 0, 1], n).into(),
            identity: Some(Fingerprint::of_public_key(&n.to_le_bytes())),
            reason: "wrong".into(),
        };
        for n in 0..1000 {
            visitors.note(Refused {
                identity: None,
                ..wrong(n)
            });
        }
        // A flood of others does not hide who mistyped a fingerprint, and one who tries again and
        // again is one.
        for _ in 0..1000 {
            visitors.note(wrong(7));
        }
        assert_eq!(visitors.wrong_identity(), wrong(7).identity);
        assert_eq!(*heard.lock().unwrap(), 17);
        assert!(visitors.to_string().ends_with("wrong; and 1983 more"));
        assert_eq!(visitors.list().len(), 17);
        // Nor does another wait with the same options report them anew.
        let mut visitors = Visitors::new(&hear);
        for refused in [
            wrong(7),
            Refused {
                identity: None,
                ..wrong(1)
            },
            wrong(8),
        ] {
            visitors.note(refused);
        }
        assert_eq!(*heard.lock().unwrap(), 18);
        assert_eq!(visitors.list().len(), 3);
    }
}
