//! Emulated links: a bandwidth and a round-trip time for each direction of a connection.

use std::time::Duration;

/// Bandwidth and latency of one direction of a connection, as benchmarks emulate them.
///
/// Each party shapes what it sends: bytes leave at `bits_per_second` and arrive half of `rtt` later. Frames
/// are pipelined, so latency is paid once per burst and not once per frame. Only frames are shaped; TLS
/// records add about 0.2 % that is not slowed down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bits that leave each second; `None` for no limit.
    pub bits_per_second: Option<u64>,
    /// Time for a byte to go to the peer and back.
    pub rtt: Duration,
}

impl Link {
    /// No shaping: as fast as the machine's loopback or network.
    pub const LAN: Link = Link::new(None, 0);

    /// The named links: `lan`, `100mbps` and `10mbps` (no latency added), `50mbps-80ms`, `1mbps-80ms` (80 ms
    /// there and back).
    pub const NAMED: [(&'static str, Link); 5] = [
        ("lan", Link::LAN),
        ("100mbps", Link::new(Some(100_000_000), 0)),
        ("10mbps", Link::new(Some(10_000_000), 0)),
        ("50mbps-80ms", Link::new(Some(50_000_000), 80)),
        ("1mbps-80ms", Link::new(Some(1_000_000), 80)),
    ];

    /// A link of that bandwidth (bits per second) and round-trip time (milliseconds).
    pub const fn new(bits_per_second: Option<u64>, rtt_ms: u64) -> Link {
        Link {
            bits_per_second,
            rtt: Duration::from_millis(rtt_ms),
        }
    }

    /// The link of that name; `None` when there is none.
    pub fn from_name(name: &str) -> Option<Link> {
        Self::NAMED
            .into_iter()
            .find(|(n, _)| *n == name)
            .map(|(_, link)| link)
    }

    /// Whether the link slows anything down.
    pub fn is_shaped(&self) -> bool {
        self.bits_per_second.is_some() || !self.rtt.is_zero()
    }

    /// Bytes sent in one go: what the link sends in 20 ms, between 1 and 64 KiB.
    pub(crate) fn piece(&self) -> usize {
        match self.bits_per_second {
            Some(rate) => usize::try_from(rate / 400)
                .unwrap_or(usize::MAX)
                .clamp(1 << 10, 64 << 10),
            None => 64 << 10,
        }
    }

    /// Time that `bytes` bytes need to leave.
    pub fn transmission_time(&self, bytes: usize) -> Duration {
        match self.bits_per_second {
            Some(rate) if rate > 0 => {
                let nanos = bytes as u128 * 8 * 1_000_000_000 / u128::from(rate);
                Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
            }
            _ => Duration::ZERO,
        }
    }
}
