//! `vesica doctor`

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::json;
use vesica::{ConnectOptions, Endpoint, Identity, KeySpec, Party};
use vesica_files::{free_bytes, memory_limit};
use vesica_session::{
    Address, BoundListener, Error as SessionError, Intent, Introduction, Listener, NoConnection,
    OnIncident, Transport, addresses, connect, introduce, measure,
};
use vesica_wire::Error as WireError;

use crate::args::Doctor;
use crate::check::{Said, look};
use crate::failure::{DATA, Failure, InCommand, RESOURCE, one_line};
use crate::log;
use crate::signals::{self, Signals};
use crate::stdout::{check_open, print_line};

/// Most characters of a line.
const MOST_SHOWN: usize = 500;
/// Most addresses of a name that are shown.
const MOST_ADDRESSES: usize = 8;
/// Seconds by which two clocks may differ.
const CLOCKS: u64 = 300;
/// Memory and space below which a run of some size is slow or fails.
const LITTLE: u64 = 512 << 20;

/// What was found of one thing that a run needs.
#[derive(Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    line: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// With which a run would end.
    exit_code: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Warning,
    Failed,
}

/// All that was found.
#[derive(Serialize)]
struct Findings {
    exit_code: u8,
    findings: Vec<Finding>,
    #[serde(skip)]
    is_json: bool,
}

impl Findings {
    fn add(&mut self, finding: Finding) -> Result<(), Failure> {
        let finding = Finding {
            line: shown(&finding.line),
            hint: finding.hint.as_deref().map(shown),
            ..finding
        };
        if finding.state == State::Failed && self.exit_code == 0 {
            self.exit_code = finding.exit_code;
        }
        if !self.is_json {
            let state = match finding.state {
                State::Ok => "ok",
                State::Warning => "warning",
                State::Failed => "failed",
            };
            print_line(&format!("{state:<8} {:<11} {}", finding.what, finding.line))?;
            if let Some(hint) = &finding.hint {
                print_line(&format!("{:>20} {hint}", "hint:"))?;
            }
        }
        self.findings.push(finding);
        Ok(())
    }

    fn ok(&mut self, what: &'static str, line: impl Into<String>) -> Result<(), Failure> {
        self.add(Finding {
            what,
            state: State::Ok,
            line: line.into(),
            hint: None,
            exit_code: 0,
        })
    }

    fn warn(
        &mut self,
        what: &'static str,
        line: impl Into<String>,
        hint: &str,
    ) -> Result<(), Failure> {
        self.add(Finding {
            what,
            state: State::Warning,
            line: line.into(),
            hint: Some(hint.to_owned()),
            exit_code: 0,
        })
    }

    fn fail(&mut self, what: &'static str, failure: impl Into<Failure>) -> Result<(), Failure> {
        let Failure { code, line, hint } = signals::cause(failure.into());
        self.add(Finding {
            what,
            state: State::Failed,
            line,
            hint,
            exit_code: code,
        })
    }

    fn amount(
        &mut self,
        what: &'static str,
        bytes: u64,
        line: String,
        hint: &str,
    ) -> Result<(), Failure> {
        match bytes < LITTLE {
            true => self.warn(what, line, hint),
            false => self.ok(what, line),
        }
    }
}

/// Whatever the peer has said of it: one line, of which control characters are no part, and no page.
fn shown(text: &str) -> String {
    one_line(text).chars().take(MOST_SHOWN).collect()
}

pub(crate) fn run(options: &Doctor) -> Result<(), Failure> {
    check_open()?;
    let mut found = Findings {
        exit_code: 0,
        findings: Vec::new(),
        is_json: options.side.json,
    };
    let signals = Signals::install()?;
    machine(&mut found)?;
    let own = own_side(options)?;
    match options.who.own.load() {
        Err(failure) => found.fail("identity", failure)?,
        Ok(identity) => {
            let fingerprint = identity.fingerprint();
            match options.who.check(&identity) {
                Err(failure) => found.fail("identity", failure)?,
                Ok(()) => {
                    found.ok("identity", format!("usable: {fingerprint}"))?;
                    let said = own.as_ref().map(|(said, ..)| said);
                    peer(options, &identity, said, &mut found, &signals)?;
                }
            }
        }
    }
    // After the peer was met: from the time it takes, that could tell how large the table is.
    table(options, own.as_ref(), &mut found, &signals)?;
    if found.is_json {
        let json = serde_json::to_string(&found)
            .map_err(|e| Failure::new(RESOURCE, format!("the findings are not JSON: {e}")))?;
        print_line(&json)?;
    }
    let failed = |of: &&Finding| of.state == State::Failed;
    let count = found.findings.iter().filter(failed).count();
    match found.findings.iter().find(failed) {
        None => Ok(()),
        Some(first) => {
            let line = match count {
                1 => format!("{}: {}", first.what, first.line),
                _ => format!(
                    "{count} things stand in the way of a run, {} first",
                    first.what
                ),
            };
            Err(Failure::new(first.exit_code, line))
        }
    }
}

/// What this machine has.
fn machine(found: &mut Findings) -> Result<(), Failure> {
    if let Some(limit) = memory_limit() {
        let line = format!("{}, by the limit of {}", size(limit.bytes), limit.of);
        let hint =
            "raise that limit, or give --memory, with which larger sets run in buckets on the disk";
        found.amount("memory", limit.bytes, line, hint)?;
    }
    let place = std::env::temp_dir();
    if let Some(free) = free_bytes(&place) {
        let line = format!("{} free in {}", size(free), place.display());
        let hint = "TMPDIR or --work-dir names another place for what does not fit into memory";
        found.amount("disk", free, line, hint)?;
    }
    Ok(())
}

/// What this side says of a run, if it has a key.
fn own_side(options: &Doctor) -> Result<Option<(Said, Party, KeySpec)>, Failure> {
    let side = &options.side;
    if !side.table.has_key() {
        return Ok(None);
    }
    // What the options say alone is as wrong here as in a run.
    let key = side.table.key()?;
    let party = side.party()?;
    party.check(side.role(), &key)?;
    Ok(Some((Said::of(&party, &key), party, key)))
}

/// Looks at the table, if there is one.
fn table(
    options: &Doctor,
    own: Option<&(Said, Party, KeySpec)>,
    found: &mut Findings,
    signals: &Signals,
) -> Result<(), Failure> {
    let side = &options.side;
    if !side.table.is_given() {
        return Ok(());
    }
    let Some((_, party, key)) = own else {
        let failure = Failure::usage("it is named without its key");
        return found.fail("table", failure.hint("give --key or --match too"));
    };
    let checked = match look(side, party, key, 0, signals.clone()) {
        Err(failure) => return found.fail("table", failure),
        Ok(checked) => checked,
    };
    let check = checked.check.spelled(&InCommand);
    match checked.refusal {
        Some(refusal) => found.fail("table", refusal)?,
        None => found.ok("table", "readable; `vesica check` tells more of it")?,
    }
    if !found.is_json {
        for line in check.to_string().trim_end().lines() {
            print_line(&format!("{:20} {line}", ""))?;
        }
    }
    Ok(())
}

/// Meets the peer, and what it has to say.
fn peer(
    options: &Doctor,
    identity: &Identity,
    said: Option<&Said>,
    found: &mut Findings,
    signals: &Signals,
) -> Result<(), Failure> {
    let transport = Transport::Tls {
        identity,
        peer: options.who.peer(),
        intent: Intent::Examine,
    };
    let connecting = options.point.ways.of(ConnectOptions {
        also: options.who.also(),
        wait: options.wait,
        interrupt: signals.interrupt().clone(),
        on_incident: OnIncident::default(),
        ..ConnectOptions::default()
    })?;
    let endpoint = match options.point.endpoint()? {
        Endpoint::Listen(address) => match Listener::bind(&address) {
            Err(error) => return found.fail("port", error),
            Ok(listener) => {
                let address = listener.local_addr().to_string();
                let line = format!("listening on {address}");
                log::event("listening", &line, &json!({"address": address}));
                Endpoint::Bound(BoundListener::new(listener))
            }
        },
        Endpoint::Connect(address) => {
            let place: Address = address.parse()?;
            if !way(place.place(), &connecting, found)? {
                return Ok(());
            }
            Endpoint::Connect(address)
        }
        other => other,
    };
    let began = Instant::now();
    let mut connection = match connect(&endpoint, &transport, &connecting) {
        Ok(connection) => connection,
        Err(error) => return not_met(error, found),
    };
    let through = match &connection.proxy {
        Some(proxy) => format!(" through {proxy}"),
        None => String::new(),
    };
    let took = milliseconds(began.elapsed());
    let line = match endpoint {
        Endpoint::Connect(_) => format!("the peer is reached{through}, after {took}"),
        _ => "the peer has come".to_owned(),
    };
    found.ok("port", line)?;
    let which = match connection.peer {
        Some(met) if met != options.who.peer() => format!("the other key of --peer, {met}"),
        _ => "the key of --peer".to_owned(),
    };
    found.ok("peer", format!("it holds {which}, and takes this side's"))?;
    let text = match said {
        Some(said) => serde_json::to_vec(said)
            .map_err(|e| Failure::new(RESOURCE, format!("the terms are not JSON: {e}")))?,
        None => Vec::new(),
    };
    let theirs = match introduce(&mut connection, env!("CARGO_PKG_VERSION"), &text) {
        Err(error) => return found.fail("version", error),
        Ok(theirs) => theirs,
    };
    introduced(&theirs, said, found)?;
    match measure(&mut connection) {
        Err(error) => found.fail("link", error),
        Ok(link) => {
            found.ok("round trip", milliseconds(link.round_trip))?;
            let [to, from] = [link.to_peer, link.from_peer].map(|bytes| rate(8.0 * bytes as f64));
            found.ok("bandwidth", format!("{to} to the peer, {from} from it"))
        }
    }
}

/// Which way leads to the address; whether one does.
fn way(address: &str, connecting: &ConnectOptions, found: &mut Findings) -> Result<bool, Failure> {
    let proxy = match connecting.proxies.of(address) {
        Ok(proxy) => proxy,
        Err(error) => {
            found.fail("proxy", error)?;
            return Ok(false);
        }
    };
    let looked_up = match &proxy {
        None => address.to_owned(),
        Some(proxy) => {
            found.ok("proxy", proxy.to_string())?;
            proxy.address().to_owned()
        }
    };
    match addresses(&looked_up, connecting) {
        Ok(addresses) => {
            let all: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
            let first = &all[..all.len().min(MOST_ADDRESSES)];
            let more = match all.len() - first.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            found.ok("name", format!("{looked_up} is {}{more}", first.join(", ")))?;
            Ok(true)
        }
        Err(error) => {
            let hint = "check the spelling, and the name server of this machine; an address in numbers needs neither";
            found.fail("name", Failure::from(error).hint(hint))?;
            Ok(false)
        }
    }
}

/// Why the peer was not met, or not to examine the link.
fn not_met(error: SessionError, found: &mut Findings) -> Result<(), Failure> {
    use NoConnection::{Certificate, NoWebSocket, Proxy, ProxyPassword, ProxyRefuses};
    match &error {
        SessionError::Connect {
            cause: Proxy | ProxyRefuses | ProxyPassword,
            ..
        } => found.fail("proxy", error),
        SessionError::Connect {
            cause: Certificate | NoWebSocket,
            ..
        } => found.fail("web server", error),
        SessionError::WrongPeer { .. } | SessionError::RefusedByPeer { .. } => {
            found.fail("peer", error)
        }
        SessionError::Run(WireError::ContractDiffers {
            field: "what to do",
            theirs,
            ..
        }) => {
            let line =
                format!("it holds the key of --peer, takes this side's, and has come {theirs}");
            found.ok("peer", line)?;
            let hint = "have the peer call `vesica doctor` too, with the options of its run";
            found.warn(
                "terms",
                "not compared, since the peer is in a run; nor is the link measured",
                hint,
            )
        }
        SessionError::Run(WireError::ContractDiffers { .. }) => found.fail("version", error),
        _ => found.fail("port", error),
    }
}

/// What the peer has said of itself, beside what this side wants.
fn introduced(
    peer: &Introduction,
    said: Option<&Said>,
    found: &mut Findings,
) -> Result<(), Failure> {
    let (ours, theirs) = (env!("CARGO_PKG_VERSION"), &peer.version);
    let line = format!("{ours} here, {theirs} there; they go together");
    found.ok("version", line)?;
    let apart = peer.clock.unsigned_abs();
    let line = format!("{apart} s apart");
    match apart > CLOCKS {
        true => found.warn(
            "clock",
            line,
            "set both clocks: tasks' keys and reports of enclaves expire by them",
        )?,
        false => found.ok("clock", line)?,
    }
    let (Some(said), false) = (said, peer.text.is_empty()) else {
        let hint =
            "give --key, --normalize and the terms on both sides, as for the run, to compare them";
        return found.warn("terms", "not compared", hint);
    };
    let Some(theirs) = Said::parse(&peer.text) else {
        return found.fail(
            "terms",
            Failure::new(DATA, "the peer's are none, or of another version"),
        );
    };
    let differences = said.differences(&theirs);
    if differences.is_empty() {
        return found.ok("terms", "both sides want the same");
    }
    for difference in differences {
        found.fail("terms", difference)?;
    }
    Ok(())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..=0xfff_ffff => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn rate(bits: f64) -> String {
    match bits {
        1e9.. => format!("{:.1} Gb/s", bits / 1e9),
        _ => format!("{:.1} Mb/s", bits / 1e6),
    }
}
