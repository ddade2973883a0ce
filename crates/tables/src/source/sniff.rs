//! What a file is, by its first bytes and its name.

use std::io::Read;

use arrow_ipc::root_as_message;
use vesica_files::{catching, foreign_file, own_file};

use crate::error::{Error, ErrorKind, Result};
use crate::format::Format;
use crate::source::byte_source::Handle;
use crate::source::compression::Compression;
use crate::source::encoding::Encoding;
use crate::source::text::{BYTE_ORDER_MARK, read_error};

/// Bytes of a file that are looked at.
pub(crate) const SAMPLE_BYTES: u64 = 64 << 10;

/// What was found.
pub(crate) struct Found {
    pub(crate) format: Format,
    pub(crate) compression: Option<Compression>,
    /// The first bytes, decompressed and in UTF-8.
    pub(crate) sample: Vec<u8>,
    /// Whether those are all.
    pub(crate) whole: bool,
}

/// The format of `input`, called `name`, unless a format was `asked` for.
pub(crate) fn sniff(
    mut input: Handle,
    name: &str,
    asked: Option<Format>,
    encoding: Option<Encoding>,
) -> Result<Found> {
    let mut sample = Vec::new();
    input
        .by_ref()
        .take(SAMPLE_BYTES)
        .read_to_end(&mut sample)
        .map_err(read_error)?;
    let mut whole = (sample.len() as u64) < SAMPLE_BYTES;
    let compression = Compression::of_content(&sample);
    if let Some(compression) = compression {
        let compressed = std::mem::take(&mut sample);
        let rest = compressed.as_slice().chain(input);
        // Damage shows again, with its place, when the table is read.
        let read = compression
            .decompress(rest)
            .and_then(|text| text.take(SAMPLE_BYTES).read_to_end(&mut sample));
        whole = read.is_ok() && (sample.len() as u64) < SAMPLE_BYTES;
    }
    if let Some(encoding) = encoding {
        sample = encoding.decode_sample(&sample);
    }
    let told = by_content(&sample)?;
    let format = asked
        .or(told)
        .or_else(|| by_name(name))
        .unwrap_or_else(|| guess_text(&sample));
    if let Some(compression) = compression
        && !format.is_text()
    {
        let name = compression.name();
        return Err(Error::unsupported(format!(
            "{format} inside {name}; decompress it first"
        )));
    }
    if format.is_text() {
        for (mark, encoding) in [(&b"\xff\xfe"[..], "UTF-16"), (b"\xfe\xff", "UTF-16")] {
            if sample.starts_with(mark) {
                return Err(Error::new(ErrorKind::OtherEncoding(encoding)));
            }
        }
        if let Some(encoding) = utf_16_without_mark(&sample) {
            return Err(Error::new(ErrorKind::OtherEncoding(encoding)));
        }
        if has_old_line_ends(&sample) {
            let found = "lines that end in carriage returns alone; end them with line feeds";
            return Err(Error::unsupported(found));
        }
    }
    Ok(Found {
        format,
        compression,
        sample,
        whole,
    })
}

/// By bytes that leave no doubt.
fn by_content(sample: &[u8]) -> Result<Option<Format>> {
    if let Some(found) = foreign_file(sample) {
        return Err(Error::unsupported(found));
    }
    if let Some(found) = own_file(sample) {
        return Err(Error::new(ErrorKind::NotATable { found }));
    }
    // No text has a null byte.
    if sample.starts_with(b"ORC") && sample.contains(&0) {
        return Err(Error::unsupported("an ORC file"));
    }
    let mut columnar = Format::ALL.iter().filter(|format| !format.is_text());
    let found = columnar.find(|format| format.starts(sample)).copied();
    Ok(found.or_else(|| is_old_stream(sample).then_some(Format::Arrow)))
}

/// The extension of a name in lower case, without that of a compression behind it.
pub(crate) fn extension(name: &str) -> Option<String> {
    let (_, extension) = Compression::split_name(name).0.rsplit_once('.')?;
    Some(extension.to_ascii_lowercase())
}

/// What a name's extension stands for that is never written.
pub(crate) fn never_written(name: &str) -> Option<&'static str> {
    Some(match extension(name)?.as_str() {
        "bz2" | "tbz2" => "bzip2 compression",
        "xz" | "lzma" | "txz" => "xz compression",
        "lz4" => "LZ4 compression",
        "br" => "Brotli compression",
        "sz" | "snappy" => "Snappy compression",
        "zip" | "7z" | "rar" | "tar" | "tgz" => "an archive",
        "xlsx" | "xlsm" | "xlsb" | "xls" | "ods" | "numbers" => "a spreadsheet",
        "orc" => "ORC",
        "avro" => "Avro",
        "sqlite" | "sqlite3" | "db" | "db3" | "duckdb" | "mdb" | "accdb" => "a database",
        "h5" | "hdf5" | "hdf" => "HDF5",
        "pkl" | "pickle" | "npy" | "npz" => "a Python object",
        "rds" | "rda" | "rdata" => "an R object",
        "sas7bdat" | "xpt" | "sav" | "dta" => "a statistics package",
        "xml" | "html" | "htm" | "yaml" | "yml" | "pdf" | "docx" => "a document",
        _ => return None,
    })
}

/// The format that a name's extension stands for.
pub(crate) fn by_name(name: &str) -> Option<Format> {
    let extension = extension(name)?;
    let has = |format: &&Format| format.extensions().contains(&&*extension);
    Format::ALL.iter().find(has).copied()
}

pub(crate) fn is_tsv(name: &str) -> bool {
    delimiter(name) == Some(b'\t')
}

/// The delimiter that a name's extension stands for.
pub(crate) fn delimiter(name: &str) -> Option<u8> {
    match extension(name)?.as_str() {
        "tsv" | "tab" => Some(b'\t'),
        "psv" => Some(b'|'),
        _ => None,
    }
}

fn guess_text(sample: &[u8]) -> Format {
    let text = sample.strip_prefix(BYTE_ORDER_MARK).unwrap_or(sample);
    let text = text.trim_ascii_start();
    let mut formats = Format::ALL.iter().filter(|format| format.is_text());
    let found = formats.find(|format| format.starts(text));
    found.copied().unwrap_or(Format::Csv)
}

/// The encoding of a text without a byte-order mark in which one byte of nearly every pair is null: UTF-16, mostly of letters of
/// ASCII. No other text has null bytes.
fn utf_16_without_mark(sample: &[u8]) -> Option<&'static str> {
    const LEAST: usize = 4;
    let pairs = sample.as_chunks::<2>().0;
    let nulls = |side: usize| pairs.iter().filter(|pair| pair[side] == 0).count();
    let (first, second) = (nulls(0), nulls(1));
    match pairs.len() >= LEAST {
        true if first == 0 && 2 * second > pairs.len() => Some("UTF-16LE"),
        true if second == 0 && 2 * first > pairs.len() => Some("UTF-16BE"),
        _ => None,
    }
}

/// Whether lines end in carriage returns alone, as before Unix: to us that is one line.
fn has_old_line_ends(sample: &[u8]) -> bool {
    let first = memchr::memchr2(b'\r', b'\n', sample);
    let Some((line, [b'\r', rest @ ..])) = first.map(|end| sample.split_at(end)) else {
        return false;
    };
    let is_quoted = line.iter().filter(|byte| **byte == b'"').count() % 2 == 1;
    !is_quoted && !rest.is_empty() && memchr::memchr(b'\n', rest).is_none()
}

/// Whether bytes begin as a stream of versions before 0.15 does: with a message about columns, without what stands before
/// messages since.
fn is_old_stream(bytes: &[u8]) -> bool {
    let message = || {
        let (length, rest) = bytes.split_first_chunk()?;
        let message = rest.get(..usize::try_from(i32::from_le_bytes(*length)).ok()?)?;
        catching(|| root_as_message(message).is_ok_and(|found| found.header_as_schema().is_some()))
            .ok()
    };
    message().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorClass;

    #[test]
    fn names() {
        assert_eq!(by_name("a.csv.gz"), Some(Format::Csv));
        assert_eq!(by_name("dir.parquet/a"), None);
        assert_eq!(by_name("A.NDJSON"), Some(Format::Jsonl));
        assert_eq!(by_name("a.feather"), Some(Format::Arrow));
        assert!(is_tsv("x.TSV.GZ"));
        assert_eq!(by_name("a.jsonl.zst"), Some(Format::Jsonl));
    }

    #[test]
    fn content_beats_the_name() {
        assert_eq!(by_content(b"PAR1....").unwrap(), Some(Format::Parquet));
        assert_eq!(by_content(b"ARROW1\0\0").unwrap(), Some(Format::Arrow));
        assert_eq!(by_content(b"ARROW1,x\n").unwrap(), None);
        assert_eq!(
            by_content(b"PK\x03\x04").unwrap_err().class(),
            ErrorClass::Data
        );
        assert_eq!(guess_text(b"\xef\xbb\xbf {\"a\":1}"), Format::Jsonl);
        assert_eq!(guess_text(b"{ }\n"), Format::Jsonl);
        assert_eq!(guess_text(b"{id},v\n"), Format::Csv);
    }

    #[test]
    fn utf_16_is_known_without_a_mark() {
        let text = "id,mail\n1,a\u{20ac}@x.org\n";
        let bytes = |of: fn(u16) -> [u8; 2]| text.encode_utf16().flat_map(of).collect::<Vec<_>>();
        for (bytes, encoding) in [
            (bytes(u16::to_le_bytes), Some("UTF-16LE")),
            (bytes(u16::to_be_bytes), Some("UTF-16BE")),
            (text.as_bytes().to_vec(), None),
            (b"a\0b\0".to_vec(), None),
            (b"id,mail\n\0\0\0\0\0\0\0\0\0\0".to_vec(), None),
        ] {
            assert_eq!(utf_16_without_mark(&bytes), encoding, "{bytes:?}");
        }
    }

    #[test]
    fn old_line_ends_are_told_from_others() {
        for text in [&b"id,v\r1,2\r"[..], b"id\r\r1", b"\"a\",b\r1,2"] {
            assert!(has_old_line_ends(text));
        }
        for text in [
            &b"id\r\n1\r\n"[..],
            b"id\r",
            b"\"a\rb\",c",
            b"id\n1\r2",
            b"id",
            b"",
        ] {
            assert!(!has_old_line_ends(text));
        }
    }
}
