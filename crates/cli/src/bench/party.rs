//! One party of a benchmark: a child process that stays up over all runs, so that its peak of
//! memory means something.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;
use vesica::{ConnectOptions, Endpoint, Identity, Link, ProtocolRequest, Role, SessionError};
use vesica_psi::research::{self, Choice};
use vesica_session::{
    Agreement, Connection, Job, Kept, Listener, Transport, agree, confirm_done, connect,
    salt_items, with_threads,
};
use vesica_wire::{Channel, PhaseTraffic};

use super::inputs;
use super::machine::peak_memory_bytes;
use super::talk::{Done, Order, Part, Phase, Say, Setup, write_line};
use crate::args::Carrier;
use crate::failure::{Failure, NETWORK, RESOURCE};

/// A benchmark may compute for long, and both parties are known to be alive.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// Does what the parent says, until it says no more.
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

/// Reads the parent's lines on a thread of its own: should the parent vanish in the middle of a
/// run, this process must not go on for nobody.
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

/// Where a party meets the other.
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

pub(super) fn one_run(setup: &Setup, mut connection: Connection) -> Result<Done, Failure> {
    let digests = inputs::digests(setup);
    let role = match setup.part {
        Part::Receiver => Role::Receiver,
        Part::Sender => Role::Sender,
    };
    let job = Job {
        protocol: ProtocolRequest::Named(setup.protocol),
        security: setup.security,
        ..Job::new(role, vec!["exact/1".into()])
    };
    let agreement = agree(
        &mut connection.channel,
        &job,
        digests.len() as u64,
        &Kept::Nothing,
        connection.local,
        connection.peer,
    )?;
    let outcome = with_threads(Some(setup.threads), || {
        timed(setup, &mut connection, &agreement, digests)
    })?;
    match outcome {
        Ok(done) => Ok(done),
        Err(error) => {
            connection.channel.abort(&error);
            Err(SessionError::from(error).into())
        }
    }
}

/// From the agreed contract to the result.
fn timed(
    setup: &Setup,
    connection: &mut Connection,
    agreement: &Agreement,
    digests: Vec<[u8; 32]>,
) -> Result<Done, vesica_wire::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|e| vesica_wire::Error::Resource(format!("no randomness to be had: {e}")))?;
    let mut rng = ChaCha20Rng::from_seed(seed);
    let channel = &mut connection.channel;
    let params = &agreement.params;
    let choice = setup.choice.map(Choice::from);
    let before = channel.traffic();
    let (sent_before, received_before) = channel.totals();

    let start = Instant::now();
    let (matches, offline) = match setup.part {
        Part::Receiver => {
            channel.begin_phase("prepare");
            let prepared = vesica_psi::prepare(setup.protocol, digests.len(), &mut rng);
            let offline = start.elapsed();
            channel.begin_phase("items");
            let items = salt_items(&params.session, &digests);
            drop(digests);
            let matches = match choice {
                Some(choice) => research::receive(channel, params, &choice, &items, &mut rng),
                None => vesica_psi::receive(channel, params, &items, prepared, &mut rng),
            }?;
            (Some(matches), offline)
        }
        Part::Sender => {
            channel.begin_phase("items");
            let items = salt_items(&params.session, &digests);
            drop(digests);
            match choice {
                Some(choice) => research::send(channel, params, &choice, &items, &mut rng),
                None => vesica_psi::send(channel, params, &items, &mut rng),
            }?;
            channel.flush()?;
            (None, Duration::ZERO)
        }
    };
    let total = start.elapsed();

    let (sent, received) = channel.totals();
    let phases = since(&before, &channel.traffic());
    let role = match setup.part {
        Part::Receiver => Role::Receiver,
        Part::Sender => Role::Sender,
    };
    confirm_done(channel, role)?;
    let peak = peak_memory_bytes();
    let count = |matches: &Vec<bool>| matches.iter().filter(|matched| **matched).count() as u64;
    if let Some(matches) = &matches
        && *matches != inputs::expected(setup)
    {
        return Err(vesica_wire::Error::Resource(format!(
            "the result is wrong: {} items came out, and they are not the {} that both sets hold",
            count(matches),
            inputs::shared(setup)
        )));
    }
    Ok(Done {
        total: total.as_secs_f64(),
        offline: offline.as_secs_f64(),
        bytes_sent: sent - sent_before,
        bytes_received: received - received_before,
        phases,
        matches: matches.as_ref().map(count),
        peak_memory_bytes: peak,
    })
}

/// What the phases of `now` hold beyond those of `before`; phases without anything are left out.
fn since(before: &[PhaseTraffic], now: &[PhaseTraffic]) -> Vec<Phase> {
    now.iter()
        .filter_map(|phase| {
            let old = before.iter().find(|p| p.phase == phase.phase);
            let (sent, received, seconds) = match old {
                Some(old) => (old.bytes_sent, old.bytes_received, old.seconds),
                None => (0, 0, 0.0),
            };
            let new = Phase {
                phase: phase.phase.clone(),
                bytes_sent: phase.bytes_sent - sent,
                bytes_received: phase.bytes_received - received,
                seconds: phase.seconds - seconds,
            };
            let empty = old.is_some() && new.bytes_sent == 0 && new.bytes_received == 0;
            (!empty).then_some(new)
        })
        .collect()
}
