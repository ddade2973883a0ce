//! Published sets: whatever a publisher has signed.

use std::fs;
use std::sync::OnceLock;

use vesica_lookup::PublishedSet;
use vesica_lookup::voprf::SecretKey;
use vesica_session::{Identity, random};

/// A publisher, the key of its set, and a file for it.
struct Publisher {
    identity: Identity,
    key: [u8; 32],
    directory: tempfile::TempDir,
}

fn publisher() -> &'static Publisher {
    static PUBLISHER: OnceLock<Publisher> = OnceLock::new();
    PUBLISHER.get_or_init(|| {
        let mut rng = random::fresh_rng().expect("randomness");
        Publisher {
            identity: Identity::generate().expect("randomness"),
            key: *SecretKey::random(&mut rng).public_key().bytes(),
            directory: tempfile::tempdir().expect("a directory"),
        }
    })
}

/// Bytes of an entry of the index.
const ENTRY: usize = 56;

/// The number of keys in 8 bytes; what the publisher has declared, after its length in 2; then index and blocks. The hashes
/// in the index are made right, and all of it is signed: nothing is refused because it is not authentic.
pub fn published(bytes: &[u8]) {
    let Some((keys, rest)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let Some((length, rest)) = rest.split_first_chunk::<2>() else {
        return;
    };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (declared, rest) = rest.split_at(length);
    let entries = match declared.get(17..21) {
        None | Some([0, 0, 0, 0]) => 2048,
        Some(_) => 256,
    };
    let blocks = u64::from_le_bytes(*keys).div_ceil(entries);
    let index = usize::try_from(blocks)
        .unwrap_or(usize::MAX)
        .saturating_mul(ENTRY);
    let (index, blocks) = rest.split_at(index.min(rest.len()));
    let mut index = index.to_vec();
    let mut start = 0;
    for entry in index.as_chunks_mut::<ENTRY>().0 {
        let end = u64::from_le_bytes(entry[16..24].try_into().expect("8 bytes"));
        let end = usize::try_from(end).unwrap_or(usize::MAX);
        if let Some(block) = blocks.get(start..end) {
            entry[24..].copy_from_slice(&blake3::derive_key(
                "vesica/1 block of a published set",
                block,
            ));
        }
        start = end;
    }
    let Publisher {
        identity,
        key,
        directory,
    } = publisher();
    let root = blake3::derive_key("vesica/1 index of a published set", &index);
    let header = [
        &[1],
        &identity.public_key().0[..],
        key,
        &1u64.to_le_bytes(),
        &[7; 32],
        keys,
        &root,
        declared,
    ]
    .concat();
    let signature = identity.sign("vesica/1 header of a published set", &header);
    let length = (header.len() as u32).to_le_bytes();
    let file = [
        b"vesica\0S",
        &length[..],
        &header,
        &signature.expect("signed"),
        &index,
        blocks,
    ]
    .concat();
    let path = directory.path().join("set");
    fs::write(&path, file).expect("a file");
    if let Ok(mut set) = PublishedSet::open(&path, identity.fingerprint()) {
        // Whatever was signed.
        let _ = set.verify();
    }
}
