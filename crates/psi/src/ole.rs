//! Private set intersection from oblivious linear evaluation (OLE): hashing into bins, and a comparison of the items
//! of a bin that takes one multiplication once its tuple is prepared.
//!
//! **Paper.** F. Kerschbaum, E.-O. Blass, R. Akhavan Mahdavi, *Faster Secure Comparisons with Offline Phase for
//! Efficient Private Set Intersection*, NDSS 2023 (KBM23): algorithm 1, with the tuples of section III-C5.
//!
//! **Adversary.** Semi-honest. A malicious party can put values of its choice into bins: a receiver asks about as many
//! items as there are bins, and a sender answers so that what it likes seems to match.
//!
//! **What is revealed.** The sizes of both sets, which the contract tells anyway. The sender sees uniform numbers; the
//! receiver sees, apart from matches, uniform numbers. The place in which an item matched says nothing about the
//! sender's other items: the entries of a bin are rotated by a random number of places.
//!
//! **Algorithm 1**, on tuples with r = u·s + v (see [`ole`]):
//! 1. The receiver puts its items into a cuckoo table of α bins by permutation-based hashing ([`permuted`]), so that
//!    only the value of an item in its bin is compared, and fills other bins with a dummy.
//! 2. It sends c = s − x for the value x in each bin.
//! 3. The sender puts its items into all their bins, fills these up to β entries with another dummy, and sends d =
//!    u·(c + y) + v for each value y. That is r + u·(y − x): r if y = x, and otherwise uniform among all other numbers,
//!    since u is, except for 0.
//! 4. An item matches if some d of its bin is its r.
//!
//! **Items.** Numbers of a declared width are compared as they are, all others by a hash of λ + 1 + log₂(n_r·n_s) bits. So
//! narrow numbers are cheap: 14 bits per comparison for 2^20 items of 32 bits, where hashes take 63.
//!
//! **λ.** Hashes of different items collide with probability at most 2^-(λ+1), since their bits cost most. Three more
//! events share the rest ([`EVENTS`]): the receiver's items cannot all be placed; a bin of the sender has more than β
//! entries; the source of the tuples fails.
//!
//! **Deviations.** The permutations are four rounds of a Feistel network, not one, and the functions differ in all
//! rounds (that module says why). The two dummies are different values, which no item has: with equal ones the
//! receiver would count the sender's dummies. The sender multiplies by u and never divides. α and β meet 2^-λ at every
//! size. There is no stash.

use std::collections::BTreeSet;
use std::marker::PhantomData;

use rand_core::CryptoRng;
use vesica_correlations::ole::{self, BLOCK, Origin, Shape, Source};
pub use vesica_correlations::ole::{Dealer, Tee, lattice::Lattice, ot::Ot};
use vesica_encodings::cuckoo::{self, MAX_HASHES};
use vesica_encodings::permuted::{Functions, HASHES, Places};
use vesica_encodings::{Bins, Entry, permuted, simple};
use vesica_kernels::residues::{self, Modulus};
use vesica_kernels::{Backend, prefetch};
use vesica_oprf::halves;
use vesica_primitives::block::{Cipher, Prg};
use vesica_primitives::parallel;
use vesica_primitives::prime::uniform;
use vesica_primitives::security::lambda_each;
use vesica_wire::{
    Channel, End, Error, Frames, Kind, Limit, MAX_FRAME, Misbehaviour, Traffic, recv_exact,
};
use zeroize::Zeroizing;

use crate::masks::{Exchange, names};
use crate::{
    ExactLimits, Half, Input, ItemCost, Offline, Output, Params, PostQuantum, Prepared, Protocol,
    Reveal, Security, Spec, Task,
};

/// Frames with c of one block of bins.
pub const QUERIES: Kind = Kind {
    code: 110,
    name: "comparison queries",
};

/// Frames with d of some rows of a block.
pub const ANSWERS: Kind = Kind {
    code: 111,
    name: "comparison answers",
};

/// Frames with u and v of a block's checked bins.
pub const CHECKED: Kind = Kind {
    code: 112,
    name: "checked tuples",
};

/// Events other than collisions of hashes, which share half of 2^-λ.
pub const EVENTS: u32 = 3;

/// Maximum number of items of either side.
const MAX_ITEMS: u64 = 1 << 26;

/// Entries whose values are prefetched.
const AHEAD: usize = 16;

/// Version of how generators agree on seeds: from 2 on by ML-KEM too. A half is as secret as its seed, so that no run takes
/// one of another version.
const SEEDS_AGREED: u32 = 2;

/// Bits of security of each of the [`EVENTS`].
pub fn lambda_of_events(lambda: u32) -> u32 {
    lambda_each(lambda + 1, EVENTS)
}

/// Bits of a hashed item: items of the two sets collide with probability at most 2^-(λ+1).
pub fn hash_bits(lambda: u32, receiver_size: usize, sender_size: usize) -> u32 {
    let pairs = receiver_size.max(1) as u128 * sender_size.max(1) as u128;
    lambda + 1 + pairs.next_power_of_two().ilog2()
}

/// There are at least as many bins as this goes into the sender's size: a bin of more entries takes more memory at a
/// time, and no less traffic.
const MAX_LOAD: usize = 256;

/// The table: as many bins as the receiver needs for a placement, the sender for its load, and the source for its cost.
/// Also whether the first are in proportion to its items; for few items and a large λ they are not, and the table has
/// fewer.
fn parameters<S: Source>(sizes: [usize; 2], each: u32) -> (cuckoo::Parameters, bool) {
    let [receiver_size, sender_size] = sizes;
    let most = (64 * receiver_size + (1 << 18)).min(u32::MAX as usize);
    let needed = cuckoo::Parameters::that_may_agree(receiver_size, each);
    let needed = needed.map_or(usize::MAX, |parameters| parameters.bins);
    let bins = needed.min(most).max(S::MIN_BINS);
    let bins = bins.max(sender_size.div_ceil(MAX_LOAD));
    let parameters = cuckoo::Parameters::with_bins(receiver_size, HASHES, bins);
    (parameters, needed <= most)
}

/// Of dealt tuples, the number of bins that a run checks and does not use, for so many that it uses.
const fn checked_bins(bins: usize) -> usize {
    64 + bins / 64
}

/// `count` of `bins` bins, ascending: any as likely as others, and the same for both parties.
fn choose(count: usize, bins: usize, session: &[u8; 32]) -> Vec<u32> {
    let mut seed = [0];
    Cipher::public("vesica/1 checked bins", session).encrypt(&mut seed);
    let mut prg = Prg::new(seed[0]);
    let mut chosen = BTreeSet::new();
    while chosen.len() < count {
        let mut drawn = vec![0; count - chosen.len()];
        uniform(&mut prg, 0, bins as u64, &mut drawn);
        chosen.extend(drawn.iter().map(|bin| *bin as u32));
    }
    chosen.into_iter().collect()
}

/// What both parties know of a run.
struct Plan {
    functions: Functions,
    /// Bits of an item.
    width: u32,
    shape: Shape,
    /// Bins of dealt tuples that hold no item and whose tuples are checked, ascending.
    checked: Vec<u32>,
}

impl Plan {
    /// For numbers of `exact` bits, or hashes; `None` if these are too long for any modulus of the source, or there
    /// would be too many bins.
    fn new<S: Source>(
        sizes: [usize; 2],
        exact: Option<u32>,
        lambda: u32,
        session: &[u8; 32],
    ) -> Option<Plan> {
        let [receiver_size, sender_size] = sizes;
        let each = lambda_of_events(lambda);
        let width = exact.unwrap_or(hash_bits(lambda, receiver_size, sender_size));
        let (parameters, in_proportion) = parameters::<S>(sizes, each);
        let fits = width < u128::BITS && permuted::suffixes(parameters, width) < 1 << 61;
        if !(in_proportion && fits) {
            return None;
        }
        let functions = Functions::new(parameters, width, session);
        // No more than there are values.
        let per_bin = simple::most_entries_that_may_agree(sender_size, &parameters, each);
        let per_bin = per_bin.min(functions.values().try_into().unwrap_or(usize::MAX));
        let bins = match S::ORIGIN.is_dealt() {
            true => parameters.bins + checked_bins(parameters.bins),
            false => parameters.bins,
        };
        // Two more values for the dummies.
        let modulus = S::modulus(functions.values() + 2, bins, per_bin, each)?;
        let shape = Shape {
            modulus,
            bins,
            per_bin,
        };
        Some(Plan {
            functions,
            width,
            shape,
            checked: Vec::new(),
        })
    }

    /// For numbers of so many bits, or for hashes.
    fn of<S: Source>(params: &Params, bits: Option<u32>) -> Result<Plan, Error> {
        let sizes = [params.receiver_size, params.sender_size];
        let plan = Plan::new::<S>(sizes, bits, params.lambda, &params.session);
        let plan = plan.ok_or_else(|| {
            let reason = format!("no tuples for items so long at lambda {}", params.lambda);
            Error::limit(Limit::Keys, reason)
        })?;
        let bins = plan.shape.bins;
        let checked = bins - plan.functions.parameters().bins;
        Ok(Plan {
            checked: choose(checked, bins, &params.session),
            ..plan
        })
    }

    /// The bins of dealt tuples that are not checked, ascending.
    fn used(&self) -> Vec<u32> {
        let mut checked = self.checked.iter().peekable();
        let is_used = |bin: &u32| checked.next_if_eq(&bin).is_none();
        (0..self.shape.bins as u32).filter(is_used).collect()
    }

    /// The checked bins of a block, counted from its first.
    fn checked(&self, block: usize) -> Vec<usize> {
        let [first, end] = [block, block + 1].map(|block| (block * BLOCK) as u32);
        let begin = self.checked.partition_point(|bin| *bin < first);
        let checked = self.checked[begin..].iter().take_while(|bin| **bin < end);
        checked.map(|bin| (bin - first) as usize).collect()
    }

    /// The items as numbers of so many bits.
    fn numbers(&self, input: &Input<'_>) -> Zeroizing<Vec<u128>> {
        Zeroizing::new(match input.exact {
            Some(exact) => exact
                .numbers
                .iter()
                .map(|number| u128::from(*number))
                .collect(),
            None => {
                let mask = (1 << self.width) - 1;
                input
                    .items
                    .iter()
                    .map(|item| halves(item)[0] & mask)
                    .collect()
            }
        })
    }

    /// Where each item may be. Padding is hashed too, so that the time does not tell how much of it there is.
    fn places(&self, input: &Input<'_>) -> Vec<Places> {
        let mut numbers = self.numbers(input);
        let count = numbers.len();
        numbers.resize(input.items.len(), 0);
        let mut places = vec![Places::default(); numbers.len()];
        let blocks = places.chunks_mut(BLOCK).zip(numbers.chunks(BLOCK));
        parallel::each(blocks, |(places, numbers)| {
            self.functions.places(numbers, places);
        });
        if !self.checked.is_empty() {
            let used = self.used();
            parallel::each_item(&mut places, |_, places| {
                places.bins[..HASHES]
                    .iter_mut()
                    .for_each(|bin| *bin = used[*bin as usize]);
            });
        }
        places.truncate(count);
        places
    }

    /// What the receiver compares in a bin without an item. The sender's dummy is one more.
    fn dummy(&self) -> u64 {
        self.functions.values()
    }

    /// Bytes of u and v of a block's checked bins, in one row.
    fn checked_bytes(&self, block: usize) -> usize {
        2 * self.shape.modulus.bytes(self.checked(block).len())
    }

    /// The first row and the number of rows in each frame, if a row has so many bytes.
    fn frames(&self, row_bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        let (rows, per_frame) = (self.shape.per_bin, MAX_FRAME / row_bytes);
        let first = (0..rows).step_by(per_frame);
        first.map(move |first| (first, per_frame.min(rows - first)))
    }
}

fn packed(modulus: Modulus, values: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; modulus.bytes(values.len())];
    residues::pack(Backend::Best, modulus, values, &mut bytes);
    bytes
}

fn row(width: usize) -> Zeroizing<Vec<u64>> {
    Zeroizing::new(vec![0; width])
}

/// The receiver with its tuples.
struct Receiver {
    plan: Plan,
    half: ole::ReceiverHalf,
    places: Vec<Places>,
    table: cuckoo::Table,
}

impl Receiver {
    /// Step 1.
    fn new(plan: Plan, half: ole::ReceiverHalf, input: &Input<'_>) -> Result<Self, Error> {
        let places = plan.places(input);
        let bins: Vec<[u32; MAX_HASHES]> = places.iter().map(|places| places.bins).collect();
        let parameters = cuckoo::Parameters::with_bins(bins.len(), HASHES, plan.shape.bins);
        let table = cuckoo::Table::place(parameters, &bins)
            .map_err(|_| Error::limit(Limit::Encoding, "the items cannot be placed; run again"))?;
        Ok(Receiver {
            plan,
            half,
            places,
            table,
        })
    }

    /// Step 2 for one block.
    fn queries(&self, block: usize) -> Vec<u8> {
        let Shape { modulus, .. } = self.plan.shape;
        let width = self.plan.shape.width(block);
        let mut c = row(width);
        self.half.s(block, &mut c);
        for (i, c) in c.iter_mut().enumerate() {
            let value = match self.table.bin(block * BLOCK + i) {
                Some(entry) => self.places[entry.item()].values[entry.function()],
                None => self.plan.dummy(),
            };
            *c = modulus.minus(*c, value);
        }
        packed(modulus, &c)
    }

    /// The check of dealt tuples in some rows of a block, the first of which is number `first`.
    fn check(&self, block: usize, first: usize, checked: &[u8]) -> Result<(), Error> {
        let Shape { modulus, .. } = self.plan.shape;
        let bins = self.plan.checked(block);
        let width = self.plan.shape.width(block);
        let [mut s, mut row] = [(); 2].map(|()| row(width));
        self.half.s(block, &mut s);
        let [mut u, mut v] = [(); 2].map(|()| vec![0; bins.len()]);
        let s: Vec<u64> = bins.iter().map(|bin| s[*bin]).collect();
        let (zero, mut r) = (vec![0; bins.len()], vec![0; bins.len()]);
        let each = self.plan.checked_bytes(block);
        for (number, tuples) in (first..).zip(checked.chunks_exact(each)) {
            let (packed_u, packed_v) = tuples.split_at(each / 2);
            ole::unpack(CHECKED, modulus, packed_u, &mut u)?;
            ole::unpack(CHECKED, modulus, packed_v, &mut v)?;
            residues::evaluate(Backend::Best, modulus, &u, &s, &zero, &v, &mut r);
            self.half.r().get(block, number, &mut row);
            if bins.iter().zip(&r).any(|(bin, r)| row[*bin] != *r) {
                return Err(Misbehaviour::BadValue {
                    what: CHECKED.name,
                    problem: "do not fit this side's: who dealt them erred, or the peer",
                }
                .into());
            }
        }
        Ok(())
    }

    /// Step 4 for some rows of a block, the first of which is number `first`: marks the bins that match.
    fn compare(
        &self,
        block: usize,
        first: usize,
        rows: &[u8],
        found: &mut [u64],
    ) -> Result<(), Error> {
        let [mut r, mut d] = [row(found.len()), row(found.len())];
        let each = self.plan.shape.row_bytes(block);
        for (number, bytes) in (first..).zip(rows.chunks_exact(each)) {
            ole::unpack(ANSWERS, self.plan.shape.modulus, bytes, &mut d)?;
            self.half.r().get(block, number, &mut r);
            residues::mark_equal(Backend::Best, &r, &d, found);
        }
        Ok(())
    }

    /// For each item whether it matched, from the marks of all bins. The time does not depend on the marks.
    fn matches(&self, found: &[u64], items: usize) -> Vec<bool> {
        let mut matched = vec![false; items];
        for (entry, found) in self.table.bins().zip(found) {
            if let Some(entry) = entry {
                matched[entry.item()] = *found != 0;
            }
        }
        matched
    }
}

/// The sender with its tuples.
struct Sender {
    plan: Plan,
    half: ole::SenderHalf,
    places: Vec<Places>,
    table: Bins,
    /// For each bin, the place of its first entry.
    rotations: Vec<u64>,
}

impl Sender {
    /// Step 3: the table.
    fn new(
        plan: Plan,
        half: ole::SenderHalf,
        input: &Input<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let places = plan.places(input);
        let bins = |item: usize| &places[item].bins;
        let table = simple::table_of(plan.shape.bins, HASHES, places.len(), bins);
        if table.fullest() > plan.shape.per_bin {
            return Err(Error::limit(
                Limit::Encoding,
                "too many items fell into one bin; run again",
            ));
        }
        let mut rotations = vec![0; plan.shape.bins];
        let end = plan.shape.per_bin.max(1) as u64;
        uniform(&mut Prg::random(rng), 0, end, &mut rotations);
        Ok(Sender {
            plan,
            half,
            places,
            table,
            rotations,
        })
    }

    /// Step 3: all rows of a block, packed; and before them, for each row, u and v of the checked bins. The receiver may
    /// know those, since no item is in these bins.
    fn answers(&self, block: usize, queries: &[u8]) -> Result<[Vec<u8>; 2], Error> {
        let shape = self.plan.shape;
        let width = shape.width(block);
        let mut c = row(width);
        ole::unpack(QUERIES, shape.modulus, queries, &mut c)?;
        let y = self.values(block);
        let [mut u, mut v, mut d] = [row(width), row(width), row(width)];
        let each = shape.row_bytes(block);
        let bins = self.plan.checked(block);
        let (mut checked, mut out) = (Vec::new(), vec![0; each * shape.per_bin]);
        for (number, (y, out)) in y
            .chunks_exact(width)
            .zip(out.chunks_exact_mut(each))
            .enumerate()
        {
            self.half.u(block, number, &mut u);
            self.half.v(block, number, &mut v);
            for tuples in [&u, &v] {
                let shown: Vec<u64> = bins.iter().map(|bin| tuples[*bin]).collect();
                checked.extend(packed(shape.modulus, &shown));
            }
            residues::evaluate(Backend::Best, shape.modulus, &u, &c, y, &v, &mut d);
            residues::pack(Backend::Best, shape.modulus, &d, out);
        }
        Ok([checked, out])
    }

    /// The values of a block's bins, row by row.
    fn values(&self, block: usize) -> Zeroizing<Vec<u64>> {
        let shape = self.plan.shape;
        let width = shape.width(block);
        let mut rows = Zeroizing::new(vec![self.plan.dummy() + 1; width * shape.per_bin]);
        for i in 0..width {
            let bin = block * BLOCK + i;
            let begin = self.table.begin(bin);
            for (rank, entry) in self.table.bin(bin).iter().enumerate() {
                if let Some(later) = self.table.entries().get(begin + rank + AHEAD) {
                    prefetch(&self.places, later.item());
                }
                let place = rank + self.rotations[bin] as usize;
                let place = if place < shape.per_bin {
                    place
                } else {
                    place - shape.per_bin
                };
                rows[place * width + i] = self.value(*entry);
            }
        }
        rows
    }

    fn value(&self, entry: Entry) -> u64 {
        self.places[entry.item()].values[entry.function()]
    }
}

/// The protocol, with tuples from `S`.
pub struct Ole<S>(PhantomData<fn() -> S>);

impl<S: Source> Ole<S> {
    /// The protocol.
    pub const fn new() -> Self {
        Ole(PhantomData)
    }

    /// How many tuples a run takes, and modulo what, for items of so many bits or for hashes.
    ///
    /// # Errors
    /// [`Limit::Keys`] if the items are too long for any modulus of the source.
    pub fn shape(params: &Params, bits: Option<u32>) -> Result<Shape, Error> {
        Ok(Plan::of::<S>(params, bits)?.shape)
    }

    const SPEC: Spec = Spec {
        name: S::PROTOCOL,
        source: "KBM23, algorithm 1",
        security: Security::SemiHonest,
        cheaper: None,
        post_quantum: match S::HAS_BASE_TRANSFERS {
            true => PostQuantum::OnRequest,
            false => PostQuantum::Always,
        },
        max_items: MAX_ITEMS,
        max_lambda: |receiver_size, sender_size| {
            Some(max_lambda::<S>(receiver_size, sender_size, None))
        },
        item_cost: ItemCost {
            bytes: 4096,
            aes_blocks: 100_000,
        },
        working_bytes: |receiver_size, sender_size| {
            // No hash is longer at any λ for which there is a plan.
            let lambda = 61_u32.saturating_sub(sender_size.max(2).ilog2());
            let sizes = [receiver_size, sender_size];
            working_bytes::<S>(sizes, residues::MAX_BITS, lambda.max(40))
        },
        exact: Some(ExactLimits {
            max_bits: 64,
            max_lambda: |receiver_size, sender_size, bits| {
                max_lambda::<S>(receiver_size, sender_size, Some(bits))
            },
            working_bytes: |receiver_size, sender_size, bits, lambda| {
                let bins = receiver_size.max(1).ilog2();
                let bits = (bits.saturating_sub(bins) + 4).clamp(17, residues::MAX_BITS);
                working_bytes::<S>([receiver_size, sender_size], bits, lambda)
            },
        }),
    };
}

impl<S: Source> Default for Ole<S> {
    fn default() -> Self {
        Ole::new()
    }
}

/// The exchange of names by which the sender learns the matches too.
fn names_exchange(params: &Params) -> Exchange {
    Exchange {
        width: 128,
        sender_size: params.sender_size,
        masks_per_item: HASHES,
        receiver_size: params.receiver_size,
        both: true,
    }
}

/// A λ for which there is a plan, and for all from 40 up to it; less than 40 if there is none for 40.
fn max_lambda<S: Source>(receiver_size: u64, sender_size: u64, exact: Option<u32>) -> u32 {
    let sizes = [receiver_size, sender_size].map(|size| size.min(MAX_ITEMS) as usize);
    let fits = |lambda: &u32| Plan::new::<S>(sizes, exact, *lambda, &[0; 32]).is_some();
    match (40..=S::MAX_LAMBDA).take_while(fits).last() {
        Some(most) => most,
        None => (1..40).rev().find(fits).unwrap_or(0),
    }
}

/// Items, places and tables of some 150 bytes per item, 16 per bin, and the tuples: a packed value per comparison.
fn working_bytes<S: Source>(sizes: [u64; 2], bits: u32, lambda: u32) -> u64 {
    let limited = sizes.map(|size| size.min(MAX_ITEMS) as usize);
    let each = lambda_of_events(lambda.min(S::MAX_LAMBDA));
    let (parameters, _) = parameters::<S>(limited, each);
    let bins = parameters.bins as u64;
    let per_bin = simple::most_entries_that_may_agree(limited[1], &parameters, each) as u64;
    let tuples = bins.saturating_mul(16 + per_bin * (u64::from(bits) / 8 + 1));
    let items = sizes[0].saturating_add(sizes[1]).saturating_mul(150);
    items.saturating_add(tuples)
}

impl<S: Source> Protocol for Ole<S> {
    fn spec(&self) -> &'static Spec {
        const { &Self::SPEC }
    }

    fn reveals(&self) -> &'static [Reveal] {
        &[Reveal::Matches]
    }

    fn traffic(
        &self,
        params: &Params,
        task: &Task,
        exact: Option<u32>,
        is_stored: bool,
    ) -> Option<Traffic> {
        let plan = Plan::of::<S>(params, exact).ok()?;
        let shape = plan.shape;
        let mut traffic = Traffic::default();
        match (is_stored, S::ORIGIN.is_dealt()) {
            (true, _) => {}
            (false, true) => return None,
            (false, false) => {
                S::traffic(
                    &mut traffic,
                    shape,
                    lambda_of_events(params.lambda),
                    params.key_agreement,
                )?;
            }
        }
        let rows = |each: usize| match each {
            0 => Frames::default(),
            _ => Frames::rows(shape.per_bin, each),
        };
        let (mut queries, mut answers) = (Frames::default(), Frames::default());
        for block in 0..shape.blocks() {
            queries += Frames::one(shape.row_bytes(block));
            answers += rows(plan.checked_bytes(block)) + rows(shape.row_bytes(block));
        }
        traffic.flow(End::Receiver, queries);
        traffic.flow(End::Sender, answers);
        if task.both {
            traffic.flow(End::Receiver, names::frames(&names_exchange(params)));
        }
        Some(traffic)
    }

    fn prepare(&self, _: usize, _: &mut dyn CryptoRng) -> Prepared {
        Prepared::nothing()
    }

    fn offline(&self) -> Option<&dyn Offline> {
        Some(self)
    }

    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        assert!(
            task.reveal == Reveal::Matches && task.min_size == 0,
            "{task:?}"
        );
        let plan = Plan::of::<S>(params, input.exact.map(|exact| exact.bits))?;
        let shape = plan.shape;
        channel.begin_phase("offline");
        let lambda = lambda_of_events(params.lambda);
        let half = match prepared.stored() {
            Some(half) => half,
            None => S::receive(
                channel,
                shape,
                lambda,
                params.key_agreement,
                &params.session,
                rng,
            )?,
        };
        channel.begin_phase("tables");
        let receiver = Receiver::new(plan, half, &input)?;
        channel.begin_phase("comparison");
        for block in 0..shape.blocks() {
            channel.send(QUERIES, receiver.queries(block))?;
        }
        let mut found = vec![0; shape.bins];
        for (block, found) in found.chunks_mut(BLOCK).enumerate() {
            let plan = &receiver.plan;
            let each = plan.checked_bytes(block);
            if each > 0 {
                for (first, rows) in plan.frames(each) {
                    let frame = recv_exact(channel, CHECKED, rows * each)?;
                    receiver.check(block, first, &frame)?;
                }
            }
            let each = shape.row_bytes(block);
            for (first, rows) in plan.frames(each) {
                let frame = recv_exact(channel, ANSWERS, rows * each)?;
                receiver.compare(block, first, &frame, found)?;
            }
            channel.progress(block as u64 + 1, shape.blocks() as u64);
        }
        let matched = receiver.matches(&found, input.items.len());
        if task.both {
            let exchange = names_exchange(params);
            names::send(&exchange, channel, &params.session, input.items, &matched)?;
        }
        channel.flush()?;
        Ok(Output::Matches(matched))
    }

    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        assert!(
            task.reveal == Reveal::Matches && task.min_size == 0,
            "{task:?}"
        );
        let plan = Plan::of::<S>(params, input.exact.map(|exact| exact.bits))?;
        let shape = plan.shape;
        channel.begin_phase("offline");
        let lambda = lambda_of_events(params.lambda);
        let half = match prepared.stored() {
            Some(half) => half,
            None => S::send(
                channel,
                shape,
                lambda,
                params.key_agreement,
                &params.session,
                rng,
            )?,
        };
        channel.begin_phase("tables");
        let sender = Sender::new(plan, half, &input, rng)?;
        channel.begin_phase("comparison");
        // All queries first: they are few beside the answers, and neither side waits for the other while both send.
        let queries: Vec<Vec<u8>> = (0..shape.blocks())
            .map(|block| recv_exact(channel, QUERIES, shape.row_bytes(block)))
            .collect::<Result<_, _>>()?;
        let together = rayon::current_num_threads();
        for (batch, queries) in queries.chunks(together).enumerate() {
            let first = batch * together;
            let answers = parallel::map(queries.iter().enumerate(), |(i, queries)| {
                sender.answers(first + i, queries)
            });
            for (block, answers) in (first..).zip(answers) {
                let [checked, answers] = answers?;
                let plan = &sender.plan;
                let mut send = |kind, bytes: &[u8], each| {
                    plan.frames(each).try_for_each(|(first, rows)| {
                        channel.send(kind, bytes[first * each..][..rows * each].to_vec())
                    })
                };
                if !checked.is_empty() {
                    send(CHECKED, &checked, plan.checked_bytes(block))?;
                }
                send(ANSWERS, &answers, shape.row_bytes(block))?;
                channel.progress(block as u64 + 1, shape.blocks() as u64);
            }
        }
        channel.flush()?;
        if !task.both {
            return Ok(Output::Nothing);
        }
        let exchange = names_exchange(params);
        let matched = names::receive(&exchange, channel, &params.session, input.items)?;
        Ok(Output::Matches(matched))
    }
}

impl<S: Source> Offline for Ole<S> {
    fn origin(&self) -> Origin {
        S::ORIGIN
    }

    fn make(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        bits: Option<u32>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let shape = Plan::of::<S>(params, bits)?.shape;
        let lambda = lambda_of_events(params.lambda);
        channel.begin_phase("offline");
        let (session, agreement) = (&params.session, params.key_agreement);
        Ok(match half {
            Half::Receiver => {
                S::receive(channel, shape, lambda, agreement, session, rng)?.into_bytes()
            }
            Half::Sender => S::send(channel, shape, lambda, agreement, session, rng)?.into_bytes(),
        })
    }

    fn deal(
        &self,
        params: &Params,
        bits: Option<u32>,
        rng: &mut dyn CryptoRng,
    ) -> Result<[Zeroizing<Vec<u8>>; 2], Error> {
        let (receiver, sender) = ole::deal(Self::shape(params, bits)?, rng);
        Ok([receiver.into_bytes(), sender.into_bytes()])
    }

    fn deal_half(
        &self,
        half: Half,
        params: &Params,
        bits: Option<u32>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let shape = Self::shape(params, bits)?;
        Ok(match half {
            Half::Receiver => ole::deal(shape, rng).0.into_bytes(),
            Half::Sender => ole::deal_sender(shape, rng).into_bytes(),
        })
    }

    fn layout(&self, params: &Params, bits: Option<u32>) -> Result<String, Error> {
        let shape = Self::shape(params, bits)?;
        let (bins, per_bin) = (shape.bins, shape.per_bin);
        let expansion = match S::ORIGIN {
            Origin::Generators => format!("{}.{SEEDS_AGREED}", ole::EXPANSION),
            _ => ole::EXPANSION.to_string(),
        };
        Ok(format!(
            "{expansion} {bins} {per_bin} {}",
            shape.modulus.get()
        ))
    }

    fn dealt_bytes(&self, half: Half, params: &Params, bits: Option<u32>) -> Result<usize, Error> {
        let rows = match half {
            Half::Receiver => Self::shape(params, bits)?.bytes(),
            Half::Sender => 0,
        };
        Ok(rows + ole::SEED_BYTES)
    }

    fn load(
        &self,
        half: Half,
        params: &Params,
        bits: Option<u32>,
        bytes: Zeroizing<Vec<u8>>,
    ) -> Option<Prepared> {
        let shape = Self::shape(params, bits).ok()?;
        match half {
            Half::Receiver => ole::ReceiverHalf::from_bytes(shape, bytes).map(Prepared::new),
            Half::Sender => ole::SenderHalf::from_bytes(shape, bytes).map(Prepared::new),
        }
    }
}

#[cfg(test)]
mod tests;
