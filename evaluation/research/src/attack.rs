//! What narrow masks give away: the sender's secret s and all of its items that the receiver can guess.
//!
//! The receiver of a run keeps what it saw, a [`View`]: its pairs of keys, its own message, and the masks
//! received. For any candidate x it computes T(x) and Δ(x) = T(x) ⊕ U(x) ⊕ P(x). If the sender holds x, its
//! mask is H(T(x) ⊕ (s ∧ Δ(x))), so 2^w trials decide whether it does, where w is the number of ones in Δ(x).
//! A trial that hits a mask reveals those w bits of s, which leaves every other Δ fewer ones to try.
//! [`recover`] begins with the lightest candidate, and continues until it knows s.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use rand_core::CryptoRng;
use rayon::prelude::*;
use vesica_primitives::block::Block;
use vesica_wire::{Channel, Error};

use vesica_oprf::coin::{Coin, Sealed, send_half};
use vesica_oprf::sparse::rows;
use vesica_oprf::sparse::{
    AesBit, BitFunction, MAX_COLUMNS, Message, Row, output_oracle, receiver_keys, width,
};
use vesica_oprf::{Item, Output, Params, halves};

use crate::okvs_message::{ArrangedOkvs, OkvsMessage};
use crate::paper_width::{Coined, Figure, commitments, unsafe_paper_width};

/// Trials that are hashed together.
const BATCH: u64 = 1 << 10;

/// The protocol to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// [`sparse`](vesica_oprf::sparse) at the width that PRTY19 proves.
    Proven,
    /// At the paper's width.
    Paper(Figure),
}

impl Run {
    fn width(self, params: &Params) -> usize {
        match self {
            Run::Proven => width(params, 1),
            Run::Paper(figure) => unsafe_paper_width(figure, params),
        }
    }
}

/// What a receiver has seen in a run, except the masks.
pub struct View<K, const W: usize, F = AesBit> {
    params: Params,
    message: OkvsMessage<K, W>,
    t: F,
    u: F,
    slots: Vec<[u64; W]>,
    coin: Option<Coin>,
}

/// The rows T and T ⊕ U of points.
fn both(t: &impl BitFunction, u: &impl BitFunction, points: &[Block]) -> (Vec<Row>, Vec<Row>) {
    let (t, mut r) = (rows::one(t, points), rows::one(u, points));
    for (r, t) in r.as_flattened_mut().iter_mut().zip(t.as_flattened()) {
        *r ^= t;
    }
    (t.to_vec(), r.to_vec())
}

fn points(items: &[Item]) -> Vec<Block> {
    items.iter().map(|item| halves(item)[0]).collect()
}

impl<K: ArrangedOkvs, const W: usize, F: BitFunction> View<K, W, F> {
    /// A receiver that follows the protocol and keeps what it saw. The sender cannot tell: this is the run of
    /// an honest receiver.
    ///
    /// # Errors
    /// Those of an honest receiver.
    pub fn follow(
        channel: &mut dyn Channel,
        params: &Params,
        run: Run,
        items: &[Item],
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        Self::run(channel, params, run, rng, |message, t, u, rng| {
            let points = message.receiver_points(items)?;
            let (_, rows) = both(t, u, &points.points);
            let rows: Vec<[u64; W]> = rows
                .iter()
                .map(|row| std::array::from_fn(|i| row[i]))
                .collect();
            message.encode(&points, &rows, rng)
        })
    }

    /// Steps 1 to 5 of figure 15 for a receiver that chooses its slots freely; without a coin, of figure 14.
    fn run(
        channel: &mut dyn Channel,
        params: &Params,
        run: Run,
        rng: &mut dyn CryptoRng,
        slots: impl FnOnce(
            &OkvsMessage<K, W>,
            &F,
            &F,
            &mut dyn CryptoRng,
        ) -> Result<Vec<[u64; W]>, Error>,
    ) -> Result<Self, Error> {
        let sealed = match run {
            Run::Paper(Figure::Malicious) => Some(Sealed::receive(channel)?),
            _ => None,
        };
        let message = OkvsMessage::new(params, run.width(params));
        let pairs = receiver_keys(channel, params, message.columns(), rng)?;
        let [t, u] = [0, 1].map(|i| F::new(pairs.iter().map(|pair| pair[i])));
        let mut slots = slots(&message, &t, &u, rng)?;
        message.send(channel, &slots)?;
        // Bits that belong to no column have not been sent.
        let columns = message.columns();
        for (i, word) in slots.as_flattened_mut().iter_mut().enumerate() {
            let left = columns.saturating_sub(64 * (i % W)).min(64) as u32;
            *word &= u64::MAX.unbounded_shr(64 - left);
        }
        let coin = match sealed {
            Some(sealed) => {
                let half = send_half(channel, rng)?;
                Some(sealed.opened(channel, &commitments(params), half)?)
            }
            None => None,
        };
        Ok(View {
            params: params.clone(),
            message,
            t,
            u,
            slots,
            coin,
        })
    }

    /// Columns of the matrix, which are bits of s.
    pub fn columns(&self) -> usize {
        self.message.columns()
    }

    /// T(x) and Δ(x) of candidates.
    pub(crate) fn rows(&self, candidates: &[Item]) -> (Vec<Row>, Vec<Row>) {
        let points = points(candidates);
        let (t, mut delta) = both(&self.t, &self.u, &points);
        let decoded = self.message.decode(&self.slots, &points);
        for (row, decoded) in delta.iter_mut().zip(&decoded) {
            for (word, decoded) in row.iter_mut().zip(decoded) {
                *word ^= decoded;
            }
        }
        (t, delta)
    }

    /// The sender's outputs, if these are its rows and `item(i)` is the item of row i.
    pub(crate) fn outputs<'a>(
        &self,
        rows: &[Row],
        item: impl Fn(usize) -> &'a Item + Sync,
    ) -> Vec<Output> {
        let mut outputs = rows::outputs(&output_oracle(&self.params), rows);
        if let Some(coin) = self.coin {
            Coined::new(&self.params, coin).apply(&mut outputs, item);
        }
        outputs
    }
}

impl<K: ArrangedOkvs, F: BitFunction> View<K, 2, F> {
    /// A receiver that deviates from figure 15: it encodes one set in the first 64 columns and another in the
    /// last 64. Every item of either has a Δ of at most 64 ones instead of 128.
    ///
    /// # Errors
    /// Those of an honest receiver.
    ///
    /// # Panics
    /// If either set has more items than the receiver has in `params`.
    pub fn split(
        channel: &mut dyn Channel,
        params: &Params,
        sets: [&[Item]; 2],
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, Error> {
        let run = Run::Paper(Figure::Malicious);
        Self::run(channel, params, run, rng, |_, t, u, rng| {
            // Each half of the columns is a separate message.
            let half = OkvsMessage::<K, 1>::new(params, 64);
            let mut halves = Vec::with_capacity(2);
            for (i, items) in sets.into_iter().enumerate() {
                let points = half.receiver_points(items)?;
                let (_, rows) = both(t, u, &points.points);
                let rows: Vec<[u64; 1]> = rows.iter().map(|row| [row[i]]).collect();
                halves.push(half.encode(&points, &rows, rng)?);
            }
            let slots = halves[0].iter().zip(&halves[1]);
            Ok(slots.map(|([first], [last])| [*first, *last]).collect())
        })
    }
}

/// What [`recover`] has found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Bits of s, where `known` has ones.
    pub s: Row,
    /// Which bits of s are known.
    pub known: Row,
    /// The numbers of the candidates that the sender holds, ascending.
    pub items: Vec<u32>,
    /// Trials, each a hash of a row.
    pub hashes: u64,
    /// Ones of Δ in the first candidate found that revealed something about s.
    pub first: Option<u32>,
    /// Unknown bits of s in the lightest remaining candidate, if there is one.
    pub lightest: Option<u32>,
}

impl Found {
    /// Bits of s that are known.
    pub fn known_bits(&self) -> u32 {
        weight(&self.known)
    }
}

fn weight(row: &Row) -> u32 {
    row.iter().map(|word| word.count_ones()).sum()
}

/// Recovers s, and which candidates the sender holds, from the masks of a run, each cut to its first `bits` bits.
/// Gives up before a candidate for which more than 2^`most` trials would be needed.
///
/// # Panics
/// If `most` is 64 or more, or `bits` is not 1 to 128.
pub fn recover<K: ArrangedOkvs, const W: usize, F: BitFunction>(
    view: &View<K, W, F>,
    masks: &[Output],
    bits: usize,
    candidates: &[Item],
    most: u32,
) -> Found {
    assert!((1..=128).contains(&bits));
    let masks = Masks {
        cut: masks.iter().map(|mask| cut(mask, bits)).collect(),
        bits,
    };
    let all = 0..candidates.len() as u32;
    search(view, &masks, candidates, all.collect(), most)
}

/// What tells the receiver that an output is one of the sender's.
pub(crate) trait Test: Sync {
    /// The first of these outputs, all of the candidate of that number, that the sender has.
    fn first(&self, number: u32, outputs: &[Output]) -> Option<usize>;
}

/// [`recover`] by any test, from the candidates with the numbers `left`.
///
/// # Panics
/// If `most` is 64 or more.
pub(crate) fn search<K: ArrangedOkvs, const W: usize, F: BitFunction>(
    view: &View<K, W, F>,
    test: &impl Test,
    candidates: &[Item],
    mut left: Vec<u32>,
    most: u32,
) -> Found {
    assert!(most < 64);
    let (t, delta) = view.rows(candidates);
    let mut search = Search {
        view,
        test,
        candidates,
        hashes: AtomicU64::new(0),
    };
    let mut found = Found {
        s: [0; MAX_COLUMNS / 64],
        known: [0; MAX_COLUMNS / 64],
        items: Vec::new(),
        hashes: 0,
        first: None,
        lightest: None,
    };
    loop {
        let open =
            |i: &u32| -> Row { std::array::from_fn(|j| delta[*i as usize][j] & !found.known[j]) };
        let row = |i: &u32| -> Row {
            let (t, delta) = (&t[*i as usize], &delta[*i as usize]);
            std::array::from_fn(|j| t[j] ^ delta[j] & found.s[j])
        };
        left.sort_by_cached_key(|i| weight(&open(i)));
        // One trial is enough for each candidate without unknown bits.
        let plain = left.partition_point(|i| weight(&open(i)) == 0);
        let rest = left.split_off(plain);
        let rows: Vec<Row> = left.iter().map(row).collect();
        found.items.extend(search.which(&left, &rows));
        // From the lightest on, until one reveals something about s.
        let mut hit = None;
        let mut tried = 0;
        for i in &rest {
            let open = open(i);
            if weight(&open) > most {
                break;
            }
            tried += 1;
            if let Some(bits) = search.one(*i, &row(i), &open) {
                hit = Some((*i, open, bits));
                break;
            }
        }
        left = rest[tried..].to_vec();
        let lightest = left.first().map(|i| weight(&open(i)));
        let Some((item, open, bits)) = hit else {
            found.lightest = lightest;
            break;
        };
        found.items.push(item);
        found.first = found.first.or(Some(weight(&open)));
        for j in 0..MAX_COLUMNS / 64 {
            found.known[j] |= open[j];
            found.s[j] |= bits[j];
        }
    }
    found.items.sort_unstable();
    found.hashes = *search.hashes.get_mut();
    found
}

/// The first bits of a mask.
fn cut(mask: &Output, bits: usize) -> u128 {
    (u128::from(mask[0]) << 64 | u128::from(mask[1])) >> (128 - bits)
}

/// The masks that the sender has sent, cut.
struct Masks {
    cut: HashSet<u128>,
    bits: usize,
}

impl Test for Masks {
    fn first(&self, _: u32, outputs: &[Output]) -> Option<usize> {
        let is_sent = |output: &Output| self.cut.contains(&cut(output, self.bits));
        outputs.iter().position(is_sent)
    }
}

/// The trials.
struct Search<'a, K, const W: usize, F, T> {
    view: &'a View<K, W, F>,
    test: &'a T,
    candidates: &'a [Item],
    hashes: AtomicU64,
}

impl<K: ArrangedOkvs, const W: usize, F: BitFunction, T: Test> Search<'_, K, W, F, T> {
    /// The candidates, among those with these rows, that the sender holds.
    fn which(&self, numbers: &[u32], rows: &[Row]) -> Vec<u32> {
        self.hashes.fetch_add(rows.len() as u64, Ordering::Relaxed);
        let item = |i: usize| &self.candidates[numbers[i] as usize];
        let outputs = self.view.outputs(rows, item);
        let all = numbers.iter().zip(outputs);
        all.filter(|(number, output)| self.test.first(**number, &[*output]).is_some())
            .map(|(number, _)| *number)
            .collect()
    }

    /// The value of s on the ones of `open` for which this candidate's hash is a mask, if there is one.
    fn one(&self, number: u32, row: &Row, open: &Row) -> Option<Row> {
        let positions: Vec<usize> = (0..MAX_COLUMNS)
            .filter(|i| open[i / 64] >> (i % 64) & 1 == 1)
            .collect();
        let end = 1u64 << positions.len();
        // Gray's order: from one trial to the next, one bit changes.
        let gray = |i: u64| -> Row {
            let mut bits = [0; MAX_COLUMNS / 64];
            for (j, position) in positions.iter().enumerate() {
                bits[position / 64] |= ((i ^ i >> 1) >> j & 1) << (position % 64);
            }
            bits
        };
        let batches = (0..end.div_ceil(BATCH)).into_par_iter();
        batches.find_map_any(|batch| {
            let range = batch * BATCH..end.min((batch + 1) * BATCH);
            self.hashes
                .fetch_add(range.end - range.start, Ordering::Relaxed);
            let first = gray(range.start);
            let mut trial: Row = std::array::from_fn(|j| row[j] ^ first[j]);
            let mut rows = Vec::with_capacity(BATCH as usize);
            rows.push(trial);
            for i in range.start + 1..range.end {
                let position = positions[i.trailing_zeros() as usize];
                trial[position / 64] ^= 1 << (position % 64);
                rows.push(trial);
            }
            let outputs = self
                .view
                .outputs(&rows, |_| &self.candidates[number as usize]);
            let hit = self.test.first(number, &outputs)?;
            Some(gray(range.start + hit as u64))
        })
    }
}

/// Trials that [`recover`] is expected to need until it finds the first of the sender's items, where `theirs` of
/// `candidates` that the receiver did not encode are the sender's and Δ has `columns` random bits.
///
/// Σ_w N·p_w·2^w·(1 − F(w − 1))^m: each of N candidates costs 2^w if it has weight w, with probability p_w, and
/// none of the m that the sender holds is lighter.
pub fn expected_hashes(columns: usize, theirs: usize, candidates: usize) -> f64 {
    let mut lighter = 0.0;
    let mut choose = 1.0;
    let mut hashes = 0.0;
    for w in 0..=columns {
        let p = choose * (-(columns as f64)).exp2();
        let none = (theirs as f64 * f64::ln_1p(-f64::min(lighter, 1.0 - 1e-12))).exp();
        hashes += candidates as f64 * choose * (w as f64 - columns as f64).exp2() * none;
        lighter += p;
        choose *= (columns - w) as f64 / (w + 1) as f64;
    }
    hashes
}
