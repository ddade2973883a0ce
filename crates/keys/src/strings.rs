//! Strings of one length, that of one key after the other's. What they outgrow is wiped.

use std::ops::Range;

use zeroize::Zeroizing;

#[derive(Clone, Default)]
pub(crate) struct Strings {
    bytes: usize,
    all: Zeroizing<Vec<u8>>,
}

/// Does not show them.
impl std::fmt::Debug for Strings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Strings").finish_non_exhaustive()
    }
}

impl Strings {
    /// None yet, of so many bytes each.
    pub(crate) fn new(bytes: usize) -> Strings {
        Strings {
            bytes,
            all: Zeroizing::default(),
        }
    }

    /// Appends one string, or several.
    pub(crate) fn push(&mut self, strings: &[u8]) {
        let needed = self.all.len() + strings.len();
        if needed > self.all.capacity() {
            let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * self.all.len())));
            larger.extend_from_slice(&self.all);
            self.all = larger;
        }
        self.all.extend_from_slice(strings);
    }

    fn range(&self, keys: Range<usize>) -> Range<usize> {
        keys.start * self.bytes..keys.end * self.bytes
    }

    pub(crate) fn of(&self, key: usize) -> &[u8] {
        &self.all[self.range(key..key + 1)]
    }

    /// That of a key, and that of a later one.
    pub(crate) fn pair(&mut self, key: usize, later: usize) -> (&mut [u8], &[u8]) {
        let (of_key, of_later) = (self.range(key..key + 1), self.range(later..later + 1));
        let (before, after) = self.all.split_at_mut(of_later.start);
        (&mut before[of_key], &after[..self.bytes])
    }

    /// Puts a string where that of an earlier key is.
    pub(crate) fn move_to(&mut self, key: usize, from: usize) {
        let (to, from) = (key * self.bytes, self.range(from..from + 1));
        self.all.copy_within(from, to);
    }

    /// None again, of so many bytes each.
    pub(crate) fn reset(&mut self, bytes: usize) {
        self.truncate(0);
        self.bytes = bytes;
    }

    /// Leaves so many.
    pub(crate) fn truncate(&mut self, keys: usize) {
        self.all.truncate(keys * self.bytes);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.all.chunks_exact(self.bytes.max(1))
    }

    pub(crate) fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        self.all
    }
}
