//! Sizes of extensions, and which of them a run needs.

use std::sync::OnceLock;

use crate::lpn::KAPPA;
use crate::lpn::primal::{self, ROW_WEIGHT};

/// An extension's size. k and d are chosen, t follows ([`primal::weight`]).
#[derive(Debug)]
pub struct Size {
    /// log₂ of k/10, the length of each of the ten segments of the base vector.
    pub log_segment: usize,
    /// d, the depth of a tree: 2^d COTs per tree.
    pub depth: usize,
    /// t, the number of trees, once it is known.
    pub(super) trees: OnceLock<usize>,
}

/// Base vectors of 320 KiB, 2.5 MiB and 5 MiB. A leaf is noise with probability 2^-d, and k·2^-d is 160: what
/// is secret is hidden by as much noise in all sizes.
static SIZES: [Size; 3] = [Size::new(11, 7), Size::new(14, 10), Size::new(15, 11)];

/// What long runs save. Short runs do not differ. Of two sides the one that saves more bytes is the larger one.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Optimize {
    /// Time: 1.4 bits per COT from a base vector of 2.5 MiB.
    Time,
    /// Traffic, for links below some 60 Mb/s: 0.7 bits per COT from a base vector of 5 MiB, which has fewer of its
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
    pub(super) const fn new(log_segment: usize, depth: usize) -> Self {
        Size {
            log_segment,
            depth,
            trees: OnceLock::new(),
        }
    }

    /// t, the number of trees of an extension.
    pub fn trees(&self) -> usize {
        *self
            .trees
            .get_or_init(|| primal::weight(self.base(), self.leaves()))
    }

    /// k, the length of the base vector.
    pub fn base(&self) -> usize {
        ROW_WEIGHT << self.log_segment
    }

    /// COTs of a tree.
    pub fn leaves(&self) -> usize {
        1 << self.depth
    }

    /// COTs that an extension consumes: k, and d per tree.
    pub fn consumed(&self) -> usize {
        self.base() + self.trees() * self.depth
    }

    /// Trees whose COTs the next extension consumes.
    pub fn reserved(&self) -> usize {
        self.consumed().div_ceil(self.leaves())
    }

    /// Bytes of the message of a tree: a masked sum per level.
    pub fn message(&self) -> usize {
        16 * self.depth
    }

    /// Extensions that make `count` COTs, each of which keeps what the next one consumes.
    fn extensions(&self, count: usize) -> usize {
        let usable = (self.trees() - self.reserved()) * self.leaves();
        count.div_ceil(usable)
    }

    /// Bytes for `count` COTs once there is a base.
    fn bytes(&self, count: usize) -> usize {
        let refills = self.extensions(count).saturating_sub(1);
        refills
            .saturating_mul(self.reserved())
            .saturating_add(count.div_ceil(self.leaves()))
            .saturating_mul(self.message())
    }
}

/// The sizes of the extensions that make `expected` COTs with the fewest bytes, from the smallest up. Each makes
/// the first base of the next one; the OT extension makes that of the first, or all COTs if there is none.
pub fn sizes(expected: usize, optimize: Optimize) -> &'static [Size] {
    let bytes = |count: usize| {
        let mut total = 0usize;
        // From the size that makes the COTs down to the OT extension.
        let needed = SIZES[..count].iter().rev().fold(expected, |needed, size| {
            total = size.bytes(needed).saturating_add(total);
            size.consumed()
        });
        needed.saturating_mul(16).saturating_add(total)
    };
    let most = match optimize {
        Optimize::Time => SIZES.len() - 1,
        Optimize::Traffic => SIZES.len(),
    };
    // A base vector longer than what it is for never pays.
    let most = SIZES[..most].partition_point(|size| size.base() < expected);
    let count = (0..=most).min_by_key(|count| bytes(*count));
    &SIZES[..count.unwrap_or(0)]
}

/// Bits of security that the extensions of a source of `expected` COTs have together: an attack on whichever falls first
/// gains at most the logarithm of their number. This is one source: a run has one for each direction, and one of each for
/// every bucket. Whichever of B sources falls first takes log₂ B bits off the least κ among them at most.
pub fn kappa(expected: usize, optimize: Optimize) -> u32 {
    // From the size that makes the COTs down.
    let (_, extensions) = sizes(expected, optimize).iter().rev().fold(
        (expected, 0usize),
        |(needed, extensions), size| {
            let more = size.extensions(needed);
            (size.consumed(), extensions.saturating_add(more))
        },
    );
    KAPPA as u32 - extensions.max(1).next_power_of_two().ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn any_number_of_cots_can_be_expected() {
        for expected in [usize::MAX, usize::MAX / 16, usize::MAX >> 8] {
            assert_eq!(sizes(expected, Optimize::Traffic).len(), SIZES.len());
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
    }
}
