//! What a protocol is, and plain private set intersection: a multi-point oblivious pseudorandom function
//! (OPRF) followed by a comparison of masks.
//!
//! A [`Protocol`] runs between two parties whose contract is agreed. The receiver learns what the [`Task`]
//! says; the sender learns nothing but sizes, unless both learn the result. [`MaskExchange`] turns every
//! [`Oprf`] into a protocol.

/// The README, whose example has to compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Declares the list of protocols that are no mask exchanges.
macro_rules! protocols {
    ($($module:ident: $($protocol:expr),+;)+) => {
        /// The protocols of this crate but for mask exchanges.
        pub static PROTOCOLS: &[&dyn Protocol] = &[$($({ use $module::*; &$protocol }),+),+];
    };
}

protocols! {
    ole: Ole::<Lattice>::new(), Ole::<Ot>::new(), Ole::<Dealer>::new(), Ole::<Tee>::new();
}

macro_rules! mask_exchanges {
    ($($module:ident: $($oprf:expr),+;)+) => {
        &[$($({ use vesica_oprf::$module::*; &MaskExchange($oprf) }),+),+]
    };
}

/// The mask exchange of every OPRF.
pub static MASK_EXCHANGES: &[&dyn Protocol] = vesica_oprf::for_oprfs!(mask_exchanges);

mod groups;
pub mod masks;
pub mod ole;
mod reveal;

use std::any::Any;

use rand_core::CryptoRng;
pub use vesica_correlations::bulk::Optimize;
pub use vesica_correlations::ole::Origin;
pub use vesica_oprf::{ExactLimits, Item, ItemCost, Oprf, Params, PostQuantum, Spec};
use vesica_primitives::oracle::Oracle;
pub use vesica_primitives::security::{KeyAgreement, Security, lambda_each};
use vesica_wire::{Channel, Error, Traffic};
use zeroize::{Zeroize, Zeroizing};

pub use groups::{
    Capacities, GroupMinimum, Groups, MAX_GROUP_WIRES, MAX_GROUPS, MAX_HIDDEN_GROUPS, NO_GROUP,
    PADDING_GROUP,
};
pub use masks::MaskExchange;
pub use ole::Ole;
pub use reveal::{MAX_VALUE_COLUMNS, Reveal, Reveals, Values};

/// What the parties of a run want to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// What the receiver learns.
    pub reveal: Reveals,
    /// Whether the receiver tells the sender the result.
    pub both: bool,
    /// The receiver learns the result only if at least this many items match, and otherwise only that fewer do. Where
    /// values are added up, items whose value is 0 do not count. Several numbers are told together, or none of them: as
    /// many items have to count for each.
    pub min_size: u64,
    /// How many values each party has for each of its items.
    pub values: Values,
    /// Bytes of the label that the sender hands over with each item that matches, or, in a union, that does not; 0 if it hands
    /// over none.
    pub label_bytes: usize,
    /// Bytes of the string that each party has for each of its items, of which both get shares.
    pub string_bytes: StringBytes,
    /// What to save where a protocol can choose.
    pub optimize: Optimize,
    /// Into how many parts the run is cut, each over as many items on either side. In a part each party gets shares of its
    /// numbers; what the receiver learns are the numbers of all parts together, or which items match if enough do in all
    /// parts together ([`AddsUp`]).
    pub parts: u32,
    /// How far the noise of both parties can lie from 0 in a size, and in a count that is compared with a minimum; 0 where
    /// neither adds any. Sizes and counts have room for it. The numbers that are opened are then from the negative of this
    /// on, and whoever calls [`AddsUp::open`] adds its noise to its shares.
    pub noise_span: u64,
    /// The groups of the receiver's items, if there are numbers of each. Such a task is not for both parties, and needs no
    /// values of the sender.
    pub groups: Option<Groups>,
}

impl Task {
    /// What needs nothing but items, for the receiver alone.
    pub fn new(reveal: impl Into<Reveals>) -> Task {
        Task {
            reveal: reveal.into(),
            both: false,
            min_size: 0,
            values: Values::NONE,
            label_bytes: 0,
            string_bytes: StringBytes::default(),
            optimize: Optimize::Time,
            parts: 1,
            noise_span: 0,
            groups: None,
        }
    }

    /// How many groups there are; one, of all items, if the receiver does not divide them.
    pub fn group_count(&self) -> usize {
        self.groups.as_ref().map_or(1, |groups| groups.count)
    }
}

/// Maximum bytes of a string of which both parties get shares: each crosses the wire some seven times for an item.
pub const MAX_STRING_BYTES: usize = 256;

/// Bytes of a string for each item of each party, at most [`MAX_STRING_BYTES`]; 0 where it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StringBytes {
    /// Of the receiver.
    pub receiver: usize,
    /// Of the sender.
    pub sender: usize,
}

/// One party's set.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Input<'a> {
    /// Its items, each once.
    pub items: &'a [Item],
    /// The items as numbers, in the same order, if the contract says that they are and the protocol makes use of it.
    /// Padding is no number, and comes last among the items.
    pub exact: Option<Exact<'a>>,
    /// The values of each item, one item's after the other's, if this party has values: as many as [`Task::values`] says.
    /// The contract bounds them so that no result exceeds 63 bits and a sign.
    pub values: Option<&'a [i64]>,
    /// The label of each item, one after the other, on a sender that hands over labels; or the string of each, of which
    /// both parties get shares. In a union, items beyond the last label pad the set.
    pub labels: Option<&'a [u8]>,
    /// The group of each item, counted from 0, on a receiver that divides its items; [`NO_GROUP`] if it is in none, and
    /// [`PADDING_GROUP`] if it pads the set.
    pub groups: Option<&'a [u32]>,
}

vesica_primitives::opaque!(Input<'_>);

impl<'a> Input<'a> {
    /// Items alone.
    pub fn new(items: &'a [Item]) -> Input<'a> {
        Input {
            items,
            exact: None,
            values: None,
            labels: None,
            groups: None,
        }
    }

    /// Items, with values for each if this party has values.
    ///
    /// # Panics
    /// If the items do not have equally many values.
    pub fn with_values(items: &'a [Item], values: Option<&'a [i64]>) -> Input<'a> {
        let each = |values: &[i64]| {
            values
                .len()
                .checked_rem(items.len())
                .unwrap_or(values.len())
        };
        assert!(values.is_none_or(|values| each(values) == 0));
        Input {
            values,
            ..Input::new(items)
        }
    }

    /// The same with labels, one after the other.
    pub fn with_labels(self, labels: Option<&'a [u8]>) -> Input<'a> {
        Input { labels, ..self }
    }

    /// The same with the group of each item.
    pub fn with_groups(self, groups: Option<&'a [u32]>) -> Self {
        Input { groups, ..self }
    }

    /// The same with numbers.
    ///
    /// # Panics
    /// If there are more numbers than items.
    pub fn with_exact(self, exact: Exact<'a>) -> Input<'a> {
        assert!(exact.numbers.len() <= self.items.len());
        Input {
            exact: Some(exact),
            ..self
        }
    }
}

/// Items that are numbers of a declared width.
#[derive(Clone, Copy)]
pub struct Exact<'a> {
    /// Bits of a number, at most 64.
    pub bits: u32,
    /// The numbers.
    pub numbers: &'a [u64],
}

vesica_primitives::opaque!(Exact<'_>, bits);

/// What one party of a run has learnt.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Output {
    /// Nothing: this party does not learn the result.
    Nothing,
    /// For each of its items, in order, whether the peer also holds it.
    Matches(Vec<bool>),
    /// The same with the labels that the sender has handed over.
    Labelled {
        /// For each of its items, in order, whether the peer also holds it.
        matched: Vec<bool>,
        /// For each of its items the label of the peer's; zeros where it does not match.
        labels: Zeroizing<Vec<u8>>,
        /// Bytes of a label.
        bytes: usize,
    },
    /// Numbers, such as the size of the intersection, in the order of [`Reveals::numbers`].
    Values(Vec<i128>),
    /// The same of each group of the receiver's items; `None` for a group of which they are withheld.
    Groups(Vec<Option<Vec<i128>>>),
    /// Fewer items match than this number, those of value 0 not counted, or for one of several numbers fewer do; nothing else
    /// is learnt.
    Below(u64),
    /// This party's shares, of which it learns nothing.
    Shares(Shares),
    /// The rows of the sender that this party lacks.
    Rows(RowSlots),
    /// Ids of this party's items among those of both parties'.
    Spine(Spine),
    /// This party's shares of the numbers of a part, modulo 2^64 each, of which it learns nothing. [`AddsUp::open`] opens
    /// the sums of those of all parts.
    NumberShares(Zeroizing<Vec<u64>>),
}

/// Without what was learnt.
impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Output::Nothing => "Nothing",
            Output::Matches(_) => "Matches",
            Output::Labelled { .. } => "Labelled",
            Output::Values(_) => "Values",
            Output::Groups(_) => "Groups",
            Output::Below(_) => "Below",
            Output::Shares(_) => "Shares",
            Output::Rows(_) => "Rows",
            Output::Spine(_) => "Spine",
            Output::NumberShares(_) => "NumberShares",
        })
    }
}

impl Output {
    /// For each of the party's items, in order, whether the peer also holds it, if it learns that.
    pub fn matched(&self) -> Option<&[bool]> {
        match self {
            Output::Matches(matched) | Output::Labelled { matched, .. } => Some(matched),
            Output::Nothing
            | Output::Values(_)
            | Output::Groups(_)
            | Output::Below(_)
            | Output::Shares(_)
            | Output::Rows(_)
            | Output::Spine(_)
            | Output::NumberShares(_) => None,
        }
    }
}

/// Slots of the rows that a sender hands over, one for each of its items and of what pads them, in random order. Those without a
/// row are uniform.
#[derive(Clone, PartialEq, Eq)]
pub struct RowSlots {
    /// Bytes of a slot, at least one.
    pub bytes: usize,
    /// What is in the slots.
    pub contents: Zeroizing<Vec<u8>>,
    /// For each whether that is a row.
    pub is_row: Zeroizing<Vec<bool>>,
}

vesica_primitives::opaque!(RowSlots);

impl RowSlots {
    /// None yet, with room for so many.
    pub fn with_capacity(bytes: usize, slots: usize) -> RowSlots {
        RowSlots {
            bytes,
            contents: Zeroizing::new(Vec::with_capacity(bytes * slots)),
            is_row: Zeroizing::new(Vec::with_capacity(slots)),
        }
    }

    /// Adds a slot.
    pub fn push(&mut self, content: &[u8], is_row: bool) {
        append(&mut self.contents, content);
        append(&mut self.is_row, &[is_row]);
    }

    /// The rows. The time depends on which slots have one.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let slots = self.contents.chunks_exact(self.bytes).zip(&*self.is_row);
        slots.filter(|(_, is_row)| **is_row).map(|(row, _)| row)
    }
}

/// Uniform ids of the items of both parties, one for each, and which are those of this party's items. Equal items have one id.
#[derive(Clone, PartialEq, Eq)]
pub struct Spine {
    /// Bytes of an id, at most 16.
    pub bytes: usize,
    /// All ids, ascending: the same on both sides.
    pub ids: Vec<u128>,
    /// For each item of this party, in order, the place of its id.
    pub rows: Vec<u32>,
}

vesica_primitives::opaque!(Spine);

/// One party's shares of an intersection. Both parties have the same number of cells in the same order, which does not
/// depend on what matches. An item of the receiver is in one cell or several and matches in one of them at most; a
/// cell in which no item of the receiver is does not match.
#[derive(Clone, PartialEq, Eq)]
pub struct Shares {
    /// For each cell the number of the item of this party in it, if this party is the receiver.
    pub items: Option<Vec<Option<u32>>>,
    /// For each cell a bit; the two parties' differ where the cell matches.
    pub matches: Zeroizing<Vec<bool>>,
    /// For each of the values that the receiver has for its items, a number for each cell; the two parties' sum modulo
    /// 2^64 is the receiver's value where the cell matches, and 0 elsewhere.
    pub receiver_values: Vec<Zeroizing<Vec<u64>>>,
    /// The same of the sender's values.
    pub sender_values: Vec<Zeroizing<Vec<u64>>>,
    /// If the receiver has a string for each of its items, as many bytes for each cell; the exclusive or of the two parties'
    /// is the receiver's string where the cell matches, and zeros elsewhere. Empty if it has none.
    pub receiver_strings: Zeroizing<Vec<u8>>,
    /// The same of the sender's strings.
    pub sender_strings: Zeroizing<Vec<u8>>,
}

vesica_primitives::opaque!(Shares);

impl Shares {
    /// Shares of matches alone.
    pub fn new(items: Option<Vec<Option<u32>>>, matches: Zeroizing<Vec<bool>>) -> Shares {
        Shares {
            items,
            matches,
            receiver_values: Vec::new(),
            sender_values: Vec::new(),
            receiver_strings: Zeroizing::default(),
            sender_strings: Zeroizing::default(),
        }
    }

    /// Puts the cells of another part of the sets, with as many values and bytes each, after these.
    pub fn append(&mut self, more: Shares) {
        if let (Some(items), Some(more)) = (&mut self.items, more.items) {
            items.extend(more);
        }
        append(&mut self.matches, &more.matches);
        append(&mut self.receiver_strings, &more.receiver_strings);
        append(&mut self.sender_strings, &more.sender_strings);
        let own = self
            .receiver_values
            .iter_mut()
            .chain(&mut self.sender_values);
        let more = more.receiver_values.iter().chain(&more.sender_values);
        own.zip(more).for_each(|(own, more)| append(own, more));
    }
}

/// Appends to what is wiped; what it outgrows is wiped too.
fn append<T: Copy + Zeroize>(all: &mut Zeroizing<Vec<T>>, more: &[T]) {
    let needed = all.len() + more.len();
    if needed > all.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(needed.max(2 * all.len())));
        larger.extend_from_slice(all);
        *all = larger;
    }
    all.extend_from_slice(more);
}

/// For each item of the receiver whether it matches, by the item in each cell and by which cells match. Every item is in a
/// cell. The time does not depend on what matches.
///
/// # Panics
/// If there are more or fewer of these.
pub fn matched_items(items: &[Option<u32>], matches: &[bool]) -> Vec<bool> {
    assert_eq!(items.len(), matches.len());
    let count = items.iter().flatten().map(|item| *item as usize + 1).max();
    let mut matched = vec![false; count.unwrap_or(0)];
    for (item, matches) in items.iter().zip(matches) {
        if let Some(item) = item {
            matched[*item as usize] |= *matches;
        }
    }
    matched
}

/// What a party has computed before it knows its items. Consumed by one run.
pub struct Prepared(Box<dyn Any + Send>);

impl Prepared {
    /// Wraps what the protocol gets back from [`Prepared::take`] or [`Prepared::stored`].
    pub fn new<T: Send + 'static>(prepared: T) -> Prepared {
        Prepared(Box::new(prepared))
    }

    /// What a sender without an offline phase of its own has.
    pub fn nothing() -> Prepared {
        Prepared::new(())
    }

    /// What [`Prepared::new`] was given, if it was of this type.
    pub fn stored<T: 'static>(self) -> Option<T> {
        self.0.downcast().ok().map(|stored| *stored)
    }

    /// What [`Prepared::new`] was given.
    ///
    /// # Panics
    /// If that was of another type: prepared for another protocol.
    pub fn take<T: 'static>(self) -> T {
        *self.0.downcast().expect("prepared for this protocol")
    }
}

/// A protocol between a receiver and a sender.
pub trait Protocol: Send + Sync {
    /// What is known about it without running it.
    fn spec(&self) -> &'static Spec;

    /// What a receiver can learn with it.
    fn reveals(&self) -> &'static [Reveal];

    /// How many copies of the label of each item of the sender cross the wire; `None` if the protocol hands over none.
    fn labels_per_item(&self) -> Option<u64> {
        None
    }

    /// Maximum bits of statistical security of a run that reveals this, for these numbers of items of the receiver and of the
    /// sender, of so many bits if they are numbers; `None` if there is no limit.
    fn max_lambda(&self, reveal: Reveals, sizes: [u64; 2], exact: Option<u32>) -> Option<u32> {
        self.spec().max_lambda_of(reveal.by_part(sizes), exact)
    }

    /// How it opens what it shares in the [parts](Task::parts) of a run. Whoever reveals numbers has one.
    fn adds_up(&self) -> Option<&dyn AddsUp> {
        None
    }

    /// Approximate memory in bytes that each value of an item beyond the first adds to that of the [`Spec`], for these
    /// numbers of items.
    fn bytes_per_column(&self, receiver_size: u64, sender_size: u64) -> u64 {
        let _ = (receiver_size, sender_size);
        0
    }

    /// What a run of one part sends, with the opening of its numbers, of items that are numbers of `exact` bits if they are
    /// any, computed without running it: bytes each way and delays. Coded masks have their expected length; nothing else depends on more than what is given here. If
    /// `is_stored`, both parties took a half of the offline phase from a store. `None` if no run has these parameters, or
    /// none without a store.
    fn traffic(
        &self,
        params: &Params,
        task: &Task,
        exact: Option<u32>,
        is_stored: bool,
    ) -> Option<Traffic>;

    /// The receiver's offline phase for `items` items. Needs no peer.
    fn prepare(&self, items: usize, rng: &mut dyn CryptoRng) -> Prepared;

    /// The offline phase of both parties whose result can be stored, if it has one.
    fn offline(&self) -> Option<&dyn Offline> {
        None
    }

    /// Runs the receiver over a part. The work after the sender's last message takes time that does not depend on the
    /// result, unless both learn it.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for a sender that fails a check; `Resource` for what this side cannot
    /// do.
    ///
    /// # Panics
    /// If `input` or `prepared` do not fit `params`, items repeat, or the protocol does not support `task`.
    fn receive(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error>;

    /// Runs the sender. Where both learn the result, the receiver tells the sender, and nothing makes a
    /// dishonest receiver tell the truth.
    ///
    /// # Errors
    /// As [`Protocol::receive`].
    ///
    /// # Panics
    /// If `input` does not fit `params`, or the protocol does not support `task`.
    fn send(
        &self,
        channel: &mut dyn Channel,
        params: &Params,
        task: &Task,
        input: Input<'_>,
        prepared: Prepared,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error>;
}

/// Numbers that are added up over the parts of a run, and matches that are opened if enough are in all parts together.
pub trait AddsUp {
    /// Opens numbers once all parts have run, in any order or at once. `shares` are the sums, modulo 2^64 each, of what this
    /// party has of all parts ([`Output::NumberShares`]), and the session in `params` is none of theirs. Returns what this
    /// party learns: [`Output::Values`] or, under a minimum, [`Output::Below`], or [`Output::Groups`]; a sender that is not told, nothing. Opened
    /// again, the same shares tell the same.
    ///
    /// # Errors
    /// As [`Protocol::receive`].
    fn open(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        task: &Task,
        shares: &[u64],
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error>;

    /// Opens which items of the receiver match, in every part, if at least [`Task::min_size`] do in all parts together, and
    /// otherwise that none does. All parts have run, in any order, and the session in `params` is none of theirs. What
    /// the parties send depends on the number of cells alone.
    ///
    /// # Errors
    /// As [`Protocol::receive`], and those of `shares`.
    ///
    /// # Panics
    /// If there are not as many shares as a part has cells.
    fn open_matches(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        task: &Task,
        shares: &mut dyn SharedMatches,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Error>;
}

/// What one party has kept of the parts of a run whose matches are opened together.
pub trait SharedMatches {
    /// Its shares of which cells of a part match, [`Shares::matches`] of what it got in the part. Asked for more than once.
    ///
    /// # Errors
    /// `Resource`, if they cannot be read back.
    fn shares(&mut self, part: u32) -> Result<Zeroizing<Vec<bool>>, Error>;

    /// The receiver learns which cells of a part match. The peer sees when this returns, so that it takes no time that
    /// depends on them.
    ///
    /// # Errors
    /// `Resource`, if they cannot be kept.
    fn opened(&mut self, part: u32, matches: &[bool]) -> Result<(), Error>;
}

/// Whose half of a pair of correlations, or of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The receiver's.
    Receiver,
    /// The sender's.
    Sender,
}

/// An offline phase whose result can be stored. It is for one run over sets of the sizes in `params`, of numbers of
/// `bits` bits or, if that is `None`, of hashes.
pub trait Offline: Send + Sync {
    /// Who makes the halves.
    fn origin(&self) -> Origin;

    /// Makes one half together with the peer. `params.session` need not be that of the run.
    ///
    /// # Errors
    /// As [`Protocol::receive`].
    fn make(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        bits: Option<u32>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<u8>>, Error>;

    /// Makes both halves, the receiver's first, as a dealer does.
    ///
    /// # Errors
    /// `Resource` for parameters for which there are none.
    fn deal(
        &self,
        params: &Params,
        bits: Option<u32>,
        rng: &mut dyn CryptoRng,
    ) -> Result<[Zeroizing<Vec<u8>>; 2], Error>;

    /// The one half of what [`Offline::deal`] makes of the same randomness, as one of two generators does.
    ///
    /// # Errors
    /// As [`Offline::deal`].
    fn deal_half(
        &self,
        half: Half,
        params: &Params,
        bits: Option<u32>,
        rng: &mut dyn CryptoRng,
    ) -> Result<Zeroizing<Vec<u8>>, Error>;

    /// What else decides what a half means: its shape, and the version of what expands its seeds.
    ///
    /// # Errors
    /// As [`Offline::deal`].
    fn layout(&self, params: &Params, bits: Option<u32>) -> Result<String, Error>;

    /// Bytes of a half that [`Offline::deal`] makes.
    ///
    /// # Errors
    /// As [`Offline::deal`].
    fn dealt_bytes(&self, half: Half, params: &Params, bits: Option<u32>) -> Result<usize, Error>;

    /// A half that was made or dealt for the same parameters, but for their session. `None` if it is of another length.
    fn load(
        &self,
        half: Half,
        params: &Params,
        bits: Option<u32>,
        bytes: Zeroizing<Vec<u8>>,
    ) -> Option<Prepared>;
}

impl dyn Protocol + '_ {
    /// Whether a receiver can learn all of these in one run.
    pub fn can_reveal(&self, reveals: Reveals) -> bool {
        let known = self.reveals();
        reveals.each().iter().all(|reveal| known.contains(reveal))
    }

    /// Opens the numbers of a run of one part, in a session of their own: `output` is what this party has of the part. What
    /// is none of numbers comes back as it is.
    ///
    /// # Errors
    /// As [`AddsUp::open`].
    ///
    /// # Panics
    /// If the protocol shares numbers and does not open them.
    pub fn open_whole(
        &self,
        channel: &mut dyn Channel,
        half: Half,
        params: &Params,
        task: &Task,
        output: Output,
        rng: &mut dyn CryptoRng,
    ) -> Result<Output, Error> {
        let Output::NumberShares(shares) = output else {
            return Ok(output);
        };
        let params = Params {
            session: Oracle::new("vesica/1 opening", &params.session).hash(&[]),
            ..params.clone()
        };
        let adds_up = self.adds_up().expect("whoever shares numbers opens them");
        adds_up.open(channel, half, &params, task, &shares, rng)
    }

    /// Approximate memory use in bytes of a run over sets of these sizes, the receiver's first, on the party that needs
    /// more; of items that are numbers of `bits` bits, if they are any.
    pub fn working_bytes(
        &self,
        task: &Task,
        sizes: [u64; 2],
        bits: Option<u32>,
        lambda: u32,
    ) -> u64 {
        let [receiver, sender] = sizes;
        let StringBytes {
            receiver: ours,
            sender: theirs,
        } = task.string_bytes;
        let words = ours.div_ceil(8) + theirs.div_ceil(8);
        // Where the sender does not learn their sizes, each group has columns of its own.
        let hidden = task
            .groups
            .as_ref()
            .filter(|groups| groups.capacities.is_none());
        let hidden = hidden.map_or(1, |groups| groups.count as u64);
        // Each party has shares of both parties' columns.
        let columns =
            hidden * u64::from(task.values.receiver) + u64::from(task.values.sender) + words as u64;
        let columns = columns.max(hidden);
        let parts = task.reveal.by_part(sizes);
        let further = self
            .bytes_per_column(parts[0], parts[1])
            .saturating_mul(columns.saturating_sub(1));
        let bytes = self.spec().working_bytes_of(parts, bits, lambda);
        let bytes = bytes.saturating_add(further);
        if task.reveal.is_ids() {
            // Twice both sets' ids, and what they were hashed from.
            return bytes.saturating_add(receiver.saturating_add(sender).saturating_mul(64));
        }
        let Some(copies) = self.labels_per_item().filter(|_| task.label_bytes > 0) else {
            return bytes;
        };
        // For each mask another one with the item's number, or a rank. The sender picks its labels and pads them; the
        // receiver keeps all encrypted ones, and decrypts one for each of its items.
        let label = task.label_bytes as u64;
        let encrypted = sender.saturating_mul(copies.saturating_mul(label));
        let of_receiver = receiver
            .saturating_mul(label + 56)
            .saturating_add(encrypted);
        let of_sender = sender.saturating_mul(2 * label + copies.saturating_mul(40));
        bytes.saturating_add(of_receiver.max(of_sender))
    }
}

impl std::fmt::Debug for dyn Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.spec().name)
    }
}

/// The indices of the items that matched, ascending. The time depends on them: do not call this before the
/// last message to a peer that must not learn their number.
pub fn indices_vartime(matched: &[bool]) -> Vec<u32> {
    let indices = (0..).zip(matched).filter(|(_, matched)| **matched);
    indices.map(|(index, _)| index).collect()
}
