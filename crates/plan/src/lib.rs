//! The registry of protocols, the choice of one when the parties leave it open, and what each takes.
//!
//! A [`Registry`] is all that contracts, commands and benchmarks know of protocols. To add one, write its module in
//! `oprf`, `psi` or `circuit`, and add its line to the list there.
//!
//! [`Machines`] says what a run of each takes: bytes, seconds, memory and money, for a [`Request`] and [`Prices`].
//!
//! [`pads`] is the bound on what the hashes of all of them leave of κ.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod auto;
pub mod buckets;
mod file;
mod fit;
mod forecast;
mod machines;
pub mod pads;
mod prices;
mod sample;

pub use auto::{Open, auto_version};
pub use file::Unusable;
pub use forecast::{Answer, Forecast, Interval, Request, WINDOW};
pub use machines::{Basis, Machines, yardstick};
pub use prices::{PriceProblem, Prices, Rates, Setting};
pub use sample::{
    Bytes, Calibration, CalibrationProblem, Memory, Sample, Seconds, calibration_path,
};

use std::sync::LazyLock;

use vesica_psi::{Protocol, Reveals};

/// The protocols of this version.
static PROTOCOLS: LazyLock<Vec<&dyn Protocol>> = LazyLock::new(|| {
    let each = [
        vesica_psi::MASK_EXCHANGES,
        vesica_psi::PROTOCOLS,
        vesica_circuit::PROTOCOLS,
    ];
    each.concat()
});

/// The registry that two parties choose from by default.
static STANDARD: LazyLock<Registry> = LazyLock::new(|| Registry {
    protocols: &PROTOCOLS,
});

/// The protocols that a run may take.
#[derive(Clone, Copy)]
pub struct Registry {
    protocols: &'static [&'static dyn Protocol],
}

impl Registry {
    /// The protocols of this version.
    pub fn standard() -> &'static Registry {
        &STANDARD
    }

    /// A registry of any protocols with distinct names.
    ///
    /// # Panics
    /// If two have the same name, or one is called `auto` or has a name that does not fit a contract: at most 64
    /// lower-case ASCII letters, digits and `-`.
    pub fn of(protocols: &'static [&'static dyn Protocol]) -> Registry {
        for (i, protocol) in protocols.iter().enumerate() {
            let name = protocol.spec().name;
            let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
            let fits = (1..=64).contains(&name.len()) && name.bytes().all(fits);
            assert!(fits && name != "auto", "{name:?} is no name of a protocol");
            let earlier = protocols[..i].iter().any(|p| p.spec().name == name);
            assert!(!earlier, "two protocols are called {name}");
        }
        Registry { protocols }
    }

    /// All protocols.
    pub fn all(&self) -> &'static [&'static dyn Protocol] {
        self.protocols
    }

    /// The protocols with which a receiver can learn this.
    pub fn revealing(
        &self,
        reveal: impl Into<Reveals>,
    ) -> impl Iterator<Item = &'static dyn Protocol> {
        let (all, reveal) = (self.protocols.iter().copied(), reveal.into());
        all.filter(move |protocol| protocol.can_reveal(reveal))
    }

    /// The protocol of that name.
    pub fn get(&self, name: &str) -> Option<&'static dyn Protocol> {
        let named = |p: &&&'static dyn Protocol| p.spec().name == name;
        self.protocols.iter().find(named).copied()
    }

    /// The names, separated by commas.
    pub fn names(&self) -> String {
        let names: Vec<_> = self.protocols.iter().map(|p| p.spec().name).collect();
        names.join(", ")
    }
}

impl PartialEq for Registry {
    fn eq(&self, other: &Registry) -> bool {
        std::ptr::eq(self.protocols, other.protocols)
    }
}

impl Eq for Registry {}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Registry").field(&self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_oprf::dh::Dh;
    use vesica_psi::MaskExchange;

    #[test]
    fn names_fit_contracts_and_lead_back() {
        let registry = Registry::of(&PROTOCOLS);
        for protocol in registry.all() {
            let name = protocol.spec().name;
            assert_eq!(registry.get(name).unwrap().spec().name, name);
        }
        assert!(registry.get("compact").is_none());
    }

    #[test]
    #[should_panic(expected = "two protocols are called dh")]
    fn one_name_is_one_protocol() {
        static TWICE: [&dyn Protocol; 2] = [&MaskExchange(Dh), &MaskExchange(Dh)];
        Registry::of(&TWICE);
    }
}
