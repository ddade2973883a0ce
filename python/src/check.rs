//! Dry runs.

use pyo3::prelude::*;
use vesica::{Interrupt, Passes, SourceOptions, check_within, key_memory, text_columns};

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
) -> PyResult<(String, String)> {
    let key = reading.key()?;
    // What of the limit is for keys in a run.
    let memory = reading.memory()?;
    let texts = text_columns(&key, value, value_width).map_err(Failure::from)?;
    let memory = memory.map_or(u64::MAX, |memory| key_memory(memory, texts.is_some()));
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
            let check = check_within(&source, &key, texts.as_ref(), memory, &std::env::temp_dir())?;
            let json = serde_json::to_string(&check)
                .map_err(|e| Failure::usage(format!("the result is not JSON: {e}")))?;
            Ok((json, check.to_string()))
        },
    )?;
    Ok(checked?)
}
