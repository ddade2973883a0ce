//! The values of options.

use std::time::Duration;

use vesica::Reveal;
use vesica_plan::Registry;
use vesica_psi::Spec;
use vesica_session::Link;

use crate::failure::Failure;

/// What is revealed, and the least number of matches that the name asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revealed {
    pub(super) reveal: Reveal,
    pub(super) min_size: u64,
}

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

/// Half of this machine's memory, or of this process's limit, where that is known.
pub(super) fn half_of_the_machine() -> Option<u64> {
    let total = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibibytes = total
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"))?;
    let machine = kibibytes.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    let group = std::fs::read_to_string("/sys/fs/cgroup/memory.max");
    let group = group.ok().and_then(|text| text.trim().parse().ok());
    Some(group.unwrap_or(machine).min(machine) / 2)
}

/// A number of bytes: digits, and K, M, G or T for powers of 1024, as in 4G, 4GB and 4GiB.
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let given = text;
    let without = |end: &str| {
        let (start, unit) = given.split_at_checked(given.len().checked_sub(end.len())?)?;
        let has_unit = start.ends_with(|c: char| c.is_ascii_alphabetic());
        (has_unit && unit.eq_ignore_ascii_case(end)).then_some(start)
    };
    let text = without("iB").or_else(|| without("B")).unwrap_or(given);
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, letter)) if letter.is_ascii_alphabetic() => {
            (&text[..at], "KMGT".find(letter.to_ascii_uppercase()))
        }
        _ => (text, None),
    };
    let power = match unit {
        Some(power) => power as u32 + 1,
        None if digits.len() == text.len() => 0,
        None => 64,
    };
    let bytes = digits.parse::<u64>().ok();
    bytes
        .zip(1024u64.checked_pow(power))
        .and_then(|(bytes, unit)| bytes.checked_mul(unit))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "a size is a number of bytes, as 800M or 4G".into())
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let problem = "give a number of seconds, more than 0 and at most 1000000";
    let seconds: f64 = text.parse().map_err(|_| problem.to_owned())?;
    if seconds > 0.0 && seconds <= 1e6 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(problem.into())
    }
}

pub(super) fn revealed(name: &str) -> Result<Revealed, String> {
    let (reveal, min_size) = match name.split_once(':') {
        Some(("threshold", above)) => (Reveal::Size, size(above)? + 1),
        Some(("threshold-matches", above)) => (Reveal::ThresholdMatches, size(above)? + 1),
        _ => {
            let reveal = plainly_revealed(name).ok();
            let reveal = reveal.filter(|reveal| *reveal != Reveal::ThresholdMatches);
            let names =
                "matches, size, sum, inner-product, threshold:N, threshold-matches:N, shares";
            (reveal.ok_or_else(|| format!("there are {names}"))?, 0)
        }
    };
    Ok(Revealed { reveal, min_size })
}

pub(super) fn plainly_revealed(name: &str) -> Result<Reveal, String> {
    let reveal = Reveal::ALL.into_iter().find(|reveal| reveal.name() == name);
    reveal.ok_or_else(|| format!("there are {}", Reveal::ALL.map(Reveal::name).join(", ")))
}

/// The protocol of that name. `ole` is that of the family with tuples from `offline`, or from its first source.
pub(super) fn protocol(name: &str, offline: Option<&str>) -> Result<&'static Spec, Failure> {
    let registry = Registry::standard();
    let names = || registry.all().iter().map(|protocol| protocol.spec().name);
    let mut sources = names().filter_map(|name| name.strip_prefix("ole-"));
    let name = match (name, offline) {
        ("ole", None) => format!("ole-{}", sources.next().unwrap_or_default()),
        ("ole", Some(offline)) => format!("ole-{offline}"),
        (name, None) => name.to_owned(),
        (_, Some(_)) => return Err(Failure::usage("--offline goes with --protocol ole")),
    };
    let found = registry.get(&name).map(|protocol| protocol.spec());
    found.ok_or_else(|| match offline {
        None => Failure::usage(format!(
            "no protocol is called {name:?}; there are: {}",
            registry.names()
        )),
        Some(_) => Failure::usage(format!(
            "--offline is one of: {}",
            sources.collect::<Vec<_>>().join(", ")
        )),
    })
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

/// Maximum number of items of any party.
pub(super) const MAX_SIZE: u64 = 1 << 28;

pub(super) fn size(text: &str) -> Result<u64, String> {
    let value = match text.strip_prefix("2^") {
        Some(power) => power
            .parse::<u32>()
            .ok()
            .and_then(|power| 1u64.checked_shl(power)),
        None => text.parse().ok(),
    };
    value
        .filter(|n| *n <= MAX_SIZE)
        .ok_or_else(|| "a size is a number up to 2^28, as 65536 or 2^16".into())
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
    fn sizes_delimiters_and_timeouts() {
        assert_eq!(size("2^20"), Ok(1 << 20));
        assert_eq!(size("0"), Ok(0));
        assert!(size("2^64").is_err() && size("2^29").is_err() && size("-1").is_err());
        assert_eq!(bytes("512M"), Ok(512 << 20));
        assert_eq!((bytes("7"), bytes("4g")), (Ok(7), Ok(4 << 30)));
        for four in ["4GB", "4gib", "4096M", "4194304kB"] {
            assert_eq!(bytes(four), Ok(4 << 30), "{four}");
        }
        for wrong in [
            "",
            "0",
            "4X",
            "G",
            "-1M",
            "1.5G",
            "99999999T",
            "4Gé",
            "B",
            "4B",
            "4iB",
            "4GBB",
            "4XB",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        let above = |min_size| Revealed {
            reveal: Reveal::Size,
            min_size,
        };
        assert_eq!(
            (revealed("size"), revealed("threshold:2^4")),
            (Ok(above(0)), Ok(above(17)))
        );
        for wrong in [
            "threshold:",
            "threshold",
            "threshold-matches",
            "size:3",
            "shares:1",
        ] {
            assert!(revealed(wrong).is_err(), "{wrong}");
        }
        let matches = revealed("threshold-matches:0").unwrap();
        assert_eq!(
            (matches.reveal, matches.min_size),
            (Reveal::ThresholdMatches, 1)
        );
        assert_eq!(delimiter("tab"), Ok(b'\t'));
        assert_eq!(delimiter(";"), Ok(b';'));
        assert_eq!(
            (quote("none"), quote("'")),
            (Ok(Quote(None)), Ok(Quote(Some(b'\''))))
        );
        assert!(quote("").is_err() && character("\n").is_err());
        assert!(delimiter("ab").is_err() && delimiter("").is_err() && delimiter("é").is_err());
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("0").is_err() && seconds("nan").is_err() && seconds("1e300").is_err());
    }
}
