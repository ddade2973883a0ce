//! Which proxy a side connects through, if any.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use zeroize::Zeroizing;

use crate::Error;

/// Which proxy a side connects through.
#[derive(Clone, Debug, Default)]
pub enum Proxies {
    /// The one that `HTTPS_PROXY` or else `ALL_PROXY` names, in upper or in lower case: as `http://HOST:PORT`,
    /// `https://HOST:PORT` or `socks5h://HOST:PORT`, perhaps with `USER:PASSWORD@` before the host. None for the hosts that `NO_PROXY` lists, and
    /// for this machine.
    #[default]
    Environment,
    /// None.
    Direct,
    /// This one for every host.
    Through(Proxy),
}

/// `none`, or a proxy.
impl FromStr for Proxies {
    type Err = Error;

    fn from_str(text: &str) -> Result<Proxies, Error> {
        Ok(match text {
            "none" => Proxies::Direct,
            url => Proxies::Through(url.parse()?),
        })
    }
}

impl Proxies {
    /// The proxy for `address`, `host:port`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the environment names something that is no proxy.
    pub fn of(&self, address: &str) -> Result<Option<Proxy>, Error> {
        match self {
            Proxies::Direct => Ok(None),
            Proxies::Through(proxy) => Ok(Some(proxy.clone())),
            Proxies::Environment => by_environment(address),
        }
    }
}

/// The variables that name a proxy, the first that is set before the others.
const VARIABLES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// The proxy that the environment names for `address`.
fn by_environment(address: &str) -> Result<Option<Proxy>, Error> {
    let (host, _) = parts(address);
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let is_here = match name.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        // The system reads 127.1 as an address too.
        Err(_) => {
            let is_number = name
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.');
            name == "localhost"
                || name.ends_with(".localhost")
                || is_number && name.starts_with("127.")
        }
    };
    if is_here {
        return Ok(None);
    }
    // The library takes what it cannot read for nothing, and the connection would go past the proxy.
    let set = |name: &'static str| Some((name, std::env::var_os(name)?));
    let mut named = VARIABLES.into_iter().filter_map(set);
    let Some((name, value)) = named.find(|(_, value)| !value.is_empty()) else {
        return Ok(None);
    };
    let target = http::Uri::builder()
        .scheme("https")
        .authority(address)
        .path_and_query("/")
        .build();
    let target = target.map_err(|_| {
        let line = format!("{address}: a proxy is asked for a name in letters of ASCII");
        Error::Usage(line)
    })?;
    let except = ["NO_PROXY", "no_proxy"]
        .iter()
        .find_map(|name| std::env::var(name).ok());
    let rules = Matcher::builder()
        .all("http://vesica.invalid")
        .no(except.unwrap_or_default())
        .build();
    if rules.intercept(&target).is_none() {
        return Ok(None);
    }
    let proxy = value.to_str().ok_or(FORM).and_then(Proxy::read);
    let refused =
        |problem| Error::Usage(format!("the variable {name} of the environment: {problem}"));
    proxy.map(Some).map_err(refused)
}

/// Host and port of `host:port`, the host without brackets.
pub(crate) fn parts(address: &str) -> (&str, &str) {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    (bare.unwrap_or(host), port)
}

/// A proxy. What it shows of itself has no password in it.
#[derive(Clone)]
pub struct Proxy {
    pub(crate) kind: Kind,
    /// `host:port`.
    address: String,
    pub(crate) user: Option<User>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Http,
    /// The same within TLS.
    Https,
    /// This side looks the peer's name up.
    Socks5,
    /// The proxy does.
    Socks5h,
}

#[derive(Clone)]
pub(crate) enum User {
    /// The value of `Proxy-Authorization`.
    Header(Zeroizing<String>),
    Named(Zeroizing<String>, Zeroizing<String>),
}

const FORM: &str = "a proxy has the scheme http, https, socks5 or socks5h, a host and a port, as http://proxy.example:3128";
const ESCAPE: &str = "a user and a password have %2F for /, %40 for @, %3A for : and so on: % and two digits for each \
                      character that is no letter and no digit";

impl FromStr for Proxy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Proxy, Error> {
        let proxy = match text.contains("://") {
            true => Proxy::read(text),
            false => Err(FORM),
        };
        proxy.map_err(|problem| Error::Usage(problem.into()))
    }
}

/// Without user and password.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            Kind::Http => "http",
            Kind::Https => "https",
            Kind::Socks5 => "socks5",
            Kind::Socks5h => "socks5h",
        };
        write!(f, "{scheme}://{}", self.address)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Proxy {
    /// Of an address; without a scheme it is that of HTTP.
    fn read(text: &str) -> Result<Proxy, &'static str> {
        let (_, rest) = text.split_once("://").unwrap_or(("", text));
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, place) = authority.rsplit_once('@').unwrap_or(("", authority));
        let is_plain = |of: &str| {
            of.chars()
                .all(|c| c.is_ascii_graphic() && !"\"\\<>^`{|}".contains(c))
        };
        if path.contains('@') || user.contains('@') || !is_plain(user) {
            return Err(ESCAPE);
        }
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (place, None),
        };
        if host.is_empty()
            || !is_plain(host)
            || port.is_some_and(|port| port.parse::<u16>().is_err())
        {
            return Err(FORM);
        }
        let rules = Matcher::builder().all(text.to_owned()).build();
        let anywhere = http::Uri::from_static("https://vesica.invalid/");
        Proxy::of(&rules.intercept(&anywhere).ok_or(FORM)?)
    }

    fn of(found: &Intercept) -> Result<Proxy, &'static str> {
        let (kind, usual_port) = match found.uri().scheme_str() {
            Some("http") => (Kind::Http, 80),
            Some("https") => (Kind::Https, 443),
            Some("socks5") => (Kind::Socks5, 1080),
            Some("socks5h") => (Kind::Socks5h, 1080),
            _ => return Err(FORM),
        };
        let host = found.uri().host().ok_or(FORM)?;
        let port = found.uri().port_u16().unwrap_or(usual_port);
        let header = found.basic_auth().and_then(|value| value.to_str().ok());
        let header = header.map(|value| User::Header(Zeroizing::new(value.to_owned())));
        let raw = found.raw_auth();
        if raw.is_some_and(|(user, password)| {
            [user, password].iter().any(|of| of.contains('\u{fffd}'))
        }) {
            return Err(ESCAPE);
        }
        let named = raw.map(|(user, password)| {
            let [user, password] = [user, password].map(|text| Zeroizing::new(text.to_owned()));
            User::Named(user, password)
        });
        Ok(Proxy {
            kind,
            address: format!("{host}:{port}"),
            user: header.or(named),
        })
    }

    /// `host:port`, to which to connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the peer's name is looked up by this side.
    pub(crate) fn takes_addresses(&self) -> bool {
        self.kind == Kind::Socks5
    }
}
