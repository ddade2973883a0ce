//! Emulated links: a bandwidth and a round-trip time for each direction of a connection.

use std::fmt;
use std::time::Duration;

/// Bandwidth and latency of one direction of a connection, as benchmarks emulate them.
///
/// Each party shapes what it sends: bytes leave at `bits_per_second` and arrive half of `rtt` later. Frames
/// are pipelined, so latency is paid once per burst and not once per frame. At most
/// [`ChannelOptions::queue_bytes`](crate::ChannelOptions::queue_bytes) are on their way at once, 4 MiB by default, which
/// is as much as 839 Mb/s take to arrive with a round trip of 80 ms. Only frames are shaped; TLS records add about 0.2 %
/// that is not slowed down.
///
/// As text: the bandwidth, or `lan` for no limit, and the round trip, unless it is 0: `272mbps-80ms`, `lan-5ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Bits that leave each second; `None` for no limit.
    pub bits_per_second: Option<u64>,
    /// Time for a byte to go to the peer and back.
    pub rtt: Duration,
}

/// A link over which a paper measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedLink {
    /// That of the link as text.
    pub name: &'static str,
    /// Bandwidth and round trip.
    pub link: Link,
    /// Who measures over it, and what is assumed.
    pub source: &'static str,
}

const NONE: Duration = Duration::ZERO;
const FAR: Duration = Duration::from_millis(80);

const fn named(
    name: &'static str,
    bits_per_second: Option<u64>,
    rtt: Duration,
    source: &'static str,
) -> NamedLink {
    NamedLink {
        name,
        link: Link::new(bits_per_second, rtt),
        source,
    }
}

impl Link {
    /// No shaping: as fast as the machine's loopback or network.
    pub const LAN: Link = Link::new(None, NONE);

    /// The links with names, the fastest first. Papers that give no round trip are taken to have none.
    pub const NAMED: [NamedLink; 12] = [
        named("lan", None, NONE, "nothing is slowed down"),
        named(
            "10gbps-0.2ms",
            Some(10_000_000_000),
            Duration::from_micros(200),
            "PRTY19 and RT21, LAN",
        ),
        named(
            "5gbps",
            Some(5_000_000_000),
            NONE,
            "KBM23, which gives no round trip",
        ),
        named(
            "3gbps-0.3ms",
            Some(3_000_000_000),
            Duration::from_micros(300),
            "CGS22, LAN: 375 MB/s",
        ),
        named(
            "1gbps",
            Some(1_000_000_000),
            NONE,
            "KBM23, which gives no round trip",
        ),
        named(
            "272mbps-80ms",
            Some(272_000_000),
            FAR,
            "CGS22, WAN: 34 MB/s",
        ),
        named("100mbps-80ms", Some(100_000_000), FAR, "PRTY19, WAN"),
        named(
            "100mbps",
            Some(100_000_000),
            NONE,
            "KBM23 and LTSXQ26, which give no round trip",
        ),
        named("50mbps-80ms", Some(50_000_000), FAR, "RT21, WAN"),
        named("10mbps-80ms", Some(10_000_000), FAR, "PRTY19, WAN"),
        named(
            "10mbps",
            Some(10_000_000),
            NONE,
            "KBM23 and LTSXQ26, which give no round trip",
        ),
        named("1mbps-80ms", Some(1_000_000), FAR, "PRTY19 and RT21, WAN"),
    ];

    /// A link of that bandwidth, in bits per second, and that round-trip time.
    pub const fn new(bits_per_second: Option<u64>, rtt: Duration) -> Link {
        Link {
            bits_per_second,
            rtt,
        }
    }

    /// The link of that name; `None` when there is none.
    pub fn from_name(name: &str) -> Option<Link> {
        let mut named = Self::NAMED.iter();
        named.find(|named| named.name == name).map(|n| n.link)
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

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1_000_000_000, "g"), (1_000_000, "m"), (1_000, "k")];
        match self.bits_per_second {
            None => write!(f, "lan")?,
            Some(rate) => {
                let (unit, name) = units
                    .into_iter()
                    .find(|(unit, _)| rate % unit == 0)
                    .unwrap_or((1, ""));
                write!(f, "{}{name}bps", rate / unit)?;
            }
        }
        match self.rtt.is_zero() {
            true => Ok(()),
            false => write!(f, "-{}ms", self.rtt.as_secs_f64() * 1000.0),
        }
    }
}
