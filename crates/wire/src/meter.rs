//! Counting bytes and time by phase.

use std::time::{Duration, Instant};

use crate::PhaseTraffic;

/// Name of the phase before the first [`crate::Channel::begin_phase`].
const FIRST: &str = "start";

#[derive(Debug)]
struct Phase {
    name: &'static str,
    sent: u64,
    received: u64,
    time: Duration,
}

/// Bytes and time of each phase. A phase that begins again continues its earlier counts.
#[derive(Debug)]
pub(crate) struct Meter {
    phases: Vec<Phase>,
    current: usize,
    since: Instant,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Meter {
            phases: Vec::new(),
            current: 0,
            since: Instant::now(),
        }
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.current().sent += bytes as u64;
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.current().received += bytes as u64;
    }

    pub(crate) fn begin(&mut self, name: &'static str) {
        let now = Instant::now();
        if let Some(phase) = self.phases.get_mut(self.current) {
            phase.time += now - self.since;
        }
        self.since = now;
        self.enter(name);
    }

    pub(crate) fn totals(&self) -> (u64, u64) {
        self.phases
            .iter()
            .fold((0, 0), |(s, r), p| (s + p.sent, r + p.received))
    }

    pub(crate) fn traffic(&self) -> Vec<PhaseTraffic> {
        self.phases
            .iter()
            .enumerate()
            .map(|(i, phase)| {
                let running = if i == self.current {
                    self.since.elapsed()
                } else {
                    Duration::ZERO
                };
                PhaseTraffic {
                    phase: phase.name.to_owned(),
                    bytes_sent: phase.sent,
                    bytes_received: phase.received,
                    seconds: (phase.time + running).as_secs_f64(),
                }
            })
            .collect()
    }

    fn current(&mut self) -> &mut Phase {
        if self.phases.is_empty() {
            self.enter(FIRST);
        }
        &mut self.phases[self.current]
    }

    fn enter(&mut self, name: &'static str) {
        self.current = match self.phases.iter().position(|p| p.name == name) {
            Some(i) => i,
            None => {
                self.phases.push(Phase {
                    name,
                    sent: 0,
                    received: 0,
                    time: Duration::ZERO,
                });
                self.phases.len() - 1
            }
        };
    }
}
