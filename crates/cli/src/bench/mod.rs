//! `vesica bench`: a protocol between two parties on this machine, measured.
//!
//! The parent starts two children and talks to each over its standard input and output, a JSON object per
//! line ([`talk`]); where asked, the parties are two pinned threads of this process instead ([`threads`]).
//! For every run the sender listens, the receiver connects, and both agree on a contract; the time from there
//! to the result counts. Where a dealer hands out what a run takes, it is a third child or thread; each party gets its
//! half over TLS before the run, stores it, and takes it from there, and that time counts too.

mod inputs;
mod machine;
mod party;
mod result;
mod talk;
mod threads;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use vesica::Registry;
use vesica_kernels::Backend;
use vesica_primitives::yardstick::aes_blocks_per_second;
use vesica_psi::{Origin, Spec};

use crate::args::{Bench, Carrier, Parties};
use crate::failure::{Failure, RESOURCE};
use crate::log::{self, Level};

use result::{Runs, show};
use talk::{Child, Dealing, Order, Part, Ran, Say, Setup, Task};
use threads::Pair;

use party::is_attested;
pub(crate) use party::run as party;

/// Time of one sample of the yardstick.
const YARDSTICK: Duration = Duration::from_millis(20);

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

fn measure(
    options: &Bench,
    protocol: &'static Spec,
    receiver_size: u64,
    sender_size: u64,
) -> Result<String, Failure> {
    let terms = options.terms(protocol)?;
    let offline = Registry::standard()
        .get(protocol.name)
        .and_then(|protocol| protocol.offline());
    let origin = offline.map_or(Origin::Parties, |offline| offline.origin());
    let is_dealt = origin.is_dealer();
    let carrier = options.transport(is_dealt)?;
    if carrier == Carrier::Tcp {
        log::say(
            Level::Warning,
            "PLAINTEXT. This benchmark runs over TCP without encryption and without \
             checking anybody, between two parties on this machine and with random items only; \
             --transport tls measures what real runs use",
        );
    }
    let speed = aes_blocks_per_second(YARDSTICK, 15);
    let setup = |part, peer, dealer| Setup {
        part,
        protocol: protocol.name.to_owned(),
        terms: terms.clone(),
        threads: options.threads,
        receiver_size,
        sender_size,
        network: options.network.clone(),
        carrier,
        backend: options.backend,
        seed: options.seed,
        peer,
        dealer,
    };
    let dealing = is_dealt.then_some(|parties| Dealing {
        parties,
        attested: is_attested(origin),
        threads: options.threads,
        network: options.network.clone(),
        backend: options.backend,
    });
    let runs = match options.parties {
        Parties::Processes => {
            let (mut receiver, receiver_print) = Child::start()?;
            let (mut sender, sender_print) = Child::start()?;
            let (mut dealer, dealer_print) = match &dealing {
                Some(dealing) => {
                    let (mut dealer, print) = Child::start()?;
                    let parties = [receiver_print.clone(), sender_print.clone()];
                    dealer.tell(&Task::Deal(dealing(parties)))?;
                    (Some(dealer), Some(print))
                }
                None => (None, None),
            };
            let ours = setup(Part::Receiver, sender_print, dealer_print.clone());
            let theirs = setup(Part::Sender, receiver_print, dealer_print);
            receiver.tell(&Task::Run(ours))?;
            sender.tell(&Task::Run(theirs))?;
            let runs = repeat(options.runs, || {
                one_run(&mut receiver, &mut sender, dealer.as_mut())
            })?;
            [Some(receiver), Some(sender), dealer]
                .into_iter()
                .flatten()
                .for_each(Child::finish);
            runs
        }
        Parties::Threads => {
            let pair = Pair::new(setup, dealing)?;
            repeat(options.runs, || pair.one_run())?
        }
    };
    show(
        options,
        (protocol, &terms),
        (receiver_size, sender_size),
        speed,
        &runs,
    )
}

/// Measures `count` runs after one that warms up page tables, kernel selection and clock frequencies.
fn repeat(count: u32, mut one_run: impl FnMut() -> Result<Ran, Failure>) -> Result<Runs, Failure> {
    one_run()?;
    let mut runs = Runs::default();
    for _ in 0..count {
        runs.push(one_run()?);
    }
    Ok(runs)
}

/// One run between two children, with a pair from a third if there is one.
fn one_run(
    receiver: &mut Child,
    sender: &mut Child,
    mut dealer: Option<&mut Child>,
) -> Result<Ran, Failure> {
    let dealt_at = match &mut dealer {
        Some(dealer) => Some(listening(dealer, None)?),
        None => None,
    };
    let address = listening(sender, dealt_at.clone())?;
    receiver.tell(&Order::Connect {
        address,
        dealer: dealt_at,
    })?;
    let (Say::Done(receiver), Say::Done(sender)) = (receiver.hear()?, sender.hear()?) else {
        return Err(talk::out_of_turn());
    };
    let dealer_memory_bytes = match dealer.map(Child::hear).transpose()? {
        Some(Say::Dealt { peak_memory_bytes }) => peak_memory_bytes,
        None => None,
        Some(_) => return Err(talk::out_of_turn()),
    };
    Ok(Ran {
        receiver,
        sender,
        dealer_memory_bytes,
    })
}

/// Has a child listen, and returns where it does.
fn listening(child: &mut Child, dealer: Option<String>) -> Result<String, Failure> {
    child.tell(&Order::Listen { dealer })?;
    match child.hear()? {
        Say::Listening { address } => Ok(address),
        _ => Err(talk::out_of_turn()),
    }
}
