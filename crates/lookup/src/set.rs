//! The file of a published set: masks in ascending order, their differences coded in blocks, an index, a signed header.
//!
//! ```text
//! "vesica\0S" │ length of the header, 4 │ header │ signature, 64 │ index │ blocks
//! ```
//!
//! Numbers are little endian. The index has for each block its first mask (16 bytes), where it ends among the blocks (8) and
//! its hash (32). The signature covers the header, the header the hash of the index. So whoever reads a block has
//! checked all of it, without having read the others. A block has the [Rice code](crate::rice) of its masks
//! after the first, and then the payloads of all, encrypted.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use vesica_files::{WholeFile, open_regular};
use vesica_session::{Fingerprint, Identity, SIGNATURE_BYTES};

use crate::error::{Error, SetProblem};
use crate::header::{Header, MASK_BYTES, MAX_HEADER};
use crate::rice;
use crate::sort::Sorter;
use crate::state::State;

const MAGIC: &[u8; 8] = b"vesica\0S";
/// What a signature of a header is for.
const SIGNED: &str = "vesica/1 header of a published set";
/// Bytes of an entry of the index.
const INDEX_ENTRY: usize = MASK_BYTES + 8 + 32;
/// Largest block.
const MAX_BLOCK: u64 = 1 << 24;

/// A block, as the index has it.
#[derive(Clone, Copy, Debug)]
struct Block {
    first: u128,
    end: u64,
    hash: [u8; 32],
}

fn block_hash(bytes: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica/1 block of a published set", bytes)
}

fn index_hash(bytes: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica/1 index of a published set", bytes)
}

/// Writes a set with this header, whose root is still open, from as many entries as it says; the file still has no name.
pub(crate) fn write_set(
    path: &Path,
    identity: &Identity,
    mut header: Header,
    sorter: Sorter,
) -> Result<(Header, WholeFile), Error> {
    let fail = |e: io::Error| Error::io(path, &e);
    let mut file = WholeFile::create(path).map_err(fail)?;
    let head = MAGIC.len() + 4 + header.encode().len() + SIGNATURE_BYTES;
    let index_bytes = header.blocks() * INDEX_ENTRY;
    let blocks_at = (head + index_bytes) as u64;
    file.seek(SeekFrom::Start(blocks_at)).map_err(fail)?;
    let mut out = BufWriter::new(file);
    let mut index = Vec::with_capacity(index_bytes);
    let (mut masks, mut payloads, mut end) = (Vec::new(), Vec::new(), 0u64);
    let remainder = header.remainder_bits();
    let mut flush = |masks: &mut Vec<u128>, payloads: &mut Vec<u8>| -> io::Result<()> {
        let mut block = rice::encode(masks, remainder);
        block.append(payloads);
        end += block.len() as u64;
        index.extend_from_slice(&masks[0].to_le_bytes());
        index.extend_from_slice(&end.to_le_bytes());
        index.extend_from_slice(&block_hash(&block));
        masks.clear();
        out.write_all(&block)
    };
    let most = header.entries_per_block();
    let sorted = sorter.finish(|(mask, payload)| {
        masks.push(mask);
        payloads.extend_from_slice(&payload);
        match masks.len() == most {
            true => flush(&mut masks, &mut payloads),
            false => Ok(()),
        }
    });
    sorted.map_err(fail)?;
    if !masks.is_empty() {
        flush(&mut masks, &mut payloads).map_err(fail)?;
    }
    assert_eq!(
        index.len(),
        index_bytes,
        "as many entries as the header says"
    );
    header.root = index_hash(&index);
    let encoded = header.encode();
    let signature = identity.sign(SIGNED, &encoded)?;
    let mut file = out.into_inner().map_err(|e| fail(e.into_error()))?;
    let start = [
        &MAGIC[..],
        &(encoded.len() as u32).to_le_bytes(),
        &encoded,
        &signature,
        &index,
    ];
    file.rewind().map_err(fail)?;
    file.write_all(&start.concat()).map_err(fail)?;
    Ok((header, file))
}

/// An open published set, whose header and index are checked.
#[derive(Debug)]
pub struct PublishedSet {
    path: PathBuf,
    file: File,
    header: Header,
    blocks: Vec<Block>,
    /// Where the blocks begin.
    at: u64,
}

impl PublishedSet {
    /// Opens a set that this publisher has signed.
    ///
    /// # Errors
    /// Peer: another publisher, or none. Data: a file that is no set, not whole or damaged. Usage: it cannot be read.
    pub fn open(path: &Path, publisher: Fingerprint) -> Result<PublishedSet, Error> {
        let fail = |problem| Error::set(path, problem);
        let unreadable = |e: io::Error| match e.kind() {
            io::ErrorKind::UnexpectedEof => fail(SetProblem::Truncated),
            _ => Error::io(path, &e),
        };
        let file = open_regular(path).map_err(unreadable)?;
        let length = file.metadata().map_err(unreadable)?.len();
        let mut input = BufReader::new(file);
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic).map_err(unreadable)?;
        if magic != *MAGIC {
            return Err(fail(SetProblem::NotASet));
        }
        let mut header_bytes = [0; 4];
        input.read_exact(&mut header_bytes).map_err(unreadable)?;
        let header_bytes = u32::from_le_bytes(header_bytes) as usize;
        if header_bytes > MAX_HEADER {
            return Err(fail(SetProblem::BadHeader("too long")));
        }
        let mut encoded = vec![0; header_bytes];
        input.read_exact(&mut encoded).map_err(unreadable)?;
        let mut signature = [0; SIGNATURE_BYTES];
        input.read_exact(&mut signature).map_err(unreadable)?;
        let header = Header::decode(&encoded).map_err(fail)?;
        let got = header.publisher.fingerprint();
        if got != publisher {
            let expected = publisher;
            return Err(fail(SetProblem::OtherPublisher { expected, got }));
        }
        if !header.publisher.has_signed(SIGNED, &encoded, &signature) {
            return Err(fail(SetProblem::BadSignature));
        }
        let head = (MAGIC.len() + 4 + header_bytes + SIGNATURE_BYTES) as u64;
        // No more memory than the file has bytes.
        let index_bytes = (header.blocks() as u64).saturating_mul(INDEX_ENTRY as u64);
        let at = head.saturating_add(index_bytes);
        if at > length {
            return Err(fail(SetProblem::Truncated));
        }
        let mut index = vec![0; index_bytes as usize];
        input.read_exact(&mut index).map_err(unreadable)?;
        if index_hash(&index) != header.root {
            return Err(fail(SetProblem::BadIndex));
        }
        let blocks = read_index(&index).ok_or_else(|| fail(SetProblem::BadIndex))?;
        let end = blocks.last().map_or(0, |block| block.end);
        match length.checked_sub(at) {
            Some(rest) if rest == end => {}
            Some(rest) if rest > end => return Err(fail(SetProblem::TooLong)),
            _ => return Err(fail(SetProblem::Truncated)),
        }
        Ok(PublishedSet {
            path: path.to_owned(),
            file: input.into_inner(),
            header,
            blocks,
            at,
        })
    }

    /// The signed header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// For each mask whether it is in the set, with its encrypted payload. Reads each block at most once.
    ///
    /// # Errors
    /// Data: a damaged block. Usage: the file cannot be read.
    pub(crate) fn find(&mut self, masks: &[u128]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut found = vec![None; masks.len()];
        let mut order: Vec<usize> = (0..masks.len()).collect();
        order.sort_unstable_by_key(|index| masks[*index]);
        let mut loaded: Option<(usize, Entries)> = None;
        for index in order {
            let mask = masks[index];
            let blocks = self.blocks.partition_point(|block| block.first <= mask);
            let Some(block) = blocks.checked_sub(1) else {
                continue;
            };
            if loaded.as_ref().is_none_or(|(at, _)| *at != block) {
                loaded = Some((block, self.load(block)?));
            }
            if let Some((_, entries)) = &loaded
                && let Ok(place) = entries.masks.binary_search(&mask)
            {
                found[index] = Some(entries.payload(place).to_vec());
            }
        }
        Ok(found)
    }

    /// For each digest whether its key is in the set, with the label of its payload, by the values that are known.
    ///
    /// # Errors
    /// As [`PublishedSet::verify`].
    ///
    /// # Panics
    /// If the value of one is not known.
    pub fn look_up(
        &mut self,
        state: &State,
        digests: &[[u8; 32]],
    ) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let value = |digest: &[u8; 32]| state.value(digest).expect("the value is known");
        let masks: Vec<u128> = digests
            .iter()
            .map(|digest| self.header.mask(value(digest)))
            .collect();
        let mut found = self.find(&masks)?;
        for (digest, found) in digests.iter().zip(&mut found) {
            if let Some(payload) = found {
                self.header.xor_payload(value(digest), payload);
            }
        }
        Ok(found)
    }

    /// Reads and checks all blocks.
    ///
    /// # Errors
    /// Data: a damaged block. Usage: the file cannot be read.
    pub fn verify(&mut self) -> Result<(), Error> {
        (0..self.blocks.len()).try_for_each(|block| self.load(block).map(drop))
    }

    fn load(&mut self, number: usize) -> Result<Entries, Error> {
        let block = self.blocks[number];
        let bad = || Error::set(&self.path, SetProblem::BadBlock(number));
        let start = number
            .checked_sub(1)
            .map_or(0, |before| self.blocks[before].end);
        let mut bytes = vec![0; (block.end - start) as usize];
        let read = self.file.seek(SeekFrom::Start(self.at + start));
        let read = read.and_then(|_| self.file.read_exact(&mut bytes));
        read.map_err(|e| Error::io(&self.path, &e))?;
        if block_hash(&bytes) != block.hash {
            return Err(bad());
        }
        let (count, declared) = (self.header.entries_of(number), &self.header.declared);
        let remainder = self.header.remainder_bits();
        let decoded = rice::decode(block.first, count, declared.width(), remainder, &bytes);
        let (masks, used) = decoded.ok_or_else(bad)?;
        let payloads = bytes.split_off(used);
        let payload = declared.payload_bytes as usize;
        match payloads.len() == count * payload {
            true => Ok(Entries {
                masks,
                payloads,
                payload,
            }),
            false => Err(bad()),
        }
    }
}

/// What is in a block.
struct Entries {
    masks: Vec<u128>,
    payloads: Vec<u8>,
    /// Bytes of each.
    payload: usize,
}

impl Entries {
    fn payload(&self, place: usize) -> &[u8] {
        &self.payloads[place * self.payload..][..self.payload]
    }
}

/// The blocks of an index: in ascending order, none empty but if it has a single entry, none too long.
fn read_index(index: &[u8]) -> Option<Vec<Block>> {
    let (entries, _) = index.as_chunks::<INDEX_ENTRY>();
    let mut last = (0, 0);
    let block = |entry: &[u8; INDEX_ENTRY]| {
        let (first, rest) = entry.split_first_chunk()?;
        let (end, hash) = rest.split_first_chunk()?;
        let (first, end) = (u128::from_le_bytes(*first), u64::from_le_bytes(*end));
        let length = end.checked_sub(last.1)?;
        let in_order = last.0 <= first && length <= MAX_BLOCK;
        last = (first, end);
        in_order.then_some(Block {
            first,
            end,
            hash: hash.try_into().ok()?,
        })
    };
    entries.iter().map(block).collect()
}
