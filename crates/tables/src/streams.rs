//! Streams of records in an encrypted file.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::scratch::Scratch;

/// Bytes of a digest and of a row number.
const RECORD: usize = 32 + 4;
/// Bytes of a stream that are written at once.
const CHUNK: usize = 448 * RECORD;

/// Streams of records in one scratch file. A stream is a list of chunks.
#[derive(Debug)]
pub(crate) struct Streams {
    scratch: Scratch,
    /// What has not been written yet of each stream.
    pending: Vec<Vec<u8>>,
    /// Position and length of each stream's chunks.
    chunks: Vec<Vec<(u64, u32)>>,
}

impl Streams {
    pub(crate) fn create(directory: &Path, streams: usize) -> Result<Streams> {
        Ok(Streams {
            scratch: Scratch::create(directory).map_err(unwritable)?,
            pending: vec![Vec::new(); streams],
            chunks: vec![Vec::new(); streams],
        })
    }

    pub(crate) fn push(&mut self, stream: usize, digest: &[u8; 32], row: u32) -> Result<()> {
        let pending = &mut self.pending[stream];
        pending.extend_from_slice(digest);
        pending.extend_from_slice(&row.to_le_bytes());
        if pending.len() >= CHUNK {
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
        mut each: impl FnMut(&[u8; 32], u32) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = Vec::new();
        for (place, length) in &self.chunks[stream] {
            self.scratch
                .read(*place, *length as usize, &mut bytes)
                .map_err(|e| Error::new(ErrorKind::Scratch(e)))?;
            for record in bytes.chunks_exact(RECORD) {
                let mut digest = [0; 32];
                digest.copy_from_slice(&record[..32]);
                let mut row = [0; 4];
                row.copy_from_slice(&record[32..]);
                each(&digest, u32::from_le_bytes(row))?;
            }
        }
        Ok(())
    }
}

fn unwritable(e: io::Error) -> Error {
    Error::new(ErrorKind::Unwritable(e))
}
