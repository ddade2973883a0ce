//! `vesica offline`, `vesica dealer` and `vesica generator`

mod shown;

use std::time::{Duration, Instant};

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::json;
use vesica::offline::{
    HalfRequest, OfflineStore, OfflineTerms, StoredHalf, attester, deal, fetch_half, generate,
    make_half,
};
use vesica::options::{find_protocol, parse_address, parse_duration, parse_peer_address};
use vesica::{ConnectOptions, Endpoint, Fingerprint, Intent, OfRun, Role};
use vesica_files::many;
use vesica_psi::Origin;
use vesica_session::terms::parse_size;
use vesica_session::{
    Connection, Listener, Name, Registry, Transport, accept_and_connect, connect, rfc3339,
};
use vesica_wire::Channel;

use crate::conditions::Conditions;
use crate::failure::{DATA, Failure, RESOURCE};
use crate::identity::{Identified, IdentityOption};
use crate::log::{self, Level};
use crate::memory::peak_memory_bytes;
use crate::options::{MeetingPoint, MemoryOption, ProgressOption, Ways};
use crate::paths::StoreDirectory;
use crate::patience::Patience;
use crate::progress::Progress;
use crate::signals::Signals;
use crate::stdout::print_line;
use shown::{Attestation, Expectations, PeerShown, Shown};

#[derive(Debug, Args)]
pub(crate) struct Offline {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes a pair of correlations with the peer, or gets this side's half from a dealer or a generator, and stores it
    Make(Box<Make>),
    /// Lists the halves in a store
    Ls(Ls),
    /// Checks that halves are whole and as this identity stored them
    Verify(Named),
    /// Removes halves that no run will take: used copies, and those whose other half is lost
    Rm(Named),
    /// Takes over halves that were moved to another file system, copied or restored
    ///
    /// A half is bound to its file, so that a copy of it, which may have served a run elsewhere, is refused. This binds it
    /// to the file that it is in now. Take over what was moved: if both parties' halves of a pair serve two runs, the
    /// sender learns a fifth or more of the receiver's keys of each run (of keys that are no numbers: hashes, on which it
    /// can test guesses), and the receiver learns nearly all of the sender's. A dishonest peer needs no copy of its own.
    Adopt(Named),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Side {
    /// The side that will receive
    Receiver,
    /// The side that will send
    Sender,
}

impl Side {
    pub(crate) fn role(self) -> Role {
        match self {
            Side::Receiver => Role::Receiver,
            Side::Sender => Role::Sender,
        }
    }
}

#[derive(Debug, Args)]
struct Make {
    /// The protocol whose runs take the pair: ole
    #[arg(long = "for", value_name = "PROTOCOL")]
    protocol: String,
    /// How the pair is made, as in the names ole-NAME
    #[arg(long, value_name = "NAME")]
    offline: Option<String>,
    /// This side's part in the run
    #[arg(long, value_enum)]
    role: Side,
    /// Most distinct keys of the receiver, as 65536 or 2^16
    #[arg(long, value_name = "N", value_parser = parse_size)]
    receiver_size: u64,
    /// Most distinct keys of the sender
    #[arg(long, value_name = "N", value_parser = parse_size)]
    sender_size: u64,
    /// Keys are numbers of so many bits, as with the profiles ipv4 (32) and integer:BITS; otherwise any keys, hashed
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u32).range(1..=64))]
    items: Option<u32>,
    /// Statistical security of the run in bits, 40 to 128
    #[arg(long, value_name = "BITS", default_value_t = 40)]
    lambda: u32,
    /// For runs with --post-quantum: the parties make halves with ML-KEM-768 beside Curve25519
    #[arg(long)]
    post_quantum: bool,
    #[command(flatten)]
    point: MeetingPoint,
    #[command(flatten)]
    who: Identified,
    /// With --offline dealer: the dealer's fingerprint
    #[arg(long, value_name = "FINGERPRINT")]
    dealer: Option<Fingerprint>,
    /// With --offline tee: the fingerprint of this side's generator
    #[arg(long, value_name = "FINGERPRINT")]
    generator: Option<Fingerprint>,
    #[command(flatten)]
    shown: Shown,
    #[command(flatten)]
    peer_shown: PeerShown,
    /// Directory for the half, created if missing
    #[arg(long, value_name = "DIR")]
    offline_store: StoreDirectory,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    progress: ProgressOption,
}

/// A store of halves, and whose.
#[derive(Debug, Args)]
struct Owned {
    /// Directory of halves
    #[arg(long, value_name = "DIR")]
    offline_store: StoreDirectory,
    #[command(flatten)]
    own: IdentityOption,
}

#[derive(Debug, Args)]
struct Ls {
    #[command(flatten)]
    store: Owned,
    /// Print a JSON array instead of text
    #[arg(long)]
    json: bool,
}

/// Some halves of a store.
#[derive(Debug, Args)]
struct Named {
    /// Names of pairs; for `verify` and `adopt` all of this identity if none is given
    #[arg(value_name = "NAME")]
    names: Vec<Name>,
    #[command(flatten)]
    store: Owned,
}

/// What whoever makes halves for others has.
#[derive(Debug, Args)]
struct Serving {
    #[command(flatten)]
    own: IdentityOption,
    #[command(flatten)]
    memory: MemoryOption,
    /// Longest time for all of it, whatever the others do
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "43200", value_parser = parse_duration)]
    deadline: Duration,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    progress: ProgressOption,
}

impl Serving {
    /// Bytes that halves may take.
    fn memory(&self) -> u64 {
        self.memory.bytes().unwrap_or(u64::MAX)
    }

    /// How it waits, for as long as all of it may take.
    fn connect(
        &self,
        progress: &Progress,
        signals: &Signals,
        conditions: Conditions,
    ) -> ConnectOptions {
        ConnectOptions {
            interrupt: signals.interrupt().within(self.deadline),
            ..self.patience.options(progress, signals, conditions)
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Dealer {
    /// Wait for both parties at HOST:PORT; port 0 picks a free one
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: String,
    /// The fingerprint of the side that will receive
    #[arg(long, value_name = "FINGERPRINT")]
    receiver: Fingerprint,
    /// The fingerprint of the side that will send
    #[arg(long, value_name = "FINGERPRINT")]
    sender: Fingerprint,
    /// Show both parties a report of the trusted execution environment that this runs in
    #[arg(long, value_enum)]
    attestation: Option<Attestation>,
    #[command(flatten)]
    serving: Serving,
}

#[derive(Debug, Args)]
pub(crate) struct Generator {
    /// Wait for the party that this serves, and for the other generator unless --connect is given, at HOST:PORT; port 0
    /// picks a free one
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    listen: String,
    /// Connect to the other generator, which listens, at HOST:PORT, or at wss://HOST/PATH behind a web server
    #[arg(long, value_name = "ADDR", value_parser = parse_peer_address)]
    connect: Option<String>,
    #[command(flatten)]
    ways: Ways,
    /// The fingerprint of the party that this serves, and nobody else
    #[arg(long, value_name = "FINGERPRINT")]
    party: Fingerprint,
    /// The fingerprint of the other party's generator
    #[arg(long, value_name = "FINGERPRINT")]
    peer: Fingerprint,
    /// The trusted execution environment that this runs in
    #[arg(long, value_enum)]
    attestation: Attestation,
    #[command(flatten)]
    serving: Serving,
}

impl Dealer {
    /// Whether it shows that its memory is kept from its host.
    pub(crate) fn is_in_hardware(&self) -> bool {
        self.attestation.is_some_and(Attestation::is_of_hardware)
    }
}

impl Generator {
    /// Whether it shows that its memory is kept from its host.
    pub(crate) fn is_in_hardware(&self) -> bool {
        self.attestation.is_of_hardware()
    }
}

pub(crate) fn run(options: &Offline, conditions: Conditions) -> Result<(), Failure> {
    match &options.command {
        Command::Make(make) => make.run(conditions),
        Command::Ls(ls) => ls.run(),
        Command::Verify(named) => named.verify(),
        Command::Rm(named) => named.remove(),
        Command::Adopt(named) => named.adopt(),
    }
}

impl Make {
    fn run(&self, conditions: Conditions) -> Result<(), Failure> {
        let spec = find_protocol(&self.protocol, self.offline.as_deref())?;
        let registry = Registry::standard();
        let terms = OfflineTerms {
            protocol: spec.name.to_owned(),
            lambda: self.lambda,
            key_bits: self.items,
            receiver_size: self.receiver_size,
            sender_size: self.sender_size,
            post_quantum: self.post_quantum,
        };
        let origin = terms.check(registry)?.origin();
        if (origin == Origin::Dealer) != self.dealer.is_some() {
            return Err(Failure::usage("--dealer goes with --offline dealer"));
        }
        if (origin == Origin::Generators) != self.generator.is_some() {
            return Err(Failure::usage("--generator goes with --offline tee"));
        }
        let expected = Expectations::new(origin, &self.shown, &self.peer_shown)?;
        let role = self.role.role();
        let signals = Signals::install()?;
        let identity = self.who.own.load()?;
        let store = OfflineStore::open(&self.offline_store, &identity)?;
        let mut progress = Progress::new(self.progress.progress, signals.clone(), "waiting");
        let options = self.point.ways.of(ConnectOptions {
            beside: self.generator,
            ..self.patience.options(&progress, &signals, conditions)
        })?;
        let transport = Transport::Tls {
            identity: &identity,
            peer: self.dealer.or(self.generator).unwrap_or(self.who.peer),
            intent: match origin {
                Origin::Dealer => Intent::AskDealer,
                Origin::Generators => Intent::AskGenerator,
                _ => Intent::MakePair(role),
            },
        };
        let mut connection = self.meet(&transport, &options, &mut progress)?;
        let start = Instant::now();
        let name = match origin.is_dealt() {
            true => {
                let wanted = HalfRequest {
                    role,
                    terms: &terms,
                    peer: self.who.peer,
                    shown: expected.shown(),
                };
                fetch_half(
                    &mut connection,
                    registry,
                    wanted,
                    &store,
                    &mut OfRun(&mut progress),
                )
            }
            false => make_half(
                &mut connection,
                role,
                registry,
                &terms,
                &store,
                &mut OfRun(&mut progress),
            ),
        }?;
        progress.finish();
        let traffic = connection.channel.traffic();
        let [sent, received] = [
            traffic.iter().map(|phase| phase.bytes_sent).sum::<u64>(),
            traffic.iter().map(|phase| phase.bytes_received).sum(),
        ];
        let stored = format!(
            "stored the {role}'s half of a pair for {}: at most {} and {} keys; {sent} bytes sent, {received} received, {:.1} s",
            terms.protocol,
            terms.receiver_size,
            terms.sender_size,
            start.elapsed().as_secs_f64()
        );
        let fields = json!({
            "name": name.to_string(),
            "phases": traffic,
            "peak_memory_bytes": peak_memory_bytes(),
        });
        log::event("stored", &stored, &fields);
        print_line(&name.to_string())
    }

    fn meet(
        &self,
        transport: &Transport<'_>,
        options: &ConnectOptions,
        progress: &mut Progress,
    ) -> Result<Connection, Failure> {
        let connection = match self.point.endpoint()? {
            Endpoint::Listen(address) => {
                let listener = Listener::bind(&address)?;
                progress.listening(listener.local_addr());
                listener.accept(transport, options)?
            }
            endpoint => {
                progress.connecting(&endpoint);
                connect(&endpoint, transport, options)?
            }
        };
        progress.connected(&connection);
        Ok(connection)
    }
}

/// A half as `--json` shows it.
#[derive(Serialize)]
struct Line<'a> {
    name: String,
    role: Role,
    #[serde(flatten)]
    terms: &'a OfflineTerms,
    peer: Fingerprint,
    dealer: Option<Fingerprint>,
    generators: Option<[Fingerprint; 2]>,
    attested: Option<&'a str>,
    made: String,
    bytes: u64,
    state: &'static str,
}

impl<'a> Line<'a> {
    fn of(half: &'a StoredHalf) -> Line<'a> {
        Line {
            name: half.name.to_string(),
            role: half.role,
            terms: &half.terms,
            peer: half.peer,
            dealer: half.dealer,
            generators: half.generators,
            attested: half.attested.as_deref(),
            made: rfc3339(half.made),
            bytes: half.bytes,
            state: match half {
                _ if !half.is_own => "of another identity",
                _ if half.is_used => "used",
                _ if half.is_copy => "copied",
                _ => "ready",
            },
        }
    }
}

impl Ls {
    fn run(&self) -> Result<(), Failure> {
        let listing = self.store.open()?.list()?;
        let lines: Vec<Line<'_>> = listing.halves.iter().map(Line::of).collect();
        for name in listing.unreadable {
            let problem = format!("{name}.half cannot be read as a half");
            log::say(Level::Warning, &problem);
        }
        if let (files @ 1.., bytes) = listing.unfinished {
            let left = format!(
                "killed runs have left {} of {bytes} bytes in all; the next `vesica offline make` or `rm` removes that",
                many(files as u64, "unfinished file"),
            );
            log::say(Level::Warning, &left);
        }
        if self.json {
            let json = serde_json::to_string(&lines)
                .map_err(|e| Failure::new(RESOURCE, format!("the list is not JSON: {e}")))?;
            return print_line(&json);
        }
        for line in lines {
            let keys = match line.terms.key_bits {
                Some(bits) => format!("keys of {bits} bits"),
                None => "any keys".to_owned(),
            };
            let dealer = line.dealer.map(|dealer| format!(", dealt by {dealer}"));
            let generators = line
                .generators
                .map(|[own, other]| format!(", generated by {own} and {other}"));
            let attested = line.attested.map(|attested| format!(" in {attested}"));
            print_line(&format!(
                "{}  {}  {} of {}, {} and {} {keys}, lambda {}, {} bytes, {}, with {}{}{}",
                line.name,
                line.state,
                line.role,
                line.terms.protocol,
                line.terms.receiver_size,
                line.terms.sender_size,
                line.terms.lambda,
                line.bytes,
                line.made,
                line.peer,
                dealer.or(generators).unwrap_or_default(),
                attested.unwrap_or_default(),
            ))?;
        }
        Ok(())
    }
}

impl Named {
    fn verify(&self) -> Result<(), Failure> {
        let store = self.store.open()?;
        let listing = store.list()?;
        let own = listing.halves.iter().filter(|half| half.is_own);
        let all = own.map(|half| half.name).chain(listing.unreadable);
        let names = match self.names.is_empty() {
            true => all.collect(),
            false => self.names.clone(),
        };
        judge(&names, |name| {
            let is_used = |half: &StoredHalf| half.name == name && half.is_used;
            match store.verify(name) {
                _ if listing.halves.iter().any(is_used) => {
                    Err(Failure::new(DATA, "was used before"))
                }
                Ok(()) => Ok("ok"),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn adopt(&self) -> Result<(), Failure> {
        let store = self.store.open()?;
        let names = match self.names.is_empty() {
            true => {
                let halves = store.list()?.halves.into_iter();
                let copied = |half: &StoredHalf| half.is_own && half.is_copy && !half.is_used;
                halves.filter(copied).map(|half| half.name).collect()
            }
            false => self.names.clone(),
        };
        log::say(Level::Warning, ADOPTION);
        judge(&names, |name| match store.adopt(name) {
            Ok(true) => Ok("adopted"),
            Ok(false) => Ok("is where it was stored"),
            Err(error) => Err(error.into()),
        })
    }

    fn remove(&self) -> Result<(), Failure> {
        if self.names.is_empty() {
            let line = "`vesica offline rm` needs the names of what to remove";
            return Err(Failure::usage(line).hint("`vesica offline ls` lists the names"));
        }
        let store = self.store.open()?;
        Ok(self.names.iter().try_for_each(|name| store.remove(*name))?)
    }
}

/// What whoever adopts halves has to know.
const ADOPTION: &str = "an adopted half must serve no run from any other copy of the store, before or after. A half that \
    serves two runs shows a sender a fifth or more of the receiver's keys of each, or their hashes, and a receiver nearly \
    all of the sender's";

/// Prints a verdict on each half; fails if one is bad. Where a limit of this machine is in the way, there is none.
fn judge(
    names: &[Name],
    mut verdict: impl FnMut(Name) -> Result<&'static str, Failure>,
) -> Result<(), Failure> {
    let mut bad = 0;
    for name in names {
        match verdict(*name) {
            Ok(good) => print_line(&format!("{name}  {good}"))?,
            Err(limit) if limit.code == RESOURCE => return Err(limit),
            Err(problem) => {
                bad += 1;
                print_line(&format!("{name}  {}", problem.line))?;
            }
        }
    }
    match bad {
        0 => Ok(()),
        _ => {
            let line = format!("{bad} of {} halves cannot be used", names.len());
            Err(Failure::new(DATA, line))
        }
    }
}

impl Owned {
    /// A store that exists.
    fn open(&self) -> Result<OfflineStore, Failure> {
        let (directory, identity) = (&self.offline_store, self.own.load()?);
        if !directory.is_dir() {
            let line = format!("{}: there is no such directory", directory.display());
            return Err(Failure::new(DATA, line));
        }
        Ok(OfflineStore::open(directory, &identity)?)
    }
}

/// The connections to those at whose ends halves are stored, or to one and the other generator.
fn both(connections: Vec<Connection>, progress: &mut Progress) -> Result<[Connection; 2], Failure> {
    let connections: [Connection; 2] = connections
        .try_into()
        .map_err(|_| Failure::usage("there are two others"))?;
    let each = connections.iter();
    each.for_each(|connection| progress.connected(connection));
    Ok(connections)
}

/// What was made, and how long it took.
fn made(terms: &OfflineTerms, start: Instant) -> String {
    format!(
        "for {}, at most {} and {} keys, in {:.1} s",
        terms.protocol,
        terms.receiver_size,
        terms.sender_size,
        start.elapsed().as_secs_f64()
    )
}

pub(crate) fn dealer(options: &Dealer, conditions: Conditions) -> Result<(), Failure> {
    if options.receiver == options.sender {
        return Err(Failure::usage("--receiver and --sender are the same party"));
    }
    let signals = Signals::install()?;
    let identity = options.serving.own.load()?;
    let attester = match options.attestation {
        Some(attestation) => {
            attestation.warn();
            Some(attester(attestation.platform())?)
        }
        None => None,
    };
    let mut progress = Progress::new(
        options.serving.progress.progress,
        signals.clone(),
        "waiting",
    );
    let connecting = ConnectOptions {
        // A party has nothing to compute: it asks, takes its half, and stores it.
        patience: options.serving.patience.timeout,
        ..options.serving.connect(&progress, &signals, conditions)
    };
    let listener = Listener::bind(&options.listen)?;
    progress.listening(listener.local_addr());
    let parties = [options.receiver, options.sender];
    let connections = listener.accept_all(&identity, &parties, Intent::Deal, &connecting)?;
    let mut connections = both(connections, &mut progress)?;
    let start = Instant::now();
    let (registry, memory) = (Registry::standard(), options.serving.memory());
    let terms = deal(&mut connections, registry, memory, attester.as_deref())?;
    progress.finish();
    let dealt = format!("dealt a pair {}", made(&terms, start));
    let fields = json!({"peak_memory_bytes": peak_memory_bytes()});
    log::event("dealt", &dealt, &fields);
    Ok(())
}

pub(crate) fn generator(options: &Generator, conditions: Conditions) -> Result<(), Failure> {
    if options.party == options.peer {
        return Err(Failure::usage("--party and --peer are the same"));
    }
    let signals = Signals::install()?;
    let identity = options.serving.own.load()?;
    options.attestation.warn();
    let attester = attester(options.attestation.platform())?;
    let mut progress = Progress::new(
        options.serving.progress.progress,
        signals.clone(),
        "waiting",
    );
    let connecting = options.ways.of(ConnectOptions {
        beside: Some(options.party),
        ..options.serving.connect(&progress, &signals, conditions)
    })?;
    let listener = Listener::bind(&options.listen)?;
    progress.listening(listener.local_addr());
    let (intent, awaited) = (Intent::Generate, [options.party, options.peer]);
    let connections = match &options.connect {
        None => {
            options.ways.of_nobody()?;
            listener.accept_all(&identity, &awaited, intent, &connecting)
        }
        Some(address) => {
            let endpoint = Endpoint::Connect(address.clone());
            progress.connecting(&endpoint);
            accept_and_connect(listener, &endpoint, &identity, awaited, intent, &connecting)
        }
    };
    let mut connections = both(connections?, &mut progress)?;
    let start = Instant::now();
    let (registry, memory) = (Registry::standard(), options.serving.memory());
    let terms = generate(&mut connections, registry, memory, &*attester)?;
    progress.finish();
    let phases = connections[1].channel.traffic();
    let bytes: u64 = phases.iter().map(|p| p.bytes_sent + p.bytes_received).sum();
    let generated = format!(
        "generated a half {}; {bytes} bytes with the other generator",
        made(&terms, start)
    );
    let fields = json!({"phases": phases, "peak_memory_bytes": peak_memory_bytes()});
    log::event("generated", &generated, &fields);
    Ok(())
}
