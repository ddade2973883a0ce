//! Labels: bytes that the sender hands over with each of its items, and that only a holder of the item can read
//! (labelled PSI).
//!
//! With labels, a mask is no longer F of an item but a hash of F and the item, and a second hash of the same
//! stretches to the stream that encrypts the label. The item is in both, so that each label belongs to one item even if
//! two have the same F. After all masks the sender sends all labels, in the order of the masks. Labels of a run have
//! one length.
//!
//! The receiver keeps all labels until the last one is there, and then decrypts one for each of its items: that of the
//! first mask that is not below its own, or the last one. However a sender chooses its masks, that is the same work after
//! its last message, and where the receiver reads depends on the order of the masks alone.
//!
//! Nothing authenticates a label: it is the sender's to choose. A malicious receiver that gets F of more items than it
//! declared, as far as the OPRF lets it, gets their labels too.

use vesica_oprf::{Outputs, output};
use vesica_primitives::oracle::Oracle;
use vesica_primitives::parallel;
use vesica_wire::{Channel, Error, Kind, MAX_FRAME, Misbehaviour};
use zeroize::Zeroizing;

use super::order::Order;
use crate::Item;

/// Frames with encrypted labels, as many as fit into a frame, the last one with the rest.
pub const LABELS: Kind = Kind {
    code: 59,
    name: "labels",
};

/// Labels that a thread decrypts together.
const BATCH: usize = 64;

/// Labels that every frame but the last holds.
fn per_frame(bytes: usize) -> usize {
    (MAX_FRAME / bytes).max(1)
}

/// What encrypts labels: a stream for each output of the OPRF.
struct Streams<'a> {
    oracle: Oracle,
    items: &'a [Item],
    outputs: &'a Outputs,
}

impl<'a> Streams<'a> {
    fn new(session: &[u8; 32], items: &'a [Item], outputs: &'a Outputs) -> Self {
        Streams {
            oracle: Oracle::new("vesica/1 label", session),
            items,
            outputs,
        }
    }

    /// The number of the item of the output with this number.
    fn item(&self, number: u32) -> usize {
        match self.outputs {
            Outputs::Short { numbers, .. } => numbers[number as usize] as usize,
            Outputs::Long(_) => number as usize,
        }
    }

    /// Encrypts or decrypts the label of the output with this number.
    fn apply(&self, number: u32, label: &mut [u8]) {
        let item = &self.items[self.item(number)];
        match self.outputs {
            Outputs::Short { values, .. } => {
                let [high, low] = values[number as usize].map(u64::to_be_bytes);
                self.oracle.xor_stream(&[&high, &low, item], label);
            }
            Outputs::Long(values) => {
                self.oracle
                    .xor_stream(&[&values[number as usize], item], label);
            }
        }
    }
}

/// The masks of a run with labels: hashes of the outputs and their items.
pub(super) fn masks(session: &[u8; 32], items: &[Item], outputs: &Outputs) -> Outputs {
    let oracle = Oracle::new("vesica/1 mask of a labelled item", session);
    match outputs {
        Outputs::Short { values, numbers } => {
            let mut masks = values.clone();
            parallel::each_item(&mut masks, |i, mask| {
                let [high, low] = mask.map(u64::to_be_bytes);
                *mask = output(&oracle.hash(&[&high, &low, &items[numbers[i] as usize]]));
            });
            Outputs::Short {
                values: masks,
                numbers: numbers.clone(),
            }
        }
        Outputs::Long(values) => {
            let mut masks = values.clone();
            parallel::each_item(&mut masks, |i, mask| {
                *mask = oracle.hash(&[&*mask, &items[i]])
            });
            Outputs::Long(masks)
        }
    }
}

/// The sender's labels.
pub(super) struct Sealing<'a> {
    streams: Streams<'a>,
    /// One of `bytes` bytes for each item.
    labels: &'a [u8],
    bytes: usize,
}

impl<'a> Sealing<'a> {
    /// Labels of `bytes` > 0 bytes for these items, whose outputs these are.
    ///
    /// # Panics
    /// If there is not one label per item.
    pub(super) fn new(
        session: &[u8; 32],
        items: &'a [Item],
        outputs: &'a Outputs,
        labels: &'a [u8],
        bytes: usize,
    ) -> Self {
        assert!(bytes > 0 && labels.len() == items.len() * bytes);
        Sealing {
            streams: Streams::new(session, items, outputs),
            labels,
            bytes,
        }
    }

    /// Sends all labels, in the order of the masks.
    pub(super) fn send<const W: usize>(
        &self,
        channel: &mut dyn Channel,
        order: &Order<W>,
    ) -> Result<(), Error> {
        let (entries, bytes) = (order.entries(), self.bytes);
        let batch = per_frame(bytes) * rayon::current_num_threads();
        let mut done = 0;
        for batch in entries.chunks(batch) {
            let frames = parallel::map(batch.chunks(per_frame(bytes)), |entries| {
                let mut frame = Vec::with_capacity(entries.len() * bytes);
                for (_, number) in entries {
                    let (at, item) = (frame.len(), self.streams.item(*number));
                    frame.extend_from_slice(&self.labels[item * bytes..][..bytes]);
                    self.streams.apply(*number, &mut frame[at..]);
                }
                frame
            });
            for frame in frames {
                channel.send(LABELS, frame)?;
            }
            done += batch.len();
            channel.progress(done as u64, entries.len() as u64);
        }
        Ok(())
    }
}

/// The labels that the receiver gets.
pub(super) struct Opening<'a> {
    streams: Streams<'a>,
    bytes: usize,
    /// For each item the label that it was decrypted with; meaningless for items that do not match.
    labels: Zeroizing<Vec<u8>>,
}

impl<'a> Opening<'a> {
    /// Labels of `bytes` > 0 bytes for these items, whose outputs these are.
    pub(super) fn new(
        session: &[u8; 32],
        items: &'a [Item],
        outputs: &'a Outputs,
        bytes: usize,
    ) -> Self {
        assert!(bytes > 0);
        Opening {
            streams: Streams::new(session, items, outputs),
            bytes,
            labels: Zeroizing::new(vec![0; items.len() * bytes]),
        }
    }

    /// Receives `count` labels. `ranks[i]` says which of them is for entry `i` of the order.
    pub(super) fn receive<const W: usize>(
        &mut self,
        channel: &mut dyn Channel,
        count: usize,
        order: &Order<W>,
        ranks: &[u32],
    ) -> Result<(), Error> {
        let (bytes, per_frame) = (self.bytes, per_frame(self.bytes));
        // For each item the number of its output, and which label is for it.
        let mut wanted = vec![(0, 0); order.entries().len()];
        for ((_, number), rank) in order.entries().iter().zip(ranks) {
            wanted[self.streams.item(*number)] = (*number, *rank as usize);
        }
        let mut frames = Vec::new();
        for first in (0..count).step_by(per_frame) {
            let last = count.min(first + per_frame);
            let frame = channel.recv(LABELS, (last - first) * bytes)?;
            if frame.len() != (last - first) * bytes {
                return Err(Misbehaviour::WrongLength {
                    what: LABELS.name,
                    bytes: frame.len(),
                }
                .into());
            }
            frames.push(frame);
            channel.progress(last as u64, count as u64);
        }
        if count > 0 {
            let batches = self.labels.chunks_mut(BATCH * bytes);
            let batches = batches.zip(wanted.chunks(BATCH));
            parallel::each(batches, |(labels, wanted)| {
                let items = labels.chunks_mut(bytes).zip(wanted);
                for (label, (number, rank)) in items {
                    let start = rank % per_frame * bytes;
                    label.copy_from_slice(&frames[rank / per_frame][start..][..bytes]);
                    self.streams.apply(*number, label);
                }
            });
        }
        Ok(())
    }

    /// The labels of the items that matched, and zeros for all others. The time does not depend on what matched.
    pub(super) fn of(mut self, matched: &[bool]) -> Zeroizing<Vec<u8>> {
        assert_eq!(matched.len() * self.bytes, self.labels.len());
        for (label, matched) in self.labels.chunks_mut(self.bytes).zip(matched) {
            let mask = std::hint::black_box(u8::from(*matched).wrapping_neg());
            label.iter_mut().for_each(|byte| *byte &= mask);
        }
        self.labels
    }
}
