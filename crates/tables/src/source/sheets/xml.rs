//! The parts of workbooks as XML.

use std::io::{self, BufRead, BufReader};

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use zip::ZipArchive;

use super::{call, damaged_archive};
use crate::error::{Error, Result};
use crate::source::byte_source::Handle;
use crate::source::text::read_error;

pub(super) type Xml<R> = Reader<R>;

/// A part of the archive, in which what is empty has a start and an end too.
pub(super) fn part<'a>(
    archive: &'a mut ZipArchive<Handle>,
    name: &str,
) -> Result<Xml<impl BufRead + use<'a>>> {
    let part = call(|| archive.by_name(name), damaged_archive)?;
    let mut xml = Reader::from_reader(BufReader::new(part));
    let config = xml.config_mut();
    config.expand_empty_elements = true;
    config.check_end_names = true;
    Ok(xml)
}

pub(super) fn next<'b, R: BufRead>(xml: &mut Xml<R>, buffer: &'b mut Vec<u8>) -> Result<Event<'b>> {
    buffer.clear();
    xml.read_event_into(buffer).map_err(wrong)
}

pub(super) fn wrong(e: quick_xml::Error) -> Error {
    match e {
        quick_xml::Error::Io(e) => read_error(io::Error::new(e.kind(), e.to_string())),
        // Its words can hold cells.
        _ => Error::corrupt("its XML is broken"),
    }
}

pub(super) fn is(start: &BytesStart<'_>, name: &str) -> bool {
    start.name().as_ref() == name
}

pub(super) fn attribute(start: &BytesStart<'_>, name: &str) -> Result<Option<String>> {
    let found = start.try_get_attribute(name);
    let found = found.map_err(|e| wrong(e.into()))?;
    let Some(found) = found else {
        return Ok(None);
    };
    let value = found.normalized_value(quick_xml::XmlVersion::Implicit1_0);
    Ok(Some(value.map_err(wrong)?.into_owned()))
}
