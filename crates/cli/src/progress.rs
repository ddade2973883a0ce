//! Progress on standard error: a bar on a terminal, plain lines elsewhere, or nothing.
//!
//! The time left is that of the running phase, and shown only where the phase knows how much it has to do:
//! the time of later phases depends on the peer.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use vesica::{Advice, Begin, Counts, Endpoint, Incident, Observer, Storage, rfc3339};
use vesica_files::many;
use vesica_session::Connection;

use crate::failure::InCommand;
use crate::log::{self, Level};
use crate::signals::Signals;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressMode {
    /// A bar on a terminal, plain lines elsewhere
    Auto,
    /// A line for every step
    Plain,
    /// Nothing
    None,
}

/// Shows a run.
pub(crate) struct Progress {
    view: View,
    pace: Pace,
    signals: Signals,
}

#[derive(Clone)]
enum View {
    Bar(ProgressBar),
    Plain,
    Nothing,
}

impl View {
    /// Lets `f` print a line.
    fn aside(&self, f: impl FnOnce()) {
        match self {
            View::Bar(bar) => bar.suspend(f),
            View::Plain | View::Nothing => f(),
        }
    }

    /// Prints a line that is not about progress.
    fn say(&self, level: Level, text: &str) {
        self.aside(|| log::say(level, text));
    }

    /// Prints a line about something that programs know by name.
    fn event(&self, name: &str, text: &str, fields: &Value) {
        self.aside(|| log::event(name, text, fields));
    }
}

impl Progress {
    /// Shows a run that begins with `first`.
    pub(crate) fn new(mode: ProgressMode, signals: Signals, first: &str) -> Progress {
        let view = match mode {
            ProgressMode::None => View::Nothing,
            ProgressMode::Auto if std::io::stderr().is_terminal() && !log::is_json() => {
                View::Bar(bar())
            }
            ProgressMode::Auto | ProgressMode::Plain => View::Plain,
        };
        let progress = Progress {
            view,
            pace: Pace::new("", Instant::now()),
            signals,
        };
        progress.now("step", first, &Value::Null);
        progress
    }

    /// Ends the display, so that other text can follow.
    pub(crate) fn finish(&self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }

    /// Reports what happens while a peer is awaited at once, in every progress mode: a fingerprint may be mistyped, and
    /// somebody is waiting.
    pub(crate) fn incidents(&self) -> impl Fn(&Incident) + Send + Sync + 'static {
        let view = self.view.clone();
        move |incident| view.event(incident.name(), &incident.to_string(), &Value::Null)
    }

    /// Sets what is going on from now on.
    fn now(&self, name: &str, text: &str, fields: &Value) {
        match &self.view {
            View::Bar(bar) => bar.set_message(text.to_owned()),
            View::Plain => log::event(name, text, fields),
            View::Nothing => {}
        }
    }

    /// Shows the progress of the running phase.
    fn tell(&mut self) {
        let now = Instant::now();
        match &self.view {
            View::Bar(bar) => bar.set_prefix(self.pace.text(now)),
            View::Plain if self.pace.due(now) => {
                let text = format!("phase: {}, {}", self.pace.phase, self.pace.text(now));
                log::event("progress", &text, &self.pace.fields());
            }
            View::Plain | View::Nothing => {}
        }
    }

    /// Prints a line that stays, unless progress is switched off.
    fn note(&self, name: &str, text: &str, fields: &Value) {
        match &self.view {
            View::Nothing => {}
            view => view.event(name, text, fields),
        }
    }
}

/// Without a total there is nothing to fill a bar with.
const UNKNOWN: &str = "{spinner} {elapsed:>4} {msg} {prefix:.dim}";

/// With a total, the share of it.
const KNOWN: &str = "{spinner} {elapsed:>4} {msg} [{bar:24}] {prefix:.dim}";

fn style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    style(&bar, UNKNOWN);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// The progress of a phase.
struct Pace {
    phase: &'static str,
    began: Instant,
    /// When a line about it was last printed.
    told: Instant,
    /// Bytes sent and received before the phase, and so far.
    bytes: [u64; 2],
    /// The current step, if its size is known.
    step: Option<Step>,
}

struct Step {
    began: Instant,
    done: u64,
    total: u64,
}

/// Time between two lines about one phase.
const QUIET: Duration = Duration::from_secs(5);

/// Shortest time to extrapolate from.
const WARM_UP: Duration = Duration::from_millis(500);

impl Pace {
    fn new(phase: &'static str, now: Instant) -> Pace {
        Pace {
            phase,
            began: now,
            told: now,
            bytes: [0; 2],
            step: None,
        }
    }

    fn begin(&mut self, phase: &'static str, now: Instant) {
        *self = Pace {
            bytes: [self.bytes[1]; 2],
            ..Pace::new(phase, now)
        };
    }

    /// `done` of `total` is done. A smaller `done` than before, or another total, begins a new step.
    fn step(&mut self, done: u64, total: u64, now: Instant) {
        match &mut self.step {
            Some(step) if step.total == total && step.done <= done => step.done = done,
            _ => {
                // What the first report counts as done has taken the time since the phase began.
                let began = self.step.as_ref().map_or(self.began, |_| now);
                self.step = Some(Step { began, done, total });
            }
        }
    }

    /// Whether a line is due; if so, records it as printed.
    fn due(&mut self, now: Instant) -> bool {
        let due = now.duration_since(self.told) >= QUIET;
        if due {
            self.told = now;
        }
        due
    }

    /// What programs read instead of the text.
    fn fields(&self) -> Value {
        json!({
            "phase": self.phase,
            "bytes": self.bytes[1] - self.bytes[0],
            "done": self.step.as_ref().map(|step| step.done),
            "total": self.step.as_ref().map(|step| step.total),
        })
    }

    /// Share done, rate and time left, as far as they are known.
    fn text(&self, now: Instant) -> String {
        let mut parts = Vec::new();
        let seconds = |since: Instant| {
            let time = now.duration_since(since);
            (time >= WARM_UP).then_some(time.as_secs_f64())
        };
        if let Some(step) = &self.step {
            parts.push(format!("{} %", 100 * step.done / step.total.max(1)));
        }
        let bytes = self.bytes[1] - self.bytes[0];
        match (seconds(self.began), &self.step) {
            (Some(time), _) if bytes > 0 => {
                let rate = (bytes as f64 / time) as u64;
                parts.push(format!("{}/s", HumanBytes(rate)));
            }
            (Some(time), Some(step)) if step.done > 0 => {
                let rate = (step.done as f64 / time) as u64;
                parts.push(format!("{} items/s", HumanCount(rate)));
            }
            _ => {}
        }
        if let Some(step) = &self.step
            && let Some(time) = seconds(step.began)
            && step.done > 0
        {
            let left = step.total.saturating_sub(step.done) as f64 / step.done as f64 * time;
            parts.push(format!("{} left", clock(left)));
        }
        parts.join(", ")
    }
}

/// A time in its most readable unit.
fn clock(seconds: f64) -> String {
    let seconds = seconds.ceil() as u64;
    match seconds {
        0..=99 => format!("{seconds} s"),
        100..=5999 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// What is said of a table whose reader waited for its bytes half of the time or more, unless that was short.
fn bound_by_bytes(waited: Duration, all: Duration) -> Option<String> {
    let is_bound = all >= Duration::from_secs(1) && 2 * waited >= all;
    let [waited, all] = [waited, all].map(|time| clock(time.as_secs_f64()));
    is_bound.then(|| {
        format!(
            "reading was bound by the disk or what else the table comes from: {waited} of {all}"
        )
    })
}

impl vesica::Progress for Progress {
    fn phase(&mut self, name: &'static str) {
        self.pace.begin(name, Instant::now());
        if let View::Bar(bar) = &self.view {
            style(bar, UNKNOWN);
            bar.set_prefix("");
        }
        self.now("phase", &format!("phase: {name}"), &json!({"phase": name}));
    }

    fn begin(&mut self, begin: Begin, buckets: u32) {
        match begin {
            Begin::Afresh => {}
            Begin::After(done) => {
                let text = format!("going on after bucket {done} of {buckets}");
                self.view.say(Level::Info, &text);
            }
            Begin::Over(why) => self.view.say(Level::Info, &format!("starting over: {why}")),
        }
    }

    fn bucket(&mut self, number: u32, of: u32) {
        let fields = json!({"bucket": number, "buckets": of});
        self.note("bucket", &format!("bucket {number} of {of}"), &fields);
    }

    fn bytes(&mut self, sent: u64, received: u64) {
        self.pace.bytes[1] = sent + received;
        self.tell();
    }

    fn step(&mut self, done: u64, total: u64) {
        let known = self.pace.step.is_some();
        self.pace.step(done, total, Instant::now());
        if let View::Bar(bar) = &self.view {
            if !known {
                style(bar, KNOWN);
            }
            bar.set_length(total);
            bar.set_position(done);
        }
        self.tell();
    }
}

impl Observer for Progress {
    fn storage(&mut self, storage: &Storage) {
        let fields = json!({
            "rows": storage.rows,
            "memory": storage.memory,
            "disk": storage.disk,
            "free": storage.free,
        });
        self.note("storage", &storage.to_string(), &fields);
    }

    fn waited(&mut self, waited: Duration, all: Duration) {
        if let Some(text) = bound_by_bytes(waited, all) {
            let [waited, all] = [waited, all].map(|time| time.as_secs_f64());
            self.note("waited", &text, &json!({"waited": waited, "seconds": all}));
        }
    }

    fn read(&mut self, counts: &Counts) {
        // From here on there may be files to remove and soon a peer to tell.
        self.signals.stop_in_order();
        let [rows, items] = [(counts.rows, "row"), (counts.items, "distinct item")]
            .map(|(count, what)| many(count, what));
        let text = format!("read {rows}, {items}");
        self.note(
            "read",
            &text,
            &json!({"rows": counts.rows, "items": counts.items}),
        );
    }

    fn listening(&mut self, address: SocketAddr) {
        // Shown in every mode: with port 0 nobody could connect without it.
        let fields = json!({"address": address.to_string()});
        self.view
            .event("listening", &format!("listening on {address}"), &fields);
        self.now("step", "waiting for the peer", &Value::Null);
    }

    fn connecting(&mut self, endpoint: &Endpoint) {
        self.now("step", &format!("connecting to {endpoint}"), &Value::Null);
    }

    fn connected(&mut self, connection: &Connection) {
        if let Some(peer) = connection.peer {
            let fields = json!({"peer": peer.to_string()});
            self.note("connected", &format!("connected to {peer}"), &fields);
        }
    }

    fn warning(&mut self, warning: &Advice) {
        self.view.say(Level::Warning, &warning.spelled(&InCommand));
    }

    fn answered(&mut self, computed: SystemTime) {
        let computed = rfc3339(computed);
        let text = format!("the answer was found at {computed}; writing it without the peer");
        self.view.say(Level::Info, &text);
    }

    fn resumed(&mut self, done: u64, keys: u64) {
        let text = format!("an earlier run has done {done} of {keys} keys; going on from there");
        let fields = json!({"done": done, "keys": keys});
        self.view.event("resumed", &text, &fields);
    }

    fn writing(&mut self) {
        self.now("step", "writing the rows", &Value::Null);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_without_a_total_tells_its_rate_only() {
        let start = Instant::now();
        let mut pace = Pace::new("contract", start);
        pace.bytes = [0, 4096];
        pace.begin("oprf", start);
        assert_eq!(pace.text(start + Duration::from_secs(2)), "");
        pace.bytes[1] += 2 << 20;
        assert_eq!(pace.text(start + Duration::from_millis(100)), "");
        assert_eq!(pace.text(start + Duration::from_secs(2)), "1.00 MiB/s");
    }

    #[test]
    fn a_phase_with_a_total_tells_the_time_left() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut pace = Pace::new("oprf", start);
        pace.step(250, 1000, after(10));
        assert_eq!(pace.text(after(10)), "25 %, 25 items/s, 30 s left");
        pace.bytes[1] = 10 << 10;
        assert_eq!(pace.text(after(10)), "25 %, 1.00 KiB/s, 30 s left");
        pace.step(1000, 1000, after(40));
        assert_eq!(pace.text(after(40)), "100 %, 256 B/s, 0 s left");
        // Another total is another step, whose time begins now.
        pace.step(0, 500, after(40));
        assert_eq!(pace.text(after(40)), "0 %, 256 B/s");
        pace.step(100, 500, after(50));
        assert_eq!(pace.text(after(50)), "20 %, 204 B/s, 40 s left");
        // Nothing to do is no reason to divide by it.
        pace.step(0, 0, after(50));
        assert_eq!(pace.text(after(60)), "0 %, 170 B/s");
    }

    #[test]
    fn lines_are_seconds_apart() {
        let start = Instant::now();
        let mut pace = Pace::new("masks", start);
        let due: Vec<u64> = (0..16)
            .filter(|s| pace.due(start + Duration::from_secs(*s)))
            .collect();
        assert_eq!(due, [5, 10, 15]);
    }

    #[test]
    fn a_reader_that_waits_half_of_the_time_is_bound() {
        let of = |waited, all| {
            let [waited, all] = [waited, all].map(Duration::from_millis);
            bound_by_bytes(waited, all)
        };
        assert_eq!(of(900, 999), None);
        assert_eq!(of(4999, 10_000), None);
        let text = "reading was bound by the disk or what else the table comes from: 5 s of 10 s";
        assert_eq!(of(5000, 10_000).as_deref(), Some(text));
        assert!(of(10_001, 10_000).is_some());
    }

    #[test]
    fn times_have_a_fitting_unit() {
        let cases = [
            (0.2, "1 s"),
            (99.0, "99 s"),
            (100.0, "2 min"),
            (5940.0, "99 min"),
            (9000.0, "2 h 30 min"),
        ];
        for (seconds, text) in cases {
            assert_eq!(clock(seconds), text);
        }
    }
}
