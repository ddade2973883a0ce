//! What the tests of this crate share: two engines over ideal COTs and entries made of them, and channels that count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rand_core::CryptoRng;
use vesica_correlations::subfield::{self, FromCots};
use vesica_correlations::{cot, ideal};
use vesica_primitives::block::Block;
use vesica_testing::{Recorder, clocked_pair, honest, try_both};
use vesica_wire::{Channel, Error, Kind};

use crate::bits::BitShares;
use crate::cost::Cost;
use crate::cots::WIDTH;
use crate::engine::{Receiver, Sender};

pub(crate) const SESSION: [u8; 32] = [7; 32];

/// A source that counts COTs, or entries.
struct Counted {
    source: FromCots<WIDTH, ideal::CotSender>,
    cots: Arc<AtomicUsize>,
    entries: Arc<AtomicUsize>,
}

/// A source of COTs whose ends send each other a message first: like a real one, it relies on both parties doing the
/// same in the same order.
struct Talking<S>(S);

/// What a talking source sends: the number of COTs.
const COUNT: Kind = Kind {
    code: 200,
    name: "number of COTs",
};

/// Checks that the peer wants as many COTs.
fn agree(channel: &mut dyn Channel, count: usize) -> Result<(), Error> {
    channel.send(COUNT, count.to_le_bytes().to_vec())?;
    assert_eq!(channel.recv(COUNT, 8)?, count.to_le_bytes());
    Ok(())
}

impl cot::Sender for Talking<ideal::CotSender> {
    fn delta(&self) -> Block {
        self.0.delta()
    }

    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        agree(channel, q.len())?;
        self.0.extend(channel, rng, q)
    }
}

impl cot::Receiver for Talking<ideal::CotReceiver> {
    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        t: &mut [Block],
    ) -> Result<(), Error> {
        agree(channel, t.len())?;
        self.0.extend(channel, rng, t)
    }
}

/// Both engines, over sources that talk.
pub(crate) fn talking() -> (Receiver, Sender) {
    let (main, chosen) = ideal::cots(31);
    let (reverse, reverse_chosen) = ideal::cots(32);
    let mut receiver = Receiver::new(&SESSION, FromCots::new(Talking(main)));
    let mut sender = Sender::new(&SESSION, FromCots::new(Talking(chosen)));
    receiver.add_reverse(Talking(reverse_chosen));
    sender.add_reverse(Talking(reverse));
    (receiver, sender)
}

impl cot::Sender for Counted {
    fn delta(&self) -> Block {
        self.source.delta()
    }

    fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        q: &mut [Block],
    ) -> Result<(), Error> {
        self.cots.fetch_add(q.len(), Ordering::Relaxed);
        self.source.extend(channel, rng, q)
    }
}

impl subfield::Sender<WIDTH> for Counted {
    fn extend_entries(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        y: &mut [Block],
    ) -> Result<(), Error> {
        self.entries.fetch_add(y.len(), Ordering::Relaxed);
        self.source.extend_entries(channel, rng, y)
    }
}

/// Both engines, with a reverse direction, and the numbers of COTs of both directions and of entries.
pub(crate) struct Engines {
    pub(crate) receiver: Receiver,
    pub(crate) sender: Sender,
    pub(crate) counts: [Arc<AtomicUsize>; 3],
}

pub(crate) fn engines(seed: u64) -> Engines {
    let counts = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let (main, chosen) = ideal::cots(Block::from(seed) << 1);
    let (reverse, reverse_chosen) = ideal::cots(Block::from(seed) << 1 | 1 << 100);
    let counted = |source, i: usize| Counted {
        source: FromCots::new(source),
        cots: Arc::clone(&counts[i]),
        entries: Arc::clone(&counts[2]),
    };
    let mut receiver = Receiver::new(&SESSION, counted(main, 0));
    let mut sender = Sender::new(&SESSION, FromCots::new(chosen));
    receiver.add_reverse(reverse_chosen);
    sender.add_reverse(counted(reverse, 1));
    Engines {
        receiver,
        sender,
        counts,
    }
}

/// An honest run, and what it cost.
pub(crate) fn measured<A: Send, B>(
    receive: impl FnOnce(&mut Receiver, &mut dyn Channel) -> Result<A, Error> + Send,
    send: impl FnOnce(&mut Sender, &mut dyn Channel) -> Result<B, Error>,
) -> (A, B, Cost) {
    let mut engines = engines(1);
    let (near, far, flows) = clocked_pair();
    let (mut near, mut far) = (Recorder::new(near), Recorder::new(far));
    let (one, two) = try_both(
        (&mut near, &mut far),
        |channel| receive(&mut engines.receiver, channel),
        |channel| send(&mut engines.sender, channel),
    );
    let bytes = |frames: &[(Kind, Vec<u8>)]| frames.iter().map(|(_, payload)| payload.len()).sum();
    let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let cost = Cost {
        cots: read(&engines.counts[0]),
        entries: read(&engines.counts[2]),
        reverse_cots: read(&engines.counts[1]),
        receiver_bytes: bytes(&near.sent),
        sender_bytes: bytes(&far.sent),
        flows: flows() as usize,
    };
    (one.unwrap(), two.unwrap(), cost)
}

/// An honest run of both engines.
pub(crate) fn run<A: Send, B>(
    seed: u64,
    receive: impl FnOnce(&mut Receiver, &mut dyn Channel) -> Result<A, Error> + Send,
    send: impl FnOnce(&mut Sender, &mut dyn Channel) -> Result<B, Error>,
) -> (A, B) {
    let Engines {
        mut receiver,
        mut sender,
        ..
    } = engines(seed);
    honest(
        |channel| receive(&mut receiver, channel),
        |channel| send(&mut sender, channel),
    )
}

/// Random blocks.
pub(crate) fn blocks(seed: u64, count: usize) -> Vec<Block> {
    let mut prg = vesica_primitives::block::Prg::new(seed.into());
    let mut blocks = vec![0; count];
    prg.fill(&mut blocks);
    blocks
}

/// Random shares of these bits.
pub(crate) fn share(seed: u64, bits: impl Fn(usize) -> bool, count: usize) -> [BitShares; 2] {
    let random = blocks(seed, count);
    let ours = BitShares::from_fn(count, |i| random[i] as u64);
    let theirs = BitShares::from_fn(count, |i| random[i] as u64 & 1 ^ u64::from(bits(i)));
    [ours, theirs]
}

/// The bits that two shares stand for.
pub(crate) fn opened(ours: &BitShares, theirs: &BitShares) -> Vec<bool> {
    assert_eq!(ours.len(), theirs.len());
    let bits = (0..ours.len()).map(|i| ours.get(i) ^ theirs.get(i) == 1);
    bits.collect()
}

/// Sizes around the word and the piece.
pub(crate) const SIZES: [usize; 8] = [0, 1, 2, 63, 64, 65, 200, 4097];
