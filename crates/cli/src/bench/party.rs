//! One party of a benchmark: a child process that lives through all runs, so that its peak memory means
//! something.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use vesica::{ConnectOptions, Endpoint, Identity, Link, ProtocolRequest, Report, Reveal, Role};
use vesica_psi::indices_vartime;
use vesica_session::{
    Connection, Job, Listener, MemorySet, NoProgress, RepeatedKeys, Transport, ValueTerms, connect,
    run_set, with_threads,
};
use vesica_wire::PhaseTraffic;

use super::inputs;
use super::machine::peak_memory_bytes;
use super::talk::{Done, Order, Part, Say, Setup, write_line};
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
    let Some(setup) = hear::<Setup>(orders)? else {
        return Ok(());
    };
    vesica_kernels::limit(setup.backend.backend());
    while let Some(order) = hear::<Order>(orders)? {
        let place = match order {
            Order::Listen => {
                let listener = Listener::bind("127.0.0.1:0")?;
                say(&Say::Listening {
                    address: listener.local_addr().to_string(),
                })?;
                Place::Listen(listener)
            }
            Order::Connect { address } => Place::Connect(address),
        };
        let connection = meet(&setup, &identity, place)?;
        let done = one_run(&setup, connection)?;
        say(&Say::Done(done))?;
    }
    Ok(())
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

pub(super) fn meet(
    setup: &Setup,
    identity: &Identity,
    place: Place,
) -> Result<Connection, Failure> {
    let transport = match setup.carrier {
        Carrier::Tcp => Transport::PlaintextForBenchmarksOnly,
        Carrier::Tls => Transport::Tls {
            identity,
            peer: setup
                .peer
                .parse()
                .map_err(|e| Failure::usage(format!("{e}")))?,
        },
    };
    let options = ConnectOptions {
        wait: PATIENCE,
        timeout: PATIENCE,
        link: Link::from_name(&setup.network)
            .ok_or_else(|| Failure::usage(format!("no network is called {}", setup.network)))?,
        ..ConnectOptions::default()
    };
    Ok(match place {
        Place::Listen(listener) => listener.accept(&transport, &options)?,
        Place::Connect(address) => connect(&Endpoint::Connect(address), &transport, &options)?,
    })
}

pub(super) fn one_run(setup: &Setup, connection: Connection) -> Result<Done, Failure> {
    let digests = inputs::digests(setup);
    let role = match setup.part {
        Part::Receiver => Role::Receiver,
        Part::Sender => Role::Sender,
    };
    // A sum is that of the sender's values, which takes more than one of the receiver's.
    let has_values = match setup.reveal {
        Reveal::Sum => role == Role::Sender,
        reveal => reveal == Reveal::InnerProduct,
    };
    let values = has_values.then(|| inputs::values(setup));
    let job = Job {
        protocol: ProtocolRequest::named(&setup.protocol),
        security: setup.security,
        reveal: setup.reveal,
        min_size: min_size(setup),
        values: has_values.then_some(ValueTerms {
            bound: inputs::VALUE_BOUND.unsigned_abs(),
            scale: 0,
            repeated: RepeatedKeys::Refuse,
        }),
        key_bits: setup.key_bits,
        ..Job::new(role, vec!["exact/1".into()])
    };
    let mut set = MemorySet::new(&digests, values.as_deref())?;
    let report = with_threads(Some(setup.threads), || {
        run_set(connection, &job, &mut set, &mut NoProgress)
    })??;
    check(setup, set.matched(), &report)?;
    // From the agreed contract to the result.
    let around = |phase: &PhaseTraffic| ["contract", "done"].contains(&phase.phase.as_str());
    let phases: Vec<_> = report.phases.iter().filter(|p| !around(p)).collect();
    let offline = |phase: &&&PhaseTraffic| ["prepare", "offline"].contains(&phase.phase.as_str());
    Ok(Done {
        total: phases.iter().map(|phase| phase.seconds).sum(),
        offline: phases
            .iter()
            .filter(offline)
            .map(|phase| phase.seconds)
            .sum(),
        bytes_sent: phases.iter().map(|phase| phase.bytes_sent).sum(),
        bytes_received: phases.iter().map(|phase| phase.bytes_received).sum(),
        phases: phases.into_iter().cloned().collect(),
        matches: (role == Role::Receiver).then(|| inputs::shared(setup)),
        peak_memory_bytes: peak_memory_bytes(),
    })
}

/// A minimum that is just met, if anything matches.
fn min_size(setup: &Setup) -> u64 {
    match setup.reveal {
        Reveal::ThresholdMatches => inputs::shared(setup).max(1),
        _ => 0,
    }
}

/// Compares a run's result with the known one, on the side that learns it.
fn check(setup: &Setup, matched: Option<&[bool]>, report: &Report) -> Result<(), Failure> {
    let right = match setup.part {
        Part::Sender => matched.is_none() && report.value.is_none(),
        Part::Receiver if report.below.is_some() => inputs::shared(setup) == 0,
        Part::Receiver if setup.reveal.is_matches() => {
            matched.is_some_and(|matched| indices_vartime(matched) == inputs::expected(setup))
        }
        Part::Receiver => {
            let value = report.value.map(|value| value.units);
            value == Some(inputs::expected_value(setup))
        }
    };
    match right {
        true => Ok(()),
        false => Err(Failure::new(RESOURCE, "the result is wrong")),
    }
}
