//! From the thread of a run to Python: progress, and warnings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use vesica::session::{Begin, Incident};
use vesica::tables::redacted;
use vesica::{Event, Observer};

use crate::errors::InPython;

/// How far a run is.
#[derive(Clone, Debug, Default)]
struct Snapshot {
    stage: &'static str,
    /// Of `total` items of the stage's current step, `done` are done.
    step: Option<(u64, u64)>,
    /// The number of the bucket, counted from 1, and how many there are.
    bucket: Option<(u32, u32)>,
    sent: u64,
    received: u64,
}

#[derive(Debug, Default)]
struct State {
    now: Snapshot,
    /// Whether `now` has changed since it was told.
    changed: bool,
    /// The last snapshots of stages that are over, which were not told yet.
    past: Vec<Snapshot>,
    warnings: Vec<String>,
}

/// What a run says, until Python hears it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<State>>);

impl Events {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn warn(&self, text: String) {
        self.lock().warnings.push(redacted(&text).into_owned());
    }

    /// What hears of incidents while the peer is awaited.
    pub(crate) fn incidents(&self) -> impl Fn(&Incident) + Send + Sync + 'static {
        let events = self.clone();
        move |incident| events.warn(incident.to_string())
    }

    /// A stage begins.
    pub(crate) fn stage(&self, stage: &'static str) {
        let mut state = self.lock();
        if state.changed {
            let over = state.now.clone();
            state.past.push(over);
        }
        state.now.stage = stage;
        state.now.step = None;
        state.changed = true;
    }

    fn change(&self, f: impl FnOnce(&mut Snapshot)) {
        let mut state = self.lock();
        f(&mut state.now);
        state.changed = true;
    }

    /// Tells Python what it has not heard: `listener` has methods `warn(text)` and
    /// `progress(stage, done, total, bucket, buckets, bytes_sent, bytes_received)`.
    pub(crate) fn tell(&self, listener: &Bound<'_, PyAny>) -> PyResult<()> {
        let (snapshots, warnings) = {
            let mut state = self.lock();
            let mut snapshots = std::mem::take(&mut state.past);
            if std::mem::take(&mut state.changed) {
                snapshots.push(state.now.clone());
            }
            (snapshots, std::mem::take(&mut state.warnings))
        };
        for text in warnings {
            listener.call_method1("warn", (text,))?;
        }
        for now in snapshots {
            let ((done, total), (bucket, buckets)) = (now.step.unzip(), now.bucket.unzip());
            let told = (
                now.stage,
                done,
                total,
                bucket,
                buckets,
                now.sent,
                now.received,
            );
            listener.call_method1("progress", told)?;
        }
        Ok(())
    }
}

impl Observer for Events {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Read(_) => self.stage("meeting"),
            Event::Connected(_) => self.stage("connected"),
            Event::Warning(warning) => self.warn(warning.spelled(&InPython)),
            Event::Begin {
                begin: Begin::Over(why),
                ..
            } => self.warn(format!("starting over: {why}")),
            Event::Bucket { number, of } => self.change(|now| now.bucket = Some((number, of))),
            Event::Phase(name) => self.stage(name),
            Event::Bytes { sent, received } => {
                self.change(|now| (now.sent, now.received) = (sent, received));
            }
            Event::Step { done, total } => self.change(|now| now.step = Some((done, total))),
            Event::Writing => self.stage("writing"),
            _ => {}
        }
    }
}
