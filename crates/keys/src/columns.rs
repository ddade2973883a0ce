//! Keys while rows come together, in columns.

use zeroize::Zeroizing;

use crate::block::KeyBlock;
use crate::layout::Layout;
use crate::strings::Strings;

/// Keys with what goes with them: a label, and the sums of their values so far.
#[derive(Default)]
pub(crate) struct Columns {
    pub(crate) digests: Vec<[u8; 32]>,
    /// One for each if keys are numbers.
    pub(crate) numbers: Vec<u64>,
    pub(crate) beside: Strings,
}

impl Columns {
    /// None yet, of this layout.
    pub(crate) fn new(layout: &Layout) -> Columns {
        Columns {
            beside: Strings::new(layout.beside()),
            ..Columns::default()
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.digests.len()
    }

    /// The number that a key is, if keys are numbers.
    pub(crate) fn number(&self, key: usize) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    /// Puts a key where an earlier one is.
    pub(crate) fn move_to(&mut self, key: usize, from: usize) {
        self.digests[key] = self.digests[from];
        if let Some(number) = self.number(from) {
            self.numbers[key] = number;
        }
        self.beside.move_to(key, from);
    }

    /// Leaves so many.
    pub(crate) fn truncate(&mut self, keys: usize) {
        self.digests.truncate(keys);
        self.numbers.truncate(keys);
        self.beside.truncate(keys);
    }

    /// None again, of this layout.
    pub(crate) fn reset(&mut self, layout: &Layout) {
        self.truncate(0);
        self.beside.reset(layout.beside());
    }

    /// The same keys, whose sums are within their bounds.
    pub(crate) fn finish(mut self, layout: &Layout) -> KeyBlock<'static> {
        self.digests.shrink_to_fit();
        self.numbers.shrink_to_fit();
        let keys = self.digests.len();
        let mut block = KeyBlock::from(self.digests);
        block.numbers = layout.has_numbers.then(|| self.numbers.into());
        if layout.columns.is_empty() {
            let mut labels = self.beside.into_bytes();
            block.labels = (layout.label > 0).then(|| std::mem::take(&mut *labels).into());
            return block;
        }
        let mut values = Vec::with_capacity(keys * layout.columns.len());
        let mut labels = Zeroizing::new(Vec::with_capacity(keys * layout.label));
        for beside in self.beside.iter() {
            labels.extend_from_slice(&beside[..layout.label]);
            values.extend(layout.sums(beside).map(|sum| sum as i64));
        }
        block.values = Some(values.into());
        block.labels = (layout.label > 0).then(|| std::mem::take(&mut *labels).into());
        block
    }
}
