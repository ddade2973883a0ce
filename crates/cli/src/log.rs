//! Lines on standard error: text for people, or JSON for programs.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;
use vesica::tables::redacted;
use vesica_session::rfc3339;
use vesica_wire::is_hidden;

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

/// The same of a text in which nothing is hidden but what could steer a terminal, since a person decides by it.
pub(crate) fn event_as_it_is(name: &str, message: &str, fields: &Value) {
    match is_json() {
        true => event(name, message, fields),
        false => write(&steady(Level::Info, message)),
    }
}

/// Says why the command ends, in JSON with its exit code.
pub(crate) fn failure(message: &str, hint: Option<&str>, exit_code: u8) {
    if is_json() {
        let hint = hint.map(redacted);
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
        message: &redacted(message),
        fields,
    };
    // Strings and numbers are always JSON.
    let json = serde_json::to_string(&line).unwrap_or_default();
    write(&(escaped(&json) + "\n"));
}

/// The JSON with escapes for characters that could steer a terminal. They are in strings only: nothing else has them.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match is_hidden(c) {
            true => {
                let mut units = [0; 2];
                let units = c.encode_utf16(&mut units).iter();
                out.extend(units.map(|unit| format!("\\u{unit:04x}")));
            }
            false => out.push(c),
        }
    }
    out
}

/// Lines for people, without characters that could steer a terminal, and without secrets.
fn text(level: Level, message: &str) -> String {
    steady(level, &redacted(message))
}

/// Lines for people, without characters that could steer a terminal.
fn steady(level: Level, message: &str) -> String {
    let shown = message.chars().filter(|c| *c == '\n' || !is_hidden(*c));
    format!("{}{}\n", level.prefix(), shown.collect::<String>())
}

/// Writes at once, so that lines of two threads do not mix. Ignores a closed standard error: the exit code still says
/// how the command ended.
fn write(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_can_steer_a_terminal() {
        let hostile = "a\u{9b}31mb\u{202e}c\x1b\u{200d}\nd";
        assert_eq!(text(Level::Warning, hostile), "warning: a31mbc\nd\n");
        let json = escaped(&serde_json::to_string(hostile).unwrap());
        assert!(!json.contains(is_hidden), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
    }
}
