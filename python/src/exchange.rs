//! Steps of runs by courier.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::SystemTime;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use vesica::options::parse_protocol;
use vesica::session::terms::{LEARNS, parse_max_items};
use vesica::session::{PeerLimits, rfc3339};
use vesica::tables::Passes;
use vesica::{
    CourierStep, Endpoint, Gets, Interrupt, Learns, Party, Resources, Rows, SourceOptions, Terms,
};

use crate::errors::Failure;
use crate::events::Events;
use crate::identity::Identity;
use crate::options::{Output, Reading, Table, account, fingerprint, named, set_terms, threads};
use crate::run::{Finished, Rowed, role_of};
use crate::supervise::watched;

/// The arguments of a step that are not about its table.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Exchanging {
    role: String,
    peer: String,
    state: PathBuf,
    output: Option<PathBuf>,
    rows: String,
    terms: HashMap<String, String>,
    protocol: String,
    both: bool,
    max_peer_items: String,
    threads: Option<i64>,
    allow_empty: bool,
    ledger: Option<PathBuf>,
    ledger_answers: bool,
    rules: Option<PathBuf>,
    purpose: Option<String>,
}

impl Exchanging {
    fn party(&self, identity: &Identity, memory: Option<u64>) -> Result<Party, Failure> {
        let peer = fingerprint("peer", &self.peer)?;
        identity.0.key.check_peer(peer)?;
        let mut terms = Terms::default();
        set_terms(&mut terms, &self.terms)?;
        if self.both {
            terms.set(&LEARNS, Learns::Both);
        }
        Ok(Party {
            protocol: parse_protocol(&self.protocol, None)?,
            terms,
            peer_limits: PeerLimits {
                items: named("max_peer_items", parse_max_items(&self.max_peer_items))?,
                ..PeerLimits::default()
            },
            resources: Resources {
                memory,
                threads: threads(self.threads)?,
                ..Resources::default()
            },
            account: account(
                self.ledger.as_ref(),
                self.rules.as_ref(),
                self.ledger_answers,
            )?,
            purpose: self.purpose.clone().unwrap_or_default(),
            allow_empty: self.allow_empty,
            ..Party::new(&identity.0.key, peer, Endpoint::Courier)
        })
    }
}

/// Takes a step; returns the message for the peer, if there is one, and what the run has led to if it is over for this side.
#[pyfunction]
#[allow(
    clippy::too_many_arguments,
    reason = "it has what the package's function has"
)]
pub(crate) fn exchange<'py>(
    py: Python<'py>,
    step: &str,
    message: Option<Vec<u8>>,
    table: &Bound<'py, PyAny>,
    reading: Reading,
    options: Exchanging,
    identity: &Identity,
    listener: &Bound<'py, PyAny>,
) -> PyResult<(Option<Bound<'py, PyBytes>>, Option<Rowed<'py>>)> {
    let started = rfc3339(SystemTime::now());
    let step: CourierStep = named("step", step.parse())?;
    let role = role_of(&options.role)?;
    let (events, interrupt) = (Events::default(), Interrupt::new());
    let mut party = options.party(identity, reading.memory()?)?;
    party.connect.interrupt = interrupt.clone();
    let key = reading.key()?;
    party.check(role, &key).map_err(Failure::from)?;
    let rows: Rows = named("rows", options.rows.parse())?;
    let gets = Gets::of(role, &party.terms);
    let finishes = step == CourierStep::Finish;
    let output = reading.output(py, options.output.clone())?;
    let of_rows = output.is_some() || rows != Rows::Matching;
    check(step, gets, message.is_some(), of_rows)?;
    let source = reading.source(SourceOptions {
        passes: match finishes && gets == Gets::Rows {
            true => Passes::Two,
            false => Passes::One,
        },
        rows,
        allow_no_rows: party.allow_empty,
        ..SourceOptions::default()
    })?;
    let table = Table::of(table, &reading)?;
    events.stage("reading");
    let (mut heard, raised) = (events.clone(), interrupt.clone());
    let work = move || -> Result<_, Failure> {
        let (state, message) = (&options.state, message.as_deref());
        let courier = party.courier(step, role, &key, Rows::Matching, state)?;
        courier.check(step, message)?;
        let source = table.open(&key, &[], source)?;
        let output = output.as_ref().map(Output::destination);
        let carried = courier.step(step, message, &source, output, &mut heard)?;
        let finished = carried.over.map(|over| {
            let outcome = over.write(&mut heard)?;
            let finished = Finished::of(outcome, gets, &source, output.is_some(), &raised, &heard)?;
            finished.hint(&heard);
            Ok::<_, Failure>(finished)
        });
        Ok((carried.message, finished.transpose()?))
    };
    let (message, finished) = watched(py, &interrupt, &events, listener, work)?;
    let message = message.map(|message| PyBytes::new(py, &message));
    let parts = finished.map(|finished| finished.into_parts(py, role, &identity.0, started));
    Ok((message, parts.transpose()?))
}

/// Refuses what does not go with a step.
fn check(step: CourierStep, gets: Gets, message: bool, of_rows: bool) -> Result<(), Failure> {
    let finishes = step == CourierStep::Finish;
    Err(Failure::usage(match (step, message) {
        (CourierStep::Offer, true) => "an offer takes no message",
        (CourierStep::Start | CourierStep::Answer | CourierStep::Finish, false) => {
            "give the peer's message"
        }
        _ if finishes && gets == Gets::Nothing => {
            "this side learns no rows, and has nothing to finish: it answers"
        }
        _ if of_rows && !(finishes && gets == Gets::Rows) => {
            "output, output_table and rows are for finish, on a side that learns the matches"
        }
        _ => return Ok(()),
    }))
}
