//! One party of a benchmark, or the dealer: a child process that lives through all runs, so that its peak memory
//! means something.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;
use vesica::terms::{KEY_BITS, LAMBDA, MIN_SIZE, NORMALIZATION, REVEAL};
use vesica::{
    Attester, ConnectOptions, Endpoint, Expected, Fingerprint, HalfRequest, Identity, Link,
    OfflineStore, OfflineTerms, Platform, ProtocolRequest, Registry, Report, Reveal, Role,
    Simulated, deal, fetch_half,
};
use vesica_psi::{Origin, indices_vartime};
use vesica_session::{
    Connection, HalfSource, Job, Listener, MemorySet, NoProgress, RepeatedKeys, Transport,
    ValueTerms, connect, run_set, with_threads,
};
use vesica_wire::{Channel, PhaseTraffic};

use super::inputs;
use super::machine::peak_memory_bytes;
use super::talk::{Dealing, Done, Order, Part, Say, Setup, Task, write_line};
use crate::args::Carrier;
use crate::failure::{Failure, NETWORK, RESOURCE};

/// A benchmark may compute for long, and both parties are known to be alive.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Obeys the parent until its input ends.
pub(crate) fn run() -> Result<(), Failure> {
    let orders = listen_to_parent();
    match serve(&orders) {
        Ok(()) => Ok(()),
        Err(Failure { code, line, hint }) => {
            say(&Say::Failed { code, line, hint })?;
            // Until the parent has read it and ends us.
            let _ = orders.recv();
            Ok(())
        }
    }
}

fn serve(orders: &Receiver<String>) -> Result<(), Failure> {
    let identity = Identity::generate()?;
    say(&Say::Here {
        fingerprint: identity.fingerprint().to_string(),
    })?;
    match hear(orders)? {
        None => Ok(()),
        Some(Task::Run(setup)) => {
            vesica_kernels::limit(setup.backend.backend());
            let party = Party::new(setup, identity)?;
            while let Some(order) = hear::<Order>(orders)? {
                let (place, dealer) = match order {
                    Order::Listen { dealer } => (Place::Listen(listen_aloud()?), dealer),
                    Order::Connect { address, dealer } => (Place::Connect(address), dealer),
                };
                say(&Say::Done(party.run(place, dealer)?))?;
            }
            Ok(())
        }
        Some(Task::Deal(dealing)) => {
            vesica_kernels::limit(dealing.backend.backend());
            while hear::<Order>(orders)?.is_some() {
                dealing.run(&identity, listen_aloud()?)?;
                let peak_memory_bytes = peak_memory_bytes();
                say(&Say::Dealt { peak_memory_bytes })?;
            }
            Ok(())
        }
    }
}

/// Listens, and tells the parent where.
fn listen_aloud() -> Result<Listener, Failure> {
    let listener = Listener::bind("127.0.0.1:0")?;
    say(&Say::Listening {
        address: listener.local_addr().to_string(),
    })?;
    Ok(listener)
}

/// Reads the parent's lines on a thread of its own: should the parent vanish in the middle of a run, this
/// process must not run on without it.
fn listen_to_parent() -> Receiver<String> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        for line in stdin().lock().lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
        drop(to);
        // The other thread ends the process in an orderly way if it is only waiting.
        std::thread::sleep(Duration::from_millis(500));
        std::process::exit(i32::from(NETWORK));
    });
    from
}

fn hear<T: serde::de::DeserializeOwned>(orders: &Receiver<String>) -> Result<Option<T>, Failure> {
    match orders.recv() {
        Ok(line) => serde_json::from_str(&line).map(Some).map_err(|e| {
            Failure::usage(format!("not an order of a benchmark: {e}"))
                .hint("this command is for `vesica bench` alone")
        }),
        Err(_) => Ok(None),
    }
}

fn say(what: &Say) -> Result<(), Failure> {
    let mut out = stdout().lock();
    write_line(&mut out, what)
        .and_then(|()| out.flush())
        .map_err(|e| Failure::new(RESOURCE, format!("the benchmark's parent is gone: {e}")))
}

/// Where the two parties meet.
pub(super) enum Place {
    Listen(Listener),
    Connect(String),
}

fn options(network: &str) -> Result<ConnectOptions, Failure> {
    Ok(ConnectOptions {
        wait: PATIENCE,
        timeout: PATIENCE,
        link: Link::from_name(network)
            .ok_or_else(|| Failure::usage(format!("no network is called {network}")))?,
        ..ConnectOptions::default()
    })
}

fn fingerprint(text: &str) -> Result<Fingerprint, Failure> {
    text.parse().map_err(|e| Failure::usage(format!("{e}")))
}

impl Dealing {
    /// Deals one pair.
    pub(super) fn run(&self, identity: &Identity, listener: Listener) -> Result<(), Failure> {
        let [receiver, sender] = &self.parties;
        let parties = [fingerprint(receiver)?, fingerprint(sender)?];
        let connections = listener.accept_all(identity, &parties, &options(&self.network)?)?;
        let mut connections: [Connection; 2] = connections
            .try_into()
            .map_err(|_| Failure::usage("a dealer has two parties"))?;
        with_threads(Some(self.threads), || {
            let attester = self.attested.then_some(&Simulated as &dyn Attester);
            deal(&mut connections, Registry::standard(), u64::MAX, attester)
        })??;
        Ok(())
    }
}

/// A party of all runs.
pub(super) struct Party {
    setup: Setup,
    identity: Identity,
    /// Where the halves from a dealer are stored.
    halves: Option<(TempDir, OfflineStore)>,
}

impl Party {
    pub(super) fn new(setup: Setup, identity: Identity) -> Result<Party, Failure> {
        let store = || {
            let directory = TempDir::new()
                .map_err(|e| Failure::new(RESOURCE, format!("no directory for halves: {e}")))?;
            let store = OfflineStore::open(directory.path(), &identity)?;
            Ok::<_, Failure>((directory, store.with_attested(setup.shown())))
        };
        let halves = setup.dealer.as_ref().map(|_| store()).transpose()?;
        Ok(Party {
            setup,
            identity,
            halves,
        })
    }

    /// One run, with a half from the dealer at this address.
    pub(super) fn run(&self, place: Place, dealer: Option<String>) -> Result<Done, Failure> {
        let dealt = dealer.map(|address| self.fetch(address)).transpose()?;
        one_run(
            &self.setup,
            self.meet(place)?,
            self.halves.as_ref().map(|(_, store)| store),
            dealt,
        )
    }

    fn meet(&self, place: Place) -> Result<Connection, Failure> {
        let transport = match self.setup.carrier {
            Carrier::Tcp => Transport::PlaintextForBenchmarksOnly,
            Carrier::Tls => self.tls(&self.setup.peer)?,
        };
        let options = options(&self.setup.network)?;
        Ok(match place {
            Place::Listen(listener) => listener.accept(&transport, &options)?,
            Place::Connect(address) => connect(&Endpoint::Connect(address), &transport, &options)?,
        })
    }

    fn tls(&self, peer: &str) -> Result<Transport<'_>, Failure> {
        Ok(Transport::Tls {
            identity: &self.identity,
            peer: fingerprint(peer)?,
        })
    }

    /// Gets a half and stores it.
    fn fetch(&self, address: String) -> Result<PhaseTraffic, Failure> {
        let setup = &self.setup;
        let no_dealer = || Failure::usage("this benchmark has no dealer");
        let (_, store) = self.halves.as_ref().ok_or_else(no_dealer)?;
        let dealer = setup.dealer.as_deref().ok_or_else(no_dealer)?;
        let (address, options) = (Endpoint::Connect(address), options(&setup.network)?);
        let mut connection = connect(&address, &self.tls(dealer)?, &options)?;
        let terms = OfflineTerms {
            protocol: setup.protocol.clone(),
            lambda: setup.terms.get(&LAMBDA),
            key_bits: setup.terms.get(&KEY_BITS),
            receiver_size: setup.receiver_size,
            sender_size: setup.sender_size,
        };
        let registry = Registry::standard();
        let attested = is_attested(terms.check(registry)?.origin())
            .then(|| Expected::new(Simulated, Simulated::MEASUREMENT));
        let wanted = HalfRequest {
            role: setup.role(),
            terms: &terms,
            peer: fingerprint(&setup.peer)?,
            attested: attested.as_ref(),
        };
        fetch_half(&mut connection, registry, wanted, store, &mut NoProgress)?;
        let traffic = connection.channel.traffic();
        Ok(PhaseTraffic {
            phase: "dealing".into(),
            bytes_sent: traffic.iter().map(|phase| phase.bytes_sent).sum(),
            bytes_received: traffic.iter().map(|phase| phase.bytes_received).sum(),
            seconds: traffic.iter().map(|phase| phase.seconds).sum(),
        })
    }
}

/// Whether a dealer shows what it runs; here by a simulation, which costs what hashing a request costs.
pub(super) fn is_attested(origin: Origin) -> bool {
    origin == Origin::AttestedDealer
}

impl Setup {
    /// What its dealer has shown, if it shows something.
    fn shown(&self) -> Option<String> {
        let protocol = Registry::standard().get(&self.protocol)?;
        is_attested(protocol.offline()?.origin()).then(|| Platform::Simulated.to_string())
    }

    fn role(&self) -> Role {
        match self.part {
            Part::Receiver => Role::Receiver,
            Part::Sender => Role::Sender,
        }
    }
}

fn one_run(
    setup: &Setup,
    connection: Connection,
    halves: Option<&OfflineStore>,
    dealt: Option<PhaseTraffic>,
) -> Result<Done, Failure> {
    let (digests, numbers) = inputs::keys(setup);
    let role = setup.role();
    // A sum is that of the sender's values, which takes more than one of the receiver's.
    let mut terms = setup.terms.clone();
    let reveal = terms.get(&REVEAL);
    if reveal == Reveal::ThresholdMatches && terms.get(&MIN_SIZE) == 0 {
        // One that is just met, if anything matches.
        terms.set(&MIN_SIZE, inputs::shared(setup).max(1));
    }
    terms.set(&NORMALIZATION, vec!["exact/1".into()]);
    let has_values = match reveal {
        Reveal::Sum => role == Role::Sender,
        reveal => reveal == Reveal::InnerProduct,
    };
    let values = has_values.then(|| inputs::values(setup));
    let job = Job {
        protocol: ProtocolRequest::named(&setup.protocol),
        terms,
        values: has_values.then_some(ValueTerms {
            bound: inputs::VALUE_BOUND.unsigned_abs(),
            scale: 0,
            repeated: RepeatedKeys::Refuse,
        }),
        offline: halves.map(|store| Arc::new(store.clone()) as Arc<dyn HalfSource>),
        ..Job::new(role, Vec::new())
    };
    let mut set = MemorySet::new(digests, values.as_deref())?;
    if let Some(numbers) = &numbers {
        set = set.with_numbers(numbers)?;
    }
    let report = with_threads(Some(setup.threads), || {
        run_set(connection, &job, &mut set, &mut NoProgress)
    })??;
    check(setup, set, &report)?;
    // From the agreed contract to the result.
    let around = |phase: &PhaseTraffic| ["contract", "done"].contains(&phase.phase.as_str());
    let run: Vec<_> = report.phases.iter().filter(|p| !around(p)).collect();
    let phases: Vec<PhaseTraffic> = dealt.iter().chain(run.iter().copied()).cloned().collect();
    let offline =
        |phase: &&PhaseTraffic| ["dealing", "prepare", "offline"].contains(&phase.phase.as_str());
    Ok(Done {
        total: phases.iter().map(|phase| phase.seconds).sum(),
        offline: phases
            .iter()
            .filter(offline)
            .map(|phase| phase.seconds)
            .sum(),
        bytes_sent: run.iter().map(|phase| phase.bytes_sent).sum(),
        bytes_received: run.iter().map(|phase| phase.bytes_received).sum(),
        bytes_dealt: dealt.map(|dealt| dealt.bytes_received),
        phases,
        matches: (role == Role::Receiver).then(|| inputs::shared(setup)),
        peak_memory_bytes: peak_memory_bytes(),
    })
}

/// Compares a run's result with the known one, on the side that learns it. Neither side can check shares alone.
fn check(setup: &Setup, set: MemorySet<'_>, report: &Report) -> Result<(), Failure> {
    let reveal = setup.terms.get(&REVEAL);
    let least = report.contract.get(&MIN_SIZE);
    let is_below = inputs::counted(setup) < least;
    let right = match setup.part {
        _ if reveal == Reveal::Shares => set.into_shares().is_some(),
        Part::Sender => set.matched().is_none() && report.value.is_none(),
        Part::Receiver if is_below => report.below == Some(least) && report.value.is_none(),
        Part::Receiver if reveal.is_matches() => {
            let found = set.matched().map(indices_vartime);
            report.below.is_none() && found == Some(inputs::expected(setup))
        }
        Part::Receiver => {
            let value = report.value.map(|value| value.units);
            value.is_some() && value == inputs::expected_value(setup)
        }
    };
    match right {
        true => Ok(()),
        false => Err(Failure::new(RESOURCE, "the result is wrong")),
    }
}
