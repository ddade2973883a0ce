//! What a run reveals, and what it must say: plain arithmetic over the numbers behind the keys, without any code of
//! the project.

use std::collections::{BTreeMap, BTreeSet};

use vesica::{Report, Reveal};
use vesica_psi::{Shares, Spine, indices_vartime};
use vesica_session::{MemorySet, Reveals};

use crate::trial::Table;

/// What `--reveal` asks for, and whose values a sum is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    Matches,
    Size,
    Threshold,
    SumOfReceiver,
    SumOfSender,
    InnerProduct,
    /// The size, and the sums of some columns.
    SeveralOfReceiver,
    SeveralOfSender,
    SizeAndInnerProduct,
    ThresholdMatches,
    Shares,
    Union,
    Ids,
}

impl Question {
    /// All that a protocol which reveals this can be asked for.
    pub(crate) fn of(reveal: Reveal) -> &'static [Question] {
        match reveal {
            Reveal::Matches => &[Question::Matches],
            Reveal::Size => &[Question::Size, Question::Threshold],
            Reveal::Sum => &[
                Question::SumOfReceiver,
                Question::SumOfSender,
                Question::SeveralOfReceiver,
                Question::SeveralOfSender,
            ],
            Reveal::InnerProduct => &[Question::InnerProduct, Question::SizeAndInnerProduct],
            Reveal::ThresholdMatches => &[Question::ThresholdMatches],
            Reveal::Shares => &[Question::Shares],
            Reveal::Union => &[Question::Union],
            Reveal::Ids => &[Question::Ids],
            _ => panic!("{reveal} is not tested"),
        }
    }

    pub(crate) fn reveal(self) -> Reveals {
        let reveal = match self {
            Question::Matches => Reveal::Matches,
            Question::Size | Question::Threshold => Reveal::Size,
            Question::SumOfReceiver | Question::SumOfSender => Reveal::Sum,
            Question::InnerProduct => Reveal::InnerProduct,
            Question::ThresholdMatches => Reveal::ThresholdMatches,
            Question::Shares => Reveal::Shares,
            Question::Union => Reveal::Union,
            Question::Ids => Reveal::Ids,
            Question::SeveralOfReceiver | Question::SeveralOfSender => {
                return Reveals::of(&[Reveal::Size, Reveal::Sum]).unwrap();
            }
            Question::SizeAndInnerProduct => {
                return Reveals::of(&[Reveal::Size, Reveal::InnerProduct]).unwrap();
            }
        };
        reveal.into()
    }

    /// Whether receiver and sender can have values.
    pub(crate) fn values(self) -> [bool; 2] {
        match self {
            Question::SumOfReceiver | Question::SeveralOfReceiver => [true, false],
            Question::SumOfSender | Question::SeveralOfSender => [false, true],
            Question::InnerProduct | Question::SizeAndInnerProduct | Question::Shares => {
                [true, true]
            }
            Question::Matches
            | Question::Size
            | Question::Threshold
            | Question::ThresholdMatches
            | Question::Union
            | Question::Ids => [false, false],
        }
    }

    /// How many columns of values a side that has some can have.
    pub(crate) fn most_columns(self) -> u64 {
        match self {
            Question::SeveralOfReceiver | Question::SeveralOfSender => 8,
            _ => 1,
        }
    }

    /// Whether a run needs a minimum, and whether it can have one.
    pub(crate) fn minimum(self) -> [bool; 2] {
        let needs = matches!(self, Question::Threshold | Question::ThresholdMatches);
        let has_none = matches!(
            self,
            Question::Matches | Question::Shares | Question::Union | Question::Ids
        );
        [needs, !has_none]
    }

    /// The name in tables and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Question::Matches => "matches",
            Question::Size => "size",
            Question::Threshold => "threshold",
            Question::SumOfReceiver => "sum of the receiver's values",
            Question::SumOfSender => "sum of the sender's values",
            Question::InnerProduct => "inner product",
            Question::SeveralOfReceiver => "size and sums of the receiver's values",
            Question::SeveralOfSender => "size and sums of the sender's values",
            Question::SizeAndInnerProduct => "size and inner product",
            Question::ThresholdMatches => "threshold-matches",
            Question::Shares => "shares",
            Question::Union => "union",
            Question::Ids => "ids",
        }
    }

    /// Whether both sides have a result, and the answer is what these say together.
    pub(crate) fn is_of_both(self) -> bool {
        matches!(self, Question::Shares | Question::Ids)
    }

    /// The options of both sides, with a minimum if it is not 0.
    pub(crate) fn words(self, minimum: u64) -> String {
        let reveal = self.reveal();
        match (self, minimum) {
            // More than one less.
            (Question::Threshold, _) => format!("--reveal threshold:{}", minimum - 1),
            (Question::ThresholdMatches, _) => format!("--reveal {reveal}:{}", minimum - 1),
            (_, 0) => format!("--reveal {reveal}"),
            _ => format!("--reveal {reveal} --min-size {minimum}"),
        }
    }
}

/// What the receiver, or for shares and ids both sides together, know at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The persons in common, in order.
    Matches(Vec<u64>),
    /// A number of units.
    Value(i128),
    /// Several.
    Values(Vec<i128>),
    /// Fewer match than this number.
    Below(u64),
    /// What the shares say of all cells that say something.
    Shares(Vec<Cell>),
    /// The texts of the sender's persons that the receiver lacks, in order.
    Rows(Vec<String>),
    /// The persons that have one id on both sides, in order, and how many ids there are.
    Ids(Vec<u64>, usize),
}

impl Answer {
    /// The answer of a run over these tables.
    pub(crate) fn of(question: Question, tables: [&Table; 2], minimum: u64) -> Answer {
        if Answer::counted(tables) < minimum {
            return Answer::Below(minimum);
        }
        let common = common(tables);
        match question {
            Question::Matches | Question::ThresholdMatches => {
                Answer::Matches(common.into_keys().collect())
            }
            Question::Shares => {
                let has = tables.map(Table::has_values);
                let cell = |(person, values): (u64, Vec<[i128; 2]>)| Cell {
                    person: Some(person),
                    matches: true,
                    values: [0, 1].map(|side| if has[side] { values[0][side] } else { 0 }),
                    texts: tables.map(|table| table.text(person)),
                };
                Answer::Shares(common.into_iter().map(cell).collect())
            }
            Question::Union => Answer::Rows(tables[1].texts_beside(tables[0])),
            Question::Ids => {
                let [ours, theirs] = tables.map(Table::distinct);
                Answer::Ids(common.into_keys().collect(), ours.union(&theirs).count())
            }
            Question::Size
            | Question::Threshold
            | Question::SumOfReceiver
            | Question::SumOfSender
            | Question::InnerProduct => Answer::Value(sums(&common, columns(tables))[0]),
            Question::SeveralOfReceiver
            | Question::SeveralOfSender
            | Question::SizeAndInnerProduct => {
                let mut all = vec![common.len() as i128];
                all.extend(sums(&common, columns(tables)));
                Answer::Values(all)
            }
        }
    }

    /// How many persons count for a minimum: those that add to each of the numbers.
    pub(crate) fn counted(tables: [&Table; 2]) -> u64 {
        let common = common(tables);
        let adds = |column: usize| {
            let values = common.values();
            values
                .filter(|all| all[column][0] * all[column][1] != 0)
                .count()
        };
        let least = (0..columns(tables)).map(adds).min();
        least.expect("a column of ones at least") as u64
    }

    /// What the command prints for it, of a run over these tables.
    pub(crate) fn printed(&self, tables: [&Table; 2]) -> String {
        let [ours, theirs] = tables.map(Table::scales);
        let scale = |column: usize| {
            let of = |scales: &[u8]| scales.get(column).copied().unwrap_or(0);
            of(&ours) + of(&theirs)
        };
        match self {
            Answer::Value(units) => format!("{}\n", decimal(*units, scale(0))),
            Answer::Values(all) => {
                let number = |(column, units): (usize, &i128)| {
                    let name = match (tables.map(Table::has_values), all.len()) {
                        ([true, true], _) => "inner-product".to_owned(),
                        (_, 2) => "sum".to_owned(),
                        _ => format!("sum-{}", column + 1),
                    };
                    format!("{name}\t{}\n", decimal(*units, scale(column)))
                };
                let sums: String = all[1..].iter().enumerate().map(number).collect();
                format!("size\t{}\n{sums}", all[0])
            }
            Answer::Below(least) => format!("fewer than {least}\n"),
            Answer::Matches(_) | Answer::Shares(_) | Answer::Rows(_) | Answer::Ids(..) => {
                String::new()
            }
        }
    }

    /// What the two files with ids of these tables say together; `None` if one of them is no result.
    pub(crate) fn of_ids(files: [&str; 2], tables: [&Table; 2]) -> Option<Answer> {
        let [ours, theirs] = [0, 1].map(|side| tables[side].ids(files[side]));
        let (ours, theirs) = (ours?, theirs?);
        let same = |(person, id): (&u64, &(u64, String))| {
            (theirs.get(person) == Some(id)).then_some(*person)
        };
        let common = ours.iter().filter_map(same).collect();
        let rows: BTreeMap<_, _> = ours.values().chain(theirs.values()).cloned().collect();
        let ids: BTreeSet<&String> = rows.values().collect();
        // Places count them in order.
        let is_list =
            rows.keys().copied().eq(1..=rows.len() as u64) && ids.into_iter().eq(rows.values());
        is_list.then_some(Answer::Ids(common, rows.len()))
    }

    /// The answer that two shares open to. `person` is that of an item of the receiver.
    pub(crate) fn opened(near: &Shares, far: &Shares, person: impl Fn(u32) -> u64) -> Answer {
        assert_eq!(near.matches.len(), far.matches.len());
        let sides = [
            [&near.receiver_values, &far.receiver_values],
            [&near.sender_values, &far.sender_values],
        ];
        let strings = [
            [&near.receiver_strings, &far.receiver_strings],
            [&near.sender_strings, &far.sender_strings],
        ];
        let items = near.items.as_ref().expect("the receiver knows its cells");
        let cells = items.iter().enumerate().map(|(cell, item)| Cell {
            person: item.map(&person),
            matches: near.matches[cell] != far.matches[cell],
            values: sides.map(|shares| match shares.map(Vec::as_slice) {
                [[a], [b]] => signed(a[cell].wrapping_add(b[cell])),
                [[], []] => 0,
                _ => panic!("one side has no shares of the values"),
            }),
            texts: strings.map(|shares| {
                let [ours, theirs] = shares.map(|shares| {
                    let each = shares.len() / items.len().max(1);
                    &shares[cell * each..][..each]
                });
                exclusive_or(ours, theirs)
            }),
        });
        Answer::Shares(telling(cells))
    }

    /// The same of the two files. `person` is that of a row of the receiver, counted from 1.
    pub(crate) fn opened_files(near: &str, far: &str, person: impl Fn(usize) -> u64) -> Answer {
        let rows = |text: &str| -> Vec<Vec<String>> {
            let fields = |line: &str| line.split(',').map(str::to_owned).collect();
            text.lines().map(fields).collect()
        };
        let (near, far) = (rows(near), rows(far));
        assert_eq!(near.len(), far.len());
        assert_eq!(near[0][0], "row");
        assert_eq!(near[0][1..], far[0]);
        let column = |name: &str| far[0].iter().position(|column| column == name);
        let columns = ["match", "receiver_value", "sender_value"].map(column);
        let texts = ["receiver_payload", "sender_payload"].map(column);
        let share = |row: &[String], column: usize| -> u64 { row[column].parse().unwrap() };
        let cells = near[1..].iter().zip(&far[1..]).map(|(near, far)| {
            let [matches, values @ ..] = columns.map(|column| {
                let column = column?;
                Some([share(&near[1..], column), share(far, column)])
            });
            Cell {
                person: (!near[0].is_empty()).then(|| person(near[0].parse().unwrap())),
                matches: matches.is_some_and(|[a, b]| a != b),
                values: values.map(|v| v.map_or(0, |[a, b]| signed(a.wrapping_add(b)))),
                texts: texts.map(|column| {
                    column.map_or(Vec::new(), |column| {
                        exclusive_or(&bytes(&near[1 + column]), &bytes(&far[column]))
                    })
                }),
            }
        });
        Answer::Shares(telling(cells))
    }
}

/// The persons in common, with what receiver and sender have for each in each column: 1 where they have no values.
fn common(tables: [&Table; 2]) -> BTreeMap<u64, Vec<[i128; 2]>> {
    let [ours, theirs] = tables.map(Table::totals);
    let both = |(person, own): (u64, Vec<i128>)| {
        let other = theirs.get(&person)?;
        let of = |values: &[i128], column: usize| values.get(column).copied().unwrap_or(1);
        let pair = |column| [of(&own, column), of(other, column)];
        Some((person, (0..columns(tables)).map(pair).collect()))
    };
    ours.into_iter().filter_map(both).collect()
}

/// Columns of numbers: those of values, and one of ones if there are none.
fn columns(tables: [&Table; 2]) -> usize {
    let [ours, theirs] = tables.map(|table| table.scales().len());
    ours.max(theirs).max(1)
}

/// The sum of each column.
fn sums(common: &BTreeMap<u64, Vec<[i128; 2]>>, columns: usize) -> Vec<i128> {
    let product = |[a, b]: [i128; 2]| a * b;
    let sum = |column: usize| common.values().map(|all| product(all[column])).sum();
    (0..columns).map(sum).collect()
}

/// A decimal number with so many digits after the point.
pub(crate) fn decimal(units: i128, scale: u8) -> String {
    let digits = format!("{:0>1$}", units.abs(), usize::from(scale) + 1);
    let (whole, fraction) = digits.split_at(digits.len() - usize::from(scale));
    let sign = if units < 0 { "-" } else { "" };
    match scale {
        0 => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

/// What the shares of a cell open to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    /// The receiver's item in the cell.
    person: Option<u64>,
    matches: bool,
    /// Of receiver and sender.
    values: [i128; 2],
    /// The same, with zeros after them.
    texts: [Vec<u8>; 2],
}

/// Two shares put together.
fn exclusive_or(ours: &[u8], theirs: &[u8]) -> Vec<u8> {
    assert_eq!(ours.len(), theirs.len());
    ours.iter().zip(theirs).map(|(a, b)| a ^ b).collect()
}

/// What these hexadecimal digits stand for.
fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(byte).collect()
}

/// The text in a label of one column, which is not null.
fn text_of(label: &[u8]) -> String {
    let length = usize::from(u16::from_le_bytes([label[0], label[1]])) - 1;
    let (text, rest) = label[2..].split_at(length);
    assert!(rest.iter().all(|byte| *byte == 0));
    String::from_utf8(text.to_vec()).unwrap()
}

/// The cells that match, have values or have texts, in order.
fn telling(cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    let has_texts = |cell: &Cell| cell.texts.iter().flatten().any(|byte| *byte != 0);
    let mut telling: Vec<Cell> = cells
        .filter(|cell| cell.matches || cell.values != [0, 0] || has_texts(cell))
        .collect();
    telling.sort();
    telling
}

fn signed(value: u64) -> i128 {
    (value as i64).into()
}

/// What one side has at the end of a run in memory.
#[derive(Clone, Debug)]
pub(crate) struct Learnt {
    pub(crate) report: Report,
    /// Its items that match.
    pub(crate) matches: Option<Vec<u32>>,
    shares: Option<Shares>,
    /// The texts of the peer's rows that it lacks.
    rows: Vec<String>,
    spine: Option<Spine>,
}

impl Learnt {
    pub(crate) fn new(report: Report, set: MemorySet) -> Learnt {
        Learnt {
            matches: set.matched().map(indices_vartime),
            shares: set.shares().cloned(),
            rows: set.rows_of_peer().map(text_of).collect(),
            spine: set.spine().cloned(),
            report,
        }
    }

    /// The answer of a run in which the receiver got this and, if it is about shares, the sender that. `person` is that of an item of the receiver.
    pub(crate) fn answer(&self, sender: Option<&Learnt>, person: impl Fn(u32) -> u64) -> Answer {
        let report = &self.report;
        if let Some(values) = &report.values {
            assert_eq!((report.below, report.value), (None, None));
            return Answer::Values(values.iter().map(|(_, value)| value.units).collect());
        }
        match (&self.matches, report.below, report.value, &self.shares) {
            (_, Some(least), None, None) => Answer::Below(least),
            (None, None, Some(value), None) => Answer::Value(value.units),
            (Some(matches), None, None, None) => {
                let mut persons: Vec<u64> = matches.iter().map(|item| person(*item)).collect();
                persons.sort_unstable();
                Answer::Matches(persons)
            }
            (None, None, None, None) if report.reveal.is_ids() => {
                let far = sender.and_then(|sender| sender.spine.as_ref());
                let (near, far) = (self.spine.as_ref().unwrap(), far.unwrap());
                let all = near.ids.len();
                let matches = report.items + report.peer_items - all as u64;
                assert_eq!(
                    (report.spine_rows, report.matches),
                    (Some(all as u64), Some(matches))
                );
                let is_theirs = |row: &u32| near.ids == far.ids && far.rows.contains(row);
                let ours = (0..).zip(&near.rows).filter(|(_, row)| is_theirs(row));
                let mut common: Vec<u64> = ours.map(|(item, _)| person(item)).collect();
                common.sort_unstable();
                Answer::Ids(common, all)
            }
            (None, None, None, None) if report.reveal.is_rows() => {
                let lacked = report.peer_items - self.rows.len() as u64;
                assert_eq!(report.matches, Some(lacked));
                let mut rows = self.rows.clone();
                rows.sort_unstable();
                Answer::Rows(rows)
            }
            (None, None, None, Some(near)) => {
                let far = sender.and_then(|sender| sender.shares.as_ref());
                let far = far.expect("the sender has shares too");
                Answer::opened(near, far, person)
            }
            other => panic!("{other:?}"),
        }
    }
}
