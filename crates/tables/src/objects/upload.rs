//! Results in object stores, which appear complete or not at all.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use super::address::{Address, Scheme};
use super::find::environment;
use super::limits::Limits;
use super::store::{Multipart, Part, Store};
use crate::error::Problem;
use crate::error::{Error, Result};

/// Bytes of a part. Stores take 10,000 parts of one size, of 5 MiB or more.
const PART_BYTES: usize = 16 << 20;

const MAX_PARTS: usize = 10_000;

/// Parts on their way at once.
const PARTS_AT_ONCE: usize = 2;

/// An object that appears under its name only after [`Upload::commit`]. Dropped before, it leaves nothing.
pub(crate) struct Upload {
    upload: Option<Multipart>,
    /// The part that is being filled.
    part: Vec<u8>,
    parts: usize,
    pending: VecDeque<Part>,
}

impl std::fmt::Debug for Upload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Upload({} parts)", self.parts)
    }
}

impl Upload {
    /// Begins an object, if the store lets us.
    ///
    /// # Errors
    /// Usage: an address that nothing is written to. What [`ErrorKind::Unwritable`](crate::ErrorKind) says of a store.
    pub(crate) fn begin(address: &Address) -> Result<Upload> {
        Upload::begin_with(address, &environment(), Limits::USUAL)
    }

    pub(crate) fn begin_with(
        address: &Address,
        vars: &[(String, String)],
        limits: Limits,
    ) -> Result<Upload> {
        if address.scheme == Scheme::Http {
            return Err(Error::usage_with(
                "HTTPS is for input only",
                "name a file, or an address that begins with s3://, gs://, az:// or abfs://",
            ));
        }
        if address.key().is_empty() || address.key().ends_with('/') {
            return Err(Error::usage_with("is a directory", "name an object in it"));
        }
        let store = Store::open(address, vars, limits).map_err(Problem::of_output)?;
        let upload = Arc::new(store)
            .begin(address.key())
            .map_err(Problem::of_output)?;
        Ok(Upload {
            upload: Some(upload),
            part: Vec::new(),
            parts: 0,
            pending: VecDeque::new(),
        })
    }

    fn multipart(&mut self) -> io::Result<&mut Multipart> {
        self.upload
            .as_mut()
            .ok_or_else(|| Problem::Unfinished.into())
    }

    /// Sends the part, and waits until so many are on their way.
    fn send(&mut self, at_once: usize) -> io::Result<()> {
        if !self.part.is_empty() {
            if self.parts == MAX_PARTS {
                let most = (PART_BYTES * MAX_PARTS) as u64 >> 30;
                return Err(Problem::TooLarge(most).into());
            }
            self.parts += 1;
            let part = std::mem::take(&mut self.part);
            let part = self.multipart()?.put(part.into());
            self.pending.push_back(part);
        }
        while self.pending.len() > at_once
            && let Some(part) = self.pending.pop_front()
        {
            let sent = self.multipart()?.wait(part);
            sent.inspect_err(|_| self.abort())?;
        }
        Ok(())
    }

    /// Lets the object appear, in the place of one that was there.
    pub(crate) fn commit(mut self) -> io::Result<()> {
        self.send(0)?;
        self.multipart()?.complete()?;
        self.upload = None;
        Ok(())
    }

    fn abort(&mut self) {
        // Parts that are on their way would be left behind.
        self.pending.clear();
        if let Some(mut upload) = self.upload.take() {
            upload.abort();
        }
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.multipart()?;
        self.part
            .reserve(bytes.len().min(PART_BYTES - self.part.len()));
        let taken = bytes.len().min(PART_BYTES - self.part.len());
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == PART_BYTES {
            self.send(PARTS_AT_ONCE)?;
        }
        Ok(taken)
    }

    /// Nothing: what is written appears with the object.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.abort();
    }
}
