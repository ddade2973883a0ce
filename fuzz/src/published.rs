//! Published sets: whatever a publisher has signed.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use vesica_lookup::PublishedSet;
use vesica_lookup::voprf::SecretKey;
use vesica_session::{Identity, random};

/// A publisher, the key of its set, and a place for its files.
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

/// A number of keys that come and one of those that leave, in 8 bytes each; what the publisher has declared, after its length in
/// 2; then index and blocks. The hashes in the index are made right, and all of it is signed: nothing is refused because
/// it is not authentic. Where keys leave it is the second release of a set of one key.
pub fn published(bytes: &[u8]) {
    let Some((added, rest)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let Some((removed, rest)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let Some((length, rest)) = rest.split_first_chunk::<2>() else {
        return;
    };
    let [added, removed] = [added, removed].map(|count| u64::from_le_bytes(*count));
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (declared, rest) = rest.split_at(length);
    let payload = match declared.get(17..21) {
        Some(bytes) => u32::from_le_bytes(bytes.try_into().expect("4 bytes")),
        None => 0,
    };
    let entries = if payload == 0 { 2048 } else { 256 };
    let blocks = added
        .div_ceil(entries)
        .saturating_add(removed.div_ceil(2048));
    let index = usize::try_from(blocks)
        .unwrap_or(usize::MAX)
        .saturating_mul(ENTRY);
    let (index, blocks) = rest.split_at(index.min(rest.len()));
    let path = publisher().directory.path().join("set");
    let second = publisher().directory.path().join("set.2");
    let _ = fs::remove_file(&second);
    if removed == 0 {
        let counts = [added, added, 0];
        write(&path, 1, &[0; 32], counts, declared, index, blocks);
    } else {
        let one = [&[0; 16][..], &u64::from(payload).to_le_bytes(), &[0; 32]].concat();
        // No more than a publisher may declare.
        let payloads = vec![0; payload.min(4096) as usize];
        let previous = write(&path, 1, &[0; 32], [1, 1, 0], declared, &one, &payloads);
        let keys = 1u64.saturating_add(added).saturating_sub(removed);
        let counts = [keys, added, removed];
        write(&second, 2, &previous, counts, declared, index, blocks);
    }
    if let Ok(set) = PublishedSet::open(&path, publisher().identity.fingerprint()) {
        // Whatever was signed.
        let _ = set.verify();
    }
}

/// Writes a release; returns the hash of its header. The counts are keys of the set, those that come and those that leave.
fn write(
    path: &Path,
    release: u64,
    previous: &[u8; 32],
    counts: [u64; 3],
    declared: &[u8],
    index: &[u8],
    blocks: &[u8],
) -> [u8; 32] {
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
    let Publisher { identity, key, .. } = publisher();
    let root = blake3::derive_key("vesica/1 index of a published set", &index);
    let header = [
        &[2],
        &identity.public_key().0[..],
        key,
        &release.to_le_bytes(),
        previous,
        &[7; 32],
        counts.map(u64::to_le_bytes).as_flattened(),
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
    fs::write(path, file).expect("a file");
    blake3::derive_key("vesica/1 release of a published set", &header)
}
