//! What a run costs in money.
//!
//! **Source.** B. Pinkas, M. Rosulek, N. Trieu, A. Yanai, *SpOT-Light*, CRYPTO 2019 (PRTY19), section 6.2: with T the time of
//! a run, C_T what a party's machine costs in that time, X what it sends and C_X what that costs,
//!
//!   T·(C_T1 + C_T2) + X_1·C_X1 + X_2·C_X2 + C_A·(X_1 + X_2),
//!
//! where C_A is what a public address adds, 0.01 USD/GB in the paper. GB are 10^9 bytes.

use serde::{Deserialize, Serialize};

/// The version of the form of [`Prices`].
const VERSION: u32 = 1;

/// Settings, each with prices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    version: u32,
    /// At least one.
    pub settings: Vec<Setting>,
}

/// Where the parties are, and what that costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// A word for it.
    pub name: String,
    /// Where the prices are from.
    pub source: String,
    /// When they were valid, as in the source.
    pub date: String,
    /// Of the receiver.
    pub receiver: Rates,
    /// Of the sender.
    pub sender: Rates,
    /// USD for each GB that either party sends besides.
    pub usd_per_gb_of_both: f64,
}

/// What a party pays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    /// For its machine.
    pub usd_per_hour: f64,
    /// For each GB that it sends.
    pub usd_per_gb_sent: f64,
}

/// Why prices cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriceProblem {
    /// The text is none, with what is wrong.
    Malformed(String),
    /// It is of another version.
    Version(u32),
    /// There is no setting.
    Empty,
    /// Two settings have this name.
    Twice(String),
    /// A price of this setting is negative, or none.
    OutOfRange(String),
}

impl std::fmt::Display for PriceProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PriceProblem::Malformed(problem) => f.write_str(problem),
            PriceProblem::Version(version) => {
                write!(f, "version {version}, where {VERSION} is known")
            }
            PriceProblem::Empty => f.write_str("no settings"),
            PriceProblem::Twice(name) => write!(f, "two settings are called {name}"),
            PriceProblem::OutOfRange(name) => {
                write!(f, "a price of {name} is not between 0 and 1000000 USD")
            }
        }
    }
}

impl std::error::Error for PriceProblem {}

impl Prices {
    /// Those of the paper, and list prices: `data/prices.json`.
    ///
    /// # Panics
    /// Never: the file is tested.
    pub fn built_in() -> Prices {
        let prices = Prices::parse(include_str!("../data/prices.json"));
        prices.expect("the prices that come with this crate")
    }

    /// The prices in a JSON text.
    ///
    /// # Errors
    /// For any other text, and for prices that nobody asks.
    pub fn parse(text: &str) -> Result<Prices, PriceProblem> {
        let malformed = |e: serde_json::Error| PriceProblem::Malformed(e.to_string());
        let prices: Prices = serde_json::from_str(text).map_err(malformed)?;
        if prices.version != VERSION {
            return Err(PriceProblem::Version(prices.version));
        }
        if prices.settings.is_empty() {
            return Err(PriceProblem::Empty);
        }
        for (i, setting) in prices.settings.iter().enumerate() {
            let name = &setting.name;
            if prices.settings[..i].iter().any(|other| other.name == *name) {
                return Err(PriceProblem::Twice(name.clone()));
            }
            let of = |rates: Rates| [rates.usd_per_hour, rates.usd_per_gb_sent];
            let all = [of(setting.receiver), of(setting.sender)].concat();
            let mut all = all.iter().chain([&setting.usd_per_gb_of_both]);
            if !all.all(|price| (0.0..=1e6).contains(price)) {
                return Err(PriceProblem::OutOfRange(name.clone()));
            }
        }
        Ok(prices)
    }
}

impl Setting {
    /// USD for a run of so many seconds in which the receiver and the sender send so many bytes.
    pub fn usd(&self, seconds: f64, bytes: [u64; 2]) -> f64 {
        let parties = [self.receiver, self.sender].into_iter().zip(bytes);
        let each = parties.map(|(rates, bytes)| {
            let gb = bytes as f64 / 1e9;
            seconds / 3600.0 * rates.usd_per_hour
                + gb * (rates.usd_per_gb_sent + self.usd_per_gb_of_both)
        });
        each.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PRTY19's formula by hand: an hour, 2 GB of the receiver and 1 GB of the sender, both machines in the USA.
    #[test]
    fn the_formula_of_the_paper() {
        let prices = Prices::built_in();
        let of = |name: &str| prices.settings.iter().find(|s| s.name == name).unwrap();
        let gb = 1_000_000_000;
        let b2b = of("prty19-b2b-usa").usd(3600.0, [2 * gb, gb]);
        assert!((b2b - (2.0 * 0.096 + 3.0 * 0.02 + 3.0 * 0.01)).abs() < 1e-9);
        let internet = of("prty19-internet-usa").usd(1800.0, [0, gb]);
        assert!((internet - (0.096 + 0.09 + 0.01)).abs() < 1e-9);
    }

    #[test]
    fn broken_prices_are_refused() {
        let good = serde_json::to_string(&Prices::built_in()).unwrap();
        assert_eq!(Prices::parse(&good), Ok(Prices::built_in()));
        let first = &Prices::built_in().settings[0];
        let with = |settings: Vec<Setting>| {
            let prices = Prices {
                version: VERSION,
                settings,
            };
            Prices::parse(&serde_json::to_string(&prices).unwrap())
        };
        assert_eq!(with(vec![]), Err(PriceProblem::Empty));
        let twice = with(vec![first.clone(), first.clone()]);
        assert_eq!(twice, Err(PriceProblem::Twice(first.name.clone())));
        let mut negative = first.clone();
        negative.sender.usd_per_hour = -0.1;
        let found = with(vec![negative]);
        assert_eq!(found, Err(PriceProblem::OutOfRange(first.name.clone())));
        let newer = good.replacen("\"version\":1", "\"version\":7", 1);
        assert_eq!(Prices::parse(&newer), Err(PriceProblem::Version(7)));
        for wrong in [
            "",
            "{}",
            "[1]",
            &good[1..],
            &good.replace("source", "sauce"),
        ] {
            let found = Prices::parse(wrong);
            assert!(matches!(found, Err(PriceProblem::Malformed(_))), "{wrong}");
        }
    }
}
