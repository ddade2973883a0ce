//! What a run will take.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::prelude::*;
use vesica::terms::MAX_ITEMS;
use vesica::{Link, Registry, Reveals, Security};
use vesica_plan::{Calibration, Machines, Prices, Request, Unusable, calibration_path};

use crate::errors::Failure;

/// What is asked.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    receiver_size: u64,
    sender_size: u64,
    reveal: String,
    security: Option<String>,
    lambda: u32,
    min_size: Option<u64>,
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
        let reveal: Reveals = self
            .reveal
            .parse()
            .map_err(|()| Failure::usage(format!("nothing is revealed as {:?}", self.reveal)))?;
        let named = |name: &String| {
            serde_json::from_value::<Security>(name.as_str().into())
                .map_err(|_| Failure::usage(format!("no security is called {name:?}")))
        };
        let security = self.security.as_ref().map(named).transpose()?;
        let is_size = |size: u64| size <= MAX_ITEMS;
        if !is_size(self.receiver_size) || !is_size(self.sender_size) {
            return Err(Failure::usage("no set has more than 2**28 items"));
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
        let rtt = Duration::try_from_secs_f64(self.rtt).ok();
        let rtt = rtt.filter(|rtt| rtt.as_secs() <= 60);
        let rtt = rtt.ok_or_else(|| Failure::usage("a round trip takes 0 to 60 seconds"))?;
        let sizes = [self.receiver_size, self.sender_size];
        let usual = Request::new(sizes, reveal, self.value_columns);
        Ok(Request {
            lambda: self.lambda,
            security,
            min_size: self.min_size.unwrap_or(usual.min_size),
            exact: self.items,
            threads: self.threads.max(1),
            link: Link::new(self.bandwidth, rtt),
            ..usual
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
        let machines = Machines::new(asked.calibration()?, None);
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
