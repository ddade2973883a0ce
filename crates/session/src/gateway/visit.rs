//! A task's side.

use std::io::{self, ErrorKind, Write};

use super::{Admission, GREETING, MAGIC, Verdict};
use crate::carrier::Carrier;
use crate::wait::{Read, Wait, read_exact};
use crate::{Attempt, Error, NoConnection, NotAdmitted, Role};

/// Who comes to a gateway: a task of a job.
#[derive(Clone, Debug)]
pub struct Visit {
    /// Of which job.
    pub admission: Admission,
    /// On which side.
    pub role: Role,
    /// For which bucket and attempt.
    pub attempt: Attempt,
}

/// Where a visit has led.
pub(crate) enum Visited {
    /// The peer's task has come, and this stream leads to it.
    Paired,
    /// Another visit may have more luck; what the gateway does or has done instead.
    Failed(NoConnection, String),
}

impl Visit {
    /// Waits at the gateway on `carrier` for the peer's task, for as long as the wait takes. `address` is for errors.
    pub(crate) fn pay(
        &self,
        carrier: &mut Carrier,
        address: &str,
        wait: &Wait<'_>,
    ) -> Result<Visited, Error> {
        let failed = |what: &str| Ok(Visited::Failed(NoConnection::NotPaired, what.to_owned()));
        let broke_off = |e: &io::Error| failed(&format!("has broken off ({e})"));
        let alone = || {
            let Attempt { bucket, number } = self.attempt;
            failed(&format!(
                "has no task of the peer for bucket {bucket}, attempt {number}"
            ))
        };
        let silent = |how: &str| {
            let line = format!("{how}, as another program would");
            Ok(Visited::Failed(NoConnection::NoGateway, line))
        };
        let mut greeting = [0; GREETING];
        match read_exact(carrier, &mut greeting, wait, &|| wait.is_last())? {
            Read::Whole => {}
            Read::Nothing => return silent("says nothing"),
            Read::Broken(e) if e.kind() == ErrorKind::UnexpectedEof => {
                return silent("says nothing and hangs up");
            }
            Read::Broken(e) => return broke_off(&e),
        }
        if greeting[..MAGIC.len()] != MAGIC {
            let line = format!("cannot connect to {address}: what answers is no gateway");
            return Err(NoConnection::NoGateway.error(line));
        }
        let answer = self.admission.answer(&greeting, self.role, self.attempt);
        if let Err(e) = carrier.write_all(&answer).and_then(|()| carrier.flush()) {
            return broke_off(&e);
        }
        let mut verdict = [0];
        match read_exact(carrier, &mut verdict, wait, &|| wait.is_last())? {
            Read::Whole => {}
            Read::Nothing => return alone(),
            Read::Broken(e) => return broke_off(&e),
        }
        let not_admitted = |why| {
            let gateway = address.to_owned();
            Err(Error::NotAdmitted { gateway, why })
        };
        match Verdict::of(verdict[0]) {
            Some(Verdict::Paired) => Ok(Visited::Paired),
            Some(Verdict::Unknown) => not_admitted(NotAdmitted::Unknown),
            Some(Verdict::Replaced) => not_admitted(NotAdmitted::Replaced),
            Some(Verdict::Full) => failed("has as many tasks as it takes"),
            Some(Verdict::Alone) => alone(),
            Some(Verdict::Stopping) => failed("is stopping"),
            None => failed("says nothing that this version knows"),
        }
    }
}
