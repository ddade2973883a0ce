//! How a channel behaves.

use std::time::Duration;

use crate::{Clock, Interrupt, Link};

/// How a [`FramedChannel`](crate::FramedChannel) behaves.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// Longest silence of the peer while this side waits for it; some multiple of the peer's `heartbeat`. A
    /// transfer that moves at least 64 KiB within this time may go on for as long as it takes.
    pub timeout: Duration,
    /// Longest wait for a peer that is alive but neither sends nor receives anything. A wait for an answer lasts longer by
    /// the time that the slowest tolerated link takes for what was sent since the peer's last frame, at most twelve hours.
    ///
    /// The peer's longest computation between two messages has to fit into it. A peer that only claims to be
    /// alive, or that waits for something this side never sent, is given up after this time.
    pub patience: Duration,
    /// Time between two heartbeats of this side while it has nothing else to send.
    pub heartbeat: Duration,
    /// Ends every blocked call when raised.
    pub interrupt: Interrupt,
    /// Bytes that may be queued before a send blocks; one frame may always be queued.
    pub queue_bytes: usize,
    /// Emulated link for what this side sends.
    pub link: Link,
    /// What waits and heartbeats go by.
    pub clock: Clock,
}

impl Default for ChannelOptions {
    /// Two minutes of silence, twelve hours without progress, a heartbeat every second, 4 MiB, no
    /// shaping.
    fn default() -> Self {
        ChannelOptions {
            timeout: Duration::from_secs(120),
            patience: Duration::from_secs(12 * 3600),
            heartbeat: Duration::from_secs(1),
            interrupt: Interrupt::new(),
            queue_bytes: 4 << 20,
            link: Link::LAN,
            clock: Clock::default(),
        }
    }
}
