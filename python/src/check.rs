//! Dry runs.

use pyo3::prelude::*;
use vesica::{Budget, Division, Interrupt, Passes, SourceOptions, check_within, text_columns};

use crate::errors::Failure;
use crate::options::{Reading, Table};
use crate::supervise::supervise;

/// What a run would see of a table, as JSON and as text.
#[pyfunction]
pub(crate) fn check(
    py: Python<'_>,
    table: &Bound<'_, PyAny>,
    reading: Reading,
    value: Vec<String>,
    value_width: Option<u32>,
    show: usize,
) -> PyResult<(String, String)> {
    let key = reading.key()?;
    let texts = text_columns(&key, value, value_width).map_err(Failure::from)?;
    let for_keys = Budget::new(reading.memory()?, Division::of_run(texts.is_some())).keys;
    let options = reading.source(SourceOptions {
        passes: Passes::One,
        ..SourceOptions::default()
    })?;
    let table = Table::of(table, &reading)?;
    let checked = supervise(
        py,
        &Interrupt::new(),
        || Ok(()),
        move || {
            let source = table.open(&key, &[], options)?;
            let check = check_within(
                &source,
                &key,
                texts.as_ref(),
                show,
                for_keys,
                &std::env::temp_dir(),
            )?;
            let json = serde_json::to_string(&check)
                .map_err(|e| Failure::usage(format!("the result is not JSON: {e}")))?;
            Ok((json, check.to_string()))
        },
    )?;
    Ok(checked?)
}
