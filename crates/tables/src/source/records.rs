//! The records of delimited text.
//!
//! A record ends at a line feed outside quotes; a carriage return before it belongs to the terminator. Lines
//! without a quote, which is nearly all of them, are split directly; the others go through csv-core. Blank
//! lines are skipped. The bytes of each record are kept, so that the second pass can copy them unchanged.

use std::io::{Empty, Read};
use std::ops::Range;

use bytes::Bytes;
use csv_core::{ReadFieldResult, ReadRecordResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter, memrchr};

use crate::error::{Error, ErrorKind, Result};
use crate::source::dialect::{CsvOptions, Dialect};
use crate::source::text::{Buffer, strip_terminator};

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
    /// Whether the next record has a quote that is never closed.
    is_open: bool,
    /// Whether the last piece that was cut off seems to end inside quotes.
    ends_in_quotes: bool,
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

/// Bytes of a [`Piece`], as far as they come to the end of a line; in unit tests, whose texts are small, fewer.
pub(crate) const PIECE_BYTES: usize = if cfg!(test) { 16 } else { 64 << 10 };

/// Maximum lines of a piece: what is made of a short line may take far more memory than the line.
const MAX_PIECE_LINES: usize = if cfg!(test) { 4 } else { 4096 };

/// Whole lines of a text, some [`PIECE_BYTES`], which can be read apart from the rest.
#[derive(Default)]
pub(crate) struct Piece {
    bytes: Bytes,
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

    /// Line on which it starts.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Adds the piece after it.
    pub(crate) fn append(&mut self, next: &Piece) {
        let mut bytes = Vec::from(std::mem::take(&mut self.bytes));
        bytes.extend_from_slice(&next.bytes);
        self.bytes = bytes.into();
    }

    /// Where the lines of its records are, terminators included, and [what is left](Records::open).
    pub(crate) fn lines(&self, dialect: Dialect) -> (Vec<Range<usize>>, Piece) {
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
            return (lines, Piece::default());
        }
        let mut records = self.records(dialect);
        // An open quote is the only error in memory.
        while let Ok(true) = records.next(false) {
            let end = bytes.len() - records.buffer.pending().len();
            lines.push(end - records.raw().len()..end);
        }
        (lines, records.open())
    }

    /// Its records.
    pub(crate) fn records(&self, dialect: Dialect) -> Records<Empty> {
        Records {
            next_line: self.line,
            ..Records::of(Buffer::of(self.bytes.clone()), dialect)
        }
    }
}

/// The error of a record that starts on this line.
pub(crate) fn never_closed(line: u64) -> Error {
    Error::corrupt("a quoted field is never closed").at_line(line)
}

/// As many of the lines as end outside quotes, by the number of quotes before; all if none does. And whether the last one
/// ends inside.
fn outside_quotes(lines: &[u8], quote: u8, mut inside: bool) -> (&[u8], bool) {
    let odd = |bytes: &[u8]| memchr_iter(quote, bytes).count() % 2 == 1;
    inside ^= odd(lines);
    let (mut end, ends_inside) = (lines.len(), inside);
    while inside {
        let Some(line) = memrchr(b'\n', &lines[..end - 1]) else {
            return (lines, ends_inside);
        };
        inside ^= odd(&lines[line + 1..end]);
        end = line + 1;
    }
    (&lines[..end], false)
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
            is_open: false,
            ends_in_quotes: false,
        }
    }

    /// The same after so many lines, which have not been read.
    pub(crate) fn after_lines(self, lines: u64) -> Self {
        Records {
            next_line: self.next_line.saturating_add(lines),
            ..self
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
                match self.dialect.csv.skip_initial_space {
                    false => self.quoted()?,
                    true => self.quoted_behind_spaces()?,
                }
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
            bytes: Bytes::copy_from_slice(self.raw()),
            line: self.line(),
        }
    }

    /// The next record and what comes after it, if reading has ended with a quote of it that is never closed; else empty.
    pub(crate) fn open(&self) -> Piece {
        match self.is_open {
            false => Piece::default(),
            true => Piece {
                bytes: Bytes::copy_from_slice(self.buffer.pending()),
                line: self.line(),
            },
        }
    }

    /// Whether reading has ended so.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Line on which the next piece starts.
    pub(crate) fn next_line(&self) -> u64 {
        self.next_line
    }

    /// Cuts off the next piece; `None` at the end.
    ///
    /// It is cut where the number of quotes before is even. Lines are then whole records, if quotes are as in RFC 4180. In
    /// other texts, and where a record is longer than a piece, the last record may have its end in a later piece.
    pub(crate) fn cut(&mut self) -> Result<Option<Piece>> {
        let Some(first) = self.buffer.line()? else {
            return Ok(None);
        };
        let pending = self.buffer.pending();
        let most = first.end.max(PIECE_BYTES.min(pending.len()));
        // The last line of a text may have no end.
        let lines = memrchr(b'\n', &pending[..most]).map_or(first.end, |end| end + 1);
        let mut lines = &pending[..lines];
        if memchr_iter(b'\n', lines).count() > MAX_PIECE_LINES {
            let last = memchr_iter(b'\n', lines).nth(MAX_PIECE_LINES - 1);
            lines = &lines[..last.map_or(lines.len(), |end| end + 1)];
        }
        if let Some(quote) = self.dialect.csv.quote {
            (lines, self.ends_in_quotes) = outside_quotes(lines, quote, self.ends_in_quotes);
        }
        let piece = Piece {
            bytes: Bytes::copy_from_slice(lines),
            line: self.next_line,
        };
        self.next_line += memchr_iter(b'\n', lines).count() as u64;
        self.consume(piece.len());
        Ok(Some(piece))
    }

    /// Reads a record that has a quote on its first line.
    fn quoted(&mut self) -> Result<()> {
        let Record {
            line,
            unquoted,
            ends,
            ..
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
                    self.is_open = true;
                    return Err(never_closed(*line));
                }
                ReadRecordResult::InputEmpty => {}
            }
        }
        ends.truncate(fields);
        self.unquoted(read);
        Ok(())
    }

    /// Reads a record that has a quote on its first line, field by field, and skips spaces in front of each.
    fn quoted_behind_spaces(&mut self) -> Result<()> {
        let Record {
            line,
            unquoted,
            ends,
            ..
        } = &mut self.record;
        unquoted.resize(unquoted.len().max(1 << 10), 0);
        ends.clear();
        let core = self.core.get_or_insert_with(|| core(self.dialect));
        let (mut read, mut written) = (0, 0);
        let (mut is_start, mut ended) = (true, false);
        loop {
            let pending = &self.buffer.pending()[read..];
            let spaces = pending.iter().take_while(|byte| **byte == b' ');
            let spaces = if is_start { spaces.count() } else { 0 };
            read += spaces;
            // As in `quoted`.
            let input = if ended {
                &b"\n"[..]
            } else {
                &pending[spaces..]
            };
            if input.is_empty() {
                ended = !self.buffer.more().map_err(|e| e.at_line(*line))?;
                continue;
            }
            let (result, n_in, n_out) = core.read_field(input, &mut unquoted[written..]);
            if !ended {
                read += n_in;
            }
            written += n_out;
            is_start = false;
            match result {
                ReadFieldResult::OutputFull => unquoted.resize(unquoted.len() * 2, 0),
                ReadFieldResult::Field { record_end } => {
                    ends.push(written);
                    if record_end {
                        break;
                    }
                    is_start = true;
                }
                ReadFieldResult::End => break,
                ReadFieldResult::InputEmpty if ended => {
                    self.is_open = true;
                    return Err(never_closed(*line));
                }
                ReadFieldResult::InputEmpty => {}
            }
        }
        self.unquoted(read);
        Ok(())
    }

    /// Goes behind a record of so many bytes that is read.
    fn unquoted(&mut self, read: usize) {
        let raw = &self.buffer.pending()[..read];
        self.next_line += memchr_iter(b'\n', raw).count().max(1) as u64;
        let record = &mut self.record;
        record.crlf = raw.ends_with(b"\r\n");
        if record.crlf
            && let Some(last) = record.ends.last_mut()
        {
            *last -= 1;
        }
        record.quoted = true;
        record.raw = read;
        self.consume(read);
    }

    /// The bytes of the present record, with its terminator.
    pub(crate) fn raw(&self) -> &[u8] {
        self.buffer.consumed(self.record.raw)
    }

    /// Whether a field of the present record is in quotes.
    pub(crate) fn is_quoted(&self, i: usize) -> bool {
        let Some(quote) = self.dialect.csv.quote.filter(|_| self.record.quoted) else {
            return false;
        };
        let delimiter = self.dialect.delimiter;
        let mut field = 0;
        let mut place = Place::Start;
        for byte in self.raw() {
            if place == Place::Start && *byte == b' ' && self.dialect.csv.skip_initial_space {
                continue;
            }
            if place == Place::Start && field == i {
                return *byte == quote;
            }
            place = match place {
                Place::Quoted if Some(*byte) == self.dialect.csv.escape => Place::Escaped,
                Place::Quoted if *byte == quote => Place::AfterQuote,
                Place::Quoted | Place::Escaped => Place::Quoted,
                // A doubled quote is a quote.
                Place::Start | Place::AfterQuote if *byte == quote => Place::Quoted,
                _ if *byte == delimiter => {
                    field += 1;
                    Place::Start
                }
                _ => Place::Plain,
            };
        }
        false
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
            let field = &self.raw()[start..ends[i]];
            match self.dialect.csv.skip_initial_space {
                true => behind_spaces(field),
                false => field,
            }
        }
    }
}

/// What is behind the spaces at the start of a field.
fn behind_spaces(field: &[u8]) -> &[u8] {
    let spaces = field.iter().take_while(|byte| **byte == b' ');
    &field[spaces.count()..]
}

/// Where in a field a byte is.
#[derive(PartialEq)]
enum Place {
    Start,
    Plain,
    Quoted,
    /// After an escape in quotes.
    Escaped,
    AfterQuote,
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
