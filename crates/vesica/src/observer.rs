//! Watching a job.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use vesica_files::Advice;
use vesica_session::{Begin, Connection, Contract, Endpoint, NoProgress, Progress};
use vesica_tables::Counts;

use crate::{Error, Storage};

/// Something that happens in a job, in the order of these variants: the first ones once each, from [`Event::Phase`] on as often
/// as it comes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// What the run is going to take, where keys have to be kept on the disk.
    Storage(&'a Storage),
    /// How long the reader of a table's keys waited for bytes: for a disk, a network or whoever writes a pipe
    /// ([`Source::wait_time`](vesica_tables::Source::wait_time)).
    Waited {
        /// That time.
        waited: Duration,
        /// How long reading them took in all.
        all: Duration,
    },
    /// The keys of the table have been read.
    Read(&'a Counts),
    /// The listening side waits for its peer at this address. It may come before the table is read.
    Listening(SocketAddr),
    /// The connecting side tries to reach its peer.
    Connecting(&'a Endpoint),
    /// The peer is connected and is the pinned one.
    Connected(&'a Connection),
    /// Both sides have agreed, and the run begins.
    Agreed(&'a Contract),
    /// An earlier run found the whole answer at this time but did not write its rows. This run writes them
    /// without the peer.
    Answered(SystemTime),
    /// An earlier run has done this much of all keys, and this one goes on from there.
    Resumed {
        /// Keys that are done.
        done: u64,
        /// All keys.
        keys: u64,
    },
    /// Something that the user should know but that does not end the run. It may come at any time.
    Warning(&'a Advice),
    /// After how many buckets the run begins, and how many there are.
    Begin {
        /// From which on.
        begin: Begin,
        /// How many there are.
        buckets: u32,
    },
    /// The run over a bucket begins. Only in runs of several buckets; a resumed run does not begin with the first.
    Bucket {
        /// Which it is, counted from 1.
        number: u32,
        /// How many there are.
        of: u32,
    },
    /// A phase of the run begins.
    Phase(&'static str),
    /// Bytes that have passed over the connections of the run so far, framing included.
    Bytes {
        /// To the peer.
        sent: u64,
        /// From the peer.
        received: u64,
    },
    /// Of the items of the phase's current step, so many are done. Another total, or fewer done, means that another step has
    /// begun.
    Step {
        /// Items that are done.
        done: u64,
        /// All of the step.
        total: u64,
    },
    /// The protocol is over and this side begins to write the matching rows.
    Writing,
    /// The result is complete under its name and has this many rows.
    Wrote(u64),
}

/// Hears of what happens in a job, on the thread that runs it. A closure is one:
///
/// ```
/// use vesica::{Event, Observer};
///
/// let mut show = |event: Event<'_>| {
///     if let Event::Phase(name) = event {
///         eprintln!("{name}");
///     }
/// };
/// let observer: &mut dyn Observer = &mut show;
/// # observer.event(Event::Writing);
/// ```
///
/// [`NoProgress`] hears nothing.
pub trait Observer: Send {
    /// Hears of it.
    fn event(&mut self, event: Event<'_>);

    /// Whether the run that both sides have [agreed](Event::Agreed) on may begin. Nothing that is derived from a key has been
    /// sent by then; the peer is told that this side cannot take part, and not why.
    ///
    /// # Errors
    /// What ends the run; nothing does unless the observer says so.
    fn consent(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl<F: FnMut(Event<'_>) + Send> Observer for F {
    fn event(&mut self, event: Event<'_>) {
        self(event);
    }
}

impl Observer for NoProgress {
    fn event(&mut self, _: Event<'_>) {}
}

/// Makes events of the crate `tracing` of those of a job: warnings, and at the levels `INFO` what happens once, `DEBUG` phases
/// and buckets, `TRACE` bytes and steps. Their target is `vesica`.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Traced;

#[cfg(feature = "tracing")]
impl Observer for Traced {
    fn event(&mut self, event: Event<'_>) {
        use tracing::{debug, info, trace, warn};
        match event {
            Event::Storage(storage) => info!(target: "vesica", "{storage}"),
            Event::Waited { waited, all } => {
                debug!(target: "vesica", ?waited, ?all, "waited for bytes of the table");
            }
            Event::Read(counts) => {
                let (rows, items) = (counts.rows, counts.items);
                info!(target: "vesica", rows, items, "read the table");
            }
            Event::Listening(address) => info!(target: "vesica", %address, "listening"),
            Event::Connecting(endpoint) => info!(target: "vesica", "connecting to {endpoint}"),
            Event::Connected(connection) => {
                let peer = connection.peer.map(|peer| peer.to_string());
                info!(target: "vesica", peer, "connected");
            }
            Event::Agreed(_) => info!(target: "vesica", "agreed"),
            Event::Answered(_) => info!(target: "vesica", "answered by an earlier run"),
            Event::Resumed { done, keys } => info!(target: "vesica", done, keys, "resumed"),
            Event::Warning(warning) => warn!(target: "vesica", "{warning}"),
            Event::Begin { begin, buckets } => debug!(target: "vesica", ?begin, buckets, "begin"),
            Event::Bucket { number, of } => debug!(target: "vesica", number, of, "bucket"),
            Event::Phase(phase) => debug!(target: "vesica", phase, "phase"),
            Event::Bytes { sent, received } => trace!(target: "vesica", sent, received, "bytes"),
            Event::Step { done, total } => trace!(target: "vesica", done, total, "step"),
            Event::Writing => info!(target: "vesica", "writing"),
            Event::Wrote(rows) => info!(target: "vesica", rows, "wrote"),
        }
    }
}

/// An observer as what hears of the progress of a run alone, for functions of the crates below.
pub struct OfRun<'a>(pub &'a mut dyn Observer);

/// Shows nothing of it.
impl std::fmt::Debug for OfRun<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OfRun").finish_non_exhaustive()
    }
}

impl Progress for OfRun<'_> {
    fn phase(&mut self, name: &'static str) {
        self.0.event(Event::Phase(name));
    }

    fn begin(&mut self, begin: Begin, buckets: u32) {
        self.0.event(Event::Begin { begin, buckets });
    }

    fn bucket(&mut self, number: u32, of: u32) {
        self.0.event(Event::Bucket { number, of });
    }

    fn bytes(&mut self, sent: u64, received: u64) {
        self.0.event(Event::Bytes { sent, received });
    }

    fn step(&mut self, done: u64, total: u64) {
        self.0.event(Event::Step { done, total });
    }
}
