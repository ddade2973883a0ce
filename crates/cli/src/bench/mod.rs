//! `vesica bench`: a protocol between two parties on this machine, measured.
//!
//! Every run is one of the commands `receive` and `send`, as two processes that read generated tables and write their
//! results ([`parties`]); where a dealer hands out what a run takes, `dealer` and `offline make` come before it. What
//! counts is in their reports: the time from the agreed contract to the result, and that of dealing. Reading and writing
//! tables does not count. With `--alone` one party runs against a recording of the other ([`alone`]).

mod alone;
mod inputs;
pub(crate) mod machine;
mod parties;
mod result;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use vesica_kernels::Backend;
use vesica_primitives::yardstick::aes_blocks_per_second;
use vesica_psi::Origin;
use vesica_session::Registry;
use vesica_session::terms::KEY_BITS;

use crate::args::{Bench, BenchParty, Carrier, Measured};
use crate::conditions::Conditions;
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::signals::Signals;
use crate::stdout::print_line;
use crate::{exchange, offline};

use inputs::Inputs;
use parties::{Job, Parties};
use result::show;

/// Time of one sample of the yardstick.
const YARDSTICK: Duration = Duration::from_millis(20);

pub(crate) fn run(options: &Bench) -> Result<(), Failure> {
    vesica_kernels::limit(options.backend.backend());
    let text = match options.yardstick {
        true => yardstick(options.json),
        false => measure(options)?,
    };
    print_line(&text)
}

fn yardstick(json: bool) -> String {
    let speed = aes_blocks_per_second(YARDSTICK, 15);
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

fn measure(options: &Bench) -> Result<String, Failure> {
    let protocol = options.protocol()?;
    let terms = options.terms(protocol)?;
    let registered = protocol.and_then(|protocol| Registry::standard().get(protocol.name));
    let offline = registered.and_then(|protocol| protocol.offline());
    let origin = offline.map_or(Origin::Parties, |offline| offline.origin());
    if let Some(role) = options.alone() {
        if origin.is_dealt() {
            let problem = "a party that takes what a dealer made is not measured by itself";
            return Err(Failure::usage(problem));
        }
        let speed = aes_blocks_per_second(YARDSTICK, 15);
        return alone::measure(options, role, protocol, &terms, speed);
    }
    let carrier = options.transport(origin.is_dealt())?;
    if carrier == Carrier::Tcp {
        log::say(
            Level::Warning,
            "PLAINTEXT. This benchmark runs over TCP without encryption and without \
             checking anybody, between two parties on this machine and with random items only; \
             --transport tls measures what real runs use",
        );
    }
    let speed = aes_blocks_per_second(YARDSTICK, 15);
    let payload_bytes = options.payload_bytes(&terms)?;
    // The tables must not stay, whatever happens.
    let signals = Signals::install()?;
    signals.stop_in_order();
    let job = Job {
        options,
        inputs: Inputs {
            receiver_size: options.receiver_size,
            sender_size: options.sender_size(),
            key_bits: terms.get(&KEY_BITS),
            payload_bytes,
            seed: options.seed,
        },
        protocol: protocol.map_or("auto", |protocol| protocol.name),
        terms,
        carrier,
        origin,
    };
    let parties = Parties::new(&job, signals.interrupt())?;
    let runs: Result<Vec<_>, _> = (0..options.runs).map(|_| parties.run()).collect();
    show(&job, speed, &runs?)
}

/// Runs a command as a party of a benchmark.
pub(crate) fn party(options: &BenchParty) -> Result<(), Failure> {
    end_with_parent();
    vesica_kernels::limit(options.backend.backend());
    let conditions = Conditions {
        link: options.network.link(),
        is_plaintext: options.transport == Carrier::Tcp,
    };
    match &options.command {
        Measured::Receive(options) => exchange::receive(options, conditions),
        Measured::Send(options) => exchange::send(options, conditions),
        Measured::Offline(options) => offline::run(options, conditions),
        Measured::Dealer(options) => offline::dealer(options, conditions),
        Measured::Generator(options) => offline::generator(options, conditions),
    }
}

/// Ends this process once its standard input ends, which is when its parent has ended, in whatever way.
fn end_with_parent() {
    std::thread::spawn(|| {
        // Nothing comes.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(i32::from(crate::failure::NETWORK));
    });
}
