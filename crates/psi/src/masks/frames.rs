//! Frames of masks, or of other uniform strings.

use vesica_wire::{Frames, Kind, MAX_FRAME, Misbehaviour};

use super::bits::{Gaps, Reader, Writer};
use super::order::Entry;
use super::{MASKS, less};

/// How the masks of an exchange are coded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Code {
    /// What frames hold.
    kind: Kind,
    /// Of the leading bits, at most 64; `None` if each string is written in full.
    gaps: Option<Gaps>,
    lead: u32,
    /// Number of bits after them.
    tail: usize,
}

impl Code {
    /// For `count` uniform masks of `width` bits: differences of their leading bits. Their length tells a little of the masks.
    pub(super) fn new(width: usize, count: usize) -> Self {
        let code = Self::in_full(MASKS, width);
        Code {
            gaps: Some(Gaps::of_uniform(code.lead, count)),
            ..code
        }
    }

    /// For strings of `width` bits in frames of this kind, each in full: their length tells nothing of them.
    pub(super) fn in_full(kind: Kind, width: usize) -> Self {
        let lead = width.min(64);
        Code {
            kind,
            gaps: None,
            lead: lead as u32,
            tail: width - lead,
        }
    }

    /// The kind of the frames.
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    /// The error for a string that is smaller than the one before.
    #[cold]
    pub(super) fn out_of_order(&self) -> Misbehaviour {
        Misbehaviour::BadValue {
            what: self.kind.name,
            problem: "out of order",
        }
    }

    /// Masks that every frame but the last holds.
    pub(super) fn per_frame(&self) -> usize {
        match self.gaps {
            Some(gaps) => gaps.per_frame(self.tail),
            None => MAX_FRAME / self.width() * 8,
        }
    }

    /// Bits of a string.
    fn width(&self) -> usize {
        self.lead as usize + self.tail
    }

    /// The frames of `count` masks in all, of the length that is expected, or in full has to be.
    pub(super) fn frames(&self, count: usize) -> Frames {
        let Some(gaps) = self.gaps else {
            return Frames::packed(count, self.width(), self.per_frame());
        };
        let frames = count.div_ceil(self.per_frame());
        let bits = (count - frames) as f64 * gaps.expected_bits(count)
            + (count * self.tail + frames * self.lead as usize) as f64;
        // The last byte of a frame is half full.
        Frames {
            payload: (bits / 8.0 + 0.5 * frames as f64).round() as u64,
            count: frames as u64,
        }
    }

    /// Maximum bytes of a frame of `count` masks.
    pub(super) fn most_bytes(&self, count: usize) -> usize {
        match self.gaps {
            Some(gaps) => gaps.most_bytes(count, self.tail),
            None => (count * self.width()).div_ceil(8),
        }
    }

    /// About as many bytes as a frame of `count` masks has.
    fn expected_bytes(&self, count: usize) -> usize {
        match self.gaps {
            Some(gaps) => gaps.expected_bytes(count, self.tail),
            None => self.most_bytes(count) + 16,
        }
    }

    /// The frame that holds these masks, which ascend.
    pub(super) fn encode<const W: usize>(&self, entries: &[Entry<W>]) -> Vec<u8> {
        let mut writer = Writer::with_capacity(self.expected_bytes(entries.len()));
        let mut previous = None;
        for (mask, _) in entries {
            let value = mask[0] >> (64 - self.lead);
            match (self.gaps, previous) {
                (Some(gaps), Some(previous)) => gaps.write_next(&mut writer, previous, value),
                _ => writer.put(value, self.lead),
            }
            previous = Some(value);
            for (i, word) in mask.iter().enumerate().skip(1) {
                let bits = self.tail_bits(i);
                if bits > 0 {
                    writer.put(word >> (64 - bits), bits);
                }
            }
        }
        writer.finish()
    }

    /// Bits of word `i` > 0 of a mask.
    #[inline]
    fn tail_bits(&self, i: usize) -> u32 {
        (self.tail + 64).saturating_sub(64 * i).min(64) as u32
    }
}

/// The masks of a frame that a peer has sent.
pub(super) struct Decoder<'a, const W: usize> {
    code: &'a Code,
    reader: Reader,
    left: usize,
    previous: Option<[u64; W]>,
}

impl<'a, const W: usize> Decoder<'a, W> {
    /// A frame that has to hold `count` > 0 masks.
    pub(super) fn new(code: &'a Code, frame: Vec<u8>, count: usize) -> Self {
        Decoder {
            code,
            reader: Reader::new(code.kind.name, frame),
            left: count,
            previous: None,
        }
    }

    /// Reads as many of the next masks as `block` has room for, and returns how many; 0 at the end.
    ///
    /// Fails at the first mask that the frame does not hold or that is smaller than the one before,
    /// and at the end unless nothing but padding is left.
    pub(super) fn read(&mut self, block: &mut [[u64; W]]) -> Result<usize, Misbehaviour> {
        let count = block.len().min(self.left);
        for mask in &mut block[..count] {
            *mask = self.next()?;
        }
        self.left -= count;
        if self.left == 0 && count > 0 {
            self.reader.finish()?;
        }
        Ok(count)
    }

    #[inline]
    fn next(&mut self) -> Result<[u64; W], Misbehaviour> {
        let Code { gaps, lead, .. } = self.code;
        let shift = 64 - lead;
        let value = match (gaps, self.previous) {
            (Some(gaps), Some(previous)) => {
                gaps.read_next(&mut self.reader, previous[0] >> shift)?
            }
            _ => self.reader.take(*lead),
        };
        let mut mask = [0; W];
        mask[0] = value << shift;
        for (i, word) in mask.iter_mut().enumerate().skip(1) {
            let bits = self.code.tail_bits(i);
            if bits > 0 {
                *word = self.reader.take(bits) << (64 - bits);
            }
        }
        self.reader.check()?;
        if self.previous.is_some_and(|previous| less(&mask, &previous)) {
            return Err(self.code.out_of_order());
        }
        self.previous = Some(mask);
        Ok(mask)
    }
}
