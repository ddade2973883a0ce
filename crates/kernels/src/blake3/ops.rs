//! The hash, written once for every backend.

use std::array::from_fn;

/// Flags of the compression function (Table 3).
const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 1 << 1;
const ROOT: u32 = 1 << 3;
pub(super) const KEYED_HASH: u32 = 1 << 4;
pub(super) const DERIVE_KEY_MATERIAL: u32 = 1 << 6;

/// Bytes of a block.
pub(super) const BLOCK: usize = 64;

/// The most lanes of any backend.
pub(super) const MAX_LANES: usize = 16;

/// The first half of the initial value of SHA-256 (Table 1).
const IV: [u32; 4] = [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a];

/// Where the message words of each round come from in the next (Table 2).
const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];

/// One 32-bit word of each of several states.
pub(super) trait Lanes: Copy {
    /// How many states, at most [`MAX_LANES`].
    const COUNT: usize;

    fn splat(word: u32) -> Self;
    /// The first [`Lanes::COUNT`] of the words.
    fn from_words(words: &[u32; MAX_LANES]) -> Self;
    fn add(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Rotates right, by 16, 12, 8 or 7.
    fn rotate<const BITS: i32>(self) -> Self;
    /// The words of one block of each input, from byte `from` on, with zeros after its end.
    fn load(inputs: &[&[u8]; MAX_LANES], from: usize) -> [Self; 16];
    /// The eight words of each output, in the first [`Lanes::COUNT`] of `out`.
    fn store(words: [Self; 8], out: &mut [[u8; 32]; MAX_LANES]);
}

#[inline(always)]
pub(super) fn hash<'a, L: Lanes>(
    key: &[u8; 32],
    mode: u32,
    input: impl Fn(usize) -> &'a [u8],
    out: &mut [[u8; 32]],
) {
    let key: [L; 8] = from_fn(|i| {
        let word = key[4 * i..][..4].try_into().expect("four bytes");
        L::splat(u32::from_le_bytes(word))
    });
    for (index, out) in out.chunks_mut(L::COUNT).enumerate() {
        let mut inputs: [&[u8]; MAX_LANES] = [&[]; MAX_LANES];
        for (i, lane) in inputs.iter_mut().enumerate().take(out.len()) {
            *lane = input(index * L::COUNT + i);
        }
        let mut hashes = [[0; 32]; MAX_LANES];
        let lengths = inputs.map(|input| input.len().min(BLOCK) as u32);
        let flags = inputs.map(|input| {
            let last = if input.len() <= BLOCK {
                CHUNK_END | ROOT
            } else {
                0
            };
            mode | CHUNK_START | last
        });
        let (lengths, flags) = (L::from_words(&lengths), L::from_words(&flags));
        let first = compress(key, L::load(&inputs, 0), lengths, flags);
        L::store(first, &mut hashes);
        out.copy_from_slice(&hashes[..out.len()]);

        if inputs.iter().any(|input| input.len() > BLOCK) {
            let lengths = inputs.map(|input| input.len().saturating_sub(BLOCK) as u32);
            let lengths = L::from_words(&lengths);
            let flags = L::splat(mode | CHUNK_END | ROOT);
            L::store(
                compress(first, L::load(&inputs, BLOCK), lengths, flags),
                &mut hashes,
            );
            for ((out, hash), input) in out.iter_mut().zip(hashes).zip(inputs) {
                if input.len() > BLOCK {
                    *out = hash;
                }
            }
        }
    }
}

/// The compression function, for the chunk of index zero, cut to its chaining value.
#[inline(always)]
fn compress<L: Lanes>(value: [L; 8], message: [L; 16], length: L, flags: L) -> [L; 8] {
    let mut v: [L; 16] = from_fn(|i| match i {
        0..8 => value[i],
        8..12 => L::splat(IV[i - 8]),
        12 | 13 => L::splat(0),
        14 => length,
        _ => flags,
    });
    // Written out, so that no message word moves.
    round::<0, L>(&mut v, &message);
    round::<1, L>(&mut v, &message);
    round::<2, L>(&mut v, &message);
    round::<3, L>(&mut v, &message);
    round::<4, L>(&mut v, &message);
    round::<5, L>(&mut v, &message);
    round::<6, L>(&mut v, &message);
    from_fn(|i| v[i].xor(v[8 + i]))
}

#[inline(always)]
fn round<const R: usize, L: Lanes>(v: &mut [L; 16], message: &[L; 16]) {
    let order = const { order_of_round(R) };
    for i in 0..4 {
        let column = [i, 4 + i, 8 + i, 12 + i];
        mix(v, column, message[order[2 * i]], message[order[2 * i + 1]]);
    }
    for i in 0..4 {
        let diagonal = [i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4];
        mix(
            v,
            diagonal,
            message[order[8 + 2 * i]],
            message[order[9 + 2 * i]],
        );
    }
}

/// The order in which a round takes the message words.
const fn order_of_round(round: usize) -> [usize; 16] {
    let mut order = [0; 16];
    let mut i = 0;
    while i < 16 {
        order[i] = i;
        let mut r = 0;
        while r < round {
            order[i] = PERMUTATION[order[i]];
            r += 1;
        }
        i += 1;
    }
    order
}

/// The function G.
#[inline(always)]
fn mix<L: Lanes>(v: &mut [L; 16], [a, b, c, d]: [usize; 4], x: L, y: L) {
    v[a] = v[a].add(x).add(v[b]);
    v[d] = v[d].xor(v[a]).rotate::<16>();
    v[c] = v[c].add(v[d]);
    v[b] = v[b].xor(v[c]).rotate::<12>();
    v[a] = v[a].add(y).add(v[b]);
    v[d] = v[d].xor(v[a]).rotate::<8>();
    v[c] = v[c].add(v[d]);
    v[b] = v[b].xor(v[c]).rotate::<7>();
}
