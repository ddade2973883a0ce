//! From three candidates per bin to one string: the second OPPRF of a private set membership test.
//!
//! CGS22, PSM2, figure 7, steps 1 and 2. After an OPPRF with several candidates the roles change: the party with
//! candidates becomes the sender, with the tags of a bin's candidates as points; the other one becomes the receiver,
//! and asks for its bin's tag. In the figure, the sender's target for all points of a bin is one random string t. Then
//! the receiver's one candidate equals t if and only if its tag was among the sender's candidates, and an equality
//! test finishes the job (step 3).
//!
//! A point's number is that of its candidate in [`Strings`]. So a target can also carry what came with the candidate,
//! under a mask that its sender keeps.
//!
//! Both parties use [`Opprf::plan_second`], [`points`] or [`queries`], and an [`Opprf`] with either hint of one
//! candidate. The figure uses [`TableHint`](super::TableHint); [`OkvsHint`](super::OkvsHint) is smaller and slower.
//!
//! **λ.** This is a run of its own: the caller gives each of the two half of its share.

use vesica_primitives::block::Block;
use vesica_primitives::oracle::Oracle;

use super::{BatchOprf, Hint, Key, Opprf, Points, Queries, Shape, Strings, derived};
use crate::Params;

impl<O: BatchOprf, H: Hint> Opprf<O, H> {
    /// The shape of this OPPRF as the second one, for as many candidates per bin as the first one has, or nothing if it
    /// cannot reach the λ of `params`. All its queries have bins.
    pub fn plan_second(
        &self,
        first: &Shape,
        candidates: usize,
        payload_bits: u32,
    ) -> Option<Shape> {
        let params = Params {
            receiver_size: first.bins,
            sender_size: candidates * first.bins,
            session: derived("vesica/1 opprf membership", &first.params.session),
            ..first.params.clone()
        };
        self.shape_of(&params, payload_bits, &[(0, first.bins)])
    }
}

/// The keys of the tags of all bins, `each` per bin. A tag that repeats in a bin counts how often: nobody asks for a
/// second copy, and its key is as random as any.
fn keys(shape: &Shape, tags: &[Block], each: usize) -> Vec<Key> {
    let oracle = Oracle::new("vesica/1 opprf membership key", &shape.params.session);
    let bins = tags.chunks(each).enumerate();
    let inputs: Vec<[u8; 32]> = bins
        .flat_map(|(bin, tags)| {
            let repeats = |i: usize| tags[..i].iter().filter(|tag| **tag == tags[i]).count();
            let place = move |i| Block::from(bin as u64) << 64 | repeats(i) as Block;
            (0..each).map(move |i| bytemuck::must_cast([tags[i], place(i)]))
        })
        .collect();
    let mut keys = vec![[0; 32]; inputs.len()];
    oracle.hash_many(&inputs, &mut keys);
    keys
}

/// The points of the party that has the candidates.
///
/// # Panics
/// If `strings` does not fit `shape`.
pub fn points(shape: &Shape, strings: &Strings) -> Points {
    let each = strings.candidates();
    assert_eq!(strings.tags().len(), shape.params.sender_size);
    let ends = (1..=shape.bins).map(|bin| (bin * each) as u32);
    Points::new(ends.collect(), keys(shape, strings.tags(), each))
}

/// The queries of the party that has one tag per bin.
///
/// # Panics
/// If there is not one tag per bin.
pub fn queries(shape: &Shape, tags: &[Block]) -> Queries {
    assert_eq!(tags.len(), shape.bins);
    let at = (0..shape.bins as u32).collect();
    Queries::new(shape.bins, at, keys(shape, tags, 1))
}
