//! What a benchmark prints: medians, as one JSON object or as a table.

use std::fmt::Write;
use std::num::NonZeroUsize;

use serde::Serialize;
use vesica_files::many;
use vesica_psi::Origin;
use vesica_wire::PhaseTraffic;

use super::machine;
use super::parties::{Job, Ran, Report, Said};
use crate::args::Kernels;
use crate::failure::{Failure, RESOURCE};

/// One run as its receiver saw it, from the agreed contract to the result.
struct Figures {
    /// Its phases, after that of dealing if a dealer took part.
    phases: Vec<PhaseTraffic>,
}

impl Figures {
    fn of(run: &Ran) -> Figures {
        let dealt = run.stored.as_ref().map(|[receiver, _]| PhaseTraffic {
            phase: "dealing".into(),
            bytes_sent: receiver.phases.iter().map(|phase| phase.bytes_sent).sum(),
            bytes_received: bytes_received(receiver),
            seconds: receiver.phases.iter().map(|phase| phase.seconds).sum(),
        });
        let run = run.receiver.measured.phases.iter();
        let run = run.filter(|phase| !["contract", "done"].contains(&phase.phase.as_str()));
        Figures {
            phases: dealt.into_iter().chain(run.cloned()).collect(),
        }
    }

    fn total(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }

    /// The part of the total that needs no items.
    fn offline(&self) -> f64 {
        let offline = self.phases.iter();
        let offline =
            offline.filter(|p| ["dealing", "prepare", "offline"].contains(&p.phase.as_str()));
        offline.map(|phase| phase.seconds).sum()
    }

    /// Bytes of the run itself.
    fn bytes(&self, of: impl Fn(&PhaseTraffic) -> u64) -> u64 {
        let run = self.phases.iter().filter(|phase| phase.phase != "dealing");
        run.map(of).sum()
    }

    /// Those of the offline phase, both ways.
    fn offline_bytes(&self) -> u64 {
        self.bytes(|phase| match phase.phase == "offline" {
            true => phase.bytes_sent + phase.bytes_received,
            false => 0,
        })
    }
}

/// Both ways.
fn bytes_passed(said: &Said) -> u64 {
    let passed = said.phases.iter();
    passed
        .map(|phase| phase.bytes_sent + phase.bytes_received)
        .sum()
}

fn bytes_received(said: &Said) -> u64 {
    said.phases.iter().map(|phase| phase.bytes_received).sum()
}

/// A party's peak memory in all of its processes.
fn peak(runs: &[Ran], of: impl Fn(&Ran) -> [Option<u64>; 2]) -> Option<u64> {
    runs.iter().flat_map(of).flatten().max()
}

#[derive(Serialize)]
struct Measured {
    protocol: String,
    security: String,
    reveal: String,
    optimize: String,
    receiver_size: u64,
    sender_size: u64,
    /// Bits of items that are numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u32>,
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
    /// Of these.
    offline: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dealer_to_receiver: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dealer_to_sender: Option<u64>,
    /// Both ways.
    #[serde(skip_serializing_if = "Option::is_none")]
    between_generators: Option<u64>,
}

#[derive(Serialize)]
struct Memory {
    receiver: Option<u64>,
    sender: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dealer: Option<u64>,
}

/// The text to print.
pub(super) fn show(job: &Job<'_>, yardstick: u64, runs: &[Ran]) -> Result<String, Failure> {
    let options = job.options;
    let mut figures: Vec<Figures> = runs.iter().map(Figures::of).collect();
    let of_all = |of: fn(&Figures) -> f64| median(figures.iter().map(of).collect());
    let seconds = Seconds {
        total: of_all(Figures::total),
        online: of_all(|run| run.total() - run.offline()),
        offline: of_all(Figures::offline),
    };
    // Phases and bytes are those of the run in the middle by total time.
    figures.sort_by(|a, b| a.total().total_cmp(&b.total()));
    let middle = figures.get((figures.len().max(1) - 1) / 2);
    let (Some(middle), Some(first)) = (middle, runs.first()) else {
        return Err(Failure::new(RESOURCE, "no run was measured"));
    };
    // A generator's half does not leave its party.
    let from_dealer = first
        .stored
        .as_ref()
        .filter(|_| job.origin == Origin::Dealer);
    let dealt = |i: usize| from_dealer.map(|stored| bytes_received(&stored[i]));
    let between_generators = first
        .dealt
        .first()
        .filter(|_| job.origin == Origin::Generators);
    let memory = |report: &Report, stored: Option<&Said>| {
        let stored = stored.and_then(|stored| stored.peak_memory_bytes);
        [report.measured.peak_memory_bytes, stored]
    };
    let measured = Measured {
        protocol: first.receiver.protocol.clone(),
        security: first.receiver.security.clone(),
        reveal: first.receiver.reveal.clone(),
        optimize: first.receiver.contract.optimize.clone(),
        receiver_size: job.inputs.receiver_size,
        sender_size: job.inputs.sender_size,
        items: job.inputs.key_bits,
        matches: job.inputs.shared(),
        network: options.network.link().to_string(),
        threads: options.threads,
        backend: options.backend,
        runs: options.runs,
        seconds,
        phases: middle.phases.clone(),
        bytes: Bytes {
            receiver_to_sender: middle.bytes(|phase| phase.bytes_sent),
            sender_to_receiver: middle.bytes(|phase| phase.bytes_received),
            offline: middle.offline_bytes(),
            dealer_to_receiver: dealt(0),
            dealer_to_sender: dealt(1),
            between_generators: between_generators.map(bytes_passed),
        },
        peak_memory_bytes: Memory {
            receiver: peak(runs, |run| {
                memory(
                    &run.receiver,
                    run.stored.as_ref().map(|[receiver, _]| receiver),
                )
            }),
            sender: peak(runs, |run| {
                memory(&run.sender, run.stored.as_ref().map(|[_, sender]| sender))
            }),
            dealer: peak(runs, |run| {
                let mut all = run.dealt.iter().map(|said| said.peak_memory_bytes);
                [all.next().flatten(), all.next().flatten()]
            }),
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
    line("protocol", format!("{} ({})", m.protocol, m.security));
    line(
        "receiver, sender",
        [m.receiver_size, m.sender_size]
            .map(|size| many(size, "item"))
            .join(", "),
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
        ("between generators", m.bytes.between_generators),
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
pub(super) fn median(mut values: Vec<f64>) -> f64 {
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
