//! Parquet files.

use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::root_as_message;
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use base64::prelude::{BASE64_STANDARD, Engine};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, RowSelection, RowSelector,
};
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{
    ArrowSchemaConverter, ProjectionMask, encode_arrow_schema, parquet_to_arrow_field_levels,
};
use parquet::basic::{Compression, PageType, Type as PhysicalType, ZstdLevel};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{
    ColumnChunkMetaData, PageEncodingStats, ParquetMetaData, RowGroupMetaData,
};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::{SchemaDescriptor, Type};
use rayon::prelude::*;
use vesica_files::catching;

use super::columnar::{self, ColumnFormat, MAX_REHEARSED, RowWriter, Written};
use super::ipc;
use super::partitioned::Partitioned;
use crate::error::{Error, ErrorKind, Result};
use crate::format::ARROW_STREAM_START;
use crate::formats::selection::{Failure, Selection, WriterWithCause};
use crate::source::options::Passes;
use crate::source::part::Part;
use crate::types::common_type::with_types_in;

mod chunks;
mod deltas;
mod groups;
mod pages;
mod thrift;
mod views;

use chunks::{Chunks, FOOTER_BYTES, Pages};
use groups::RowGroups;

/// Maximum rows of a batch.
const BATCH_ROWS: usize = 8192;

/// Approximate bytes of a batch, by what the file says of its columns.
const BATCH_BYTES: u64 = 16 << 20;

/// An error of the library, which wraps some of its errors in text: an unimplemented feature is not damage, nor is one that
/// it thought it had.
fn wrong(e: impl std::fmt::Display) -> Error {
    let reason = e.to_string();
    let unsupported = [
        "NYI",
        "not supported",
        "not yet supported",
        "not implemented",
        "unsupported data type",
        "entered unreachable code",
        "encrypt",
    ];
    if unsupported.iter().any(|words| reason.contains(words)) {
        return Error::unsupported(format!("this Parquet file: {reason}"));
    }
    Error::corrupt(reason)
}

/// Calls the library; its errors and panics are the file's fault.
fn call<T>(f: impl FnOnce() -> std::result::Result<T, ParquetError>) -> Result<T> {
    catching(f).map_err(wrong)?.map_err(wrong)
}

fn metadata(part: &Part) -> Result<ArrowReaderMetadata> {
    let handle = Chunks::of_footer(part)?;
    call(|| check_footer(&handle, part.most_at_once()))?;
    let load = |skip| {
        let options = ArrowReaderOptions::new()
            .with_skip_arrow_metadata(skip)
            .with_encoding_stats_as_mask(false);
        call(|| ArrowReaderMetadata::load(&handle, options))
    };
    let metadata = load(false).map_err(|e| {
        // It may be the embedded Arrow schema alone that the library does not know.
        let column = load(true).ok().and_then(|m| unknown_type(m.metadata()));
        column.unwrap_or(e)
    })?;
    with_instants(metadata)
}

/// The metadata of a file whose INT96 timestamps are of a unit that has room for them: microseconds, unless an embedded Arrow
/// schema names another. In nanoseconds, which they count, the years are 1677 to 2262, and others would wrap around.
fn with_instants(metadata: ArrowReaderMetadata) -> Result<ArrowReaderMetadata> {
    let descriptor = metadata.parquet_schema();
    let leaves = descriptor.columns().iter().enumerate();
    let old = leaves.filter(|(_, leaf)| leaf.physical_type() == PhysicalType::INT96);
    let roots: HashSet<usize> = old
        .map(|(i, _)| descriptor.get_column_root_idx(i))
        .collect();
    if roots.is_empty() {
        return Ok(metadata);
    }
    let entries = metadata.metadata().file_metadata().key_value_metadata();
    let is_told = entries.is_some_and(|all| all.iter().any(|entry| entry.key == ARROW_SCHEMA));
    let is_old = |column| roots.contains(&column);
    let schema = with_types_in(metadata.schema(), is_old, &|data_type| match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) if !is_told => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        other => other.clone(),
    });
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    call(|| ArrowReaderMetadata::try_new(metadata.metadata().clone(), options))
}

/// The rows that a file says that it has.
pub(crate) fn row_count(part: &Part) -> Result<u64> {
    let rows = metadata(part)?.metadata().file_metadata().num_rows();
    Ok(u64::try_from(rows).unwrap_or(0))
}

/// The metadata of a file whose texts and bytes are to be read as views: so a value that many rows share is in memory
/// once.
fn as_views(metadata: &ArrowReaderMetadata) -> Result<ArrowReaderMetadata> {
    let schema = Arc::new(views::with_views(metadata.schema()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    call(|| ArrowReaderMetadata::try_new(metadata.metadata().clone(), options))
}

/// Refuses a file whose metadata claims more than it has. What else is wrong with it, the library says.
fn check_footer(handle: &Chunks, most: u64) -> ParquetResult<()> {
    let Some(end) = handle.len().checked_sub(FOOTER_BYTES) else {
        return Ok(());
    };
    let footer = handle.get_bytes(end, FOOTER_BYTES as usize)?;
    let Some((length, b"PAR1")) = footer.split_first_chunk() else {
        return Ok(());
    };
    let length = u32::from_le_bytes(*length);
    if u64::from(length) > most {
        let problem = format!("its metadata has {length} bytes, more than memory is for");
        return Err(ParquetError::General(problem));
    }
    match end.checked_sub(length.into()) {
        Some(start) => {
            let metadata = handle.get_bytes(start, length as usize)?;
            Ok(thrift::check_file_metadata(&metadata[..], length.into())?)
        }
        None => Ok(()),
    }
}

/// The column whose type in the embedded Arrow schema the library does not know, as an error.
fn unknown_type(metadata: &ParquetMetaData) -> Option<Error> {
    let entries = metadata.file_metadata().key_value_metadata()?;
    let entry = entries.iter().find(|e| e.key == ARROW_SCHEMA)?;
    let message = decode_schema(entry.value.as_ref()?)?;
    let message = root_as_message(&message).ok()?;
    ipc::unknown_type(message.header_as_schema()?)
}

/// Refuses a compression that the library does not know, and pages that are too large, in the columns that will be
/// read: the key's `roots`, or all if there is a second pass.
fn check_columns(part: &Part, metadata: &ArrowReaderMetadata, roots: &[usize]) -> Result<()> {
    // It left the header of a dictionary out of a column's size (PARQUET-816).
    let is_old = is_written_before(metadata.metadata(), "parquet-mr", [1, 2, 9]);
    for group in metadata.metadata().row_groups() {
        check_places(group)?;
        for (i, column) in group.columns().iter().enumerate() {
            let root = metadata.parquet_schema().get_column_root_idx(i);
            if part.passes() == Passes::One && !roots.contains(&root) {
                continue;
            }
            if column.compression() == Compression::LZO {
                let column = column.column_path().string();
                return Err(Error::unsupported("LZO compression").in_column(&column));
            }
            if is_old && begins_with_dictionary(part, column)? {
                let found = "a dictionary of parquet-mr before version 1.2.9, with a wrong size";
                let column = column.column_path().string();
                return Err(Error::unsupported(found).in_column(&column));
            }
            if column.uncompressed_size() as u64 > part.most_at_once() {
                check_pages(part, column)?;
            }
        }
    }
    Ok(())
}

/// Whether a file was written by a version of this program before that one.
fn is_written_before(metadata: &ParquetMetaData, program: &str, version: [u32; 3]) -> bool {
    let Some(by) = metadata.file_metadata().created_by() else {
        return false;
    };
    let (name, rest) = by.split_once(" version ").unwrap_or((by, ""));
    let mut numbers = rest
        .split(|c: char| !c.is_ascii_digit())
        .map(|number| number.parse().unwrap_or(0));
    name.trim() == program && [(); 3].map(|()| numbers.next().unwrap_or(0)) < version
}

/// Whether pages of the second version are compressed although they say that they are not. Arrow in C++ wrote them so up to
/// its version 2.0, and reads them so (ARROW-10353, ARROW-17100).
fn has_wrong_flags(metadata: &ParquetMetaData) -> bool {
    is_written_before(metadata, "parquet-cpp", [2, 0, 0])
}

/// Whether the first page of a column is a dictionary.
fn begins_with_dictionary(part: &Part, column: &ColumnChunkMetaData) -> Result<bool> {
    const HEADER_BYTES: u64 = 1 << 10;
    let (start, length) = column.byte_range();
    let chunks = Chunks::of_columns(part, vec![(start, length.min(HEADER_BYTES))])?;
    let mut header = call(|| chunks.get_read(start))?;
    let found = call(|| Ok(header.check()?))?;
    Ok(found.is_some_and(|found| found.size.is_dictionary))
}

/// Refuses columns that share bytes: what is kept of each is counted by where its pages are.
fn check_places(group: &RowGroupMetaData) -> Result<()> {
    let ranges = group.columns().iter().map(ColumnChunkMetaData::byte_range);
    let mut ranges: Vec<(u64, u64)> = catching(|| ranges.collect()).map_err(wrong)?;
    ranges.sort_unstable();
    let overlap = |pair: &[(u64, u64)]| pair[0].0.saturating_add(pair[0].1) > pair[1].0;
    match ranges.windows(2).any(overlap) {
        true => Err(wrong("columns share bytes")),
        false => Ok(()),
    }
}

/// Refuses a page that is too large, before the library meets it in the middle of a pass.
fn check_pages(part: &Part, column: &ColumnChunkMetaData) -> Result<()> {
    let (mut start, length) = column.byte_range();
    let end = start.saturating_add(length);
    let chunks = Chunks::of_columns(part, vec![column.byte_range()])?;
    while start < end {
        let mut header = call(|| chunks.get_read(start))?;
        let Some(found) = call(|| Ok(header.check()?))? else {
            break;
        };
        if found.size.expanded > part.most_at_once() {
            return Err(too_large(
                part.most_at_once(),
                "a page",
                found.size.expanded,
            ));
        }
        start = found.end.saturating_add(found.size.stored);
    }
    Ok(())
}

fn too_large(limit: u64, what: &'static str, bytes: u64) -> Error {
    Error::new(ErrorKind::TooLarge { what, bytes, limit })
}

/// How many rows of a group take approximately [`BATCH_BYTES`] in the columns of `mask`. Text and bytes are views.
fn batch_rows(group: &RowGroupMetaData, mask: &ProjectionMask) -> usize {
    const VIEW: i64 = 16;
    let columns = group.columns().iter().enumerate();
    let bytes = columns
        .filter(|(i, _)| mask.leaf_included(*i))
        .map(|(_, column)| {
            let width = match column.column_type() {
                PhysicalType::FIXED_LEN_BYTE_ARRAY => column.column_descr().type_length().into(),
                _ => VIEW,
            };
            let fixed = column.num_values().saturating_mul(width);
            column.uncompressed_size().max(fixed).max(0) as u64
        });
    let bytes = bytes.fold(1u64, u64::saturating_add);
    let rows = u128::from(BATCH_BYTES) * group.num_rows().max(0) as u128 / u128::from(bytes);
    rows.clamp(1, BATCH_ROWS as u128) as usize
}

/// The rows of a row group that are read.
struct GroupRows<'a> {
    part: &'a Part,
    metadata: &'a ArrowReaderMetadata,
    group: usize,
    /// The columns that are read, ascending.
    roots: Vec<usize>,
    /// All rows if there is none.
    selection: Option<RowSelection>,
}

impl GroupRows<'_> {
    fn group(&self) -> &RowGroupMetaData {
        self.metadata.metadata().row_group(self.group)
    }

    fn mask(&self, roots: &[usize]) -> ProjectionMask {
        ProjectionMask::roots(self.metadata.parquet_schema(), roots.iter().copied())
    }

    /// The columns in sets of neighbours with about as many bytes each, one for each thread.
    fn sets(&self) -> Vec<Vec<usize>> {
        let schema = self.metadata.parquet_schema();
        let mut bytes = vec![0u128; schema.root_schema().get_fields().len()];
        for (i, column) in self.group().columns().iter().enumerate() {
            bytes[schema.get_column_root_idx(i)] += column.uncompressed_size().max(1) as u128;
        }
        let total: u128 = self.roots.iter().map(|root| bytes[*root]).sum();
        let mut before = 0;
        let mut set_of = |root: &usize| {
            let middle = before + bytes[*root] / 2;
            before += bytes[*root];
            middle * rayon::current_num_threads() as u128 / total.max(1)
        };
        let numbered: Vec<_> = self
            .roots
            .iter()
            .map(|root| (set_of(root), *root))
            .collect();
        let sets = numbered.chunk_by(|a, b| a.0 == b.0);
        let sets: Vec<Vec<usize>> = sets
            .map(|set| set.iter().map(|(_, root)| *root).collect())
            .collect();
        match sets.is_empty() {
            // Rows without columns.
            true => vec![Vec::new()],
            false => sets,
        }
    }

    /// Readers of them in batches of so many.
    fn readers(&self, batch_rows: usize) -> Result<Readers> {
        let columns = self.group().columns().iter();
        let ranges = columns.map(ColumnChunkMetaData::byte_range);
        let ranges: Vec<(u64, u64)> = catching(|| ranges.collect()).map_err(wrong)?;
        let mask = self.mask(&self.roots);
        let read = ranges.iter().enumerate();
        let read = read.filter(|(leaf, _)| mask.leaf_included(*leaf));
        let chunks = Chunks::of_columns(self.part, read.map(|(_, range)| *range).collect())?;
        let starts = ranges.iter().map(|range| range.0).collect();
        let is_old = has_wrong_flags(self.metadata.metadata());
        let pages = Arc::new(Pages::new(self.part, starts, is_old));
        let sets = self.sets();
        let reader = |roots: &Vec<usize>| {
            let chunks = Chunks {
                handle: chunks.apart(self.part)?,
                wait_time: chunks.wait_time.shared_by(sets.len()),
                pages: pages.clone(),
            };
            call(|| {
                let group = pages::Group {
                    metadata: self.metadata.metadata(),
                    group: self.group,
                    chunks: Arc::new(chunks),
                };
                let fields = self.metadata.schema().fields();
                let schema = self.metadata.parquet_schema();
                let mask = self.mask(roots);
                let levels = parquet_to_arrow_field_levels(schema, mask, Some(fields))?;
                let selection = self.selection.clone();
                ParquetRecordBatchReader::try_new_with_row_groups(
                    &levels, &group, batch_rows, selection,
                )
            })
        };
        let of_sets = sets.iter().map(reader).collect::<Result<_>>()?;
        Ok(Readers { of_sets, pages })
    }
}

/// Readers of the same rows, each of some columns, which read side by side.
struct Readers {
    of_sets: Vec<ParquetRecordBatchReader>,
    /// The pages that they have met.
    pages: Arc<Pages>,
}

impl Readers {
    /// The next batch.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let next = |reader: &mut ParquetRecordBatchReader| {
            let next = catching(|| reader.next()).map_err(wrong)?;
            next.transpose().map_err(wrong)
        };
        self.pages.begin_batch();
        if let [reader] = &mut self.of_sets[..] {
            return next(reader);
        }
        let found: Vec<_> = self.of_sets.par_iter_mut().map(next).collect();
        let found: Vec<_> = found.into_iter().collect::<Result<_>>()?;
        if found.iter().all(Option::is_none) {
            return Ok(None);
        }
        let unequal = || Error::corrupt("its columns have not as many rows as each other");
        let found: Option<Vec<RecordBatch>> = found.into_iter().collect();
        let found = found.ok_or_else(unequal)?;
        let rows = found[0].num_rows();
        if found.iter().any(|batch| batch.num_rows() != rows) {
            return Err(unequal());
        }
        let schemas = found.iter().map(|batch| batch.schema_ref());
        let fields: Vec<_> = schemas
            .flat_map(|schema| schema.fields())
            .cloned()
            .collect();
        let schema = Schema::new_with_metadata(fields, found[0].schema_ref().metadata().clone());
        let columns = found.iter().flat_map(RecordBatch::columns).cloned();
        RecordBatch::try_new(Arc::new(schema), columns.collect())
            .map(Some)
            .map_err(wrong)
    }
}

/// Rows of a row group in batches for which there is memory.
struct Batches<'a> {
    rows: GroupRows<'a>,
    batch_rows: usize,
    readers: Readers,
    /// How many rows have been returned, and how many of them the reader has yet to repeat.
    returned: usize,
    repeated: usize,
}

impl<'a> Batches<'a> {
    fn new(rows: GroupRows<'a>) -> Result<Batches<'a>> {
        let batch_rows = batch_rows(rows.group(), &rows.mask(&rows.roots));
        let readers = rows.readers(batch_rows)?;
        Ok(Batches {
            rows,
            batch_rows,
            readers,
            returned: 0,
            repeated: 0,
        })
    }

    /// The next batch. Where its pages are more than there is memory for, a smaller one.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = match (self.readers.next(), self.readers.pages.refused()) {
                (Err(_), Some(bytes)) if self.batch_rows == 1 => {
                    let what = "a row with its pages";
                    return Err(too_large(self.rows.part.most_at_once(), what, bytes));
                }
                (Err(_), Some(_)) => {
                    self.batch_rows = (self.batch_rows / 8).max(1);
                    self.readers = self.rows.readers(self.batch_rows)?;
                    self.repeated = self.returned;
                    continue;
                }
                (Err(error), None) => return Err(error),
                (Ok(None), _) => return Ok(None),
                (Ok(Some(batch)), _) => batch,
            };
            let old = self.repeated.min(batch.num_rows());
            self.repeated -= old;
            let new = batch.num_rows() - old;
            if new > 0 {
                self.returned += new;
                return Ok(Some(batch.slice(old, new)));
            }
        }
    }
}

/// At most [`BATCH_ROWS`] neighbouring rows of a row group.
struct Piece {
    group: usize,
    rows: usize,
    /// Whether any of them is selected.
    wanted: bool,
}

/// The rows of a file, whose first row is the next of the selection.
fn pieces(metadata: &ArrowReaderMetadata, mut rows: Selection<'_>) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    for (group, found) in metadata.metadata().row_groups().iter().enumerate() {
        let mut left = usize::try_from(found.num_rows()).map_err(wrong)?;
        let first = pieces.len();
        while left > 0 {
            let here = left.min(BATCH_ROWS);
            pieces.push(Piece {
                group,
                rows: here,
                wanted: rows.mask(here)?.is_some(),
            });
            left -= here;
        }
        let of_group = &mut pieces[first..];
        if of_group.iter().any(|piece| piece.wanted) && !pages_can_be_skipped(found) {
            of_group.iter_mut().for_each(|piece| piece.wanted = true);
        }
    }
    Ok(pieces)
}

/// Whether the library knows how many rows a page has from what it decodes pages by. The headers of pages of version 2,
/// and of columns with repeated values, say the number of rows once more, and nothing else checks that.
fn pages_can_be_skipped(group: &RowGroupMetaData) -> bool {
    group.columns().iter().all(|column| {
        let kinds = column.page_encoding_stats();
        let is_first_version = |kinds: &Vec<PageEncodingStats>| {
            kinds
                .iter()
                .all(|kind| kind.page_type != PageType::DATA_PAGE_V2)
        };
        column.column_descr().max_rep_level() == 0 && kinds.is_some_and(is_first_version)
    })
}

/// The pieces of a row group that are wanted. Of pages that have none, nothing but headers is read.
fn selection_of(pieces: &[Piece]) -> RowSelection {
    let selectors = pieces.iter().map(|piece| match piece.wanted {
        true => RowSelector::select(piece.rows),
        false => RowSelector::skip(piece.rows),
    });
    selectors.collect::<Vec<_>>().into()
}

fn fewer_rows() -> Error {
    Error::corrupt("it has fewer rows than it says")
}

/// The record batches of Parquet files, with the columns that their directories say.
pub(crate) type Rows = Partitioned<Files>;

/// The record batches of Parquet files. Texts and bytes are views while they are in memory.
pub(crate) struct Files;

impl ColumnFormat for Files {
    type File = ArrowReaderMetadata;

    fn open(part: &Part, _: &SchemaRef) -> Result<ArrowReaderMetadata> {
        metadata(part)
    }

    fn schema(file: &ArrowReaderMetadata) -> SchemaRef {
        file.schema().clone()
    }

    fn schema_in_memory(file: &ArrowReaderMetadata) -> Result<SchemaRef> {
        Ok(as_views(file)?.schema().clone())
    }

    fn wrong(reason: String) -> Error {
        wrong(reason)
    }

    fn scan(
        part: &Part,
        file: ArrowReaderMetadata,
        roots: Vec<usize>,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        check_columns(part, &file, &roots)?;
        let metadata = as_views(&file)?;
        for (i, group) in metadata.metadata().row_groups().iter().enumerate() {
            let mut batches = Batches::new(GroupRows {
                part,
                metadata: &metadata,
                group: i,
                roots: roots.clone(),
                selection: None,
            })?;
            let mut rows = 0;
            while let Some(batch) = batches.next()? {
                rows += batch.num_rows() as i64;
                each(batch)?;
            }
            // The second pass goes by what the file says.
            if rows != group.num_rows() {
                return Err(Error::corrupt(
                    "a row group has not as many rows as it says",
                ));
            }
        }
        Ok(())
    }

    fn select(
        part: &Part,
        file: ArrowReaderMetadata,
        roots: &[usize],
        rows: &mut Selection<'_>,
        each: &mut dyn FnMut(&RecordBatch, &mut Selection<'_>) -> Result<()>,
    ) -> Result<()> {
        let metadata = as_views(&file)?;
        let mut pieces = pieces(&metadata, rows.clone())?;
        if part.is_object() {
            // What is asked for tells a store, and whoever counts bytes on the way, which rows are wanted.
            pieces.iter_mut().for_each(|piece| piece.wanted = true);
        }
        for pieces in pieces.chunk_by(|a, b| a.group == b.group) {
            if !pieces.iter().any(|piece| piece.wanted) {
                rows.mask(pieces.iter().map(|piece| piece.rows).sum())?;
                continue;
            }
            let mut batches = Batches::new(GroupRows {
                part,
                metadata: &metadata,
                group: pieces[0].group,
                roots: roots.to_vec(),
                selection: Some(selection_of(pieces)),
            })?;
            let mut batch = None;
            for piece in pieces {
                if !piece.wanted {
                    rows.mask(piece.rows)?;
                    continue;
                }
                let mut left = piece.rows;
                while left > 0 {
                    // What the last piece left of a batch, or the next one.
                    let next = match batch.take() {
                        None => batches.next()?.ok_or_else(fewer_rows)?,
                        Some(rest) => rest,
                    };
                    let here = left.min(next.num_rows());
                    each(&next.slice(0, here), rows)?;
                    left -= here;
                    let rest = next.num_rows() - here;
                    batch = (rest > 0).then(|| next.slice(here, rest));
                }
            }
        }
        Ok(())
    }

    fn rehearse(part: &Part, file: &ArrowReaderMetadata, roots: &[usize]) -> Result<()> {
        check_columns(part, file, &[])?;
        let metadata = as_views(file)?;
        let Some(group) = metadata.metadata().row_groups().first() else {
            return Ok(());
        };
        let bytes = u64::try_from(group.compressed_size()).unwrap_or(0);
        // Of a file no more is read than the first pages, of an object all of it.
        if group.num_rows() == 0 || (part.is_object() && bytes > MAX_REHEARSED) {
            return Ok(());
        }
        let first = GroupRows {
            part,
            metadata: &metadata,
            group: 0,
            roots: roots.to_vec(),
            selection: Some(vec![RowSelector::select(1)].into()),
        };
        first.readers(1)?.next().map(drop)
    }

    fn most_of_row(_: &Part, file: &ArrowReaderMetadata) -> u64 {
        let columns = 0..file.parquet_schema().num_columns();
        let most_of = |column: usize| {
            let groups = file.metadata().row_groups().iter();
            let most = groups.map(|group| {
                let chunk = group.column(column);
                let bytes = u64::try_from(chunk.uncompressed_size()).unwrap_or(u64::MAX);
                // A value is on a page, or in the dictionary, which many of one row may refer to.
                match chunk.column_descr().max_rep_level() {
                    0 => bytes,
                    _ => {
                        bytes.saturating_mul(u64::try_from(chunk.num_values()).unwrap_or(u64::MAX))
                    }
                }
            });
            most.max().unwrap_or(0)
        };
        columns.map(most_of).fold(0, u64::saturating_add)
    }

    /// With the schema, metadata and compression of the first file; rows of another format are compressed by Zstandard.
    fn writer<'w>(
        first: Option<&ArrowReaderMetadata>,
        rows: &Written<'_>,
        out: &'w mut WriterWithCause<'_>,
    ) -> Result<Box<dyn RowWriter + 'w>> {
        let options = match first {
            Some(first) => writer_options(first.metadata(), rows)?,
            None => ArrowWriterOptions::new().with_properties(
                WriterProperties::builder()
                    .set_compression(Compression::ZSTD(ZstdLevel::default()))
                    .build(),
            ),
        };
        let failure = out.failure();
        let schema = rows.schema.clone();
        let to = failure.watch(|| RowGroups::new(out, schema, options))?;
        Ok(Box::new(Writer {
            to,
            failure,
            own: (0..rows.from.len())
                .filter(|column| rows.from[*column].is_some())
                .collect(),
            most: rows.part.most_at_once(),
        }))
    }
}

struct Writer<W: Write + Send> {
    to: RowGroups<W>,
    failure: Failure,
    /// The columns of this side, and the bytes that a row of them may have: the writer copies every value, however many share
    /// its memory. What the peer adds is bounded already, and known only where its row matches.
    own: Vec<usize>,
    most: u64,
}

impl<W: Write + Send> RowWriter for Writer<W> {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let own = self.failure.watch(|| rows.project(&self.own))?;
        columnar::check_bytes(&own, self.most)?;
        self.failure.watch(|| self.to.write(rows))
    }

    fn rehearse(&mut self, none: &RecordBatch) -> Result<()> {
        self.failure.watch(|| self.to.rehearse(none))
    }

    fn finish(&mut self) -> Result<()> {
        self.failure.watch(|| self.to.finish())
    }
}

const ARROW_SCHEMA: &str = "ARROW:schema";

/// The schema in Spark's own words, which it believes rather than the file's.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The schema, metadata and compression of `source`, with the columns of the result.
fn writer_options(source: &ParquetMetaData, rows: &Written<'_>) -> Result<ArrowWriterOptions> {
    let file = source.file_metadata();
    let schema = file.schema_descr();
    let all = 0..schema.root_schema().get_fields().len();
    let is_whole = rows.from.iter().copied().eq(all.map(Some));
    let mut entries = file.key_value_metadata().cloned().unwrap_or_default();
    if !is_whole {
        entries.retain_mut(|entry| match entry.key.as_str() {
            SPARK_SCHEMA => false,
            ARROW_SCHEMA => {
                entry.value = entry
                    .value
                    .as_deref()
                    .and_then(|old| with_columns_of(old, rows));
                entry.value.is_some()
            }
            _ => true,
        });
    }
    let codec = source
        .row_groups()
        .first()
        .and_then(|g| g.columns().first());
    let properties = WriterProperties::builder()
        .set_compression(codec.map_or(Compression::UNCOMPRESSED, |c| c.compression()))
        .set_key_value_metadata((!entries.is_empty()).then_some(entries))
        .build();
    // The embedded Arrow schema is copied like other metadata. One derived from the reader's types would lose
    // what the reader has no hint for, such as the zone of a timestamp in seconds.
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    // The file's own schema keeps what Arrow has no word for, such as UUID and JSON columns and field numbers.
    let schema = match is_whole {
        true => schema.clone(),
        false => call(|| with_columns(schema, rows))?,
    };
    let own = options.clone().with_parquet_schema(schema);
    Ok(match can_write(&rows.schema, own.clone()) {
        true => own,
        false => options,
    })
}

/// Whether the library writes columns of these types with such options. It reads some types of a file's own schema that it
/// does not write: the long deprecated INT96 timestamps, which come out as timestamps of the unit in which they are read,
/// decimals in any number of bytes, and types that are newer than it.
fn can_write(schema: &SchemaRef, options: ArrowWriterOptions) -> bool {
    let none = RecordBatch::new_empty(schema.clone());
    let write = || RowGroups::new(io::sink(), schema.clone(), options)?.rehearse(&none);
    catching(write).is_ok_and(|written| written.is_ok())
}

/// The columns of the result, of which the file's are as its schema says.
fn with_columns(schema: &SchemaDescriptor, rows: &Written<'_>) -> ParquetResult<SchemaDescriptor> {
    let root = schema.root_schema();
    let ours = ArrowSchemaConverter::new().convert(&added_fields(rows))?;
    let mut added = ours.root_schema().get_fields().iter();
    let columns = rows.from.iter().filter_map(|from| match from {
        Some(column) => root.get_fields().get(*column).cloned(),
        None => added.next().cloned(),
    });
    let root = Type::group_type_builder(root.name())
        .with_fields(columns.collect())
        .build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// The columns of the result that are not the file's.
fn added_fields(rows: &Written<'_>) -> Schema {
    let fields = rows.schema.fields().iter().zip(rows.from);
    let added = fields.filter(|(_, from)| from.is_none());
    Schema::new(added.map(|(field, _)| field.clone()).collect::<Vec<_>>())
}

/// An embedded Arrow schema with the columns of the result; `None` if it cannot be read.
fn with_columns_of(embedded: &str, rows: &Written<'_>) -> Option<String> {
    let message = decode_schema(embedded)?;
    let message = root_as_message(&message).ok()?;
    let schema = message.header_as_schema()?;
    let schema = catching(|| try_fb_to_schema(schema)).ok()?.ok()?;
    let fields = rows.schema.fields().iter().zip(rows.from);
    let fields = fields.map(|(field, from)| match from {
        Some(column) => schema.fields().get(*column).cloned(),
        None => Some(field.clone()),
    });
    let fields: Vec<_> = fields.collect::<Option<_>>()?;
    let schema = Schema::new_with_metadata(fields, schema.metadata().clone());
    Some(encode_arrow_schema(&schema))
}

/// The message in the text of an embedded Arrow schema.
fn decode_schema(embedded: &str) -> Option<Vec<u8>> {
    let message = BASE64_STANDARD.decode(embedded).ok()?;
    let skipped = if message.starts_with(ARROW_STREAM_START) {
        8
    } else {
        0
    };
    message.get(skipped..).map(<[u8]>::to_vec)
}
