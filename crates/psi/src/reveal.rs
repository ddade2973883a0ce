//! What can be revealed, and the values that go with it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum number of values that a party has for each of its items.
pub const MAX_VALUE_COLUMNS: usize = 8;

/// Declares what can be revealed: name in commands, contracts and reports; least numbers of matches that a run may have;
/// how many values the receiver and the sender can have for an item; and what the receiver gets.
macro_rules! reveals {
    ($($(#[$doc:meta])* $reveal:ident = $name:literal, $minimum:pat, $values:pat, $answer:expr;)+) => {
        /// What the receiver learns.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Reveal {
            $($(#[$doc])* $reveal,)+
        }

        impl Reveal {
            /// All of them.
            pub const ALL: &[Reveal] = &[$(Reveal::$reveal),+];

            /// The name in commands, contracts and reports.
            pub fn name(self) -> &'static str {
                match self { $(Reveal::$reveal => $name,)+ }
            }

            /// Whether the result can depend on a minimum of this size.
            pub fn takes_minimum(self, min_size: u64) -> bool {
                match self { $(Reveal::$reveal => matches!(min_size, $minimum),)+ }
            }

            fn takes_values(self, values: Values) -> bool {
                match self {
                    $(Reveal::$reveal => matches!((values.receiver, values.sender), $values),)+
                }
            }

            fn answer(self) -> Answer {
                match self { $(Reveal::$reveal => $answer,)+ }
            }

            fn alone(self) -> &'static [Reveal] {
                match self { $(Reveal::$reveal => &[Reveal::$reveal],)+ }
            }

            fn with_size(self) -> &'static [Reveal] {
                match self { $(Reveal::$reveal => &[Reveal::Size, Reveal::$reveal],)+ }
            }
        }
    };
}

/// What the receiver gets of a run. A number is a sum over the items in common, of what each adds to it: a product of
/// the values that receiver and sender have for it, which are below 2^63 and 0 where a party has none. A product has a unit,
/// that of values 1, and is largest for the largest values: so a number's decimal places and bound follow from it.
enum Answer {
    Matches,
    Number(fn([i128; 2]) -> i128),
    /// One for each column of values.
    NumberPerColumn(fn([i128; 2]) -> i128),
    Shares,
    Rows,
    Ids,
}

reveals! {
    /// Which of its own items the sender also holds.
    Matches = "matches", 0, (0, 0), Answer::Matches;
    /// How many of its items the sender also holds.
    Size = "size", _, (0, 0), Answer::Number(|_| 1);
    /// The sum of the values that one of the parties has for the items in common; one sum for each value of an item.
    Sum = "sum", _, (1.., 0) | (0, 1..), Answer::NumberPerColumn(|[receiver, sender]| receiver + sender);
    /// The sum, over the items in common, of the product of both parties' values.
    InnerProduct = "inner-product", _, (1, 1), Answer::Number(|[receiver, sender]| receiver * sender);
    /// Which of its own items the sender also holds, if those are at least [`Task::min_size`](crate::Task::min_size);
    /// otherwise none matches, whose number is then below the minimum, which is at least 1.
    ThresholdMatches = "threshold-matches", 1.., (0, 0), Answer::Matches;
    /// Nothing: both parties get shares of which items match, and of the values of those.
    Shares = "shares", 0, (_, _), Answer::Shares;
    /// The rows of the sender whose items it does not have, as labels; and so how many items match.
    Union = "union", 0, (0, 0), Answer::Rows;
    /// An id for each of its items, and the list of the ids of both parties' items, in which the sender finds its own; and so
    /// how many items match.
    Ids = "ids", 0, (0, 0), Answer::Ids;
}

impl Reveal {
    /// What an item in common adds to the number, if this is one, by the values that receiver and sender have for it, 0
    /// where a party has none.
    pub fn adds(self, values: [i128; 2]) -> Option<i128> {
        match self.answer() {
            Answer::Number(adds) | Answer::NumberPerColumn(adds) => Some(adds(values)),
            Answer::Matches | Answer::Shares | Answer::Rows | Answer::Ids => None,
        }
    }

    fn is_number(self) -> bool {
        self.adds([0; 2]).is_some()
    }
}

impl fmt::Display for Reveal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a run reveals: one [`Reveal`], or a size and then another one that yields numbers. In contracts its code is its
/// place in [`Reveals::all`], counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reveals(&'static [Reveal]);

impl Reveals {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Reveals> {
        let all = || Reveal::ALL.iter();
        let others = all().filter(|reveal| reveal.is_number() && **reveal != Reveal::Size);
        let alone = all().map(|reveal| Reveals(reveal.alone()));
        alone.chain(others.map(|reveal| Reveals(reveal.with_size())))
    }

    /// The same, in whichever order they are given; `None` if they do not go together, or are given twice.
    pub fn of(given: &[Reveal]) -> Option<Reveals> {
        let is_given = |all: &Reveals| {
            all.0.len() == given.len() && all.0.iter().all(|reveal| given.contains(reveal))
        };
        Reveals::all().find(is_given)
    }

    /// Each of them.
    pub fn each(self) -> &'static [Reveal] {
        self.0
    }

    /// The one that says what is needed for it: a size needs nothing, and comes first.
    pub fn last(self) -> Reveal {
        self.0[self.0.len() - 1]
    }

    /// Whether the result is numbers.
    pub fn is_value(self) -> bool {
        self.last().is_number()
    }

    /// Whether the receiver can tell the sender the result.
    pub fn can_be_told(self) -> bool {
        self.is_value() || self == Reveal::Matches
    }

    /// Whether the receiver learns which of its items match.
    pub fn is_matches(self) -> bool {
        matches!(self.last().answer(), Answer::Matches)
    }

    /// Whether the receiver learns rows of the sender that it lacks: there is no such run without labels.
    pub fn is_rows(self) -> bool {
        matches!(self.last().answer(), Answer::Rows)
    }

    /// Whether both parties learn ids of their items.
    pub fn is_ids(self) -> bool {
        matches!(self.last().answer(), Answer::Ids)
    }

    /// Whether the sender can hand over labels.
    pub fn takes_labels(self) -> bool {
        self == Reveal::Matches || self.is_rows()
    }

    /// What the party has whose items are in the table of a circuit, and what the other one has, of what receiver and sender
    /// have. The sender's items are there where it hands over rows or ids, of which it alone may know the bins.
    pub fn by_part<T>(self, of: [T; 2]) -> [T; 2] {
        let [receiver, sender] = of;
        match self.is_rows() || self.is_ids() {
            true => [sender, receiver],
            false => [receiver, sender],
        }
    }

    /// Whether the result can depend on a minimum of this size.
    pub fn takes_minimum(self, min_size: u64) -> bool {
        self.last().takes_minimum(min_size)
    }

    /// Whether the result can be computed from so many values.
    pub fn takes_values(self, values: Values) -> bool {
        values.are_within_bounds() && self.last().takes_values(values)
    }

    /// As few values as an item can have: `columns` of the sender's, or else of the receiver's, where that party can have
    /// several.
    pub fn fewest_values(self, columns: u8) -> Values {
        let ways = [[0, 0], [0, columns], [columns, 0], [1, 1]];
        let mut ways = ways
            .map(|[receiver, sender]| Values { receiver, sender })
            .into_iter();
        let fits = |values: &Values| self.takes_values(*values);
        ways.find(fits).unwrap_or_default()
    }

    /// The numbers of a run with so many values, in order: what each is, and the column of either party's values that goes
    /// into it, counted from 0. Nothing for what yields no numbers.
    pub fn numbers(self, values: Values) -> Vec<(Reveal, usize)> {
        let of = |reveal: &Reveal| {
            let count = match reveal.answer() {
                Answer::Number(_) => 1,
                Answer::NumberPerColumn(_) => values.receiver.max(values.sender),
                Answer::Matches | Answer::Shares | Answer::Rows | Answer::Ids => 0,
            };
            let reveal = *reveal;
            (0..usize::from(count)).map(move |column| (reveal, column))
        };
        self.0.iter().flat_map(of).collect()
    }

    /// The name of each of [`Reveals::numbers`]: that of what it is, with the place of the column, counted from 1, if there
    /// are several.
    pub fn names(self, values: Values) -> Vec<String> {
        let numbers = self.numbers(values);
        let name = |(reveal, column): &(Reveal, usize)| {
            let alike = numbers.iter().filter(|(other, _)| other == reveal).count();
            match alike {
                1 => reveal.to_string(),
                _ => format!("{reveal}-{}", column + 1),
            }
        };
        numbers.iter().map(name).collect()
    }
}

impl From<Reveal> for Reveals {
    fn from(reveal: Reveal) -> Reveals {
        Reveals(reveal.alone())
    }
}

impl PartialEq<Reveal> for Reveals {
    fn eq(&self, other: &Reveal) -> bool {
        self.0 == [*other]
    }
}

impl fmt::Display for Reveals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|reveal| reveal.name()).collect();
        f.write_str(&names.join(","))
    }
}

/// Fails for names that there are not, or that do not go together.
impl FromStr for Reveals {
    type Err = ();

    fn from_str(text: &str) -> Result<Reveals, ()> {
        let named = |name| Reveal::ALL.iter().find(|reveal| reveal.name() == name);
        let each: Option<Vec<Reveal>> = text.split(',').map(|name| named(name).copied()).collect();
        each.and_then(|each| Reveals::of(&each)).ok_or(())
    }
}

impl Serialize for Reveals {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Reveals {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Reveals, D::Error> {
        let text = String::deserialize(from)?;
        let problem = || serde::de::Error::custom("nothing is revealed under that name");
        text.parse().map_err(|()| problem())
    }
}

/// How many values each party has for each of its items, at most [`MAX_VALUE_COLUMNS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The receiver.
    pub receiver: u8,
    /// The sender.
    pub sender: u8,
}

impl Values {
    /// Neither party has any.
    pub const NONE: Values = Values {
        receiver: 0,
        sender: 0,
    };

    fn are_within_bounds(self) -> bool {
        usize::from(self.receiver.max(self.sender)) <= MAX_VALUE_COLUMNS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(receiver: u8, sender: u8) -> Values {
        Values { receiver, sender }
    }

    #[test]
    fn names_come_back_and_others_are_refused() {
        for reveals in Reveals::all() {
            assert_eq!(reveals.to_string().parse(), Ok(reveals));
        }
        let sums: Reveals = "sum,size".parse().unwrap();
        assert_eq!(sums.each(), [Reveal::Size, Reveal::Sum]);
        for alone in Reveal::ALL {
            assert_eq!(Reveals::from(*alone), *alone);
            assert_eq!(Reveals::of(&[*alone; 2]), None);
        }
        for wrong in [
            "",
            "size,",
            "sizes",
            "size,matches",
            "size,shares",
            "size,union",
            "size,ids",
            "sum,inner-product",
            "size,sum,sum",
        ] {
            assert_eq!(wrong.parse::<Reveals>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_sums_of_what_items_add() {
        let added = |reveal: Reveal, values| reveal.adds(values);
        assert_eq!(added(Reveal::Size, [0, -7]), Some(1));
        assert_eq!(added(Reveal::Sum, [0, -7]), Some(-7));
        assert_eq!(added(Reveal::Sum, [5, 0]), Some(5));
        assert_eq!(added(Reveal::InnerProduct, [5, -7]), Some(-35));
        for reveal in Reveal::ALL {
            let alone = Reveals::from(*reveal);
            assert_eq!(reveal.adds([1; 2]).is_some(), alone.is_value(), "{reveal}");
        }
    }

    #[test]
    fn a_number_for_each_column() {
        let both = Reveals(&[Reveal::Size, Reveal::Sum]);
        assert_eq!(both.names(values(1, 0)), ["size", "sum"]);
        assert_eq!(
            both.names(values(0, 3)),
            ["size", "sum-1", "sum-2", "sum-3"]
        );
        assert_eq!(
            Reveals::from(Reveal::Sum).names(values(2, 0)),
            ["sum-1", "sum-2"]
        );
        assert!(
            Reveals::from(Reveal::Shares)
                .numbers(values(2, 1))
                .is_empty()
        );
        for (of, fits) in [
            ((0, 0), false),
            ((1, 0), true),
            ((0, 8), true),
            ((0, 9), false),
            ((1, 1), false),
        ] {
            assert_eq!(both.takes_values(values(of.0, of.1)), fits, "{of:?}");
        }
        let product = Reveals(&[Reveal::Size, Reveal::InnerProduct]);
        assert!(product.takes_values(values(1, 1)) && !product.takes_values(values(2, 1)));
        assert!(!Reveals::from(Reveal::Size).takes_values(values(1, 0)));
        assert!(Reveals::from(Reveal::Shares).takes_values(values(0, 2)));
        for (reveals, fewest) in [(both, values(0, 3)), (product, values(1, 1))] {
            assert_eq!(reveals.fewest_values(3), fewest);
        }
        assert_eq!(Reveals::from(Reveal::Shares).fewest_values(3), Values::NONE);
    }
}
