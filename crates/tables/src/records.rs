//! The records of delimited text.
//!
//! A record ends at a line feed outside quotes; a carriage return before it belongs to the terminator. Lines
//! without a quote, which is nearly all of them, are split directly; the others go through csv-core. Blank
//! lines are skipped. The bytes of each record are kept, so that the second pass can copy them unchanged.

use std::io::{Empty, Read};
use std::ops::Range;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter, memrchr};

use crate::dialect::{CsvOptions, Dialect};
use crate::error::{Error, ErrorKind, Result};
use crate::text::{Buffer, strip_terminator};

/// The records of a delimited text.
pub(crate) struct Records<R> {
    buffer: Buffer<R>,
    dialect: Dialect,
    /// What reads records with quotes, from the first of them on.
    core: Option<Reader>,
    /// Bytes of what is pending that are known to have no quote.
    plain: usize,
    /// Line on which the next record starts.
    next_line: u64,
    record: Record,
}

/// Where the present record is.
#[derive(Default)]
struct Record {
    /// Length of its bytes, terminator included; they are the last bytes consumed.
    raw: usize,
    /// Line on which it starts.
    line: u64,
    crlf: bool,
    /// Whether its fields are in `unquoted` or directly in the raw bytes.
    quoted: bool,
    unquoted: Vec<u8>,
    /// Where each field ends. In `unquoted` a field starts where the one before ends, in the
    /// raw bytes one delimiter later.
    ends: Vec<usize>,
}

/// Bytes of a [`Piece`], as far as they come to the end of a record.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// Maximum lines of a piece: what is made of a short line may take far more memory than the line.
const PIECE_LINES: usize = 4096;

/// Whole records of a text, some [`PIECE_BYTES`], which can be read apart from the rest.
#[derive(Default)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
    /// Line on which it starts.
    line: u64,
}

impl Piece {
    /// How many bytes it has.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where the lines of its records are, terminators included.
    pub(crate) fn lines(&self, dialect: Dialect) -> Result<Vec<Range<usize>>> {
        let bytes = &self.bytes;
        let mut lines = Vec::new();
        let quote = dialect.csv.quote.and_then(|quote| memchr(quote, bytes));
        if quote.is_none() {
            let last = (!bytes.ends_with(b"\n")).then_some(bytes.len());
            let ends = memchr_iter(b'\n', bytes).map(|end| end + 1).chain(last);
            let mut start = 0;
            for end in ends {
                if !strip_terminator(&bytes[start..end]).0.is_empty() {
                    lines.push(start..end);
                }
                start = end;
            }
            return Ok(lines);
        }
        let mut records = self.records(dialect);
        while records.next(false)? {
            let end = bytes.len() - records.buffer.pending().len();
            lines.push(end - records.raw().len()..end);
        }
        Ok(lines)
    }

    /// Its records.
    pub(crate) fn records(&self, dialect: Dialect) -> Records<Empty> {
        Records {
            next_line: self.line,
            ..Records::of(Buffer::of(self.bytes.clone()), dialect)
        }
    }
}

/// What reads records with quotes.
fn core(dialect: Dialect) -> Reader {
    let CsvOptions { quote, escape, .. } = dialect.csv;
    let mut core = ReaderBuilder::new()
        .delimiter(dialect.delimiter)
        .quoting(quote.is_some())
        .quote(quote.unwrap_or(b'"'))
        .escape(escape)
        .terminator(Terminator::Any(b'\n'))
        .build();
    // csv-core drops a byte-order mark from the first record that it sees. Ours need not be
    // the first of the file, so that one goes to waste.
    core.read_record(b"\n\n", &mut [0; 4], &mut [0; 4]);
    core
}

impl<R: Read> Records<R> {
    /// Line on which the present record starts.
    pub(crate) fn line(&self) -> u64 {
        self.record.line
    }

    /// Whether it ends in CR LF.
    pub(crate) fn ends_in_crlf(&self) -> bool {
        self.record.crlf
    }

    pub(crate) fn new(input: R, dialect: Dialect) -> Self {
        Records::of(Buffer::new(input), dialect)
    }

    fn of(buffer: Buffer<R>, dialect: Dialect) -> Self {
        Records {
            buffer,
            dialect,
            core: None,
            plain: 0,
            next_line: 1,
            record: Record::default(),
        }
    }

    /// Consumes a byte-order mark.
    pub(crate) fn skip_byte_order_mark(&mut self) -> Result<bool> {
        let length = self.buffer.byte_order_mark()?;
        self.consume(length);
        Ok(length > 0)
    }

    /// Goes to the next record that is not a blank line; `false` at the end. The fields are
    /// known only if asked for or if the record has quotes.
    pub(crate) fn next(&mut self, want_fields: bool) -> Result<bool> {
        loop {
            let line = self.next_line;
            let Some(range) = self.buffer.line().map_err(|e| e.at_line(line))? else {
                return Ok(false);
            };
            self.record.line = line;
            if self.has_quote(range.end) {
                self.quoted()?;
                return Ok(true);
            }
            self.next_line += 1;
            let (body, crlf) = strip_terminator(&self.buffer.pending()[range.clone()]);
            let blank = body.is_empty();
            if want_fields && !blank {
                let ends = &mut self.record.ends;
                ends.clear();
                ends.extend(memchr_iter(self.dialect.delimiter, body));
                ends.push(body.len());
            }
            self.record.raw = range.end;
            self.record.crlf = crlf;
            self.record.quoted = false;
            self.consume(range.end);
            if !blank {
                return Ok(true);
            }
        }
    }

    /// Whether there is a quote in the first `length` pending bytes.
    fn has_quote(&mut self, length: usize) -> bool {
        let Some(quote) = self.dialect.csv.quote else {
            return false;
        };
        if self.plain < length {
            let ahead = &self.buffer.pending()[self.plain..];
            self.plain += memchr(quote, ahead).unwrap_or(ahead.len());
        }
        self.plain < length
    }

    fn consume(&mut self, length: usize) {
        self.buffer.consume(length);
        self.plain = self.plain.saturating_sub(length);
    }

    /// The present record.
    pub(crate) fn present(&self) -> Piece {
        Piece {
            bytes: self.raw().to_vec(),
            line: self.line(),
        }
    }

    /// Cuts off the next piece; an empty one is the end. After an error, the piece has what comes before it.
    ///
    /// Lines without a quote are records, so that only the others are looked at any closer.
    pub(crate) fn cut(&mut self, piece: &mut Piece) -> Result<()> {
        piece.line = self.next_line;
        let end = self.next_line + PIECE_LINES as u64;
        while piece.bytes.len() < PIECE_BYTES && self.next_line < end {
            let line = self.next_line;
            let Some(first) = self.buffer.line().map_err(|e| e.at_line(line))? else {
                break;
            };
            let pending = self.buffer.pending();
            let most = first.end.max(PIECE_BYTES - piece.bytes.len());
            let pending = &pending[..most.min(pending.len())];
            let quote = self.dialect.csv.quote.and_then(|q| memchr(q, pending));
            if quote.is_some_and(|quote| quote < first.end) {
                self.record.line = line;
                self.quoted()?;
                piece.bytes.extend_from_slice(self.raw());
                continue;
            }
            let plain = &pending[..quote.unwrap_or(pending.len())];
            // The last line of a text may have no end.
            let lines = memrchr(b'\n', plain).map_or(first.end, |end| end + 1);
            let mut ends = memchr_iter(b'\n', &plain[..lines]);
            let most = (end - line) as usize;
            let lines = ends.nth(most - 1).map_or(lines, |end| end + 1);
            let plain = &plain[..lines];
            self.next_line += memchr_iter(b'\n', plain).count() as u64;
            piece.bytes.extend_from_slice(plain);
            self.consume(lines);
        }
        Ok(())
    }

    /// Reads a record that has a quote on its first line.
    fn quoted(&mut self) -> Result<()> {
        let Record {
            raw: raw_length,
            line,
            crlf,
            quoted,
            unquoted,
            ends,
        } = &mut self.record;
        if unquoted.is_empty() {
            unquoted.resize(1 << 10, 0);
        }
        ends.resize(ends.len().max(16), 0);
        let core = self.core.get_or_insert_with(|| core(self.dialect));
        let (mut read, mut written, mut fields) = (0, 0, 0);
        let mut ended = false;
        loop {
            let pending = self.buffer.pending();
            // At the end of the input a line feed stands for the missing one. Inside quotes it
            // ends nothing, which shows that they were never closed.
            let input = if ended { &b"\n"[..] } else { &pending[read..] };
            if input.is_empty() {
                // To csv-core this would be the end.
                ended = !self.buffer.more().map_err(|e| e.at_line(*line))?;
                continue;
            }
            let (result, n_in, n_out, n_ends) =
                core.read_record(input, &mut unquoted[written..], &mut ends[fields..]);
            if !ended {
                read += n_in;
            }
            written += n_out;
            fields += n_ends;
            match result {
                ReadRecordResult::OutputFull => unquoted.resize(unquoted.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => ends.resize(ends.len() * 2, 0),
                ReadRecordResult::Record | ReadRecordResult::End => break,
                ReadRecordResult::InputEmpty if ended => {
                    let reason = "a quoted field is never closed";
                    return Err(Error::corrupt(reason).at_line(*line));
                }
                ReadRecordResult::InputEmpty => {}
            }
        }
        let raw = &self.buffer.pending()[..read];
        self.next_line += memchr_iter(b'\n', raw).count().max(1) as u64;
        ends.truncate(fields);
        *crlf = raw.ends_with(b"\r\n");
        if *crlf && let Some(last) = ends.last_mut() {
            *last -= 1;
        }
        *quoted = true;
        *raw_length = read;
        self.consume(read);
        Ok(())
    }

    /// The bytes of the present record, with its terminator.
    pub(crate) fn raw(&self) -> &[u8] {
        self.buffer.consumed(self.record.raw)
    }

    /// How many fields the present record has.
    pub(crate) fn len(&self) -> usize {
        self.record.ends.len()
    }

    /// One of them.
    pub(crate) fn field(&self, i: usize) -> &[u8] {
        let ends = &self.record.ends;
        if self.record.quoted {
            let start = if i == 0 { 0 } else { ends[i - 1] };
            &self.record.unquoted[start..ends[i]]
        } else {
            let start = if i == 0 { 0 } else { ends[i - 1] + 1 };
            &self.raw()[start..ends[i]]
        }
    }
}

/// The delimiters that are looked for, in order of preference.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Guesses the delimiter from the start of a text: the one that gives every row the same number of fields, and more than
/// one; failing that, the one that gives the header the most. `None` if there is none in it.
///
/// # Errors
/// Data: several give every row the same number of fields.
pub(crate) fn guess_delimiter(sample: &[u8], whole: bool, csv: CsvOptions) -> Result<Option<u8>> {
    // The fields of the first row, and whether there are as many in the others.
    let fields = |delimiter: u8| -> (usize, bool) {
        let mut records = Records::new(sample, Dialect { delimiter, csv });
        if records.skip_byte_order_mark().is_err() || !records.next(true).unwrap_or(false) {
            return (0, false);
        }
        let width = records.len();
        let mut even = true;
        for _ in 0..100 {
            if !records.next(true).unwrap_or(false) {
                break;
            }
            // The sample may cut its last record short.
            let cut = !whole && records.buffer.pending().is_empty();
            even &= cut || records.len() == width;
        }
        (width, even && width > 1)
    };
    let found = DELIMITERS.map(|delimiter| (delimiter, fields(delimiter)));
    let even: Vec<u8> = found
        .iter()
        .filter_map(|(delimiter, (_, even))| even.then_some(*delimiter))
        .collect();
    match even[..] {
        [delimiter] => Ok(Some(delimiter)),
        [first, second, ..] => Err(Error::new(ErrorKind::AmbiguousDelimiter {
            candidates: [first, second].map(char::from),
        })),
        [] => {
            let most = found.iter().map(|(_, (width, _))| *width).max();
            let most = most.filter(|most| *most > 1);
            let widest = found.iter().find(|(_, (width, _))| Some(*width) == most);
            Ok(widest.map(|(delimiter, _)| *delimiter))
        }
    }
}

#[cfg(test)]
mod tests;
