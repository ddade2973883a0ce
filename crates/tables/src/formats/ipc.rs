//! Arrow IPC files (Feather version 2) and streams.

use std::io::{BufReader, ErrorKind as IoKind, Read, Seek, SeekFrom, Write};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, Endianness, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use vesica_files::catching;

use super::columnar::{ColumnFormat, MAX_REHEARSED, RowWriter, Written};
use super::partitioned::Partitioned;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ARROW_STREAM_START;
use crate::formats::selection::{Failure, Selection, WriterWithCause};
use crate::source::byte_source::Handle;
use crate::source::part::Part;
use crate::source::text::read_error;
use crate::source::wait_time::Timed;
use crate::types::nested::fields_of;

/// The end of an Arrow file, and its beginning but for two zeros.
const MAGIC: &[u8] = b"ARROW1";

/// Maximum expanded size that a compressed buffer may claim, in bytes.
const MAX_BUFFER_BYTES: i64 = 1 << 30;

fn wrong(e: impl std::fmt::Display) -> Error {
    Error::corrupt(e.to_string())
}

/// Calls the library; its errors and panics are the file's fault.
fn call<T>(f: impl FnOnce() -> std::result::Result<T, ArrowError>) -> Result<T> {
    catching(f).map_err(wrong)?.map_err(wrong)
}

type Input = BufReader<Timed<Handle>>;

enum Batches {
    File(Box<FileReader<Input>>),
    Stream(Box<StreamReader<Input>>),
    Memory {
        schema: SchemaRef,
        batches: std::vec::IntoIter<RecordBatch>,
        columns: Option<Vec<usize>>,
    },
}

impl Batches {
    fn open(part: &Part, layout: &Layout, columns: Option<Vec<usize>>) -> Result<Self> {
        if let Some((schema, batches)) = part.batches() {
            return Ok(Batches::Memory {
                schema: schema.clone(),
                batches: Vec::from(batches).into_iter(),
                columns,
            });
        }
        let input = BufReader::new(part.wait_time().timed(part.handle()?));
        call(|| {
            Ok(if layout.is_file {
                Batches::File(Box::new(FileReader::try_new(input, columns)?))
            } else {
                Batches::Stream(Box::new(StreamReader::try_new(input, columns)?))
            })
        })
    }

    fn schema(&self) -> SchemaRef {
        match self {
            Batches::File(reader) => RecordBatchReader::schema(&**reader),
            Batches::Stream(reader) => RecordBatchReader::schema(&**reader),
            Batches::Memory { schema, .. } => schema.clone(),
        }
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        call(|| {
            match self {
                Batches::File(reader) => reader.next(),
                Batches::Stream(reader) => reader.next(),
                Batches::Memory {
                    batches, columns, ..
                } => batches.next().map(|batch| match columns {
                    Some(columns) => batch.project(columns),
                    None => Ok(batch),
                }),
            }
            .transpose()
        })
    }
}

/// The record batches of Arrow files, with the columns that their directories say.
pub(crate) type Rows = Partitioned<Files>;

/// The record batches of Arrow files and streams, or in memory.
pub(crate) struct Files;

/// A file whose batches can be read.
pub(crate) struct Opened {
    layout: Layout,
    batches: Batches,
}

impl ColumnFormat for Files {
    type File = Opened;

    fn open(part: &Part, _: &SchemaRef) -> Result<Opened> {
        let layout = Layout::read(part)?;
        let batches = Batches::open(part, &layout, None)?;
        Ok(Opened { layout, batches })
    }

    fn schema(file: &Opened) -> SchemaRef {
        file.batches.schema()
    }

    fn scan(
        part: &Part,
        file: Opened,
        roots: Vec<usize>,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let mut batches = Batches::open(part, &file.layout, Some(roots))?;
        while let Some(batch) = batches.next()? {
            each(batch)?;
        }
        Ok(())
    }

    fn select(
        part: &Part,
        file: Opened,
        roots: &[usize],
        rows: &mut Selection<'_>,
        each: &mut dyn FnMut(&RecordBatch, &mut Selection<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut batches = match roots.len() == file.batches.schema().fields().len() {
            true => file.batches,
            false => Batches::open(part, &file.layout, Some(roots.to_vec()))?,
        };
        while let Some(batch) = batches.next()? {
            each(&batch, rows)?;
        }
        Ok(())
    }

    fn rehearse(part: &Part, file: &Opened, roots: &[usize]) -> Result<()> {
        match file.layout.bytes_at_once > MAX_REHEARSED {
            true => Ok(()),
            false => Batches::open(part, &file.layout, Some(roots.to_vec()))?
                .next()
                .map(drop),
        }
    }

    fn most_of_row(part: &Part, file: &Opened) -> u64 {
        let fields = file.batches.schema();
        let fields = fields.fields().iter();
        match part.batches() {
            Some(_) => u64::MAX,
            None => fields
                .map(|field| most_of_value(field.data_type(), file.layout.bytes_at_once))
                .fold(file.layout.bytes_at_once, u64::saturating_add),
        }
    }

    /// With the compression of the first file.
    fn writer<'w>(
        first: Option<&Opened>,
        rows: &Written<'_>,
        out: &'w mut WriterWithCause<'_>,
    ) -> Result<Box<dyn RowWriter + 'w>> {
        let compression = first.and_then(|first| first.layout.compression);
        let options = call(|| IpcWriteOptions::default().try_with_compression(compression))?;
        let schema = &rows.schema;
        let failure = out.failure();
        let to = failure.watch(|| {
            Ok::<_, ArrowError>(match first.map(|first| &first.batches) {
                _ if rows.container.is_arrow_stream => {
                    To::Stream(StreamWriter::try_new_with_options(out, schema, options)?)
                }
                first => {
                    let mut writer = FileWriter::try_new_with_options(out, schema, options)?;
                    if let Some(Batches::File(reader)) = first {
                        for (key, value) in reader.custom_metadata() {
                            writer.write_metadata(key, value);
                        }
                    }
                    To::File(writer)
                }
            })
        })?;
        Ok(Box::new(Writer { to, failure }))
    }
}

/// Bytes that a value has at most beside those that no other row has, if all together are so many.
fn most_of_value(of: &DataType, all: u64) -> u64 {
    match of {
        DataType::Dictionary(_, values) => all.saturating_add(most_of_value(values, all)),
        DataType::RunEndEncoded(_, values) => {
            all.saturating_add(most_of_value(values.data_type(), all))
        }
        DataType::Utf8View | DataType::BinaryView => all,
        DataType::ListView(_) | DataType::LargeListView(_) => u64::MAX,
        of => {
            let fields = fields_of(of).iter();
            let most = fields.map(|field| most_of_value(field.data_type(), all));
            let most = most.fold(0, u64::saturating_add);
            match of {
                DataType::Struct(_) => most,
                // As often as the list is long.
                _ if most > 0 => u64::MAX,
                _ => 0,
            }
        }
    }
}

struct Writer<W: Write> {
    to: To<W>,
    failure: Failure,
}

enum To<W: Write> {
    File(FileWriter<W>),
    Stream(StreamWriter<W>),
}

impl<W: Write> RowWriter for Writer<W> {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.failure.watch(|| match &mut self.to {
            To::File(writer) => writer.write(rows),
            To::Stream(writer) => writer.write(rows),
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.failure.watch(|| match &mut self.to {
            To::File(writer) => writer.finish(),
            To::Stream(writer) => writer.finish(),
        })
    }
}

/// Refuses metadata of versions that the library does not know.
fn check_version(version: MetadataVersion, oldest: MetadataVersion) -> Result<()> {
    if (oldest..=MetadataVersion::V5).contains(&version) {
        return Ok(());
    }
    let number = i32::from(version.0) + 1;
    let found = format!("Arrow data whose metadata are of version {number}, and not 4 or 5");
    Err(Error::unsupported(found))
}

/// Refuses values in the byte order of other processors, which the library would read in that of this one, and types that
/// it does not know.
fn check_schema(schema: Option<arrow_ipc::Schema<'_>>) -> Result<()> {
    let Some(schema) = schema else {
        return Ok(());
    };
    if schema.endianness() != Endianness::Little {
        return Err(Error::unsupported("big-endian Arrow data"));
    }
    unknown_type(schema).map_or(Ok(()), Err)
}

/// The first column of a type that the library does not know, as an error.
pub(crate) fn unknown_type(schema: arrow_ipc::Schema<'_>) -> Option<Error> {
    schema.fields()?.iter().find_map(|field| {
        let reason = catching(|| arrow_schema::Field::from(field)).err()?;
        let found = match field.type_as_int() {
            Some(int) if int.bitWidth() > 64 => format!("{}-bit integers", int.bitWidth()),
            _ if reason.contains("not supported") => reason,
            _ => return None,
        };
        Some(Error::unsupported(found).in_column(field.name().unwrap_or_default()))
    })
}

/// What must be known about a file before its batches are decoded.
struct Layout {
    is_file: bool,
    /// That of the first compressed batch.
    compression: Option<CompressionType>,
    /// Bytes of the largest batch in memory, with all dictionaries.
    bytes_at_once: u64,
}

impl Layout {
    /// Walks over the messages and checks every length in them against the size of the file: the library
    /// allocates memory for a claimed length before it finds the bytes missing, and for the claimed expanded
    /// size of a compressed buffer.
    fn read(part: &Part) -> Result<Self> {
        if part.batches().is_some() {
            return Ok(Layout {
                is_file: false,
                compression: None,
                bytes_at_once: 0,
            });
        }
        let mut input = part.wait_time().timed(part.handle()?);
        let size = input.seek(SeekFrom::End(0)).map_err(read_error)?;
        let mut walk = Walk {
            input,
            size,
            compression: None,
            largest_batch: 0,
            dictionaries: 0,
        };
        let is_file = size >= 8 && walk.bytes(0, MAGIC.len() as u64)? == MAGIC;
        if is_file {
            walk.file()?
        } else {
            walk.stream()?
        }
        let (bytes, limit) = (
            walk.dictionaries.saturating_add(walk.largest_batch),
            part.most_at_once(),
        );
        if bytes > limit {
            let what = "a record batch";
            return Err(Error::new(ErrorKind::TooLarge { what, bytes, limit }));
        }
        Ok(Layout {
            is_file,
            compression: walk.compression,
            bytes_at_once: bytes,
        })
    }
}

struct Walk {
    input: Timed<Handle>,
    size: u64,
    compression: Option<CompressionType>,
    /// Bytes of the largest batch in memory, and of all dictionaries together.
    largest_batch: u64,
    dictionaries: u64,
}

impl Walk {
    fn bytes(&mut self, offset: u64, length: u64) -> Result<Vec<u8>> {
        if offset.checked_add(length).is_none_or(|end| end > self.size) {
            return Err(read_error(IoKind::UnexpectedEof.into()));
        }
        let mut bytes = vec![0; length as usize];
        self.input
            .seek(SeekFrom::Start(offset))
            .map_err(read_error)?;
        self.input.read_exact(&mut bytes).map_err(read_error)?;
        Ok(bytes)
    }

    fn length(&mut self, offset: u64) -> Result<i64> {
        let bytes = self.bytes(offset, 4)?;
        Ok(bytes
            .try_into()
            .map_or(-1, |b| i64::from(i32::from_le_bytes(b))))
    }

    fn file(&mut self) -> Result<()> {
        let tail = self.size.saturating_sub(10);
        if self.bytes(tail + 4, self.size - tail - 4)? != MAGIC {
            return Err(Error::corrupt("it does not end as an Arrow file does"));
        }
        let length = unsigned(self.length(tail)?)?;
        let Some(start) = tail.checked_sub(length) else {
            return Err(read_error(IoKind::UnexpectedEof.into()));
        };
        let footer = self.bytes(start, length)?;
        let footer = catching(|| root_as_footer(&footer))
            .map_err(wrong)?
            .map_err(wrong)?;
        // Some writers do not say which.
        check_version(footer.version(), MetadataVersion::V1)?;
        check_schema(footer.schema())?;
        let blocks = footer
            .dictionaries()
            .into_iter()
            .chain(footer.recordBatches())
            .flatten();
        for block in blocks {
            let offset = unsigned(block.offset())?;
            self.message(
                offset,
                unsigned(block.metaDataLength().into())?,
                unsigned(block.bodyLength())?,
            )?;
        }
        Ok(())
    }

    fn stream(&mut self) -> Result<()> {
        let mut offset = 0;
        while offset < self.size {
            let first = self.length(offset)?;
            let prefix = if first == -1 { 8 } else { 4 };
            let length = if first == -1 {
                self.length(offset + 4)?
            } else {
                first
            };
            if length == 0 {
                break;
            }
            let metadata = prefix + unsigned(length)?;
            offset += metadata + self.message(offset, metadata, 0)?;
        }
        Ok(())
    }

    /// Checks one message; `metadata` is the length of its head with the prefix, `body` is at
    /// least the length of its body. Returns the body's length.
    fn message(&mut self, offset: u64, metadata: u64, body: u64) -> Result<u64> {
        let head = self.bytes(offset, metadata)?;
        let prefix = if head.starts_with(ARROW_STREAM_START) {
            8
        } else {
            4
        };
        let Some((before, head)) = head.split_at_checked(prefix) else {
            return Err(Error::corrupt("a message has no head"));
        };
        // A footer says once more how long the head is.
        let length = before
            .last_chunk()
            .map_or(0, |bytes| u32::from_le_bytes(*bytes));
        if u64::from(length) > head.len() as u64 {
            return Err(Error::corrupt("a message is longer than the footer says"));
        }
        let message = catching(|| root_as_message(head))
            .map_err(wrong)?
            .map_err(wrong)?;
        let body = body.max(unsigned(message.bodyLength())?);
        let start = offset + metadata;
        if start.checked_add(body).is_none_or(|end| end > self.size) {
            return Err(read_error(IoKind::UnexpectedEof.into()));
        }
        check_version(message.version(), MetadataVersion::V4)?;
        check_schema(message.header_as_schema())?;
        let dictionary = message.header_as_dictionary_batch().and_then(|d| d.data());
        let mut bytes = body;
        if let Some(batch) = message.header_as_record_batch().or(dictionary) {
            bytes = bytes.saturating_add(self.expanded(batch, start)?);
        }
        match dictionary {
            Some(_) => self.dictionaries = self.dictionaries.saturating_add(bytes),
            None => self.largest_batch = self.largest_batch.max(bytes),
        }
        Ok(body)
    }

    /// Bytes that the compressed buffers of a batch, whose body is at `start`, claim to have once they are expanded.
    fn expanded(&mut self, batch: arrow_ipc::RecordBatch<'_>, start: u64) -> Result<u64> {
        let Some(compression) = batch.compression() else {
            return Ok(0);
        };
        self.compression.get_or_insert(compression.codec());
        let mut bytes = 0u64;
        for buffer in batch.buffers().into_iter().flatten() {
            if buffer.length() < 8 {
                continue;
            }
            let place = start.saturating_add(unsigned(buffer.offset())?);
            let claim = self.bytes(place, 8)?;
            let claim = claim.try_into().map_or(0, i64::from_le_bytes);
            if claim > MAX_BUFFER_BYTES {
                return Err(Error::corrupt("a compressed buffer claims more than 1 GiB"));
            }
            // Less than nothing stands for a buffer that is not compressed.
            bytes = bytes.saturating_add(claim.max(0) as u64);
        }
        Ok(bytes)
    }
}

fn unsigned(length: i64) -> Result<u64> {
    u64::try_from(length).map_err(|_| Error::corrupt("a length is negative"))
}
