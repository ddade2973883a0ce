//! A party's source of COTs, or of entries: where they come from, and what is left over.

use rand_core::CryptoRng;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};
use zeroize::{Zeroize, Zeroizing};

use super::extension::{Batch, Extension};
use super::{Sessions, Size};

/// Trees grown at a time: enough for many threads; their message is far below a frame.
pub(super) const BATCH: usize = 64;

/// COTs that the OT extension makes at a time, or entries from COTs, at least.
pub(super) const ROWS: usize = 1 << 10;

/// Most COTs that the OT extension makes at a time, or entries from COTs: a megabyte.
pub(super) const MAX_ROWS: usize = 1 << 16;

/// What the two parties do differently.
pub(super) trait Party {
    /// Its end of the OT extension, if it has one.
    type Base;

    /// Fills `out` with COTs of the OT extension, or entries made from COTs.
    fn base(
        &mut self,
        base: &mut Self::Base,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error>;

    /// Fills `out` with the COTs or entries of a batch of trees.
    fn grow(
        &mut self,
        batch: &Batch<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error>;
}

enum Origin<B> {
    Base(B),
    Extension(Box<Extension>),
}

/// A party's source of COTs or entries.
pub(super) struct Source<P: Party> {
    party: P,
    origin: Origin<P::Base>,
    /// What was made and not yet given out; what is before `used` has been.
    left: Zeroizing<Vec<Block>>,
    used: usize,
    failed: Option<Error>,
}

impl<P: Party> Source<P> {
    /// A source that starts from `base`, with extensions of these sizes.
    pub(super) fn setup(
        party: P,
        base: P::Base,
        sessions: &Sessions,
        sizes: &'static [Size],
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let mut source = Source {
            party,
            origin: Origin::Base(base),
            left: Zeroizing::default(),
            used: 0,
            failed: None,
        };
        for size in sizes {
            let mut cots = Zeroizing::new(vec![0; size.consumed()]);
            source.extend(channel, rng, &mut cots)?;
            // The rest of what the smaller size made is dropped with it.
            source.left.zeroize();
            source.used = 0;
            let extension = Extension::new(&sessions.part(Some(size)), size, cots);
            source.origin = Origin::Extension(Box::new(extension));
        }
        Ok(source)
    }

    pub(super) fn party(&self) -> &P {
        &self.party
    }

    /// The party, for uses of its own; after an error, that error.
    pub(super) fn party_mut(&mut self) -> Result<&mut P, Error> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None => Ok(&mut self.party),
        }
    }

    /// What the next trees and the next extensions are made of.
    #[cfg(test)]
    pub(super) fn reserved_cots(&self) -> Option<&[Block]> {
        match &self.origin {
            Origin::Base(_) => None,
            Origin::Extension(extension) => Some(extension.cots()),
        }
    }

    /// Fills `out` with the next COTs; after an error, returns it for ever.
    pub(super) fn extend(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.fill(channel, rng, out).inspect_err(|error| {
            self.failed = Some(error.clone());
        })
    }

    fn fill(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        mut out: &mut [Block],
    ) -> Result<(), Error> {
        loop {
            let count = out.len().min(self.left.len() - self.used);
            let (ready, rest) = out.split_at_mut(count);
            ready.copy_from_slice(&self.left[self.used..][..count]);
            self.left[self.used..][..count].zeroize();
            self.used += count;
            out = rest;
            if out.is_empty() {
                return Ok(());
            }
            let made = self.make(channel, rng, out)?;
            out = &mut out[made..];
        }
    }

    /// Makes some COTs, either for `out`, whose filled part is returned, or if that is short, to be left over.
    fn make(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<usize, Error> {
        let unit = match &mut self.origin {
            Origin::Base(_) => ROWS,
            Origin::Extension(extension) => {
                if extension.left(extension.size.reserved()) == 0 {
                    let next = reserved(&mut self.party, extension, channel, rng)?;
                    extension.renew(next);
                }
                extension.size.leaves()
            }
        };
        if out.len() >= unit {
            return self.make_units(channel, rng, out);
        }
        let mut left = std::mem::take(&mut self.left);
        left.resize(unit, 0);
        self.make_units(channel, rng, &mut left)?;
        self.left = left;
        self.used = 0;
        Ok(0)
    }

    /// Fills a part of `out`, and returns its length: whole trees, or rows of the OT extension.
    fn make_units(
        &mut self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        out: &mut [Block],
    ) -> Result<usize, Error> {
        match &mut self.origin {
            Origin::Base(base) => {
                let made = out.len().min(MAX_ROWS);
                self.party.base(base, channel, rng, &mut out[..made])?;
                Ok(made)
            }
            Origin::Extension(extension) => {
                let leaves = extension.size.leaves();
                let trees = (out.len() / leaves)
                    .min(BATCH)
                    .min(extension.left(extension.size.reserved()));
                let made = trees * leaves;
                let batch = extension.next(trees);
                self.party.grow(&batch, channel, rng, &mut out[..made])?;
                Ok(made)
            }
        }
    }
}

/// The COTs or entries of the reserved trees.
fn reserved<P: Party>(
    party: &mut P,
    extension: &mut Extension,
    channel: &mut dyn Channel,
    rng: &mut dyn CryptoRng,
) -> Result<Zeroizing<Vec<Block>>, Error> {
    let (trees, leaves) = (extension.size.reserved(), extension.size.leaves());
    let mut cots = Zeroizing::new(vec![0; trees * leaves]);
    for cots in cots.chunks_mut(BATCH * leaves) {
        let batch = extension.next(cots.len() / leaves);
        party.grow(&batch, channel, rng, cots)?;
    }
    Ok(cots)
}
