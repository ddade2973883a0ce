//! The signed header of a published set: its contract.

use vesica_primitives::oracle::Oracle;
use vesica_primitives::voprf::{ELEMENT_BYTES, Element, Mode, OUTPUT_BYTES};
use vesica_session::codec::{Reader, put_name};
use vesica_session::{MAX_LABEL_BYTES, MAX_LABEL_COLUMNS, MAX_LABEL_NAME, PublicKey};
use vesica_wire::is_hidden;

use crate::error::SetProblem;
use crate::rice;

/// The mode of a published set.
pub(crate) const MODE: Mode = Mode::Voprf;
/// The value of a key under the OPRF.
pub(crate) type Value = [u8; OUTPUT_BYTES];

/// Version of the format.
pub(crate) const VERSION: u8 = 3;
/// Longest header, in bytes.
pub(crate) const MAX_HEADER: usize = 1 << 16;
/// Most columns of a key.
const MAX_KEY_COLUMNS: usize = 64;
/// Bytes of a mask in the index.
pub(crate) const MASK_BYTES: usize = 16;
/// Most keys that may be declared.
pub const MAX_KEYS: u64 = 1 << 40;
/// Most queries that may be declared.
pub const MAX_QUERIES: u64 = 1 << 40;

/// What a publisher declares for the life of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// How the columns of a key are normalised, in order.
    pub normalization: Vec<String>,
    /// Statistical security in bits: all answers of the key's life together have a wrong match with probability at most 2^-λ.
    pub lambda: u32,
    /// Queries of all clients together.
    pub queries: u64,
    /// Keys that are ever published.
    pub max_keys: u64,
    /// The columns that go with a key; none if nothing does.
    pub payload: Vec<String>,
    /// Bytes of these for each key.
    pub payload_bytes: u32,
}

impl Declared {
    /// Bits of a mask: λ + ⌈log₂(queries · keys)⌉, since each query meets each mask by chance with probability 2^-width.
    pub fn width(&self) -> u32 {
        let pairs = u128::from(self.queries) * u128::from(self.max_keys);
        self.lambda + pairs.next_power_of_two().ilog2()
    }

    /// What is wrong with it, if something is.
    pub fn problem(&self) -> Option<&'static str> {
        let is_name =
            |name: &String| (1..=MAX_LABEL_NAME).contains(&name.len()) && !name.contains(is_hidden);
        if !(1..=MAX_KEY_COLUMNS).contains(&self.normalization.len()) {
            Some("a key has from 1 to 64 columns")
        } else if !self.normalization.iter().all(is_name) {
            Some("a profile has a name of 1 to 255 bytes")
        } else if !(40..=64).contains(&self.lambda) {
            Some("the statistical security is 40 to 64 bits")
        } else if !(1..=MAX_QUERIES).contains(&self.queries) {
            Some("from 1 to 2^40 queries can be declared")
        } else if !(1..=MAX_KEYS).contains(&self.max_keys) {
            Some("from 1 to 2^40 keys can be declared")
        } else if self.width() > 8 * MASK_BYTES as u32 {
            Some("lambda, queries and keys ask for masks of more than 128 bits")
        } else if self.payload.len() > MAX_LABEL_COLUMNS || !self.payload.iter().all(is_name) {
            Some("at most 64 columns go with a key, with names of 1 to 255 bytes")
        } else if (1..self.payload.len()).any(|i| self.payload[..i].contains(&self.payload[i])) {
            Some("a column goes with a key once")
        } else if self.payload.is_empty() != (self.payload_bytes == 0)
            || self.payload_bytes > MAX_LABEL_BYTES
        {
            Some("what goes with a key takes from 1 to 4096 bytes")
        } else {
            None
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.push(self.lambda as u8);
        out.extend_from_slice(&self.queries.to_le_bytes());
        out.extend_from_slice(&self.max_keys.to_le_bytes());
        out.extend_from_slice(&self.payload_bytes.to_le_bytes());
        for names in [&self.normalization, &self.payload] {
            out.push(names.len() as u8);
            names.iter().for_each(|name| put_name(out, name));
        }
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Declared, vesica_wire::Error> {
        let (lambda, queries, max_keys) = (reader.u8()?.into(), reader.u64()?, reader.u64()?);
        let payload_bytes = reader.u32()?;
        let mut names = |what| -> Result<Vec<String>, vesica_wire::Error> {
            let count = reader.u8()?;
            (0..count)
                .map(|_| reader.text(what).map(str::to_owned))
                .collect()
        };
        Ok(Declared {
            normalization: names("normalization")?,
            payload: names("payload")?,
            lambda,
            queries,
            max_keys,
            payload_bytes,
        })
    }
}

/// The signed header of a release: of the first, or of what changed after the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Who has published the set.
    pub publisher: PublicKey,
    /// The public key of the OPRF.
    pub oprf_key: Element,
    /// Which release under the key this is, counted from 1.
    pub release: u64,
    /// Hash of the header of the release before it; of the first [what tells the set from others](crate::PublishedSet::id).
    pub previous: [u8; 32],
    /// Fresh for each release: makes the keys of payloads.
    pub salt: [u8; 32],
    /// What was declared.
    pub declared: Declared,
    /// Keys of the set, after this release.
    pub keys: u64,
    /// Keys in this release: those that come to the set, and those with another payload than before.
    pub added: u64,
    /// Keys that leave the set.
    pub removed: u64,
    /// Hash of the index.
    pub root: [u8; 32],
}

/// Entries of one kind in a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) entries: u64,
    /// Bits of a mask.
    pub(crate) width: u32,
    /// Bytes of a payload.
    pub(crate) payload: usize,
}

impl Section {
    /// Entries of a block but the last: 16 KiB of masks, or up to 64 with payloads of usual length.
    pub(crate) fn entries_per_block(&self) -> usize {
        match self.payload {
            0 => 2048,
            _ => 256,
        }
    }

    pub(crate) fn blocks(&self) -> usize {
        self.entries.div_ceil(self.entries_per_block() as u64) as usize
    }

    /// Entries of a block.
    pub(crate) fn entries_of(&self, block: usize) -> usize {
        let most = self.entries_per_block() as u64;
        (self.entries - block as u64 * most).min(most) as usize
    }

    pub(crate) fn remainder_bits(&self) -> u32 {
        rice::remainder_bits(self.width, self.entries)
    }
}

impl Header {
    /// The entries that come, and the masks of those that leave.
    pub(crate) fn sections(&self) -> [Section; 2] {
        let width = self.declared.width();
        [
            Section {
                entries: self.added,
                width,
                payload: self.declared.payload_bytes as usize,
            },
            Section {
                entries: self.removed,
                width,
                payload: 0,
            },
        ]
    }

    pub(crate) fn blocks(&self) -> usize {
        self.sections().iter().map(Section::blocks).sum()
    }

    /// What the next release has as `previous`.
    pub(crate) fn hash(&self) -> [u8; 32] {
        blake3::derive_key("vesica/1 release of a published set", &self.encode())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.publisher.0);
        out.extend_from_slice(self.oprf_key.bytes());
        out.extend_from_slice(&self.release.to_le_bytes());
        out.extend_from_slice(&self.previous);
        out.extend_from_slice(&self.salt);
        for count in [self.keys, self.added, self.removed] {
            out.extend_from_slice(&count.to_le_bytes());
        }
        out.extend_from_slice(&self.root);
        self.declared.put(&mut out);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Header, SetProblem> {
        match bytes.first() {
            Some(&VERSION) => {}
            Some(version) => return Err(SetProblem::Version(*version)),
            None => return Err(SetProblem::BadHeader("empty")),
        }
        let header = Header::read(&bytes[1..]);
        let header = header.map_err(|_| SetProblem::BadHeader("of another length"))?;
        let header = header.ok_or(SetProblem::BadHeader("no key of the suite"))?;
        if let Some(problem) = header.declared.problem() {
            return Err(SetProblem::BadHeader(problem));
        }
        match header.problem() {
            None => Ok(header),
            Some(problem) => Err(SetProblem::BadHeader(problem)),
        }
    }

    fn problem(&self) -> Option<&'static str> {
        let is_first = self.release == 1;
        let most = self.declared.max_keys;
        if self.release == 0 || !is_first && self.previous == [0; 32] {
            Some("no number of a release")
        } else if is_first && (self.added != self.keys || self.removed != 0) {
            Some("a first release that changes another")
        } else if self.added == 0 && self.removed == 0 {
            Some("nothing in it")
        } else if [self.keys, self.added, self.removed]
            .iter()
            .any(|count| *count > most)
        {
            Some("not as many keys as declared")
        } else {
            None
        }
    }

    /// What is wrong with a header as that of the next release.
    pub(crate) fn problem_of_next(&self, next: &Header) -> Option<SetProblem> {
        let stay = i128::from(self.keys) - i128::from(next.removed);
        if next.oprf_key != self.oprf_key || next.declared != self.declared {
            Some(SetProblem::OtherSet)
        } else if next.release != self.release + 1 {
            Some(SetProblem::OutOfOrder {
                expected: self.release + 1,
                got: next.release,
            })
        } else if next.previous != self.hash() {
            Some(SetProblem::NotNext)
        } else if !(stay.max(0)..=stay + i128::from(next.added)).contains(&next.keys.into()) {
            Some(SetProblem::BadHeader("counts that do not add up"))
        } else {
            None
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Header>, vesica_wire::Error> {
        let mut reader = Reader::new("header", bytes);
        let publisher = PublicKey(reader.array()?);
        let oprf_key: [u8; ELEMENT_BYTES] = reader.array()?;
        let release = reader.u64()?;
        let (previous, salt) = (reader.array()?, reader.array()?);
        let (keys, added, removed) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let root = reader.array()?;
        let declared = Declared::read(&mut reader)?;
        reader.end()?;
        Ok(Element::decode(oprf_key).ok().map(|oprf_key| Header {
            publisher,
            oprf_key,
            release,
            previous,
            salt,
            declared,
            keys,
            added,
            removed,
            root,
        }))
    }

    /// The mask of a key from its value of the OPRF.
    pub(crate) fn mask(&self, value: &Value) -> u128 {
        let hash = blake3::derive_key("vesica/1 mask of a published set", value);
        let (head, _) = hash.split_first_chunk().expect("32 bytes");
        u128::from_be_bytes(*head) >> (8 * MASK_BYTES as u32 - self.declared.width())
    }

    /// Encrypts or decrypts the payload of a key. The stream is of the value, this release's number and its salt: no two
    /// payloads share one, even if a database is restored and published from again.
    pub(crate) fn xor_payload(&self, value: &Value, payload: &mut [u8]) {
        let key = blake3::derive_key("vesica/1 payload of a published set", value);
        let stream = Oracle::new("vesica/1 stream of a payload", &key);
        stream.xor_stream(&[&self.release.to_le_bytes(), &self.salt], payload);
    }
}
