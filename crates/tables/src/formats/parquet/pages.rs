//! The pages of a row group as the Parquet library asks for them, checked where it does not check them itself.

use std::sync::Arc;

use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::chunks::Chunks;
use super::deltas::has_long_prefix;

/// A row group, whose pages are in these bytes.
pub(super) struct Group<'a> {
    pub(super) metadata: &'a ParquetMetaData,
    pub(super) group: usize,
    pub(super) chunks: Arc<Chunks>,
}

impl Group<'_> {
    fn group(&self) -> &RowGroupMetaData {
        self.metadata.row_group(self.group)
    }
}

impl RowGroups for Group<'_> {
    fn num_rows(&self) -> usize {
        self.group().num_rows() as usize
    }

    fn column_chunks(&self, leaf: usize) -> Result<Box<dyn PageIterator>> {
        let column = self.group().column(leaf);
        let descriptor = column.column_descr();
        let pages = CheckedPages {
            pages: SerializedPageReader::new(self.chunks.clone(), column, self.num_rows(), None)?,
            levels: [descriptor.max_rep_level(), descriptor.max_def_level()],
        };
        Ok(Box::new(OneColumn(Some(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.group()))
    }

    fn metadata(&self) -> &ParquetMetaData {
        self.metadata
    }
}

/// The pages of a column in one row group.
struct OneColumn(Option<CheckedPages>);

impl Iterator for OneColumn {
    type Item = Result<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        let pages: Box<dyn PageReader> = Box::new(self.0.take()?);
        Some(Ok(pages))
    }
}

impl PageIterator for OneColumn {}

/// The pages of a column.
struct CheckedPages {
    pages: SerializedPageReader<Chunks>,
    /// The largest repetition and definition level.
    levels: [i16; 2],
}

impl CheckedPages {
    /// Refuses texts that begin with more of another than there is.
    fn check(&self, page: &Page) -> Result<()> {
        if page.encoding() != Encoding::DELTA_BYTE_ARRAY {
            return Ok(());
        }
        let values = match page {
            Page::DataPage {
                buf,
                num_values,
                rep_level_encoding,
                def_level_encoding,
                ..
            } => {
                let encodings = [*rep_level_encoding, *def_level_encoding];
                let mut levels = self.levels.into_iter().zip(encodings);
                levels.try_fold(&buf[..], |bytes, (most, encoding)| {
                    behind_levels(bytes, most, encoding, *num_values)
                })
            }
            Page::DataPageV2 {
                buf,
                rep_levels_byte_len,
                def_levels_byte_len,
                ..
            } => buf.get(*rep_levels_byte_len as usize + *def_levels_byte_len as usize..),
            Page::DictionaryPage { .. } => None,
        };
        match values.is_some_and(|values| has_long_prefix(values, page.num_values().into())) {
            true => Err(ParquetError::General(
                "a text begins with more of the one before it than that has".to_owned(),
            )),
            false => Ok(()),
        }
    }
}

/// What follows the levels at the beginning of a page of the first version, if there are so many.
fn behind_levels(bytes: &[u8], most: i16, encoding: Encoding, values: u32) -> Option<&[u8]> {
    if most == 0 {
        return Some(bytes);
    }
    #[expect(deprecated, reason = "old files have it")]
    if encoding == Encoding::BIT_PACKED {
        let width = u64::from(u16::BITS - most.unsigned_abs().leading_zeros());
        let length = (u64::from(values) * width).div_ceil(8);
        return bytes.get(usize::try_from(length).ok()?..);
    }
    let (length, rest) = bytes.split_first_chunk()?;
    rest.get(u32::from_le_bytes(*length) as usize..)
}

impl Iterator for CheckedPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        page.iter().try_for_each(|page| self.check(page))?;
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> Result<Option<Page>> {
        self.pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
