//! `vesica bench`: a protocol between two parties on this machine, measured.
//!
//! The parent starts two children and talks to each over its standard input and output, a JSON object per
//! line ([`talk`]); where asked, the parties are two pinned threads of this process instead ([`threads`]).
//! For every run the sender listens, the receiver connects, and both agree on a contract; the time from there
//! to the result counts.

mod inputs;
mod machine;
mod party;
mod result;
mod talk;
mod threads;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;

use vesica_kernels::Backend;
use vesica_psi::Spec;

use crate::args::{Bench, Carrier, Parties};
use crate::failure::{Failure, RESOURCE};
use crate::log::{self, Level};

use result::{Runs, show};
use talk::{Child, Done, Order, Part, Say, Setup};
use threads::Pair;

pub(crate) use party::run as party;

pub(crate) fn run(options: &Bench) -> Result<(), Failure> {
    vesica_kernels::limit(options.backend.backend());
    let text = match (
        options.protocol()?,
        options.receiver_size,
        options.sender_size,
    ) {
        (Some(protocol), Some(receiver_size), Some(sender_size)) if !options.yardstick => {
            measure(options, protocol, receiver_size, sender_size)?
        }
        _ => yardstick(options.json),
    };
    writeln!(std::io::stdout(), "{text}")
        .map_err(|e| Failure::new(RESOURCE, format!("standard output cannot be written: {e}")))
}

fn yardstick(json: bool) -> String {
    let speed = machine::aes_blocks_per_second();
    let kernels = vesica_kernels::backends(Backend::Best);
    if json {
        serde_json::json!({
            "yardstick_aes_blocks_per_second": speed,
            "kernels": kernels.into_iter().collect::<BTreeMap<_, _>>(),
            "machine": machine::describe(),
        })
        .to_string()
    } else {
        let mut text = format!("{speed} fixed-key AES-128 blocks per second on one core");
        for (kernel, version) in kernels {
            let _ = write!(text, "\n{kernel:<12}{version}");
        }
        text
    }
}

fn measure(
    options: &Bench,
    protocol: &'static Spec,
    receiver_size: u64,
    sender_size: u64,
) -> Result<String, Failure> {
    let security = options.security(protocol)?;
    let reveal = options.reveal(protocol)?;
    let key_bits = options.key_bits()?;
    if options.transport == Carrier::Tcp {
        log::say(
            Level::Warning,
            "PLAINTEXT. This benchmark runs over TCP without encryption and without \
             checking anybody, between two parties on this machine and with random items only; \
             --transport tls measures what real runs use",
        );
    }
    let speed = machine::aes_blocks_per_second();
    let setup = |part, peer| Setup {
        part,
        protocol: protocol.name.to_owned(),
        security,
        reveal,
        key_bits,
        threads: options.threads,
        receiver_size,
        sender_size,
        network: options.network.clone(),
        carrier: options.transport,
        backend: options.backend,
        seed: options.seed,
        peer,
    };
    let runs = match options.parties {
        Parties::Processes => {
            let (mut receiver, receiver_print) = Child::start()?;
            let (mut sender, sender_print) = Child::start()?;
            receiver.tell(&setup(Part::Receiver, sender_print))?;
            sender.tell(&setup(Part::Sender, receiver_print))?;
            let runs = repeat(options.runs, || one_run(&mut receiver, &mut sender))?;
            receiver.finish();
            sender.finish();
            runs
        }
        Parties::Threads => {
            let pair = Pair::new(setup)?;
            repeat(options.runs, || pair.one_run())?
        }
    };
    show(
        options,
        (protocol.name, protocol.runs(security), reveal),
        (receiver_size, sender_size),
        speed,
        &runs,
    )
}

/// Measures `count` runs after one that warms up page tables, kernel selection and clock frequencies.
fn repeat(
    count: u32,
    mut one_run: impl FnMut() -> Result<(Done, Done), Failure>,
) -> Result<Runs, Failure> {
    one_run()?;
    let mut runs = Runs::default();
    for _ in 0..count {
        runs.push(one_run()?);
    }
    Ok(runs)
}

/// Both sides' view of one run between two children.
fn one_run(receiver: &mut Child, sender: &mut Child) -> Result<(Done, Done), Failure> {
    sender.tell(&Order::Listen)?;
    let Say::Listening { address } = sender.hear()? else {
        return Err(talk::out_of_turn());
    };
    receiver.tell(&Order::Connect { address })?;
    match (receiver.hear()?, sender.hear()?) {
        (Say::Done(receiver), Say::Done(sender)) => Ok((receiver, sender)),
        _ => Err(talk::out_of_turn()),
    }
}
