//! What `vesica plan` prints.

use std::fmt::Write;

use serde::Serialize;
use vesica_plan::{Forecast, Prices, Request};

use crate::args::Plan;
use crate::failure::{Failure, RESOURCE};

/// The answer as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    receiver_size: u64,
    sender_size: u64,
    reveal: String,
    lambda: u32,
    network: String,
    threads: u32,
    fastest: &'a str,
    smallest: &'a str,
    cheapest: &'a str,
    auto: Option<&'a str>,
    price_settings: Vec<&'a str>,
    forecasts: &'a [Forecast],
}

/// The protocol of the forecast of the least of something.
fn least(forecasts: &[Forecast], of: impl Fn(&Forecast) -> f64) -> &'static str {
    let least = forecasts.iter().min_by(|a, b| of(a).total_cmp(&of(b)));
    least.map_or("", |forecast| forecast.protocol)
}

pub(super) fn text(
    options: &Plan,
    request: &Request,
    prices: &Prices,
    forecasts: &[Forecast],
) -> Result<String, Failure> {
    let setting = prices.settings.first().map_or("", |setting| &setting.name);
    let usd = |forecast: &Forecast| forecast.usd.get(setting).copied().unwrap_or(0.0);
    let auto = forecasts.iter().find(|forecast| forecast.is_auto);
    let [receiver_size, sender_size] = request.sizes;
    let answer = Answer {
        receiver_size,
        sender_size,
        reveal: request.reveal.to_string(),
        lambda: request.lambda,
        network: request.link.to_string(),
        threads: request.threads,
        fastest: least(forecasts, |forecast| forecast.seconds.likely),
        smallest: least(forecasts, |forecast| forecast.bytes.total() as f64),
        cheapest: least(forecasts, usd),
        auto: auto.map(|forecast| forecast.protocol),
        price_settings: prices.settings.iter().map(|s| s.name.as_str()).collect(),
        forecasts,
    };
    match (options.json, options.csv) {
        (true, _) => serde_json::to_string(&answer)
            .map_err(|e| Failure::new(RESOURCE, format!("the answer is not JSON: {e}"))),
        (_, true) => Ok(csv(prices, forecasts)),
        _ => Ok(table(&answer, setting, usd)),
    }
}

fn csv(prices: &Prices, forecasts: &[Forecast]) -> String {
    let mut text = String::from(
        "protocol,security,seconds,seconds_low,seconds_high,online_seconds,offline_seconds,basis,\
         receiver_to_sender_bytes,sender_to_receiver_bytes,offline_bytes,dealer_to_receiver_bytes,\
         delays,memory_bytes,auto",
    );
    for setting in &prices.settings {
        // A name is any text.
        let name = setting.name.replace('"', "\"\"");
        let _ = write!(text, ",\"usd {name}\"");
    }
    for f in forecasts {
        let basis = serde_json::to_value(f.basis).unwrap_or_default();
        let _ = write!(
            text,
            "\n{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            f.protocol,
            f.security.name(),
            f.seconds.likely,
            f.seconds.low,
            f.seconds.high,
            f.online_seconds,
            f.offline_seconds,
            basis.as_str().unwrap_or_default(),
            f.bytes.receiver_to_sender,
            f.bytes.sender_to_receiver,
            f.bytes.offline,
            f.bytes.dealer_to_receiver,
            f.delays,
            f.memory_bytes,
            f.is_auto,
        );
        for setting in &prices.settings {
            let usd = f.usd.get(&setting.name).copied().unwrap_or(0.0);
            let _ = write!(text, ",{usd}");
        }
    }
    text
}

/// Seconds in three digits or so.
fn short(seconds: f64) -> String {
    match seconds {
        s if s < 0.1 => format!("{s:.4}"),
        s if s < 10.0 => format!("{s:.2}"),
        s if s < 1000.0 => format!("{s:.1}"),
        s => format!("{s:.0}"),
    }
}

fn table(answer: &Answer<'_>, setting: &str, usd: impl Fn(&Forecast) -> f64) -> String {
    let Answer {
        receiver_size,
        sender_size,
        reveal,
        network,
        threads,
        ..
    } = answer;
    let mut text = format!(
        "{reveal} of {receiver_size} and {sender_size} items, lambda {}, {network}, {threads} threads\n\n\
         {:<16} {:<12} {:>9} {:>20} {:>9} {:>10} {:>6} {:>8} {:>12}\n",
        answer.lambda,
        "protocol",
        "security",
        "seconds",
        "between",
        "offline",
        "MB",
        "delays",
        "MiB",
        "USD per 1000"
    );
    for f in answer.forecasts {
        let between = format!("{} and {}", short(f.seconds.low), short(f.seconds.high));
        let mark = if f.is_auto { "  auto" } else { "" };
        let _ = writeln!(
            text,
            "{:<16} {:<12} {:>9} {between:>20} {:>9} {:>10.3} {:>6} {:>8.0} {:>12.4}{mark}",
            f.protocol,
            f.security.name(),
            short(f.seconds.likely),
            short(f.offline_seconds),
            f.bytes.total() as f64 / 1e6,
            f.delays,
            f.memory_bytes as f64 / f64::from(1 << 20),
            1000.0 * usd(f),
        );
    }
    let Answer {
        fastest,
        smallest,
        cheapest,
        ..
    } = answer;
    let _ = write!(
        text,
        "\nfastest {fastest}, smallest {smallest}, cheapest {cheapest} ({setting})"
    );
    match answer.auto {
        Some(auto) => {
            let _ = write!(text, "; auto takes {auto}");
        }
        None => text.push_str("; auto takes none of these"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn seconds_have_some_three_digits() {
        let shown = [0.00341, 0.35, 6.3, 52.04, 5200.4].map(short);
        assert_eq!(shown, ["0.0034", "0.35", "6.30", "52.0", "5200"]);
    }
}
