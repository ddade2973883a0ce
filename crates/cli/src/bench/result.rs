//! What a benchmark prints: medians, as one JSON object or as a table.

use std::fmt::Write;
use std::num::NonZeroUsize;

use serde::Serialize;
use vesica::terms::{OPTIMIZE, REVEAL, SECURITY};
use vesica::{Optimize, Reveal, Security, Terms};
use vesica_psi::Spec;
use vesica_wire::PhaseTraffic;

use super::machine;
use super::talk::{Done, Ran};
use crate::args::{Bench, Kernels};
use crate::failure::{Failure, RESOURCE};

/// The measured runs.
#[derive(Default)]
pub(super) struct Runs(Vec<Ran>);

impl Runs {
    pub(super) fn push(&mut self, run: Ran) {
        self.0.push(run);
    }

    fn median(&self, value: impl Fn(&Done) -> f64) -> f64 {
        median(self.0.iter().map(|run| value(&run.receiver)).collect())
    }

    fn peak(&self, of: impl Fn(&Ran) -> Option<u64>) -> Option<u64> {
        self.0.iter().filter_map(of).max()
    }

    /// The run in the middle by total time.
    fn middle(&self) -> Option<&Ran> {
        let mut runs: Vec<&Ran> = self.0.iter().collect();
        runs.sort_by(|a, b| a.receiver.total.total_cmp(&b.receiver.total));
        runs.get((runs.len().max(1) - 1) / 2).copied()
    }
}

#[derive(Serialize)]
struct Measured {
    protocol: &'static str,
    security: Security,
    reveal: Reveal,
    optimize: Optimize,
    receiver_size: u64,
    sender_size: u64,
    matches: u64,
    network: String,
    threads: NonZeroUsize,
    backend: Kernels,
    runs: u32,
    seconds: Seconds,
    phases: Vec<PhaseTraffic>,
    bytes: Bytes,
    peak_memory_bytes: Memory,
    yardstick_aes_blocks_per_second: u64,
    machine: String,
}

#[derive(Serialize)]
struct Seconds {
    total: f64,
    online: f64,
    offline: f64,
}

#[derive(Serialize)]
struct Bytes {
    receiver_to_sender: u64,
    sender_to_receiver: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dealer_to_receiver: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dealer_to_sender: Option<u64>,
}

#[derive(Serialize)]
struct Memory {
    receiver: Option<u64>,
    sender: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dealer: Option<u64>,
}

/// The text to print.
pub(super) fn show(
    options: &Bench,
    (protocol, terms): (&'static Spec, &Terms),
    (receiver_size, sender_size): (u64, u64),
    yardstick: u64,
    runs: &Runs,
) -> Result<String, Failure> {
    let Some(Ran {
        receiver: middle,
        sender,
        ..
    }) = runs.middle()
    else {
        return Err(Failure::new(RESOURCE, "no run was measured"));
    };
    let measured = Measured {
        protocol: protocol.name,
        security: protocol.runs(terms.get(&SECURITY)),
        reveal: terms.get(&REVEAL),
        optimize: terms.get(&OPTIMIZE),
        receiver_size,
        sender_size,
        matches: middle.matches.unwrap_or(0),
        network: options.network.clone(),
        threads: options.threads,
        backend: options.backend,
        runs: options.runs,
        seconds: Seconds {
            total: runs.median(|run| run.total),
            online: runs.median(|run| run.total - run.offline),
            offline: runs.median(|run| run.offline),
        },
        phases: middle.phases.clone(),
        bytes: Bytes {
            receiver_to_sender: middle.bytes_sent,
            sender_to_receiver: middle.bytes_received,
            dealer_to_receiver: middle.bytes_dealt,
            dealer_to_sender: sender.bytes_dealt,
        },
        peak_memory_bytes: Memory {
            receiver: runs.peak(|run| run.receiver.peak_memory_bytes),
            sender: runs.peak(|run| run.sender.peak_memory_bytes),
            dealer: runs.peak(|run| run.dealer_memory_bytes),
        },
        yardstick_aes_blocks_per_second: yardstick,
        machine: machine::describe(),
    };
    if options.json {
        serde_json::to_string(&measured)
            .map_err(|e| Failure::new(RESOURCE, format!("the result is not JSON: {e}")))
    } else {
        Ok(table(&measured))
    }
}

fn table(m: &Measured) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<20} {value}");
    };
    let all = m.bytes.receiver_to_sender + m.bytes.sender_to_receiver;
    line(
        "protocol",
        format!("{} ({})", m.protocol, m.security.name()),
    );
    line(
        "receiver, sender",
        format!("{} items, {} items", m.receiver_size, m.sender_size),
    );
    line("matches", format!("{} (as expected)", m.matches));
    line("network, threads", format!("{}, {}", m.network, m.threads));
    line(
        "total",
        format!("{:.6} s (median of {} runs)", m.seconds.total, m.runs),
    );
    line("online", format!("{:.6} s", m.seconds.online));
    line("offline", format!("{:.6} s", m.seconds.offline));
    for phase in &m.phases {
        let PhaseTraffic {
            phase,
            bytes_sent,
            bytes_received,
            seconds,
        } = phase;
        line(
            &format!("  {phase}"),
            format!("{seconds:.6} s, {bytes_sent} bytes sent, {bytes_received} received"),
        );
    }
    line(
        "receiver to sender",
        format!("{} bytes", m.bytes.receiver_to_sender),
    );
    line(
        "sender to receiver",
        format!("{} bytes", m.bytes.sender_to_receiver),
    );
    for (who, bytes) in [
        ("dealer to receiver", m.bytes.dealer_to_receiver),
        ("dealer to sender", m.bytes.dealer_to_sender),
    ] {
        if let Some(bytes) = bytes {
            line(who, format!("{bytes} bytes"));
        }
    }
    let most = m.receiver_size.max(m.sender_size);
    if most > 0 {
        line(
            "together",
            format!(
                "{all} bytes, {:.1} bits per item",
                all as f64 * 8.0 / most as f64
            ),
        );
    }
    for (who, peak) in [
        ("receiver's memory", m.peak_memory_bytes.receiver),
        ("sender's memory", m.peak_memory_bytes.sender),
        ("dealer's memory", m.peak_memory_bytes.dealer),
    ] {
        if let Some(peak) = peak {
            line(
                who,
                format!("{:.1} MiB at most", peak as f64 / (1 << 20) as f64),
            );
        }
    }
    line(
        "yardstick",
        format!(
            "{:.3} G AES-128 blocks/s",
            m.yardstick_aes_blocks_per_second as f64 / 1e9
        ),
    );
    line("machine", m.machine.clone());
    text.truncate(text.trim_end().len());
    text
}

/// The value in the middle; the mean of the two there for an even number.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[half],
        _ => f64::midpoint(values[half - 1], values[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }
}
