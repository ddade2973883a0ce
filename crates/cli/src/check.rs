//! `vesica check`

use std::io::Write;

use crate::args::Check;
use crate::failure::{Failure, RESOURCE};

pub(crate) fn run(options: &Check) -> Result<(), Failure> {
    let key = options.table.key()?;
    let source = options.table.open()?;
    let check = vesica::check(&source, &key)?;
    let text = if options.json {
        serde_json::to_string(&check)
            .map_err(|e| Failure::new(RESOURCE, format!("the result is not JSON: {e}")))?
    } else {
        check.to_string()
    };
    writeln!(std::io::stdout(), "{}", text.trim_end())
        .map_err(|e| Failure::new(RESOURCE, format!("standard output cannot be written: {e}")))
}
