//! Progress on standard error: a bar on a terminal, plain lines elsewhere, or nothing.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use vesica::{Counts, Endpoint, Observer};
use vesica_session::Connection;

use crate::args::ProgressMode;
use crate::signals::Signals;

/// Shows a run, and remembers what the summary wants to know of it.
pub(crate) struct Progress {
    view: View,
    signals: Signals,
    /// What was read.
    pub(crate) counts: Counts,
    /// Rows that were written.
    pub(crate) rows_written: u64,
}

enum View {
    Bar(ProgressBar),
    Plain,
    Nothing,
}

impl Progress {
    pub(crate) fn new(mode: ProgressMode, signals: Signals) -> Progress {
        let view = match mode {
            ProgressMode::None => View::Nothing,
            ProgressMode::Auto if std::io::stderr().is_terminal() => View::Bar(bar()),
            ProgressMode::Auto | ProgressMode::Plain => View::Plain,
        };
        let progress = Progress {
            view,
            signals,
            counts: Counts::default(),
            rows_written: 0,
        };
        progress.step("reading the table");
        progress
    }

    /// Ends the display, so that other text can follow.
    pub(crate) fn finish(&self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }

    /// What is going on from now on.
    fn step(&self, text: &str) {
        match &self.view {
            View::Bar(bar) => bar.set_message(text.to_owned()),
            View::Plain => line(text),
            View::Nothing => {}
        }
    }

    /// What stays to be read.
    fn note(&self, text: &str) {
        match &self.view {
            View::Bar(bar) => bar.suspend(|| line(text)),
            View::Plain => line(text),
            View::Nothing => {}
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed:>4} {msg} {prefix:.dim}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}

/// Prints a line; with standard error gone there is nobody to tell.
fn line(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

impl Observer for Progress {
    fn read(&mut self, counts: &Counts) {
        self.counts = *counts;
        self.note(&format!(
            "read {} rows, {} distinct items",
            counts.rows, counts.items
        ));
        // From here on something may have to be removed, and soon somebody be told.
        self.signals.stop_in_order();
    }

    fn listening(&mut self, address: SocketAddr) {
        // Not a matter of progress: with port 0 nobody could connect without it.
        match &self.view {
            View::Nothing => line(&format!("listening on {address}")),
            _ => self.note(&format!("listening on {address}")),
        }
        self.step("waiting for the peer");
    }

    fn connecting(&mut self, endpoint: &Endpoint) {
        let (Endpoint::Connect(address) | Endpoint::Listen(address)) = endpoint;
        self.step(&format!("connecting to {address}"));
    }

    fn connected(&mut self, connection: &Connection) {
        for refused in &connection.refused {
            self.note(&format!("turned away: {refused}"));
        }
        if let Some(peer) = connection.peer {
            self.note(&format!("connected to {peer}"));
        }
    }

    fn phase(&mut self, name: &'static str) {
        self.step(&format!("phase: {name}"));
    }

    fn bytes(&mut self, sent: u64, received: u64) {
        if let View::Bar(bar) = &self.view {
            bar.set_prefix(format!(
                "{} sent, {} received",
                HumanBytes(sent),
                HumanBytes(received)
            ));
        }
    }

    fn writing(&mut self) {
        self.step("writing the matching rows");
    }

    fn wrote(&mut self, rows: u64) {
        self.rows_written = rows;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
