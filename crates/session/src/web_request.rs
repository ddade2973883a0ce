//! The side that asks for a WebSocket.

use std::io::{self, Write};

use http::header::{CONNECTION, HOST, UPGRADE};
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::client::{ClientHandshake, generate_key};

use crate::address::Web;
use crate::carrier::Carrier;
use crate::error::{Closed, shown};
use crate::tunnel::{NoAnswer, http_answer, reason};
use crate::wait::Wait;
use crate::web_socket::{MAX_LINES, Memory, config, layer};
use crate::{Address, Error, NoConnection};

/// Asks what is at the other end of `carrier` for a WebSocket, and adds that as a layer.
///
/// # Errors
/// [`Error::Connect`] if another attempt would end alike; interrupts.
pub(crate) fn open(
    carrier: &mut Carrier,
    address: &Address,
    web: &Web,
    wait: &Wait<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Result<(), Closed>, Error> {
    let broken = |e: &io::Error| {
        let line = format!("it has broken off ({e}) before there was a WebSocket");
        (NoConnection::NoWebSocket, line)
    };
    let hopeless = |line: String| {
        let line = format!("cannot connect to {address}: {line}");
        NoConnection::NoWebSocket.error(line)
    };
    let request = http::Request::get(address.to_string())
        .header(HOST, &web.authority)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", generate_key())
        .body(());
    let request =
        request.map_err(|e| hopeless(format!("no request can be made of this address ({e})")))?;
    let started = ClientHandshake::start(Memory::new(), request, Some(config()));
    let started =
        started.map_err(|e| hopeless(format!("no request can be made of this address ({e})")))?;
    // It has written its request, and waits for an answer.
    let mut asked = match started.handshake() {
        Err(HandshakeError::Interrupted(asked)) => asked,
        _ => return Err(hopeless("it cannot be asked".into())),
    };
    let request = std::mem::take(&mut asked.get_mut().get_mut().outgoing);
    if let Err(e) = carrier.write_all(&request).and_then(|()| carrier.flush()) {
        return Ok(Err(broken(&e)));
    }
    let answer = match http_answer(carrier, wait, is_over)? {
        Ok(answer) => answer,
        Err(NoAnswer::Broken(e)) => return Ok(Err(broken(&e))),
        Err(NoAnswer::Late) => {
            let line = "it has not answered in time".to_owned();
            return Ok(Err((NoConnection::NoWebSocket, line)));
        }
        Err(NoAnswer::NotHttp) => return Err(hopeless("it is no web server".into())),
    };
    if let Some((code, how)) = refusal(&answer) {
        return match code {
            // Nobody listens behind it yet.
            502..=504 => Ok(Err((NoConnection::NobodyListensBehind, how))),
            _ => Err(hopeless(format!("{how}, and opens no WebSocket"))),
        };
    }
    asked.get_mut().get_mut().feed(&answer);
    match asked.handshake() {
        Ok((socket, _)) => match layer(carrier, socket) {
            Ok(_) => Ok(Ok(())),
            Err(e) => Ok(Err(broken(&e))),
        },
        Err(_) => Err(hopeless("it does not answer as a WebSocket does".into())),
    }
}

/// What an answer says in the place of a WebSocket, whatever its version of HTTP.
fn refusal(answer: &[u8]) -> Option<(u16, String)> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
    let mut response = httparse::Response::new(&mut lines);
    response.parse(answer).ok()?;
    let code = response.code.filter(|code| *code != 101)?;
    let mut how = format!("it answers {}", reason(code, response.reason));
    let mut lines = response.headers.iter();
    if let Some(to) = lines.find(|line| line.name.eq_ignore_ascii_case("location")) {
        how = format!(
            "{how}, and names {}",
            shown(&String::from_utf8_lossy(to.value))
        );
    }
    Some((code, how))
}
