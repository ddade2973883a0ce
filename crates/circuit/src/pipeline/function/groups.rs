//! Numbers of each group of the receiver's items.
//!
//! **Sizes that the sender learns.** The receiver puts the shared bits into an order of its own by the network of
//! [`crate::permute`]: those of its first group, up to as many as the sender knows of, then those of the second, and so on.
//! What is left of a group is filled up with what does not match: empty bins and those of items that pad the set, and further
//! bits that are shared as zeros where there are too few of those. Each number is then computed over all groups, and both
//! parties add up the segment of each group by themselves.
//!
//! **Sizes that it does not learn.** Every number has a column for each group, which is 0 where an item is in another one, and
//! all columns are multiplied by the same shared bit.
//!
//! The order within a segment is uniform, as is that of the bits beyond the last group. Neither party learns more by the one or
//! the other than what is opened.

use rand_core::CryptoRng;
use vesica_primitives::laplace::below;
use vesica_psi::{Capacities, NO_GROUP, PADDING_GROUP, Task};
use vesica_wire::Error;
use zeroize::Zeroizing;

use super::super::{Plan, Secret};
use super::{Receiving, Sending};
use crate::bits::BitShares;
use crate::cost::{self, Cost};

/// What the sender learns of the sizes of groups.
fn told(task: &Task) -> Option<&Capacities> {
    task.groups.as_ref()?.capacities.as_ref()
}

impl Plan {
    /// Columns of each number: one for each group whose size the sender does not learn.
    pub(super) fn group_columns(&self) -> usize {
        match told(&self.task) {
            Some(_) => 1,
            None => self.task.group_count(),
        }
    }

    /// The lengths of the segments of each column that are added up by themselves, from the first bit on.
    pub(super) fn segments(&self, cells: usize) -> Vec<usize> {
        match told(&self.task) {
            Some(told) => told.of_groups.iter().map(|size| *size as usize).collect(),
            None => vec![cells],
        }
    }

    /// The bits that are put into the order of groups, of so many cells; none where the sender does not learn their sizes.
    pub(in super::super) fn wires(&self, cells: usize) -> usize {
        match told(&self.task) {
            Some(told) => {
                let all = told.of_groups.iter().sum::<u64>() + told.rest;
                cells.max(all as usize)
            }
            None => 0,
        }
    }

    /// The bits that numbers are over, of so many cells. There are as many as cells at least: what is compared with a minimum
    /// has a ring for any minimum that a set can meet, however few keys a group has.
    pub(super) fn counted_cells(&self, cells: usize) -> usize {
        self.wires(cells).max(cells)
    }

    /// The cost of putting so many cells into the order of groups.
    pub(in super::super) fn grouping_cost(&self, cells: usize) -> Cost {
        cost::permutation(self.wires(cells))
    }

    /// The bits that go into the order of groups.
    fn on_wires(&self, matches: &BitShares) -> BitShares {
        let more = self.wires(matches.len()) - matches.len();
        let mut wires = matches.clone();
        wires.append(&BitShares::zeros(more));
        wires
    }
}

impl Receiving<'_> {
    /// Puts cells into the order of groups, if the sender learns their sizes.
    pub(super) fn group(&mut self) -> Result<(), Error> {
        let Some(told) = told(&self.plan.task) else {
            return Ok(());
        };
        let (cells, own) = (self.cells(), self.plan.on_wires(&self.matches));
        let groups = self.input.groups.unwrap_or_default();
        let order = order(&cells, groups, (&told.of_groups, own.len()), self.rng);
        self.reverse()?;
        let grouped = self.engine.permute(self.channel, self.rng, &order, &own)?;
        let item = |wire: &u32| cells.get(*wire as usize).copied().flatten();
        self.ordered = Some(order.iter().map(item).collect());
        self.matches = grouped;
        Ok(())
    }

    /// The columns of some values: those of the cells of the items of each group, and zeros elsewhere, where the sender does not
    /// learn the sizes of groups; else the values as they are.
    pub(super) fn by_group<T>(&self, values: Secret<T>) -> Vec<Secret<T>>
    where
        T: Copy + Default + zeroize::Zeroize,
    {
        let groups = match told(&self.plan.task) {
            None => self.input.groups,
            Some(_) => None,
        };
        let Some(groups) = groups else {
            return vec![values];
        };
        let cells = self.cells();
        let column = |column: u32| {
            let own = cells.iter().zip(&*values).map(|(item, value)| match item {
                Some(item) if groups[*item as usize] == column => *value,
                _ => T::default(),
            });
            Zeroizing::new(own.collect())
        };
        (0..self.plan.group_columns() as u32).map(column).collect()
    }
}

impl Sending<'_> {
    /// The other side of [`Receiving::group`].
    pub(super) fn group(&mut self) -> Result<(), Error> {
        if told(&self.plan.task).is_none() {
            return Ok(());
        }
        let own = self.plan.on_wires(&self.matches);
        self.reverse()?;
        self.matches = self.engine.permute(self.channel, self.rng, &own)?;
        Ok(())
    }
}

/// The order of groups of these sizes: of each the cells of its items and others that do not match, in uniform order, and then
/// all others. Of so many wires those beyond the last cell are empty. What is drawn takes as long whatever the groups are, and
/// however many items pad the set.
///
/// # Panics
/// If a group has more items, or there are too few wires.
fn order(
    cells: &[Option<u32>],
    groups: &[u32],
    (sizes, wires): (&[u64], usize),
    rng: &mut dyn CryptoRng,
) -> Zeroizing<Vec<u32>> {
    let mut all = Zeroizing::new((0..wires as u32).collect::<Vec<_>>());
    shuffle(&mut all, rng);
    let mut of_groups = vec![Zeroizing::new(Vec::new()); sizes.len()];
    let [mut fits, mut rest] = [(); 2].map(|()| Zeroizing::new(Vec::with_capacity(wires)));
    for wire in all.iter().copied() {
        let cell = cells.get(wire as usize).copied().flatten();
        match cell.map_or(PADDING_GROUP, |item| groups[item as usize]) {
            PADDING_GROUP => fits.push(wire),
            NO_GROUP => rest.push(wire),
            group => of_groups[group as usize].push(wire),
        }
    }
    let mut order = Zeroizing::new(Vec::with_capacity(wires));
    for (segment, size) in of_groups.iter().zip(sizes) {
        let start = order.len();
        order.extend_from_slice(segment);
        let fill = (*size as usize).checked_sub(segment.len());
        let fill = fill.expect("no group has more items than was said");
        let left = fits.len() - fill;
        order.extend_from_slice(&fits[left..]);
        fits.truncate(left);
        shuffle(&mut order[start..], rng);
    }
    let start = order.len();
    order.extend_from_slice(&rest);
    order.extend_from_slice(&fits);
    shuffle(&mut order[start..], rng);
    order
}

/// Uniform order, by Fisher and Yates.
pub(super) fn shuffle(wires: &mut [u32], rng: &mut dyn CryptoRng) {
    for last in (1..wires.len()).rev() {
        wires.swap(last, below(last as u128 + 1, rng) as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use vesica_testing::rng;

    /// Items 0 to 5 in cells with empty ones among them: two in either group, one in none, and one that pads the set.
    const GROUPS: [u32; 6] = [0, 1, 0, 1, NO_GROUP, PADDING_GROUP];

    fn cells() -> Vec<Option<u32>> {
        vec![
            Some(4),
            Some(0),
            None,
            Some(5),
            Some(3),
            Some(2),
            Some(1),
            None,
        ]
    }

    #[test]
    fn groups_have_their_items_and_what_does_not_match() {
        let cells = cells();
        for (sizes, wires) in [([2, 2], 8), ([4, 3], 8), ([2, 9], 12), ([5, 2], 9)] {
            for seed in 0..20 {
                let order = order(&cells, &GROUPS, (&sizes, wires), &mut rng(seed));
                let mut all = order.to_vec();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..wires as u32));
                let (first, rest) = order.split_at(sizes[0] as usize);
                let (second, rest) = rest.split_at(sizes[1] as usize);
                let group = |wire: &u32| {
                    let item = cells.get(*wire as usize).copied().flatten();
                    item.map_or(PADDING_GROUP, |item| GROUPS[item as usize])
                };
                for (number, segment) in [(0, first), (1, second)] {
                    let of = segment.iter().map(group);
                    assert_eq!(of.clone().filter(|of| *of == number).count(), 2);
                    assert!(of.into_iter().all(|of| of == number || of == PADDING_GROUP));
                }
                assert_eq!(
                    rest.iter().map(group).filter(|of| *of == NO_GROUP).count(),
                    1
                );
            }
        }
    }

    /// Of a group of two items with room for three, each of three wires fills it as often, at each place.
    #[test]
    fn segments_are_in_uniform_order() {
        let (cells, groups) = (vec![Some(0), None, Some(1), None, None], [0, 0]);
        let (mut found, mut rng) = (BTreeMap::new(), rng(2));
        let runs = 18_000;
        for _ in 0..runs {
            let order = order(&cells, &groups, (&[3], 5), &mut rng);
            *found.entry(order[..3].to_vec()).or_insert(0) += 1;
        }
        // Six orders with each; within five standard deviations.
        assert_eq!(found.len(), 18);
        assert!(
            found.values().all(|count| (846..1154).contains(count)),
            "{found:?}"
        );
    }

    #[test]
    #[should_panic(expected = "no group has more items")]
    fn a_group_with_more_items_is_a_mistake() {
        order(&cells(), &GROUPS, (&[1, 3], 8), &mut rng(1));
    }
}
