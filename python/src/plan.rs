//! What a run will take.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use vesica::Terms;
use vesica::session::{Link, Registry};
use vesica_plan::buckets::MAX_ITEMS;
use vesica_plan::{Calibration, Machines, Prices, Request, Unusable, calibration_path, yardstick};

use crate::errors::Failure;
use crate::options::set_terms;

/// What is asked.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    receiver_size: u64,
    sender_size: u64,
    /// Options that set terms, with their values.
    terms: HashMap<String, String>,
    value_columns: u8,
    items: Option<u32>,
    bandwidth: Option<u64>,
    rtt: f64,
    threads: u32,
    prices: Option<PathBuf>,
    calibration: Option<PathBuf>,
}

impl Asked {
    fn request(&self) -> Result<Request, Failure> {
        let mut terms = Terms::default();
        set_terms(&mut terms, &self.terms)?;
        let is_size = |size: u64| size <= MAX_ITEMS;
        if !is_size(self.receiver_size) || !is_size(self.sender_size) {
            return Err(Failure::usage("no set has more than 2**31 items"));
        }
        if !(1..=8).contains(&self.value_columns) {
            return Err(Failure::usage("there are 1 to 8 columns of values"));
        }
        if self.items.is_some_and(|bits| !(1..=64).contains(&bits)) {
            return Err(Failure::usage("numbers have 1 to 64 bits"));
        }
        if self.bandwidth.is_some_and(|rate| rate < 1000) {
            return Err(Failure::usage(
                "a bandwidth is at least 1000 bits per second",
            ));
        }
        if self.threads == 0 {
            return Err(Failure::usage("there is at least one thread"));
        }
        let rtt = Duration::try_from_secs_f64(self.rtt).ok();
        let rtt = rtt.filter(|rtt| rtt.as_secs() <= 60);
        let rtt = rtt.ok_or_else(|| Failure::usage("a round trip takes 0 to 60 seconds"))?;
        let (sizes, link) = (
            [self.receiver_size, self.sender_size],
            Link::new(self.bandwidth, rtt),
        );
        let is_given = |name: &str| self.terms.contains_key(name);
        let request = terms.request(is_given, sizes, self.value_columns, link);
        Ok(Request {
            exact: self.items,
            threads: self.threads,
            ..request.map_err(Failure::usage)?
        })
    }

    fn prices(&self) -> Result<Prices, Failure> {
        match &self.prices {
            None => Ok(Prices::built_in()),
            Some(path) => Prices::load(path).map_err(unusable),
        }
    }

    fn calibration(&self) -> Result<Option<Calibration>, Failure> {
        let usual = || calibration_path().filter(|path| path.exists());
        let Some(path) = self.calibration.clone().or_else(usual) else {
            return Ok(None);
        };
        Calibration::load(&path).map(Some).map_err(unusable)
    }
}

fn unusable(file: Unusable) -> Failure {
    Failure::data(file.to_string())
}

/// What every protocol that serves takes, as JSON.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, asked: Asked) -> PyResult<String> {
    let answered = py.detach(|| {
        let (request, prices) = (asked.request()?, asked.prices()?);
        let machines = Machines::new(asked.calibration()?, Some(yardstick()));
        let answer = machines.answer(Registry::standard(), &request, &prices);
        let answer = answer.ok_or_else(|| {
            let reveal = request.reveal;
            Failure::usage(format!("no protocol reveals {reveal} under these terms"))
        })?;
        serde_json::to_string(&answer)
            .map_err(|e| Failure::usage(format!("the answer is not JSON: {e}")))
    });
    Ok(answered?)
}
