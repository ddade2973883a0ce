use super::*;
use ::aes::Aes128;
use ::aes::cipher::{BlockCipherEncrypt, KeyInit};

#[test]
fn bits_are_the_highest_of_each_block_under_each_key() {
    let blocks: [u128; BITS] = std::array::from_fn(|j| (0x9e37_79b9 * (j as u128 + 1)) << (j % 90));
    for count in [0, 1, 7, 130] {
        let secrets: Vec<u128> = (0..count).map(|i| (i as u128) << 100 | 77).collect();
        let keys: Vec<Key> = secrets.iter().map(|key| Key::new(*key)).collect();
        for backend in Backend::ALL {
            let mut out = vec![5; count];
            bits(backend, &keys, &blocks, &mut out);
            for (key, word) in secrets.iter().zip(&out) {
                for (j, block) in blocks.iter().enumerate() {
                    let bit = word >> j & 1;
                    assert_eq!(bit, expected(*key, *block) >> 127, "{backend:?} {j}");
                }
            }
        }
    }
}

/// One block by the `aes` crate.
fn expected(key: u128, block: u128) -> u128 {
    let mut block = block.to_le_bytes().into();
    Aes128::new(&key.to_le_bytes().into()).encrypt_block(&mut block);
    u128::from_le_bytes(block.into())
}

fn blocks(count: usize) -> Vec<u128> {
    let multiplier = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    (1..=count as u128)
        .map(|i| i.wrapping_mul(multiplier))
        .collect()
}

#[test]
fn published_vectors() {
    // FIPS 197, appendices B and C.1; keys and blocks are written most significant byte first there.
    let vectors: [[u128; 3]; 2] = [
        [
            0x2b7e1516_28aed2a6_abf71588_09cf4f3c,
            0x3243f6a8_885a308d_313198a2_e0370734,
            0x3925841d_02dc09fb_dc118597_196a0b32,
        ],
        [
            0x00010203_04050607_08090a0b_0c0d0e0f,
            0x00112233_44556677_8899aabb_ccddeeff,
            0x69c4e0d8_6a7b0430_d8cdb780_70b4c55a,
        ],
    ];
    for backend in Backend::ALL {
        for [key, text, image] in vectors.map(|v| v.map(u128::swap_bytes)) {
            let mut blocks = [text; 3];
            encrypt(backend, &Key::new(key), &mut blocks);
            assert_eq!(blocks, [image; 3], "{backend:?}");
        }
    }
}

#[test]
fn published_key_schedule() {
    if backend_name(Backend::Best) == "portable" {
        eprintln!("skipped: no AES instructions");
        return;
    }
    // FIPS 197, appendix A.1.
    let Key(round_keys) = &Key::new(0x2b7e1516_28aed2a6_abf71588_09cf4f3c_u128.swap_bytes());
    let expected: [u128; 2] = [
        0xa0fafe17_88542cb1_23a33939_2a6c7605,
        0xd014f9a8_c9ee2589_e13f0cc8_b6630ca6,
    ];
    assert_eq!(
        [round_keys[1], round_keys[10]],
        expected.map(u128::swap_bytes)
    );
}

#[test]
fn keys_are_expanded() {
    for key in blocks(200) {
        for backend in Backend::ALL {
            let mut block = [!key];
            encrypt(backend, &Key::new(key), &mut block);
            assert_eq!(block[0], expected(key, !key), "{backend:?}");
        }
    }
    let many: [u128; 5] = std::array::from_fn(|i| blocks(5)[i]);
    for (key, alone) in Key::expand(many).iter().zip(many.map(Key::new)) {
        assert_eq!(key.0, alone.0);
    }
}

#[test]
fn all_lengths() {
    let key = 0x0123_4567_89ab_cdef;
    let input = blocks(300);
    let images: Vec<u128> = input.iter().map(|x| expected(key, *x)).collect();
    let forward: Vec<u128> = images.iter().zip(&input).map(|(y, x)| y ^ x).collect();
    let key = Key::new(key);
    for backend in Backend::ALL {
        for count in 0..300 {
            // What follows the slice must stay.
            let mut out = input.clone();
            encrypt(backend, &key, &mut out[..count]);
            assert_eq!(out[..count], images[..count], "{backend:?}, {count}");
            assert_eq!(out[count..], input[count..], "{backend:?}, {count}");
            let mut out = input.clone();
            feed_forward(backend, &key, &mut out[..count]);
            assert_eq!(out[..count], forward[..count], "{backend:?}, {count}");
            assert_eq!(out[count..], input[count..], "{backend:?}, {count}");
        }
    }
}

#[test]
fn blocks_under_many_keys() {
    for count in [0, 1, 2, 3, 4, 5, 7, 16, 18, 20, 33, 70] {
        let keys = blocks(count);
        for planes in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 19] {
            let input: Vec<u128> = blocks(count * planes).iter().map(|x| !x).collect();
            let pairs = input.iter().zip(keys.iter().cycle());
            let forward: Vec<u128> = pairs.map(|(x, key)| expected(*key, *x) ^ x).collect();
            for backend in Backend::ALL {
                let mut out = input.clone();
                feed_forward_under_each(backend, &keys, &mut out);
                assert_eq!(out, forward, "{backend:?}, {count} keys, {planes} planes");
            }
        }
    }
}

#[test]
#[should_panic]
fn planes_are_whole() {
    feed_forward_under_each(Backend::Best, &[1, 2], &mut [0; 3]);
}

#[test]
fn all_families() {
    let secrets = [3, u128::MAX / 5];
    let input = blocks(301);
    let all: Vec<u128> = input
        .iter()
        .take(151)
        .flat_map(|p| secrets.map(|key| expected(key, *p) ^ p))
        .collect();
    let keys = secrets.map(Key::new);
    for backend in Backend::ALL {
        for count in (0..300usize).step_by(2) {
            let mut nodes = input.clone();
            let sums = children(backend, &keys, &mut nodes[..count]);
            assert_eq!(nodes[..count], all[..count], "{backend:?}, {count}");
            assert_eq!(nodes[count..], input[count..], "{backend:?}, {count}");
            let sum = |side: usize| {
                let nodes = all[..count].iter().skip(side).step_by(2);
                nodes.fold(0, |sum, node| sum ^ node)
            };
            assert_eq!(sums, [sum(0), sum(1)], "{backend:?}, {count}");
        }
    }
}

#[test]
#[should_panic]
fn children_are_pairs() {
    children(Backend::Best, &[Key::new(0), Key::new(1)], &mut [0; 5]);
}

#[test]
fn keys_do_not_show() {
    assert_eq!(format!("{:?}", Key::new(0x1234)), "Key(..)");
}

#[test]
fn bits_of_hashes_of_all_sums() {
    let secret = 0x0123_4567_89ab_cdef;
    let key = Key::new(secret);
    for offsets in [4, 8, 16] {
        let offsets: Vec<u128> = blocks(offsets).iter().map(|x| !x).collect();
        for count in [0, 1, 3, 4, 5, 8, 9, 16, 17, 33] {
            let inputs = blocks(count);
            let hash = |i: usize, u: usize| {
                let sum = inputs[i] ^ offsets[u];
                expected(secret, sum) ^ sum
            };
            let words = (count * offsets.len()).div_ceil(64);
            for rows in [1, 3] {
                for backend in Backend::ALL {
                    let mut out = vec![u64::MAX; rows * words];
                    hash_bits(backend, &key, &offsets, &inputs, &mut out);
                    for place in 0..64 * words {
                        let (i, u) = (place / offsets.len(), place % offsets.len());
                        for c in 0..rows {
                            let bit = match i < count {
                                true => (hash(i, u) >> (127 - c)) as u64 & 1,
                                false => 0,
                            };
                            let found = out[c * words + place / 64] >> (place % 64) & 1;
                            assert_eq!(found, bit, "{backend:?}, {count} inputs, {c}, {place}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
#[should_panic]
fn rows_of_bits_are_whole() {
    hash_bits(Backend::Best, &Key::new(0), &[0; 16], &[0; 5], &mut [0; 3]);
}
