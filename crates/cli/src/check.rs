//! `vesica check`

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use vesica::{Checked, KeySpec, Party, Terms};
use vesica_files::{WholeFile, found_at, is_exhausted, read_regular};
use vesica_session::terms::{KEY_BITS, NORMALIZATION, REVEAL};
use vesica_session::{
    Error as SessionError, LabelExchange, MAX_SCALE, MAX_VALUE_COLUMNS, VERSION, ValueTerms,
    check_values,
};
use vesica_wire::Error as WireError;

use crate::args::{Check, OwnSide};
use crate::failure::{DATA, Failure, InCommand, RESOURCE, USAGE};
use crate::log::{self, Level};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::stdout::{check_open, print_line};

/// The longest file of terms, in bytes.
const MAX_BYTES: u64 = 1 << 16;

/// What a side says of a run before anything of its table.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    /// The version of the handshake.
    version: u16,
    protocol: String,
    terms: Terms,
    labels: LabelExchange,
    values: Vec<ValueTerms>,
}

impl Said {
    pub(crate) fn of(party: &Party, key: &KeySpec) -> Said {
        let mut terms = party.terms.clone();
        terms.set(&NORMALIZATION, key.normalization());
        terms.set(&KEY_BITS, key.bits());
        Said {
            version: VERSION,
            protocol: party.protocol.to_string(),
            terms,
            labels: party.labels.clone(),
            values: party.value_terms(),
        }
    }

    fn write(&self, path: &Path) -> Result<(), Failure> {
        let json = serde_json::to_vec_pretty(self).map_err(std::io::Error::from);
        let write = |json: Vec<u8>| {
            let mut file = WholeFile::create(path)?;
            file.write_all(&json)?;
            file.write_all(b"\n")?;
            file.commit()
        };
        json.and_then(write).map_err(|e| {
            let code = if is_exhausted(&e) { RESOURCE } else { USAGE };
            Failure::new(code, format!("{}: cannot be written: {e}", path.display()))
        })
    }

    /// Fails if there is something else at a path, in whose place it would be.
    fn check_place(path: &Path) -> Result<(), Failure> {
        match found_at(path) {
            None | Some("an empty file") => Ok(()),
            Some(_) if Said::read(path).is_ok() => Ok(()),
            Some(found) => {
                let line = format!(
                    "{}: there is {found}, which terms would replace",
                    path.display()
                );
                Err(Failure::usage(line).hint("name another file"))
            }
        }
    }

    fn read(path: &Path) -> Result<Said, Failure> {
        let wrong = |problem: String| Failure::new(DATA, format!("{}: {problem}", path.display()));
        let bytes = read_regular(path, MAX_BYTES).map_err(|e| match e.kind() {
            ErrorKind::NotFound => wrong("no such file".into()),
            _ => wrong(format!("cannot be read: {e}")),
        })?;
        Said::parse(&bytes).ok_or_else(|| {
            let problem = wrong("is not a file of terms, or of another version".into());
            problem.hint("the peer writes one with `vesica check --terms FILE`")
        })
    }

    /// What a peer says, if it may be so.
    pub(crate) fn parse(json: &[u8]) -> Option<Said> {
        let said: Said = serde_json::from_slice(json).ok()?;
        let is_value = |value: &ValueTerms| {
            (1..=i64::MAX as u64).contains(&value.bound) && value.scale <= MAX_SCALE
        };
        let is_sound = said.labels.is_sound()
            && said.values.len() <= MAX_VALUE_COLUMNS
            && said.values.iter().all(is_value);
        is_sound.then_some(said)
    }

    /// What would end a run with a peer that says this.
    pub(crate) fn differences(&self, theirs: &Said) -> Vec<Failure> {
        let mut differences = Vec::new();
        if self.version != theirs.version {
            let versions = [self.version, theirs.version].map(|version| version.to_string());
            differences.push(differ("version", versions));
        }
        let named = [&self.protocol, &theirs.protocol];
        if self.protocol != theirs.protocol && named.iter().all(|name| *name != "auto") {
            differences.push(differ("protocol", named.map(String::clone)));
        }
        differences.extend(self.terms.differences(&theirs.terms));
        differences.extend(self.labels.agree(&theirs.labels).err());
        let reveals = [self, theirs].map(|said| said.terms.get(&REVEAL));
        if reveals[0] == reveals[1] {
            let values = [&self.values[..], &theirs.values];
            differences.extend(check_values(reveals[0], values).err());
        }
        let failures = differences.into_iter().map(SessionError::from);
        failures.map(Failure::from).collect()
    }

    /// Fails with the first difference from what the peer says, and names the others before.
    fn compare(&self, theirs: &Said) -> Result<(), Failure> {
        let mut failures = self.differences(theirs).into_iter();
        let Some(first) = failures.next() else {
            return Ok(());
        };
        for failure in failures {
            log::say(Level::Warning, &failure.line);
        }
        Err(first)
    }
}

fn differ(field: &'static str, [ours, theirs]: [String; 2]) -> WireError {
    WireError::ContractDiffers {
        field,
        ours,
        theirs,
    }
}

/// The table of a side, looked at as a run would: what is found, and why a run would end.
pub(crate) fn look(
    side: &OwnSide,
    party: &Party,
    key: &KeySpec,
    show: usize,
    signals: Signals,
) -> Result<Checked, Failure> {
    let shown = side.resources.progress();
    let mut progress = Progress::new(shown, signals, "reading the table");
    let source = side.table.open(party.options_of_check())?;
    let checked = party.check_table(side.role(), &source, key, show, &mut progress)?;
    progress.finish();
    Ok(checked)
}

/// Prints what a run would see, and fails as a run would.
pub(crate) fn run(options: &Check) -> Result<(), Failure> {
    check_open()?;
    let side = &options.side;
    let key = side.table.key()?;
    let party = side.party()?;
    party.check(side.role(), &key)?;
    let theirs = options.against.as_deref().map(Said::read).transpose()?;
    options.terms.as_deref().map_or(Ok(()), Said::check_place)?;
    let show = options.show.unwrap_or(0);
    let checked = look(side, &party, &key, show, Signals::install()?)?;
    let check = checked.check.spelled(&InCommand);
    let text = if side.json {
        serde_json::to_string(&check)
            .map_err(|e| Failure::new(RESOURCE, format!("the result is not JSON: {e}")))?
    } else {
        check.to_string()
    };
    print_line(text.trim_end())?;
    let said = Said::of(&party, &key);
    if let Some(path) = &options.terms {
        said.write(path)?;
        let text = format!("{} is for the peer, for its --against", path.display());
        log::say(Level::Info, &text);
    }
    if let (Some(theirs), Some(path)) = (&theirs, &options.against) {
        said.compare(theirs)?;
        let text = format!("nothing differs from what {} says", path.display());
        log::say(Level::Info, &text);
    }
    match checked.refusal {
        Some(refusal) => Err(refusal.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a peer sends to `doctor`, and what a file for `--against` holds.
    #[test]
    fn what_no_side_may_say_is_refused() {
        let said = Said {
            version: VERSION,
            protocol: "auto".into(),
            terms: Terms::default(),
            labels: LabelExchange::Nothing,
            values: Vec::new(),
        };
        let json = serde_json::to_value(&said).unwrap();
        let with = |field: &str, value: &str| {
            let mut json = json.clone();
            json[field] = serde_json::from_str(value).unwrap();
            Said::parse(&serde_json::to_vec(&json).unwrap()).is_some()
        };
        assert!(with("labels", r#""Nothing""#));
        assert!(with(
            "labels",
            r#"{"Wanted":{"most_bytes":64,"most_rows":1}}"#
        ));
        for labels in [
            r#"{"Wanted":{"most_bytes":0,"most_rows":0}}"#,
            r#"{"Wanted":{"most_bytes":64,"most_rows":4096}}"#,
            r#"{"Offered":{"bytes":0,"rows":0,"columns":["a"]}}"#,
            r#"{"Offered":{"bytes":64,"rows":1,"columns":["a\u001b[31m"]}}"#,
        ] {
            assert!(!with("labels", labels), "{labels}");
        }
        for value in [
            r#"[{"bound":0,"scale":0,"repeated":"sum"}]"#,
            r#"[{"bound":18446744073709551615,"scale":0,"repeated":"sum"}]"#,
            r#"[{"bound":1,"scale":255,"repeated":"sum"}]"#,
        ] {
            assert!(!with("values", value), "{value}");
        }
        assert!(with(
            "values",
            r#"[{"bound":1,"scale":2,"repeated":"sum"}]"#
        ));
    }
}
