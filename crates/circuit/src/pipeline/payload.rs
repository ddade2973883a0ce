//! What comes with the tag of an item of the sender: fields, each under a mask of the bin.
//!
//! The fields are the item's values modulo 2^64. Where numbers are opened under a minimum, a bit for each value follows,
//! which says whether it is not 0.

use std::cmp::Ordering;

use vesica_oprf::programmable::{Strings, Target};
use vesica_primitives::block::Block;
use vesica_psi::Task;
use zeroize::Zeroizing;

use super::Secret;
use crate::Payloads;
use crate::arithmetic::Ring;

/// Bits of a value.
pub(super) const VALUE_BITS: u32 = 64;

/// The fields of a payload.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Values of an item.
    pub(super) columns: usize,
    /// Whether there is a bit for each.
    has_bits: bool,
}

impl Form {
    pub(super) fn of(task: &Task) -> Form {
        Form {
            columns: task.values.sender.into(),
            has_bits: task.min_size > 0,
        }
    }

    /// Bits of a payload.
    pub(super) fn bits(&self) -> u32 {
        let each = VALUE_BITS + u32::from(self.has_bits);
        self.columns as u32 * each
    }

    /// The ring of each field, and the first of its bits.
    pub(super) fn fields(&self) -> impl Iterator<Item = (Ring, u32)> + use<> {
        let columns = self.columns as u32;
        let bits = if self.has_bits { columns } else { 0 };
        let values = (0..columns).map(|column| (Ring::FULL, VALUE_BITS * column));
        let bits = (0..bits).map(move |bit| (Ring::new(1), VALUE_BITS * columns + bit));
        values.chain(bits)
    }

    /// A column for each field, given the number of the field, its ring and the first of its bits.
    pub(super) fn payloads(
        &self,
        mut column: impl FnMut(usize, Ring, u32) -> Secret<u64>,
    ) -> Payloads {
        let fields = self.fields().enumerate();
        let mut fields = fields.map(|(number, (ring, first))| column(number, ring, first));
        Payloads {
            values: fields.by_ref().take(self.columns).collect(),
            adding: fields.collect(),
        }
    }

    /// A field of an item that has these values, in a time that does not depend on them.
    pub(super) fn of_item(&self, values: &[i64], item: usize, field: usize) -> u64 {
        let value = values[item * self.columns + field % self.columns];
        match field < self.columns {
            true => value as u64,
            false => ((value | value.wrapping_neg()) as u64) >> 63,
        }
    }

    /// What an OPPRF programs in one of its parts: the tag, and the fields that are in that part.
    pub(super) fn target(&self, tag: Block, part: usize, field: impl Fn(usize) -> u64) -> Target {
        let word = |number: usize| match number.cmp(&self.columns) {
            Ordering::Less => field(number),
            Ordering::Equal if self.has_bits => (0..self.columns)
                .map(|bit| (field(self.columns + bit) & 1) << bit)
                .sum(),
            Ordering::Equal | Ordering::Greater => 0,
        };
        let block = |number: usize| {
            Block::from(word(2 * number)) | Block::from(word(2 * number + 1)) << VALUE_BITS
        };
        Target::in_part(part, tag, block)
    }

    /// The fields that came with each candidate.
    pub(super) fn of_candidates(&self, strings: &Strings) -> Payloads {
        self.payloads(|_, ring, first| {
            let (block, up) = ((first / Block::BITS) as usize, first % Block::BITS);
            let value = |candidate| {
                let low = strings.payload(candidate, block) >> up;
                let high = match up + ring.bits() > Block::BITS {
                    true => strings.payload(candidate, block + 1) << (Block::BITS - up),
                    false => 0,
                };
                ring.reduce((low | high) as u64)
            };
            Zeroizing::new((0..strings.tags().len()).map(value).collect())
        })
    }
}

impl Payloads {
    /// A field, for each bin.
    pub(super) fn field(&self, number: usize) -> &Secret<u64> {
        match self.values.get(number) {
            Some(values) => values,
            None => &self.adding[number - self.values.len()],
        }
    }

    /// All fields.
    pub(super) fn fields_mut(&mut self) -> impl Iterator<Item = &mut Secret<u64>> {
        self.values.iter_mut().chain(&mut self.adding)
    }
}
