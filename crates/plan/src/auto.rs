//! The protocol of a run that leaves the choice open: the best by what is known of a pinned machine and two links.
//!
//! Both sides of a run have to arrive at the same protocol, so nothing here depends on a machine. `data/auto.json` has, for
//! each protocol and form, the picoseconds of a run on the reference machine over two links: a fixed part, a part for each
//! item of either side, and one for n·log₂² n. They are fitted to what [`Machines`](crate::Machines) forecasts, and rounded
//! to integers. [`auto_version`] is a term of the contract: two versions may choose differently.
//!
//! **Two links.** Nobody knows the link before the contract. The protocol with the least product of both times is taken: of
//! two protocols, the one that takes less time over one link than the other saves over the other link, as factors. So the
//! choice is never worse by more than it would be better elsewhere.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use vesica_psi::{Protocol, Reveals, Security};

use crate::Registry;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let table = serde_json::from_str(include_str!("../data/auto.json"));
    table.expect("the table that comes with this crate")
});

/// The version of the table by which [`Registry::auto`] chooses.
pub fn auto_version() -> u32 {
    TABLE.version
}

/// A run that leaves its protocol open: what decides which one it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// Items of the receiver and of the sender.
    pub sizes: [u64; 2],
    /// What the receiver learns.
    pub reveal: Reveals,
    /// The weakest security that both sides accept.
    pub security: Security,
    /// Statistical security in bits.
    pub lambda: u32,
    /// Bits of items that are numbers.
    pub exact: Option<u32>,
    /// Whether the messages of the run have to hide both sets from a later quantum computer.
    pub post_quantum: bool,
    /// Whether the sender hands over columns.
    pub has_labels: bool,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Table {
    version: u32,
    rows: Vec<Row>,
}

/// What runs of a protocol take.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    protocol: String,
    security: Security,
    /// The terms of [`terms`], each as many picoseconds, within one machine or data centre.
    lan: [u64; 5],
    /// The same between two companies: 100 Mb/s with a round trip of 20 ms.
    wan: [u64; 5],
}

/// What is multiplied with picoseconds: 1, the sizes, and for each size n·log₂² (n + 2) / 400.
fn terms([n, m]: [u64; 2]) -> [u128; 5] {
    // The logarithm in sixteenths, linear between powers of two.
    let log = |x: u128| {
        let whole = x.ilog2();
        u128::from(16 * whole) + ((16 * x) >> whole) - 16
    };
    let steep = |n: u128| n * log(n + 2).pow(2) / (400 * 256);
    let [n, m] = [n, m].map(u128::from);
    [1, n, m, steep(n), steep(m)]
}

impl Table {
    /// What a run is compared by: the product of its nanoseconds over both links. `None` for a protocol that the table
    /// does not have.
    fn cost(&self, protocol: &str, security: Security, sizes: [u64; 2]) -> Option<u128> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.protocol == protocol && row.security == security)?;
        let [lan, wan] = [row.lan, row.wan].map(|picoseconds| {
            let products = terms(sizes).into_iter().zip(picoseconds);
            let sum: u128 = products.map(|(term, each)| term * u128::from(each)).sum();
            sum / 1000
        });
        Some(lan.saturating_mul(wan))
    }
}

impl Open {
    /// Whether a protocol is as secure as is asked.
    fn is_secure(&self, protocol: &dyn Protocol) -> bool {
        let spec = protocol.spec();
        spec.security >= self.security && spec.key_agreement(self.post_quantum).is_some()
    }

    /// Whether a protocol does all that is asked, without a store of correlations.
    fn is_served_by(&self, protocol: &dyn Protocol) -> bool {
        let spec = protocol.spec();
        let is_able = self.is_secure(protocol)
            && (!self.has_labels || protocol.labels_per_item().is_some())
            && protocol
                .offline()
                .is_none_or(|offline| !offline.origin().is_dealt())
            // A peer may claim any size, and λ is a function of sizes that there can be.
            && self.sizes.iter().all(|size| *size <= spec.max_items);
        let exact = spec.compares(self.exact).map(|(_, bits)| bits);
        let most = || protocol.max_lambda(self.reveal, self.sizes, exact);
        is_able && most().is_none_or(|most| self.lambda <= most)
    }
}

impl Registry {
    /// The protocols that a run may take if both sides leave the choice open: those that do all that is asked, the best
    /// first by the version of the [table](auto_version), and those that it does not know last. If none does, those that
    /// reveal what is asked and are as secure, or else all that reveal it, so that a side can be told what stands against
    /// it.
    ///
    /// The same on every machine: there is no floating point in it.
    pub fn auto(&self, open: &Open) -> Vec<&'static dyn Protocol> {
        let mut all: Vec<_> = self.revealing(open.reveal).collect();
        if all.iter().any(|protocol| open.is_secure(*protocol)) {
            all.retain(|protocol| open.is_secure(*protocol));
        }
        if all.iter().any(|protocol| open.is_served_by(*protocol)) {
            all.retain(|protocol| open.is_served_by(*protocol));
            // Stable: of two that take as long the first of the registry.
            all.sort_by_key(|protocol| {
                let (spec, sizes) = (protocol.spec(), open.sizes);
                let known = TABLE.cost(spec.name, spec.runs(open.security), sizes);
                known.unwrap_or(u128::MAX)
            });
        }
        all
    }
}

#[cfg(test)]
mod tests;
