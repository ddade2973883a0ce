//! What `vesica plan` prints.

use std::fmt::Write;

use vesica_files::many;
use vesica_plan::{Answer, Forecast, Memory};

use crate::args::Plan;
use crate::failure::{Failure, RESOURCE};

pub(super) fn text(options: &Plan, answer: &Answer) -> Result<String, Failure> {
    match (options.json, options.csv) {
        (true, _) => serde_json::to_string(answer)
            .map_err(|e| Failure::new(RESOURCE, format!("the answer is not JSON: {e}"))),
        (_, true) => Ok(csv(answer)),
        _ => Ok(table(answer)),
    }
}

/// What a run costs in a setting.
fn usd(forecast: &Forecast, setting: &str) -> f64 {
    forecast.usd.get(setting).copied().unwrap_or_default()
}

fn csv(answer: &Answer) -> String {
    let mut text = String::from(
        "protocol,security,optimize,seconds,seconds_low,seconds_high,online_seconds,offline_seconds,basis,\
         receiver_to_sender_bytes,sender_to_receiver_bytes,offline_bytes,dealer_to_receiver_bytes,\
         delays,receiver_peak_memory_bytes,sender_peak_memory_bytes,memory_bytes,buckets,auto",
    );
    for setting in &answer.price_settings {
        // A name is any text.
        let name = setting.replace('"', "\"\"");
        let _ = write!(text, ",\"usd {name}\"");
    }
    for f in &answer.forecasts {
        let basis = serde_json::to_value(f.basis).unwrap_or_default();
        let _ = write!(
            text,
            "\n{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
            f.protocol,
            f.security.name(),
            f.optimize.name(),
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
            f.peak_memory_bytes.receiver.unwrap_or_default(),
            f.peak_memory_bytes.sender.unwrap_or_default(),
            f.memory_bytes,
            f.buckets,
            f.is_auto,
        );
        for setting in &answer.price_settings {
            let _ = write!(text, ",{}", usd(f, setting));
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

fn table(answer: &Answer) -> String {
    let setting = answer.price_settings.first().map_or("", String::as_str);
    let Answer {
        receiver_size,
        sender_size,
        reveal,
        network,
        threads,
        ..
    } = answer;
    let mut text = format!(
        "{reveal} of {receiver_size} and {sender_size} items, lambda {}, {network}, {}\n\n\
         {:<16} {:<16} {:<8} {:>9} {:>20} {:>12} {:>13} {:>11} {:>13} {:>14}  auto\n",
        answer.lambda,
        many((*threads).into(), "thread"),
        "protocol",
        "security",
        "optimize",
        "time (s)",
        "low to high (s)",
        "prepared (s)",
        "traffic (MB)",
        "round trips",
        "memory (MiB)",
        "cost (USD/1k)"
    );
    for f in &answer.forecasts {
        let range = format!("{} to {}", short(f.seconds.low), short(f.seconds.high));
        let Memory { receiver, sender } = f.peak_memory_bytes;
        let memory = [receiver, sender]
            .map(|peak| {
                format!(
                    "{:.0}",
                    peak.unwrap_or_default() as f64 / f64::from(1 << 20)
                )
            })
            .join(", ");
        let mark = if f.is_auto { "  *" } else { "" };
        let _ = writeln!(
            text,
            "{:<16} {:<16} {:<8} {:>9} {range:>20} {:>12} {:>13.3} {:>11.1} {memory:>13} {:>14.4}{mark}",
            f.protocol,
            f.security.name(),
            f.optimize.name(),
            short(f.seconds.likely),
            short(f.offline_seconds),
            f.bytes.total() as f64 / 1e6,
            f.delays as f64 / 2.0,
            1000.0 * usd(f, setting),
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
