//! The values of options.

use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vesica::parse_quote;
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
    #[arg(long, value_name = "RATE", value_parser = bandwidth)]
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

/// The number before the first of these units that the text ends with, in the smallest unit.
fn with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let of_unit = |(name, factor): &(&str, f64)| Some((text.strip_suffix(name)?, *factor));
    let (number, factor) = units.iter().find_map(of_unit)?;
    let number = number.parse::<f64>().ok()? * factor;
    number.is_finite().then_some(number)
}

fn bandwidth(text: &str) -> Result<u64, String> {
    let units = [("gbps", 1e9), ("mbps", 1e6), ("kbps", 1e3), ("bps", 1.0)];
    let rate = with_unit(text, &units).filter(|rate| (1e3..=1e12).contains(rate));
    let rate = rate.map(|rate| rate.round() as u64);
    rate.ok_or_else(|| "a rate is from 1kbps to 1000gbps, as 200mbps or 1.5gbps".to_owned())
}

fn rtt(text: &str) -> Result<Duration, String> {
    let time = with_unit(text, &[("us", 1.0), ("ms", 1e3), ("s", 1e6)]);
    let time = time.filter(|micros| (0.0..=6e7).contains(micros));
    let time = time.map(|micros| Duration::from_micros(micros.round() as u64));
    time.ok_or_else(|| "a time is from 0ms to 60s, as 30ms or 0.5ms".to_owned())
}
