//! The values of options.

use vesica::Reveal;
use vesica_session::Link;

/// An address with a port.
pub(super) fn address(text: &str) -> Result<String, String> {
    let problem = "an address is HOST:PORT, as localhost:7340 or [::1]:7340";
    let (host, port) = text.rsplit_once(':').ok_or(problem)?;
    let is_ipv6 = host.contains(':');
    if host.is_empty() || port.parse::<u16>().is_err() || is_ipv6 && !host.starts_with('[') {
        return Err(problem.into());
    }
    Ok(text.to_owned())
}

pub(super) fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        _ => character(text)
            .map_err(|_| "a delimiter is one ASCII character, or the word tab".into()),
    }
}

/// The quote of CSV, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote(pub(super) Option<u8>);

pub(super) fn quote(text: &str) -> Result<Quote, String> {
    match text {
        "none" => Ok(Quote(None)),
        _ => character(text)
            .map(|byte| Quote(Some(byte)))
            .map_err(|_| "a quote is one ASCII character, or the word none".into()),
    }
}

pub(super) fn character(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => Err("give one ASCII character".into()),
    }
}

pub(super) fn plainly_revealed(name: &str) -> Result<Reveal, String> {
    let reveal = Reveal::ALL.into_iter().find(|reveal| reveal.name() == name);
    reveal.ok_or_else(|| format!("there are {}", Reveal::ALL.map(Reveal::name).join(", ")))
}

pub(super) fn network(name: &str) -> Result<String, String> {
    match Link::from_name(name) {
        Some(_) => Ok(name.to_owned()),
        None => {
            let names: Vec<_> = Link::NAMED.iter().map(|(n, _)| *n).collect();
            Err(format!("networks are: {}", names.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        for fine in ["localhost:7340", "0.0.0.0:0", "[::1]:80"] {
            assert_eq!(address(fine).as_deref(), Ok(fine));
        }
        for wrong in [
            "localhost",
            "localhost:",
            ":7340",
            "h:port",
            "h:65536",
            "::1",
            "::1:80",
        ] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn delimiters_and_quotes() {
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(
            (quote("none"), quote("'")),
            (Ok(Quote(None)), Ok(Quote(Some(b'\''))))
        );
        assert!(quote("").is_err() && character("\n").is_err());
        assert!(delimiter("ab").is_err() && delimiter("").is_err() && delimiter("é").is_err());
    }
}
