//! Items for which the receiver's table has no bin: a second execution with the roles exchanged.
//!
//! **Papers.** CGS22, appendix E, after B. Pinkas, T. Schneider, O. Tkachenko, A. Yanai, *Efficient Circuit-Based PSI
//! with Linear Communication*, EUROCRYPT 2019 (PSTY19), protocol 9: dual execution.
//!
//! **How.** The receiver's stash has a fixed number of places, filled up with random strings that are nobody's items.
//! 1. The *sender* puts its items into a cuckoo table, the receiver each place of its stash into three bins of it.
//! 2. The receiver is the sender of an OPPRF: all points of a bin have its random tag. A point also has a payload: a
//!    one in the bit of its place, under a mask of the bin.
//! 3. Equality gives shares of which bins match, b_i.
//! 4. *Folding.* Where bin i matches, the sender's payload y_i and the receiver's mask τ_i differ in the place whose
//!    item it is. So place j matches if Σ_i b_i·(y_ij ⊕ τ_ij) is 1: two products by shared bits per bin and place, one
//!    in each direction, and at most one term is 1. If the sender has payloads, the same terms, shared, select them:
//!    one more product for each field.
//!
//! The shares of all places are then like those of bins more: the receiver knows the item of each, and no function
//! needs to know of a stash. What the bins of the sender's table would tell the receiver, if it saw which of them
//! matches, stays hidden.
//!
//! **Security.** As the pipeline's, with the roles exchanged. Frames and their lengths depend on the number of places
//! only, and neither party sees how many are taken: the first execution asks as many queries as there are items
//! ([`bins`]), and a random string is no item's but with probability 2^-256.
//!
//! **λ.** The second OPPRF has a share as the others have ([`Plan::new`]). The table of the sender has room for all
//! items.
//!
//! **Deviations.** The second OPPRF has the OKVS hint where the paper has polynomials, on the OPRF of `vole` whatever the
//! recipe's is, and runs on all of the sender's items: the paper's fourth instance, of both stashes, is part of it. Its
//! third is for a stash of the hint of figure 3, whose table has room for all entries here. Folding is ours: the paper
//! hands all bins to the function.
//!
//! **Memory.** Some 60 bytes per place and bin of the sender's table.
//!
//! **Cost.** Another membership test, of 1.27 bins per item of the sender, while a stash saves 3 percent of the
//! receiver's bins at λ = 40 ([`cuckoo::Parameters`]), so it does not pay. To put all items of
//! the sender into one more bin per place costs less: 3 + t instead of 3 entries of the hint per item, and t more bins.
//!
//! [`cuckoo::Parameters`]: vesica_encodings::cuckoo::Parameters

use rand_core::CryptoRng;
use vesica_correlations::bulk::{self, SemiHonest};
use vesica_correlations::subfield::FromCots;
use vesica_encodings::{Entry, cuckoo};
use vesica_oprf::programmable::bins::{self, ReceiverBins, SenderBins};
use vesica_oprf::programmable::{OkvsHint, Opprf, Shape, Target};
use vesica_oprf::vole::Vole;
use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;
use vesica_psi::{Input, Item, Params};
use vesica_wire::{Channel, Error};
use zeroize::Zeroizing;

use super::payload::Form;
use super::{Plan, Received, Secret, Sent};
use crate::arithmetic::{Elements, Ends, Ring, Row};
use crate::bits::BitShares;
use crate::cost::{self, Cost};
use crate::cots::{ChoiceEnd, Direction, ValueEnd};

/// Maximum number of places of a stash.
pub const MAX_PLACES: usize = 64;

const OPPRF: Opprf<Vole, OkvsHint> = Opprf {
    oprf: Vole,
    hint: OkvsHint,
};

/// What both parties know of the second execution. In its parameters, the receiver is the one of the OPPRF: the sender
/// of the run.
pub(super) struct Second {
    params: Params,
    table: cuckoo::Parameters,
    shape: Shape,
    places: usize,
}

impl Second {
    /// For a stash of so many places, with λ.
    ///
    /// # Panics
    /// If there are more than [`MAX_PLACES`].
    pub(super) fn new(first: &Params, lambda: u32, places: usize) -> Second {
        assert!(places <= MAX_PLACES, "at most 64 places");
        let params = Params {
            lambda,
            receiver_size: first.sender_size,
            sender_size: places,
            session: Oracle::new("vesica/1 circuit stash", &first.session).hash(&[]),
            ..first.clone()
        };
        let (table, shape) = OPPRF
            .plan(&params, places as u32, bins::table)
            .expect("λ that the first execution allows");
        Second {
            params,
            table,
            shape,
            places,
        }
    }

    fn tag_bits(&self) -> u32 {
        self.shape.split.tag_bits
    }

    /// Cost of all but the OPPRF. The COTs of the reverse direction come from a source of their own.
    pub(super) fn cost(&self, form: &Form) -> Cost {
        let bins = self.shape.bins;
        let fields = form.fields().map(|(group, _)| group);
        cost::equality(bins, self.tag_bits()) + cost::fold(bins, self.places, fields)
    }

    /// The receiver of the run. Appends the shares of all places to those of the bins.
    pub(super) fn receive(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        plan: &Plan,
        mut stash: Vec<Item>,
        received: &mut Received,
    ) -> Result<(), Error> {
        channel.begin_phase("stash");
        // Step 1.
        stash.resize_with(self.places, || {
            let mut nobodys = [0; 32];
            rng.fill_bytes(&mut nobodys);
            nobodys
        });
        let points = SenderBins::new(&self.params, self.table, &stash);
        // Step 2.
        let tags = OPPRF.random_tags(&self.shape, rng);
        let masks = self.masks(rng);
        let entries = points.table.entries();
        let target = |bin: usize, point: usize, _| Target {
            tag: tags[bin],
            payload: Block::from(masks[bin] ^ 1 << entries[point].item()),
        };
        OPPRF.send(channel, &self.shape, &points.points, &target, rng)?;
        // Step 3.
        let engine = &mut received.engine;
        let matches = engine.equality(channel, rng, self.tag_bits(), &tags)?;
        // Step 4.
        let (session, cots) = self.reverse(plan);
        let optimize = plan.task.optimize;
        let reverse = bulk::Receiver::setup(
            channel,
            &session,
            SemiHonest,
            cots,
            optimize,
            plan.key_agreement,
            rng,
        )?;
        let reverse = FromCots::new(reverse);
        let mut reverse = ChoiceEnd::new(Direction::Reverse, &session, reverse);
        let own = BitsOfBins {
            words: &masks,
            matches: &matches,
            places: self.places,
        };
        let ends = Ends {
            value: &mut engine.main,
            choice: &mut reverse,
            direction: Direction::Main,
        };
        let found = own.found(ends, channel, rng)?;
        received.matches.append(&own.fold_bits(&found));
        let fields = plan.form.fields().zip(received.masked.fields_mut());
        for ((group, _), masked) in fields {
            let shares = reverse.multiply(channel, rng, group, &found)?;
            masked.extend(own.fold(group, &shares));
        }
        Ok(())
    }

    /// The sender of the run.
    pub(super) fn send(
        &self,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
        plan: &Plan,
        input: &Input<'_>,
        sent: &mut Sent,
    ) -> Result<(), Error> {
        channel.begin_phase("stash");
        // Step 1.
        let bins = ReceiverBins::new(&self.params, self.table, input.items)?;
        // Step 2.
        let strings = OPPRF.receive(channel, &self.shape, &bins.queries, rng)?;
        let payloads: Secret<u64> =
            Zeroizing::new(strings.payloads().iter().map(|p| *p as u64).collect());
        // Step 3.
        let engine = &mut sent.engine;
        let matches = engine.equality(channel, rng, self.tag_bits(), strings.tags())?;
        // Step 4.
        let (session, cots) = self.reverse(plan);
        let optimize = plan.task.optimize;
        let reverse = bulk::Sender::setup(
            channel,
            &session,
            SemiHonest,
            cots,
            optimize,
            plan.key_agreement,
            rng,
        )?;
        let reverse = FromCots::new(reverse);
        let mut reverse = ValueEnd::new(Direction::Reverse, &session, reverse);
        let own = BitsOfBins {
            words: &payloads,
            matches: &matches,
            places: self.places,
        };
        let ends = Ends {
            value: &mut reverse,
            choice: &mut engine.main,
            direction: Direction::Reverse,
        };
        let found = own.found(ends, channel, rng)?;
        sent.matches.append(&own.fold_bits(&found));
        let fields = plan.form.fields().zip(sent.masks.fields_mut());
        for (number, ((group, _), masks)) in fields.enumerate() {
            let of = |entry: Entry| plan.form.of_item(input, entry.item(), number);
            let of_bins = bins.table.bins().map(|entry| entry.map_or(0, of));
            let values: Secret<u64> = Zeroizing::new(of_bins.collect());
            let values = Zeroizing::new(values.repeat(self.places));
            let shares = reverse.select(channel, rng, group, &values, &found)?;
            // A mask is what the receiver has too much.
            let sums = own.fold(group, &shares);
            masks.extend(sums.map(|sum| group.reduce(0, group.negate(0, sum))));
        }
        Ok(())
    }

    /// A uniform mask per bin, with a bit for each place.
    fn masks(&self, rng: &mut dyn CryptoRng) -> Secret<u64> {
        let mut masks = Zeroizing::new(vec![0; self.shape.bins]);
        rng.fill_bytes(bytemuck::cast_slice_mut::<u64, u8>(&mut masks));
        let unused = MAX_PLACES - self.places;
        masks.iter_mut().for_each(|mask| *mask >>= unused);
        masks
    }

    /// The session of the COTs of the reverse direction, and their number.
    fn reverse(&self, plan: &Plan) -> ([u8; 32], usize) {
        let cots = self.cost(&plan.form).reverse_cots;
        (plan.derived("stash"), cots)
    }
}

/// What a party has of the bins of the sender's table.
pub(super) struct BitsOfBins<'a> {
    /// A word per bin: where the bin matches, the two parties' differ in the bit of its place alone.
    pub(super) words: &'a [u64],
    /// Shares of which bins match.
    pub(super) matches: &'a BitShares,
    pub(super) places: usize,
}

impl BitsOfBins<'_> {
    /// The shares of matches once for each place.
    fn all_matches(&self) -> BitShares {
        let bins = self.matches.len();
        BitShares::from_fn(self.places * bins, |i| self.matches.get(i % bins))
    }

    /// The bits of words, place by place.
    fn bits(&self) -> Secret<u64> {
        let places = 0..self.places;
        let bits = places.flat_map(|place| self.words.iter().map(move |word| word >> place & 1));
        Zeroizing::new(bits.collect())
    }

    /// Shares of whether a bin matches and is of a place, for each bin of each place.
    pub(super) fn found(
        &self,
        ends: Ends<'_>,
        channel: &mut dyn Channel,
        rng: &mut dyn CryptoRng,
    ) -> Result<BitShares, Error> {
        let (bit, matches) = (Ring::new(1), self.all_matches());
        let [ours, theirs] = ends.products(channel, rng, bit, &self.bits(), &matches)?;
        Ok(BitShares::from_fn(ours.len(), |i| ours[i] ^ theirs[i]))
    }

    /// The sum of the bits of each place.
    fn fold_bits(&self, bits: &BitShares) -> BitShares {
        let bins = self.matches.len();
        BitShares::from_fn(self.places, |place| {
            (place * bins..(place + 1) * bins).fold(0, |sum, i| sum ^ bits.get(i))
        })
    }

    /// The sum of the shares of each place.
    fn fold(&self, group: Row, shares: &[u64]) -> impl Iterator<Item = u64> {
        let places = shares.chunks_exact(self.matches.len());
        let sum = move |shares: &[u64]| {
            shares
                .iter()
                .fold(0, |sum, share| group.add(0, sum, *share))
        };
        places.map(move |shares| group.reduce(0, sum(shares)))
    }
}
