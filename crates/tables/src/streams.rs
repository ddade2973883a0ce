//! Streams of records in an encrypted file.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::scratch::Scratch;

/// The key of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) digest: [u8; 32],
    pub(crate) row: u32,
    /// The key itself, if keys are numbers; else 0.
    pub(crate) number: u64,
}

/// Records of a stream that are written at once.
const CHUNK: usize = 448;

/// Streams of records in one scratch file. A stream is a list of chunks.
#[derive(Debug)]
pub(crate) struct Streams {
    scratch: Scratch,
    has_numbers: bool,
    /// What has not been written yet of each stream.
    pending: Vec<Vec<u8>>,
    /// Position and length of each stream's chunks.
    chunks: Vec<Vec<(u64, u32)>>,
}

impl Streams {
    /// Streams in a file in `directory`. Numbers are kept if there are some.
    pub(crate) fn create(directory: &Path, streams: usize, has_numbers: bool) -> Result<Streams> {
        Ok(Streams {
            scratch: Scratch::create(directory).map_err(unwritable)?,
            has_numbers,
            pending: vec![Vec::new(); streams],
            chunks: vec![Vec::new(); streams],
        })
    }

    /// Whether keys are numbers.
    pub(crate) fn has_numbers(&self) -> bool {
        self.has_numbers
    }

    /// Bytes of a record: a digest, a row, and a number if there are some.
    fn record_bytes(&self) -> usize {
        32 + 4 + if self.has_numbers { 8 } else { 0 }
    }

    pub(crate) fn push(&mut self, stream: usize, record: &Record) -> Result<()> {
        let chunk = CHUNK * self.record_bytes();
        let pending = &mut self.pending[stream];
        pending.extend_from_slice(&record.digest);
        pending.extend_from_slice(&record.row.to_le_bytes());
        if self.has_numbers {
            pending.extend_from_slice(&record.number.to_le_bytes());
        }
        if pending.len() >= chunk {
            self.write(stream)?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        for stream in 0..self.pending.len() {
            if !self.pending[stream].is_empty() {
                self.write(stream)?;
            }
            self.pending[stream] = Vec::new();
        }
        Ok(())
    }

    fn write(&mut self, stream: usize) -> Result<()> {
        let pending = &mut self.pending[stream];
        let length = pending.len() as u32;
        let place = self.scratch.append(pending).map_err(unwritable)?;
        pending.clear();
        self.chunks[stream].push((place, length));
        Ok(())
    }

    /// Number of streams.
    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Hands every record of a flushed stream to `each`.
    pub(crate) fn read(
        &self,
        stream: usize,
        mut each: impl FnMut(&Record) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for (place, length) in &self.chunks[stream] {
            self.scratch
                .read(*place, *length as usize, &mut bytes)
                .map_err(|e| Error::new(ErrorKind::Scratch(e)))?;
            for record in bytes.chunks_exact(self.record_bytes()) {
                let (mut digest, mut row, mut number) = ([0; 32], [0; 4], [0; 8]);
                digest.copy_from_slice(&record[..32]);
                row.copy_from_slice(&record[32..36]);
                if self.has_numbers {
                    number.copy_from_slice(&record[36..]);
                }
                each(&Record {
                    digest,
                    row: u32::from_le_bytes(row),
                    number: u64::from_le_bytes(number),
                })?;
            }
        }
        Ok(())
    }
}

fn unwritable(e: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable(e))
}
