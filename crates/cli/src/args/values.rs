//! The values of options.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vesica::options::{parse_bandwidth, parse_quote};
use vesica_session::Link;

/// The quote of CSV, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote(pub(super) Option<u8>);

pub(super) fn quote(text: &str) -> Result<Quote, vesica::Error> {
    parse_quote(text).map(Quote)
}

/// An emulated link.
#[derive(Clone, Debug, Args)]
pub(crate) struct Network {
    /// Emulated link, by the bandwidth of each direction and the round trip, which is not emulated if there is none
    #[arg(long, value_name = "NAME", default_value = "lan", value_parser = network())]
    network: Link,
    /// Bandwidth of each direction in place of that of --network, as 200mbps or 1.5gbps
    #[arg(long, value_name = "RATE", value_parser = parse_bandwidth)]
    bandwidth: Option<u64>,
    /// Round-trip time in place of that of --network, as 30ms or 0.5ms
    #[arg(long, value_name = "TIME", value_parser = rtt)]
    rtt: Option<Duration>,
}

impl Network {
    pub(crate) fn link(&self) -> Link {
        Link {
            bits_per_second: self.bandwidth.or(self.network.bits_per_second),
            rtt: self.rtt.unwrap_or(self.network.rtt),
        }
    }

    /// The options that give this link.
    pub(crate) fn words(&self) -> Vec<String> {
        let Link {
            bits_per_second,
            rtt,
        } = self.link();
        let rate = bits_per_second.map(|rate| ["--bandwidth".to_owned(), format!("{rate}bps")]);
        let rtt = ["--rtt".to_owned(), format!("{}us", rtt.as_micros())];
        rate.into_iter().flatten().chain(rtt).collect()
    }
}

fn network() -> impl TypedValueParser<Value = Link> {
    let values = Link::NAMED.map(|named| PossibleValue::new(named.name).help(named.source));
    PossibleValuesParser::new(values)
        .try_map(|name| Link::from_name(&name).ok_or("a network without a link"))
}

fn rtt(text: &str) -> Result<Duration, String> {
    let units = [("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let mut of_unit = units.iter().filter_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * factor)
    });
    let time = of_unit.next().filter(|micros| (0.0..=6e7).contains(micros));
    let time = time.map(|micros| Duration::from_micros(micros.round() as u64));
    time.ok_or_else(|| "a time is from 0ms to 60s, as 30ms or 0.5ms".to_owned())
}
