//! `vesica check`

use vesica::{Budget, Division, Passes, SourceOptions};
use vesica_session::with_threads;

use crate::args::Check;
use crate::failure::{Failure, RESOURCE};
use crate::stdout::{check_open, print_line};

pub(crate) fn run(options: &Check) -> Result<(), Failure> {
    check_open()?;
    let key = options.table.key()?;
    let source = options.table.open(SourceOptions {
        passes: Passes::One,
        memory: options.memory(),
        ..SourceOptions::default()
    })?;
    let directory = std::env::temp_dir();
    let texts = options.texts(&key)?;
    let for_keys = Budget::new(options.memory(), Division::of_run(texts.is_some())).keys;
    let show = options.show.unwrap_or(0);
    let check = with_threads(options.threads, || {
        vesica::check_within(&source, &key, texts.as_ref(), show, for_keys, &directory)
    })??;
    let text = if options.json {
        serde_json::to_string(&check)
            .map_err(|e| Failure::new(RESOURCE, format!("the result is not JSON: {e}")))?
    } else {
        check.to_string()
    };
    print_line(text.trim_end())
}
