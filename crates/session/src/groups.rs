//! Groups of the receiver's keys, of each of which it learns numbers.

use std::collections::HashMap;

use serde::Serialize;
use vesica_files::many;
use vesica_plan::buckets::capacity;
use vesica_psi::{
    Capacities, GroupMinimum, Groups, MAX_GROUP_WIRES, NO_GROUP, PADDING_GROUP, Reveal,
};
use vesica_wire::{Error as WireError, Limit};
use zeroize::Zeroizing;

use crate::codec::{bad, impossible};
use crate::group_terms::{GROUPS, GroupTerms, count_problem};
use crate::terms::{LEARNS, REVEAL};
use crate::value::by_name;
use crate::{Contract, Decimal};

/// Bytes of the label that says in which group a key is: the name of the group, and zeros after it.
pub const GROUP_BYTES: usize = 64;

/// How a receiver divides its keys into groups.
#[derive(Clone, PartialEq, Eq)]
pub struct Grouping {
    /// The name of each group, at most [`GROUP_BYTES`] bytes, and how many keys it has.
    pub groups: Vec<(String, u64)>,
    /// How many keys are in none.
    pub rest: u64,
    /// What the sender learns of their sizes.
    pub sizes: GroupSizes,
    /// What a minimum withholds.
    pub minimum: GroupMinimum,
}

/// What a sender learns of the sizes of groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupSizes {
    /// Nothing but how many groups there are. Takes traffic for each group.
    #[default]
    Hidden,
    /// How many keys each has, without their names.
    Told,
    /// That none has more keys than this.
    Padded(u64),
}

vesica_primitives::opaque!(Grouping, sizes, minimum);

impl Grouping {
    /// The groups from the largest to the smallest: the order in which the sender learns of sizes.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.groups.len()).collect();
        order.sort_by(|a, b| {
            let [a, b] = [a, b].map(|group| &self.groups[*group]);
            b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0))
        });
        order
    }

    /// What the peer hears of them.
    pub(crate) fn terms(&self) -> GroupTerms {
        let sizes = self.order().into_iter().map(|group| self.groups[group].1);
        GroupTerms {
            count: self.groups.len() as u32,
            minimum: self.minimum,
            sizes: match self.sizes {
                GroupSizes::Hidden => None,
                GroupSizes::Told => Some(sizes.collect()),
                GroupSizes::Padded(size) => Some(vec![size; self.groups.len()]),
            },
            is_padded: matches!(self.sizes, GroupSizes::Padded(_)),
            has_rest: self.rest > 0 && self.sizes != GroupSizes::Hidden,
        }
    }

    /// The problem with it, if it has one, where each number is over so many columns of values. Without any group they are not
    /// known yet.
    pub(crate) fn problem(&self, columns: usize) -> Option<String> {
        if self.groups.is_empty() {
            return None;
        }
        let is_hidden = self.sizes == GroupSizes::Hidden;
        let problem = count_problem(self.groups.len(), is_hidden, columns);
        if problem.is_some() {
            return problem;
        }
        let mut names: Vec<&str> = self.groups.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(format!("two groups are called {:?}", pair[0]));
        }
        let is_name = |name: &&str| (1..=GROUP_BYTES).contains(&name.len());
        if let Some(name) = names.into_iter().find(|name| !is_name(name)) {
            return Some(format!(
                "the name of a group is of 1 to {GROUP_BYTES} bytes, and {name:?} is not"
            ));
        }
        let GroupSizes::Padded(most) = self.sizes else {
            return None;
        };
        let mut larger = self.groups.iter().filter(|(_, size)| *size > most);
        larger.next().map(|(name, size)| {
            format!(
                "group {name:?} has {}, and is to be padded to {most}",
                many(*size, "key")
            )
        })
    }

    /// The number of the group that each key is in, by its label, and of what pads a set to so many items.
    ///
    /// Fails if a group has more keys than it has room for.
    pub(crate) fn groups_of(
        &self,
        labels: &[u8],
        capacities: Option<&Capacities>,
        items: usize,
    ) -> Result<Zeroizing<Vec<u32>>, WireError> {
        let of_name = |(number, group): (u32, usize)| {
            let mut label = [0; GROUP_BYTES];
            let name = self.groups[group].0.as_bytes();
            label[..name.len()].copy_from_slice(name);
            (label, number)
        };
        let numbers: HashMap<[u8; GROUP_BYTES], u32> =
            (0..).zip(self.order()).map(of_name).collect();
        let (mut sizes, mut rest) = (vec![0u64; self.groups.len()], 0u64);
        let mut all = Zeroizing::new(Vec::with_capacity(items));
        for label in labels.as_chunks().0 {
            let group = numbers.get(label).copied().unwrap_or(NO_GROUP);
            *sizes.get_mut(group as usize).unwrap_or(&mut rest) += 1;
            all.push(group);
        }
        all.resize(items, PADDING_GROUP);
        let Some(room) = capacities else {
            return Ok(all);
        };
        let of_groups = room.of_groups.iter().zip(&sizes);
        // What is in no group takes room where groups leave some.
        let are_full = of_groups.clone().all(|(room, size)| room == size);
        let has_room =
            (are_full || rest <= room.rest) && of_groups.clone().all(|(room, size)| room >= size);
        match has_room {
            true => Ok(all),
            // Which one is not for the peer.
            false => Err(WireError::limit(
                Limit::Encoding,
                "too many items of a group fell into one bucket; run again",
            )),
        }
    }

    /// What was learnt of each group, by the numbers of each in the order that the sender knows.
    pub(crate) fn report(
        &self,
        numbers: &[Option<Vec<i128>>],
        names: &[(String, u8)],
    ) -> Vec<GroupNumbers> {
        let mut all: Vec<Option<GroupNumbers>> = vec![None; self.groups.len()];
        for (group, numbers) in self.order().into_iter().zip(numbers) {
            let of = |numbers: &Vec<i128>| {
                let named = |((name, scale), units): (&(String, u8), &i128)| {
                    let value = Decimal {
                        units: *units,
                        scale: *scale,
                    };
                    (name.clone(), value)
                };
                names.iter().zip(numbers).map(named).collect()
            };
            all[group] = Some(GroupNumbers {
                group: self.groups[group].0.clone(),
                values: numbers.as_ref().map(of),
            });
        }
        all.into_iter().flatten().collect()
    }
}

/// What was learnt of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GroupNumbers {
    /// Its name.
    pub group: String,
    /// Its numbers with their names; `None` if they are withheld. Written as an object.
    #[serde(serialize_with = "by_name")]
    pub values: Option<Vec<(String, Decimal)>>,
}

impl Contract {
    /// Fails if the run has no numbers by group, of these groups.
    pub(crate) fn check_groups(&self) -> Result<(), WireError> {
        let Some(groups) = &self.groups else {
            return Ok(());
        };
        let reveal = self.get(&REVEAL);
        let known = |reveal: &Reveal| matches!(reveal, Reveal::Size | Reveal::Sum);
        if !reveal.each().iter().all(known) || !self.sender_values.is_empty() {
            return Err(bad(
                GROUPS,
                "not of sizes and sums of the receiver's values",
            ));
        }
        if self.get(&LEARNS).is_both() {
            return Err(bad(GROUPS, "both sides learn the numbers"));
        }
        let columns = self.receiver_values.len().max(1);
        if let Some(problem) = count_problem(groups.count as usize, groups.sizes.is_none(), columns)
        {
            return Err(impossible(GROUPS, problem));
        }
        let Some([all, rest]) = groups.wires(self.receiver_size) else {
            return Ok(());
        };
        let told = groups.sizes.iter().flatten();
        let told = told.fold(0u64, |all, size| all.saturating_add(*size));
        if !groups.is_padded && told > self.receiver_size {
            return Err(bad(GROUPS, "more keys than there are"));
        }
        if all.saturating_add(rest) > MAX_GROUP_WIRES {
            let reason = format!("groups of {all} keys in all; {MAX_GROUP_WIRES} are possible");
            return Err(WireError::limit(Limit::Size, reason));
        }
        Ok(())
    }

    /// Fails if told sizes show what the receiver's noise is to hide: whether it has a key more.
    pub(crate) fn check_noise_of_groups(&self) -> Result<(), WireError> {
        let is_padded = self
            .receiver_noise
            .as_ref()
            .is_some_and(|noise| noise.is_padded);
        let told = self
            .groups
            .as_ref()
            .filter(|groups| groups.sizes.is_some() && !groups.is_padded);
        match told {
            Some(_) if is_padded => Err(bad(GROUPS, "sizes of a padded set")),
            _ => Ok(()),
        }
    }

    /// The groups of each bucket.
    pub(crate) fn groups_of_buckets(&self) -> Option<Groups> {
        let terms = self.groups.as_ref()?;
        let (buckets, count) = (self.buckets, terms.count as usize);
        // Some group of some bucket has too little room with the probability that some bucket has.
        let lambda = self.lambda_of_attempt() + (terms.count + 1).next_power_of_two().ilog2();
        let room = |keys: u64| capacity(keys, buckets, lambda);
        let wires = terms.wires(self.receiver_size);
        let sizes = terms.room(self.receiver_size);
        let capacities = sizes.zip(wires).map(|(sizes, [_, rest])| Capacities {
            of_groups: sizes.map(room).collect(),
            // Groups that are full take nothing from what is in none.
            rest: if buckets == 1 && !terms.is_padded {
                0
            } else {
                room(rest)
            },
        });
        Some(Groups {
            count,
            capacities,
            minimum: terms.minimum,
        })
    }

    /// Memory in bytes that putting a bucket with so many of the receiver's keys into the order of groups takes, approximately.
    pub(crate) fn bytes_of_groups(&self, keys: u64) -> u64 {
        /// Of a network, for each bit.
        const BYTES: u64 = 45;
        let wires = self
            .groups
            .as_ref()
            .and_then(|groups| groups.wires(self.receiver_size));
        wires.map_or(0, |[all, rest]| {
            let share = u128::from(all.saturating_add(rest)) * u128::from(keys);
            let here = share.div_ceil(u128::from(self.receiver_size.max(1)));
            BYTES.saturating_mul(u64::try_from(here).unwrap_or(u64::MAX).max(keys))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grouping(sizes: GroupSizes) -> Grouping {
        let groups = [("b", 2), ("a", 9), ("c", 2), ("none", 0)];
        Grouping {
            groups: groups.map(|(name, keys)| (name.to_owned(), keys)).to_vec(),
            rest: 0,
            sizes,
            minimum: GroupMinimum::All,
        }
    }

    fn label(name: &str) -> [u8; GROUP_BYTES] {
        let mut label = [0; GROUP_BYTES];
        label[..name.len()].copy_from_slice(name.as_bytes());
        label
    }

    #[test]
    fn sizes_are_told_without_names_and_results_come_back_with_them() {
        let all = grouping(GroupSizes::Told);
        assert_eq!(all.terms().sizes, Some(vec![9, 2, 2, 0]));
        let labels = ["a", "c", "", "b", "elsewhere", "a"].map(label);
        let found = all.groups_of(labels.as_flattened(), None, 8).unwrap();
        let expected = [0, 2, NO_GROUP, 1, NO_GROUP, 0, PADDING_GROUP, PADDING_GROUP];
        assert_eq!(*found, expected);
        let numbers = [
            Some(vec![5, 125]),
            None,
            Some(vec![1, -5]),
            Some(vec![0, 0]),
        ];
        let names = [("size".to_owned(), 0), ("sum".to_owned(), 2)];
        let report = all.report(&numbers, &names);
        let shown = |of: &GroupNumbers| {
            let values = of.values.iter().flatten();
            let values: Vec<String> = values
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            format!("{}: {}", of.group, values.join(", "))
        };
        let shown: Vec<String> = report.iter().map(shown).collect();
        let expected = [
            "b: ",
            "a: size 5, sum 1.25",
            "c: size 1, sum -0.05",
            "none: size 0, sum 0.00",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn groups_without_room_are_refused() {
        let all = grouping(GroupSizes::Told);
        let labels = ["c", "c", "c"].map(label);
        let room = |size: u64| Capacities {
            of_groups: [9, 2, size, 0].into(),
            rest: 0,
        };
        let fits = |labels: &[[u8; GROUP_BYTES]], room: &Capacities| {
            all.groups_of(labels.as_flattened(), Some(room), labels.len())
                .is_ok()
        };
        assert!(fits(&labels, &room(3)) && !fits(&labels, &room(2)));
        // One in none needs room too, unless every group is full.
        let labels = ["c", "c", ""].map(label);
        let mut room = room(2);
        assert!(!fits(&labels, &room));
        room.of_groups = [0, 2, 0, 0].into();
        assert!(!fits(&labels, &room));
        room.of_groups = [0, 0, 2, 0].into();
        assert!(fits(&labels, &room));
        room.of_groups = [9, 2, 2, 0].into();
        room.rest = 1;
        assert!(fits(&labels, &room));
    }

    #[test]
    fn impossible_groups_are_refused() {
        let problem = |grouping: &Grouping, columns| grouping.problem(columns).unwrap_or_default();
        let fine = grouping(GroupSizes::Hidden);
        assert_eq!(fine.problem(1), None);
        assert_eq!(fine.problem(16), None);
        assert!(problem(&fine, 17).contains("there can be 3"));
        assert_eq!(grouping(GroupSizes::Padded(9)).problem(8), None);
        assert!(problem(&grouping(GroupSizes::Padded(8)), 8).contains("\"a\" has 9 keys"));
        let mut twice = fine.clone();
        twice.groups.push(("a".into(), 1));
        assert!(problem(&twice, 1).contains("two groups"));
        for name in ["", &"x".repeat(65)] {
            let mut unnamed = fine.clone();
            unnamed.groups[0].0 = name.into();
            assert!(problem(&unnamed, 1).contains("name of a group"));
        }
        let mut many = grouping(GroupSizes::Told);
        many.groups = (0..1025).map(|i| (i.to_string(), 1)).collect();
        assert!(problem(&many, 1).contains("1025 groups"));
        many.groups.truncate(1024);
        assert_eq!(many.problem(8), None);
        many.groups.clear();
        assert_eq!(many.problem(1), None);
    }
}
