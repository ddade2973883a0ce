//! The bytes of Parquet files as the library asks for them. Headers of pages are looked at first, and pages for which there
//! is no memory refused.

use std::collections::HashMap;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};

use super::thrift::{self, PageSize, TRUE};
use crate::error::Result;
#[cfg(feature = "object-stores")]
use crate::objects::extents::{Extents, ExtentsReader};
use crate::source::byte_source::Handle;
use crate::source::part::Part;
#[cfg(feature = "object-stores")]
use crate::source::text::read_error;
use crate::source::wait_time::{Timed, WaitTime};

/// Bytes at the end of a file: the length of the metadata before them, and `PAR1`.
pub(super) const FOOTER_BYTES: u64 = 8;

/// Bytes at the end of an object that are read at once: the metadata is mostly among them.
#[cfg(feature = "object-stores")]
const OBJECT_FOOTER_BYTES: u64 = 64 << 10;

/// The bytes of a file as the library reads them, in pages.
pub(super) struct Chunks {
    pub(super) handle: Handle,
    pub(super) wait_time: WaitTime,
    pub(super) pages: Arc<Pages>,
}

impl Chunks {
    /// To read what is at the end.
    pub(super) fn of_footer(part: &Part) -> Result<Chunks> {
        #[cfg(feature = "object-stores")]
        if let Some(object) = part.object() {
            let size = object.size();
            let length = size.min(OBJECT_FOOTER_BYTES);
            return Chunks::of_columns(part, vec![(size - length, length)]);
        }
        Chunks::of_columns(part, Vec::new())
    }

    /// Another handle for the same bytes, with a place of its own.
    pub(super) fn apart(&self, part: &Part) -> Result<Handle> {
        match &self.handle {
            #[cfg(feature = "object-stores")]
            Handle::Extents(extents) => Ok(Handle::Extents(extents.clone())),
            _ => part.handle(),
        }
    }

    /// To read so many bytes at each of these places.
    #[cfg_attr(
        not(feature = "object-stores"),
        allow(unused_variables, reason = "a file can be read anywhere")
    )]
    pub(super) fn of_columns(part: &Part, ranges: Vec<(u64, u64)>) -> Result<Chunks> {
        let pages = Arc::new(Pages::new(part, Vec::new(), false));
        let wait_time = part.wait_time().clone();
        #[cfg(feature = "object-stores")]
        if let Some(object) = part.object() {
            let ranges = ranges.into_iter();
            let ranges = ranges.map(|(start, length)| start..start.saturating_add(length));
            let most = part.most_at_once() / 4;
            let extents = wait_time.count(|| Extents::read(object.clone(), ranges.collect(), most));
            let extents = Arc::new(extents.map_err(read_error)?);
            let handle = Handle::Extents(ExtentsReader::new(extents));
            return Ok(Chunks {
                handle,
                wait_time,
                pages,
            });
        }
        let handle = part.handle()?;
        Ok(Chunks {
            handle,
            wait_time,
            pages,
        })
    }
}

/// Refuses pages for which there is no memory. The arrays of a batch view its pages and so keep all of them; between
/// batches the library keeps the dictionary of each column and its last page, which the next batch goes on with.
pub(super) struct Pages {
    /// Bytes that all pages in memory may have once they are decompressed.
    most: u64,
    /// Where the columns begin, ascending.
    starts: Vec<u64>,
    /// Whether pages that say that they are not compressed [are](super::has_wrong_flags).
    has_wrong_flags: bool,
    read: Mutex<PagesRead>,
}

#[derive(Default)]
struct PagesRead {
    /// Where pages begin whose headers have been read.
    announced: HashMap<u64, PageSize>,
    /// Bytes of the dictionary and of the last page of each column, by its number.
    kept: HashMap<usize, [u64; 2]>,
    /// Bytes of the present batch.
    bytes: u64,
    /// As many bytes as there were none for.
    refused: Option<u64>,
}

impl Pages {
    /// Of columns that begin at these places.
    pub(super) fn new(part: &Part, mut starts: Vec<u64>, has_wrong_flags: bool) -> Pages {
        starts.sort_unstable();
        Pages {
            most: part.most_at_once(),
            starts,
            has_wrong_flags,
            read: Mutex::default(),
        }
    }

    fn read(&self) -> MutexGuard<'_, PagesRead> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin_batch(&self) {
        let mut read = self.read();
        read.bytes = read.kept.values().flatten().sum();
    }

    pub(super) fn refused(&self) -> Option<u64> {
        self.read().refused
    }

    /// Notes that the library reads what is at `start`, which may be a page.
    fn take(&self, start: u64) -> ParquetResult<()> {
        let mut read = self.read();
        let Some(page) = read.announced.remove(&start) else {
            return Ok(());
        };
        let column = self.starts.partition_point(|first| *first <= start);
        let kept = read.kept.entry(column).or_default();
        kept[usize::from(!page.is_dictionary)] = page.expanded;
        read.bytes += page.expanded;
        if read.bytes > self.most {
            read.refused = Some(read.bytes);
            return Err(ParquetError::General("a batch is too large".to_owned()));
        }
        Ok(())
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        match &self.handle {
            Handle::File(file) => Length::len(file),
            #[cfg(feature = "object-stores")]
            Handle::Object(_) => unreachable!("objects are read by extents"),
            #[cfg(feature = "object-stores")]
            Handle::Extents(reader) => reader.extents().size(),
            Handle::Scratch(file) => file.len(),
            Handle::Bytes(bytes) => bytes.get_ref().len() as u64,
        }
    }
}

/// What the library reads a page's header from, checked before the first byte is given. Where it has the header
/// already, it takes a reader at the page itself, and drops it unread.
pub(super) struct Header {
    reader: BufReader<Timed<Handle>>,
    /// Bytes to the end of the file, until the header has been checked.
    unchecked: Option<u64>,
    /// Bytes before a wrong flag in the header, until it has been set right.
    wrong_flag: Option<u64>,
    pages: Arc<Pages>,
}

/// A page whose header has been read.
pub(super) struct Found {
    pub(super) size: PageSize,
    /// Where the header ends.
    pub(super) end: u64,
}

impl Header {
    /// Checks the header, once; the reader is at its beginning afterwards.
    pub(super) fn check(&mut self) -> io::Result<Option<Found>> {
        let Some(left) = self.unchecked.take() else {
            return Ok(None);
        };
        let start = self.reader.stream_position()?;
        let size = thrift::check_page_header(&mut self.reader, left)?;
        let end = self.reader.stream_position()?;
        self.reader.seek_relative(start as i64 - end as i64)?;
        Ok(Some(Found { size, end }))
    }
}

impl Read for Header {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if let Some(Found { size, end }) = self.check()? {
            self.wrong_flag = match size.uncompressed {
                _ if self.pages.has_wrong_flags => size.uncompressed,
                // Whatever it is, as it is it makes no sense.
                Some(_) if size.stored != size.expanded => {
                    let problem =
                        "a page says that it is not compressed, and has not the size that it says";
                    return Err(std::io::Error::new(
                        std::io::ErrorKind::InvalidData,
                        problem,
                    ));
                }
                _ => None,
            };
            self.pages.read().announced.insert(end, size);
        }
        let read = self.reader.read(out)?;
        if let Some(before) = self.wrong_flag.take() {
            let at = usize::try_from(before).unwrap_or(usize::MAX);
            match out[..read].get_mut(at) {
                Some(flag) => *flag = *flag & 0xf0 | TRUE,
                None => self.wrong_flag = Some(before - read as u64),
            }
        }
        Ok(read)
    }
}

impl ChunkReader for Chunks {
    type T = Header;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let mut reader = BufReader::new(self.wait_time.timed(self.handle.try_clone()?));
        reader.seek(SeekFrom::Start(start))?;
        let left = self.len().saturating_sub(start);
        Ok(Header {
            reader,
            // The end of the file is no header.
            unchecked: (left > FOOTER_BYTES).then_some(left),
            wrong_flag: None,
            pages: self.pages.clone(),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // The length is only claimed by the file; memory is allocated only for bytes that are there.
        let end = start
            .checked_add(length as u64)
            .filter(|end| *end <= self.len());
        let Some(end) = end else {
            return Err(ParquetError::EOF("it breaks off in the middle".to_owned()));
        };
        self.pages.take(start)?;
        self.wait_time.count(|| match &self.handle {
            Handle::File(file) => file.get_bytes(start, length),
            #[cfg(feature = "object-stores")]
            Handle::Object(_) => unreachable!("objects are read by extents"),
            #[cfg(feature = "object-stores")]
            Handle::Extents(reader) => Ok(reader.extents().bytes(start, length)?),
            Handle::Scratch(file) => {
                let mut reader = file.clone();
                reader.seek(SeekFrom::Start(start))?;
                let mut bytes = vec![0; length];
                reader.read_exact(&mut bytes)?;
                Ok(bytes.into())
            }
            Handle::Bytes(bytes) => Ok(bytes.get_ref().slice(start as usize..end as usize)),
        })
    }
}
