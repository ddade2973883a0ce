//! The files of a published set. Each release has one: masks in ascending order, their differences coded in blocks, an index,
//! a signed header. The first release has all keys, another what has changed since the one before it.
//!
//! ```text
//! "vesica\0S" │ length of the header, 4 │ header │ signature, 64 │ index │ blocks
//! ```
//!
//! Numbers are little endian. The index has for each block its first mask (16 bytes), where it ends among the blocks (8) and
//! its hash (32); the blocks of the keys that come are first, then those of the keys that leave. The signature covers the
//! header, the header the hashes of the index and of the header before it. So whoever reads a block has checked all of it,
//! without having read the others. A block has the [Rice code](crate::rice) of its masks after the first, and then the
//! payloads of all, encrypted.
//!
//! The second release of `SET.vset` is `SET.vset.2`, beside it, and so on.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use vesica_files::{
    FileStamp, Readers, WholeFile, directory_of, found_at, open_named, open_regular, own_file,
};
use vesica_session::{Fingerprint, Identity, SIGNATURE_BYTES};

use crate::error::{Error, SetProblem};
use crate::header::{Header, MASK_BYTES, MAX_HEADER, Section, Value};
use crate::masks::Masks;
use crate::rice;

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
    start: u64,
    end: u64,
    hash: [u8; 32],
}

fn block_hash(bytes: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica/1 block of a published set", bytes)
}

fn index_hash(bytes: &[u8]) -> [u8; 32] {
    blake3::derive_key("vesica/1 index of a published set", bytes)
}

/// The file of a release of the set at this path.
pub(crate) fn release_path(path: &Path, release: u64) -> PathBuf {
    match release {
        1 => path.to_owned(),
        _ => {
            let mut name = OsString::from(path);
            name.push(format!(".{release}"));
            name.into()
        }
    }
}

/// What is wrong with a file of this release where the set itself is expected, which is its first.
pub(crate) fn problem_of_first(path: &Path, release: u64) -> Option<SetProblem> {
    let has_number = || {
        path.extension()
            .is_some_and(|end| *end == *release.to_string())
    };
    match release {
        1 => None,
        _ if has_number() => Some(SetProblem::LaterRelease {
            release,
            first: path.with_extension(""),
        }),
        _ => Some(SetProblem::OutOfOrder {
            expected: 1,
            got: release,
        }),
    }
}

/// The numbers of the releases after the first that have a file beside this path.
pub(crate) fn later_releases(path: &Path) -> io::Result<Vec<u64>> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let mut releases = Vec::new();
    for entry in directory_of(path).read_dir()? {
        let found = entry?.file_name();
        let number = found
            .as_encoded_bytes()
            .strip_prefix(name)
            .and_then(|rest| rest.strip_prefix(b"."))
            .and_then(|rest| std::str::from_utf8(rest).ok());
        if let Some(number) = number
            && let Ok(release @ 2..) = number.parse::<u64>()
            && release.to_string() == number
        {
            releases.push(release);
        }
    }
    releases.sort_unstable();
    Ok(releases)
}

/// Writes a release with this header, whose root is still open, from as many entries that come and leave as it says; the file
/// still has no name.
pub(crate) fn write_release(
    path: &Path,
    identity: &Identity,
    mut header: Header,
    masks: [Masks; 2],
) -> Result<(Header, WholeFile), Error> {
    let fail = |e: io::Error| Error::io(path, &e);
    let mut file = WholeFile::create(path).map_err(fail)?;
    file.readable_by(Readers::ANYBODY);
    let head = MAGIC.len() + 4 + header.encode().len() + SIGNATURE_BYTES;
    let index_bytes = header.blocks() * INDEX_ENTRY;
    let blocks_at = (head + index_bytes) as u64;
    file.seek(SeekFrom::Start(blocks_at)).map_err(fail)?;
    let mut out = BufWriter::new(file);
    let mut index = Vec::with_capacity(index_bytes);
    let mut end = 0u64;
    for (section, sorted) in header.sections().iter().zip(masks) {
        let (mut masks, mut payloads) = (Vec::new(), Vec::new());
        let remainder = section.remainder_bits();
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
        let most = section.entries_per_block();
        sorted.finish(|mask, payload| {
            masks.push(mask);
            payloads.extend_from_slice(payload);
            match masks.len() == most {
                true => flush(&mut masks, &mut payloads).map_err(fail),
                false => Ok(()),
            }
        })?;
        if !masks.is_empty() {
            flush(&mut masks, &mut payloads).map_err(fail)?;
        }
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

/// Fails if a file is at this path, and is neither empty nor a release of this publisher, whole, unfinished or damaged: one
/// that is written there would take its place.
pub(crate) fn check_replaceable(path: &Path, publisher: Fingerprint) -> Result<(), Error> {
    // Devices are not replaced, and what else is there is complained of when it is written.
    if !path.metadata().is_ok_and(|there| there.is_file()) {
        return Ok(());
    }
    let mut file = open_regular(path).map_err(|e| Error::io(path, &e))?;
    let mut start = Vec::new();
    let read = (&file).take(MAGIC.len() as u64).read_to_end(&mut start);
    let read = read.and_then(|_| file.rewind());
    read.map_err(|e| Error::io(path, &e))?;
    // Who is named has signed it: otherwise that is damage.
    let is_other = || match read_head(&mut BufReader::new(&file), path, publisher) {
        Err(Error::Set {
            problem: SetProblem::OtherPublisher { got, .. },
            ..
        }) => header_at(path, got).is_some(),
        _ => false,
    };
    // A crash may leave zeros.
    let begins = MAGIC.starts_with(&start) || start.iter().all(|byte| *byte == 0);
    match !begins || is_other() {
        true => Err(Error::set(path, SetProblem::AnotherFile)),
        false => Ok(()),
    }
}

/// The header of a file, whole or not, that is a release of this publisher.
pub(crate) fn header_at(path: &Path, publisher: Fingerprint) -> Option<Header> {
    let mut input = BufReader::new(open_regular(path).ok()?);
    let head = read_head(&mut input, path, publisher);
    head.ok().map(|(header, _)| header)
}

/// Where a release of this publisher begins: its header, whose signature is checked, and where the index is.
pub(crate) fn read_head(
    input: &mut impl Read,
    path: &Path,
    publisher: Fingerprint,
) -> Result<(Header, u64), Error> {
    let fail = |problem| Error::set(path, problem);
    let unreadable = |e: io::Error| unreadable(path, &e);
    let mut magic = [0; MAGIC.len()];
    input.read_exact(&mut magic).map_err(unreadable)?;
    if magic != *MAGIC {
        let found = own_file(&magic).unwrap_or("a file of another kind");
        return Err(fail(SetProblem::NotASet(found)));
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
    let head = MAGIC.len() + 4 + header_bytes + SIGNATURE_BYTES;
    Ok((header, head as u64))
}

fn unreadable(path: &Path, e: &io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::UnexpectedEof => Error::set(path, SetProblem::Truncated),
        _ => Error::io(path, e),
    }
}

/// More bytes than any file with this header has: masks of full width, each with as much again for its code.
pub(crate) fn max_file_bytes(header: &Header) -> u64 {
    let head = MAGIC.len() + 4 + MAX_HEADER + SIGNATURE_BYTES + header.blocks() * INDEX_ENTRY;
    let entries = header.sections().into_iter().map(|section| {
        let entry = (2 * MASK_BYTES + section.payload) as u64;
        section.entries.saturating_mul(entry)
    });
    entries.fold(head as u64, u64::saturating_add)
}

/// The header of a release of this publisher of which only a beginning is there, and how many bytes of that are as they were
/// signed: the header, the index if all of it is there, and the whole blocks after it up to the first that is damaged.
pub(crate) fn signed_beginning(
    file: &mut File,
    path: &Path,
    publisher: Fingerprint,
) -> Result<(Header, u64), Error> {
    let rewind = |file: &mut File| file.rewind().map_err(|e| Error::io(path, &e));
    rewind(file)?;
    let (header, head) = read_head(&mut BufReader::new(&*file), path, publisher)?;
    rewind(file)?;
    let release = match Release::begin(file, path, publisher) {
        Err(Error::Set { .. }) => return Ok((header, head)),
        begun => begun?,
    };
    let mut good = release.at;
    for (section, blocks) in release.blocks.iter().enumerate() {
        for (number, block) in blocks.iter().enumerate() {
            match release.load(file, section, number) {
                Err(Error::Set { .. }) => return Ok((header, good)),
                loaded => loaded?,
            };
            good = release.at + block.end;
        }
    }
    Ok((header, good))
}

/// Checks the whole of a release.
pub(crate) fn verify_release(path: &Path, publisher: Fingerprint) -> Result<(), Error> {
    Release::open(path, publisher)?.verify(None).map(drop)
}

/// A release, whose header and index are checked.
#[derive(Debug)]
pub(crate) struct Release {
    path: PathBuf,
    pub(crate) header: Header,
    /// Of what comes, and of what leaves.
    blocks: [Vec<Block>; 2],
    /// Where the blocks begin.
    at: u64,
}

impl Release {
    fn open(path: &Path, publisher: Fingerprint) -> Result<Release, Error> {
        let file = open_named(path).map_err(|e| match found_at(path) {
            _ if e.kind() == io::ErrorKind::NotFound => Error::set(path, SetProblem::NoFile),
            Some(found) if path.is_dir() => Error::set(path, SetProblem::NotASet(found)),
            _ => unreadable(path, &e),
        })?;
        let release = Release::begin(&file, path, publisher).map_err(|error| match error {
            Error::Set {
                problem: SetProblem::NotASet(found),
                ..
            } => Error::set(path, SetProblem::NotASet(found_at(path).unwrap_or(found))),
            error => error,
        })?;
        let length = file.metadata().map_err(|e| unreadable(path, &e))?.len();
        match length.checked_sub(release.end()) {
            Some(0) => Ok(release),
            Some(_) => Err(Error::set(path, SetProblem::TooLong)),
            None => Err(Error::set(path, SetProblem::Truncated)),
        }
    }

    /// From a file of which header and index are there.
    fn begin(file: &File, path: &Path, publisher: Fingerprint) -> Result<Release, Error> {
        let fail = |problem| Error::set(path, problem);
        let unreadable = |e: io::Error| unreadable(path, &e);
        let length = file.metadata().map_err(unreadable)?.len();
        let mut input = BufReader::new(file);
        let (header, head) = read_head(&mut input, path, publisher)?;
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
        let blocks =
            read_index(&index, &header.sections()).ok_or_else(|| fail(SetProblem::BadIndex))?;
        Ok(Release {
            path: path.to_owned(),
            header,
            blocks,
            at,
        })
    }

    /// Where the file ends.
    fn end(&self) -> u64 {
        let last = self.blocks.iter().flatten().last();
        last.map_or(self.at, |block| self.at.saturating_add(block.end))
    }

    /// Hands the payloads of those masks that are in a section to `found`; returns the others. Both in ascending order of
    /// masks. Reads each block at most once.
    fn find(
        &self,
        section: usize,
        masks: &[u128],
        order: Vec<usize>,
        mut found: impl FnMut(usize, &[u8]),
    ) -> Result<Vec<usize>, Error> {
        let blocks = &self.blocks[section];
        if blocks.is_empty() {
            return Ok(order);
        }
        let mut file = self.file()?;
        let mut loaded: Option<(usize, Entries)> = None;
        let mut others = Vec::new();
        for index in order {
            let mask = masks[index];
            let place = match blocks
                .partition_point(|block| block.first <= mask)
                .checked_sub(1)
            {
                None => None,
                Some(block) => {
                    if loaded.as_ref().is_none_or(|(at, _)| *at != block) {
                        loaded = Some((block, self.load(&mut file, section, block)?));
                    }
                    let entries = loaded.as_ref().map(|(_, entries)| entries);
                    entries.and_then(|entries| {
                        let place = entries.masks.binary_search(&mask).ok()?;
                        Some(entries.payload(place))
                    })
                }
            };
            match place {
                Some(payload) => found(index, payload),
                None => others.push(index),
            }
        }
        Ok(others)
    }

    fn file(&self) -> Result<File, Error> {
        open_named(&self.path).map_err(|e| Error::io(&self.path, &e))
    }

    /// Reads and checks all blocks, unless the file is the one in which they were checked before. Returns its stamp, if that
    /// will tell the next time.
    pub(crate) fn verify(&self, before: Option<&FileStamp>) -> Result<Option<FileStamp>, Error> {
        let mut file = self.file()?;
        let stamp = |file: &File| FileStamp::of(file).map_err(|e| Error::io(&self.path, &e));
        let now = stamp(&file)?;
        if now.is_some() && now.as_ref() == before {
            return Ok(now);
        }
        let is_settled = now.is_some_and(|now| now.is_settled());
        for (section, blocks) in self.blocks.iter().enumerate() {
            for block in 0..blocks.len() {
                self.load(&mut file, section, block)?;
            }
        }
        let is_same = stamp(&file)? == now;
        Ok(now.filter(|_| is_same && is_settled))
    }

    fn load(&self, file: &mut File, section: usize, number: usize) -> Result<Entries, Error> {
        let block = self.blocks[section][number];
        let place = section * self.blocks[0].len() + number;
        let bad = || Error::set(&self.path, SetProblem::BadBlock(place));
        let mut bytes = vec![0; (block.end - block.start) as usize];
        let read = file.seek(SeekFrom::Start(self.at + block.start));
        let read = read.and_then(|_| file.read_exact(&mut bytes));
        read.map_err(|e| match e.kind() {
            // The file has changed since it was opened.
            io::ErrorKind::UnexpectedEof => bad(),
            _ => Error::io(&self.path, &e),
        })?;
        if block_hash(&bytes) != block.hash {
            return Err(bad());
        }
        let section = self.header.sections()[section];
        let (count, remainder) = (section.entries_of(number), section.remainder_bits());
        let decoded = rice::decode(block.first, count, section.width, remainder, &bytes);
        let (masks, used) = decoded.ok_or_else(bad)?;
        let payloads = bytes.split_off(used);
        let payload = section.payload;
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

/// An open published set: all of its releases, whose headers and indices are checked.
#[derive(Debug)]
pub struct PublishedSet {
    pub(crate) releases: Vec<Release>,
}

/// What is in a set: the payload of a mask, and the release that it is of.
pub(crate) type Found = Option<(usize, Vec<u8>)>;

impl PublishedSet {
    /// Opens a set that this publisher has signed, with the releases beside it.
    ///
    /// # Errors
    /// Peer: another publisher, or none. Data: a file that is no set, not whole or damaged, or a release that does not follow.
    /// Usage: one cannot be read.
    pub fn open(path: &Path, publisher: Fingerprint) -> Result<PublishedSet, Error> {
        let mut set = PublishedSet {
            releases: vec![Release::open(path, publisher)?],
        };
        if let Some(problem) = problem_of_first(path, set.header().release) {
            return Err(Error::set(path, problem));
        }
        for number in later_releases(path).map_err(|e| Error::io(path, &e))? {
            let expected = set.header().release + 1;
            let path = release_path(path, number);
            if number != expected {
                return Err(Error::set(&path, SetProblem::Missing(expected)));
            }
            let release = Release::open(&path, publisher)?;
            if let Some(problem) = set.header().problem_of_next(&release.header) {
                return Err(Error::set(&path, problem));
            }
            set.releases.push(release);
        }
        Ok(set)
    }

    /// The signed header of the last release.
    pub fn header(&self) -> &Header {
        &self.releases.last().expect("the first").header
    }

    /// What tells the set from others of its publisher, whatever key it is under.
    pub fn id(&self) -> [u8; 32] {
        self.releases[0].header.previous
    }

    /// The header of a release.
    pub(crate) fn header_of(&self, release: u64) -> Option<&Header> {
        let release = self.releases.get(release.checked_sub(1)? as usize)?;
        Some(&release.header)
    }

    /// The files of all releases.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let files = self.releases.iter().map(|release| release.path.clone());
        files.collect()
    }

    /// The file of the last release.
    pub(crate) fn last_path(&self) -> &Path {
        &self.releases.last().expect("the first").path
    }

    /// For each mask whether it is in the set, with its encrypted payload.
    ///
    /// # Errors
    /// Data: a damaged block. Usage: a file cannot be read.
    pub(crate) fn find(&self, masks: &[u128]) -> Result<Vec<Found>, Error> {
        let mut found = vec![None; masks.len()];
        self.find_each(masks, |index, release, payload| {
            found[index] = Some((release, payload.to_vec()));
        })?;
        Ok(found)
    }

    /// Hands over the index of each mask that is in the set, the release that it is of and its encrypted payload. Reads each
    /// block at most once.
    ///
    /// # Errors
    /// As [`PublishedSet::find`].
    pub(crate) fn find_each(
        &self,
        masks: &[u128],
        mut found: impl FnMut(usize, usize, &[u8]),
    ) -> Result<(), Error> {
        let mut order: Vec<usize> = (0..masks.len()).collect();
        order.sort_unstable_by_key(|index| masks[*index]);
        // What came or left last counts.
        for (number, release) in self.releases.iter().enumerate().rev() {
            order = release.find(0, masks, order, |index, payload| {
                found(index, number, payload)
            })?;
            order = release.find(1, masks, order, |_, _| {})?;
        }
        Ok(())
    }

    /// Decrypts the payload of what was found by this value.
    pub(crate) fn payload(&self, value: &Value, found: Found) -> Option<Vec<u8>> {
        found.map(|(release, mut payload)| {
            self.releases[release]
                .header
                .xor_payload(value, &mut payload);
            payload
        })
    }

    /// Reads and checks all blocks.
    ///
    /// # Errors
    /// Data: a damaged block. Usage: a file cannot be read.
    pub fn verify(&self) -> Result<(), Error> {
        let mut releases = self.releases.iter();
        releases.try_for_each(|release| release.verify(None).map(drop))
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

/// The blocks of an index: of each section in ascending order, none too long.
fn read_index(index: &[u8], sections: &[Section; 2]) -> Option<[Vec<Block>; 2]> {
    let (entries, _) = index.as_chunks::<INDEX_ENTRY>();
    let mut blocks = [Vec::new(), Vec::new()];
    let (mut entries, mut start) = (entries.iter(), 0);
    for (section, blocks) in sections.iter().zip(&mut blocks) {
        let mut last = 0;
        for entry in entries.by_ref().take(section.blocks()) {
            let (first, rest) = entry.split_first_chunk()?;
            let (end, hash) = rest.split_first_chunk()?;
            let (first, end) = (u128::from_le_bytes(*first), u64::from_le_bytes(*end));
            let length = end.checked_sub(start)?;
            if first < last || length > MAX_BLOCK {
                return None;
            }
            blocks.push(Block {
                first,
                start,
                end,
                hash: hash.try_into().ok()?,
            });
            (last, start) = (first, end);
        }
    }
    Some(blocks)
}
