//! AES-NI, eight blocks in flight, and VAES on 512-bit registers, thirty-two blocks in flight.
//!
//! All that is secret stays in registers and in the caller's slices: ends of slices are loaded and
//! stored under masks, or in smaller groups.

use core::arch::x86_64::*;

use super::ops::{self, Arithmetic};
use super::{BITS, Key};
use crate::Backend;

/// Whether [`expand`] and [`narrow`] may run.
#[inline]
pub(super) fn available(backend: Backend) -> bool {
    backend.allows(Backend::Avx2)
        && is_x86_feature_detected!("aes")
        && is_x86_feature_detected!("avx")
}

/// Whether [`wide`] may run.
#[inline]
pub(super) fn wide_available(backend: Backend) -> bool {
    backend.allows(Backend::Best)
        && available(backend)
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
}

macro_rules! instantiate {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?;)*) => {$(
        /// # Safety
        /// The CPU must have the features named in the attribute.
        #[target_feature(enable = "aes,avx")]
        pub(in super::super) unsafe fn $name($($arg: $ty),*) $(-> $ret)? {
            ops::$name::<Narrow>($($arg),*)
        }
    )*};
}

/// AES-NI.
pub(super) mod narrow {
    use super::*;

    instantiate!(
        fn encrypt(key: &Key, blocks: &mut [u128]);
        fn feed_forward(key: &Key, blocks: &mut [u128]);
        fn feed_forward_under_each(keys: &[u128], blocks: &mut [u128]);
        fn children(keys: &[Key; 2], nodes: &mut [u128]) -> [u128; 2];
        fn bits(keys: &[Key], blocks: &[u128; BITS], out: &mut [u128]);
        fn hash_words(key: &Key, offsets: &[u128], inputs: &[u128], out: &mut [u64]);
    );
}

/// Derives the ten further round keys of each key from its first.
///
/// # Safety
/// The CPU must have the features named in the attribute.
#[target_feature(enable = "aes,avx")]
pub(super) unsafe fn expand<const N: usize>(keys: &mut [Key; N]) {
    ops::expand::<Narrow, N>(keys);
}

/// Only used from the functions above, which is what makes the intrinsics below sound to call.
struct Narrow;

impl Arithmetic for Narrow {
    type Vector = __m128i;

    #[inline(always)]
    fn load(block: &u128) -> __m128i {
        // SAFETY: a block is 16 readable bytes; see `Narrow`.
        unsafe { _mm_loadu_si128(std::ptr::from_ref(block).cast()) }
    }

    #[inline(always)]
    fn store(block: &mut u128, value: __m128i) {
        // SAFETY: a block is 16 writable bytes; see `Narrow`.
        unsafe { _mm_storeu_si128(std::ptr::from_mut(block).cast(), value) };
    }

    #[inline(always)]
    fn zero() -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    fn add(a: __m128i, b: __m128i) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe { _mm_xor_si128(a, b) }
    }

    #[inline(always)]
    fn round(round: usize, x: __m128i, key: __m128i) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe {
            match round {
                0 => _mm_xor_si128(x, key),
                10 => _mm_aesenclast_si128(x, key),
                _ => _mm_aesenc_si128(x, key),
            }
        }
    }

    #[inline(always)]
    fn next_round_key(key: __m128i, constant: u8) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe {
            // The last column, rotated by a byte, in all four columns: the shift of rows in the last round
            // of AES then changes nothing, and what remains of it is the substitution and an addition. On
            // many machines that is faster than the instruction made for it.
            let last = _mm_shuffle_epi8(key, _mm_set1_epi32(0x0c0f_0e0d));
            let word = _mm_aesenclast_si128(last, _mm_set1_epi32(i32::from(constant)));
            let mut next = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
            next = _mm_xor_si128(next, _mm_slli_si128::<8>(next));
            _mm_xor_si128(next, word)
        }
    }

    #[inline(always)]
    fn shift_left(x: __m128i) -> __m128i {
        // SAFETY: see `Narrow`.
        unsafe { _mm_slli_epi64::<1>(x) }
    }

    #[inline(always)]
    fn highest_bits(x: &[__m128i; 8]) -> u8 {
        let mut bits = 0;
        for (i, [a, b]) in x.as_chunks::<2>().0.iter().enumerate() {
            // SAFETY: see `Narrow`.
            unsafe {
                let (a, b) = (_mm_castsi128_pd(*a), _mm_castsi128_pd(*b));
                bits |= _mm_movemask_pd(_mm_unpackhi_pd(a, b)) << (2 * i);
            }
        }
        bits as u8
    }
}

/// VAES with AVX-512.
pub(super) mod wide {
    use super::super::ops::ROUND_CONSTANTS;
    use super::super::{BITS, Key};
    use core::arch::x86_64::*;

    /// Blocks in a register.
    const LANES: usize = 4;

    /// The mask, by 64-bit words, of those of `count` blocks that are in register number `register`.
    #[inline(always)]
    fn mask(count: usize, register: usize) -> __mmask8 {
        let blocks = count.saturating_sub(LANES * register).min(LANES);
        ((1u32 << (2 * blocks)) - 1) as __mmask8
    }

    /// The first blocks of a slice, which may be too short: then the others are 0.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn load<const N: usize>(blocks: &[u128]) -> [__m512i; N] {
        let mut x = [_mm512_setzero_si512(); N];
        for (i, x) in x.iter_mut().enumerate() {
            let address = blocks.as_ptr().wrapping_add(LANES * i);
            // SAFETY: the mask allows only bytes of the slice.
            *x = unsafe { _mm512_maskz_loadu_epi64(mask(blocks.len(), i), address.cast()) };
        }
        x
    }

    /// Writes to a slice, which may be too short: then only what it can hold.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn store<const N: usize>(blocks: &mut [u128], x: &[__m512i; N]) {
        for (i, x) in x.iter().enumerate() {
            let address = blocks.as_mut_ptr().wrapping_add(LANES * i);
            // SAFETY: the mask allows only bytes of the slice.
            unsafe { _mm512_mask_storeu_epi64(address.cast(), mask(blocks.len(), i), *x) };
        }
    }

    /// A round key in every lane.
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn broadcast(round_key: &u128) -> __m512i {
        // SAFETY: a block is 16 readable bytes.
        let key = unsafe { _mm_loadu_si128(std::ptr::from_ref(round_key).cast()) };
        _mm512_broadcast_i32x4(key)
    }

    /// What encryption does with round key number `round`, from 0 to 10.
    #[target_feature(enable = "vaes,avx512f")]
    #[inline]
    fn step(round: usize, x: __m512i, key: __m512i) -> __m512i {
        match round {
            0 => _mm512_xor_si512(x, key),
            10 => _mm512_aesenclast_epi128(x, key),
            _ => _mm512_aesenc_epi128(x, key),
        }
    }

    /// Encrypts the rows of `x`, each under its own key.
    #[target_feature(enable = "vaes,avx512f")]
    #[inline]
    fn rounds<const K: usize, const N: usize>(keys: [&Key; K], x: &mut [[__m512i; N]; K]) {
        for round in 0..11 {
            for (key, x) in keys.iter().zip(x.iter_mut()) {
                let key = broadcast(&key.0[round]);
                for x in x {
                    *x = step(round, *x, key);
                }
            }
        }
    }

    /// Up to N registers of blocks.
    #[target_feature(enable = "vaes,avx512f")]
    #[inline]
    fn group<const FEED_FORWARD: bool, const N: usize>(key: &Key, blocks: &mut [u128]) {
        let mut x = [load::<N>(blocks)];
        rounds([key], &mut x);
        if FEED_FORWARD {
            for (x, block) in x[0].iter_mut().zip(load::<N>(blocks)) {
                *x = _mm512_xor_si512(*x, block);
            }
        }
        store(blocks, &x[0]);
    }

    #[target_feature(enable = "vaes,avx512f")]
    #[inline]
    fn all<const FEED_FORWARD: bool>(key: &Key, blocks: &mut [u128]) {
        let (groups, rest) = blocks.as_chunks_mut::<{ 8 * LANES }>();
        for blocks in groups {
            group::<FEED_FORWARD, 8>(key, blocks);
        }
        match rest.len() {
            0 => {}
            1..=LANES => group::<FEED_FORWARD, 1>(key, rest),
            _ => group::<FEED_FORWARD, 8>(key, rest),
        }
    }

    /// See [`super::super::encrypt`].
    ///
    /// # Safety
    /// The CPU must have the features named in the attribute.
    #[target_feature(enable = "vaes,avx512f")]
    pub(in super::super) unsafe fn encrypt(key: &Key, blocks: &mut [u128]) {
        all::<false>(key, blocks);
    }

    /// See [`super::super::feed_forward`].
    ///
    /// # Safety
    /// The CPU must have the features named in the attribute.
    #[target_feature(enable = "vaes,avx512f")]
    pub(in super::super) unsafe fn feed_forward(key: &Key, blocks: &mut [u128]) {
        all::<true>(key, blocks);
    }

    /// The truth table of a ⊕ b ⊕ c.
    const XOR: i32 = 0x96;

    /// The round keys after others.
    #[target_feature(enable = "vaes,avx512f,avx512bw")]
    #[inline]
    fn next_round_keys(keys: __m512i, constant: u8) -> __m512i {
        // As for one key.
        let last = _mm512_shuffle_epi8(keys, _mm512_set1_epi32(0x0c0f_0e0d));
        let word = _mm512_aesenclast_epi128(last, _mm512_set1_epi32(i32::from(constant)));
        let next = _mm512_xor_si512(keys, _mm512_bslli_epi128::<4>(keys));
        _mm512_ternarylogic_epi64::<XOR>(next, _mm512_bslli_epi128::<8>(next), word)
    }

    /// The blocks of R registers of keys or fewer, number `first` and those after it, in P planes of `width` blocks.
    /// Round keys are made as they are used.
    #[target_feature(enable = "vaes,avx512f,avx512bw")]
    #[inline]
    fn columns<const R: usize, const P: usize>(
        keys: &[u128],
        (first, width): (usize, usize),
        planes: &mut [u128],
    ) {
        let place = |plane: usize| plane * width + first..plane * width + first + keys.len();
        let mut round_keys = load::<R>(keys);
        let mut x = [[_mm512_setzero_si512(); R]; P];
        for (plane, x) in x.iter_mut().enumerate() {
            *x = load(&planes[place(plane)]);
            for (x, key) in x.iter_mut().zip(round_keys) {
                *x = step(0, *x, key);
            }
        }
        for (round, constant) in (1..).zip(ROUND_CONSTANTS) {
            for keys in &mut round_keys {
                *keys = next_round_keys(*keys, constant);
            }
            for x in &mut x {
                for (x, key) in x.iter_mut().zip(round_keys) {
                    *x = step(round, *x, key);
                }
            }
        }
        for (plane, x) in x.iter_mut().enumerate() {
            let blocks = &mut planes[place(plane)];
            for (x, block) in x.iter_mut().zip(load::<R>(blocks)) {
                *x = _mm512_xor_si512(*x, block);
            }
            store(blocks, x);
        }
    }

    /// All blocks of P planes, those of R registers of keys at a time.
    #[target_feature(enable = "vaes,avx512f,avx512bw")]
    #[inline]
    fn planes<const R: usize, const P: usize>(keys: &[u128], planes: &mut [u128]) {
        for (group, first) in keys.chunks(R * LANES).zip((0..).step_by(R * LANES)) {
            match group.len() {
                1..=LANES => columns::<1, P>(group, (first, keys.len()), planes),
                _ => columns::<R, P>(group, (first, keys.len()), planes),
            }
        }
    }

    /// As many keys and planes at a time as fit into thirty-two registers. See
    /// [`super::super::feed_forward_under_each`].
    ///
    /// # Safety
    /// The CPU must have the features named in the attribute.
    #[target_feature(enable = "vaes,avx512f,avx512bw")]
    pub(in super::super) unsafe fn feed_forward_under_each(keys: &[u128], blocks: &mut [u128]) {
        let width = keys.len();
        for eight in blocks.chunks_mut(8 * width.max(1)) {
            match eight.len() / width {
                1 => planes::<4, 1>(keys, eight),
                2 => planes::<4, 2>(keys, eight),
                3 => planes::<4, 3>(keys, eight),
                4 => planes::<4, 4>(keys, eight),
                5 => planes::<2, 5>(keys, eight),
                6 => planes::<2, 6>(keys, eight),
                7 => planes::<2, 7>(keys, eight),
                _ => planes::<2, 8>(keys, eight),
            }
        }
    }

    /// Parents whose children are made together.
    const FAMILY: usize = 4 * LANES;

    /// The children of the parents from `start` up to `end`, at most [`FAMILY`], added to the sums:
    /// two lanes each, left, right, left, right.
    #[target_feature(enable = "vaes,avx512f")]
    #[inline]
    fn family(keys: &[Key; 2], nodes: &mut [u128], start: usize, end: usize, sums: &mut __m512i) {
        let first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
        let second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
        let parents = load::<{ FAMILY / LANES }>(&nodes[start..end]);
        let mut x = [parents; 2];
        rounds([&keys[0], &keys[1]], &mut x);
        let children = &mut nodes[2 * start..2 * end];
        let mut out = [_mm512_setzero_si512(); 2 * FAMILY / LANES];
        for (i, parents) in parents.into_iter().enumerate() {
            let [left, right] = [x[0][i], x[1][i]].map(|x| _mm512_xor_si512(x, parents));
            for (j, order) in [first, second].into_iter().enumerate() {
                let pairs = _mm512_permutex2var_epi64(left, order, right);
                let known = mask(children.len(), 2 * i + j);
                *sums = _mm512_mask_xor_epi64(*sums, known, *sums, pairs);
                out[2 * i + j] = pairs;
            }
        }
        store(children, &out);
    }

    /// See [`super::super::children`].
    ///
    /// # Safety
    /// The CPU must have the features named in the attribute.
    #[target_feature(enable = "vaes,avx512f")]
    pub(in super::super) unsafe fn children(keys: &[Key; 2], nodes: &mut [u128]) -> [u128; 2] {
        let parents = nodes.len() / 2;
        let mut sums = _mm512_setzero_si512();
        let grouped = parents / FAMILY * FAMILY;
        // From the back, so that no child takes the place of a parent that is still needed.
        if grouped < parents {
            family(keys, nodes, grouped, parents, &mut sums);
        }
        let (nodes, _) = nodes.split_at_mut(2 * grouped);
        for start in (0..grouped).step_by(FAMILY).rev() {
            family(keys, nodes, start, start + FAMILY, &mut sums);
        }
        let mut lanes = [0; LANES];
        store(&mut lanes, &[sums]);
        [lanes[0] ^ lanes[2], lanes[1] ^ lanes[3]]
    }

    /// Registers that [`bits`] keeps in flight.
    const FLIGHT: usize = 8;

    /// See [`super::super::bits`].
    ///
    /// # Safety
    /// The CPU must have the features named in the attribute.
    #[target_feature(enable = "vaes,avx512f")]
    pub(in super::super) unsafe fn bits(keys: &[Key], blocks: &[u128; BITS], out: &mut [u128]) {
        // Of each eight blocks, those of even and of odd number: the high words of a pair of registers,
        // interleaved, are in order again.
        let evens = _mm512_set_epi64(13, 12, 9, 8, 5, 4, 1, 0);
        let odds = _mm512_set_epi64(15, 14, 11, 10, 7, 6, 3, 2);
        let mut apart = [_mm512_setzero_si512(); BITS / LANES];
        let (eights, _) = blocks.as_chunks::<{ 2 * LANES }>();
        for (pair, eight) in apart.as_chunks_mut::<2>().0.iter_mut().zip(eights) {
            let [a, b] = load::<2>(eight);
            *pair = [evens, odds].map(|order| _mm512_permutex2var_epi64(a, order, b));
        }
        let (groups, _) = apart.as_chunks::<FLIGHT>();
        for (key, out) in keys.iter().zip(out) {
            *out = 0;
            for (i, group) in groups.iter().enumerate() {
                let mut x = [*group];
                rounds([key], &mut x);
                let mut bytes = 0;
                for (j, pair) in x[0].as_chunks::<2>().0.iter().enumerate() {
                    let high = _mm512_unpackhi_epi64(pair[0], pair[1]);
                    let negative = _mm512_cmplt_epi64_mask(high, _mm512_setzero_si512());
                    bytes |= u32::from(negative) << (8 * j);
                }
                *out |= u128::from(bytes) << (32 * i);
            }
        }
    }

    /// Registers with 64 hashes.
    const WORD: usize = 64 / LANES;

    /// All hashes of N registers of offsets, for P inputs at a time: P·N registers, a word of each row.
    #[target_feature(enable = "vaes,avx512f")]
    #[inline]
    fn groups<const N: usize, const P: usize>(
        key: &Key,
        offsets: &[u128],
        inputs: &[u128],
        out: &mut [u64],
    ) {
        let words = inputs.len().div_ceil(P);
        let offsets = load::<N>(offsets);
        let odds = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
        let (whole, rest) = inputs.as_chunks::<P>();
        // Beyond the last input its hashes are made again; the caller clears their bits.
        let rest = rest
            .last()
            .map(|last| std::array::from_fn(|i| rest.get(i).unwrap_or(last)));
        let groups = whole.iter().map(|group| std::array::from_fn(|i| &group[i]));
        for (word, group) in groups.chain(rest).enumerate() {
            let group: [&u128; P] = group;
            let mut sums = [_mm512_setzero_si512(); WORD];
            for (i, sum) in sums.iter_mut().enumerate() {
                *sum = _mm512_xor_si512(broadcast(group[i / N]), offsets[i % N]);
            }
            let mut x = [sums];
            rounds([key], &mut x);
            let mut high = [_mm512_setzero_si512(); WORD / 2];
            for (i, high) in high.iter_mut().enumerate() {
                let [a, b] = [2 * i, 2 * i + 1].map(|i| _mm512_xor_si512(x[0][i], sums[i]));
                *high = _mm512_permutex2var_epi64(a, odds, b);
            }
            for row in out.chunks_exact_mut(words) {
                row[word] = 0;
                for (i, high) in high.iter_mut().enumerate() {
                    let negative = _mm512_cmplt_epi64_mask(*high, _mm512_setzero_si512());
                    row[word] |= u64::from(negative) << (8 * i);
                    *high = _mm512_slli_epi64::<1>(*high);
                }
            }
        }
    }

    /// See [`super::super::hash_words`].
    ///
    /// # Safety
    /// The CPU must have the features named in the attribute.
    #[target_feature(enable = "vaes,avx512f")]
    pub(in super::super) unsafe fn hash_words(
        key: &Key,
        offsets: &[u128],
        inputs: &[u128],
        out: &mut [u64],
    ) {
        match offsets.len() {
            4 => groups::<1, 16>(key, offsets, inputs, out),
            8 => groups::<2, 8>(key, offsets, inputs, out),
            _ => groups::<4, 4>(key, offsets, inputs, out),
        }
    }
}
