//! Telling the sender which of its masks matched.
//!
//! How long that is says nothing of the matches: it follows from the sizes of both sets. A bit for each mask is sent, or,
//! where that is shorter, a position for each match that there can be: the matches in ascending order, and in the slots that
//! are left over the number of masks, which is no position. The time does not depend on the matches either.

use vesica_wire::{Channel, Error, Frames, MAX_FRAME, Misbehaviour, recv_exact};

use super::MATCHED;
use super::bits::{Reader, Writer};

/// How the matches are written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A bit for each mask.
    Bitmap,
    /// A position for each match that there can be.
    Positions,
}

/// What is told: equally wide numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Telling {
    form: Form,
    /// Masks of the sender.
    masks: usize,
    /// How many masks can match.
    most: usize,
    /// Bits of a number.
    bits: u32,
}

impl Telling {
    /// Of so many masks, at most `most` of which match.
    pub(super) fn new(masks: usize, most: usize) -> Telling {
        let most = most.min(masks);
        let bits = usize::BITS - masks.leading_zeros();
        let (form, bits) = match masks <= most.saturating_mul(bits as usize) {
            true => (Form::Bitmap, 1),
            false => (Form::Positions, bits),
        };
        Telling {
            form,
            masks,
            most,
            bits,
        }
    }

    /// How many numbers are sent.
    fn count(&self) -> usize {
        match self.form {
            Form::Bitmap => self.masks,
            Form::Positions => self.most,
        }
    }

    /// Numbers in every frame but the last, which fill whole bytes.
    fn per_frame(&self) -> usize {
        MAX_FRAME / self.bits as usize * 8
    }

    /// How many numbers each frame has; there is always a frame.
    fn chunks(self) -> impl Iterator<Item = usize> {
        let (count, each) = (self.count(), self.per_frame());
        let starts = (0..count.max(1)).step_by(each);
        starts.map(move |start| each.min(count - start))
    }

    /// Bytes of a frame of so many numbers.
    fn bytes(&self, count: usize) -> usize {
        (count * self.bits as usize).div_ceil(8)
    }

    /// What [`Telling::send`] sends.
    pub(super) fn frames(self) -> Frames {
        let frames = self.chunks().map(|count| Frames::one(self.bytes(count)));
        frames.fold(Frames::default(), |all, one| all + one)
    }

    /// Says for each mask, in ascending order of the masks, whether it matched.
    ///
    /// # Panics
    /// If there is not a flag for each mask.
    pub(super) fn send(self, channel: &mut dyn Channel, matched: &[bool]) -> Result<(), Error> {
        assert_eq!(matched.len(), self.masks);
        let positions = match self.form {
            Form::Bitmap => Vec::new(),
            Form::Positions => {
                let masks = (0..self.masks as u32).zip(matched.iter().copied());
                selected(masks, self.most, self.masks as u32)
            }
        };
        let mut from = 0;
        for count in self.chunks() {
            let numbers = from..from + count;
            from += count;
            let mut writer = Writer::with_capacity(self.bytes(count) + 16);
            let mut put = |number| writer.put(number, self.bits);
            match self.form {
                Form::Bitmap => (matched[numbers].iter()).for_each(|is| put(u64::from(*is))),
                Form::Positions => {
                    (positions[numbers].iter()).for_each(|at: &u32| put((*at).into()))
                }
            }
            channel.send(MATCHED, writer.finish())?;
        }
        Ok(())
    }

    /// Receives that.
    pub(super) fn receive(self, channel: &mut dyn Channel) -> Result<Vec<bool>, Error> {
        let bad = |problem| Misbehaviour::BadValue {
            what: MATCHED.name,
            problem,
        };
        let end = self.masks as u64;
        let mut matched = vec![false; self.masks];
        let (mut masks, mut least) = (matched.iter_mut(), 0);
        let mut positions = Vec::new();
        for count in self.chunks() {
            let frame = recv_exact(channel, MATCHED, self.bytes(count))?;
            let mut reader = Reader::new(MATCHED.name, frame);
            match self.form {
                Form::Bitmap => {
                    (masks.by_ref().take(count)).for_each(|matched| *matched = reader.take(1) == 1)
                }
                Form::Positions => {
                    for _ in 0..count {
                        let position = reader.take(self.bits);
                        if position > end {
                            return Err(bad("a number out of range").into());
                        }
                        if (position < least) & (position != end) {
                            return Err(bad("out of order").into());
                        }
                        least = position + 1;
                        positions.push(position as usize);
                    }
                }
            }
            reader.finish()?;
        }
        if let Form::Positions = self.form {
            positions.push(self.masks);
            mark(&mut matched, &positions);
        }
        let count: usize = matched.iter().map(|matched| usize::from(*matched)).sum();
        match count > self.most {
            true => Err(bad("more matches than items").into()),
            false => Ok(matched),
        }
    }
}

/// Marks the masks at these positions, which ascend to the number of masks. The time does not depend on the positions: each
/// mask is written once, in order, and memory that is touched for the first time takes as long whatever matches.
fn mark(matched: &mut [bool], positions: &[usize]) {
    let mut next = 0;
    for (mask, matched) in matched.iter_mut().enumerate() {
        // The last position is no mask, so that there is always a next one.
        *matched = positions[next] == mask;
        next += usize::from(*matched);
    }
}

/// The values that are flagged, in order, in so many slots; those that are left over have the value `rest`. Any beyond the
/// last slot are left out. Neither the time nor how much memory is written depends on the flags.
pub(super) fn selected<T: Copy>(
    values: impl ExactSizeIterator<Item = (T, bool)>,
    slots: usize,
    rest: T,
) -> Vec<T> {
    let count = values.len();
    let mut selected = vec![rest; count.max(slots)];
    // Flagged values come to the front and others to the back, so that each place is written once.
    let (mut front, mut back) = (0, count);
    for (value, is_flagged) in values {
        let flagged = usize::from(is_flagged);
        back -= 1 - flagged;
        let at_front = flagged.wrapping_neg();
        selected[front & at_front | back & !at_front] = value;
        front += flagged;
    }
    selected.truncate(slots);
    for (at, value) in selected.iter_mut().enumerate() {
        *value = if at < front { *value } else { rest };
    }
    selected
}
