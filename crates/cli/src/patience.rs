//! How long a command waits.

use std::time::Duration;

use clap::Args;
use vesica::ConnectOptions;
use vesica::options::parse_duration;
use vesica_session::OnIncident;

use crate::conditions::Conditions;
use crate::progress::Progress;
use crate::signals::Signals;

/// How long to wait.
#[derive(Debug, Args)]
pub(crate) struct Patience {
    /// Longest wait for a peer to connect, counted from when this side is ready itself. Others who connect are turned
    /// away and named, and the wait goes on
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "120", value_parser = parse_duration)]
    pub(crate) wait: Duration,
    /// Longest silence of a peer once it is connected. A working peer says every second that it is alive, so this need
    /// not cover its longest computation
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "120", value_parser = parse_duration)]
    pub(crate) timeout: Duration,
}

impl Patience {
    pub(crate) fn options(
        &self,
        progress: &Progress,
        signals: &Signals,
        conditions: Conditions,
    ) -> ConnectOptions {
        ConnectOptions {
            wait: self.wait,
            timeout: self.timeout,
            on_incident: OnIncident::new(progress.incidents()),
            interrupt: signals.interrupt().clone(),
            link: conditions.link,
            ..ConnectOptions::default()
        }
    }
}
