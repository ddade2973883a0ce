//! Oblivious linear evaluation (OLE) of many points in few places: the tuples that a set comparison by Kerschbaum,
//! Blass and Mahdavi, *Faster Secure Comparisons with Offline Phase for Efficient Private Set Intersection*, NDSS
//! 2023 (KBM23), section III-C5, consumes.
//!
//! For each bin the receiver holds one s, and for each of the bin's comparisons an r; the sender holds u ≠ 0 and v
//! for each comparison, with
//!
//!   r = u·s + v  modulo a prime Q.
//!
//! In the paper's letters s = s_A, r = r_A, u = 1/r_B and v = s_B/r_B: the sender needs r_B for nothing but to divide
//! by it, and u is as uniform. All of s, u and v are uniform and independent; r follows.
//!
//! Bins come in blocks of [`BLOCK`], and the values of a block in rows: row j has the block's j-th comparisons, one
//! for each bin. What a party chooses is expanded from a seed, row by row; what follows from the other's choices is
//! stored, in as many bits as Q has.

pub mod lattice;
pub mod ot;

use rand_core::CryptoRng;
use vesica_kernels::Backend;
use vesica_kernels::residues::{self, Modulus};
use vesica_primitives::block::{Block, Prg};
use vesica_primitives::parallel;
use vesica_primitives::prime::{largest, uniform};
use vesica_primitives::security::KeyAgreement;
use vesica_wire::{Channel, Error, Kind, Limit, Misbehaviour, Traffic};
use zeroize::Zeroizing;

/// Bins of a block; the last may have fewer.
pub const BLOCK: usize = 4096;

/// How many tuples there are, and modulo what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Q.
    pub modulus: Modulus,
    /// Number of bins, and of values s.
    pub bins: usize,
    /// Comparisons per bin.
    pub per_bin: usize,
}

impl Shape {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.bins.div_ceil(BLOCK)
    }

    /// Bins of a block.
    pub fn width(&self, block: usize) -> usize {
        BLOCK.min(self.bins - block * BLOCK)
    }

    /// Bytes of a packed row of a block.
    pub fn row_bytes(&self, block: usize) -> usize {
        self.modulus.bytes(self.width(block))
    }

    /// Bytes of all packed rows: of what one value per comparison takes.
    pub fn bytes(&self) -> usize {
        (0..self.blocks())
            .map(|block| self.row_bytes(block) * self.per_bin)
            .sum()
    }
}

/// Who makes tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The two parties, in one session.
    Parties,
    /// A third party, which both of them trust, or which shows both of them what software it runs.
    Dealer,
    /// Two generators in trusted execution environments, one at each party, from a seed that only they know.
    Generators,
}

impl Origin {
    /// Whether parties are given their halves, which they cannot make in their own session.
    pub fn is_dealt(self) -> bool {
        self != Origin::Parties
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Origin::Parties => "the two parties",
            Origin::Dealer => "a dealer",
            Origin::Generators => "two generators",
        })
    }
}

/// How two parties make tuples.
pub trait Source: Send + Sync + 'static {
    /// The name, in commands and contracts, of the protocol that takes its tuples: `ole-` and a word for the source.
    const PROTOCOL: &'static str;

    /// The fewest bins that are worth their cost: with fewer, the same work would make fewer tuples.
    const MIN_BINS: usize = 16;

    /// Maximum bits of statistical security that a run may ask for.
    const MAX_LAMBDA: u32 = 125;

    /// Who makes the tuples. Those that parties are given are stored, and a run checks some.
    const ORIGIN: Origin = Origin::Parties;

    /// Whether the parties make tuples with base transfers.
    const HAS_BASE_TRANSFERS: bool = false;

    /// A modulus that it can use for so many bins and comparisons per bin, `least` or larger, of few bits. Without more
    /// to look at, the largest prime of the fewest bits.
    fn modulus(least: u64, bins: usize, per_bin: usize, lambda: u32) -> Option<Modulus> {
        let _ = (bins, per_bin, lambda);
        largest_from(least)
    }

    /// What [`Source::receive`] and [`Source::send`] send. `None` if there are no such tuples.
    fn traffic(
        traffic: &mut Traffic,
        shape: Shape,
        lambda: u32,
        agreement: KeyAgreement,
    ) -> Option<()>;

    /// Makes the receiver's half: the equation holds for all tuples with probability at least 1 − 2^-`lambda`, and the
    /// distance from uniform values is at most that. A source of base transfers agrees on their keys as `agreement` says.
    ///
    /// # Errors
    /// The channel's; `PeerMisbehaved` for what no sender sends.
    fn receive(
        channel: &mut dyn Channel,
        shape: Shape,
        lambda: u32,
        agreement: KeyAgreement,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<ReceiverHalf, Error>;

    /// Makes the sender's half.
    ///
    /// # Errors
    /// As [`Source::receive`].
    fn send(
        channel: &mut dyn Channel,
        shape: Shape,
        lambda: u32,
        agreement: KeyAgreement,
        session: &[u8; 32],
        rng: &mut dyn CryptoRng,
    ) -> Result<SenderHalf, Error>;
}

/// Tuples that parties are given: see [`deal`].
pub struct Dealt<const BY_GENERATORS: bool>;

/// Tuples of a dealer (KBM23, section IV-A).
pub type Dealer = Dealt<false>;

/// Tuples of two generators in trusted execution environments, one at each party (KBM23, section IV-B).
pub type Tee = Dealt<true>;

impl<const BY_GENERATORS: bool> Source for Dealt<BY_GENERATORS> {
    const PROTOCOL: &'static str = match BY_GENERATORS {
        true => "ole-tee",
        false => "ole-dealer",
    };
    const ORIGIN: Origin = match BY_GENERATORS {
        true => Origin::Generators,
        false => Origin::Dealer,
    };

    fn traffic(_: &mut Traffic, _: Shape, _: u32, _: KeyAgreement) -> Option<()> {
        Some(())
    }

    fn receive(
        _: &mut dyn Channel,
        _: Shape,
        _: u32,
        _: KeyAgreement,
        _: &[u8; 32],
        _: &mut dyn CryptoRng,
    ) -> Result<ReceiverHalf, Error> {
        Err(not_stored())
    }

    fn send(
        _: &mut dyn Channel,
        _: Shape,
        _: u32,
        _: KeyAgreement,
        _: &[u8; 32],
        _: &mut dyn CryptoRng,
    ) -> Result<SenderHalf, Error> {
        Err(not_stored())
    }
}

fn not_stored() -> Error {
    Error::limit(Limit::Offline, "dealt tuples come from a store")
}

/// Both halves, as a dealer makes them (KBM23, section IV-A): the sender's fits into a seed, and the receiver's is a seed
/// and r.
pub fn deal(shape: Shape, rng: &mut dyn CryptoRng) -> (ReceiverHalf, SenderHalf) {
    let mut receiver = ReceiverHalf::random(shape, rng);
    let sender = SenderHalf::random(shape, rng);
    fit(&mut receiver, &sender);
    (receiver, sender)
}

/// The sender's half of what [`deal`] makes of the same randomness, without the work for the receiver's.
pub fn deal_sender(shape: Shape, rng: &mut dyn CryptoRng) -> SenderHalf {
    let _receivers = Seeded::random(rng);
    SenderHalf::random(shape, rng)
}

/// The largest prime of the fewest bits with which there is one that is `least` or larger.
pub(crate) fn largest_from(least: u64) -> Option<Modulus> {
    let fewest = (u64::BITS - least.leading_zeros()).max(2);
    let mut primes = (fewest..=residues::MAX_BITS).filter_map(|bits| largest(bits, 2));
    primes.find(|modulus| modulus.get() >= least)
}

/// Unpacks residues that a peer sent. Bytes behind them mean nothing: see [`residues::unpack`].
///
/// # Errors
/// [`Misbehaviour::BadValue`] for a number that is none.
pub fn unpack(
    kind: Kind,
    modulus: Modulus,
    bytes: &[u8],
    out: &mut [u64],
) -> Result<(), Misbehaviour> {
    residues::unpack(Backend::Best, modulus, bytes, out);
    match residues::all_reduced(Backend::Best, modulus, out) {
        true => Ok(()),
        false => Err(Misbehaviour::BadValue {
            what: kind.name,
            problem: "not below the modulus",
        }),
    }
}

/// A seed: the key of a [`Prg`], and the block that its stream starts at, both random.
pub type Seed = [u8; 32];

/// Values chosen by one party, from a seed. All rows are parts of one stream: with a key each, whoever knows the first
/// blocks of many would test one guess against all of them. Streams start at random blocks, so that the same guess is not
/// tested against many halves either; the crate `plan` has the bound.
struct Seeded(Zeroizing<Seed>);

impl Seeded {
    fn random(rng: &mut dyn CryptoRng) -> Seeded {
        let mut seed = Zeroizing::new([0; SEED_BYTES]);
        rng.fill_bytes(&mut *seed);
        Seeded(seed)
    }

    /// Row `number` of numbers in `least..q`, from the stream's block 2^64·`number` on.
    fn row(&self, number: u64, least: u64, modulus: Modulus, out: &mut [u64]) {
        let halves: [[u8; 16]; 2] = bytemuck::must_cast(*self.0);
        let [key, start] = halves.map(Block::from_le_bytes);
        let mut prg = Prg::starting_at(key, start.wrapping_add(u128::from(number) << 64));
        uniform(&mut prg, least, modulus.get(), out);
    }
}

/// One value per comparison, packed: the rows of the first block, those of the second, and so on.
pub struct Rows {
    shape: Shape,
    bytes: Zeroizing<Vec<u8>>,
}

impl Rows {
    /// All zero.
    pub fn new(shape: Shape) -> Rows {
        // Room for the seed: bytes that move are not wiped.
        let mut bytes = Zeroizing::new(Vec::with_capacity(shape.bytes() + SEED_BYTES));
        bytes.resize(shape.bytes(), 0);
        Rows { shape, bytes }
    }

    /// A packed row.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn packed(&self, block: usize, row: usize) -> &[u8] {
        &self.bytes[self.range(block, row)]
    }

    /// A row, unpacked.
    ///
    /// # Panics
    /// If there is no such row, or `out` does not have its width.
    pub fn get(&self, block: usize, row: usize, out: &mut [u64]) {
        residues::unpack(
            Backend::Best,
            self.shape.modulus,
            self.packed(block, row),
            out,
        );
    }

    /// Packs a row.
    ///
    /// # Panics
    /// If there is no such row, or `values` does not have its width.
    pub fn set(&mut self, block: usize, row: usize, values: &[u64]) {
        let range = self.range(block, row);
        residues::pack(
            Backend::Best,
            self.shape.modulus,
            values,
            &mut self.bytes[range],
        );
    }

    fn range(&self, block: usize, row: usize) -> std::ops::Range<usize> {
        assert!(row < self.shape.per_bin);
        let full = self.shape.modulus.bytes(BLOCK) * self.shape.per_bin;
        let each = self.shape.row_bytes(block);
        let start = block * full + row * each;
        start..start + each
    }
}

/// The receiver's half.
pub struct ReceiverHalf {
    s: Seeded,
    r: Rows,
}

/// Version of what a seed is expanded to: a change of [`Seed`], of [`BLOCK`], of how [`uniform`] draws, or of the order of
/// values raises it, since stored halves would mean something else.
pub const EXPANSION: u32 = 3;

/// What comes after the rows of a half, in bytes.
pub const SEED_BYTES: usize = size_of::<Seed>();

impl ReceiverHalf {
    /// The half in bytes: r, then the seed.
    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        with_seed(self.r.bytes, &self.s)
    }

    /// What [`ReceiverHalf::into_bytes`] wrote for a shape; `None` if the length is that of another.
    pub fn from_bytes(shape: Shape, bytes: Zeroizing<Vec<u8>>) -> Option<ReceiverHalf> {
        let (rows, s) = split_seed(bytes)?;
        let r = Rows { shape, bytes: rows };
        (r.bytes.len() == shape.bytes()).then_some(ReceiverHalf { s, r })
    }

    /// A half with random s, and with r still to come.
    pub fn random(shape: Shape, rng: &mut dyn CryptoRng) -> ReceiverHalf {
        ReceiverHalf::of(shape, Seeded::random(rng))
    }

    /// A half with the s of a seed, and with r still to come.
    pub fn from_seed(shape: Shape, seed: &Seed) -> ReceiverHalf {
        ReceiverHalf::of(shape, Seeded(Zeroizing::new(*seed)))
    }

    fn of(shape: Shape, s: Seeded) -> ReceiverHalf {
        let r = Rows::new(shape);
        ReceiverHalf { s, r }
    }

    /// What the tuples are.
    pub fn shape(&self) -> Shape {
        self.r.shape
    }

    /// The s of a block's bins.
    ///
    /// # Panics
    /// If `out` does not have the block's width.
    pub fn s(&self, block: usize, out: &mut [u64]) {
        assert_eq!(out.len(), self.shape().width(block));
        self.s.row(block as u64, 0, self.shape().modulus, out);
    }

    /// The values r.
    pub fn r(&self) -> &Rows {
        &self.r
    }

    /// The values r, to be filled in.
    pub fn r_mut(&mut self) -> &mut Rows {
        &mut self.r
    }
}

/// The sender's half.
pub struct SenderHalf {
    shape: Shape,
    seed: Seeded,
    /// The values v, unless the seed gives them too.
    v: Option<Rows>,
}

/// The rows of a half in bytes, with the seed behind them.
fn with_seed(mut rows: Zeroizing<Vec<u8>>, seed: &Seeded) -> Zeroizing<Vec<u8>> {
    rows.extend_from_slice(&*seed.0);
    rows
}

/// The rows of a half in bytes, and the seed behind them.
fn split_seed(mut bytes: Zeroizing<Vec<u8>>) -> Option<(Zeroizing<Vec<u8>>, Seeded)> {
    let (_, seed) = bytes.split_last_chunk::<SEED_BYTES>()?;
    let seed = Seeded(Zeroizing::new(*seed));
    let rows = bytes.len() - SEED_BYTES;
    bytes.truncate(rows);
    Some((bytes, seed))
}

impl SenderHalf {
    /// The half in bytes: v, unless the seed gives it, then the seed.
    pub fn into_bytes(self) -> Zeroizing<Vec<u8>> {
        with_seed(self.v.map(|v| v.bytes).unwrap_or_default(), &self.seed)
    }

    /// What [`SenderHalf::into_bytes`] wrote for a shape; `None` if the length is that of another.
    pub fn from_bytes(shape: Shape, bytes: Zeroizing<Vec<u8>>) -> Option<SenderHalf> {
        let (rows, seed) = split_seed(bytes)?;
        let half = SenderHalf::of(shape, seed);
        match rows.len() {
            0 => Some(half),
            length if length == shape.bytes() => Some(half.with_v(Rows { shape, bytes: rows })),
            _ => None,
        }
    }

    /// A half with random u and v.
    pub fn random(shape: Shape, rng: &mut dyn CryptoRng) -> SenderHalf {
        SenderHalf::of(shape, Seeded::random(rng))
    }

    /// A half with the u and v of a seed.
    pub fn from_seed(shape: Shape, seed: &Seed) -> SenderHalf {
        SenderHalf::of(shape, Seeded(Zeroizing::new(*seed)))
    }

    fn of(shape: Shape, seed: Seeded) -> SenderHalf {
        let v = None;
        SenderHalf { shape, seed, v }
    }

    /// The half with its u, and with these v.
    ///
    /// # Panics
    /// If the rows are of another shape.
    pub fn with_v(self, v: Rows) -> SenderHalf {
        assert_eq!(self.shape, v.shape);
        SenderHalf { v: Some(v), ..self }
    }

    /// What the tuples are.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The u of a row, none of which is 0.
    ///
    /// # Panics
    /// If there is no such row, or `out` does not have its width.
    pub fn u(&self, block: usize, row: usize, out: &mut [u64]) {
        self.chosen(0, 1, block, row, out);
    }

    /// The v of a row.
    ///
    /// # Panics
    /// If there is no such row, or `out` does not have its width.
    pub fn v(&self, block: usize, row: usize, out: &mut [u64]) {
        match &self.v {
            Some(v) => v.get(block, row, out),
            None => self.chosen(1, 0, block, row, out),
        }
    }

    fn chosen(&self, purpose: u64, least: u64, block: usize, row: usize, out: &mut [u64]) {
        assert!(row < self.shape.per_bin && out.len() == self.shape.width(block));
        let number = (block * self.shape.per_bin + row) as u64;
        self.seed
            .row(number << 1 | purpose, least, self.shape.modulus, out);
    }
}

/// Fills in the r of a receiver's half from a sender's, as somebody can who has both: a dealer, or a test.
///
/// # Panics
/// If their shapes differ.
pub fn fit(receiver: &mut ReceiverHalf, sender: &SenderHalf) {
    let shape = receiver.shape();
    assert_eq!(shape, sender.shape());
    let ReceiverHalf { s: seed, r } = receiver;
    let full = shape.modulus.bytes(BLOCK) * shape.per_bin;
    let blocks = r.bytes.chunks_mut(full.max(1)).enumerate();
    parallel::each(blocks, |(block, out)| {
        let width = shape.width(block);
        let [mut s, mut u, mut v, mut r] = [(); 4].map(|()| Zeroizing::new(vec![0; width]));
        let zero = vec![0; width];
        seed.row(block as u64, 0, shape.modulus, &mut s);
        for (row, out) in out.chunks_exact_mut(shape.row_bytes(block)).enumerate() {
            sender.u(block, row, &mut u);
            sender.v(block, row, &mut v);
            residues::evaluate(Backend::Best, shape.modulus, &u, &s, &zero, &v, &mut r);
            residues::pack(Backend::Best, shape.modulus, &r, out);
        }
    });
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use vesica_primitives::block::Cipher;
    use vesica_testing::rng;

    /// Checks the equation for every tuple, and that no u is 0.
    pub(crate) fn check(receiver: &ReceiverHalf, sender: &SenderHalf) {
        let shape = receiver.shape();
        assert_eq!(shape, sender.shape());
        let q = u128::from(shape.modulus.get());
        for block in 0..shape.blocks() {
            let [mut s, mut u, mut v, mut r] = [(); 4].map(|()| vec![0; shape.width(block)]);
            receiver.s(block, &mut s);
            for row in 0..shape.per_bin {
                receiver.r().get(block, row, &mut r);
                sender.u(block, row, &mut u);
                sender.v(block, row, &mut v);
                for i in 0..s.len() {
                    assert!(u[i] > 0 && u128::from(u[i].max(v[i]).max(s[i])) < q);
                    let right = (u128::from(u[i]) * u128::from(s[i]) + u128::from(v[i])) % q;
                    assert_eq!(u128::from(r[i]), right, "block {block}, row {row}, bin {i}");
                }
            }
        }
    }

    #[test]
    fn dealt_halves_fit() {
        for (bits, bins, per_bin) in [(14, 5000, 3), (62, 4096, 2), (2, 1, 1), (17, 0, 4)] {
            let modulus = largest(bits, 2).unwrap();
            let shape = Shape {
                modulus,
                bins,
                per_bin,
            };
            for stored in [false, true] {
                let mut receiver = ReceiverHalf::random(shape, &mut rng(1));
                let sender = SenderHalf::random(shape, &mut rng(2));
                let sender = match stored {
                    true => sender.with_v(Rows::new(shape)),
                    false => sender,
                };
                fit(&mut receiver, &sender);
                check(&receiver, &sender);
            }
        }
    }

    #[test]
    fn rows_do_not_repeat() {
        let shape = Shape {
            modulus: largest(40, 2).unwrap(),
            bins: 2 * BLOCK,
            per_bin: 2,
        };
        let sender = SenderHalf::random(shape, &mut rng(3));
        let mut rows = Vec::new();
        for (block, row) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            for value in [SenderHalf::u, SenderHalf::v] {
                let mut out = vec![0; BLOCK];
                value(&sender, block, row, &mut out);
                assert!(!rows.contains(&out));
                rows.push(out);
            }
        }
    }

    /// The stream of a seed starts at the seed's second half, wherever that is.
    #[test]
    fn a_stream_starts_where_its_seed_says() {
        let shape = Shape {
            modulus: largest(40, 2).unwrap(),
            bins: BLOCK,
            per_bin: 1,
        };
        let (key, blocks) = ([7; 16], BLOCK / 2 + BLOCK / 8);
        for start in [0, 1, 1 << 64, u128::MAX - 5] {
            let mut seed = [0; SEED_BYTES];
            seed[..16].copy_from_slice(&key);
            seed[16..].copy_from_slice(&start.to_le_bytes());
            let sender = SenderHalf::from_seed(shape, &seed);
            let [mut v, mut expected] = [(); 2].map(|()| vec![0; BLOCK]);
            sender.v(0, 0, &mut v);
            let first = start.wrapping_add(1 << 64);
            let mut stream = vec![0; blocks];
            for (block, counter) in stream.iter_mut().zip(0..) {
                *block = first.wrapping_add(counter);
            }
            Cipher::new(Block::from_le_bytes(key)).encrypt(&mut stream);
            let candidates = stream
                .iter()
                .flat_map(|block| [*block as u64, (*block >> 64) as u64]);
            let candidates = candidates.map(|candidate| candidate & ((1 << 40) - 1));
            let residues = candidates.filter(|candidate| *candidate < shape.modulus.get());
            for (to, residue) in expected.iter_mut().zip(residues) {
                *to = residue;
            }
            assert_eq!(v, expected, "{start}");
        }
    }
}
