//! What is kept of a table's keys, so that later ones can be compared with it.
//!
//! Eight bytes of a keyed hash of each key, in ascending order, encrypted under a key of their own; the hash has one key for
//! all tables of a ledger. Whoever has neither key learns from a file how many keys the table had. Once the key is gone,
//! so is what the file says.

use std::io;

use vesica_primitives::sealed::Sealed;
use zeroize::Zeroizing;

/// Bytes of a random key.
pub(crate) const KEY_BYTES: usize = 32;

/// The keys of a table as other tables of the same ledger are compared with it.
pub struct OwnKeys {
    /// The name of the key of the hashes.
    pub(crate) under: String,
    hashes: Zeroizing<Vec<u64>>,
}

vesica_primitives::opaque!(OwnKeys);

impl OwnKeys {
    /// The keys of these digests, each once. `key` is that of the ledger.
    pub(crate) fn of<E>(
        key: &[u8; KEY_BYTES],
        count: u64,
        each: impl FnOnce(&mut dyn FnMut(&[u8; 32])) -> Result<(), E>,
    ) -> Result<OwnKeys, E> {
        // One that grew would leave copies behind.
        let mut hashes = Zeroizing::new(Vec::with_capacity(usize::try_from(count).unwrap_or(0)));
        each(&mut |digest| hashes.push(hash(key, digest)))?;
        hashes.sort_unstable();
        let name = blake3::keyed_hash(key, b"vesica/1 name of a key of hashes");
        Ok(OwnKeys {
            under: name.to_hex()[..16].to_owned(),
            hashes,
        })
    }

    /// How many keys one of two tables has and the other has not. The time depends on how many they have, and not on
    /// how many of them are the same.
    pub(crate) fn difference(&self, other: &OwnKeys) -> u64 {
        let (ours, theirs) = (&self.hashes[..], &other.hashes[..]);
        let (mut a, mut b, mut common) = (0, 0, 0u64);
        // Each step takes one key of either side, equal ones in two steps.
        for _ in 0..ours.len() + theirs.len() {
            let (one, another) = (ours.get(a), theirs.get(b));
            let is_common = one.is_some() & (one == another);
            let takes_ours = another.is_none() | (one.is_some() & (one <= another));
            common += u64::from(is_common);
            a += usize::from(takes_ours);
            b += usize::from(!takes_ours);
        }
        ours.len() as u64 + theirs.len() as u64 - 2 * common
    }

    /// The bytes of the encrypted file of entry `number`.
    pub(crate) fn seal(&self, key: &[u8; KEY_BYTES], number: u64) -> io::Result<Vec<u8>> {
        let mut content = Zeroizing::new(Vec::with_capacity(8 * self.hashes.len()));
        self.hashes
            .iter()
            .for_each(|hash| content.extend_from_slice(&hash.to_le_bytes()));
        let mut out = Vec::new();
        sealed(key, number).write(&[], &content, &mut out)?;
        Ok(out)
    }

    /// What [`OwnKeys::seal`] has made; `None` if it is anything else.
    pub(crate) fn unseal(
        key: &[u8; KEY_BYTES],
        (number, under): (u64, &str),
        bytes: &[u8],
    ) -> Option<OwnKeys> {
        let length = bytes.len() as u64;
        let content = sealed(key, number)
            .read(&[], length, &mut &bytes[..])
            .ok()?;
        let (words, rest) = content.as_chunks::<8>();
        let hashes: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        (rest.is_empty() && hashes.is_sorted()).then(|| OwnKeys {
            under: under.to_owned(),
            hashes: Zeroizing::new(hashes),
        })
    }
}

/// A key seals one message.
fn sealed(key: &[u8; KEY_BYTES], number: u64) -> Sealed {
    Sealed::new(
        key,
        &[b"vesica/1 keys of an answered table", &number.to_le_bytes()],
    )
}

fn hash(key: &[u8; KEY_BYTES], digest: &[u8; 32]) -> u64 {
    let hash = blake3::keyed_hash(key, digest);
    let (first, _) = hash.as_bytes().split_first_chunk().expect("32 bytes");
    u64::from_le_bytes(*first)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    fn keys(of: &BTreeSet<u8>) -> OwnKeys {
        let each = |add: &mut dyn FnMut(&[u8; 32])| -> Result<(), Infallible> {
            of.iter().for_each(|key| add(&[*key; 32]));
            Ok(())
        };
        OwnKeys::of(&[7; 32], of.len() as u64, each).unwrap()
    }

    proptest! {
        #[test]
        fn a_difference_counts_what_one_of_both_has(one: BTreeSet<u8>, other: BTreeSet<u8>) {
            let expected = one.symmetric_difference(&other).count() as u64;
            prop_assert_eq!(keys(&one).difference(&keys(&other)), expected);
        }

        #[test]
        fn keys_come_back_under_their_key_and_number(of: BTreeSet<u8>, spoilt in 0usize..4096) {
            let own = keys(&of);
            let bytes = own.seal(&[1; 32], 5).unwrap();
            let unsealed = |key, number, bytes: &[u8]| OwnKeys::unseal(&[key; 32], (number, "a"), bytes);
            prop_assert_eq!(&unsealed(1, 5, &bytes).unwrap().hashes, &own.hashes);
            prop_assert!(unsealed(2, 5, &bytes).is_none());
            prop_assert!(unsealed(1, 6, &bytes).is_none());
            let mut other = bytes.clone();
            let at = spoilt % other.len();
            other[at] ^= 1;
            prop_assert!(unsealed(1, 5, &other).is_none());
        }
    }
}
