//! A hash of the key of every row, in order, and of its values: equal for two tables whose rows have the same, wherever the
//! keys are.

use blake3::Hasher;
use zeroize::Zeroizing;

use crate::layout::Layout;

/// Hashes bytes that come in small pieces: together they fill the lanes of BLAKE3, one by one they do not.
struct Pending {
    hasher: Hasher,
    bytes: Zeroizing<Vec<u8>>,
}

impl Pending {
    const MOST: usize = 1 << 16;

    fn new(context: &str) -> Pending {
        Pending {
            hasher: Hasher::new_derive_key(context),
            bytes: Zeroizing::new(Vec::with_capacity(Pending::MOST)),
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() > Pending::MOST {
            self.hash();
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn hash(&mut self) {
        self.hasher.update(&self.bytes);
        self.bytes.clear();
    }

    fn finish(mut self) -> [u8; 32] {
        self.hash();
        *self.hasher.finalize().as_bytes()
    }
}

/// Hashes the keys of rows.
pub(crate) struct RowKeys(Pending);

impl RowKeys {
    pub(crate) fn new() -> RowKeys {
        RowKeys(Pending::new("vesica/1 keys of all rows"))
    }

    /// Adds rows, by the indices of their keys among these digests, or beyond them.
    pub(crate) fn add(&mut self, row_items: &[u32], digests: &[[u8; 32]]) {
        for item in row_items {
            let digest = digests.get(*item as usize);
            self.0.add(digest.unwrap_or(&[0; 32]));
        }
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finish()
    }
}

/// Hashes the values of rows.
pub(crate) struct RowValues(Pending);

impl RowValues {
    pub(crate) fn new() -> RowValues {
        RowValues(Pending::new("vesica/1 values of all rows"))
    }

    /// Adds those of a row, zeros if it has no key.
    pub(crate) fn add(&mut self, layout: &Layout, beside: Option<&[u8]>) {
        match beside {
            Some(beside) => {
                let values = layout.sums(beside).map(|value| value as i64);
                values.for_each(|value| self.0.add(&value.to_le_bytes()));
            }
            None => layout.columns.iter().for_each(|_| self.0.add(&[0; 8])),
        }
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finish()
    }
}

/// A hash of the keys of rows, and of their values if they have some.
pub(crate) fn with_values(keys: [u8; 32], values: Option<[u8; 32]>) -> [u8; 32] {
    let Some(values) = values else {
        return keys;
    };
    let mut hasher = Hasher::new_derive_key("vesica/1 keys and values of all rows");
    hasher.update(&keys);
    hasher.update(&values);
    *hasher.finalize().as_bytes()
}
