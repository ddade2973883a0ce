//! Lines on standard error: text for people, or JSON for programs.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use vesica::rfc3339;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Sets the form of all lines from now on.
pub(crate) fn set(format: LogFormat) {
    IS_JSON.store(format == LogFormat::Json, Ordering::SeqCst);
}

pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::SeqCst)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Info,
    Warning,
    Hint,
    Error,
}

impl Level {
    /// What stands before the text.
    fn prefix(self) -> &'static str {
        match self {
            Level::Info => "",
            Level::Warning => "warning: ",
            Level::Hint => "hint: ",
            Level::Error => "vesica: ",
        }
    }
}

/// What happened; not everything has a name.
#[derive(Serialize)]
struct Line<'a> {
    time: String,
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'a str>,
    message: &'a str,
    /// What only JSON has: an object, or null.
    #[serde(flatten)]
    fields: &'a Value,
}

/// Says something.
pub(crate) fn say(level: Level, message: &str) {
    line(level, None, message, &Value::Null);
}

/// Says that something happened which programs know by name, with fields that only JSON has.
pub(crate) fn event(name: &str, message: &str, fields: &Value) {
    line(Level::Info, Some(name), message, fields);
}

/// Says why the command ends, in JSON with its exit code.
pub(crate) fn failure(message: &str, hint: Option<&str>, exit_code: u8) {
    if is_json() {
        let fields = serde_json::json!({"hint": hint, "exit_code": exit_code});
        return line(Level::Error, Some("failure"), message, &fields);
    }
    let error = text(Level::Error, message);
    let hint = hint.map(|hint| text(Level::Hint, hint));
    write(&(error + &hint.unwrap_or_default()));
}

fn line(level: Level, event: Option<&str>, message: &str, fields: &Value) {
    if !is_json() {
        return write(&text(level, message));
    }
    let line = Line {
        time: rfc3339(SystemTime::now()),
        level,
        event,
        message,
        fields,
    };
    // Strings and numbers are always JSON.
    let json = serde_json::to_string(&line).unwrap_or_default();
    write(&(json + "\n"));
}

fn text(level: Level, message: &str) -> String {
    format!("{}{message}\n", level.prefix())
}

/// Writes at once, so that lines of two threads do not mix. Ignores a closed standard error: the exit code still says
/// how the command ended.
fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
