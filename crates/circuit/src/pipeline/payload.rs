//! What comes with the tag of an item of the sender: fields, each under a mask of the bin.
//!
//! The fields are the item's values modulo 2^64. Where numbers are opened under a minimum, a bit for each value follows,
//! which says whether it is not 0. Where strings are shared, the words of the item's string follow, under exclusive or.
//!
//! A mask is uniform in the group of its field and drawn for the bin alone, so that whoever finds a candidate in that bin
//! learns nothing from its fields, however much of them is known, such as the zeros after a short text.

use std::cmp::Ordering;

use vesica_oprf::programmable::{Strings, Target};
use vesica_primitives::block::Block;
use vesica_psi::{Input, Task};
use zeroize::Zeroizing;

use super::Secret;
use crate::Payloads;
use crate::arithmetic::{Elements, Ring, Row};

/// Bits of a value.
pub(super) const VALUE_BITS: u32 = 64;

/// The fields of a payload.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Values of an item.
    pub(super) columns: usize,
    /// Whether there is a bit for each.
    has_bits: bool,
    /// Bytes of an item's string; 0 if there is none.
    pub(super) string_bytes: usize,
}

impl Form {
    pub(super) fn of(task: &Task) -> Form {
        Form {
            columns: task.values.sender.into(),
            has_bits: task.min_size > 0,
            string_bytes: task.string_bytes.sender,
        }
    }

    /// Bits of a payload.
    pub(super) fn bits(&self) -> u32 {
        let each = VALUE_BITS + u32::from(self.has_bits);
        self.columns as u32 * each + 8 * self.string_bytes as u32
    }

    /// Number of fields that say whether a value is 0.
    fn zero_bits(&self) -> usize {
        if self.has_bits { self.columns } else { 0 }
    }

    /// The group of a field, of one word.
    fn group(&self, number: usize) -> Row {
        let bits = self.zero_bits();
        match number.checked_sub(self.columns) {
            None => Ring::FULL.into(),
            Some(bit) if bit < bits => Ring::new(1).into(),
            Some(word) => Row::of_bytes((self.string_bytes - 8 * (word - bits)).min(8)),
        }
    }

    /// The group of each field, and the first of its bits.
    pub(super) fn fields(&self) -> impl Iterator<Item = (Row, u32)> + use<> {
        let form = *self;
        let count = form.columns + form.zero_bits() + form.string_bytes.div_ceil(8);
        (0..count).scan(0, move |next, number| {
            let (first, group) = (*next, form.group(number));
            *next += group.bits() as u32;
            Some((group, first))
        })
    }

    /// A column for each field, given the number of the field, its group and the first of its bits.
    pub(super) fn payloads(
        &self,
        mut column: impl FnMut(usize, Row, u32) -> Secret<u64>,
    ) -> Payloads {
        let fields = self.fields().enumerate();
        let mut fields = fields.map(|(number, (group, first))| column(number, group, first));
        Payloads {
            values: fields.by_ref().take(self.columns).collect(),
            adding: fields.by_ref().take(self.zero_bits()).collect(),
            string: fields.collect(),
        }
    }

    /// A field of an item, in a time that does not depend on what it is.
    pub(super) fn of_item(&self, input: &Input<'_>, item: usize, field: usize) -> u64 {
        let bits = self.zero_bits();
        let value = |column: usize| input.values.unwrap_or_default()[item * self.columns + column];
        if field < self.columns {
            return value(field) as u64;
        }
        if field < self.columns + bits {
            let value = value(field - self.columns);
            return ((value | value.wrapping_neg()) as u64) >> 63;
        }
        let strings = input.labels.unwrap_or_default();
        let string = &strings[item * self.string_bytes..][..self.string_bytes];
        word(&string[8 * (field - self.columns - bits)..])
    }

    /// What an OPPRF programs in one of its parts: the tag, and the fields that are in that part, given the number of a
    /// field and its group.
    pub(super) fn target(
        &self,
        tag: Block,
        part: usize,
        field: impl Fn(usize, Row) -> u64,
    ) -> Target {
        let field = |number: usize| {
            let group = self.group(number);
            group.reduce(0, field(number, group))
        };
        // There are no strings where there are bits.
        let words = self.columns + self.string_bytes.div_ceil(8);
        let word = |number: usize| match number.cmp(&self.columns) {
            Ordering::Equal if self.has_bits => (0..self.columns)
                .map(|bit| field(self.columns + bit) << bit)
                .sum(),
            _ if number < words => field(number),
            _ => 0,
        };
        let block = |number: usize| {
            Block::from(word(2 * number)) | Block::from(word(2 * number + 1)) << VALUE_BITS
        };
        Target::in_part(part, tag, block)
    }

    /// The fields that came with each candidate.
    pub(super) fn of_candidates(&self, strings: &Strings) -> Payloads {
        self.payloads(|_, group, first| {
            let (block, up) = ((first / Block::BITS) as usize, first % Block::BITS);
            let value = |candidate| {
                let low = strings.payload(candidate, block) >> up;
                let high = match up + group.bits() as u32 > Block::BITS {
                    true => strings.payload(candidate, block + 1) << (Block::BITS - up),
                    false => 0,
                };
                group.reduce(0, (low | high) as u64)
            };
            Zeroizing::new((0..strings.tags().len()).map(value).collect())
        })
    }
}

/// The first eight bytes as a word, lowest first; zeros stand for what is missing.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let count = bytes.len().min(8);
    word[..count].copy_from_slice(&bytes[..count]);
    u64::from_le_bytes(word)
}

/// Strings of so many bytes as words, those of one string after those of the other.
pub(super) fn to_words(strings: &[u8], bytes: usize) -> Secret<u64> {
    let each = bytes.div_ceil(8);
    let mut words = Zeroizing::new(vec![0; strings.len() / bytes * each]);
    for (words, string) in words
        .chunks_exact_mut(each)
        .zip(strings.chunks_exact(bytes))
    {
        for (to, from) in words.iter_mut().zip(string.chunks(8)) {
            *to = word(from);
        }
    }
    words
}

/// The reverse of [`to_words`].
pub(super) fn to_bytes(words: &[u64], bytes: usize) -> Secret<u8> {
    let mut strings = Zeroizing::new(Vec::with_capacity(words.len() * 8));
    for string in words.chunks_exact(bytes.div_ceil(8)) {
        let all = string.iter().flat_map(|word| word.to_le_bytes());
        strings.extend(all.take(bytes));
    }
    strings
}

impl Payloads {
    /// A field, for each bin.
    pub(super) fn field(&self, number: usize) -> &Secret<u64> {
        let Some(bit) = number.checked_sub(self.values.len()) else {
            return &self.values[number];
        };
        match bit.checked_sub(self.adding.len()) {
            None => &self.adding[bit],
            Some(word) => &self.string[word],
        }
    }

    /// All fields.
    pub(super) fn fields_mut(&mut self) -> impl Iterator<Item = &mut Secret<u64>> {
        let others = self.adding.iter_mut().chain(&mut self.string);
        self.values.iter_mut().chain(others)
    }
}
