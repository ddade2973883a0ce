//! Progress on standard error: a bar on a terminal, plain lines elsewhere, or nothing.
//!
//! The bar is one for the whole run: what is going on in a user's words, the share that is done and the time that is left. These
//! are the planner's forecast at first, and the more bytes have passed of those that the contract determines, the more what
//! these have taken. Plain lines have the names of the protocol's phases; the time left in them is that of the running phase.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};

use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use vesica::tables::Counts;
use vesica::{Endpoint, Event, Observer, Storage};
use vesica_files::{Advice, many};
use vesica_plan::Machines;
use vesica_session::terms::RECEIPTS;
use vesica_session::{Begin, Connection, Contract, Incident, Link, Registry, rfc3339};

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
    /// What is expected of the run, once it is agreed.
    expected: Option<Expected>,
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
            expected: None,
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
        match (&self.view, &mut self.expected) {
            (View::Bar(bar), Some(expected)) => {
                let (share, text) = expected.ahead(self.pace.bytes[1], now);
                bar.set_position((share * WHOLE as f64) as u64);
                bar.set_prefix(text);
            }
            (View::Bar(bar), None) => bar.set_prefix(self.pace.text(now)),
            (View::Plain, _) if self.pace.due(now) => {
                let text = format!("phase: {}, {}", self.pace.phase, self.pace.text(now));
                log::event("progress", &text, &self.pace.fields());
            }
            (View::Plain | View::Nothing, _) => {}
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

/// Parts of a bar for a whole run.
const WHOLE: u64 = 1000;

/// The share of a run that it has not reached before it is over.
const MOST: f64 = 0.99;

/// What goes on in a phase of this name, for who does not know the protocol.
fn in_words(phase: &'static str) -> &'static str {
    match phase {
        "contract" => "agreeing with the peer",
        "the peer reads its table" => "waiting until the peer has read its table",
        "masks" | "membership" | "comparison" | "function" | "opening" => "comparing",
        "files of the set" => "fetching the set",
        "look-up" => "asking the server",
        "publish" | "add" | "remove" => "publishing",
        "attempt" | "attempts" | "manifest" | "keys of tasks" => "agreeing on the tasks",
        "done" => "finishing",
        _ => "exchanging",
    }
}

/// What the planner expects of a run.
struct Expected {
    began: Instant,
    seconds: f64,
    /// Bytes both ways.
    bytes: u64,
    /// The largest share that was told.
    share: f64,
}

impl Expected {
    /// Of the run under a contract; `None` for one that the planner does not know.
    fn of(contract: &Contract) -> Option<Expected> {
        let sizes = [contract.receiver_size, contract.sender_size];
        let columns = contract.sender_values.len().clamp(1, usize::from(u8::MAX)) as u8;
        let request = contract.terms.request(|_| true, sizes, columns, Link::LAN);
        let (request, protocol) = (request.ok()?, Registry::standard().get(&contract.protocol)?);
        let optimize = request.optimize?;
        let machines = Machines::new(None, None);
        let forecast = machines.forecast(protocol, contract.runs, optimize, &request, &[])?;
        let labels = contract.labels.as_ref().map_or(0, |labels| labels.bytes);
        let bytes = forecast.bytes.total() + u64::from(labels) * contract.sender_size;
        // What an earlier run has done is not done again.
        let rest = 1.0 - f64::from(contract.resumed_after) / f64::from(contract.buckets.max(1));
        Some(Expected {
            began: Instant::now(),
            seconds: forecast.seconds.likely * rest,
            bytes: (bytes as f64 * rest) as u64,
            share: 0.0,
        })
    }

    /// The seconds that are left once this share of the bytes has passed in so many seconds.
    fn left(&self, passed: f64, elapsed: f64) -> f64 {
        let rest = 1.0 - passed;
        let by_pace = (elapsed / passed.max(f64::EPSILON) * rest).min(MOST_LEFT * elapsed);
        // Early on few bytes say little of the pace.
        match self.seconds - elapsed {
            forecast if forecast > 0.0 => {
                passed * by_pace + rest * forecast.min(rest * self.seconds)
            }
            _ => by_pace,
        }
    }

    /// The share that is done after so many bytes, and the same in words with the time that is left.
    fn ahead(&mut self, bytes: u64, now: Instant) -> (f64, String) {
        let elapsed = now.duration_since(self.began).as_secs_f64();
        let passed = (bytes as f64 / self.bytes.max(1) as f64).min(1.0);
        let left = self.left(passed, elapsed);
        let share = elapsed / (elapsed + left).max(f64::EPSILON);
        self.share = share.min(MOST).max(self.share);
        let mut text = format!("{:.0} %", (100.0 * self.share).floor());
        if elapsed >= WARM_UP.as_secs_f64() {
            let rate = HumanBytes((bytes as f64 / elapsed) as u64);
            text.push_str(&format!(", {rate}/s, some {} left", clock(left)));
        }
        (self.share, text)
    }
}

/// How many times what has passed is left at most, where hardly any bytes say so.
const MOST_LEFT: f64 = 10.0;

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

impl Progress {
    fn phase(&mut self, name: &'static str) {
        self.pace.begin(name, Instant::now());
        match (&self.view, &self.expected) {
            (View::Bar(bar), None) => {
                style(bar, UNKNOWN);
                bar.set_prefix("");
                bar.set_message(in_words(name));
            }
            (View::Bar(bar), Some(_)) => bar.set_message(in_words(name)),
            _ => self.now("phase", &format!("phase: {name}"), &json!({"phase": name})),
        }
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
        // A bar says how far the whole run is.
        if let View::Plain = &self.view {
            let fields = json!({"bucket": number, "buckets": of});
            self.note("bucket", &format!("bucket {number} of {of}"), &fields);
        }
    }

    fn bytes(&mut self, sent: u64, received: u64) {
        self.pace.bytes[1] = sent + received;
        self.tell();
    }

    fn step(&mut self, done: u64, total: u64) {
        let known = self.pace.step.is_some();
        self.pace.step(done, total, Instant::now());
        if let (View::Bar(bar), None) = (&self.view, &self.expected) {
            if !known {
                style(bar, KNOWN);
            }
            bar.set_length(total);
            bar.set_position(done);
        }
        self.tell();
    }

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

    pub(crate) fn listening(&mut self, address: SocketAddr) {
        // Shown in every mode: with port 0 nobody could connect without it.
        let fields = json!({"address": address.to_string()});
        self.view
            .event("listening", &format!("listening on {address}"), &fields);
        self.now("step", "waiting for the peer", &Value::Null);
    }

    pub(crate) fn connecting(&mut self, endpoint: &Endpoint) {
        self.now("step", &format!("connecting to {endpoint}"), &Value::Null);
    }

    pub(crate) fn connected(&mut self, connection: &Connection) {
        if let Some(peer) = connection.peer {
            let proxy = connection.proxy.as_deref();
            let fields = json!({"peer": peer.to_string(), "proxy": proxy});
            let through =
                proxy.map_or(String::new(), |proxy| format!(" through the proxy {proxy}"));
            self.note(
                "connected",
                &format!("connected to {peer}{through}"),
                &fields,
            );
        }
    }

    fn agreed(&mut self, contract: &Contract) {
        for (whose, purpose) in [
            ("receiver", &contract.receiver_purpose),
            ("sender", &contract.sender_purpose),
        ] {
            if !purpose.is_empty() {
                let text = format!("purpose of the {whose}: \"{}\"", purpose.escape_debug());
                let fields = json!({"role": whose, "purpose": purpose});
                self.view.event("purpose", &text, &fields);
            }
        }
        if contract.get(&RECEIPTS) {
            let text = "both sides sign receipts of this run, which can be shown to others";
            self.view.say(Level::Info, text);
        }
        let View::Bar(bar) = &self.view else { return };
        self.expected = Expected::of(contract);
        if self.expected.is_some() {
            style(bar, KNOWN);
            bar.set_length(WHOLE);
            bar.set_position(0);
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
        if let View::Bar(bar) = &self.view {
            style(bar, UNKNOWN);
            bar.set_prefix("");
        }
        self.now("step", "writing the rows", &Value::Null);
    }
}

impl Observer for Progress {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Storage(storage) => self.storage(storage),
            Event::Waited { waited, all } => self.waited(waited, all),
            Event::Read(counts) => self.read(counts),
            Event::Listening(address) => self.listening(address),
            Event::Connecting(endpoint) => self.connecting(endpoint),
            Event::Connected(connection) => self.connected(connection),
            Event::Agreed(contract) => self.agreed(contract),
            Event::Answered(computed) => self.answered(computed),
            Event::Resumed { done, keys } => self.resumed(done, keys),
            Event::Warning(warning) => self.warning(warning),
            Event::Begin { begin, buckets } => self.begin(begin, buckets),
            Event::Bucket { number, of } => self.bucket(number, of),
            Event::Phase(name) => self.phase(name),
            Event::Bytes { sent, received } => self.bytes(sent, received),
            Event::Step { done, total } => self.step(done, total),
            Event::Writing => self.writing(),
            _ => {}
        }
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
    fn the_time_left_is_the_forecast_and_then_what_was_seen() {
        let start = Instant::now();
        let mut expected = Expected {
            began: start,
            seconds: 10.0,
            bytes: 1000,
            share: 0.0,
        };
        let mut ahead =
            |bytes, millis| expected.ahead(bytes, start + Duration::from_millis(millis));
        assert_eq!(ahead(0, 0), (0.0, "0 %".to_owned()));
        assert_eq!(
            ahead(0, 1000),
            (0.1, "10 %, 0 B/s, some 9 s left".to_owned())
        );
        // Twice as slow as expected.
        let (share, text) = ahead(500, 10_300);
        assert!((0.49..0.51).contains(&share), "{share}");
        assert_eq!(text, "50 %, 48 B/s, some 11 s left");
        // It never goes back, nor to the end before that is there.
        assert_eq!(ahead(510, 30_000).0.max(share), ahead(510, 30_000).0);
        assert_eq!(ahead(1000, 30_000).0, MOST);
        assert_eq!(ahead(2000, 31_000).0, MOST);
    }

    /// Near the end of runs that are much faster or slower than was forecast, it is what their bytes say.
    #[test]
    fn a_wrong_forecast_is_corrected() {
        for (seconds, elapsed, passed, expected) in [
            (100.0, 9.0, 0.9, 1.0..2.0),
            (100.0, 20.0, 0.99, 0.0..0.5),
            (10.0, 100.0, 0.1, 899.0..901.0),
            (10.0, 100.0, 0.9, 11.0..11.2),
            (10.0, 5.0, 0.0, 4.9..5.1),
            (10.0, 1.0, 1e-9, 8.9..10.1),
            (10.0, 20.0, 1e-9, 199.0..201.0),
            (10.0, 5.0, 1.0, 0.0..0.001),
        ] {
            let run = Expected {
                began: Instant::now(),
                seconds,
                bytes: 1000,
                share: 0.0,
            };
            let left = run.left(passed, elapsed);
            assert!(
                expected.contains(&left),
                "{seconds} {elapsed} {passed}: {left}"
            );
        }
    }

    #[test]
    fn phases_have_words() {
        for phase in [
            "contract",
            "correlations",
            "masks",
            "done",
            "the peer reads its table",
        ] {
            let words = in_words(phase);
            assert!(!words.is_empty() && words != phase);
        }
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
