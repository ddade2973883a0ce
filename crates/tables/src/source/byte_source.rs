//! The bytes of a table: a file, a copy of a pipe, an object of a store, memory, or the pipe itself.

use std::fs::{File, Metadata};
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use vesica_files::{Place, open_regular};

use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "object-stores")]
use crate::objects::extents::ExtentsReader;
#[cfg(feature = "object-stores")]
use crate::objects::object::{Object, ObjectReader};
use crate::source::scratch::{ScratchFile, ScratchReader};

/// Where the bytes of a table are.
pub(crate) enum ByteSource {
    Path(PathBuf),
    #[cfg(feature = "object-stores")]
    Object(Arc<Object>),
    /// A copy of a pipe.
    Scratch(Arc<ScratchFile>),
    Bytes(Bytes),
    /// Arrow record batches.
    Batches(SchemaRef, Vec<RecordBatch>),
    /// A pipe that is read once; `None` afterwards.
    Pipe(Mutex<Option<Box<dyn Read + Send>>>),
}

impl std::fmt::Debug for ByteSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ByteSource::Path(path) => f.debug_tuple("Path").field(path).finish(),
            #[cfg(feature = "object-stores")]
            ByteSource::Object(object) => object.fmt(f),
            ByteSource::Scratch(file) => f.debug_tuple("Scratch").field(file).finish(),
            ByteSource::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            ByteSource::Batches(_, batches) => write!(f, "Batches({})", batches.len()),
            ByteSource::Pipe(_) => f.write_str("Pipe"),
        }
    }
}

impl ByteSource {
    /// The bytes, from the start, of anything but a pipe.
    pub(crate) fn handle(&self) -> Result<Handle> {
        Ok(match self {
            ByteSource::Path(path) => Handle::File(open_regular(path).map_err(open_error)?),
            #[cfg(feature = "object-stores")]
            ByteSource::Object(object) => Handle::Object(ObjectReader::new(object.clone())),
            ByteSource::Scratch(file) => Handle::Scratch(ScratchReader::new(file.clone())),
            ByteSource::Bytes(bytes) => Handle::Bytes(Cursor::new(bytes.clone())),
            ByteSource::Batches(..) => return Err(Error::usage("record batches are no bytes")),
            ByteSource::Pipe(_) => return Err(read_once()),
        })
    }

    /// The bytes, from the start; those of a pipe once.
    pub(crate) fn stream(&self) -> Result<Box<dyn Read + Send>> {
        Ok(match self {
            ByteSource::Pipe(pipe) => {
                let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
                pipe.take().ok_or_else(read_once)?
            }
            _ => Box::new(self.handle()?),
        })
    }

    /// Fails if a file is no longer the one of this stamp, or has been written to, and if an object could not be read.
    pub(crate) fn verify_unchanged(&self, stamp: &Stamp) -> Result<()> {
        match self {
            ByteSource::Path(path) => match std::fs::metadata(path) {
                Ok(now) if Stamp::at(path, &now) == *stamp => Ok(()),
                _ => Err(Error::new(ErrorKind::Changed)),
            },
            #[cfg(feature = "object-stores")]
            ByteSource::Object(object) => object.verify(),
            ByteSource::Scratch(_)
            | ByteSource::Bytes(_)
            | ByteSource::Batches(..)
            | ByteSource::Pipe(_) => Ok(()),
        }
    }
}

/// Tells a file that was changed or replaced from one that was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds of the last change, which no program can set back.
    changed: Option<(i64, i64)>,
    identity: Option<Place>,
}

impl Stamp {
    /// The stamp of data that nobody else can reach.
    pub(crate) const PRIVATE: Stamp = Stamp {
        length: 0,
        modified: None,
        changed: None,
        identity: None,
    };

    /// The stamp of what has this path, whose metadata these are.
    pub(crate) fn at(path: &Path, metadata: &Metadata) -> Self {
        Stamp::of(metadata, Place::at(path, metadata))
    }

    pub(crate) fn of(metadata: &Metadata, identity: Option<Place>) -> Self {
        Stamp {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            changed: changed(metadata),
            identity,
        }
    }

    /// Whether both are of the very same file.
    pub(crate) fn is_same_as(&self, other: &Stamp) -> bool {
        self.identity.is_some() && self.identity == other.identity
    }

    /// What tells the file from others, if it is of one.
    pub(crate) fn identity(&self) -> Option<Place> {
        self.identity
    }
}

#[cfg(unix)]
fn changed(metadata: &Metadata) -> Option<(i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> Option<(i64, i64)> {
    None
}

/// A caller reads more often than its options said.
fn read_once() -> Error {
    Error::usage("it was opened to be read once")
}

pub(crate) fn open_error(e: io::Error) -> Error {
    Error::new(match e.kind() {
        io::ErrorKind::NotFound => ErrorKind::MissingFile,
        io::ErrorKind::IsADirectory => ErrorKind::IsDirectory,
        _ => ErrorKind::Unreadable(e),
    })
}

/// The bytes of a table, as a place in them.
pub(crate) enum Handle {
    File(File),
    #[cfg(feature = "object-stores")]
    Object(ObjectReader),
    #[cfg(feature = "object-stores")]
    Extents(ExtentsReader),
    Scratch(ScratchReader),
    Bytes(Cursor<Bytes>),
}

impl Handle {
    /// Another handle for the same bytes; those of a file share their place.
    #[cfg(feature = "parquet")]
    pub(crate) fn try_clone(&self) -> io::Result<Handle> {
        Ok(match self {
            Handle::File(file) => Handle::File(file.try_clone()?),
            #[cfg(feature = "object-stores")]
            Handle::Object(object) => Handle::Object(object.another()),
            #[cfg(feature = "object-stores")]
            Handle::Extents(extents) => Handle::Extents(extents.clone()),
            Handle::Scratch(file) => Handle::Scratch(file.clone()),
            Handle::Bytes(bytes) => Handle::Bytes(bytes.clone()),
        })
    }
}

impl Read for Handle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Handle::File(file) => file.read(buffer),
            #[cfg(feature = "object-stores")]
            Handle::Object(object) => object.read(buffer),
            #[cfg(feature = "object-stores")]
            Handle::Extents(extents) => extents.read(buffer),
            Handle::Scratch(file) => file.read(buffer),
            Handle::Bytes(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Handle::File(file) => file.seek(to),
            #[cfg(feature = "object-stores")]
            Handle::Object(object) => object.seek(to),
            #[cfg(feature = "object-stores")]
            Handle::Extents(extents) => extents.seek(to),
            Handle::Scratch(file) => file.seek(to),
            Handle::Bytes(bytes) => bytes.seek(to),
        }
    }
}
