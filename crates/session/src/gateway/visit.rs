//! A task's side.

use std::io::{ErrorKind, Read, Write};
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
    /// Another visit may have more luck; what has kept this one from it.
    Failed(String),
}

impl Visit {
    /// Waits at the gateway on `stream` for the peer's task, for as long as the wait takes. `address` is for errors.
    pub(crate) fn pay(
        &self,
        mut stream: &TcpStream,
        address: &str,
        wait: &Wait<'_>,
    ) -> Result<Visited, Error> {
        let failed = |why: &str| Ok(Visited::Failed(why.to_owned()));
        if let Err(e) = block(stream) {
            return failed(&e.to_string());
        }
        let mut greeting = [0; GREETING];
        if let Err(why) = read(stream, &mut greeting, wait)? {
            return Ok(Visited::Failed(why));
        }
        if greeting[..MAGIC.len()] != MAGIC {
            let line = format!("cannot connect to {address}: what answers is no gateway");
            return Err(NoConnection::OtherProgram.error(line));
        }
        let answer = self.admission.answer(&greeting, self.role, self.attempt);
        if let Err(e) = stream.write_all(&answer) {
            return failed(&e.to_string());
        }
        let mut verdict = [0];
        if let Err(why) = read(stream, &mut verdict, wait)? {
            return Ok(Visited::Failed(why));
        }
        let not_admitted = |why| {
            let gateway = address.to_owned();
            Err(Error::NotAdmitted { gateway, why })
        };
        match Verdict::of(verdict[0]) {
            Some(Verdict::Paired) => Ok(Visited::Paired),
            Some(Verdict::Unknown) => not_admitted(NotAdmitted::Unknown),
            Some(Verdict::Replaced) => not_admitted(NotAdmitted::Replaced),
            Some(Verdict::Full) => failed("the gateway has as many tasks as it takes"),
            Some(Verdict::Alone) => failed("the peer's task has not come to the gateway"),
            Some(Verdict::Stopping) => failed("the gateway is stopping"),
            None => failed("the gateway says nothing that this version knows"),
        }
    }
}

/// Fills the buffer, unless the wait ends or the gateway goes before.
fn read(
    mut stream: &TcpStream,
    buffer: &mut [u8],
    wait: &Wait<'_>,
) -> Result<Result<(), String>, Error> {
    let mut filled = 0;
    while filled < buffer.len() {
        wait.check_interrupt()?;
        match stream.read(&mut buffer[filled..]) {
            Ok(0) => return Ok(Err("the gateway has closed the connection".into())),
            Ok(count) => filled += count,
            Err(e) => match e.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    if wait.is_last() {
                        let what = match filled {
                            0 if buffer.len() == 1 => "the peer's task has not come to the gateway",
                            _ => "the gateway does not answer",
                        };
                        return Ok(Err(what.into()));
                    }
                }
                _ => return Ok(Err(e.to_string())),
            },
        }
    }
    Ok(Ok(()))
}
