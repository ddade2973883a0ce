//! One object of a store, and readers of it. Whatever is read is of one version.

use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::store::{Fetch, Store, Version};
use crate::error::Problem;
use crate::error::Result;

/// An object that can be read from anywhere.
pub(crate) struct Object {
    shown: String,
    store: Arc<Store>,
    key: String,
    version: Version,
    /// Its first bytes, for whoever asks first.
    start: Mutex<Option<Bytes>>,
    /// Why reading it failed. What fails once does so for good: libraries may have called it damage.
    failure: Mutex<Option<Problem>>,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Object({})", self.shown)
    }
}

impl Object {
    pub(crate) fn new(
        shown: String,
        store: Arc<Store>,
        key: &str,
        version: Version,
        start: Bytes,
    ) -> Object {
        Object {
            shown,
            store,
            key: key.to_owned(),
            version,
            start: Mutex::new(Some(start)),
            failure: Mutex::default(),
        }
    }

    /// Its bytes.
    pub(crate) fn size(&self) -> u64 {
        self.version.size
    }

    /// Fails as reading it did, if it did.
    pub(crate) fn verify(&self) -> Result<()> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            Some(problem) => Err(problem.clone().of_input()),
            None => Ok(()),
        }
    }

    /// Begins to read bytes that are there.
    pub(crate) fn fetch(&self, range: Range<u64>) -> Fetch {
        self.store.fetch(&self.key, range, &self.version)
    }

    /// The bytes of a fetch.
    pub(crate) fn fetched(&self, fetch: Fetch) -> io::Result<Bytes> {
        fetch.wait().map_err(|problem| {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| problem.clone());
            problem.of_read()
        })
    }

    fn take_start(&self) -> Option<Bytes> {
        let mut start = self.start.lock().unwrap_or_else(PoisonError::into_inner);
        start.take().filter(|start| !start.is_empty())
    }
}

/// Bytes of the first piece after a jump.
const FIRST_PIECE: u64 = 64 << 10;

/// Bytes of a piece once it is clear that the object is read on.
const MAX_PIECE: u64 = 4 << 20;

/// Pieces on their way beyond the one that is read.
const PIECES_AHEAD: usize = 3;

/// A place in an object. Reading on from it is ahead of who reads.
pub(crate) struct ObjectReader {
    object: Arc<Object>,
    position: u64,
    /// In a row: at most one that has been read, the one that is read, and those ahead.
    pieces: VecDeque<Piece>,
}

struct Piece {
    range: Range<u64>,
    bytes: Bytes,
    /// Instead of the bytes, while they are on their way.
    fetch: Option<Fetch>,
}

impl ObjectReader {
    pub(crate) fn new(object: Arc<Object>) -> ObjectReader {
        let start = object.take_start();
        let pieces = start.map(|bytes| Piece {
            range: 0..bytes.len() as u64,
            bytes,
            fetch: None,
        });
        ObjectReader {
            object,
            position: 0,
            pieces: pieces.into_iter().collect(),
        }
    }

    /// Another reader, from the beginning.
    #[cfg(feature = "parquet")]
    pub(crate) fn another(&self) -> ObjectReader {
        ObjectReader::new(self.object.clone())
    }

    /// Begins to fetch what follows the last piece.
    fn fetch_next(&mut self) -> bool {
        let (start, bytes) = match self.pieces.back() {
            Some(Piece { range, .. }) => {
                let twice = 2 * (range.end - range.start);
                (range.end, twice.clamp(FIRST_PIECE, MAX_PIECE))
            }
            None => (self.position, FIRST_PIECE),
        };
        let end = self.object.size().min(start.saturating_add(bytes));
        if start >= end {
            return false;
        }
        self.pieces.push_back(Piece {
            range: start..end,
            bytes: Bytes::new(),
            fetch: Some(self.object.fetch(start..end)),
        });
        true
    }

    /// The piece with the next byte, which is there.
    fn piece(&mut self) -> io::Result<&Piece> {
        let is_among = |pieces: &VecDeque<Piece>, position| {
            let (first, last) = (pieces.front(), pieces.back());
            first.is_some_and(|piece: &Piece| piece.range.start <= position)
                && last.is_some_and(|piece: &Piece| position <= piece.range.end)
        };
        if !is_among(&self.pieces, self.position) {
            self.pieces.clear();
        }
        let holds = |piece: &Piece, position| piece.range.contains(&position);
        let index = loop {
            match self
                .pieces
                .iter()
                .position(|piece| holds(piece, self.position))
            {
                Some(index) => break index,
                None => drop(self.fetch_next()),
            }
        };
        // Small steps back, as of a buffer that was filled too far, cost nothing.
        let read = index.saturating_sub(1);
        self.pieces.drain(..read);
        let index = index - read;
        if let Some(fetch) = self.pieces[index].fetch.take() {
            match self.object.fetched(fetch) {
                Ok(bytes) => self.pieces[index].bytes = bytes,
                Err(e) => {
                    self.pieces.clear();
                    return Err(e);
                }
            }
            // From the second piece on it is read in order.
            while index > 0 && self.pieces.len() - index <= PIECES_AHEAD && self.fetch_next() {}
        }
        Ok(&self.pieces[index])
    }
}

impl Read for ObjectReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() || self.position >= self.object.size() {
            return Ok(0);
        }
        let position = self.position;
        let piece = self.piece()?;
        let rest = &piece.bytes[(position - piece.range.start) as usize..];
        let bytes = out.len().min(rest.len());
        out[..bytes].copy_from_slice(&rest[..bytes]);
        self.position += bytes as u64;
        Ok(bytes)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::End(by) => self.object.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
