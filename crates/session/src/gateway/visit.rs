//! A task's side.

use std::io::{self, ErrorKind, Read as _, Write};
use std::net::TcpStream;

use super::{Admission, GREETING, MAGIC, Verdict};
use crate::tls::block;
use crate::wait::Wait;
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
    /// Waits at the gateway on `stream` for the peer's task, for as long as the wait takes. `address` is for errors.
    pub(crate) fn pay(
        &self,
        mut stream: &TcpStream,
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
        match block(stream).map(|()| read(stream, &mut greeting, wait)) {
            Ok(Ok(Read::Whole)) => {}
            Ok(Ok(Read::Nothing)) => return silent("says nothing"),
            Ok(Ok(Read::Broken(e))) if e.kind() == ErrorKind::UnexpectedEof => {
                return silent("says nothing and hangs up");
            }
            Ok(Ok(Read::Broken(e))) | Err(e) => return broke_off(&e),
            Ok(Err(error)) => return Err(error),
        }
        if greeting[..MAGIC.len()] != MAGIC {
            let line = format!("cannot connect to {address}: what answers is no gateway");
            return Err(NoConnection::NoGateway.error(line));
        }
        let answer = self.admission.answer(&greeting, self.role, self.attempt);
        if let Err(e) = stream.write_all(&answer) {
            return broke_off(&e);
        }
        let mut verdict = [0];
        match read(stream, &mut verdict, wait)? {
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

/// What has come of a message.
enum Read {
    Whole,
    /// Not all of it within the wait.
    Nothing,
    Broken(io::Error),
}

/// Fills the buffer, unless the wait ends or the gateway goes before.
fn read(mut stream: &TcpStream, buffer: &mut [u8], wait: &Wait<'_>) -> Result<Read, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        wait.check_interrupt()?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(Read::Broken(ErrorKind::UnexpectedEof.into())),
            Ok(count) => filled += count,
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    if wait.is_last() {
                        return Ok(Read::Nothing);
                    }
                }
                _ => return Ok(Read::Broken(e)),
            },
        }
    }
    Ok(Read::Whole)
}
