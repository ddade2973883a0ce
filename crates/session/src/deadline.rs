//! How long a run may take.
//!
//! A peer that is alive but does nothing else would hold this side for as long as that takes. So a run has a deadline:
//! the user's, or ten times what its sizes take over a link of 1 Mb/s and at a tenth of this machine's speed, and at least
//! an hour. It counts from when the contract is agreed, over all buckets. The contract has as long if the user
//! says so, or else as long as this side would have waited for the peer, and at least an hour: the peer may still be
//! reading its table.
//!
//! Where bytes and work are known only as they come, as in look-ups, the time is that of all so far, since one moment.

use std::time::{Duration, Instant};

use vesica_primitives::yardstick::aes_blocks_per_second;
use vesica_psi::ItemCost;
use vesica_wire::Interrupt;

use crate::Agreement;

/// The least deadline unless the user gives another, of a run and of its contract.
const LEAST: Duration = Duration::from_secs(3600);
/// How many times as long as estimated a run may take.
const SLACK: u64 = 10;
/// Bytes per second over the slowest link that is expected: 1 Mb/s.
const SLOWEST_LINK: u64 = 1_000_000 / 8;
/// AES blocks per second of a machine that is slower than those of today.
const SLOW: u64 = 1 << 24;
/// By how much the peer may be slower than this side.
const SLOWEST_MACHINE: u64 = 10;

/// Ends the waits over a connection.
#[derive(Clone, Debug)]
pub struct Deadline {
    /// What the user asks for.
    asked: Option<Duration>,
    /// How long this side waits for a peer to come.
    wait: Duration,
    interrupt: Interrupt,
}

impl Deadline {
    /// `interrupt` is that of the run's channel alone.
    pub(crate) fn new(asked: Option<Duration>, wait: Duration, interrupt: Interrupt) -> Deadline {
        Deadline {
            asked,
            wait,
            interrupt,
        }
    }

    /// What ends the waits.
    pub(crate) fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// The time for the contract begins.
    pub(crate) fn of_contract(&self) {
        let time = self.asked.unwrap_or(LEAST.max(self.wait));
        self.interrupt.end_within(time);
    }

    /// The time since then is that for so many bytes, and for as much work of the peer as so many AES blocks are. To be said
    /// by the thread that waits, as often as there are more.
    pub fn of_exchange(&self, since: Instant, bytes: u64, aes_blocks: u64) {
        let time = self.asked.unwrap_or_else(|| {
            // Not even measured where it does not matter.
            match estimated(bytes, aes_blocks, SLOW) {
                LEAST => LEAST,
                _ => {
                    let speed = aes_blocks_per_second(Duration::from_millis(1), 3);
                    estimated(bytes, aes_blocks, speed)
                }
            }
        });
        self.interrupt.end_after(since, time);
    }

    /// The time for the run begins.
    pub(crate) fn of_run(&self, agreement: &Agreement) {
        let time = self.asked.unwrap_or_else(|| {
            let speed = aes_blocks_per_second(Duration::from_millis(1), 3);
            usual(agreement, speed)
        });
        self.interrupt.end_within(time);
    }
}

/// At most so many times do the bytes of a string cross the wire for each item of both sides: three times and a third in a
/// hint, and twice per cell, of which an item has up to 3.9.
const STRING_COPIES: u64 = 8;

/// The deadline of a run on a machine of this speed, in AES blocks per second.
fn usual(agreement: &Agreement, speed: u64) -> Duration {
    let contract = &agreement.contract;
    let both = contract
        .receiver_bucket
        .saturating_add(contract.sender_bucket);
    let copies = agreement.protocol.labels_per_item().unwrap_or(0);
    let labels = copies.saturating_mul(agreement.task.label_bytes as u64);
    let strings = contract.receiver_string_bytes + contract.sender_string_bytes;
    let strings = STRING_COPIES * u64::from(strings);
    let cost = agreement.protocol.spec().item_cost;
    let cost = ItemCost {
        bytes: cost.bytes.saturating_add(labels).saturating_add(strings),
        ..cost
    };
    of_items(both.saturating_mul(contract.buckets.into()), cost, speed)
}

/// The deadline of a run over so many items of both sides.
fn of_items(items: u64, cost: ItemCost, speed: u64) -> Duration {
    let aes_blocks = items.saturating_mul(cost.aes_blocks);
    estimated(items.saturating_mul(cost.bytes), aes_blocks, speed)
}

/// The deadline of so many bytes and AES blocks.
fn estimated(bytes: u64, aes_blocks: u64, speed: u64) -> Duration {
    let link = bytes / SLOWEST_LINK;
    let work = aes_blocks.saturating_mul(SLOWEST_MACHINE) / speed.max(1);
    let seconds = link.saturating_add(work).saturating_mul(SLACK);
    LEAST.max(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_plan::Registry;

    #[test]
    fn an_exchange_has_what_was_asked_for_or_what_its_bytes_take() {
        let hours_ago = |hours| Instant::now().checked_sub(hours * LEAST).unwrap();
        let is_over = |asked, hours, bytes, aes_blocks| {
            let deadline = Deadline::new(asked, LEAST, Interrupt::new());
            deadline.of_exchange(hours_ago(hours), bytes, aes_blocks);
            deadline.interrupt.is_raised()
        };
        assert!(is_over(Some(Duration::from_secs(1)), 1, u64::MAX, u64::MAX));
        assert!(!is_over(Some(5 * LEAST), 4, 0, 0));
        assert!(!is_over(None, 0, 0, 0) && is_over(None, 1, 0, 0));
        // A gigabyte takes 2.4 hours at 1 Mb/s.
        assert!(!is_over(None, 23, 1 << 30, 0) && is_over(None, 24, 1 << 30, 0));
        assert!(!is_over(None, 1, 0, u64::MAX));
    }

    #[test]
    fn a_deadline_is_ten_times_the_estimate_and_an_hour_at_least() {
        let hours = |name: &str, items: u64, speed: u64| {
            let spec = Registry::standard().get(name).unwrap().spec();
            of_items(items, spec.item_cost, speed).as_secs_f64() / 3600.0
        };
        assert_eq!(hours("vole", 2 << 16, 1_000_000_000), 1.0);
        assert_eq!(hours("dh", 0, 0), 1.0);
        let usual = hours("vole", 2 << 20, 1_000_000_000);
        assert!((3.1..3.3).contains(&usual), "{usual}");
        assert!(hours("vole", 2 << 20, 50_000_000) > usual);
        // No size makes it wrap.
        for protocol in Registry::standard().all() {
            let spec = protocol.spec();
            assert!(hours(spec.name, spec.max_items, 1) >= 1.0);
            assert!(of_items(u64::MAX, spec.item_cost, 1) > LEAST);
        }
    }
}
