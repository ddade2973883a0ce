//! Quotas as they were kept before: a file of sealed records, each of which raises a client's total. They are taken over.
//!
//! ```text
//! "vesica ledger 2\n" │ salt, 32 │ head, 32 │ records of 112 bytes
//! ```
//!
//! Each is a [`Sealed`] message under a key of the publisher's identity, the OPRF's key, the salt and its place. The head says
//! how many records the file began with, and the last release. A record is a client's fingerprint (32 bytes), its total (8), the
//! hash of a batch (32, zeros if there is none), how often that was asked again (8), the last release (8), and how many records
//! before it were on the disk for certain (8).
//!
//! A total was raised in blocks, and counts as used after a crash. Such a crash may have left any of the records that were not
//! synchronised, in any order. No answer relied on one of them: those that are missing are ignored. One that the head or
//! another record says was on the disk is not among them, and a file without it is refused.

use vesica_primitives::sealed::{Sealed, TAG};
use vesica_primitives::voprf::Element;
use vesica_session::codec::{Reader, bad};
use vesica_session::{Fingerprint, Identity};
use vesica_wire::Error as WireError;
use zeroize::Zeroizing;

use super::{Batch, Kept, MAX_REPEATS, Seals};
use crate::header::MAX_QUERIES;

/// What names of such a file begin with.
pub(super) const FILE: &str = "ledger";
/// What they begin with, in all versions.
pub(super) const MAGIC: &[u8] = HEAD.split_at(14).0;
const HEAD: &[u8] = b"vesica ledger 2\n";
const RECORD: usize = 32 + 8 + 32 + 8 + 8 + 8 + TAG;

/// What a file says of a client.
struct Record {
    client: Fingerprint,
    total: u64,
    batch: Batch,
    release: u64,
    /// Records that were on the disk when it was written.
    synchronised: u64,
}

impl Record {
    fn decode(bytes: &[u8]) -> Result<Record, WireError> {
        let mut reader = Reader::new("record of the ledger", bytes);
        let record = Record {
            client: Fingerprint::from_bytes(reader.array()?),
            total: reader.u64()?,
            batch: Batch {
                hash: reader.array()?,
                repeats: reader.u64()?,
            },
            release: reader.u64()?,
            synchronised: reader.u64()?,
        };
        reader.end()?;
        match record.total <= MAX_QUERIES && record.batch.repeats <= MAX_REPEATS {
            true => Ok(record),
            false => Err(bad("record of the ledger", "more than anybody may ask")),
        }
    }
}

/// What a file says; `None` if a record is missing that was on the disk.
pub(super) fn read(
    bytes: &[u8],
    identity: &Identity,
    oprf_key: &Element,
    seals: &Seals,
) -> Option<Kept> {
    let (salt, rest) = bytes.strip_prefix(HEAD)?.split_first_chunk::<32>()?;
    let (head, records) = rest.split_at_checked(16 + TAG)?;
    let key = identity.derive_key("vesica/1 ledger of a published set");
    let key = Zeroizing::new(blake3::keyed_hash(&key, oprf_key.bytes()).into());
    // Records are counted from 1, after the head.
    let open = |place: u64, mut sealed: &[u8]| {
        let length = sealed.len() as u64;
        let of_place = Sealed::new(&key, &[b"ledger", salt, &place.to_le_bytes()]);
        of_place.read(HEAD, length, &mut sealed).ok()
    };
    let head = open(0, head)?;
    let mut reader = Reader::new("head of the ledger", &head);
    let (mut synchronised, release) = (reader.u64().ok()?, reader.u64().ok()?);
    let mut kept = Kept::new(release);
    let (mut place, mut first_lost) = (0, None);
    for record in records.chunks(RECORD) {
        place += 1;
        let content = open(place, record);
        let Some(record) = content.and_then(|content| Record::decode(&content).ok()) else {
            first_lost.get_or_insert(place);
            continue;
        };
        synchronised = synchronised.max(record.synchronised);
        kept.release = kept.release.max(record.release);
        let account = kept.accounts.entry(seals.row(record.client)).or_default();
        account.used = account.used.max(record.total);
        if record.batch.hash != [0; 32] {
            account.remember(record.batch);
        }
    }
    (first_lost.unwrap_or(place + 1) > synchronised).then_some(kept)
}
