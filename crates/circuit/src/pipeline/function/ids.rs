//! Ids of both parties' items, and the list of all of them.
//!
//! **Papers.** P. Buddhavarapu, A. Knox, P. Mohassel, S. Sengupta, E. Taubeneck, V. Vlaskin, *Private Matching for Compute*, ePrint
//! 2020/599 (Private-ID); G. Garimella, P. Mohassel, M. Rosulek, S. Sadeghian, J. Singh, *Private Set Operations from Oblivious
//! Switching*, PKC 2021: ids from two OPRFs, and a union of them.
//!
//! As in a union ([`super::union`]) the session's sender has the table.
//!
//! 1. Two OPRFs of [`Vole`], one each way, so that each party knows F_1 and F_2 of its own items. The id of x is H(F_1(x), F_2(x)).
//!    Of an item that it does not have, a party lacks the value under the peer's key, so that it can test no guess against ids.
//! 2. The party with the table hands over the ids of its items that the other one lacks, in random order.
//! 3. The other one adds its own ids, sorts all, and sends them. Its list has an entry for each item of both, of which those beyond
//!    the ids are random and marked ([`crate::id_list`]). They are not what came in slots without a row: the peer knows that
//!    too, and so would see which of its items match.
//! 4. The party with the table finds its ids there.
//!
//! **Adversary.** Semi-honest. A list that lacks an id of its recipient, or has too few, is an error.
//!
//! **Deviations.** The union is that of the items, with ids as rows, and not of the ids: nothing waits for the OPRFs.
//!
//! **λ.** [`ID_EVENTS`] share what the OPPRFs have left: the tags of rows, each OPRF, and different entries of the list that are
//! equal.

use vesica_correlations::bulk::traffic::Entries;
use vesica_oprf::programmable::LEFT_SHARE;
use vesica_oprf::vole::Vole;
use vesica_oprf::{Oprf, Outputs};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::security::{Security, lambda_each};
use vesica_psi::{Output, Params, RowSlots, Spine};
use vesica_wire::{End, Error, Traffic};
use zeroize::Zeroizing;

use super::super::Plan;
use super::{Computed, Function, Receiving, Sending};
use crate::cost::{Bins, Cost};
use crate::functions::Number;
use crate::id_list::{IdList, MAX_ID_BITS, bad};
use crate::rows::Width;

/// Events that share what the OPPRFs leave of λ.
pub const ID_EVENTS: u32 = 4;

/// Bits of the ids of so many items, whole bytes: any two are equal with probability 2^-`share` at most.
pub fn id_bits(share: u32, items: usize) -> u32 {
    let log = items.next_power_of_two().ilog2();
    (share + 2 * log).next_multiple_of(8)
}

/// The most bits of statistical security of a run over sets of these sizes with so many OPPRFs, by what comes after them.
pub(in super::super) fn max_lambda(opprfs: u32, sizes: [u64; 2]) -> u32 {
    let [one, other] = sizes;
    let items = one.saturating_add(other).max(1);
    let log = u64::BITS - (items - 1).leading_zeros();
    let oprfs = [[one, other], [other, one]].map(|sizes| Vole.spec().max_lambda_of(sizes, None));
    let oprf = oprfs.into_iter().flatten().min().unwrap_or(u32::MAX);
    let each = oprf.min(MAX_ID_BITS.saturating_sub(2 * log));
    let more = lambda_each(lambda_each(LEFT_SHARE, ID_EVENTS), opprfs);
    each.saturating_sub(more)
}

pub(super) struct Ids;

impl Function for Ids {
    fn zero(&self, _: &Plan, _: usize) -> Option<Number> {
        None
    }

    fn cost(&self, plan: &Plan, cells: Bins) -> Cost {
        plan.cost_of_rows(cells, plan.width_of_ids())
    }

    fn receive(&self, at: &mut Receiving<'_>) -> Result<Computed, Error> {
        let (plan, items) = (at.plan, at.input.items);
        let [first, second] = plan.oprfs();
        let ours = Vole.receive(at.channel, &first, items, (), at.rng)?;
        let theirs = Vole.send(at.channel, &second, items, at.rng)?;
        at.channel.begin_phase("function");
        let ids = plan.ids([ours, theirs]);
        let width = plan.width_of_ids();
        let id = |id: &u128| id.to_be_bytes().into_iter().skip(16 - width.row);
        let rows: Vec<u8> = ids.iter().flat_map(id).collect();
        at.hand_over(&rows, width)?;
        drop(rows);
        let all = plan.id_list().receive(at.channel)?;
        Ok(Computed::Output(plan.spine(&ids, all)?))
    }

    fn send(&self, at: &mut Sending<'_>) -> Result<Computed, Error> {
        let (plan, items) = (at.plan, at.input.items);
        let [first, second] = plan.oprfs();
        let theirs = Vole.send(at.channel, &first, items, at.rng)?;
        let ours = Vole.receive(at.channel, &second, items, (), at.rng)?;
        at.channel.begin_phase("function");
        let ids = plan.ids([theirs, ours]);
        let slots = at.take_over(plan.width_of_ids())?;
        let entries = entries(&ids, &slots, &mut Prg::random(at.rng));
        plan.id_list().send(at.channel, &entries)?;
        let all = ids_among(&entries)?;
        Ok(Computed::Output(plan.spine(&ids, all)?))
    }
}

/// The ids among entries.
///
/// # Errors
/// `PeerMisbehaved` if one is there twice.
fn ids_among(entries: &[u128]) -> Result<Vec<u128>, Error> {
    let ids = entries.iter().filter(|entry| *entry & 1 == 1);
    let ids: Vec<u128> = ids.map(|entry| entry >> 1).collect();
    match ids.is_sorted_by(|one, next| one < next) {
        true => Ok(ids),
        false => Err(bad("an id twice")),
    }
}

/// All ids, and what pads them to as many as both parties have items, ascending. The last bit of an entry says whether it is an
/// id. Which slots have a row does not decide what is done.
fn entries(ids: &[u128], slots: &RowSlots, random: &mut Prg) -> Vec<u128> {
    let mut padding: Vec<Block> = vec![0; slots.is_row.len()];
    random.fill(&mut padding);
    let rows = slots.contents.chunks_exact(slots.bytes);
    let rows = rows.zip(&*slots.is_row).zip(padding);
    let rows = rows.map(|((row, is_row), padding)| {
        let row = row.iter().fold(0, |id, byte| id << 8 | u128::from(*byte));
        let is_row = u128::from(*is_row);
        let padding = padding >> (128 - 8 * slots.bytes);
        (padding ^ (padding ^ row) & is_row.wrapping_neg()) << 1 | is_row
    });
    let mut all: Vec<u128> = ids.iter().map(|id| id << 1 | 1).chain(rows).collect();
    all.sort_unstable();
    all
}

impl Plan {
    /// The OPRFs' parameters. The party with the table is the receiver of the first.
    fn oprfs(&self) -> [Params; 2] {
        let [of_table, of_other] = self.items;
        let of = |[receiver_size, sender_size]: [usize; 2], part| Params {
            security: Security::SemiHonest,
            lambda: self.left(ID_EVENTS),
            receiver_size,
            sender_size,
            key_agreement: self.key_agreement,
            session: self.derived(part),
        };
        [
            of([of_table, of_other], "first OPRF of ids"),
            of([of_other, of_table], "second OPRF of ids"),
        ]
    }

    /// The ids of a party's items, by the values of both OPRFs.
    fn ids(&self, outputs: [Outputs; 2]) -> Vec<u128> {
        let mut inputs = Zeroizing::new(Vec::new());
        for (half, outputs) in outputs.into_iter().enumerate() {
            let (values, numbers) = outputs.into_short();
            let values = Zeroizing::new(values);
            inputs.resize(values.len(), [[0; 2]; 2]);
            for (value, number) in values.iter().zip(numbers) {
                inputs[number as usize][half] = *value;
            }
        }
        let inputs: &[[u8; 32]] = bytemuck::must_cast_slice(&inputs);
        let mut hashes = Zeroizing::new(vec![[0; 32]; inputs.len()]);
        Oracle::new("vesica/1 ids", &self.session).hash_many(inputs, &mut hashes);
        let bits = self.id_list().bits();
        let id = |hash: &[u8; 32]| {
            let [first, _]: [[u8; 16]; 2] = bytemuck::must_cast(*hash);
            u128::from_be_bytes(first) >> (128 - bits)
        };
        hashes.iter().map(id).collect()
    }

    /// The shape of the list.
    fn id_list(&self) -> IdList {
        let entries = self.items.into_iter().sum();
        IdList::new(entries, id_bits(self.left(ID_EVENTS), entries))
    }

    fn width_of_ids(&self) -> Width {
        let bytes = self.id_list().bits() as usize / 8;
        Width::new(bytes, self.slots(), self.left(ID_EVENTS))
    }

    /// Finds these ids in the list of all.
    ///
    /// # Errors
    /// `PeerMisbehaved` if one is missing, or there are fewer than the peer has items.
    fn spine(&self, ids: &[u128], all: Vec<u128>) -> Result<Output, Error> {
        if self.items.into_iter().any(|items| all.len() < items) {
            return Err(bad("fewer ids than a side has items"));
        }
        let row = |id: &u128| {
            let row = all.binary_search(id).ok();
            row.map(|row| row as u32)
                .ok_or_else(|| bad("without an id of this side"))
        };
        let rows = ids.iter().map(row).collect::<Result<_, _>>()?;
        Ok(Output::Spine(Spine {
            bytes: self.width_of_ids().row,
            ids: all,
            rows,
        }))
    }

    /// Adds what the run sends after the membership test.
    pub(in super::super) fn traffic_of_ids<const W: u32>(
        &self,
        traffic: &mut Traffic,
        main: &mut Entries<W>,
        cells: usize,
    ) {
        let [first, second] = self.oprfs();
        Vole.traffic(&first, traffic);
        traffic.reversed(|part| Vole.traffic(&second, part));
        self.traffic_of_rows(traffic, main, cells, self.width_of_ids());
        traffic.flow(End::Sender, self.id_list().frames());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vesica_testing::{bad_value, misbehaviour};

    #[test]
    fn ids_are_as_wide_as_collisions_ask() {
        assert_eq!(id_bits(50, 0), 56);
        assert_eq!(id_bits(50, 1 << 21), 96);
        assert_eq!([id_bits(54, 1 << 21), id_bits(55, 1 << 21)], [96, 104]);
    }

    #[test]
    fn lambda_has_room_in_an_id() {
        for sizes in [
            [0, 0],
            [1, 1],
            [1 << 20, 1 << 20],
            [1 << 26, 1],
            [1 << 26, 1 << 26],
        ] {
            for opprfs in [1, 2] {
                let left = lambda_each(max_lambda(opprfs, sizes) + LEFT_SHARE, ID_EVENTS * opprfs);
                let items = (sizes[0] + sizes[1]) as usize;
                assert!(id_bits(left, items) <= MAX_ID_BITS);
                let oprf = Vole.spec().max_lambda_of(sizes, None);
                assert!(oprf.is_some_and(|most| left <= most), "{sizes:?}");
            }
        }
        assert_eq!(max_lambda(1, [1 << 20; 2]), 120 - 42 - 10);
    }

    /// What pads a list is neither what came in a slot without a row, nor one of another run.
    #[test]
    fn what_pads_a_list_is_fresh() {
        let mut slots = RowSlots::with_capacity(2, 3);
        slots.push(&[1, 2], true);
        slots.push(&[3, 4], false);
        slots.push(&[5, 6], false);
        let with = |seed| entries(&[0x0907], &slots, &mut Prg::new(seed));
        let [one, other] = [1, 2].map(with);
        for entries in [&one, &other] {
            assert_eq!(entries.len(), 4);
            assert!(entries.is_sorted() && entries.iter().all(|entry| entry >> 17 == 0));
            assert_eq!(ids_among(entries).unwrap(), [0x0102, 0x0907]);
            assert!(
                [0x0304, 0x0506]
                    .iter()
                    .all(|slot| !entries.contains(&(slot << 1)))
            );
        }
        assert_ne!(one, other);
    }

    #[test]
    fn a_row_twice_is_misbehaviour() {
        let mut slots = RowSlots::with_capacity(1, 2);
        (0..2).for_each(|_| slots.push(&[7], true));
        let entries = entries(&[], &slots, &mut Prg::new(1));
        let error = misbehaviour(ids_among(&entries));
        assert_eq!(error, bad_value("list of ids", "an id twice"));
    }
}
