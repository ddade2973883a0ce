//! What a finished run says.

use std::fmt::Write;

use vesica::{Report, Reveal};
use vesica_session::terms::POST_QUANTUM;
use vesica_session::{Reveals, rfc3339};

/// The summary for standard error, several lines.
pub(crate) fn summary(report: &Report) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<15} {value}");
    };
    line("rows read", report.rows.to_string());
    let without_key = report.blanks + report.invalid;
    if without_key > 0 {
        line(
            "without a key",
            format!(
                "{without_key} ({} blank, {} invalid; they never match)",
                report.blanks, report.invalid
            ),
        );
    }
    if report.denied > 0 {
        line("denied", format!("{} (they never match)", report.denied));
    }
    line("distinct items", report.items.to_string());
    line("peer's items", report.peer_items.to_string());
    if let Some(ids) = report.spine_rows {
        line("spine rows", ids.to_string());
    }
    if let Some(matches) = report.matches {
        line("matches", matches.to_string());
    }
    if let Some(value) = report.value {
        line(&report.reveal.to_string(), value.to_string());
    }
    for (name, value) in report.values.iter().flatten() {
        line(name, value.to_string());
    }
    if let (Some(terms), None) = (&report.contract.groups, &report.groups) {
        let told = match (&terms.sizes, terms.is_padded) {
            (None, _) => "sizes hidden",
            (Some(_), false) => "sizes told",
            (Some(_), true) => "sizes padded",
        };
        line("peer's groups", format!("{}, {told}", terms.count));
    }
    if let Some(groups) = &report.groups {
        let withheld = groups.iter().filter(|group| group.values.is_none()).count();
        let of = match withheld {
            0 => String::new(),
            _ => format!(", {withheld} of them withheld"),
        };
        line("groups", format!("{}{of}", groups.len()));
    }
    if let Some(noise) = &report.noise {
        line("noise", noise.to_string());
    }
    if let Some(least) = report.below.filter(|_| report.groups.is_none()) {
        let of = what_counts(report.reveal, report.contract.numbers().len());
        line("matches", format!("fewer than {least}{of}"));
    }
    if let Some(rows) = report.rows_written {
        line("rows written", rows.to_string());
    }
    if let Some(time) = report.computed {
        line("found at", rfc3339(time));
    }
    if report.reveal == Reveal::Shares || report.reveal.is_ids() {
        line("run", report.run.clone());
    }
    if let Some(terms) = &report.contract.labels {
        line("handed over", terms.to_string());
    }
    line("protocol", report.protocol.clone());
    line("security", report.security.name().to_owned());
    if report.contract.terms.get(&POST_QUANTUM) {
        line("post-quantum", "yes".to_owned());
    }
    if report.contract.buckets > 1 {
        line("buckets", report.contract.buckets.to_string());
    }
    if let Some(name) = &report.contract.offline {
        line("stored pair", name.clone());
    }
    line(
        "bytes",
        format!(
            "{} sent, {} received",
            report.bytes_sent, report.bytes_received
        ),
    );
    line("seconds", format!("{:.3}", report.seconds));
    if let Some(peer) = report.peer {
        line("peer", peer.to_string());
    }
    text
}

/// Which matches count towards the minimum, if not all do.
fn what_counts(reveal: Reveals, numbers: usize) -> &'static str {
    match (reveal.last().adds([0; 2]), numbers) {
        (Some(0), 1) => " with a value other than 0",
        (Some(0), _) => " with a value other than 0 in one of the columns",
        _ => "",
    }
}
