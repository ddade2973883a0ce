//! The options of a run as people write them, for every face of this crate: the command's words and defaults.

use std::path::Path;
use std::time::Duration;

#[cfg(feature = "adbc")]
use vesica_files::Argument::{Database, DatabaseFile, Driver};
use vesica_files::Argument::{Offline, Protocol};
#[cfg(feature = "adbc")]
use vesica_files::Face;
use vesica_files::{Advice, Argument, advice, found_at, memory_limit, read_regular};
use vesica_psi::{MAX_GROUP_WIRES, Spec};
#[cfg(feature = "adbc")]
use vesica_session::read_secret;
use vesica_session::{
    Address, ConnectOptions, Fingerprint, GROUP_BYTES, GroupMinimum, GroupSizes, Grouping,
    LabelExchange, LabelTerms, MAX_VALUE_COLUMNS, NoiseRequest, ProtocolRequest, Registry, Reveal,
    Reveals, Role, is_server_name,
};
#[cfg(feature = "adbc")]
use vesica_tables::{AdbcDatabase, PathKind, Paths, database_paths, is_library};
use vesica_tables::{KeySpec, TextColumns, ValueColumn};

use crate::Error;

/// Bytes of what is handed over with a key, unless others are asked for.
const LABEL_BYTES: u32 = 64;

/// The texts that go with the keys of a table, if any do: columns that are handed over, or one of which both sides get
/// shares, or that of the groups.
///
/// # Errors
/// Usage: columns that do not go together.
pub(crate) fn text_columns(
    key: &KeySpec,
    labels: &LabelExchange,
    payload: Option<&PayloadColumn>,
    group: Option<&GroupColumn>,
) -> Result<Option<TextColumns>, Error> {
    Ok(match (labels, payload, group) {
        (LabelExchange::Offered(terms), ..) => {
            let labels = TextColumns::labels(key, &terms.columns, terms.bytes as usize)?;
            Some(labels.of_rows(terms.rows as usize))
        }
        (_, _, Some(group)) => Some(TextColumns::group(key, &group.name, GROUP_BYTES)?),
        (_, Some(payload), _) => {
            let bytes = payload.bytes as usize;
            Some(TextColumns::payload(key, &payload.name, bytes)?)
        }
        _ => None,
    })
}

/// How much is handed over with a key, or the most that a receiver accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LabelRoom {
    /// Bytes that the columns of a row take; 64 if not given.
    pub bytes: Option<u32>,
    /// Rows of a key that are handed over; 1 if not given.
    pub rows: Option<u32>,
}

/// What becomes of a side's `payload`: columns that a sender hands over with the matches or in a union, or the column of which
/// both sides get shares. `takes` says that a receiver wants what the sender hands over, as every receiver of a union does.
///
/// # Errors
/// Usage: arguments that do not go together.
pub fn payload_exchange(
    role: Role,
    reveal: Reveals,
    columns: Vec<String>,
    takes: bool,
    room: LabelRoom,
) -> Result<(LabelExchange, Option<PayloadColumn>), Error> {
    let takes = takes || role == Role::Receiver && reveal.is_rows();
    let (rows, bytes) = (room.rows.unwrap_or(1), room.bytes);
    let width = LabelTerms::bytes_of_rows(rows, bytes.unwrap_or(LABEL_BYTES));
    let is_handed_over = takes || reveal.takes_labels() && !columns.is_empty();
    if room.rows.is_some() && !is_handed_over {
        return Err(usage(
            "rows per key are for columns that are handed over with the matches",
        ));
    }
    let labels = match role {
        _ if takes && !columns.is_empty() => {
            return Err(usage("a side that takes columns has no payload of its own"));
        }
        Role::Sender if takes => {
            return Err(usage("the receiver takes columns, and the sender has them"));
        }
        Role::Receiver if takes => LabelExchange::Wanted {
            most_bytes: width,
            most_rows: rows,
        },
        _ if reveal == Reveal::Shares => {
            let shared = PayloadColumn::new(&columns, bytes)?;
            return Ok((LabelExchange::Nothing, shared));
        }
        _ if columns.is_empty() && reveal.is_rows() => {
            let remedy = advice!["name them with ", Argument::Payload];
            let problem = "a union is of columns that the sender hands over";
            return Err(refused(problem, remedy));
        }
        _ if columns.is_empty() && bytes.is_some() => {
            return Err(usage(
                "a width is for columns that are handed over with the matches, or shared",
            ));
        }
        _ if columns.is_empty() => LabelExchange::Nothing,
        _ if !reveal.takes_labels() => {
            return Err(usage(format!(
                "columns are handed over with the matches or in a union, or shared with shares, and not with {reveal}"
            )));
        }
        Role::Receiver => {
            return Err(usage(
                "the sender hands columns over, and the receiver takes them",
            ));
        }
        Role::Sender => {
            let mut named = columns.iter().enumerate();
            if let Some((_, name)) = named.find(|(i, name)| columns[..*i].contains(name)) {
                return Err(usage(format!("column {name:?} is named twice")));
            }
            LabelExchange::Offered(LabelTerms {
                rows,
                ..LabelTerms::texts(width, columns)
            })
        }
    };
    Ok((labels, None))
}

/// The column of texts of which both sides get shares, as they have shares of the matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PayloadColumn {
    /// Its name.
    pub name: String,
    /// Bytes for each key, told to the peer: texts are followed by zeros up to these. From 1 to
    /// [`MAX_STRING_BYTES`](vesica_session::MAX_STRING_BYTES).
    pub bytes: u32,
}

impl PayloadColumn {
    /// The column that is named, if one is, and its width.
    fn new(names: &[String], bytes: Option<u32>) -> Result<Option<PayloadColumn>, Error> {
        match (names, bytes) {
            ([], None) => Ok(None),
            ([name], Some(bytes)) => Ok(Some(PayloadColumn {
                name: name.clone(),
                bytes,
            })),
            _ => {
                let remedy = advice![
                    "name one column with ",
                    Argument::Payload,
                    ", and its bytes with ",
                    Argument::PayloadWidth,
                ];
                let problem = "what both sides get shares of is one column of a known width";
                Err(refused(problem, remedy))
            }
        }
    }
}

/// The column that says in which group a key of the receiver is, of each of which it learns numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupColumn {
    /// Its name. Rows without a text there are in no group.
    pub name: String,
    /// The groups that are wanted, in order; if there is none, all that the column has, in the order of their names.
    pub only: Vec<String>,
    /// What the sender learns of their sizes.
    pub sizes: GroupSizes,
    /// What a minimum withholds.
    pub minimum: GroupMinimum,
}

impl GroupColumn {
    /// All groups of a column. `sizes` is `hidden`, `told` or `padded:N`, and `minimum` is `each` or `all`.
    ///
    /// # Errors
    /// Usage: other words.
    pub fn new(
        name: &str,
        only: Vec<String>,
        sizes: Option<&str>,
        minimum: Option<&str>,
    ) -> Result<GroupColumn, Error> {
        let sizes = match sizes {
            None | Some("hidden") => GroupSizes::Hidden,
            Some("told") => GroupSizes::Told,
            Some(other) => {
                let padded = other
                    .strip_prefix("padded:")
                    .and_then(|size| size.parse().ok());
                let padded = padded.filter(|size| (1..=MAX_GROUP_WIRES).contains(size));
                GroupSizes::Padded(padded.ok_or_else(|| {
                    usage("sizes of groups are hidden, told, or padded:N with the most keys of a group")
                })?)
            }
        };
        let minimum = match minimum {
            None | Some("each") => GroupMinimum::Each,
            Some("all") => GroupMinimum::All,
            Some(_) => {
                return Err(usage(
                    "a minimum is for each group, or for all of them together: each or all",
                ));
            }
        };
        Ok(GroupColumn {
            name: name.to_owned(),
            only: only.iter().map(|name| name.trim().to_owned()).collect(),
            sizes,
            minimum,
        })
    }

    /// As it is known before the table is.
    pub(crate) fn of_no_keys(&self) -> Grouping {
        Grouping {
            groups: Vec::new(),
            rest: 0,
            sizes: self.sizes,
            minimum: self.minimum,
        }
    }

    /// The groups of a table of so many keys, in which these have so many.
    ///
    /// # Errors
    /// Usage: no key is in any.
    pub(crate) fn of_keys<'k>(
        &self,
        keys: u64,
        found: impl Iterator<Item = (&'k [u8], u64)>,
    ) -> Result<Grouping, Error> {
        let named =
            |(label, keys): (&[u8], u64)| (String::from_utf8_lossy(label).into_owned(), keys);
        let found: Vec<(String, u64)> = found.map(named).collect();
        let of = |name: &String| {
            let size = found.iter().find(|(found, _)| found == name);
            (name.clone(), size.map_or(0, |(_, keys)| *keys))
        };
        let groups: Vec<_> = match self.only.is_empty() {
            true => found,
            false => self.only.iter().map(of).collect(),
        };
        if groups.is_empty() {
            let problem = format!("no key is in a group: column {:?} is empty", self.name);
            return Err(usage(problem));
        }
        let in_groups: u64 = groups.iter().map(|(_, keys)| keys).sum();
        Ok(Grouping {
            rest: keys.saturating_sub(in_groups),
            groups,
            ..self.of_no_keys()
        })
    }
}

/// The columns of values with these names. Scales and bounds are those of all columns, if there is one, or one for each; a
/// bound that is not given is as in [`ValueColumn::new`].
///
/// # Errors
/// Usage: more columns than a run takes, another number of scales or bounds, or one that is out of range.
pub fn value_columns(
    names: &[String],
    scales: &[u8],
    bounds: &[String],
    sums_repeated: bool,
) -> Result<Vec<ValueColumn>, Error> {
    if names.len() > MAX_VALUE_COLUMNS {
        return Err(usage("at most eight columns of values"));
    }
    if ![0, 1, names.len()].contains(&scales.len()) || ![0, 1, names.len()].contains(&bounds.len())
    {
        return Err(usage(
            "one scale and one bound for all columns of values, or one for each",
        ));
    }
    let of = |i: usize, len: usize| if len == 1 { 0 } else { i };
    let column = |(i, name): (usize, &String)| {
        let scale = scales.get(of(i, scales.len())).copied().unwrap_or(0);
        let bound = bounds.get(of(i, bounds.len())).map(String::as_str);
        Ok(ValueColumn::new(name, scale, bound, sums_repeated)?)
    };
    names.iter().enumerate().map(column).collect()
}

/// The noise of ε in numbers: ε, and its shares, `NAME=SHARE` each, where they are not even.
///
/// # Errors
/// Usage: an ε that is none, shares that are none, or without ε.
pub fn noise_request(
    epsilon: Option<&str>,
    split: &[String],
) -> Result<Option<NoiseRequest>, Error> {
    let share = |text: &String| {
        let (name, share) = text.split_once('=')?;
        let share = share.parse().ok().filter(|share| *share > 0)?;
        (!name.is_empty()).then(|| (name.to_owned(), share))
    };
    let shares = split.iter().map(share).collect::<Option<_>>();
    let split = shares.ok_or_else(|| {
        usage("a share of epsilon is the name of a number and a whole number above 0, as size=1,sum=3")
    })?;
    match epsilon {
        None if !Vec::is_empty(&split) => Err(usage("shares of epsilon go with an epsilon")),
        None => Ok(None),
        Some(epsilon) => {
            let epsilon = epsilon.parse().map_err(|e: &str| usage(e))?;
            Ok(Some(NoiseRequest { epsilon, split }))
        }
    }
}

/// Most bytes of a file of values that are denied.
const MAX_DENIED: u64 = 64 << 20;

/// The values in a file for [`KeySpec::with_denied`](crate::KeySpec::with_denied), one a line; empty lines are none.
///
/// # Errors
/// Usage: no such file, more than 64 MiB, or no UTF-8.
pub fn denied_values(path: &Path) -> Result<Vec<String>, Error> {
    let bytes = read_regular(path, MAX_DENIED);
    let bytes = bytes.map_err(|e| usage(format!("{}: {e}", path.display())))?;
    let text =
        str::from_utf8(&bytes).map_err(|_| usage(format!("{}: no UTF-8", path.display())))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = text.lines().filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// The database whose URI is `database`, or in `file`, which only its owner may read. `driver` is as in
/// [`AdbcDatabase::new`].
///
/// # Errors
/// Usage: neither, a file that cannot be read or that others can read, and as [`AdbcDatabase::new`].
#[cfg(feature = "adbc")]
pub fn adbc_database(
    database: Option<&str>,
    file: Option<&Path>,
    driver: Option<&str>,
) -> Result<AdbcDatabase, Error> {
    let read;
    let uri = match (database, file) {
        (_, Some(path)) => {
            read = read_secret(path)?;
            str::from_utf8(&read).map_err(|_| usage(format!("{}: no text", path.display())))?
        }
        (Some(uri), None) => uri,
        (None, None) => {
            let remedy = advice!["name it with ", Database, " or ", DatabaseFile];
            return Err(refused(
                "a query needs a database, and so does a table for the result",
                remedy,
            ));
        }
    };
    Ok(AdbcDatabase::new(uri, driver)?)
}

/// Adds what these arguments of a database name: its file if it has one, the file with its address, and the driver's library.
/// `face` spells the arguments, and `is_written` says that a result goes there.
#[cfg(feature = "adbc")]
pub fn add_database(
    paths: &mut Paths,
    face: &dyn Face,
    database: Option<&str>,
    file: Option<&Path>,
    driver: Option<&str>,
    is_written: bool,
) {
    let mut add = |argument: Argument, path: &Path| match is_written {
        true => paths.writes(face.argument(argument), PathKind::Database, path),
        false => paths.reads(face.argument(argument), PathKind::Database, path),
    };
    let of_uri = database.map(|uri| database_paths(uri, driver));
    // What cannot be read is complained of when it is used.
    let of_file = file.and_then(|file| adbc_database(None, Some(file), driver).ok());
    let of_file = of_file.map(|database| database.paths());
    for path in of_uri.into_iter().chain(of_file).flatten() {
        add(Database, &path);
    }
    if let Some(file) = file {
        paths.reads(face.argument(DatabaseFile), PathKind::File, file);
    }
    if let Some(driver) = driver.filter(|driver| is_library(driver)) {
        paths.reads(face.argument(Driver), PathKind::File, driver.as_ref());
    }
    // Of one line, whatever they are.
    for (argument, text) in [(Database, database), (Driver, driver)] {
        if let Some(text) = text {
            paths.reads(face.argument(argument), PathKind::Address, text.as_ref());
        }
    }
}

/// An address with a port, as `localhost:7340` or `[::1]:7340`.
///
/// # Errors
/// Usage: anything else.
pub fn parse_address(text: &str) -> Result<String, Error> {
    if !is_address(text) {
        let form = "an address is HOST:PORT, as localhost:7340 or [::1]:7340";
        let found = found_at(Path::new(text));
        return Err(Error::Usage {
            problem: match found {
                Some(found) => format!("this is {found}, and {form}"),
                None => form.to_owned(),
            },
            remedy: (found == Some("a fingerprint")).then(|| {
                advice![
                    "name the peer with ",
                    Argument::Peer,
                    ", and here where it listens",
                ]
            }),
        });
    }
    Ok(text.to_owned())
}

/// Where a peer is reached: an address with a port, or a WebSocket behind a web server, as `wss://psi.example.org/psi`.
///
/// # Errors
/// Usage: anything else.
pub fn parse_peer_address(text: &str) -> Result<String, Error> {
    match text.split_once("://") {
        None => parse_address(text),
        Some(_) => {
            text.parse::<Address>()?;
            Ok(text.to_owned())
        }
    }
}

/// A name of a host, for the first message of TLS.
///
/// # Errors
/// Usage: anything else, and an address in numbers.
pub fn parse_sni(text: &str) -> Result<String, Error> {
    match is_server_name(text) {
        true => Ok(text.to_owned()),
        false => Err(Error::Usage {
            problem: "this is the name of a host, as psi.example.org".into(),
            remedy: None,
        }),
    }
}

fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_ipv6 = host.contains(':');
    !text.contains(char::is_control)
        && !host.is_empty()
        && !host.contains(['/', '@'])
        && port.parse::<u16>().is_ok()
        && (!is_ipv6 || host.starts_with('['))
}

/// A delimiter of CSV: one ASCII character, or `tab`.
///
/// # Errors
/// Usage: anything else.
pub fn parse_delimiter(text: &str) -> Result<u8, Error> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        _ => parse_character(text)
            .map_err(|_| usage("a delimiter is one ASCII character, or the word tab")),
    }
}

/// A quote of CSV: one ASCII character, or `none`.
///
/// # Errors
/// Usage: anything else.
pub fn parse_quote(text: &str) -> Result<Option<u8>, Error> {
    match text {
        "none" => Ok(None),
        _ => parse_character(text)
            .map(Some)
            .map_err(|_| usage("a quote is one ASCII character, or the word none")),
    }
}

/// One ASCII character that ends no line.
///
/// # Errors
/// Usage: anything else.
pub fn parse_character(text: &str) -> Result<u8, Error> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(*byte),
        _ => Err(usage("give one ASCII character")),
    }
}

/// Bits per second: a number and a unit, as in 200mbps and 1.5gbps; from 1kbps to 1000gbps.
///
/// # Errors
/// Usage: anything else.
pub fn parse_bandwidth(text: &str) -> Result<u64, Error> {
    let units = [("gbps", 1e9), ("mbps", 1e6), ("kbps", 1e3), ("bps", 1.0)];
    let mut of_unit = units.iter().filter_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    });
    let rate = of_unit.next().filter(|rate| (1e3..=1e12).contains(rate));
    let rate = rate.map(|rate| rate.round() as u64);
    rate.ok_or_else(|| usage("a rate is from 1kbps to 1000gbps, as 200mbps or 1.5gbps"))
}

/// A number of bytes: digits, and K, M, G or T for powers of 1024, as in 4G, 4GB and 4GiB.
///
/// # Errors
/// Usage: anything else, and zero.
pub fn parse_bytes(text: &str) -> Result<u64, Error> {
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
        .ok_or_else(|| usage("a size is a number of bytes, as 800M or 4G"))
}

/// A time: a number of seconds, or one with a unit, as in 500ms, 30s, 5m, 2h and 7d; more than 0 and at most 1000000 seconds.
///
/// # Errors
/// Usage: anything else.
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let units = [
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
        ("d", 86_400.0),
    ];
    let of_unit = |(unit, factor): &(&str, f64)| Some((text.strip_suffix(unit)?, *factor));
    let (number, factor) = units.iter().find_map(of_unit).unwrap_or((text, 1.0));
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    let seconds = seconds.filter(|seconds| *seconds > 0.0 && *seconds <= 1e6);
    seconds.map(Duration::from_secs_f64).ok_or_else(|| {
        usage(
            "give a number of seconds, or one with a unit as 500ms, 30s, 5m, 2h or 7d: more than 0 and at most 1000000 seconds",
        )
    })
}

/// Half of this machine's memory in bytes, or of this process's limit, where that is known.
pub fn half_of_the_machine() -> Option<u64> {
    memory_limit().map(|limit| limit.bytes / 2)
}

/// `auto`, or the protocol of that name as [`find_protocol`] finds it.
///
/// # Errors
/// As there.
pub fn parse_protocol(name: &str, offline: Option<&str>) -> Result<ProtocolRequest, Error> {
    match (name, offline) {
        ("auto", None) => Ok(ProtocolRequest::Auto),
        _ => Ok(ProtocolRequest::named(find_protocol(name, offline)?.name)),
    }
}

/// The protocol of that name. `ole` is that of the family with tuples from `offline`, or from its first source.
///
/// # Errors
/// Usage: there is none.
pub fn find_protocol(name: &str, offline: Option<&str>) -> Result<&'static Spec, Error> {
    let registry = Registry::standard();
    let names = || registry.all().iter().map(|protocol| protocol.spec().name);
    let mut sources = names().filter_map(|name| name.strip_prefix("ole-"));
    let name = match (name, offline) {
        ("ole", None) => format!("ole-{}", sources.next().unwrap_or_default()),
        ("ole", Some(offline)) => format!("ole-{offline}"),
        (name, None) => name.to_owned(),
        (_, Some(_)) => {
            let remedy = advice![Offline, " goes with ", (Protocol, "ole")];
            return Err(refused(format!("protocol {name} takes no tuples"), remedy));
        }
    };
    let found = registry.get(&name).map(|protocol| protocol.spec());
    found.ok_or_else(|| match offline {
        None => usage(format!(
            "no protocol is called {name:?}; there are: {}",
            registry.names()
        )),
        Some(offline) => {
            let there_are = format!(" is one of: {}", sources.collect::<Vec<_>>().join(", "));
            let problem = format!("no tuples are called {offline:?}");
            refused(problem, advice![Offline, there_are])
        }
    })
}

/// The peer of what is with one key of it alone: jobs of tasks, whose tasks are pinned by it, published sets, and runs that
/// resume.
///
/// # Errors
/// Usage: another key is given too.
pub(crate) fn only_key(
    what: &str,
    peer: Fingerprint,
    connect: &ConnectOptions,
) -> Result<Fingerprint, Error> {
    match connect.also.is_empty() {
        true => Ok(peer),
        false => Err(refused(
            format!("{what} is with one key of the peer"),
            advice![
                "give ",
                Argument::Peer,
                " once, or leave that away until the peer has changed its key",
            ],
        )),
    }
}

fn usage(problem: impl Into<String>) -> Error {
    Error::Usage {
        problem: problem.into(),
        remedy: None,
    }
}

fn refused(problem: impl Into<String>, remedy: Advice) -> Error {
    Error::Usage {
        problem: problem.into(),
        remedy: Some(remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port() {
        for fine in ["localhost:7340", "0.0.0.0:0", "[::1]:80"] {
            assert_eq!(parse_address(fine).unwrap(), fine);
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
            assert!(parse_address(wrong).is_err(), "{wrong}");
            assert!(parse_peer_address(wrong).is_err(), "{wrong}");
        }
        for fine in ["localhost:7340", "wss://h/psi", "ws://[::1]:80"] {
            assert_eq!(parse_peer_address(fine).unwrap(), fine);
        }
        for wrong in ["https://h/psi", "wss://", "tcp://h:80", "wss://u:p@h/"] {
            assert!(parse_peer_address(wrong).is_err(), "{wrong}");
        }
        assert!(parse_address("wss://h:80").is_err());
    }

    #[test]
    fn rates_have_units() {
        let rate = |text| parse_bandwidth(text).ok();
        assert_eq!(rate("1.5gbps"), Some(1_500_000_000));
        assert_eq!((rate("1kbps"), rate("8000bps")), (Some(1000), Some(8000)));
        for wrong in [
            "", "200", "mbps", "-1mbps", "0.1kbps", "1001gbps", "nanbps", "infgbps",
        ] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_are_seconds_unless_they_have_a_unit() {
        let millis = |text| parse_duration(text).ok().map(|time| time.as_millis());
        for (text, time) in [
            ("0.5", 500),
            ("120", 120_000),
            ("500ms", 500),
            ("30s", 30_000),
            ("1.5m", 90_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("1000000", 1_000_000_000),
        ] {
            assert_eq!(millis(text), Some(time), "{text}");
        }
        for wrong in [
            "", "0", "-1", "nan", "inf", "1e300", "1000001", "12d", "m", "0s", "5 m", "5M", "5w",
            "1h30m", "5sm",
        ] {
            assert_eq!(millis(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn noise_has_an_epsilon_and_whole_shares() {
        let request = |epsilon: Option<&str>, split: &[&str]| {
            let split: Vec<String> = split.iter().map(|share| (*share).to_owned()).collect();
            noise_request(epsilon, &split)
        };
        assert_eq!(request(None, &[]).unwrap(), None);
        let halves = request(Some("0.5"), &["size=1", "sum-1-count=20"])
            .unwrap()
            .unwrap();
        assert_eq!(halves.epsilon.to_string(), "0.5");
        let shares = [("size".to_owned(), 1), ("sum-1-count".to_owned(), 20)];
        assert_eq!(halves.split, shares);
        for (epsilon, split) in [
            (None, &["size=1"][..]),
            (Some("0"), &[]),
            (Some("1e-3"), &[]),
            (Some("1"), &["size"]),
            (Some("1"), &["size=0"]),
            (Some("1"), &["size=0.5"]),
            (Some("1"), &["=1"]),
            (Some("1"), &["size=-1"]),
        ] {
            assert!(request(epsilon, split).is_err(), "{epsilon:?} {split:?}");
        }
    }

    #[test]
    fn delimiters_and_quotes() {
        let delimiter = |text| parse_delimiter(text).ok();
        assert_eq!(
            (delimiter("tab"), delimiter(";")),
            (Some(b'\t'), Some(b';'))
        );
        let quote = |text| parse_quote(text).ok();
        assert_eq!((quote("none"), quote("'")), (Some(None), Some(Some(b'\''))));
        assert_eq!((quote(""), parse_character("\n").ok()), (None, None));
        for wrong in ["ab", "", "é"] {
            assert_eq!(delimiter(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bytes() {
        let bytes = |text| parse_bytes(text).ok();
        assert_eq!(bytes("512M"), Some(512 << 20));
        assert_eq!((bytes("7"), bytes("4g")), (Some(7), Some(4 << 30)));
        for four in ["4GB", "4gib", "4096M", "4194304kB"] {
            assert_eq!(bytes(four), Some(4 << 30), "{four}");
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
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn protocols_are_found_by_name_and_family() {
        let name = |name, offline| find_protocol(name, offline).ok().map(|spec| spec.name);
        assert_eq!(name("vole", None), Some("vole"));
        assert_eq!(name("ole", None), Some("ole-lattice"));
        assert_eq!(name("ole", Some("ot")), Some("ole-ot"));
        assert_eq!(
            parse_protocol("auto", None).ok(),
            Some(ProtocolRequest::Auto)
        );
        for (wrong, offline) in [("nonsense", None), ("vole", Some("ot")), ("ole", Some("x"))] {
            assert_eq!(name(wrong, offline), None);
        }
    }
}
