//! The order in which an additive Fourier transform goes through its blocks, whatever its field and basis: depth first,
//! so that a part is finished while it is near.

/// Transforms of at most 2^this elements go layer by layer; larger ones split first, to stay in cache.
pub(crate) const LOG_IN_CACHE: u32 = 10;

/// Which way a transform goes.
pub(crate) trait Direction {
    /// From coefficients to values: a butterfly is `a += t·b`, then `b += a`. Otherwise from values to coefficients:
    /// `b += a`, then `a += t·b`.
    const FORWARD: bool;

    /// Layer number i in order of use, of `count` layers: forward, large blocks come first.
    #[inline(always)]
    fn layer(i: u32, count: u32) -> u32 {
        if Self::FORWARD { count - 1 - i } else { i }
    }
}

/// From coefficients to values.
pub(crate) struct Forward;

impl Direction for Forward {
    const FORWARD: bool = true;
}

/// From values to coefficients.
pub(crate) struct Inverse;

impl Direction for Inverse {
    const FORWARD: bool = false;
}

/// The butterflies of a transform.
pub(crate) trait Layers {
    type Element;
    type Direction: Direction;

    /// One layer of one block of 2^(`layer` + 1) elements, which stands at `position` in the transform.
    fn layer(&self, block: &mut [Self::Element], layer: u32, position: u64);

    /// All layers of blocks of 2^`log` elements, at most 2^[`LOG_IN_CACHE`]; the first one stands at `position`.
    fn in_cache(&self, blocks: &mut [Self::Element], log: u32, position: u64);
}

/// Transforms every block of 2^`log_size` elements.
#[inline(always)]
pub(crate) fn transform<L: Layers>(layers: &L, data: &mut [L::Element], log_size: u32) {
    let position = |start: usize| start as u64 & ((1 << log_size) - 1);
    let log = log_size.min(LOG_IN_CACHE);
    for start in (0..data.len()).step_by(1 << LOG_IN_CACHE) {
        let end = data.len().min(start + (1 << LOG_IN_CACHE));
        if L::Direction::FORWARD {
            // Every larger block that this part begins, largest first.
            let begun = match start {
                0 => log_size,
                _ => log_size.min(start.trailing_zeros()),
            };
            for log in (log + 1..=begun).rev() {
                layers.layer(
                    &mut data[start..start + (1 << log)],
                    log - 1,
                    position(start),
                );
            }
            layers.in_cache(&mut data[start..end], log, position(start));
        } else {
            layers.in_cache(&mut data[start..end], log, position(start));
            // Every larger block that this part completes, smallest first.
            for log in log + 1..=log_size.min(end.trailing_zeros()) {
                let first = end - (1 << log);
                layers.layer(&mut data[first..end], log - 1, position(first));
            }
        }
    }
}
