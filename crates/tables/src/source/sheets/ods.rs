//! The sheets of OpenDocument workbooks.

use std::io::{BufRead, Write};

use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use super::cells::{Cells, Lines, MAX_ROWS, at_midnight, number};
use super::xml::{Xml, attribute, is, next, part, wrong};
use super::{ODS, choose, encrypted};
use crate::error::{Error, Result};
use crate::source::byte_source::Handle;

/// Hands the cells of a sheet to `lines`.
pub(super) fn read<W: Write>(
    mut archive: ZipArchive<Handle>,
    sheet: Option<&str>,
    lines: &mut Lines<W>,
) -> Result<()> {
    check_open(&mut archive)?;
    let name = choose(&sheets(&mut archive)?, sheet)?;
    let mut xml = part(&mut archive, ODS)?;
    let mut buffer = Vec::new();
    loop {
        match next(&mut xml, &mut buffer)? {
            Event::Start(start)
                if is(&start, "table:table")
                    && attribute(&start, "table:name")?.as_deref() == Some(&name) =>
            {
                return table(&mut xml, lines);
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// Fails if the manifest says that parts are encrypted.
fn check_open(archive: &mut ZipArchive<Handle>) -> Result<()> {
    let mut xml = part(archive, "META-INF/manifest.xml")?;
    let mut buffer = Vec::new();
    loop {
        match next(&mut xml, &mut buffer)? {
            Event::Start(start) if is(&start, "manifest:encryption-data") => {
                return Err(encrypted());
            }
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// The names of the sheets, and whether each is shown.
fn sheets(archive: &mut ZipArchive<Handle>) -> Result<Vec<(String, bool)>> {
    let mut xml = part(archive, ODS)?;
    let (mut buffer, mut sheets) = (Vec::new(), Vec::new());
    let (mut style, mut hidden) = (None, Vec::new());
    loop {
        match next(&mut xml, &mut buffer)? {
            Event::Start(start) if is(&start, "style:style") => {
                style = attribute(&start, "style:name")?;
            }
            Event::Start(start)
                if is(&start, "style:table-properties")
                    && attribute(&start, "table:display")?.as_deref() == Some("false") =>
            {
                hidden.extend(style.take());
            }
            Event::Start(start) if is(&start, "table:table") => {
                let style = attribute(&start, "table:style-name")?;
                let is_shown = style.is_none_or(|style| !hidden.contains(&style));
                let name = attribute(&start, "table:name")?;
                sheets.push((name.unwrap_or_default(), is_shown));
            }
            Event::Eof => return Ok(sheets),
            _ => {}
        }
    }
}

/// How often a row or a cell stands there.
fn repeats(start: &BytesStart<'_>, name: &str) -> Result<u64> {
    let repeats = attribute(start, name)?;
    let repeats = repeats.map_or(Ok(1), |text| text.parse::<u64>());
    match repeats {
        Ok(repeats) if repeats > 0 => Ok(repeats),
        _ => Err(Error::corrupt("a number of repetitions is none")),
    }
}

/// The rows of a table, up to its end.
fn table<R: BufRead, W: Write>(xml: &mut Xml<R>, lines: &mut Lines<W>) -> Result<()> {
    let (mut buffer, mut row) = (Vec::new(), 0u64);
    loop {
        match next(xml, &mut buffer)? {
            Event::Start(start) if is(&start, "table:table-row") => {
                let times = repeats(&start, "table:number-rows-repeated")?;
                let cells = cells(xml)?;
                if !cells.is_empty() {
                    for row in row..row.saturating_add(times) {
                        put(&cells, row, lines)?;
                    }
                }
                row = row.saturating_add(times).min(MAX_ROWS);
            }
            Event::End(end) if end.name().as_ref() == "table:table" => return Ok(()),
            Event::Eof => return Err(Error::corrupt("a sheet breaks off")),
            _ => {}
        }
    }
}

/// A text, and in which columns it is.
type Run = (std::ops::Range<u64>, String);

fn put<W: Write>(cells: &[Run], row: u64, lines: &mut Lines<W>) -> Result<()> {
    let mut line = Cells::default();
    lines.go_to(row, &mut line)?;
    for (columns, text) in cells {
        for column in columns.clone() {
            line.put(usize::try_from(column).unwrap_or(usize::MAX), text)?;
        }
    }
    lines.put(&mut line)
}

/// The cells of a row that are not empty.
fn cells<R: BufRead>(xml: &mut Xml<R>) -> Result<Vec<Run>> {
    let (mut buffer, mut cells, mut column) = (Vec::new(), Vec::new(), 0u64);
    loop {
        match next(xml, &mut buffer)? {
            Event::Start(start)
                if is(&start, "table:table-cell") || is(&start, "table:covered-table-cell") =>
            {
                let is_covered = is(&start, "table:covered-table-cell");
                let times = repeats(&start, "table:number-columns-repeated")?;
                let end = column.saturating_add(times);
                let typed = typed(&start)?;
                let text = paragraphs(xml)?;
                let value = match typed {
                    Typed::Text => Some(text),
                    Typed::Value(value) => Some(value),
                    Typed::Empty => None,
                };
                // What a merged cell covers is not shown.
                if let Some(value) = value.filter(|_| !is_covered) {
                    cells.push((column..end, value));
                }
                column = end;
            }
            Event::End(end) if end.name().as_ref() == "table:table-row" => return Ok(cells),
            Event::Eof => return Err(Error::corrupt("a row breaks off")),
            _ => {}
        }
    }
}

/// What the attributes of a cell say of its value.
enum Typed {
    Empty,
    /// The text that is in it.
    Text,
    Value(String),
}

fn typed(start: &BytesStart<'_>) -> Result<Typed> {
    let of = |name: &str| attribute(start, name);
    if of("calcext:value-type")?.as_deref() == Some("error") {
        return Ok(Typed::Empty);
    }
    let value = match of("office:value-type")?.as_deref() {
        None | Some("void") => return Ok(Typed::Empty),
        Some("string") => of("office:string-value")?,
        Some("boolean") => of("office:boolean-value")?.map(|truth| truth.to_ascii_lowercase()),
        Some("date") => of("office:date-value")?.map(|date| at_midnight(&date).to_owned()),
        Some("time") => of("office:time-value")?.map(|time| clock(&time).unwrap_or(time)),
        Some(_) => of("office:value")?
            .map(|value| value.parse().map(number))
            .transpose()
            .map_err(|_| Error::corrupt("a number is none"))?,
    };
    Ok(value.map_or(Typed::Text, Typed::Value))
}

/// `PT08H30M00S` as `08:30:00`; `None` of another form.
fn clock(duration: &str) -> Option<String> {
    let (hours, rest) = duration.strip_prefix("PT")?.split_once('H')?;
    let (minutes, rest) = rest.split_once('M')?;
    let seconds = rest.strip_suffix('S')?;
    let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    let number = |text: &str| text.parse::<u32>().ok();
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let clock = format!(
        "{:02}:{:02}:{:02}",
        number(hours)?,
        number(minutes)?,
        number(whole)?
    );
    Some(format!("{clock}{point}{fraction}"))
}

/// Whether an element is a note on a cell or is drawn over it, and no part of its text.
fn is_beside(name: &str) -> bool {
    name == "office:annotation" || name.starts_with("draw:")
}

/// The paragraphs of a cell, each a line, up to the end of the cell and without what [is beside it](is_beside).
fn paragraphs<R: BufRead>(xml: &mut Xml<R>) -> Result<String> {
    let (mut buffer, mut text) = (Vec::new(), String::new());
    let (mut depth, mut notes, mut paragraphs, mut is_in) = (0u32, 0u32, 0u32, 0u32);
    loop {
        let is_shown = notes == 0 && is_in > 0;
        match next(xml, &mut buffer)? {
            Event::Start(start) => {
                depth += 1;
                match start.name().as_ref() {
                    name if is_beside(name) => notes += 1,
                    "text:p" | "text:h" if notes == 0 => {
                        text.push_str(if paragraphs > 0 { "\n" } else { "" });
                        paragraphs += 1;
                        is_in += 1;
                    }
                    "text:s" if is_shown => {
                        let spaces = repeats(&start, "text:c")?.min(u64::from(u16::MAX));
                        text.extend((0..spaces).map(|_| ' '));
                    }
                    "text:tab" if is_shown => text.push('\t'),
                    "text:line-break" if is_shown => text.push('\n'),
                    _ => {}
                }
            }
            Event::End(_) if depth == 0 => return Ok(text),
            Event::End(end) => {
                depth -= 1;
                match end.name().as_ref() {
                    name if is_beside(name) => notes -= 1,
                    "text:p" | "text:h" if notes == 0 => is_in -= 1,
                    _ => {}
                }
            }
            Event::Text(part) if is_shown => text.push_str(&part.xml10_content()),
            Event::CData(part) if is_shown => text.push_str(&part.xml10_content()),
            Event::GeneralRef(part) if is_shown => {
                let letter = match &*part {
                    "lt" => Some('<'),
                    "gt" => Some('>'),
                    "amp" => Some('&'),
                    "quot" => Some('"'),
                    "apos" => Some('\''),
                    _ => part.resolve_char_ref().map_err(wrong)?,
                };
                text.extend(letter);
            }
            Event::Eof => return Err(Error::corrupt("a cell breaks off")),
            _ => {}
        }
    }
}
