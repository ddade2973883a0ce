//! Sizes of extensions, and which of them a run needs.

use std::sync::OnceLock;

use vesica_kernels::subfield::Subfield;

use crate::lpn::KAPPA;
use crate::lpn::primal::{self, ROW_WEIGHT};

/// An extension's size. k and d are chosen, t follows ([`primal::weight`]).
#[derive(Debug)]
pub struct Size {
    /// Bits of a secret: 1 for COTs, W for entries over GF(2^W).
    pub field_bits: u32,
    /// log₂ of k/10, the length of each of the ten segments of the base vector.
    pub log_segment: usize,
    /// d, the depth of a tree: 2^d COTs per tree.
    pub depth: usize,
    /// t, the number of trees, once it is known.
    pub(super) trees: OnceLock<usize>,
}

/// Base vectors of 320 KiB, 2.5 MiB and 5 MiB. A leaf is noise with probability 2^-d, and k·2^-d is 160: what
/// is secret is hidden by as much noise in all sizes.
static SIZES: [Size; 3] = [
    Size::new(1, 11, 7),
    Size::new(1, 14, 10),
    Size::new(1, 15, 11),
];

/// Those of entries over GF(8). A smaller one would take more bytes per entry than the COTs that make one.
static EIGHT: [Size; 2] = [Size::new(3, 14, 10), Size::new(3, 15, 11)];

/// Those of entries over GF(16).
static SIXTEEN: [Size; 2] = [Size::new(4, 14, 10), Size::new(4, 15, 11)];

/// What long runs save. Short runs do not differ. Of two sides the one that saves more bytes is the larger one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Optimize {
    /// Time: 1.4 bits per COT from a base vector of 2.5 MiB.
    Time,
    /// Traffic, for links below some 200 Mb/s: 0.7 bits per COT from a base vector of 5 MiB, which has fewer of its
    /// random accesses in the caches and takes about a third longer.
    Traffic,
}

impl Optimize {
    /// The name in commands, contracts and reports.
    pub fn name(self) -> &'static str {
        match self {
            Optimize::Time => "time",
            Optimize::Traffic => "traffic",
        }
    }
}

impl Size {
    pub(super) const fn new(field_bits: u32, log_segment: usize, depth: usize) -> Self {
        Size {
            field_bits,
            log_segment,
            depth,
            trees: OnceLock::new(),
        }
    }

    /// t, the number of trees of an extension.
    pub fn trees(&self) -> usize {
        *self
            .trees
            .get_or_init(|| primal::weight(self.field_bits, self.base(), self.leaves()))
    }

    /// k, the length of the base vector.
    pub fn base(&self) -> usize {
        ROW_WEIGHT << self.log_segment
    }

    /// COTs, or entries, of a tree.
    pub fn leaves(&self) -> usize {
        1 << self.depth
    }

    /// COTs that a tree consumes, or entries: one, whose x is the noise value.
    pub fn per_tree(&self) -> usize {
        if self.field_bits == 1 { self.depth } else { 1 }
    }

    /// COTs, or entries, that an extension consumes: k, and some per tree.
    pub fn consumed(&self) -> usize {
        self.base() + self.trees() * self.per_tree()
    }

    /// Trees whose COTs or entries the next extension consumes.
    pub fn reserved(&self) -> usize {
        self.consumed().div_ceil(self.leaves())
    }

    /// Bytes of the message of a tree: a masked sum per level, and for entries one of all leaves.
    pub fn message(&self) -> usize {
        let sums = if self.field_bits == 1 { 0 } else { 1 };
        16 * (self.depth + sums)
    }

    /// Extensions that make `count` COTs or entries, each of which keeps what the next one consumes.
    fn extensions(&self, count: usize) -> usize {
        let usable = (self.trees() - self.reserved()) * self.leaves();
        count.div_ceil(usable)
    }

    /// Trees that make `count` COTs or entries, refills included.
    fn grown(&self, count: usize) -> usize {
        let refills = self.extensions(count).saturating_sub(1);
        let reserved = refills.saturating_mul(self.reserved());
        reserved.saturating_add(count.div_ceil(self.leaves()))
    }

    /// Bytes for `count` COTs or entries once there is a base.
    fn bytes(&self, count: usize) -> usize {
        self.grown(count).saturating_mul(self.message())
    }
}

/// The sizes of the extensions that make `expected` COTs with the fewest bytes, from the smallest up. Each makes
/// the first base of the next one; the OT extension makes that of the first, or all COTs if there is none.
pub fn sizes(expected: usize, optimize: Optimize) -> &'static [Size] {
    chain(&SIZES, |cots| cots.saturating_mul(16), expected, optimize)
}

/// [`sizes`] for entries over GF(2^`width`), the first of which are made from COTs.
///
/// # Panics
/// If `width` is neither 3 nor 4.
pub fn entry_sizes(width: u32, expected: usize, optimize: Optimize) -> &'static [Size] {
    let all: &'static [Size] = match width {
        3 => &EIGHT,
        4 => &SIXTEEN,
        _ => panic!("no sizes for entries of {width} bits"),
    };
    // At 1.4 bits per COT.
    let first = |entries: usize| (entries as u128 * 7 * u128::from(width) / 40) as usize;
    chain(all, first, expected, optimize)
}

/// The shortest run of `all` from its start that takes the fewest bytes. `first` gives those for a first base.
fn chain(
    all: &'static [Size],
    first: impl Fn(usize) -> usize,
    expected: usize,
    optimize: Optimize,
) -> &'static [Size] {
    let bytes = |count: usize| {
        let mut total = 0usize;
        // From the size that makes the COTs down to the first base.
        let needed = all[..count].iter().rev().fold(expected, |needed, size| {
            total = size.bytes(needed).saturating_add(total);
            size.consumed()
        });
        first(needed).saturating_add(total)
    };
    let most = match optimize {
        Optimize::Time => all.len() - 1,
        Optimize::Traffic => all.len(),
    };
    // A base vector longer than what it is for never pays.
    let most = all[..most].partition_point(|size| size.base() < expected);
    let count = (0..=most).min_by_key(|count| bytes(*count));
    &all[..count.unwrap_or(0)]
}

/// COTs that `expected` entries over GF(2^`width`) take: W for each entry of the first base, and one for each level of each
/// tree.
///
/// # Panics
/// As [`entry_sizes`].
pub fn entry_cots(width: u32, expected: usize, optimize: Optimize) -> usize {
    let mut total = 0usize;
    let sizes = entry_sizes(width, expected, optimize).iter().rev();
    let first = sizes.fold(expected, |needed, size| {
        let levels = size.grown(needed).saturating_mul(size.depth);
        total = total.saturating_add(levels);
        size.consumed()
    });
    total.saturating_add(first.saturating_mul(width as usize))
}

/// Bits of security that the extensions of a source of `expected` COTs have together: an attack on whichever falls first
/// gains at most the logarithm of their number. This is one source: a run has one for each direction, and one of each for
/// every bucket. Whichever of B sources falls first takes log₂ B bits off the least κ among them at most.
pub fn kappa(expected: usize, optimize: Optimize) -> u32 {
    kappa_of(sizes(expected, optimize), expected)
}

/// [`kappa`] for a source of entries over GF(2^`width`): Δ has no more unknown bits than these either.
///
/// # Panics
/// As [`entry_sizes`].
pub fn entry_kappa(width: u32, expected: usize, optimize: Optimize) -> u32 {
    let unknown = match width {
        3 => Subfield::<3>::ENTRY,
        _ => Subfield::<4>::ENTRY,
    };
    kappa_of(entry_sizes(width, expected, optimize), expected).min(unknown.count_ones() - 1)
}

fn kappa_of(sizes: &[Size], expected: usize) -> u32 {
    let (_, extensions) =
        sizes
            .iter()
            .rev()
            .fold((expected, 0usize), |(needed, extensions), size| {
                let more = size.extensions(needed);
                (size.consumed(), extensions.saturating_add(more))
            });
    KAPPA as u32 - extensions.max(1).next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lpn::primal::Primal;

    /// 2^20 items take some 2^27 COTs in circuits, the largest sets up to 2^36.
    #[test]
    fn many_extensions_lose_the_logarithm_of_their_number() {
        for (expected, time, traffic) in [
            (1 << 12, 128, 128),
            (1 << 16, 128, 128),
            (1 << 20, 126, 126),
            (120_000_000, 122, 123),
            (1 << 28, 121, 122),
            (1 << 34, 115, 116),
            (1 << 36, 113, 114),
        ] {
            assert_eq!(kappa(expected, Optimize::Time), time, "{expected}");
            assert_eq!(kappa(expected, Optimize::Traffic), traffic, "{expected}");
        }
    }

    #[test]
    fn sizes_grow_with_the_number_of_cots() {
        let mut last = 0;
        for log in 0..40 {
            let count = sizes(1 << log, Optimize::Traffic).len();
            assert!(count >= last, "2^{log}");
            assert_eq!(sizes(1 << log, Optimize::Time).len(), count.min(2));
            last = count;
        }
        let steps = [(1 << 14, 0), (1 << 16, 1), (1 << 19, 2), (1 << 20, 3)];
        for (expected, count) in steps {
            assert_eq!(
                sizes(expected, Optimize::Traffic).len(),
                count,
                "{expected}"
            );
        }
    }

    #[test]
    fn an_extension_makes_several_times_what_it_consumes() {
        for (size, trees) in SIZES.iter().zip([1280, 2560, 3072]) {
            assert_eq!(size.trees(), trees);
            assert!(size.trees() > 5 * size.reserved());
            assert_eq!(size.base(), 160 * size.leaves());
        }
    }

    /// Numbers of bytes beyond what fits are as good as infinite.
    #[test]
    fn any_number_can_be_expected() {
        for expected in [usize::MAX, usize::MAX / 16, usize::MAX >> 8] {
            assert_eq!(sizes(expected, Optimize::Traffic).len(), SIZES.len());
            assert_eq!(entry_sizes(4, expected, Optimize::Traffic).len(), 2);
            assert!(entry_cots(4, expected, Optimize::Time) > expected >> 8);
        }
    }

    /// What a refill holds, in MiB: the base vector, its COTs for trees, the next ones, and what is left over.
    #[test]
    fn memory() {
        let bytes = |size: &Size| 16 * (size.consumed() + (size.reserved() + 1) * size.leaves());
        assert_eq!(bytes(&SIZES[2]).div_ceil(1 << 20), 12);
    }

    /// In hundredths, refills included.
    #[test]
    fn bits_per_cot() {
        let bits = |size: &Size| (800.0 * size.bytes(1 << 30) as f64 / (1 << 30) as f64) as u32;
        assert_eq!(SIZES.each_ref().map(bits), [853, 134, 72]);
        assert_eq!(EIGHT.each_ref().map(bits), [153, 83]);
        assert_eq!(SIXTEEN.each_ref().map(bits), [149, 81]);
    }

    /// With few entries there are no extensions, and all others withstand every attack.
    #[test]
    fn entries_of_every_number_are_secure() {
        for size in EIGHT.iter().chain(&SIXTEEN) {
            let instance = Primal {
                field_bits: size.field_bits,
                coefficient_bits: size.field_bits,
                secrets: size.base(),
                weight: size.trees(),
                block: size.leaves(),
            };
            for attack in primal::ATTACKS {
                let bits = instance.cost(attack).log2();
                assert!(bits >= KAPPA, "{size:?}, {}: 2^{bits}", attack.name);
            }
            assert!(size.trees() > 9 * size.reserved());
        }
        for (log, width) in (8..=26).flat_map(|log| [(log, 3), (log, 4)]) {
            for optimize in [Optimize::Time, Optimize::Traffic] {
                let sizes = entry_sizes(width, 1 << log, optimize);
                assert!(sizes.iter().all(|size| size.field_bits == width));
                assert_eq!(sizes.is_empty(), log < 18, "2^{log}");
                let kappa = entry_kappa(width, 1 << log, optimize);
                assert!(kappa >= 122, "2^{log}: {kappa}");
            }
        }
    }

    /// COTs per entry, in thousandths, of the entries of 2^20 items and of few.
    #[test]
    fn entries_take_few_cots() {
        let thousandths = |width, expected| {
            let cots = entry_cots(width, expected, Optimize::Time);
            cots * 1000 / expected
        };
        assert_eq!([3, 4].map(|width| thousandths(width, 28_000_000)), [28, 34]);
        assert_eq!([3, 4].map(|width| thousandths(width, 1000)), [3000, 4000]);
    }
}
