//! Ways out through a proxy: tunnels of HTTP (RFC 9110, section 9.3.6) and of SOCKS5 (RFC 1928 and 1929).
//!
//! A proxy sees the peer's address and every byte that TLS does not hide. It proves nothing, and need not: the peer's key is
//! pinned as without it.

use std::fmt;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use zeroize::Zeroizing;

use crate::carrier::Carrier;
use crate::error::{Closed, shown};
use crate::proxy::{Kind, Proxy, User, parts};
use crate::wait::{Read, Wait, read_exact};
use crate::web_socket::MAX_LINES;
use crate::{Authorities, Error, NoConnection, outer};

/// Most bytes of a proxy's answer.
const MAX_ANSWER: usize = 8 << 10;
/// Longest time that it may take, which is to connect to the peer.
const TUNNEL: Duration = Duration::from_secs(30);

/// Where a tunnel is to lead.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// `host:port`.
    Name(String),
    Address(SocketAddr),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Name(name) => f.write_str(name),
            Target::Address(address) => address.fmt(f),
        }
    }
}

/// Opens a tunnel over a connection to the proxy, for which `authorities` vouch if it is spoken to by TLS.
///
/// # Errors
/// [`Error::Connect`] if another attempt would end alike; interrupts.
pub(crate) fn open(
    proxy: &Proxy,
    carrier: &mut Carrier,
    target: &Target,
    authorities: &Authorities,
    wait: &Wait<'_>,
) -> Result<Result<(), Closed>, Error> {
    let limit = wait.limit(TUNNEL);
    let is_over = || limit.is_over();
    if proxy.kind == Kind::Https {
        let (host, _) = parts(proxy.address());
        let secured = outer::secure(carrier, host, authorities, wait, &is_over);
        let secured = secured.map_err(|error| match error {
            Error::Connect {
                cause: NoConnection::NoWebSocket,
                line,
            } => NoConnection::Proxy.error(format!("the proxy {proxy}: {line}")),
            other => other,
        });
        if let Err((_, line)) = secured? {
            let line = format!("the proxy {proxy}: {line}");
            return Ok(Err((NoConnection::Proxy, line)));
        }
    }
    let mut tunnel = Tunnel {
        proxy,
        carrier,
        target,
        is_over: &is_over,
        wait,
    };
    let outcome = match proxy.kind {
        Kind::Http | Kind::Https => tunnel.by_http(),
        Kind::Socks5 | Kind::Socks5h => tunnel.by_socks(),
    };
    match outcome {
        Ok(()) => Ok(Ok(())),
        Err(Stop::Retry(cause, what)) => Ok(Err((cause, format!("the proxy {proxy} {what}")))),
        Err(Stop::Final(cause, what)) => Err(cause.error(format!(
            "cannot connect to {target}: the proxy {proxy} {what}"
        ))),
        Err(Stop::Error(error)) => Err(error),
    }
}

/// Why there is no answer of HTTP.
pub(crate) enum NoAnswer {
    NotHttp,
    Late,
    Broken(io::Error),
}

/// Reads the header of an answer of HTTP with the empty line at its end, and nothing of what follows.
///
/// # Errors
/// Interrupts.
pub(crate) fn http_answer(
    carrier: &mut Carrier,
    wait: &Wait<'_>,
    is_over: &dyn Fn() -> bool,
) -> Result<Result<Vec<u8>, NoAnswer>, Error> {
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match read_exact(carrier, &mut byte, wait, is_over)? {
            Read::Nothing => return Ok(Err(NoAnswer::Late)),
            Read::Broken(e) => return Ok(Err(NoAnswer::Broken(e))),
            // Whoever sends a byte at a time is no less late.
            Read::Whole if is_over() => return Ok(Err(NoAnswer::Late)),
            Read::Whole => answer.push(byte[0]),
        }
        // What is no HTTP may never end.
        if answer.len() == MAX_ANSWER || answer.len() == 5 && answer != b"HTTP/" {
            return Ok(Err(NoAnswer::NotHttp));
        }
    }
    Ok(Ok(answer))
}

/// A status of HTTP with its reason, as it can be shown.
pub(crate) fn reason(code: u16, reason: Option<&str>) -> String {
    match reason {
        Some(reason) if !reason.is_empty() => format!("{code} {}", shown(reason)),
        _ => code.to_string(),
    }
}

/// Why there is no tunnel.
enum Stop {
    Retry(NoConnection, String),
    Final(NoConnection, String),
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// A tunnel that is being opened.
struct Tunnel<'a> {
    proxy: &'a Proxy,
    carrier: &'a mut Carrier,
    target: &'a Target,
    is_over: &'a dyn Fn() -> bool,
    wait: &'a Wait<'a>,
}

impl Tunnel<'_> {
    fn broken(&self, e: &io::Error) -> Stop {
        Stop::Retry(NoConnection::Proxy, format!("has broken off ({e})"))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let written = self.carrier.write_all(bytes);
        let written = written.and_then(|()| self.carrier.flush());
        written.map_err(|e| self.broken(&e))
    }

    fn read<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Stop> {
        let read = match (self.is_over)() {
            true => Read::Nothing,
            false => read_exact(self.carrier, bytes, self.wait, self.is_over)?,
        };
        match read {
            Read::Whole => Ok(()),
            Read::Nothing => Err(self.late()),
            Read::Broken(e) => Err(self.broken(&e)),
        }
    }

    fn late(&self) -> Stop {
        let line = format!("has not connected to {} in time", self.target);
        Stop::Retry(NoConnection::Proxy, line)
    }

    fn is_no_proxy(&self) -> Stop {
        Stop::Final(
            NoConnection::Proxy,
            "does not answer as a proxy of this kind does".into(),
        )
    }

    fn cannot_reach(&self, how: &str) -> Stop {
        let line = format!("cannot reach {} ({how})", self.target);
        Stop::Retry(NoConnection::NobodyListens, line)
    }

    fn refuses(&self, how: &str) -> Stop {
        let line = format!("refuses to connect to {} ({how})", self.target);
        Stop::Final(NoConnection::ProxyRefuses, line)
    }

    fn wants_password(&self, how: &str) -> Stop {
        let line = match self.proxy.user {
            None => format!("asks for a user and a password{how}"),
            Some(_) => format!("does not take this user and password{how}"),
        };
        Stop::Final(NoConnection::ProxyPassword, line)
    }

    fn by_http(&mut self) -> Result<(), Stop> {
        let target = self.target;
        let mut request =
            Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"));
        if let Some(User::Header(value)) = &self.proxy.user {
            request.push_str("Proxy-Authorization: ");
            request.push_str(value);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        self.write(request.as_bytes())?;
        let answer = match http_answer(self.carrier, self.wait, self.is_over)? {
            Ok(answer) => answer,
            Err(NoAnswer::NotHttp) => return Err(self.is_no_proxy()),
            Err(NoAnswer::Late) => return Err(self.late()),
            Err(NoAnswer::Broken(e)) => return Err(self.broken(&e)),
        };
        let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
        let mut response = httparse::Response::new(&mut lines);
        let is_whole = response
            .parse(&answer)
            .is_ok_and(|parsed| parsed.is_complete());
        let Some(code) = response.code.filter(|_| is_whole) else {
            return Err(self.is_no_proxy());
        };
        let how = reason(code, response.reason);
        match code {
            200..=299 => Ok(()),
            407 => {
                let asked = response.headers.iter();
                let asked =
                    asked.filter(|line| line.name.eq_ignore_ascii_case("proxy-authenticate"));
                let schemes: Vec<_> = asked
                    .filter_map(|line| {
                        std::str::from_utf8(line.value)
                            .ok()?
                            .split_whitespace()
                            .next()
                    })
                    .map(|scheme| scheme.trim_end_matches(','))
                    .collect();
                let takes_basic = schemes.iter().any(|of| of.eq_ignore_ascii_case("basic"));
                Err(match schemes.is_empty() || takes_basic {
                    true => self.wants_password(&format!(" ({how})")),
                    false => {
                        let schemes = schemes.join(" or ");
                        let line = format!(
                            "asks for a user by {}, and this program knows Basic alone",
                            schemes.escape_debug()
                        );
                        Stop::Final(NoConnection::ProxyRefuses, line)
                    }
                })
            }
            405 | 501 => {
                let line =
                    format!("opens no tunnels ({how}), as a web server that is no proxy does");
                Err(Stop::Final(NoConnection::Proxy, line))
            }
            500..=599 => Err(self.cannot_reach(&how)),
            _ => Err(self.refuses(&how)),
        }
    }

    fn by_socks(&mut self) -> Result<(), Stop> {
        const VERSION: u8 = 5;
        const NOBODY: u8 = 0;
        const BY_PASSWORD: u8 = 2;
        const NONE: u8 = 0xff;
        let methods: &[u8] = match self.proxy.user {
            None => &[VERSION, 1, NOBODY],
            Some(_) => &[VERSION, 2, NOBODY, BY_PASSWORD],
        };
        self.write(methods)?;
        let [version, method] = self.read()?;
        match (version, method, &self.proxy.user) {
            (VERSION, NOBODY, _) => {}
            (VERSION, BY_PASSWORD, Some(User::Named(user, password))) => {
                let mut request = Zeroizing::new(vec![1]);
                for text in [user, password] {
                    let length = u8::try_from(text.len());
                    let too_long = |_| self.wants_password(": both have at most 255 bytes");
                    request.push(length.map_err(too_long)?);
                    request.extend_from_slice(text.as_bytes());
                }
                self.write(&request)?;
                let [_, verdict] = self.read()?;
                if verdict != 0 {
                    return Err(self.wants_password(""));
                }
            }
            (VERSION, NONE | BY_PASSWORD, _) => return Err(self.wants_password("")),
            _ => return Err(self.is_no_proxy()),
        }
        let request = self.socks_request()?;
        self.write(&request)?;
        let [version, verdict, _, form] = self.read()?;
        if version != VERSION {
            return Err(self.is_no_proxy());
        }
        match verdict {
            0 => {}
            2 => return Err(self.refuses("its rules")),
            3 => return Err(self.cannot_reach("the network is unreachable")),
            4 => return Err(self.cannot_reach("the host is unreachable")),
            5 => return Err(self.cannot_reach("nobody listens there")),
            6 => return Err(self.cannot_reach("it took too long")),
            code => return Err(self.cannot_reach(&format!("code {code}"))),
        }
        // The address from which it connects, which nobody needs.
        let length = match form {
            1 => 4,
            4 => 16,
            3 => usize::from(self.read::<1>()?[0]),
            _ => return Err(self.is_no_proxy()),
        };
        self.fill(&mut [0; 257][..length + 2])
    }

    fn socks_request(&self) -> Result<Vec<u8>, Stop> {
        let mut request = vec![5, 1, 0];
        let by_address = |request: &mut Vec<u8>, address: IpAddr| match address {
            IpAddr::V4(address) => {
                request.push(1);
                request.extend(address.octets());
            }
            IpAddr::V6(address) => {
                request.push(4);
                request.extend(address.octets());
            }
        };
        let port = match self.target {
            Target::Address(address) => {
                by_address(&mut request, address.ip());
                address.port()
            }
            Target::Name(name) => {
                let (host, port) = parts(name);
                match host.parse() {
                    Ok(address) => by_address(&mut request, address),
                    Err(_) => {
                        let length = u8::try_from(host.len());
                        let too_long = |_| self.refuses("the name has more than 255 bytes");
                        request.extend([3, length.map_err(too_long)?]);
                        request.extend(host.bytes());
                    }
                }
                port.parse().unwrap_or(0)
            }
        };
        request.extend(port.to_be_bytes());
        Ok(request)
    }
}
