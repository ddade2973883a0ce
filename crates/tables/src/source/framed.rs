//! A text without the lines above and below its table: titles, totals, copyright.

use std::collections::VecDeque;
use std::io::{self, ErrorKind as IoKind, Read};

use memchr::memchr;

use crate::error::{Error, ErrorKind};
use crate::source::text::MAX_ROW_BYTES;

/// Bytes that are read at once; in unit tests, whose texts are small, fewer.
const CHUNK: usize = if cfg!(test) { 3 } else { 64 << 10 };

/// Reads a text without its first lines, and without its last ones that are not blank.
pub(crate) struct Framed<R> {
    input: R,
    /// Lines that are still to be left out, and how many at the end.
    above: u64,
    below: usize,
    /// What has been read and not yet left out or handed out. Its first bytes, `free`, are in the table, and `given` of these
    /// are handed out.
    held: Vec<u8>,
    free: usize,
    given: usize,
    /// The ends of the lines in it that are not blank and not known to be in the table.
    ends: VecDeque<usize>,
    /// Where the line begins whose end has not been found, and up to where that has been looked for.
    line: usize,
    scanned: usize,
    at_end: bool,
}

fn is_blank(line: &[u8]) -> bool {
    line.trim_ascii().is_empty()
}

impl<R: Read> Framed<R> {
    pub(crate) fn new(input: R, above: u64, below: usize) -> Framed<R> {
        Framed {
            input,
            above,
            below,
            held: Vec::new(),
            free: 0,
            given: 0,
            ends: VecDeque::new(),
            line: 0,
            scanned: 0,
            at_end: false,
        }
    }

    /// Reads more, and finds what of it is in the table.
    fn fill(&mut self) -> io::Result<()> {
        self.forget(self.free);
        (self.free, self.given) = (0, 0);
        if self.held.len() > MAX_ROW_BYTES {
            let limit = MAX_ROW_BYTES;
            return Err(io::Error::other(Error::new(ErrorKind::RowTooLong {
                limit,
            })));
        }
        let before = self.held.len();
        self.held.resize(before + CHUNK, 0);
        let read = loop {
            match self.input.read(&mut self.held[before..]) {
                Err(e) if e.kind() == IoKind::Interrupted => {}
                read => break read,
            }
        };
        self.held.truncate(before + *read.as_ref().unwrap_or(&0));
        self.at_end = read? == 0;
        self.pass_above();
        if self.below == 0 {
            self.free = self.held.len();
            return Ok(());
        }
        self.find_ends();
        while self.ends.len() > self.below {
            self.free = self.ends.pop_front().unwrap_or(self.free);
        }
        let has_last = self.at_end && !is_blank(&self.held[self.line..]);
        if has_last && self.ends.len() == self.below {
            self.free = self.ends[0];
        }
        Ok(())
    }

    /// Drops bytes at the start of what is held.
    fn forget(&mut self, bytes: usize) {
        self.held.drain(..bytes);
        self.ends.iter_mut().for_each(|end| *end -= bytes);
        // Without lines below the table none is looked for.
        self.line = self.line.saturating_sub(bytes);
        self.scanned = self.scanned.saturating_sub(bytes);
    }

    /// Leaves out the lines above the table; nothing has been looked at before.
    fn pass_above(&mut self) {
        while self.above > 0 {
            match memchr(b'\n', &self.held) {
                Some(end) => {
                    self.held.drain(..=end);
                    self.above -= 1;
                }
                None => return self.held.clear(),
            }
        }
    }

    /// Notes the ends of lines in what was read.
    fn find_ends(&mut self) {
        while let Some(end) = memchr(b'\n', &self.held[self.scanned..]) {
            let end = self.scanned + end + 1;
            if !is_blank(&self.held[self.line..end]) {
                self.ends.push_back(end);
            }
            (self.line, self.scanned) = (end, end);
        }
        self.scanned = self.held.len();
    }
}

impl<R: Read> Read for Framed<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.given == self.free && !self.at_end {
            if (self.above, self.below) == (0, 0) {
                return self.input.read(out);
            }
            self.fill()?;
        }
        let mut left = &self.held[self.given..self.free];
        let count = left.read(out)?;
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain meaning.
    fn expected(text: &str, above: usize, below: usize) -> String {
        let lines: Vec<&str> = text.split_inclusive('\n').skip(above).collect();
        if below == 0 {
            return lines.concat();
        }
        let content: Vec<usize> = (0..lines.len())
            .filter(|line| !lines[*line].trim().is_empty())
            .collect();
        match content.len().checked_sub(below).filter(|left| *left > 0) {
            Some(left) => lines[..=content[left - 1]].concat(),
            None => String::new(),
        }
    }

    #[test]
    fn lines_above_and_below_are_left_out() {
        for text in [
            "",
            "\n",
            "a",
            "a\n",
            "title\n\nid,mail\n1,a@x.org\n2,b@x.org\nTotal,12\n",
            "title\r\nid\r\n1\r\n\r\n\r\nTotal\r\n\r\n",
            "id\n1\n2\n\n3\nTotal",
            "id\n1\n2\nTotal\n  \n\t",
            "long line without an end, longer than what is read at once",
        ] {
            for above in 0..4 {
                for below in 0..4 {
                    let mut found = String::new();
                    let mut framed = Framed::new(text.as_bytes(), above as u64, below);
                    framed.read_to_string(&mut found).unwrap();
                    let expected = expected(text, above, below);
                    assert_eq!(found, expected, "{text:?} {above} {below}");
                }
            }
        }
    }

    #[test]
    fn a_line_that_may_be_the_last_has_a_limit() {
        let text = io::repeat(b'x').take(2 * MAX_ROW_BYTES as u64);
        let mut framed = Framed::new(io::BufReader::new(text), 0, 1);
        framed.held = vec![b'x'; MAX_ROW_BYTES + 1];
        assert!(framed.read(&mut [0; 8]).is_err());
    }
}
