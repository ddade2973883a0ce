//! Spreadsheets. A sheet becomes CSV with commas, in an encrypted file without a name, and is read as that from there on: its
//! cells are the texts that their types say, and what is empty or an error is null.

use std::io::{self, BufRead, BufWriter, Read, Write};
use std::path::Path;

use calamine::{DataRef, Reader, SheetType, SheetVisible, Xlsx, XlsxError};
use quick_xml::events::Event;
use vesica_files::catching;
use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{Error, ErrorKind, Result};
use crate::source::byte_source::Handle;
use crate::source::scratch::{ScratchFile, ScratchWriter, unwritable};
use crate::source::text::read_error;

mod cells;
mod ods;
mod xml;

use cells::{Cells, Lines};
use xml::Xml;

/// What a ZIP archive begins with.
const ZIP_START: &[u8] = b"PK\x03\x04";

/// The entry of an archive that makes it a workbook of this kind.
const XLSX: &str = "xl/workbook.xml";
const XLSB: &str = "xl/workbook.bin";
const ODS: &str = "content.xml";

/// The parts that are read into memory, in lower case: their reader looks for them in any.
const STRINGS: &str = "sharedstrings.xml";
const STYLES: &str = "styles.xml";

/// How many times its bytes such a part may take: the least of a text is `<si/>`, which becomes a `String` in a vector that
/// grows; of styles, a tag of some bytes that becomes a structure.
const TIMES: u64 = 64;

/// Bytes of a style, besides texts.
const STYLE_BYTES: u64 = 1 << 10;

/// The most bytes of a workbook, decompressed, if nothing else limits it.
const MAX_BYTES: u64 = 16 << 30;

/// What is wanted of a workbook.
pub(crate) struct Wanted<'a> {
    /// The name of the sheet; otherwise the first that is shown.
    pub(crate) sheet: Option<&'a str>,
    /// Rows above and below the table.
    pub(crate) above: u64,
    pub(crate) below: usize,
    /// Bytes that the workbook may have, decompressed.
    pub(crate) limit: u64,
}

/// Whether what begins so may be a workbook. Its end tells.
pub(crate) fn may_be(start: &[u8]) -> bool {
    start.starts_with(ZIP_START)
}

/// The wanted sheet as CSV, if a file is a workbook.
///
/// # Errors
/// Data: it is damaged, encrypted, or of a kind that is not read. Usage: no sheet of this name. Resource: it is too large, or
/// there is no room for the copy.
pub(crate) fn as_csv(
    mut input: Handle,
    wanted: &Wanted<'_>,
    scratch: &Path,
) -> Result<Option<ScratchFile>> {
    let mut start = Vec::new();
    (&mut input)
        .take(ZIP_START.len() as u64)
        .read_to_end(&mut start)
        .map_err(read_error)?;
    if !may_be(&start) {
        return Ok(None);
    }
    let mut archive = call(|| ZipArchive::new(input), damaged_archive)?;
    let has = |name: &str| archive.index_for_name(name).is_some();
    let is_ods = has(ODS) && has("META-INF/manifest.xml");
    if has(XLSB) {
        let found = "a workbook in Excel's binary format; save it as .xlsx";
        return Err(Error::unsupported(found));
    }
    if !has(XLSX) && !is_ods {
        return Ok(None);
    }
    let bytes = check_sizes(&mut archive, wanted.limit.min(MAX_BYTES))?;
    let copy = ScratchWriter::create(scratch).map_err(of_copy)?;
    let mut lines = Lines::new(BufWriter::new(copy), wanted.above, wanted.below, bytes);
    match is_ods {
        true => ods::read(archive, wanted.sheet, &mut lines)?,
        false => xlsx(archive.into_inner(), wanted.sheet, &mut lines)?,
    }
    let copy = lines.finish().into_inner().map_err(|e| e.into_error());
    copy.and_then(ScratchWriter::finish)
        .map(Some)
        .map_err(of_copy)
}

fn of_copy(e: io::Error) -> Error {
    match e.downcast::<Error>() {
        Ok(error) => error,
        Err(e) => unwritable(e).in_path("the copy of the input"),
    }
}

/// Calls a library; its panics are the file's fault.
fn call<T, E>(
    f: impl FnOnce() -> std::result::Result<T, E>,
    wrong: impl FnOnce(E) -> Error,
) -> Result<T> {
    catching(f).map_err(Error::corrupt)?.map_err(wrong)
}

fn damaged_archive(e: ZipError) -> Error {
    match e {
        ZipError::Io(e) => read_error(e),
        ZipError::UnsupportedArchive(ZipError::PASSWORD_REQUIRED) => encrypted(),
        e => Error::corrupt(e.to_string()),
    }
}

fn encrypted() -> Error {
    Error::unsupported("an encrypted workbook; save it without a password")
}

/// Decompresses all parts once and counts their bytes, so that no part is larger than it says, and none makes its reader take
/// more memory than its bytes are for. Returns the bytes of all.
fn check_sizes(archive: &mut ZipArchive<Handle>, limit: u64) -> Result<u64> {
    let too_large = |bytes| {
        let what = "a spreadsheet";
        Error::new(ErrorKind::TooLarge { what, bytes, limit })
    };
    let said = archive.decompressed_size().unwrap_or(0);
    if said > u128::from(limit) {
        return Err(too_large(u64::try_from(said).unwrap_or(u64::MAX)));
    }
    let (mut all, mut in_memory) = (0, 0u64);
    for number in 0..archive.len() {
        let part = call(|| archive.by_index(number), damaged_archive)?;
        let name = call(
            || part.name().map(|name| name.into_owned()),
            damaged_archive,
        )?;
        let left = (limit - all).saturating_add(1);
        let bytes = call(
            || io::copy(&mut part.take(left), &mut io::sink()),
            read_error,
        )?;
        all += bytes;
        if all > limit {
            return Err(too_large(all));
        }
        in_memory = in_memory.saturating_add(memory_of(archive, &name, bytes)?);
        if in_memory > limit {
            return Err(too_large(in_memory));
        }
    }
    Ok(all)
}

/// The most memory that a part of so many bytes takes once it is read.
fn memory_of(archive: &mut ZipArchive<Handle>, name: &str, bytes: u64) -> Result<u64> {
    let called = name.rsplit(['/', '\\']).next().unwrap_or_default();
    match &*called.to_ascii_lowercase() {
        STRINGS => check_said(&mut xml::part(archive, name)?, bytes)?,
        STYLES => {
            let of_styles = of_styles(&mut xml::part(archive, name)?)?;
            return Ok(bytes.saturating_mul(TIMES).saturating_add(of_styles));
        }
        _ => return Ok(0),
    }
    Ok(bytes.saturating_mul(TIMES / 4))
}

/// Fails if shared texts say that they are more than their bytes: their reader makes room for as many as they say.
fn check_said<R: BufRead>(part: &mut Xml<R>, bytes: u64) -> Result<()> {
    let mut buffer = Vec::new();
    loop {
        match xml::next(part, &mut buffer)? {
            Event::Start(start) if start.local_name().as_ref() == "sst" => {
                let said = xml::attribute(&start, "uniqueCount")?;
                // What is no number is passed over.
                let said = said.and_then(|said| said.trim().trim_start_matches('+').parse().ok());
                return match said {
                    Some(said) if bytes < said => Err(Error::corrupt(
                        "it says that it has more texts than it has bytes",
                    )),
                    _ => Ok(()),
                };
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Bytes that the styles of cells take, each of which has a copy of the texts of its font and its format.
fn of_styles<R: BufRead>(part: &mut Xml<R>) -> Result<u64> {
    let (mut buffer, mut styles, mut longest) = (Vec::new(), 0u64, 0u64);
    loop {
        match xml::next(part, &mut buffer)? {
            Event::Start(start) => {
                styles += u64::from(start.local_name().as_ref() == "xf");
                longest = longest.max(start.len() as u64);
            }
            Event::Eof => return Ok(styles.saturating_mul(STYLE_BYTES + 4 * longest)),
            _ => {}
        }
    }
}

/// The sheet that is wanted, of these, of which some are shown.
fn choose(names: &[(String, bool)], wanted: Option<&str>) -> Result<String> {
    let found = match wanted {
        Some(wanted) => names.iter().find(|(name, _)| name == wanted),
        None => names
            .iter()
            .find(|(_, is_shown)| *is_shown)
            .or(names.first()),
    };
    match (found, wanted) {
        (Some((name, _)), _) => Ok(name.clone()),
        (None, None) => Err(Error::new(ErrorKind::Empty)),
        (None, Some(wanted)) => {
            let names: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
            let hint = format!("its sheets are {}", names.join(", "));
            Err(Error::usage_with(
                format!("no sheet is called {wanted:?}"),
                hint,
            ))
        }
    }
}

/// Hands the cells of a sheet of an xlsx workbook to `lines`.
fn xlsx<W: Write>(input: Handle, sheet: Option<&str>, lines: &mut Lines<W>) -> Result<()> {
    let mut workbook = call(|| Xlsx::new(input), damaged)?;
    let sheets = workbook.sheets_metadata().iter();
    let sheets = sheets.filter(|sheet| sheet.typ == SheetType::WorkSheet);
    let sheets = sheets.map(|sheet| (sheet.name.clone(), sheet.visible == SheetVisible::Visible));
    let name = choose(&sheets.collect::<Vec<_>>(), sheet)?;
    let is_1904 = workbook.has_1904_epoch();
    let mut reader = call(|| workbook.worksheet_cells_reader(&name), damaged)?;
    let mut cells = Cells::default();
    while let Some(cell) = call(|| reader.next_cell(), damaged)? {
        let (row, column) = cell.get_position();
        let (row, column) = (u64::from(row), column as usize);
        lines.go_to(row, &mut cells)?;
        match cell.get_value() {
            DataRef::Empty | DataRef::Error(_) => {}
            DataRef::String(text) | DataRef::DurationIso(text) => cells.put(column, text)?,
            DataRef::DateTimeIso(text) => cells.put(column, cells::at_midnight(text))?,
            DataRef::SharedString(text) => cells.put(column, text)?,
            DataRef::Bool(truth) => cells.put(column, if *truth { "true" } else { "false" })?,
            DataRef::Int(number) => cells.put(column, &number.to_string())?,
            DataRef::Float(number) => cells.put(column, &cells::number(*number))?,
            DataRef::DateTime(time) => cells.put(column, &cells::time(time, is_1904))?,
        }
    }
    lines.put(&mut cells)
}

fn damaged(e: XlsxError) -> Error {
    match e {
        XlsxError::Password => encrypted(),
        XlsxError::Io(e) => read_error(e),
        XlsxError::Zip(e) => damaged_archive(e),
        XlsxError::CellError(_) => {
            Error::unsupported("a cell with an error of a newer kind; give it a value, or clear it")
        }
        // Its words can hold cells.
        _ => Error::corrupt("its XML is not that of a workbook"),
    }
}

#[cfg(test)]
mod tests;
