//! Stretches of an object that are read side by side, such as the columns of a row group.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::object::Object;

/// Bytes between two stretches that are rather read than asked about again.
const MAX_GAP: u64 = 1 << 20;

/// Bytes of a request for several stretches.
const MAX_REQUEST: u64 = 16 << 20;

/// Bytes of what is read of a stretch at once, if not all of it.
const MIN_WINDOW: u64 = 64 << 10;

/// Bytes that all stretches together may have in memory.
const MAX_HELD: u64 = 64 << 20;

/// Stretches of an object, each with a part of it in memory.
pub(crate) struct Extents {
    object: Arc<Object>,
    /// In order.
    extents: Vec<Extent>,
    /// Bytes that are read of each at once.
    window: u64,
}

struct Extent {
    range: Range<u64>,
    /// Bytes from a place on.
    held: Mutex<(u64, Bytes)>,
}

impl Extents {
    /// Stretches of which `memory` bytes may be there at once. If that is enough for all, all are read.
    pub(crate) fn read(
        object: Arc<Object>,
        mut ranges: Vec<Range<u64>>,
        memory: u64,
    ) -> io::Result<Extents> {
        ranges.retain(|range| range.start < range.end && range.end <= object.size());
        ranges.sort_unstable_by_key(|range| range.start);
        let memory = memory.min(MAX_HELD);
        let all: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let window = memory / (ranges.len() as u64).max(1);
        let extent = |range: &Range<u64>| Extent {
            range: range.clone(),
            held: Mutex::default(),
        };
        let extents = Extents {
            window: window.max(MIN_WINDOW),
            extents: ranges.iter().map(extent).collect(),
            object,
        };
        if all <= memory {
            extents.read_all()?;
        }
        Ok(extents)
    }

    fn read_all(&self) -> io::Result<()> {
        let is_near = |a: &Extent, b: &Extent| b.range.start <= a.range.end.saturating_add(MAX_GAP);
        let mut requests = Vec::new();
        for near in self.extents.chunk_by(is_near) {
            let mut rest = near;
            while let [first, ..] = rest {
                let fits = |e: &&Extent| e.range.end - first.range.start <= MAX_REQUEST;
                let (request, after) = rest.split_at(rest.iter().take_while(fits).count().max(1));
                let end = request.iter().map(|e| e.range.end).max().unwrap_or(0);
                let start = first.range.start;
                requests.push((start, request, self.object.fetch(start..end)));
                rest = after;
            }
        }
        for (start, extents, fetch) in requests {
            let bytes = self.object.fetched(fetch)?;
            for extent in extents {
                let Range { start: from, end } = extent.range;
                let held = bytes.slice((from - start) as usize..(end - start) as usize);
                *extent.held.lock().unwrap_or_else(PoisonError::into_inner) = (from, held);
            }
        }
        Ok(())
    }

    pub(crate) fn size(&self) -> u64 {
        self.object.size()
    }

    /// `most` bytes from `start`, or fewer, but one where there is one.
    fn some(&self, start: u64, most: u64) -> io::Result<Bytes> {
        let end = start.saturating_add(most).min(self.object.size());
        if start >= end {
            return Ok(Bytes::new());
        }
        let after = self.extents.partition_point(|e| e.range.start <= start);
        let extent = after.checked_sub(1).map(|at| &self.extents[at]);
        let Some(extent) = extent.filter(|extent| start < extent.range.end) else {
            return self.object.fetched(self.object.fetch(start..end));
        };
        let mut held = extent.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = held.0 <= start && start < held.0 + held.1.len() as u64;
        if !is_held {
            let end = extent
                .range
                .end
                .min(start.saturating_add(self.window.max(most)));
            *held = (start, self.object.fetched(self.object.fetch(start..end))?);
        }
        let (first, bytes) = &*held;
        let from = (start - first) as usize;
        let to = (from + most as usize).min(bytes.len());
        Ok(bytes.slice(from..to))
    }

    /// Bytes that are there.
    pub(crate) fn bytes(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = self.some(start, length as u64)?;
        if bytes.len() < length {
            let mut whole = Vec::from(bytes);
            while whole.len() < length {
                let more = self.some(start + whole.len() as u64, (length - whole.len()) as u64)?;
                if more.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                whole.extend_from_slice(&more);
            }
            bytes = whole.into();
        }
        Ok(bytes)
    }
}

/// A place in an object whose stretches are read.
#[derive(Clone)]
pub(crate) struct ExtentsReader {
    extents: Arc<Extents>,
    position: u64,
}

impl ExtentsReader {
    pub(crate) fn new(extents: Arc<Extents>) -> ExtentsReader {
        ExtentsReader {
            extents,
            position: 0,
        }
    }

    pub(crate) fn extents(&self) -> &Extents {
        &self.extents
    }
}

impl Read for ExtentsReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = self.extents.some(self.position, out.len() as u64)?;
        out[..bytes.len()].copy_from_slice(&bytes);
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
}

impl Seek for ExtentsReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(to) => Some(to),
            SeekFrom::End(by) => self.extents.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
