//! The two parties, and their operations on all bins.
//!
//! Both parties call the same operations in the same order, for the same numbers of bins. After an error the engine
//! is of no more use: the parties are no longer in step.

use rand_core::CryptoRng;
use vesica_correlations::cot;
use vesica_correlations::subfield::{self, FromCots};
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};

use crate::arithmetic::Ends;
use crate::bits::BitShares;
use crate::cots::{ChoiceEnd, Direction, ValueEnd, WIDTH};
use crate::membership::{Compared, Drawn, DrawnPads};

/// Why what takes COTs of the reverse direction panics without.
pub(crate) const NO_REVERSE: &str = "COTs of the reverse direction";

/// The engine of the PSI receiver, who did the cuckoo hashing. It is the COT sender of the main direction.
///
/// Digits are of W bits.
pub struct Receiver<const W: u32 = WIDTH> {
    pub(crate) main: ValueEnd<W>,
    pub(crate) reverse: Option<ChoiceEnd>,
    pub(crate) session: [u8; 32],
    pub(crate) parts: usize,
    pub(crate) span: u64,
}

/// The engine of the PSI sender. It is the COT receiver of the main direction.
///
/// Digits are of W bits.
pub struct Sender<const W: u32 = WIDTH> {
    pub(crate) main: ChoiceEnd<W>,
    pub(crate) reverse: Option<ValueEnd>,
    pub(crate) session: [u8; 32],
    pub(crate) parts: usize,
    pub(crate) span: u64,
}

impl<const W: u32> Receiver<W> {
    /// An engine over a source of COTs and entries. `session` must be new for every engine of a run.
    pub fn new(session: &[u8; 32], main: impl subfield::Sender<W> + Send + 'static) -> Self {
        Receiver {
            main: ValueEnd::new(Direction::Main, session, main),
            reverse: None,
            session: *session,
            parts: 1,
            span: 0,
        }
    }

    /// The same for one of so many parts, of equally many bins, whose numbers are added up before they are opened.
    pub fn of_parts(self, parts: usize) -> Self {
        Self { parts, ..self }
    }

    /// The same for sizes and counts that have noise up to `span`.
    pub fn with_noise(self, span: u64) -> Self {
        Self { span, ..self }
    }

    /// This engine after its tests: other tests would make their entries from COTs.
    pub(crate) fn for_functions(self) -> Receiver {
        Receiver {
            main: self.main.for_functions(),
            reverse: self.reverse,
            session: self.session,
            parts: self.parts,
            span: self.span,
        }
    }

    /// Adds a source of COTs in the reverse direction, which functions of the sender's payloads need.
    pub fn add_reverse(&mut self, source: impl cot::Receiver + Send + 'static) {
        let source = FromCots::new(source);
        self.reverse = Some(ChoiceEnd::new(Direction::Reverse, &self.session, source));
    }

    /// Whether there is a source of COTs in the reverse direction.
    pub fn has_reverse(&self) -> bool {
        self.reverse.is_some()
    }
}

impl<const W: u32> Sender<W> {
    /// An engine over a source of COTs and entries. `session` must be new for every engine of a run.
    pub fn new(session: &[u8; 32], main: impl subfield::Receiver<W> + Send + 'static) -> Self {
        Sender {
            main: ChoiceEnd::new(Direction::Main, session, main),
            reverse: None,
            session: *session,
            parts: 1,
            span: 0,
        }
    }

    /// The same for one of so many parts, of equally many bins, whose numbers are added up before they are opened.
    pub fn of_parts(self, parts: usize) -> Self {
        Self { parts, ..self }
    }

    /// The same for sizes and counts that have noise up to `span`.
    pub fn with_noise(self, span: u64) -> Self {
        Self { span, ..self }
    }

    /// As [`Receiver::for_functions`].
    pub(crate) fn for_functions(self) -> Sender {
        Sender {
            main: self.main.for_functions(),
            reverse: self.reverse,
            session: self.session,
            parts: self.parts,
            span: self.span,
        }
    }

    /// Adds a source of COTs in the reverse direction, which functions of the sender's payloads need.
    pub fn add_reverse(&mut self, source: impl cot::Sender + Send + 'static) {
        let source = FromCots::new(source);
        self.reverse = Some(ValueEnd::new(Direction::Reverse, &self.session, source));
    }

    /// Whether there is a source of COTs in the reverse direction.
    pub fn has_reverse(&self) -> bool {
        self.reverse.is_some()
    }
}

impl Receiver {
    /// The ends of both directions.
    ///
    /// # Panics
    /// If there is no reverse direction.
    pub(crate) fn ends(&mut self) -> Ends<'_> {
        Ends {
            value: &mut self.main,
            choice: self.reverse.as_mut().expect(NO_REVERSE),
            direction: Direction::Main,
        }
    }
}

impl Sender {
    /// The ends of both directions.
    ///
    /// # Panics
    /// If there is no reverse direction.
    pub(crate) fn ends(&mut self) -> Ends<'_> {
        Ends {
            value: self.reverse.as_mut().expect(NO_REVERSE),
            choice: &mut self.main,
            direction: Direction::Reverse,
        }
    }
}

impl<const W: u32> Receiver<W> {
    /// Shares of whether both strings of each bin have the same `bits` low bits, from 1 to 128.
    ///
    /// # Errors
    /// The channel's and the source's; `PeerMisbehaved` for a frame of another length, or bits beyond the last.
    ///
    /// # Panics
    /// If `bits` is out of range.
    pub fn equality(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        strings: &[Block],
    ) -> Result<BitShares, Error> {
        let (strings, _) = strings.as_chunks::<1>();
        self.main.membership(channel, rng, bits, strings)
    }

    /// Shares of whether the sender's string of each bin is one of three candidates, by their `bits` low bits, from 1
    /// to 128. The candidates of a bin must differ in these bits: a string that equals two of them counts as absent.
    ///
    /// # Errors
    /// As [`Receiver::equality`].
    ///
    /// # Panics
    /// If `bits` is out of range.
    pub fn membership(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        candidates: &[[Block; 3]],
    ) -> Result<BitShares, Error> {
        self.main.membership(channel, rng, bits, candidates)
    }

    /// Takes what [`Receiver::membership_of_drawn`] needs of strings that the sender draws.
    ///
    /// # Errors
    /// As [`Receiver::equality`].
    ///
    /// # Panics
    /// If `bits` is out of range.
    pub fn draw(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        of: Compared,
    ) -> Result<DrawnPads, Error> {
        self.main.draw(channel, rng, of)
    }

    /// [`Receiver::membership`] of the strings that the sender has drawn, of fewer bytes.
    ///
    /// # Errors
    /// As [`Receiver::equality`].
    ///
    /// # Panics
    /// If they were drawn for other bins or candidates.
    pub fn membership_of_drawn<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        drawn: DrawnPads,
        candidates: &[[Block; C]],
    ) -> Result<BitShares, Error> {
        self.main
            .membership_of_drawn(channel, rng, drawn, candidates)
    }
}

impl<const W: u32> Sender<W> {
    /// The other side of [`Receiver::equality`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As there.
    pub fn equality(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        strings: &[Block],
    ) -> Result<BitShares, Error> {
        self.main.membership::<1>(channel, rng, bits, strings)
    }

    /// The other side of [`Receiver::membership`].
    ///
    /// # Errors
    /// As [`Receiver::equality`].
    ///
    /// # Panics
    /// As there.
    pub fn membership(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        bits: u32,
        strings: &[Block],
    ) -> Result<BitShares, Error> {
        self.main.membership::<3>(channel, rng, bits, strings)
    }

    /// The other side of [`Receiver::draw`]: uniform strings.
    ///
    /// # Errors
    /// As [`Receiver::equality`].
    ///
    /// # Panics
    /// If `bits` is out of range.
    pub fn draw(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        of: Compared,
    ) -> Result<Drawn, Error> {
        self.main.draw(channel, rng, of)
    }

    /// The other side of [`Receiver::membership_of_drawn`].
    ///
    /// # Errors
    /// As [`Receiver::equality`].
    ///
    /// # Panics
    /// As there.
    pub fn membership_of_drawn<const C: usize>(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        drawn: Drawn,
    ) -> Result<BitShares, Error> {
        self.main.membership_of_drawn::<C>(channel, rng, drawn)
    }
}
