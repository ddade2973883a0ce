//! Formats of record batches: Parquet and Arrow files, and tables in memory. Key columns become values here, and selected
//! rows keep their types.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, GenericListViewArray, OffsetSizeTrait, RecordBatch,
    RecordBatchOptions, StringArray,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use arrow_select::filter::filter_record_batch;
use arrow_select::take::take_record_batch;
use std::fmt::{Debug, Display, Write};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use vesica_files::catching;

use super::fields::{
    FieldPath, Projection, check_each_once, chosen_fields, find_field, find_fields, has_text,
    is_indexed, projection,
};
use crate::decimal::write_decimal;
use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::formats::container::Container;
use crate::formats::items::{Found, ItemSink, Items};
use crate::formats::limits::Limits;
use crate::formats::parallel::in_parallel;
use crate::formats::selection::{
    Added, AddedKind, Batches, Selection, Take, WriterWithCause, passes,
};
use crate::formats::sink::{At, Facts, Sink};
use crate::profile::canonical::{Element, Row, Value};
use crate::profile::render::{self, Kind, MS, NS, US};
use crate::source::options::ResultRows;
use crate::source::part::Part;
use crate::types::columns::Columns;
use crate::types::columns_read::ColumnsRead;
use crate::types::common_type::{
    cast, cast_columns, for_parquet, is_in_parquet, may_refuse, without_dictionaries,
};
use crate::types::peer_columns::PeerColumn;

/// A schema with columns more.
pub(crate) fn with_fields(schema: &Schema, added: &[Added<'_>]) -> Schema {
    let more = added.iter().map(|column| {
        let (data_type, nullable) = match column.kind {
            AddedKind::Truth => (DataType::Boolean, false),
            AddedKind::Number => (DataType::Int64, false),
            AddedKind::Name => (DataType::Utf8, true),
            AddedKind::OfPeer(of) => (of.data_type().clone(), true),
        };
        Arc::new(Field::new(&*column.name, data_type, nullable))
    });
    let fields: Vec<_> = schema.fields().iter().cloned().chain(more).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

/// The schema of a result: these columns of the files, and those that are added.
fn result_schema(own: SchemaRef, chosen: &[usize], added: &[Added<'_>]) -> Result<SchemaRef> {
    let is_whole = chosen.iter().copied().eq(0..own.fields().len());
    let own = match is_whole {
        true => own,
        false => projected(&own, chosen)?,
    };
    Ok(match added {
        [] => own,
        added => Arc::new(with_fields(&own, added)),
    })
}

fn projected(schema: &Schema, columns: &[usize]) -> Result<SchemaRef> {
    let schema = schema.project(columns).map(Arc::new);
    schema.map_err(|e| Error::corrupt(e.to_string()))
}

/// The columns of a table that a result has.
#[cfg(feature = "adbc")]
pub(crate) fn with_chosen(schema: &Schema, chosen: &[String]) -> Result<SchemaRef> {
    projected(schema, &chosen_fields(schema.fields(), chosen)?)
}

/// A format of record batches.
pub(crate) trait ColumnFormat {
    /// What is known of a file before its rows are read.
    type File;

    /// The columns of a text, which itself does not say what it has; none of other files, which do.
    fn texts(_parts: &[Part]) -> Result<SchemaRef> {
        Ok(Arc::new(Schema::empty()))
    }

    /// Opens a file, and checks what it claims against its size. A text has the columns `texts`.
    fn open(part: &Part, texts: &SchemaRef) -> Result<Self::File>;

    /// The schema of a file.
    fn schema(file: &Self::File) -> SchemaRef;

    /// The schema of rows as [`ColumnFormat::select`] reads them.
    fn schema_in_memory(file: &Self::File) -> Result<SchemaRef> {
        Ok(Self::schema(file))
    }

    /// How many columns of a file are its own: those before the others.
    fn own_columns(file: &Self::File) -> usize {
        Self::schema(file).fields().len()
    }

    /// An error that a reader told of in words, or panicked with.
    fn wrong(reason: String) -> Error {
        Error::corrupt(reason)
    }

    /// Hands the columns `roots` of all rows to `each`.
    fn scan(
        part: &Part,
        file: Self::File,
        roots: Vec<usize>,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()>;

    /// Hands the columns `roots`, which ascend, of rows to `each`, at least of all that are selected, and takes the others off
    /// `rows` by itself.
    fn select(
        part: &Part,
        file: Self::File,
        roots: &[usize],
        rows: &mut Selection<'_>,
        each: &mut dyn FnMut(&RecordBatch, &mut Selection<'_>) -> Result<()>,
    ) -> Result<()>;

    /// Reads the first rows with the columns `roots`, as [`ColumnFormat::select`] does, unless they are very many bytes: so it is
    /// known early that the library cannot read a column that is no key.
    fn rehearse(part: &Part, file: &Self::File, roots: &[usize]) -> Result<()>;

    /// Bytes that a row has at most, as [`bytes_of_rows`] counts them; more than it can have where only its values tell.
    fn most_of_row(part: &Part, file: &Self::File) -> u64;

    /// A writer of rows, with what `first` has besides its schema if that is of this format.
    fn writer<'w>(
        first: Option<&Self::File>,
        rows: &Written<'_>,
        out: &'w mut WriterWithCause<'_>,
    ) -> Result<Box<dyn RowWriter + 'w>>;
}

/// What is to be written.
#[cfg_attr(
    not(feature = "parquet"),
    allow(
        dead_code,
        reason = "Arrow takes nothing but the schema and the container"
    )
)]
pub(crate) struct Written<'a> {
    /// The first file.
    pub(crate) part: &'a Part,
    pub(crate) schema: SchemaRef,
    /// Which column of the first file each is, if it is one of its own.
    pub(crate) from: &'a [Option<usize>],
    pub(crate) container: &'a Container,
}

/// Writes rows of a result.
pub(crate) trait RowWriter {
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;

    /// Writes no rows, given as a batch of none, and what comes after them: meets whatever is wrong with their types.
    fn rehearse(&mut self, none: &RecordBatch) -> Result<()> {
        self.write(none)?;
        self.finish()
    }

    /// Writes what comes after the rows.
    fn finish(&mut self) -> Result<()>;
}

pub(super) fn scan<F: ColumnFormat, S: Sink>(
    part: &Part,
    wanted: ColumnsRead<'_>,
    sink: &mut S,
    facts: &mut Facts,
) -> Result<()> {
    let file = F::open(part, &Arc::new(Schema::empty()))?;
    let schema = F::schema(&file);
    facts.columns.schema(part.name(), &schema)?;
    let found = find_fields(schema.fields(), wanted)?;
    let (roots, paths) = projection(&found);
    let first_text = wanted.first_text();
    let places = Places { paths, first_text };
    if !S::ITEMS_SUFFICE || rayon::current_num_threads() == 1 {
        return F::scan(part, file, roots, &mut |batch| {
            catching(|| scan_batch(&batch, &places, facts, sink)).map_err(F::wrong)?
        });
    }
    // All threads make items of batches.
    let found = |batch: &RecordBatch| {
        let scan = |facts: &mut Facts, sink: &mut ItemSink<'_, Items>| {
            scan_batch(batch, &places, facts, sink)
        };
        catching(|| Found::of(wanted, scan).ok()).ok().flatten()
    };
    in_parallel(
        BYTES_ABREAST * rayon::current_num_threads(),
        |each| {
            F::scan(part, file, roots, &mut |batch| {
                let bytes = batch.get_array_memory_size();
                each(batch, bytes)
            })
        },
        found,
        |batch, found| match found {
            Some(found) => found.hand_to(facts, sink),
            // Something is wrong with it; in its place, the error says where.
            None => catching(|| scan_batch(&batch, &places, facts, sink)).map_err(F::wrong)?,
        },
    )?
}

/// Bytes of rows that are read to see that they can be.
pub(super) const MAX_REHEARSED: u64 = 64 << 20;

/// Bytes of batches that are read side by side, for each thread.
const BYTES_ABREAST: usize = 4 << 20;

fn open_first<F: ColumnFormat>(parts: &[Part], texts: &SchemaRef) -> Result<F::File> {
    F::open(&parts[0], texts).map_err(|e| parts[0].named(e))
}

/// The columns of the first file that a result of `rows` has, and those that it has besides.
fn added<'a, F: ColumnFormat>(
    first: &F::File,
    rows: &Selection<'a>,
) -> Result<(Vec<usize>, Vec<Added<'a>>)> {
    let first = F::schema(first);
    let added = rows.added(|name| first.column_with_name(name).is_some());
    Ok((chosen_fields(first.fields(), rows.columns())?, added?))
}

/// The columns of a result.
struct ResultColumns {
    /// Which column of the first file each is, if it is one of its own.
    from: Vec<Option<usize>>,
    /// Those of the files.
    own: Projection,
    /// All of them as they are read, and as they are written.
    in_memory: SchemaRef,
    written: SchemaRef,
    /// Whether format and columns are those of the first file, whose metadata and compression the result has then too.
    as_first: bool,
}

impl ResultColumns {
    /// Of rows of these files in a container, with the chosen columns and those that are added.
    fn of<F: ColumnFormat>(
        parts: &[Part],
        first: &F::File,
        (chosen, added): (Vec<usize>, Vec<Added<'_>>),
        container: &Container,
    ) -> Result<ResultColumns> {
        let texts = &container.columns;
        let mut common = common_schema::<F>(parts, first, texts)?;
        let is_same = container.is_of(&parts[0]);
        let is_arrow_file = container.format == Format::Arrow && !container.is_arrow_stream;
        let changed = match container.format {
            Format::Arrow if is_arrow_file && (!is_same || parts.len() > 1) => {
                without_dictionaries(&common)
            }
            Format::Parquet if !is_same || common != F::schema(first) => for_parquet(&common),
            _ => Schema::clone(&common),
        };
        if changed != *common {
            common = Arc::new(changed);
        }
        let in_memory = schema_in_memory::<F>(first, &common)?;
        let as_first = is_same && common == F::schema(first);
        let written = if as_first { in_memory.clone() } else { common };
        let own = F::own_columns(first);
        let of_files = chosen
            .iter()
            .map(|column| (*column < own).then_some(*column));
        Ok(ResultColumns {
            in_memory: result_schema(in_memory, &chosen, &added)?,
            written: result_schema(written, &chosen, &added)?,
            from: of_files.chain(added.iter().map(|_| None)).collect(),
            own: Projection::of(chosen.iter().copied()),
            as_first,
        })
    }

    /// What rows go to.
    fn writer<'w, F: ColumnFormat>(
        &self,
        parts: &[Part],
        first: &F::File,
        container: &Container,
        out: &'w mut WriterWithCause<'_>,
    ) -> Result<Box<dyn RowWriter + 'w>> {
        let written = Written {
            part: &parts[0],
            schema: self.written.clone(),
            from: &self.from,
            container,
        };
        match self.as_first {
            true => F::writer(Some(first), &written, out),
            false => container.format.writer(&written, out),
        }
    }

    /// Rows as they are written.
    fn cast(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        match self.as_first {
            true => Ok(rows.clone()),
            false => cast(rows, &self.written),
        }
    }
}

/// Writes the selected rows in the format of the container, with the schema of all files. If that is the one of the first,
/// and of the same format, with its metadata and compression too.
pub(super) fn copy<F: ColumnFormat>(
    parts: &[Part],
    mut rows: Selection<'_>,
    container: &Container,
    out: &mut WriterWithCause<'_>,
) -> Result<u64> {
    let texts = &container.columns;
    let first = open_first::<F>(parts, texts)?;
    let columns = ResultColumns::of::<F>(parts, &first, added::<F>(&first, &rows)?, container)?;
    let mut writer = columns.writer::<F>(parts, &first, container, out)?;
    let to = (&columns.own, &columns.in_memory);
    selected::<F>(parts, texts, to, &mut rows, |rows| {
        writer.write(&columns.cast(rows)?)
    })?;
    writer.finish()?;
    Ok(rows.written())
}

/// Does what [`copy`] does, with no rows, so that what makes a result impossible is known early.
pub(super) fn rehearse<F: ColumnFormat>(
    parts: &[Part],
    rows: ResultRows<'_>,
    of_peer: &[PeerColumn],
    container: &Container,
) -> Result<()> {
    let first = open_first::<F>(parts, &container.columns)?;
    let own = F::schema(&first);
    let chosen = chosen_fields(own.fields(), rows.columns)?;
    let roots = Projection::of(chosen.iter().copied()).roots;
    F::rehearse(&parts[0], &first, &roots).map_err(|e| parts[0].named(e))?;
    let added = Added::all(rows, of_peer, |name| own.column_with_name(name).is_some());
    let columns = ResultColumns::of::<F>(parts, &first, (chosen, added?), container)?;
    let none = RecordBatch::new_empty(columns.in_memory.clone());
    let none = columns.cast(&none)?;
    let mut nowhere = io::sink();
    let mut out = WriterWithCause::new(&mut nowhere);
    let writer = columns.writer::<F>(parts, &first, container, &mut out);
    let written = writer.and_then(|mut writer| writer.rehearse(&none));
    written.map_err(|error| {
        let fields = columns.written.fields().iter();
        let cannot = |field: &&FieldRef| !can_write(field, &parts[0], container);
        match fields.into_iter().find(cannot) {
            Some(field) => not_in_format(field, container.format),
            None => error,
        }
    })
}

/// Looks at the values of all rows, in columns in which a result may have no room for some, so that whether it can be
/// written does not depend on which rows match.
pub(super) fn check<F: ColumnFormat>(
    parts: &[Part],
    rows: ResultRows<'_>,
    container: &Container,
    limits: &dyn Limits,
) -> Result<()> {
    let texts = &container.columns;
    let first = open_first::<F>(parts, texts)?;
    let chosen = chosen_fields(F::schema(&first).fields(), rows.columns)?;
    let columns = ResultColumns::of::<F>(parts, &first, (chosen.clone(), Vec::new()), container)?;
    let most = match container.format {
        Format::Parquet => parts[0].most_at_once(),
        _ => u64::MAX,
    };
    let fields = columns.written.fields();
    let mut wanted: Vec<bool> = fields
        .iter()
        .map(|field| limits.concerns(field.data_type()))
        .collect();
    for part in parts {
        let file = F::open(part, texts).map_err(|e| part.named(e))?;
        let has_long_rows = most < u64::MAX && F::most_of_row(part, &file) > most;
        let of_file = F::schema(&file);
        for ((wanted, from), to) in wanted.iter_mut().zip(&chosen).zip(fields) {
            let from = of_file.field(*from).data_type();
            *wanted |= has_long_rows || may_refuse(from, to.data_type());
        }
    }
    let wanted: Vec<usize> = (0..wanted.len()).filter(|column| wanted[*column]).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let in_memory = projected(&columns.in_memory, &wanted)?;
    let written = projected(&columns.written, &wanted)?;
    let read = Projection::of(wanted.iter().map(|column| chosen[*column]));
    for part in parts {
        let mut each = |rows: RecordBatch| {
            let rows = cast(&cast(&read.project(&rows)?, &in_memory)?, &written)?;
            check_bytes(&rows, most)?;
            catching(|| limits.check(&rows)).map_err(F::wrong)?
        };
        let checks = || F::scan(part, F::open(part, texts)?, read.roots.clone(), &mut each);
        part.unchanged(checks).map_err(|e| part.named(e))?;
    }
    Ok(())
}

/// Refuses rows of more bytes, each by itself.
pub(super) fn check_bytes(rows: &RecordBatch, limit: u64) -> Result<()> {
    if limit == u64::MAX {
        return Ok(());
    }
    let bytes = bytes_of_rows(rows).into_iter().max().unwrap_or(0) as u64;
    let what = "a row";
    match bytes > limit {
        true => Err(Error::new(ErrorKind::TooLarge { what, bytes, limit })),
        false => Ok(()),
    }
}

/// Whether the library writes a column of this type.
fn can_write(field: &FieldRef, part: &Part, container: &Container) -> bool {
    let schema = Arc::new(Schema::new(vec![field.clone()]));
    let written = Written {
        part,
        schema: schema.clone(),
        from: &[Some(0)],
        container,
    };
    let mut nowhere = io::sink();
    let mut out = WriterWithCause::new(&mut nowhere);
    let writer = container.format.writer(&written, &mut out);
    writer.is_ok_and(|mut writer| writer.rehearse(&RecordBatch::new_empty(schema)).is_ok())
}

fn not_in_format(field: &FieldRef, format: Format) -> Error {
    let found = field.data_type().to_string();
    let format = format.name();
    Error::new(ErrorKind::NotInFormat { found, format }).in_column(field.name())
}

/// The columns, if the format `to` has room for each of the chosen ones.
pub(super) fn columns<F: ColumnFormat>(
    parts: &[Part],
    to: Format,
    chosen: &[String],
) -> Result<SchemaRef> {
    let texts = F::texts(parts)?;
    let schema = common_schema::<F>(parts, &open_first::<F>(parts, &texts)?, &texts)?;
    let chosen = projected(&schema, &chosen_fields(schema.fields(), chosen)?)?;
    let fields = chosen.fields();
    if to.is_text() {
        let names: Vec<_> = fields.iter().map(|field| field.name().clone()).collect();
        check_each_once(&names)?;
    }
    let has_room = |field: &&FieldRef| match to {
        Format::Arrow => true,
        Format::Parquet => is_in_parquet(field.data_type()),
        _ => has_text(field.data_type()),
    };
    if let Some(field) = fields.iter().find(|field| !has_room(field)) {
        return Err(not_in_format(field, to));
    }
    Ok(schema)
}

/// The types of the columns of these names, text of those that the files lack.
pub(super) fn types<F: ColumnFormat>(parts: &[Part], names: &[String]) -> Result<Vec<DataType>> {
    let texts = F::texts(parts)?;
    let schema = common_schema::<F>(parts, &open_first::<F>(parts, &texts)?, &texts)?;
    let of = |name: &String| match find_field(schema.fields(), name) {
        Ok(Some((_, field))) => field.data_type().clone(),
        _ => DataType::Utf8,
    };
    Ok(names.iter().map(of).collect())
}

/// The selected rows as record batches, and their schema.
pub(super) fn select<F: ColumnFormat>(
    parts: &[Part],
    mut rows: Selection<'_>,
) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    let texts = &F::texts(parts)?;
    let first = open_first::<F>(parts, texts)?;
    let (chosen, added) = added::<F>(&first, &rows)?;
    let common = common_schema::<F>(parts, &first, texts)?;
    let in_memory = result_schema(schema_in_memory::<F>(&first, &common)?, &chosen, &added)?;
    let schema = result_schema(common, &chosen, &added)?;
    let mut all = Vec::new();
    let own = Projection::of(chosen.iter().copied());
    selected::<F>(parts, texts, (&own, &in_memory), &mut rows, |rows| {
        all.push(cast(rows, &schema)?);
        Ok(())
    })?;
    Ok((schema, all))
}

/// The schema of rows while they are selected: as the files are read, unless they differ.
fn schema_in_memory<F: ColumnFormat>(first: &F::File, common: &SchemaRef) -> Result<SchemaRef> {
    match *common == F::schema(first) {
        true => F::schema_in_memory(first),
        false => Ok(common.clone()),
    }
}

/// The schema that holds the rows of all files.
fn common_schema<F: ColumnFormat>(
    parts: &[Part],
    first: &F::File,
    texts: &SchemaRef,
) -> Result<SchemaRef> {
    let schema = F::schema(first);
    let mut columns = Columns::default();
    columns.schema(parts[0].name(), &schema)?;
    for part in &parts[1..] {
        let more = F::open(part, texts);
        let more = more.and_then(|file| columns.schema(part.name(), &F::schema(&file)));
        more.map_err(|e| part.named(e))?;
    }
    Ok(match columns {
        // As long as they are the same, with all that the first has.
        Columns::Schema(_, common) if *common != *schema => common,
        _ => schema,
    })
}

/// A writer of rows that come from files of another format.
pub(super) fn writer<'w, F: ColumnFormat>(
    rows: &Written<'_>,
    out: &'w mut WriterWithCause<'_>,
) -> Result<Box<dyn RowWriter + 'w>> {
    F::writer(None, rows, out)
}

/// Hands the selected rows to `take`, with these columns of the files and under the schema of the result.
fn selected<F: ColumnFormat>(
    parts: &[Part],
    texts: &SchemaRef,
    to: (&Projection, &SchemaRef),
    rows: &mut Selection<'_>,
    take: impl FnMut(&RecordBatch) -> Result<()>,
) -> Result<()> {
    passes::<Batches>(parts, rows, take, |part, rows, take| {
        let file = F::open(part, texts)?;
        F::select(part, file, &to.0.roots, rows, &mut |batch, rows| {
            selected_of(batch, to, rows, take)
        })
    })
}

/// Bytes of rows that are taken at once.
const BYTES_AT_ONCE: usize = 8 << 20;

/// Bytes of each row by itself, as a writer may copy them: rows that share a value in memory have one each.
pub(crate) fn bytes_of_rows(batch: &RecordBatch) -> Vec<usize> {
    let mut bytes = vec![0; batch.num_rows()];
    batch
        .columns()
        .iter()
        .for_each(|column| add_bytes(column, &mut bytes));
    bytes
}

/// Adds the bytes of each row of an array; of types that none of these are, all rows have the same.
fn add_bytes(array: &ArrayRef, bytes: &mut [usize]) {
    fn add_lengths<O: OffsetSizeTrait>(offsets: &[O], bytes: &mut [usize]) {
        for (bytes, ends) in bytes.iter_mut().zip(offsets.windows(2)) {
            *bytes += ends[1].as_usize() - ends[0].as_usize();
        }
    }
    fn add_values(
        values: &ArrayRef,
        ranges: impl Iterator<Item = Range<usize>>,
        bytes: &mut [usize],
    ) {
        let mut of_values = vec![0; values.len()];
        add_bytes(values, &mut of_values);
        for (bytes, range) in bytes.iter_mut().zip(ranges) {
            // Views may overlap, and lists of them multiply.
            *bytes = of_values[range]
                .iter()
                .fold(*bytes, |sum, of| sum.saturating_add(*of));
        }
    }
    fn add_lists<O: OffsetSizeTrait>(values: &ArrayRef, offsets: &[O], bytes: &mut [usize]) {
        let ranges = offsets.windows(2);
        let ranges = ranges.map(|ends| ends[0].as_usize()..ends[1].as_usize());
        add_values(values, ranges, bytes);
    }
    fn add_list_views<O: OffsetSizeTrait>(lists: &GenericListViewArray<O>, bytes: &mut [usize]) {
        let ranges = lists.offsets().iter().zip(lists.sizes().iter());
        let ranges = ranges.map(|(start, size)| {
            let start = start.as_usize();
            start..start + size.as_usize()
        });
        add_values(lists.values(), ranges, bytes);
    }
    fn add_views(views: &[u128], bytes: &mut [usize]) {
        for (bytes, view) in bytes.iter_mut().zip(views) {
            // The lower half of a view begins with the length.
            *bytes = bytes.saturating_add(*view as u32 as usize);
        }
    }
    match array.data_type() {
        DataType::Utf8 => add_lengths(array.as_string::<i32>().value_offsets(), bytes),
        DataType::LargeUtf8 => add_lengths(array.as_string::<i64>().value_offsets(), bytes),
        DataType::Binary => add_lengths(array.as_binary::<i32>().value_offsets(), bytes),
        DataType::LargeBinary => add_lengths(array.as_binary::<i64>().value_offsets(), bytes),
        DataType::Utf8View => add_views(array.as_string_view().views(), bytes),
        DataType::BinaryView => add_views(array.as_binary_view().views(), bytes),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let mut of_values = vec![0; dictionary.values().len()];
            add_bytes(dictionary.values(), &mut of_values);
            if !of_values.is_empty() {
                for (bytes, key) in bytes.iter_mut().zip(dictionary.normalized_keys()) {
                    *bytes += of_values[key];
                }
            }
        }
        DataType::Struct(_) => {
            let columns = array.as_struct().columns();
            columns.iter().for_each(|column| add_bytes(column, bytes));
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            add_lists(lists.values(), lists.value_offsets(), bytes);
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            add_lists(lists.values(), lists.value_offsets(), bytes);
        }
        DataType::ListView(_) => add_list_views(array.as_list_view::<i32>(), bytes),
        DataType::LargeListView(_) => add_list_views(array.as_list_view::<i64>(), bytes),
        DataType::FixedSizeList(_, length) => {
            let values = array.as_fixed_size_list().values();
            let length = *length as usize;
            add_values(
                values,
                (0..).map(|row| row * length..(row + 1) * length),
                bytes,
            );
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let entries: ArrayRef = Arc::new(map.entries().clone());
            add_lists(&entries, map.value_offsets(), bytes);
        }
        _ => {
            let all = array.to_data().get_slice_memory_size();
            let each = all.unwrap_or(0) / array.len().max(1);
            bytes.iter_mut().for_each(|bytes| *bytes += each);
        }
    }
}

/// Hands the selected rows of a batch to `take`, under the schema of the result, not too many at once. The batch may be
/// of another file than the first, or of a reader that leaves out metadata.
fn selected_of(
    batch: &RecordBatch,
    to: (&Projection, &SchemaRef),
    rows: &mut Selection<'_>,
    take: &mut Take<'_, RecordBatch>,
) -> Result<()> {
    let most = rows.rows_at_once();
    let bytes = bytes_of_rows(batch);
    let mut start = 0;
    while start < batch.num_rows() {
        let mut left = BYTES_AT_ONCE;
        let fits = |row_bytes: &&usize| {
            let fits = left >= **row_bytes;
            left = left.saturating_sub(**row_bytes);
            fits
        };
        let length = bytes[start..].iter().take_while(fits).count();
        let length = length.clamp(1, most);
        if let Some(kept) = selected_at_once(&batch.slice(start, length), to, rows)? {
            let numbered = rows.last_kept(kept.num_rows());
            take(&kept, numbered)?;
        }
        start += length;
    }
    Ok(())
}

/// The selected rows of a batch; `None` if there are none.
fn selected_at_once(
    batch: &RecordBatch,
    (own, schema): (&Projection, &SchemaRef),
    rows: &mut Selection<'_>,
) -> Result<Option<RecordBatch>> {
    let wrong = |e: ArrowError| Error::corrupt(e.to_string());
    let Some(mask) = rows.mask(batch.num_rows())? else {
        return Ok(None);
    };
    let places = rows.places(&mask)?;
    let kept = match rows.has_copies() {
        false => catching(|| filter_record_batch(batch, &mask)),
        true => catching(|| take_record_batch(batch, &places)),
    };
    let kept = kept.map_err(Error::corrupt)?.map_err(wrong)?;
    let options = RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
    let mut columns = cast_columns(&own.project(&kept)?, schema)?;
    columns.extend(rows.added_arrays(&mask, &places)?);
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
        .map(Some)
        .map_err(wrong)
}

/// Where the wanted columns are.
struct Places {
    paths: Vec<FieldPath>,
    /// The first one of texts.
    first_text: usize,
}

/// Passes the rows of a batch to `sink`; `facts` counts them over all batches.
fn scan_batch<S: Sink>(
    batch: &RecordBatch,
    places: &Places,
    facts: &mut Facts,
    sink: &mut S,
) -> Result<()> {
    let columns = (0..)
        .zip(&places.paths)
        .map(|(i, path)| {
            let array = batch.column(path.root);
            let floats = match i < places.first_text {
                true => Floats::Integers,
                false => Floats::Shortest,
            };
            match path.below.is_empty() && is_numeric_text(batch.schema_ref().field(path.root)) {
                true => Ok(Column::of_numeric_text(array)),
                false => Column::at(array, &path.below, floats),
            }
        })
        .collect::<Result<_>>()?;
    rows_of(columns, batch.num_rows(), |row| {
        facts.rows += 1;
        let at = At {
            row: facts.rows,
            line: None,
        };
        sink.row(at, row)
    })
}

/// Hands each of so many rows with these columns to `take`. Each column has a text.
pub(super) fn each_row(
    columns: &[ArrayRef],
    count: usize,
    take: impl FnMut(&KeyRow<'_>) -> Result<()>,
) -> Result<()> {
    let columns = columns.iter();
    let columns = columns.map(|array| Column::new(array, Floats::Shortest));
    rows_of(columns.collect::<Result<_>>()?, count, take)
}

/// Hands each of so many rows with these columns to `take`.
fn rows_of(
    columns: Vec<Column<'_>>,
    count: usize,
    mut take: impl FnMut(&KeyRow<'_>) -> Result<()>,
) -> Result<()> {
    let mut rows = KeyRow {
        rendered: vec![(None, String::new()); columns.len()],
        lists: vec![None; columns.len()],
        columns,
        row: 0,
    };
    for row in 0..count {
        rows.go_to(row);
        take(&rows)?;
    }
    Ok(())
}

/// Whether a column of text holds decimals: PostgreSQL's `numeric` has no bounds, and comes from its driver as text of
/// a type that says so.
pub(crate) fn is_numeric_text(field: &Field) -> bool {
    field.data_type() == &DataType::Utf8
        && field.extension_type_name() == Some("arrow.opaque")
        && field
            .extension_type_metadata()
            .is_some_and(|metadata| metadata.contains("\"numeric\""))
}

/// The values of one row of a batch.
pub(super) struct KeyRow<'a> {
    columns: Vec<Column<'a>>,
    /// The present row's typed values as text.
    rendered: Vec<(Option<Kind>, String)>,
    /// The present row's lists.
    lists: Vec<Option<Vec<Element>>>,
    row: usize,
}

impl KeyRow<'_> {
    fn go_to(&mut self, row: usize) {
        self.row = row;
        for (column, (kind, text)) in self.columns.iter().zip(&mut self.rendered) {
            text.clear();
            *kind = column.render(row, text);
        }
        for (column, list) in self.columns.iter().zip(&mut self.lists) {
            *list = column.elements(row);
        }
    }
}

impl Row for KeyRow<'_> {
    fn value(&self, column: usize) -> Value<'_> {
        match (&self.rendered[column], &self.lists[column]) {
            (_, Some(elements)) => Value::List(elements),
            ((Some(kind), text), None) => Value::Typed(*kind, text),
            ((None, _), None) => self.columns[column].plain(self.row),
        }
    }
}

type Plain<'a> = Box<dyn Fn(usize) -> Value<'a> + 'a>;
type Rendered<'a> = Box<dyn Fn(usize, &mut String) -> Kind + 'a>;

/// What floats become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floats {
    /// Integers, where they stand for one: as keys.
    Integers,
    /// The fewest digits that read back as the same float.
    Shortest,
}

/// A column of a batch.
struct Column<'a> {
    array: &'a ArrayRef,
    /// The structs that it is in; where one is null, so is it.
    structs: Vec<&'a ArrayRef>,
    values: Values<'a>,
}

enum Values<'a> {
    Null,
    /// Text or bytes.
    Plain(Plain<'a>),
    /// A type that is rendered as text.
    Typed(Rendered<'a>),
    /// Text of decimals, `NaN` and infinities.
    Numeric(&'a StringArray),
    /// Lists of values of another column.
    Lists {
        range: Box<dyn Fn(usize) -> Range<usize> + 'a>,
        values: Box<Column<'a>>,
    },
    /// Rows refer to the values of another column.
    Indexed {
        row_values: Vec<usize>,
        values: Box<Column<'a>>,
    },
}

impl<'a> Column<'a> {
    fn new(array: &'a ArrayRef, floats: Floats) -> Result<Self> {
        Ok(Column {
            array,
            structs: Vec::new(),
            values: values(array, floats)?,
        })
    }

    /// The column that is so deep in the structs of `array`.
    fn at(mut array: &'a ArrayRef, below: &[usize], floats: Floats) -> Result<Self> {
        let mut structs = Vec::new();
        for field in below {
            structs.push(array);
            array = array.as_struct().column(*field);
        }
        Ok(Column {
            structs,
            ..Column::new(array, floats)?
        })
    }

    fn of_numeric_text(array: &'a ArrayRef) -> Self {
        Column {
            array,
            structs: Vec::new(),
            values: Values::Numeric(array.as_string()),
        }
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row) || self.structs.iter().any(|s| s.is_null(row))
    }

    /// Appends the canonical text of a typed value; `None` for text, bytes and nulls.
    fn render(&self, row: usize, out: &mut String) -> Option<Kind> {
        match &self.values {
            _ if self.is_null(row) => None,
            Values::Typed(f) => Some(f(row, out)),
            Values::Numeric(texts) => {
                let text = texts.value(row);
                let is_number = text.ends_with(|c: char| c.is_ascii_digit());
                is_number.then(|| out.push_str(text))?;
                Some(Kind::Decimal)
            }
            Values::Indexed { row_values, values } => values.render(row_values[row], out),
            Values::Null | Values::Plain(_) | Values::Lists { .. } => None,
        }
    }

    /// The elements of a list; `None` if it is null, or no list.
    fn elements(&self, row: usize) -> Option<Vec<Element>> {
        let Values::Lists { range, values } = &self.values else {
            return None;
        };
        let mut text = String::new();
        let mut element = |row: usize| {
            text.clear();
            Element::of(match values.render(row, &mut text) {
                Some(kind) => Value::Typed(kind, &text),
                None => values.plain(row),
            })
        };
        (!self.is_null(row)).then(|| range(row).map(&mut element).collect())
    }

    /// A value that `render` does not handle.
    fn plain(&self, row: usize) -> Value<'a> {
        match &self.values {
            _ if self.is_null(row) => Value::Null,
            Values::Plain(f) => f(row),
            Values::Numeric(texts) => Value::Text(texts.value(row).as_bytes()),
            Values::Indexed { row_values, values } => values.plain(row_values[row]),
            Values::Null | Values::Typed(_) | Values::Lists { .. } => Value::Null,
        }
    }
}

/// The texts of a column whose values are typed, as keys have them.
#[cfg(feature = "adbc")]
pub(crate) fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    let column = Column::new(array, Floats::Shortest)?;
    let mut text = String::new();
    let texts = (0..array.len()).map(|row| {
        text.clear();
        column.render(row, &mut text).map(|_| text.clone())
    });
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// A column of numbers that `f` renders.
fn typed<'a, T: ArrowPrimitiveType>(
    array: &'a ArrayRef,
    f: impl Fn(T::Native, &mut String) -> Kind + 'a,
) -> Values<'a> {
    let array = array.as_primitive::<T>();
    Values::Typed(Box::new(move |row, out| f(array.value(row), out)))
}

/// A float in the fewest digits that read back as it, such as `0.1`, `7.0`, `5e-324` and `NaN`.
fn shortest(value: impl Debug, out: &mut String) -> Kind {
    let _ = write!(out, "{value:?}");
    Kind::Float
}

fn integers<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef) -> Values<'a>
where
    T::Native: Display,
{
    typed::<T>(array, |value, out| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{value}");
        Kind::Integer
    })
}

fn decimals<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef, scale: i8) -> Values<'a>
where
    T::Native: Display,
{
    typed::<T>(array, move |value, out| {
        write_decimal(&value.to_string(), scale, out);
        Kind::Decimal
    })
}

fn times<'a, T: ArrowPrimitiveType>(array: &'a ArrayRef, per_second: i64) -> Values<'a>
where
    T::Native: Into<i64>,
{
    typed::<T>(array, move |value, out| {
        let ticks: i64 = value.into();
        let nanos = ticks.rem_euclid(per_second) * (1_000_000_000 / per_second);
        render::time(ticks.div_euclid(per_second), nanos, out);
        Kind::Time
    })
}

fn timestamps<T: ArrowPrimitiveType<Native = i64>>(
    array: &ArrayRef,
    per_second: i64,
) -> Values<'_> {
    typed::<T>(array, move |ticks, out| {
        render::timestamp(ticks, per_second, out);
        Kind::Timestamp
    })
}

/// A column of runs of equal values.
fn runs<T: RunEndIndexType>(array: &ArrayRef, floats: Floats) -> Result<Values<'_>> {
    let runs = array.as_run::<T>();
    let row_values = (0..runs.len()).map(|row| runs.get_physical_index(row));
    Ok(Values::Indexed {
        row_values: row_values.collect(),
        values: Box::new(Column::new(runs.values(), floats)?),
    })
}

/// A column of lists.
fn lists<O: OffsetSizeTrait>(array: &ArrayRef, floats: Floats) -> Result<Values<'_>> {
    let lists = array.as_list::<O>();
    let offsets = lists.value_offsets();
    Ok(Values::Lists {
        range: Box::new(|row| offsets[row].as_usize()..offsets[row + 1].as_usize()),
        values: Box::new(Column::new(lists.values(), floats)?),
    })
}

fn values(array: &ArrayRef, floats: Floats) -> Result<Values<'_>> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Null => Values::Null,
        T::Utf8 => {
            let a = array.as_string::<i32>();
            Values::Plain(Box::new(|i| Value::Text(a.value(i).as_bytes())))
        }
        T::LargeUtf8 => {
            let a = array.as_string::<i64>();
            Values::Plain(Box::new(|i| Value::Text(a.value(i).as_bytes())))
        }
        T::Utf8View => {
            let a = array.as_string_view();
            Values::Plain(Box::new(|i| Value::Text(a.value(i).as_bytes())))
        }
        T::Binary => {
            let a = array.as_binary::<i32>();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::LargeBinary => {
            let a = array.as_binary::<i64>();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::BinaryView => {
            let a = array.as_binary_view();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::FixedSizeBinary(16) => {
            let a = array.as_fixed_size_binary();
            Values::Typed(Box::new(|i, out| {
                render::uuid(a.value(i), out);
                Kind::Uuid
            }))
        }
        T::FixedSizeBinary(_) => {
            let a = array.as_fixed_size_binary();
            Values::Plain(Box::new(|i| Value::Bytes(a.value(i))))
        }
        T::Float32 if floats == Floats::Shortest => typed::<Float32Type>(array, shortest),
        T::Float64 if floats == Floats::Shortest => typed::<Float64Type>(array, shortest),
        // From 2^24 and 2^53 on, not every integer has a float.
        T::Float32 => typed::<Float32Type>(array, |value, out| {
            render::float(value.into(), 16_777_216.0, out);
            Kind::Float
        }),
        T::Float64 => typed::<Float64Type>(array, |value, out| {
            render::float(value, 9_007_199_254_740_992.0, out);
            Kind::Float
        }),
        T::Boolean => {
            let a = array.as_boolean();
            Values::Typed(Box::new(|i, out| {
                out.push_str(if a.value(i) { "true" } else { "false" });
                Kind::Boolean
            }))
        }
        T::Int8 => integers::<Int8Type>(array),
        T::Int16 => integers::<Int16Type>(array),
        T::Int32 => integers::<Int32Type>(array),
        T::Int64 => integers::<Int64Type>(array),
        T::UInt8 => integers::<UInt8Type>(array),
        T::UInt16 => integers::<UInt16Type>(array),
        T::UInt32 => integers::<UInt32Type>(array),
        T::UInt64 => integers::<UInt64Type>(array),
        T::Decimal32(_, scale) => decimals::<Decimal32Type>(array, *scale),
        T::Decimal64(_, scale) => decimals::<Decimal64Type>(array, *scale),
        T::Decimal128(_, scale) => decimals::<Decimal128Type>(array, *scale),
        T::Decimal256(_, scale) => decimals::<Decimal256Type>(array, *scale),
        T::Date32 => typed::<Date32Type>(array, |days, out| {
            render::date(i64::from(days), out);
            Kind::Date
        }),
        T::Date64 => typed::<Date64Type>(array, |millis, out| {
            // The format asks for whole days. Some writers put instants here all the same, and
            // two of them must not become one.
            if millis % 86_400_000 == 0 {
                render::date(millis / 86_400_000, out);
                Kind::Date
            } else {
                render::timestamp(millis, MS, out);
                Kind::Timestamp
            }
        }),
        T::Time32(TimeUnit::Second) => times::<Time32SecondType>(array, 1),
        T::Time32(_) => times::<Time32MillisecondType>(array, MS),
        T::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(array, US),
        T::Time64(_) => times::<Time64NanosecondType>(array, NS),
        T::Timestamp(TimeUnit::Second, _) => timestamps::<TimestampSecondType>(array, 1),
        T::Timestamp(TimeUnit::Millisecond, _) => timestamps::<TimestampMillisecondType>(array, MS),
        T::Timestamp(TimeUnit::Microsecond, _) => timestamps::<TimestampMicrosecondType>(array, US),
        T::Timestamp(TimeUnit::Nanosecond, _) => timestamps::<TimestampNanosecondType>(array, NS),
        T::List(_) => lists::<i32>(array, floats)?,
        T::LargeList(_) => lists::<i64>(array, floats)?,
        T::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list();
            let length = lists.value_length() as usize;
            Values::Lists {
                range: Box::new(move |row| row * length..(row + 1) * length),
                values: Box::new(Column::new(lists.values(), floats)?),
            }
        }
        T::Dictionary(_, value_type) if !is_indexed(value_type) => {
            let dictionary = array.as_any_dictionary();
            if dictionary.values().is_empty() {
                Values::Null
            } else {
                let values = Box::new(Column::new(dictionary.values(), floats)?);
                Values::Indexed {
                    row_values: dictionary.normalized_keys(),
                    values,
                }
            }
        }
        T::RunEndEncoded(ends, value_type) if !is_indexed(value_type.data_type()) => {
            match ends.data_type() {
                T::Int16 => runs::<Int16Type>(array, floats)?,
                T::Int32 => runs::<Int32Type>(array, floats)?,
                _ => runs::<Int64Type>(array, floats)?,
            }
        }
        other => {
            return Err(Error::new(ErrorKind::KeyType {
                found: other.to_string(),
            }));
        }
    })
}
