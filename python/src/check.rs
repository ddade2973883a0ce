//! Dry runs.

use std::collections::HashMap;

use pyo3::prelude::*;
use vesica::session::terms::SECURITY;
use vesica::{Endpoint, Interrupt, NoProgress, Party, Resources, Role, Security, Terms};

use crate::errors::{Failure, InPython};
use crate::options::{ColumnOptions, Reading, Table, set_terms};
use crate::supervise::supervise;

/// What the run is for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Checking {
    columns: ColumnOptions,
    terms: HashMap<String, String>,
    show: usize,
    allow_empty: bool,
}

impl Checking {
    /// Both sides can do the same, but that the receiver has groups.
    fn role(&self) -> Role {
        match self.columns.has_groups() {
            true => Role::Receiver,
            false => Role::Sender,
        }
    }

    /// A side of a run with this table, whoever its peer is.
    fn party(&self, memory: Option<u64>) -> Result<Party, Failure> {
        let own = vesica::Identity::generate()?;
        let peer = vesica::Identity::generate()?.fingerprint();
        let mut terms = Terms::default();
        set_terms(&mut terms, &self.terms)?;
        // Whatever the peer may be; the run says what is weaker than it asks for.
        terms.set(&SECURITY, Security::SemiHonest);
        let columns = self.columns.of(self.role(), &terms)?;
        Ok(Party {
            terms,
            labels: columns.labels,
            payload: columns.payload,
            values: columns.values,
            group: columns.group,
            resources: Resources {
                memory,
                ..Resources::default()
            },
            allow_empty: self.allow_empty,
            ..Party::new(&own, peer, Endpoint::Courier)
        })
    }
}

/// What a run would see of a table, as JSON and as text, and what it would refuse of it.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    reading: Reading,
    options: Checking,
) -> PyResult<(String, String, Option<Py<PyAny>>)> {
    let key = reading.key()?;
    let (role, party) = (options.role(), options.party(reading.memory()?)?);
    party.check(role, &key).map_err(Failure::from)?;
    let source = reading.source(party.options_of_check())?;
    let table = Table::of(table, &reading)?;
    let checked = supervise(
        py,
        &Interrupt::new(),
        || Ok(()),
        move || {
            let source = table.open(&key, &party.values, source)?;
            Ok(party.check_table(role, &source, &key, options.show, &mut NoProgress)?)
        },
    )?;
    let checked = checked.map_err(|failure: Failure| PyErr::from(failure))?;
    let check = checked.check.spelled(&InPython);
    let json = serde_json::to_string(&check)
        .map_err(|e| Failure::usage(format!("the result is not JSON: {e}")))?;
    let refusal = checked.refusal.map(|error| {
        let error = PyErr::from(Failure::from(error));
        error.into_value(py).into_any()
    });
    Ok((json, check.to_string(), refusal))
}
