//! Where a peer is reached.

use std::fmt;
use std::str::FromStr;

use http::Uri;

use crate::Error;

/// Where a peer is reached: `host:port`, or `wss://host/path` and `ws://host:port/path` for a WebSocket at that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    place: String,
    pub(crate) web: Option<Web>,
}

/// A WebSocket at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Web {
    /// Whether it is within TLS of its own.
    pub(crate) is_secure: bool,
    /// Host and port as they were given.
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Address {
    /// `host:port`, to which to connect.
    pub fn place(&self) -> &str {
        &self.place
    }
}

const FORM: &str = "an address is HOST:PORT, and that of a WebSocket behind a web server wss://HOST/PATH or ws://HOST:PORT/PATH, in ASCII and without a user";

/// Anything without a scheme is a host and a port, which are not looked at here.
impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let wrong = || Error::Usage(FORM.into());
        let (is_secure, usual_port) = match text.split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("wss") => (true, 443),
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("ws") => (false, 80),
            Some(_) => return Err(wrong()),
            None => {
                let place = text.to_owned();
                return Ok(Address { place, web: None });
            }
        };
        if !text.is_ascii() || text.contains(['#', '@']) {
            return Err(wrong());
        }
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?.as_str();
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(wrong)?;
        let port = match authority.strip_prefix(host) {
            Some("") => usual_port,
            _ => uri.port_u16().ok_or_else(wrong)?,
        };
        Ok(Address {
            place: format!("{host}:{port}"),
            web: Some(Web {
                is_secure,
                authority: authority.to_owned(),
                path: uri
                    .path_and_query()
                    .map_or("/", |path| path.as_str())
                    .into(),
            }),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.web {
            None => f.write_str(&self.place),
            Some(web) => {
                let scheme = if web.is_secure { "wss" } else { "ws" };
                write!(f, "{scheme}://{}{}", web.authority, web.path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_place_and_perhaps_a_path() {
        for (text, place, shown) in [
            ("h:7340", "h:7340", "h:7340"),
            ("[::1]:7340", "[::1]:7340", "[::1]:7340"),
            ("wss://h", "h:443", "wss://h/"),
            ("WSS://h/a/b?c=d", "h:443", "wss://h/a/b?c=d"),
            ("ws://h/", "h:80", "ws://h/"),
            ("ws://h:8080/psi", "h:8080", "ws://h:8080/psi"),
            ("wss://[::1]:8443/psi", "[::1]:8443", "wss://[::1]:8443/psi"),
            (
                "wss://[2001:db8::1]",
                "[2001:db8::1]:443",
                "wss://[2001:db8::1]/",
            ),
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.place(), place, "{text}");
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.web.is_some(), text.contains("://"));
        }
    }

    #[test]
    fn what_is_no_web_socket_is_refused() {
        for text in [
            "https://h/",
            "tcp://h:80",
            "ws://",
            "wss:///path",
            "wss://user@h/",
            "wss://user:secret@h/",
            "wss://h/#part",
            "wss://h:0x10/",
            "wss://h:/",
            "wss://h:65536/",
            "wss://h h/",
            "wss://h/\u{e4}",
            "wss://h/a b",
            "wss://h/\n",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
    }
}
