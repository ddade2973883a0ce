//! How long a command waits.

use std::time::Duration;

use clap::Args;
use vesica::{ConnectOptions, OnIncident};

use crate::conditions::Conditions;
use crate::progress::Progress;
use crate::signals::Signals;

/// How long to wait.
#[derive(Debug, Args)]
pub(crate) struct Patience {
    /// Longest wait for a peer to connect, counted from when this side is ready itself. Others who connect are turned
    /// away and named, and the wait goes on
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) wait: Duration,
    /// Longest silence of a peer once it is connected. A working peer says every second that it is alive, so this need
    /// not cover its longest computation
    #[arg(help_heading = "Peer", long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
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

/// A number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let problem = "give a number of seconds, more than 0 and at most 1000000";
    let seconds: f64 = text.parse().map_err(|_| problem.to_owned())?;
    if seconds > 0.0 && seconds <= 1e6 {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(problem.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_positive_and_finite() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(seconds("0").is_err() && seconds("nan").is_err() && seconds("1e300").is_err());
    }
}
